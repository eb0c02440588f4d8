use bonfire::Persist;

#[derive(Persist)]
union Bits {
    number: u32,
    float: f32,
}

#[derive(Persist)]
struct Borrowing<'a> {
    name: &'a str,
}

#[derive(Persist)]
enum Never {}

#[derive(Persist)]
#[repr(packed)]
struct Packed {
    a: u8,
    b: u32,
}

fn main() {}

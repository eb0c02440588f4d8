//! The value of a field that is not saved is safe code: it stands in no `unsafe` block of the derive.

use bonfire::Persist;

unsafe fn any_number() -> u32 {
    7
}

#[derive(Persist)]
struct Counter {
    saved: u32,
    #[persist(skip, default = any_number())]
    seen: u32,
}

fn main() {}

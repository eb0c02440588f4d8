use bonfire::Persist;

struct NoDefault;

#[derive(Persist)]
struct Cached {
    value: f32,
    #[persist(skip)]
    cache: NoDefault,
}

fn main() {}

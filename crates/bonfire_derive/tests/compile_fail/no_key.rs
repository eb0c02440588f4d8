use bonfire::{Persist, Registry};

#[derive(Persist)]
struct Health(f32);

fn main() {
    let _ = Registry::new().register::<Health>();
}

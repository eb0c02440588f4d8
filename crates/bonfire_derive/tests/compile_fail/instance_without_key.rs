use bonfire::{Persist, Registry};

#[derive(Persist)]
#[persist(key = "game.slot<{T}>")]
struct Slot<T>(T);

fn main() {
    let _ = Registry::new().register::<Slot<u32>>();
}

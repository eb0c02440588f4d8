use bonfire::Persist;

struct Handle(*const u8);

#[derive(Persist)]
#[persist(key = "game.sprite")]
struct Sprite {
    layer: u8,
    handle: Handle,
}

fn main() {}

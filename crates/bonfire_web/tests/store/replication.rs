//! Two worlds on a page: one follows the other through messages.

use bonfire::engine::{ComponentTable, EntityMap};
use bonfire::{Delta, Persist, Result};
use bonfire_sync::{ClientId, Inbox, MirrorWorld, Receiver, SourceWorld, StreamOptions, StreamServer};
use bonfire_testkit::{Followed, ModelWorld};
use wasm_bindgen_test::wasm_bindgen_test;

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "test.health")]
struct Health(u32);

struct Server(Followed);

impl SourceWorld for Server {
    fn baseline(&mut self) -> Result<Delta> {
        self.0.whole()
    }
    fn changes(&mut self) -> Result<Delta> {
        self.0.changes()
    }
}

struct Client(ModelWorld);

impl MirrorWorld for Client {
    fn apply(&mut self, delta: &Delta, map: &mut EntityMap) -> Result<()> {
        self.0.apply_delta(delta, map)
    }
}

fn world() -> ModelWorld {
    let mut world = ModelWorld::new();
    world.register::<Health>().unwrap();
    world
}

#[wasm_bindgen_test]
fn a_mirror_follows_a_source() {
    let mut source = Server(Followed::new(world()).unwrap());
    let wolf = source.0.world.spawn();
    source.0.world.insert(wolf, Health(3));
    let mut server = StreamServer::new(StreamOptions::new(7));
    server.connect(ClientId(1));
    let mut mirror = Client(world());
    let mut receiver = Receiver::new(ComponentTable::of(mirror.0.registry()));
    let mut inbox = Inbox::new(Default::default());
    for health in [2, 1] {
        source.0.world.insert(wolf, Health(health));
        server.tick(&mut source).unwrap();
        for (_, message) in server.take_messages() {
            inbox.receive(message).unwrap();
        }
        inbox.begin_frame();
        while let Some(applied) = inbox.apply_next(&mut receiver, &mut mirror) {
            applied.unwrap();
        }
    }
    let here = mirror.0.entities()[0];
    assert_eq!(mirror.0.get::<Health>(here), Some(&Health(1)));
}

//! hecs worlds behind budgets and limits: a client that asks for too much, and a server that sends too much.

use bonfire_hecs::replication::{DeltaCapture, Mirrored, WorldMirror, WorldSource};
use bonfire_hecs::sync::{
    Answer, ClientId, Inbox, InboxLimits, MessageLimits, Receiver, StreamOptions, StreamServer, mirror_limits,
};
use bonfire_hecs::{Bonfire, Limits, Persist, SaveOptions};
use bytes::Bytes;
use hecs::World;

#[derive(Clone, Copy, Persist)]
#[persist(key = "test.x")]
struct X(f32);

const A: ClientId = ClientId(1);
const B: ClientId = ClientId(2);

struct Host {
    bonfire: Bonfire,
    world: World,
    deltas: DeltaCapture,
    server: StreamServer,
}

impl Host {
    fn new(options: StreamOptions, entities: usize) -> Self {
        let mut bonfire = Bonfire::new();
        bonfire.persist::<X>().unwrap().replicate::<X>().unwrap();
        let mut world = World::new();
        (0..entities).for_each(|number| _ = world.spawn((X(number as f32),)));
        Self { bonfire, world, deltas: DeltaCapture::of_replication(), server: StreamServer::new(options) }
    }

    fn tick(&mut self) -> Vec<(ClientId, Answer)> {
        let Self { bonfire, world, deltas, server } = self;
        server.tick(&mut WorldSource { bonfire, world, options: &SaveOptions::new(), deltas }).unwrap()
    }
}

#[test]
fn a_client_that_asks_in_every_tick_changes_no_byte_for_others() {
    let run = |asks: bool| {
        let options = StreamOptions { epsilon: Some(1.0), answer_bytes_start: 0, ..StreamOptions::new(7) };
        let mut host = Host::new(options, 200);
        host.server.connect(A);
        host.server.connect(B);
        let (mut to_b, mut later) = (Vec::<Bytes>::new(), 0);
        for _ in 0..30 {
            host.world.query_mut::<&mut X>().into_iter().for_each(|x| x.0 += 0.001);
            if asks {
                let table = host.bonfire.replication_schema().table().clone();
                host.server.receive(A, &Receiver::new(table).request().encode().unwrap()).unwrap();
            }
            later += host.tick().iter().filter(|(_, answer)| matches!(answer, Answer::Later { .. })).count();
            let sent = host.server.take_messages().into_iter();
            to_b.extend(sent.filter(|(client, _)| *client == B).map(|(_, message)| message));
        }
        (to_b, later)
    };
    let ((quiet, _), (loud, later)) = (run(false), run(true));
    assert!(quiet == loud);
    assert!(later >= 29, "{later} requests had to wait");
}

#[test]
fn a_world_never_mirrors_more_entities_than_its_limit() {
    let mut host = Host::new(StreamOptions::new(7), 0);
    host.server.connect(A);
    let mut client = World::new();
    let limits = Limits { entities_max: 50, ..mirror_limits() };
    let table = host.bonfire.replication_schema().table().clone();
    let mut receiver = Receiver::with_limits(table, limits.clone(), MessageLimits::default());
    let mut inbox = Inbox::new(InboxLimits::default());
    let mut refused = 0;
    for _ in 0..10 {
        (0..20).for_each(|number| _ = host.world.spawn((X(number as f32),)));
        host.tick();
        host.server.take_messages().into_iter().for_each(|(_, message)| inbox.receive(message).unwrap());
        inbox.begin_frame();
        let mut mirror = WorldMirror::new(&host.bonfire, &mut client).limits(limits.clone());
        while let Some(applied) = inbox.apply_next(&mut receiver, &mut mirror) {
            refused += usize::from(applied.is_err_and(|error| error.is_limit()));
        }
    }
    assert_eq!(client.query::<&Mirrored>().iter().count(), 40);
    assert!(refused > 0 && inbox.take_request(&receiver).unwrap().is_some());
}

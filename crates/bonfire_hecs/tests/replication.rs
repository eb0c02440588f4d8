//! Mirrors that follow a server over a bad connection, of Bevy and of hecs: whenever a mirror is at a tick, it has what the
//! server had at that tick.

#[path = "../../bevy_bonfire/tests/common/mod.rs"]
mod bevy_common;
mod common;

use std::collections::HashMap;

use bonfire_hecs::replication::{Delta, DeltaCapture, Granularity, Replicated};
use bonfire_hecs::sync::{
    Applied, CatchUpRequest, MessageCompression, Receiver, ReplicationStream, StreamOptions,
};
use bonfire_hecs::{EntityId, SaveOptions, Saved, Snapshot};
use bonfire_testkit::script::{Life, ScriptWorld, Step, scripts};
use bonfire_testkit::{Link, Weather, scale};
use bytes::Bytes;
use common::HecsWorld;
use hecs::Entity;
use proptest::prelude::*;

type BevyWorld = bevy_common::script::BevyWorld<128>;

/// What there is, entity by entity, in the order of the server's ids.
fn text(whole: Delta, id: impl Fn(EntityId) -> EntityId) -> String {
    let snapshot = Snapshot::default().with_delta(&whole.for_mirrors()).unwrap().canonical_by(id).unwrap();
    let json: serde_json::Value = serde_json::from_str(&snapshot.to_json().unwrap()).unwrap();
    format!("{}\n{}", json["archetypes"], json["resources"])
}

/// What a mirror has.
fn mirrored_text(whole: Delta, receiver: &Receiver) -> String {
    let remote: HashMap<EntityId, EntityId> =
        receiver.map().iter().map(|(remote, local)| (local, remote)).collect();
    text(whole, |local| remote[&local])
}

/// A world of some engine, on either side.
trait Side {
    fn server() -> Self;
    fn mirror() -> Self;
    fn go_on(&mut self, script: &[Step]);
    fn tick(&mut self, stream: &mut ReplicationStream) -> Vec<Bytes>;
    fn answer(&mut self, stream: &mut ReplicationStream, request: &CatchUpRequest) -> Vec<Bytes>;
    fn receiver(&mut self) -> Receiver;
    fn apply(&mut self, receiver: &mut Receiver, message: &Bytes) -> bonfire_hecs::Result<Applied>;
    fn told(&mut self) -> String;
    fn mirrored(&mut self, receiver: &Receiver) -> String;
}

struct Bevy {
    world: BevyWorld,
    life: Life<BevyWorld>,
    deltas: bevy_bonfire::replication::DeltaCapture,
}

impl Side for Bevy {
    fn server() -> Self {
        let mut world = BevyWorld::fresh(false);
        bevy_common::script::replicate(&mut world.0);
        Self {
            world,
            life: Life::default(),
            deltas: bevy_bonfire::replication::DeltaCapture::of_replication(),
        }
    }
    fn mirror() -> Self {
        let mut world = BevyWorld::fresh(true);
        bevy_common::script::replicate(&mut world.0);
        Self { world, life: Life::default(), deltas: bevy_bonfire::replication::DeltaCapture::of_mirror() }
    }
    fn go_on(&mut self, script: &[Step]) {
        use bevy_ecs::prelude::{Entity, With, Without};
        self.life.go_on(&mut self.world, script);
        let world = &mut self.world.0;
        let filter =
            world.query_filtered::<Entity, (With<bevy_bonfire::Saved>, Without<bevy_bonfire::replication::Replicated>)>();
        let unmarked: Vec<Entity> = { filter }.iter(world).collect();
        for entity in unmarked {
            world.entity_mut(entity).insert(bevy_bonfire::replication::Replicated);
        }
    }
    fn tick(&mut self, stream: &mut ReplicationStream) -> Vec<Bytes> {
        let mut source =
            bevy_bonfire::replication::WorldSource { world: &mut self.world.0, deltas: &mut self.deltas };
        stream.tick(&mut source).unwrap()
    }
    fn answer(&mut self, stream: &mut ReplicationStream, request: &CatchUpRequest) -> Vec<Bytes> {
        let mut source =
            bevy_bonfire::replication::WorldSource { world: &mut self.world.0, deltas: &mut self.deltas };
        stream.answer_unlimited(request, &mut source).unwrap()
    }
    fn receiver(&mut self) -> Receiver {
        Receiver::new(bevy_bonfire::replication::WorldMirror::new(&mut self.world.0).table().clone())
    }
    fn apply(&mut self, receiver: &mut Receiver, message: &Bytes) -> bonfire_hecs::Result<Applied> {
        receiver.apply(&mut bevy_bonfire::replication::WorldMirror::new(&mut self.world.0), message)
    }
    fn told(&mut self) -> String {
        text(
            bevy_bonfire::replication::DeltaCapture::of_replication().baseline(&mut self.world.0).unwrap(),
            |id| id,
        )
    }
    fn mirrored(&mut self, receiver: &Receiver) -> String {
        let whole = bevy_bonfire::replication::DeltaCapture::of_mirror().baseline(&mut self.world.0).unwrap();
        mirrored_text(whole, receiver)
    }
}

struct Hecs {
    world: HecsWorld,
    life: Life<HecsWorld>,
    deltas: DeltaCapture,
    options: SaveOptions,
}

impl Side for Hecs {
    fn server() -> Self {
        let (mut world, options) = (HecsWorld::fresh(false), SaveOptions::new());
        common::replicate(&mut world.bonfire).unwrap();
        Self { world, life: Life::default(), deltas: DeltaCapture::of_replication(), options }
    }
    fn mirror() -> Self {
        Self::server()
    }
    fn go_on(&mut self, script: &[Step]) {
        self.life.go_on(&mut self.world, script);
        let world = &mut self.world.world;
        let saved: Vec<Entity> = world.query::<Entity>().with::<&Saved>().iter().collect();
        saved.into_iter().for_each(|entity| world.insert_one(entity, Replicated).unwrap());
    }
    fn tick(&mut self, stream: &mut ReplicationStream) -> Vec<Bytes> {
        let HecsWorld { world, bonfire } = &self.world;
        let (options, deltas) = (&self.options, &mut self.deltas);
        stream.tick(&mut bonfire_hecs::replication::WorldSource { bonfire, world, options, deltas }).unwrap()
    }
    fn answer(&mut self, stream: &mut ReplicationStream, request: &CatchUpRequest) -> Vec<Bytes> {
        let HecsWorld { world, bonfire } = &self.world;
        let (options, deltas) = (&self.options, &mut self.deltas);
        stream
            .answer_unlimited(
                request,
                &mut bonfire_hecs::replication::WorldSource { bonfire, world, options, deltas },
            )
            .unwrap()
    }
    fn receiver(&mut self) -> Receiver {
        Receiver::new(self.world.bonfire.replication_schema().table().clone())
    }
    fn apply(&mut self, receiver: &mut Receiver, message: &Bytes) -> bonfire_hecs::Result<Applied> {
        let HecsWorld { world, bonfire } = &mut self.world;
        receiver.apply(&mut bonfire_hecs::replication::WorldMirror::new(bonfire, world), message)
    }
    fn told(&mut self) -> String {
        let HecsWorld { world, bonfire } = &self.world;
        text(DeltaCapture::of_replication().baseline(bonfire, world, &self.options).unwrap(), |id| id)
    }
    fn mirrored(&mut self, receiver: &Receiver) -> String {
        let HecsWorld { world, bonfire } = &self.world;
        let whole = DeltaCapture::of_mirror().baseline(bonfire, world, &SaveOptions::new()).unwrap();
        mirrored_text(whole, receiver)
    }
}

/// What a schedule is made of.
#[derive(Clone, Debug)]
struct Schedule {
    lives: Vec<Vec<Step>>,
    seed: u64,
    weather: u8,
    compressed: bool,
    by_field: bool,
    /// A ring so small that it never reaches back, or one that does.
    forgetful: bool,
    /// A client that comes at this tick.
    joins: usize,
}

fn schedules() -> impl Strategy<Value = Schedule> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (proptest::collection::vec(scripts(8), 3..10), any::<u64>(), 0..3_u8, flags, 0..10_usize).prop_map(
        |(lives, seed, weather, (compressed, by_field, forgetful), joins)| Schedule {
            lives,
            seed,
            weather,
            compressed,
            by_field,
            forgetful,
            joins,
        },
    )
}

struct Follower<M> {
    mirror: M,
    receiver: Receiver,
    link: Link<Bytes>,
    asked: u64,
}

impl<M: Side> Follower<M> {
    fn new(seed: u64, weather: Weather) -> Self {
        let mut mirror = M::mirror();
        let receiver = mirror.receiver();
        Self { mirror, receiver, link: Link::new(seed, weather), asked: 0 }
    }

    /// What has arrived, and a request now and then.
    fn step(&mut self, now: u64, states: &HashMap<u64, String>) -> Result<(), TestCaseError> {
        for message in self.link.at_client() {
            let applied = self.mirror.apply(&mut self.receiver, &message);
            match applied {
                Ok(Applied::Baseline | Applied::Delta) => {
                    let tick = self.receiver.tick().unwrap();
                    prop_assert_eq!(&self.mirror.mirrored(&self.receiver), &states[&tick], "tick {}", tick);
                }
                Ok(_) => {}
                Err(error) => return Err(TestCaseError::fail(error.to_string())),
            }
        }
        if self.receiver.tick() != Some(now) && self.asked < now {
            self.asked = now + 2;
            self.link.to_server(&self.receiver.request().encode().unwrap());
        }
        self.link.tick();
        Ok(())
    }
}

fn run<S: Side, M: Side>(schedule: &Schedule) -> Result<(), TestCaseError> {
    let weather = [Weather::FINE, Weather::RELIABLE, Weather::STORM][usize::from(schedule.weather)];
    let mut options = StreamOptions::new(schedule.seed | 1);
    options.compression =
        if schedule.compressed { MessageCompression::Lz4 } else { MessageCompression::None };
    options.granularity = if schedule.by_field { Granularity::Field } else { Granularity::Component };
    if schedule.forgetful {
        options.recent_messages_max = 1;
    }
    let mut stream = ReplicationStream::new(options);
    let mut server = S::server();
    let mut followers = vec![Follower::<M>::new(schedule.seed, weather)];
    let mut states = HashMap::new();
    let quiet = [const { Vec::new() }; 14];
    for (number, life) in schedule.lives.iter().chain(&quiet).enumerate() {
        if number == schedule.joins {
            let weather = if number < schedule.lives.len() { weather } else { Weather::FINE };
            followers.push(Follower::new(schedule.seed ^ 99, weather));
        }
        if number == schedule.lives.len() {
            followers.iter_mut().for_each(|follower| follower.link.set_weather(Weather::FINE));
        }
        server.go_on(life);
        let messages = server.tick(&mut stream);
        states.insert(stream.current_tick(), server.told());
        for follower in &mut followers {
            messages.iter().for_each(|message| follower.link.to_client(message));
            for request in follower.link.at_server() {
                let request = CatchUpRequest::decode(&request).unwrap();
                for message in server.answer(&mut stream, &request) {
                    follower.link.to_client(&message);
                }
            }
            follower.step(stream.current_tick(), &states)?;
        }
    }
    for follower in &mut followers {
        prop_assert_eq!(follower.receiver.tick(), Some(stream.current_tick()), "all arrive in the end");
        prop_assert_eq!(follower.mirror.mirrored(&follower.receiver), server.told());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12 * scale(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bevy_follows_bevy(schedule in schedules()) {
        run::<Bevy, Bevy>(&schedule)?;
    }

    #[test]
    fn hecs_follows_bevy(schedule in schedules()) {
        run::<Bevy, Hecs>(&schedule)?;
    }

    #[test]
    fn bevy_follows_hecs(schedule in schedules()) {
        run::<Hecs, Bevy>(&schedule)?;
    }

    #[test]
    fn hecs_follows_hecs(schedule in schedules()) {
        run::<Hecs, Hecs>(&schedule)?;
    }
}

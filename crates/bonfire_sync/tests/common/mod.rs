//! Model worlds that follow each other, and lives for them.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::collections::BTreeMap;
use std::sync::Arc;

use bonfire::engine::{ComponentTable, EntityMap};
use bonfire::{Delta, EntityId, Error, Persist, Result};
use bonfire_sync::{Applied, MirrorWorld, Receiver, ReplicationStream, SourceWorld, StreamOptions};
use bonfire_testkit::disk::Random;
use bonfire_testkit::{Followed, ModelWorld};
use bytes::Bytes;

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "test.position")]
pub struct Position {
    pub x: f32,
    pub y: f32,
}

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "test.name")]
pub struct Name(pub String);

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "test.follows")]
pub struct Follows(pub EntityId);

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "test.frozen")]
pub struct Frozen;

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "test.score")]
pub struct Score(pub u64);

pub fn world() -> ModelWorld {
    let mut world = ModelWorld::new();
    world.register::<Position>().unwrap();
    world.register::<Name>().unwrap();
    world.register::<Follows>().unwrap();
    world.register::<Frozen>().unwrap();
    world.register::<Score>().unwrap();
    world
}

pub fn table() -> Arc<ComponentTable> {
    ComponentTable::of(world().registry())
}

/// A world that is followed. What its source shall do next can be set.
pub struct Server {
    pub followed: Followed,
    pub stream: ReplicationStream,
    pub trouble: Trouble,
}

#[derive(Default)]
pub struct Trouble {
    /// The next changes are everything.
    pub cannot_tell: bool,
    /// The next changes are an error, after they were taken from the world.
    pub changes_fail: bool,
    /// Everything is an error, the next time.
    pub baseline_fails: bool,
    /// Given in the place of everything, once.
    pub not_everything: Option<Delta>,
    /// How often everything was asked for.
    pub baselines: usize,
}

pub struct Sides<'s>(pub &'s mut Followed, pub &'s mut Trouble);

impl SourceWorld for Sides<'_> {
    fn baseline(&mut self) -> Result<Delta> {
        self.1.baselines += 1;
        if std::mem::take(&mut self.1.baseline_fails) {
            return Err(Error::custom("the source has a bad day"));
        }
        self.1.not_everything.take().map_or_else(|| self.0.whole(), Ok)
    }
    fn changes(&mut self) -> Result<Delta> {
        let changes = self.0.changes()?;
        if std::mem::take(&mut self.1.changes_fail) {
            return Err(Error::custom("the source has a bad day"));
        }
        if std::mem::take(&mut self.1.cannot_tell) { self.0.whole() } else { Ok(changes) }
    }
}

impl Server {
    pub fn new(stream: u64) -> Self {
        Self::with(StreamOptions::new(stream))
    }
    pub fn with(options: StreamOptions) -> Self {
        let followed = Followed::new(world()).unwrap();
        Self { followed, stream: ReplicationStream::new(options), trouble: Trouble::default() }
    }
    pub fn world(&mut self) -> &mut ModelWorld {
        &mut self.followed.world
    }
    pub fn spawn(&mut self, x: f32) -> EntityId {
        let id = self.world().spawn();
        self.world().insert(id, Position { x, y: 0.0 });
        id
    }
    pub fn try_tick(&mut self) -> Result<Vec<Bytes>> {
        self.stream.tick(&mut Sides(&mut self.followed, &mut self.trouble))
    }
    /// The messages of a tick.
    pub fn ticks(&mut self) -> Vec<Bytes> {
        self.try_tick().unwrap()
    }
    /// The one message of a tick.
    #[track_caller]
    pub fn tick(&mut self) -> Bytes {
        let mut messages = self.ticks();
        assert_eq!(messages.len(), 1, "one message, as nobody has joined in between");
        messages.remove(0)
    }
    pub fn try_baseline(&mut self) -> Result<Bytes> {
        self.stream.baseline(&mut Sides(&mut self.followed, &mut self.trouble))
    }
    pub fn baseline(&mut self) -> Bytes {
        self.try_baseline().unwrap()
    }
    pub fn answer(&mut self, request: &bonfire_sync::CatchUpRequest) -> Vec<Bytes> {
        self.stream.answer_unlimited(request, &mut Sides(&mut self.followed, &mut self.trouble)).unwrap()
    }
}

/// A world that follows, and may fail half-way.
pub struct Client {
    pub mirror: FragileMirror,
    pub receiver: Receiver,
}

pub struct FragileMirror {
    pub world: ModelWorld,
    /// The next message is applied, but for its last step.
    pub breaks: bool,
    pub panics: bool,
}

impl MirrorWorld for FragileMirror {
    fn apply(&mut self, delta: &Delta, map: &mut EntityMap) -> Result<()> {
        if std::mem::take(&mut self.breaks) {
            // Entities that went are gone, and nothing else is done.
            for remote in delta.despawned() {
                if let Some(local) = map.remove(*remote) {
                    self.world.despawn(local);
                }
            }
            return Err(Error::custom("broken half-way"));
        }
        assert!(!std::mem::take(&mut self.panics), "the mirror panics");
        self.world.apply_delta(delta, map)
    }
}

impl Client {
    pub fn new() -> Self {
        Self::over(world())
    }
    pub fn over(world: ModelWorld) -> Self {
        let receiver = Receiver::new(ComponentTable::of(world.registry()));
        Self { mirror: FragileMirror { world, breaks: false, panics: false }, receiver }
    }
    pub fn try_apply(&mut self, message: &Bytes) -> Result<Applied> {
        self.receiver.apply(&mut self.mirror, message)
    }
    pub fn apply(&mut self, message: &Bytes) -> Applied {
        self.try_apply(message).unwrap()
    }
    /// Everything that the mirror has, in the source's ids.
    pub fn state(&self) -> State {
        let remote: BTreeMap<EntityId, EntityId> =
            self.receiver.map().iter().map(|(remote, local)| (local, remote)).collect();
        State::of(&self.mirror.world, |local| remote.get(&local).copied())
    }
}

/// A world as text that can be compared.
#[derive(Clone, Debug, PartialEq)]
pub struct State(Vec<(EntityId, String)>, Option<Score>);

impl State {
    fn of(world: &ModelWorld, name: impl Fn(EntityId) -> Option<EntityId>) -> Self {
        let describe = |id: EntityId| {
            // A reference to what is gone is the same, whatever it was.
            let follows = world
                .get::<Follows>(id)
                .map(|follows| Some(follows.0).filter(|target| world.contains(*target)).and_then(&name));
            let rest = (world.get::<Position>(id), world.get::<Name>(id), world.get::<Frozen>(id));
            (name(id).unwrap_or(EntityId::NULL), format!("{rest:?} {follows:?}"))
        };
        let mut entities: Vec<_> = world.entities().into_iter().map(describe).collect();
        entities.sort();
        Self(entities, world.resource::<Score>().cloned())
    }

    pub fn of_server(world: &ModelWorld) -> Self {
        Self::of(world, Some)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// A few random changes.
pub fn edit(world: &mut ModelWorld, random: &mut Random) {
    for _ in 0..random.below(6) {
        let entities = world.entities();
        let number = random.number();
        if entities.is_empty() || random.chance(20) {
            let id = world.spawn();
            if random.chance(70) {
                world.insert(id, Position { x: number as f32, y: 1.0 });
            }
            continue;
        }
        let id = *random.pick(&entities);
        let target = *random.pick(&entities);
        match random.below(11) {
            0 => world.despawn(id),
            1 => {
                // The same slot at once, in the same window.
                world.despawn(id);
                let id = world.spawn();
                world.insert(id, Name(format!("heir {number}")));
            }
            2 | 3 => world.insert(id, Name(format!("name {}", number % 50))),
            4 => world.insert(id, Follows(target)),
            5 => world.insert(id, Frozen),
            6 => world.remove::<Frozen>(id),
            7 => world.remove::<Position>(id),
            8 => world.insert_resource(Score(number)),
            9 => world.insert(id, Name(String::new())),
            _ => world.insert(id, Position { x: number as f32, y: 2.0 }),
        }
    }
}

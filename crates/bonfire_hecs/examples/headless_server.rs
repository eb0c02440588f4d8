//! A server without a window: it moves units by a fixed tick, saves, is stopped, and goes on in another process as if
//! nothing had happened. Clients keep their handles, because the world is loaded with the ids that it had.
//!
//! ```sh
//! cargo run -p bonfire_hecs --example headless_server              # in a temporary directory, which it removes
//! cargo run -p bonfire_hecs --example headless_server arena.save   # at a path, which it leaves
//! ```

use std::path::Path;

use bonfire_hecs::{Bonfire, Error, LoadMode, Persist, Result, SaveOptions};
use hecs::{Entity, World};

/// What is saved derives `Persist` and has a key: its name in every save, whatever the type is called one day.
#[derive(Persist, Clone, Copy, Debug, PartialEq)]
#[persist(key = "arena.position")]
struct Position {
    x: f32,
    y: f32,
}

#[derive(Persist, Clone, Copy, Debug, PartialEq)]
#[persist(key = "arena.velocity")]
struct Velocity {
    x: f32,
    y: f32,
}

/// A reference to another unit. Nothing is to be written for it.
#[derive(Persist, Clone, Copy, Debug, PartialEq)]
#[persist(key = "arena.chases")]
struct Chases(Entity);

/// Something that exists once: hecs has no resources, so it lies beside the world.
#[derive(Persist, Clone, Debug, PartialEq)]
#[persist(key = "arena.clock")]
struct Clock {
    tick: u64,
    random: u64,
}

/// Not registered: who is connected is no matter of a save.
struct Connection;

const TICK_SECONDS: f32 = 1.0 / 20.0;
const TICKS_BEFORE: u64 = 200;
const TICKS_AFTER: u64 = 300;

/// Everything that a process of the server has.
struct Server {
    world: World,
    clock: Clock,
    bonfire: Bonfire,
}

impl Server {
    /// As every process starts: with an empty world and the types that it saves.
    fn start() -> Result<Self> {
        let mut bonfire = Bonfire::new();
        bonfire.persist::<Position>()?.persist::<Velocity>()?.persist::<Chases>()?.persist::<Clock>()?;
        Ok(Self { world: World::new(), clock: Clock { tick: 0, random: 1 }, bonfire })
    }

    fn populate(&mut self) {
        for number in 0..100_u8 {
            let x = f32::from(number);
            let unit = (Position { x, y: 0.0 }, Velocity { x: 0.1, y: x * 0.01 });
            self.world.spawn(unit);
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        let next =
            self.clock.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.clock.random = next;
        (next >> 33) % below
    }

    /// All units, by id: the order in which hecs has them depends on components that are not saved.
    fn units(&self) -> Vec<(Entity, Position, Velocity, Option<Chases>)> {
        let mut query = self.world.query::<(Entity, &Position, &Velocity, Option<&Chases>)>();
        let mut units: Vec<_> = (query.iter())
            .map(|(unit, position, velocity, chases)| (unit, *position, *velocity, chases.copied()))
            .collect();
        units.sort_by_key(|unit| unit.0);
        units
    }

    /// One tick: units move, hunters turn to whom they chase, now and then one leaves and another comes.
    fn tick(&mut self) {
        self.clock.tick += 1;
        for (position, velocity) in self.world.query_mut::<(&mut Position, &Velocity)>() {
            position.x += velocity.x * TICK_SECONDS;
            position.y += velocity.y * TICK_SECONDS;
        }
        self.hunt();
        if self.clock.tick.is_multiple_of(7) {
            let units = self.units();
            let (leaving, prey) = (self.random(units.len() as u64), self.random(units.len() as u64));
            let prey = units[prey as usize].0;
            self.world.spawn((Position { x: 0.0, y: 0.0 }, Velocity { x: 0.0, y: 1.0 }, Chases(prey)));
            self.leave(units[leaving as usize].0);
        }
    }

    fn hunt(&self) {
        let places = self.world.view::<&Position>();
        for (hunter, velocity, chases) in &mut self.world.query::<(Entity, &mut Velocity, &Chases)>() {
            if let (Some(from), Some(to)) = (places.get(hunter), places.get(chases.0)) {
                *velocity = Velocity { x: to.x - from.x, y: to.y - from.y };
            }
        }
    }

    /// A unit leaves, and nobody chases it any more: a save would show references to what is gone in its report.
    fn leave(&mut self, unit: Entity) {
        let hunters: Vec<Entity> = (self.world.query::<(Entity, &Chases)>().iter())
            .filter(|(_, chases)| chases.0 == unit)
            .map(|(hunter, _)| hunter)
            .collect();
        for hunter in hunters {
            self.world.remove_one::<Chases>(hunter).expect("it chases");
        }
        self.world.despawn(unit).expect("it is there");
    }

    fn save(&mut self, path: &Path) -> Result<()> {
        let options = SaveOptions::new().resource(self.clock.clone()).metadata("tick", self.clock.tick);
        let saved = self.bonfire.save_to(&self.world, path, &options)?;
        println!("tick {}: saved {} entities in {} bytes", self.clock.tick, saved.entities, saved.bytes);
        Ok(())
    }

    fn load(&mut self, path: &Path) -> Result<()> {
        // All or nothing. `SameIds` needs a world that has nothing but what is saved: here it is empty.
        let mut loaded = self.bonfire.load_from(&mut self.world, path, LoadMode::SameIds)?;
        assert!(loaded.report.is_complete(), "nothing is unknown: {:?}", loaded.report);
        self.clock = loaded.take_resource::<Clock>().expect("every save of this server has it");
        println!("tick {}: loaded {} entities", self.clock.tick, loaded.report.entities);
        Ok(())
    }

    /// What a client would be told.
    fn look(&self, unit: Entity) -> Option<Position> {
        self.world.get::<&Position>(unit).ok().map(|position| *position)
    }
}

fn run(path: &Path) -> Result<()> {
    let mut server = Server::start()?;
    server.populate();
    (0..TICKS_BEFORE).for_each(|_| server.tick());
    // A client that is connected has a unit, and a handle of one that has left.
    let (mine, lost) = (server.units()[42].0, server.units()[43].0);
    server.world.insert_one(mine, Connection).expect("it is there");
    server.leave(lost);
    println!("tick {}: the client's unit {mine:?} is at {:?}", server.clock.tick, server.look(mine));
    server.save(path)?;

    // What would have been, had nobody stopped the server.
    (0..TICKS_AFTER).for_each(|_| server.tick());
    let (expected, expected_clock) = (server.units(), server.clock.clone());
    drop(server);

    println!("the server is stopped, and another process starts");
    let mut server = Server::start()?;
    server.load(path)?;
    assert!(server.look(mine).is_some(), "the client's handle is good");
    assert!(server.look(lost).is_none(), "and the one of a unit that left finds nothing");
    (0..TICKS_AFTER).for_each(|_| server.tick());
    println!("tick {}: the client's unit {mine:?} is at {:?}", server.clock.tick, server.look(mine));
    assert_eq!(server.look(lost), None, "also now that others have come");
    assert_eq!(server.units(), expected, "every unit and every id is what it would have been");
    assert_eq!(server.clock, expected_clock);
    println!("it is the world that it would have been, down to the ids of units that came since");
    Ok(())
}

fn main() -> Result<()> {
    if let Some(path) = std::env::args_os().nth(1) {
        return run(Path::new(&path));
    }
    let directory =
        tempfile::tempdir().map_err(|error| Error::io("cannot make a directory for the save", error))?;
    run(&directory.path().join("arena.save"))
}

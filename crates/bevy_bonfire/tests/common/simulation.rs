//! A game that changes everything in every tick, and stamps its state with a hash over all of it: a save that mixes two
//! ticks does not have the hash that is saved in it.

use std::collections::HashMap;

use bevy_app::{App, Last, Update};
use bevy_bonfire::prelude::*;
use bevy_bonfire::{SaveSystems, SimulationSet};
use bevy_ecs::prelude::*;
use bonfire_testkit::disk::Random;

use super::{Burning, Enemy, Follows, Health, Inventory, Position, Score, Team, register};

/// Who an entity is, whatever its id.
#[derive(Component, Persist, Clone, Copy, Debug, PartialEq, Eq)]
#[persist(key = "test.serial")]
pub struct Serial(pub u64);

/// What the simulation needs to go on.
#[derive(Resource, Persist, Clone, Debug, PartialEq, Eq, Default)]
#[persist(key = "test.simulation")]
pub struct Simulation {
    pub tick: u64,
    pub seed: u64,
    pub next: u64,
    pub alive: u64,
}

/// The state at the end of a frame: no other frame has this number.
#[derive(Resource, Persist, Clone, Copy, Debug, PartialEq, Eq, Default)]
#[persist(key = "test.stamp")]
pub struct Stamp {
    pub frame: u64,
    pub tick: u64,
    pub hash: u64,
}

/// Which frame this is, and what the states of all before it were. Not saved.
#[derive(Resource, Default)]
pub struct Frames {
    pub now: u64,
    pub simulated: u64,
    pub states: HashMap<u64, u64>,
}

/// These are never despawned: others point to them.
const ROCKS: u64 = 8;

pub fn register_simulation(world: &mut World) {
    register(world, false);
    world.persist::<Serial>();
    world.persist_resource::<Simulation>();
    world.persist_resource::<Stamp>();
}

/// A world to look into saves with.
pub fn empty_world() -> World {
    let mut world = World::new();
    register_simulation(&mut world);
    world
}

/// Adds the simulation to an app, with so many entities to begin with.
pub fn add_simulation(app: &mut App, seed: u64, entities: u64) {
    let world = app.world_mut();
    register_simulation(world);
    world.init_resource::<Frames>();
    world.insert_resource(Simulation { seed, ..Simulation::default() });
    world.insert_resource(Score::default());
    let mut random = Random::new(seed);
    (0..entities).for_each(|_| spawn(world, &mut random));
    stamp(world);
    app.add_systems(Update, simulate.in_set(SimulationSet));
    app.add_systems(Last, stamp.before(SaveSystems));
}

fn spawn(world: &mut World, random: &mut Random) {
    let mut simulation = world.resource_mut::<Simulation>();
    let serial = simulation.next;
    simulation.next += 1;
    simulation.alive += 1;
    let position = Position { x: random.below(1000) as f32, y: 0.25 };
    let health = Health { current: 1, max: random.below(100) as u32, flash: 0 };
    let items = Inventory { items: vec![format!("axe {}", random.below(50))], gold: Some(serial) };
    let base = (Saved, Serial(serial), position);
    match random.below(5) {
        0 => world.spawn(base),
        1 => world.spawn((base, health)),
        2 => world.spawn((base, items)),
        3 => world.spawn((base, health, Team(3))),
        _ => world.spawn((base, Burning("a little".to_owned()))),
    };
}

/// One tick: nearly everything moves, some come and go, some change what they are.
pub fn simulate(world: &mut World) {
    world.resource_mut::<Frames>().simulated += 1;
    let mut simulation = world.resource_mut::<Simulation>();
    simulation.tick += 1;
    let mut random = Random::new(simulation.seed.wrapping_mul(1_000_003).wrapping_add(simulation.tick));
    let mut positions = world.query_filtered::<&mut Position, With<Serial>>();
    for mut position in positions.iter_mut(world) {
        if random.chance(60) {
            position.x += 0.5;
        }
        position.y = position.x * 0.125;
    }
    (0..random.below(5)).for_each(|_| spawn(world, &mut random));
    let mut all: Vec<(Entity, u64)> =
        world.query::<(Entity, &Serial)>().iter(world).map(|(entity, serial)| (entity, serial.0)).collect();
    let rocks: Vec<Entity> =
        all.iter().filter(|(_, serial)| *serial < ROCKS).map(|(entity, _)| *entity).collect();
    all.retain(|(_, serial)| *serial >= ROCKS);
    for _ in 0..20 {
        let (entity, other) = (random.pick(&all).0, random.pick(&all).0);
        let Ok(mut found) = world.get_entity_mut(entity) else { continue };
        match random.below(12) {
            0 if found.get::<Children>().is_none() => {
                found.despawn();
                world.resource_mut::<Simulation>().alive -= 1;
            }
            1 => _ = found.insert(Enemy),
            2 => _ = found.remove::<Enemy>(),
            3 => _ = found.insert(Burning(format!("for {}", random.below(9)))),
            4 => _ = found.remove::<Burning>(),
            5 => _ = found.insert(Team(random.below(4) as u8)),
            6 => {
                if let Some(mut items) = found.get_mut::<Inventory>() {
                    items.items.push(format!("arrow {}", random.below(9)));
                    items.items.truncate(3);
                }
            }
            7 => {
                let (leader, last) = (*random.pick(&rocks), Some(*random.pick(&rocks)));
                found.insert(Follows { leader, others: rocks.clone(), last });
            }
            8 if entity != other && found.get::<Children>().is_none() => {
                if world.get_entity(other).is_ok_and(|other| !other.contains::<ChildOf>()) {
                    world.entity_mut(entity).insert(ChildOf(other));
                }
            }
            9 => _ = found.remove::<ChildOf>(),
            10 => _ = found.insert(Health { current: 2, max: random.below(50) as u32, flash: 1 }),
            _ => _ = found.remove::<Health>(),
        }
    }
    let points = random.number();
    match random.below(3) {
        0 => {
            world.remove_resource::<Score>();
            world.insert_resource(Score { points, best: Some(rocks[0]) });
        }
        1 => world.resource_mut::<Score>().points = points,
        _ => {}
    }
}

/// The last of the tick, before anything is captured.
pub fn stamp(world: &mut World) {
    let hash = state_hash(world);
    let tick = world.resource::<Simulation>().tick;
    let mut frames = world.resource_mut::<Frames>();
    frames.now += 1;
    let frame = frames.now;
    frames.states.insert(frame, hash);
    world.insert_resource(Stamp { frame, tick, hash });
}

fn mix(hash: u64, value: u64) -> u64 {
    Random::new(hash ^ value.rotate_left(17)).number()
}

fn text(hash: u64, text: &str) -> u64 {
    text.bytes().fold(mix(hash, text.len() as u64), |hash, byte| mix(hash, u64::from(byte)))
}

type Parts<'w> = (
    &'w Serial,
    (Option<&'w Position>, Option<&'w Health>, Option<&'w Inventory>, Option<&'w Burning>),
    (Option<&'w Team>, Has<Enemy>, Option<&'w Follows>, Option<&'w ChildOf>),
);

/// A hash over all that is saved, whatever the ids and the order of rows.
pub fn state_hash(world: &mut World) -> u64 {
    let simulation = world.resource::<Simulation>().clone();
    let mut query = world.query::<Parts<'_>>();
    let world = &*world;
    let serial = |entity: Entity| world.get::<Serial>(entity).map_or(u64::MAX, |serial| serial.0);
    let (mut all, mut count) = (0_u64, 0);
    for (own, (position, health, inventory, burning), (team, enemy, follows, parent)) in query.iter(world) {
        count += 1;
        let mut hash = mix(1, own.0);
        if let Some(position) = position {
            hash = mix(mix(hash, u64::from(position.x.to_bits())), u64::from(position.y.to_bits()));
        }
        if let Some(health) = health {
            hash = mix(mix(mix(hash, 3), u64::from(health.current)), u64::from(health.max));
        }
        if let Some(inventory) = inventory {
            hash = inventory.items.iter().fold(mix(hash, 4), |hash, item| text(hash, item));
            hash = mix(hash, inventory.gold.unwrap_or(1));
        }
        if let Some(burning) = burning {
            hash = text(mix(hash, 5), &burning.0);
        }
        hash = mix(hash, team.map_or(9, |team| u64::from(team.0)));
        hash = mix(hash, u64::from(enemy));
        if let Some(follows) = follows {
            let others = follows.others.iter().chain(&follows.last).chain([&follows.leader]);
            hash = others.fold(mix(hash, 6), |hash, other| mix(hash, serial(*other)));
        }
        hash = mix(hash, parent.map_or(7, |parent| serial(parent.parent())));
        all = all.wrapping_add(hash);
    }
    assert_eq!(count, simulation.alive, "entities are seen that are not part of this world, or missing");
    let score = world.resource::<Score>();
    let best = score.best.map_or(8, serial);
    [simulation.tick, simulation.seed, simulation.next, score.points, best].into_iter().fold(all, mix)
}

/// Checks that a world is one state and not a mix of several.
pub fn check(world: &mut World) -> Stamp {
    let stamp = *world.resource::<Stamp>();
    assert_eq!(world.resource::<Simulation>().tick, stamp.tick, "{stamp:?}");
    assert_eq!(state_hash(world), stamp.hash, "a mix of several states: {stamp:?}");
    stamp
}

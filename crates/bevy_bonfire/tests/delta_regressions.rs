//! Deltas that no capture makes, and worlds in states that games bring about: what broke once, or was never tried.

mod common;

use bevy_bonfire::core::engine::{ComponentTable, DeltaSchema, DeltaScope, EntityMap};
use bevy_bonfire::prelude::*;
use bevy_bonfire::replication::Delta;
use bevy_bonfire::replication::{DeltaCapture, Mirrored, ReplicateExt, Replicated, WorldDeltaExt};
use bevy_bonfire::{EntityId, Limits, Snapshot};
use bonfire_testkit::{Dice, hostile_content, scale};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bevy_ecs::prelude::*;
use bytes::Bytes;
use common::*;

fn replicated() -> World {
    let mut world = world();
    world
        .replicate::<Position>()
        .replicate::<Inventory>()
        .replicate::<Enemy>()
        .replicate::<Burning>()
        .replicate::<Team>()
        .replicate::<ChildOf>()
        .replicate::<Score>();
    world
}

fn table(world: &mut World) -> Arc<ComponentTable> {
    let schema: Arc<DeltaSchema> = DeltaCapture::of_replication().schema(world).unwrap();
    Arc::clone(schema.table())
}

/// What a mirror has, whatever the order of rows.
fn contents(world: &mut World) -> [u8; 16] {
    let whole = DeltaCapture::of_mirror().baseline(world).unwrap().for_mirrors();
    let snapshot = Snapshot::default().with_delta(&whole).unwrap();
    snapshot.canonical_sorted().unwrap().content_hash().unwrap().0
}

fn pairs(map: &EntityMap) -> Vec<(EntityId, EntityId)> {
    let mut pairs: Vec<_> = map.iter().collect();
    pairs.sort();
    pairs
}

#[test]
fn what_a_hostile_peer_seals_is_applied_or_refused_whole() {
    let (mut applied, mut refused) = (0, 0);
    for seed in 0..400 * u64::from(scale()) {
        let mut dice = Dice::new(seed);
        let mut world = replicated();
        let table = table(&mut world);
        let mut map = EntityMap::default();
        for tick in 0..6 {
            let bytes = hostile_content(&mut dice, &table);
            let whole = dice.below(4) == 0;
            let delta = Delta::from_content(
                &table,
                tick,
                tick + 1,
                scope(whole),
                Bytes::from(bytes),
                &Limits::default(),
            );
            let Ok(delta) = delta else {
                refused += 1;
                continue;
            };
            let before = (contents(&mut world), pairs(&map));
            match world.apply_delta(&delta, &mut map) {
                Ok(()) => applied += 1,
                Err(error) => {
                    refused += 1;
                    assert!(
                        before == (contents(&mut world), pairs(&map)),
                        "seed {seed}, tick {tick}: {error}"
                    );
                }
            }
            for (remote, local) in map.iter() {
                let there =
                    world.get_entity(Entity::from(local)).is_ok_and(|entity| entity.contains::<Mirrored>());
                assert!(there, "seed {seed}, tick {tick}: {remote} leads nowhere");
            }
            let mirrored = world.query::<&Mirrored>().iter(&world).count();
            assert_eq!(mirrored, map.iter().count(), "seed {seed}, tick {tick}");
        }
    }
    assert!(applied > 500 && refused > 100, "{applied} applied, {refused} refused");
}

/// Counts how many of its kind there are.
#[derive(Debug)]
struct Guard(());

static ALIVE: AtomicI64 = AtomicI64::new(0);

impl Default for Guard {
    fn default() -> Self {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Component, Persist, Debug, Default)]
#[persist(key = "test.guarded")]
struct Guarded {
    name: String,
    #[persist(skip)]
    guard: Guard,
}

fn guarded(name: &str) -> Guarded {
    Guarded { name: name.into(), ..Guarded::default() }
}

/// What comes is taken out of the columns of a group. What is left must not be dropped with what others have.
#[test]
fn a_baseline_for_a_mirror_that_knows_some_of_it_drops_every_value_once() {
    let mut worlds: [World; 2] = [World::new(), World::new()];
    for world in &mut worlds {
        world.persist::<Guarded>().replicate::<Guarded>();
    }
    let [mut server, mut client] = worlds;
    let (mut deltas, mut map) = (DeltaCapture::of_replication(), EntityMap::default());
    server.spawn((guarded("first"), Replicated));
    client.apply_delta(&deltas.baseline(&mut server).unwrap(), &mut map).unwrap();
    server.spawn_batch((0..40).map(|number| (guarded(&format!("{number}")), Replicated)));
    client.apply_delta(&deltas.baseline(&mut server).unwrap(), &mut map).unwrap();
    // Somebody here has despawned some, so their values have nowhere to go; or they come again.
    let all: Vec<Entity> = client.query_filtered::<Entity, With<Mirrored>>().iter(&client).collect();
    all.iter().step_by(3).for_each(|entity| assert!(client.despawn(*entity)));
    client.apply_delta(&deltas.baseline(&mut server).unwrap(), &mut map).unwrap();
    let mut names: Vec<String> =
        client.query::<&Guarded>().iter(&client).map(|guarded| guarded.name.clone()).collect();
    names.sort();
    names.dedup();
    assert_eq!((names.len(), ALIVE.load(Ordering::Relaxed)), (41, 82));
    drop(client);
    assert_eq!(ALIVE.load(Ordering::Relaxed), 41);
    drop(server);
    assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
}

/// The same id gone and come in one delta: another entity.
#[test]
fn an_id_that_goes_and_comes_in_one_delta_is_another_entity() {
    let (mut server, mut client) = (replicated(), replicated());
    let (mut deltas, mut map) = (DeltaCapture::of_replication(), EntityMap::default());
    let ship = server.spawn((Position { x: 1.0, y: 0.0 }, Enemy, Replicated)).id();
    client.apply_delta(&deltas.changes(&mut server).unwrap(), &mut map).unwrap();
    let before = Entity::from(map.get(ship.into()).unwrap());
    server.entity_mut(ship).remove::<Replicated>();
    let gone = deltas.changes(&mut server).unwrap();
    server.entity_mut(ship).insert(Replicated).remove::<Enemy>();
    let back = deltas.changes(&mut server).unwrap();
    let both = gone.compose(&back).unwrap();
    client.apply_delta(&both, &mut map).unwrap();
    let after = Entity::from(map.get(ship.into()).unwrap());
    assert!(client.get_entity(before).is_err() && client.get::<Enemy>(after).is_none());
    assert_eq!(client.get::<Position>(after), Some(&Position { x: 1.0, y: 0.0 }));
    // And gone again, as one delta of all three.
    server.entity_mut(ship).remove::<Replicated>();
    let all = both.compose(&deltas.changes(&mut server).unwrap()).unwrap();
    client.apply_delta(&all, &mut map).unwrap();
    assert_eq!((map.iter().count(), client.query::<&Mirrored>().iter(&client).count()), (0, 0));
}

#[test]
fn a_baseline_takes_resources_away_that_the_server_no_longer_has() {
    let (mut server, mut client) = (replicated(), replicated());
    let (mut deltas, mut map) = (DeltaCapture::of_replication(), EntityMap::default());
    server.insert_resource(Score { points: 3, best: None });
    client.apply_delta(&deltas.baseline(&mut server).unwrap(), &mut map).unwrap();
    assert_eq!(client.resource::<Score>().points, 3);
    server.remove_resource::<Score>();
    client.apply_delta(&deltas.baseline(&mut server).unwrap(), &mut map).unwrap();
    assert!(!client.contains_resource::<Score>());
    // One that is the client's own stays.
    let mut other = replicated();
    other.insert_resource(Score { points: 8, best: None });
    other.apply_delta(&deltas.baseline(&mut server).unwrap(), &mut EntityMap::default()).unwrap();
    assert_eq!(other.resource::<Score>().points, 8);
}

fn scope(whole: bool) -> DeltaScope {
    if whole { DeltaScope::Whole } else { DeltaScope::Changes }
}

//! Deltas against a model: random worlds, random edits, and what must come out.

#[path = "delta/worlds.rs"]
mod worlds;

use bonfire::engine::{ComponentTable, DeltaOp, DeltaSchema, DeltaScope, SentValues};
use bonfire::{Delta, EntityId, Granularity, Limits, Registry, Snapshot};
use bonfire_testkit::{ModelWorld, scale};
use bytes::Bytes;
use proptest::prelude::*;
use worlds::{Edit, Flag, Name, Position, Seen, apply, edits, one_archetype, world};

/// All that a snapshot has, whatever the order of its rows.
fn contents(snapshot: &Snapshot) -> String {
    let limits = Limits::default();
    let resources: Vec<_> = snapshot
        .resources()
        .map(|column| (column.component().key.clone(), column.values(&limits).unwrap()))
        .collect();
    let data: Vec<_> =
        snapshot.data().iter().map(|entry| (entry.key(), entry.value(&limits).unwrap())).collect();
    let mut ids = snapshot.entities();
    ids.sort();
    format!("{:#?}\n{ids:?}\n{resources:?}\n{data:?}", worlds::values(snapshot))
}

fn there_and_back(delta: &Delta) -> Delta {
    let bytes = Bytes::from(delta.to_bytes().unwrap().to_vec());
    let again = Delta::open(&bytes, delta.table(), &Limits::default()).unwrap();
    assert_eq!(again.to_bytes().unwrap().to_vec(), bytes);
    assert_eq!((again.since(), again.now(), again.stats()), (delta.since(), delta.now(), delta.stats()));
    again
}

fn cases(count: u32) -> ProptestConfig {
    ProptestConfig { cases: count * scale(), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(150))]

    /// A delta leads from one snapshot to the next, alone and composed, and through its bytes.
    #[test]
    fn deltas_lead_from_one_world_to_the_next(lives in proptest::collection::vec(edits(12), 2..5), sparse: bool) {
        let mut world = world();
        let schema = DeltaSchema::new(world.registry());
        let capture = |world: &mut ModelWorld| if sparse { one_archetype(world) } else { world.save().unwrap() };
        let mut snapshots = vec![capture(&mut world)];
        for life in &lives {
            life.iter().for_each(|edit| apply(&mut world, edit));
            snapshots.push(capture(&mut world));
        }
        let mut mirror = snapshots[0].clone();
        let mut all: Option<Delta> = None;
        for (tick, pair) in snapshots.windows(2).enumerate() {
            let tick = tick as u64;
            let delta = there_and_back(&Delta::between(&schema, &pair[0], &pair[1], tick, tick + 1).unwrap());
            mirror = mirror.with_delta(&delta).unwrap();
            prop_assert_eq!(contents(&mirror), contents(&pair[1]), "one by one");
            // Told twice, it is the same.
            if delta.spawned().next().is_none() {
                prop_assert_eq!(contents(&mirror.with_delta(&delta.values_only()).unwrap()), contents(&pair[1]));
            }
            all = Some(match all {
                None => delta,
                Some(all) => there_and_back(&all.compose(&delta).unwrap()),
            });
        }
        let (first, last) = (&snapshots[0], &snapshots[snapshots.len() - 1]);
        let all = all.unwrap();
        prop_assert_eq!(contents(&first.with_delta(&all).unwrap()), contents(last), "composed");
        let direct = Delta::between(&schema, first, last, 0, all.now()).unwrap();
        let (composed, compared) = (all.stats(), direct.stats());
        prop_assert_eq!(composed.spawned, compared.spawned);
        prop_assert_eq!(composed.despawned, compared.despawned);
        let whole = there_and_back(&Delta::whole(&schema, last, 9).unwrap());
        prop_assert!(whole.is_whole());
        prop_assert_eq!(contents(&first.with_delta(&whole).unwrap()), contents(last), "whole");
        let later = there_and_back(&Delta::whole(&schema, first, 0).unwrap().compose(&all).unwrap());
        prop_assert_eq!(contents(&last.with_delta(&later).unwrap()), contents(last), "whole and then composed");
        prop_assert!(Delta::between(&schema, last, last, 0, 1).unwrap().is_empty());
    }

    /// What is held back is never further away than it may be, and fields give what components give.
    #[test]
    fn what_is_held_back_is_near(lives in proptest::collection::vec(edits(10), 2..8), by_field: bool, small: bool) {
        let mut world = world();
        let schema = DeltaSchema::new(world.registry());
        let granularity = if by_field { Granularity::Field } else { Granularity::Component };
        let mut sent = SentValues::new(granularity);
        if small {
            sent = sent.epsilon(0.5);
        }
        let mut before = world.save().unwrap();
        let mut mirror = before.clone();
        for (tick, life) in lives.iter().enumerate() {
            life.iter().for_each(|edit| apply(&mut world, edit));
            let after = world.save().unwrap();
            let tick = tick as u64;
            let delta = Delta::between(&schema, &before, &after, tick, tick + 1).unwrap();
            let filtered = there_and_back(&sent.filter(&delta).unwrap());
            prop_assert!(filtered.stats().value_bytes <= delta.stats().value_bytes);
            mirror = mirror.with_delta(&filtered).unwrap();
            before = after;
            if small {
                worlds::assert_near(&mirror, &before, 0.5);
            } else {
                prop_assert_eq!(contents(&mirror), contents(&before));
            }
        }
    }

    /// Damage is found, and nothing else happens.
    #[test]
    fn damaged_bytes_are_refused(life in edits(12), at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let mut world = world();
        let schema = DeltaSchema::new(world.registry());
        let before = world.save().unwrap();
        life.iter().for_each(|edit| apply(&mut world, edit));
        let delta = Delta::between(&schema, &before, &world.save().unwrap(), 3, 4).unwrap();
        let bytes = delta.to_bytes().unwrap().to_vec();
        let limits = Limits::default();
        let mut damaged = bytes.clone();
        damaged[at.index(bytes.len())] ^= 1 << bit;
        prop_assert!(Delta::open(&damaged.into(), schema.table(), &limits).is_err());
        let cut = Bytes::copy_from_slice(&bytes[..at.index(bytes.len())]);
        prop_assert!(Delta::open(&cut, schema.table(), &limits).is_err());
        // Content has no checksum of its own: it may be anything, but it is never a panic.
        let mut content = delta.content().unwrap().to_vec();
        if !content.is_empty() {
            let place = at.index(content.len());
            content[place] ^= 1 << bit;
            if let Ok(delta) = Delta::from_content(schema.table(), 3, 4, DeltaScope::Changes, content.into(), &limits) {
                let _ = before.with_delta(&delta);
                let _ = delta.compose(&delta);
                let _ = SentValues::new(Granularity::Field).filter(&delta);
                let map = bonfire::engine::EntityMap::identity(&before.entities()).unwrap();
                let _ = delta.stage(world.registry(), &schema, &map, &limits, None).is_ok();
            }
        }
    }
}

fn two() -> (ModelWorld, EntityId, EntityId) {
    let mut world = world();
    let (a, b) = (world.spawn(), world.spawn());
    world.insert(a, Position { x: 1.0, y: 2.0, grounded: true });
    world.insert(b, Position { x: 3.0, y: 4.0, grounded: false });
    world.insert(b, Name("b".into()));
    (world, a, b)
}

#[test]
fn the_size_of_a_delta_is_that_of_the_change() {
    let mut sizes = Vec::new();
    for count in [10, 1000] {
        let mut world = world();
        let ids: Vec<EntityId> = (0..count).map(|_| world.spawn()).collect();
        for &id in &ids {
            world.insert(id, Position { x: 0.0, y: 0.0, grounded: false });
        }
        let schema = DeltaSchema::new(world.registry());
        let before = world.save().unwrap();
        for &id in &ids[..5] {
            world.insert(id, Position { x: 1.0, y: 0.0, grounded: false });
        }
        let delta = Delta::between(&schema, &before, &world.save().unwrap(), 0, 1).unwrap();
        sizes.push(delta.for_mirrors().to_bytes().unwrap().len());
    }
    assert_eq!(sizes[0], sizes[1]);
}

#[test]
fn structure_and_values_can_be_told_apart() {
    let (mut world, a, b) = two();
    let schema = DeltaSchema::new(world.registry());
    let before = world.save().unwrap();
    world.insert(a, Position { x: 9.0, y: 9.0, grounded: true });
    world.insert(a, Name("a".into()));
    world.despawn(b);
    let c = world.spawn();
    world.insert(c, Flag);
    let delta = Delta::between(&schema, &before, &world.save().unwrap(), 0, 1).unwrap();
    let stats = delta.stats();
    assert_eq!((stats.spawned, stats.despawned, stats.added_components, stats.changed_values), (1, 1, 1, 1));
    let structure = delta.structure_only().unwrap();
    assert_eq!((structure.stats().added_components, structure.stats().changed_values), (1, 0));
    assert_eq!(structure.spawned().collect::<Vec<_>>(), [c]);
    let values = delta.values_only();
    assert_eq!((values.stats().spawned, values.stats().despawned, values.stats().changed_values), (0, 0, 1));
    let after = before.with_delta(&values).unwrap();
    assert_eq!(after.entity_count(), 2);
    let ops: Vec<(String, DeltaOp)> = (delta.groups().filter(|group| group.ids() == [a]))
        .flat_map(|group| {
            group.changes().map(|change| (change.component.key.clone(), change.op)).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(
        ops,
        [("test.name".to_owned(), DeltaOp::Added), ("test.position".to_owned(), DeltaOp::Changed)]
    );
}

#[test]
fn what_came_and_went_is_not_told() {
    let (mut world, _, _) = two();
    let schema = DeltaSchema::new(world.registry());
    let first = world.save().unwrap();
    let c = world.spawn();
    world.insert(c, Name("short".into()));
    let second = world.save().unwrap();
    world.despawn(c);
    let third = world.save().unwrap();
    let came = Delta::between(&schema, &first, &second, 0, 1).unwrap();
    let went = Delta::between(&schema, &second, &third, 1, 2).unwrap();
    assert_eq!((came.stats().spawned, went.stats().despawned), (1, 1));
    let both = came.compose(&went).unwrap();
    assert_eq!((both.stats().spawned, both.stats().despawned), (0, 0));
    assert!(went.compose(&came).unwrap_err().is_misuse());
}

#[test]
fn a_reference_to_what_comes_later_is_told_again() {
    let (mut world, a, _) = two();
    let schema = DeltaSchema::new(world.registry());
    let c = world.spawn();
    world.insert(a, Seen(vec![c]));
    world.set_transient(c);
    let before = world.save().unwrap();
    // It is saved from now on, and nothing else has changed.
    let mut other = world_like(&world, &[a, c]);
    other.insert(a, Seen(vec![c]));
    let after = other.save().unwrap();
    let delta = Delta::between(&schema, &before, &after, 0, 1).unwrap();
    let told = delta
        .groups()
        .any(|group| group.ids() == [a] && group.changes().any(|c| c.component.key == "test.seen"));
    assert!(told, "{:?}", delta.stats());
}

/// A world with the same ids.
fn world_like(world: &ModelWorld, ids: &[EntityId]) -> ModelWorld {
    let mut other = worlds::world();
    for id in world.entities() {
        assert_eq!(other.spawn(), id);
    }
    for id in ids {
        assert!(other.contains(*id));
    }
    other
}

#[test]
fn a_field_that_drifts_goes_out_before_it_is_too_far() {
    let (mut world, a, _) = two();
    let schema = DeltaSchema::new(world.registry());
    let mut sent = SentValues::new(Granularity::Component).epsilon(1.0);
    let mut before = world.save().unwrap();
    let mut out = Vec::new();
    for tick in 0..20 {
        world.insert(a, Position { x: 1.0 + tick as f32 * 0.4, y: 2.0, grounded: true });
        let after = world.save().unwrap();
        let delta = Delta::between(&schema, &before, &after, tick, tick + 1).unwrap();
        out.push(sent.filter(&delta).unwrap().stats().changed_values);
        before = after;
    }
    // The first change goes out, because nothing is known of what was sent; then every third.
    assert_eq!(&out[..8], [0, 1, 0, 0, 1, 0, 0, 1]);
    // A name is never held back, nor a flag.
    world.insert(a, Name("x".into()));
    world.insert(a, Position { x: 1.0, y: 2.0, grounded: false });
    let delta = Delta::between(&schema, &before, &world.save().unwrap(), 20, 21).unwrap();
    assert_eq!(sent.filter(&delta).unwrap().stats().added_components, 1);
    // What is gone is forgotten.
    let before = world.save().unwrap();
    let known = sent.len();
    world.despawn(a);
    let delta = Delta::between(&schema, &before, &world.save().unwrap(), 21, 22).unwrap();
    sent.filter(&delta).unwrap();
    assert!(sent.len() < known);
}

#[test]
fn an_entity_in_a_place_that_another_had_is_told_whole() {
    let (mut world, a, b) = two();
    let schema = DeltaSchema::new(world.registry());
    let mut sent = SentValues::new(Granularity::Field).epsilon(100.0);
    let first = world.save().unwrap();
    world.insert(a, Position { x: 2.0, y: 2.0, grounded: true });
    let second = world.save().unwrap();
    sent.filter(&Delta::between(&schema, &first, &second, 0, 1).unwrap()).unwrap();
    world.despawn(a);
    let c = world.spawn();
    assert_eq!(c.index(), a.index());
    world.insert(c, Position { x: 2.0, y: 2.0, grounded: true });
    let third = world.save().unwrap();
    let delta = sent.filter(&Delta::between(&schema, &second, &third, 1, 2).unwrap()).unwrap();
    assert_eq!((delta.spawned().collect::<Vec<_>>(), delta.stats().value_bytes > 0), (vec![c], true));
    // Its neighbour, whose row may be another one now, is held back all the same.
    world.insert(b, Position { x: 3.5, y: 4.0, grounded: false });
    let fourth = world.save().unwrap();
    let delta = Delta::between(&schema, &third, &fourth, 2, 3).unwrap();
    assert_eq!(sent.filter(&delta).unwrap().stats().changed_values, 1, "it was never sent");
    world.insert(b, Position { x: 3.6, y: 4.0, grounded: false });
    let delta = Delta::between(&schema, &fourth, &world.save().unwrap(), 3, 4).unwrap();
    assert!(sent.filter(&delta).unwrap().is_empty());
}

#[test]
fn tables_know_what_is_different() {
    let world = world();
    let table = ComponentTable::of(world.registry());
    assert_eq!(table.fingerprint(), world.registry().fingerprint());
    let again = ComponentTable::decode(&table.encode(), &Limits::default()).unwrap();
    assert_eq!((again.fingerprint(), again.encode()), (table.fingerprint(), table.encode()));
    assert!(table.differences(&again).is_empty());
    let bytes = table.encode();
    for len in 0..bytes.len() {
        assert!(ComponentTable::decode(&bytes[..len], &Limits::default()).is_err());
    }
    let other = Registry::new().with::<worlds::OtherPosition>().unwrap().with::<Name>().unwrap();
    let schema = DeltaSchema::new(&other);
    let differences = schema.table().differences(&table).join("\n");
    assert!(
        differences.contains("test.position") && differences.contains("there and not here"),
        "{differences}"
    );
    assert!(schema.check(&table).unwrap_err().is_schema());
    let (mut world, ..) = two();
    let before = world.save().unwrap();
    let own = DeltaSchema::new(world.registry());
    let delta = Delta::between(&own, &before, &before, 0, 1).unwrap();
    let bytes = delta.to_bytes().unwrap().to_vec().into();
    assert!(Delta::open(&bytes, schema.table(), &Limits::default()).unwrap_err().is_schema());
    assert!(Delta::between(&schema, &before, &before, 0, 1).unwrap_err().is_schema());
    assert_eq!(Delta::peek(&bytes).unwrap(), (0, 1, table.fingerprint()));
}

#[test]
fn a_hostile_peer_allocates_nothing() {
    let world = world();
    let table = ComponentTable::of(world.registry());
    let limits = Limits { memory_bytes_max: 1 << 20, ..Limits::default() };
    // Counts that nobody could have bytes for, in every place that has one.
    for prefix in [
        &[0][..],
        &[0, 0],
        &[0, 0, 1, 1],
        &[0, 0, 1, 0, 1, 0],
        &[0, 0, 0],
        &[0, 0, 0, 0],
        &[0, 0, 0, 0, 0, 3],
    ] {
        let mut content = prefix.to_vec();
        content.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
        let opened = Delta::from_content(&table, 0, 1, DeltaScope::Changes, content.into(), &limits);
        assert!(opened.is_err(), "{prefix:?}");
    }
}

#[test]
fn every_kind_of_edit_is_made() {
    // The generator must reach what the tests are about.
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = [0; 6];
    for _ in 0..50 {
        use proptest::strategy::ValueTree;
        for edit in edits(12).new_tree(&mut runner).unwrap().current() {
            seen[match edit {
                Edit::Spawn(_) => 0,
                Edit::Despawn(_) => 1,
                Edit::Set(..) => 2,
                Edit::Remove(..) => 3,
                Edit::Resource(_) => 4,
                Edit::Look(..) => 5,
            }] += 1;
        }
    }
    assert!(seen.iter().all(|count| *count > 5), "{seen:?}");
}

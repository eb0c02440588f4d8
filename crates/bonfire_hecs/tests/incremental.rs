//! Captures over the one before are the same as full ones, and share the memory of what has not changed.

mod common;

use bonfire_hecs::{Bonfire, Filter, IncrementalCapture, LoadMode, SaveOptions, Saved, Snapshot};
use bonfire_testkit::scale;
use bonfire_testkit::script::{Life, ScriptWorld, scripts};
use common::*;
use hecs::{Entity, World};
use proptest::prelude::*;

/// Two captures in turns, of everything and of a part, and what full ones give.
struct Captures {
    captures: [IncrementalCapture; 2],
    options: [SaveOptions; 2],
}

impl Captures {
    fn new() -> Self {
        let some = SaveOptions::new().filter(Filter::new().exclude("test.enemy"));
        Self { captures: Default::default(), options: [SaveOptions::new(), some] }
    }

    fn check(&mut self, bonfire: &Bonfire, world: &World) -> Vec<Snapshot> {
        let mut snapshots = Vec::new();
        for (captures, options) in self.captures.iter_mut().zip(&self.options) {
            let snapshot = captures.capture(bonfire, world, options).unwrap();
            let full = bonfire.capture(world, options).unwrap();
            assert!(snapshot.to_bytes().unwrap() == full.to_bytes().unwrap());
            assert_eq!((snapshot.world(), snapshot.notes()), (full.world(), full.notes()));
            snapshots.push(snapshot);
        }
        snapshots
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60 * scale(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lives_are_captured_as_they_are(parts in prop::collection::vec(scripts(20), 2..6)) {
        let (mut it, mut life, mut captures) = (HecsWorld::fresh(false), Life::default(), Captures::new());
        let mut kept: Vec<(Snapshot, Vec<u8>)> = Vec::new();
        for part in parts {
            life.go_on(&mut it, &part);
            let snapshots = captures.check(&it.bonfire, &it.world);
            kept.extend(snapshots.into_iter().map(|snapshot| {
                let bytes = snapshot.to_bytes().unwrap();
                (snapshot, bytes)
            }));
        }
        // Later captures have changed nothing in earlier ones.
        for (snapshot, bytes) in kept {
            prop_assert!(snapshot.to_bytes().unwrap() == bytes);
        }
    }
}

/// Columns of every kind in several pages.
fn large() -> (HecsWorld, Vec<Entity>) {
    let mut it = HecsWorld { world: World::new(), bonfire: bonfire(false) };
    let entities = (0..10_000_u32)
        .map(|i| {
            let position = Position { x: i as f32, y: 0.0 };
            let inventory = Inventory { items: vec![format!("item {}", i % 70)], gold: None };
            it.world.spawn((Saved, position, Health { current: 1, max: i, flash: 0 }, inventory))
        })
        .collect();
    (it, entities)
}

#[test]
fn what_has_not_changed_is_shared() {
    let (HecsWorld { world, bonfire }, entities) = large();
    let (mut captures, options) = (IncrementalCapture::new(), SaveOptions::new());
    let first = captures.capture(&bonfire, &world, &options).unwrap();
    let one = Snapshot::memory_bytes([&first]);
    assert!(one > 10_000 * (8 + 8 + 5 + 8), "{one}");
    let same = captures.capture(&bonfire, &world, &options).unwrap();
    assert_eq!(Snapshot::memory_bytes([&first, &same]), one, "also columns that are encoded");
    world.get::<&mut Position>(entities[5000]).unwrap().y = 1.0;
    let changed = captures.capture(&bonfire, &world, &options).unwrap();
    assert_eq!(Snapshot::memory_bytes([&first, &same, &changed]), one + (16 << 10), "one page");
    assert_eq!(Snapshot::memory_bytes([&changed]), one, "each is whole");
    world.get::<&mut Inventory>(entities[0]).unwrap().gold = Some(1);
    let rows = captures.capture(&bonfire, &world, &options).unwrap();
    let more = Snapshot::memory_bytes([&changed, &rows]) - one;
    assert!(more > 10_000 * 8 && more < one / 2, "the column of inventories: {more} of {one}");
    captures.forget();
    let alone = captures.capture(&bonfire, &world, &options).unwrap();
    assert!(Snapshot::memory_bytes([&rows, &alone]) >= 2 * one, "nothing is shared with what was forgotten");
}

#[test]
fn other_worlds_registrations_and_selections_are_no_reason_to_be_wrong() {
    let (large, entities) = large();
    let mut small = HecsWorld { world: World::new(), bonfire: Bonfire::new() };
    small.bonfire.persist::<Position>().unwrap();
    small.world.spawn_batch((0..5_000).map(|i| (Position { x: 1.0, y: i as f32 }, Team(3))));
    let some = SaveOptions::new().entities(entities.iter().copied().step_by(3));
    let by_value = SaveOptions::new()
        .selection(bonfire_hecs::Selection::new().only(|entity| entity.entity().id() % 2 == 0));
    let mut captures = IncrementalCapture::new();
    for round in 0..3 {
        for (it, options) in
            [(&large, &some), (&small, &by_value), (&large, &SaveOptions::new()), (&large, &by_value)]
        {
            let full = it.bonfire.capture(&it.world, options).unwrap();
            let over = captures.capture(&it.bonfire, &it.world, options).unwrap();
            assert!(over.to_bytes().unwrap() == full.to_bytes().unwrap(), "round {round}");
        }
    }
}

#[test]
fn a_capture_that_shares_memory_is_loaded_as_any_other() {
    let (mut it, entities) = large();
    let mut captures = IncrementalCapture::new();
    let options = SaveOptions::new();
    captures.capture(&it.bonfire, &it.world, &options).unwrap();
    it.world.get::<&mut Position>(entities[77]).unwrap().y = 7.0;
    it.world.despawn(entities[1]).unwrap();
    let snapshot = captures.capture(&it.bonfire, &it.world, &options).unwrap();
    let text = canonical(&snapshot);
    it.world.query_mut::<&mut Position>().into_iter().for_each(|position| position.x = -1.0);
    it.world.spawn((Saved, Team(3)));
    it.load(&snapshot, LoadMode::Restore);
    assert_eq!(canonical(&save(&it.bonfire, &it.world)), text);
    it.load(&snapshot, LoadMode::SameIds);
    assert_eq!(canonical(&save(&it.bonfire, &it.world)), text);
    assert!(!it.world.contains(entities[1]) && it.world.get::<&Position>(entities[77]).unwrap().y == 7.0);
}

#[test]
fn a_capture_that_fails_is_forgotten() {
    let (HecsWorld { world, bonfire }, _) = large();
    let mut captures = IncrementalCapture::new();
    let first = captures.capture(&bonfire, &world, &SaveOptions::new()).unwrap();
    let unknown = SaveOptions::new().filter(Filter::new().include("nobody.knows"));
    assert!(captures.capture(&bonfire, &world, &unknown).unwrap_err().is_misuse());
    let next = captures.capture(&bonfire, &world, &SaveOptions::new()).unwrap();
    assert!(next.to_bytes().unwrap() == first.to_bytes().unwrap());
}

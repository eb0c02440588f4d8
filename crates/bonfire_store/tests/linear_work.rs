//! Journals: opening a save with a hostile journal costs work in proportion to its bytes, within the caller's limits.

mod common;

use bonfire::engine::{DeltaSchema, SnapshotWriter};
use bonfire::{Delta, EntityId, Limits, Persist, Registry, Snapshot, Watch};
use bonfire_store::{Details, JournalBase, LoadedSave, MemoryStore, Slots, Wait};
use common::{delta, world};

const GROWTH_MAX: f64 = 2.2;

macro_rules! tags {
    ($($name:ident $key:literal $bit:literal),*) => {
        $(
            #[derive(Persist)]
            #[persist(key = $key)]
            struct $name;
        )*

        fn tags() -> Registry {
            let mut registry = Registry::new();
            $(registry.register::<$name>().unwrap();)*
            registry
        }

        /// A world of so many entities that all have other tags.
        fn tagged_world(entities: u32) -> Snapshot {
            let registry = tags();
            let mut writer = SnapshotWriter::new(&registry);
            for number in 0..entities {
                let mut archetype = writer.archetype(&[EntityId::new(number, 0)]).unwrap();
                $(
                    if number >> $bit & 1 == 1 {
                        archetype.column(&[$name]).unwrap();
                    }
                )*
            }
            writer.finish().unwrap()
        }
    };
}
tags!(
    A "a" 0, B "b" 1, C "c" 2, D "d" 3, E "e" 4, F "f" 5, G "g" 6, H "h" 7, I "i" 8, J "j" 9, K "k" 10, L "l" 11,
    M "m" 12, N "n" 13
);

/// A slot with a save of a world, and a journal of these deltas.
fn slots(base: &Snapshot, deltas: &[Delta]) -> Slots {
    let slots = Slots::new(MemoryStore::new());
    let saved = slots.save("auto", base, &Details::new()).wait().unwrap();
    let tick = deltas.first().map_or(0, Delta::since);
    let base = JournalBase::new("auto", saved.generation, tick);
    deltas.iter().for_each(|delta| drop(slots.append(&base, delta).wait().unwrap()));
    slots
}

fn load(slots: &Slots, watch: &Watch) -> bonfire::Result<LoadedSave> {
    slots.load_with("auto", &Snapshot::options().watch(watch)).wait()
}

fn assert_linear(n: usize, slots: impl Fn(usize) -> Slots, check: impl Fn(usize, LoadedSave)) {
    let steps = |n: usize| {
        let watch = Watch::new();
        check(n, load(&slots(n), &watch).unwrap());
        watch.steps()
    };
    let (small, large) = (steps(n), steps(2 * n));
    assert!(small >= n as u64, "{small} steps for {n} items: the work is not counted");
    let growth = large as f64 / small as f64;
    assert!(growth <= GROWTH_MAX, "{small} steps for {n} items, {large} for {}: {growth:.2} times", 2 * n);
}

fn spawned(entities: u32) -> Delta {
    let schema = DeltaSchema::new(&tags());
    Delta::between(&schema, &tagged_world(0), &tagged_world(entities), 0, 1).unwrap()
}

#[test]
fn a_journal_whose_entities_all_have_other_components() {
    let journal = |n: usize| slots(&tagged_world(0), &[spawned(n as u32)]);
    assert_linear(4000, journal, |n, loaded| assert_eq!(loaded.snapshot.entity_count(), n));
}

#[test]
fn a_journal_of_many_records() {
    let journal = |n: usize| {
        let deltas: Vec<Delta> = (0..n as u64).map(|tick| delta(tick, tick + 1)).collect();
        slots(&world(0), &deltas)
    };
    assert_linear(500, journal, |n, loaded| assert_eq!(loaded.journal.unwrap().records, n as u64));
}

/// The longest run of deltas that fits is searched for: that costs what the bytes do, times the digits of their number.
#[test]
fn a_journal_that_does_not_fit_its_save() {
    let journal = |n: usize| {
        let deltas: Vec<Delta> = (0..n as u64).map(|tick| delta(tick, tick + 1)).collect();
        // None of the entities that change are there.
        slots(&tagged_world(0), &deltas)
    };
    assert_linear(2000, journal, |_, loaded| {
        let replay = loaded.journal.unwrap();
        assert_eq!((replay.records, replay.lost.unwrap().record), (0, 1));
    });
}

#[test]
fn the_limits_of_the_caller_reach_the_journal() {
    let slots = slots(&tagged_world(0), &[spawned(100)]);
    for limits in [
        Limits { entities_max: 99, ..Limits::default() },
        Limits { archetypes_max: 99, ..Limits::default() },
        Limits { components_max: 6, ..Limits::default() },
    ] {
        let options = Snapshot::options().limits(limits);
        assert!(slots.load_with("auto", &options).wait().unwrap_err().is_limit());
    }
    assert_eq!(slots.load("auto").wait().unwrap().snapshot.entity_count(), 100);
}

#[test]
fn a_cancelled_load_ends_and_passes_over_nothing() {
    let slots = slots(&tagged_world(0), &[spawned(100)]);
    let watch = Watch::new();
    watch.cancel();
    assert!(load(&slots, &watch).unwrap_err().is_cancelled());
}

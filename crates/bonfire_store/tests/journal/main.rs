//! Journals: deltas beside a save. What was appended is loaded, whatever is done to the save, in whatever store it lies; what
//! is damaged is named, and what lies before the damage is loaded.

#[path = "../common/mod.rs"]
mod common;

mod damage;
mod life;
mod operations;
mod rules;

use bonfire_store::disk::MemoryDisk;
use bonfire_store::{
    DirStore, JournalBase, Keep, LoadedSave, MemoryStore, Rotating, SealKey, Sealed, Slots, Store, Wait,
};
use common::{delta, is_world, number, world};

/// Every kind of store, by name. In sealed ones every record is a blob of its own.
fn stores() -> Vec<(&'static str, Box<dyn Store>)> {
    let disk = || DirStore::on(MemoryDisk::new()).unwrap();
    let key = || SealKey::from_bytes([7; 32]);
    vec![
        ("memory", Box::new(MemoryStore::new())),
        ("directory", Box::new(disk())),
        ("sealed", Box::new(Sealed::new(MemoryStore::new(), key()))),
        ("sealed and bound", Box::new(Sealed::new(disk(), key()).bind_name())),
        ("rotating", Box::new(Rotating::new(disk(), 2).only_saves())),
        ("rotating, sealed", Box::new(Rotating::new(Sealed::new(MemoryStore::new(), key()), 2).only_saves())),
    ]
}

fn slots(store: impl Store + 'static) -> Slots {
    Slots::new(store).keep(Keep::all())
}

/// Saves the world of this number: the number is also its tick.
fn save(slots: &Slots, slot: &str, number: u64) -> JournalBase {
    let saved =
        slots.save(slot, &world(number), &bonfire_store::Details::new().label("base")).wait().unwrap();
    JournalBase::new(slot, saved.generation, number)
}

/// Appends one delta per number, each from the one before it.
fn append(slots: &Slots, base: &JournalBase, numbers: std::ops::RangeInclusive<u64>) {
    for to in numbers {
        slots.append(base, &delta(to - 1, to)).wait().unwrap();
    }
}

/// The world of a save is exactly the one of this number.
fn assert_is(loaded: &LoadedSave, expected: u64, what: &str) {
    assert!(loaded.skipped.is_empty(), "{what}: {:?}", loaded.skipped);
    assert_eq!(number(&loaded.snapshot), expected, "{what}");
    assert!(is_world(&loaded.snapshot, expected), "{what}: not all of the world is that of {expected}");
}

/// The number that a slot loads, of a journal of which nothing is lost.
fn loads(slots: &Slots, slot: &str) -> u64 {
    let loaded = slots.load(slot).wait().unwrap();
    assert_is(&loaded, number(&loaded.snapshot), slot);
    let lost = loaded.journal.and_then(|journal| journal.lost);
    assert!(lost.is_none(), "{}", lost.unwrap());
    number(&loaded.snapshot)
}

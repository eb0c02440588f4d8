//! Saves in slots name pins, and pins that no save names are removed: never one that a save needs.

mod stream_support;

use bonfire::engine::{MOMENT_KEY, SnapshotWriter};
use bonfire::{Registry, Snapshot};
use bonfire_chunks::ChunkWorld;
use bonfire_chunks::stream::SlotPins;
use bonfire_store::disk::MemoryDisk;
use bonfire_store::{Details, Keep, MemoryStore, Payload, Precondition, Slots, Store, Wait};
use stream_support::open;

struct Fixture {
    world: ChunkWorld,
    store: MemoryStore,
    slots: Slots,
    pins: SlotPins,
}

impl Fixture {
    fn new() -> Self {
        let (world, store) = (open(&MemoryDisk::new()).unwrap(), MemoryStore::new());
        let slots = Slots::new(store.clone()).keep(Keep::newest(2));
        Self { pins: SlotPins::new(world.clone()), world, store, slots }
    }

    /// Pins the present for a save, as a front end does before it writes the slot.
    fn pin(&self, slots: &Slots, slot: &str, base: Option<&str>) -> String {
        let pin = self.pins.begin(slot);
        self.world.pin(&pin, self.pins.metadata(slots, slot, base)).unwrap();
        pin
    }

    fn save_in(&self, slots: &Slots, slot: &str) -> String {
        let pin = self.pin(slots, slot, None);
        slots.save(slot, &empty(), &Details::new().moment(&pin)).wait().unwrap();
        self.pins.end(&pin);
        pin
    }

    fn save(&self, slot: &str) -> String {
        self.save_in(&self.slots, slot)
    }

    fn names(&self) -> Vec<String> {
        self.world.pins().into_iter().map(|pin| pin.name).collect()
    }

    /// Makes the head of the newest save of a slot unreadable.
    fn damage(&self, slot: &str) {
        let blob = self.slots.saves(slot).wait().unwrap()[0].blob.clone();
        self.store.put(&blob, Payload::from(vec![7; 300]), Precondition::None).wait().unwrap();
    }
}

fn empty() -> Snapshot {
    SnapshotWriter::new(&Registry::new()).finish().unwrap()
}

#[test]
fn a_pin_stays_as_long_as_a_save_names_it() {
    let here = Fixture::new();
    let saved = here.save("a");
    assert_eq!(here.pins.collect(&here.slots).unwrap(), 0);
    let loaded = here.slots.load("a").wait().unwrap();
    assert_eq!(SlotPins::of_save(&loaded.snapshot).unwrap().as_ref(), Some(&saved));
    assert!(here.slots.delete_slot("a").wait().unwrap());
    assert_eq!(here.pins.collect(&here.slots).unwrap(), 1);
    assert!(here.names().is_empty());
}

#[test]
fn pins_of_pruned_saves_are_removed() {
    let here = Fixture::new();
    let saved: Vec<String> = (0..4).map(|_| here.save("a")).collect();
    assert_eq!((here.pins.collect(&here.slots).unwrap(), here.names()), (2, saved[2..].to_vec()));
}

#[test]
fn a_pin_whose_save_is_on_its_way_is_not_removed() {
    let here = Fixture::new();
    let pin = here.pin(&here.slots, "a", None);
    assert_eq!(here.pins.clone().collect(&here.slots).unwrap(), 0);
    // The save has failed.
    here.pins.end(&pin);
    assert_eq!(here.pins.collect(&here.slots).unwrap(), 1);
}

#[test]
fn after_a_crash_between_the_pin_and_its_slot_the_pin_is_removed() {
    let here = Fixture::new();
    here.save("a");
    here.pin(&here.slots, "a", None);
    // Another session knows of nothing that is on its way.
    let later = SlotPins::new(here.world.clone());
    assert_eq!((later.collect(&here.slots).unwrap(), here.names().len()), (1, 1));
    let name = later.begin("a");
    assert!(!here.names().contains(&name), "names are not used twice");
}

#[test]
fn pins_that_a_game_has_made_itself_are_its_own() {
    let here = Fixture::new();
    here.world.pin("slot a 1.1", *b"what the game says").unwrap();
    here.world.pin("mine", []).unwrap();
    assert_eq!((here.pins.collect(&here.slots).unwrap(), here.names().len()), (0, 2));
}

#[test]
fn pins_of_a_slot_whose_head_cannot_be_read_stay() {
    let here = Fixture::new();
    let (damaged, deleted) = (here.save("a"), here.save("b"));
    here.save("b");
    here.save("b");
    here.damage("a");
    assert_eq!(here.pins.collect(&here.slots).unwrap(), 1);
    assert!(here.names().contains(&damaged) && !here.names().contains(&deleted));
}

#[test]
fn a_slot_with_another_name_keeps_its_pins_even_if_its_head_cannot_be_read() {
    let here = Fixture::new();
    let pin = here.save("a");
    here.slots.rename("a", "b").wait().unwrap();
    assert_eq!(here.pins.collect(&here.slots).unwrap(), 0);
    here.damage("b");
    assert_eq!((here.pins.collect(&here.slots).unwrap(), here.names()), (0, vec![pin]));
}

#[test]
fn profiles_have_pins_of_their_own() {
    let here = Fixture::new();
    let profiles = ["anna", "bert"].map(|name| here.slots.profile(name).unwrap());
    let saved: Vec<String> = profiles.iter().map(|profile| here.save_in(profile, "a")).collect();
    let own = here.save("a");
    for profile in &profiles {
        assert_eq!(here.pins.collect(profile).unwrap(), 0);
    }
    profiles[0].delete_slot("a").wait().unwrap();
    assert_eq!(here.pins.collect(&profiles[1]).unwrap(), 0);
    assert_eq!(here.pins.collect(&here.slots).unwrap(), 0);
    assert_eq!(here.pins.collect(&profiles[0]).unwrap(), 1);
    assert_eq!(here.names(), [saved[1].clone(), own]);
}

#[test]
fn pins_of_a_journal_live_as_long_as_their_save() {
    let here = Fixture::new();
    let base = here.save("a");
    let appended = here.pin(&here.slots, "a", Some(&base));
    here.pins.end(&appended);
    assert_eq!(here.pins.collect(&here.slots).unwrap(), 0);
    here.slots.delete_slot("a").wait().unwrap();
    assert_eq!((here.pins.collect(&here.slots).unwrap(), here.names().len()), (2, 0));
}

#[test]
fn the_last_entry_of_a_journal_names_the_moment() {
    let registry = Registry::new();
    let mut writer = SnapshotWriter::new(&registry);
    writer.metadata(MOMENT_KEY.to_owned(), bonfire::Value::Text("whole".into()));
    writer.data_entry(SlotPins::data_entry("first").unwrap());
    let snapshot = writer.finish().unwrap();
    assert_eq!(SlotPins::of_save(&snapshot).unwrap().as_deref(), Some("first"));
    assert_eq!(SlotPins::of_save(&empty()).unwrap(), None);
}

#[test]
fn names_are_new_after_the_world_has_returned() {
    let here = Fixture::new();
    let first = here.save("a");
    let second = here.save("a");
    here.world.return_to(&first).unwrap();
    let later = SlotPins::new(here.world.clone());
    let names = [later.begin("a"), later.begin("a")];
    assert!(names.iter().all(|name| *name != first && *name != second), "{names:?}");
}

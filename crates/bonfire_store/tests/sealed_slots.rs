//! Slots on top of a sealed store: menus without the key, fallback, locks.
#![cfg(feature = "seal")]

mod sealed_support;

use bonfire::engine::SnapshotWriter;
use bonfire::{Registry, Snapshot};
use bonfire_store::{Details, MemoryStore, Sealed, Slots, Suite, Wait};
use sealed_support::*;

fn world() -> Snapshot {
    SnapshotWriter::new(&Registry::new()).finish().unwrap()
}

#[test]
fn a_menu_needs_no_key_and_a_load_does() {
    for suite in SUITES {
        let memory = MemoryStore::new();
        let slots = Slots::new(sealed(&memory, suite));
        slots.save("quick", &world(), &Details::new().label("Before the dragon")).wait().unwrap();
        assert!(slots.load("quick").wait().is_ok());

        let menu = Slots::new(Sealed::without_key(memory.clone()));
        let listed = menu.list().wait().unwrap();
        assert_eq!(listed[0].newest.label.as_deref(), Some("Before the dragon"), "{suite:?}");
        assert!(menu.load("quick").wait().unwrap_err().is_wrong_key());

        let hidden = sealed(&memory, suite).hide_metadata();
        Slots::new(hidden).save("quick", &world(), &Details::new().label("Secret")).wait().unwrap();
        let listed = menu.list().wait().unwrap();
        assert_eq!(listed[0].newest.label, None);
        assert!(listed[0].newest.problem.as_ref().unwrap().is_wrong_key());
    }
}

#[test]
fn a_damaged_save_falls_back_wherever_it_is_hit() {
    let memory = MemoryStore::new();
    let slots = Slots::new(sealed(&memory, Suite::XChaCha20Poly1305));
    for label in ["old", "new"] {
        slots.save("quick", &world(), &Details::new().label(label)).wait().unwrap();
    }
    let name = "quick.00000002.bonfire";
    let good = raw(&memory, name);
    for at in (0..good.len()).filter(|at| *at < 150 || at % 13 == 0) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x20;
        put(&memory, name, bytes);
        let loaded = slots.load("quick").wait().unwrap();
        assert_eq!(loaded.info.label.as_deref(), Some("old"), "byte {at}");
        assert!(loaded.skipped[0].reason.is_corrupt());
    }
}

#[test]
fn bound_saves_are_locked_renamed_and_copied_by_their_slots_only() {
    let memory = MemoryStore::new();
    let slots = Slots::new(sealed(&memory, Suite::Evident).bind_name());
    slots.save("quick", &world(), &Details::new().label("one")).wait().unwrap();
    slots.lock("quick", 1).wait().unwrap();
    slots.rename("quick", "slow").wait().unwrap();
    slots.copy("slow", "other").wait().unwrap();
    for slot in ["slow", "other"] {
        assert_eq!(slots.load(slot).wait().unwrap().info.label.as_deref(), Some("one"));
    }
    put(&memory, "cheat.00000002.bonfire", raw(&memory, "other.00000002.bonfire"));
    assert!(slots.load("cheat").wait().unwrap_err().is_corrupt());
}

#[test]
fn saves_are_deleted_without_the_key() {
    let memory = MemoryStore::new();
    let slots = Slots::new(sealed(&memory, Suite::XChaCha20Poly1305).bind_name());
    slots.save("quick", &world(), &Details::new()).wait().unwrap();
    let menu = Slots::new(Sealed::without_key(memory.clone()));
    assert!(menu.delete_slot("quick").wait().unwrap());
    assert!(!slots.exists("quick").wait().unwrap());
    assert_eq!(slots.save("quick", &world(), &Details::new()).wait().unwrap().generation, 2);
}

/// With a counter, only the newest save of a slot opens. A rename opens what it moves, so it cannot move the older ones: it
/// says so and moves nothing.
#[test]
fn a_counted_slot_with_older_saves_is_not_renamed_by_half() {
    let memory = MemoryStore::new();
    let slots = Slots::new(sealed(&memory, Suite::XChaCha20Poly1305).counter(Trusted::default()));
    for label in ["old", "new"] {
        slots.save("quick", &world(), &Details::new().label(label)).wait().unwrap();
    }
    let error = slots.rename("quick", "slow").wait().unwrap_err();
    assert!(error.is_rollback(), "{error}");
    let names: Vec<String> = slots.list().wait().unwrap().into_iter().map(|slot| slot.name.clone()).collect();
    assert_eq!(names, ["quick"]);
    assert_eq!(slots.load("quick").wait().unwrap().info.label.as_deref(), Some("new"));
}

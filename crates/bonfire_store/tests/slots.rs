//! Saves as players know them.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bonfire::{Error, Persist, Snapshot, Value};
use bonfire_store::disk::MemoryDisk;
use bonfire_store::{Details, DirStore, Keep, MemoryStore, Payload, Precondition, Saver, Slots, Store, Wait};
use common::{day, number, sized_world, world};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

fn slots() -> (Slots, MemoryStore) {
    let store = MemoryStore::new();
    (Slots::new(store.clone()).keep(Keep::all()), store)
}

fn save(slots: &Slots, slot: &str, number: u64) -> u64 {
    slots.save(slot, &world(number), &Details::new()).wait().unwrap().generation
}

fn loaded(slots: &Slots, slot: &str) -> u64 {
    let loaded = slots.load(slot).wait().unwrap();
    assert!(loaded.skipped.is_empty(), "{:?}", loaded.skipped);
    number(&loaded.snapshot)
}

#[test]
fn a_slot_holds_what_was_saved_last() {
    let (slots, store) = slots();
    assert!(!slots.exists("quick").wait().unwrap());
    assert!(slots.load("quick").wait().unwrap_err().is_not_found());
    assert_eq!((save(&slots, "quick", 10), save(&slots, "quick", 11), save(&slots, "other", 99)), (1, 2, 3));
    assert_eq!((loaded(&slots, "quick"), loaded(&slots, "other")), (11, 99));
    assert!(slots.exists("quick").wait().unwrap());
    assert_eq!((slots.count("quick").wait().unwrap(), slots.count("none").wait().unwrap()), (2, 0));
    let names = ["other.00000003.bonfire", "quick.00000001.bonfire", "quick.00000002.bonfire"];
    assert_eq!(store.list("").wait().unwrap(), names);
    let first = slots.load_generation("quick", 1, &Snapshot::options()).wait().unwrap();
    assert_eq!(number(&first.snapshot), 10);
    assert!(slots.load_generation("quick", 7, &Snapshot::options()).wait().unwrap_err().is_not_found());
}

#[test]
fn a_menu_reads_heads_alone() {
    let store = DirStore::on(MemoryDisk::new()).unwrap();
    let slots = Slots::new(store.clone()).clock(|| Some(day(20_000)));
    let mut world = sized_world(5, 1000);
    world.set_metadata("difficulty", "hard");
    let details = Details::new()
        .label("Vor dem Drachen 🐉")
        .play_time(Duration::from_secs(4000))
        .game_version("1.4.2")
        .thumbnail(vec![7; 40_000])
        .custom("chapter", 3_u32);
    let saved = slots.save("quick", &world, &details).wait().unwrap();
    save(&slots, "another", 1);
    // What comes after the head may be anything: nobody looks at it.
    let name = "quick.00000001.bonfire";
    let mut bytes = store.get(name).wait().unwrap().to_vec();
    let end = bytes.len();
    bytes[60_000..end].fill(0);
    store.put(name, Payload::from(bytes), Precondition::None).wait().unwrap();

    let list = slots.list().wait().unwrap();
    let names: Vec<_> = list.iter().map(|slot| (slot.name.as_str(), slot.saves, slot.has_recovery)).collect();
    assert_eq!(names, [("another", 1, false), ("quick", 1, false)]);
    let info = &list[1].newest;
    assert_eq!((info.slot.as_str(), info.generation, info.locked), ("quick", 1, false));
    assert_eq!(info.label.as_deref(), Some("Vor dem Drachen 🐉"));
    assert_eq!(info.game_version.as_deref(), Some("1.4.2"));
    assert_eq!((info.saved_at, info.play_time), (Some(day(20_000)), Some(Duration::from_secs(4000))));
    assert_eq!((info.entities, info.bytes), (Some(1000), saved.bytes));
    assert_eq!(info.thumbnail.as_deref(), Some(&[7; 40_000][..]));
    assert_eq!(info.custom, [("difficulty".into(), "hard".into()), ("chapter".into(), Value::U64(3))]);
    assert!(info.problem.is_none());
}

#[test]
fn versions_of_the_game_and_its_plugins_are_in_the_head() {
    let (slots, _) = slots();
    let mut registry = bonfire::Registry::new();
    registry.track("game", 4).unwrap();
    let world = bonfire::engine::SnapshotWriter::new(&registry).finish().unwrap();
    slots.save("quick", &world, &Details::new()).wait().unwrap();
    assert_eq!(slots.list().wait().unwrap()[0].newest.tracks, [("game".to_owned(), 4)].into());
}

#[test]
fn a_thumbnail_that_does_not_fit_is_dropped_and_the_save_goes_on() {
    let (slots, _) = slots();
    let details = Details::new().label("Town").thumbnail(vec![0; 61 << 10]);
    let saved = slots.save("quick", &world(1), &details).wait().unwrap();
    assert_eq!(saved.dropped_thumbnail, Some(61 << 10));
    let newest = slots.list().wait().unwrap().remove(0).newest;
    assert_eq!((newest.label.as_deref(), newest.thumbnail), (Some("Town"), None));
    let recovery = slots.save_recovery("quick", &world(2), &details).wait().unwrap();
    assert_eq!(recovery.dropped_thumbnail, Some(61 << 10));

    let saver = Saver::new(slots.clone());
    let report = saver.save("quick", world(3), details).wait().unwrap();
    assert_eq!((report.dropped_thumbnail, loaded(&slots, "quick")), (Some(61 << 10), 3));
    let small = Details::new().thumbnail(vec![0; 1000]);
    assert_eq!(saver.save("quick", world(4), small).wait().unwrap().dropped_thumbnail, None);
    // A picture may be dropped. A value that the game wrote may not.
    let custom = Details::new().thumbnail(vec![0; 10]).custom("map", Value::Bytes(vec![0; 61 << 10]));
    assert!(slots.save("quick", &world(5), &custom).wait().unwrap_err().is_limit());
}

#[test]
fn details_can_be_read_and_those_of_the_caller_win() {
    let asked = Details::new().label("one").label("two").custom("chapter", 1_u32).custom("chapter", 2_u32);
    let others = Details::new()
        .label("other")
        .play_time(Duration::from_secs(5))
        .game_version("1.4")
        .thumbnail(vec![7])
        .custom("chapter", 9_u32)
        .custom("difficulty", "hard");
    let both = asked.or(others);
    assert_eq!((both.get_label(), both.get_play_time()), (Some("two"), Some(Duration::from_secs(5))));
    assert_eq!((both.get_game_version(), both.get_thumbnail()), (Some("1.4"), Some(&[7][..])));
    assert_eq!((both.get_custom("chapter"), both.get_custom("none")), (Some(&Value::U64(2)), None));
    assert_eq!(both.customs().map(|(name, _)| name).collect::<Vec<_>>(), ["chapter", "difficulty"]);
    assert_eq!((Details::new().get_label(), Details::new().get_thumbnail()), (None, None));

    let (slots, _) = slots();
    slots.save("quick", &world(1), &both).wait().unwrap();
    let newest = slots.list().wait().unwrap().remove(0).newest;
    assert_eq!((newest.label.as_deref(), newest.custom.len()), (Some("two"), 2));
}

#[test]
#[cfg(not(target_arch = "wasm32"))]
fn messages_say_where_the_saves_lie() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().display().to_string();
    let slots = Slots::new(DirStore::open(directory.path()).unwrap());
    save(&slots, "quick", 1);
    save(&slots, "town", 2);
    slots.lock("town", 2).wait().unwrap();
    let named = |error: Error, words: &str| {
        let text = error.to_string();
        assert!(text.contains(words) && text.contains(&place), "{words}: {text}");
    };
    let error = slots.load("none").wait().unwrap_err();
    assert!(error.is_not_found());
    named(error, "cannot open slot `none`: it does not exist in `");
    let error = slots.load_generation("quick", 9, &Snapshot::options()).wait().unwrap_err();
    named(error, "cannot open save 9 of slot `quick`: it does not exist in `");
    named(
        slots.profile("alice").unwrap().load("quick").wait().unwrap_err(),
        "slot `quick` of player `alice`",
    );
    named(slots.lock("quick", 9).wait().unwrap_err(), "save 9 of slot `quick`");
    named(slots.accept_recovery("quick").wait().unwrap_err(), "the recovery save of slot `quick`");
    named(slots.delete_slot("town").wait().unwrap_err(), "save 2 is locked: unlock it first");
    named(slots.rename("quick", "town").wait().unwrap_err(), "there is a slot `town` already");
    named(slots.rename("none", "town").wait().unwrap_err(), "slot `none`");
    named(slots.load_value::<u32>("quick").unwrap_err(), "the slot holds a world and not a value");

    let path = directory.path().join("quick.00000001.bonfire");
    let mut bytes = std::fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let error = slots.load("quick").wait().unwrap_err();
    assert!(error.is_corrupt() && error.key() == Some("quick"), "{error:?}");
    named(error, "quick.00000001.bonfire");
    save(&slots, "quick", 3);
    std::fs::write(directory.path().join("quick.00000003.bonfire"), &bytes).unwrap();
    named(slots.load("quick").wait().unwrap_err(), "all 2 saves are damaged");
    named(bonfire_store::read(&path, &bonfire::Limits::default()).unwrap_err(), "quick.00000001.bonfire");
    let saver = Saver::new(slots.clone());
    named(saver.load(path.as_path()).wait().unwrap_err(), "quick.00000001.bonfire");
    let blob =
        bonfire_store::LoadSource::blob(DirStore::open(directory.path()).unwrap(), "quick.00000001.bonfire");
    named(saver.load(blob).wait().unwrap_err(), "quick.00000001.bonfire");
}

#[test]
fn damage_shows_in_the_list() {
    let (slots, store) = slots();
    for slot in ["cut", "empty", "fine", "foreign"] {
        save(&slots, slot, 1);
    }
    let bytes = store.get("cut.00000001.bonfire").wait().unwrap();
    let put = |name, bytes| store.put(name, Payload::from(bytes), Precondition::None).wait().unwrap();
    put("cut.00000001.bonfire", bytes[..bytes.len() - 64].to_vec());
    put("empty.00000002.bonfire", vec![]);
    put("foreign.00000004.bonfire", b"not a save, but long enough to be one".repeat(100));
    let list = slots.list().wait().unwrap();
    let damaged: Vec<_> =
        list.iter().filter(|slot| slot.newest.problem.is_some()).map(|slot| slot.name.as_str()).collect();
    assert_eq!(damaged, ["cut", "empty", "foreign"]);
}

#[test]
fn the_newest_saves_are_kept() {
    let slots = Slots::new(MemoryStore::new());
    for number in 0..10 {
        save(&slots, "quick", number);
    }
    let generations = |slots: &Slots| -> Vec<u64> {
        slots.saves("quick").wait().unwrap().iter().map(|save| save.generation).collect()
    };
    assert_eq!(generations(&slots), [10, 9, 8]);
    let saved =
        slots.clone().keep(Keep::newest(1)).save("quick", &world(10), &Details::new()).wait().unwrap();
    assert_eq!((saved.generation, saved.pruned), (11, vec![8, 9, 10]));
    assert_eq!(generations(&slots), [11]);
}

#[test]
fn one_save_of_each_day_is_kept() {
    static TODAY: AtomicU64 = AtomicU64::new(0);
    let slots = Slots::new(MemoryStore::new())
        .keep(Keep::newest(2).one_per_day(3))
        .clock(|| Some(day(TODAY.load(Ordering::Relaxed))));
    for today in [1, 1, 2, 2, 3, 4, 4, 4] {
        TODAY.store(today, Ordering::Relaxed);
        save(&slots, "quick", today);
    }
    let kept: Vec<_> = slots.saves("quick").wait().unwrap().iter().map(|save| save.generation).collect();
    assert_eq!(kept, [8, 7, 5, 4], "the newest two, and the last of days 4, 3 and 2");
}

#[test]
fn locked_saves_stay_and_are_not_loaded_by_name() {
    let slots = Slots::new(MemoryStore::new()).keep(Keep::newest(1));
    save(&slots, "quick", 1);
    slots.lock("quick", 1).wait().unwrap();
    slots.lock("quick", 1).wait().unwrap();
    assert_eq!(loaded(&slots, "quick"), 1, "there is no other");
    for number in 2..6 {
        save(&slots, "quick", number);
    }
    slots.lock("quick", 5).wait().unwrap();
    save(&slots, "quick", 6);
    slots.lock("quick", 6).wait().unwrap();
    let saves: Vec<_> =
        slots.saves("quick").wait().unwrap().iter().map(|save| (save.generation, save.locked)).collect();
    assert_eq!(saves, [(6, true), (5, true), (1, true)]);
    assert_eq!(save(&slots, "quick", 7), 7, "a number is not given twice");
    slots.lock("quick", 7).wait().unwrap();
    slots.unlock("quick", 5).wait().unwrap();
    assert_eq!(loaded(&slots, "quick"), 5, "the newest that is not locked");

    assert!(slots.delete_slot("quick").wait().unwrap_err().is_misuse());
    assert!(slots.delete_generation("quick", 7).wait().unwrap_err().is_misuse());
    assert_eq!(slots.count("quick").wait().unwrap(), 4, "a refused removal removes nothing");
    for generation in [1, 6, 7] {
        slots.unlock("quick", generation).wait().unwrap();
    }
    assert!(slots.delete_generation("quick", 7).wait().unwrap());
    assert!(!slots.delete_generation("quick", 7).wait().unwrap());
    assert!(slots.delete_slot("quick").wait().unwrap());
    assert!(!slots.delete_slot("quick").wait().unwrap());
    assert!(slots.lock("quick", 1).wait().unwrap_err().is_not_found());
}

#[test]
fn slots_are_renamed_and_copied_whole() {
    let (slots, store) = slots();
    for number in 1..4 {
        save(&slots, "quick", number);
    }
    slots.lock("quick", 2).wait().unwrap();
    save(&slots, "taken", 50);
    assert!(slots.rename("quick", "taken").wait().unwrap_err().is_conflict());
    assert!(slots.rename("none", "new").wait().unwrap_err().is_not_found());
    assert!(slots.rename("quick", "Taken").wait().unwrap_err().is_misuse());
    assert!(slots.rename("quick", "Quick").wait().unwrap_err().is_misuse());
    slots.rename("quick", "slow").wait().unwrap();
    assert_eq!((loaded(&slots, "slow"), loaded(&slots, "taken")), (3, 50));
    assert_eq!(
        store.list("slow").wait().unwrap(),
        ["slow.00000001.bonfire", "slow.00000002.locked", "slow.00000003.bonfire"]
    );
    assert!(!slots.exists("quick").wait().unwrap());

    assert_eq!(slots.copy("slow", "taken").wait().unwrap().generation, 5);
    assert_eq!(slots.copy("slow", "fresh").wait().unwrap().generation, 6);
    assert_eq!((loaded(&slots, "taken"), loaded(&slots, "fresh"), loaded(&slots, "slow")), (3, 3, 3));
    assert_eq!(slots.restore("slow", 1).wait().unwrap().generation, 7);
    assert_eq!(loaded(&slots, "slow"), 1);
    assert!(slots.restore("slow", 9).wait().unwrap_err().is_not_found());
}

#[test]
fn players_have_slots_of_their_own() {
    let (slots, store) = slots();
    let (alice, bob) = (slots.profile("alice").unwrap(), slots.profile("bob").unwrap());
    save(&slots, "quick", 1);
    save(&alice, "quick", 2);
    save(&bob, "quick", 3);
    save(&bob, "alice", 4);
    assert_eq!((loaded(&slots, "quick"), loaded(&alice, "quick"), loaded(&bob, "quick")), (1, 2, 3));
    assert_eq!(slots.profiles().wait().unwrap(), ["alice", "bob"]);
    let names = |slots: &Slots| -> Vec<String> {
        slots.list().wait().unwrap().into_iter().map(|slot| slot.name).collect()
    };
    assert_eq!(
        (names(&slots), names(&alice), names(&bob)),
        (vec!["quick".into()], vec!["quick".into()], vec!["alice".into(), "quick".into()])
    );
    alice.rename("quick", "mine").wait().unwrap();
    bob.delete_slot("quick").wait().unwrap();
    assert_eq!((loaded(&slots, "quick"), loaded(&alice, "mine"), loaded(&bob, "alice")), (1, 2, 4));
    assert!(store.list("alice.").wait().unwrap().contains(&"alice.mine.00000002.bonfire".to_owned()));
    let other = slots.profile("Alice").unwrap();
    assert!(other.save("quick", &world(1), &Details::new()).wait().unwrap_err().is_misuse());
    assert!(slots.profile("a.b").is_err() && slots.profile("").is_err() && slots.profile("..").is_err());
}

#[test]
fn a_save_for_after_a_crash_waits_to_be_accepted() {
    let slots = Slots::new(MemoryStore::new()).keep(Keep::newest(1));
    let recover =
        |slot: &str, number| slots.save_recovery(slot, &world(number), &Details::new()).wait().unwrap();
    save(&slots, "quick", 1);
    assert!(slots.recovery("quick").wait().unwrap().is_none());
    recover("quick", 2);
    recover("quick", 3);
    assert_eq!((loaded(&slots, "quick"), slots.count("quick").wait().unwrap()), (1, 1));
    let waiting = slots.recovery("quick").wait().unwrap().unwrap();
    assert!(waiting.recovery && waiting.generation == 3);
    assert!(slots.list().wait().unwrap()[0].has_recovery);
    assert_eq!(slots.saves("quick").wait().unwrap().len(), 2, "one replaces the other");

    assert_eq!(slots.accept_recovery("quick").wait().unwrap(), 3);
    assert_eq!((loaded(&slots, "quick"), slots.count("quick").wait().unwrap()), (3, 1));
    assert!(slots.accept_recovery("quick").wait().unwrap_err().is_not_found());

    recover("quick", 4);
    assert!(slots.reject_recovery("quick").wait().unwrap());
    assert!(!slots.reject_recovery("quick").wait().unwrap());
    assert_eq!(loaded(&slots, "quick"), 3);

    recover("quick", 5);
    save(&slots, "quick", 6);
    assert!(slots.recovery("quick").wait().unwrap().is_none(), "the player has saved since");
    assert_eq!(slots.saves("quick").wait().unwrap().len(), 1);

    let recovered = recover("new", 7).generation;
    assert!(!slots.exists("new").wait().unwrap());
    assert_eq!(slots.accept_recovery("new").wait().unwrap(), recovered);
    assert_eq!(loaded(&slots, "new"), 7);
}

#[test]
fn an_outdated_save_for_after_a_crash_is_not_offered() {
    let (slots, store) = slots();
    slots.save_recovery("quick", &world(1), &Details::new()).wait().unwrap();
    let recovery = store.get("quick.00000001.recovery").wait().unwrap();
    save(&slots, "quick", 2);
    // As if the game had stopped between the save and the removal.
    store.put("quick.00000001.recovery", Payload::from(recovery), Precondition::None).wait().unwrap();
    assert!(slots.recovery("quick").wait().unwrap().is_none());
    assert!(!slots.list().wait().unwrap()[0].has_recovery);
}

#[test]
fn bad_names_touch_nothing() {
    let (slots, store) = slots();
    save(&slots, "good", 1);
    for name in ["", ".", "..", "a.b", "a/b", "a\\b", "CON", "com1", "ä", "a b", "-\n", &"x".repeat(65)] {
        let misuse = |error: Error| assert!(error.is_misuse(), "{name:?}: {error}");
        misuse(slots.save(name, &world(1), &Details::new()).wait().unwrap_err());
        misuse(slots.save_recovery(name, &world(1), &Details::new()).wait().unwrap_err());
        misuse(slots.load(name).wait().unwrap_err());
        misuse(slots.exists(name).wait().unwrap_err());
        misuse(slots.saves(name).wait().unwrap_err());
        misuse(slots.delete_slot(name).wait().unwrap_err());
        misuse(slots.rename("good", name).wait().unwrap_err());
        misuse(slots.rename(name, "fine").wait().unwrap_err());
        misuse(slots.copy("good", name).wait().unwrap_err());
        misuse(slots.lock(name, 1).wait().unwrap_err());
    }
    misuse_of_case(&slots);
    assert_eq!(store.list("").wait().unwrap(), ["good.00000001.bonfire"]);
}

fn misuse_of_case(slots: &Slots) {
    assert!(slots.save("Good", &world(1), &Details::new()).wait().unwrap_err().is_misuse());
    assert!(slots.copy("good", "GOOD").wait().unwrap_err().is_misuse());
}

#[test]
fn a_file_put_there_by_hand_is_the_oldest_save() {
    let (slots, store) = slots();
    let bytes = world(5).to_bytes().unwrap();
    store.put("quick.bonfire", Payload::from(bytes), Precondition::None).wait().unwrap();
    store.put("quick.notes", Payload::from(b"not mine".to_vec()), Precondition::None).wait().unwrap();
    assert_eq!((loaded(&slots, "quick"), slots.count("quick").wait().unwrap()), (5, 1));
    assert_eq!(save(&slots, "quick", 6), 1);
    assert_eq!(loaded(&slots, "quick"), 6);
    slots.lock("quick", 0).wait().unwrap();
    assert!(slots.saves("quick").wait().unwrap()[1].locked);
    slots.unlock("quick", 0).wait().unwrap();
    slots.rename("quick", "slow").wait().unwrap();
    assert_eq!((slots.count("slow").wait().unwrap(), loaded(&slots, "slow")), (2, 6));
    assert_eq!(store.list("quick").wait().unwrap(), ["quick.notes"]);
}

#[derive(Persist, Default, Debug, PartialEq)]
struct Settings {
    volume: f32,
    language: String,
}

#[derive(Persist, Default, Debug, PartialEq)]
struct NextSettings {
    language: String,
    subtitles: bool,
    volume: f32,
}

#[test]
fn values_are_as_safe_as_worlds() {
    let (slots, store) = slots();
    assert_eq!(slots.load_value::<Settings>("settings").unwrap(), None);
    for volume in [0.25, 0.5] {
        slots.save_value("settings", &Settings { volume, language: "de".into() }).unwrap();
    }
    let next: NextSettings = slots.load_value("settings").unwrap().unwrap();
    assert_eq!(next, NextSettings { language: "de".into(), subtitles: false, volume: 0.5 });
    assert!(slots.list().wait().unwrap().is_empty(), "a menu of saves has no settings in it");
    assert_eq!(slots.list_values().wait().unwrap()[0].name, "settings");
    assert!(slots.save("settings", &world(1), &Details::new()).wait().unwrap_err().is_misuse());
    assert!(slots.lock("settings", 1).wait().unwrap_err().is_misuse());
    let name = "settings.00000002.value";
    let mut bytes = store.get(name).wait().unwrap().to_vec();
    bytes[10] ^= 1;
    store.put(name, Payload::from(bytes), Precondition::None).wait().unwrap();
    assert_eq!(slots.load_value::<Settings>("settings").unwrap().unwrap().volume, 0.25);
    save(&slots, "world", 1);
    assert!(slots.load_value::<Settings>("world").unwrap_err().is_misuse());
    assert!(slots.save_value("world", &Settings::default()).unwrap_err().is_misuse());
    slots.restore("settings", 1).wait().unwrap();
    slots.rename("settings", "options").wait().unwrap();
    assert_eq!(slots.load_value::<Settings>("options").unwrap().unwrap().volume, 0.25);
    for volume in 0..9 {
        let settings = Settings { volume: volume as f32, language: String::new() };
        slots.clone().keep(Keep::newest(2)).save_value("options", &settings).unwrap();
    }
    assert_eq!(slots.count("options").wait().unwrap(), 2);
}

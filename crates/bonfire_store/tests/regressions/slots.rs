//! Slots: numbers, pruning, falling back, and several at once.

use crate::common::{number, world};
use crate::hooked::Hooked;
use bonfire::{Error, Snapshot};
use bonfire_store::*;
use std::time::Duration;

fn io(kind: std::io::ErrorKind) -> Error {
    Error::io("injected", std::io::Error::from(kind))
}
fn save(slots: &Slots, slot: &str, n: u64) -> WrittenSave {
    slots.save(slot, &world(n), &Details::new()).wait().unwrap()
}

/// copy_generation does not check the name of the slot it copies to.
#[test]
fn copy_generation_stays_in_its_profile() {
    let store = MemoryStore::new();
    let slots = Slots::new(store.clone());
    save(&slots, "quick", 1);
    let copied = slots.copy_generation("quick", 1, "alice.quick").wait();
    let alice = slots.profile("alice").unwrap().load("quick").wait();
    let lost = slots.copy_generation("quick", 1, "a.b.c").wait();
    assert!(alice.is_err(), "a copy went into another player's slots: {copied:?}");
    assert!(lost.is_err());
}

/// A file with the largest number.
#[test]
fn the_largest_number_is_no_trap() {
    let store = MemoryStore::new();
    let slots = Slots::new(store.clone());
    save(&slots, "quick", 1);
    let bytes = store.get("quick.00000001.bonfire").wait().unwrap();
    store.put("quick.18446744073709551615.bonfire", bytes.into(), Precondition::None).wait().unwrap();
    let saved = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        slots.save("quick", &world(2), &Details::new()).wait()
    }));
    match saved {
        Err(_) => panic!("a save panicked"),
        Ok(Ok(saved)) => assert_eq!(number(&slots.load("quick").wait().unwrap().snapshot), 2, "{saved:?}"),
        Ok(Err(error)) => println!("{error}"),
    }
}

/// Two writers of one slot: the slow one has listed, the fast one saves often enough that the number is free again.
#[test]
fn an_acknowledged_save_is_there() {
    let store = MemoryStore::new();
    let fast = Slots::new(store.clone());
    for n in 1..=4 {
        save(&fast, "quick", n);
    }
    let other = fast.clone();
    let mut once = false;
    let slow = Slots::new(Hooked::new(&store, move |what, _| {
        if what == "put" && !once {
            once = true;
            for n in 11..=14 {
                save(&other, "quick", n);
            }
        }
        None
    }));
    let saved = slow.save("quick", &world(99), &Details::new()).wait().unwrap();
    assert!(!saved.pruned.contains(&saved.generation), "the save was acknowledged and is gone: {saved:?}");
    assert_eq!(number(&slow.load("quick").wait().unwrap().snapshot), 99);
}

/// The same in real life: threads that save one slot in a directory.
#[test]
fn an_acknowledged_save_is_there_among_threads() {
    let dir = tempfile::tempdir().unwrap();
    let lost: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let slots = Slots::new(DirStore::open(dir.path()).unwrap()).keep(Keep::newest(1));
                scope.spawn(move || {
                    (0..60)
                        .filter(|&n| {
                            let s = save(&slots, "quick", n);
                            s.pruned.contains(&s.generation)
                        })
                        .count()
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert_eq!(lost, 0, "{lost} of 480 saves were acknowledged and removed by their own call");
}

#[test]
fn a_number_belongs_to_one_save() {
    let store = MemoryStore::new();
    let game = Slots::new(store.clone());
    save(&game, "quick", 1);
    let other = game.clone();
    let mut once = false;
    let slow = Slots::new(Hooked::new(&store, move |what, _| {
        if what == "put" && !once {
            once = true;
            let s = save(&other, "quick", 2);
            other.lock("quick", s.generation).wait().unwrap();
        }
        None
    }));
    save(&slow, "quick", 3);
    let n = number(&game.load_generation("quick", 2, &Snapshot::options()).wait().unwrap().snapshot);
    assert_eq!(n, 2, "the locked save cannot be loaded by its number");
}

/// A recovery save and a save that race get the same number: the recovery is then not offered.
#[test]
fn a_recovery_save_and_a_save_have_different_numbers() {
    let store = MemoryStore::new();
    let game = Slots::new(store.clone());
    let other = game.clone();
    let mut once = false;
    let slow = Slots::new(Hooked::new(&store, move |what, _| {
        if what == "put" && !once {
            once = true;
            save(&other, "quick", 2);
        }
        None
    }));
    slow.save_recovery("quick", &world(3), &Details::new()).wait().unwrap();
    assert!(game.recovery("quick").wait().unwrap().is_some(), "written after the save, and not offered");
}

/// A short failure to read a head makes pruning remove a save that one_per_day keeps.
#[test]
fn a_failed_read_removes_nothing() {
    use std::sync::atomic::{AtomicU64, Ordering};
    static DAY: AtomicU64 = AtomicU64::new(1);
    let store = MemoryStore::new();
    let clock = || Some(Duration::from_secs(86_400 * DAY.load(Ordering::SeqCst)));
    let keep = Keep::newest(1).one_per_day(7);
    let slots = Slots::new(store.clone()).keep(keep).clock(clock);
    for n in 1..=3 {
        DAY.store(n, Ordering::SeqCst);
        save(&slots, "quick", n);
    }
    assert_eq!(slots.count("quick").wait().unwrap(), 3);
    let busy = Slots::new(Hooked::new(&store, |what, name| {
        (what == "head" && name == "quick.00000002.bonfire").then(|| io(std::io::ErrorKind::PermissionDenied))
    }))
    .keep(keep)
    .clock(clock);
    DAY.store(4, Ordering::SeqCst);
    let saved = save(&busy, "quick", 4);
    assert_eq!(
        slots.count("quick").wait().unwrap(),
        4,
        "a good save was removed because its head could not be read once: {saved:?}"
    );
}

/// What is known to be damaged should not push out the last good save.
#[test]
fn damaged_saves_do_not_push_out_good_ones() {
    let store = MemoryStore::new();
    let slots = Slots::new(store.clone());
    for n in 1..=3 {
        save(&slots, "quick", n);
    }
    for g in 2..=3 {
        store
            .put(&format!("quick.{g:08}.bonfire"), Payload::from(vec![0; 100]), Precondition::None)
            .wait()
            .unwrap();
    }
    let loaded = slots.load("quick").wait().unwrap();
    assert_eq!((number(&loaded.snapshot), loaded.skipped.len()), (1, 2));
    // The player goes on, and saves.
    save(&slots, "quick", 4);
    // The disk is what it is: this one is hit too.
    store.put("quick.00000004.bonfire", Payload::from(vec![0; 100]), Precondition::None).wait().unwrap();
    assert!(slots.load("quick").wait().is_ok(), "keep(3) kept two damaged ones and removed the good one");
}

/// A file that cannot be opened for a moment (a virus scanner, too many files) is not damage.
#[test]
fn a_busy_file_is_not_damage() {
    let store = MemoryStore::new();
    let slots = Slots::new(store.clone());
    for n in 1..=2 {
        save(&slots, "quick", n);
    }
    let busy = Slots::new(Hooked::new(&store, |what, name| {
        (what == "get" && name == "quick.00000002.bonfire")
            .then(|| Error::io("cannot open", std::io::Error::from_raw_os_error(24)))
    }));
    match busy.load("quick").wait() {
        Ok(loaded) => panic!("an old save in the place of one that is fine: {:?}", loaded.skipped),
        Err(error) => println!("{error}"),
    }
}

/// A save whose file became very long.
#[test]
fn a_file_that_grew_falls_back() {
    let dir = tempfile::tempdir().unwrap();
    let slots = Slots::new(DirStore::open(dir.path()).unwrap());
    for n in 1..=2 {
        save(&slots, "quick", n);
    }
    let file =
        std::fs::OpenOptions::new().write(true).open(dir.path().join("quick.00000002.bonfire")).unwrap();
    file.set_len(10 << 30).unwrap();
    let loaded = slots.load("quick").wait();
    assert!(loaded.is_ok(), "no fallback: {:?}", loaded.err());
}

/// Sealed saves in a directory that is read without sealing.
#[test]
fn a_sealed_save_is_not_damage_to_a_plain_store() {
    let store = MemoryStore::new();
    let plain = Slots::new(store.clone());
    save(&plain, "quick", 1);
    let sealed = Slots::new(Sealed::new(store.clone(), SealKey::from_bytes([1; 32])));
    save(&sealed, "quick", 2);
    match plain.load("quick").wait() {
        Ok(loaded) => panic!("an older save in the place of one that needs a key: {}", loaded.skipped[0]),
        Err(error) => assert!(!error.is_corrupt(), "{error}"),
    }
}

/// And the other way round.
#[test]
fn a_plain_save_is_not_damage_to_a_sealed_store() {
    let store = MemoryStore::new();
    let plain = Slots::new(store.clone());
    let sealed = Slots::new(Sealed::new(store.clone(), SealKey::from_bytes([1; 32])));
    save(&sealed, "quick", 1);
    save(&plain, "quick", 2);
    match sealed.load("quick").wait() {
        Ok(loaded) => panic!("an older save in its place: {}", loaded.skipped[0]),
        Err(error) => println!("{error}"),
    }
}

/// A slot that always has a save is always in the list.
#[test]
fn a_slot_that_is_there_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    let slots = Slots::new(DirStore::open(dir.path()).unwrap()).keep(Keep::newest(1));
    save(&slots, "quick", 0);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let missing = std::thread::scope(|scope| {
        let writer = slots.clone();
        let stop = &stop;
        scope.spawn(move || {
            let mut n = 0;
            while !stop.load(std::sync::atomic::Ordering::SeqCst) {
                n += 1;
                save(&writer, "quick", n);
            }
        });
        let mut missing = 0;
        for _ in 0..20_000 {
            if slots.list().wait().unwrap().is_empty() {
                missing += 1;
            }
        }
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
        missing
    });
    assert_eq!(missing, 0, "the menu was empty {missing} times of 20000");
}

/// A restore is not a save of what the player played: the recovery is still wanted.
#[test]
fn a_restore_keeps_the_recovery() {
    let slots = Slots::new(MemoryStore::new());
    for n in 1..=2 {
        save(&slots, "quick", n);
    }
    slots.save_recovery("quick", &world(3), &Details::new()).wait().unwrap();
    slots.restore("quick", 1).wait().unwrap();
    let all: Vec<_> = slots.saves("quick").wait().unwrap().into_iter().map(|s| s.blob).collect();
    assert!(all.iter().any(|b| b.ends_with("recovery")), "the recovery save is gone: {all:?}");
}

/// A rename that stops halfway can be finished, and loses nothing.
#[test]
fn a_rename_that_stopped_can_be_finished() {
    let store = MemoryStore::new();
    let slots = Slots::new(store.clone());
    for n in 1..=3 {
        save(&slots, "quick", n);
    }
    slots.lock("quick", 1).wait().unwrap();
    let mut calls = 0;
    let failing = Slots::new(Hooked::new(&store, move |what, _| {
        if what == "rename" {
            calls += 1;
        }
        (what == "rename" && calls == 2).then(|| io(std::io::ErrorKind::StorageFull))
    }));
    failing.rename("quick", "boss").wait().unwrap_err();
    // "remove the new one and call again"
    let again = slots.rename("quick", "boss").wait();
    let removed = slots.delete_slot("boss").wait();
    assert!(again.is_ok() || removed.is_ok(), "stuck: {again:?}, {removed:?}");
}

/// Without the directory there is no telling whether there are settings.
#[test]
fn a_missing_directory_is_not_an_empty_one() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("saves");
    let slots = Slots::new(DirStore::open(&home).unwrap());
    slots.save_value("settings", &7_u32).unwrap();
    std::fs::rename(&home, dir.path().join("unmounted")).unwrap();
    let value = slots.load_value::<u32>("settings");
    assert!(value.is_err(), "the card was pulled, and the game starts as for a new player");
}

#[test]
fn reserved_names_are_refused() {
    let slots = Slots::new(MemoryStore::new());
    let r = slots
        .save(
            "quick",
            &world(1),
            &Details::new().custom("bonfire.mood", 3_u32).custom("bonfire.tracks", 3_u32),
        )
        .wait();
    let info = slots.load("quick").wait().map(|l| l.info);
    assert!(
        r.is_err() || info.as_ref().is_ok_and(|i| i.custom.len() == 2),
        "a custom value vanished without a word: {info:?}"
    );
}

/// The disk stumbles when the slot is looked at again after the save.
#[test]
fn a_durable_save_is_not_an_error() {
    let memory = MemoryStore::new();
    let mut written = false;
    let slots = Slots::new(Hooked::new(&memory, move |what, _| match what {
        "put" => {
            written = true;
            None
        }
        "list" if written => Some(io(std::io::ErrorKind::TimedOut)),
        _ => None,
    }));
    let saved = slots.save("quick", &world(1), &Details::new()).wait().unwrap();
    assert!(saved.generation == 1 && saved.prune_error.is_some());
    assert_eq!(number(&Slots::new(memory).load("quick").wait().unwrap().snapshot), 1);
}

/// A file with the last of all numbers, put there by hand: the slot would take no more saves, or load that file for ever.
#[test]
fn a_huge_number_does_not_stop_further_saves() {
    for planted in [999_999_999_999_u64, 999_999_999_990, 2_000_000_000] {
        let memory = MemoryStore::new();
        let slots = Slots::new(memory.clone());
        slots.save("quick", &world(1), &Details::new()).wait().unwrap();
        let bytes = memory.get("quick.00000001.bonfire").wait().unwrap();
        let name = format!("quick.{planted:08}.bonfire");
        memory.put(&name, Payload::from(bytes), Precondition::None).wait().unwrap();
        for n in 2..20 {
            let saved = slots.save("quick", &world(n), &Details::new()).wait().unwrap();
            assert_eq!(saved.generation, n);
            assert_eq!(number(&slots.load("quick").wait().unwrap().snapshot), n);
        }
        assert!(slots.list().wait().unwrap().iter().all(|slot| slot.name == "quick"));
        assert!(memory.head(&name).wait().unwrap().is_some(), "it stays where it was put");
    }
}

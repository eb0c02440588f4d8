//! Sealing: what is put back, moved, copied or asked for by strangers.

use crate::common::{number, world};
use crate::hooked::Hooked;
use crate::sealed_support::{Trusted, checked, open_payload, raw, text};
use bonfire::{Error, Result, Snapshot};
use bonfire_store::*;
use std::sync::Mutex;

fn key() -> SealKey {
    SealKey::from_bytes([1; 32])
}
fn save(slots: &Slots, slot: &str, n: u64) -> WrittenSave {
    slots.save(slot, &world(n), &Details::new()).wait().unwrap()
}
fn put(store: &impl Store, name: &str, bytes: Vec<u8>) {
    store.put(name, Payload::from(bytes), Precondition::None).wait().unwrap();
}

/// A cheater keeps a recovery save, plays on, and puts it back: with a counter and bound names.
#[test]
fn an_old_recovery_save_cannot_be_put_back() {
    let memory = MemoryStore::new();
    let trusted = Trusted::default();
    let slots = Slots::new(Sealed::new(memory.clone(), key()).bind_name().counter(trusted.clone()));
    save(&slots, "quick", 1);
    slots.save_recovery("quick", &world(100), &Details::new()).wait().unwrap(); // rich
    let kept = raw(&memory, "quick.00000002.recovery");
    for n in 3..=8 {
        save(&slots, "quick", n);
    } // lost it all
    // The cheater removes the newer files and puts the old one back. They cannot change the counter.
    for name in memory.list("").wait().unwrap() {
        memory.remove(&name).wait().unwrap();
    }
    put(&memory, "quick.00000002.recovery", kept);
    assert!(slots.recovery("quick").wait().unwrap().is_none_or(|i| i.problem.is_some()), "it is offered");
}

#[test]
fn an_old_recovery_save_cannot_be_put_back_and_accepted() {
    let memory = MemoryStore::new();
    let trusted = Trusted::default();
    let slots = Slots::new(Sealed::new(memory.clone(), key()).bind_name().counter(trusted.clone()));
    save(&slots, "quick", 1);
    slots.save_recovery("quick", &world(100), &Details::new()).wait().unwrap();
    let kept = raw(&memory, "quick.00000002.recovery");
    for n in 3..=8 {
        save(&slots, "quick", n);
    }
    for name in memory.list("").wait().unwrap() {
        memory.remove(&name).wait().unwrap();
    }
    put(&memory, "quick.00000002.recovery", kept);
    drop(slots.accept_recovery("quick").wait());
    let loaded = slots.load("quick").wait().map(|l| number(&l.snapshot));
    assert!(loaded.is_err(), "a rollback past a trusted counter: {loaded:?}");
}

/// Permadeath: the game removes the slot, the player puts the file back.
#[test]
fn a_removed_save_cannot_be_put_back() {
    let memory = MemoryStore::new();
    let slots = Slots::new(Sealed::new(memory.clone(), key()).bind_name().counter(Trusted::default()));
    save(&slots, "hardcore", 1);
    let kept = raw(&memory, "hardcore.00000001.bonfire");
    assert!(slots.delete_slot("hardcore").wait().unwrap());
    put(&memory, "hardcore.00000001.bonfire", kept);
    assert!(slots.load("hardcore").wait().is_err(), "the dead hero is back");
}

/// Renaming a slot leaves the old family where it was: the file that is put back opens too.
#[test]
fn a_renamed_save_cannot_be_put_back() {
    let memory = MemoryStore::new();
    let slots = Slots::new(Sealed::new(memory.clone(), key()).bind_name().counter(Trusted::default()));
    save(&slots, "quick", 1);
    let kept = raw(&memory, "quick.00000001.bonfire");
    slots.rename("quick", "boss").wait().unwrap();
    save(&slots, "boss", 2);
    put(&memory, "quick.00000001.bonfire", kept);
    assert!(slots.load("quick").wait().is_err(), "an old save was put back");
}

/// Families of different slots collide: profile `quick`, slot `recovery`, and recovery saves of slot `quick`.
#[test]
fn families_of_different_slots_are_apart() {
    let memory = MemoryStore::new();
    let slots = Slots::new(Sealed::new(memory.clone(), key()).counter(Trusted::default()));
    let player = slots.profile("quick").unwrap();
    save(&player, "recovery", 1);
    for n in 0..3 {
        slots.save_recovery("quick", &world(n), &Details::new()).wait().unwrap();
    }
    let loaded = player.load("recovery").wait();
    assert!(loaded.is_ok(), "{:?}", loaded.err());
}

/// Pieces with numbers are not generations of one another.
#[test]
fn numbered_pieces_are_apart() {
    let store = Sealed::new(MemoryStore::new(), key()).counter(Trusted::default());
    put(&store, "level.1", vec![1]);
    put(&store, "level.2", vec![2]);
    let one = store.get("level.1").wait();
    assert!(one.is_ok(), "{:?}", one.err());
}

/// An honest player with a damaged newest save is told what is wrong.
#[test]
fn a_damaged_save_is_not_called_a_rollback() {
    let memory = MemoryStore::new();
    let slots = Slots::new(Sealed::new(memory.clone(), key()).counter(Trusted::default()));
    for n in 1..=3 {
        save(&slots, "quick", n);
    }
    let mut bytes = raw(&memory, "quick.00000003.bonfire");
    let at = bytes.len() - 3;
    bytes[at] ^= 1;
    put(&memory, "quick.00000003.bonfire", bytes);
    let error = slots.load("quick").wait().unwrap_err();
    assert!(!error.is_rollback(), "{error}");
}

/// A tool, or a part of the game, that opens the store with the key and without its options.
fn options() -> (MemoryStore, SigningKey) {
    (MemoryStore::new(), SigningKey::from_bytes([9; 32]))
}

#[test]
fn a_lock_keeps_the_signature_or_fails() {
    let (memory, signing) = options();
    let game = Slots::new(
        Sealed::new(memory.clone(), key())
            .bind_name()
            .sign_with(signing.clone())
            .require_signature(signing.verifying_key()),
    );
    save(&game, "quick", 1);
    let tool = Slots::new(Sealed::new(memory.clone(), key()));
    let locked = tool.lock("quick", 1).wait();
    let loaded = game.load_generation("quick", 1, &Snapshot::options()).wait().map(|l| number(&l.snapshot));
    assert!(loaded.is_ok(), "lock: {locked:?}; the only copy is now {:?}", loaded.err());
}

#[test]
fn a_rename_keeps_a_bound_name_and_a_suite() {
    let (memory, _) = options();
    let game = Sealed::new(memory.clone(), key()).bind_name().suite(Suite::Evident);
    put(&game, "a", text(100));
    let tool = Sealed::new(memory.clone(), key());
    tool.rename("a", "b").wait().unwrap();
    let bytes = raw(&memory, "b");
    assert_eq!((bytes[10], bytes[11]), (3, 1), "suite and flags: it was evident and bound");
}

#[test]
fn a_restore_without_the_counter_does_not_brick_the_slot() {
    let (memory, _) = options();
    let game = Slots::new(Sealed::new(memory.clone(), key()).counter(Trusted::default()));
    for n in 1..=2 {
        save(&game, "quick", n);
    }
    let tool = Slots::new(Sealed::new(memory.clone(), key())).keep(Keep::all());
    let restored = tool.restore("quick", 2).wait();
    let loaded = game.load("quick").wait().map(|l| number(&l.snapshot));
    assert!(loaded.is_ok(), "restore: {:?}; then {:?}", restored.map(|s| s.generation), loaded.err());
}

/// A build that does not know the format does not move what may be bound.
#[test]
fn a_newer_bound_blob_is_not_moved() {
    let memory = MemoryStore::new();
    let store = Sealed::new(memory.clone(), key()).bind_name();
    put(&store, "a", text(100));
    let mut bytes = raw(&memory, "a");
    bytes[8] = 2; // version 2
    put(&memory, "a", checked(bytes));
    assert!(store.get("a").wait().unwrap_err().is_newer_format());
    let moved = store.rename("a", "b").wait();
    assert!(moved.is_err(), "whoever knows version 2 will find a save under a name that is not its own");
}

/// The blob is replaced between two reads by one with the same length and a shorter head.
#[test]
fn a_shorter_head_of_the_same_length_does_not_panic() {
    for at in 0..6 {
        let memory = MemoryStore::new();
        let store = Sealed::new(memory.clone(), key());
        let both = text(60_000);
        store.put("a", open_payload(&both, 20_000), Precondition::None).wait().unwrap();
        let (again, mut calls) = (Sealed::new(memory.clone(), key()), 0);
        let new = both.clone();
        let hooked = Hooked::new(&memory, move |_, _| {
            if calls == at {
                again.put("a", open_payload(&new, 10_000), Precondition::None).wait().unwrap();
            }
            calls += 1;
            None
        });
        let reader = Sealed::new(hooked, key());
        let part = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            reader.get_range("a", 0..20_000).wait()
        }));
        assert!(part.is_ok(), "a panic, replaced before call {at}");
        let reader_text = part.unwrap().unwrap();
        assert!(reader_text == both[..20_000], "{at}");
    }
}

/// A directory of hostile saves, each with a salt of its own.
#[test]
fn a_list_does_not_stretch_a_passphrase_for_every_stranger() {
    let memory = MemoryStore::new();
    let cheap = PassphraseCosts { memory_kib: 64, passes: 1, lanes: 1 };
    let slots = Slots::new(Sealed::new(memory.clone(), SealKey::from_passphrase_with("x", cheap)));
    save(&slots, "s", 1);
    let good = raw(&memory, "s.00000001.bonfire");
    for n in 0..5_u8 {
        let mut bytes = good.clone();
        bytes[44] = n;
        bytes[45] ^= 0xff;
        bytes[60..64].copy_from_slice(&(256_u32 << 10).to_le_bytes());
        bytes[64..68].copy_from_slice(&16_u32.to_le_bytes());
        put(&memory, &format!("evil{n}.00000001.bonfire"), checked(bytes));
    }
    // Each would cost seconds to stretch a passphrase for, and none is ours.
    let list = slots.list().wait().unwrap();
    assert!(list.iter().filter(|slot| slot.name.starts_with("evil")).all(|slot| slot.newest.sealed));
}

/// The server of the counter cannot be reached.
struct Offline;
impl TrustedCounter for Offline {
    fn newest(&self, _: &str) -> Result<u64> {
        Err(Error::io("the server", std::io::Error::from(std::io::ErrorKind::TimedOut)))
    }
    fn advance(&self, _: &str, _: u64) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_counter_that_cannot_be_reached_is_not_damage() {
    let memory = MemoryStore::new();
    let slots = Slots::new(Sealed::new(memory.clone(), key()));
    for n in 1..=3 {
        save(&slots, "quick", n);
    }
    let offline = Slots::new(Sealed::new(memory.clone(), key()).counter(Offline));
    let error = offline.load("quick").wait().unwrap_err();
    assert!(!error.is_corrupt(), "{error}");
}

/// It fails once: an older save is not loaded for that.
struct Flaky(Mutex<u32>);
impl TrustedCounter for Flaky {
    fn newest(&self, _: &str) -> Result<u64> {
        let mut calls = self.0.lock().unwrap();
        *calls += 1;
        if *calls <= 3 {
            Err(Error::io("the server", std::io::Error::from(std::io::ErrorKind::TimedOut)))
        } else {
            Ok(0)
        }
    }
    fn advance(&self, _: &str, _: u64) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_counter_that_stumbles_hides_no_progress() {
    let memory = MemoryStore::new();
    let slots = Slots::new(Sealed::new(memory.clone(), key()));
    for n in 1..=3 {
        save(&slots, "quick", n);
    }
    for skip in 0..3 {
        let flaky = Slots::new(Sealed::new(memory.clone(), key()).counter(Flaky(Mutex::new(skip))));
        if let Ok(loaded) = flaky.load("quick").wait() {
            assert_eq!(number(&loaded.snapshot), 3, "{:?}", loaded.skipped);
        }
    }
}

/// A crash inside `lock` of a bound save leaves both names.
#[test]
fn a_lock_that_stopped_can_be_finished() {
    let memory = MemoryStore::new();
    let bound = |store: Hooked| Slots::new(Sealed::new(store, key()).bind_name());
    let slots = bound(Hooked::new(&memory, |_, _| None));
    save(&slots, "quick", 1);
    let stopped = bound(Hooked::new(&memory, |what, _| {
        (what == "remove").then(|| Error::io("power", std::io::Error::other("cut")))
    }));
    stopped.lock("quick", 1).wait().unwrap_err();
    let again = slots.lock("quick", 1).wait();
    let unlock = slots.unlock("quick", 1).wait();
    let left = memory.list("").wait().unwrap();
    assert!(again.is_ok() && left.len() == 1, "lock: {again:?}; unlock: {unlock:?}; {left:?}");
}

/// A player mistypes the passphrase, cannot load, starts anew; the game saves by itself.
#[test]
fn saves_of_another_key_are_not_pruned() {
    let memory = MemoryStore::new();
    let costs = PassphraseCosts { memory_kib: 64, passes: 1, lanes: 1 };
    let with =
        |text: &str| Slots::new(Sealed::new(memory.clone(), SealKey::from_passphrase_with(text, costs)));
    for n in 1..=3 {
        save(&with("right"), "auto", n);
    }
    let typo = with("rihgt");
    assert!(typo.load("auto").wait().unwrap_err().is_wrong_key());
    for n in 4..=6 {
        save(&typo, "auto", n);
    }
    let all = with("right").saves("auto").wait().unwrap();
    let mine = all.iter().filter(|i| !i.sealed).count();
    assert!(mine > 0, "three saves with a wrong passphrase removed all that the right one opens");
}

/// An older build saves into a slot that a newer build has saved to.
#[test]
fn saves_of_a_newer_build_are_not_pruned() {
    let memory = MemoryStore::new();
    let slots = Slots::new(memory.clone());
    for n in 1..=3 {
        save(&slots, "auto", n);
    }
    for n in 1..=3 {
        let name = format!("auto.{n:08}.bonfire");
        let mut bytes = raw(&memory, &name);
        bytes[8] = 9;
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
        put(&memory, &name, bytes);
    }
    assert!(slots.load("auto").wait().unwrap_err().is_newer_format());
    for n in 4..=6 {
        save(&slots, "auto", n);
    }
    let newer = slots
        .saves("auto")
        .wait()
        .unwrap()
        .into_iter()
        .filter(|i| i.problem.as_ref().is_some_and(Error::is_newer_format))
        .count();
    assert!(newer > 0, "load says: the player has progress there. Three autosaves later it is gone");
}

/// An append that races with a put in a rotating store.
#[test]
fn a_rotating_append_is_not_lost() {
    let memory = MemoryStore::new();
    let fast = Rotating::new(memory.clone(), 3);
    put(&fast, "log", b"one".to_vec());
    let other = fast.clone();
    let slow = Rotating::new(
        Hooked::new(&memory, move |what, _| {
            if what == "append" {
                put(&other, "log", b"new".to_vec());
            }
            None
        }),
        3,
    );
    let appended = slow.append("log", 3, Payload::from(b", two".to_vec())).wait();
    let now = fast.get("log").wait().unwrap();
    assert!(appended.is_err() || now.ends_with(b", two"), "{appended:?}, and there is {now:?}");
}

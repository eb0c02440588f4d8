//! Directories and rotation beside others.

use crate::common::world;
use crate::hooked::Hooked;
use bonfire::Error;
use bonfire_store::*;
use bytes::Bytes;

fn save(slots: &Slots, slot: &str, n: u64) -> WrittenSave {
    slots.save(slot, &world(n), &Details::new()).wait().unwrap()
}
fn bytes(text: &str) -> Payload {
    Payload::from(text.as_bytes().to_vec())
}

/// Two puts with the same expected version: one must fail.
#[test]
fn one_of_two_conditional_puts_wins_in_a_rotating_store() {
    let memory = MemoryStore::new();
    let fast = Rotating::new(memory.clone(), 1);
    let first = fast.put("a", bytes("1"), Precondition::None).wait().unwrap();
    let (other, seen, mut once) = (fast.clone(), first.clone(), false);
    let slow = Rotating::new(
        Hooked::new(&memory, move |what, _| {
            if what == "put" && !once {
                once = true;
                let second =
                    other.put("a", bytes("fast 1"), Precondition::Version(seen.clone())).wait().unwrap();
                other.put("a", bytes("fast 2"), Precondition::Version(second)).wait().unwrap();
            }
            None
        }),
        1,
    );
    let slow = slow.put("a", bytes("slow"), Precondition::Version(first)).wait();
    assert!(
        slow.is_err(),
        "both were told that nobody else had changed it; and what is there now: {:?}",
        fast.get("a").wait()
    );
}

/// The newest is damaged and the older ones are pruned while it is read: there is something newer.
#[test]
fn a_rotating_read_starts_again_if_states_vanish() {
    let memory = MemoryStore::new();
    let store = Rotating::new(memory.clone(), 2)
        .check(|b| if &b[..] == b"bad" { Err(Error::corrupt("bad")) } else { Ok(()) });
    store.put("a", bytes("1"), Precondition::None).wait().unwrap();
    store.put("a", bytes("bad"), Precondition::None).wait().unwrap();
    let (other, mut calls) = (store.clone(), 0);
    let reader = Rotating::new(
        Hooked::new(&memory, move |what, _| {
            if what == "get" {
                calls += 1;
                if calls == 2 {
                    for n in 3..=4 {
                        other.put("a", bytes(&n.to_string()), Precondition::None).wait().unwrap();
                    }
                }
            }
            None
        }),
        2,
    )
    .check(|b| if &b[..] == b"bad" { Err(Error::corrupt("bad")) } else { Ok(()) });
    let read = reader.get("a").wait();
    assert!(read.is_ok(), "{:?}", read.err());
}

/// `write` puts its temporary file where a store removes leftovers, and takes no lock.
#[test]
fn a_store_that_is_opened_leaves_the_files_of_writers_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("world.save");
    let stop = std::sync::atomic::AtomicBool::new(false);
    let errors = std::thread::scope(|scope| {
        let (stop, dir) = (&stop, dir.path());
        scope.spawn(move || {
            while !stop.load(std::sync::atomic::Ordering::SeqCst) {
                drop(DirStore::open(dir).unwrap());
            }
        });
        let rope = bonfire::engine::Rope::from(Bytes::from(vec![7; 1 << 20]));
        let errors: Vec<String> =
            (0..50).filter_map(|_| write(&path, &rope).err()).map(|e| e.to_string()).collect();
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
        errors
    });
    assert!(errors.is_empty(), "{} of 50 writes failed: {}", errors.len(), errors[0]);
}

/// A directory, a link or a name in other case at the number that comes next.
#[cfg(unix)]
#[test]
fn something_that_is_no_save_does_not_stop_saving() {
    let mut failures = Vec::new();
    for what in ["directory", "link", "case"] {
        let dir = tempfile::tempdir().unwrap();
        let slots = Slots::new(DirStore::open(dir.path()).unwrap());
        save(&slots, "quick", 1);
        let next = dir.path().join("quick.00000002.bonfire");
        match what {
            "directory" => std::fs::create_dir(next).unwrap(),
            "link" => std::os::unix::fs::symlink("/nowhere", next).unwrap(),
            _ => std::fs::write(dir.path().join("quick.00000002.BONFIRE"), b"").unwrap(),
        }
        if let Err(error) = slots.save("quick", &world(2), &Details::new()).wait() {
            failures.push(format!("{what}: {error}"));
        }
    }
    assert!(failures.is_empty(), "no save is possible any more: {failures:#?}");
}

/// accept_recovery has done its work when the rest fails.
#[test]
fn an_accepted_recovery_is_not_an_error() {
    let memory = MemoryStore::new();
    let slots = Slots::new(memory.clone());
    for n in 1..=3 {
        save(&slots, "quick", n);
    }
    slots.save_recovery("quick", &world(4), &Details::new()).wait().unwrap();
    let failing = Slots::new(Hooked::new(&memory, |what, _| {
        (what == "remove")
            .then(|| Error::io("remove", std::io::Error::from(std::io::ErrorKind::PermissionDenied)))
    }));
    let accepted = failing.accept_recovery("quick").wait();
    assert!(accepted.is_ok(), "it is accepted, durable, the newest - and: {accepted:?}");
}

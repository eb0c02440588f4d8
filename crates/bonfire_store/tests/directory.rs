//! A real directory: what lies in it besides saves, and who else uses it.

mod common;

use std::fs;
use std::path::Path;

use bonfire_store::disk::{Access, Disk, OsDisk};
use bonfire_store::{Details, DirStore, Keep, Payload, Precondition, Slots, Store, Wait, app_directory};
use common::{number, world};

fn put(store: &DirStore, name: &str, bytes: &[u8]) {
    store.put(name, Payload::from(bytes.to_vec()), Precondition::None).wait().unwrap();
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn blobs_are_files_under_their_own_names() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("not/there/yet");
    let store = DirStore::open(&path).unwrap();
    put(&store, "a.bonfire", b"one");
    assert_eq!(fs::read(path.join("a.bonfire")).unwrap(), b"one");
    assert_eq!(names(&path), [".bonfire-lock", "a.bonfire"]);
    fs::write(path.join("b.bonfire"), b"put here by hand").unwrap();
    assert_eq!(store.list("").wait().unwrap(), ["a.bonfire", "b.bonfire"]);
    assert_eq!(&store.get("b.bonfire").wait().unwrap()[..], b"put here by hand");
}

#[test]
fn what_is_not_a_save_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    for name in ["with space.txt", ".hidden", "Thumbs.db~", "ümlaut", "a..b"] {
        fs::write(home.path().join(name), b"not ours").unwrap();
    }
    #[cfg(unix)]
    fs::write(home.path().join("CON.txt"), b"no file on Windows").unwrap();
    fs::create_dir(home.path().join("folder.bonfire")).unwrap();
    let store = DirStore::open(home.path()).unwrap();
    assert!(store.list("").wait().unwrap().is_empty());
    assert!(store.get("folder.bonfire").wait().unwrap_err().is_io());
    let before = names(home.path());
    put(&store, "a", b"x");
    assert_eq!(names(home.path()).len(), before.len() + 2);
}

#[test]
#[cfg(unix)]
fn errors_of_the_system_keep_their_code() {
    use std::error::Error as _;

    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("file"), b"no directory").unwrap();
    let error = DirStore::open(home.path().join("file/saves")).map(drop).unwrap_err();
    let cause = error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>());
    assert_eq!(cause.and_then(std::io::Error::raw_os_error), Some(20), "{error}: ENOTDIR");
    assert!(error.is_io() && error.to_string().contains("file/saves"));
}

#[test]
fn leftovers_of_a_crash_are_removed_unless_somebody_is_writing() {
    let home = tempfile::tempdir().unwrap();
    let leftover = home.path().join(".123-0.bonfire-tmp");
    fs::write(&leftover, b"half a save").unwrap();
    let disk = OsDisk::at(home.path());
    let writing = disk.lock(".bonfire-lock").unwrap().unwrap();
    let store = DirStore::open(home.path()).unwrap();
    assert!(leftover.exists(), "it may be somebody's who is writing right now");
    drop(writing);
    DirStore::open(home.path()).unwrap();
    assert!(!leftover.exists());
    put(&store, "a", b"x");
    assert_eq!(names(home.path()), [".bonfire-lock", "a"]);
}

#[test]
fn reading_needs_no_right_to_write() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("a"), b"x").unwrap();
    let store = DirStore::open(home.path()).unwrap();
    assert_eq!(store.list("").wait().unwrap(), ["a"]);
    assert_eq!(&store.get("a").wait().unwrap()[..], b"x");
    assert_eq!(names(home.path()), ["a"], "nothing was created");
}

#[test]
fn locks_end_with_their_guard() {
    let home = tempfile::tempdir().unwrap();
    let (one, other) = (OsDisk::at(home.path()), OsDisk::at(home.path()));
    let lock = one.lock("lock").unwrap().expect("nobody has it");
    assert!(other.lock("lock").unwrap().is_none());
    assert!(one.lock("lock").unwrap().is_none(), "not even the same one twice");
    drop(lock);
    assert!(other.lock("lock").unwrap().is_some());
}

#[test]
fn files_are_what_they_are_opened_for() {
    let home = tempfile::tempdir().unwrap();
    let disk = OsDisk::create(home.path().join("new")).unwrap();
    let file = disk.create_new("a").unwrap();
    assert!(disk.create_new("a").is_err_and(|error| error.kind() == std::io::ErrorKind::AlreadyExists));
    file.write_all_at(b"hello", 3).unwrap();
    file.sync().unwrap();
    let reader = disk.open("a", Access::Read).unwrap();
    let mut bytes = [9; 8];
    reader.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"\0\0\0hello");
    assert!(reader.write_all_at(b"x", 0).is_err() && reader.set_len(0).is_err());
    assert!(reader.read_exact_at(&mut [0], 8).is_err());
    assert_eq!(reader.stamp().unwrap(), file.stamp().unwrap());
    file.set_len(4).unwrap();
    assert_eq!((reader.len().unwrap(), reader.is_empty().unwrap()), (4, false));
    reader.forget_cached().unwrap();
}

#[cfg(unix)]
#[test]
fn links_are_not_followed() {
    use std::os::unix::fs::symlink;
    let home = tempfile::tempdir().unwrap();
    let (saves, elsewhere) = (home.path().join("saves"), home.path().join("elsewhere"));
    fs::create_dir(&saves).unwrap();
    fs::write(&elsewhere, b"a file of somebody else").unwrap();
    symlink(&elsewhere, saves.join("quick")).unwrap();
    symlink(&elsewhere, saves.join(".bonfire-lock")).unwrap();
    let store = DirStore::open(&saves).unwrap();
    assert!(store.list("").wait().unwrap().is_empty());
    assert!(store.get("quick").wait().unwrap_err().is_io());
    assert!(store.append("quick", 23, Payload::from(b"x".to_vec())).wait().unwrap_err().is_io());
    let refused = store.put("quick", Payload::from(b"x".to_vec()), Precondition::None).wait();
    assert!(refused.unwrap_err().is_io(), "the lock is a link: nothing is locked through it");
    fs::remove_file(saves.join(".bonfire-lock")).unwrap();
    fs::remove_file(saves.join("quick")).unwrap();
    put(&store, "quick", b"mine");
    assert_eq!(fs::read(&elsewhere).unwrap(), b"a file of somebody else");
}

#[cfg(unix)]
#[test]
fn a_pipe_does_not_hang_the_game() {
    let home = tempfile::tempdir().unwrap();
    let made = std::process::Command::new("mkfifo").arg(home.path().join("quick")).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("there is no mkfifo here");
        return;
    }
    let store = DirStore::open(home.path()).unwrap();
    assert!(store.get("quick").wait().unwrap_err().is_io());
    assert!(store.head("quick").wait().unwrap_err().is_io());
}

#[test]
fn each_system_has_a_place_for_saves() {
    let path = app_directory("Moon Studio", "Comet 2").unwrap();
    assert!(path.ends_with("Moon Studio/Comet 2/saves"), "{}", path.display());
    for bad in ["", "..", "a/b", "a\\b", "a:b", "a.", "a ", "CON", "nul.x", "a\0", ".a"] {
        assert!(app_directory(bad, "Game").unwrap_err().is_misuse(), "{bad:?}");
        assert!(app_directory("Studio", bad).unwrap_err().is_misuse(), "{bad:?}");
    }
}

/// Eight threads save, load, list, lock and prune in one directory.
#[test]
fn many_threads_share_a_store() {
    let home = tempfile::tempdir().unwrap();
    let rounds = 12 * u64::from(bonfire_testkit::scale().min(50));
    let slots = Slots::new(DirStore::open(home.path()).unwrap()).keep(Keep::newest(2));
    slots.save("shared", &world(0), &Details::new()).wait().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            // Half of them have a store of their own, as another process would.
            let slots = match thread % 2 {
                0 => slots.clone(),
                _ => Slots::new(DirStore::open(home.path()).unwrap()).keep(Keep::newest(2)),
            };
            scope.spawn(move || {
                let own = format!("own{thread}");
                for round in 0..rounds {
                    let saved =
                        slots.save("shared", &world(thread * 1000 + round), &Details::new()).wait().unwrap();
                    assert!(saved.prune_error.is_none(), "{:?}", saved.prune_error);
                    let loaded = slots.load("shared").wait().unwrap();
                    assert!(
                        loaded.info.generation >= saved.generation,
                        "an acknowledged save is there or replaced"
                    );
                    assert!(loaded.skipped.is_empty());
                    slots.save(&own, &world(round), &Details::new()).wait().unwrap();
                    assert_eq!(number(&slots.load(&own).wait().unwrap().snapshot), round);
                    for slot in slots.list().wait().unwrap() {
                        assert!(slot.newest.problem.is_none(), "{:?}", slot.newest.problem);
                    }
                    if round == 0 {
                        let keep = slots.saves(&own).wait().unwrap()[0].generation;
                        slots.lock(&own, keep).wait().unwrap();
                    }
                    slots.prune("shared").wait().unwrap();
                }
            });
        }
    });
    assert_eq!(slots.count("shared").wait().unwrap(), 2);
    for thread in 0..8 {
        let saves = slots.saves(&format!("own{thread}")).wait().unwrap();
        assert_eq!(saves.iter().filter(|save| save.locked).count(), 1, "the first one");
    }
    let left = names(home.path());
    assert!(left.iter().all(|name| !name.ends_with("-tmp")), "{left:?}");
}

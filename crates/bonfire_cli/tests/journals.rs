//! A save is read with its journal, as a load reads it.

mod common;

use std::path::{Path, PathBuf};

use bonfire::engine::{DeltaSchema, SnapshotWriter};
use bonfire::{Delta, Snapshot};
use bonfire_store::{Details, DirStore, JournalBase, SealKey, Sealed, Slots, Store, Wait};
use common::*;
use tempfile::TempDir;

/// A world at a tick: the position of the wolf is the tick.
fn at(tick: u64) -> Snapshot {
    let registry = registry();
    let mut writer = SnapshotWriter::new(&registry);
    writer.archetype(&[WOLF]).unwrap().column(&[Position { x: tick as f32, y: 0.0 }]).unwrap();
    writer.finish().unwrap()
}

/// Saves tick 1 and appends up to tick 5.
fn save_and_append(store: impl Store + 'static) {
    let registry = registry();
    let schema = DeltaSchema::new(&registry);
    let slots = Slots::new(store);
    let saved = slots.save("auto", &at(1), &Details::new()).wait().unwrap();
    let base = JournalBase::new("auto", saved.generation, 1);
    for tick in 1..5 {
        let delta = Delta::between(&schema, &at(tick), &at(tick + 1), tick, tick + 1).unwrap();
        slots.append(&base, &delta).wait().unwrap();
    }
}

fn journaled() -> (TempDir, PathBuf, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    save_and_append(DirStore::open(directory.path()).unwrap());
    let [save, journal] =
        ["auto.00000001.bonfire", "auto.00000001.journal"].map(|name| directory.path().join(name));
    assert!(save.is_file() && journal.is_file());
    (directory, save, journal)
}

/// Flips a byte inside the second of the four records.
fn damage(journal: &Path) {
    let mut bytes = std::fs::read(journal).unwrap();
    let starts: Vec<usize> = (0..bytes.len() - 4).filter(|at| bytes[*at..].starts_with(b"BREC")).collect();
    assert_eq!(starts.len(), 4);
    bytes[starts[1] + 70] ^= 1;
    std::fs::write(journal, bytes).unwrap();
}

fn x(run: &Run) -> serde_json::Value {
    run.json()["archetypes"][0]["entities"][0]["components"]["game.position"]["x"].clone()
}

#[test]
fn show_prints_the_world_that_a_load_gives() {
    let (_directory, save, journal) = journaled();
    let run = run_on("show", &save, &["--json"]);
    assert_eq!((run.code, x(&run)), (Some(0), 5.0.into()), "{run:?}");
    assert_eq!((&run.json()["journal"]["appends"], &run.json()["journal"]["tick"]), (&4.into(), &5.into()));
    let text = run_on("show", &save, &[]);
    assert!(text.stdout.starts_with("with journal auto.00000001.journal: 4 appends of "), "{text:?}");

    damage(&journal);
    let run = run_on("show", &save, &["--json"]);
    assert_eq!((run.code, x(&run)), (Some(1), 2.0.into()), "{run:?}");
    assert_eq!(
        (&run.json()["journal"]["lost"]["record"], &run.json()["journal"]["lost"]["later"]),
        (&2.into(), &2.into())
    );
    let text = run_on("show", &save, &[]);
    assert!(text.stdout.contains("delta 2 of the journal is lost: "), "{text:?}");
}

#[test]
fn verify_checks_the_journal_and_says_what_is_lost() {
    let (directory, save, journal) = journaled();
    let run = run_on("verify", &save, &[]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(
        run.stdout.starts_with("ok: 1 entity, ") && run.stdout.contains("auto.00000001.journal: 4 appends"),
        "{run:?}"
    );
    let of_journal = run_on("verify", &journal, &[]);
    assert_eq!(of_journal.code, Some(0), "{of_journal:?}");
    assert!(
        of_journal.stdout.starts_with("ok: the journal of the save auto.00000001.bonfire"),
        "{of_journal:?}"
    );

    damage(&journal);
    for path in [save.as_path(), directory.path(), journal.as_path()] {
        let run = run_on("verify", path, &[]);
        assert_eq!(run.code, Some(1), "{run:?}");
        assert!(
            run.stdout.contains(
                "delta 2 of the journal is lost: its contents are damaged; so are the 2 that follow"
            ),
            "{run:?}"
        );
    }
    assert_eq!(run_on("verify", &save, &["--json"]).json()["result"], "damaged");
    // A journal of another save is of no use.
    std::fs::write(&save, encode(&farm())).unwrap();
    let run = run_on("verify", &save, &[]);
    assert!(run.code == Some(1) && run.stdout.contains("belongs to another save"), "{run:?}");
}

#[test]
fn info_and_ls_tell_of_the_journal() {
    let (directory, save, journal) = journaled();
    let run = run_on("info", &save, &[]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(
        run.stdout.contains("journal auto.00000001.journal: 4 appends of ")
            && run.stdout.contains("up to tick 5"),
        "{run:?}"
    );
    assert_eq!(run_on("info", &save, &["--json"]).json()["journal"]["appends"], 4);
    let ls = run_on("ls", directory.path(), &[]);
    assert!(ls.stdout.contains("journal of 4 appends"), "{ls:?}");
    assert_eq!(run_on("ls", directory.path(), &["--json"]).json()[0]["newest"]["journal"]["tick"], 5);
    let all = run_on("info", directory.path(), &[]);
    assert!(all.stdout.contains("journal: 4 appends up to tick 5"), "{all:?}");

    let run = run_on("info", &journal, &[]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(
        run.stdout.contains("this is the journal of the save auto.00000001.bonfire; `bonfire show "),
        "{run:?}"
    );
    assert!(run.stdout.contains("appends      4") && run.stdout.contains("tick         5"), "{run:?}");
    let show = run_on("show", &journal, &[]);
    assert_eq!(show.code, Some(2), "{show:?}");
    assert!(show.stderr.contains("this is the journal of a save, not a save: `bonfire show "), "{show:?}");

    damage(&journal);
    let run = run_on("info", &save, &[]);
    assert!(
        run.code == Some(1) && run.stdout.contains("journal lost    delta 2 of the journal is lost"),
        "{run:?}"
    );
    std::fs::remove_file(&save).unwrap();
    let run = run_on("info", &journal, &[]);
    assert!(run.stdout.contains("a journal whose save is not beside it"), "{run:?}");
    assert_eq!(run_on("verify", &journal, &[]).code, Some(1));
}

#[test]
fn sealed_journals_are_read_with_the_key() {
    let directory = tempfile::tempdir().unwrap();
    let store = DirStore::open(directory.path()).unwrap();
    save_and_append(Sealed::new(store, SealKey::from_bytes([7; 32])).bind_name());
    let save = directory.path().join("auto.00000001.bonfire");
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), [7; 32]).unwrap();
    let key = ["--key-file", key.path().to_str().unwrap()];
    let run = run_on("show", &save, &[&key[..], &["--json"]].concat());
    assert_eq!((run.code, x(&run)), (Some(0), 5.0.into()), "{run:?}");
    let journal = directory.path().join("auto.00000001.journal");
    let info = run_on("info", &journal, &key);
    assert!(info.code == Some(0) && info.stdout.contains("appends      4"), "{info:?}");
    assert_eq!(run_on("show", &save, &[]).code, Some(2), "without a key nothing is shown");
}

#[test]
fn a_save_with_a_journal_is_not_migrated_without_it() {
    let (directory, save, _journal) = journaled();
    let lock = directory.path().join("schemas.lock");
    std::fs::write(&lock, lock_of::<Position>()).unwrap();
    let run = run_on("migrate", &save, &["--dry-run", "--lock", lock.to_str().unwrap()]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("the save has a journal, whose changes would be lost"), "{run:?}");
}

//! `bonfire migrate`: an old save becomes what the newest schemas of a lock have, and nobody's file is lost.

mod common;

use bonfire::engine::{LoadPlan, SnapshotWriter};
use bonfire::{Compression, LoadOptions, Registry, SchemaLock, Snapshot, Value};
use common::release::{First, Idle, Raised, Second, State, Stuck};
use common::*;

/// Many entities of the first release, with everything around them that a save may have.
fn old_world() -> Snapshot {
    let mut registry = Registry::new().with::<First>().unwrap().with::<Mana>().unwrap();
    registry.track("game", 4).unwrap();
    let mut writer = SnapshotWriter::new(&registry);
    let ids: Vec<_> = (0..1000).map(|index| bonfire::EntityId::new(index, index % 3)).collect();
    let healths: Vec<_> = ids.iter().map(|id| First { current: id.index() as f32 }).collect();
    let manas: Vec<_> = ids.iter().map(|id| Mana { amount: id.index() }).collect();
    writer.next_entity_id(1000);
    writer.metadata("name", "The Farm");
    let mut archetype = writer.archetype(&ids).unwrap();
    archetype.column(&healths).unwrap();
    archetype.column(&manas).unwrap();
    writer.resource(&First { current: 0.5 }).unwrap();
    writer.data("game.seed", &5_u32).unwrap();
    writer.finish().unwrap()
}

fn old_save(lock: &str) -> Saved {
    let saved = save(&encode(&old_world()));
    saved.beside("schemas.lock", lock);
    saved
}

fn open(saved: &Saved, name: &str) -> Snapshot {
    Snapshot::open(&std::fs::read(saved.path.with_file_name(name)).unwrap()).unwrap()
}

#[test]
fn a_save_becomes_what_the_lock_has_and_the_old_one_stays() {
    let saved = old_save(&lock_of::<Second>());
    let before = std::fs::read(&saved.path).unwrap();
    let run = run_beside(&saved, &["migrate", "test.save", "-o", "new.save"]);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:?}");
    let bytes = std::fs::metadata(saved.path.with_file_name("new.save")).unwrap().len();
    assert_eq!(
        run.stdout,
        format!(
            "1000 entities\n\
             `game.health`: 1001 loaded by name\n    `max` is new and gets its default\n    `current` was f32 and is f64\n\
             `mod.mana`: 1000 carried for the next save\n\
             track `game`: stays at version 4. World migrations, if it needs any, run when the game loads it\n\
             written to new.save: {bytes} bytes\n"
        )
    );
    assert_eq!(std::fs::read(&saved.path).unwrap(), before);
    assert_eq!(saved.names(), ["new.save", "schemas.lock", "test.save"]);

    let (old, new) = (old_world(), open(&saved, "new.save"));
    assert_eq!(new.entities(), old.entities());
    assert_eq!(new.tracks(), old.tracks());
    assert_eq!(new.metadata()[0], ("name".to_owned(), Value::from("The Farm")));
    assert_eq!(new.data()[0].get::<u32>().unwrap(), 5);
    assert_eq!(new.prelude().next_entity_id, 1000);
    // The mod that is unknown to the lock finds its own, and nothing is left to convert.
    let registry = Registry::new().with::<Second>().unwrap().with::<Mana>().unwrap();
    let plan = LoadPlan::new(&new, &registry, LoadOptions::default()).unwrap();
    assert!(plan.resolutions().iter().all(|resolution| resolution.changes().is_empty()));
    let map = plan.same_entities().unwrap();
    let mut staged = plan.stage(&map, None).unwrap();
    assert_eq!(staged.report.component("mod.mana").unwrap().rows, 1000);
    assert!(staged.carry.component_rows().is_empty());
    let healths = staged.archetypes[0].take::<Second>().unwrap().into_rows::<Second>().unwrap();
    assert_eq!(healths[7], Second { current: 7.0, max: 100.0 });
    assert_eq!(run_on("verify", &saved.path.with_file_name("new.save"), &[]).code, Some(0));
}

#[test]
fn the_compression_stays() {
    for (compression, codec) in
        [(Compression::None, "none"), (Compression::Lz4, "lz4"), (Compression::Zstd(5), "zstd")]
    {
        if codec == "zstd" && !cfg!(feature = "zstd") {
            continue;
        }
        let saved = save(&encode_with(&old_world(), compression));
        saved.beside("game.lock", lock_of::<Second>());
        let run = run_beside(&saved, &["migrate", "test.save", "-o", "new.save", "--lock", "game.lock"]);
        assert_eq!(run.code, Some(0), "{run:?}");
        let new = open(&saved, "new.save");
        let columns = new.sections().iter().find(|section| section.name == "columns").unwrap();
        assert_eq!(columns.codec, codec);
    }
}

#[test]
fn nothing_is_replaced_without_being_told_to() {
    let saved = old_save(&lock_of::<Second>());
    saved.beside("taken.save", "precious");
    let before = std::fs::read(&saved.path).unwrap();
    let migrate = |new: &str, more: &[&str]| {
        run_beside(&saved, &[&["migrate", "test.save", "--output", new][..], more].concat())
    };
    let taken = migrate("taken.save", &[]);
    assert_eq!((taken.code, &*taken.stdout), (Some(2), ""));
    assert!(taken.stderr.contains("taken.save: this file exists already: with --force"), "{taken:?}");
    let same = migrate("./test.save", &[]);
    assert_eq!((same.code, &*same.stdout), (Some(2), ""));
    assert!(same.stderr.contains("this is the old save itself: with --force"), "{same:?}");
    assert_eq!(std::fs::read(saved.path.with_file_name("taken.save")).unwrap(), b"precious");
    assert_eq!(std::fs::read(&saved.path).unwrap(), before);

    assert_eq!(migrate("taken.save", &["--force"]).code, Some(0));
    assert_eq!(open(&saved, "taken.save").entity_count(), 1000);
    assert_eq!(migrate("test.save", &["--force"]).code, Some(0));
    assert_eq!(
        std::fs::read(&saved.path).unwrap(),
        std::fs::read(saved.path.with_file_name("taken.save")).unwrap()
    );
    assert_eq!(saved.names(), ["schemas.lock", "taken.save", "test.save"]);
}

#[test]
#[cfg(unix)]
fn a_link_that_leads_nowhere_is_there_too() {
    let saved = old_save(&lock_of::<Second>());
    std::os::unix::fs::symlink("nowhere", saved.path.with_file_name("link.save")).unwrap();
    let run = run_beside(&saved, &["migrate", "test.save", "-o", "link.save"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert_eq!(saved.names(), ["link.save", "schemas.lock", "test.save"]);
}

#[test]
fn a_dry_run_says_the_same_and_writes_nothing() {
    let saved = old_save(&lock_of::<Second>());
    let before = std::fs::read(&saved.path).unwrap();
    let dry = run_beside(&saved, &["migrate", "test.save", "--dry-run"]);
    assert_eq!((dry.code, &*dry.stderr), (Some(0), ""));
    assert!(dry.stdout.ends_with("\nnothing was written: this is a dry run\n"), "{dry:?}");
    for new in ["new.save", "test.save"] {
        let run = run_beside(&saved, &["migrate", "test.save", "-o", new, "--dry-run"]);
        assert_eq!((run.code, &run.stdout), (Some(0), &dry.stdout), "{run:?}");
    }
    assert_eq!(saved.names(), ["schemas.lock", "test.save"]);
    assert_eq!(std::fs::read(&saved.path).unwrap(), before);
    let wet = run_beside(&saved, &["migrate", "test.save", "-o", "new.save"]);
    let lines = |run: &Run| run.stdout.lines().rev().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines(&wet), lines(&dry));
    let nowhere = run_beside(&saved, &["migrate", "test.save"]);
    assert_eq!(nowhere.code, Some(2));
    assert!(nowhere.stderr.contains("--output"), "{nowhere:?}");
}

/// Runs on `bytes` against a lock, with and without writing. Nothing may be written.
fn refused(bytes: &[u8], lock: &str, code: i32) -> String {
    let saved = save(bytes);
    saved.beside("schemas.lock", lock);
    let dry = run_beside(&saved, &["migrate", "test.save", "--dry-run"]);
    let run = run_beside(&saved, &["migrate", "test.save", "-o", "new.save", "--force"]);
    assert_eq!((run.code, &*run.stdout), (Some(code), ""), "{run:?}");
    assert_eq!((dry.code, &*dry.stdout, &dry.stderr), (Some(code), "", &run.stderr));
    assert_eq!(saved.names(), ["schemas.lock", "test.save"]);
    assert_eq!(std::fs::read(&saved.path).unwrap(), bytes);
    assert!(run.stderr.starts_with("error: "), "{run:?}");
    run.stderr
}

#[test]
fn a_version_whose_steps_are_in_the_game_is_refused_by_name() {
    let error = refused(&encode(&old_world()), &lock_of::<Raised>(), 5);
    assert_eq!(
        error,
        "error: test.save: `game.health`: version 1, and the lock has version 2. The steps between them are code of the \
         game, so the game itself must migrate it: load and save it there, or call `Snapshot::rewritten` with the game's \
         registry\n"
    );
}

#[test]
fn a_save_that_cannot_follow_is_refused() {
    let error = refused(&encode(&old_world()), &lock_of::<Stuck>(), 4);
    assert!(error.contains("test.save: `game.health`"), "{error}");
    let error = refused(&save_of(State::Walk { speed: 1.0 }), &lock_of::<Idle>(), 4);
    assert!(error.contains("test.save: `game.state`") && error.contains("Walk"), "{error}");
    let error = refused(&save_of(Raised { hearts: 1 }), &lock_of::<First>(), 3);
    assert!(error.contains("version 2 is newer"), "{error}");
}

#[test]
fn a_damaged_save_or_lock_is_refused() {
    let mut bytes = encode(&old_world());
    let columns = section_content(&bytes, "columns");
    bytes[columns] ^= 0xff;
    let error = refused(&bytes, &lock_of::<Second>(), 1);
    assert!(error.contains("hint: `bonfire verify test.save` lists the damage\n"), "{error}");
    let error = refused(&encode(&old_world()), "[game.health]\nnonsense\n", 1);
    assert!(error.contains("`schemas.lock`: line 2 of the schema lock: "), "{error}");
}

#[test]
fn files_that_cannot_be_read_or_written_are_misuse() {
    let saved = old_save(&lock_of::<Second>());
    for arguments in [
        ["migrate", "missing.save", "-o", "new.save", "--lock", "schemas.lock"],
        ["migrate", "test.save", "-o", "no/such/place.save", "--lock", "schemas.lock"],
        ["migrate", "test.save", "-o", "new.save", "--lock", "missing.lock"],
    ] {
        let run = run_beside(&saved, &arguments);
        assert_eq!((run.code, &*run.stdout), (Some(2), ""), "{run:?}");
        assert!(run.stderr.contains("missing") || run.stderr.contains("no/such/"), "{run:?}");
    }
    assert_eq!(saved.names(), ["schemas.lock", "test.save"]);
}

/// Without its schemas, a save is readable as long as the lock knows them.
#[test]
fn a_save_without_schemas_is_read_with_those_of_the_lock() {
    let options = bonfire::EncodeOptions { inline_schemas: false, ..Default::default() };
    let snapshot = Snapshot::open(&save_of(First { current: 2.0 })).unwrap();
    let saved = save(&snapshot.encode(&options).unwrap().to_vec());
    saved.beside("schemas.lock", lock_of::<First>());
    let run = run_beside(&saved, &["migrate", "test.save", "-o", "new.save"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(SchemaLock::of_snapshot(&open(&saved, "new.save")).unwrap().keys().count(), 1);
    saved.beside("schemas.lock", lock_of::<Second>());
    let run = run_beside(&saved, &["migrate", "test.save", "-o", "other.save"]);
    assert_eq!((run.code, &*run.stdout), (Some(2), ""), "{run:?}");
}

#[test]
fn a_world_whose_migrations_are_in_the_game_is_refused() {
    let mut registry = Registry::new().with::<Second>().unwrap();
    registry.track("game", 6).unwrap();
    registry.migration("game", 4, 5, |_| Ok(())).unwrap();
    let mut lock = SchemaLock::default();
    lock.add(&registry).unwrap();
    // The old world has version 4 of the track.
    let error = refused(&encode(&old_world()), &lock.to_string(), 5);
    assert_eq!(
        error,
        "error: test.save: track `game`: version 4, and worlds below version 5 are migrated by code of the game. The game \
         itself must migrate it: load and save it there, or call `Snapshot::rewritten` with the game's registry\n"
    );
}

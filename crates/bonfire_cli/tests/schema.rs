//! `bonfire schema`: locks out of saves, saves against locks, and what is different between two of either.

mod common;

use std::process::Stdio;

use bonfire::engine::SnapshotWriter;
use bonfire::{Registry, SchemaLock};
use common::release::{First, Idle, Raised, Second, State, Stuck};
use common::*;

fn first() -> Vec<u8> {
    save_of(First { current: 3.0 })
}

fn second() -> Vec<u8> {
    save_of(Second { current: 3.0, max: 9.0 })
}

/// A save that a newer version of the format wrote.
fn newer_format() -> Vec<u8> {
    let mut bytes = first();
    bytes[8..10].copy_from_slice(&2_u16.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn damaged() -> Vec<u8> {
    let mut bytes = first();
    let columns = section_content(&bytes, "columns");
    bytes[columns] ^= 0xff;
    bytes
}

#[test]
fn a_lock_is_made_out_of_saves_and_the_first_is_the_oldest() {
    let saved = save(&first());
    saved.beside("later.save", second());
    let run = run_beside(&saved, &["schema", "lock", "test.save", "later.save"]);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""));
    assert_eq!(
        run.stdout,
        "schemas.lock: created\n\
         + `game.health` version 1: {current: f32}\n\
         + `game.health` version 1: {current: f64, max: f32}\n"
    );
    assert_eq!(saved.names(), ["later.save", "schemas.lock", "test.save"]);
    let text = std::fs::read_to_string(saved.path.with_file_name("schemas.lock")).unwrap();
    let mut lock = SchemaLock::parse(&text).unwrap();
    assert_eq!(lock.registry().unwrap().descriptors()[0].schema().to_string(), "{current: f64, max: f32}");
    // Saves say nothing about defaults: the build adds them.
    let registry = Registry::new().with::<Second>().unwrap();
    assert!(lock.problems(&registry).iter().all(bonfire::LockProblem::is_missing));
    lock.add(&registry).unwrap();
    lock.check(&registry).unwrap();
}

#[test]
fn a_lock_that_is_there_stays_the_newer_one_and_keeps_its_rules() {
    let saved = save(&first());
    let lock = saved.beside("game.lock", lock_of::<Second>());
    let arguments = ["schema", "lock", "test.save", "--lock", "game.lock"];
    let run = run_beside(&saved, &arguments);
    assert_eq!(run.code, Some(0));
    assert_eq!(run.stdout, "game.lock: added to\n+ `game.health` version 1: {current: f32}\n");
    let text = std::fs::read_to_string(&lock).unwrap();
    let newest = SchemaLock::parse(&text).unwrap().registry().unwrap();
    assert_eq!(newest.descriptors()[0].schema().to_string(), "{current: f64, max: f32}");
    assert!(text.contains(" 0000c842 # max\n"), "{text}");
    // Again: nothing is new, and what people wrote into the file stays.
    std::fs::write(&lock, format!("{text}# a note\n")).unwrap();
    let run = run_beside(&saved, &arguments);
    assert_eq!((run.code, &*run.stdout), (Some(0), "game.lock: nothing is new\n"));
    assert_eq!(std::fs::read_to_string(&lock).unwrap(), format!("{text}# a note\n"));
}

#[test]
fn one_save_that_cannot_be_read_adds_nothing() {
    let saved = save(&first());
    saved.beside("damaged.save", damaged());
    saved.beside("newer.save", newer_format());
    for (bad, code) in [("damaged.save", 1), ("missing.save", 2), ("newer.save", 3)] {
        let run = run_beside(&saved, &["schema", "lock", "test.save", bad]);
        assert_eq!((run.code, &*run.stdout), (Some(code), ""), "{run:?}");
        assert!(run.stderr.starts_with(&format!("error: {bad}: ")), "{run:?}");
        assert!(!run.stderr.contains("--salvage"), "{run:?}");
        assert_eq!(saved.names(), ["damaged.save", "newer.save", "test.save"]);
    }
    saved.beside("schemas.lock", "[game.health]\nnonsense\n");
    let run = run_beside(&saved, &["schema", "lock", "test.save"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("`schemas.lock`: line 2 of the schema lock: "), "{run:?}");
    let run = run_beside(&saved, &["schema", "lock", "test.save", "--lock", "no/such/place.lock"]);
    assert_eq!(run.code, Some(2), "{run:?}");
}

#[test]
fn a_save_that_loads_is_said_to_with_what_would_happen() {
    let saved = save(&first());
    saved.beside("schemas.lock", lock_of::<Second>());
    let run = run_beside(&saved, &["schema", "check", "test.save"]);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""));
    assert_eq!(
        run.stdout,
        "test.save: loads\n\
         1 entity in 1 archetype\n\
         `game.health`: loads by name\n    `max` is new and gets its default\n    `current` was f32 and is f64\n"
    );
    saved.beside("other.lock", lock_of::<Idle>());
    let run = run_beside(&saved, &["schema", "check", "test.save", "--lock", "other.lock"]);
    assert_eq!(run.code, Some(0));
    assert!(run.stdout.contains("`game.health`: not registered, carried"), "{run:?}");
}

#[test]
fn a_save_that_cannot_be_loaded_says_why() {
    let saved = save(&first());
    saved.beside("schemas.lock", lock_of::<Stuck>());
    let run = run_beside(&saved, &["schema", "check", "test.save"]);
    assert_eq!((run.code, &*run.stderr), (Some(4), ""));
    assert_eq!(run.stdout.lines().next(), Some("test.save: cannot be loaded"));
    assert!(run.part("cannot be loaded: `game.health`")[0].contains("f32"), "{run:?}");
}

#[test]
fn a_variant_that_is_no_more_matters_only_to_saves_that_have_it() {
    let saved = save(&save_of(State::Idle));
    saved.beside("walking.save", save_of(State::Walk { speed: 1.0 }));
    saved.beside("schemas.lock", lock_of::<Idle>());
    let idle = run_beside(&saved, &["schema", "check", "test.save"]);
    assert_eq!(idle.code, Some(0), "{idle:?}");
    assert!(idle.stdout.contains("`Walk` is no variant of this build"), "{idle:?}");
    let walking = run_beside(&saved, &["schema", "check", "walking.save"]);
    assert_eq!(walking.code, Some(4), "{walking:?}");
    assert_eq!(walking.stdout.lines().next(), Some("walking.save: cannot be loaded"));
    assert!(walking.part("cannot be loaded: `game.state`")[0].contains("Walk"), "{walking:?}");
}

#[test]
fn an_older_version_needs_the_game_and_is_no_fault_of_the_save() {
    let registry = Registry::new().with::<First>().unwrap().with::<State>().unwrap();
    let mut writer = SnapshotWriter::new(&registry);
    let mut archetype = writer.archetype(&[WOLF]).unwrap();
    archetype.column(&[First { current: 1.0 }]).unwrap();
    archetype.column(&[State::Walk { speed: 2.0 }]).unwrap();
    let saved = save(&encode(&writer.finish().unwrap()));
    let mut lock = SchemaLock::default();
    lock.add(&Registry::new().with::<Raised>().unwrap().with::<State>().unwrap()).unwrap();
    saved.beside("schemas.lock", lock.to_string());
    let run = run_beside(&saved, &["schema", "check", "test.save"]);
    assert_eq!((run.code, &*run.stderr), (Some(5), ""));
    assert_eq!(
        run.stdout,
        "test.save: loads, as far as can be told without the game\n\
         1 entity in 1 archetype\n\
         `game.state`: loads as it is\n\
         needs the game: `game.health`: version 1, and the lock has version 2. The steps between them are code of the \
         game, so load it there\n"
    );
    // What else is wrong is not hidden by it.
    let mut lock = SchemaLock::default();
    lock.add(&Registry::new().with::<Raised>().unwrap().with::<Idle>().unwrap()).unwrap();
    saved.beside("schemas.lock", lock.to_string());
    let run = run_beside(&saved, &["schema", "check", "test.save"]);
    assert_eq!(run.code, Some(4));
    assert!(run.stdout.contains("\ncannot be loaded: `game.state`"), "{run:?}");
    assert!(run.stdout.contains("\nneeds the game: `game.health`"), "{run:?}");
}

#[test]
fn a_save_that_is_newer_than_the_lock_is_told_apart() {
    let saved = save(&save_of(Raised { hearts: 3 }));
    saved.beside("schemas.lock", lock_of::<First>());
    let run = run_beside(&saved, &["schema", "check", "test.save"]);
    assert_eq!(run.code, Some(3));
    assert_eq!(run.stdout.lines().next(), Some("test.save: is newer than the lock"));
    assert!(run.part("cannot be loaded: `game.health`")[0].contains("version 2 is newer"), "{run:?}");
}

#[test]
fn each_save_is_checked_and_the_lowest_code_wins() {
    let saved = save(&first());
    saved.beside("damaged.save", damaged());
    saved.beside("raised.save", save_of(Raised { hearts: 3 }));
    saved.beside("schemas.lock", lock_of::<First>());
    let run = run_beside(&saved, &["schema", "check", "raised.save", "test.save"]);
    assert_eq!(run.code, Some(3));
    assert!(run.stdout.contains("\n\ntest.save: loads\n"), "{run:?}");
    let run = run_beside(&saved, &["schema", "check", "damaged.save", "raised.save", "test.save"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stdout.contains("\ntest.save: loads\n"), "{run:?}");
    assert!(run.stderr.contains("hint: `bonfire verify damaged.save` lists the damage\n"), "{run:?}");
    assert_eq!(run_beside(&saved, &["schema", "check", "test.save", "missing.save"]).code, Some(2));
}

#[test]
fn a_check_without_a_lock_says_how_to_get_one() {
    let saved = save(&first());
    let run = run_beside(&saved, &["schema", "check", "test.save"]);
    assert_eq!((run.code, &*run.stdout), (Some(2), ""));
    assert!(run.stderr.contains("schemas.lock: there is no schema lock"), "{run:?}");
    assert!(run.stderr.contains("bonfire schema lock"), "{run:?}");
    for arguments in [&["schema"][..], &["schema", "check"], &["schema", "lock"], &["schema", "diff", "a"]] {
        assert_eq!(run_beside(&saved, arguments).code, Some(2), "{arguments:?}");
    }
    let help = run_beside(&saved, &["schema", "check", "--help"]);
    assert_eq!(help.code, Some(0));
    assert!(help.stdout.contains("  5  everything else loads"), "{help:?}");
}

#[test]
fn renamed_keys_are_found_and_tracks_are_the_games_business() {
    #[derive(bonfire::Persist)]
    #[persist(key = "game.life", alias = "game.health")]
    struct Life {
        current: f32,
    }
    let _ = |life: Life| life.current;
    let mut registry = Registry::new().with::<First>().unwrap();
    registry.track("game", 4).unwrap();
    let mut writer = SnapshotWriter::new(&registry);
    writer.archetype(&[WOLF]).unwrap().column(&[First { current: 1.0 }]).unwrap();
    let saved = save(&encode(&writer.finish().unwrap()));
    saved.beside("schemas.lock", lock_of::<Life>());
    let run = run_beside(&saved, &["schema", "check", "test.save"]);
    assert_eq!(run.code, Some(0));
    assert!(run.stdout.contains("\n`game.health`: loads as it is\n"), "{run:?}");
    assert_eq!(
        run.part("track"),
        ["track `game`: stays at version 4. World migrations, if it needs any, run when the game loads it"]
    );
}

#[test]
fn differences_of_locks_and_saves() {
    let saved = save(&first());
    saved.beside("second.save", second());
    saved.beside("second.lock", lock_of::<Second>());
    saved.beside("stuck.lock", lock_of::<Stuck>());
    saved.beside("raised.lock", lock_of::<Raised>());
    let diff = |old: &str, new: &str| run_beside(&saved, &["schema", "diff", old, new]);
    for (old, new) in [("test.save", "test.save"), ("second.save", "second.lock")] {
        let run = diff(old, new);
        assert_eq!((run.code, &*run.stdout, &*run.stderr), (Some(0), "no difference\n", ""), "{old} {new}");
    }
    let run = diff("test.save", "second.lock");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(
        run.stdout,
        "~ `game.health`: `max` is new and gets its default\n~ `game.health`: `current` was f32 and is f64\n"
    );
    let run = diff("second.lock", "test.save");
    assert_eq!(run.code, Some(4), "{run:?}");
    // A save does not know the default that makes up for a new field.
    let run = diff("test.save", "second.save");
    assert_eq!(run.code, Some(4), "{run:?}");
    assert!(run.stdout.starts_with("~ `game.health`: cannot follow: `max`"), "{run:?}");
    assert!(run.stdout.ends_with(
        "\nnote: second.save is a save, and those have no defaults and aliases: a lock may know better\n"
    ));
    let run = diff("test.save", "stuck.lock");
    assert_eq!(run.code, Some(4), "{run:?}");
    assert!(run.stdout.starts_with("~ `game.health`: cannot follow: "), "{run:?}");
    assert!(!run.stdout.contains("note: "), "{run:?}");
    let run = diff("test.save", "raised.lock");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stdout.starts_with("~ `game.health`: version 1 is version 2 now\n"), "{run:?}");
}

#[test]
fn a_file_that_has_no_schemas_ends_a_diff() {
    let saved = save(&first());
    saved.beside("damaged.save", damaged());
    saved.beside("newer.save", newer_format());
    saved.beside("garbage", [0xff; 100]);
    saved.beside("text", "Dear diary,\n");
    let cases =
        [("damaged.save", 1), ("garbage", 1), ("text", 1), ("missing", 2), (".", 2), ("newer.save", 3)];
    for (bad, code) in cases {
        for arguments in [["schema", "diff", bad, "test.save"], ["schema", "diff", "test.save", bad]] {
            let run = run_beside(&saved, &arguments);
            assert_eq!((run.code, &*run.stdout), (Some(code), ""), "{bad}: {run:?}");
            assert!(run.stderr.starts_with(&format!("error: {bad}: ")), "{run:?}");
        }
    }
}

#[test]
#[cfg(unix)]
fn a_lock_of_an_earlier_release_comes_through_a_pipe() {
    let saved = save(&first());
    let lock = saved.beside("first.lock", lock_of::<First>());
    let mut cat = std::process::Command::new("cat").arg(lock).stdout(Stdio::piped()).spawn().unwrap();
    let piped = cat.stdout.take().unwrap();
    let output = binary()
        .args(["schema", "diff", "/dev/stdin", saved.path.to_str().unwrap()])
        .stdin(piped)
        .output()
        .unwrap();
    cat.wait().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "no difference\n", "{output:?}");
}

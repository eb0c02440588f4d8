//! `bonfire demo` proves what it says, prints what it measured, and leaves nothing behind that nobody asked for.

mod common;

use common::*;
use serde_json::json;

const STEPS: [&str; 8] = ["capture", "encode", "write", "sync", "read", "open", "load new", "load"];

#[test]
fn the_table_has_every_step_and_the_proof_follows() {
    let run = run(&["demo", "--entities", "1000"]);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:?}");
    let table = run.part("step ");
    let rows: Vec<&str> = table[2..].iter().filter_map(|line| line.split("  ").next()).collect();
    assert_eq!(rows, [&STEPS[..], &["memcpy"]].concat(), "{run:?}");
    let count: Vec<&str> = run.part("entities")[0].split_whitespace().collect();
    assert_eq!(count, ["entities", "1,000", "in", "125", "squads"]);
    assert!(run.part("Wall clock, medians of ").len() >= 2, "{run:?}");
    assert!(run.part("After each save")[1].starts_with("Proved: "), "{run:?}");
    assert!(run.part("Look inside the file:")[2].ends_with(" info demo.bonfire"), "{run:?}");
    // Commands have the length of the path that this was called by.
    let lines = run.stdout.lines().filter(|line| !line.starts_with("  "));
    assert!(lines.clone().all(|line| line.chars().count() <= 100), "{run:?}");
}

#[test]
fn worlds_of_every_size_come_back() {
    for entities in ["1", "2", "8", "9", "333"] {
        let run = run(&["demo", "--entities", entities, "--json"]);
        assert_eq!((run.code, &run.json()["equal"]), (Some(0), &json!(true)), "{run:?}");
    }
}

#[test]
fn json_has_the_same_figures() {
    let run = run(&["demo", "--entities", "500", "--json"]);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:?}");
    let shown = run.json();
    assert_eq!((&shown["entities"], &shown["equal"]), (&json!(500), &json!(true)));
    assert_eq!((&shown["different_entities"], &shown["differences"]), (&json!(0), &json!([])));
    let steps = shown["steps"].as_array().unwrap();
    assert_eq!(steps.iter().map(|step| step["step"].as_str().unwrap()).collect::<Vec<_>>(), STEPS);
    for step in steps {
        for figure in ["milliseconds", "nanoseconds_per_entity", "memcpy_ratio"] {
            assert!(step[figure].is_f64(), "{figure}: {step}");
        }
    }
    let wrecked = shown["despawned"].as_u64().unwrap() + shown["changed"].as_u64().unwrap();
    assert_eq!((wrecked, &shown["file"]), (500, &json!(null)));
    assert!(shown["file_bytes"].as_u64().unwrap() > 500 * 40);
}

#[test]
fn a_kept_file_is_whole_and_can_be_looked_into() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kept.bonfire");
    let kept = run_on("demo", &path, &[]);
    assert_eq!(kept.code, Some(2), "a path alone is misuse: {kept:?}");
    let kept = run(&["demo", "--entities", "100", "--keep", path.to_str().unwrap()]);
    assert_eq!(kept.code, Some(0), "{kept:?}");
    assert!(kept.stdout.contains(&format!(" show {}", path.display())), "{kept:?}");

    let verified = run_on("verify", &path, &["--json"]);
    assert_eq!((verified.code, &verified.json()["entities"]), (Some(0), &json!(100)), "{verified:?}");
    let info = run_on("info", &path, &["--json"]).json();
    let keys: Vec<&str> =
        info["components"].as_array().unwrap().iter().map(|line| line["key"].as_str().unwrap()).collect();
    for key in ["battle.aim", "battle.state", "bevy.child_of", "bevy.name", "bevy.transform"] {
        assert!(keys.contains(&key), "{keys:?}");
    }
    let shown = run_on("show", &path, &["--component", "battle.banner"]);
    assert!(shown.stdout.contains("\"Rowan 7\""), "{shown:?}");
}

#[test]
fn nothing_is_overwritten() {
    let saved = save(b"a player's world");
    let run = run(&["demo", "--entities", "10", "--keep", saved.path.to_str().unwrap()]);
    assert_eq!((run.code, &*run.stdout), (Some(2), ""), "{run:?}");
    assert!(run.stderr.contains("exists already"), "{run:?}");
    assert_eq!(std::fs::read(&saved.path).unwrap(), b"a player's world");
}

#[test]
fn a_temporary_file_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let status = binary()
        .args(["demo", "--entities", "10", "--json"])
        .env("TMPDIR", directory.path())
        .env("TMP", directory.path())
        .env("TEMP", directory.path())
        .stdout(std::process::Stdio::null())
        .status();
    assert_eq!(status.unwrap().code(), Some(0));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn sizes_that_make_no_sense_are_misuse() {
    for entities in ["0", "-1", "many", "10000001"] {
        assert_eq!(run(&["demo", &format!("--entities={entities}")]).code, Some(2), "{entities}");
    }
    let directory = tempfile::tempdir().unwrap();
    let nowhere = directory.path().join("missing").join("demo.bonfire");
    let missing = run(&["demo", "--keep", nowhere.to_str().unwrap()]);
    assert_eq!(missing.code, Some(2), "{missing:?}");
}

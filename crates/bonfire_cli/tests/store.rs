//! `bonfire ls`, `bonfire slots`, and `info` and `verify` on a directory of saves.

mod common;

use std::path::Path;
use std::time::Duration;

use bonfire_store::{Details, DirStore, Keep, SealKey, Sealed, Slots, Wait};
use common::*;
use serde_json::json;
use tempfile::TempDir;

/// Two slots of the game, one of a player, and a save for after a crash.
fn saves() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let slots = Slots::new(DirStore::open(directory.path()).unwrap())
        .keep(Keep::all())
        .clock(|| Some(Duration::from_secs(1_794_821_400)));
    let details = Details::new()
        .label("Before the \u{1b}[31mdragon")
        .play_time(Duration::from_secs(3_900))
        .game_version("1.4.2")
        .thumbnail(vec![1; 2000])
        .custom("chapter", 7_u32);
    for _ in 0..3 {
        slots.save("quick", &farm(), &details).wait().unwrap();
    }
    slots.save("town", &crowd(40_000), &Details::new()).wait().unwrap();
    slots.save_recovery("town", &crowd(10), &Details::new()).wait().unwrap();
    slots.profile("alice").unwrap().save("quick", &crowd(5), &Details::new()).wait().unwrap();
    directory
}

fn bonfire(command: &str, directory: &Path, arguments: &[&str]) -> Run {
    run_on(command, directory, arguments)
}

fn slots(action: &str, directory: &Path, arguments: &[&str]) -> Run {
    run(&[&["slots", action, directory.to_str().unwrap()], arguments].concat())
}

#[test]
fn ls_shows_slots_and_their_saves() {
    let saves = saves();
    let run = bonfire("ls", saves.path(), &[]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert!(lines[0].starts_with("slot   saves  saved"), "{run:?}");
    let row = "quick      3  2026-11-16 09:30:00Z  1h 05m  1.4.2           3";
    assert!(lines[2].starts_with(row), "{run:?}");
    assert!(
        lines[2].ends_with(r"Before the \u{1b}[31mdragon"),
        "a label cannot talk to the terminal: {run:?}"
    );
    assert!(lines[3].starts_with("town       1") && lines[3].contains("has recovery"), "{run:?}");
    assert_eq!(lines[5], "players with slots of their own (--profile): alice");

    let quick = bonfire("ls", saves.path(), &["quick"]);
    let numbers: Vec<&str> =
        quick.stdout.lines().skip(2).take(3).map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(numbers, ["3", "2", "1"]);
    let alice = bonfire("ls", saves.path(), &["--profile", "alice", "--json"]).json();
    assert_eq!((&alice[0]["slot"], &alice[0]["newest"]["entities"]), (&json!("quick"), &json!(5)));
    assert_eq!(bonfire("ls", saves.path(), &["none"]).code, Some(2));
    assert_eq!(bonfire("ls", &saves.path().join("none"), &[]).code, Some(2));
    assert!(!saves.path().join("none").exists(), "looking creates nothing");
}

#[test]
fn info_tells_what_the_heads_tell() {
    let saves = saves();
    let run = bonfire("info", saves.path(), &[]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let part = run.part("quick.00000002.bonfire");
    assert!(part.contains(&"  played: 1h 05m") && part.contains(&"  chapter: 7"), "{part:?}");
    assert!(part.contains(&"  thumbnail: 2000 bytes") && part.contains(&"  name: \"The Farm\""), "{part:?}");
    let all = bonfire("info", saves.path(), &["--json"]).json();
    assert_eq!(all.as_array().unwrap().len(), 6, "with the player's and the recovery save");
    assert_eq!(all[0]["custom"][2], json!({ "name": "chapter", "value": 7 }));
}

#[test]
fn verify_checks_every_save() {
    let saves = saves();
    let run = bonfire("verify", saves.path(), &[]);
    assert_eq!((run.code, run.stdout.lines().count()), (Some(0), 6), "{run:?}");
    assert!(run.stdout.contains("alice.quick.00000006.bonfire: ok: 5 entities"), "{run:?}");

    let path = saves.path().join("town.00000004.bonfire");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let run = bonfire("verify", saves.path(), &[]);
    assert_eq!(run.code, Some(1));
    assert!(run.stdout.contains("town.00000004.bonfire: damaged: "), "{run:?}");
    assert_eq!(bonfire("ls", saves.path(), &[]).code, Some(0), "heads are whole");
    let verdicts = bonfire("verify", saves.path(), &["--json"]).json();
    let damaged: Vec<_> =
        verdicts.as_array().unwrap().iter().filter(|verdict| verdict["result"] != "ok").collect();
    assert_eq!((damaged.len(), &damaged[0]["file"]), (1, &json!("town.00000004.bonfire")));

    std::fs::write(&path, &bytes[..middle]).unwrap();
    let run = bonfire("ls", saves.path(), &[]);
    assert_eq!(run.code, Some(1));
    assert!(run.part("town")[0].contains("damaged"), "{run:?}");
}

#[test]
fn slots_are_changed_as_the_game_would() {
    let saves = saves();
    let saves = saves.path();
    let fine = |run: Run| assert_eq!(run.code, Some(0), "{run:?}");
    let refused = |run: Run, text: &str| {
        assert_eq!((run.code, run.stderr.contains(text)), (Some(2), true), "{run:?}");
    };
    fine(slots("lock", saves, &["quick", "1"]));
    refused(slots("rm", saves, &["quick"]), "locked");
    refused(slots("rm", saves, &["quick", "--save", "1"]), "locked");
    fine(slots("rm", saves, &["quick", "--save", "2"]));
    refused(slots("rm", saves, &["quick", "--save", "2"]), "there is no save 2 of `quick`");
    fine(slots("unlock", saves, &["quick", "1"]));
    let restored = slots("restore", saves, &["quick", "1"]);
    assert_eq!(restored.stdout, "save 1 of `quick` is now also save 7, the newest\n");
    fine(slots("rename", saves, &["quick", "slow"]));
    refused(slots("rename", saves, &["slow", "town"]), "already");
    refused(slots("rename", saves, &["slow", "../escape"]), "cannot be a name");
    fine(slots("copy", saves, &["slow", "copy"]));
    fine(slots("rename", saves, &["quick", "mine", "--profile", "alice"]));
    let numbers = |slot: &str| -> Vec<u64> {
        let run = bonfire("ls", saves, &[slot, "--json"]).json();
        run.as_array().unwrap().iter().map(|save| save["save"].as_u64().unwrap()).collect()
    };
    assert_eq!((numbers("slow"), numbers("copy")), (vec![7, 3, 1], vec![8]));
    fine(slots("rm", saves, &["slow"]));
    assert_eq!(bonfire("ls", saves, &["slow"]).code, Some(2));
    fine(bonfire("verify", saves, &[]));
    refused(slots("rm", &saves.join("none"), &["quick"]), "not a directory");
}

/// A plain save, one whose head is left open, and one whose head is hidden.
fn sealed_saves() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let store = || DirStore::open(directory.path()).unwrap();
    let key = || SealKey::from_bytes(*b"0123456789abcdef0123456789abcdef");
    let details = |label: &str| Details::new().label(label);
    Slots::new(store()).save("plain", &farm(), &details("For all")).wait().unwrap();
    let sealed = Slots::new(Sealed::new(store(), key()).bind_name());
    sealed.save("open", &farm(), &details("A label")).wait().unwrap();
    let hidden = Slots::new(Sealed::new(store(), key()).hide_metadata());
    hidden.save("hidden", &farm(), &details("A secret")).wait().unwrap();
    directory
}

#[test]
fn sealed_saves_show_what_was_left_open() {
    let saves = sealed_saves();
    let run = bonfire("ls", saves.path(), &[]);
    assert_eq!(run.code, Some(2), "one of them cannot be read: {run:?}");
    assert!(run.part("open")[0].contains("sealed  A label"), "{run:?}");
    assert!(run.part("hidden")[0].contains("sealed") && !run.stdout.contains("secret"), "{run:?}");
    // Bound to its name: without the key nobody can seal it again under another one.
    for change in
        [slots("lock", saves.path(), &["open", "2"]), slots("rename", saves.path(), &["open", "other"])]
    {
        assert_eq!((change.code, change.stderr.contains("none of the keys")), (Some(2), true), "{change:?}");
    }
    assert_eq!(slots("lock", saves.path(), &["hidden", "3"]).code, Some(0), "not bound");
    let restored = slots("restore", saves.path(), &["open", "2"]);
    assert_eq!(
        (restored.code, restored.stderr.contains("none of the keys")),
        (Some(2), true),
        "{restored:?}"
    );
    let sealed = saves.path().join("open.00000002.bonfire");
    for command in ["info", "show", "verify"] {
        let run = run_on(command, &sealed, &[]);
        assert_eq!(run.code, Some(2), "{run:?}");
        assert!(run.stderr.contains("none of the keys at hand"), "{run:?}");
    }
}

#[test]
fn with_the_key_sealed_saves_are_like_others() {
    let saves = sealed_saves();
    let keys = tempfile::tempdir().unwrap();
    let (raw, hex, wrong) = (keys.path().join("raw"), keys.path().join("hex"), keys.path().join("wrong"));
    std::fs::write(&raw, b"0123456789abcdef0123456789abcdef").unwrap();
    std::fs::write(&hex, "30313233343536373839616263646566".repeat(2) + "\n").unwrap();
    std::fs::write(&wrong, [0; 32]).unwrap();
    for (key, saves_whole) in [(&raw, 3), (&hex, 5)] {
        let key = ["--key-file", key.to_str().unwrap()];
        let run = bonfire("verify", saves.path(), &key);
        assert_eq!(
            (run.code, run.stdout.matches("ok: 3 entities").count()),
            (Some(0), saves_whole),
            "{run:?}"
        );
        assert!(bonfire("ls", saves.path(), &key).stdout.contains("A secret"));
        let shown = run_on("show", &saves.path().join("hidden.00000003.bonfire"), &key);
        assert_eq!((shown.code, shown.stdout.contains("Dolly")), (Some(0), true), "{shown:?}");
        for (slot, save) in [("open", "2"), ("hidden", "3")] {
            let restored = slots("restore", saves.path(), &[slot, save, key[0], key[1]]);
            assert_eq!(restored.code, Some(0), "{restored:?}");
        }
    }
    assert!(!bonfire("info", saves.path(), &[]).stdout.contains("secret"), "what was hidden stays hidden");
    let copy = std::fs::read(saves.path().join("open.00000004.bonfire")).unwrap();
    assert!(bonfire_store::backend::is_sealed(&copy), "a copy of a sealed save is sealed");
    let key = ["--key-file", raw.to_str().unwrap()];
    assert_eq!(slots("rename", saves.path(), &["open", "moved", key[0], key[1]]).code, Some(0));
    let bound = Sealed::new(
        DirStore::open(saves.path()).unwrap(),
        SealKey::from_bytes(*b"0123456789abcdef0123456789abcdef"),
    );
    assert!(Slots::new(bound.bind_name()).load("moved").wait().unwrap().skipped.is_empty());
    let run = bonfire("verify", saves.path(), &["--key-file", wrong.to_str().unwrap()]);
    assert_eq!(run.code, Some(2), "{run:?}");
    std::fs::write(&wrong, "short").unwrap();
    assert_eq!(bonfire("ls", saves.path(), &["--key-file", wrong.to_str().unwrap()]).code, Some(2));
}

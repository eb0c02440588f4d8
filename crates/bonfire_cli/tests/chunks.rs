//! `bonfire info`, `verify`, `compact`, `repair` and `diff` of worlds of chunks: healthy, not closed, damaged and sealed.

mod common;

use bonfire_chunks::codec::Delta;
use bonfire_chunks::{Durability, StoredChunk};
use common::world::*;
use common::{run, run_on};
use serde_json::json;

#[test]
fn info_tells_what_a_world_is() {
    let world = World::new();
    let text = run_on("info", &world.path, &[]);
    assert_eq!((text.code, &*text.stderr), (Some(0), ""));
    for line in [
        "seed              7",
        "made              2023-11-14 22:13:20Z",
        "chunk             16 x 16 cells, tiles of 4",
        "chunks            4 (2 full, 1 deltas, 1 empty)",
        "extent            (-1, 0) to (2, 1)",
        "bodies            1, in 1 chunk",
        "entities          in 1 chunk",
        "generator         version 3",
        "color         1        1  yes       00",
        " 3  zorp\\u{1b}[31m",
    ] {
        assert!(text.stdout.lines().any(|found| found == line), "{line}: {}", text.stdout);
    }
    assert!(!text.stdout.contains("state"));

    let json = run_on("info", &world.path, &["--json"]).json();
    assert_eq!((&json["kind"], &json["chunks"], &json["bodies"]), (&json!("chunks"), &json!(4), &json!(1)));
    assert_eq!([&json["full"], &json["delta"], &json["empty"]], [2, 1, 1]);
    assert_eq!(json["extent"], json!({ "min": [-1, 0], "max": [2, 1] }));
    assert_eq!(json["layers"][1]["name"], "color");
    assert_eq!(json["materials"]["names"][2], json!({ "id": 2, "name": "game.water" }));
    assert_eq!((&json["opening"]["closed"], &json["damaged"]), (&json!(true), &json!([])));
    assert_eq!(json["file_bytes"], world.bytes().len());
}

#[test]
fn a_healthy_world_is_ok() {
    let world = World::new();
    let text = run_on("verify", &world.path, &[]);
    // Four chunks, bodies and where they are, entities, and the settings twice.
    assert_eq!((text.code, &*text.stdout), (Some(0), "ok: 4 chunks, 9 parts checked\n"));
    let json = run_on("verify", &world.path, &["--json"]).json();
    assert_eq!((&json["result"], &json["parts"], &json["damaged"]), (&json!("ok"), &json!(9), &json!([])));
}

#[test]
fn a_world_that_was_not_closed_is_ok_and_stays_as_it_is() {
    let world = World::unclosed();
    let before = world.bytes();
    for command in ["info", "verify"] {
        let text = run_on(command, &world.path, &[]);
        assert_eq!(text.code, Some(0), "{text:?}");
        assert!(text.stdout.contains("it was not closed: 1 saves are replayed"), "{text:?}");
        let json = run_on(command, &world.path, &["--json"]).json();
        assert_eq!(
            (&json["opening"]["closed"], &json["opening"]["saves_replayed"]),
            (&json!(false), &json!(1))
        );
    }
    assert_eq!(run_on("diff", &world.path, &[World::new().path.to_str().unwrap()]).code, Some(0));
    let nothing = run_on("repair", &world.path, &[]);
    assert_eq!((nothing.code, &*nothing.stdout), (Some(0), "nothing is damaged: nothing was written\n"));
    assert_eq!((world.bytes(), world.names()), (before, vec!["world.save".to_owned()]));
}

#[test]
fn damaged_parts_are_listed_with_their_place() {
    let world = World::damaged();
    let text = run_on("verify", &world.path, &[]);
    assert_eq!(text.code, Some(1));
    assert!(text.stdout.starts_with("damaged: 1 part cannot be read; 4 chunks\n"), "{text:?}");
    assert!(
        text.stdout.contains("its checksum is wrong") && text.stdout.contains("bonfire repair "),
        "{text:?}"
    );
    let json = run_on("verify", &world.path, &["--json"]);
    assert_eq!(json.code, Some(1));
    let json = json.json();
    assert_eq!((&json["result"], json["damaged"].as_array().unwrap().len()), (&json!("damaged"), 1));
    assert_eq!(
        (&json["damaged"][0]["what"], &json["damaged"][0]["chunk"]),
        (&json!("chunk"), &json!([2, 0]))
    );
}

#[test]
fn a_repair_keeps_a_copy_and_sets_aside_what_is_lost() {
    let world = World::damaged();
    let before = world.bytes();
    let text = run_on("repair", &world.path, &[]);
    assert_eq!(text.code, Some(1), "{text:?}");
    assert!(text.stdout.contains("1 part is set aside"), "{text:?}");
    assert_eq!(std::fs::read(world.beside("world.save.before-repair")).unwrap(), before);
    let verdict = run_on("verify", &world.path, &["--json"]).json();
    assert_eq!(verdict["damaged"][0]["reason"], "it was found damaged and set aside");
    assert_eq!(run_on("info", &world.path, &[]).code, Some(1));

    // Once more there is nothing to do.
    let again = run_on("repair", &world.path, &[]);
    assert_eq!(again.code, Some(1));
    assert!(again.stdout.contains("nothing was written"), "{again:?}");
    assert_eq!(world.names(), ["world.save", "world.save.before-repair"]);

    // The older copy is not touched.
    let dropped = run_on("repair", &world.path, &["--drop-damaged", "--json"]);
    assert_eq!(dropped.code, Some(0), "{dropped:?}");
    assert_eq!(
        (&dropped.json()["lost"][0]["chunk"], &dropped.json()["set_aside"]),
        (&json!([2, 0]), &json!([]))
    );
    assert_eq!(std::fs::read(world.beside("world.save.before-repair")).unwrap(), before);
    assert!(world.names().contains(&"world.save.before-repair-2".to_owned()));
    assert_eq!(run_on("verify", &world.path, &[]).code, Some(0));
    assert_eq!(options().open(&world.path).unwrap().len(), 3);
}

#[test]
fn a_repair_to_another_file_leaves_the_old_one() {
    let world = World::damaged();
    let (before, new) = (world.bytes(), world.beside("new.save"));
    let new = new.to_str().unwrap();
    let text = run_on("repair", &world.path, &["--out", new, "--drop-damaged"]);
    assert_eq!(text.code, Some(0), "{text:?}");
    assert!(text.stdout.contains("given up"), "{text:?}");
    assert_eq!(
        (world.bytes(), world.names()),
        (before, vec!["new.save".to_owned(), "world.save".to_owned()])
    );
    assert_eq!(run(&["verify", new]).code, Some(0));
    let again = run_on("repair", &world.path, &["--out", new]);
    assert_eq!(again.code, Some(2));
    assert!(again.stderr.contains("this file exists already"), "{again:?}");
}

#[test]
fn a_world_without_its_first_bytes_is_still_one() {
    let world = World::new();
    let mut bytes = world.bytes();
    bytes[..16].fill(0);
    std::fs::write(&world.path, &bytes).unwrap();
    let info = run_on("info", &world.path, &[]);
    assert_eq!(info.code, Some(1), "{info:?}");
    assert!(info.stdout.contains("the header is damaged, and known from a copy"), "{info:?}");
    let verdict = run_on("verify", &world.path, &["--json"]).json();
    assert_eq!((&verdict["result"], &verdict["damaged"]), (&json!("damaged"), &json!([])));
    let repair = run_on("repair", &world.path, &[]);
    assert_eq!(repair.code, Some(0), "{repair:?}");
    assert!(repair.stdout.ends_with("nothing is lost\n"), "{repair:?}");
    assert_eq!(run_on("verify", &world.path, &[]).code, Some(0));
    let diff = run_on("diff", &world.path, &[World::new().path.to_str().unwrap()]);
    assert_eq!((diff.code, &*diff.stdout), (Some(0), "the same: 4 chunks\n"));
}

#[test]
fn a_compaction_takes_away_what_is_dead() {
    let world = World::new();
    let open = options().compact_above(None).open(&world.path).unwrap();
    for _ in 0..20 {
        open.edit().put((5, 5), noise()).commit(Durability::Synced).unwrap();
    }
    open.close().unwrap();
    let json = run_on("compact", &world.path, &["--json"]);
    assert_eq!((json.code, &*json.stderr), (Some(0), ""));
    let (before, after) = (json.json()["bytes_before"].clone(), json.json()["bytes_after"].clone());
    assert!(before.as_u64() > after.as_u64().map(|after| after + 19 * 512), "{before} {after}");
    assert_eq!(after, world.bytes().len());
    let text = run_on("compact", &world.path, &[]);
    assert_eq!(text.stdout, format!("{after} bytes before, {after} bytes after, 5 chunks\n"));
    assert_eq!(run_on("verify", &world.path, &[]).code, Some(0));
}

#[test]
fn a_damaged_world_is_not_compacted() {
    let world = World::damaged();
    let before = world.bytes();
    let text = run_on("compact", &world.path, &[]);
    assert_eq!((text.code, &*text.stdout), (Some(1), ""));
    assert!(text.stderr.contains("`bonfire repair "), "{text:?}");
    assert_eq!(world.bytes(), before);
}

#[test]
fn a_world_that_somebody_has_open_is_not_written_to() {
    let world = World::damaged();
    let game = options().open(&world.path).unwrap();
    let text = run_on("repair", &world.path, &[]);
    assert_eq!(text.code, Some(2), "{text:?}");
    assert!(text.stderr.contains("close the game first"), "{text:?}");
    assert_eq!(world.names(), ["world.save"], "no copy is left behind");
    drop(game);
    let healthy = World::new();
    let _game = options().open(&healthy.path).unwrap();
    assert_eq!(run_on("compact", &healthy.path, &[]).code, Some(2));
    assert_eq!(run_on("verify", &healthy.path, &[]).code, Some(0), "who only reads may look");
}

#[test]
fn a_diff_lists_what_changed() {
    let (one, other) = (World::new(), World::new());
    let same = run_on("diff", &one.path, &[other.path.to_str().unwrap(), "--json"]);
    assert_eq!((same.code, &same.json()["same"]), (Some(0), &json!(true)));

    let open = options().open(&other.path).unwrap();
    let mut cells = halves();
    cells[0] = WATER;
    cells[7] = 9;
    let delta = Delta { runs: vec![(17, 2)], cells: vec![STONE, 0, STONE, 0] };
    open.edit()
        .put((0, 0), cells)
        .put_stored((1, 0), StoredChunk::Delta(delta))
        .remove((2, 0))
        .put((9, 9), noise())
        .put_bodies((0, 0), [body(7, 5.0), body(8, 4.0)])
        .put_entities((0, 0), entities("second"))
        .commit(Durability::Synced)
        .unwrap();
    open.close().unwrap();
    let diff = run_on("diff", &one.path, &[other.path.to_str().unwrap(), "--json"]);
    assert_eq!(diff.code, Some(6), "{diff:?}");
    let json = diff.json();
    assert_eq!(json["chunks"]["same"], 1);
    // Of the deltas, cell 16 is only in the first one and cell 18 only in the second.
    let different = json!([
        { "chunk": [0, 0], "cells": 2, "deltas": false },
        { "chunk": [1, 0], "cells": 2, "deltas": true },
    ]);
    assert_eq!(json["chunks"]["different"], different);
    assert_eq!(json["chunks"]["only_first"], json!([[2, 0]]));
    assert_eq!(json["chunks"]["only_second"], json!([[9, 9]]));
    assert_eq!(json["bodies"], json!({ "different": ["7"], "only_first": [], "only_second": ["8"] }));
    assert_eq!(json["entities"], json!({ "different": [[0, 0]], "only_first": [], "only_second": [] }));
    let text = run_on("diff", &one.path, &[other.path.to_str().unwrap()]);
    assert_eq!(
        text.part("different chunks"),
        ["different chunks", "(0, 0)  2 cells", "(1, 0)  2 cells of the deltas"]
    );
    assert!(
        text.stdout
            .starts_with("chunks: 1 the same, 2 different, 1 only in the first, 1 only in the second\n")
    );
}

#[test]
fn a_diff_tells_settings_and_damage() {
    let (one, other) = (World::new(), World::with(&options().seed(8).generator_version(4)));
    let diff = run_on("diff", &one.path, &[other.path.to_str().unwrap(), "--json"]);
    assert_eq!(diff.code, Some(6));
    let settings = json!([
        { "setting": "seed", "first": "7", "second": "8" },
        { "setting": "generator version", "first": "3", "second": "4" },
    ]);
    assert_eq!(diff.json()["settings"], settings);
    let damaged = run_on("diff", &one.path, &[World::damaged().path.to_str().unwrap()]);
    assert_eq!(damaged.code, Some(1), "{damaged:?}");
    assert!(damaged.part("could not be compared")[1].starts_with("the second: "), "{damaged:?}");
}

#[test]
fn a_sealed_world_shows_its_structure_and_with_the_key_its_content() {
    let world = World::with(&options().sealed(key()));
    let [right, wrong] = [5, 6].map(|byte| key_file(world.directory.path(), byte));
    let info = run_on("info", &world.path, &["--json"]).json();
    assert_eq!((&info["sealed"], &info["chunks"], &info["bodies"]), (&json!(true), &json!(4), &json!(null)));
    let text = run_on("verify", &world.path, &[]);
    assert_eq!(text.code, Some(0));
    assert!(text.stdout.contains("sealed: checksums were checked"), "{text:?}");
    let info = run_on("info", &world.path, &["--json", "--key-file", &right]).json();
    assert_eq!(info["bodies"], 1);
    let text = run_on("verify", &world.path, &["--key-file", &right]);
    assert_eq!((text.code, &*text.stdout), (Some(0), "ok: 4 chunks, 9 parts checked\n"));
    assert_eq!(run_on("verify", &world.path, &["--key-file", &wrong]).code, Some(2));
    // Nothing is written without the key.
    let refused = run_on("compact", &world.path, &[]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("no key was given"), "{refused:?}");
    assert_eq!(run_on("compact", &world.path, &["--key-file", &right]).code, Some(0));
    assert_eq!(options().sealed(key()).open(&world.path).unwrap().read((0, 0)).unwrap(), Some(halves()));
    // A key is not in the way of worlds that need none.
    assert_eq!(run_on("compact", &World::new().path, &["--key-file", &right]).code, Some(0));
}

#[test]
fn saves_are_still_saves() {
    let saved = common::save(&common::encode(&common::farm()));
    assert_eq!(run_on("verify", &saved.path, &[]).stdout, "ok: 3 entities, 11 values checked\n");
    for command in ["compact", "repair"] {
        let text = run_on(command, &saved.path, &[]);
        assert_ne!(text.code, Some(0), "{text:?}");
        assert_eq!(text.stdout, "");
    }
    assert_eq!(saved.names(), ["test.save"]);
}

#[test]
fn worlds_of_another_game_are_told_apart() {
    let foreign =
        format!("{}/../../fixtures/foreign/pixel_world/a4_small10.save", env!("CARGO_MANIFEST_DIR"));
    for command in ["info", "verify", "repair", "compact"] {
        let text = run(&[command, &foreign]);
        assert_eq!(text.code, Some(2), "{text:?}");
        assert!(text.stderr.contains("bonfire import pixel-world"), "{text:?}");
    }
}

#[test]
fn an_imported_world_is_one_like_the_others() {
    let world = World::new();
    let (foreign, new, picture) = (
        format!("{}/../../fixtures/foreign/pixel_world/a4_small10.save", env!("CARGO_MANIFEST_DIR")),
        world.beside("imported.save"),
        world.beside("imported.png"),
    );
    let (new, picture) = (new.to_str().unwrap(), picture.to_str().unwrap());
    assert_eq!(run(&["import", "pixel-world", &foreign, new]).code, Some(0));
    let info = run(&["info", new, "--json"]).json();
    let read = run(&["import", "pixel-world", &foreign, "--dry-run", "--json"]).json();
    assert_eq!((&info["seed"], &info["chunk_size"]), (&read["seed"], &json!(512)));
    let chunks = read["chunks"].as_array().unwrap().len();
    assert_eq!((&info["chunks"], run(&["verify", new]).code), (&json!(chunks), Some(0)));
    let map = run(&["map", new, picture, "--scale", "32", "--json"]);
    assert_eq!(map.code, Some(0), "{map:?}");
    let drawn = map.json()["chunks"].as_u64().unwrap() + map.json()["deltas"].as_u64().unwrap();
    assert_eq!(drawn, chunks as u64);
}

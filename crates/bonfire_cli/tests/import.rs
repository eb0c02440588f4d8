//! `bonfire import` reads worlds of bevy_pixel_world, says what is missing, and writes nothing that is not whole unasked.

mod common;

use common::*;
use serde_json::{Value as Json, json};

fn fixture(file: &str) -> String {
    format!("{}/../../fixtures/foreign/pixel_world/{file}", env!("CARGO_MANIFEST_DIR"))
}

fn import(file: &str, arguments: &[&str]) -> Run {
    run(&[&["import", "pixel-world", &fixture(file)], arguments].concat())
}

fn manifest() -> Json {
    serde_json::from_slice(&std::fs::read(fixture("manifest.json")).unwrap()).unwrap()
}

#[test]
fn the_json_has_what_the_manifest_has() {
    for expected in manifest()["files"].as_array().unwrap() {
        let run = import(expected["file"].as_str().unwrap(), &["--dry-run", "--json"]);
        assert_eq!((run.code, &*run.stderr), (Some(0), ""));
        let json = run.json();
        assert_eq!(json["seed"], expected["header"]["world_seed"]);
        assert_eq!([&json["chunk_size"], &json["tile_size"], &json["pixel_size"]], [512, 32, 4]);
        assert_eq!(
            (&json["damage"], &json["skipped"], &json["written"]),
            (&json!(null), &json!([]), &json!(false))
        );
        let chunks = expected["chunks"].as_array().unwrap().iter().map(|chunk| {
            let mut expected = json!({ "pos": chunk["pos"], "storage": chunk["storage"] });
            match chunk["storage"].as_str().unwrap() {
                "Full" => expected["cells_sha256"] = chunk["pixels_sha256"].clone(),
                "Delta" => expected["delta_entries"] = chunk["delta_entries"].clone(),
                _ => {}
            }
            expected
        });
        assert_eq!(json["chunks"], chunks.collect::<Json>());
        let bodies = expected["bodies"].as_array().unwrap().iter().map(|body| {
            let mut body = body.clone();
            body.as_object_mut().unwrap().retain(|key, _| !["data_offset", "data_size"].contains(&&**key));
            // The game has it in the chunk to the right.
            if body["stable_id"] == "1775825628067528714" {
                body["chunk_pos"] = json!([-1, -1]);
            }
            body
        });
        assert_eq!(json["bodies"], bodies.collect::<Json>());
    }
}

#[test]
fn a_damaged_world_exits_with_1_and_says_what_is_missing() {
    let run = import("d5_truncated_table.save", &["--dry-run"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stdout.starts_with("seed 23057, 4 chunks (0 full, 3 deltas, 1 empty), 0 bodies\ndamaged: "));
    assert_eq!(run.part("missing"), ["missing", "the entries of 6 chunks are lost"]);
    let unplaced = run.part("without a place");
    assert_eq!((unplaced.len(), unplaced[1]), (7, "Delta of 7037 bytes at 8531 with 1000 cells"));
    let json = import("d5_truncated_table.save", &["--dry-run", "--json"]);
    assert_eq!(json.code, Some(1));
    let json = json.json();
    let chunks = json["chunks"].as_array().unwrap();
    assert_eq!((chunks.len(), chunks.iter().filter(|chunk| chunk["pos"].is_null()).count()), (10, 6));
    assert_eq!(chunks[4], json!({ "pos": null, "storage": "Delta", "delta_entries": 1000 }));
    assert_eq!(
        json["unplaced"][0],
        json!({ "offset": 8531, "bytes": 7037, "storage": "Delta", "delta_entries": 1000 })
    );
}

#[test]
fn an_older_copy_gives_chunks_their_places() {
    let older = fixture("a4_small10.save");
    for (file, left) in [("d13_crash_before_flush.save", 1), ("d5_truncated_table.save", 0)] {
        let run = import(file, &["--dry-run", "--json", "--older", &older]);
        assert_eq!(run.code, Some(1));
        let json = run.json();
        let placed = json["chunks"].as_array().unwrap().iter().filter(|chunk| !chunk["pos"].is_null());
        assert_eq!(placed.count(), 10);
        assert_eq!(json["unplaced"].as_array().unwrap().len(), left);
    }
}

#[test]
fn a_damaged_world_is_not_written_unasked() {
    let saved = save(b"");
    let target = saved.path.with_file_name("new.world");
    let run = import("d1_bad_entry_crc.save", &[target.to_str().unwrap()]);
    assert_eq!(run.code, Some(1));
    assert!(run.stdout.contains("repaired\nchunk (1, -1): "), "{run:?}");
    assert!(run.stdout.contains("nothing was written: with --salvage"), "{run:?}");
    assert_eq!(saved.names(), ["test.save"]);
}

#[test]
fn a_file_that_is_there_is_not_replaced() {
    let saved = save(b"precious");
    let run = import("a4_small10.save", &[saved.path.to_str().unwrap()]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("this file exists already"), "{run:?}");
    assert_eq!(std::fs::read(&saved.path).unwrap(), b"precious");
}

#[test]
fn misuse_is_told_apart_from_damage() {
    let missing = import("none.save", &["--dry-run"]);
    assert_eq!(missing.code, Some(2));
    assert!(missing.stderr.contains("none.save"), "{missing:?}");
    assert_eq!(import("a4_small10.save", &[]).code, Some(2));
    let saved = save(&b"something else".repeat(100));
    let run = run(&["import", "pixel-world", saved.path.to_str().unwrap(), "--dry-run", "--salvage"]);
    assert_eq!((run.code, &*run.stdout), (Some(1), ""));
    assert!(run.stderr.contains("not a world of bevy_pixel_world"), "{run:?}");
}

#[test]
fn a_newer_version_is_not_damage() {
    let mut bytes = std::fs::read(fixture("a4_small10.save")).unwrap();
    bytes[4] = 9;
    let saved = save(&bytes);
    let run = run(&["import", "pixel-world", saved.path.to_str().unwrap(), "--dry-run"]);
    assert_eq!(run.code, Some(3));
    assert!(run.stdout.contains("version 9"), "{run:?}");
}

/// Where they belong stood in the table alone, which the game has written over. Their contents are all there.
#[test]
fn chunks_that_the_game_loses_in_a_crash_are_found() {
    let whole = import("a4_small10.save", &["--dry-run", "--json"]).json();
    let found = import("d13_crash_before_flush.save", &["--dry-run", "--json"]).json();
    let contents = |json: &Json| -> Vec<String> {
        let without_place = |chunk: &Json| {
            format!("{} {} {}", chunk["storage"], chunk["cells_sha256"], chunk["delta_entries"])
        };
        json["chunks"].as_array().unwrap().iter().map(without_place).collect()
    };
    let found = contents(&found);
    assert_eq!(found.len(), 11, "ten, and the one that was being saved");
    assert!(contents(&whole).iter().all(|chunk| found.contains(chunk)), "{found:?}");
}

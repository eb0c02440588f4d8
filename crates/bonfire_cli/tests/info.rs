//! `bonfire info` says what a save is made of.

mod common;

use bonfire::engine::SnapshotWriter;
use bonfire::{Compression, EncodeOptions};
use common::*;
use serde_json::json;

#[test]
fn every_part_of_a_save_is_listed() {
    let bytes = encode(&farm());
    let saved = save(&bytes);
    let run = run_on("info", &saved.path, &[]);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""));
    let head = run.part("format version");
    assert_eq!(head[0], "format version  1");
    assert_eq!(head[1], format!("file size       {} bytes", bytes.len()));
    assert_eq!(head[2], "next entity id  10");
    assert_eq!(head[3], "entities        3");
    assert_eq!(head[4], "archetypes      2");
    assert_eq!(head[5], "components      8");
    assert_eq!(
        run.part("metadata"),
        ["metadata", "name     value", "-------  -----", "name     \"The Farm\"", "minutes  90"]
    );
}

#[test]
fn the_component_table_is_aligned_and_complete() {
    let saved = save(&encode(&farm()));
    let run = run_on("info", &saved.path, &[]);
    let table = run.part("key            version");
    assert_eq!(
        table,
        [
            "key            version  kind   rows  stride  encodings  schema",
            "-------------  -------  -----  ----  ------  ---------  ------",
            "game.clock           1  plain     1      16  raw        {ticks: u64, speed: f64}",
            "game.follows         1  rows      1       0  rows       {target: entity}",
            "game.hostile         1  tag       1       0  tag        unit",
            "game.label           1  rows      2       0  rows       {name: text, tags: [text], nick: text?}",
            "game.mood            3  rows      1       0  rows       Calm | Angry{at: entity, since: u64}",
            "game.position        1  plain     2       8  raw        {x: f32, y: f32}",
            "mod.mana             1  plain     1       4  raw        {amount: u32}",
            "mod.weather          1  plain     1       1  raw        {rain: bool}",
        ]
    );
    assert_eq!(run.part("physics.gravity"), ["physics.gravity      8  (i32, i32)"]);
    assert_eq!(run.part("carried")[3], "mod.mana     1 entity  raw           4");
    assert_eq!(run.part("carried")[4], "mod.weather  resource  raw           1");
}

#[test]
fn sections_say_how_they_are_stored() {
    let saved = save(&encode_with(&crowd(10_000), Compression::Lz4));
    let run = run_on("info", &saved.path, &["--json"]);
    let sections = run.json()["sections"].as_array().unwrap().clone();
    let columns = sections.iter().find(|section| section["name"] == "columns").unwrap();
    assert_eq!((&columns["codec"], &columns["critical"]), (&json!("lz4"), &json!(true)));
    assert!(columns["stored_bytes"].as_u64().unwrap() < columns["raw_bytes"].as_u64().unwrap());
    assert!(columns["blocks"].as_u64().unwrap() > 1);
    let preludes: Vec<_> = sections.iter().filter(|section| section["name"] == "prelude").collect();
    assert_eq!([&preludes[0]["copy"], &preludes[1]["copy"]], [&json!(false), &json!(true)]);

    let text = run_on("info", &saved.path, &[]);
    let table = text.part("sections");
    assert_eq!(table.len(), 3 + sections.len());
    let row = table.iter().find(|line| line.starts_with("columns")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[1..3], ["critical", "lz4"]);
    assert_eq!(cells[3], columns["offset"].to_string());
    assert_eq!(cells[5], columns["stored_bytes"].to_string());
}

#[test]
fn json_has_the_same_content() {
    let bytes = encode(&farm());
    let saved = save(&bytes);
    let run = run_on("info", &saved.path, &["--json"]);
    assert_eq!(run.code, Some(0));
    let info = run.json();
    assert_eq!(info["file_bytes"], bytes.len());
    assert_eq!((&info["format_version"], &info["next_entity_id"]), (&json!(1), &json!(10)));
    assert_eq!((&info["entities"], &info["archetypes"]), (&json!(3), &json!(2)));
    assert_eq!(info["metadata"][0], json!({ "name": "name", "value": "The Farm" }));
    let mood = &info["components"][4];
    assert_eq!(
        (&mood["key"], &mood["version"], &mood["kind"]),
        (&json!("game.mood"), &json!(3), &json!("rows"))
    );
    assert_eq!(mood["schema"], "Calm | Angry{at: entity, since: u64}");
    assert_eq!(info["resources"], json!([{ "key": "game.clock", "encoding": "raw", "bytes": 16 }]));
    assert_eq!(
        info["data"],
        json!([{ "key": "physics.gravity", "bytes": 8, "version": 1, "schema": "(i32, i32)" }])
    );
    assert_eq!(info["carried"][0]["key"], "mod.mana");
    assert_eq!((&info["carried"][0]["entities"], &info["carried"][1]["resource"]), (&json!(1), &json!(true)));
    assert_eq!(info["damage"], json!(null));
}

#[test]
fn schemas_that_are_not_in_the_file_are_shown_by_their_hash() {
    let options = EncodeOptions { inline_schemas: false, ..EncodeOptions::default() };
    let saved = save(&crowd(3).encode(&options).unwrap().to_vec());
    let run = run_on("info", &saved.path, &[]);
    assert_eq!(run.code, Some(0));
    assert!(run.part("game.position")[0].contains("by hash only: "), "{run:?}");
    assert_eq!(run_on("info", &saved.path, &["--json"]).json()["components"][0]["schema"], json!(null));
}

#[test]
fn tracks_are_listed_if_there_are_any() {
    let saved = save(&encode(&farm()));
    assert!(!run_on("info", &saved.path, &[]).stdout.contains("\ntracks\n"));
    assert_eq!(run_on("info", &saved.path, &["--json"]).json()["tracks"], json!([]));
    let mut registry = registry();
    registry.track("game", 12).unwrap();
    registry.track("mod.\u{1b}[31m", 1).unwrap();
    let saved = save(&encode(&SnapshotWriter::new(&registry).finish().unwrap()));
    let run = run_on("info", &saved.path, &[]);
    assert_eq!(run.code, Some(0));
    assert_eq!(
        run.part("tracks"),
        [
            "tracks",
            "name            version",
            "--------------  -------",
            "game                 12",
            "mod.\\u{1b}[31m        1"
        ]
    );
    let tracks = &run_on("info", &saved.path, &["--json"]).json()["tracks"];
    assert_eq!(
        *tracks,
        json!([{ "name": "game", "version": 12 }, { "name": "mod.\u{1b}[31m", "version": 1 }])
    );
}

//! `bonfire show` prints the values of a save.

mod common;

use bonfire::engine::SnapshotWriter;
use bonfire::{Compression, EncodeOptions, EntityId};
use common::*;
use serde_json::json;

#[test]
fn entities_are_aligned_tables_with_a_column_per_leaf() {
    let saved = save(&encode(&farm()));
    let run = run_on("show", &saved.path, &[]);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""));
    assert_eq!(
        run.part("archetype 0"),
        [
            "archetype 0: 2 entities",
            "entity  game.follows.target  game.label.name  game.label.tags  game.label.nick  game.position.x  game.position.y",
            "------  -------------------  ---------------  ---------------  ---------------  ---------------  ---------------",
            "7v1     @9v0                 \"Wolf\"           [\"grey\", \"old\"]  none             0.5              -1",
            "9v0     -                    \"Dolly\"          []               \"Doll\"           NaN              12.25",
        ]
    );
    assert_eq!(
        run.part("archetype 1"),
        [
            "archetype 1: 1 entity",
            "entity  game.hostile  game.mood",
            "------  ------------  ---------",
            "1v0     yes           Angry{at: @7v1, since: 18446744073709551615}",
        ]
    );
}

#[test]
fn resources_data_and_carried_columns_follow() {
    let saved = save(&encode(&farm()));
    let run = run_on("show", &saved.path, &[]);
    assert_eq!(run.part("game.clock"), ["game.clock  {ticks: 9007199254740993, speed: inf}"]);
    assert_eq!(run.part("physics.gravity"), ["physics.gravity      8  (0, -10)"]);
    let carried = run.part("carried `mod.mana`: 1 entity");
    assert_eq!(carried[1..], ["entity  mod.mana.amount", "------  ---------------", "7v1     42"]);
    assert_eq!(run.part("carried resource `mod.weather`")[1..], ["{rain: true}"]);
}

#[test]
fn a_limit_cuts_rows_and_says_how_many() {
    let saved = save(&encode(&crowd(100)));
    let rows = |arguments: &[&str]| {
        let run = run_on("show", &saved.path, arguments);
        let rows = run.stdout.lines().filter(|line| line.contains("Calm")).count();
        (rows, run.stdout.lines().find(|line| line.starts_with("...")).map(str::to_owned))
    };
    assert_eq!(rows(&[]), (20, Some("... 80 more".to_owned())));
    assert_eq!(rows(&["--limit", "3"]), (3, Some("... 97 more".to_owned())));
    assert_eq!(rows(&["--limit", "100"]), (100, None));
    assert_eq!(rows(&["--limit", "0"]), (100, None));
}

#[test]
fn components_choose_archetypes_that_have_them_all() {
    let saved = save(&encode(&farm()));
    let shown = |keys: &[&str]| {
        let arguments: Vec<&str> = keys.iter().flat_map(|&key| ["--component", key]).collect();
        let run = run_on("show", &saved.path, &arguments);
        assert_eq!(run.code, Some(0), "{run:?}");
        run.stdout
            .lines()
            .filter(|line| line.starts_with("archetype"))
            .map(|line| line[..11].to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(shown(&[]), ["archetype 0", "archetype 1"]);
    assert_eq!(shown(&["game.label"]), ["archetype 0"]);
    assert_eq!(shown(&["game.hostile", "game.mood"]), ["archetype 1"]);
    assert_eq!(shown(&["game.label", "game.mood"]), [""; 0]);
    let none = run_on("show", &saved.path, &["--component", "game.label", "--component", "game.mood"]);
    assert_eq!(none.stdout.lines().next(), Some("no entities with `game.label` and `game.mood`"));
    let typo = run_on("show", &saved.path, &["--component", "game.lable"]);
    assert_eq!((typo.code, &*typo.stdout), (Some(2), ""));
    assert!(typo.stderr.contains("the save has no component `game.lable`"), "{typo:?}");
}

#[test]
fn json_has_exact_values_by_component_key() {
    let saved = save(&encode(&farm()));
    let run = run_on("show", &saved.path, &["--json"]);
    assert_eq!(run.code, Some(0));
    let shown = run.json();
    let pair = &shown["archetypes"][0];
    assert_eq!(pair["components"], json!(["game.follows", "game.label", "game.position"]));
    assert_eq!((&pair["entity_count"], &pair["more"]), (&json!(2), &json!(0)));
    assert_eq!(
        pair["entities"],
        json!([
            { "id": "7v1", "components": {
                "game.follows": { "target": "9v0" },
                "game.label": { "name": "Wolf", "tags": ["grey", "old"], "nick": null },
                "game.position": { "x": 0.5, "y": -1.0 },
            } },
            { "id": "9v0", "components": {
                "game.label": { "name": "Dolly", "tags": [], "nick": "Doll" },
                "game.position": { "x": "nan", "y": 12.25 },
            } },
        ])
    );
    let lone = &shown["archetypes"][1]["entities"][0]["components"];
    assert_eq!(lone["game.hostile"], json!(null));
    assert_eq!(lone["game.mood"]["Angry"]["since"].as_u64(), Some(u64::MAX));
    let clock = json!({ "ticks": 9_007_199_254_740_993_u64, "speed": "inf" });
    assert_eq!(shown["resources"], json!([{ "key": "game.clock", "value": clock }]));
    assert_eq!(shown["data"], json!([{ "key": "physics.gravity", "bytes": 8, "value": [0, -10] }]));
    assert_eq!(shown["carried"][0]["entities"][0]["components"]["mod.mana"]["amount"], 42);
    assert_eq!(shown["carried"][1]["value"], json!({ "rain": true }));

    let cut = run_on("show", &saved.path, &["--json", "--limit", "1"]).json();
    assert_eq!(cut["archetypes"][0]["entities"].as_array().unwrap().len(), 1);
    assert_eq!(cut["archetypes"][0]["more"], 1);
}

#[test]
fn every_compression_can_be_read() {
    let plain = save(&encode(&crowd(50)));
    let expected = run_on("show", &plain.path, &[]).stdout;
    let lz4 = save(&encode_with(&crowd(50), Compression::Lz4));
    assert_eq!(run_on("show", &lz4.path, &[]).stdout, expected);
    #[cfg(feature = "zstd")]
    {
        let zstd = save(&encode_with(&crowd(50), Compression::Zstd(3)));
        assert_eq!(run_on("show", &zstd.path, &[]).stdout, expected);
    }
}

#[test]
fn values_without_a_schema_are_marked_and_explained() {
    let options = EncodeOptions { inline_schemas: false, ..EncodeOptions::default() };
    let saved = save(&crowd(2).encode(&options).unwrap().to_vec());
    let run = run_on("show", &saved.path, &[]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(run.part("entity")[2], "0v0     ?          ?");
    assert!(run.part("cannot be read, shown as ?")[1].contains("`game.mood`"), "{run:?}");
    assert_eq!(run_on("show", &saved.path, &["--json"]).json()["unreadable"].as_array().unwrap().len(), 2);
}

#[test]
fn a_save_without_entities_says_so() {
    let registry = registry();
    let saved = save(&encode(&SnapshotWriter::new(&registry).finish().unwrap()));
    assert_eq!(run_on("show", &saved.path, &[]).stdout, "no entities\n");
}

#[test]
fn long_values_are_cut_in_tables_and_whole_in_json() {
    let registry = registry();
    let mut writer = SnapshotWriter::new(&registry);
    let name = "x".repeat(5000);
    let label = Label { name: name.clone(), tags: vec![], nick: None };
    writer.archetype(&[EntityId::new(0, 0)]).unwrap().column(&[label]).unwrap();
    let saved = save(&encode(&writer.finish().unwrap()));
    let table = run_on("show", &saved.path, &[]);
    assert!(table.part("0v0")[0].contains("xxx..") && table.stdout.len() < 1000, "{table:?}");
    let json = run_on("show", &saved.path, &["--json"]).json();
    assert_eq!(json["archetypes"][0]["entities"][0]["components"]["game.label"]["name"], name);
}

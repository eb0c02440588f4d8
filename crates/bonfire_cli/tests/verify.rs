//! `bonfire verify` finds damage, says where it is and what it cost; `--salvage` shows what is left.

mod common;

use bonfire::engine::SnapshotWriter;
use bonfire::{EncodeOptions, EntityId};
use common::*;
use serde_json::json;

/// Many blocks, one of them with a flipped bit; and where that block begins.
fn crowd_with_a_flipped_bit() -> (Saved, usize) {
    let mut bytes = encode(&crowd(40_000));
    let columns = section_content(&bytes, "columns");
    // The ids are 320,000 bytes, so block 6 is in the moods or the positions.
    let block = columns + 6 * (64 << 10);
    bytes[block + 100] ^= 4;
    (save(&bytes), block)
}

#[test]
fn a_whole_save_is_ok_with_every_value_counted() {
    let saved = save(&encode(&farm()));
    let run = run_on("verify", &saved.path, &[]);
    // 2 labels, 2 positions, 1 follower, 1 tag, 1 mood, 1 resource, 2 carried, 1 data.
    assert_eq!((run.code, &*run.stdout), (Some(0), "ok: 3 entities, 11 values checked\n"));
    let json = run_on("verify", &saved.path, &["--json"]).json();
    assert_eq!(
        json,
        json!({ "result": "ok", "entities": 3, "values_checked": 11, "values_unchecked": 0, "problems": [] })
    );
}

#[test]
fn a_flipped_bit_is_located_and_its_cost_listed() {
    let (saved, _) = crowd_with_a_flipped_bit();
    let run = run_on("verify", &saved.path, &["--json"]);
    assert_eq!(run.code, Some(1));
    let verdict = run.json();
    assert_eq!((&verdict["result"], &verdict["section"]), (&json!("damaged"), &json!("columns")));
    let block = &verdict["damaged_blocks"][0];
    assert_eq!((&block["section"], &block["offset"]), (&json!("columns"), &verdict["offset"]));
    assert_eq!(verdict["damaged_blocks"].as_array().unwrap().len(), 1);
    let lost = verdict["losses"][0].as_str().unwrap();
    assert!(lost.starts_with("`game.position` is lost on "), "{lost}");
    let rows: u64 = lost.split_whitespace().nth(4).unwrap().parse().unwrap();
    assert_eq!(verdict["entities"], 40_000);
    assert_eq!(verdict["values_checked"].as_u64().unwrap(), 80_000 - rows);

    let text = run_on("verify", &saved.path, &[]);
    assert_eq!(text.code, Some(1));
    let first = text.stdout.lines().next().unwrap();
    let (offset, bytes) = (block["offset"].to_string(), block["bytes"].to_string());
    assert!(first.starts_with("damaged: ") && first.contains(&format!("(section columns, byte {offset})")));
    let table: Vec<&str> = text.part("damaged blocks")[3].split_whitespace().collect();
    assert_eq!(table, ["columns", &*offset, &*bytes]);
    assert_eq!(text.part("lost"), ["lost", lost]);
    assert!(text.part("left: 40000 entities, ")[1].contains("--salvage"));
}

#[test]
fn the_damaged_place_is_inside_the_named_block() {
    let (saved, flipped) = crowd_with_a_flipped_bit();
    let block = run_on("verify", &saved.path, &["--json"]).json()["damaged_blocks"][0].clone();
    let start = block["offset"].as_u64().unwrap() as usize;
    let range = start..start + block["bytes"].as_u64().unwrap() as usize;
    assert!(range.contains(&(flipped + 100)), "{range:?}");
}

#[test]
fn info_and_show_refuse_a_damaged_save_and_point_to_verify() {
    let (saved, _) = crowd_with_a_flipped_bit();
    for command in ["info", "show"] {
        let run = run_on(command, &saved.path, &[]);
        assert_eq!((run.code, &*run.stdout), (Some(1), ""), "{command}");
        let path = saved.path.to_str().unwrap();
        assert!(run.stderr.contains(&format!("error: {path}: a block is damaged")), "{run:?}");
        assert!(run.stderr.contains("(section columns, byte "), "{run:?}");
        assert!(run.stderr.contains(&format!("`bonfire verify {path}`")), "{run:?}");
        assert!(run.stderr.contains(&format!("`bonfire {command} {path} --salvage`")), "{run:?}");
    }
}

#[test]
fn salvage_shows_what_is_left_and_still_exits_as_damaged() {
    let (saved, _) = crowd_with_a_flipped_bit();
    let show = run_on("show", &saved.path, &["--salvage", "--limit", "0"]);
    assert_eq!((show.code, &*show.stderr), (Some(1), ""));
    assert!(show.part("0v0")[0].contains("Calm"));
    let rows = show.part("entity").into_iter().filter(|line| line.contains("Calm"));
    let (lost, kept): (Vec<_>, Vec<_>) = rows.partition(|line| line.ends_with(" -"));
    assert_eq!(lost.len() + kept.len(), 40_000);
    assert!(show.stdout.contains(&format!("`game.position` is lost on {} entities", lost.len())));

    let info = run_on("info", &saved.path, &["--salvage"]);
    assert_eq!(info.code, Some(1));
    assert!(info.part("sections").iter().any(|line| line.starts_with("columns") && line.ends_with(" 1")));
    assert_eq!(info.part("damaged blocks").len(), 4);
    let json = run_on("show", &saved.path, &["--salvage", "--json"]);
    assert_eq!(json.code, Some(1));
    assert_eq!(json.json()["damage"]["damaged_blocks"][0]["section"], "columns");

    let whole = save(&encode(&farm()));
    for command in ["show", "info"] {
        let run = run_on(command, &whole.path, &["--salvage"]);
        assert_eq!(run.code, Some(0), "{command}");
        assert_eq!(run.stdout, run_on(command, &whole.path, &[]).stdout);
    }
}

#[test]
fn damage_that_costs_nothing_is_still_damage() {
    let mut bytes = encode(&farm());
    let end = section_content(&bytes, "metadata") + 30;
    assert_eq!(bytes[end], 0, "padding");
    bytes[end] = 1;
    let saved = save(&bytes);
    for command in ["info", "show"] {
        assert_eq!(run_on(command, &saved.path, &[]).code, Some(1));
        let run = run_on(command, &saved.path, &["--salvage"]);
        assert_eq!(run.code, Some(1));
        assert!(run.part("damaged: ")[0].contains("padding"), "{run:?}");
    }
    let run = run_on("verify", &saved.path, &[]);
    assert_eq!(run.code, Some(1));
    assert!(run.stdout.contains("left: 3 entities, 11 values checked"), "{run:?}");
}

#[test]
fn damage_that_has_a_copy_costs_nothing() {
    let mut bytes = encode(&farm());
    let prelude = section_content(&bytes, "prelude");
    bytes[prelude + 3] ^= 1;
    let saved = save(&bytes);
    let run = run_on("verify", &saved.path, &[]);
    assert_eq!(run.code, Some(1));
    assert!(run.stdout.contains("section prelude"), "{run:?}");
    assert!(run.stdout.contains("left: 3 entities, 11 values checked"), "{run:?}");
    assert_eq!(run_on("verify", &saved.path, &["--json"]).json()["losses"], json!([]));
}

#[test]
fn entities_that_are_there_twice_are_found_behind_right_checksums() {
    let registry = registry();
    let mut writer = SnapshotWriter::new(&registry);
    // A writer refuses two that are the same, so one becomes the other afterwards.
    let (once, other) = (EntityId::new(3, 0), EntityId::new(0x7777, 0x7777));
    writer.archetype(&[once, other]).unwrap().column(&[Hostile, Hostile]).unwrap();
    let bytes = encode(&writer.finish().unwrap());
    let saved = save(&forge(bytes, &other.to_bits().to_le_bytes(), &once.to_bits().to_le_bytes()));
    let run = run_on("verify", &saved.path, &[]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert_eq!(run.part("wrong values")[1], "entity 3v0 is there twice");
    assert_eq!(run_on("verify", &saved.path, &["--json"]).json()["result"], "damaged");
}

#[test]
fn values_that_their_schema_does_not_have_are_found_behind_right_checksums() {
    // The length of the name grows by one, and so eats what follows.
    let saved = save(&forge(encode(&farm()), b"\x04Wolf", b"\x05Wolf"));
    let run = run_on("verify", &saved.path, &[]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stdout.starts_with("damaged: every checksum is right"), "{run:?}");
    assert!(run.part("wrong values")[1].starts_with("`game.label`"), "{run:?}");

    let show = run_on("show", &saved.path, &[]);
    assert_eq!(show.code, Some(1));
    assert!(show.stderr.contains("`game.label`"), "{show:?}");
    let salvaged = run_on("show", &saved.path, &["--salvage"]);
    assert_eq!(salvaged.code, Some(1));
    assert!(salvaged.part("7v1")[0].contains('?') && salvaged.part("7v1")[0].contains("0.5"), "{salvaged:?}");
}

#[test]
fn values_without_a_schema_are_counted_as_not_checked() {
    let options = EncodeOptions { inline_schemas: false, ..EncodeOptions::default() };
    let saved = save(&crowd(5).encode(&options).unwrap().to_vec());
    let run = run_on("verify", &saved.path, &[]);
    assert_eq!(run.code, Some(0));
    assert_eq!(
        run.stdout,
        "ok: 5 entities, 0 values checked, 10 not checked: their schemas are not in the file\n"
    );
}

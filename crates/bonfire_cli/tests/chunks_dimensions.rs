//! Worlds with several dimensions, and with three coordinates: `info`, `verify`, `show` and `diff`.

mod common;

use bonfire_chunks::{Durability, StoredChunk};
use common::world::*;
use common::{run, run_on};
use serde_json::json;

#[test]
fn info_lists_dimensions_with_their_sizes() {
    let world = World::deep();
    let text = run_on("info", &world.path, &[]);
    assert_eq!((text.code, &*text.stderr), (Some(0), ""));
    for line in [
        "format version    2",
        "coordinates       2",
        "chunk             16 x 16 cells, tiles of 4",
        "chunks            8 (4 full, 2 deltas, 2 empty)",
        "extent            (-1, 0) to (2, 1)",
        "layers of dimension 1",
        "materials of layer material of dimension 1",
    ] {
        assert!(text.stdout.lines().any(|found| found == line), "{line}: {}", text.stdout);
    }
    let rows: Vec<Vec<&str>> =
        text.part("dimensions")[3..].iter().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0].join(" "), "0 2 16 x 16 4 7 4 (-1, 0) to (2, 1) version 3");
    assert_eq!(rows[1].join(" "), "1 3 8 x 8 x 8 2 666 4 (0, 0, -1) to (1, 1) version 0");

    let json = run_on("info", &world.path, &["--json"]).json();
    assert_eq!((&json["format_version"], &json["coordinates"]), (&json!(2), &json!(2)));
    let cave = &json["dimensions"][1];
    assert_eq!((&cave["number"], &cave["coordinates"], &cave["seed"]), (&json!(1), &json!(3), &json!(666)));
    assert_eq!((&cave["chunk_size"], &cave["chunks"]), (&json!(8), &json!(4)));
    assert_eq!(cave["extent"], json!({ "min": [0, 0, -1, 1], "max": [1, 1, 0, 1] }));
    assert_eq!(cave["layers"][0]["name"], "material");
    // A world of one dimension has no table of dimensions.
    assert!(!run_on("info", &World::new().path, &[]).stdout.contains("dimension"));
}

#[test]
fn a_chunk_with_three_coordinates_is_shown_from_above_or_by_layer() {
    let world = World::deep();
    let show = |arguments: &[&str]| run_on("show", &world.path, &[arguments, &["--dimension", "1"]].concat());
    let above = show(&["--chunk", "0,0,-1"]);
    assert_eq!((above.code, &*above.stderr), (Some(0), ""));
    assert!(
        above.stdout.starts_with("chunk (0, 0, -1) in dimension 1\ncells: full, 512 of 512"),
        "{above:?}"
    );
    let grid = above.part("from above, the first row is at the bottom");
    assert_eq!((grid[1..].len(), grid[6], grid[8]), (EDGE, "aaabaaaa", "aaaaaaaa"));
    let below = show(&["--chunk", "0,0,-1", "--slice", "-2"]);
    assert_eq!(below.part("z = -2, the first row")[6], "aaaaaaaa");
    assert_eq!(show(&["--chunk", "0,0,-1", "--slice", "-1"]).part("z = -1, ")[6], "aaabaaaa");
    // A chunk without z is the one at 0. Of deltas, one cell is known.
    let block = show(&["--chunk", "0,0"]);
    assert_eq!(block.part("from above")[8], "baaaaaaa", "{block:?}");
    let delta = show(&["--chunk", "1,0,0"]);
    assert_eq!((delta.part("from above")[8], delta.part("from above")[7]), (".a......", "........"));
    let json = show(&["--chunk", "1,0,-1", "--json"]).json();
    assert_eq!((&json["chunk"], &json["cells"]), (&json!([1, 0, -1, 1]), &json!(null)));
    assert!(json["entities"]["archetypes"].is_array());
}

#[test]
fn what_a_dimension_does_not_have_is_misuse() {
    let world = World::deep();
    for (arguments, words) in [
        (&["--chunk", "0,0", "--dimension", "7"][..], "there is no dimension 7, only 0, 1"),
        (&["--chunk", "0,0,1"], "dimension 0 has two coordinates: leave out Z"),
        (&["--chunk", "0,0", "--slice", "3"], "dimension 0 has two coordinates"),
        (&["--chunk", "0,0,1", "--dimension", "1", "--slice", "7"], "has the cells of z = 8 to 15"),
        (&["--chunk", "0,0,1", "--dimension", "1", "--slice", "16"], "has the cells of z = 8 to 15"),
        (&["--chunk", "0,0,1,2"], "two or three whole numbers"),
    ] {
        let run = run_on("show", &world.path, arguments);
        assert_eq!((run.code, &*run.stdout), (Some(2), ""), "{run:?}");
        assert!(run.stderr.contains(words), "{words}: {run:?}");
    }
    let other = run(&["show", world.path.to_str().unwrap(), "--dimension", "1"]);
    assert!(other.code == Some(2) && other.stderr.contains("--chunk"), "{other:?}");
}

#[test]
fn damage_is_named_with_its_layer_and_dimension() {
    let world = World::deep();
    let open = deep_options().open(&world.path).unwrap();
    open.edit().put(in_cave(4, 5, 6), noise().repeat(2)).commit(Durability::Synced).unwrap();
    open.close().unwrap();
    assert_eq!(run_on("verify", &world.path, &[]).code, Some(0));
    let mut bytes = world.bytes();
    let at = bytes.windows(32).rposition(|part| part == &noise()[..32]).expect("it is stored as it is");
    bytes[at + 5] ^= 1;
    std::fs::write(&world.path, bytes).unwrap();
    let text = run_on("verify", &world.path, &[]);
    assert!(text.code == Some(1) && text.stdout.contains("(4, 5, 6) in dimension 1"), "{text:?}");
    let json = run_on("verify", &world.path, &["--json"]).json();
    assert_eq!(json["damaged"][0]["chunk"], json!([4, 5, 6, 1]));
}

#[test]
fn a_diff_compares_every_dimension() {
    let (one, other) = (World::deep(), World::deep());
    let diff = |arguments: &[&str]| {
        run_on("diff", &one.path, &[&[other.path.to_str().unwrap()], arguments].concat())
    };
    assert_eq!(diff(&[]).stdout, "the same: 8 chunks\n");
    let open = deep_options().open(&other.path).unwrap();
    let mut cells = [STONE, 0].repeat(EDGE * AREA);
    cells[0] = WATER;
    open.edit()
        .put(in_cave(0, 0, -1), cells)
        .put_stored(in_cave(0, 0, 9), StoredChunk::Empty)
        .remove(in_cave(0, 1, 0))
        .commit(Durability::Synced)
        .unwrap();
    open.close().unwrap();
    let text = diff(&[]);
    assert_eq!(text.code, Some(6), "{text:?}");
    assert_eq!(text.part("different chunks")[1], "(0, 0, -1) in dimension 1  2 cells");
    assert_eq!(text.part("chunks only in the first")[1], "(0, 1) in dimension 1");
    let json = diff(&["--json"]).json();
    assert_eq!(json["chunks"]["only_second"], json!([[0, 0, 9, 1]]));
    assert_eq!(json["settings"], json!([]));
    // Another dimension is a setting, and its chunks are in one of the worlds only.
    let flat = World::new();
    let json = run_on("diff", &flat.path, &[one.path.to_str().unwrap(), "--json"]).json();
    let setting =
        json!({ "setting": "dimension 1", "first": "none", "second": "4 chunks of 8 x 8 x 8 cells" });
    assert_eq!(json["settings"], json!([setting]));
    assert_eq!(json["chunks"]["only_second"].as_array().unwrap().len(), 4);
}

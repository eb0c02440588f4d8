//! `bonfire map` of a dimension with three coordinates: from above, and layer by layer.

mod common;

use bonfire_chunks::{Durability, StoredChunk};
use common::picture::Picture;
use common::world::*;
use common::{Run, run_on};
use serde_json::json;

const AIR_COLOUR: [u8; 3] = [0x16, 0x1b, 0x2b];
const STONE_COLOUR: [u8; 3] = [0x76, 0x75, 0x7d];
const WATER_COLOUR: [u8; 3] = [0x3d, 0x86, 0xc6];
const NEUTRAL: [u8; 3] = [0x3b, 0x3d, 0x45];
const CROSS: [u8; 3] = [0xff, 0x3b, 0x30];
const ENTITIES: [u8; 3] = [0xff, 0xe0, 0x3b];

fn map(world: &World, arguments: &[&str]) -> (Run, Picture) {
    let path = world.beside("map.png");
    let arguments = [&[path.to_str().unwrap(), "--dimension", "1"], arguments].concat();
    let run = run_on("map", &world.path, &arguments);
    (run, Picture::read(&path))
}

#[test]
fn from_above_the_highest_cell_of_each_column_is_drawn() {
    let world = World::deep();
    let (run, picture) = map(&world, &["--no-marks"]);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""));
    assert!(run.stdout.contains("4 chunks of (0, 0) to (1, 1) in dimension 1, 8 pixels each"), "{run:?}");
    assert!(run.stdout.contains("seen from above"), "{run:?}");
    assert_eq!((picture.width, picture.height), (16, 16));
    // The lowest row of the picture is y = 0. Through the air of the chunk above, the floor is seen.
    assert_eq!((picture.at(3, 13), picture.at(4, 13)), (WATER_COLOUR, STONE_COLOUR));
    assert_eq!(picture.at(0, 15), STONE_COLOUR);
    // Deltas: one cell is known, the others are not. An empty chunk is air.
    assert_eq!((picture.at(9, 15), picture.at(8, 15)), (WATER_COLOUR, NEUTRAL));
    assert_eq!(picture.at(0, 0), AIR_COLOUR);
    let (same, again) = map(&world, &["--above", "--no-marks", "--json"]);
    assert_eq!(again.at(3, 13), WATER_COLOUR);
    let json = same.json();
    assert_eq!(
        (&json["view"], &json["dimension"], &json["slice"]),
        (&json!("above"), &json!(1), &json!(null))
    );
    // From the other side the floor hides its water.
    let (_, below) = map(&world, &["--z-down", "--no-marks"]);
    assert_eq!(below.at(3, 13), STONE_COLOUR);
    // Entities are marked in whichever layer of chunks they are.
    let (marked, picture) = map(&world, &[]);
    assert!(marked.stdout.contains("1 chunk with entities"), "{marked:?}");
    assert_eq!(picture.at(15, 15), ENTITIES);
}

#[test]
fn a_slice_has_the_cells_of_one_layer() {
    let world = World::deep();
    let (run, floor) = map(&world, &["--slice", "-1", "--no-marks"]);
    assert!(run.code == Some(0) && run.stdout.contains("the cells of z = -1"), "{run:?}");
    assert_eq!((floor.at(3, 13), floor.at(0, 15)), (WATER_COLOUR, STONE_COLOUR));
    let (_, below) = map(&world, &["--slice=-2", "--no-marks"]);
    assert_eq!(below.at(3, 13), STONE_COLOUR);
    let (json, air) = map(&world, &["--slice", "5", "--no-marks", "--json"]);
    assert_eq!((air.at(0, 15), air.at(3, 13)), (STONE_COLOUR, AIR_COLOUR));
    assert_eq!((air.at(9, 15), air.at(8, 15)), (WATER_COLOUR, NEUTRAL));
    assert_eq!((&json.json()["slice"], &json.json()["deltas"]), (&json!(5), &json!(1)));
    // All slices have the same corners, also those without a chunk.
    let (run, nothing) = map(&world, &["--slice", "1000"]);
    assert_eq!((run.code, nothing.width, nothing.height), (Some(0), 16, 16));
    let (_, entities) = map(&world, &["--slice", "-8"]);
    assert_eq!(entities.at(15, 15), ENTITIES);
    let (_, none) = map(&world, &["--slice", "0"]);
    assert_ne!(none.at(15, 15), ENTITIES);
}

#[test]
fn zoomed_out_a_column_of_chunks_is_a_pixel() {
    let world = World::deep();
    let (run, picture) = map(&world, &["--zoom", "out"]);
    assert_eq!((run.code, picture.width, picture.height), (Some(0), 2, 2));
    assert_eq!(picture.at(0, 0), AIR_COLOUR);
    let [red, green, blue] = picture.at(0, 1);
    assert!(
        red < STONE_COLOUR[0] && green >= STONE_COLOUR[1] && blue > STONE_COLOUR[2],
        "stone, and a little water"
    );
    let (run, region) = map(&world, &["--region", "1,0,1,0"]);
    assert_eq!((run.code, region.width, region.at(1, 7)), (Some(0), 8, WATER_COLOUR));
    // Another dimension is drawn as ever.
    let path = world.beside("flat.png");
    assert_eq!(run_on("map", &world.path, &[path.to_str().unwrap()]).code, Some(0));
    assert_eq!(Picture::read(&path).width, 64);
}

#[test]
fn damage_is_crossed_where_it_is_seen() {
    let world = World::deep();
    let open = deep_options().open(&world.path).unwrap();
    let cells = || noise().repeat(2).into_iter().map(|byte| byte | 1).collect::<Vec<u8>>();
    open.edit().put(in_cave(1, 1, -4), cells()).commit(Durability::Synced).unwrap();
    open.close().unwrap();
    drop(open);
    let mut bytes = world.bytes();
    let at = bytes.windows(32).position(|part| part == &cells()[..32]).expect("it is stored as it is");
    bytes[at + 5] ^= 2;
    std::fs::write(&world.path, bytes).unwrap();
    let (run, picture) = map(&world, &["--json"]);
    assert_eq!((run.code, picture.at(8, 0)), (Some(1), CROSS));
    assert_eq!(run.json()["damaged"], json!([[1, 1, -4, 1]]));
    // Chunks that are hidden are not read.
    let open = deep_options().open(&world.path).unwrap();
    open.edit().put(in_cave(1, 1, 2), [STONE, 0].repeat(EDGE * AREA)).commit(Durability::Synced).unwrap();
    open.close().unwrap();
    let (run, picture) = map(&world, &[]);
    assert_eq!((run.code, picture.at(8, 0)), (Some(0), STONE_COLOUR), "{run:?}");
}

#[test]
fn what_cannot_be_drawn_is_misuse() {
    let world = World::deep();
    let path = world.beside("map.png");
    for (arguments, words) in [
        (&["--slice", "0"][..], "dimension 0 has two coordinates"),
        (&["--above"], "dimension 0 has two coordinates"),
        (&["--dimension", "3"], "there is no dimension 3, only 0, 1"),
        (&["--dimension", "1", "--slice", "9999999999999"], "no chunk has a cell of z = 9999999999999"),
        (&["--dimension", "1", "--slice", "0", "--above"], "cannot be used with"),
    ] {
        let run = run_on("map", &world.path, &[&[path.to_str().unwrap()], arguments].concat());
        assert_eq!((run.code, &*run.stdout), (Some(2), ""), "{run:?}");
        assert!(run.stderr.contains(words), "{words}: {run:?}");
    }
    assert!(!path.exists());
}

/// A tower of many chunks, one above the other, is read one by one.
#[test]
fn a_high_column_is_seen_to_its_ground() {
    let world = World::deep();
    let open = deep_options().open(&world.path).unwrap();
    let mut edit = open.edit();
    for z in 1..300 {
        edit.put_stored(in_cave(0, 0, z), StoredChunk::Empty);
    }
    edit.commit(Durability::Synced).unwrap();
    open.close().unwrap();
    let (run, picture) = map(&world, &["--no-marks", "--json"]);
    assert_eq!((run.code, picture.at(3, 13)), (Some(0), WATER_COLOUR));
    assert_eq!(run.json()["chunks"], 302);
}

//! `bonfire map` draws worlds of chunks: every pixel has the colour it should have.

mod common;

use common::picture::Picture;
use common::world::*;
use common::{Run, run_on};
use serde_json::json;

const AIR_COLOUR: [u8; 3] = [0x16, 0x1b, 0x2b];
const STONE_COLOUR: [u8; 3] = [0x76, 0x75, 0x7d];
const WATER_COLOUR: [u8; 3] = [0x3d, 0x86, 0xc6];
const NEUTRAL: [u8; 3] = [0x3b, 0x3d, 0x45];
const CROSS: [u8; 3] = [0xff, 0x3b, 0x30];

fn map(world: &World, arguments: &[&str]) -> (Run, Picture) {
    let path = world.beside("map.png");
    let run = run_on("map", &world.path, &[&[path.to_str().unwrap()], arguments].concat());
    let picture = Picture::read(&path);
    (run, picture)
}

#[test]
fn every_cell_is_a_pixel_and_the_first_row_is_the_lowest() {
    let world = World::new();
    let (run, picture) = map(&world, &[]);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""));
    assert!(run.stdout.contains("1 of them as changed cells on grey"), "{run:?}");
    // From (-1, 0) to (2, 1).
    assert_eq!((picture.width, picture.height), (64, 32));
    assert_eq!(picture.at(3, 3), AIR_COLOUR, "the empty chunk at (-1, 1)");
    assert_eq!((picture.at(16, 16), picture.at(31, 16)), (STONE_COLOUR, WATER_COLOUR));
    let zorp = picture.at(18, 31);
    assert!(![STONE_COLOUR, WATER_COLOUR, AIR_COLOUR].contains(&zorp), "the first row is the lowest");
    // The delta at (1, 0) has two cells, in its second row.
    assert_eq!([32, 33, 34].map(|x| picture.at(x, 30)), [WATER_COLOUR, STONE_COLOUR, NEUTRAL]);
    // What is not in the file is a checker of two colours, which nothing else has.
    let (one, other) = (picture.at(16, 0), picture.at(18, 0));
    assert!(one != other && picture.at(20, 0) == one && picture.at(18, 2) == one);

    let (_, down) = map(&world, &["--y-down"]);
    assert_eq!((down.at(18, 0), down.at(3, 19)), (zorp, AIR_COLOUR));
    assert_eq!([32, 33].map(|x| down.at(x, 1)), [WATER_COLOUR, STONE_COLOUR]);
}

#[test]
fn a_damaged_chunk_has_a_red_cross() {
    let (run, picture) = map(&World::damaged(), &["--json"]);
    assert_eq!(run.code, Some(1));
    assert_eq!((&run.json()["damaged"], &run.json()["chunks"]), (&json!([[2, 0]]), &json!(2)));
    for place in [(48, 16), (63, 16), (48, 31), (63, 31), (55, 23)] {
        assert_eq!(picture.at(place.0, place.1), CROSS, "{place:?}");
    }
    assert_ne!(picture.at(56, 16), CROSS);
    assert_eq!(picture.at(16, 16), STONE_COLOUR, "the rest is drawn");
}

#[test]
fn what_was_set_aside_has_a_red_cross_too() {
    let world = World::damaged();
    assert_eq!(run_on("repair", &world.path, &[]).code, Some(1));
    let (run, picture) = map(&world, &[]);
    assert_eq!((run.code, picture.at(48, 16)), (Some(1), CROSS));
}

#[test]
fn a_region_and_a_scale_are_as_asked_for() {
    let world = World::new();
    let (run, picture) = map(&world, &["--region", "0,0,0,0", "--scale", "48", "--json"]);
    assert_eq!((picture.width, picture.height), (48, 48));
    assert_eq!((&run.json()["min"], &run.json()["pixels_per_chunk"]), (&json!([0, 0]), &json!(48)));
    // A cell is three pixels wide: the cell of zorp is the third of the lowest row.
    let zorp = picture.at(6, 47);
    assert_eq!([(5, 47), (9, 47), (6, 44)].map(|(x, y)| picture.at(x, y) == zorp), [false; 3]);
    assert_eq!((picture.at(8, 45), picture.at(23, 0), picture.at(24, 0)), (zorp, STONE_COLOUR, WATER_COLOUR));
    // One pixel for the whole chunk is the mean, and nearer to the brighter half.
    let (_, picture) = map(&world, &["--region", "0,0,0,0", "--scale", "1"]);
    assert_eq!((picture.width, picture.height), (1, 1));
    let [red, green, blue] = picture.at(0, 0);
    assert!((0x3d..0x76).contains(&red) && (0x75..0x86).contains(&green) && (0x7d..0xc6).contains(&blue));
    // Regions may lie outside of the world, and go left of zero.
    let (run, picture) = map(&world, &["--region=-9,-9,-8,-9"]);
    assert_eq!((run.code, picture.width, picture.height), (Some(0), 32, 16));
}

#[test]
fn colours_come_from_a_file_and_from_another_layer() {
    let world = World::new();
    let palette = world.beside("palette.txt");
    std::fs::write(&palette, "# mine\ngame.stone #010203\n2 #0a0b0c\nother #000000\n").unwrap();
    let (run, picture) = map(&world, &["--palette", palette.to_str().unwrap()]);
    assert_eq!((picture.at(16, 16), picture.at(31, 16)), ([1, 2, 3], [10, 11, 12]));
    assert!(run.stdout.contains("not in this world, but in the palette: other"), "{run:?}");
    // All of it has colour 0.
    let (_, picture) = map(&world, &["--layer", "color"]);
    assert_eq!((picture.at(16, 16), picture.at(18, 31)), (AIR_COLOUR, AIR_COLOUR));
    let (_, picture) = map(&world, &["--shade", "color"]);
    assert_eq!(picture.at(16, 16), STONE_COLOUR.map(|channel| (u32::from(channel) * 7 / 8) as u8));
    std::fs::write(&palette, "stone red\n").unwrap();
    let wrong = run_on("map", &world.path, &["x.png", "--palette", palette.to_str().unwrap()]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("line 1"), "{wrong:?}");
    let wrong = run_on("map", &world.path, &["x.png", "--layer", "heat"]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("only material, color"), "{wrong:?}");
}

#[test]
fn a_picture_that_would_be_too_large_is_refused() {
    let world = World::new();
    let path = world.beside("map.png");
    for arguments in [&["--region", "-2000000000,0,2000000000,0"][..], &["--scale", "8192"]] {
        let run = run_on("map", &world.path, &[&[path.to_str().unwrap()], arguments].concat());
        assert_eq!(run.code, Some(2));
        assert!(run.stderr.contains("take a smaller --region or --scale"), "{run:?}");
    }
    let run = run_on("map", &world.path, &[path.to_str().unwrap(), "--region", "1,2,3"]);
    assert!(run.code == Some(2) && run.stderr.contains("X0,Y0,X1,Y1"), "{run:?}");
    assert_eq!(world.names(), ["world.save"]);
}

#[test]
fn only_pictures_are_replaced() {
    let world = World::new();
    let before = world.bytes();
    let run = run_on("map", &world.path, &[world.path.to_str().unwrap()]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("is no PNG"), "{run:?}");
    assert_eq!(world.bytes(), before);
    assert_eq!((map(&world, &[]).0.code, map(&world, &[]).0.code), (Some(0), Some(0)));
    assert_eq!(world.names(), ["map.png", "world.save"]);
}

/// Somebody else may put a link where the tool writes before it renames.
#[cfg(unix)]
#[test]
fn a_link_beside_the_picture_is_not_followed() {
    let world = World::new();
    let precious = world.path.with_file_name("precious");
    std::fs::write(&precious, "mine").unwrap();
    std::os::unix::fs::symlink(&precious, world.path.with_file_name("map.png.part")).unwrap();
    assert_eq!(map(&world, &[]).0.code, Some(0));
    assert_eq!(std::fs::read(&precious).unwrap(), b"mine");
    assert_eq!(world.names(), ["map.png", "precious", "world.save"]);
}

#[test]
fn a_sealed_world_is_drawn_with_its_key() {
    let world = World::with(&options().sealed(key()));
    let (run, picture) = map(&world, &[]);
    assert_eq!(run.code, Some(0));
    assert!(run.stdout.contains("4 hatched: a key"), "{run:?}");
    assert_ne!(picture.at(17, 16), STONE_COLOUR);
    let key = key_file(world.directory.path(), 5);
    assert_eq!(map(&world, &["--key-file", &key]).1.at(17, 16), STONE_COLOUR);
}

#[test]
fn a_world_that_was_not_closed_is_drawn_as_it_is() {
    let world = World::unclosed();
    let before = world.bytes();
    let (run, picture) = map(&world, &[]);
    assert_eq!((run.code, picture.at(16, 16)), (Some(0), STONE_COLOUR));
    assert_eq!(world.bytes(), before);
}

const BODY: [u8; 3] = [0xff, 0x4f, 0xd8];
const ENTITIES: [u8; 3] = [0xff, 0xe0, 0x3b];

#[test]
fn bodies_and_entities_have_marks() {
    let world = World::new();
    let (run, picture) = map(&world, &["--json"]);
    assert_eq!((&run.json()["bodies"], &run.json()["chunks_with_entities"]), (&json!(1), &json!(1)));
    // The body is at (4, 3) of the chunk (0, 0), whose lowest row is the last one.
    for (x, y) in [(20, 28), (19, 28), (21, 28), (20, 27), (20, 29)] {
        assert_eq!(picture.at(x, y), BODY, "({x}, {y})");
    }
    assert_eq!(picture.at(19, 27), STONE_COLOUR, "a plus, and not a square");
    assert_eq!(
        (picture.at(31, 31), picture.at(30, 30), picture.at(29, 31)),
        (ENTITIES, ENTITIES, WATER_COLOUR)
    );
    let (_, down) = map(&world, &["--y-down"]);
    assert_eq!(down.at(20, 3), BODY);
    let (_, bare) = map(&world, &["--no-marks"]);
    assert_eq!((bare.at(20, 28), bare.at(31, 31)), (STONE_COLOUR, WATER_COLOUR));
    let (run, _) = map(&world, &["--region", "1,0,2,0"]);
    assert!(!run.stdout.contains("body"), "none of them is in this part: {run:?}");
}

#[test]
fn zoomed_out_every_chunk_is_a_pixel() {
    let world = World::new();
    let (run, picture) = map(&world, &["--zoom", "out"]);
    assert_eq!((run.code, picture.width, picture.height), (Some(0), 4, 2));
    assert_eq!(picture.at(0, 0), AIR_COLOUR, "the empty chunk at (-1, 1)");
    let mean = picture.at(1, 1);
    assert!(
        ![STONE_COLOUR, WATER_COLOUR, BODY, ENTITIES].contains(&mean),
        "the mean of both halves, without marks"
    );
    assert!(run.stdout.contains("1 body"), "they are counted all the same: {run:?}");
    let path = world.beside("no.png");
    let both = run_on("map", &world.path, &[path.to_str().unwrap(), "--zoom", "out", "--scale", "2"]);
    assert_eq!(both.code, Some(2));
}

#[test]
fn palettes_have_names() {
    let world = World::new();
    let (_, grey) = map(&world, &["--palette", "grey", "--no-marks"]);
    assert_eq!((grey.at(16, 16), grey.at(31, 16)), ([STONE; 3], [WATER; 3]));
    let (_, distinct) = map(&world, &["--palette", "distinct"]);
    assert!(distinct.at(16, 16) != STONE_COLOUR && distinct.at(16, 16) != distinct.at(31, 16));
    let (_, names) = map(&world, &["--palette", "names"]);
    assert_eq!(names.at(16, 16), STONE_COLOUR);
}

/// A band of a hundred thousand chunks is drawn row by row.
#[test]
fn a_wide_world_fits_into_a_picture() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("world.save");
    let world = options().open(&path).unwrap();
    let mut edit = world.edit();
    for at in [(0, 0), (999, 0), (0, 99), (999, 99)] {
        edit.put(at, [WATER, 0].repeat(SIZE * SIZE));
    }
    edit.commit(bonfire_chunks::Durability::Synced).unwrap();
    world.close().unwrap();
    let picture = directory.path().join("map.png");
    let run = run_on("map", &path, &[picture.to_str().unwrap(), "--zoom", "out"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let picture = Picture::read(&picture);
    assert_eq!((picture.width, picture.height), (1000, 100));
    for (x, y) in [(0, 0), (999, 0), (0, 99), (999, 99)] {
        assert_eq!(picture.at(x, y), WATER_COLOUR);
    }
}

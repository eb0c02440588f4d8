//! `bonfire show` of a chunk: cells by material and as a grid, bodies, entities.

mod common;

use bonfire_chunks::Durability;
use common::run_on;
use common::world::*;
use serde_json::json;

#[test]
fn a_chunk_is_shown_with_its_cells_bodies_and_entities() {
    let world = World::new();
    let run = run_on("show", &world.path, &["--chunk", "0,0"]);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""));
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(lines[..2], ["chunk (0, 0)", "cells: full, 256 of 256, layer material"]);
    let row = |start: &str| lines.iter().find(|line| line.starts_with(start)).unwrap().split_whitespace();
    assert_eq!(row("a ").collect::<Vec<_>>(), ["a", "2", "game.water", "128"]);
    assert_eq!(row("b ").collect::<Vec<_>>(), ["b", "1", "game.stone", "127"]);
    assert!(run.stdout.contains("zorp") && !run.stdout.contains('\u{1b}'), "{run:?}");
    let grid: Vec<&&str> = lines.iter().filter(|line| line.ends_with("aaaaaaaa")).collect();
    assert_eq!(grid.len(), SIZE);
    assert_eq!((*grid[0], *grid[SIZE - 1]), ("bbbbbbbbaaaaaaaa", "bbcbbbbbaaaaaaaa"));
    assert!(run.stdout.contains("\n1 body\n") && run.stdout.contains("2 x 1"), "{run:?}");
    assert!(run.stdout.contains("0 entities"), "{run:?}");

    let run = run_on("show", &world.path, &["--chunk", "0,0", "--json"]).json();
    assert_eq!((&run["chunk"], &run["cells"]["storage"]), (&json!([0, 0]), &json!("full")));
    assert_eq!(run["cells"]["values"][1], json!({ "value": 1, "name": "game.stone", "cells": 127 }));
    assert_eq!(run["bodies"][0]["position"], json!([4.0, 3.0]));
    assert_eq!(run["entities"]["archetypes"], json!([]));
}

#[test]
fn a_delta_shows_its_changed_cells_and_an_unchanged_chunk_says_so() {
    let world = World::new();
    let run = run_on("show", &world.path, &["--chunk", "1,0"]);
    assert_eq!(run.code, Some(0));
    assert!(run.stdout.contains("cells: delta, 2 of 256"), "{run:?}");
    // Two values are as frequent as each other: the smaller one comes first.
    assert!(run.stdout.lines().any(|line| line == "ba.............."), "{run:?}");
    let run = run_on("show", &world.path, &["--chunk=-1,1"]);
    assert!(run.stdout.contains("cells: empty, 256 of 256"), "{run:?}");
    let run = run_on("show", &world.path, &["--chunk", "-9,9"]);
    assert_eq!(run.code, Some(0));
    for part in ["not in the file", "no bodies", "no entities"] {
        assert!(run.stdout.contains(part), "{run:?}");
    }
}

#[test]
fn large_chunks_are_sampled_and_entities_are_tables() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("world.save");
    let world = options().chunk_size(100).open(&path).unwrap();
    let snapshot = bonfire_testkit::fixture::everything().unwrap().to_bytes().unwrap().to_vec();
    let cells = [STONE, 0].repeat(100 * 100);
    world.edit().put((0, 0), cells).put_entities((0, 0), snapshot).commit(Durability::Synced).unwrap();
    world.close().unwrap();
    let run = run_on("show", &path, &["--chunk", "0,0"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stdout.contains("one cell of 4 x 4"), "{run:?}");
    assert_eq!(run.stdout.lines().filter(|line| *line == "a".repeat(25)).count(), 25);
    assert!(run.stdout.contains("archetype 0:"), "{run:?}");
}

#[test]
fn a_world_without_a_chunk_says_what_to_do() {
    let world = World::new();
    let run = run_on("show", &world.path, &[]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("chunk world") && run.stderr.contains("--chunk X,Y"), "{run:?}");
    assert!(run.stdout.is_empty() && !run.stderr.contains("salvage"), "{run:?}");
    assert_eq!(run_on("show", &world.path, &["--chunk", "1"]).code, Some(2));
    let save = world.beside("a.bonfire");
    std::fs::write(&save, entities("x")).unwrap();
    let run = run_on("show", &save, &["--chunk", "0,0"]);
    assert!(run.code == Some(2) && run.stderr.contains("--chunk is for chunk worlds"), "{run:?}");
}

#[test]
fn damage_is_named_and_a_sealed_chunk_needs_its_key() {
    let run = run_on("show", &World::damaged().path, &["--chunk", "2,0"]);
    assert!(
        run.code == Some(1) && run.stdout.contains("cells: ") && run.stdout.contains("(2, 0)"),
        "{run:?}"
    );
    let world = World::with(&options().sealed(key()));
    let run = run_on("show", &world.path, &["--chunk", "0,0"]);
    assert!(run.code == Some(2) && run.stdout.is_empty(), "{run:?}");
    let file = key_file(world.directory.path(), 5);
    let run = run_on("show", &world.path, &["--chunk", "0,0", "--key-file", &file]);
    assert!(run.code == Some(0) && run.stdout.contains("game.stone"), "{run:?}");
}

//! `bonfire pins` lists the moments that a world keeps. `--at` and `diff --from --to` look at them.

mod common;

use std::path::Path;

use bonfire_chunks::ChunkWorld;
use bonfire_store::disk::Access;
use common::picture::Picture;
use common::world::*;
use common::{Run, encode, farm, run, run_on, save};
use serde_json::json;

fn pins(path: &Path) -> Vec<bonfire_chunks::PinInfo> {
    ChunkWorld::open_as_is(path, Access::Read).unwrap().pins()
}

fn assert_clean(run: &Run) {
    let text = format!("{}{}", run.stdout, run.stderr);
    assert!(!text.contains(|char: char| char != '\n' && char.is_control()), "{run:?}");
}

#[test]
fn pins_are_listed_from_the_oldest_with_what_they_hold() {
    let world = World::pinned();
    let found = pins(&world.path);
    let text = run_on("pins", &world.path, &[]);
    assert_eq!((text.code, &*text.stderr), (Some(0), ""));
    assert_clean(&text);
    let rows: Vec<Vec<&str>> =
        text.part("name")[2..].iter().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), ["one", "two", "evil\\u{1b}[31m"]);
    for (row, pin) in rows.iter().zip(&found) {
        assert_eq!(row[3..6], [&*pin.generation.to_string(), &*pin.own_bytes.to_string(), "bytes"]);
        assert!(row[1].starts_with("20") && row[2].ends_with('Z'), "{row:?}");
    }
    assert_eq!(rows[0][6..], ["10", "bytes:", "chapter", "1\\n"]);
    assert_eq!((rows[1][6..].join(" "), rows[2][6..].join(" ")), ("3 bytes".into(), "none".into()));
    let held = ChunkWorld::open_as_is(&world.path, Access::Read).unwrap().info().pinned_bytes;
    assert!(held > 512, "noise was replaced");
    let line = format!("3 pins hold {held} bytes that the world as it is now does not need");
    assert_eq!(text.stdout.lines().last(), Some(&*line));

    let json = run_on("pins", &world.path, &["--json"]);
    assert_clean(&json);
    let json = json.json();
    assert_eq!((&json["pinned_bytes"], &json["damaged"]), (&json!(held), &json!([])));
    let one = json!({
        "name": "one", "created": found[0].created, "save": found[0].generation, "metadata_bytes": 10,
        "metadata": "chapter 1\n", "metadata_hex": null, "own_bytes": found[0].own_bytes, "damaged": false,
    });
    assert_eq!(json["pins"][0], one);
    assert_eq!(
        (&json["pins"][1]["metadata"], &json["pins"][1]["metadata_hex"]),
        (&json!(null), &json!("0102ff"))
    );
    assert_eq!(json["pins"][2]["name"], EVIL);
}

#[test]
fn a_world_without_pins_says_so() {
    let world = World::new();
    let text = run_on("pins", &world.path, &[]);
    assert_eq!((text.code, &*text.stdout), (Some(0), "this world has no pins\n"));
    assert_eq!(run_on("pins", &world.path, &["--json"]).json()["pins"], json!([]));
    let at = run_on("info", &world.path, &["--at", "one"]);
    assert_eq!((at.code, &*at.stdout), (Some(2), ""));
    assert!(at.stderr.contains("there is no pin `one`, this world has no pins"), "{at:?}");
}

#[test]
fn info_counts_pins_and_shows_the_world_at_one() {
    let world = World::pinned();
    let held = ChunkWorld::open_as_is(&world.path, Access::Read).unwrap().info().pinned_bytes;
    let now = run_on("info", &world.path, &[]);
    for line in [
        "format version    1",
        "coordinates       2",
        &format!("pins              3, which hold {held} bytes"),
    ] {
        assert!(now.stdout.lines().any(|found| found == line), "{line}: {}", now.stdout);
    }
    let then = run_on("info", &world.path, &["--at", "one"]);
    assert_eq!(then.code, Some(0), "{then:?}");
    let save = pins(&world.path)[0].generation;
    for line in [
        &*format!("at                pin `one`, save {save}"),
        &format!("saves             {save}"),
        "chunks            4 (2 full, 1 deltas, 1 empty)",
        "extent            (-1, 0) to (2, 1)",
    ] {
        assert!(then.stdout.lines().any(|found| found == line), "{line}: {}", then.stdout);
    }
    let [now, then] =
        [&["--json"][..], &["--json", "--at", "two"]].map(|of| run_on("info", &world.path, of).json());
    assert_eq!((&now["chunks"], &then["chunks"]), (&json!(5), &json!(4)));
    assert_eq!((&now["at"], &then["at"]["name"]), (&json!(null), &json!("two")));
    assert_eq!((&now["pins"], &now["pinned_bytes"]), (&json!(3), &json!(held)));
}

#[test]
fn a_chunk_and_a_picture_are_those_of_the_pin() {
    let world = World::pinned();
    let json =
        |at: &[&str]| run_on("show", &world.path, &[&["--chunk", "2,0", "--json"], at].concat()).json();
    assert_eq!(json(&["--at", "two"])["cells"]["values"][0]["name"], "game.stone");
    // The name as it is, and as the tool prints it.
    for name in [EVIL, "evil\\u{1b}[31m"] {
        assert_eq!(json(&["--at", name])["cells"]["values"][0]["name"], "game.water");
    }
    assert_eq!(json(&["--at", "two"])["at"]["name"], "two");
    let text = run_on("show", &world.path, &["--chunk", "3,0", "--at", EVIL]);
    assert!(text.code == Some(0) && text.stdout.starts_with("at pin `evil\\u{1b}[31m`, save "), "{text:?}");
    assert!(text.stdout.contains("cells: not in the file"), "{text:?}");

    let path = world.beside("map.png");
    let map = |at: &[&str]| {
        let run = run_on("map", &world.path, &[&[path.to_str().unwrap(), "--no-marks"], at].concat());
        assert_eq!(run.code, Some(0), "{run:?}");
        Picture::read(&path)
    };
    let [now, then] = [map(&[]), map(&["--at", "two"])];
    assert_eq!((now.width, then.width), (80, 64));
    let stone = now.at(16, 20);
    assert_eq!((then.at(48, 31), then.at(63, 16)), (stone, stone));
    assert_ne!(now.at(63, 16), stone);
}

#[test]
fn moments_are_compared_with_each_other_and_with_now() {
    let world = World::pinned();
    let diff = |of: &[&str]| run_on("diff", &world.path, &[of, &["--json"]].concat());
    let same = diff(&["--from", "one", "--to", "one"]);
    assert_eq!((same.code, &same.json()["same"]), (Some(0), &json!(true)));
    let pins = diff(&["--from", "one", "--to", "two"]);
    assert_eq!(pins.code, Some(6), "{pins:?}");
    let json = pins.json();
    assert_eq!(json["chunks"]["different"][0]["chunk"], json!([2, 0]));
    assert_eq!((&json["chunks"]["same"], &json["chunks"]["only_second"]), (&json!(3), &json!([])));
    assert_eq!(json["entities"]["different"], json!([[0, 0]]));
    assert_eq!((&json["from"]["name"], &json["to"]["name"]), (&json!("one"), &json!("two")));
    let now = diff(&["--from", "two"]).json();
    assert_eq!((&now["chunks"]["only_second"], &now["to"]), (&json!([[3, 0]]), &json!(null)));
    assert_eq!(now["entities"]["different"], json!([]));
    let back = diff(&["--to", "two"]).json();
    assert_eq!(back["chunks"]["only_first"], json!([[3, 0]]));
    let text = run_on("diff", &world.path, &["--from", "two"]);
    assert!(text.stdout.starts_with("from pin `two`, save "), "{text:?}");
    assert!(text.stdout.lines().next().unwrap().ends_with(" to now"), "{text:?}");
    // Another file, at a pin of its own: what the first pin has is what a new world has.
    let fresh = World::new();
    let other = run_on("diff", &fresh.path, &[world.path.to_str().unwrap(), "--to", "one"]);
    assert!(other.code == Some(0) && other.stdout.ends_with("the same: 4 chunks\n"), "{other:?}");
    let alone = run_on("diff", &world.path, &[]);
    assert!(alone.code == Some(2) && alone.stderr.contains("SECOND"), "{alone:?}");
}

#[test]
fn a_pin_that_is_not_there_is_an_error_that_names_those_that_are() {
    let world = World::pinned();
    let path = world.beside("map.png");
    for command in [
        vec!["info"],
        vec!["verify"],
        vec!["verify", "--json"],
        vec!["show", "--chunk", "0,0"],
        vec!["map", path.to_str().unwrap()],
        vec!["diff", "--from", "two", "--to"],
    ] {
        let at = if command[0] == "diff" { &["three\u{1b}"][..] } else { &["--at", "three\u{1b}"] };
        let run = run_on(command[0], &world.path, &[&command[1..], at].concat());
        assert_eq!((run.code, &*run.stdout), (Some(2), ""), "{run:?}");
        let words = "there is no pin `three\\u{1b}`, only `one`, `two`, `evil\\u{1b}[31m`";
        assert!(run.stderr.contains(words), "{run:?}");
        assert_clean(&run);
    }
    assert!(!path.exists(), "no picture of nothing");
}

#[test]
fn only_worlds_have_moments() {
    let saved = save(&encode(&farm()));
    for command in [vec!["info"], vec!["verify"], vec!["show"], vec!["show", "--chunk", "0,0"]] {
        let run = run_on(command[0], &saved.path, &[&command[1..], &["--at", "one"]].concat());
        assert_eq!((run.code, &*run.stdout), (Some(2), ""), "{run:?}");
        assert!(run.stderr.contains("--at is for chunk worlds, and this is a save"), "{run:?}");
    }
    let directory = saved.path.parent().unwrap().to_str().unwrap();
    let run = run(&["info", directory, "--at", "one"]);
    assert!(run.code == Some(2) && run.stderr.contains("and this is a directory"), "{run:?}");
    let world = World::pinned();
    let run = run_on("show", &world.path, &["--at", "one"]);
    assert!(run.code == Some(2) && run.stderr.contains("--chunk X,Y"), "{run:?}");
}

#[test]
fn a_compaction_keeps_pins_and_says_what_they_hold() {
    let world = World::pinned();
    let held = ChunkWorld::open_as_is(&world.path, Access::Read).unwrap().info().pinned_bytes;
    let text = run_on("compact", &world.path, &[]);
    assert_eq!(text.code, Some(0), "{text:?}");
    let lines: Vec<&str> = text.stdout.lines().collect();
    assert!(lines[0].ends_with(" bytes after, 5 chunks"), "{text:?}");
    let says = format!("3 pins hold {held} bytes that the world as it is now does not need: `bonfire pins ");
    assert!(lines[1].starts_with(&says), "{text:?}");
    let json = run_on("compact", &world.path, &["--json"]).json();
    assert_eq!((&json["pins"], &json["pinned_bytes"]), (&json!(3), &json!(held)));
    assert_eq!(pins(&world.path).len(), 3);
    let fresh = World::new();
    let same = run_on("diff", &world.path, &[fresh.path.to_str().unwrap(), "--from", "one"]);
    assert_eq!(same.code, Some(0), "{same:?}");
    assert_eq!(run_on("verify", &world.path, &[]).code, Some(0));
}

#[test]
fn a_sealed_world_shows_its_pins_and_with_the_key_their_content() {
    let world = World::pinned_with(&options().sealed(key()));
    let text = run_on("pins", &world.path, &[]);
    assert!(text.code == Some(0) && text.stdout.contains("chapter 1"), "{text:?}");
    assert_eq!(run_on("show", &world.path, &["--chunk", "2,0", "--at", "two"]).code, Some(2));
    let file = key_file(world.directory.path(), 5);
    let json =
        run_on("show", &world.path, &["--chunk", "2,0", "--at", "two", "--json", "--key-file", &file]).json();
    assert_eq!(json["cells"]["values"][0]["name"], "game.stone");
    let verdict = run_on("verify", &world.path, &["--at", "two", "--key-file", &file]);
    assert!(
        verdict.code == Some(0) && verdict.stdout.starts_with("ok: 4 chunks at pin `two`"),
        "{verdict:?}"
    );
}

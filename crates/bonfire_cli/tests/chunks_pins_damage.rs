//! Damage in pins: `verify` finds it and names the pins, `repair` sets it aside, `compact` refuses.

mod common;

use bonfire_chunks::Durability;
use common::run_on;
use common::world::*;
use serde_json::json;

#[test]
fn verify_checks_what_only_pins_have() {
    let world = World::pinned();
    let text = run_on("verify", &world.path, &[]);
    assert_eq!(text.code, Some(0), "{text:?}");
    assert!(text.stdout.starts_with("ok: 5 chunks, 3 pins, "), "{text:?}");

    let world = World::pinned_and_damaged();
    let text = run_on("verify", &world.path, &[]);
    assert_eq!(text.code, Some(1), "{text:?}");
    assert!(text.stdout.starts_with("damaged: 1 part cannot be read; 5 chunks, 3 pins\n"), "{text:?}");
    let part = text.part("damaged, in pins alone");
    let row: Vec<&str> = part[3].split_whitespace().collect();
    assert_eq!((&row[..3], row[4]), (&["chunk", "(2,", "0)"][..], "one"), "{text:?}");
    let json = run_on("verify", &world.path, &["--json"]);
    assert_eq!(json.code, Some(1));
    let json = json.json();
    assert_eq!(
        (&json["result"], &json["damaged"], &json["pins"]),
        (&json!("damaged"), &json!([]), &json!(3))
    );
    let part = &json["damaged_in_pins"][0];
    assert_eq!((&part["chunk"], &part["pins"]), (&json!([2, 0]), &json!(["one"])));
}

#[test]
fn verify_at_a_pin_looks_at_that_pin() {
    let world = World::pinned_and_damaged();
    let two = run_on("verify", &world.path, &["--at", "two"]);
    assert_eq!(two.code, Some(0), "{two:?}");
    assert!(two.stdout.starts_with("ok: 4 chunks at pin `two`, save "), "{two:?}");
    let one = run_on("verify", &world.path, &["--at", "one", "--json"]);
    assert_eq!(one.code, Some(1));
    let json = one.json();
    assert_eq!((&json["damaged"][0]["chunk"], &json["at"]["name"]), (&json!([2, 0]), &json!("one")));
    let path = world.beside("map.png");
    let path = path.to_str().unwrap();
    assert_eq!(run_on("map", &world.path, &[path]).code, Some(0));
    let map = run_on("map", &world.path, &[path, "--at", "one", "--json"]);
    assert_eq!((map.code, &map.json()["damaged"]), (Some(1), &json!([[2, 0]])));
    let diff = run_on("diff", &world.path, &["--from", "one"]);
    assert!(
        diff.code == Some(1) && diff.part("could not be compared")[1].starts_with("the first: "),
        "{diff:?}"
    );
}

#[test]
fn a_repair_sets_aside_what_pins_have_lost() {
    let world = World::pinned_and_damaged();
    let refused = run_on("compact", &world.path, &[]);
    assert!(refused.code == Some(1) && refused.stderr.contains("`bonfire repair "), "{refused:?}");
    let repair = run_on("repair", &world.path, &[]);
    assert_eq!(repair.code, Some(1), "{repair:?}");
    assert!(repair.stdout.contains("it was found damaged and set aside"), "{repair:?}");
    assert!(repair.stdout.ends_with("the world as it is now lost nothing\n"), "{repair:?}");
    assert_eq!(world.names(), ["world.save", "world.save.before-repair"]);
    // Once more there is nothing to do, and a compaction goes on.
    let again = run_on("repair", &world.path, &["--drop-damaged"]);
    assert!(again.code == Some(1) && again.stdout.starts_with("nothing new is damaged"), "{again:?}");
    assert_eq!(world.names().len(), 2);
    let compact = run_on("compact", &world.path, &[]);
    assert!(compact.code == Some(1) && compact.stderr.is_empty(), "{compact:?}");
    let verify = run_on("verify", &world.path, &[]);
    assert!(verify.code == Some(1) && verify.stdout.contains("when the game removes them"), "{verify:?}");
    options().open(&world.path).unwrap().unpin("one").unwrap();
    assert_eq!(run_on("verify", &world.path, &[]).code, Some(0));
}

/// A frame that the present and a pin share is damaged, and so is the header that would lead to it.
#[test]
fn a_pin_of_a_world_without_its_first_bytes_still_tells_of_its_damage() {
    let world = World::new();
    let open = options().compact_above(None).open(&world.path).unwrap();
    open.pin("one", []).unwrap();
    open.edit().put((9, 9), halves()).commit(Durability::Synced).unwrap();
    open.close().unwrap();
    drop(open);
    let mut bytes = world.bytes();
    let at = bytes.windows(32).position(|part| part == &noise()[..32]).expect("it is stored as it is");
    bytes[at + 5] ^= 1;
    bytes[..512].fill(0);
    std::fs::write(&world.path, bytes).unwrap();
    for at in [&[][..], &["--at", "one"]] {
        let verify = run_on("verify", &world.path, &[&["--json"], at].concat());
        assert_eq!(verify.code, Some(1), "{verify:?}");
        assert_eq!(verify.json()["damaged"][0]["chunk"], json!([2, 0]), "{verify:?}");
        let show = run_on("show", &world.path, &[&["--chunk", "2,0"], at].concat());
        assert_eq!(show.code, Some(1), "{show:?}");
    }
}

/// The frames that list what a pin has: flipping a byte of one loses all pins up to that one.
#[test]
fn a_pin_whose_list_is_lost_is_named() {
    const DIFFERENCE_OF_A_PIN: u8 = 15;
    let world = World::pinned();
    let mut bytes = world.bytes();
    let lists: Vec<usize> = (32..bytes.len() - 8)
        .filter(|&at| bytes[at..].starts_with(&[0x9B, b'B', b'N', b'F', DIFFERENCE_OF_A_PIN]))
        .collect();
    bytes[lists[0] - 6] ^= 1;
    std::fs::write(&world.path, bytes).unwrap();
    let pins = run_on("pins", &world.path, &[]);
    assert_eq!(pins.code, Some(1), "{pins:?}");
    let json = run_on("pins", &world.path, &["--json"]).json();
    let damaged: Vec<bool> =
        json["pins"].as_array().unwrap().iter().map(|pin| pin["damaged"] == true).collect();
    assert_eq!(damaged, [true, false, false], "{json}");
    assert!(pins.part("name")[2].contains(" damaged  10 bytes: chapter 1"), "{pins:?}");
    let at = run_on("info", &world.path, &["--at", "one"]);
    assert!(at.code == Some(1) && at.stderr.contains("the pin `one` is damaged"), "{at:?}");
    assert!(
        at.stderr.contains("`bonfire pins ") && !at.stderr.contains("ChunkWorld::"),
        "what a user can do: {at:?}"
    );
    let info = run_on("info", &world.path, &[]);
    assert!(info.code == Some(1) && info.part("damaged, see")[1] == "pin `one`", "{info:?}");
    assert_eq!(run_on("info", &world.path, &["--at", "two"]).code, Some(0));
    let verify = run_on("verify", &world.path, &[]);
    assert!(verify.code == Some(1) && verify.part("pins whose lists are lost").len() == 2, "{verify:?}");
    assert_eq!(run_on("verify", &world.path, &["--at", "two"]).code, Some(0));
    let repair = run_on("repair", &world.path, &["--json"]);
    assert_eq!(repair.code, Some(1), "{repair:?}");
    // Once more there is nothing to do; the pin is still lost.
    let again = run_on("repair", &world.path, &[]);
    assert!(again.code == Some(1) && again.stdout.starts_with("nothing new is damaged"), "{again:?}");
    assert!(again.stdout.ends_with("\none\n"), "{again:?}");
    assert_eq!(run_on("compact", &world.path, &[]).code, Some(1));
    options().open(&world.path).unwrap().unpin("one").unwrap();
    assert_eq!(run_on("verify", &world.path, &[]).code, Some(0));
}

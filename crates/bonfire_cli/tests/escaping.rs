//! Nothing in a save reaches the terminal as it is: a save from a stranger must not move the cursor or change colours.

mod common;

use bonfire::engine::SnapshotWriter;
use bonfire::schema::{Field, Node, SchemaBuilder, Type};
use bonfire::{Descriptor, EntityId, Persist, Reader, Writer};
use common::*;
use serde_json::json;

const RED: &str = "\u{1b}[31m";
/// The one-character form of the escape sequence, and a mark that reverses the text after it.
const SLY: &str = "\u{9b}31m\u{202e}";

/// A struct whose field has a name that the derive would never give it.
struct Odd;

impl Persist for Odd {
    fn schema(types: &mut SchemaBuilder) -> Node {
        let text = types.add(Type::Text);
        types.add(Type::Struct(vec![Field::new("\u{1b}[1m", text)].into()))
    }
    fn encode(&self, out: &mut Writer) {
        out.text("bold");
    }
    fn decode(_: &mut Reader<'_>) -> bonfire::Result<Self> {
        Ok(Self)
    }
}

fn hostile_save() -> Vec<u8> {
    let mut registry = registry();
    registry.add(Descriptor::new::<Odd>("game.odd")).unwrap();
    let mut writer = SnapshotWriter::new(&registry);
    writer.metadata(format!("title{RED}"), format!("{RED}meta{SLY}"));
    let label = Label { name: format!("{RED}evil{SLY}"), tags: vec![RED.to_owned()], nick: None };
    let mut archetype = writer.archetype(&[EntityId::new(0, 0)]).unwrap();
    archetype.column(&[label]).unwrap();
    archetype.column(&[Odd]).unwrap();
    writer.resource(&Clock { ticks: 1, speed: 1.0 }).unwrap();
    writer.data(format!("data{RED}"), &named(&format!("field{RED}"), &format!("{RED}{SLY}"))).unwrap();
    let bytes = encode(&writer.finish().unwrap());
    // The registry refuses such keys; another writer may not.
    let bytes = forge(bytes, b"game.label", b"g\x1b[31mabel");
    forge(bytes, b"game.clock", b"g\x1b[31mlock")
}

fn assert_clean(run: &Run) {
    let text = format!("{}{}", run.stdout, run.stderr);
    let raw: Vec<char> =
        text.chars().filter(|&char| char != '\n' && char.is_control() || char == '\u{202e}').collect();
    assert_eq!(raw, [], "{run:?}");
}

#[test]
fn arguments_that_are_wrong_are_repeated_without_control_characters() {
    for arguments in [
        vec!["info", "a", &*format!("b{RED}{SLY}")],
        vec![&*format!("{RED}info")],
        vec!["info", &*format!("--{SLY}")],
    ] {
        let run = run(&arguments);
        assert_eq!(run.code, Some(2), "{run:?}");
        assert!(!run.stderr.is_empty());
        assert_clean(&run);
    }
}

#[test]
fn text_has_every_control_character_escaped() {
    let saved = save(&hostile_save());
    let show = run_on("show", &saved.path, &[]);
    assert_eq!(show.code, Some(0), "{show:?}");
    assert_clean(&show);
    for expected in [
        "g\\u{1b}[31mabel.name",
        "game.odd.\\u{1b}[1m",
        "\"\\u{1b}[31mevil\\u{9b}31m\\u{202e}\"",
        "g\\u{1b}[31mlock",
        "data\\u{1b}[31m",
        "{field\\u{1b}[31m: \"\\u{1b}[31m\\u{9b}31m\\u{202e}\"}",
    ] {
        assert!(show.stdout.contains(expected), "{expected}: {show:?}");
    }
    let info = run_on("info", &saved.path, &[]);
    assert_eq!(info.code, Some(0));
    assert_clean(&info);
    for expected in ["title\\u{1b}[31m", "\"\\u{1b}[31mmeta", "{\\u{1b}[1m: text}", "g\\u{1b}[31mlock"] {
        assert!(info.stdout.contains(expected), "{expected}: {info:?}");
    }
}

#[test]
fn json_is_clean_on_a_terminal_and_means_the_same() {
    let saved = save(&hostile_save());
    let show = run_on("show", &saved.path, &["--json"]);
    assert_clean(&show);
    let label = &show.json()["archetypes"][0]["entities"][0]["components"]["g\u{1b}[31mabel"];
    assert_eq!(label["name"], json!(format!("{RED}evil{SLY}")));
    let info = run_on("info", &saved.path, &["--json"]);
    assert_clean(&info);
    assert_eq!(info.json()["metadata"][0]["name"], json!(format!("title{RED}")));
}

#[test]
fn errors_are_clean() {
    let bytes = forge(hostile_save(), b"\x11\x1b[31mevil", b"\x7f\x1b[31mevil");
    let saved = save(&bytes);
    for command in ["show", "verify"] {
        let run = run_on(command, &saved.path, &[]);
        assert_eq!(run.code, Some(1), "{run:?}");
        assert_clean(&run);
        assert!(format!("{}{}", run.stdout, run.stderr).contains("`g\\u{1b}[31mabel`"), "{run:?}");
    }
    let whole = save(&hostile_save());
    assert_clean(&run_on("show", &whole.path, &["--component", RED]));
    let missing = run_on("show", &whole.path.with_file_name(RED), &[]);
    assert_eq!(missing.code, Some(2));
    assert_clean(&missing);
}

/// Also on its way through a lock.
#[test]
fn schemas_are_clean() {
    let saved = save(&hostile_save());
    saved.beside("plain.save", encode(&farm()));
    saved.beside("empty.lock", "");
    let lock = run_beside(&saved, &["schema", "lock", "test.save"]);
    assert_eq!(lock.code, Some(0), "{lock:?}");
    assert!(lock.stdout.contains("+ `g\\u{1b}[31mabel` version 1: {name: text"), "{lock:?}");
    assert!(lock.stdout.contains("+ `game.odd` version 1: {\\u{1b}[1m: text}"), "{lock:?}");
    assert!(!std::fs::read_to_string(saved.path.with_file_name("schemas.lock")).unwrap().contains('\u{1b}'));
    let check = run_beside(&saved, &["schema", "check", "test.save", "--lock", "empty.lock"]);
    assert!(check.stdout.contains("`g\\u{1b}[31mabel`: not registered"), "{check:?}");
    let diff = run_beside(&saved, &["schema", "diff", "plain.save", "schemas.lock"]);
    assert!(diff.stdout.contains("+ `g\\u{1b}[31mlock` version 1"), "{diff:?}");
    let migrate = run_beside(&saved, &["migrate", "test.save", "--dry-run", "--lock", "empty.lock"]);
    assert!(migrate.stdout.contains("`g\\u{1b}[31mabel`: 1 carried"), "{migrate:?}");
    // No game can have such a key, so no build can be made of the lock.
    let refused = run_beside(&saved, &["schema", "check", "test.save"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    for run in [lock, check, diff, migrate, refused] {
        assert_clean(&run);
    }
    let named = run_beside(&saved, &["schema", "check", "test.save", "--lock", RED]);
    assert_eq!(named.code, Some(2));
    assert_clean(&named);
}

//! Every command with every kind of file: what it says, and how it exits.

mod common;

use std::path::Path;

use bonfire_store::{Details, DirStore, Slots, Wait};
use bonfire_sync::Recorder;
use common::world::World;
use common::*;

/// The kinds, in the order of the columns below.
const KINDS: [&str; 6] = ["save", "journal", "world", "recording", "garbage", "directory"];

/// A command, and for each kind its exit code and words of its output.
type Row = (&'static [&'static str], [(i32, &'static str); 6]);

const NOT_SAVE: &str = "not a save: `bonfire ";
const NOT_WORLD: &str = "not a chunk world: `bonfire ";
const JOURNAL: (i32, &str) = (2, "this is the journal of a save, not ");
const RECORDING: (i32, &str) = (2, "this is a recorded stream, not ");
const DIRECTORY: (i32, &str) = (2, "this is a directory, not ");
const NO_DIRECTORY: (i32, &str) = (2, "this is not a directory: `bonfire info` reads a single file");

const TABLE: [Row; 14] = [
    (
        &["info"],
        [
            (0, "format version"),
            (0, "this is a journal"),
            (0, "chunk"),
            RECORDING,
            (1, "not a Bonfire file"),
            (0, "entities: 3"),
        ],
    ),
    (
        &["show"],
        [(0, "archetype 0"), JOURNAL, (2, NOT_SAVE), RECORDING, (1, "not a Bonfire file"), DIRECTORY],
    ),
    (
        &["verify"],
        [
            (0, "ok: "),
            (1, "a journal whose save is not beside it"),
            (0, ""),
            RECORDING,
            (1, "not a Bonfire file"),
            (0, "ok: "),
        ],
    ),
    (
        &["replay"],
        [
            (2, "this is a save, not a recorded stream"),
            JOURNAL,
            (2, "this is a chunk world, not "),
            (0, ""),
            (1, "FILE"),
            DIRECTORY,
        ],
    ),
    (
        &["diff", "FILE"],
        [
            (2, "this is a save, not a chunk world: `bonfire schema diff`"),
            JOURNAL,
            (0, ""),
            RECORDING,
            (1, "FILE"),
            DIRECTORY,
        ],
    ),
    (&["map", "PICTURE"], [(2, NOT_WORLD), JOURNAL, (0, ""), RECORDING, (1, "FILE"), DIRECTORY]),
    (&["pins"], [(2, NOT_WORLD), JOURNAL, (0, "this world has no pins"), RECORDING, (1, "FILE"), DIRECTORY]),
    (
        &["info", "--at", "pin"],
        [
            (2, "--at is for chunk worlds, and this is a save"),
            (2, "and this is the journal of a save"),
            (2, "there is no pin `pin`, this world has no pins"),
            (2, "and this is a recorded stream"),
            (1, "not a Bonfire file"),
            (2, "and this is a directory"),
        ],
    ),
    (&["compact"], [(2, NOT_WORLD), JOURNAL, (0, ""), RECORDING, (1, "FILE"), DIRECTORY]),
    (&["repair"], [(2, NOT_WORLD), JOURNAL, (0, ""), RECORDING, (1, "FILE"), DIRECTORY]),
    (
        &["migrate", "--dry-run", "--lock", "LOCK"],
        [(0, "dry run"), JOURNAL, (2, NOT_SAVE), RECORDING, (1, "not a Bonfire file"), DIRECTORY],
    ),
    (
        &["schema diff", "FILE"],
        [(0, "no difference"), JOURNAL, (2, NOT_SAVE), RECORDING, (1, "FILE"), DIRECTORY],
    ),
    (
        &["import pixel-world", "--dry-run"],
        [
            (2, "this is a save, not a world of bevy_pixel_world"),
            JOURNAL,
            (1, "FILE"),
            RECORDING,
            (1, "FILE"),
            DIRECTORY,
        ],
    ),
    (&["ls"], [NO_DIRECTORY, NO_DIRECTORY, NO_DIRECTORY, NO_DIRECTORY, NO_DIRECTORY, (0, "quick")]),
];

#[test]
fn every_command_answers_every_kind_of_file() {
    let world = World::new();
    let saved = save(&encode(&crowd(3)));
    let mut journal = b"\x89BNJ\r\n\x1a\n".to_vec();
    journal.extend([1, 0, 0, 0]);
    journal.extend([0; 24]);
    journal.extend(crc32c::crc32c(&journal).to_le_bytes());
    let garbage: Vec<u8> = (0..10_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let directory = tempfile::tempdir().unwrap();
    let slots = Slots::new(DirStore::open(directory.path()).unwrap());
    slots.save("quick", &crowd(3), &Details::new()).wait().unwrap();
    let lock = saved.beside("schemas.lock", {
        let mut lock = bonfire::SchemaLock::default();
        lock.add(&registry()).unwrap();
        lock.to_string()
    });
    let files = [
        saved.path.clone(),
        saved.beside("quick.00000001.journal", journal),
        saved.beside("world.save", world.bytes()),
        saved.beside("session.bnfr", Recorder::new(Vec::new()).unwrap().into_inner()),
        saved.beside("garbage", garbage),
        directory.path().to_owned(),
    ];
    let mut wrong = Vec::new();
    for (command, answers) in TABLE {
        for ((kind, path), (code, words)) in KINDS.iter().zip(&files).zip(answers) {
            let file = path.to_str().unwrap();
            let picture = saved.path.with_file_name("picture.png");
            let fill = |argument: &'static str| match argument {
                "FILE" => file.to_owned(),
                "PICTURE" => picture.to_str().unwrap().to_owned(),
                "LOCK" => lock.to_str().unwrap().to_owned(),
                other => other.to_owned(),
            };
            let mut arguments: Vec<String> = command[0].split(' ').map(str::to_owned).collect();
            arguments.push(file.to_owned());
            arguments.extend(command[1..].iter().map(|argument| fill(argument)));
            let run = run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
            let text = format!("{}{}", run.stdout, run.stderr);
            let words = if words == "FILE" { name_of(path) } else { words.to_owned() };
            if run.code != Some(code) || !text.contains(&words) {
                wrong.push(format!("{} of {kind}: wanted {code} and {words:?}: {run:?}", command[0]));
            }
            if code == 2 && text.contains("--salvage") {
                wrong.push(format!("{} of {kind} suggests --salvage: {run:?}", command[0]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

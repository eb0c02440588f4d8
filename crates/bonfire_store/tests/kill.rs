//! A process that saves in a loop is killed in the middle of it. What it had acknowledged, or something newer, is there
//! and whole.
//!
//! This is about atomicity and about what is left over: the system goes on, so nothing that was written is lost. Power
//! cuts are in `crash_states.rs`.

#![cfg(unix)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bonfire::engine::SnapshotWriter;
use bonfire::{Registry, Value};
use bonfire_store::{Details, DirStore, Payload, Precondition, Slots, Store, Wait};
use bonfire_testkit::disk::Random;
use bonfire_testkit::scale;

/// Where the process that is killed finds its directory.
const DIRECTORY: &str = "BONFIRE_KILL_DIRECTORY";

/// A save that tells whether it is whole: all of its bytes follow from its number.
fn save_of(number: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    let len = random.below(40_000);
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend(random.bytes(len));
    bytes
}

fn number_of(bytes: &[u8]) -> u64 {
    let number = bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)).expect("a whole save");
    assert!(bytes == save_of(number), "save {number} is damaged");
    number
}

/// Saves until it is killed, and says which save is safe when it is. Only in the process that is killed.
#[test]
fn saving_process() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let store = DirStore::open(directory).expect("a directory");
    let slots = Slots::new(store.clone());
    let world = SnapshotWriter::new(&Registry::new()).finish().expect("an empty world");
    let mut out = std::io::stdout();
    // The harness has begun a line with the name of the test.
    writeln!(out).expect("somebody listens");
    let mut say = |word: &str, number: u64| {
        writeln!(out, "{word} {number}").and_then(|()| out.flush()).expect("somebody listens");
    };
    let first = if store.head("save").wait().expect("a healthy disk").is_some() {
        number_of(&store.get("save").wait().expect("it is there")) + 1
    } else {
        1
    };
    for number in first.. {
        let payload = Payload::from(save_of(number));
        store.put("save", payload, Precondition::None).wait().expect("a healthy disk");
        say("saved", number);
        let details = Details::new().custom("number", number);
        let saved = slots.save("auto", &world, &details).wait().expect("a healthy disk");
        assert!(saved.prune_error.is_none(), "{saved:?}");
        say("kept", number);
    }
}

/// Ends with the test, also if that fails.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the process said last of this kind. A line that was cut is no acknowledgement.
fn last(lines: &[String], word: &str) -> u64 {
    let numbers =
        lines.iter().filter_map(|line| line.strip_prefix(word)?.strip_suffix('\n')?.trim().parse().ok());
    numbers.max().unwrap_or(0)
}

#[test]
fn a_killed_process_loses_no_acknowledged_save() {
    let place = tempfile::tempdir().expect("a place for files");
    let cycles = (50 * scale()).min(2000);
    let mut found = Found::default();
    let mut total = 0;
    for cycle in 0..cycles {
        let mut random = Random::new(u64::from(cycle));
        let child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "saving_process", "--nocapture", "--test-threads", "1"])
            .env(DIRECTORY, place.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn();
        let mut child = Killed(child.expect("this test can be run"));
        let mut out = BufReader::new(child.0.stdout.take().expect("it is piped"));
        let mut lines = Vec::new();
        // Some are killed before they have saved anything.
        if random.chance(90) {
            read_until(&mut out, &mut lines, |line| line.starts_with("saved"));
        }
        std::thread::sleep(Duration::from_micros(random.number() % 25_000));
        child.0.kill().expect("it runs");
        read_until(&mut out, &mut lines, |_| false);
        drop(child);

        // What was there must stay, acknowledged or not: the process went on from it.
        let acknowledged = Found {
            saved: found.saved.max(last(&lines, "saved ")),
            kept: found.kept.max(last(&lines, "kept ")),
            // A save that was acknowledged has removed all but three; one that was not may have added another.
            count: if last(&lines, "kept ") > 0 { 3 } else { found.count },
        };
        total += acknowledged.saved - found.saved;
        found = look(place.path());
        let is_next = |old: u64, new: u64| (old..=acknowledged.saved + 1).contains(&new);
        assert!(
            is_next(acknowledged.saved, found.saved)
                && is_next(acknowledged.kept, found.kept)
                && found.count <= acknowledged.count + 1,
            "cycle {cycle}: {acknowledged:?} was acknowledged, {found:?} is there"
        );
    }
    println!("{cycles} processes killed, {total} saves acknowledged, none lost");
    assert!(total > u64::from(cycles) / 2, "{total} saves in {cycles} cycles");
}

fn read_until(out: &mut impl BufRead, lines: &mut Vec<String>, is_last: impl Fn(&str) -> bool) {
    let mut line = String::new();
    while out.read_line(&mut line).expect("text") > 0 {
        let done = is_last(&line);
        lines.push(std::mem::take(&mut line));
        if done {
            break;
        }
    }
}

/// What lies in the directory: the blob, the newest save of the slot, and how many of them there are.
#[derive(Debug, Default)]
struct Found {
    saved: u64,
    kept: u64,
    count: usize,
}

/// Opens what a killed process has left. Nothing may be damaged, and nothing left over.
fn look(directory: &Path) -> Found {
    let store = DirStore::open(directory).expect("it opens");
    let saved = match store.get("save").wait() {
        Err(error) if error.is_not_found() => 0,
        bytes => number_of(&bytes.expect("a healthy disk")),
    };
    let slots = Slots::new(store.clone());
    let kept = match slots.load("auto").wait() {
        Err(error) if error.is_not_found() => 0,
        loaded => {
            let loaded = loaded.expect("a healthy disk");
            assert!(loaded.skipped.is_empty(), "{:?}", loaded.skipped);
            match loaded.info.custom.iter().find(|(name, _)| name == "number") {
                Some((_, Value::U64(number))) => *number,
                _ => panic!("{:?}", loaded.info),
            }
        }
    };
    let names = store.list("").wait().expect("a list");
    for entry in std::fs::read_dir(directory).expect("the directory") {
        let name = entry.expect("an entry").file_name().into_string().expect("text");
        assert!(names.contains(&name) || name.ends_with("-lock"), "`{name}` was left over");
    }
    Found { saved, kept, count: slots.count("auto").wait().expect("a list") }
}

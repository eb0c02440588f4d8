//! A process that saves in a loop is killed in the middle of it. What it had acknowledged is there and whole, or something newer.
//!
//! This is about atomicity: the system goes on, so nothing that was written is lost. Power cuts are in `crash_states.rs`.

#![cfg(unix)]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bonfire_chunks::{ChunkOptions, ChunkPos, ChunkWorld, Durability};
use bonfire_testkit::disk::Random;
use bonfire_testkit::scale;
use support::{SIZE, body, noise};

/// Where the process that is killed finds its world.
const PATH: &str = "BONFIRE_CHUNKS_KILL_PATH";
const CHUNKS: i32 = 5;

fn options(number: u64) -> ChunkOptions {
    let options = support::options().table_capacity(4).compact_at_least(30_000);
    // A compaction in small steps is under way most of the time.
    let in_steps = || options.clone().compact_at_least(4000).compact_above(Some(0.1)).compaction_step(1500);
    let options = if number.is_multiple_of(3) { in_steps() } else { options };
    if number.is_multiple_of(2) { options.eager() } else { options }
}

/// What chunk 0 says of the save that it is of.
fn number_of(world: &ChunkWorld) -> u64 {
    let cells = world.read((0, 0)).expect("it is whole");
    cells.map_or(0, |cells| u64::from_le_bytes(cells[..8].try_into().expect("eight bytes")))
}

fn cells(number: u64, x: i32) -> Vec<u8> {
    let mut cells = noise(number * 10 + x as u64);
    cells[..8].copy_from_slice(&number.to_le_bytes());
    cells
}

fn extra(number: u64) -> ChunkPos {
    ChunkPos::new(Random::new(number).below(40) as i32, 3)
}

fn save(world: &ChunkWorld, number: u64) {
    let mut edit = world.edit();
    for x in 0..CHUNKS {
        edit.put((x, 0), cells(number, x));
    }
    let centre = (number % CHUNKS as u64) as f32 * SIZE as f32 + 1.0;
    edit.put_bodies(((number % CHUNKS as u64) as i32, 0), vec![body(1, [centre, 1.0])]);
    // The table grows and shrinks.
    if number.is_multiple_of(4) {
        edit.remove(extra(number))
    } else {
        edit.put(extra(number), cells(number, 9))
    };
    edit.commit(Durability::Synced).expect("a healthy disk");
}

/// Saves until it is killed, and says which save is safe when it is. Only in the process that is killed.
#[test]
fn saving_process() {
    let Some(path) = std::env::var_os(PATH) else { return };
    let mut out = std::io::stdout();
    // The harness has begun a line with the name of the test.
    writeln!(out).expect("somebody listens");
    let mut number = 0;
    loop {
        let world = options(number).open(&path).expect("a healthy disk");
        number = number.max(number_of(&world));
        for _ in 0..12 {
            number += 1;
            save(&world, number);
            writeln!(out, "saved {number}").and_then(|()| out.flush()).expect("somebody listens");
        }
        if number.is_multiple_of(5) {
            world.compact(|_, _| {}).expect("a healthy disk");
        }
        world.close().expect("a healthy disk");
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

/// Everything in the world is of one save. Returns its number.
fn look(path: &Path) -> u64 {
    let world = options(1).open(path).expect("it opens");
    assert!(world.report().damaged.is_empty() && !world.report().table_rebuilt, "{:?}", world.report());
    let number = number_of(&world);
    if number == 0 {
        assert!(world.is_empty());
        return 0;
    }
    let mut bodies = Vec::new();
    for x in 0..CHUNKS {
        assert!(
            world.read((x, 0)).expect("it is whole") == Some(cells(number, x)),
            "chunk {x} of save {number}"
        );
        bodies.extend(world.read_bodies((x, 0)).expect("they are whole"));
    }
    let centre = (number % CHUNKS as u64) as f32 * SIZE as f32 + 1.0;
    assert!(bodies == [body(1, [centre, 1.0])], "bodies of save {number}: {bodies:?}");
    let expected = (!number.is_multiple_of(4)).then(|| cells(number, 9));
    assert!(world.read(extra(number)).expect("it is whole") == expected, "the last chunk of save {number}");
    assert!(world.check(|_, _| {}).damaged.is_empty());
    number
}

#[test]
fn a_killed_process_loses_no_acknowledged_save() {
    let place = tempfile::tempdir().expect("a place for files");
    let path = place.path().join("world.save");
    let cycles = (50 * scale()).min(2000);
    let (mut found, mut total) = (0, 0);
    for cycle in 0..cycles {
        let mut random = Random::new(u64::from(cycle));
        let child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "saving_process", "--nocapture", "--test-threads", "1"])
            .env(PATH, &path)
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
        std::thread::sleep(Duration::from_micros(random.number() % 60_000));
        child.0.kill().expect("it runs");
        read_until(&mut out, &mut lines, |_| false);
        drop(child);
        // A line that was cut is no acknowledgement.
        let said = lines
            .iter()
            .filter_map(|line| line.strip_prefix("saved ")?.strip_suffix('\n')?.parse().ok())
            .max();
        let acknowledged = found.max(said.unwrap_or(0));
        total += acknowledged - found;
        found = look(&path);
        assert!(
            (acknowledged..=acknowledged + 1).contains(&found),
            "cycle {cycle}: {acknowledged} was acknowledged, {found} is there"
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

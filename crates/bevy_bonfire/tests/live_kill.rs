//! A game that saves by itself and on demand is killed in the middle of it. What it had told the player, or something
//! newer, is there and whole, and nothing is left over.

#![cfg(unix)]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bevy_app::App;
use bevy_bonfire::prelude::*;
use bevy_bonfire::store::{DirStore, Slots, Store, Wait};
use bevy_bonfire::{Autosave, SaveTarget, Snapshot};
use bevy_ecs::prelude::*;
use bonfire_testkit::disk::Random;
use bonfire_testkit::scale;
use common::simulation::*;

/// Where the process that is killed finds its directory.
const DIRECTORY: &str = "BONFIRE_LIVE_KILL_DIRECTORY";

const SLOTS: [&str; 2] = ["autosave", "quick"];

/// The game: goes on from its last save, and says what is saved when it is. Only in the process that is killed.
#[test]
fn playing_process() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let slots = Slots::new(DirStore::open(directory).expect("a directory"));
    let mut app = App::new();
    app.add_plugins(BonfirePlugin::new().slots(slots.clone()).autosave(Autosave::every(Duration::ZERO)));
    add_simulation(&mut app, 7, 300);
    // The harness has begun a line with the name of the test.
    println!();
    app.add_observer(|mut starting: On<SaveStarting>, simulation: Res<Simulation>| {
        starting.describe(|details| details.custom("tick", simulation.tick));
    });
    app.add_observer(|done: On<SaveFinished>, saves: Res<Saves>| {
        let report = done.result.as_ref().expect("a healthy disk");
        assert!(report.prune_error.is_none(), "{report:?}");
        let (SaveTarget::Slot(slot), Some(generation)) = (&done.target, report.generation) else {
            panic!("{report:?}")
        };
        let slots = saves.slots().expect("it has slots");
        let tick = slots.saves(slot).wait().expect("a list").into_iter().find_map(|save| {
            let custom = save.custom.iter().find(|(name, _)| name == "tick")?;
            (save.generation == generation).then(|| custom.1.clone())
        });
        let Some(bevy_bonfire::Value::U64(tick)) = tick else { return };
        let mut out = std::io::stdout();
        writeln!(out, "{slot} {tick}").and_then(|()| out.flush()).expect("somebody listens");
    });
    let newest = SLOTS.into_iter().filter_map(|slot| {
        let loaded = slots.load(slot).wait().ok()?;
        Some((tick_of(&loaded.snapshot), slot))
    });
    if let Some((_, slot)) = newest.max() {
        app.world_mut().resource_mut::<Saves>().load(slot);
        while app.world().resource::<Saves>().is_busy() {
            app.world_mut().resource_mut::<Saves>().autosave.enabled = false;
            app.update();
        }
        app.world_mut().resource_mut::<Saves>().autosave.enabled = true;
    }
    let mut random = Random::new(u64::from(std::process::id()));
    loop {
        if random.chance(30) {
            app.world_mut().resource_mut::<Saves>().save("quick");
        }
        app.update();
    }
}

/// Checks that a save is one state, and returns its tick.
fn tick_of(snapshot: &Snapshot) -> u64 {
    let mut world = empty_world();
    world.load(snapshot, LoadMode::Replace).expect("what was saved can be loaded");
    check(&mut world).tick
}

/// Ends with the test, also if that fails.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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

/// The last tick of which the process said that it is saved. A line that was cut says nothing.
fn acknowledged(lines: &[String], slot: &str) -> u64 {
    let ticks = lines.iter().filter_map(|line| {
        let (place, tick) = line.strip_suffix('\n')?.split_once(' ')?;
        if place == slot { tick.parse().ok() } else { None }
    });
    ticks.max().unwrap_or(0)
}

#[test]
fn a_killed_game_loses_nothing_that_the_player_was_told_of() {
    let place = tempfile::tempdir().expect("a place for files");
    let cycles = (20 * scale()).min(500);
    let mut safe = [0; SLOTS.len()];
    let mut told = 0;
    for cycle in 0..cycles {
        let mut random = Random::new(u64::from(cycle));
        let child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "playing_process", "--nocapture", "--test-threads", "1"])
            .env(DIRECTORY, place.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn();
        let mut child = Killed(child.expect("this test can be run"));
        let mut out = BufReader::new(child.0.stdout.take().expect("it is piped"));
        let mut lines = Vec::new();
        // Some are killed while they load.
        if random.chance(90) {
            let slot = *random.pick(&SLOTS);
            read_until(&mut out, &mut lines, |line| line.starts_with(slot));
        }
        std::thread::sleep(Duration::from_micros(random.number() % 30_000));
        child.0.kill().expect("it runs");
        read_until(&mut out, &mut lines, |_| false);
        drop(child);
        let found = look(place.path());
        for (number, slot) in SLOTS.into_iter().enumerate() {
            let acknowledged = acknowledged(&lines, slot);
            told += usize::from(acknowledged > 0);
            // What was there must stay, too: the game went on from the newest of all.
            let least = safe[number].max(acknowledged);
            let found = found[number];
            assert!(found >= least, "cycle {cycle}, {slot}: tick {least} was promised, {found} is there");
            safe[number] = found;
        }
    }
    println!("{cycles} games killed in tick {safe:?}, none lost a save");
    assert!(told > cycles as usize / 2, "{told} saves in {cycles} cycles");
}

/// Opens what a killed game has left: the newest tick of each slot. Nothing may be damaged, and nothing left over.
fn look(directory: &Path) -> [u64; SLOTS.len()] {
    let store = DirStore::open(directory).expect("it opens");
    let slots = Slots::new(store.clone());
    let found = SLOTS.map(|slot| {
        let saves = slots.saves(slot).wait().expect("a list");
        // One that was being made, and one that was about to go.
        assert!(saves.len() <= 5, "{} saves in {slot}", saves.len());
        match slots.load(slot).wait() {
            Err(error) if error.is_not_found() => 0,
            loaded => {
                let loaded = loaded.expect("a healthy disk");
                assert!(loaded.skipped.is_empty(), "{:?}", loaded.skipped);
                tick_of(&loaded.snapshot)
            }
        }
    });
    let names = store.list("").wait().expect("a list");
    for entry in std::fs::read_dir(directory).expect("the directory") {
        let name = entry.expect("an entry").file_name().into_string().expect("text");
        assert!(names.contains(&name) || name.ends_with("-lock"), "`{name}` was left over");
    }
    found
}

//! The game of the example `streaming_world` is killed at any moment, again and again. The newest save that it told the player
//! of is there, or a newer one, and its books add up: each cell, each body and each creature exactly once.
//!
//! The chunk file is looked at twice: as the kill has left it, and when the slot is loaded. The first look finds what only a
//! save of two chunks in one step prevents.
#![cfg(all(unix, feature = "chunks"))]

#[expect(dead_code, reason = "the test plays the game itself, without its command line and its pictures")]
#[path = "../examples/streaming_world/main.rs"]
mod streaming_world;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bonfire_testkit::disk::Random;
use bonfire_testkit::scale;
use streaming_world::game::Game;
use streaming_world::script::Plan;

/// Where the process that is killed finds its directory, and the seed of its world.
const DIRECTORY: &str = "BONFIRE_STREAMING_KILL_DIRECTORY";
const SEED: &str = "BONFIRE_STREAMING_KILL_SEED";

/// Every second player runs, so that chunks leave all the time and are saved apart from slots. The others save more often.
fn plan(seed: u64) -> Plan {
    match seed.is_multiple_of(2) {
        true => Plan { until: 0, way: 20, speed: 16.0, save_every: 12 },
        false => Plan { until: 0, way: 60, speed: 3.0, save_every: 4 },
    }
}

/// Kills of one world. A new one is small, so its checks are fast.
const KILLS: u32 = 10;

/// The game: goes on from its newest save, checks its books, and says so. Only in the process that is killed.
#[test]
fn playing_process() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let seed = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()).expect("a seed");
    // The harness has begun a line with the name of the test.
    println!();
    streaming_world::resume(Path::new(&directory), seed, u64::MAX, plan(seed)).expect("a healthy disk");
}

/// Ends with the test, also if that fails.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a process has said before it was killed.
#[derive(Default)]
struct Said {
    /// The step of the save that it has loaded and found whole.
    checked: Option<u64>,
    /// The newest save that it said is durable.
    saved: u64,
    saves: u64,
}

impl Said {
    /// Reads until something was said, or to the end. A line that was cut says nothing.
    fn read(&mut self, out: &mut impl BufRead, is_enough: impl Fn(&Self) -> bool) {
        let mut line = String::new();
        while !is_enough(self) && out.read_line(&mut line).expect("text") > 0 {
            let step = |name| line.strip_suffix('\n')?.strip_prefix(name)?.trim().parse().ok();
            self.checked = step("checked").or(self.checked);
            if let Some(saved) = step("saved") {
                (self.saved, self.saves) = (saved, self.saves + 1);
            }
            line.clear();
        }
    }
}

/// Plays in another process, kills it, and returns what it has said.
fn play_and_kill(directory: &Path, seed: u64, random: &mut Random) -> Said {
    let child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "playing_process", "--nocapture", "--test-threads", "1"])
        .env(DIRECTORY, directory)
        .env(SEED, seed.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn();
    let mut child = Killed(child.expect("this test can be run"));
    let mut out = BufReader::new(child.0.stdout.take().expect("it is piped"));
    let mut said = Said::default();
    // Some are killed while they load, check, or make a new world.
    if random.chance(85) {
        said.read(&mut out, |said| said.checked.is_some());
        assert!(said.checked.is_some(), "the game has ended by itself");
    }
    let wanted = if said.checked.is_some() { random.number() % 3 } else { 0 };
    said.read(&mut out, |said| said.saves >= wanted);
    assert!(said.saves >= wanted, "the game has ended by itself");
    std::thread::sleep(Duration::from_micros(random.number() % 80_000));
    assert!(child.0.try_wait().expect("it was started").is_none(), "the game has ended by itself");
    child.0.kill().expect("it runs");
    said.read(&mut out, |_| false);
    said
}

#[test]
fn a_killed_world_is_whole_and_has_every_save_that_the_player_was_told_of() {
    let (mut saves, mut steps, mut crossed) = (0, 0, 0);
    let worlds = (50 / KILLS * scale()).min(1000);
    for seed in 0..u64::from(worlds) {
        let place = tempfile::tempdir().expect("a place for files");
        let mut safe = 0;
        for kill in 0..KILLS {
            let mut random = Random::new(seed * u64::from(KILLS) + u64::from(kill));
            let said = play_and_kill(place.path(), seed, &mut random);
            if let Some(found) = said.checked {
                assert!(found >= safe, "world {seed}, kill {kill}: {safe} was saved, {found} is there");
                safe = found;
            }
            saves += said.saves;
            safe = safe.max(said.saved);
        }
        let mut game = Game::open(place.path(), seed, plan(seed)).expect("a healthy disk");
        let proof = game.check().expect("a healthy disk");
        assert!(proof.step >= safe, "world {seed}: {safe} was saved, {} is there", proof.step);
        (steps, crossed) = (steps + proof.step, crossed + game.books().crossed);
    }
    println!(
        "{} games killed in {worlds} worlds: {steps} steps, {saves} acknowledged saves, {crossed} grains of sand \
         over borders, nothing doubled or lost",
        worlds * KILLS
    );
    assert!(saves > u64::from(worlds * KILLS / 2) && crossed > 0, "{saves} saves, {crossed} grains");
}

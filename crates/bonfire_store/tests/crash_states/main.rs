//! A crash at any point leaves a store that opens, with every blob as it was acknowledged, or as the call that was under
//! way makes it; nothing in between, nothing left over. Also if the machine stops again while the store is opened, and in
//! the call after that. The same for what is built on it: blobs with several states, the slots of a game, and
//! journals beside their saves.
//!
//! What a crash may leave is written down in `bonfire_testkit::disk`. How many states were seen is printed
//! (`--nocapture`).

#[path = "../common/mod.rs"]
mod common;

mod blobs;
mod journal;
mod slots;

use bonfire_testkit::disk::{CrashDisk, Explorer};
use bonfire_testkit::scale;

/// How many states are looked at, at most, of one crash: of the first, and of one that follows it.
const STATES: usize = 60;
const STATES_AGAIN: usize = 12;

/// In how many of a hundred states the store is used again, and crashes again.
const GOES_ON_PERCENT: usize = 4;

/// How many times as many scripts are run as in CI: twenty times is enough for millions of states.
fn times() -> u64 {
    u64::from(scale()).min(20)
}

/// A crash that was survived badly, with all that is needed to have it again.
fn fail(seed: u64, disk: &CrashDisk, after: usize, why: &str) -> ! {
    let operations = disk.operations();
    let last = &operations[after.saturating_sub(12)..after];
    panic!("seed {seed}, after {after} operations: {why}\nthe last of them: {last:#?}");
}

/// Says how much was seen, and whether that is enough.
fn report(what: &str, explorer: &Explorer, at_least: usize) {
    let (distinct, all) = (explorer.distinct(), explorer.handed_out());
    println!("{what}: {distinct} distinct crash states ({all} with those met again), none wrong");
    assert!(distinct >= at_least, "only {distinct} states of {what}: the explorer sees too little");
}

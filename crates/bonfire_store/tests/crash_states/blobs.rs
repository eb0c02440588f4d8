//! Scripts over a store of blobs, and over one that keeps several states of each.

use std::collections::HashSet;

use bonfire_store::{DirStore, Rotating, Store};
use bonfire_testkit::disk::{
    Blobs, CrashDisk, CrashState, Explorer, Promise, Random, Step, all_blobs, litter, random_step,
};

use super::{GOES_ON_PERCENT, STATES, STATES_AGAIN, fail, report, times};

/// Few enough that most steps meet a blob, enough that some do not.
const NAMES: [&str; 5] = ["auto", "quick", "slot.1", "slot.2", "settings"];

/// What is built on the directory.
type On = fn(DirStore) -> Box<dyn Store>;

fn plain(dir: DirStore) -> Box<dyn Store> {
    Box::new(dir)
}

fn rotating(dir: DirStore) -> Box<dyn Store> {
    Box::new(Rotating::new(dir, 3))
}

/// A step, and between which operations of the disk it was done.
struct Done {
    step: Step,
    before: Blobs,
    from: usize,
    to: usize,
}

/// Runs a step on a store that lies on `disk`.
fn run(disk: &CrashDisk, store: &dyn Store, step: Step, blobs: &mut Blobs) -> Done {
    let from = disk.operation_count();
    step.run(store, blobs).unwrap_or_else(|error| panic!("{step:?}: {error}"));
    let to = disk.operation_count();
    let after = step.after(blobs);
    Done { step, before: std::mem::replace(blobs, after), from, to }
}

/// What a crash after `operations` operations must leave of these steps.
fn promise_at<'d>(done: &'d [Done], operations: usize, at_last: &'d Blobs) -> Promise<'d> {
    match done.iter().find(|done| operations < done.to) {
        Some(done) => {
            let in_flight = (done.from < operations).then_some(&done.step);
            Promise { acknowledged: &done.before, in_flight }
        }
        None => Promise { acknowledged: at_last, in_flight: None },
    }
}

/// A store that was opened after a crash.
struct Reopened {
    disk: CrashDisk,
    store: Box<dyn Store>,
    blobs: Blobs,
}

/// Opens what a crash has left, and checks the promise.
fn check(on: On, state: &CrashState, promise: &Promise<'_>) -> Result<Reopened, String> {
    let disk = state.crash_disk();
    let dir = DirStore::on(disk.clone()).map_err(|error| format!("it does not open: {error}"))?;
    litter(&dir, &disk)?;
    let store = on(dir);
    let blobs = all_blobs(&*store)?;
    promise.check(&blobs).map_err(|why| format!("{why}, while {:?}", promise.in_flight))?;
    Ok(Reopened { disk, store, blobs })
}

/// Runs a script of random steps, lets it crash everywhere, and checks what is left.
fn explore(on: On, seed: u64, steps: usize, explorer: &mut Explorer) {
    let mut random = Random::new(seed);
    let (disk, mut blobs) = (CrashDisk::new(), Blobs::new());
    let store = on(DirStore::on(disk.clone()).expect("an empty disk"));
    let mut done = Vec::new();
    for _ in 0..steps {
        let step = random_step(&mut random, &NAMES, &blobs);
        done.push(run(&disk, &*store, step, &mut blobs));
    }
    let mut checked = HashSet::new();
    for point in disk.crash_points() {
        let promise = promise_at(&done, point.after(), &blobs);
        let acknowledged = done.iter().filter(|done| done.to <= point.after()).count();
        for state in explorer.states(&point, STATES) {
            // The same again, under the same promise.
            if !checked.insert((state.fingerprint(), acknowledged, promise.in_flight.is_some())) {
                continue;
            }
            let reopened =
                check(on, &state, &promise).unwrap_or_else(|why| fail(seed, &disk, point.after(), &why));
            let goes_on = random.chance(GOES_ON_PERCENT);
            let step = goes_on.then(|| random_step(&mut random, &NAMES, &reopened.blobs));
            explore_again(on, seed, reopened, step, explorer);
        }
    }
}

/// The store has just been opened after a crash. Lets it crash again during that, and during one more step.
fn explore_again(on: On, seed: u64, reopened: Reopened, step: Option<Step>, explorer: &mut Explorer) {
    let Reopened { disk, store, mut blobs } = reopened;
    let done: Vec<Done> = step.into_iter().map(|step| run(&disk, &*store, step, &mut blobs)).collect();
    if disk.operation_count() == 0 {
        return;
    }
    for point in disk.crash_points() {
        let promise = promise_at(&done, point.after(), &blobs);
        for state in explorer.states(&point, STATES_AGAIN) {
            if let Err(why) = check(on, &state, &promise) {
                fail(seed, &disk, point.after(), &format!("in a second crash: {why}"));
            }
        }
    }
}

#[test]
fn every_crash_leaves_the_old_blob_or_the_new_one() {
    let mut explorer = Explorer::new(6);
    for seed in 0..180 * times() {
        explore(plain, seed, 14, &mut explorer);
    }
    report("blobs", &explorer, 65_000);
}

#[test]
fn every_crash_leaves_the_newest_state_of_a_rotating_blob() {
    let mut explorer = Explorer::new(7);
    for seed in 0..60 * times() {
        explore(rotating, 1_000_000 + seed, 14, &mut explorer);
    }
    report("rotating blobs", &explorer, 24_000);
}

/// Several writes, thousands of sectors.
#[test]
fn a_large_blob_is_replaced_as_a_whole() {
    let mut random = Random::new(7);
    let (disk, mut blobs) = (CrashDisk::new(), Blobs::new());
    let store = DirStore::on(disk.clone()).expect("an empty disk").read_back();
    let mut done = Vec::new();
    for len in [1100 << 10, 1200 << 10] {
        let step = Step::Put { name: "world".into(), bytes: random.bytes(len) };
        done.push(run(&disk, &store, step, &mut blobs));
    }
    let mut explorer = Explorer::new(7);
    for point in disk.crash_points() {
        let promise = promise_at(&done, point.after(), &blobs);
        for state in explorer.states(&point, 20) {
            if let Err(why) = check(plain, &state, &promise) {
                fail(7, &disk, point.after(), &why);
            }
        }
    }
    report("a large blob", &explorer, 40);
}

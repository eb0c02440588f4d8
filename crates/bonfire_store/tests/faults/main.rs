//! Every call of the disk may fail: with `EIO`, with `ENOSPC`, with less done than asked for, with `EINTR`; once, or from
//! then on. Whatever fails, what was saved before can be read, the error is reported, nothing is left over, nothing is
//! acknowledged that is not durable, and no file is synced again after a sync of it has failed. Interrupted and short
//! reads and writes are nobody's business.
//!
//! The disk below also crashes: after every error, what it may leave is looked at too.

#[path = "../common/mod.rs"]
mod common;

mod journal;
mod slots;

use bonfire_store::DirStore;
use bonfire_store::disk::Disk;
use bonfire_testkit::disk::{
    Blobs, Call, CrashDisk, Explorer, Fault, FaultyDisk, Plan, Promise, Random, Repeat, Step, all_blobs,
    blobs_of,
};

fn put(name: &str, seed: u64, len: usize) -> Step {
    Step::Put { name: name.into(), bytes: Random::new(seed).bytes(len) }
}

fn append(name: &str, len: usize) -> Step {
    Step::Append { name: name.into(), bytes: Random::new(9).bytes(len) }
}

/// The last step of each is the one that meets the fault.
fn cases() -> Vec<Vec<Step>> {
    let others = || vec![put("other", 1, 100), put("slot", 2, 1300)];
    let and = |step: Step| others().into_iter().chain([step]).collect();
    vec![
        vec![put("slot", 3, 700)],
        and(put("new", 3, 700)),
        and(put("slot", 3, 2000)),
        and(put("slot", 3, 0)),
        and(append("slot", 600)),
        and(append("log", 600)),
        and(Step::Rename { from: "slot".into(), to: "kept".into() }),
        and(Step::Remove { name: "slot".into() }),
    ]
}

/// A store on a disk that fails in the last step.
struct Trial {
    crash: CrashDisk,
    disk: FaultyDisk<CrashDisk>,
    store: DirStore,
    before: Blobs,
    step: Step,
    plan: Plan,
    result: bonfire::Result<()>,
    calls: Vec<Call>,
}

impl Trial {
    fn run(steps: &[Step], plan: Plan, read_back: bool) -> Self {
        let (step, setup) = steps.split_last().expect("a case has a step");
        let crash = CrashDisk::new();
        let disk = FaultyDisk::new(crash.clone());
        let store = DirStore::on(disk.clone()).expect("nothing fails yet");
        let store = if read_back { store.read_back() } else { store };
        let mut before = Blobs::new();
        for step in setup {
            step.run(&store, &before).expect("nothing fails yet");
            before = step.after(&before);
        }
        disk.fail(plan);
        let result = step.run(&store, &before);
        disk.heal();
        let calls = disk.calls();
        Self { crash, disk, store, before, step: step.clone(), plan, result, calls }
    }

    /// Whether anything went wrong that a caller should hear of.
    fn went_wrong(&self) -> bool {
        self.disk.fired().into_iter().any(|call| !self.plan.fault.is_harmless(call))
    }

    fn fired(&self, call: Call) -> bool {
        self.disk.fired().contains(&call)
    }

    fn found(&self) -> Blobs {
        all_blobs(&self.store).expect("healed")
    }

    fn what(&self) -> String {
        format!("{:?}, {:?}, calls: {:?}", self.step, self.plan, self.calls)
    }
}

/// Every call of every case fails in every way, each in a trial of its own.
fn each_trial(mut check: impl FnMut(&Trial)) -> usize {
    let mut trials = 0;
    for steps in cases() {
        for read_back in [false, true] {
            for fault in Fault::ALL {
                for repeat in [Repeat::Once, Repeat::Forever] {
                    for nth in 1.. {
                        let trial = Trial::run(&steps, Plan { fault, nth, of: None, repeat }, read_back);
                        if trial.calls.len() < nth {
                            assert!(trial.result.is_ok(), "{}: {:?}", trial.what(), trial.result);
                            break;
                        }
                        check(&trial);
                        trials += 1;
                    }
                }
            }
        }
    }
    trials
}

#[test]
fn errors_are_reported_and_nothing_else_is() {
    let trials = each_trial(|trial| {
        // A rename is done when the list of changes is durable: the next call finishes what fails after that.
        let may_be_finished_later = matches!(trial.step, Step::Rename { .. }) && trial.result.is_ok();
        let expected = trial.went_wrong() && !may_be_finished_later;
        assert_eq!(trial.result.is_err(), expected, "{}: {:?}", trial.what(), trial.result);
        if let Err(error) = &trial.result {
            assert!(error.is_io() && !error.is_not_found(), "{}: {error}", trial.what());
        }
    });
    println!("{trials} trials");
    assert!(trials > 500, "{trials}");
}

#[test]
fn what_was_there_is_there_and_an_acknowledged_step_is_done() {
    each_trial(|trial| {
        let (found, after) = (trial.found(), trial.step.after(&trial.before));
        if trial.result.is_ok() {
            assert_eq!(found, after, "{}: a false acknowledgement", trial.what());
        } else {
            let promise = Promise { acknowledged: &trial.before, in_flight: Some(&trial.step) };
            promise.check(&found).unwrap_or_else(|why| panic!("{}: {why}", trial.what()));
        }
    });
}

/// Only if the sync of the directory fails does nobody know which it is.
#[test]
fn an_error_before_the_name_is_taken_leaves_the_old_blob() {
    each_trial(|trial| {
        let is_append = matches!(trial.step, Step::Append { .. });
        // A disk that goes on failing does not let a half append be cut off.
        let is_unsure = trial.fired(Call::SyncDir) || is_append && trial.plan.repeat == Repeat::Forever;
        if trial.result.is_err() && !is_unsure {
            // A new file whose sync failed stays, without the bytes that were lost.
            let mut found = trial.found();
            if is_append && trial.fired(Call::Sync) {
                found.retain(|_, bytes| !bytes.is_empty());
            }
            assert!(found == trial.before, "{}", trial.what());
        }
    });
}

#[test]
fn nothing_is_left_over() {
    each_trial(|trial| {
        if trial.plan.repeat == Repeat::Once && !matches!(trial.step, Step::Rename { .. }) {
            blobs_of(&trial.store, &trial.crash).unwrap_or_else(|why| panic!("{}: {why}", trial.what()));
        }
        let again = DirStore::on(trial.disk.clone()).expect("healed");
        blobs_of(&again, &trial.crash).unwrap_or_else(|why| panic!("{}: opened again: {why}", trial.what()));
    });
}

/// The next call on the same store works, and what it reports is so, also on the disk itself.
#[test]
fn the_store_goes_on_when_the_disk_is_well_again() {
    each_trial(|trial| {
        let found = trial.found();
        let next = put("slot", 77, 900);
        next.run(&trial.store, &found).unwrap_or_else(|error| panic!("{}: {error}", trial.what()));
        let expected = next.after(&found);
        assert!(trial.found() == expected, "{}", trial.what());
        let again = DirStore::on(trial.crash.clone()).expect("healed");
        assert!(blobs_of(&again, &trial.crash).as_ref() == Ok(&expected), "{}", trial.what());
    });
}

/// Until it is put anew: nobody knows what such a file holds.
#[test]
fn nothing_is_appended_to_a_file_whose_sync_failed() {
    let mut seen = 0;
    each_trial(|trial| {
        let Step::Append { name, .. } = &trial.step else { return };
        if !trial.fired(Call::Sync) {
            return;
        }
        seen += 1;
        let found = trial.found();
        let next = Step::Append { name: name.clone(), bytes: vec![1; 10] };
        next.run(&trial.store, &found).expect_err("the file is poisoned");
        put(name, 5, 10).run(&trial.store, &found).expect("a new file");
        let found = trial.found();
        next.run(&trial.store, &found).expect("the new file is well");
    });
    assert!(seen > 0);
}

#[test]
fn no_sync_is_made_again_on_the_same_file() {
    each_trial(|trial| {
        // Also in what follows.
        let found = trial.found();
        for step in [append("slot", 10), put("slot", 5, 10), append("other", 10)] {
            let _ = step.run(&trial.store, &found);
        }
        assert_eq!(trial.disk.syncs_after_failure(), 0, "{}", trial.what());
    });
}

/// First the disk reports an error, then the machine stops.
#[test]
fn a_crash_after_an_error_leaves_what_was_acknowledged() {
    let mut explorer = Explorer::new(4);
    each_trial(|trial| {
        let after = trial.step.after(&trial.before);
        let promise = match trial.result {
            Ok(()) => Promise { acknowledged: &after, in_flight: None },
            Err(_) => Promise { acknowledged: &trial.before, in_flight: Some(&trial.step) },
        };
        let point = trial.crash.crash_points().last().expect("at least the start");
        for state in explorer.states(&point, 30) {
            let disk = state.disk();
            let store = DirStore::on(disk.clone()).expect("a disk in memory");
            let checked = blobs_of(&store, &disk).and_then(|found| promise.check(&found));
            checked.unwrap_or_else(|why| panic!("{}: {why}", trial.what()));
        }
    });
    println!("{} distinct states after errors", explorer.distinct());
}

/// A store that cannot be opened now can be opened later; nothing is lost by trying.
#[test]
fn an_error_while_opening_loses_nothing() {
    let bytes = Random::new(1).bytes(1000);
    let files = [("slot".to_owned(), bytes.clone()), (".1-0.bonfire-tmp".to_owned(), vec![1; 10])];
    for fault in Fault::ALL {
        for repeat in [Repeat::Once, Repeat::Forever] {
            for nth in 1..6 {
                let inner = CrashDisk::with_files(files.clone());
                let disk = FaultyDisk::new(inner.clone());
                disk.fail(Plan { fault, nth, of: None, repeat });
                let opened = DirStore::on(disk.clone());
                assert!(opened.is_ok() || !disk.fired().is_empty(), "{fault:?} {repeat:?} {nth}");
                disk.heal();
                let store = DirStore::on(disk).expect("healed");
                let found = blobs_of(&store, &inner).expect("no litter");
                assert_eq!(found, Blobs::from([("slot".to_owned(), bytes.clone())]));
            }
        }
    }
}

/// The disk itself: a sync that is made again says that all is well, and the bytes are not there.
#[test]
fn the_faulty_disk_forgets_what_could_not_be_synced() {
    let disk = FaultyDisk::new(CrashDisk::new());
    let file = disk.create_new("a").expect("nothing fails yet");
    file.write_all_at(b"durable", 0).and_then(|()| file.sync()).expect("nothing fails yet");
    file.write_all_at(b"DU", 0).and_then(|()| file.write_all_at(b"more", 7)).expect("nothing fails yet");
    disk.fail(Plan { fault: Fault::Io, nth: 1, of: Some(Call::Sync), repeat: Repeat::Once });
    file.sync().expect_err("as planned");
    file.sync().expect("nothing remembers it");
    let mut bytes = [0; 11];
    assert_eq!(file.read_at(&mut bytes, 0).expect("as it was"), 7);
    assert_eq!(&bytes[..7], b"durable");
    assert_eq!(disk.syncs_after_failure(), 1);
}

/// A sync of an append fails, the program is started again, and appends once more: the system still shows it the bytes
/// that were lost, and calls them clean. What is then acknowledged must be there after a crash, all of it.
#[test]
fn bytes_of_a_failed_append_are_not_taken_for_durable_later() {
    for setup in [vec![put("log", 2, 1300)], Vec::new()] {
        let disk = CrashDisk::new();
        let store = DirStore::on(disk.clone()).expect("an empty disk");
        let mut before = Blobs::new();
        for step in &setup {
            step.run(&store, &before).expect("nothing fails yet");
            before = step.after(&before);
        }
        disk.fail_syncs(1);
        append("log", 600).run(&store, &before).expect_err("the sync fails");
        let again = DirStore::on(disk.clone()).expect("a healthy disk");
        let found = all_blobs(&again).expect("a healthy disk");
        append("log", 50).run(&again, &found).expect("a healthy disk");
        let acknowledged = append("log", 50).after(&found);
        let point = disk.crash_points().last().expect("at least the start");
        for state in Explorer::new(1).states(&point, 50) {
            let after = DirStore::on(state.disk()).expect("a disk in memory");
            assert!(all_blobs(&after).as_ref() == Ok(&acknowledged), "what was acknowledged is gone");
        }
    }
}

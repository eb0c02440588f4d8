//! The same for the slots of a game: whatever fails, the last save of a slot can be loaded, and no error is kept quiet.

use bonfire::engine::SnapshotWriter;
use bonfire::{Error, Registry, Result, Snapshot, Value};
use bonfire_store::{Details, DirStore, Keep, Slots, Wait};
use bonfire_testkit::disk::{CrashDisk, Explorer, Fault, FaultyDisk, Plan, Repeat, litter};

/// What meets the fault, and what the newest save of which slot may be afterwards if it failed.
struct Case {
    what: &'static str,
    run: fn(&Slots) -> Result<()>,
    slots: [&'static str; 2],
    allowed: &'static [u64],
    /// What is loaded if it succeeded.
    expected: Option<u64>,
    /// Whether the slots may be missing if it failed.
    may_be_missing: bool,
    /// Whether an error may be of no concern: something is read more than once, or several changes are durable and the next
    /// call finishes them.
    looks_twice: bool,
}

const CASES: [Case; 5] = [
    Case {
        what: "a save that removes an older one",
        run: |slots| save(slots, "quick", 4),
        slots: ["quick", "quick"],
        allowed: &[3, 4],
        expected: Some(4),
        may_be_missing: false,
        // An old save whose head cannot be read when others are pruned is no failure of the new one.
        looks_twice: true,
    },
    Case {
        what: "the first save of a slot",
        run: |slots| save(slots, "new", 4),
        slots: ["new", "quick"],
        allowed: &[3, 4],
        expected: Some(4),
        may_be_missing: false,
        looks_twice: false,
    },
    Case {
        what: "a lock",
        run: |slots| slots.lock("quick", 3).wait(),
        slots: ["quick", "quick"],
        allowed: &[2, 3],
        expected: Some(2),
        may_be_missing: false,
        looks_twice: true,
    },
    Case {
        what: "another name for a slot",
        run: |slots| slots.rename("quick", "kept").wait(),
        slots: ["quick", "kept"],
        allowed: &[3],
        expected: Some(3),
        may_be_missing: false,
        looks_twice: true,
    },
    Case {
        what: "the removal of a slot",
        run: |slots| slots.delete_slot("quick").wait().map(drop),
        slots: ["quick", "quick"],
        allowed: &[3],
        expected: None,
        may_be_missing: true,
        looks_twice: true,
    },
];

/// A save whose older ones could not be removed says so, and is safe all the same.
fn quiet_errors(error: Option<Error>) -> Result<()> {
    error.map_or(Ok(()), Err)
}

fn world() -> Snapshot {
    SnapshotWriter::new(&Registry::new()).finish().expect("an empty world")
}

fn save(slots: &Slots, slot: &str, number: u64) -> Result<()> {
    let details = Details::new().custom("number", number).thumbnail(vec![7; 1000]);
    quiet_errors(slots.save(slot, &world(), &details).wait()?.prune_error)
}

/// The number of the save that is loaded, if the slot has one. Nothing is passed over: no save is damaged.
fn load(slots: &Slots, slot: &str) -> Option<u64> {
    match slots.load(slot).wait() {
        Err(error) if error.is_not_found() => None,
        loaded => {
            let loaded = loaded.expect("healed");
            assert!(loaded.skipped.is_empty(), "{:?}", loaded.skipped);
            let number = loaded.info.custom.iter().find(|(name, _)| name == "number");
            number.and_then(|(_, number)| if let Value::U64(number) = number { Some(*number) } else { None })
        }
    }
}

fn slots_on(dir: DirStore) -> Slots {
    Slots::new(dir).keep(Keep::newest(2))
}

/// Checks one failure; false if the case makes fewer calls.
fn trial(case: &Case, plan: Plan, explorer: &mut Explorer) -> bool {
    let what = format!("{}, {plan:?}", case.what);
    let crash = CrashDisk::new();
    let disk = FaultyDisk::new(crash.clone());
    let dir = DirStore::on(disk.clone()).expect("nothing fails yet");
    let slots = slots_on(dir.clone());
    for number in 1..=3 {
        save(&slots, "quick", number).expect("nothing fails yet");
    }
    disk.fail(plan);
    let result = (case.run)(&slots);
    let made = disk.calls().len();
    disk.heal();

    let went_wrong = disk.fired().into_iter().any(|call| !plan.fault.is_harmless(call));
    // A call that looks twice may get over an error; what it then says is checked below.
    assert!(result.is_err() == went_wrong || went_wrong && case.looks_twice, "{what}: {result:?}");
    let check = |slots: &Slots, result: &Result<()>| {
        let [first, second] = case.slots.map(|slot| load(slots, slot));
        match result {
            Ok(()) => assert!([first, second].contains(&case.expected), "{what}: {first:?} {second:?}"),
            Err(_) => {
                let is_allowed = |number: Option<u64>| number.is_some_and(|n| case.allowed.contains(&n));
                let is_missing = case.may_be_missing && first.is_none();
                let is_there = is_allowed(first) || is_allowed(second);
                assert!(is_there || is_missing, "{what}: {first:?} {second:?}");
            }
        }
    };
    check(&slots, &result);
    if plan.repeat == Repeat::Once && !case.looks_twice {
        litter(&dir, &crash).unwrap_or_else(|why| panic!("{what}: {why}"));
    }
    let point = crash.crash_points().last().expect("at least the start");
    for state in explorer.states(&point, 10) {
        check(&slots_on(DirStore::on(state.disk()).expect("a disk in memory")), &result);
    }
    let again = DirStore::on(disk.clone()).expect("healed");
    litter(&again, &crash).unwrap_or_else(|why| panic!("{what}: opened again: {why}"));
    save(&slots, "quick", 5).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(load(&slots_on(again), "quick"), Some(5), "{what}");
    assert_eq!(disk.syncs_after_failure(), 0, "{what}");
    plan.nth <= made
}

/// Every call of a case fails in every way, each in a trial of its own.
fn all_trials(case: &Case, explorer: &mut Explorer) -> usize {
    let mut trials = 0;
    for fault in Fault::ALL {
        for repeat in [Repeat::Once, Repeat::Forever] {
            let fails = |nth: &usize| trial(case, Plan { fault, nth: *nth, of: None, repeat }, explorer);
            trials += (1..).take_while(fails).count();
        }
    }
    trials
}

#[test]
fn the_last_save_of_a_slot_is_there_and_errors_are_reported() {
    let mut explorer = Explorer::new(5);
    let trials: usize = CASES.iter().map(|case| all_trials(case, &mut explorer)).sum();
    println!("{trials} trials, {} distinct states after errors", explorer.distinct());
    assert!(trials > 350, "{trials}");
}

#[test]
fn a_copy_is_of_the_newest_save_or_says_why_not() {
    let copy = Case {
        what: "a copy",
        run: |slots| quiet_errors(slots.copy("quick", "kept").wait()?.prune_error),
        slots: ["kept", "kept"],
        allowed: &[3],
        expected: Some(3),
        may_be_missing: true,
        looks_twice: true,
    };
    all_trials(&copy, &mut Explorer::new(5));
}

//! The same for journals: whatever fails, what was acknowledged stays, the caller hears of it, and a whole save helps.

use bonfire::Result;
use bonfire_store::{Details, DirStore, JournalBase, Keep, LostDelta, Slots, Wait};
use bonfire_testkit::disk::{CrashDisk, Explorer, Fault, FaultyDisk, Plan, Repeat, litter};
use bonfire_testkit::scale;

use super::common::{delta, is_world, number, world};

/// What meets the fault. Before it, the slot is at tick 3: a save of 1, and two deltas.
struct Case {
    what: &'static str,
    run: fn(&Slots, &JournalBase) -> Result<()>,
    /// What is loaded if it succeeded.
    expected: u64,
    /// What may be loaded if it failed.
    allowed: &'static [u64],
    /// Whether an error may be nobody's business: something was read twice, or could not be tidied up.
    is_forgiving: bool,
}

const CASES: [Case; 5] = [
    Case {
        what: "a delta",
        run: |slots, base| slots.append(base, &delta(3, 4)).wait().map(drop),
        expected: 4,
        allowed: &[3, 4],
        is_forgiving: false,
    },
    Case {
        what: "two deltas",
        run: |slots, base| {
            slots.append(base, &delta(3, 4)).wait()?;
            slots.append(base, &delta(4, 5)).wait().map(drop)
        },
        expected: 5,
        allowed: &[3, 4, 5],
        is_forgiving: false,
    },
    Case {
        what: "a whole save and the first delta of its journal",
        run: |slots, _| {
            let base = save(slots, 4)?;
            slots.append(&base, &delta(4, 5)).wait().map(drop)
        },
        expected: 5,
        allowed: &[3, 4, 5],
        is_forgiving: true,
    },
    Case {
        what: "a merge",
        run: |slots, _| slots.merge_journal("auto").wait().map(drop),
        expected: 3,
        allowed: &[3],
        is_forgiving: true,
    },
    Case {
        what: "a load",
        run: |slots, _| {
            let loaded = slots.load("auto").wait()?;
            assert_eq!(number(&loaded.snapshot), 3, "all or nothing");
            Ok(())
        },
        expected: 3,
        allowed: &[3],
        is_forgiving: true,
    },
];

fn save(slots: &Slots, number: u64) -> Result<JournalBase> {
    let saved = slots.save("auto", &world(number), &Details::new()).wait()?;
    Ok(JournalBase::new("auto", saved.generation, number))
}

/// The number of the world that is loaded. It is exactly that world, no save is passed over, and nothing is lost but a tail.
fn load(slots: &Slots) -> u64 {
    let loaded = slots.load("auto").wait().expect("healed");
    assert!(loaded.skipped.is_empty(), "{:?}", loaded.skipped);
    let number = number(&loaded.snapshot);
    assert!(is_world(&loaded.snapshot, number), "a mixture");
    let lost = loaded.journal.and_then(|journal| journal.lost);
    assert!(lost.as_ref().is_none_or(LostDelta::is_tail), "{lost:?}");
    number
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
    let base = save(&slots, 1).expect("nothing fails yet");
    for to in [2, 3] {
        slots.append(&base, &delta(to - 1, to)).wait().expect("nothing fails yet");
    }
    disk.fail(plan);
    let result = (case.run)(&slots, &base);
    let made = disk.calls().len();
    disk.heal();

    let went_wrong = disk.fired().into_iter().any(|call| !plan.fault.is_harmless(call));
    assert!(result.is_err() == went_wrong || went_wrong && case.is_forgiving, "{what}: {result:?}");
    let check = |slots: &Slots| {
        let found = load(slots);
        match &result {
            Ok(()) => assert_eq!(found, case.expected, "{what}"),
            Err(_) => assert!(case.allowed.contains(&found), "{what}: {found}"),
        }
    };
    check(&slots);
    let point = crash.crash_points().last().expect("at least the start");
    for state in explorer.states(&point, (2 * scale() as usize).min(10)) {
        check(&slots_on(DirStore::on(state.disk()).expect("a disk in memory")));
    }
    if plan.repeat == Repeat::Once {
        litter(&dir, &crash).unwrap_or_else(|why| panic!("{what}: {why}"));
    }

    // A delta is refused, or follows what is there. A whole save, and a journal of its own, work.
    let found = load(&slots);
    let base =
        JournalBase::new("auto", slots.load("auto").wait().expect("healed").info.generation, base.tick);
    if slots.append(&base, &delta(found, 9)).wait().is_ok() {
        assert_eq!(load(&slots), 9, "{what}");
    }
    let base = save(&slots, 10).unwrap_or_else(|error| panic!("{what}: {error}"));
    slots.append(&base, &delta(10, 11)).wait().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(load(&slots), 11, "{what}");
    let point = crash.crash_points().last().expect("at least the start");
    for state in explorer.states(&point, (scale() as usize).min(3)) {
        assert_eq!(load(&slots_on(DirStore::on(state.disk()).expect("a disk in memory"))), 11, "{what}");
    }
    assert_eq!(disk.syncs_after_failure(), 0, "{what}");
    plan.nth <= made
}

#[test]
fn what_was_acknowledged_stays_and_errors_are_reported() {
    let mut explorer = Explorer::new(5);
    let mut trials = 0;
    for case in &CASES {
        for fault in Fault::ALL {
            // A disk that stays broken does nothing that one broken call does not: a long run looks at it too.
            let repeats = if scale() > 1 { &[Repeat::Once, Repeat::Forever][..] } else { &[Repeat::Once] };
            for &repeat in repeats {
                let fails =
                    |nth: &usize| trial(case, Plan { fault, nth: *nth, of: None, repeat }, &mut explorer);
                trials += (1..).take_while(fails).count();
            }
        }
    }
    println!("{trials} trials, {} distinct states after errors", explorer.distinct());
    assert!(trials > 250, "{trials}");
}

#[test]
fn after_a_failed_sync_the_journal_is_closed_and_a_whole_save_goes_on() {
    let disk = FaultyDisk::new(CrashDisk::new());
    let slots = slots_on(DirStore::on(disk.clone()).expect("an empty disk"));
    let base = save(&slots, 1).expect("nothing fails yet");
    slots.append(&base, &delta(1, 2)).wait().expect("nothing fails yet");
    disk.fail(Plan {
        fault: Fault::Io,
        nth: 1,
        of: Some(bonfire_testkit::disk::Call::Sync),
        repeat: Repeat::Once,
    });
    assert!(slots.append(&base, &delta(2, 3)).wait().expect_err("the sync fails").is_io());
    disk.heal();
    // The same delta again: nobody knows what the disk holds.
    let error = slots.append(&base, &delta(2, 3)).wait().expect_err("the journal is closed");
    assert!(error.is_conflict(), "{error}");
    assert_eq!(load(&slots), 2);
    let base = save(&slots, 3).expect("healed");
    slots.append(&base, &delta(3, 4)).wait().expect("healed");
    assert_eq!((load(&slots), disk.syncs_after_failure()), (4, 0));
}

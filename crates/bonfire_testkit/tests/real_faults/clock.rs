//! A clock that jumps back. "Continue" loads the slot that was saved to last, also then.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bonfire_store::{Details, DirStore, JournalBase, Slots, Wait};

use crate::aftermath::place;
use crate::report::{Finding, Report, Rule, Violation};
use crate::world;

/// Seconds since 1970 on the clock of the player.
static SECONDS: AtomicU64 = AtomicU64::new(0);

fn clock() -> Option<Duration> {
    Some(Duration::from_secs(SECONDS.load(Ordering::SeqCst)))
}

/// Saves into slots in turns while the clock jumps.
pub(crate) fn run(report: &mut Report) {
    let root = place();
    let open = || Slots::new(DirStore::open(root.path()).expect("a healthy disk")).clock(clock);
    let mut slots = open();
    let mut lines = Vec::new();
    let mut findings: Vec<Finding> = Vec::new();
    for (step, (slot, seconds)) in
        [("a", 5000), ("b", 4000), ("a", 4500), ("c", 4500), ("b", 10), ("a", 0), ("c", 9000), ("b", 8000)]
            .into_iter()
            .enumerate()
    {
        SECONDS.store(seconds, Ordering::SeqCst);
        let tick = step as u64 * 10;
        let saved = slots.save(slot, &world::world(tick), &Details::new()).wait().expect("a healthy disk");
        lines.push(format!("save {slot} at {seconds} s"));
        if step % 3 == 1 {
            SECONDS.store(seconds / 2, Ordering::SeqCst);
            let base = JournalBase::new(slot, saved.generation, tick);
            slots.append(&base, &world::delta(tick, tick + 5)).wait().expect("a healthy disk");
            lines.push(format!("append {slot} at {} s", seconds / 2));
        }
        // Another process asks, too.
        if step % 2 == 1 {
            slots = open();
        }
        let newest = slots.newest().wait().expect("a healthy disk").map(|newest| newest.name);
        if newest.as_deref() != Some(slot) {
            let what = format!("`{slot}` was saved to last, and \"Continue\" loads {newest:?}");
            findings.push(Finding { rule: Rule::Continue, verb: "save", what, line: lines.len() });
        }
    }
    let violation = |finding| Violation {
        worker: "clock".to_owned(),
        fault: "clock".to_owned(),
        finding,
        lines: lines.clone(),
    };
    report.add("clock", "clock", findings.into_iter().map(violation));
}

//! Time of this thread, in turns with a baseline.

use rustix::time::{ClockId, clock_gettime};

/// One line of the table.
pub(crate) struct Row {
    pub(crate) key: &'static str,
    pub(crate) target: Option<f64>,
    /// Gives the value and a note with absolute figures.
    pub(crate) measure: Box<dyn FnOnce() -> (f64, String)>,
}

/// CPU time of this thread in seconds: page faults count, other processes do not.
fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

pub(crate) fn seconds(work: &mut dyn FnMut()) -> f64 {
    let start = thread_seconds();
    work();
    thread_seconds() - start
}

pub(crate) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Medians of `work` and `baseline`, in seconds, taken in turns after one warm-up of each.
pub(crate) fn against(rounds: usize, mut work: impl FnMut(), mut baseline: impl FnMut()) -> (f64, f64) {
    work();
    baseline();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        theirs.push(seconds(&mut baseline));
        ours.push(seconds(&mut work));
        theirs.push(seconds(&mut baseline));
        ours.push(seconds(&mut work));
    }
    (median(ours), median(theirs))
}

/// How many rounds are enough for a set of this size.
pub(crate) fn rounds(entities: usize) -> usize {
    (3_000_000 / entities).clamp(5, 100)
}

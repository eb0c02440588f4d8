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

/// Lets the allocator of the system keep what is freed, as it does in a game that has run for a while. Without this the
/// first rows would pay for pages that later rows find warm.
pub(crate) fn warm_up_allocator() {
    // The allocator of glibc takes from the system what is larger than the largest block that came back so far, up to
    // this size.
    drop(std::hint::black_box(vec![1_u8; (32 << 20) - (64 << 10)]));
}

/// Memory that the process keeps, much more than a million entities need, for as long as the value lives. Whether large
/// blocks that are freed go back to the system depends on what lies above them, so without this a large load may pay for
/// fresh pages or not.
#[must_use]
pub(crate) fn warm_memory() -> Vec<u8> {
    let blocks: Vec<Vec<u8>> = (0..12).map(|_| std::hint::black_box(vec![1; 31 << 20])).collect();
    let above = std::hint::black_box(vec![1; 1 << 20]);
    drop(blocks);
    above
}

pub(crate) fn seconds(work: &mut dyn FnMut()) -> f64 {
    let start = thread_seconds();
    work();
    thread_seconds() - start
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Medians of `work` and `baseline`, in seconds, taken in turns after one warm-up of each.
pub(crate) fn against(rounds: usize, mut work: impl FnMut(), mut baseline: impl FnMut()) -> (f64, f64) {
    turns(rounds, || seconds(&mut work), || seconds(&mut baseline))
}

/// As [`against`], for work that needs something made or dropped outside of its time: it returns its own seconds.
pub(crate) fn turns(
    rounds: usize,
    mut work: impl FnMut() -> f64,
    mut baseline: impl FnMut() -> f64,
) -> (f64, f64) {
    work();
    baseline();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        theirs.push(baseline());
        ours.push(work());
        theirs.push(baseline());
        ours.push(work());
    }
    (median(ours), median(theirs))
}

/// How many rounds are enough for a set of this size.
pub(crate) fn rounds(entities: usize) -> usize {
    (3_000_000 / entities).clamp(5, 100)
}

/// The absolute figures beside a ratio. `bytes` is the size of the save.
pub(crate) fn note(ours: f64, theirs: f64, entities: usize, bytes: usize) -> String {
    let nanoseconds = |seconds: f64| seconds * 1e9 / entities as f64;
    format!(
        "{:.0} us, {:.2} ns per entity, baseline {:.2}; {:.1} bytes per entity",
        ours * 1e6,
        nanoseconds(ours),
        nanoseconds(theirs),
        bytes as f64 / entities as f64
    )
}

//! Hostile bytes cost work in proportion to their length. Decoders count their work in a `Watch`, and twice the bytes may
//! cost at most 2.2 times as much.

mod container;
mod delta;
#[cfg(feature = "json")]
mod json_table;
mod value;

use bonfire::{Limits, Watch};

/// The most that the counted work may grow when the input doubles: a little more than twice, for what is sorted.
const GROWTH_MAX: f64 = 2.2;

/// Runs `work` on inputs of sizes `n` and `2 * n`, and fails if the work that it counts is not linear.
fn assert_linear(n: usize, work: impl Fn(usize, &Limits)) {
    let steps = |n: usize| {
        let watch = Watch::new();
        work(n, &Limits { watch: Some(watch.clone()), ..Limits::default() });
        watch.steps()
    };
    let (small, large) = (steps(n), steps(2 * n));
    assert!(small >= n as u64, "{small} steps for {n} items: the work is not counted");
    let growth = large as f64 / small as f64;
    assert!(growth <= GROWTH_MAX, "{small} steps for {n} items, {large} for {}: {growth:.2} times", 2 * n);
}

//! The time of a frame.

use std::time::{Duration, Instant};

/// The time that a frame has left.
pub(super) struct Clock {
    end: Option<Instant>,
    /// The longest step so far: the next one is not begun if it would not fit.
    step: Duration,
}

impl Clock {
    pub(super) fn new(budget: Duration) -> Self {
        Self { end: Instant::now().checked_add(budget), step: Duration::ZERO }
    }

    pub(super) fn has_time(&self) -> bool {
        self.end.is_none_or(|end| Instant::now() + self.step < end)
    }

    /// Does a step, and measures it.
    pub(super) fn step<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let done = work();
        self.step = (self.step + begin.elapsed()) / 2;
        done
    }
}

//! The clocks of the system. On wasm32 there are none, unless the feature `web` brings those of the browser.

use std::time::{Duration, SystemTime};

#[cfg(not(target_arch = "wasm32"))]
use std::time::Instant;
#[cfg(all(target_arch = "wasm32", feature = "web"))]
use web_time::{Instant, web::SystemTimeExt};

/// The time of day, if there is a clock.
pub(crate) fn system_time() -> Option<SystemTime> {
    #[cfg(not(target_arch = "wasm32"))]
    return Some(SystemTime::now());
    #[cfg(all(target_arch = "wasm32", feature = "web"))]
    return Some(web_time::SystemTime::now().to_std());
    #[cfg(all(target_arch = "wasm32", not(feature = "web")))]
    None
}

/// Measures time from its start, if there is a clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch {
    #[cfg(any(not(target_arch = "wasm32"), feature = "web"))]
    start: Instant,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self {
            #[cfg(any(not(target_arch = "wasm32"), feature = "web"))]
            start: Instant::now(),
        }
    }

    pub(crate) fn elapsed(&self) -> Option<Duration> {
        #[cfg(any(not(target_arch = "wasm32"), feature = "web"))]
        return Some(self.start.elapsed());
        #[cfg(all(target_arch = "wasm32", not(feature = "web")))]
        None
    }

    /// The part of a budget that is left. Without a clock a budget is used up at once, unless it has no end.
    pub(crate) fn left(&self, budget: Duration) -> Duration {
        match self.elapsed() {
            _ if budget == Duration::MAX => budget,
            Some(elapsed) => budget.saturating_sub(elapsed),
            None => Duration::ZERO,
        }
    }
}

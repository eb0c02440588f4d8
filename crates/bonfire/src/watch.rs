//! A watch over work on bytes from outside: how far it is, how much it did, and a way to stop it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::{Error, Result};

/// Follows the work of opening something, and stops it. Clones watch the same work, also from another thread.
///
/// ```
/// use bonfire::{Snapshot, Watch};
///
/// let watch = Watch::new();
/// let open = Snapshot::options().watch(&watch);
/// watch.cancel(); // a player who does not want to wait
/// assert!(open.open(&[0; 4096]).unwrap_err().is_cancelled());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Watch(Arc<WatchState>);

#[derive(Debug, Default)]
struct WatchState {
    done: AtomicU64,
    total: AtomicU64,
    steps: AtomicU64,
    is_cancelled: AtomicBool,
}

impl Watch {
    /// A watch over nothing yet. Give it to the options of an `open`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops the work: it ends soon, with an error that [`is_cancelled`](Error::is_cancelled), and changes nothing.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns true if [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::Relaxed)
    }

    /// Returns how many bytes are done.
    pub fn done(&self) -> u64 {
        self.0.done.load(Ordering::Relaxed)
    }

    /// Returns how many bytes there are to do; 0 if nobody knows yet.
    pub fn total(&self) -> u64 {
        self.0.total.load(Ordering::Relaxed)
    }

    /// Returns how much work was counted. Each byte and each item of a list is a step, every time that it is looked at. So
    /// the steps of hostile bytes tell whether their work is linear.
    pub fn steps(&self) -> u64 {
        self.0.steps.load(Ordering::Relaxed)
    }

    /// Says how many bytes there are to do from now on. None of them is done.
    pub fn expect(&self, total: u64) {
        self.0.done.store(0, Ordering::Relaxed);
        self.0.total.store(total, Ordering::Relaxed);
    }

    /// Counts bytes that are done. Fails if the work was cancelled.
    pub fn advance(&self, bytes: u64) -> Result<()> {
        self.0.done.fetch_add(bytes, Ordering::Relaxed);
        self.step(bytes)
    }

    /// Counts work that is no progress. Fails if the work was cancelled.
    pub fn step(&self, steps: u64) -> Result<()> {
        self.0.steps.fetch_add(steps, Ordering::Relaxed);
        match self.is_cancelled() {
            true => Err(Error::cancelled("the work was cancelled")),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_and_steps_are_counted_apart() {
        let watch = Watch::new();
        watch.expect(100);
        watch.clone().advance(40).unwrap();
        watch.step(7).unwrap();
        assert_eq!((watch.done(), watch.total(), watch.steps()), (40, 100, 47));
    }

    #[test]
    fn work_ends_once_it_is_cancelled() {
        let watch = Watch::new();
        watch.step(1).unwrap();
        watch.clone().cancel();
        assert!(watch.is_cancelled());
        assert!(watch.step(1).unwrap_err().is_cancelled());
        assert!(watch.advance(1).unwrap_err().is_cancelled());
    }
}

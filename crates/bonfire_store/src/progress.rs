//! The progress of a save or a load.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bonfire::Watch;

/// A phase of a request. A save is encoded and written; a load is read, checked, migrated, decoded and committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Nothing yet.
    #[default]
    Waiting,
    /// A snapshot becomes bytes.
    Encoding,
    /// Bytes go to the store, and become durable.
    Writing,
    /// Bytes come from the store.
    Reading,
    /// Checksums are compared, and blocks decompressed.
    Checking,
    /// An old save becomes one of this build.
    Migrating,
    /// Bytes become components.
    Decoding,
    /// The world takes them over.
    Committing,
    /// Nothing is left to do, whether it went well or not.
    Done,
}

impl Phase {
    /// The share of the whole way: its start and its end.
    fn span(self) -> (f64, f64) {
        match self {
            Self::Waiting => (0.0, 0.0),
            Self::Encoding => (0.0, 0.25),
            Self::Writing => (0.25, 1.0),
            Self::Reading => (0.0, 0.1),
            Self::Checking => (0.1, 0.2),
            Self::Migrating => (0.2, 0.25),
            Self::Decoding => (0.25, 0.5),
            // The long part, if it comes in slices.
            Self::Committing => (0.5, 1.0),
            Self::Done => (1.0, 1.0),
        }
    }
}

/// The progress of a request: within its phase, and with [`fraction`](Self::fraction) over all phases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The current phase.
    pub phase: Phase,
    /// The done part of the phase, in bytes or in another unit of the phase.
    pub done: u64,
    /// The size of the phase in the same unit; 0 if it is unknown.
    pub total: u64,
}

impl Progress {
    /// A part of a phase.
    pub fn new(phase: Phase, done: u64, total: u64) -> Self {
        Self { phase, done, total }
    }

    /// From 0 to 1 over all phases together. A guess, as phases take as long as they take; it does not go back as long as
    /// phases come in their order. They come again where a load passes over a damaged save.
    pub fn fraction(&self) -> f32 {
        let (start, end) = self.phase.span();
        let part = if self.total == 0 { 0.0 } else { self.done.min(self.total) as f64 / self.total as f64 };
        (start + (end - start) * part) as f32
    }
}

/// Reports progress to the holders of a [`Handle`](crate::Handle). Clones report for the same request.
#[derive(Clone, Default)]
pub struct ProgressReporter(Arc<ProgressState>);

#[derive(Default)]
struct ProgressState {
    phase: Mutex<Phase>,
    /// Apart from the phase, so that whoever writes or checks bytes can count them.
    watch: Watch,
}

impl ProgressReporter {
    /// Sets the progress.
    pub fn set(&self, progress: Progress) {
        let mut phase = self.phase();
        *phase = progress.phase;
        self.0.watch.expect(progress.total);
        let _ = self.0.watch.advance(progress.done);
    }

    /// Returns the progress that was set last.
    pub fn get(&self) -> Progress {
        let phase = self.phase();
        let (done, total) = (self.0.watch.done(), self.0.watch.total());
        Progress { phase: *phase, done: if total == 0 { done } else { done.min(total) }, total }
    }

    /// Returns the watch over the bytes of the phase.
    pub(crate) fn watch(&self) -> &Watch {
        &self.0.watch
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.0.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ProgressReporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProgressReporter").field(&self.get()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fraction_grows_from_zero_to_one() {
        let ways: [&[Phase]; 2] = [
            &[Phase::Waiting, Phase::Encoding, Phase::Writing, Phase::Done],
            &[
                Phase::Waiting,
                Phase::Reading,
                Phase::Checking,
                Phase::Migrating,
                Phase::Decoding,
                Phase::Committing,
                Phase::Done,
            ],
        ];
        for way in ways {
            let mut last = 0.0;
            for &phase in way {
                for done in [0, 1, 50, 100, 300] {
                    let fraction = Progress::new(phase, done, 100).fraction();
                    assert!((last..=1.0).contains(&fraction), "{phase:?} {done}: {fraction} after {last}");
                    last = fraction;
                }
            }
            assert_eq!(last, 1.0);
        }
        assert_eq!(Progress::default().fraction(), 0.0);
        assert_eq!(Progress::new(Phase::Reading, 7, 0).fraction(), 0.0, "nobody knows how much there is");
    }

    #[test]
    fn bytes_are_counted_and_do_not_pass_the_end() {
        let reporter = ProgressReporter::default();
        reporter.set(Progress::new(Phase::Writing, 0, 10));
        reporter.watch().advance(4).unwrap();
        assert_eq!(reporter.get(), Progress::new(Phase::Writing, 4, 10));
        reporter.watch().advance(40).unwrap();
        assert_eq!(reporter.clone().get(), Progress::new(Phase::Writing, 10, 10));
        reporter.set(Progress::new(Phase::Done, 0, 0));
        assert_eq!(reporter.get(), Progress::new(Phase::Done, 0, 0));
    }
}

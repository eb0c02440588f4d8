//! How far a save or a load is.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is being done. A save is encoded and written; a load is read, checked, migrated, decoded and committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
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

impl Stage {
    /// Which part of the way this is: where it begins, and where it ends.
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

/// How far one is: of the stage, and with [`fraction`](Self::fraction) of the whole way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub stage: Stage,
    /// How much of it is done: bytes, or whatever the stage counts.
    pub done: u64,
    /// How much there is to do. 0 if nobody knows.
    pub total: u64,
}

impl Progress {
    /// So much of a stage.
    pub fn new(stage: Stage, done: u64, total: u64) -> Self {
        Self { stage, done, total }
    }

    /// From 0 to 1 over all stages together. A guess, as stages take as long as they take; it does not go back as long as
    /// stages come in their order. They come again where a load passes over a damaged save.
    pub fn fraction(&self) -> f32 {
        let (start, end) = self.stage.span();
        let part = if self.total == 0 { 0.0 } else { self.done.min(self.total) as f64 / self.total as f64 };
        (start + (end - start) * part) as f32
    }
}

/// Tells the holders of a [`Handle`](crate::Handle) how far one is. Clones tell the same.
#[derive(Clone, Default)]
pub struct Watch(Arc<Meter>);

#[derive(Default)]
struct Meter {
    /// The stage, and how much there is to do in it.
    stage: Mutex<(Stage, u64)>,
    /// Apart from the rest, so that whoever writes or checks bytes can count them.
    done: Arc<AtomicU64>,
}

impl Watch {
    /// Says how far one is.
    pub fn set(&self, progress: Progress) {
        let mut stage = self.stage();
        *stage = (progress.stage, progress.total);
        self.0.done.store(progress.done, Ordering::Relaxed);
    }

    /// What was said last.
    pub fn get(&self) -> Progress {
        let stage = self.stage();
        let (stage, total) = *stage;
        let done = self.0.done.load(Ordering::Relaxed);
        Progress { stage, done: if total == 0 { done } else { done.min(total) }, total }
    }

    /// Counts what is done of the stage.
    pub(crate) fn counter(&self) -> Arc<AtomicU64> {
        self.0.done.clone()
    }

    fn stage(&self) -> MutexGuard<'_, (Stage, u64)> {
        self.0.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watch").field(&self.get()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fraction_grows_from_zero_to_one() {
        let ways: [&[Stage]; 2] = [
            &[Stage::Waiting, Stage::Encoding, Stage::Writing, Stage::Done],
            &[
                Stage::Waiting,
                Stage::Reading,
                Stage::Checking,
                Stage::Migrating,
                Stage::Decoding,
                Stage::Committing,
                Stage::Done,
            ],
        ];
        for way in ways {
            let mut last = 0.0;
            for &stage in way {
                for done in [0, 1, 50, 100, 300] {
                    let fraction = Progress::new(stage, done, 100).fraction();
                    assert!((last..=1.0).contains(&fraction), "{stage:?} {done}: {fraction} after {last}");
                    last = fraction;
                }
            }
            assert_eq!(last, 1.0);
        }
        assert_eq!(Progress::default().fraction(), 0.0);
        assert_eq!(Progress::new(Stage::Reading, 7, 0).fraction(), 0.0, "nobody knows how much there is");
    }

    #[test]
    fn bytes_are_counted_and_do_not_pass_the_end() {
        let watch = Watch::default();
        watch.set(Progress::new(Stage::Writing, 0, 10));
        watch.counter().fetch_add(4, Ordering::Relaxed);
        assert_eq!(watch.get(), Progress::new(Stage::Writing, 4, 10));
        watch.counter().fetch_add(40, Ordering::Relaxed);
        assert_eq!(watch.clone().get(), Progress::new(Stage::Writing, 10, 10));
        watch.set(Progress::new(Stage::Done, 0, 0));
        assert_eq!(watch.get(), Progress::new(Stage::Done, 0, 0));
    }
}

//! Settings of a worker.

use std::time::Duration;

use super::ChunkWorker;
use crate::ChunkWorld;

/// A view of 63 by 63 chunks can be asked for at once: a load that waits has only its position.
const LOADS_MAX: usize = 4096;

/// Each has the cells of its chunks.
const SAVES_MAX: usize = 64;

/// More threads than these compete for the disk.
const READING_THREADS_MAX: usize = 4;

/// Settings of a [`ChunkWorker`].
///
/// ```
/// use bonfire_chunks::{ChunkOptions, ChunkWorker, Layer, Layers, Persistence};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("world.save");
/// let layers = Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always));
/// let world = ChunkOptions::new(layers).chunk_size(16).open(&path)?;
/// let worker = ChunkWorker::options().reading_threads(2).saves_max(16).start(world);
/// assert!(worker.is_idle());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    pub(super) reading_threads: usize,
    pub(super) loads_max: usize,
    pub(super) saves_max: usize,
    pub(super) slow_after: Duration,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            reading_threads: (crate::parallel::available() / 2).clamp(1, READING_THREADS_MAX),
            loads_max: LOADS_MAX,
            saves_max: SAVES_MAX,
            slow_after: Duration::from_millis(500),
        }
    }
}

impl WorkerOptions {
    /// Sets how many threads read, beside the one that writes. Default: one for two processors, 1 to 4.
    pub fn reading_threads(mut self, threads: usize) -> Self {
        self.reading_threads = threads.max(1);
        self
    }

    /// Sets how many loads may wait. Default: 4,096.
    pub fn loads_max(mut self, loads: usize) -> Self {
        self.loads_max = loads.max(1);
        self
    }

    /// Sets how many saves and compactions may wait. Default: 64.
    pub fn saves_max(mut self, saves: usize) -> Self {
        self.saves_max = saves.max(1);
        self
    }

    /// Sets the time after which the work of a request is slow, and an event of `tracing` says so. Default: half a second.
    pub fn slow_after(mut self, time: Duration) -> Self {
        self.slow_after = time;
        self
    }

    /// Starts the threads for this world.
    pub fn start(self, world: ChunkWorld) -> ChunkWorker {
        ChunkWorker::start(world, self)
    }
}

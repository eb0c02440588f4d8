//! An upgrade of all chunks beside the game, at a pace that leaves the disk to it.

use std::time::Duration;

use bonfire::engine::catch_panic;
use bonfire::{Error, Registry, Result};
use bonfire_store::engine::Promise;
use bonfire_store::{Handle, Phase, Progress};

use crate::{ChunkPos, ChunkWorld};

/// How much of the disk an upgrade takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpgradePace {
    /// Chunks, lists of bodies and lists of entities in one step, which is one save. Default: 16.
    pub chunks_per_step: usize,
    /// The time between two steps. Default: 50 milliseconds.
    pub pause: Duration,
}

impl Default for UpgradePace {
    fn default() -> Self {
        Self { chunks_per_step: 16, pause: Duration::from_millis(50) }
    }
}

impl UpgradePace {
    /// A pace of so many chunks in a step, and so long between two steps.
    pub fn new(chunks_per_step: usize, pause: Duration) -> Self {
        Self { chunks_per_step, pause }
    }
}

/// The outcome of an upgrade in the background.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct UpgradeReport {
    /// Chunks, lists of bodies and lists of entities that were looked at.
    pub looked: usize,
    /// Those of them that were old and are saved anew.
    pub saved: usize,
    /// Chunks of which something could not be read, and why. They are as they were.
    pub failed: Vec<(ChunkPos, Error)>,
}

impl ChunkWorld {
    /// Saves all chunks as the game has them today, step by step on a thread of its own: layers, and the schemas of entities.
    /// Cancel the handle to stop it; the next session goes on where it was. See [`ChunkWorld::upgrade_with`].
    ///
    /// ```
    /// use bonfire::Registry;
    /// use bonfire_chunks::stream::UpgradePace;
    /// # use bonfire_chunks::{ChunkOptions, Layer, Layers, Persistence};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("world.save");
    /// # let layers = Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always));
    /// # let world = ChunkOptions::new(layers).open(&path)?;
    /// let upgrade = world.upgrade_in_background(Registry::new(), UpgradePace::default());
    /// assert!(upgrade.wait()?.failed.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn upgrade_in_background(&self, registry: Registry, pace: UpgradePace) -> Handle<UpgradeReport> {
        let (promise, handle) = Promise::new();
        self.upgrade_for(registry, pace, promise);
        handle
    }

    /// The same, for a promise of a front end, whose handle the game has already.
    pub fn upgrade_for(&self, registry: Registry, pace: UpgradePace, promise: Promise<UpgradeReport>) {
        promise.start();
        let world = self.clone();
        let spawned = std::thread::Builder::new().name("bonfire chunks upgrade".into()).spawn(move || {
            let result = catch_panic("the upgrade of a chunk world panicked", || {
                upgrade(&world, &registry, pace, &promise)
            });
            if let Err(error) = &result
                && !error.is_cancelled()
            {
                tracing::warn!(%error, "the upgrade of a chunk world ended; the next session goes on");
            }
            promise.complete(result);
        });
        if let Err(error) = spawned {
            // The promise went with the closure, so its handle has failed.
            tracing::error!(%error, "no thread for the upgrade of a chunk world");
        }
    }
}

fn upgrade(
    world: &ChunkWorld,
    registry: &Registry,
    pace: UpgradePace,
    promise: &Promise<UpgradeReport>,
) -> Result<UpgradeReport> {
    let mut upgrade = world.upgrade_with(registry);
    let looked = upgrade.left();
    while upgrade.left() > 0 {
        if promise.is_cancelled() {
            return Err(Error::cancelled("the upgrade was cancelled"));
        }
        upgrade.step(pace.chunks_per_step)?;
        let done = looked - upgrade.left();
        promise.set_progress(Progress::new(Phase::Migrating, done as u64, looked as u64));
        if upgrade.left() > 0 {
            std::thread::sleep(pace.pause);
        }
    }
    Ok(UpgradeReport { looked, saved: upgrade.saved(), failed: upgrade.failed().to_vec() })
}

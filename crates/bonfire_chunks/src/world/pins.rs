//! Pins: moments of the whole world that stay while the game goes on.

use std::sync::Arc;

use bonfire::{Error, Result};

use super::settings::read_settings;
use super::world_frames::WorldFrames;
use super::{ChunkWorld, CommitReport, World};
use crate::Durability;
use crate::file::{ChunkFile, OpenReport, PinInfo, PinnedFrames};

impl ChunkWorld {
    /// Keeps the world as it is now under a name, with up to 60 KiB that the game says of it. A pin of the same name is
    /// replaced.
    ///
    /// A pin copies nothing: it costs one short save, and later saves keep what they replace. What is
    /// [buffered](Durability::Buffered) is made durable with it. A save and its pin in one step: [`Edit::pin`](crate::Edit::pin).
    ///
    /// ```
    /// use bonfire_chunks::{ChunkOptions, Durability, Layer, Layers, Persistence};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("world.save");
    /// let layers = Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always));
    /// let world = ChunkOptions::new(layers).chunk_size(16).open(&path)?;
    ///
    /// world.edit().put((0, 0), vec![1; 256]).commit(Durability::Synced)?;
    /// world.pin("before the boss", b"chapter 3")?;
    /// world.edit().put((0, 0), vec![2; 256]).commit(Durability::Synced)?;
    ///
    /// assert_eq!(world.at("before the boss")?.read((0, 0))?, Some(vec![1; 256]));
    /// world.return_to("before the boss")?;
    /// assert_eq!(world.read((0, 0))?, Some(vec![1; 256]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pin(&self, name: impl Into<String>, metadata: impl Into<Vec<u8>>) -> Result<CommitReport> {
        self.edit().pin(name, metadata).commit(Durability::Synced)
    }

    /// Returns all pins, the oldest first.
    pub fn pins(&self) -> Vec<PinInfo> {
        self.inner.frames.file().map(|file| file.pins()).unwrap_or_default()
    }

    /// Opens the world as it was at a pin, for reading. It shares the file with this one and goes on while this one saves.
    /// An error with [`is_not_found`](Error::is_not_found) says that there is no such pin.
    ///
    /// Layers, seed and generator are those of this world, and settings are those of today.
    pub fn at(&self, pin: &str) -> Result<Self> {
        let frames = WorldFrames::Pinned(PinnedFrames::new(self.inner.file_with_pins()?, pin)?);
        let mut stored = read_settings(&frames)?;
        let dimensions = self.inner.dimensions.values().map(|dimension| {
            // Nothing has been saved yet in a dimension that the file does not have.
            let settings = match stored.remove(&dimension.number) {
                Some(stored) => stored.settings,
                None => self.inner.saving().of(dimension).clone(),
            };
            (dimension.number, dimension.seed(), settings, false)
        });
        let dimensions = dimensions.collect();
        let report = OpenReport::default();
        Ok(Self::of_frames(frames, self.inner.options.clone(), report, dimensions))
    }

    /// Makes the world what it was at a pin. No cells are copied: the time depends on the number of chunks that have changed
    /// since. What is not pinned is gone then. Other pins stay, also those that are younger.
    ///
    /// Chunks, bodies and entities that the game has in memory are its own to load again. Edits that were begun before still
    /// do what they say.
    pub fn return_to(&self, pin: &str) -> Result<()> {
        let world = &*self.inner;
        let file = world.file_with_pins()?;
        let _turn = world.commit_turn();
        file.return_to(pin)?;
        // Everybody may be anywhere.
        world.ids.forget();
        world.stale_bodies().clear();
        Ok(())
    }

    /// Removes a pin, and makes room for what only it has kept. Returns false if there is none of this name. A world that was
    /// opened [at](Self::at) it gives errors from then on.
    pub fn unpin(&self, pin: &str) -> Result<bool> {
        let file = self.inner.file_with_pins()?;
        let _turn = self.inner.commit_turn();
        file.unpin(pin)
    }
}

impl World {
    /// Returns the file, which is what pins are made in.
    pub(super) fn file_with_pins(&self) -> Result<&Arc<ChunkFile>> {
        match &self.frames {
            WorldFrames::File(file) => Ok(file),
            WorldFrames::Pinned(_) => {
                Err(Error::misuse("this world is at a pin already: ask the world that it was opened from"))
            }
            WorldFrames::Store(..) => Err(Error::unsupported(
                "moments are pinned in files only: the frames of this world are in another store",
            )),
        }
    }
}

//! A world of chunks in one file.
//!
//! | file | |
//! |---|---|
//! | `open` | opening a world, and creating it |
//! | `options`, `dimension`, `settings` | what the game says of its world, and what the file says |
//! | `cells` | from cells to frames and back |
//! | `edit` | what is saved together |
//! | `bodies`, `body_changes`, `entities` | what else a chunk has |
//! | `whole` | chunks with all of that, as of one moment |
//! | `identity` | which chunk a body or an entity is in |
//! | `world_frames` | the frames: a file, or another store |
//! | `info`, `check`, `copies` | what there is; a look at everything; copies |
//! | `pins`, `clear` | moments that stay; a new beginning |
//! | `maintain`, `upgrade` | compaction, worlds that others write to; chunks of earlier releases |
//! | `stored` | chunks as they lie in the file |

mod bodies;
mod body_changes;
mod cells;
mod check;
mod clear;
mod copies;
mod dimension;
mod edit;
mod entities;
mod identity;
mod info;
mod maintain;
mod open;
mod options;
mod pins;
mod settings;
mod stored;
mod upgrade;
mod whole;
mod world_frames;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bonfire::{Error, Result};

pub use self::check::CheckReport;
pub use self::dimension::Dimension;
use self::dimension::{DimensionSettings, OpenDimension};
pub use self::edit::{CommitReport, Edit, StoredChunk};
use self::identity::IdIndex;
pub use self::info::{DimensionInfo, Storage, WorldInfo};
pub use self::options::ChunkOptions;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use self::options::at;
use self::settings::{Settings, settings_frames, settings_places};
pub use self::upgrade::Upgrade;
pub use self::whole::WholeChunk;
use self::world_frames::WorldFrames;
use crate::codec::Choice;
use crate::file::{ChunkFile, OpenReport};
use crate::format::{Flags, FrameKey, FrameKind, Header};
use crate::frames::{FrameChange, NewFrame};
use crate::{Chunk, ChunkPos, ChunkRect, ChunkState, Durability, WorldShape};

/// A world of chunks in one file. Clones are the same world, and any of them may be used from any thread.
///
/// ```
/// use bonfire_chunks::{ChunkOptions, ChunkPos, Durability, Layer, Layers, Persistence};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("world.save");
/// let layers = Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always));
/// let world = ChunkOptions::new(layers).chunk_size(16).open(&path)?;
///
/// let mut cells = vec![0; 16 * 16];
/// cells[17] = 3;
/// world.edit().put((4, -2), cells.clone()).commit(Durability::Synced)?;
///
/// assert_eq!(world.read(ChunkPos::new(4, -2))?, Some(cells));
/// assert_eq!(world.read(ChunkPos::new(0, 0))?, None, "nobody has changed it");
/// world.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// | rule | |
/// |---|---|
/// | a chunk that is not in the file | `None`: it is as the generator makes it |
/// | a chunk that is damaged | an error, until it is saved again: never `None`, so that nothing is generated over it |
/// | a save | all of it or nothing; durable when [`commit`](Edit::commit) returns |
/// | one writer | a second one is refused with [`Error::is_conflict`]; readers are not |
/// | a sync that fails | nothing more is written: open the world again |
#[derive(Clone)]
pub struct ChunkWorld {
    inner: Arc<World>,
}

struct World {
    frames: WorldFrames,
    dimensions: BTreeMap<u32, OpenDimension>,
    options: ChunkOptions,
    report: OpenReport,
    /// The index of bodies and of entities with stable ids.
    ids: IdIndex,
    /// Chunks whose bodies are to be written again, without the empty ones and those of other chunks.
    stale_bodies: Mutex<BTreeSet<ChunkPos>>,
    /// Held from the look at what is there until the save is in the store: saves come one after the other.
    commit_turn: Mutex<()>,
    /// Never held while the disk syncs, so that reads do not wait for it.
    saving: Mutex<SaveState>,
    is_closed: std::sync::atomic::AtomicBool,
}

/// What saves go on with.
#[derive(Clone, Default)]
struct SaveState {
    /// The settings of each dimension.
    dimensions: BTreeMap<u32, DimensionSettings>,
}

impl ChunkWorld {
    /// What was found when it was opened.
    pub fn report(&self) -> &OpenReport {
        &self.inner.report
    }

    /// The seed that its chunks are generated from.
    pub fn seed(&self) -> u64 {
        self.inner.first_dimension().seed()
    }

    /// Cells along an edge of a chunk.
    pub fn chunk_size(&self) -> u32 {
        u32::from(self.inner.options.first().chunk_size)
    }

    /// Bytes of a cell in memory.
    pub fn cell_bytes(&self) -> usize {
        self.inner.options.first().layers.cell_bytes()
    }

    /// Bytes of a chunk in memory.
    pub fn chunk_bytes(&self) -> usize {
        self.inner.first_dimension().chunk_bytes()
    }

    /// Returns the seed, the sizes and the layers of a dimension, as its generator gets them. [`seed`](Self::seed),
    /// [`chunk_size`](Self::chunk_size), [`cell_bytes`](Self::cell_bytes) and [`chunk_bytes`](Self::chunk_bytes) are those of
    /// dimension 0. `None` if the game has not declared the dimension.
    pub fn shape(&self, dimension: u32) -> Option<WorldShape<'_>> {
        self.inner.dimensions.get(&dimension).map(OpenDimension::shape)
    }

    /// Returns the numbers of all dimensions that the game has declared.
    pub fn dimensions(&self) -> impl Iterator<Item = u32> + '_ {
        self.inner.dimensions.keys().copied()
    }

    /// The number of chunks in the file.
    pub fn len(&self) -> usize {
        self.inner.frames.store().count(FrameKind::Chunk)
    }

    /// Whether there are no chunks in the file.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a chunk is in the file, damaged or not.
    pub fn contains(&self, pos: impl Into<ChunkPos>) -> bool {
        let pos = pos.into();
        let kinds = [FrameKind::Chunk, FrameKind::DamagedChunk];
        kinds.iter().any(|kind| self.inner.frames.tag(FrameKey::new(*kind, pos)).is_some())
    }

    /// The chunks of a rectangle that are in the file, row by row.
    pub fn range(&self, rect: ChunkRect) -> Vec<ChunkPos> {
        self.inner.frames.positions(FrameKind::Chunk, &rect)
    }

    /// All chunks in the file, row by row, as they are now.
    pub fn iter(&self) -> impl Iterator<Item = ChunkPos> + use<> {
        self.range(ChunkRect::ALL).into_iter()
    }

    /// The cells of a chunk, row by row; `None` if it is as the generator makes it.
    pub fn read(&self, pos: impl Into<ChunkPos>) -> Result<Option<Vec<u8>>> {
        let pos = pos.into();
        let mut cells = vec![0; self.inner.dimension(pos)?.chunk_bytes()];
        Ok(self.inner.read_cells(pos, &mut cells)?.then_some(cells))
    }

    /// Puts the cells of a chunk into memory of yours. False if it is not in the file: then the memory holds nothing of use.
    pub fn read_into(&self, pos: impl Into<ChunkPos>, cells: &mut [u8]) -> Result<bool> {
        let pos = pos.into();
        let expected = self.inner.dimension(pos)?.chunk_bytes();
        if cells.len() != expected {
            return Err(Error::misuse(format!("a chunk has {expected} bytes and not {}", cells.len())));
        }
        self.inner.read_cells(pos, cells)
    }

    /// Reads several chunks, on several threads. The results are in the order of the places.
    pub fn read_many(&self, places: &[ChunkPos]) -> Vec<Result<Option<Vec<u8>>>> {
        crate::parallel::map(places, self.inner.options.threads, |pos| self.read(*pos))
    }

    /// Asks the system to have a rectangle at hand: what is read of it next does not wait for the disk. Returns how many
    /// chunks there are.
    pub fn prefetch(&self, rect: ChunkRect) -> usize {
        let places = self.range(rect);
        crate::parallel::map(&places, self.inner.options.threads, |pos| {
            // Whoever reads it hears what is wrong with it.
            let _ = self.inner.frames.read(FrameKey::new(FrameKind::Chunk, *pos), |_, _| Ok(()));
        });
        places.len()
    }

    /// A chunk as the game needs it: out of the file, or made by the generator.
    pub fn load(&self, pos: impl Into<ChunkPos>) -> Result<Chunk> {
        let pos = pos.into();
        let dimension = self.inner.dimension(pos)?;
        let mut cells = vec![0; dimension.chunk_bytes()];
        let state = match self.inner.read_cells(pos, &mut cells)? {
            true => ChunkState::Persisted,
            false => {
                dimension.generate(pos, &mut cells);
                ChunkState::Clean
            }
        };
        Ok(Chunk::new(pos, dimension.options.chunk_shape(), cells, state))
    }

    /// Collects what is to be saved together.
    pub fn edit(&self) -> Edit {
        Edit::new(self.clone())
    }

    /// Makes what was [buffered](crate::Durability::Buffered) durable.
    pub fn flush(&self) -> Result<()> {
        match self.inner.frames.file() {
            Some(file) => file.flush(),
            None => {
                let flushed = self.inner.frames.store().commit(FrameChange::default(), Durability::Synced);
                flushed.map(drop)
            }
        }
    }

    /// Brings the file up to date and lets go of it: the next open has nothing to replay. Other clones cannot write any more.
    ///
    /// A world that is dropped is closed too, but then nobody hears of an error. Nothing is lost either way.
    pub fn close(&self) -> Result<()> {
        self.inner.close()
    }
}

impl std::fmt::Debug for ChunkWorld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkWorld").field("chunks", &self.len()).finish_non_exhaustive()
    }
}

impl World {
    fn saving(&self) -> MutexGuard<'_, SaveState> {
        self.saving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stale_bodies(&self) -> MutexGuard<'_, BTreeSet<ChunkPos>> {
        self.stale_bodies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn commit_turn(&self) -> MutexGuard<'_, ()> {
        self.commit_turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The settings of a dimension, as frames.
    fn settings_frames(&self, dimension: &OpenDimension, settings: &Settings) -> Vec<NewFrame> {
        let cell_bytes = u8::try_from(settings.current().stored_bytes()).unwrap_or(u8::MAX);
        let header = dimension.options.header(&self.frames.header());
        let header = Header { cell_bytes, seed: dimension.seed(), ..header };
        settings_frames(dimension.number, settings, &header).collect()
    }

    fn is_compat(&self) -> bool {
        self.frames.has(Flags::COMPAT)
    }

    /// The codecs that chunks of this file may have.
    fn compression(&self) -> Choice {
        if self.is_compat() { Choice::compat() } else { self.options.choice }
    }

    fn close(&self) -> Result<()> {
        let store = self.frames.store();
        if self.is_closed.swap(true, std::sync::atomic::Ordering::AcqRel) || !store.is_writable() {
            return Ok(());
        }
        match self.frames.file() {
            Some(file) => self.close_file(file),
            None => store.close(),
        }
    }

    fn close_file(&self, file: &ChunkFile) -> Result<()> {
        let compaction = file.compaction_status();
        if (compaction.is_due || compaction.is_under_way)
            && !compaction.is_paused
            && let Err(error) = file.compact(&mut |_, _| {})
        {
            tracing::warn!(%error, "a chunk world could not be compacted");
        }
        let parted = self.part_settings(file);
        let (entities, listed) = match self.is_compat().then(|| file.entity_section()).transpose() {
            Ok(entities) => (entities, Ok(())),
            Err(error) => (None, Err(error)),
        };
        // Whatever went wrong before: what was saved is to be durable, and the file to be let go of.
        file.close(entities).and(parted).and(listed)
    }

    /// Both copies of the settings are written with a new world, side by side. Once there is room between them, the second one is
    /// written again, so that one piece of damage does not meet both.
    fn part_settings(&self, file: &ChunkFile) -> Result<()> {
        const APART_BYTES: u64 = 16 << 10;
        let is_side_by_side = |number: u32| {
            let state = file.state();
            let places =
                settings_places(number).map(|pos| state.indices.get(FrameKey::new(FrameKind::Settings, pos)));
            let [Some(one), Some(other)] = places else { return false };
            one.offset.abs_diff(other.offset) < APART_BYTES
                && state.file_bytes() - other.offset >= 2 * APART_BYTES
        };
        let mut frames = Vec::new();
        for (number, known) in self.saving().dimensions.clone() {
            // Settings that the file does not have come with the next save.
            if !known.is_changed && is_side_by_side(number) {
                frames.push(self.settings_frames(&self.dimensions[&number], &known.settings).remove(1));
            }
        }
        if frames.is_empty() {
            return Ok(());
        }
        file.commit(FrameChange { frames, removed: Vec::new() }, Durability::Synced).map(drop)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(%error, "a chunk world could not be closed; it is brought up to date when it is opened again");
        }
    }
}

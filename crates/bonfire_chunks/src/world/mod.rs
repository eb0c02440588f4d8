//! A world of chunks in one file.
//!
//! | file | |
//! |---|---|
//! | `options`, `settings` | what the game says of its world, and what the file says |
//! | `cells` | from cells to frames and back |
//! | `edit` | what is saved together |
//! | `bodies`, `entities` | what else a chunk has |
//! | `whole` | chunks with all of that, as of one moment |
//! | `maintain` | checks, compaction, copies, upgrades |
//! | `stored` | chunks as they lie in the file |

mod bodies;
mod cells;
mod edit;
mod entities;
mod maintain;
mod options;
mod settings;
mod stored;
mod whole;

use std::collections::{BTreeMap, HashMap};
#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use bonfire::{Error, Result};
use bonfire_store::disk::{Access, Disk};

pub use self::edit::{CommitReport, Edit, StoredChunk};
pub use self::maintain::{CheckReport, Storage, WorldInfo};
pub use self::options::ChunkOptions;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use self::options::at;
use self::settings::Settings;
pub use self::whole::WholeChunk;
use crate::codec::Choice;
use crate::file::{Change, ChunkFile, FileOptions, NewFile, NewFrame, OpenReport, Seal, newest_counted};
use crate::format::{Flags, FrameKey, FrameKind, FrameTag, Header};
use crate::{BodyId, Chunk, ChunkPos, ChunkRect, ChunkState, Conversion, LayerSet, Layers};

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
    file: ChunkFile,
    seed: u64,
    options: ChunkOptions,
    report: OpenReport,
    /// The layer sets of the file, by their number.
    sets: RwLock<BTreeMap<u8, LayerSet>>,
    /// From those sets to the layers that the game has today.
    conversions: Mutex<HashMap<u8, Arc<Conversion>>>,
    /// Held from the look at what is there until the save is in the file: saves come one after the other.
    commit_turn: Mutex<()>,
    /// Never held while the disk syncs, so that reads of bodies do not wait for it.
    saving: Mutex<SaveState>,
    is_closed: std::sync::atomic::AtomicBool,
}

struct SaveState {
    settings: Settings,
    /// Whether the file does not have them yet.
    settings_changed: bool,
    /// Where bodies are that this session has seen.
    homes: HashMap<BodyId, ChunkPos>,
    /// Where bodies will be once the save that is being written is in the file.
    arriving: HashMap<BodyId, ChunkPos>,
    /// Chunks whose bodies are to be written again without the empty ones.
    with_empty_bodies: std::collections::BTreeSet<ChunkPos>,
}

impl ChunkWorld {
    /// Opens the world at `path`, and makes a new one if there is none.
    ///
    /// A world that was not closed is brought to its last whole save. What is damaged is set aside, and the rest goes on:
    /// [`report`](Self::report) says what was found.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(path: impl AsRef<Path>, options: &ChunkOptions) -> Result<Self> {
        options.open(path)
    }

    /// Opens the world at `path` without knowing the game: with the layers and sizes of the file, and without a generator. With a
    /// key, a watch and the like: [`ChunkOptions::as_is`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open_as_is(path: impl AsRef<Path>, access: Access) -> Result<Self> {
        let (disk, name) = options::at(path.as_ref())?;
        Self::open_as_is_on(disk, &name, access)
    }

    /// Opens a world on a disk of your own without knowing the game.
    pub fn open_as_is_on(disk: impl Disk + 'static, name: &str, access: Access) -> Result<Self> {
        ChunkOptions::as_is().open_on(disk, name, access)
    }

    fn as_is(disk: Arc<dyn Disk>, name: &str, access: Access, mut options: ChunkOptions) -> Result<Self> {
        let (file, report) = ChunkFile::open(disk, name, access, options.file.clone())?;
        let settings = read_settings(&file)?;
        let header = file.state().header.clone();
        let set = settings.current();
        options.layers = Layers::of_set(set);
        (options.chunk_size, options.tile_size) = (header.chunk_size, header.tile_size);
        options.generator_name.clone_from(&settings.generator);
        options.generator_version = set.generator_version();
        // Nobody has made a world of sizes that no game can have.
        options.check().map_err(|error| Error::corrupt(format!("this world cannot be: {error}")))?;
        Ok(Self::of_file(file, options, report, settings, false))
    }

    fn open_with(disk: Arc<dyn Disk>, name: &str, access: Access, options: ChunkOptions) -> Result<Self> {
        if options.as_is {
            return Self::as_is(disk, name, access, options);
        }
        options.check()?;
        let open = || ChunkFile::open(disk.clone(), name, access, options.file.clone());
        let (file, mut report) = match open() {
            Err(error) if error.is_not_found() && access == Access::Write => {
                create(&*disk, name, &options)?;
                open()?
            }
            opened => opened?,
        };
        let header = file.state().header.clone();
        check_sizes(&header, &options)?;
        check_seed(&header, &options)?;
        let mut settings = read_settings(&file)?;
        let mut changed = settings.adopt_generator(&options)?;
        report.layers = Conversion::new(settings.current(), &options.layers)?.changes().clone();
        changed |= settings.adopt_layers(&options, &file)?;
        changed |= file.state().indices.of(FrameKind::Settings).len() != SETTINGS_PLACES.len();
        Ok(Self::of_file(file, options, report, settings, changed && access == Access::Write))
    }

    fn of_file(
        file: ChunkFile,
        options: ChunkOptions,
        report: OpenReport,
        settings: Settings,
        settings_changed: bool,
    ) -> Self {
        let seed = file.state().header.seed;
        let sets = RwLock::new(settings.sets.clone());
        let saving = SaveState {
            settings,
            settings_changed,
            homes: HashMap::new(),
            arriving: HashMap::new(),
            with_empty_bodies: Default::default(),
        };
        Self {
            inner: Arc::new(World {
                file,
                seed,
                options,
                report,
                sets,
                conversions: Mutex::default(),
                commit_turn: Mutex::default(),
                saving: Mutex::new(saving),
                is_closed: false.into(),
            }),
        }
    }

    /// What was found when it was opened.
    pub fn report(&self) -> &OpenReport {
        &self.inner.report
    }

    /// What its chunks are generated from.
    pub fn seed(&self) -> u64 {
        self.inner.seed
    }

    /// Cells along an edge of a chunk.
    pub fn chunk_size(&self) -> u32 {
        u32::from(self.inner.options.chunk_size)
    }

    /// Bytes of a cell in memory.
    pub fn cell_bytes(&self) -> usize {
        self.inner.options.layers.cell_bytes()
    }

    /// Bytes of a chunk in memory.
    pub fn chunk_bytes(&self) -> usize {
        self.inner.options.cells_per_chunk() * self.cell_bytes()
    }

    /// The number of chunks in the file.
    pub fn len(&self) -> usize {
        self.inner.file.state().indices.of(FrameKind::Chunk).len()
    }

    /// Whether there are no chunks in the file.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a chunk is in the file, damaged or not.
    pub fn contains(&self, pos: impl Into<ChunkPos>) -> bool {
        let (pos, state) = (pos.into(), self.inner.file.state());
        [FrameKind::Chunk, FrameKind::DamagedChunk]
            .iter()
            .any(|kind| state.indices.get(FrameKey::new(*kind, pos)).is_some())
    }

    /// The chunks of a rectangle that are in the file, row by row.
    pub fn range(&self, rect: ChunkRect) -> Vec<ChunkPos> {
        let state = self.inner.file.state();
        state.indices.of(FrameKind::Chunk).range(&rect).into_iter().map(|(pos, _)| pos).collect()
    }

    /// All chunks in the file, row by row, as they are now.
    pub fn iter(&self) -> impl Iterator<Item = ChunkPos> + use<> {
        self.range(ChunkRect::ALL).into_iter()
    }

    /// The cells of a chunk, row by row; `None` if it is as the generator makes it.
    pub fn read(&self, pos: impl Into<ChunkPos>) -> Result<Option<Vec<u8>>> {
        let mut cells = vec![0; self.chunk_bytes()];
        Ok(self.read_into(pos, &mut cells)?.then_some(cells))
    }

    /// Puts the cells of a chunk into memory of yours. False if it is not in the file: then the memory holds nothing of use.
    pub fn read_into(&self, pos: impl Into<ChunkPos>, cells: &mut [u8]) -> Result<bool> {
        let expected = self.chunk_bytes();
        if cells.len() != expected {
            return Err(Error::misuse(format!("a chunk has {expected} bytes and not {}", cells.len())));
        }
        self.inner.read_cells(pos.into(), cells)
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
            let _ = self.inner.file.read(FrameKey::new(FrameKind::Chunk, *pos), |_, _| Ok(()));
        });
        places.len()
    }

    /// A chunk as the game needs it: out of the file, or made by the generator.
    pub fn load(&self, pos: impl Into<ChunkPos>) -> Result<Chunk> {
        let pos = pos.into();
        let mut cells = vec![0; self.chunk_bytes()];
        let state = match self.inner.read_cells(pos, &mut cells)? {
            true => ChunkState::Persisted,
            false => {
                self.inner.generate(pos, &mut cells);
                ChunkState::Clean
            }
        };
        Ok(Chunk::new(pos, self.chunk_size(), self.cell_bytes(), cells, state))
    }

    /// Collects what is to be saved together.
    pub fn edit(&self) -> Edit {
        Edit::new(self.clone())
    }

    /// Makes what was [buffered](crate::Durability::Buffered) durable.
    pub fn flush(&self) -> Result<()> {
        self.inner.file.flush()
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

    fn commit_turn(&self) -> MutexGuard<'_, ()> {
        self.commit_turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sets(&self) -> RwLockReadGuard<'_, BTreeMap<u8, LayerSet>> {
        self.sets.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_compat(&self) -> bool {
        self.file.flags().has(Flags::COMPAT)
    }

    /// The codecs that chunks of this file may have.
    fn compression(&self) -> Choice {
        if self.is_compat() { Choice::compat() } else { self.options.choice }
    }

    fn close(&self) -> Result<()> {
        if self.is_closed.swap(true, std::sync::atomic::Ordering::AcqRel) || !self.file.is_writable() {
            return Ok(());
        }
        if self.file.is_compaction_due()
            && let Err(error) = self.file.compact(&mut |_, _| {})
        {
            tracing::warn!(%error, "a chunk world could not be compacted");
        }
        let parted = self.part_settings();
        let (entities, listed) = match self.is_compat().then(|| self.file.entity_section()).transpose() {
            Ok(entities) => (entities, Ok(())),
            Err(error) => (None, Err(error)),
        };
        // Whatever went wrong before: what was saved is to be durable, and the file to be let go of.
        self.file.close(entities).and(parted).and(listed)
    }

    /// Both copies of the settings are written with a new world, side by side. Once there is room between them, the second one is
    /// written again, so that one piece of damage does not meet both.
    fn part_settings(&self) -> Result<()> {
        const APART_BYTES: u64 = 16 << 10;
        let (places, header, end) = {
            let state = self.file.state();
            let places =
                SETTINGS_PLACES.map(|pos| state.indices.get(FrameKey::new(FrameKind::Settings, pos)));
            (places, state.header.clone(), state.file_bytes())
        };
        let [Some(one), Some(other)] = places else { return Ok(()) };
        if one.offset.abs_diff(other.offset) >= APART_BYTES || end - other.offset < 2 * APART_BYTES {
            return Ok(());
        }
        let frames = settings_frames(&self.saving().settings, &header).skip(1).collect();
        self.file.commit(Change { frames, removed: Vec::new() }, crate::Durability::Synced).map(drop)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(%error, "a chunk world could not be closed; it is brought up to date when it is opened again");
        }
    }
}

/// Settings are there twice.
const SETTINGS_PLACES: [ChunkPos; 2] = [ChunkPos::new(0, 0), ChunkPos::new(0, 1)];

fn read_settings(file: &ChunkFile) -> Result<Settings> {
    let mut first_error = None;
    for pos in SETTINGS_PLACES {
        match file.read(FrameKey::new(FrameKind::Settings, pos), |_, data| Settings::decode(data)) {
            Ok(Some(settings)) => return Ok(settings),
            Ok(None) => {}
            Err(error) => drop(first_error.get_or_insert(error)),
        }
    }
    Err(first_error.unwrap_or_else(|| {
        Error::corrupt("the settings of this world are lost, so its cells cannot be read")
    }))
}

fn settings_frames(settings: &Settings, header: &Header) -> impl Iterator<Item = NewFrame> {
    let data = settings.encode(header);
    SETTINGS_PLACES.into_iter().map(move |pos| NewFrame {
        key: FrameKey::new(FrameKind::Settings, pos),
        tag: FrameTag::default(),
        data: data.clone(),
    })
}

fn create(disk: &dyn Disk, name: &str, options: &ChunkOptions) -> Result<()> {
    let now = crate::clock::unix_seconds();
    let seal = options.file.key.as_ref().map(Seal::new).transpose()?.map(Arc::new);
    let sealed = Flags::SEALED | Flags::PROVEN;
    let flags = [(true, Flags::FRAMED), (options.compat, Flags::COMPAT), (seal.is_some(), sealed)];
    let flags = flags.into_iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag);
    let header = Header {
        flags: Flags(flags),
        seed: options.seed.unwrap_or(options.new_world_seed),
        created: options.created.unwrap_or(now),
        modified: now,
        count: 0,
        table_bytes: 0,
        data_start: 0,
        chunk_size: options.chunk_size,
        tile_size: options.tile_size,
        cell_bytes: u8::try_from(options.layers.stored_bytes()).unwrap_or(u8::MAX),
        entities: 0,
    };
    let set = options.layers.set(options.generator_version, &[])?;
    let settings = Settings::new(set, options.generator_name.clone());
    let change = Change { frames: settings_frames(&settings, &header).collect(), removed: Vec::new() };
    let FileOptions { capacity_min, counter, .. } = &options.file;
    // A world that was there before had smaller numbers.
    let generation = newest_counted(counter.as_ref(), name)?.saturating_add(1);
    NewFile { disk, name, header, capacity_min: *capacity_min, generation, seal }.create(&change)
}

fn check_sizes(header: &Header, options: &ChunkOptions) -> Result<()> {
    let sizes = [
        ("cells along an edge of a chunk", header.chunk_size, options.chunk_size),
        ("cells along an edge of a tile", header.tile_size, options.tile_size),
    ];
    match sizes.into_iter().find(|(_, found, expected)| found != expected) {
        Some((what, found, expected)) => {
            Err(Error::misuse(format!("this world has {found} {what}, and the game has {expected}")))
        }
        None => Ok(()),
    }
}

/// A generator with another seed makes other chunks, and deltas would land on them.
fn check_seed(header: &Header, options: &ChunkOptions) -> Result<()> {
    match options.seed {
        Some(seed) if seed != header.seed => Err(Error::misuse(format!(
            "this world has the seed {}, and the game has {seed}: leave the seed to the file, and give one for new worlds with \
             `ChunkOptions::new_world_seed`",
            header.seed
        ))),
        _ => Ok(()),
    }
}

//! Opening: a world in a file, or in another store of frames, with the layers of the game or with those that it has.

#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;
use std::sync::{Arc, Mutex, RwLock};

use bonfire::{Error, Result};
use bonfire_store::disk::{Access, Disk};

use super::identity::IdIndex;
use super::options::ChunkOptions;
use super::settings::{SETTINGS_PLACES, Settings, read_first, read_settings, settings_frames};
use super::world_frames::WorldFrames;
use super::{ChunkWorld, SaveState, World};
use crate::file::{ChunkFile, FileOptions, NewFile, OpenReport, Seal, TemporaryName, newest_counted};
use crate::format::{Flags, FrameKind, Header, Version, decode_head};
use crate::frames::{FrameChange, FrameStore};
use crate::{Conversion, Durability, Layers};

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
        let (disk, name) = super::options::at(path.as_ref())?;
        Self::open_as_is_on(disk, &name, access)
    }

    /// Opens a world on a disk of your own without knowing the game.
    pub fn open_as_is_on(disk: impl Disk + 'static, name: &str, access: Access) -> Result<Self> {
        ChunkOptions::as_is().open_on(disk, name, access)
    }

    fn as_is(disk: Arc<dyn Disk>, name: &str, access: Access, options: ChunkOptions) -> Result<Self> {
        let (file, report) = ChunkFile::open(disk, name, access, options.file.clone())?;
        let frames = WorldFrames::File(Arc::new(file));
        let settings = read_settings(&frames)?;
        Self::with_stored_layers(frames, options, report, settings)
    }

    /// A world with the layers and sizes that it was saved with.
    fn with_stored_layers(
        frames: WorldFrames,
        mut options: ChunkOptions,
        report: OpenReport,
        settings: Settings,
    ) -> Result<Self> {
        let (header, set) = (frames.header(), settings.current());
        options.layers = Layers::of_set(set);
        (options.chunk_size, options.tile_size) = (header.chunk_size, header.tile_size);
        options.generator_name.clone_from(&settings.generator);
        options.generator_version = set.generator_version();
        // Nobody has made a world of sizes that no game can have.
        options.check().map_err(|error| Error::corrupt(format!("this world cannot be: {error}")))?;
        Ok(Self::of_frames(frames, options, report, settings, false))
    }

    pub(super) fn open_with(
        disk: Arc<dyn Disk>,
        name: &str,
        access: Access,
        options: ChunkOptions,
    ) -> Result<Self> {
        if options.as_is {
            return Self::as_is(disk, name, access, options);
        }
        options.check()?;
        let open = || ChunkFile::open(disk.clone(), name, access, options.file.clone());
        let (file, report) = match open() {
            Err(error) if error.is_not_found() && access == Access::Write => {
                create(&*disk, name, &options)?;
                open()?
            }
            opened => opened?,
        };
        let frames = WorldFrames::File(Arc::new(file));
        let settings = read_settings(&frames)?;
        Self::with_layers_of_game(frames, options, report, settings)
    }

    pub(super) fn open_in(store: Arc<dyn FrameStore>, options: ChunkOptions) -> Result<Self> {
        options.check_without_file()?;
        if store.count(FrameKind::Settings) == 0 && store.is_writable() && !options.as_is {
            options.check()?;
            let header = first_header(&options);
            let settings = first_settings(&options)?;
            let frames = settings_frames(&settings, &header).collect();
            store.commit(FrameChange { frames, removed: Vec::new() }, Durability::Synced)?;
        }
        let (frames, report) = (WorldFrames::of_store(store, first_header(&options)), OpenReport::default());
        let settings = read_settings(&frames)?;
        let header = read_first(&frames, |data| {
            decode_head(data).ok_or_else(|| Error::corrupt("the settings of this world are cut"))
        })?;
        let frames = frames.with_header(header);
        match options.as_is {
            true => Self::with_stored_layers(frames, options, report, settings),
            false => Self::with_layers_of_game(frames, options, report, settings),
        }
    }

    /// A world with the layers that the game has today.
    fn with_layers_of_game(
        frames: WorldFrames,
        options: ChunkOptions,
        mut report: OpenReport,
        mut settings: Settings,
    ) -> Result<Self> {
        options.check()?;
        check_sizes(&frames.header(), &options)?;
        check_seed(&frames.header(), &options)?;
        let mut changed = settings.adopt_generator(&options)?;
        report.layers = Conversion::new(settings.current(), &options.layers)?.changes().clone();
        changed |= settings.adopt_layers(&options, &frames)?;
        changed |= frames.store().count(FrameKind::Settings) != SETTINGS_PLACES.len();
        let is_writable = frames.store().is_writable();
        Ok(Self::of_frames(frames, options, report, settings, changed && is_writable))
    }

    pub(super) fn of_frames(
        frames: WorldFrames,
        options: ChunkOptions,
        report: OpenReport,
        settings: Settings,
        settings_changed: bool,
    ) -> Self {
        let sets = RwLock::new(settings.sets.clone());
        let seed = frames.header().seed;
        let saving = SaveState { settings, settings_changed };
        let ids = IdIndex::default();
        if !report.is_fine() {
            ids.distrust();
        }
        Self {
            inner: Arc::new(World {
                frames,
                seed,
                options,
                report,
                sets,
                conversions: Mutex::default(),
                ids,
                stale_bodies: Mutex::default(),
                commit_turn: Mutex::default(),
                saving: Mutex::new(saving),
                is_closed: false.into(),
            }),
        }
    }
}

/// The header of a new world, without places.
fn first_header(options: &ChunkOptions) -> Header {
    let now = crate::clock::unix_seconds();
    let sealed = Flags::SEALED | Flags::PROVEN;
    let flags =
        [(true, Flags::FRAMED), (options.compat, Flags::COMPAT), (options.file.key.is_some(), sealed)];
    let flags = flags.into_iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag);
    Header {
        version: Version::Flat,
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
    }
}

/// The settings of a new world.
fn first_settings(options: &ChunkOptions) -> Result<Settings> {
    let set = options.layers.set(options.generator_version, &[])?;
    Ok(Settings::new(set, options.generator_name.clone()))
}

fn create(disk: &dyn Disk, name: &str, options: &ChunkOptions) -> Result<()> {
    let seal = options.file.key.as_ref().map(Seal::new).transpose()?.map(Arc::new);
    let header = first_header(options);
    let settings = first_settings(options)?;
    let change = FrameChange { frames: settings_frames(&settings, &header).collect(), removed: Vec::new() };
    let FileOptions { capacity_min, counter, .. } = &options.file;
    // A world that was there before had smaller numbers.
    let generation = newest_counted(counter.as_ref(), name)?.saturating_add(1);
    let temporary = TemporaryName::InOneGo;
    NewFile { disk, name, temporary, header, capacity_min: *capacity_min, generation, seal }.create(&change)
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

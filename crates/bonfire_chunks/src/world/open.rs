//! Opening: a world in a file, or in another store of frames, with the layers of the game or with those that it has.

use std::collections::BTreeMap;
#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;
use std::sync::{Arc, Mutex};

use bonfire::{Error, Result};
use bonfire_store::disk::{Access, Disk};

use super::dimension::{Dimension, DimensionSettings, FIRST, OpenDimension};
use super::identity::IdIndex;
use super::options::ChunkOptions;
use super::settings::{Settings, StoredDimension, read_settings, settings_frames, settings_places};
use super::world_frames::WorldFrames;
use super::{ChunkWorld, SaveState, World};
use crate::file::{ChunkFile, FileOptions, NewFile, OpenReport, Seal, TemporaryName, newest_counted};
use crate::format::{Flags, FrameKind, Header};
use crate::frames::{FrameChange, FrameStore, NewFrame};
use crate::{ChunkRect, Conversion, Durability, LayerChanges, Layers};

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
        let stored = read_settings(&frames)?;
        Self::with_stored_layers(frames, options, report, stored)
    }

    /// A world with the layers and sizes that it was saved with.
    fn with_stored_layers(
        frames: WorldFrames,
        mut options: ChunkOptions,
        report: OpenReport,
        stored: BTreeMap<u32, StoredDimension>,
    ) -> Result<Self> {
        let mut dimensions = Vec::new();
        for (number, StoredDimension { header, settings }) in stored {
            let dimension = options.dimensions.entry(number).or_insert_with(|| Dimension::new(Layers::new()));
            dimension.adopt(&header, &settings);
            dimensions.push((number, header.seed, settings, false));
        }
        // Nobody has made a world of sizes that no game can have.
        options.check().map_err(|error| Error::corrupt(format!("this world cannot be: {error}")))?;
        Ok(Self::of_frames(frames, options, report, dimensions))
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
        let stored = read_settings(&frames)?;
        Self::with_layers_of_game(frames, options, report, stored)
    }

    pub(super) fn open_in(store: Arc<dyn FrameStore>, options: ChunkOptions) -> Result<Self> {
        options.check_without_file()?;
        if store.count(FrameKind::Settings) == 0 && store.is_writable() && !options.as_is {
            options.check()?;
            let frames = first_frames(&options, &first_header(&options))?;
            store.commit(FrameChange { frames, removed: Vec::new() }, Durability::Synced)?;
        }
        let (frames, report) = (WorldFrames::of_store(store, first_header(&options)), OpenReport::default());
        let stored = read_settings(&frames)?;
        let frames = frames.with_header(stored[&FIRST].header.clone());
        match options.as_is {
            true => Self::with_stored_layers(frames, options, report, stored),
            false => Self::with_layers_of_game(frames, options, report, stored),
        }
    }

    /// A world with the layers that the game has today.
    fn with_layers_of_game(
        frames: WorldFrames,
        options: ChunkOptions,
        mut report: OpenReport,
        mut stored: BTreeMap<u32, StoredDimension>,
    ) -> Result<Self> {
        options.check()?;
        let is_writable = frames.store().is_writable();
        let mut dimensions = Vec::new();
        for (&number, dimension) in &options.dimensions {
            let Some(StoredDimension { header, mut settings }) = stored.remove(&number) else {
                check_unused(&frames, number)?;
                // The file gets it with the first save in it.
                let header = dimension.header(&frames.header());
                dimensions.push((number, header.seed, dimension.first_settings()?, is_writable));
                continue;
            };
            dimension.check_file(number, &header, &settings)?;
            let mut is_changed = settings.adopt_generator(dimension)?;
            let changes = Conversion::new(settings.current(), &dimension.layers)?.changes().clone();
            match number {
                FIRST => report.layers = changes,
                _ if changes == LayerChanges::default() => {}
                _ => drop(report.layers_of_dimensions.insert(number, changes)),
            }
            is_changed |= settings.adopt_layers(number, dimension, &frames)?;
            let rect = ChunkRect::of_dimension(number);
            is_changed |= frames.positions(FrameKind::Settings, &rect).len() != settings_places(number).len();
            dimensions.push((number, header.seed, settings, is_changed && is_writable));
        }
        Ok(Self::of_frames(frames, options, report, dimensions))
    }

    /// A world with these frames. Of each dimension: its number, seed and settings, and whether the file lacks the settings.
    pub(super) fn of_frames(
        frames: WorldFrames,
        options: ChunkOptions,
        report: OpenReport,
        all: Vec<(u32, u64, Settings, bool)>,
    ) -> Self {
        let (mut dimensions, mut saving) = (BTreeMap::new(), SaveState::default());
        for (number, seed, settings, is_changed) in all {
            let Some(dimension) = options.dimensions.get(&number) else { continue };
            dimensions.insert(number, OpenDimension::new(number, dimension.clone(), seed, &settings));
            saving.dimensions.insert(number, DimensionSettings { settings, is_changed });
        }
        let ids = IdIndex::default();
        if !report.is_fine() {
            ids.distrust();
        }
        Self {
            inner: Arc::new(World {
                frames,
                dimensions,
                options,
                report,
                ids,
                stale_bodies: Mutex::default(),
                commit_turn: Mutex::default(),
                saving: Mutex::new(saving),
                is_closed: false.into(),
            }),
        }
    }
}

/// Refuses a dimension that the file has something in, but no settings.
fn check_unused(frames: &WorldFrames, number: u32) -> Result<()> {
    let rect = ChunkRect::of_dimension(number);
    let is_used = FrameKind::CONTENT.into_iter().any(|kind| !frames.store().list(kind, &rect).is_empty());
    match is_used {
        true => Err(Error::corrupt(format!(
            "the settings of dimension {number} are lost, so its cells cannot be read"
        ))),
        false => Ok(()),
    }
}

/// The header of a new world, without places.
fn first_header(options: &ChunkOptions) -> Header {
    let now = crate::clock::unix_seconds();
    let sealed = Flags::SEALED | Flags::PROVEN;
    let flags =
        [(true, Flags::FRAMED), (options.compat, Flags::COMPAT), (options.file.key.is_some(), sealed)];
    let flags = flags.into_iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag);
    options.first().header(&Header {
        version: options.version(),
        flags: Flags(flags),
        created: options.created.unwrap_or(now),
        modified: now,
        ..Header::default()
    })
}

/// The settings of all dimensions of a new world.
fn first_frames(options: &ChunkOptions, header: &Header) -> Result<Vec<NewFrame>> {
    let mut frames = Vec::new();
    for (number, dimension) in &options.dimensions {
        let settings = dimension.first_settings()?;
        frames.extend(settings_frames(*number, &settings, &dimension.header(header)));
    }
    Ok(frames)
}

fn create(disk: &dyn Disk, name: &str, options: &ChunkOptions) -> Result<()> {
    let seal = options.file.key.as_ref().map(Seal::new).transpose()?.map(Arc::new);
    let header = first_header(options);
    let change = FrameChange { frames: first_frames(options, &header)?, removed: Vec::new() };
    let FileOptions { capacity_min, counter, .. } = &options.file;
    // A world that was there before had smaller numbers.
    let generation = newest_counted(counter.as_ref(), name)?.saturating_add(1);
    let temporary = TemporaryName::InOneGo;
    NewFile { disk, name, temporary, header, capacity_min: *capacity_min, generation, seal }.create(&change)
}

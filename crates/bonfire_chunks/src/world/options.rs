//! What a game says of its world before it opens it.

use std::collections::BTreeMap;
#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;
use std::sync::Arc;

use bonfire::{Error, Result, Watch};
use bonfire_store::disk::{Access, Disk};

use super::ChunkWorld;
use super::dimension::{Dimension, FIRST};
use crate::codec::Choice;
use crate::file::FileOptions;
use crate::format::Version;
use crate::frames::FrameStore;
use crate::{BodyLimits, Generator, Layers};

/// What a world is made of, and how it is kept. Start with [`ChunkOptions::new`].
///
/// Sizes, seed, the name of the generator, [`compat`](Self::compat) and the key are those of the file once there is one. The rest
/// may change from session to session.
#[derive(Clone)]
pub struct ChunkOptions {
    /// Dimension 0, and those that the game has beside it.
    pub(super) dimensions: BTreeMap<u32, Dimension>,
    pub(super) created: Option<u64>,
    pub(super) compat: bool,
    pub(super) choice: Choice,
    pub(super) delta_threshold: f64,
    pub(super) threads: usize,
    pub(super) body_limits: BodyLimits,
    pub(super) file: FileOptions,
    /// Layers and sizes are those of the file.
    pub(super) as_is: bool,
}

impl ChunkOptions {
    /// A world of these layers, in chunks of 512 by 512 cells.
    pub fn new(layers: Layers) -> Self {
        Self {
            dimensions: BTreeMap::from([(FIRST, Dimension::new(layers))]),
            created: None,
            compat: false,
            choice: Choice::default(),
            delta_threshold: 0.75,
            threads: crate::parallel::available(),
            body_limits: BodyLimits::default(),
            file: FileOptions {
                key: None,
                counter: None,
                salvage: false,
                accepts_old_seal: false,
                watch: None,
                eager: false,
                capacity_min: 1024,
                dead_share_max: Some(0.25),
                dead_bytes_min: 1 << 20,
                step_bytes: 256 << 10,
            },
            as_is: false,
        }
    }

    /// A world whose game nobody knows: with the layers and sizes of its file, and without a generator. For tools. It must be
    /// there.
    pub fn as_is() -> Self {
        // A compaction makes room for what there is, and not for what a game expects.
        let options = Self::new(Layers::new()).table_capacity(16);
        Self { as_is: true, ..options }
    }

    /// Cells along an edge of a chunk; 4096 at most. Default: 512. A file with other ones is refused.
    pub fn chunk_size(self, cells: u16) -> Self {
        self.with_first(|first| first.chunk_size(cells))
    }

    /// Cells along an edge of a tile, for games whose simulation has them. Default: 32. A file with other ones is refused.
    pub fn tile_size(self, cells: u16) -> Self {
        self.with_first(|first| first.tile_size(cells))
    }

    /// Gives places a third coordinate: see [`Dimension::three_dimensional`]. Default: two coordinates.
    pub fn three_dimensional(self) -> Self {
        self.with_first(Dimension::three_dimensional)
    }

    /// Adds a dimension. A world that is there and has no such dimension gets it with the first save in it. One that the game
    /// does not declare stays in the file. Number 0 replaces what these options say of layers, sizes, seed and generator.
    pub fn dimension(mut self, number: u32, dimension: Dimension) -> Self {
        self.dimensions.insert(number, dimension);
        self
    }

    /// Dimension 0, which the methods of these options describe.
    pub(super) fn first(&self) -> &Dimension {
        &self.dimensions[&FIRST]
    }

    fn with_first(mut self, change: impl FnOnce(Dimension) -> Dimension) -> Self {
        let first = change(self.first().clone());
        self.dimensions.insert(FIRST, first);
        self
    }

    /// The seed that the world is generated from, for a game that knows it. A file with another seed is refused with both numbers. Default:
    /// a world has the seed that is in its file.
    pub fn seed(self, seed: u64) -> Self {
        self.with_first(|first| first.seed(seed))
    }

    /// The seed of a new world, for a game that rolls one: a world that is there keeps its own. The generator gets
    /// the seed of the world, and so does [`ChunkWorld::seed`]. Default: 0.
    pub fn new_world_seed(self, seed: u64) -> Self {
        self.with_first(|first| first.new_world_seed(seed))
    }

    /// When a new world was made, in seconds since 1970. Default: now.
    pub fn created(mut self, unix_seconds: u64) -> Self {
        self.created = Some(unix_seconds);
        self
    }

    /// The generator of chunks that were never changed. A file whose chunks were made by a generator with another name is refused.
    pub fn generator(self, generator: impl Generator + 'static) -> Self {
        self.with_first(|first| first.generator(generator))
    }

    /// The name of the generator, for a closure, or where the generator itself is not at hand. Call it after
    /// [`generator`](Self::generator).
    pub fn generator_name(self, name: impl Into<String>) -> Self {
        self.with_first(|first| first.generator_name(name))
    }

    /// The version of the generator, where the generator itself is not at hand: for tools that store deltas as they are.
    pub fn generator_version(self, version: u32) -> Self {
        self.with_first(|first| first.generator_version(version))
    }

    /// Makes a new world one that readers of the plain layout understand: LZ4 and plain deltas only, and a list of all bodies
    /// after each close. Default: no.
    pub fn compat(mut self) -> Self {
        self.compat = true;
        self
    }

    /// How chunks may be compressed. Default: [`Choice::fast`].
    pub fn compression(mut self, choice: Choice) -> Self {
        self.choice = choice;
        self
    }

    /// The share of its cells up to which a chunk may be stored as a delta. Default: 0.75. Below it the smaller one wins.
    pub fn delta_threshold(mut self, share: f64) -> Self {
        self.delta_threshold = share;
        self
    }

    /// Brings header and page table up to date with every save, at the price of a second sync. Default: no; then it
    /// happens now and then, and on close.
    pub fn eager(mut self) -> Self {
        self.file.eager = true;
        self
    }

    /// The share of the file that may be dead before it is compacted by itself, `None` for never. Default: 0.25.
    pub fn compact_above(mut self, dead_share: Option<f64>) -> Self {
        self.file.dead_share_max = dead_share;
        self
    }

    /// Dead bytes that are never worth a compaction by itself. Default: 1 MiB.
    pub fn compact_at_least(mut self, dead_bytes: u64) -> Self {
        self.file.dead_bytes_min = dead_bytes;
        self
    }

    /// Bytes that one step of a compaction copies at most. A single chunk that is larger is copied in one step. Default:
    /// 256 KiB.
    pub fn compaction_step(mut self, bytes: u64) -> Self {
        self.file.step_bytes = bytes.max(1);
        self
    }

    /// How many chunks the page table has room for at first, and after a compaction at least. Default: 1024. It grows by
    /// half of itself when it is full.
    pub fn table_capacity(mut self, chunks: u32) -> Self {
        self.file.capacity_min = chunks.max(1);
        self
    }

    /// How many threads compress and decompress. Default: as many as the machine has.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// How large bodies may be that are read.
    pub fn body_limits(mut self, limits: BodyLimits) -> Self {
        self.body_limits = limits;
        self
    }

    /// Seals the world. Nobody reads cells, bodies and entities without the key, and nobody changes anything: a chunk that is
    /// put back, a setting that is changed, a part that is taken away is an error. Where chunks are, how long they are and when
    /// they were saved is not hidden, and neither are names of layers and materials. A world that is sealed needs the key to be
    /// written to, and one that is not refuses it.
    #[cfg(feature = "seal")]
    pub fn sealed(mut self, key: bonfire_store::SealKey) -> Self {
        self.file.key = Some(key);
        self
    }

    /// Notices an old copy of the whole file of a sealed world: each save that is durable is counted, and a file with an older
    /// one is refused with [`is_rollback`](Error::is_rollback). The family is the name of the file in lower case. Default: none, and such a copy
    /// opens.
    #[cfg(feature = "seal")]
    pub fn counter(mut self, counter: impl bonfire_store::TrustedCounter + 'static) -> Self {
        self.file.counter = Some(Arc::new(counter));
        self
    }

    /// Opens a world that is sealed in an old way (version 1), too:
    /// [`OpenReport::seal_outdated`](crate::OpenReport::seal_outdated) says so. It proves the content of single chunks
    /// and nothing else. The first write seals it anew, whatever it holds by then. This is for a game that had such
    /// worlds: anybody can make a file that calls itself one, and put it in the place of a newer world. Default: it is
    /// refused with [`is_unsupported`](Error::is_unsupported).
    #[cfg(feature = "seal")]
    pub fn accept_old_seal(mut self) -> Self {
        self.file.accepts_old_seal = true;
        self
    }

    /// Opens a sealed world that does not prove what it holds, because parts of it were changed, put back or lost:
    /// [`OpenReport::unproven`](crate::OpenReport::unproven) says so. Chunks still come with their seal or not at all. Default: such a world is refused
    /// with [`is_corrupt`](Error::is_corrupt). With a [counter](Self::counter) it is refused all the same, with
    /// [`is_rollback`](Error::is_rollback).
    pub fn salvage(mut self) -> Self {
        self.file.salvage = true;
        self
    }

    /// Follows the work of opening, and stops it: it counts bytes of the file.
    pub fn watch(mut self, watch: &Watch) -> Self {
        self.file.watch = Some(watch.clone());
        self
    }

    /// Opens the world at `path`, and makes a new one if there is none. See [`ChunkWorld::open`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(&self, path: impl AsRef<Path>) -> Result<ChunkWorld> {
        let (disk, name) = at(path.as_ref())?;
        self.open_on(disk, &name, Access::Write)
    }

    /// Opens the world at `path` for reading, also beside a process that writes to it. See
    /// [`ChunkWorld::refresh`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open_read_only(&self, path: impl AsRef<Path>) -> Result<ChunkWorld> {
        let (disk, name) = at(path.as_ref())?;
        self.open_on(disk, &name, Access::Read)
    }

    /// Opens a world on a disk of your own. To write means to make it if it is not there.
    pub fn open_on(&self, disk: impl Disk + 'static, name: &str, access: Access) -> Result<ChunkWorld> {
        ChunkWorld::open_with(Arc::new(disk), name, access, self.clone())
    }

    /// Opens a world whose frames are in a store of another kind than a file: in memory, or in a store of your own. To write
    /// means to make the world if the store is empty.
    ///
    /// Seals, counters and the plain layout are those of files, and are refused here.
    pub fn open_in(&self, store: impl FrameStore + 'static) -> Result<ChunkWorld> {
        ChunkWorld::open_in(Arc::new(store), self.clone())
    }

    /// Refuses what only a file can do.
    pub(super) fn check_without_file(&self) -> Result<()> {
        let what = match self {
            _ if self.compat => "the plain layout",
            _ if self.file.key.is_some() => "a seal",
            _ if self.file.counter.is_some() => "a counter",
            _ => return Ok(()),
        };
        Err(Error::misuse(format!("only a world in a file can have {what}")))
    }

    pub(super) fn check(&self) -> Result<()> {
        self.dimensions.values().try_for_each(Dimension::check)?;
        if self.compat && self.version() > Version::Flat {
            return Err(Error::misuse(
                "readers of the plain layout know two coordinates and one dimension: leave `compat` out",
            ));
        }
        if self.compat && self.file.key.is_some() {
            return Err(Error::misuse("a world cannot be sealed and read by readers of the plain layout"));
        }
        if self.file.counter.is_some() && self.file.key.is_none() {
            return Err(Error::misuse(
                "a counter needs a sealed world: others do not prove which save is theirs",
            ));
        }
        Ok(())
    }

    /// Returns the version of a new file.
    pub(super) fn version(&self) -> Version {
        let is_flat = self.dimensions.len() == 1 && !self.first().is_three_dimensional;
        if is_flat { Version::Flat } else { Version::Deep }
    }
}

impl std::fmt::Debug for ChunkOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkOptions")
            .field("dimensions", &self.dimensions)
            .field("compat", &self.compat)
            .finish_non_exhaustive()
    }
}

/// The directory and the name of a path.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn at(path: &Path) -> Result<(bonfire_store::disk::OsDisk, String)> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name =
        name.ok_or_else(|| Error::misuse(format!("`{}` has no file name of Unicode", path.display())))?;
    Ok((bonfire_store::disk::OsDisk::at(path.parent().unwrap_or(Path::new(""))), name.to_owned()))
}

//! Dimensions: what a game says of one before it opens its world, and one of an open world.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use bonfire::{Error, Result};

use super::settings::Settings;
use super::{SaveState, World};
use crate::chunk::{ChunkShape, EmptyCell};
use crate::format::Header;
use crate::layers::NAME_BYTES_MAX;
use crate::{ChunkPos, Conversion, Generator, LayerSet, Layers, WorldShape};

/// The dimension that every world has.
pub(super) const FIRST: u32 = 0;

/// Cells that a chunk has at most.
const CELLS_MAX: usize = 4096 * 4096;

/// One dimension of a world: its layers, sizes, seed and generator. All dimensions live in one file, so that one save and one
/// pin cover them.
///
/// The methods of [`ChunkOptions`](crate::ChunkOptions) describe dimension 0, which every world has.
///
/// ```
/// use bonfire_chunks::{ChunkOptions, ChunkPos, Dimension, Durability, Layer, Layers, Persistence};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("world.save");
/// let layers = || Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always));
/// let underworld = Dimension::new(layers()).chunk_size(8).three_dimensional().seed(666);
/// let world = ChunkOptions::new(layers()).chunk_size(16).dimension(1, underworld).open(&path)?;
///
/// let below = ChunkPos::new_3d(0, 0, -3).in_dimension(1);
/// let mut edit = world.edit();
/// edit.put((0, 0), vec![1; 16 * 16]).put(below, vec![2; 8 * 8 * 8]);
/// edit.commit(Durability::Synced)?; // both dimensions, or neither
/// assert_eq!(world.read(below)?, Some(vec![2; 8 * 8 * 8]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Dimension {
    pub(super) layers: Layers,
    pub(super) chunk_size: u16,
    pub(super) tile_size: u16,
    pub(super) is_three_dimensional: bool,
    /// The expectation of the game.
    pub(super) seed: Option<u64>,
    pub(super) new_world_seed: u64,
    pub(super) generator: Option<Arc<dyn Generator>>,
    pub(super) generator_name: String,
    pub(super) generator_version: u32,
}

impl Dimension {
    /// A dimension of these layers, in chunks of 512 by 512 cells.
    pub fn new(layers: Layers) -> Self {
        Self {
            layers,
            chunk_size: 512,
            tile_size: 32,
            is_three_dimensional: false,
            seed: None,
            new_world_seed: 0,
            generator: None,
            generator_name: String::new(),
            generator_version: 0,
        }
    }

    /// Cells along an edge of a chunk; 4096 at most, and 256 with three coordinates. Default: 512. A file with other ones is
    /// refused.
    pub fn chunk_size(mut self, cells: u16) -> Self {
        self.chunk_size = cells;
        self
    }

    /// Cells along an edge of a tile, for games whose simulation has them. Default: 32. A file with other ones is refused.
    pub fn tile_size(mut self, cells: u16) -> Self {
        self.tile_size = cells;
        self
    }

    /// Gives places a third coordinate: chunks are cubes, whose cells come layer by layer (`z`), each row by row. Default: two
    /// coordinates. Bodies have two coordinates, so that such a dimension has none.
    pub fn three_dimensional(mut self) -> Self {
        self.is_three_dimensional = true;
        self
    }

    /// The seed that the dimension is generated from, for a game that knows it. A file with another seed is refused with both
    /// numbers. Default: a dimension has the seed that is in its file.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The seed of a new dimension, for a game that rolls one: a dimension that is there keeps its own. The generator gets the
    /// seed that the dimension has. Default: 0.
    pub fn new_world_seed(mut self, seed: u64) -> Self {
        self.new_world_seed = seed;
        self
    }

    /// The generator of chunks that were never changed. A file whose chunks were made by a generator with another name is refused.
    pub fn generator(mut self, generator: impl Generator + 'static) -> Self {
        self.generator_version = generator.version();
        self.generator_name = generator.name().to_owned();
        self.generator = Some(Arc::new(generator));
        self
    }

    /// The name of the generator, for a closure, or where the generator itself is not at hand. Call it after
    /// [`generator`](Self::generator).
    pub fn generator_name(mut self, name: impl Into<String>) -> Self {
        self.generator_name = name.into();
        self
    }

    /// The version of the generator, where the generator itself is not at hand: for tools that store deltas as they are.
    pub fn generator_version(mut self, version: u32) -> Self {
        self.generator_version = version;
        self
    }

    pub(super) fn check(&self) -> Result<()> {
        self.layers.check()?;
        let edge_max = if self.is_three_dimensional { 256 } else { 4096 };
        if self.chunk_size == 0 || self.chunk_size > edge_max {
            let size = self.chunk_size;
            return Err(Error::misuse(format!(
                "a chunk cannot have {size} cells along an edge: 1 to {edge_max}"
            )));
        }
        debug_assert!(self.cells_per_chunk() <= CELLS_MAX);
        if self.layers.stored_bytes() > usize::from(u8::MAX) {
            return Err(Error::misuse("a cell cannot have so many bytes"));
        }
        if self.generator_name.len() > NAME_BYTES_MAX {
            return Err(Error::misuse(format!(
                "the name of the generator has {} bytes, more than {NAME_BYTES_MAX}: choose a shorter one",
                self.generator_name.len()
            )));
        }
        Ok(())
    }

    /// The settings of this dimension in a new file.
    pub(super) fn first_settings(&self) -> Result<Settings> {
        let set = self.layers.set(self.generator_version, &[])?;
        let mut settings = Settings::new(set, self.generator_name.clone());
        settings.is_three_dimensional = self.is_three_dimensional;
        Ok(settings)
    }

    /// The header of a file, as this dimension has it in its settings.
    pub(super) fn header(&self, of_file: &Header) -> Header {
        Header {
            seed: self.seed.unwrap_or(self.new_world_seed),
            chunk_size: self.chunk_size,
            tile_size: self.tile_size,
            cell_bytes: u8::try_from(self.layers.stored_bytes()).unwrap_or(u8::MAX),
            ..of_file.clone()
        }
    }

    /// Makes it what a file says of it: for a program that does not know the game.
    pub(super) fn adopt(&mut self, header: &Header, settings: &Settings) {
        let set = settings.current();
        self.layers = Layers::of_set(set);
        (self.chunk_size, self.tile_size) = (header.chunk_size, header.tile_size);
        self.is_three_dimensional = settings.is_three_dimensional;
        self.generator_name.clone_from(&settings.generator);
        self.generator_version = set.generator_version();
    }

    /// Refuses a file that has other sizes or another seed.
    pub(super) fn check_file(&self, number: u32, header: &Header, settings: &Settings) -> Result<()> {
        let what = if number == FIRST { "this world".to_owned() } else { format!("dimension {number}") };
        let coordinates = |is_deep: bool| if is_deep { 3 } else { 2 };
        let sizes = [
            ("cells along an edge of a chunk", header.chunk_size, self.chunk_size),
            ("cells along an edge of a tile", header.tile_size, self.tile_size),
            (
                "coordinates",
                coordinates(settings.is_three_dimensional),
                coordinates(self.is_three_dimensional),
            ),
        ];
        if let Some((name, found, expected)) =
            sizes.into_iter().find(|(_, found, expected)| found != expected)
        {
            return Err(Error::misuse(format!("{what} has {found} {name}, and the game has {expected}")));
        }
        // A generator with another seed makes other chunks, and deltas would land on them.
        match self.seed {
            Some(seed) if seed != header.seed => Err(Error::misuse(format!(
                "{what} has the seed {}, and the game has {seed}: leave the seed to the file, and give one for new worlds with \
                 `new_world_seed`",
                header.seed
            ))),
            _ => Ok(()),
        }
    }

    pub(super) fn cells_per_chunk(&self) -> usize {
        usize::from(self.chunk_size) * usize::from(self.chunk_size) * self.depth() as usize
    }

    /// The sizes of a chunk.
    pub(super) fn chunk_shape(&self) -> ChunkShape {
        let (size, cell_bytes) = (u32::from(self.chunk_size), self.layers.cell_bytes());
        let empty = EmptyCell { cell: self.layers.default_cell(), stored_bits: self.layers.stored_bits() };
        ChunkShape { size, depth: self.depth(), cell_bytes, empty: Arc::new(empty) }
    }

    /// Cells of a chunk along `z`.
    fn depth(&self) -> u32 {
        if self.is_three_dimensional { u32::from(self.chunk_size) } else { 1 }
    }
}

impl std::fmt::Debug for Dimension {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { chunk_size, tile_size, is_three_dimensional, seed, .. } = self;
        f.debug_struct("Dimension")
            .field("chunk_size", chunk_size)
            .field("tile_size", tile_size)
            .field("is_three_dimensional", is_three_dimensional)
            .field("seed", seed)
            .finish_non_exhaustive()
    }
}

/// One dimension of an open world.
pub(super) struct OpenDimension {
    pub(super) number: u32,
    pub(super) options: Dimension,
    seed: AtomicU64,
    /// The layer sets of the file, by their number.
    sets: RwLock<BTreeMap<u8, LayerSet>>,
    /// From those sets to the layers that the game has today.
    conversions: Mutex<HashMap<u8, Arc<Conversion>>>,
}

impl OpenDimension {
    pub(super) fn new(number: u32, options: Dimension, seed: u64, settings: &Settings) -> Self {
        let sets = RwLock::new(settings.sets.clone());
        Self { number, options, seed: seed.into(), sets, conversions: Mutex::default() }
    }

    /// The seed that the dimension is generated from.
    pub(super) fn seed(&self) -> u64 {
        self.seed.load(Ordering::Relaxed)
    }

    /// Bytes of a chunk in memory.
    pub(super) fn chunk_bytes(&self) -> usize {
        self.options.cells_per_chunk() * self.options.layers.cell_bytes()
    }

    /// Takes over seed and layer sets of a file that another process has written to.
    pub(super) fn refresh(&self, header: &Header, settings: &Settings) {
        self.seed.store(header.seed, Ordering::Relaxed);
        *self.sets.write().unwrap_or_else(PoisonError::into_inner) = settings.sets.clone();
        self.conversions.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(super) fn sets(&self) -> RwLockReadGuard<'_, BTreeMap<u8, LayerSet>> {
        self.sets.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// From a set of the file to the cells of the game, and the bytes of a cell in the file.
    pub(super) fn conversion(&self, set: u8) -> Result<(Arc<Conversion>, usize)> {
        let mut known = self.conversions.lock().unwrap_or_else(PoisonError::into_inner);
        let conversion = match known.get(&set) {
            Some(conversion) => conversion.clone(),
            None => {
                let sets = self.sets();
                let layers = sets.get(&set);
                let layers = layers.ok_or_else(|| no_set(set))?;
                let conversion = Arc::new(Conversion::new(layers, &self.options.layers)?);
                known.insert(set, conversion.clone());
                conversion
            }
        };
        let bytes = conversion.stored_bytes();
        Ok((conversion, bytes))
    }

    /// What a generator is told of it.
    pub(super) fn shape(&self) -> WorldShape<'_> {
        WorldShape {
            dimension: self.number,
            is_three_dimensional: self.options.is_three_dimensional,
            ..WorldShape::new(self.seed(), u32::from(self.options.chunk_size), &self.options.layers)
        }
    }
}

/// The error for a layer set that nothing is known of.
pub(super) fn no_set(set: u8) -> Error {
    Error::corrupt(format!("it names layer set {set}, which this world does not have"))
}

impl World {
    /// Returns the dimension that a place lies in, if the game has it and if it has such places.
    pub(super) fn dimension(&self, pos: ChunkPos) -> Result<&OpenDimension> {
        let Some(dimension) = self.dimensions.get(&pos.dimension) else {
            return Err(Error::misuse(format!(
                "there is no chunk {pos}: declare the dimension with `ChunkOptions::dimension`"
            )));
        };
        if pos.z != 0 && !dimension.options.is_three_dimensional {
            return Err(Error::misuse(format!(
                "there is no chunk {pos}: places have two coordinates here, unless `three_dimensional` is called before \
                 the world is made"
            )));
        }
        Ok(dimension)
    }

    /// Returns dimension 0, which every world has.
    pub(super) fn first_dimension(&self) -> &OpenDimension {
        &self.dimensions[&FIRST]
    }
}

/// The settings of one dimension that saves go on with.
#[derive(Clone)]
pub(super) struct DimensionSettings {
    pub(super) settings: Settings,
    /// Whether the file does not have them yet.
    pub(super) is_changed: bool,
}

impl SaveState {
    /// Returns the settings of dimension 0, which every world has.
    pub(super) fn first(&self) -> &Settings {
        &self.dimensions[&FIRST].settings
    }

    /// Returns the settings of a dimension that is open.
    pub(super) fn of(&self, dimension: &OpenDimension) -> &Settings {
        &self.dimensions[&dimension.number].settings
    }

    /// Replaces the settings of dimension 0.
    pub(super) fn replace_first(&mut self, settings: Settings, is_changed: bool) {
        self.dimensions.insert(FIRST, DimensionSettings { settings, is_changed });
    }
}

//! From cells to frames and back.

use std::borrow::Cow;
use std::cell::RefCell;

use bonfire::{Error, Result};

use super::dimension::{OpenDimension, no_set};
use super::{StoredChunk, World};
use crate::codec::{Codec, Delta, decode_delta, decode_full, encode_delta, encode_full};
use crate::format::{FrameKey, FrameKind, FrameTag};
use crate::frames::NewFrame;
use crate::{ChunkPos, Conversion, LayerSet, StoredLayer};

/// How chunks are stored: numbers of the document.
pub(super) const EMPTY: u8 = 0;
pub(super) const DELTA: u8 = 1;
pub(super) const FULL: u8 = 2;

/// A delta so short is not held against the whole chunk.
const SHORT_BYTES: usize = 256;

/// What becomes of a chunk that is saved.
pub(super) enum Encoded {
    /// It is as the generator makes it.
    Same,
    Frame(NewFrame),
}

/// What saves of one commit have in common.
pub(super) struct Encoder<'w> {
    world: &'w World,
    dimension: &'w OpenDimension,
    set: LayerSet,
    number: u8,
    /// Layers that the game does not have any more.
    carried_layers: Vec<StoredLayer>,
    /// Their bytes in a cell that never had any.
    carried_default: Vec<u8>,
    default_stored: Vec<u8>,
}

impl World {
    /// Puts a chunk into `cells`, which have the right size. False if it is not in the file.
    pub(super) fn read_cells(&self, pos: ChunkPos, cells: &mut [u8]) -> Result<bool> {
        let key = FrameKey::new(FrameKind::Chunk, pos);
        let dimension = self.dimension(pos)?;
        Ok(self.frames.read(key, |tag, data| dimension.decode_cells(pos, tag, data, cells))?.is_some())
    }
}

impl OpenDimension {
    pub(super) fn decode_cells(
        &self,
        pos: ChunkPos,
        tag: FrameTag,
        data: &[u8],
        cells: &mut [u8],
    ) -> Result<()> {
        let here = |error: Error| error.in_field(format_args!("chunk {pos}"));
        match tag.storage {
            EMPTY if data.is_empty() => {
                let cell = self.empty_cell(tag.layers).map_err(here)?;
                crate::codec::fill(cells, &cell);
                Ok(())
            }
            EMPTY => Err(here(Error::corrupt("an empty chunk has data"))),
            FULL => {
                let (conversion, set_bytes) = self.conversion(tag.layers).map_err(here)?;
                let codec = codec(tag)?;
                if conversion.is_identity() {
                    return decode_full(codec, data, set_bytes, cells).map_err(here);
                }
                with_scratch(self.options.cells_per_chunk() * set_bytes, |stored| {
                    decode_full(codec, data, set_bytes, stored)?;
                    conversion.to_memory(stored, cells)
                })
                .map_err(here)
            }
            DELTA => self.decode_delta_cells(pos, tag, data, cells).map_err(here),
            other => Err(Error::newer_format(format!(
                "chunk {pos} is stored in a way ({other}) that this build does not know"
            ))),
        }
    }

    fn decode_delta_cells(&self, pos: ChunkPos, tag: FrameTag, data: &[u8], cells: &mut [u8]) -> Result<()> {
        let (conversion, set_bytes) = self.conversion(tag.layers)?;
        let delta = decode_delta(codec(tag)?, data, set_bytes, self.options.cells_per_chunk() as u32)?;
        self.generate_for(pos, tag.layers, cells)?;
        let cell_bytes = self.options.layers.cell_bytes();
        if conversion.is_identity() {
            delta.apply(cell_bytes, cells)?;
        } else {
            let mut converted = vec![0; delta.count() * cell_bytes];
            conversion.to_memory(&delta.cells, &mut converted)?;
            Delta { runs: delta.runs, cells: converted }.apply(cell_bytes, cells)?;
        }
        if !self.options.layers.is_plain() {
            self.options.layers.normalise(cells);
        }
        Ok(())
    }

    /// What the cells of an empty chunk are today: the defaults of its release are not those of this one, and neither are the
    /// numbers of materials.
    pub(super) fn empty_cell(&self, set: u8) -> Result<Vec<u8>> {
        let (conversion, _) = self.conversion(set)?;
        let stored: Vec<u8> = match self.sets().get(&set) {
            Some(set) => {
                set.layers().iter().flat_map(|layer| layer.default_value().iter().copied()).collect()
            }
            None => return Err(no_set(set)),
        };
        let mut cell = vec![0; self.options.layers.cell_bytes()];
        conversion.to_memory(&stored, &mut cell)?;
        Ok(cell)
    }

    pub(super) fn fill_default(&self, cells: &mut [u8]) {
        let default = self.options.layers.default_cell();
        cells.chunks_exact_mut(default.len().max(1)).for_each(|cell| cell.copy_from_slice(&default));
    }

    /// A chunk that nobody has changed.
    pub(super) fn generate(&self, pos: ChunkPos, cells: &mut [u8]) {
        self.fill_default(cells);
        if let Some(generator) = &self.options.generator {
            generator.generate(&self.shape(), pos, cells);
        }
    }

    /// What a delta of this set was made against.
    fn generate_for(&self, pos: ChunkPos, set: u8, cells: &mut [u8]) -> Result<()> {
        let Some(generator) = &self.options.generator else {
            return Err(Error::misuse("it is stored as a delta, and no generator was given"));
        };
        let saved = self.sets().get(&set).map(LayerSet::generator_version);
        let (saved, current) = (saved.unwrap_or_default(), generator.version());
        self.fill_default(cells);
        if saved == current {
            generator.generate(&self.shape(), pos, cells);
        } else if !generator.generate_as(saved, &self.shape(), pos, cells) {
            let message = format!(
                "it is a delta against version {saved} of the generator, and this is version {current}, which cannot make it"
            );
            return Err(if saved > current {
                Error::newer_format(message)
            } else {
                Error::unsupported(message)
            });
        }
        Ok(())
    }
}

pub(super) fn codec(tag: FrameTag) -> Result<Codec> {
    let codec = Codec::from_number(tag.codec);
    codec.ok_or_else(|| Error::newer_format(format!("this build does not know codec {}", tag.codec)))
}

/// Lends memory that is not cleared between uses.
fn with_scratch<T>(len: usize, use_it: impl FnOnce(&mut [u8]) -> Result<T>) -> Result<T> {
    thread_local! {
        static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    let mut scratch = SCRATCH.take();
    if scratch.len() < len {
        scratch.resize(len, 0);
    }
    let used = use_it(&mut scratch[..len]);
    SCRATCH.set(scratch);
    used
}

impl<'w> Encoder<'w> {
    pub(super) fn new(world: &'w World, dimension: &'w OpenDimension, set: LayerSet, number: u8) -> Self {
        let game_layers = &dimension.options.layers;
        let own = game_layers.stored_bytes();
        let mut at = 0;
        let is_own = |layer: &&StoredLayer| {
            at += layer.bytes();
            at <= own
        };
        let carried_layers: Vec<StoredLayer> = set.layers().iter().skip_while(is_own).cloned().collect();
        let carried_default: Vec<u8> =
            carried_layers.iter().flat_map(|layer| layer.default_value().iter().copied()).collect();
        let mut default_stored = Vec::new();
        let carried = (!carried_default.is_empty()).then_some(&carried_default[..]);
        // The default of the game's own layers may have changed since the set was made.
        let made = game_layers.to_stored(&game_layers.default_cell(), carried, &mut default_stored);
        debug_assert!(made.is_ok());
        Self { world, dimension, set, number, carried_layers, carried_default, default_stored }
    }

    /// What stored cells have of the layers that are carried along. Releases may have carried others, and in another order: they are
    /// matched by name.
    pub(super) fn carried_of(&self, conversion: &Conversion, stored: &[u8]) -> Result<Vec<u8>> {
        let count = stored.len().checked_div(conversion.stored_bytes()).unwrap_or(0);
        let mut found = Vec::new();
        conversion.carried(stored, &mut found)?;
        let found_bytes: usize = conversion.carried_layers().iter().map(StoredLayer::bytes).sum();
        let mut carried = self.carried_default.repeat(count);
        let mut to = 0;
        for layer in &self.carried_layers {
            let mut from = 0;
            for known in conversion.carried_layers() {
                let is_it = known.name() == layer.name() && known.version() == layer.version();
                if is_it && known.bytes() == layer.bytes() {
                    let cells = found.chunks_exact(found_bytes);
                    for (found, cell) in cells.zip(carried.chunks_exact_mut(self.carried_default.len())) {
                        cell[to..to + layer.bytes()].copy_from_slice(&found[from..from + layer.bytes()]);
                    }
                }
                from += known.bytes();
            }
            to += layer.bytes();
        }
        Ok(carried)
    }

    /// The frame of a chunk, whichever way is the smallest.
    pub(super) fn encode(&self, pos: ChunkPos, cells: &[u8]) -> Result<Encoded> {
        let (options, delta_threshold) = (&self.dimension.options, self.world.options.delta_threshold);
        let expected = self.dimension.chunk_bytes();
        if cells.len() != expected {
            return Err(Error::misuse(format!("chunk {pos} has {} bytes and not {expected}", cells.len())));
        }
        let CarriedCells { bytes: carried, is_whole } = self.carried(pos)?;
        let stored = self.stored(cells, &carried)?;
        let choice = self.world.compression();
        let stored_bytes = self.set.stored_bytes();
        let frame = |storage: u8, codec: u8, data: Vec<u8>| {
            let tag = FrameTag { storage, codec, layers: self.number };
            Ok(Encoded::Frame(NewFrame { key: FrameKey::new(FrameKind::Chunk, pos), tag, data }))
        };
        let mut delta = None;
        // The generator does not make layers that the game does not have: cells that have something of them are never as generated.
        if options.generator.is_some() && !is_whole {
            let changed = with_scratch(expected, |generated| {
                self.dimension.generate(pos, generated);
                let base = self.stored(generated, &self.carried_default.repeat(options.cells_per_chunk()))?;
                Ok(Delta::between(&base, &stored, stored_bytes))
            })?;
            if changed.is_empty() {
                return Ok(Encoded::Same);
            }
            #[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
            if changed.count() as f64 <= options.cells_per_chunk() as f64 * delta_threshold {
                let mut data = Vec::new();
                let codec = encode_delta(&changed, stored_bytes, choice, &mut data);
                delta = Some((codec, data));
            }
        }
        if stored.chunks_exact(stored_bytes.max(1)).all(|cell| cell == self.default_stored) {
            return frame(EMPTY, 0, Vec::new());
        }
        if let Some((codec, data)) = delta.take_if(|(_, data)| data.len() <= SHORT_BYTES) {
            return frame(DELTA, codec.number(), data);
        }
        let mut full = Vec::new();
        let codec = encode_full(&stored, stored_bytes, choice, &mut full);
        match delta {
            Some((codec, data)) if data.len() < full.len() => frame(DELTA, codec.number(), data),
            _ => frame(FULL, codec.number(), full),
        }
    }

    /// The frame of a chunk whose way of storing is given.
    pub(super) fn encode_stored(&self, pos: ChunkPos, chunk: &StoredChunk) -> Result<Encoded> {
        let (options, stored_bytes) = (&self.dimension.options, self.set.stored_bytes());
        let (cells, choice) = (options.cells_per_chunk(), self.world.compression());
        let mut data = Vec::new();
        let (storage, codec) = match chunk {
            StoredChunk::Empty => (EMPTY, 0),
            StoredChunk::Delta(delta) => {
                delta
                    .check(stored_bytes, cells)
                    .map_err(|error| error.in_field(format_args!("chunk {pos}")))?;
                if delta.is_empty() {
                    return Ok(Encoded::Same);
                }
                (DELTA, encode_delta(delta, stored_bytes, choice, &mut data).number())
            }
            StoredChunk::Full(stored) if stored.len() == cells * stored_bytes => {
                (FULL, encode_full(stored, stored_bytes, choice, &mut data).number())
            }
            StoredChunk::Full(stored) => {
                let (found, expected) = (stored.len(), cells * stored_bytes);
                return Err(Error::misuse(format!("chunk {pos} has {found} bytes and not {expected}")));
            }
        };
        let tag = FrameTag { storage, codec, layers: self.number };
        Ok(Encoded::Frame(NewFrame { key: FrameKey::new(FrameKind::Chunk, pos), tag, data }))
    }

    /// The stored cells of a chunk.
    fn stored<'c>(&self, cells: &'c [u8], carried: &[u8]) -> Result<Cow<'c, [u8]>> {
        let layers = &self.dimension.options.layers;
        if layers.is_plain() && carried.is_empty() {
            return Ok(Cow::Borrowed(cells));
        }
        let mut stored = Vec::new();
        layers.to_stored(cells, (!carried.is_empty()).then_some(carried), &mut stored)?;
        Ok(Cow::Owned(stored))
    }

    /// Reads the bytes of layers that the game does not have any more: they stay with the chunk.
    fn carried(&self, pos: ChunkPos) -> Result<CarriedCells> {
        if self.carried_default.is_empty() {
            return Ok(CarriedCells { bytes: Vec::new(), is_whole: false });
        }
        let cells = self.dimension.options.cells_per_chunk();
        let default = || CarriedCells { bytes: self.carried_default.repeat(cells), is_whole: false };
        let key = FrameKey::new(FrameKind::Chunk, pos);
        let found = self.world.frames.read(key, |tag, data| {
            let (conversion, set_bytes) = self.dimension.conversion(tag.layers)?;
            let mut carried = default();
            if tag.storage == FULL {
                let mut stored = vec![0; cells * set_bytes];
                decode_full(codec(tag)?, data, set_bytes, &mut stored)?;
                let bytes = self.carried_of(&conversion, &stored)?;
                carried = CarriedCells { is_whole: bytes != carried.bytes, bytes };
            } else if tag.storage == DELTA {
                let delta = decode_delta(codec(tag)?, data, set_bytes, cells as u32)?;
                let of_cells = self.carried_of(&conversion, &delta.cells)?;
                let delta = Delta { runs: delta.runs, cells: of_cells };
                delta.apply(self.carried_default.len(), &mut carried.bytes)?;
            }
            Ok(carried)
        });
        match found {
            Ok(Some(carried)) => Ok(carried),
            Ok(None) => Ok(default()),
            // What is damaged is about to be replaced.
            Err(error) if error.is_corrupt() => Ok(default()),
            Err(error) => Err(error),
        }
    }
}

/// What a chunk has of layers that the game does not have any more, cell by cell.
struct CarriedCells {
    bytes: Vec<u8>,
    /// Cells that are not changed have something of them, too.
    is_whole: bool,
}

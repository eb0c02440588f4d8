//! Chunks as they lie in the file, for programs that do not have the generator.

use bonfire::Result;

use super::cells::{DELTA, EMPTY, FULL, codec};
use super::dimension::OpenDimension;
use super::{ChunkWorld, StoredChunk, World};
use crate::codec::{Delta, decode_delta, decode_full};
use crate::format::{FrameKey, FrameKind, FrameTag};
use crate::frames::FrameChange;
use crate::{ChunkPos, ChunkRect, Durability};

impl ChunkWorld {
    /// A chunk as [`Edit::put_stored`](crate::Edit::put_stored) takes it, without asking the generator; `None` if it is not in the
    /// file. Cells of earlier releases come as those of today.
    pub fn read_stored(&self, pos: impl Into<ChunkPos>) -> Result<Option<StoredChunk>> {
        let pos = pos.into();
        let key = FrameKey::new(FrameKind::Chunk, pos);
        let here = |error: bonfire::Error| error.in_field(format_args!("chunk {pos}"));
        let dimension = self.inner.dimension(pos)?;
        self.inner.frames.read(key, |tag, data| self.inner.decode_stored(dimension, tag, data).map_err(here))
    }

    /// Gives up what is damaged and was set aside: such chunks are as the generator makes them again, without the bodies or the
    /// entities that were lost. Returns how many parts there were.
    pub fn drop_set_aside(&self) -> Result<usize> {
        let aside = |kind: FrameKind| {
            let all = self.inner.frames.positions(kind, &ChunkRect::ALL);
            all.into_iter().map(move |pos| FrameKey::new(kind, pos))
        };
        let kinds = [FrameKind::DamagedChunk, FrameKind::DamagedBodies, FrameKind::DamagedSnapshot];
        let removed: Vec<FrameKey> = kinds.into_iter().flat_map(aside).collect();
        let count = removed.len();
        if count > 0 {
            let _turn = self.inner.commit_turn();
            let change = FrameChange { frames: Vec::new(), removed };
            self.inner.frames.store().commit(change, Durability::Synced)?;
        }
        Ok(count)
    }
}

impl World {
    fn decode_stored(&self, dimension: &OpenDimension, tag: FrameTag, data: &[u8]) -> Result<StoredChunk> {
        let cells = dimension.options.cells_per_chunk();
        match tag.storage {
            EMPTY => self.empty_today(dimension, tag),
            DELTA => {
                let (_, set_bytes) = dimension.conversion(tag.layers)?;
                let delta = decode_delta(codec(tag)?, data, set_bytes, cells as u32)?;
                let cells = self.stored_today(dimension, tag, delta.cells)?;
                Ok(StoredChunk::Delta(Delta { runs: delta.runs, cells }))
            }
            FULL => {
                let (_, set_bytes) = dimension.conversion(tag.layers)?;
                let mut stored = vec![0; cells * set_bytes];
                decode_full(codec(tag)?, data, set_bytes, &mut stored)?;
                self.stored_today(dimension, tag, stored).map(StoredChunk::Full)
            }
            other => Err(bonfire::Error::newer_format(format!(
                "it is stored in a way ({other}) that this build does not know"
            ))),
        }
    }

    /// An empty chunk of another set may be one of cells that are not the default today.
    fn empty_today(&self, dimension: &OpenDimension, tag: FrameTag) -> Result<StoredChunk> {
        let sets = dimension.sets().get(&tag.layers).cloned();
        let default = |set: &crate::LayerSet| -> Vec<u8> {
            set.layers().iter().flat_map(|layer| layer.default_value().iter().copied()).collect()
        };
        let Some(set) = sets else { return Ok(StoredChunk::Empty) };
        let today = self.stored_today(dimension, tag, default(&set))?;
        if today == default(self.saving().of(dimension).current()) {
            return Ok(StoredChunk::Empty);
        }
        Ok(StoredChunk::Full(today.repeat(dimension.options.cells_per_chunk())))
    }

    /// Stored cells of any set as those of the set that is written with.
    fn stored_today(&self, dimension: &OpenDimension, tag: FrameTag, stored: Vec<u8>) -> Result<Vec<u8>> {
        if tag.layers == self.saving().of(dimension).current {
            return Ok(stored);
        }
        let (conversion, set_bytes) = dimension.conversion(tag.layers)?;
        let count = stored.len() / set_bytes.max(1);
        let mut memory = vec![0; count * dimension.options.layers.cell_bytes()];
        conversion.to_memory(&stored, &mut memory)?;
        let carried = self.encoder(dimension).carried_of(&conversion, &stored)?;
        let mut today = Vec::new();
        dimension.options.layers.to_stored(&memory, (!carried.is_empty()).then_some(&carried), &mut today)?;
        Ok(today)
    }
}

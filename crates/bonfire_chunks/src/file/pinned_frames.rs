//! The file as of a pin: a store of frames that nobody writes to.

use std::sync::Arc;

use bonfire::{Error, Result};

use super::chunk_file::ChunkFile;
use super::moment::Moment;
use super::rewrite::FileCopy;
use crate::format::{FrameKey, FrameKind, FramePlace, FrameTag};
use crate::frames::{Committed, FrameChange, FrameStats, FrameStore};
use crate::{ChunkPos, ChunkRect, Durability};

/// The frames of a file as of a pin.
pub(crate) struct PinnedFrames {
    file: Arc<ChunkFile>,
    moment: Moment,
}

impl PinnedFrames {
    pub(crate) fn new(file: &Arc<ChunkFile>, name: &str) -> Result<Self> {
        let moment = file.state().moment(name)?;
        Ok(Self { file: file.clone(), moment })
    }

    pub(crate) fn file(&self) -> &ChunkFile {
        &self.file
    }

    /// Hands the data of a frame to `use_it`. `None` if there is no such frame; an error if there is one and it is damaged.
    pub(crate) fn read<T>(
        &self,
        key: FrameKey,
        use_it: impl FnOnce(FrameTag, &[u8]) -> Result<T>,
    ) -> Result<Option<T>> {
        self.file.read_at(Some(self.moment), key, use_it)
    }

    pub(crate) fn place(&self, key: FrameKey) -> Option<FramePlace> {
        let state = self.file.state();
        let number = state.number_of(self.moment).ok()?;
        state.pins.place(number, key, &state.indices)
    }

    /// Begins a copy of the file as of the pin, without any pins.
    pub(crate) fn copy(&self) -> Result<FileCopy> {
        let mut copy = self.file.copy();
        let state = self.file.state();
        let number = state.number_of(self.moment)?;
        copy.go_back_to(number);
        Ok(copy)
    }
}

impl FrameStore for PinnedFrames {
    fn read(&self, key: FrameKey, use_it: &mut dyn FnMut(FrameTag, &[u8]) -> Result<()>) -> Result<bool> {
        Ok(self.read(key, use_it)?.is_some())
    }

    fn tag(&self, key: FrameKey) -> Option<FrameTag> {
        self.place(key).map(|place| place.tag)
    }

    fn list(&self, kind: FrameKind, rect: &ChunkRect) -> Vec<(ChunkPos, FrameTag)> {
        let state = self.file.state();
        let Ok(number) = state.number_of(self.moment) else { return Vec::new() };
        let found = state.pins.range(number, kind, rect, &state.indices);
        found.into_iter().map(|(pos, place)| (pos, place.tag)).collect()
    }

    fn commit(&self, _: FrameChange, _: Durability) -> Result<Committed> {
        Err(Error::misuse("a pinned moment stays as it is: return to it to go on from there"))
    }

    fn is_writable(&self) -> bool {
        false
    }

    fn stats(&self) -> FrameStats {
        let state = self.file.state();
        FrameStats {
            generation: self.moment.generation,
            bytes: state.file_bytes(),
            dead_bytes: state.dead_bytes(),
            index_bytes: state.indices.memory_bytes(),
        }
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }

    fn refresh(&self) -> Result<()> {
        self.file.refresh()
    }
}

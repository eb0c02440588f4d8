//! A file as it is at some moment: what a compaction or a copy is made of.

use std::sync::Arc;

use bonfire::Result;
use bonfire_store::disk::{Disk, DiskFile};

use super::commit_file::{CommitFile, FrameHold};
use super::indices::Indices;
use super::names::{TemporaryName, no_key};
use super::new_file::{FramesToCopy, NewFile};
use super::pins::Pins;
use super::seal::Seal;
use crate::ChunkRect;
use crate::format::{Flags, FrameKey, FrameKind, Header};

/// A file at some moment, which the next one is made of. Its frames stay where they are.
pub(super) struct FileSnapshot {
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) indices: Indices,
    pub(super) header: Header,
    /// The generation of the file that is made of it.
    pub(super) generation: u64,
    /// Counts how often frames had been moved.
    pub(super) moves: u64,
    pub(super) pins: Pins,
    seal: Option<Arc<Seal>>,
    _hold: FrameHold,
}

impl FileSnapshot {
    pub(super) fn of(commits: &CommitFile) -> Self {
        // In this order: what is held is what is copied.
        let _hold = commits.hold();
        let state = commits.state();
        Self {
            file: state.file.clone(),
            indices: state.indices.clone(),
            header: state.header.clone(),
            generation: state.generation.saturating_add(1),
            moves: state.moves,
            pins: state.pins.clone(),
            seal: state.seal.clone(),
            _hold,
        }
    }

    /// Makes it the file as of a pin, without any pins.
    pub(super) fn go_back_to(&mut self, number: u32) {
        let pins = std::mem::take(&mut self.pins);
        let present = std::mem::take(&mut self.indices);
        for kind in FrameKind::CONTENT {
            for (pos, place) in pins.range(number, kind, &ChunkRect::ALL, &present) {
                self.indices.set(FrameKey::new(kind, pos), place);
            }
        }
    }

    /// Returns the seal that the next file is to have, if this one is sealed: each file has its own.
    pub(super) fn next_seal(&self, name: &str) -> Result<Option<Arc<Seal>>> {
        if self.header.flags.has(Flags::SEALED) && self.seal.is_none() {
            return Err(no_key(name));
        }
        Ok(self.seal.as_deref().map(Seal::for_next_file).transpose()?.map(Arc::new))
    }

    /// Returns the file that is to have its frames, sealed as files are today.
    pub(super) fn next_file<'n>(
        &self,
        disk: &'n dyn Disk,
        name: &'n str,
        capacity_min: u32,
    ) -> Result<NewFile<'n>> {
        let seal = self.next_seal(name)?;
        let temporary = TemporaryName::InOneGo;
        let header = self.next_header(seal.as_deref());
        Ok(NewFile { disk, name, temporary, header, capacity_min, generation: self.generation, seal })
    }

    /// Returns the header of the next file, without places.
    pub(super) fn next_header(&self, seal: Option<&Seal>) -> Header {
        let proven = if seal.is_some() { Flags::PROVEN } else { 0 };
        let flags = Flags(self.header.flags.0 | proven).with(Flags::PINNED, !self.pins.is_empty());
        Header { flags, modified: crate::clock::unix_seconds(), ..self.header.clone() }
    }

    pub(super) fn frames(&self, has_other_writer: bool) -> FramesToCopy<'_> {
        let Self { file, indices, pins, seal, .. } = self;
        FramesToCopy { file: &**file, indices, pins, seal: seal.as_deref(), has_other_writer }
    }
}

//! Checks, compaction, copies and upgrades.

#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;

use std::sync::PoisonError;

use bonfire::{Error, Result};
use bonfire_store::disk::Disk;

use super::cells::{DELTA, EMPTY};
use super::{ChunkWorld, CommitReport, Edit};
use crate::codec::{Codec, decode_delta};
use crate::file::{ChunkFile, DamagedFrame};
use crate::format::{Flags, FrameKey, FrameKind};
use crate::{ChunkPos, ChunkRect, Durability, LayerSet};

/// How a chunk is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Every cell has its default.
    Empty,
    /// As what differs from the generated chunk.
    Delta,
    /// As a whole.
    Full,
}

/// What a world is and how it lies in its file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorldInfo {
    /// What its chunks are generated from.
    pub seed: u64,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// When its header was written last, in seconds since 1970.
    pub modified: u64,
    /// Cells along an edge of a chunk.
    pub chunk_size: u16,
    /// Cells along an edge of a tile.
    pub tile_size: u16,
    /// Readers of the plain layout understand it.
    pub compat: bool,
    /// What chunks hold is sealed.
    pub sealed: bool,
    /// Chunks whose cells are in the file.
    pub chunks: usize,
    /// Chunks that have bodies.
    pub chunks_with_bodies: usize,
    /// Chunks that have entities.
    pub chunks_with_entities: usize,
    /// Parts that are damaged and were set aside.
    pub set_aside: Vec<DamagedFrame>,
    /// Bytes up to the last save.
    pub file_bytes: u64,
    /// Bytes of those that nothing needs any more.
    pub dead_bytes: u64,
    /// Bytes of memory that know where everything is.
    pub index_bytes: usize,
    /// How many saves there were.
    pub generation: u64,
    /// The name of the generator that chunks were made by, if it has one.
    pub generator: Option<String>,
    /// The layers that chunks are written with.
    pub layers: LayerSet,
}

/// What a look at everything has found.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// Frames that were looked at.
    pub frames: u64,
    /// What cannot be read, and why.
    pub damaged: Vec<(DamagedFrame, Error)>,
    /// Frames whose checksum is right and whose content could not be looked at: a key, the generator or an upgrade of the
    /// game would be needed. Deltas are counted only if nothing of them can be decoded.
    pub unchecked: u64,
}

impl ChunkWorld {
    /// What the world is and how it lies in its file.
    pub fn info(&self) -> WorldInfo {
        let (layers, generator) = {
            let saving = self.inner.saving();
            (saving.settings.current().clone(), saving.settings.generator.clone())
        };
        let state = self.inner.file.state();
        let count = |kind: FrameKind| state.indices.of(kind).len();
        let aside =
            [FrameKind::DamagedChunk, FrameKind::DamagedBodies, FrameKind::DamagedSnapshot].into_iter();
        let aside = aside.flat_map(|kind| {
            state
                .indices
                .of(kind)
                .range(&ChunkRect::ALL)
                .into_iter()
                .map(move |(pos, place)| DamagedFrame::new(FrameKey::new(kind, pos), place))
        });
        WorldInfo {
            seed: state.header.seed,
            created: state.header.created,
            modified: state.header.modified,
            chunk_size: state.header.chunk_size,
            tile_size: state.header.tile_size,
            compat: state.header.flags.has(Flags::COMPAT),
            sealed: state.header.flags.has(Flags::SEALED),
            chunks: count(FrameKind::Chunk),
            chunks_with_bodies: count(FrameKind::Bodies),
            chunks_with_entities: count(FrameKind::Snapshot),
            set_aside: aside.collect(),
            file_bytes: state.file_bytes(),
            dead_bytes: state.dead_bytes(),
            index_bytes: state.indices.memory_bytes(),
            generation: state.generation,
            generator: Some(generator).filter(|name| !name.is_empty()),
            layers,
        }
    }

    /// How a chunk is stored; `None` if it is not in the file.
    pub fn storage(&self, pos: impl Into<ChunkPos>) -> Option<Storage> {
        let place = self.inner.file.state().indices.get(FrameKey::new(FrameKind::Chunk, pos.into()))?;
        Some(match place.tag.storage {
            EMPTY => Storage::Empty,
            DELTA => Storage::Delta,
            _ => Storage::Full,
        })
    }

    /// How many cells of a chunk differ from the generated one, if it is stored as a delta.
    pub fn delta_entries(&self, pos: impl Into<ChunkPos>) -> Result<Option<usize>> {
        let pos = pos.into();
        let entries = self.inner.file.read(FrameKey::new(FrameKind::Chunk, pos), |tag, data| {
            let codec = Codec::from_number(tag.codec).filter(|_| tag.storage == DELTA);
            let Some(codec) = codec else { return Ok(None) };
            let (_, set_bytes) = self.inner.conversion(tag.layers)?;
            let delta = decode_delta(codec, data, set_bytes, self.inner.options.cells_per_chunk() as u32)?;
            Ok(Some(delta.count()))
        })?;
        Ok(entries.flatten())
    }

    /// Reads everything: checksums, and what is behind them. `progress` hears how many frames of how many are done.
    pub fn check(&self, mut progress: impl FnMut(u64, u64)) -> CheckReport {
        let mut report = CheckReport::default();
        report.damaged = self.inner.file.check(&mut |done, total| {
            report.frames = total;
            progress(done, total);
        });
        let known: std::collections::HashSet<FrameKey> =
            report.damaged.iter().map(|(frame, _)| frame.key).collect();
        let all: Vec<_> =
            self.inner.file.state().indices.iter().filter(|(key, _)| !known.contains(key)).collect();
        let look = |(key, place): &(FrameKey, crate::format::FramePlace)| {
            let result = match key.kind {
                FrameKind::Chunk if place.tag.storage == DELTA && self.inner.options.generator.is_none() => {
                    self.delta_entries(key.pos).map(drop)
                }
                FrameKind::Chunk => self.read(key.pos).map(drop),
                FrameKind::Bodies => self.read_bodies(key.pos).map(drop),
                FrameKind::Snapshot => self.read_entities(key.pos).map(drop),
                _ => Ok(()),
            };
            result.err().map(|error| (DamagedFrame::new(*key, *place), error))
        };
        for (frame, error) in
            crate::parallel::map(&all, self.inner.options.threads, look).into_iter().flatten()
        {
            // What only lacks a key, a generator or an upgrade is not damaged.
            if error.is_wrong_key() || error.is_unsupported() || error.is_newer_format() {
                report.unchecked += 1;
            } else {
                report.damaged.push((frame, error));
            }
        }
        let aside = self.info().set_aside;
        report
            .damaged
            .extend(aside.into_iter().map(|frame| (frame, Error::corrupt("it was found damaged earlier"))));
        report
    }

    /// Writes the file anew without what is dead, and takes its place. `progress` hears how many frames of how many are done.
    pub fn compact(&self, mut progress: impl FnMut(u64, u64)) -> Result<()> {
        self.inner.file.compact(&mut progress)
    }

    /// Whether more of the file is dead than it may be.
    pub(crate) fn is_compaction_due(&self) -> bool {
        self.inner.file.is_compaction_due()
    }

    /// After one that failed: not again before there is more to gain.
    pub(crate) fn put_off_compaction(&self) {
        self.inner.file.put_off_compaction();
    }

    /// Writes a copy of the world as it is now to another path, while the game goes on. A file that is there is replaced as a
    /// whole. Of a world that is open for reading, an error with [`Error::is_conflict`] says that another process has moved
    /// chunks meanwhile: [`refresh`](Self::refresh), and try again.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn backup_to(&self, path: impl AsRef<Path>) -> Result<()> {
        let (disk, name) = super::options::at(path.as_ref())?;
        self.backup_on(&disk, &name, |_, _| {})
    }

    /// The same on a disk of your own, with progress.
    pub fn backup_on(&self, disk: &dyn Disk, name: &str, mut progress: impl FnMut(u64, u64)) -> Result<()> {
        self.inner.file.copy().write(disk, name, &crate::file::Change::default(), &mut progress)
    }

    /// Writes the world with the changes of an edit to another path ("save as"). This file stays as it is, and so does the world:
    /// to go on in the new one, open it.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn save_to(&self, path: impl AsRef<Path>, edit: &mut Edit) -> Result<CommitReport> {
        let (disk, name) = super::options::at(path.as_ref())?;
        self.save_on(&disk, &name, edit)
    }

    /// The same on a disk of your own.
    pub fn save_on(&self, disk: &dyn Disk, name: &str, edit: &mut Edit) -> Result<CommitReport> {
        self.check_own(edit)?;
        let mut report = CommitReport::default();
        let encoded = self.inner.encode_all(edit)?;
        let (change, copy) = {
            let _turn = self.inner.commit_turn();
            let mut saving = self.inner.saving();
            let bodies = edit.bodies.clone();
            let (change, _) = self.inner.change_of(edit, bodies, encoded, &mut saving, &mut report)?;
            // The game does not wait for what is written from here on.
            (change, self.inner.file.copy())
        };
        copy.write(disk, name, &change, &mut |_, _| {})?;
        edit.clear();
        Ok(report)
    }

    /// Reads every chunk that was saved with other layers, or by another generator, and saves it as the game has it today. Without
    /// it that happens whenever a chunk is saved anyway. Returns how many there were.
    pub fn upgrade_all(&self, mut progress: impl FnMut(u64, u64)) -> Result<usize> {
        const AT_ONCE: usize = 64;
        let current = self.inner.saving().settings.current;
        let old = |kind: FrameKind| -> Vec<ChunkPos> {
            let state = self.inner.file.state();
            let all = state.indices.of(kind).range(&ChunkRect::ALL).into_iter();
            all.filter(|(_, place)| place.tag.layers != current).map(|(pos, _)| pos).collect()
        };
        let (chunks, bodies) = (old(FrameKind::Chunk), old(FrameKind::Bodies));
        let total = (chunks.len() + bodies.len()) as u64;
        let mut done = 0;
        for places in chunks.chunks(AT_ONCE) {
            let mut edit = self.edit();
            edit.is_upgrade = true;
            for (pos, cells) in places.iter().zip(self.read_many(places)) {
                if let Some(cells) = cells? {
                    edit.put(*pos, cells);
                }
            }
            edit.commit(Durability::Buffered)?;
            done += places.len() as u64;
            progress(done, total);
        }
        for pos in &bodies {
            let mut edit = self.edit();
            edit.is_upgrade = true;
            edit.put_bodies(*pos, self.read_bodies(*pos)?).commit(Durability::Buffered)?;
            done += 1;
            progress(done, total);
        }
        self.flush()?;
        Ok(chunks.len() + bodies.len())
    }

    /// Looks at what another process has saved since: for a world that is open for reading only.
    pub fn refresh(&self) -> Result<()> {
        let world = &*self.inner;
        if world.file.is_writable() {
            return Ok(());
        }
        world.file.refresh()?;
        let mut settings = super::read_settings(&world.file)?;
        settings.adopt_generator(&world.options)?;
        settings.adopt_layers(&world.options, &world.file)?;
        let mut saving = world.saving();
        *world.sets.write().unwrap_or_else(PoisonError::into_inner) = settings.sets.clone();
        world.conversions.lock().unwrap_or_else(PoisonError::into_inner).clear();
        saving.settings = settings;
        // Bodies may have gone anywhere.
        saving.homes.clear();
        saving.with_empty_bodies.clear();
        Ok(())
    }

    /// Removes a world from a disk. False if there was none. An error with [`Error::is_conflict`] while somebody writes to it.
    pub fn delete_on(disk: &dyn Disk, name: &str) -> Result<bool> {
        ChunkFile::delete(disk, name)
    }

    /// Removes the world at `path`. False if there was none. An error with [`Error::is_conflict`] while somebody writes to it.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn delete(path: impl AsRef<Path>) -> Result<bool> {
        let (disk, name) = super::options::at(path.as_ref())?;
        Self::delete_on(&disk, &name)
    }
}

//! The frames of a world: those of a file, or of another store.

use std::sync::{Arc, PoisonError, RwLock};

use bonfire::{Error, Result};
use bonfire_store::disk::Disk;

use crate::file::{ChunkFile, FileCopy, NewFile, PinnedFrames, TemporaryName};
use crate::format::{FrameKey, FrameKind, FramePlace, FrameTag, Header, Version};
use crate::frames::{FrameChange, FrameStore, NewFrame};
use crate::{ChunkPos, ChunkRect};

/// The frames of a world.
pub(super) enum WorldFrames {
    File(Arc<ChunkFile>),
    /// Those of a file as of a pin.
    Pinned(PinnedFrames),
    /// A store that is no file, and the kind of the world.
    Store(Arc<dyn FrameStore>, RwLock<Header>),
}

impl WorldFrames {
    pub(super) fn of_store(store: Arc<dyn FrameStore>, header: Header) -> Self {
        Self::Store(store, RwLock::new(header))
    }

    pub(super) fn store(&self) -> &dyn FrameStore {
        match self {
            Self::File(file) => &**file,
            Self::Pinned(frames) => frames,
            Self::Store(store, _) => &**store,
        }
    }

    /// Returns the file; `None` if the frames are elsewhere, or as of a pin.
    pub(super) fn file(&self) -> Option<&Arc<ChunkFile>> {
        match self {
            Self::File(file) => Some(file),
            Self::Pinned(_) | Self::Store(..) => None,
        }
    }

    /// Returns true if the frames are in a store that is no file.
    pub(super) fn is_store(&self) -> bool {
        matches!(self, Self::Store(..))
    }

    /// Returns the file that frames come from, as they are now or as of a pin.
    fn source(&self) -> Option<&ChunkFile> {
        match self {
            Self::File(file) => Some(file),
            Self::Pinned(frames) => Some(frames.file()),
            Self::Store(..) => None,
        }
    }

    /// Returns the kind of the world.
    pub(super) fn header(&self) -> Header {
        match self {
            Self::File(file) => file.state().header.clone(),
            Self::Pinned(frames) => frames.file().state().header.clone(),
            Self::Store(_, header) => header.read().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// The same frames, of a world of this kind.
    pub(super) fn with_header(self, header: Header) -> Self {
        match self {
            Self::Store(store, _) => Self::of_store(store, header),
            other => other,
        }
    }

    pub(super) fn set_cell_bytes(&self, cell_bytes: u8) {
        match self {
            Self::File(file) => file.set_cell_bytes(cell_bytes),
            Self::Pinned(_) => {}
            Self::Store(_, header) => {
                header.write().unwrap_or_else(PoisonError::into_inner).cell_bytes = cell_bytes;
            }
        }
    }

    pub(super) fn has(&self, flag: u16) -> bool {
        self.source().is_some_and(|file| file.flags().has(flag))
    }

    /// Hands the data of a frame to `use_it`. `None` if there is no such frame; an error if there is one and it is damaged.
    pub(super) fn read<T>(
        &self,
        key: FrameKey,
        use_it: impl FnOnce(FrameTag, &[u8]) -> Result<T>,
    ) -> Result<Option<T>> {
        let store = match self {
            Self::File(file) => return file.read(key, use_it),
            Self::Pinned(frames) => return frames.read(key, use_it),
            Self::Store(store, _) => store,
        };
        let (mut use_it, mut used) = (Some(use_it), None);
        store.read(key, &mut |tag, data| {
            let use_it = use_it.take().ok_or_else(|| Error::misuse("a store gives a frame once"))?;
            used = Some(use_it(tag, data)?);
            Ok(())
        })?;
        Ok(used)
    }

    pub(super) fn tag(&self, key: FrameKey) -> Option<FrameTag> {
        self.store().tag(key)
    }

    /// Returns where a frame is; nowhere in a store that is no file.
    pub(super) fn place(&self, key: FrameKey) -> FramePlace {
        let found = match self {
            Self::File(file) => file.state().indices.get(key),
            Self::Pinned(frames) => frames.place(key),
            Self::Store(..) => None,
        };
        found.unwrap_or(FramePlace::NOWHERE)
    }

    /// Returns the chunks of a rectangle that have a frame of this kind, row by row.
    pub(super) fn positions(&self, kind: FrameKind, rect: &ChunkRect) -> Vec<ChunkPos> {
        self.store().list(kind, rect).into_iter().map(|(pos, _)| pos).collect()
    }

    /// Returns all keys of content, by kind.
    pub(super) fn keys(&self) -> Vec<FrameKey> {
        let of = |kind: FrameKind| {
            self.positions(kind, &ChunkRect::ALL).into_iter().map(move |pos| FrameKey::new(kind, pos))
        };
        FrameKind::CONTENT.into_iter().flat_map(of).collect()
    }

    /// Begins a copy of all frames as they are now.
    pub(super) fn copy(&self) -> Result<FramesCopy<'_>> {
        Ok(match self {
            Self::File(file) => FramesCopy::OfFile(Box::new(file.copy())),
            Self::Pinned(frames) => FramesCopy::OfFile(Box::new(frames.copy()?)),
            Self::Store(..) => FramesCopy::OfStore(self),
        })
    }
}

/// A copy of the frames of a world that is about to be written.
pub(super) enum FramesCopy<'w> {
    OfFile(Box<FileCopy>),
    /// It has what the store has by the time a frame is read.
    OfStore(&'w WorldFrames),
}

impl FramesCopy<'_> {
    /// Writes it, with a change, to a file, which is replaced as a whole.
    pub(super) fn write(
        self,
        disk: &dyn Disk,
        name: &str,
        change: &FrameChange,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        match self {
            Self::OfFile(copy) => copy.write(disk, name, change, progress),
            Self::OfStore(frames) => frames.write_file(disk, name, change, progress),
        }
    }
}

impl WorldFrames {
    fn write_file(
        &self,
        disk: &dyn Disk,
        name: &str,
        change: &FrameChange,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        let changed = |key: &FrameKey| {
            change.removed.contains(key) || change.frames.iter().any(|frame| frame.key == *key)
        };
        let keys: Vec<FrameKey> = self.keys().into_iter().filter(|key| !changed(key)).collect();
        let total = (keys.len() + change.frames.len()) as u64;
        let read = |key: &FrameKey| {
            self.read(*key, |tag, data| Ok(NewFrame { key: *key, tag, data: data.to_vec() })).transpose()
        };
        let stored = keys.iter().filter_map(read);
        let all = stored.chain(change.frames.iter().cloned().map(Ok)).enumerate().map(|(number, frame)| {
            progress(number as u64 + 1, total);
            frame
        });
        let header = self.header();
        let places = keys.iter().map(|key| key.pos).chain(change.frames.iter().map(|frame| frame.key.pos));
        let version = places.map(Version::of).fold(header.version, Version::max);
        let header = Header { version, modified: crate::clock::unix_seconds(), ..header };
        let generation = self.store().stats().generation.saturating_add(1);
        let new = NewFile {
            disk,
            name,
            temporary: TemporaryName::InOneGo,
            header,
            capacity_min: 1024,
            generation,
            seal: None,
        };
        new.replace_with(self.store().count(FrameKind::Chunk) + change.frames.len(), all)
    }
}

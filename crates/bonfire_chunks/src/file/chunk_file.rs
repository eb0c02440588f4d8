//! A file that is open: the state that readers share, and the state of its writer.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bonfire::{Error, Result};
use bonfire_store::disk::{Access, Disk, DiskFile};

use super::indices::Indices;
use super::names::path_of;
use super::seal::Seal;
use super::writer_state::WriterState;
use crate::format::{Flags, Header};

/// The policy for checkpoints and compaction of a file.
#[derive(Clone, Debug)]
pub(crate) struct FileOptions {
    /// Header and table are current after every save.
    pub(crate) eager: bool,
    /// Entries that a new page table has room for at least.
    pub(crate) capacity_min: u32,
    /// The share of the file that may be dead, if the file compacts itself.
    pub(crate) dead_share_max: Option<f64>,
    /// Dead bytes that are never worth a compaction.
    pub(crate) dead_bytes_min: u64,
}

/// A chunk file that is open.
pub(crate) struct ChunkFile {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) name: String,
    pub(super) access: Access,
    pub(super) options: FileOptions,
    state: RwLock<State>,
    /// `None` if it is open for reading only, or closed.
    writer: Mutex<Option<WriterState>>,
    /// The number of copies that are being made: frames must stay where they are.
    pins: AtomicUsize,
    /// Dead bytes below which it does not compact by itself.
    pub(super) dead_bytes_min: AtomicU64,
}

/// The state that readers look at.
pub(crate) struct State {
    pub(super) file: Arc<dyn DiskFile>,
    pub(crate) indices: Indices,
    pub(crate) header: Header,
    pub(crate) generation: u64,
    /// Counts how often frames were moved.
    pub(super) moves: u64,
    pub(super) seal: Option<Arc<Seal>>,
    /// How the file is sealed; empty if it is not.
    pub(super) seal_info: Vec<u8>,
    /// Bytes of the file up to the last save.
    pub(super) end: u64,
}

impl State {
    /// Bytes of the file that nothing needs any more.
    pub(crate) fn dead_bytes(&self) -> u64 {
        (self.end - self.header.data_start).saturating_sub(self.indices.frame_bytes())
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.end
    }
}

impl ChunkFile {
    /// A file without a writer.
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        name: &str,
        access: Access,
        options: FileOptions,
        state: State,
    ) -> Self {
        let dead_bytes_min = options.dead_bytes_min;
        Self {
            disk,
            name: name.to_owned(),
            access,
            options,
            state: RwLock::new(state),
            writer: Mutex::new(None),
            pins: AtomicUsize::new(0),
            dead_bytes_min: AtomicU64::new(dead_bytes_min),
        }
    }

    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn writer(&self) -> MutexGuard<'_, Option<WriterState>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` with the writer, if there is one that can still write.
    pub(super) fn with_writer<T>(&self, work: impl FnOnce(&mut WriterState) -> Result<T>) -> Result<T> {
        let mut writer = self.writer();
        let Some(writer) = writer.as_mut() else {
            return Err(Error::misuse(format!("`{}` is open for reading only, or closed", self.name)));
        };
        if let Some(why) = writer.poisoned {
            return Err(Error::poisoned(format!(
                "cannot save to `{}`: {why}, so what the disk holds is not known: open the world again",
                path_of(&*self.disk, &self.name)
            )));
        }
        work(writer)
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.writer().is_some()
    }

    pub(crate) fn flags(&self) -> Flags {
        self.state().header.flags
    }

    /// The header has them from the next checkpoint on.
    pub(crate) fn set_cell_bytes(&self, cell_bytes: u8) {
        if self.state().header.cell_bytes != cell_bytes {
            self.state_mut().header.cell_bytes = cell_bytes;
        }
    }

    /// Keeps frames where they are until the guard is dropped.
    pub(super) fn pin(&self) -> ReadPin<'_> {
        self.pins.fetch_add(1, Ordering::AcqRel);
        ReadPin(self)
    }

    /// Returns true while frames must stay where they are.
    pub(super) fn is_pinned(&self) -> bool {
        self.pins.load(Ordering::Acquire) > 0
    }
}

/// Keeps the frames of a file where they are.
pub(super) struct ReadPin<'f>(&'f ChunkFile);

impl Drop for ReadPin<'_> {
    fn drop(&mut self) {
        self.0.pins.fetch_sub(1, Ordering::AcqRel);
    }
}

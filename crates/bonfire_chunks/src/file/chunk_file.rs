//! A file that is open: the state that readers share, and the state of its writer.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bonfire::{Error, Result, Watch};
use bonfire_store::disk::{Access, Disk, DiskFile};

use super::counter::{self, SaveCounter};
use super::indices::Indices;
use super::names::path_of;
use super::recover::{RecoverOptions, Recovered};
use super::seal::{Seal, SealKey};
use super::writer_state::WriterState;
use crate::format::{Flags, HEADER_BYTES, Header};

/// How a file is opened, and its policy for checkpoints and compaction.
#[derive(Clone)]
pub(crate) struct FileOptions {
    pub(crate) key: Option<SealKey>,
    /// Where the newest save of a sealed file is remembered.
    pub(crate) counter: Option<SaveCounter>,
    /// A sealed file opens though it does not prove what it holds.
    pub(crate) salvage: bool,
    /// A file that is sealed in an old way opens.
    pub(crate) accepts_old_seal: bool,
    pub(crate) watch: Option<Watch>,
    /// Header and table are current after every save.
    pub(crate) eager: bool,
    /// Entries that a new page table has room for at least.
    pub(crate) capacity_min: u32,
    /// The share of the file that may be dead, if the file compacts itself.
    pub(crate) dead_share_max: Option<f64>,
    /// Dead bytes that are never worth a compaction.
    pub(crate) dead_bytes_min: u64,
}

impl FileOptions {
    pub(super) fn recover_options(&self) -> RecoverOptions<'_> {
        let Self { key, salvage, watch, .. } = self;
        RecoverOptions { key: key.as_ref(), salvage: *salvage, watch: watch.as_ref(), seal: None }
    }

    /// Refuses a file that is sealed in an old way, that was put back, or whose number nobody has proven.
    pub(super) fn check_trust(&self, name: &str, recovered: &Recovered) -> Result<()> {
        let is_outdated = recovered.is_seal_outdated();
        if is_outdated && !self.accepts_old_seal {
            return Err(Error::unsupported(format!(
                "`{name}` says that it is sealed in an old way, which proves little: somebody without the key may have \
                 made it of a newer one. `ChunkOptions::accept_old_seal` opens it"
            )));
        }
        if recovered.report.unproven && self.counter.is_some() {
            return Err(Error::rollback(format!(
                "`{name}` does not prove which of its saves it holds, so that nothing can be counted: salvage it without \
                 a counter"
            )));
        }
        counter::check(self.counter.as_ref(), name, recovered.generation, !is_outdated)
    }
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
    /// The bytes where the header was when the file was looked at. They differ from `header` if that is a copy.
    pub(super) first_bytes: [u8; HEADER_BYTES as usize],
    pub(crate) generation: u64,
    /// Counts how often frames were moved.
    pub(crate) moves: u64,
    /// `None` if the file is not sealed, or if there is no key.
    pub(super) seal: Option<Arc<Seal>>,
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

    /// Returns true if the file is to be sealed anew with the next write.
    pub(super) fn is_seal_outdated(&self) -> bool {
        self.state().seal.as_deref().is_some_and(Seal::is_outdated)
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

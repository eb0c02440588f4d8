//! A file that commits are appended to: the state that its readers share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bonfire_store::disk::{Disk, DiskFile};

use super::counter::SaveCounter;
use super::indices::Indices;
use super::pins::Pins;
use super::seal::Seal;
use crate::format::{HEADER_BYTES, Header};

/// A file that commits are appended to.
pub(super) struct CommitFile {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) name: String,
    /// Where the newest save of a sealed file is remembered.
    pub(super) counter: Option<SaveCounter>,
    state: RwLock<State>,
    /// The number of copies that are being made: frames must stay where they are.
    holds: Arc<AtomicUsize>,
}

/// The state that readers look at.
pub(crate) struct State {
    pub(super) file: Arc<dyn DiskFile>,
    pub(crate) indices: Indices,
    pub(crate) pins: Pins,
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
        let used = self.indices.frame_bytes() + self.pins.held_bytes();
        (self.end - self.header.data_start).saturating_sub(used)
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.end
    }
}

impl CommitFile {
    pub(super) fn new(disk: Arc<dyn Disk>, name: &str, counter: Option<SaveCounter>, state: State) -> Self {
        Self { disk, name: name.to_owned(), counter, state: RwLock::new(state), holds: Arc::default() }
    }

    pub(super) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps frames where they are until the guard is dropped.
    pub(super) fn hold(&self) -> FrameHold {
        self.holds.fetch_add(1, Ordering::AcqRel);
        FrameHold(self.holds.clone())
    }

    /// Returns true while frames must stay where they are.
    pub(super) fn is_held(&self) -> bool {
        self.holds.load(Ordering::Acquire) > 0
    }

    pub(super) fn into_state(self) -> State {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the frames of a file where they are.
pub(super) struct FrameHold(Arc<AtomicUsize>);

impl Drop for FrameHold {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

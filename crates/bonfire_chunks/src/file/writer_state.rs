//! The state that only the writer of a file has.

use bonfire::{Error, Result};
use bonfire_store::disk::{DiskFile, DiskLock};

use super::checkpoint_state::CheckpointState;
use super::proof::ProofChain;
use super::recover::Recovered;
use crate::format::Header;

/// The state that only the writer of a file has.
pub(super) struct WriterState {
    _lock: DiskLock,
    /// Where the next save begins.
    pub(super) end: u64,
    /// The generation of the last save that a sync has covered.
    pub(super) durable: u64,
    pub(super) checkpoint: CheckpointState,
    /// `None` if the file proves nothing.
    pub(super) chain: Option<ProofChain>,
    /// Why nothing more is written through this file.
    pub(super) poisoned: Option<&'static str>,
    /// Memory that the next save uses again.
    pub(super) buffer: Vec<u8>,
}

impl WriterState {
    pub(super) fn new(
        lock: DiskLock,
        header: Header,
        recovered: &Recovered,
        chain: Option<ProofChain>,
    ) -> Self {
        Self {
            _lock: lock,
            end: recovered.end,
            durable: recovered.generation,
            checkpoint: CheckpointState::recovered(header, recovered),
            chain,
            poisoned: None,
            buffer: Vec::new(),
        }
    }

    /// The state for a file that was written just now, and that has another name than the world.
    pub(super) fn of_new_file(
        checkpoint: CheckpointState,
        chain: Option<ProofChain>,
        end: u64,
        generation: u64,
    ) -> Self {
        Self {
            // The lock of the world covers it.
            _lock: DiskLock::new(()),
            end,
            durable: generation,
            checkpoint,
            chain,
            poisoned: None,
            buffer: Vec::new(),
        }
    }

    /// Goes on in the file of another writer.
    pub(super) fn go_on_as(&mut self, other: Self) {
        self.move_to(other.checkpoint, other.chain, other.end, other.durable);
    }

    /// Goes on in a file that was written just now, as a whole.
    pub(super) fn move_to(
        &mut self,
        checkpoint: CheckpointState,
        chain: Option<ProofChain>,
        end: u64,
        generation: u64,
    ) {
        (self.checkpoint, self.chain, self.end, self.durable) = (checkpoint, chain, end, generation);
    }

    /// Refuses all later writes, because what the disk holds is not known.
    pub(super) fn poison(&mut self, why: &'static str) {
        self.poisoned.get_or_insert(why);
    }

    /// Syncs the file. After a sync that failed, the content of the disk is not known: nothing more is written through this
    /// file.
    pub(super) fn sync(&mut self, file: &dyn DiskFile, name: &str) -> Result<()> {
        file.sync().map_err(|error| {
            self.poison("an earlier sync failed");
            Error::io(format_args!("cannot make `{name}` durable; open it again to go on"), error)
        })
    }

    /// Syncs the file, and notes that all saves up to `generation` are durable.
    pub(super) fn sync_saves(&mut self, file: &dyn DiskFile, name: &str, generation: u64) -> Result<()> {
        self.sync(file, name)?;
        self.durable = generation;
        Ok(())
    }

    /// Cuts off a save that could not be written. The next save goes to the same place, and what lies there must not be taken
    /// for a part of it.
    pub(super) fn cut_off(&mut self, file: &dyn DiskFile) {
        if file.set_len(self.end).is_err() {
            self.poison("a save that failed could not be cut off");
        }
    }
}

//! Pins: moments of the whole file that stay while saves go on.
//!
//! A pin is made with a save, and costs two short frames. A return writes where the frames are that the world has again, and
//! moves none of them. Older versions of the format do not know these frames, so a flag in the header is durable before the
//! first of them is written.

use std::collections::BTreeSet;

use bonfire::{Error, Result};

use super::change_log::PinEvent;
use super::checkpoint::Checkpointed;
use super::chunk_file::ChunkFile;
use super::counter;
use super::names::write_error;
use super::pin_frames::CommitContent;
use super::pin_frames::{PinOperation, PinToAdd};
use super::writer_state::WriterState;
use crate::Durability;
use crate::format::{Flags, Header, PinRecord};
use crate::frames::{Committed, FrameChange};

/// A pin that a save is to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewPin {
    pub(crate) name: String,
    pub(crate) metadata: Vec<u8>,
}

/// A pin, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PinInfo {
    /// The name under which it is found.
    pub name: String,
    /// The save whose state it is.
    pub generation: u64,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// What the game says of it.
    pub metadata: Vec<u8>,
    /// Bytes of the file that no other pin needs, and that the world as it is now does not need either: removing the pin frees
    /// them.
    pub own_bytes: u64,
    /// Parts of it are lost: it cannot be read or returned to.
    pub is_damaged: bool,
}

impl ChunkFile {
    /// Saves a change and pins the state after it. An older pin of the same name is removed.
    pub(crate) fn commit_and_pin(
        &self,
        change: &FrameChange,
        pin: &NewPin,
        durability: Durability,
    ) -> Result<Committed> {
        PinRecord::check(&pin.name, &pin.metadata)?;
        change.check()?;
        let waiting = self.compactions.wait();
        self.with_writer(|writer| {
            drop(waiting);
            if self.is_older_than(change.version()) {
                self.rewrite_in_version(writer, change.version())?;
            }
            self.prepare_for_pins(writer)?;
            let record = PinRecord {
                generation: 0,
                created: crate::clock::unix_seconds(),
                name: pin.name.clone(),
                metadata: pin.metadata.clone(),
            };
            let number = self.state().pins.next_number()?;
            let pin = PinToAdd { number, record };
            let operation = PinOperation::Save(Some(&pin));
            let content = CommitContent { change, operation };
            let written = self.commits.write_commit(writer, &content, None, durability)?;
            let record = PinRecord { generation: written.committed.generation, ..pin.record };
            self.next_file().note_save(change, Some(PinToAdd { record, ..pin }));
            self.remove_replaced_pins(writer)?;
            self.checkpoint_if_due(writer, durability);
            Ok(written.committed)
        })
    }

    /// Removes a pin. Returns false if there is none of this name.
    pub(crate) fn unpin(&self, name: &str) -> Result<bool> {
        let waiting = self.compactions.wait();
        self.with_writer(|writer| {
            drop(waiting);
            let found = self.state().pins.find(name).map(|(number, _)| number);
            let Some(number) = found else { return Ok(false) };
            self.prepare_for_pins(writer)?;
            self.remove_replaced_pins(writer)?;
            self.remove_pin(writer, number, Durability::Synced)?;
            self.checkpoint_if_due(writer, Durability::Synced);
            Ok(true)
        })
    }

    /// Makes the present what it was at a pin. The pin stays, and so do all others.
    pub(crate) fn return_to(&self, name: &str) -> Result<()> {
        let waiting = self.compactions.wait();
        self.with_writer(|writer| {
            drop(waiting);
            // Before the seal is renewed: nothing is written if there is no such pin.
            self.state().moment(name)?;
            self.prepare_for_pins(writer)?;
            let (number, keys) = {
                let state = self.state();
                let moment = state.moment(name)?;
                let number = state.number_of(moment)?;
                let changed = state.pins.to_return(number, &state.indices);
                (number, changed.into_iter().map(|(key, _)| key).collect::<Vec<_>>())
            };
            if keys.is_empty() {
                let (file, generation) = {
                    let state = self.state();
                    (state.file.clone(), state.generation)
                };
                return writer.sync_saves(&*file, &self.name, generation);
            }
            let change = FrameChange::default();
            let content = CommitContent { change: &change, operation: PinOperation::Return(number) };
            self.commits.write_commit(writer, &content, None, Durability::Synced)?;
            self.next_file().note_pin(PinEvent::Returned(number, keys));
            self.checkpoint_if_due(writer, Durability::Synced);
            Ok(())
        })
    }

    /// Returns all pins, the oldest first.
    pub(crate) fn pins(&self) -> Vec<PinInfo> {
        let state = self.state();
        let replaced: BTreeSet<u32> = state.pins.replaced().into_iter().collect();
        let all = state.pins.iter().filter(|(number, _)| !replaced.contains(number));
        all.map(|(number, pin)| PinInfo {
            name: pin.record.name.clone(),
            generation: pin.record.generation,
            created: pin.record.created,
            metadata: pin.record.metadata.clone(),
            own_bytes: state.pins.own_bytes(number, &state.indices),
            is_damaged: state.pins.is_damaged(number),
        })
        .collect()
    }

    /// Returns the layer sets that frames of pins are stored with.
    pub(crate) fn layer_sets_of_pins(&self) -> BTreeSet<u8> {
        let state = self.state();
        state.pins.held(&state.indices).into_iter().map(|(_, place)| place.tag.layers).collect()
    }

    /// Removes pins that have a newer one of the same name, also those that a crash has left. Until they are gone, the newest is the
    /// one that counts.
    fn remove_replaced_pins(&self, writer: &mut WriterState) -> Result<()> {
        let replaced = self.state().pins.replaced();
        replaced.into_iter().try_for_each(|number| self.remove_pin(writer, number, Durability::Buffered))
    }

    fn remove_pin(&self, writer: &mut WriterState, number: u32, durability: Durability) -> Result<()> {
        let change = FrameChange::default();
        let content = CommitContent { change: &change, operation: PinOperation::Remove(number) };
        self.commits.write_commit(writer, &content, None, durability)?;
        self.next_file().note_pin(PinEvent::Removed(number));
        Ok(())
    }

    /// Makes the file one that may have pins: older versions of the format refuse it from then on.
    fn prepare_for_pins(&self, writer: &mut WriterState) -> Result<()> {
        if self.is_seal_outdated() {
            self.rewrite_as_is(writer)?;
        }
        let has_flag = |writer: &WriterState| writer.checkpoint.header.flags.has(Flags::PINNED);
        if has_flag(writer) {
            return Ok(());
        }
        // A new file that is under way has no flag either.
        self.next_file().abandon();
        let flags = self.state().header.flags.with(Flags::PINNED, true);
        self.state_mut().header.flags = flags;
        if writer.chain.is_some() {
            self.flag_by_checkpoint(writer)?;
        } else {
            let header = Header { flags, ..writer.checkpoint.header.clone() };
            let file = self.state().file.clone();
            file.write_all_at(&header.encode(), 0).map_err(write_error(
                &*self.disk,
                "write the header of",
                &self.name,
            ))?;
            writer.checkpoint.header = header;
        }
        let (file, generation) = {
            let state = self.state();
            (state.file.clone(), state.generation)
        };
        writer.sync_saves(&*file, &self.name, generation)?;
        counter::advance(self.options.counter.as_ref(), &self.name, generation)
    }

    /// In a sealed file nobody believes a header that no checkpoint has proven.
    fn flag_by_checkpoint(&self, writer: &mut WriterState) -> Result<()> {
        // A table that grows may make a new file, which has no pins and so no flag.
        for _ in 0..2 {
            if self.checkpoint(writer, None)? == Checkpointed::InPlace {
                break;
            }
            let flags = self.state().header.flags.with(Flags::PINNED, true);
            self.state_mut().header.flags = flags;
        }
        match writer.checkpoint.header.flags.has(Flags::PINNED) {
            true => Ok(()),
            false => Err(Error::io_write(
                format_args!("cannot pin a moment of `{}`: its header could not be written", self.name),
                std::io::ErrorKind::Other.into(),
            )),
        }
    }
}

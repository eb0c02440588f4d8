//! Repairs before a file can be written to.

use bonfire::Result;

use super::chunk_file::ChunkFile;
use super::frame_writer::WRITE_BYTES;
use super::names::{read_error, write_error};
use super::pin_frames::CommitContent;
use super::pin_frames::PinOperation;
use super::recover::{Recovered, Repair};
use super::report::{DamagedFrame, OpenReport};
use super::writer_state::WriterState;
use crate::Durability;
use crate::format::{FrameKey, FrameKind, FrameTag};
use crate::frames::{DATA_BYTES_MAX, FrameChange, NewFrame};

impl ChunkFile {
    /// Makes the file one that saves can be appended to.
    pub(super) fn repair(
        &self,
        mut writer: WriterState,
        recovered: &Recovered,
        report: &OpenReport,
    ) -> Result<()> {
        if matches!(recovered.repair, Repair::Tail | Repair::Checkpoint) {
            self.repair_tail(&mut writer, recovered)?;
        }
        *self.writer() = Some(writer);
        let change = self.quarantine(&report.damaged)?;
        match recovered.repair {
            Repair::Nothing | Repair::Tail => Ok(()),
            Repair::Checkpoint => {
                self.put_aside(&change)?;
                self.checkpoint_all()
            }
            Repair::Rewrite => self.compact_with(&put_aside(&change), &mut |_, _| {}),
        }
    }

    /// Saves what is left of damaged frames in the place of those frames.
    fn put_aside(&self, change: &FrameChange) -> Result<()> {
        self.with_writer(|writer| {
            if self.is_seal_outdated() {
                return self.rewrite_in_place(writer, &put_aside(change), &mut |_, _| {});
            }
            self.commits.write_commit(writer, &put_aside(change), None, Durability::Synced).map(drop)
        })
    }

    /// Cuts off what lies behind the last save, and writes the saves behind the last checkpoint once more: if a sync of them has
    /// failed before, the system believes that the disk has them.
    fn repair_tail(&self, writer: &mut WriterState, recovered: &Recovered) -> Result<()> {
        let failed = write_error(&*self.disk, "repair", &self.name);
        let file = self.state().file.clone();
        if file.len().map_err(&failed)? > recovered.end {
            file.set_len(recovered.end).map_err(&failed)?;
        }
        let mut at = recovered.tail_start;
        let mut buffer = Vec::new();
        while at < recovered.end {
            let piece = (recovered.end - at).min(WRITE_BYTES as u64);
            buffer.resize(usize::try_from(piece).unwrap_or(WRITE_BYTES), 0);
            file.read_exact_at(&mut buffer, at).map_err(&failed)?;
            file.write_all_at(&buffer, at).map_err(&failed)?;
            at += piece;
        }
        writer.sync(&*file, &self.name)
    }

    /// Returns what takes the place of a damaged frame of a pin: the same, or what says that it is lost.
    fn mended(&self, key: FrameKey) -> Option<NewFrame> {
        let state = self.state();
        let pin = state.pins.get(key.pos.x.cast_unsigned());
        match key.kind {
            FrameKind::Pin => Some(NewFrame { key, tag: FrameTag::default(), data: pin?.record.encode() }),
            FrameKind::PinDifference => Some(NewFrame { key, tag: FrameTag::LOST, data: Vec::new() }),
            _ => None,
        }
    }

    /// The change that puts aside what is damaged, so that it is not taken for something that was never there.
    fn quarantine(&self, damaged: &[DamagedFrame]) -> Result<FrameChange> {
        let file = self.state().file.clone();
        let len = file.len().map_err(read_error(&*self.disk, "read", &self.name))?;
        let mut change = FrameChange::default();
        // A hostile file may claim all of itself for each of many frames.
        let mut room = len;
        for DamagedFrame { key, place } in damaged {
            if let Some(frame) = self.mended(*key) {
                change.frames.push(frame);
                continue;
            }
            change.removed.push(*key);
            let Some(kind) = key.kind.damaged() else { continue };
            let here = place.end().min(len).saturating_sub(place.start());
            let here = if here <= room { here } else { 0 };
            room -= here;
            let mut data = vec![0; usize::try_from(here).unwrap_or(0).min(DATA_BYTES_MAX)];
            // It is a last look: what cannot be read is lost.
            let data = if file.read_exact_at(&mut data, place.start()).is_ok() { data } else { Vec::new() };
            change.frames.push(NewFrame { key: FrameKey::new(kind, key.pos), tag: place.tag, data });
        }
        Ok(change)
    }
}

/// The content of a commit that puts damaged frames aside. What is damaged now is damaged for every pin that has it.
fn put_aside(change: &FrameChange) -> CommitContent<'_> {
    CommitContent { change, operation: PinOperation::Move { held: &[] } }
}

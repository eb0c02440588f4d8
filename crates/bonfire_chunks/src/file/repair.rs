//! Repairs before a file can be written to, and the decision to compact it.

use std::sync::atomic::Ordering;

use bonfire::Result;

use super::commit::{Change, DATA_BYTES_MAX, NewFrame};
use super::frame_writer::WRITE_BYTES;
use super::recover::Recovered;
use super::writer_state::WriterState;
use super::{ChunkFile, DamagedFrame, io_error};
use crate::format::FrameKey;

impl ChunkFile {
    /// Cuts off what lies behind the last save, and writes the saves behind the last checkpoint once more: if a sync of them has
    /// failed before, the system believes that the disk has them.
    pub(super) fn repair_tail(&self, writer: &mut WriterState, recovered: &Recovered) -> Result<()> {
        let failed = io_error("repair", &self.name);
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

    /// The change that puts aside what is damaged, so that it is not taken for something that was never there.
    pub(super) fn quarantine(&self, damaged: &[DamagedFrame]) -> Result<Change> {
        let file = self.state().file.clone();
        let len = file.len().map_err(io_error("read", &self.name))?;
        let mut change = Change::default();
        // A hostile file may claim all of itself for each of many frames.
        let mut room = len;
        for DamagedFrame { key, place } in damaged {
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

    /// After a compaction that failed: the next one is due when twice as much is dead.
    pub(crate) fn put_off_compaction(&self) {
        let dead = self.state().dead_bytes();
        self.dead_bytes_min.store(dead.saturating_mul(2), Ordering::Relaxed);
    }

    /// Whether more of the file is dead than it may be.
    pub(crate) fn is_compaction_due(&self) -> bool {
        let state = self.state();
        let (dead, len) = (state.dead_bytes(), state.file_bytes());
        #[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
        let is_over = |share: f64| dead as f64 > len as f64 * share;
        dead > self.dead_bytes_min.load(Ordering::Relaxed) && self.options.dead_share_max.is_some_and(is_over)
    }
}

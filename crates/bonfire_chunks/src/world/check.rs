//! A look at everything that a world holds.

use std::collections::HashSet;

use bonfire::Error;

use super::ChunkWorld;
use super::cells::DELTA;
use crate::file::DamagedFrame;
use crate::format::{FrameKey, FrameKind, FramePlace};

/// The result of a look at everything.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// Frames that were looked at.
    pub frames: u64,
    /// The parts that cannot be read, and the reasons.
    pub damaged: Vec<(DamagedFrame, Error)>,
    /// Frames whose checksum is right and whose content could not be looked at: a key, the generator or an upgrade of the
    /// game would be needed. Deltas are counted only if nothing of them can be decoded.
    pub unchecked: u64,
    /// The damaged parts that pins have and the world as it is now does not.
    pub damaged_in_pins: Vec<DamagedInPins>,
}

/// A damaged part that only pins have.
#[derive(Debug)]
#[non_exhaustive]
pub struct DamagedInPins {
    /// The part.
    pub frame: DamagedFrame,
    /// The names of the pins that have it, the oldest first.
    pub pins: Vec<String>,
    /// The reason why it cannot be read.
    pub error: Error,
}

impl ChunkWorld {
    /// Reads everything, also what only pins have: checksums, and what is behind them. `progress` hears how many frames of
    /// how many are done.
    pub fn check(&self, mut progress: impl FnMut(u64, u64)) -> CheckReport {
        let frames = &self.inner.frames;
        let keys = frames.keys();
        let mut report = CheckReport { frames: keys.len() as u64, ..CheckReport::default() };
        match frames.file() {
            Some(file) => {
                report.damaged = file.check(&mut |done, total| {
                    report.frames = total;
                    progress(done, total);
                });
            }
            None => progress(report.frames, report.frames),
        }
        let known: HashSet<FrameKey> = report.damaged.iter().map(|(frame, _)| frame.key).collect();
        let all: Vec<FrameKey> = keys.into_iter().filter(|key| !known.contains(key)).collect();
        let look = |key: &FrameKey| self.look_at(*key).err().map(|error| (*key, error));
        for (key, error) in crate::parallel::map(&all, self.inner.options.threads, look).into_iter().flatten()
        {
            // What only lacks a key, a generator or an upgrade is not damaged.
            if is_unreadable_here(&error) {
                report.unchecked += 1;
            } else {
                report.damaged.push((DamagedFrame::new(key, frames.place(key)), error));
            }
        }
        let aside = self.info().set_aside;
        report
            .damaged
            .extend(aside.into_iter().map(|frame| (frame, Error::corrupt("it was found damaged earlier"))));
        self.check_pins(&mut report, &mut progress);
        report
    }

    /// Reads the frames that only pins have. Those that pins share with the world as it is now are read already.
    fn check_pins(&self, report: &mut CheckReport, progress: &mut impl FnMut(u64, u64)) {
        let Some(file) = self.inner.frames.file() else { return };
        let mut held = file.frames_of_pins();
        held.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        report.frames += held.len() as u64;
        for of_pin in held.chunk_by(|(one, ..), (other, ..)| one == other) {
            // The lists of a damaged pin are lost, and the check of the file has named them.
            let Ok(pinned) = self.at(&of_pin[0].0) else { continue };
            let look = |(_, key, place): &(String, FrameKey, FramePlace)| {
                pinned.look_at_pinned(*key).err().map(|error| (*key, *place, error))
            };
            let found = crate::parallel::map(of_pin, self.inner.options.threads, look);
            for (key, place, error) in found.into_iter().flatten() {
                // A pin that was removed meanwhile takes its frames with it.
                if is_unreadable_here(&error) || error.is_not_found() {
                    report.unchecked += 1;
                    continue;
                }
                let (frame, pins) = (DamagedFrame::new(key, place), file.pins_with(key, place));
                report.damaged_in_pins.push(DamagedInPins { frame, pins, error });
            }
        }
        progress(report.frames, report.frames);
    }

    fn look_at_pinned(&self, key: FrameKey) -> bonfire::Result<()> {
        match key.kind {
            FrameKind::DamagedChunk | FrameKind::DamagedBodies | FrameKind::DamagedSnapshot => {
                Err(Error::corrupt("it was found damaged earlier"))
            }
            _ => self.look_at(key),
        }
    }

    /// Reads what is behind the checksum of a frame.
    fn look_at(&self, key: FrameKey) -> bonfire::Result<()> {
        let frames = &self.inner.frames;
        let is_delta = || frames.tag(key).is_some_and(|tag| tag.storage == DELTA);
        match key.kind {
            FrameKind::Chunk if is_delta() && self.inner.dimension(key.pos)?.options.generator.is_none() => {
                self.delta_entries(key.pos).map(drop)
            }
            FrameKind::Chunk => self.read(key.pos).map(drop),
            FrameKind::Bodies => match self.read_body_list(key.pos)?.lost.into_iter().next() {
                Some(lost) => Err(lost.error),
                None => Ok(()),
            },
            FrameKind::Ids => self.inner.check_ids(key.pos),
            FrameKind::Snapshot => self.read_entities(key.pos).map(drop),
            _ if frames.file().is_some() => Ok(()),
            _ => frames.read(key, |_, _| Ok(())).map(drop),
        }
    }
}

/// Returns true if a frame only lacks a key, a generator or an upgrade.
fn is_unreadable_here(error: &Error) -> bool {
    error.is_wrong_key() || error.is_unsupported() || error.is_newer_format()
}

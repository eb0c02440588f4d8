//! A look at everything that a world holds.

use std::collections::HashSet;

use bonfire::Error;

use super::ChunkWorld;
use super::cells::DELTA;
use crate::file::{DamagedFrame, DamagedInPins};
use crate::format::{FrameKey, FrameKind};

/// The result of a look at everything.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// Frames that were looked at.
    pub frames: u64,
    /// The parts that cannot be read, and the reasons.
    pub damaged: Vec<(DamagedFrame, Error)>,
    /// Frames whose checksum is right and whose content could not be looked at: a key, the generator, a dimension or an
    /// upgrade of the game would be needed. Deltas are counted only if nothing of them can be decoded.
    pub unchecked: u64,
    /// The damaged parts that pins have and the world as it is now does not.
    pub damaged_in_pins: Vec<DamagedInPins>,
}

impl ChunkWorld {
    /// Reads everything: checksums, and what is behind them. Of what only pins have, it checks checksums and seals; a check
    /// of the world [at](Self::at) a pin looks behind those, too. `progress` hears how many frames of how many are done.
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
        let all = keys.into_iter().filter(|key| !known.contains(key));
        // Nobody knows the cells of a dimension that the game does not declare.
        let (all, undeclared): (Vec<_>, Vec<_>) = all.partition(|key| self.can_look_at(*key));
        report.unchecked += undeclared.len() as u64;
        let look = |key: &FrameKey| self.look_at(*key).err().map(|error| (*key, error));
        for (key, error) in crate::parallel::map(&all, self.inner.options.threads, look).into_iter().flatten()
        {
            // What only lacks a key, a generator or an upgrade is not damaged.
            if error.is_wrong_key() || error.is_unsupported() || error.is_newer_format() {
                report.unchecked += 1;
            } else {
                report.damaged.push((DamagedFrame::new(key, frames.place(key)), error));
            }
        }
        let aside = self.info().set_aside;
        report
            .damaged
            .extend(aside.into_iter().map(|frame| (frame, Error::corrupt("it was found damaged earlier"))));
        if let Some(file) = frames.file() {
            let (held, damaged) = file.check_pins();
            report.frames += held;
            report.damaged_in_pins = damaged;
            progress(report.frames, report.frames);
        }
        report
    }

    /// Returns true if looking at a frame needs no dimension, or one that is declared.
    fn can_look_at(&self, key: FrameKey) -> bool {
        let needs_dimension = matches!(key.kind, FrameKind::Chunk | FrameKind::Bodies | FrameKind::Snapshot);
        !needs_dimension || self.inner.dimensions.contains_key(&key.pos.dimension)
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

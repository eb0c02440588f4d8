//! A check of a file that was written as a whole: a disk, a cable or memory that lies is found while the old file is there.

use std::sync::Arc;

use bonfire::{Error, Result};
use bonfire_store::disk::{Disk, DiskFile};

use super::commit_file::State;
use super::frame_reader::read_place;
use super::indices::Indices;
use super::names::read_error;
use super::pins::Pins;
use super::recover::{RecoverOptions, Repair, recover};
use super::seal::Seal;
use crate::format::{FrameKey, FramePlace, Header};

/// A file as it must be found.
pub(super) struct ExpectedFile<'e> {
    pub(super) disk: &'e dyn Disk,
    pub(super) name: &'e str,
    pub(super) seal: Option<&'e Arc<Seal>>,
    pub(super) header: &'e Header,
    pub(super) indices: &'e Indices,
    pub(super) pins: &'e Pins,
}

impl ExpectedFile<'_> {
    /// Reads the lists of the file as the next session would, and returns a check of its frames.
    pub(super) fn begin_check(&self, file: &Arc<dyn DiskFile>) -> Result<FileCheck> {
        let wrong = |what: &str| Error::corrupt(format!("`{}` is not as it was written: {what}", self.name));
        file.forget_cached().map_err(read_error(self.disk, "read back", self.name))?;
        let found = recover(&**file, &RecoverOptions { seal: self.seal, ..RecoverOptions::default() })?;
        if found.repair != Repair::Nothing || found.header.as_ref() != Some(self.header) {
            return Err(wrong("its structure is damaged"));
        }
        let mut frames: Vec<(FrameKey, FramePlace)> = found.indices.iter().collect();
        let are_known = frames.iter().all(|(key, place)| self.indices.get(*key) == Some(*place));
        if !are_known || frames.len() != self.indices.iter().count() {
            return Err(wrong("a frame is missing"));
        }
        let found = State::found(file.clone(), self.header.clone(), found)?;
        if !found.pins.are_same(self.pins) {
            return Err(wrong("a pin is missing"));
        }
        frames.extend(found.pins.held(&found.indices));
        Ok(FileCheck { frames, checked: 0, bytes: Vec::new() })
    }
}

/// A check of the frames of a new file, one by one.
pub(super) struct FileCheck {
    frames: Vec<(FrameKey, FramePlace)>,
    checked: usize,
    bytes: Vec<u8>,
}

impl FileCheck {
    /// Returns true if all frames were checked.
    pub(super) fn is_done(&self) -> bool {
        self.checked == self.frames.len()
    }

    /// Reads the next frames, up to so many bytes, but at least one. Returns the number of bytes.
    pub(super) fn check_some(&mut self, file: &dyn DiskFile, bytes_max: u64) -> Result<u64> {
        let mut read = 0;
        for (key, place) in &self.frames[self.checked..] {
            if read > 0 && read + place.frame_bytes() > bytes_max {
                break;
            }
            read_place(file, *key, *place, &mut self.bytes)?;
            read += place.frame_bytes();
            self.checked += 1;
        }
        Ok(read)
    }
}

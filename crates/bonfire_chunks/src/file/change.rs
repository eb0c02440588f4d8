//! The changes of a save: frames that are written, and frames that are removed.

use bonfire::{Error, Result};

use crate::format::{FrameKey, FrameTag};

/// Longer data has no size word.
pub(super) const DATA_BYTES_MAX: usize = (u32::MAX - 4096) as usize;

/// A frame that is to be written.
#[derive(Clone, Debug)]
pub(crate) struct NewFrame {
    pub(crate) key: FrameKey,
    pub(crate) tag: FrameTag,
    pub(crate) data: Vec<u8>,
}

/// The changes of a save. No key is there twice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    pub(crate) frames: Vec<NewFrame>,
    pub(crate) removed: Vec<FrameKey>,
}

impl Change {
    /// Refuses a change with data that no frame can hold.
    pub(super) fn check_sizes(&self) -> Result<()> {
        match self.frames.iter().find(|frame| frame.data.len() > DATA_BYTES_MAX) {
            Some(frame) => Err(Error::limit(format!(
                "the {} at {} has {} bytes, more than a frame can hold",
                frame.key.kind.name(),
                frame.key.pos,
                frame.data.len()
            ))),
            None => Ok(()),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.removed.is_empty()
    }
}

//! The smallest of several payloads.

use super::{Choice, Codec};

/// Keeps the smallest payload of those that are offered and allowed.
pub(super) struct Candidates<'a> {
    choice: Choice,
    best: &'a mut Vec<u8>,
    trial: &'a mut Vec<u8>,
    codec: Option<Codec>,
    /// What the next one has to be smaller than.
    limit: usize,
}

impl<'a> Candidates<'a> {
    /// None yet. If raw bytes are allowed, the others have to be 2% smaller than they are.
    pub(super) fn new(
        choice: Choice,
        raw_bytes: usize,
        best: &'a mut Vec<u8>,
        trial: &'a mut Vec<u8>,
    ) -> Self {
        let limit = if choice.allows(Codec::Raw) { raw_bytes - raw_bytes / 50 } else { usize::MAX };
        Self { choice, best, trial, codec: None, limit }
    }

    /// Tries a codec if it is allowed. `encode` appends to an empty buffer, or says that it cannot.
    pub(super) fn offer(&mut self, codec: Codec, encode: impl FnOnce(&mut Vec<u8>) -> bool) {
        if !self.choice.allows(codec) {
            return;
        }
        self.trial.clear();
        if encode(self.trial) && self.trial.len() < self.limit {
            std::mem::swap(self.best, self.trial);
            self.codec = Some(codec);
            self.limit = self.best.len();
        }
    }

    /// Whether nothing was small enough up to now.
    pub(super) fn is_none(&self) -> bool {
        self.codec.is_none()
    }

    /// Appends the smallest, or the raw bytes if there is none.
    pub(super) fn finish(self, out: &mut Vec<u8>, raw: impl FnOnce(&mut Vec<u8>)) -> Codec {
        match self.codec {
            Some(codec) => {
                out.extend_from_slice(self.best);
                codec
            }
            None => {
                raw(out);
                Codec::Raw
            }
        }
    }
}

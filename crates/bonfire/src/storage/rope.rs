//! Bytes in several pieces of memory, so that large columns are shared and never joined to be written.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::buffer::AlignedBuf;
use super::page::Checksums;

/// Bytes in several pieces of memory, some of them shared with other snapshots.
#[derive(Clone, Debug, Default)]
pub struct Rope {
    /// A column of a million rows has thousands of them, and captures hand it on.
    parts: Arc<Parts>,
    len: usize,
    /// Of each part, or of each block of the only part.
    checksums: Option<Arc<Checksums>>,
}

#[derive(Clone, Debug, Default)]
struct Parts {
    list: Vec<Bytes>,
    /// All of them in one piece, if somebody has asked for that again and again.
    joined: OnceLock<Bytes>,
}

impl Rope {
    /// Appends a piece.
    pub fn push(&mut self, bytes: Bytes) {
        self.len += bytes.len();
        self.checksums = None;
        if !bytes.is_empty() {
            let parts = Arc::make_mut(&mut self.parts);
            parts.list.push(bytes);
            parts.joined = OnceLock::new();
        }
    }
    /// One piece, with the checksum of each of its blocks if they are known.
    pub(crate) fn checked(bytes: Bytes, checksums: Option<Arc<Checksums>>) -> Self {
        let mut rope = Self::from(bytes);
        rope.checksums = checksums;
        rope
    }
    /// Pieces that are not empty, with what is known of the checksum of each.
    pub(crate) fn in_units(parts: Vec<Bytes>, checksums: Arc<Checksums>) -> Self {
        Self { len: parts.iter().map(Bytes::len).sum(), parts: Parts::of(parts), checksums: Some(checksums) }
    }
    pub(crate) fn checksums(&self) -> Option<&Arc<Checksums>> {
        self.checksums.as_ref()
    }
    /// The pieces in order.
    pub fn parts(&self) -> &[Bytes] {
        &self.parts.list
    }
    /// Lets go of a piece, if nobody else has this rope. What is left is no longer the rope.
    pub(super) fn release(&mut self, part: usize) {
        if let Some(parts) = Arc::get_mut(&mut self.parts) {
            parts.list[part] = Bytes::new();
        }
    }
    /// All bytes in one piece, kept for whoever asks next.
    pub(crate) fn joined(&self) -> &Bytes {
        match &*self.parts.list {
            [part] => part,
            _ => self.parts.joined.get_or_init(|| AlignedBuf::copy_from(&self.to_vec()).share()),
        }
    }
    /// What [`Rope::joined`] has made.
    pub(crate) fn made(&self) -> Option<&Bytes> {
        self.parts.joined.get()
    }
    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// All bytes in one piece: borrowed if they lie in one, else copied.
    pub fn contiguous(&self) -> Cow<'_, [u8]> {
        match &*self.parts.list {
            [] => Cow::Borrowed(&[]),
            [part] => Cow::Borrowed(part),
            _ => Cow::Owned(self.to_vec()),
        }
    }
    /// All bytes in one piece: shared if they lie in one, else copied.
    pub(crate) fn shared(&self) -> Bytes {
        match &*self.parts.list {
            [] => Bytes::new(),
            [part] => part.clone(),
            _ => self.to_vec().into(),
        }
    }
    /// A copy of all bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len);
        self.parts().iter().for_each(|part| bytes.extend_from_slice(part));
        bytes
    }
}

impl Parts {
    fn of(list: Vec<Bytes>) -> Arc<Self> {
        Arc::new(Self { list, joined: OnceLock::new() })
    }
}

impl From<Bytes> for Rope {
    fn from(bytes: Bytes) -> Self {
        let mut rope = Self::default();
        rope.push(bytes);
        rope
    }
}

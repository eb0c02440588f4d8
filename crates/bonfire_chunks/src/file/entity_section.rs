//! The document's entity section: the bodies of all chunks, one after the other.

use crate::format::{FrameKey, FrameKind};

/// An entity section that is being collected.
#[derive(Default)]
pub(super) struct EntitySection {
    count: u32,
    /// The records of all bodies.
    records: Vec<u8>,
}

impl EntitySection {
    /// Adds the bodies of a chunk. Frames of other kinds are ignored.
    pub(super) fn add(&mut self, key: FrameKey, data: &[u8]) {
        if let (FrameKind::Bodies, Some((count, records))) = (key.kind, split_section(data)) {
            self.count = self.count.saturating_add(count);
            self.records.extend_from_slice(records);
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut section = Vec::with_capacity(8 + self.records.len());
        section.extend_from_slice(&self.count.to_le_bytes());
        section.extend_from_slice(&[0; 4]);
        section.extend_from_slice(&self.records);
        section
    }
}

/// Splits the bodies of a chunk, which are an entity section of their own: its count, and its records.
fn split_section(data: &[u8]) -> Option<(u32, &[u8])> {
    let (count, rest) = data.split_first_chunk()?;
    Some((u32::from_le_bytes(*count), rest.get(4..)?))
}

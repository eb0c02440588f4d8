//! The frames of a checkpoint, which are written with a commit: side index, image of the table, entity section.

use std::collections::BTreeMap;

use super::checkpoint_state::CheckpointState;
use super::commit_file::State;
use super::frame_writer::FrameWriter;
use super::proof::ProofChain;
use super::seal::Seal;
use super::side_index::{SideIndexChain, entity_section_key};
use crate::ChunkPos;
use crate::format::{
    Entry, Flags, FrameKey, FrameKind, FramePlace, FrameTag, Header, SideIndex, encode_image, image_tag,
};

/// A checkpoint that is to be written with a commit.
pub(super) struct NewCheckpoint {
    /// The data of the entity section; without it, a section without entities is written.
    pub(super) entities: Option<Vec<u8>>,
}

/// The frames of a checkpoint that were written, before the table and the header follow.
pub(super) struct WrittenCheckpoint {
    /// The place of the entity section.
    pub(super) section: FramePlace,
    pub(super) side: SideIndexChain,
    /// The next header of the file.
    pub(super) header: Header,
}

/// Writes the frames of a checkpoint.
pub(super) struct CheckpointWriter<'c> {
    /// The file as it was before the commit.
    pub(super) before: &'c State,
    /// The last checkpoint, and the changes up to the commit.
    pub(super) last: &'c CheckpointState,
    /// The entries of the commit.
    pub(super) changed: &'c [(FrameKey, FramePlace)],
    pub(super) generation: u64,
    /// In a sealed file: its seal, and the chain of proofs with the state after the commit.
    pub(super) sealed: Option<(&'c Seal, &'c ProofChain)>,
}

impl CheckpointWriter<'_> {
    pub(super) fn write(
        &self,
        out: &mut FrameWriter<'_>,
        checkpoint: &NewCheckpoint,
    ) -> std::io::Result<WrittenCheckpoint> {
        let side = self.write_side_index(out)?;
        if self.last.is_table_changed() {
            self.write_table_image(out)?;
        }
        let header = Header {
            modified: crate::clock::unix_seconds(),
            flags: Flags(self.before.header.flags.0 | Flags::FRAMED),
            // A commit with a checkpoint adds and removes no chunks.
            count: u32::try_from(self.before.indices.of(FrameKind::Chunk).len()).unwrap_or(u32::MAX),
            entities: out.next_offset(),
            ..self.before.header.clone()
        };
        let proofs = self.sealed.map(|(seal, chain)| chain.section(seal, &header, self.generation));
        let proofs = proofs.transpose().map_err(std::io::Error::other)?;
        let entities = proofs.as_deref().or(checkpoint.entities.as_deref()).unwrap_or(&[0; 8]);
        let section = out.frame(entity_section_key(side), FrameTag::default(), self.generation, entities)?;
        Ok(WrittenCheckpoint { section: section.place, side, header })
    }

    /// Writes a side index if something changed, and returns the chain that ends with the newest one.
    fn write_side_index(&self, out: &mut FrameWriter<'_>) -> std::io::Result<SideIndexChain> {
        // A chain of lists is as long as one list of everything at most, give or take a few.
        let entries_max = 2 * self.before.indices.others_len() + 256;
        let earlier = self.last.side.filter(|chain| chain.entries < entries_max);
        let entries = match earlier {
            Some(_) => self.changed_entries(),
            None => self.all_entries(),
        };
        if let Some(chain) = earlier.filter(|_| entries.is_empty()) {
            return Ok(chain);
        }
        let earlier = earlier.unwrap_or_default();
        let side = SideIndex { earlier: earlier.newest, entries };
        let key = FrameKey::new(FrameKind::SideIndex, ChunkPos::default());
        let written = out.frame(key, FrameTag::default(), self.generation, &side.encode())?;
        let entries = earlier.entries + side.entries.len() as u64;
        Ok(SideIndexChain { newest: written.place.offset, entries })
    }

    /// Returns what changed since the newest side index, sorted.
    fn changed_entries(&self) -> Vec<(FrameKey, FramePlace)> {
        let place = |key: FrameKey| self.before.indices.get(key).unwrap_or(FramePlace::NOWHERE);
        let before = self.last.side_changes.iter().map(|key| (*key, place(*key)));
        self.with_commit(before).into_iter().collect()
    }

    /// Returns all that a side index lists, sorted.
    fn all_entries(&self) -> Vec<(FrameKey, FramePlace)> {
        let all = self.with_commit(self.before.indices.others());
        all.into_iter().filter(|(_, place)| !place.is_nowhere()).collect()
    }

    /// Adds the entries of the commit to those from before it.
    fn with_commit(
        &self,
        before: impl Iterator<Item = (FrameKey, FramePlace)>,
    ) -> BTreeMap<FrameKey, FramePlace> {
        let mut entries: BTreeMap<FrameKey, FramePlace> = before.collect();
        entries.extend(self.changed.iter().filter(|(key, _)| key.kind != FrameKind::Chunk).copied());
        entries
    }

    fn write_table_image(&self, out: &mut FrameWriter<'_>) -> std::io::Result<()> {
        let chunks = self.before.indices.of(FrameKind::Chunk);
        let entries: Vec<Entry> = chunks.iter().map(|(pos, place)| Entry { pos, place }).collect();
        let key = FrameKey::new(FrameKind::TableImage, ChunkPos::default());
        let version = self.before.header.version;
        let image = encode_image(version, entries.into_iter());
        out.frame(key, image_tag(version), self.generation, &image)?;
        Ok(())
    }
}

//! Files that are written as a whole, to be new worlds or to replace others. They get their name when they are durable.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bonfire::{Error, Result};
use bonfire_store::disk::{Access, Disk, DiskFile};

use super::change::{Change, NewFrame};
use super::entity_section::EntitySection;
use super::frame_reader::read_place;
use super::frame_writer::FrameWriter;
use super::indices::Indices;
use super::names::{read_error, take_lock, temporary_name, write_error};
use super::proof::ProofChain;
use super::recover::{RecoverOptions, Repair, recover};
use super::replay::digest;
use super::seal::{FrameIdentity, Seal};
use super::side_index::{SideIndexChain, entity_section_key};
use crate::ChunkPos;
use crate::format::{
    Commit, ENTRY_BYTES, Entry, Flags, Frame, FrameKey, FrameKind, FramePlace, FrameTag, HEADER_BYTES,
    Header, SIZE_BYTES, SideIndex, TRAILER_BYTES, WrittenFrame, encode_image,
};

/// A callback that gets the number of frames that are done, and of all frames.
pub(crate) type FrameProgress<'p> = &'p mut dyn FnMut(u64, u64);

/// A file that is to be.
pub(crate) struct NewFile<'n> {
    pub(crate) disk: &'n dyn Disk,
    pub(crate) name: &'n str,
    /// The kind of the world; places are filled in.
    pub(crate) header: Header,
    pub(crate) capacity_min: u32,
    pub(crate) generation: u64,
    /// Its own seal, which no other file has.
    pub(crate) seal: Option<Arc<Seal>>,
}

/// A file that has been written and has no name yet.
pub(super) struct WrittenFile {
    pub(super) header: Header,
    pub(super) indices: Indices,
    pub(super) end: u64,
    pub(super) tail_start: u64,
    pub(super) side: SideIndexChain,
    /// `None` if the file is not sealed.
    pub(super) chain: Option<ProofChain>,
}

/// The file that frames are copied from.
pub(super) struct FramesToCopy<'o> {
    pub(super) file: &'o dyn DiskFile,
    pub(super) indices: &'o Indices,
    /// `None` if it is not sealed.
    pub(super) seal: Option<&'o Seal>,
    /// Another process may write to it, and over frames that it has moved.
    pub(super) has_other_writer: bool,
}

impl NewFile<'_> {
    /// Writes everything of `old` that `change` does not change, and the change. A damaged frame is put aside.
    pub(super) fn write(
        &self,
        old: Option<&FramesToCopy<'_>>,
        change: &Change,
        progress: FrameProgress<'_>,
    ) -> Result<(Box<dyn DiskFile>, WrittenFile)> {
        let temporary = temporary_name(self.name);
        match self.disk.remove(&temporary) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(write_error(self.disk, "replace", &temporary)(error));
            }
            _ => {}
        }
        let file = self.disk.create_new(&temporary).map_err(write_error(self.disk, "create", &temporary))?;
        let written = self.fill(&*file, old, change, progress).and_then(|fresh| self.verify(&*file, fresh));
        match written {
            Ok(fresh) => Ok((file, fresh)),
            Err(error) => {
                drop(file);
                // The error that matters is the first one.
                let _ = self.disk.remove(&temporary);
                Err(error)
            }
        }
    }

    fn fill(
        &self,
        file: &dyn DiskFile,
        old: Option<&FramesToCopy<'_>>,
        change: &Change,
        progress: FrameProgress<'_>,
    ) -> Result<WrittenFile> {
        let failed = write_error(self.disk, "write", self.name);
        let kept = frames_to_keep(old, change);
        let is_chunk = |key: &FrameKey| key.kind == FrameKind::Chunk;
        let chunks = kept.iter().filter(|(key, _)| is_chunk(key)).count()
            + change.frames.iter().filter(|frame| is_chunk(&frame.key)).count();
        let capacity = (chunks as u64 + chunks.div_ceil(2) as u64).max(u64::from(self.capacity_min));
        let table_bytes = u32::try_from(capacity * ENTRY_BYTES as u64)
            .map_err(|_| Error::limit("a world cannot have so many chunks"))?;
        let data_start = HEADER_BYTES + u64::from(table_bytes);
        let mut out = FrameWriter::new(file, data_start, Vec::new());
        let mut new = NewContent::default();
        let total = (kept.len() + change.frames.len()) as u64;
        if let Some(old) = old {
            let mut copied = |frames: u64| progress(frames, total);
            self.copy_frames(old, &kept, &mut out, &mut new, &mut copied)?;
        }
        self.write_changed(change, &mut out, &mut new)?;
        progress(total, total);
        let flags = Flags(self.header.flags.0 | Flags::FRAMED);
        let header = Header { flags, table_bytes, data_start, count: chunks as u32, ..self.header.clone() };
        self.finish(out, new, header).map_err(&failed)
    }

    /// Copies frames as they are. A damaged one is put aside.
    fn copy_frames(
        &self,
        old: &FramesToCopy<'_>,
        kept: &[(FrameKey, FramePlace)],
        out: &mut FrameWriter<'_>,
        new: &mut NewContent,
        copied: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let mut bytes = Vec::new();
        for (number, (key, place)) in kept.iter().enumerate() {
            let copied_frame = read_place(old.file, *key, *place, &mut bytes)
                .and_then(|place| self.copy_frame(old, *key, place, &bytes, out));
            match copied_frame {
                Ok(place) => {
                    new.places.insert(*key, place);
                    new.entities.add(*key, &bytes[4..bytes.len() - TRAILER_BYTES as usize]);
                }
                Err(error)
                    if error.is_corrupt()
                        && old.has_other_writer
                        && recover(old.file, &RecoverOptions::default())
                            .is_ok_and(|found| found.generation >= self.generation) =>
                {
                    return Err(Error::conflict(
                        "the world was saved to while it was copied: refresh it and try again",
                    ));
                }
                Err(error) if error.is_corrupt() => {
                    tracing::warn!(world = %self.name, %error, "a damaged part of a chunk world is put aside");
                    let Some(kind) = key.kind.damaged() else { continue };
                    let key = FrameKey::new(kind, key.pos);
                    new.note(key, self.write_frame(key, place.tag, &bytes, out)?);
                }
                Err(error) => return Err(error),
            }
            copied(number as u64 + 1);
        }
        Ok(())
    }

    /// Copies a frame, from its size word to its last byte. In a sealed file it is bound to its new place.
    fn copy_frame(
        &self,
        old: &FramesToCopy<'_>,
        key: FrameKey,
        place: FramePlace,
        bytes: &[u8],
        out: &mut FrameWriter<'_>,
    ) -> Result<FramePlace> {
        let failed = write_error(self.disk, "write", self.name);
        let offset = out.next_offset();
        let (Some(old), Some(seal)) = (old.seal, &self.seal) else {
            out.raw(bytes).map_err(failed)?;
            return Ok(FramePlace { offset, ..place });
        };
        let (data, trailer) = bytes[SIZE_BYTES as usize..].split_at(place.len as usize);
        let frame = Frame::decode(trailer, place.offset)
            .ok_or_else(|| Error::corrupt("a trailer is not one any more"))?;
        let mut data = data.to_vec();
        old.take_over(&mut data, FrameIdentity::of(&frame), seal, offset)?;
        Ok(out.frame(key, place.tag, frame.generation, &data).map_err(failed)?.place)
    }

    /// Writes a frame, sealed if the file is.
    fn write_frame(
        &self,
        key: FrameKey,
        tag: FrameTag,
        data: &[u8],
        out: &mut FrameWriter<'_>,
    ) -> Result<WrittenFrame> {
        let (generation, offset) = (self.generation, out.next_offset());
        let sealed = match &self.seal {
            None => None,
            Some(seal) => Some(seal.seal(data, FrameIdentity { key, tag, generation, offset })?),
        };
        let written = out.frame(key, tag, generation, sealed.as_deref().unwrap_or(data));
        written.map_err(write_error(self.disk, "write", self.name))
    }

    /// Writes the frames of a change.
    fn write_changed(&self, change: &Change, out: &mut FrameWriter<'_>, new: &mut NewContent) -> Result<()> {
        for NewFrame { key, tag, data } in &change.frames {
            new.note(*key, self.write_frame(*key, *tag, data, out)?);
            new.entities.add(*key, data);
        }
        Ok(())
    }

    /// Writes what comes behind the frames, and what comes before them.
    fn finish(
        &self,
        mut out: FrameWriter<'_>,
        new: NewContent,
        header: Header,
    ) -> std::io::Result<WrittenFile> {
        let (chunks, others): (Vec<_>, Vec<_>) =
            new.places.iter().partition(|(key, _)| key.kind == FrameKind::Chunk);
        let others: Vec<(FrameKey, FramePlace)> =
            others.into_iter().map(|(key, place)| (*key, *place)).collect();
        let entries: Vec<Entry> =
            chunks.iter().map(|(key, place)| Entry { pos: key.pos, place: **place }).collect();
        let (nowhere, plain) = (ChunkPos::default(), FrameTag::default());
        let side = SideIndex { earlier: 0, entries: others };
        let side_frame =
            out.frame(FrameKey::new(FrameKind::SideIndex, nowhere), plain, self.generation, &side.encode())?;
        let side_chain =
            SideIndexChain { newest: side_frame.place.offset, entries: side.entries.len() as u64 };
        let indices = Indices::new(&entries, &side.entries);
        let header = Header { entities: out.next_offset(), count: entries.len() as u32, ..header };
        let chain = self.seal.as_deref().map(|seal| ProofChain::begin(seal, &indices)).transpose();
        let mut chain = chain.map_err(std::io::Error::other)?;
        let entities = match (&self.seal, &chain) {
            (Some(seal), Some(chain)) => {
                chain.section(seal, &header, self.generation).map_err(std::io::Error::other)?
            }
            _ if header.flags.has(Flags::COMPAT) => new.entities.encode(),
            _ => vec![0; 8],
        };
        let section = out.frame(entity_section_key(side_chain), plain, self.generation, &entities)?.place;
        let mut commit = Commit {
            header: header.encode(),
            durable: self.generation,
            digest: digest(new.crcs.iter().copied()),
            seal: self.seal.as_ref().map(|seal| seal.info().to_vec()).unwrap_or_default(),
            proof: None,
            entries: new.own,
        };
        if let (Some(seal), Some(chain)) = (&self.seal, &mut chain) {
            let proven = chain.prove(seal, &mut commit, self.generation, out.next_offset());
            proven.map_err(std::io::Error::other)?;
        }
        let commit =
            out.frame(FrameKey::new(FrameKind::Commit, nowhere), plain, self.generation, &commit.encode())?;
        out.flush()?;
        let mut front = header.encode().to_vec();
        front.extend_from_slice(&encode_image(entries.into_iter()));
        out.file.write_all_at(&front, 0)?;
        out.file.sync()?;
        let (end, tail_start) = (commit.place.end(), section.end());
        Ok(WrittenFile { header, indices, end, tail_start, side: side_chain, chain })
    }

    /// Reads the file as the next session would: a disk, a cable or memory that lies is found while the old file is there.
    fn verify(&self, file: &dyn DiskFile, fresh: WrittenFile) -> Result<WrittenFile> {
        let wrong = |what: &str| Error::corrupt(format!("`{}` is not as it was written: {what}", self.name));
        file.forget_cached().map_err(read_error(self.disk, "read back", self.name))?;
        let found = recover(file, &RecoverOptions { seal: self.seal.as_ref(), ..RecoverOptions::default() })?;
        if found.repair != Repair::Nothing || found.header.as_ref() != Some(&fresh.header) {
            return Err(wrong("its structure is damaged"));
        }
        let (mut bytes, mut count) = (Vec::new(), 0);
        for (key, place) in found.indices.iter() {
            read_place(file, key, place, &mut bytes)?;
            count += usize::from(fresh.indices.get(key) == Some(place));
        }
        if count != fresh.indices.iter().count() {
            return Err(wrong("a frame is missing"));
        }
        Ok(fresh)
    }

    /// Gives a file that was written its name. The error says whether the name may be the new file's.
    pub(super) fn publish(&self) -> Result<(), PublishError> {
        let temporary = temporary_name(self.name);
        if let Err(error) = self.disk.rename(&temporary, self.name) {
            // A file that is still there did not get the name.
            let may_have_name = self.disk.open(&temporary, Access::Read).is_err();
            let _ = self.disk.remove(&temporary);
            let error = write_error(self.disk, "replace", self.name)(error);
            return Err(PublishError { error, may_have_name });
        }
        let synced =
            self.disk.sync_dir().map_err(write_error(self.disk, "make the name durable of", self.name));
        synced.map_err(|error| PublishError { error, may_have_name: true })
    }

    /// Creates a file with some frames. It must not be there.
    pub(crate) fn create(&self, change: &Change) -> Result<()> {
        let _lock = take_lock(self.disk, self.name)?;
        if self.disk.open(self.name, Access::Read).is_ok() {
            return Err(Error::conflict(format!("`{}` is there already", self.name)));
        }
        drop(self.write(None, change, &mut |_, _| {})?);
        self.publish().map_err(|failure| failure.error)
    }
}

/// A new file that did not get its name durably.
pub(super) struct PublishError {
    pub(super) error: Error,
    /// The name may mean the new file, now or after a crash.
    pub(super) may_have_name: bool,
}

/// The frames of a file that a change leaves as they are, in the order in which a new file has them.
fn frames_to_keep(old: Option<&FramesToCopy<'_>>, change: &Change) -> Vec<(FrameKey, FramePlace)> {
    let changed: HashSet<FrameKey> =
        change.frames.iter().map(|frame| frame.key).chain(change.removed.iter().copied()).collect();
    let kept = old.iter().flat_map(|old| old.indices.iter()).filter(|(key, _)| !changed.contains(key));
    let mut kept: Vec<(FrameKey, FramePlace)> = kept.collect();
    kept.sort_unstable_by_key(|(key, _)| (order(*key), *key));
    kept
}

/// Returns the part of the file that a frame belongs to. Frames that are there twice lie at both ends, so that one piece of
/// damage does not meet both.
fn order(key: FrameKey) -> u8 {
    match key.kind {
        FrameKind::Settings if key.pos.y == 0 => 0,
        FrameKind::Schema if key.pos.y >= 0 => 0,
        FrameKind::Settings | FrameKind::Schema => 2,
        _ => 1,
    }
}

/// The frames that were written to a new file.
#[derive(Default)]
struct NewContent {
    places: BTreeMap<FrameKey, FramePlace>,
    /// The frames of the file's own generation: its commit lists them, as that of any save does.
    own: Vec<(FrameKey, FramePlace)>,
    crcs: Vec<u32>,
    entities: EntitySection,
}

impl NewContent {
    fn note(&mut self, key: FrameKey, appended: WrittenFrame) {
        self.places.insert(key, appended.place);
        self.own.push((key, appended.place));
        self.crcs.push(appended.crc);
    }
}

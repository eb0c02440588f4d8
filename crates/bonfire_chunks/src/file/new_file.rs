//! Files that are written as a whole, to be new worlds or to replace others. They get their name when they are durable.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

use bonfire::{Error, Result};
use bonfire_store::disk::{Access, Disk, DiskFile};

use super::entity_section::EntitySection;
use super::file_check::{ExpectedFile, FileCheck};
use super::frame_reader::read_place;
use super::frame_writer::{FrameWriter, WRITE_BYTES};
use super::indices::Indices;
use super::kept_frames::{FrameOwner, KeptFrame, KeptFrames, MovedFrames, pins_of_new_file};
use super::names::{TemporaryName, take_lock, write_error};
use super::pin_frames::CommitContent;
use super::pins::{FrameAside, Pins};
use super::proof::ProofChain;
use super::recover::{RecoverOptions, recover};
use super::replay::digest;
use super::seal::{FrameIdentity, Seal};
use super::side_index::{SideIndexChain, entity_section_key};
use crate::ChunkPos;
use crate::format::{
    Commit, Entry, Flags, Frame, FrameKey, FrameKind, FramePlace, FrameTag, HEADER_BYTES, Header, SIZE_BYTES,
    SideIndex, TRAILER_BYTES, Version, WrittenFrame, encode_image, without_depth,
};
use crate::frames::{FrameChange, NewFrame};

/// A callback that gets the number of frames that are done, and of all frames.
pub(crate) type FrameProgress<'p> = &'p mut dyn FnMut(u64, u64);

/// A file that is to be.
pub(crate) struct NewFile<'n> {
    pub(crate) disk: &'n dyn Disk,
    pub(crate) name: &'n str,
    /// Its name until it is complete.
    pub(crate) temporary: TemporaryName,
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
    pub(super) generation: u64,
    pub(super) end: u64,
    pub(super) tail_start: u64,
    pub(super) side: SideIndexChain,
    pub(super) pins: Pins,
    /// `None` if the file is not sealed.
    pub(super) chain: Option<ProofChain>,
}

/// The file that frames are copied from.
pub(super) struct FramesToCopy<'o> {
    pub(super) file: &'o dyn DiskFile,
    pub(super) indices: &'o Indices,
    pub(super) pins: &'o Pins,
    /// `None` if it is not sealed.
    pub(super) seal: Option<&'o Seal>,
    /// Another process may write to it, and over frames that it has moved.
    pub(super) has_other_writer: bool,
}

/// A file that is being written: frames are copied to it piece by piece.
pub(super) struct Draft {
    file: Arc<dyn DiskFile>,
    /// The kind of the world, with the places that are known so far.
    header: Header,
    /// The frames that are copied.
    kept: KeptFrames,
    /// Where those are that pins may name.
    moved: MovedFrames,
    /// The number of frames that were copied.
    copied: usize,
    /// Where the next frame begins.
    end: u64,
    buffer: Vec<u8>,
    /// The frames that turned out to be damaged. What is left of them is put aside.
    damaged: Vec<DamagedCopy>,
    new: NewContent,
}

impl Draft {
    /// Returns true if all frames were copied.
    pub(super) fn is_copied(&self) -> bool {
        self.copied == self.kept.frames.len()
    }

    /// Returns the file.
    pub(super) fn into_file(self) -> Arc<dyn DiskFile> {
        self.file
    }

    /// Makes durable what was copied so far, so that the end of the work has less to wait for.
    pub(super) fn sync(&self) -> std::io::Result<()> {
        self.file.sync()
    }
}

impl NewFile<'_> {
    /// Writes everything of `old` that `change` does not change, and the change. A damaged frame is put aside.
    pub(super) fn write(
        &self,
        old: Option<&FramesToCopy<'_>>,
        content: &CommitContent<'_>,
        progress: FrameProgress<'_>,
    ) -> Result<(Arc<dyn DiskFile>, WrittenFile)> {
        let kept = old.map(|old| KeptFrames::of(old.indices, old.pins, content)).unwrap_or_default();
        // Frames of pins themselves are written anew.
        let new = content.change.frames.iter().filter(|frame| frame.key.kind.is_content());
        let chunks = new.clone().filter(|frame| frame.key.kind == FrameKind::Chunk).count();
        let total = (kept.frames.len() + content.change.frames.len()) as u64;
        let version = content.change.version().max(self.header.version);
        self.fill(self.begin(kept, chunks, version)?, |draft| {
            while let Some(old) = old.filter(|_| !draft.is_copied()) {
                self.copy_some(draft, old, WRITE_BYTES as u64, &mut |frames| progress(frames, total))?;
            }
            self.add_frames(draft, new.map(Ok))?;
            progress(total, total);
            Ok(())
        })
    }

    /// Writes a file of these frames, which takes the place of one that has its name. `chunks` is their number, or more.
    pub(crate) fn replace_with(
        &self,
        chunks: usize,
        frames: impl Iterator<Item = Result<NewFrame>>,
    ) -> Result<()> {
        let _lock = take_lock(self.disk, self.name)?;
        drop(self.fill(self.begin(KeptFrames::default(), chunks, self.header.version)?, |draft| {
            self.add_frames(draft, frames)
        })?);
        self.publish().map_err(|failure| failure.error)
    }

    /// Completes a file with the frames that `add` gives it, and checks it.
    fn fill(
        &self,
        mut draft: Draft,
        add: impl FnOnce(&mut Draft) -> Result<()>,
    ) -> Result<(Arc<dyn DiskFile>, WrittenFile)> {
        let written = add(&mut draft).and_then(|()| {
            let written = self.finish(&mut draft)?;
            let mut check = self.begin_check(&draft.file, &written)?;
            while !check.is_done() {
                check.check_some(&*draft.file, u64::MAX)?;
            }
            Ok(written)
        });
        let file = draft.into_file();
        written.map(|written| (file.clone(), written)).inspect_err(|_| {
            drop(file);
            // The error that matters is the first one.
            let _ = self.disk.remove(&self.temporary_name());
        })
    }

    /// Creates the file, with room for a table of the frames that are to be copied and so many chunks more. It has a later
    /// version than this if the copied frames need one.
    pub(super) fn begin(&self, kept: KeptFrames, chunks: usize, version: Version) -> Result<Draft> {
        let of_frames = kept.frames.iter().map(|frame| Version::of(frame.key.pos)).max();
        let version = version.max(of_frames.unwrap_or_default());
        if version > Version::Flat && self.header.flags.has(Flags::COMPAT) {
            return Err(Error::unsupported(format!(
                "`{}` has the plain layout, which knows two coordinates and one dimension",
                self.name
            )));
        }
        let is_chunk =
            |frame: &&KeptFrame| frame.key.kind == FrameKind::Chunk && frame.owner == FrameOwner::World;
        let chunks = chunks + kept.frames.iter().filter(is_chunk).count();
        let capacity = (chunks as u64 + chunks.div_ceil(2) as u64).max(u64::from(self.capacity_min));
        let table_bytes = u32::try_from(capacity * version.entry_bytes() as u64)
            .map_err(|_| Error::limit("a world cannot have so many chunks"))?;
        let data_start = HEADER_BYTES + u64::from(table_bytes);
        let flags = Flags(self.header.flags.0 | Flags::FRAMED);
        Ok(Draft {
            file: self.create_temporary()?.into(),
            header: Header { version, flags, table_bytes, data_start, ..self.header.clone() },
            kept,
            moved: MovedFrames::default(),
            copied: 0,
            end: data_start,
            buffer: Vec::new(),
            damaged: Vec::new(),
            new: NewContent::default(),
        })
    }

    fn create_temporary(&self) -> Result<Box<dyn DiskFile>> {
        let temporary = self.temporary_name();
        match self.disk.remove(&temporary) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(write_error(self.disk, "replace", &temporary)(error));
            }
            _ => {}
        }
        self.disk.create_new(&temporary).map_err(write_error(self.disk, "create", &temporary))
    }

    fn temporary_name(&self) -> String {
        self.temporary.beside(self.name)
    }

    /// Copies the next frames as they are, up to so many bytes, but at least one. A damaged one is kept to be put aside.
    /// Returns the number of bytes. `heard` is told how many frames there are of all steps, after each of them.
    pub(super) fn copy_some(
        &self,
        draft: &mut Draft,
        old: &FramesToCopy<'_>,
        bytes_max: u64,
        heard: &mut dyn FnMut(u64),
    ) -> Result<u64> {
        let file = draft.file.clone();
        let mut out = FrameWriter::new(&*file, draft.end, std::mem::take(&mut draft.buffer));
        let start = draft.end;
        let mut bytes = Vec::new();
        for frame in &draft.kept.frames[draft.copied..] {
            let KeptFrame { key, place, owner } = *frame;
            if out.end > start && out.end - start + place.frame_bytes() > bytes_max {
                break;
            }
            let copied = read_place(old.file, key, place, &mut bytes)
                .and_then(|place| self.copy_frame(old, KeptFrame { place, ..*frame }, &mut bytes, &mut out));
            match copied {
                Ok(to) => {
                    if draft.kept.pins.names(place) {
                        draft.moved.note(key, place, to);
                    }
                    if owner == FrameOwner::World {
                        draft.new.places.insert(key, to);
                        draft.new.entities.add(key, &bytes[4..bytes.len() - TRAILER_BYTES as usize]);
                    }
                }
                Err(error) if error.is_corrupt() && self.was_overwritten(old) => {
                    return Err(Error::conflict(
                        "the world was saved to while it was copied: refresh it and try again",
                    ));
                }
                Err(error) if error.is_corrupt() => {
                    tracing::warn!(world = %self.name, %error, "a damaged part of a chunk world is put aside");
                    let left = key.kind.damaged().map(|kind| NewFrame {
                        key: FrameKey::new(kind, key.pos),
                        tag: place.tag,
                        data: std::mem::take(&mut bytes),
                    });
                    draft.damaged.push(DamagedCopy { frame: *frame, left });
                }
                Err(error) => return Err(error),
            }
            draft.copied += 1;
            heard(draft.copied as u64);
        }
        out.flush().map_err(write_error(self.disk, "write", self.name))?;
        (draft.end, draft.buffer) = (out.end, out.buffer);
        Ok(draft.end - start)
    }

    /// Returns true if another process may have written over frames that are being copied.
    fn was_overwritten(&self, old: &FramesToCopy<'_>) -> bool {
        let found = || recover(old.file, &RecoverOptions::default());
        old.has_other_writer && found().is_ok_and(|found| found.generation >= self.generation)
    }

    /// Copies a frame, from its size word to its last byte. In a sealed file it is bound to its new place.
    fn copy_frame(
        &self,
        old: &FramesToCopy<'_>,
        KeptFrame { key, place, owner }: KeptFrame,
        bytes: &mut [u8],
        out: &mut FrameWriter<'_>,
    ) -> Result<FramePlace> {
        let failed = write_error(self.disk, "write", self.name);
        let offset = out.next_offset();
        let (Some(old), Some(seal)) = (old.seal, &self.seal) else {
            Frame::set_pinned_only(bytes, owner == FrameOwner::Pins);
            out.raw(bytes).map_err(failed)?;
            return Ok(FramePlace { offset, ..place });
        };
        let frame = Frame::decode(&bytes[SIZE_BYTES as usize..], place.offset)
            .ok_or_else(|| Error::corrupt("a trailer is not one any more"))?;
        let mut data = without_depth(key, &bytes[SIZE_BYTES as usize..][..place.len as usize]).to_vec();
        old.take_over(&mut data, FrameIdentity::of(&frame), seal, offset)?;
        let written = match owner {
            FrameOwner::World => out.frame(key, place.tag, frame.generation, &data),
            FrameOwner::Pins => out.pinned_frame(key, place.tag, frame.generation, &data),
        };
        Ok(written.map_err(failed)?.place)
    }

    /// Writes a frame, sealed if the file is.
    fn write_frame(
        &self,
        NewFrame { key, tag, data }: &NewFrame,
        owner: FrameOwner,
        out: &mut FrameWriter<'_>,
    ) -> Result<WrittenFrame> {
        let (key, tag) = (*key, *tag);
        let (generation, offset) = (self.generation, out.next_offset());
        let sealed = match &self.seal {
            None => None,
            Some(seal) => Some(seal.seal(data, FrameIdentity { key, tag, generation, offset })?),
        };
        let data = sealed.as_deref().unwrap_or(data);
        let written = match owner {
            FrameOwner::World => out.frame(key, tag, generation, data),
            FrameOwner::Pins => out.pinned_frame(key, tag, generation, data),
        };
        written.map_err(write_error(self.disk, "write", self.name))
    }

    /// Writes new frames.
    fn add_frames<F: Borrow<NewFrame>>(
        &self,
        draft: &mut Draft,
        frames: impl Iterator<Item = Result<F>>,
    ) -> Result<()> {
        let file = draft.file.clone();
        let mut out = FrameWriter::new(&*file, draft.end, std::mem::take(&mut draft.buffer));
        for frame in frames {
            let frame = frame?;
            let frame = frame.borrow();
            draft.new.note(frame.key, self.write_frame(frame, FrameOwner::World, &mut out)?);
            draft.new.entities.add(frame.key, &frame.data);
        }
        out.flush().map_err(write_error(self.disk, "write", self.name))?;
        (draft.end, draft.buffer) = (out.end, out.buffer);
        Ok(())
    }

    /// Writes the frames that are put aside, then what comes behind all frames and before them, and makes everything durable.
    pub(super) fn finish(&self, draft: &mut Draft) -> Result<WrittenFile> {
        let aside = self.put_aside(draft)?;
        let pins = self.add_pins(draft, &aside)?;
        let file = draft.file.clone();
        let out = FrameWriter::new(&*file, draft.end, std::mem::take(&mut draft.buffer));
        let new = std::mem::take(&mut draft.new);
        let written = self.write_lists(out, new, draft.header.clone());
        let mut written = written.map_err(write_error(self.disk, "write", self.name))?;
        written.pins = pins;
        written.pins.finish_loading(&written.indices);
        Ok(written)
    }

    /// Writes what is left of damaged frames.
    fn put_aside(&self, draft: &mut Draft) -> Result<Vec<FrameAside>> {
        let mut all = Vec::new();
        let file = draft.file.clone();
        let mut out = FrameWriter::new(&*file, draft.end, std::mem::take(&mut draft.buffer));
        for DamagedCopy { frame, left } in std::mem::take(&mut draft.damaged) {
            let aside = match &left {
                None => None,
                Some(left) => {
                    let written = self.write_frame(left, frame.owner, &mut out)?;
                    match frame.owner {
                        FrameOwner::World => draft.new.note(left.key, written),
                        FrameOwner::Pins => draft.new.crcs_of_pins.push(written.crc),
                    }
                    Some((left.key, written.place))
                }
            };
            all.push(FrameAside { key: frame.key, from: frame.place, aside });
        }
        out.flush().map_err(write_error(self.disk, "write", self.name))?;
        (draft.end, draft.buffer) = (out.end, out.buffer);
        Ok(all)
    }

    /// Writes what describes pins, now that it is known where their frames are.
    fn add_pins(&self, draft: &mut Draft, aside: &[FrameAside]) -> Result<Pins> {
        if draft.kept.pins.is_empty() {
            return Ok(Pins::default());
        }
        let mut present = Indices::default();
        for (key, place) in &draft.new.places {
            present.set(*key, *place);
        }
        let (pins, frames) = pins_of_new_file(&draft.kept.pins, &draft.moved, aside, &present);
        self.add_frames(draft, frames.iter().map(Ok))?;
        Ok(pins)
    }

    /// Writes what comes behind the frames, and what comes before them.
    fn write_lists(
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
            digest: digest(new.crcs.iter().chain(&new.crcs_of_pins).copied()),
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
        front.extend_from_slice(&encode_image(header.version, entries.into_iter()));
        out.file.write_all_at(&front, 0)?;
        out.file.sync()?;
        let (end, tail_start) = (commit.place.end(), section.end());
        let generation = self.generation;
        let pins = Pins::default();
        Ok(WrittenFile { header, indices, generation, end, tail_start, side: side_chain, pins, chain })
    }

    /// Begins a check of the file: a disk, a cable or memory that lies is found while the old file is there.
    pub(super) fn begin_check(&self, file: &Arc<dyn DiskFile>, written: &WrittenFile) -> Result<FileCheck> {
        let WrittenFile { header, indices, pins, .. } = written;
        let Self { disk, name, seal, .. } = self;
        ExpectedFile { disk: *disk, name, seal: seal.as_ref(), header, indices, pins }.begin_check(file)
    }

    /// Gives a file that was written its name. The error says whether the name may be the new file's.
    pub(super) fn publish(&self) -> Result<(), PublishError> {
        let temporary = &self.temporary_name();
        if let Err(error) = self.disk.rename(temporary, self.name) {
            // A file that is still there did not get the name.
            let may_have_name = self.disk.open(temporary, Access::Read).is_err();
            let _ = self.disk.remove(temporary);
            let error = write_error(self.disk, "replace", self.name)(error);
            return Err(PublishError { error, may_have_name });
        }
        let synced =
            self.disk.sync_dir().map_err(write_error(self.disk, "make the name durable of", self.name));
        synced.map_err(|error| PublishError { error, may_have_name: true })
    }

    /// Creates a file with some frames. It must not be there.
    pub(crate) fn create(&self, change: &FrameChange) -> Result<()> {
        let _lock = take_lock(self.disk, self.name)?;
        if self.disk.open(self.name, Access::Read).is_ok() {
            return Err(Error::conflict(format!("`{}` is there already", self.name)));
        }
        drop(self.write(None, &CommitContent::save(change), &mut |_, _| {})?);
        self.publish().map_err(|failure| failure.error)
    }
}

/// A new file that did not get its name durably.
pub(super) struct PublishError {
    pub(super) error: Error,
    /// The name may mean the new file, now or after a crash.
    pub(super) may_have_name: bool,
}

/// A frame that could not be copied.
struct DamagedCopy {
    frame: KeptFrame,
    /// What is left of it; `None` if there is another copy of the same.
    left: Option<NewFrame>,
}

/// The frames that were written to a new file.
#[derive(Default)]
struct NewContent {
    places: BTreeMap<FrameKey, FramePlace>,
    /// The frames of the file's own generation: its commit lists them, as that of any save does.
    own: Vec<(FrameKey, FramePlace)>,
    crcs: Vec<u32>,
    /// The same of frames that only pins have, which no list names.
    crcs_of_pins: Vec<u32>,
    entities: EntitySection,
}

impl NewContent {
    fn note(&mut self, key: FrameKey, appended: WrittenFrame) {
        self.places.insert(key, appended.place);
        self.own.push((key, appended.place));
        self.crcs.push(appended.crc);
    }
}

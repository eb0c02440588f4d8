//! The entities of a chunk: a snapshot of the core, with the schemas of all chunks in one place.
//!
//! A small snapshot is mostly schemas, and all chunks have the same ones. So those sections are cut out, stored once under
//! their hash, and put back when the snapshot is read: what comes back is what was put in, byte for byte.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bonfire::{EncodeOptions, Error, Result, Snapshot};

use super::edit::PendingChange;
use super::identity::{WITHOUT_STABLE_IDS, stable_ids};
use super::{ChunkWorld, World};
use crate::format::{FrameKey, FrameKind, FrameTag, Resident, take};
use crate::frames::NewFrame;
use crate::{ChunkPos, ChunkRect};

/// The number of the section in the core's format.
const SCHEMAS: u16 = 3;
/// A hostile list could name one section again and again. No game has schemas of this size.
const CUT_BYTES_MAX: u64 = 64 << 20;
/// Sections shorter than this are left where they are.
const CUT_BYTES_MIN: usize = 128;

/// The entities of a chunk, as they are handed to an edit.
#[derive(Clone)]
pub(super) enum NewEntities {
    /// The bytes of a snapshot.
    Bytes(Arc<[u8]>),
    /// A captured world.
    Snapshot(Box<Snapshot>),
}

impl NewEntities {
    /// The bytes of the snapshot.
    pub(super) fn encode(&self) -> Result<Arc<[u8]>> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.clone()),
            Self::Snapshot(snapshot) => Ok(snapshot.encode(&EncodeOptions::default())?.to_vec().into()),
        }
    }
}

impl ChunkWorld {
    /// The snapshot of a chunk's entities, byte for byte as it was saved; `None` if there is none.
    pub fn read_entities(&self, pos: impl Into<ChunkPos>) -> Result<Option<Vec<u8>>> {
        let pos = pos.into();
        self.inner.dimension(pos)?;
        let here = |error: Error| error.in_field(format_args!("entities of chunk {pos}"));
        let read = |_, data: &[u8]| self.inner.join(data).map_err(here);
        self.inner.frames.read(FrameKey::new(FrameKind::Snapshot, pos), read)
    }

    /// The chunks of a rectangle that have entities, row by row.
    pub fn chunks_with_entities(&self, rect: ChunkRect) -> Vec<ChunkPos> {
        self.inner.frames.positions(FrameKind::Snapshot, &rect)
    }
}

impl World {
    pub(super) fn change_entities(
        &self,
        entities: &BTreeMap<ChunkPos, Option<Arc<[u8]>>>,
        removed_chunks: &BTreeSet<ChunkPos>,
        pending: &mut PendingChange,
    ) -> Result<()> {
        self.note_entities_gone(entities.keys().chain(removed_chunks), pending)?;
        let PendingChange { frames, removed, ids, .. } = pending;
        for (pos, snapshot) in entities {
            let key = FrameKey::new(FrameKind::Snapshot, *pos);
            let Some(snapshot) = snapshot else {
                removed.insert(key);
                continue;
            };
            removed.remove(&key);
            let split = SplitSnapshot::of(snapshot)
                .map_err(|error| error.in_field(format_args!("entities of chunk {pos}")))?;
            for (hash, section) in &split.sections {
                for place in places(*hash) {
                    let key = FrameKey::new(FrameKind::Schema, place);
                    let is_there =
                        self.frames.read(key, |_, data| Ok(data == *section)).ok().flatten() == Some(true);
                    if !is_there {
                        frames.entry(key).or_insert_with(|| NewFrame {
                            key,
                            tag: FrameTag::default(),
                            data: section.to_vec(),
                        });
                    }
                }
            }
            let storage = if split.stable_ids.is_empty() { WITHOUT_STABLE_IDS } else { 0 };
            ids.extend(split.stable_ids.iter().map(|id| (Resident::Entity(*id), Some(*pos))));
            let tag = FrameTag { storage, ..FrameTag::default() };
            frames.insert(key, NewFrame { key, tag, data: split.encode() });
        }
        Ok(())
    }

    /// Notes that the entities of some chunks are there no more, as far as they were there. Those that come again are noted
    /// after that.
    fn note_entities_gone<'p>(
        &self,
        chunks: impl Iterator<Item = &'p ChunkPos>,
        pending: &mut PendingChange,
    ) -> Result<()> {
        for pos in chunks {
            self.note_gone(FrameKey::new(FrameKind::Snapshot, *pos), pending)?;
        }
        Ok(())
    }

    /// Puts a snapshot together again.
    pub(super) fn join(&self, data: &[u8]) -> Result<Vec<u8>> {
        let (cuts, rest) = decode_cuts(data)?;
        let cut_bytes: u64 = cuts.iter().map(|cut| u64::from(cut.len)).sum();
        if cut_bytes > CUT_BYTES_MAX {
            return Err(Error::limit(format!(
                "{cut_bytes} bytes of schemas are more than a snapshot may have"
            )));
        }
        let mut snapshot = Vec::with_capacity(
            rest.len() + cuts.iter().map(|cut| cut.len as usize).sum::<usize>().min(rest.len() * 16),
        );
        let mut taken = 0;
        for cut in cuts {
            let before =
                (cut.at as usize).checked_sub(snapshot.len()).and_then(|len| rest.get(taken..taken + len));
            let before =
                before.ok_or_else(|| Error::corrupt("sections are cut out of places that are not there"))?;
            snapshot.extend_from_slice(before);
            taken += before.len();
            self.append_section(&cut, &mut snapshot)?;
        }
        snapshot.extend_from_slice(&rest[taken..]);
        Ok(snapshot)
    }

    fn append_section(&self, cut: &SchemaCut, out: &mut Vec<u8>) -> Result<()> {
        let mut lost = None;
        for place in places(cut.hash) {
            let found = self.frames.read(FrameKey::new(FrameKind::Schema, place), |_, data| {
                let is_it = data.len() == cut.len as usize && hash(data) == cut.hash;
                if is_it {
                    out.extend_from_slice(data);
                }
                Ok(is_it)
            });
            match found {
                Ok(Some(true)) => return Ok(()),
                Ok(_) => {}
                Err(error) => lost = Some(error),
            }
        }
        Err(lost.unwrap_or_else(|| Error::corrupt("the schemas that it needs are lost")))
    }
}

/// Schemas are there twice: everything that needs them would be lost with them.
fn places(hash: u64) -> [ChunkPos; 2] {
    [hash, !hash].map(|hash| ChunkPos::new((hash as u32).cast_signed(), ((hash >> 32) as u32).cast_signed()))
}

/// FNV-1a, with a finish that mixes the high bits too. Contents are compared where a section is stored.
fn hash(bytes: &[u8]) -> u64 {
    let all = bytes.iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
    });
    (all ^ (all >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// A section that was cut out.
struct SchemaCut {
    hash: u64,
    /// Where it was in the snapshot.
    at: u32,
    len: u32,
}

const CUT_BYTES: usize = 16;

/// A snapshot without its schemas.
struct SplitSnapshot<'s> {
    cuts: Vec<SchemaCut>,
    sections: Vec<(u64, &'s [u8])>,
    rest: Vec<&'s [u8]>,
    stable_ids: Vec<u64>,
}

impl<'s> SplitSnapshot<'s> {
    fn of(snapshot: &'s [u8]) -> Result<Self> {
        let opened = Snapshot::open(snapshot)?;
        let sections = opened.sections();
        let stable_ids = stable_ids(&opened)?;
        let mut split = Self { cuts: Vec::new(), sections: Vec::new(), rest: Vec::new(), stable_ids };
        let mut at = 0;
        for (number, section) in sections.iter().enumerate().filter(|(_, section)| section.kind == SCHEMAS) {
            let start = usize::try_from(section.offset).unwrap_or(usize::MAX);
            let next = sections.get(number + 1).and_then(|next| usize::try_from(next.offset).ok());
            let Some(bytes) =
                next.and_then(|next| snapshot.get(start..next)).filter(|bytes| bytes.len() >= CUT_BYTES_MIN)
            else {
                continue;
            };
            let (Ok(cut_at), Ok(len)) = (u32::try_from(start), u32::try_from(bytes.len())) else { continue };
            split.rest.push(&snapshot[at..start]);
            at = start + bytes.len();
            split.cuts.push(SchemaCut { hash: hash(bytes), at: cut_at, len });
            split.sections.push((hash(bytes), bytes));
        }
        split.rest.push(&snapshot[at..]);
        Ok(split)
    }

    fn encode(&self) -> Vec<u8> {
        let mut data = (self.cuts.len() as u32).to_le_bytes().to_vec();
        for SchemaCut { hash, at, len } in &self.cuts {
            data.extend_from_slice(&hash.to_le_bytes());
            data.extend_from_slice(&at.to_le_bytes());
            data.extend_from_slice(&len.to_le_bytes());
        }
        self.rest.iter().for_each(|part| data.extend_from_slice(part));
        data
    }
}

fn decode_cuts(mut data: &[u8]) -> Result<(Vec<SchemaCut>, &[u8])> {
    let bytes = &mut data;
    let corrupt = || Error::corrupt("the list of what was cut out is cut itself");
    let count = u32::from_le_bytes(take(bytes).ok_or_else(corrupt)?) as usize;
    if count.checked_mul(CUT_BYTES).is_none_or(|needed| needed > bytes.len()) {
        return Err(corrupt());
    }
    let one = |bytes: &mut &[u8]| {
        let hash = u64::from_le_bytes(take(bytes)?);
        Some(SchemaCut { hash, at: u32::from_le_bytes(take(bytes)?), len: u32::from_le_bytes(take(bytes)?) })
    };
    let cuts: Option<Vec<SchemaCut>> = (0..count).map(|_| one(bytes)).collect();
    Ok((cuts.ok_or_else(corrupt)?, *bytes))
}

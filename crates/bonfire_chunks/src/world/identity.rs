//! Which chunk each body, and each entity with a stable id, belongs to: an index that is saved with what it lists.
//!
//! Its parts are frames. A part has the ids whose hash ends with its bits; one that gets too long becomes two. So a save writes
//! the parts that it changes, and a look-up reads one. If a part is lost, or a world has none, the index is made of all lists
//! of bodies and all entities, and is written with the next save that changes something of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bonfire::inspect::ArchetypeView;
use bonfire::{Error, Limits, Result, Snapshot, Value};

use super::edit::PendingChange;
use super::{ChunkWorld, World};
use crate::body::stored_ids;
use crate::format::{FrameKey, FrameKind, FrameTag, Resident, decode_residents, encode_residents};
use crate::frames::NewFrame;
use crate::{BodyId, ChunkPos, ChunkRect};

/// Entries of a part that is not split.
const PART_MAX: usize = 64;
/// A part with all bits of a hash is never split.
const DEPTH_MAX: u32 = 32;
/// The key of the component `StableId`.
const STABLE_ID: &str = "bonfire.stable_id";

/// The entries of one part.
type Part = BTreeMap<Resident, ChunkPos>;

/// The known part of the index.
#[derive(Default)]
pub(super) struct IdIndex(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Parts that were read, by the position of their frame.
    parts: HashMap<ChunkPos, Part>,
    /// Another one after each change, so that what was read before it is not taken for what is there after it.
    version: u64,
    /// The whole index, if the store does not have it.
    whole: Option<Part>,
    /// The store has an index, and it may be wrong.
    is_distrusted: bool,
    /// Where those will be that the save moves which is being written.
    arriving: HashMap<Resident, ChunkPos>,
}

/// Changes of the index, for the time when they are in the store.
#[derive(Default)]
pub(super) struct IdEffects {
    changes: BTreeMap<Resident, Option<ChunkPos>>,
    parts: Vec<(ChunkPos, Option<Part>)>,
    is_whole_written: bool,
}

impl IdIndex {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the next use look at everything: parts of the world were lost, or it was written by somebody else.
    pub(super) fn distrust(&self) {
        *self.known() = Known { is_distrusted: true, ..Known::default() };
    }

    /// Forgets what was read: another process has written to the store.
    pub(super) fn forget(&self) {
        let mut known = self.known();
        known.parts.clear();
        known.whole = None;
        known.version += 1;
    }

    /// Notes that changes are about to be written: from some moment on, reads find them in the store.
    pub(super) fn begin(&self, effects: &IdEffects) {
        let arriving = effects.changes.iter().filter_map(|(resident, to)| Some((*resident, (*to)?)));
        self.known().arriving = arriving.collect();
    }

    /// Notes that changes were not written.
    pub(super) fn cancel(&self) {
        self.known().arriving.clear();
    }

    /// Notes that changes are in the store.
    pub(super) fn apply(&self, effects: IdEffects) {
        let mut known = self.known();
        known.arriving.clear();
        known.version += 1;
        if effects.is_whole_written {
            known.parts.clear();
            known.whole = None;
            known.is_distrusted = false;
        }
        for (pos, part) in effects.parts {
            match part {
                Some(part) => drop(known.parts.insert(pos, part)),
                None => drop(known.parts.remove(&pos)),
            }
        }
    }
}

impl ChunkWorld {
    /// Returns the chunk that a body is in. `None` if no chunk has it.
    pub fn chunk_of_body(&self, id: BodyId) -> Result<Option<ChunkPos>> {
        self.inner.home(Resident::Body(id.0))
    }

    /// Returns the chunk whose entities have one with this stable id, by its bits. `None` if no chunk has it. If several have,
    /// it is the one that was saved last.
    pub fn chunk_of_entity(&self, stable_id: u64) -> Result<Option<ChunkPos>> {
        self.inner.home(Resident::Entity(stable_id))
    }
}

impl World {
    /// Returns the chunk that somebody belongs to.
    pub(super) fn home(&self, resident: Resident) -> Result<Option<ChunkPos>> {
        loop {
            let version = {
                let known = self.ids.known();
                if let Some(whole) = &known.whole {
                    return Ok(whole.get(&resident).copied());
                }
                known.version
            };
            let Some(part) = self.part_of(resident) else {
                self.make_whole(version)?;
                continue;
            };
            if let Some(part) = self.ids.known().parts.get(&part) {
                return Ok(part.get(&resident).copied());
            }
            match self.read_part(part) {
                Ok(Some(read)) => {
                    let mut known = self.ids.known();
                    if known.version == version {
                        known.parts.insert(part, read);
                    }
                }
                // It was split meanwhile.
                Ok(None) => {}
                Err(error) if error.is_corrupt() => self.make_whole(version)?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns true if a chunk that lists somebody is the one they are in, or if no other is known to be.
    pub(super) fn is_home(&self, resident: Resident, pos: ChunkPos) -> Result<bool> {
        let is_arriving = || self.ids.known().arriving.get(&resident) == Some(&pos);
        Ok(self.home(resident)?.is_none_or(|home| home == pos) || is_arriving())
    }

    /// Returns the position of the frame that has somebody's entry. `None` if the store has no such part.
    fn part_of(&self, resident: Resident) -> Option<ChunkPos> {
        if self.ids.known().is_distrusted {
            return None;
        }
        let parts = (0..=DEPTH_MAX).map(|depth| part_at(resident.hash(), depth));
        parts.into_iter().find(|pos| self.frames.tag(FrameKey::new(FrameKind::Ids, *pos)).is_some())
    }

    fn read_part(&self, pos: ChunkPos) -> Result<Option<Part>> {
        self.frames.read(FrameKey::new(FrameKind::Ids, pos), |_, data| {
            Ok(decode_residents(data)?.into_iter().collect())
        })
    }

    /// Finds where everybody is by looking at all lists. Nothing is kept if the index was changed since `version`.
    fn make_whole(&self, version: u64) -> Result<()> {
        let (whole, twice) = self.find_all()?;
        let mut known = self.ids.known();
        if known.version == version {
            known.whole = Some(whole);
            drop(known);
            self.stale_bodies().extend(twice);
        }
        Ok(())
    }

    /// Returns where everybody is, and the chunks that list a body of another chunk. What is damaged is left out.
    pub(super) fn find_all(&self) -> Result<(Part, BTreeSet<ChunkPos>)> {
        let (mut all, mut twice) = (Part::new(), BTreeSet::new());
        for pos in self.frames.positions(FrameKind::Bodies, &ChunkRect::ALL) {
            for id in self.body_ids_of(pos)? {
                match all.entry(Resident::Body(id.0)) {
                    std::collections::btree_map::Entry::Vacant(free) => drop(free.insert(pos)),
                    std::collections::btree_map::Entry::Occupied(_) => drop(twice.insert(pos)),
                }
            }
        }
        for pos in self.frames.positions(FrameKind::Snapshot, &ChunkRect::ALL) {
            all.extend(self.stable_ids_of(pos)?.into_iter().map(|id| (Resident::Entity(id), pos)));
        }
        Ok((all, twice))
    }

    /// Returns the ids of the bodies that a chunk lists, as far as they can be read.
    pub(super) fn body_ids_of(&self, pos: ChunkPos) -> Result<Vec<BodyId>> {
        let read = self.frames.read(FrameKey::new(FrameKind::Bodies, pos), |_, data| Ok(stored_ids(data)));
        none_if_damaged(read)
    }

    /// Returns the stable ids of a chunk's entities, as far as they can be read.
    pub(super) fn stable_ids_of(&self, pos: ChunkPos) -> Result<Vec<u64>> {
        let key = FrameKey::new(FrameKind::Snapshot, pos);
        if self.frames.tag(key).is_none_or(|tag| tag.storage == WITHOUT_STABLE_IDS) {
            return Ok(Vec::new());
        }
        let read = self.frames.read(key, |_, data| stable_ids(&Snapshot::open(&self.join(data)?)?));
        none_if_damaged(read)
    }

    /// Looks whether a part of the index says what the lists say.
    pub(super) fn check_ids(&self, pos: ChunkPos) -> Result<()> {
        for (resident, home) in self.read_part(pos)?.unwrap_or_default() {
            let key = FrameKey::new(resident.kind(), home);
            let is_there = match resident {
                Resident::Body(id) => self.body_ids_of(home)?.contains(&BodyId(id)),
                Resident::Entity(id) => self.stable_ids_of(home)?.contains(&id),
            };
            if !is_there && !self.is_damaged(key) {
                return Err(Error::corrupt(format!(
                    "the index says that {resident:?} is in {home}, which is not so"
                )));
            }
        }
        Ok(())
    }

    /// Returns true if a list cannot be read.
    fn is_damaged(&self, key: FrameKey) -> bool {
        self.frames.read(key, |_, _| Ok(())).is_err()
    }

    /// Notes that everybody in a list is gone from it. Those that come again are noted after that.
    pub(super) fn note_gone(&self, key: FrameKey, pending: &mut PendingChange) -> Result<()> {
        let listed: Vec<Resident> = match key.kind {
            // Nothing but the index knows who was there.
            _ if self.is_damaged(key) => self.residents_of(key)?,
            FrameKind::Bodies => {
                self.body_ids_of(key.pos)?.into_iter().map(|id| Resident::Body(id.0)).collect()
            }
            _ => self.stable_ids_of(key.pos)?.into_iter().map(Resident::Entity).collect(),
        };
        for resident in listed {
            if self.home(resident)? == Some(key.pos) {
                pending.ids.insert(resident, None);
            }
        }
        Ok(())
    }

    /// Returns everybody who is in a list as far as the index knows, by a look at all of it.
    fn residents_of(&self, key: FrameKey) -> Result<Vec<Resident>> {
        let whole = self.ids.known().whole.clone();
        let mut all = whole.unwrap_or_default();
        for pos in self.frames.positions(FrameKind::Ids, &ChunkRect::ALL) {
            match self.read_part(pos) {
                Ok(part) => all.extend(part.unwrap_or_default()),
                // It is made again when somebody of it is looked up.
                Err(error) if error.is_corrupt() => {}
                Err(error) => return Err(error),
            }
        }
        let is_there =
            |(resident, home): &(Resident, ChunkPos)| *home == key.pos && resident.kind() == key.kind;
        Ok(all.into_iter().filter(is_there).map(|(resident, _)| resident).collect())
    }

    /// Adds the parts of the index that a change of ids changes.
    pub(super) fn change_ids(&self, pending: &mut PendingChange) -> Result<()> {
        let mut changes: BTreeMap<Resident, Option<ChunkPos>> = BTreeMap::new();
        for (resident, to) in std::mem::take(&mut pending.ids) {
            if self.home(resident)? != to {
                changes.insert(resident, to);
            }
        }
        if changes.is_empty() {
            return Ok(());
        }
        let whole = self.ids.known().whole.clone();
        pending.effects.ids.changes.clone_from(&changes);
        let parts = match whole {
            Some(whole) => self.replace_index(whole, changes, pending),
            None => self.change_parts(changes, pending)?,
        };
        pending.effects.ids.parts = parts;
        Ok(())
    }

    /// Writes an index that the store does not have, with its changes.
    fn replace_index(
        &self,
        mut whole: Part,
        changes: BTreeMap<Resident, Option<ChunkPos>>,
        pending: &mut PendingChange,
    ) -> Vec<(ChunkPos, Option<Part>)> {
        change_part(&mut whole, changes);
        let old = self.frames.positions(FrameKind::Ids, &ChunkRect::ALL);
        pending.removed.extend(old.into_iter().map(|pos| FrameKey::new(FrameKind::Ids, pos)));
        pending.effects.ids.is_whole_written = true;
        let mut parts = Vec::new();
        split(0, 0, whole, &mut parts);
        write_parts(&parts, pending);
        parts
    }

    /// Writes the parts that changes belong to.
    fn change_parts(
        &self,
        changes: BTreeMap<Resident, Option<ChunkPos>>,
        pending: &mut PendingChange,
    ) -> Result<Vec<(ChunkPos, Option<Part>)>> {
        let mut by_part: BTreeMap<ChunkPos, BTreeMap<Resident, Option<ChunkPos>>> = BTreeMap::new();
        let lost = || Error::corrupt("a part of the index of ids is lost");
        for (resident, to) in changes {
            let part = self.part_of(resident).ok_or_else(lost)?;
            by_part.entry(part).or_default().insert(resident, to);
        }
        let mut parts = Vec::new();
        for (pos, changes) in by_part {
            let known = self.ids.known().parts.get(&pos).cloned();
            let mut part = match known {
                Some(part) => part,
                None => self.read_part(pos)?.ok_or_else(lost)?,
            };
            change_part(&mut part, changes);
            if part.len() > PART_MAX && pos.y.cast_unsigned() < DEPTH_MAX {
                parts.push((pos, None));
            }
            split(pos.x.cast_unsigned(), pos.y.cast_unsigned(), part, &mut parts);
        }
        write_parts(&parts, pending);
        Ok(parts)
    }
}

/// The tag of entities none of which has a stable id.
pub(super) const WITHOUT_STABLE_IDS: u8 = 1;

/// Returns the position of the frame with all ids whose hash ends with the last `depth` bits of this one.
fn part_at(hash: u32, depth: u32) -> ChunkPos {
    let bits = if depth == 0 { 0 } else { hash & (u32::MAX >> (32 - depth)) };
    ChunkPos::new(bits.cast_signed(), depth.cast_signed())
}

fn change_part(part: &mut Part, changes: BTreeMap<Resident, Option<ChunkPos>>) {
    for (resident, to) in changes {
        match to {
            Some(pos) => drop(part.insert(resident, pos)),
            None => drop(part.remove(&resident)),
        }
    }
}

/// Splits a part until each piece is short enough. Both halves are kept, also if one is empty: every id has a part.
fn split(bits: u32, depth: u32, part: Part, out: &mut Vec<(ChunkPos, Option<Part>)>) {
    if part.len() <= PART_MAX || depth >= DEPTH_MAX {
        out.push((ChunkPos::new(bits.cast_signed(), depth.cast_signed()), Some(part)));
        return;
    }
    let (upper, lower): (Part, Part) =
        part.into_iter().partition(|(resident, _)| resident.hash() >> depth & 1 == 1);
    split(bits, depth + 1, lower, out);
    split(bits | 1 << depth, depth + 1, upper, out);
}

fn write_parts(parts: &[(ChunkPos, Option<Part>)], pending: &mut PendingChange) {
    for (pos, part) in parts {
        let key = FrameKey::new(FrameKind::Ids, *pos);
        match part {
            None => drop(pending.removed.insert(key)),
            Some(part) => {
                pending.removed.remove(&key);
                let data = encode_residents(part.iter().map(|(resident, pos)| (*resident, *pos)));
                pending.frames.insert(key, NewFrame { key, tag: FrameTag::default(), data });
            }
        }
    }
}

/// Returns the bits of all stable ids in a snapshot.
pub(super) fn stable_ids(snapshot: &Snapshot) -> Result<Vec<u64>> {
    let mut ids = Vec::new();
    for archetype in snapshot.archetypes() {
        ids.extend(stable_ids_of_archetype(&archetype)?);
    }
    Ok(ids)
}

fn stable_ids_of_archetype(archetype: &ArchetypeView<'_>) -> Result<Vec<u64>> {
    let Some(column) = archetype.column(STABLE_ID) else { return Ok(Vec::new()) };
    Ok(column.values(&Limits::default())?.into_iter().flatten().filter_map(number).collect())
}

/// The number in a value, or in the only part of it.
fn number(value: Value) -> Option<u64> {
    match value {
        Value::U64(number) => Some(number),
        Value::Tuple(mut parts) => parts.pop().filter(|_| parts.is_empty()).and_then(number),
        Value::Struct(mut fields) => {
            fields.pop().filter(|_| fields.is_empty()).and_then(|(_, value)| number(value))
        }
        _ => None,
    }
}

/// Treats a damaged frame as one without entries.
fn none_if_damaged<T: Default>(read: Result<Option<T>>) -> Result<T> {
    match read {
        Ok(found) => Ok(found.unwrap_or_default()),
        Err(error) if error.is_io() || error.is_wrong_key() => Err(error),
        Err(_) => Ok(T::default()),
    }
}

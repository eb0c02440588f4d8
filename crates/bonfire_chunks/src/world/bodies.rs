//! Bodies: a list per chunk, in a frame of its own.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bonfire::{Error, Result};

use super::cells::Encoder;
use super::edit::PendingChange;
use super::{ChunkWorld, SaveState, World};
use crate::file::NewFrame;
use crate::format::{FrameKey, FrameKind, FrameTag};
use crate::{Body, BodyId, BodyIds, ChunkPos, ChunkRect, decode_bodies, encode_bodies};

impl ChunkWorld {
    /// The bodies whose centre lies in a chunk. Empty ones, which only other programs store, are left out, and out of the file
    /// with the next save.
    pub fn read_bodies(&self, pos: impl Into<ChunkPos>) -> Result<Vec<Body>> {
        let pos = pos.into();
        let Some(mut bodies) = self.inner.stored_bodies(pos)? else { return Ok(Vec::new()) };
        let mut saving = self.inner.saving();
        let before = bodies.len();
        bodies.retain(|body| !body.is_empty());
        if bodies.len() < before {
            saving.with_empty_bodies.insert(pos);
        }
        // A body of which two chunks know is where this session has met it first, or saved it.
        bodies.retain(|body| saving.is_home(body.id, pos));
        Ok(bodies)
    }

    /// The chunks of a rectangle that have bodies, row by row.
    pub fn chunks_with_bodies(&self, rect: ChunkRect) -> Vec<ChunkPos> {
        let state = self.inner.file.state();
        state.indices.of(FrameKind::Bodies).range(&rect).into_iter().map(|(pos, _)| pos).collect()
    }

    /// Gives out ids for new bodies that no session of this world has given out, or will. What is split off a body takes new
    /// ids from it, too.
    pub fn body_ids(&self) -> BodyIds {
        let mut saving = self.inner.saving();
        saving.settings.session = saving.settings.session.wrapping_add(1).max(1);
        saving.settings_changed = true;
        BodyIds::new(saving.settings.session)
    }
}

impl SaveState {
    /// Returns true if this session takes a body to be in a chunk. It notes the chunk if it has not met the body yet.
    fn is_home(&mut self, id: BodyId, pos: ChunkPos) -> bool {
        *self.homes.entry(id).or_insert(pos) == pos || self.arriving.get(&id) == Some(&pos)
    }
}

impl World {
    /// All bodies that the file has for a chunk; `None` if it has no list.
    fn stored_bodies(&self, pos: ChunkPos) -> Result<Option<Vec<Body>>> {
        let key = FrameKey::new(FrameKind::Bodies, pos);
        let here = |error: Error| error.in_field(format_args!("bodies of chunk {pos}"));
        self.file.read(key, |tag, data| {
            let (conversion, set_bytes) = self.conversion(tag.layers).map_err(here)?;
            let list = decode_bodies(data, set_bytes, self.options.body_limits).map_err(here)?;
            if let Some(lost) = list.lost.into_iter().next() {
                return Err(here(lost.error));
            }
            let mut bodies = list.bodies;
            if !conversion.is_identity() {
                for body in &mut bodies {
                    let cells = body.cells.len() / set_bytes.max(1);
                    let mut converted = vec![0; cells * self.options.layers.cell_bytes()];
                    conversion.to_memory(&body.cells, &mut converted).map_err(here)?;
                    body.cells = converted;
                }
            }
            Ok(bodies)
        })
    }

    /// Adds the lists of bodies that an edit changes, directly or by taking a body from another chunk.
    pub(super) fn change_bodies(
        &self,
        lists: BTreeMap<ChunkPos, Vec<Body>>,
        removed_chunks: &BTreeSet<ChunkPos>,
        saving: &mut SaveState,
        pending: &mut PendingChange,
    ) -> Result<()> {
        let new_homes = self.homes_of(&lists)?;
        // Ids of the game's own, or of another program, are not given out by later sessions either.
        let sessions = new_homes.keys().map(|id| id.session());
        // After the last session they would begin again.
        let highest = sessions.filter(|session| *session < u32::MAX).max().unwrap_or(0);
        if highest > saving.settings.session {
            saving.settings.session = highest;
            saving.settings_changed = true;
        }
        let all = self.with_other_lists(lists, removed_chunks, &new_homes, saving)?;
        let gone = saving.homes.iter().filter(|(id, home)| {
            (all.contains_key(home) || removed_chunks.contains(home)) && !new_homes.contains_key(id)
        });
        let gone: HashSet<BodyId> = gone.map(|(id, _)| *id).collect();
        let kept: HashSet<BodyId> = all.values().flatten().map(|body| body.id).collect();
        let PendingChange { frames, removed, effects } = pending;
        effects.homes.extend(gone.into_iter().filter(|id| !kept.contains(id)).map(|id| (id, None)));
        let carried = self.carried_by_bodies(&all, saving)?;
        for (pos, bodies) in all {
            let key = FrameKey::new(FrameKind::Bodies, pos);
            effects.bodies_written.push(pos);
            effects
                .homes
                .extend(bodies.iter().filter(|body| !body.is_empty()).map(|body| (body.id, Some(pos))));
            if bodies.iter().all(Body::is_empty) {
                removed.insert(key);
            } else {
                removed.remove(&key);
                let tag = FrameTag { layers: saving.settings.current, ..FrameTag::default() };
                frames.insert(key, NewFrame { key, tag, data: self.encode_list(bodies, &carried, saving)? });
            }
        }
        Ok(())
    }

    /// The chunk of each body in these lists. A body has one, which is where its list is.
    fn homes_of(&self, lists: &BTreeMap<ChunkPos, Vec<Body>>) -> Result<HashMap<BodyId, ChunkPos>> {
        let mut homes = HashMap::new();
        for (pos, bodies) in lists {
            for body in bodies.iter().filter(|body| !body.is_empty()) {
                self.check_body(*pos, body)?;
                if let Some(other) = homes.insert(body.id, *pos) {
                    return Err(Error::misuse(format!("body {} is saved in {other} and in {pos}", body.id)));
                }
            }
        }
        Ok(homes)
    }

    /// Adds the lists of chunks that lose a body to another chunk, or have empty bodies.
    fn with_other_lists(
        &self,
        lists: BTreeMap<ChunkPos, Vec<Body>>,
        removed_chunks: &BTreeSet<ChunkPos>,
        new_homes: &HashMap<BodyId, ChunkPos>,
        saving: &SaveState,
    ) -> Result<BTreeMap<ChunkPos, Vec<Body>>> {
        let mut others: BTreeSet<ChunkPos> = saving.with_empty_bodies.clone();
        others.extend(
            new_homes.iter().filter_map(|(id, pos)| saving.homes.get(id).copied().filter(|home| home != pos)),
        );
        others.retain(|pos| !lists.contains_key(pos) && !removed_chunks.contains(pos));
        let mut all = lists;
        for pos in others {
            let bodies = match self.stored_bodies(pos) {
                Ok(bodies) => bodies.unwrap_or_default(),
                // It is damaged: nobody will read the body there.
                Err(error) if error.is_corrupt() => continue,
                Err(error) => return Err(error),
            };
            let is_here = |body: &Body| new_homes.get(&body.id).is_none_or(|home| *home == pos);
            all.insert(pos, bodies.into_iter().filter(is_here).collect());
        }
        Ok(all)
    }

    fn check_body(&self, pos: ChunkPos, body: &Body) -> Result<()> {
        match body.chunk(u32::from(self.options.chunk_size)) {
            Some(home) if home == pos => Ok(()),
            Some(home) => Err(Error::misuse(format!(
                "body {} is saved in {pos}, but its centre lies in {home}",
                body.id
            ))),
            None => Err(Error::misuse(format!("body {} is nowhere: {:?}", body.id, body.position))),
        }
    }

    /// What the file has of layers that the game does not have any more: it stays with bodies that have kept their size.
    fn carried_by_bodies(
        &self,
        lists: &BTreeMap<ChunkPos, Vec<Body>>,
        saving: &SaveState,
    ) -> Result<HashMap<BodyId, CarriedBody>> {
        let mut carried = HashMap::new();
        let set = saving.settings.current();
        if set.stored_bytes() == self.options.layers.stored_bytes() {
            return Ok(carried);
        }
        let encoder = Encoder::new(self, set.clone(), saving.settings.current);
        let homes = lists.values().flatten().filter_map(|body| saving.homes.get(&body.id));
        let places: BTreeSet<ChunkPos> = lists.keys().chain(homes).copied().collect();
        for pos in places {
            let read = self.file.read(FrameKey::new(FrameKind::Bodies, pos), |tag, data| {
                let (conversion, set_bytes) = self.conversion(tag.layers)?;
                for body in decode_bodies(data, set_bytes, self.options.body_limits)?.bodies {
                    if saving.homes.get(&body.id).is_none_or(|home| *home == pos) {
                        let bytes = encoder.carried_of(&conversion, &body.cells)?;
                        carried.insert(body.id, CarriedBody { size: [body.width, body.height], bytes });
                    }
                }
                Ok(())
            });
            match read {
                Err(error) if !error.is_corrupt() => return Err(error),
                // What is damaged is about to be replaced.
                _ => {}
            }
        }
        Ok(carried)
    }

    fn encode_list(
        &self,
        mut bodies: Vec<Body>,
        carried: &HashMap<BodyId, CarriedBody>,
        saving: &SaveState,
    ) -> Result<Vec<u8>> {
        let layers = &self.options.layers;
        let set = saving.settings.current();
        let carried_bytes = set.stored_bytes() - layers.stored_bytes();
        if !layers.is_plain() || carried_bytes > 0 {
            let defaults: Vec<u8> =
                set.layers().iter().flat_map(|layer| layer.default_value().iter().copied()).collect();
            for body in &mut bodies {
                let cells = body.cells.len() / layers.cell_bytes().max(1);
                let known = carried.get(&body.id).filter(|known| known.size == [body.width, body.height]);
                let carried = match known.filter(|known| known.bytes.len() == cells * carried_bytes) {
                    Some(known) => Cow::Borrowed(&known.bytes),
                    None => Cow::Owned(defaults[defaults.len() - carried_bytes..].repeat(cells)),
                };
                let mut stored = Vec::new();
                layers.to_stored(&body.cells, (carried_bytes > 0).then_some(&carried[..]), &mut stored)?;
                body.cells = stored;
            }
        }
        encode_bodies(&bodies, set.stored_bytes())
    }
}

/// What a body has of layers that the game does not have any more, cell by cell.
struct CarriedBody {
    size: [u32; 2],
    bytes: Vec<u8>,
}

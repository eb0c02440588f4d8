//! Changes of bodies: of whole lists, and of single bodies. A body is in one chunk afterwards.

use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use bonfire::{Error, Result};

use super::cells::Encoder;
use super::edit::{Edit, PendingChange};
use super::settings::Settings;
use super::{SaveState, World};
use crate::format::{FrameKey, FrameKind, FrameTag, Resident};
use crate::frames::NewFrame;
use crate::{Body, BodyId, ChunkPos, LayerSet, Layers, decode_bodies, encode_bodies};

/// The lists of bodies that an edit saves.
pub(super) type BodyLists = BTreeMap<ChunkPos, Vec<Body>>;

/// The change of a single body.
pub(super) enum BodyChange {
    /// In this dimension.
    Put(Box<Body>, u32),
    Move([f32; 2]),
    Remove,
}

impl BodyChange {
    /// Returns the chunks that the body may be in after the change, as far as the change says so.
    pub(super) fn targets(&self, world: &World) -> Vec<ChunkPos> {
        match self {
            Self::Put(body, dimension) => world.chunk_of(body.position, *dimension).into_iter().collect(),
            // It stays in its dimension, whichever that is.
            Self::Move(position) => {
                world.dimensions.keys().filter_map(|number| world.chunk_of(*position, *number)).collect()
            }
            Self::Remove => Vec::new(),
        }
    }
}

impl World {
    /// Turns changes of single bodies into changes of lists.
    pub(super) fn resolve_single_bodies(&self, edit: &Edit, lists: &mut BodyLists) -> Result<()> {
        for (&id, change) in &edit.single_bodies {
            let home = self.home_in(edit, lists, id)?;
            let before = match home {
                Some(home) => self.take_from_list(edit, lists, home, id)?,
                None => None,
            };
            let (body, dimension) = match (change, before) {
                (BodyChange::Put(body, dimension), _) => (Body::clone(body), *dimension),
                (&BodyChange::Move(position), Some(body)) => {
                    (Body { position, ..body }, home.unwrap_or_default().dimension)
                }
                (BodyChange::Move(_), None) => {
                    return Err(Error::misuse(format!("body {id} cannot be moved: no chunk has it")));
                }
                (BodyChange::Remove, _) => continue,
            };
            let target = self.chunk_of(body.position, dimension).ok_or_else(|| nowhere(&body))?;
            self.list_of(edit, lists, target)?.push(body);
        }
        Ok(())
    }

    /// Returns the chunk of a dimension that a point lies in. `None` if it is nowhere.
    fn chunk_of(&self, point: [f32; 2], dimension: u32) -> Option<ChunkPos> {
        let size = self.dimensions.get(&dimension)?.options.chunk_size;
        Some(ChunkPos::containing(point, u32::from(size))?.in_dimension(dimension))
    }

    /// Returns the chunk that a body is in, as far as the edit has come.
    fn home_in(&self, edit: &Edit, lists: &BodyLists, id: BodyId) -> Result<Option<ChunkPos>> {
        let listed = lists.iter().find(|(_, bodies)| bodies.iter().any(|body| body.id == id));
        if let Some((pos, _)) = listed {
            return Ok(Some(*pos));
        }
        let home = self.home(Resident::Body(id.0))?;
        // A list that the edit replaces without it, or a chunk that it removes.
        Ok(home.filter(|pos| !lists.contains_key(pos) && !edit.removed.contains(pos)))
    }

    /// Returns the list that the edit saves for a chunk. If it has none, it begins with what is there.
    fn list_of<'l>(&self, edit: &Edit, lists: &'l mut BodyLists, pos: ChunkPos) -> Result<&'l mut Vec<Body>> {
        match lists.entry(pos) {
            Entry::Occupied(list) => Ok(list.into_mut()),
            Entry::Vacant(free) if edit.removed.contains(&pos) => Ok(free.insert(Vec::new())),
            Entry::Vacant(free) => Ok(free.insert(self.bodies_here(pos)?)),
        }
    }

    /// Returns the stored bodies of a chunk, without those that are in another one. A list that is damaged as a whole has none
    /// that could be kept.
    fn bodies_here(&self, pos: ChunkPos) -> Result<Vec<Body>> {
        let stored = match self.stored_bodies(pos) {
            Err(error) if error.is_corrupt() => {
                tracing::warn!(%pos, %error, "the bodies of a chunk are lost, and others are saved in their place");
                None
            }
            stored => stored?,
        };
        let mut here = Vec::new();
        for body in stored.unwrap_or_default().bodies {
            if self.is_home(Resident::Body(body.id.0), pos)? {
                here.push(body);
            }
        }
        Ok(here)
    }

    fn take_from_list(
        &self,
        edit: &Edit,
        lists: &mut BodyLists,
        pos: ChunkPos,
        id: BodyId,
    ) -> Result<Option<Body>> {
        let list = self.list_of(edit, lists, pos)?;
        let found = list.iter().position(|body| body.id == id);
        Ok(found.map(|number| list.remove(number)))
    }

    /// Adds the lists of bodies that an edit changes, directly or by taking a body from another chunk. Returns how many bodies
    /// go with them because they cannot be read.
    pub(super) fn change_bodies(
        &self,
        lists: BTreeMap<ChunkPos, Vec<Body>>,
        removed_chunks: &BTreeSet<ChunkPos>,
        saving: &mut SaveState,
        pending: &mut PendingChange,
    ) -> Result<usize> {
        let new_homes = self.homes_of(&lists)?;
        // Ids of the game's own, or of another program, are not given out by later sessions either.
        let sessions = new_homes.keys().map(|id| id.session());
        // After the last session they would begin again.
        let highest = sessions.filter(|session| *session < u32::MAX).max().unwrap_or(0);
        if highest > saving.first().session {
            let settings = Settings { session: highest, ..saving.first().clone() };
            saving.replace_first(settings, true);
        }
        let all = self.with_other_lists(lists, removed_chunks, &new_homes)?;
        self.note_residents(&all, removed_chunks, pending)?;
        let carried = self.carried_by_bodies(&all, saving)?;
        let mut lost = 0;
        let PendingChange { frames, removed, effects, .. } = pending;
        for (pos, bodies) in all {
            let key = FrameKey::new(FrameKind::Bodies, pos);
            effects.bodies_written.push(pos);
            lost += self.count_lost(pos);
            if bodies.iter().all(Body::is_empty) {
                removed.insert(key);
            } else {
                removed.remove(&key);
                let dimension = self.dimension(pos)?;
                let set = saving.of(dimension);
                let tag = FrameTag { layers: set.current, ..FrameTag::default() };
                let data = encode_list(&dimension.options.layers, set.current(), bodies, &carried)?;
                frames.insert(key, NewFrame { key, tag, data });
            }
        }
        Ok(lost)
    }

    /// Returns how many bodies of a list cannot be read, and says so.
    fn count_lost(&self, pos: ChunkPos) -> usize {
        let list = self.stored_bodies(pos).ok().flatten().unwrap_or_default();
        for lost in &list.lost {
            let (count, error) = (lost.count, &lost.error);
            tracing::warn!(%pos, count, %error, "bodies that cannot be read go with the list that is replaced");
        }
        list.lost.iter().map(|lost| lost.count as usize).sum()
    }

    /// Notes where bodies are after a change of these lists, and which ones are gone.
    fn note_residents(
        &self,
        lists: &BTreeMap<ChunkPos, Vec<Body>>,
        removed_chunks: &BTreeSet<ChunkPos>,
        pending: &mut PendingChange,
    ) -> Result<()> {
        for pos in lists.keys().chain(removed_chunks) {
            self.note_gone(FrameKey::new(FrameKind::Bodies, *pos), pending)?;
        }
        for (pos, bodies) in lists {
            let here = bodies.iter().filter(|body| !body.is_empty());
            pending.ids.extend(here.map(|body| (Resident::Body(body.id.0), Some(*pos))));
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
    ) -> Result<BTreeMap<ChunkPos, Vec<Body>>> {
        let mut others: BTreeSet<ChunkPos> = self.stale_bodies().clone();
        // Those of a dimension that the game does not declare stay as they are.
        others.retain(|pos| self.dimensions.contains_key(&pos.dimension));
        for (id, pos) in new_homes {
            others.extend(self.home(Resident::Body(id.0))?.filter(|home| home != pos));
        }
        others.retain(|pos| !lists.contains_key(pos) && !removed_chunks.contains(pos));
        let mut all = lists;
        for pos in others {
            let bodies = match self.stored_bodies(pos) {
                Ok(list) => list.unwrap_or_default().bodies,
                // It is damaged: nobody will read the body there.
                Err(error) if error.is_corrupt() => continue,
                Err(error) => return Err(error),
            };
            let mut here = Vec::new();
            for body in bodies {
                let home = match new_homes.get(&body.id) {
                    Some(home) => Some(*home),
                    None => self.home(Resident::Body(body.id.0))?,
                };
                if home.is_none_or(|home| home == pos) {
                    here.push(body);
                }
            }
            all.insert(pos, here);
        }
        Ok(all)
    }

    fn check_body(&self, pos: ChunkPos, body: &Body) -> Result<()> {
        if self.dimension(pos)?.options.is_three_dimensional {
            return Err(Error::misuse(format!(
                "body {} is saved in {pos}, but bodies have two coordinates and this dimension has three",
                body.id
            )));
        }
        match self.chunk_of(body.position, pos.dimension) {
            Some(home) if home == pos => Ok(()),
            Some(home) => Err(Error::misuse(format!(
                "body {} is saved in {pos}, but its centre lies in {home}",
                body.id
            ))),
            None => Err(nowhere(body)),
        }
    }

    /// Reads the bytes of layers that the game does not have any more: they stay with bodies that have kept their size.
    fn carried_by_bodies(
        &self,
        lists: &BTreeMap<ChunkPos, Vec<Body>>,
        saving: &SaveState,
    ) -> Result<HashMap<BodyId, CarriedBody>> {
        let mut carried = HashMap::new();
        let mut encoders = BTreeMap::new();
        for dimension in self.dimensions.values() {
            let settings = saving.of(dimension);
            if settings.current().stored_bytes() != dimension.options.layers.stored_bytes() {
                let encoder = Encoder::new(self, dimension, settings.current().clone(), settings.current);
                encoders.insert(dimension.number, (dimension, encoder));
            }
        }
        if encoders.is_empty() {
            return Ok(carried);
        }
        let mut places: BTreeSet<ChunkPos> = lists.keys().copied().collect();
        for body in lists.values().flatten() {
            places.extend(self.home(Resident::Body(body.id.0))?);
        }
        for pos in places {
            let Some((dimension, encoder)) = encoders.get(&pos.dimension) else { continue };
            let read = self.frames.read(FrameKey::new(FrameKind::Bodies, pos), |tag, data| {
                let (conversion, set_bytes) = dimension.conversion(tag.layers)?;
                for body in decode_bodies(data, set_bytes, self.options.body_limits)?.bodies {
                    if self.is_home(Resident::Body(body.id.0), pos)? {
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
}

/// Encodes a list of bodies, whose cells are those of the game, with a layer set of the file.
fn encode_list(
    layers: &Layers,
    set: &LayerSet,
    mut bodies: Vec<Body>,
    carried: &HashMap<BodyId, CarriedBody>,
) -> Result<Vec<u8>> {
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

/// The bytes of a body in layers that the game does not have any more, cell by cell.
struct CarriedBody {
    size: [u32; 2],
    bytes: Vec<u8>,
}

fn nowhere(body: &Body) -> Error {
    Error::misuse(format!("body {} is nowhere: {:?}", body.id, body.position))
}

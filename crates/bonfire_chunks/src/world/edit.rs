//! What is saved together: all of it or nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bonfire::{Error, Result, Snapshot};

use super::body_changes::BodyChange;
use super::cells::{DELTA, EMPTY, Encoded, Encoder};
use super::dimension::{FIRST, OpenDimension};
use super::entities::NewEntities;
use super::identity::IdEffects;
use super::settings::Settings;
use super::{ChunkWorld, SaveState, World};
use crate::codec::Delta;
use crate::file::NewPin;
use crate::format::{FrameKey, FrameKind, Resident};
use crate::frames::{FrameChange, NewFrame};
use crate::{Body, BodyId, Chunk, ChunkPos, Durability};

/// Collects changes of a world. Nothing happens before [`commit`](Self::commit); of several calls for one chunk the last
/// one counts.
#[must_use = "nothing is saved before it is committed"]
pub struct Edit {
    pub(crate) world: ChunkWorld,
    pub(super) cells: BTreeMap<ChunkPos, Arc<Vec<u8>>>,
    pub(super) stored: BTreeMap<ChunkPos, StoredChunk>,
    pub(super) bodies: BTreeMap<ChunkPos, Vec<Body>>,
    /// Changes of single bodies, which come after those of whole lists.
    pub(super) single_bodies: BTreeMap<BodyId, BodyChange>,
    pub(super) entities: BTreeMap<ChunkPos, Option<NewEntities>>,
    pub(super) removed: BTreeSet<ChunkPos>,
    /// Of an upgrade, the entities that it replaces. Of the rest only what still has another layer set than the current one
    /// is written.
    pub(super) upgrade: Option<BTreeMap<ChunkPos, Arc<[u8]>>>,
    pub(super) pin: Option<NewPin>,
}

/// A chunk in a certain way of storing it. Cells are those of the file: without layers that do not persist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredChunk {
    /// Every cell has its default.
    Empty,
    /// What differs from the generated chunk. Without a cell, it is not stored, and removed if it was.
    Delta(Delta),
    /// All cells, row by row.
    Full(Vec<u8>),
}

/// What a commit has written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommitReport {
    /// Which save of the world it is.
    pub generation: u64,
    /// Bytes that were appended to the file.
    pub bytes: u64,
    /// Chunks that are stored whole.
    pub full: usize,
    /// Chunks that are stored as what differs from the generated ones.
    pub delta: usize,
    /// Chunks in which every cell has its default.
    pub empty: usize,
    /// Chunks that are as the generator makes them: not stored, and removed if they were.
    pub same_as_generated: usize,
    /// Bodies that could not be read, and that went with the lists that this commit has replaced.
    pub bodies_lost: usize,
}

impl Edit {
    pub(super) fn new(world: ChunkWorld) -> Self {
        Self {
            world,
            cells: BTreeMap::new(),
            stored: BTreeMap::new(),
            bodies: BTreeMap::new(),
            single_bodies: BTreeMap::new(),
            entities: BTreeMap::new(),
            removed: BTreeSet::new(),
            upgrade: None,
            pin: None,
        }
    }

    /// Saves the cells of a chunk, row by row.
    pub fn put(&mut self, pos: impl Into<ChunkPos>, cells: impl Into<Vec<u8>>) -> &mut Self {
        self.put_shared(pos.into(), Arc::new(cells.into()))
    }

    /// Saves the cells of a chunk in memory, as they are now. They are shared, not copied, unless bodies are drawn there: see
    /// [`Chunk::saved_cells`]. Tell the chunk with [`Chunk::saved`] when the edit is durable.
    pub fn put_chunk(&mut self, chunk: &Chunk) -> &mut Self {
        self.put_shared(chunk.pos(), chunk.saved_cells())
    }

    fn put_shared(&mut self, pos: ChunkPos, cells: Arc<Vec<u8>>) -> &mut Self {
        self.stored.remove(&pos);
        self.cells.insert(pos, cells);
        self
    }

    /// Saves a chunk in a way that the caller chooses, without asking the generator: for programs that do not have it.
    pub fn put_stored(&mut self, pos: impl Into<ChunkPos>, chunk: StoredChunk) -> &mut Self {
        let pos = pos.into();
        self.cells.remove(&pos);
        self.stored.insert(pos, chunk);
        self
    }

    /// Saves a body in the chunk that its centre lies in, beside the others there. It is taken out of the chunk that it was in.
    /// An empty one is removed. Calls for single bodies come after those for whole lists, whatever their order.
    pub fn put_body(&mut self, body: Body) -> &mut Self {
        self.put_body_in(FIRST, body)
    }

    /// Saves a body in a dimension: see [`put_body`](Self::put_body). One of another dimension leaves that one.
    pub fn put_body_in(&mut self, dimension: u32, body: Body) -> &mut Self {
        self.single_bodies.insert(body.id, BodyChange::Put(Box::new(body), dimension));
        self
    }

    /// Moves a body that is saved to another place in its dimension, and into the chunk that its centre then lies in. Everything
    /// else of it stays as it is. The commit fails if no chunk has it.
    pub fn move_body(&mut self, id: BodyId, position: [f32; 2]) -> &mut Self {
        self.single_bodies.insert(id, BodyChange::Move(position));
        self
    }

    /// Removes a body, whichever chunk it is in.
    pub fn remove_body(&mut self, id: BodyId) -> &mut Self {
        self.single_bodies.insert(id, BodyChange::Remove);
        self
    }

    /// Saves the bodies of a chunk in the place of those that it has. Empty ones are left out. A body of another chunk is taken
    /// out of that one.
    ///
    /// Each must have its centre in the chunk: see [`Body::chunk`].
    pub fn put_bodies(&mut self, pos: impl Into<ChunkPos>, bodies: impl Into<Vec<Body>>) -> &mut Self {
        self.bodies.insert(pos.into(), bodies.into());
        self
    }

    /// Saves the entities of a chunk: the bytes of a snapshot. Schemas are stored once in the file, whatever the number of
    /// chunks that need them.
    pub fn put_entities(&mut self, pos: impl Into<ChunkPos>, snapshot: impl Into<Vec<u8>>) -> &mut Self {
        self.entities.insert(pos.into(), Some(NewEntities::Bytes(snapshot.into().into())));
        self
    }

    /// Saves the entities of a chunk that were captured: the commit encodes them, on its own thread.
    pub fn put_captured(&mut self, pos: impl Into<ChunkPos>, snapshot: Snapshot) -> &mut Self {
        self.entities.insert(pos.into(), Some(NewEntities::Snapshot(Box::new(snapshot))));
        self
    }

    /// Removes the entities of a chunk, and nothing else of it.
    pub fn remove_entities(&mut self, pos: impl Into<ChunkPos>) -> &mut Self {
        self.entities.insert(pos.into(), None);
        self
    }

    /// Removes a chunk with its bodies and entities: it is as the generator makes it again. What else this edit does for it
    /// is forgotten, and what comes later counts.
    pub fn remove(&mut self, pos: impl Into<ChunkPos>) -> &mut Self {
        let pos = pos.into();
        self.cells.remove(&pos);
        self.stored.remove(&pos);
        self.bodies.remove(&pos);
        self.entities.remove(&pos);
        self.removed.insert(pos);
        self
    }

    /// Pins the world as it is after this edit: see [`ChunkWorld::pin`]. Both are there after a crash, or neither.
    pub fn pin(&mut self, name: impl Into<String>, metadata: impl Into<Vec<u8>>) -> &mut Self {
        self.pin = Some(NewPin { name: name.into(), metadata: metadata.into() });
        self
    }

    /// Adds a later edit of the same world: what it does comes after what this one does. A pin of this edit is forgotten,
    /// because the moment that it names is over.
    pub fn append(&mut self, later: Edit) -> &mut Self {
        for pos in later.removed {
            self.remove(pos);
        }
        for (pos, cells) in later.cells {
            self.put_shared(pos, cells);
        }
        for (pos, chunk) in later.stored {
            self.put_stored(pos, chunk);
        }
        for (pos, bodies) in later.bodies {
            // Bodies of the list are where the list says, whatever was said of them before.
            bodies.iter().for_each(|body| drop(self.single_bodies.remove(&body.id)));
            self.bodies.insert(pos, bodies);
        }
        self.single_bodies.extend(later.single_bodies);
        self.entities.extend(later.entities);
        // What one of them has to say counts in any case.
        self.upgrade = None;
        self.pin = later.pin;
        self
    }

    /// Takes the pin out again.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn forget_pin(&mut self) {
        self.pin = None;
    }

    /// Makes it an edit of the same world, opened again.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn rebind(&mut self, world: &ChunkWorld) {
        self.world = world.clone();
    }

    /// Whether there is nothing to save.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
            && self.stored.is_empty()
            && self.bodies.is_empty()
            && self.single_bodies.is_empty()
            && self.entities.is_empty()
            && self.removed.is_empty()
            && self.pin.is_none()
    }

    /// Saves everything, or nothing if there is an error. Afterwards the edit is empty. After an error it still has
    /// everything, so that it may be committed again, or written elsewhere with [`ChunkWorld::save_to`].
    ///
    /// If more of the file is dead than it may be, a step of a [compaction](ChunkWorld::step_compaction) follows. It copies
    /// 256 KiB at most.
    pub fn commit(&mut self, durability: Durability) -> Result<CommitReport> {
        let report = self.commit_only(durability)?;
        if durability == Durability::Synced {
            // What was saved is durable, whatever comes of this.
            self.world.step_compaction_or_warn();
        }
        Ok(report)
    }

    /// Without a compaction.
    pub(crate) fn commit_only(&mut self, durability: Durability) -> Result<CommitReport> {
        let report = self.world.inner.commit(self, durability)?;
        self.clear();
        Ok(report)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.world.clone());
    }

    /// Returns true if it has lists of bodies, so that it may take bodies out of other chunks.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn has_bodies(&self) -> bool {
        !self.bodies.is_empty() || !self.single_bodies.is_empty()
    }

    /// All chunks that it changes.
    pub(crate) fn touched(&self) -> BTreeSet<ChunkPos> {
        let others = self.stored.keys().chain(self.bodies.keys()).chain(self.entities.keys());
        let of_bodies = self.single_bodies.values().flat_map(|change| change.targets(&self.world.inner));
        self.cells.keys().chain(others).chain(&self.removed).copied().chain(of_bodies).collect()
    }
}

impl ChunkWorld {
    /// An edit knows the layers and chunks of one world.
    pub(crate) fn check_own(&self, edit: &Edit) -> Result<()> {
        if std::sync::Arc::ptr_eq(&self.inner, &edit.world.inner) {
            return Ok(());
        }
        Err(Error::misuse("this edit was begun in another world"))
    }
}

impl std::fmt::Debug for Edit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Edit").field("chunks", &self.cells.keys()).finish_non_exhaustive()
    }
}

impl World {
    /// The edit keeps what it has: a commit that fails loses nothing.
    pub(super) fn commit(&self, edit: &Edit, durability: Durability) -> Result<CommitReport> {
        let mut report = CommitReport::default();
        let mut contents = self.contents_of(edit)?;
        let _turn = self.commit_turn();
        let mut saving = self.saving();
        if let Some(replaced) = &edit.upgrade {
            // What was saved or removed since it was read is not to be undone.
            let current = |pos: ChunkPos| Some(saving.dimensions.get(&pos.dimension)?.settings.current);
            let is_old = |kind: FrameKind, pos: ChunkPos| {
                let tag = self.frames.tag(FrameKey::new(kind, pos));
                tag.is_some_and(|tag| current(pos) != Some(tag.layers))
            };
            contents.cells.retain(|(pos, _)| is_old(FrameKind::Chunk, *pos));
            contents.bodies.retain(|pos, _| is_old(FrameKind::Bodies, *pos));
            let is_unchanged = |pos: &ChunkPos| {
                let read = |_, data: &[u8]| self.join(data);
                let now = self.frames.read(FrameKey::new(FrameKind::Snapshot, *pos), read);
                now.is_ok_and(|now| now.as_deref() == replaced.get(pos).map(|old| &**old))
            };
            contents.entities.retain(|pos, _| is_unchanged(pos));
        }
        let (change, effects) = self.change_of(edit, contents, &mut saving, &mut report)?;
        if change.is_empty() && edit.pin.is_none() {
            drop(saving);
            // What was saved without a sync before is made durable by this save, too.
            if durability == Durability::Synced {
                self.frames.store().commit(change, durability)?;
            }
            return Ok(report);
        }
        self.frames.set_cell_bytes(u8::try_from(saving.first().current().stored_bytes()).unwrap_or(u8::MAX));
        drop(saving);
        self.ids.begin(&effects.ids);
        let committed = match &edit.pin {
            None => self.frames.store().commit(change, durability),
            Some(pin) => self.file_with_pins().and_then(|file| file.commit_and_pin(&change, pin, durability)),
        };
        let committed = committed.inspect_err(|_| self.ids.cancel())?;
        let mut saving = self.saving();
        (report.generation, report.bytes) = (committed.generation, committed.bytes);
        effects.apply(self, &mut saving);
        Ok(report)
    }

    /// Encodes what an edit puts into chunks. Places that no dimension has are refused. No lock is held meanwhile.
    pub(super) fn contents_of(&self, edit: &Edit) -> Result<Contents> {
        edit.touched().into_iter().try_for_each(|pos| self.dimension(pos).map(drop))?;
        let encode = |(pos, entities): (&ChunkPos, &Option<NewEntities>)| {
            Ok((*pos, entities.as_ref().map(NewEntities::encode).transpose()?))
        };
        let entities = edit.entities.iter().map(encode).collect::<Result<_>>()?;
        Ok(Contents { cells: self.encode_all(edit)?, bodies: edit.bodies.clone(), entities })
    }

    /// Compresses, on several threads.
    fn encode_all(&self, edit: &Edit) -> Result<Vec<(ChunkPos, Encoded)>> {
        let chunks = edit.cells.keys().chain(edit.stored.keys());
        let numbers: BTreeSet<u32> = chunks.map(|pos| pos.dimension).collect();
        let encoders: BTreeMap<u32, Encoder<'_>> = numbers
            .into_iter()
            .filter_map(|number| Some((number, self.encoder(self.dimensions.get(&number)?))))
            .collect();
        let encoder = |pos: ChunkPos| {
            let found = encoders.get(&self.dimension(pos)?.number);
            found.ok_or_else(|| Error::misuse(format!("there is no dimension for chunk {pos}")))
        };
        let cells: Vec<(&ChunkPos, &Arc<Vec<u8>>)> = edit.cells.iter().collect();
        let encode =
            |(pos, cells): &(&ChunkPos, &Arc<Vec<u8>>)| Ok((**pos, encoder(**pos)?.encode(**pos, cells)?));
        // A thread more is worth its start if there is this much for each.
        const BYTES_PER_THREAD: usize = 2 << 20;
        let whole = edit.stored.values().filter_map(|chunk| match chunk {
            StoredChunk::Full(cells) => Some(cells),
            _ => None,
        });
        let bytes: usize = edit.cells.values().map(|cells| &**cells).chain(whole).map(Vec::len).sum();
        let threads = self.options.threads.min(1 + bytes / BYTES_PER_THREAD);
        let encoded = crate::parallel::map(&cells, threads, encode);
        let stored: Vec<(&ChunkPos, &StoredChunk)> = edit.stored.iter().collect();
        let encode = |(pos, chunk): &(&ChunkPos, &StoredChunk)| {
            Ok((**pos, encoder(**pos)?.encode_stored(**pos, chunk)?))
        };
        encoded.into_iter().chain(crate::parallel::map(&stored, threads, encode)).collect()
    }

    /// The change of the file that an edit makes, and its effects in memory.
    pub(super) fn change_of(
        &self,
        edit: &Edit,
        contents: Contents,
        saving: &mut SaveState,
        report: &mut CommitReport,
    ) -> Result<(FrameChange, CommitEffects)> {
        let Contents { cells, mut bodies, entities } = contents;
        self.resolve_single_bodies(edit, &mut bodies)?;
        let mut pending = PendingChange::default();
        let PendingChange { frames, removed, .. } = &mut pending;
        for pos in &edit.removed {
            removed.extend(
                [FrameKind::Chunk, FrameKind::Bodies, FrameKind::Snapshot]
                    .map(|kind| FrameKey::new(kind, *pos)),
            );
        }
        for (pos, encoded) in cells {
            let key = FrameKey::new(FrameKind::Chunk, pos);
            removed.remove(&key);
            match encoded {
                Encoded::Same => {
                    removed.insert(key);
                    report.same_as_generated += 1;
                }
                Encoded::Frame(frame) => {
                    match frame.tag.storage {
                        EMPTY => report.empty += 1,
                        DELTA => report.delta += 1,
                        _ => report.full += 1,
                    }
                    frames.insert(key, frame);
                }
            }
        }
        report.bodies_lost += self.change_bodies(bodies, &edit.removed, saving, &mut pending)?;
        self.change_entities(&entities, &edit.removed, &mut pending)?;
        self.change_ids(&mut pending)?;
        let PendingChange { frames, mut removed, mut effects, .. } = pending;
        // What was set aside as damaged is replaced, or removed.
        let touched: Vec<FrameKey> = frames.keys().chain(&removed).copied().collect();
        removed.extend(touched.iter().filter_map(|key| Some(FrameKey::new(key.kind.damaged()?, key.pos))));
        let removed = removed.into_iter().filter(|key| self.frames.tag(*key).is_some()).collect();
        let mut change = FrameChange { frames: frames.into_values().collect(), removed };
        effects.settings_written = self.add_settings(saving, &mut change);
        Ok((change, effects))
    }
}

impl World {
    /// Returns what makes frames of the chunks of a dimension.
    pub(super) fn encoder<'w>(&'w self, dimension: &'w OpenDimension) -> Encoder<'w> {
        let (set, number) = {
            let saving = self.saving();
            let settings = saving.of(dimension);
            (settings.current().clone(), settings.current)
        };
        Encoder::new(self, dimension, set, number)
    }

    /// Adds the settings that the file lacks: of dimension 0 to any change, of others to a change in them. Returns them.
    fn add_settings(&self, saving: &SaveState, change: &mut FrameChange) -> Vec<(u32, Settings)> {
        let keys = change.frames.iter().map(|frame| &frame.key).chain(&change.removed);
        let mut touched: BTreeSet<u32> = keys.map(|key| key.pos.dimension).collect();
        if !touched.is_empty() {
            touched.insert(FIRST);
        }
        let mut written = Vec::new();
        for number in touched {
            let (Some(dimension), Some(known)) =
                (self.dimensions.get(&number), saving.dimensions.get(&number))
            else {
                continue;
            };
            if known.is_changed {
                change.frames.extend(self.settings_frames(dimension, &known.settings));
                written.push((number, known.settings.clone()));
            }
        }
        written
    }
}

/// The contents that an edit puts into chunks, as the file has them.
pub(super) struct Contents {
    cells: Vec<(ChunkPos, Encoded)>,
    bodies: BTreeMap<ChunkPos, Vec<Body>>,
    entities: BTreeMap<ChunkPos, Option<Arc<[u8]>>>,
}

/// A change that is being put together. A key is in one of the two collections at most.
#[derive(Default)]
pub(super) struct PendingChange {
    pub(super) frames: BTreeMap<FrameKey, NewFrame>,
    pub(super) removed: BTreeSet<FrameKey>,
    /// The chunks of bodies and entities after the change, as far as it may move them.
    pub(super) ids: BTreeMap<Resident, Option<ChunkPos>>,
    pub(super) effects: CommitEffects,
}

/// The changes of the state in memory once a change is in the file.
#[derive(Default)]
pub(super) struct CommitEffects {
    pub(super) ids: IdEffects,
    pub(super) bodies_written: Vec<ChunkPos>,
    /// The settings that the change has, by dimension.
    pub(super) settings_written: Vec<(u32, Settings)>,
}

impl CommitEffects {
    pub(super) fn apply(self, world: &World, saving: &mut SaveState) {
        world.ids.apply(self.ids);
        let mut stale = world.stale_bodies();
        for pos in self.bodies_written {
            stale.remove(&pos);
        }
        drop(stale);
        // Ids of bodies may have been given out meanwhile.
        for (number, written) in self.settings_written {
            if let Some(dimension) = saving.dimensions.get_mut(&number)
                && dimension.settings == written
            {
                dimension.is_changed = false;
            }
        }
    }
}

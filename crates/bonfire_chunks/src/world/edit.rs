//! What is saved together: all of it or nothing.

use std::collections::{BTreeMap, BTreeSet};

use bonfire::Result;

use super::cells::{DELTA, EMPTY, Encoded, Encoder};
use super::{ChunkWorld, Saving, World, settings_frames};
use crate::codec::Delta;
use crate::file::{Change, NewFrame};
use crate::format::{Key, Kind};
use crate::{Body, ChunkPos, Durability};

/// Collects changes of a world. Nothing happens before [`commit`](Self::commit); of several calls for one chunk the last
/// one counts.
#[must_use = "nothing is saved before it is committed"]
pub struct Edit {
    pub(crate) world: ChunkWorld,
    pub(super) cells: BTreeMap<ChunkPos, Vec<u8>>,
    pub(super) deltas: BTreeMap<ChunkPos, Delta>,
    pub(super) bodies: BTreeMap<ChunkPos, Vec<Body>>,
    pub(super) entities: BTreeMap<ChunkPos, Option<Vec<u8>>>,
    pub(super) removed: BTreeSet<ChunkPos>,
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
}

impl Edit {
    pub(super) fn new(world: ChunkWorld) -> Self {
        Self {
            world,
            cells: BTreeMap::new(),
            deltas: BTreeMap::new(),
            bodies: BTreeMap::new(),
            entities: BTreeMap::new(),
            removed: BTreeSet::new(),
        }
    }

    /// Saves the cells of a chunk, row by row.
    pub fn put(&mut self, pos: impl Into<ChunkPos>, cells: impl Into<Vec<u8>>) -> &mut Self {
        let pos = pos.into();
        self.deltas.remove(&pos);
        self.cells.insert(pos, cells.into());
        self
    }

    /// Saves a chunk as what differs from the generated one, for programs that do not have the generator: cells as they are
    /// stored, without those of layers that do not persist. No cell means that the chunk is as it is generated, and it is
    /// removed.
    pub fn put_delta(&mut self, pos: impl Into<ChunkPos>, delta: Delta) -> &mut Self {
        let pos = pos.into();
        self.cells.remove(&pos);
        self.deltas.insert(pos, delta);
        self
    }

    /// Saves the bodies of a chunk in the place of those that it has. Empty ones are left out. A body that another chunk had
    /// is taken out of that one.
    ///
    /// Each must have its centre in the chunk: see [`Body::chunk`].
    pub fn put_bodies(&mut self, pos: impl Into<ChunkPos>, bodies: impl Into<Vec<Body>>) -> &mut Self {
        self.bodies.insert(pos.into(), bodies.into());
        self
    }

    /// Saves the entities of a chunk: the bytes of a snapshot. Schemas are stored once in the file, whatever the number of
    /// chunks that need them.
    pub fn put_entities(&mut self, pos: impl Into<ChunkPos>, snapshot: impl Into<Vec<u8>>) -> &mut Self {
        self.entities.insert(pos.into(), Some(snapshot.into()));
        self
    }

    /// Removes a chunk with its bodies and entities: it is as the generator makes it again. What else this edit does for it
    /// is forgotten, and what comes later counts.
    pub fn remove(&mut self, pos: impl Into<ChunkPos>) -> &mut Self {
        let pos = pos.into();
        self.cells.remove(&pos);
        self.deltas.remove(&pos);
        self.bodies.remove(&pos);
        self.entities.remove(&pos);
        self.removed.insert(pos);
        self
    }

    /// Whether there is nothing to save.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
            && self.deltas.is_empty()
            && self.bodies.is_empty()
            && self.entities.is_empty()
            && self.removed.is_empty()
    }

    /// Saves everything, or nothing if there is an error. Afterwards the edit is empty.
    pub fn commit(&mut self, durability: Durability) -> Result<CommitReport> {
        let world = self.world.clone();
        let edit = std::mem::replace(self, Self::new(world.clone()));
        let report = world.inner.commit(edit, durability)?;
        if durability == Durability::Synced && world.inner.file.is_compaction_due() {
            // What was saved is durable, whatever comes of this.
            if let Err(error) = world.inner.file.compact(&mut |_, _| {}) {
                tracing::warn!(%error, "a chunk world could not be compacted");
            }
        }
        Ok(report)
    }
}

impl World {
    pub(super) fn commit(&self, edit: Edit, durability: Durability) -> Result<CommitReport> {
        let mut report = CommitReport::default();
        let encoded = self.encode_all(&edit)?;
        let mut saving = self.saving();
        let (change, after) = self.change_of(edit, encoded, &mut saving, &mut report)?;
        if change.is_empty() {
            return Ok(report);
        }
        let committed = self.file.commit(change, durability)?;
        (report.generation, report.bytes) = (committed.generation, committed.bytes);
        after.apply(&mut saving);
        Ok(report)
    }

    /// Compresses, on several threads.
    pub(super) fn encode_all(&self, edit: &Edit) -> Result<Vec<(ChunkPos, Encoded)>> {
        let (set, number) = {
            let saving = self.saving();
            (saving.settings.current().clone(), saving.settings.current)
        };
        let encoder = Encoder::new(self, set, number);
        let cells: Vec<(&ChunkPos, &Vec<u8>)> = edit.cells.iter().collect();
        let encode = |(pos, cells): &(&ChunkPos, &Vec<u8>)| Ok((**pos, encoder.encode(**pos, cells)?));
        let encoded = crate::parallel::map(&cells, self.options.threads, encode);
        let deltas = edit.deltas.iter().map(|(pos, delta)| Ok((*pos, encoder.encode_delta(*pos, delta)?)));
        encoded.into_iter().chain(deltas).collect()
    }

    /// What the file is to do, and what is to be remembered once it has.
    pub(super) fn change_of(
        &self,
        edit: Edit,
        encoded: Vec<(ChunkPos, Encoded)>,
        saving: &mut Saving,
        report: &mut CommitReport,
    ) -> Result<(Change, After)> {
        let mut frames: BTreeMap<Key, NewFrame> = BTreeMap::new();
        let mut removed: BTreeSet<Key> = BTreeSet::new();
        for pos in &edit.removed {
            removed.extend([Kind::Chunk, Kind::Bodies, Kind::Snapshot].map(|kind| Key::new(kind, *pos)));
        }
        for (pos, encoded) in encoded {
            let key = Key::new(Kind::Chunk, pos);
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
        let mut after = After::default();
        self.change_bodies(edit.bodies, &edit.removed, saving, &mut frames, &mut removed, &mut after)?;
        self.change_entities(edit.entities, &mut frames, &mut removed)?;
        // What was set aside as damaged is replaced, or removed.
        let touched: Vec<Key> = frames.keys().chain(&removed).copied().collect();
        removed.extend(touched.iter().filter_map(|key| Some(Key::new(key.kind.damaged()?, key.pos))));
        let mut change = Change { frames: frames.into_values().collect(), removed: Vec::new() };
        let state = self.file.state();
        change.removed = removed.into_iter().filter(|key| state.indices.get(*key).is_some()).collect();
        if saving.settings_changed && !change.is_empty() {
            let cell_bytes = u8::try_from(saving.settings.current().stored_bytes()).unwrap_or(u8::MAX);
            let header = crate::format::Header { cell_bytes, ..state.header.clone() };
            change.frames.extend(settings_frames(&saving.settings, &header));
            after.settings_written = true;
        }
        Ok((change, after))
    }
}

/// What is remembered once a change is in the file.
#[derive(Default)]
pub(super) struct After {
    pub(super) homes: Vec<(crate::BodyId, Option<ChunkPos>)>,
    pub(super) bodies_written: Vec<ChunkPos>,
    pub(super) settings_written: bool,
}

impl After {
    pub(super) fn apply(self, saving: &mut Saving) {
        for (id, home) in self.homes {
            match home {
                Some(pos) => drop(saving.homes.insert(id, pos)),
                None => drop(saving.homes.remove(&id)),
            }
        }
        for pos in self.bodies_written {
            saving.with_empty_bodies.remove(&pos);
        }
        if self.settings_written {
            saving.settings_changed = false;
        }
    }
}

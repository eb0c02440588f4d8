//! A front end's changes to a delta: groups of entities, and the columns of each by pointer.

use std::any::Any;

use super::{Change, Delta, DeltaOp, DeltaSchema, Group, GroupKind, List};
use crate::bulk::RawRows;
use crate::column::{Arena, Body, Column, Groups, Slot};
use crate::context::SaveContext;
use crate::descriptor::{EncodedBody, Encoding, RowEnds, Unencodable};
use crate::entity::EntityId;
use crate::error::{Error, Result};
use crate::registry::Registry;
use crate::snapshot::{DataEntry, Notes};
use crate::storage::{Bitmap, BufferPool};
use crate::value::Value;

/// Takes what has changed in a world. For front ends that know what was touched.
pub struct DeltaWriter<'r> {
    registry: &'r Registry,
    schema: &'r DeltaSchema,
    delta: Delta,
    arena: Arena,
    /// Raw columns whose memory is still the arena's: group (resources have none) and place.
    raw: Vec<(Option<usize>, usize, Slot)>,
    unencodable: Unencodable,
    notes: Notes,
    context: SaveContext<'r>,
}

impl<'r> DeltaWriter<'r> {
    /// A delta that covers `(since, now]`.
    pub fn new(registry: &'r Registry, schema: &'r DeltaSchema, since: u64, now: u64) -> Self {
        let arena = Arena::new(BufferPool::with_capacity(0, 0));
        Self {
            registry,
            schema,
            delta: Delta::empty(schema.table(), since, now),
            arena,
            raw: Vec::new(),
            unencodable: Unencodable::default(),
            notes: Notes::default(),
            context: SaveContext::new(),
        }
    }

    /// The world that codecs of the game may look at: see [`SaveContext::world`].
    pub fn with_world(mut self, world: &'r dyn Any) -> Self {
        self.context = SaveContext::new().with_world(world);
        self
    }

    /// Chooses what happens to values that cannot be encoded, unless their [descriptor](crate::Descriptor::unencodable)
    /// says. Default: they are left out and [noted](Delta::notes).
    pub fn unencodable(mut self, policy: Unencodable) -> Self {
        self.unencodable = policy;
        self
    }

    /// Takes memory from a pool.
    pub fn pool(mut self, pool: &BufferPool) -> Self {
        self.arena.pool = pool.clone();
        self
    }

    /// What is written is everything that there is.
    pub fn whole(mut self) -> Self {
        self.delta.whole = true;
        self
    }

    /// The next id that the world would give out.
    pub fn next_entity_id(&mut self, id: u64) {
        self.delta.next_entity_id = id;
    }

    /// An entity is gone.
    pub fn despawned(&mut self, id: EntityId) {
        self.delta.despawned.push(id);
    }

    /// A list of sources is another one, or has another order. Sources that are not part of what is told are left out by
    /// whoever applies it.
    pub fn list(&mut self, component: usize, target: EntityId, sources: Vec<EntityId>) {
        if let Some(component) = self.schema.number(component) {
            self.delta.lists.push(List { component, target, sources });
        }
    }

    /// The metadata is this one now.
    pub fn metadata(&mut self, metadata: Vec<(String, Value)>) {
        self.delta.metadata = Some(metadata);
    }

    /// The data is `after` now, and was `before`.
    pub fn data(&mut self, before: &[DataEntry], after: &[DataEntry]) {
        self.delta.data = super::between::data_edits(before, after);
    }

    /// Begins a group of entities that have the same changes. An entity is in one group of a delta.
    pub fn group(&mut self, kind: GroupKind, ids: Vec<EntityId>) -> GroupWriter<'_, 'r> {
        let spawned = kind == GroupKind::Spawned;
        self.delta.groups.push(Group { spawned, ids, changes: Vec::new() });
        GroupWriter { group: Some(self.delta.groups.len() - 1), writer: self }
    }

    /// For resources: each has one row.
    pub fn resources(&mut self) -> GroupWriter<'_, 'r> {
        GroupWriter { group: None, writer: self }
    }

    /// The delta. Fails if a codec of the game fails at its [end](crate::Codec::end_save).
    pub fn finish(self) -> Result<Delta> {
        let Self { registry, mut delta, arena, raw, notes, context, .. } = self;
        registry.end_save(&context)?;
        delta.notes = notes.finish();
        let sealed = arena.finish();
        for (group, place, slot) in raw {
            let column = match group {
                Some(group) => Some(&mut delta.groups[group].changes[place].column),
                None => delta.resources[place].1.as_mut(),
            };
            if let Some(column) = column {
                column.body = Body::Raw(sealed.rope(slot));
            }
        }
        for group in &mut delta.groups {
            group.changes.sort_by_key(|change| change.column.component);
        }
        delta.resources.sort_by_key(|(component, _)| *component);
        delta.lists.sort_by_key(|list| (list.component, list.target));
        Ok(delta)
    }
}

/// Takes what a group's entities have now.
pub struct GroupWriter<'w, 'r> {
    writer: &'w mut DeltaWriter<'r>,
    group: Option<usize>,
}

impl GroupWriter<'_, '_> {
    /// The component with this number in the registry is gone.
    pub fn removed(&mut self, component: usize) {
        let Some(component) = self.writer.schema.number(component) else { return };
        match self.group {
            Some(group) => {
                let column = Column { component, present: None, rows: 0, body: Body::Tag };
                let change = Change { op: DeltaOp::Removed, fields: 0, column };
                self.writer.delta.groups[group].changes.push(change);
            }
            None => self.writer.delta.resources.push((component, None)),
        }
    }

    /// The values of the component with this number in the registry, one per entity of the group. Transient components are
    /// passed over. Values that their codec leaves out are told as gone.
    ///
    /// # Safety
    /// The rows must be live values of the component's Rust type, and nobody may write to them during the call.
    #[expect(unsafe_code, reason = "rows without their type")]
    pub unsafe fn column_raw(&mut self, component: usize, op: DeltaOp, rows: RawRows<'_>) -> Result<()> {
        let Some(number) = self.writer.schema.number(component) else { return Ok(()) };
        let descriptor = &self.writer.registry.descriptors()[component];
        let expected = self.group.map_or(1, |group| self.writer.delta.groups[group].ids.len());
        if rows.len() != expected {
            let message = format!("{} rows for {expected} entities", rows.len());
            return Err(Error::misuse(message).in_key(descriptor.key()));
        }
        let unencodable = descriptor.unencodable.unwrap_or(self.writer.unencodable);
        let arena = &mut self.writer.arena;
        let encoding = Encoding { row_ends: RowEnds::Forget, unencodable, context: &self.writer.context };
        // SAFETY: the caller vouches for the rows.
        let encoded = unsafe { descriptor.column.encode(rows, arena, encoding) };
        let encoded = encoded.map_err(|error| error.in_key(descriptor.key()))?;
        for failure in encoded.failures {
            let ids = self.group.map(|group| &self.writer.delta.groups[group].ids);
            let entity = ids.and_then(|ids| ids.get(failure.first_row).copied());
            self.writer.notes.count(descriptor.key(), failure.remark(entity), failure.rows);
        }
        let mut raw = None;
        let body = match encoded.body {
            EncodedBody::Tag => Body::Tag,
            EncodedBody::Raw(slot) => {
                raw = Some(slot);
                Body::Tag
            }
            EncodedBody::Rows { bytes, groups, .. } => {
                let memory = bytes.into_memory();
                if memory.is_empty() { Body::Tag } else { Body::Rows(Groups::new(memory.into(), groups)) }
            }
        };
        let nobody = encoded.rows == 0;
        let column = Column { component: number, present: encoded.present, rows: encoded.rows, body };
        let delta = &mut self.writer.delta;
        let place = match self.group {
            // Of entities that have come, nothing need be told as gone.
            Some(group) if nobody && delta.groups[group].spawned => return Ok(()),
            Some(group) => {
                let changes = &mut delta.groups[group].changes;
                let change = if nobody { removed(number) } else { Change { op, fields: 0, column } };
                changes.push(change);
                changes.len() - 1
            }
            None => {
                delta.resources.push((number, (!nobody).then_some(column)));
                delta.resources.len() - 1
            }
        };
        if let Some(slot) = raw.filter(|_| !nobody) {
            self.writer.raw.push((self.group, place, slot));
        }
        Ok(())
    }

    /// As [`GroupWriter::column_raw`], for values that lie side by side.
    #[expect(unsafe_code, reason = "a slice of the registered type is what `column_raw` asks for")]
    pub fn column<T: 'static>(&mut self, op: DeltaOp, rows: &[T]) -> Result<()> {
        let component = self.writer.registry.require::<T>()?;
        // SAFETY: the registry has `T` as the component's type; the slice is borrowed for the call.
        unsafe {
            self.column_raw(component, op, RawRows::Slice { base: rows.as_ptr().cast(), len: rows.len() })
        }
    }
}

pub(super) fn removed(component: u32) -> Change {
    let column = Column { component, present: None::<Bitmap>, rows: 0, body: Body::Tag };
    Change { op: DeltaOp::Removed, fields: 0, column }
}

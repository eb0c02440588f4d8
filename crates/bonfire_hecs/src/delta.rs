//! Deltas: what has changed in a world since it was last asked, by comparison, and into a world.
//!
//! hecs does not know what was touched, so the world is captured and compared with the capture before. What it finds is what is
//! different, whoever has written it.

use std::any::Any;
use std::sync::Arc;

use bonfire::engine::{
    DeltaContents, DeltaIds, DeltaOp, DeltaSchema, DeltaSeries, EntityMap, Resources, StagedDelta,
    StagedGroup,
};
use bonfire::{Delta, EntityId, Error, Limits, Note, Result, Snapshot};
use hecs::{Entity, Without, World};

use crate::capture::{CaptureAdditions, CaptureSource, SaveOptions, Sharing};
use crate::column::NewComponents;
use crate::mark::Mirrored;
use crate::registration::Bonfire;

/// Finds out what has changed in a world by comparing it with what it was.
///
/// ```
/// use bonfire_hecs::{Bonfire, Persist, SaveOptions};
/// use bonfire_hecs::replication::DeltaCapture;
///
/// #[derive(Persist)]
/// #[persist(key = "game.health")]
/// struct Health(f32);
///
/// let mut bonfire = Bonfire::new();
/// bonfire.persist::<Health>()?.replicate::<Health>()?;
/// let mut world = hecs::World::new();
/// let entity = world.spawn((Health(3.0),));
/// let mut deltas = DeltaCapture::of_replication();
/// let options = SaveOptions::new();
/// assert!(deltas.changes(&bonfire, &world, &options)?.is_whole());
/// world.get::<&mut Health>(entity).unwrap().0 = 2.0;
/// assert_eq!(deltas.changes(&bonfire, &world, &options)?.stats().changed_values, 1);
/// # Ok::<(), bonfire_hecs::Error>(())
/// ```
pub struct DeltaCapture {
    contents: DeltaContents,
    series: DeltaSeries,
    notes: Vec<Note>,
}

impl DeltaCapture {
    fn new(contents: DeltaContents) -> Self {
        Self { contents, series: DeltaSeries::default(), notes: Vec::new() }
    }

    /// Deltas of everything that is saved.
    pub fn of_saves() -> Self {
        Self::new(DeltaContents::Saves)
    }

    /// Deltas for mirrors: of what is replicated, without data, and without entities that mirror another world.
    pub fn of_replication() -> Self {
        Self::new(DeltaContents::Replicated)
    }

    /// Deltas of everything that follows another world: for those who compare both sides.
    pub fn of_mirror() -> Self {
        Self::new(DeltaContents::Mirror)
    }

    /// Adds mirrored entities: for relays that pass a world on under their own ids.
    pub fn with_mirrored(mut self) -> Self {
        self.contents = self.contents.with_mirrored();
        self
    }

    /// Forgets the world: the next call of [`changes`](Self::changes) returns everything.
    pub fn forget(&mut self) {
        self.series.forget();
    }

    /// The components that deltas are about.
    pub fn schema(&self, bonfire: &Bonfire) -> Arc<DeltaSchema> {
        match self.contents {
            DeltaContents::Saves => Arc::new(DeltaSchema::new(&bonfire.registry.core)),
            DeltaContents::Replicated | DeltaContents::Relayed | DeltaContents::Mirror => {
                bonfire.replication_schema()
            }
        }
    }

    fn capture(&self, bonfire: &Bonfire, world: &World, options: &SaveOptions) -> Result<Snapshot> {
        let narrowed = match self.contents {
            DeltaContents::Replicated => Some(options.clone().matching::<Without<(), &Mirrored>>()),
            DeltaContents::Mirror => Some(options.clone().matching::<&Mirrored>()),
            DeltaContents::Saves | DeltaContents::Relayed => None,
        };
        let source = match self.contents {
            DeltaContents::Saves => bonfire.saves(),
            _ => CaptureSource { registry: &bonfire.replicated, carry: None },
        };
        let (options, added) = (narrowed.as_ref().unwrap_or(options), CaptureAdditions::default());
        Ok(bonfire.capture_with(source, world, options, added, Sharing::Alone)?.snapshot)
    }

    fn finish(&self, delta: Delta) -> Delta {
        if self.contents == DeltaContents::Saves { delta } else { delta.for_mirrors() }
    }

    /// Everything, as it is now. The next delta is still one since the last.
    pub fn baseline(&self, bonfire: &Bonfire, world: &World, options: &SaveOptions) -> Result<Delta> {
        let snapshot = self.capture(bonfire, world, options)?;
        self.series.baseline(&self.schema(bonfire), &snapshot).map(|delta| self.finish(delta))
    }

    /// What has changed since the last call, or everything if this is the first.
    pub fn changes(&mut self, bonfire: &Bonfire, world: &World, options: &SaveOptions) -> Result<Delta> {
        let (snapshot, schema) = (self.capture(bonfire, world, options)?, self.schema(bonfire));
        let delta = match self.contents {
            DeltaContents::Saves => self.series.compare(&schema, snapshot)?,
            _ => self.series.compare_for_mirrors(&schema, snapshot, |number, entity| {
                let pointer = bonfire.replicated.entries[number].pointer;
                entity.is_some_and(|entity| pointer(world, entity.into()).is_some())
            })?,
        };
        self.notes = delta.notes().to_vec();
        Ok(self.finish(delta))
    }

    /// Losses of the last call of [`changes`](Self::changes), such as values that cannot be encoded.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }
}

/// What a delta brought that does not lie in the world.
#[derive(Default)]
pub struct AppliedDelta {
    resources: Resources,
    /// Keys of what is gone.
    pub removed_resources: Vec<String>,
    /// It was everything: what exists once and is not among its resources is gone, too.
    pub is_whole: bool,
}

impl AppliedDelta {
    /// Takes out something that exists once, beside the world.
    pub fn take_resource<T: 'static>(&mut self) -> Option<T> {
        self.resources.take()
    }
}

/// A delta of which only the part is left that cannot fail.
struct StagedChanges<'d> {
    values: StagedDelta<'d>,
    ids: DeltaIds,
    /// The entities that come.
    new: Vec<Entity>,
}

impl Bonfire {
    /// The components that are told to mirrors: see [`replicate`](Self::replicate).
    pub fn replication_schema(&self) -> Arc<DeltaSchema> {
        Arc::new(DeltaSchema::new(&self.replicated.core))
    }

    /// Applies a delta for mirrors. `map` has the ids of the world that the delta is about and what they are here: it grows and
    /// shrinks with what comes and goes. An error leaves world and map as they were. Entities that come get [`Mirrored`].
    pub fn apply_delta(&self, world: &mut World, delta: &Delta, map: &mut EntityMap) -> Result<AppliedDelta> {
        self.apply_delta_with(world, delta, map, &self.replication_schema(), &Limits::default())
    }

    pub(crate) fn apply_delta_with(
        &self,
        world: &mut World,
        delta: &Delta,
        map: &mut EntityMap,
        schema: &DeltaSchema,
        limits: &Limits,
    ) -> Result<AppliedDelta> {
        schema.check(delta.table())?;
        world.flush();
        let widened =
            if delta.has_fields() { Some(self.whole_components(world, delta, map, schema)?) } else { None };
        let delta = widened.as_ref().unwrap_or(delta);
        let mut ids = DeltaIds::plan(delta, map, |local| world.contains(local.into()))?;
        let count = u32::try_from(ids.to_spawn().len());
        let count = count.map_err(|_| Error::misuse("more entities than hecs can have"))?;
        let new: Vec<Entity> = world.reserve_entities(count).collect();
        let staged = ids.assign(map, new.iter().map(|entity| (*entity).into())).and_then(|()| {
            let context: Option<&dyn Any> = Some(&*world);
            delta.stage(&self.replicated.core, schema, map, limits, context)
        });
        match staged {
            Ok(values) => Ok(self.commit(world, delta, StagedChanges { values, ids, new }, map)),
            Err(error) => {
                ids.revert(map);
                world.flush();
                new.into_iter().for_each(|entity| _ = world.despawn(entity));
                Err(error)
            }
        }
    }

    #[expect(unsafe_code, reason = "values without their type")]
    fn whole_components(
        &self,
        world: &World,
        delta: &Delta,
        map: &EntityMap,
        schema: &DeltaSchema,
    ) -> Result<Delta> {
        let current = |number: usize, id: EntityId| {
            (self.replicated.entries[number].pointer)(world, map.get(id)?.into())
        };
        // SAFETY: live values of the component, whose type is the descriptor's; the world is borrowed.
        unsafe { delta.with_whole_components(&self.replicated.core, schema, current) }
    }

    /// From here on nothing fails.
    fn commit(
        &self,
        world: &mut World,
        delta: &Delta,
        staged: StagedChanges<'_>,
        map: &EntityMap,
    ) -> AppliedDelta {
        let StagedChanges { values, ids, new } = staged;
        world.flush();
        for entity in new {
            let _ = world.insert_one(entity, Mirrored);
        }
        let descriptors = self.replicated.core.descriptors();
        for group in values.groups {
            self.commit_group(world, group, map);
        }
        for local in ids.to_despawn() {
            let _ = world.despawn(local.into());
        }
        let mut applied = AppliedDelta { is_whole: delta.is_whole(), ..AppliedDelta::default() };
        for (number, column) in values.resources {
            match column {
                Some(column) => {
                    let value = (self.replicated.entries[number].resource)(column);
                    value.into_iter().for_each(|value| applied.resources.add(value));
                }
                None => applied.removed_resources.push(descriptors[number].key().to_owned()),
            }
        }
        debug_assert!(delta.is_whole() || delta.since() <= delta.now());
        applied
    }

    fn commit_group(&self, world: &mut World, group: StagedGroup<'_>, map: &EntityMap) {
        let entities: Vec<Option<Entity>> = group
            .ids
            .iter()
            .map(|id| map.get(*id).map(Entity::from).filter(|id| world.contains(*id)))
            .collect();
        if group.spawned {
            self.remove_others(world, &group, &entities);
        }
        let mut inserted = NewComponents::new();
        for change in group.changes {
            let entry = &self.replicated.entries[change.component];
            let absent: Vec<usize> = match &change.column {
                Some(column) if change.op != DeltaOp::Removed => {
                    (0..entities.len()).filter(|&row| !column.is_present(row)).collect()
                }
                _ => (0..entities.len()).collect(),
            };
            for entity in absent.into_iter().filter_map(|row| entities[row]) {
                (entry.remove)(world, entity);
            }
            if let Some(column) = change.column.filter(|_| change.op != DeltaOp::Removed) {
                (entry.update)(column, world, &entities, &mut inserted);
            }
        }
        for (row, mut builder) in inserted {
            if let Some(entity) = entities[row] {
                let _ = world.insert(entity, builder.build());
            }
        }
    }

    /// Removes the components that a group of whole entities does not have.
    fn remove_others(&self, world: &mut World, group: &StagedGroup<'_>, entities: &[Option<Entity>]) {
        let descriptors = self.replicated.core.descriptors();
        for (number, descriptor) in descriptors.iter().enumerate() {
            let is_listed = group.changes.iter().any(|change| change.component == number);
            if is_listed || descriptor.is_transient() {
                continue;
            }
            for &entity in entities.iter().flatten() {
                (self.replicated.entries[number].remove)(world, entity);
            }
        }
    }
}

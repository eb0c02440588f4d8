//! The model world as one that is followed, and as one that follows.

use std::any::Any;
use std::collections::HashSet;

use bonfire::engine::{DeltaOp, DeltaSchema, EntityMap, SnapshotWriter};
use bonfire::{Delta, EntityId, Error, Limits, Result, Snapshot};

use crate::world::{Boxed, ModelWorld, take_slot};

/// A model world, and what it was when its changes were last asked for.
pub struct Followed {
    /// The world.
    pub world: ModelWorld,
    schema: DeltaSchema,
    last: Snapshot,
    ticks: u64,
}

impl Followed {
    /// Follows a world from nothing: the first changes are everything.
    pub fn new(world: ModelWorld) -> Result<Self> {
        let schema = DeltaSchema::new(world.registry());
        let last = SnapshotWriter::new(world.registry()).finish()?;
        Ok(Self { world, schema, last, ticks: 0 })
    }

    /// The components.
    pub fn schema(&self) -> &DeltaSchema {
        &self.schema
    }

    /// Everything, as it is now.
    pub fn whole(&mut self) -> Result<Delta> {
        Delta::whole(&self.schema, &self.world.save()?, self.ticks)
    }

    /// What has changed since the last call.
    pub fn changes(&mut self) -> Result<Delta> {
        let now = self.world.save()?;
        let delta = Delta::between(&self.schema, &self.last, &now, self.ticks, self.ticks + 1)?;
        self.ticks += 1;
        self.last = now;
        Ok(delta)
    }
}

impl ModelWorld {
    /// Makes this world what a delta says. `map` has the source's ids and the ones here. If it fails, the world and the map
    /// are as they were.
    ///
    /// What is told of an entity that is not known is left out; so are lists, which this world does not have.
    pub fn apply_delta(&mut self, delta: &Delta, map: &mut EntityMap) -> Result<()> {
        let schema = DeltaSchema::new(&self.registry);
        let (mut slots, mut new_map) = (self.slots.clone(), map.clone());
        let spawned: HashSet<EntityId> = delta.spawned().collect();
        let gone: Vec<EntityId> = match delta.is_whole() {
            true => map.iter().map(|(remote, _)| remote).filter(|remote| !spawned.contains(remote)).collect(),
            false => delta.despawned().to_vec(),
        };
        // An id that goes and comes in one delta is another entity from then on.
        let mut ended: Vec<EntityId> = gone.iter().filter_map(|remote| new_map.remove(*remote)).collect();
        if delta.is_whole() {
            let kept: HashSet<EntityId> = new_map.iter().map(|(_, local)| local).collect();
            ended.extend(self.entities().into_iter().filter(|local| !kept.contains(local)));
        }
        for local in &ended {
            slots[local.index() as usize] = (local.generation() + 1, false);
        }
        for remote in delta.spawned() {
            if new_map.get(remote).is_none() {
                new_map.insert(remote, take_slot(&mut slots))?;
            }
        }

        let widened;
        let delta = match delta.has_fields() {
            true => {
                widened = self.widened(delta, &schema, &new_map)?;
                &widened
            }
            false => delta,
        };
        // Decode into boxes first: everything after this cannot fail.
        let world: &dyn Any = self;
        let staged = delta.stage(&self.registry, &schema, &new_map, &Limits::default(), Some(world))?;
        let mut fresh: Vec<EntityId> = Vec::new();
        let mut incoming: Vec<(usize, EntityId, Option<Boxed>)> = Vec::new();
        for group in staged.groups {
            let locals: Vec<Option<EntityId>> = group.ids.iter().map(|remote| new_map.get(*remote)).collect();
            if group.spawned {
                fresh.extend(locals.iter().flatten());
            }
            for change in group.changes {
                let Some(column) = change.column.filter(|_| change.op != DeltaOp::Removed) else {
                    incoming.extend(locals.iter().flatten().map(|local| (change.component, *local, None)));
                    continue;
                };
                let present: Vec<bool> = (0..locals.len()).map(|row| column.is_present(row)).collect();
                let mut values = (self.storages[&change.component].read)(column)?.into_iter();
                for (local, present) in locals.iter().zip(present) {
                    let value = present.then(|| values.next()).flatten();
                    if present && value.is_none() {
                        return Err(Error::misuse("fewer rows than entities"));
                    }
                    incoming.extend(local.map(|local| (change.component, local, value)));
                }
            }
        }
        let mut resources = Vec::new();
        for (component, column) in staged.resources {
            let value = column.map(|column| (self.storages[&component].read)(column)).transpose()?;
            resources.push((component, value.and_then(|mut rows| rows.pop())));
        }

        // Commit.
        self.slots = slots;
        *map = new_map;
        for column in self.components.values_mut() {
            ended.iter().chain(&fresh).for_each(|local| drop(column.remove(local)));
        }
        for (component, local, value) in incoming {
            let column = self.components.entry(component).or_default();
            match value {
                Some(value) => drop(column.insert(local, value)),
                None => drop(column.remove(&local)),
            }
        }
        if delta.is_whole() {
            self.resources.clear();
        }
        for (component, value) in resources {
            match value {
                Some(value) => drop(self.resources.insert(component, value)),
                None => drop(self.resources.remove(&component)),
            }
        }
        Ok(())
    }

    /// The delta with whole components in the place of single fields.
    #[expect(unsafe_code, reason = "values without their type")]
    fn widened(&self, delta: &Delta, schema: &DeltaSchema, map: &EntityMap) -> Result<Delta> {
        let current = |component: usize, remote: EntityId| {
            let value: &dyn Any = &**self.components.get(&component)?.get(&map.get(remote)?)?;
            Some(std::ptr::from_ref(value).cast::<u8>())
        };
        // SAFETY: a column has boxes of its component's type, and the world is borrowed for the call.
        unsafe { delta.with_whole_components(&self.registry, schema, current) }
    }
}

//! Worlds as the two ends of a stream.

use std::sync::Arc;

use bonfire::engine::{ComponentTable, DeltaSchema, EntityMap};
use bonfire::{Delta, Limits, Result};
use bonfire_sync::{MirrorWorld, SourceWorld};
use hecs::World;

use crate::capture::SaveOptions;
use crate::delta::{AppliedDelta, DeltaCapture};
use crate::registration::Bonfire;

/// A world that others follow, for [`ReplicationStream`](bonfire_sync::ReplicationStream).
pub struct WorldSource<'w> {
    /// What is registered.
    pub bonfire: &'w Bonfire,
    /// The world.
    pub world: &'w World,
    /// Which entities, and what lies beside the world.
    pub options: &'w SaveOptions,
    /// What is remembered of it: always the same one for a stream.
    pub deltas: &'w mut DeltaCapture,
}

impl SourceWorld for WorldSource<'_> {
    fn baseline(&mut self) -> Result<Delta> {
        self.deltas.baseline(self.bonfire, self.world, self.options)
    }

    fn changes(&mut self) -> Result<Delta> {
        self.deltas.changes(self.bonfire, self.world, self.options)
    }
}

/// A world that follows another one, for [`Receiver`](bonfire_sync::Receiver). Entities that are not mirrored are left alone.
pub struct WorldMirror<'w> {
    bonfire: &'w Bonfire,
    world: &'w mut World,
    schema: Arc<DeltaSchema>,
    limits: Limits,
    /// What came that does not lie in the world, message by message.
    pub applied: Vec<AppliedDelta>,
}

impl<'w> WorldMirror<'w> {
    /// With default limits.
    pub fn new(bonfire: &'w Bonfire, world: &'w mut World) -> Self {
        let schema = bonfire.replication_schema();
        Self { bonfire, world, schema, limits: Limits::default(), applied: Vec::new() }
    }

    /// The components that it can follow.
    pub fn table(&self) -> &Arc<ComponentTable> {
        self.schema.table()
    }
}

impl MirrorWorld for WorldMirror<'_> {
    fn apply(&mut self, delta: &Delta, map: &mut EntityMap) -> Result<()> {
        let applied = self.bonfire.apply_delta_with(self.world, delta, map, &self.schema, &self.limits)?;
        self.applied.push(applied);
        Ok(())
    }
}

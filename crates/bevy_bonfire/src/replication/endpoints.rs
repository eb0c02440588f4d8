//! Worlds as the two ends of a stream.

use std::sync::Arc;

use bevy_ecs::world::World;
use bonfire::engine::{ComponentTable, DeltaSchema, EntityMap};
use bonfire::{Delta, Limits, Result};
use bonfire_sync::{MirrorWorld, SourceWorld, mirror_limits};

use crate::delta::{DeltaCapture, ReplicationRegistry, apply};
use crate::registry::ComponentRegistry;

/// A world that others follow, for [`ReplicationStream`](bonfire_sync::ReplicationStream).
pub struct WorldSource<'w> {
    /// The world.
    pub world: &'w mut World,
    /// What is remembered of it: always the same one for a stream.
    pub deltas: &'w mut DeltaCapture,
}

impl SourceWorld for WorldSource<'_> {
    fn baseline(&mut self) -> Result<Delta> {
        self.deltas.baseline(self.world)
    }

    fn changes(&mut self) -> Result<Delta> {
        self.deltas.changes(self.world)
    }
}

/// A world that follows another one, for [`Receiver`](bonfire_sync::Receiver). Entities that are not mirrored are left alone.
pub struct WorldMirror<'w> {
    world: &'w mut World,
    registry: Arc<ComponentRegistry>,
    schema: Arc<DeltaSchema>,
    limits: Limits,
}

impl<'w> WorldMirror<'w> {
    /// With [`mirror_limits`].
    pub fn new(world: &'w mut World) -> Self {
        let registry = ReplicationRegistry::of(world);
        let schema = Arc::new(DeltaSchema::new(&registry.core));
        Self { world, registry, schema, limits: mirror_limits() }
    }

    /// Limits what the values of a message may cost.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// With a schema that was made before, if the registry is still the one that it was made of.
    pub(super) fn with_schema(
        world: &'w mut World,
        known: &mut Option<CachedSchema>,
        limits: &Limits,
    ) -> Self {
        let registry = ReplicationRegistry::of(world);
        let schema = match known {
            Some(known) if Arc::ptr_eq(&known.registry, &registry) => Arc::clone(&known.schema),
            _ => {
                let schema = Arc::new(DeltaSchema::new(&registry.core));
                *known = Some(CachedSchema { registry: Arc::clone(&registry), schema: Arc::clone(&schema) });
                schema
            }
        };
        Self { world, registry, schema, limits: limits.clone() }
    }

    /// The components that it can follow.
    pub fn table(&self) -> &Arc<ComponentTable> {
        self.schema.table()
    }
}

/// What was made of a registry.
pub(super) struct CachedSchema {
    registry: Arc<ComponentRegistry>,
    schema: Arc<DeltaSchema>,
}

impl MirrorWorld for WorldMirror<'_> {
    fn apply(&mut self, delta: &Delta, map: &mut EntityMap) -> Result<()> {
        apply(self.world, &self.registry, &self.schema, delta, map, &self.limits)
    }
}

//! Worlds in sync: [`WorldSource`] and [`WorldMirror`] are the ends of a stream of [`bonfire_sync`].
//!
//! Both sides register what is replicated: [`Bonfire::replicate`], [`Bonfire::replicate_only`],
//! [`Bonfire::replicate_as`] and [`Bonfire::replicate_persisted`]. Nothing else is told.
//!
//! hecs does not know its changes, so a [`DeltaCapture`] compares a world with its last capture.
//! [`Bonfire::apply_delta`] applies deltas without a stream:
//!
//! ```
//! use bonfire_hecs::core::engine::EntityMap;
//! use bonfire_hecs::replication::{DeltaCapture, Mirrored};
//! use bonfire_hecs::{Bonfire, Persist, SaveOptions};
//!
//! #[derive(Persist)]
//! #[persist(key = "game.health")]
//! struct Health(f32);
//!
//! let mut bonfire = Bonfire::new();
//! bonfire.persist::<Health>()?.replicate::<Health>()?;
//! let (mut server, mut client) = (hecs::World::new(), hecs::World::new());
//! server.spawn((Health(3.0),));
//! let delta = DeltaCapture::of_replication().changes(&bonfire, &server, &SaveOptions::new())?;
//! bonfire.apply_delta(&mut client, &delta, &mut EntityMap::default())?;
//! assert_eq!(client.query::<(&Health, &Mirrored)>().iter().count(), 1);
//! # Ok::<(), bonfire_hecs::Error>(())
//! ```

use std::sync::Arc;

use bonfire::engine::{ComponentTable, DeltaSchema, EntityMap};
pub use bonfire::{Delta, Granularity};
use bonfire::{Limits, Result};
use bonfire_sync::{MirrorWorld, SourceWorld, mirror_limits};
use hecs::World;

use crate::capture::SaveOptions;
pub use crate::delta::{AppliedDelta, DeltaCapture};
pub use crate::mark::{Mirrored, Replicated};
use crate::registration::Bonfire;

/// A world that others follow, for [`StreamServer`](bonfire_sync::StreamServer) and
/// [`ReplicationStream`](bonfire_sync::ReplicationStream).
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

/// A world that follows another one, for [`Inbox`](bonfire_sync::Inbox) and [`Receiver`](bonfire_sync::Receiver). Entities that are not mirrored are left alone.
pub struct WorldMirror<'w> {
    bonfire: &'w Bonfire,
    world: &'w mut World,
    schema: Arc<DeltaSchema>,
    limits: Limits,
    /// What came that does not lie in the world, message by message.
    pub applied: Vec<AppliedDelta>,
}

impl<'w> WorldMirror<'w> {
    /// With [`mirror_limits`].
    pub fn new(bonfire: &'w Bonfire, world: &'w mut World) -> Self {
        let schema = bonfire.replication_schema();
        Self { bonfire, world, schema, limits: mirror_limits(), applied: Vec::new() }
    }

    /// Limits what the values of a message may cost.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
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

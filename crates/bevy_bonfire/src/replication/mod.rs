//! Worlds in sync: what is replicated, and the marks on both sides.

mod client;
mod harness;
mod registry;
mod server;
mod sides;

use std::collections::HashSet;

use bevy_ecs::component::{Component, ComponentId};
use bevy_ecs::resource::Resource;
use bevy_ecs::schedule::SystemSet;
use bevy_ecs::world::World;
use bonfire::engine::{DeltaSchema, EntityMap};
use bonfire::{Delta, Limits, Result};

pub use self::client::{MessageApplied, MessageRefused, ReplicationClient, ReplicationClientPlugin};
pub use self::harness::TwoApps;
pub use self::registry::ReplicateExt;
pub(crate) use self::registry::ReplicationRegistry;
pub use self::server::{ClientId, ReplicationServer, ReplicationServerPlugin};
pub use self::sides::{WorldMirror, WorldSource};

/// When an app replicates.
#[derive(SystemSet, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplicationSystems {
    /// What has arrived is applied: at the start of the frame, in [`First`](bevy_app::First).
    Receive,
    /// What has changed is made into messages: at the end of the frame, in [`Last`](bevy_app::Last).
    Send,
}

/// Marks an entity that a server tells its clients of.
///
/// ```
/// # use bevy_ecs::prelude::*;
/// # use bevy_bonfire::Replicated;
/// # use bevy_bonfire::prelude::*;
/// #[derive(Component, Persist)]
/// #[require(Replicated)] // clients see every ship
/// #[persist(key = "game.ship")]
/// struct Ship;
/// ```
#[derive(Component, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "reflect", derive(bevy_reflect::Reflect), reflect(Component, Default, Debug))]
pub struct Replicated;

/// On an entity that follows one of another world. It comes and goes as that one does, and whatever a client does to
/// its replicated components is overwritten by the next change of them there. A stream of this world does not tell of it.
#[derive(Component, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "reflect", derive(bevy_reflect::Reflect), reflect(Component, Default, Debug))]
pub struct Mirrored;

#[cfg(feature = "reflect")]
use bevy_ecs::reflect::ReflectComponent;
#[cfg(feature = "reflect")]
use bevy_reflect::prelude::ReflectDefault;

/// Resources that follow those of another world.
#[derive(Resource, Default)]
pub(crate) struct MirroredResources(HashSet<ComponentId>);

impl MirroredResources {
    pub(crate) fn contains(&self, id: ComponentId) -> bool {
        self.0.contains(&id)
    }

    pub(crate) fn insert(&mut self, id: ComponentId) {
        self.0.insert(id);
    }
}

/// Deltas into worlds.
pub trait WorldDeltaExt {
    /// Applies a delta of what is replicated. `map` has the ids of the world that the delta is about and what they are here: it
    /// grows and shrinks with what comes and goes. An error leaves world and map as they were, unless it says that the delta is
    /// not complete.
    ///
    /// What it costs is what has changed. Entities that come get [`Mirrored`]; those that are gone are despawned. Values are
    /// overwritten in place, which change detection sees; hooks and observers run for what comes, goes, is added and
    /// removed, and for immutable components that are other ones now.
    fn apply_delta(&mut self, delta: &Delta, map: &mut EntityMap) -> Result<()>;
}

impl WorldDeltaExt for World {
    fn apply_delta(&mut self, delta: &Delta, map: &mut EntityMap) -> Result<()> {
        let registry = ReplicationRegistry::of(self);
        let schema = DeltaSchema::new(&registry.registry);
        crate::load::apply(self, &registry, &schema, delta, map, &Limits::default())
    }
}

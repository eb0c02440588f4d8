//! Deltas: what has changed in a world, and changes into a world.
//!
//! | file | contents |
//! |---|---|
//! | `capture` | [`DeltaCapture`]: a world and its earlier state to a delta |
//! | `tracked_world` | the state that is kept from one delta to the next |
//! | `awaited` | entities that mirrors have heard of and do not have |
//! | `unseen` | values that were written past change detection |
//! | `entity_tracker` | entities that came, went and changed their archetype |
//! | `groups`, `row_bits` | changed rows, put into groups of entities with the same changes |
//! | `lists` | lists of relationships |
//! | `values` | values by pointer |
//! | `apply` | a delta into a world |
//! | `mark` | [`Replicated`], [`Mirrored`], and the registry of what is replicated |

mod apply;
mod awaited;
mod capture;
mod entity_tracker;
mod groups;
mod lists;
mod mark;
mod row_bits;
mod tracked_world;
mod unseen;
mod values;

use bevy_ecs::world::World;
use bonfire::engine::{DeltaSchema, EntityMap};
use bonfire::{Delta, Limits, Result};

pub(crate) use self::apply::apply;
pub use self::capture::DeltaCapture;
pub(crate) use self::mark::ReplicationRegistry;
pub use self::mark::{Mirrored, Replicated};
pub use self::unseen::UnseenChange;

/// Applies deltas, on a [`World`].
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
        let schema = DeltaSchema::new(&registry.core);
        apply(self, &registry, &schema, delta, map, &Limits::default())
    }
}

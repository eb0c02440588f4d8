//! The two worlds of replication, as front ends implement them.

use bonfire::engine::EntityMap;
use bonfire::{Delta, Result};

/// A world that mirrors follow. Front ends implement it; the stream counts the ticks.
pub trait SourceWorld {
    /// Everything, as it is now. What counts as changed is not touched by this.
    fn baseline(&mut self) -> Result<Delta>;

    /// What has changed since the last call. A source that cannot tell gives everything, as a whole delta.
    fn changes(&mut self) -> Result<Delta>;
}

/// A world that follows another one: a baseline drops every mirrored entity that it does not mention. Whether entities that
/// the mirror made itself stay is up to the front end.
pub trait MirrorWorld {
    /// Makes the world what the delta says, and keeps the map of the source's ids to its own: entities that come are added,
    /// those that go are removed.
    ///
    /// Telling twice what is there already changes nothing. A failure may leave the world half changed: the receiver asks for a
    /// baseline then.
    fn apply(&mut self, delta: &Delta, map: &mut EntityMap) -> Result<()>;
}

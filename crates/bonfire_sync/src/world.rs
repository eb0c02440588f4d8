//! The two worlds of replication, as front ends implement them.

use bonfire::engine::EntityMap;
use bonfire::{Delta, Result};

/// A world that mirrors follow. Front ends implement it; the stream counts the ticks.
pub trait SourceWorld {
    /// Returns the whole world as it is now. The next [`changes`](Self::changes) are not affected.
    fn baseline(&mut self) -> Result<Delta>;

    /// Returns the changes since the last call. A source that cannot tell returns the whole world, as a whole delta.
    fn changes(&mut self) -> Result<Delta>;
}

/// A world that follows another one. A baseline removes every mirrored entity that it does not have. The front end decides
/// about entities that the mirror made itself.
pub trait MirrorWorld {
    /// Applies a delta to the world, and keeps the map from ids of the source to its own: spawned entities are added,
    /// despawned ones removed.
    ///
    /// Applying what the world has already changes nothing. A failure may leave the world half changed; then the receiver
    /// needs a baseline.
    fn apply(&mut self, delta: &Delta, map: &mut EntityMap) -> Result<()>;
}

//! The marks of entities: what is saved, what is replicated, and what follows another world.

use bonfire::Persist;

/// Entities with this component are saved in [`SaveScope::Marked`](crate::SaveScope::Marked).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Persist)]
#[persist(crate = bonfire, key = "bonfire.saved")]
pub struct Saved;

/// Marks an entity that a server tells its clients of. In [`SaveScope::Marked`](crate::SaveScope::Marked) an entity needs it.
/// In [`SaveScope::Persisted`](crate::SaveScope::Persisted) a component that is replicated will do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replicated;

/// On an entity that follows one of another world. It comes and goes as that one does. A stream of this world does not tell of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mirrored;

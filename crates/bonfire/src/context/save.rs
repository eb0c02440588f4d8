//! What encoding a value may need besides the value: the world, and the sessions of codecs.

use std::any::Any;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a save gives to the codecs of a game: see [`Descriptor::custom`](crate::Descriptor::custom) and
/// [`Codec`](crate::Codec).
#[derive(Default)]
pub struct SaveContext<'a> {
    world: Option<&'a dyn Any>,
    pub(crate) sessions: Sessions,
}

impl<'a> SaveContext<'a> {
    /// A context without a world.
    pub fn new() -> Self {
        Self::default()
    }

    /// The world that codecs may look at.
    pub fn with_world(mut self, world: &'a dyn Any) -> Self {
        self.world = Some(world);
        self
    }

    /// Returns the world that is being saved, if it is a `W`. There is none where values are encoded outside of a save, such as
    /// in the comparison of a restore. A codec that needs it returns an error then; the comparison takes such values for
    /// different.
    ///
    /// A save encodes a value again if the value was touched. What else a codec finds in the world must not change by itself,
    /// or the front end must be told to encode the component every time.
    pub fn world<W: 'static>(&self) -> Option<&'a W> {
        self.world?.downcast_ref()
    }
}

/// A session of a codec, with the address of its column's functions.
type OpenSession = (usize, Box<dyn Any + Send>);

/// The open sessions of codecs. A front end may keep them beside its world, which other threads see: hence the lock.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<Vec<OpenSession>>);

impl Sessions {
    fn open(&self) -> MutexGuard<'_, Vec<OpenSession>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a session out.
    pub(crate) fn take(&self, column: usize) -> Option<Box<dyn Any + Send>> {
        let mut open = self.open();
        let index = open.iter().position(|(known, _)| *known == column)?;
        Some(open.swap_remove(index).1)
    }

    /// Keeps a session for the next column.
    pub(crate) fn keep(&self, column: usize, session: Box<dyn Any + Send>) {
        self.open().push((column, session));
    }

    /// Returns true if no session is open.
    pub(crate) fn is_empty(&self) -> bool {
        self.open().is_empty()
    }
}

//! The memory of chunks that were activated, on its way back to the reading threads.
//!
//! A reading thread allocates what it decodes, and the thread of the game uses it up. If the game freed it, both threads would wait
//! for the same allocator all the time. So each decoding first frees the memory of chunks that were activated before. While
//! nothing is loading, the game frees a little of it in each frame.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::load::LoadRemains;

/// The chunks whose memory a reading thread frees before it decodes one: more than one, so that it becomes less.
const FREED_PER_DECODING: usize = 2;

/// The chunks whose memory the game frees in a frame in which nothing is loading.
const FREED_PER_FRAME: usize = 4;

/// The memory that activated chunks have left.
#[derive(Clone, Default)]
pub(super) struct Remains(Arc<Mutex<Vec<LoadRemains>>>);

impl Remains {
    pub(super) fn add(&self, remains: LoadRemains) {
        self.lock().push(remains);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Frees some on a reading thread.
    pub(super) fn free_before_decoding(&self) {
        self.free(FREED_PER_DECODING);
    }

    /// Frees some on the thread of the game.
    pub(super) fn free_in_frame(&self) {
        self.free(FREED_PER_FRAME);
    }

    fn free(&self, max: usize) {
        for _ in 0..max {
            // Not under the lock.
            let Some(one) = self.take() else { return };
            drop(one);
        }
    }

    fn take(&self) -> Option<LoadRemains> {
        self.lock().pop()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<LoadRemains>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Blocking calls, for programs that have no executor.

/// Turns a future into a blocking call.
///
/// ```
/// use bonfire_store::{MemoryStore, Payload, Precondition, Store, Wait};
///
/// let store = MemoryStore::new();
/// store.put("settings", Payload::from(vec![1, 2, 3]), Precondition::None).wait()?;
/// assert_eq!(&store.get("settings").wait()?[..], [1, 2, 3]);
/// # Ok::<(), bonfire::Error>(())
/// ```
pub trait Wait: Future + Sized {
    /// Runs the future on this thread until it is done. Inside an executor this would keep its thread: `.await` there.
    fn wait(self) -> Self::Output {
        pollster::block_on(self)
    }
}

impl<F: Future> Wait for F {}

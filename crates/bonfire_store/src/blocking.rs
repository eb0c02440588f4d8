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

/// Runs the calls of a store on the thread of the saver, which does nothing else meanwhile.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn block_on<T>(future: impl Future<Output = bonfire::Result<T>>) -> bonfire::Result<T> {
    pollster::block_on(future)
}

/// Runs the calls of a store that answers at once. In a browser nothing else happens while somebody waits, so that what
/// is not there now never comes.
#[cfg(target_arch = "wasm32")]
pub(crate) fn block_on<T>(future: impl Future<Output = bonfire::Result<T>>) -> bonfire::Result<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(result) => result,
        std::task::Poll::Pending => Err(bonfire::Error::unsupported(
            "this store answers later, and there are no threads here: await the calls of `Slots`",
        )),
    }
}

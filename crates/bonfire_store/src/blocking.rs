//! Blocking calls, for programs that have no executor.

use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bonfire::{Error, Result};

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
pub trait Wait<T>: Future<Output = Result<T>> + Sized {
    /// Runs the future on this thread until it is done. Inside an executor this would keep its thread: `.await` there.
    ///
    /// **wasm32** cannot wait, because nothing else happens meanwhile. There a future that answers later is
    /// [`Error::is_unsupported`]: `.await` it.
    fn wait(self) -> Result<T> {
        let mut future = pin!(self);
        let alarm = Arc::new(Alarm::default());
        let waker = Waker::from(alarm.clone());
        loop {
            let rings = alarm.rings();
            if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return result;
            }
            if !alarm.wait(rings, Duration::MAX) {
                return Err(Error::unsupported(
                    "this store answers later, and a browser cannot wait for it: use `.await`",
                ));
            }
        }
    }
}

impl<T, F: Future<Output = Result<T>>> Wait<T> for F {}

/// A waker that threads can wait for. It counts its rings, so that none is missed between a look and a wait.
#[derive(Default)]
pub(crate) struct Alarm {
    rings: Mutex<u64>,
    changed: Condvar,
}

impl Alarm {
    pub(crate) fn ring(&self) {
        *self.lock() += 1;
        self.changed.notify_all();
    }

    /// How often it has rung.
    pub(crate) fn rings(&self) -> u64 {
        *self.lock()
    }

    /// Blocks until it has rung more often, or until the time has passed: then false. On wasm32 it never blocks.
    pub(crate) fn wait(&self, rings: u64, time: Duration) -> bool {
        let time = if cfg!(target_arch = "wasm32") { Duration::ZERO } else { time };
        let mut now = self.lock();
        if *now == rings && !time.is_zero() {
            let waited = self.changed.wait_timeout_while(now, time, |now| *now == rings);
            (now, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        *now != rings
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.ring();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

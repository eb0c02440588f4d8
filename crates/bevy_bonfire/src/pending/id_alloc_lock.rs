//! The lock of the allocation of entity ids, which loads on other threads share with batches.
//!
//! A batch of a chunk holds it for some microseconds, a batch of a large load for longer. So a thread that waits spins for a
//! while, and sleeps then until it is woken. A sleep of a fixed time would let the loads of chunks wait for nothing.

use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
#[cfg(not(target_arch = "wasm32"))]
use std::time::Duration;

use bevy_ecs::world::World;

use super::PendingEntities;

/// Locks the allocation of entity ids. A batch frees its ids and allocates them again; an id that another thread allocates
/// in between breaks the batch.
#[derive(Clone, Default)]
pub(crate) struct IdAllocLock(Arc<IdAlloc>);

#[derive(Default)]
struct IdAlloc {
    state: Mutex<IdAllocState>,
    /// Wakes one of those that wait.
    released: Condvar,
}

#[derive(Default)]
struct IdAllocState {
    is_held: bool,
    waiting: usize,
}

/// The time after which [`IdAllocLock::try_lock_for_a_while`] gives up.
#[cfg(not(target_arch = "wasm32"))]
const LOCK_WAIT_MAX: Duration = Duration::from_secs(1);

/// How often a thread looks before it sleeps. A batch of a chunk ends sooner than a thread is put to sleep and woken.
const LOCK_SPINS: u32 = 2000;

thread_local! {
    /// This thread holds the lock. Hooks of a batch run meanwhile, and may prepare a load.
    static IS_HELD: Cell<bool> = const { Cell::new(false) };
}

impl IdAllocLock {
    /// The lock of a world; `None` if nothing is registered in it.
    pub(crate) fn of(world: &World) -> Option<Self> {
        world.get_resource::<PendingEntities>().map(|pending| pending.lock.clone())
    }

    /// Waits for the lock, but not for ever: the holder runs code of the game, which may wait for this thread. A caller that
    /// goes on without the lock may break a batch, which then fails and is undone.
    pub(super) fn try_lock_for_a_while(&self) -> Option<IdAllocGuard<'_>> {
        if IS_HELD.get() {
            return None;
        }
        if let Some(guard) = self.spin() {
            return Some(guard);
        }
        #[cfg(not(target_arch = "wasm32"))]
        {
            let mut state = self.0.state();
            state.waiting += 1;
            let is_held = |state: &mut IdAllocState| state.is_held;
            let waited = self.0.released.wait_timeout_while(state, LOCK_WAIT_MAX, is_held);
            let (mut state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
            if !timeout.timed_out() {
                return Some(self.take(&mut state));
            }
        }
        None
    }

    fn spin(&self) -> Option<IdAllocGuard<'_>> {
        (0..LOCK_SPINS).find_map(|_| {
            let guard = self.try_lock();
            if guard.is_none() {
                std::hint::spin_loop();
            }
            guard
        })
    }

    fn try_lock(&self) -> Option<IdAllocGuard<'_>> {
        let mut state = match self.0.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        (!state.is_held).then(|| self.take(&mut state))
    }

    fn take(&self, state: &mut IdAllocState) -> IdAllocGuard<'_> {
        state.is_held = true;
        IS_HELD.set(true);
        IdAllocGuard { lock: Some(&self.0) }
    }

    /// Waits for the lock. Does nothing on a thread that holds it already.
    pub(crate) fn lock(&self) -> IdAllocGuard<'_> {
        if IS_HELD.get() {
            return IdAllocGuard { lock: None };
        }
        if let Some(guard) = self.spin() {
            return guard;
        }
        let mut state = self.0.state();
        state.waiting += 1;
        let waited = self.0.released.wait_while(state, |state| state.is_held);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        self.take(&mut state)
    }
}

impl IdAlloc {
    fn state(&self) -> MutexGuard<'_, IdAllocState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Holds an [`IdAllocLock`] until it is dropped.
pub(crate) struct IdAllocGuard<'t> {
    /// `None` if this thread held the lock before.
    lock: Option<&'t IdAlloc>,
}

impl Drop for IdAllocGuard<'_> {
    fn drop(&mut self) {
        let Some(lock) = self.lock else { return };
        IS_HELD.set(false);
        let mut state = lock.state();
        state.is_held = false;
        if state.waiting > 0 {
            lock.released.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_waits_gets_the_lock_when_it_is_released() {
        let lock = IdAllocLock::default();
        let held = lock.lock();
        let other = lock.clone();
        let waits = std::thread::spawn(move || other.try_lock_for_a_while().is_some());
        while lock.0.state().waiting == 0 {
            std::thread::yield_now();
        }
        drop(held);
        assert!(waits.join().unwrap());
        assert!(lock.try_lock().is_some(), "the other thread has released it");
    }

    #[test]
    fn a_thread_that_has_the_lock_does_not_wait_for_itself() {
        let lock = IdAllocLock::default();
        let outer = lock.lock();
        assert!(lock.try_lock_for_a_while().is_none());
        drop(lock.lock());
        assert!(lock.0.state().is_held, "the inner guard releases nothing");
        drop(outer);
        assert!(!lock.0.state().is_held && lock.try_lock_for_a_while().is_some());
    }
}

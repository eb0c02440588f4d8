//! Long runs in which memory is counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counts what is in use.
struct Counting;

static LIVE_BYTES: AtomicIsize = AtomicIsize::new(0);

#[expect(unsafe_code, reason = "allocators are")]
// SAFETY: all of it is done by the system's allocator; this only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size().cast_signed(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size().cast_signed(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One soak at a time: all are counted together.
static ONE: Mutex<()> = Mutex::new(());

/// To be held while a soak runs.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs rounds; from the second half on, nothing more may be in use than there was in the first.
pub(crate) fn soak(rounds: u32, mut round: impl FnMut(u32)) {
    let warm_up = rounds / 4;
    let mut early = 0;
    let mut late = 0;
    // The least of each tenth, for people: what rises here for ever is a leak.
    let mut least: Vec<isize> = Vec::new();
    for number in 0..rounds {
        round(number);
        let live = LIVE_BYTES.load(Ordering::Relaxed);
        if number.is_multiple_of((rounds / 10).max(1)) {
            least.push(live);
        }
        if let Some(least) = least.last_mut() {
            *least = live.min(*least);
        }
        // Tables grow by doubling and rings fill up: the most of a stretch of rounds counts.
        if (warm_up..rounds / 2).contains(&number) {
            early = early.max(live);
        } else if number >= rounds - rounds / 4 {
            late = late.max(live);
        }
    }
    let allowed = early + early / 20 + (256 << 10);
    println!("{rounds} rounds: at most {early} bytes at first, {late} at the end; at least {least:?}");
    assert!(late <= allowed, "{early} bytes at first, {late} at the end");
}

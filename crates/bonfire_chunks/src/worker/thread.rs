//! What the threads of a worker do: some read, one writes.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bonfire::Error;
use bonfire::engine::catch_panic;

use super::queue::{Queue, Removed};
use super::request::{Finished, LoadRequest, PANICKED, WriteRequest, cancelled};
use super::statistics::{Outcome, RequestKind};
use crate::{ChunkPos, ChunkWorld};

/// The state that the worker and its threads share.
pub(super) struct Shared {
    pub(super) world: ChunkWorld,
    pub(super) slow_after: Duration,
    queue: Mutex<Queue>,
    /// Wakes reading threads.
    load_ready: Condvar,
    /// Wakes the writing thread.
    write_ready: Condvar,
    /// Wakes those that wait until nothing is left to do.
    idle: Condvar,
}

/// The next work of the writing thread.
enum Write {
    Request(WriteRequest),
    Compaction,
}

impl Shared {
    pub(super) fn new(world: ChunkWorld, queue: Queue, slow_after: Duration) -> Self {
        let (load_ready, write_ready, idle) = Default::default();
        Self { world, slow_after, queue: Mutex::new(queue), load_ready, write_ready, idle }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wake_reader(&self) {
        self.load_ready.notify_one();
    }

    pub(super) fn wake_writer(&self) {
        self.write_ready.notify_one();
    }

    /// Tells all threads that the end has come.
    pub(super) fn wake_all(&self) {
        self.load_ready.notify_all();
        self.write_ready.notify_all();
        self.idle.notify_all();
    }

    /// Waits until nothing is left to do, but not longer than this.
    pub(super) fn wait_until_idle(&self, deadline: Duration) -> bool {
        let waited = self.idle.wait_timeout_while(self.lock(), deadline, |queue| !queue.is_idle());
        waited.unwrap_or_else(PoisonError::into_inner).0.is_idle()
    }

    /// Does loads until the worker ends.
    pub(super) fn read_until_end(&self) {
        while let Some(load) = self.next_load() {
            let (kind, pos, since) = (load.kind, load.pos, load.since);
            let begin = Instant::now();
            let finished = load.run(&self.world);
            self.report(kind, Some(pos), since, begin, &finished);
            self.complete(kind, finished);
            let mut queue = self.lock();
            queue.end_load();
            self.look_for_rest(&mut queue);
        }
    }

    fn next_load(&self) -> Option<LoadRequest> {
        let idle = |queue: &mut Queue| !queue.is_load_ready() && !queue.is_ending;
        let mut queue = self.lock();
        queue.readers_waiting += 1;
        let mut queue = self.load_ready.wait_while(queue, idle).unwrap_or_else(PoisonError::into_inner);
        queue.readers_waiting -= 1;
        queue.take_load()
    }

    /// Saves and compacts until the worker has ended and all saves are done.
    pub(super) fn write_until_end(&self) {
        self.look_for_rest(&mut self.lock());
        while let Some(write) = self.next_write() {
            match write {
                Write::Request(write) => self.write(write),
                Write::Compaction => {
                    self.compact_when_idle();
                    let mut queue = self.lock();
                    queue.is_compacting = false;
                    self.look_for_rest(&mut queue);
                }
            }
        }
    }

    fn next_write(&self) -> Option<Write> {
        let mut queue = self.lock();
        loop {
            if let Some(write) = queue.take_write() {
                return Some(Write::Request(write));
            }
            if queue.is_ending {
                queue.is_compacting = false;
                self.idle.notify_all();
                return None;
            }
            if queue.is_compacting && queue.is_still() {
                return Some(Write::Compaction);
            }
            queue.is_compacting = false;
            queue = self.write_ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn write(&self, write: WriteRequest) {
        let (kind, since) = (write.kind, write.since);
        let begin = Instant::now();
        let finished = write.run(&self.world);
        self.report(kind, None, since, begin, &finished);
        self.complete(kind, finished);
        let mut queue = self.lock();
        let released = queue.end_write();
        self.look_for_rest(&mut queue);
        drop(queue);
        for _ in 0..released {
            self.load_ready.notify_one();
        }
        if kind == RequestKind::Save {
            // However many saves come, the file is compacted. The next one waits for one step at most.
            self.step_compaction();
        }
    }

    /// Compacts the file step by step, while nothing else is to be done.
    fn compact_when_idle(&self) {
        while self.step_compaction() && self.lock().is_still() {}
    }

    /// Does a step of a compaction, if one is due. Returns true if there is more to do.
    fn step_compaction(&self) -> bool {
        catch_panic(PANICKED, || Ok(self.world.step_compaction_or_warn())).unwrap_or(false)
    }

    /// If nothing is left to do, has the writing thread compact the file if that is due, or wakes those that wait for the end
    /// of all work.
    fn look_for_rest(&self, queue: &mut Queue) {
        if !queue.is_still() || queue.is_compacting {
            return;
        }
        if !queue.is_ending && self.world.is_compaction_due() {
            queue.is_compacting = true;
            self.write_ready.notify_one();
        } else {
            self.idle.notify_all();
        }
    }

    /// Counts the outcome of a request, and tells it to the game. The game sees the counts when it sees the outcome.
    fn complete(&self, kind: RequestKind, finished: Finished) {
        let mut queue = self.lock();
        queue.statistics.end(kind, finished.outcome, finished.bytes);
        if matches!(kind, RequestKind::Save | RequestKind::SaveTo) && finished.outcome == Outcome::Done {
            // A save that failed is no reason to wait for the next one.
            queue.last_save = Instant::now();
        }
        drop(queue);
        finished.complete();
    }

    /// Fails requests that were cancelled.
    pub(super) fn drop_cancelled(&self, removed: Removed) {
        self.fail_removed(removed, &cancelled());
        self.load_ready.notify_all();
    }

    /// Fails requests that left the queue undone.
    pub(super) fn fail_removed(&self, removed: Removed, error: &Error) {
        for load in removed.loads {
            let kind = load.kind;
            self.complete(kind, load.fail(error.clone()));
        }
        for write in removed.writes {
            let kind = write.kind;
            self.complete(kind, write.fail(error.clone()));
        }
        self.look_for_rest(&mut self.lock());
    }

    /// Makes an event of a request that failed or was slow.
    fn report(
        &self,
        kind: RequestKind,
        pos: Option<ChunkPos>,
        since: Instant,
        begin: Instant,
        finished: &Finished,
    ) {
        let (took, waited) = (begin.elapsed(), begin.duration_since(since));
        let (request, chunk) = (kind.name(), pos.map(tracing::field::display));
        match (&finished.error, finished.outcome) {
            (Some(error), Outcome::Failed) => {
                tracing::warn!(request, chunk, ?took, ?waited, %error, "a request of a chunk world failed");
            }
            (None, _) if took >= self.slow_after => {
                tracing::info!(request, chunk, ?took, ?waited, "a request of a chunk world was slow");
            }
            _ => {}
        }
    }
}

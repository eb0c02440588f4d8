//! The one thread that does the jobs, and what it shares with those who hand them in.
//!
//! The outcome of a job becomes known in one step: who sees that a handle is complete sees it counted, and sees that the
//! thread is at the next job; who sees that nothing is left sees all handles complete.
//!
//! A saver without a thread has `turns` instead.

use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
#[cfg(not(target_arch = "wasm32"))]
use std::thread;
use std::time::Duration;

use bonfire::Error;

use super::job::{FinishedJob, Job, Outcome};
use super::queue::{JobTarget, Queue, WaitsFor};
use super::status::SaverStatus;
use super::turns::{SLICE_BYTES, Turns};
use crate::blocking::Wait;
use crate::slots::Slots;

/// Tells savers apart.
pub(super) type SaverId = u64;

thread_local! {
    /// Whose thread this is.
    static CURRENT: Cell<Option<SaverId>> = const { Cell::new(None) };
}

/// The saver whose jobs this thread does.
pub(super) fn current() -> Option<SaverId> {
    CURRENT.get()
}

/// Marks this thread as one that does jobs of a saver, until it is dropped.
pub(super) struct Current(Option<SaverId>);

impl Current {
    pub(super) fn enter(saver: SaverId) -> Self {
        Self(CURRENT.replace(Some(saver)))
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Who does the jobs.
pub(super) enum Workforce {
    /// A thread, which is started with the first job.
    #[cfg(not(target_arch = "wasm32"))]
    Thread(Spawn),
    /// Whoever polls the saver.
    Turns(Turns),
}

/// How the thread is started.
#[cfg(not(target_arch = "wasm32"))]
pub(super) type Spawn = fn(Arc<Shared>) -> io::Result<thread::JoinHandle<()>>;

#[cfg(not(target_arch = "wasm32"))]
pub(super) fn spawn(shared: Arc<Shared>) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name("bonfire-saver".to_owned()).spawn(move || shared.work())
}

/// How many jobs may wait, unless the game says otherwise.
const QUEUE_MAX: usize = 64;

/// The permission of a job to wait: the bound of the queue holds for requests, not for their later steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Needed,
    /// The front end has taken the request from the queue, which had admitted it.
    Granted,
}

pub(super) struct Shared {
    pub(super) id: SaverId,
    pub(super) slots: Arc<Slots>,
    state: Mutex<State>,
    changed: Condvar,
    workforce: Workforce,
}

pub(super) struct State {
    pub(super) queue: Queue<Job>,
    /// What is being done.
    running: Option<String>,
    counted: SaverStatus,
    /// Nobody hands jobs in any more.
    closed: bool,
    /// Somebody has waited for as long as they would.
    gave_up: bool,
    #[cfg(not(target_arch = "wasm32"))]
    thread: Option<thread::JoinHandle<()>>,
}

impl State {
    /// Returns true if the thread has nothing to do. What waits for the front end is not its business.
    fn is_idle(&self) -> bool {
        self.queue.len(WaitsFor::Thread) == 0 && self.running.is_none()
    }

    /// Fails if too many requests wait, and counts that.
    fn check_room(&mut self, waits_for: WaitsFor, target: &JobTarget, job: &Job) -> Result<(), Error> {
        if self.queue.has_room(waits_for, target, self.running.is_some()) {
            return Ok(());
        }
        self.counted.refused += 1;
        Err(Error::limit(format!("cannot {}: {} jobs wait already", job.description, self.queue.max())))
    }

    /// Adds a job. Returns the older one whose place it took, to be dropped outside of the lock.
    fn push(&mut self, waits_for: WaitsFor, target: JobTarget, job: Job) -> Option<Job> {
        let older = self.queue.push(waits_for, target, job, Job::replace);
        self.counted.coalesced += u64::from(older.is_some());
        older
    }

    pub(super) fn next(&mut self) -> Option<Job> {
        let job = self.queue.pop()?;
        self.running = Some(job.description.clone());
        Some(job)
    }

    fn count(&mut self, outcome: Outcome) {
        let counted = &mut self.counted;
        match outcome {
            Outcome::DurableSave(durable) => {
                counted.saves += 1;
                counted.bytes += durable.bytes;
                let seconds = durable.seconds.filter(|&seconds| seconds > 0.0);
                counted.bytes_per_second = seconds.map(|seconds| durable.bytes as f64 / seconds);
                counted.last_durable = durable.at;
            }
            Outcome::Appended(durable) => {
                counted.appends += 1;
                counted.bytes += durable.bytes;
                counted.last_durable = durable.at;
            }
            Outcome::SaveFailed(error) => {
                counted.failures += 1;
                counted.last_error = Some(error);
            }
            Outcome::Cancelled => counted.cancelled += 1,
            Outcome::Other => {}
        }
    }
}

/// Drops a job whose handles another one completes. A snapshot may go with it, which takes its time.
fn drop_replaced(older: Option<Job>) {
    if let Some(Job { description, .. }) = older {
        tracing::debug!("{description}: a newer request takes the place of one that waited");
    }
}

impl Shared {
    pub(super) fn new(slots: Slots, workforce: Workforce) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let state = State {
            queue: Queue::new(QUEUE_MAX),
            running: None,
            counted: SaverStatus::default(),
            closed: false,
            gave_up: false,
            #[cfg(not(target_arch = "wasm32"))]
            thread: None,
        };
        let slots = match &workforce {
            Workforce::Turns(_) => slots.in_slices(SLICE_BYTES),
            #[cfg(not(target_arch = "wasm32"))]
            Workforce::Thread(_) => slots,
        };
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            slots: Arc::new(slots),
            state: Mutex::new(state),
            changed: Condvar::new(),
            workforce,
        }
    }

    /// The turns of a saver without a thread.
    pub(super) fn turns(&self) -> Option<&Turns> {
        match &self.workforce {
            Workforce::Turns(turns) => Some(turns),
            #[cfg(not(target_arch = "wasm32"))]
            Workforce::Thread(_) => None,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_queue_max(&self, jobs: usize) {
        self.lock().queue.set_max(jobs);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.lock().is_idle()
    }

    pub(super) fn status(&self) -> SaverStatus {
        let state = self.lock();
        SaverStatus {
            queued: state.queue.len(WaitsFor::Thread),
            requested: state.queue.len(WaitsFor::FrontEnd),
            running: state.running.clone(),
            ..state.counted.clone()
        }
    }

    /// Adds a request that waits for the front end. Returns it if too many wait.
    pub(super) fn request(&self, target: JobTarget, job: Job) -> Result<(), (Job, Error)> {
        let mut state = self.lock();
        if let Err(error) = state.check_room(WaitsFor::FrontEnd, &target, &job) {
            return Err((job, error));
        }
        let older = state.push(WaitsFor::FrontEnd, target, job);
        drop(state);
        drop_replaced(older);
        Ok(())
    }

    /// Adds a job for the thread. It is never waited for. If it cannot be done, its handles say why.
    pub(super) fn submit(self: &Arc<Self>, target: JobTarget, job: Job, admission: Admission) {
        job.saves.iter().for_each(|promise| promise.enter_queue(self));
        let mut state = self.lock();
        if let Err(error) = self.start(&mut state) {
            drop(state);
            let error = Error::io("cannot start the thread that saves", error);
            return self.end(job, &error, State::count);
        }
        // A new request is a new reason to wait for the end.
        state.gave_up = false;
        if admission == Admission::Needed
            && let Err(error) = state.check_room(WaitsFor::Thread, &target, &job)
        {
            drop(state);
            return self.end(job, &error, |_, _| {});
        }
        let older = state.push(WaitsFor::Thread, target, job);
        drop(state);
        drop_replaced(older);
        match self.turns() {
            Some(turns) => turns.alarm.ring(),
            None => self.changed.notify_all(),
        }
    }

    #[cfg(target_arch = "wasm32")]
    fn start(&self, _: &mut State) -> io::Result<()> {
        Ok(())
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn start(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        if let (Workforce::Thread(spawn), None) = (&self.workforce, &state.thread) {
            state.thread = Some(spawn(self.clone())?);
        }
        Ok(())
    }

    /// Ends a job that is not done.
    fn end(&self, job: Job, error: &Error, count: impl FnOnce(&mut State, Outcome)) {
        // Nothing is waited for: no store is called.
        let Ok(ended) = async { Ok(job.run(Err(error.clone())).await) }.wait() else { return };
        let mut state = self.lock();
        count(&mut state, ended.outcome);
        let wake = (ended.complete)();
        drop(state);
        wake();
    }

    /// What the thread does, until nobody hands jobs in any more and none is left.
    #[cfg(not(target_arch = "wasm32"))]
    fn work(&self) {
        let _current = Current::enter(self.id);
        loop {
            while let Some(job) = { self.lock().next() } {
                let slots = Ok(self.slots.clone());
                if let Ok(ended) = async { Ok(job.run(slots).await) }.wait() {
                    self.conclude(ended);
                }
            }
            let nothing = |state: &mut State| state.queue.len(WaitsFor::Thread) == 0 && !state.closed;
            let state = self.changed.wait_while(self.lock(), nothing).unwrap_or_else(PoisonError::into_inner);
            if state.queue.len(WaitsFor::Thread) == 0 {
                return;
            }
        }
    }

    /// Makes the outcome of a job known.
    pub(super) fn conclude(&self, ended: FinishedJob) {
        let mut state = self.lock();
        state.running = None;
        state.count(ended.outcome);
        let wake = (ended.complete)();
        drop(state);
        self.changed.notify_all();
        // Wakers are code of others, and the next job is none of their business.
        if catch_unwind(AssertUnwindSafe(wake)).is_err() {
            tracing::debug!("a waker panicked");
        }
    }

    pub(super) fn finish(&self, deadline: Duration) -> bool {
        if current() == Some(self.id) {
            return self.is_idle();
        }
        if self.turns().is_some() {
            let done = self.drive(deadline, || self.is_idle());
            self.lock().gave_up = !done;
            return done;
        }
        let busy = |state: &mut State| !state.is_idle();
        let waited = self.changed.wait_timeout_while(self.lock(), deadline, busy);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let done = state.is_idle();
        state.gave_up = !done;
        done
    }

    /// Nobody hands jobs in any more. Waits until all are done, unless somebody has waited long enough, or unless this is
    /// the thread that does them.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let waits = !state.gave_up && current() != Some(self.id);
        #[cfg(not(target_arch = "wasm32"))]
        let thread = state.thread.take().filter(|_| waits);
        drop(state);
        self.changed.notify_all();
        if waits && self.turns().is_some() {
            self.drive(Duration::MAX, || self.is_idle());
        }
        #[cfg(not(target_arch = "wasm32"))]
        if let Some(thread) = thread {
            // It catches the panics of its jobs.
            let _ = thread.join();
        }
    }
}

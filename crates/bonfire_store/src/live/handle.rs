//! The two ends of a request: a [`Handle`] for the caller, a [`Promise`] for the code that does the work.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bonfire::{Error, Result};

use super::status::SaveReport;
use super::worker;
use crate::progress::{Phase, Progress, ProgressReporter};
use crate::slots::LoadedSave;

/// Follows a save.
pub type SaveHandle = Handle<SaveReport>;
/// Follows a load.
pub type LoadHandle = Handle<LoadedSave>;

/// Follows a request. It is complete when the outcome is final: a save when its bytes are durable, or when it failed.
///
/// Look at it every frame, [`wait`](Self::wait) for it, or `.await` it. Clones follow the same request, and dropping all
/// of them changes nothing: what was asked for is done.
pub struct Handle<T> {
    shared: Arc<Shared<T>>,
    /// Which of the handles of the request this is: each is awaited by somebody else.
    number: u64,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    cancelled: AtomicBool,
    handles: AtomicU64,
}

struct State<T> {
    result: Option<Result<T>>,
    started: bool,
    /// The work that has begun changes nothing, so that it may be stopped.
    can_stop: bool,
    /// Whose queue it is in.
    saver: Option<worker::SaverId>,
    /// That saver, if it has no thread.
    turns: Option<Weak<worker::Shared>>,
    reporter: ProgressReporter,
    wakers: BTreeMap<u64, Waker>,
    /// The threads that sleep until there is a result. Without one, nothing is woken: that would be a call of the system.
    sleeping: usize,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> State<T> {
    /// Why a thread that does nothing else would wait for ever.
    fn hopeless(&self) -> Option<Error> {
        if !self.started {
            return Some(Error::misuse(
                "this was not begun yet, and cannot be while its thread waits: let the frame end first, or look at the handle every frame",
            ));
        }
        if self.saver.is_some() && self.saver == worker::current() {
            return Some(Error::misuse("a job of a saver cannot wait for a later job of the same one"));
        }
        if cfg!(target_arch = "wasm32") && self.turns.is_none() {
            return Some(cannot_wait());
        }
        None
    }

    /// The saver that does this, if it has no thread.
    fn turns(&self) -> Option<Arc<worker::Shared>> {
        self.turns.as_ref()?.upgrade()
    }
}

impl<T: Clone> Handle<T> {
    /// Whether the outcome is final.
    pub fn is_complete(&self) -> bool {
        self.shared.lock().result.is_some()
    }

    /// The outcome, once it is final.
    pub fn result(&self) -> Option<Result<T>> {
        self.shared.lock().result.clone()
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let state = self.shared.lock();
        let progress = state.reporter.get();
        match &state.result {
            Some(_) => Progress::new(Phase::Done, progress.total, progress.total),
            None => progress,
        }
    }

    /// Blocks until the outcome is final. An error at once if nobody has [started](Promise::start) it: whoever would is
    /// perhaps the one who waits. The same inside of a job of the saver that has it in its queue.
    ///
    /// If the saver has no thread, this call does its jobs, up to this one. In a browser nothing can be waited for: the
    /// result is an error if a store answers later. There, `.await` the handle or look at it every frame.
    pub fn wait(&self) -> Result<T> {
        let mut state = self.shared.lock();
        if let Some(result) = &state.result {
            return result.clone();
        }
        if let Some(error) = state.hopeless() {
            return Err(error);
        }
        if let Some(saver) = state.turns() {
            drop(state);
            saver.drive(Duration::MAX, || self.is_complete());
            return self.result().unwrap_or_else(|| Err(cannot_wait()));
        }
        let pending = |state: &mut State<T>| state.result.is_none();
        state.sleeping += 1;
        let waited = self.shared.changed.wait_while(state, pending);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.sleeping -= 1;
        state.result.clone().unwrap_or_else(|| Err(given_up()))
    }

    /// Blocks until the outcome is final, or until the time has passed: then `None`. Where [`wait`](Self::wait) would be an
    /// error, `None` at once.
    pub fn wait_timeout(&self, time: Duration) -> Option<Result<T>> {
        let mut state = self.shared.lock();
        if state.result.is_some() || state.hopeless().is_some() {
            return state.result.clone();
        }
        if let Some(saver) = state.turns() {
            drop(state);
            saver.drive(time, || self.is_complete());
            return self.result();
        }
        let pending = |state: &mut State<T>| state.result.is_none();
        state.sleeping += 1;
        let waited = self.shared.changed.wait_timeout_while(state, time, pending);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.sleeping -= 1;
        state.result.clone()
    }

    /// Asks that it not be done. A request that has not begun is not done, and completes with [`Error::is_cancelled`] when
    /// its turn comes. A load that has begun ends soon, with the same error. A save or an append that has begun is finished,
    /// and so is a save that an older request waits for too.
    pub fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::Relaxed);
        let state = self.shared.lock();
        if state.can_stop {
            state.reporter.watch().cancel();
        }
    }

    /// Whether somebody asked that it not be done. It may be done all the same: see the result.
    pub fn is_cancelled(&self) -> bool {
        self.shared.cancelled.load(Ordering::Relaxed)
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        let number = self.shared.handles.fetch_add(1, Ordering::Relaxed);
        Self { shared: self.shared.clone(), number }
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        // Not under the lock: with a waker goes whatever it would have woken.
        let waker = self.shared.lock().wakers.remove(&self.number);
        drop(waker);
    }
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        let outcome = match &state.result {
            Some(Ok(_)) => "done",
            Some(Err(_)) => "failed",
            None => "pending",
        };
        f.debug_struct("Handle").field("outcome", &outcome).field("progress", &state.reporter.get()).finish()
    }
}

impl<T: Clone> IntoFuture for Handle<T> {
    type Output = Result<T>;
    type IntoFuture = HandleFuture<T>;

    fn into_future(self) -> HandleFuture<T> {
        HandleFuture(self)
    }
}

impl<T: Clone> IntoFuture for &Handle<T> {
    type Output = Result<T>;
    type IntoFuture = HandleFuture<T>;

    fn into_future(self) -> HandleFuture<T> {
        HandleFuture(self.clone())
    }
}

/// Awaits the outcome of a request: what `handle.await` is.
pub struct HandleFuture<T>(Handle<T>);

impl<T: Clone> Future for HandleFuture<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let handle = &self.0;
        let mut state = handle.shared.lock();
        if let Some(result) = &state.result {
            return Poll::Ready(result.clone());
        }
        let before = state.wakers.insert(handle.number, context.waker().clone());
        drop(state);
        drop(before);
        Poll::Pending
    }
}

/// The other end of a [`Handle`], for front ends that give handles out before they can capture anything. A promise that is
/// dropped completes its handle with an error.
///
/// ```
/// use bonfire_store::engine::Promise;
///
/// let (promise, handle) = Promise::new();
/// assert!(handle.wait().is_err(), "nobody has begun: this would wait for ever");
/// promise.start();
/// promise.complete(Ok(7));
/// assert_eq!(handle.wait()?, 7);
/// # Ok::<(), bonfire::Error>(())
/// ```
pub struct Promise<T> {
    /// `None` once it is kept.
    shared: Option<Arc<Shared<T>>>,
}

/// What is left to do when the outcome is known to all who look: who sleeps is woken.
#[must_use]
pub(super) struct CompletedPromise<T> {
    wakers: BTreeMap<u64, Waker>,
    /// What nobody asks for any more is dropped with it.
    _shared: Option<Arc<Shared<T>>>,
}

impl<T> CompletedPromise<T> {
    pub(super) fn wake(self) {
        self.wakers.into_values().for_each(Waker::wake);
    }
}

impl<T> Promise<T> {
    /// A promise that was not started, and its handle.
    pub fn new() -> (Self, Handle<T>) {
        let state = State {
            result: None,
            started: false,
            can_stop: false,
            saver: None,
            turns: None,
            reporter: ProgressReporter::default(),
            wakers: BTreeMap::new(),
            sleeping: 0,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            cancelled: AtomicBool::new(false),
            handles: AtomicU64::new(1),
        });
        (Self { shared: Some(shared.clone()) }, Handle { shared, number: 0 })
    }

    /// Returns another handle of the same request.
    pub fn handle(&self) -> Handle<T> {
        match &self.shared {
            Some(shared) => {
                let number = shared.handles.fetch_add(1, Ordering::Relaxed);
                Handle { shared: shared.clone(), number }
            }
            None => unreachable!("a promise is kept by giving it away"),
        }
    }

    /// Marks the work as started: from now on, callers may block on the handle.
    pub fn start(&self) {
        self.edit(|state| state.started = true);
    }

    /// Sets the progress that the handle shows.
    pub fn set_progress(&self, progress: Progress) {
        self.reporter().set(progress);
    }

    /// Returns true if a handle was [cancelled](Handle::cancel).
    pub fn is_cancelled(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.cancelled.load(Ordering::Relaxed))
    }

    /// Completes the handles with an outcome.
    pub fn complete(self, result: Result<T>) {
        self.settle(result).wake();
    }

    /// Returns a reporter for code that has no promise, such as a decoder.
    pub fn reporter(&self) -> ProgressReporter {
        self.edit(|state| state.reporter.clone()).unwrap_or_default()
    }

    /// From now on a cancelled handle stops the work that counts in the watch of the reporter. Not for saves: several
    /// requests may wait for one, and what was written stays.
    pub(super) fn allow_stop(&self) {
        self.edit(|state| state.can_stop = true);
        if self.is_cancelled() {
            self.reporter().watch().cancel();
        }
    }

    /// From now on it is as far as another request is.
    pub(super) fn follow(&self, reporter: ProgressReporter) {
        self.edit(|state| state.reporter = reporter);
    }

    /// Starts it as a job of a saver.
    pub(super) fn enter_queue(&self, saver: &Arc<worker::Shared>) {
        let turns = saver.turns().map(|_| Arc::downgrade(saver));
        self.edit(|state| (state.started, state.saver, state.turns) = (true, Some(saver.id), turns));
    }

    fn edit<R>(&self, edit: impl FnOnce(&mut State<T>) -> R) -> Option<R> {
        self.shared.as_ref().map(|shared| edit(&mut shared.lock()))
    }

    /// Tells the outcome to all who look. Who sleeps is woken by what is returned, outside of all locks.
    pub(super) fn settle(mut self, result: Result<T>) -> CompletedPromise<T> {
        self.settle_now(result)
    }

    fn settle_now(&mut self, result: Result<T>) -> CompletedPromise<T> {
        let shared = self.shared.take();
        let wakers = shared.as_ref().map(|shared| {
            let mut state = shared.lock();
            state.result = Some(result);
            if state.sleeping > 0 {
                shared.changed.notify_all();
            }
            std::mem::take(&mut state.wakers)
        });
        CompletedPromise { wakers: wakers.unwrap_or_default(), _shared: shared }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        if self.shared.is_some() {
            self.settle_now(Err(given_up())).wake();
        }
    }
}

impl<T> fmt::Debug for Promise<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Promise").field("progress", &self.reporter().get()).finish()
    }
}

fn given_up() -> Error {
    Error::custom("given up: whoever was to do this did not")
}

fn cannot_wait() -> Error {
    Error::misuse("a browser cannot wait: use `.await`, or look at the handle every frame")
}

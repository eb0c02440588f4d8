//! Calls from anywhere, done one after the other by a task on the thread that owns the objects of the browser.
//!
//! The handle is `Send` and `Sync`, and so is what a call waits for. The work itself never leaves the thread.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use bonfire::{Error, Result};

type Work<D> = Box<dyn FnOnce(Rc<D>) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// The handle of a local task that has a `D`. When the last clone is dropped, the task does what waits, and ends.
pub(crate) struct Mailbox<D>(Arc<Handle<D>>);

struct Handle<D>(Arc<Shared<D>>);

struct Shared<D>(Mutex<State<D>>);

struct State<D> {
    waiting: VecDeque<Work<D>>,
    task: Option<Waker>,
    is_over: bool,
}

impl<D> Clone for Mailbox<D> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<D> Shared<D> {
    fn lock(&self) -> MutexGuard<'_, State<D>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, change: impl FnOnce(&mut State<D>)) {
        let mut state = self.lock();
        change(&mut state);
        let task = state.task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
    }

    /// The next work. `None`: nobody asks any more.
    async fn next(&self) -> Option<Work<D>> {
        poll_fn(|context| {
            let mut state = self.lock();
            match state.waiting.pop_front() {
                Some(work) => Poll::Ready(Some(work)),
                None if state.is_over => Poll::Ready(None),
                None => {
                    state.task = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl<D> Drop for Handle<D> {
    fn drop(&mut self) {
        self.0.wake(|state| state.is_over = true);
    }
}

impl<D: 'static> Mailbox<D> {
    /// Starts the task. `end` gets what it had.
    pub(crate) fn new(of_browser: D, end: impl FnOnce(&D) + 'static) -> Self {
        let state = State { waiting: VecDeque::new(), task: None, is_over: false };
        let shared = Arc::new(Shared(Mutex::new(state)));
        let mailbox = Self(Arc::new(Handle(shared.clone())));
        wasm_bindgen_futures::spawn_local(async move {
            let of_browser = Rc::new(of_browser);
            while let Some(work) = shared.next().await {
                work(of_browser.clone()).await;
            }
            end(&of_browser);
        });
        mailbox
    }

    /// Has the task do some work after everything that was asked for before. The work is done even if nothing waits for it.
    pub(crate) fn call<T, F>(
        &self,
        work: impl FnOnce(Rc<D>) -> F + Send + 'static,
    ) -> Pin<Box<dyn Future<Output = Result<T>> + Send>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + 'static,
    {
        let answer = Answer::new();
        let told = answer.clone();
        let work: Work<D> = Box::new(move |of_browser| {
            let done = work(of_browser);
            Box::pin(async move { told.set(done.await) })
        });
        self.0.0.wake(|state| state.waiting.push_back(work));
        Box::pin(answer.get())
    }
}

/// The answer to a call.
struct Answer<T>(Arc<Mutex<(Option<Result<T>>, Option<Waker>)>>);

impl<T> Clone for Answer<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Send> Answer<T> {
    fn new() -> Self {
        Self(Arc::new(Mutex::new((None, None))))
    }

    fn set(&self, result: Result<T>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = Some(result);
        let waker = state.1.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    async fn get(self) -> Result<T> {
        poll_fn(|context| {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match state.0.take() {
                Some(result) => Poll::Ready(result),
                None if Arc::strong_count(&self.0) == 1 => {
                    Poll::Ready(Err(Error::cancelled("the task of the store has ended")))
                }
                None => {
                    state.1 = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

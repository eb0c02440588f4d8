//! Events of the browser as futures, and its errors.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{Error as IoError, ErrorKind};
use std::rc::Rc;
use std::task::{Poll, Waker};

use bonfire::{Error, Result};
use wasm_bindgen::prelude::*;

use crate::binding::{Exception, Request, Transaction};

/// An outcome that a handler of an event will set.
pub(crate) struct Outcome<T>(Rc<RefCell<(Option<T>, Option<Waker>)>>);

impl<T> Clone for Outcome<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Outcome<T> {
    pub(crate) fn new() -> Self {
        Self(Rc::new(RefCell::new((None, None))))
    }

    /// Sets it. Only the first one counts.
    pub(crate) fn set(&self, outcome: T) {
        let mut state = self.0.borrow_mut();
        state.0.get_or_insert(outcome);
        let waker = state.1.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) async fn get(&self) -> T {
        poll_fn(|context| {
            let mut state = self.0.borrow_mut();
            match state.0.take() {
                Some(outcome) => Poll::Ready(outcome),
                None => {
                    state.1 = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

/// Returns a handler that is called once or more.
pub(crate) fn handler(work: impl FnMut(JsValue) + 'static) -> Closure<dyn FnMut(JsValue)> {
    Closure::new(work)
}

/// Waits for a request.
pub(crate) async fn finished(request: &Request) -> Result<JsValue> {
    let outcome = Outcome::new();
    let (succeeded, failed) = (outcome.clone(), outcome.clone());
    let on_success = handler(move |_| succeeded.set(true));
    let on_error = handler(move |_| failed.set(false));
    request.set_on_success(on_success.as_ref());
    request.set_on_error(on_error.as_ref());
    // Its event may have been while something else was waited for. Without an error it has a result then.
    if request.ready_state() == "done" {
        outcome.set(request.request_error().is_ok_and(|error| error.is_null()));
    }
    let is_done = outcome.get().await;
    request.set_on_success(&JsValue::NULL);
    request.set_on_error(&JsValue::NULL);
    match is_done {
        true => request.result().map_err(|error| of_browser("read a result", &error)),
        false => {
            let error = request.request_error().unwrap_or_else(|error| error);
            Err(of_browser("use the browser's storage", &error))
        }
    }
}

/// Follows a transaction to its end. It must be made before the requests of the transaction, so that it misses no event.
pub(crate) struct Completion {
    transaction: Transaction,
    outcome: Outcome<bool>,
    _handlers: [Closure<dyn FnMut(JsValue)>; 2],
}

impl Completion {
    pub(crate) fn of(transaction: &Transaction) -> Self {
        let outcome = Outcome::new();
        let (completed, aborted) = (outcome.clone(), outcome.clone());
        let on_complete = handler(move |_| completed.set(true));
        let on_abort = handler(move |_| aborted.set(false));
        transaction.set_on_complete(on_complete.as_ref());
        transaction.set_on_abort(on_abort.as_ref());
        Self { transaction: transaction.clone(), outcome, _handlers: [on_complete, on_abort] }
    }

    /// Waits until everything that the transaction has changed is durable.
    pub(crate) async fn wait(self) -> Result<()> {
        let is_complete = self.outcome.get().await;
        self.transaction.set_on_complete(&JsValue::NULL);
        self.transaction.set_on_abort(&JsValue::NULL);
        match is_complete {
            true => Ok(()),
            false => Err(of_browser("save in the browser's storage", &self.transaction.error())),
        }
    }
}

/// An error of the browser. [`Error::is_io`] holds for all of them, and the kind tells if the storage is full.
pub(crate) fn of_browser(what: &str, error: &JsValue) -> Error {
    let text = |value: JsValue| value.as_string().unwrap_or_default();
    let (name, message) = match error.is_object() {
        true => {
            let exception: &Exception = error.unchecked_ref();
            (text(exception.name()), text(exception.message()))
        }
        false => (String::new(), error.as_string().unwrap_or_else(|| "no reason was given".to_owned())),
    };
    let kind = match &*name {
        "QuotaExceededError" => ErrorKind::StorageFull,
        "NotFoundError" => ErrorKind::NotFound,
        "SecurityError" | "NotAllowedError" => ErrorKind::PermissionDenied,
        _ => ErrorKind::Other,
    };
    let text = match name.is_empty() {
        true => message,
        false => format!("{name}: {message}"),
    };
    Error::io(format_args!("cannot {what}"), IoError::new(kind, text))
}

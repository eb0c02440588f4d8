//! One request, and how it is done. Whatever happens, its handles are completed.

use std::any::Any;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use bonfire::engine::catch_panic;
use bonfire::{Error, Note, Result};

use super::append::AppendJob;
use super::handle::{CompletedPromise, Promise};
use super::save::{CapturedSave, DurableSave};
use super::status::SaveReport;
use super::worker::Shared;
use crate::journal::AppendReport;
use crate::progress::ProgressReporter;
use crate::slots::Slots;

/// A request.
pub(super) struct Job {
    /// A verb and its target, for status displays and messages.
    pub(super) description: String,
    /// The requests for saves that it completes, oldest first. The last one is its own; it took the place of the others.
    pub(super) saves: Vec<Promise<SaveReport>>,
    /// The condition that must hold before it is done.
    pub(super) requirement: Option<Requirement>,
    pub(super) work: Work,
}

/// Waits until a save may be written: another part of it, in another file, is durable. An error fails the save.
pub type Requirement = Box<dyn FnOnce() -> Result<()> + Send>;

pub(super) enum Work {
    /// The front end's part comes first. This is what it needs for that.
    FrontEnd(Box<dyn Any + Send>),
    Save(Box<CapturedSave>),
    Append(Box<AppendJob>),
    Other(Step),
}

/// Work that is not looked into. It is given the slots, or why it is not to be done.
pub(super) type Step = Box<dyn FnOnce(Result<Arc<Slots>>) -> JobFuture + Send>;

/// A job that is being done.
pub(super) type JobFuture = Pin<Box<dyn Future<Output = FinishedJob> + Send>>;

/// Completes all handles of a job. What it returns wakes those who sleep, outside of all locks.
pub(super) type CompleteFn = Box<dyn FnOnce() -> Box<dyn FnOnce()>>;

/// A job that was done, and whose handles do not know it yet.
pub(super) struct FinishedJob {
    pub(super) complete: CompleteFn,
    pub(super) outcome: Outcome,
}

/// What counts.
pub(super) enum Outcome {
    DurableSave(DurableSave),
    /// So many bytes were appended to a journal.
    Appended(DurableSave),
    SaveFailed(Error),
    Cancelled,
    Other,
}

impl Outcome {
    fn of_failed_save(error: &Error) -> Self {
        if error.is_cancelled() { Self::Cancelled } else { Self::SaveFailed(error.clone()) }
    }
}

impl Job {
    /// Does it, or ends it with an error.
    pub(super) async fn run(self, slots: Result<Arc<Slots>>) -> FinishedJob {
        let Self { saves, requirement, work, .. } = self;
        let slots = match requirement {
            Some(requirement) if slots.is_ok() && !are_cancelled(&saves) => {
                catch_panic("a part of this save panicked", requirement).and(slots)
            }
            _ => slots,
        };
        match work {
            Work::FrontEnd(_) => {
                let uncaptured = || Error::misuse("the front end has not done its part yet");
                finish_saves(saves, Err(slots.err().unwrap_or_else(uncaptured)))
            }
            Work::Save(save) => {
                let is_cancelled = are_cancelled(&saves);
                let reporter = saves.last().map(Promise::reporter).unwrap_or_default();
                let work = |slots: Arc<Slots>| async move { save.save(&slots, &reporter).await };
                let saved = attempt(slots, is_cancelled, work).await;
                finish_saves(saves, saved)
            }
            Work::Append(append) => {
                let AppendJob { base, delta, promise } = *append;
                let reporter = promise.reporter();
                let (delta, append) = (&delta, &reporter);
                let work = |slots: Arc<Slots>| async move { base.append(delta, &slots, append).await };
                let result = attempt(slots, promise.is_cancelled(), work).await;
                finish_append(promise, saves, result, delta.notes().to_vec())
            }
            Work::Other(step) => step(slots).await,
        }
    }

    /// Takes the place of an older save: its handles complete with this one, and are as far as this one is.
    pub(super) fn replace(&mut self, older: &mut Self) {
        self.saves.splice(0..0, older.saves.drain(..));
        let reporter = self.saves.last().map(Promise::reporter).unwrap_or_default();
        self.saves.iter().for_each(|promise| promise.follow(reporter.clone()));
    }
}

/// Returns true if a save has handles, and all of them were cancelled.
pub(super) fn are_cancelled(saves: &[Promise<SaveReport>]) -> bool {
    !saves.is_empty() && saves.iter().all(Promise::is_cancelled)
}

/// Does the work of a job, unless there is a reason not to. A panic of a store, a codec or the game's own code is an error of
/// the one job.
async fn attempt<T, F: Future<Output = Result<T>>>(
    slots: Result<Arc<Slots>>,
    is_cancelled: bool,
    work: impl FnOnce(Arc<Slots>) -> F,
) -> Result<T> {
    let slots = slots?;
    if is_cancelled {
        return Err(Error::cancelled("cancelled before it began"));
    }
    let what = "this request panicked";
    let mut work = pin!(catch_panic(what, || Ok(work(slots)))?);
    std::future::poll_fn(|context| {
        let polled = catch_panic(what, || Ok(work.as_mut().poll(context)));
        polled.unwrap_or_else(|panic| Poll::Ready(Err(panic)))
    })
    .await
}

fn finish_saves(
    mut saves: Vec<Promise<SaveReport>>,
    saved: Result<(SaveReport, DurableSave)>,
) -> FinishedJob {
    let outcome = match &saved {
        Ok((_, durable)) => Outcome::DurableSave(*durable),
        Err(error) => Outcome::of_failed_save(error),
    };
    let result = saved.map(|(report, _)| report);
    let complete = move || {
        let newest = saves.pop().map(|promise| promise.settle(result.clone()));
        let result = result.map(|report| SaveReport { coalesced: true, ..report });
        let mut completed: Vec<_> = saves.into_iter().map(|promise| promise.settle(result.clone())).collect();
        completed.extend(newest);
        Box::new(move || completed.into_iter().for_each(CompletedPromise::wake)) as Box<dyn FnOnce()>
    };
    FinishedJob { complete: Box::new(complete), outcome }
}

fn finish_append(
    promise: Promise<AppendReport>,
    saves: Vec<Promise<SaveReport>>,
    appended: Result<AppendReport>,
    notes: Vec<Note>,
) -> FinishedJob {
    let outcome = match &appended {
        Ok(appended) => Outcome::Appended(DurableSave::now(appended.bytes)),
        Err(error) => Outcome::of_failed_save(error),
    };
    let report = appended.as_ref().map(|appended| SaveReport::of_append(appended, notes));
    let report = report.map_err(Error::clone);
    let complete = move || {
        let appended = promise.settle(appended);
        let saved: Vec<_> = saves.into_iter().map(|promise| promise.settle(report.clone())).collect();
        let wake = move || {
            appended.wake();
            saved.into_iter().for_each(CompletedPromise::wake);
        };
        Box::new(wake) as Box<dyn FnOnce()>
    };
    FinishedJob { complete: Box::new(complete), outcome }
}

/// Work for a promise, which enters the queue of a saver.
pub(super) fn step<T, F>(
    saver: &Arc<Shared>,
    promise: Promise<T>,
    work: impl FnOnce(Arc<Slots>, ProgressReporter) -> F + Send + 'static,
) -> Step
where
    T: Clone + Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    promise.enter_queue(saver);
    Box::new(move |slots| {
        Box::pin(async move {
            let reporter = promise.reporter();
            let result = attempt(slots, promise.is_cancelled(), |slots| work(slots, reporter)).await;
            finish_step(promise, result)
        })
    })
}

fn finish_step<T: Clone + Send + 'static>(promise: Promise<T>, result: Result<T>) -> FinishedJob {
    let outcome = match &result {
        Err(error) if error.is_cancelled() => Outcome::Cancelled,
        _ => Outcome::Other,
    };
    let complete = move || {
        let completed = promise.settle(result);
        Box::new(move || completed.wake()) as Box<dyn FnOnce()>
    };
    FinishedJob { complete: Box::new(complete), outcome }
}

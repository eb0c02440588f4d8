//! A delta on its way to the journal of a save.

use bonfire::{Delta, Error, Result};
use tracing::debug_span;

use super::handle::{CompletedPromise, Promise, SaveHandle};
use super::job::{DurableSave, FinishedJob, Outcome, Step, cancelled, catch_panic};
use super::status::SaveReport;
use crate::blocking::block_on;
use crate::journal::{AppendReport, JournalBase};
use crate::progress::{Phase, Progress, ProgressReporter};
use crate::slots::Slots;

/// A delta that goes to the journal of a save.
pub(super) struct AppendJob {
    pub(super) base: AppendTo,
    pub(super) delta: Delta,
    pub(super) promise: Promise<AppendReport>,
    /// Of saves for which what has changed is enough.
    pub(super) saves: Vec<Promise<SaveReport>>,
}

/// The save whose journal a delta goes to.
pub(super) enum AppendTo {
    DurableSave(JournalBase),
    Requested(RequestedSave),
}

/// A requested save whose journal deltas may be appended to. It need not be durable yet.
#[derive(Clone, Debug)]
pub struct RequestedSave {
    /// The slot of the save.
    pub slot: String,
    /// The save.
    pub save: SaveHandle,
    /// The tick of the capture, counted as the deltas count.
    pub tick: u64,
}

impl AppendTo {
    pub(super) fn slot(&self) -> &str {
        match self {
            Self::DurableSave(base) => &base.slot,
            Self::Requested(save) => &save.slot,
        }
    }

    /// The save, if it is durable and the one that was asked for.
    fn base(self) -> Result<JournalBase> {
        let RequestedSave { save, tick, .. } = match self {
            Self::DurableSave(base) => return Ok(base),
            Self::Requested(save) => save,
        };
        match save.result() {
            Some(Ok(report)) => report.journal_base(tick).ok_or_else(|| {
                Error::conflict("another save has taken the place of the one that this continues")
            }),
            Some(Err(error)) => {
                Err(Error::conflict(format!("the save that this continues has failed: {error}")))
            }
            None => Err(Error::misuse("the save that this continues must be asked for before it")),
        }
    }
}

impl AppendJob {
    fn append(
        base: AppendTo,
        delta: &Delta,
        slots: &Slots,
        reporter: &ProgressReporter,
    ) -> Result<AppendReport> {
        let span =
            debug_span!("bonfire.append", slot = base.slot(), since = delta.since(), now = delta.now());
        let _in_span = span.enter();
        reporter.set(Progress::new(Phase::Writing, 0, 0));
        block_on(slots.append(&base.base()?, delta))
    }

    pub(super) fn step(self) -> Step {
        Box::new(move |turn| {
            let Self { base, delta, promise, saves } = self;
            let result = match turn {
                Ok(_) if promise.is_cancelled() => Err(cancelled()),
                Ok(slots) => catch_panic(|| Self::append(base, &delta, slots, &promise.reporter())),
                Err(error) => Err(error),
            };
            let outcome = match &result {
                Ok(appended) => Outcome::Appended(DurableSave::now(appended.bytes)),
                Err(error) if error.is_cancelled() => Outcome::Cancelled,
                Err(error) => Outcome::SaveFailed(error.clone()),
            };
            let report = result.as_ref().map(SaveReport::of_append).map_err(Error::clone);
            let settle = move || {
                let settled = promise.settle(result);
                let reported: Vec<_> =
                    saves.into_iter().map(|promise| promise.settle(report.clone())).collect();
                let wake = move || {
                    settled.wake();
                    reported.into_iter().for_each(CompletedPromise::wake);
                };
                Box::new(wake) as Box<dyn FnOnce()>
            };
            FinishedJob { settle: Box::new(settle), outcome }
        })
    }
}

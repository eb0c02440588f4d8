//! A delta on its way to the journal of a save.

use std::sync::Arc;

use bonfire::{Delta, Error, Result};
use tracing::{Instrument, debug_span};

use super::handle::{Handle, Promise, SaveHandle};
use super::job::{Job, Work};
use super::queue::JobTarget;
use super::status::SaveReport;
use super::target::SaveTarget;
use super::worker::Shared;
use crate::journal::{AppendReport, JournalBase};
use crate::progress::{Phase, Progress, ProgressReporter};
use crate::slots::Slots;

/// A delta that goes to the journal of a save.
pub(super) struct AppendJob {
    pub(super) base: AppendTo,
    pub(super) delta: Delta,
    pub(super) promise: Promise<AppendReport>,
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

    /// Appends a delta to the journal of the save.
    pub(super) async fn append(
        self,
        delta: &Delta,
        slots: &Slots,
        reporter: &ProgressReporter,
    ) -> Result<AppendReport> {
        let span =
            debug_span!("bonfire.append", slot = self.slot(), since = delta.since(), now = delta.now());
        reporter.set(Progress::new(Phase::Writing, 0, 0));
        async { slots.append(&self.base()?, delta).await }.instrument(span).await
    }
}

/// The job that appends a delta. It also completes saves for which the delta is enough.
pub(super) fn append_job(
    saver: &Arc<Shared>,
    base: AppendTo,
    delta: Delta,
    saves: Vec<Promise<SaveReport>>,
) -> (JobTarget, Job, Handle<AppendReport>) {
    let (promise, handle) = Promise::new();
    promise.enter_queue(saver);
    let slot = base.slot().to_owned();
    let description = format!("append to slot `{slot}`");
    let work = Work::Append(Box::new(AppendJob { base, delta, promise }));
    (JobTarget::Other(SaveTarget::Slot(slot)), Job { description, saves, requirement: None, work }, handle)
}

//! A captured world on its way to a durable save.

use std::time::SystemTime;

use bonfire::{EncodeOptions, Result, Snapshot};
use tracing::{Instrument, debug_span, field, info_span, warn};

use super::handle::Promise;
use super::job::{Job, Work};
use super::queue::JobTarget;
use super::status::SaveReport;
use super::target::SaveTarget;
use crate::clock::{Stopwatch, system_time};
use crate::progress::{Phase, Progress, ProgressReporter};
use crate::slots::{Details, EncodedSave, Slots};
use crate::store::{Precondition, Store};

/// A captured world that is to be saved.
pub struct CapturedSave {
    /// The place that it goes to.
    pub target: SaveTarget,
    /// The captured world.
    pub snapshot: Snapshot,
    /// The details that menus show of it.
    pub details: Details,
    /// The encoding options. `None`: those of the slots.
    pub encode: Option<EncodeOptions>,
}

/// A save that will not be lost any more.
#[derive(Clone, Copy)]
pub(super) struct DurableSave {
    pub(super) bytes: u64,
    /// From the start of the encoding.
    pub(super) seconds: Option<f64>,
    pub(super) at: Option<SystemTime>,
}

impl CapturedSave {
    /// The job that saves it and completes these requests.
    pub(super) fn into_job(self, saves: Vec<Promise<SaveReport>>) -> (JobTarget, Job) {
        let target = JobTarget::Save(self.target.clone());
        let description = format!("save {}", self.target);
        (target, Job { description, saves, requirement: None, work: Work::Save(Box::new(self)) })
    }

    /// Encodes the world and writes it to its target. When this returns, it is durable.
    pub(super) async fn save(
        &self,
        slots: &Slots,
        reporter: &ProgressReporter,
    ) -> Result<(SaveReport, DurableSave)> {
        let span = info_span!("bonfire.save", target = %self.target, entities = self.snapshot.entity_count());
        self.encode_and_write(slots, reporter).instrument(span).await
    }

    async fn encode_and_write(
        &self,
        slots: &Slots,
        reporter: &ProgressReporter,
    ) -> Result<(SaveReport, DurableSave)> {
        let stopwatch = Stopwatch::start();
        reporter.set(Progress::new(Phase::Encoding, 0, 0));
        let encoding = debug_span!("bonfire.encode", bytes = field::Empty);
        let encode = slots.encode_save(&self.snapshot, &self.details, self.encode.as_ref());
        let EncodedSave { payload, dropped_thumbnail } = encode.instrument(encoding.clone()).await?;
        encoding.record("bytes", payload.len());
        drop(encoding);
        if let Some(bytes) = dropped_thumbnail {
            warn!(
                "the thumbnail of {} was left out: it has {bytes} bytes, and all details together have at most 60 KiB. \
                 Scale the picture down",
                self.target
            );
        }
        let bytes = payload.len();
        reporter.set(Progress::new(Phase::Writing, 0, bytes));
        let payload = payload.watched(reporter.watch());
        let mut report = SaveReport::new(self.target.clone(), bytes, self.snapshot.entity_count());
        report.notes = self.snapshot.notes().to_vec();
        report.dropped_thumbnail = dropped_thumbnail;
        let writing = debug_span!("bonfire.write");
        let durable = match &self.target {
            SaveTarget::Slot(slot) => {
                let placed = slots.place(slot, payload).instrument(writing).await?;
                let durable = DurableSave::timed(bytes, stopwatch);
                let saved = slots.finish_save(slot, placed, bytes).await;
                report.generation = Some(saved.generation);
                report.pruned = saved.pruned;
                report.prune_error = saved.prune_error;
                durable
            }
            #[cfg(not(target_arch = "wasm32"))]
            SaveTarget::Path(path) => {
                let written = |bytes| payload.add_written(bytes);
                writing.in_scope(|| crate::file::replace(path, payload.parts(), &written))?;
                DurableSave::timed(bytes, stopwatch)
            }
            SaveTarget::Blob { store, name } => {
                store.put(name, payload, Precondition::None).instrument(writing).await?;
                DurableSave::timed(bytes, stopwatch)
            }
        };
        Ok((report, durable))
    }
}

impl DurableSave {
    /// Durable since a moment ago, however long it took.
    pub(super) fn now(bytes: u64) -> Self {
        Self { bytes, seconds: None, at: system_time() }
    }

    /// Durable since a moment ago, and begun with the stopwatch.
    fn timed(bytes: u64, stopwatch: Stopwatch) -> Self {
        Self { seconds: stopwatch.elapsed().map(|time| time.as_secs_f64()), ..Self::now(bytes) }
    }
}

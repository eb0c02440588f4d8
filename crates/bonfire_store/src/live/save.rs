//! A captured world on its way to a durable save.

use std::time::SystemTime;

use bonfire::{EncodeOptions, Result, Snapshot};
use tracing::{debug_span, field, info_span, warn};

use super::handle::Promise;
use super::job::{Job, Work};
use super::queue::JobTarget;
use super::status::SaveReport;
use super::target::SaveTarget;
use crate::blocking::block_on;
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
    pub(super) fn save(
        &self,
        slots: &Slots,
        reporter: &ProgressReporter,
    ) -> Result<(SaveReport, DurableSave)> {
        let entities = self.snapshot.entity_count();
        let span = info_span!("bonfire.save", target = %self.target, entities);
        let _in_span = span.enter();
        let stopwatch = Stopwatch::start();
        reporter.set(Progress::new(Phase::Encoding, 0, 0));
        let EncodedSave { payload, dropped_thumbnail } = {
            let span = debug_span!("bonfire.encode", bytes = field::Empty);
            let _in_span = span.enter();
            let encoded = slots.encode_save(&self.snapshot, &self.details, self.encode.as_ref())?;
            span.record("bytes", encoded.payload.len());
            encoded
        };
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
        let mut report = SaveReport::new(self.target.clone(), bytes, entities);
        report.notes = self.snapshot.notes().to_vec();
        report.dropped_thumbnail = dropped_thumbnail;
        let writing = debug_span!("bonfire.write");
        let durable = match &self.target {
            SaveTarget::Slot(slot) => {
                let placed = writing.in_scope(|| block_on(slots.place(slot, payload)))?;
                let durable = stopwatch.durable(bytes);
                let saved = block_on(async { Ok(slots.finish_save(slot, placed, bytes).await) })?;
                report.generation = Some(saved.generation);
                report.pruned = saved.pruned;
                report.prune_error = saved.prune_error;
                durable
            }
            #[cfg(not(target_arch = "wasm32"))]
            SaveTarget::Path(path) => {
                let written = |bytes| payload.add_written(bytes);
                writing.in_scope(|| crate::file::replace(path, payload.parts(), &written))?;
                stopwatch.durable(bytes)
            }
            SaveTarget::Blob { store, name } => {
                writing.in_scope(|| block_on(store.put(name, payload, Precondition::None)))?;
                stopwatch.durable(bytes)
            }
        };
        Ok((report, durable))
    }
}

impl DurableSave {
    /// Durable since a moment ago, however long it took.
    pub(super) fn now(bytes: u64) -> Self {
        #[cfg(not(target_arch = "wasm32"))]
        let at = Some(SystemTime::now());
        #[cfg(target_arch = "wasm32")]
        let at = None;
        Self { bytes, seconds: None, at }
    }
}

/// Measures a save, where there is a clock.
struct Stopwatch {
    #[cfg(not(target_arch = "wasm32"))]
    start: std::time::Instant,
}

impl Stopwatch {
    #[cfg(not(target_arch = "wasm32"))]
    fn start() -> Self {
        Self { start: std::time::Instant::now() }
    }
    #[cfg(not(target_arch = "wasm32"))]
    fn durable(&self, bytes: u64) -> DurableSave {
        DurableSave { seconds: Some(self.start.elapsed().as_secs_f64()), ..DurableSave::now(bytes) }
    }

    #[cfg(target_arch = "wasm32")]
    fn start() -> Self {
        Self {}
    }
    #[cfg(target_arch = "wasm32")]
    fn durable(&self, bytes: u64) -> DurableSave {
        DurableSave::now(bytes)
    }
}

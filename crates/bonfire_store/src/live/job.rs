//! One request, and how it is done. Whatever happens, its handles are completed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::SystemTime;

use bonfire::{EncodeOptions, Error, OpenOptions, Result, Snapshot};
use bytes::Bytes;
use tracing::{debug_span, field, info_span};

use super::handle::Promise;
use super::status::SaveReport;
use super::target::{LoadSource, SaveTarget};
use crate::blocking::block_on;
use crate::progress::{Phase, Progress, ProgressReporter};
use crate::slots::{Details, LoadedSave, SaveInfo, Slots};
use crate::store::{Precondition, Store, refuse_sealed};
use crate::thread_bounds::MaybeSend;

/// A request.
pub(super) struct Job {
    /// A verb and its target, for status displays and messages.
    pub(super) description: String,
    pub(super) work: JobKind,
}

pub(super) enum JobKind {
    Save(Box<SaveRequest>),
    Other(Step),
}

/// Work that is not looked into. It is given the slots, or why it is not to be done.
#[cfg(not(target_arch = "wasm32"))]
pub(super) type Step = Box<dyn FnOnce(Result<&Slots>) -> FinishedJob + Send>;
#[cfg(target_arch = "wasm32")]
pub(super) type Step = Box<dyn FnOnce(Result<&Slots>) -> FinishedJob>;

/// Tells the outcome to all who look. What it returns wakes those who sleep, outside of all locks.
pub(super) type CompleteFn = Box<dyn FnOnce() -> Box<dyn FnOnce()>>;

/// A request that was done, and whose handles do not know it yet.
pub(super) struct FinishedJob {
    pub(super) settle: CompleteFn,
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

/// A save that will not be lost any more.
#[derive(Clone, Copy)]
pub(super) struct DurableSave {
    pub(super) bytes: u64,
    /// From the start of the encoding.
    pub(super) seconds: Option<f64>,
    pub(super) at: Option<SystemTime>,
}

impl Job {
    /// Does it, or says why not.
    pub(super) fn run(self, turn: Result<&Slots>) -> FinishedJob {
        match self.work {
            JobKind::Save(save) => save.run(turn),
            JobKind::Other(step) => step(turn),
        }
    }

    /// Takes the place of an older save: its handles complete with this one.
    pub(super) fn replace(&mut self, older: &mut Self) {
        if let (JobKind::Save(new), JobKind::Save(old)) = (&mut self.work, &mut older.work) {
            new.promises.splice(0..0, old.promises.drain(..));
            new.follow_last();
        }
    }
}

/// Work for a promise.
pub(super) fn step<T: Clone + Send + 'static>(
    promise: Promise<T>,
    work: impl FnOnce(&Slots, &ProgressReporter) -> Result<T> + MaybeSend + 'static,
) -> Step {
    Box::new(move |turn| {
        let result = match turn {
            Ok(_) if promise.is_cancelled() => Err(cancelled()),
            Ok(slots) => catch_panic(|| work(slots, &promise.reporter())),
            Err(error) => Err(error),
        };
        let outcome = match &result {
            Err(error) if error.is_cancelled() => Outcome::Cancelled,
            _ => Outcome::Other,
        };
        let settle = move || {
            let settled = promise.settle(result);
            Box::new(move || settled.wake()) as Box<dyn FnOnce()>
        };
        FinishedJob { settle: Box::new(settle), outcome }
    })
}

/// A panic of a store, a codec or the game's own code is an error of the one request.
pub(super) fn catch_panic<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("?");
        Err(Error::custom(format!("it panicked: {text}")))
    })
}

pub(super) fn cancelled() -> Error {
    Error::cancelled("cancelled before it began")
}

/// A captured world that is to be saved, and the handles that wait for it.
pub struct SaveRequest {
    /// The place that it goes to.
    pub target: SaveTarget,
    /// The captured world.
    pub snapshot: Snapshot,
    /// The details that menus show of it.
    pub details: Details,
    /// The encoding options. `None`: those of the slots.
    pub encode: Option<EncodeOptions>,
    /// The promises that the save completes. The last one belongs to this request. Those before it, oldest first, belong
    /// to requests that this one replaces.
    pub promises: Vec<Promise<SaveReport>>,
}

impl SaveRequest {
    fn reporter(&self) -> ProgressReporter {
        self.promises.last().map(Promise::reporter).unwrap_or_default()
    }

    /// All of them are as far as the last one is.
    pub(super) fn follow_last(&self) {
        let reporter = self.reporter();
        self.promises.iter().for_each(|promise| promise.follow(reporter.clone()));
    }

    fn run(self: Box<Self>, turn: Result<&Slots>) -> FinishedJob {
        let saved = match turn {
            Ok(_) if !self.promises.is_empty() && self.promises.iter().all(Promise::is_cancelled) => {
                Err(cancelled())
            }
            Ok(slots) => catch_panic(|| self.save(slots)),
            Err(error) => Err(error),
        };
        let outcome = match &saved {
            Ok((_, durable)) => Outcome::DurableSave(*durable),
            Err(error) if error.is_cancelled() => Outcome::Cancelled,
            Err(error) => Outcome::SaveFailed(error.clone()),
        };
        let result = saved.map(|(report, _)| report);
        let mut promises = self.promises;
        let settle = move || {
            let newest = promises.pop().map(|promise| promise.settle(result.clone()));
            let result = result.map(|report| SaveReport { coalesced: true, ..report });
            let mut settled: Vec<_> =
                promises.into_iter().map(|promise| promise.settle(result.clone())).collect();
            settled.extend(newest);
            Box::new(move || settled.into_iter().for_each(super::handle::CompletedPromise::wake))
                as Box<dyn FnOnce()>
        };
        FinishedJob { settle: Box::new(settle), outcome }
    }

    fn save(&self, slots: &Slots) -> Result<(SaveReport, DurableSave)> {
        let entities = self.snapshot.entity_count();
        let span = info_span!("bonfire.save", target = %self.target, entities);
        let _in_span = span.enter();
        let reporter = self.reporter();
        let stopwatch = Stopwatch::start();
        reporter.set(Progress::new(Phase::Encoding, 0, 0));
        let payload = {
            let span = debug_span!("bonfire.encode", bytes = field::Empty);
            let _in_span = span.enter();
            let payload = slots.encode_save(&self.snapshot, &self.details, self.encode.as_ref())?;
            span.record("bytes", payload.len());
            payload
        };
        let bytes = payload.len();
        reporter.set(Progress::new(Phase::Writing, 0, bytes));
        let payload = payload.watched(reporter.counter());
        let mut report = SaveReport::new(self.target.clone(), bytes, entities);
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

/// Opens and checks the save of a source.
pub(super) fn load(
    slots: &Slots,
    source: &LoadSource,
    options: OpenOptions<'static>,
    reporter: &ProgressReporter,
) -> Result<LoadedSave> {
    let options = options.watch(reporter.counter());
    let target = match source {
        LoadSource::Generation { slot, generation } => {
            reporter.set(Progress::new(Phase::Reading, 0, 0));
            return block_on(slots.load_generation(slot, *generation, &options));
        }
        LoadSource::Latest(target) => target,
    };
    match target {
        SaveTarget::Slot(slot) => block_on(slots.load_reporting(slot, &options, reporter)),
        #[cfg(not(target_arch = "wasm32"))]
        SaveTarget::Path(path) => {
            reporter.set(Progress::new(Phase::Reading, 0, 0));
            let bytes = crate::file::read_bytes(path, options.file_bytes_max())?;
            open(path.display().to_string(), bytes, &options, reporter)
        }
        SaveTarget::Blob { store, name } => {
            reporter.set(Progress::new(Phase::Reading, 0, 0));
            if let Some(head) = block_on(store.head(name))?
                && head.len > options.file_bytes_max()
            {
                let len = head.len;
                return Err(Error::limit(format!("`{name}` has {len} bytes, more than the limits allow")));
            }
            let bytes = block_on(store.get(name))?;
            open(name.clone(), bytes, &options, reporter)
        }
    }
}

/// Opens a save that is in no slot.
fn open(
    place: String,
    bytes: Bytes,
    options: &OpenOptions<'_>,
    reporter: &ProgressReporter,
) -> Result<LoadedSave> {
    refuse_sealed(&place, &bytes)?;
    reporter.set(Progress::new(Phase::Checking, 0, bytes.len() as u64));
    let snapshot = options.open_shared(bytes.clone())?;
    Ok(LoadedSave {
        snapshot,
        info: SaveInfo::outside_of_slots(place, &bytes, options),
        journal: None,
        skipped: Vec::new(),
    })
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

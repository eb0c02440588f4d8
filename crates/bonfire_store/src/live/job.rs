//! One request, and how it is done. Whatever happens, its handles are completed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::SystemTime;

use bonfire::{EncodeOptions, Error, OpenOptions, Result, Snapshot};
use bytes::Bytes;
use tracing::{debug_span, field, info_span};

use super::handle::Promise;
use super::progress::{Progress, Stage, Watch};
use super::status::SaveReport;
use super::target::SaveTarget;
use crate::maybe::MaybeSend;
use crate::slots::{Details, LoadedSave, SaveInfo, Slots};
use crate::store::{Precondition, Store, is_sealed};
use crate::wait::finished;

/// A request.
pub(super) struct Job {
    /// For people.
    pub(super) what: String,
    pub(super) work: Work,
}

pub(super) enum Work {
    Save(Box<SaveJob>),
    Other(Step),
}

/// Work that is not looked into. It is given the slots, or why it is not to be done.
#[cfg(not(target_arch = "wasm32"))]
pub(super) type Step = Box<dyn FnOnce(Result<&Slots>) -> Ended + Send>;
#[cfg(target_arch = "wasm32")]
pub(super) type Step = Box<dyn FnOnce(Result<&Slots>) -> Ended>;

/// Tells the outcome to all who look. What it returns wakes those who sleep, outside of all locks.
pub(super) type Settle = Box<dyn FnOnce() -> Box<dyn FnOnce()>>;

/// A request that was done, and whose handles do not know it yet.
pub(super) struct Ended {
    pub(super) settle: Settle,
    pub(super) outcome: Outcome,
}

/// What counts.
pub(super) enum Outcome {
    Durable(Durable),
    /// So many bytes were appended to a journal.
    Appended(Durable),
    SaveFailed(Error),
    Cancelled,
    Other,
}

/// A save that will not be lost any more.
#[derive(Clone, Copy)]
pub(super) struct Durable {
    pub(super) bytes: u64,
    /// From the start of the encoding.
    pub(super) seconds: Option<f64>,
    pub(super) at: Option<SystemTime>,
}

impl Job {
    /// Does it, or says why not.
    pub(super) fn run(self, turn: Result<&Slots>) -> Ended {
        match self.work {
            Work::Save(save) => save.run(turn),
            Work::Other(step) => step(turn),
        }
    }

    /// Takes the place of an older save: its handles complete with this one.
    pub(super) fn replace(&mut self, older: &mut Self) {
        if let (Work::Save(new), Work::Save(old)) = (&mut self.work, &mut older.work) {
            new.promises.splice(0..0, old.promises.drain(..));
            new.follow_last();
        }
    }
}

/// Work for a promise.
pub(super) fn step<T: Clone + Send + 'static>(
    promise: Promise<T>,
    work: impl FnOnce(&Slots, &Watch) -> Result<T> + MaybeSend + 'static,
) -> Step {
    Box::new(move |turn| {
        let result = match turn {
            Ok(_) if promise.is_cancelled() => Err(cancelled()),
            Ok(slots) => caught(|| work(slots, &promise.watch())),
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
        Ended { settle: Box::new(settle), outcome }
    })
}

/// A panic of a store, a codec or the game's own code is an error of the one request.
pub(super) fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("?");
        Err(Error::custom(format!("it panicked: {text}")))
    })
}

pub(super) fn cancelled() -> Error {
    Error::cancelled("cancelled before it began")
}

/// A save that was asked for.
pub(super) struct SaveJob {
    pub(super) target: SaveTarget,
    pub(super) snapshot: Snapshot,
    pub(super) details: Details,
    /// `None`: as the slots do.
    pub(super) encode: Option<EncodeOptions>,
    /// The last is of the request itself. Those before it, oldest first, are of requests whose place it took.
    pub(super) promises: Vec<Promise<SaveReport>>,
}

impl SaveJob {
    fn watch(&self) -> Watch {
        self.promises.last().map(Promise::watch).unwrap_or_default()
    }

    /// All of them are as far as the last one is.
    pub(super) fn follow_last(&self) {
        let watch = self.watch();
        self.promises.iter().for_each(|promise| promise.follow(watch.clone()));
    }

    fn run(self: Box<Self>, turn: Result<&Slots>) -> Ended {
        let saved = match turn {
            Ok(_) if !self.promises.is_empty() && self.promises.iter().all(Promise::is_cancelled) => {
                Err(cancelled())
            }
            Ok(slots) => caught(|| self.save(slots)),
            Err(error) => Err(error),
        };
        let outcome = match &saved {
            Ok((_, durable)) => Outcome::Durable(*durable),
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
            Box::new(move || settled.into_iter().for_each(super::handle::Settled::wake)) as Box<dyn FnOnce()>
        };
        Ended { settle: Box::new(settle), outcome }
    }

    fn save(&self, slots: &Slots) -> Result<(SaveReport, Durable)> {
        let entities = self.snapshot.entity_count();
        let span = info_span!("bonfire.save", target = %self.target, entities);
        let _in_span = span.enter();
        let watch = self.watch();
        let stopwatch = Stopwatch::start();
        watch.set(Progress::new(Stage::Encoding, 0, 0));
        let payload = {
            let span = debug_span!("bonfire.encode", bytes = field::Empty);
            let _in_span = span.enter();
            let payload = slots.encoded(&self.snapshot, &self.details, self.encode.as_ref())?;
            span.record("bytes", payload.len());
            payload
        };
        let bytes = payload.len();
        watch.set(Progress::new(Stage::Writing, 0, bytes));
        let payload = payload.watched(watch.counter());
        let mut report = SaveReport::new(self.target.clone(), bytes, entities);
        let writing = debug_span!("bonfire.write");
        let durable = match &self.target {
            SaveTarget::Slot(slot) => {
                let placed = writing.in_scope(|| finished(slots.place(slot, payload)))?;
                let durable = stopwatch.durable(bytes);
                let saved = finished(async { Ok(slots.tidied_after_save(slot, placed, bytes).await) })?;
                report.generation = Some(saved.generation);
                report.pruned = saved.pruned;
                report.prune_error = saved.prune_error;
                durable
            }
            SaveTarget::Generation { .. } => {
                return Err(Error::misuse("a save gets its number when it is written: save into the slot"));
            }
            #[cfg(not(target_arch = "wasm32"))]
            SaveTarget::Path(path) => {
                let written = |bytes| payload.add_written(bytes);
                writing.in_scope(|| crate::file::replace(path, payload.parts(), &written))?;
                stopwatch.durable(bytes)
            }
            SaveTarget::Blob { store, name } => {
                writing.in_scope(|| finished(store.put(name, payload, Precondition::None)))?;
                stopwatch.durable(bytes)
            }
        };
        Ok((report, durable))
    }
}

/// Opens what a target holds.
pub(super) fn load(
    slots: &Slots,
    target: &SaveTarget,
    options: OpenOptions<'static>,
    watch: &Watch,
) -> Result<LoadedSave> {
    let options = options.watch(watch.counter());
    match target {
        SaveTarget::Slot(slot) => finished(slots.load_watched(slot, &options, watch)),
        SaveTarget::Generation { slot, generation } => {
            watch.set(Progress::new(Stage::Reading, 0, 0));
            finished(slots.load_generation(slot, *generation, &options))
        }
        #[cfg(not(target_arch = "wasm32"))]
        SaveTarget::Path(path) => {
            watch.set(Progress::new(Stage::Reading, 0, 0));
            let bytes = crate::file::read_bytes(path, options.file_bytes_max())?;
            open(path.display().to_string(), bytes, &options, watch)
        }
        SaveTarget::Blob { store, name } => {
            watch.set(Progress::new(Stage::Reading, 0, 0));
            if let Some(head) = finished(store.head(name))?
                && head.len > options.file_bytes_max()
            {
                let len = head.len;
                return Err(Error::limit(format!("`{name}` has {len} bytes, more than the limits allow")));
            }
            let bytes = finished(store.get(name))?;
            open(name.clone(), bytes, &options, watch)
        }
    }
}

/// Opens a save that is in no slot.
fn open(place: String, bytes: Bytes, options: &OpenOptions<'_>, watch: &Watch) -> Result<LoadedSave> {
    if is_sealed(&bytes) {
        return Err(Error::wrong_key(format!("`{place}` is sealed, and there is no key for it here")));
    }
    watch.set(Progress::new(Stage::Checking, 0, bytes.len() as u64));
    let snapshot = options.open_shared(bytes.clone())?;
    Ok(LoadedSave {
        snapshot,
        info: SaveInfo::outside_of_slots(place, &bytes, options),
        journal: None,
        skipped: Vec::new(),
    })
}

impl Durable {
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
    fn durable(&self, bytes: u64) -> Durable {
        Durable { seconds: Some(self.start.elapsed().as_secs_f64()), ..Durable::now(bytes) }
    }

    #[cfg(target_arch = "wasm32")]
    fn start() -> Self {
        Self {}
    }
    #[cfg(target_arch = "wasm32")]
    fn durable(&self, bytes: u64) -> Durable {
        Durable::now(bytes)
    }
}

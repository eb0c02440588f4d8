//! What a game or a front end calls.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bonfire::{Delta, OpenOptions, Result, Snapshot};
use tracing::Instrument;

use super::append::{AppendTo, append_job};
use super::handle::{Handle, LoadHandle, Promise, SaveHandle};
use super::job::{Job, Step, Work, step};
use super::load::load;
use super::queue::JobTarget;
use super::save::CapturedSave;
use super::status::SaverStatus;
use super::target::{LoadSource, SaveTarget};
use super::turns::Turns;
use super::worker::{Admission, Shared, Workforce};
use crate::journal::{AppendReport, JournalBase};
use crate::progress::ProgressReporter;
use crate::slots::{Details, LoadedSave, Slots};

/// Saves and loads off the game's thread: one thread of its own, which is started with the first request, and a queue.
///
/// No call waits. Each returns a [`Handle`], which is complete when the outcome is final: a save when its bytes are durable.
///
/// **Order.** Requests are done one at a time, in the order in which they were made: a load that was asked for after a save
/// finds it.
///
/// **Saves that pile up.** A save that still waits is not written if a newer one of the same slot (or path, or blob) is asked
/// for: that one takes its place in the queue, and both handles complete with it. Not if something that would notice was
/// asked for in between: a load or a deletion of the same target, or [`run`](Self::run).
///
/// **A full queue.** What is asked for when too many requests wait is refused at once: see [`queue_max`](Self::queue_max).
///
/// **The end.** When the last clone is dropped, it waits until everything that was asked for is done: a game that just ends
/// does not lose its last save. [`finish`](Self::finish) does so with a deadline.
///
/// **Without a thread**, as in browsers, the engine calls [`poll`](Self::poll) once a frame, with a budget. Bevy's plugin does
/// so by itself. On wasm32 every saver is like that; elsewhere those made by [`without_thread`](Self::without_thread) are.
///
/// ```
/// # use bonfire::Registry;
/// # use bonfire::engine::SnapshotWriter;
/// use bonfire_store::{Details, MemoryStore, Saver, Slots};
/// use std::time::Duration;
///
/// # let registry = Registry::new();
/// # let capture = || SnapshotWriter::new(&registry).finish();
/// let saver = Saver::new(Slots::new(MemoryStore::new())); // DirStore::for_app("Moon Studio", "Comet")?
///
/// // On the game's thread: only the capture costs time.
/// let save = saver.save("quick", capture()?, Details::new().label("Before the dragon"));
/// // Every frame: a bar.
/// println!("{:.0}%", save.progress().fraction() * 100.0);
/// // Now and then: is it on the disk?
/// if let Some(result) = save.result() {
///     println!("saved {} bytes", result?.bytes);
/// }
///
/// let load = saver.load("quick"); // in order: it finds the save
/// assert_eq!(load.wait()?.info.label.as_deref(), Some("Before the dragon"));
///
/// assert!(saver.finish(Duration::from_secs(30)), "the disk hangs");
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Clone)]
pub struct Saver {
    owner: Arc<Owner>,
}

/// What all clones have in common. The thread does not keep it.
struct Owner {
    shared: Arc<Shared>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Saver {
    /// Saves into these slots, and loads from them. At most 64 requests wait. On wasm32 it has no thread.
    pub fn new(slots: Slots) -> Self {
        #[cfg(not(target_arch = "wasm32"))]
        return Self::with_workforce(slots, Workforce::Thread(super::worker::spawn));
        #[cfg(target_arch = "wasm32")]
        Self::without_thread(slots)
    }

    /// A saver that works only while it is [polled](Self::poll), for programs with one thread. Encoding and opening are cut
    /// into slices of about 256 KiB.
    ///
    /// ```
    /// # use bonfire::Registry;
    /// # use bonfire::engine::SnapshotWriter;
    /// use bonfire_store::{Details, MemoryStore, Saver, Slots};
    /// use std::time::Duration;
    ///
    /// # let registry = Registry::new();
    /// # let capture = || SnapshotWriter::new(&registry).finish();
    /// let saver = Saver::without_thread(Slots::new(MemoryStore::new()));
    /// let save = saver.save("quick", capture()?, Details::new());
    /// while !save.is_complete() {
    ///     // A frame of the game, and then:
    ///     saver.poll(Duration::from_millis(2));
    /// }
    /// # Ok::<(), bonfire::Error>(())
    /// ```
    pub fn without_thread(slots: Slots) -> Self {
        Self::with_workforce(slots, Workforce::Turns(Turns::default()))
    }

    fn with_workforce(slots: Slots, workforce: Workforce) -> Self {
        Self { owner: Arc::new(Owner { shared: Arc::new(Shared::new(slots, workforce)) }) }
    }

    /// Returns true if requests are done by a thread. Otherwise [`poll`](Self::poll) does them.
    pub fn has_thread(&self) -> bool {
        self.owner.shared.turns().is_none()
    }

    /// Goes on with the requests, and begins the next ones, until the budget is used up or until all wait for a store. One
    /// slice is done at least. Call it once a frame. If the saver has a thread, this does nothing.
    ///
    /// A store that answers between two calls is noticed by the next one. Without a clock, as on wasm32 without the feature
    /// `web`, a call does one slice, or all of them with [`Duration::MAX`].
    pub fn poll(&self, budget: Duration) {
        self.owner.shared.poll(budget);
    }

    /// How many requests may wait, for a front end or for the thread; the one that is being done does not count. Default: 64.
    /// What is asked for beyond is refused: its handle is complete at once, with
    /// [`Error::is_limit`](bonfire::Error::is_limit). A save that takes the place of another is never refused. This is so for
    /// all clones.
    pub fn queue_max(self, jobs: usize) -> Self {
        self.owner.shared.set_queue_max(jobs);
        self
    }

    /// The slots, for calls that may wait. Those made elsewhere are not in the order of the requests: see
    /// [`run`](Self::run).
    pub fn slots(&self) -> &Slots {
        &self.owner.shared.slots
    }

    /// Saves a world.
    pub fn save(&self, target: impl Into<SaveTarget>, snapshot: Snapshot, details: Details) -> SaveHandle {
        self.submit_save(CapturedSave { target: target.into(), snapshot, details, encode: None })
    }

    /// See [`engine::submit_save`](crate::engine::submit_save).
    pub(super) fn submit_save(&self, save: CapturedSave) -> SaveHandle {
        let (promise, handle) = Promise::new();
        let (target, job) = save.into_job(vec![promise]);
        self.owner.shared.submit(target, job, Admission::Needed);
        handle
    }

    /// Appends what has changed to the journal of a save, at the cost of what has changed. When the handle is complete, it is
    /// durable: see [`Slots::append`].
    ///
    /// If it fails, in whatever way, the delta is not saved, and neither are those that were asked for after it: save the
    /// world as a whole, and go on from there. So a game that saves every second has one rule: a save first; then, when its
    /// handle is complete, deltas; after an error, or when [`AppendReport::full_save_due`] says so, a save again.
    pub fn append(&self, base: JournalBase, delta: Delta) -> Handle<AppendReport> {
        self.submit_append(AppendTo::DurableSave(base), delta)
    }

    /// See [`engine::submit_append_after`](crate::engine::submit_append_after).
    pub(super) fn submit_append(&self, base: AppendTo, delta: Delta) -> Handle<AppendReport> {
        let (target, job, handle) = append_job(&self.owner.shared, base, delta, Vec::new());
        self.owner.shared.submit(target, job, Admission::Needed);
        handle
    }

    /// Opens and checks the newest good save of a slot, one save by its number, or the save at a path or in a blob.
    pub fn load(&self, source: impl Into<LoadSource>) -> LoadHandle {
        let options = self.slots().open_options();
        self.submit_load(source.into(), options, Admission::Needed, |loaded, _| Ok(loaded))
    }

    /// See [`engine::submit_load`](crate::engine::submit_load).
    pub(super) fn submit_load<T: Clone + Send + 'static>(
        &self,
        source: LoadSource,
        options: OpenOptions<'static>,
        admission: Admission,
        then: impl FnOnce(LoadedSave, &ProgressReporter) -> Result<T> + Send + 'static,
    ) -> Handle<T> {
        let (promise, handle) = Promise::new();
        promise.allow_stop();
        let description = format!("load {source}");
        let target = JobTarget::Other(source.target());
        let work = step(&self.owner.shared, promise, move |slots, reporter| {
            let span = tracing::info_span!("bonfire.load", target = %source);
            async move { then(load(&slots, &source, options, &reporter).await?, &reporter) }.instrument(span)
        });
        self.submit(description, target, work, admission);
        handle
    }

    /// Deletes all saves of a slot that are not locked, and returns how many there were. A slot that does not exist has
    /// none.
    pub fn delete_saves(&self, slot: &str) -> Handle<u64> {
        let (promise, handle) = Promise::new();
        self.submit_delete(slot, promise, Admission::Needed);
        handle
    }

    /// See [`engine::submit_delete`](crate::engine::submit_delete).
    pub(super) fn submit_delete(&self, slot: &str, promise: Promise<u64>, admission: Admission) {
        let slot = slot.to_owned();
        let (description, target) =
            (format!("delete slot `{slot}`"), JobTarget::Other(SaveTarget::Slot(slot.clone())));
        let work = step(&self.owner.shared, promise, async move |slots, _| slots.delete_saves(&slot).await);
        self.submit(description, target, work, admission);
    }

    /// Does anything else in the order of the requests: a list for a menu, another name for a slot. No save takes the place
    /// of one from before it.
    ///
    /// ```
    /// # use bonfire_store::{MemoryStore, Saver, Slots};
    /// use bonfire_store::Wait;
    ///
    /// # let saver = Saver::new(Slots::new(MemoryStore::new()));
    /// let list = saver.run(|slots| slots.list().wait());
    /// assert!(list.wait()?.is_empty());
    /// # Ok::<(), bonfire::Error>(())
    /// ```
    pub fn run<T: Clone + Send + 'static>(
        &self,
        work: impl FnOnce(&Slots) -> Result<T> + Send + 'static,
    ) -> Handle<T> {
        self.run_step(async move |slots, _| work(&slots))
    }

    /// [`run`](Self::run) for work that awaits the store, as it must in a browser.
    ///
    /// ```
    /// # use bonfire_store::{MemoryStore, Saver, Slots};
    /// # let saver = Saver::new(Slots::new(MemoryStore::new()));
    /// let list = saver.run_async(async |slots| slots.list().await);
    /// assert!(list.wait()?.is_empty());
    /// # Ok::<(), bonfire::Error>(())
    /// ```
    pub fn run_async<T, F>(&self, work: impl FnOnce(Slots) -> F + Send + 'static) -> Handle<T>
    where
        T: Clone + Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.run_step(move |slots, _| work(Slots::clone(&slots)))
    }

    fn run_step<T, F>(
        &self,
        work: impl FnOnce(Arc<Slots>, ProgressReporter) -> F + Send + 'static,
    ) -> Handle<T>
    where
        T: Clone + Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (promise, handle) = Promise::new();
        let work = step(&self.owner.shared, promise, work);
        self.submit("run".to_owned(), JobTarget::Everything, work, Admission::Needed);
        handle
    }

    fn submit(&self, description: String, target: JobTarget, step: Step, admission: Admission) {
        let (saves, requirement) = Default::default();
        let job = Job { description, saves, requirement, work: Work::Other(step) };
        self.owner.shared.submit(target, job, admission);
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.owner.shared
    }

    /// How it is doing.
    pub fn status(&self) -> SaverStatus {
        self.owner.shared.status()
    }

    /// Returns true if nothing waits for the thread and nothing is being done.
    pub fn is_idle(&self) -> bool {
        self.owner.shared.is_idle()
    }

    /// Blocks until nothing waits for the thread and nothing is being done; false if that takes longer than `deadline`. Then
    /// the drop of the last clone does not wait either, and what is not done when the process ends is lost. Inside of a job
    /// this does not wait.
    ///
    /// A saver without a thread does its jobs meanwhile. In a browser it does what needs no waiting: false if a store answers
    /// later.
    pub fn finish(&self, deadline: Duration) -> bool {
        self.owner.shared.finish(deadline)
    }
}

impl fmt::Debug for Saver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Saver").field("status", &self.status()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use bonfire::Registry;
    use bonfire::engine::SnapshotWriter;

    use super::*;
    use crate::MemoryStore;

    #[test]
    fn without_a_thread_every_request_fails_and_says_why() {
        let none = |_| Err(std::io::Error::from(std::io::ErrorKind::OutOfMemory));
        let shared = Arc::new(Shared::new(Slots::new(MemoryStore::new()), Workforce::Thread(none)));
        let saver = Saver { owner: Arc::new(Owner { shared }) };
        let snapshot = SnapshotWriter::new(&Registry::new()).finish().expect("an empty world");
        let save = saver.save("quick", snapshot, Details::new());
        let errors =
            [save.wait().map(drop), saver.load("quick").wait().map(drop), saver.run(|_| Ok(())).wait()];
        for error in errors {
            let error = error.expect_err("there is no thread");
            assert!(error.is_io() && error.to_string().contains("thread that saves"), "{error}");
        }
        let status = saver.status();
        assert_eq!((status.failures, status.queued, status.saves), (1, 0, 0));
        assert!(saver.is_idle() && saver.finish(Duration::ZERO));
    }
}

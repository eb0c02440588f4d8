//! Reads and saves off the game's thread.

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bonfire::Error;
use bonfire::engine::catch_panic;
use bonfire_store::engine::Promise;
use bonfire_store::{Handle, Phase, Progress};

use crate::{Chunk, ChunkPos, ChunkWorld, CommitReport, Durability, Edit};

/// Requests that may wait, by default. A view of 63 by 63 chunks can be asked for at once: a read that waits has only its
/// position.
const QUEUE_MAX: usize = 4096;

/// Saves that may wait: each has the cells of its chunks.
const SAVES_MAX: usize = 64;

/// Requests that may be done before a save that waits.
const PASSED_MAX: usize = 64;

/// The beginning of the error of a request whose work panicked.
const PANICKED: &str = "this request panicked";

/// How urgent a request is. The most urgent comes first; those that are equally urgent come in the order of their requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Perhaps nobody needs it: chunks far ahead.
    Low,
    /// Soon.
    #[default]
    Normal,
    /// The player looks at the place where it should be.
    High,
}

/// What a read gives: the cells of a chunk, or `None` if it is as the generator makes it.
pub type ReadHandle = Handle<Option<Arc<[u8]>>>;

/// Follows the load of a chunk, which comes from the file or from the generator.
pub type ChunkLoadHandle = Handle<Chunk>;

/// Follows a save. It is complete when the save is durable, or has failed: only then it is safe to exit.
pub type CommitHandle = Handle<CommitReport>;

/// Reads and saves the chunks of a world on a thread of its own, so that the game never waits for the disk.
///
/// ```
/// use bonfire_chunks::{ChunkOptions, ChunkWorker, Layer, Layers, Persistence, Priority};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("world.save");
/// let layers = Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always));
/// let world = ChunkOptions::new(layers).chunk_size(16).open(&path)?;
/// let worker = ChunkWorker::new(world.clone());
///
/// let mut edit = world.edit();
/// edit.put((0, 0), vec![7; 256]);
/// let saved = worker.save(edit);
/// let read = worker.read((0, 0), Priority::High); // sees the save, which was asked for first
///
/// // In a game: look at `is_complete` every frame.
/// assert_eq!(read.wait()?.as_deref(), Some(&[7; 256][..]));
/// assert_eq!(saved.wait()?.full, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// At most 4,096 requests wait at a time, and at most 64 of them are saves. One more is refused: its handle completes with
/// [`is_limit`](Error::is_limit), nothing is done, and the game may ask again later. Requests that are
/// [cancelled](Handle::cancel) before their turn are not done. A dropped worker finishes what waits.
pub struct ChunkWorker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    world: ChunkWorld,
    queue: Mutex<Queue>,
    changed: Condvar,
}

struct Queue {
    waiting: VecDeque<Request>,
    max: usize,
    is_busy: bool,
    is_ending: bool,
    saves_waiting: usize,
    /// How many other requests were done while a save waited.
    passed: usize,
    last_save: Instant,
}

struct Request {
    priority: Priority,
    job: Job,
}

enum Job {
    Read { pos: ChunkPos, promise: Promise<Option<Arc<[u8]>>> },
    Load { pos: ChunkPos, promise: Promise<Chunk> },
    Save { touched: BTreeSet<ChunkPos>, edit: Box<Edit>, to: Option<PathBuf>, promise: Promise<CommitReport> },
    Compact { promise: Promise<()> },
}

impl ChunkWorker {
    /// Starts a thread for this world.
    pub fn new(world: ChunkWorld) -> Self {
        let queue = Queue {
            waiting: VecDeque::new(),
            max: QUEUE_MAX,
            is_busy: false,
            is_ending: false,
            saves_waiting: 0,
            passed: 0,
            last_save: Instant::now(),
        };
        let shared = Arc::new(Shared { world, queue: Mutex::new(queue), changed: Condvar::new() });
        let thread = {
            let shared = shared.clone();
            std::thread::Builder::new().name("bonfire chunks".into()).spawn(move || shared.run())
        };
        if let Err(error) = &thread {
            tracing::error!(%error, "no thread for a chunk world: requests are refused");
        }
        Self { shared, thread: thread.ok() }
    }

    /// Sets how many requests may wait. Default: 4,096.
    pub fn queue_max(self, requests: usize) -> Self {
        self.shared.lock().max = requests.max(1);
        self
    }

    /// The world.
    pub fn world(&self) -> &ChunkWorld {
        &self.shared.world
    }

    /// Reads a chunk. A save of it that was asked for earlier is seen.
    pub fn read(&self, pos: impl Into<ChunkPos>, priority: Priority) -> ReadHandle {
        let (promise, handle) = Promise::new();
        self.push(Request { priority, job: Job::Read { pos: pos.into(), promise } });
        handle
    }

    /// Reads a chunk as the game needs it, or makes it with the generator: see [`ChunkWorld::load`]. A save of it that was asked for
    /// earlier is seen.
    pub fn load(&self, pos: impl Into<ChunkPos>, priority: Priority) -> ChunkLoadHandle {
        let (promise, handle) = Promise::new();
        self.push(Request { priority, job: Job::Load { pos: pos.into(), promise } });
        handle
    }

    /// Saves an edit. Saves are done in the order in which they are asked for.
    pub fn save(&self, edit: Edit) -> CommitHandle {
        self.push_save(edit, None)
    }

    /// Writes the world with the changes of an edit to another path: see [`ChunkWorld::save_to`].
    pub fn save_to(&self, path: impl Into<PathBuf>, edit: Edit) -> CommitHandle {
        self.push_save(edit, Some(path.into()))
    }

    fn push_save(&self, edit: Edit, to: Option<PathBuf>) -> CommitHandle {
        let (promise, handle) = Promise::new();
        if let Err(error) = self.shared.world.check_own(&edit) {
            promise.start();
            promise.complete(Err(error));
            return handle;
        }
        let touched = edit.touched();
        self.push(Request {
            priority: Priority::Normal,
            job: Job::Save { touched, edit: Box::new(edit), to, promise },
        });
        handle
    }

    /// Compacts the file. It happens by itself, too, when more of the file is dead than it may be and nothing else waits.
    pub fn compact(&self) -> Handle<()> {
        let (promise, handle) = Promise::new();
        self.push(Request { priority: Priority::Low, job: Job::Compact { promise } });
        handle
    }

    fn push(&self, request: Request) {
        request.job.start();
        let mut queue = self.shared.lock();
        let is_save = matches!(request.job, Job::Save { .. });
        let refusal = match &*queue {
            _ if self.thread.is_none() => Some(Error::limit("there is no thread for this chunk world")),
            queue if queue.waiting.len() >= queue.max => {
                Some(Error::limit(format!("{} requests wait already: ask again later", queue.max)))
            }
            queue if is_save && queue.saves_waiting >= SAVES_MAX => {
                Some(Error::limit(format!("{SAVES_MAX} saves wait already: ask again later")))
            }
            _ => None,
        };
        if let Some(error) = refusal {
            drop(queue);
            return request.job.fail(error);
        }
        queue.saves_waiting += usize::from(is_save);
        queue.waiting.push_back(request);
        drop(queue);
        self.shared.changed.notify_all();
    }

    /// Whether it is time to save by itself: so long after the last save of any kind was done, and none waits. Ask every
    /// frame; 60 seconds are a good interval.
    pub fn is_autosave_due(&self, interval: Duration) -> bool {
        let queue = self.shared.lock();
        queue.saves_waiting == 0 && queue.last_save.elapsed() >= interval
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.shared.lock().waiting.len()
    }

    /// Whether nothing waits and nothing is being done.
    pub fn is_idle(&self) -> bool {
        let queue = self.shared.lock();
        queue.waiting.is_empty() && !queue.is_busy
    }

    /// Waits until everything is done, but not longer than this. False if something is left.
    pub fn finish(&self, deadline: Duration) -> bool {
        let queue = self.shared.lock();
        let is_busy = |queue: &mut Queue| !queue.waiting.is_empty() || queue.is_busy;
        let waited = self.shared.changed.wait_timeout_while(queue, deadline, is_busy);
        let (queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        queue.waiting.is_empty() && !queue.is_busy
    }
}

impl Drop for ChunkWorker {
    fn drop(&mut self) {
        self.shared.lock().is_ending = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported there.
            let _ = thread.join();
        }
    }
}

impl Queue {
    /// The next request: the most urgent one, but never before a save that it would have to see. A save is not passed for
    /// ever, however much is urgent.
    fn pop(&mut self) -> Option<Request> {
        let number = self.next()?;
        let request = self.waiting.remove(number)?;
        let a_save_waits = self.saves_waiting > 0 && !matches!(request.job, Job::Save { .. });
        self.passed = if a_save_waits { self.passed + 1 } else { 0 };
        Some(request)
    }

    fn next(&self) -> Option<usize> {
        let first_save = self.waiting.iter().position(|request| matches!(request.job, Job::Save { .. }));
        if let Some(save) = first_save.filter(|_| self.passed >= PASSED_MAX) {
            return Some(save);
        }
        let urgent = self.waiting.iter().map(|request| request.priority).max()?;
        let first = self.waiting.iter().position(|request| request.priority == urgent)?;
        let touches = |request: &Request| match (&request.job, &self.waiting[first].job) {
            (Job::Save { touched, .. }, Job::Read { pos, .. } | Job::Load { pos, .. }) => {
                touched.contains(pos)
            }
            // Saves stay in their order whatever their priority, and a compaction is after what was before it.
            (Job::Save { .. }, Job::Save { .. } | Job::Compact { .. }) => true,
            _ => false,
        };
        let before = self.waiting.iter().take(first).position(touches);
        Some(before.unwrap_or(first))
    }
}

impl Job {
    fn start(&self) {
        match self {
            Self::Read { promise, .. } => promise.start(),
            Self::Load { promise, .. } => promise.start(),
            Self::Save { promise, .. } => promise.start(),
            Self::Compact { promise } => promise.start(),
        }
    }

    fn fail(self, error: Error) {
        match self {
            Self::Read { promise, .. } => promise.complete(Err(error)),
            Self::Load { promise, .. } => promise.complete(Err(error)),
            Self::Save { promise, .. } => promise.complete(Err(error)),
            Self::Compact { promise } => promise.complete(Err(error)),
        }
    }

    fn is_cancelled(&self) -> bool {
        match self {
            Self::Read { promise, .. } => promise.is_cancelled(),
            Self::Load { promise, .. } => promise.is_cancelled(),
            Self::Save { promise, .. } => promise.is_cancelled(),
            Self::Compact { promise } => promise.is_cancelled(),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut is_compacted = false;
        loop {
            let mut queue = self.lock();
            queue.is_busy = false;
            self.changed.notify_all();
            if queue.waiting.is_empty() && !queue.is_ending && !is_compacted {
                queue.is_busy = true;
                drop(queue);
                is_compacted = !self.compact_while_idle();
                continue;
            }
            let idle = |queue: &mut Queue| queue.waiting.is_empty() && !queue.is_ending;
            let mut queue = self.changed.wait_while(queue, idle).unwrap_or_else(PoisonError::into_inner);
            let Some(request) = queue.pop() else { return };
            queue.is_busy = true;
            is_compacted = false;
            drop(queue);
            let is_save = matches!(request.job, Job::Save { .. });
            // Wakers of handles are code of the game, too.
            let is_saved = catch_panic("a waker panicked", || Ok(self.work(request.job)));
            let is_saved = is_saved.unwrap_or_else(|error| {
                tracing::error!(%error, "after a request of a chunk world");
                false
            });
            if is_save {
                let mut queue = self.lock();
                queue.saves_waiting = queue.saves_waiting.saturating_sub(1);
                // One that failed is no reason to wait for the next.
                if is_saved {
                    queue.last_save = Instant::now();
                }
            }
        }
    }

    /// Does a job. A generator or an upgrader of the game may panic: then its request fails, and the others go on. Returns true
    /// if something was saved.
    fn work(&self, job: Job) -> bool {
        if job.is_cancelled() {
            job.fail(Error::cancelled("it was cancelled before its turn came"));
            return false;
        }
        match job {
            Job::Read { pos, promise } => {
                let read = || self.world.read(pos).map(|cells| cells.map(Arc::from));
                promise.complete(catch_panic(PANICKED, read));
            }
            Job::Load { pos, promise } => promise.complete(catch_panic(PANICKED, || self.world.load(pos))),
            Job::Save { mut edit, to, promise, .. } => {
                let result = catch_panic(PANICKED, || match to {
                    None => edit.commit_only(Durability::Synced),
                    Some(path) => self.world.save_to(path, &mut edit),
                });
                let is_saved = result.is_ok();
                promise.complete(result);
                return is_saved;
            }
            Job::Compact { promise } => {
                let watch = |done, total| promise.set_progress(Progress::new(Phase::Writing, done, total));
                let result = catch_panic(PANICKED, || self.world.compact(watch));
                promise.complete(result);
            }
        }
        false
    }

    /// Compacts step by step, if that is due, until a request comes. Returns true if there is more to do.
    fn compact_while_idle(&self) -> bool {
        let step = || Ok(self.world.step_compaction_or_warn());
        while catch_panic(PANICKED, step).unwrap_or(false) {
            if !self.lock().waiting.is_empty() {
                return true;
            }
        }
        false
    }
}

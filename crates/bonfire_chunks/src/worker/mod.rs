//! Reads and saves off the game's thread.
//!
//! | file | |
//! |---|---|
//! | `options` | threads and bounds |
//! | `statistics` | counts of requests |
//! | `request` | requests and the handles that follow them |
//! | `queue` | which request comes next |
//! | `thread` | the work |
//!
//! A load sees every save that was requested before it. A handle of a save is complete when the save is durable. Nothing that
//! is refused or fails is lost: the game gets its edit back.

mod options;
mod queue;
mod request;
mod statistics;
mod thread;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bonfire::{Error, Result};
use bonfire_store::Handle;
use bonfire_store::engine::Promise;

pub use self::options::WorkerOptions;
use self::queue::Queue;
pub use self::request::{
    BodiesHandle, ChunkLoadHandle, CommitHandle, EntitiesHandle, Priority, ReadHandle, RefusedSave,
    WholeChunkHandle,
};
use self::request::{LoadRequest, WriteRequest};
pub use self::statistics::{RequestCounts, RequestKind, WorkerStatistics};
use self::thread::Shared;
use crate::{ChunkPos, ChunkWorld, CommitReport, Edit};

/// Reads and saves the chunks of a world on threads of its own, so that the game never waits for the disk. Several threads
/// read, and one writes.
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
/// let saved = worker.save(edit)?;
/// let read = worker.read((0, 0), Priority::High); // sees the save, which was requested first
///
/// // In a game: look at `is_complete` every frame.
/// assert_eq!(read.wait()?.as_deref(), Some(&[7; 256][..]));
/// assert_eq!(saved.wait()?.full, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// | rule | |
/// |---|---|
/// | a load | sees every save of its chunk that was requested before it, and waits for no other |
/// | bodies | wait for every earlier save with bodies, which may take bodies out of any chunk |
/// | saves | are written in the order of their requests, and never wait for loads |
/// | bounds | 4,096 loads and 64 saves wait; [`WorkerOptions`] sets others |
/// | one load more | its handle completes with [`is_limit`](Error::is_limit) at once; request it again later |
/// | one save more | [`RefusedSave`] gives the edit back |
/// | a save that fails | [`CommitHandle::take_edit`] gives the edit back |
/// | a request that is [cancelled](Handle::cancel) before its turn | is not done, and leaves its place to another one |
/// | the end, or a drop | saves are finished; loads that wait fail with [`is_cancelled`](Error::is_cancelled) |
///
/// Compaction happens by itself, when more of the file is dead than it may be and nothing else is to be done.
pub struct ChunkWorker {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    can_read: bool,
    can_write: bool,
}

impl ChunkWorker {
    /// Starts the threads for this world, with the default options.
    pub fn new(world: ChunkWorld) -> Self {
        Self::options().start(world)
    }

    /// Settings for another number of threads, or other bounds.
    pub fn options() -> WorkerOptions {
        WorkerOptions::default()
    }

    fn start(world: ChunkWorld, options: WorkerOptions) -> Self {
        let (readers, slow_after) = (options.reading_threads, options.slow_after);
        let shared = Arc::new(Shared::new(world, Queue::new(options), slow_after));
        let mut worker = Self { shared, threads: Vec::new(), can_read: false, can_write: false };
        worker.can_write = worker.spawn("bonfire chunks write", Shared::write_until_end);
        for _ in 0..readers {
            worker.can_read |= worker.spawn("bonfire chunks read", Shared::read_until_end);
        }
        worker
    }

    /// Starts a thread. False if the system has none.
    fn spawn(&mut self, name: &str, work: fn(&Shared)) -> bool {
        let shared = self.shared.clone();
        match std::thread::Builder::new().name(name.into()).spawn(move || work(&shared)) {
            Ok(thread) => self.threads.push(thread),
            Err(error) => {
                tracing::error!(%error, "no thread for a chunk world");
                return false;
            }
        }
        true
    }

    /// Returns false if the system had no thread that reads.
    pub(crate) fn can_read(&self) -> bool {
        self.can_read
    }

    /// The world.
    pub fn world(&self) -> &ChunkWorld {
        &self.shared.world
    }

    /// Reads the cells of a chunk: see [`ChunkWorld::read`].
    pub fn read(&self, pos: impl Into<ChunkPos>, priority: Priority) -> ReadHandle {
        self.push_load(RequestKind::Read, pos.into(), priority, |world, pos| {
            Ok(world.read(pos)?.map(Arc::from))
        })
    }

    /// Reads a chunk as the game needs it, or makes it with the generator: see [`ChunkWorld::load`].
    pub fn load(&self, pos: impl Into<ChunkPos>, priority: Priority) -> ChunkLoadHandle {
        self.push_load(RequestKind::Load, pos.into(), priority, ChunkWorld::load)
    }

    /// Loads a chunk with its bodies and entities, all three of one moment: see [`ChunkWorld::load_whole`].
    pub fn load_whole(&self, pos: impl Into<ChunkPos>, priority: Priority) -> WholeChunkHandle {
        self.push_load(RequestKind::LoadWhole, pos.into(), priority, ChunkWorld::load_whole)
    }

    /// Does other reading work for a chunk on a reading thread, such as a load that also decodes what it finds. `read` sees all
    /// saves of the chunk that were requested before.
    pub fn load_with<T: Send + 'static>(
        &self,
        pos: impl Into<ChunkPos>,
        priority: Priority,
        read: impl FnOnce(&ChunkWorld, ChunkPos) -> Result<T> + Send + 'static,
    ) -> Handle<T> {
        self.push_load(RequestKind::LoadWhole, pos.into(), priority, read)
    }

    /// Reads the bodies of a chunk: see [`ChunkWorld::read_bodies`].
    pub fn read_bodies(&self, pos: impl Into<ChunkPos>, priority: Priority) -> BodiesHandle {
        self.push_load(RequestKind::ReadBodies, pos.into(), priority, |world, pos| {
            world.at_one_moment(pos, || world.read_bodies(pos))
        })
    }

    /// Reads the entities of a chunk: see [`ChunkWorld::read_entities`].
    pub fn read_entities(&self, pos: impl Into<ChunkPos>, priority: Priority) -> EntitiesHandle {
        self.push_load(RequestKind::ReadEntities, pos.into(), priority, |world, pos| {
            world.at_one_moment(pos, || Ok(world.read_entities(pos)?.map(Arc::from)))
        })
    }

    /// Saves an edit. Saves are done in the order in which they are requested. If it is not accepted, the edit comes back.
    pub fn save(&self, edit: Edit) -> Result<CommitHandle, RefusedSave> {
        self.push_save(edit, None, None)
    }

    /// Saves an edit that continues an earlier one: if that one fails, this one fails with the same error, and both edits come
    /// back.
    pub fn save_after(&self, edit: Edit, earlier: CommitHandle) -> Result<CommitHandle, RefusedSave> {
        self.push_save(edit, None, Some(earlier))
    }

    /// Saves an edit for a promise of a front end, whose handle the game has already. If there is an earlier edit that this one
    /// continues, see [`save_after`](Self::save_after). If the edit is not accepted, the promise has failed.
    pub fn save_for(
        &self,
        edit: Edit,
        earlier: Option<CommitHandle>,
        promise: Promise<CommitReport>,
    ) -> Result<CommitHandle, RefusedSave> {
        self.push_request(edit, |edit| WriteRequest::save_for(edit, None, earlier, promise))
    }

    /// Writes the world with the changes of an edit to another path: see [`ChunkWorld::save_to`]. The world has what was
    /// requested to be saved before.
    pub fn save_to(&self, path: impl Into<PathBuf>, edit: Edit) -> Result<CommitHandle, RefusedSave> {
        self.push_save(edit, Some(path.into()), None)
    }

    /// The same, for a promise of a front end, whose handle the game has already.
    pub fn save_to_for(
        &self,
        path: impl Into<PathBuf>,
        edit: Edit,
        promise: Promise<CommitReport>,
    ) -> Result<CommitHandle, RefusedSave> {
        self.push_request(edit, |edit| WriteRequest::save_for(edit, Some(path.into()), None, promise))
    }

    /// Compacts the file.
    pub fn compact(&self) -> Handle<()> {
        let (request, handle) = WriteRequest::compact();
        if let Err(refused) = self.push_write(request) {
            let (error, request) = *refused;
            request.fail(error).complete();
        }
        handle
    }

    fn push_load<T: Send + 'static>(
        &self,
        kind: RequestKind,
        pos: ChunkPos,
        priority: Priority,
        read: impl FnOnce(&ChunkWorld, ChunkPos) -> Result<T> + Send + 'static,
    ) -> Handle<T> {
        let (load, handle) = LoadRequest::new(kind, pos, priority, read);
        if !self.can_read {
            load.fail(no_thread()).complete();
            return handle;
        }
        self.make_room(true);
        let pushed = self.shared.lock().push_load(load);
        match pushed {
            Ok(true) => self.shared.wake_reader(),
            Ok(false) => {}
            Err((error, load)) => load.fail(error).complete(),
        }
        handle
    }

    fn push_save(
        &self,
        edit: Edit,
        to: Option<PathBuf>,
        after: Option<CommitHandle>,
    ) -> Result<CommitHandle, RefusedSave> {
        self.push_request(edit, |edit| WriteRequest::save(edit, to, after))
    }

    fn push_request(
        &self,
        edit: Edit,
        request: impl FnOnce(Edit) -> (WriteRequest, CommitHandle),
    ) -> Result<CommitHandle, RefusedSave> {
        if let Err(error) = self.shared.world.check_own(&edit) {
            return Err(RefusedSave::new(error, Box::new(edit)));
        }
        let (request, handle) = request(edit);
        match self.push_write(request) {
            Ok(()) => Ok(handle),
            Err(refused) => {
                let (error, request) = *refused;
                match request.into_edit(&error) {
                    Some(edit) => Err(RefusedSave::new(error, edit)),
                    None => unreachable!("a save has an edit"),
                }
            }
        }
    }

    fn push_write(&self, request: WriteRequest) -> Result<(), Box<(Error, WriteRequest)>> {
        if !self.can_write {
            return Err(Box::new((no_thread(), request)));
        }
        self.make_room(false);
        self.shared.lock().push_write(request)?;
        self.shared.wake_writer();
        Ok(())
    }

    /// Takes what was cancelled out of a full queue.
    fn make_room(&self, for_load: bool) {
        let mut queue = self.shared.lock();
        if queue.is_full(for_load) {
            let removed = queue.remove_cancelled();
            drop(queue);
            self.shared.drop_cancelled(removed);
        }
    }

    fn drop_cancelled(&self) {
        let removed = self.shared.lock().remove_cancelled();
        self.shared.drop_cancelled(removed);
    }

    /// Returns true if it is time to save: no save waits, and the last one of any kind was done so long ago. Ask every frame.
    /// 60 seconds are a good interval.
    pub fn is_autosave_due(&self, interval: Duration) -> bool {
        let queue = self.shared.lock();
        !queue.is_saving() && queue.last_save.elapsed() >= interval
    }

    /// The time since the last save of any kind was done, or since the worker was started.
    pub fn since_last_save(&self) -> Duration {
        self.shared.lock().last_save.elapsed()
    }

    /// Returns its state and its counts.
    pub fn statistics(&self) -> WorkerStatistics {
        self.drop_cancelled();
        self.shared.lock().statistics
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.drop_cancelled();
        self.shared.lock().waiting()
    }

    /// Returns true if nothing waits and nothing is being done.
    pub fn is_idle(&self) -> bool {
        self.shared.lock().is_idle()
    }

    /// Waits until everything is done, but not longer than this. False if something is left.
    pub fn finish(&self, deadline: Duration) -> bool {
        self.shared.wait_until_idle(deadline)
    }

    /// Ends the worker: saves that wait are finished, loads and compactions that wait fail, and further requests are refused.
    /// To wait for the saves, call [`finish`](Self::finish) or drop the worker.
    pub fn end(&self) {
        let removed = self.shared.lock().end();
        self.shared.wake_all();
        let error = Error::cancelled("the worker has ended before this began: start another one");
        self.shared.fail_removed(removed, &error);
    }
}

impl Drop for ChunkWorker {
    fn drop(&mut self) {
        self.end();
        for thread in self.threads.drain(..) {
            // A panic there has been reported there.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for ChunkWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkWorker").field("waiting", &self.shared.lock().waiting()).finish_non_exhaustive()
    }
}

fn no_thread() -> Error {
    Error::limit("the system has no thread for this chunk world")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChunkOptions, Layer, Layers, Persistence};
    use bonfire_store::disk::{Access, MemoryDisk};

    #[test]
    fn without_threads_every_request_is_refused_and_nothing_hangs() {
        let layers = Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always));
        let options = ChunkOptions::new(layers).chunk_size(4);
        let world = options.open_on(MemoryDisk::new(), "world.save", Access::Write).unwrap();
        let options = ChunkWorker::options();
        let shared = Arc::new(Shared::new(world.clone(), Queue::new(options), Duration::MAX));
        let worker = ChunkWorker { shared, threads: Vec::new(), can_read: false, can_write: false };
        assert!(worker.load((0, 0), Priority::High).wait().unwrap_err().is_limit());
        assert!(worker.compact().wait().unwrap_err().is_limit());
        let mut edit = world.edit();
        edit.put((0, 0), vec![1; 16]);
        let refused = worker.save(edit).unwrap_err();
        assert!(refused.error().is_limit() && !refused.into_edit().is_empty());
        assert!(worker.finish(Duration::ZERO));
    }
}

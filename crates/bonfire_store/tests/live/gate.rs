//! A disk whose durable steps wait at a gate, and that remembers which names files were given.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use bonfire_store::disk::{Access, Disk, DiskFile, DiskLock, MemoryDisk};
use bonfire_store::{DirStore, SaveHandle, Saver, Slots};

use crate::common::world;

/// Where calls wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Write,
    Sync,
    SyncDir,
}

/// Calls wait at it while it is closed. It opens when the test is over: a saver waits for its thread, also in a test that
/// has failed.
pub(crate) struct Gate(Post);

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

/// The side of the disk.
#[derive(Clone, Default)]
struct Post(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    closed: Option<At>,
    /// How many calls it lets through before it is closed.
    after: usize,
    /// Where somebody waits.
    waiting: Option<At>,
    named: Vec<String>,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state()
    }

    /// Closes it there, and there alone: who waits elsewhere goes on.
    pub(crate) fn close(&self, at: At) {
        self.close_after(at, 0);
    }

    pub(crate) fn close_after(&self, at: At, calls: usize) {
        let mut state = self.state();
        (state.closed, state.after) = (Some(at), calls);
        self.0.0.1.notify_all();
    }

    pub(crate) fn open(&self) {
        self.state().closed = None;
        self.0.0.1.notify_all();
    }

    /// Blocks until somebody waits where it is closed.
    pub(crate) fn reached(&self) {
        let elsewhere = |state: &mut State| state.waiting.is_none() || state.waiting != state.closed;
        drop(self.0.0.1.wait_while(self.state(), elsewhere).expect("no test panics at the gate"));
    }

    /// The names that files were given, in order.
    pub(crate) fn named(&self) -> Vec<String> {
        self.state().named.clone()
    }
}

impl Post {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().expect("no test panics at the gate")
    }

    fn pass(&self, at: At) {
        let mut state = self.state();
        if state.closed != Some(at) {
            return;
        }
        if state.after > 0 {
            state.after -= 1;
            return;
        }
        state.waiting = Some(at);
        self.0.1.notify_all();
        let mut state = self.0.1.wait_while(state, |state| state.closed == Some(at)).expect("no panics");
        state.waiting = None;
    }
}

/// A disk behind a gate.
struct GateDisk<D>(D, Post);

struct GateFile(Box<dyn DiskFile>, Post);

impl<D: Disk> Disk for GateDisk<D> {
    fn open(&self, name: &str, access: Access) -> io::Result<Box<dyn DiskFile>> {
        self.0.open(name, access)
    }
    fn create_new(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(GateFile(self.0.create_new(name)?, self.1.clone())))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.1.state().named.push(to.to_owned());
        self.0.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }
    fn sync_dir(&self) -> io::Result<()> {
        self.1.pass(At::SyncDir);
        self.0.sync_dir()
    }
    fn lock(&self, name: &str) -> io::Result<Option<DiskLock>> {
        self.0.lock(name)
    }
}

impl DiskFile for GateFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(bytes, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.1.pass(At::Write);
        self.0.write_at(bytes, offset)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        self.1.pass(At::Sync);
        self.0.sync()
    }
    fn stamp(&self) -> io::Result<u64> {
        self.0.stamp()
    }
}

/// A saver on a disk behind a gate.
pub(crate) fn gated() -> (Saver, Gate) {
    let post = Post::default();
    let store = DirStore::on(GateDisk(MemoryDisk::new(), post.clone())).expect("an empty disk");
    (Saver::new(Slots::new(store)), Gate(post))
}

/// One whose thread is held in the middle of a save of the slot `first`: everything else waits.
pub(crate) fn held() -> (Saver, Gate, SaveHandle) {
    let (saver, gate) = gated();
    gate.close(At::Sync);
    let first = saver.save("first", world(0), bonfire_store::Details::new());
    gate.reached();
    (saver, gate, first)
}

//! Gates for the tests of the worker: a generator and a disk that wait until the test lets them go.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use bonfire_chunks::{ChunkPos, ChunkWorld, Durability, Edit, Generator, WorldShape};
use bonfire_store::disk::{Access, Disk, DiskFile, DiskLock, MemoryDisk};

use crate::support::*;

pub const NAME: &str = "world.save";
pub const LONG: Duration = Duration::from_secs(60);

/// Waits until something has happened in another thread.
pub fn wait_until(mut happened: impl FnMut() -> bool) {
    while !happened() {
        std::thread::yield_now();
    }
}

/// An edit of one chunk.
pub fn edit_of(world: &ChunkWorld, pos: (i32, i32), cells: Vec<u8>) -> Edit {
    let mut edit = world.edit();
    edit.put(pos, cells);
    edit
}

/// A generator that lets no chunk pass until it is opened, and notes which ones came by.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<Passage>, Condvar)>);

#[derive(Default)]
struct Passage {
    is_open: bool,
    passed: Vec<ChunkPos>,
}

impl Gate {
    pub fn open(&self) {
        self.0.0.lock().unwrap().is_open = true;
        self.0.1.notify_all();
    }
    /// Opens it when a test ends early: a worker that is dropped waits for its threads.
    pub fn opens_at_the_end(&self) -> impl Drop + use<> {
        let gate = self.clone();
        AtTheEnd(move || gate.open())
    }
    pub fn passed(&self) -> Vec<ChunkPos> {
        self.0.0.lock().unwrap().passed.clone()
    }
    /// Waits until so many chunks have come to the gate.
    pub fn wait_for(&self, chunks: usize) {
        wait_until(|| self.passed().len() >= chunks);
    }
}

impl Generator for Gate {
    fn generate(&self, _: &WorldShape<'_>, pos: ChunkPos, _: &mut [u8]) {
        let mut state = self.0.0.lock().unwrap();
        state.passed.push(pos);
        drop(self.0.1.wait_while(state, |state| !state.is_open).unwrap());
    }
}

struct AtTheEnd<F: Fn()>(F);

impl<F: Fn()> Drop for AtTheEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A world with some chunks that are deltas, whose reads wait at the gate.
pub fn gated(chunks: i32) -> (ChunkWorld, Gate) {
    let gate = Gate::default();
    gate.open();
    let disk = MemoryDisk::new();
    let world = options().generator(gate.clone()).threads(1).open_on(disk, NAME, Access::Write).unwrap();
    for x in 0..chunks {
        let changed = cells(|cx, cy| if (cx, cy) == (0, 0) { [x as u8 + 1, 0, 0, 0] } else { [0; 4] });
        edit_of(&world, (x, 0), changed).commit(Durability::Synced).unwrap();
    }
    *gate.0.0.lock().unwrap() = Passage::default();
    (world, gate)
}

/// A disk whose syncs wait until the test lets them go, and which may be full.
#[derive(Clone, Default)]
pub struct GatedDisk {
    memory: MemoryDisk,
    state: Arc<(Mutex<DiskState>, Condvar)>,
}

#[derive(Clone, Copy, Default)]
struct DiskState {
    is_closed: bool,
    is_full: bool,
    /// Syncs that pass though it is closed.
    passes: usize,
    /// Syncs that have begun.
    begun: usize,
    /// Syncs that have returned.
    returned: usize,
}

impl GatedDisk {
    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.state.0.lock().unwrap()
    }
    /// From now on, a sync waits until the test opens the disk or ends.
    pub fn close(&self) -> impl Drop + use<> {
        self.state().is_closed = true;
        let disk = self.clone();
        AtTheEnd(move || disk.open())
    }
    /// Lets one sync pass.
    pub fn let_one_pass(&self) {
        self.state().passes += 1;
        self.state.1.notify_all();
    }
    pub fn open(&self) {
        self.state.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).is_closed = false;
        self.state.1.notify_all();
    }
    pub fn set_full(&self, is_full: bool) {
        self.state().is_full = is_full;
    }
    /// Syncs that wait at the gate.
    pub fn syncs_waiting(&self) -> usize {
        let state = self.state();
        state.begun - state.returned
    }
    pub fn syncs_returned(&self) -> usize {
        self.state().returned
    }
}

impl Disk for GatedDisk {
    fn open(&self, name: &str, access: Access) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(GatedFile { file: self.memory.open(name, access)?, disk: self.clone() }))
    }
    fn create_new(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(GatedFile { file: self.memory.create_new(name)?, disk: self.clone() }))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.memory.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.memory.remove(name)
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.memory.list()
    }
    fn sync_dir(&self) -> io::Result<()> {
        self.memory.sync_dir()
    }
    fn lock(&self, name: &str) -> io::Result<Option<DiskLock>> {
        self.memory.lock(name)
    }
}

struct GatedFile {
    file: Box<dyn DiskFile>,
    disk: GatedDisk,
}

impl DiskFile for GatedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(bytes, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if self.disk.state().is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.write_at(bytes, offset)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        let (state, changed) = &*self.disk.state;
        let mut state = state.lock().unwrap();
        state.begun += 1;
        let mut state = changed.wait_while(state, |state| state.is_closed && state.passes == 0).unwrap();
        state.passes = state.passes.saturating_sub(1);
        state.returned += 1;
        drop(state);
        self.file.sync()
    }
    fn stamp(&self) -> io::Result<u64> {
        self.file.stamp()
    }
}

//! The file below a world: frames that are found by their key, and saves that are there as a whole or not at all. What the
//! frames hold is not its business.
//!
//! A save is appended, and durable after one sync. Header and page table are brought up to date now and then (a *checkpoint*): until
//! then, and whenever something stops half-way, the saves behind the last checkpoint are replayed. The order of writes and
//! syncs, and why a crash at any point is harmless, is in ARCHITECTURE.md.
//!
//! | file | |
//! |---|---|
//! | `frame_scanner`, `replay`, `recover` | opening: from bytes of unknown origin to where everything is |
//! | `indices`, `report` | what opening gives |
//! | `writer_state`, `frame_writer`, `commit` | saves |
//! | `checkpoint` | header, table and side index brought up to date; growth of the table |
//! | `repair` | what is done before a file can be written to |
//! | `rewrite` | new files: creation, compaction, copies |
//! | `seal` | frames that need a key |

mod checkpoint;
mod commit;
mod frame_scanner;
mod frame_writer;
mod indices;
mod recover;
mod repair;
mod replay;
mod report;
mod rewrite;
mod seal;
#[cfg(test)]
mod tests;
mod writer_state;

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bonfire::{Error, Result};
use bonfire_store::disk::{Access, Disk, DiskFile, DiskLock};

pub(crate) use self::commit::{Change, NewFrame};
pub(crate) use self::indices::Indices;
use self::recover::{Recovered, Repair, recover};
pub use self::report::{DamagedFrame, OpenReport};
pub(crate) use self::rewrite::NewFile;
pub(crate) use self::seal::{Seal, SealKey};
use self::writer_state::WriterState;
use crate::format::{Flags, Frame, FrameKey, FramePlace, FrameTag, Header};

/// The policy for checkpoints and compaction of a file.
#[derive(Clone, Debug)]
pub(crate) struct FileOptions {
    /// Header and table are current after every save.
    pub(crate) eager: bool,
    /// Entries that a new page table has room for at least.
    pub(crate) capacity_min: u32,
    /// The share of the file that may be dead, if the file compacts itself.
    pub(crate) dead_share_max: Option<f64>,
    /// Dead bytes that are never worth a compaction.
    pub(crate) dead_bytes_min: u64,
}

pub(crate) struct ChunkFile {
    disk: Arc<dyn Disk>,
    name: String,
    access: Access,
    options: FileOptions,
    state: RwLock<State>,
    /// `None` if it is open for reading only, or closed.
    writer: Mutex<Option<WriterState>>,
    /// Copies that are being made: frames must stay where they are.
    pins: AtomicUsize,
    /// Dead bytes below which it does not compact by itself.
    dead_bytes_min: AtomicU64,
}

/// What readers look at.
pub(crate) struct State {
    file: Arc<dyn DiskFile>,
    pub(crate) indices: Indices,
    pub(crate) header: Header,
    pub(crate) generation: u64,
    /// Counts how often frames were moved.
    moves: u64,
    seal: Option<Arc<Seal>>,
    /// How the file is sealed; empty if it is not.
    seal_info: Vec<u8>,
    /// Bytes of the file up to the last save.
    end: u64,
}

impl State {
    /// Bytes of the file that nothing needs any more.
    pub(crate) fn dead_bytes(&self) -> u64 {
        (self.end - self.header.data_start).saturating_sub(self.indices.frame_bytes())
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.end
    }
}

/// Names of files beside a world.
pub(crate) fn lock_name(name: &str) -> String {
    format!("{name}.lock")
}

pub(crate) fn temporary_name(name: &str) -> String {
    format!("{name}.tmp")
}

impl ChunkFile {
    /// Opens a file that is there, and repairs it if it may be written to.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        name: &str,
        access: Access,
        options: FileOptions,
        key: Option<&SealKey>,
    ) -> Result<(Self, OpenReport)> {
        let lock = match access {
            Access::Read => None,
            Access::Write => Some(take_lock(&*disk, name)?),
        };
        let file = disk.open(name, access).map_err(io_error("open", name))?;
        let mut recovered = match access {
            Access::Write => recover(&*file)?,
            Access::Read => recover_beside_a_writer(&*file)?,
        };
        let mut report = std::mem::take(&mut recovered.report);
        let header = match recovered.header.take() {
            Some(header) => header,
            None => rewrite::lost_header(&*file, &recovered.indices)?,
        };
        let seal_info = seal::info_of_file(&header, &recovered, &*file)?;
        let seal = Seal::of_file(key, &seal_info)?;
        let state = State {
            file: file.into(),
            header: header.clone(),
            generation: recovered.generation,
            moves: 0,
            seal,
            seal_info,
            end: recovered.end,
            indices: std::mem::take(&mut recovered.indices),
        };
        let dead_bytes_min = options.dead_bytes_min;
        let world = Self {
            disk,
            name: name.to_owned(),
            access,
            options,
            state: RwLock::new(state),
            writer: Mutex::new(None),
            pins: AtomicUsize::new(0),
            dead_bytes_min: AtomicU64::new(dead_bytes_min),
        };
        if let Some(lock) = lock {
            report.stale_files_removed = world.remove_stale()?;
            world.repair(WriterState::new(lock, header, &recovered), &recovered, &report)?;
        }
        Ok((world, report))
    }

    /// What a crash has left of a file that was to be.
    fn remove_stale(&self) -> Result<u32> {
        match self.disk.remove(&temporary_name(&self.name)) {
            Ok(()) => {
                self.disk.sync_dir().map_err(io_error("remove a temporary file of", &self.name))?;
                Ok(1)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(io_error("remove a temporary file of", &self.name)(error)),
        }
    }

    /// Makes the file one that saves can be appended to.
    fn repair(&self, mut writer: WriterState, recovered: &Recovered, report: &OpenReport) -> Result<()> {
        if matches!(recovered.repair, Repair::Tail | Repair::Checkpoint) {
            self.repair_tail(&mut writer, recovered)?;
        }
        *self.writer() = Some(writer);
        let change = self.quarantine(&report.damaged)?;
        match recovered.repair {
            Repair::Nothing | Repair::Tail => Ok(()),
            Repair::Checkpoint => {
                self.commit(change, crate::Durability::Synced)?;
                self.checkpoint_all()
            }
            Repair::Rewrite => self.compact_with(change, &mut |_, _| {}),
        }
    }

    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn writer(&self) -> MutexGuard<'_, Option<WriterState>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.writer().is_some()
    }

    /// Hands the data of a frame to `use_it`. `None` if there is no such frame; an error if there is one and it is damaged.
    pub(crate) fn read<T>(
        &self,
        key: FrameKey,
        use_it: impl FnOnce(FrameTag, &[u8]) -> Result<T>,
    ) -> Result<Option<T>> {
        thread_local! {
            static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        // Taken out: what `use_it` calls may read too.
        let mut bytes = BUFFER.take();
        let place = self.read_frame(key, &mut bytes);
        let used = match place {
            Ok(Some((place, seal))) => {
                let data = crate::format::SIZE_BYTES as usize..(place.end() - place.start()) as usize;
                let trailer = data.end - crate::format::TRAILER_BYTES as usize;
                let data = match &seal {
                    Some(seal) => seal.open(&mut bytes[data], key),
                    None if Seal::covers(key.kind) && self.flags().has(Flags::SEALED) => {
                        Err(no_key(&self.name))
                    }
                    None => Ok(&bytes[data.start..trailer]),
                };
                data.and_then(|data| use_it(place.tag, data)).map(Some)
            }
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        if bytes.capacity() <= 16 << 20 {
            BUFFER.set(bytes);
        }
        used
    }

    /// Reads a frame as it lies in the file, checked.
    fn read_frame(
        &self,
        key: FrameKey,
        bytes: &mut Vec<u8>,
    ) -> Result<Option<(FramePlace, Option<Arc<Seal>>)>> {
        loop {
            let (file, place, moves, seal) = {
                let state = self.state();
                let Some(place) = state.indices.get(key) else {
                    let was_damaged =
                        key.kind.damaged().and_then(|kind| state.indices.get(FrameKey::new(kind, key.pos)));
                    return if was_damaged.is_some() {
                        Err(damaged(key, "it was found damaged earlier"))
                    } else {
                        Ok(None)
                    };
                };
                (state.file.clone(), place, state.moves, state.seal.clone())
            };
            match read_place(&*file, key, place, bytes) {
                Ok(place) => return Ok(Some((place, seal))),
                // It was moved between the look and the read.
                Err(_) if self.state().moves != moves => {}
                // Another process may have moved it, and has written another header since.
                Err(error) if error.is_corrupt() && self.access == Access::Read && self.is_outdated() => {
                    self.refresh()?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether another process has written a checkpoint to, or replaced, the file since it was looked at.
    fn is_outdated(&self) -> bool {
        let Ok(file) = self.disk.open(&self.name, Access::Read) else { return false };
        let mut header = [0; crate::format::HEADER_BYTES as usize];
        file.read_exact_at(&mut header, 0).is_ok() && header != self.state().header.encode()
    }

    /// Looks at what another process has saved since.
    pub(crate) fn refresh(&self) -> Result<()> {
        if self.is_writable() {
            return Ok(());
        }
        let file = self.disk.open(&self.name, Access::Read).map_err(io_error("open", &self.name))?;
        let recovered = recover_beside_a_writer(&*file)?;
        let header = recovered.header.ok_or_else(|| Error::corrupt("the header of this world is lost"))?;
        let mut state = self.state_mut();
        *state = State {
            file: file.into(),
            indices: recovered.indices,
            header,
            generation: recovered.generation,
            moves: state.moves + 1,
            seal: state.seal.take(),
            seal_info: std::mem::take(&mut state.seal_info),
            end: recovered.end,
        };
        Ok(())
    }

    /// The kinds and places of everything that cannot be read. `looked_at` hears of each frame.
    pub(crate) fn check(&self, looked_at: &mut dyn FnMut(u64, u64)) -> Vec<(DamagedFrame, Error)> {
        let all: Vec<(FrameKey, FramePlace)> = self.state().indices.iter().collect();
        let (mut found, mut bytes) = (Vec::new(), Vec::new());
        for (number, (key, place)) in all.iter().enumerate() {
            if let Err(error) = self.read_frame(*key, &mut bytes) {
                found.push((DamagedFrame::new(*key, *place), error));
            }
            looked_at(number as u64 + 1, all.len() as u64);
        }
        found
    }

    /// Keeps frames where they are until the guard is dropped.
    fn pin(&self) -> ReadPin<'_> {
        self.pins.fetch_add(1, Ordering::AcqRel);
        ReadPin(self)
    }

    pub(crate) fn flags(&self) -> Flags {
        self.state().header.flags
    }
}

struct ReadPin<'f>(&'f ChunkFile);

impl Drop for ReadPin<'_> {
    fn drop(&mut self) {
        self.0.pins.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Reads the frame that should be at a place, from its size word to its last byte. The tag of the place that is returned is the
/// frame's own: that of a table entry has no checksum.
fn read_place(
    file: &dyn DiskFile,
    key: FrameKey,
    place: FramePlace,
    bytes: &mut Vec<u8>,
) -> Result<FramePlace> {
    let len = usize::try_from(place.frame_bytes()).map_err(|_| damaged(key, "it is longer than memory"))?;
    // What a damaged table claims is not believed before the file is known to be so long.
    if len > 1 << 20 && file.len().map_err(|error| failed(key, error))? < place.end() {
        return Err(damaged(key, "the file ends before it"));
    }
    bytes.resize(len, 0);
    file.read_exact_at(bytes, place.start()).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => damaged(key, "the file ends before it"),
        _ => failed(key, error),
    })?;
    let frame = Frame::check(bytes, &place).ok_or_else(|| damaged(key, "its checksum is wrong"))?;
    if frame.key() != key {
        return Err(damaged(key, "something else lies in its place"));
    }
    Ok(frame.place)
}

/// For who reads or writes a sealed world without a key.
fn no_key(name: &str) -> Error {
    Error::wrong_key(format!("`{name}` is sealed, and no key was given"))
}

fn failed(key: FrameKey, error: std::io::Error) -> Error {
    Error::io(format_args!("cannot read the {} at {}", key.kind.name(), key.pos), error)
}

fn damaged(key: FrameKey, why: &str) -> Error {
    Error::corrupt(format!("the {} at {} is damaged: {why}", key.kind.name(), key.pos))
}

pub(crate) fn io_error<'n>(what: &'n str, name: &'n str) -> impl Fn(std::io::Error) -> Error + 'n {
    move |error| Error::io(format_args!("cannot {what} `{name}`"), error)
}

fn take_lock(disk: &dyn Disk, name: &str) -> Result<DiskLock> {
    let lock = disk.lock(&lock_name(name)).map_err(io_error("lock", name))?;
    lock.ok_or_else(|| {
        Error::conflict(format!("`{name}` is open for writing already, here or in another process"))
    })
}

/// Another process may write a checkpoint while this one reads. Header, table and saves are read in this order, so that whatever a checkpoint
/// has changed of the first two is in the saves; only if a second checkpoint came in between it is read once more.
fn recover_beside_a_writer(file: &dyn DiskFile) -> Result<Recovered> {
    const TRIES: usize = 8;
    let header = || {
        let mut bytes = [0; crate::format::HEADER_BYTES as usize];
        file.read_exact_at(&mut bytes, 0).map(|()| bytes).ok()
    };
    let mut before = header();
    let mut tries = 1;
    let mut recovered = loop {
        let recovered = recover(file);
        let after = header();
        if before == after || tries == TRIES {
            break recovered?;
        }
        (before, tries) = (after, tries + 1);
    };
    // Nobody puts aside what is damaged in a file that is only read, and it is not to be taken for something that was never
    // there.
    for frame in &recovered.report.damaged {
        if let Some(kind) = frame.key.kind.damaged() {
            recovered.indices.set(FrameKey::new(kind, frame.key.pos), frame.place);
        }
    }
    Ok(recovered)
}

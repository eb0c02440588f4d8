//! A disk whose n-th call fails.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bonfire_store::disk::{Access, Disk, DiskFile, DiskLock};

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of the calls")]
pub enum Call {
    Open,
    Create,
    Rename,
    Remove,
    List,
    SyncDir,
    Lock,
    Len,
    Read,
    Write,
    SetLen,
    Sync,
    Stamp,
    ForgetCached,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `EIO`: the disk is broken. A write has written a part.
    Io,
    /// `ENOSPC`: the disk is full. A write has written a part.
    Full,
    /// `EMFILE`: the program has too many files open. Only calls that open one fail.
    TooManyFiles,
    /// A read or a write does a part of what it was asked for, and says so. Other calls do not know it.
    Short,
    /// `EINTR`: a signal came first. Nothing was done. Repeated, every second call is interrupted: real signals end.
    /// Only reads and writes: disks make the other calls again themselves.
    Interrupted,
}

impl Fault {
    /// All of them but those that another one stands for.
    pub const ALL: [Self; 4] = [Self::Io, Self::Full, Self::Short, Self::Interrupted];

    /// Whether `call` can fail in this way.
    fn applies(self, call: Call) -> bool {
        match self {
            Self::Short | Self::Interrupted => matches!(call, Call::Read | Call::Write),
            Self::TooManyFiles => matches!(call, Call::Open | Call::Create | Call::List | Call::Lock),
            Self::Io | Self::Full => true,
        }
    }

    /// Whether nobody but the loop that reads or writes may notice.
    pub fn is_harmless(self, call: Call) -> bool {
        matches!(self, Self::Short | Self::Interrupted) && matches!(call, Call::Read | Call::Write)
    }

    fn error(self) -> io::Error {
        match self {
            // The code matters: it says that the disk cannot read, and must not be taken for damage.
            Self::Io => io::Error::from_raw_os_error(5),
            Self::TooManyFiles => io::Error::from_raw_os_error(24),
            Self::Full => ErrorKind::StorageFull.into(),
            Self::Short | Self::Interrupted => ErrorKind::Interrupted.into(),
        }
    }
}

/// How often it goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// The n-th call alone.
    Once,
    /// The n-th call and all after it.
    Forever,
}

/// Which calls fail, and how.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What goes wrong.
    pub fault: Fault,
    /// At which call, from 1.
    pub nth: usize,
    /// Of which kind of calls; all are counted if it is `None`.
    pub of: Option<Call>,
    /// How often.
    pub repeat: Repeat,
}

/// A disk whose n-th call fails.
///
/// A sync that fails behaves as it does on Linux, where nothing remembers it: what was not durable is lost, and the next
/// sync of the same file says that all is well. Here the lost bytes are gone at once, so that code which syncs again and
/// reports success is found by reading.
pub struct FaultyDisk<D>(Arc<Shared<D>>);

impl<D> Clone for FaultyDisk<D> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

struct Shared<D> {
    disk: D,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    plan: Option<Plan>,
    counted: usize,
    calls: Vec<Call>,
    fired: Vec<Call>,
    syncs_after_failure: usize,
    /// By name, what is durable of the files.
    files: HashMap<String, Arc<Mutex<Durable>>>,
}

/// What a file holds for certain.
struct Durable {
    bytes: Vec<u8>,
    sync_failed: bool,
}

impl<D: Disk> FaultyDisk<D> {
    /// A disk that is as well as `disk`, until [`fail`](Self::fail) is called.
    pub fn new(disk: D) -> Self {
        Self(Arc::new(Shared { disk, state: Mutex::default() }))
    }

    /// Lets calls fail from now on; counting begins now.
    pub fn fail(&self, plan: Plan) {
        let mut state = self.state();
        (state.plan, state.counted) = (Some(plan), 0);
        state.calls.clear();
        state.fired.clear();
    }

    /// Lets no more calls fail.
    pub fn heal(&self) {
        self.state().plan = None;
    }

    /// The calls since [`fail`](Self::fail).
    pub fn calls(&self) -> Vec<Call> {
        self.state().calls.clone()
    }

    /// The calls that failed since [`fail`](Self::fail).
    pub fn fired(&self) -> Vec<Call> {
        self.state().fired.clone()
    }

    /// How often a file was synced of which a sync had failed before.
    pub fn syncs_after_failure(&self) -> usize {
        self.state().syncs_after_failure
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, file: Box<dyn DiskFile>, durable: Arc<Mutex<Durable>>) -> Box<dyn DiskFile>
    where
        D: 'static,
    {
        Box::new(FaultyFile { file, durable, disk: self.clone() })
    }

    /// Counts a call, and tells what goes wrong with it.
    fn fault(&self, call: Call) -> Option<Fault> {
        let mut state = self.state();
        state.calls.push(call);
        let plan = state.plan.filter(|plan| plan.of.is_none_or(|of| of == call))?;
        state.counted += 1;
        let behind = state.counted.checked_sub(plan.nth)?;
        let is_due = match (plan.repeat, plan.fault) {
            (Repeat::Once, _) => behind == 0,
            (Repeat::Forever, Fault::Interrupted) => behind % 2 == 0,
            (Repeat::Forever, _) => true,
        };
        let fault = (is_due && plan.fault.applies(call)).then_some(plan.fault)?;
        state.fired.push(call);
        Some(fault)
    }

    fn call(&self, call: Call) -> io::Result<()> {
        self.fault(call).map_or(Ok(()), |fault| Err(fault.error()))
    }
}

fn contents(file: &dyn DiskFile) -> io::Result<Vec<u8>> {
    let len = usize::try_from(file.len()?).map_err(|_| ErrorKind::OutOfMemory)?;
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

impl<D: Disk + 'static> Disk for FaultyDisk<D> {
    fn open(&self, name: &str, access: Access) -> io::Result<Box<dyn DiskFile>> {
        self.call(Call::Open)?;
        let file = self.0.disk.open(name, access)?;
        let durable = self.state().files.get(name).cloned();
        let durable = match durable {
            Some(durable) => durable,
            None => {
                let new = Arc::new(Mutex::new(Durable { bytes: contents(&*file)?, sync_failed: false }));
                self.state().files.insert(name.to_owned(), new.clone());
                new
            }
        };
        Ok(self.file(file, durable))
    }

    fn create_new(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.call(Call::Create)?;
        let file = self.0.disk.create_new(name)?;
        let durable = Arc::new(Mutex::new(Durable { bytes: Vec::new(), sync_failed: false }));
        self.state().files.insert(name.to_owned(), durable.clone());
        Ok(self.file(file, durable))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.call(Call::Rename)?;
        self.0.disk.rename(from, to)?;
        let mut state = self.state();
        match state.files.remove(from) {
            Some(durable) => state.files.insert(to.to_owned(), durable),
            None => state.files.remove(to),
        };
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.call(Call::Remove)?;
        self.0.disk.remove(name)?;
        self.state().files.remove(name);
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.call(Call::List)?;
        self.0.disk.list()
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.call(Call::SyncDir)?;
        self.0.disk.sync_dir()
    }

    fn lock(&self, name: &str) -> io::Result<Option<DiskLock>> {
        self.call(Call::Lock)?;
        self.0.disk.lock(name)
    }
}

struct FaultyFile<D> {
    file: Box<dyn DiskFile>,
    durable: Arc<Mutex<Durable>>,
    disk: FaultyDisk<D>,
}

impl<D: Disk> FaultyFile<D> {
    fn durable(&self) -> MutexGuard<'_, Durable> {
        self.durable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the file back to what it was when it was last synced. Bytes that have not changed are not touched.
    fn lose_changes(&self, durable: &Durable) -> io::Result<()> {
        let now = contents(&*self.file)?;
        let differs = |index: &usize| now.get(*index) != Some(&durable.bytes[*index]);
        let mut changed = (0..durable.bytes.len()).filter(differs);
        if let Some(first) = changed.next() {
            let last = changed.next_back().unwrap_or(first);
            self.file.write_all_at(&durable.bytes[first..=last], first as u64)?;
        }
        if now.len() > durable.bytes.len() {
            self.file.set_len(durable.bytes.len() as u64)?;
        }
        Ok(())
    }
}

impl<D: Disk> DiskFile for FaultyFile<D> {
    fn len(&self) -> io::Result<u64> {
        self.disk.call(Call::Len)?;
        self.file.len()
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        match self.disk.fault(Call::Read) {
            None => self.file.read_at(bytes, offset),
            Some(Fault::Short) => {
                let part = bytes.len().div_ceil(2);
                self.file.read_at(&mut bytes[..part], offset)
            }
            Some(fault) => Err(fault.error()),
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let fault = self.disk.fault(Call::Write);
        match fault {
            None => self.file.write_at(bytes, offset),
            Some(Fault::Interrupted) => Err(Fault::Interrupted.error()),
            Some(fault) => {
                let part = &bytes[..bytes.len().div_ceil(2)];
                self.file.write_all_at(part, offset)?;
                if fault == Fault::Short { Ok(part.len()) } else { Err(fault.error()) }
            }
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.call(Call::SetLen)?;
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        let fault = self.disk.fault(Call::Sync);
        let mut durable = self.durable();
        if durable.sync_failed {
            self.disk.state().syncs_after_failure += 1;
        }
        if let Some(fault) = fault {
            durable.sync_failed = true;
            self.lose_changes(&durable)?;
            return Err(fault.error());
        }
        self.file.sync()?;
        durable.bytes = contents(&*self.file)?;
        Ok(())
    }

    fn stamp(&self) -> io::Result<u64> {
        self.disk.call(Call::Stamp)?;
        self.file.stamp()
    }

    fn forget_cached(&self) -> io::Result<()> {
        self.disk.call(Call::ForgetCached)?;
        self.file.forget_cached()
    }
}

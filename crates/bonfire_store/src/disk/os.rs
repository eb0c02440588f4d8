//! A directory of the operating system. What differs between systems is in `docs/PLATFORM.md`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Access, Disk, DiskFile, DiskLock};

/// A directory of the operating system.
#[derive(Clone, Debug)]
pub struct OsDisk {
    directory: PathBuf,
}

impl OsDisk {
    /// The directory at `path`, which is created, durably, if it is not there.
    pub fn create(path: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = path.into();
        let missing: Vec<&Path> =
            directory.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.is_dir()).collect();
        if missing.is_empty() {
            // Whoever made it may not have made it durable, and this is no reason not to read what is there.
            let _ = sync_directory(directory.parent().unwrap_or(Path::new("")));
        }
        for path in missing.iter().rev() {
            match retried(|| private_directory().create(path)) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                _ => sync_directory(path.parent().unwrap_or(Path::new("")))?,
            }
        }
        Ok(Self { directory })
    }

    /// The directory at `path`, as it is. Nothing is created; calls fail if it is not there.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { directory: path.into() }
    }

    /// Creates the temporary file of a file at a path, and locks it for as long as it is open: a program that is writing
    /// holds the lock, and what a killed one has left is free.
    pub(crate) fn create_part(&self, name: &str) -> io::Result<(String, Box<dyn DiskFile>)> {
        self.remove_abandoned_parts(name);
        for _ in 0..PART_TRIES_MAX {
            for part in parts_of(name) {
                let path = self.directory.join(&part);
                let mut options = private_file(OpenOptions::new());
                options.read(true).write(true).create_new(true);
                match patiently(&HELD, || options.open(&path)) {
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                    // Another program may have taken it for abandoned before it was locked.
                    Ok(file) => {
                        let is_own = lock_of(&file)
                            .and_then(|locked| Ok(locked && is_same_file(&file, &path)?))
                            .inspect_err(|_| drop(fs::remove_file(&path)))?;
                        if is_own {
                            return Ok((part, Box::new(OsFile::new(file, true))));
                        }
                    }
                    Err(error) => return Err(error),
                }
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
            self.remove_abandoned_parts(name);
        }
        Err(io::Error::new(ErrorKind::WouldBlock, "other programs have been writing it for ten seconds"))
    }

    /// Removes temporary files that killed programs have left. What cannot be removed is left to the next attempt.
    pub(crate) fn remove_abandoned_parts(&self, name: &str) {
        for part in parts_of(name) {
            let path = self.directory.join(part);
            if let Ok(file) = without_links().read(true).write(true).open(&path)
                // Where there are no locks, a file that is being written cannot be told from one that was left.
                && file.try_lock().is_ok()
                && is_same_file(&file, &path).unwrap_or(false)
            {
                let _ = fs::remove_file(&path);
            }
        }
    }
}

/// So many programs can write one file at a path at the same time. The last one that is done wins.
const PARTS_MAX: usize = 4;
const PART_TRIES_MAX: usize = 1000;

/// The names of temporary files of a file: short ones, because the name of the file may be as long as names can be.
fn parts_of(name: &str) -> impl Iterator<Item = String> {
    let crc = crc32c::crc32c(name.as_bytes());
    (0..PARTS_MAX).map(move |number| format!(".{crc:08x}-{number}.bonfire-part"))
}

/// Returns true if an open file still has its name.
fn is_same_file(file: &File, path: &Path) -> io::Result<bool> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        match retried(|| fs::symlink_metadata(path)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            named => Ok(identity(named?) == identity(retried(|| file.metadata())?)),
        }
    }
    #[cfg(not(unix))]
    {
        // A file that is open here cannot get another name's contents there.
        let _ = file;
        path.try_exists()
    }
}

impl Disk for OsDisk {
    fn open(&self, name: &str, access: Access) -> io::Result<Box<dyn DiskFile>> {
        let mut options = without_links();
        let path = self.directory.join(name);
        options.read(true).write(access == Access::Write);
        let opened = patiently(&[SHARING_VIOLATION], || options.open(&path));
        let is_file = match &opened {
            Ok(file) => retried(|| file.metadata())?.is_file(),
            // A link or a directory may also fail to open.
            Err(_) => fs::symlink_metadata(&path).map_or(true, |metadata| metadata.is_file()),
        };
        if !is_file {
            return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
        }
        let file = opened?;
        Ok(Box::new(OsFile::new(file, false)))
    }

    fn create_new(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let path = self.directory.join(name);
        let mut options = private_file(OpenOptions::new());
        options.read(true).write(true).create_new(true);
        let file = patiently(&HELD, || options.open(&path))?;
        Ok(Box::new(OsFile::new(file, true)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (self.directory.join(from), self.directory.join(to));
        keep_mode(&from, &to);
        patiently(&HELD, || fs::rename(&from, &to))?;
        make_name_durable(&to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.directory.join(name);
        patiently(&HELD, || fs::remove_file(&path))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        let directory = or_current(&self.directory);
        // A listing that was interrupted begins anew: what comes after the interruption may be left out otherwise.
        retried(|| {
            names.clear();
            for entry in fs::read_dir(directory)? {
                let entry = entry?;
                // The type of a link is "link": it is never followed.
                if let Ok(name) = entry.file_name().into_string()
                    && entry.file_type()?.is_file()
                {
                    names.push(name);
                }
            }
            Ok(())
        })?;
        Ok(names)
    }

    fn sync_dir(&self) -> io::Result<()> {
        sync_directory(&self.directory)
    }

    fn lock(&self, name: &str) -> io::Result<Option<DiskLock>> {
        let mut options = private_file(without_links());
        options.read(true).write(true).create(true).truncate(false);
        let file = retried(|| options.open(self.directory.join(name)))?;
        Ok(lock_of(&file)?.then(|| DiskLock::new(OsLock(file))))
    }

    /// Windows is not asked: there, what does not fit is found by writing.
    fn free_bytes(&self) -> io::Result<Option<u64>> {
        #[cfg(unix)]
        {
            let found = rustix::fs::statvfs(or_current(&self.directory))?;
            Ok(Some(found.f_bavail.saturating_mul(found.f_frsize)))
        }
        #[cfg(not(unix))]
        Ok(None)
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.directory)
    }
}

/// A lock that is given back by name. Closing the file alone would not do: a process that another thread has just
/// started has a copy of the handle until it begins to run its program.
struct OsLock(File);

impl Drop for OsLock {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Opens what has a name and not what it points to; a pipe does not wait for its other end.
fn without_links() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.custom_flags(flags.bits().cast_signed());
    }
    #[cfg(windows)]
    {
        use std::os::windows::fs::OpenOptionsExt;
        const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;
        options.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT);
    }
    options
}

const SHARING_VIOLATION: i32 = 32;
/// What Windows says when somebody holds a file.
const HELD: [i32; 2] = [SHARING_VIOLATION, 5];

/// Locks a file for as long as it is open; false if another handle has the lock. Some network file systems have no locks:
/// there the caller is alone, or was told.
fn lock_of(file: &File) -> io::Result<bool> {
    retried(|| match file.try_lock() {
        Ok(()) => Ok(true),
        Err(fs::TryLockError::WouldBlock) => Ok(false),
        Err(fs::TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => Ok(true),
        Err(fs::TryLockError::Error(error)) => Err(error),
    })
}

/// Makes a call again until no signal interrupts it.
fn retried<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// On Windows a virus scanner or an indexer may hold a file for a moment: then the call is made again, for two seconds.
fn patiently<T>(errors: &[i32], mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    if cfg!(not(windows)) {
        return retried(call);
    }
    let mut pause = std::time::Duration::from_millis(1);
    loop {
        match retried(&mut call) {
            Err(error)
                if error.raw_os_error().is_some_and(|error| errors.contains(&error))
                    && pause.as_secs() < 1 =>
            {
                std::thread::sleep(pause);
                pause *= 2;
            }
            result => return result,
        }
    }
}

/// On Unix, a directory of which other users of the machine see nothing.
fn private_directory() -> fs::DirBuilder {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// On Unix, a file that other users of the machine cannot read.
#[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
fn private_file(mut options: OpenOptions) -> OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// On Unix, gives a file that replaces another one the mode of that one, which its owner may have set. If that fails the
/// file stays private.
fn keep_mode(from: &Path, to: &Path) {
    #[cfg(unix)]
    if let Ok(metadata) = fs::symlink_metadata(to)
        && metadata.is_file()
    {
        let _ = fs::set_permissions(from, metadata.permissions());
    }
    #[cfg(not(unix))]
    let _ = (from, to);
}

/// An empty path means the current directory.
fn or_current(directory: &Path) -> &Path {
    if directory.as_os_str().is_empty() { Path::new(".") } else { directory }
}

/// A directory is durable once it is synced. Windows has no such call: there the renamed file itself is flushed.
fn sync_directory(directory: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    let directory = File::open(or_current(directory))?;
    retried(|| directory.sync_all())
}

/// Windows: a flush of a file writes the log of its volume, and the new name with it.
fn make_name_durable(path: &Path) -> io::Result<()> {
    if cfg!(windows) {
        return OpenOptions::new().write(true).open(path)?.sync_all();
    }
    Ok(())
}

struct OsFile {
    file: File,
    /// Whether it was created through this handle.
    new: bool,
    poisoned: AtomicBool,
}

/// The error of every write to a file whose sync has failed.
fn poisoned() -> io::Error {
    io::Error::other("an earlier sync of this file failed, so what it holds is not known: write a new one")
}

impl OsFile {
    fn new(file: File, new: bool) -> Self {
        Self { file, new, poisoned: AtomicBool::new(false) }
    }
    fn check(&self) -> io::Result<()> {
        if self.poisoned.load(Ordering::Acquire) { Err(poisoned()) } else { Ok(()) }
    }
}

impl DiskFile for OsFile {
    fn len(&self) -> io::Result<u64> {
        Ok(retried(|| self.file.metadata())?.len())
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::read_at(&self.file, bytes, offset);
        #[cfg(windows)]
        return std::os::windows::fs::FileExt::seek_read(&self.file, bytes, offset);
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.check()?;
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::write_at(&self.file, bytes, offset);
        #[cfg(windows)]
        return std::os::windows::fs::FileExt::seek_write(&self.file, bytes, offset);
    }

    #[cfg(target_os = "linux")]
    fn write_parts_at(&self, parts: &[io::IoSlice<'_>], offset: u64) -> io::Result<usize> {
        self.check()?;
        Ok(rustix::io::pwritev(&self.file, parts, offset)?)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        retried(|| self.file.set_len(len))
    }

    fn sync(&self) -> io::Result<()> {
        self.check()?;
        if self.new {
            // The clock of the system is finer than the one that it stamps files with: two files of one millisecond, and
            // perhaps of one number, shall differ. See `stamp`.
            let _ = self.file.set_modified(std::time::SystemTime::now());
        }
        // On macOS this asks the drive itself to write (F_FULLFSYNC).
        retried(|| self.file.sync_data()).inspect_err(|_| self.poisoned.store(true, Ordering::Release))
    }

    fn stamp(&self) -> io::Result<u64> {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let metadata = retried(|| self.file.metadata())?;
        let mut hasher = DefaultHasher::new();
        (metadata.len(), metadata.modified()?).hash(&mut hasher);
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            (metadata.dev(), metadata.ino()).hash(&mut hasher);
        }
        #[cfg(windows)]
        metadata.created()?.hash(&mut hasher);
        Ok(hasher.finish())
    }

    fn forget_cached(&self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_call_is_made_again_and_another_error_is_not() {
        let mut calls = 0;
        let done = retried(|| {
            calls += 1;
            if calls < 3 { Err(io::Error::from(ErrorKind::Interrupted)) } else { Ok(calls) }
        });
        assert_eq!(done.unwrap(), 3);
        let failed = retried(|| Err::<(), _>(io::Error::from(ErrorKind::StorageFull)));
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::StorageFull);
    }
}

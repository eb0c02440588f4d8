//! Changes of the files of a directory, by one writer at a time.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::sync::PoisonError;

use bonfire::{Error, Result};

use super::pending::{PENDING, Pending, is_temporary};
use super::{Inner, LOCK, version};
use crate::disk::{Access, DiskLock, WriteCheck, prepare, publish, write_parts};
use crate::portable_name::check_case;
use crate::store::{Batch, Change, Payload, Version, changed, check_expectations, exists};

thread_local! {
    /// The stores that this thread is changing, by address.
    static INSIDE: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Ends with a change.
struct InsideChange(usize);

impl Drop for InsideChange {
    fn drop(&mut self) {
        INSIDE.with_borrow_mut(|inside| inside.retain(|store| *store != self.0));
    }
}

/// Changes that failed, as far as later ones must know.
#[derive(Default)]
pub(super) struct WriterState {
    /// The names of files that could not be synced after an append. Their contents are unknown, so appends to them fail.
    unsynced: HashSet<String>,
    /// The directory could not be synced: what names mean after a crash is not known.
    names_unsynced: bool,
}

impl Inner {
    pub(super) fn change(&self, batch: &Batch) -> Result<Vec<Option<Version>>> {
        batch.check()?;
        self.exclusively(|state| {
            let mut names = self.blobs()?;
            names.sort_unstable();
            check_expectations(batch.expectations(), &names, |name| self.version(name))?;
            for change in batch.changes() {
                self.check_possible(change, &names)?;
            }
            match batch.changes() {
                [] => Ok(Vec::new()),
                // After a crash, some file systems have a renamed file under both names.
                changes @ ([Change::Rename { .. }] | [_, _, ..]) => self.make_all(changes, state),
                [change] => Ok(vec![self.make_one(change, state)?]),
            }
        })
    }

    /// Runs `change` while no other thread and no other process writes, after all earlier changes are made and durable.
    fn exclusively<T>(&self, change: impl FnOnce(&mut WriterState) -> Result<T>) -> Result<T> {
        let _inside = self.enter()?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let _lock = self.lock()?;
        self.settle(&mut state)?;
        change(&mut state)
    }

    /// Refuses a change that this thread makes inside of another one of the same store, which would wait for itself. A panic
    /// hook does so if the panic came out of a change.
    fn enter(&self) -> Result<InsideChange> {
        let store = std::ptr::from_ref(self).addr();
        INSIDE.with_borrow_mut(|inside| match inside.contains(&store) {
            true => Err(Error::misuse(format!(
                "this thread is in the middle of a change of `{}`, and asks for another one: a panic hook must save to \
                 another store or on another thread",
                self.path_of("")
            ))),
            false => {
                inside.push(store);
                Ok(InsideChange(store))
            }
        })
    }

    /// Finishes what an earlier change has left.
    fn settle(&self, state: &mut WriterState) -> Result<()> {
        if std::mem::take(&mut state.names_unsynced) {
            self.sync_names(state, "finish earlier changes of", "")?;
        }
        let failed = self.failed_write("finish earlier changes of", "");
        if let Some(pending) = Pending::read(&*self.disk).map_err(&failed)? {
            pending.finish(&*self.disk).map_err(&failed)?;
        }
        Ok(())
    }

    /// Finishes what a stopped program has left, if no other program is writing: pending changes and temporary files. What
    /// cannot be finished now does not keep readers from the right state, and the next change tries again.
    pub(super) fn clean_up(&self) -> Result<()> {
        let names = self.files()?;
        if !names.iter().any(|name| name == PENDING || is_temporary(name)) {
            return Ok(());
        }
        let Ok(Some(_lock)) = self.disk.lock(LOCK) else { return Ok(()) };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // A temporary file may belong to pending changes. If they were undone, that is durable before the file goes.
        state.names_unsynced = true;
        if self.settle(&mut state).is_ok() {
            let names = self.files()?;
            names.iter().filter(|name| is_temporary(name)).for_each(|name| drop(self.disk.remove(name)));
        }
        Ok(())
    }

    fn lock(&self) -> Result<DiskLock> {
        for patience in (0..1000).rev() {
            if let Some(lock) = self.disk.lock(LOCK).map_err(self.failed_write("write to", ""))? {
                return Ok(lock);
            }
            if cfg!(target_arch = "wasm32") || patience == 0 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let waited = "another program has been writing there for ten seconds";
        Err(self.failed("write to", "")(io::Error::new(ErrorKind::WouldBlock, waited)))
    }

    /// The version of a blob, if there is one.
    fn version(&self, name: &str) -> Result<Option<Version>> {
        match self.disk.open(name, Access::Read) {
            Ok(file) => Ok(Some(version(file.stamp().map_err(self.failed("look at", name))?))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                Err(Error::conflict(format!("`{}` is not a file", self.path_of(name))))
            }
            Err(error) => Err(self.failed("open", name)(error)),
        }
    }

    /// Refuses a change that cannot be made with these blobs.
    fn check_possible(&self, change: &Change, names: &[String]) -> Result<()> {
        if let Some(target) = change.target() {
            check_case(target, names.iter().map(String::as_str))?;
        }
        if let Change::Copy { from, to } | Change::Rename { from, to } = change {
            if !names.contains(from) {
                return Err(self.failed("open", from)(ErrorKind::NotFound.into()));
            }
            if self.version(to)?.is_some() {
                return Err(exists(to));
            }
        }
        if let Change::Put { name, .. } = change {
            self.version(name)?;
        }
        Ok(())
    }

    /// A single change, which the file system makes in one step.
    fn make_one(&self, change: &Change, state: &mut WriterState) -> Result<Option<Version>> {
        match change {
            Change::Put { name, payload } => self.put(name, payload, state).map(Some),
            Change::Copy { from, to } => self.put(to, &Payload::from(self.get_all(from)?), state).map(Some),
            Change::Append { name, expected_len, payload } => {
                self.append(name, *expected_len, payload, state).map(|()| None)
            }
            Change::Rename { .. } => Ok(self.make_all(std::slice::from_ref(change), state)?.pop().flatten()),
            Change::Remove { name } => {
                let Some(version) = self.version(name)? else { return Ok(None) };
                self.disk.remove(name).map_err(self.failed_write("remove", name))?;
                state.unsynced.remove(name);
                self.sync_names(state, "make the removal durable of", name)?;
                Ok(Some(version))
            }
        }
    }

    fn put(&self, name: &str, payload: &Payload, state: &mut WriterState) -> Result<Version> {
        let written = |bytes| payload.add_written(bytes);
        let published = publish(&*self.disk, name, payload.parts(), self.check, &written);
        let stamp = published.map_err(|failure| {
            state.names_unsynced |= failure.has_replaced;
            self.failed_write(failure.doing, name)(failure.error)
        })?;
        state.unsynced.remove(name);
        Ok(version(stamp))
    }

    /// Makes names durable. If that fails, the next change tries again before it does anything else.
    fn sync_names(&self, state: &mut WriterState, doing: &str, name: &str) -> Result<()> {
        let synced = self.disk.sync_dir().map_err(self.failed_write(doing, name));
        state.names_unsynced |= synced.is_err();
        synced
    }

    /// Several changes. They count from the moment at which the list of them is durable.
    fn make_all(&self, changes: &[Change], state: &mut WriterState) -> Result<Vec<Option<Version>>> {
        let mut pending = Pending::default();
        let mut temporaries = Vec::new();
        let mut versions = self.prepare_all(changes, &mut pending, &mut temporaries);
        if versions.is_ok() && !temporaries.is_empty() {
            // The list must not be durable before the names of the files that it is about.
            let durable = self.disk.sync_dir().map_err(self.failed_write("write to", ""));
            versions = durable.and(versions);
        }
        let versions = versions.and_then(|versions| self.decide(&pending, state).map(|()| versions));
        if versions.is_err() && !state.names_unsynced {
            temporaries.iter().for_each(|temporary| drop(self.disk.remove(temporary)));
        }
        let versions = versions?;
        for change in changes {
            match change {
                Change::Rename { from, to } if state.unsynced.remove(from) => {
                    state.unsynced.insert(to.clone());
                }
                Change::Put { name, .. } | Change::Remove { name } => drop(state.unsynced.remove(name)),
                _ => {}
            }
        }
        // Durable already. If a step fails now, the next change or the next start finishes.
        state.names_unsynced |= pending.make(&*self.disk).is_err();
        Ok(versions)
    }

    /// Writes new contents to temporary files, durably, and lists what is to be done.
    fn prepare_all(
        &self,
        changes: &[Change],
        pending: &mut Pending,
        temporaries: &mut Vec<String>,
    ) -> Result<Vec<Option<Version>>> {
        let mut versions = Vec::with_capacity(changes.len());
        for change in changes {
            let copied;
            let (name, payload) = match change {
                Change::Put { name, payload } => (name, payload),
                Change::Copy { from, to } => {
                    copied = Payload::from(self.get_all(from)?);
                    (to, &copied)
                }
                Change::Rename { from, to } => {
                    versions.push(self.version(from)?);
                    pending.rename(from, to);
                    continue;
                }
                Change::Remove { name } => {
                    let version = self.version(name)?;
                    if version.is_some() {
                        pending.remove(name);
                    }
                    versions.push(version);
                    continue;
                }
                Change::Append { .. } => return Err(Error::misuse("an append is a batch of its own")),
            };
            let written = |bytes| payload.add_written(bytes);
            let prepared = prepare(&*self.disk, payload.parts(), self.check, &written);
            let prepared =
                prepared.map_err(|failure| self.failed_write(failure.doing, name)(failure.error))?;
            versions.push(Some(version(prepared.stamp)));
            pending.rename(&prepared.temporary, name);
            temporaries.push(prepared.temporary);
        }
        Ok(versions)
    }

    /// Makes the list of changes durable. If that fails, none of them counts, unless the list cannot be removed either: then
    /// all of them do.
    fn decide(&self, pending: &Pending, state: &mut WriterState) -> Result<()> {
        let parts = [pending.encode()?];
        let published = publish(&*self.disk, PENDING, &parts, WriteCheck::Sync, &|_| {});
        published.map(drop).map_err(|failure| {
            if failure.has_replaced {
                let undone = self.disk.remove(PENDING).and_then(|()| self.disk.sync_dir());
                state.names_unsynced |= undone.is_err();
            }
            self.failed_write(failure.doing, "")(failure.error)
        })
    }

    fn append(
        &self,
        name: &str,
        expected_len: u64,
        payload: &Payload,
        state: &mut WriterState,
    ) -> Result<()> {
        if state.unsynced.contains(name) {
            return Err(Error::poisoned(format!(
                "cannot append to `{}`: an earlier sync of this file failed, so its contents are not known",
                self.path_of(name)
            )));
        }
        let existing = match self.disk.open(name, Access::Read) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            file => {
                let file = file.map_err(self.failed("open", name))?;
                Some(file.len().map_err(self.failed("look at", name))?)
            }
        };
        if existing.unwrap_or(0) != expected_len {
            return Err(changed(name));
        }
        let failed = self.failed_write("append to", name);
        let file = match existing {
            Some(_) => self.disk.open(name, Access::Write).map_err(&failed)?,
            None => self.disk.create_new(name).map_err(&failed)?,
        };
        let written = |bytes| payload.add_written(bytes);
        if let Err(error) = write_parts(&*file, expected_len, payload.parts(), &written) {
            // The blob is whole up to its old end. The rest goes if the disk lets it.
            let _ = file.set_len(expected_len);
            if existing.is_none() {
                let _ = self.disk.remove(name);
            }
            return Err(failed(error));
        }
        let mut durable = file.sync();
        if existing.is_none() {
            durable = durable.and_then(|()| self.disk.sync_dir());
        }
        if let Err(error) = durable {
            state.unsynced.insert(name.to_owned());
            // Memory may show the bytes for as long as the machine runs although the disk lacks them. So they are cut off,
            // through another handle, because this one refuses.
            let _ = match existing {
                Some(_) => self.disk.open(name, Access::Write).and_then(|file| file.set_len(expected_len)),
                None => self.disk.remove(name),
            };
            return Err(self.failed_write("make durable", name)(error));
        }
        Ok(())
    }
}

//! Changes of several files that are decided and not all made yet: the file `.bonfire-changes`.
//!
//! A file system renames and removes one name at a time. So a store first writes down what it is going to do, durably; from
//! then on the changes count, and readers see their result. Then it makes them, in any number of attempts, and removes the
//! list. FORMAT.md, "Pending changes", has the bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, ErrorKind};

use bonfire::{Error, Result};

use crate::disk::{Access, Disk, DiskFile, TEMPORARY};
use crate::portable_name::check_name;

/// The name of the list. It begins with a dot, which no name of a blob does.
pub(super) const PENDING: &str = ".bonfire-changes";

const FIRST_LINE: &str = "bonfire-changes 1";

/// A longer list is not one of ours.
const PENDING_BYTES_MAX: u64 = 16 << 20;

/// Names that change together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pending {
    /// The files that get other names: the old name by the new one.
    moves: BTreeMap<String, String>,
    removals: BTreeSet<String>,
}

impl Pending {
    pub(super) fn rename(&mut self, from: &str, to: &str) {
        self.moves.insert(to.to_owned(), from.to_owned());
    }
    pub(super) fn remove(&mut self, name: &str) {
        self.removals.insert(name.to_owned());
    }

    /// The list on a disk, if there is one. One that is damaged is no list: every file keeps the name that it has.
    pub(super) fn read(disk: &dyn Disk) -> io::Result<Option<Self>> {
        let file = match disk.open(PENDING, Access::Read) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let len = file.len()?;
        if len > PENDING_BYTES_MAX {
            return Ok(None);
        }
        let mut bytes = vec![0; len as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(Self::decode(&bytes))
    }

    /// The bytes of the list, unless no reader would take so many.
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let mut text = format!("{FIRST_LINE}\n");
        for (to, from) in &self.moves {
            let _ = writeln!(text, "rename {from} {to}");
        }
        for name in &self.removals {
            let _ = writeln!(text, "remove {name}");
        }
        let crc = crc32c::crc32c(text.as_bytes());
        let _ = writeln!(text, "crc32c {crc:08x}");
        match text.len() as u64 <= PENDING_BYTES_MAX {
            true => Ok(text.into_bytes()),
            false => Err(Error::limit("a batch has more changes than a directory can make in one step")),
        }
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (body, crc) = text.strip_suffix('\n')?.rsplit_once('\n')?;
        let checked = &text[..=body.len()];
        if crc != format!("crc32c {:08x}", crc32c::crc32c(checked.as_bytes())) {
            return None;
        }
        let mut lines = body.lines();
        lines.next().filter(|line| *line == FIRST_LINE)?;
        let mut pending = Self::default();
        for line in lines {
            // The file may come from a stranger: nothing outside of the directory is renamed or removed.
            match *line.split(' ').collect::<Vec<_>>() {
                ["rename", from, to] if (is_blob(from) || is_temporary(from)) && is_blob(to) => {
                    pending.rename(from, to);
                }
                ["remove", name] if is_blob(name) => pending.remove(name),
                _ => return None,
            }
        }
        Some(pending)
    }

    /// The names that readers see, where the disk has `names`.
    pub(super) fn apply_to(&self, names: Vec<String>) -> Vec<String> {
        let mut seen: BTreeSet<String> = names.into_iter().collect();
        let arrived: Vec<&String> = self
            .moves
            .iter()
            .filter(|(to, from)| seen.contains(*to) || seen.contains(*from))
            .map(|(to, _)| to)
            .collect();
        let arrived: Vec<String> = arrived.into_iter().cloned().collect();
        for gone in self.moves.values().chain(&self.removals) {
            seen.remove(gone);
        }
        seen.extend(arrived);
        seen.into_iter().collect()
    }

    /// Opens the file that has this name for readers.
    pub(super) fn open(&self, disk: &dyn Disk, name: &str) -> io::Result<Box<dyn DiskFile>> {
        if let Some(from) = self.moves.get(name) {
            match disk.open(from, Access::Read) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                file => return file,
            }
        } else if self.removals.contains(name) || self.moves.values().any(|from| from == name) {
            return Err(ErrorKind::NotFound.into());
        }
        disk.open(name, Access::Read)
    }

    /// Makes the changes of a list that another call has left.
    pub(super) fn finish(&self, disk: &dyn Disk) -> io::Result<()> {
        // The call may have failed before the list was durable.
        disk.sync_dir()?;
        self.make(disk)
    }

    /// Makes the changes that are not made yet, and removes the list, which is durable. Everything is durable before the list
    /// is removed.
    pub(super) fn make(&self, disk: &dyn Disk) -> io::Result<()> {
        for (to, from) in &self.moves {
            unless_missing(disk.rename(from, to))?;
        }
        for name in &self.removals {
            unless_missing(disk.remove(name))?;
        }
        disk.sync_dir()?;
        unless_missing(disk.remove(PENDING))?;
        disk.sync_dir()
    }
}

fn is_blob(name: &str) -> bool {
    check_name(name).is_ok()
}

/// Returns true for the name of a temporary file of a store.
pub(super) fn is_temporary(name: &str) -> bool {
    let inner = name.strip_prefix('.').and_then(|name| name.strip_suffix(TEMPORARY));
    inner.is_some_and(|inner| inner.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
}

/// A file that is missing has been moved or removed before.
fn unless_missing(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;

    fn pending() -> Pending {
        let mut pending = Pending::default();
        pending.rename("old.00000001.bonfire", "new.00000001.bonfire");
        pending.rename(".7-1.bonfire-tmp", "note");
        pending.remove("gone");
        pending
    }

    #[test]
    fn a_list_is_read_as_it_was_written_and_every_damage_is_found() {
        let bytes = pending().encode().unwrap();
        assert_eq!(Pending::decode(&bytes), Some(pending()));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x11;
            assert_eq!(Pending::decode(&damaged), None, "byte {at}");
            assert_eq!(Pending::decode(&bytes[..at]), None, "{at} bytes");
        }
    }

    #[test]
    fn a_list_that_reaches_outside_of_the_directory_is_no_list() {
        let names =
            ["../x", "/etc/x", "a/b", "..", ".bonfire-lock", ".x/../y.bonfire-tmp", ".bonfire-changes"];
        for name in names {
            for (from, to) in [(name, "inside"), ("inside", name)] {
                let mut pending = Pending::default();
                pending.rename(from, to);
                assert_eq!(Pending::decode(&pending.encode().unwrap()), None, "{from} {to}");
            }
            let mut pending = Pending::default();
            pending.remove(name);
            assert_eq!(Pending::decode(&pending.encode().unwrap()), None, "{name}");
        }
    }

    #[test]
    fn readers_see_the_result_whatever_part_has_been_made() {
        let files = [
            ("old.00000001.bonfire", "save"),
            (".7-1.bonfire-tmp", "new note"),
            ("note", "old note"),
            ("gone", "x"),
            ("other", "y"),
        ];
        let files = files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()));
        for made in 0..4 {
            let disk = MemoryDisk::with_files(files.clone());
            if made > 0 {
                disk.rename("old.00000001.bonfire", "new.00000001.bonfire").unwrap();
            }
            if made > 1 {
                disk.rename(".7-1.bonfire-tmp", "note").unwrap();
            }
            if made > 2 {
                disk.remove("gone").unwrap();
            }
            let look = |disk: &MemoryDisk, pending: &Pending| {
                let mut names = pending.apply_to(disk.list().unwrap());
                names.sort_unstable();
                assert_eq!(names, ["new.00000001.bonfire", "note", "other"], "after {made}");
                let read = |name: &str| {
                    let file = pending.open(disk, name)?;
                    let mut bytes = vec![0; file.len()? as usize];
                    file.read_exact_at(&mut bytes, 0)?;
                    Ok::<_, io::Error>(String::from_utf8(bytes).unwrap())
                };
                assert_eq!(read("new.00000001.bonfire").unwrap(), "save");
                assert_eq!(read("note").unwrap(), "new note");
                assert_eq!(read("other").unwrap(), "y");
                for name in ["old.00000001.bonfire", "gone"] {
                    assert_eq!(read(name).unwrap_err().kind(), ErrorKind::NotFound, "{name}");
                }
            };
            look(&disk, &pending());
            pending().finish(&disk).unwrap();
            look(&disk, &Pending::default());
        }
    }
}

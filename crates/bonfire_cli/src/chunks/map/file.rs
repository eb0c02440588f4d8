//! The file of a picture.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::exit::Failure;

/// Writes a picture beside its place and then there: nobody finds half of one. A file that is no picture is not replaced.
pub(super) fn save(path: &Path, write: impl FnOnce(&File) -> io::Result<()>) -> Result<(), Failure> {
    if path.symlink_metadata().is_ok() && !is_picture(path) {
        return Err(Failure::file(path, "this file exists already, and is no PNG"));
    }
    let beside = beside(path);
    let written = create_new(&beside).and_then(|file| {
        write(&file)?;
        file.sync_all()
    });
    let written = written.and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        // The error that matters is the first one.
        let _ = std::fs::remove_file(&beside);
    }
    written.map_err(|error| Failure::file(path, error))
}

/// Creates a file that was not there. One that an earlier run has left goes first; a link goes, and not what it leads to.
fn create_new(path: &Path) -> io::Result<File> {
    match File::create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            std::fs::remove_file(path)?;
            File::create_new(path)
        }
        created => created,
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    path.with_file_name(name)
}

fn is_picture(path: &Path) -> bool {
    let mut start = [0; 8];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *b"\x89PNG\r\n\x1a\n"
}

//! From a path to bytes, and the kind of file that they are.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use bonfire::Limits;
use bonfire::engine::AlignedBuf;
use bonfire_chunks::ChunkWorld;
use bonfire_store::backend::is_sealed;
use bonfire_store::disk::Access;
use bonfire_store::engine::{is_journal, saves_of_journal};
use bytes::Bytes;

use crate::escape::escaped_path;
use crate::exit::Failure;

/// Reads all bytes of a file, aligned, so that opening them copies nothing.
pub(crate) fn read_bytes(path: &Path) -> Result<Bytes, Failure> {
    let unreadable = |error: std::io::Error| Failure::file(path, error);
    let mut file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(Failure::file(path, "this is not a file"));
    }
    // Stored bytes are never more than raw bytes, so twice the limit leaves room for every header.
    let bytes_max = Limits::default().raw_bytes_max.saturating_mul(2);
    let len = usize::try_from(metadata.len()).ok().filter(|_| metadata.len() <= bytes_max);
    let Some(len) = len else {
        let message = format!("{} bytes are more than this tool reads ({bytes_max})", metadata.len());
        return Err(Failure::file(path, message));
    };
    let mut buffer = AlignedBuf::zeroed(len);
    file.read_exact(buffer.as_mut()).map_err(unreadable)?;
    Ok(buffer.share())
}

/// The kind of a file, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Save,
    Journal,
    ChunkWorld,
    /// A world of bevy_pixel_world.
    PixelWorld,
    Recording,
    Directory,
    /// A file that no other kind fits, or that cannot be read. Commands say what is wrong with it.
    Unknown,
}

impl FileKind {
    pub(crate) fn of(path: &Path) -> Self {
        let Ok(metadata) = path.metadata() else { return Self::Unknown };
        if metadata.is_dir() {
            return Self::Directory;
        }
        // Reading from a pipe would take away what the next reader needs.
        if !metadata.is_file() {
            return Self::Unknown;
        }
        let mut start = [0; 8];
        let Ok(()) = File::open(path).and_then(|mut file| file.read_exact(&mut start)) else {
            return Self::Unknown;
        };
        match &start {
            b"\x89BNF\r\n\x1a\n" => Self::Save,
            // Nobody knows what is inside without a key, but the name tells.
            start if is_sealed(start) && is_name_of_journal(path) => Self::Journal,
            start if is_sealed(start) => Self::Save,
            start if is_journal(start) => Self::Journal,
            start if start.starts_with(b"PXSW") => Self::ChunkWorld,
            start if start.starts_with(b"WXSP") => Self::PixelWorld,
            start if start.starts_with(b"BNFR") => Self::Recording,
            // The first bytes of a chunk world may be lost. The rest tells.
            _ if ChunkWorld::open_as_is(path, Access::Read).is_ok() => Self::ChunkWorld,
            _ => Self::Unknown,
        }
    }

    /// Returns true for what `info` and `verify` look at as a world of chunks.
    pub(crate) fn is_world(self) -> bool {
        matches!(self, Self::ChunkWorld | Self::PixelWorld)
    }

    /// Returns true unless the file is known to be something else than a world of chunks.
    pub(crate) fn may_be_world(path: &Path) -> bool {
        matches!(Self::of(path), Self::ChunkWorld | Self::PixelWorld | Self::Unknown)
    }

    /// Refuses an option that only worlds of chunks have.
    pub(crate) fn no_world(path: &Path, option: &str) -> Failure {
        Failure::file(path, format!("{option} is for chunk worlds, and this is {}", Self::of(path).name()))
    }

    fn name(self) -> &'static str {
        match self {
            Self::Save => "a save",
            Self::Journal => "the journal of a save",
            Self::ChunkWorld => "a chunk world",
            Self::PixelWorld => "a world of bevy_pixel_world",
            Self::Recording => "a recorded stream",
            Self::Directory => "a directory",
            Self::Unknown => "an unknown file",
        }
    }

    /// The commands that read it.
    fn advice(self, path: &Path) -> String {
        match self {
            Self::Save => "`bonfire info`, `show` and `verify` read it".to_owned(),
            Self::Journal => match save_of(path) {
                Some(save) => {
                    format!(
                        "`bonfire show {}` shows the save with its journal",
                        escaped_path(&path.with_file_name(save))
                    )
                }
                None => "its save is not beside it; `bonfire info` tells what the journal holds".to_owned(),
            },
            Self::ChunkWorld => {
                "`bonfire show --chunk X,Y` shows a chunk, `info` and `verify` read all, `pins` lists its pins, `map` draws it, `diff` \
                 compares two"
                    .to_owned()
            }
            Self::PixelWorld => "`bonfire import pixel-world` makes a chunk world out of it".to_owned(),
            Self::Recording => "`bonfire replay` reads it".to_owned(),
            Self::Directory => {
                "`bonfire ls` lists its saves, `info` and `verify` read all of them".to_owned()
            }
            Self::Unknown => String::new(),
        }
    }

    /// Refuses a file that is known to be of another kind than the command needs, and names the command that reads it.
    pub(crate) fn require(path: &Path, wanted: Self, others: &[Self]) -> Result<(), Failure> {
        let kind = Self::of(path);
        if kind == wanted || kind == Self::Unknown || others.contains(&kind) {
            return Ok(());
        }
        let message = format!("this is {}, not {}: {}", kind.name(), wanted.name(), kind.advice(path));
        Err(Failure::file(path, message))
    }

    /// Refuses files that `diff` does not compare.
    pub(crate) fn require_for_diff(path: &Path) -> Result<(), Failure> {
        match Self::of(path) {
            Self::Save => Err(Failure::file(
                path,
                "this is a save, not a chunk world: `bonfire schema diff` compares the schemas of two saves, and \
                 `bonfire show --json` prints the values of each",
            )),
            _ => Self::require(path, Self::ChunkWorld, &[Self::PixelWorld]),
        }
    }
}

fn is_name_of_journal(path: &Path) -> bool {
    path.file_name().and_then(|name| saves_of_journal(name.to_str()?)).is_some()
}

/// The name of the save of a journal, if that lies beside it.
pub(crate) fn save_of(path: &Path) -> Option<String> {
    let saves = saves_of_journal(path.file_name()?.to_str()?)?;
    saves.into_iter().find(|save| path.with_file_name(save).is_file())
}

//! From a path to a snapshot. The file is read once, into memory that the snapshot's columns stay in.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use bonfire::engine::AlignedBuf;
use bonfire::{Limits, OpenOptions, Snapshot};
use bonfire_store::SealKey;
use bytes::Bytes;

use crate::exit::Failure;
use crate::sealed;

/// The bytes of a save, aligned, so that opening them copies nothing.
pub(crate) struct SaveFile {
    bytes: Bytes,
}

impl SaveFile {
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        Self::read_sealed(path, &[])
    }

    /// Reads a file that may be sealed.
    pub(crate) fn read_sealed(path: &Path, keys: &[SealKey]) -> Result<Self, Failure> {
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
        let bytes = sealed::open(path, buffer.share(), keys);
        Ok(Self { bytes: bytes.map_err(|error| Failure::whole_save(path, error))? })
    }

    /// The number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes, to be shared.
    pub(crate) fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// The bytes as they are.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Opens the bytes as they are. If they are damaged and the user asked for what is left, opens that, and returns the
    /// damage that was met first: salvage itself passes over what costs nothing.
    pub(crate) fn open(
        self,
        on_damage: OnDamage,
    ) -> Result<(Snapshot, Option<bonfire::Error>), bonfire::Error> {
        match self.open_or_salvage() {
            Opened::Whole(snapshot) => Ok((snapshot, None)),
            Opened::Damaged { error, salvaged } if on_damage == OnDamage::Salvage => {
                salvaged.map(|snapshot| (snapshot, Some(error)))
            }
            Opened::Damaged { error, .. } | Opened::Unreadable(error) => Err(error),
        }
    }

    /// Opens the bytes as they are; if they turn out to be damaged, opens what is left and returns both.
    pub(crate) fn open_or_salvage(self) -> Opened {
        let bytes = self.bytes;
        match OpenOptions::new().open_shared(bytes.clone()) {
            Err(error) if error.is_corrupt() => {
                let salvaged = OpenOptions::new().salvage().open_shared(bytes);
                Opened::Damaged { error, salvaged }
            }
            Err(error) => Opened::Unreadable(error),
            Ok(snapshot) => Opened::Whole(snapshot),
        }
    }
}

/// The treatment of a damaged save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnDamage {
    /// It is not opened.
    Fail,
    /// Its undamaged parts are opened.
    Salvage,
}

impl OnDamage {
    /// The treatment that `--salvage` stands for.
    pub(crate) fn of_flag(salvage: bool) -> Self {
        if salvage { Self::Salvage } else { Self::Fail }
    }
}

/// What became of a file's bytes.
pub(crate) enum Opened {
    Whole(Snapshot),
    /// Not damaged, but not for this build.
    Unreadable(bonfire::Error),
    /// The first damage that was met, and what is left, if anything.
    Damaged {
        error: bonfire::Error,
        salvaged: Result<Snapshot, bonfire::Error>,
    },
}

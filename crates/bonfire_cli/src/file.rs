//! From a path to a snapshot. The file is read once, into memory that the snapshot's columns stay in.

use std::path::Path;

use bonfire::{OpenOptions, Snapshot};
use bonfire_store::SealKey;
use bytes::Bytes;

use crate::exit::Failure;
use crate::journal::{Journal, JournalFiles};
use crate::read::{FileKind, read_bytes};
use crate::sealed;

/// The bytes of a save, aligned, so that opening them copies nothing; and its journal.
pub(crate) struct SaveFile {
    bytes: Bytes,
    journal: Option<JournalFiles>,
    keys: Vec<SealKey>,
}

/// A save with its journal, as a load gives it.
pub(crate) struct OpenedSave {
    /// The save alone.
    pub(crate) base: Snapshot,
    /// The save with its journal.
    pub(crate) snapshot: Snapshot,
    pub(crate) journal: Option<Journal>,
    /// The first damage of the save, if it is salvaged.
    pub(crate) damage: Option<bonfire::Error>,
}

impl SaveFile {
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        Self::read_sealed(path, &[])
    }

    /// Reads a save that may be sealed, and its journal.
    pub(crate) fn read_sealed(path: &Path, keys: &[SealKey]) -> Result<Self, Failure> {
        FileKind::require(path, FileKind::Save, &[])?;
        let bytes = sealed::open(path, read_bytes(path)?, keys);
        let bytes = bytes.map_err(|error| Failure::whole_save(path, error))?;
        Ok(Self { bytes, journal: JournalFiles::read(path)?, keys: keys.to_vec() })
    }

    /// Returns true if a journal lies beside the save.
    pub(crate) fn has_journal(&self) -> bool {
        self.journal.is_some()
    }

    /// The number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes as they are.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Opens the save with its journal. If the save is damaged and the user asked for what is left, opens that, and
    /// returns the damage that was met first: salvage itself passes over what costs nothing.
    pub(crate) fn open(self, on_damage: OnDamage) -> Result<OpenedSave, bonfire::Error> {
        match self.open_or_salvage() {
            Opened::Whole(opened) => Ok(*opened),
            Opened::Damaged { error, salvaged } if on_damage == OnDamage::Salvage => {
                salvaged.map(|snapshot| OpenedSave {
                    base: snapshot.clone(),
                    snapshot,
                    journal: None,
                    damage: Some(error),
                })
            }
            Opened::Damaged { error, .. } | Opened::Unreadable(error) => Err(error),
        }
    }

    /// Opens the save with its journal. If the save turns out to be damaged, opens what is left of it, without the
    /// journal, which needs a whole save.
    pub(crate) fn open_or_salvage(self) -> Opened {
        let Self { bytes, journal, keys, .. } = self;
        let base = match OpenOptions::new().open_shared(bytes.clone()) {
            Err(error) if error.is_corrupt() => {
                let salvaged = Box::new(OpenOptions::new().salvage().open_shared(bytes));
                return Opened::Damaged { error, salvaged };
            }
            Err(error) => return Opened::Unreadable(error),
            Ok(base) => base,
        };
        let opened = match journal {
            None => Ok((base.clone(), None)),
            Some(files) => {
                files.apply(base.clone(), &bytes, &keys).map(|(snapshot, journal)| (snapshot, Some(journal)))
            }
        };
        match opened {
            Ok((snapshot, journal)) => {
                Opened::Whole(Box::new(OpenedSave { base, snapshot, journal, damage: None }))
            }
            Err(error) => Opened::Unreadable(error),
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
    Whole(Box<OpenedSave>),
    /// Not damaged, but not for this build.
    Unreadable(bonfire::Error),
    /// The first damage that was met, and what is left, if anything.
    Damaged {
        error: bonfire::Error,
        salvaged: Box<Result<Snapshot, bonfire::Error>>,
    },
}

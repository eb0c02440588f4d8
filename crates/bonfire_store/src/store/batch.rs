//! Changes of several blobs that a store makes in one step.

use std::collections::BTreeSet;

use bonfire::{Error, Result};

use super::{Payload, Precondition};
use crate::portable_name::check_name;

/// Changes that a store makes together: all of them or none, also after a crash. See [`Store::change`](super::Store::change).
///
/// Every name is changed once at most.
///
/// ```
/// use bonfire_store::{Batch, MemoryStore, Payload, Precondition, Store, Wait};
///
/// let store = MemoryStore::new();
/// store.put("old", Payload::from(b"one".to_vec()), Precondition::None).wait()?;
/// let both = Batch::new().rename("old", "new").put("note", Payload::from(b"moved".to_vec()));
/// store.change(both).wait()?;
/// assert_eq!(store.list("").wait()?, ["new", "note"]);
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Batch {
    expectations: Vec<Expectation>,
    changes: Vec<Change>,
}

/// A condition under which a [`Batch`] is made. If one does not hold, the store changes nothing and returns
/// [`Error::is_conflict`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// A blob is in this state.
    Blob {
        /// Its name.
        name: String,
        /// The state.
        state: Precondition,
    },
    /// The blobs whose names begin with `prefix` are exactly these.
    Names {
        /// The start of the names; empty for all blobs.
        prefix: String,
        /// The names, in order.
        names: Vec<String>,
    },
}

/// One change of a [`Batch`].
#[derive(Clone, Debug)]
pub enum Change {
    /// Puts a blob, in the place of another one or not.
    Put {
        /// Its name.
        name: String,
        /// Its bytes.
        payload: Payload,
    },
    /// Adds to the end of a blob. It is the only change of its batch.
    Append {
        /// Its name.
        name: String,
        /// The length of the blob before. At 0 the blob may be missing.
        expected_len: u64,
        /// The bytes that are added.
        payload: Payload,
    },
    /// Puts the bytes of a blob under another name that no blob has.
    Copy {
        /// The blob that is read.
        from: String,
        /// The new name.
        to: String,
    },
    /// Gives a blob another name that no blob has.
    Rename {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    },
    /// Removes a blob, if it is there.
    Remove {
        /// Its name.
        name: String,
    },
}

impl Batch {
    /// A batch without changes.
    pub fn new() -> Self {
        Self::default()
    }
    /// Expects a blob to be in a state.
    pub fn expect(mut self, name: impl Into<String>, state: Precondition) -> Self {
        if state != Precondition::None {
            self.expectations.push(Expectation::Blob { name: name.into(), state });
        }
        self
    }
    /// Expects the names that begin with `prefix` to be exactly these, in order, as
    /// [`Store::list`](super::Store::list) returned them.
    pub fn expect_names(mut self, prefix: impl Into<String>, names: Vec<String>) -> Self {
        self.expectations.push(Expectation::Names { prefix: prefix.into(), names });
        self
    }
    /// Adds [`Change::Put`].
    pub fn put(self, name: impl Into<String>, payload: Payload) -> Self {
        self.with(Change::Put { name: name.into(), payload })
    }
    /// Adds [`Change::Append`].
    pub fn append(self, name: impl Into<String>, expected_len: u64, payload: Payload) -> Self {
        self.with(Change::Append { name: name.into(), expected_len, payload })
    }
    /// Adds [`Change::Copy`].
    pub fn copy(self, from: impl Into<String>, to: impl Into<String>) -> Self {
        self.with(Change::Copy { from: from.into(), to: to.into() })
    }
    /// Adds [`Change::Rename`].
    pub fn rename(self, from: impl Into<String>, to: impl Into<String>) -> Self {
        self.with(Change::Rename { from: from.into(), to: to.into() })
    }
    /// Adds [`Change::Remove`].
    pub fn remove(self, name: impl Into<String>) -> Self {
        self.with(Change::Remove { name: name.into() })
    }
    /// Adds any change.
    pub fn with(mut self, change: Change) -> Self {
        self.changes.push(change);
        self
    }
    /// Adds any expectation.
    pub fn with_expectation(mut self, expectation: Expectation) -> Self {
        self.expectations.push(expectation);
        self
    }

    /// The conditions.
    pub fn expectations(&self) -> &[Expectation] {
        &self.expectations
    }
    /// The changes, in the order in which they were added.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }
    /// Returns true if there are no changes.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// For backends: refuses names that no blob can have, a name that is changed twice, and an append that is not alone.
    /// Every store calls this before it touches anything.
    pub fn check(&self) -> Result<()> {
        for change in &self.changes {
            change.names().into_iter().flatten().try_for_each(check_name)?;
            if matches!(change, Change::Append { .. }) && self.changes.len() > 1 {
                return Err(Error::misuse("an append is a batch of its own"));
            }
        }
        let mut changed = BTreeSet::new();
        for name in self.changes.iter().flat_map(Change::changed_names).flatten() {
            if !changed.insert(name) {
                return Err(Error::misuse(format!("a batch changes `{name}` twice")));
            }
        }
        Ok(())
    }
}

impl Change {
    /// The names that the change is about: the blob that it reads or moves, and the one that it makes.
    fn names(&self) -> [Option<&str>; 2] {
        match self {
            Self::Copy { from, to } | Self::Rename { from, to } => [Some(from), Some(to)],
            Self::Put { name, .. } | Self::Append { name, .. } | Self::Remove { name } => [Some(name), None],
        }
    }

    /// The names that mean something else afterwards.
    fn changed_names(&self) -> [Option<&str>; 2] {
        match self {
            Self::Copy { to, .. } => [Some(to), None],
            // Refused as every name that is taken.
            Self::Rename { from, to } if from == to => [Some(to), None],
            other => other.names(),
        }
    }

    /// The name of a blob that the change makes.
    pub(crate) fn target(&self) -> Option<&str> {
        match self {
            Self::Put { name, .. } | Self::Append { name, .. } => Some(name),
            Self::Copy { to, .. } | Self::Rename { to, .. } => Some(to),
            Self::Remove { .. } => None,
        }
    }
}

/// For backends: returns the error of an expectation that does not hold. `names` are those of all blobs, and `version` returns
/// the version of one, or `None` if there is no such blob.
pub fn check_expectations(
    expectations: &[Expectation],
    names: &[String],
    version: impl Fn(&str) -> Result<Option<super::Version>>,
) -> Result<()> {
    for expectation in expectations {
        match expectation {
            Expectation::Names { prefix, names: expected } => {
                if !names.iter().filter(|name| name.starts_with(prefix)).eq(expected) {
                    return Err(Error::conflict("blobs were added or removed meanwhile"));
                }
            }
            Expectation::Blob { name, state } => {
                check_name(name)?;
                match (state, version(name)?) {
                    (Precondition::None, _) | (Precondition::Absent, None) => {}
                    (Precondition::Version(wanted), Some(found)) if *wanted == found => {}
                    (Precondition::Absent, Some(_)) => return Err(exists(name)),
                    (Precondition::Version(_), _) => return Err(changed(name)),
                }
            }
        }
    }
    Ok(())
}

/// The error of a name that must be free and is not.
pub(crate) fn exists(name: &str) -> Error {
    Error::conflict(format!("`{name}` exists already"))
}

/// The error of a blob that another program has replaced or removed.
pub(crate) fn changed(name: &str) -> Error {
    Error::conflict(format!("`{name}` was changed by another program"))
}

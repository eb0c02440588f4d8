//! The targets of saves and the sources of loads.

use std::fmt;
#[cfg(not(target_arch = "wasm32"))]
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::store::Store;

/// The place that a save goes to. A text is the name of a slot, a path is the path of a file.
///
/// A load reads a [`LoadSource`], which every target converts into.
///
/// ```
/// use bonfire_store::{MemoryStore, SaveTarget};
///
/// assert_eq!(SaveTarget::from("quick").to_string(), "slot `quick`");
/// let blob = SaveTarget::blob(MemoryStore::new(), "level-7");
/// assert_eq!(blob.to_string(), "blob `level-7`");
/// assert_eq!(blob, blob.clone());
/// ```
#[derive(Clone)]
pub enum SaveTarget {
    /// A slot of the game. Its older saves are kept as [`Keep`](crate::Keep) says.
    Slot(String),
    /// A file, which is replaced as a whole or not at all.
    #[cfg(not(target_arch = "wasm32"))]
    Path(PathBuf),
    /// One blob of any store, which is replaced whatever it is.
    Blob {
        /// The store. Two targets are equal only if they share it.
        store: Arc<dyn Store>,
        /// The name of the blob in it.
        name: String,
    },
}

impl SaveTarget {
    /// A blob of a store. Targets that are to be equal are clones of one.
    pub fn blob(store: impl Store + 'static, name: impl Into<String>) -> Self {
        Self::Blob { store: Arc::new(store), name: name.into() }
    }

    /// Returns true if both may be the same place under two names. A front end that reorders requests needs this.
    pub fn may_alias(&self, other: &Self) -> bool {
        match (self, other) {
            #[cfg(not(target_arch = "wasm32"))]
            (Self::Path(one), Self::Path(other)) => same_file_name(one, other),
            (Self::Blob { name: one, .. }, Self::Blob { name: other, .. }) => one == other,
            _ => self == other,
        }
    }
}

/// Directories have many names; a file in one of them has one, up to the case of its letters. What is not ASCII may be
/// written in several ways that mean the same to some systems.
#[cfg(not(target_arch = "wasm32"))]
fn same_file_name(one: &Path, other: &Path) -> bool {
    let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_ascii_lowercase);
    match (name(one), name(other)) {
        (Some(one), Some(other)) => one == other || !one.is_ascii() && !other.is_ascii(),
        _ => true,
    }
}

impl PartialEq for SaveTarget {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Slot(one), Self::Slot(other)) => one == other,
            #[cfg(not(target_arch = "wasm32"))]
            (Self::Path(one), Self::Path(other)) => one == other,
            (Self::Blob { store, name }, Self::Blob { store: other_store, name: other_name }) => {
                name == other_name && std::ptr::addr_eq(Arc::as_ptr(store), Arc::as_ptr(other_store))
            }
            _ => false,
        }
    }
}

impl Eq for SaveTarget {}

impl fmt::Debug for SaveTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot(slot) => f.debug_tuple("Slot").field(slot).finish(),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Path(path) => f.debug_tuple("Path").field(path).finish(),
            Self::Blob { name, .. } => {
                f.debug_struct("Blob").field("store", &format_args!("..")).field("name", name).finish()
            }
        }
    }
}

impl fmt::Display for SaveTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot(slot) => write!(f, "slot `{slot}`"),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Path(path) => path.display().fmt(f),
            Self::Blob { name, .. } => write!(f, "blob `{name}`"),
        }
    }
}

impl From<&str> for SaveTarget {
    fn from(slot: &str) -> Self {
        Self::Slot(slot.to_owned())
    }
}

impl From<String> for SaveTarget {
    fn from(slot: String) -> Self {
        Self::Slot(slot)
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl From<&Path> for SaveTarget {
    fn from(path: &Path) -> Self {
        Self::Path(path.to_owned())
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl From<PathBuf> for SaveTarget {
    fn from(path: PathBuf) -> Self {
        Self::Path(path)
    }
}

/// The save that a load reads. Everything that is a [`SaveTarget`] converts into it.
///
/// ```
/// use bonfire_store::LoadSource;
///
/// assert_eq!(LoadSource::from("quick").to_string(), "slot `quick`");
/// assert_eq!(LoadSource::generation("quick", 7).to_string(), "save 7 of slot `quick`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadSource {
    /// The last save to a target: of a slot, the newest intact one that is not locked.
    Latest(SaveTarget),
    /// One save of a slot by its number, locked or not.
    Generation {
        /// The slot.
        slot: String,
        /// The number of the save in it.
        generation: u64,
    },
}

impl LoadSource {
    /// One save of a slot by its number, as lists of saves show it.
    pub fn generation(slot: impl Into<String>, generation: u64) -> Self {
        Self::Generation { slot: slot.into(), generation }
    }

    /// A blob of a store.
    pub fn blob(store: impl Store + 'static, name: impl Into<String>) -> Self {
        Self::Latest(SaveTarget::blob(store, name))
    }

    /// Returns the target whose saves change what this source holds.
    pub fn target(&self) -> SaveTarget {
        match self {
            Self::Latest(target) => target.clone(),
            Self::Generation { slot, .. } => SaveTarget::Slot(slot.clone()),
        }
    }
}

impl fmt::Display for LoadSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest(target) => target.fmt(f),
            Self::Generation { slot, generation } => write!(f, "save {generation} of slot `{slot}`"),
        }
    }
}

impl From<SaveTarget> for LoadSource {
    fn from(target: SaveTarget) -> Self {
        Self::Latest(target)
    }
}

impl From<&str> for LoadSource {
    fn from(slot: &str) -> Self {
        SaveTarget::from(slot).into()
    }
}

impl From<String> for LoadSource {
    fn from(slot: String) -> Self {
        SaveTarget::from(slot).into()
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl From<&Path> for LoadSource {
    fn from(path: &Path) -> Self {
        SaveTarget::from(path).into()
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl From<PathBuf> for LoadSource {
    fn from(path: PathBuf) -> Self {
        SaveTarget::from(path).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;

    #[test]
    fn blobs_are_equal_if_store_and_name_are() {
        let store = MemoryStore::new();
        let blob = SaveTarget::blob(store.clone(), "a");
        assert_eq!(blob, blob.clone());
        assert_ne!(blob, SaveTarget::blob(store, "a"), "nobody can tell that it is the same store");
        assert_eq!(format!("{blob:?}"), "Blob { store: .., name: \"a\" }");
        assert_eq!(blob.to_string(), "blob `a`");
    }

    #[test]
    #[cfg(not(target_arch = "wasm32"))]
    fn paths_that_end_alike_may_alias_the_same_file() {
        let path = |path: &str| SaveTarget::from(Path::new(path));
        assert!(path("a/world.save").may_alias(&path("a/../b/World.SAVE")));
        assert!(!path("a/world.save").may_alias(&path("a/other.save")));
        assert!(path("a/\u{e9}").may_alias(&path("a/e\u{301}")), "the same letter, written in two ways");
        assert!(!path("quick").may_alias(&"quick".into()), "a slot is no path");
        assert_eq!(path("a/b").to_string(), Path::new("a/b").display().to_string());
        assert_ne!(path("a"), path("b"));
    }
}

//! Saves at rest. Front ends hand their bytes over here and get checked snapshots back.
//!
//! | what | for |
//! |---|---|
//! | [`Disk`], [`OsDisk`], [`MemoryDisk`] | one directory of files, and when its changes are durable |
//! | [`Store`], [`DirStore`], [`MemoryStore`] | named blobs that are replaced as a whole or not at all |
//! | [`Slots`] | saves as players know them: names, several saves in each, what a menu shows |
//! | [`Slots::append`], [`JournalBase`] | the journal of a save: what has changed since, at the cost of what has changed |
//! | [`Saver`], [`Handle`] | the same off the game's thread: in order, in the background |
//! | [`Rotating`] | the last few states of every blob |
//! | `Sealed` (feature `seal`) | blobs that nobody without a key reads, or changes unnoticed |
//! | `conformance` (feature) | what every store must do, as tests |
//! | [`write()`], [`read()`] | one save at a path |
//! | [`check_schemas`] | the game's schema lock, checked by a test of the game |

#[cfg(not(target_arch = "wasm32"))]
mod app;
#[cfg(feature = "conformance")]
pub mod conformance;
mod disk;
#[cfg(not(target_arch = "wasm32"))]
mod file;
mod generation;
mod journal;
mod live;
#[cfg(not(target_arch = "wasm32"))]
mod lock;
mod maybe;
mod rotating;
#[cfg(feature = "seal")]
mod sealed;
mod slots;
mod store;
mod wait;

#[cfg(not(target_arch = "wasm32"))]
pub use app::app_directory;
#[cfg(not(target_arch = "wasm32"))]
pub use disk::OsDisk;
pub use disk::{Access, Disk, DiskFile, DiskLock, MemoryDisk};
#[cfg(not(target_arch = "wasm32"))]
pub use file::{read, write};
pub use journal::{Appended, Compaction, JournalBase, JournalInfo, Lost, Replay};
pub use live::{
    Handle, HandleFuture, LoadHandle, Progress, Promise, RequestedSave, SaveHandle, SaveReport, SaveTarget,
    Saver, SaverStatus, Stage, Watch,
};
#[cfg(not(target_arch = "wasm32"))]
pub use lock::{check_schemas, read_lock, write_lock};
pub use maybe::{MaybeSend, MaybeSync};
pub use rotating::{Found, Rotating};
#[cfg(feature = "seal")]
pub use sealed::{
    FrameSealer, PassphraseCosts, SealKey, Sealed, SigningKey, Suite, TrustedCounter, VerifyingKey,
};
pub use slots::{Details, Keep, LoadedSave, SaveInfo, Saved, Skipped, SlotInfo, Slots};
pub use store::{
    DirStore, Head, MemoryStore, Payload, Precondition, Store, StoreFuture, Version, check_name, is_sealed,
};
pub use wait::Wait;

/// The code of the guide, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/slots.md")]
mod guide {}

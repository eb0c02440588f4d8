//! Storage for Bonfire, the save system for games: slots, crash-safe files, journals, background
//! saving, sealing.
//!
//! Front ends pass snapshots to this crate and get checked snapshots back.
//!
//! | item | purpose |
//! |---|---|
//! | [`disk`] | one directory of files, and when its changes are durable |
//! | [`Store`], [`DirStore`], [`MemoryStore`] | named blobs, replaced as a whole or not at all |
//! | [`Slots`] | saves as players know them: names, several saves per name, details for menus |
//! | [`Slots::append`], [`JournalBase`] | the journal of a save: later changes, at the cost of what has changed |
//! | [`Saver`], [`Handle`] | saves and loads on a background thread, in order |
//! | [`Rotating`] | the last few states of every blob |
//! | `Sealed` (feature `seal`) | encrypted, tamper-evident or signed blobs |
//! | [`backend`], `conformance` (feature) | helpers and tests for stores of your own |
//! | [`engine`] | requests of front ends, which return handles before they capture |
//! | [`write()`], [`read()`] | one save at a path |
//! | [`check_schemas`] | checks the game's schema lock in a test of the game |
//!
//! # Features
//!
//! | feature | default | effect |
//! |---|---|---|
//! | `seal` | no | `Sealed`: encryption, tamper evidence, signatures, rollback protection |
//! | `conformance` | no | the tests that every `Store` must pass, for your own backend |
//! | `web` | no | on wasm32: the clocks of the browser |

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(target_arch = "wasm32"))]
mod app_directory;
pub mod backend;
mod blocking;
mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod disk;
pub mod engine;
#[cfg(not(target_arch = "wasm32"))]
mod file;
mod generation;
mod journal;
mod live;
mod portable_name;
mod progress;
mod rotating;
mod save_name;
#[cfg(not(target_arch = "wasm32"))]
mod schema_lock;
#[cfg(feature = "seal")]
mod sealed;
mod slots;
mod store;

#[cfg(not(target_arch = "wasm32"))]
pub use app_directory::app_directory;
pub use blocking::Wait;
#[cfg(not(target_arch = "wasm32"))]
pub use file::{read, write};
pub use journal::{AppendReport, Compaction, JournalBase, JournalInfo, JournalReplay, LostDelta};
pub use live::{Handle, LoadHandle, LoadSource, SaveHandle, SaveReport, SaveTarget, Saver, SaverStatus};
pub use progress::{Phase, Progress};
pub use rotating::{IntactBlob, Rotating};
#[cfg(not(target_arch = "wasm32"))]
pub use schema_lock::{check_schemas, read_schema_lock, write_schema_lock};
#[cfg(feature = "seal")]
pub use sealed::{PassphraseCosts, SealKey, Sealed, SigningKey, Suite, TrustedCounter, VerifyingKey};
pub use slots::{Details, Keep, LoadedSave, SaveInfo, SkippedSave, SlotInfo, Slots, WrittenSave};
pub use store::{Batch, BlobHead, DirStore, MemoryStore, Payload, Precondition, Store, Version};

/// The code of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

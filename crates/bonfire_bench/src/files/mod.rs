//! Writes one file of each kind that Bonfire writes: `bonfire_bench files DIR`.
//!
//! All data comes from fixed seeds, so two builds that write the same format write the same bytes.
//! `bonfire_bench same A B` compares the directories of two builds.

mod chunks;
mod deltas;
mod messages;
mod sealed;
mod slots;
mod snapshots;
mod worlds;

use std::fs;
use std::path::Path;
use std::time::Duration;

use bonfire_store::{PassphraseCosts, SealKey, SigningKey};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Writes all files into a new directory.
pub(crate) fn write(directory: &Path) -> Result {
    fs::create_dir(directory)?;
    in_directory(directory, "snapshots", snapshots::write)?;
    in_directory(directory, "deltas", deltas::write)?;
    in_directory(directory, "messages", messages::write)?;
    in_directory(directory, "slots", slots::write)?;
    in_directory(directory, "sealed", sealed::write)?;
    in_directory(directory, "chunks", chunks::write)
}

fn in_directory(parent: &Path, name: &str, write: fn(&Path) -> Result) -> Result {
    let directory = parent.join(name);
    fs::create_dir(&directory)?;
    write(&directory).map_err(|error| format!("{name}: {error}").into())
}

/// The key of sealed blobs and worlds.
pub(crate) fn seal_key() -> SealKey {
    SealKey::from_bytes([7; 32])
}

/// The key of sealed blobs and worlds whose names begin with `passphrase`.
pub(crate) fn passphrase_key() -> SealKey {
    let costs = PassphraseCosts { memory_kib: 1_024, passes: 1, lanes: 1 };
    SealKey::from_passphrase_with("open sesame", costs)
}

/// The key of signed blobs.
pub(crate) fn signing_key() -> SigningKey {
    SigningKey::from_bytes([9; 32])
}

/// The time of all saves whose names do not begin with `clock`.
#[expect(clippy::unnecessary_wraps, reason = "slots take a clock that may not know the time")]
fn fixed_clock() -> Option<Duration> {
    Some(Duration::from_millis(1_800_000_000_123))
}

//! Sealed blobs: every suite and option, and slots with a journal in a sealed store.
//!
//! The save id of a sealed blob is random, and so is the salt of a passphrase. Each blob is therefore opened again, and its
//! content written beside it as `.opened`.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use bevy_bonfire::{SaveOptions, WorldSaveExt};
use bonfire_store::{DirStore, Payload, Precondition, Sealed, Slots, Store, Suite, TrustedCounter, Wait};

use super::{Result, fixed_clock, passphrase_key, seal_key, signing_key, slots, worlds};

pub(super) fn write(directory: &Path) -> Result {
    suites(directory)?;
    options(directory)?;
    signatures(directory)?;
    passphrase(directory)?;
    in_slots(directory)
}

/// Puts a save of which the first bytes stay readable, and writes what comes out again.
fn put(directory: &Path, name: &str, open: u64, seal: impl FnOnce(DirStore) -> Sealed<DirStore>) -> Result {
    let store = seal(DirStore::open(directory)?);
    let snapshot = worlds::bevy_plain().capture(&SaveOptions::new())?;
    let payload = Payload::from(snapshot.to_bytes()?).leave_open(open);
    let blob = format!("{name}.sealed");
    store.put(&blob, payload, Precondition::None).wait()?;
    fs::write(directory.join(format!("{name}.opened")), store.get(&blob).wait()?)?;
    Ok(())
}

fn suites(directory: &Path) -> Result {
    let suites =
        [("xchacha", Suite::XChaCha20Poly1305), ("aes", Suite::Aes256GcmSiv), ("evident", Suite::Evident)];
    for (name, suite) in suites {
        put(directory, name, 0, |store| Sealed::new(store, seal_key()).suite(suite))?;
        put(directory, &format!("{name}-open"), 512, |store| Sealed::new(store, seal_key()).suite(suite))?;
    }
    Ok(())
}

fn options(directory: &Path) -> Result {
    put(directory, "bound", 512, |store| Sealed::new(store, seal_key()).bind_name())?;
    put(directory, "hidden", 512, |store| Sealed::new(store, seal_key()).hide_metadata())?;
    put(directory, "counted", 512, |store| Sealed::new(store, seal_key()).counter(Counter::default()))
}

fn signatures(directory: &Path) -> Result {
    put(directory, "signed", 512, |store| Sealed::signing(store, signing_key()))?;
    let sign = |store| Sealed::new(store, seal_key()).sign_with(signing_key());
    put(directory, "sealed-signed", 512, sign)?;
    put(directory, "bound-signed", 512, |store| sign(store).bind_name())
}

fn passphrase(directory: &Path) -> Result {
    put(directory, "passphrase", 512, |store| Sealed::new(store, passphrase_key()))
}

/// A save with a journal: a sealed store cannot append, so each record is a blob.
fn in_slots(directory: &Path) -> Result {
    let store = Sealed::new(DirStore::open(directory.join("slots"))?, seal_key());
    slots::journal(&Slots::new(store).clock(fixed_clock), "journal")
}

/// Counts in memory.
#[derive(Default)]
struct Counter(Mutex<u64>);

impl TrustedCounter for Counter {
    fn newest(&self, _: &str) -> bonfire::Result<u64> {
        Ok(*self.0.lock().expect("no thread panics while it counts"))
    }

    fn advance(&self, _: &str, to: u64) -> bonfire::Result<()> {
        let mut newest = self.0.lock().expect("no thread panics while it counts");
        *newest = to.max(*newest);
        Ok(())
    }
}

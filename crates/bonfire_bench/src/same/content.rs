//! Opens two files that differ in times or random bytes, and compares what is in them.
//!
//! Checksums, tags and ciphertext depend on those bytes, so they cannot be compared. This build must be able to read them
//! in both files. Journals are left out: those with a fixed time are equal byte by byte.

use std::path::Path;

use bevy_bonfire::sync::{MessageHead, MessageLimits};
use bonfire::Snapshot;
use bonfire_chunks::{Access, ChunkOptions, ChunkRect, ChunkWorld};
use bonfire_store::{MemoryStore, Payload, Precondition, Sealed, Store, Wait};
use bytes::Bytes;

use super::fields::{MESSAGE_MAGIC, SAVE_MAGIC, SEALED_MAGIC, WORLD_MAGIC};
use crate::files::{passphrase_key, seal_key, signing_key};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Fails if one of two files is damaged, or if they hold different content.
pub(super) fn compare(one: &Path, other: &Path, name: &str, first: &[u8], second: &[u8]) -> Result {
    match first {
        _ if first.starts_with(SEALED_MAGIC) => same(opened(name, first)? == opened(name, second)?),
        _ if first.starts_with(WORLD_MAGIC) => worlds(&world(one, first)?, &world(other, second)?),
        _ if first.starts_with(SAVE_MAGIC) => {
            [first, second].iter().try_for_each(|save| Snapshot::open(save).map(drop).map_err(Into::into))
        }
        _ if first.starts_with(MESSAGE_MAGIC) => [first, second].iter().try_for_each(|message| {
            MessageHead::read(&Bytes::copy_from_slice(message), &MessageLimits::default())?;
            Ok(())
        }),
        _ => Ok(()),
    }
}

fn same(is_same: bool) -> Result {
    if is_same { Ok(()) } else { Err("the content is another one".into()) }
}

/// The content of a sealed blob.
fn opened(name: &str, blob: &[u8]) -> Result<Bytes> {
    let store = MemoryStore::new();
    store.put(name, Payload::from(blob.to_vec()), Precondition::None).wait()?;
    let (suite, flags) = (blob[10], blob[11]);
    let store = match (suite, flags & 4 != 0) {
        (4, _) => Sealed::verifying(store, signing_key().verifying_key()),
        (_, true) => Sealed::new(store, passphrase_key()),
        (_, false) => Sealed::new(store, seal_key()),
    };
    let is_signed = flags & 2 != 0;
    let store = if is_signed { store.require_signature(signing_key().verifying_key()) } else { store };
    Ok(store.get(name).wait()?)
}

/// A world whose frames are all whole.
fn world(path: &Path, bytes: &[u8]) -> Result<ChunkWorld> {
    let is_sealed = bytes[6] & 4 != 0;
    let has_passphrase =
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"passphrase"));
    let world = match (is_sealed, has_passphrase) {
        (false, _) => ChunkWorld::open_as_is(path, Access::Read)?,
        (true, false) => ChunkOptions::as_is().sealed(seal_key()).open_read_only(path)?,
        (true, true) => ChunkOptions::as_is().sealed(passphrase_key()).open_read_only(path)?,
    };
    let report = world.report();
    if !report.is_fine() || report.bytes_dropped > 0 {
        return Err(format!("{}: {report:?}", path.display()).into());
    }
    if let Some((frame, error)) = world.check(|_, _| {}).damaged.first() {
        return Err(format!("{}: {frame:?}: {error}", path.display()).into());
    }
    Ok(world)
}

fn worlds(first: &ChunkWorld, second: &ChunkWorld) -> Result {
    same(first.iter().eq(second.iter()))?;
    for pos in first.iter() {
        same(first.read_stored(pos)? == second.read_stored(pos)?)?;
    }
    let bodies = first.chunks_with_bodies(ChunkRect::ALL);
    same(bodies == second.chunks_with_bodies(ChunkRect::ALL))?;
    for pos in bodies {
        same(first.read_bodies(pos)? == second.read_bodies(pos)?)?;
    }
    let entities = first.chunks_with_entities(ChunkRect::ALL);
    same(entities == second.chunks_with_entities(ChunkRect::ALL))?;
    for pos in entities {
        same(first.read_entities(pos)? == second.read_entities(pos)?)?;
    }
    Ok(())
}

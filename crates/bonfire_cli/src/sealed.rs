//! Sealed saves: with a key they are like others, without one their heads can be read if they were left open.

use std::ops::Range;
use std::path::{Path, PathBuf};

use bonfire::Result;
use bonfire_store::backend::{Change, StoreFuture, is_sealed};
use bonfire_store::{Batch, BlobHead, MemoryStore, Precondition, SealKey, Sealed, Store, Version, Wait};
use bytes::Bytes;
use clap::Args;

use crate::exit::Failure;

/// Where the keys of sealed saves are. They are files, so that no secret is in the list of processes.
#[derive(Args, Clone, Default)]
pub(crate) struct KeyArguments {
    /// A file with the key of sealed saves: 32 bytes, or 64 hexadecimal digits
    #[arg(long, global = true, value_name = "PATH")]
    key_file: Option<PathBuf>,
    /// A file whose first line is the passphrase of sealed saves
    #[arg(long, global = true, value_name = "PATH")]
    passphrase_file: Option<PathBuf>,
}

impl KeyArguments {
    pub(crate) fn keys(&self) -> Result<Vec<SealKey>, Failure> {
        let mut keys = Vec::new();
        if let Some(path) = &self.key_file {
            let bytes = std::fs::read(path).map_err(|error| Failure::file(path, error))?;
            let key = parse_key(&bytes);
            keys.push(key.ok_or_else(|| {
                Failure::file(path, "a key is 32 bytes, or 64 hexadecimal digits, and nothing else")
            })?);
        }
        if let Some(path) = &self.passphrase_file {
            let text = std::fs::read_to_string(path).map_err(|error| Failure::file(path, error))?;
            let passphrase = text.lines().next().filter(|line| !line.is_empty());
            let passphrase = passphrase.ok_or_else(|| Failure::file(path, "the first line is empty"))?;
            keys.push(SealKey::from_passphrase(passphrase));
        }
        Ok(keys)
    }
}

fn parse_key(bytes: &[u8]) -> Option<SealKey> {
    if let Ok(key) = <[u8; 32]>::try_from(bytes) {
        return Some(SealKey::from_bytes(key));
    }
    let digits = bytes.trim_ascii();
    let mut key = [0; 32];
    if digits.len() != 64 {
        return None;
    }
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(SealKey::from_bytes(key))
}

/// A store that opens with these keys what is sealed.
pub(crate) fn with_keys<S: Store>(store: S, keys: &[SealKey]) -> Sealed<S> {
    match keys {
        [] => Sealed::without_key(store),
        [first, others @ ..] => {
            others.iter().cloned().fold(Sealed::new(store, first.clone()), Sealed::also_reads)
        }
    }
}

/// The plain bytes of a file that may be sealed. Its name matters if it is bound to it.
pub(crate) fn open(path: &Path, bytes: Bytes, keys: &[SealKey]) -> Result<Bytes> {
    if !is_sealed(&bytes) {
        return Ok(bytes);
    }
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.filter(|name| bonfire_store::backend::check_name(name).is_ok()).unwrap_or("save");
    let memory = MemoryStore::new();
    memory.put(name, bytes.into(), Precondition::None).wait()?;
    with_keys(memory, keys).get(name).wait()
}

/// A store in which some saves are sealed and others are not. Each is treated as what it is: a sealed one that is bound
/// to its name is not renamed without its key, and a copy of a sealed one is sealed.
pub(crate) struct MixedStore<S> {
    plain: S,
    sealed: Sealed<S>,
}

impl<S: Store + Clone> MixedStore<S> {
    pub(crate) fn new(store: S, keys: &[SealKey]) -> Self {
        Self { plain: store.clone(), sealed: with_keys(store, keys) }
    }

    /// The store that understands a blob.
    async fn of(&self, name: &str) -> Result<&dyn Store> {
        let start = self.plain.get_range(name, 0..8).await?;
        Ok(if is_sealed(&start) { &self.sealed } else { &self.plain })
    }
}

impl<S: Store + Clone> Store for MixedStore<S> {
    fn get<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Bytes> {
        Box::pin(async move { self.of(name).await?.get(name).await })
    }
    fn get_range<'a>(&'a self, name: &'a str, range: Range<u64>) -> StoreFuture<'a, Bytes> {
        Box::pin(async move { self.of(name).await?.get_range(name, range).await })
    }
    fn head<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Option<BlobHead>> {
        Box::pin(async move {
            match self.of(name).await {
                Err(error) if error.is_not_found() => Ok(None),
                store => store?.head(name).await,
            }
        })
    }
    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<String>> {
        self.plain.list(prefix)
    }
    fn path_of(&self, name: &str) -> Option<String> {
        self.plain.path_of(name)
    }
    fn change(&self, batch: Batch) -> StoreFuture<'_, Vec<Option<Version>>> {
        // What the tool itself puts is not sealed. What it moves and copies stays what it is.
        let puts = |change: &Change| matches!(change, Change::Put { .. } | Change::Append { .. });
        match batch.changes().iter().any(puts) {
            true => self.plain.change(batch),
            false => self.sealed.change(batch),
        }
    }
}

//! Keys, and what is derived from them.
//!
//! Nothing is encrypted with a key that the game gives: each file has keys of its own, derived from the game's key and
//! the file's random id.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use argon2::{Algorithm, Argon2, Params, Version};
use bonfire::{Error, Result};
use zeroize::{Zeroize, Zeroizing};

use super::format::{KeyId, SaveId};
use super::random::random;
use super::suite::Suite;

const KEY_ID: &str = "bonfire_store 2026 sealed v1 key id";
const FILE_KEYS: &str = "bonfire_store 2026 sealed v1 file keys";

/// How many stretched passphrases are remembered: as many as there are salts in an ordinary directory.
const STRETCHED_MAX: usize = 64;

/// The effort that looking for the key of a file is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeySearch {
    /// The file is to be opened: every passphrase is stretched.
    Full,
    /// A list of saves looks at the head: little is done for files of other keys.
    Glance,
}

/// How many salts are tried for a glance at files that turn out not to be ours.
const STRANGERS_MAX: usize = 4;

/// What seals and opens saves: 32 secret bytes, or a passphrase.
///
/// Clones share what they have computed. The secret is overwritten when the last clone is dropped, and never printed.
#[derive(Clone)]
pub struct SealKey(Arc<Secret>);

enum Secret {
    Bytes(Arc<MasterKey>),
    Passphrase { text: Zeroizing<String>, costs: PassphraseCosts, stretched: Mutex<Vec<DerivedSecret>> },
}

/// What a guess of a passphrase costs: those of Argon2id. They are stored with each save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassphraseCosts {
    /// Memory that is needed, in KiB; 256 MiB at most. Default: 64 MiB.
    pub memory_kib: u32,
    /// How often it is filled; 16 times at most. Default: 3.
    pub passes: u32,
    /// How many processors could fill it side by side; 4 at most. Default: 1.
    pub lanes: u32,
}

impl Default for PassphraseCosts {
    fn default() -> Self {
        Self { memory_kib: 64 << 10, passes: 3, lanes: 1 }
    }
}

impl PassphraseCosts {
    /// The most that any save may cost: 256 MiB, 16 passes, 4 lanes.
    pub const MAX: Self = Self { memory_kib: 256 << 10, passes: 16, lanes: 4 };

    fn exceed(self, other: &Self) -> bool {
        self.memory_kib > other.memory_kib || self.passes > other.passes || self.lanes > other.lanes
    }

    /// They may come from a hostile file: refused before anything is allocated.
    fn check(self, max: &Self) -> Result<()> {
        let Self { memory_kib, passes, lanes } = self;
        if self.exceed(max) || self.exceed(&Self::MAX) {
            let (memory_max, passes_max, lanes_max) = (max.memory_kib, max.passes, max.lanes);
            return Err(Error::limit(format!(
                "the passphrase costs {memory_kib} KiB, {passes} passes and {lanes} lanes: \
                 {memory_max} KiB, {passes_max} and {lanes_max} are allowed"
            )));
        }
        if passes == 0 || lanes == 0 || memory_kib < 8 * lanes {
            return Err(Error::corrupt(format!(
                "a passphrase cannot cost {memory_kib} KiB, {passes} passes and {lanes} lanes"
            )));
        }
        Ok(())
    }
}

/// How a passphrase becomes a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PassphraseParameters {
    pub(super) salt: [u8; 16],
    pub(super) costs: PassphraseCosts,
}

struct DerivedSecret {
    stretch: PassphraseParameters,
    master: Arc<MasterKey>,
    /// A save was opened with it, or it was made here: fit to write with.
    fits: bool,
}

/// 32 bytes from which the keys of files come, and the name by which a file says that it needs them.
pub(super) struct MasterKey {
    key: Zeroizing<[u8; 32]>,
    id: KeyId,
}

impl MasterKey {
    fn new(key: Zeroizing<[u8; 32]>) -> Arc<Self> {
        let mut hash = Zeroizing::new(blake3::derive_key(KEY_ID, &*key));
        let mut id = KeyId::default();
        id.copy_from_slice(&hash[..8]);
        hash.zeroize();
        Arc::new(Self { key, id })
    }

    pub(super) fn id(&self) -> KeyId {
        self.id
    }

    /// Derives keys for one purpose, and for what some bytes name.
    pub(super) fn derive<const N: usize>(&self, purpose: &str, named: &[u8]) -> Zeroizing<[u8; N]> {
        let mut hasher = blake3::Hasher::new_derive_key(purpose);
        hasher.update(&*self.key).update(named);
        let mut keys = Zeroizing::new([0; N]);
        let mut output = hasher.finalize_xof();
        output.fill(&mut *keys);
        output.zeroize();
        hasher.zeroize();
        keys
    }
}

impl SealKey {
    /// A key of 32 bytes that nobody can guess: from the system's keystore, from a server, from a random generator.
    pub fn from_bytes(mut bytes: [u8; 32]) -> Self {
        let master = MasterKey::new(Zeroizing::new(bytes));
        bytes.zeroize();
        Self(Arc::new(Secret::Bytes(master)))
    }

    /// A key that the player types. It is stretched with Argon2id, which takes a tenth of a second and 64 MiB, once per
    /// session and for each other salt among the saves. The same letters must come as the same bytes: normalise what
    /// players type if it is not ASCII.
    pub fn from_passphrase(passphrase: impl Into<String>) -> Self {
        Self::from_passphrase_with(passphrase, PassphraseCosts::default())
    }

    /// A key that the player types, at a price of your own. Costs above the limits are an error of the first call that
    /// needs the key. Saves with other costs are read at theirs.
    pub fn from_passphrase_with(passphrase: impl Into<String>, costs: PassphraseCosts) -> Self {
        let text = Zeroizing::new(passphrase.into());
        Self(Arc::new(Secret::Passphrase { text, costs, stretched: Mutex::default() }))
    }

    /// The key to write with, and how it came from a passphrase if it did.
    ///
    /// A salt under which a save was opened is used again: then the saves of many sessions share one, and opening them
    /// all costs one derivation. Files have different keys all the same.
    pub(super) fn to_write(&self) -> Result<(Arc<MasterKey>, Option<PassphraseParameters>)> {
        match &*self.0 {
            Secret::Bytes(master) => Ok((Arc::clone(master), None)),
            Secret::Passphrase { text, costs, stretched } => {
                let mut known = stretched.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(found) = known.iter().find(|known| known.fits && known.stretch.costs == *costs) {
                    return Ok((Arc::clone(&found.master), Some(found.stretch)));
                }
                let stretch = PassphraseParameters { salt: random()?, costs: *costs };
                let master = derive(text, &stretch)?;
                remember(&mut known, DerivedSecret { stretch, master: Arc::clone(&master), fits: true });
                Ok((master, Some(stretch)))
            }
        }
    }

    /// The key that a file asks for, if this is it.
    ///
    /// For a [glance](KeySearch::Glance) little is done for a stranger: a passphrase is not stretched at higher
    /// costs than its own, and not any more when a few salts have turned out to be nobody's.
    pub(super) fn to_read(
        &self,
        id: KeyId,
        stretch: Option<&PassphraseParameters>,
        search: KeySearch,
        costs_max: &PassphraseCosts,
    ) -> Result<Option<Arc<MasterKey>>> {
        let master = match (&*self.0, stretch) {
            (Secret::Bytes(master), None) => Arc::clone(master),
            (Secret::Passphrase { text, stretched, costs }, Some(stretch)) => {
                stretch.costs.check(costs_max)?;
                let mut known = stretched.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(found) = known.iter().find(|known| known.stretch == *stretch) {
                    Arc::clone(&found.master)
                } else {
                    let strangers = known.iter().filter(|known| !known.fits).count();
                    let is_glance = search == KeySearch::Glance;
                    if is_glance && (stretch.costs.exceed(costs) || strangers >= STRANGERS_MAX) {
                        return Ok(None);
                    }
                    // Not under the lock: a hostile file takes its time, and saves with a known salt must not wait for it.
                    drop(known);
                    let master = derive(text, stretch)?;
                    known = stretched.lock().unwrap_or_else(PoisonError::into_inner);
                    if !known.iter().any(|known| known.stretch == *stretch) {
                        let master = Arc::clone(&master);
                        remember(&mut known, DerivedSecret { stretch: *stretch, master, fits: false });
                    }
                    master
                }
            }
            _ => return Ok(None),
        };
        Ok((master.id == id).then_some(master))
    }

    /// A file that was stretched so has proved to be ours.
    pub(super) fn fits(&self, stretch: Option<&PassphraseParameters>) {
        if let (Secret::Passphrase { stretched, .. }, Some(stretch)) = (&*self.0, stretch) {
            let mut known = stretched.lock().unwrap_or_else(PoisonError::into_inner);
            known.iter_mut().filter(|known| known.stretch == *stretch).for_each(|known| known.fits = true);
        }
    }
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &*self.0 {
            Secret::Bytes(_) => "SealKey(bytes)",
            Secret::Passphrase { .. } => "SealKey(passphrase)",
        })
    }
}

fn remember(known: &mut Vec<DerivedSecret>, stretched: DerivedSecret) {
    if known.len() >= STRETCHED_MAX {
        let oldest = known.iter().position(|known| !known.fits).unwrap_or(0);
        known.remove(oldest);
    }
    known.push(stretched);
}

fn derive(passphrase: &str, stretch: &PassphraseParameters) -> Result<Arc<MasterKey>> {
    let PassphraseParameters { salt, costs } = stretch;
    costs.check(&PassphraseCosts::MAX)?;
    let refused = |error: argon2::Error| Error::limit(format!("the passphrase cannot be stretched: {error}"));
    let params = Params::new(costs.memory_kib, costs.passes, costs.lanes, Some(32)).map_err(refused)?;
    let mut key = Zeroizing::new([0; 32]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(passphrase.as_bytes(), salt, &mut *key)
        .map_err(refused)?;
    Ok(MasterKey::new(key))
}

/// The keys of one file.
pub(super) struct FileKeys {
    both: Zeroizing<[u8; 64]>,
}

impl FileKeys {
    pub(super) fn derive(master: &MasterKey, suite: Suite, save: &SaveId) -> Self {
        Self::from_key(&master.key, suite, save)
    }

    /// Of files that have a signature and no key: everybody can compute them.
    pub(super) fn public(suite: Suite, save: &SaveId) -> Self {
        Self::from_key(&[0; 32], suite, save)
    }

    fn from_key(key: &[u8; 32], suite: Suite, save: &SaveId) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(FILE_KEYS);
        hasher.update(key).update(&[suite.number()]).update(save);
        let mut both = Zeroizing::new([0; 64]);
        let mut output = hasher.finalize_xof();
        output.fill(&mut *both);
        output.zeroize();
        hasher.zeroize();
        Self { both }
    }

    /// Authenticates what stands before the segments.
    pub(super) fn front(&self) -> &[u8; 32] {
        self.both.first_chunk().unwrap_or_else(|| unreachable!("64 bytes have a first half"))
    }

    /// Encrypts, or authenticates, the segments.
    pub(super) fn body(&self) -> &[u8; 32] {
        self.both.last_chunk().unwrap_or_else(|| unreachable!("64 bytes have a second half"))
    }
}

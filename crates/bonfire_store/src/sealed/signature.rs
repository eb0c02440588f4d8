//! Signatures: who holds the public half can check, and cannot sign.

use std::fmt;

use bonfire::{Error, Result};
use ed25519_dalek::Signer;

use super::format::SIGNATURE_BYTES;

/// Nothing else that a server signs with the same key can be taken for one of these.
const FRONT: &[u8] = b"bonfire_store sealed v1 front\0";
const WHOLE: &[u8] = b"bonfire_store sealed v1 whole\0";

/// What a signature is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum Signed {
    /// Header, open bytes and their tag: lists of saves need no more.
    BlobFront,
    /// Everything before the signature.
    Whole,
}

fn message(about: Signed, hash: &blake3::Hash) -> Vec<u8> {
    let context = match about {
        Signed::BlobFront => FRONT,
        Signed::Whole => WHOLE,
    };
    [context, hash.as_bytes()].concat()
}

/// The secret half of an ed25519 key: signs saves. Keep it on the server. It is overwritten when dropped, and never
/// printed.
#[derive(Clone)]
pub struct SigningKey(ed25519_dalek::SigningKey);

impl SigningKey {
    /// The key with these 32 secret bytes, which must be random.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        let bytes = zeroize::Zeroizing::new(bytes);
        Self(ed25519_dalek::SigningKey::from_bytes(&bytes))
    }

    /// The public half, for those who check.
    pub fn verifying_key(&self) -> VerifyingKey {
        VerifyingKey(self.0.verifying_key())
    }

    pub(super) fn sign(&self, about: Signed, hash: &blake3::Hash) -> [u8; SIGNATURE_BYTES] {
        self.0.sign(&message(about, hash)).to_bytes()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey(of {:?})", self.verifying_key())
    }
}

/// The public half of an ed25519 key: checks signatures. It may be in the game for everybody to see.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct VerifyingKey(ed25519_dalek::VerifyingKey);

impl VerifyingKey {
    /// The key with these 32 bytes. Not all bytes are one, and a few are ones under which anything verifies: both are
    /// [`Error::is_misuse`](bonfire::Error::is_misuse).
    pub fn from_bytes(bytes: [u8; 32]) -> Result<Self> {
        match ed25519_dalek::VerifyingKey::from_bytes(&bytes) {
            Ok(key) if !key.is_weak() => Ok(Self(key)),
            _ => Err(Error::misuse("these 32 bytes are not an ed25519 key that can be trusted")),
        }
    }

    /// The 32 bytes, to put into the game.
    pub fn to_bytes(self) -> [u8; 32] {
        self.0.to_bytes()
    }

    pub(super) fn verifies(
        &self,
        about: Signed,
        hash: &blake3::Hash,
        signature: &[u8; SIGNATURE_BYTES],
    ) -> bool {
        let signature = ed25519_dalek::Signature::from_bytes(signature);
        self.0.verify_strict(&message(about, hash), &signature).is_ok()
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VerifyingKey(")?;
        self.0.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

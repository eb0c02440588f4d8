//! How the segments of a body are sealed.

use aes_gcm_siv::Aes256GcmSiv;
use bonfire::{Error, Result};
use chacha20poly1305::XChaCha20Poly1305;
use chacha20poly1305::aead::inout::InOutBuf;
use chacha20poly1305::aead::{AeadInOut, KeyInit};
use zeroize::Zeroizing;

use super::format::TAG_BYTES;

/// How a save is sealed. It is stored with each save: any is read, whichever is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Suite {
    /// Secret and authentic. As fast on every processor, and the one to take.
    #[default]
    XChaCha20Poly1305,
    /// Secret and authentic, also where the random generator repeats itself: virtual machines that are restored from
    /// an image, some consoles. Slow on processors without instructions for AES.
    Aes256GcmSiv,
    /// Not secret, but who has no key cannot change it unnoticed: keyed BLAKE3. Whoever looks into the file sees the bytes;
    /// a store hands them out only to who has the key, because nobody else can tell whether they are right.
    Evident,
    /// Not secret, and only who has the [`SigningKey`](super::SigningKey) can write it. There is no other key: whoever has
    /// the [`VerifyingKey`](super::VerifyingKey), which is no secret, reads it.
    Signed,
}

impl Suite {
    pub(super) fn number(self) -> u8 {
        match self {
            Self::XChaCha20Poly1305 => 1,
            Self::Aes256GcmSiv => 2,
            Self::Evident => 3,
            Self::Signed => 4,
        }
    }

    pub(super) fn from_number(number: u8) -> Option<Self> {
        [Self::XChaCha20Poly1305, Self::Aes256GcmSiv, Self::Evident, Self::Signed]
            .into_iter()
            .find(|suite| suite.number() == number)
    }

    /// Bytes that each segment grows by.
    pub(super) fn tag_bytes(self) -> usize {
        match self {
            Self::XChaCha20Poly1305 | Self::Aes256GcmSiv => 16,
            Self::Evident => 32,
            Self::Signed => 0,
        }
    }
}

/// Which segment of its file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub(super) index: u64,
    pub(super) last: bool,
}

impl Position {
    /// Different for each segment of a file, and so for each use of a file's key.
    fn nonce<const N: usize>(self) -> [u8; N] {
        let mut nonce = [0; N];
        nonce[..8].copy_from_slice(&self.index.to_le_bytes());
        nonce[8] = u8::from(self.last);
        nonce
    }
}

/// Seals and opens the segments of one file.
pub(super) struct Cipher {
    key: Algorithm,
    /// The tag of what stands before the segments: they belong to it and to nothing else.
    front: [u8; TAG_BYTES],
    /// The same, filled up: the vector code of Poly1305 takes 64 bytes at once, and is slow to the end of a segment if it
    /// begins in the middle of them.
    associated: [u8; 64],
}

enum Algorithm {
    XChaCha(Box<XChaCha20Poly1305>),
    AesSiv(Box<Aes256GcmSiv>),
    Evident(Zeroizing<[u8; 32]>),
    Signed,
}

impl Cipher {
    pub(super) fn new(suite: Suite, key: &[u8; 32], front: [u8; TAG_BYTES]) -> Self {
        let key = match suite {
            Suite::XChaCha20Poly1305 => Algorithm::XChaCha(Box::new(XChaCha20Poly1305::new(key.into()))),
            Suite::Aes256GcmSiv => Algorithm::AesSiv(Box::new(Aes256GcmSiv::new(key.into()))),
            Suite::Evident => Algorithm::Evident(Zeroizing::new(*key)),
            Suite::Signed => Algorithm::Signed,
        };
        let mut associated = [0; 64];
        associated[..TAG_BYTES].copy_from_slice(&front);
        Self { key, front, associated }
    }

    /// Seals one segment from `text` into its own memory or other memory, and writes its tag.
    pub(super) fn seal(&self, at: Position, text: InOutBuf<'_, '_, u8>, tag: &mut [u8]) -> Result<()> {
        let too_long = |_| Error::limit("a segment is too long for its cipher");
        match &self.key {
            Algorithm::XChaCha(cipher) => {
                let nonce = at.nonce::<24>();
                tag.copy_from_slice(
                    &cipher
                        .encrypt_inout_detached((&nonce).into(), &self.associated, text)
                        .map_err(too_long)?,
                );
            }
            Algorithm::AesSiv(cipher) => {
                let nonce = at.nonce::<12>();
                tag.copy_from_slice(
                    &cipher
                        .encrypt_inout_detached((&nonce).into(), &self.associated, text)
                        .map_err(too_long)?,
                );
            }
            Algorithm::Evident(key) => {
                tag.copy_from_slice(self.evidence(key, at, text.get_in()).as_bytes());
                let _ = text.into_out_with_copied_in();
            }
            Algorithm::Signed => {
                let _ = text.into_out_with_copied_in();
            }
        }
        Ok(())
    }

    /// Opens one segment; false if it is not what was sealed there. Then what is in the output is not to be used.
    #[must_use]
    pub(super) fn open(&self, at: Position, text: InOutBuf<'_, '_, u8>, tag: &[u8]) -> bool {
        match &self.key {
            Algorithm::XChaCha(cipher) => tag.try_into().is_ok_and(|tag: &[u8; 16]| {
                let nonce = at.nonce::<24>();
                cipher.decrypt_inout_detached((&nonce).into(), &self.associated, text, tag.into()).is_ok()
            }),
            Algorithm::AesSiv(cipher) => tag.try_into().is_ok_and(|tag: &[u8; 16]| {
                let nonce = at.nonce::<12>();
                cipher.decrypt_inout_detached((&nonce).into(), &self.associated, text, tag.into()).is_ok()
            }),
            Algorithm::Evident(key) => tag.try_into().is_ok_and(|tag: &[u8; 32]| {
                let same = self.evidence(key, at, text.get_in()) == *tag;
                let _ = text.into_out_with_copied_in();
                same
            }),
            Algorithm::Signed => {
                let _ = text.into_out_with_copied_in();
                true
            }
        }
    }

    /// The position comes last, so that the text is hashed in whole blocks. Both ends have a fixed length.
    fn evidence(&self, key: &[u8; 32], at: Position, text: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(key);
        hasher.update(text).update(&at.nonce::<24>()).update(&self.front);
        hasher.finalize()
    }
}

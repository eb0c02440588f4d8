//! Sealing of many small pieces of one file, each on its own: for files that are changed in their middle.

use bonfire::{Error, Result};
use chacha20poly1305::XChaCha20Poly1305;
use chacha20poly1305::aead::{AeadInOut, KeyInit};

use super::format::{KeyId, SaveId};
use super::key::{FileKeys, KeySearch, PassphraseCosts, PassphraseParameters, SealKey};
use super::random::random;
use super::suite::Suite;

const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
const INFO_BYTES: usize = 64;
const VERSION: u8 = 1;

/// Seals the pieces of one file with XChaCha20-Poly1305. Each has a random nonce of its own, and is bound to what the caller
/// says of it.
///
/// A piece grows by 40 bytes. That a piece was replaced by an older one of the same place is not noticed unless the caller
/// binds it to something that changes.
pub struct FrameSealer {
    cipher: XChaCha20Poly1305,
    info: [u8; INFO_BYTES],
}

impl FrameSealer {
    /// For a new file.
    pub fn new(key: &SealKey) -> Result<Self> {
        let (master, stretch) = key.to_write()?;
        let file: SaveId = random()?;
        let keys = FileKeys::derive(&master, Suite::XChaCha20Poly1305, &file);
        let mut info = [0; INFO_BYTES];
        info[0] = VERSION;
        info[1] = u8::from(stretch.is_some());
        info[4..12].copy_from_slice(&master.id());
        info[12..36].copy_from_slice(&file);
        if let Some(PassphraseParameters { salt, costs }) = stretch {
            info[36..52].copy_from_slice(&salt);
            for (at, cost) in [(52, costs.memory_kib), (56, costs.passes), (60, costs.lanes)] {
                info[at..at + 4].copy_from_slice(&cost.to_le_bytes());
            }
        }
        Ok(Self { cipher: XChaCha20Poly1305::new(keys.body().into()), info })
    }

    /// For a file that says this of itself: see [`info`](Self::info). An error with
    /// [`is_wrong_key`](Error::is_wrong_key) if it is not the key.
    pub fn open(key: &SealKey, info: &[u8]) -> Result<Self> {
        let info: [u8; INFO_BYTES] =
            info.try_into().map_err(|_| Error::corrupt("what a file says of its seal is cut"))?;
        if info[0] != VERSION {
            let version = info[0];
            return Err(Error::newer_format(format!(
                "version {version} of sealed frames is newer than this build"
            )));
        }
        let part = |at: usize| [info[at], info[at + 1], info[at + 2], info[at + 3]];
        let mut id = KeyId::default();
        id.copy_from_slice(&info[4..12]);
        let mut file: SaveId = [0; 24];
        file.copy_from_slice(&info[12..36]);
        let mut salt = [0; 16];
        salt.copy_from_slice(&info[36..52]);
        let costs = PassphraseCosts {
            memory_kib: u32::from_le_bytes(part(52)),
            passes: u32::from_le_bytes(part(56)),
            lanes: u32::from_le_bytes(part(60)),
        };
        let stretch = (info[1] != 0).then_some(PassphraseParameters { salt, costs });
        let master = key.to_read(id, stretch.as_ref(), KeySearch::Full, &PassphraseCosts::MAX)?;
        let master = master.ok_or_else(|| Error::wrong_key("this key does not open the file"))?;
        key.fits(stretch.as_ref());
        let keys = FileKeys::derive(&master, Suite::XChaCha20Poly1305, &file);
        Ok(Self { cipher: XChaCha20Poly1305::new(keys.body().into()), info })
    }

    /// What the file must say of itself, in the open, to be read again: which key it needs, and 24 random bytes.
    pub fn info(&self) -> Vec<u8> {
        self.info.to_vec()
    }

    /// Seals a piece: a nonce, the same number of bytes, and a tag.
    pub fn seal(&self, data: &[u8], associated: &[u8]) -> Result<Vec<u8>> {
        let nonce: [u8; NONCE_BYTES] = random()?;
        let mut sealed = Vec::with_capacity(data.len() + NONCE_BYTES + TAG_BYTES);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(data);
        let text = (&mut sealed[NONCE_BYTES..]).into();
        let tag = self.cipher.encrypt_inout_detached((&nonce).into(), associated, text);
        let tag = tag.map_err(|_| Error::limit("a piece is too long for its cipher"))?;
        sealed.extend_from_slice(&tag);
        Ok(sealed)
    }

    /// Opens a piece where it lies. An error with [`is_corrupt`](Error::is_corrupt) if it is not what was sealed there.
    pub fn open_in_place<'b>(&self, sealed: &'b mut [u8], associated: &[u8]) -> Result<&'b [u8]> {
        let wrong = || Error::corrupt("it is not what was sealed");
        let (nonce, rest) = sealed.split_first_chunk_mut::<NONCE_BYTES>().ok_or_else(wrong)?;
        let (text, tag) = rest.split_last_chunk_mut::<TAG_BYTES>().ok_or_else(wrong)?;
        let opened = self.cipher.decrypt_inout_detached(
            (&*nonce).into(),
            associated,
            (&mut *text).into(),
            (&*tag).into(),
        );
        opened.map(|()| &*text).map_err(|_| wrong())
    }
}

impl std::fmt::Debug for FrameSealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FrameSealer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> SealKey {
        SealKey::from_bytes([byte; 32])
    }

    #[test]
    fn a_piece_opens_with_its_key_in_its_place_and_unchanged() {
        let sealer = FrameSealer::new(&key(1)).unwrap();
        let sealed = sealer.seal(b"cells", b"here").unwrap();
        assert_eq!(sealed.len(), 45);
        assert_ne!(sealed, sealer.seal(b"cells", b"here").unwrap(), "nonces differ");
        let again = FrameSealer::open(&key(1), &sealer.info()).unwrap();
        assert_eq!(again.open_in_place(&mut sealed.clone(), b"here").unwrap(), b"cells");
        assert!(again.open_in_place(&mut sealed.clone(), b"there").unwrap_err().is_corrupt());
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(again.open_in_place(&mut changed, b"here").unwrap_err().is_corrupt(), "byte {at}");
        }
        assert!(again.open_in_place(&mut sealed.clone()[..39], b"here").unwrap_err().is_corrupt());
        assert!(FrameSealer::open(&key(2), &sealer.info()).unwrap_err().is_wrong_key());
        assert!(FrameSealer::open(&key(1), &sealer.info()[1..]).unwrap_err().is_corrupt());
    }

    #[test]
    fn a_passphrase_opens_what_it_sealed() {
        let costs = PassphraseCosts { memory_kib: 64, passes: 1, lanes: 1 };
        let sealer = FrameSealer::new(&SealKey::from_passphrase_with("ember", costs)).unwrap();
        let mut sealed = sealer.seal(b"cells", b"").unwrap();
        let again =
            FrameSealer::open(&SealKey::from_passphrase_with("ember", costs), &sealer.info()).unwrap();
        assert_eq!(again.open_in_place(&mut sealed, b"").unwrap(), b"cells");
        let other = SealKey::from_passphrase_with("amber", costs);
        assert!(FrameSealer::open(&other, &sealer.info()).unwrap_err().is_wrong_key());
    }
}

//! Sealing of one file that is changed in its middle: many small pieces, each on its own, and proofs of which of them
//! belong together.

use bonfire::{Error, Result};
use chacha20poly1305::XChaCha20Poly1305;
use chacha20poly1305::aead::{AeadInOut, KeyInit};
use zeroize::{Zeroize, Zeroizing};

use super::format::{KeyId, SaveId};
use super::key::{FileKeys, KeySearch, MasterKey, PassphraseCosts, PassphraseParameters, SealKey};
use super::random::random;
use super::suite::Suite;

const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
const PROOF_BYTES: usize = 16;
/// How a file of version 1 says how it is sealed.
const OLD_INFO_BYTES: usize = 64;
/// The same, and the random bytes of the file.
const INFO_BYTES: usize = OLD_INFO_BYTES + 24;
const OLD_VERSION: u8 = 1;
const VERSION: u8 = 2;

const TEXT_KEY: &str = "bonfire_store 2026 sealed frames v2 text key";
const PROOF_KEYS: &str = "bonfire_store 2026 sealed frames v2 proof keys";

/// Seals the pieces of one file with XChaCha20-Poly1305, and proves what else the file says with BLAKE3.
///
/// A piece is bound to what it is, and to its place in the file: it does not open anywhere else, nor in another file. It grows
/// by 56 bytes, or by 16 if it is to stay readable. Which pieces a file has is for the caller to prove, with
/// [`sum`](Self::sum) and [`prove`](Self::prove).
pub struct FrameSealer {
    text: XChaCha20Poly1305,
    /// `None` in files of version 1, whose pieces are bound to what they are and to nothing else.
    proofs: Option<ProofKeys>,
    /// The key that those of the next file are made of.
    master: std::sync::Arc<MasterKey>,
    info: Vec<u8>,
}

/// Keys of one file, by their use.
struct ProofKeys(Zeroizing<[u8; 96]>);

impl ProofKeys {
    fn piece(&self) -> &[u8; 32] {
        self.0.first_chunk().unwrap_or_else(|| unreachable!("96 bytes have three thirds"))
    }

    fn entry(&self) -> &[u8; 32] {
        self.0[32..].first_chunk().unwrap_or_else(|| unreachable!("96 bytes have three thirds"))
    }

    fn statement(&self) -> &[u8; 32] {
        self.0.last_chunk().unwrap_or_else(|| unreachable!("96 bytes have three thirds"))
    }
}

impl FrameSealer {
    /// For a new world.
    pub fn new(key: &SealKey) -> Result<Self> {
        let (master, stretch) = key.to_write()?;
        let mut info = vec![0; INFO_BYTES];
        info[0] = VERSION;
        info[1] = u8::from(stretch.is_some());
        info[4..12].copy_from_slice(&master.id());
        info[12..36].copy_from_slice(&random::<24>()?);
        if let Some(PassphraseParameters { salt, costs }) = stretch {
            info[36..52].copy_from_slice(&salt);
            for (at, cost) in [(52, costs.memory_kib), (56, costs.passes), (60, costs.lanes)] {
                info[at..at + 4].copy_from_slice(&cost.to_le_bytes());
            }
        }
        info[OLD_INFO_BYTES..].copy_from_slice(&random::<24>()?);
        Ok(Self::derive(master, info))
    }

    /// For a file that takes over pieces of this one. Nothing of this file is taken for a part of the new one.
    pub fn for_next_file(&self) -> Result<Self> {
        let mut info = self.info.clone();
        if self.is_outdated() {
            info[0] = VERSION;
            info[12..36].copy_from_slice(&random::<24>()?);
        }
        info.resize(INFO_BYTES, 0);
        info[OLD_INFO_BYTES..].copy_from_slice(&random::<24>()?);
        Ok(Self::derive(self.master.clone(), info))
    }

    /// For a file that says this of itself: see [`info`](Self::info). An error with
    /// [`is_wrong_key`](Error::is_wrong_key) if it is not the key.
    pub fn open(key: &SealKey, info: &[u8]) -> Result<Self> {
        let expected_len = match info.first() {
            Some(&OLD_VERSION) => OLD_INFO_BYTES,
            Some(&VERSION) => INFO_BYTES,
            Some(version) if *version > VERSION => {
                return Err(Error::newer_format(format!(
                    "version {version} of sealed frames is newer than this build"
                )));
            }
            _ => 0,
        };
        if info.len() != expected_len || expected_len == 0 {
            return Err(Error::corrupt("what a file says of its seal is cut"));
        }
        let part = |at: usize| [info[at], info[at + 1], info[at + 2], info[at + 3]];
        let mut id = KeyId::default();
        id.copy_from_slice(&info[4..12]);
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
        Ok(Self::derive(master, info.to_vec()))
    }

    /// Derives the keys of a file. The text of a piece keeps its key when a next file takes it over; proofs do not.
    fn derive(master: std::sync::Arc<MasterKey>, info: Vec<u8>) -> Self {
        let mut world: SaveId = [0; 24];
        world.copy_from_slice(&info[12..36]);
        if info[0] == OLD_VERSION {
            let keys = FileKeys::derive(&master, Suite::XChaCha20Poly1305, &world);
            let text = XChaCha20Poly1305::new(keys.body().into());
            return Self { text, proofs: None, master, info };
        }
        let text = master.derive::<32>(TEXT_KEY, &world);
        let proofs = master.derive::<96>(PROOF_KEYS, &info[12..]);
        let text = XChaCha20Poly1305::new((&*text).into());
        Self { text, proofs: Some(ProofKeys(proofs)), master, info }
    }

    /// Returns what the file must say of itself, in the open, to be read again: which key it needs, and random bytes.
    pub fn info(&self) -> &[u8] {
        &self.info
    }

    /// Returns true for a file of version 1, in which a piece can be put back and nothing but pieces is sealed.
    pub fn is_outdated(&self) -> bool {
        self.proofs.is_none()
    }

    /// Seals a piece: a nonce, the same number of bytes, a tag, and the proof of its place.
    pub fn seal(&self, data: &[u8], about: &[u8], place: u64) -> Result<Vec<u8>> {
        let nonce: [u8; NONCE_BYTES] = random()?;
        let mut sealed = Vec::with_capacity(data.len() + NONCE_BYTES + TAG_BYTES + PROOF_BYTES);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(data);
        let text = (&mut sealed[NONCE_BYTES..]).into();
        let tag = self.text.encrypt_inout_detached((&nonce).into(), about, text);
        let tag = tag.map_err(|_| Error::limit("a piece is too long for its cipher"))?;
        sealed.extend_from_slice(&tag);
        let proof = self.piece_proof(&[&nonce, &tag], about, place)?;
        sealed.extend_from_slice(&proof);
        Ok(sealed)
    }

    /// Proves a piece that everybody may read: its bytes, and the proof of them and of its place.
    pub fn sign(&self, data: &[u8], about: &[u8], place: u64) -> Result<Vec<u8>> {
        let mut signed = Vec::with_capacity(data.len() + PROOF_BYTES);
        signed.extend_from_slice(data);
        signed.extend_from_slice(&self.readable_proof(data, about, place)?);
        Ok(signed)
    }

    /// Opens a piece where it lies. An error with [`is_corrupt`](Error::is_corrupt) if it is not what was sealed there.
    pub fn open_in_place<'b>(&self, sealed: &'b mut [u8], about: &[u8], place: u64) -> Result<&'b [u8]> {
        let (nonce, rest) = sealed.split_first_chunk_mut::<NONCE_BYTES>().ok_or_else(not_sealed)?;
        let rest = match &self.proofs {
            None => rest,
            Some(_) => {
                let (rest, proof) = rest.split_last_chunk_mut::<PROOF_BYTES>().ok_or_else(not_sealed)?;
                let tag = rest.last_chunk::<TAG_BYTES>().ok_or_else(not_sealed)?;
                check(&*proof, &self.piece_proof(&[&*nonce, tag], about, place)?)?;
                rest
            }
        };
        let (text, tag) = rest.split_last_chunk_mut::<TAG_BYTES>().ok_or_else(not_sealed)?;
        let opened =
            self.text.decrypt_inout_detached((&*nonce).into(), about, (&mut *text).into(), (&*tag).into());
        opened.map(|()| &*text).map_err(|_| not_sealed())
    }

    /// Returns the bytes of a piece that everybody may read, if they are what was proven there.
    pub fn open_signed<'b>(&self, signed: &'b [u8], about: &[u8], place: u64) -> Result<&'b [u8]> {
        if self.is_outdated() {
            return Ok(signed);
        }
        let (data, proof) = signed.split_last_chunk::<PROOF_BYTES>().ok_or_else(not_sealed)?;
        check(proof, &self.readable_proof(data, about, place)?)?;
        Ok(data)
    }

    /// Returns the bytes of a readable piece without a key, so that nobody has checked them.
    pub fn read_signed(signed: &[u8]) -> Result<&[u8]> {
        signed.split_last_chunk::<PROOF_BYTES>().map(|(data, _)| data).ok_or_else(not_sealed)
    }

    /// Takes over a sealed piece into the [next file](Self::for_next_file), at another place. Its text stays as it is.
    pub fn take_over(&self, sealed: &mut [u8], about: &[u8], from: u64, next: &Self, to: u64) -> Result<()> {
        let (rest, proof) = sealed.split_last_chunk_mut::<PROOF_BYTES>().ok_or_else(not_sealed)?;
        let nonce = rest.first_chunk::<NONCE_BYTES>().ok_or_else(not_sealed)?;
        let tag = rest[NONCE_BYTES..].last_chunk::<TAG_BYTES>().ok_or_else(not_sealed)?;
        check(&*proof, &self.piece_proof(&[nonce, tag], about, from)?)?;
        *proof = next.piece_proof(&[nonce, tag], about, to)?;
        Ok(())
    }

    /// Returns a number for an entry of a list. Nobody without the key knows it. The sum of those of all entries stands
    /// for the list, in any order, and is kept up to date with an addition and a subtraction.
    pub fn sum(&self, entry: &[u8]) -> Result<FrameSum> {
        let hash = blake3::keyed_hash(self.proofs()?.entry(), entry);
        let (words, _) = hash.as_bytes().as_chunks::<8>();
        Ok(FrameSum(std::array::from_fn(|number| u64::from_le_bytes(words[number]))))
    }

    /// Proves a statement: only a holder of the key could have made it.
    pub fn prove(&self, statement: &[u8]) -> Result<[u8; 32]> {
        Ok(*blake3::keyed_hash(self.proofs()?.statement(), statement).as_bytes())
    }

    /// Returns true if this is the proof of a statement. Takes as long wherever they differ.
    pub fn is_proof(&self, proof: &[u8; 32], statement: &[u8]) -> bool {
        self.prove(statement).is_ok_and(|right| blake3::Hash::from(right) == blake3::Hash::from(*proof))
    }

    fn proofs(&self) -> Result<&ProofKeys> {
        let outdated = || Error::misuse("nothing is written with a seal of version 1");
        self.proofs.as_ref().ok_or_else(outdated)
    }

    fn piece_proof(&self, sealed: &[&[u8]], about: &[u8], place: u64) -> Result<[u8; PROOF_BYTES]> {
        let mut hasher = blake3::Hasher::new_keyed(self.proofs()?.piece());
        hasher.update(&place.to_le_bytes()).update(&(about.len() as u64).to_le_bytes()).update(about);
        for part in sealed {
            hasher.update(part);
        }
        let hash = hasher.finalize();
        hasher.zeroize();
        Ok(*hash.as_bytes().first_chunk().unwrap_or_else(|| unreachable!("a hash has 32 bytes")))
    }

    /// A hash has another length than a nonce with a tag, so the one is never taken for the other.
    fn readable_proof(&self, data: &[u8], about: &[u8], place: u64) -> Result<[u8; PROOF_BYTES]> {
        self.piece_proof(&[blake3::hash(data).as_bytes()], about, place)
    }
}

fn not_sealed() -> Error {
    Error::corrupt("it is not what was sealed")
}

/// Compares two proofs, and takes as long wherever they differ.
fn check(found: &[u8; PROOF_BYTES], right: &[u8; PROOF_BYTES]) -> Result<()> {
    let difference = found.iter().zip(right).fold(0, |all, (one, other)| all | (one ^ other));
    if std::hint::black_box(difference) == 0 { Ok(()) } else { Err(not_sealed()) }
}

/// The sum of the numbers of entries: see [`FrameSealer::sum`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameSum([u64; 4]);

impl FrameSum {
    /// Adds an entry.
    pub fn add(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, word)| *sum = sum.wrapping_add(word));
    }

    /// Takes away an entry.
    pub fn remove(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, word)| *sum = sum.wrapping_sub(word));
    }

    /// Returns the bytes to be proven. They must not be stored: who knows sums can find lists that have the same.
    pub fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (word, at) in self.0.iter().zip(bytes.as_chunks_mut::<8>().0) {
            *at = word.to_le_bytes();
        }
        bytes
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
        let sealed = sealer.seal(b"cells", b"here", 7).unwrap();
        assert_eq!(sealed.len(), 5 + 56);
        assert_ne!(sealed, sealer.seal(b"cells", b"here", 7).unwrap(), "nonces differ");
        let again = FrameSealer::open(&key(1), sealer.info()).unwrap();
        assert_eq!(again.open_in_place(&mut sealed.clone(), b"here", 7).unwrap(), b"cells");
        assert!(again.open_in_place(&mut sealed.clone(), b"there", 7).unwrap_err().is_corrupt());
        assert!(again.open_in_place(&mut sealed.clone(), b"here", 8).unwrap_err().is_corrupt());
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(again.open_in_place(&mut changed, b"here", 7).unwrap_err().is_corrupt(), "byte {at}");
        }
        assert!(again.open_in_place(&mut sealed.clone()[..55], b"here", 7).unwrap_err().is_corrupt());
        assert!(FrameSealer::open(&key(2), sealer.info()).unwrap_err().is_wrong_key());
        assert!(FrameSealer::open(&key(1), &sealer.info()[1..]).unwrap_err().is_corrupt());
    }

    #[test]
    fn a_readable_piece_is_proven_in_its_place() {
        let sealer = FrameSealer::new(&key(1)).unwrap();
        let signed = sealer.sign(b"names", b"here", 7).unwrap();
        assert_eq!(FrameSealer::read_signed(&signed).unwrap(), b"names");
        assert_eq!(sealer.open_signed(&signed, b"here", 7).unwrap(), b"names");
        assert!(sealer.open_signed(&signed, b"here", 8).unwrap_err().is_corrupt());
        for at in 0..signed.len() {
            let mut changed = signed.clone();
            changed[at] ^= 1;
            assert!(sealer.open_signed(&changed, b"here", 7).unwrap_err().is_corrupt(), "byte {at}");
        }
    }

    #[test]
    fn a_piece_that_is_taken_over_opens_in_the_next_file_alone() {
        let sealer = FrameSealer::new(&key(1)).unwrap();
        let next = sealer.for_next_file().unwrap();
        let old = sealer.seal(b"cells", b"here", 7).unwrap();
        assert!(next.open_in_place(&mut old.clone(), b"here", 7).unwrap_err().is_corrupt());
        let mut taken = old.clone();
        assert!(sealer.take_over(&mut taken, b"here", 8, &next, 9).unwrap_err().is_corrupt());
        sealer.take_over(&mut taken, b"here", 7, &next, 9).unwrap();
        assert!(sealer.open_in_place(&mut taken.clone(), b"here", 9).unwrap_err().is_corrupt());
        assert_eq!(next.open_in_place(&mut taken, b"here", 9).unwrap(), b"cells");
    }

    #[test]
    fn sums_stand_for_sets_and_proofs_for_statements() {
        let sealer = FrameSealer::new(&key(1)).unwrap();
        let other = sealer.for_next_file().unwrap();
        let sum_of = |entries: &[&[u8]]| {
            let mut sum = FrameSum::default();
            entries.iter().for_each(|entry| sum.add(sealer.sum(entry).unwrap()));
            sum
        };
        let mut sum = sum_of(&[b"one", b"two", b"three"]);
        assert_eq!(sum, sum_of(&[b"three", b"one", b"two"]));
        sum.remove(sealer.sum(b"two").unwrap());
        assert_eq!(sum, sum_of(&[b"one", b"three"]));
        assert_ne!(sealer.sum(b"one").unwrap(), other.sum(b"one").unwrap());
        let proof = sealer.prove(b"it is so").unwrap();
        assert!(sealer.is_proof(&proof, b"it is so") && !sealer.is_proof(&proof, b"it is not so"));
        assert!(!other.is_proof(&proof, b"it is so"));
    }

    #[test]
    fn a_passphrase_opens_what_it_sealed() {
        let costs = PassphraseCosts { memory_kib: 64, passes: 1, lanes: 1 };
        let sealer = FrameSealer::new(&SealKey::from_passphrase_with("ember", costs)).unwrap();
        let mut sealed = sealer.seal(b"cells", b"", 1).unwrap();
        let again = FrameSealer::open(&SealKey::from_passphrase_with("ember", costs), sealer.info()).unwrap();
        assert_eq!(again.open_in_place(&mut sealed, b"", 1).unwrap(), b"cells");
        let other = SealKey::from_passphrase_with("amber", costs);
        assert!(FrameSealer::open(&other, sealer.info()).unwrap_err().is_wrong_key());
    }
}

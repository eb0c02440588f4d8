//! From a sealed blob to plaintext: nothing is handed out before it is checked.

use std::ops::Range;

use bonfire::{Error, Result};
use bytes::Bytes;
use chacha20poly1305::aead::inout::InOutBuf;

use super::Seal;
use super::counter::CounterName;
use super::format::{HEADER_BYTES, Header, Layout, SIGNATURE_BYTES, TAG_BYTES};
use super::key::{FileKeys, KeySearch, MasterKey, SealKey};
use super::seal::{front_hash, front_tag};
use super::signature::Signed;
use super::suite::{Cipher, Suite};

/// What stands before the segments of a blob.
pub(super) struct BlobFront {
    pub(super) header: Header,
    pub(super) layout: Layout,
    /// Header and open bytes.
    covered: Bytes,
    tag: [u8; TAG_BYTES],
    signature: Option<[u8; SIGNATURE_BYTES]>,
}

impl BlobFront {
    /// Of a blob of `blob_len` bytes that starts with `bytes`.
    pub(super) fn decode(bytes: &Bytes, blob_len: u64) -> Result<Self> {
        let header = Header::decode(bytes)?;
        let layout = Layout::of(&header)?;
        layout.check_len(blob_len)?;
        let short = || Error::corrupt("a sealed save ends before its segments");
        let covered = HEADER_BYTES as u64 + layout.open;
        let covered =
            usize::try_from(covered).ok().filter(|&covered| covered <= bytes.len()).ok_or_else(short)?;
        let rest = &bytes[covered..];
        let (tag, rest) = rest.split_first_chunk().ok_or_else(short)?;
        let signature = match header.signed {
            true => Some(*rest.first_chunk().ok_or_else(short)?),
            false => None,
        };
        Ok(Self { header, layout, covered: bytes.slice(..covered), tag: *tag, signature })
    }

    /// The plaintext that is not encrypted.
    pub(super) fn open(&self) -> Bytes {
        self.covered.slice(HEADER_BYTES..)
    }
}

impl Seal {
    /// Returns true if new blobs are bound to their names. A counter believes what a name says, so it needs bound ones.
    pub(super) fn binds_names(&self) -> bool {
        self.bind_name || self.counter.is_some()
    }

    /// The key that a file asks for, if there is one.
    fn find_key(
        &self,
        header: &Header,
        search: KeySearch,
    ) -> Result<Option<(&SealKey, std::sync::Arc<MasterKey>)>> {
        for key in &self.keys {
            if let Some(master) =
                key.to_read(header.key, header.stretch.as_ref(), search, &self.passphrase_costs_max)?
            {
                return Ok(Some((key, master)));
            }
        }
        Ok(None)
    }

    /// Whether what is at hand opens all of a file, as far as a glance tells.
    pub(super) fn can_open(&self, header: &Header) -> Result<bool> {
        match header.suite {
            Suite::Signed => Ok(!self.verifiers.is_empty()),
            _ => Ok(self.find_key(header, KeySearch::Glance)?.is_some()),
        }
    }

    /// Checks what stands before the segments, as far as what is at hand allows. Returns what opens the segments, or
    /// `None` if there is no key for them: then only a required signature has been checked.
    pub(super) fn check_front(
        &self,
        name: &str,
        front: &BlobFront,
        search: KeySearch,
    ) -> Result<Option<Cipher>> {
        let BlobFront { header, covered, tag, .. } = front;
        let (suite, verifies) = (header.suite, !self.verifiers.is_empty());
        let (keys, found) = match suite {
            Suite::Signed => (verifies.then(|| FileKeys::public(suite, &header.save)), None),
            _ => match self.find_key(header, search)? {
                Some((key, master)) => (Some(FileKeys::derive(&master, suite, &header.save)), Some(key)),
                None => (None, None),
            },
        };
        if let Some(keys) = &keys {
            // `blake3::Hash` compares in constant time.
            if blake3::Hash::from(front_tag(keys, covered, header, name)) != *tag {
                return Err(Error::corrupt(format!(
                    "`{name}` was changed by somebody without its key, or moved from another name"
                )));
            }
            if let Some(key) = found {
                key.fits(header.stretch.as_ref());
            }
        }
        if verifies {
            let Some(signature) = &front.signature else {
                return Err(Error::corrupt(format!("`{name}` is not signed")));
            };
            self.verify(name, Signed::BlobFront, &front_hash(covered, tag, header, name), signature)?;
        }
        if keys.is_some() || verifies {
            self.check_counter(name, header)?;
        }
        Ok(keys.map(|keys| Cipher::new(suite, keys.body(), *tag)))
    }

    fn verify(
        &self,
        name: &str,
        about: Signed,
        hash: &blake3::Hash,
        signature: &[u8; SIGNATURE_BYTES],
    ) -> Result<()> {
        if self.verifiers.iter().any(|key| key.verifies(about, hash, signature)) {
            return Ok(());
        }
        Err(Error::corrupt(format!("the signature of `{name}` is not by anybody who may sign it")))
    }

    fn check_counter(&self, name: &str, header: &Header) -> Result<()> {
        let Some(counter) = &self.counter else { return Ok(()) };
        let CounterName { name: family, recovery } = CounterName::of(name);
        let newest = counter.newest(&family)?;
        // A save for after a crash is of use only until the next save.
        if header.counter < newest || (recovery && header.counter == newest) {
            return Err(Error::rollback(format!(
                "`{name}` is number {} of its saves, and there has been number {newest}",
                header.counter
            )));
        }
        Ok(())
    }

    /// All plaintext of a blob.
    pub(super) fn open(&self, name: &str, blob: &Bytes) -> Result<Bytes> {
        let front = BlobFront::decode(blob, blob.len() as u64)?;
        let cipher = self.check_front(name, &front, KeySearch::Full)?.ok_or_else(|| no_key(name))?;
        let layout = &front.layout;
        let mut memory = self.spare.take_secret(layout.len())?;
        let (open, body) = memory.as_mut().split_at_mut(layout.open as usize);
        open.copy_from_slice(&front.open());

        let mut hasher = (!self.verifiers.is_empty()).then(blake3::Hasher::new);
        let (before, rest) = blob.split_at(layout.front as usize);
        let (segments, signature) = rest.split_at(rest.len() - layout.signature as usize);
        if let Some(hasher) = &mut hasher {
            hasher.update(before);
        }
        let opener = SegmentOpener { name, cipher: &cipher, layout };
        opener.open(0..layout.segments, segments, body, |segment| {
            if let Some(hasher) = &mut hasher {
                hasher.update(segment);
            }
        })?;
        if let Some(hasher) = &hasher {
            let signature = signature.first_chunk().ok_or_else(|| damaged(name))?;
            self.verify(name, Signed::Whole, &hasher.finalize(), signature)?;
        }
        Ok(memory.share())
    }

    /// Whether nothing less than the whole blob proves that a part of it is right.
    pub(super) fn needs_whole(&self, header: &Header) -> bool {
        header.suite == Suite::Signed || !self.verifiers.is_empty()
    }
}

/// Opens the segments of one blob.
pub(super) struct SegmentOpener<'a> {
    pub(super) name: &'a str,
    pub(super) cipher: &'a Cipher,
    pub(super) layout: &'a Layout,
}

impl SegmentOpener<'_> {
    /// Opens segments that lie one behind the other in `sealed`, into `out`. Each is shown to `look` first.
    pub(super) fn open(
        &self,
        indices: Range<u64>,
        mut sealed: &[u8],
        mut out: &mut [u8],
        mut look: impl FnMut(&[u8]),
    ) -> Result<()> {
        let Self { name, cipher, layout } = *self;
        for index in indices {
            let (text, place) = (layout.text(index), layout.sealed(index));
            let (segment, behind) =
                sealed.split_at_checked((place.end - place.start) as usize).ok_or_else(|| damaged(name))?;
            let (here, unfilled) =
                out.split_at_mut_checked((text.end - text.start) as usize).ok_or_else(|| damaged(name))?;
            look(segment);
            let (segment, tag) = segment.split_at(here.len());
            let text = InOutBuf::new(segment, here).map_err(|_| damaged(name))?;
            if !cipher.open(layout.position(index), text, tag) {
                return Err(Error::corrupt(format!(
                    "segment {index} of `{name}` was changed, moved or taken from another save"
                )));
            }
            (sealed, out) = (behind, unfilled);
        }
        Ok(())
    }
}

pub(super) fn damaged(name: &str) -> Error {
    Error::corrupt(format!("`{name}` does not have the length that its header says"))
}

pub(super) fn no_key(name: &str) -> Error {
    Error::wrong_key(format!("none of the keys at hand opens `{name}`"))
}

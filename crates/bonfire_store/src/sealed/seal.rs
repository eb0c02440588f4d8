//! From a payload to a sealed blob: one buffer, one pass over the bytes.

use bonfire::{Error, Result};
use bytes::Bytes;
use chacha20poly1305::aead::inout::InOutBuf;

use super::Seal;
use super::format::{HEADER_BYTES, Header, KeyId, Layout, SIGNATURE_BYTES, TAG_BYTES};
use super::key::FileKeys;
use super::random::random;
use super::signature::Signed;
use super::suite::{Cipher, Suite};
use crate::store::Payload;

/// What a blob keeps when it is moved or copied.
#[derive(Clone, Copy)]
pub(super) struct SealOptions {
    pub(super) suite: Suite,
    /// Bound to its name.
    pub(super) bound: bool,
}

impl Seal {
    /// The sealed form of a payload, as the `counter`-th save of its family.
    pub(super) fn seal(
        &self,
        name: &str,
        payload: &Payload,
        counter: u64,
        style: SealOptions,
    ) -> Result<Bytes> {
        let SealOptions { suite, bound } = style;
        let save = random()?;
        let (keys, key, stretch) = if suite == Suite::Signed {
            (FileKeys::public(suite, &save), KeyId::default(), None)
        } else {
            let key = self.keys.first().filter(|_| self.writes).ok_or_else(|| {
                Error::wrong_key(format!("`{name}` cannot be written: this store was opened without a key"))
            })?;
            let (master, stretch) = key.to_write()?;
            (FileKeys::derive(&master, suite, &save), master.id(), stretch)
        };
        if suite == Suite::Signed && self.signer.is_none() {
            return Err(Error::wrong_key(format!(
                "`{name}` cannot be written: this store has no key to sign it with"
            )));
        }
        let open = if self.hide_metadata { 0 } else { payload.open_len() };
        let body = payload.len() - open;
        let signed = self.signer.is_some();
        let header = Header { suite, bound, signed, key, save, stretch, counter, open, body };
        let layout = Layout::of(&header)?;

        let mut memory = self.spare.take(layout.blob)?;
        let blob = memory.as_mut();
        let mut source = PayloadReader { parts: payload.parts(), here: &[] };
        let (front, segments) = blob.split_at_mut(layout.front as usize);
        let front_tag = self.write_front(name, &header, &keys, &mut source, front);

        let cipher = Cipher::new(suite, keys.body(), front_tag);
        let mut hasher = self.signer.as_ref().map(|_| blake3::Hasher::new());
        if let Some(hasher) = &mut hasher {
            hasher.update(front);
        }
        let mut rest = segments;
        for index in 0..layout.segments {
            let (text, sealed) = (layout.text(index), layout.sealed(index));
            let (segment, behind) = rest.split_at_mut((sealed.end - sealed.start) as usize);
            let (out, tag) = segment.split_at_mut((text.end - text.start) as usize);
            let text = match source.slice(out.len()) {
                Some(plain) => {
                    InOutBuf::new(plain, out).map_err(|_| Error::misuse("a segment has two lengths"))?
                }
                None => {
                    source.copy(out);
                    InOutBuf::from(out)
                }
            };
            cipher.seal(layout.position(index), text, tag)?;
            // While the processor still has it at hand.
            if let Some(hasher) = &mut hasher {
                hasher.update(segment);
            }
            rest = behind;
        }
        if let (Some(signer), Some(hasher)) = (&self.signer, &hasher) {
            rest.copy_from_slice(&signer.sign(Signed::Whole, &hasher.finalize()));
        }
        Ok(memory.share())
    }

    /// Refuses to write what would not be read here.
    pub(super) fn check_signer(&self) -> Result<()> {
        match &self.signer {
            Some(signer)
                if !self.verifiers.is_empty() && !self.verifiers.contains(&signer.verifying_key()) =>
            {
                Err(Error::misuse(
                    "this store requires other signatures than its own: it could not read what it writes",
                ))
            }
            _ => Ok(()),
        }
    }

    fn write_front(
        &self,
        name: &str,
        header: &Header,
        keys: &FileKeys,
        source: &mut PayloadReader<'_>,
        front: &mut [u8],
    ) -> [u8; TAG_BYTES] {
        let (covered, rest) = front.split_at_mut(HEADER_BYTES + header.open as usize);
        let (head, open) = covered.split_at_mut(HEADER_BYTES);
        head.copy_from_slice(&header.encode());
        source.copy(open);
        let (tag, signature) = rest.split_at_mut(TAG_BYTES);
        let front_tag = front_tag(keys, covered, header, name);
        tag.copy_from_slice(&front_tag);
        if let Some(signer) = &self.signer {
            let hash = front_hash(covered, &front_tag, header, name);
            let signed: [u8; SIGNATURE_BYTES] = signer.sign(Signed::BlobFront, &hash);
            signature.copy_from_slice(&signed);
        }
        front_tag
    }
}

/// The tag of header and open bytes, and of the name if it is bound.
pub(super) fn front_tag(keys: &FileKeys, covered: &[u8], header: &Header, name: &str) -> [u8; TAG_BYTES] {
    let mut hasher = blake3::Hasher::new_keyed(keys.front());
    hasher.update(covered).update(&bound_name(header, name));
    hasher.finalize().into()
}

/// What the front signature signs: it can be checked without the key that the tag needs.
pub(super) fn front_hash(covered: &[u8], tag: &[u8; TAG_BYTES], header: &Header, name: &str) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(covered).update(tag).update(&bound_name(header, name));
    hasher.finalize()
}

/// In lower case: no two names of a store differ only in that, and a rename that changes only that is one step.
fn bound_name(header: &Header, name: &str) -> Vec<u8> {
    if header.bound { name.to_ascii_lowercase().into_bytes() } else { Vec::new() }
}

/// Reads the pieces of a payload as if they were one.
struct PayloadReader<'p> {
    parts: &'p [Bytes],
    here: &'p [u8],
}

impl<'p> PayloadReader<'p> {
    /// The next `len` bytes, if they lie in one piece.
    fn slice(&mut self, len: usize) -> Option<&'p [u8]> {
        self.skip_ends();
        let (slice, behind) = self.here.split_at_checked(len)?;
        self.here = behind;
        Some(slice)
    }

    /// A copy of the next bytes.
    fn copy(&mut self, mut out: &mut [u8]) {
        while !out.is_empty() {
            self.skip_ends();
            let len = out.len().min(self.here.len());
            debug_assert_ne!(len, 0, "a payload is as long as it says");
            let (filled, unfilled) = out.split_at_mut(len);
            let (slice, behind) = self.here.split_at(len);
            filled.copy_from_slice(slice);
            (out, self.here) = (unfilled, behind);
        }
    }

    fn skip_ends(&mut self) {
        while self.here.is_empty() {
            let Some((next, behind)) = self.parts.split_first() else { return };
            (self.here, self.parts) = (next, behind);
        }
    }
}

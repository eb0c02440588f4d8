//! Frames about frames: what a save has changed, the table before it is written in its place, and where everything is
//! that the table does not list.

use bonfire::{Error, Result};

use super::{Entry, EntryList, FrameKey, FramePlace, FrameTag, HEADER_BYTES, Version, take};

/// What a save has changed. It is the last frame of the save: those before count only together with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    /// The header that was in the file when the save began, which finds all that the save did not change.
    pub(crate) header: [u8; HEADER_BYTES as usize],
    /// All saves up to this one were durable when this one was written.
    pub(crate) durable: u64,
    /// The checksum of the checksums of the frames that are listed, in their order.
    pub(crate) digest: u32,
    /// How the file is sealed; empty if it is not.
    pub(crate) seal: Vec<u8>,
    /// `None` unless the file is sealed, and in sealed files of version 1.
    pub(crate) proof: Option<CommitProof>,
    pub(crate) entries: Vec<(FrameKey, FramePlace)>,
}

pub(crate) type Proof = [u8; 32];
const PROOF_BYTES: usize = size_of::<Proof>();
/// The first version of seals whose commits have proofs.
const PROVEN_VERSION: u8 = 2;

/// Proofs that only somebody with the key can have written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommitProof {
    /// The own proof of the commit before this one.
    pub(crate) previous: Proof,
    /// Of all that this commit says, but for the two proofs that follow.
    pub(crate) own: Proof,
    /// Of where all frames are after this commit.
    pub(crate) state: Proof,
}

impl CommitProof {
    const BYTES: usize = 3 * PROOF_BYTES;

    fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (at, part) in [self.previous, self.own, self.state].into_iter().enumerate() {
            bytes[at * PROOF_BYTES..(at + 1) * PROOF_BYTES].copy_from_slice(&part);
        }
        bytes
    }

    fn decode(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        Some(Self { previous: take(bytes)?, own: take(bytes)?, state: take(bytes)? })
    }
}

impl Commit {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let proof = self.proof.as_ref().map(CommitProof::encode);
        let seal_bytes = self.seal.len() + proof.map_or(0, |proof| proof.len());
        let mut bytes =
            Vec::with_capacity(96 + seal_bytes + self.entries.len() * Version::Flat.entry_bytes());
        bytes.extend_from_slice(&self.header);
        bytes.extend_from_slice(&self.durable.to_le_bytes());
        bytes.extend_from_slice(&self.digest.to_le_bytes());
        bytes.extend_from_slice(&(seal_bytes as u32).to_le_bytes());
        bytes.extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.seal);
        bytes.extend_from_slice(proof.as_ref().map_or(&[], |proof| &proof[..]));
        EntryList::encode(&self.entries, &mut bytes);
        bytes
    }

    /// Returns all that the commit says, without the proofs of it.
    pub(crate) fn statement(&self) -> Vec<u8> {
        let previous = self.proof.map(|proof| proof.previous).unwrap_or_default();
        let proof = Some(CommitProof { previous, ..CommitProof::default() });
        Self { proof, ..self.clone() }.encode()
    }

    pub(crate) fn decode(mut data: &[u8]) -> Result<Self> {
        let bytes = &mut data;
        let fixed = |bytes: &mut &[u8]| {
            let (header, durable) = (take(bytes)?, u64::from_le_bytes(take(bytes)?));
            let digest = u32::from_le_bytes(take(bytes)?);
            let (seal, count) = (u32::from_le_bytes(take(bytes)?), u32::from_le_bytes(take(bytes)?));
            let (seal, rest) = bytes.split_at_checked(seal as usize)?;
            *bytes = rest;
            let (seal, proof) = match seal.first() {
                Some(version) if *version >= PROVEN_VERSION => {
                    let (seal, proof) = seal.split_at_checked(seal.len().checked_sub(CommitProof::BYTES)?)?;
                    (seal, Some(CommitProof::decode(proof)?))
                }
                _ => (seal, None),
            };
            Some((header, durable, digest, seal.to_vec(), proof, count))
        };
        let cut = || Error::corrupt("a commit is cut");
        let (header, durable, digest, seal, proof, count) = fixed(bytes).ok_or_else(cut)?;
        let entries = EntryList::decode(bytes, count)?;
        if !bytes.is_empty() {
            return Err(Error::corrupt("a commit is longer than its list"));
        }
        Ok(Self { header, durable, digest, seal, proof, entries })
    }
}

/// Where all frames are that the page table does not list: those that changed since an earlier list, or all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SideIndex {
    /// Where the data of the list before this one is; 0 if this one has everything.
    pub(crate) earlier: u64,
    pub(crate) entries: Vec<(FrameKey, FramePlace)>,
}

impl SideIndex {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(12 + self.entries.len() * Version::Flat.entry_bytes());
        bytes.extend_from_slice(&self.earlier.to_le_bytes());
        bytes.extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        EntryList::encode(&self.entries, &mut bytes);
        bytes
    }

    pub(crate) fn decode(mut data: &[u8]) -> Result<Self> {
        let bytes = &mut data;
        let fixed =
            |bytes: &mut &[u8]| Some((u64::from_le_bytes(take(bytes)?), u32::from_le_bytes(take(bytes)?)));
        let (earlier, count) = fixed(bytes).ok_or_else(|| Error::corrupt("a side index is cut"))?;
        Ok(Self { earlier, entries: EntryList::decode(bytes, count)? })
    }
}

/// The page table as it is about to be.
pub(crate) fn encode_image(version: Version, entries: impl ExactSizeIterator<Item = Entry>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entries.len() * version.entry_bytes());
    entries.for_each(|entry| bytes.extend_from_slice(&entry.encode(version)));
    bytes
}

/// The tag of the frame of such an image.
pub(crate) fn image_tag(version: Version) -> FrameTag {
    match version {
        Version::Flat => FrameTag::default(),
        Version::Deep => FrameTag::DEEP_IMAGE,
    }
}

pub(crate) fn decode_image(tag: FrameTag, bytes: &[u8]) -> Result<Vec<Entry>> {
    let version = if tag == FrameTag::DEEP_IMAGE { Version::Deep } else { Version::Flat };
    if !bytes.len().is_multiple_of(version.entry_bytes()) {
        return Err(Error::corrupt("the image of the page table is cut"));
    }
    let decode = |bytes: &[u8]| match Entry::decode(bytes) {
        Some((entry, true)) => Ok(entry),
        _ => Err(Error::corrupt("an entry of the image of the page table is damaged")),
    };
    let entries: Vec<Entry> = bytes.chunks_exact(version.entry_bytes()).map(decode).collect::<Result<_>>()?;
    if !entries.is_sorted_by(|one, next| one.pos < next.pos) {
        return Err(Error::corrupt("the image of the page table is not sorted"));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::super::{FrameKind, FrameTag};
    use super::*;
    use crate::ChunkPos;

    #[test]
    fn frames_about_frames_come_back_and_cut_ones_are_refused() {
        let place = FramePlace { offset: 99, len: 5, tag: FrameTag { storage: 1, codec: 2, layers: 3 } };
        let entries = vec![(FrameKey::new(FrameKind::Snapshot, ChunkPos::new(1, 2)), place)];
        let old = Commit {
            header: [7; 64],
            durable: 8,
            digest: 9,
            seal: vec![1, 2],
            proof: None,
            entries: entries.clone(),
        };
        assert_eq!(Commit::decode(&old.encode()).unwrap(), old);
        let proof = Some(CommitProof { previous: [3; 32], own: [4; 32], state: [5; 32] });
        let commit = Commit { seal: vec![2, 2], proof, ..old };
        let bytes = commit.encode();
        assert_eq!(Commit::decode(&bytes).unwrap(), commit);
        let other = Commit {
            proof: Some(CommitProof { previous: [3; 32], ..CommitProof::default() }),
            ..commit.clone()
        };
        assert_eq!((commit.statement(), bytes.len()), (other.encode(), other.encode().len()));
        let side = SideIndex { earlier: 77, entries };
        let side_bytes = side.encode();
        assert_eq!(SideIndex::decode(&side_bytes).unwrap(), side);
        for len in 0..bytes.len() {
            assert!(Commit::decode(&bytes[..len]).unwrap_err().is_corrupt());
        }
        for len in 0..side_bytes.len() {
            assert!(SideIndex::decode(&side_bytes[..len]).unwrap_err().is_corrupt());
        }
    }

    #[test]
    fn an_image_that_is_out_of_order_is_refused() {
        let entry =
            |x| Entry { pos: ChunkPos::new(x, 0), place: FramePlace { offset: 99, ..FramePlace::NOWHERE } };
        for version in [Version::Flat, Version::Deep] {
            let decoded = |entries: [Entry; 2]| {
                decode_image(image_tag(version), &encode_image(version, entries.into_iter()))
            };
            assert_eq!(decoded([entry(1), entry(2)]).unwrap(), [entry(1), entry(2)]);
            assert!(decoded([entry(2), entry(1)]).unwrap_err().is_corrupt());
            assert!(decoded([entry(1), entry(1)]).unwrap_err().is_corrupt());
        }
    }
}

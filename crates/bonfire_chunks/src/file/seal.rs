//! Frames of sealed files. The content of chunks is hidden: cells, bodies and entities. The rest can be read without the key,
//! and not be changed without it. Where frames are, how long they are and when they were saved is no secret.

use bonfire::{Error, Result};

#[cfg(not(feature = "seal"))]
use super::no_seal::FrameSealer;
#[cfg(not(feature = "seal"))]
pub(crate) use super::no_seal::{FrameSum, SealKey};
use crate::format::{
    EntryList, Frame, FrameKey, FrameKind, FramePlace, FrameTag, Proof, TRAILER_BYTES, encode_depth,
    without_depth,
};
#[cfg(feature = "seal")]
use bonfire_store::engine::FrameSealer;
#[cfg(feature = "seal")]
pub(crate) use bonfire_store::{SealKey, engine::FrameSum};

/// The proof behind the data of a frame that everybody may read.
const READABLE_PROOF_BYTES: usize = 16;

/// How the frames of one file are sealed.
pub(crate) struct Seal {
    sealer: FrameSealer,
}

/// The identity that a sealed frame is bound to: it cannot be put into another place, or be read in another way.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameIdentity {
    pub(super) key: FrameKey,
    pub(super) tag: FrameTag,
    pub(super) generation: u64,
    /// Where its data is in the file.
    pub(super) offset: u64,
}

impl FrameIdentity {
    pub(super) fn of(frame: &Frame) -> Self {
        let FramePlace { offset, tag, .. } = frame.place;
        Self { key: frame.key(), tag, generation: frame.generation, offset }
    }

    /// All of it but the place in the file.
    fn about(&self) -> Vec<u8> {
        let mut bytes = vec![0; 20];
        let Self { key, tag, generation, .. } = self;
        bytes[..4].copy_from_slice(&[key.kind as u8, tag.storage, tag.codec, tag.layers]);
        bytes[4..8].copy_from_slice(&key.pos.x.to_le_bytes());
        bytes[8..12].copy_from_slice(&key.pos.y.to_le_bytes());
        bytes[12..].copy_from_slice(&generation.to_le_bytes());
        if !key.pos.is_flat() {
            bytes.extend_from_slice(&encode_depth(key.pos));
        }
        bytes
    }
}

impl Seal {
    /// For a new world.
    pub(crate) fn new(key: &SealKey) -> Result<Self> {
        Ok(Self { sealer: FrameSealer::new(key)? })
    }

    /// For a file that says this of itself.
    pub(super) fn of_file(key: &SealKey, info: &[u8]) -> Result<Self> {
        Ok(Self { sealer: FrameSealer::open(key, info)? })
    }

    /// For a file that takes the place of this one, or is a copy of it.
    pub(super) fn for_next_file(&self) -> Result<Self> {
        Ok(Self { sealer: self.sealer.for_next_file()? })
    }

    /// Returns what a file says of how it is sealed.
    pub(super) fn info(&self) -> &[u8] {
        self.sealer.info()
    }

    /// Returns true for a file of version 1, which proves nothing but the content of single frames.
    pub(super) fn is_outdated(&self) -> bool {
        self.sealer.is_outdated()
    }

    /// Returns true if nobody reads frames of this kind without the key.
    pub(super) fn hides(kind: FrameKind) -> bool {
        matches!(kind, FrameKind::Chunk | FrameKind::Bodies | FrameKind::Snapshot | FrameKind::Ids)
    }

    /// The data as it is to be in the file.
    pub(super) fn seal(&self, data: &[u8], frame: FrameIdentity) -> Result<Vec<u8>> {
        let about = frame.about();
        match Self::hides(frame.key.kind) {
            true => self.sealer.seal(data, &about, frame.offset),
            false => self.sealer.sign(data, &about, frame.offset),
        }
    }

    /// The data of a checked frame, whose bytes are data and trailer.
    pub(super) fn open<'b>(&self, frame: &'b mut [u8], key: FrameKey, offset: u64) -> Result<&'b [u8]> {
        let found =
            Frame::decode(frame, offset).ok_or_else(|| Error::corrupt("a trailer is not one any more"))?;
        let len = without_depth(key, &frame[..frame.len() - TRAILER_BYTES as usize]).len();
        self.open_data(&mut frame[..len], FrameIdentity::of(&found)).map_err(|error| {
            let what = format!("the {} is not what was sealed", key.describe());
            if error.is_corrupt() { Error::corrupt(what) } else { error }
        })
    }

    fn open_data<'b>(&self, data: &'b mut [u8], frame: FrameIdentity) -> Result<&'b [u8]> {
        let about = frame.about();
        match Self::hides(frame.key.kind) {
            true => self.sealer.open_in_place(data, &about, frame.offset),
            false => self.sealer.open_signed(data, &about, frame.offset),
        }
    }

    /// The data of a frame that everybody may read, for somebody without the key: nobody has checked it.
    pub(super) fn read_unchecked(data: &[u8]) -> Result<&[u8]> {
        let len = data.len().checked_sub(READABLE_PROOF_BYTES);
        len.map(|len| &data[..len]).ok_or_else(|| Error::corrupt("a frame is too short for its proof"))
    }

    /// Makes the sealed data of a frame of this file one of the next file, at another offset.
    pub(super) fn take_over(
        &self,
        data: &mut Vec<u8>,
        frame: FrameIdentity,
        next: &Self,
        to: u64,
    ) -> Result<()> {
        if !self.is_outdated() && Self::hides(frame.key.kind) {
            return self.sealer.take_over(data, &frame.about(), frame.offset, &next.sealer, to);
        }
        let sealed = next.seal(self.open_data(data, frame)?, FrameIdentity { offset: to, ..frame })?;
        *data = sealed;
        Ok(())
    }

    /// Returns what an entry of the lists adds to the sum that stands for all of them.
    pub(super) fn sum_of(&self, key: FrameKey, place: &FramePlace) -> Result<FrameSum> {
        self.sealer.sum(&EntryList::encode_one(key, place))
    }

    pub(super) fn prove(&self, statement: &[u8]) -> Result<Proof> {
        self.sealer.prove(statement)
    }

    pub(super) fn is_proof(&self, proof: &Proof, statement: &[u8]) -> bool {
        self.sealer.is_proof(proof, statement)
    }
}

#[cfg(all(test, feature = "seal"))]
mod tests {
    use bonfire_store::SealKey;

    use crate::ChunkPos;
    use crate::file::seal::{FrameIdentity, Seal};
    use crate::format::{FrameKey, FrameKind, FrameTag};

    #[test]
    fn a_frame_is_bound_to_all_of_its_place() {
        let seal = Seal::new(&SealKey::from_bytes([1; 32])).unwrap();
        let of = |kind: FrameKind, pos: ChunkPos| FrameIdentity {
            key: FrameKey::new(kind, pos),
            tag: FrameTag::default(),
            generation: 5,
            offset: 300,
        };
        let pos = ChunkPos::new_3d(1, 2, 3).in_dimension(4);
        let others = [
            ChunkPos { x: 0, ..pos },
            ChunkPos { y: 0, ..pos },
            ChunkPos { z: 0, ..pos },
            ChunkPos { z: -3, ..pos },
            pos.in_dimension(0),
            pos.in_dimension(5),
            ChunkPos::new(1, 2),
        ];
        for kind in [FrameKind::Chunk, FrameKind::Settings] {
            let sealed = seal.seal(b"cells", of(kind, pos)).unwrap();
            assert_eq!(seal.open_data(&mut sealed.clone(), of(kind, pos)).unwrap(), b"cells");
            for other in others {
                let error = seal.open_data(&mut sealed.clone(), of(kind, other)).unwrap_err();
                assert!(error.is_corrupt(), "{other}: {error}");
            }
        }
    }
}

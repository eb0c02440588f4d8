//! Frames that need a key. What is sealed is the content of chunks: cells, bodies and entities. Where they are, how long they
//! are and when they were saved is not.

use std::sync::Arc;

use bonfire::{Error, Result};
use bonfire_store::disk::DiskFile;

use super::frame_scanner::FrameScanner;
use crate::format::{Commit, Flags, FrameKey, FrameKind, FrameTag, Header};

#[cfg(feature = "seal")]
pub(crate) use bonfire_store::SealKey;

/// Without the feature there is no key.
#[cfg(not(feature = "seal"))]
#[derive(Clone, Debug)]
pub(crate) enum SealKey {}

pub(crate) struct Seal {
    #[cfg(feature = "seal")]
    sealer: bonfire_store::engine::FrameSealer,
    #[cfg(not(feature = "seal"))]
    never: SealKey,
}

impl Seal {
    /// For a new file.
    pub(crate) fn new(key: &SealKey) -> Result<Self> {
        #[cfg(feature = "seal")]
        return Ok(Self { sealer: bonfire_store::engine::FrameSealer::new(key)? });
        #[cfg(not(feature = "seal"))]
        match *key {}
    }

    /// Returns the seal of a file that says this of itself.
    pub(super) fn of_file(key: Option<&SealKey>, info: &[u8]) -> Result<Option<Arc<Self>>> {
        match key {
            // Its structure can be looked at all the same; reading a chunk is what fails.
            None => Ok(None),
            Some(_) if info.is_empty() => {
                Err(Error::wrong_key("this world is not sealed: somebody without a key has written it"))
            }
            Some(key) => Self::open_with(key, info).map(Arc::new).map(Some),
        }
    }

    #[cfg(feature = "seal")]
    fn open_with(key: &SealKey, info: &[u8]) -> Result<Self> {
        Ok(Self { sealer: bonfire_store::engine::FrameSealer::open(key, info)? })
    }

    #[cfg(not(feature = "seal"))]
    fn open_with(key: &SealKey, _: &[u8]) -> Result<Self> {
        match *key {}
    }

    /// Returns what a file says of how it is sealed.
    pub(crate) fn info(&self) -> Vec<u8> {
        #[cfg(feature = "seal")]
        return self.sealer.info();
        #[cfg(not(feature = "seal"))]
        match self.never {}
    }

    /// Returns true if frames of this kind are sealed.
    pub(super) fn covers(kind: FrameKind) -> bool {
        matches!(kind, FrameKind::Chunk | FrameKind::Bodies | FrameKind::Snapshot)
    }

    /// The data as it is to be in the file.
    #[cfg_attr(
        not(feature = "seal"),
        expect(unused_variables, reason = "nothing is sealed without the feature")
    )]
    pub(crate) fn seal(&self, data: &[u8], key: FrameKey, tag: FrameTag, generation: u64) -> Result<Vec<u8>> {
        if !Self::covers(key.kind) {
            return Ok(data.to_vec());
        }
        #[cfg(feature = "seal")]
        return self.sealer.seal(data, &associated(key, tag, generation));
        #[cfg(not(feature = "seal"))]
        match self.never {}
    }

    /// The data of a checked frame, whose bytes are data and trailer.
    pub(crate) fn open<'b>(&self, frame: &'b mut [u8], key: FrameKey) -> Result<&'b [u8]> {
        let trailer = frame.len() - crate::format::TRAILER_BYTES as usize;
        if !Self::covers(key.kind) {
            return Ok(&frame[..trailer]);
        }
        #[cfg(feature = "seal")]
        {
            let (data, trailer) = frame.split_at_mut(trailer);
            let frame = crate::format::Frame::decode(trailer, 0)
                .ok_or_else(|| Error::corrupt("a trailer is not one any more"))?;
            let associated = associated(key, frame.place.tag, frame.generation);
            self.sealer.open_in_place(data, &associated).map_err(|error| {
                let what = format!("the {} at {} is not what was sealed", key.kind.name(), key.pos);
                if error.is_corrupt() { Error::corrupt(what) } else { error }
            })
        }
        #[cfg(not(feature = "seal"))]
        match self.never {}
    }
}

/// Returns what a sealed frame is bound to: it cannot be put into another place, or be read in another way.
#[cfg(feature = "seal")]
fn associated(key: FrameKey, tag: FrameTag, generation: u64) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[..4].copy_from_slice(&[key.kind as u8, tag.storage, tag.codec, tag.layers]);
    bytes[4..8].copy_from_slice(&key.pos.x.to_le_bytes());
    bytes[8..12].copy_from_slice(&key.pos.y.to_le_bytes());
    bytes[12..].copy_from_slice(&generation.to_le_bytes());
    bytes
}

/// Returns how a file is sealed; empty if it is not. Every save says it: if the last one is damaged, another one does.
/// `last` is what the last save says.
pub(super) fn info_of_file(header: &Header, last: &[u8], file: &dyn DiskFile) -> Result<Vec<u8>> {
    if !header.flags.has(Flags::SEALED) {
        return Ok(Vec::new());
    }
    if !last.is_empty() {
        return Ok(last.to_vec());
    }
    let failed = |error: std::io::Error| Error::io("cannot read a chunk world", error);
    let mut source = FrameScanner::new(file).map_err(failed)?;
    let scan = source.scan(header.data_start).map_err(failed)?;
    for frame in scan.frames.iter().rev().filter(|frame| frame.kind == FrameKind::Commit) {
        let data = source.read(frame.place.offset, u64::from(frame.place.len)).map_err(failed)?;
        if let Ok(commit) = Commit::decode(&data)
            && !commit.seal.is_empty()
        {
            return Ok(commit.seal);
        }
    }
    Err(Error::corrupt("nothing is left that says how this world is sealed"))
}

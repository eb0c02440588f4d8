//! The first 64 bytes of every file: FORMAT.md, "Header".

use super::FORMAT_VERSION;
use crate::error::{Error, Result};

pub(super) const HEADER_BYTES: usize = 64;

/// Not text, and broken visibly by anything that treats it as text.
pub(crate) const MAGIC: [u8; 8] = *b"\x89BNF\r\n\x1a\n";

/// What kind of container a file is. Deltas, journals and chunk snapshots have numbers already.
pub(super) const CONTAINER_SNAPSHOT: u16 = 1;

pub(super) struct Header {
    pub(super) version: u16,
    pub(super) file_len: u64,
    pub(super) footer_offset: u64,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&self.version.to_le_bytes());
        bytes[10..12].copy_from_slice(&CONTAINER_SNAPSHOT.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.file_len.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.footer_offset.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            let known = bytes.len() >= 4 && bytes[..bytes.len().min(8)] == MAGIC[..bytes.len().min(8)];
            return Err(Error::corrupt(if known {
                format!("the file ends after {} bytes, inside its header", bytes.len())
            } else {
                format!("not a Bonfire file: {} bytes, and they do not begin as one", bytes.len())
            }));
        };
        if header[..8] != MAGIC {
            return Err(Error::corrupt("not a Bonfire file: it does not begin with the magic bytes").at(0));
        }
        let u16_at = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        let crc = u32::from_le_bytes([header[60], header[61], header[62], header[63]]);
        // In every version the header has 64 bytes, these magic ones first and this checksum last; only then is the
        // version believed, so that damage never looks like a newer file.
        if crc32c::crc32c(&header[..60]) != crc {
            return Err(Error::corrupt("the header is damaged: its checksum does not match").at(0));
        }
        let version = u16_at(8);
        if version > FORMAT_VERSION {
            return Err(Error::newer_format(format!(
                "format version {version} is newer than this build, which reads up to {FORMAT_VERSION}: update the game"
            )));
        }
        if version == 0 {
            return Err(Error::corrupt("format version 0 does not exist").at(8));
        }
        match u16_at(10) {
            CONTAINER_SNAPSHOT => {}
            kind => {
                let message = format!("the file is a container of kind {kind}, not a snapshot");
                return Err(Error::newer_format(message).at(10));
            }
        }
        Ok(Self { version, file_len: u64_at(16), footer_offset: u64_at(24) })
    }
}

//! Compression of blocks. Each block stands for itself, so damage stays in its block and ranges can be read.

use crate::error::{Error, Result};

/// How sections are compressed. Files with any of them are read, whatever was chosen for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Compression {
    /// Not at all: the fastest, and loads without copying.
    #[default]
    None,
    /// LZ4: fast both ways (feature `lz4`, on by default).
    Lz4,
    /// Zstandard, smaller and slower, with its level (feature `zstd`). On wasm32 it is read and not written.
    Zstd(i32),
}

pub(super) const CODEC_NONE: u8 = 0;
pub(super) const CODEC_LZ4: u8 = 1;
pub(super) const CODEC_ZSTD: u8 = 2;

impl Compression {
    pub(super) fn codec(self) -> u8 {
        match self {
            Self::None => CODEC_NONE,
            Self::Lz4 => CODEC_LZ4,
            Self::Zstd(_) => CODEC_ZSTD,
        }
    }

    /// The block compressed, or `None` if it would not be smaller.
    pub(super) fn compress(self, block: &[u8]) -> Result<Option<Vec<u8>>> {
        let packed = match self {
            Self::None => Ok(None),
            #[cfg(feature = "lz4")]
            Self::Lz4 => Ok(Some(lz4_flex::block::compress(block))),
            #[cfg(all(feature = "zstd", target_arch = "wasm32"))]
            Self::Zstd(_) => {
                Err(Error::unsupported("zstd cannot compress on wasm32: choose another compression"))
            }
            #[cfg(all(feature = "zstd", not(target_arch = "wasm32")))]
            Self::Zstd(level) => zstd::bulk::compress(block, level)
                .map(Some)
                .map_err(|error| Error::unsupported(format!("zstd cannot compress: {error}"))),
            #[cfg(not(all(feature = "lz4", feature = "zstd")))]
            other => Err(missing(other.codec())),
        };
        Ok(packed?.filter(|packed: &Vec<u8>| packed.len() < block.len()))
    }
}

/// Decompresses into exactly `out`.
pub(super) fn decompress(codec: u8, packed: &[u8], out: &mut [u8]) -> Result<()> {
    let written: Result<usize> = match codec {
        #[cfg(feature = "lz4")]
        CODEC_LZ4 => lz4_flex::block::decompress_into(packed, out)
            .map_err(|error| Error::corrupt(format!("a block cannot be decompressed: {error}"))),
        #[cfg(all(feature = "zstd", target_arch = "wasm32"))]
        CODEC_ZSTD => super::unpack_zstd::unpack_zstd(packed, out),
        #[cfg(all(feature = "zstd", not(target_arch = "wasm32")))]
        CODEC_ZSTD => zstd::bulk::decompress_to_buffer(packed, out)
            .map_err(|error| Error::corrupt(format!("a block cannot be decompressed: {error}"))),
        codec => {
            let _ = packed;
            Err(missing(codec))
        }
    };
    let written = written?;
    if written != out.len() {
        let expected = out.len();
        return Err(Error::corrupt(format!(
            "a block has {written} bytes after decompression, {expected} expected"
        )));
    }
    Ok(())
}

fn missing(codec: u8) -> Error {
    match codec {
        CODEC_LZ4 => Error::unsupported("the file uses LZ4: build with the feature `lz4`"),
        CODEC_ZSTD => Error::unsupported("the file uses zstd: build with the feature `zstd`"),
        codec => Error::newer_format(format!("compression codec {codec} is not known to this version")),
    }
}

pub(super) fn codec_name(codec: u8) -> &'static str {
    match codec {
        CODEC_NONE => "none",
        CODEC_LZ4 => "lz4",
        CODEC_ZSTD => "zstd",
        _ => "unknown",
    }
}

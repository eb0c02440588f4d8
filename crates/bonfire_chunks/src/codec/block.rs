//! Blocks of LZ4 and zstd, and the buffers that the codecs work in.
//!
//! A block never says how large its content is: the caller knows, and anything else is corrupt.

use std::cell::RefCell;

use bonfire::{Error, Result};

/// Of 1 (fast) to 22 (small). What is gained above it is small for cells.
#[cfg(all(feature = "zstd", not(target_arch = "wasm32")))]
const ZSTD_LEVEL: i32 = 3;

/// One byte of an LZ4 block stands for at most this many bytes.
const LZ4_EXPANSION_MAX: usize = 255;

/// A thread keeps its buffers up to this size.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// What makes a block smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockCodec {
    Lz4,
    Zstd,
}

/// Buffers that are used again, so that nothing large is allocated and cleared for every chunk. Their contents mean
/// nothing between two uses.
#[derive(Default)]
pub(super) struct Scratch {
    /// Where blocks are made.
    pub(super) room: Vec<u8>,
    /// An index into the palette per cell.
    pub(super) indices: Vec<u8>,
    /// What goes into a block, or came out of it.
    pub(super) raw: Vec<u8>,
    /// The smallest payload up to now.
    pub(super) best: Vec<u8>,
    /// The payload that is being tried.
    pub(super) trial: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Scratch {
    /// Lends this thread's buffers.
    pub(super) fn with<T>(work: impl FnOnce(&mut Self) -> T) -> T {
        let mut scratch = SCRATCH.take();
        let result = work(&mut scratch);
        let Self { room, indices, raw, best, trial } = &mut scratch;
        for buffer in [room, indices, raw, best, trial] {
            if buffer.capacity() > KEPT_BYTES_MAX {
                *buffer = Vec::new();
            }
        }
        SCRATCH.replace(scratch);
        result
    }
}

/// Appends the block of `raw` to `out`. It is made in `room`.
pub(super) fn pack(packer: BlockCodec, raw: &[u8], room: &mut Vec<u8>, out: &mut Vec<u8>) {
    match packer {
        BlockCodec::Lz4 => {
            let room = slice(room, lz4_flex::block::get_maximum_output_size(raw.len()));
            let size = lz4_flex::block::compress_into(raw, room).expect("there is room for the worst case");
            out.extend_from_slice(&room[..size]);
        }
        #[cfg(all(feature = "zstd", not(target_arch = "wasm32")))]
        BlockCodec::Zstd => {
            let room = slice(room, zstd::compress_bound(raw.len()));
            let size = zstd::bulk::compress_to_buffer(raw, room, ZSTD_LEVEL)
                .expect("there is room for the worst case");
            out.extend_from_slice(&room[..size]);
        }
        #[cfg(not(all(feature = "zstd", not(target_arch = "wasm32"))))]
        BlockCodec::Zstd => unreachable!("nothing chooses zstd in a build without it"),
    }
}

/// The first `size` bytes of a buffer that only grows, so that they are not cleared again.
pub(super) fn slice(buffer: &mut Vec<u8>, size: usize) -> &mut [u8] {
    if buffer.len() < size {
        buffer.resize(size, 0);
    }
    &mut buffer[..size]
}

/// Refuses a block that is too small for what it is said to hold, before room is made for that.
pub(super) fn check_claim(packer: BlockCodec, block: &[u8], raw_bytes: usize) -> Result<()> {
    if packer == BlockCodec::Lz4 && raw_bytes / LZ4_EXPANSION_MAX > block.len() {
        return Err(Error::corrupt(format_args!(
            "{} bytes of LZ4 are too few for {raw_bytes} bytes",
            block.len()
        )));
    }
    Ok(())
}

/// Unpacks a block that has to fill `out`.
pub(super) fn unpack(packer: BlockCodec, block: &[u8], out: &mut [u8]) -> Result<()> {
    let size = match packer {
        BlockCodec::Lz4 => lz4_flex::block::decompress_into(block, out)
            .map_err(|error| Error::corrupt(format_args!("an LZ4 block: {error}")))?,
        #[cfg(all(feature = "zstd", not(target_arch = "wasm32")))]
        BlockCodec::Zstd => zstd::bulk::decompress_to_buffer(block, out)
            .map_err(|error| Error::corrupt(format_args!("a zstd block: {error}")))?,
        #[cfg(not(all(feature = "zstd", not(target_arch = "wasm32"))))]
        BlockCodec::Zstd => {
            return Err(Error::unsupported(
                "this chunk is packed with zstd: build bonfire_chunks with the feature `zstd`, which wasm32 lacks",
            ));
        }
    };
    if size != out.len() {
        return Err(Error::corrupt(format_args!("a block holds {size} bytes instead of {}", out.len())));
    }
    Ok(())
}

//! Memory and bytes: aligned buffers and their pool, ropes of shared pieces, pages, bitmaps, checksums.
//!
//! Nothing here knows a component or a schema.

mod bitmap;
mod buffer;
pub(crate) mod crc;
mod hex;
mod page;
mod rope;

pub use self::bitmap::Bitmap;
pub(crate) use self::buffer::PAGE_BYTES;
pub use self::buffer::{AlignedBuf, BufferPool, COLUMN_ALIGN};
pub(crate) use self::hex::{from_hex, to_hex};
pub use self::page::DirtyRows;
pub(crate) use self::page::{Checksums, EarlierColumn, PageLayout, in_pages, memory_of};
pub use self::rope::Rope;

/// Checksums, compression and salvage work on blocks of at most this many bytes.
pub const BLOCK_BYTES: usize = 64 << 10;

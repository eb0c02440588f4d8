//! The cells of a chunk as bytes.
//!
//! A chunk is a row of cells of 1 to 64 bytes each. It is stored whole (*full*), or as those of its cells that are not
//! as the game generates them (*delta*). Several ways to write either compete, and the smallest wins: a [`Choice`] says
//! which ones may.
//!
//! A payload does not say how many cells its chunk has, how large they are, nor which codec wrote it: the file knows.
//!
//! # Bytes
//!
//! Numbers are little-endian. A *varint* has 1 to 5 bytes: seven bits per byte, the lowest first, the top bit set in all
//! but the last byte, in the shortest form. `B` is the size of a cell, `N` the number of cells of the chunk (at most
//! 2^24). *LZ4 block* is the LZ4 block format without a frame, *zstd frame* is one frame as in RFC 8878. Both reach to
//! the end of the payload, and have to give exactly the size that is stated here.
//!
//! | codec | number | full | delta |
//! |---|---|---|---|
//! | `Lz4` | 0 | yes | yes |
//! | `Raw` | 1 | yes | yes |
//! | `PaletteLz4` | 2 | yes | |
//! | `RunsLz4` | 3 | yes | |
//! | `Zstd` | 4 | yes | |
//! | `PaletteZstd` | 5 | yes | |
//! | `RunsPlanesLz4` | 6 | | yes |
//! | `RunsPlanesZstd` | 7 | | yes |
//!
//! ## Full
//!
//! **0 `Lz4`**
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | u32 `N * B` |
//! | 4 | rest | LZ4 block of the cells, `N * B` bytes |
//!
//! **1 `Raw`**: the cells, `N * B` bytes.
//!
//! **2 `PaletteLz4`**, **5 `PaletteZstd`**
//!
//! | size | field |
//! |---|---|
//! | varint | `N` |
//! | varint | number of cells in the palette, `P`, at least 1 |
//! | 1 | u8 bits of an index, `I`: 0, 1, 2, 4, 8 or 16, and `P <= 2^I` |
//! | rest | LZ4 block or zstd frame of `P * B + ceil(N * I / 8)` bytes, fewer than `N * B`: the palette, then the indices |
//!
//! Each cell has an index into the palette, below `P`. The first index is in the lowest bits of the first byte. Bits
//! behind the last index are 0. Of indices of 16 bits there are first the low bytes of all, then the high bytes of all.
//!
//! **3 `RunsLz4`**
//!
//! | size | field |
//! |---|---|
//! | varint | number of runs, `R` |
//! | varint | bytes of the lengths, `L` |
//! | rest | LZ4 block of `L + R * B` bytes, fewer than `N * B`: the length of each run less one as a varint, then the cell of each run |
//!
//! The lengths sum to `N`.
//!
//! **4 `Zstd`**: zstd frame of the cells, `N * B` bytes.
//!
//! ## Delta
//!
//! **0 `Lz4`**
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | u32 size of the content |
//! | 4 | rest | LZ4 block of the content |
//!
//! **1 `Raw`**: the content itself, which is
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | u32 number of changed cells, `C` |
//! | 4 | `C * (3 + B)` | per changed cell: u24 position below `N`, ascending, and the new cell |
//!
//! Cells of 4 bytes, position 5 becomes `0A 0B 0C 0D` and position 300 becomes `01 02 03 04`: the content is
//! `02 00 00 00  05 00 00 0A 0B 0C 0D  2C 01 00 01 02 03 04`, and the payload of codec 0 is `12 00 00 00  F0 03` and the
//! content (which is too short to become smaller).
//!
//! **6 `RunsPlanesLz4`**, **7 `RunsPlanesZstd`**
//!
//! | size | field |
//! |---|---|
//! | varint | number of runs of changed cells, `R` |
//! | varint | number of changed cells, `C` |
//! | varint | bytes of the runs, `L`, at most `8 * R` |
//! | rest | LZ4 block or zstd frame of `L + C * B` bytes: the runs, then the planes |
//!
//! A run is a varint of the cells between it and the end of the run in front of it (from the start of the chunk for the
//! first, and not 0 for all others), and a varint of its length, which is not 0. The lengths sum to `C`. A plane
//! has one byte of each changed cell, in their order: first the plane of the first bytes, then of the second ones, up to
//! `B`.

mod block;
mod candidates;
mod delta;
mod delta_bytes;
mod full;
mod palette;
mod runs;
mod survey;
#[cfg(test)]
mod tests;
mod varint;

use bonfire::{Error, Result};

pub use self::delta::Delta;
pub use self::delta_bytes::{decode_delta, encode_delta};
pub use self::full::{decode_full, encode_full};
pub(crate) use self::runs::fill;

/// The most cells of a chunk.
pub const CELLS_MAX: usize = 1 << 24;

/// The most bytes of a cell.
pub const CELL_BYTES_MAX: usize = 64;

/// How the cells of a chunk are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Codec {
    /// One LZ4 block behind its size.
    Lz4 = 0,
    /// As they are.
    Raw = 1,
    /// The different cells, and an index per cell.
    PaletteLz4 = 2,
    /// Runs of equal cells.
    RunsLz4 = 3,
    /// One zstd frame.
    Zstd = 4,
    /// As [`Codec::PaletteLz4`], with zstd.
    PaletteZstd = 5,
    /// Changed cells as runs of positions and one plane per byte of a cell.
    RunsPlanesLz4 = 6,
    /// As [`Codec::RunsPlanesLz4`], with zstd.
    RunsPlanesZstd = 7,
}

impl Codec {
    /// All codecs, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Lz4,
        Self::Raw,
        Self::PaletteLz4,
        Self::RunsLz4,
        Self::Zstd,
        Self::PaletteZstd,
        Self::RunsPlanesLz4,
        Self::RunsPlanesZstd,
    ];

    /// The number that files have for it.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The codec that files have this number for.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether this build has it: those with zstd need the feature `zstd`.
    pub const fn is_supported(self) -> bool {
        cfg!(feature = "zstd") || !matches!(self, Self::Zstd | Self::PaletteZstd | Self::RunsPlanesZstd)
    }
}

/// Which codecs may be chosen for a chunk. All can be read, whatever was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice(u8);

impl Choice {
    /// No codec. What none can hold is written as [`Codec::Raw`].
    pub const fn none() -> Self {
        Self(0)
    }

    /// Only [`Codec::Lz4`], for readers that know no other.
    pub const fn compat() -> Self {
        Self::none().with(Codec::Lz4)
    }

    /// All that load at memory speed. The default.
    pub const fn fast() -> Self {
        Self::compat()
            .with(Codec::Raw)
            .with(Codec::PaletteLz4)
            .with(Codec::RunsLz4)
            .with(Codec::RunsPlanesLz4)
    }

    /// Also zstd, for clouds and archives: terrain is about a third smaller and takes three times as long to save. As [`Choice::fast`] in a
    /// build without the feature `zstd`.
    pub const fn small() -> Self {
        Self::fast().with(Codec::Zstd).with(Codec::PaletteZstd).with(Codec::RunsPlanesZstd)
    }

    /// This one too, if this build has it.
    #[must_use]
    pub const fn with(self, codec: Codec) -> Self {
        if codec.is_supported() { Self(self.0 | 1 << codec.number()) } else { self }
    }

    /// Not this one.
    #[must_use]
    pub const fn without(self, codec: Codec) -> Self {
        Self(self.0 & !(1 << codec.number()))
    }

    /// Whether a codec may be chosen.
    pub const fn allows(self, codec: Codec) -> bool {
        self.0 >> codec.number() & 1 == 1
    }

    fn allows_any(self, codecs: &[Codec]) -> bool {
        codecs.iter().any(|codec| self.allows(*codec))
    }
}

impl Default for Choice {
    fn default() -> Self {
        Self::fast()
    }
}

/// Whether so many bytes are whole cells of a chunk.
fn check_cells(bytes: usize, cell_bytes: usize) -> Result<()> {
    if cell_bytes == 0 || cell_bytes > CELL_BYTES_MAX {
        return Err(Error::misuse(format_args!(
            "cells of {cell_bytes} bytes are not of 1 to {CELL_BYTES_MAX}"
        )));
    }
    if !bytes.is_multiple_of(cell_bytes) || bytes / cell_bytes > CELLS_MAX {
        return Err(Error::misuse(format_args!(
            "{bytes} bytes are no chunk of at most {CELLS_MAX} cells of {cell_bytes} bytes"
        )));
    }
    Ok(())
}

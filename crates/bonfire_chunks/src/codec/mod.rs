//! The cells of a chunk as bytes.
//!
//! A chunk is a row of cells of 1 to 64 bytes each. It is stored whole (*full*), or as those of its cells that are not
//! as the game generates them (*delta*). Several ways to write either compete, and the smallest wins: a [`Choice`] says
//! which ones may.
//!
//! A payload does not say how many cells its chunk has, how large they are, nor which codec wrote it: the file knows.
//!
//! Every byte of every codec is in FORMAT.md, "Cells".

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
        cfg!(all(feature = "zstd", not(target_arch = "wasm32")))
            || !matches!(self, Self::Zstd | Self::PaletteZstd | Self::RunsPlanesZstd)
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

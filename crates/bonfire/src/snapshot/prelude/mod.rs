//! The sections that describe the columns: prelude, schemas, carry. FORMAT.md, "Prelude".
//!
//! All bytes of columns lie in one section; what is here says where. Parts are listed in the order in which they lie,
//! so that overlaps are found by looking at each part once.

mod decode;
mod encode;

pub(super) use self::decode::{Finder, decode_schemas};
pub(super) use self::encode::{Describer, encode_schemas};

/// The encoding byte of a column. [`PRESENCE`] is added when only some rows have a value.
mod encoding {
    pub(super) const TAG: u8 = 0;
    pub(super) const RAW: u8 = 1;
    pub(super) const ROWS: u8 = 2;
    pub(super) const DICTIONARY: u8 = 3;
    pub(super) const SHARED: u8 = 4;
    pub(super) const PRESENCE: u8 = 0x80;
}

const SCHEMA_INLINE: u8 = 1;

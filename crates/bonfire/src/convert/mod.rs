//! Values of one schema as values of another, matched by name: no versions, no components, no snapshots.
//!
//! | file | |
//! |---|---|
//! | `conversion` | compares two schemas and plans the conversion, once |
//! | `convert_value` | runs it for one encoded value |
//! | `fixed_rows` | runs it for whole columns of fixed-size rows |
//! | `convert_dynamic` | does the same for values that carry their own types |
//! | `number` | which numbers become wider ones |
//! | `changes` | lists the differences that a conversion bridges, for people |
//! | `unknown_fields` | fields that the target does not have and that must not be lost |

mod changes;
mod conversion;
mod convert_dynamic;
mod convert_value;
mod fixed_rows;
mod number;
mod unknown_fields;

pub(crate) use self::conversion::Conversion;
pub(crate) use self::convert_dynamic::write as write_dynamic;
pub(crate) use self::convert_value::{ConversionScratch, decode_by_name, skip};
pub(crate) use self::fixed_rows::FixedRows;
pub(crate) use self::unknown_fields::UnknownFields;

//! Numbers and bytes that JSON cannot say, as text.

use crate::error::{Error, Result};
use crate::storage::from_hex;

/// The largest number that every JSON reader keeps exactly.
pub(super) const SAFE_INTEGER: u64 = (1 << 53) - 1;

pub(super) fn bytes_from(text: &str) -> Result<Vec<u8>> {
    from_hex(text).ok_or_else(|| Error::corrupt(format!("{text:.40?} is not hexadecimal")))
}

/// What a float that is no number looks like; other floats are numbers.
pub(super) fn special_f64(value: f64) -> Option<String> {
    match value {
        _ if value.is_finite() => None,
        _ if value == f64::INFINITY => Some("inf".into()),
        _ if value == f64::NEG_INFINITY => Some("-inf".into()),
        _ if value.to_bits() == f64::NAN.to_bits() => Some("nan".into()),
        _ => Some(format!("nan:{:016x}", value.to_bits())),
    }
}

pub(super) fn special_f32(value: f32) -> Option<String> {
    match value {
        _ if value.is_finite() => None,
        _ if value == f32::INFINITY => Some("inf".into()),
        _ if value == f32::NEG_INFINITY => Some("-inf".into()),
        _ if value.to_bits() == f32::NAN.to_bits() => Some("nan".into()),
        _ => Some(format!("nan:{:08x}", value.to_bits())),
    }
}

pub(super) fn parse_f64(text: &str) -> Option<f64> {
    match text {
        "inf" => Some(f64::INFINITY),
        "-inf" => Some(f64::NEG_INFINITY),
        "nan" => Some(f64::NAN),
        _ => Some(f64::from_bits(u64::from_str_radix(text.strip_prefix("nan:")?, 16).ok()?)),
    }
}

pub(super) fn parse_f32(text: &str) -> Option<f32> {
    match text {
        "inf" => Some(f32::INFINITY),
        "-inf" => Some(f32::NEG_INFINITY),
        "nan" => Some(f32::NAN),
        _ => Some(f32::from_bits(u32::from_str_radix(text.strip_prefix("nan:")?, 16).ok()?)),
    }
}

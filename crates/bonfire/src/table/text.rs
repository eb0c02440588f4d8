//! Numbers and bytes that JSON cannot say, as text.

use crate::error::{Error, Result};

/// The largest number that every JSON reader keeps exactly.
pub(super) const SAFE_INTEGER: u64 = (1 << 53) - 1;

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(super) fn unhex(text: &str) -> Result<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let bad = || Error::corrupt(format!("{text:.40?} is not hexadecimal"));
    if !text.len().is_multiple_of(2) {
        return Err(bad());
    }
    let byte = |pair: &[u8]| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8);
    text.as_bytes().chunks_exact(2).map(byte).collect::<Option<_>>().ok_or_else(bad)
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

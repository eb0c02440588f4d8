//! Numbers at the end of names: several blobs under one name, the newest with the largest number.

use bonfire::{Error, Result};

/// No game saves more often. A larger number is not one of ours, so that nobody can use the numbers up.
const GENERATION_MAX: u64 = 999_999_999_999;

/// The number after the largest that is in use.
pub(crate) fn next(newest: Option<u64>) -> Result<u64> {
    match newest.unwrap_or(0) {
        GENERATION_MAX.. => Err(Error::limit("there are no numbers left for another save")),
        newest => Ok(newest + 1),
    }
}

/// `name.00000007`
pub(crate) fn numbered(name: &str, generation: u64) -> String {
    format!("{name}.{generation:08}")
}

/// The number in `00000007`. One number has one form.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let number = text.parse().ok()?;
    (number <= GENERATION_MAX && format!("{number:08}") == text).then_some(number)
}

/// `name` and 7 of `name.00000007`.
pub(crate) fn split(name: &str) -> Option<(&str, u64)> {
    let (name, number) = name.rsplit_once('.')?;
    Some((name, parse(number)?))
}

//! Numbers at the end of names: several blobs under one name, the newest with the largest number.

use bonfire::{Error, Result};

/// No game saves more often. A larger number is not one of ours, so that nobody can use the numbers up.
const GENERATION_MAX: u64 = 999_999_999_999;

/// No store makes so many saves of which none is left.
const GAP_MAX: u64 = 1_000_000_000;

/// The largest number that counts. Numbers are given one after the other, so one that is far above all others was put there
/// by hand: if it counted, there would soon be no numbers left for new saves.
pub(crate) fn largest(numbers: impl IntoIterator<Item = u64>) -> u64 {
    let mut numbers: Vec<u64> = numbers.into_iter().collect();
    numbers.sort_unstable();
    numbers.into_iter().fold(0, |largest, number| if number - largest > GAP_MAX { largest } else { number })
}

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

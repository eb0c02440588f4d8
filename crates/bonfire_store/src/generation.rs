//! Numbers at the end of names: several blobs under one name, the newest with the largest number.

/// `name.00000007`
pub(crate) fn numbered(name: &str, generation: u64) -> String {
    format!("{name}.{generation:08}")
}

/// The number in `00000007`. One number has one form.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let number = text.parse().ok()?;
    (format!("{number:08}") == text).then_some(number)
}

/// `name` and 7 of `name.00000007`.
pub(crate) fn split(name: &str) -> Option<(&str, u64)> {
    let (name, number) = name.rsplit_once('.')?;
    Some((name, parse(number)?))
}

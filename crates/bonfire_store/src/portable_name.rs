//! Names that mean the same on every system.

use bonfire::{Error, Result};

/// Longer names than this do not fit every system's directories with what is added to them.
const NAME_BYTES_MAX: usize = 200;

/// A slot's, profile's or blob's part between two dots.
pub(crate) const PART_BYTES_MAX: usize = 64;

/// Names that Windows keeps for devices, whatever comes after a dot.
const DEVICES: [&str; 4] = ["CON", "PRN", "AUX", "NUL"];

/// Checks the name of a blob: parts of ASCII letters, digits, `_` and `-`, joined by single dots; no part is longer than
/// 64, the whole not longer than 200, and the first is not the name of a device on Windows.
///
/// So no name leaves its directory, is hidden, means two things on two systems, or cannot be created on one of them.
pub fn check_name(name: &str) -> Result<()> {
    if name.len() > NAME_BYTES_MAX {
        return Err(Error::misuse(format!(
            "the name of a blob has {} bytes, {NAME_BYTES_MAX} are allowed",
            name.len()
        )));
    }
    name.split('.').try_for_each(|part| check_part(part, name))
}

/// Checks the name of a slot or of a profile: a name without dots.
pub(crate) fn check_slot(name: &str) -> Result<()> {
    check_part(name, name)
}

fn check_part(part: &str, name: &str) -> Result<()> {
    let refused = |why: &str| Err(Error::misuse(format!("{name:?} cannot be a name: {why}")));
    if part.is_empty() {
        return refused("a part of it is empty");
    }
    if part.len() > PART_BYTES_MAX {
        return refused("a part of it is longer than 64 bytes");
    }
    if !part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-') {
        return refused(
            "letters and digits of ASCII, `_` and `-` are allowed (what players read is the label)",
        );
    }
    if is_device(part) {
        return refused("Windows keeps it for a device");
    }
    Ok(())
}

pub(crate) fn is_device(part: &str) -> bool {
    let upper = part.to_ascii_uppercase();
    let numbered = |device: &str| {
        upper
            .strip_prefix(device)
            .is_some_and(|number| number.len() == 1 && number.as_bytes()[0].is_ascii_digit())
    };
    DEVICES.contains(&upper.as_str()) || numbered("COM") || numbered("LPT")
}

/// Refuses a name that differs from an existing one only in the case of its letters: half of all systems would take them
/// for the same.
pub fn check_case<'n>(name: &str, existing: impl IntoIterator<Item = &'n str>) -> Result<()> {
    match existing.into_iter().find(|other| other.eq_ignore_ascii_case(name) && *other != name) {
        Some(other) => Err(Error::misuse(format!(
            "{name:?} differs from {other:?} only in the case of its letters: some systems cannot tell them apart"
        ))),
        None => Ok(()),
    }
}

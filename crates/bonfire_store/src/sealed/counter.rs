//! Rollback: a save that was good once, put in the place of a later one.

use bonfire::Result;

use crate::maybe::{MaybeSend, MaybeSync};

/// A place that remembers how far a save has come and that who changes the saves cannot change: a server, the
/// platform's account storage, a keystore.
///
/// Every blob belongs to a family, which is its name in lower case without the number of its generation:
/// `quick.00000003.bonfire` and `quick.00000004.locked` both belong to `quick`. Each put gets the number after the
/// family's newest, and a blob with a smaller number than the newest is refused with
/// [`Error::is_rollback`](bonfire::Error::is_rollback): older generations too, so that a family whose newest save is removed has none that opens. Saves for after a crash,
/// `quick.00000005.recovery`, are a family of their own, `quick.recovery`: one that is rejected leaves the others as they
/// were. A rename to another family seals the blob again with a number there.
///
/// Without such a place an old save that is put back cannot be told from the newest. Without
/// [bound names](super::Sealed::bind_name) it can still be put back under a name that is not in use.
///
/// A crash between writing and [`advance`](Self::advance) leaves a save with a number that the counter has not reached
/// yet: it is accepted. Puts of one family at the same time may get the same number, and are then as new as each other.
pub trait TrustedCounter: MaybeSend + MaybeSync {
    /// The number of the newest save of a family; 0 if there is none.
    fn newest(&self, family: &str) -> Result<u64>;

    /// Remembers that there is a save with this number. Never goes back: a smaller number than the newest changes
    /// nothing.
    fn advance(&self, family: &str, to: u64) -> Result<()>;
}

/// The name of a blob without the number of its generation, in lower case: a rename that changes nothing but the case
/// stays in the family.
pub(super) fn family(name: &str) -> String {
    let (name, recovery) = match name.rsplit_once('.') {
        Some((name, "bonfire" | "locked" | "value")) => (name, ""),
        Some((name, "recovery")) => (name, ".recovery"),
        _ => (name, ""),
    };
    let family = match name.rsplit_once('.') {
        Some((family, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => family,
        _ => name,
    };
    format!("{family}{recovery}").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::family;

    #[test]
    fn generations_of_a_slot_are_one_family() {
        for (name, expected) in [
            ("quick", "quick"),
            ("Quick", "quick"),
            ("quick.00000003", "quick"),
            ("quick.00000003.bonfire", "quick"),
            ("quick.00000003.locked", "quick"),
            ("settings.00000003.value", "settings"),
            ("quick.00000003.recovery", "quick.recovery"),
            ("alice.quick.00000003.recovery", "alice.quick.recovery"),
            ("alice.quick.00000003.bonfire", "alice.quick"),
            ("quick.bonfire", "quick"),
            ("quick.3a.bonfire", "quick.3a"),
            ("quick.00000003.other", "quick.00000003.other"),
            ("quick.2.3", "quick.2"),
            ("3", "3"),
        ] {
            assert_eq!(family(name), expected, "{name}");
        }
    }
}

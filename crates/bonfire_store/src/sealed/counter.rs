//! Rollback: a save that was good once, put in the place of a later one.

use bonfire::Result;

use crate::generation;

/// A place that remembers how far a save has come and that who changes the saves cannot change: a server, the
/// platform's account storage, a keystore.
///
/// Every blob belongs to a family, which is its name in lower case without the number of its generation:
/// `quick.00000003.bonfire` and `quick.00000004.locked` both belong to `quick`. Each put gets the number after the
/// family's newest, and a blob with a smaller number than the newest is refused with
/// [`Error::is_rollback`](bonfire::Error::is_rollback): older generations too. Removing the newest, or renaming it into another family, counts as
/// well, so that it cannot be put back; after that no save of the family opens until the next one is written.
///
/// A save for after a crash, `quick.00000005.recovery`, gets the next number without taking it: it opens until the next save
/// of the family. Of several such saves with no other between them, an older one can be put in the place of a newer.
///
/// Journals of saves are refused with [`Error::is_unsupported`](bonfire::Error::is_unsupported): their end could be cut off.
///
/// Without such a place an old save that is put back cannot be told from the newest. Without
/// [bound names](super::Sealed::bind_name) it can still be put back under a name that is not in use.
///
/// A crash between writing and [`advance`](Self::advance) leaves a save with a number that the counter has not reached
/// yet: it is accepted. Puts of one family at the same time may get the same number, and are then as new as each other.
pub trait TrustedCounter: Send + Sync {
    /// The number of the newest save of a family; 0 if there is none.
    fn newest(&self, family: &str) -> Result<u64>;

    /// Remembers that there is a save with this number. Never goes back: a smaller number than the newest changes
    /// nothing.
    fn advance(&self, family: &str, to: u64) -> Result<()>;
}

/// What is counted together, by the name of a blob.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CounterName {
    /// The name without the number of its generation, in lower case.
    pub(super) name: String,
    /// Whether the blob is a save for after a crash.
    pub(super) recovery: bool,
}

impl CounterName {
    pub(super) fn of(blob: &str) -> Self {
        let (stem, recovery) = match blob.rsplit_once('.') {
            Some((stem, "bonfire" | "locked" | "value")) => (stem, false),
            Some((stem, "recovery")) => (stem, true),
            _ => (blob, false),
        };
        let name = match generation::split(stem) {
            Some((name, _)) => name,
            None => stem,
        };
        Self { name: name.to_ascii_lowercase(), recovery }
    }
}

#[cfg(test)]
mod tests {
    use super::CounterName;

    #[test]
    fn generations_of_a_slot_are_one_family() {
        for (name, expected, recovery) in [
            ("quick", "quick", false),
            ("Quick", "quick", false),
            ("quick.00000003", "quick", false),
            ("quick.00000003.bonfire", "quick", false),
            ("quick.00000003.locked", "quick", false),
            ("settings.00000003.value", "settings", false),
            ("quick.00000003.recovery", "quick", true),
            ("alice.quick.00000003.recovery", "alice.quick", true),
            ("quick.recovery.00000001.bonfire", "quick.recovery", false),
            ("alice.quick.00000003.bonfire", "alice.quick", false),
            ("quick.bonfire", "quick", false),
            ("quick.3a.bonfire", "quick.3a", false),
            ("quick.00000003.other", "quick.00000003.other", false),
            // Pieces that a game numbers itself are not generations.
            ("level.1", "level.1", false),
            ("level.00000001.00000002", "level.00000001", false),
            ("3", "3", false),
        ] {
            assert_eq!(CounterName::of(name), CounterName { name: expected.to_owned(), recovery }, "{name}");
        }
    }
}

//! Names of saves: `slot.00000007.bonfire`, or `profile.slot.00000007.bonfire`; and of their journals,
//! `slot.00000007.journal`, with `slot.00000007.journal.00000001` where records are blobs of their own.

use crate::generation;

/// The role of a save in its slot, in the order in which a load tries them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SaveKind {
    /// A save of a world that may be pruned.
    Free,
    /// A single value: not something that a menu of saves shows.
    Value,
    /// A save that stays until it is unlocked.
    Locked,
    /// A save for after a crash, not yet accepted.
    Recovery,
}

impl SaveKind {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Free, "bonfire"),
        (Self::Value, "value"),
        (Self::Locked, "locked"),
        (Self::Recovery, "recovery"),
    ];

    fn extension(self) -> &'static str {
        Self::ALL[self as usize].1
    }
    fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, extension)| *extension == text).map(|(kind, _)| *kind)
    }
}

/// One save of one slot, as its blob is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SaveName {
    pub(crate) profile: Option<String>,
    pub(crate) slot: String,
    pub(crate) generation: u64,
    pub(crate) kind: SaveKind,
    /// A file that was put there by hand, `slot.bonfire`: older than all others.
    plain: bool,
}

impl SaveName {
    pub(crate) fn new(profile: Option<&str>, slot: &str, generation: u64, kind: SaveKind) -> Self {
        Self { profile: profile.map(str::to_owned), slot: slot.to_owned(), generation, kind, plain: false }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        let parts: Vec<&str> = name.split('.').collect();
        let (profile, slot, generation, kind) = match *parts {
            [slot, "bonfire"] => {
                return Some(Self { plain: true, ..Self::new(None, slot, 0, SaveKind::Free) });
            }
            [slot, generation, kind] => (None, slot, generation, kind),
            [profile, slot, generation, kind] => (Some(profile), slot, generation, kind),
            _ => return None,
        };
        Some(Self::new(profile, slot, generation::parse(generation)?, SaveKind::parse(kind)?))
    }

    /// The name of its journal. It does not depend on the kind, so that what is locked or accepted keeps its journal.
    pub(crate) fn journal(&self) -> JournalName {
        let Self { profile, slot, generation, .. } = self.clone();
        JournalName { profile, slot, generation, record: None }
    }

    /// The same save under another number.
    pub(crate) fn with_generation(&self, generation: u64) -> Self {
        Self { generation, plain: false, ..self.clone() }
    }
    /// The same save in another slot.
    pub(crate) fn in_slot(&self, slot: &str) -> Self {
        Self { slot: slot.to_owned(), plain: false, ..self.clone() }
    }
    /// The same save as something else to its slot.
    pub(crate) fn with_kind(&self, kind: SaveKind) -> Self {
        Self { kind, plain: false, ..self.clone() }
    }
}

impl std::fmt::Display for SaveName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.plain {
            return write!(f, "{}.bonfire", self.slot);
        }
        if let Some(profile) = &self.profile {
            write!(f, "{profile}.")?;
        }
        write!(f, "{}.{}", generation::numbered(&self.slot, self.generation), self.kind.extension())
    }
}

/// What the name of a journal ends with, or goes on from.
const JOURNAL: &str = "journal";

/// A blob of the journal of a save: all of it, or its head, or one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JournalName {
    pub(crate) profile: Option<String>,
    pub(crate) slot: String,
    /// The number of the save.
    pub(crate) generation: u64,
    /// The number of the record, if it is a blob of its own.
    pub(crate) record: Option<u64>,
}

impl JournalName {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (name, record) = match name.rsplit_once('.')? {
            (name, JOURNAL) => (name, None),
            (name, number) => {
                (name.strip_suffix(JOURNAL)?.strip_suffix('.')?, Some(generation::parse(number)?))
            }
        };
        let (profile, slot, number) = match *name.split('.').collect::<Vec<_>>() {
            [slot, number] => (None, slot, number),
            [profile, slot, number] => (Some(profile.to_owned()), slot, number),
            _ => return None,
        };
        Some(Self { profile, slot: slot.to_owned(), generation: generation::parse(number)?, record })
    }

    /// The same journal's blob for one record.
    pub(crate) fn record(&self, record: u64) -> Self {
        Self { record: Some(record), ..self.clone() }
    }

    /// Whether this is the journal of that save, or was before the save got another kind.
    pub(crate) fn is_of(&self, save: &SaveName) -> bool {
        (&self.profile, &self.slot, self.generation) == (&save.profile, &save.slot, save.generation)
    }
}

impl std::fmt::Display for JournalName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(profile) = &self.profile {
            write!(f, "{profile}.")?;
        }
        let journal = format!("{}.{JOURNAL}", generation::numbered(&self.slot, self.generation));
        match self.record {
            Some(record) => f.write_str(&generation::numbered(&journal, record)),
            None => f.write_str(&journal),
        }
    }
}

/// How the mark of the largest number begins that a deleted save had.
const LAST_NUMBER: &str = "last-number";

/// The name of a mark that keeps the number of a deleted save from being given again.
pub(crate) fn last_number(number: u64) -> String {
    generation::numbered(LAST_NUMBER, number)
}

pub(crate) fn parse_last_number(name: &str) -> Option<u64> {
    generation::split(name).filter(|(start, _)| *start == LAST_NUMBER).map(|(_, number)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_of_a_number_is_no_save_and_no_journal() {
        let mark = last_number(7);
        assert_eq!((mark.as_str(), parse_last_number(&mark)), ("last-number.00000007", Some(7)));
        assert!(SaveName::parse(&mark).is_none() && JournalName::parse(&mark).is_none());
        for name in ["last-number", "last-number.7", "other.00000007", "last-number.00000007.bonfire"] {
            assert_eq!(parse_last_number(name), None, "{name}");
        }
    }

    #[test]
    fn journals_have_names_that_no_save_has() {
        for (profile, slot) in
            [(None, "quick"), (Some("alice"), "quick"), (None, "journal"), (Some("journal"), "journal")]
        {
            let save = SaveName::new(profile, slot, 7, SaveKind::Locked);
            let journal = save.journal();
            assert!(journal.is_of(&save) && !journal.is_of(&save.with_generation(8)));
            for name in [journal.clone(), journal.record(1), journal.record(123_456_789)] {
                let text = name.to_string();
                assert_eq!(JournalName::parse(&text), Some(name), "{text}");
                assert_eq!(SaveName::parse(&text), None, "{text}");
                crate::portable_name::check_name(&text).unwrap();
            }
            assert_eq!(JournalName::parse(&save.to_string()), None);
        }
        let names = [
            "journal",
            "quick.journal",
            "quick.7.journal",
            "quick.00000007.journal.1",
            "a.b.c.00000007.journal",
        ];
        for name in names {
            assert_eq!(JournalName::parse(name), None, "{name}");
        }
    }
}

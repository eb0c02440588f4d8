//! Names of saves: `slot.00000007.bonfire`, or `profile.slot.00000007.bonfire`.

use crate::generation;

/// What a blob is to its slot. In the order in which a load tries them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A save of a world that may be pruned.
    Free,
    /// A single value: not something that a menu of saves shows.
    Value,
    /// A save that stays until it is unlocked.
    Locked,
    /// A save for after a crash, not yet accepted.
    Recovery,
}

impl Kind {
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
pub(super) struct SaveName {
    pub(super) profile: Option<String>,
    pub(super) slot: String,
    pub(super) generation: u64,
    pub(super) kind: Kind,
    /// A file that was put there by hand, `slot.bonfire`: older than all others.
    plain: bool,
}

impl SaveName {
    pub(super) fn new(profile: Option<&str>, slot: &str, generation: u64, kind: Kind) -> Self {
        Self { profile: profile.map(str::to_owned), slot: slot.to_owned(), generation, kind, plain: false }
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        let parts: Vec<&str> = name.split('.').collect();
        let (profile, slot, generation, kind) = match *parts {
            [slot, "bonfire"] => {
                return Some(Self { plain: true, ..Self::new(None, slot, 0, Kind::Free) });
            }
            [slot, generation, kind] => (None, slot, generation, kind),
            [profile, slot, generation, kind] => (Some(profile), slot, generation, kind),
            _ => return None,
        };
        Some(Self::new(profile, slot, generation::parse(generation)?, Kind::parse(kind)?))
    }

    /// The same save under another number.
    pub(super) fn with_generation(&self, generation: u64) -> Self {
        Self { generation, plain: false, ..self.clone() }
    }
    /// The same save in another slot.
    pub(super) fn in_slot(&self, slot: &str) -> Self {
        Self { slot: slot.to_owned(), plain: false, ..self.clone() }
    }
    /// The same save as something else to its slot.
    pub(super) fn with_kind(&self, kind: Kind) -> Self {
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

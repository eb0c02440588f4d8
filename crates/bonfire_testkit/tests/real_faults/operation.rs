//! Operations of workers as data: scripts, log lines and the model share them.

use std::fmt;

/// One call of a worker. Subjects without slots use the slot `world`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Opens the directory, or opens it again.
    Open,
    /// Saves a whole world.
    Save(String, u64),
    /// Appends the delta between two worlds.
    Append(String, u64, u64),
    /// Appends if the newest save of the slot has an open journal, saves the whole world otherwise.
    Tick(String, u64),
    /// Merges the newest save with its journal.
    Merge(String),
    /// Locks the newest save that is not locked.
    Lock(String),
    /// Unlocks the newest locked save.
    Unlock(String),
    /// Deletes a slot.
    Delete(String),
    /// Deletes the oldest save that is not locked.
    DeleteOldest(String),
    Rename(String, String),
    Copy(String, String),
    Prune(String),
    /// Saves a world for after a crash.
    Recovery(String, u64),
    /// Accepts the save for after a crash.
    Accept(String),
    Load(String),
    /// Rewrites a chunk file.
    Compact,
}

impl Operation {
    /// Returns the verb, by which reports group violations.
    pub(crate) fn verb(&self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Save(..) => "save",
            Self::Append(..) => "append",
            Self::Tick(..) => "tick",
            Self::Merge(_) => "merge",
            Self::Lock(_) => "lock",
            Self::Unlock(_) => "unlock",
            Self::Delete(_) => "delete",
            Self::DeleteOldest(_) => "delete-oldest",
            Self::Rename(..) => "rename",
            Self::Copy(..) => "copy",
            Self::Prune(_) => "prune",
            Self::Recovery(..) => "recovery",
            Self::Accept(_) => "accept",
            Self::Load(_) => "load",
            Self::Compact => "compact",
        }
    }

    /// Reads what [`Display`](fmt::Display) writes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        let text = |word: &str| word.to_owned();
        Some(match *words {
            ["open"] => Self::Open,
            ["save", slot, world] => Self::Save(text(slot), world.parse().ok()?),
            ["append", slot, from, to] => Self::Append(text(slot), from.parse().ok()?, to.parse().ok()?),
            ["tick", slot, world] => Self::Tick(text(slot), world.parse().ok()?),
            ["merge", slot] => Self::Merge(text(slot)),
            ["lock", slot] => Self::Lock(text(slot)),
            ["unlock", slot] => Self::Unlock(text(slot)),
            ["delete", slot] => Self::Delete(text(slot)),
            ["delete-oldest", slot] => Self::DeleteOldest(text(slot)),
            ["rename", from, to] => Self::Rename(text(from), text(to)),
            ["copy", from, to] => Self::Copy(text(from), text(to)),
            ["prune", slot] => Self::Prune(text(slot)),
            ["recovery", slot, world] => Self::Recovery(text(slot), world.parse().ok()?),
            ["accept", slot] => Self::Accept(text(slot)),
            ["load", slot] => Self::Load(text(slot)),
            ["compact"] => Self::Compact,
            _ => return None,
        })
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.verb())?;
        match self {
            Self::Open | Self::Compact => Ok(()),
            Self::Save(slot, world) | Self::Tick(slot, world) | Self::Recovery(slot, world) => {
                write!(f, " {slot} {world}")
            }
            Self::Append(slot, from, to) => write!(f, " {slot} {from} {to}"),
            Self::Rename(from, to) | Self::Copy(from, to) => write!(f, " {from} {to}"),
            Self::Merge(slot)
            | Self::Lock(slot)
            | Self::Unlock(slot)
            | Self::Delete(slot)
            | Self::DeleteOldest(slot)
            | Self::Prune(slot)
            | Self::Accept(slot)
            | Self::Load(slot) => write!(f, " {slot}"),
        }
    }
}

/// The workers: each performs a fixed script through one part of the public API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Worker {
    Slots,
    Sealed,
    Bound,
    Journal,
    SealedJournal,
    Value,
    Path,
    Chunks,
    SealedChunks,
    Autosave,
}

impl Worker {
    pub(crate) const ALL: [Self; 10] = [
        Self::Slots,
        Self::Sealed,
        Self::Bound,
        Self::Journal,
        Self::SealedJournal,
        Self::Value,
        Self::Path,
        Self::Chunks,
        Self::SealedChunks,
        Self::Autosave,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Slots => "slots",
            Self::Sealed => "sealed",
            Self::Bound => "bound",
            Self::Journal => "journal",
            Self::SealedJournal => "sealed_journal",
            Self::Value => "value",
            Self::Path => "path",
            Self::Chunks => "chunks",
            Self::SealedChunks => "sealed_chunks",
            Self::Autosave => "autosave",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|worker| worker.name() == name)
    }

    /// Whether all saves of a slot are visible. For the others, the checker sees the current world of each slot.
    pub(crate) fn lists_saves(self) -> bool {
        matches!(self, Self::Slots | Self::Sealed | Self::Bound | Self::Journal | Self::SealedJournal)
    }

    /// Whether the worker appends to journals.
    pub(crate) fn has_journals(self) -> bool {
        matches!(self, Self::Journal | Self::SealedJournal | Self::Autosave)
    }

    /// Whether the store renames a save in two steps. A lock that is stopped between them leaves both names.
    pub(crate) fn renames_in_two_steps(self) -> bool {
        matches!(self, Self::Bound | Self::SealedJournal)
    }

    /// Whether the worker reads and writes a chunk file.
    pub(crate) fn is_chunks(self) -> bool {
        matches!(self, Self::Chunks | Self::SealedChunks)
    }

    /// Returns the script of this worker. Later worlds have larger numbers. The last digit counts attempts.
    pub(crate) fn script(self) -> Vec<Operation> {
        let text = match self {
            Self::Slots | Self::Sealed | Self::Bound => {
                "open|save auto 100|save auto 110|load auto|lock auto|save auto 120|save auto 130|load auto|\
                 unlock auto|save auto 140|copy auto kept|rename auto old|load old|save auto 150|\
                 recovery auto 160|accept auto|load auto|prune old|delete-oldest old|delete kept|\
                 rename old kept|load kept|save kept 170|load kept"
            }
            Self::Journal | Self::SealedJournal => {
                "open|save auto 300|tick auto 310|tick auto 320|load auto|save auto 500|tick auto 600|\
                 tick auto 700|tick auto 800|load auto|copy auto kept|load kept|rename auto old|load old|\
                 merge old|load old|save old 900|tick old 910|lock old|load old|delete kept|\
                 rename old kept|save kept 950|tick kept 960|load kept"
            }
            Self::Value | Self::Path => {
                "open|save world 100|load world|save world 110|save world 120|load world|save world 130|\
                 save world 140|load world"
            }
            Self::Chunks | Self::SealedChunks => {
                "open|save world 10|save world 20|load world|save world 30|compact|load world|save world 40|\
                 open|load world|save world 50|compact|open|save world 60|load world"
            }
            Self::Autosave => {
                "open|tick autosave 10|tick autosave 20|save quick 30|tick autosave 40|load autosave|\
                 tick autosave 50|save quick 60|load quick|tick autosave 70|load autosave"
            }
        };
        script(text)
    }
}

/// Reads a script: operations between bars.
pub(crate) fn script(text: &str) -> Vec<Operation> {
    let read = |text: &str| Operation::parse(text).unwrap_or_else(|| panic!("`{text}` is no operation"));
    text.split('|').map(read).collect()
}

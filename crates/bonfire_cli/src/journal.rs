//! The journal beside a save, applied as a load applies it.

use std::path::Path;

use bonfire::{OpenOptions, Result, Snapshot};
use bonfire_store::engine::{journal_name, replay_journal};
use bonfire_store::{JournalReplay, MemoryStore, Precondition, SealKey, Slots, Store as _, Wait as _};
use bytes::Bytes;
use serde_json::{Value as Json, json};

use crate::escape::{escaped, visible};
use crate::exit::{Exit, Failure};
use crate::read::read_bytes;
use crate::sealed::MixedStore;

/// A journal that was read with its save.
pub(crate) struct Journal {
    /// The name of its file.
    pub(crate) name: String,
    pub(crate) replay: JournalReplay,
}

/// The files of a journal, in memory: the tool writes nothing beside a save, not even a lock.
pub(crate) struct JournalFiles {
    store: MemoryStore,
    save: String,
    name: String,
}

impl JournalFiles {
    /// Reads the journal of a save, if it has one: the file beside it, and records that are files of their own.
    pub(crate) fn read(path: &Path) -> std::result::Result<Option<Self>, Failure> {
        let Some(save) = path.file_name().and_then(|name| name.to_str()) else { return Ok(None) };
        let Some(name) = journal_name(save).filter(|name| path.with_file_name(name).is_file()) else {
            return Ok(None);
        };
        let store = MemoryStore::new();
        let put = |name: &str| {
            let bytes = read_bytes(&path.with_file_name(name))?;
            let put = store.put(name, bytes.into(), Precondition::None).wait();
            put.map(drop).map_err(|error| Failure::whole_save(path, error))
        };
        put(&name)?;
        let directory =
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let entries = std::fs::read_dir(directory).map_err(|error| Failure::file(directory, error))?;
        for entry in entries.flatten() {
            let found = entry.file_name().into_string().unwrap_or_default();
            let number = found.strip_prefix(&name).and_then(|rest| rest.strip_prefix('.'));
            if number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit())) {
                put(&found)?;
            }
        }
        Ok(Some(Self { store, save: save.to_owned(), name }))
    }

    /// Applies the journal to its save, which was opened from these plain bytes.
    pub(crate) fn apply(
        self,
        snapshot: Snapshot,
        save: &Bytes,
        keys: &[SealKey],
    ) -> Result<(Snapshot, Journal)> {
        let Self { store, save: save_name, name } = self;
        store.put(&save_name, save.clone().into(), Precondition::None).wait()?;
        let slots = Slots::new(MixedStore::new(store, keys));
        let replayed = replay_journal(&slots, &save_name, snapshot, save, &OpenOptions::new()).wait();
        let (snapshot, replay) = replayed.map_err(|error| error.in_place(&name))?;
        let replay = replay.ok_or_else(|| bonfire::Error::corrupt("the journal is gone").in_place(&name))?;
        Ok((snapshot, Journal { name, replay }))
    }
}

/// `1 append`, `2 appends`.
pub(crate) fn appends(count: u64) -> String {
    format!("{count} {}", if count == 1 { "append" } else { "appends" })
}

impl Journal {
    /// The journal in one line.
    pub(crate) fn line(&self) -> String {
        let JournalReplay { records, bytes, now, .. } = &self.replay;
        let tick = now.map(|now| format!(", up to tick {now}")).unwrap_or_default();
        format!("journal {}: {} of {bytes} bytes{tick}", escaped(&self.name), appends(*records))
    }

    /// The part that is lost, if any, and what that means.
    pub(crate) fn lost(&self) -> Option<String> {
        let lost = self.replay.lost.as_ref()?;
        let text = visible(&lost.to_string()).into_owned();
        Some(match lost.is_tail() {
            true => format!(
                "{text}. A crash in the middle of an append looks like this; then nothing else is missing"
            ),
            false => text,
        })
    }

    pub(crate) fn exit(&self) -> Exit {
        if self.replay.lost.is_some() { Exit::Damaged } else { Exit::Fine }
    }

    pub(crate) fn to_json(&self) -> Json {
        let JournalReplay { records, bytes, now, lost, .. } = &self.replay;
        let lost = lost.as_ref().map(|lost| {
            let tail = lost.is_tail();
            json!({ "record": lost.record, "later": lost.later, "tail": tail, "reason": lost.reason.to_string() })
        });
        json!({ "file": self.name, "appends": records, "bytes": bytes, "tick": now, "lost": lost })
    }
}

//! `bonfire info` and `bonfire verify` on a journal itself.

use std::path::Path;

use bonfire_store::engine::JournalFile;
use bonfire_store::{LostDelta, SealKey};
use serde_json::json;

use crate::escape::{escaped, escaped_path, visible};
use crate::exit::{Exit, Failure};
use crate::file::{OnDamage, SaveFile};
use crate::journal::appends;
use crate::ls::date;
use crate::output::Output;
use crate::read::{read_bytes, save_of};
use crate::sealed;

/// The facts of a journal, from its save if that lies beside it, or from its file alone.
struct Facts {
    save: Option<String>,
    appends: u64,
    bytes: u64,
    tick: Option<u64>,
    saved_at: Option<std::time::Duration>,
    lost: Option<LostDelta>,
}

impl Facts {
    fn of(path: &Path, keys: &[SealKey]) -> Result<Self, Failure> {
        let failed = |error: bonfire::Error| Failure::text(path, &error);
        let save = save_of(path);
        if let Some(name) = &save {
            let opened = SaveFile::read_sealed(&path.with_file_name(name), keys)?.open(OnDamage::Fail);
            if let Some(journal) = opened.ok().and_then(|opened| opened.journal) {
                let replay = journal.replay;
                return Ok(Self {
                    save,
                    appends: replay.records,
                    bytes: replay.bytes,
                    tick: replay.now,
                    saved_at: replay.saved_at,
                    lost: replay.lost,
                });
            }
        }
        let bytes = sealed::open(path, read_bytes(path)?, keys).map_err(failed)?;
        let file = JournalFile::open(&bytes).map_err(failed)?;
        Ok(Self {
            save,
            appends: file.records,
            bytes: file.bytes,
            tick: Some(file.now),
            saved_at: file.saved_at,
            lost: file.lost,
        })
    }

    fn exit(&self) -> Exit {
        if self.lost.is_some() { Exit::Damaged } else { Exit::Fine }
    }

    /// The save that it belongs to, and the command that shows both.
    fn owner(&self, path: &Path) -> String {
        match &self.save {
            Some(save) => {
                let whole = escaped_path(&path.with_file_name(save));
                format!("the journal of the save {}; `bonfire show {whole}` shows both", escaped(save))
            }
            None => {
                "a journal whose save is not beside it: without the save none of it can be loaded".to_owned()
            }
        }
    }
}

pub(crate) fn info(path: &Path, as_json: bool, keys: &[SealKey], out: &mut Output) -> Result<Exit, Failure> {
    let facts = Facts::of(path, keys)?;
    if as_json {
        let lost = facts.lost.as_ref().map(ToString::to_string);
        let saved_at = facts.saved_at.map(date);
        out.json(&json!({
            "kind": "journal", "save": facts.save, "appends": facts.appends, "bytes": facts.bytes,
            "tick": facts.tick, "saved_at": saved_at, "lost": lost,
        }))?;
        return Ok(facts.exit());
    }
    out.line(format_args!("{}", escaped_path(path)))?;
    out.line(format_args!("this is {}", facts.owner(path)))?;
    out.line(format_args!("appends      {}", facts.appends))?;
    out.line(format_args!("bytes        {}", facts.bytes))?;
    if let Some(tick) = facts.tick {
        out.line(format_args!("tick         {tick}"))?;
    }
    if let Some(time) = facts.saved_at {
        out.line(format_args!("last append  {}", date(time)))?;
    }
    if let Some(lost) = &facts.lost {
        out.line(format_args!("lost         {}", visible(&lost.to_string())))?;
    }
    Ok(facts.exit())
}

pub(crate) fn verify(
    path: &Path,
    as_json: bool,
    keys: &[SealKey],
    out: &mut Output,
) -> Result<Exit, Failure> {
    let facts = Facts::of(path, keys)?;
    let exit = if facts.save.is_none() { Exit::Damaged } else { facts.exit() };
    let result = if exit == Exit::Fine { "ok" } else { "damaged" };
    let printed = if as_json {
        let lost = facts.lost.as_ref().map(ToString::to_string);
        out.json(&json!({
            "kind": "journal", "result": result, "save": facts.save, "appends": facts.appends, "lost": lost,
        }))
    } else {
        out.line(format_args!("{result}: {}, {}", facts.owner(path), appends(facts.appends)))
            .and_then(|()| facts.lost.as_ref().map_or(Ok(()), |lost| out.line(visible(&lost.to_string()))))
    };
    out.answer(printed, exit)
}

//! `bonfire ls`, and `bonfire info` on a directory: what saves tell of themselves. Only their heads are read.

use std::path::Path;
use std::time::Duration;

use bonfire_store::{JournalInfo, SaveInfo, SealKey, SlotInfo, Wait};
use serde_json::{Value as Json, json};

use crate::arguments::{InfoArguments, LsArguments};
use crate::escape::{escaped, escaped_path, visible};
use crate::exit::{Exit, Failure};
use crate::journal::appends;
use crate::output::{Output, Table, cell};
use crate::{json, slots};

pub(crate) fn run(arguments: &LsArguments, keys: &[SealKey], out: &mut Output) -> Result<Exit, Failure> {
    let slots = slots::open(&arguments.directory, arguments.profile.as_deref(), keys)?;
    let failed = |error: bonfire::Error| Failure::named(&error);
    let (documents, table, exit): (Vec<Json>, Table, Exit) = match &arguments.slot {
        Some(slot) => {
            let saves = slots.saves(slot).wait().map_err(failed)?;
            if saves.is_empty() {
                let place = escaped_path(&arguments.directory);
                return Err(Failure::Arguments(format!("there is no slot `{}` in {place}", escaped(slot))));
            }
            (saves.iter().map(to_json).collect(), table_of_saves(&saves), exit(&saves))
        }
        None => {
            let mut list = slots.list().wait().map_err(failed)?;
            list.extend(slots.list_values().wait().map_err(failed)?);
            let newest: Vec<SaveInfo> = list.iter().map(|slot| slot.newest.clone()).collect();
            (list.iter().map(slot_to_json).collect(), table_of_slots(&list), exit(&newest))
        }
    };
    let empty = documents.is_empty();
    if arguments.json {
        out.json(&Json::from(documents))?;
    } else if empty {
        out.line("there are no saves")?;
    } else {
        out.table(&table)?;
    }
    let profiles = slots.profiles().wait().map_err(failed)?;
    if arguments.profile.is_none() && !arguments.json && !profiles.is_empty() {
        out.title(format_args!("players with slots of their own (--profile): {}", profiles.join(", ")))?;
    }
    Ok(exit)
}

/// All saves of a directory, of all players; at least one.
pub(crate) fn all_saves(directory: &Path, keys: &[SealKey]) -> Result<Vec<SaveInfo>, Failure> {
    let failed = |error: bonfire::Error| Failure::named(&error);
    let game = slots::open(directory, None, keys)?;
    let mut owners = vec![game.clone()];
    for profile in game.profiles().wait().map_err(failed)? {
        owners.push(game.profile(&profile).map_err(failed)?);
    }
    let mut saves = Vec::new();
    for owner in owners {
        saves.extend(owner.all_saves().wait().map_err(failed)?);
    }
    if saves.is_empty() {
        // A script that looks in the wrong place should not be told that all is well.
        return Err(Failure::file(directory, "there are no saves in this directory"));
    }
    Ok(saves)
}

/// Everything that the heads of all saves tell.
pub(crate) fn info(arguments: &InfoArguments, keys: &[SealKey], out: &mut Output) -> Result<Exit, Failure> {
    let saves = all_saves(&arguments.file, keys)?;
    if arguments.json {
        out.json(&saves.iter().map(to_json).collect())?;
        return Ok(exit(&saves));
    }
    for (place, save) in saves.iter().enumerate() {
        if place > 0 {
            out.line("")?;
        }
        out.line(escaped(&save.blob))?;
        for (name, value) in facts(save) {
            out.line(format_args!("  {name}: {value}"))?;
        }
    }
    Ok(exit(&saves))
}

fn exit(saves: &[SaveInfo]) -> Exit {
    Exit::worst(saves.iter().filter_map(|save| save.problem.as_ref()).map(Exit::of))
}

fn facts(save: &SaveInfo) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let mut add =
        |name: &str, value: Option<String>| facts.extend(value.map(|value| (name.to_owned(), value)));
    add("sealed", save.sealed.then(|| "no key at hand opens it, so nobody has checked this".to_owned()));
    add("problem", save.problem.as_ref().map(|error| visible(&error.to_string()).into_owned()));
    add("label", save.label.as_deref().map(escaped));
    add("saved", save.saved_at.map(date));
    add("played", save.play_time.map(hours));
    add("game version", save.game_version.as_deref().map(escaped));
    add("entities", save.entities.map(|count| count.to_string()));
    add("bytes", Some(save.bytes.to_string()));
    let tick = |journal: &JournalInfo| format!("{} up to tick {}", appends(journal.records), journal.now);
    add("journal", save.journal.as_ref().map(tick));
    add("thumbnail", save.thumbnail.as_ref().map(|bytes| format!("{} bytes", bytes.len())));
    for (name, version) in &save.tracks {
        add(&format!("version of {}", escaped(name)), Some(version.to_string()));
    }
    for (name, value) in &save.custom {
        add(&escaped(name), Some(cell(value)));
    }
    facts
}

/// What a menu would show beside the label.
fn state(save: &SaveInfo) -> String {
    let mut words = Vec::new();
    match &save.problem {
        Some(error) if error.is_wrong_key() => {}
        Some(error) if error.is_newer_format() => words.push("newer"),
        Some(error) if error.is_corrupt() => words.push("damaged"),
        Some(_) => words.push("unreadable"),
        None => {}
    }
    let journal = save.journal.as_ref().map(|journal| format!("journal of {}", appends(journal.records)));
    words.extend(journal.as_deref());
    words.extend(save.sealed.then_some("sealed"));
    words.extend(save.locked.then_some("locked"));
    words.extend(save.recovery.then_some("recovery"));
    words.extend(save.blob.ends_with(".value").then_some("value"));
    if words.is_empty() { "-".to_owned() } else { words.join(", ") }
}

const COLUMNS: [&str; 7] = ["saved", "played", "version", "entities", "bytes", "state", "label"];

fn cells(save: &SaveInfo) -> [String; 7] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        or_dash(save.saved_at.map(date)),
        or_dash(save.play_time.map(hours)),
        or_dash(save.game_version.as_deref().map(escaped)),
        or_dash(save.entities.map(|count| count.to_string())),
        save.bytes.to_string(),
        state(save),
        or_dash(save.label.as_ref().map(|label| cell(&escaped(label)))),
    ]
}

fn table_of_slots(slots: &[SlotInfo]) -> Table {
    let mut table =
        Table::new(["slot", "saves"].into_iter().chain(COLUMNS)).right(&["saves", "entities", "bytes"]);
    for slot in slots {
        let mut row = vec![escaped(&slot.name), slot.saves.to_string()];
        row.extend(cells(&slot.newest));
        if slot.has_recovery && !slot.newest.recovery {
            row[7] = format!(
                "{}has recovery",
                if row[7] == "-" { String::new() } else { format!("{}, ", row[7]) }
            );
        }
        table.row(row);
    }
    table
}

fn table_of_saves(saves: &[SaveInfo]) -> Table {
    let mut table = Table::new(["save"].into_iter().chain(COLUMNS)).right(&["save", "entities", "bytes"]);
    for save in saves {
        table.row(std::iter::once(save.generation.to_string()).chain(cells(save)).collect());
    }
    table
}

fn slot_to_json(slot: &SlotInfo) -> Json {
    json!({
        "slot": slot.name,
        "saves": slot.saves,
        "has_recovery": slot.has_recovery,
        "newest": to_json(&slot.newest),
    })
}

fn to_json(save: &SaveInfo) -> Json {
    let custom = save.custom.iter().map(|(name, value)| json!({ "name": name, "value": json::value(value) }));
    let tracks = save.tracks.iter().map(|(name, version)| json!({ "name": name, "version": version }));
    json!({
        "file": save.blob,
        "slot": save.slot,
        "save": save.generation,
        "locked": save.locked,
        "recovery": save.recovery,
        "sealed": save.sealed,
        "bytes": save.bytes,
        "journal": save.journal.as_ref().map(|journal| json!({ "appends": journal.records, "tick": journal.now })),
        "label": save.label,
        "saved_at": save.saved_at.map(date),
        "play_time_seconds": save.play_time.map(|time| time.as_secs_f64()),
        "game_version": save.game_version,
        "entities": save.entities,
        "thumbnail_bytes": save.thumbnail.as_ref().map(Vec::len),
        "tracks": tracks.collect::<Json>(),
        "custom": custom.collect::<Json>(),
        "problem": save.problem.as_ref().map(ToString::to_string),
    })
}

/// `1h 05m`
fn hours(time: Duration) -> String {
    let minutes = time.as_secs() / 60;
    format!("{}h {:02}m", minutes / 60, minutes % 60)
}

/// `2026-11-16 09:30:00Z`, of the time since the start of 1970.
pub(crate) fn date(time: Duration) -> String {
    let (seconds, mut days) = (time.as_secs() % 86_400, time.as_secs() / 86_400);
    let clock = format!("{:02}:{:02}:{:02}Z", seconds / 3600, seconds / 60 % 60, seconds % 60);
    // Dates of a hostile save need not be right, but must not take for ever.
    days = days.min(365 * 100_000);
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    // 400 years have 146,097 days, whatever the first one is.
    let mut year = 1970 + days / 146_097 * 400;
    days %= 146_097;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02} {clock}", month + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_399, "2000-02-28 23:59:59Z"),
            (951_782_400, "2000-02-29 00:00:00Z"),
            (1_794_821_400, "2026-11-16 09:30:00Z"),
            (4_107_542_400, "2100-03-01 00:00:00Z"),
            (13_569_465_600, "2400-01-01 00:00:00Z"),
        ] {
            assert_eq!(date(Duration::from_secs(seconds)), text);
        }
        assert!(date(Duration::MAX).len() > 20);
        assert_eq!(hours(Duration::from_secs(3_900)), "1h 05m");
    }
}

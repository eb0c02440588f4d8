//! `bonfire verify`: whether a save is whole, and if not, what is damaged and what that cost.
//!
//! Opening checks every checksum and every length. The deep check behind it decodes every value by its schema and
//! looks for ids that are there twice, which checksums cannot find: a buggy game may write them.

use std::io;
use std::path::Path;

use bonfire::engine::EntityMap;
use bonfire::inspect::ColumnView;
use bonfire::{Damage, Limits, Snapshot};
use bonfire_store::SealKey;
use serde_json::{Value as Json, json};

use crate::arguments::VerifyArguments;
use crate::escape::{escaped, escaped_path, visible};
use crate::exit::{Exit, Failure};
use crate::file::{Opened, SaveFile};
use crate::journal::Journal;
use crate::json;
use crate::ls::all_saves;
use crate::output::{Output, Table, entities};

pub(crate) fn run(arguments: &VerifyArguments, keys: &[SealKey], out: &mut Output) -> Result<Exit, Failure> {
    let path = &arguments.file;
    let verdict = SaveCondition::of(path, keys)?;
    let printed =
        if arguments.json { out.json(&verdict.to_json()) } else { verdict.print(&escaped_path(path), out) };
    out.answer(printed, verdict.exit())
}

/// Verifies every save of a directory.
pub(crate) fn directory(
    arguments: &VerifyArguments,
    keys: &[SealKey],
    out: &mut Output,
) -> Result<Exit, Failure> {
    let mut exits = Vec::new();
    let mut documents = Vec::new();
    for info in all_saves(&arguments.file, keys)? {
        let verdict = match SaveCondition::of(&arguments.file.join(&info.blob), keys) {
            Ok(verdict) => verdict,
            Err(failure) => {
                exits.push(failure.report());
                continue;
            }
        };
        exits.push(verdict.exit());
        let mut document = verdict.to_json();
        if arguments.json {
            document["file"] = info.blob.into();
            documents.push(document);
        } else {
            out.line(format_args!("{}: {}", escaped(&info.blob), verdict.line()))?;
        }
    }
    let printed = if arguments.json { out.json(&Json::from(documents)) } else { Ok(()) };
    out.answer(printed, Exit::worst(exits))
}

enum SaveCondition {
    /// The checksums of the save are right. The check is of the world with its journal.
    Whole(DeepCheck, Option<Journal>),
    Damaged {
        error: bonfire::Error,
        left: Result<(Damage, DeepCheck), bonfire::Error>,
        has_journal: bool,
    },
    Unreadable(bonfire::Error),
}

/// What decoding every value found.
#[derive(Default)]
struct DeepCheck {
    entities: usize,
    values: usize,
    /// Values whose schema is not in the file.
    unchecked: usize,
    problems: Vec<bonfire::Error>,
}

impl DeepCheck {
    fn of(snapshot: &Snapshot) -> Self {
        let limits = Limits::default();
        let mut check = Self { entities: snapshot.entity_count(), ..Self::default() };
        check.problems.extend(EntityMap::identity(&snapshot.entities()).err());
        for archetype in snapshot.archetypes() {
            archetype.columns().for_each(|column| check.column(column, &limits));
        }
        snapshot.resources().for_each(|column| check.column(column, &limits));
        snapshot.carried().for_each(|(_, column)| check.column(column, &limits));
        for entry in snapshot.data() {
            match entry.value(&limits) {
                Ok(_) => check.values += 1,
                Err(error) => check.problems.push(error),
            }
        }
        check
    }

    fn column(&mut self, column: ColumnView<'_>, limits: &Limits) {
        match column.values(limits) {
            Ok(values) => self.values += values.iter().flatten().count(),
            Err(error) if error.is_unknown() => self.unchecked += column.len(),
            Err(error) => self.problems.push(error),
        }
    }

    fn summary(&self) -> String {
        let mut summary = format!("{}, {} values checked", entities(self.entities), self.values);
        if self.unchecked > 0 {
            summary += &format!(", {} not checked: their schemas are not in the file", self.unchecked);
        }
        summary
    }

    fn exit(&self) -> Exit {
        Exit::worst(self.problems.iter().map(Exit::of))
    }
}

impl SaveCondition {
    fn of(path: &Path, keys: &[SealKey]) -> Result<Self, Failure> {
        let file = SaveFile::read_sealed(path, keys)?;
        let has_journal = file.has_journal();
        Ok(match file.open_or_salvage() {
            Opened::Whole(opened) => Self::Whole(DeepCheck::of(&opened.snapshot), opened.journal),
            Opened::Unreadable(error) => Self::Unreadable(error),
            Opened::Damaged { error, salvaged } => {
                let left = salvaged.map(|snapshot| (snapshot.damage().clone(), DeepCheck::of(&snapshot)));
                Self::Damaged { error, left, has_journal }
            }
        })
    }

    /// The verdict in one line.
    fn line(&self) -> String {
        match self {
            Self::Whole(_, Some(journal)) if journal.replay.lost.is_some() => {
                format!("damaged: {}; {}", journal.line(), journal.lost().unwrap_or_default())
            }
            Self::Whole(check, journal) if check.problems.is_empty() => {
                let journal = journal.as_ref().map(|journal| format!(", with {}", journal.line()));
                format!("ok: {}{}", check.summary(), journal.unwrap_or_default())
            }
            Self::Whole(..) => "damaged: every checksum is right, but the content is not".to_owned(),
            Self::Unreadable(error) => format!("cannot be read: {}", visible(&error.to_string())),
            Self::Damaged { error, .. } => format!("damaged: {}", visible(&error.to_string())),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Whole(check, journal) => {
                Exit::worst([check.exit(), journal.as_ref().map_or(Exit::Fine, Journal::exit)])
            }
            Self::Damaged { .. } => Exit::Damaged,
            Self::Unreadable(error) => Exit::of(error),
        }
    }

    fn print(&self, path: &str, out: &mut Output) -> io::Result<()> {
        out.line(self.line())?;
        match self {
            Self::Whole(check, journal) if check.problems.is_empty() => match journal {
                Some(journal) if journal.replay.lost.is_some() => {
                    out.title(format_args!("a load gives what was saved before: {}", check.summary()))
                }
                _ => Ok(()),
            },
            Self::Whole(check, _) => {
                print_problems(check, out)?;
                out.title(format_args!("readable: {}", check.summary()))
            }
            Self::Unreadable(_) => Ok(()),
            Self::Damaged { left: Err(error), .. } => {
                out.line(format_args!("nothing is left: {}", visible(&error.to_string())))
            }
            Self::Damaged { left: Ok((damage, check)), has_journal, .. } => {
                print_damage(damage, out)?;
                print_problems(check, out)?;
                if damage.losses.is_empty() {
                    out.title("nothing that can be told apart is lost")?;
                }
                if *has_journal {
                    out.title("its journal is of no use without the whole save")?;
                }
                out.title(format_args!("left: {}", check.summary()))?;
                out.line(format_args!("see it with `bonfire show {path} --salvage`"))
            }
        }
    }

    fn to_json(&self) -> Json {
        let texts = |errors: &[bonfire::Error]| -> Json {
            errors.iter().map(|error| Json::from(error.to_string())).collect()
        };
        let counts = |check: &DeepCheck, document: &mut Json| {
            document["entities"] = check.entities.into();
            document["values_checked"] = check.values.into();
            document["values_unchecked"] = check.unchecked.into();
            document["problems"] = texts(&check.problems);
        };
        let place = |error: &bonfire::Error, result: &str| {
            json!({
                "result": result,
                "error": error.to_string(),
                "section": error.section(),
                "offset": error.offset(),
            })
        };
        match self {
            Self::Whole(check, journal) => {
                let result = if self.exit() == Exit::Fine { "ok" } else { "damaged" };
                let mut document = json!({ "result": result });
                if let Some(journal) = journal {
                    document["journal"] = journal.to_json();
                }
                counts(check, &mut document);
                document
            }
            Self::Unreadable(error) if error.is_newer_format() => place(error, "newer format"),
            Self::Unreadable(error) => place(error, "unreadable"),
            Self::Damaged { error, left, .. } => {
                let mut document = place(error, "damaged");
                match left {
                    Ok((damage, check)) => {
                        document["damaged_blocks"] = json::damaged_blocks(damage);
                        document["losses"] = json::losses(damage);
                        counts(check, &mut document);
                    }
                    Err(error) => document["salvage_error"] = error.to_string().into(),
                }
                document
            }
        }
    }
}

fn print_problems(check: &DeepCheck, out: &mut Output) -> io::Result<()> {
    if check.problems.is_empty() {
        return Ok(());
    }
    out.title("wrong values")?;
    check.problems.iter().try_for_each(|error| out.line(visible(&error.to_string())))
}

/// The damaged places and what they cost; nothing if there are none.
fn print_damage(damage: &Damage, out: &mut Output) -> io::Result<()> {
    if !damage.blocks.is_empty() {
        let mut table = Table::new(["section", "offset", "bytes"]).right(&["offset", "bytes"]);
        for block in &damage.blocks {
            table.row(vec![block.section.to_owned(), block.offset.to_string(), block.bytes.to_string()]);
        }
        out.title("damaged blocks")?;
        out.table(&table)?;
    }
    if !damage.losses.is_empty() {
        out.title("lost")?;
        damage.losses.iter().try_for_each(|loss| out.line(visible(&loss.to_string())))?;
    }
    Ok(())
}

/// The end of what is shown of a salvaged save; nothing if the save is whole.
pub(crate) fn print_salvage(
    error: Option<&bonfire::Error>,
    damage: &Damage,
    out: &mut Output,
) -> io::Result<()> {
    let Some(error) = error else { return Ok(()) };
    out.title(format_args!("damaged: {}", visible(&error.to_string())))?;
    print_damage(damage, out)
}

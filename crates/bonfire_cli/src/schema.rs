//! `bonfire schema`: the schemas of saves, beside those that a game has locked.

use std::path::Path;

use crate::arguments::{SchemaArguments, SchemaDiffArguments};
use crate::compatibility::{self, Build, Compatibility};
use crate::escape::{escaped_path, visible};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::schema_lock;

/// `bonfire schema lock`: the schemas of saves become older ones of a lock.
pub(crate) fn lock(arguments: &SchemaArguments, out: &mut Output) -> Result<Exit, Failure> {
    let path = &arguments.lock;
    let known = schema_lock::read_if_there(path)?;
    let is_new = known.is_none();
    let before = known.unwrap_or_default();
    let mut after = before.clone();
    // Each goes in front of what is there, so the oldest comes last.
    for save in arguments.files.iter().rev() {
        after.add_older(&schema_lock::of_save(save)?);
    }
    let added = schema_lock::added(&before, &after);
    if is_new || !added.is_empty() {
        bonfire_store::write_schema_lock(path, &after).map_err(|error| Failure::named(&error))?;
    }
    let what = match (is_new, added.is_empty()) {
        (true, _) => "created",
        (false, false) => "added to",
        (false, true) => "nothing is new",
    };
    out.line(format_args!("{}: {what}", escaped_path(path)))?;
    added.iter().try_for_each(|line| out.line(visible(line)))?;
    Ok(Exit::Fine)
}

/// `bonfire schema check`: whether saves load in the build that a lock describes.
pub(crate) fn check(arguments: &SchemaArguments, out: &mut Output) -> Result<Exit, Failure> {
    let build = schema_lock::build(&arguments.lock)?;
    let (mut printed, mut exits) = (Ok(()), Vec::new());
    for (number, path) in arguments.files.iter().enumerate() {
        // A save that cannot be read does not hide what is to be said about the next one.
        match open_and_read(path, &build) {
            Ok(fit) => {
                exits.push(fit.exit());
                let gap = if number > 0 { printed.and_then(|()| out.line("")) } else { printed };
                printed = gap.and_then(|()| fit.print(path, out));
            }
            Err(failure) => {
                printed = printed.and_then(|()| out.flush());
                exits.push(failure.report());
            }
        }
    }
    out.answer(printed, Exit::worst(exits))
}

fn open_and_read(path: &Path, build: &Build) -> Result<Compatibility, Failure> {
    let (snapshot, mut fit) = compatibility::open(path, build)?;
    fit.read_values(&snapshot, &build.registry).map_err(|error| Failure::whole_save(path, error))?;
    Ok(fit)
}

/// `bonfire schema diff`: what is different between two locks or saves.
pub(crate) fn diff(arguments: &SchemaDiffArguments, out: &mut Output) -> Result<Exit, Failure> {
    let ((old, _), (new, is_save)) =
        (schema_lock::of_either(&arguments.old)?, schema_lock::of_either(&arguments.new)?);
    let lines = old.diff(&new);
    // The words of a line are all that is known of it, and they begin after the key.
    let stuck: Vec<String> =
        new.keys().map(|key| format!("~ `{}`: cannot follow: ", key.escape_debug())).collect();
    let cannot = lines.iter().any(|line| stuck.iter().any(|start| line.starts_with(start)));
    let mut print = || {
        if lines.is_empty() {
            return out.line("no difference");
        }
        lines.iter().try_for_each(|line| out.line(visible(line)))?;
        if cannot && is_save {
            let path = escaped_path(&arguments.new);
            out.line(format_args!(
                "note: {path} is a save, and those have no defaults and aliases: a lock may know better"
            ))?;
        }
        Ok(())
    };
    let printed = print();
    out.answer(printed, if cannot { Exit::CannotFollow } else { Exit::Fine })
}

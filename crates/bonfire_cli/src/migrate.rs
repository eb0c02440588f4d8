//! `bonfire migrate`: a save as the newest schemas of a lock have it, for when the game is not at hand.
//!
//! The old save is only read. The new one appears as a whole or not at all, and takes nobody's place unless it was told to.

use std::path::Path;

use bonfire::{Compression, EncodeOptions, LoadOptions, Snapshot};

use crate::arguments::MigrateArguments;
use crate::compatibility::{self, Compatibility};
use crate::escape::escaped_path;
use crate::exit::{Exit, Failure};
use crate::file::SaveFile;
use crate::output::Output;
use crate::schema_lock;

/// A file does not tell the level that it was compressed with. This is what zstd itself takes.
const ZSTD_LEVEL: i32 = 3;

pub(crate) fn run(arguments: &MigrateArguments, out: &mut Output) -> Result<Exit, Failure> {
    let MigrateArguments { old, output, lock, dry_run, force } = arguments;
    let target = output.as_deref().filter(|_| !dry_run);
    if let Some(new) = target.filter(|_| !force) {
        refuse_to_replace(old, new)?;
    }
    let build = schema_lock::build(lock)?;
    refuse_journal(old)?;
    let (saved, fit) = compatibility::open(old, &build)?;
    refuse_what_cannot_follow(old, &fit)?;
    let broken = |error: bonfire::Error| Failure::whole_save(old, error);
    let (rewritten, report) = saved.rewritten(&build.registry, LoadOptions::default()).map_err(broken)?;
    let rope = rewritten.encode(&as_written(&saved)).map_err(broken)?;
    // First the file, then the words: whoever reads them may go away.
    if let Some(new) = target {
        bonfire_store::write(new, &rope).map_err(|error| Failure::named(&error))?;
    }
    out.lines(&report)?;
    fit.print_unknown_tracks(out)?;
    match target {
        Some(new) => out.line(format_args!("written to {}: {} bytes", escaped_path(new), rope.len()))?,
        None => out.line("nothing was written: this is a dry run")?,
    }
    Ok(Exit::Fine)
}

/// Refuses a save whose journal would not be part of the new one.
fn refuse_journal(old: &Path) -> Result<(), Failure> {
    if !SaveFile::read(old)?.has_journal() {
        return Ok(());
    }
    let message = "the save has a journal, whose changes would be lost: load and save it with the game, or call \
                   `Slots::merge_journal`, and migrate the whole save";
    Err(Failure::file(old, message))
}

fn refuse_to_replace(old: &Path, new: &Path) -> Result<(), Failure> {
    // A link is there even if it leads nowhere.
    if new.symlink_metadata().is_err() {
        return Ok(());
    }
    let same = |left: &Path, right: &Path| Some(left.canonicalize().ok()? == right.canonicalize().ok()?);
    Err(match same(old, new) {
        Some(true) => Failure::file(new, "this is the old save itself: with --force it is replaced"),
        _ => Failure::file(new, "this file exists already: with --force it is replaced"),
    })
}

fn refuse_what_cannot_follow(path: &Path, fit: &Compatibility) -> Result<(), Failure> {
    let exit = fit.exit();
    if exit == Exit::Fine {
        return Ok(());
    }
    let path = escaped_path(path);
    let errors = fit.errors.iter().map(|error| format!("{path}: {error}"));
    let steps = fit.steps.iter().map(|step| {
        format!(
            "{path}: {step}. The steps between them are code of the game, so the game itself must migrate it: load and save \
             it there, or call `Snapshot::rewritten` with the game's registry"
        )
    });
    let worlds = fit.worlds.iter().map(|world| {
        format!(
            "{path}: {}. The game itself must migrate it: load and save it there, or call `Snapshot::rewritten` with the \
             game's registry",
            compatibility::pending(world)
        )
    });
    let message = errors.chain(steps).chain(worlds).collect::<Vec<_>>().join("\n");
    Err(Failure::Refused { message, exit })
}

/// What the file says about how it was written, so that the new one is written alike.
fn as_written(snapshot: &Snapshot) -> EncodeOptions {
    let sections = snapshot.sections();
    let codec = sections.iter().find_map(|section| match section.codec {
        "lz4" => Some(Compression::Lz4),
        "zstd" => Some(Compression::Zstd(ZSTD_LEVEL)),
        _ => None,
    });
    EncodeOptions {
        compression: codec.unwrap_or_default(),
        copies: sections.iter().any(|section| section.copy),
        ..EncodeOptions::default()
    }
}

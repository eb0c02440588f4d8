//! `bonfire compact` and `bonfire repair`: the commands that write a world anew.
//!
//! Neither takes a world away from who has it open. A repair keeps what was there as a copy, byte for byte, because
//! what this build cannot read another one may.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use bonfire_chunks::{ChunkWorld, DamagedFrame};
use bonfire_store::SealKey;
use bonfire_store::disk::{Access, Disk as _, OsDisk};
use serde_json::{Value as Json, json};

use super::info::state_lines;
use super::pins::summary;
use super::verify::{PinDamage, WorldDamage, table};
use super::{count, open_or_fail, open_to_repair, part};
use crate::arguments::chunks::{CompactArguments, RepairArguments};
use crate::escape::escaped_path;
use crate::exit::{Exit, Failure};
use crate::output::Output;

pub(crate) fn compact(
    arguments: &CompactArguments,
    keys: &[SealKey],
    out: &mut Output,
) -> Result<Exit, Failure> {
    let path = &arguments.file;
    let (aside, is_fine) = {
        let world = open_or_fail(path, Access::Read, keys)?;
        let verdict = WorldDamage::of(&world);
        // What was set aside earlier stays so; anything else is for `repair`, which keeps a copy.
        if !verdict.is_set_aside() {
            return Err(damaged(path));
        }
        (verdict.damaged.len(), verdict.is_fine())
    };
    let before = file_bytes(path)?;
    let world = open_or_fail(path, Access::Write, keys)?;
    rewrite(&world, path)?;
    let (pins, held) = (world.info().pins, world.info().pinned_bytes);
    world.close().map_err(|error| Failure::text(path, &error))?;
    let after = file_bytes(path)?;
    let printed = if arguments.json {
        out.json(&json!({
            "bytes_before": before,
            "bytes_after": after,
            "chunks": world.len(),
            "set_aside": aside,
            "pins": pins,
            "pinned_bytes": held,
        }))
    } else {
        let chunks = count(world.len(), "chunk", "chunks");
        let line = out.line(format_args!("{before} bytes before, {after} bytes after, {chunks}"));
        match pins {
            0 => line,
            // A user who wonders why the file is still large looks here.
            pins => line.and_then(|()| {
                let path = escaped_path(path);
                out.line(format_args!("{}: `bonfire pins {path}` lists them", summary(pins, held)))
            }),
        }
    };
    out.answer(printed, if is_fine { Exit::Fine } else { Exit::Damaged })
}

fn damaged(path: &Path) -> Failure {
    let path = escaped_path(path);
    let message =
        format!("{path}: this world is damaged\n`bonfire repair {path}` keeps a copy of it and repairs it");
    Failure::Refused { message, exit: Exit::Damaged }
}

fn rewrite(world: &ChunkWorld, path: &Path) -> Result<(), Failure> {
    let is_terminal = io::stderr().is_terminal();
    let mut shown = u64::MAX;
    let progress = |done: u64, total: u64| {
        let percent = done.saturating_mul(100) / total.max(1);
        if is_terminal && percent != shown {
            shown = percent;
            // Nobody is left to tell if this fails.
            let _ = write!(io::stderr(), "\r{percent:3}% of {total} parts");
        }
    };
    let done = world.compact(progress);
    if is_terminal {
        let _ = write!(io::stderr(), "\r{:40}\r", "");
    }
    done.map_err(|error| Failure::text(path, &error))
}

fn file_bytes(path: &Path) -> Result<u64, Failure> {
    Ok(path.metadata().map_err(|error| Failure::file(path, error))?.len())
}

pub(crate) fn repair(
    arguments: &RepairArguments,
    keys: &[SealKey],
    out: &mut Output,
) -> Result<Exit, Failure> {
    let path = &arguments.file;
    let world = open_to_repair(path, Access::Read, keys)?;
    let before = WorldDamage::of(&world);
    let report = world.report().clone();
    drop(world);
    let is_nothing_to_do = before.is_set_aside() && (before.damaged.is_empty() || !arguments.drop_damaged);
    if is_nothing_to_do && arguments.output.is_none() {
        let printed = if arguments.json {
            out.json(&document(path, None, &before, &before, Vec::new()))
        } else {
            print_nothing(&before, out)
        };
        return out.answer(printed, if before.is_fine() { Exit::Fine } else { Exit::Damaged });
    }
    let (target, copy) = match &arguments.output {
        Some(new) => (new, None),
        None => (path, Some(free_name(path)?)),
    };
    keep_copy(path, copy.as_ref().unwrap_or(target))?;
    let world = open_to_repair(target, Access::Write, keys)?;
    rewrite(&world, target)?;
    if arguments.drop_damaged {
        world.drop_set_aside().map_err(|error| Failure::text(target, &error))?;
    }
    world.close().map_err(|error| Failure::text(target, &error))?;
    drop(world);
    let world = open_or_fail(target, Access::Read, keys)?;
    let after = WorldDamage::of(&world);
    let printed = if arguments.json {
        let done = state_lines(&report);
        out.json(&document(target, copy.as_deref(), &before, &after, done))
    } else {
        print(target, copy.as_deref(), &state_lines(&report), &before, &after, out)
    };
    out.answer(printed, if after.is_fine() { Exit::Fine } else { Exit::Damaged })
}

fn print_nothing(found: &WorldDamage, out: &mut Output) -> io::Result<()> {
    if found.is_fine() {
        return out.line("nothing is damaged: nothing was written");
    }
    out.line("nothing new is damaged: nothing was written")?;
    if !found.damaged.is_empty() {
        out.title("set aside earlier; --drop-damaged gives it up")?;
        out.table(&table(&found.damaged))?;
    }
    found.print_pins(out)
}

fn print(
    target: &Path,
    copy: Option<&Path>,
    done: &[String],
    lost: &WorldDamage,
    after: &WorldDamage,
    out: &mut Output,
) -> io::Result<()> {
    out.line(format_args!("repaired: {}", escaped_path(target)))?;
    if let Some(copy) = copy {
        out.line(format_args!("what was there before is kept in {}", escaped_path(copy)))?;
    }
    done.iter().try_for_each(|line| out.line(line))?;
    after.print_pins(out)?;
    if lost.damaged.is_empty() {
        return match lost.in_pins.is_empty() {
            true => out.line("nothing is lost"),
            false => out.title("the world as it is now lost nothing"),
        };
    }
    out.title("lost")?;
    out.table(&table(&lost.damaged))?;
    let left = after.damaged.len();
    if left == 0 {
        return out.title("given up: the game makes these chunks anew, without what was lost");
    }
    out.title(format_args!(
        "{} set aside: the game hears of it until it saves that chunk again, and --drop-damaged gives it up",
        count(left, "part is", "parts are")
    ))
}

fn document(
    target: &Path,
    copy: Option<&Path>,
    lost: &WorldDamage,
    left: &WorldDamage,
    done: Vec<String>,
) -> Json {
    let parts = |parts: &[(DamagedFrame, String)]| -> Json {
        parts.iter().map(|(frame, reason)| part(frame, reason)).collect()
    };
    json!({
        "file": target.to_string_lossy(),
        "copy": copy.map(Path::to_string_lossy),
        "repaired": done,
        "lost": parts(&lost.damaged),
        "set_aside": parts(&left.damaged),
        "damaged_in_pins": left.in_pins.iter().map(PinDamage::to_json).collect::<Json>(),
    })
}

/// A name for a copy beside a world that nothing has yet.
fn free_name(path: &Path) -> Result<PathBuf, Failure> {
    let named = |end: &str| {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(end);
        path.with_file_name(name)
    };
    let ends = std::iter::once(".before-repair".to_owned());
    let mut names =
        ends.chain((2..1000).map(|number| format!(".before-repair-{number}"))).map(|end| named(&end));
    let free = names.find(|name| name.symlink_metadata().is_err());
    free.ok_or_else(|| Failure::file(path, "there are too many copies of earlier repairs"))
}

/// Copies a world byte for byte to a name that nothing has, while nobody writes to it.
fn keep_copy(path: &Path, copy: &Path) -> Result<(), Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let disk = OsDisk::at(path.parent().unwrap_or(Path::new("")));
    let lock = disk.lock(&format!("{name}.lock")).map_err(|error| Failure::file(path, error))?;
    let _lock = lock.ok_or_else(|| Failure::file(path, "it is open for writing: close the game first"))?;
    let copied = (|| {
        let mut new = OpenOptions::new().write(true).create_new(true).open(copy)?;
        let copied = File::open(path).and_then(|mut old| io::copy(&mut old, &mut new));
        let copied = copied.and_then(|_| new.sync_all());
        if copied.is_err() {
            // The error that matters is the first one.
            let _ = std::fs::remove_file(copy);
        }
        copied
    })();
    copied.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::file(copy, "this file exists already"),
        _ => Failure::file(copy, error),
    })
}

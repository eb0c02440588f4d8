//! `bonfire verify` of a world: every checksum and what is behind it, and every part that is damaged with its place.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use bonfire_chunks::{ChunkWorld, DamagedFrame, OpenReport};
use bonfire_store::SealKey;
use bonfire_store::disk::Access;
use serde_json::{Value as Json, json};

use super::info::{report_json, state_lines};
use super::{Unproven, count, is_out_of_sight, open, part};
use crate::arguments::VerifyArguments;
use crate::escape::{escaped_path, visible};
use crate::exit::{Exit, Failure};
use crate::output::{Output, Table};

pub(crate) fn run(arguments: &VerifyArguments, keys: &[SealKey], out: &mut Output) -> Result<Exit, Failure> {
    let path = &arguments.file;
    let world = match open(path, Access::Read, keys, Unproven::Refuse) {
        Ok(world) => world,
        Err(error) if arguments.json && !error.is_io() => {
            let result = match () {
                () if error.is_newer_format() => "newer format",
                () if error.is_corrupt() => "damaged",
                () => "unreadable",
            };
            let printed =
                out.json(&json!({ "kind": "chunks", "result": result, "error": error.to_string() }));
            return out.answer(printed, Exit::of(&error));
        }
        Err(error) => return Err(Failure::text(path, &error)),
    };
    let verdict = WorldDamage::of(&world);
    let printed = if arguments.json { out.json(&verdict.to_json()) } else { verdict.print(path, out) };
    out.answer(printed, verdict.exit())
}

const SET_ASIDE: &str = "it was found damaged and set aside";

/// What is wrong with a world.
pub(crate) struct WorldDamage {
    chunks: usize,
    frames: u64,
    unchecked: u64,
    out_of_sight: bool,
    report: OpenReport,
    /// What cannot be read, where it is, and why.
    pub(crate) damaged: Vec<(DamagedFrame, String)>,
}

impl WorldDamage {
    pub(crate) fn of(world: &ChunkWorld) -> Self {
        let check = world.check(|_, _| {});
        let (report, aside) = (world.report().clone(), world.info().set_aside);
        let reason = |(frame, error): (DamagedFrame, bonfire::Error)| {
            let is_aside = aside.contains(&frame);
            (
                frame,
                if is_aside { "it was found damaged and set aside".to_owned() } else { error.to_string() },
            )
        };
        let mut damaged: Vec<_> = check.damaged.into_iter().map(reason).collect();
        let known: HashSet<_> = damaged.iter().map(|(frame, _)| (frame.kind_name(), frame.chunk())).collect();
        let found =
            report.damaged.iter().filter(|frame| !known.contains(&(frame.kind_name(), frame.chunk())));
        let found = found.map(|frame| (frame.clone(), "it was saved, and is not whole any more".to_owned()));
        damaged.extend(found.collect::<Vec<_>>());
        damaged.sort_by_key(|(frame, _)| (frame.chunk(), frame.kind_name()));
        Self {
            chunks: world.len(),
            frames: check.frames,
            unchecked: check.unchecked,
            out_of_sight: is_out_of_sight(world),
            report,
            damaged,
        }
    }

    /// Whether nothing is lost and nothing has to be made anew.
    pub(crate) fn is_fine(&self) -> bool {
        self.damaged.is_empty() && self.report.is_fine()
    }

    /// Whether all that is lost was set aside earlier.
    fn is_set_aside(&self) -> bool {
        self.report.is_fine() && self.damaged.iter().all(|(_, reason)| reason == SET_ASIDE)
    }

    fn exit(&self) -> Exit {
        if self.is_fine() { Exit::Fine } else { Exit::Damaged }
    }

    fn print(&self, path: &Path, out: &mut Output) -> io::Result<()> {
        let Self { frames, unchecked, .. } = self;
        let chunks = count(self.chunks, "chunk", "chunks");
        let line = match self.damaged.len() {
            0 if self.is_fine() => format!("ok: {chunks}, {frames} parts checked"),
            0 => format!("damaged: {chunks}, {frames} parts checked, and none of them is lost"),
            damaged => format!("damaged: {} cannot be read; {chunks}", count(damaged, "part", "parts")),
        };
        out.line(line)?;
        if self.out_of_sight {
            out.line("sealed: checksums were checked, and what is behind them was not, without the key")?;
        } else if *unchecked > 0 {
            out.line(format_args!(
                "{unchecked} parts have right checksums, and only the game can read them"
            ))?;
        }
        state_lines(&self.report).iter().try_for_each(|line| out.line(line))?;
        if !self.damaged.is_empty() {
            out.title("damaged")?;
            out.table(&table(&self.damaged))?;
        }
        let path = escaped_path(path);
        if self.is_fine() {
            Ok(())
        } else if self.is_set_aside() {
            out.title(format_args!("`bonfire repair {path} --drop-damaged` gives up what was set aside"))
        } else {
            out.title(format_args!("`bonfire repair {path}` sets aside what is lost and keeps the rest"))
        }
    }

    fn to_json(&self) -> Json {
        let damaged = self.damaged.iter().map(|(frame, reason)| part(frame, reason));
        json!({
            "kind": "chunks",
            "result": if self.is_fine() { "ok" } else { "damaged" },
            "chunks": self.chunks,
            "parts": self.frames,
            "unchecked": self.unchecked,
            "opening": report_json(&self.report),
            "damaged": damaged.collect::<Json>(),
        })
    }
}

/// Damaged parts for people.
pub(crate) fn table(damaged: &[(DamagedFrame, String)]) -> Table {
    let mut table = Table::new(["what", "chunk", "offset", "why"]).right(&["offset"]);
    for (frame, reason) in damaged {
        let chunk = frame.chunk().map_or("-".to_owned(), |pos| pos.to_string());
        let why = visible(reason).into_owned();
        table.row(vec![frame.kind_name().to_owned(), chunk, frame.offset().to_string(), why]);
    }
    table
}

//! `bonfire verify` of a world: every checksum and what is behind it, and every part that is damaged with its place.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use bonfire_chunks::{ChunkWorld, DamagedFrame, DamagedInPins, OpenReport};
use bonfire_store::SealKey;
use bonfire_store::disk::Access;
use serde_json::{Value as Json, json};

use super::info::{report_json, state_lines};
use super::moment::Moment;
use super::{Unproven, count, is_out_of_sight, open, part};
use crate::arguments::VerifyArguments;
use crate::escape::{escaped, escaped_path, visible};
use crate::exit::{Exit, Failure};
use crate::output::{Output, Table, cell};

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
    let moment = Moment::of(&world, path, arguments.at.as_deref())?;
    let verdict = WorldDamage::of(&moment.world);
    let printed = if arguments.json {
        let mut document = verdict.to_json();
        document["at"] = moment.to_json();
        out.json(&document)
    } else {
        verdict.print(path, &moment, out)
    };
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
    /// The same of what only pins have.
    pub(crate) in_pins: Vec<PinDamage>,
    /// The names of pins whose lists are lost.
    damaged_pins: Vec<String>,
    pins: usize,
}

/// A part that only pins have and that cannot be read.
pub(crate) struct PinDamage {
    frame: DamagedFrame,
    pins: Vec<String>,
    reason: String,
}

impl PinDamage {
    fn of(part: DamagedInPins) -> Self {
        let is_aside = part.frame.is_set_aside();
        let reason = if is_aside { SET_ASIDE.to_owned() } else { part.error.to_string() };
        Self { frame: part.frame, pins: part.pins, reason }
    }

    /// Returns true if it was set aside earlier.
    pub(crate) fn is_set_aside(&self) -> bool {
        self.frame.is_set_aside()
    }

    pub(crate) fn to_json(&self) -> Json {
        let mut document = part(&self.frame, &self.reason);
        document["pins"] = self.pins.iter().map(String::as_str).collect();
        document
    }
}

impl WorldDamage {
    pub(crate) fn of(world: &ChunkWorld) -> Self {
        let check = world.check(|_, _| {});
        let (report, aside) = (world.report().clone(), world.info().set_aside);
        let reason = |(frame, error): (DamagedFrame, bonfire::Error)| {
            let is_aside = aside.contains(&frame);
            (frame, if is_aside { SET_ASIDE.to_owned() } else { error.to_string() })
        };
        let mut damaged: Vec<_> = check.damaged.into_iter().map(reason).collect();
        let known: HashSet<_> = damaged.iter().map(|(frame, _)| (frame.kind_name(), frame.chunk())).collect();
        let found =
            report.damaged.iter().filter(|frame| !known.contains(&(frame.kind_name(), frame.chunk())));
        let found = found.map(|frame| (frame.clone(), "it was saved, and is not whole any more".to_owned()));
        damaged.extend(found.collect::<Vec<_>>());
        damaged.sort_by_key(|(frame, _)| (frame.chunk(), frame.kind_name()));
        let in_pins = check.damaged_in_pins.into_iter().map(PinDamage::of).collect();
        let all = world.pins();
        let damaged_pins = all.iter().filter(|pin| pin.is_damaged).map(|pin| pin.name.clone()).collect();
        Self {
            chunks: world.len(),
            frames: check.frames,
            unchecked: check.unchecked,
            out_of_sight: is_out_of_sight(world),
            report,
            damaged,
            in_pins,
            damaged_pins,
            pins: all.len(),
        }
    }

    /// Whether nothing is lost and nothing has to be made anew.
    pub(crate) fn is_fine(&self) -> bool {
        self.damaged.is_empty() && self.are_pins_fine() && self.report.is_fine()
    }

    fn are_pins_fine(&self) -> bool {
        self.in_pins.is_empty() && self.damaged_pins.is_empty()
    }

    /// Whether all that is lost was set aside earlier.
    pub(crate) fn is_set_aside(&self) -> bool {
        let is_aside = self.damaged.iter().all(|(_, reason)| reason == SET_ASIDE);
        self.report.is_fine() && is_aside && self.in_pins.iter().all(PinDamage::is_set_aside)
    }

    fn exit(&self) -> Exit {
        if self.is_fine() { Exit::Fine } else { Exit::Damaged }
    }

    fn print(&self, path: &Path, moment: &Moment, out: &mut Output) -> io::Result<()> {
        let Self { frames, unchecked, .. } = self;
        let chunks = match (&moment.pin, self.pins) {
            (Some(_), _) => format!("{} at {}", count(self.chunks, "chunk", "chunks"), moment.text()),
            (None, 0) => count(self.chunks, "chunk", "chunks"),
            (None, pins) => {
                format!("{}, {}", count(self.chunks, "chunk", "chunks"), count(pins, "pin", "pins"))
            }
        };
        let line = match self.damaged.len() + self.in_pins.len() {
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
        self.print_pins(out)?;
        let path = escaped_path(path);
        if self.is_fine() {
            Ok(())
        } else if self.is_set_aside() && self.damaged.is_empty() {
            out.title("the rest is whole; what pins have lost goes when the game removes them")
        } else if self.is_set_aside() {
            out.title(format_args!("`bonfire repair {path} --drop-damaged` gives up what was set aside"))
        } else {
            out.title(format_args!("`bonfire repair {path}` sets aside what is lost and keeps the rest"))
        }
    }

    /// Parts that pins have lost.
    pub(crate) fn print_pins(&self, out: &mut Output) -> io::Result<()> {
        if !self.damaged_pins.is_empty() {
            out.title("pins whose lists are lost: nothing can be read at them")?;
            self.damaged_pins.iter().try_for_each(|name| out.line(escaped(name)))?;
        }
        if self.in_pins.is_empty() {
            return Ok(());
        }
        let mut table = Table::new(["what", "chunk", "offset", "pins", "why"]).right(&["offset"]);
        for PinDamage { frame, pins, reason } in &self.in_pins {
            let pins: Vec<String> = pins.iter().map(|name| escaped(name)).collect();
            let (pins, why) = (cell(&pins.join(", ")), visible(reason).into_owned());
            let [what, chunk, offset] = frame_cells(frame);
            table.row(vec![what, chunk, offset, pins, why]);
        }
        out.title("damaged, in pins alone")?;
        out.table(&table)
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
            "pins": self.pins,
            "damaged_in_pins": self.in_pins.iter().map(PinDamage::to_json).collect::<Json>(),
            "damaged_pins": self.damaged_pins,
        })
    }
}

/// Damaged parts for people.
pub(crate) fn table(damaged: &[(DamagedFrame, String)]) -> Table {
    let mut table = Table::new(["what", "chunk", "offset", "why"]).right(&["offset"]);
    for (frame, reason) in damaged {
        let [what, chunk, offset] = frame_cells(frame);
        table.row(vec![what, chunk, offset, visible(reason).into_owned()]);
    }
    table
}

fn frame_cells(frame: &DamagedFrame) -> [String; 3] {
    let chunk = frame.chunk().map_or("-".to_owned(), |pos| pos.to_string());
    [frame.kind_name().to_owned(), chunk, frame.offset().to_string()]
}

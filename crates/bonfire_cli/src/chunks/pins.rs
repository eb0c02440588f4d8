//! `bonfire pins`: the moments that a world keeps.

use std::io;
use std::time::Duration;

use bonfire_chunks::PinInfo;
use bonfire_store::SealKey;
use bonfire_store::disk::Access;
use serde_json::{Value as Json, json};

use super::{count, open_or_fail, part};
use crate::arguments::chunks::PinsArguments;
use crate::escape::escaped;
use crate::exit::{Exit, Failure};
use crate::ls::date;
use crate::output::{Output, Table, cell};

pub(crate) fn run(arguments: &PinsArguments, keys: &[SealKey], out: &mut Output) -> Result<Exit, Failure> {
    let world = open_or_fail(&arguments.file, Access::Read, keys)?;
    let (pins, held) = (world.pins(), world.info().pinned_bytes);
    // What is lost of pins may be a pin that nobody knows any more.
    let lost: Vec<_> = world.report().damaged.iter().filter(|frame| frame.chunk().is_none()).collect();
    let lost: Vec<_> = lost.into_iter().filter(|frame| frame.kind_name().contains("pin")).collect();
    if arguments.json {
        let lost = lost.iter().map(|frame| part(frame, "found when it was opened"));
        out.json(&json!({
            "kind": "chunks",
            "pins": pins.iter().map(pin_json).collect::<Json>(),
            "pinned_bytes": held,
            "damaged": lost.collect::<Json>(),
        }))?;
    } else {
        print(&pins, held, out)?;
        if !lost.is_empty() {
            out.title("damaged, see `bonfire verify`")?;
            lost.iter().try_for_each(|frame| out.line(frame))?;
        }
    }
    let is_fine = lost.is_empty() && !pins.iter().any(|pin| pin.is_damaged);
    Ok(if is_fine { Exit::Fine } else { Exit::Damaged })
}

fn print(pins: &[PinInfo], held: u64, out: &mut Output) -> io::Result<()> {
    if pins.is_empty() {
        return out.line("this world has no pins");
    }
    let mut table = Table::new(["name", "made", "save", "alone", "metadata"]).right(&["save", "alone"]);
    for pin in pins {
        table.row(vec![
            escaped(&pin.name),
            made(pin),
            pin.generation.to_string(),
            if pin.is_damaged { "damaged".to_owned() } else { format!("{} bytes", pin.own_bytes) },
            metadata(pin),
        ]);
    }
    out.table(&table)?;
    out.title(summary(pins.len(), held))
}

/// Returns a line that says what pins hold.
pub(crate) fn summary(pins: usize, held: u64) -> String {
    let holds = if pins == 1 { "holds" } else { "hold" };
    format!("{} {holds} {held} bytes that the world as it is now does not need", count(pins, "pin", "pins"))
}

fn made(pin: &PinInfo) -> String {
    match pin.created {
        0 => "unknown".to_owned(),
        created => date(Duration::from_secs(created)),
    }
}

/// Returns the size, and the content if that is text.
fn metadata(pin: &PinInfo) -> String {
    let bytes = pin.metadata.len();
    match text(&pin.metadata) {
        _ if bytes == 0 => "none".to_owned(),
        Some(text) => format!("{bytes} bytes: {}", cell(&escaped(text))),
        None => format!("{bytes} bytes"),
    }
}

/// Returns metadata that a person can read.
fn text(metadata: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(metadata).ok()?;
    // Small numbers are valid text, too.
    let is_odd = |char: char| char.is_control() && !char.is_whitespace();
    (!text.contains(is_odd)).then_some(text)
}

fn pin_json(pin: &PinInfo) -> Json {
    let text = text(&pin.metadata);
    let hex = || pin.metadata.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    json!({
        "name": pin.name,
        "created": (pin.created > 0).then_some(pin.created),
        "save": pin.generation,
        "metadata_bytes": pin.metadata.len(),
        "metadata": text,
        "metadata_hex": text.is_none().then(hex),
        "own_bytes": pin.own_bytes,
        "damaged": pin.is_damaged,
    })
}

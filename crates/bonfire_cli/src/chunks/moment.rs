//! `--at PIN`: a world as it was at a pin.

use std::path::Path;

use bonfire_chunks::{ChunkWorld, PinInfo};
use bonfire_store::SealKey;
use bonfire_store::disk::Access;
use serde_json::{Value as Json, json};

use super::open_or_fail;
use crate::escape::{escaped, escaped_path};
use crate::exit::{Exit, Failure};

/// Pins that a message names.
const NAMES_MAX: usize = 20;

/// A world that is open for reading, now or at a pin.
pub(crate) struct Moment {
    pub(crate) world: ChunkWorld,
    /// The pin; `None` for the world as it is now.
    pub(crate) pin: Option<PinInfo>,
}

impl Moment {
    /// Opens a world as it is now, or at the pin of this name.
    pub(crate) fn open(path: &Path, pin: Option<&str>, keys: &[SealKey]) -> Result<Self, Failure> {
        Self::of(&open_or_fail(path, Access::Read, keys)?, path, pin)
    }

    /// Returns a moment of a world that is open.
    pub(crate) fn of(world: &ChunkWorld, path: &Path, pin: Option<&str>) -> Result<Self, Failure> {
        let Some(name) = pin else { return Ok(Self { world: world.clone(), pin: None }) };
        let pin = find(world, name).ok_or_else(|| unknown(world, path, name))?;
        if pin.is_damaged {
            let (path, name) = (escaped_path(path), escaped(&pin.name));
            let message = format!(
                "{path}: the pin `{name}` is damaged: the list of what it has is lost\n`bonfire pins {path}` lists those \
                 that are whole"
            );
            return Err(Failure::Refused { message, exit: Exit::Damaged });
        }
        let world = world.at(&pin.name).map_err(|error| Failure::text(path, &error))?;
        Ok(Self { world, pin: Some(pin) })
    }

    /// Returns a line for people: `pin "name", save 7`, or `now`.
    pub(crate) fn text(&self) -> String {
        match &self.pin {
            Some(pin) => format!("pin `{}`, save {}", escaped(&pin.name), pin.generation),
            None => "now".to_owned(),
        }
    }

    /// Returns the pin as JSON; `null` for the world as it is now.
    pub(crate) fn to_json(&self) -> Json {
        let pin = self.pin.as_ref();
        pin.map_or(
            Json::Null,
            |pin| json!({ "name": pin.name, "save": pin.generation, "created": pin.created }),
        )
    }
}

/// Finds a pin by its name, or by the name as the tool prints it.
fn find(world: &ChunkWorld, name: &str) -> Option<PinInfo> {
    let pins = world.pins();
    let found = pins.iter().find(|pin| pin.name == name);
    found.or_else(|| pins.iter().find(|pin| escaped(&pin.name) == name)).cloned()
}

fn unknown(world: &ChunkWorld, path: &Path, name: &str) -> Failure {
    let pins = world.pins();
    let mut names: Vec<String> = pins.iter().map(|pin| format!("`{}`", escaped(&pin.name))).collect();
    let more = names.len().saturating_sub(NAMES_MAX);
    names.drain(..more);
    let path = escaped_path(path);
    let known = match (names.is_empty(), more) {
        (true, _) => "this world has no pins".to_owned(),
        (false, 0) => format!("only {}", names.join(", ")),
        (false, more) => format!("only {}, and {more} older ones: `bonfire pins {path}`", names.join(", ")),
    };
    let message = format!("{path}: there is no pin `{}`, {known}", escaped(name));
    Failure::Refused { message, exit: Exit::Misuse }
}

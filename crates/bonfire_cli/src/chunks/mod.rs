//! Worlds of chunks: the same commands as for saves where there are such, and some of their own.
//!
//! The tool does not have the game's generator. What is stored as a difference from a generated chunk is shown as that
//! difference. A sealed world shows its structure to everybody, and its content to who has the key.
//!
//! | file | |
//! |---|---|
//! | `arguments` | arguments and help |
//! | `info`, `verify` | what a world is, and whether it is whole |
//! | `pins`, `moment` | the pins of a world; a world as it was at one (`--at`) |
//! | `dimension` | what the commands know of a dimension |
//! | `repair` | the commands that write: `compact`, `repair` |
//! | `map` | a picture |
//! | `show` | one chunk |
//! | `diff` | two worlds, or two moments of one |

pub(crate) mod diff;
mod dimension;
pub(crate) mod info;
pub(crate) mod map;
pub(crate) mod moment;
pub(crate) mod pins;
pub(crate) mod repair;
pub(crate) mod show;
pub(crate) mod verify;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use bonfire_chunks::{ChunkOptions, ChunkPos, ChunkWorld, DamagedFrame};
use bonfire_store::SealKey;
use bonfire_store::disk::Access;
use serde_json::{Value as Json, json};

use crate::exit::Failure;

/// How worlds of bevy_pixel_world begin.
const FOREIGN: &[u8] = b"WXSP";

/// The answer of a command to a sealed world that does not prove what it holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unproven {
    Refuse,
    /// A repair takes what is left.
    Salvage,
}

/// Opens a world, with the key that fits if it is sealed. Without any key it opens for reading too, but its content does not.
pub(crate) fn open(
    path: &Path,
    access: Access,
    keys: &[SealKey],
    unproven: Unproven,
) -> bonfire::Result<ChunkWorld> {
    let mut start = [0; FOREIGN.len()];
    if File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *FOREIGN {
        return Err(bonfire::Error::misuse(
            "this is a world of bevy_pixel_world: `bonfire import pixel-world` makes a world of Bonfire out of it",
        ));
    }
    if keys.is_empty() {
        return ChunkWorld::open_as_is(path, access);
    }
    let world = ChunkWorld::open_as_is(path, Access::Read)?;
    if !world.info().sealed {
        return if access == Access::Read { Ok(world) } else { ChunkWorld::open_as_is(path, access) };
    }
    let mut refused = None;
    for key in keys {
        let options = ChunkOptions::as_is().sealed(key.clone()).accept_old_seal();
        let options = if unproven == Unproven::Salvage { options.salvage() } else { options };
        let opened = match access {
            Access::Read => options.open_read_only(path),
            Access::Write => options.open(path),
        };
        match opened {
            Err(error) if error.is_wrong_key() => refused = Some(error),
            opened => return opened,
        }
    }
    Err(refused.unwrap_or_else(|| bonfire::Error::wrong_key("no key fits")))
}

pub(crate) fn open_or_fail(path: &Path, access: Access, keys: &[SealKey]) -> Result<ChunkWorld, Failure> {
    open(path, access, keys, Unproven::Refuse).map_err(|error| Failure::text(path, &error))
}

/// Opens a world to repair it.
pub(crate) fn open_to_repair(path: &Path, access: Access, keys: &[SealKey]) -> Result<ChunkWorld, Failure> {
    open(path, access, keys, Unproven::Salvage).map_err(|error| Failure::text(path, &error))
}

/// Whether the content of a world cannot be looked at, because it is sealed and the key is not at hand.
pub(crate) fn is_out_of_sight(world: &ChunkWorld) -> bool {
    let info = world.info();
    let wrong_key = |error: &bonfire::Error| error.is_wrong_key();
    info.sealed && world.iter().next().is_some_and(|pos| world.read_stored(pos).is_err_and(|e| wrong_key(&e)))
}

/// A place as JSON: `[x, y]`, `[x, y, z]` or `[x, y, z, dimension]`. The numbers that are left out are 0.
pub(crate) fn pos(pos: ChunkPos) -> Json {
    match pos {
        ChunkPos { x, y, z: 0, dimension: 0 } => json!([x, y]),
        ChunkPos { x, y, z, dimension: 0 } => json!([x, y, z]),
        ChunkPos { x, y, z, dimension } => json!([x, y, z, dimension]),
    }
}

/// A damaged part as JSON.
pub(crate) fn part(frame: &DamagedFrame, reason: &str) -> Json {
    json!({
        "what": frame.kind_name(),
        "chunk": frame.chunk().map(pos),
        "offset": frame.offset(),
        "reason": reason,
    })
}

/// `1 chunk`, `2 chunks`.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

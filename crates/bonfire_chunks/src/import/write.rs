//! Imported worlds as files of this crate.

use std::path::Path;

use bonfire::{Error, Result};

use super::pixel_world::PixelWorld;

/// Writes an imported world as a new file. Its deltas count as made by this version of the game's generator.
pub fn write_world(world: &PixelWorld, generator_version: u32, path: &Path) -> Result<()> {
    let _ = (world, generator_version);
    Err(Error::unsupported(format!("{}: chunk worlds cannot be written by this build", path.display())))
}

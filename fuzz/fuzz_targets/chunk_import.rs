//! Any bytes as a save of bevy_pixel_world, strictly and as far as it can be read.
#![no_main]

use bonfire_chunks::import::pixel_world::{Mode, PixelWorld};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for mode in [Mode::Strict, Mode::Salvage] {
        let Ok(world) = PixelWorld::read(bytes.to_vec(), mode) else { continue };
        for chunk in world.chunks.iter().take(64) {
            let _ = chunk.payload.content();
        }
    }
});

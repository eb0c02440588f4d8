//! Worlds that other programs wrote.

pub mod pixel_world;
#[cfg(not(target_arch = "wasm32"))]
mod write;

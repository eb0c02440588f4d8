//! Worlds that other programs wrote.

pub mod pixel_world;
mod write;

pub use self::write::write_world;

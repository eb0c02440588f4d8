//! What Bonfire's own tests are made with: a model world that saves and loads through the core's public API, and
//! generators of random schemas, values and worlds; disks that forget, tear and fail.
//!
//! The model world is simple on purpose: maps of boxed values, one pass, no cleverness. What it does is what a front end
//! must do, so it is also the shortest example of one.

pub mod disk;
pub mod edit;
pub mod fixture;
mod generate;
mod hostile;
pub mod later_store;
pub mod life;
mod link;
mod mirror;
pub mod raw;
pub mod script;
pub mod shape;
mod world;

pub use generate::{schema_and_values, schemas, values_of};
pub use hostile::{Dice, hostile_content};
pub use link::{Link, Weather};
pub use mirror::Followed;
pub use world::{CaptureOptions, Loaded, Mode, ModelWorld};

/// How much more than in CI a long run does: `BONFIRE_TEST_SCALE`, 1 if it is not set.
pub fn scale() -> u32 {
    std::env::var("BONFIRE_TEST_SCALE").ok().and_then(|scale| scale.parse().ok()).unwrap_or(1)
}

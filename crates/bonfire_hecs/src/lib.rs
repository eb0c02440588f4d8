//! Saves and loads [hecs](https://docs.rs/hecs) worlds.
//!
//! ```
//! use bonfire_hecs::{Bonfire, LoadMode, Persist, SaveOptions};
//! use hecs::{Entity, World};
//!
//! #[derive(Persist)]
//! #[persist(key = "game.position")]
//! struct Position { x: f32, y: f32 }
//!
//! #[derive(Persist)]
//! #[persist(key = "game.follows")]
//! struct Follows(Entity); // references are mapped on load
//!
//! let mut bonfire = Bonfire::new();
//! bonfire.persist::<Position>()?.persist::<Follows>()?;
//!
//! let mut world = World::new();
//! let wolf = world.spawn((Position { x: 0.0, y: 1.0 },));
//! let sheep = world.spawn((Position { x: 5.0, y: 1.0 }, Follows(wolf)));
//! let snapshot = bonfire.save(&world, &SaveOptions::new())?;
//!
//! world.despawn(wolf)?;
//! let loaded = bonfire.load(&mut world, &snapshot, LoadMode::Replace)?;
//! let (wolf, sheep) = (loaded.entity(wolf).unwrap(), loaded.entity(sheep).unwrap());
//! assert_eq!(world.get::<&Follows>(sheep)?.0, wolf);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | to do this | call |
//! |---|---|
//! | save what is registered | [`Bonfire::persist`], then [`Bonfire::save`] or [`Bonfire::save_to`] |
//! | save some of it | [`SaveOptions::filter`], [`SaveOptions::matching`], [`SaveScope::Marked`] |
//! | load in the place of what is there | [`LoadMode::Replace`] |
//! | load with the ids that entities had, down to the next free one | [`LoadMode::SameIds`] |
//! | go back in time in a running world | [`LoadMode::Restore`] |
//! | save what lies outside of the world | [`SaveOptions::resource`], [`SaveOptions::data`], [`Bonfire::hooks`] |
//!
//! A capture borrows all components that it saves, as a query does. Saves of this crate and of `bevy_bonfire` read each
//! other where keys and fields are the same; what one does not know it carries for the other.

mod capture;
mod load;
mod place;
mod registry;
mod restore;
mod selection;
mod slots;

pub use bonfire::{
    self, Compression, Dangling, DataEntry, Descriptor, EncodeOptions, EntityId, Error, Filter, Hooks,
    LoadContext, LoadOptions, LoadReport, NonFinite, Persist, Result, Snapshot, Unknown,
};
pub use capture::{SaveOptions, SaveSummary};
pub use load::{LoadMode, Loaded};
pub use registry::{Bonfire, Saved};
pub use selection::{SaveScope, Selection};

//! Compiles and runs the code of the guide in `docs/book`, chapter by chapter.
//!
//! Readers copy blocks out of the guide into programs that depend on `bevy`. This workspace builds a few crates of Bevy and not
//! all of it, so [`bevy`] re-exports them under the paths that a game uses. A block imports it in a hidden line.

/// Crates of Bevy under the paths of the crate `bevy`.
pub mod bevy {
    use bevy_app::{App, Plugin, TaskPoolPlugin};

    pub use bevy_app as app;
    pub use bevy_asset as asset;
    pub use bevy_ecs as ecs;
    pub use bevy_input as input;
    pub use bevy_reflect as reflect;
    pub use bevy_state as state;
    pub use bevy_time as time;

    /// The names that a game imports.
    pub mod prelude {
        pub use bevy_app::prelude::*;
        pub use bevy_asset::prelude::*;
        pub use bevy_ecs::prelude::*;
        pub use bevy_input::prelude::*;
        pub use bevy_reflect::prelude::*;
        pub use bevy_state::prelude::*;
        pub use bevy_time::prelude::*;
        pub use bevy_transform::prelude::*;

        pub use super::{DefaultPlugins, MinimalPlugins};
    }

    /// A clock and task pools. `App::run` runs one frame and returns.
    pub struct MinimalPlugins;

    impl Plugin for MinimalPlugins {
        fn build(&self, app: &mut App) {
            app.add_plugins((TaskPoolPlugin::default(), bevy_time::TimePlugin));
        }
    }

    /// Clock, keyboard, states, assets and transforms, without a window. `App::run` runs one frame and returns.
    pub struct DefaultPlugins;

    impl Plugin for DefaultPlugins {
        fn build(&self, app: &mut App) {
            app.add_plugins((
                MinimalPlugins,
                bevy_input::InputPlugin,
                bevy_state::app::StatesPlugin,
                bevy_asset::AssetPlugin::default(),
                bevy_transform::TransformPlugin,
            ));
        }
    }
}

/// Stands in for [`bonfire_store::DirStore`] in a block, so that a test writes into a temporary directory.
pub struct TemporaryStore;

impl TemporaryStore {
    /// Opens a new temporary directory. The arguments are those of [`bonfire_store::DirStore::for_app`].
    pub fn for_app(studio: &str, game: &str) -> bonfire::Result<bonfire_store::DirStore> {
        // Checks that the call in the block is one of the real store.
        let _real: fn(&str, &str) -> bonfire::Result<bonfire_store::DirStore> =
            bonfire_store::DirStore::for_app;
        let directory =
            tempfile::tempdir().map_err(|error| bonfire::Error::io("no temporary directory", error))?;
        bonfire_store::DirStore::open(directory.keep().join(studio).join(game))
    }
}

macro_rules! chapters {
    ($($name:ident: $file:literal),* $(,)?) => {$(
        #[cfg(doctest)]
        #[doc = include_str!(concat!("../../../docs/book/src/", $file))]
        mod $name {}
    )*};
}

chapters! {
    introduction: "introduction.md",
    quick_start: "quick-start.md",
    concepts: "concepts.md",
    choosing: "choosing.md",
    references: "references.md",
    resources: "resources.md",
    slots: "slots.md",
    live_saving: "live-saving.md",
    loading_screens: "loading-screens.md",
    rewind: "rewind.md",
    evolving_saves: "evolving-saves.md",
    chunked_worlds: "chunked-worlds.md",
    sync: "sync.md",
    sealing: "sealing.md",
    tool: "tool.md",
    hecs: "hecs.md",
    own_engine: "own-engine.md",
    testing: "testing.md",
    performance: "performance.md",
    troubleshooting: "troubleshooting.md",
    platforms: "platforms.md",
    recipes: "recipes.md",
}

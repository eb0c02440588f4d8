//! Crates of Bevy under the paths of the crate `bevy`, and its two groups of plugins without a window.

use bevy_app::{App, Plugin, TaskPoolPlugin};

pub use bevy_app as app;
pub use bevy_asset as asset;
pub use bevy_diagnostic as diagnostic;
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

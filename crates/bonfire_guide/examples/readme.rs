//! The program of the README. The test `readme` compares the two.

use bonfire_guide::bevy;

use bevy::prelude::*;
use bevy_bonfire::prelude::*;
use bevy_bonfire::store::{DirStore, Slots};

#[derive(Component, Persist)]
#[require(Saved)] // every entity with Health is part of the save
#[persist(key = "game.health")]
struct Health(f32);

fn main() -> bevy_bonfire::Result<()> {
    let slots = Slots::new(DirStore::for_app("Moon Studio", "Comet")?);
    App::new()
        .add_plugins((DefaultPlugins, BonfirePlugin::new().slots(slots))) // autosaves every minute
        .persist::<Health>()
        .add_systems(Update, quick_keys)
        .run();
    Ok(())
}

fn quick_keys(keys: Res<ButtonInput<KeyCode>>, mut commands: Commands) {
    if keys.just_pressed(KeyCode::F5) {
        commands.save("quick"); // captured at the end of the frame, written by another thread
    }
    if keys.just_pressed(KeyCode::F9) {
        commands.load("quick"); // all or nothing
    }
}

//! Quicksave and quickload: F5 and F9, as commands, with observers that tell the player how it went.
//!
//! ```sh
//! cargo run -p bevy_bonfire --example quicksave
//! ```

use std::path::PathBuf;
use std::time::Duration;

use bevy_app::{App, AppExit, ScheduleRunnerPlugin, Startup, Update};
use bevy_bonfire::prelude::*;
use bevy_ecs::prelude::*;

/// What is saved derives `Persist` and has a key: its name in every save, whatever the type is called one day.
/// `require(Saved)` makes every entity that has one part of the save.
#[derive(Component, Persist)]
#[require(Saved)]
#[persist(key = "game.health")]
struct Health(i32);

#[derive(Resource, Persist, Default)]
#[persist(key = "game.turn")]
struct Turn(u32);

/// Where the quicksave is. A game would have a directory of its own.
#[derive(Resource)]
struct QuicksavePath(PathBuf);

/// Instead of a keyboard: in which frame which key is pressed, and when the game ends.
const PRESSED: [(u32, Key); 4] = [(0, Key::F9), (2, Key::F5), (5, Key::F9), (7, Key::Escape)];

enum Key {
    F5,
    F9,
    Escape,
}

fn main() -> AppExit {
    let path = std::env::temp_dir().join(format!("bonfire-quicksave-{}.save", std::process::id()));
    let mut app = App::new();
    app.add_plugins((ScheduleRunnerPlugin::run_loop(Duration::from_millis(1)), BonfirePlugin::new()))
        // Each type is registered once.
        .persist::<Health>()
        .persist_resource::<Turn>()
        .init_resource::<Turn>()
        .insert_resource(QuicksavePath(path.clone()))
        .add_systems(Startup, |mut commands: Commands| {
            commands.spawn((Name::new("Hero"), Health(30)));
            commands.spawn((Name::new("Dragon"), Health(400)));
        })
        .add_systems(Update, (press_keys, fight).chain())
        .add_observer(tell_of_save)
        .add_observer(tell_of_load);
    let exit = app.run();
    // Whether there is one or not, it is not needed any more.
    let _ = std::fs::remove_file(path);
    exit
}

fn press_keys(mut commands: Commands, path: Res<QuicksavePath>, mut frame: Local<u32>) {
    for (_, key) in PRESSED.iter().filter(|(pressed, _)| *pressed == *frame) {
        match key {
            // Captured at the end of this tick, and written by another thread.
            Key::F5 => {
                commands.save_to(&path.0);
            }
            // Read and decoded by that thread; then it takes the place of all entities that a save would have.
            Key::F9 => {
                commands.load_from(&path.0);
            }
            Key::Escape => {
                commands.write_message(AppExit::Success);
            }
        }
    }
    *frame += 1;
}

fn fight(mut turn: ResMut<Turn>, mut all: Query<(&Name, &mut Health)>) {
    turn.0 += 1;
    for (name, mut health) in &mut all {
        health.0 -= if name.as_str() == "Hero" { 4 } else { 1 };
    }
    let healths: Vec<String> = all.iter().map(|(name, health)| format!("{name} {}", health.0)).collect();
    println!("turn {}: {}", turn.0, healths.join(", "));
}

/// A save that fails leaves the file that was there before.
fn tell_of_save(saved: On<SaveFinished>) {
    match &saved.result {
        Ok(summary) => println!("  saved {} entities in {} bytes", summary.entities, summary.bytes),
        Err(error) => println!("  not saved: {error}"),
    }
}

/// A load that fails leaves the world as it was.
fn tell_of_load(loaded: On<LoadFinished>) {
    match &loaded.result {
        Ok(loaded) => println!("  loaded {} entities", loaded.report.entities),
        Err(error) if error.is_not_found() => println!("  there is no quicksave yet"),
        Err(error) => println!("  not loaded: {error}"),
    }
}

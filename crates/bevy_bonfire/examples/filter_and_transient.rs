//! What is not saved: fields, components, entities, and whole kinds of entities in one save and not in another.
//!
//! ```sh
//! cargo run -p bevy_bonfire --example filter_and_transient
//! ```

use bevy_app::App;
use bevy_bonfire::prelude::*;
use bevy_bonfire::{Filter, Result, SaveCaptured, Selection, Snapshot};
use bevy_ecs::prelude::*;

/// One field of it is for the screen only: it is the default after a load.
#[derive(Component, Persist, Debug)]
#[persist(key = "game.health")]
struct Health {
    points: u32,
    #[persist(skip)]
    flash_seconds: f32,
}

/// Never saved, though the entities that have it are.
#[derive(Component, Persist)]
#[persist(key = "game.highlight", transient)]
struct Highlight;

#[derive(Component, Persist)]
#[persist(key = "game.player")]
struct Player;

/// Not registered, and `persist_ignore` says that this is meant.
#[derive(Component)]
struct DebugLabel;

/// Not registered because somebody forgot. The first save that meets it says so.
#[derive(Component)]
struct Locked;

/// Entities that have it are left out of every save by an observer, below.
#[derive(Component)]
struct Spark;

fn game() -> App {
    let mut app = App::new();
    app.add_plugins(BonfirePlugin::new());
    app.persist::<Health>().persist::<Highlight>().persist::<Player>();
    app.persist_ignore::<DebugLabel>().persist_ignore::<Spark>();
    app.add_observer(|mut starting: On<SaveStarting>| starting.exclude::<Spark>());
    // Nothing is lost silently. With a logger, the log has the same.
    app.add_observer(|captured: On<SaveCaptured>| {
        for note in &captured.notes {
            println!("(left out: {note})");
        }
    });
    app
}

fn print(what: &str, world: &mut World) {
    println!("{what}");
    for (name, health, highlight) in world.query::<(&Name, Option<&Health>, Has<Highlight>)>().iter(world) {
        let health = health.map_or_else(String::new, |health| format!(", {health:?}"));
        println!("  {name}{health}{}", if highlight { ", highlighted" } else { "" });
    }
}

/// What is in a snapshot, seen by loading it into a world of its own.
fn print_snapshot(what: &str, snapshot: &Snapshot) -> Result<()> {
    let mut other = game();
    other.world_mut().load(snapshot, LoadMode::Replace)?;
    print(what, other.world_mut());
    Ok(())
}

fn main() -> Result<()> {
    let mut app = game();
    let world = app.world_mut();
    let health = |points| Health { points, flash_seconds: 0.5 };
    world.spawn((Saved, Name::new("Hero"), Player, health(30), Highlight));
    world.spawn((Saved, Name::new("Goblin"), health(7), DebugLabel));
    world.spawn((Saved, Name::new("Chest"), Locked));
    world.spawn((Saved, Name::new("Spark of a torch"), Spark));
    world.spawn(Name::new("Camera (not marked as Saved)"));
    print("the world:", world);

    let everything = world.capture_with_events(&SaveOptions::new())?;
    print_snapshot("saved, with all that is marked:", &everything)?;

    // By keys, for choices that are data: here what has health and is no player.
    let filter = Filter::new().include("game.health").exclude("game.player");
    let monsters = world.capture_with_events(&SaveOptions::new().filter(filter))?;
    print_snapshot("saved, with a filter by key:", &monsters)?;

    // By a query filter of Bevy, for choices in code. The same selection says what a load replaces.
    let players = Selection::new().matching::<With<Player>>();
    let player = world.capture_with_events(&SaveOptions::new().selection(players.clone()))?;
    print_snapshot("saved, with a query filter:", &player)?;

    for mut health in world.query::<&mut Health>().iter_mut(world) {
        health.points = 1;
    }
    world.load(&player, LoadMode::ReplaceSelected(players))?;
    print("all are hurt, then only the player is loaded back:", world);
    Ok(())
}

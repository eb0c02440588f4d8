//! What is not an entity: resources, states and clocks.
//!
//! ```sh
//! cargo run -p bevy_bonfire --example resources_and_states
//! ```

use std::path::Path;
use std::time::Duration;

use bevy_app::{App, Update};
use bevy_bonfire::Result;
use bevy_bonfire::prelude::*;
use bevy_ecs::prelude::*;
use bevy_state::app::{AppExtStates, StatesPlugin};
use bevy_state::prelude::*;
use bevy_time::{Time, TimePlugin, TimeUpdateStrategy, Virtual};

#[derive(Resource, Persist, Default, Debug)]
#[persist(key = "game.score")]
struct Score {
    points: u64,
    /// References in resources are mapped like those in components.
    best_shot: Option<Entity>,
}

/// A state is saved as the resource that it is in. A load asks for it, and Bevy makes the transition.
#[derive(States, Persist, Clone, PartialEq, Eq, Hash, Debug, Default)]
#[persist(key = "game.phase")]
enum Phase {
    #[default]
    Menu,
    Level {
        number: u32,
    },
}

fn game() -> App {
    let mut app = App::new();
    app.add_plugins((TimePlugin, StatesPlugin, BonfirePlugin::new()));
    app.init_state::<Phase>().init_resource::<Score>();
    app.persist_resource::<Score>().persist_state::<Phase>().persist_time();
    app.add_systems(OnEnter(Phase::Level { number: 3 }), || println!("  (level 3 begins)"));
    app.add_systems(Update, |mut score: ResMut<Score>, phase: Res<State<Phase>>| {
        if *phase.get() != Phase::Menu {
            score.points += 10;
        }
    });
    // So that every run of this example prints the same: a frame takes a tenth of a second.
    app.insert_resource(TimeUpdateStrategy::ManualDuration(Duration::from_millis(100)));
    app.update();
    app
}

fn print(what: &str, app: &App) {
    let world = app.world();
    let (score, time) = (world.resource::<Score>(), world.resource::<Time<Virtual>>());
    let best = score.best_shot.and_then(|entity| world.get::<Name>(entity));
    println!("{what}");
    println!("  phase {:?}, {} points", world.resource::<State<Phase>>().get(), score.points);
    println!("  best shot: {}", best.map_or("nobody", Name::as_str));
    println!("  clock at {:.2} s, speed {}", time.elapsed_secs(), time.relative_speed());
}

fn play(path: &Path) -> Result<()> {
    let mut app = game();
    let archer = app.world_mut().spawn((Saved, Name::new("Archer"))).id();
    app.world_mut().resource_mut::<Score>().best_shot = Some(archer);
    app.world_mut().resource_mut::<NextState<Phase>>().set(Phase::Level { number: 3 });
    app.world_mut().resource_mut::<Time<Virtual>>().set_relative_speed(0.5);
    (0..5).for_each(|_| app.update());
    app.world_mut().save_to(path, &SaveOptions::new())?;
    print("saved:", &app);

    // Another process, later: the player is in the menu and loads.
    let mut app = game();
    print("a new game:", &app);
    let loaded = app.world_mut().load_from(path, LoadMode::Replace)?;
    // Resources and clocks are there at once; the state comes with the next transition, in its place in the frame.
    print("loaded:", &app);
    app.update();
    print("one frame later:", &app);
    assert!(loaded.report.is_complete());
    Ok(())
}

fn main() -> Result<()> {
    let path = std::env::temp_dir().join(format!("bonfire-resources-{}.save", std::process::id()));
    let result = play(&path);
    // Whether there is one or not, it is not needed any more.
    let _ = std::fs::remove_file(path);
    result
}

//! States that a load enters, and the components of Bevy that end with a state.
#![cfg(feature = "state")]

use bevy_app::App;
use bevy_bonfire::entered_by_load;
use bevy_bonfire::prelude::*;
use bevy_ecs::prelude::*;
use bevy_state::app::{AppExtStates, StatesPlugin};
use bevy_state::prelude::*;

#[derive(States, Persist, Clone, PartialEq, Eq, Hash, Debug, Default)]
#[persist(key = "game.phase")]
enum Phase {
    #[default]
    Menu,
    Playing,
}

/// The order in which the player entered the game: by a load or not.
#[derive(Resource, Default)]
struct Entered(Vec<bool>);

fn app() -> App {
    let mut app = App::new();
    app.add_plugins((StatesPlugin, BonfirePlugin::new()));
    app.init_state::<Phase>().persist_state::<Phase>().init_resource::<Entered>();
    app.add_systems(
        OnEnter(Phase::Playing),
        (
            |mut commands: Commands| {
                _ = commands.spawn((Saved, Name::new("level"), DespawnOnExit(Phase::Playing)));
            },
            |mut entered: ResMut<Entered>| entered.0.push(false),
        )
            .run_if(not(entered_by_load::<Phase>)),
    );
    app.add_systems(
        OnEnter(Phase::Playing),
        (|mut entered: ResMut<Entered>| entered.0.push(true)).run_if(entered_by_load::<Phase>),
    );
    app.update();
    app
}

fn enter(app: &mut App, phase: Phase) {
    app.world_mut().resource_mut::<NextState<Phase>>().set(phase);
    app.update();
}

fn names(app: &mut App) -> usize {
    app.world_mut().query::<&Name>().iter(app.world()).count()
}

#[test]
fn systems_know_that_a_load_entered_the_state() {
    let mut app = app();
    enter(&mut app, Phase::Playing);
    let snapshot = app.world().capture(&SaveOptions::new()).unwrap();
    enter(&mut app, Phase::Menu);
    assert_eq!(names(&mut app), 0);
    app.world_mut().load(&snapshot, LoadMode::Replace).unwrap();
    app.update();
    assert_eq!((names(&mut app), app.world().resource::<State<Phase>>().get().clone()), (1, Phase::Playing));
    // The level of the load, and the level of a new game, end with the state.
    enter(&mut app, Phase::Menu);
    assert_eq!(names(&mut app), 0, "`DespawnOnExit` came back with the level");
    enter(&mut app, Phase::Playing);
    // A load in the same state enters nothing.
    app.world_mut().load(&snapshot, LoadMode::Replace).unwrap();
    app.update();
    enter(&mut app, Phase::Menu);
    enter(&mut app, Phase::Playing);
    assert_eq!(app.world().resource::<Entered>().0, [false, true, false, false]);
    assert_eq!(names(&mut app), 1);
}

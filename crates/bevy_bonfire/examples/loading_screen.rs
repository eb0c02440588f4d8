//! A loading screen: a save is read and decoded by another thread and comes into the world in slices, while the old world
//! goes on behind the bar. Then a load that the player calls off, and one that comes in one go.
//!
//! Each tree costs as much as a collider or a mesh when it is spawned, which is when slices pay. Without that, a load in one go
//! has the shorter longest frame: see docs/book/src/loading-screens.md.
//!
//! ```sh
//! cargo run --release -p bevy_bonfire --example loading_screen
//! ```

use std::hint::black_box;
use std::time::{Duration, Instant};

use bevy_app::{App, AppExit, First, Last, ScheduleRunnerPlugin, Startup, Update};
use bevy_bonfire::prelude::*;
use bevy_bonfire::store::{MemoryStore, Slots};
use bevy_bonfire::store::{Phase, Progress};
use bevy_bonfire::{LoadHandle, SaveSystems};
use bevy_ecs::lifecycle::HookContext;
use bevy_ecs::prelude::*;
use bevy_ecs::world::DeferredWorld;

const TREES: u32 = 20_000;

#[derive(Component, Persist)]
#[component(on_add = grow_leaves)]
#[require(Saved)]
#[persist(key = "game.tree")]
struct Tree {
    height: u32,
    kind: String,
}

/// What is made for every tree that is spawned. It runs while the old world is still there: new trees are `Disabled` until the
/// switch, and a hook that looks at others of them by a query would have to allow that.
fn grow_leaves(world: DeferredWorld, context: HookContext) {
    let bytes = world.get::<Tree>(context.entity).map_or(&[][..], |tree| tree.kind.as_bytes());
    black_box((0..500).fold(0_u64, |sum, leaf| sum.rotate_left(5) ^ u64::from(bytes[leaf % bytes.len()])));
}

/// What the player asks for, one after the other: how much of each frame the load may take, and whether it is called off.
const LOADS: [(&str, Option<Duration>, bool); 3] = [
    ("in slices of three milliseconds", Some(Duration::from_millis(3)), false),
    ("in slices again, and called off in the middle", Some(Duration::from_millis(3)), true),
    ("in one go", None, false),
];

#[derive(Resource)]
struct Frame {
    number: u32,
    began: Instant,
    longest: Duration,
}

/// What is on the screen.
#[derive(Resource, Default)]
struct Screen {
    load: Option<LoadHandle>,
    loads_begun: usize,
    /// What was drawn last: nothing is drawn twice.
    drawn: Option<(Phase, u64)>,
}

fn main() -> AppExit {
    let slots = Slots::new(MemoryStore::new()); // a game: DirStore::for_app("Studio", "Game")?
    App::new()
        .add_plugins((
            ScheduleRunnerPlugin::run_loop(Duration::from_millis(1)),
            BonfirePlugin::new().slots(slots).autosave(Autosave::off()),
        ))
        .persist::<Tree>()
        .init_resource::<Screen>()
        .insert_resource(Frame { number: 0, began: Instant::now(), longest: Duration::ZERO })
        .add_systems(Startup, plant)
        .add_systems(First, begin_frame)
        .add_systems(Update, (grow, play, draw).chain())
        .add_systems(Last, end_frame.after(SaveSystems))
        .add_observer(tell_of_load)
        .run()
}

fn plant(mut commands: Commands) {
    commands.spawn_batch((0..TREES).map(|number| Tree { height: 0, kind: format!("tree {number}") }));
    commands.save("forest"); // at the end of the first tick
}

/// All trees, all the time: also those behind the loading screen.
fn grow(mut trees: Query<&mut Tree>) {
    trees.iter_mut().for_each(|mut tree| tree.height += 1);
}

/// Asks for the next load when the one before is over.
fn play(
    mut saves: ResMut<Saves>,
    mut screen: ResMut<Screen>,
    mut frame: ResMut<Frame>,
    mut exits: MessageWriter<AppExit>,
) {
    if saves.status().saves == 0 || screen.load.as_ref().is_some_and(|load| !load.is_complete()) {
        return;
    }
    if screen.load.is_some() {
        println!("    the longest frame took {:.1} ms", frame.longest.as_secs_f64() * 1000.0);
    }
    let Some((how, budget, _)) = LOADS.get(screen.loads_begun) else {
        exits.write(AppExit::Success);
        return;
    };
    println!("\n{how}:");
    // `LoadOptions::new()` alone is a load in one go.
    let options = LoadOptions { budget: *budget, ..LoadOptions::new() };
    *screen = Screen {
        load: Some(saves.load_with("forest", options)),
        loads_begun: screen.loads_begun + 1,
        drawn: None,
    };
    frame.longest = Duration::ZERO;
}

/// Draws the bar when there is something new: another stage, or another tenth of it.
fn draw(mut screen: ResMut<Screen>, trees: Query<&Tree>, frame: Res<Frame>) {
    let Some(load) = screen.load.clone().filter(|load| !load.is_complete()) else { return };
    let progress = load.progress();
    let now = Some((progress.phase, progress.done * 10 / progress.total.max(1)));
    if screen.drawn != now {
        screen.drawn = now;
        print_bar(&frame, progress, tallest(&trees));
    }
    let (.., is_called_off) = LOADS[screen.loads_begun - 1];
    let half = progress.phase == Phase::Committing && progress.done * 2 > progress.total;
    if is_called_off && half && !load.is_cancelled() {
        println!("    the player presses Escape");
        load.cancel(); // what has come so far is taken back at the end of the tick
    }
}

fn print_bar(frame: &Frame, progress: Progress, tallest: u32) {
    let length = (progress.fraction() * 30.0) as usize;
    let bar = "#".repeat(length) + &".".repeat(30 - length);
    let what = match progress.phase {
        Phase::Waiting => "waiting",
        Phase::Reading => "reading",
        Phase::Checking => "checking",
        Phase::Migrating => "migrating",
        Phase::Decoding => "decoding",
        Phase::Committing => "planting trees",
        _ => "",
    };
    let percent = progress.done * 100 / progress.total.max(1);
    let number = frame.number;
    println!("    frame {number:>4} [{bar}] {what:<14} {percent:>3} %   the old trees grow: {tallest}");
}

fn tallest(trees: &Query<&Tree>) -> u32 {
    trees.iter().map(|tree| tree.height).max().unwrap_or_default()
}

/// The switch: from here on the old trees are gone and the new ones are there, all at once; or everything is as it was.
fn tell_of_load(finished: On<LoadFinished>, trees: Query<&Tree>, frame: Res<Frame>) {
    let (number, tallest) = (frame.number, tallest(&trees));
    match &finished.result {
        Ok(loaded) => {
            assert_eq!(loaded.report.entities, trees.iter().count());
            println!(
                "    frame {number:>4} the switch: {} trees, all of height {tallest}",
                trees.iter().count()
            );
        }
        Err(error) if error.is_cancelled() => {
            println!(
                "    frame {number:>4} called off: {} trees, and the old ones grow: {tallest}",
                trees.iter().count()
            );
        }
        Err(error) => println!("    frame {number:>4} not loaded: {error}"),
    }
}

fn begin_frame(mut frame: ResMut<Frame>) {
    (frame.number, frame.began) = (frame.number + 1, Instant::now());
}

fn end_frame(mut frame: ResMut<Frame>) {
    frame.longest = frame.longest.max(frame.began.elapsed());
}

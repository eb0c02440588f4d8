//! A game that saves by itself, with a menu of saves: slots with labels, play time and little pictures, a quick save, a save
//! when the player quits, and a second start that goes on with the newest.
//!
//! ```sh
//! cargo run -p bevy_bonfire --example autosave_slots
//! ```

use std::path::Path;
use std::time::Duration;

use bevy_app::{App, AppExit, ScheduleRunnerPlugin, Startup, Update};
use bevy_bonfire::prelude::*;
use bevy_bonfire::store::{DirStore, Keep, SlotInfo, Slots, Wait};
use bevy_bonfire::{Error, Handle, Result, SavePolicy, SavedOnExit};
use bevy_ecs::prelude::*;
use bevy_time::{TimePlugin, TimeUpdateStrategy};

/// The map is a square of so many tiles.
const SIZE: u32 = 16;

/// A tile that the explorer has seen.
#[derive(Component, Persist)]
#[require(Saved)]
#[persist(key = "game.seen")]
struct Seen {
    x: u32,
    y: u32,
}

#[derive(Resource, Persist, Default)]
#[persist(key = "game.journey")]
struct Journey {
    steps: u32,
    played: Duration,
}

fn game(directory: &Path) -> Result<App> {
    // A real game: DirStore::for_app("Studio", "Game"), the folder that the system keeps for it.
    let slots = Slots::new(DirStore::open(directory)?).keep(Keep::newest(3));
    let bonfire = BonfirePlugin::new()
        .slots(slots)
        // A real game: every few minutes. The time counts from the end of the last save, whoever asked for it.
        .autosave(Autosave::every(Duration::from_secs(40)))
        // What is in `SimulationSet` stands still while the game is saved. The default is that the game goes
        // on; this example wants to print the same in every run.
        .policy(SavePolicy::PauseUntilDurable)
        .on_exit(ExitOptions::save("exit").deadline(Duration::from_secs(5)));
    let mut app = App::new();
    app.add_plugins((ScheduleRunnerPlugin::run_loop(Duration::from_millis(1)), TimePlugin, bonfire))
        // Time flies: a frame takes a second.
        .insert_resource(TimeUpdateStrategy::ManualDuration(Duration::from_secs(1)))
        .persist::<Seen>()
        .persist_resource::<Journey>()
        .init_resource::<Journey>()
        .add_systems(Update, ((walk, press_keys).chain().in_set(SimulationSet), show_menu))
        .add_observer(describe)
        .add_observer(tell_of_save)
        .add_observer(|exit: On<SavedOnExit>| match exit.unfinished.as_slice() {
            [] => println!("the game ends, and everything is on the disk"),
            unfinished => println!("the disk does not answer. Perhaps lost: {unfinished:?}"),
        });
    Ok(app)
}

/// Round in a spiral: the way is the same in every run.
fn walk(mut commands: Commands, mut journey: ResMut<Journey>) {
    let angle = f64::from(journey.steps) * 0.15;
    let radius = 0.5 + f64::from(journey.steps) * 0.045;
    let place =
        |offset: f64| (f64::from(SIZE) / 2.0 + radius * offset).clamp(0.0, f64::from(SIZE - 1)) as u32;
    commands.spawn(Seen { x: place(angle.cos()), y: place(angle.sin()) });
    journey.steps += 1;
    journey.played += Duration::from_secs(1);
}

/// The answer to a question about the slots.
#[derive(Resource)]
struct Menu(Handle<Vec<SlotInfo>>);

/// Instead of a keyboard: after so many steps the player does this.
fn press_keys(mut commands: Commands, journey: Res<Journey>, saves: Res<Saves>) {
    match journey.steps {
        50 => {
            // Captured at the end of this tick, with everything that the tick does, and written by another thread.
            commands.save("quick");
        }
        120 => {
            // Disks take their time: asked here, in order with the saves, and looked at in the frames that follow.
            commands.insert_resource(Menu(saves.saver().run(|slots| slots.list().wait())));
        }
        150 | 160 => {
            println!("step {}: the player quits", journey.steps);
            commands.write_message(AppExit::Success);
        }
        _ => {}
    }
}

/// Every save is described here, whoever asked for it: the timer, the player, or the end of the game.
fn describe(mut starting: On<SaveStarting>, journey: Res<Journey>, seen: Query<&Seen>) {
    // A picture in the format of the game's choice. This is a PGM: a line of text, and a byte per pixel.
    let mut picture = format!("P5 {SIZE} {SIZE} 255\n").into_bytes();
    let header = picture.len();
    picture.resize(header + (SIZE * SIZE) as usize, 0);
    for seen in &seen {
        picture[header + (seen.y * SIZE + seen.x) as usize] = 255;
    }
    let label = format!("After {} steps", journey.steps);
    starting.describe(|details| details.label(label).play_time(journey.played).thumbnail(picture));
}

/// Now it is on the disk: a power cut would not take it back.
fn tell_of_save(saved: On<SaveFinished>, journey: Res<Journey>) {
    match &saved.result {
        Ok(report) => {
            let number = report.generation.unwrap_or_default();
            println!(
                "step {}: saved {}, number {number}: {} tiles",
                journey.steps, saved.target, report.entities
            );
        }
        Err(error) => println!("step {}: {} was not saved: {error}", journey.steps, saved.target),
    }
}

fn show_menu(mut commands: Commands, menu: Option<Res<Menu>>) {
    let Some(list) = menu.and_then(|menu| menu.0.result()) else { return };
    commands.remove_resource::<Menu>();
    match list {
        Ok(slots) => print_menu(&slots),
        Err(error) => println!("there is no menu: {error}"),
    }
}

/// The slots side by side, each with its picture.
fn print_menu(slots: &[SlotInfo]) {
    let print = |cell: &dyn Fn(&SlotInfo) -> String| {
        let cells: Vec<String> = slots.iter().map(|slot| format!("{:<18}", cell(slot))).collect();
        println!("  | {}", cells.join("| "));
    };
    print(&|slot| slot.name.clone());
    print(&|slot| slot.newest.label.clone().unwrap_or_default());
    print(&|slot| format!("{} s played", slot.newest.play_time.unwrap_or_default().as_secs()));
    print(&|slot| format!("saves: {}", slot.saves));
    for row in (0..SIZE).step_by(2) {
        print(&|slot| {
            let picture = slot.newest.thumbnail.as_deref().unwrap_or_default();
            let pixels = &picture[picture.len().saturating_sub((SIZE * SIZE) as usize)..];
            let is_seen = |x, y| pixels.get((y * SIZE + x) as usize).is_some_and(|&pixel| pixel > 0);
            let block = |x| match (is_seen(x, row), is_seen(x, row + 1)) {
                (true, true) => '█',
                (true, false) => '▀',
                (false, true) => '▄',
                (false, false) => '·',
            };
            (0..SIZE).map(block).collect()
        });
    }
}

/// "Continue": the newest of all saves. Nothing runs yet, so this may wait for the disk.
fn go_on(mut saves: ResMut<Saves>) -> bevy_ecs::error::Result {
    let Some(slots) = saves.slots().cloned() else { return Ok(()) };
    print_menu(&slots.list().wait()?);
    if let Some(newest) = slots.newest().wait()? {
        println!("the newest is `{}`", newest.name);
        saves.load(newest.name);
        // Nobody walks before it is there.
        saves.pause();
    }
    Ok(())
}

fn tell_of_load(
    loaded: On<LoadFinished>,
    journey: Res<Journey>,
    seen: Query<&Seen>,
    mut saves: ResMut<Saves>,
) {
    match &loaded.result {
        Ok(_) => println!("step {}: loaded, {} tiles", journey.steps, seen.iter().count()),
        Err(error) => println!("not loaded: {error}"),
    }
    // Newer ones that are damaged: the player is told that this is not what was saved last.
    loaded.skipped.iter().for_each(|skipped| println!("{skipped}"));
    saves.resume();
}

fn main() -> Result<AppExit> {
    let directory = tempfile::tempdir().map_err(|error| Error::io("cannot make a directory", error))?;
    game(directory.path())?.run();

    println!("the next evening");
    let mut app = game(directory.path())?;
    app.add_systems(Startup, go_on).add_observer(tell_of_load);
    Ok(app.run())
}

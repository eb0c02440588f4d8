//! A game that saves and loads while it runs: the loop captures the world, and a thread of the saver does the rest. It
//! autosaves, shows how the saver is doing, goes back to an earlier save, and ends when all is on the disk.
//!
//! ```sh
//! cargo run --release -p bonfire_hecs --example background_save
//! ```

use std::path::Path;
use std::time::Duration;

use bonfire_hecs::store::{Details, DirStore, LoadHandle, SaveHandle, Saver, Slots};
use bonfire_hecs::{Bonfire, Error, LoadMode, Persist, Result, SaveOptions};
use hecs::World;

#[derive(Persist, Clone, Copy)]
#[persist(key = "game.position")]
struct Position {
    x: f32,
    y: f32,
}

#[derive(Persist, Clone, Copy)]
#[persist(key = "game.velocity")]
struct Velocity {
    x: f32,
    y: f32,
}

/// Something that exists once.
#[derive(Persist, Clone, Copy)]
#[persist(key = "game.clock")]
struct Clock {
    tick: u64,
}

const UNITS: u16 = 20_000;
const TICKS: u64 = 300;
const AUTOSAVE_TICKS: u64 = 60;
/// A frame of a game that has little to do.
const FRAME: Duration = Duration::from_millis(2);

struct Game {
    world: World,
    clock: Clock,
    bonfire: Bonfire,
    saver: Saver,
    /// Saves that were asked for and whose end nobody has seen: at which tick, and where.
    saves: Vec<(u64, &'static str, SaveHandle)>,
    load: Option<LoadHandle>,
}

impl Game {
    fn start(directory: &Path) -> Result<Self> {
        let mut bonfire = Bonfire::new();
        bonfire.persist::<Position>()?.persist::<Velocity>()?.persist::<Clock>()?;
        let mut world = World::new();
        for unit in 0..UNITS {
            let x = f32::from(unit);
            world.spawn((Position { x, y: 0.0 }, Velocity { x: 1.0, y: x * 0.001 }));
        }
        // A real game: DirStore::for_app("Studio", "Game"), the folder that the system keeps for it.
        let saver = Saver::new(Slots::new(DirStore::open(directory)?));
        Ok(Self { world, clock: Clock { tick: 0 }, bonfire, saver, saves: Vec::new(), load: None })
    }

    /// One frame: the world moves, and whatever has ended in the background is looked at. Nothing here waits for a disk.
    fn frame(&mut self) -> Result<()> {
        self.clock.tick += 1;
        for (position, velocity) in self.world.query_mut::<(&mut Position, &Velocity)>() {
            position.x += velocity.x;
            position.y += velocity.y;
        }
        if self.clock.tick.is_multiple_of(AUTOSAVE_TICKS) {
            self.save("auto")?;
        }
        self.look_at_saves()?;
        self.look_at_load()?;
        std::thread::sleep(FRAME);
        Ok(())
    }

    /// Only the capture happens here: a copy of the world at the speed of memory.
    fn save(&mut self, slot: &'static str) -> Result<()> {
        let tick = self.clock.tick;
        let snapshot =
            self.bonfire.capture_with_hooks(&self.world, &SaveOptions::new().resource(self.clock))?;
        let details = Details::new().label(format!("tick {tick}")).custom("tick", tick);
        self.saves.push((tick, slot, self.saver.save(slot, snapshot, details)));
        Ok(())
    }

    fn look_at_saves(&mut self) -> Result<()> {
        for (tick, slot, save) in std::mem::take(&mut self.saves) {
            match save.result() {
                // What was told to the player as saved is on the disk.
                Some(Ok(report)) if report.coalesced => {
                    println!("  `{slot}` of tick {tick} was not written: a newer one took its place");
                }
                Some(Ok(report)) => {
                    println!(
                        "  `{slot}` of tick {tick} is durable: {} entities, {} bytes",
                        report.entities, report.bytes
                    );
                }
                Some(Err(error)) => return Err(error),
                None => self.saves.push((tick, slot, save)),
            }
        }
        Ok(())
    }

    /// The save is read and checked in the background. The world takes it over between two frames, all or nothing.
    fn look_at_load(&mut self) -> Result<()> {
        let Some(result) = self.load.as_ref().and_then(LoadHandle::result) else { return Ok(()) };
        self.load = None;
        let save = result?;
        let mut loaded = self.bonfire.load(&mut self.world, &save.snapshot, LoadMode::Replace)?;
        self.clock = loaded.take_resource::<Clock>().expect("every save of this game has it");
        println!(
            "  loaded {:?}: the game goes on from tick {}",
            save.info.label.unwrap_or_default(),
            self.clock.tick
        );
        Ok(())
    }

    /// For a server's log, or a corner of the screen.
    fn print_status(&self) {
        let status = self.saver.status();
        let age = status.last_durable.and_then(|time| time.elapsed().ok());
        let age = age.map_or("never".to_owned(), |age| format!("{:.2} s ago", age.as_secs_f64()));
        let speed = status.bytes_per_second.unwrap_or_default() / 1e6;
        println!(
            "tick {}: {} waiting, doing {}, {} saved, {} replaced, {} failed, last durable {age}, {speed:.0} MB/s",
            self.clock.tick,
            status.queued,
            status.running.as_deref().unwrap_or("nothing"),
            status.saves,
            status.coalesced,
            status.failures,
        );
    }
}

fn run(directory: &Path) -> Result<()> {
    let mut game = Game::start(directory)?;
    while game.clock.tick < TICKS {
        game.frame()?;
        if game.clock.tick.is_multiple_of(100) {
            game.print_status();
        }
    }

    println!("the player leans on the quicksave key, and then goes back to the save");
    for _ in 0..5 {
        game.save("quick")?;
    }
    game.print_status();
    // In order: it finds the save that was asked for before it.
    game.load = Some(game.saver.load("quick"));
    while game.load.is_some() {
        game.frame()?;
    }
    assert_eq!(game.clock.tick, TICKS, "what was played since the quicksave is undone");

    println!("the player quits");
    game.save("auto")?;
    // Forgotten, the drop of the saver would wait for as long as it takes. A disk that hangs shall not keep the window.
    if !game.saver.finish(Duration::from_secs(30)) {
        println!("the disk does not answer: the last save may be lost");
    }
    game.look_at_saves()?;
    game.print_status();
    let newest = game.saver.load("auto").wait()?;
    assert_eq!(newest.info.label.as_deref(), Some("tick 300"));
    Ok(())
}

fn main() -> Result<()> {
    let directory =
        tempfile::tempdir().map_err(|error| Error::io("cannot make a directory for the saves", error))?;
    run(directory.path())
}

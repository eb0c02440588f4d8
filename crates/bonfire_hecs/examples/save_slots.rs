//! A game with a menu of saves: slots with labels and play time, settings, a save that is damaged behind the game's back,
//! and one that waits after a crash.
//!
//! ```sh
//! cargo run -p bonfire_hecs --example save_slots            # in a temporary directory, which it removes
//! cargo run -p bonfire_hecs --example save_slots my-saves   # in this one, which it leaves: try `bonfire ls my-saves`
//! ```

use std::path::Path;
use std::time::Duration;

use bonfire_hecs::store::{Details, DirStore, Keep, Slots, Wait};
use bonfire_hecs::{Bonfire, Error, LoadMode, Persist, Result, SaveOptions};
use hecs::World;

#[derive(Persist, Clone, Copy, Debug, PartialEq)]
#[persist(key = "game.gold")]
struct Gold(u32);

/// Not a component: a value with a slot of its own.
#[derive(Persist, Default, Debug, PartialEq)]
struct Settings {
    volume: f32,
    language: String,
}

struct Game {
    world: World,
    bonfire: Bonfire,
    slots: Slots,
    played: Duration,
}

impl Game {
    fn start(directory: &Path) -> Result<Self> {
        let mut bonfire = Bonfire::new();
        bonfire.persist::<Gold>()?;
        // A real game: DirStore::for_app("Studio", "Game"), the folder that the system keeps for it.
        let slots = Slots::new(DirStore::open(directory)?).keep(Keep::newest(3).one_per_day(7));
        Ok(Self { world: World::new(), bonfire, slots, played: Duration::ZERO })
    }

    fn play(&mut self, gold: u32) {
        self.played += Duration::from_secs(30 * 60);
        self.world.spawn((Gold(gold),));
    }

    fn details(&self, label: &str) -> Details {
        Details::new().label(label).play_time(self.played).game_version(env!("CARGO_PKG_VERSION"))
    }

    fn save(&mut self, slot: &str, label: &str) -> Result<u64> {
        let snapshot = self.bonfire.capture_with_hooks(&self.world, &SaveOptions::new())?;
        // When this returns, the save is on the disk: a power cut leaves the old save or the new one.
        let saved = self.slots.save(slot, &snapshot, &self.details(label)).wait()?;
        Ok(saved.generation)
    }

    fn load(&mut self, slot: &str) -> Result<Vec<String>> {
        let loaded = self.slots.load(slot).wait()?;
        self.bonfire.load(&mut self.world, &loaded.snapshot, LoadMode::Replace)?;
        self.played = loaded.info.play_time.unwrap_or_default();
        Ok(loaded.skipped.iter().map(ToString::to_string).collect())
    }

    fn gold(&self) -> u32 {
        self.world.query::<&Gold>().iter().map(|gold| gold.0).sum()
    }

    fn menu(&self) -> Result<()> {
        for slot in self.slots.list().wait()? {
            let save = slot.newest;
            println!(
                "  {:<10} {:<24} {:>3} min  {} entities  {} saves{}",
                slot.name,
                save.label.unwrap_or_default(),
                save.play_time.unwrap_or_default().as_secs() / 60,
                save.entities.unwrap_or_default(),
                slot.saves,
                if slot.has_recovery { "  (a save from before the crash waits)" } else { "" }
            );
        }
        Ok(())
    }
}

fn run(directory: &Path) -> Result<()> {
    let mut game = Game::start(directory)?;
    let settings: Settings = game.slots.load_value("settings")?.unwrap_or_default();
    game.slots.save_value("settings", &Settings { volume: settings.volume + 0.5, language: "en".into() })?;

    game.play(100);
    game.save("quick", "The first coins")?;
    game.play(50);
    let newest = game.save("quick", "Before the dragon")?;
    let camp = game.slots.copy("quick", "camp").wait()?;
    game.slots.lock("camp", camp.generation).wait()?;
    game.play(1000);
    // Now and then, in case the game does not come to save.
    let snapshot = game.bonfire.capture_with_hooks(&game.world, &SaveOptions::new())?;
    game.slots.save_recovery("quick", &snapshot, &game.details("After the dragon")).wait()?;
    println!("the menu:");
    game.menu()?;

    // The game crashes, and the disk loses a sector of the newest save.
    let path = directory.join(format!("quick.{newest:08}.bonfire"));
    let mut bytes = std::fs::read(&path).expect("it was just saved");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).expect("it can be written");

    let mut game = Game::start(directory)?;
    let passed_over = game.load("quick")?;
    println!("the next start: {passed_over:?}");
    assert_eq!((game.gold(), passed_over.len()), (100, 1), "the save before is loaded, and the player told");
    let waiting = game.slots.recovery("quick").wait()?.expect("it was saved before the crash");
    println!("there is more: {:?}. Accept it?", waiting.label.unwrap_or_default());
    game.slots.accept_recovery("quick").wait()?;
    assert!(game.load("quick")?.is_empty());
    assert_eq!(game.gold(), 1150);
    println!("the menu:");
    game.menu()
}

fn main() -> Result<()> {
    match std::env::args().nth(1) {
        Some(directory) => run(Path::new(&directory)),
        None => {
            let directory = std::env::temp_dir().join(format!("bonfire-slots-{}", std::process::id()));
            let result = run(&directory);
            std::fs::remove_dir_all(&directory).map_err(|error| Error::io("cannot tidy up", error))?;
            result
        }
    }
}

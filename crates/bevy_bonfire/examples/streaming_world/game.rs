//! The game as an app: the plugins, what is saved, the order of the systems, and calls to play it without a window.

use std::path::Path;
use std::time::Duration;

use bevy_app::{App, Update};
use bevy_bonfire::Result;
use bevy_bonfire::chunks::{ChunkProblem, ChunkStreamPlugin, Chunks, StreamHarness};
use bevy_bonfire::prelude::*;
use bevy_bonfire::store::{DirStore, Slots};
use bevy_ecs::prelude::*;
use bevy_transform::components::Transform;

use super::books::{self, Books, Proof};
use super::script::{self, BEGIN, Plan, Player, Saving};
use super::{bodies, creatures, sand, terrain};

/// The game, frame by frame.
pub(crate) struct Game {
    pub(crate) harness: StreamHarness,
}

impl Game {
    /// Opens the world in a directory, and goes on from the newest save. Without a save it begins.
    pub(crate) fn open(directory: &Path, seed: u64, plan: Plan) -> Result<Self> {
        let world = terrain::open(&directory.join("world.save"), seed)?;
        // This is the file as the last game has left it, perhaps by a crash. A load of the slot comes after it.
        books::check_file(&world)?;
        let seed = world.seed();
        let slots = Slots::new(DirStore::open(directory.join("slots"))?);
        let mut app = App::new();
        app.add_plugins(BonfirePlugin::new().slots(slots).autosave(Autosave::off()))
            .add_plugins(ChunkStreamPlugin::new(world).populate())
            .persist::<Player>()
            .persist::<creatures::Firefly>()
            .persist_resource::<Books>()
            .insert_resource(Books { seed, ..Books::default() })
            .insert_resource(Plan { until: 0, ..plan })
            .init_resource::<Saving>()
            .add_observer(bodies::populate)
            .add_observer(creatures::populate)
            .add_observer(books::book_body)
            .add_observer(books::note_chunk)
            .add_observer(script::acknowledge)
            .add_observer(|problem: On<ChunkProblem>| panic!("{:?}", *problem));
        let steps = (
            script::walk,
            script::dig,
            script::shoot,
            script::kick,
            script::fell_trees,
            script::multiply,
            sand::fall,
            bodies::physics,
            creatures::wander,
            script::save,
        );
        app.add_systems(Update, steps.chain().run_if(script::may_step));
        let mut harness = StreamHarness::new(app);
        harness.patience = Duration::from_secs(3600); // a child process plays until it is killed
        let mut game = Self { harness };
        game.begin(seed)?;
        Ok(game)
    }

    fn begin(&mut self, seed: u64) -> Result<()> {
        let loaded = self.harness.app.world_mut().resource_mut::<Saves>().load("quick");
        self.harness.until(|_| loaded.is_complete());
        match loaded.wait() {
            Err(error) if error.is_not_found() => {
                // A game that was killed before its first save may have left chunks.
                let begun = self.harness.app.world_mut().resource_mut::<Saves>().start_over("quick");
                self.harness.until(|_| begun.is_complete());
                begun.wait()?;
                let world = self.harness.app.world_mut();
                world.insert_resource(Books { seed, ..Books::default() });
                let y = terrain::ground(seed, BEGIN) + 2;
                world.spawn((Player, Transform::from_xyz(BEGIN as f32, y as f32, 0.0)));
            }
            loaded => drop(loaded?),
        }
        self.settle();
        Ok(())
    }

    pub(crate) fn step(&self) -> u64 {
        self.harness.app.world().resource::<Books>().step
    }

    /// Plays so many steps.
    pub(crate) fn play(&mut self, steps: u64) {
        let until = self.step().saturating_add(steps);
        self.harness.app.world_mut().resource_mut::<Plan>().until = until;
        self.harness.until(|app| app.world().resource::<Books>().step >= until);
    }

    /// Runs frames without steps until everything near is there, and the rest is in the file.
    pub(crate) fn settle(&mut self) {
        let step = self.step();
        self.harness.app.world_mut().resource_mut::<Plan>().until = step;
        self.harness.until(|app| !app.world().resource::<Saves>().is_busy());
        self.harness.settle();
    }

    /// Saves, and waits until the save is durable.
    pub(crate) fn save(&mut self) -> Result<()> {
        self.settle();
        let saved = self.harness.app.world_mut().resource_mut::<Saves>().save("quick");
        self.harness.until(|_| saved.is_complete());
        saved.wait().map(drop)
    }

    /// Checks the books.
    pub(crate) fn check(&mut self) -> Result<Proof> {
        self.settle();
        books::check(self.harness.app.world_mut())
    }

    pub(crate) fn books(&self) -> &Books {
        self.harness.app.world().resource::<Books>()
    }

    /// The chunks that are in memory, and those that are in the file.
    pub(crate) fn chunks(&self) -> (usize, usize) {
        let chunks = self.harness.app.world().resource::<Chunks>();
        (chunks.status().active, chunks.world().len())
    }
}

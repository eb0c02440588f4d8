//! A game that streams, for tests.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::sync::{Arc, Mutex};

use bevy_app::App;
use bevy_bonfire::chunks::{
    ChunkCells, ChunkFocus, ChunkOptions, ChunkPos, ChunkProblem, ChunkResidents, ChunkStreamPlugin,
    ChunkWorld, Chunks, InChunk, Layer, Layers, Persistence, PopulateChunk, StreamHarness, Streamed,
    WorldShape,
};
use bevy_bonfire::prelude::*;
use bevy_bonfire::store::Slots;
use bevy_ecs::prelude::*;
use bevy_transform::components::Transform;
use bonfire_chunks::{Access, Disk, MemoryDisk};
use bonfire_testkit::disk::FaultyDisk;

/// Cells along an edge of a chunk, which are units of the world.
pub const SIZE: u32 = 8;
pub const EDGE: f32 = SIZE as f32;

#[derive(Component, Persist, Clone, Debug, PartialEq)]
#[persist(key = "game.creature")]
pub struct Creature {
    pub id: u64,
    pub food: f32,
}

#[derive(Component, Persist, Clone, Debug, PartialEq)]
#[persist(key = "game.owner")]
pub struct Owner {
    pub of: Option<Entity>,
}

pub fn at([x, y]: [f32; 2]) -> Transform {
    Transform::from_xyz(x, y, 0.0)
}

pub fn options() -> ChunkOptions {
    let layers = Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always));
    let generator = |_: &WorldShape<'_>, pos: ChunkPos, cells: &mut [u8]| {
        cells.fill(generated(pos));
    };
    ChunkOptions::new(layers).chunk_size(SIZE as u16).seed(77).generator(generator)
}

/// Chunks of air above, and of stone (1) below.
pub fn air_and_stone() -> ChunkOptions {
    let layers = Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always));
    let generator = |_: &WorldShape<'_>, pos: ChunkPos, cells: &mut [u8]| {
        cells.fill(u8::from(pos.y < 0));
    };
    ChunkOptions::new(layers).chunk_size(SIZE as u16).seed(77).generator(generator)
}

pub fn open<D: Disk + Clone + 'static>(disk: &D) -> ChunkWorld {
    open_with(disk, options)
}

pub fn open_with<D: Disk + Clone + 'static>(disk: &D, options: fn() -> ChunkOptions) -> ChunkWorld {
    // A thread of a game that has ended may still finish its work.
    let begin = std::time::Instant::now();
    loop {
        match options().open_on(disk.clone(), "world.save", Access::Write) {
            Err(error) if error.is_conflict() && begin.elapsed().as_secs() < 20 => std::thread::yield_now(),
            opened => return opened.unwrap(),
        }
    }
}

/// The material of a chunk that nobody has dug in.
pub fn generated(pos: ChunkPos) -> u8 {
    (pos.x.rem_euclid(5) + 5 * pos.y.rem_euclid(3)) as u8
}

type Configure = fn(ChunkStreamPlugin) -> ChunkStreamPlugin;

/// A game without a window, on a disk in memory.
pub struct Game<D = FaultyDisk<MemoryDisk>> {
    pub harness: StreamHarness,
    pub disk: D,
    pub slots: Option<Slots>,
    configure: Configure,
    options: fn() -> ChunkOptions,
    problems: Arc<Mutex<Vec<ChunkProblem>>>,
}

impl Game {
    pub fn new() -> Self {
        Self::with(|plugin| plugin)
    }

    /// A game that generates a creature in the middle of each chunk.
    pub fn populated() -> Self {
        Self::with(ChunkStreamPlugin::populate)
    }

    pub fn with(configure: Configure) -> Self {
        Self::start(FaultyDisk::new(MemoryDisk::new()), None, configure)
    }

    /// A game in a world of air and stone.
    pub fn in_air() -> Self {
        Self::start_in(FaultyDisk::new(MemoryDisk::new()), None, |plugin| plugin, air_and_stone)
    }

    pub fn with_slots(slots: Slots) -> Self {
        Self::start(FaultyDisk::new(MemoryDisk::new()), Some(slots), |plugin| plugin)
    }
}

impl<D: Disk + Clone + 'static> Game<D> {
    pub fn start(disk: D, slots: Option<Slots>, configure: Configure) -> Self {
        Self::start_in(disk, slots, configure, options)
    }

    /// A game whose world has these options.
    pub fn start_in(
        disk: D,
        slots: Option<Slots>,
        configure: Configure,
        options: fn() -> ChunkOptions,
    ) -> Self {
        let mut app = App::new();
        if let Some(slots) = &slots {
            app.add_plugins(BonfirePlugin::new().slots(slots.clone()).autosave(Autosave::off()));
        }
        app.add_plugins(configure(ChunkStreamPlugin::new(open_with(&disk, options))));
        app.persist::<Creature>().persist::<Owner>();
        app.add_observer(|chunk: On<PopulateChunk>, mut commands: Commands| {
            let id = u64::from((chunk.pos.x + 1000).unsigned_abs()) << 32
                | u64::from((chunk.pos.y + 1000).unsigned_abs());
            let place = [chunk.corner[0] + 4.0, chunk.corner[1] + 4.0];
            commands.spawn((Streamed, Creature { id: 1 << 63 | id, food: 2.0 }, at(place)));
        });
        let problems = Arc::new(Mutex::new(Vec::new()));
        let told = problems.clone();
        app.add_observer(move |problem: On<ChunkProblem>| told.lock().unwrap().push(problem.clone()));
        app.finish();
        Self { harness: StreamHarness::new(app), disk, slots, configure, options, problems }
    }

    /// Ends the game as a crash does, and starts it again. What was not durable is gone with it.
    pub fn restart(self) -> Self {
        let Self { harness, disk, slots, configure, options, .. } = self;
        drop(harness);
        Self::start_in(disk, slots, configure, options)
    }

    pub fn world(&mut self) -> &mut World {
        self.harness.app.world_mut()
    }

    pub fn chunks(&self) -> &Chunks {
        self.harness.chunks()
    }

    pub fn problems(&self) -> Vec<ChunkProblem> {
        self.problems.lock().unwrap().clone()
    }

    pub fn frame(&mut self) {
        self.harness.app.update();
    }

    #[track_caller]
    pub fn settle(&mut self) {
        self.harness.settle();
    }

    /// A player who sees one chunk around their own.
    pub fn player(&mut self, place: [f32; 2]) -> Entity {
        self.world().spawn((ChunkFocus::new(1).unload_reach(1), at(place))).id()
    }

    /// Puts an entity somewhere, and lets the window settle.
    #[track_caller]
    pub fn move_to(&mut self, entity: Entity, place: [f32; 2]) {
        self.place(entity, place);
        self.settle();
    }

    pub fn place(&mut self, entity: Entity, place: [f32; 2]) {
        *self.world().get_mut::<Transform>(entity).unwrap() = at(place);
    }

    pub fn spawn(&mut self, id: u64, place: [f32; 2]) -> Entity {
        self.world().spawn((Streamed, Creature { id, food: 3.0 }, at(place))).id()
    }

    pub fn kill(&mut self, id: u64) {
        let entity = self.find(id).unwrap();
        self.world().despawn(entity);
        self.frame();
    }

    pub fn find(&mut self, id: u64) -> Option<Entity> {
        let mut query = self.world().query_filtered::<(Entity, &Creature), bevy_ecs::query::Allow<bevy_ecs::entity_disabling::Disabled>>();
        let found: Vec<Entity> = query
            .iter(self.harness.app.world())
            .filter(|(_, creature)| creature.id == id)
            .map(|(entity, _)| entity)
            .collect();
        assert!(found.len() <= 1, "creature {id} is there {} times", found.len());
        found.first().copied()
    }

    pub fn home(&mut self, id: u64) -> Option<ChunkPos> {
        let entity = self.find(id)?;
        self.world().get::<InChunk>(entity).map(|member| member.pos)
    }

    pub fn food(&mut self, id: u64) -> Option<f32> {
        let entity = self.find(id)?;
        self.world().get::<Creature>(entity).map(|creature| creature.food)
    }

    pub fn ids(&mut self) -> Vec<u64> {
        let mut query = self.world().query::<&Creature>();
        let mut ids: Vec<u64> = query.iter(self.harness.app.world()).map(|creature| creature.id).collect();
        ids.sort_unstable();
        ids
    }

    pub fn count(&mut self) -> usize {
        self.ids().len()
    }

    pub fn residents(&mut self, pos: (i32, i32)) -> usize {
        let chunk = self.chunks().entity(pos).unwrap();
        self.world().get::<ChunkResidents>(chunk).map_or(0, ChunkResidents::len)
    }

    pub fn dig(&mut self, [x, y]: [i32; 2], [cell_x, cell_y]: [u32; 2], material: u8) {
        let chunk = self.chunks().entity((x, y)).unwrap();
        self.world().get_mut::<ChunkCells>(chunk).unwrap().set(cell_x, cell_y, &[material]).unwrap();
    }

    /// Digs a cell of the world whose chunk is active.
    pub fn dig_cell(&mut self, (x, y): (i32, i32), material: u8) {
        let size = SIZE as i32;
        let inside = [x.rem_euclid(size) as u32, y.rem_euclid(size) as u32];
        self.dig([x.div_euclid(size), y.div_euclid(size)], inside, material);
    }

    pub fn cell(&mut self, [x, y]: [i32; 2], [cell_x, cell_y]: [u32; 2]) -> u8 {
        let chunk = self.chunks().entity((x, y)).unwrap();
        self.world().get::<ChunkCells>(chunk).unwrap().get(cell_x, cell_y).unwrap()[0]
    }

    /// Saves all chunks, and waits until they are durable.
    #[track_caller]
    pub fn save_chunks(&mut self) {
        let saved = self.world().resource_mut::<Chunks>().save();
        self.frame();
        saved.wait().unwrap();
        self.settle();
    }
}

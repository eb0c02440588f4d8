//! A world that streams: chunks with their creatures come and go around a player. Quicksave and quickload bring back cells,
//! creatures and the rest of the game, all of one moment.
//!
//! With a path, it writes a picture of the window there:
//!
//! ```sh
//! cargo run -p bevy_bonfire --features chunks --example streaming_chunks [window.png]
//! ```

use std::error::Error;

use bevy_app::{App, Update};
use bevy_bonfire::chunks::{
    ChunkCells, ChunkFocus, ChunkOptions, ChunkPos, ChunkStreamPlugin, Chunks, InChunk, Layer, Layers,
    Persistence, PopulateChunk, StreamHarness, Streamed, WorldShape,
};
use bevy_bonfire::prelude::*;
use bevy_bonfire::store::{MemoryStore, Slots};
use bevy_ecs::prelude::*;
use bevy_transform::components::Transform;

/// Cells along an edge of a chunk. A cell is one unit of the world.
const EDGE: f32 = 16.0;

/// The player is saved with the rest of the game. Each one that comes with a load is a focus again.
#[derive(Component, Persist)]
#[require(Saved, ChunkFocus = ChunkFocus::new(2))]
#[persist(key = "game.player")]
struct Player;

/// Every creature belongs to the chunk that it is in.
#[derive(Component, Persist)]
#[require(Streamed)]
#[persist(key = "game.creature")]
struct Creature {
    name: String,
    steps_left: u32,
}

#[derive(Resource, Persist, Default)]
#[persist(key = "game.day")]
struct Day(u32);

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let layers = Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always));
    let generator = |_: &WorldShape<'_>, pos: ChunkPos, cells: &mut [u8]| {
        cells.fill(u8::from(pos.y < 0)); // stone below, air above
    };
    let options = ChunkOptions::new(layers).chunk_size(EDGE as u16).seed(42).generator(generator);
    let world = options.open(directory.path().join("world.save"))?;

    let mut app = App::new();
    app.add_plugins(BonfirePlugin::new().slots(Slots::new(MemoryStore::new())))
        .add_plugins(ChunkStreamPlugin::new(world).populate())
        .persist::<Player>()
        .persist::<Creature>()
        .persist_resource::<Day>()
        .init_resource::<Day>()
        .add_observer(populate)
        .add_systems(Update, wander);
    let player = app.world_mut().spawn(Player).id();
    let mut game = StreamHarness::new(app);
    game.settle();
    println!("the player comes: {}", summary(&mut game));
    assert_eq!((game.chunks().status().active, count(&mut game)), (25, 25));

    set_cell(&mut game, 7)?; // a lamp where the player stands
    let runner = Creature { name: "runner".to_owned(), steps_left: 20 };
    game.app.world_mut().spawn((runner, Transform::from_xyz(1.0, 1.0, 0.0)));
    game.app.world_mut().resource_mut::<Day>().0 = 1;
    (0..20).for_each(|_| game.app.update());
    println!("the runner has crossed two borders: it is in chunk {}", chunk_of_runner(&mut game).unwrap());
    assert_eq!(chunk_of_runner(&mut game), Some((2, 0).into()));

    let saved = game.app.world_mut().resource_mut::<Saves>().save("quick");
    let handle = saved.clone();
    game.until(|_| handle.is_complete());
    println!("quicksave, with {} entity beside the chunks", saved.wait()?.entities);

    set_cell(&mut game, 9)?;
    game.app.world_mut().resource_mut::<Day>().0 = 2;
    game.app.world_mut().resource_mut::<Chunks>().add_named_ticket("home", (1, 1));
    game.walk(player, [-6.0 * EDGE, 0.0, 0.0], 4.0);
    draw(&mut game)?;
    game.walk(player, [-30.0 * EDGE, 0.0, 0.0], 4.0);
    game.settle();
    println!("far away: {}", summary(&mut game));
    assert!(chunk_of_runner(&mut game).is_none() && !game.chunks().is_active((0, 0)));
    assert!(game.chunks().is_active((1, 1)), "the ticket keeps it");

    let loaded = game.app.world_mut().resource_mut::<Saves>().load("quick");
    let handle = loaded.clone();
    game.until(|_| handle.is_complete());
    loaded.wait()?;
    game.settle(); // the player is where they were, and their chunks come
    println!("quickload: {}", summary(&mut game));
    assert_eq!((game.app.world().resource::<Day>().0, cell(&mut game)), (1, 7));
    assert_eq!(chunk_of_runner(&mut game), Some((2, 0).into()));
    assert_eq!((count(&mut game), game.chunks().named_tickets().count()), (26, 0), "each creature once");
    Ok(())
}

/// Generates a creature. It happens once for each chunk in the life of the world.
fn populate(chunk: On<PopulateChunk>, mut commands: Commands) {
    let sheep = Creature { name: format!("sheep of {}", chunk.pos), steps_left: 0 };
    let [x, y, _] = chunk.corner;
    commands.spawn((sheep, Transform::from_xyz(x + EDGE / 2.0, y + EDGE / 2.0, 0.0)));
}

fn wander(mut creatures: Query<(&mut Creature, &mut Transform)>) {
    for (mut creature, mut transform) in creatures.iter_mut().filter(|(creature, _)| creature.steps_left > 0)
    {
        creature.steps_left -= 1;
        transform.translation.x += 2.0;
    }
}

/// Changes a cell of the chunk where the player begins.
fn set_cell(game: &mut StreamHarness, material: u8) -> bevy_bonfire::Result<bool> {
    let chunk = game.chunks().entity((0, 0)).expect("it is in the window");
    game.app.world_mut().get_mut::<ChunkCells>(chunk).expect("it is active").set(3, 4, &[material])
}

fn cell(game: &mut StreamHarness) -> u8 {
    let chunk = game.chunks().entity((0, 0)).expect("it is in the window");
    game.app.world().get::<ChunkCells>(chunk).and_then(|cells| cells.get(3, 4)).expect("it is active")[0]
}

fn count(game: &mut StreamHarness) -> usize {
    let world = game.app.world_mut();
    world.query::<&Creature>().iter(world).count()
}

fn chunk_of_runner(game: &mut StreamHarness) -> Option<ChunkPos> {
    let world = game.app.world_mut();
    let mut creatures = world.query::<(&Creature, &InChunk)>();
    creatures.iter(world).find(|(creature, _)| creature.name == "runner").map(|(_, member)| member.pos)
}

fn summary(game: &mut StreamHarness) -> String {
    let (day, creatures) = (game.app.world().resource::<Day>().0, count(game));
    format!("day {day}, {} chunks, {creatures} creatures", game.chunks().status().active)
}

/// Writes a picture of the window, if there is a path to write it to.
fn draw(game: &mut StreamHarness) -> Result<(), Box<dyn Error>> {
    let Some(path) = std::env::args_os().nth(1) else { return Ok(()) };
    let mut chunks = game.app.world_mut().resource_mut::<Chunks>();
    let drawn = chunks.picture(0);
    game.app.update();
    let picture = drawn.wait()?.expect("there are chunks");
    let mut encoder = png::Encoder::new(std::fs::File::create(path)?, picture.width, picture.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header()?.write_image_data(&picture.pixels)?;
    Ok(())
}

//! Several dimensions in one app: squares and cubes, each with focuses and entities of its own, in one file and one moment.
#![cfg(feature = "chunks")]

mod streaming_support;

use std::time::Duration;

use bevy_app::App;
use bevy_bonfire::chunks::{
    ChunkFocus, ChunkPos, ChunkStreamPlugin, Chunks, Dimension, InChunk, InDimension, Layer, Layers,
    Persistence, Reach, StreamHarness, Streamed,
};
use bevy_bonfire::prelude::*;
use bevy_ecs::prelude::*;
use bevy_transform::components::Transform;
use bonfire_chunks::{Access, MemoryDisk};
use streaming_support::{Creature, options};

fn start(disk: &MemoryDisk) -> StreamHarness {
    let layers = || Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always));
    let squares = Dimension::new(layers()).chunk_size(16).seed(5);
    let cubes = Dimension::new(layers()).chunk_size(4).three_dimensional();
    let options = options().dimension(1, squares).dimension(2, cubes);
    let world = options.open_on(disk.clone(), "world.save", Access::Write).unwrap();
    let mut app = App::new();
    app.add_plugins(ChunkStreamPlugin::new(world));
    app.persist::<Creature>();
    StreamHarness::new(app)
}

fn home(game: &mut StreamHarness, entity: Entity) -> Option<ChunkPos> {
    game.app.world().get::<InChunk>(entity).map(|member| member.pos)
}

fn find(game: &mut StreamHarness, id: u64) -> Option<Entity> {
    let mut query = game.app.world_mut().query::<(Entity, &Creature)>();
    query.iter(game.app.world()).find(|(_, creature)| creature.id == id).map(|(entity, _)| entity)
}

#[test]
fn each_dimension_has_its_own_chunks_and_entities_move_between_them() {
    let disk = MemoryDisk::new();
    let mut game = start(&disk);
    let world = game.app.world_mut();
    world.spawn((ChunkFocus::new(1), Transform::default()));
    world.spawn((ChunkFocus::new(0), Transform::from_xyz(40.0, 0.0, 0.0), InDimension(1)));
    let flat = Reach { x: 1, y: 1, z: 0 };
    let diver =
        world.spawn((ChunkFocus::new(flat), Transform::from_xyz(1.0, 1.0, -9.0), InDimension(2))).id();
    game.settle();
    let active = |game: &StreamHarness, dimension: u32| {
        game.chunks().phases().filter(|(pos, _)| pos.dimension == dimension).count()
    };
    assert_eq!([0, 1, 2].map(|dimension| active(&game, dimension)), [9, 1, 9]);
    assert!(game.chunks().is_active(ChunkPos::new(2, 0).in_dimension(1)));
    assert!(game.chunks().is_active(ChunkPos::new_3d(-1, 1, -3).in_dimension(2)));
    let creature = |id| Creature { id, food: 1.0 };
    let place = Transform::from_xyz(3.0, 3.0, -9.5);
    let goat = game.app.world_mut().spawn((Streamed, creature(1), place)).id();
    let fish = game.app.world_mut().spawn((Streamed, creature(2), place, InDimension(2))).id();
    game.settle();
    assert_eq!(home(&mut game, goat), Some((0, 0).into()), "a third coordinate means nothing there");
    assert_eq!(home(&mut game, fish), Some(ChunkPos::new_3d(0, 0, -3).in_dimension(2)));
    // The goat falls into the sea, and both sink out of sight.
    game.app.world_mut().entity_mut(goat).insert(InDimension(2));
    game.settle();
    assert_eq!(home(&mut game, goat), home(&mut game, fish));
    game.app.world_mut().get_mut::<Transform>(diver).unwrap().translation.z = 90.0;
    game.settle();
    assert_eq!((find(&mut game, 1), find(&mut game, 2)), (None, None));
    drop(game);
    let mut game = start(&disk);
    game.app.world_mut().spawn((ChunkFocus::new(0), Transform::from_xyz(1.0, 1.0, -9.0), InDimension(2)));
    game.settle();
    assert!(find(&mut game, 1).is_some() && find(&mut game, 2).is_some());
    let stored = game.chunks().world().chunks_with_entities(bevy_bonfire::chunks::ChunkRect::of_dimension(0));
    let goats = stored.iter().filter(|pos| {
        let bytes = game.chunks().world().read_entities(**pos).unwrap().unwrap();
        bevy_bonfire::Snapshot::open(&bytes).unwrap().entity_count() > 0
    });
    assert_eq!(goats.count(), 0, "it is in one dimension only");
}

#[test]
fn a_focus_that_moves_loads_what_lies_ahead() {
    let mut game = start(&MemoryDisk::new());
    let focus = ChunkFocus::new(1).look_ahead(Duration::from_secs(1000));
    let player = game.app.world_mut().spawn((focus, Transform::default())).id();
    game.settle();
    assert!(game.chunks().phase((4, 0)).is_none(), "it stands still");
    for step in 1..6 {
        std::thread::sleep(Duration::from_millis(2));
        game.app.world_mut().get_mut::<Transform>(player).unwrap().translation.x = step as f32;
        game.app.update();
    }
    let far = |app: &mut App| app.world().resource::<Chunks>().phases().any(|(pos, _)| pos.x > 4);
    assert!(far(&mut game.app));
}

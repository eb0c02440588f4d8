//! Worlds that another game has written are imported, walked through from end to end, and are what they were, bodies included.
#![cfg(feature = "chunks")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bevy_app::App;
use bevy_bonfire::chunks::{
    Body, BodyId, ChunkFocus, ChunkOptions, ChunkPos, ChunkProblem, ChunkRect, ChunkStreamPlugin, ChunkWorld,
    InChunk, PixelBody, StreamHarness, WorldShape,
};
use bevy_ecs::message::Messages;
use bevy_transform::components::Transform;
use bonfire_chunks::import::pixel_world::{Mode, PixelWorld};

/// Cells along an edge of a chunk of that game.
const EDGE: f32 = 512.0;

fn fixture(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/foreign/pixel_world").join(file)
}

/// The terrain that the golden files were made with.
fn generate(_: &WorldShape<'_>, pos: ChunkPos, cells: &mut [u8]) {
    for (at, cell) in (0..).zip(cells.chunks_exact_mut(4)) {
        let (x, y) = (pos.x * 512 + at % 512, pos.y * 512 + at / 512);
        let ground = 256 + (x.rem_euclid(64) - 32).abs();
        let mut hash = (x as u32).wrapping_mul(0x9E37_79B1) ^ (y as u32).wrapping_mul(0x85EB_CA77);
        hash ^= hash >> 15;
        hash = hash.wrapping_mul(0x2C1B_3C6D);
        hash ^= hash >> 12;
        cell.copy_from_slice(&match y {
            y if y < ground - 50 => [3, (hash & 3) as u8, 0, 2],
            y if y < ground => [2, (hash & 3) as u8, 0, 2],
            _ => [0; 4],
        });
    }
}

/// All that a world stores: cells, and bodies with the chunk that they are in.
#[derive(Debug, PartialEq)]
struct Content {
    cells: BTreeMap<ChunkPos, Vec<u8>>,
    bodies: BTreeMap<BodyId, (ChunkPos, Body)>,
}

impl Content {
    fn of(world: &ChunkWorld) -> Self {
        let places = world.range(ChunkRect::ALL).into_iter();
        let cells = places.map(|pos| (pos, world.read(pos).unwrap().unwrap())).collect();
        let mut bodies = BTreeMap::new();
        for pos in world.chunks_with_bodies(ChunkRect::ALL) {
            bodies.extend(world.read_bodies(pos).unwrap().into_iter().map(|body| (body.id, (pos, body))));
        }
        Self { cells, bodies }
    }
}

fn open(path: &Path, options: &ChunkOptions) -> ChunkWorld {
    options.clone().open(path).unwrap()
}

#[test]
fn an_imported_world_walks_from_end_to_end_and_is_what_it_was() {
    let mut bodies_seen = 0;
    for file in ["a2_zero_delta.save", "a3_no_chunks.save", "a4_small10.save", "b_bodies.save"] {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("world");
        let foreign = PixelWorld::open(fixture(file), Mode::Strict).unwrap();
        let options = foreign.options().generator(generate);
        foreign.write(&path, &options).unwrap();
        let before = Content::of(&open(&path, &options));
        assert_eq!(before.bodies.len(), foreign.bodies.len(), "{file}");

        let mut app = App::new();
        app.add_plugins(ChunkStreamPlugin::new(open(&path, &options)));
        let mut game = StreamHarness::new(app);
        let player =
            game.app.world_mut().spawn((ChunkFocus::new(0).unload_reach(0), Transform::default())).id();
        let places: Vec<ChunkPos> =
            before.cells.keys().copied().chain(before.bodies.values().map(|(pos, _)| *pos)).collect();
        let along = |of: fn(&ChunkPos) -> i32| {
            let (min, max) = (places.iter().map(of).min(), places.iter().map(of).max());
            min.unwrap_or(0)..=max.unwrap_or(0) + 2
        };
        let mut seen: BTreeMap<BodyId, (ChunkPos, Body)> = BTreeMap::new();
        for y in along(|pos| pos.y) {
            for x in along(|pos| pos.x) {
                let mut place = game.app.world_mut().get_mut::<Transform>(player).unwrap();
                *place = Transform::from_xyz((x as f32 + 0.5) * EDGE, (y as f32 + 0.5) * EDGE, 0.0);
                game.settle();
                let world = game.app.world_mut();
                for (body, member) in world.query::<(&PixelBody, &InChunk)>().iter(world) {
                    seen.insert(body.id, (member.pos, Body::clone(body)));
                }
            }
        }
        assert_eq!(seen, before.bodies, "{file}");
        bodies_seen += seen.len();
        let problems: Vec<ChunkProblem> =
            game.app.world_mut().resource_mut::<Messages<ChunkProblem>>().drain().collect();
        assert!(problems.is_empty(), "{file}: {problems:?}");
        drop(game);
        let begin = std::time::Instant::now();
        let world = loop {
            match options.clone().open(&path) {
                // Threads of the game may still end.
                Err(error) if error.is_conflict() && begin.elapsed().as_secs() < 20 => {
                    std::thread::yield_now();
                }
                opened => break opened.unwrap(),
            }
        };
        assert_eq!(Content::of(&world), before, "{file}");
    }
    assert!(bodies_seen > 5);
}

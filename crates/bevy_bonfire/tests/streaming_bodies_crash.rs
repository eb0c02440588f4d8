//! Cells that move between bodies and the ground, and the machine stops in the middle of saving both: in every state that a crash
//! can leave, each of them is in one place. There are no slots here, which would go back to a whole moment.
#![cfg(feature = "chunks")]

mod streaming_support;

use std::time::Duration;

use bevy_bonfire::chunks::{Body, ChunkCells, ChunkPos, ChunkRect, ChunkWorld, PixelBody, Streamed};
use bevy_ecs::prelude::*;
use bonfire_testkit::disk::{CrashDisk, Explorer};
use streaming_support::{EDGE, Game, SIZE, air_and_stone, at, open_with};

const WOOD: u8 = 7;

/// A game whose chunks leave one by one, in an edit each unless they have exchanged something.
fn game() -> Game<CrashDisk> {
    Game::start_in(CrashDisk::new(), None, |plugin| plugin.budget(Duration::ZERO), air_and_stone)
}

fn drawn(game: &mut Game<CrashDisk>) -> usize {
    let mut chunks = game.world().query::<&ChunkCells>();
    chunks.iter(game.harness.app.world()).map(|chunk| chunk.drawn_cells()).sum()
}

fn bodies(world: &ChunkWorld) -> Vec<Body> {
    let places = world.chunks_with_bodies(ChunkRect::ALL).into_iter();
    places.flat_map(|pos| world.read_bodies(pos).unwrap()).collect()
}

/// A cell of the ground, as the file has it.
fn stored(world: &ChunkWorld, (x, y): (i32, i32)) -> u8 {
    let size = SIZE as i32;
    let chunk = world.load(ChunkPos::new(x.div_euclid(size), y.div_euclid(size))).unwrap();
    chunk.get(x.rem_euclid(size) as u32, y.rem_euclid(size) as u32).unwrap()[0]
}

/// Saves everything, lets `exchange` happen, and has all chunks leave. Then looks at every state that a crash can leave since, and
/// returns how many of them had and had not the exchange.
fn explore(
    body: PixelBody,
    exchange: impl Fn(&mut Game<CrashDisk>, Option<Entity>),
    is_done: impl Fn(&ChunkWorld) -> bool,
) {
    let mut game = game();
    let player = game.player([4.0, 4.0]);
    game.settle();
    let entity = (!body.is_empty()).then(|| game.world().spawn((body, Streamed, at([8.0, 4.0]))).id());
    game.settle();
    game.save_chunks();
    let begin = game.disk.operation_count();
    exchange(&mut game, entity);
    // The plugin looks once more while the chunks are there.
    game.frame();
    game.frame();
    game.move_to(player, [40.0 * EDGE, 4.0]);
    assert_eq!(drawn(&mut game), 0);
    let (mut before, mut after) = (0, 0);
    let mut explorer = Explorer::new(5);
    for point in game.disk.crash_points().skip(begin) {
        for state in explorer.states(&point, 2) {
            let world = open_with(&state.crash_disk(), air_and_stone);
            match is_done(&world) {
                true => after += 1,
                false => before += 1,
            }
        }
    }
    assert!(before > 0 && after > 0, "{before} before, {after} after");
}

fn crate_of_wood() -> PixelBody {
    PixelBody::new([4, 4], vec![WOOD; 16])
}

/// The number of cells of each body, sorted.
fn sizes(world: &ChunkWorld) -> Vec<usize> {
    let mut sizes: Vec<usize> = bodies(world).iter().map(Body::solid_cells).collect();
    sizes.sort_unstable();
    sizes
}

// The body lies over the border of chunks 0 and 1, and belongs to 1.

#[test]
fn what_falls_into_a_body_and_what_the_body_loses_are_saved_in_one_step() {
    let stone_falls = |game: &mut Game<CrashDisk>, _| game.dig_cell((6, 4), 9);
    explore(crate_of_wood(), stone_falls, |world| {
        let is_stone = stored(world, (6, 4)) == 9;
        assert_eq!(sizes(world), [if is_stone { 15 } else { 16 }]);
        is_stone
    });
}

#[test]
fn what_the_game_takes_from_a_body_and_puts_on_the_ground_is_saved_in_one_step() {
    let crumble = |game: &mut Game<CrashDisk>, body: Option<Entity>| {
        assert!(game.world().get_mut::<PixelBody>(body.unwrap()).unwrap().remove_cell(0, 0));
        game.dig_cell((1, 1), WOOD);
    };
    explore(crate_of_wood(), crumble, |world| {
        let is_on_ground = stored(world, (1, 1)) == WOOD;
        assert_eq!(sizes(world), [if is_on_ground { 15 } else { 16 }]);
        is_on_ground
    });
}

#[test]
fn ground_that_becomes_a_body_is_saved_in_one_step() {
    let nothing = PixelBody::new([0, 0], Vec::new());
    let make = |game: &mut Game<CrashDisk>, _| {
        // Stone of both chunks. The body belongs to the right one.
        for cell in [(7, -2), (8, -2), (7, -1), (8, -1)] {
            game.dig_cell(cell, 0);
        }
        game.world().spawn((PixelBody::new([2, 2], vec![1; 4]), Streamed, at([8.0, -1.0])));
    };
    explore(nothing, make, |world| {
        let stone =
            [(7, -2), (8, -2), (7, -1), (8, -1)].iter().filter(|cell| stored(world, **cell) == 1).count();
        let is_body = sizes(world) == [4];
        assert_eq!((stone, sizes(world).len()), if is_body { (0, 1) } else { (4, 0) });
        is_body
    });
}

#[test]
fn fragments_in_another_chunk_are_saved_with_the_rest_of_the_body() {
    let saw = |game: &mut Game<CrashDisk>, body: Option<Entity>| {
        for y in 0..4 {
            assert!(game.world().get_mut::<PixelBody>(body.unwrap()).unwrap().remove_cell(1, y));
        }
    };
    explore(crate_of_wood(), saw, |world| {
        let all = sizes(world);
        assert!(all == [16] || all == [4, 8], "{all:?}");
        all.len() == 2
    });
}

#[test]
fn a_body_that_rolls_into_another_chunk_is_in_one_of_them() {
    let roll = |game: &mut Game<CrashDisk>, body: Option<Entity>| {
        game.place(body.unwrap(), [6.0, 4.0]);
    };
    explore(crate_of_wood(), roll, |world| {
        let all = bodies(world);
        assert_eq!(all.len(), 1);
        all[0].position == [6.0, 4.0]
    });
}

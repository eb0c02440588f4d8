//! Pixel bodies in a world that streams: each is somewhere exactly once, drawn where it is, and saved where it was drawn.
#![cfg(feature = "chunks")]

mod streaming_support;

use std::collections::BTreeSet;

use bevy_bonfire::chunks::{
    BodyChange, BodyChanged, BodyId, ChunkCells, ChunkFocus, ChunkPos, ChunkProblem, Chunks, InChunk,
    LostCell, PixelBody, Roaming, Streamed,
};
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::message::Messages;
use bevy_ecs::prelude::*;
use bevy_ecs::query::Allow;
use bevy_transform::components::Transform;
use bonfire_chunks::{Body, ChunkRect};
use bonfire_testkit::disk::{Call, Fault, FaultyDisk, Plan, Repeat};
use streaming_support::{Creature, EDGE, Game, SIZE, air_and_stone, at};

const WOOD: u8 = 7;

/// A square of wood, two cells to each side.
fn crate_of_wood() -> PixelBody {
    PixelBody::new([4, 4], vec![WOOD; 16])
}

trait Bodies {
    fn body(&mut self, bundle: impl Bundle, place: [f32; 2]) -> Entity;
    fn bodies(&mut self) -> Vec<(Entity, Body)>;
    fn only_body(&mut self) -> (Entity, Body);
    fn drawn(&mut self) -> BTreeSet<(i32, i32)>;
    fn is_disabled(&mut self, entity: Entity) -> bool;
    fn changes(&mut self) -> Vec<BodyChange>;
    fn stored(&mut self) -> Vec<(ChunkPos, Body)>;
}

impl Bodies for Game {
    fn body(&mut self, bundle: impl Bundle, place: [f32; 2]) -> Entity {
        self.world().spawn((crate_of_wood(), at(place), bundle)).id()
    }

    fn bodies(&mut self) -> Vec<(Entity, Body)> {
        let mut query = self.world().query_filtered::<(Entity, &PixelBody), Allow<Disabled>>();
        query.iter(self.harness.app.world()).map(|(entity, body)| (entity, Body::clone(body))).collect()
    }

    #[track_caller]
    fn only_body(&mut self) -> (Entity, Body) {
        let mut bodies = self.bodies();
        assert_eq!(bodies.len(), 1);
        bodies.remove(0)
    }

    /// Cells of the world that show wood. All of them are drawn.
    fn drawn(&mut self) -> BTreeSet<(i32, i32)> {
        let mut found = BTreeSet::new();
        let mut chunks = self.world().query::<&ChunkCells>();
        for chunk in chunks.iter(self.harness.app.world()) {
            let corner = (chunk.pos().x * SIZE as i32, chunk.pos().y * SIZE as i32);
            for (x, y) in (0..SIZE).flat_map(|y| (0..SIZE).map(move |x| (x, y))) {
                let is_wood = chunk.get(x, y) == Some(&[WOOD]);
                assert_eq!(is_wood, chunk.is_drawn(x, y), "a ghost in chunk {}", chunk.pos());
                found.extend(is_wood.then_some((corner.0 + x as i32, corner.1 + y as i32)));
            }
        }
        found
    }

    fn is_disabled(&mut self, entity: Entity) -> bool {
        self.world().get::<Disabled>(entity).is_some()
    }

    fn changes(&mut self) -> Vec<BodyChange> {
        let mut messages = self.world().resource_mut::<Messages<BodyChanged>>();
        messages.drain().map(|message| message.change).collect()
    }

    /// What the file has.
    fn stored(&mut self) -> Vec<(ChunkPos, Body)> {
        let world = self.chunks().world().clone();
        let places = world.chunks_with_bodies(ChunkRect::ALL);
        let bodies = |pos: ChunkPos| world.read_bodies(pos).unwrap().into_iter().map(move |body| (pos, body));
        places.into_iter().flat_map(bodies).collect()
    }
}

fn square([x, y]: [i32; 2]) -> BTreeSet<(i32, i32)> {
    (y - 2..y + 2).flat_map(|y| (x - 2..x + 2).map(move |x| (x, y))).collect()
}

#[test]
fn a_body_is_drawn_saved_with_its_chunk_and_comes_back_as_it_was() {
    let mut game = Game::in_air();
    let player = game.player([0.0, 0.0]);
    game.settle();
    let name = Creature { id: 5, food: 1.5 };
    let body = game.body((Streamed, name.clone()), [4.0, 4.0]);
    game.world().get_mut::<PixelBody>(body).unwrap().set_velocity([1.0, -2.0], 0.5);
    game.world().get_mut::<PixelBody>(body).unwrap().set_extension(b"burning".to_vec());
    game.world().get_mut::<Transform>(body).unwrap().translation.z = 3.0;
    game.settle();
    assert_eq!(game.drawn(), square([4, 4]));
    assert_eq!(game.world().get::<InChunk>(body).unwrap().pos, (0, 0).into());
    let before = game.only_body().1;
    assert_ne!(before.id, BodyId(0));

    game.move_to(player, [20.0 * EDGE, 0.0]);
    assert!(game.bodies().is_empty() && game.drawn().is_empty());
    assert_eq!(game.stored(), [((0, 0).into(), before.clone())]);
    let file = game.chunks().world().clone();
    assert!(file.read((0, 0)).unwrap().is_none(), "the chunk has no cell of the body, so it is as generated");

    game.move_to(player, [0.0, 0.0]);
    let (entity, after) = game.only_body();
    assert_eq!(after, before);
    assert_eq!(game.drawn(), square([4, 4]));
    assert_eq!(game.world().get::<Creature>(entity), Some(&name), "its other components are saved, too");
    assert!(!game.is_disabled(entity) && game.problems().is_empty());

    // Nothing has changed, so nothing is saved.
    let generation = game.chunks().world().info().generation;
    game.move_to(player, [20.0 * EDGE, 0.0]);
    assert_eq!(game.chunks().world().info().generation, generation);
}

#[test]
fn what_is_saved_is_the_drawn_place_and_not_the_one_that_physics_has() {
    let mut game = Game::in_air();
    game.player([0.0, 0.0]);
    game.settle();
    let body = game.body(Streamed, [4.0, 4.0]);
    game.settle();
    // After the plugin has drawn, and before slots save: the end of the frame.
    game.harness.app.add_systems(
        bevy_app::Last,
        (move |mut places: Query<&mut Transform, With<PixelBody>>| {
            places.get_mut(body).unwrap().translation.x += 1.0;
        })
        .after(bevy_bonfire::chunks::ChunkSystems),
    );
    let saved = game.world().resource_mut::<Chunks>().save();
    game.frame();
    saved.wait().unwrap();
    assert_eq!(game.stored()[0].1.position, [4.0, 4.0]);
    assert_eq!(game.world().get::<Transform>(body).unwrap().translation.x, 5.0);
    game.frame();
    assert_eq!(game.drawn(), square([5, 4]));
}

#[test]
fn a_body_that_rolls_is_drawn_anew_and_leaves_nothing_behind() {
    let mut game = Game::in_air();
    game.player([0.0, 0.0]);
    game.settle();
    let body = game.body(Streamed, [4.0, 4.0]);
    for step in 0..60 {
        game.frame();
        let mut place = game.world().get_mut::<Transform>(body).unwrap();
        place.translation.x += if step < 30 { 0.37 } else { -0.61 };
        place.rotate_z(0.21);
    }
    let mut place = game.world().get_mut::<Transform>(body).unwrap();
    *place = at([-3.0, 5.0]);
    game.settle();
    assert_eq!(game.drawn(), square([-3, 5]));
    assert_eq!(game.world().get::<InChunk>(body).unwrap().pos, (-1, 0).into());
    game.save_chunks();
    assert_eq!(game.stored().len(), 1);
    assert_eq!(game.stored()[0].0, (-1, 0).into());
    game.world().despawn(body);
    game.settle();
    assert!(game.drawn().is_empty());
    game.save_chunks();
    assert!(game.stored().is_empty());
}

#[test]
fn terrain_is_never_drawn_over() {
    let mut game = Game::in_air();
    game.player([0.0, 0.0]);
    game.settle();
    game.dig([0, 0], [4, 4], 3);
    game.body(Streamed, [4.0, 4.0]);
    game.settle();
    assert_eq!(game.drawn().len(), 15);
    assert_eq!(game.cell([0, 0], [4, 4]), 3);
    assert_eq!(game.only_body().1.solid_cells(), 16, "the body is whole, and hidden there");
    game.dig([0, 0], [4, 4], 0);
    game.frame();
    assert_eq!(game.drawn(), square([4, 4]), "it shows as soon as the terrain is gone");
    let front = game.only_body().0;
    game.body(Streamed, [6.0, 4.0]);
    game.frame();
    assert_eq!(game.drawn().len(), 24);
    game.place(front, [-4.0, 4.0]);
    game.frame();
    assert_eq!(game.drawn().len(), 32, "a body shows as soon as another one is out of the way");
}

#[test]
fn a_body_without_the_mark_is_drawn_never_saved_and_gone_with_its_chunk() {
    let mut game = Game::in_air();
    let player = game.player([0.0, 0.0]);
    game.settle();
    let body = game.body((), [4.0, 4.0]);
    let runner = game.body((), [0.0, 20.0]);
    game.settle();
    assert_eq!(game.drawn().len(), 16, "the other one is where nothing is loaded");
    game.place(body, [3.0, 4.0]);
    game.settle();
    assert_eq!(game.drawn(), square([3, 4]));
    game.place(runner, [4.0, 12.0]);
    game.settle();
    assert_eq!(game.drawn().len(), 32);
    game.place(runner, [4.0, 100.0]);
    game.settle();
    assert!(game.world().get_entity(runner).is_err(), "it has left what is loaded");
    game.save_chunks();
    game.move_to(player, [20.0 * EDGE, 0.0]);
    assert!(game.bodies().is_empty() && game.stored().is_empty());
    game.move_to(player, [0.0, 0.0]);
    assert!(game.bodies().is_empty() && game.drawn().is_empty());
}

#[test]
fn an_empty_body_is_removed_and_never_spawned() {
    let mut game = Game::in_air();
    let player = game.player([0.0, 0.0]);
    game.settle();
    let body = game.body(Streamed, [4.0, 4.0]);
    game.settle();
    game.save_chunks();
    assert_eq!(game.stored().len(), 1);
    // The last cells are dug in the chunk.
    game.changes();
    for (x, y) in square([4, 4]) {
        game.dig_cell((x, y), 0);
    }
    game.frame();
    assert!(game.world().get_entity(body).is_err());
    let changes = game.changes();
    assert!(
        matches!(&changes[..], [BodyChange::LostCells(lost), BodyChange::Gone] if lost.len() == 16),
        "{changes:?}"
    );
    game.save_chunks();
    assert!(game.stored().is_empty());
    game.move_to(player, [20.0 * EDGE, 0.0]);
    game.move_to(player, [0.0, 0.0]);
    assert!(game.bodies().is_empty() && game.drawn().is_empty());
}

#[test]
fn cells_that_are_dug_are_lost_and_fragments_have_new_ids() {
    let mut game = Game::in_air();
    let player = game.player([0.0, 0.0]);
    game.settle();
    let body = game.body(Streamed, [6.0, 4.0]);
    game.settle();
    let id = game.only_body().1.id;
    game.changes();
    // A saw from top to bottom, one column off the middle.
    for y in 2..6 {
        game.dig_cell((5, y), 0);
    }
    game.frame();
    let changes = game.changes();
    let [BodyChange::LostCells(lost), BodyChange::Broke(come)] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!((lost.len(), come.len()), (4, 1));
    game.settle();
    let bodies = game.bodies();
    let ids: BTreeSet<BodyId> = bodies.iter().map(|(_, body)| body.id).collect();
    assert_eq!((bodies.len(), ids.len()), (2, 2));
    let sizes = |bodies: &[(Entity, Body)]| {
        let mut sizes: Vec<(bool, usize)> =
            bodies.iter().map(|(_, body)| (body.id == id, body.solid_cells())).collect();
        sizes.sort_unstable();
        sizes
    };
    assert_eq!(sizes(&bodies), [(false, 4), (true, 8)], "the largest part is still the body");
    assert_eq!(game.drawn().len(), 12);
    assert!(game.world().get::<Streamed>(come[0]).is_some() && come[0] != body);
    game.move_to(player, [20.0 * EDGE, 0.0]);
    assert_eq!(game.stored().len(), 2);
    game.move_to(player, [0.0, 0.0]);
    let after = game.bodies();
    assert_eq!((sizes(&after), game.drawn().len()), (sizes(&bodies), 12));
}

#[test]
fn cells_that_the_game_has_taken_itself_are_not_lost_once_more() {
    let mut game = Game::in_air();
    game.player([0.0, 0.0]);
    game.settle();
    let body = game.body(Streamed, [4.0, 4.0]);
    game.settle();
    game.changes();
    // In one frame, a shot takes a cell of the body, and a digger takes it and its neighbour in the chunk.
    assert!(game.world().get_mut::<PixelBody>(body).unwrap().remove_cell(0, 0));
    game.dig_cell((2, 2), 0);
    game.dig_cell((3, 2), 0);
    game.frame();
    assert_eq!(game.changes(), [BodyChange::LostCells(vec![LostCell { at: [1, 0], cell: vec![WOOD] }])]);
    // Nothing is told if the body had lost all of them.
    assert!(game.world().get_mut::<PixelBody>(body).unwrap().remove_cell(0, 1));
    game.dig_cell((2, 3), 0);
    game.frame();
    assert!(game.changes().is_empty());
    assert_eq!((game.only_body().1.solid_cells(), game.drawn().len()), (13, 13));
}

#[test]
fn ids_of_a_later_session_are_others() {
    let mut game = Game::in_air();
    game.player([0.0, 0.0]);
    game.settle();
    game.body(Streamed, [4.0, 4.0]);
    game.settle();
    let first = game.only_body().1.id;
    game.save_chunks();
    let mut game = game.restart();
    game.player([0.0, 0.0]);
    game.settle();
    game.body(Streamed, [12.0, 4.0]);
    game.settle();
    let ids: BTreeSet<BodyId> = game.bodies().into_iter().map(|(_, body)| body.id).collect();
    assert!(ids.len() == 2 && ids.contains(&first));
}

#[test]
fn a_body_over_a_border_keeps_what_it_touches_and_waits_until_it_is_there() {
    let mut game = Game::in_air();
    // Chunks 0 to 2 are loaded. The body is in 2, and reaches into 3.
    let player = game.player([12.0, 4.0]);
    game.settle();
    assert!(!game.chunks().is_active((3, 0)));
    let body = game.body(Streamed, [23.0, 4.0]);
    game.frame();
    assert!(game.is_disabled(body), "its ground is not there");
    game.settle();
    assert!(game.chunks().is_active((3, 0)) && !game.is_disabled(body));
    assert_eq!(game.drawn(), square([23, 4]));

    // A second body in a chunk that is only held reaches into 4: it holds nothing.
    game.move_to(player, [4.0, 4.0]);
    assert!(game.chunks().is_active((3, 0)), "held by the first one, whose chunk is kept");
    let other = game.body(Streamed, [31.0, 4.0]);
    game.settle();
    assert!(!game.chunks().is_active((4, 0)) && game.is_disabled(other));
    assert_eq!(game.drawn().len(), 16 + 12, "the part of it in chunk 3 is seen");
    game.save_chunks();
    let places: Vec<ChunkPos> = game.stored().into_iter().map(|(pos, _)| pos).collect();
    assert_eq!(places, [(2, 0).into(), (3, 0).into()], "each belongs to the chunk of its centre");

    // It wakes where its chunk is kept, and all is gone when nothing is.
    game.move_to(player, [12.0, 4.0]);
    assert!(game.chunks().is_active((4, 0)) && !game.is_disabled(other));
    game.move_to(player, [4.0, 4.0]);
    assert!(!game.chunks().is_active((4, 0)) && game.is_disabled(other), "its ground has left");
    game.move_to(player, [12.0, 4.0]);
    game.move_to(player, [12.0, 100.0 * EDGE]);
    assert_eq!(game.chunks().status().active, 9);
    assert!(game.bodies().is_empty() && game.drawn().is_empty());
    game.move_to(player, [12.0, 4.0]);
    assert_eq!((game.bodies().len(), game.drawn().len()), (2, 32));
}

#[test]
fn a_body_that_rolls_into_a_chunk_that_is_not_loaded_is_saved_there() {
    let mut game = Game::in_air();
    game.player([4.0, 4.0]);
    game.settle();
    let body = game.body(Streamed, [12.0, 4.0]);
    game.settle();
    game.place(body, [100.0, 4.0]);
    game.settle();
    assert!(game.bodies().is_empty() && game.drawn().is_empty());
    let stored = game.stored();
    assert_eq!((stored.len(), stored[0].0, stored[0].1.position), (1, (12, 0).into(), [100.0, 4.0]));
}

#[test]
fn a_body_that_rolls_out_of_the_window_while_it_is_disabled_is_saved() {
    let mut game = Game::in_air();
    let player = game.player([4.0, 4.0]);
    game.settle();
    let body = game.body(Streamed, [12.0, 4.0]);
    game.settle();
    // The game disables it, and its physics has moved it on.
    game.world().entity_mut(body).insert(Disabled);
    game.place(body, [14.0, 6.0]);
    game.frame();
    game.move_to(player, [-20.0 * EDGE, 4.0]);
    assert!(game.bodies().is_empty());
    let stored = game.stored();
    assert_eq!((stored.len(), stored[0].1.position), (1, [14.0, 6.0]));
    game.move_to(player, [4.0, 4.0]);
    let (body, _) = game.only_body();
    assert!(game.is_disabled(body), "as the game has left it");
    assert_eq!(game.drawn(), square([14, 6]));
}

#[test]
fn a_duplicate_waits_until_the_other_one_is_gone() {
    let mut game = Game::in_air();
    let player = game.player([4.0, 4.0]);
    game.settle();
    let first = game.body(Streamed, [4.0, 4.0]);
    game.settle();
    let twin = game.only_body().1;
    game.move_to(player, [20.0 * EDGE, 4.0]);
    // The game makes a body with the same id elsewhere.
    let place = [20.0 * EDGE, 4.0];
    let second = game.world().spawn((PixelBody::from(twin.clone()), Streamed, at(place))).id();
    game.settle();
    game.world().spawn((ChunkFocus::new(0).unload_reach(1), at([4.0, 4.0])));
    game.settle();
    let problems = game.problems();
    assert!(
        problems
            .iter()
            .any(|problem| matches!(problem, ChunkProblem::DuplicateBody { id, .. } if *id == twin.id)),
        "{problems:?}"
    );
    assert_eq!((game.bodies().len(), game.drawn().len()), (2, 16), "it waits, and is not drawn");
    let neighbour = game.body(Streamed, [-4.0, 4.0]);
    game.settle();
    game.place(neighbour, [2.0, -4.0]);
    game.place(neighbour, [2.0, 4.0]);
    game.settle();
    game.save_chunks();
    let homes: Vec<ChunkPos> =
        game.stored().into_iter().filter(|(_, body)| body.id == twin.id).map(|(pos, _)| pos).collect();
    assert_eq!(homes, [(20, 0).into()], "the file has it once");
    game.world().despawn(neighbour);
    game.world().despawn(second);
    game.settle();
    let (entity, body) = game.only_body();
    assert!(!game.is_disabled(entity) && body == twin && entity != first);
    assert_eq!(game.drawn(), square([4, 4]));
    game.save_chunks();
    assert_eq!(game.stored(), [((0, 0).into(), twin)]);
}

#[test]
fn a_body_that_the_chunk_loses_cells_to_is_saved_with_it() {
    let mut game = Game::in_air();
    let player = game.player([4.0, 4.0]);
    game.settle();
    game.body(Streamed, [8.0, 4.0]);
    game.settle();
    game.save_chunks();
    // Stone falls into the half of the body that is in chunk 0; its own chunk is 1. Only chunk 0 leaves.
    game.dig([0, 0], [6, 4], 9);
    game.frame();
    assert_eq!(game.only_body().1.solid_cells(), 15);
    let world = game.chunks().world().clone();
    game.place(player, [100.0 * EDGE, 4.0]);
    game.frame();
    // Whatever was saved first, both were.
    game.harness.until(|_| world.read((0, 0)).unwrap().is_some());
    assert_eq!(game.stored()[0].1.solid_cells(), 15);
}

#[test]
fn cells_alone_can_be_saved() {
    let mut game = Game::in_air();
    game.player([4.0, 4.0]);
    game.settle();
    let body = game.body(Streamed, [4.0, 4.0]);
    game.settle();
    game.save_chunks();
    game.place(body, [6.0, 4.0]);
    game.spawn(3, [1.0, 1.0]);
    game.dig([0, 0], [0, 0], 9);
    let saved = game.world().resource_mut::<Chunks>().save_cells();
    game.frame();
    saved.wait().unwrap();
    let world = game.chunks().world().clone();
    assert_eq!(world.read((0, 0)).unwrap().unwrap()[0], 9);
    assert_eq!(game.stored()[0].1.position, [4.0, 4.0], "the body stays as it was");
    game.save_chunks();
    assert_eq!(game.stored()[0].1.position, [6.0, 4.0], "and is saved with the next save of everything");
    assert!(world.read_entities((0, 0)).unwrap().is_some());
}

#[test]
fn bodies_that_nothing_would_save_are_told_of() {
    let mut game = Game::in_air();
    game.player([4.0, 4.0]);
    game.settle();
    let parent = game.spawn(1, [4.0, 4.0]);
    game.body(Roaming, [4.0, 4.0]);
    game.body((Streamed, ChildOf(parent)), [0.0, 0.0]);
    game.settle();
    let told: Vec<String> = game
        .problems()
        .iter()
        .filter_map(|problem| match problem {
            ChunkProblem::RequestFailed(error) => Some(error.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(told.len(), 2, "once each: {told:?}");
    assert!(
        told.iter().any(|text| text.contains("Roaming")) && told.iter().any(|text| text.contains("child"))
    );
}

#[test]
fn an_unreadable_body_costs_itself_and_is_told_of() {
    let mut game = Game::in_air();
    let player = game.player([4.0, 4.0]);
    game.settle();
    for x in [2.0, 6.0] {
        game.body((Streamed, Creature { id: x as u64, food: 1.0 }), [x, 2.0]);
    }
    game.settle();
    game.move_to(player, [20.0 * EDGE, 4.0]);
    // Another program has written a list in which one body lies elsewhere: it cannot be drawn, and is not taken for another.
    let mut bodies: Vec<Body> = game.stored().into_iter().map(|(_, body)| body).collect();
    let world = game.chunks().world().clone();
    bodies.truncate(1);
    let mut edit = world.edit();
    edit.put_bodies((0, 0), bodies);
    edit.commit(bonfire_chunks::Durability::Synced).unwrap();
    game.move_to(player, [4.0, 4.0]);
    assert_eq!(game.bodies().len(), 1);
    let problems = game.problems();
    assert!(
        problems.iter().any(|problem| matches!(problem, ChunkProblem::BodyLost { count: 1, .. })),
        "{problems:?}"
    );
    assert_eq!((game.drawn().len(), game.count()), (16, 1), "nothing is left of the other one");
}

#[test]
fn a_fragment_waits_until_its_chunk_is_there() {
    let mut game = Game::in_air();
    game.player([4.0, 4.0]);
    game.settle();
    game.world().resource_mut::<Chunks>().pause();
    let mut body = crate_of_wood();
    (0..4).for_each(|y| assert!(body.remove_cell(2, y)));
    game.world().spawn((body, Streamed, at([15.0, 4.0])));
    (0..5).for_each(|_| game.frame());
    assert_eq!(game.only_body().1.solid_cells(), 12, "its last column would be in chunk 2");
    game.world().resource_mut::<Chunks>().resume();
    game.settle();
    let mut sizes: Vec<usize> = game.bodies().iter().map(|(_, body)| body.solid_cells()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [4, 8]);
}

#[test]
fn a_chunk_that_turns_back_brings_its_bodies_from_memory() {
    let mut game = Game::in_air();
    let player = game.player([4.0, 4.0]);
    game.settle();
    let body = game.body(Streamed, [4.0, 4.0]);
    game.settle();
    game.save_chunks();
    game.place(body, [5.0, 5.0]);
    game.dig([0, 0], [0, 0], 9);
    game.settle();
    let plan = Plan { fault: Fault::Full, nth: 1, of: Some(Call::Write), repeat: Repeat::Forever };
    game.disk.fail(plan);
    game.place(player, [20.0 * EDGE, 4.0]);
    game.harness.until(|app| !app.world().resource::<Chunks>().is_active((0, 0)));
    game.place(player, [4.0, 4.0]);
    game.harness.until(|app| app.world().resource::<Chunks>().is_active((0, 0)));
    game.frame();
    assert_eq!(game.only_body().1.position, [5.0, 5.0]);
    assert_eq!((game.drawn(), game.cell([0, 0], [0, 0])), (square([5, 5]), 9));
    let body = game.only_body().0;
    game.place(body, [3.0, 3.0]);
    game.frame();
    assert_eq!(game.drawn(), square([3, 3]), "the chunk has not kept what was drawn");
    game.disk.heal();
    game.settle();
    game.save_chunks();
    assert_eq!(game.stored()[0].1.position, [3.0, 3.0]);
}

#[test]
fn bodies_that_other_programs_have_stored_stream_too() {
    let disk = FaultyDisk::new(bonfire_chunks::MemoryDisk::new());
    let world = streaming_support::open_with(&disk, air_and_stone);
    let mut body = Body::new(BodyId(77), [2, 2], vec![WOOD; 4]);
    (body.position, body.rotation) = ([3.0, 5.0], std::f32::consts::FRAC_PI_2);
    let mut edit = world.edit();
    edit.put_body(body.clone());
    edit.commit(bonfire_chunks::Durability::Synced).unwrap();
    drop(edit);
    drop(world);
    let mut game = Game::start_in(disk, None, |plugin| plugin, air_and_stone);
    let player = game.player([4.0, 4.0]);
    game.settle();
    let (entity, found) = game.only_body();
    assert_eq!((found, game.drawn().len()), (body.clone(), 4));
    assert!(game.world().get::<Streamed>(entity).is_some());
    let generation = game.chunks().world().info().generation;
    game.move_to(player, [20.0 * EDGE, 4.0]);
    assert_eq!(game.chunks().world().info().generation, generation, "nothing has changed");
    game.move_to(player, [4.0, 4.0]);
    assert_eq!(game.only_body().1, body);
}

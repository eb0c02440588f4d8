//! Chunks and their entities come and go around players: no entity is ever in two chunks or in none.
#![cfg(feature = "chunks")]

mod streaming_support;

use bevy_bonfire::chunks::{
    AnchoredTo, AtEdge, ChunkCells, ChunkChanged, ChunkFocus, ChunkPhase, ChunkProblem, ChunkRect,
    ChunkResidents, InChunk, PopulateChunk, Roaming, Streamed, WaitsForGround, area_ready,
};
use bevy_bonfire::prelude::*;
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::prelude::*;
use bevy_transform::components::Transform;
use streaming_support::{Creature, EDGE, Game, Owner, at};

#[test]
fn creatures_leave_with_their_chunk_and_come_back_with_it() {
    let mut game = Game::new();
    let player = game.player([0.0, 0.0]);
    game.settle();
    assert_eq!(game.chunks().status().active, 9);
    game.spawn(7, [3.0, 4.0]);
    game.dig([0, 0], [3, 3], 200);
    game.move_to(player, [100.0 * EDGE, 0.0]);
    assert_eq!((game.home(7), game.find(7)), (None, None));
    game.move_to(player, [EDGE, 0.0]);
    assert_eq!((game.home(7), game.food(7)), (Some((0, 0).into()), Some(3.0)));
    assert_eq!(game.cell([0, 0], [3, 3]), 200);
    let restarted = game.restart();
    let mut game = restarted;
    game.player([0.0, 0.0]);
    game.settle();
    assert_eq!((game.home(7), game.cell([0, 0], [3, 3])), (Some((0, 0).into()), 200));
}

#[test]
fn an_entity_belongs_to_the_chunk_that_it_is_in_and_its_children_follow() {
    let mut game = Game::new();
    game.player([0.0, 0.0]);
    game.settle();
    let creature = game.spawn(7, [1.0, 1.0]);
    let child = game.world().spawn((Saved, Creature { id: 8, food: 1.0 }, ChildOf(creature))).id();
    let hat = game.world().spawn(ChildOf(creature)).id();
    game.frame();
    game.save_chunks();
    assert_eq!(game.residents((0, 0)), 2, "the hat is not part of saves");
    game.place(creature, [-1.0, 1.0]);
    game.frame();
    assert_eq!((game.residents((0, 0)), game.residents((-1, 0))), (0, 2));
    let home = |game: &mut Game, entity| game.world().get::<InChunk>(entity).map(|member| member.pos);
    assert_eq!(home(&mut game, child), Some((-1, 0).into()));
    game.world().entity_mut(creature).insert(AnchoredTo::new((1, 1)));
    game.frame();
    assert_eq!(home(&mut game, creature), Some((1, 1).into()));
    game.world().entity_mut(creature).insert(Roaming);
    game.frame();
    assert_eq!(home(&mut game, creature), None);
    game.save_chunks();
    assert_eq!((home(&mut game, child), game.residents((1, 1))), (None, 0));
    assert!(game.world().get_entity(hat).is_ok());
    game.world().entity_mut(creature).remove::<(Roaming, AnchoredTo)>();
    game.frame();
    assert_eq!(home(&mut game, creature), Some((-1, 0).into()));
}

#[test]
fn an_entity_that_leaves_the_window_enters_the_chunk_that_it_walks_into() {
    let mut game = Game::populated();
    let player = game.player([0.0, 0.0]);
    game.settle();
    let creature = game.spawn(7, [1.0, 1.0]);
    game.frame();
    game.place(creature, [5.0 * EDGE + 1.0, 1.0]);
    game.frame();
    assert!(game.world().get::<Disabled>(creature).is_some(), "it waits, and does not fall");
    assert_eq!(game.home(7), Some((0, 0).into()));
    game.settle();
    assert_eq!((game.find(7), game.chunks().phase((5, 0))), (None, None));
    game.move_to(player, [5.0 * EDGE, 0.0]);
    assert_eq!(game.home(7), Some((5, 0).into()));
    let creature = game.find(7).unwrap();
    assert!(game.world().get::<Disabled>(creature).is_none());
    assert_eq!(game.count(), 10, "nine that were generated, and the one that came");
}

#[test]
fn an_entity_may_keep_its_chunk_loaded_or_stop_at_the_edge() {
    let mut game = Game::with(|plugin| plugin.at_edge(AtEdge::Load));
    game.player([0.0, 0.0]);
    game.settle();
    let creature = game.spawn(7, [1.0, 1.0]);
    game.frame();
    game.place(creature, [5.0 * EDGE + 1.0, 1.0]);
    game.settle();
    assert_eq!((game.home(7), game.chunks().is_active((5, 0))), (Some((5, 0).into()), true));
    game.place(creature, [6.0 * EDGE + 1.0, 1.0]);
    game.settle();
    assert_eq!((game.home(7), game.chunks().phase((5, 0))), (Some((6, 0).into()), None));
    game.world().despawn(creature);
    game.settle();
    assert_eq!(game.chunks().phase((6, 0)), None);

    let mut game = Game::with(|plugin| plugin.at_edge(AtEdge::Stop));
    game.player([0.0, 0.0]);
    game.settle();
    let creature = game.spawn(7, [1.0, 1.0]);
    game.frame();
    game.place(creature, [5.0 * EDGE + 1.0, 1.0]);
    game.settle();
    assert_eq!((game.home(7), game.chunks().phase((5, 0))), (Some((0, 0).into()), None));
    assert!(game.world().get::<Disabled>(creature).is_none());
    let told = |problem: &ChunkProblem| matches!(problem, ChunkProblem::Stopped { pos, .. } if *pos == (5, 0).into());
    assert_eq!(game.problems().iter().filter(|problem| told(problem)).count(), 1);
}

#[test]
fn generated_entities_come_once_and_removed_ones_stay_removed() {
    let mut game = Game::populated();
    let player = game.player([0.0, 0.0]);
    game.settle();
    assert_eq!(game.count(), 9);
    let id = game.ids()[0];
    game.kill(id);
    for _ in 0..3 {
        game.move_to(player, [50.0 * EDGE, 0.0]);
        game.move_to(player, [0.0, 0.0]);
        assert_eq!((game.count(), game.find(id)), (8, None));
    }
    let mut game = game.restart();
    game.player([0.0, 0.0]);
    game.settle();
    assert_eq!((game.count(), game.find(id)), (8, None));
}

#[test]
fn only_chunks_that_have_changed_are_saved() {
    let mut game = Game::new();
    game.player([0.0, 0.0]);
    game.settle();
    for id in 0..30 {
        game.spawn(id, [(id % 5) as f32, (id / 5) as f32]);
    }
    game.spawn(100, [-1.0, 0.0]);
    game.frame();
    game.save_chunks();
    let generation = |game: &Game| game.chunks().world().info().generation;
    let before = generation(&game);
    game.save_chunks();
    assert_eq!(generation(&game), before, "nothing was written");
    // A value, a component that goes, an entity that goes: each is a change.
    let one = game.find(3).unwrap();
    game.world().get_mut::<Creature>(one).unwrap().food = 9.0;
    game.save_chunks();
    assert_eq!(generation(&game), before + 1);
    game.world().entity_mut(one).insert(Owner { of: None });
    game.save_chunks();
    game.world().entity_mut(one).remove::<Owner>();
    game.save_chunks();
    game.kill(4);
    game.save_chunks();
    assert_eq!(generation(&game), before + 4);
    game.save_chunks();
    assert_eq!(generation(&game), before + 4);
    let mut game = game.restart();
    let player = game.player([0.0, 0.0]);
    game.settle();
    assert_eq!((game.food(3), game.count()), (Some(9.0), 30));
    // What was loaded is what is saved. A chunk whose last entity goes has changed.
    let before = generation(&game);
    game.save_chunks();
    game.move_to(player, [50.0 * EDGE, 0.0]);
    assert_eq!(generation(&game), before);
    game.move_to(player, [0.0, 0.0]);
    game.kill(100);
    game.save_chunks();
    assert_eq!(generation(&game), before + 1);
}

#[test]
fn references_and_relationships_last_over_unloaded_chunks() {
    let mut game = Game::new();
    let player = game.player([0.0, 0.0]);
    game.settle();
    let owner = game.spawn(1, [1.0, 1.0]);
    let owned = game.spawn(2, [EDGE + 1.0, 1.0]);
    game.world().entity_mut(owner).insert(StableId::new());
    game.world().entity_mut(owned).insert((StableId::new(), Owner { of: Some(owner) }));
    game.frame();
    // Away from both, back to the one, and then to the other.
    game.move_to(player, [50.0 * EDGE, 0.0]);
    game.move_to(player, [3.0 * EDGE, 0.0]);
    assert!(game.find(1).is_none() && game.find(2).is_none());
    game.move_to(player, [2.0 * EDGE, 0.0]);
    assert!(game.find(1).is_none());
    let owned = game.find(2).unwrap();
    let awaited = game.world().get::<Owner>(owned).unwrap().of.unwrap();
    game.move_to(player, [0.0, 0.0]);
    assert_eq!(game.find(1), Some(awaited), "the reference leads to it");
}

#[test]
fn observers_and_run_conditions_follow_the_life_of_a_chunk() {
    #[derive(Resource, Default)]
    struct Seen(Vec<Option<ChunkPhase>>, u32);
    let mut game = Game::new();
    game.world().init_resource::<Seen>();
    game.world().add_observer(|changed: On<ChunkChanged>, mut seen: ResMut<Seen>| {
        if changed.pos == (0, 0).into() {
            seen.0.push(changed.to);
        }
    });
    let area = ChunkRect::around((0, 0), 1);
    game.harness
        .app
        .add_systems(bevy_app::Update, (|mut seen: ResMut<Seen>| seen.1 += 1).run_if(area_ready(area)));
    game.frame();
    assert_eq!(game.world().resource::<Seen>().1, 0);
    let player = game.player([0.0, 0.0]);
    game.harness.until_ready(area);
    game.frame();
    assert!(game.world().resource::<Seen>().1 > 0);
    game.spawn(1, [1.0, 1.0]);
    game.frame();
    game.move_to(player, [50.0 * EDGE, 0.0]);
    use ChunkPhase::{Active, Loading, Queued, Saving, Staged};
    let life = [Some(Queued), Some(Loading), Some(Staged), Some(Active), Some(Saving), None];
    assert_eq!(game.world().resource::<Seen>().0, life);
    assert!(game.chunks().entity((0, 0)).is_none());
}

#[test]
fn an_entity_waits_disabled_for_its_ground() {
    let mut game = Game::with(|plugin| plugin.vote("collision"));
    let vote = bevy_bonfire::chunks::chunk_vote(&mut game.harness.app, "collision").unwrap();
    let player = game.player([0.0, 0.0]);
    game.world().entity_mut(player).insert(WaitsForGround { reach: 0 });
    game.harness.until(|app| app.world().resource::<bevy_bonfire::chunks::Chunks>().status().staged == 9);
    assert!(game.world().get::<Disabled>(player).is_some());
    for pos in ChunkRect::around((0, 0), 1).iter() {
        game.world().resource_mut::<bevy_bonfire::chunks::Chunks>().agree(pos, vote);
    }
    game.settle();
    assert!(game.world().get::<Disabled>(player).is_none());
    assert!(game.world().get::<WaitsForGround>(player).is_none());
}

#[test]
fn globals_are_no_part_of_chunks_and_chunks_are_no_part_of_other_captures() {
    let mut game = Game::new();
    let player = game.player([0.0, 0.0]);
    game.world().entity_mut(player).insert((Saved, Creature { id: 50, food: 5.0 }));
    game.settle();
    game.spawn(7, [1.0, 1.0]);
    game.world().spawn((Saved, Creature { id: 51, food: 1.0 }));
    game.frame();
    let snapshot = game.world().capture(&SaveOptions::new()).unwrap();
    assert_eq!(snapshot.entity_count(), 2);
    let listed = [game.find(7).unwrap()];
    assert_eq!(game.world().capture(&SaveOptions::new().entities(listed)).unwrap().entity_count(), 1);
    assert_eq!(game.residents((0, 0)), 1);
    assert!(game.world().get::<ChunkFocus>(player).is_some());
    let chunk = game.chunks().entity((0, 0)).unwrap();
    assert_eq!(game.world().get::<ChunkResidents>(chunk).unwrap().len(), 1);
    let mut cells = game.world().query::<&ChunkCells>();
    assert_eq!(cells.iter(game.world()).count(), 9);
}

#[test]
fn what_is_spawned_in_a_place_that_is_not_loaded_comes_into_its_chunk() {
    let mut game = Game::new();
    let player = game.player([0.0, 0.0]);
    game.settle();
    game.world().spawn((Streamed, Creature { id: 9, food: 1.0 }, at([20.0 * EDGE + 1.0, 1.0])));
    game.settle();
    assert_eq!(game.find(9), None);
    game.move_to(player, [20.0 * EDGE, 0.0]);
    assert_eq!(game.home(9), Some((20, 0).into()));
}

#[test]
fn a_second_entity_with_a_stable_id_is_refused_and_told() {
    let mut game = Game::new();
    let player = game.player([0.0, 0.0]);
    game.settle();
    let creature = game.spawn(7, [1.0, 1.0]);
    let id = StableId::new();
    game.world().entity_mut(creature).insert(id);
    game.frame();
    game.move_to(player, [50.0 * EDGE, 0.0]);
    // The game makes one of its own under the same id.
    let own = game.world().spawn((Saved, Creature { id: 8, food: 1.0 }, id)).id();
    game.move_to(player, [0.0, 0.0]);
    assert_eq!((game.find(7), game.find(8)), (None, Some(own)));
    let ids = game.world().resource::<StableIds>();
    assert_eq!(ids.get(id), Some(own));
    let told = |problem: &ChunkProblem| matches!(problem, ChunkProblem::DuplicateId { .. });
    assert_eq!(game.problems().iter().filter(|problem| told(problem)).count(), 1);
}

#[test]
fn populating_observers_know_the_place() {
    let mut game = Game::populated();
    game.world().add_observer(|chunk: On<PopulateChunk>| {
        assert_eq!(chunk.corner, [chunk.pos.x as f32 * EDGE, chunk.pos.y as f32 * EDGE, 0.0]);
        assert_eq!((chunk.edge, chunk.seed), (EDGE, 77));
    });
    let player = game.player([0.0, 0.0]);
    game.settle();
    assert_eq!(game.count(), 9);
    assert!(game.world().get::<Transform>(player).is_some());
}

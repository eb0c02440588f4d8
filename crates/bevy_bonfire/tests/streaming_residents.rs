//! Entities that come with a chunk are its residents, and the list of the chunk has them, however they were spawned.
#![cfg(feature = "chunks")]

mod streaming_support;

use std::collections::BTreeSet;

use bevy_bonfire::chunks::{ChunkPos, ChunkResidents, InChunk};
use bevy_ecs::prelude::*;

use self::streaming_support::*;

/// More than a batch needs.
const MANY: u64 = 40;

/// A game whose chunk at the origin has so many creatures, and has left.
fn away(creatures: u64) -> (Game, Entity) {
    let mut game = Game::new();
    let player = game.player([0.0, 0.0]);
    game.settle();
    for id in 0..creatures {
        game.spawn(id, [1.0, 1.0]);
    }
    game.frame();
    game.move_to(player, [100.0 * EDGE, 0.0]);
    assert_eq!(game.count(), 0);
    (game, player)
}

#[track_caller]
fn assert_lists_agree(game: &mut Game) {
    let mut members: BTreeSet<(Entity, Entity)> = BTreeSet::new();
    let mut lists = members.clone();
    let mut query = game.world().query::<(Entity, &InChunk)>();
    members.extend(query.iter(game.world()).map(|(entity, member)| (member.chunk, entity)));
    let mut query = game.world().query::<(Entity, &ChunkResidents)>();
    for (chunk, residents) in query.iter(game.world()) {
        lists.extend(residents.iter().map(|entity| (chunk, entity)));
    }
    assert_eq!(members, lists);
}

#[test]
fn a_chunk_lists_what_came_with_it() {
    for creatures in [1, 15, 16, MANY] {
        let (mut game, player) = away(creatures);
        game.move_to(player, [0.0, 0.0]);
        assert_eq!((game.count() as u64, game.residents((0, 0)) as u64), (creatures, creatures));
        assert_lists_agree(&mut game);
    }
}

#[test]
fn those_that_die_or_move_leave_the_list() {
    let (mut game, player) = away(MANY);
    game.move_to(player, [0.0, 0.0]);
    game.kill(3);
    let other = game.find(4).unwrap();
    game.place(other, [EDGE + 1.0, 1.0]);
    game.frame();
    assert_eq!((game.residents((0, 0)), game.residents((1, 0))), (MANY as usize - 2, 1));
    assert_lists_agree(&mut game);
    game.move_to(player, [100.0 * EDGE, 0.0]);
    assert_eq!(game.count(), 0);
    game.move_to(player, [0.0, 0.0]);
    assert_eq!((game.count(), game.home(4)), (MANY as usize - 1, Some(ChunkPos::new(1, 0))));
    assert_lists_agree(&mut game);
}

#[test]
fn an_observer_may_despawn_others_while_they_come() {
    let (mut game, player) = away(MANY);
    game.world().add_observer(|added: On<Add<Creature>>, all: Query<&Creature>, mut commands: Commands| {
        if all.get(added.entity).is_ok_and(|creature| creature.id % 2 == 0) {
            commands.entity(added.entity).despawn();
        }
    });
    game.move_to(player, [0.0, 0.0]);
    assert_eq!((game.count(), game.residents((0, 0))), (MANY as usize / 2, MANY as usize / 2));
    assert_lists_agree(&mut game);
}

#[test]
fn an_observer_sees_the_chunk_that_an_entity_comes_with() {
    #[derive(Resource, Default)]
    struct Seen(usize);
    let (mut game, player) = away(MANY);
    game.world().init_resource::<Seen>();
    game.world().add_observer(
        |added: On<Add<Creature>>, members: Query<&InChunk>, mut seen: ResMut<Seen>| {
            seen.0 += usize::from(members.contains(added.entity));
        },
    );
    game.move_to(player, [0.0, 0.0]);
    assert_eq!(game.world().resource::<Seen>().0, MANY as usize);
}

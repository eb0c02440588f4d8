//! What the first user of this crate found, each as small as it can be shown.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use bonfire_hecs::{Bonfire, LoadMode, Persist, SaveOptions, SaveScope, Saved, Selection};
use common::*;
use hecs::{Entity, World};

#[derive(Persist, Clone, Debug, PartialEq)]
#[persist(key = "mod.laser")]
struct Laser(u8);

struct Sprite;

fn with_mod(scope: SaveScope) -> Bonfire {
    let mut bonfire = bonfire(false).scope(scope);
    bonfire.persist::<Laser>().unwrap();
    bonfire
}

#[test]
fn an_entity_of_a_mod_that_is_gone_is_saved_again_in_the_default_scope() {
    let mut source = World::new();
    source.spawn((Laser(1),));
    source.spawn((Laser(2), Team(1)));
    let snapshot = save(&with_mod(SaveScope::Persisted), &source);
    let (mut world, mut without) = (World::new(), bonfire(false).scope(SaveScope::Persisted));
    without.load(&mut world, &snapshot, LoadMode::Replace).unwrap();
    let next = save(&without, &world);
    assert_eq!(next.entity_count(), 2, "both are saved again");
    without.load(&mut world, &next, LoadMode::Replace).unwrap();
    assert_eq!(world.len(), 2, "and replaced");
    let (mut again, mut with) = (World::new(), with_mod(SaveScope::Persisted));
    with.load(&mut again, &next, LoadMode::Replace).unwrap();
    assert_eq!(again.query::<&Laser>().iter().count(), 2);
}

#[test]
fn what_is_carried_is_carried_once_after_a_selection_is_restored() {
    let mut source = World::new();
    source.spawn((Saved, Laser(1), Team(1)));
    let snapshot = save(&with_mod(SaveScope::Marked), &source);
    let (mut world, mut without) = (World::new(), bonfire(false));
    without.load(&mut world, &snapshot, LoadMode::Replace).unwrap();
    let teams = || Selection::new().matching::<&Team>();
    let past = without.capture_with_hooks(&world, &SaveOptions::new().selection(teams())).unwrap();
    without.load(&mut world, &past, LoadMode::RestoreSelected(teams())).unwrap();
    let next = save(&without, &world);
    let (mut again, mut with) = (World::new(), with_mod(SaveScope::Marked));
    with.load(&mut again, &next, LoadMode::Replace).unwrap();
    assert_eq!(again.query::<&Laser>().iter().count(), 1);
}

#[test]
fn an_entity_that_lost_all_that_is_saved_keeps_its_id_in_a_restore() {
    let (mut world, mut bonfire) = (World::new(), bonfire(false).scope(SaveScope::Persisted));
    let entity = world.spawn((Team(1), Sprite));
    let snapshot = save(&bonfire, &world);
    world.remove_one::<Team>(entity).unwrap();
    let loaded = bonfire.load(&mut world, &snapshot, LoadMode::Restore).unwrap();
    assert_eq!(world.len(), 1, "it is not there twice");
    assert_eq!(loaded.entity(entity), Some(entity));
    assert_eq!(world.get::<&Team>(entity).unwrap().0, 1);
}

#[test]
fn an_entity_that_left_the_selection_keeps_its_id_in_a_restore() {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    let convert = world.spawn((Saved, Team(1), Enemy));
    let enemies = || Selection::new().matching::<&Enemy>();
    let snapshot = bonfire.capture_with_hooks(&world, &SaveOptions::new().selection(enemies())).unwrap();
    world.remove_one::<Enemy>(convert).unwrap();
    let loaded = bonfire.load(&mut world, &snapshot, LoadMode::RestoreSelected(enemies())).unwrap();
    assert_eq!(world.len(), 1, "it is not there twice");
    assert_eq!(loaded.entity(convert), Some(convert));
}

#[test]
fn what_a_restore_spawns_again_has_its_mark_where_marks_count() {
    let mut source = World::new();
    source.spawn((Team(1),));
    let snapshot = save(&bonfire(false).scope(SaveScope::Persisted), &source);
    let (mut world, mut marked) = (World::new(), bonfire(false));
    marked.load(&mut world, &snapshot, LoadMode::Restore).unwrap();
    assert_eq!(save(&marked, &world).entity_count(), 1);
}

#[test]
fn a_restore_keeps_references_to_what_is_not_saved_and_still_there() {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    let camera = world.spawn((Sprite,));
    let player = world.spawn((Saved, Follows { leader: camera, others: vec![], last: None }));
    let snapshot = save(&bonfire, &world);
    bonfire.load(&mut world, &snapshot, LoadMode::Restore).unwrap();
    assert_eq!(world.get::<&Follows>(player).unwrap().leader, camera);
}

#[test]
fn a_selection_that_is_restored_keeps_references_to_the_rest_of_the_world() {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    let player = world.spawn((Saved, Team(1)));
    let enemy = world.spawn((Saved, Enemy, Follows { leader: player, others: vec![], last: None }));
    let enemies = || Selection::new().matching::<&Enemy>();
    let snapshot = bonfire.capture_with_hooks(&world, &SaveOptions::new().selection(enemies())).unwrap();
    bonfire.load(&mut world, &snapshot, LoadMode::RestoreSelected(enemies())).unwrap();
    assert_eq!(world.get::<&Follows>(enemy).unwrap().leader, player);
}

#[test]
fn data_that_is_carried_keeps_its_references_when_a_selection_is_loaded() {
    let mut source = World::new();
    let player = source.spawn((Saved, Team(1)));
    source.spawn((Saved, Enemy));
    let options = SaveOptions::new().data("mod.target", &player).unwrap();
    let snapshot = bonfire(false).capture_with_hooks(&source, &options).unwrap();
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    let loaded = bonfire.load(&mut world, &snapshot, LoadMode::Replace).unwrap();
    let player = loaded.entity(player).unwrap();
    let enemies = || Selection::new().matching::<&Enemy>();
    let level = bonfire.capture_with_hooks(&world, &SaveOptions::new().selection(enemies())).unwrap();
    bonfire.load(&mut world, &level, LoadMode::ReplaceSelected(enemies())).unwrap();
    let next = save(&bonfire, &world);
    let target = next.data().iter().find(|entry| entry.key() == "mod.target").unwrap();
    assert_eq!(target.get::<Entity>().unwrap(), player);
}

#[test]
fn a_capture_leaves_transient_components_alone() {
    let mut world = World::new();
    let entity = world.spawn((Saved, Hover(1)));
    let bonfire = bonfire(false);
    let held = world.get::<&mut Hover>(entity).unwrap();
    let captured = catch_unwind(AssertUnwindSafe(|| save(&bonfire, &world).entity_count()));
    drop(held);
    assert_eq!(captured.ok(), Some(1));
}

#[test]
fn hooks_cannot_take_reserved_keys() {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    world.spawn((Saved,));
    bonfire.hooks.on_save(|_, starting| starting.attach("bonfire.mine", &1_u8));
    assert!(bonfire.capture_with_hooks(&world, &SaveOptions::new()).unwrap_err().is_misuse());
}

#[test]
fn an_id_that_is_reserved_during_a_save_does_not_wake_stale_handles() {
    let mut source = World::new();
    let stale = source.spawn((Saved,));
    source.spawn((Saved,));
    source.despawn(stale).unwrap();
    let reserved = source.reserve_entity();
    assert_eq!((reserved.id(), reserved == stale), (stale.id(), false));
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    let snapshot = save(&bonfire, &source);
    bonfire.load(&mut world, &snapshot, LoadMode::SameIds).unwrap();
    (0..3).for_each(|_| _ = world.spawn(()));
    assert!(!world.contains(stale));
}

#[test]
fn hooks_outlive_one_that_panics() {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    world.spawn((Saved,));
    let mut first = true;
    bonfire.hooks.on_save(move |_, starting| {
        assert!(!std::mem::take(&mut first), "once");
        starting.attach("game.seed", &1_u8)
    });
    let panicked = catch_unwind(AssertUnwindSafe(|| bonfire.capture_with_hooks(&world, &SaveOptions::new())));
    assert!(panicked.is_err());
    assert_eq!(bonfire.capture_with_hooks(&world, &SaveOptions::new()).unwrap().data().len(), 1);
}

#[test]
fn a_capture_from_before_a_load_with_the_same_ids_is_another_worlds() {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    world.spawn((Saved, Team(1)));
    let first = save(&bonfire, &world);
    let entity = world.spawn((Saved, Team(2)));
    let second = save(&bonfire, &world);
    bonfire.load(&mut world, &first, LoadMode::SameIds).unwrap();
    let stranger = world.spawn((Saved, Team(3), Sprite));
    assert_eq!(stranger, entity, "the id is given out again");
    let loaded = bonfire.load(&mut world, &second, LoadMode::Restore).unwrap();
    let entity = loaded.entity(entity).unwrap();
    assert_eq!(world.get::<&Team>(entity).unwrap().0, 2);
    assert!(world.get::<&Sprite>(entity).is_err(), "it is not the stranger");
}

#[test]
fn a_value_that_panics_when_it_is_dropped_costs_no_ids() {
    struct Bomb(bool);
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(!std::mem::take(&mut self.0), "bomb");
        }
    }
    for mode in [LoadMode::Replace, LoadMode::Restore] {
        let (mut world, mut bonfire) = (World::new(), bonfire(false));
        let entities: Vec<Entity> =
            (0..8).map(|number| world.spawn((Saved, Team(number), Even(number)))).collect();
        let snapshot = save(&bonfire, &world);
        entities[..4].iter().for_each(|&entity| world.despawn(entity).unwrap());
        (0..6).for_each(|number| _ = world.spawn((Saved, Enemy, Bomb(number == 3))));
        let panicked = catch_unwind(AssertUnwindSafe(|| bonfire.load(&mut world, &snapshot, mode.clone())));
        assert!(panicked.is_err());
        // Once more, and then many entities: every id is given out once.
        bonfire.load(&mut world, &snapshot, mode).unwrap();
        assert_eq!(world.query::<&Team>().iter().count(), 8);
        (0..50).for_each(|_| _ = world.spawn((Team(9),)));
        let all: std::collections::HashSet<u32> = world.iter().map(|entity| entity.entity().id()).collect();
        assert_eq!(all.len(), world.len() as usize);
        let slots = world.len() as usize + world.freelist().len();
        assert!(all.iter().all(|&id| (id as usize) < slots), "no slot is lost");
    }
}

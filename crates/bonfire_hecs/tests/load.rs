//! What a load does to a world that is not empty: modes, ids, references, what is unknown, resources. Failures and going
//! back in time have files of their own.

mod common;

use bonfire_hecs::core::Outcome;
use bonfire_hecs::{
    Bonfire, Dangling, EntityId, Filter, LoadMode, LoadOptions, Persist, SaveOptions, SaveScope, Saved,
    Selection, Snapshot, Unknown,
};
use common::*;
use hecs::{Entity, World};

fn names(world: &World) -> Vec<String> {
    let mut names: Vec<String> = world.query::<&Name>().iter().map(|name| name.0.clone()).collect();
    names.sort();
    names
}

fn name(name: &str) -> Name {
    Name(name.into())
}

/// A world in which ids do not begin with 0, and the free ones are in no order.
fn used_world() -> World {
    let mut world = World::new();
    let entities: Vec<Entity> = (0..20).map(|_| world.spawn(())).collect();
    for index in [3, 17, 4, 9, 0, 12, 1] {
        world.despawn(entities[index]).unwrap();
    }
    world
}

fn read_again(snapshot: &Snapshot) -> Snapshot {
    Snapshot::open(&snapshot.to_bytes().unwrap()).unwrap()
}

#[test]
fn replace_replaces_what_is_saved_and_merge_adds() {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    let a = world.spawn((Saved, name("a")));
    let scenery = world.spawn((name("scenery"),));
    let snapshot = save(&bonfire, &world);
    let later = world.spawn((Saved, name("later")));

    let loaded = bonfire.load(&mut world, &snapshot, LoadMode::Replace).unwrap();
    assert_eq!(names(&world), ["a", "scenery"]);
    assert!(world.contains(scenery), "what is not saved stays, with its id");
    assert!(!world.contains(a) && !world.contains(later), "handles from before find nothing");
    let new = loaded.entity(a).unwrap();
    assert_eq!(world.get::<&Name>(new).unwrap().0, "a");
    assert_eq!(loaded.entities().collect::<Vec<_>>(), [(EntityId::from(a), new)]);
    assert_eq!(loaded.entity(EntityId::from(a)), Some(new), "the id that a tool shows will do");
    assert_eq!((loaded.entity(scenery), loaded.entity(later)), (None, None));
    assert_eq!((loaded.report.entities, loaded.prelude.entity_count), (1, 1));
    assert!(loaded.report.is_complete() && loaded.respawned.is_empty(), "{:?}", loaded.report);

    let merged = bonfire.load(&mut world, &snapshot, LoadMode::Merge).unwrap();
    assert_eq!(names(&world), ["a", "a", "scenery"]);
    assert!(world.contains(new) && merged.entity(a) != Some(new));
}

#[test]
fn handles_from_before_a_replace_find_nothing_however_many_entities_come() {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    let old: Vec<Entity> = (0..50).map(|number| world.spawn((Saved, Team(number)))).collect();
    let snapshot = save(&bonfire, &world);
    for _ in 0..3 {
        bonfire.load(&mut world, &snapshot, LoadMode::Replace).unwrap();
        (0..100).for_each(|_| _ = world.spawn(()));
        assert!(old.iter().all(|&entity| !world.contains(entity)));
    }
}

#[test]
fn a_selection_is_replaced_alone() {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    let level = world.spawn((Saved, name("level"), Enemy));
    let player = world.spawn((Saved, name("player"), Team(1)));
    let enemies = || Selection::new().matching::<&Enemy>();
    let snapshot = bonfire.capture_with_hooks(&world, &SaveOptions::new().selection(enemies())).unwrap();
    assert_eq!(snapshot.entity_count(), 1);
    world.spawn((Saved, name("another"), Enemy));
    world.get::<&mut Team>(player).unwrap().0 = 2;
    let loaded = bonfire.load(&mut world, &snapshot, LoadMode::ReplaceSelected(enemies())).unwrap();
    assert_eq!(names(&world), ["level", "player"]);
    assert_eq!(world.get::<&Team>(player).unwrap().0, 2, "what is not selected is left alone");
    assert!(loaded.entity(level).is_some() && !world.contains(level));

    // By key, and by layer: only some rows of an archetype.
    bonfire.save_layer(|team: &Team| team.0);
    let others = world.spawn_batch((0..4).map(|layer| (Saved, Team(layer), name("row")))).collect::<Vec<_>>();
    let second = || Selection::new().filter(Filter::new().include("test.team").layers([2]).unwrap());
    let snapshot = bonfire.capture_with_hooks(&world, &SaveOptions::new().selection(second())).unwrap();
    assert_eq!(snapshot.entity_count(), 2, "the player and a row");
    bonfire.load(&mut world, &snapshot, LoadMode::ReplaceSelected(second())).unwrap();
    let alive: Vec<bool> = others.iter().map(|&entity| world.contains(entity)).collect();
    assert_eq!(alive, [true, true, false, true]);
    assert_eq!(names(&world).len(), 6);
}

#[test]
fn references_follow_in_circles_and_in_any_order() {
    let mut source = used_world();
    let (a, b) = (source.spawn((Saved, name("a"))), source.spawn((Saved, name("b"))));
    let itself = source.spawn((Saved, name("itself")));
    let follows = |leader, others, last| Follows { leader, others, last };
    source.insert_one(a, follows(b, vec![itself, a, b], Some(itself))).unwrap();
    source.insert(b, (follows(a, vec![], None), Mood::Angry { at: Some(a), level: 3 })).unwrap();
    source.insert_one(itself, follows(itself, vec![itself], None)).unwrap();
    let snapshot = read_again(&save(&bonfire(false), &source));

    for mode in [LoadMode::Replace, LoadMode::Merge, LoadMode::Restore] {
        let (mut world, mut bonfire) = (World::new(), bonfire(true));
        world.spawn((Burning("so that ids are others".into()),));
        let loaded = bonfire.load(&mut world, &snapshot, mode).unwrap();
        let [new_a, new_b, new_itself] = [a, b, itself].map(|entity| loaded.entity(entity).unwrap());
        assert_ne!(new_a, a);
        let at = |entity| world.get::<&Follows>(entity).unwrap();
        assert_eq!(*at(new_a), follows(new_b, vec![new_itself, new_a, new_b], Some(new_itself)));
        assert_eq!(*at(new_b), follows(new_a, vec![], None));
        assert_eq!(*at(new_itself), follows(new_itself, vec![new_itself], None));
        assert_eq!(*world.get::<&Mood>(new_b).unwrap(), Mood::Angry { at: Some(new_a), level: 3 });
    }
}

#[test]
fn references_to_nothing_dangle_or_drop_their_component() {
    let mut source = World::new();
    let stray = source.spawn(());
    let follower =
        source.spawn((Saved, Follows { leader: stray, others: vec![stray], last: Some(stray) }, Enemy));
    let snapshot = save(&bonfire(false), &source);
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    let loaded = bonfire.load(&mut world, &snapshot, LoadMode::Replace).unwrap();
    {
        let follows = world.get::<&Follows>(loaded.entity(follower).unwrap()).unwrap();
        assert_eq!((follows.leader, follows.last), (Entity::DANGLING, None));
    }
    assert_eq!(loaded.report.component("test.follows").unwrap().dangling, 3);
    let options = LoadOptions::new().dangling(Dangling::DropComponent);
    let loaded = bonfire.load(&mut world, &snapshot, options.mode(LoadMode::Replace)).unwrap();
    let new = loaded.entity(follower).unwrap();
    assert!(world.get::<&Follows>(new).is_err() && world.get::<&Enemy>(new).is_ok());
    assert_eq!(loaded.report.component("test.follows").unwrap().left_out, 1);
}

#[test]
fn a_column_with_holes_becomes_entities_with_and_without() {
    let mut source = used_world();
    let entities: Vec<Entity> =
        (0..9).map(|number| source.spawn((Saved, Team(number), Even(number)))).collect();
    let snapshot = save(&bonfire(false), &source);
    for mode in [LoadMode::Replace, LoadMode::Merge, LoadMode::Restore] {
        let (mut world, mut bonfire) = (used_world(), bonfire(false));
        let loaded = bonfire.load(&mut world, &snapshot, mode).unwrap();
        for (number, entity) in entities.iter().enumerate() {
            let new = loaded.entity(*entity).unwrap();
            assert_eq!(usize::from(world.get::<&Team>(new).unwrap().0), number);
            let even = world.get::<&Even>(new).ok().map(|even| usize::from(even.0));
            assert_eq!(even, (number % 2 == 0).then_some(number));
        }
    }
}

/// A component of a mod, with a reference.
#[derive(Persist, Clone, Debug, PartialEq)]
#[persist(key = "mod.laser")]
struct Laser(Entity);

#[derive(Persist, Clone, Debug, PartialEq)]
#[persist(key = "mod.settings")]
struct Settings(String);

fn with_mod() -> Bonfire {
    let mut bonfire = bonfire(false);
    bonfire.persist::<Laser>().unwrap().persist::<Settings>().unwrap();
    bonfire
}

/// A save of a world with the mod: an entity that has only the mod's component, and one that has others too.
fn modded() -> (Snapshot, Entity, Entity) {
    let mut world = World::new();
    let target = world.spawn((Saved, name("target")));
    let turret = world.spawn((Saved, name("turret"), Laser(target)));
    world.spawn((Saved, Laser(turret)));
    let options = SaveOptions::new().resource(Settings("bright".into())).data("mod.aim", &turret).unwrap();
    (with_mod().capture_with_hooks(&world, &options).unwrap(), target, turret)
}

#[test]
fn what_is_unknown_is_carried_and_comes_back_with_its_mod() {
    let (snapshot, target, turret) = modded();
    let (mut world, mut without) = (used_world(), bonfire(false));
    let loaded = without.load(&mut world, &snapshot, LoadMode::Replace).unwrap();
    let line = loaded.report.component("mod.laser").unwrap();
    assert_eq!((line.outcome, line.rows), (Outcome::Carried, 2));
    assert_eq!(loaded.report.unclaimed_data, ["mod.aim"]);
    assert!(!loaded.report.is_complete());
    let (lost, kept) = (loaded.entity(target).unwrap(), loaded.entity(turret).unwrap());
    assert_eq!(world.query::<&Saved>().iter().count(), 3, "also the one without a component that is known");

    // The world lives on, and loses something.
    world.insert_one(kept, Team(1)).unwrap();
    world.despawn(lost).unwrap();
    let between = read_again(&save(&without, &world));
    assert_eq!(between.data().iter().filter(|entry| entry.key() == "mod.aim").count(), 1);

    // Twice, and over other ids: nothing wears off.
    let (mut middle, mut also_without) = (World::new(), bonfire(true));
    also_without.load(&mut middle, &between, LoadMode::Replace).unwrap();
    let between = read_again(&save(&also_without, &middle));

    for mode in [LoadMode::Replace, LoadMode::Merge, LoadMode::Restore] {
        let (mut again, mut with_mod) = (used_world(), with_mod());
        let mut loaded = with_mod.load(&mut again, &between, mode).unwrap();
        assert_eq!(loaded.report.component("mod.laser").unwrap().outcome, Outcome::Restored);
        assert_eq!(loaded.take_resource::<Settings>(), Some(Settings("bright".into())));
        assert_eq!(again.query::<&Laser>().iter().count(), 2);
        let turret = again.query::<(Entity, &Team)>().iter().next().unwrap().0;
        assert_eq!(again.get::<&Laser>(turret).unwrap().0, Entity::DANGLING, "its target is gone");
        let alone = again.query::<(&Laser, &Saved)>().without::<&Team>().iter().next().unwrap().0.0;
        assert_eq!(alone, turret, "and this one followed");
        let next = save(&with_mod, &again);
        let aim = next.data().iter().find(|entry| entry.key() == "mod.aim").unwrap();
        assert_eq!(aim.get::<EntityId>().unwrap(), EntityId::from(turret));
    }
}

#[test]
fn what_is_unknown_can_be_dropped_or_refused() {
    let (snapshot, ..) = modded();
    let with = |unknown| LoadOptions::new().unknown(unknown);
    let (mut world, mut without) = (World::new(), bonfire(false));
    let dropped = without.load(&mut world, &snapshot, with(Unknown::Drop).mode(LoadMode::Replace)).unwrap();
    assert_eq!(dropped.report.component("mod.laser").unwrap().outcome, Outcome::Dropped);
    assert_eq!(dropped.report.unclaimed_data, ["mod.aim"]);
    let next = save(&without, &world);
    assert!(next.components().iter().all(|component| !component.key.starts_with("mod.")));
    assert!(next.data().iter().all(|entry| !entry.key().starts_with("mod.")));
    assert_eq!(next.entity_count(), 3);

    let refused = without.load(&mut world, &snapshot, with(Unknown::Refuse).mode(LoadMode::Replace));
    let error = refused.unwrap_err();
    assert!(error.is_unknown() && error.key().unwrap().starts_with("mod."), "{error}");
}

#[test]
fn a_build_that_knows_nothing_carries_everything() {
    let (snapshot, ..) = modded();
    let (mut world, mut bare) = (World::new(), Bonfire::new().scope(SaveScope::Marked));
    bare.load(&mut world, &snapshot, LoadMode::Replace).unwrap();
    assert_eq!(world.len(), 3);
    let between = read_again(&save(&bare, &world));
    let (mut again, mut with_mod) = (World::new(), with_mod());
    let mut loaded = with_mod.load(&mut again, &between, LoadMode::Replace).unwrap();
    let settings = loaded.take_resource::<Settings>().unwrap();
    let saved = with_mod.capture_with_hooks(&again, &SaveOptions::new().resource(settings)).unwrap();
    assert_eq!(canonical(&saved), canonical(&snapshot));
}

#[test]
fn resources_are_saved_beside_the_world_and_taken_from_what_was_loaded() {
    let mut source = used_world();
    let best = source.spawn((Saved, name("best")));
    let options = SaveOptions::new().resource(Score { points: 7, best: Some(best) }).resource(Team(3));
    let snapshot = read_again(&bonfire(false).capture_with_hooks(&source, &options).unwrap());
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    let mut loaded = bonfire.load(&mut world, &snapshot, LoadMode::Replace).unwrap();
    let new = loaded.entity(best);
    assert!(new.is_some_and(|new| new != best));
    assert_eq!(loaded.take_resource::<Score>(), Some(Score { points: 7, best: new }));
    assert_eq!(loaded.take_resource::<Score>(), None, "there is one");
    assert_eq!(loaded.take_resource::<Enemy>(), None);
    assert_eq!(loaded.take_resource::<Team>(), Some(Team(3)));
    assert_eq!(world.query::<&Team>().iter().count(), 0, "it is no entity's");
}

#[test]
fn same_ids_gives_back_ids_generations_and_what_comes_next() {
    let mut source = World::new();
    let first = source.spawn((Saved, name("first")));
    source.despawn(first).unwrap();
    let second = source.spawn((Saved, name("second")));
    assert_eq!(second.id(), first.id());
    let gone: Vec<Entity> = (0..5).map(|_| source.spawn((Saved, Enemy))).collect();
    let third = source.spawn((Saved, Follows { leader: second, others: vec![], last: None }));
    for index in [1, 4, 0] {
        source.despawn(gone[index]).unwrap();
    }
    let unsaved = source.spawn((Burning("not marked".into()),));
    let snapshot = read_again(&save(&bonfire(false), &source));

    for used in [false, true] {
        let (mut world, mut bonfire) = (World::new(), bonfire(true));
        if used {
            let others: Vec<Entity> = (0..30).map(|_| world.spawn((Saved, Team(1)))).collect();
            others.iter().step_by(3).for_each(|&entity| world.despawn(entity).unwrap());
        }
        let loaded = bonfire.load(&mut world, &snapshot, LoadMode::SameIds).unwrap();
        assert_eq!((loaded.entity(second), loaded.entity(third)), (Some(second), Some(third)));
        assert_eq!(world.get::<&Name>(second).unwrap().0, "second");
        assert_eq!(world.get::<&Follows>(third).unwrap().leader, second);
        assert!(!world.contains(first), "a stale handle stays stale");
        assert!(!world.contains(unsaved), "the id of what was not saved is free");
        // The ids that come are those that the saved world would give out, then that of what was not saved.
        let mut twin = World::new();
        twin.set_freelist(&source.freelist().collect::<Vec<_>>());
        let free = source.freelist().count();
        let next: Vec<Entity> = (0..free).map(|_| world.spawn(())).collect();
        assert_eq!(next, (0..free).map(|_| twin.spawn(())).collect::<Vec<_>>());
        let after = world.spawn(());
        assert_eq!(after.id(), unsaved.id());
        assert_ne!(after, unsaved, "with another generation: its old handle finds nothing");
        assert_eq!(world.spawn(()).id(), third.id().max(unsaved.id()).max(6) + 1, "then new ones");
    }
}

#[test]
fn same_ids_twice_is_the_same_world() {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    let all: Vec<Entity> = (0..40).map(|number| world.spawn((Saved, Team(number)))).collect();
    all.iter().step_by(3).for_each(|&entity| world.despawn(entity).unwrap());
    let snapshot = save(&bonfire, &world);
    let before = snapshot.to_bytes().unwrap();
    for _ in 0..2 {
        (0..10).for_each(|_| _ = world.spawn((Saved, Enemy)));
        bonfire.load(&mut world, &snapshot, LoadMode::SameIds).unwrap();
        assert_eq!(save(&bonfire, &world).to_bytes().unwrap(), before);
    }
}

#[test]
fn a_hundred_cycles_leave_nothing_behind() {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    let root = world.spawn((Saved, name("root")));
    for number in 0..100 {
        world.spawn((Saved, ChildOf(root), Team(number), Even(number)));
    }
    let scenery = world.spawn((Burning("not marked".into()),));
    let (first, entities) = (canonical(&save(&bonfire, &world)), world.len());
    for cycle in 0..100 {
        let snapshot = save(&bonfire, &world);
        let some: Vec<Entity> = (world.query::<(Entity, &Team)>().iter())
            .map(|(entity, _)| entity)
            .skip(cycle % 50)
            .step_by(7)
            .collect();
        for (number, entity) in some.into_iter().enumerate() {
            match number % 3 {
                0 => world.despawn(entity).unwrap(),
                1 => world.insert(entity, (Burning("x".into()), Position::default())).unwrap(),
                _ => drop(world.remove_one::<ChildOf>(entity)),
            }
        }
        world.spawn((Saved, name("new")));
        let mode = if cycle % 2 == 0 { LoadMode::Replace } else { LoadMode::Restore };
        bonfire.load(&mut world, &snapshot, mode).unwrap();
        assert_eq!(world.len(), entities, "cycle {cycle}");
    }
    // Codecs that leave values out do it once.
    assert_eq!(canonical(&save(&bonfire, &world)), first);
    assert!(world.contains(scenery));
}

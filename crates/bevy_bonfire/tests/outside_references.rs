//! References and relationships between entities of separate saves, such as chunks: kept by stable id, and right as soon as
//! both are there, in either order. Until then a stand-in holds the place.

mod common;

use std::time::Duration;

use bevy_bonfire::prelude::*;
use bevy_bonfire::{Dangling, LoadOptions, Selection, SlicedLoad, Snapshot, StandIn};
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::prelude::*;
use common::{DockedAt, DockedShips, Follows, Position, Score};

fn follows(leader: Entity) -> Follows {
    Follows { leader, others: vec![leader], last: Some(leader) }
}

/// A save of one chunk.
fn chunk(world: &World, entities: impl IntoIterator<Item = Entity>) -> Snapshot {
    let snapshot = world.capture(&SaveOptions::new().entities(entities).outside_references()).unwrap();
    // As a file, which does not know its world.
    Snapshot::open(&snapshot.to_bytes().unwrap()).unwrap()
}

fn canonical(snapshot: &Snapshot) -> Vec<u8> {
    snapshot.canonical_sorted().unwrap().to_bytes().unwrap()
}

fn id(bits: u64) -> StableId {
    StableId::from_bits(bits)
}

fn find(world: &World, bits: u64) -> Entity {
    world.resource::<StableIds>().get(id(bits)).unwrap_or_else(|| panic!("{bits} is not in the world"))
}

fn leader(world: &World, bits: u64) -> Entity {
    let follows = world.get::<Follows>(find(world, bits)).unwrap();
    assert_eq!((follows.others.as_slice(), follows.last), (&[follows.leader][..], Some(follows.leader)));
    follows.leader
}

fn merge(world: &mut World, snapshot: &Snapshot) {
    let loaded = world.load(snapshot, LoadMode::Merge).unwrap();
    assert_eq!(loaded.report.stale_references(), 0, "{}", loaded.report);
    assert!(loaded.report.is_complete(), "{}", loaded.report);
}

fn stand_ins(world: &mut World) -> Vec<u64> {
    let mut found: Vec<u64> = world
        .query_filtered::<&StandIn, With<Disabled>>()
        .iter(world)
        .map(|stand_in| stand_in.id().to_bits())
        .collect();
    found.sort_unstable();
    found
}

/// Two chunks whose entities follow each other, and of which each has a child in the other one.
fn two_chunks() -> [Snapshot; 2] {
    let mut world = common::world();
    let [a, b] = [1, 2].map(|bits| world.spawn((Saved, id(bits), Name::new(format!("{bits}")))).id());
    world.entity_mut(a).insert(follows(b));
    world.entity_mut(b).insert(follows(a));
    let in_a = world.spawn((Saved, id(3), ChildOf(b))).id();
    let in_b = world.spawn((Saved, id(4), ChildOf(a), DockedAt { station: a, berth: "3".into() })).id();
    [chunk(&world, [a, in_a]), chunk(&world, [b, in_b])]
}

fn assert_linked(world: &World) {
    let [a, b, in_a, in_b] = [1, 2, 3, 4].map(|bits| find(world, bits));
    assert_eq!((leader(world, 1), leader(world, 2)), (b, a));
    assert_eq!((world.get::<ChildOf>(in_a).unwrap().0, world.get::<ChildOf>(in_b).unwrap().0), (b, a));
    let children = |entity: Entity| world.get::<Children>(entity).unwrap().to_vec();
    assert_eq!((children(a), children(b)), (vec![in_b], vec![in_a]));
    let docked = world.get::<DockedAt>(in_b).unwrap();
    assert_eq!((docked.station, docked.berth.as_str()), (a, "3"));
    assert_eq!(world.get::<DockedShips>(a).unwrap().ships(), [in_b]);
    for entity in [a, b, in_a, in_b] {
        let entity = world.entity(entity);
        assert!(!entity.contains::<StandIn>() && !entity.contains::<Disabled>());
    }
}

#[test]
fn chunks_that_refer_to_each_other_load_in_either_order() {
    for order in [[0, 1], [1, 0]] {
        let (chunks, mut world) = (two_chunks(), common::world());
        merge(&mut world, &chunks[order[0]]);
        let away = if order[0] == 0 { 2 } else { 1 };
        assert_eq!(stand_ins(&mut world), [away]);
        assert_eq!(world.resource::<StableIds>().get(id(away)), None, "a stand-in is not the entity");
        merge(&mut world, &chunks[order[1]]);
        assert_linked(&world);
        assert!(stand_ins(&mut world).is_empty());
        assert_eq!(world.query::<&Name>().iter(&world).count(), 2);
    }
}

#[test]
fn loads_without_batches_do_the_same() {
    for order in [[0, 1], [1, 0]] {
        let mut app = bevy_app::App::new();
        app.add_plugins(BonfirePlugin::new().spawn_one_by_one());
        common::register(app.world_mut(), false);
        let chunks = two_chunks();
        order.iter().for_each(|&number| merge(app.world_mut(), &chunks[number]));
        assert_linked(app.world());
    }
}

#[test]
fn a_large_chunk_takes_places_in_the_middle_of_its_rows() {
    let mut source = common::world();
    let targets: Vec<Entity> = (0..1000)
        .map(|number| source.spawn((Saved, id(number), Position { x: number as f32, y: 0.0 })).id())
        .collect();
    let referring: Vec<Entity> = [0, 1, 500, 998, 999]
        .into_iter()
        .map(|number: usize| {
            source
                .spawn((Saved, id(5000 + number as u64), follows(targets[number]), ChildOf(targets[number])))
                .id()
        })
        .collect();
    let [some, all] = [chunk(&source, referring), chunk(&source, targets)];
    for sliced in [false, true] {
        let mut world = common::world();
        merge(&mut world, &some);
        assert_eq!(stand_ins(&mut world), [0, 1, 500, 998, 999]);
        match sliced {
            false => merge(&mut world, &all),
            true => {
                let load = SlicedLoad::new(&world, all.clone(), LoadMode::Merge);
                finish(&mut world, load);
            }
        }
        for number in [0, 1, 500, 998, 999] {
            assert_eq!(leader(&world, 5000 + number), find(&world, number));
            assert_eq!(world.get::<ChildOf>(find(&world, 5000 + number)).unwrap().0, find(&world, number));
        }
        for number in 0..1000 {
            let entity = world.entity(find(&world, number));
            assert_eq!(entity.get::<Position>().unwrap().x, number as f32);
            assert!(!entity.contains::<Disabled>() && !entity.contains::<StandIn>());
        }
        assert!(stand_ins(&mut world).is_empty());
    }
}

fn finish(world: &mut World, load: bevy_bonfire::Result<SlicedLoad>) {
    let mut load = load.unwrap();
    while load.step(world, Duration::ZERO).unwrap().is_none() {}
}

#[test]
fn a_circle_over_three_chunks_closes_in_every_order() {
    let mut source = common::world();
    let members: Vec<Entity> = (0..3).map(|number| source.spawn((Saved, id(number))).id()).collect();
    for number in 0..3 {
        source.entity_mut(members[number]).insert(follows(members[(number + 1) % 3]));
    }
    let chunks: Vec<Snapshot> = members.iter().map(|&member| chunk(&source, [member])).collect();
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut world = common::world();
        order.into_iter().for_each(|number: usize| merge(&mut world, &chunks[number]));
        for number in 0..3 {
            assert_eq!(leader(&world, number), find(&world, (number + 1) % 3));
        }
        assert!(stand_ins(&mut world).is_empty());
    }
}

#[test]
fn chunks_that_refer_to_one_missing_entity_share_a_stand_in() {
    let mut source = common::world();
    let target = source.spawn((Saved, id(9))).id();
    let chunks = [1, 2].map(|bits| {
        let entity = source.spawn((Saved, id(bits), follows(target), ChildOf(target))).id();
        chunk(&source, [entity])
    });
    let mut world = common::world();
    chunks.iter().for_each(|chunk| merge(&mut world, chunk));
    assert_eq!(stand_ins(&mut world), [9]);
    let away = leader(&world, 1);
    assert_eq!((leader(&world, 2), world.get::<StandIn>(away).unwrap().id()), (away, id(9)));
    assert_eq!(world.get::<Children>(away).unwrap().len(), 2);
}

#[test]
fn an_entity_that_is_there_is_found() {
    let [a, b] = two_chunks();
    let mut world = common::world();
    merge(&mut world, &a);
    merge(&mut world, &b);
    let before = world.query::<Entity>().iter(&world).count();
    let (first, second) = (find(&world, 1), find(&world, 2));
    world.despawn(second);
    // The children of the second went with it.
    merge(&mut world, &b);
    assert_eq!(leader(&world, 2), first);
    assert!(world.query::<Entity>().iter(&world).count() <= before);
}

#[test]
fn a_target_that_never_comes_is_written_again_and_again() {
    let [a, _] = two_chunks();
    let mut saved = a;
    for _ in 0..4 {
        let mut world = common::world();
        merge(&mut world, &saved);
        assert_eq!(stand_ins(&mut world), [2]);
        assert_eq!(world.capture(&SaveOptions::new()).unwrap().entity_count(), 2, "stand-ins are not saved");
        let again = chunk(&world, [find(&world, 1), find(&world, 3)]);
        assert_eq!(canonical(&again), canonical(&saved));
        saved = again;
    }
    let (mut world, [_, b]) = (common::world(), two_chunks());
    merge(&mut world, &b);
    merge(&mut world, &saved);
    assert_linked(&world);
}

#[test]
fn without_the_option_references_are_lost_as_before() {
    let mut source = common::world();
    let target = source.spawn((Saved, id(9))).id();
    let holder = source.spawn((Saved, id(1), follows(target), ChildOf(target))).id();
    let snapshot = source.capture(&SaveOptions::new().entities([holder])).unwrap();
    assert!(snapshot.data().is_empty());
    let mut world = common::world();
    let loaded = world.load(&snapshot, LoadMode::Merge).unwrap();
    assert_eq!(loaded.report.stale_references(), 4);
    assert!(world.get::<ChildOf>(find(&world, 1)).is_none());
    assert!(stand_ins(&mut world).is_empty());
}

#[test]
fn targets_without_a_stable_id_are_counted_and_treated_as_missing() {
    let mut source = common::world();
    let nameless = source.spawn(Saved).id();
    let gone = source.spawn_empty().id();
    source.despawn(gone);
    let holders = [1, 2].map(|bits| source.spawn((Saved, id(bits), follows(nameless))).id());
    source.entity_mut(holders[0]).insert(ChildOf(nameless));
    let other = source.spawn((Saved, id(3), follows(gone))).id();
    let options = SaveOptions::new().entities([holders[0], holders[1], other]).outside_references();
    let snapshot = source.capture(&options).unwrap();
    let notes: Vec<(&str, usize)> = (snapshot.notes().iter())
        .filter(|note| note.remark.contains("`StableId`"))
        .map(|note| (note.key.as_str(), note.count))
        .collect();
    assert_eq!(
        notes,
        [("bevy.child_of", 1), ("test.follows", 6)],
        "a stale reference is no loss of this save"
    );
    let mut world = common::world();
    let loaded = world.load(&snapshot, LoadMode::Merge).unwrap();
    assert_eq!(loaded.report.stale_references(), 10);
    assert!(stand_ins(&mut world).is_empty());
    let refused = LoadOptions::new().mode(LoadMode::Merge).dangling(Dangling::Refuse);
    assert!(world.load(&snapshot, refused).unwrap_err().is_dangling());
}

#[test]
fn the_entities_of_a_chunk_carry_no_resources() {
    let mut source = common::world();
    source.insert_resource(Score { points: 5, best: None });
    let entity = source.spawn((Saved, id(1), Position::default())).id();
    let snapshot = chunk(&source, [entity]);
    assert_eq!(snapshot.resources().len(), 0);
    let mut world = common::world();
    world.insert_resource(Score { points: 7, best: Some(Entity::PLACEHOLDER) });
    merge(&mut world, &snapshot);
    assert_eq!(*world.resource::<Score>(), Score { points: 7, best: Some(Entity::PLACEHOLDER) });
    // A chunk that asks for a resource changes none that the world has.
    let selection = Selection::new().entities([entity]).all_resources();
    let asked = source.capture(&SaveOptions::new().selection(selection)).unwrap();
    assert!(asked.resources().len() > 0);
    merge(&mut world, &asked);
    assert_eq!(world.resource::<Score>().points, 7);
}

#[test]
fn data_of_the_game_refers_to_the_outside_too() {
    let mut source = common::world();
    let target = source.spawn((Saved, id(9))).id();
    let entity = source.spawn((Saved, id(1))).id();
    let options =
        SaveOptions::new().entities([entity]).outside_references().data("game.boss", &target).unwrap();
    let snapshot = source.capture(&options).unwrap();
    let mut world = common::world();
    world.add_observer(|mut starting: On<LoadStarting>| {
        starting.on_data("game.boss", |world: &mut World, boss: Entity| {
            assert_eq!(world.get::<StandIn>(boss).unwrap().id(), StableId::from_bits(9));
            world.insert_resource(Score { points: 0, best: Some(boss) });
            Ok(())
        });
    });
    merge(&mut world, &snapshot);
    let boss = world.resource::<Score>().best.unwrap();
    merge(&mut world, &chunk(&source, [target]));
    assert_eq!(find(&world, 9), boss);
}

#[test]
fn a_replacement_keeps_what_it_refers_to_as_a_stand_in() {
    let [a, b] = two_chunks();
    let mut world = common::world();
    merge(&mut world, &a);
    merge(&mut world, &b);
    let second = find(&world, 2);
    world.load(&a, LoadMode::Replace).unwrap();
    assert_eq!(stand_ins(&mut world), [2]);
    assert_eq!((leader(&world, 1), world.get::<StandIn>(second).is_some()), (second, true));
    assert_eq!(world.get::<ChildOf>(find(&world, 3)).unwrap().0, second);
    merge(&mut world, &b);
    assert_linked(&world);
}

#[test]
fn a_restore_brings_targets_and_stand_ins_back() {
    let [a, b] = two_chunks();
    let mut world = common::world();
    merge(&mut world, &a);
    let options = SaveOptions::new().outside_references();
    let before = world.capture(&options).unwrap();
    let away = leader(&world, 1);
    merge(&mut world, &b);
    let both = world.capture(&options).unwrap();
    for _ in 0..2 {
        world.load(&before, LoadMode::Restore(Ticks::All)).unwrap();
        assert_eq!((leader(&world, 1), stand_ins(&mut world)), (away, vec![2]));
        world.load(&both, LoadMode::Restore(Ticks::All)).unwrap();
        assert_linked(&world);
        assert_eq!(find(&world, 2), away);
    }
    // From a file, which does not know its world.
    let both = Snapshot::open(&both.to_bytes().unwrap()).unwrap();
    let [second, in_second] = [2, 4].map(|bits| find(&world, bits));
    world.unload([second, in_second]).unwrap();
    world.load(&both, LoadMode::Restore(Ticks::All)).unwrap();
    assert_linked(&world);
    assert_eq!((find(&world, 2), stand_ins(&mut world)), (second, vec![]));
}

/// The world without its ids, and what is outside with its ids.
fn parts(snapshot: &Snapshot) -> (Vec<u8>, Vec<u8>) {
    assert_eq!(snapshot.data()[0].key(), "bonfire.outside");
    (canonical(snapshot), snapshot.data()[0].as_bytes().to_vec())
}

#[test]
fn captures_that_share_memory_know_what_is_outside() {
    let [a, b] = two_chunks();
    let mut world = common::world();
    merge(&mut world, &b);
    merge(&mut world, &a);
    let options = SaveOptions::new().outside_references();
    let whole = world.capture(&options).unwrap();
    let mut captures = bevy_bonfire::IncrementalCapture::new();
    let again = captures.capture(&mut world, &options).unwrap();
    assert!(parts(&again) == parts(&whole));
    let [second, in_second] = [2, 4].map(|bits| find(&world, bits));
    world.unload([second, in_second]).unwrap();
    let later = captures.capture(&mut world, &options).unwrap();
    assert!(parts(&later) == parts(&world.capture(&options).unwrap()));
    let mut other = common::world();
    merge(&mut other, &later);
    merge(&mut other, &b);
    assert_linked(&other);
}

#[test]
fn saves_without_stand_ins_are_the_same_bytes_with_and_without_the_option_but_for_its_entry() {
    let mut source = common::world();
    let a = source.spawn((Saved, id(1))).id();
    source.spawn((Saved, id(2), follows(a)));
    let plain = source.capture(&SaveOptions::new()).unwrap();
    let asked = source.capture(&SaveOptions::new().outside_references()).unwrap();
    assert_eq!(asked.data().len(), 1);
    assert_eq!(canonical(&asked), canonical(&plain));
}

#[test]
fn a_journal_knows_what_has_left_and_what_is_referred_to_since() {
    use bevy_bonfire::SavePolicy;
    use bevy_bonfire::store::{MemoryStore, Slots, Wait};
    let slots = Slots::new(MemoryStore::new());
    let mut app = bevy_app::App::new();
    let plugin = BonfirePlugin::new().slots(slots.clone()).autosave(Autosave::off());
    app.add_plugins(plugin.policy(SavePolicy::Journal));
    common::register(app.world_mut(), false);
    let save = |app: &mut bevy_app::App, options: SaveOptions| {
        let handle = app.world_mut().resource_mut::<Saves>().save_with("autosave", options);
        app.update();
        let report = handle.wait().unwrap();
        app.update();
        report.generation.unwrap()
    };
    let asked = || SaveOptions::new().outside_references().data("game.turn", &7_u32).unwrap();
    let world = app.world_mut();
    let [a, b, c] = [1, 2, 3].map(|bits| world.spawn((Saved, id(bits), Position::default())).id());
    world.entity_mut(a).insert(follows(b));
    let third = chunk(world, [c]);
    let second = chunk(world, [b]);
    world.unload([c]).unwrap();
    let whole = save(&mut app, asked());
    // The target of a reference leaves, and a stand-in is referred to that the whole save did not know.
    let world = app.world_mut();
    world.unload([b]).unwrap();
    world.entity_mut(a).insert(ChildOf(c));
    assert_eq!(save(&mut app, asked()), whole, "it is appended");
    let loaded = slots.load("autosave").wait().unwrap();
    let mut world = common::world();
    let report = &world.load(&loaded.snapshot, LoadMode::Merge).unwrap().report;
    assert_eq!((report.stale_references(), report.unclaimed_data.clone()), (0, vec!["game.turn".to_owned()]));
    assert_eq!(stand_ins(&mut world), [2, 3]);
    merge(&mut world, &second);
    merge(&mut world, &third);
    assert_eq!(
        (leader(&world, 1), world.get::<ChildOf>(find(&world, 1)).unwrap().0),
        (find(&world, 2), find(&world, 3))
    );
    // A save that does not ask for it is whole, because the journal cannot go on.
    assert_ne!(save(&mut app, SaveOptions::new()), whole);
}

#[test]
fn stand_ins_are_not_replicated() {
    use bevy_bonfire::replication::{DeltaCapture, ReplicateExt, Replicated};
    let mut world = common::world();
    world.replicate::<Position>().replicate::<Follows>();
    let [a, b] = [1, 2].map(|bits| world.spawn((Saved, Replicated, id(bits), Position::default())).id());
    world.entity_mut(a).insert(follows(b));
    let mut deltas = DeltaCapture::of_replication();
    assert_eq!(deltas.changes(&mut world).unwrap().stats().spawned, 2);
    let saved = chunk(&world, [b]);
    world.unload([b]).unwrap();
    let gone = deltas.changes(&mut world).unwrap().stats();
    assert_eq!((gone.spawned, gone.despawned), (0, 1));
    merge(&mut world, &saved);
    let b = find(&world, 2);
    world.entity_mut(b).insert(Replicated);
    let back = deltas.changes(&mut world).unwrap().stats();
    // What refers to it is told again.
    assert_eq!((back.spawned, back.despawned, back.changed), (1, 0, 1));
}

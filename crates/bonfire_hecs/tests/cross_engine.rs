//! Saves of Bevy and of hecs read each other where keys are the same, and what one does not know it carries for the other:
//! a life that is saved by one, loaded and saved by the other and loaded by the first again is the same life.

#[path = "../../bevy_bonfire/tests/common/mod.rs"]
mod bevy_common;
mod common;

use bonfire_hecs::core::Outcome;
use bonfire_hecs::{Bonfire, EntityId, LoadMode, Persist, SaveOptions, SaveScope, Saved, Snapshot};
use bonfire_testkit::scale;
use bonfire_testkit::script::{ScriptWorld, live, scripts};
use common::*;
use hecs::{Entity, World};
use proptest::prelude::*;

/// The side of Bevy.
mod bevy {
    pub(crate) use super::bevy_common::*;
    pub(crate) use bevy_bonfire::prelude::{LoadMode, SaveOptions, Saved, WorldSaveExt};
    pub(crate) use bevy_ecs::prelude::{ChildOf, Children, Entity, Name, World};

    use bevy_bonfire::PersistExt;
    use bonfire_testkit::script::ScriptWorld;

    pub(crate) use super::bevy_common::script::Even;

    pub(crate) type BevyWorld = super::bevy_common::script::BevyWorld<128>;

    pub(crate) fn everything(reversed: bool) -> World {
        BevyWorld::fresh(reversed).0
    }

    /// A world that knows few components; everything else is carried.
    pub(crate) fn few() -> World {
        let mut world = World::new();
        world.persist::<Position>().persist::<Team>().persist::<Follows>();
        world
    }
}

use bevy::{BevyWorld, WorldSaveExt};

/// A world of hecs that knows few components; everything else is carried.
fn few() -> HecsWorld {
    let mut bonfire = Bonfire::new().scope(SaveScope::Marked);
    bonfire.persist::<Position>().unwrap().persist::<Team>().unwrap().persist::<Follows>().unwrap();
    HecsWorld { world: World::new(), bonfire }
}

/// As a file would do it.
fn through_bytes(snapshot: &Snapshot) -> Snapshot {
    Snapshot::open(&snapshot.to_bytes().unwrap()).unwrap()
}

/// Loads and saves again.
fn through_hecs(snapshot: &Snapshot, mut by: HecsWorld) -> Snapshot {
    let mut loaded = by.bonfire.load(&mut by.world, &through_bytes(snapshot), LoadMode::Replace).unwrap();
    let mut options = SaveOptions::new();
    if let Some(score) = loaded.take_resource::<Score>() {
        options = options.resource(score);
    }
    through_bytes(&by.bonfire.capture_with_hooks(&by.world, &options).unwrap())
}

fn through_bevy(snapshot: &Snapshot, mut by: bevy::World) -> Snapshot {
    by.load(&through_bytes(snapshot), bevy::LoadMode::Replace).unwrap();
    through_bytes(&by.capture_with_events(&bevy::SaveOptions::new()).unwrap())
}

fn names_of(world: &bevy::World, list: &[bevy::Entity]) -> Vec<String> {
    list.iter().map(|&entity| world.get::<bevy::Name>(entity).unwrap().to_string()).collect()
}

/// The names of an entity's children, found by its own name.
fn children(world: &mut bevy::World, parent: &str) -> Vec<String> {
    let mut query = world.query::<(&bevy::Name, &bevy::Children)>();
    let list = query.iter(world).find(|(name, _)| name.as_str() == parent).map(|(_, list)| list.to_vec());
    names_of(world, &list.unwrap_or_default())
}

#[test]
fn a_world_of_bevy_lives_on_in_hecs_and_goes_back() {
    let mut source = bevy::everything(false);
    let parent = source.spawn((bevy::Saved, bevy::Name::new("parent"))).id();
    let child = |world: &mut bevy::World, name: &str| {
        world.spawn((bevy::Saved, bevy::Name::new(name.to_owned()), bevy::ChildOf(parent))).id()
    };
    let [first, second, third] = ["first", "second", "third"].map(|name| child(&mut source, name));
    // Another archetype, and another order than that of rows.
    source.entity_mut(first).insert((bevy::Enemy, bevy::Burning("slowly".into())));
    source.entity_mut(parent).insert_children(0, &[third]);
    source.entity_mut(second).insert(bevy::Health { current: 3, max: 9, flash: 1 });
    source.entity_mut(third).insert((
        bevy::Follows { leader: first, others: vec![second, parent], last: None },
        bevy::DockedAt { station: parent, berth: "north".into() },
        bevy::Quest { title: "home".into(), stages: [("start".to_owned(), 1)].into() },
    ));
    source.insert_resource(bevy::Score { points: 5, best: Some(third) });
    let order = children(&mut source, "parent");
    assert_eq!(order, ["third", "first", "second"]);

    let mut hecs = HecsWorld::fresh(true);
    hecs.world.spawn((Burning("ids are others".into()),));
    let snapshot = through_bytes(&bevy::save(&source));
    let mut loaded = hecs.bonfire.load(&mut hecs.world, &snapshot, LoadMode::Replace).unwrap();
    let now = |entity: bevy::Entity| loaded.entity(EntityId::from(entity)).unwrap();
    let [parent, first, second, third] = [parent, first, second, third].map(now);
    let world = &mut hecs.world;
    assert_eq!(world.get::<&Name>(second).unwrap().0, "second");
    assert_eq!(*world.get::<&Health>(second).unwrap(), Health { current: 3, max: 9, flash: 0 });
    assert_eq!(world.get::<&ChildOf>(first).unwrap().0, parent);
    assert_eq!(world.get::<&Burning>(first).unwrap().0, "slowly", "from a sparse set");
    let follows = Follows { leader: first, others: vec![second, parent], last: None };
    assert_eq!(*world.get::<&Follows>(third).unwrap(), follows);
    assert_eq!(*world.get::<&DockedAt>(third).unwrap(), DockedAt { station: parent, berth: "north".into() });
    assert_eq!(world.get::<&Quest>(third).unwrap().stages["start"], 1);
    let mut score = loaded.take_resource::<Score>().unwrap();
    assert_eq!(score, Score { points: 5, best: Some(third) });

    // Something happens in hecs.
    score.points = 6;
    world.despawn(second).unwrap();
    world.insert_one(first, Team(7)).unwrap();
    let options = SaveOptions::new().resource(score);
    let back = through_bytes(&hecs.bonfire.capture_with_hooks(&hecs.world, &options).unwrap());

    let mut again = bevy::everything(true);
    again.load(&back, bevy::LoadMode::Replace).unwrap();
    assert_eq!(children(&mut again, "parent"), ["third", "first"], "the order of siblings was carried");
    assert_eq!(again.resource::<bevy::Score>().points, 6);
    let best = again.resource::<bevy::Score>().best.unwrap();
    assert_eq!(names_of(&again, &[best]), ["third"]);
    let (team, burning) = again.query::<(&bevy::Team, &bevy::Burning)>().single(&again).unwrap();
    assert_eq!((team.0, &*burning.0), (7, "slowly"));
    let docked = again.query::<&bevy::DockedShips>().single(&again).unwrap();
    assert_eq!(names_of(&again, docked.ships()), ["third"]);
}

/// Only the hecs game has it.
#[derive(Persist, Clone, Debug, PartialEq)]
#[persist(key = "hecs.tether")]
struct Tether(Entity, String);

#[test]
fn a_world_of_hecs_lives_on_in_bevy_and_goes_back() {
    let fresh = || {
        let mut fresh = HecsWorld::fresh(false);
        fresh.bonfire.persist::<Tether>().unwrap();
        fresh
    };
    let mut source = fresh();
    let gone = source.world.spawn((Saved,));
    let post = source.world.spawn((Saved, Name("post".into()), Position { x: 1.0, y: 2.0 }));
    let boat = source.world.spawn((Saved, Name("boat".into()), Tether(post, "rope".into()), ChildOf(post)));
    source.world.insert_one(post, Tether(boat, "rope".into())).unwrap();
    source.world.despawn(gone).unwrap();
    let options =
        SaveOptions::new().resource(Score { points: 3, best: Some(boat) }).data("hecs.aim", &boat).unwrap();
    let snapshot = through_bytes(&source.bonfire.capture_with_hooks(&source.world, &options).unwrap());
    assert!(!snapshot.free_list().unwrap().is_empty());

    let mut world = bevy::everything(false);
    let loaded = world.load(&snapshot, bevy::LoadMode::Replace).unwrap();
    assert_eq!(loaded.report.component("hecs.tether").unwrap().outcome, Outcome::Carried);
    assert_eq!(loaded.report.unclaimed_data, ["hecs.aim"], "the free ids are nobody's data");
    assert_eq!(children(&mut world, "post"), ["boat"]);
    let best = world.resource::<bevy::Score>().best.unwrap();
    assert_eq!(names_of(&world, &[best]), ["boat"]);
    world.entity_mut(best).insert(bevy::Team(4));
    let back = through_bytes(&world.capture_with_events(&bevy::SaveOptions::new()).unwrap());

    let mut again = fresh();
    let mut loaded = again.bonfire.load(&mut again.world, &back, LoadMode::Replace).unwrap();
    let boat = again.world.query::<(Entity, &Team)>().iter().next().unwrap().0;
    let post = again.world.get::<&ChildOf>(boat).unwrap().0;
    assert_eq!(*again.world.get::<&Tether>(boat).unwrap(), Tether(post, "rope".into()));
    assert_eq!(*again.world.get::<&Tether>(post).unwrap(), Tether(boat, "rope".into()));
    assert_eq!(*again.world.get::<&Position>(post).unwrap(), Position { x: 1.0, y: 2.0 });
    assert_eq!(loaded.take_resource::<Score>().unwrap().best, Some(boat));
    let next = save(&again.bonfire, &again.world);
    let aim = next.data().iter().find(|entry| entry.key() == "hecs.aim").unwrap();
    assert_eq!(aim.get::<Entity>().unwrap(), boat);
}

#[test]
fn a_hecs_game_that_knows_little_carries_the_rest_of_a_bevy_world() {
    let mut source = bevy::everything(false);
    let parent = source.spawn((bevy::Saved, bevy::Name::new("parent"))).id();
    for name in ["a", "b", "c", "d"] {
        source.spawn((bevy::Saved, bevy::Name::new(name), bevy::ChildOf(parent), bevy::Enemy));
    }
    let last = *source.get::<bevy::Children>(parent).unwrap().last().unwrap();
    source.entity_mut(parent).insert_children(1, &[last]);
    source.insert_resource(bevy::Score { points: 5, best: Some(last) });
    assert_eq!(children(&mut source, "parent"), ["a", "d", "b", "c"]);
    let before = bevy::canonical(&source);

    let mut back = bevy::everything(true);
    back.load(&through_hecs(&bevy::save(&source), few()), bevy::LoadMode::Replace).unwrap();
    assert_eq!(bevy::canonical(&back), before);
    let nobody = HecsWorld { world: World::new(), bonfire: Bonfire::new().scope(SaveScope::Marked) };
    back.load(&through_hecs(&bevy::save(&source), nobody), bevy::LoadMode::Replace).unwrap();
    assert_eq!(bevy::canonical(&back), before, "also if it knows nothing");
}

#[test]
fn siblings_that_change_their_parent_in_hecs_are_where_they_belong() {
    let mut source = bevy::everything(false);
    let old = source.spawn((bevy::Saved, bevy::Name::new("old"))).id();
    let new = source.spawn((bevy::Saved, bevy::Name::new("new"))).id();
    for (name, parent) in [("a", old), ("b", old), ("c", old), ("x", new), ("y", new)] {
        source.spawn((bevy::Saved, bevy::Name::new(name), bevy::ChildOf(parent)));
    }
    for parent in [old, new] {
        let last = *source.get::<bevy::Children>(parent).unwrap().last().unwrap();
        source.entity_mut(parent).insert_children(0, &[last]);
    }
    assert_eq!(children(&mut source, "old"), ["c", "a", "b"]);
    let mut hecs = HecsWorld::fresh(false);
    let loaded = hecs.bonfire.load(&mut hecs.world, &bevy::save(&source), LoadMode::Replace).unwrap();
    let new = loaded.entity(EntityId::from(new)).unwrap();
    let a = hecs.world.query::<(Entity, &Name)>().iter().find(|(_, name)| name.0 == "a").unwrap().0;
    hecs.world.insert_one(a, ChildOf(new)).unwrap();
    let mut back = bevy::everything(false);
    back.load(&through_bytes(&hecs.save()), bevy::LoadMode::Replace).unwrap();
    assert_eq!(children(&mut back, "old"), ["c", "b"]);
    let mut adopted = children(&mut back, "new");
    adopted.retain(|name| name != "a");
    assert_eq!(adopted, ["y", "x"], "what was in order is in order");
    assert_eq!(children(&mut back, "new").len(), 3);
}

#[test]
fn siblings_of_one_archetype_keep_their_order_where_hecs_parts_them() {
    // The codec leaves odd numbers out: in hecs these rows become two archetypes.
    let mut source = bevy::everything(false);
    let parent = source.spawn((bevy::Saved, bevy::Name::new("parent"))).id();
    for number in 0..6 {
        let name = bevy::Name::new(number.to_string());
        source.spawn((bevy::Saved, name, bevy::ChildOf(parent), bevy::Even(number)));
    }
    let mut back = bevy::everything(false);
    back.load(&bevy::save(&source), bevy::LoadMode::Replace).unwrap();
    assert_eq!(children(&mut back, "parent"), ["0", "1", "2", "3", "4", "5"], "Bevy alone");
    let snapshot = through_hecs(&bevy::save(&source), HecsWorld::fresh(false));
    back.load(&snapshot, bevy::LoadMode::Replace).unwrap();
    assert_eq!(children(&mut back, "parent"), ["0", "1", "2", "3", "4", "5"], "by way of hecs");
}

#[test]
fn siblings_that_are_carried_keep_their_order_in_a_used_world() {
    let mut source = bevy::everything(false);
    let parent = source.spawn((bevy::Saved, bevy::Name::new("parent"))).id();
    for name in ["a", "b", "c", "d"] {
        source.spawn((bevy::Saved, bevy::Name::new(name), bevy::ChildOf(parent)));
    }
    // Its free ids are in no order, and parents are unknown to it.
    let mut used = few();
    let entities: Vec<Entity> = (0..8).map(|_| used.world.spawn(())).collect();
    [6, 1, 4, 0, 3, 7].into_iter().for_each(|index: usize| used.world.despawn(entities[index]).unwrap());
    let snapshot = through_hecs(&bevy::save(&source), used);
    let mut back = bevy::everything(false);
    back.load(&snapshot, bevy::LoadMode::Replace).unwrap();
    assert_eq!(children(&mut back, "parent"), ["a", "b", "c", "d"]);
}

#[test]
fn stable_ids_lead_to_the_same_entities_in_both_engines() {
    let ids = [7_u64 << 32 | 1, u64::MAX, 3];
    let mut source = bevy::everything(false);
    for (bits, name) in ids.into_iter().zip(["door", "key", "cellar"]) {
        let id = bevy_bonfire::StableId::from_bits(bits);
        source.spawn((bevy::Saved, bevy::Name::new(name), id));
    }
    let of_bevy = through_bytes(&bevy::save(&source));
    let mut hecs = HecsWorld::fresh(false);
    let loaded = hecs.bonfire.load(&mut hecs.world, &of_bevy, LoadMode::Replace).unwrap();
    assert_eq!(loaded.report.component("bonfire.stable_id").unwrap().outcome, Outcome::Loaded);
    for (bits, name) in ids.into_iter().zip(["door", "key", "cellar"]) {
        let entity = hecs.bonfire.stable_ids().get(bonfire_hecs::StableId::from_bits(bits)).unwrap();
        assert_eq!(hecs.world.get::<&Name>(entity).unwrap().0, name);
    }
    let column = |snapshot: &Snapshot| {
        let stable =
            snapshot.components().iter().find(|component| component.key == "bonfire.stable_id").unwrap();
        (stable.version, stable.schema_fingerprint, stable.kind)
    };
    let of_hecs = through_bytes(&save(&hecs.bonfire, &hecs.world));
    assert_eq!(column(&of_hecs), column(&of_bevy));

    let mut again = bevy::everything(true);
    again.load(&of_hecs, bevy::LoadMode::Replace).unwrap();
    for (bits, name) in ids.into_iter().zip(["door", "key", "cellar"]) {
        let index = again.resource::<bevy_bonfire::StableIds>();
        let entity = index.get(bevy_bonfire::StableId::from_bits(bits)).unwrap();
        assert_eq!(names_of(&again, &[entity]), [name]);
    }
}

#[test]
fn ids_of_bevy_cannot_be_kept_by_hecs() {
    let mut source = bevy::everything(false);
    source.spawn((bevy::Saved, bevy::Team(1)));
    let mut hecs = HecsWorld::fresh(false);
    let here = hecs.world.spawn((Saved, Team(9)));
    let snapshot = through_bytes(&bevy::save(&source));
    let error = hecs.bonfire.load(&mut hecs.world, &snapshot, LoadMode::SameIds).unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("another engine"), "{error}");
    assert_eq!(hecs.world.get::<&Team>(here).unwrap().0, 9);
}

#[test]
fn saves_show_their_values_without_the_code_of_a_game() {
    let mut hecs = HecsWorld::fresh(false);
    let leader = hecs.world.spawn((Saved, Name("Dolly".into()), Position { x: 0.5, y: -1.25 }));
    hecs.world.spawn((Saved, Follows { leader, others: vec![], last: None }, Mood::Singing("la".into())));
    let options = SaveOptions::new().resource(Score { points: 77, best: Some(leader) });
    let of_hecs = hecs.bonfire.capture_with_hooks(&hecs.world, &options).unwrap().to_bytes().unwrap();
    let mut world = bevy::everything(false);
    world.load(&Snapshot::open(&of_hecs).unwrap(), bevy::LoadMode::Replace).unwrap();
    let of_bevy = bevy::save(&world).to_bytes().unwrap();
    for bytes in [of_hecs, of_bevy] {
        let json = Snapshot::open(&bytes).unwrap().to_json().unwrap();
        let table: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(table["archetypes"].as_array().unwrap().len(), 2);
        for shown in
            ["Dolly", "test.position", "0.5", "-1.25", "test.follows", "leader", "Singing", "la", "77"]
        {
            assert!(json.contains(shown), "`{shown}` in {json}");
        }
    }
}

/// What is said of entities and resources. Bevy says more, such as the order of siblings, which hecs carries as data.
fn entities(snapshot: &Snapshot) -> String {
    let table: serde_json::Value = serde_json::from_str(&canonical(snapshot)).unwrap();
    ["componentTable", "archetypes", "resources"].map(|part| table[part].to_string()).join("\n")
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases: cases * scale(), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(24))]

    #[test]
    fn lives_in_bevy_come_back_from_hecs(script in scripts(60), other in scripts(40)) {
        let mut source = BevyWorld::fresh(false);
        live(&mut source, &script);
        let (snapshot, expected) = (source.save(), source.describe());
        let mut used = HecsWorld::fresh(true);
        live(&mut used, &other);
        let ways = [("a new world", HecsWorld::fresh(false)), ("a used one", used), ("one that knows little", few())];
        for (way, hecs) in ways {
            let mut back = BevyWorld::fresh(true);
            back.replace(&through_hecs(&snapshot, hecs));
            prop_assert_eq!(back.describe(), expected.clone(), "{}", way);
        }
    }

    #[test]
    fn lives_in_hecs_come_back_from_bevy(script in scripts(60), other in scripts(40)) {
        let mut source = HecsWorld::fresh(false);
        live(&mut source, &script);
        let (snapshot, expected) = (source.save(), entities(&source.save()));
        let mut used = BevyWorld::fresh(true);
        live(&mut used, &other);
        for (way, bevy) in [("a new world", bevy::everything(false)), ("a used one", used.0), ("few", bevy::few())] {
            let mut back = HecsWorld::fresh(true);
            back.replace(&through_bevy(&snapshot, bevy));
            prop_assert_eq!(entities(&back.save()), expected.clone(), "{}", way);
        }
    }

    #[test]
    fn the_same_life_gives_the_same_world_in_both(script in scripts(60)) {
        let (mut hecs, mut bevy) = (HecsWorld::fresh(false), BevyWorld::fresh(false));
        live(&mut hecs, &script);
        live(&mut bevy, &script);
        let mut of_bevy = HecsWorld::fresh(false);
        of_bevy.replace(&through_bytes(&bevy.save()));
        prop_assert_eq!(entities(&of_bevy.save()), entities(&hecs.save()));
    }
}

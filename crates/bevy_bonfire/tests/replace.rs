//! What a load replaces, what it keeps, and what it must never touch.

mod common;

use bevy_app::App;
use bevy_bonfire::prelude::*;
use bevy_bonfire::{EncodeOptions, EntityId, Selection, Snapshot};
use bevy_ecs::prelude::*;
use common::*;

fn count<T: Component>(world: &mut World) -> usize {
    world.query::<&T>().iter(world).count()
}

/// Plain, and writes to itself when it is dropped.
#[derive(Resource, Persist)]
#[persist(key = "test.careless")]
struct Careless(u32);

impl Drop for Careless {
    fn drop(&mut self) {
        self.0 = 0;
    }
}

#[test]
fn a_value_that_is_not_wanted_leaves_the_snapshot_alone() {
    let mut world = world();
    world.persist_resource::<Careless>();
    world.insert_resource(Careless(7));
    let bytes = save(&world).encode(&EncodeOptions::default()).unwrap().to_vec();
    let snapshot = Snapshot::open(&bytes).unwrap();
    world.load(&snapshot, LoadMode::Merge).unwrap(); // The world has it: the saved one is discarded.
    world.load(&snapshot, LoadMode::Replace).unwrap();
    assert_eq!(world.resource::<Careless>().0, 7);
}

#[test]
fn wide_and_deep_families_are_replaced_in_linear_time() {
    let mut world = world();
    let unsaved = world.spawn(Name::new("level")).id();
    let root = world.spawn((Saved, ChildOf(unsaved))).id();
    let wide = 3_000 * bonfire_testkit::scale().min(30) as usize;
    for _ in 0..wide {
        world.spawn((Saved, ChildOf(unsaved)));
        world.spawn((Saved, ChildOf(root)));
    }
    let mut above = root;
    for _ in 0..10_000 {
        above = world.spawn((Saved, ChildOf(above))).id();
    }
    let snapshot = save(&world);
    for _ in 0..2 {
        // A descent by recursion would end the process, and quadratic work a run at a larger scale.
        world.load(&snapshot, LoadMode::Replace).unwrap();
        assert_eq!(count::<Saved>(&mut world), 2 * wide + 10_001);
        assert!(world.get::<Children>(unsaved).is_none(), "its children came back without a saved parent");
    }
}

#[test]
fn children_that_are_not_saved_go_with_their_parent_and_others_stay() {
    let mut world = world();
    let level = world.spawn(Name::new("level")).id();
    let saved = world.spawn((Saved, ChildOf(level))).id();
    world.spawn((Name::new("sprite"), ChildOf(saved)));
    let lamp = world.spawn((Name::new("lamp"), ChildOf(level))).id();
    let snapshot = save(&world);
    world.load(&snapshot, LoadMode::Replace).unwrap();
    assert_eq!(world.get::<Children>(level).unwrap().to_vec(), [lamp]);
    assert_eq!(count::<Name>(&mut world), 2);
}

#[derive(Component, Persist)]
#[persist(key = "mod.laser")]
struct Laser(u8);

#[test]
fn a_selection_keeps_what_is_carried_for_others() {
    let mut with_mod = world();
    with_mod.persist::<Laser>();
    with_mod.spawn((Saved, Team(1), Laser(9)));
    with_mod.spawn((Saved, Enemy));
    let mut without = world();
    without.load(&save(&with_mod), LoadMode::Replace).unwrap();
    let enemies = || Selection::new().matching::<With<Enemy>>();
    let level = without.capture_with_events(&SaveOptions::new().selection(enemies())).unwrap();
    without.load(&level, LoadMode::ReplaceSelected(enemies())).unwrap();
    let mut again = world();
    again.persist::<Laser>();
    again.load(&save(&without), LoadMode::Replace).unwrap();
    assert_eq!(again.query::<(&Laser, &Team)>().single(&again).unwrap().0.0, 9);
}

#[derive(Component, Persist)]
#[relationship(relationship_target = Targets)]
#[persist(key = "mod.aims_at")]
struct AimsAt(Entity);

#[derive(Component)]
#[relationship_target(relationship = AimsAt)]
struct Targets(Vec<Entity>);

#[test]
fn a_carried_relationship_keeps_its_order_and_may_lose_its_target() {
    let mut with_mod = world();
    with_mod.persist_relationship::<AimsAt>();
    let target = with_mod.spawn((Saved, Name::new("target"))).id();
    let lost = with_mod.spawn((Saved, Name::new("lost"))).id();
    for (name, at) in [("a", target), ("b", target), ("c", lost)] {
        with_mod.spawn((Saved, Name::new(name), AimsAt(at)));
    }
    with_mod.get_mut::<Targets>(target).unwrap().0.swap(0, 1);
    let mut without = world();
    let loaded = without.load(&save(&with_mod), LoadMode::Replace).unwrap();
    without.despawn(loaded.entity(lost).unwrap());
    let mut again = world();
    again.persist_relationship::<AimsAt>();
    again.load(&save(&without), LoadMode::Replace).unwrap();
    let targets = again.query::<&Targets>().single(&again).unwrap();
    let names: Vec<&str> =
        targets.0.iter().map(|&source| again.get::<Name>(source).unwrap().as_str()).collect();
    assert_eq!(names, ["b", "a"]);
    assert_eq!(count::<AimsAt>(&mut again), 2);
}

#[test]
fn a_relationship_to_null_is_left_out() {
    // As a broken tool might write it: Bevy would panic when it looks for the parent.
    let mut registry = bevy_bonfire::core::Registry::new();
    registry.add(bevy_bonfire::Descriptor::new::<Entity>("bevy.child_of")).unwrap();
    let mut writer = bevy_bonfire::core::engine::SnapshotWriter::new(&registry);
    let ids: Vec<EntityId> = (0..40).map(|index| EntityId::new(index, 0)).collect();
    writer.archetype(&ids).unwrap().column(&[Entity::PLACEHOLDER; 40]).unwrap();
    let snapshot = writer.finish().unwrap();
    let mut target = world();
    target.load(&snapshot, LoadMode::Replace).unwrap();
    assert_eq!((count::<ChildOf>(&mut target), count::<Saved>(&mut target)), (0, 40));
    // And as a resource, which a relationship cannot be.
    let mut writer = bevy_bonfire::core::engine::SnapshotWriter::new(&registry);
    writer.resource(&Entity::PLACEHOLDER).unwrap();
    assert_eq!(
        target.load(&writer.finish().unwrap(), LoadMode::Replace).unwrap_err().key(),
        Some("bevy.child_of")
    );
    assert_eq!(count::<Saved>(&mut target), 40);
}

#[test]
fn entities_saved_without_marks_get_them_where_marks_count() {
    let mut app = App::new();
    app.add_plugins(BonfirePlugin::new().scope(SaveScope::Persisted));
    register(app.world_mut(), false);
    app.world_mut().spawn(Enemy);
    let snapshot = save(app.world());
    let mut marked = world();
    for _ in 0..2 {
        marked.load(&snapshot, LoadMode::Replace).unwrap();
        assert_eq!((count::<Enemy>(&mut marked), save(&marked).entity_count()), (1, 1));
    }
}

#[test]
fn a_stable_id_on_two_entities_outlives_one_of_them() {
    let mut world = world();
    let id = StableId::new();
    let original = world.spawn((Saved, id)).id();
    let snapshot = save(&world);
    let loaded = world.load(&snapshot, LoadMode::Merge).unwrap();
    let copy = loaded.entity(original).unwrap();
    assert_eq!(world.resource::<StableIds>().get(id), Some(copy));
    world.despawn(copy);
    assert_eq!(world.resource::<StableIds>().get(id), Some(original));
}

#[test]
fn reserved_keys_are_refused_and_panicking_callbacks_reported() {
    assert!(SaveOptions::new().data("bonfire.order", &5_u32).err().unwrap().is_misuse());
    let mut world = world();
    let snapshot = world.capture_with_events(&SaveOptions::new().data("game.seed", &5_u32).unwrap()).unwrap();
    world.add_observer(|mut starting: On<LoadStarting>| {
        starting.on_data("game.seed", |_, _: u32| panic!("no luck"));
    });
    let loaded = world.load(&snapshot, LoadMode::Replace).unwrap();
    assert!(loaded.report.callback_errors[0].to_string().contains("no luck"));
    world.add_observer(|mut starting: On<SaveStarting>| starting.attach("bonfire.mine", &1_u8));
    assert!(world.capture_with_events(&SaveOptions::new()).unwrap_err().is_misuse());
}

#[test]
fn entities_of_which_nothing_is_known_are_saved_again() {
    #[derive(Component, Persist)]
    #[persist(key = "mod.mana")]
    struct Mana(u32);
    let app = || {
        let mut app = bevy_app::App::new();
        app.add_plugins(BonfirePlugin::default().scope(SaveScope::Persisted)).persist::<Position>();
        app
    };
    let mut with_mod = app();
    with_mod.persist::<Mana>();
    with_mod.world_mut().spawn(Mana(7));
    let mut without = app();
    without.world_mut().load(&save(with_mod.world()), LoadMode::Replace).unwrap();
    let again = save(without.world());
    without.world_mut().load(&again, LoadMode::Replace).unwrap();
    assert_eq!(save(without.world()).entity_count(), 1);
    with_mod.world_mut().load(&save(without.world()), LoadMode::Replace).unwrap();
    let world = with_mod.world_mut();
    assert_eq!(world.query::<&Mana>().single(world).unwrap().0, 7);
}

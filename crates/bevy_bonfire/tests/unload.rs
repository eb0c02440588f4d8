//! Entities that unload and come back: what refers to them finds them again, and stand-ins go when nothing refers to them.

mod common;

use bevy_bonfire::prelude::*;
use bevy_bonfire::{Index, Snapshot, StandIn};
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::prelude::*;
use common::{DockedAt, DockedShips, Follows, Position, Score};

fn follows(leader: Entity) -> Follows {
    Follows { leader, others: vec![leader], last: Some(leader) }
}

fn chunk(world: &World, entities: impl IntoIterator<Item = Entity>) -> Snapshot {
    let snapshot = world.capture(&SaveOptions::new().entities(entities).outside_references()).unwrap();
    Snapshot::open(&snapshot.to_bytes().unwrap()).unwrap()
}

fn id(bits: u64) -> StableId {
    StableId::from_bits(bits)
}

fn find(world: &World, bits: u64) -> Entity {
    world.resource::<StableIds>().get(id(bits)).unwrap()
}

fn stand_ins(world: &mut World) -> usize {
    world.query_filtered::<&StandIn, With<Disabled>>().iter(world).count()
}

fn children(world: &World, entity: Entity) -> Vec<Entity> {
    world.get::<Children>(entity).map(|children| children.to_vec()).unwrap_or_default()
}

#[test]
fn references_and_children_outlive_an_unload_of_their_target() {
    let mut world = common::world();
    let station = world.spawn((Saved, id(1), Position { x: 1.0, y: 2.0 }, Name::new("station"))).id();
    let inside = world.spawn((Saved, ChildOf(station))).id();
    let ship = world.spawn((Saved, id(2), follows(station), ChildOf(station))).id();
    world.entity_mut(ship).insert(DockedAt { station, berth: "7".into() });
    world.insert_resource(Score { points: 1, best: Some(station) });
    let saved = chunk(&world, [station, inside]);
    for _ in 0..3 {
        world.unload([station, inside]).unwrap();
        assert!(world.resource::<StableIds>().get(id(1)).is_none());
        assert_eq!(world.get::<StandIn>(station).unwrap().id(), id(1));
        assert!(world.get::<Position>(station).is_none() && world.get::<Name>(station).is_none());
        assert_eq!((world.get::<ChildOf>(ship).unwrap().0, children(&world, station)), (station, vec![ship]));
        assert_eq!(world.capture(&SaveOptions::new()).unwrap().entity_count(), 1);
        assert_eq!(world.sweep_stand_ins().unwrap(), 0);
        world.load(&saved, LoadMode::Merge).unwrap();
        assert_eq!((find(&world, 1), world.get::<Follows>(ship).unwrap()), (station, &follows(station)));
        assert_eq!(world.get::<Name>(station).unwrap().as_str(), "station");
        assert!(world.get::<Disabled>(station).is_none() && world.get::<StandIn>(station).is_none());
        assert_eq!((children(&world, station).len(), children(&world, station)[0]), (2, ship));
        assert_eq!(world.get::<DockedShips>(station).unwrap().ships(), [ship]);
        assert_eq!(world.resource::<Score>().best, Some(station));
        // The child without a stable id has a new id.
        let inside = children(&world, station)[1];
        world.entity_mut(inside).despawn();
        let inside = world.spawn((Saved, ChildOf(station))).id();
        assert_eq!(stand_ins(&mut world), 0);
        world.unload([inside]).unwrap();
        assert!(world.get_entity(inside).is_err());
    }
}

#[test]
fn an_unload_takes_what_is_not_saved_along_and_leaves_what_is() {
    let mut world = common::world();
    let root = world.spawn((Saved, Position::default())).id();
    let [particle, grandchild] = {
        let particle = world.spawn(ChildOf(root)).id();
        [particle, world.spawn(ChildOf(particle)).id()]
    };
    let neighbour = world.spawn((Saved, id(5), ChildOf(root))).id();
    let below = world.spawn(ChildOf(neighbour)).id();
    world.unload([root]).unwrap();
    for gone in [root, particle, grandchild] {
        assert!(world.get_entity(gone).is_err());
    }
    assert!(world.get::<ChildOf>(neighbour).is_none(), "its parent has no stable id and cannot come back");
    assert_eq!(children(&world, neighbour), [below]);
    assert_eq!(stand_ins(&mut world), 0);
    // A whole family at once, in any order.
    world.unload([below, neighbour]).unwrap();
    assert_eq!((stand_ins(&mut world), world.get_entity(below).is_err()), (1, true));
    assert_eq!(children(&world, neighbour), []);
}

#[test]
fn unloading_again_and_unloading_what_is_gone_does_nothing() {
    let mut world = common::world();
    let [a, b] = [1, 2].map(|bits| world.spawn((Saved, id(bits))).id());
    world.entity_mut(a).insert(follows(b));
    world.unload([b, b]).unwrap();
    world.unload([b]).unwrap();
    world.despawn(a);
    world.unload([a]).unwrap();
    assert_eq!((stand_ins(&mut world), world.get::<StandIn>(b).is_some()), (1, true));
}

#[test]
fn a_sweep_removes_what_nothing_refers_to_and_nothing_else() {
    let mut world = common::world();
    let target = |world: &mut World, bits| world.spawn((Saved, id(bits))).id();
    let targets: Vec<Entity> = (0..6).map(|bits| target(&mut world, bits)).collect();
    let holder = world.spawn((Saved, id(10), follows(targets[0]))).id();
    // Not saved, but registered: it counts, too.
    let unsaved = world.spawn(common::Mood::Angry { at: Some(targets[1]), level: 1 }).id();
    let child = world.spawn((Saved, id(11), ChildOf(targets[2]))).id();
    world.insert_resource(Score { points: 0, best: Some(targets[3]) });
    world.unload(targets.clone()).unwrap();
    assert_eq!((stand_ins(&mut world), world.sweep_stand_ins().unwrap()), (6, 2));
    let standing =
        |world: &World| targets.iter().map(|&e| world.get::<StandIn>(e).is_some()).collect::<Vec<_>>();
    assert_eq!(standing(&world), [true, true, true, true, false, false]);
    assert_eq!(world.sweep_stand_ins().unwrap(), 0);
    world.entity_mut(holder).remove::<Follows>();
    assert_eq!(world.sweep_stand_ins().unwrap(), 1);
    world.despawn(unsaved);
    world.entity_mut(child).remove::<ChildOf>();
    world.resource_mut::<Score>().best = None;
    assert_eq!((world.sweep_stand_ins().unwrap(), stand_ins(&mut world)), (3, 0));
    assert_eq!(world.capture(&SaveOptions::new()).unwrap().entity_count(), 2);
}

#[test]
fn what_is_carried_for_a_removed_mod_keeps_its_stand_ins() {
    #[derive(Component, Persist)]
    #[persist(key = "mod.pet")]
    struct Pet(Entity);
    let mut source = common::world();
    source.persist::<Pet>();
    let owner = source.spawn((Saved, id(1))).id();
    let pet = source.spawn((Saved, id(2), Pet(owner))).id();
    let [owner, pet] = [chunk(&source, [owner]), chunk(&source, [pet])];
    // The mod is not there.
    let mut world = common::world();
    world.load(&pet, LoadMode::Merge).unwrap();
    assert_eq!((stand_ins(&mut world), world.sweep_stand_ins().unwrap()), (1, 0));
    let again = chunk(&world, [find(&world, 2)]);
    // It is back.
    let mut world = common::world();
    world.persist::<Pet>();
    world.load(&again, LoadMode::Merge).unwrap();
    world.load(&owner, LoadMode::Merge).unwrap();
    assert_eq!(world.get::<Pet>(find(&world, 2)).unwrap().0, find(&world, 1));
    assert_eq!(stand_ins(&mut world), 0);
}

#[test]
fn an_entity_that_the_game_spawns_takes_over_the_stand_in_if_it_asks_for_it() {
    let mut world = common::world();
    let target = world.spawn((Saved, id(1))).id();
    let holder = world.spawn((Saved, id(2), follows(target), ChildOf(target))).id();
    world.unload([target]).unwrap();
    let spawned = world.spawn_stable(id(1), (Saved, Position { x: 3.0, y: 0.0 })).id();
    assert_eq!((spawned, find(&world, 1), stand_ins(&mut world)), (target, target, 0));
    assert_eq!(world.query::<&Position>().single(&world).unwrap().x, 3.0);
    assert_eq!(children(&world, target), [holder]);
    let other = world.spawn_stable(id(3), Saved).id();
    assert_eq!(find(&world, 3), other);
    // The same by hand: the id on the stand-in makes it the entity.
    world.unload([target]).unwrap();
    world.entity_mut(target).insert((id(1), Saved));
    assert_eq!(
        (find(&world, 1), stand_ins(&mut world), world.get::<Disabled>(target).is_some()),
        (target, 0, false)
    );
}

#[test]
fn a_plain_spawn_is_found_when_what_refers_to_it_is_loaded_again() {
    let mut world = common::world();
    let target = world.spawn((Saved, id(1))).id();
    let holder = world.spawn((Saved, id(2), follows(target))).id();
    world.unload([target]).unwrap();
    let spawned = world.spawn((Saved, id(1))).id();
    assert_eq!((find(&world, 1), world.get::<Follows>(holder).unwrap().leader), (spawned, target));
    let saved = chunk(&world, [holder]);
    world.unload([holder]).unwrap();
    world.load(&saved, LoadMode::Merge).unwrap();
    assert_eq!((find(&world, 2), world.get::<Follows>(holder).unwrap().leader), (holder, spawned));
    assert_eq!((world.sweep_stand_ins().unwrap(), stand_ins(&mut world)), (1, 0));
}

#[test]
fn indexes_and_removal_hooks_follow_an_unload() {
    let mut app = bevy_app::App::new();
    app.add_plugins(BonfirePlugin::new());
    common::register(app.world_mut(), false);
    app.index_by(|position: &Position| position.x as u32);
    let world = app.world_mut();
    let target = world.spawn((Saved, id(1), Position { x: 4.0, y: 0.0 })).id();
    world.add_observer(|removed: On<Remove<Position>>, mut score: Local<u64>, mut commands: Commands| {
        *score += 1;
        let points = *score;
        assert_ne!(removed.entity, Entity::PLACEHOLDER);
        commands.insert_resource(Score { points, best: None });
    });
    let saved = chunk(world, [target]);
    world.unload([target]).unwrap();
    assert_eq!(world.resource::<Score>().points, 1);
    assert_eq!(world.resource::<Index<Position, u32>>().one(&4), None);
    world.load(&saved, LoadMode::Merge).unwrap();
    assert_eq!(world.resource::<Index<Position, u32>>().one(&4), Some(target));
}

#[test]
fn a_despawned_stand_in_is_forgotten() {
    let mut world = common::world();
    let target = world.spawn((Saved, id(1))).id();
    let saved = chunk(&world, [target]);
    world.unload([target]).unwrap();
    world.despawn(target);
    world.load(&saved, LoadMode::Merge).unwrap();
    assert_ne!(find(&world, 1), target);
    assert_eq!(world.sweep_stand_ins().unwrap(), 0);
}

//! Choices of entities by list and by value.

use bonfire_hecs::{Bonfire, Filter, LoadMode, Persist, SaveOptions, Saved, Selection};
use hecs::World;

#[derive(Persist, Clone, Copy, Debug, PartialEq, PartialOrd)]
#[persist(key = "test.level")]
struct Level(u32);

#[derive(Persist, Clone, Copy)]
#[persist(key = "test.enemy")]
struct Enemy;

fn bonfire() -> Bonfire {
    let mut bonfire = Bonfire::new();
    bonfire.persist::<Level>().unwrap().persist::<Enemy>().unwrap();
    bonfire
}

/// The levels of what a save with these options loads, sorted.
fn loaded(bonfire: &mut Bonfire, world: &World, options: &SaveOptions) -> Vec<u32> {
    let mut target = World::new();
    let snapshot = bonfire.capture(world, options).unwrap();
    bonfire.load(&mut target, &snapshot, LoadMode::Replace).unwrap();
    let mut levels: Vec<u32> = target.query::<&Level>().iter().map(|level| level.0).collect();
    levels.sort_unstable();
    levels
}

#[test]
fn entities_are_chosen_by_a_list_and_by_value() {
    let (mut bonfire, mut world) = (bonfire(), World::new());
    let entities: Vec<_> = (0..6).map(|level| world.spawn((Saved, Level(level)))).collect();
    world.spawn((Saved, Level(7), Enemy));
    let stale = world.spawn((Saved, Level(8)));
    world.despawn(stale).unwrap();
    let again = world.spawn((Saved, Level(9)));
    assert_eq!(again.id(), stale.id(), "a stale handle does not find the new owner of its index");
    let list = [entities[1], entities[4], stale];
    assert_eq!(loaded(&mut bonfire, &world, &SaveOptions::new().entities(list)), [1, 4]);
    let high = Selection::new().only(|entity| entity.get::<&Level>().is_some_and(|level| level.0 >= 4));
    assert_eq!(loaded(&mut bonfire, &world, &SaveOptions::new().selection(high.clone())), [4, 5, 7, 9]);
    let both = high.filter(Filter::new().exclude("test.enemy")).entities([entities[5], entities[0], again]);
    assert_eq!(loaded(&mut bonfire, &world, &SaveOptions::new().selection(both.clone())), [5, 9]);

    // A load in their place leaves the others alone.
    let snapshot = bonfire.capture(&world, &SaveOptions::new().selection(both.clone())).unwrap();
    world.get::<&mut Level>(entities[5]).unwrap().0 = 50;
    bonfire.load(&mut world, &snapshot, LoadMode::RestoreSelected(both)).unwrap();
    assert_eq!(world.get::<&Level>(entities[5]).unwrap().0, 5);
    assert_eq!(world.query::<&Level>().iter().count(), 8);
}

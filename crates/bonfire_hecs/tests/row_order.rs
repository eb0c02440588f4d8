//! The order of rows after a restore, for simulations that depend on it.

use bonfire_hecs::core::RowOrder;
use bonfire_hecs::{Bonfire, LoadMode, LoadOptions, Persist, SaveOptions};
use hecs::{Entity, World};

#[derive(Persist, Clone, Copy, Debug, PartialEq)]
#[persist(key = "test.number")]
struct Number(u32);

fn numbers(world: &World) -> Vec<u32> {
    world.query::<&Number>().iter().map(|number| number.0).collect()
}

#[test]
fn rows_come_back_where_they_were() {
    let mut bonfire = Bonfire::new();
    bonfire.persist::<Number>().unwrap();
    let mut world = World::new();
    let entities: Vec<Entity> = (0..6).map(|number| world.spawn((Number(number),))).collect();
    let snapshot = bonfire.capture(&world, &SaveOptions::new()).unwrap();
    world.despawn(entities[1]).unwrap();
    world.spawn((Number(9),));
    assert_eq!(numbers(&world), [0, 5, 2, 3, 4, 9]);
    let options = |order| LoadOptions::from(LoadMode::Restore).row_order(order);
    bonfire.load(&mut world, &snapshot, options(RowOrder::Keep)).unwrap();
    assert_ne!(numbers(&world), [0, 1, 2, 3, 4, 5]);
    let loaded = bonfire.load(&mut world, &snapshot, options(RowOrder::Restore)).unwrap();
    assert_eq!(numbers(&world), [0, 1, 2, 3, 4, 5]);
    assert_eq!(loaded.entity(entities[3]), Some(entities[3]));
}

//! An hour of saving, in short: what is kept does not grow.

mod common;
mod soak;

use std::time::Duration;

use bevy_app::App;
use bevy_bonfire::prelude::*;
use bevy_bonfire::store::disk::MemoryDisk;
use bevy_bonfire::store::{DirStore, Slots};
use bevy_bonfire::{Autosave, Checkpoints, LoadOptions};
use bevy_ecs::prelude::*;
use bonfire_testkit::disk::Random;
use bonfire_testkit::scale;
use common::*;
use soak::{alone, soak};

/// The interval of autosaves that an hour is divided by.
const INTERVAL_S: u32 = 30;

fn hour() -> u32 {
    3600 / INTERVAL_S * scale().min(20)
}

/// A few thousand entities of several kinds.
fn populate(world: &mut World) {
    for i in 0..3000_u32 {
        let position = Position { x: i as f32, y: 0.0 };
        match i % 3 {
            0 => world.spawn((Saved, position)),
            1 => world.spawn((Saved, position, Health { current: 1, max: i, flash: 0 })),
            _ => world.spawn((Saved, position, Inventory { items: vec![format!("axe {i}")], gold: None })),
        };
    }
    world.insert_resource(Score::default());
}

/// Changes some, and as many come as go.
fn change(world: &mut World, random: &mut Random) {
    let all: Vec<Entity> = world.query_filtered::<Entity, With<Saved>>().iter(world).collect();
    for _ in 0..30 {
        let entity = *random.pick(&all);
        match random.below(8) {
            0 => {
                if world.despawn(entity) {
                    world.spawn((Saved, Position::default(), Health::default()));
                }
            }
            1 => {
                if let Ok(mut entity) = world.get_entity_mut(entity) {
                    entity.insert(Burning("for a while".to_owned())).remove::<Burning>();
                }
            }
            _ => {
                if let Some(mut position) = world.get_mut::<Position>(entity) {
                    position.y += 1.0;
                }
            }
        }
    }
    world.resource_mut::<Score>().points += 1;
}

fn app(autosave: Autosave) -> App {
    let mut app = App::new();
    let slots = Slots::new(DirStore::on(MemoryDisk::new()).unwrap());
    app.add_plugins(BonfirePlugin::new().slots(slots).autosave(autosave));
    register(app.world_mut(), false);
    populate(app.world_mut());
    app
}

fn saves(app: &mut App) -> Mut<'_, Saves> {
    app.world_mut().resource_mut::<Saves>()
}

fn settle(app: &mut App) {
    while saves(app).is_busy() {
        app.update();
        std::thread::yield_now();
    }
}

#[test]
fn autosaves_of_an_hour_take_no_more_memory_than_those_of_a_minute() {
    let _alone = alone();
    // As fast as they can be made: what an hour does is in their number.
    let mut app = app(Autosave::every(Duration::ZERO));
    let mut random = Random::new(1);
    soak(hour(), |number| {
        let before = saves(&mut app).status().saves;
        change(app.world_mut(), &mut random);
        saves(&mut app).autosave.enabled = true;
        while saves(&mut app).status().saves == before {
            app.update();
            std::thread::yield_now();
        }
        saves(&mut app).autosave.enabled = false;
        // Now and then the player does it, too.
        if number % 10 == 0 {
            saves(&mut app).save("quick");
        }
        settle(&mut app);
    });
    assert_eq!(saves(&mut app).status().failures, 0);
}

#[test]
fn a_ring_of_checkpoints_does_not_grow() {
    let _alone = alone();
    for mut checkpoints in [Checkpoints::new(20), Checkpoints::new(20).compared()] {
        let mut world = world();
        populate(&mut world);
        let mut random = Random::new(2);
        soak(2 * hour(), |number| {
            change(&mut world, &mut random);
            checkpoints.take(&mut world, u64::from(number)).unwrap();
            if number % 16 == 15 {
                checkpoints.rewind(&mut world, u64::from(number) - 7).unwrap();
                for tick in 0..7 {
                    checkpoints.take(&mut world, u64::from(number) - 6 + tick).unwrap();
                }
            }
        });
    }
}

#[test]
fn loads_in_slices_leave_nothing_behind_whether_they_are_completed_or_not() {
    let _alone = alone();
    let mut app = app(Autosave::off());
    saves(&mut app).save("quick");
    app.update();
    settle(&mut app);
    let mut random = Random::new(3);
    let mut outcomes = [0, 0];
    soak((hour() / 3).max(40), |number| {
        let load = saves(&mut app).load_with("quick", LoadOptions::new().budget(Duration::ZERO));
        let patience = random.below(30);
        for tick in 0.. {
            app.update();
            if number % 2 == 0 && tick == patience {
                load.cancel();
            }
            if load.is_complete() {
                break;
            }
            std::thread::yield_now();
        }
        settle(&mut app);
        outcomes[usize::from(load.result().unwrap().is_ok())] += 1;
        assert_eq!(app.world_mut().query::<&Position>().iter(app.world()).count(), 3000);
    });
    assert!(outcomes[0] > 5 && outcomes[1] > 5, "{outcomes:?}");
}

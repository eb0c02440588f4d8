//! A save of the first release of a game, loaded by the third: `cargo run -p bevy_bonfire --example evolving_saves`.
//!
//! The rules are in docs/book/src/evolving-saves.md. Here, a field is added, a component is renamed and gets a new version, and one
//! component becomes two.

use bevy_bonfire::core::Keyed;
use bevy_bonfire::prelude::*;
use bevy_bonfire::{Snapshot, preflight};
use bevy_ecs::prelude::*;

/// The game as it was when its first players saved.
mod release_1 {
    use super::*;

    #[derive(Component, Persist)]
    #[require(Saved)]
    #[persist(key = "game.hp")]
    pub(super) struct Health(pub(super) u32);

    #[derive(Component, Persist)]
    #[persist(key = "game.body")]
    pub(super) struct Body {
        pub(super) mass: f32,
        pub(super) speed: f32,
    }

    pub(super) fn save() -> Vec<u8> {
        let mut world = World::new();
        world.save_track("game", 1).persist::<Health>().persist::<Body>();
        world.spawn((Name::new("Ada"), Health(75), Body { mass: 60.0, speed: 2.5 }));
        world.spawn((Name::new("Rock"), Body { mass: 900.0, speed: 0.0 }, Saved));
        world
            .capture(&SaveOptions::new())
            .and_then(|snapshot| snapshot.to_bytes())
            .expect("a world that saves")
    }
}

/// What `game.health` was, never touched again.
#[derive(Component, Persist)]
#[persist(key = "game.health")]
struct HealthV1(u32);

#[derive(Component, Debug, Persist)]
#[require(Saved)]
#[persist(key = "game.health", alias = "game.hp", version = 2, from = HealthV1)]
struct Health {
    fraction: f32,
    #[persist(default = 1.0)] // for saves of version 2 that are older than the field
    armor: f32,
}

impl From<HealthV1> for Health {
    fn from(HealthV1(points): HealthV1) -> Self {
        Self { fraction: points as f32 / 100.0, armor: 1.0 }
    }
}

#[derive(Component, Debug, Persist)]
#[persist(key = "game.mass")]
struct Mass(f64);

#[derive(Component, Debug, Persist)]
#[persist(key = "game.speed")]
struct Speed(f32);

fn main() {
    let bytes = release_1::save();

    let mut world = World::new();
    world.persist::<Health>().persist::<Mass>().persist::<Speed>();
    world.save_track("game", 3);
    world.save_migration("game", 1, 3, |save| {
        for entity in save.with(release_1::Body::KEY)? {
            let Some(body) = save.take::<release_1::Body>(entity, release_1::Body::KEY)? else { continue };
            save.insert(entity, &Mass(body.mass.into()))?;
            if body.speed > 0.0 {
                save.insert(entity, &Speed(body.speed))?;
            }
        }
        Ok(())
    });

    // What a menu can say before the player waits.
    let registry = world.save_registry().expect("something is registered");
    let preflight = preflight(&bytes, &registry).expect("a save");
    print!("{preflight}");
    assert!(preflight.is_loadable());

    let snapshot = Snapshot::open(&bytes).expect("a save");
    let loaded = world.load(&snapshot, LoadMode::Replace).expect("a save that this release can read");
    println!("\n{}", loaded.report);
    let mut units = world.query::<(&Name, Option<&Health>, &Mass, Option<&Speed>)>();
    for (name, health, mass, speed) in units.iter(&world) {
        println!("{name}: {health:?}, {mass:?}, {speed:?}");
    }
    let (_, health, ..) = units.iter(&world).find(|(name, ..)| name.as_str() == "Ada").expect("Ada is there");
    assert_eq!(health.map(|health| health.fraction), Some(0.75));
}

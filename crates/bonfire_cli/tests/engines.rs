//! One tool for saves of every engine.

use std::process::Command;

use bevy_bonfire::prelude::*;
use bonfire_hecs::Bonfire;

#[derive(bevy_ecs::component::Component, Persist)]
#[persist(key = "game.health")]
struct BevyHealth {
    current: f32,
    from: bevy_ecs::entity::Entity,
}

#[derive(bonfire_hecs::Persist)]
#[persist(key = "game.health")]
struct HecsHealth {
    current: f32,
    from: hecs::Entity,
}

fn show(path: &std::path::Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_bonfire")).arg("show").arg(path).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn saves_of_bevy_and_hecs_are_shown_alike() {
    let directory = tempfile::tempdir().unwrap();
    let (bevy, hecs) = (directory.path().join("bevy.save"), directory.path().join("hecs.save"));

    let mut world = bevy_ecs::world::World::new();
    world.persist::<BevyHealth>();
    let from = world.spawn(Saved).id();
    world.spawn((Saved, BevyHealth { current: 2.5, from }));
    world.save_to(&bevy, &SaveOptions::new()).unwrap();

    let (mut world, mut bonfire) = (hecs::World::new(), Bonfire::new());
    bonfire.persist::<HecsHealth>().unwrap();
    let from = world.spawn((bonfire_hecs::Saved,));
    world.spawn((bonfire_hecs::Saved, HecsHealth { current: 2.5, from }));
    bonfire.save_to(&world, &hecs, &bonfire_hecs::SaveOptions::new()).unwrap();

    let lines = |text: String| -> Vec<String> {
        // Ids are each world's own.
        let without_ids = |line: &str| -> String {
            let words = line.split_whitespace().filter(|word| !word.contains('v') || word.contains('.'));
            words.collect::<Vec<_>>().join(" ")
        };
        text.lines().map(without_ids).filter(|line| !line.contains("--")).collect()
    };
    let (of_bevy, of_hecs) = (show(&bevy), show(&hecs));
    assert!(of_bevy.contains("game.health.current") && of_bevy.contains("2.5"), "{of_bevy}");
    assert_eq!(lines(of_bevy), lines(of_hecs));
}

//! All chunks of an older release become those of this one beside the game, and the next session goes on.
#![cfg(feature = "chunks")]

mod streaming_support;

use bevy_app::App;
use bevy_bonfire::chunks::{ChunkFocus, ChunkStreamPlugin, Chunks, StreamHarness, Streamed, UpgradePace};
use bevy_bonfire::prelude::*;
use bevy_ecs::prelude::*;
use bonfire_chunks::MemoryDisk;
use std::time::Duration;
use streaming_support::{EDGE, at, open};

#[derive(Component, Persist)]
#[persist(key = "game.goat")]
struct GoatV1 {
    hunger: f32,
}

#[derive(Component, Persist, Debug, PartialEq)]
#[persist(key = "game.goat", version = 2, from = GoatV1)]
struct Goat {
    hunger: f64,
    is_wild: bool,
}

impl From<GoatV1> for Goat {
    fn from(old: GoatV1) -> Self {
        Self { hunger: f64::from(old.hunger), is_wild: true }
    }
}

fn start(disk: &MemoryDisk) -> StreamHarness {
    let mut app = App::new();
    app.add_plugins(ChunkStreamPlugin::new(open(disk)));
    StreamHarness::new(app)
}

#[test]
fn chunks_of_an_older_release_are_upgraded_beside_the_game() {
    let disk = MemoryDisk::new();
    let mut old = start(&disk);
    old.app.persist::<GoatV1>();
    let player = old.app.world_mut().spawn((ChunkFocus::new(2), at([0.0, 0.0]))).id();
    old.settle();
    for chunk in 0..20 {
        let place = [(chunk % 5 - 2) as f32 * EDGE + 1.0, (chunk / 5 - 2) as f32 * EDGE + 1.0];
        old.app.world_mut().spawn((Streamed, GoatV1 { hunger: chunk as f32 }, at(place)));
    }
    old.settle();
    old.app.world_mut().despawn(player);
    old.settle();
    drop(old);

    let mut game = start(&disk);
    game.app.persist::<Goat>();
    let upgrade = |game: &mut StreamHarness, pace: UpgradePace| {
        let upgrade = game.app.world_mut().resource_mut::<Chunks>().upgrade(pace);
        game.app.update();
        upgrade
    };
    // It is stopped after a step, and goes on later.
    let stopped = upgrade(&mut game, UpgradePace::new(3, Duration::from_millis(20)));
    while stopped.progress().done == 0 {
        std::thread::yield_now();
    }
    stopped.cancel();
    assert!(stopped.wait().unwrap_err().is_cancelled());
    let rest = upgrade(&mut game, UpgradePace::new(4, Duration::ZERO)).wait().unwrap();
    assert!(rest.saved > 0 && rest.saved < 20 && rest.failed.is_empty(), "{rest:?}");
    let again = upgrade(&mut game, UpgradePace::default()).wait().unwrap();
    assert_eq!((again.saved, again.looked), (0, 20), "all of them are of today");
    game.app.world_mut().spawn((ChunkFocus::new(2), at([0.0, 0.0])));
    game.settle();
    let mut goats = game.app.world_mut().query::<&Goat>();
    let all: Vec<&Goat> = goats.iter(game.app.world()).collect();
    assert!(all.len() == 20 && all.iter().all(|goat| goat.is_wild));
}

//! Rewind: a checkpoint per tick, and back to any of them at memory speed. Entities keep their ids, and what is not saved
//! (sprites, sounds) stays on them.
//!
//! A checkpoint is a state: going back needs nothing of the game. Going forward again is the game's own business. This one is
//! deterministic, so the same inputs lead to the same world, which rollback in games over the network is built on.
//!
//! ```sh
//! cargo run -p bevy_bonfire --example rewind
//! ```

use bevy_app::{App, Update};
use bevy_bonfire::prelude::*;
use bevy_bonfire::{Checkpoints, Result};
use bevy_ecs::prelude::*;

#[derive(Component, Persist)]
#[require(Saved)]
#[persist(key = "game.ball")]
struct Ball {
    height: f32,
    speed: f32,
}

/// Each bounce throws one up, and it is gone after a few ticks: the structure of the world changes all the time.
#[derive(Component, Persist)]
#[require(Saved)]
#[persist(key = "game.spark")]
struct Spark {
    of: Entity,
    ticks_left: u32,
}

/// Never changes: all checkpoints share its memory.
#[derive(Component, Persist)]
#[require(Saved)]
#[persist(key = "game.star")]
struct Star([f32; 3]);

#[derive(Resource, Persist, Default)]
#[persist(key = "game.tick")]
struct Now(u64);

/// Not saved: what the renderer hangs on an entity.
#[derive(Component)]
struct Sprite(char);

/// What the player did, by tick. Not part of the world: a checkpoint does not take it back.
#[derive(Resource, Default)]
struct Kicks(Vec<(u64, f32)>);

/// So many ticks the game can go back.
const REMEMBERED: usize = 32;

fn main() -> Result<()> {
    let mut app = App::new();
    app.add_plugins(BonfirePlugin::new())
        .persist::<Ball>()
        .persist::<Spark>()
        .persist::<Star>()
        .persist_resource::<Now>()
        .init_resource::<Now>()
        .insert_resource(Kicks(vec![(12, 1.5), (45, 2.0)]))
        .insert_resource(Checkpoints::new(REMEMBERED))
        .add_systems(Update, (bounce, fade, remember).chain());
    let ball = app.world_mut().spawn((Ball { height: 9.0, speed: 0.0 }, Sprite('o'))).id();
    app.world_mut().spawn_batch((0..5000).map(|star| Star([star as f32, 0.5, 1.0])));

    println!("60 ticks, the last {REMEMBERED} of them remembered:");
    play(&mut app, 60);
    let world = app.world_mut();
    let checkpoints = world.resource::<Checkpoints>();
    let (count, together) = (checkpoints.len(), checkpoints.memory_bytes() / 1024);
    let alone = world.capture(&SaveOptions::new())?.column_bytes() / 1024;
    println!("{count} checkpoints in {together} KiB of memory; one capture has {alone} KiB\n");
    assert_eq!((checkpoints.ticks().next(), checkpoints.ticks().last()), (Some(29), Some(60)));
    let first = canonical(world)?;

    println!("back to tick 40:");
    rewind(world, 40)?;
    println!("{}\n", picture(world));
    assert!(world.get::<Ball>(ball).is_some(), "it has the id that it had");
    assert!(world.get::<Sprite>(ball).is_some_and(|sprite| sprite.0 == 'o'), "and what is not saved");

    println!("the same ticks with the same inputs lead to the same place:");
    play(&mut app, 20);
    let again = canonical(app.world())?;
    println!("the same world, byte for byte: {}\n", again == first);
    assert!(again == first);

    println!("back again, and the second kick comes late, as from a slow network:");
    let world = app.world_mut();
    rewind(world, 40)?;
    world.resource_mut::<Kicks>().0 = vec![(12, 1.5), (50, 2.0)];
    play(&mut app, 20);
    let other = canonical(app.world())?;
    println!("the same world, byte for byte: {}\n", other == first);
    assert!(other != first);

    let forgotten = rewind(app.world_mut(), 7).expect_err("only the last ones are kept");
    println!("too far: {forgotten}");
    Ok(())
}

/// Runs ticks and draws every fifth.
fn play(app: &mut App, ticks: u32) {
    for _ in 0..ticks {
        app.update();
        if app.world().resource::<Now>().0.is_multiple_of(5) {
            println!("{}", picture(app.world_mut()));
        }
    }
}

fn bounce(
    mut commands: Commands,
    mut balls: Query<(Entity, &mut Ball)>,
    mut now: ResMut<Now>,
    kicks: Res<Kicks>,
) {
    now.0 += 1;
    let kick: f32 = kicks.0.iter().filter(|(tick, _)| *tick == now.0).map(|(_, kick)| kick).sum();
    for (entity, mut ball) in &mut balls {
        ball.speed += kick - 0.5;
        ball.height += ball.speed;
        if ball.height < 0.0 {
            (ball.height, ball.speed) = (0.0, -0.9 * ball.speed);
            commands.spawn(Spark { of: entity, ticks_left: 25 });
        }
    }
}

fn fade(mut commands: Commands, mut sparks: Query<(Entity, &mut Spark)>) {
    for (entity, mut spark) in &mut sparks {
        spark.ticks_left -= 1;
        if spark.ticks_left == 0 {
            commands.entity(entity).despawn();
        }
    }
}

/// A checkpoint costs what has changed since the one before.
fn remember(world: &mut World) -> bevy_ecs::error::Result {
    let tick = world.resource::<Now>().0;
    world.resource_scope(|world, mut checkpoints: Mut<Checkpoints>| checkpoints.take(world, tick))?;
    Ok(())
}

/// By what differs: systems that look for changes see those and no others.
fn rewind(world: &mut World, tick: u64) -> Result<()> {
    world.resource_scope(|world, mut checkpoints: Mut<Checkpoints>| checkpoints.rewind(world, tick))?;
    Ok(())
}

/// Bytes that are equal for worlds that are: which ids and rows entities have got is no part of them.
fn canonical(world: &World) -> Result<Vec<u8>> {
    world.capture(&SaveOptions::new())?.canonical_sorted()?.to_bytes()
}

fn picture(world: &mut World) -> String {
    let sparks: Vec<Entity> = world.query::<&Spark>().iter(world).map(|spark| spark.of).collect();
    assert!(sparks.iter().all(|&of| world.get::<Ball>(of).is_some()), "sparks know their ball");
    let ball = world.query::<(&Ball, &Sprite)>().single(world).ok();
    let (height, sprite) =
        ball.map_or((0, '?'), |(ball, sprite)| (ball.height.round() as usize * 2, sprite.0));
    let tick = world.resource::<Now>().0;
    let sky = " ".repeat(40_usize.saturating_sub(height));
    format!("  tick {tick:>2} |{}{sprite}{sky}| {}", " ".repeat(height), "*".repeat(sparks.len()))
}

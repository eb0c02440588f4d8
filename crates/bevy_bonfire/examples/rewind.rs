//! Rewind: a capture per tick, and back to any of them at memory speed. Entities keep their ids, and what is not saved
//! (sprites, sounds) stays on them.
//!
//! ```sh
//! cargo run -p bevy_bonfire --example rewind
//! ```

use std::collections::VecDeque;

use bevy_app::{App, Update};
use bevy_bonfire::Snapshot;
use bevy_bonfire::prelude::*;
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

#[derive(Resource, Persist, Default)]
#[persist(key = "game.tick")]
struct Now(u32);

/// Not saved: what the renderer hangs on an entity.
#[derive(Component)]
struct Sprite(char);

/// The last captures. Their memory is that of the pool: the oldest one's is used again for the next.
#[derive(Resource, Default)]
struct History(VecDeque<Snapshot>);

const REMEMBERED: usize = 64;

fn main() {
    let mut app = App::new();
    app.add_plugins(BonfirePlugin::default())
        .persist::<Ball>()
        .persist::<Spark>()
        .persist_resource::<Now>()
        .init_resource::<Now>()
        .init_resource::<History>()
        .add_systems(Update, (bounce, fade, remember).chain());
    let ball = app.world_mut().spawn((Ball { height: 9.0, speed: 0.0 }, Sprite('o'))).id();
    (0..60).for_each(|_| app.update());
    println!("{}", picture(app.world_mut()));

    // Twenty ticks back, by what differs: systems that look for changes see those and no others.
    let world = app.world_mut();
    let then = world.resource::<History>().0[REMEMBERED.min(60) - 21].clone();
    let before = world.query::<&Spark>().iter(world).count();
    let loaded = world.load(&then, LoadMode::Restore(Ticks::Differing)).expect("a capture of this world");
    println!("{}  (spawned again: {})", picture(world), loaded.respawned.len());
    assert_eq!(world.resource::<Now>().0, 40);
    assert!(
        world.get::<Ball>(ball).is_some() && world.get::<Sprite>(ball).is_some_and(|sprite| sprite.0 == 'o')
    );

    // The same ticks again lead to the same place.
    (0..20).for_each(|_| app.update());
    println!("{}", picture(app.world_mut()));
    let world = app.world_mut();
    assert_eq!((world.resource::<Now>().0, world.query::<&Spark>().iter(world).count()), (60, before));
    let sparks: Vec<Entity> = world.query::<&Spark>().iter(world).map(|spark| spark.of).collect();
    assert!(sparks.into_iter().all(|of| of == ball), "references lead to the same ball");
}

fn bounce(mut commands: Commands, mut balls: Query<(Entity, &mut Ball)>, mut now: ResMut<Now>) {
    now.0 += 1;
    for (entity, mut ball) in &mut balls {
        ball.speed -= 0.2;
        ball.height += ball.speed;
        if ball.height < 0.0 {
            (ball.height, ball.speed) = (0.0, -0.95 * ball.speed);
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

/// A capture borrows the world and copies what is saved: that is all it costs the tick.
fn remember(world: &mut World) {
    let capture = world.capture(&SaveOptions::new()).expect("everything can be saved");
    let history = &mut world.resource_mut::<History>().0;
    if history.len() == REMEMBERED {
        history.pop_front();
    }
    history.push_back(capture);
}

fn picture(world: &mut World) -> String {
    let sparks = world.query::<&Spark>().iter(world).count();
    let (height, sprite) = world
        .query::<(&Ball, &Sprite)>()
        .single(world)
        .map_or((0, '?'), |(ball, sprite)| (ball.height.round() as usize, sprite.0));
    let tick = world.resource::<Now>().0;
    format!(
        "tick {tick}: |{}{sprite}{}| sparks: {sparks}",
        " ".repeat(height),
        " ".repeat(10 - height.min(10))
    )
}

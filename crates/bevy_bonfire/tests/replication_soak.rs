//! Worlds that follow each other for a long time: nothing that either side keeps grows.

mod common;
mod soak;

use bevy_app::App;
use bevy_bonfire::prelude::*;
use bevy_bonfire::replication::Granularity;
use bevy_bonfire::replication::{
    ClientId, Mirrored, ReplicateExt, Replicated, ReplicationClient, ReplicationClientPlugin,
    ReplicationServer, ReplicationServerPlugin, TwoApps,
};
use bevy_bonfire::store::disk::MemoryDisk;
use bevy_bonfire::store::{DirStore, Keep, Slots};
use bevy_bonfire::{Autosave, SavePolicy};
use bevy_ecs::prelude::*;
use bonfire_testkit::disk::Random;
use bonfire_testkit::scale;
use common::*;
use soak::{alone, soak};

const ENTITIES: usize = 150;

/// A hundred thousand in a recorded run.
fn ticks() -> u32 {
    1000 * scale()
}

fn setup(app: &mut App) {
    register(app.world_mut(), false);
    app.replicate::<Position>().replicate::<Health>().replicate::<Inventory>().replicate::<Burning>();
    app.replicate::<Follows>().replicate::<ChildOf>().replicate::<Score>();
}

fn spawn(world: &mut World, random: &mut Random) -> Entity {
    let position = Position { x: random.below(100) as f32, y: 0.0 };
    let mut entity = world.spawn((Replicated, Saved, position));
    match random.below(3) {
        0 => entity.insert(Health { current: 1, max: 9, flash: 0 }),
        1 => entity.insert(Inventory { items: vec!["axe".to_owned()], gold: None }),
        _ => &mut entity,
    };
    entity.id()
}

/// Everything that can happen to a world, and as many come as go.
fn change(world: &mut World, random: &mut Random) {
    let mut all: Vec<Entity> = world.query_filtered::<Entity, With<Replicated>>().iter(world).collect();
    all.extend((all.len()..ENTITIES).map(|_| spawn(world, random)));
    for _ in 0..12 {
        let (entity, other) = (*random.pick(&all), *random.pick(&all));
        let what = random.below(10);
        if what == 0 {
            world.entity_mut(entity).despawn();
            all.retain(|entity| world.get_entity(*entity).is_ok());
            continue;
        }
        let mut entity = world.entity_mut(entity);
        match what {
            1 => _ = entity.insert(Burning("for a while".to_owned())),
            2 => _ = entity.remove::<Burning>(),
            3 if other.index() < entity.id().index() => _ = entity.insert(ChildOf(other)),
            4 => _ = entity.remove::<ChildOf>(),
            5 => _ = entity.insert(Follows { leader: other, others: vec![other], last: None }),
            6 => _ = entity.remove::<Replicated>().insert(Replicated),
            _ => {
                if let Some(mut position) = entity.get_mut::<Position>() {
                    position.y += 1.0;
                }
            }
        }
    }
    (all.len()..ENTITIES).for_each(|_| _ = spawn(world, random));
    world.resource_mut::<Score>().points += 1;
}

fn follows(plugin: ReplicationServerPlugin) {
    let _alone = alone();
    let mut apps = TwoApps::with(plugin, ReplicationClientPlugin::new(), setup);
    apps.server.world_mut().insert_resource(Score::default());
    let mut random = Random::new(5);
    soak(ticks(), |number| {
        change(apps.server.world_mut(), &mut random);
        if random.chance(2) {
            apps.lose(1 + random.below(3));
        }
        // Others come and go, and one of them never takes its messages.
        let mut server = apps.server.world_mut().resource_mut::<ReplicationServer>();
        match number % 50 {
            0 => server.connect(ClientId(2)),
            30 => server.disconnect(ClientId(2)),
            _ => {}
        }
        apps.update();
        if number % 200 == 199 {
            // What was lost is asked for, and asked for again if the answer was lost.
            let behind = |apps: &TwoApps| {
                let server = apps.server.world().resource::<ReplicationServer>().tick();
                apps.client.world().resource::<ReplicationClient>().tick() != Some(server)
            };
            for _ in 0..100 {
                apps.update();
                if !behind(&apps) {
                    break;
                }
            }
            assert!(!behind(&apps), "what is lost arrives in the end");
            apps.assert_in_sync();
            let client = apps.client.world_mut();
            assert_eq!(client.query::<&Mirrored>().iter(client).count(), ENTITIES);
        }
    });
}

#[test]
fn what_was_touched() {
    follows(ReplicationServerPlugin::new());
}

#[test]
fn what_is_different() {
    follows(ReplicationServerPlugin::new().exact());
}

#[test]
fn single_fields_that_are_remembered() {
    follows(ReplicationServerPlugin::new().granularity(Granularity::Field).epsilon(0.0));
}

#[test]
fn journals_begin_anew() {
    let _alone = alone();
    let mut app = App::new();
    let slots = Slots::new(DirStore::on(MemoryDisk::new()).unwrap()).keep(Keep::newest(2));
    app.add_plugins(BonfirePlugin::new().slots(slots).autosave(Autosave::off()).policy(SavePolicy::Journal));
    setup(&mut app);
    app.world_mut().insert_resource(Score::default());
    let mut random = Random::new(6);
    let mut generations = std::collections::HashSet::new();
    soak(ticks() / 2, |_| {
        change(app.world_mut(), &mut random);
        let save = app.world_mut().resource_mut::<Saves>().save("autosave");
        app.update();
        generations.insert(save.wait().unwrap().generation);
        app.update();
    });
    println!("{} whole saves", generations.len());
    assert!(generations.len() > 1 && generations.len() < ticks() as usize / 20, "{}", generations.len());
}

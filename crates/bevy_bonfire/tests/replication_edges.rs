//! What games do to worlds that follow each other: marks that come and go, required components, hierarchies, clients that
//! touch what is not theirs.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use bevy_app::App;
use bevy_bonfire::Ticks;
use bevy_bonfire::prelude::*;
use bevy_bonfire::replication::Granularity;
use bevy_bonfire::replication::{
    DeltaCapture, Mirrored, ReplicateExt, Replicated, ReplicationClient, ReplicationClientPlugin,
    ReplicationServerPlugin, TwoApps, WorldMirror, WorldSource,
};
use bevy_bonfire::sync::{Applied, BaselineReason, Receiver, ReplicationStream, StreamOptions};
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::lifecycle::HookContext;
use bevy_ecs::prelude::*;
use bevy_ecs::world::DeferredWorld;
use common::*;

#[derive(Component, Persist, Clone, Copy, Debug, PartialEq, Default)]
#[require(Wheels(4))]
#[persist(key = "test.car")]
struct Car(u32);

#[derive(Component, Persist, Clone, Copy, Debug, PartialEq, Default)]
#[persist(key = "test.wheels")]
struct Wheels(u32);

fn setup(app: &mut App) {
    register(app.world_mut(), false);
    app.persist::<Car>().persist::<Wheels>();
    app.replicate::<Position>()
        .replicate::<Health>()
        .replicate::<Inventory>()
        .replicate::<Burning>()
        .replicate::<Follows>()
        .replicate::<Mood>()
        .replicate::<Team>()
        .replicate::<Enemy>()
        .replicate::<Hover>()
        .replicate::<ChildOf>()
        .replicate::<DockedAt>()
        .replicate::<Car>()
        .replicate::<Wheels>()
        .replicate::<Score>();
}

/// Every way in which a server can tell.
fn each_way(test: impl Fn(TwoApps)) {
    let plugins: [fn() -> ReplicationServerPlugin; 4] = [
        ReplicationServerPlugin::new,
        || ReplicationServerPlugin::new().exact(),
        || ReplicationServerPlugin::new().granularity(Granularity::Field),
        || ReplicationServerPlugin::new().exact().epsilon(0.0),
    ];
    for plugin in plugins {
        test(TwoApps::with(plugin(), ReplicationClientPlugin::new(), setup));
    }
}

fn at(x: f32) -> Position {
    Position { x, y: 0.0 }
}

#[track_caller]
fn here(apps: &TwoApps, remote: Entity) -> Entity {
    apps.client.world().resource::<ReplicationClient>().entity(remote).unwrap()
}

#[track_caller]
fn step(apps: &mut TwoApps) {
    apps.update();
    apps.assert_in_sync();
}

#[test]
fn what_a_component_requires_is_not_there_if_the_server_took_it_away() {
    each_way(|mut apps| {
        let car = apps.server.world_mut().spawn((Car(1), Replicated)).id();
        apps.server.world_mut().entity_mut(car).remove::<Wheels>();
        step(&mut apps);
        assert_eq!(apps.client.world().get::<Wheels>(here(&apps, car)), None, "as it came");
        let other = apps.server.world_mut().spawn((at(1.0), Replicated)).id();
        step(&mut apps);
        apps.server.world_mut().entity_mut(other).insert(Car(2)).remove::<Wheels>();
        step(&mut apps);
        assert_eq!(apps.client.world().get::<Wheels>(here(&apps, other)), None, "inserted later");
        apps.server.world_mut().entity_mut(other).insert(Wheels(3)).remove::<Car>();
        step(&mut apps);
        apps.server.world_mut().entity_mut(other).insert(Car(4));
        step(&mut apps);
        assert_eq!(apps.client.world().get::<Wheels>(here(&apps, other)), Some(&Wheels(3)));
    });
}

#[test]
fn an_entity_may_be_told_of_late_and_references_to_it_follow() {
    each_way(|mut apps| {
        let world = apps.server.world_mut();
        let late = world.spawn(at(1.0)).id();
        let follower = world
            .spawn((
                Follows { leader: late, others: vec![late], last: Some(late) },
                ChildOf(late),
                Replicated,
            ))
            .id();
        let moody = world.spawn((Mood::Angry { at: Some(late), level: 1 }, Replicated)).id();
        world.insert_resource(Score { points: 1, best: Some(late) });
        apps.update();
        let world = apps.client.world();
        let nobody = Follows { leader: Entity::PLACEHOLDER, others: vec![Entity::PLACEHOLDER], last: None };
        assert_eq!(world.get::<Follows>(here(&apps, follower)), Some(&nobody));
        assert!(world.get::<ChildOf>(here(&apps, follower)).is_none());
        assert_eq!(world.resource::<Score>().best, None);
        for _ in 0..2 {
            apps.server.world_mut().entity_mut(late).insert(Replicated);
            step(&mut apps);
            let (leader, follower, moody) = (here(&apps, late), here(&apps, follower), here(&apps, moody));
            let world = apps.client.world();
            let expected = Follows { leader, others: vec![leader], last: Some(leader) };
            assert_eq!(world.get::<Follows>(follower), Some(&expected));
            assert_eq!(world.get::<Mood>(moody), Some(&Mood::Angry { at: Some(leader), level: 1 }));
            assert_eq!(world.get::<ChildOf>(follower).map(ChildOf::parent), Some(leader));
            assert_eq!(world.resource::<Score>().best, Some(leader));
            apps.server.world_mut().entity_mut(late).remove::<Replicated>();
            apps.update();
            assert!(apps.client.world().get_entity(leader).is_err());
            assert!(apps.client.world().get_entity(follower).is_ok(), "it is told of still");
        }
    });
}

#[test]
fn an_entity_may_be_referred_to_before_it_is_spawned() {
    each_way(|mut apps| {
        let world = apps.server.world_mut();
        let [early, late] = [0; 2].map(|_| world.entity_allocator().alloc());
        let follows = |leader: Entity| Follows { leader, others: vec![leader], last: Some(leader) };
        // The first is part of the baseline, the second of a delta.
        let first = world.spawn((follows(early), Replicated)).id();
        apps.update();
        let world = apps.server.world_mut();
        let second = world.spawn((follows(late), Replicated)).id();
        world.insert_resource(Score { points: 1, best: Some(late) });
        apps.update();
        let nobody = Follows { leader: Entity::PLACEHOLDER, others: vec![Entity::PLACEHOLDER], last: None };
        for follower in [first, second] {
            assert_eq!(apps.client.world().get::<Follows>(here(&apps, follower)), Some(&nobody));
        }
        for (awaited, follower) in [(late, second), (early, first)] {
            apps.server.world_mut().spawn_at(awaited, (at(1.0), Replicated)).unwrap();
            apps.update();
            let (leader, follower) = (here(&apps, awaited), here(&apps, follower));
            assert_eq!(apps.client.world().get::<Follows>(follower), Some(&follows(leader)));
        }
        assert_eq!(apps.client.world().resource::<Score>().best, Some(here(&apps, late)));
        step(&mut apps);
    });
}

#[test]
fn an_entity_without_references_to_it_costs_only_itself() {
    let mut apps = TwoApps::with(ReplicationServerPlugin::new(), ReplicationClientPlugin::new(), setup);
    let world = apps.server.world_mut();
    let root = world.spawn((at(0.0), Replicated)).id();
    let plain = world.spawn(at(1.0)).id();
    for _ in 0..1000 {
        world.spawn((at(2.0), ChildOf(root), Replicated));
    }
    let mut deltas = DeltaCapture::of_replication();
    assert!(deltas.changes(apps.server.world_mut()).unwrap().is_whole());
    // It is older than the delta, and nothing refers to it.
    apps.server.world_mut().entity_mut(plain).insert(Replicated);
    let stats = deltas.changes(apps.server.world_mut()).unwrap().stats();
    assert_eq!((stats.spawned, stats.changed_values), (1, 0));
}

#[test]
fn hierarchies_are_moved_ordered_and_cut() {
    each_way(|mut apps| {
        let world = apps.server.world_mut();
        let [a, b, root] = [1.0, 2.0, 3.0].map(|x| world.spawn((at(x), Replicated)).id());
        world.entity_mut(a).insert(ChildOf(root));
        let children: Vec<Entity> =
            (0..5).map(|n| world.spawn((at(n as f32), Replicated, ChildOf(a))).id()).collect();
        world.spawn((at(9.0), ChildOf(a)));
        step(&mut apps);
        let order = |apps: &TwoApps, parent: Entity| -> Vec<Entity> {
            let children = apps.client.world().get::<Children>(here(apps, parent));
            children.map(|children| children.iter().collect()).unwrap_or_default()
        };
        let local = |apps: &TwoApps, all: &[Entity]| -> Vec<Entity> {
            all.iter().map(|id| here(apps, *id)).collect()
        };
        assert_eq!(order(&apps, a), local(&apps, &children));

        // The order of children alone.
        let (first, rest) = children.split_first().unwrap();
        apps.server.world_mut().entity_mut(a).insert_children(3, &[*first]);
        step(&mut apps);
        let moved = [rest[0], rest[1], rest[2], *first, rest[3]];
        assert_eq!(order(&apps, a), local(&apps, &moved));

        // To another parent, while the old one goes; in the middle of the new one's list.
        let world = apps.server.world_mut();
        world.entity_mut(b).insert_children(0, &[children[2], children[1]]);
        world.despawn(a);
        step(&mut apps);
        assert_eq!(order(&apps, b), local(&apps, &[children[2], children[1]]));
        let alive = apps.client.world_mut().query::<&Mirrored>().iter(apps.client.world()).count();
        let there = apps.server.world_mut().query::<&Replicated>().iter(apps.server.world()).count();
        assert_eq!(alive, there);

        // A parent that is not told of any more keeps its children on both sides.
        apps.server.world_mut().entity_mut(b).remove::<Replicated>();
        apps.update();
        assert!(apps.client.world().get::<ChildOf>(here(&apps, children[2])).is_none());
        apps.server.world_mut().entity_mut(b).insert(Replicated);
        step(&mut apps);
        assert_eq!(order(&apps, b), local(&apps, &[children[2], children[1]]));
        // Upside down.
        let world = apps.server.world_mut();
        world.entity_mut(children[1]).remove::<ChildOf>();
        world.entity_mut(b).insert(ChildOf(children[1]));
        step(&mut apps);
    });
}

#[test]
fn a_client_may_do_what_it_likes_to_what_it_mirrors() {
    each_way(|mut apps| {
        let world = apps.server.world_mut();
        let ships: Vec<Entity> = (0..4)
            .map(|n| {
                let health = Health { current: n, max: 7, flash: 3 };
                world.spawn((at(1.0), health, Team(n), Burning("a".into()), Replicated)).id()
            })
            .collect();
        step(&mut apps);
        let local: Vec<Entity> = ships.iter().map(|ship| here(&apps, *ship)).collect();
        let world = apps.client.world_mut();
        // Despawned, robbed, hung with things of the client's own, and under them.
        world.despawn(local[0]);
        world.entity_mut(local[1]).remove::<(Position, Health, Team, Burning)>();
        let own = world.spawn((at(5.0), ChildOf(local[2]))).id();
        let above = world.spawn(at(6.0)).id();
        world.entity_mut(local[3]).insert(ChildOf(above));
        for (n, ship) in ships.iter().enumerate() {
            let mut ship = apps.server.world_mut().entity_mut(*ship);
            ship.get_mut::<Position>().unwrap().y = n as f32;
            ship.get_mut::<Health>().unwrap().max = 70;
            ship.get_mut::<Burning>().unwrap().0.push('b');
            ship.insert(Team(9));
        }
        apps.update();
        let world = apps.client.world();
        assert!(world.get_entity(local[0]).is_err());
        assert_eq!(world.get::<Team>(local[1]), Some(&Team(9)));
        assert_eq!(world.get::<Burning>(local[1]), Some(&Burning("ab".into())));
        assert_eq!(world.get::<Position>(local[2]), Some(&Position { x: 1.0, y: 2.0 }));
        assert_eq!(world.get::<ChildOf>(local[3]).map(ChildOf::parent), Some(above));
        // They go: what hangs on them goes, too, and what they hang on stays.
        ships.iter().for_each(|ship| assert!(apps.server.world_mut().despawn(*ship)));
        step(&mut apps);
        let world = apps.client.world();
        assert!(world.get_entity(own).is_err() && world.get_entity(above).is_ok());
        let client = apps.client.world().resource::<ReplicationClient>();
        assert!(ships.iter().all(|ship| client.entity(*ship).is_none()), "the map is pruned");
    });
}

#[test]
fn a_world_that_is_cleared_or_restored_is_followed() {
    each_way(|mut apps| {
        let world = apps.server.world_mut();
        world.insert_resource(Score { points: 1, best: None });
        let parent = world.spawn((at(1.0), Replicated, Saved)).id();
        for n in 0..70 {
            world.spawn((at(n as f32), Burning("x".into()), Team(1), Replicated, Saved, ChildOf(parent)));
        }
        let saved = world.capture_with_events(&SaveOptions::new()).unwrap();
        step(&mut apps);
        let world = apps.server.world_mut();
        let all: Vec<Entity> = world.query_filtered::<Entity, With<Team>>().iter(world).collect();
        for entity in all.iter().step_by(3) {
            world.despawn(*entity);
        }
        all.iter()
            .skip(1)
            .step_by(3)
            .for_each(|entity| _ = world.entity_mut(*entity).insert((Team(5), at(-1.0))));
        step(&mut apps);
        apps.server.world_mut().load(&saved, LoadMode::Restore(Ticks::Differing)).unwrap();
        // What a save does not have is not put back.
        let world = apps.server.world_mut();
        let back: Vec<Entity> = world.query_filtered::<Entity, With<Saved>>().iter(world).collect();
        back.iter().for_each(|entity| _ = world.entity_mut(*entity).insert(Replicated));
        step(&mut apps);
        apps.server.world_mut().load(&saved, LoadMode::Replace).unwrap();
        step(&mut apps);
        let world = apps.server.world_mut();
        let all: Vec<Entity> = world.query_filtered::<Entity, With<Replicated>>().iter(world).collect();
        all.into_iter().for_each(|entity| _ = world.try_despawn(entity));
        step(&mut apps);
        let left = apps.client.world_mut().query::<&Mirrored>().iter(apps.client.world()).count();
        assert_eq!(left, 0);
    });
}

#[test]
fn disabled_entities_and_transient_components() {
    each_way(|mut apps| {
        for app in [&mut apps.server, &mut apps.client] {
            app.replicate::<Disabled>();
        }
        let ship = apps.server.world_mut().spawn((at(1.0), Disabled, Hover(3), Replicated)).id();
        step(&mut apps);
        let local = here(&apps, ship);
        assert!(apps.client.world().get::<Disabled>(local).is_some());
        assert!(apps.client.world().get::<Hover>(local).is_none());
        apps.client.world_mut().entity_mut(local).insert(Hover(8));
        apps.server.world_mut().entity_mut(ship).remove::<(Disabled, Hover)>().insert(at(2.0));
        step(&mut apps);
        assert!(apps.client.world().get::<Disabled>(local).is_none());
        assert_eq!(apps.client.world().get::<Hover>(local), Some(&Hover(8)), "it is the client's own");
        apps.server.world_mut().despawn(ship);
        step(&mut apps);
        assert!(apps.client.world().get_entity(local).is_err());
    });
}

#[test]
fn resources_come_and_go_within_a_tick() {
    each_way(|mut apps| {
        step(&mut apps);
        let world = apps.server.world_mut();
        world.insert_resource(Score { points: 1, best: None });
        step(&mut apps);
        let world = apps.server.world_mut();
        world.remove_resource::<Score>();
        world.insert_resource(Score { points: 2, best: None });
        step(&mut apps);
        assert_eq!(apps.client.world().resource::<Score>().points, 2);
        apps.server.world_mut().remove_resource::<Score>();
        step(&mut apps);
        assert!(!apps.client.world().contains_resource::<Score>());
        let world = apps.server.world_mut();
        world.insert_resource(Score { points: 3, best: None });
        world.remove_resource::<Score>();
        step(&mut apps);
        assert!(!apps.client.world().contains_resource::<Score>());
    });
}

/// A row, an index and an archetype that somebody else had: what is held back belongs to an entity.
#[test]
fn what_is_held_back_follows_entities_and_not_rows() {
    let plugin = ReplicationServerPlugin::new().epsilon(0.5);
    let mut apps = TwoApps::with(plugin, ReplicationClientPlugin::new(), setup);
    let world = apps.server.world_mut();
    let ships: Vec<Entity> = (0..3).map(|n| world.spawn((at(n as f32), Replicated)).id()).collect();
    step(&mut apps);
    let set = |apps: &mut TwoApps, ship: Entity, x: f32| {
        apps.server.world_mut().get_mut::<Position>(ship).unwrap().x = x;
        apps.update();
    };
    let seen =
        |apps: &TwoApps, ship: Entity| apps.client.world().get::<Position>(here(apps, ship)).unwrap().x;
    ships.iter().for_each(|ship| set(&mut apps, *ship, 10.0));
    set(&mut apps, ships[2], 10.4);
    assert_eq!(seen(&apps, ships[2]), 10.0);
    // The last one moves into the row of the first.
    apps.server.world_mut().despawn(ships[0]);
    set(&mut apps, ships[2], 10.6);
    assert_eq!(seen(&apps, ships[2]), 10.6);
    let other = apps.server.world_mut().spawn((at(10.7), Replicated)).id();
    apps.update();
    assert_eq!(seen(&apps, other), 10.7);
    apps.server.world_mut().entity_mut(other).insert(Team(1)).get_mut::<Position>().unwrap().x = 11.0;
    apps.update();
    assert_eq!(seen(&apps, other), 10.7);
    set(&mut apps, other, f32::NAN);
    assert!(seen(&apps, other).is_nan());
    set(&mut apps, other, 0.0);
    assert_eq!(seen(&apps, other), 0.0);
    set(&mut apps, other, f32::INFINITY);
    assert_eq!(seen(&apps, other), f32::INFINITY);
    set(&mut apps, other, 1.0);
    // Removed and there again, in one tick and in two.
    apps.server.world_mut().entity_mut(other).remove::<Position>().insert(at(1.3));
    apps.update();
    assert!((seen(&apps, other) - 1.3).abs() <= 0.5);
    apps.server.world_mut().entity_mut(other).remove::<Position>();
    apps.update();
    apps.server.world_mut().entity_mut(other).insert(at(1.2));
    apps.update();
    assert_eq!(seen(&apps, other), 1.2);
}

#[derive(Component, Persist, Clone, Copy, Debug, PartialEq, Default)]
#[component(on_insert = Self::on_insert)]
#[persist(key = "test.touchy")]
struct Touchy(u32);

#[derive(Resource)]
struct Nervous;

impl Touchy {
    fn on_insert(world: DeferredWorld<'_>, _: HookContext) {
        assert!(!world.contains_resource::<Nervous>(), "a bug of the game");
    }
}

#[test]
fn a_hook_that_panics_poisons_until_a_baseline() {
    let [mut server, mut client] = [(); 2].map(|()| {
        let mut app = App::new();
        setup(&mut app);
        app.persist::<Touchy>().replicate::<Touchy>();
        app
    });
    let (server, client) = (server.world_mut(), client.world_mut());
    let mut stream = ReplicationStream::new(StreamOptions::new(1));
    let (mut deltas, mut receiver) =
        (DeltaCapture::of_replication(), Receiver::new(WorldMirror::new(client).table().clone()));
    let mut tick = |server: &mut World| {
        stream.tick(&mut WorldSource { world: server, deltas: &mut deltas }).unwrap().remove(0)
    };
    let ship = server.spawn((at(1.0), Burning("x".into()), Replicated)).id();
    let first = tick(server);
    assert_eq!(receiver.apply(&mut WorldMirror::new(client), &first).unwrap(), Applied::Baseline);
    client.insert_resource(Nervous);
    server.entity_mut(ship).insert(Touchy(1));
    for n in 0..30 {
        server.spawn((
            Touchy(n),
            Inventory { items: vec!["x".into()], gold: None },
            Replicated,
            ChildOf(ship),
        ));
    }
    let second = tick(server);
    let panic =
        catch_unwind(AssertUnwindSafe(|| receiver.apply(&mut WorldMirror::new(client), &second).map(drop)));
    assert!(panic.is_err() && receiver.is_poisoned());
    client.remove_resource::<Nervous>();
    server.get_mut::<Position>(ship).unwrap().x = 7.0;
    let third = tick(server);
    for message in [&second, &third] {
        let applied = receiver.apply(&mut WorldMirror::new(client), message).unwrap();
        assert_eq!(applied, Applied::NeedBaseline(BaselineReason::Poisoned));
    }
    let answer = stream
        .answer_unlimited(&receiver.request(), &mut WorldSource { world: server, deltas: &mut deltas })
        .unwrap();
    assert_eq!(receiver.apply(&mut WorldMirror::new(client), &answer[0]).unwrap(), Applied::Baseline);
    assert_eq!(client.query::<&Mirrored>().iter(client).count(), 31);
    assert_eq!(client.query::<(&Touchy, &ChildOf, &Inventory)>().iter(client).count(), 30);
    let here = Entity::from(receiver.entity(ship.into()).unwrap());
    assert_eq!(client.get::<Position>(here).unwrap().x, 7.0);
}

/// Components that are registered when a stream has begun: both sides start again.
#[test]
fn what_is_registered_later_is_followed_too() {
    each_way(|mut apps| {
        let ship = apps.server.world_mut().spawn((at(1.0), Touchy(3), Replicated)).id();
        step(&mut apps);
        let local = here(&apps, ship);
        for app in [&mut apps.client, &mut apps.server] {
            app.persist::<Touchy>().replicate::<Touchy>();
        }
        for _ in 0..3 {
            apps.update();
        }
        apps.assert_in_sync();
        assert_eq!(here(&apps, ship), local);
        assert_eq!(apps.client.world().get::<Touchy>(local), Some(&Touchy(3)));
    });
}

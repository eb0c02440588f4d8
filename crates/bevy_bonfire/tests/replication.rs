//! A server app and a client app.

mod common;

use std::sync::Arc;

use bevy_app::App;
use bevy_bonfire::replication::Granularity;
use bevy_bonfire::replication::{
    ClientId, MessageApplied, MessageRefused, Mirrored, ReplicateExt, Replicated, ReplicationClient,
    ReplicationClientPlugin, ReplicationServer, ReplicationServerPlugin, TwoApps,
};
use bevy_bonfire::sync::{
    Applied, BaselineReason, MessageCodec, MessageCodecs, MessageCompression, MessageLimits, mirror_limits,
};
use bevy_bonfire::{Error, Saved};
use bevy_ecs::prelude::*;
use bytes::Bytes;
use common::*;

fn setup(app: &mut App) {
    register(app.world_mut(), false);
    app.replicate::<Position>()
        .replicate::<Inventory>()
        .replicate::<Follows>()
        .replicate::<Team>()
        .replicate::<Enemy>()
        .replicate::<ChildOf>()
        .replicate::<Score>();
    app.world_mut().init_resource::<Heard>();
    app.add_observer(|applied: On<MessageApplied>, mut heard: ResMut<Heard>| heard.0.push(applied.applied));
    app.add_observer(|refused: On<MessageRefused>, mut heard: ResMut<Heard>| {
        heard.1.push(refused.error.to_string());
    });
}

#[derive(Resource, Default)]
struct Heard(Vec<Applied>, Vec<String>);

fn heard(apps: &mut TwoApps) -> Vec<Applied> {
    std::mem::take(&mut apps.client.world_mut().resource_mut::<Heard>().0)
}

fn at(x: f32) -> Position {
    Position { x, y: 0.0 }
}

#[test]
fn a_client_follows_its_server() {
    let mut apps = TwoApps::new(setup);
    let parent = apps.server.world_mut().spawn((at(1.0), Replicated)).id();
    let child = apps.server.world_mut().spawn((at(2.0), Replicated, ChildOf(parent))).id();
    apps.server.world_mut().spawn((at(3.0),));
    apps.server.world_mut().insert_resource(Score { points: 3, best: Some(child) });
    apps.update();
    apps.assert_in_sync();
    assert_eq!(heard(&mut apps), [Applied::Baseline]);
    let client = apps.client.world().resource::<ReplicationClient>();
    let (here, its_parent) = (client.entity(child).unwrap(), client.entity(parent).unwrap());
    assert_eq!(client.remote(here), Some(child.into()));
    let world = apps.client.world();
    assert_eq!(world.get::<ChildOf>(here).unwrap().parent(), its_parent);
    assert_eq!(world.resource::<Score>(), &Score { points: 3, best: Some(here) });
    assert!(world.get::<Mirrored>(here).is_some());

    // What a client has of its own stays, through everything.
    let own = apps.client.world_mut().spawn(at(77.0)).id();
    apps.client.world_mut().entity_mut(here).insert(Burning("local".into()));
    apps.server.world_mut().get_mut::<Position>(child).unwrap().x = 9.0;
    apps.server.world_mut().entity_mut(parent).insert(Team(3));
    apps.update();
    apps.assert_in_sync();
    assert_eq!(apps.client.world().get::<Position>(here), Some(&at(9.0)));
    apps.server.world_mut().despawn(parent);
    apps.update();
    apps.assert_in_sync();
    assert!(apps.client.world().get_entity(here).is_err());
    assert_eq!(apps.client.world().get::<Position>(own), Some(&at(77.0)));
    assert_eq!(heard(&mut apps), [Applied::Delta, Applied::Delta]);
}

#[test]
fn what_is_lost_is_asked_for() {
    let mut apps = TwoApps::new(setup);
    let ship = apps.server.world_mut().spawn((at(1.0), Replicated)).id();
    apps.update();
    let here = apps.client.world().resource::<ReplicationClient>().entity(ship).unwrap();
    apps.client.world_mut().entity_mut(here).insert(Burning("local".into()));
    apps.lose(1);
    apps.server.world_mut().get_mut::<Position>(ship).unwrap().x = 2.0;
    apps.update();
    assert!(apps.difference().unwrap().is_some());
    apps.server.world_mut().spawn((at(5.0), Replicated));
    apps.update();
    let all = heard(&mut apps);
    assert!(matches!(all.last(), Some(Applied::NeedBaseline(BaselineReason::Gap { .. }))), "{all:?}");
    apps.update();
    apps.update();
    apps.assert_in_sync();
    // The missing messages were still known: the entity is the one that it was, with what the client gave it.
    assert_eq!(apps.client.world().get::<Burning>(here), Some(&Burning("local".into())));
    assert_eq!(apps.client.world().get::<Position>(here), Some(&at(2.0)));
}

#[test]
fn a_baseline_keeps_entities_that_are_known() {
    let mut apps = TwoApps::new(setup);
    let ship = apps.server.world_mut().spawn((at(1.0), Team(1), Replicated)).id();
    let other = apps.server.world_mut().spawn((at(2.0), Replicated)).id();
    apps.update();
    let client = apps.client.world().resource::<ReplicationClient>();
    let (here, gone) = (client.entity(ship).unwrap(), client.entity(other).unwrap());
    apps.client.world_mut().entity_mut(here).insert(Burning("local".into()));
    // Reconnected: the server starts the client anew.
    apps.lose(1);
    apps.server.world_mut().despawn(other);
    apps.server.world_mut().entity_mut(ship).remove::<Team>().insert(at(4.0));
    apps.update();
    apps.server.world_mut().resource_mut::<ReplicationServer>().connect(ClientId(1));
    apps.update();
    apps.assert_in_sync();
    let world = apps.client.world();
    assert_eq!(world.resource::<ReplicationClient>().entity(ship), Some(here));
    assert_eq!((world.get::<Position>(here), world.get::<Team>(here)), (Some(&at(4.0)), None));
    assert!(world.get::<Burning>(here).is_some() && world.get_entity(gone).is_err());
}

#[test]
fn damage_is_refused_and_nothing_changes() {
    let mut apps = TwoApps::new(setup);
    apps.server.world_mut().spawn((at(1.0), Replicated));
    apps.update();
    let bytes: Vec<u8> = vec![7; 300];
    for message in [Bytes::new(), Bytes::from(bytes)] {
        apps.client.world_mut().resource_mut::<ReplicationClient>().receive(message.clone()).unwrap();
        let mut server = apps.server.world_mut().resource_mut::<ReplicationServer>();
        assert!(server.receive(ClientId(1), &message).is_err());
        assert!(server.receive(ClientId(9), &message).is_err());
    }
    apps.update();
    apps.assert_in_sync();
    assert_eq!(apps.client.world().resource::<Heard>().1.len(), 2);
    assert!(apps.server.world().resource::<ReplicationServer>().error().is_none());
}

#[test]
fn other_components_are_named() {
    let mut apps = TwoApps::new(setup);
    apps.client.replicate::<Mood>();
    apps.server.world_mut().spawn((at(1.0), Replicated));
    apps.update();
    let heard = &apps.client.world().resource::<Heard>().1;
    assert!(heard[0].contains("test.mood"), "{heard:?}");
    assert_eq!(apps.client.world_mut().query::<&Mirrored>().iter(apps.client.world()).count(), 0);
}

#[test]
fn a_relay_does_not_echo_and_may_pass_on() {
    let mut apps = TwoApps::new(setup);
    apps.client.add_plugins(ReplicationServerPlugin::new());
    let mut back = App::new();
    back.add_plugins(ReplicationClientPlugin::new());
    setup(&mut back);
    apps.client.world_mut().resource_mut::<ReplicationServer>().connect(ClientId(5));
    apps.server.world_mut().spawn((at(1.0), Replicated));
    apps.server.world_mut().insert_resource(Score { points: 3, best: None });
    let own = apps.client.world_mut().spawn((at(50.0), Replicated)).id();
    for _ in 0..3 {
        apps.update();
        for (_, message) in apps.client.world_mut().resource_mut::<ReplicationServer>().take_messages() {
            back.world_mut().resource_mut::<ReplicationClient>().receive(message).unwrap();
        }
        back.update();
        apps.server
            .world_mut()
            .query::<&mut Position>()
            .iter_mut(apps.server.world_mut())
            .for_each(|mut p| p.x += 1.0);
    }
    // Only what is the relay's own.
    let seen: Vec<Position> = back.world_mut().query::<&Position>().iter(back.world()).copied().collect();
    assert_eq!(seen, [at(50.0)]);
    assert!(back.world().get_resource::<Score>().is_none());
    apps.client.world_mut().despawn(own);
}

#[test]
fn every_option_gives_the_same_world() {
    let plugins: [fn() -> ReplicationServerPlugin; 5] = [
        ReplicationServerPlugin::new,
        || ReplicationServerPlugin::new().exact(),
        || ReplicationServerPlugin::new().compression(MessageCompression::Lz4),
        || ReplicationServerPlugin::new().granularity(Granularity::Field),
        || {
            ReplicationServerPlugin::new()
                .granularity(Granularity::Field)
                .compression(MessageCompression::Lz4)
                .exact()
        },
    ];
    for plugin in plugins {
        let mut apps = TwoApps::with(plugin(), ReplicationClientPlugin::new(), setup);
        let ships: Vec<Entity> = (0..50)
            .map(|n| apps.server.world_mut().spawn((at(n as f32), Team(n as u8), Replicated)).id())
            .collect();
        for tick in 0..10 {
            apps.update();
            apps.assert_in_sync();
            for (number, &ship) in ships.iter().enumerate() {
                let Ok(mut ship) = apps.server.world_mut().get_entity_mut(ship) else { continue };
                match (number + tick) % 7 {
                    0 => ship.get_mut::<Position>().unwrap().y += 1.0,
                    1 => _ = ship.insert(Inventory { items: vec![format!("{tick}")], gold: None }),
                    2 => _ = ship.remove::<Inventory>(),
                    3 if tick == 5 => ship.despawn(),
                    _ => {}
                }
            }
        }
    }
}

#[test]
fn a_client_that_takes_nothing_starts_again() {
    let mut apps = TwoApps::new(setup);
    let ship = apps.server.world_mut().spawn((at(1.0), Replicated)).id();
    for _ in 0..1100 {
        apps.server.world_mut().get_mut::<Position>(ship).unwrap().x += 1.0;
        apps.server.update();
    }
    let waiting = apps.server.world_mut().resource_mut::<ReplicationServer>().take_messages();
    assert!(waiting.len() < 1024);
    let first = waiting.into_iter().next().unwrap().1;
    apps.client.world_mut().resource_mut::<ReplicationClient>().receive(first).unwrap();
    apps.client.update();
    assert!(
        apps.client.world().resource::<ReplicationClient>().tick() > Some(1000),
        "it begins with everything, and not with a delta that it cannot use"
    );
    apps.update();
    apps.update();
    apps.assert_in_sync();
}

#[test]
fn messages_that_nobody_takes_are_bounded_by_their_bytes_too() {
    let mut apps = TwoApps::new(setup);
    let inventory = |size: usize| Inventory { items: vec!["x".repeat(size)], gold: None };
    let chest = apps.server.world_mut().spawn((inventory(1), Replicated)).id();
    for _ in 0..20 {
        *apps.server.world_mut().get_mut::<Inventory>(chest).unwrap() = inventory(10 << 20);
        apps.server.update();
    }
    let waiting = apps.server.world_mut().resource_mut::<ReplicationServer>().take_messages();
    let bytes: usize = waiting.iter().map(|(_, message)| message.len()).sum();
    assert!(bytes <= 64 << 20, "{bytes} bytes");
    apps.update();
    apps.update();
    apps.assert_in_sync();
}

#[test]
fn a_client_may_ask_before_it_has_heard_anything() {
    let mut apps = TwoApps::new(setup);
    apps.server.world_mut().spawn((at(1.0), Replicated));
    apps.lose(1);
    apps.update();
    apps.client.world_mut().resource_mut::<ReplicationClient>().ask();
    apps.client.update();
    let requests = apps.client.world_mut().resource_mut::<ReplicationClient>().take_messages();
    assert_eq!(requests.len(), 1);
    let mut server = apps.server.world_mut().resource_mut::<ReplicationServer>();
    server.receive(ClientId(1), &requests[0]).unwrap();
    apps.update();
    apps.assert_in_sync();
}

#[test]
fn what_changes_after_a_baseline_is_told() {
    // In the same tick of Bevy, too: nothing runs in between.
    let mut apps = TwoApps::new(setup);
    let ship = apps.server.world_mut().spawn((at(0.0), Replicated)).id();
    apps.update();
    apps.server.world_mut().get_mut::<Position>(ship).unwrap().x = 10.0;
    apps.update();
    apps.assert_in_sync();
    let here = apps.client.world().resource::<ReplicationClient>().entity(ship).unwrap();
    assert_eq!(apps.client.world().get::<Position>(here), Some(&at(10.0)));
}

#[test]
fn everything_that_is_persisted_is_replicated_by_one_call() {
    // Before and after the registrations: the order does not matter.
    let mut apps = TwoApps::new(|app| {
        app.replicate_persisted();
        register(app.world_mut(), false);
    });
    let parent = apps.server.world_mut().spawn((at(1.0), Replicated, Saved, Name::new("parent"))).id();
    let inventory = Inventory { items: vec!["key".into()], gold: Some(3) };
    let child =
        apps.server.world_mut().spawn((inventory.clone(), Hover(3), Replicated, ChildOf(parent))).id();
    apps.server.world_mut().insert_resource(Score { points: 3, best: Some(child) });
    apps.update();
    apps.assert_in_sync();
    let client = apps.client.world().resource::<ReplicationClient>();
    let (child, parent) = (client.entity(child).unwrap(), client.entity(parent).unwrap());
    let world = apps.client.world();
    assert_eq!(world.get::<Inventory>(child), Some(&inventory));
    assert_eq!(world.get::<Name>(parent).unwrap().as_str(), "parent");
    assert_eq!(world.get::<ChildOf>(child).unwrap().parent(), parent);
    assert_eq!(world.resource::<Score>().points, 3);
    assert!(world.get::<Hover>(child).is_none(), "transient components are not persisted");
    assert!(world.get::<Saved>(parent).is_none(), "a client does not save its mirrors");
}

/// Drops zeros at the end of a payload.
struct TrailingZeros;

impl MessageCodec for TrailingZeros {
    fn number(&self) -> u8 {
        128
    }
    fn compress(&self, raw: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let len = raw.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        out.extend_from_slice(&raw[..len]);
        Ok(())
    }
    fn decompress(&self, stored: &[u8], raw: &mut [u8]) -> Result<(), Error> {
        raw.get_mut(..stored.len()).ok_or_else(|| Error::corrupt("too long"))?.copy_from_slice(stored);
        Ok(())
    }
}

#[test]
fn messages_may_have_a_codec_of_the_game() {
    let server = || {
        let game = MessageCompression::Game(Arc::new(TrailingZeros));
        ReplicationServerPlugin::new().compression(game)
    };
    let limits =
        MessageLimits { codecs: MessageCodecs::new().with(TrailingZeros), ..MessageLimits::default() };
    let client = ReplicationClientPlugin::new().limits(mirror_limits(), limits);
    let mut apps = TwoApps::with(server(), client, setup);
    apps.server.world_mut().spawn((at(0.0), Replicated));
    apps.update();
    apps.assert_in_sync();
    assert_eq!(heard(&mut apps), [Applied::Baseline]);
    // A client that does not know the codec follows nothing, and says why.
    let mut apps = TwoApps::with(server(), ReplicationClientPlugin::new(), setup);
    apps.server.world_mut().spawn((at(0.0), Replicated));
    apps.update();
    assert_eq!(apps.client.world().resource::<ReplicationClient>().tick(), None);
    let refused = &apps.client.world().resource::<Heard>().1;
    assert!(refused.iter().any(|error| error.contains("codec 128")), "{refused:?}");
}

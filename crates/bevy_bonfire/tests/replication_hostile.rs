//! Clients that ask for too much and servers that send too much: nobody else notices, and the game hears of it.

mod common;

use bevy_app::App;
use bevy_bonfire::Limits;
use bevy_bonfire::replication::{
    Answer, ClientId, MessageRefused, Mirrored, ReplicateExt, Replicated, ReplicationClient,
    ReplicationClientPlugin, ReplicationServer, ReplicationServerPlugin, RequestAnswered, TwoApps,
};
use bevy_bonfire::sync::{CatchUpRequest, InboxLimits, MessageLimits, StreamOptions, mirror_limits};
use bevy_ecs::prelude::*;
use bytes::Bytes;
use common::*;

const A: ClientId = ClientId(1);
const B: ClientId = ClientId(2);

fn setup(app: &mut App) {
    register(app.world_mut(), false);
    app.replicate::<Position>().replicate::<Burning>();
    app.init_resource::<Heard>();
    app.add_observer(|answered: On<RequestAnswered>, mut heard: ResMut<Heard>| {
        heard.answers.push((answered.client, answered.answer));
    });
    app.add_observer(|refused: On<MessageRefused>, mut heard: ResMut<Heard>| {
        heard.limits += usize::from(refused.error.is_limit());
    });
}

#[derive(Resource, Default)]
struct Heard {
    answers: Vec<(ClientId, Answer)>,
    limits: usize,
}

fn at(x: f32) -> Position {
    Position { x, y: 0.0 }
}

fn server(options: StreamOptions, entities: usize) -> App {
    let mut app = App::new();
    app.add_plugins(ReplicationServerPlugin::new().stream(options));
    setup(&mut app);
    (0..entities).for_each(|number| _ = app.world_mut().spawn((at(number as f32), Replicated)));
    app
}

/// Asks for everything, as a client that follows this stream and has nothing.
fn ask(app: &mut App) {
    let schema = bevy_bonfire::replication::WorldMirror::new(app.world_mut()).table().fingerprint();
    let request = CatchUpRequest { stream: 7, have: None, schema }.encode().unwrap();
    app.world_mut().resource_mut::<ReplicationServer>().receive(A, &request).unwrap();
}

fn frame(app: &mut App) -> Vec<(ClientId, Bytes)> {
    let world = app.world_mut();
    world.query::<&mut Position>().iter_mut(world).for_each(|mut position| position.x += 0.001);
    app.update();
    app.world_mut().resource_mut::<ReplicationServer>().take_messages()
}

/// Bytes to A and messages to B over a hundred frames.
fn two_clients(asks: bool) -> (usize, Vec<Bytes>) {
    let mut app = server(StreamOptions { epsilon: Some(1.0), ..StreamOptions::new(7) }, 10_000);
    app.world_mut().resource_mut::<ReplicationServer>().connect(A);
    app.world_mut().resource_mut::<ReplicationServer>().connect(B);
    frame(&mut app);
    let (mut to_a, mut to_b) = (0, Vec::new());
    for _ in 0..20 {
        if asks {
            ask(&mut app);
        }
        for (client, message) in frame(&mut app) {
            match client {
                A => to_a += message.len(),
                _ => to_b.push(message),
            }
        }
    }
    (to_a, to_b)
}

#[test]
fn a_client_that_asks_in_every_frame_changes_no_byte_for_others() {
    let ((quiet_a, quiet_b), (loud_a, loud_b)) = (two_clients(false), two_clients(true));
    let sum = |messages: &[Bytes]| messages.iter().map(Bytes::len).sum::<usize>();
    println!("A: {quiet_a}, then {loud_a}; B: {}, then {}", sum(&quiet_b), sum(&loud_b));
    assert!(quiet_b == loud_b, "what A asks for is A's alone");
    assert_eq!(loud_a, quiet_a, "a baseline is more than A has earned");
}

#[test]
fn a_request_over_the_budget_is_an_event_and_is_answered_later() {
    let options = StreamOptions { answer_bytes_start: 0, baseline_ticks_min: 10, ..StreamOptions::new(7) };
    let mut app = server(options, 100);
    app.world_mut().resource_mut::<ReplicationServer>().connect(A);
    frame(&mut app);
    ask(&mut app);
    (0..12).for_each(|_| drop(frame(&mut app)));
    let answers = &app.world().resource::<Heard>().answers;
    assert!(
        matches!(answers[..], [(A, Answer::Later { ticks: 9, .. }), (A, Answer::Sent { .. })]),
        "{answers:?}"
    );
}

#[test]
fn a_world_never_mirrors_more_entities_than_its_limit() {
    let limits = Limits { entities_max: 50, ..mirror_limits() };
    let plugin = ReplicationClientPlugin::new().limits(limits, MessageLimits::default());
    let mut apps = TwoApps::with(ReplicationServerPlugin::new(), plugin, setup);
    for _ in 0..10 {
        let world = apps.server.world_mut();
        (0..20).for_each(|number| _ = world.spawn((at(number as f32), Replicated)));
        apps.update();
    }
    let client = apps.client.world_mut();
    assert_eq!(client.query::<&Mirrored>().iter(client).count(), 40, "what came before the limit");
    assert!(client.resource::<Heard>().limits > 0, "the game hears of it");
    // There is room again.
    let server = apps.server.world_mut();
    let all: Vec<Entity> = server.query_filtered::<Entity, With<Replicated>>().iter(server).collect();
    all.iter().skip(10).for_each(|entity| _ = server.despawn(*entity));
    apps.client.world_mut().resource_mut::<ReplicationClient>().ask();
    (0..80).for_each(|_| apps.update());
    let client = apps.client.world().resource::<ReplicationClient>().tick();
    assert_eq!(client, Some(apps.server.world().resource::<ReplicationServer>().tick()));
    apps.assert_in_sync();
}

#[test]
fn an_inbox_that_is_full_refuses_messages_and_the_client_catches_up() {
    let inbox = InboxLimits { messages_max: 16, frame_messages_max: 3, ..InboxLimits::default() };
    let plugin = ReplicationClientPlugin::new().inbox(inbox);
    let mut apps = TwoApps::with(ReplicationServerPlugin::new(), plugin, setup);
    apps.update();
    let mut refused = 0;
    for number in 0..20 {
        apps.server.world_mut().spawn((at(number as f32), Replicated));
        apps.server.update();
        for (_, message) in apps.server.world_mut().resource_mut::<ReplicationServer>().take_messages() {
            let mut client = apps.client.world_mut().resource_mut::<ReplicationClient>();
            refused += usize::from(client.receive(message).is_err_and(|error| error.is_limit()));
        }
    }
    assert_eq!(refused, 4);
    let before = apps.client.world().resource::<ReplicationClient>().tick().unwrap();
    apps.client.update();
    let after = apps.client.world().resource::<ReplicationClient>().tick().unwrap();
    assert_eq!(after, before + 3, "a frame applies a part");
    (0..60).for_each(|_| apps.update());
    apps.assert_in_sync();
}

//! A mirror follows a server: joins, losses, foreign messages, failures, and what each side answers.

mod common;

use bonfire::{Error, Granularity, Persist};
use bonfire_sync::{
    Applied, BaselineReason, CatchUpRequest, Message, MessageCompression, MessageKind, MessageLimits,
    Receiver, StreamOptions,
};
use bytes::Bytes;
use common::{Client, Follows, Frozen, Name, Position, Score, Server, State, table, world};

fn decoded(message: &Bytes) -> Message {
    Message::decode(message, &MessageLimits::default()).unwrap()
}

/// The mirror has what the server has.
#[track_caller]
fn assert_same(client: &Client, server: &mut Server) {
    assert_eq!(client.state(), State::of_server(server.world()));
    assert_eq!(client.receiver.map().len(), server.world().entities().len(), "the map has what lives");
}

/// A server and a client that is where it is.
fn joined() -> (Server, Client) {
    let (mut server, mut client) = (Server::new(7), Client::new());
    server.spawn(1.0);
    server.tick();
    assert_eq!(client.apply(&server.baseline()), Applied::Baseline);
    assert_same(&client, &mut server);
    (server, client)
}

#[test]
fn a_joiner_applies_a_baseline_and_follows_tick_by_tick() {
    let (mut server, mut client) = joined();
    let wolf = server.spawn(2.0);
    let sheep = server.spawn(3.0);
    server.world().insert(wolf, Follows(sheep));
    server.world().insert(sheep, Name("dolly".to_owned()));
    assert_eq!(client.apply(&server.tick()), Applied::Delta);
    assert_same(&client, &mut server);

    // What one delta brought is known to the next.
    server.world().insert(sheep, Position { x: 30.0, y: 1.0 });
    server.world().insert(sheep, Name(String::new()));
    server.world().insert(wolf, Frozen);
    assert_eq!(client.apply(&server.tick()), Applied::Delta);
    assert_same(&client, &mut server);
    let local = client.receiver.entity(sheep).unwrap();
    assert_eq!(client.receiver.remote(local), Some(sheep));
    assert_eq!(client.mirror.world.get::<Name>(local), Some(&Name(String::new())), "emptied, not kept");

    server.world().despawn(wolf);
    server.world().remove::<Position>(sheep);
    assert_eq!(client.apply(&server.tick()), Applied::Delta);
    assert_same(&client, &mut server);
    assert_eq!(client.receiver.entity(wolf), None, "the map forgets what is gone");
    assert_eq!((client.receiver.tick(), client.receiver.stream()), (Some(4), Some(7)));

    // Nothing has happened: the chain goes on.
    let idle = server.tick();
    assert!(idle.len() < 100, "{} bytes about nothing", idle.len());
    assert_eq!(client.apply(&idle), Applied::Delta);
}

#[test]
fn what_came_and_went_within_a_tick_is_not_told() {
    let (mut server, mut client) = joined();
    let idle = server.tick();
    assert_eq!(client.apply(&idle), Applied::Delta);
    let short = server.spawn(5.0);
    server.world().despawn(short);
    let message = server.tick();
    assert_eq!(decoded(&message).payload, decoded(&idle).payload);
    client.apply(&message);
    assert_same(&client, &mut server);
}

#[test]
fn a_baseline_between_two_ticks_loses_nothing() {
    let (mut server, mut client) = (Server::new(7), Client::new());
    let mut old = Client::new();
    let (a, b) = (server.spawn(1.0), server.spawn(2.0));
    server.tick();
    old.apply(&server.baseline());
    old.apply(&server.tick());
    // Changes before and after the baseline, none of them sent yet.
    server.world().insert(a, Position { x: 10.0, y: 0.0 });
    server.world().despawn(b);
    server.world().insert(a, Frozen);
    let early = server.spawn(3.0);
    server.world().insert(early, Name("seen by the joiner alone".to_owned()));
    let baseline = server.baseline();
    assert_eq!(client.apply(&baseline), Applied::Baseline);
    assert_same(&client, &mut server);
    // Back to what everybody else has: a message that spans both would not tell of it.
    server.world().insert(a, Position { x: 1.0, y: 0.0 });
    server.world().remove::<Frozen>(a);
    server.world().despawn(early);
    server.spawn(4.0);
    let messages = server.ticks();
    assert_eq!(messages.len(), 2, "one for each side of the baseline");
    assert_eq!([client.apply(&messages[0]), client.apply(&messages[1])], [Applied::Skipped, Applied::Delta]);
    assert_eq!([old.apply(&messages[0]), old.apply(&messages[1])], [Applied::Delta, Applied::Delta]);
    assert_same(&client, &mut server);
    assert_same(&old, &mut server);
}

#[test]
fn the_message_of_the_tick_that_a_joiner_joined_at_is_skipped() {
    let (mut server, mut client) = (Server::new(7), Client::new());
    server.spawn(1.0);
    let message = server.tick();
    let baseline = server.baseline();
    assert_eq!(client.apply(&baseline), Applied::Baseline);
    assert_eq!(client.apply(&message), Applied::Skipped);
    assert_eq!(client.apply(&baseline), Applied::Skipped);
    server.spawn(2.0);
    assert_eq!(client.apply(&server.tick()), Applied::Delta);
    assert_same(&client, &mut server);
}

#[test]
fn a_baseline_does_not_move_the_stream_and_is_made_once_per_tick() {
    let mut server = Server::new(7);
    server.spawn(1.0);
    let first = decoded(&server.tick());
    let baselines: Vec<Message> = (0..5).map(|_| decoded(&server.baseline())).collect();
    assert!(
        baselines.iter().all(|message| (message.kind, message.tick) == (MessageKind::Baseline, first.tick))
    );
    assert_eq!(server.trouble.baselines, 1, "encoded once, whoever asks");
    let second = decoded(&server.tick());
    assert_eq!((second.since, second.tick), (first.tick, first.tick + 1));
    assert_eq!(second.sequence, first.sequence + 1);
    server.baseline();
    assert_eq!(server.trouble.baselines, 2, "another tick, another baseline");
}

#[test]
fn deltas_before_any_baseline_are_not_applied() {
    let (mut server, mut client) = (Server::new(7), Client::new());
    server.spawn(1.0);
    assert_eq!(client.apply(&server.tick()), Applied::NeedBaseline(BaselineReason::Nothing));
    assert_eq!(client.state().len(), 0);
    assert_eq!(
        client.receiver.request(),
        CatchUpRequest { stream: 0, have: None, schema: table().fingerprint() }
    );
}

#[test]
fn a_lost_message_breaks_the_chain_until_it_is_asked_for() {
    let (mut server, mut client) = joined();
    server.spawn(2.0);
    server.tick();
    server.spawn(3.0);
    let before = client.state();
    let gap = BaselineReason::Gap { have: 1, since: 2 };
    assert_eq!(client.apply(&server.tick()), Applied::NeedBaseline(gap));
    server.spawn(4.0);
    assert_eq!(
        client.apply(&server.tick()),
        Applied::NeedBaseline(BaselineReason::Gap { have: 1, since: 3 })
    );
    assert_eq!(client.state(), before, "nothing of it was applied");

    // The server still has the messages: no baseline is needed.
    let request = CatchUpRequest::decode(&client.receiver.request().encode().unwrap()).unwrap();
    let answer = server.answer(&request);
    assert_eq!(answer.len(), 3);
    assert!(answer.iter().all(|message| client.apply(message) == Applied::Delta));
    assert_same(&client, &mut server);
    assert_eq!(server.answer(&client.receiver.request()).len(), 0, "nothing is missing");
}

#[test]
fn a_mirror_that_is_too_far_behind_gets_a_baseline() {
    let mut server = Server::with(StreamOptions { recent_messages_max: 3, ..StreamOptions::new(7) });
    let mut client = Client::new();
    server.spawn(1.0);
    server.tick();
    client.apply(&server.baseline());
    for x in 0..4 {
        server.spawn(x as f32);
        server.tick();
    }
    assert!(server.stream.catch_up(1).is_none());
    assert_eq!(server.stream.catch_up(2).map(|messages| messages.len()), Some(3));
    assert!(server.stream.catch_up(99).is_none(), "a tick that never was");
    let answer = server.answer(&client.receiver.request());
    assert_eq!(answer.len(), 1);
    assert_eq!(client.apply(&answer[0]), Applied::Baseline);
    assert_same(&client, &mut server);
    assert_eq!(client.apply(&server.tick()), Applied::Delta);
}

#[test]
fn messages_that_come_twice_or_late_are_skipped() {
    let (mut server, mut client) = joined();
    let (one, two) = (server.tick(), {
        server.spawn(2.0);
        server.tick()
    });
    assert_eq!(client.apply(&two), Applied::NeedBaseline(BaselineReason::Gap { have: 1, since: 2 }));
    assert_eq!(client.apply(&one), Applied::Delta);
    assert_eq!(client.apply(&two), Applied::Delta);
    for message in [&one, &two, &one] {
        assert_eq!(client.apply(message), Applied::Skipped);
    }
    assert_same(&client, &mut server);
}

#[test]
fn messages_of_another_stream_change_nothing_but_its_baseline_does() {
    let (mut server, mut client) = joined();
    let mut other = Server::new(8);
    for x in 0..3 {
        other.spawn(x as f32);
    }
    let foreign = other.tick();
    let foreign_next = other.tick();
    let before = client.state();
    assert_eq!(client.apply(&foreign), Applied::NeedBaseline(BaselineReason::OtherStream));
    assert_eq!(client.apply(&foreign_next), Applied::NeedBaseline(BaselineReason::OtherStream));
    assert_eq!(client.state(), before);
    assert_eq!(client.apply(&server.tick()), Applied::Delta, "the own stream goes on");

    // A request of a follower of another stream is not taken for one of ours, though the tick is known.
    let answer = other.answer(&client.receiver.request());
    assert_eq!(decoded(&answer[0]).kind, MessageKind::Baseline);
    assert_eq!(client.apply(&answer[0]), Applied::Baseline);
    assert_same(&client, &mut other);
    assert_eq!(client.receiver.stream(), Some(8));
    assert_eq!(client.apply(&server.tick()), Applied::NeedBaseline(BaselineReason::OtherStream));
    assert_eq!(client.apply(&other.tick()), Applied::Delta);
}

#[test]
fn a_baseline_clears_the_mirror_of_everything_else() {
    let (mut server, mut client) = joined();
    let stranger = client.mirror.world.spawn();
    let gone = server.spawn(9.0);
    client.apply(&server.tick());
    server.world().despawn(gone);
    server.tick();
    let map = std::ptr::from_ref(client.receiver.map());
    assert_eq!(client.apply(&server.baseline()), Applied::Baseline);
    assert_same(&client, &mut server);
    assert!(!client.mirror.world.contains(stranger), "a mirror belongs to its stream");
    assert_eq!(client.receiver.entity(gone), None);
    assert_eq!(map, std::ptr::from_ref(client.receiver.map()), "one map, for ever");
}

/// Another build, in which a component has another field.
#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "test.position")]
struct WidePosition {
    x: f64,
    y: f32,
}

#[test]
fn other_components_are_refused_by_name() {
    let (mut server, _) = joined();
    let mut other = bonfire_testkit::ModelWorld::new();
    other.register::<WidePosition>().unwrap();
    other.register::<Name>().unwrap();
    let mut client = Client::over(other);
    let mine = client.mirror.world.spawn();
    let error = client.try_apply(&server.baseline()).unwrap_err();
    assert!(error.is_schema(), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("test.position") && text.contains("more"), "{text}");
    let error = client.try_apply(&server.tick()).unwrap_err();
    assert!(error.is_schema(), "{error:?}");
    assert!(client.mirror.world.contains(mine) && !client.receiver.is_poisoned());
    // The server gives such a mirror the baseline that tells it why.
    assert_eq!(decoded(&server.answer(&client.receiver.request())[0]).kind, MessageKind::Baseline);
}

#[test]
fn a_baseline_that_lies_about_its_components_is_refused() {
    let (mut server, _) = joined();
    let honest = decoded(&server.baseline());
    let mut other = bonfire_testkit::ModelWorld::new();
    other.register::<WidePosition>().unwrap();
    let table = bonfire::engine::ComponentTable::of(other.registry()).encode();
    let mut payload = bonfire::Writer::new();
    payload.blob(&table);
    let lie = Message { payload: payload.finish().unwrap().into(), ..honest };
    let mut client = Client::new();
    let error = client.try_apply(&lie.encode(&MessageCompression::None).unwrap()).unwrap_err();
    assert!(error.is_corrupt() && error.to_string().contains("than it says"), "{error}");
}

#[test]
fn damage_is_refused_as_a_whole_and_the_stream_goes_on() {
    let (mut server, mut client) = joined();
    server.spawn(2.0);
    let message = server.tick();
    let before = client.state();
    for at in 0..message.len() {
        let mut bad = message.to_vec();
        bad[at] ^= 0x10;
        client.try_apply(&bad.into()).unwrap_err();
        client.try_apply(&message.slice(..at)).unwrap_err();
    }
    assert_eq!(client.state(), before);
    assert!(!client.receiver.is_poisoned());
    assert_eq!(client.apply(&message), Applied::Delta, "the message itself still fits");
    assert_same(&client, &mut server);
}

#[test]
fn payloads_that_a_hostile_peer_seals_never_panic_and_change_nothing() {
    let (mut server, mut client) = joined();
    server.spawn(2.0);
    let delta = decoded(&server.tick());
    let baseline = decoded(&server.baseline());
    let before = client.state();
    let mut accepted = 0;
    for message in [delta, baseline] {
        for at in 0..message.payload.len() {
            for flip in [1, 0x80, 0xFF] {
                let mut payload = message.payload.to_vec();
                payload[at] ^= flip;
                let bad = Message { payload: payload.into(), ..message.clone() };
                let mut fresh = Client::new();
                fresh.mirror.world = world();
                if fresh.try_apply(&bad.encode(&MessageCompression::None).unwrap()).is_ok() {
                    accepted += 1;
                }
                // Values may be others; what is refused leaves no trace.
                let mut copy = Client::new();
                copy.apply(&server.baseline());
                let known = copy.state();
                if copy.try_apply(&bad.encode(&MessageCompression::None).unwrap()).is_err() {
                    assert_eq!(copy.state(), known);
                }
            }
            let cut = Message { payload: message.payload.slice(..at), ..message.clone() };
            assert!(
                Client::new().try_apply(&cut.encode(&MessageCompression::None).unwrap()).is_err()
                    || cut.kind == MessageKind::Delta
            );
        }
    }
    assert!(accepted > 0, "other values are not damage");
    assert_eq!(client.state(), before);
    assert_eq!(
        client.apply(&server.tick()),
        Applied::NeedBaseline(BaselineReason::Gap { have: 1, since: 2 })
    );
}

#[test]
fn a_failure_half_way_poisons_until_a_baseline() {
    let (mut server, mut client) = joined();
    let victim = server.spawn(2.0);
    client.apply(&server.tick());
    server.world().despawn(victim);
    server.spawn(3.0);
    client.mirror.breaks = true;
    let message = server.tick();
    client.try_apply(&message).unwrap_err();
    assert!(client.receiver.is_poisoned());
    assert_eq!(client.receiver.tick(), None);
    let poisoned = Applied::NeedBaseline(BaselineReason::Poisoned);
    assert_eq!(client.apply(&message), poisoned, "the same message does not heal");
    assert_eq!(client.apply(&server.tick()), poisoned);
    let request = client.receiver.request();
    assert_eq!(request.have, None, "what it has cannot be built on");
    let answer = server.answer(&request);
    assert_eq!(client.apply(&answer[0]), Applied::Baseline);
    assert_same(&client, &mut server);
    assert_eq!(client.apply(&server.tick()), Applied::Delta);

    // The baseline of the tick that it was at heals too.
    let tick = server.tick();
    let baseline = server.baseline();
    client.apply(&tick);
    client.mirror.breaks = true;
    client.try_apply(&server.tick()).unwrap_err();
    assert_eq!(client.apply(&baseline), Applied::Baseline);
    assert!(!client.receiver.is_poisoned());

    // A first baseline that fails, and one that panics.
    for panics in [false, true] {
        let mut fresh = Client::new();
        fresh.mirror.breaks = !panics;
        fresh.mirror.panics = panics;
        let baseline = server.baseline();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| fresh.try_apply(&baseline)));
        assert_eq!(outcome.is_err(), panics);
        assert!(fresh.receiver.is_poisoned());
        assert_eq!(fresh.apply(&server.tick()), poisoned);
        assert_eq!(fresh.apply(&server.baseline()), Applied::Baseline);
        assert_same(&fresh, &mut server);
    }
}

#[test]
fn a_delta_that_is_too_large_is_a_baseline_that_chains() {
    let mut server = Server::with(StreamOptions { delta_bytes_max: 300, ..StreamOptions::new(7) });
    let mut client = Client::new();
    server.spawn(1.0);
    server.tick();
    client.apply(&server.baseline());
    for x in 0..200 {
        server.spawn(x as f32);
    }
    let message = server.tick();
    assert_eq!(decoded(&message).kind, MessageKind::Baseline);
    assert_eq!(client.apply(&message), Applied::Baseline);
    assert_same(&client, &mut server);
    server.spawn(0.5);
    assert_eq!(client.apply(&server.tick()), Applied::Delta);
    assert_same(&client, &mut server);
    // Whoever missed the baseline gets it from the recent messages.
    assert_eq!(server.stream.catch_up(0).map(|messages| messages.len()), Some(2));
    assert!(server.stream.catch_up(99).is_none(), "nobody is ahead of the server");
}

#[test]
fn a_source_that_cannot_tell_what_changed_sends_a_baseline() {
    let (mut server, mut client) = joined();
    server.spawn(2.0);
    server.trouble.cannot_tell = true;
    assert_eq!(client.apply(&server.tick()), Applied::Baseline);
    assert_same(&client, &mut server);
    server.spawn(3.0);
    assert_eq!(client.apply(&server.tick()), Applied::Delta);
    assert_same(&client, &mut server);
}

#[test]
fn a_tick_that_fails_is_made_up_for_by_the_next() {
    let (mut server, mut client) = joined();
    server.spawn(2.0);
    server.trouble.changes_fail = true;
    let error: Error = server.try_tick().unwrap_err();
    assert!(error.to_string().contains("bad day"));
    assert_eq!(server.stream.current_tick(), 1, "nothing was sent");
    server.spawn(3.0);
    assert_eq!(client.apply(&server.tick()), Applied::Baseline, "what the failure took is not lost");
    assert_same(&client, &mut server);
    server.spawn(4.0);
    assert_eq!(client.apply(&server.tick()), Applied::Delta);
    assert_same(&client, &mut server);
}

#[test]
fn a_compressed_stream_needs_nothing_from_the_receiver() {
    let options = StreamOptions { compression: MessageCompression::Lz4, ..StreamOptions::new(7) };
    let (mut server, mut plain) = (Server::with(options), Server::new(7));
    let mut client = Client::new();
    for server in [&mut server, &mut plain] {
        for _ in 0..500 {
            server.spawn(1.0);
        }
        server.tick();
    }
    let (packed, raw) = (server.baseline(), plain.baseline());
    assert!(packed.len() * 3 < raw.len(), "{} of {}", packed.len(), raw.len());
    assert_eq!(client.apply(&packed), Applied::Baseline);
    server.spawn(2.0);
    assert_eq!(client.apply(&server.tick()), Applied::Delta);
    assert_same(&client, &mut server);
}

#[test]
fn a_receiver_keeps_its_limits() {
    let mut server = Server::new(7);
    for x in 0..100 {
        server.spawn(x as f32);
    }
    server.tick();
    let baseline = server.baseline();
    let mut client = Client::new();
    let limits = MessageLimits { payload_bytes_max: 100, ..MessageLimits::default() };
    client.receiver = Receiver::with_limits(table(), bonfire::Limits::default(), limits);
    assert!(client.try_apply(&baseline).unwrap_err().is_limit());
    let limits = bonfire::Limits { components_max: 2, ..bonfire::Limits::default() };
    client.receiver = Receiver::with_limits(table(), limits, MessageLimits::default());
    assert!(client.try_apply(&baseline).unwrap_err().is_limit());
    assert_eq!(client.state().len(), 0);
}

#[test]
fn small_changes_are_held_back_and_a_joiner_is_as_close_as_the_others() {
    let mut server = Server::with(StreamOptions { epsilon: Some(1.0), ..StreamOptions::new(7) });
    let (mut old, mut new) = (Client::new(), Client::new());
    let id = server.spawn(0.0);
    server.tick();
    old.apply(&server.baseline());
    let move_to = |server: &mut Server, x: f32| {
        server.world().insert(id, Position { x, y: 0.0 });
        server.tick()
    };
    let x = |client: &Client| {
        let local = client.receiver.entity(id).unwrap();
        client.mirror.world.get::<Position>(local).unwrap().x
    };
    old.apply(&move_to(&mut server, 0.5));
    assert_eq!(x(&old), 0.0, "held back: a baseline for one makes nobody forget");
    old.apply(&move_to(&mut server, 1.5));
    assert_eq!(x(&old), 1.5);
    old.apply(&move_to(&mut server, 2.25));
    new.apply(&server.baseline());
    assert_eq!(x(&new), 1.5, "what the others have");
    for position in [0.75, 2.5, 2.6, 1.0, 0.8] {
        let message = move_to(&mut server, position);
        for client in [&mut old, &mut new] {
            assert_eq!(client.apply(&message), Applied::Delta);
            assert!((x(client) - position).abs() <= 1.0, "within epsilon of the source: {}", x(client));
        }
        assert_eq!(x(&old), x(&new));
    }
    // Text is never held back.
    server.world().insert(id, Name("a".to_owned()));
    old.apply(&server.tick());
    server.world().insert(id, Name("b".to_owned()));
    old.apply(&server.tick());
    let local = old.receiver.entity(id).unwrap();
    assert_eq!(old.mirror.world.get::<Name>(local), Some(&Name("b".to_owned())));
}

#[test]
fn single_fields_are_smaller_and_say_the_same() {
    let options = |granularity| StreamOptions { granularity, ..StreamOptions::new(7) };
    let mut sizes = Vec::new();
    for granularity in [Granularity::Component, Granularity::Field] {
        let (mut server, mut client) = (Server::with(options(granularity)), Client::new());
        let ids: Vec<_> = (0..100).map(|x| server.spawn(x as f32)).collect();
        server.tick();
        client.apply(&server.baseline());
        for x in [1000.0, 2000.0] {
            for id in &ids {
                server.world().insert(*id, Position { x, y: 0.0 });
            }
            let message = server.tick();
            sizes.push(message.len());
            assert_eq!(client.apply(&message), Applied::Delta);
            assert_same(&client, &mut server);
        }
    }
    assert!(sizes[2] + 4 * 100 <= sizes[0] + 10, "a baseline for one makes nobody forget: {sizes:?}");
    assert!(sizes[3] + 4 * 100 <= sizes[1] + 10, "4 of 8 bytes each: {sizes:?}");
}

#[test]
fn a_server_with_other_components_starts_over_in_the_same_stream() {
    let (mut server, mut old) = joined();
    let mut wider = bonfire_testkit::ModelWorld::new();
    wider.register::<Name>().unwrap();
    server.followed = bonfire_testkit::Followed::new(wider).unwrap();
    let id = server.world().spawn();
    server.world().insert(id, Name("new".to_owned()));
    let message = server.tick();
    assert_eq!(decoded(&message).kind, MessageKind::Baseline, "a delta could not say what is different");
    let error = old.try_apply(&message).unwrap_err();
    assert!(error.is_schema() && error.to_string().contains("test."), "{error}");

    let mut other = bonfire_testkit::ModelWorld::new();
    other.register::<Name>().unwrap();
    let mut new = Client::over(other);
    assert_eq!(new.apply(&message), Applied::Baseline);
    assert_eq!(new.apply(&server.tick()), Applied::Delta);
}

#[test]
fn a_source_that_gives_too_little_for_a_baseline_is_found_out() {
    let (mut server, mut client) = joined();
    server.tick();
    server.spawn(3.0);
    let mut elsewhere = bonfire_testkit::Followed::new(world()).unwrap();
    server.trouble.not_everything = Some(elsewhere.changes().unwrap());
    assert!(server.try_baseline().unwrap_err().is_misuse());
    // Nobody is left behind, and the next baseline is a real one.
    server.ticks();
    for message in server.answer(&client.receiver.request()) {
        assert_eq!(client.apply(&message), Applied::Delta);
    }
    assert_same(&client, &mut server);
    let mut other = Client::new();
    assert_eq!(other.apply(&server.baseline()), Applied::Baseline);
    assert_same(&other, &mut server);
}

#[test]
fn tools_read_messages_as_receivers_do() {
    let mut server = Server::new(1);
    let wolf = server.spawn(1.0);
    server.world().insert_resource(Score(7));
    server.tick();
    let limits = bonfire::Limits::default();
    let baseline = decoded(&server.baseline());
    let whole = baseline.whole(&limits).unwrap();
    assert!(whole.is_whole() && whole.spawned().eq([wolf]));
    let score = whole.resource_value("test.score", &limits).unwrap();
    assert_eq!(score, Some(bonfire::Value::Tuple(vec![bonfire::Value::U64(7)])));
    assert_eq!(whole.resource_value("test.name", &limits).unwrap(), None);
    server.world().despawn(wolf);
    let delta = decoded(&server.tick());
    assert_eq!(delta.changes(whole.table(), &limits).unwrap().despawned(), [wolf]);

    assert!(delta.whole(&limits).is_err() && baseline.changes(whole.table(), &limits).is_err());
    let others = bonfire::engine::ComponentTable::of(&bonfire::Registry::new());
    assert!(delta.changes(&others, &limits).unwrap_err().is_schema());
}

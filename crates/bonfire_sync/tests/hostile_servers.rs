//! A server that sends more than a mirror can hold: limits on entities, on what waits, on a frame and on decoded bytes, and
//! work that grows with the bytes and no faster.

mod common;

use bonfire::{Limits, Watch, Writer};
use bonfire_sync::{
    Applied, Inbox, InboxLimits, Message, MessageCompression, MessageKind, MessageLimits, Receiver, Recorder,
    Recording, StructuralLog, mirror_limits,
};
use bytes::Bytes;
use common::{Client, Server, State, table};

fn limited(limits: Limits) -> Client {
    let mut client = Client::new();
    client.receiver = Receiver::with_limits(table(), limits, MessageLimits::default());
    client
}

#[test]
fn a_mirror_never_has_more_entities_than_its_limit() {
    let mut server = Server::new(7);
    let mut client = limited(Limits { entities_max: 100, ..mirror_limits() });
    let mut ids: Vec<_> = (0..60).map(|x| server.spawn(x as f32)).collect();
    server.tick();
    assert_eq!(client.apply(&server.baseline()), Applied::Baseline);
    ids.extend((0..40).map(|x| server.spawn(x as f32)));
    assert_eq!(client.apply(&server.tick()), Applied::Delta);
    let (full, tick) = (client.state(), client.receiver.tick());
    assert_eq!(full.len(), 100);

    // As many come as go.
    server.world().despawn(ids[0]);
    server.spawn(0.0);
    assert_eq!(client.apply(&server.tick()), Applied::Delta);
    let full_again = client.state();

    server.spawn(1.0);
    let message = server.tick();
    for message in [message, server.baseline()] {
        let error = client.try_apply(&message).unwrap_err();
        assert!(error.is_limit(), "{error}");
        assert!(error.to_string().contains("101 entities"), "{error}");
        assert_eq!(client.state(), full_again, "as it was");
        assert_eq!(
            (client.receiver.tick(), client.receiver.is_poisoned()),
            (tick.map(|tick| tick + 1), false)
        );
    }
    assert_eq!(client.receiver.map().len(), 100);
    // It follows again once there is room.
    server.world().despawn(ids[1]);
    server.tick();
    assert_eq!(client.apply(&server.baseline()), Applied::Baseline);
    assert_eq!(client.state(), State::of_server(server.world()));
}

#[test]
fn a_structural_log_has_no_more_entities_than_the_limit() {
    let mut server = Server::new(7);
    let mut log = StructuralLog::new(100);
    let mut ids = Vec::new();
    for _ in 0..20 {
        // Ten come and five go in each step.
        ids.extend((0..10).map(|x| server.spawn(x as f32)));
        ids.drain(..5).for_each(|id| server.world().despawn(id));
        log.record(&server.followed.changes().unwrap()).unwrap();
    }
    let bytes = log.encode(7, &MessageCompression::None).unwrap();
    let decode = |entities_max| {
        let limits = Limits { entities_max, ..mirror_limits() };
        StructuralLog::decode(&bytes, 100, &MessageLimits::default(), &limits)
    };
    assert!(decode(100).is_ok());
    assert!(decode(99).unwrap_err().is_limit());
}

/// A delta that spawns or despawns entities whose ids take a byte each.
fn many_ids(spawned: usize, despawned: usize) -> Bytes {
    let mut out = Writer::new();
    out.varint(0);
    let ids = |out: &mut Writer, count: usize| {
        out.varint(count as u64);
        (0..count).for_each(|_| out.u8(4)); // the next index, the same generation
    };
    ids(&mut out, despawned);
    out.varint(u64::from(spawned > 0));
    if spawned > 0 {
        out.u8(1);
        ids(&mut out, spawned);
        out.varint(0);
    }
    (0..2).for_each(|_| out.varint(0));
    out.u8(0);
    out.finish().unwrap().into()
}

fn delta(payload: Bytes, since: u64) -> Bytes {
    let schema = table().fingerprint();
    let message =
        Message { kind: MessageKind::Delta, stream: 7, sequence: 0, since, tick: since + 1, schema, payload };
    message.encode(&MessageCompression::None).unwrap()
}

#[test]
fn ids_of_a_byte_each_are_counted_before_they_are_kept() {
    let mut server = Server::new(7);
    server.tick();
    let mut client = limited(Limits { memory_bytes_max: 1 << 20, ..mirror_limits() });
    client.apply(&server.baseline());
    for payload in [many_ids(100_000, 0), many_ids(0, 100_000)] {
        let error = client.try_apply(&delta(payload, 1)).unwrap_err();
        assert!(error.is_limit(), "{error}");
    }
    assert_eq!(client.apply(&delta(many_ids(10_000, 0), 1)), Applied::Delta);
}

#[test]
fn defaults_are_far_below_those_of_saves() {
    let limits = mirror_limits();
    assert_eq!((limits.raw_bytes_max, limits.memory_bytes_max), (64 << 20, 256 << 20));
    assert_eq!((limits.entities_max, MessageLimits::default().payload_bytes_max), (1 << 20, 64 << 20));
    // 300 KB that become 65 MiB.
    let payload = Bytes::from(vec![0; 65 << 20]);
    let packed =
        Message { payload, ..Message::decode(&delta(many_ids(1, 0), 1), &Default::default()).unwrap() };
    let packed = packed.encode(&MessageCompression::Lz4).unwrap();
    assert!(packed.len() < 1 << 20);
    assert!(Client::new().try_apply(&packed).unwrap_err().is_limit());
}

#[test]
fn an_inbox_refuses_what_does_not_fit_and_asks_for_it() {
    let small = |messages_max, bytes_max| InboxLimits { messages_max, bytes_max, ..InboxLimits::default() };
    for limits in [small(10, 1 << 20), small(1000, 1000)] {
        let mut server = Server::new(7);
        server.tick();
        let mut client = Client::new();
        client.apply(&server.baseline());
        let mut inbox = Inbox::new(limits.clone());
        let mut refused = 0;
        for x in 0..50 {
            server.spawn(x as f32);
            let error = inbox.receive(server.tick()).err();
            assert!(error.as_ref().is_none_or(bonfire::Error::is_limit), "{error:?}");
            refused += usize::from(error.is_some());
        }
        assert!(refused >= 30, "{refused} of 50 did not fit");
        assert!(inbox.len() <= limits.messages_max && !inbox.is_empty());
        inbox.begin_frame();
        let mut applied = 0;
        while let Some(result) = inbox.apply_next(&mut client.receiver, &mut client.mirror) {
            assert_eq!(result.unwrap(), Applied::Delta);
            applied += 1;
        }
        assert_eq!(applied + refused, 50);
        let request = inbox.take_request(&client.receiver).unwrap().expect("messages were refused");
        assert!(inbox.take_request(&client.receiver).unwrap().is_none(), "once");
        let request = bonfire_sync::CatchUpRequest::decode(&request).unwrap();
        assert_eq!(request.have, Some(1 + applied as u64), "what waited was applied first");
        for message in server.answer(&request) {
            client.apply(&message);
        }
        assert_eq!(client.state(), State::of_server(server.world()));
    }
}

#[test]
fn a_frame_applies_a_part_of_what_waits() {
    let frame = |frame_messages_max, frame_bytes_max| InboxLimits {
        frame_messages_max,
        frame_bytes_max,
        ..InboxLimits::default()
    };
    for (limits, per_frame) in [(frame(7, 1 << 20), 7), (frame(100, 230), 3), (frame(0, 0), 1)] {
        let mut server = Server::new(7);
        server.tick();
        let mut client = Client::new();
        client.apply(&server.baseline());
        let mut inbox = Inbox::new(limits);
        (0..21).for_each(|_| inbox.receive(server.tick()).unwrap());
        for left in (0..21).step_by(per_frame).rev() {
            inbox.begin_frame();
            while inbox.apply_next(&mut client.receiver, &mut client.mirror).is_some() {}
            assert_eq!(inbox.len(), left);
        }
        assert_eq!(client.receiver.tick(), Some(server.stream.current_tick()));
        assert!(inbox.take_request(&client.receiver).unwrap().is_none(), "nothing is missing");
    }
}

/// The steps of a receiver on one delta after a baseline.
fn receiver_steps(payload: Bytes) -> u64 {
    let mut server = Server::new(7);
    server.tick();
    let watch = Watch::new();
    let mut client = Client::new();
    client.apply(&server.baseline());
    client.receiver = client.receiver.watch(&watch);
    client.apply(&delta(payload, 1));
    watch.steps()
}

fn recording(messages: usize) -> Bytes {
    let mut recorder = Recorder::new(Vec::new()).unwrap();
    for number in 0..messages {
        let message = delta(many_ids(10, 10), number as u64 + 1);
        recorder.write(&message).unwrap();
        let mut damaged = message.to_vec();
        damaged[70] ^= 1;
        recorder.write(&damaged).unwrap();
    }
    recorder.into_inner().into()
}

#[test]
fn twice_the_bytes_are_twice_the_work() {
    for payload in [|count| many_ids(count, 0), |count| many_ids(0, count), |count| many_ids(count, count)] {
        let (one, two) = (receiver_steps(payload(2000)), receiver_steps(payload(4000)));
        assert!(one > 2000 && two as f64 <= one as f64 * 2.2, "{one} and {two} steps");
    }
    let steps = |messages| {
        let watch = Watch::new();
        let file = Recording::open(recording(messages), &MessageLimits::default()).unwrap().watch(&watch);
        assert_eq!(file.count(), 2 * messages);
        assert_eq!(watch.done(), watch.total());
        watch.steps()
    };
    let (one, two) = (steps(500), steps(1000));
    assert!(one > 500 && two as f64 <= one as f64 * 2.2, "{one} and {two} steps");
}

#[test]
fn work_that_is_cancelled_ends_and_changes_nothing() {
    let watch = Watch::new();
    let mut file = Recording::open(recording(10), &MessageLimits::default()).unwrap().watch(&watch);
    file.next().unwrap().unwrap();
    watch.cancel();
    assert!(file.next().unwrap().unwrap_err().is_cancelled());
    assert!(file.next().is_none());

    let mut server = Server::new(7);
    server.spawn(1.0);
    server.tick();
    let mut client = Client::new();
    client.receiver = client.receiver.watch(&watch);
    assert!(client.try_apply(&server.baseline()).unwrap_err().is_cancelled());
    assert!(client.state().len() == 0 && !client.receiver.is_poisoned());
}

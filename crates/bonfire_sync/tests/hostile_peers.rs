//! Clients that ask for too much, and servers that send too much: each costs what limits and budgets allow, and nobody else
//! notices.

mod common;

use std::collections::BTreeMap;

use bonfire::{EntityId, Granularity, Result};
use bonfire_sync::{Answer, CatchUpRequest, ClientId, StreamOptions, StreamServer};
use bonfire_testkit::Followed;
use bytes::Bytes;
use common::{Client, Position, Sides, State, Trouble, table, world};

const A: ClientId = ClientId(1);
const B: ClientId = ClientId(2);

/// A server whose clients are counted: bytes by client, and what became of requests.
struct Host {
    followed: Followed,
    trouble: Trouble,
    server: StreamServer,
    ids: Vec<EntityId>,
    frame: u32,
}

impl Host {
    fn new(options: StreamOptions, entities: usize) -> Self {
        let mut followed = Followed::new(world()).unwrap();
        let ids = (0..entities).map(|_| followed.world.spawn()).collect();
        let mut host =
            Self { followed, trouble: Trouble::default(), server: StreamServer::new(options), ids, frame: 0 };
        host.move_all(0.0);
        host
    }

    fn move_all(&mut self, by: f32) {
        for (number, id) in self.ids.iter().enumerate() {
            self.followed.world.insert(*id, Position { x: number as f32 + by, y: 0.0 });
        }
    }

    fn try_tick(&mut self) -> Result<Vec<(ClientId, Answer)>> {
        self.frame += 1;
        self.server.tick(&mut Sides(&mut self.followed, &mut self.trouble))
    }

    fn tick(&mut self) -> Vec<(ClientId, Answer)> {
        self.try_tick().unwrap()
    }

    /// The messages of a tick by client.
    fn sent(&mut self) -> BTreeMap<ClientId, Vec<Bytes>> {
        let mut sent = BTreeMap::<_, Vec<_>>::new();
        for (client, message) in self.server.take_messages() {
            sent.entry(client).or_default().push(message);
        }
        sent
    }

    fn ask(&mut self, client: ClientId, have: Option<u64>) {
        self.server.receive(client, &request(have)).unwrap();
    }
}

fn request(have: Option<u64>) -> Bytes {
    CatchUpRequest { stream: 7, have, schema: table().fingerprint() }.encode().unwrap()
}

fn bytes(messages: &[Bytes]) -> u64 {
    messages.iter().map(|message| message.len() as u64).sum()
}

/// Two clients; the first one asks for something in every frame, or is quiet. Returns the messages to the second one, the bytes to
/// the first, and how often everything was captured.
fn two_clients(options: StreamOptions, asks: Option<Option<u64>>) -> (Vec<Vec<Bytes>>, u64, usize) {
    let mut host = Host::new(options, 300);
    host.server.connect(A);
    host.server.connect(B);
    let (mut to_a, mut to_b) = (0, Vec::new());
    for frame in 0..100 {
        host.move_all(frame as f32 * 0.001);
        if let Some(have) = asks {
            host.ask(A, have);
        }
        host.tick();
        let mut sent = host.sent();
        to_a += bytes(&sent.remove(&A).unwrap_or_default());
        to_b.push(sent.remove(&B).unwrap_or_default());
    }
    (to_b, to_a, host.trouble.baselines)
}

#[test]
fn a_client_that_asks_in_every_frame_changes_no_byte_for_others() {
    // Enough for three baselines.
    let plain = StreamOptions { answer_bytes_start: 10_000, ..StreamOptions::new(7) };
    let fields = StreamOptions { granularity: Granularity::Field, ..plain.clone() };
    for options in [StreamOptions { epsilon: Some(1.0), ..plain }, fields] {
        let (quiet, quiet_bytes, captures) = two_clients(options.clone(), None);
        assert_eq!(captures, 1, "one baseline for both");
        for have in [None, Some(0), Some(1), Some(50), Some(u64::MAX)] {
            let (loud, loud_bytes, captures) = two_clients(options.clone(), Some(have));
            assert!(quiet == loud, "what A asks for is A's alone");
            // What it began with, and three times what it says it has.
            let allowed = quiet_bytes + options.answer_bytes_start + 3 * bytes(&quiet.concat());
            assert!(loud_bytes <= allowed, "{loud_bytes} bytes, {allowed} allowed");
            assert!(captures <= 8, "{captures} captures in 100 frames");
            println!("asks for {have:?}: {loud_bytes} bytes instead of {quiet_bytes}, {captures} captures");
        }
    }
}

#[test]
fn answers_cost_no_more_than_three_times_what_was_acknowledged() {
    let options =
        StreamOptions { answer_bytes_start: 500, baseline_ticks_min: u64::MAX, ..StreamOptions::new(7) };
    // Claims to have everything, then asks for everything or for all that is still known, in turns.
    for greedy in [None, Some(1)] {
        let mut host = Host::new(options.clone(), 40);
        host.server.connect(A);
        let (mut of_stream, mut of_answers) = (0, 0);
        for frame in 0..200_u64 {
            host.move_all(frame as f32);
            host.ask(A, Some(host.server.current_tick()));
            host.ask(A, greedy);
            let answers = host.tick();
            let sent = bytes(&host.sent().remove(&A).unwrap_or_default());
            let answer = match answers[..] {
                [(A, Answer::Sent { bytes })] => bytes,
                _ => 0,
            };
            assert!(of_answers + answer <= 500 + 3 * of_stream, "in frame {frame}");
            of_answers += answer;
            // The first baseline and the message of this tick are not acknowledged yet.
            of_stream += if frame == 0 { 0 } else { sent - answer };
        }
        assert!(of_answers > 0, "what is earned is given");
    }
}

#[test]
fn the_first_baseline_is_always_sent() {
    let options =
        StreamOptions { answer_bytes_start: 0, baseline_ticks_min: u64::MAX, ..StreamOptions::new(7) };
    let mut host = Host::new(options, 1000);
    for number in 1..4 {
        host.server.connect(ClientId(number));
        host.tick();
        let mut client = Client::new();
        for message in &host.sent()[&ClientId(number)] {
            client.apply(message);
        }
        assert_eq!(client.state(), State::of_server(&host.followed.world));
    }
}

#[test]
fn a_request_over_the_budget_waits_and_the_server_says_so() {
    let options = StreamOptions { answer_bytes_start: 100, baseline_ticks_min: 20, ..StreamOptions::new(7) };
    let mut host = Host::new(options, 1000);
    host.server.connect(A);
    host.tick();
    host.sent();
    // It has lost everything, and nothing changes: it earns very little.
    host.ask(A, None);
    let answers = host.tick();
    let [(A, Answer::Later { bytes, ticks: 19 })] = answers[..] else { panic!("{answers:?}") };
    assert!(bytes > 8000, "{bytes}");
    let mut client = Client::new();
    let mut waited = 0;
    while client.receiver.tick().is_none() {
        waited += 1;
        let answers = host.tick();
        for message in host.sent().remove(&A).unwrap() {
            client.apply(&message);
        }
        match answers[..] {
            [] => {}
            [(A, Answer::Sent { bytes })] => assert!(bytes > 8000),
            _ => panic!("it is said once: {answers:?}"),
        }
    }
    assert_eq!(waited, 19);
    assert_eq!(client.state(), State::of_server(&host.followed.world));
    // The next one waits as long again; asking does not make it faster.
    let mut answered = 0;
    for _ in 0..200 {
        host.ask(A, None);
        answered += host.tick().iter().filter(|(_, answer)| matches!(answer, Answer::Sent { .. })).count();
    }
    assert_eq!(answered, 10, "one in twenty ticks");
}

#[test]
fn what_is_earned_while_a_request_waits_answers_it() {
    let options = StreamOptions { answer_bytes_start: 0, baseline_ticks_min: 1000, ..StreamOptions::new(7) };
    let mut host = Host::new(options, 100);
    host.server.connect(A);
    host.tick();
    host.ask(A, Some(0));
    assert!(matches!(host.tick()[..], [(A, Answer::Later { .. })]), "it has acknowledged nothing");
    for frame in 0..5 {
        host.move_all(frame as f32);
        host.tick();
    }
    host.sent();
    // One message is missing: it acknowledges what came before.
    let have = host.server.current_tick() - 1;
    host.ask(A, Some(have));
    let answers = host.tick();
    assert!(matches!(answers[..], [(A, Answer::Sent { .. })]), "{answers:?}");
    host.ask(A, Some(host.server.current_tick()));
    assert_eq!(host.tick().len(), 1);
    // A tick that never was is no acknowledgement: what is left is spent, and no more is earned.
    let mut answers = Vec::new();
    for _ in 0..100 {
        host.ask(A, Some(u64::MAX));
        answers = host.tick();
    }
    assert!(matches!(answers[..], [(A, Answer::Later { .. })]), "{answers:?}");
}

#[test]
fn a_hundred_clients_that_ask_cost_one_capture() {
    let options = StreamOptions { baseline_ticks_min: 1, ..StreamOptions::new(7) };
    let mut host = Host::new(options, 10);
    (0..100).for_each(|number| host.server.connect(ClientId(number)));
    host.tick();
    assert!(host.trouble.baselines <= 1, "{}", host.trouble.baselines);
    for _ in 0..10 {
        let before = host.trouble.baselines;
        (0..100).for_each(|number| host.ask(ClientId(number), None));
        host.trouble.cannot_tell = host.frame.is_multiple_of(2);
        assert_eq!(host.tick().len(), 100);
        assert!(host.trouble.baselines <= before + 1);
        let sent = host.sent();
        assert!(sent.values().all(|messages| messages.last() == sent[&ClientId(0)].last()), "the same bytes");
    }
}

#[test]
fn no_more_than_eight_requests_of_a_client_are_looked_at_in_a_tick() {
    let mut host = Host::new(StreamOptions::new(7), 1);
    host.server.connect(A);
    host.server.connect(B);
    host.tick();
    for _ in 0..2 {
        (0..8).for_each(|_| host.ask(A, None));
        for _ in 0..1000 {
            assert!(host.server.receive(A, &request(None)).unwrap_err().is_limit());
        }
        host.ask(B, None);
        assert_eq!(host.tick().len(), 2, "one answer each");
    }
    assert!(host.server.receive(ClientId(9), &request(None)).unwrap_err().is_misuse());
    // Bytes that are no request count too.
    let nonsense = Bytes::from(vec![0; 64]);
    (0..8).for_each(|_| assert!(host.server.receive(A, &nonsense).unwrap_err().is_corrupt()));
    assert!(host.server.receive(A, &nonsense).unwrap_err().is_limit());
}

#[test]
fn a_client_that_takes_no_messages_starts_again_within_its_budget() {
    let options = StreamOptions { answer_bytes_start: 0, baseline_ticks_min: 400, ..StreamOptions::new(7) };
    let mut host = Host::new(options, 50);
    host.server.connect(A);
    // 1024 messages may wait for it.
    let answers: Vec<_> = (0..1500).flat_map(|_| host.tick()).collect();
    assert!(matches!(answers[..], [(A, Answer::Sent { .. })]), "due at once: {answers:?}");
    let sent = host.sent().remove(&A).unwrap();
    assert!(sent.len() < 500, "{} messages", sent.len());
    let mut client = Client::new();
    sent.iter().for_each(|message| _ = client.apply(message));
    assert_eq!(client.receiver.tick(), Some(host.server.current_tick()));
}

/// What one client needs cannot be made: the others get their messages, whatever their number.
#[test]
fn a_baseline_that_fails_takes_no_message_from_others() {
    let mut host = Host::new(StreamOptions::new(7), 3);
    host.server.connect(B);
    host.tick();
    let mut client = Client::new();
    host.sent().remove(&B).unwrap().iter().for_each(|message| _ = client.apply(message));
    host.server.connect(A);
    for frame in 0..5 {
        host.move_all(frame as f32);
        host.trouble.baseline_fails = true;
        assert!(host.try_tick().is_err());
        let sent = host.sent();
        assert!(!sent.contains_key(&A));
        sent.get(&B).into_iter().flatten().for_each(|message| _ = client.apply(message));
        assert_eq!(client.receiver.tick(), Some(host.server.current_tick()), "frame {frame}");
    }
    host.tick();
    assert!(host.sent().contains_key(&A), "it is not forgotten");
}

#[test]
fn a_source_that_fails_leaves_requests_for_the_next_tick() {
    let mut host = Host::new(StreamOptions::new(7), 1);
    host.server.connect(A);
    host.tick();
    host.sent();
    host.ask(A, None);
    host.trouble.changes_fail = true;
    assert!(host.try_tick().is_err());
    assert!(matches!(host.tick()[..], [(A, Answer::Sent { .. })]));
}

//! `bonfire replay` tells what a recording holds, and what is wrong with it, message by message.

mod common;

use bonfire::{Delta, EntityId, Granularity, Keyed, Persist, Result};
use bonfire_sync::{
    CatchUpRequest, MessageCompression, Recorder, ReplicationStream, SourceWorld, StreamOptions,
    StructuralLog,
};
use bonfire_testkit::{Followed, ModelWorld};
use bytes::Bytes;
use common::{Run, Saved, run_on, save};
use serde_json::json;

const STREAM: u64 = 0xabcd_0000_0000_0007;

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.position")]
struct Position {
    x: f32,
    y: f32,
}

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.name")]
struct Name(String);

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.frozen")]
struct Frozen;

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.score")]
struct Score(u64);

struct Sides(Followed);

impl SourceWorld for Sides {
    fn baseline(&mut self) -> Result<Delta> {
        self.0.whole()
    }
    fn changes(&mut self) -> Result<Delta> {
        self.0.changes()
    }
}

/// A world that is followed, and its stream.
struct Server {
    sides: Sides,
    stream: ReplicationStream,
}

impl Server {
    fn new(options: StreamOptions) -> Self {
        let mut world = ModelWorld::new();
        world.register::<Position>().unwrap();
        world.register::<Name>().unwrap();
        world.register::<Frozen>().unwrap();
        world.register::<Score>().unwrap();
        let sides = Sides(Followed::new(world).unwrap());
        Self { sides, stream: ReplicationStream::new(options) }
    }
    fn spawn(&mut self, x: f32) -> EntityId {
        let id = self.sides.0.world.spawn();
        self.insert(id, Position { x, y: 0.5 });
        id
    }
    fn insert<T: Keyed + Clone + PartialEq>(&mut self, id: EntityId, value: T) {
        self.sides.0.world.insert(id, value);
    }
    fn tick(&mut self) -> Bytes {
        let mut messages = self.stream.tick(&mut self.sides).unwrap();
        assert_eq!(messages.len(), 1, "nobody has joined in between");
        messages.remove(0)
    }
    fn baseline(&mut self) -> Bytes {
        self.stream.baseline(&mut self.sides).unwrap()
    }
}

/// A baseline at tick 1, then ticks 2 to 4.
fn session(options: StreamOptions) -> Vec<Bytes> {
    let mut server = Server::new(options);
    let (wolf, sheep) = (server.spawn(1.0), server.spawn(2.0));
    server.insert(wolf, Name("Wolf".to_owned()));
    server.sides.0.world.insert_resource(Score(7));
    server.tick();
    let mut messages = vec![server.baseline()];
    server.insert(wolf, Position { x: 9.0, y: 0.5 });
    server.insert(wolf, Frozen);
    server.sides.0.world.despawn(sheep);
    server.spawn(3.0);
    messages.push(server.tick());
    server.sides.0.world.insert_resource(Score(8));
    server.sides.0.world.remove::<Frozen>(wolf);
    messages.push(server.tick());
    messages.push(server.tick());
    messages
}

fn plain() -> StreamOptions {
    StreamOptions::new(STREAM)
}

fn recorded<'m>(messages: impl IntoIterator<Item = &'m Bytes>) -> Vec<u8> {
    let mut recorder = Recorder::new(Vec::new()).unwrap();
    messages.into_iter().for_each(|message| recorder.write(message).unwrap());
    recorder.into_inner()
}

/// Where messages lie in the file.
fn offset(messages: &[Bytes], number: usize) -> usize {
    8 + messages[..number].iter().map(|message| 4 + message.len()).sum::<usize>()
}

fn replay(file: &[u8], arguments: &[&str]) -> (Saved, Run) {
    let saved = save(file);
    let run = run_on("replay", &saved.path, arguments);
    (saved, run)
}

/// The words of the lines that begin so, after spaces.
fn words(run: &Run) -> Vec<Vec<&str>> {
    run.stdout.lines().map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn every_message_is_told_with_what_it_changes() {
    let messages = session(plain());
    let (_saved, run) = replay(&recorded(&messages), &[]);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""));
    let lines = words(&run);
    assert_eq!(lines[0], ["offset", "seq", "message", "ticks", "sent", "payload", "tells"]);
    assert_eq!(lines[2], ["stream", "abcd000000000007"]);
    let sizes: Vec<(String, String, String)> = (0..4)
        .map(|number| {
            let sent = messages[number].len();
            (offset(&messages, number).to_string(), sent.to_string(), (sent - 64).to_string())
        })
        .collect();
    let line = |number: usize, rest: &str| {
        let (offset, sent, payload) = &sizes[number];
        let (head, tells) = rest.split_once('|').unwrap();
        format!("{offset} {head} {sent} {payload} {tells}")
    };
    assert_eq!(
        lines[3].join(" "),
        line(0, "1 baseline 1|2 entities, game.name 1, game.position 2, resource game.score")
    );
    assert_eq!(
        lines[4].join(" "),
        line(1, "1 delta 1 -> 2|+1 -1 ~1 entities, game.frozen +1, game.position +1 ~1")
    );
    assert_eq!(
        lines[5].join(" "),
        line(2, "2 delta 2 -> 3|~1 entities, game.frozen -1, resource game.score")
    );
    assert_eq!(lines[6].join(" "), line(3, "3 delta 3 -> 4|nothing"));
    let sent: usize = messages.iter().map(Bytes::len).sum();
    let summary = run.part("4 messages");
    assert_eq!(
        summary,
        [
            &*format!("4 messages: 1 baseline, 3 deltas; {sent} bytes sent, {} of payload", sent - 4 * 64),
            "stream abcd000000000007: ticks 1 to 4, no gaps",
        ]
    );
}

#[test]
fn json_has_the_same_for_scripts() {
    let messages = session(plain());
    let (_saved, run) = replay(&recorded(&messages), &["--json"]);
    assert_eq!(run.code, Some(0));
    let json = run.json();
    let message = &json["messages"][1];
    assert_eq!(message["offset"], offset(&messages, 1));
    assert_eq!((&message["kind"], &message["stream"]), (&json!("delta"), &json!("abcd000000000007")));
    assert_eq!(
        (&message["since"], &message["tick"], &message["sequence"]),
        (&json!(1), &json!(2), &json!(1))
    );
    assert_eq!(message["sent_bytes"], messages[1].len());
    assert_eq!((&message["compression"], &message["gap"]), (&json!("none"), &json!(null)));
    assert_eq!(
        message["changes"],
        json!({
            "whole": false, "spawned": 1, "despawned": 1, "changed": 1,
            "components": {
                "game.frozen": { "spawned": 0, "added": 1, "removed": 0, "changed": 0 },
                "game.position": { "spawned": 1, "added": 0, "removed": 0, "changed": 1 },
            },
            "resources": {}, "lists": 0,
        })
    );
    assert_eq!(json["messages"][2]["changes"]["resources"], json!({ "game.score": true }));
    assert_eq!((&json["torn"], &json["unread"]), (&json!(null), &json!(null)));
    let summary = &json["summary"];
    assert_eq!(
        (&summary["messages"], &summary["baselines"], &summary["deltas"]),
        (&json!(4), &json!(1), &json!(3))
    );
    assert_eq!(
        summary["streams"],
        json!([{ "stream": "abcd000000000007", "first_tick": 1, "last_tick": 4, "gaps": 0 }])
    );
}

#[test]
fn values_are_shown_on_demand_and_no_more_than_asked_for() {
    let messages = session(plain());
    let file = recorded(&messages);
    let (saved, run) = replay(&file, &["--values"]);
    assert_eq!(run.code, Some(0));
    let baseline = run.part("baseline 1 (byte 8, message 1, ");
    let header = |line: &&str| {
        line.split_whitespace().eq(["entity", "game.name", "game.position.x", "game.position.y"])
    };
    let at = baseline.iter().position(header).unwrap();
    assert_eq!(baseline[at - 1], "come: 1 entity");
    assert!(baseline[at + 2].split_whitespace().eq(["0v0", "(\"Wolf\")", "1", "0.5"]), "{baseline:?}");
    let delta = run.part("delta 1 -> 2").join("\n");
    assert!(delta.contains("gone: 1v0"), "{delta}");
    let delta: Vec<Vec<&str>> = delta.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(delta.contains(&vec!["0v0", "yes", "9", "0.5"]), "{delta:?}");
    let removed = run.part("delta 2 -> 3");
    assert!(removed.iter().any(|line| line.split_whitespace().eq(["game.score", "(8)"])), "{removed:?}");
    assert!(removed.iter().any(|line| line.split_whitespace().eq(["0v0", "-"])), "{removed:?}");

    let json = run_on("replay", &saved.path, &["--values", "--json"]).json();
    let values = &json["messages"][1]["values"][0];
    assert_eq!(values["despawned"], json!(["1v0"]));
    let wolf = values["groups"].as_array().unwrap().iter().find(|group| group["spawned"] == false).unwrap();
    assert_eq!(
        wolf["entities"],
        json!([{ "id": "0v0", "components": { "game.frozen": null, "game.position": { "x": 9.0, "y": 0.5 } } }])
    );
    assert_eq!(json["messages"][2]["values"][0]["groups"][0]["removed"], json!(["game.frozen"]));
    assert_eq!(json["messages"][2]["values"][0]["resources"], json!({ "game.score": [8] }));

    let mut server = Server::new(plain());
    (0..30).for_each(|x| _ = server.spawn(x as f32));
    server.tick();
    let file = recorded(&[server.baseline()]);
    let (saved, run) = replay(&file, &["--values"]);
    assert!(run.stdout.contains("... 10 more"), "{run:?}");
    let run = run_on("replay", &saved.path, &["--values", "--limit", "3", "--json"]);
    let group = &run.json()["messages"][0]["values"][0]["groups"][0];
    assert_eq!((&group["more"], group["entities"].as_array().unwrap().len()), (&json!(27), 3));
    let run = run_on("replay", &saved.path, &["--values", "--limit", "0"]);
    assert!(run.stdout.contains("\n29v0 ") && !run.stdout.contains("more"), "{run:?}");
}

#[test]
fn single_fields_have_their_names() {
    let mut server = Server::new(StreamOptions { granularity: Granularity::Field, ..plain() });
    let wolf = server.spawn(1.0);
    server.tick();
    let baseline = server.baseline();
    server.insert(wolf, Position { x: 2.0, y: 0.5 });
    // A baseline makes the stream forget what it has sent: the first change is told whole.
    let whole = server.tick();
    server.insert(wolf, Position { x: 2.0, y: 6.5 });
    let (saved, run) = replay(&recorded(&[baseline, whole, server.tick()]), &["--values"]);
    assert_eq!(run.code, Some(0));
    let delta = run.part("delta 2 -> 3");
    assert_eq!(delta[2].split_whitespace().collect::<Vec<_>>(), ["entity", "game.position.y"]);
    assert_eq!(delta[4].split_whitespace().collect::<Vec<_>>(), ["0v0", "6.5"]);
    let json = run_on("replay", &saved.path, &["--values", "--json"]).json();
    let group = &json["messages"][2]["values"][0]["groups"][0];
    assert_eq!(group["fields"], json!({ "game.position": ["y"] }));
    assert_eq!(group["entities"][0]["components"], json!({ "game.position": { "y": 6.5 } }));
}

#[test]
fn compressed_messages_are_marked_and_read() {
    let mut server = Server::new(StreamOptions { compression: MessageCompression::Lz4, ..plain() });
    (0..200).for_each(|_| _ = server.spawn(1.0));
    server.tick();
    let baseline = server.baseline();
    let (saved, run) = replay(&recorded([&baseline]), &[]);
    let line = words(&run)[3].join(" ");
    assert!(line.starts_with(&format!("8 1 baseline 1 {} ", baseline.len())), "{line}");
    assert!(line.contains(" lz4 200 entities, game.position 200"), "{line}");
    let message = &run_on("replay", &saved.path, &["--json"]).json()["messages"][0];
    assert_eq!(message["compression"], "lz4");
    assert!(message["payload_bytes"].as_u64().unwrap() > baseline.len() as u64, "{message}");
}

#[test]
fn a_gap_is_told_once_and_is_no_fault_of_the_file() {
    let messages = session(plain());
    let file = recorded([&messages[0], &messages[1], &messages[3], &messages[2]]);
    let (saved, run) = replay(&file, &[]);
    assert_eq!(run.code, Some(0));
    let lines = words(&run);
    assert_eq!(lines[5][..4], ["gap", "2", "->", "3"]);
    assert_eq!(lines[6][2..6], ["delta", "3", "->", "4"]);
    assert!(lines[7].join(" ").contains("told before: ~1 entities"), "{:?}", lines[7]);
    assert!(run.stdout.contains("ticks 1 to 4, 1 gap\n"), "{run:?}");
    let json = run_on("replay", &saved.path, &["--json"]).json();
    assert_eq!(json["messages"][2]["gap"], json!({ "have": 2, "since": 3 }));
    assert_eq!((&json["messages"][3]["gap"], &json["messages"][3]["again"]), (&json!(null), &json!(true)));
    assert_eq!(json["summary"]["gaps"], 1);
}

#[test]
fn a_baseline_for_somebody_who_joins_is_no_gap() {
    let mut server = Server::new(plain());
    server.tick();
    let mut messages = vec![server.baseline()];
    server.spawn(1.0);
    messages.push(server.tick());
    messages.push(server.baseline());
    messages.push(server.tick());
    let (_saved, run) = replay(&recorded(&messages), &[]);
    assert!(run.stdout.contains("ticks 1 to 3, no gaps") && !run.stdout.contains("told before"), "{run:?}");
}

#[test]
fn damage_is_named_and_the_next_message_is_shown() {
    let messages = session(plain());
    let mut file = recorded(&messages);
    file[offset(&messages, 1) + 4 + 70] ^= 1;
    let (saved, run) = replay(&file, &[]);
    assert_eq!(run.code, Some(1));
    let lines = words(&run);
    assert_eq!(
        lines[4].join(" "),
        format!(
            "{} damaged {} a message does not have its checksum",
            offset(&messages, 1),
            messages[1].len()
        )
    );
    // The tick of the damaged one is not known, so there is a gap.
    assert_eq!(lines[5][..4], ["gap", "1", "->", "2"]);
    assert_eq!(lines[6][2..6], ["delta", "2", "->", "3"]);
    assert!(run.stdout.contains("4 messages: 1 baseline, 2 deltas, 1 damaged;"), "{run:?}");
    let run = run_on("replay", &saved.path, &["--json"]);
    assert_eq!(run.code, Some(1));
    let json = run.json();
    assert_eq!(json["messages"][1]["error"], "a message does not have its checksum");
    assert_eq!((&json["summary"]["damaged"], &json["summary"]["gaps"]), (&json!(1), &json!(1)));
}

/// The same message with another payload and a right checksum, as a peer with a fault would send it.
fn forged(message: &Bytes, payload: &[u8]) -> Bytes {
    let mut bytes = message[..64].to_vec();
    bytes.extend_from_slice(payload);
    let len = (payload.len() as u32).to_le_bytes();
    bytes[52..56].copy_from_slice(&len);
    bytes[56..60].copy_from_slice(&len);
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..60]), payload);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    bytes.into()
}

#[test]
fn content_that_makes_no_sense_is_damage_though_the_checksum_is_right() {
    let messages = session(plain());
    let bad = forged(&messages[1], &[0xff; 9]);
    let (_saved, run) = replay(&recorded([&messages[0], &bad, &messages[2]]), &[]);
    assert_eq!(run.code, Some(1));
    let lines = words(&run);
    assert_eq!(lines[4][1..7], ["1", "damaged", "1", "->", "2", "73"]);
    assert_eq!(lines[5][..4], ["gap", "1", "->", "2"], "a mirror would have refused it");
}

#[test]
fn a_torn_end_is_told() {
    let messages = session(plain());
    let file = recorded(&messages);
    let last = offset(&messages, 3);
    for (cut, left) in [(last + 2, 2), (last + 4, 4), (file.len() - 1, file.len() - 1 - last)] {
        let (saved, run) = replay(&file[..cut], &[]);
        assert_eq!(run.code, Some(1), "{cut}");
        let torn = format!("torn: the message at byte {last} is cut off, {left} bytes of it are left\n");
        assert!(run.stdout.contains("3 messages:") && run.stdout.ends_with(&torn), "{run:?}");
        let json = run_on("replay", &saved.path, &["--json"]).json();
        assert_eq!(json["torn"], json!({ "offset": last, "bytes": left }));
    }
}

#[test]
fn a_length_that_no_message_has_ends_the_reading() {
    let messages = session(plain());
    let mut file = recorded(&messages);
    let at = offset(&messages, 2);
    file[at..at + 4].copy_from_slice(&5_u32.to_le_bytes());
    let left = file.len() - at - 9;
    let (saved, run) = replay(&file, &[]);
    assert_eq!(run.code, Some(1));
    assert!(run.stdout.contains("5 bytes are no message"), "{run:?}");
    let unread =
        format!("not read: {left} bytes from byte {} on, because a length before them is wrong\n", at + 9);
    assert!(run.stdout.ends_with(&unread), "{run:?}");
    let json = run_on("replay", &saved.path, &["--json"]).json();
    assert_eq!(json["unread"], json!({ "offset": at + 9, "bytes": left }));
}

#[test]
fn a_delta_without_its_baseline_is_listed_and_not_read() {
    let messages = session(plain());
    let (saved, run) = replay(&recorded(&messages[1..]), &["--values"]);
    assert_eq!(run.code, Some(0), "the file is whole");
    assert!(run.stdout.contains("not known: the baseline that brings its components is not in this file"));
    assert!(run.stdout.contains("\n3 deltas cannot be read: "), "{run:?}");
    let json = run_on("replay", &saved.path, &["--json"]).json();
    assert_eq!((&json["messages"][0]["changes"], &json["summary"]["unknown"]), (&json!(null), &json!(3)));

    // The baseline of another stream is not the one, whatever its components are.
    let other = session(StreamOptions::new(5));
    let run = replay(&recorded([&other[0], &messages[1], &other[1]]), &[]).1;
    assert_eq!(run.stdout.matches("not known: ").count(), 1);
    let streams: Vec<Vec<&str>> =
        words(&run).into_iter().filter(|line| line.first() == Some(&"stream") && line.len() == 2).collect();
    assert_eq!(streams.len(), 3, "{run:?}");
}

#[test]
fn requests_and_logs_are_told_too() {
    let mut server = Server::new(plain());
    server.spawn(1.0);
    let mut log = StructuralLog::new(10);
    log.record(&server.sides.0.changes().unwrap()).unwrap();
    server.spawn(2.0);
    log.record(&server.sides.0.changes().unwrap()).unwrap();
    let log = log.encode(STREAM, &MessageCompression::None).unwrap();
    let schema = server.sides.0.schema().table().fingerprint();
    let some = CatchUpRequest { stream: STREAM, have: Some(31), schema }.encode().unwrap();
    let all = CatchUpRequest { stream: STREAM, have: None, schema }.encode().unwrap();
    let (saved, run) = replay(&recorded(&[log, some, all]), &[]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let lines: Vec<String> = words(&run).iter().map(|line| line.join(" ")).collect();
    assert!(lines[3].starts_with("8 log 0 -> 2 "), "{}", lines[3]);
    assert!(lines[3].ends_with("in 2 steps: +2 entities, game.position +2"), "{}", lines[3]);
    assert!(lines[4].ends_with("request 31 64 0 a mirror has tick 31 and asks for the rest"), "{}", lines[4]);
    assert!(lines[5].ends_with("a mirror asks for everything"), "{}", lines[5]);
    assert!(run.stdout.contains("3 messages: 1 log, 2 requests;"), "{run:?}");
    let run = run_on("replay", &saved.path, &["--values"]);
    assert!(run.stdout.contains("\nstep 1 -> 2\ncome: 1 entity\n"), "{run:?}");
}

#[test]
fn other_files_and_newer_ones_are_refused() {
    let messages = session(plain());
    let file = recorded(&messages);
    let (_saved, run) = replay(b"BNFX\x01\0\0\0", &[]);
    assert_eq!((run.code, run.stderr.contains("not a recorded stream")), (Some(1), true), "{run:?}");
    let mut newer = file.clone();
    newer[4] = 2;
    assert_eq!(replay(&newer, &[]).1.code, Some(3));
    // Only one message is newer: damage elsewhere would win.
    let mut newer = file.clone();
    newer[offset(&messages, 1) + 4 + 4] = 2;
    let (_saved, run) = replay(&newer, &[]);
    assert_eq!((run.code, run.stdout.contains("version 2")), (Some(3), true), "{run:?}");
    let (_saved, run) = replay(&recorded(&[]), &[]);
    assert_eq!((run.code, &*run.stdout), (Some(0), "0 messages; 0 bytes sent, 0 of payload\n"));
    assert_eq!(replay(&file, &["--limit", "3"]).1.code, Some(2), "a limit of values that are not shown");
}

#[test]
fn nothing_of_a_recording_reaches_the_terminal_as_it_is() {
    let mut server = Server::new(plain());
    let wolf = server.spawn(1.0);
    server.insert(wolf, Name("\u{1b}[31mred\u{202e}".to_owned()));
    server.tick();
    let baseline = server.baseline();
    // The registry refuses such keys; another writer may not. Keys are part of the fingerprint in the head.
    let mut payload = baseline[64..].to_vec();
    let at = payload.windows(9).position(|bytes| bytes == b"game.name").unwrap();
    payload[at..at + 9].copy_from_slice(b"game.n\x1b[1");
    let (limits, payload) = (bonfire::Limits::default(), Bytes::from(payload));
    let context = bonfire::LoadContext::new(&limits);
    let table = bonfire::Reader::new(&payload, &context).blob().unwrap().to_vec();
    let mut head = baseline.to_vec();
    head[32..48]
        .copy_from_slice(&bonfire::engine::ComponentTable::decode(&table, &limits).unwrap().fingerprint().0);
    let hostile = forged(&head.into(), &payload);
    for arguments in [&["--values"][..], &[], &["--json", "--values"]] {
        for file in [recorded([&baseline]), recorded([&hostile])] {
            let (_saved, run) = replay(&file, arguments);
            let text = format!("{}{}", run.stdout, run.stderr);
            let raw = |char: char| char != '\n' && char.is_control() || char == '\u{202e}';
            assert!(!text.contains(raw), "{run:?}");
        }
    }
    let (_saved, run) = replay(&recorded(&[hostile]), &["--values"]);
    assert!(run.stdout.contains("game.n\\u{1b}[1 1,"), "{run:?}");
    assert!(run.stdout.contains("\"\\u{1b}[31mred\\u{202e}\""), "{run:?}");
}

//! The structural log: what came and went, from which a late joiner can be built.

mod common;

use bonfire::engine::EntityMap;
use bonfire::{Delta, Limits};
use bonfire_sync::{Message, MessageCompression, MessageKind, MessageLimits, MirrorWorld, StructuralLog};
use bonfire_testkit::disk::Random;
use bonfire_testkit::{Followed, ModelWorld};
use bytes::Bytes;
use common::{Client, Follows, FragileMirror, Frozen, Name, Position, Score, edit, world};

fn mirror() -> FragileMirror {
    Client::new().mirror
}

fn decode(bytes: &Bytes) -> bonfire::Result<StructuralLog> {
    StructuralLog::decode(bytes, 100, &MessageLimits::default(), &Limits::default())
}

/// A log with another payload and everything in the head made right, as a hostile peer would do.
fn sealed(head: &[u8], payload: &[u8]) -> Bytes {
    let mut bytes = [head, payload].concat();
    for at in [52, 56] {
        bytes[at..at + 4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    }
    let crc = bonfire::engine::checksum_append(bonfire::engine::checksum(&bytes[..60]), payload);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    bytes.into()
}

/// Which components each entity has, and whom it follows, in the source's ids.
fn structure(world: &ModelWorld, map: Option<&EntityMap>) -> Vec<String> {
    let name = |id| match map {
        Some(map) => map.iter().find(|(_, local)| *local == id).map(|(remote, _)| remote),
        None => Some(id),
    };
    let describe = |id| {
        let parts = (
            world.get::<Position>(id).is_some(),
            world.get::<Name>(id).is_some(),
            world.get::<Follows>(id).is_some(),
            world.get::<Frozen>(id).is_some(),
        );
        format!("{:?} {parts:?}", name(id))
    };
    let mut lines: Vec<String> = world.entities().into_iter().map(describe).collect();
    lines.sort();
    lines
}

#[test]
fn a_late_joiner_is_built_from_the_log_alone() {
    let mut followed = Followed::new(world()).unwrap();
    let mut log = StructuralLog::new(100);
    let wolf = followed.world.spawn();
    followed.world.insert(wolf, Position { x: 1.0, y: 2.0 });
    log.record(&followed.changes().unwrap()).unwrap();
    let sheep = followed.world.spawn();
    followed.world.insert(sheep, Name("dolly".to_owned()));
    followed.world.insert(wolf, Follows(sheep));
    log.record(&followed.changes().unwrap()).unwrap();
    let short = followed.world.spawn();
    log.record(&followed.changes().unwrap()).unwrap();
    followed.world.despawn(short);
    followed.world.insert(sheep, Frozen);
    followed.world.remove::<Position>(wolf);
    log.record(&followed.changes().unwrap()).unwrap();
    assert!(log.is_complete());
    assert_eq!(log.ticks(), Some((0, 4)));

    let log = decode(&log.encode(7, &MessageCompression::Lz4).unwrap()).unwrap();
    let (mut mirror, mut map) = (mirror(), EntityMap::default());
    log.apply(&mut mirror, &mut map).unwrap();
    assert_eq!(structure(&mirror.world, Some(&map)), structure(&followed.world, None));
    let local = |id| map.get(id).unwrap();
    assert_eq!(mirror.world.get(local(sheep)), Some(&Name("dolly".to_owned())), "values that came with it");
    assert_eq!(mirror.world.get(local(wolf)), Some(&Follows(local(sheep))), "references are mapped");
    assert_eq!(map.len(), 2, "what is gone is forgotten");
}

#[test]
fn values_that_change_later_and_resources_are_not_in_it() {
    let mut followed = Followed::new(world()).unwrap();
    let mut log = StructuralLog::new(100);
    let id = followed.world.spawn();
    followed.world.insert(id, Position { x: 1.0, y: 0.0 });
    log.record(&followed.changes().unwrap()).unwrap();
    followed.world.insert(id, Position { x: 2.0, y: 0.0 });
    followed.world.insert_resource(Score(5));
    log.record(&followed.changes().unwrap()).unwrap();
    assert!(log.steps().nth(1).is_some_and(Delta::is_empty));
    let (mut mirror, mut map) = (mirror(), EntityMap::default());
    log.apply(&mut mirror, &mut map).unwrap();
    let local = map.get(id).unwrap();
    assert_eq!(mirror.world.get(local), Some(&Position { x: 1.0, y: 0.0 }), "as it was when it came");
    assert_eq!(mirror.world.resource::<Score>(), None);
}

#[test]
fn it_stays_small_whatever_happens() {
    let mut followed = Followed::new(world()).unwrap();
    let (mut log, mut long) = (StructuralLog::new(5), StructuralLog::new(usize::MAX));
    let mut random = Random::new(11);
    let mut sizes = Vec::new();
    for _ in 0..300 {
        edit(&mut followed.world, &mut random);
        // As many go as come.
        while followed.world.entities().len() > 10 {
            let victim = *random.pick(&followed.world.entities());
            followed.world.despawn(victim);
        }
        let delta = followed.changes().unwrap();
        log.record(&delta).unwrap();
        long.record(&delta).unwrap();
        sizes.push(log.encode(1, &MessageCompression::None).unwrap().len());
    }
    assert_eq!((log.steps().len(), long.steps().len()), (5, 300));
    let (early, late) = (sizes[20..100].iter().max().unwrap(), sizes[200..].iter().max().unwrap());
    assert!(late < &(early * 2), "{early} bytes early, {late} late");
    assert_eq!(log.ticks(), long.ticks());
    for log in [&log, &long] {
        let (mut mirror, mut map) = (mirror(), EntityMap::default());
        log.apply(&mut mirror, &mut map).unwrap();
        assert_eq!(structure(&mirror.world, Some(&map)), structure(&followed.world, None));
    }
}

#[test]
fn it_starts_again_with_a_whole_world_and_refuses_gaps() {
    let mut followed = Followed::new(world()).unwrap();
    let mut log = StructuralLog::new(100);
    assert!(log.ticks().is_none() && !log.is_complete());
    assert!(log.encode(1, &MessageCompression::None).unwrap_err().is_misuse());
    followed.world.spawn();
    let first = followed.changes().unwrap();
    followed.world.spawn();
    let second = followed.changes().unwrap();
    followed.world.spawn();
    let third = followed.changes().unwrap();
    log.record(&second).unwrap();
    assert!(!log.is_complete(), "it begins in the middle");
    assert!(log.record(&second).unwrap_err().is_misuse());
    assert!(log.record(&first).unwrap_err().is_misuse());
    log.record(&third).unwrap();
    log.record(&followed.whole().unwrap()).unwrap();
    assert!(log.is_complete() && log.steps().len() == 1);
    let log = decode(&log.encode(1, &MessageCompression::None).unwrap()).unwrap();
    let (mut mirror, mut map) = (mirror(), EntityMap::default());
    log.apply(&mut mirror, &mut map).unwrap();
    assert_eq!(mirror.world.entities().len(), 3);
}

#[test]
fn every_flipped_bit_is_refused_and_so_is_what_a_hostile_peer_seals() {
    let mut followed = Followed::new(world()).unwrap();
    let mut log = StructuralLog::new(100);
    for x in 0..2 {
        let id = followed.world.spawn();
        followed.world.insert(id, Position { x: x as f32, y: 0.0 });
        log.record(&followed.changes().unwrap()).unwrap();
    }
    let bytes = log.encode(7, &MessageCompression::None).unwrap();
    for at in 0..bytes.len() {
        let mut bad = bytes.to_vec();
        bad[at] ^= 1;
        assert!(decode(&bad.clone().into()).is_err(), "byte {at}");
        assert!(decode(&bytes.slice(..at)).is_err(), "{at} bytes");
        // With its checksum made right: refused, or a log that can be applied.
        let crc = bonfire::engine::checksum_append(bonfire::engine::checksum(&bad[..60]), &bad[64..]);
        bad[60..64].copy_from_slice(&crc.to_le_bytes());
        if let Ok(log) = decode(&bad.into()) {
            let _ = log.apply(&mut mirror(), &mut EntityMap::default());
        }
    }
    // Ticks and components that are not those of the head.
    for (at, what) in
        [(16, "other ticks"), (24, "other ticks"), (32, "other components"), (48, "other ticks")]
    {
        let mut head = bytes[..64].to_vec();
        head[at] ^= 1;
        let error = decode(&sealed(&head, &bytes[64..])).unwrap_err();
        assert!(error.is_corrupt() && error.to_string().contains(what), "{error}");
    }
    // Steps that do not follow each other, one that ends where it starts, and more than there can be.
    let content = log.steps().next().unwrap().content().unwrap().to_vec();
    let with_steps = |count: u64, steps: &[(u8, u64, u64)]| {
        let mut payload = bonfire::Writer::new();
        payload.blob(&followed.schema().table().encode());
        payload.varint(count);
        for (whole, since, now) in steps {
            payload.u8(*whole);
            payload.varint(*since);
            payload.varint(*now);
            payload.blob(&content);
        }
        decode(&sealed(&bytes[..64], payload.as_bytes()))
    };
    assert!(with_steps(2, &[(0, 0, 1), (0, 1, 2)]).is_ok());
    for steps in
        [[(0, 0, 1), (0, 0, 2)], [(0, 0, 1), (1, 1, 2)], [(0, 0, 0), (0, 0, 2)], [(0, 0, 1), (2, 1, 2)]]
    {
        assert!(with_steps(2, &steps).unwrap_err().is_corrupt(), "{steps:?}");
    }
    let error = with_steps(1 << 40, &[(0, 0, 1), (0, 1, 2)]).unwrap_err();
    assert!(error.to_string().contains("steps"), "{error}");
    // It is not taken for a message of a stream, nor the other way round.
    let error = Message::decode(&bytes, &MessageLimits::default()).unwrap_err();
    assert!(error.to_string().contains("structural log"));
    let schema = followed.schema().table().fingerprint();
    let payload = Bytes::new();
    let other =
        Message { kind: MessageKind::Delta, stream: 1, sequence: 0, since: 0, tick: 1, schema, payload };
    assert!(decode(&other.encode(&MessageCompression::None).unwrap()).unwrap_err().is_corrupt());
}

/// A mirror that only counts.
struct Counter(usize);

impl MirrorWorld for Counter {
    fn apply(&mut self, delta: &Delta, _: &mut EntityMap) -> bonfire::Result<()> {
        self.0 += delta.stats().spawned;
        Ok(())
    }
}

#[test]
fn steps_are_applied_one_by_one() {
    let mut followed = Followed::new(world()).unwrap();
    let mut log = StructuralLog::new(100);
    for _ in 0..4 {
        followed.world.spawn();
        log.record(&followed.changes().unwrap()).unwrap();
    }
    let mut counter = Counter(0);
    log.apply(&mut counter, &mut EntityMap::default()).unwrap();
    assert_eq!(counter.0, 4);
}

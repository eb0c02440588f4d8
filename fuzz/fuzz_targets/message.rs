//! Any bytes as messages, requests, structural logs and recordings, as they are and with an envelope that is right. What is
//! accepted comes back from its own bytes; what a receiver takes can be staged.
#![no_main]

use bonfire::{Delta, EntityId, Limits, Persist, Registry, Result};
use bonfire::engine::{DeltaSchema, EntityMap, checksum, checksum_append};
use bonfire_sync::{MessageCompression, Message, MessageLimits, MirrorWorld, Receiver, Recording, CatchUpRequest, StructuralLog};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

#[derive(Persist)]
#[persist(key = "test.follows")]
struct Follows(EntityId);

#[derive(Persist)]
#[persist(key = "test.frozen")]
struct Frozen;

#[derive(Persist)]
#[persist(key = "test.name")]
struct Name(String);

#[derive(Persist)]
#[persist(key = "test.position")]
struct Position {
    x: f32,
    y: f32,
}

#[derive(Persist)]
#[persist(key = "test.score")]
struct Score(u64);

/// Decodes everything, and puts it nowhere.
struct Stage {
    registry: Registry,
    schema: DeltaSchema,
    limits: Limits,
}

impl MirrorWorld for Stage {
    fn apply(&mut self, delta: &Delta, map: &mut EntityMap) -> Result<()> {
        if delta.is_whole() {
            *map = EntityMap::default();
        }
        delta.despawned().iter().for_each(|id| _ = map.remove(*id));
        for id in delta.spawned() {
            map.insert(id, id)?;
        }
        delta.stage(&self.registry, &self.schema, map, &self.limits, None).map(drop)
    }
}

fn registry() -> Result<Registry> {
    Registry::new().with::<Follows>()?.with::<Frozen>()?.with::<Name>()?.with::<Position>()?.with::<Score>()
}

fn check(bytes: &Bytes, limits: &Limits) {
    let message_limits = MessageLimits { payload_bytes_max: 1 << 20, ..MessageLimits::default() };
    if let Ok(message) = Message::decode(bytes, &message_limits) {
        for compression in [MessageCompression::None, MessageCompression::Lz4] {
            let again = message.encode(&compression).expect("it was just decoded");
            assert_eq!(Message::decode(&again, &message_limits).expect("it was just encoded"), message);
        }
    }
    if let Ok(request) = CatchUpRequest::decode(bytes) {
        assert_eq!(request.encode().expect("it was just decoded"), bytes, "a request has one form");
    }
    let mut map = EntityMap::default();
    let registry = registry().expect("fresh keys");
    let schema = DeltaSchema::new(&registry);
    let table = schema.table().clone();
    let mut mirror = Stage { registry, schema, limits: limits.clone() };
    if let Ok(log) = StructuralLog::decode(bytes, 10, &message_limits, limits) {
        let _ = log.apply(&mut mirror, &mut map);
        let again = log.encode(1, &MessageCompression::None).expect("it was just decoded");
        let again = StructuralLog::decode(&again, 10, &message_limits, limits).expect("it was just encoded");
        assert_eq!(again.ticks(), log.ticks());
    }
    let mut receiver = Receiver::with_limits(table, limits.clone(), message_limits);
    for _ in 0..2 {
        let _ = receiver.apply(&mut mirror, bytes);
        assert!(receiver.map().len() as u64 <= u64::from(limits.entities_max), "a mirror keeps its limit");
    }
}

fuzz_target!(|bytes: &[u8]| {
    let (memory_bytes_max, empty_elements_max, entities_max) = (1 << 22, 1 << 14, 100);
    let limits = Limits { memory_bytes_max, empty_elements_max, entities_max, ..Limits::default() };
    let file = Bytes::copy_from_slice(bytes);
    check(&file, &limits);
    if let Ok(recording) = Recording::open(file, &MessageLimits { payload_bytes_max: 1 << 20, ..MessageLimits::default() }) {
        assert!(recording.count() <= bytes.len() / 4);
    }
    if bytes.len() < 64 {
        return;
    }
    let mut sealed = bytes.to_vec();
    sealed[..6].copy_from_slice(b"BNFM\x01\0");
    sealed[6] %= 8;
    sealed[7] %= 2;
    let payload = ((bytes.len() - 64) as u32).to_le_bytes();
    sealed[56..60].copy_from_slice(&payload);
    if sealed[7] == 0 {
        sealed[52..56].copy_from_slice(&payload);
    }
    if sealed[6] == 1 {
        sealed[16..24].fill(0);
    }
    if let Ok(registry) = registry() {
        sealed[32..48].copy_from_slice(&DeltaSchema::new(&registry).table().fingerprint().0);
    }
    let crc = checksum_append(checksum(&sealed[..60]), &sealed[64..]);
    sealed[60..64].copy_from_slice(&crc.to_le_bytes());
    check(&sealed.into(), &limits);
});

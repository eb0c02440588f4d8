//! Messages: what is encoded is decoded, and nothing else is.

use std::sync::Arc;

use bonfire::engine::{checksum, checksum_append};
use bonfire::schema::Fingerprint;
use bonfire::{Error, Result};
use bonfire_sync::{
    CatchUpRequest, Message, MessageCodec, MessageCodecs, MessageCompression, MessageKind, MessageLimits,
};
use bytes::Bytes;
use proptest::prelude::*;

const HEAD_BYTES: usize = 64;

fn message(kind: MessageKind, payload: impl Into<Bytes>) -> Message {
    let since = if kind == MessageKind::Delta { 0x0102_0304 } else { 0 };
    let schema = Fingerprint(std::array::from_fn(|i| 0xA0 + i as u8));
    Message {
        kind,
        stream: 0x1122_3344_5566_7788,
        sequence: 0x0A0B_0C0D,
        since,
        tick: since + 7,
        schema,
        payload: payload.into(),
    }
}

/// Text-like bytes, so that compression pays.
fn compressible(len: usize) -> Vec<u8> {
    b"the world turns ".iter().copied().cycle().take(len).collect()
}

fn decode(bytes: &[u8]) -> bonfire::Result<Message> {
    Message::decode(&Bytes::copy_from_slice(bytes), &MessageLimits::default())
}

/// The message with its checksum made right again, as a hostile peer would do.
fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = checksum_append(checksum(&bytes[..60]), &bytes[HEAD_BYTES..]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn the_head_is_these_bytes() {
    let bytes = message(MessageKind::Delta, vec![1, 2, 3]).encode(&MessageCompression::None).unwrap();
    let mut expected = Vec::new();
    expected.extend(b"BNFM");
    expected.extend([1, 0]); // version
    expected.extend([2, 0]); // a delta, stored
    expected.extend([0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]); // stream
    expected.extend([4, 3, 2, 1, 0, 0, 0, 0]); // since
    expected.extend([11, 3, 2, 1, 0, 0, 0, 0]); // tick
    expected.extend(0xA0..=0xAF_u8); // schema
    expected.extend([0x0D, 0x0C, 0x0B, 0x0A]); // sequence
    expected.extend([3, 0, 0, 0, 3, 0, 0, 0]); // bytes, as payload and as stored
    expected.extend([0; 4]);
    expected.extend([1, 2, 3]);
    let expected = resealed(expected);
    assert_eq!(*bytes, *expected);
    assert_eq!(expected[60..64], 0x9286_3FD9_u32.to_le_bytes(), "CRC32C, as computed bit by bit elsewhere");
}

#[test]
fn a_request_is_a_head_alone() {
    let schema = Fingerprint([5; 16]);
    for have in [None, Some(0), Some(u64::MAX)] {
        let request = CatchUpRequest { stream: 9, have, schema };
        let bytes = request.encode().unwrap();
        assert_eq!(bytes.len(), HEAD_BYTES);
        assert_eq!(bytes[6], if have.is_some() { 4 } else { 3 });
        assert_eq!(CatchUpRequest::decode(&bytes).unwrap(), request);
        assert!(decode(&bytes).unwrap_err().to_string().contains("request"), "servers and mirrors differ");
        for at in 0..bytes.len() {
            let mut bad = bytes.to_vec();
            bad[at] ^= 1;
            assert!(CatchUpRequest::decode(&bad.into()).is_err(), "byte {at}");
            assert!(CatchUpRequest::decode(&bytes.slice(..at)).is_err(), "{at} bytes");
        }
        // Numbers in places that mean nothing, and a payload.
        for at in [16, 48] {
            let mut bad = bytes.to_vec();
            bad[at] = 1;
            assert!(CatchUpRequest::decode(&resealed(bad).into()).unwrap_err().is_corrupt(), "byte {at}");
        }
        let mut bad = [&bytes[..], &[1]].concat();
        bad[52] = 1;
        bad[56] = 1;
        assert!(CatchUpRequest::decode(&resealed(bad).into()).unwrap_err().is_limit());
    }
    let bytes = message(MessageKind::Baseline, vec![]).encode(&MessageCompression::None).unwrap();
    assert!(CatchUpRequest::decode(&bytes).unwrap_err().to_string().contains("requests are expected"));
}

#[test]
fn every_flipped_bit_and_every_truncation_is_refused() {
    for compression in [MessageCompression::None, MessageCompression::Lz4] {
        for payload in [compressible(200), vec![]] {
            let bytes = message(MessageKind::Delta, payload).encode(&compression).unwrap();
            assert!(decode(&bytes).is_ok());
            for bit in 0..bytes.len() * 8 {
                let mut bad = bytes.to_vec();
                bad[bit / 8] ^= 1 << (bit % 8);
                let error = decode(&bad).unwrap_err();
                assert!(error.is_corrupt() || error.is_limit() || error.is_newer_format(), "bit {bit}");
            }
            for len in 0..bytes.len() {
                assert!(decode(&bytes[..len]).unwrap_err().is_corrupt(), "{len} bytes");
            }
            let longer = [&bytes[..], &[0]].concat();
            assert!(decode(&longer).unwrap_err().is_corrupt());
        }
    }
}

#[test]
fn what_a_hostile_peer_seals_is_refused_with_a_reason() {
    let bytes = message(MessageKind::Delta, compressible(200)).encode(&MessageCompression::Lz4).unwrap();
    let stored = bytes.len() - HEAD_BYTES;
    let with = |at: usize, to: &[u8]| {
        let mut bad = bytes.to_vec();
        bad[at..at + to.len()].copy_from_slice(to);
        decode(&resealed(bad)).unwrap_err()
    };
    assert!(with(0, b"BNFX").to_string().contains("not a Bonfire message"));
    assert!(with(4, &[0, 0]).is_corrupt());
    assert!(with(4, &[2, 0]).is_newer_format());
    assert!(with(4, &[255, 255]).is_newer_format());
    for kind in [0, 6, 255] {
        assert!(with(6, &[kind]).to_string().contains("kind"), "kind {kind}");
    }
    assert!(with(7, &[2]).to_string().contains("codec 2"));
    for stored in [stored - 1, stored + 1, 0, u32::MAX as usize] {
        assert!(with(56, &(stored as u32).to_le_bytes()).to_string().contains("promises"), "{stored} bytes");
    }
    assert!(with(7, &[0]).to_string().contains("two lengths"));
    assert!(with(24, &[0; 8]).to_string().contains("ends at tick 0"), "a delta that goes back");
    assert!(with(6, &[1]).to_string().contains("not from nothing"), "a baseline since a tick");
    assert!(with(52, &201_u32.to_le_bytes()).to_string().contains("promised 201"), "a byte too many");
    assert!(with(52, &199_u32.to_le_bytes()).is_corrupt(), "a byte too few");
    assert!(with(52, &(stored as u32).to_le_bytes()).to_string().contains("not smaller"));
    assert!(with(HEAD_BYTES, &[0xFF; 8]).is_corrupt(), "not LZ4");
}

#[test]
fn bombs_are_refused_before_anything_is_allocated() {
    let limits = MessageLimits { payload_bytes_max: 1 << 20, ..MessageLimits::default() };
    let bomb = message(MessageKind::Baseline, vec![0; 1 << 21]).encode(&MessageCompression::Lz4).unwrap();
    assert!(bomb.len() < 1 << 14, "two megabytes of zeros are small");
    assert!(Message::decode(&bomb, &limits).unwrap_err().is_limit());
    assert!(Message::decode(&bomb, &MessageLimits::default()).is_ok());
    let large =
        message(MessageKind::Baseline, vec![0; (1 << 20) + 1]).encode(&MessageCompression::None).unwrap();
    assert!(Message::decode(&large, &limits).unwrap_err().is_limit());

    // A claim that no compression can keep is found without trying.
    let mut claim =
        message(MessageKind::Delta, compressible(200)).encode(&MessageCompression::Lz4).unwrap().to_vec();
    claim[52..56].copy_from_slice(&(50_u32 << 20).to_le_bytes());
    assert!(decode(&resealed(claim)).unwrap_err().to_string().contains("cannot hold"));
}

#[test]
fn a_payload_that_is_stored_is_not_copied() {
    let bytes = message(MessageKind::Baseline, compressible(100)).encode(&MessageCompression::None).unwrap();
    let decoded = Message::decode(&bytes, &MessageLimits::default()).unwrap();
    assert_eq!(decoded.payload.as_ptr(), bytes[HEAD_BYTES..].as_ptr());
}

#[test]
fn what_makes_no_sense_is_not_sent() {
    let mut wrong = message(MessageKind::Delta, vec![]);
    wrong.tick = wrong.since;
    assert!(wrong.encode(&MessageCompression::None).unwrap_err().is_misuse());
    let mut wrong = message(MessageKind::Baseline, vec![]);
    wrong.since = 1;
    assert!(wrong.encode(&MessageCompression::None).unwrap_err().is_misuse());
}

/// Writes runs of zeros as their length.
struct ZeroRuns(u8);

impl MessageCodec for ZeroRuns {
    fn number(&self) -> u8 {
        self.0
    }
    fn compress(&self, raw: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let mut rest = raw;
        while let Some(&byte) = rest.first() {
            let run = rest.iter().take(255).take_while(|byte| **byte == 0).count();
            out.push(byte);
            if run > 0 {
                out.push(run as u8);
            }
            rest = &rest[run.max(1)..];
        }
        Ok(())
    }
    fn decompress(&self, stored: &[u8], raw: &mut [u8]) -> Result<()> {
        let (mut stored, mut at) = (stored.iter(), 0);
        while let Some(&byte) = stored.next() {
            let run = if byte == 0 { stored.next().map_or(0, |run| usize::from(*run)) } else { 1 };
            raw.get_mut(at..at + run).ok_or_else(|| Error::corrupt("too many bytes"))?.fill(byte);
            at += run;
        }
        Ok(())
    }
}

#[test]
fn a_codec_of_the_game_packs_payloads() {
    let game = MessageCompression::Game(Arc::new(ZeroRuns(200)));
    let mut payload = vec![7; 10];
    payload.extend([0; 900]);
    let sent = message(MessageKind::Delta, payload);
    let bytes = sent.encode(&game).unwrap();
    assert_eq!((bytes[7], bytes.len()), (200, 64 + 10 + 8));
    let knows =
        MessageLimits { codecs: MessageCodecs::new().with(ZeroRuns(200)), ..MessageLimits::default() };
    assert_eq!(Message::decode(&bytes, &knows).unwrap(), sent);
    // What does not become smaller is stored, and needs no codec.
    let plain = message(MessageKind::Delta, vec![7; 100]).encode(&game).unwrap();
    assert_eq!(plain[7], 0);
    assert!(Message::decode(&plain, &MessageLimits::default()).is_ok());
    let error = Message::decode(&bytes, &MessageLimits::default()).unwrap_err();
    assert!(error.is_unsupported() && error.to_string().contains("codec 200"), "{error}");
    let own = MessageCompression::Game(Arc::new(ZeroRuns(127)));
    assert!(sent.encode(&own).unwrap_err().is_misuse(), "numbers below 128 are Bonfire's");
    // A peer that claims more than the limit, and one that sends more than it claims.
    let small = MessageLimits { payload_bytes_max: 900, ..knows.clone() };
    assert!(Message::decode(&bytes, &small).unwrap_err().is_limit());
    let mut short = bytes.to_vec();
    short[52..56].copy_from_slice(&100_u32.to_le_bytes());
    assert!(Message::decode(&resealed(short).into(), &knows).unwrap_err().is_corrupt());
}

fn payloads() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..300),
        (any::<u8>(), 0..3000_usize).prop_map(|(byte, len)| vec![byte; len]),
        proptest::collection::vec(0..4_u8, 0..2000),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300 * bonfire_testkit::scale()))]

    #[test]
    fn what_is_encoded_is_decoded(
        numbers in any::<(u64, u32, u64, u64)>(),
        schema in any::<[u8; 16]>(),
        payload in payloads(),
        baseline in any::<bool>(),
        packed in any::<bool>(),
    ) {
        let (stream, sequence, since, span) = numbers;
        let (kind, since) = if baseline { (MessageKind::Baseline, 0) } else { (MessageKind::Delta, since / 2) };
        let tick = since + 1 + span / 2;
        let schema = Fingerprint(schema);
        let len = payload.len();
        let message = Message { kind, stream, sequence, since, tick, schema, payload: payload.into() };
        let compression = if packed { MessageCompression::Lz4 } else { MessageCompression::None };
        let bytes = message.encode(&compression).unwrap();
        prop_assert!(bytes.len() <= HEAD_BYTES + len, "never larger than raw and head");
        prop_assert_eq!(decode(&bytes).unwrap(), message);
    }

    #[test]
    fn any_bytes_are_refused_or_come_back(bytes in proptest::collection::vec(any::<u8>(), 0..200), seal in any::<bool>()) {
        let mut bytes = bytes;
        if seal && bytes.len() >= HEAD_BYTES {
            bytes[..8].copy_from_slice(b"BNFM\x01\0\x02\0");
            bytes[6] = 1 + bytes[8] % 4;
            bytes[7] = bytes[9] % 2;
            let stored = (bytes.len() - HEAD_BYTES) as u32;
            bytes[56..60].copy_from_slice(&stored.to_le_bytes());
            if bytes[7] == 0 {
                bytes[52..56].copy_from_slice(&stored.to_le_bytes());
            }
            bytes = resealed(bytes);
        }
        if let Ok(message) = decode(&bytes) {
            let again = message.encode(&MessageCompression::None).unwrap();
            prop_assert_eq!(decode(&again).unwrap(), message);
        }
        let _ = CatchUpRequest::decode(&bytes.into());
    }
}

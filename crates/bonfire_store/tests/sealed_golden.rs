//! Sealed blobs of every version of the format stay readable: bytes that were written once and are never written anew,
//! and blobs put together by hand as the description of the format says.
#![cfg(feature = "seal")]

mod sealed_support;

use aes_gcm_siv::Aes256GcmSiv;
use bonfire_store::{MemoryStore, SealKey, Sealed, Suite};
use chacha20poly1305::XChaCha20Poly1305;
use chacha20poly1305::aead::{AeadInOut, KeyInit};
use ed25519_dalek::Signer;
use sealed_support::*;

/// Seals as the description says, with nothing of the crate.
fn by_hand(suite: u8, open: &[u8], body: &[u8], name: Option<&str>, signer: Option<[u8; 32]>) -> Vec<u8> {
    let (master, save) = (if suite == 4 { [0; 32] } else { [1; 32] }, [0x5a; 24]);
    let id = blake3::derive_key("bonfire_store 2026 sealed v1 key id", &master);
    let mut header = b"\x89BNS\r\n\x1a\n\x01\x00".to_vec();
    header.extend([suite, u8::from(name.is_some()) | if signer.is_some() { 2 } else { 0 }]);
    header.extend(if suite == 4 { [0; 8] } else { *id.first_chunk().unwrap() });
    header.extend(save);
    header.extend([0; 28]);
    header.extend(9_u64.to_le_bytes());
    header.extend(65_536_u32.to_le_bytes());
    header.extend((open.len() as u64).to_le_bytes());
    header.extend((body.len() as u64).to_le_bytes());
    header.extend(&blake3::hash(&header).as_bytes()[..4]);
    let name = &name.unwrap_or("").to_lowercase().into_bytes()[..];

    let mut keys = [0; 64];
    let mut derived = blake3::Hasher::new_derive_key("bonfire_store 2026 sealed v1 file keys");
    derived.update(&master).update(&[suite]).update(&save).finalize_xof().fill(&mut keys);
    let (front_key, body_key): ([u8; 32], [u8; 32]) =
        (*keys.first_chunk().unwrap(), *keys.last_chunk().unwrap());
    let mut blob = [&header[..], open].concat();
    let tag = *blake3::keyed_hash(&front_key, &[&blob[..], name].concat()).as_bytes();
    blob.extend(tag);
    let sign = |context: &str, hash: blake3::Hash| {
        let message = [context.as_bytes(), hash.as_bytes()].concat();
        signer.map(|key| ed25519_dalek::SigningKey::from_bytes(&key).sign(&message).to_bytes())
    };
    let front = blake3::hash(&[&blob[..], name].concat());
    blob.extend(sign("bonfire_store sealed v1 front\0", front).iter().flatten());

    let segments: Vec<&[u8]> = if body.is_empty() { vec![&[]] } else { body.chunks(65_536).collect() };
    let associated = [tag, [0; 32]].concat();
    for (index, segment) in segments.iter().enumerate() {
        let mut nonce = [0; 24];
        nonce[..8].copy_from_slice(&(index as u64).to_le_bytes());
        nonce[8] = u8::from(index + 1 == segments.len());
        let short: [u8; 12] = *nonce.first_chunk().unwrap();
        let mut text = segment.to_vec();
        let sealed = match suite {
            1 => XChaCha20Poly1305::new(&body_key.into())
                .encrypt_inout_detached(&nonce.into(), &associated, (&mut text[..]).into())
                .unwrap()
                .to_vec(),
            2 => Aes256GcmSiv::new(&body_key.into())
                .encrypt_inout_detached(&short.into(), &associated, (&mut text[..]).into())
                .unwrap()
                .to_vec(),
            3 => blake3::keyed_hash(&body_key, &[&text[..], &nonce, &tag].concat()).as_bytes().to_vec(),
            _ => Vec::new(),
        };
        blob.extend(text);
        blob.extend(sealed);
    }
    let whole = sign("bonfire_store sealed v1 whole\0", blake3::hash(&blob));
    blob.extend(whole.iter().flatten());
    blob
}

#[test]
fn the_description_is_what_is_read() {
    let memory = MemoryStore::new();
    for suite in 1..=4 {
        for len in [0, 1, SEGMENT, SEGMENT + 1] {
            for name in [None, Some("Alpha")] {
                for signed in [false, true] {
                    if suite == 4 && !signed {
                        continue;
                    }
                    let (open, body) = (text(77), text(len));
                    let blob = by_hand(suite, &open, &body, name, signed.then_some([1; 32]));
                    put(&memory, "Alpha", blob);
                    let mut store = Sealed::new(memory.clone(), key(1));
                    if signed {
                        store = store.require_signature(signer(1).verifying_key());
                    }
                    let plain = [&open[..], &body].concat();
                    assert!(get(&store, "Alpha").unwrap() == plain, "{suite} {len} {name:?} {signed}");
                    assert!(range(&store, "Alpha", 70..200_000).unwrap() == plain[70..]);
                }
            }
        }
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).unwrap() as u8;
    hex.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// Written by version 1, of "head" left open and "and the body": keys `[1; 32]`, names bound in the second.
const VERSION_1: [(&str, &str); 5] = [
    (
        "a",
        "89424e530d0a1a0a01000100e48daa0c5159c2e4ed87e8d78b141c41c05d75ca483f0c2ab2a5b22424ba7c2900000000\
         00000000000000000000000000000000000000000000000000000000000000000000010004000000000000000c000000\
         00000000643fc89768656164eda22eda9baee87f44ecc6a1ff661a5d6134cf85f1d0a8d98ee9bbfac72cfb323fac1f50\
         42b193314a8749420420a15bcba797b68810a3eb574d67f1",
    ),
    (
        "bound",
        "89424e530d0a1a0a01000201e48daa0c5159c2e47198af79e7c192ed990d7a091b3d4d8c6b8535c053f987ac00000000\
         00000000000000000000000000000000000000000000000000000000000000000000010004000000000000000c000000\
         00000000b03fafdd686561645539afb8e76e20af278186a38d019d80fbb601e2732e7faf08391440440bb59f97299f27\
         44bd4c2a52963218b37d4518085d3b91d325401057409bff",
    ),
    (
        "a",
        "89424e530d0a1a0a01000300e48daa0c5159c2e4d89a99195394e68f1bb22cc3f95628e7b2122a5fa878e22900000000\
         00000000000000000000000000000000000000000000000000000000000000000000010004000000000000000c000000\
         000000008d0d8ce668656164224d15eb8f7e684e4e6d9db5d6fa2952d060b1c61b82f85077257b2d6c645749616e6420\
         74686520626f6479ff89273e809fc2e429b5365215322ff7f2e27babca47eae2901c33cefa62aa4b",
    ),
    (
        "a",
        "89424e530d0a1a0a0100040200000000000000005a529808ab4b01753a5e2c4f56e89513f5f9c346149dbe4500000000\
         00000000000000000000000000000000000000000000000000000000000000000000010004000000000000000c000000\
         00000000b37b01a6686561640f04a5df9474da740e3a6b911fb49928c10c53e1eb1ba64e2f5ae901bd92c78c3d50dd49\
         b985d1a0641688dad887fdf53d4a639ccf22c3278ae24642a8bf2b6e5ce3d831dfe698e648fb46004798422bd5c1435a\
         0fe9edc562888c916215f504616e642074686520626f6479acecb418f51b786c74b1a38deaebd6663352052eb36a92bc\
         b89a5a55fb97687fa3d6a1e9b62e5697654f5e7f6c1b4a533ae2589a39be2b3d264d5c01ee57120b",
    ),
    (
        "a",
        "89424e530d0a1a0a01000104d4d6becbfe5ad8bd433698a6e7fcecdeffb69f9e52423a80d0fbe62fdbc432be7ac174b6\
         67f4a23d003f75714fab1eaf40000000020000000200000000000000000000000000010004000000000000000c000000\
         0000000010c42d09686561649608e40fc6026e7c9c3134ddfef973af1cf6221068892b63ce0bdf3ddf3bbcf1f1fb9a61\
         6a231e165438d2824c12e883b9b7f0852a518faafeb89a1a",
    ),
];

#[test]
fn version_1_is_read_for_ever() {
    for (name, hex) in VERSION_1 {
        let memory = MemoryStore::new();
        put(&memory, name, bytes(hex));
        let mut store = Sealed::new(memory, key(1)).also_reads(SealKey::from_passphrase("campfire"));
        if bytes(hex)[11] & 2 != 0 {
            store = store.suite(Suite::Signed).require_signature(signer(1).verifying_key());
        }
        assert_eq!(&get(&store, name).unwrap()[..], b"headand the body");
    }
}

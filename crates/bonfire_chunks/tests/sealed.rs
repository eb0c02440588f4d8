//! Sealed worlds: nothing of what chunks hold is in the file as it is, and nothing is read without the key.
#![cfg(feature = "seal")]

mod support;

use bonfire_chunks::{ChunkWorld, Durability};
use bonfire_store::SealKey;
use bonfire_store::disk::{Access, Disk, MemoryDisk};
use support::*;

const NAME: &str = "world.save";

fn key(byte: u8) -> SealKey {
    SealKey::from_bytes([byte; 32])
}

fn bytes(disk: &MemoryDisk) -> Vec<u8> {
    let file = disk.open(NAME, Access::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn saved() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let world = options().sealed(key(1)).open_on(disk.clone(), NAME, Access::Write).unwrap();
    let text = b"the treasure is under the old oak".repeat(30);
    let mut cells = noise(3);
    cells[..text.len()].copy_from_slice(&text);
    world
        .edit()
        .put((0, 0), cells)
        .put_bodies((0, 0), vec![body(1, [1.0, 1.0])])
        .commit(Durability::Synced)
        .unwrap();
    world.edit().put((1, 0), noise(2)).commit(Durability::Synced).unwrap();
    world.close().unwrap();
    disk
}

#[test]
fn chunks_and_bodies_come_back_with_the_key_alone() {
    let disk = saved();
    for _ in 0..2 {
        let world = options().sealed(key(1)).open_on(disk.clone(), NAME, Access::Write).unwrap();
        assert_eq!(world.read((1, 0)).unwrap(), Some(noise(2)));
        assert_eq!(world.read_bodies((0, 0)).unwrap(), [body(1, [1.0, 1.0])]);
        assert!(world.info().sealed);
        world.compact(|_, _| {}).unwrap();
    }
    let file = bytes(&disk);
    for secret in [&b"treasure"[..], b"golden"] {
        assert!(!file.windows(secret.len()).any(|window| window == secret));
    }
    assert!(
        options().sealed(key(2)).open_on(disk.clone(), NAME, Access::Write).err().unwrap().is_wrong_key()
    );
    let without = options().open_on(disk.clone(), NAME, Access::Write).unwrap();
    assert!(without.read((1, 0)).unwrap_err().is_wrong_key());
    assert!(without.edit().put((5, 5), noise(9)).commit(Durability::Synced).unwrap_err().is_wrong_key());
    // Neither may a copy have frames that are not sealed.
    let copied = without.save_on(&disk, "copy.save", without.edit().put((5, 5), noise(9)));
    assert!(copied.unwrap_err().is_wrong_key());
    without.backup_on(&disk, "backup.save", |_, _| {}).unwrap();
    assert_eq!(without.len(), 2, "where chunks are is no secret");
    drop(without);
    // A program without the key may still tidy up.
    let tool = ChunkWorld::open_as_is_on(disk.clone(), NAME, Access::Write).unwrap();
    tool.compact(|_, _| {}).unwrap();
    drop(tool);
    let world = options().sealed(key(1)).open_on(disk, NAME, Access::Write).unwrap();
    assert_eq!(world.read((1, 0)).unwrap(), Some(noise(2)));
}

#[test]
fn a_plain_world_refuses_a_key() {
    let disk = MemoryDisk::new();
    drop(options().open_on(disk.clone(), NAME, Access::Write).unwrap());
    assert!(options().sealed(key(1)).open_on(disk, NAME, Access::Write).err().unwrap().is_wrong_key());
    assert!(
        options()
            .compat()
            .sealed(key(1))
            .open_on(MemoryDisk::new(), NAME, Access::Write)
            .err()
            .unwrap()
            .is_misuse()
    );
}

/// Somebody without the key changes a byte and mends the checksum.
#[test]
fn what_was_changed_is_noticed_though_the_checksum_is_right() {
    let disk = saved();
    let file = bytes(&disk);
    let magic = [0x9B, b'B', b'N', b'F'];
    let trailers = file
        .windows(4)
        .enumerate()
        .filter(|(at, window)| *window == magic && file[at + 4] == 1)
        .map(|(at, _)| at);
    let mut changed = 0;
    for trailer in trailers.collect::<Vec<_>>() {
        let word =
            |at: usize| u32::from_le_bytes([file[at], file[at + 1], file[at + 2], file[at + 3]]) as usize;
        let start = trailer - word(trailer + 16);
        for at in [start, start + 30, trailer - 1, trailer + 6] {
            let mut forged = file.clone();
            forged[at] ^= 1;
            let crc = crc32c::crc32c(&forged[start..trailer + 28]).to_le_bytes();
            forged[trailer + 28..trailer + 32].copy_from_slice(&crc);
            let disk = MemoryDisk::with_files([(NAME.to_owned(), forged)]);
            let world = options().sealed(key(1)).open_on(disk, NAME, Access::Read).unwrap();
            let results = [(0, 0), (1, 0)].map(|pos| world.read(pos));
            assert_eq!(results.iter().filter(|result| result.is_err()).count(), 1, "byte {at}");
            changed += 1;
        }
    }
    assert_eq!(changed, 8);
}

#[test]
fn a_passphrase_opens_what_it_sealed_after_a_crash_too() {
    let costs = bonfire_store::PassphraseCosts { memory_kib: 64, passes: 1, lanes: 1 };
    let key = || SealKey::from_passphrase_with("ember", costs);
    let disk = MemoryDisk::new();
    let world = options().sealed(key()).open_on(disk.clone(), NAME, Access::Write).unwrap();
    world.edit().put((0, 0), noise(1)).commit(Durability::Synced).unwrap();
    let copy = MemoryDisk::with_files([(NAME.to_owned(), bytes(&disk))]);
    let world = options().sealed(key()).open_on(copy, NAME, Access::Write).unwrap();
    assert_eq!(world.report().saves_replayed, 1);
    assert_eq!(world.read((0, 0)).unwrap(), Some(noise(1)));
}

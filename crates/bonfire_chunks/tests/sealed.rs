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
    let without = options().open_on(disk.clone(), NAME, Access::Read).unwrap();
    assert!(without.read((1, 0)).unwrap_err().is_wrong_key());
    assert_eq!(without.len(), 2, "where chunks are is no secret");
    // Nothing is written without the key: not to the world, and not to a copy, whether it has new frames or not.
    let copied = without.save_on(&disk, "copy.save", without.edit().put((5, 5), noise(9)));
    assert!(copied.unwrap_err().is_wrong_key());
    assert!(without.backup_on(&disk, "backup.save", |_, _| {}).unwrap_err().is_wrong_key());
    assert!(options().open_on(disk.clone(), NAME, Access::Write).err().unwrap().is_wrong_key());
    assert!(ChunkWorld::open_as_is_on(disk.clone(), NAME, Access::Write).err().unwrap().is_wrong_key());
    drop(without);
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

/// Worlds of version 1, whose frames alone were sealed. `fixtures/chunks` has one that was closed and one that was not.
#[test]
fn a_world_of_version_1_opens_if_the_game_accepts_it_and_is_sealed_anew_by_the_first_write() {
    for (name, close) in [("sealed_1_closed", false), ("sealed_1_open", false), ("sealed_1_open", true)] {
        let path = format!("{}/../../fixtures/chunks/{name}.world", env!("CARGO_MANIFEST_DIR"));
        let disk = MemoryDisk::with_files([(NAME.to_owned(), std::fs::read(path).unwrap())]);
        let open = |access| options().sealed(key(1)).accept_old_seal().open_on(disk.clone(), NAME, access);
        for access in [Access::Read, Access::Write] {
            let refused = options().sealed(key(1)).open_on(disk.clone(), NAME, access);
            assert!(refused.err().unwrap().is_unsupported());
            let world = open(access).unwrap();
            assert!(world.report().seal_outdated && world.report().is_fine());
            assert_eq!(world.read((0, 0)).unwrap(), Some(noise(3)));
            assert_eq!(world.read_bodies((0, 0)).unwrap(), [body(1, [1.0, 1.0])]);
            if access == Access::Write {
                // A save writes, and so does the close of a world that was not closed before.
                if !close {
                    world.edit().put((7, 7), noise(9)).commit(Durability::Synced).unwrap();
                }
                world.close().unwrap();
            }
        }
        let world = options().sealed(key(1)).open_on(disk.clone(), NAME, Access::Write).unwrap();
        assert_eq!(world.report(), &bonfire_chunks::OpenReport::default());
        assert_eq!(world.read((7, 7)).unwrap(), (!close).then(|| noise(9)));
        for (pos, seed) in [((0, 0), 3), ((1, 0), 2), ((-1, 5), 4)] {
            assert_eq!(world.read(pos).unwrap(), Some(noise(seed)));
        }
        assert_eq!(world.read_bodies((0, 0)).unwrap(), [body(1, [1.0, 1.0])]);
    }
}

/// Remembers how far worlds have come.
#[derive(Clone, Default)]
struct Account(std::sync::Arc<std::sync::Mutex<std::collections::HashMap<String, u64>>>);

impl bonfire_store::TrustedCounter for Account {
    fn newest(&self, family: &str) -> bonfire::Result<u64> {
        Ok(self.0.lock().unwrap().get(family).copied().unwrap_or(0))
    }
    fn advance(&self, family: &str, to: u64) -> bonfire::Result<()> {
        let mut families = self.0.lock().unwrap();
        let newest = families.entry(family.to_owned()).or_default();
        *newest = to.max(*newest);
        Ok(())
    }
}

#[test]
fn an_old_copy_of_the_whole_file_is_noticed_where_a_counter_is_kept() {
    let (disk, account) = (MemoryDisk::new(), Account::default());
    let open = |disk: &MemoryDisk, access| {
        options().sealed(key(1)).counter(account.clone()).open_on(disk.clone(), NAME, access)
    };
    let with = |disk: &MemoryDisk| open(disk, Access::Write);
    let world = with(&disk).unwrap();
    world.edit().put((0, 0), noise(1)).commit(Durability::Synced).unwrap();
    let old = MemoryDisk::with_files([(NAME.to_owned(), bytes(&disk))]);
    world.edit().put((0, 0), noise(2)).commit(Durability::Synced).unwrap();
    let before_the_flush = MemoryDisk::with_files([(NAME.to_owned(), bytes(&disk))]);
    world.edit().put((0, 0), noise(3)).commit(Durability::Buffered).unwrap();
    assert!(with(&old).err().unwrap().is_rollback());
    drop(open(&before_the_flush, Access::Read).unwrap());
    world.flush().unwrap();
    assert!(with(&before_the_flush).err().unwrap().is_rollback());
    world.compact(|_, _| {}).unwrap();
    world.close().unwrap();
    drop(world);
    assert_eq!(with(&disk).unwrap().read((0, 0)).unwrap(), Some(noise(3)));
    // Who has no counter is not protected.
    drop(options().sealed(key(1)).open_on(old, NAME, Access::Write).unwrap());
    // Neither does the world begin anew with small numbers, or in the old way.
    let world = with(&MemoryDisk::new()).unwrap();
    world.edit().put((0, 0), noise(1)).commit(Durability::Synced).unwrap();
    drop(world);
    let path = format!("{}/../../fixtures/chunks/sealed_1_closed.world", env!("CARGO_MANIFEST_DIR"));
    let outdated = MemoryDisk::with_files([(NAME.to_owned(), std::fs::read(path).unwrap())]);
    let accepting = options().sealed(key(1)).counter(account.clone()).accept_old_seal();
    assert!(accepting.open_on(outdated, NAME, Access::Write).err().unwrap().is_rollback());
    let without_key = options().counter(account).open_on(MemoryDisk::new(), NAME, Access::Write);
    assert!(without_key.err().unwrap().is_misuse());
}

#[test]
fn a_world_that_proves_no_number_does_not_move_the_counter() {
    let (disk, account) = (MemoryDisk::new(), Account::default());
    let counted = || options().sealed(key(1)).counter(account.clone());
    let world = counted().open_on(disk.clone(), NAME, Access::Write).unwrap();
    world.edit().put((0, 0), noise(1)).commit(Durability::Synced).unwrap();
    world.close().unwrap();
    drop(world);
    let before = account.clone().0.lock().unwrap().clone();
    // The entity section that the header leads to claims to be of the last save that there can be.
    let mut forged = bytes(&disk);
    let long = |at: usize| u64::from_le_bytes(*forged[at..].first_chunk().unwrap()) as usize;
    let start = long(53);
    let trailer = start + u32::from_le_bytes(*forged[start - 4..].first_chunk().unwrap()) as usize - 32;
    forged[trailer + 20..trailer + 28].copy_from_slice(&(u64::MAX - 1).to_le_bytes());
    let crc = crc32c::crc32c(&forged[start..trailer + 28]).to_le_bytes();
    forged[trailer + 28..trailer + 32].copy_from_slice(&crc);
    for account in [account.clone(), Account::default()] {
        let disk = MemoryDisk::with_files([(NAME.to_owned(), forged.clone())]);
        let options = options().sealed(key(1)).counter(account).salvage();
        assert!(options.open_on(disk, NAME, Access::Write).err().unwrap().is_rollback());
    }
    assert_eq!(*account.0.lock().unwrap(), before);
    let disk = MemoryDisk::with_files([(NAME.to_owned(), forged)]);
    let world = options().sealed(key(1)).salvage().open_on(disk, NAME, Access::Write).unwrap();
    assert!(world.report().unproven);
}

#[test]
fn a_reader_that_looks_again_refuses_an_old_copy_as_one_that_opens_does() {
    let (disk, account) = (MemoryDisk::new(), Account::default());
    let open = |access| options().sealed(key(1)).counter(account.clone()).open_on(disk.clone(), NAME, access);
    let world = open(Access::Write).unwrap();
    world.edit().put((0, 0), noise(1)).commit(Durability::Synced).unwrap();
    let old = bytes(&disk);
    world.edit().put((0, 0), noise(2)).commit(Durability::Synced).unwrap();
    world.close().unwrap();
    let reader = open(Access::Read).unwrap();
    let path = format!("{}/../../fixtures/chunks/sealed_1_closed.world", env!("CARGO_MANIFEST_DIR"));
    let outdated = std::fs::read(path).unwrap();
    for (copy, is_refused) in [
        (&old, bonfire::Error::is_rollback as fn(&bonfire::Error) -> bool),
        (&outdated, bonfire::Error::is_unsupported),
    ] {
        let file = disk.open(NAME, Access::Write).unwrap();
        file.set_len(copy.len() as u64).unwrap();
        file.write_all_at(copy, 0).unwrap();
        assert!(is_refused(&reader.refresh().unwrap_err()));
    }
}

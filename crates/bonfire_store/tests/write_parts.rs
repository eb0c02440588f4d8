//! A save goes to the disk from the memory that the capture filled, also if it is small: nothing gathers its parts first.

use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex};

use bonfire::engine::SnapshotWriter;
use bonfire::{EncodeOptions, EntityId, Persist, Registry, Snapshot};
use bonfire_store::disk::{Access, Disk, DiskFile, DiskLock, MemoryDisk};
use bonfire_store::{Details, DirStore, Slots, Wait};

#[derive(Persist, Clone, Copy, Debug, PartialEq)]
#[persist(key = "test.position")]
struct Position {
    x: f32,
    y: f32,
}

/// The addresses and lengths of all that was written.
type Written = Arc<Mutex<Vec<(usize, usize)>>>;

/// A disk that takes several parts in one call, and notes where they lie in memory.
struct PartsDisk(MemoryDisk, Written);
struct PartsFile(Box<dyn DiskFile>, Written);

impl Disk for PartsDisk {
    fn open(&self, name: &str, access: Access) -> io::Result<Box<dyn DiskFile>> {
        self.0.open(name, access)
    }
    fn create_new(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(PartsFile(self.0.create_new(name)?, Arc::clone(&self.1))))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }
    fn sync_dir(&self) -> io::Result<()> {
        self.0.sync_dir()
    }
    fn lock(&self, name: &str) -> io::Result<Option<DiskLock>> {
        self.0.lock(name)
    }
}

impl DiskFile for PartsFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(bytes, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }
    /// Takes at most three parts, and half of the third: a system may cut anywhere.
    fn write_parts_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let mut taken = 0;
        for (number, part) in parts.iter().take(3).enumerate() {
            let part = if number == 2 { &part[..part.len().div_ceil(2)] } else { part };
            self.1.lock().unwrap().push((part.as_ptr().addr(), part.len()));
            self.0.write_all_at(part, offset + taken as u64)?;
            taken += part.len();
        }
        Ok(taken)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
    fn stamp(&self) -> io::Result<u64> {
        self.0.stamp()
    }
}

fn snapshot(entities: u32) -> Snapshot {
    let registry = Registry::new().with::<Position>().unwrap();
    let ids: Vec<EntityId> = (0..entities).map(|index| EntityId::new(index, 0)).collect();
    let positions: Vec<Position> = (0..entities).map(|index| Position { x: index as f32, y: 1.0 }).collect();
    let mut writer = SnapshotWriter::new(&registry);
    writer.archetype(&ids).unwrap().column(&positions).unwrap();
    writer.finish().unwrap()
}

#[test]
fn a_small_save_is_written_from_the_memory_of_its_capture() {
    for entities in [2_000, 20_000, 300_000] {
        let (disk, written) = (MemoryDisk::new(), Written::default());
        let slots = Slots::new(DirStore::on(PartsDisk(disk, Arc::clone(&written))).unwrap());
        let snapshot = snapshot(entities);
        slots.save("quick", &snapshot, &Details::new()).wait().unwrap();
        // Encoding copies no column, so the parts of an encoded snapshot are where the columns lie.
        let columns = snapshot.encode(&EncodeOptions::default()).unwrap();
        let longest = columns.parts().iter().max_by_key(|part| part.len()).unwrap();
        let own = longest.as_ptr().addr()..longest.as_ptr().addr() + longest.len();
        let written = std::mem::take(&mut *written.lock().unwrap());
        let shared: usize = written.iter().filter(|(at, _)| own.contains(at)).map(|(_, len)| len).sum();
        assert_eq!(shared, longest.len(), "{entities} entities");
        let loaded = slots.load("quick").wait().unwrap().snapshot;
        let column = |snapshot: &Snapshot| -> Vec<u8> {
            let encoded = snapshot.encode(&EncodeOptions::default()).unwrap();
            encoded.parts().iter().max_by_key(|part| part.len()).unwrap().to_vec()
        };
        assert!(column(&loaded) == column(&snapshot), "{entities} entities");
    }
}

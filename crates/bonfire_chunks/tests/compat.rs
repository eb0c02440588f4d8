//! A world in `compat` mode is read by a program that knows only the document of the plain layout: header, page table, data
//! region, entity section. The reader below is written from its tables, and shares no code with the crate.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use bonfire_chunks::{Body, ChunkPos, ChunkWorld, Durability};
use bonfire_store::disk::{Access, Disk, MemoryDisk};
use support::{Hills, SIZE, body, cells, noise};

const NAME: &str = "world.save";

/// What the document says, and nothing else.
mod document {
    use super::BTreeMap;

    fn u16_at(bytes: &[u8], at: usize) -> u16 {
        u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap())
    }
    pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    }
    fn u64_at(bytes: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
    }
    fn f32_at(bytes: &[u8], at: usize) -> f32 {
        f32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    fn crc8(bytes: &[u8]) -> u8 {
        let mut crc = 0_u8;
        for byte in bytes {
            crc ^= byte;
            for _ in 0..8 {
                crc = if crc & 0x80 == 0 { crc << 1 } else { (crc << 1) ^ 0x07 };
            }
        }
        crc
    }

    /// LZ4 with the size in front of it.
    fn lz4(bytes: &[u8]) -> Vec<u8> {
        let size = u32_at(bytes, 0) as usize;
        let raw = lz4_flex::block::decompress(&bytes[4..], size).unwrap();
        assert_eq!(raw.len(), size);
        raw
    }

    pub(super) struct File<'b> {
        bytes: &'b [u8],
        chunks: usize,
        pub(super) data: usize,
        chunk_bytes: usize,
    }

    pub(super) struct Record {
        pub(super) id: u64,
        pub(super) numbers: [f32; 6],
        pub(super) size: [u32; 2],
        pub(super) origin: [i32; 2],
        pub(super) pixels: Vec<u8>,
        pub(super) solid: Vec<bool>,
        pub(super) extension: Vec<u8>,
    }

    impl<'b> File<'b> {
        pub(super) fn open(bytes: &'b [u8]) -> Self {
            assert_eq!(&bytes[..4], b"PXSW");
            assert_eq!(u16_at(bytes, 4), 1, "version");
            assert_eq!(u64_at(bytes, 8), 7, "seed");
            assert_eq!(u64_at(bytes, 16), 1_700_000_000, "creation time");
            assert!(u64_at(bytes, 24) >= 1_700_000_000, "modified time");
            let (chunks, table, data) = (u32_at(bytes, 32), u32_at(bytes, 36), u64_at(bytes, 40));
            let (edge, tile, pixel) = (u16_at(bytes, 48), u16_at(bytes, 50), bytes[52]);
            assert_eq!((edge, tile, pixel), (16, 4, 4));
            assert!(chunks * 24 <= table && 64 + u64::from(table) <= data);
            let chunk_bytes = usize::from(edge) * usize::from(edge) * usize::from(pixel);
            Self { bytes, chunks: chunks as usize, data: data as usize, chunk_bytes }
        }

        fn entry(&self, number: usize) -> &'b [u8] {
            &self.bytes[64 + number * 24..][..24]
        }

        fn pos(&self, number: usize) -> (i32, i32) {
            let entry = self.entry(number);
            (u32_at(entry, 0).cast_signed(), u32_at(entry, 4).cast_signed())
        }

        /// By binary search in the order of (y, x).
        pub(super) fn find(&self, x: i32, y: i32) -> Option<&'b [u8]> {
            let (mut low, mut high) = (0, self.chunks);
            while low < high {
                let middle = low.midpoint(high);
                let (at_x, at_y) = self.pos(middle);
                match (at_y, at_x).cmp(&(y, x)) {
                    std::cmp::Ordering::Less => low = middle + 1,
                    std::cmp::Ordering::Greater => high = middle,
                    std::cmp::Ordering::Equal => return Some(self.entry(middle)),
                }
            }
            None
        }

        pub(super) fn positions(&self) -> Vec<(i32, i32)> {
            (0..self.chunks).map(|number| self.pos(number)).collect()
        }

        /// Where payloads begin, and how long they are, by forward iteration.
        pub(super) fn payloads(&self) -> BTreeMap<usize, usize> {
            let (mut at, mut all) = (self.data, BTreeMap::new());
            while at < self.bytes.len() {
                let size = u32_at(self.bytes, at) as usize;
                all.insert(at + 4, size);
                at += 4 + size;
            }
            assert_eq!(at, self.bytes.len(), "the last one ends with the file");
            all
        }

        pub(super) fn chunk(
            &self,
            x: i32,
            y: i32,
            payloads: &BTreeMap<usize, usize>,
            generated: Vec<u8>,
        ) -> Option<Vec<u8>> {
            let entry = self.find(x, y)?;
            assert_eq!(entry[21], crc8(&entry[..21]), "checksum of ({x}, {y})");
            let (offset, size) = (u64_at(entry, 8) as usize, u32_at(entry, 16) as usize);
            assert!(payloads.get(&offset).is_some_and(|len| *len >= size), "({x}, {y}) at {offset}");
            let payload = &self.bytes[offset..offset + size];
            Some(match entry[20] {
                0 => {
                    assert!(payload.is_empty());
                    vec![0; self.chunk_bytes]
                }
                1 => {
                    let (content, mut cells) = (lz4(payload), generated);
                    let count = u32_at(&content, 0) as usize;
                    assert_eq!(content.len(), 4 + count * 7);
                    for change in content[4..].chunks_exact(7) {
                        let position = u32::from_le_bytes([change[0], change[1], change[2], 0]) as usize;
                        cells[position * 4..position * 4 + 4].copy_from_slice(&change[3..]);
                    }
                    cells
                }
                2 => {
                    let cells = lz4(payload);
                    assert_eq!(cells.len(), self.chunk_bytes);
                    cells
                }
                other => panic!("storage type {other}"),
            })
        }

        pub(super) fn storage(&self, x: i32, y: i32) -> Option<u8> {
            Some(self.find(x, y)?[20])
        }

        pub(super) fn bodies(&self) -> Vec<Record> {
            let section = u64_at(self.bytes, 53) as usize;
            let (count, mut rest) = (u32_at(self.bytes, section), &self.bytes[section + 8..]);
            let mut bodies = Vec::new();
            for _ in 0..count {
                assert_eq!(rest[60], crc8(&rest[..60]));
                let word = |at: usize| u32_at(rest, at);
                let (width, height) = (word(32), word(36));
                let sizes = [word(48), word(52), word(56)].map(|size| size as usize);
                let (pixels, behind) = rest[64..].split_at(sizes[0]);
                let (mask, behind) = behind.split_at(sizes[1]);
                let mask = lz4(mask);
                let cells = (width * height) as usize;
                bodies.push(Record {
                    id: u64_at(rest, 0),
                    numbers: [8, 12, 16, 20, 24, 28].map(|at| f32_at(rest, at)),
                    size: [width, height],
                    origin: [word(40).cast_signed(), word(44).cast_signed()],
                    pixels: lz4(pixels),
                    solid: (0..cells).map(|cell| mask[cell / 8] >> (cell % 8) & 1 == 1).collect(),
                    extension: behind[..sizes[2]].to_vec(),
                });
                rest = &behind[sizes[2]..];
            }
            bodies
        }
    }
}

#[derive(Default)]
struct Model {
    cells: BTreeMap<ChunkPos, Vec<u8>>,
    bodies: BTreeMap<u64, Body>,
}

fn generated(pos: ChunkPos) -> Vec<u8> {
    let mut cells = vec![0; SIZE * SIZE * 4];
    Hills { version: 1 }.fill(pos, &mut cells);
    cells
}

fn open(disk: &MemoryDisk, eager: bool) -> ChunkWorld {
    let options =
        support::options().generator(Hills { version: 1 }).table_capacity(4).compact_above(None).compat();
    let options = if eager { options.eager() } else { options };
    options.open_on(disk.clone(), NAME, Access::Write).expect("a disk in memory")
}

/// Saves some chunks of each kind, and bodies that have moved from one chunk to another.
fn save(world: &ChunkWorld, model: &mut Model, round: i32) {
    let mut edit = world.edit();
    for number in 0..4 {
        let pos = ChunkPos::new(round - 3, number - 2);
        let new = match (round + number) % 4 {
            0 => noise((round * 10 + number) as u64),
            1 => vec![0; SIZE * SIZE * 4],
            2 => cells(|x, y| [(x * y) as u8, 1, number as u8, 0]),
            _ => {
                let mut cells = generated(pos);
                cells[40..52].fill(9);
                cells
            }
        };
        edit.put(pos, new.clone());
        // What is as it is generated is not stored.
        if new != generated(pos) {
            model.cells.insert(pos, new);
        }
    }
    let centre = |pos: ChunkPos| [pos.x, pos.y].map(|at| (at * SIZE as i32) as f32 + 3.0);
    for (id, pos) in [(1, ChunkPos::new(round, 0)), (100 + round as u64, ChunkPos::new(round, 1))] {
        let body = body(id, centre(pos));
        edit.put_bodies(pos, vec![body.clone()]);
        model.bodies.insert(id, body);
    }
    if round > 2 {
        let gone = ChunkPos::new(round - 5, 1);
        edit.remove(gone);
        model.cells.remove(&gone);
        model.bodies.retain(|_, body| body.chunk(SIZE as u32) != Some(gone));
    }
    edit.commit(Durability::Synced).expect("a disk in memory");
}

/// The reader of the document finds everything. Returns where its data region begins.
fn check(disk: &MemoryDisk, model: &Model) -> usize {
    let file = disk.open(NAME, Access::Read).expect("it is there");
    let mut bytes = vec![0; file.len().expect("a disk in memory") as usize];
    file.read_exact_at(&mut bytes, 0).expect("a disk in memory");
    let file = document::File::open(&bytes);
    let payloads = file.payloads();
    let positions = file.positions();
    assert!(positions.is_sorted_by_key(|(x, y)| (*y, *x)));
    let expected: BTreeSet<(i32, i32)> = model.cells.keys().map(|pos| (pos.x, pos.y)).collect();
    assert_eq!(positions.iter().copied().collect::<BTreeSet<_>>(), expected);
    let mut storages = BTreeSet::new();
    for (pos, cells) in &model.cells {
        assert_eq!(file.chunk(pos.x, pos.y, &payloads, generated(*pos)).as_ref(), Some(cells), "chunk {pos}");
        storages.extend(file.storage(pos.x, pos.y));
    }
    assert_eq!(storages, BTreeSet::from([0, 1, 2]));
    assert!(file.find(1000, 1000).is_none());
    let bodies = file.bodies();
    assert_eq!(
        bodies.iter().map(|body| body.id).collect::<BTreeSet<_>>(),
        model.bodies.keys().copied().collect()
    );
    assert_eq!(bodies.len(), model.bodies.len());
    for found in bodies {
        let body = &model.bodies[&found.id];
        let [x, y] = body.position;
        let [dx, dy] = body.linear_velocity;
        assert_eq!(found.numbers, [x, y, body.rotation, dx, dy, body.angular_velocity]);
        assert_eq!((found.size, found.origin), ([body.width, body.height], body.origin));
        assert_eq!((&found.pixels, &found.extension), (&body.cells, &body.extension));
        assert_eq!(found.solid, body.unpack_mask().expect("a whole body"));
    }
    file.data
}

#[test]
fn a_reader_of_the_document_finds_everything() {
    for eager in [false, true] {
        let (disk, mut model) = (MemoryDisk::new(), Model::default());
        let mut data = BTreeSet::new();
        for round in 0..12 {
            let world = open(&disk, eager);
            if round > 0 {
                // Bodies that move were loaded before.
                for pos in world.chunks_with_bodies(bonfire_chunks::ChunkRect::ALL) {
                    world.read_bodies(pos).expect("it is whole");
                }
            }
            save(&world, &mut model, round);
            if round % 5 == 4 {
                world.compact(|_, _| {}).expect("a disk in memory");
            }
            world.close().expect("a disk in memory");
            drop(world);
            data.insert(check(&disk, &model));
        }
        assert!(data.len() > 3, "the table has grown: {data:?}");
    }
}

//! Files that somebody made to do harm: a clear error, or an entry that is skipped and reported; never a panic, never more
//! memory than the file and the limits allow, never a chunk with other contents than those that were saved under its
//! place.

mod crafted;

use bonfire::Result;
use bonfire_chunks::{ChunkOptions, ChunkPos, ChunkRect, ChunkWorld, Layer, Layers, Persistence};
use bonfire_store::disk::{Access, MemoryDisk};
use crafted::{
    BODIES, CHUNK, CHUNK_BYTES, COMMIT, Entry, File, NAME, SECTION, SETTINGS, SIDE, SIZE, SNAPSHOT,
};

fn options() -> ChunkOptions {
    let material = Layer::new("m", 1).persistence(Persistence::Always);
    ChunkOptions::new(Layers::new().with(material)).chunk_size(SIZE).tile_size(2).threads(1)
}

fn open(bytes: &[u8], access: Access) -> Result<ChunkWorld> {
    options().open_on(MemoryDisk::with_files([(NAME.to_owned(), bytes.to_vec())]), NAME, access)
}

/// Opens it in every way, and does everything that reads. Errors are fine; what is read must be `fill` of its place.
fn survive(bytes: &[u8], fill: impl Fn(ChunkPos) -> u8) -> Vec<Result<ChunkWorld>> {
    let disk = || MemoryDisk::with_files([(NAME.to_owned(), bytes.to_vec())]);
    let mut results = Vec::new();
    for access in [Access::Read, Access::Write] {
        for world in [open(bytes, access), ChunkWorld::open_as_is_on(disk(), NAME, access)] {
            let Ok(world) = world.map_err(|error| results.push(Err(error))) else { continue };
            for pos in world.iter() {
                if let Ok(cells) = world.read(pos) {
                    assert!(
                        cells.is_some_and(|cells| cells.iter().all(|cell| *cell == fill(pos))),
                        "chunk {pos}"
                    );
                }
                let _ = world.delta_entries(pos);
            }
            for pos in world.chunks_with_bodies(ChunkRect::ALL) {
                let _ = world.read_bodies(pos);
            }
            for pos in world.chunks_with_entities(ChunkRect::ALL) {
                let _ = world.read_entities(pos);
            }
            let _ = (world.info(), world.check(|_, _| {}));
            if access == Access::Write {
                let _ = world.compact(|_, _| {});
                let _ = world.close();
            }
            results.push(Ok(world));
        }
    }
    memory_is_bounded();
    results
}

fn same(_: ChunkPos) -> u8 {
    7
}

/// No file here has more than a few megabytes.
fn memory_is_bounded() {
    #[cfg(target_os = "linux")]
    {
        let status = std::fs::read_to_string("/proc/self/status").expect("the system tells");
        let peak = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        assert!(peak.is_some_and(|kilobytes: u64| kilobytes < 600 << 10), "{peak:?} kB of memory were used");
    }
}

#[test]
fn a_file_that_was_made_by_hand_is_a_world() {
    let mut file = File::new(4);
    for x in 0..3 {
        file.chunk((x, -1), x as u8);
    }
    let bytes = file.finish();
    for result in survive(&bytes, |pos| pos.x as u8) {
        let world = result.expect("it is whole");
        assert_eq!(world.report(), &bonfire_chunks::OpenReport::default());
        assert_eq!(world.len(), 3);
    }
}

#[test]
fn offsets_outside_of_the_file_are_errors_of_their_chunk() {
    for (offset, len) in
        [(1 << 40, 16), (u64::MAX, u32::MAX), (u64::MAX - 8, 16), (100_000, u32::MAX), (300, u32::MAX)]
    {
        let mut file = File::new(4);
        file.chunk((0, 0), 7);
        file.table.push(Entry { kind: CHUNK, pos: (1, 0), offset, len, tag: [2, 1, 0], ..Entry::default() });
        file.chunk((2, 0), 7);
        let bytes = file.finish();
        survive(&bytes, same);
        for access in [Access::Read, Access::Write] {
            let world = open(&bytes, access).expect("the rest is whole");
            assert!(world.read((1, 0)).expect_err("it is nowhere").is_corrupt());
            assert_eq!(world.read((2, 0)).expect("it is whole"), Some(vec![7; CHUNK_BYTES]));
        }
    }
}

/// Offsets that lie in the header, in the table, or before the start of the file once the size word is counted.
#[test]
fn offsets_before_the_first_frame_are_no_frames() {
    for offset in [0, 1, 3, 4, 63, 70, 150] {
        for where_ in 0..3 {
            let mut file = File::new(4);
            file.chunk((0, 0), 7);
            let entry =
                Entry { kind: CHUNK, pos: (1, 0), offset, len: 16, tag: [2, 1, 0], ..Entry::default() };
            match where_ {
                0 => file.table.push(entry),
                1 => {
                    let list = [BODIES, SNAPSHOT, SETTINGS, 8, 9, 11, 12].map(|kind| Entry { kind, ..entry });
                    file.side.extend(list);
                }
                _ => {
                    file.listed.push(entry);
                    // A later save says that this one was durable: what it lists is believed to have been there.
                    file.listed.push(Entry { kind: BODIES, ..entry });
                }
            }
            let mut bytes = file.finish();
            if where_ == 2 {
                append_commits(&mut bytes, entry);
            }
            survive(&bytes, same);
        }
    }
}

/// Two more saves: one that lists the entry, and one that says that it was durable.
fn append_commits(bytes: &mut Vec<u8>, entry: Entry) {
    for (generation, durable, entries) in [(2_u64, 1_u64, vec![entry]), (3, 2, Vec::new())] {
        let list: Vec<u8> = entries.iter().flat_map(Entry::of_list).collect();
        let commit = [
            &bytes[..64],
            &durable.to_le_bytes(),
            &0_u32.to_le_bytes(),
            &0_u32.to_le_bytes(),
            &(entries.len() as u32).to_le_bytes(),
            &list,
        ]
        .concat();
        bytes.extend(crafted::frame(COMMIT, (0, 0), [0; 3], generation, &commit));
    }
}

#[test]
fn two_entries_for_one_frame_are_not_two_chunks() {
    let mut file = File::new(4);
    let first = file.chunk((0, 0), 7);
    file.table.push(Entry { pos: (1, 0), ..first });
    let bytes = file.finish();
    survive(&bytes, same);
    let world = open(&bytes, Access::Read).expect("the rest is whole");
    assert!(world.read((1, 0)).expect_err("it is the frame of another").is_corrupt());
    // The same frame as bodies and as entities.
    let mut file = File::new(4);
    let first = file.chunk((0, 0), 7);
    file.side.extend([BODIES, SNAPSHOT].map(|kind| Entry { kind, ..first }));
    let bytes = file.finish();
    survive(&bytes, same);
    let world = open(&bytes, Access::Read).expect("the rest is whole");
    assert!(world.read_bodies((0, 0)).expect_err("it is no list of bodies").is_corrupt());
    assert!(world.read_entities((0, 0)).expect_err("it is no snapshot").is_corrupt());
    assert_eq!(world.read((0, 0)).expect("it is whole"), Some(vec![7; CHUNK_BYTES]));
}

#[test]
fn positions_that_are_there_twice_or_out_of_order_are_found_by_their_frames() {
    for swap in [false, true] {
        let mut file = File::new(8);
        for x in [3, 1, 2] {
            file.chunk((x, 0), x as u8);
        }
        if !swap {
            let double = file.table[0];
            file.table = vec![file.table[1], file.table[2], double, double];
        }
        let bytes = file.finish();
        survive(&bytes, |pos| pos.x as u8);
        let world = open(&bytes, Access::Write).expect("frames are whole");
        assert!(world.report().table_rebuilt);
        for x in [1, 2, 3] {
            assert_eq!(world.read((x, 0)).expect("it is whole"), Some(vec![x as u8; CHUNK_BYTES]));
        }
    }
}

#[test]
fn counts_beyond_the_file_are_not_believed() {
    for (count, table_bytes, data_start) in [
        (u32::MAX, u32::MAX, 64 + u64::from(u32::MAX)),
        (u32::MAX, 96, 160),
        (5, 96, 160),
        (4, u32::MAX, 160),
        (4, 96, u64::MAX),
        (4, 96, 0),
        (4, 96, 100),
    ] {
        let mut file = File::new(4);
        file.chunk((0, 0), 7);
        (file.header.count, file.header.table_bytes, file.header.data_start) =
            (count, table_bytes, data_start);
        let bytes = file.finish();
        survive(&bytes, same);
        let world = open(&bytes, Access::Write).expect("its frames are whole");
        assert!(world.report().header_rebuilt);
        assert_eq!(world.read((0, 0)).expect("it is whole"), Some(vec![7; CHUNK_BYTES]));
    }
    for entities in [1, 4, 159, 170, 1 << 40, u64::MAX] {
        let mut file = File::new(4);
        file.chunk((0, 0), 7);
        file.header.entities = entities;
        let bytes = file.finish();
        survive(&bytes, same);
        let world = open(&bytes, Access::Read).expect("its frames are whole");
        assert_eq!(world.read((0, 0)).expect("it is whole"), Some(vec![7; CHUNK_BYTES]), "{entities}");
    }
}

#[test]
fn lists_that_claim_more_than_they_have_are_refused() {
    for kind in [COMMIT, SIDE, SECTION, SETTINGS, SNAPSHOT, BODIES] {
        for len in [0, 4, 8, 12, 60, 84, 90, 200] {
            let mut file = File::new(4);
            file.chunk((0, 0), 7);
            let entry = file.append(kind, (0, 0), [0; 3], &vec![0xFF; len]);
            if ![COMMIT, SIDE, SECTION].contains(&kind) {
                file.side.retain(|other| (other.kind, other.pos) != (kind, (0, 0)));
                file.side.push(entry);
            }
            survive(&file.finish(), same);
        }
    }
}

#[test]
fn a_chain_of_lists_that_loops_ends() {
    for earlier in [0, 1, 3, 5, 200, 244, 500, 1 << 50, u64::MAX] {
        let mut file = File::new(4);
        file.chunk((0, 0), 7);
        file.earlier = earlier;
        let bytes = file.finish();
        survive(&bytes, same);
    }
    // A list that names itself.
    let mut file = File::new(4);
    file.chunk((0, 0), 7);
    file.earlier = file.bytes.len() as u64 + 4;
    let bytes = file.finish();
    survive(&bytes, same);
    let world = open(&bytes, Access::Write).expect("its frames are whole");
    assert!(world.report().table_rebuilt);
    assert_eq!(world.read((0, 0)).expect("it is whole"), Some(vec![7; CHUNK_BYTES]));
}

#[test]
fn bombs_do_not_go_off() {
    let mut bomb = u32::MAX.to_le_bytes().to_vec();
    bomb.push(0x1F);
    bomb.extend([7, 1, 0]);
    bomb.extend(vec![0xFF; 50_000]);
    let mut right_size = (CHUNK_BYTES as u32).to_le_bytes().to_vec();
    right_size.extend(&bomb[4..]);
    let payloads = [Vec::new(), vec![0; 3], vec![0xFF; 40], bomb, right_size, vec![0x80; 64], vec![1; 17]];
    for storage in 0..4 {
        for codec in (0..9).chain([255]) {
            let mut file = File::new(16);
            for (x, payload) in payloads.iter().enumerate() {
                let entry = file.append(CHUNK, (x as i32, 0), [storage, codec, 0], payload);
                file.table.push(entry);
                let bodies = [&[1, 0, 0, 0, 0, 0, 0, 0][..], &[0xFF; 64], payload].concat();
                let bodies = file.append(BODIES, (x as i32, 0), [0; 3], &bodies);
                file.side.push(bodies);
            }
            let bytes = file.finish();
            // Nothing of this can be known to be right: only that it is of a chunk's size.
            let world = open(&bytes, Access::Read).expect("its structure is whole");
            for pos in world.iter() {
                if let Ok(Some(cells)) = world.read(pos) {
                    assert_eq!(cells.len(), CHUNK_BYTES);
                }
                let _ = (world.delta_entries(pos), world.read_bodies(pos));
            }
        }
    }
    memory_is_bounded();
}

#[test]
fn layer_sets_that_are_not_there_are_errors_of_their_chunk() {
    let mut file = File::new(4);
    let entry = file.append(CHUNK, (0, 0), [2, 1, 9], &[7; CHUNK_BYTES]);
    file.table.push(entry);
    file.chunk((1, 0), 7);
    let bytes = file.finish();
    survive(&bytes, same);
    let world = open(&bytes, Access::Read).expect("the rest is whole");
    assert!(world.read((0, 0)).expect_err("its set is not there").is_corrupt());
    assert_eq!(world.read((1, 0)).expect("it is whole"), Some(vec![7; CHUNK_BYTES]));
}

#[test]
fn other_formats_versions_and_sizes_are_refused() {
    let with = |change: &dyn Fn(&mut File)| {
        let mut file = File::new(4);
        file.chunk((0, 0), 7);
        change(&mut file);
        let bytes = file.finish();
        survive(&bytes, same);
        open(&bytes, Access::Write).expect_err("it is not ours")
    };
    assert!(with(&|file| file.header.magic = *b"PNG!").is_corrupt());
    assert!(with(&|file| file.header.version = 3).is_newer_format());
    assert!(with(&|file| file.header.version = 0).is_corrupt());
    assert!(with(&|file| file.header.flags = 1 << 9).is_newer_format());
    let error = with(&|file| file.header.chunk_size = 512);
    assert!(error.is_misuse() && error.to_string().contains("512"), "{error}");
    let error = with(&|file| file.header.tile_size = 32);
    assert!(error.is_misuse() && error.to_string().contains("32"), "{error}");
    // A game whose cells are others.
    let bytes = File::new(4).finish();
    let wider = Layers::new().with(Layer::new("m", 2).persistence(Persistence::Always));
    let disk = MemoryDisk::with_files([(NAME.to_owned(), bytes)]);
    let other = ChunkOptions::new(wider).chunk_size(SIZE).tile_size(2).open_on(disk, NAME, Access::Write);
    let error = other.expect_err("a byte is not two");
    assert!(error.to_string().contains('m'), "{error}");
}

/// Chunks so large that one of them would not fit into memory.
#[test]
fn a_tool_does_not_believe_sizes_that_no_game_has() {
    for chunk_size in [0, 4097, u16::MAX] {
        let mut file = File::new(4);
        file.chunk((0, 0), 7);
        file.header.chunk_size = chunk_size;
        let bytes = file.finish();
        survive(&bytes, same);
        let disk = MemoryDisk::with_files([(NAME.to_owned(), bytes)]);
        let opened = ChunkWorld::open_as_is_on(disk, NAME, Access::Read);
        assert!(chunk_size == 0 || opened.is_err_and(|error| error.is_corrupt()), "{chunk_size}");
    }
}

#[test]
fn what_is_no_world_is_refused() {
    for bytes in [Vec::new(), vec![0; 63], vec![0; 64], vec![0xFF; 5000], b"PXSW".repeat(100)] {
        for result in survive(&bytes, same) {
            assert!(result.expect_err("it is no world").is_corrupt());
        }
    }
}

/// Every trailer claims all that lies before it: checking each would take hours.
#[test]
fn a_million_claims_end_soon() {
    let mut file = File::new(4);
    file.chunk((0, 0), 7);
    let mut bytes = file.finish();
    let end = bytes.len();
    for _ in 0..100_000 {
        let claim = (bytes.len() - end) as u32;
        let mut trailer = vec![0x9B, b'B', b'N', b'F', CHUNK, 2, 1, 0];
        trailer.extend([0; 8]);
        trailer.extend(claim.to_le_bytes());
        trailer.extend([1; 12]);
        bytes.extend(trailer);
    }
    survive(&bytes, same);
    let world = open(&bytes, Access::Write).expect("the front is whole");
    assert_eq!(world.read((0, 0)).expect("it is whole"), Some(vec![7; CHUNK_BYTES]));
    // The same where frames are size words that lead nowhere.
    bytes.truncate(end);
    bytes.extend(u32::MAX.to_le_bytes().repeat(500_000));
    survive(&bytes, same);
}

/// A save of which each frame claims to be the whole file, and a later one that says that it was durable.
#[test]
fn what_is_put_aside_is_no_longer_than_the_file() {
    let mut file = File::new(4);
    file.chunk((0, 0), 7);
    let mut bytes = file.finish();
    bytes.extend(crafted::frame(SNAPSHOT, (9, 9), [0; 3], 1, &vec![1; 400_000]));
    let claims: Vec<u8> = (0..10_000)
        .flat_map(|x| {
            Entry { kind: CHUNK, pos: (x, 5), offset: 200, len: 390_000, tag: [2, 1, 0], ..Entry::default() }
                .of_list()
        })
        .collect();
    for (generation, durable, list) in [(2_u64, 1_u64, &claims[..]), (3, 2, &[])] {
        let count = list.len() as u32 / 24;
        let commit = [&bytes[..64], &durable.to_le_bytes(), &[0; 8], &count.to_le_bytes(), list].concat();
        bytes.extend(crafted::frame(COMMIT, (0, 0), [0; 3], generation, &commit));
    }
    survive(&bytes, same);
}

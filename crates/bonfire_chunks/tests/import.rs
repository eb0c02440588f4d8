//! Worlds of bevy_pixel_world are read with exactly their contents, and refused if they are damaged.

mod import_support;

use bonfire_chunks::ChunkPos;
use bonfire_chunks::import::pixel_world::{Mode, PixelStorage, PixelWorld, SkippedPart};
use import_support::*;
use proptest::prelude::*;
use serde_json::Value as Json;

fn crc8(bytes: &[u8]) -> u8 {
    let step = |crc: u8, _| if crc & 0x80 == 0 { crc << 1 } else { crc << 1 ^ 7 };
    bytes.iter().fold(0, |crc, byte| (0..8).fold(crc ^ byte, step))
}

/// A world with these chunks and records.
#[derive(Default)]
struct Forged {
    chunks: Vec<(i32, i32, u8, Vec<u8>)>,
    bodies: Vec<(u64, Vec<u8>)>,
}

impl Forged {
    fn chunk(mut self, x: i32, y: i32, kind: u8, payload: Vec<u8>) -> Self {
        self.chunks.push((x, y, kind, payload));
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = bytes("a3_no_chunks.save");
        let mut table = Vec::new();
        for (x, y, kind, payload) in &self.chunks {
            bytes.extend((payload.len() as u32).to_le_bytes());
            let start = table.len();
            table.extend([x.to_le_bytes(), y.to_le_bytes()].concat());
            table.extend((bytes.len() as u64).to_le_bytes());
            table.extend((payload.len() as u32).to_le_bytes());
            table.push(*kind);
            table.extend([crc8(&table[start..]), 0, 0]);
            bytes.extend(payload);
        }
        let mut index = Vec::new();
        for (id, record) in &self.bodies {
            index.extend(id.to_le_bytes());
            index.extend((bytes.len() as u64).to_le_bytes());
            index.extend((record.len() as u32).to_le_bytes());
            index.extend([0; 8]);
            bytes.extend(record);
        }
        let table_at = bytes.len() as u64;
        bytes[32..36].copy_from_slice(&(self.chunks.len() as u32).to_le_bytes());
        bytes[36..40].copy_from_slice(&(table.len() as u32).to_le_bytes());
        bytes[40..48].copy_from_slice(&table_at.to_le_bytes());
        bytes.extend(table);
        if !self.bodies.is_empty() {
            let index_at = bytes.len() as u64;
            bytes[53..61].copy_from_slice(&index_at.to_le_bytes());
            bytes.extend((self.bodies.len() as u64).to_le_bytes());
            bytes.extend(index);
        }
        bytes
    }
}

fn delta(cells: &[(u32, [u8; 4])]) -> Vec<u8> {
    let mut raw = (cells.len() as u32).to_le_bytes().to_vec();
    cells.iter().for_each(|(at, cell)| raw.extend([&at.to_le_bytes()[..3], cell].concat()));
    lz4_flex::block::compress_prepend_size(&raw)
}

/// The record of a body of some cells, as the game writes it.
fn record(id: u64, width: u32, mask: &[u8]) -> Vec<u8> {
    let cells = lz4_flex::block::compress_prepend_size(&vec![1; width as usize * 4]);
    let mask = lz4_flex::block::compress_prepend_size(mask);
    let mut header = [0; 64];
    header[..8].copy_from_slice(&id.to_le_bytes());
    header[32..36].copy_from_slice(&width.to_le_bytes());
    header[36..40].copy_from_slice(&1_u32.to_le_bytes());
    header[48..52].copy_from_slice(&(cells.len() as u32).to_le_bytes());
    header[52..56].copy_from_slice(&(mask.len() as u32).to_le_bytes());
    header[60] = crc8(&[&header[..20], &header[32..40]].concat());
    [&header[..], &cells, &mask].concat()
}

fn strict(bytes: Vec<u8>) -> bonfire::Result<PixelWorld> {
    PixelWorld::read(bytes, Mode::Strict)
}

/// Strict reading refuses the bytes with these words, and salvage survives them.
fn assert_refused(bytes: &[u8], words: &str) -> Option<PixelWorld> {
    let error = strict(bytes.to_vec()).unwrap_err();
    assert!(error.is_corrupt() && error.to_string().contains(words), "{error}");
    PixelWorld::read(bytes.to_vec(), Mode::Salvage).ok()
}

#[test]
fn every_file_has_the_contents_of_the_manifest() {
    for contents in manifest()["files"].as_array().unwrap() {
        let file = contents["file"].as_str().unwrap();
        let header = &contents["header"];
        assert_eq!(sha256(&bytes(file)), contents["file_sha256"]);
        for world in [PixelWorld::open(path(file), Mode::Strict), strict(bytes(file))] {
            let world = world.unwrap();
            assert_eq!(Json::from(world.seed), header["world_seed"]);
            assert_eq!(Json::from(world.created), header["creation_time"]);
            assert_eq!(Json::from(world.modified), header["modified_time"]);
            assert_eq!((world.chunk_size, world.tile_size, world.pixel_size), (512, 32, 4));
            assert!(world.report.is_whole() && world.report.skipped.is_empty() && world.unlisted.is_empty());
            assert_eq!(world.chunks.iter().map(chunk_json).collect::<Vec<_>>(), expected_chunks(file));
            assert_eq!(world.bodies.iter().map(body_json).collect::<Vec<_>>(), expected_bodies(file));
        }
    }
}

#[test]
fn bodies_are_in_the_chunk_of_their_centre_and_not_where_the_game_has_them() {
    let world = PixelWorld::open(path("b_bodies.save"), Mode::Strict).unwrap();
    let manifest = contents("b_bodies.save");
    for (body, expected) in world.bodies.iter().zip(manifest["bodies"].as_array().unwrap()) {
        let game = ChunkPos::new(
            expected["chunk_pos"][0].as_i64().unwrap() as i32,
            expected["chunk_pos"][1].as_i64().unwrap() as i32,
        );
        let ours = body.chunk(512).unwrap();
        // The game cuts towards 0 before it divides.
        let expected =
            if body.id.0 == 1775825628067528714 { ChunkPos::new(game.x - 1, game.y) } else { game };
        assert_eq!(ours, expected, "body {}", body.id);
    }
}

#[test]
fn damaged_files_are_refused() {
    for (file, words) in [
        ("d1_bad_entry_crc.save", "checksum"),
        ("d5_truncated_table.save", "page table"),
        ("d7_bad_magic.save", "not a world of bevy_pixel_world"),
        ("d13_crash_before_flush.save", "checksum"),
    ] {
        let error = PixelWorld::open(path(file), Mode::Strict).unwrap_err();
        assert!(error.is_corrupt() && error.to_string().contains(words), "{file}: {error}");
    }
    let missing = PixelWorld::open(path("none.save"), Mode::Salvage).unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
}

#[test]
fn later_versions_are_not_damaged() {
    let mut bytes = bytes("a4_small10.save");
    bytes[4] = 2;
    assert!(strict(bytes).unwrap_err().is_newer_format());
}

#[test]
fn what_is_no_such_world_is_refused_in_both_modes() {
    for bytes in [Vec::new(), vec![0; 63], vec![0; 5000], b"\x89PNG".repeat(500)] {
        assert_refused(&bytes, "not a world of bevy_pixel_world").ok_or(()).unwrap_err();
    }
}

#[test]
fn an_empty_body_is_dropped_and_reported() {
    let bodies = vec![(7, record(7, 9, &[0, 0b10])), (8, record(8, 9, &[0, 1]))];
    let forged = Forged { bodies, ..Forged::default() };
    let world = strict(forged.bytes()).unwrap();
    assert_eq!(world.bodies.iter().map(|body| body.id.0).collect::<Vec<_>>(), [8]);
    assert!(matches!(world.report.skipped[..], [SkippedPart::EmptyBody { id }] if id.0 == 7));
    assert!(world.report.is_whole());
}

#[test]
fn deltas_that_no_game_writes_are_refused() {
    let sound = || Forged::default().chunk(0, 0, 1, delta(&[(0, [1; 4]), (262_143, [2; 4])]));
    assert_eq!(strict(sound().bytes()).unwrap().chunks[0].payload.delta_entries(), Some(2));
    for (payload, words) in [
        (delta(&[(5, [1; 4]), (5, [2; 4])]), "ascend"),
        (delta(&[(5, [1; 4]), (4, [2; 4])]), "ascend"),
        (delta(&[(262_144, [1; 4])]), "outside"),
        (lz4_flex::block::compress_prepend_size(&[2, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1]), "a delta of 2 cells"),
        (lz4_flex::block::compress_prepend_size(&[0; 6]), "cannot come out"),
        ([u32::MAX.to_le_bytes(), [0; 4]].concat(), "cannot come out"),
        ([(4_u32 + 7 * 262_144).to_le_bytes(), [0; 4]].concat(), "cannot come out"),
        (vec![0; 3], "cannot be a payload"),
    ] {
        let world = assert_refused(&sound().chunk(1, 0, 1, payload).bytes(), words).unwrap();
        assert_eq!(world.chunks.len(), 1);
        assert!(matches!(
            world.report.skipped[..],
            [SkippedPart::Chunk { pos: ChunkPos { x: 1, y: 0, .. }, .. }]
        ));
    }
}

#[test]
fn a_full_chunk_has_all_its_cells() {
    let full = |bytes: usize| lz4_flex::block::compress_prepend_size(&vec![7; bytes]);
    let world = strict(Forged::default().chunk(3, 4, 2, full(CELLS_BYTES)).bytes()).unwrap();
    assert_eq!(world.chunks[0].payload.storage(), PixelStorage::Full);
    assert_refused(&Forged::default().chunk(3, 4, 2, full(CELLS_BYTES - 4)).bytes(), "cannot come out");
    // As many bytes as a delta may have.
    assert_refused(&Forged::default().chunk(3, 4, 2, full(CELLS_BYTES + 7)).bytes(), "instead of 1048576");
}

#[test]
fn counts_offsets_and_doubles_that_cannot_be_are_refused() {
    let one = || Forged::default().chunk(0, 0, 1, delta(&[(0, [1; 4])]));
    let twice = one().chunk(0, 0, 1, delta(&[(0, [2; 4])])).bytes();
    assert_eq!(assert_refused(&twice, "twice").unwrap().chunks.len(), 0);
    // Also if nothing tells where the table is: two answers are none.
    let mut wiped = twice;
    wiped[..64].fill(0);
    let world = PixelWorld::read(wiped, Mode::Salvage).unwrap();
    assert_eq!((world.chunks.len(), world.report.unplaced.len()), (0, 2));
    let mut bytes = one().chunk(1, 0, 1, delta(&[(0, [2; 4])])).bytes();
    let table = bytes.len() - 48;
    // The second entry points where the first does.
    let (first, second) = bytes[table..].split_at_mut(24);
    second[8..20].copy_from_slice(&first[8..20]);
    second[21] = crc8(&second[..21]);
    let world = assert_refused(&bytes, "overlap").unwrap();
    assert_eq!((world.chunks.len(), world.chunks[0].pos.x), (1, 0));
    for (offset, words) in [(u64::MAX, "outside"), (0, "outside"), (67, "outside"), (1 << 40, "outside")] {
        let mut bytes = one().bytes();
        let at = bytes.len() - 24;
        bytes[at + 8..at + 16].copy_from_slice(&offset.to_le_bytes());
        bytes[at + 21] = crc8(&bytes[at..at + 21]);
        assert_refused(&bytes, words);
    }
    for (at, value, words) in [
        (32, u32::MAX, "page table of"),
        (36, u32::MAX, "page table of"),
        (40, u32::MAX, "the page table should be"),
        (44, u32::MAX, "the page table should be"),
        (4, 0x8000 << 16 | 1, "flags 0x8000"),
        (48, 33 << 16 | 512, "tile size 33"),
        (53, u32::MAX, "the index of bodies should be"),
    ] {
        let mut bytes = one().bytes();
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let world = assert_refused(&bytes, words).unwrap();
        assert_eq!(world.chunks.len(), 1, "{words}");
    }
}

#[test]
fn an_index_that_cannot_be_is_refused() {
    let bodies = vec![(7, record(7, 9, &[1, 1])), (8, record(8, 2, &[3]))];
    let bytes = Forged { bodies, ..Forged::default() }.bytes();
    let index = bytes.len() - 8 - 2 * 28;
    let changed = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[index + at] = value;
        bytes
    };
    // The count, an id, an offset, a size; what is salvaged has both bodies, because the records are sound.
    for (at, value, words) in [
        (0, 200, "does not fit"),
        (8, 9, "body 9 in the index is body 7"),
        (8, 8, "twice"),
        (16 + 7, 255, "outside"),
        (24, 1, "body 7 at"),
        (28 + 16, 65, "overlap"),
    ] {
        let world = assert_refused(&changed(at, value), words).unwrap();
        let ids: Vec<u64> = world.bodies.iter().map(|body| body.id.0).collect();
        assert_eq!(ids, [7, 8], "{words}: {:?}", world.report);
    }
}

#[test]
fn an_entry_that_breaks_the_order_is_not_believed() {
    let chunk = |world: Forged, x: i32| world.chunk(x, 0, 1, delta(&[(0, [x as u8; 4])]));
    for (xs, sound) in [
        // Between two neighbours there is one place, whatever the entry says.
        (&[0, 77, 2, 3][..], &[0, 1, 2, 3][..]),
        // Here there are several.
        (&[0, 77, 5, 6], &[0, 5, 6]),
        (&[0, 1, 2, -9], &[0, 1, 2]),
    ] {
        let bytes = xs.iter().fold(Forged::default(), |world, x| chunk(world, *x)).bytes();
        let world = assert_refused(&bytes, "not in its order").unwrap();
        let placed: Vec<i32> = world.chunks.iter().map(|chunk| chunk.pos.x).collect();
        assert_eq!(placed, sound);
        assert_eq!(world.report.unplaced.len(), xs.len() - sound.len());
    }
}

#[test]
fn an_older_version_does_not_take_the_place_of_a_damaged_one() {
    let mut bytes =
        Forged::default().chunk(0, 0, 1, delta(&[(0, [1; 4])])).chunk(1, 0, 1, delta(&[(0, [2; 4])])).bytes();
    let table = bytes.len() - 48;
    // Behind the end lies an old table, which has another payload for the second chunk.
    let mut stale: Vec<u8> = bytes[table..table + 24].to_vec();
    stale[0] = 1;
    stale[21] = crc8(&stale[..21]);
    let second = u64::from_le_bytes(bytes[table + 32..table + 40].try_into().unwrap()) as usize;
    bytes[second] ^= 1;
    bytes[table] ^= 4;
    bytes.extend(stale);
    let world = PixelWorld::read(bytes, Mode::Salvage).unwrap();
    assert_eq!(world.chunks.len(), 0);
    assert!(matches!(world.report.skipped[0], SkippedPart::Chunk { pos: ChunkPos { x: 1, y: 0, .. }, .. }));
}

#[test]
fn a_file_that_is_made_to_be_searched_forever_is_not() {
    // Everywhere the start of a payload that has to be decompressed to be refused.
    let start = [200_000_u32.to_le_bytes(), (4_u32 + 7 * 130_000).to_le_bytes()].concat();
    let mut bytes = bytes("a3_no_chunks.save");
    bytes.extend(start.repeat(1_000_000 / start.len()));
    bytes[32] = 1;
    let world = PixelWorld::read(bytes, Mode::Salvage).unwrap();
    assert!(world.report.skipped.iter().any(|skipped| matches!(skipped, SkippedPart::Search { .. })));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        cut in any::<prop::sample::Index>(),
        is_cut: bool,
    ) {
        let bodies = vec![(7, record(7, 9, &[1, 1])), (8, record(8, 2, &[3]))];
        let forged = Forged { bodies, ..Forged::default() };
        let forged = forged.chunk(-1, 0, 1, delta(&[(0, [1; 4]), (9, [3; 4])])).chunk(0, 0, 0, vec![]);
        let mut bytes = forged.chunk(5, 2, 1, delta(&[])).bytes();
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(world) = PixelWorld::read(bytes.clone(), Mode::Strict) {
            prop_assert!(world.chunks.iter().all(|chunk| chunk.payload.content().is_ok()));
        }
        if let Ok(world) = PixelWorld::read(bytes, Mode::Salvage) {
            prop_assert!(world.chunks.iter().all(|chunk| chunk.payload.content().is_ok()));
            prop_assert!(world.report.unplaced.iter().all(|payload| payload.content().is_ok()));
        }
    }
}

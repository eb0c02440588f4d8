//! What is left of damaged worlds of bevy_pixel_world is found, and placed only where that is certain.

mod import_support;

use std::collections::BTreeMap;

use bonfire_chunks::ChunkPos;
use bonfire_chunks::import::pixel_world::{Mode, PixelWorld, RepairedPart, SkippedPart};
use import_support::*;
use serde_json::Value as Json;

const SMALL: &str = "a4_small10.save";
const TABLE_AT: usize = 69_952;

fn salvage(bytes: Vec<u8>) -> PixelWorld {
    PixelWorld::read(bytes, Mode::Salvage).unwrap()
}

fn salvaged(file: &str) -> PixelWorld {
    let world = PixelWorld::open(path(file), Mode::Salvage).unwrap();
    assert!(!world.report.is_whole());
    world
}

fn chunks(world: &PixelWorld) -> Vec<Json> {
    world.chunks.iter().map(chunk_json).collect()
}

fn unplaced(world: &PixelWorld) -> Vec<Json> {
    world.report.unplaced.iter().map(payload_json).collect()
}

/// A chunk without its place and what depends on it: what is known of a payload that has none.
fn without_place(mut chunk: Json) -> Json {
    let fields = chunk.as_object_mut().unwrap();
    fields.remove("pos");
    fields.remove("pixels_sha256");
    chunk
}

#[test]
fn a_whole_world_needs_no_salvage() {
    let world = PixelWorld::open(path(SMALL), Mode::Salvage).unwrap();
    assert!(world.report.is_whole() && world.report.repaired.is_empty());
    assert_eq!(chunks(&world), expected_chunks(SMALL));
}

#[test]
fn a_wrong_magic_costs_nothing() {
    let world = salvaged("d7_bad_magic.save");
    assert_eq!(chunks(&world), expected_chunks(SMALL));
    assert!(world.report.skipped.is_empty() && world.report.unplaced.is_empty());
}

#[test]
fn a_damaged_entry_between_two_others_is_repaired() {
    let world = salvaged("d1_bad_entry_crc.save");
    assert_eq!(chunks(&world), expected_chunks(SMALL));
    let at = TABLE_AT as u64 + 3 * 24;
    assert_eq!(world.report.repaired, [RepairedPart::EntryRepaired { pos: ChunkPos::new(1, -1), at }]);
    assert!(world.report.skipped.is_empty() && world.report.unplaced.is_empty());
}

#[test]
fn a_flipped_byte_in_a_payload_costs_at_most_that_chunk() {
    // The format cannot show it: the file is read as whole.
    let world = PixelWorld::open(path("d3_payload_bitflip.save"), Mode::Strict).unwrap();
    let (chunks, expected) = (chunks(&world), expected_chunks(SMALL));
    assert_ne!(chunks[0]["pixels_sha256"], expected[0]["pixels_sha256"]);
    assert_eq!(chunks[1..], expected[1..]);
}

#[test]
fn a_cut_table_leaves_its_first_chunks_and_the_payloads_of_the_others() {
    let world = salvaged("d5_truncated_table.save");
    let expected = expected_chunks(SMALL);
    assert_eq!(chunks(&world), expected[..4]);
    let rest: Vec<Json> = expected[4..].iter().cloned().map(without_place).collect();
    assert_eq!(unplaced(&world), rest);
    let six_entries = matches!(world.report.skipped[..], [SkippedPart::Entries { count: 6 }]);
    assert!(six_entries, "{:?}", world.report.skipped);
}

#[test]
fn an_older_copy_places_what_a_cut_table_does_not() {
    let mut world = salvaged("d5_truncated_table.save");
    let older = PixelWorld::open(path(SMALL), Mode::Strict).unwrap();
    assert_eq!(world.place_by(&older).unwrap(), 6);
    assert_eq!(chunks(&world), expected_chunks(SMALL));
    assert!(world.report.unplaced.is_empty());
}

#[test]
fn after_an_append_over_the_table_every_payload_is_found_and_no_place_is_invented() {
    let mut world = salvaged("d13_crash_before_flush.save");
    assert!(world.chunks.is_empty());
    let mut found = unplaced(&world);
    let appended = found.pop().unwrap();
    assert_eq!(found, expected_chunks(SMALL).into_iter().map(without_place).collect::<Vec<_>>());
    assert_eq!(appended["data_offset"], TABLE_AT + 4);
    // With the content: here it is known where each belongs.
    let older = PixelWorld::open(path(SMALL), Mode::Strict).unwrap();
    for (payload, chunk) in world.report.unplaced.iter().zip(&older.chunks) {
        assert_eq!(payload.content().unwrap(), chunk.payload.content().unwrap());
    }
    assert_eq!(world.place_by(&older).unwrap(), 10);
    assert_eq!(chunks(&world), expected_chunks(SMALL));
    assert_eq!(unplaced(&world), [appended]);
}

#[test]
fn a_copy_of_another_world_places_nothing() {
    let mut world = salvaged("d13_crash_before_flush.save");
    let other = PixelWorld::open(path("b_bodies.save"), Mode::Strict).unwrap();
    assert_eq!((world.place_by(&other).unwrap(), world.report.unplaced.len()), (0, 11));
}

#[test]
fn entries_behind_a_short_append_are_still_there() {
    let mut bytes = bytes(SMALL);
    // What the game does: a payload over the start of the table. This one covers four entries.
    let mut raw = 9_u32.to_le_bytes().to_vec();
    for at in 0..9_u8 {
        raw.extend([at, 0, 0, at.wrapping_mul(77), at ^ 0x5A, at.wrapping_mul(29), 200 - at]);
    }
    let payload = lz4_flex::block::compress_prepend_size(&raw);
    assert!((72..96).contains(&(payload.len() + 4)), "{}", payload.len());
    bytes[TABLE_AT..TABLE_AT + 4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    bytes[TABLE_AT + 4..TABLE_AT + 4 + payload.len()].copy_from_slice(&payload);
    let world = salvage(bytes);
    let expected = expected_chunks(SMALL);
    assert_eq!(chunks(&world), expected[4..]);
    let mut found = unplaced(&world);
    assert_eq!(found.pop().unwrap()["delta_entries"], 9);
    assert_eq!(found, expected[..4].iter().cloned().map(without_place).collect::<Vec<_>>());
}

#[test]
fn a_wiped_header_costs_the_seed_and_nothing_else() {
    let mut small = bytes(SMALL);
    small[..64].fill(0);
    let world = salvage(small);
    assert_eq!(chunks(&world), expected_chunks(SMALL));
    assert!(world.report.unplaced.is_empty());
    let mut with_bodies = bytes("b_bodies.save");
    with_bodies[..64].fill(0xAA);
    let world = salvage(with_bodies);
    assert_eq!(chunks(&world), expected_chunks("b_bodies.save"));
    assert_eq!(world.bodies.iter().map(body_json).collect::<Vec<_>>(), expected_bodies("b_bodies.save"));
    assert!(world.unlisted.is_empty());
}

#[test]
fn without_an_index_bodies_are_found_and_called_unlisted() {
    let mut bytes = bytes("b_bodies.save");
    bytes.truncate(204_780);
    let world = salvage(bytes);
    assert_eq!(chunks(&world), expected_chunks("b_bodies.save"));
    assert!(world.bodies.is_empty());
    let unlisted: BTreeMap<u64, Json> =
        world.unlisted.iter().map(|body| (body.id.0, body_json(body))).collect();
    // All that were listed, in their newest version, and some that the game had removed.
    for body in expected_bodies("b_bodies.save") {
        assert_eq!(unlisted[&body["stable_id"].as_str().unwrap().parse().unwrap()], body);
    }
    assert!(unlisted.len() > 18);
    assert!(world.report.skipped.iter().any(|skipped| matches!(skipped, SkippedPart::Index { .. })));
}

#[test]
fn any_byte_of_an_index_may_be_wrong() {
    let bytes = bytes("b_bodies.save");
    let expected = expected_bodies("b_bodies.save");
    let step = 7_usize.checked_div(bonfire_testkit::scale() as usize).unwrap_or(1).max(1);
    for at in (204_780..bytes.len()).step_by(step) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x21;
        let world = salvage(bytes);
        let bodies: Vec<Json> = world.bodies.iter().map(body_json).collect();
        assert_eq!(bodies, expected, "byte {at}: {:?}", world.report);
        assert_eq!(world.chunks.len(), 8);
    }
}

/// Physics that blew up leaves such bodies, and the rest of the world is sound.
#[test]
fn a_body_that_is_nowhere_is_left_out_and_named() {
    let world = PixelWorld::open(path("b_bodies.save"), Mode::Strict).unwrap();
    let lost = world.bodies[3].clone();
    let mut bytes = bytes("b_bodies.save");
    let mut start = lost.id.0.to_le_bytes().to_vec();
    start.extend(lost.position.iter().flat_map(|at| at.to_le_bytes()));
    for at in (0..bytes.len() - 64).filter(|at| bytes[*at..].starts_with(&start)).collect::<Vec<_>>() {
        bytes[at + 8..at + 12].copy_from_slice(&f32::NAN.to_le_bytes());
        let covered: Vec<u8> = [&bytes[at..at + 20], &bytes[at + 32..at + 40]].concat();
        bytes[at + 60] = covered.iter().fold(0, |crc: u8, byte| {
            (0..8).fold(crc ^ byte, |crc, _| if crc & 0x80 == 0 { crc << 1 } else { crc << 1 ^ 0x07 })
        });
    }
    assert!(PixelWorld::read(bytes.clone(), Mode::Strict).unwrap_err().is_corrupt());
    let world = salvage(bytes);
    assert_eq!((world.bodies.len(), world.chunks.len()), (17, 8));
    let named = |skipped: &SkippedPart| matches!(skipped, SkippedPart::Body { id, .. } if *id == lost.id);
    assert!(world.report.skipped.iter().any(named), "{:?}", world.report);
    let directory = tempfile::tempdir().unwrap();
    world.write(directory.path().join("new"), &world.options()).unwrap();
    let mut names: Vec<_> =
        std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["new"]);
}

/// Where each chunk of the small world is, and how.
fn truth() -> BTreeMap<ChunkPos, Json> {
    let world = PixelWorld::open(path(SMALL), Mode::Strict).unwrap();
    world.chunks.iter().map(|chunk| (chunk.pos, payload_json(&chunk.payload))).collect()
}

/// Every chunk that has a place is the one that belongs there.
fn assert_right(world: &PixelWorld, truth: &BTreeMap<ChunkPos, Json>, what: &str) {
    for chunk in &world.chunks {
        assert_eq!(truth.get(&chunk.pos), Some(&payload_json(&chunk.payload)), "{what}: {}", chunk.pos);
    }
}

#[test]
fn no_byte_of_header_and_table_puts_a_chunk_where_it_does_not_belong() {
    let (bytes, truth) = (bytes(SMALL), truth());
    let is_long = bonfire_testkit::scale() > 1;
    let flips: &[u8] = if is_long { &[1, 0x10, 0x80, 0xFF] } else { &[0x81] };
    // A short run takes every byte of the header, and each field of the table in some entry.
    let step = if is_long { 1 } else { 5 };
    for at in (0..64).chain((TABLE_AT..bytes.len()).step_by(step)) {
        for flip in flips {
            let mut bytes = bytes.clone();
            bytes[at] ^= flip;
            let world = salvage(bytes);
            assert_right(&world, &truth, &format!("byte {at}"));
            // One entry at most is lost, and its payload is not.
            let placed = world.chunks.len();
            // Between two chunks of the same row there is only one place.
            let between = at >= TABLE_AT && [1, 2, 3, 6, 7, 8].contains(&((at - TABLE_AT) / 24));
            assert!(placed == 10 || (placed == 9 && at >= TABLE_AT), "byte {at}: {:?}", world.report);
            assert!(placed == 10 || world.report.unplaced.len() == 1, "byte {at}: {:?}", world.report);
            assert!(placed == 10 || !between, "byte {at}: {:?}", world.report);
        }
    }
}

#[test]
fn a_byte_anywhere_else_costs_at_most_its_chunk() {
    let (bytes, truth) = (bytes(SMALL), truth());
    let step = 1009_usize.checked_div(bonfire_testkit::scale() as usize).unwrap_or(1).max(1);
    for at in (64..TABLE_AT).step_by(step).chain([64, 68, 8523, 8524, 8527, 33_849, 33_852]) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x44;
        let world = salvage(bytes);
        assert_right(&world, &truth, &format!("byte {at}"));
        assert!(world.chunks.len() >= 9, "byte {at}: {:?}", world.report);
    }
}

#[test]
fn a_cut_anywhere_leaves_only_what_is_right() {
    let (bytes, truth) = (bytes(SMALL), truth());
    let step = 2003_usize.checked_div(bonfire_testkit::scale() as usize).unwrap_or(1).max(1);
    for len in (0..TABLE_AT).step_by(step).chain((TABLE_AT..bytes.len()).step_by(5)) {
        let cut = bytes[..len].to_vec();
        PixelWorld::read(cut.clone(), Mode::Strict).unwrap_err();
        let Ok(world) = PixelWorld::read(cut, Mode::Salvage) else {
            assert!(len < 64, "{len} bytes");
            continue;
        };
        assert_right(&world, &truth, &format!("{len} bytes"));
        assert_eq!(world.chunks.len(), len.saturating_sub(TABLE_AT) / 24, "{len} bytes");
        let whole = truth.len() - world.chunks.len();
        assert!(len < TABLE_AT || world.report.unplaced.len() == whole, "{len} bytes");
    }
}

//! A reader of chunk files that knows FORMAT.md and nothing else: every byte of a file is what the document says.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use bonfire::engine::SnapshotWriter;
use bonfire::{EntityId, Persist, Registry};
use bonfire_chunks::{ChunkOptions, ChunkPos, ChunkWorld, Dimension, Durability, Layer};
use bonfire_store::disk::{Access, Disk, MemoryDisk};
use bonfire_testkit::disk::Random;
use support::{Hills, SIZE, body, layers, noise, options};

const NAME: &str = "w";
const CONTENT: [u8; 12] = [1, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16];
/// The bit of the kind of frames that belong to pinned moments alone.
const OF_PINS: u8 = 128;

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn crc8(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |crc: u8, byte| {
        (0..8).fold(crc ^ byte, |crc, _| if crc & 0x80 == 0 { crc << 1 } else { crc << 1 ^ 0x07 })
    })
}

/// x, y, z and dimension.
type Place = (i32, i32, i32, u32);

/// The bit of a kind that says that z and dimension follow.
const HAS_DEPTH: u8 = 64;

/// z and dimension, where they are said in their own form: one of them is not 0.
fn depth(bytes: &[u8]) -> (i32, u32) {
    assert_ne!(bytes[..8], [0; 8], "a flat place has the short form");
    (u32_at(bytes, 0).cast_signed(), u32_at(bytes, 4))
}

/// Offset, bytes, storage, codec and layer set, as all kinds of entries have them.
type Where = (u64, u32, u8, u8, u8);

struct Header {
    has_pins: bool,
    entry_bytes: usize,
    count: usize,
    data_start: u64,
    cell_bytes: u8,
    entities: u64,
}

fn header(bytes: &[u8]) -> Header {
    assert_eq!(&bytes[..4], b"PXSW");
    let version = u16_at(bytes, 4);
    assert!(version == 1 || version == 2 && u16_at(bytes, 6) & 2 == 0, "version 2 is not compat");
    assert_eq!((u16_at(bytes, 6) & 1, u16_at(bytes, 6) & !0b1_0111), (1, 0));
    let entry_bytes = if version == 1 { 24 } else { 32 };
    assert_eq!(crc32c::crc32c(&bytes[..61]).to_le_bytes()[..3], bytes[61..64]);
    assert_eq!((u64_at(bytes, 8), u64_at(bytes, 16)), (7, 1_700_000_000), "seed and time");
    assert_eq!((usize::from(u16_at(bytes, 48)), u16_at(bytes, 50)), (SIZE, 4));
    let (count, room) = (u32_at(bytes, 32) as usize, u64::from(u32_at(bytes, 36)));
    let data_start = u64_at(bytes, 40);
    assert!((entry_bytes * count) as u64 <= room && 64 + room <= data_start);
    Header {
        has_pins: u16_at(bytes, 6) & 16 != 0,
        entry_bytes,
        count,
        data_start,
        cell_bytes: bytes[52],
        entities: u64_at(bytes, 53),
    }
}

fn entry(bytes: &[u8]) -> (u8, Place, Where) {
    let place = (u32_at(bytes, 0).cast_signed(), u32_at(bytes, 4).cast_signed(), 0, 0);
    (bytes[21], place, (u64_at(bytes, 8), u32_at(bytes, 16), bytes[20], bytes[22], bytes[23]))
}

fn table(bytes: &[u8], entry_bytes: usize) -> BTreeMap<(u8, Place), Where> {
    let of = |bytes: &[u8]| {
        let (crc, (x, y, ..), at) = entry(bytes);
        assert_eq!(crc8(&[&bytes[..21], &bytes[24..]].concat()), crc);
        let (z, dimension) =
            if entry_bytes == 24 { (0, 0) } else { (u32_at(bytes, 24).cast_signed(), u32_at(bytes, 28)) };
        ((x, y, z, dimension), at)
    };
    let entries: Vec<(Place, Where)> = bytes.chunks_exact(entry_bytes).map(of).collect();
    assert!(entries.is_sorted_by_key(|((x, y, z, dimension), _)| (*dimension, *z, *y, *x)));
    entries.into_iter().map(|(place, at)| ((1, place), at)).collect()
}

struct Frame {
    kind: u8,
    place: Place,
    at: Where,
    generation: u64,
    crc: u32,
}

/// The frame whose data begins at an offset.
fn frame(file: &[u8], offset: u64) -> Frame {
    let at = offset as usize;
    let len = u32_at(file, at - 4) as usize - 32;
    let trailer = &file[at + len..at + len + 32];
    assert_eq!(trailer[..4], [0x9B, 0x42, 0x4E, 0x46]);
    assert_eq!(u32_at(trailer, 16) as usize, len);
    let crc = u32_at(trailer, 28);
    assert_eq!(crc32c::crc32c(&file[at..at + len + 28]), crc);
    let (z, dimension) = if trailer[4] & HAS_DEPTH == 0 { (0, 0) } else { depth(&file[at + len - 8..]) };
    Frame {
        kind: trailer[4] & !HAS_DEPTH,
        place: (u32_at(trailer, 8).cast_signed(), u32_at(trailer, 12).cast_signed(), z, dimension),
        at: (offset, len as u32, trailer[5], trailer[6], trailer[7]),
        generation: u64_at(trailer, 20),
        crc,
    }
}

fn data<'f>(file: &'f [u8], frame: &Frame) -> &'f [u8] {
    let depth = if (frame.place.2, frame.place.3) == (0, 0) { 0 } else { 8 };
    &file[frame.at.0 as usize..][..frame.at.1 as usize - depth]
}

/// So many list entries, to the end of the bytes.
fn list(mut bytes: &[u8], count: u32) -> Vec<((u8, Place), Where)> {
    let mut entries = Vec::new();
    for _ in 0..count {
        let (mut kind, mut place, at) = entry(bytes);
        bytes = &bytes[24..];
        if kind & HAS_DEPTH != 0 {
            (place.2, place.3) = depth(bytes);
            (bytes, kind) = (&bytes[8..], kind & !HAS_DEPTH);
        }
        entries.push(((kind, place), at));
    }
    assert!(bytes.is_empty());
    entries
}

/// The list in the frame at an offset, of a pin or of a return.
fn counted_list(file: &[u8], offset: u64) -> Vec<((u8, Place), Where)> {
    let bytes = data(file, &frame(file, offset));
    list(&bytes[4..], u32_at(bytes, 0))
}

fn check_frame(file: &[u8], key: (u8, Place), at: Where) {
    let frame = frame(file, at.0);
    assert_eq!(((frame.kind & !OF_PINS, frame.place), frame.at), (key, at));
}

/// Name, metadata and frames of each pin.
fn pins(file: &[u8], all: &BTreeMap<(u8, Place), Where>) -> BTreeMap<String, Pin> {
    let numbers: BTreeSet<i32> = all.keys().filter(|key| key.0 == 14).map(|key| key.1.0).collect();
    let lists = |number: i32| {
        let parts = all.iter().filter(move |((kind, place), _)| *kind == 15 && place.0 == number);
        let entries = parts.flat_map(|(_, at)| counted_list(file, at.0));
        entries.collect::<BTreeMap<(u8, Place), Where>>()
    };
    let mut found = BTreeMap::new();
    let mut places = all.clone();
    places.retain(|key, _| key.0 < 14);
    for number in numbers.into_iter().rev() {
        let of_copy = |copy: i32| data(file, &frame(file, all[&(14, (number, copy, 0, 0))].0));
        let bytes = of_copy(0);
        assert_eq!((bytes[0], bytes), (1, of_copy(1)));
        let name_end = 18 + usize::from(bytes[17]);
        let metadata = bytes[name_end + 2..].to_vec();
        assert_eq!(metadata.len(), usize::from(u16_at(bytes, name_end)));
        // From the newest to the oldest: each has what the next one has, but for its list.
        for (key, at) in lists(number) {
            match at.0 {
                0 => drop(places.remove(&key)),
                _ => drop(places.insert(key, at)),
            }
        }
        places.iter().for_each(|(key, at)| check_frame(file, *key, *at));
        let name = String::from_utf8(bytes[18..name_end].to_vec()).unwrap();
        let pin = Pin { generation: u64_at(bytes, 1), metadata, places: places.clone() };
        assert!(found.insert(name, pin).is_none(), "the newest of a name counts");
    }
    found
}

struct Pin {
    generation: u64,
    metadata: Vec<u8>,
    places: BTreeMap<(u8, Place), Where>,
}

/// Where everything is.
fn read(file: &[u8]) -> BTreeMap<(u8, Place), Where> {
    let header = header(file);
    let mut all = table(&file[64..64 + header.entry_bytes * header.count], header.entry_bytes);
    let section = frame(file, header.entities);
    assert_eq!(section.kind, 2);
    let low = u64::from(section.place.0.cast_unsigned());
    let mut side = low | u64::from(section.place.1.cast_unsigned()) << 32;
    let mut sides = Vec::new();
    while side != 0 {
        let frame = frame(file, side);
        assert_eq!(frame.kind, 10);
        let data = data(file, &frame);
        sides.push(list(&data[12..], u32_at(data, 8)));
        assert!(u64_at(data, 0) < side, "it leads to the start of the file");
        side = u64_at(data, 0);
    }
    let mut apply = |(key, at): ((u8, Place), Where)| match at.0 {
        0 => drop(all.remove(&key)),
        _ => drop(all.insert(key, at)),
    };
    sides.into_iter().rev().flatten().for_each(&mut apply);
    let mut at = header.entities + u64::from(section.at.1) + 32;
    let (mut written, mut of_pins, mut generation) = (BTreeMap::new(), Vec::new(), None);
    while at < file.len() as u64 {
        let frame = frame(file, at + 4);
        at = frame.at.0 + u64::from(frame.at.1) + 32;
        if frame.kind & OF_PINS != 0 {
            of_pins.push(frame);
            continue;
        }
        if CONTENT.contains(&frame.kind) {
            if frame.at.2 == 255 {
                assert!(data(file, &frame).is_empty(), "what is removed has no data");
            }
            written.insert((frame.kind, frame.place), frame);
            continue;
        }
        if frame.kind != 3 {
            continue;
        }
        let data = data(file, &frame);
        self::header(&data[..64]);
        let (sealed, count) = (u32_at(data, 76), u32_at(data, 80));
        assert_eq!(sealed, 0);
        assert!(u64_at(data, 64) <= frame.generation);
        assert!(generation.is_none_or(|last| frame.generation == last + 1));
        let is_fold_itself = generation.is_none() && written.is_empty();
        generation = Some(frame.generation);
        let entries = list(&data[84..], count);
        let mut crcs = Vec::new();
        for (key, at) in entries.iter().filter(|(_, at)| at.0 != 0 && !is_fold_itself) {
            let of = &written[key];
            assert_eq!((of.at, of.generation), (*at, frame.generation));
            crcs.extend_from_slice(&of.crc.to_le_bytes());
        }
        for moved in of_pins.iter().filter(|moved| moved.generation == frame.generation) {
            crcs.extend_from_slice(&moved.crc.to_le_bytes());
        }
        if !is_fold_itself {
            assert_eq!(crc32c::crc32c(&crcs), u32_at(data, 72));
            assert_eq!(written.len(), entries.len(), "each frame is listed");
        }
        let returned = entries.iter().filter(|((kind, _), at)| *kind == 16 && at.0 != 0);
        let returned: Vec<_> = returned.flat_map(|(_, at)| counted_list(file, at.0)).collect();
        (written, of_pins) = (BTreeMap::new(), Vec::new());
        entries.into_iter().chain(returned).for_each(&mut apply);
    }
    for (key, at) in &all {
        check_frame(file, *key, *at);
        assert!(header.has_pins || key.0 < 14, "the flag says that there are pins");
    }
    let mut at = header.data_start;
    while at < file.len() as u64 {
        let frame = frame(file, at + 4);
        at = frame.at.0 + u64::from(frame.at.1) + 32;
    }
    all
}

#[derive(Persist)]
#[persist(key = "doc.health")]
struct Health(f32);

fn snapshot(number: u32) -> Vec<u8> {
    let registry = Registry::new().with::<Health>().unwrap();
    let mut writer = SnapshotWriter::new(&registry);
    writer.archetype(&[EntityId::new(number, 1)]).unwrap().column(&[Health(3.5)]).unwrap();
    writer.finish().unwrap().to_bytes().unwrap().to_vec()
}

fn places(all: &BTreeMap<(u8, Place), Where>, kind: u8) -> Vec<Place> {
    let mut places: Vec<Place> = all.keys().filter(|key| key.0 == kind).map(|key| key.1).collect();
    places.sort_by_key(|(x, y, z, dimension)| (*dimension, *z, *y, *x));
    places
}

fn place_of(pos: ChunkPos) -> Place {
    (pos.x, pos.y, pos.z, pos.dimension)
}

fn compare_places(all: &BTreeMap<(u8, Place), Where>, world: &ChunkWorld) {
    let pairs = |found: Vec<ChunkPos>| found.iter().map(|pos| place_of(*pos)).collect::<Vec<_>>();
    let everywhere = bonfire_chunks::ChunkRect::ALL;
    assert_eq!(places(all, 1), pairs(world.range(everywhere)));
    assert_eq!(places(all, 5), pairs(world.chunks_with_bodies(everywhere)));
    assert_eq!(places(all, 6), pairs(world.chunks_with_entities(everywhere)));
}

fn compare(disk: &MemoryDisk, world: &ChunkWorld) {
    let file = disk.open(NAME, Access::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let all = read(&bytes);
    compare_places(&all, world);
    let pins = pins(&bytes, &all);
    assert!(world.pins().iter().map(|pin| &pin.name).collect::<BTreeSet<_>>().into_iter().eq(pins.keys()));
    for listed in world.pins() {
        let pin = &pins[&listed.name];
        assert_eq!((pin.generation, &pin.metadata), (listed.generation, &listed.metadata));
        compare_places(&pin.places, &world.at(&listed.name).unwrap());
    }
    let places = |kind: u8| places(&all, kind);
    let of_dimensions = world.dimensions().flat_map(|number| [(0, 0, 0, number), (0, 1, 0, number)]);
    let has_all = bytes[4] == 2 || world.dimensions().count() == 1;
    assert!(!has_all || places(7) == of_dimensions.collect::<Vec<_>>());
    let parts: Vec<(Place, Vec<u8>)> = places(13)
        .into_iter()
        .map(|place| (place, data(&bytes, &frame(&bytes, all[&(13, place)].0)).to_vec()))
        .collect();
    compare_ids(&parts, world);
}

/// The hash of an id in the index of ids.
fn hash_of_id(kind: u8, id: u64) -> u32 {
    let mixed = (id ^ u64::from(kind) << 63).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32) as u32
}

/// The parts of the index list every body once, where the world has it, and cover every hash once.
fn compare_ids(parts: &[(Place, Vec<u8>)], world: &ChunkWorld) {
    let mut found = BTreeMap::new();
    for ((bits, part_depth, ..), data) in parts {
        let mask = (1_u64 << part_depth) - 1;
        assert!(u32_at(data, 0) <= 64 && u64::from(bits.cast_unsigned()) <= mask);
        let (mut entry, mut last) = (&data[4..], None);
        for _ in 0..u32_at(data, 0) {
            let (kind, id) = (entry[0] & !HAS_DEPTH, u64_at(entry, 1));
            assert!(last.is_none_or(|last| last < (kind, id)));
            last = Some((kind, id));
            assert_eq!(u64::from(hash_of_id(kind, id)) & mask, u64::from(bits.cast_unsigned()));
            let has_depth = entry[0] & HAS_DEPTH != 0;
            let (z, dimension) = if has_depth { depth(&entry[17..]) } else { (0, 0) };
            let pos = (u32_at(entry, 9).cast_signed(), u32_at(entry, 13).cast_signed(), z, dimension);
            assert!(found.insert((kind, id), pos).is_none(), "an id is listed once");
            entry = &entry[if has_depth { 25 } else { 17 }..];
        }
        assert!(entry.is_empty());
    }
    let shares: u64 = parts.iter().map(|((_, depth, ..), _)| 1_u64 << (32 - depth)).sum();
    assert!(parts.is_empty() || shares == 1 << 32, "every hash has a part");
    let mut expected = BTreeMap::new();
    for pos in world.chunks_with_bodies(bonfire_chunks::ChunkRect::ALL) {
        let bodies = world.read_bodies(pos).unwrap();
        expected.extend(bodies.iter().map(|body| ((0, body.id.0), place_of(pos))));
    }
    assert_eq!(found, expected);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pinning {
    Never,
    /// Moments are pinned, removed and returned to.
    Often,
}

fn step_pins(world: &ChunkWorld, step: i32) {
    let name = |number: i32| format!("pin {}", number % 5);
    if step % 3 == 2 {
        world.pin(name(step), format!("step {step}")).unwrap();
    }
    if step % 7 == 6 {
        world.return_to(&world.pins()[0].name).unwrap();
    }
    if step % 10 == 8 {
        world.unpin(&name(step * 3)).unwrap();
    }
}

fn walk_through(options: &ChunkOptions, pinning: Pinning) {
    let disk = MemoryDisk::new();
    let open = || options.open_on(disk.clone(), NAME, Access::Write).unwrap();
    let mut world = open();
    compare(&disk, &world);
    for step in 0..60_i32 {
        let mut edit = world.edit();
        for n in 0..3 {
            edit.put((step * 3 + n, -step), noise(step as u64 * 8 + n as u64));
        }
        let at = [step as f32 * SIZE as f32 + 1.0, 1.0];
        edit.put_bodies((step, 0), [body(step as u64 % 7 + 1, at)]);
        // So many that a part of the index of ids is split.
        (0..5).for_each(|n| _ = edit.put_body(body(100 + step as u64 * 5 + n, [at[0], 20.0])));
        edit.put_entities((step, 5), snapshot(step as u32));
        if let Some(cubes) = world.shape(3) {
            let side = cubes.chunk_size as usize;
            let cube = ChunkPos::new_3d(step % 7, step % 5, step % 3 - 1).in_dimension(3);
            edit.put(cube, Random::new(step as u64).bytes(side.pow(3) * 4));
            let other = ChunkPos::new(step % 9, 0).in_dimension(4);
            edit.put(other, noise(step as u64)).put_entities(other, snapshot(step as u32));
            edit.put_body_in(4, body(900 + step as u64 % 5, [at[0], 1.0]));
            if step % 4 == 2 {
                edit.remove(ChunkPos::new_3d(step % 6, step % 5, 0).in_dimension(3));
            }
        }
        if step % 3 == 0 {
            edit.remove((step * 2, -step / 3)).remove_entities((step / 2, 5));
        }
        edit.commit(if step % 4 == 1 { Durability::Buffered } else { Durability::Synced }).unwrap();
        drop(edit);
        compare(&disk, &world);
        if pinning == Pinning::Often {
            step_pins(&world, step);
            compare(&disk, &world);
        }
        match step % 16 {
            7 => world.compact(|_, _| {}).unwrap(),
            3 | 11 => {
                world.close().unwrap();
                compare(&disk, &world);
                world = open();
                compare(&disk, &world);
            }
            _ => {}
        }
    }
}

#[test]
fn files_are_as_the_document_says() {
    for pinning in [Pinning::Never, Pinning::Often] {
        walk_through(&options(), pinning);
        walk_through(&options().eager().compact_above(None).generator(Hills { version: 1 }), pinning);
        walk_through(&options().compat(), pinning);
        let cubes = Dimension::new(layers()).chunk_size(4).three_dimensional();
        let squares = Dimension::new(layers()).chunk_size(SIZE as u16).seed(9).tile_size(2);
        walk_through(&options().dimension(3, cubes).dimension(4, squares), pinning);
    }
}

#[test]
fn the_header_has_the_bytes_of_a_cell_of_the_current_layers() {
    let disk = MemoryDisk::new();
    let world = options().open_on(disk.clone(), NAME, Access::Write).unwrap();
    world.edit().put((0, 0), noise(1)).commit(Durability::Synced).unwrap();
    world.close().unwrap();
    let layers = layers().with(Layer::new("heat", 1));
    let options =
        ChunkOptions::new(layers).chunk_size(SIZE as u16).tile_size(4).seed(7).created(1_700_000_000);
    let world = options.open_on(disk.clone(), NAME, Access::Write).unwrap();
    world.edit().put((1, 0), vec![3; SIZE * SIZE * 5]).commit(Durability::Synced).unwrap();
    world.close().unwrap();
    let file = disk.open(NAME, Access::Read).unwrap();
    let mut bytes = [0; 64];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(header(&bytes).cell_bytes, 5);
}

//! A reader of chunk files that knows FORMAT.md and nothing else: every byte of a file is what the document says.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use bonfire::engine::SnapshotWriter;
use bonfire::{EntityId, Persist, Registry};
use bonfire_chunks::{ChunkOptions, ChunkWorld, Durability, Layer};
use bonfire_store::disk::{Access, Disk, MemoryDisk};
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

type Place = (i32, i32);

/// Offset, bytes, storage, codec and layer set, as all kinds of entries have them.
type Where = (u64, u32, u8, u8, u8);

struct Header {
    has_pins: bool,
    count: usize,
    data_start: u64,
    cell_bytes: u8,
    entities: u64,
}

fn header(bytes: &[u8]) -> Header {
    assert_eq!(&bytes[..4], b"PXSW");
    assert_eq!((u16_at(bytes, 4), u16_at(bytes, 6) & 1, u16_at(bytes, 6) & !0b1_0111), (1, 1, 0));
    assert_eq!(crc32c::crc32c(&bytes[..61]).to_le_bytes()[..3], bytes[61..64]);
    assert_eq!((u64_at(bytes, 8), u64_at(bytes, 16)), (7, 1_700_000_000), "seed and time");
    assert_eq!((usize::from(u16_at(bytes, 48)), u16_at(bytes, 50)), (SIZE, 4));
    let (count, room) = (u32_at(bytes, 32) as usize, u64::from(u32_at(bytes, 36)));
    let data_start = u64_at(bytes, 40);
    assert!(24 * count as u64 <= room && 64 + room <= data_start);
    Header {
        has_pins: u16_at(bytes, 6) & 16 != 0,
        count,
        data_start,
        cell_bytes: bytes[52],
        entities: u64_at(bytes, 53),
    }
}

fn entry(bytes: &[u8]) -> (u8, Place, Where) {
    let place = (u32_at(bytes, 0).cast_signed(), u32_at(bytes, 4).cast_signed());
    (bytes[21], place, (u64_at(bytes, 8), u32_at(bytes, 16), bytes[20], bytes[22], bytes[23]))
}

fn table(bytes: &[u8]) -> BTreeMap<(u8, Place), Where> {
    let entries: Vec<_> = bytes.chunks_exact(24).map(|bytes| (bytes, entry(bytes))).collect();
    assert!(entries.iter().all(|(bytes, (crc, ..))| crc8(&bytes[..21]) == *crc));
    assert!(entries.is_sorted_by_key(|(_, (_, (x, y), _))| (*y, *x)));
    entries.into_iter().map(|(_, (_, place, at))| ((1, place), at)).collect()
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
    Frame {
        kind: trailer[4],
        place: (u32_at(trailer, 8).cast_signed(), u32_at(trailer, 12).cast_signed()),
        at: (offset, len as u32, trailer[5], trailer[6], trailer[7]),
        generation: u64_at(trailer, 20),
        crc,
    }
}

fn data<'f>(file: &'f [u8], frame: &Frame) -> &'f [u8] {
    &file[frame.at.0 as usize..][..frame.at.1 as usize]
}

fn list(bytes: &[u8]) -> Vec<((u8, Place), Where)> {
    bytes.chunks_exact(24).map(entry).map(|(kind, place, at)| ((kind, place), at)).collect()
}

/// The list in the frame at an offset, of a pin or of a return.
fn counted_list(file: &[u8], offset: u64) -> Vec<((u8, Place), Where)> {
    let bytes = data(file, &frame(file, offset));
    assert_eq!(bytes.len(), 4 + 24 * u32_at(bytes, 0) as usize);
    list(&bytes[4..])
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
        let of_copy = |copy: i32| data(file, &frame(file, all[&(14, (number, copy))].0));
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
    let mut all = table(&file[64..64 + 24 * header.count]);
    let section = frame(file, header.entities);
    assert_eq!(section.kind, 2);
    let low = u64::from(section.place.0.cast_unsigned());
    let mut side = low | u64::from(section.place.1.cast_unsigned()) << 32;
    let mut sides = Vec::new();
    while side != 0 {
        let frame = frame(file, side);
        assert_eq!(frame.kind, 10);
        let data = data(file, &frame);
        assert_eq!(data.len(), 12 + 24 * u32_at(data, 8) as usize);
        sides.push(list(&data[12..]));
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
                assert_eq!(frame.at.1, 0, "what is removed has no data");
            }
            written.insert((frame.kind, frame.place), frame);
            continue;
        }
        if frame.kind != 3 {
            continue;
        }
        let data = data(file, &frame);
        self::header(&data[..64]);
        let (sealed, count) = (u32_at(data, 76) as usize, u32_at(data, 80) as usize);
        assert_eq!((sealed, data.len()), (0, 84 + 24 * count));
        assert!(u64_at(data, 64) <= frame.generation);
        assert!(generation.is_none_or(|last| frame.generation == last + 1));
        let is_fold_itself = generation.is_none() && written.is_empty();
        generation = Some(frame.generation);
        let entries = list(&data[84..]);
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
    places.sort_by_key(|(x, y)| (*y, *x));
    places
}

fn compare_places(all: &BTreeMap<(u8, Place), Where>, world: &ChunkWorld) {
    let pairs =
        |found: Vec<bonfire_chunks::ChunkPos>| found.iter().map(|pos| (pos.x, pos.y)).collect::<Vec<_>>();
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
    assert_eq!(places(7), [(0, 0), (0, 1)]);
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
    for ((bits, depth), data) in parts {
        let mask = (1_u64 << depth) - 1;
        assert_eq!(data.len(), 4 + 17 * u32_at(data, 0) as usize);
        assert!(u32_at(data, 0) <= 64 && u64::from(bits.cast_unsigned()) <= mask);
        let entries: Vec<&[u8]> = data[4..].chunks_exact(17).collect();
        assert!(entries.is_sorted_by_key(|entry| (entry[0], u64_at(entry, 1))));
        for entry in entries {
            let (kind, id) = (entry[0], u64_at(entry, 1));
            assert_eq!(u64::from(hash_of_id(kind, id)) & mask, u64::from(bits.cast_unsigned()));
            let pos = (u32_at(entry, 9).cast_signed(), u32_at(entry, 13).cast_signed());
            assert!(found.insert((kind, id), pos).is_none(), "an id is listed once");
        }
    }
    let shares: u64 = parts.iter().map(|((_, depth), _)| 1_u64 << (32 - depth)).sum();
    assert!(parts.is_empty() || shares == 1 << 32, "every hash has a part");
    let mut expected = BTreeMap::new();
    for pos in world.chunks_with_bodies(bonfire_chunks::ChunkRect::ALL) {
        let bodies = world.read_bodies(pos).unwrap();
        expected.extend(bodies.iter().map(|body| ((0, body.id.0), (pos.x, pos.y))));
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

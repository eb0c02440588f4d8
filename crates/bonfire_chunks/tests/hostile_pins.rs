//! Pins that somebody made to do harm: what they name is an error or what was saved under that place, and the present is as it
//! was. Nothing panics, and no list costs more than its bytes are worth.

mod crafted;

use std::collections::BTreeMap;

use bonfire::Watch;
use bonfire_chunks::{ChunkOptions, ChunkPos, ChunkWorld, Durability, Layer, Layers, Persistence};
use bonfire_store::disk::{Access, MemoryDisk};
use bonfire_testkit::disk::Random;
use bonfire_testkit::scale;
use crafted::{CHUNK, CHUNK_BYTES, Entry, File, NAME, SETTINGS, SIZE};

const PIN: u8 = 14;
const LIST: u8 = 15;
const RETURN: u8 = 16;

fn options() -> ChunkOptions {
    let material = Layer::new("m", 1).persistence(Persistence::Always);
    ChunkOptions::new(Layers::new().with(material)).chunk_size(SIZE).tile_size(2).threads(1)
}

fn pin(name: &str, metadata: &[u8]) -> Vec<u8> {
    let mut bytes = vec![1];
    bytes.extend(1_u64.to_le_bytes());
    bytes.extend(0_u64.to_le_bytes());
    bytes.push(name.len() as u8);
    bytes.extend(name.as_bytes());
    bytes.extend((metadata.len() as u16).to_le_bytes());
    bytes.extend(metadata);
    bytes
}

fn list(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = (entries.len() as u32).to_le_bytes().to_vec();
    entries.iter().for_each(|entry| bytes.extend(entry.of_list()));
    bytes
}

fn add(file: &mut File, kind: u8, pos: (i32, i32), data: &[u8]) {
    file.header.flags |= 16;
    let entry = file.append(kind, pos, [0; 3], data);
    file.side.push(entry);
}

fn add_pin(file: &mut File, number: i32, name: &str, entries: &[Entry]) {
    for copy in 0..2 {
        add(file, PIN, (number, copy), &pin(name, b"made by hand"));
    }
    add(file, LIST, (number, 0), &list(entries));
}

/// A frame that is not of the present.
fn old_chunk(file: &mut File, pos: (i32, i32), fill: u8) -> Entry {
    let entry = file.chunk(pos, fill);
    file.table.pop();
    entry
}

type Cells = BTreeMap<ChunkPos, Vec<u8>>;

fn cells(world: &ChunkWorld) -> Cells {
    world.iter().filter_map(|pos| Some((pos, world.read(pos).ok()??))).collect()
}

/// Uses everything that there is. Chunks of the present are `present`; any other cells are of their place: x and y.
fn survive(bytes: &[u8], present: &Cells) -> Vec<bonfire::Result<ChunkWorld>> {
    let mut worlds = Vec::new();
    for access in [Access::Read, Access::Write] {
        let disk = MemoryDisk::with_files([(NAME.to_owned(), bytes.to_vec())]);
        let watch = Watch::new();
        let opened = options().watch(&watch).open_on(disk.clone(), NAME, access);
        assert!(watch.steps() < bytes.len() as u64 * 100 + (1 << 20), "{} steps", watch.steps());
        let Ok(world) = opened.map_err(|error| worlds.push(Err(error))) else { continue };
        assert_eq!(&cells(&world), present);
        for pin in world.pins() {
            let Ok(at) = world.at(&pin.name) else { continue };
            for (pos, cells) in cells(&at) {
                assert!(
                    cells.iter().all(|cell| i32::from(*cell) == pos.x * 10 + pos.y),
                    "{pos} has other cells"
                );
            }
        }
        let _ = (world.info(), world.check(|_, _| {}));
        if access == Access::Write {
            let names: Vec<String> = world.pins().into_iter().map(|pin| pin.name).collect();
            world.compact(|_, _| {}).expect("a disk in memory");
            assert_eq!(&cells(&world), present);
            for name in names {
                let _ = world.return_to(&name);
                let _ = world.edit().put((50, 50), vec![3; CHUNK_BYTES]).commit(Durability::Synced);
                let _ = world.unpin(&name);
            }
            let _ = world.pin("of today", []);
            let _ = world.compact(|_, _| {});
            let before = cells(&world);
            drop(world);
            let world = options().open_on(disk, NAME, access).expect("we have written it");
            assert_eq!(cells(&world), before);
            worlds.push(Ok(world));
        } else {
            worlds.push(Ok(world));
        }
    }
    worlds
}

fn present() -> (File, Cells) {
    let mut file = File::new(8);
    let mut cells = Cells::new();
    for x in 0..3 {
        file.chunk((x, 0), x as u8 * 10);
        cells.insert(ChunkPos::new(x, 0), vec![x as u8 * 10; CHUNK_BYTES]);
    }
    (file, cells)
}

#[test]
fn a_pin_that_was_made_by_hand_is_one() {
    let (mut file, present) = present();
    let old = [old_chunk(&mut file, (7, 1), 71), old_chunk(&mut file, (0, 0), 0)];
    let gone = Entry { kind: CHUNK, pos: (1, 0), offset: 0, len: 0, tag: [0; 3], ..Entry::default() };
    add_pin(&mut file, 4, "old", &[&old[..], &[gone]].concat());
    let bytes = file.finish();
    for world in survive(&bytes, &present) {
        assert!(world.is_ok());
    }
    let world =
        options().open_on(MemoryDisk::with_files([(NAME.to_owned(), bytes)]), NAME, Access::Read).unwrap();
    let at = world.at("old").unwrap();
    assert_eq!(at.iter().collect::<Vec<_>>(), [(0, 0), (2, 0), (7, 1)].map(ChunkPos::from));
    assert_eq!(at.read((7, 1)).unwrap(), Some(vec![71; CHUNK_BYTES]));
}

#[test]
fn lists_that_lead_anywhere_are_errors_of_their_chunk() {
    let offsets = [1, 3, 63, 70, 300, 5000, 1 << 40, u64::MAX - 3, u64::MAX];
    for offset in offsets {
        for len in [0, 16, 17, 5000, u32::MAX] {
            for kind in [LIST, RETURN] {
                let (mut file, present) = present();
                let entry =
                    Entry { kind: CHUNK, pos: (7, 1), offset, len, tag: [2, 1, 0], ..Entry::default() };
                add_pin(&mut file, 1, "lies", &[entry]);
                if kind == RETURN {
                    add(&mut file, RETURN, (1, 0), &list(&[entry]));
                }
                survive(&file.finish(), &present);
            }
        }
    }
}

/// A list that says of one chunk what another one is.
#[test]
fn a_chunk_of_a_pin_is_never_that_of_another_place() {
    let (mut file, present) = present();
    let other = Entry { pos: (5, 5), ..file.table[1] };
    let settings = Entry { kind: CHUNK, pos: (6, 6), ..file.side[0] };
    let own = file.table[1];
    add_pin(&mut file, 1, "lies", &[other, settings]);
    // One that says nothing wrong has the same frame.
    add_pin(&mut file, 2, "does not lie", &[own]);
    let bytes = file.finish();
    survive(&bytes, &present);
    let world =
        options().open_on(MemoryDisk::with_files([(NAME.to_owned(), bytes)]), NAME, Access::Read).unwrap();
    for pos in [(5, 5), (6, 6)] {
        assert!(world.at("lies").unwrap().read(pos).unwrap_err().is_corrupt());
    }
    let kept = world.at("does not lie").unwrap().read((1, 0)).unwrap();
    assert_eq!(kept, Some(vec![10; CHUNK_BYTES]));
}

#[test]
fn lists_of_what_no_pin_has_and_pins_without_sense_are_damaged() {
    let entry =
        |kind: u8| Entry { kind, pos: (0, 0), offset: 300, len: 16, tag: [2, 1, 0], ..Entry::default() };
    let wrong: Vec<Vec<u8>> = vec![
        vec![],
        vec![1],
        u32::MAX.to_le_bytes().to_vec(),
        list(&[entry(SETTINGS)]),
        list(&[entry(PIN)]),
        list(&[entry(3)]),
        [list(&[]), vec![0]].concat(),
    ];
    for data in wrong {
        let (mut file, present) = present();
        add_pin(&mut file, 1, "before", &[]);
        add(&mut file, LIST, (1, 1), &data);
        add_pin(&mut file, 2, "after", &[]);
        let bytes = file.finish();
        survive(&bytes, &present);
        let disk = MemoryDisk::with_files([(NAME.to_owned(), bytes)]);
        let world = options().open_on(disk, NAME, Access::Write).unwrap();
        let is_damaged =
            |world: &ChunkWorld| world.pins().iter().map(|pin| pin.is_damaged).collect::<Vec<_>>();
        assert_eq!(is_damaged(&world), [true, false]);
        let error = world.at("before").err().unwrap();
        assert!(error.is_corrupt() && error.to_string().contains("`before`"), "{error}");
        world.compact(|_, _| {}).unwrap();
        assert_eq!(is_damaged(&world), [true, false], "a compaction does not hide it");
        assert!(world.unpin("before").unwrap());
        assert_eq!(is_damaged(&world), [false]);
    }
    for data in [vec![], vec![1; 5], pin("", b""), [pin("x", b""), vec![0]].concat(), vec![0xFF; 30]] {
        let (mut file, present) = present();
        for copy in 0..2 {
            add(&mut file, PIN, (1, copy), &data);
        }
        survive(&file.finish(), &present);
    }
    let (mut file, _) = present();
    let mut newer = pin("x", b"");
    newer[0] = 9;
    add(&mut file, PIN, (1, 0), &newer);
    let error = survive(&file.finish(), &Cells::new()).remove(0).unwrap_err();
    assert!(error.is_newer_format(), "{error}");
}

/// The last number that there is, and many pins of one name.
#[test]
fn numbers_and_names_at_their_ends() {
    let (mut file, present) = present();
    add_pin(&mut file, -1, "last", &[]);
    let bytes = file.finish();
    survive(&bytes, &present);
    let world =
        options().open_on(MemoryDisk::with_files([(NAME.to_owned(), bytes)]), NAME, Access::Write).unwrap();
    let error = world.pin("one more", []).unwrap_err();
    assert!(error.is_limit() && error.to_string().contains("save_to"), "{error}");
    assert_eq!(world.pins().len(), 1);

    let (mut file, present) = self::present();
    for number in 0..3000 {
        add_pin(&mut file, number, "same", &[]);
    }
    for result in survive(&file.finish(), &present) {
        assert!(result.unwrap().pins().len() <= 1);
    }
}

#[test]
fn random_bytes_in_the_frames_of_pins_do_no_harm() {
    let mut random = Random::new(5);
    for _ in 0..150 * scale() {
        let (mut file, present) = present();
        let old = old_chunk(&mut file, (7, 1), 71);
        for number in 1..4 {
            add_pin(&mut file, number, &format!("pin {number}"), &[old]);
        }
        for _ in 0..random.below(4) {
            let kind = *random.pick(&[PIN, LIST, RETURN]);
            let len = random.below(80);
            let mut data = random.bytes(len);
            if random.chance(60) {
                let mut entries = list(&vec![old; random.below(3)]);
                if let Some(at) = random.below(entries.len() + 1).checked_sub(1) {
                    entries[at] ^= random.bytes(1)[0];
                }
                data = entries;
            }
            add(&mut file, kind, (random.below(5) as i32, random.below(3) as i32), &data);
        }
        survive(&file.finish(), &present);
    }
}

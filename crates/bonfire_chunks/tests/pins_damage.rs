//! Damage of worlds with pinned moments, some of them with three dimensions. Without header, table and side index everything is found again: the present, each pinned
//! moment, and nothing of a future that the world has left. A flipped byte never makes something else of a pin.

mod script;

use std::sync::OnceLock;

use bonfire_chunks::{ChunkPos, ChunkWorld, Durability};
use bonfire_store::disk::{Access, Disk, MemoryDisk};
use bonfire_testkit::disk::Random;
use bonfire_testkit::scale;
use script::{CHUNK_BYTES, Model, NAME, Shape, body, random_edit};

const HEADER_BYTES: usize = 64;
/// The kind of the frames that end saves.
const COMMIT: u8 = 3;
const CHUNK: u8 = 1;

/// A world whose bytes are damaged, and what it holds.
struct Sample {
    shape: Shape,
    bytes: Vec<u8>,
    model: Model,
}

fn file_bytes(disk: &MemoryDisk) -> Vec<u8> {
    let file = disk.open(NAME, Access::Read).expect("it is there");
    let mut bytes = vec![0; usize::try_from(file.len().expect("a disk in memory")).expect("a small file")];
    file.read_exact_at(&mut bytes, 0).expect("a disk in memory");
    bytes
}

fn open(shape: Shape, bytes: &[u8], access: Access) -> bonfire::Result<ChunkWorld> {
    let disk = MemoryDisk::new();
    let file = disk.create_new(NAME).expect("a disk in memory");
    file.write_all_at(bytes, 0).expect("a disk in memory");
    shape.options().open_on(disk, NAME, access)
}

/// Where the trailers of frames of a kind begin.
fn trailers(bytes: &[u8], kind: u8) -> impl Iterator<Item = usize> + '_ {
    (0..=bytes.len() - 32).filter(move |&at| bytes[at..].starts_with(&[0x9B, b'B', b'N', b'F', kind]))
}

/// The world after each step of its making.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// It has just returned to a pin.
    Returned,
    /// And was closed.
    Closed,
    /// And was compacted, and saved to once more.
    Compacted,
}

fn sample(shape: Shape, end: End) -> Sample {
    let disk = MemoryDisk::new();
    // A table that has to grow would have the file written anew, without what is dead.
    let options = shape.options().table_capacity(256);
    let world = options.open_on(disk.clone(), NAME, Access::Write).expect("a disk in memory");
    let (mut random, mut model) = (Random::new(7), Model::default());
    let save = |random: &mut Random, model: &mut Model| {
        for _ in 0..3 {
            random_edit(random, &world, shape, model).commit(Durability::Synced).expect("a disk in memory");
        }
    };
    for name in ["one", "two", "three", "four"] {
        save(&mut random, &mut model);
        world.pin(name, name).expect("a disk in memory");
    }
    // Chunks that only the future has, and one that it takes away.
    save(&mut random, &mut model);
    let present = world.iter().next().expect("there are chunks");
    let mut future = world.edit();
    for x in 40..44 {
        future
            .put((x, 0), random.bytes(CHUNK_BYTES))
            .put_bodies((x, 0), vec![body(1000 + x as u64, ChunkPos::new(x, 0), Vec::new())]);
    }
    future.remove(present).commit(Durability::Synced).expect("a disk in memory");
    world.return_to("two").expect("a disk in memory");
    world.unpin("three").expect("a disk in memory");
    if end == End::Compacted {
        world.compact(|_, _| {}).expect("a disk in memory");
        let mut model = Model::of(&world).expect("it is whole");
        random_edit(&mut random, &world, shape, &mut model)
            .commit(Durability::Synced)
            .expect("a disk in memory");
    }
    let model = Model::of(&world).expect("it is whole");
    assert_eq!(model.pins.keys().map(String::as_str).collect::<Vec<_>>(), ["four", "one", "two"]);
    match end {
        End::Closed => world.close().expect("a disk in memory"),
        _ => std::mem::forget(world),
    }
    let bytes = file_bytes(&disk);
    assert_eq!(bytes[4], if shape.deep { 2 } else { 1 }, "the version");
    let has_future = trailers(&bytes, CHUNK).any(|at| bytes[at + 8..].starts_with(&40_i32.to_le_bytes()));
    assert_eq!(has_future, end != End::Compacted, "the sample shows what it is for");
    Sample { shape, bytes, model }
}

fn samples() -> &'static [Sample] {
    static SAMPLES: OnceLock<Vec<Sample>> = OnceLock::new();
    SAMPLES.get_or_init(|| {
        let shapes = [
            Shape::PLAIN,
            Shape { eager: true, generated: true, ..Shape::PLAIN },
            Shape { compat: true, ..Shape::PLAIN },
            Shape { generated: true, ..Shape::PLAIN.deep() },
        ];
        let ends = [End::Returned, End::Closed, End::Compacted];
        shapes.iter().flat_map(|shape| ends.map(|end| sample(*shape, end))).collect()
    })
}

/// Where the table begins to be something else.
fn data_start(bytes: &[u8]) -> usize {
    usize::try_from(u64::from_le_bytes(bytes[40..48].try_into().unwrap())).unwrap()
}

#[test]
fn without_header_and_table_pins_and_the_present_are_found_again() {
    for (number, Sample { shape, bytes, model }) in samples().iter().enumerate() {
        let table = HEADER_BYTES..data_start(bytes);
        let zeroed =
            [(0..HEADER_BYTES).collect::<Vec<_>>(), table.clone().collect(), (0..table.end).collect()];
        for places in zeroed {
            let mut damaged = bytes.clone();
            places.iter().for_each(|&at| damaged[at] = 0);
            for access in [Access::Read, Access::Write] {
                let world = open(*shape, &damaged, access).expect("the frames are there");
                assert!(world.report().damaged.is_empty(), "{number}: {:?}", world.report());
                let found = Model::of(&world).expect("it is whole");
                assert!(found == *model, "{number}: {} instead of {}", found.counts(), model.counts());
            }
        }
    }
}

/// Nothing is left but frames: not a commit tells which of them count.
#[test]
fn without_any_commit_the_world_is_where_it_returned_to() {
    for (number, Sample { shape, bytes, model }) in samples().iter().enumerate() {
        let mut damaged = bytes.clone();
        let table_end = data_start(bytes);
        damaged[..table_end].fill(0);
        trailers(bytes, COMMIT).for_each(|at| damaged[at] ^= 0xFF);
        let world = open(*shape, &damaged, Access::Read).expect("the frames are there");
        let found = Model::of(&world).expect("it is whole");
        let future: Vec<ChunkPos> = found.cells.keys().filter(|pos| pos.x >= 40).copied().collect();
        assert!(future.is_empty(), "{number}: {future:?} came back");
        assert!(found.cells == model.cells, "{number}: {} instead of {}", found.counts(), model.counts());
    }
}

/// What a part of a pin may be: what was pinned, or an error.
fn check_pins(world: &ChunkWorld, model: &Model) -> Result<usize, String> {
    let mut lost = 0;
    for (name, pinned) in &model.pins {
        let listed = world.pins().into_iter().find(|pin| pin.name == *name);
        let Some(listed) = listed else {
            lost += 1;
            continue;
        };
        if !listed.is_damaged && listed.metadata != pinned.metadata {
            return Err(format!("{name} has other metadata"));
        }
        let at = match world.at(name) {
            Ok(at) => at,
            Err(error) if error.is_corrupt() => {
                lost += 1;
                continue;
            }
            Err(error) => return Err(format!("{name}: {error}")),
        };
        for (pos, cells) in &pinned.moment.cells {
            match at.read(*pos) {
                Ok(found) if found.as_ref() == Some(cells) => {}
                Ok(found) => return Err(format!("{name}, {pos}: {found:?}")),
                Err(_) => lost += 1,
            }
        }
        if let Some(pos) = at.iter().find(|pos| !pinned.moment.cells.contains_key(pos)) {
            return Err(format!("{name} has {pos}, which it never had"));
        }
    }
    Ok(lost)
}

#[test]
fn a_flipped_byte_makes_nothing_else_of_a_pin() {
    let mut losses = 0;
    for (number, Sample { shape, bytes, model }) in samples().iter().enumerate() {
        let step = (7 / scale().min(7)).max(1) as usize;
        for at in (number % step..bytes.len()).step_by(step) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x41;
            // The last save may be dropped: then the pins are those before it.
            let world = match open(*shape, &damaged, Access::Read) {
                Ok(world) => world,
                Err(error) => panic!("{number}, byte {at}: {error}"),
            };
            if world.report().bytes_dropped > 0 {
                continue;
            }
            match check_pins(&world, model) {
                Ok(lost) => losses += lost,
                Err(why) => panic!("{number}, byte {at} of {}: {why}\n{:?}", bytes.len(), world.report()),
            }
        }
    }
    assert!(losses > 0, "bytes of pins were flipped, too");
}

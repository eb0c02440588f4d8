//! Dimensions and the third coordinate, as a game uses them: each dimension is a world of its own, and all of them are saved, pinned
//! and copied together.

mod support;

use bonfire_chunks::frames::{
    FrameChange, FrameKey, FrameKind, FrameStore as _, FrameTag, MemoryFrames, NewFrame,
};
use bonfire_chunks::{
    BodyId, ChunkOptions, ChunkPos, ChunkRect, ChunkState, ChunkWorker, ChunkWorld, Dimension, Durability,
    Generator, Layer, Layers, MemoryDisk, Persistence, Priority, WorldShape, encode_bodies,
};
use bonfire_store::disk::Access;
use bonfire_testkit::disk::{CrashDisk, Operation, Random};
use support::{SIZE, body, layers, noise, snapshot};

const NAME: &str = "world.save";
/// A dimension of cubes of 4 by 4 by 4 cells of a byte, and one of squares.
const CUBES: u32 = 3;
const SQUARES: u32 = 70_000;
const CUBE_BYTES: usize = 4 * 4 * 4;

fn gas() -> Layers {
    Layers::new().with(Layer::new("gas", 1).persistence(Persistence::Always))
}

fn cubes() -> Dimension {
    Dimension::new(gas()).chunk_size(4).tile_size(2).three_dimensional().seed(666)
}

fn squares() -> Dimension {
    Dimension::new(layers()).chunk_size(SIZE as u16).tile_size(8).seed(9)
}

fn options() -> ChunkOptions {
    support::options().dimension(CUBES, cubes()).dimension(SQUARES, squares())
}

fn open(disk: &MemoryDisk) -> ChunkWorld {
    options().open_on(disk.clone(), NAME, Access::Write).unwrap()
}

fn cube(x: i32, y: i32, z: i32) -> ChunkPos {
    ChunkPos::new_3d(x, y, z).in_dimension(CUBES)
}

fn square(x: i32, y: i32) -> ChunkPos {
    ChunkPos::new(x, y).in_dimension(SQUARES)
}

fn gas_of(age: u64) -> Vec<u8> {
    Random::new(age).bytes(CUBE_BYTES)
}

/// Saves something of this age in all dimensions at once.
fn save(world: &ChunkWorld, age: u64) -> bonfire_chunks::CommitReport {
    let mut moved = body(1, [SIZE as f32 * age as f32 + 1.0, 1.0]);
    moved.rotation = age as f32;
    let mut edit = world.edit();
    edit.put((0, 0), noise(age)).put(cube(1, 2, -3), gas_of(age)).put(square(0, 0), noise(age + 50));
    edit.put_entities(cube(1, 2, -3), snapshot(age as u32)).put_body_in(SQUARES, moved);
    edit.commit(Durability::Synced).unwrap()
}

#[track_caller]
fn assert_age(world: &ChunkWorld, age: u64) {
    assert_eq!(world.read((0, 0)).unwrap(), Some(noise(age)));
    assert_eq!(world.read(cube(1, 2, -3)).unwrap(), Some(gas_of(age)));
    assert_eq!(world.read_entities(cube(1, 2, -3)).unwrap(), Some(snapshot(age as u32)));
    assert_eq!(world.read(square(0, 0)).unwrap(), Some(noise(age + 50)));
    let home = square(age as i32, 0);
    assert_eq!(world.chunk_of_body(BodyId(1)).unwrap(), Some(home));
    assert_eq!(world.chunks_with_bodies(ChunkRect::ALL), [home]);
    assert_eq!(world.read_bodies(home).unwrap()[0].rotation, age as f32);
}

#[test]
fn a_save_of_all_dimensions_is_one_commit_and_one_sync() {
    let disk = CrashDisk::with_files([(format!("{NAME}.lock"), Vec::new())]);
    let world = options().compact_above(None).open_on(disk.clone(), NAME, Access::Write).unwrap();
    let first = save(&world, 1).generation;
    let before = disk.operation_count();
    assert_eq!(save(&world, 2).generation, first + 1);
    let operations = disk.operations().split_off(before);
    let syncs = operations.iter().filter(|operation| matches!(operation, Operation::Sync { .. })).count();
    assert_eq!(syncs, 1, "{operations:?}");
    assert!(
        operations
            .iter()
            .all(|operation| matches!(operation, Operation::Write { .. } | Operation::Sync { .. }))
    );
    assert_age(&world, 2);
}

#[test]
fn a_pin_covers_all_dimensions() {
    let disk = MemoryDisk::new();
    let world = open(&disk);
    for age in 1..4 {
        save(&world, age);
        world.pin(format!("day {age}"), []).unwrap();
    }
    save(&world, 4);
    world.edit().remove(cube(1, 2, -3)).put(cube(9, 9, 9), gas_of(9)).commit(Durability::Synced).unwrap();
    let check = |world: &ChunkWorld| {
        (1..4).for_each(|age| assert_age(&world.at(&format!("day {age}")).unwrap(), age));
        assert!(!world.at("day 3").unwrap().contains(cube(9, 9, 9)));
    };
    check(&world);
    world.compact(|_, _| {}).unwrap();
    check(&world);
    drop(world);
    let world = open(&disk);
    check(&world);
    world.return_to("day 2").unwrap();
    assert_age(&world, 2);
    assert_eq!(world.read(cube(9, 9, 9)).unwrap(), None);
    check(&world);
}

/// Fills chunks with what it is told of its dimension.
struct Told;

impl Generator for Told {
    fn generate(&self, shape: &WorldShape<'_>, pos: ChunkPos, cells: &mut [u8]) {
        assert_eq!(shape.dimension, pos.dimension);
        let told =
            [shape.seed as u8, shape.dimension as u8, pos.z as u8, u8::from(shape.is_three_dimensional)];
        for (number, cell) in cells.iter_mut().enumerate() {
            *cell = told[number % 4];
        }
    }

    fn name(&self) -> &str {
        "told"
    }
}

#[test]
fn each_dimension_has_its_own_seed_sizes_layers_and_generator() {
    let options = support::options().dimension(CUBES, cubes().generator(Told)).dimension(SQUARES, squares());
    let disk = MemoryDisk::new();
    let world = options.open_on(disk.clone(), NAME, Access::Write).unwrap();
    let told = [154, 3, 251, 1].repeat(CUBE_BYTES / 4);
    let mut chunk = world.load(cube(0, 0, -5)).unwrap();
    assert_eq!((chunk.cells(), chunk.state()), (&told[..], ChunkState::Clean));
    assert!(world.load((0, 0)).unwrap().cells().iter().all(|cell| *cell == 0), "it has no generator");
    assert!(chunk.set_3d(3, 2, 1, &[77]).unwrap());
    let cells = chunk.into_cells();
    assert_eq!(cells[4 * 4 + 2 * 4 + 3], 77, "cells come by z, then y, then x");
    let report =
        world.edit().put(cube(0, 0, -5), cells.clone()).put(cube(1, 0, -5), told).commit(Durability::Synced);
    let report = report.unwrap();
    assert_eq!((report.delta, report.same_as_generated), (1, 1));
    assert_eq!(world.delta_entries(cube(0, 0, -5)).unwrap(), Some(1));
    drop(world);

    let world = ChunkWorld::open_as_is_on(disk.clone(), NAME, Access::Read).unwrap();
    let shape = |number| world.shape(number).unwrap();
    assert_eq!(world.dimensions().collect::<Vec<_>>(), [0, CUBES, SQUARES]);
    let facts = [0, CUBES, SQUARES].map(|number| {
        let shape = shape(number);
        (shape.seed, shape.chunk_size, shape.is_three_dimensional, shape.layers.cell_bytes())
    });
    assert_eq!(facts, [(7, 16, false, 4), (666, 4, true, 1), (9, 16, false, 4)]);
    assert!(world.shape(1).is_none());
    let info = world.info();
    let others: Vec<_> = info
        .other_dimensions
        .iter()
        .map(|other| (other.number, other.seed, other.tile_size, other.chunks, other.generator.as_deref()))
        .collect();
    assert_eq!(others, [(CUBES, 666, 2, 1, Some("told")), (SQUARES, 9, 8, 0, None)]);
    assert_eq!((info.seed, info.chunk_size, info.generator), (7, 16, None));

    // Another layer in one dimension changes nothing in the others.
    let wider = Dimension::new(gas().with(Layer::new("heat", 1))).generator(Told);
    let wider = wider.chunk_size(4).tile_size(2).three_dimensional();
    let world = support::options().dimension(CUBES, wider).open_on(disk, NAME, Access::Read).unwrap();
    assert_eq!(world.report().layers_of_dimensions.keys().copied().collect::<Vec<_>>(), [CUBES]);
    assert_eq!(world.report().layers, bonfire_chunks::LayerChanges::default());
}

#[test]
fn a_dimension_that_does_not_fit_is_refused_with_both_values() {
    let disk = MemoryDisk::new();
    let with = |cubes: Dimension| support::options().dimension(CUBES, cubes).dimension(SQUARES, squares());
    drop(with(cubes().generator_name("caves")).open_on(disk.clone(), NAME, Access::Write).unwrap());
    let flat = || Dimension::new(gas()).chunk_size(4).tile_size(2).seed(666);
    let wrong = [
        (cubes().seed(667), ["666", "667"]),
        (cubes().chunk_size(8), ["has 4 cells along an edge of a chunk", "8"]),
        (cubes().tile_size(4), ["has 2 cells along an edge of a tile", "4"]),
        (flat(), ["has 3 coordinates", "2"]),
        (cubes().generator_name("sky"), ["caves", "sky"]),
    ];
    for (dimension, expected) in wrong {
        for access in [Access::Read, Access::Write] {
            let error = with(dimension.clone()).open_on(disk.clone(), NAME, access).unwrap_err();
            let text = error.to_string();
            assert!(error.is_misuse() && expected.iter().all(|part| text.contains(part)), "{text}");
            assert!(text.contains("dimension 3") || text.contains("generator"), "{text}");
        }
    }
    let error = support::options().three_dimensional().open_on(disk, NAME, Access::Write).unwrap_err();
    assert!(error.to_string().contains("this world has 2 coordinates, and the game has 3"), "{error}");
    let large = Dimension::new(gas()).three_dimensional().chunk_size(257);
    let error = with(large).open_on(MemoryDisk::new(), NAME, Access::Write).unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("1 to 256"), "{error}");
}

#[test]
fn places_that_a_dimension_does_not_have_are_refused() {
    let world = open(&MemoryDisk::new());
    let refuse = |pos: ChunkPos, bytes: usize, why: &str| {
        let errors = [
            world.read(pos).map(drop),
            world.load(pos).map(drop),
            world.read_into(pos, &mut vec![0; bytes]).map(drop),
            world.read_bodies(pos).map(drop),
            world.read_entities(pos).map(drop),
            world.edit().put(pos, vec![0; bytes]).commit(Durability::Synced).map(drop),
            world.edit().put_entities(pos, snapshot(1)).commit(Durability::Synced).map(drop),
            world.edit().put_bodies(pos, [body(1, [1.0, 1.0])]).commit(Durability::Synced).map(drop),
            world.edit().remove(pos).commit(Durability::Synced).map(drop),
            world.save_on(&MemoryDisk::new(), NAME, world.edit().put_entities(pos, snapshot(1))).map(drop),
        ];
        for (number, result) in errors.into_iter().enumerate() {
            let error = result.unwrap_err();
            assert!(error.is_misuse() && error.to_string().contains(why), "{number}: {error}");
        }
    };
    refuse(ChunkPos::new(0, 0).in_dimension(5), 1024, "`ChunkOptions::dimension`");
    refuse(ChunkPos::new_3d(0, 0, 1), 1024, "`three_dimensional`");
    refuse(ChunkPos { z: -1, ..square(0, 0) }, 1024, "`three_dimensional`");
    assert!(
        world.edit().put_body_in(5, body(1, [1.0, 1.0])).commit(Durability::Synced).unwrap_err().is_misuse()
    );
    assert!(world.is_empty());
    let wrong = world.edit().put(cube(0, 0, 0), vec![0; CUBE_BYTES * 4]).commit(Durability::Synced);
    assert!(wrong.unwrap_err().to_string().contains("64"));
}

#[test]
fn a_dimension_of_cubes_has_no_bodies() {
    let world = open(&MemoryDisk::new());
    world.edit().put_body(body(1, [1.0, 1.0])).commit(Durability::Synced).unwrap();
    let edits = [
        world.edit().put_bodies(cube(0, 0, 0), [body(2, [1.0, 1.0])]).commit(Durability::Synced),
        world.edit().put_body_in(CUBES, body(2, [1.0, 1.0])).commit(Durability::Synced),
        // It would leave the dimension that it is in.
        world.edit().put_body_in(CUBES, body(1, [1.0, 1.0])).commit(Durability::Synced),
    ];
    for result in edits {
        let error = result.unwrap_err();
        assert!(error.is_misuse() && error.to_string().contains("two coordinates"), "{error}");
    }
    assert_eq!(world.chunk_of_body(BodyId(1)).unwrap(), Some(ChunkPos::new(0, 0)));
    assert_eq!(world.chunk_of_body(BodyId(2)).unwrap(), None);
}

#[test]
fn bodies_and_entities_are_found_in_whichever_dimension_they_are() {
    let disk = MemoryDisk::new();
    let world = open(&disk);
    let home = |world: &ChunkWorld, id| world.chunk_of_body(BodyId(id)).unwrap();
    let mut edit = world.edit();
    (0..300).for_each(|id| _ = edit.put_body_in([0, SQUARES][id as usize % 2], body(id, [id as f32, 1.0])));
    edit.commit(Durability::Synced).unwrap();
    drop(edit);
    let expected =
        |id: u64| ChunkPos::new(id as i32 / SIZE as i32, 0).in_dimension([0, SQUARES][id as usize % 2]);
    (0..300).for_each(|id| assert_eq!(home(&world, id), Some(expected(id)), "body {id}"));
    // A move stays in the dimension, and a body that is put elsewhere leaves it.
    world
        .edit()
        .move_body(BodyId(7), [100.0, 100.0])
        .put_body_in(SQUARES, body(8, [1.0, 1.0]))
        .commit(Durability::Synced)
        .unwrap();
    drop(world);
    let world = open(&disk);
    assert_eq!(home(&world, 7), Some(square(6, 6)));
    assert_eq!(home(&world, 8), Some(square(0, 0)));
    let listed =
        |pos: ChunkPos| world.read_bodies(pos).unwrap().iter().filter(|body| body.id == BodyId(8)).count();
    assert_eq!((listed(square(0, 0)), listed(ChunkPos::new(0, 0))), (1, 0));
    world.edit().remove_body(BodyId(7)).commit(Durability::Synced).unwrap();
    assert_eq!(home(&world, 7), None);
    assert!(world.check(|_, _| {}).damaged.is_empty());
}

#[test]
fn rectangles_and_boxes_have_chunks_of_their_dimension() {
    let world = open(&MemoryDisk::new());
    let mut edit = world.edit();
    for z in -2..3 {
        edit.put(cube(0, 0, z), gas_of(1)).put_entities(cube(0, z, 0), snapshot(z.unsigned_abs()));
    }
    edit.put((0, 0), noise(1)).put(square(0, 0), noise(2)).commit(Durability::Synced).unwrap();
    assert_eq!(world.range(ChunkRect::around_3d(cube(0, 0, 0), 1)), [-1, 0, 1].map(|z| cube(0, 0, z)));
    assert_eq!(world.range(ChunkRect::around(cube(0, 0, 2), 1)), [cube(0, 0, 2)]);
    assert_eq!(world.range(ChunkRect::around((0, 0), 5)), [ChunkPos::new(0, 0)]);
    assert_eq!(world.range(ChunkRect::of_dimension(SQUARES)), [square(0, 0)]);
    assert_eq!((world.len(), world.iter().count()), (7, 7));
    assert_eq!(world.chunks_with_entities(ChunkRect::of_dimension(CUBES)).len(), 5);
    assert_eq!(world.prefetch(ChunkRect::of_dimension(CUBES)), 5);
    let places = [cube(0, 0, 2), square(0, 0), cube(7, 7, 7)];
    let read: Vec<_> = world.read_many(&places).into_iter().map(Result::unwrap).collect();
    assert_eq!(read, [Some(gas_of(1)), Some(noise(2)), None]);
}

#[test]
fn a_worker_and_a_store_in_memory_have_all_dimensions() {
    let frames = MemoryFrames::new();
    for world in [open(&MemoryDisk::new()), options().open_in(frames.clone()).unwrap()] {
        let worker = ChunkWorker::new(world.clone());
        let mut edit = world.edit();
        edit.put(cube(1, 2, -3), gas_of(1)).put_entities(cube(1, 2, -3), snapshot(1));
        edit.put_body_in(SQUARES, body(1, [1.0, 1.0]));
        let saved = worker.save(edit).unwrap();
        let whole = worker.load_whole(cube(1, 2, -3), Priority::Normal).wait().unwrap();
        assert_eq!((whole.chunk.cells(), whole.entities), (&gas_of(1)[..], Some(snapshot(1))));
        assert_eq!(whole.chunk.get_3d(3, 3, 3), gas_of(1).last().map(std::slice::from_ref));
        let bodies = worker.read_bodies(square(0, 0), Priority::Normal).wait().unwrap();
        assert_eq!(bodies, [body(1, [1.0, 1.0])]);
        assert!(worker.read((1, 2), Priority::Normal).wait().unwrap().is_none());
        assert!(worker.load(cube(0, 0, 0).in_dimension(5), Priority::Normal).wait().unwrap_err().is_misuse());
        saved.wait().unwrap();
        assert!(worker.finish(std::time::Duration::from_secs(60)));
        assert!(world.check(|_, _| {}).damaged.is_empty());
    }
    let world = options().open_in(frames.clone()).unwrap();
    assert_eq!(world.read(cube(1, 2, -3)).unwrap(), Some(gas_of(1)));
    let error = support::options().dimension(CUBES, cubes().seed(5)).open_in(frames).unwrap_err();
    assert!(error.to_string().contains("666"), "{error}");
    let disk = MemoryDisk::new();
    world.backup_on(&disk, NAME, |_, _| {}).unwrap();
    assert_eq!(open(&disk).read_entities(cube(1, 2, -3)).unwrap(), Some(snapshot(1)));
}

/// Another program has listed a body twice, and the index is lost.
#[test]
fn a_body_that_an_undeclared_dimension_lists_too_keeps_no_save_from_being_made() {
    let frames = MemoryFrames::new();
    let world = options().open_in(frames.clone()).unwrap();
    world
        .edit()
        .put_body(body(1, [1.0, 1.0]))
        .put_body_in(SQUARES, body(2, [1.0, 1.0]))
        .commit(Durability::Synced)
        .unwrap();
    let key = FrameKey::new(FrameKind::Bodies, square(0, 0));
    let data = encode_bodies(&[body(1, [1.0, 1.0])], 4).unwrap();
    let index = frames.list(FrameKind::Ids, &ChunkRect::ALL);
    let removed = index.into_iter().map(|(pos, _)| FrameKey::new(FrameKind::Ids, pos)).collect();
    let change = FrameChange { frames: vec![NewFrame { key, tag: FrameTag::default(), data }], removed };
    frames.commit(change, Durability::Synced).unwrap();
    let world = support::options().open_in(frames).unwrap();
    world.edit().put_body(body(3, [1.0, 1.0])).commit(Durability::Synced).unwrap();
    assert_eq!(world.chunk_of_body(BodyId(1)).unwrap(), Some(ChunkPos::new(0, 0)));
    assert_eq!(world.read_bodies((0, 0)).unwrap().len(), 2);
}

#[test]
fn copies_have_all_dimensions() {
    let disk = MemoryDisk::new();
    let world = open(&disk);
    save(&world, 1);
    world.pin("one", []).unwrap();
    save(&world, 2);
    world.backup_on(&disk, "backup", |_, _| {}).unwrap();
    world.at("one").unwrap().backup_on(&disk, "of one", |_, _| {}).unwrap();
    world.save_on(&disk, "save as", world.edit().put(cube(5, 5, 5), gas_of(5))).unwrap();
    let open = |name: &str| options().open_on(disk.clone(), name, Access::Write).unwrap();
    assert_age(&open("backup"), 2);
    assert_age(&open("backup").at("one").unwrap(), 1);
    assert_age(&open("of one"), 1);
    assert_age(&open("save as"), 2);
    assert_eq!(open("save as").read(cube(5, 5, 5)).unwrap(), Some(gas_of(5)));
    assert!(!world.contains(cube(5, 5, 5)));
}

//! Four releases of a game: worlds of every release are read by every later one, as it has cells today.
//!
//! | release | what changed |
//! |---|---|
//! | 1 | material and color |
//! | 2 | a damage layer; sand has another number, water is new |
//! | 3 | color has two bytes; damage is gone; flags, of which one bit persists, and heat, which does not |
//! | 4 | material has two bytes; sand is gone; another generator |
//!
//! `fixtures/chunks` has a world of each release. `BONFIRE_WRITE_FIXTURES=1 cargo test -p bonfire_chunks --test evolution` writes
//! those that are missing.

use std::path::PathBuf;

use bonfire_chunks::{
    ChunkOptions, ChunkPos, ChunkWorld, Durability, Generator, Layer, LayerChanges, Layers, Persistence,
    RemovedLayers, Storage, WorldShape,
};
use bonfire_store::disk::{Access, MemoryDisk};

const SIZE: usize = 8;
const CELLS: usize = SIZE * SIZE;

/// A cell as all releases understand it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Meaning {
    material: &'static str,
    color: u8,
    damage: u8,
}

fn release_1() -> Layers {
    Layers::new()
        .with(Layer::new("material", 1).persistence(Persistence::Always))
        .with(Layer::new("color", 1))
        .materials("material", [(0, "game.air"), (1, "game.stone"), (2, "game.sand")])
}

fn release_2() -> Layers {
    Layers::new()
        .with(Layer::new("material", 1).persistence(Persistence::Always))
        .with(Layer::new("color", 1))
        .with(Layer::new("damage", 1).default_value(&[7]))
        .materials("material", [(0, "game.air"), (1, "game.stone"), (2, "game.water"), (3, "game.sand")])
}

fn release_3(removed: RemovedLayers) -> Layers {
    Layers::new()
        .with(Layer::new("material", 1).persistence(Persistence::Always))
        .with(Layer::new("flags", 1).persistence(Persistence::Partial(vec![0b10])))
        .with(Layer::new("color", 2).version(2))
        .with(Layer::new("heat", 1).persistence(Persistence::No).default_value(&[20]))
        .materials("material", [(0, "game.air"), (1, "game.stone"), (2, "game.water"), (3, "game.sand")])
        .removed(removed)
        .upgrade("color", 1, |old| [old[0], 0])
}

fn release_4() -> Layers {
    Layers::new()
        .with(Layer::new("material", 2).version(2).persistence(Persistence::Always))
        .with(Layer::new("color", 2).version(2))
        .materials(
            "material",
            [(0, "game.air"), (100, "game.stone"), (200, "game.water"), (999, "game.missing")],
        )
        .missing_material(999)
        .removed(RemovedLayers::Drop)
        .upgrade("color", 1, |old| [old[0], 0])
        .upgrade("material", 1, |old| [old[0], 0])
}

/// Stone below the middle, as the cells of a release are.
#[derive(Clone)]
struct Ground {
    version: u32,
    stone: Vec<u8>,
    knows: u32,
}

impl Generator for Ground {
    fn generate(&self, _: &WorldShape<'_>, _: ChunkPos, cells: &mut [u8]) {
        let (bytes, rows) = (cells.len() / CELLS, if self.version == 1 { SIZE / 2 } else { 2 });
        for cell in cells.chunks_exact_mut(bytes).take(rows * SIZE) {
            cell[..self.stone.len()].copy_from_slice(&self.stone);
        }
    }
    fn version(&self) -> u32 {
        self.version
    }
    fn generate_as(&self, version: u32, world: &WorldShape<'_>, pos: ChunkPos, cells: &mut [u8]) -> bool {
        Self { version, ..self.clone() }.generate(world, pos, cells);
        version >= self.knows
    }
}

fn options(release: u32) -> ChunkOptions {
    let layers = match release {
        1 => release_1(),
        2 => release_2(),
        3 => release_3(RemovedLayers::Keep),
        _ => release_4(),
    };
    let stone = if release == 4 { vec![100, 0] } else { vec![1] };
    let generator = Ground { version: if release == 4 { 2 } else { 1 }, stone, knows: 1 };
    ChunkOptions::new(layers)
        .chunk_size(SIZE as u16)
        .tile_size(4)
        .seed(5)
        .table_capacity(4)
        .generator(generator)
}

/// What a chunk of a release means. The first is a delta, the second whole.
fn meaning(release: u32, chunk: i32, number: usize) -> Meaning {
    let ground = if number < CELLS / 2 { "game.stone" } else { "game.air" };
    let damage = if release >= 2 { 7 } else { 0 };
    match chunk {
        0 if number == 5 => {
            Meaning { material: "game.sand", color: 3, damage: if release == 2 { 9 } else { damage } }
        }
        0 => Meaning { material: ground, color: 0, damage },
        _ => {
            let material = ["game.air", "game.stone", "game.sand"][number * 7 % 3];
            Meaning {
                material,
                color: (number * 5) as u8,
                damage: if release == 2 { number as u8 } else { damage },
            }
        }
    }
}

fn cell(release: u32, meaning: Meaning) -> Vec<u8> {
    let number = |names: &[(&str, u16)]| {
        names.iter().find(|(name, _)| *name == meaning.material).map_or(999, |(_, id)| *id)
    };
    let one = number(&[("game.air", 0), ("game.stone", 1), ("game.sand", 2)]) as u8;
    let two = number(&[("game.air", 0), ("game.stone", 1), ("game.sand", 3)]) as u8;
    let four = number(&[("game.air", 0), ("game.stone", 100)]).to_le_bytes();
    match release {
        1 => vec![one, meaning.color],
        2 => vec![two, meaning.color, meaning.damage],
        3 => vec![two, 0, meaning.color, 0, 20],
        _ => vec![four[0], four[1], meaning.color, 0],
    }
}

/// The cells of a chunk that was saved by one release, in those of another.
fn cells(saved_by: u32, read_by: u32, chunk: i32) -> Vec<u8> {
    let of = |number: usize| {
        let mut meaning = meaning(saved_by, chunk, number);
        if saved_by == 1 {
            // What a release did not have is the default of the one that has it.
            meaning.damage = 7;
        }
        // Cells that were never changed are those of the generator, which knows the default of damage.
        cell(read_by, meaning)
    };
    (0..CELLS).flat_map(of).collect()
}

fn save(world: &ChunkWorld, release: u32) {
    let own = |chunk: i32| cells(release, release, chunk);
    let report = world.edit().put((0, 0), own(0)).put((1, 0), own(1)).commit(Durability::Synced).unwrap();
    assert_eq!((report.delta, report.full), (1, 1), "release {release}");
}

fn fixture(release: u32) -> PathBuf {
    let path = format!("{}/../../fixtures/chunks/release_{release}.world", env!("CARGO_MANIFEST_DIR"));
    let path = PathBuf::from(path);
    if !path.exists() && std::env::var_os("BONFIRE_WRITE_FIXTURES").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let world = options(release).created(1_700_000_000).open(&path).unwrap();
        save(&world, release);
        world.close().unwrap();
        std::fs::remove_file(path.with_extension("world.lock")).unwrap();
    }
    path
}

fn disk_with(release: u32) -> MemoryDisk {
    let bytes = std::fs::read(fixture(release)).expect("a fixture of every release is committed");
    MemoryDisk::with_files([("world".to_owned(), bytes)])
}

#[test]
fn every_release_reads_the_worlds_of_all_before_it() {
    for saved_by in 1..=4 {
        for read_by in saved_by..=4 {
            let world = options(read_by).open_on(disk_with(saved_by), "world", Access::Write).unwrap();
            assert_eq!(
                (world.storage((0, 0)), world.storage((1, 0))),
                (Some(Storage::Delta), Some(Storage::Full))
            );
            assert_eq!(world.report().layers == LayerChanges::default(), saved_by == read_by);
            for chunk in 0..2 {
                let found =
                    world.read((chunk, 0)).unwrap_or_else(|error| panic!("{saved_by} by {read_by}: {error}"));
                assert_eq!(
                    found,
                    Some(cells(saved_by, read_by, chunk)),
                    "chunk {chunk} of {saved_by} by {read_by}"
                );
            }
        }
    }
}

#[test]
fn a_world_that_went_through_all_releases_has_everything() {
    let disk = disk_with(1);
    for release in 2..=4 {
        let world = options(release).open_on(disk.clone(), "world", Access::Write).unwrap();
        // One chunk is upgraded with all others, the other as it is saved.
        if release == 3 {
            assert_eq!(world.upgrade_all(|_, _| {}).unwrap(), 2);
            assert_eq!(world.upgrade_all(|_, _| {}).unwrap(), 0, "all are as they should be");
        } else {
            let cells = world.read((1, 0)).unwrap().unwrap();
            world.edit().put((1, 0), cells).commit(Durability::Synced).unwrap();
        }
        for chunk in 0..2 {
            assert_eq!(
                world.read((chunk, 0)).unwrap(),
                Some(cells(1, release, chunk)),
                "chunk {chunk}, release {release}"
            );
        }
        world.close().unwrap();
    }
}

#[test]
fn what_a_release_removed_comes_back_if_it_was_kept() {
    for (removed, damage) in [(RemovedLayers::Keep, true), (RemovedLayers::Drop, false)] {
        let disk = disk_with(2);
        let without = ChunkOptions::new(release_3(removed)).chunk_size(SIZE as u16).tile_size(4);
        let generator = Ground { version: 1, stone: vec![1], knows: 1 };
        let world = without.generator(generator).open_on(disk.clone(), "world", Access::Write).unwrap();
        for chunk in 0..2 {
            let mut cells = world.read((chunk, 0)).unwrap().unwrap();
            let last = cells.len() - 3;
            cells[last] = 77;
            world.edit().put((chunk, 0), cells).commit(Durability::Synced).unwrap();
        }
        world.compact(|_, _| {}).unwrap();
        world.close().unwrap();
        drop(world);
        // The release before it reads colors of one byte again, so it needs a step back.
        let back = release_2_with_wide_colors();
        let generator = Ground { version: 1, stone: vec![1], knows: 1 };
        let options = ChunkOptions::new(back).chunk_size(SIZE as u16).tile_size(4).generator(generator);
        let world = options.open_on(disk, "world", Access::Write).unwrap();
        let found = world.read((1, 0)).unwrap().unwrap();
        for (number, cell) in found.chunks_exact(4).enumerate() {
            let expected = if damage { number as u8 } else { 7 };
            assert_eq!(cell[3], expected, "cell {number}, {removed:?}");
        }
    }
}

fn release_2_with_wide_colors() -> Layers {
    Layers::new()
        .with(Layer::new("material", 1).persistence(Persistence::Always))
        .with(Layer::new("color", 2).version(2))
        .with(Layer::new("damage", 1).default_value(&[7]))
        .materials("material", [(0, "game.air"), (1, "game.stone"), (2, "game.water"), (3, "game.sand")])
}

#[test]
fn opening_says_what_has_changed_about_layers() {
    let world = options(3).open_on(disk_with(1), "world", Access::Write).unwrap();
    let expected = LayerChanges {
        added: vec!["flags".into()],
        upgraded: vec!["color".into()],
        ..LayerChanges::default()
    };
    assert_eq!(world.report().layers, expected);
    let world = options(4).open_on(disk_with(2), "world", Access::Write).unwrap();
    let layers = &world.report().layers;
    assert_eq!(
        (&layers.dropped[..], &layers.missing_materials[..]),
        (&["damage".into()][..], &["game.sand".into()][..])
    );
}

#[test]
fn what_cannot_be_read_is_refused_with_names() {
    let open = |layers: Layers, release: u32| {
        let options = ChunkOptions::new(layers).chunk_size(SIZE as u16).tile_size(4);
        options.open_on(disk_with(release), "world", Access::Write).map(drop)
    };
    let steps = Layers::new()
        .with(Layer::new("material", 1).persistence(Persistence::Always))
        .with(Layer::new("color", 1).version(2));
    let error = open(steps, 1).unwrap_err().to_string();
    assert!(error.contains("color") && error.contains('1') && error.contains('2'), "{error}");
    let lost = release_1().materials("material", [(0, "game.air"), (1, "game.stone")]);
    let error = open(lost, 1).unwrap_err().to_string();
    assert!(error.contains("game.sand"), "{error}");
    let older = open(release_1(), 3).unwrap_err();
    assert!(older.is_newer_format(), "{older}");
    let wider = Layers::new()
        .with(Layer::new("material", 4).persistence(Persistence::Always))
        .with(Layer::new("color", 1));
    let error = open(wider, 1).unwrap_err().to_string();
    assert!(error.contains("material"), "{error}");
}

#[test]
fn another_generator_is_refused_unless_it_knows_the_old_one() {
    let generator = Ground { version: 2, stone: vec![100, 0], knows: 2 };
    let options = ChunkOptions::new(release_4()).chunk_size(SIZE as u16).tile_size(4).generator(generator);
    let world = options.open_on(disk_with(1), "world", Access::Write).unwrap();
    let error = world.read((0, 0)).unwrap_err();
    assert!(error.is_unsupported() && error.to_string().contains("generator"), "{error}");
    assert_eq!(world.read((1, 0)).unwrap(), Some(cells(1, 4, 1)), "a whole chunk needs no generator");
}

#[test]
fn upgrades_in_steps_go_on_where_the_last_session_ended() {
    let layer = |version| Layer::new("material", 1).version(version).persistence(Persistence::Always);
    let first = Layers::new().with(layer(1));
    let second = || Layers::new().with(layer(2)).upgrade("material", 1, |old| [old[0] + 100]);
    let disk = MemoryDisk::new();
    let open = |layers: Layers| {
        ChunkOptions::new(layers)
            .chunk_size(SIZE as u16)
            .open_on(disk.clone(), "world", Access::Write)
            .expect("a disk in memory")
    };
    let world = open(first);
    let mut edit = world.edit();
    for x in 0..10 {
        edit.put((x, 0), vec![x as u8 + 1; CELLS]);
    }
    edit.commit(Durability::Synced).unwrap();
    drop((edit, world));

    let world = open(second());
    let mut upgrade = world.upgrade();
    assert_eq!(upgrade.left(), 10);
    upgrade.step(3).unwrap();
    assert_eq!(upgrade.left(), 7);
    // What is saved or removed in between is not touched.
    world.edit().put((5, 0), vec![55; CELLS]).remove((6, 0)).commit(Durability::Synced).unwrap();
    upgrade.step(0).unwrap();
    assert_eq!(upgrade.left(), 6, "a step does one at least");
    drop((upgrade, world));

    let world = open(second());
    let mut upgrade = world.upgrade();
    assert_eq!(upgrade.left(), 4, "three, one and two are done");
    while upgrade.left() > 0 {
        upgrade.step(3).unwrap();
    }
    assert_eq!(world.upgrade().left(), 0);
    for x in [0, 1, 2, 3, 4, 7, 8, 9] {
        assert_eq!(world.read((x, 0)).unwrap(), Some(vec![x as u8 + 101; CELLS]), "chunk {x}");
    }
    assert_eq!(world.read((5, 0)).unwrap(), Some(vec![55; CELLS]));
    assert_eq!(world.read((6, 0)).unwrap(), None);
}

//! Chunks as they lie in the file: read and copied without the generator, and given up when they are damaged.

mod support;

use bonfire_chunks::codec::Delta;
use bonfire_chunks::{ChunkWorld, Durability, Layer, Layers, Persistence, StoredChunk};
use bonfire_store::disk::{Access, Disk, MemoryDisk};
use support::*;

const NAME: &str = "world.save";

/// A world with a delta, a full chunk and an empty one, and bodies and entities beside the full one.
fn disk() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let world = options().generator(Hills { version: 1 }).open_on(disk.clone(), NAME, Access::Write).unwrap();
    let mut changed = world.load((0, 0)).unwrap();
    changed.set(3, 2, &[9, 8, 7, 6]).unwrap();
    world
        .edit()
        .put((0, 0), changed.into_cells())
        .put((1, 0), noise(1))
        .put((0, -1), cells(|_, _| [0; 4]))
        .put_bodies((1, 0), [body(7, [20.0, 3.0])])
        .put_entities((1, 0), entities())
        .commit(Durability::Synced)
        .unwrap();
    world.close().unwrap();
    disk
}

fn entities() -> Vec<u8> {
    bonfire::engine::SnapshotWriter::new(&bonfire::Registry::new())
        .finish()
        .unwrap()
        .to_bytes()
        .unwrap()
        .to_vec()
}

fn as_is(disk: &MemoryDisk) -> ChunkWorld {
    ChunkWorld::open_as_is_on(disk.clone(), NAME, Access::Write).unwrap()
}

#[test]
fn every_way_of_storing_is_read_without_the_generator() {
    let world = as_is(&disk());
    let delta = Delta { runs: vec![(2 * 16 + 3, 1)], cells: vec![9, 8, 7, 6] };
    assert_eq!(world.read_stored((0, 0)).unwrap(), Some(StoredChunk::Delta(delta)));
    assert_eq!(world.read_stored((1, 0)).unwrap(), Some(StoredChunk::Full(noise(1))));
    assert_eq!(world.read_stored((0, -1)).unwrap(), Some(StoredChunk::Empty));
    assert_eq!(world.read_stored((5, 5)).unwrap(), None);
}

#[test]
fn what_is_read_as_stored_can_be_put_as_stored() {
    let (from, other) = (as_is(&disk()), MemoryDisk::new());
    let to = options().generator_version(1).open_on(other.clone(), NAME, Access::Write).unwrap();
    let mut edit = to.edit();
    for pos in from.iter() {
        edit.put_stored(pos, from.read_stored(pos).unwrap().unwrap());
    }
    edit.commit(Durability::Synced).unwrap();
    drop((to, edit));
    let game = options().generator(Hills { version: 1 });
    let copy = game.open_on(other, NAME, Access::Write).unwrap();
    assert_eq!(
        copy.read((0, 0)).unwrap(),
        game.open_on(disk(), NAME, Access::Read).unwrap().read((0, 0)).unwrap()
    );
}

#[test]
fn cells_of_an_earlier_release_are_read_as_those_of_today() {
    let disk = disk();
    let layers = Layers::new()
        .with(Layer::new("heat", 1).default_value(&[5]))
        .with(Layer::new("material", 1).persistence(Persistence::Always));
    let options = bonfire_chunks::ChunkOptions::new(layers).chunk_size(16).tile_size(4);
    let world = options.open_on(disk, NAME, Access::Write).unwrap();
    let Some(StoredChunk::Delta(delta)) = world.read_stored((0, 0)).unwrap() else { panic!("a delta") };
    // Heat and material, and behind them the three layers that are carried.
    assert_eq!(delta.cells, [5, 9, 8, 7, 6]);
    let Some(StoredChunk::Full(full)) = world.read_stored((1, 0)).unwrap() else { panic!("a full chunk") };
    assert_eq!(full.len(), 16 * 16 * 5);
    assert_eq!(full[..5], [&[5], &noise(1)[..4]].concat()[..]);
}

#[test]
fn only_entities_are_removed_if_only_they_are_to_be() {
    let world = as_is(&disk());
    world.edit().remove_entities((1, 0)).commit(Durability::Synced).unwrap();
    assert_eq!(world.read_entities((1, 0)).unwrap(), None);
    assert_eq!(world.read_bodies((1, 0)).unwrap().len(), 1);
    assert!(world.contains((1, 0)));
}

#[test]
fn a_content_that_needs_the_game_is_not_damage() {
    // The generator of version 2 cannot make what version 1 made.
    let world = options().generator(Hills { version: 2 }).open_on(disk(), NAME, Access::Read).unwrap();
    assert!(world.read((0, 0)).unwrap_err().is_unsupported());
    let report = world.check(|_, _| {});
    assert_eq!((report.damaged.len(), report.unchecked), (0, 1), "{report:?}");
}

#[test]
fn a_compacted_world_that_is_cut_keeps_what_lies_before_the_cut() {
    let disk = disk();
    let world = as_is(&disk);
    for x in 10..40 {
        world.edit().put((x, 0), noise(x as u64)).commit(Durability::Synced).unwrap();
    }
    world.compact(|_, _| {}).unwrap();
    world.close().unwrap();
    let file = disk.open(NAME, Access::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes.truncate(bytes.len() - 20_000);
    let world = as_is(&MemoryDisk::with_files(vec![(NAME.to_owned(), bytes)]));
    assert!(!world.report().is_fine());
    assert_eq!(world.read((10, 0)).unwrap(), Some(noise(10)));
    assert!(world.read((39, 0)).unwrap_err().is_corrupt(), "what is lost is named");
    let left = world.len();
    assert!((10..30).contains(&left), "{left}");
}

#[test]
fn what_was_set_aside_is_given_up_and_nothing_else() {
    let disk = disk();
    let file = disk.open(NAME, Access::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let at = bytes.windows(64).position(|part| part == &noise(1)[..64]).expect("noise is stored as it is");
    bytes[at] ^= 1;
    let disk = MemoryDisk::with_files(vec![(NAME.to_owned(), bytes)]);
    let world = as_is(&disk);
    world.compact(|_, _| {}).unwrap();
    assert_eq!(world.info().set_aside.len(), 1);
    assert!(world.read((1, 0)).unwrap_err().is_corrupt());
    assert_eq!(world.drop_set_aside().unwrap(), 1);
    assert_eq!(world.drop_set_aside().unwrap(), 0);
    assert_eq!(world.read((1, 0)).unwrap(), None);
    assert_eq!(world.read_bodies((1, 0)).unwrap().len(), 1);
    world.close().unwrap();
    let world = as_is(&disk);
    assert!(world.check(|_, _| {}).damaged.is_empty());
    assert_eq!((world.len(), world.info().set_aside.len()), (2, 0));
}

//! Entities of an earlier release are saved anew in the background, step by step, and nothing newer is undone.

use bonfire::engine::{Resolution, SnapshotWriter};
use bonfire::{EntityId, Persist, Registry, preflight};
use bonfire_chunks::{ChunkOptions, ChunkPos, ChunkRect, ChunkWorld, Durability, Layer, Layers, Persistence};
use bonfire_store::disk::{Access, MemoryDisk};
use bonfire_testkit::disk::{CrashDisk, Explorer};

const COUNT: i32 = 40;

mod first {
    use super::Persist;

    #[derive(Clone, Persist)]
    #[persist(key = "game.health")]
    pub(crate) struct Health {
        pub(crate) points: u8,
        pub(crate) name: String,
    }
}

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.health", version = 2, from = first::Health)]
struct Health {
    millis: u64,
    name: String,
}

impl From<first::Health> for Health {
    fn from(first::Health { points, name }: first::Health) -> Self {
        Self { millis: u64::from(points) * 1000, name }
    }
}

#[derive(Clone, Persist)]
#[persist(key = "mod.mood")]
struct Mood(u32);

fn today() -> Registry {
    Registry::new().with::<Health>().unwrap()
}

/// A creature of the first release, with a component of a mod that the second release does not have.
fn of_first_release(number: i32) -> Vec<u8> {
    let registry = Registry::new().with::<first::Health>().unwrap().with::<Mood>().unwrap();
    let mut writer = SnapshotWriter::new(&registry);
    let health = first::Health { points: number as u8, name: format!("goat {number}") };
    let mut archetype = writer.archetype(&[EntityId::new(number as u32, 0)]).unwrap();
    archetype.column(&[health]).unwrap();
    archetype.column(&[Mood(number as u32)]).unwrap();
    writer.finish().unwrap().to_bytes().unwrap()
}

fn of_today(number: i32, millis: u64) -> Vec<u8> {
    let registry = today();
    let mut writer = SnapshotWriter::new(&registry);
    let health = Health { millis, name: String::new() };
    writer.archetype(&[EntityId::new(number as u32, 0)]).unwrap().column(&[health]).unwrap();
    writer.finish().unwrap().to_bytes().unwrap()
}

fn options() -> ChunkOptions {
    let layers = Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always));
    ChunkOptions::new(layers).chunk_size(4).compact_above(None)
}

fn open(disk: &MemoryDisk) -> ChunkWorld {
    options().open_on(disk.clone(), "world.save", Access::Write).unwrap()
}

fn old_world(disk: &MemoryDisk) -> ChunkWorld {
    let world = open(disk);
    let mut edit = world.edit();
    (0..COUNT).for_each(|x| _ = edit.put_entities((x, 0), of_first_release(x)));
    edit.commit(Durability::Synced).unwrap();
    world
}

/// Returns true if a chunk has the schemas of today, and those of the mod as they were.
fn is_new(world: &ChunkWorld, x: i32) -> bool {
    let bytes = world.read_entities((x, 0)).unwrap().unwrap();
    let found = preflight(&bytes, &today()).unwrap();
    let of = |key: &str| found.components.iter().find(|(known, _)| known == key).map(|(_, found)| found);
    matches!(of("game.health"), Some(Ok(Resolution::Same(_))))
}

fn new_count(world: &ChunkWorld) -> usize {
    (0..COUNT).filter(|x| is_new(world, *x)).count()
}

#[test]
fn steps_are_bounded_and_the_next_session_finds_what_is_left() {
    let disk = MemoryDisk::new();
    let world = old_world(&disk);
    let registry = today();
    let mut upgrade = world.upgrade_with(&registry);
    assert_eq!(upgrade.left(), COUNT as usize);
    for done in [7, 14] {
        upgrade.step(7).unwrap();
        assert_eq!((new_count(&world), upgrade.saved(), upgrade.left()), (done, done, COUNT as usize - done));
    }
    drop((upgrade, world));
    let world = open(&disk);
    let before = world.info().generation;
    let mut upgrade = world.upgrade_with(&registry);
    let mut steps = 0;
    while upgrade.left() > 0 {
        upgrade.step(10).unwrap();
        steps += 1;
    }
    assert_eq!((steps, upgrade.saved(), upgrade.failed().len()), (4, COUNT as usize - 14, 0));
    assert_eq!(new_count(&world), COUNT as usize);
    assert_eq!(world.info().generation, before + 3, "a step without anything old writes nothing");
    // Nothing is left for a third session.
    let mut upgrade = world.upgrade_with(&registry);
    let before = world.info();
    upgrade.step(usize::MAX).unwrap();
    assert_eq!((upgrade.saved(), upgrade.left()), (0, 0));
    assert_eq!(world.info().file_bytes, before.file_bytes);
}

#[test]
fn values_ids_and_components_of_mods_are_what_they_were() {
    let world = old_world(&MemoryDisk::new());
    world.upgrade_with(&today()).step(usize::MAX).unwrap();
    let with_mod = Registry::new().with::<Health>().unwrap().with::<Mood>().unwrap();
    for x in 0..COUNT {
        let bytes = world.read_entities((x, 0)).unwrap().unwrap();
        let snapshot = bonfire::Snapshot::open(&bytes).unwrap();
        assert_eq!(snapshot.entity_count(), 1);
        let (again, report) = snapshot.rewritten(&with_mod, Default::default()).unwrap();
        assert!(report.is_complete() && again.entity_count() == 1, "{report}");
        assert_eq!(report.component("mod.mood").map(|line| line.rows), Some(1), "{report}");
        let name = format!("goat {x}");
        assert!(bytes.windows(name.len()).any(|part| part == name.as_bytes()), "{name}");
    }
}

#[test]
fn what_is_saved_or_removed_meanwhile_stays() {
    let world = old_world(&MemoryDisk::new());
    let registry = today();
    // The upgrade has read what it will write when the game saves.
    let mut stale = world.upgrade_with(&registry);
    let mut edit = world.edit();
    edit.put_entities((3, 0), of_today(3, 77)).remove_entities((4, 0));
    edit.put_entities((5, 0), of_first_release(9));
    edit.commit(Durability::Synced).unwrap();
    stale.step(usize::MAX).unwrap();
    assert_eq!(world.read_entities((3, 0)).unwrap(), Some(of_today(3, 77)));
    assert_eq!(world.read_entities((4, 0)).unwrap(), None);
    assert!(is_new(&world, 5) && is_new(&world, 6));
}

#[test]
fn a_damaged_chunk_costs_itself_and_is_named() {
    let world = old_world(&MemoryDisk::new());
    let mut edit = world.edit();
    // A component that cannot be migrated to the one of today.
    #[derive(Persist)]
    #[persist(key = "game.health", version = 9)]
    struct Newer(u8);
    let registry = Registry::new().with::<Newer>().unwrap();
    let mut writer = SnapshotWriter::new(&registry);
    writer.archetype(&[EntityId::new(1, 0)]).unwrap().column(&[Newer(1)]).unwrap();
    let newer = writer.finish().unwrap().to_bytes().unwrap();
    edit.put_entities((8, 0), newer.clone()).commit(Durability::Synced).unwrap();
    let registry = today();
    let mut upgrade = world.upgrade_with(&registry);
    while upgrade.left() > 0 {
        upgrade.step(5).unwrap();
    }
    assert_eq!(upgrade.failed().iter().map(|(pos, _)| *pos).collect::<Vec<_>>(), [ChunkPos::new(8, 0)]);
    assert!(upgrade.failed()[0].1.to_string().contains("chunk (8, 0)"), "{}", upgrade.failed()[0].1);
    assert_eq!((upgrade.saved(), world.read_entities((8, 0)).unwrap()), (COUNT as usize - 1, Some(newer)));
}

#[test]
fn after_a_crash_each_chunk_is_of_one_release() {
    let memory = MemoryDisk::new();
    drop(old_world(&memory));
    let files = ["world.save"].map(|name| {
        use bonfire_store::disk::Disk;
        let file = memory.open(name, Access::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        (name.to_owned(), bytes)
    });
    let disk = CrashDisk::with_files(files);
    let world = options().open_on(disk.clone(), "world.save", Access::Write).unwrap();
    let registry = today();
    let mut upgrade = world.upgrade_with(&registry);
    while upgrade.left() > 0 {
        upgrade.step(15).unwrap();
    }
    let end = disk.operation_count();
    let mut explorer = Explorer::new(3);
    let mut counts = std::collections::BTreeSet::new();
    for point in disk.crash_points() {
        for state in explorer.states(&point, 12) {
            let found = options().open_on(state.disk(), "world.save", Access::Write).unwrap();
            assert_eq!(found.chunks_with_entities(ChunkRect::ALL).len(), COUNT as usize);
            let count = new_count(&found);
            assert!(point.after() < end || count == COUNT as usize, "the last step is durable");
            counts.insert(count);
        }
    }
    assert!(counts.contains(&0) && counts.contains(&(COUNT as usize)), "{counts:?}");
}

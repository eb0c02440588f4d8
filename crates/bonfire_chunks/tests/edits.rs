//! Edits that follow each other, edits of what is in memory, and a new beginning: all of it or nothing.

mod stream_support;

use bonfire::engine::SnapshotWriter;
use bonfire::{DataEntry, Registry, Snapshot};
use bonfire_chunks::{ChunkPos, ChunkRect, ChunkState, ChunkWorker, ChunkWorld, Durability, Priority};
use bonfire_store::disk::{Access, MemoryDisk};
use bonfire_testkit::disk::{Call, CrashDisk, Explorer, Fault, FaultyDisk, Plan, Repeat};
use stream_support::model::State;
use stream_support::{creatures_in, open, options};

fn creatures(ids: &[u64]) -> Snapshot {
    let registry = Registry::new();
    let mut writer = SnapshotWriter::new(&registry);
    let list: Vec<(u64, (i32, i32))> = ids.iter().map(|id| (*id, (0, 0))).collect();
    writer.data_entry(DataEntry::new("game.creatures", &list).unwrap());
    writer.finish().unwrap()
}

fn full(world: &ChunkWorld) {
    let mut edit = world.edit();
    for x in 0..4 {
        edit.put((x, 0), vec![90; 64]).put_captured((x, 1), creatures(&[x as u64]));
    }
    edit.commit(Durability::Synced).unwrap();
}

#[test]
fn a_new_beginning_is_there_as_a_whole_after_a_crash_or_not_at_all() {
    let disk = CrashDisk::new();
    let world = options().open_on(disk.clone(), "world.save", Access::Write).unwrap();
    full(&world);
    world.pin("before", []).unwrap();
    let (before, begin) = (State::of(&world), disk.operation_count());
    world.clear().unwrap();
    let end = disk.operation_count();
    let (mut explorer, mut seen) = (Explorer::new(1), [0, 0]);
    for point in disk.crash_points().skip(begin) {
        for state in explorer.states(&point, 40) {
            let found = options().open_on(state.disk(), "world.save", Access::Write).unwrap();
            assert_eq!(State::of(&found.at("before").unwrap()), before);
            let now = State::of(&found);
            let is_cleared = now == State::default();
            assert!(is_cleared || now == before && point.after() < end, "{now:?}");
            assert!(!is_cleared || found.is_empty() && found.chunks_with_entities(ChunkRect::ALL).is_empty());
            seen[usize::from(is_cleared)] += 1;
        }
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

#[test]
fn a_later_edit_counts_and_the_moment_of_the_earlier_one_is_over() {
    let world = open(&MemoryDisk::new()).unwrap();
    full(&world);
    let (mut earlier, mut later) = (world.edit(), world.edit());
    earlier.put((0, 0), vec![1; 64]).put((9, 0), vec![1; 64]).put_captured((0, 1), creatures(&[8]));
    earlier.remove((1, 0)).remove((2, 0)).pin("earlier", []);
    later.put((0, 0), vec![2; 64]).put((1, 0), vec![3; 64]).remove((9, 0)).remove_entities((1, 1));
    later.put_captured((5, 5), creatures(&[0, 1]));
    earlier.append(later).commit(Durability::Synced).unwrap();
    let cells = |x: i32| world.read((x, 0)).unwrap().map(|cells| cells[0]);
    assert_eq!([0, 1, 2, 3, 9].map(cells), [Some(2), Some(3), None, Some(90), None]);
    assert_eq!(creatures_in(&world, (0, 1)), [(8, (0, 0))]);
    assert_eq!(creatures_in(&world, (1, 1)), []);
    assert_eq!(creatures_in(&world, (5, 5)).len(), 2);
    assert!(world.pins().is_empty());
    let (mut first, mut last) = (world.edit(), world.edit());
    first.put((0, 0), vec![7; 64]);
    last.pin("last", []);
    first.append(last).commit(Durability::Synced).unwrap();
    assert_eq!(world.at("last").unwrap().read((0, 0)).unwrap().unwrap()[0], 7);
}

#[test]
fn what_is_put_from_memory_is_of_that_moment() {
    let world = open(&MemoryDisk::new()).unwrap();
    let mut chunk = world.load((0, 0)).unwrap();
    chunk.set(0, 0, &[50]).unwrap();
    let mut edit = world.edit();
    edit.put_chunk(&chunk);
    let revision = chunk.revision();
    chunk.set(1, 0, &[51]).unwrap();
    edit.commit(Durability::Synced).unwrap();
    chunk.saved(revision);
    assert_eq!(chunk.state(), ChunkState::Dirty);
    assert_eq!(world.read((0, 0)).unwrap().unwrap()[..2], [50, 0]);
}

#[test]
fn a_save_after_one_that_failed_fails_with_it_and_both_edits_come_back() {
    let disk = FaultyDisk::new(MemoryDisk::new());
    let world = open(&disk).unwrap();
    let worker = ChunkWorker::new(world.clone());
    let edit = |x: i32| {
        let mut edit = world.edit();
        edit.put((x, 0), vec![77; 64]);
        edit
    };
    disk.fail(Plan { fault: Fault::Full, nth: 1, of: Some(Call::Write), repeat: Repeat::Once });
    let first = worker.save(edit(0)).unwrap();
    let second = worker.save_after(edit(1), first.clone()).unwrap();
    let third = worker.save_after(edit(2), second.clone()).unwrap();
    let apart = worker.save(edit(3)).unwrap();
    assert!([&first, &second, &third].iter().all(|save| save.wait().is_err()));
    apart.wait().unwrap();
    assert_eq!(world.iter().collect::<Vec<_>>(), [ChunkPos::new(3, 0)]);
    for save in [first, second, third] {
        worker.save(save.take_edit().unwrap()).unwrap().wait().unwrap();
    }
    assert_eq!(world.len(), 4);
}

#[test]
fn a_load_of_ones_own_sees_earlier_saves_and_a_panic_is_its_own() {
    let world = open(&MemoryDisk::new()).unwrap();
    let worker = ChunkWorker::new(world.clone());
    for round in 0..50 {
        let mut edit = world.edit();
        edit.put((0, 0), vec![100 + round; 64]);
        let saved = worker.save(edit).unwrap();
        let read = worker.load_with((0, 0), Priority::Low, |world, pos| Ok(world.read(pos)?.unwrap()[0]));
        assert_eq!(read.wait().unwrap(), 100 + round);
        saved.wait().unwrap();
    }
    let failed =
        worker.load_with((0, 0), Priority::High, |_, _| -> bonfire::Result<()> { panic!("of the game") });
    assert!(failed.wait().unwrap_err().to_string().contains("of the game"));
    assert!(worker.load((0, 0), Priority::High).wait().is_ok());
}

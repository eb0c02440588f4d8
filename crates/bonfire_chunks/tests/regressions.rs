//! What was wrong once.

mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use bonfire_chunks::{
    ChunkOptions, ChunkPos, ChunkRect, ChunkWorker, ChunkWorld, Durability, Layer, Layers, Persistence,
    RemovedLayers, StoredChunk, WorldShape,
};
use bonfire_store::disk::{Access, Disk, DiskFile, DiskLock, MemoryDisk};
use support::{Hills, SIZE, body, cells, noise, options};

const CELLS: usize = SIZE * SIZE;

fn open(disk: &MemoryDisk, options: &ChunkOptions) -> ChunkWorld {
    options.open_on(disk.clone(), "w", Access::Write).unwrap()
}

#[test]
fn a_reader_finds_a_body_where_the_writer_has_moved_it() {
    let disk = MemoryDisk::default();
    let world = open(&disk, &options());
    world.edit().put_bodies((0, 0), [body(1, [1.0, 1.0])]).commit(Durability::Synced).unwrap();
    let reader = options().open_on(disk.clone(), "w", Access::Read).unwrap();
    assert_eq!(reader.read_bodies((0, 0)).unwrap().len(), 1);
    world.edit().put_bodies((1, 0), [body(1, [17.0, 1.0])]).commit(Durability::Synced).unwrap();
    reader.refresh().unwrap();
    assert_eq!(reader.read_bodies((0, 0)).unwrap().len(), 0);
    assert_eq!(reader.read_bodies((1, 0)).unwrap().len(), 1);
}

fn materials(names: [(u32, &str); 2]) -> Layers {
    Layers::new()
        .with(Layer::new("material", 1).persistence(Persistence::Always))
        .materials("material", names)
}

#[test]
fn an_empty_chunk_keeps_its_material_when_ids_change() {
    let disk = MemoryDisk::default();
    let of = |layers: Layers| ChunkOptions::new(layers).chunk_size(SIZE as u16);
    let world = open(&disk, &of(materials([(0, "air"), (1, "stone")])));
    world.edit().put((0, 0), vec![0; CELLS]).commit(Durability::Synced).unwrap();
    world.close().unwrap();
    let world = open(&disk, &of(materials([(0, "stone"), (1, "air")])));
    assert_eq!(world.read((0, 0)).unwrap(), Some(vec![1; CELLS]));
    assert_eq!(world.read_stored((0, 0)).unwrap(), Some(StoredChunk::Full(vec![1; CELLS])));
}

#[test]
fn an_empty_chunk_keeps_its_cells_when_a_default_changes() {
    let disk = MemoryDisk::default();
    let of = |default: u8| {
        let layer = Layer::new("material", 1).persistence(Persistence::Always).default_value(&[default]);
        ChunkOptions::new(Layers::new().with(layer)).chunk_size(SIZE as u16)
    };
    let world = open(&disk, &of(3));
    world.edit().put((0, 0), vec![3; CELLS]).commit(Durability::Synced).unwrap();
    world.close().unwrap();
    assert_eq!(open(&disk, &of(9)).read((0, 0)).unwrap(), Some(vec![3; CELLS]));
}

fn named(names: &[&str], removed: RemovedLayers) -> ChunkOptions {
    let layers =
        Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always)).removed(removed);
    let layers = names.iter().fold(layers, |layers, name| layers.with(Layer::new(*name, 1)));
    ChunkOptions::new(layers).chunk_size(SIZE as u16)
}

#[test]
fn carried_layers_are_not_taken_for_each_other() {
    let disk = MemoryDisk::default();
    let world = open(&disk, &named(&["heat"], RemovedLayers::Keep));
    world.edit().put((0, 0), [1, 77].repeat(CELLS)).commit(Durability::Synced).unwrap();
    drop(world);
    let world = open(&disk, &named(&["wet"], RemovedLayers::Drop));
    world.edit().put((1, 0), [1, 5].repeat(CELLS)).commit(Durability::Synced).unwrap();
    drop(world);
    let world = open(&disk, &named(&[], RemovedLayers::Keep));
    for pos in [(0, 0), (1, 0)] {
        world.edit().put(pos, vec![2; CELLS]).commit(Durability::Synced).unwrap();
    }
    drop(world);
    let world = open(&disk, &named(&["wet"], RemovedLayers::Keep));
    assert_eq!(world.read((1, 0)).unwrap(), Some([2, 5].repeat(CELLS)));
    assert_eq!(world.read((0, 0)).unwrap(), Some([2, 0].repeat(CELLS)), "heat is not wetness");
}

#[test]
fn carried_layers_stay_with_cells_that_are_as_generated() {
    let disk = MemoryDisk::default();
    let of = |names: &[&str]| {
        named(names, RemovedLayers::Keep).generator(|_: &WorldShape<'_>, _: ChunkPos, cells: &mut [u8]| {
            let bytes = cells.len() / CELLS;
            cells.chunks_exact_mut(bytes).for_each(|cell| cell[0] = 1);
        })
    };
    let heat: Vec<u8> = (0..CELLS).map(|cell| cell as u8 ^ 0x55).collect();
    let with_heat = |material: &dyn Fn(usize) -> u8| -> Vec<u8> {
        (0..CELLS).flat_map(|cell| [material(cell), heat[cell]]).collect()
    };
    let world = open(&disk, &of(&["heat"]));
    let mut edit = world.edit();
    edit.put((0, 0), with_heat(&|_| 2)).put((1, 0), with_heat(&|_| 2));
    edit.commit(Durability::Synced).unwrap();
    drop(edit);
    drop(world);
    let world = open(&disk, &of(&[]));
    let mut one = vec![1; CELLS];
    one[3] = 9;
    world.edit().put((0, 0), one).put((1, 0), vec![1; CELLS]).commit(Durability::Synced).unwrap();
    drop(world);
    let world = open(&disk, &of(&["heat"]));
    assert_eq!(world.read((0, 0)).unwrap(), Some(with_heat(&|cell| if cell == 3 { 9 } else { 1 })));
    assert_eq!(world.read((1, 0)).unwrap(), Some(with_heat(&|_| 1)));
}

#[test]
fn a_chunk_that_was_loaded_again_is_not_marked_saved_by_the_save_of_the_one_before() {
    let world = open(&MemoryDisk::default(), &options());
    let mut first = world.load((0, 0)).unwrap();
    first.set(0, 0, &[1; 4]).unwrap();
    let under_way = first.revision();
    let mut again = world.load((0, 0)).unwrap();
    again.set(5, 5, &[2; 4]).unwrap();
    again.saved(under_way);
    assert!(again.state().needs_save());
}

#[test]
fn an_upgrade_does_not_undo_a_save_that_came_in_between() {
    let disk = MemoryDisk::default();
    let old = Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always));
    let world = open(&disk, &ChunkOptions::new(old).chunk_size(SIZE as u16));
    world.edit().put((0, 0), vec![1; CELLS]).commit(Durability::Synced).unwrap();
    drop(world);
    static WORLD: OnceLock<ChunkWorld> = OnceLock::new();
    static SAVED: AtomicBool = AtomicBool::new(false);
    let new = Layers::new()
        .with(Layer::new("material", 1).version(2).persistence(Persistence::Always))
        .upgrade("material", 1, |old| {
            if let Some(world) = WORLD.get()
                && !SAVED.swap(true, Ordering::SeqCst)
            {
                // The game saves on another thread.
                let save = || world.edit().put((0, 0), vec![9; CELLS]).commit(Durability::Synced).unwrap();
                std::thread::scope(|scope| scope.spawn(save).join().unwrap());
            }
            [old[0] + 1]
        });
    let world = open(&disk, &ChunkOptions::new(new).chunk_size(SIZE as u16).threads(1));
    WORLD.set(world.clone()).unwrap();
    world.upgrade_all(|_, _| {}).unwrap();
    assert!(SAVED.load(Ordering::SeqCst));
    assert_eq!(world.read((0, 0)).unwrap(), Some(vec![9; CELLS]));
}

type Call = Box<dyn FnMut() + Send>;

/// A disk that calls something at each sync of a file, and counts renames.
#[derive(Clone)]
struct Watched {
    disk: MemoryDisk,
    at_sync: Arc<Mutex<Option<Call>>>,
    renames: Arc<AtomicUsize>,
    fails: Arc<AtomicBool>,
}

impl Watched {
    fn new(disk: MemoryDisk) -> Self {
        Self { disk, at_sync: Arc::default(), renames: Arc::default(), fails: Arc::default() }
    }
}

struct WatchedFile(Box<dyn DiskFile>, Watched);

impl DiskFile for WatchedFile {
    fn len(&self) -> std::io::Result<u64> {
        self.0.len()
    }
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> std::io::Result<usize> {
        self.0.read_at(bytes, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> std::io::Result<usize> {
        self.0.write_at(bytes, offset)
    }
    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.0.set_len(len)
    }
    fn stamp(&self) -> std::io::Result<u64> {
        self.0.stamp()
    }
    fn sync(&self) -> std::io::Result<()> {
        let call = self.1.at_sync.lock().unwrap().take();
        if let Some(mut call) = call {
            call();
        }
        self.0.sync()
    }
}

impl Disk for Watched {
    fn open(&self, name: &str, access: Access) -> std::io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(WatchedFile(self.disk.open(name, access)?, self.clone())))
    }
    fn create_new(&self, name: &str) -> std::io::Result<Box<dyn DiskFile>> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        Ok(Box::new(WatchedFile(self.disk.create_new(name)?, self.clone())))
    }
    fn rename(&self, from: &str, to: &str) -> std::io::Result<()> {
        self.renames.fetch_add(1, Ordering::SeqCst);
        self.disk.rename(from, to)
    }
    fn remove(&self, name: &str) -> std::io::Result<()> {
        self.disk.remove(name)
    }
    fn list(&self) -> std::io::Result<Vec<String>> {
        self.disk.list()
    }
    fn sync_dir(&self) -> std::io::Result<()> {
        self.disk.sync_dir()
    }
    fn lock(&self, name: &str) -> std::io::Result<Option<DiskLock>> {
        self.disk.lock(name)
    }
}

#[test]
fn a_backup_that_begins_while_the_table_grows_has_every_chunk() {
    let disk = Watched::new(MemoryDisk::default());
    let target = MemoryDisk::default();
    let options = options().eager().compact_above(None).table_capacity(200);
    let world = options.open_on(disk.clone(), "w", Access::Write).unwrap();
    let mut edit = world.edit();
    for n in 0..200 {
        edit.put((n, 0), noise(n as u64));
    }
    edit.commit(Durability::Synced).unwrap();
    drop(edit);
    // The next chunks do not fit. The first sync is of their own save, the second one of the frames in the way.
    let (go, going) = std::sync::mpsc::channel::<()>();
    let (started, has_started) = std::sync::mpsc::channel::<()>();
    let copy = {
        let (world, target) = (world.clone(), target.clone());
        move || {
            let mut waits = Some(going);
            let done = world.backup_on(&target, "copy", |_, _| {
                if let Some(going) = waits.take() {
                    started.send(()).unwrap();
                    let _ = going.recv();
                }
            });
            done.unwrap();
        }
    };
    let thread = Arc::new(Mutex::new(None));
    let second: Call = {
        let thread = thread.clone();
        let mut copy = Some(copy);
        let has_started = Mutex::new(has_started);
        Box::new(move || {
            if let Some(copy) = copy.take() {
                *thread.lock().unwrap() = Some(std::thread::spawn(copy));
                has_started.lock().unwrap().recv().unwrap();
            }
        })
    };
    let slot = disk.at_sync.clone();
    let mut second = Some(second);
    *disk.at_sync.lock().unwrap() = Some(Box::new(move || *slot.lock().unwrap() = second.take()));
    let mut edit = world.edit();
    for n in 200..290 {
        edit.put((n, 0), noise(n as u64));
    }
    edit.commit(Durability::Synced).unwrap();
    drop((go, edit));
    let copying = thread.lock().unwrap().take().expect("it has grown");
    copying.join().unwrap();
    let copy = options.open_on(target, "copy", Access::Write).unwrap();
    for n in 0..200 {
        assert_eq!(copy.read((n, 0)).unwrap(), Some(noise(n as u64)), "chunk {n}");
    }
    world.close().unwrap();
    drop(world);
    let world = options.open_on(disk, "w", Access::Write).unwrap();
    assert_eq!(world.range(ChunkRect::ALL).len(), 290);
    assert!(world.check(|_, _| {}).damaged.is_empty());
}

#[test]
fn a_world_is_closed_although_it_cannot_be_compacted() {
    let disk = Watched::new(MemoryDisk::default());
    let world = options().compact_at_least(0).open_on(disk.clone(), "w", Access::Write).unwrap();
    for n in 0..9 {
        world.edit().put((0, 0), noise(n)).commit(Durability::Buffered).unwrap();
    }
    disk.fails.store(true, Ordering::SeqCst);
    world.close().unwrap();
    assert_eq!(options().open_on(disk, "w", Access::Write).unwrap().read((0, 0)).unwrap(), Some(noise(8)));
}

#[test]
fn a_worker_does_not_compact_again_what_it_has_just_compacted() {
    let disk = Watched::new(MemoryDisk::default());
    let world = options().compact_at_least(0).compact_above(Some(0.0));
    let world = world.open_on(disk.clone(), "w", Access::Write).unwrap();
    let worker = ChunkWorker::new(world.clone());
    let mut edit = world.edit();
    edit.put((0, 0), noise(1));
    worker.save(edit).unwrap().wait().unwrap();
    assert!(worker.finish(std::time::Duration::from_secs(20)), "it is never done");
    let renames = disk.renames.load(Ordering::SeqCst);
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(disk.renames.load(Ordering::SeqCst), renames);
}

#[test]
fn an_edit_of_another_world_is_refused() {
    let (one, other) = (open(&MemoryDisk::default(), &options()), open(&MemoryDisk::default(), &options()));
    let mut edit = one.edit();
    edit.put((0, 0), cells(|_, _| [1; 4]));
    let error = other.save_on(&MemoryDisk::default(), "copy", &mut edit).unwrap_err();
    assert!(error.is_misuse());
    let worker = ChunkWorker::new(other);
    let mut edit = one.edit();
    edit.put((0, 0), cells(|_, _| [1; 4]));
    assert!(worker.save(edit).unwrap_err().error().is_misuse());
    assert!(one.is_empty());
}

#[test]
fn a_world_of_256_layer_sets_can_be_opened_after_an_upgrade() {
    let disk = MemoryDisk::default();
    for version in 0..300 {
        let world = open(&disk, &options().generator(Hills { version }));
        world.edit().put((0, 0), noise(u64::from(version))).commit(Durability::Synced).unwrap();
        world.upgrade_all(|_, _| {}).unwrap();
    }
}

#[test]
fn refreshing_a_world_that_is_written_changes_nothing() {
    let disk = MemoryDisk::default();
    open(&disk, &named(&[], RemovedLayers::Keep)).close().unwrap();
    let world = open(&disk, &named(&["heat"], RemovedLayers::Keep));
    world.refresh().unwrap();
    world.edit().put((0, 0), [1, 2].repeat(CELLS)).commit(Durability::Synced).unwrap();
    assert_eq!(world.read((0, 0)).unwrap(), Some([1, 2].repeat(CELLS)));
}

#[test]
fn a_game_goes_on_while_the_world_is_saved_to_another_file() {
    let world = open(&MemoryDisk::default(), &options());
    world.edit().put_bodies((0, 0), [body(1, [1.0, 1.0])]).commit(Durability::Synced).unwrap();
    let target = Watched::new(MemoryDisk::default());
    let (sender, went_on) = std::sync::mpsc::channel();
    let went_on = Mutex::new(went_on);
    let game = world.clone();
    *target.at_sync.lock().unwrap() = Some(Box::new(move || {
        let (game, sender) = (game.clone(), sender.clone());
        std::thread::spawn(move || {
            assert_eq!(game.read_bodies((0, 0)).unwrap().len(), 1);
            game.edit().put((0, 0), noise(1)).commit(Durability::Synced).unwrap();
            sender.send(()).unwrap();
        });
        went_on
            .lock()
            .unwrap()
            .recv_timeout(std::time::Duration::from_secs(20))
            .expect("it waits for the copy");
    }));
    world.save_on(&target, "copy", world.edit().put((5, 5), noise(5))).unwrap();
    let copy = options().open_on(target, "copy", Access::Read).unwrap();
    assert_eq!(copy.iter().collect::<Vec<_>>(), [ChunkPos::new(5, 5)]);
    assert_eq!(world.iter().collect::<Vec<_>>(), [ChunkPos::new(0, 0)]);
}

/// A disk on which somebody else opens a world between two steps of a removal.
struct Between(MemoryDisk, Mutex<Option<ChunkWorld>>);

impl Disk for Between {
    fn open(&self, name: &str, access: Access) -> std::io::Result<Box<dyn DiskFile>> {
        self.0.open(name, access)
    }
    fn create_new(&self, name: &str) -> std::io::Result<Box<dyn DiskFile>> {
        self.0.create_new(name)
    }
    fn rename(&self, from: &str, to: &str) -> std::io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, name: &str) -> std::io::Result<()> {
        if name.ends_with(".lock") {
            *self.1.lock().unwrap() = options().open_on(self.0.clone(), "w", Access::Write).ok();
        }
        self.0.remove(name)
    }
    fn list(&self) -> std::io::Result<Vec<String>> {
        self.0.list()
    }
    fn sync_dir(&self) -> std::io::Result<()> {
        self.0.sync_dir()
    }
    fn lock(&self, name: &str) -> std::io::Result<Option<DiskLock>> {
        self.0.lock(name)
    }
}

#[test]
fn a_lock_that_somebody_holds_is_not_removed_with_a_world() {
    let disk = Between(MemoryDisk::default(), Mutex::default());
    open(&disk.0, &options()).close().unwrap();
    assert!(ChunkWorld::delete_on(&disk, "w").unwrap());
    assert!(disk.1.lock().unwrap().is_none(), "its lock would be gone");
}

#[test]
fn bodies_keep_layers_that_are_carried_along() {
    let disk = MemoryDisk::default();
    let of = |names: &[&str]| named(names, RemovedLayers::Keep);
    let solid = |cells: Vec<u8>, x: f32| bonfire_chunks::Body { cells, ..body(1, [x, 1.0]) };
    let world = open(&disk, &of(&["heat"]));
    let cells: Vec<u8> = (0..12).collect();
    world.edit().put_bodies((0, 0), [solid(cells.clone(), 1.0)]).commit(Durability::Synced).unwrap();
    drop(world);
    let world = open(&disk, &of(&[]));
    let mut bodies = world.read_bodies((0, 0)).unwrap();
    assert_eq!(bodies[0].cells, [0, 2, 4, 6, 8, 10]);
    bodies[0].position[0] = 17.0;
    world.edit().put_bodies((1, 0), bodies.clone()).commit(Durability::Synced).unwrap();
    world.edit().put_bodies((1, 0), bodies).commit(Durability::Synced).unwrap();
    drop(world);
    let world = open(&disk, &of(&["heat"]));
    assert_eq!(world.read_bodies((1, 0)).unwrap(), [solid(cells, 17.0)]);
}

#[test]
fn a_reader_does_not_take_moved_chunks_for_damaged_ones_in_a_backup() {
    let disk = MemoryDisk::default();
    let options = options().eager().compact_above(None).table_capacity(200);
    let world = open(&disk, &options);
    let put = |range: std::ops::Range<i32>| {
        let mut edit = world.edit();
        for n in range {
            edit.put((n, 0), noise(n as u64));
        }
        edit.commit(Durability::Synced).unwrap();
    };
    put(0..200);
    let reader = options.open_on(disk.clone(), "w", Access::Read).unwrap();
    put(200..290);
    let target = MemoryDisk::default();
    let error = reader.backup_on(&target, "copy", |_, _| {}).unwrap_err();
    assert!(error.is_conflict(), "{error}");
    reader.refresh().unwrap();
    reader.backup_on(&target, "copy", |_, _| {}).unwrap();
    let copy = options.open_on(target, "copy", Access::Read).unwrap();
    assert!(copy.check(|_, _| {}).damaged.is_empty() && copy.len() == 290);
}

#[test]
fn an_id_of_the_last_session_does_not_make_sessions_begin_again() {
    let world = open(&MemoryDisk::default(), &options());
    let first = world.body_ids().unwrap().next_id();
    world.edit().put_bodies((0, 0), [body(u64::MAX, [1.0, 1.0])]).commit(Durability::Synced).unwrap();
    assert_ne!(world.body_ids().unwrap().next_id(), first);
}

#[test]
fn two_threads_that_move_bodies_keep_each_of_them_once() {
    let disk = MemoryDisk::default();
    let world = open(&disk, &options());
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let world = world.clone();
            scope.spawn(move || {
                for step in 0..100_i32 {
                    let at = step % 5 + thread as i32 * 10;
                    let here = body(thread + 1, [at as f32 * SIZE as f32 + 1.0, 1.0]);
                    world
                        .edit()
                        .put_bodies((at, 0), [here])
                        .put((at, 0), noise(step as u64))
                        .commit(Durability::Buffered)
                        .unwrap();
                    if step % 30 == 7 {
                        world.compact(|_, _| {}).unwrap();
                    }
                    if step % 20 == 3 {
                        world.backup_on(&MemoryDisk::default(), "b", |_, _| {}).unwrap();
                    }
                    world.info();
                    assert_eq!(world.read_bodies((at, 0)).unwrap().len(), 1);
                }
            });
        }
    });
    drop(world);
    let world = open(&disk, &options());
    let all = world.chunks_with_bodies(ChunkRect::ALL);
    let bodies: Vec<u64> =
        all.iter().flat_map(|pos| world.read_bodies(*pos).unwrap()).map(|body| body.id.0).collect();
    assert_eq!(bodies, [1, 2, 3, 4]);
}

#[test]
fn what_an_edit_says_last_of_a_chunk_counts() {
    let disk = MemoryDisk::default();
    let world = open(&disk, &options());
    let mut edit = world.edit();
    edit.put((0, 0), noise(1)).put_bodies((0, 0), [body(1, [1.0, 1.0])]);
    edit.commit(Durability::Synced).unwrap();
    edit.put((0, 0), noise(2)).remove((0, 0)).put_bodies((0, 0), [body(2, [1.0, 1.0])]);
    edit.commit(Durability::Synced).unwrap();
    assert_eq!(world.read((0, 0)).unwrap(), None);
    assert_eq!(world.read_bodies((0, 0)).unwrap(), [body(2, [1.0, 1.0])]);
    // There and back again, and out of a chunk that is removed in the same edit.
    for (from, to) in [(0, 1), (1, 0), (0, 1)] {
        edit.put_bodies((to, 0), [body(2, [to as f32 * SIZE as f32 + 1.0, 1.0])]).remove((from, 0));
        edit.commit(Durability::Buffered).unwrap();
        assert_eq!(world.read_bodies((from, 0)).unwrap(), []);
        assert_eq!(world.read_bodies((to, 0)).unwrap().len(), 1);
    }
    // A copy with a move changes nothing here.
    edit.put_bodies((7, 0), [body(2, [7.0 * SIZE as f32 + 1.0, 1.0])]);
    world.save_on(&MemoryDisk::default(), "copy", &mut edit).unwrap();
    assert_eq!(world.read_bodies((1, 0)).unwrap().len(), 1);
    edit.put_bodies((0, 0), [body(2, [1.0, 1.0])]).commit(Durability::Synced).unwrap();
    drop((edit, world));
    let world = open(&disk, &options());
    assert_eq!(world.chunks_with_bodies(ChunkRect::ALL), [ChunkPos::new(0, 0)]);
}

#[test]
fn a_generator_that_panics_leaves_a_world_that_goes_on() {
    let disk = MemoryDisk::default();
    let options = options()
        .generator(|_: &WorldShape<'_>, pos: ChunkPos, _: &mut [u8]| assert!(pos.x != 13, "no luck"));
    let world = open(&disk, &options);
    let save = || world.edit().put((1, 0), noise(1)).put((13, 0), noise(1)).commit(Durability::Synced);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(save)).unwrap_err();
    assert!(world.is_empty());
    world.edit().put((1, 0), noise(2)).commit(Durability::Synced).unwrap();
    world.close().unwrap();
    assert_eq!(open(&disk, &options).read((1, 0)).unwrap(), Some(noise(2)));
}

#[test]
fn an_upgrade_brings_bodies_along_and_layers_come_and_go() {
    let disk = MemoryDisk::default();
    let solid = |cells: Vec<u8>| bonfire_chunks::Body { cells, ..body(1, [1.0, 1.0]) };
    let world = open(&disk, &named(&[], RemovedLayers::Keep));
    world.edit().put_bodies((0, 0), [solid(vec![7; 6])]).commit(Durability::Synced).unwrap();
    drop(world);
    // Opened by another release and not saved: nothing has changed.
    drop(open(&disk, &named(&["heat"], RemovedLayers::Keep)));
    drop(named(&["heat"], RemovedLayers::Keep).open_on(disk.clone(), "w", Access::Read).unwrap());
    drop(open(&disk, &named(&[], RemovedLayers::Keep)));
    let world = open(&disk, &named(&["heat"], RemovedLayers::Keep));
    assert_eq!(world.upgrade_all(|_, _| {}).unwrap(), 1);
    assert_eq!(world.upgrade_all(|_, _| {}).unwrap(), 0);
    assert_eq!(world.read_bodies((0, 0)).unwrap(), [solid([7, 0].repeat(6))]);
    drop(world);
    let world = open(&disk, &named(&["heat"], RemovedLayers::Keep));
    assert_eq!(world.upgrade_all(|_, _| {}).unwrap(), 0);
}

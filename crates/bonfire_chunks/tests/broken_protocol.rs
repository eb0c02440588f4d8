//! The order of writes and syncs is what keeps worlds whole: with a sync left out, or two steps swapped, the explorer of
//! crash states finds worlds that are wrong. With all of them it does not.

mod script;

use bonfire_chunks::Durability;
use bonfire_testkit::disk::{Breakage, BrokenDisk, CrashDisk, Explorer, Random};
use script::history::{History, is_among};
use script::{Model, NAME, Shape, random_edit};

const EAGER: Shape = Shape { eager: true, generated: true, ..Shape::PLAIN };
const LAZY: Shape = Shape::PLAIN;
/// A compaction in small steps is under way most of the time.
const IN_STEPS: Shape = Shape { compacts: true, step_bytes: 600, ..Shape::PLAIN };

/// What a script on a broken disk comes to.
struct Found {
    states: usize,
    wrong: usize,
    why: String,
    /// Syncs of files that were asked for.
    syncs: usize,
}

/// Saves, sometimes closes or compacts, and looks at what crashes may leave.
fn explore(breakage: Breakage, shape: Shape, seed: u64, saves: usize, states: usize) -> Found {
    let mut random = Random::new(seed);
    let disk = CrashDisk::with_files([(format!("{NAME}.lock"), Vec::new())]);
    let broken = std::sync::Arc::new(BrokenDisk::new(disk.clone(), breakage));
    let open = || shape.open(Shared(broken.clone())).expect("the disk says that all is well");
    let (mut history, mut model) = (History::default(), Model::default());
    history.begin(&model);
    let mut world = open();
    history.end(disk.operation_count(), true);
    for number in 0..saves {
        if number % 5 == 3 {
            drop(world);
            world = open();
            Model::of(&world).expect("programs see what they wrote");
        }
        if number % 7 == 5 {
            world.compact(|_, _| {}).expect("the disk says that all is well");
        }
        let mut edit = random_edit(&mut random, &world, shape, &mut model);
        history.begin(&model);
        edit.commit(Durability::Synced).expect("the disk says that all is well");
        history.end(disk.operation_count(), true);
    }
    let mut found = Found { states: 0, wrong: 0, why: String::new(), syncs: broken.sync_count() };
    let mut explorer = Explorer::new(seed);
    for point in disk.crash_points() {
        for state in explorer.states(&point, states) {
            found.states += 1;
            let opened = shape.open(state.disk()).map_err(|error| error.to_string());
            let checked = opened.and_then(|world| {
                if !world.report().damaged.is_empty() {
                    return Err(format!("damage is reported: {:?}", world.report()));
                }
                let model = Model::of(&world).map_err(|error| error.to_string())?;
                is_among(&model, history.allowed(point.after()))
            });
            if let Err(why) = checked {
                found.wrong += 1;
                found.why = why;
            }
        }
    }
    found
}

/// A disk that several worlds use, one after the other.
struct Shared<D>(std::sync::Arc<BrokenDisk<D>>);

impl<D: bonfire_store::disk::Disk> bonfire_store::disk::Disk for Shared<D> {
    fn open(
        &self,
        name: &str,
        access: bonfire_store::disk::Access,
    ) -> std::io::Result<Box<dyn bonfire_store::disk::DiskFile>> {
        self.0.open(name, access)
    }

    fn create_new(&self, name: &str) -> std::io::Result<Box<dyn bonfire_store::disk::DiskFile>> {
        self.0.create_new(name)
    }

    fn rename(&self, from: &str, to: &str) -> std::io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> std::io::Result<()> {
        self.0.remove(name)
    }

    fn list(&self) -> std::io::Result<Vec<String>> {
        self.0.list()
    }

    fn sync_dir(&self) -> std::io::Result<()> {
        self.0.sync_dir()
    }

    fn lock(&self, name: &str) -> std::io::Result<Option<bonfire_store::disk::DiskLock>> {
        self.0.lock(name)
    }
}

#[test]
fn the_whole_protocol_has_no_wrong_state() {
    for shape in [EAGER, LAZY, IN_STEPS] {
        let found = explore(Breakage::None, shape, 1, 16, 60);
        assert_eq!((found.wrong, found.why), (0, String::new()), "{shape:?}");
        assert!(found.states > 500, "{}", found.states);
    }
}

fn assert_found(breakage: Breakage, shape: Shape) {
    let found = explore(breakage, shape, 1, 16, 60);
    println!(
        "{breakage:?}, {shape:?}: {} of {} states wrong, such as: {}",
        found.wrong, found.states, found.why
    );
    assert!(found.wrong > 0, "{breakage:?} {shape:?}");
}

#[test]
fn without_a_sync_it_is_caught() {
    for shape in [EAGER, LAZY, IN_STEPS] {
        for breakage in [Breakage::NoFileSync, Breakage::NoDirSync, Breakage::NoSyncOfAppends] {
            assert_found(breakage, shape);
        }
    }
    assert_found(Breakage::NoSyncOfOverwrites, EAGER);
}

#[test]
fn swapped_steps_are_caught() {
    for shape in [EAGER, LAZY, IN_STEPS] {
        for breakage in [Breakage::RenameBeforeFileSync, Breakage::DirSyncBeforeRename] {
            assert_found(breakage, shape);
        }
    }
    // The table before the save that it lists, the header before the table.
    assert_found(Breakage::AppendsSyncedLate, EAGER);
    assert_found(Breakage::OverwritesSyncedLate, EAGER);
}

/// Each save has one that it cannot do without. Those of checkpoints and of growth can be left out one at a time: the next one makes
/// up for it, or recovery does.
#[test]
fn a_single_sync_that_is_left_out_is_caught() {
    const SAVES: usize = 12;
    for shape in [EAGER, LAZY] {
        let all = explore(Breakage::None, shape, 2, SAVES, 1).syncs;
        let missed: Vec<usize> = (1..=all)
            .filter(|number| explore(Breakage::NoSyncNumber(*number), shape, 2, SAVES, 200).wrong == 0)
            .collect();
        println!("{shape:?}: of {all} syncs, these are not missed: {missed:?}");
        assert!(all - missed.len() >= SAVES, "{shape:?}: of {all} syncs, {missed:?} are not missed");
    }
}

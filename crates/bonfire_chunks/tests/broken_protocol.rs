//! The order of writes and syncs is what keeps worlds whole: with a sync left out, or two steps swapped, the explorer of
//! crash states finds worlds that are wrong. With all of them it does not.

mod script;

use bonfire_chunks::Durability;
use bonfire_store::disk::{Access, Disk};
use bonfire_testkit::disk::{Breakage, BrokenDisk, CrashDisk, Explorer, Random};
use script::history::{History, is_among};
use script::{Model, NAME, PinStep, Shape, random_edit};

/// The worlds of a script, and how often moments are pinned, removed and returned to.
#[derive(Clone, Copy, Debug)]
struct Plan {
    shape: Shape,
    pins_percent: usize,
}

const EAGER: Plan = Plan { shape: Shape { eager: true, generated: true, ..Shape::PLAIN }, pins_percent: 0 };
const LAZY: Plan = Plan { shape: Shape::PLAIN, pins_percent: 0 };
/// A compaction in small steps is under way most of the time.
const IN_STEPS: Plan =
    Plan { shape: Shape { compacts: true, step_bytes: 600, ..Shape::PLAIN }, pins_percent: 0 };
const PINNED: Plan = Plan { pins_percent: 60, ..LAZY };
/// After the first sessions the world has more dimensions, so that a save writes the file anew.
const DEEP: Plan = Plan { shape: Shape { deep: true, ..Shape::PLAIN }, pins_percent: 30 };
/// The first save of a world with more dimensions that has them.
const DEEP_AFTER: usize = 3;

/// What a script on a broken disk comes to.
struct Found {
    states: usize,
    wrong: usize,
    why: String,
    /// Syncs of files that were asked for.
    syncs: usize,
}

/// Saves, sometimes closes or compacts, and looks at what crashes may leave.
fn explore(breakage: Breakage, plan: Plan, seed: u64, saves: usize, states: usize) -> Found {
    let Plan { shape, pins_percent } = plan;
    let mut random = Random::new(seed);
    let disk = CrashDisk::with_files([(format!("{NAME}.lock"), Vec::new())]);
    let broken = std::sync::Arc::new(BrokenDisk::new(disk.clone(), breakage));
    let open = |shape: Shape| shape.open(Shared(broken.clone())).expect("the disk says that all is well");
    let (mut history, mut model) = (History::default(), Model::default());
    history.begin(&model);
    let flat = Shape { deep: false, ..shape };
    let mut world = open(flat);
    history.end(disk.operation_count(), true);
    for number in 0..saves {
        let shape = if number < DEEP_AFTER { flat } else { shape };
        if number % 5 == DEEP_AFTER {
            drop(world);
            world = open(shape);
            Model::of(&world).expect("programs see what they wrote");
        }
        if number % 7 == 5 {
            world.compact(|_, _| {}).expect("the disk says that all is well");
        }
        if random.chance(pins_percent) {
            let step = PinStep::random(&mut random, &model);
            let do_it = step.plan(&mut random, &world, shape, &mut model);
            history.begin(&model);
            do_it().expect("the disk says that all is well");
            history.end(disk.operation_count(), step.is_durable());
            continue;
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
            let disk = state.disk();
            let (tells_of_pins, tells_of_depth) = header_tells_of_pins_and_depth(&disk);
            let opened = shape.open(disk).map_err(|error| error.to_string());
            let checked = opened.and_then(|world| {
                if !world.report().damaged.is_empty() {
                    return Err(format!("damage is reported: {:?}", world.report()));
                }
                let model = Model::of(&world).map_err(|error| error.to_string())?;
                if !model.pins.is_empty() && !tells_of_pins {
                    return Err("earlier versions would not see that there are pins".to_owned());
                }
                if !tells_of_depth && world.iter().any(|pos| pos.z != 0 || pos.dimension != 0) {
                    return Err("earlier versions would not see that there are dimensions".to_owned());
                }
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

/// Returns whether those who do not know pins refuse the file, and those who do not know dimensions: one that has no header yet,
/// or whose header says that it has some.
fn header_tells_of_pins_and_depth(disk: &dyn Disk) -> (bool, bool) {
    let mut header = [0; 64];
    match disk.open(NAME, Access::Read).and_then(|file| file.read_exact_at(&mut header, 0)) {
        Ok(()) => (header[6] & 16 != 0, header[4] == 2),
        Err(_) => (true, true),
    }
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
    for plan in [EAGER, LAZY, IN_STEPS, PINNED, DEEP] {
        let found = explore(Breakage::None, plan, 1, 16, 60);
        assert_eq!((found.wrong, found.why), (0, String::new()), "{plan:?}");
        assert!(found.states > 500, "{}", found.states);
    }
}

fn assert_found(breakage: Breakage, plan: Plan) {
    let found = explore(breakage, plan, 1, 16, 60);
    println!(
        "{breakage:?}, {plan:?}: {} of {} states wrong, such as: {}",
        found.wrong, found.states, found.why
    );
    assert!(found.wrong > 0, "{breakage:?} {plan:?}");
}

#[test]
fn without_a_sync_it_is_caught() {
    for plan in [EAGER, LAZY, IN_STEPS, PINNED, DEEP] {
        for breakage in [Breakage::NoFileSync, Breakage::NoDirSync, Breakage::NoSyncOfAppends] {
            assert_found(breakage, plan);
        }
    }
    assert_found(Breakage::NoSyncOfOverwrites, EAGER);
    // The flag in the header before the first pin.
    assert_found(Breakage::NoSyncOfOverwrites, PINNED);
}

#[test]
fn swapped_steps_are_caught() {
    for plan in [EAGER, LAZY, IN_STEPS, PINNED, DEEP] {
        for breakage in [Breakage::RenameBeforeFileSync, Breakage::DirSyncBeforeRename] {
            assert_found(breakage, plan);
        }
    }
    // The table before the save that it lists, the header before the table.
    assert_found(Breakage::AppendsSyncedLate, EAGER);
    assert_found(Breakage::OverwritesSyncedLate, EAGER);
    assert_found(Breakage::OverwritesSyncedLate, PINNED);
}

/// Each save has one that it cannot do without. Those of checkpoints and of growth can be left out one at a time: the next one makes
/// up for it, or recovery does.
#[test]
fn a_single_sync_that_is_left_out_is_caught() {
    const SAVES: usize = 12;
    for plan in [EAGER, LAZY] {
        let all = explore(Breakage::None, plan, 2, SAVES, 1).syncs;
        let missed: Vec<usize> = (1..=all)
            .filter(|number| explore(Breakage::NoSyncNumber(*number), plan, 2, SAVES, 200).wrong == 0)
            .collect();
        println!("{plan:?}: of {all} syncs, these are not missed: {missed:?}");
        assert!(all - missed.len() >= SAVES, "{plan:?}: of {all} syncs, {missed:?} are not missed");
    }
}

//! Every call of the disk may fail: with `EIO`, with `ENOSPC`, with less done than asked for, with `EINTR`; once, or from
//! then on. An error is an error: nothing that was acknowledged is lost, nothing is half done, nothing panics. An error before
//! the sync leaves the world usable; after a failed sync nothing is written until it is opened again, and reads go on.
//! Interrupted and short reads and writes are nobody's business.

mod script;

use bonfire_chunks::{ChunkPos, ChunkWorld, Durability};
use bonfire_store::disk::{Access, Disk, MemoryDisk};
use bonfire_testkit::disk::{Call, Fault, FaultyDisk, Plan, Random, Repeat};
use script::{CHUNK_BYTES, Model, NAME, Shape, body, snapshots};

const SHAPE: Shape = Shape { eager: true, generated: true, compacts: true, ..Shape::PLAIN };

/// What happens while the disk fails.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Case {
    Update,
    Insert,
    /// So many that the table grows over frames, or the file is written anew.
    Grow(i32),
    Buffered,
    Compact,
    Close,
    Open,
    Copy,
}

const CASES: [Case; 9] = [
    Case::Update,
    Case::Insert,
    Case::Grow(3),
    Case::Grow(40),
    Case::Buffered,
    Case::Compact,
    Case::Close,
    Case::Open,
    Case::Copy,
];

struct Trial {
    disk: FaultyDisk<MemoryDisk>,
    world: Option<ChunkWorld>,
    before: Model,
    after: Model,
    plan: Plan,
    case: Case,
    result: bonfire::Result<()>,
    calls: Vec<Call>,
}

fn put(
    world: &ChunkWorld,
    model: &mut Model,
    places: impl Iterator<Item = (i32, i32)>,
    seed: u64,
) -> bonfire_chunks::Edit {
    let mut edit = world.edit();
    for (number, (x, y)) in places.enumerate() {
        let cells = Random::new(seed * 1000 + number as u64).bytes(CHUNK_BYTES);
        model.cells.insert(ChunkPos::new(x, y), cells.clone());
        edit.put((x, y), cells);
    }
    edit
}

impl Trial {
    fn run(case: Case, plan: Plan) -> Self {
        let disk = FaultyDisk::new(MemoryDisk::new());
        let mut before = Model::default();
        let world = SHAPE.open(disk.clone()).expect("nothing fails yet");
        let mut edit = put(&world, &mut before, (0..4).map(|x| (x, 0)), 1);
        let here = ChunkPos::new(1, 0);
        before.bodies.insert(here, vec![body(1, here, vec![7; 300])]);
        before.entities.insert(here, snapshots()[1].clone());
        edit.put_bodies(here, before.bodies[&here].clone()).put_entities(here, snapshots()[1].clone());
        edit.commit(Durability::Synced).expect("nothing fails yet");
        put(&world, &mut before, (0..2).map(|x| (x, 0)), 2)
            .commit(Durability::Synced)
            .expect("nothing fails yet");
        drop(edit);
        let (mut world, mut after) = (Some(world), before.clone());
        if case == Case::Open {
            // As a crash leaves it, with a tail and a file that was to be.
            let saved = world.take().expect("it is open");
            put(&saved, &mut before, (2..4).map(|x| (x, 0)), 3)
                .commit(Durability::Buffered)
                .expect("nothing fails yet");
            after.clone_from(&before);
            saved.flush().expect("nothing fails yet");
            disk.fail(Plan { fault: Fault::Io, nth: 1, of: None, repeat: Repeat::Forever });
            drop(saved);
            disk.heal();
            let litter = disk.create_new(&format!("{NAME}.tmp")).expect("nothing fails yet");
            litter.write_all_at(b"half", 0).expect("nothing fails yet");
        }
        disk.fail(plan);
        let open = || world.as_ref().expect("it is open");
        let result = match case {
            Case::Update => {
                put(open(), &mut after, (1..3).map(|x| (x, 0)), 4).commit(Durability::Synced).map(drop)
            }
            Case::Insert => {
                put(open(), &mut after, (7..8).map(|x| (x, 5)), 4).commit(Durability::Synced).map(drop)
            }
            Case::Grow(count) => {
                put(open(), &mut after, (0..count).map(|x| (x, 9)), 4).commit(Durability::Synced).map(drop)
            }
            Case::Buffered => put(open(), &mut after, (1..3).map(|x| (x, 0)), 4)
                .commit(Durability::Buffered)
                .and_then(|_| open().flush()),
            Case::Compact => open().compact(|_, _| {}),
            Case::Close => open().close(),
            Case::Copy => open().save_on(&disk, "copy.save", &mut open().edit()).map(drop),
            Case::Open => SHAPE.open(disk.clone()).map(|opened| world = Some(opened)),
        };
        disk.heal();
        let calls = disk.calls();
        Self { disk, world, before, after, plan, case, result, calls }
    }

    fn fired(&self, call: Call) -> bool {
        self.disk.fired().contains(&call)
    }

    /// Whether anything went wrong that a caller may hear of.
    fn went_wrong(&self) -> bool {
        self.disk.fired().into_iter().any(|call| !self.plan.fault.is_harmless(call))
    }

    fn what(&self) -> String {
        format!("{:?}, {:?}, fired: {:?}, calls: {:?}", self.case, self.plan, self.disk.fired(), self.calls)
    }

    /// This disk forgets at once what could not be synced. Then reads of it are errors until the world is opened again.
    fn lost_a_buffered_save(&self) -> bool {
        let is_lost = self.case == Case::Buffered && self.fired(Call::Sync) && self.went_wrong();
        if let Some(world) = self.world.as_ref().filter(|_| is_lost) {
            let others =
                self.before.cells.keys().filter(|pos| self.before.cells[pos] == self.after.cells[pos]);
            for pos in others {
                assert_eq!(world.read(*pos).expect("it is whole").as_ref(), self.before.cells.get(pos));
            }
            let error = world.read((1, 0)).expect_err("it is not there");
            assert!(error.is_corrupt(), "{error}");
        }
        is_lost
    }

    fn is_one_of(&self, found: &Model) -> bool {
        *found == self.after || self.result.is_err() && *found == self.before
    }
}

/// Every call of every case fails in every way, each in a trial of its own.
fn each_trial(mut check: impl FnMut(Trial)) -> usize {
    let mut trials = 0;
    for case in CASES {
        for fault in Fault::ALL {
            for repeat in [Repeat::Once, Repeat::Forever] {
                for nth in 1.. {
                    let trial = Trial::run(case, Plan { fault, nth, of: None, repeat });
                    if trial.calls.len() < nth {
                        assert!(trial.result.is_ok(), "{}: {:?}", trial.what(), trial.result);
                        break;
                    }
                    check(trial);
                    trials += 1;
                }
            }
        }
    }
    trials
}

#[test]
fn errors_are_reported_and_harmless_faults_are_not() {
    let trials = each_trial(|trial| {
        if let Err(error) = &trial.result {
            assert!(trial.went_wrong(), "{}: {error}", trial.what());
            assert!(error.is_io() && !error.is_not_found(), "{}: {error}", trial.what());
        }
    });
    println!("{trials} trials");
    assert!(trials > 1000, "{trials}");
}

/// Right after the error, and after a new start.
#[test]
fn what_was_acknowledged_is_there_and_nothing_is_half_done() {
    each_trial(|trial| {
        if let Some(world) = trial.world.as_ref().filter(|_| !trial.lost_a_buffered_save()) {
            let found = Model::of(world).unwrap_or_else(|error| panic!("{}: {error}", trial.what()));
            assert!(trial.is_one_of(&found), "{}: {}", trial.what(), found.counts());
        }
        let Trial { disk, .. } = &trial;
        // The process ends without a word.
        disk.fail(Plan { fault: Fault::Io, nth: 1, of: None, repeat: Repeat::Forever });
        let (disk, what) = (disk.clone(), trial.what());
        let mut trial = trial;
        drop(trial.world.take());
        disk.heal();
        let world = SHAPE.open(disk.clone()).unwrap_or_else(|error| panic!("{what}: {error}"));
        let found = Model::of(&world).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(trial.is_one_of(&found), "{what}: {} after a new start", found.counts());
        assert!(world.report().damaged.is_empty(), "{what}: {:?}", world.report());
        let names = disk.list().expect("healed");
        assert!(!names.contains(&format!("{NAME}.tmp")), "{what}: {names:?}");
    });
}

#[test]
fn after_a_failed_sync_nothing_is_written_and_reads_go_on() {
    let mut poisoned = 0;
    each_trial(|trial| {
        let Some(world) = trial.world.as_ref().filter(|_| !trial.lost_a_buffered_save()) else { return };
        if trial.case == Case::Close
            && world.edit().put((0, 0), vec![1; CHUNK_BYTES]).commit(Durability::Synced).is_err()
        {
            return;
        }
        let mut model = Model::of(world).unwrap_or_else(|error| panic!("{}: {error}", trial.what()));
        let saved = put(world, &mut model, (0..1).map(|x| (x, 0)), 8).commit(Durability::Synced);
        let sync_failed = trial.fired(Call::Sync) && trial.went_wrong();
        match saved {
            // The next save of a world that can still be written to is as good as any.
            Ok(_) => {
                assert!(
                    !sync_failed || trial.case == Case::Copy || is_of_a_new_file(&trial),
                    "{}",
                    trial.what()
                );
                assert!(Model::of(world).expect("healed") == model, "{}", trial.what());
            }
            Err(error) => {
                poisoned += 1;
                assert!(trial.went_wrong(), "{}: {error}", trial.what());
                assert!(error.is_poisoned() && !error.is_corrupt(), "{}: {error:?}", trial.what());
                assert!(error.to_string().contains("open the world again"), "{}: {error}", trial.what());
                Model::of(world).unwrap_or_else(|error| panic!("{}: reads go on: {error}", trial.what()));
                let Trial { disk, .. } = &trial;
                let again = SHAPE.options().open_on(disk.clone(), NAME, Access::Read);
                assert!(again.is_ok(), "{}", trial.what());
            }
        }
        assert_eq!(trial.disk.syncs_after_failure(), 0, "{}", trial.what());
    });
    assert!(poisoned > 20, "{poisoned}");
}

/// A file that is not in its place yet may fail: the old one is as it was.
fn is_of_a_new_file(trial: &Trial) -> bool {
    trial.calls.contains(&Call::Create)
}

#[test]
fn no_file_is_synced_again_after_a_sync_of_it_has_failed() {
    each_trial(|trial| {
        let what = trial.what();
        let Trial { disk, world, .. } = trial;
        if let Some(world) = world {
            let _ = world.edit().put((1, 1), vec![3; CHUNK_BYTES]).commit(Durability::Synced);
            let _ = world.flush();
            let _ = world.compact(|_, _| {});
            let _ = world.close();
        }
        assert_eq!(disk.syncs_after_failure(), 0, "{what}");
    });
}

#[test]
fn a_compaction_whose_file_gets_no_name_does_not_stop_saves_and_leaves_nothing() {
    let disk = FaultyDisk::new(MemoryDisk::new());
    let world = SHAPE.open(disk.clone()).expect("nothing fails yet");
    let mut model = Model::default();
    put(&world, &mut model, (0..4).map(|x| (x, 0)), 1).commit(Durability::Synced).expect("nothing fails yet");
    disk.fail(Plan { fault: Fault::Io, nth: 1, of: Some(Call::Rename), repeat: Repeat::Once });
    let error = world.compact(|_, _| {}).unwrap_err();
    disk.heal();
    assert!(error.is_io() && !error.is_poisoned(), "{error:?}");
    put(&world, &mut model, (1..3).map(|x| (x, 0)), 2).commit(Durability::Synced).expect("it goes on");
    assert!(Model::of(&world).expect("all is whole") == model);
    assert!(!disk.list().expect("healed").contains(&format!("{NAME}.tmp")));
}

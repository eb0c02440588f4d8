//! A crash at any point leaves a world that opens without damage, with all that the last acknowledged save had, or some
//! later one that had begun: cells, bodies and entities. Also if the machine stops again while the world is opened, and in
//! the save after that, and if a sync failed before.
//!
//! What a crash may leave is written down in `bonfire_testkit::disk`. How many states were seen is printed
//! (`--nocapture`).

mod script;

use std::collections::HashMap;
use std::ops::Range;

use bonfire_chunks::{ChunkWorld, Durability};
use bonfire_store::disk::Access;
use bonfire_testkit::disk::{CrashDisk, CrashPoint, CrashState, Explorer, Operation, Random};
use bonfire_testkit::scale;
use script::history::{History, is_among};
use script::{Model, NAME, PinStep, Shape, random_edit};

const COPY: &str = "copy.save";
/// How many states are looked at, at most, of one crash: of the first, and of one that follows it.
const STATES: usize = 64;
const STATES_AGAIN: usize = 8;
/// The steps of a script with more dimensions that come before them.
const DEEP_AFTER: usize = 5;
/// In how many of a thousand states the world is used again, and crashes again.
const GOES_ON_PERMILLE: usize = 8;

/// The kind of scripts that a test runs.
#[derive(Clone, Copy, Default)]
struct Kind {
    sync_fails_percent: usize,
    sealed: bool,
    /// A compaction is under way most of the time.
    in_steps: bool,
    /// How often moments are pinned, removed and returned to.
    pins_percent: usize,
    /// After the first steps the world gets more dimensions.
    deep: bool,
}

struct Script {
    disk: CrashDisk,
    shape: Shape,
    world: History,
    copy: History,
    saves: usize,
    failed_syncs: usize,
    pin_steps: usize,
    returns: usize,
}

impl Script {
    fn run(seed: u64, steps: usize, kind: Kind) -> Self {
        let mut random = Random::new(seed);
        let shape = Shape::random(&mut random);
        let shape = if kind.sealed { shape.sealed() } else { shape };
        let shape = if kind.deep { Shape { compat: false, ..shape } } else { shape };
        let shape = if kind.in_steps { shape.in_steps(&mut random) } else { shape };
        // Locks are no part of the state.
        let locks = [NAME, COPY].map(|name| (format!("{name}.lock"), Vec::new()));
        let disk = CrashDisk::with_files(locks);
        let mut script = Self {
            disk,
            shape,
            world: History::default(),
            copy: History::default(),
            saves: 0,
            failed_syncs: 0,
            pin_steps: 0,
            returns: 0,
        };
        let mut model = Model::default();
        script.world.begin(&model);
        let mut world = script.open();
        script.world.end(script.disk.operation_count(), true);
        script.copy.begin(&model);
        script.copy.end(0, true);
        for step in 0..steps {
            if kind.deep && step == DEEP_AFTER {
                drop(world);
                script.shape = script.shape.deep();
                world = script.open();
            }
            let shape = script.shape;
            world = script.between(&mut random, world, &model);
            for _ in 0..random.below(if kind.in_steps { 6 } else { 1 }) {
                world.step_compaction().expect("a disk in memory");
                assert!(Model::of(&world).expect("all is whole") == model, "seed {seed}");
            }
            if random.chance(kind.sync_fails_percent) {
                world = script.with_failed_syncs(&mut random, world, &mut model);
                continue;
            }
            if random.chance(kind.pins_percent) {
                script.step_pins(&mut random, &world, &mut model);
                assert!(Model::of(&world).expect("all is whole") == model, "seed {seed}");
                continue;
            }
            let durability = if random.chance(25) { Durability::Buffered } else { Durability::Synced };
            let mut edit = random_edit(&mut random, &world, shape, &mut model);
            script.world.begin(&model);
            edit.commit(durability).expect("a disk in memory");
            script.world.end(script.disk.operation_count(), durability == Durability::Synced);
            script.saves += 1;
            assert!(Model::of(&world).expect("all is whole") == model, "seed {seed}");
        }
        std::mem::forget(world);
        script
    }

    fn open(&self) -> ChunkWorld {
        self.shape.open(self.disk.clone()).expect("a disk in memory")
    }

    fn step_pins(&mut self, random: &mut Random, world: &ChunkWorld, model: &mut Model) {
        let step = PinStep::random(random, model);
        let do_it = step.plan(random, world, self.shape, model);
        self.world.begin(model);
        do_it().expect("a disk in memory");
        self.world.end(self.disk.operation_count(), step.is_durable());
        self.pin_steps += 1;
        self.returns += usize::from(matches!(step, PinStep::ReturnTo(_)));
    }

    /// What happens between saves.
    fn between(&mut self, random: &mut Random, world: ChunkWorld, model: &Model) -> ChunkWorld {
        match random.below(14) {
            // It may be a Buffered save that is closed.
            0 | 1 => {
                self.world.begin(model);
                world.close().expect("a disk in memory");
                self.world.end(self.disk.operation_count(), true);
                drop(world);
                let world = self.open();
                assert_eq!(world.report(), &bonfire_chunks::OpenReport::default());
                assert!(Model::of(&world).expect("all is whole") == *model);
                return world;
            }
            2 => {
                self.world.begin(model);
                world.compact(|_, _| {}).expect("a disk in memory");
                self.world.end(self.disk.operation_count(), true);
            }
            3 => {
                self.world.begin(model);
                world.flush().expect("a disk in memory");
                self.world.end(self.disk.operation_count(), true);
            }
            4 => {
                let mut copied = model.clone();
                let mut edit = world.edit();
                if random.chance(50) {
                    edit = random_edit(random, &world, self.shape, &mut copied);
                }
                self.copy.begin(&copied);
                world.save_on(&self.disk, COPY, &mut edit).expect("a disk in memory");
                self.copy.end(self.disk.operation_count(), true);
            }
            _ => {}
        }
        world
    }

    /// A save of which a sync fails, and what a game does then: it opens the world again.
    fn with_failed_syncs(&mut self, random: &mut Random, world: ChunkWorld, model: &mut Model) -> ChunkWorld {
        let before = model.clone();
        let mut after = before.clone();
        let mut edit = random_edit(random, &world, self.shape, &mut after);
        self.world.begin(&after);
        self.disk.fail_syncs(1);
        let saved = if random.chance(70) {
            edit.commit(Durability::Synced).map(drop)
        } else {
            edit.commit(Durability::Buffered).and_then(|_| world.close())
        };
        let was_acknowledged = saved.is_ok();
        self.disk.fail_syncs(0);
        self.failed_syncs += 1;
        if was_acknowledged {
            self.world.end(self.disk.operation_count(), true);
        }
        drop((world, edit));
        let world = self.open();
        let found = Model::of(&world).expect("all is whole");
        assert!(found == after || !was_acknowledged && found == before);
        if !was_acknowledged {
            self.world.end(self.disk.operation_count(), false);
            self.world.begin(&found);
            self.world.end(self.disk.operation_count(), true);
        }
        *model = found;
        world
    }
}

#[derive(Default)]
struct Tally {
    distinct: usize,
    again: u64,
    saves: usize,
    failed_syncs: usize,
    pin_steps: usize,
    returns: usize,
    /// How often the table grew over frames, and how often the file was written anew.
    evacuations: usize,
    rewrites: usize,
    headers_rebuilt: usize,
    tables_rebuilt: usize,
}

impl Tally {
    fn note(&mut self, script: &Script) {
        (self.saves, self.failed_syncs) =
            (self.saves + script.saves, self.failed_syncs + script.failed_syncs);
        self.pin_steps += script.pin_steps;
        self.returns += script.returns;
        let mut data_starts = HashMap::new();
        for operation in script.disk.operations() {
            match operation {
                Operation::Rename { to, .. } if to == NAME => self.rewrites += 1,
                Operation::Write { file, offset: 0, bytes } => {
                    let data_start = bytes.get(40..48).map(<[u8]>::to_vec);
                    let before = data_starts.insert(file, data_start.clone());
                    self.evacuations += usize::from(before.is_some_and(|before| before != data_start));
                }
                _ => {}
            }
        }
    }
}

/// Opens what a crash has left. No part of it may count as damaged.
fn open(
    shape: Shape,
    world: bonfire::Result<ChunkWorld>,
    tally: &mut Tally,
) -> Result<(ChunkWorld, Model), String> {
    let world = world.map_err(|error| format!("{shape:?}: {error}"))?;
    let report = world.report();
    tally.headers_rebuilt += usize::from(report.header_rebuilt);
    tally.tables_rebuilt += usize::from(report.table_rebuilt);
    if !report.damaged.is_empty() || !world.info().set_aside.is_empty() {
        return Err(format!("damage is reported: {report:?}"));
    }
    let found = Model::of(&world).map_err(|error| {
        format!("{error} {shape:?} {:?} {:?} {report:?}", world.pins(), world.check(|_, _| {}))
    })?;
    Ok((world, found))
}

fn explore(seed: u64, steps: usize, kind: Kind, tally: &mut Tally) {
    let script = Script::run(seed, steps, kind);
    tally.note(&script);
    let (mut explorer, mut random) = (Explorer::new(seed), Random::new(seed + 1));
    let mut second = Explorer::new(seed + 2);
    for point in script.disk.crash_points() {
        for state in explorer.states(&point, STATES) {
            let checked = if random.below(1000) < GOES_ON_PERMILLE {
                crash_again(&script, &point, &state, &mut random, &mut second, tally)
            } else {
                check_state(&script, &point, &state, tally)
            };
            if let Err(why) = checked {
                let operations = script.disk.operations();
                let last = &operations[point.after().saturating_sub(12)..point.after()];
                panic!("seed {seed}, after {} operations: {why}\nthe last of them: {last:#?}", point.after());
            }
        }
    }
    tally.distinct += explorer.distinct() + second.distinct();
    tally.again += explorer.handed_out() + second.handed_out();
}

fn check_state(
    script: &Script,
    point: &CrashPoint,
    state: &CrashState,
    tally: &mut Tally,
) -> Result<(), String> {
    let disk = state.disk();
    let (world, found) = open(script.shape, script.shape.open(disk.clone()), tally)?;
    is_among(&found, script.world.allowed(point.after()))?;
    drop(world);
    // The copy is there as a whole or not at all.
    let allowed = script.copy.allowed(point.after());
    if allowed.len() > 1 || point.after().is_multiple_of(16) {
        let copy = script.shape.options().open_on(disk, COPY, Access::Read);
        let found = match copy {
            Err(error) if error.is_not_found() => Model::default(),
            copy => open(script.shape, copy, tally)?.1,
        };
        is_among(&found, allowed).map_err(|why| format!("the copy: {why}"))?;
    }
    Ok(())
}

/// The world is opened and saved once more, and the machine stops in the middle of that.
fn crash_again(
    script: &Script,
    point: &CrashPoint,
    state: &CrashState,
    random: &mut Random,
    explorer: &mut Explorer,
    tally: &mut Tally,
) -> Result<(), String> {
    let (disk, shape) = (state.crash_disk(), script.shape);
    let (world, before) = open(shape, shape.open(disk.clone()), tally)?;
    let allowed = script.world.allowed(point.after());
    is_among(&before, allowed)?;
    let opened = disk.operation_count();
    let mut after = before.clone();
    // A world with pins is one where they come and go.
    if !before.pins.is_empty() && random.chance(50) {
        let step = PinStep::random(random, &before);
        step.plan(random, &world, shape, &mut after)().map_err(|error| error.to_string())?;
        if !step.is_durable() {
            world.flush().map_err(|error| error.to_string())?;
        }
    } else {
        random_edit(random, &world, shape, &mut after)
            .commit(Durability::Synced)
            .map_err(|error| error.to_string())?;
    }
    let acknowledged = disk.operation_count();
    if random.chance(50) {
        world.close().map_err(|error| error.to_string())?;
    }
    let points = disk.crash_points();
    drop(world);
    for second in points {
        for state in explorer.states(&second, STATES_AGAIN) {
            let (world, found) = open(shape, shape.open(state.disk()), tally)
                .map_err(|why| format!("second crash after {}: {why}", second.after()))?;
            drop(world);
            let is_right = found == after
                || second.after() < acknowledged && found == before
                || second.after() < opened && is_among(&found, allowed).is_ok();
            if !is_right {
                let all = [&before, &after].map(Model::counts);
                return Err(format!(
                    "second crash after {} of {opened} and {acknowledged}: {} of {all:?}\n{:#?}",
                    second.after(),
                    found.counts(),
                    disk.operations()
                ));
            }
        }
    }
    Ok(())
}

/// Runs the scripts of one test, and says how much was seen.
fn explore_all(seeds: Range<u64>, kind: Kind, at_least: usize) {
    let mut tally = Tally::default();
    for round in 0..u64::from(scale().min(50)) {
        for seed in seeds.clone() {
            explore(seed + round * 1000, 26, kind, &mut tally);
        }
    }
    let Tally {
        distinct,
        again,
        saves,
        failed_syncs,
        pin_steps,
        returns,
        evacuations,
        rewrites,
        headers_rebuilt,
        tables_rebuilt,
    } = tally;
    println!(
        "{distinct} distinct crash states ({again} with those met again) of {saves} saves and {pin_steps} steps of pins, {returns} of them returns, {evacuations} growing \
         tables and {rewrites} new files, none wrong; {failed_syncs} syncs failed, {headers_rebuilt} headers and {tables_rebuilt} tables rebuilt"
    );
    // Sealed worlds are explored for a shorter time. A table does not grow over frames that are being copied.
    let (grown, rewritten) = match (kind.in_steps, kind.sealed) {
        (true, true) => (0, 10),
        (true, false) => (0, 40),
        (false, true) => (3, 3),
        (false, false) => (11, 11),
    };
    assert!(evacuations >= grown && rewrites >= rewritten, "{evacuations} grew, {rewrites} were rewritten");
    assert!(distinct >= at_least, "only {distinct} states: the explorer sees too little");
}

#[test]
fn a_crash_at_any_point_leaves_what_was_saved_1() {
    explore_all(0..36, Kind::default(), 80_000);
}

#[test]
fn a_crash_at_any_point_leaves_what_was_saved_2() {
    explore_all(100..136, Kind::default(), 80_000);
}

#[test]
fn a_crash_after_a_failed_sync_leaves_what_was_saved() {
    explore_all(200..216, Kind { sync_fails_percent: 12, ..Kind::default() }, 40_000);
}

#[test]
#[cfg(feature = "seal")]
fn a_crash_of_a_sealed_world_leaves_what_was_saved_and_proves_it() {
    explore_all(300..303, Kind { sealed: true, sync_fails_percent: 6, ..Kind::default() }, 8_000);
}

#[test]
fn a_crash_in_a_compaction_in_steps_leaves_what_was_saved_1() {
    explore_all(400..406, Kind { in_steps: true, ..Kind::default() }, 100_000);
}

#[test]
fn a_crash_in_a_compaction_in_steps_leaves_what_was_saved_2() {
    explore_all(500..507, Kind { in_steps: true, sync_fails_percent: 8, ..Kind::default() }, 100_000);
}

#[test]
#[cfg(feature = "seal")]
fn a_crash_in_a_compaction_of_a_sealed_world_leaves_what_was_saved() {
    explore_all(
        600..602,
        Kind { in_steps: true, sealed: true, sync_fails_percent: 6, ..Kind::default() },
        8_000,
    );
}

#[test]
fn a_crash_leaves_pins_as_they_were() {
    explore_all(700..740, Kind { pins_percent: 45, ..Kind::default() }, 100_000);
}

#[test]
fn a_crash_after_a_failed_sync_leaves_pins_as_they_were() {
    explore_all(800..812, Kind { pins_percent: 45, sync_fails_percent: 12, ..Kind::default() }, 30_000);
}

#[test]
fn a_crash_in_a_compaction_leaves_pins_as_they_were() {
    explore_all(
        900..910,
        Kind { pins_percent: 45, in_steps: true, sync_fails_percent: 4, ..Kind::default() },
        100_000,
    );
}

#[test]
#[cfg(feature = "seal")]
fn a_crash_of_a_sealed_world_leaves_pins_as_they_were() {
    explore_all(
        1000..1004,
        Kind { pins_percent: 45, sealed: true, sync_fails_percent: 6, ..Kind::default() },
        12_000,
    );
}

#[test]
fn a_crash_of_a_world_with_more_dimensions_leaves_what_was_saved() {
    explore_all(1100..1130, Kind { deep: true, sync_fails_percent: 4, ..Kind::default() }, 60_000);
}

#[test]
fn a_crash_of_a_world_with_more_dimensions_leaves_pins_as_they_were() {
    let kind = Kind { deep: true, pins_percent: 45, ..Kind::default() };
    explore_all(1200..1216, kind, 40_000);
    explore_all(1300..1304, Kind { in_steps: true, sync_fails_percent: 4, ..kind }, 40_000);
}

#[test]
#[cfg(feature = "seal")]
fn a_crash_of_a_sealed_world_with_more_dimensions_leaves_what_was_saved() {
    let kind = Kind { deep: true, sealed: true, pins_percent: 30, sync_fails_percent: 6, ..Kind::default() };
    explore_all(1400..1402, kind, 5_000);
}

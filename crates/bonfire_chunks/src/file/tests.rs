//! The file on disks that forget: every state that a crash may leave is one that was saved.

use std::collections::BTreeMap;
use std::sync::Arc;

use bonfire::Result;
use bonfire_store::disk::{Access, Disk, MemoryDisk};
use bonfire_testkit::disk::{CrashDisk, Explorer, Random};

use super::*;
use crate::format::{FrameKey, FrameKind, FrameTag, Header, encode_head};
use crate::frames::{FrameChange, NewFrame, conformance};
use crate::{ChunkPos, Durability};

const NAME: &str = "world.save";

type Model = BTreeMap<FrameKey, Vec<u8>>;

fn options(eager: bool) -> FileOptions {
    FileOptions {
        key: None,
        counter: None,
        salvage: false,
        accepts_old_seal: false,
        watch: None,
        eager,
        capacity_min: 4,
        dead_share_max: Some(0.5),
        dead_bytes_min: 8192,
        step_bytes: 700,
    }
}

fn header() -> Header {
    let mut bytes = [0; crate::format::SETTINGS_HEAD_BYTES];
    bytes[..4].copy_from_slice(&[1, 4, 1, 0]);
    bytes[20] = 16;
    crate::format::decode_head(&bytes).expect("a head")
}

fn create(disk: &dyn Disk) -> Model {
    let settings = |y| NewFrame {
        key: FrameKey::new(FrameKind::Settings, ChunkPos::new(0, y)),
        tag: FrameTag::default(),
        data: encode_head(&header()).to_vec(),
    };
    let change = FrameChange { frames: vec![settings(0), settings(1)], removed: Vec::new() };
    let new = NewFile {
        disk,
        name: NAME,
        temporary: TemporaryName::InOneGo,
        header: header(),
        capacity_min: 4,
        generation: 1,
        seal: None,
    };
    new.create(&change).expect("a new file");
    change.frames.into_iter().map(|frame| (frame.key, frame.data)).collect()
}

fn open(disk: impl Disk + 'static, eager: bool) -> Result<(ChunkFile, OpenReport)> {
    ChunkFile::open(Arc::new(disk), NAME, Access::Write, options(eager))
}

fn contents(file: &ChunkFile) -> Result<Model> {
    let keys: Vec<FrameKey> = file.state().indices.iter().map(|(key, _)| key).collect();
    let read =
        |key: FrameKey| Ok((key, file.read(key, |_, data| Ok(data.to_vec()))?.expect("it is in the index")));
    keys.into_iter().map(read).collect()
}

fn random_change(random: &mut Random, model: &mut Model) -> FrameChange {
    let mut change = FrameChange::default();
    for _ in 0..1 + random.below(5) {
        let kind = *random.pick(&[
            FrameKind::Chunk,
            FrameKind::Chunk,
            FrameKind::Chunk,
            FrameKind::Bodies,
            FrameKind::Snapshot,
        ]);
        let key = FrameKey::new(kind, ChunkPos::new(random.below(6) as i32 - 3, random.below(6) as i32 - 3));
        if change.frames.iter().any(|frame| frame.key == key) || change.removed.contains(&key) {
            continue;
        }
        if random.chance(20) {
            model.remove(&key);
            change.removed.push(key);
        } else {
            let len = *random.pick(&[0, 1, 30, 200, 450, 600, 1100]);
            let data = random.bytes(len);
            model.insert(key, data.clone());
            change.frames.push(NewFrame { key, tag: FrameTag::default(), data });
        }
    }
    change
}

/// What was there after so many operations, and whether it was promised to stay.
struct Step {
    after: usize,
    model: Model,
    is_durable: bool,
}

fn run(disk: &CrashDisk, seed: u64, eager: bool, steps: usize) -> Vec<Step> {
    let mut random = Random::new(seed);
    let mut model = create(disk);
    let mut done = vec![Step { after: disk.operation_count(), model: model.clone(), is_durable: true }];
    let (mut file, _) = open(disk.clone(), eager).expect("it was just made");
    for _ in 0..steps {
        match random.below(14) {
            0 => {
                file.close(None).expect("a disk in memory");
                drop(file);
                file = open(disk.clone(), eager).expect("it was closed").0;
            }
            1 => file.compact(&mut |_, _| {}).expect("a disk in memory"),
            2 => file.checkpoint_all().expect("a disk in memory"),
            3 => {
                drop(file);
                file = open(disk.clone(), eager).expect("it was not closed").0;
            }
            _ => {}
        }
        let durability = if random.chance(25) { Durability::Buffered } else { Durability::Synced };
        let change = random_change(&mut random, &mut model);
        // What is under way may be there already.
        done.push(Step { after: usize::MAX, model: model.clone(), is_durable: false });
        file.commit(change, durability).expect("a disk in memory");
        let last = done.last_mut().expect("one was pushed");
        (last.after, last.is_durable) = (disk.operation_count(), durability == Durability::Synced);
        assert_eq!(contents(&file).expect("all is whole"), model);
    }
    done
}

/// The states that may be found if the machine stops after so many operations.
fn allowed(steps: &[Step], after: usize) -> &[Step] {
    let first = steps.iter().rposition(|step| step.is_durable && step.after <= after).unwrap_or(0);
    let last = steps.iter().position(|step| step.after > after).unwrap_or(steps.len() - 1);
    &steps[first..=last.max(first)]
}

#[derive(Default)]
struct Tally {
    states: usize,
    wrong: Vec<String>,
}

fn explore(seed: u64, eager: bool, steps: usize, per_point: usize) -> Tally {
    let disk = CrashDisk::new();
    let done = run(&disk, seed, eager, steps);
    let mut explorer = Explorer::new(seed);
    let mut random = Random::new(seed + 1);
    let mut tally = Tally::default();
    for point in disk.crash_points() {
        if point.after() < done[0].after {
            continue;
        }
        let allowed = allowed(&done, point.after());
        for state in explorer.states(&point, per_point) {
            tally.states += 1;
            let mut check = |found: Result<Model>, what: &str, allowed: &dyn Fn(&Model) -> bool| match found {
                Ok(found) if allowed(&found) => true,
                Ok(found) => {
                    tally.wrong.push(format!(
                        "seed {seed}, after {} ({:?}), {what}: {} frames",
                        point.after(),
                        point.last(),
                        found.len()
                    ));
                    false
                }
                Err(error) => {
                    tally.wrong.push(format!(
                        "seed {seed}, after {} ({:?}), {what}: {error}",
                        point.after(),
                        point.last()
                    ));
                    false
                }
            };
            let is_allowed = |found: &Model| allowed.iter().any(|step| step.model == *found);
            // Sometimes the machine stops once more, while the world is being opened or saved again.
            if random.chance(10) {
                let again = state.crash_disk();
                let opened = open(again.clone(), eager);
                let Ok((file, _)) = opened else {
                    check(opened.map(|_| Model::new()), "opened to crash again", &is_allowed);
                    continue;
                };
                let before = contents(&file);
                let mut after = before.clone().unwrap_or_default();
                if !check(before.clone(), "opened to crash again", &is_allowed) {
                    continue;
                }
                let change = random_change(&mut random, &mut after);
                let saved = file.commit(change, Durability::Synced);
                let acknowledged = again.operation_count();
                drop(file);
                assert!(saved.is_ok(), "{saved:?}");
                let (before, operations) = (before.unwrap_or_default(), again.operation_count());
                for second in again.crash_points() {
                    let is_second = |found: &Model| {
                        *found == after
                            || (second.after() < acknowledged && (*found == before || is_allowed(found)))
                    };
                    for state in explorer.states(&second, 3) {
                        let found = open(state.disk(), eager).and_then(|(file, _)| contents(&file));
                        check(
                            found,
                            &format!(
                                "second crash after {} of {operations} ({:?})",
                                second.after(),
                                again.operations()
                            ),
                            &is_second,
                        );
                    }
                }
                continue;
            }
            let disk = state.disk();
            let opened = open(disk.clone(), eager);
            let found = opened.and_then(|(file, _)| contents(&file));
            check(found, "opened", &is_allowed);
        }
    }
    tally
}

#[test]
fn a_crash_at_any_point_leaves_what_was_saved() {
    let mut states = 0;
    for seed in 0..4 * u64::from(bonfire_testkit::scale()) {
        let tally = explore(seed, seed % 2 == 1, 24, 40);
        assert!(
            tally.wrong.is_empty(),
            "{} of {} wrong, such as {}",
            tally.wrong.len(),
            tally.states,
            tally.wrong[0]
        );
        states += tally.states;
    }
    println!("{states} states");
}

#[test]
fn a_closed_file_opens_without_any_repair() {
    let disk = MemoryDisk::new();
    create(&disk);
    let (file, _) = open(disk.clone(), false).expect("it was just made");
    let mut model = contents(&file).expect("all is whole");
    let mut random = Random::new(3);
    for _ in 0..40 {
        file.commit(random_change(&mut random, &mut model), Durability::Synced).expect("a disk in memory");
    }
    file.close(None).expect("a disk in memory");
    drop(file);
    let (file, report) = open(disk, false).expect("it was closed");
    assert_eq!(report, OpenReport::default());
    assert_eq!(contents(&file).expect("all is whole"), model);
}

#[test]
fn the_file_keeps_the_rules_of_stores() {
    for eager in [false, true] {
        conformance::check(|| {
            let disk = MemoryDisk::new();
            let new = NewFile {
                disk: &disk,
                name: NAME,
                temporary: TemporaryName::InOneGo,
                header: header(),
                capacity_min: 4,
                generation: 1,
                seal: None,
            };
            new.create(&FrameChange::default()).expect("a disk in memory");
            move || open(disk.clone(), eager).expect("a healthy disk").0
        });
    }
}

/// Somebody waits for the writer whenever a step looks, and the compaction comes to its end all the same.
#[test]
fn saves_that_always_wait_do_not_keep_a_compaction_from_its_end() {
    let disk = MemoryDisk::new();
    let mut model = create(&disk);
    let (file, _) = open(disk, false).expect("it was just made");
    let mut random = Random::new(4);
    file.pause_compaction(true);
    while !file.is_compaction_due() {
        file.commit(random_change(&mut random, &mut model), Durability::Synced).expect("a disk in memory");
    }
    file.pause_compaction(false);
    let _waiting = file.compactions.wait();
    let mut outcomes = (0..1000).map(|_| file.step_compaction().expect("a disk in memory"));
    assert!(outcomes.any(|outcome| outcome == StepOutcome::Compacted));
    assert_eq!(contents(&file).expect("all is whole"), model);
}

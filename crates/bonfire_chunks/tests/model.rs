//! Whatever is done to a world, it holds what a simple map holds, and each pinned moment what a copy of the map holds.

mod script;

use std::collections::BTreeMap;

use bonfire_chunks::{ChunkPos, ChunkRect, ChunkWorld, Durability};
use bonfire_store::disk::MemoryDisk;
use bonfire_testkit::disk::Random;
use bonfire_testkit::scale;
use proptest::prelude::*;
use script::{CHUNK_BYTES, Shape, generated};

#[derive(Clone, Debug)]
enum Step {
    Put {
        pos: (i32, i32),
        what: u8,
    },
    Remove {
        pos: (i32, i32),
    },
    Commit {
        synced: bool,
    },
    /// What was not committed is forgotten.
    Abandon,
    Flush,
    Compact,
    Close,
    /// Without closing it.
    Drop,
    Look {
        from: (i32, i32),
        to: (i32, i32),
    },
    /// Without what was not committed.
    Pin {
        name: u8,
    },
    /// With what was not committed.
    CommitAndPin {
        name: u8,
    },
    Unpin {
        name: u8,
    },
    ReturnTo {
        name: u8,
    },
}

fn places() -> impl Strategy<Value = (i32, i32)> {
    prop_oneof![8 => (-3..4, -3..4), 1 => (any::<i32>(), any::<i32>()), 1 => Just((i32::MIN, i32::MAX))]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (places(), any::<u8>()).prop_map(|(pos, what)| Step::Put { pos, what }),
        4 => places().prop_map(|pos| Step::Remove { pos }),
        6 => any::<bool>().prop_map(|synced| Step::Commit { synced }),
        1 => Just(Step::Abandon),
        1 => Just(Step::Flush),
        1 => Just(Step::Compact),
        1 => Just(Step::Close),
        1 => Just(Step::Drop),
        3 => (places(), places()).prop_map(|(from, to)| Step::Look { from, to }),
        2 => (0_u8..4).prop_map(|name| Step::Pin { name }),
        2 => (0_u8..4).prop_map(|name| Step::CommitAndPin { name }),
        1 => (0_u8..4).prop_map(|name| Step::Unpin { name }),
        2 => (0_u8..4).prop_map(|name| Step::ReturnTo { name }),
    ];
    prop::collection::vec(step, 1..80)
}

fn cells(pos: ChunkPos, what: u8) -> Vec<u8> {
    match what % 5 {
        0 => vec![0; CHUNK_BYTES],
        1 => generated(pos),
        2 => {
            let mut cells = generated(pos);
            cells[usize::from(what) % CHUNK_BYTES] ^= 1;
            cells
        }
        3 => vec![what; CHUNK_BYTES],
        _ => Random::new(u64::from(what)).bytes(CHUNK_BYTES),
    }
}

type Model = BTreeMap<ChunkPos, Vec<u8>>;

fn look(world: &ChunkWorld, model: &Model, rect: ChunkRect) {
    assert_eq!((world.len(), world.is_empty()), (model.len(), model.is_empty()));
    assert!(world.iter().eq(model.keys().copied()), "row by row");
    let inside: Vec<ChunkPos> = model.keys().copied().filter(|pos| rect.contains(*pos)).collect();
    assert_eq!(world.range(rect), inside);
    let all: Vec<ChunkPos> = model.keys().copied().chain([rect.min(), rect.max()]).collect();
    for (pos, read) in all.iter().zip(world.read_many(&all)) {
        assert_eq!(read.expect("it is whole").as_ref(), model.get(pos), "chunk {pos}");
        assert_eq!(world.contains(*pos), model.contains_key(pos));
    }
}

/// Whole copies of all pinned moments, the oldest first.
type Pins = Vec<(String, Model)>;

fn pin(pins: &mut Pins, name: &str, model: &Model) {
    pins.retain(|(other, _)| other != name);
    pins.push((name.to_owned(), model.clone()));
}

fn look_at_pins(world: &ChunkWorld, pins: &Pins, rect: ChunkRect) {
    let names: Vec<String> = world.pins().into_iter().map(|pin| pin.name).collect();
    assert!(names.iter().eq(pins.iter().map(|(name, _)| name)), "{names:?}");
    for (name, model) in pins {
        look(&world.at(name).expect("it was pinned"), model, rect);
    }
}

fn run(shape: Shape, steps: Vec<Step>) {
    let disk = MemoryDisk::new();
    let mut world = shape.open(disk.clone()).expect("a disk in memory");
    let (mut model, mut pending): (Model, BTreeMap<ChunkPos, Option<Vec<u8>>>) = Default::default();
    let commit = |world: &ChunkWorld,
                  pending: &mut BTreeMap<ChunkPos, Option<Vec<u8>>>,
                  model: &mut Model,
                  pin: Option<&str>,
                  durability| {
        let mut edit = world.edit();
        for (pos, cells) in std::mem::take(pending) {
            match cells {
                Some(cells) => {
                    if shape.generated && cells == generated(pos) {
                        model.remove(&pos);
                    } else {
                        model.insert(pos, cells.clone());
                    }
                    edit.put(pos, cells);
                }
                None => {
                    model.remove(&pos);
                    edit.remove(pos);
                }
            }
        }
        if let Some(name) = pin {
            edit.pin(name, name);
        }
        edit.commit(durability).expect("a disk in memory");
    };
    let mut pins = Pins::new();
    let name_of = |name: u8| format!("pin {name}");
    for step in steps {
        match step {
            Step::Put { pos, what } => {
                let pos = ChunkPos::from(pos);
                pending.insert(pos, Some(cells(pos, what)));
            }
            Step::Remove { pos } => drop(pending.insert(pos.into(), None)),
            Step::Commit { synced } => {
                let durability = if synced { Durability::Synced } else { Durability::Buffered };
                commit(&world, &mut pending, &mut model, None, durability);
            }
            Step::Abandon => pending.clear(),
            Step::Flush => world.flush().expect("a disk in memory"),
            Step::Compact => {
                world.compact(|_, _| {}).expect("a disk in memory");
                assert!(world.info().dead_bytes < 1500, "{:?}", world.info());
                look_at_pins(&world, &pins, ChunkRect::ALL);
            }
            Step::Close | Step::Drop => {
                if matches!(step, Step::Close) {
                    world.close().expect("a disk in memory");
                }
                drop(world);
                world = shape.open(disk.clone()).expect("a disk in memory");
                assert_eq!(world.report(), &bonfire_chunks::OpenReport::default());
            }
            Step::Look { from, to } => {
                look(&world, &model, ChunkRect::new(from, to));
                look_at_pins(&world, &pins, ChunkRect::new(from, to));
            }
            Step::Pin { name } => {
                world.pin(name_of(name), name_of(name)).expect("a disk in memory");
                pin(&mut pins, &name_of(name), &model);
            }
            Step::CommitAndPin { name } => {
                commit(&world, &mut pending, &mut model, Some(&name_of(name)), Durability::Synced);
                pin(&mut pins, &name_of(name), &model);
            }
            Step::Unpin { name } => {
                let was_there = pins.iter().any(|(other, _)| *other == name_of(name));
                pins.retain(|(other, _)| *other != name_of(name));
                assert_eq!(world.unpin(&name_of(name)).expect("a disk in memory"), was_there);
            }
            Step::ReturnTo { name } => match pins.iter().find(|(other, _)| *other == name_of(name)) {
                Some((name, moment)) => {
                    world.return_to(name).expect("a disk in memory");
                    model.clone_from(moment);
                }
                None => assert!(world.return_to(&name_of(name)).unwrap_err().is_not_found()),
            },
        }
    }
    look(&world, &model, ChunkRect::ALL);
    look_at_pins(&world, &pins, ChunkRect::ALL);
    assert!(world.check(|_, _| {}).damaged.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300 * scale(), ..ProptestConfig::default() })]

    #[test]
    fn a_world_is_a_map(
        eager: bool,
        is_generated: bool,
        compat: bool,
        compacts: bool,
        steps in steps(),
    ) {
        run(Shape { eager, generated: is_generated, compat, compacts, ..Shape::PLAIN }, steps);
    }
}

//! Whatever is done to a world, it holds what a simple map holds, and each pinned moment what a copy of the map holds.

mod script;

use std::collections::BTreeMap;

use bonfire_chunks::{ChunkPos, ChunkRect, ChunkWorld, Durability};
use bonfire_store::disk::MemoryDisk;
use bonfire_testkit::disk::Random;
use bonfire_testkit::scale;
use proptest::prelude::*;
use script::{CUBES, SQUARES, Shape, chunk_bytes, generated};

#[derive(Clone, Debug)]
enum Step {
    Put {
        pos: ChunkPos,
        what: u8,
    },
    Remove {
        pos: ChunkPos,
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
        from: ChunkPos,
        to: ChunkPos,
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

fn places(is_deep: bool) -> BoxedStrategy<ChunkPos> {
    let flat = prop_oneof![
        8 => (-3..4, -3..4),
        1 => (any::<i32>(), any::<i32>()),
        1 => Just((i32::MIN, i32::MAX)),
    ];
    let flat = flat.prop_map(ChunkPos::from);
    if !is_deep {
        return flat.boxed();
    }
    let z = prop_oneof![6 => -1..2, 1 => any::<i32>()];
    let deep = (flat.clone(), z).prop_map(|(pos, z)| ChunkPos { z, ..pos }.in_dimension(CUBES));
    prop_oneof![flat.clone(), deep, flat.prop_map(|pos| pos.in_dimension(SQUARES))].boxed()
}

fn steps(is_deep: bool) -> impl Strategy<Value = Vec<Step>> {
    let places = || places(is_deep);
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
        0 => vec![0; chunk_bytes(pos)],
        1 => generated(pos),
        2 => {
            let mut cells = generated(pos);
            cells[usize::from(what) % chunk_bytes(pos)] ^= 1;
            cells
        }
        3 => vec![what; chunk_bytes(pos)],
        _ => Random::new(u64::from(what)).bytes(chunk_bytes(pos)),
    }
}

type Model = BTreeMap<ChunkPos, Vec<u8>>;

fn look(world: &ChunkWorld, model: &Model, rect: ChunkRect) {
    assert_eq!((world.len(), world.is_empty()), (model.len(), model.is_empty()));
    assert!(world.iter().eq(model.keys().copied()), "row by row");
    let inside: Vec<ChunkPos> = model.keys().copied().filter(|pos| rect.contains(*pos)).collect();
    assert_eq!(world.range(rect), inside);
    let corners = [rect.min(), rect.max()].into_iter().filter(|_| rect != ChunkRect::ALL);
    let corners = corners.filter(|pos| pos.z == 0 || pos.dimension == CUBES);
    let all: Vec<ChunkPos> = model.keys().copied().chain(corners).collect();
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
    run_all([(shape, steps)]);
}

/// Does steps in several sessions of one world.
fn run_all(sessions: impl IntoIterator<Item = (Shape, Vec<Step>)>) {
    let disk = MemoryDisk::new();
    let (mut model, mut pins) = (Model::new(), Pins::new());
    for (shape, steps) in sessions.into_iter().filter(|(_, steps)| !steps.is_empty()) {
        run_session(&disk, shape, steps, &mut model, &mut pins);
    }
}

fn run_session(disk: &MemoryDisk, shape: Shape, steps: Vec<Step>, model: &mut Model, pins: &mut Pins) {
    let mut world = shape.open(disk.clone()).expect("a disk in memory");
    let mut pending: BTreeMap<ChunkPos, Option<Vec<u8>>> = BTreeMap::new();
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
    let name_of = |name: u8| format!("pin {name}");
    for step in steps {
        match step {
            Step::Put { pos, what } => {
                pending.insert(pos, Some(cells(pos, what)));
            }
            Step::Remove { pos } => drop(pending.insert(pos, None)),
            Step::Commit { synced } => {
                let durability = if synced { Durability::Synced } else { Durability::Buffered };
                commit(&world, &mut pending, model, None, durability);
            }
            Step::Abandon => pending.clear(),
            Step::Flush => world.flush().expect("a disk in memory"),
            Step::Compact => {
                world.compact(|_, _| {}).expect("a disk in memory");
                assert!(world.info().dead_bytes < 1500, "{:?}", world.info());
                look_at_pins(&world, pins, ChunkRect::ALL);
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
                look(&world, model, ChunkRect::new(from, to));
                look_at_pins(&world, pins, ChunkRect::new(from, to));
            }
            Step::Pin { name } => {
                world.pin(name_of(name), name_of(name)).expect("a disk in memory");
                pin(pins, &name_of(name), model);
            }
            Step::CommitAndPin { name } => {
                commit(&world, &mut pending, model, Some(&name_of(name)), Durability::Synced);
                pin(pins, &name_of(name), model);
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
    look(&world, model, ChunkRect::ALL);
    look_at_pins(&world, pins, ChunkRect::ALL);
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
        steps in steps(false),
    ) {
        run(Shape { eager, generated: is_generated, compat, compacts, ..Shape::PLAIN }, steps);
    }

    #[test]
    fn a_world_of_three_dimensions_is_a_map(
        eager: bool,
        is_generated: bool,
        compacts: bool,
        // A world of one dimension gets the others with the first save in them.
        first in prop::option::of(steps(false)),
        steps in steps(true),
    ) {
        let shape = Shape { eager, generated: is_generated, compacts, ..Shape::PLAIN };
        run_all([(shape, first.unwrap_or_default()), (shape.deep(), steps)]);
    }
}

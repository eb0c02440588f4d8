//! Many threads ask a worker for loads and saves of cells, bodies and entities. Every read gives a state that is at least as
//! new as the last save that was requested before it, and never a mixture of two saves.
//!
//! Each save of a chunk writes its number into all three parts. A body wanders from chunk to chunk: saves take it along.

mod support;
mod worker_support;

use std::collections::BTreeMap;
use std::sync::Mutex;

use bonfire_chunks::{Body, BodyId, ChunkPos, ChunkWorker, ChunkWorld, CommitHandle, Handle, Priority};
use bonfire_store::disk::{Access, MemoryDisk};
use bonfire_testkit::disk::Random;
use bonfire_testkit::scale;
use support::*;
use worker_support::*;

const PLACES: [(i32, i32); 4] = [(0, 0), (1, 0), (0, -1), (5, 5)];
const WANDERER: BodyId = BodyId(1);
const THREADS: u64 = 4;
const STEPS: usize = 60;

/// The requests, in order.
struct Model {
    /// The number of the last save of each chunk.
    saved: BTreeMap<(i32, i32), u32>,
    /// The chunk of the wanderer after each save that moved or kept it.
    homes: Vec<(i32, i32)>,
    last: u32,
    handles: Vec<CommitHandle>,
}

struct Trial {
    worker: ChunkWorker,
    world: ChunkWorld,
    model: Mutex<Model>,
}

fn thing(id: BodyId, pos: (i32, i32), number: u32) -> Body {
    let centre = |at: i32| (at * SIZE as i32) as f32 + 2.0;
    let extension = number.to_le_bytes().to_vec();
    Body { id, extension, ..body(0, [centre(pos.0), centre(pos.1)]) }
}

fn own_id(pos: (i32, i32)) -> BodyId {
    let number = PLACES.iter().position(|place| *place == pos).unwrap();
    BodyId(100 + number as u64)
}

fn number_of_body(body: &Body) -> u32 {
    u32::from_le_bytes(body.extension[..].try_into().unwrap())
}

fn filled(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(SIZE * SIZE)
}

fn number_of_cells(cells: &[u8]) -> u32 {
    let number = u32::from_le_bytes(cells[..4].try_into().unwrap());
    assert_eq!(cells, filled(number), "cells of two saves");
    number
}

impl Trial {
    fn new(readers: usize) -> Self {
        let world = options()
            .compact_at_least(20_000)
            .threads(1)
            .open_on(MemoryDisk::new(), NAME, Access::Write)
            .unwrap();
        let worker =
            ChunkWorker::options().reading_threads(readers).saves_max(6).loads_max(40).start(world.clone());
        let homes = vec![PLACES[0]];
        let model = Model { saved: BTreeMap::new(), homes, last: 0, handles: Vec::new() };
        let trial = Self { worker, world, model: Mutex::new(model) };
        PLACES.iter().for_each(|pos| trial.save(&[*pos], PLACES[0], &mut Random::new(0)));
        trial
    }

    /// Saves chunks with the next number, and the wanderer in one of them if it is there or goes there. Everything is
    /// requested under the lock of the model, so that both have the same order.
    fn save(&self, places: &[(i32, i32)], wanders_to: (i32, i32), random: &mut Random) {
        let mut model = self.model.lock().unwrap();
        let number = model.last + 1;
        let wanders = places.contains(&wanders_to) && random.chance(60);
        let home = if wanders { wanders_to } else { *model.homes.last().unwrap() };
        let mut edit = self.world.edit();
        for pos in places {
            let mut bodies = vec![thing(own_id(*pos), *pos, number)];
            if home == *pos {
                bodies.push(thing(WANDERER, *pos, model.homes.len() as u32));
            }
            edit.put(*pos, filled(number)).put_bodies(*pos, bodies).put_entities(*pos, snapshot(number));
        }
        match self.worker.save(edit) {
            Ok(handle) => model.handles.push(handle),
            // Nothing was requested: the game would try again.
            Err(refused) => return assert!(refused.error().is_limit() && !refused.into_edit().is_empty()),
        }
        model.last = number;
        if places.contains(&home) {
            model.homes.push(home);
        }
        model.saved.extend(places.iter().map(|pos| (*pos, number)));
    }

    /// The least that a read which is requested now must show.
    fn floor(&self, pos: (i32, i32)) -> (u32, usize) {
        let model = self.model.lock().unwrap();
        (model.saved.get(&pos).copied().unwrap_or(0), model.homes.len() - 1)
    }

    /// Waits for a load. One that was refused or cancelled shows nothing.
    fn result<T: Clone>(&self, handle: &Handle<T>, cancels: bool) -> Option<T> {
        if cancels {
            handle.cancel();
        }
        match handle.wait() {
            Ok(shown) => Some(shown),
            Err(error) => {
                assert!(error.is_limit() || (cancels && error.is_cancelled()), "{error}");
                None
            }
        }
    }

    fn check_bodies(&self, pos: (i32, i32), bodies: &[Body], floor: (u32, usize)) -> u32 {
        let (own, guests): (Vec<&Body>, Vec<&Body>) = bodies.iter().partition(|body| body.id == own_id(pos));
        assert_eq!(own.len(), 1, "each chunk has a body of its own");
        let homes = self.model.lock().unwrap().homes.clone();
        match &guests[..] {
            [] => assert!(homes[floor.1..].iter().any(|home| *home != pos), "the wanderer is lost"),
            [guest] => {
                let step = number_of_body(guest) as usize;
                assert!(guest.id == WANDERER && step >= floor.1 && homes[step] == pos, "it has left");
            }
            _ => panic!("{bodies:?}"),
        }
        number_of_body(own[0])
    }

    /// Asks for a part of a chunk or for all of it, and compares it with what was requested before.
    fn look(&self, pos: (i32, i32), random: &mut Random) {
        let cancels = random.chance(10);
        let priority = *random.pick(&[Priority::Low, Priority::Normal, Priority::High]);
        let floor = self.floor(pos);
        let number = match random.below(5) {
            0 => self
                .result(&self.worker.read(pos, priority), cancels)
                .map(|cells| number_of_cells(&cells.unwrap())),
            1 => self
                .result(&self.worker.load(pos, priority), cancels)
                .map(|chunk| number_of_cells(chunk.cells())),
            2 => self
                .result(&self.worker.read_bodies(pos, priority), cancels)
                .map(|bodies| self.check_bodies(pos, &bodies, floor)),
            3 => self
                .result(&self.worker.read_entities(pos, priority), cancels)
                .map(|found| number_of(&found.unwrap())),
            _ => self.result(&self.worker.load_whole(pos, priority), cancels).map(|whole| {
                let number = number_of_cells(whole.chunk.cells());
                assert_eq!(whole.chunk.pos(), ChunkPos::from(pos));
                assert_eq!(self.check_bodies(pos, &whole.bodies, floor), number, "bodies of another save");
                assert_eq!(number_of(&whole.entities.unwrap()), number, "entities of another save");
                number
            }),
        };
        assert!(number.is_none_or(|number| number >= floor.0), "{number:?} was saved before {floor:?}");
    }

    fn play(&self, seed: u64) {
        let mut random = Random::new(seed);
        for _ in 0..STEPS {
            let pos = *random.pick(&PLACES);
            match random.below(10) {
                0..4 => {
                    let to = *random.pick(&PLACES);
                    let places = if random.chance(50) && to != pos { vec![pos, to] } else { vec![pos] };
                    self.save(&places, to, &mut random);
                }
                4 if random.chance(10) => drop(self.worker.compact()),
                _ => self.look(pos, &mut random),
            }
        }
    }
}

#[test]
fn every_read_shows_one_state_that_has_all_saves_requested_before_it() {
    for round in 0..60 * u64::from(scale()) {
        let trial = Trial::new(1 + (round % 3) as usize);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let trial = &trial;
                scope.spawn(move || trial.play(round * 100 + thread));
            }
        });
        assert!(trial.worker.finish(LONG));
        let model = trial.model.into_inner().unwrap();
        model.handles.iter().for_each(|save| _ = save.wait().unwrap());
        let statistics = trial.worker.statistics();
        assert_eq!(statistics.saves().done, model.handles.len() as u64);
        assert_eq!(
            (statistics.all().waiting, statistics.all().under_way, statistics.all().failed),
            (0, 0, 0)
        );
        drop(trial.worker);
        for (pos, number) in model.saved {
            let whole = trial.world.load_whole(pos).unwrap();
            assert_eq!(number_of_cells(whole.chunk.cells()), number, "the last save counts");
            let guests = whole.bodies.iter().filter(|body| body.id == WANDERER).count();
            assert_eq!(guests, usize::from(model.homes.last() == Some(&pos)));
        }
    }
}

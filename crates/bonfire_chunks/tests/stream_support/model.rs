//! Whole copies of a world at every moment, and what may be found in the file.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bonfire_chunks::{ChunkPos, ChunkRect, ChunkWorld};

use super::{Creature, SIZE, creatures_in, generated};

/// A whole world: what is loaded and what is not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// The chunk that each creature is in, and its cell.
    pub creatures: BTreeMap<u64, (ChunkPos, (i32, i32))>,
    /// Chunks that differ from the generated ones.
    pub cells: BTreeMap<ChunkPos, Vec<u8>>,
}

impl State {
    /// Reads a world from its file.
    pub fn of(world: &ChunkWorld) -> Self {
        let mut state = Self::default();
        for pos in world.chunks_with_entities(ChunkRect::ALL) {
            for (id, cell) in creatures_in(world, pos) {
                let other = state.creatures.insert(id, (pos, cell));
                assert_eq!(other, None, "creature {id:x} is in two chunks of the file, one is {pos}");
            }
        }
        for pos in world.iter() {
            let cells = world.read(pos).expect("it is whole").expect("it was listed");
            state.put_cells(pos, cells);
        }
        state
    }

    pub fn cells_of(&self, pos: ChunkPos) -> Vec<u8> {
        let all = || vec![generated(pos); (SIZE * SIZE) as usize];
        self.cells.get(&pos).cloned().unwrap_or_else(all)
    }

    pub fn dig(&mut self, pos: ChunkPos, index: usize, material: u8) {
        let mut cells = self.cells_of(pos);
        cells[index] = material;
        self.put_cells(pos, cells);
    }

    fn put_cells(&mut self, pos: ChunkPos, cells: Vec<u8>) {
        self.cells.remove(&pos);
        if cells.iter().any(|cell| *cell != generated(pos)) {
            self.cells.insert(pos, cells);
        }
    }

    pub fn creatures_of(&self, pos: ChunkPos) -> Vec<Creature> {
        let here = self.creatures.iter().filter(|(_, (home, _))| *home == pos);
        here.map(|(id, (_, cell))| (*id, *cell)).collect()
    }

    fn chunks(&self) -> impl Iterator<Item = ChunkPos> {
        self.cells.keys().copied().chain(self.creatures.values().map(|(home, _)| *home))
    }
}

/// The states that a world went through, and which of them were acknowledged.
#[derive(Clone)]
pub struct History {
    steps: Vec<Rc<State>>,
    /// After so many operations of the disk this step was known to be durable.
    acknowledged: Vec<(usize, usize)>,
}

impl History {
    /// The first state is durable.
    pub fn new(first: State) -> Self {
        Self { steps: vec![Rc::new(first)], acknowledged: Vec::new() }
    }

    /// Notes the state of now, and returns its number.
    pub fn push(&mut self, state: &State) -> usize {
        if **self.last() != *state {
            self.steps.push(Rc::new(state.clone()));
        }
        self.steps.len() - 1
    }

    pub fn last(&self) -> &Rc<State> {
        self.steps.last().expect("there is a first one")
    }

    pub fn acknowledge(&mut self, operations: usize, step: usize) {
        self.acknowledged.push((operations, step));
    }

    /// Says what is wrong, if a crash after so many operations must not leave this. Each chunk must be as it was at some
    /// moment since the last one that was acknowledged. No creature that lived all that time may be missing.
    pub fn check(&self, found: &State, operations: usize) -> Result<(), String> {
        let known = self.acknowledged.iter().filter(|(at, _)| *at <= operations);
        let from = known.map(|(_, step)| *step).max().unwrap_or(0);
        let steps = &self.steps[from..];
        let mut chunks: BTreeSet<ChunkPos> = found.chunks().collect();
        chunks.extend(steps.iter().flat_map(|step| step.chunks()));
        for pos in chunks {
            let (creatures, cells) = (found.creatures_of(pos), found.cells_of(pos));
            if !steps.iter().any(|step| step.creatures_of(pos) == creatures) {
                return Err(format!("chunk {pos} has {creatures:x?}, as at none of {} moments", steps.len()));
            }
            if !steps.iter().any(|step| step.cells_of(pos) == cells) {
                return Err(format!("chunk {pos} has cells as at none of {} moments", steps.len()));
            }
        }
        let lives = |id: &u64| steps.iter().all(|step| step.creatures.contains_key(id));
        let mut missing =
            steps[0].creatures.keys().filter(|id| lives(id) && !found.creatures.contains_key(id));
        missing.next().map_or(Ok(()), |id| Err(format!("creature {id:x} is in no chunk")))
    }
}

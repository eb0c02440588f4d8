//! A chunk world as a subject. All chunks carry the number of the save, so a mixture of two saves is noticed.

use std::path::Path;

use bonfire::{Error, Result};
use bonfire_chunks::{ChunkOptions, ChunkPos, ChunkWorld, Durability, Layer, Layers, Persistence};
use bonfire_store::SealKey;
use bonfire_testkit::disk::Random;

use crate::log::Answer;
use crate::operation::{Operation, Worker};
use crate::subject::{Subject, missing};

/// Cells on a side of a chunk.
const SIZE: usize = 8;
/// Chunks that every save writes.
const CHUNKS: i32 = 3;

fn options(worker: Worker) -> ChunkOptions {
    let layers = Layers::new()
        .with(Layer::new("material", 1).persistence(Persistence::Always))
        .with(Layer::new("color", 1));
    let options = ChunkOptions::new(layers)
        .chunk_size(SIZE as u16)
        .tile_size(4)
        .seed(7)
        .created(1_700_000_000)
        .table_capacity(4)
        .threads(1);
    if worker == Worker::SealedChunks { options.sealed(SealKey::from_bytes([7; 32])) } else { options }
}

/// The cells of a chunk in a save: the number, then noise.
fn cells(number: u64, x: i32) -> Vec<u8> {
    let mut cells = Random::new(number * 100 + x as u64).bytes(SIZE * SIZE * 2);
    cells[..8].copy_from_slice(&number.to_le_bytes());
    cells
}

/// A chunk that only this save and the next one may have: the table grows and shrinks.
fn extra(number: u64) -> ChunkPos {
    ChunkPos::new(number as i32, 3)
}

pub(crate) struct ChunkSubject(ChunkWorld);

impl ChunkSubject {
    pub(crate) fn open(worker: Worker, directory: &Path) -> Result<Self> {
        let world = options(worker).open(directory.join("world.save"))?;
        let report = world.report();
        if !report.damaged.is_empty() {
            return Err(Error::custom(format!("MIXTURE: opening found damage: {report:?}")));
        }
        Ok(Self(world))
    }

    fn save(&self, number: u64) -> Result<Answer> {
        let mut edit = self.0.edit();
        for x in 0..CHUNKS {
            edit.put((x, 0), cells(number, x));
        }
        edit.put(extra(number), cells(number, 9));
        edit.remove(extra(number.wrapping_sub(20)));
        edit.commit(Durability::Synced).map(|_| Answer::default())
    }

    /// Reads all chunks. All of them must be of one save.
    fn load(&self) -> Result<Answer> {
        let Some(first) = self.0.read((0, 0))? else {
            if self.0.is_empty() {
                return Err(missing("the world"));
            }
            return Err(Error::custom("MIXTURE: the first chunk is missing and others are there"));
        };
        let number = u64::from_le_bytes(*first.first_chunk().expect("eight bytes"));
        for x in 0..CHUNKS {
            if self.0.read((x, 0))? != Some(cells(number, x)) {
                return Err(Error::custom(format!("MIXTURE: chunk {x} is not of save {number}")));
            }
        }
        if self.0.read(extra(number))? != Some(cells(number, 9)) {
            return Err(Error::custom(format!("MIXTURE: the extra chunk is not of save {number}")));
        }
        Ok(Answer { world: Some(number), ..Answer::default() })
    }
}

impl Subject for ChunkSubject {
    fn run(&mut self, operation: &Operation) -> Result<Answer> {
        match operation {
            Operation::Save(_, number) => self.save(*number),
            Operation::Load(_) => self.load(),
            Operation::Compact => self.0.compact(|_, _| {}).map(|()| Answer::default()),
            _ => Err(Error::misuse(format!("chunk worlds have no `{operation}`"))),
        }
    }

    fn close(&mut self) -> Result<()> {
        self.0.close()
    }
}

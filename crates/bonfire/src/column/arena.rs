//! The memory that a capture writes into: a few large buffers from the pool, columns one after the other.

use std::sync::Arc;

use bytes::Bytes;

use crate::bulk::CopyPath;
use crate::storage::{AlignedBuf, BufferPool, Checksums, Rope};
use crate::wire::Writer;

const FIRST_BYTES: usize = 64 << 10;

/// A column's place in the arena.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    buffer: usize,
    range: std::ops::Range<usize>,
    /// Of each block, if they were computed with the column.
    pub(crate) checksums: Option<Arc<Checksums>>,
}

pub(crate) struct Arena {
    pub(crate) pool: BufferPool,
    /// How large the next buffer is at least.
    pub(crate) reserve: usize,
    pub(crate) copies: CopyPath,
    /// Whether raw columns get their checksums while they are written.
    pub(crate) checksums: bool,
    buffers: Vec<AlignedBuf>,
    scratch: Option<Writer>,
}

impl Arena {
    pub(crate) fn new(pool: BufferPool) -> Self {
        Self {
            pool,
            reserve: 0,
            copies: CopyPath::Bulk,
            checksums: false,
            buffers: Vec::new(),
            scratch: None,
        }
    }

    /// Seals the memory; slots become shared bytes.
    pub(crate) fn finish(self) -> SealedArena {
        if let Some(scratch) = self.scratch {
            self.pool.put_scratch(scratch.into_memory());
        }
        SealedArena(self.buffers.into_iter().map(AlignedBuf::share).collect())
    }
}

impl Arena {
    /// Memory for a column of `len` bytes; its contents are undefined.
    pub(crate) fn claim(&mut self, len: usize) -> (Slot, &mut [u8]) {
        let fits = |buffer: &mut AlignedBuf| buffer.claim(len);
        let range = match self.buffers.last_mut().and_then(fits) {
            Some(range) => range,
            None => {
                let last = self.buffers.last().map_or(FIRST_BYTES, |buffer| buffer.capacity() * 2);
                self.buffers.push(self.pool.take(len.max(last).max(self.reserve)));
                self.reserve = 0;
                let fresh = self.buffers.last_mut().and_then(fits);
                fresh.unwrap_or_else(|| unreachable!("a buffer of at least {len} bytes was just added"))
            }
        };
        let buffer = self.buffers.len() - 1;
        (Slot { buffer, range: range.clone(), checksums: None }, &mut self.buffers[buffer].as_mut()[range])
    }

    /// Copies finished bytes into column memory.
    pub(crate) fn store(&mut self, bytes: &[u8]) -> Slot {
        let (slot, memory) = self.claim(bytes.len());
        memory.copy_from_slice(bytes);
        slot
    }

    /// An empty writer.
    pub(crate) fn scratch(&mut self) -> Writer {
        self.scratch.take().unwrap_or_else(|| Writer::with_memory(self.pool.take_scratch()))
    }

    /// Takes the writer back for the next column.
    pub(crate) fn recycle(&mut self, mut scratch: Writer) {
        scratch.clear();
        self.scratch = Some(scratch);
    }
}

pub(crate) struct SealedArena(Vec<Bytes>);

impl SealedArena {
    pub(crate) fn bytes(&self, slot: Slot) -> Bytes {
        self.0[slot.buffer].slice(slot.range)
    }

    /// The column with its checksums, if it has them.
    pub(crate) fn rope(&self, slot: Slot) -> Rope {
        let checksums = slot.checksums.clone();
        Rope::checked(self.bytes(slot), checksums)
    }
}

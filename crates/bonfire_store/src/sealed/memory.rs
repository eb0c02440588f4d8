//! The memory that large blobs are sealed into and opened into, kept for the next one.
//!
//! Fresh pages can cost as much as the cipher. A game that saves again and again pays for them once. What was opened is
//! overwritten before its memory waits for the next blob or goes back to the system.

use std::sync::{Arc, Mutex, PoisonError};

use bonfire::Result;
use bonfire::engine::AlignedBuf;
use bytes::Bytes;

/// Smaller blobs are not worth it.
const KEPT_BYTES_MIN: usize = 1 << 20;
/// So much may lie idle.
const KEPT_BYTES_MAX: usize = 256 << 20;

/// Holds the memory of the largest blob that was sealed or opened, while nobody else does.
#[derive(Clone)]
pub(super) struct SpareBuffer(Arc<Mutex<AlignedBuf>>);

impl Default for SpareBuffer {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(AlignedBuf::zeroed(0))))
    }
}

impl SpareBuffer {
    /// Memory for `len` bytes of a sealed blob. What they hold is whatever an earlier one left there: write all of them.
    pub(super) fn take(&self, len: u64) -> Result<Memory> {
        self.take_for(len, false)
    }

    /// Memory for `len` bytes that nobody else may read, not even later: they are overwritten when it is dropped.
    pub(super) fn take_secret(&self, len: u64) -> Result<Memory> {
        self.take_for(len, true)
    }

    fn take_for(&self, len: u64, is_secret: bool) -> Result<Memory> {
        let spare = {
            let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // A small blob in large memory would keep all of it from the next large one.
            let there = spare.as_ref().len() as u64;
            let fits = (len..=len.saturating_mul(4)).contains(&there) && there > 0;
            fits.then(|| std::mem::replace(&mut *spare, AlignedBuf::zeroed(0)))
        };
        let bytes = match spare {
            Some(spare) => spare,
            // The next save is often a little longer.
            None => AlignedBuf::try_zeroed(len.saturating_add(len / 8))?,
        };
        Ok(Memory { bytes, len: len as usize, is_secret, home: self.clone() })
    }
}

/// Memory that goes home when it is dropped.
pub(super) struct Memory {
    bytes: AlignedBuf,
    len: usize,
    is_secret: bool,
    home: SpareBuffer,
}

impl Memory {
    pub(super) fn share(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Memory {
    fn as_ref(&self) -> &[u8] {
        &self.bytes.as_ref()[..self.len]
    }
}

impl AsMut<[u8]> for Memory {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes.as_mut()[..self.len]
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let mut bytes = std::mem::replace(&mut self.bytes, AlignedBuf::zeroed(0));
        if self.is_secret {
            // Several times faster than `Zeroize`, which writes byte by byte.
            bytes.as_mut()[..self.len].fill(0);
            zeroize::optimization_barrier(bytes.as_ref());
        }
        if (KEPT_BYTES_MIN..=KEPT_BYTES_MAX).contains(&bytes.as_ref().len()) {
            let mut spare = self.home.0.lock().unwrap_or_else(PoisonError::into_inner);
            if spare.as_ref().len() < bytes.as_ref().len() {
                *spare = bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_stay_in_memory_that_waits() {
        let spare = SpareBuffer::default();
        let len = 2 * KEPT_BYTES_MIN as u64;
        let mut memory = spare.take_secret(len).unwrap();
        memory.as_mut().fill(7);
        drop(memory.share());
        let again = spare.take(len).unwrap();
        assert!(again.as_ref().iter().all(|byte| *byte == 0));
    }
}

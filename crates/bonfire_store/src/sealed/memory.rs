//! The memory that large blobs are sealed into and opened into, kept for the next one.
//!
//! Fresh pages can cost as much as the cipher. A game that saves again and again pays for them once.

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
    /// Memory for `len` bytes. What they hold is whatever an earlier blob left there: write all of them.
    pub(super) fn take(&self, len: u64) -> Result<Memory> {
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
        Ok(Memory { bytes, len: len as usize, home: self.clone() })
    }
}

/// Memory that goes home when it is dropped.
pub(super) struct Memory {
    bytes: AlignedBuf,
    len: usize,
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
        let bytes = std::mem::replace(&mut self.bytes, AlignedBuf::zeroed(0));
        if (KEPT_BYTES_MIN..=KEPT_BYTES_MAX).contains(&bytes.as_ref().len()) {
            let mut spare = self.home.0.lock().unwrap_or_else(PoisonError::into_inner);
            if spare.as_ref().len() < bytes.as_ref().len() {
                *spare = bytes;
            }
        }
    }
}

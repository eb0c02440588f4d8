//! Memory for columns: aligned to 64 bytes, reused from save to save.
//!
//! A buffer is always initialised. Growing asks the allocator for zeroed pages,
//! which costs nothing until they are touched; a pooled buffer is warm and costs nothing at all.

use std::sync::{Arc, Mutex, PoisonError};

use bytemuck::{Pod, Zeroable};
use bytes::Bytes;

use crate::error::{Error, Result};

/// Raw columns start at multiples of this in a file and in memory.
pub const COLUMN_ALIGN: usize = 64;

/// The memory of a page: what captures share with each other.
pub(crate) const PAGE_BYTES: usize = 16 << 10;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct AlignedLine([u8; COLUMN_ALIGN]);

#[expect(unsafe_code, reason = "bytemuck's marker traits")]
// SAFETY: 64 bytes, size equal to alignment, so no padding; every bit pattern is a `[u8; 64]`.
unsafe impl Zeroable for AlignedLine {}
#[expect(unsafe_code, reason = "bytemuck's marker traits")]
// SAFETY: as above; `AlignedLine` is `Copy`, `'static` and has no padding or interior mutability.
unsafe impl Pod for AlignedLine {}

/// A byte buffer whose start is aligned to 64 bytes.
pub struct AlignedBuf {
    lines: Vec<AlignedLine>,
    len: usize,
    home: Option<Arc<Mutex<PooledBuffers>>>,
}

impl AlignedBuf {
    /// A zeroed buffer of `len` bytes.
    pub fn zeroed(len: usize) -> Self {
        Self { lines: bytemuck::zeroed_vec(len.div_ceil(COLUMN_ALIGN)), len, home: None }
    }

    /// A zeroed buffer whose length comes from outside: too long for this machine is an error.
    pub fn try_zeroed(len: u64) -> Result<Self> {
        let refused = || Error::limit(format!("there is no memory for {len} bytes"));
        let len = usize::try_from(len).map_err(|_| refused())?;
        let lines =
            bytemuck::allocation::try_zeroed_vec(len.div_ceil(COLUMN_ALIGN)).map_err(|()| refused())?;
        Ok(Self { lines, len, home: None })
    }

    /// A copy of `bytes`, aligned.
    pub fn copy_from(bytes: &[u8]) -> Self {
        let mut buffer = Self::zeroed(bytes.len());
        buffer.as_mut().copy_from_slice(bytes);
        buffer
    }

    /// The number of bytes that fit without growing.
    pub fn capacity(&self) -> usize {
        self.lines.len() * COLUMN_ALIGN
    }

    /// Hands the memory out as shared bytes. When the last of them is dropped, a pooled buffer goes home.
    pub fn share(self) -> Bytes {
        Bytes::from_owner(self)
    }

    /// Starts a column: the next `len` bytes at the next aligned offset, if they fit. Returns where they lie; what
    /// they hold is whatever an earlier user left there.
    pub(crate) fn claim(&mut self, len: usize) -> Option<std::ops::Range<usize>> {
        let start = self.len.next_multiple_of(COLUMN_ALIGN);
        let end = start.checked_add(len).filter(|&end| end <= self.capacity())?;
        self.len = end;
        Some(start..end)
    }
}

impl AsRef<[u8]> for AlignedBuf {
    fn as_ref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.len]
    }
}

impl AsMut<[u8]> for AlignedBuf {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.len]
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            let lines = std::mem::take(&mut self.lines);
            home.lock().unwrap_or_else(PoisonError::into_inner).put(lines);
        }
    }
}

/// Keeps the memory of dropped snapshots for the next ones.
///
/// Fresh memory costs several times what a copy into warm memory costs, so a game that saves more than once keeps one
/// of these. Clones share the same memory. By default it holds at most 8 buffers, any number of pages, and 1 GiB in all.
///
/// ```
/// # use bonfire::Registry;
/// # use bonfire::engine::{BufferPool, SnapshotWriter};
/// let pool = BufferPool::default();
/// let registry = Registry::new();
/// for _ in 0..3 {
///     let snapshot = SnapshotWriter::new(&registry).pool(&pool).finish().unwrap();
///     drop(snapshot); // its buffers are back in the pool
/// }
/// ```
#[derive(Clone)]
pub struct BufferPool(Arc<Mutex<PooledBuffers>>);

struct PooledBuffers {
    free: Vec<Vec<AlignedLine>>,
    /// All of one size.
    pages: Vec<Vec<AlignedLine>>,
    scratch: Vec<u8>,
    bytes: usize,
    buffers_max: usize,
    bytes_max: usize,
}

impl PooledBuffers {
    fn put(&mut self, lines: Vec<AlignedLine>) {
        let bytes = lines.len() * COLUMN_ALIGN;
        if bytes == PAGE_BYTES {
            if self.buffers_max > 0 && self.bytes + bytes <= self.bytes_max {
                self.bytes += bytes;
                self.pages.push(lines);
            }
        } else if bytes > 0 && self.free.len() < self.buffers_max && self.bytes + bytes <= self.bytes_max {
            self.bytes += bytes;
            self.free.push(lines);
        }
    }

    /// The smallest buffer of at least `len` bytes.
    fn take(&mut self, len: usize) -> Option<Vec<AlignedLine>> {
        let fits = |lines: &Vec<AlignedLine>| lines.len() * COLUMN_ALIGN >= len;
        let (index, _) =
            self.free.iter().enumerate().filter(|(_, b)| fits(b)).min_by_key(|(_, b)| b.len())?;
        let lines = self.free.swap_remove(index);
        self.bytes -= lines.len() * COLUMN_ALIGN;
        Some(lines)
    }
}

impl Default for BufferPool {
    fn default() -> Self {
        Self::with_capacity(8, 1 << 30)
    }
}

impl BufferPool {
    /// A pool that keeps at most `buffers_max` buffers of `bytes_max` bytes together.
    pub fn with_capacity(buffers_max: usize, bytes_max: usize) -> Self {
        Self(Arc::new(Mutex::new(PooledBuffers {
            free: Vec::new(),
            pages: Vec::new(),
            scratch: Vec::new(),
            bytes: 0,
            buffers_max,
            bytes_max,
        })))
    }

    /// Bytes that lie ready for reuse.
    pub fn idle_bytes(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).bytes
    }

    /// Memory in which rows are encoded before they go to their column.
    pub(crate) fn take_scratch(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).scratch)
    }

    pub(crate) fn put_scratch(&self, scratch: Vec<u8>) {
        let mut shelf = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if scratch.capacity() > shelf.scratch.capacity() && scratch.capacity() <= shelf.bytes_max {
            shelf.scratch = scratch;
        }
    }

    /// A page of which the first `len` bytes are used; what they hold is whatever an earlier user left there.
    pub(crate) fn take_page(&self, len: usize) -> AlignedBuf {
        assert!(len <= PAGE_BYTES);
        let warm = {
            let mut shelf = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let page = shelf.pages.pop();
            shelf.bytes -= page.as_ref().map_or(0, |_| PAGE_BYTES);
            page
        };
        let lines = warm.unwrap_or_else(|| bytemuck::zeroed_vec(PAGE_BYTES / COLUMN_ALIGN));
        AlignedBuf { lines, len, home: Some(Arc::clone(&self.0)) }
    }

    /// An empty buffer with room for at least `capacity` bytes.
    pub(crate) fn take(&self, capacity: usize) -> AlignedBuf {
        let warm = self.0.lock().unwrap_or_else(PoisonError::into_inner).take(capacity);
        let lines = warm.unwrap_or_else(|| bytemuck::zeroed_vec(capacity.div_ceil(COLUMN_ALIGN)));
        AlignedBuf { lines, len: 0, home: Some(Arc::clone(&self.0)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_start_aligned_and_fit_or_are_refused() {
        let mut buffer = BufferPool::default().take(256);
        assert_eq!(buffer.claim(10), Some(0..10));
        assert_eq!(buffer.claim(64), Some(64..128));
        assert_eq!(buffer.claim(129), None);
        assert_eq!(buffer.claim(128), Some(128..256));
        assert_eq!(buffer.as_ref().as_ptr() as usize % COLUMN_ALIGN, 0);
        assert_eq!(buffer.claim(usize::MAX), None);
    }

    #[test]
    fn a_dropped_buffer_goes_home_and_the_pool_stays_bounded() {
        let pool = BufferPool::with_capacity(1, 1 << 20);
        let shared = pool.take(1000).share();
        assert_eq!(pool.idle_bytes(), 0);
        let part = shared.slice(0..0);
        drop((shared, part));
        assert_eq!(pool.idle_bytes(), 1024);
        drop((pool.take(1).share(), pool.take(5000).share()));
        assert_eq!(pool.0.lock().unwrap().free.len(), 1);
    }

    #[test]
    fn pages_go_home_too_and_no_more_than_fit() {
        let pool = BufferPool::with_capacity(1, 4 * PAGE_BYTES);
        let pages: Vec<Bytes> = (0..10).map(|_| pool.take_page(PAGE_BYTES).share()).collect();
        assert_eq!(pool.idle_bytes(), 0);
        drop(pages);
        assert_eq!(pool.idle_bytes(), 4 * PAGE_BYTES);
        drop(pool.take_page(PAGE_BYTES - 100));
        assert_eq!(pool.idle_bytes(), 4 * PAGE_BYTES);
        let none = BufferPool::with_capacity(0, 0);
        drop(none.take_page(1));
        assert_eq!(none.idle_bytes(), 0);
    }
}

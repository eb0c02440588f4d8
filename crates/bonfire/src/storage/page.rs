//! Raw columns in pages, so that a capture shares what has not changed with the one before it.
//!
//! A page is a number of whole rows, a multiple of 64 where rows are small, in memory of its own: it goes back to the
//! pool when the last snapshot that has it is dropped, whatever becomes of its neighbours. Blocks of a file are whole
//! pages, whether a column lies in pages or in one piece, so both give the same bytes, and a checksum that is known for a
//! page is known for every file that has it.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::crc::{self, Join};
use super::{AlignedBuf, BLOCK_BYTES, BufferPool, PAGE_BYTES, Rope};

/// Rows are looked at so many at a time.
pub(crate) const BLOCK_ROWS: usize = 64;

/// Where a column of rows of one size is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageLayout {
    pub(crate) page_rows: usize,
    pub(crate) page_bytes: usize,
    /// As many pages as fit a block of a file.
    pub(crate) block_bytes: usize,
}

impl PageLayout {
    pub(crate) fn of(stride: usize) -> Self {
        let stride = stride.max(1);
        let rows = match PAGE_BYTES / stride {
            few @ 0..BLOCK_ROWS => few.max(1),
            many => many / BLOCK_ROWS * BLOCK_ROWS,
        };
        let page_bytes = rows * stride;
        let block_bytes = match BLOCK_BYTES / page_bytes {
            // A row that is larger than a block is cut anywhere.
            0 => BLOCK_BYTES,
            pages => pages * page_bytes,
        };
        Self { page_rows: rows, page_bytes, block_bytes }
    }
}

/// Checksums of equal stretches of a rope, from its start, as far as somebody has computed them.
#[derive(Debug)]
pub(crate) struct Checksums {
    unit: usize,
    known: Box<[OnceLock<u32>]>,
}

impl Checksums {
    pub(crate) fn new(unit: usize, known: impl IntoIterator<Item = Option<u32>>) -> Arc<Self> {
        let slot = |known: Option<u32>| known.map_or_else(OnceLock::new, OnceLock::from);
        Arc::new(Self { unit, known: known.into_iter().map(slot).collect() })
    }

    fn get(&self, index: usize) -> Option<u32> {
        self.known.get(index).and_then(OnceLock::get).copied()
    }

    /// The stretches that make up block `number`, if blocks of so many bytes are whole stretches.
    pub(crate) fn units_of(&self, number: usize, block_bytes: usize) -> Option<Range<usize>> {
        let units = block_bytes / self.unit;
        let whole = units * self.unit == block_bytes;
        whole.then(|| number * units..((number + 1) * units).min(self.known.len()))
    }

    /// The checksum of some stretches, each of which is one of `parts`.
    pub(crate) fn of(&self, units: Range<usize>, parts: &[Bytes]) -> u32 {
        debug_assert_eq!(units.len(), parts.len());
        let mut join: Option<Join> = None;
        let mut all = 0;
        for (index, part) in units.zip(parts) {
            let own = *self.known[index].get_or_init(|| crc::checksum(part));
            let join = match &join {
                Some(join) if join.len() == part.len() => join,
                _ => join.insert(Join::by(part.len())),
            };
            all = join.join(all, own);
        }
        all
    }
}

/// Which rows of an archetype may differ from those of an earlier capture, 64 at a time.
///
/// For front ends that know when a value was changed: see [`SnapshotWriter::over`](crate::engine::SnapshotWriter::over).
#[derive(Clone, Debug, Default)]
pub struct DirtyRows {
    /// One bit per 64 rows.
    bits: Vec<u64>,
}

impl DirtyRows {
    /// None of so many rows.
    pub fn none(rows: usize) -> Self {
        Self { bits: vec![0; rows.div_ceil(BLOCK_ROWS).div_ceil(64)] }
    }

    /// All of so many rows.
    pub fn all(rows: usize) -> Self {
        Self { bits: vec![u64::MAX; rows.div_ceil(BLOCK_ROWS).div_ceil(64)] }
    }

    /// Starts again with none of so many rows, in the same memory.
    pub fn reset(&mut self, rows: usize) {
        self.bits.clear();
        self.bits.resize(rows.div_ceil(BLOCK_ROWS).div_ceil(64), 0);
    }

    /// The 64 rows that this one is among may differ.
    pub fn mark(&mut self, row: usize) {
        self.mark_block(row / BLOCK_ROWS);
    }

    /// Rows `64 * block` to `64 * block + 63` may differ.
    pub fn mark_block(&mut self, block: usize) {
        self.bits[block / 64] |= 1 << (block % 64);
    }

    /// Whether any row may differ.
    pub fn any(&self) -> bool {
        self.bits.iter().any(|&bits| bits != 0)
    }

    /// Whether one of these rows may differ.
    pub fn touches(&self, rows: Range<usize>) -> bool {
        let blocks = rows.start / BLOCK_ROWS..rows.end.div_ceil(BLOCK_ROWS);
        { blocks }.any(|block| self.bits[block / 64] >> (block % 64) & 1 == 1)
    }
}

/// What is known of a column since an earlier capture.
pub(crate) struct EarlierColumn<'a> {
    /// Pages of it that have changed are let go of, so that the new ones can take their memory.
    pub(crate) rope: &'a mut Rope,
    /// `None`: nothing, so that its bytes must be compared.
    pub(crate) dirty: Option<&'a DirtyRows>,
}

/// A column in pages. `fill` writes some of its rows; those that are as they were are taken from the earlier capture.
pub(crate) fn in_pages(
    pool: &BufferPool,
    rows: usize,
    stride: usize,
    mut earlier: Option<EarlierColumn<'_>>,
    mut fill: impl FnMut(Range<usize>, &mut [u8]),
) -> Rope {
    let cut = PageLayout::of(stride);
    let len = rows * stride;
    earlier = earlier.filter(|earlier| is_paged(earlier.rope, cut));
    if let Some(EarlierColumn { rope, dirty: Some(dirty) }) = &earlier
        && rope.len() == len
        && !dirty.any()
    {
        return (*rope).clone();
    }
    let count = rows.div_ceil(cut.page_rows);
    let (mut parts, mut checksums) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let mut is_same = earlier.as_ref().is_some_and(|earlier| earlier.rope.len() == len);
    for page in 0..count {
        let range = page * cut.page_rows..((page + 1) * cut.page_rows).min(rows);
        let bytes = range.len() * stride;
        let before = earlier
            .as_mut()
            .filter(|earlier| earlier.rope.parts().get(page).is_some_and(|part| part.len() == bytes));
        let mut compared = None;
        if let Some(EarlierColumn { rope, dirty }) = before {
            let known = (rope.parts()[page].clone(), rope.checksums().and_then(|sums| sums.get(page)));
            match dirty {
                Some(dirty) if dirty.touches(range.clone()) => {
                    drop(known);
                    rope.release(page);
                }
                Some(_) => {
                    parts.push(known.0);
                    checksums.push(known.1);
                    continue;
                }
                None => compared = Some(known),
            }
        }
        let mut memory = room(pool, bytes);
        fill(range, memory.as_mut());
        if let Some((part, checksum)) = compared
            && *part == *memory.as_ref()
        {
            parts.push(part);
            checksums.push(checksum);
            continue;
        }
        is_same = false;
        parts.push(memory.share());
        checksums.push(None);
    }
    if let Some(EarlierColumn { rope, .. }) = earlier.filter(|_| is_same) {
        // With what it has computed about itself.
        return rope.clone();
    }
    Rope::in_units(parts, Checksums::new(cut.page_bytes, checksums))
}

/// Whether a rope is cut as a column in pages is. One that is not cannot be shared by parts.
fn is_paged(rope: &Rope, cut: PageLayout) -> bool {
    let parts = rope.parts();
    parts.len() == rope.len().div_ceil(cut.page_bytes)
        && parts.iter().take(parts.len().saturating_sub(1)).all(|part| part.len() == cut.page_bytes)
}

/// Memory for a page: from the pool if it is most of one.
fn room(pool: &BufferPool, bytes: usize) -> AlignedBuf {
    if bytes > PAGE_BYTES / 2 && bytes <= PAGE_BYTES {
        pool.take_page(bytes)
    } else {
        AlignedBuf::zeroed(bytes)
    }
}

/// How much memory a part of a rope takes.
pub(crate) fn memory_of(part: &Bytes) -> usize {
    let len = part.len();
    if len > PAGE_BYTES / 2 && len <= PAGE_BYTES { PAGE_BYTES } else { len }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_whole_rows_and_blocks_whole_pages() {
        for stride in (1..2000).chain([4095, 4096, 16_383, 16_384, 16_385, 65_535, 65_536, 65_537, 1 << 20]) {
            let cut = PageLayout::of(stride);
            assert_eq!(cut.page_rows * stride, cut.page_bytes);
            assert!(cut.page_rows >= 1 && cut.block_bytes <= BLOCK_BYTES, "{stride}");
            assert!(cut.page_bytes <= PAGE_BYTES || cut.page_rows == 1, "{stride}");
            assert!(cut.block_bytes.is_multiple_of(cut.page_bytes) || stride > BLOCK_BYTES, "{stride}");
            assert!(cut.block_bytes > BLOCK_BYTES / 2, "{stride}");
            assert!(64 * stride > PAGE_BYTES || cut.page_rows.is_multiple_of(64), "{stride}");
        }
    }

    #[test]
    fn dirty_rows_are_found_in_blocks() {
        let mut dirty = DirtyRows::none(10_000);
        assert!(!dirty.any() && !dirty.touches(0..10_000));
        dirty.mark(6_400);
        assert!(dirty.touches(6_463..6_464) && dirty.touches(0..6_401));
        assert!(!dirty.touches(0..6_400) && !dirty.touches(6_464..10_000));
        dirty.reset(64);
        assert!(!dirty.any());
        assert!(DirtyRows::all(65).touches(64..65));
    }

    #[test]
    fn what_is_clean_is_shared_with_its_checksum() {
        let pool = BufferPool::default();
        let (rows, stride) = (5000, 12);
        let bytes: Vec<u8> = (0..rows * stride).map(|i| (i * 7 % 251) as u8).collect();
        let fill = |bytes: &[u8]| {
            let bytes = bytes.to_vec();
            move |range: Range<usize>, to: &mut [u8]| {
                to.copy_from_slice(&bytes[range.start * stride..range.end * stride]);
            }
        };
        let first = in_pages(&pool, rows, stride, None, fill(&bytes));
        assert_eq!(first.to_vec(), bytes);
        let sums = first.checksums().unwrap();
        let all = sums.of(0..first.parts().len(), first.parts());
        assert_eq!(all, crc::checksum(&bytes));

        let mut changed = bytes.clone();
        changed[3000 * stride] ^= 1;
        let mut dirty = DirtyRows::none(rows);
        dirty.mark(3000);
        let shared = |a: &Rope, b: &Rope| {
            a.parts().iter().zip(b.parts()).filter(|(a, b)| a.as_ptr() == b.as_ptr()).count()
        };
        for dirty in [Some(&dirty), None] {
            let earlier = Some(EarlierColumn { rope: &mut first.clone(), dirty });
            let second = in_pages(&pool, rows, stride, earlier, fill(&changed));
            assert_eq!(second.to_vec(), changed);
            assert_eq!((shared(&first, &second), second.parts().len()), (3, 4));
            let sums = second.checksums().unwrap();
            assert_eq!([0, 1, 2, 3].map(|page| sums.get(page).is_some()), [true, true, false, true]);
            assert_eq!(sums.of(0..4, second.parts()), crc::checksum(&changed));
        }
        // Nothing has changed, which a comparison finds, too: what was joined is shared as well.
        first.joined();
        for dirty in [Some(&DirtyRows::none(rows)), None] {
            let earlier = Some(EarlierColumn { rope: &mut first.clone(), dirty });
            let same = in_pages(&pool, rows, stride, earlier, fill(&bytes));
            assert_eq!(same.made().map(|made| made.as_ptr()), first.made().map(|made| made.as_ptr()));
            assert_eq!((shared(&first, &same), same.to_vec() == bytes), (4, true));
        }
        // Another length: all pages that are still whole.
        let clean = DirtyRows::none(rows);
        let mut rope = first.clone();
        let earlier = Some(EarlierColumn { rope: &mut rope, dirty: Some(&clean) });
        let shorter = in_pages(&pool, rows - 1, stride, earlier, fill(&bytes));
        assert_eq!((shared(&first, &shorter), shorter.len()), (3, (rows - 1) * stride));
        // A rope in one piece cannot be shared by parts.
        let one = Rope::from(Bytes::from(bytes.clone()));
        let earlier = Some(EarlierColumn { rope: &mut one.clone(), dirty: Some(&clean) });
        let again = in_pages(&pool, rows, stride, earlier, fill(&bytes));
        assert_eq!((shared(&one, &again), again.to_vec()), (0, bytes));
    }
}

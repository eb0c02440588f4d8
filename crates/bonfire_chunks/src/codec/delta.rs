//! Which cells of a chunk are not as in another one.

use bonfire::{Error, Result};

/// What became of a chunk: the cells that are not as they were.
///
/// ```
/// use bonfire_chunks::codec::Delta;
///
/// let (before, after) = ([1, 1, 1, 1, 1, 1], [1, 9, 9, 1, 1, 9]);
/// let delta = Delta::between(&before, &after, 1);
/// assert_eq!(delta.runs, [(1, 2), (5, 1)]);
///
/// let mut chunk = before;
/// delta.apply(1, &mut chunk)?;
/// assert_eq!(chunk, after);
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// The first cell and the number of cells of each run of changed cells: ascending, none empty, and no two that
    /// touch.
    pub runs: Vec<(u32, u32)>,
    /// The new cells of all runs, joined.
    pub cells: Vec<u8>,
}

/// Cells are compared in groups of this many.
const GROUP: usize = 64;

impl Delta {
    /// The cells of `cells` that are not as in `base`.
    ///
    /// # Panics
    ///
    /// If the two are not chunks of one size, of whole cells of 1 to 64 bytes.
    pub fn between(base: &[u8], cells: &[u8], cell_bytes: usize) -> Self {
        assert_eq!(base.len(), cells.len(), "two chunks of one size");
        super::check_cells(cells.len(), cell_bytes).expect("cells are complete");
        let mut delta = Self::default();
        match cell_bytes {
            1 => delta.compare::<1>(base, cells),
            2 => delta.compare::<2>(base, cells),
            3 => delta.compare::<3>(base, cells),
            4 => delta.compare::<4>(base, cells),
            8 => delta.compare::<8>(base, cells),
            _ => delta.compare_wide(base, cells, cell_bytes),
        }
        let count: usize = delta.runs.iter().map(|&(_, len)| len as usize).sum();
        delta.cells.reserve_exact(count * cell_bytes);
        for &(start, len) in &delta.runs {
            let (start, len) = (start as usize * cell_bytes, len as usize * cell_bytes);
            delta.cells.extend_from_slice(&cells[start..start + len]);
        }
        delta
    }

    /// Single cells at ascending positions, joined to runs where they touch.
    pub fn at(positions: &[u32], cells: Vec<u8>) -> Self {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for &position in positions {
            match runs.last_mut() {
                Some((start, len)) if position.checked_sub(*start) == Some(*len) => *len += 1,
                _ => runs.push((position, 1)),
            }
        }
        Self { runs, cells }
    }

    fn compare<const N: usize>(&mut self, base: &[u8], cells: &[u8]) {
        let (base, _) = base.as_chunks::<N>();
        let (cells, _) = cells.as_chunks::<N>();
        let (base_groups, base_rest) = base.as_chunks::<GROUP>();
        let (groups, rest) = cells.as_chunks::<GROUP>();
        let mut start = 0;
        for (old, new) in base_groups.iter().zip(groups) {
            if old.as_flattened() != new.as_flattened() {
                let mut changed = 0;
                for (at, (old, new)) in old.iter().zip(new).enumerate() {
                    changed |= u64::from(old != new) << at;
                }
                self.push_changed(start, changed);
            }
            start += GROUP as u32;
        }
        for (at, (old, new)) in (start..).zip(base_rest.iter().zip(rest)) {
            if old != new {
                self.push_run(at, 1);
            }
        }
    }

    fn compare_wide(&mut self, base: &[u8], cells: &[u8], cell_bytes: usize) {
        let group_bytes = GROUP * cell_bytes;
        let mut start = 0;
        for (old, new) in base.chunks(group_bytes).zip(cells.chunks(group_bytes)) {
            if old != new {
                let pairs = old.chunks_exact(cell_bytes).zip(new.chunks_exact(cell_bytes));
                for (at, (old, new)) in (start..).zip(pairs) {
                    if old != new {
                        self.push_run(at, 1);
                    }
                }
            }
            start += GROUP as u32;
        }
    }

    /// The runs of ones in a group, the first cell in the lowest bit.
    fn push_changed(&mut self, mut start: u32, mut changed: u64) {
        while changed != 0 {
            let same = changed.trailing_zeros();
            changed >>= same;
            let len = changed.trailing_ones();
            self.push_run(start + same, len);
            start += same + len;
            changed = changed.checked_shr(len).unwrap_or(0);
        }
    }

    /// Appends a run, which is behind all others and may touch the last.
    pub(super) fn push_run(&mut self, start: u32, len: u32) {
        match self.runs.last_mut() {
            Some((last, last_len)) if *last + *last_len == start => *last_len += len,
            _ => self.runs.push((start, len)),
        }
    }

    /// How many cells changed.
    pub fn count(&self) -> usize {
        self.runs.iter().map(|&(_, len)| len as usize).sum()
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The place of each cell that changed, and what it became.
    pub fn iter(&self, cell_bytes: usize) -> impl Iterator<Item = (u32, &[u8])> {
        let positions = self.runs.iter().flat_map(|&(start, len)| start..start.saturating_add(len));
        positions.zip(self.cells.chunks_exact(cell_bytes))
    }

    /// Puts the changes over the chunk that they were made from. Nothing changes if they do not fit it.
    pub fn apply(&self, cell_bytes: usize, base: &mut [u8]) -> Result<()> {
        super::check_cells(base.len(), cell_bytes)?;
        self.check(cell_bytes, base.len() / cell_bytes)?;
        let mut cells = self.cells.as_slice();
        for &(start, len) in &self.runs {
            let (start, len) = (start as usize * cell_bytes, len as usize * cell_bytes);
            let (run, rest) = cells.split_at(len);
            base[start..start + len].copy_from_slice(run);
            cells = rest;
        }
        Ok(())
    }

    /// Whether the runs are as [`Self::runs`] has to be, inside a chunk of this many cells, and have all their cells.
    pub fn check(&self, cell_bytes: usize, cell_count: usize) -> Result<()> {
        let mut end = 0;
        let mut count = 0;
        for &(start, len) in &self.runs {
            let (start, len) = (start as usize, len as usize);
            if len == 0 || (count > 0 && start <= end) || len > cell_count.saturating_sub(start) {
                return Err(Error::misuse(format_args!(
                    "a run of {len} cells from {start} does not fit behind {end} of {cell_count}"
                )));
            }
            end = start + len;
            count += len;
        }
        if count * cell_bytes != self.cells.len() {
            let bytes = self.cells.len();
            return Err(Error::misuse(format_args!("{count} changed cells have {bytes} bytes")));
        }
        Ok(())
    }
}

//! Copies between Rust values and bytes, whole columns at a time.
//!
//! Everything rests on one promise, made by [`LayoutOf::new`](crate::engine::LayoutOf::new): the leaves of a type are initialised in every
//! value, and bytes that pass the leaves' checks, put into all leaves (with the filler for the rest), are a value.
//! Bulk copies are for little-endian hosts; elsewhere, and in tests, the portable twin in `descriptor::column` does the
//! same through `encode` and `decode`.
//!
//! What it buys: `bonfire_bench` rows `encode_*`, `view_open_*`, `strided_*`.
#![expect(unsafe_code, reason = "memory-speed columns")]

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::row::{Move, RowLayout, check_rows};
use crate::storage::{Checksums, PageLayout, crc};

/// Whether values lie in memory with the byte order of the format.
pub(crate) const LITTLE_ENDIAN: bool = cfg!(target_endian = "little");

/// How columns of plain types are copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CopyPath {
    /// In one piece where memory allows it.
    #[default]
    Bulk,
    /// Row by row through `encode` and `decode`: slower, the same bytes and values.
    Portable,
}

impl CopyPath {
    /// Returns whether whole columns may be copied on this host.
    pub(crate) fn is_bulk(self) -> bool {
        LITTLE_ENDIAN && self == Self::Bulk
    }
}

/// Rows of a column in the memory of a world, without their type.
///
/// Front ends make these from what their storage gives them; the unsafe calls that take them say what must hold.
#[derive(Clone, Copy, Debug)]
pub enum RawRows<'a> {
    /// `len` values one after the other.
    Slice {
        /// The first value.
        base: *const u8,
        /// How many there are.
        len: usize,
    },
    /// Some values of such a slice.
    Picked {
        /// The first value of the slice.
        base: *const u8,
        /// Which ones, by position.
        rows: &'a [u32],
    },
    /// Values anywhere in memory.
    Pointers(&'a [*const u8]),
}

impl RawRows<'_> {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Slice { len, .. } => *len,
            Self::Picked { rows, .. } => rows.len(),
            Self::Pointers(rows) => rows.len(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A pointer to a row of values of `size` bytes.
    ///
    /// # Safety
    /// `row` must be below `len()`, and the rows must be what they say they are, with values of `size` bytes.
    #[inline]
    pub(crate) unsafe fn pointer(&self, row: usize, size: usize) -> *const u8 {
        match self {
            // SAFETY: the caller vouches that `row` values of `size` bytes lie before this one.
            Self::Slice { base, .. } => unsafe { base.add(row * size) },
            // SAFETY: as above, for the row's position in the slice.
            Self::Picked { base, rows } => unsafe { base.add(rows[row] as usize * size) },
            Self::Pointers(rows) => rows[row],
        }
    }

    /// Some of the rows, of values of `size` bytes.
    ///
    /// # Safety
    /// The rows must be what they say they are, with values of `size` bytes.
    unsafe fn part(&self, rows: std::ops::Range<usize>, size: usize) -> Self {
        assert!(rows.start <= rows.end && rows.end <= self.len());
        match *self {
            Self::Slice { base, .. } => {
                // SAFETY: `rows.start` values of `size` bytes lie before this one.
                let base = unsafe { base.add(rows.start * size) };
                Self::Slice { base, len: rows.len() }
            }
            Self::Picked { base, rows: picked } => Self::Picked { base, rows: &picked[rows] },
            Self::Pointers(pointers) => Self::Pointers(&pointers[rows]),
        }
    }

    /// The rows as references to values.
    ///
    /// # Safety
    /// Every row must be a live `T` that nobody writes to while the iterator is used.
    pub(crate) unsafe fn iter<'a, T: 'a>(&'a self) -> impl ExactSizeIterator<Item = &'a T> + 'a {
        (0..self.len()).map(|row| {
            // SAFETY: `row` is in range and the caller vouches for the value.
            unsafe { &*self.pointer(row, size_of::<T>()).cast::<T>() }
        })
    }
}

/// Fills `out` with the rows of a bulk type.
///
/// # Safety
/// Every row must be a live value of a type whose layout is `layout`, and nobody may write to it meanwhile.
pub(crate) unsafe fn gather(rows: RawRows<'_>, layout: &Layout, row: &RowLayout, out: &mut [u8]) {
    let (size, stride, count) = (layout.size(), row.stride as usize, rows.len());
    assert!(
        LITTLE_ENDIAN && layout.is_bulk() && out.len() == stride * count,
        "the sink has room for every row"
    );
    if stride == 0 {
        return;
    }
    if let RawRows::Slice { base, .. } = rows {
        if layout.is_plain() {
            // SAFETY: plain values have no gaps, so all `count * size` bytes are initialised; `out` has as many, and
            // is a separate buffer of ours.
            unsafe { base.copy_to_nonoverlapping(out.as_mut_ptr(), out.len()) };
        } else {
            // SAFETY: the moves lie inside the layout's leaves and inside the row, for which the slices have room.
            unsafe { copy_rows(base, size, out.as_mut_ptr(), stride, count, &row.moves_from(layout)) };
        }
        return;
    }
    let moves = row.moves_from(layout);
    for (i, to) in out.chunks_exact_mut(stride).enumerate() {
        // SAFETY: `i` is below the number of rows.
        let from = unsafe { rows.pointer(i, size) };
        for step in &moves {
            // SAFETY: leaves are initialised, and `step` lies inside the value and inside the row.
            unsafe { copy_small(from.add(step.from), to.as_mut_ptr().add(step.to), step.len) };
        }
    }
}

/// Calls `found` with the rows whose leaves are not the same on both sides.
///
/// # Safety
/// On either side there are `len` live values of a type whose layout is `layout`, and nobody may write to them meanwhile.
pub(crate) unsafe fn differing(
    a: *const u8,
    b: *const u8,
    len: usize,
    layout: &Layout,
    row: &RowLayout,
    found: &mut dyn FnMut(usize),
) {
    let (size, stride) = (layout.size(), row.stride as usize);
    if stride == 0 {
        return;
    }
    // As many rows at a time as stay in the nearest cache.
    let rows_max = (4096 / stride).max(1);
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for start in (0..len).step_by(rows_max) {
        let rows = rows_max.min(len - start);
        // SAFETY: `start` is below `len`.
        let (a, b) = unsafe { (a.add(start * size), b.add(start * size)) };
        let (a, b) = if layout.is_plain() {
            // SAFETY: plain values have no gaps, so all bytes of these rows are initialised.
            unsafe {
                (std::slice::from_raw_parts(a, rows * size), std::slice::from_raw_parts(b, rows * size))
            }
        } else {
            left.resize(rows * stride, 0);
            right.resize(rows * stride, 0);
            // SAFETY: the rows are live values of the layout's type.
            unsafe {
                gather(RawRows::Slice { base: a, len: rows }, layout, row, &mut left);
                gather(RawRows::Slice { base: b, len: rows }, layout, row, &mut right);
            }
            (&*left, &*right)
        };
        if a != b {
            let pairs = a.chunks_exact(stride).zip(b.chunks_exact(stride)).enumerate();
            pairs.filter(|(_, (a, b))| a != b).for_each(|(row, _)| found(start + row));
        }
    }
}

/// As [`gather`], and computes the checksum of each block of the column while it is in the cache.
///
/// # Safety
/// As [`gather`].
pub(crate) unsafe fn gather_checked(
    rows: RawRows<'_>,
    layout: &Layout,
    row: &RowLayout,
    out: &mut [u8],
) -> Arc<Checksums> {
    let stride = row.stride as usize;
    let block_bytes = PageLayout::of(stride).block_bytes;
    let at_once = (block_bytes / stride.max(1)).max(1);
    if at_once * stride != block_bytes {
        // SAFETY: the caller vouches for the rows.
        unsafe { gather(rows, layout, row, out) };
        return Checksums::new(block_bytes, crc::of_units(out, block_bytes).into_iter().map(Some));
    }
    let mut checksums = Vec::with_capacity(out.len().div_ceil(block_bytes));
    for start in (0..rows.len()).step_by(at_once) {
        let end = (start + at_once).min(rows.len());
        let block = &mut out[start * stride..end * stride];
        // SAFETY: the caller vouches for the rows; these are some of them.
        unsafe { gather_some(rows, start..end, layout, row, block) };
        checksums.push(Some(crc::checksum(block)));
    }
    Checksums::new(block_bytes, checksums)
}

/// As [`gather`], for some of the rows.
///
/// # Safety
/// As [`gather`].
pub(crate) unsafe fn gather_some(
    rows: RawRows<'_>,
    range: std::ops::Range<usize>,
    layout: &Layout,
    row: &RowLayout,
    out: &mut [u8],
) {
    // SAFETY: the caller vouches for the rows; these are some of them.
    unsafe { gather(rows.part(range, layout.size()), layout, row, out) };
}

/// Makes values from the rows of a raw column.
///
/// # Safety
/// `layout` must be the layout of `T`, and `fill_skipped` must write everything of a `T` that is not a leaf.
pub(crate) unsafe fn scatter<T>(
    bytes: &[u8],
    row: &RowLayout,
    layout: &Layout,
    count: usize,
    fill_skipped: impl Fn(*mut T),
) -> Result<Vec<T>> {
    let stride = row.stride as usize;
    if !LITTLE_ENDIAN || !layout.is_bulk() || layout.size() != size_of::<T>() || bytes.len() != stride * count
    {
        return Err(Error::corrupt(format!("{} bytes are not {count} rows of {stride} bytes", bytes.len())));
    }
    let mut leaves = layout.leaves().iter().zip(&row.offsets);
    if layout.leaves().len() != row.offsets.len()
        || leaves.any(|(leaf, offset)| u64::from(*offset) + u64::from(leaf.size) > stride as u64)
    {
        return Err(Error::corrupt(format!("rows of {stride} bytes do not have the leaves of their type")));
    }
    check_rows(bytes, row, layout)?;
    let mut values = reserve::<T>(count)?;
    let base = values.as_mut_ptr();
    if layout.is_plain() && row.stride as usize == size_of::<T>() && *row == RowLayout::of(layout) {
        // SAFETY: there is room for `count` values, and the bytes of all leaves, which are all bytes, were checked.
        unsafe { bytes.as_ptr().copy_to_nonoverlapping(base.cast(), bytes.len()) };
    } else {
        let moves = row.moves_into(layout);
        // SAFETY: each move lies inside the row, as was just checked, and inside the value.
        unsafe { copy_rows(bytes.as_ptr(), stride, base.cast(), size_of::<T>(), count, &moves) };
        for i in 0..count {
            // SAFETY: value `i` is inside the allocation.
            fill_skipped(unsafe { base.add(i) });
        }
    }
    // SAFETY: every value is complete now: its leaves are copied and checked, the rest was filled.
    unsafe { values.set_len(count) };
    Ok(values)
}

/// The rows of a raw column as values where they are, if they lie in memory exactly as values do.
///
/// # Safety
/// `layout` must be the layout of `T`.
pub(crate) unsafe fn view<'a, T>(
    bytes: &'a [u8],
    row: &RowLayout,
    layout: &Layout,
    count: usize,
) -> Option<Result<&'a [T]>> {
    let fits = LITTLE_ENDIAN
        && layout.size() == size_of::<T>()
        && bytes.len() == count.checked_mul(size_of::<T>())?
        && bytes.as_ptr().cast::<T>().is_aligned()
        && row.is_plain(layout);
    if !fits {
        return None;
    }
    if let Err(error) = check_rows(bytes, row, layout) {
        return Some(Err(error));
    }
    // SAFETY: aligned, of the right length, and checked: these bytes are `count` values of `T`. They are shared and
    // immutable for `'a`, as the slice is. Types with interior mutability have no plain layout.
    Some(Ok(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), count) }))
}

/// An empty vector with room for `count` values, or an error where `with_capacity` would end the process.
pub(crate) fn reserve<T>(count: usize) -> Result<Vec<T>> {
    let mut values = Vec::new();
    match values.try_reserve_exact(count) {
        Ok(()) => Ok(values),
        Err(_) => Err(Error::limit(format!("there is no memory for {count} values"))),
    }
}

/// Copies rows from one layout to another. Panics if a move leaves its row, or if there is no room for all rows.
pub(crate) fn move_rows(from: &[u8], from_stride: usize, to: &mut [u8], to_stride: usize, moves: &[Move]) {
    let Some(count) = from.len().checked_div(from_stride) else { return };
    assert!(to.len() >= count * to_stride, "there is room for every row");
    assert!(
        moves.iter().all(|step| step.from + step.len <= from_stride && step.to + step.len <= to_stride),
        "moves stay in their rows"
    );
    // SAFETY: both sides have `count` rows, all bytes of slices are initialised, and the moves lie inside the rows.
    unsafe { copy_rows(from.as_ptr(), from_stride, to.as_mut_ptr(), to_stride, count, moves) };
}

/// Copies rows by moves, exactly: bytes between the leaves may belong to fields that are not saved and that somebody else
/// is writing to.
///
/// # Safety
/// `from` must be readable and `to` writable, `count` times their strides, `from` initialised wherever a move reads, the
/// two apart, and every move must lie inside both strides.
unsafe fn copy_rows(
    from: *const u8,
    from_stride: usize,
    to: *mut u8,
    to_stride: usize,
    count: usize,
    moves: &[Move],
) {
    /// One loop over the rows, with the widths of its copies known to the compiler.
    macro_rules! rows {
        ($($step:ident by $width:literal),*) => {
            for row in 0..count {
                // SAFETY: the row is below `count` and the moves lie inside it.
                unsafe {
                    let (from, to) = (from.add(row * from_stride), to.add(row * to_stride));
                    $(copy_ends::<$width>(from.add($step.from), to.add($step.to), $step.len);)*
                }
            }
        };
    }
    match *moves {
        [a] => match a.len {
            4..=7 => rows!(a by 4),
            8..=16 => rows!(a by 8),
            17..=32 => rows!(a by 16),
            33..=64 => rows!(a by 32),
            _ => rows!(a by 0),
        },
        [a, b] => match (a.len, b.len) {
            (4..=7, 4..=7) => rows!(a by 4, b by 4),
            (4..=7, 8..=16) => rows!(a by 4, b by 8),
            (8..=16, 4..=7) => rows!(a by 8, b by 4),
            (8..=16, 8..=16) => rows!(a by 8, b by 8),
            (17..=32, 4..=7) => rows!(a by 16, b by 4),
            (17..=32, 8..=16) => rows!(a by 16, b by 8),
            (33..=64, 4..=7) => rows!(a by 32, b by 4),
            (33..=64, 8..=16) => rows!(a by 32, b by 8),
            _ => rows!(a by 0, b by 0),
        },
        _ => {
            for row in 0..count {
                for step in moves {
                    // SAFETY: the row is below `count` and the move lies inside it.
                    unsafe {
                        let (from, to) =
                            (from.add(row * from_stride + step.from), to.add(row * to_stride + step.to));
                        copy_small(from, to, step.len);
                    }
                }
            }
        }
    }
}

/// Copies `len` bytes, from `W` to twice as many, as two pieces that may overlap; any number if `W` is 0.
///
/// # Safety
/// `from` readable and `to` writable for `len` bytes, which is as said.
#[inline(always)]
unsafe fn copy_ends<const W: usize>(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: both pieces lie inside the `len` bytes; byte arrays need no alignment.
    unsafe {
        if W == 0 {
            return copy_small(from, to, len);
        }
        debug_assert!((W..=2 * W).contains(&len));
        let (front, back) = (from.cast::<[u8; W]>().read(), from.add(len - W).cast::<[u8; W]>().read());
        to.cast::<[u8; W]>().write(front);
        to.add(len - W).cast::<[u8; W]>().write(back);
    }
}

/// # Safety
/// `from` readable and `to` writable for `len` bytes.
#[inline]
unsafe fn copy_small(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: as the caller says.
    unsafe {
        match len {
            4..=8 => copy_ends::<4>(from, to, len),
            9..=16 => copy_ends::<8>(from, to, len),
            17..=32 => copy_ends::<16>(from, to, len),
            _ => from.copy_to_nonoverlapping(to, len),
        }
    }
}

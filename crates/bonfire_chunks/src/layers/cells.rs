//! The same small work on every cell of a chunk.

/// Bytes that are in all cells of one kind, and go to all cells of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) len: usize,
}

impl Span {
    /// Appends a span, as part of the last one if it goes on there.
    pub(super) fn push(self, spans: &mut Vec<Self>) {
        match spans.last_mut() {
            Some(last) if last.from + last.len == self.from && last.to + last.len == self.to => {
                last.len += self.len;
            }
            _ => spans.push(self),
        }
    }

    /// Copies it in every cell.
    pub(super) fn copy(self, source: &[u8], source_bytes: usize, target: &mut [u8], target_bytes: usize) {
        if (self.len, self.len) == (source_bytes, target_bytes) {
            target.copy_from_slice(source);
            return;
        }
        let cells = source.chunks_exact(source_bytes).zip(target.chunks_exact_mut(target_bytes));
        match self.len {
            1 => cells.for_each(|(source, target)| target[self.to] = source[self.from]),
            2 => cells.for_each(|(source, target)| self.copy_array::<2>(source, target)),
            3 => cells.for_each(|(source, target)| self.copy_array::<3>(source, target)),
            4 => cells.for_each(|(source, target)| self.copy_array::<4>(source, target)),
            8 => cells.for_each(|(source, target)| self.copy_array::<8>(source, target)),
            len => cells.for_each(|(source, target)| {
                target[self.to..self.to + len].copy_from_slice(&source[self.from..self.from + len]);
            }),
        }
    }

    #[inline(always)]
    fn copy_array<const N: usize>(self, source: &[u8], target: &mut [u8]) {
        if let (Some(source), Some(target)) =
            (source[self.from..].first_chunk::<N>(), target[self.to..].first_chunk_mut::<N>())
        {
            *target = *source;
        }
    }
}

/// Which bits of a cell stay, and what the others become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CellMask {
    keep: Vec<u8>,
    fill: Vec<u8>,
}

impl CellMask {
    /// Bits that are not in `keep` become as in `default`.
    pub(super) fn new(keep: Vec<u8>, default: &[u8]) -> Self {
        let fill = keep.iter().zip(default).map(|(keep, default)| default & !keep).collect();
        Self { keep, fill }
    }

    /// Whether it changes nothing, in any cell.
    pub(super) fn is_identity(&self) -> bool {
        self.keep.iter().all(|keep| *keep == 0xFF)
    }

    /// Masks all cells.
    pub(super) fn apply(&self, cells: &mut [u8]) {
        if self.is_identity() {
            return;
        }
        let cell_bytes = self.keep.len();
        if 8 % cell_bytes != 0 {
            for (at, (&keep, &fill)) in self.keep.iter().zip(&self.fill).enumerate() {
                if keep != 0xFF {
                    for byte in cells.iter_mut().skip(at).step_by(cell_bytes) {
                        *byte = *byte & keep | fill;
                    }
                }
            }
            return;
        }
        let word = |bytes: &[u8]| u64::from_le_bytes(std::array::from_fn(|at| bytes[at % cell_bytes]));
        let (keep, fill) = (word(&self.keep), word(&self.fill));
        let (words, rest) = cells.as_chunks_mut::<8>();
        for bytes in words {
            *bytes = (u64::from_le_bytes(*bytes) & keep | fill).to_le_bytes();
        }
        for (byte, (keep, fill)) in rest.iter_mut().zip(keep.to_le_bytes().iter().zip(fill.to_le_bytes())) {
            *byte = *byte & keep | fill;
        }
    }
}

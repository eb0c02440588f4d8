//! Which rows of an archetype have a component.

/// One bit per row, low bits first; bits beyond the last row are zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bitmap {
    bytes: Vec<u8>,
    len: usize,
}

impl Bitmap {
    /// All rows.
    pub(crate) fn full(len: usize) -> Self {
        let mut bytes = vec![0xff; len.div_ceil(8)];
        if let Some(last) = bytes.last_mut()
            && !len.is_multiple_of(8)
        {
            *last = (1 << (len % 8)) - 1;
        }
        Self { bytes, len }
    }

    /// From the bytes of a file. `None` if the length is wrong or a bit is set beyond the last row.
    pub(crate) fn from_bytes(bytes: &[u8], len: usize) -> Option<Self> {
        let spare = bytes.last().is_some_and(|last| !len.is_multiple_of(8) && last >> (len % 8) != 0);
        (bytes.len() == len.div_ceil(8) && !spare).then(|| Self { bytes: bytes.to_vec(), len })
    }

    /// From one answer per row; `None` if all are true.
    pub(crate) fn from_rows(present: impl ExactSizeIterator<Item = bool>) -> Option<Self> {
        let mut bitmap = Self::full(present.len());
        let mut all = true;
        for (row, present) in present.enumerate() {
            if !present {
                bitmap.clear(row);
                all = false;
            }
        }
        (!all).then_some(bitmap)
    }

    /// `present` (or all of `rows`) without the rows that lost their value, which are counted among the present ones.
    pub(crate) fn without(present: Option<&Self>, rows: usize, lost: &[usize]) -> Option<Self> {
        if lost.is_empty() {
            return present.cloned();
        }
        let mut bitmap = present.cloned().unwrap_or_else(|| Self::full(rows));
        let places: Vec<usize> = bitmap.iter().collect();
        lost.iter().for_each(|&number| bitmap.clear(places[number]));
        Some(bitmap)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
    pub(crate) fn clear(&mut self, row: usize) {
        self.bytes[row / 8] &= !(1 << (row % 8));
    }
    /// Whether a row is set.
    pub fn get(&self, row: usize) -> bool {
        row < self.len && self.bytes[row / 8] >> (row % 8) & 1 == 1
    }
    /// How many rows are set.
    pub fn count(&self) -> usize {
        self.bytes.iter().map(|byte| byte.count_ones() as usize).sum()
    }
    /// The rows that are set.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.len).filter(|&row| self.get(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_beyond_the_last_row_are_refused() {
        assert!(Bitmap::from_bytes(&[0b0000_0111], 3).is_some());
        assert!(Bitmap::from_bytes(&[0b0000_1111], 3).is_none());
        assert!(Bitmap::from_bytes(&[0xff, 0], 8).is_none());
        assert_eq!(Bitmap::full(11).as_bytes(), &[0xff, 0b111]);
    }

    #[test]
    fn lost_rows_are_counted_among_the_present_ones() {
        let present = Bitmap::from_rows([true, false, true, true].into_iter()).unwrap();
        let left = Bitmap::without(Some(&present), 4, &[1]).unwrap();
        assert_eq!(left.iter().collect::<Vec<_>>(), [0, 3]);
        assert_eq!(Bitmap::without(None, 4, &[]), None);
    }
}

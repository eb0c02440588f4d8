//! The rows of an archetype that have changed, one bit each: deltas have rows, not pages.

use crate::capture::ChangedRows;

/// The rows of an archetype that were touched, column by column.
#[derive(Default)]
pub(super) struct RowBits {
    rows: usize,
    /// Words per column.
    words: usize,
    columns: Vec<u64>,
    /// Rows that were touched in any column.
    any: Vec<u64>,
}

impl RowBits {
    pub(super) fn reset(&mut self, rows: usize, columns: usize) {
        (self.rows, self.words) = (rows, rows.div_ceil(64));
        self.columns.clear();
        self.columns.resize(self.words * columns, 0);
        self.any.clear();
        self.any.resize(self.words, 0);
    }

    fn set_word(&mut self, column: usize, word: usize, bits: u64) {
        self.columns[column * self.words + word] |= bits;
        self.any[word] |= bits;
    }

    fn set(&mut self, column: usize, row: usize) {
        self.set_word(column, row / 64, 1 << (row % 64));
    }

    /// All rows of a column.
    pub(super) fn set_all(&mut self, column: usize) {
        for word in 0..self.words {
            let rows = (self.rows - word * 64).min(64);
            self.set_word(column, word, u64::MAX >> (64 - rows));
        }
    }

    /// A row that is of interest in no particular column.
    pub(super) fn touch(&mut self, row: usize) {
        self.any[row / 64] |= 1 << (row % 64);
    }

    /// Calls `found` with each row that was touched, and in which columns, one bit each.
    pub(super) fn for_each(&self, mut found: impl FnMut(usize, u128)) {
        for (word, &any) in self.any.iter().enumerate() {
            let mut left = any;
            while left != 0 {
                let bit = left.trailing_zeros();
                left &= left - 1;
                let mut touched = 0;
                for (column, words) in self.columns.chunks_exact(self.words).enumerate() {
                    touched |= u128::from(words[word] >> bit & 1) << column;
                }
                found(word * 64 + bit as usize, touched);
            }
        }
    }
}

/// One column of [`RowBits`], to be marked.
pub(super) struct ColumnBits<'a> {
    pub(super) bits: &'a mut RowBits,
    pub(super) column: usize,
}

impl ChangedRows for ColumnBits<'_> {
    fn mark_row(&mut self, row: usize) {
        self.bits.set(self.column, row);
    }
    fn mark_block(&mut self, block: usize, bits: impl FnOnce() -> u64) {
        self.bits.set_word(self.column, block, bits());
    }
}

//! Brings rows into another order by the one step that archetypes of an ECS allow: a row leaves and comes back.
//!
//! The last row fills the gap of one that leaves, and one that comes back is the last. So leaving and coming back exchanges a row
//! with the last one. A cycle of `n` rows takes `n + 1` such steps, and rows that are in place take none.

use std::collections::HashMap;
use std::hash::Hash;

/// Returns the rows to exchange with the last one, one after the other, so that `live` becomes `wanted`. Both have the same
/// entities.
pub fn row_exchanges<E: Copy + Eq + Hash>(live: &[E], wanted: &[E]) -> Vec<usize> {
    let displaced = || (0..wanted.len()).filter(|&row| live[row] != wanted[row]);
    let targets: HashMap<E, usize> = displaced().map(|row| (wanted[row], row)).collect();
    let mut exchanges = RowExchanges { rows: live.to_vec(), made: Vec::new() };
    exchanges.settle_last(wanted, &targets);
    for start in displaced() {
        if exchanges.rows[start] != wanted[start] {
            exchanges.make(start);
            exchanges.settle_last(wanted, &targets);
        }
    }
    exchanges.made
}

struct RowExchanges<E> {
    rows: Vec<E>,
    made: Vec<usize>,
}

impl<E: Copy + Eq + Hash> RowExchanges<E> {
    fn make(&mut self, row: usize) {
        let last = self.rows.len() - 1;
        self.rows.swap(row, last);
        self.made.push(row);
    }

    /// Puts what is last where it belongs, until the one that belongs there is last.
    fn settle_last(&mut self, wanted: &[E], targets: &HashMap<E, usize>) {
        while let Some(last) = self.rows.last().filter(|last| Some(*last) != wanted.last()) {
            match targets.get(last) {
                Some(&target) => self.make(target),
                None => unreachable!("an entity that is out of place has a place"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_get_into_any_order(wanted in (0..40_usize).prop_flat_map(|len| Just((0..len).collect::<Vec<_>>()).prop_shuffle())) {
            let mut live: Vec<usize> = (0..wanted.len()).collect();
            let exchanges = row_exchanges(&live, &wanted);
            let displaced = live.iter().zip(&wanted).filter(|(live, wanted)| live != wanted).count();
            prop_assert!(exchanges.len() <= displaced + displaced / 2, "{} for {displaced}", exchanges.len());
            for row in exchanges {
                let last = live.len() - 1;
                live.swap(row, last);
            }
            prop_assert_eq!(live, wanted);
        }
    }
}

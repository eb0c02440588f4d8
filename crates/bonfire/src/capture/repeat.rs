//! Values that repeat: each distinct one once.

use std::collections::HashMap;

use bytes::Bytes;

use crate::column::{Body, Groups, Indices, group_rows};

/// Distinct values of one component, in the order they were met.
#[derive(Default)]
pub(super) struct SharedValues {
    numbers: HashMap<Vec<u8>, u32>,
    pub(super) bytes: Vec<u8>,
    pub(super) ends: Vec<usize>,
    /// How many rows have one of them.
    pub(super) rows: usize,
}

impl SharedValues {
    /// Some of the values one after the other.
    pub(super) fn rows(&self, numbers: &[u32]) -> Groups {
        let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(numbers.len()));
        for &number in numbers {
            let start = (number as usize).checked_sub(1).map_or(0, |before| self.ends[before]);
            bytes.extend_from_slice(&self.bytes[start..self.ends[number as usize]]);
            ends.push(bytes.len());
        }
        Groups::new(Bytes::from(bytes), group_rows(&ends))
    }

    fn number(&mut self, value: &[u8]) -> u32 {
        self.rows += 1;
        if let Some(&number) = self.numbers.get(value) {
            return number;
        }
        let number = self.ends.len() as u32;
        self.numbers.insert(value.to_vec(), number);
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len());
        number
    }
}

/// Which values some rows have.
pub(super) fn numbers(bytes: &[u8], ends: &[usize], values: &mut SharedValues) -> Vec<u32> {
    let mut start = 0;
    let number = |&end: &usize| values.number(&bytes[std::mem::replace(&mut start, end)..end]);
    ends.iter().map(number).collect()
}

/// Each distinct value once, unless that is not smaller.
pub(super) fn dictionary(bytes: &[u8], ends: &[usize]) -> Option<Body> {
    let mut values = SharedValues::default();
    let rows = numbers(bytes, ends, &mut values);
    let width = Indices::width_for(values.ends.len());
    if values.bytes.len() + rows.len() * usize::from(width) >= bytes.len() {
        return None;
    }
    let groups = group_rows(&values.ends);
    let indices = Indices { width, bytes: Bytes::from(Indices::encode(&rows, width)) };
    Some(Body::Dictionary { values: Groups::new(Bytes::from(values.bytes), groups), indices })
}

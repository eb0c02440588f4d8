//! Deltas: opened, composed, applied to a snapshot.

use std::sync::Arc;

use bonfire::engine::{ComponentTable, DeltaScope, SnapshotWriter};
use bonfire::{Delta, Limits, Registry, Snapshot, Writer};

use super::assert_linear;

/// A table of so many components without bytes.
fn table(components: usize, limits: &Limits) -> Arc<ComponentTable> {
    let mut out = Writer::new();
    out.varint(components as u64);
    for number in 0..components {
        out.text(&format!("tag.{number:06}"));
        out.varint(1);
        out.u8(0); // a tag
        out.varint(0); // no raw rows
        out.varint(0); // no leaves
        out.blob(&[1, 0]); // a schema of one node: unit
    }
    ComponentTable::decode(&out.finish().unwrap(), limits).unwrap()
}

/// The content of a delta, written by hand.
struct Content(Writer);

const REMOVED: u8 = 0;
const ADDED: u8 = 1;

impl Content {
    fn new(groups: usize) -> Self {
        let mut out = Writer::new();
        out.varint(0);
        out.varint(0);
        out.varint(groups as u64);
        Self(out)
    }

    fn group(&mut self, spawned: bool, first: u64, ids: u64, components: &[usize], op: u8) {
        self.0.u8(spawned.into());
        self.0.varint(ids);
        for step in (0..ids).map(|id| if id == 0 { first } else { 1 }) {
            self.0.varint(step << 2);
        }
        self.0.varint(components.len() as u64);
        for &component in components {
            self.0.varint(component as u64);
            self.0.u8(op);
        }
    }

    fn open(mut self, table: &Arc<ComponentTable>, ticks: (u64, u64), limits: &Limits) -> Delta {
        (0..3).for_each(|_| self.0.u8(0)); // no lists, no resources, no extras
        let content = self.0.finish().unwrap().into();
        Delta::from_content(table, ticks.0, ticks.1, DeltaScope::Changes, content, limits).unwrap()
    }
}

fn nothing() -> Snapshot {
    SnapshotWriter::new(&Registry::new()).finish().unwrap()
}

/// The components of the set with this number: one for each bit.
fn set(number: usize) -> Vec<usize> {
    (0..usize::BITS as usize).filter(|bit| number >> bit & 1 == 1).collect()
}

#[test]
fn entities_that_all_have_another_set_of_components() {
    assert_linear(4000, |n, limits| {
        let table = table(16, limits);
        let mut content = Content::new(n);
        for number in 0..n {
            content.group(true, number as u64, 1, &set(number), ADDED);
        }
        let delta = content.open(&table, (0, 1), limits);
        let world = nothing().with_delta_in(&delta, limits).unwrap();
        assert_eq!(world.entity_count(), n);
    });
}

#[test]
fn entities_that_all_leave_their_set_of_components() {
    assert_linear(2000, |n, limits| {
        let table = table(17, limits);
        let (mut spawned, mut changed) = (Content::new(n), Content::new(n));
        for number in 0..n {
            spawned.group(true, number as u64, 1, &set(number), ADDED);
            changed.group(false, number as u64, 1, &[16], ADDED);
        }
        let world = nothing().with_delta_in(&spawned.open(&table, (0, 1), limits), limits).unwrap();
        let world = world.with_delta_in(&changed.open(&table, (1, 2), limits), limits).unwrap();
        assert_eq!(world.entity_count(), n);
    });
}

#[test]
fn many_components_are_found_by_their_keys() {
    assert_linear(4000, |n, limits| {
        let table = table(n, limits);
        let all: Vec<usize> = (0..n).collect();
        let mut spawned = Content::new(1);
        spawned.group(true, 0, 1, &all, ADDED);
        let mut changed = Content::new(1);
        changed.group(false, 0, 1, &all[n / 2..], REMOVED);
        let world = nothing().with_delta_in(&spawned.open(&table, (0, 1), limits), limits).unwrap();
        let world = world.with_delta_in(&changed.open(&table, (1, 2), limits), limits).unwrap();
        assert_eq!(world.components().len(), n / 2);
    });
}

#[test]
fn one_row_leaves_an_archetype_of_many_rows_and_many_empty_columns() {
    assert_linear(4000, |n, limits| {
        let columns: Vec<usize> = (0..n).collect();
        let table = table(n, limits);
        // Each alone is small: a group of so many entities with so many columns would have a cell for each.
        let (mut rows, mut sets) = (Content::new(1), Content::new(1));
        rows.group(true, 0, n as u64, &[0], ADDED);
        sets.group(true, n as u64, 1, &columns, ADDED);
        let world = nothing().with_delta_in(&rows.open(&table, (0, 1), limits), limits).unwrap();
        let world = world.with_delta_in(&sets.open(&table, (1, 2), limits), limits).unwrap();
        let mut changed = Content::new(2);
        changed.group(false, 0, 1, &columns[1..], ADDED);
        changed.group(false, n as u64, 1, &[0], REMOVED);
        let world = world.with_delta_in(&changed.open(&table, (2, 3), limits), limits).unwrap();
        assert_eq!(world.entity_count(), n + 1);
    });
}

#[test]
fn cells_without_bytes_are_charged_to_the_memory_limit() {
    let limits = Limits { memory_bytes_max: 1 << 20, ..Limits::default() };
    let table = table(1000, &limits);
    let mut content = Content::new(1);
    content.group(true, 0, 1000, &(0..1000).collect::<Vec<_>>(), ADDED);
    let delta = content.open(&table, (0, 1), &limits);
    assert!(nothing().with_delta_in(&delta, &limits).unwrap_err().is_limit());
    assert!(Delta::compose_all([&delta, &delta], &limits).unwrap_err().is_limit());
}

#[test]
fn the_result_of_a_delta_keeps_the_limits() {
    for limits in [
        Limits { entities_max: 9, ..Limits::default() },
        Limits { archetypes_max: 9, ..Limits::default() },
        Limits { components_max: 3, ..Limits::default() },
    ] {
        let table = table(4, &Limits::default());
        let mut content = Content::new(10);
        (0..10).for_each(|number| content.group(true, number, 1, &set(number as usize), ADDED));
        let delta = content.open(&table, (0, 1), &Limits::default());
        assert!(nothing().with_delta_in(&delta, &limits).unwrap_err().is_limit());
    }
}

#[test]
fn many_deltas_are_composed_in_one_pass() {
    assert_linear(2000, |n, limits| {
        let table = table(2, limits);
        let deltas: Vec<Delta> = (0..n)
            .map(|tick| {
                let mut content = Content::new(1);
                let op = if tick % 2 == 0 { ADDED } else { REMOVED };
                content.group(false, 0, 50, &[tick % 3 % 2], op);
                content.open(&table, (tick as u64, tick as u64 + 1), limits)
            })
            .collect();
        let all = Delta::compose_all(&deltas, limits).unwrap().unwrap();
        assert_eq!((all.since(), all.now()), (0, n as u64));
    });
}

#[test]
fn a_cancelled_watch_ends_it() {
    let watch = bonfire::Watch::new();
    let limits = Limits { watch: Some(watch.clone()), ..Limits::default() };
    let table = table(2, &limits);
    let mut content = Content::new(1);
    content.group(true, 0, 5, &[0, 1], ADDED);
    let delta = content.open(&table, (0, 1), &limits);
    watch.cancel();
    assert!(nothing().with_delta_in(&delta, &limits).unwrap_err().is_cancelled());
    assert!(Delta::compose_all([&delta], &limits).unwrap_err().is_cancelled());
}

//! What is different between a snapshot and a world that lives: which entities are still there and where, which are
//! gone, and which have come since. The first step of a restore, in any engine.
//!
//! A world that lives is groups of rows: tables, archetypes, vectors. Entities that are saved one after the other mostly
//! still lie so, and then a whole run of them is compared and restored at once.

use std::collections::HashMap;
use std::sync::Arc;

use super::LoadPlan;
use crate::entity::{EntityId, EntityMap, NewIds};
use crate::error::{Error, Result};
use crate::storage::Rope;

/// A world that a snapshot is restored into.
pub trait LiveWorld {
    /// How many groups of rows there are.
    fn groups(&self) -> usize;
    /// How many rows a group has.
    fn rows(&self, group: usize) -> usize;
    /// Whether a save would have rows of a group, so that those which are not in this one are [`Comparison::extra`].
    fn is_saved(&self, group: usize) -> bool;
    /// The group and the row of an entity, if it is alive. It was part of a save, whatever has become of it since.
    fn find(&self, id: EntityId) -> Option<(usize, usize)>;
    /// How many of `ids`, from the first on, are the entities of the rows from `row` on.
    fn matching(&self, group: usize, row: usize, ids: &[EntityId]) -> usize;
}

/// Saved rows that lie one after the other in the world too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "see above")]
pub struct RowRun {
    pub archetype: usize,
    pub saved_row: usize,
    pub group: usize,
    pub row: usize,
    pub len: usize,
}

/// What a restore has to do about structure.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Entities that are still there, in the order of the save.
    pub runs: Vec<RowRun>,
    /// Saved entities that are gone: archetype and row.
    pub missing: Vec<(usize, usize)>,
    /// Entities that are not in the save: group and row.
    pub extra: Vec<(usize, usize)>,
    missing_ids: Vec<EntityId>,
    saved: Arc<[Rope]>,
    entities: usize,
}

impl LoadPlan<'_, '_> {
    /// Compares the saved entities with those of a world. Fails if one is saved twice.
    pub fn compare(&self, world: &impl LiveWorld) -> Result<Comparison> {
        let saved = self.snapshot.archetypes.iter().map(|archetype| archetype.ids.clone()).collect();
        let entities = self.snapshot.entity_count();
        let mut found = Comparison { entities, saved, ..Comparison::default() };
        let mut seen: Vec<Option<Rows>> = vec![None; world.groups()];
        for (number, archetype) in self.snapshot.archetypes.iter().enumerate() {
            let ids = archetype.ids();
            let mut saved_row = 0;
            while saved_row < ids.len() {
                let Some((group, row)) = world.find(ids[saved_row]) else {
                    found.missing.push((number, saved_row));
                    found.missing_ids.push(ids[saved_row]);
                    saved_row += 1;
                    continue;
                };
                let len = world.matching(group, row, &ids[saved_row..]).max(1);
                let seen = seen[group].get_or_insert_with(|| Rows::none(world.rows(group)));
                if !seen.insert(row, len) {
                    return Err(Error::corrupt(format!("entity {} is there twice", ids[saved_row])));
                }
                found.runs.push(RowRun { archetype: number, saved_row, group, row, len });
                saved_row += len;
            }
        }
        for (group, seen) in seen.iter().enumerate().filter(|(group, _)| world.is_saved(*group)) {
            match seen {
                Some(seen) => seen.rest(|row| found.extra.push((group, row))),
                None => found.extra.extend((0..world.rows(group)).map(|row| (group, row))),
            }
        }
        Ok(found)
    }
}

impl Comparison {
    /// Whether the same entities are there.
    pub fn same_entities(&self) -> bool {
        self.missing.is_empty() && self.extra.is_empty()
    }

    /// The ids of the entities that are gone, in the order of [`Comparison::missing`].
    pub fn missing_ids(&self) -> &[EntityId] {
        &self.missing_ids
    }

    /// Every saved entity keeps its id, and those that are gone get a new one each, which may be the old one.
    pub fn entity_map(&self, new: &[EntityId]) -> Result<EntityMap> {
        if new.len() != self.missing_ids.len() {
            let missing = self.missing_ids.len();
            return Err(Error::misuse(format!(
                "{missing} entities are gone, but {} have new ids",
                new.len()
            )));
        }
        let mut changed = HashMap::with_capacity(new.len());
        for (&saved, &new) in self.missing_ids.iter().zip(new) {
            if saved.is_null() {
                return Err(Error::corrupt("an entity has the null id"));
            }
            if changed.insert(saved, new).is_some() {
                return Err(Error::corrupt(format!("entity {saved} is there twice")));
            }
        }
        Ok(EntityMap::lazy(Arc::clone(&self.saved), self.entities, NewIds::Same(changed)))
    }
}

/// Rows of a group, one bit each.
#[derive(Clone)]
struct Rows {
    words: Vec<u64>,
    len: usize,
}

impl Rows {
    fn none(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(64)], len }
    }

    /// Adds rows. Returns whether all of them are new.
    fn insert(&mut self, start: usize, len: usize) -> bool {
        let end = start + len;
        assert!(end <= self.len, "a run lies in its group");
        let mut new = true;
        let mut row = start;
        while row < end {
            let (word, bit) = (row / 64, row % 64);
            let count = (64 - bit).min(end - row);
            let mask = (u64::MAX >> (64 - count)) << bit;
            new &= self.words[word] & mask == 0;
            self.words[word] |= mask;
            row += count;
        }
        new
    }

    /// Calls `found` with the rows that were never added.
    fn rest(&self, mut found: impl FnMut(usize)) {
        for (number, &word) in self.words.iter().enumerate() {
            let mut free = !word;
            while free != 0 {
                let row = number * 64 + free.trailing_zeros() as usize;
                if row < self.len {
                    found(row);
                }
                free &= free - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::SnapshotWriter;
    use crate::{LoadOptions, Registry};

    /// Of the last group nothing is saved any more.
    struct Groups(Vec<Vec<EntityId>>);

    impl LiveWorld for Groups {
        fn groups(&self) -> usize {
            self.0.len()
        }
        fn rows(&self, group: usize) -> usize {
            self.0[group].len()
        }
        fn is_saved(&self, group: usize) -> bool {
            group + 1 < self.0.len()
        }
        fn find(&self, id: EntityId) -> Option<(usize, usize)> {
            let row = |group: &Vec<EntityId>| group.iter().position(|&other| other == id);
            self.0.iter().enumerate().find_map(|(number, group)| Some((number, row(group)?)))
        }
        fn matching(&self, group: usize, row: usize, ids: &[EntityId]) -> usize {
            self.0[group][row..].iter().zip(ids).take_while(|(a, b)| a == b).count()
        }
    }

    fn ids(numbers: impl IntoIterator<Item = u32>) -> Vec<EntityId> {
        numbers.into_iter().map(|number| EntityId::new(number, 0)).collect()
    }

    fn compare(saved: &[Vec<EntityId>], world: &Groups) -> Result<Comparison> {
        let registry = Registry::new();
        let mut writer = SnapshotWriter::new(&registry);
        let mut next = 0;
        for archetype in saved {
            writer.archetype(&ids(next..next + archetype.len() as u32))?;
            next += archetype.len() as u32;
        }
        let mut snapshot = writer.finish()?;
        // A writer refuses doubles, a file may have them.
        snapshot.archetypes.iter_mut().zip(saved).for_each(|(archetype, ids)| archetype.set_ids(ids));
        LoadPlan::new(&snapshot, &registry, LoadOptions::default())?.compare(world)
    }

    #[test]
    fn rows_that_still_lie_together_are_one_run() {
        let found = compare(&[ids(0..200), ids(300..310)], &Groups(vec![ids(300..310), ids(0..200), vec![]]))
            .unwrap();
        assert!(found.same_entities());
        let run = |archetype, group, len| RowRun { archetype, saved_row: 0, group, row: 0, len };
        assert_eq!(found.runs, [run(0, 1, 200), run(1, 0, 10)]);
    }

    #[test]
    fn what_is_gone_and_what_has_come_is_found() {
        // 2 is gone, 9 took its row; 50 and 60 have come; 3 moved to where nothing is saved.
        let world = Groups(vec![ids([0, 1, 9, 4, 50]), ids([60]), ids([70, 3])]);
        let found = compare(&[ids([0, 1, 2, 3, 4])], &world).unwrap();
        assert_eq!(found.missing, [(0, 2)]);
        assert_eq!(found.extra, [(0, 2), (0, 4), (1, 0)]);
        let runs: Vec<_> =
            found.runs.iter().map(|run| (run.saved_row, run.group, run.row, run.len)).collect();
        assert_eq!(runs, [(0, 0, 0, 2), (3, 2, 1, 1), (4, 0, 3, 1)]);

        let map = found.entity_map(&[EntityId::new(77, 1)]).unwrap();
        assert_eq!(map.get(EntityId::new(2, 0)), Some(EntityId::new(77, 1)));
        assert_eq!(map.get(EntityId::new(4, 0)), Some(EntityId::new(4, 0)));
        assert_eq!(map.get(EntityId::new(50, 0)), None);
        assert_eq!((map.len(), map.iter().count()), (5, 5));
        assert!(map.iter().any(|pair| pair == (EntityId::new(2, 0), EntityId::new(77, 1))));
        assert!(found.entity_map(&[]).unwrap_err().is_misuse());
    }

    #[test]
    fn doubles_and_null_are_refused() {
        let world = Groups(vec![ids(0..3), vec![]]);
        assert!(compare(&[ids([0, 1]), ids([1])], &world).unwrap_err().is_corrupt());
        let gone = compare(&[ids([7, 7])], &world).unwrap();
        assert!(gone.entity_map(&ids([8, 9])).unwrap_err().is_corrupt());
        let null = compare(&[vec![EntityId::NULL]], &world).unwrap();
        assert!(null.entity_map(&ids([8])).unwrap_err().is_corrupt());
    }
}

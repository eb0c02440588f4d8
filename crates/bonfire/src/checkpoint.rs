//! The last few captures of a world, without an engine: a ring of snapshots by tick.

use std::collections::VecDeque;

use crate::entity::WorldNumber;
use crate::error::{Error, Result};
use crate::snapshot::Snapshot;

/// The last captures of a world, by tick, oldest first. `Extra` is what a front end keeps beside a snapshot.
#[derive(Clone, Debug)]
pub struct CheckpointRing<Extra> {
    checkpoints: VecDeque<Checkpoint<Extra>>,
    max: usize,
}

/// A capture of a world, and what its front end keeps beside it.
#[derive(Clone, Debug)]
pub struct Checkpoint<Extra> {
    tick: u64,
    /// The capture.
    pub snapshot: Snapshot,
    /// The front end's own.
    pub extra: Extra,
}

impl<Extra> CheckpointRing<Extra> {
    /// Makes a ring that keeps so many; at least one.
    pub fn new(max: usize) -> Self {
        Self { checkpoints: VecDeque::new(), max: max.max(1) }
    }

    /// Adds a checkpoint. Those from its tick on are forgotten, and the oldest if the ring is full.
    pub fn push(&mut self, tick: u64, snapshot: Snapshot, extra: Extra) {
        while self.checkpoints.pop_back_if(|last| last.tick >= tick).is_some() {}
        if self.checkpoints.len() == self.max {
            self.checkpoints.pop_front();
        }
        self.checkpoints.push_back(Checkpoint { tick, snapshot, extra });
    }

    fn index_of(&self, tick: u64) -> Option<usize> {
        self.checkpoints.binary_search_by_key(&tick, |checkpoint| checkpoint.tick).ok()
    }

    /// Returns the checkpoint of a tick, if it is kept.
    pub fn get(&self, tick: u64) -> Option<&Checkpoint<Extra>> {
        self.index_of(tick).map(|index| &self.checkpoints[index])
    }

    /// Returns the checkpoint of a tick, or an error that says which are kept.
    pub fn require(&self, tick: u64) -> Result<&Checkpoint<Extra>> {
        self.get(tick).ok_or_else(|| {
            let kept = self.ticks().next().zip(self.ticks().last());
            let kept = kept.map_or("none is".to_owned(), |(first, last)| format!("{first} to {last} are"));
            Error::misuse(format!("there is no checkpoint of tick {tick}: {kept} kept"))
        })
    }

    /// Forgets the checkpoints after a tick: they are a future that will not be.
    pub fn forget_after(&mut self, tick: u64) {
        while self.checkpoints.pop_back_if(|last| last.tick > tick).is_some() {}
    }

    /// Says that the ids of captures of one world mean the same entities in another: for an engine whose ids go back in time,
    /// so that a world gets another number.
    pub fn renumber(&mut self, from: WorldNumber, to: WorldNumber) {
        let own = self.checkpoints.iter_mut().filter(|checkpoint| checkpoint.snapshot.world == Some(from));
        own.for_each(|checkpoint| checkpoint.snapshot.world = Some(to));
    }

    /// Returns the ticks that are kept, oldest first.
    pub fn ticks(&self) -> impl DoubleEndedIterator<Item = u64> + '_ {
        self.checkpoints.iter().map(|checkpoint| checkpoint.tick)
    }

    /// Returns the number of checkpoints.
    pub fn len(&self) -> usize {
        self.checkpoints.len()
    }

    /// Returns true if there are no checkpoints.
    pub fn is_empty(&self) -> bool {
        self.checkpoints.is_empty()
    }

    /// Returns the memory of all of them together, in bytes: what they share counts once.
    pub fn memory_bytes(&self) -> usize {
        Snapshot::memory_bytes(self.checkpoints.iter().map(|checkpoint| &checkpoint.snapshot))
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.checkpoints.clear();
    }
}

/// The calls of a ring that are the same in every front end. The struct needs the fields `ring` and `captures`, and the latter
/// a method `forget`.
#[doc(hidden)]
#[macro_export]
macro_rules! __checkpoints_methods {
    () => {
        /// Returns the ticks that the world can go back to, oldest first.
        pub fn ticks(&self) -> impl DoubleEndedIterator<Item = u64> + '_ {
            self.ring.ticks()
        }
        /// Returns a checkpoint, for saving or comparing it.
        pub fn get(&self, tick: u64) -> Option<&$crate::Snapshot> {
            self.ring.get(tick).map(|checkpoint| &checkpoint.snapshot)
        }
        /// Returns the number of checkpoints.
        pub fn len(&self) -> usize {
            self.ring.len()
        }
        /// Returns true if there are no checkpoints.
        pub fn is_empty(&self) -> bool {
            self.ring.is_empty()
        }
        /// Returns the memory of all of them together, in bytes: what they share counts once.
        pub fn memory_bytes(&self) -> usize {
            self.ring.memory_bytes()
        }
        /// Forgets all of them.
        pub fn clear(&mut self) {
            self.ring.clear();
            self.captures.forget();
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept_and_ticks_grow() {
        let mut ring = CheckpointRing::new(3);
        assert!(ring.require(1).unwrap_err().to_string().contains("none is kept"));
        (1..=5).for_each(|tick| ring.push(tick * 10, Snapshot::default(), tick));
        assert_eq!(ring.ticks().collect::<Vec<_>>(), [30, 40, 50]);
        assert_eq!(ring.require(40).unwrap().extra, 4);
        assert!(ring.get(35).is_none());
        assert!(ring.require(20).unwrap_err().to_string().contains("tick 20: 30 to 50 are kept"));
        ring.push(40, Snapshot::default(), 6);
        assert_eq!((ring.len(), ring.get(40).unwrap().extra), (2, 6), "50 is not there any more");
        ring.forget_after(30);
        assert_eq!(ring.ticks().collect::<Vec<_>>(), [30]);
        ring.clear();
        assert!(ring.is_empty() && CheckpointRing::<()>::new(0).max == 1);
    }

    #[test]
    fn only_captures_of_the_world_get_its_new_number() {
        let [old, new, other] = [0; 3].map(|_| WorldNumber::new());
        let mut ring = CheckpointRing::new(2);
        for (tick, world) in [(1, old), (2, other)] {
            ring.push(tick, Snapshot { world: Some(world), ..Snapshot::default() }, ());
        }
        ring.renumber(old, new);
        let worlds = ring.checkpoints.iter().map(|checkpoint| checkpoint.snapshot.world().unwrap());
        assert_eq!(worlds.collect::<Vec<_>>(), [new, other]);
    }
}

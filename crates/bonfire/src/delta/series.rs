//! The parts of a delta capture that do not depend on the engine: the contents of its deltas, and their ticks.

use super::{Delta, DeltaSchema};
use crate::error::Result;
use crate::snapshot::Snapshot;

/// The entities and components that the deltas of a capture are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeltaContents {
    /// Everything that is saved.
    Saves,
    /// Everything that is replicated, without entities and resources that mirror another world.
    Replicated,
    /// Everything that is replicated, also entities and resources that mirror another world.
    Relayed,
    /// Only entities and resources that mirror another world.
    Mirror,
}

impl DeltaContents {
    /// Adds entities that mirror another world to those that are replicated.
    pub fn with_mirrored(self) -> Self {
        if self == Self::Replicated { Self::Relayed } else { self }
    }
}

/// The ticks of deltas that follow each other, and the capture that the next one is compared with.
#[derive(Clone, Debug, Default)]
pub struct DeltaSeries {
    last: Option<Snapshot>,
    tick: u64,
}

impl DeltaSeries {
    /// The tick of the last delta; 0 before the first.
    pub fn tick(&self) -> u64 {
        self.tick
    }

    /// Sets the tick of the last delta, if it is later than the one that is known.
    pub fn advance_to(&mut self, tick: u64) {
        self.tick = self.tick.max(tick);
    }

    /// Forgets the last capture: the next comparison returns everything.
    pub fn forget(&mut self) {
        self.last = None;
    }

    /// Returns everything in a capture as a delta of the current tick. The next delta is still one since the last.
    pub fn baseline(&self, schema: &DeltaSchema, snapshot: &Snapshot) -> Result<Delta> {
        Delta::whole(schema, snapshot, self.tick)
    }

    /// Returns the changes from the last capture to this one, or everything if there is none. Keeps this capture for the
    /// next call. An error leaves the series as it was.
    pub fn compare(&mut self, schema: &DeltaSchema, snapshot: Snapshot) -> Result<Delta> {
        let now = self.tick + 1;
        let delta = match &self.last {
            Some(last) => Delta::between(schema, last, &snapshot, self.tick, now)?,
            None => Delta::whole(schema, &snapshot, now)?,
        };
        (self.last, self.tick) = (Some(snapshot), now);
        Ok(delta)
    }
}

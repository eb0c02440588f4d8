//! The parts of a delta capture that do not depend on the engine: the contents of its deltas, and their ticks.

use std::collections::HashSet;

use super::left_out::CellPlace;
use super::{Delta, DeltaSchema};
use crate::entity::EntityId;
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
    /// Components and resources that the world has, mirrors have, and the last capture left out.
    left_out: HashSet<CellPlace>,
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
        self.left_out.clear();
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

    /// As [`compare`](Self::compare), for mirrors: a value that the capture left out is not told as removed while the world
    /// has it. See [`Delta::keeping_left_out`] for `has`.
    pub fn compare_for_mirrors(
        &mut self,
        schema: &DeltaSchema,
        snapshot: Snapshot,
        has: impl Fn(usize, Option<EntityId>) -> bool,
    ) -> Result<Delta> {
        let is_first = self.last.is_none();
        let delta = self.compare(schema, snapshot)?;
        if is_first {
            return Ok(delta);
        }
        let (mut delta, left_out) = delta.keep_left_out(schema, &has)?;
        let is_gone = |place: &CellPlace| !has(schema.registered(place.0), place.1);
        if !self.left_out.is_empty() {
            let despawned: HashSet<EntityId> = delta.despawned.iter().copied().collect();
            self.left_out.retain(|(_, entity)| entity.is_none_or(|id| !despawned.contains(&id)));
        }
        // Neither capture has them, so the comparison does not find that they are removed now.
        let removed: HashSet<CellPlace> = self.left_out.extract_if(is_gone).collect();
        if !removed.is_empty() {
            delta = delta.with_removals(&removed)?;
        }
        self.left_out.extend(left_out);
        Ok(delta)
    }
}

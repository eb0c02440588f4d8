//! Slots and pins: each save of a slot names the pin of its moment, and pins that no save names are removed.
//!
//! A pin is durable before the save that names it. So a crash in between leaves a pin without a save, which the next
//! [`collect`](SlotPins::collect) removes, and never a save without its pin.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bonfire::engine::MOMENT_KEY;
use bonfire::{DataEntry, Result, Snapshot, Value};
use bonfire_store::{Slots, Wait};

use super::moment::BEFORE_RETURN;
use crate::ChunkWorld;

/// Pins of slots begin so.
const PREFIX: &str = "slot ";

/// The pins of a chunk world that belong to saves in slots. Clones are the same.
///
/// A chunk world belongs to one store of slots. Profiles of the store share it, or have worlds of their own.
#[derive(Clone, Debug)]
pub struct SlotPins {
    world: Arc<Mutex<ChunkWorld>>,
    /// Pins whose saves are on their way.
    in_use: Arc<Mutex<BTreeSet<String>>>,
    numbers: Arc<AtomicU64>,
}

/// The slot that a pin belongs to.
struct PinOwner {
    profile: String,
    slot: String,
    /// The pin of the whole save whose journal this moment was appended to. Empty for the pin of a whole save.
    base: String,
}

impl SlotPins {
    /// Looks after the pins of a world.
    pub fn new(world: ChunkWorld) -> Self {
        Self { world: Arc::new(Mutex::new(world)), in_use: Arc::default(), numbers: Arc::default() }
    }

    /// Goes on with a world that was opened again: see [`ChunkStream::reopen`](super::ChunkStream::reopen).
    pub fn reopen(&self, world: ChunkWorld) {
        *self.world.lock().unwrap_or_else(PoisonError::into_inner) = world;
    }

    fn world(&self) -> ChunkWorld {
        self.world.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes up the name of a pin for a save of a slot. It is not removed before [`end`](Self::end).
    pub fn begin(&self, slot: &str) -> String {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        // Each pin is a save of the world, so no pin of an earlier session has this number.
        let name = format!("{PREFIX}{slot} {}.{number}", self.world().info().generation);
        self.in_use().insert(name.clone());
        name
    }

    /// The save of this pin is durable, or has failed: from now on the pin stays if a save names it.
    pub fn end(&self, pin: &str) {
        self.in_use().remove(pin);
    }

    /// Makes the metadata of a pin. `base` is the pin of the whole save, for one that is appended to its journal.
    pub fn metadata(&self, slots: &Slots, slot: &str, base: Option<&str>) -> Vec<u8> {
        let profile = slots.profile_name().unwrap_or_default();
        [profile, slot, base.unwrap_or_default()].join("\n").into_bytes()
    }

    /// Removes the pins that no save names, and returns how many. It reads the heads of all saves, so call it where it may
    /// wait: when the slots are opened, and after saves were written or deleted.
    ///
    /// Pins of a slot with a save whose head cannot be read stay. That save may come from another slot by a new name, so pins
    /// of slots that are gone stay, too.
    pub fn collect(&self, slots: &Slots) -> Result<usize> {
        // Those that come meanwhile belong to saves that are not listed.
        let world = self.world();
        let pins = world.pins();
        let in_use = self.in_use().clone();
        let candidates =
            pins.iter().filter(|pin| pin.name.starts_with(PREFIX) && !in_use.contains(&pin.name));
        let owned = candidates.filter_map(|pin| Some((&pin.name, PinOwner::read(&pin.metadata)?)));
        let profile = slots.profile_name().unwrap_or_default();
        let mut left: Vec<_> = owned.filter(|(_, owner)| owner.profile == profile).collect();
        if left.is_empty() {
            return Ok(0);
        }
        let saves = slots.all_saves().wait()?;
        let (mut named, mut unknown) = (BTreeSet::new(), BTreeSet::new());
        let slots: BTreeSet<String> = saves.iter().map(|save| save.slot.clone()).collect();
        for save in saves {
            match (save.moment, save.problem) {
                (Some(pin), _) => _ = named.insert(pin),
                (None, Some(_)) => _ = unknown.insert(save.slot),
                (None, None) => {}
            }
        }
        left.retain(|(name, owner)| {
            let base = if owner.base.is_empty() { *name } else { &owner.base };
            let may_be_unknown =
                unknown.contains(&owner.slot) || !unknown.is_empty() && !slots.contains(&owner.slot);
            !named.contains(base) && !may_be_unknown
        });
        let mut removed = 0;
        for (name, _) in left {
            removed += usize::from(world.unpin(name)?);
        }
        if removed > 0 {
            tracing::debug!(removed, "pins of a chunk world that no save names");
        }
        Ok(removed)
    }

    /// Removes what an interrupted return has left: call it once, when the world was opened.
    pub fn forget_interrupted_return(&self) -> Result<bool> {
        self.world().unpin(BEFORE_RETURN)
    }

    /// Returns the pin that a save belongs to: of its last journal entry, or of the save itself.
    pub fn of_save(snapshot: &Snapshot) -> Result<Option<String>> {
        let entry = snapshot.data().iter().rfind(|entry| entry.key() == MOMENT_KEY);
        if let Some(entry) = entry {
            return entry.get().map(Some);
        }
        let found = snapshot.metadata().iter().find(|(name, _)| name == MOMENT_KEY);
        Ok(found.and_then(|(_, value)| match value {
            Value::Text(pin) => Some(pin.clone()),
            _ => None,
        }))
    }

    /// The data entry by which a delta of a journal names its moment.
    pub fn data_entry(pin: &str) -> Result<DataEntry> {
        DataEntry::new(MOMENT_KEY, &pin.to_owned())
    }

    fn in_use(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PinOwner {
    fn read(metadata: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(metadata).ok()?.splitn(3, '\n').map(str::to_owned);
        Some(Self { profile: parts.next()?, slot: parts.next()?, base: parts.next()? })
    }
}

//! What decoding a value may need besides its bytes: the id map, the policies, the budget.

mod change;
mod save;

pub use self::change::SchemaChange;
pub use self::save::SaveContext;
pub(crate) use self::save::Sessions;

use std::any::Any;
use std::cell::{Cell, RefCell};

use crate::entity::{EntityId, EntityMap};
use crate::error::{Error, Result};
use crate::limits::Limits;

/// The treatment of a stale reference: one whose target was not saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Dangling {
    /// Removes it from lists and sets. Maps lose entries whose key or value it is. Elsewhere it becomes null, as with
    /// [`Null`](Self::Null).
    #[default]
    Remove,
    /// Makes it null: `None` in an option, [`EntityId::NULL`] elsewhere. Lists keep their length. Stale keys of a map are
    /// one key.
    Null,
    /// The component that holds it is left out on that entity.
    DropComponent,
    /// The load is refused.
    Refuse,
}

/// What a load gives to every value that it decodes.
///
/// Custom codecs and adapters see it too: [`LoadContext::world`] is the world that is being loaded into, as the front
/// end's type.
pub struct LoadContext<'a> {
    pub(crate) limits: &'a Limits,
    entities: Option<&'a EntityMap>,
    alive: Option<&'a dyn Fn(EntityId) -> bool>,
    outside: Option<&'a EntityMap>,
    dangling: Dangling,
    world: Option<&'a dyn Any>,
    /// Somebody asked for the world while there was none.
    missed_world: Cell<bool>,
    memory_left: Cell<u64>,
    empty_left: Cell<u64>,
    dangling_count: Cell<u64>,
    dangling_in_row: Cell<bool>,
    /// What was different about data that was read by name, by its key.
    data_changes: RefCell<Vec<(String, SchemaChange)>>,
    pub(crate) sessions: Sessions,
}

impl<'a> LoadContext<'a> {
    /// A context that leaves references as they were saved.
    pub fn new(limits: &'a Limits) -> Self {
        Self {
            limits,
            entities: None,
            alive: None,
            outside: None,
            dangling: Dangling::default(),
            world: None,
            missed_world: Cell::new(false),
            memory_left: Cell::new(limits.memory_bytes_max),
            empty_left: Cell::new(limits.empty_elements_max),
            dangling_count: Cell::new(0),
            dangling_in_row: Cell::new(false),
            data_changes: RefCell::default(),
            sessions: Sessions::default(),
        }
    }

    /// References are looked up in `map`; what is not there is treated as `dangling` says.
    pub fn entities(mut self, map: &'a EntityMap, dangling: Dangling) -> Self {
        self.entities = Some(map);
        self.dangling = dangling;
        self
    }

    /// References to entities that are not in the save, but for which this is true, stay as they are: the world that is
    /// restored has them.
    pub fn alive(mut self, alive: &'a dyn Fn(EntityId) -> bool) -> Self {
        self.alive = Some(alive);
        self
    }

    /// References to entities that are not in the save, but in this map, become what it says. Null stands for an entity that
    /// can be found only where the world is: then what refers to it counts as having asked for the world.
    pub fn outside(mut self, outside: &'a EntityMap) -> Self {
        self.outside = Some(outside).filter(|outside| !outside.is_empty());
        self
    }

    /// The world that custom codecs may look at.
    pub fn with_world(mut self, world: &'a dyn Any) -> Self {
        self.world = Some(world);
        self
    }

    /// The world that is being loaded into, if it is a `W`. It is not changed yet: nothing is, before the commit.
    ///
    /// A load that is prepared on another thread has no world there. What asks for it is decoded again when there is one
    /// (see [`LoadPlan::stage_without_world`](crate::engine::LoadPlan::stage_without_world)), so a codec may fail or go on without, as it likes.
    pub fn world<W: 'static>(&self) -> Option<&'a W> {
        if self.world.is_none() {
            self.missed_world.set(true);
        }
        self.world?.downcast_ref()
    }

    /// Whether somebody asked for the world since the last call, and there was none.
    pub(crate) fn take_missed_world(&self) -> bool {
        self.missed_world.replace(false)
    }

    /// What a saved reference became.
    pub fn resolve(&self, saved: EntityId) -> Result<EntityId> {
        let Some(map) = self.entities else { return Ok(saved) };
        if saved.is_null() {
            return Ok(saved);
        }
        match map.get(saved) {
            Some(new) => Ok(new),
            None if self.alive.is_some_and(|alive| alive(saved)) => Ok(saved),
            None if let Some(new) = self.outside.and_then(|outside| outside.get(saved)) => {
                if new.is_null() {
                    self.missed_world.set(true);
                }
                Ok(new)
            }
            None if self.dangling == Dangling::Refuse => {
                Err(Error::dangling(format!("refers to entity {saved}, which is not in the save")))
            }
            None => {
                self.dangling_count.set(self.dangling_count.get() + 1);
                self.dangling_in_row.set(true);
                Ok(EntityId::NULL)
            }
        }
    }

    pub(crate) fn note_changes(&self, key: &str, changes: impl IntoIterator<Item = SchemaChange>) {
        let changes = changes.into_iter().map(|change| (key.to_owned(), change));
        self.data_changes.borrow_mut().extend(changes);
    }

    pub(crate) fn take_changes(&self) -> Vec<(String, SchemaChange)> {
        self.data_changes.take()
    }

    /// How many references have dangled. Decoders of collections compare it with the count after an element.
    #[inline]
    pub(crate) fn dangling_so_far(&self) -> u64 {
        self.dangling_count.get()
    }

    /// Returns true if a collection must drop an element that is a null reference: it became null since the count was
    /// `before`.
    #[inline]
    pub(crate) fn removes_element(&self, before: u64) -> bool {
        self.dangling == Dangling::Remove && self.dangling_count.get() > before
    }

    /// Whether a reference of the row that is being decoded dangles.
    pub(crate) fn has_dangling(&self) -> bool {
        self.dangling_in_row.get()
    }

    /// Whether the row decoded last must go because a reference in it dangles.
    pub(crate) fn row_is_dropped(&self) -> bool {
        self.dangling_in_row.replace(false) && self.dangling == Dangling::DropComponent
    }

    pub(crate) fn take_dangling_count(&self) -> u64 {
        self.dangling_in_row.set(false);
        self.dangling_count.replace(0)
    }

    /// What may still be allocated.
    pub(crate) fn budget(&self) -> Budget {
        Budget { memory_left: self.memory_left.get(), empty_left: self.empty_left.get() }
    }

    pub(crate) fn set_budget(&self, budget: Budget) {
        self.memory_left.set(budget.memory_left);
        self.empty_left.set(budget.empty_left);
    }

    /// Accounts for memory that is about to be allocated for decoded values.
    #[inline]
    pub(crate) fn claim_memory(&self, count: usize, bytes_each: usize) -> Result<()> {
        let wanted = (count as u64).checked_mul(bytes_each as u64);
        match wanted.and_then(|wanted| self.memory_left.get().checked_sub(wanted)) {
            Some(left) => {
                self.memory_left.set(left);
                Ok(())
            }
            None => Err(Error::limit(format!(
                "decoded values need more than the {} bytes that the limits allow",
                self.limits.memory_bytes_max
            ))),
        }
    }

    /// Allows for rows that take no bytes themselves, such as tags with type parameters.
    pub(crate) fn grant_rows(&self, rows: usize) {
        self.empty_left.set(self.empty_left.get().saturating_add((rows as u64).saturating_mul(8)));
    }

    pub(crate) fn claim_empty(&self, count: u64) -> Result<()> {
        match self.empty_left.get().checked_sub(count) {
            Some(left) => {
                self.empty_left.set(left);
                Ok(())
            }
            None => {
                Err(Error::limit(format!("{count} elements without bytes are more than the limits allow")))
            }
        }
    }
}

/// What decoding may still cost.
#[derive(Clone, Copy)]
pub(crate) struct Budget {
    memory_left: u64,
    empty_left: u64,
}

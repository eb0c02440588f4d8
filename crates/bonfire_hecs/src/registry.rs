//! The components that a game saves.

use std::any::{Any, TypeId, type_name};
use std::sync::Arc;

use bonfire::engine::{ArchetypeWriter, SaveScope, StagedColumn};
use bonfire::{Descriptor, Error, Persist, Registry, Result};
use hecs::{Archetype, ColumnBatchType, Component, Entity, World};

use crate::column::{self, ColumnTarget, NewComponents};

/// Entities with this component are saved in [`SaveScope::Marked`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Persist)]
#[persist(crate = bonfire, key = "bonfire.saved")]
pub struct Saved;

/// The core's registry, and the functions for columns of each component.
pub(crate) struct ComponentRegistry {
    pub(crate) core: Registry,
    pub(crate) entries: Vec<ComponentEntry>,
    pub(crate) scope: SaveScope,
    pub(crate) layer: Option<Layer>,
}

/// The functions for columns of one component.
pub(crate) struct ComponentEntry {
    /// Saved where it is met, but no reason to save an entity.
    pub(crate) incidental: bool,
    pub(crate) add_to: fn(&mut ColumnBatchType),
    pub(crate) write: fn(&mut ArchetypeWriter<'_, '_>, &Archetype, Option<&[u32]>) -> Result<()>,
    pub(crate) move_to: fn(StagedColumn<'_>, &mut ColumnTarget<'_>),
    pub(crate) insert: fn(StagedColumn<'_>, &mut World, &[Option<Entity>]),
    pub(crate) update: fn(StagedColumn<'_>, &mut World, &[Option<Entity>], &mut NewComponents),
    pub(crate) pointer: fn(&World, Entity) -> Option<*const u8>,
    pub(crate) remove: fn(&mut World, Entity),
    pub(crate) resource: fn(StagedColumn<'_>) -> Option<Box<dyn Any + Send + Sync>>,
}

impl ComponentEntry {
    fn of<T: Component>() -> Self {
        Self {
            incidental: false,
            add_to: |types| _ = types.add::<T>(),
            write: column::write_column::<T>,
            move_to: column::move_column::<T>,
            insert: column::insert_column::<T>,
            update: column::update_column::<T>,
            pointer: |world, entity| Some(std::ptr::from_ref(&*world.get::<&T>(entity).ok()?).cast()),
            remove: |world, entity| _ = world.remove_one::<T>(entity),
            resource: |column| Some(Box::new(column.into_values::<T>().ok()?.next()?)),
        }
    }
}

/// Reads the layers of the rows of an archetype, if it has the component that tells them.
pub(crate) type Layer = Arc<dyn Fn(&Archetype) -> Option<Vec<u8>> + Send + Sync>;

/// Empty, for everything that has a registered component: a hecs world holds what the game spawned and nothing else.
impl Default for ComponentRegistry {
    fn default() -> Self {
        Self { core: Registry::default(), entries: Vec::new(), scope: SaveScope::Persisted, layer: None }
    }
}

impl ComponentRegistry {
    /// Registers a component. `T` must be the descriptor's type.
    pub(crate) fn add<T: Component>(&mut self, descriptor: Descriptor) -> Result<usize> {
        if descriptor.type_id() != TypeId::of::<T>() {
            let (key, holds, given) = (descriptor.key(), descriptor.type_name(), type_name::<T>());
            return Err(Error::misuse(format!(
                "the descriptor of `{key}` is for `{holds}`, not for `{given}`"
            )));
        }
        let number = self.core.add(descriptor)?;
        if number == self.entries.len() {
            self.entries.push(ComponentEntry::of::<T>());
        }
        Ok(number)
    }

    /// The number of a component type, or an error that says what to do.
    pub(crate) fn require<T: 'static>(&self) -> Result<usize> {
        self.core.index_of::<T>().ok_or_else(|| {
            let name = type_name::<T>();
            Error::misuse(format!("`{name}` is not registered: call `persist::<{name}>()` first"))
        })
    }

    /// Returns true if a component is a reason to save the entities that have it.
    pub(crate) fn is_reason(&self, number: usize) -> bool {
        self.scope == SaveScope::Persisted && !self.entries[number].incidental
    }

    /// Returns true if entities with these columns would not be part of the next save: they came from a save that was made
    /// without marks, or this build does not know their components. They get the mark.
    pub(crate) fn needs_mark(&self, columns: &[(usize, StagedColumn<'_>)]) -> bool {
        !columns.iter().any(|(number, column)| column.holds::<Saved>() || self.is_reason(*number))
    }

    /// Returns true if a restore removes a component from entities that did not have it: not if it is never saved, and not
    /// if it is the mark that makes them part of saves.
    pub(crate) fn is_restored(&self, number: usize) -> bool {
        let is_mark = self.scope == SaveScope::Marked && self.core.index_of::<Saved>() == Some(number);
        !self.core.descriptors()[number].is_transient() && !is_mark
    }
}

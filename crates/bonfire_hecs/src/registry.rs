//! The components that a game saves.

use std::any::{Any, TypeId, type_name};
use std::sync::Arc;

use bonfire::engine::{ArchetypeWriter, SaveScope, StagedColumn};
use bonfire::{Descriptor, Error, Registry, Result};
use hecs::{Archetype, ColumnBatchType, Component, Entity, World};

use crate::column::{self, ColumnTarget, NewComponents};
use crate::mark::{Mirrored, Replicated, Saved};

/// The core's registry, and the functions for columns of each component.
pub(crate) struct ComponentRegistry {
    pub(crate) core: Registry,
    pub(crate) entries: Vec<ComponentEntry>,
    pub(crate) scope: SaveScope,
    pub(crate) layer: Option<Layer>,
    /// Returns true if the entities of an archetype have the mark that makes them part of it.
    pub(crate) has_mark: fn(&Archetype) -> bool,
}

/// The functions for columns of one component.
#[derive(Clone)]
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
        Self {
            core: Registry::default(),
            entries: Vec::new(),
            scope: SaveScope::Persisted,
            layer: None,
            has_mark: Archetype::has::<Saved>,
        }
    }
}

impl ComponentRegistry {
    /// A registry of what is replicated. Mirrored entities belong to it, for relays and for comparisons.
    pub(crate) fn of_replication() -> Self {
        let has_mark = |archetype: &Archetype| archetype.has::<Replicated>() || archetype.has::<Mirrored>();
        Self { has_mark, ..Self::default() }
    }

    /// Takes over a component from another registry. One of the same type stays as it is.
    pub(crate) fn add_from(&mut self, other: &Self, number: usize) -> Result<()> {
        let descriptor = &other.core.descriptors()[number];
        if self.core.index_of_type(descriptor.type_id()).is_none() {
            self.core.add(descriptor.clone())?;
            self.entries.push(other.entries[number].clone());
        }
        Ok(())
    }

    /// Takes over all components from another registry that are saved, without the mark of saves.
    pub(crate) fn add_all_from(&mut self, other: &Self) -> Result<()> {
        let mark = other.core.index_of::<Saved>();
        for (number, descriptor) in other.core.descriptors().iter().enumerate() {
            if mark != Some(number) && !descriptor.is_transient() {
                self.add_from(other, number)?;
            }
        }
        Ok(())
    }

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

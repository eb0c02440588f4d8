//! A saved world that a migration may change before anything is spawned: whole components, values of entities, resources and
//! data. The snapshot that it came from is not touched, so a migration that fails has changed nothing.
//!
//! Components that nobody asks for stay as they are, columns and all. Those that are asked for are taken apart into one
//! value per entity and put together again at the end.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;

use crate::column::{ColumnKind, Component, column_from, dense_rows};
use crate::context::{LoadContext, SchemaChange};
use crate::convert::decode_by_name;
use crate::descriptor::Keyed;
use crate::entity::EntityId;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::persist::Persist;
use crate::row::RowLayout;
use crate::schema::Schema;
use crate::snapshot::carry::CarryKind;
use crate::snapshot::{Archetype, DataEntry, Snapshot};
use crate::wire::Writer;

/// A saved world, open for changes.
///
/// ```
/// # use bonfire::*;
/// /// What version 3 of the game had.
/// #[derive(Persist)]
/// #[persist(key = "game.body")]
/// struct Body { mass: f32, health: f32 }
///
/// #[derive(Persist)]
/// #[persist(key = "game.mass")]
/// struct Mass(f32);
/// #[derive(Persist)]
/// #[persist(key = "game.health")]
/// struct Health(f32);
///
/// # let mut registry = Registry::new();
/// registry.track("game", 4)?;
/// registry.migration("game", 3, 4, |world| {
///     for entity in world.with(Body::KEY)? {
///         if let Some(body) = world.take::<Body>(entity, Body::KEY)? {
///             world.insert(entity, &Mass(body.mass))?;
///             world.insert(entity, &Health(body.health))?;
///         }
///     }
///     world.rename("game.hp_bar", "game.health_bar")
/// })?;
/// # Ok::<(), bonfire::Error>(())
/// ```
pub struct WorldEdit {
    snapshot: Snapshot,
    limits: Limits,
    /// Components that were asked for, by key.
    tables: BTreeMap<String, ComponentRows>,
    spawned: Vec<EntityId>,
    despawned: HashSet<EntityId>,
    entities: HashSet<EntityId>,
    next_index: u64,
    /// Fields that values had and the types that they were read as do not have, by key.
    unread: BTreeMap<String, BTreeSet<String>>,
    /// Those of them that are gone, because the values were taken away or replaced.
    dropped: BTreeSet<(String, String)>,
}

/// A component taken apart.
#[derive(Default)]
struct ComponentRows {
    /// All schemas that rows of it have.
    forms: Vec<SavedForm>,
    /// By entity, or null for a resource: which form, and the encoded value.
    rows: HashMap<EntityId, (usize, Bytes)>,
}

#[derive(Clone)]
struct SavedForm {
    version: u32,
    schema: Arc<Schema>,
}

impl WorldEdit {
    pub(super) fn new(snapshot: Snapshot, limits: &Limits) -> Self {
        let entities: HashSet<EntityId> = snapshot.entities().into_iter().collect();
        let used = entities.iter().map(|id| u64::from(id.index()) + 1).max().unwrap_or(0);
        let next = snapshot.next_entity_id;
        Self {
            snapshot,
            limits: limits.clone(),
            tables: BTreeMap::new(),
            spawned: Vec::new(),
            despawned: HashSet::new(),
            entities,
            next_index: used.max(next),
            unread: BTreeMap::new(),
            dropped: BTreeSet::new(),
        }
    }

    /// The keys of all components and resources.
    pub fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.snapshot.components().iter().map(|c| c.key.clone()).collect();
        keys.retain(|key| !self.tables.contains_key(key));
        keys.extend(
            self.tables.iter().filter(|(_, table)| !table.rows.is_empty()).map(|(key, _)| key.clone()),
        );
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// All entities.
    pub fn entities(&self) -> Vec<EntityId> {
        let saved = self.snapshot.entities().into_iter().filter(|id| !self.despawned.contains(id));
        saved.chain(self.spawned.iter().copied()).collect()
    }

    /// All entities that have the component with this key, in the order of the save.
    pub fn with(&mut self, key: &str) -> Result<Vec<EntityId>> {
        self.table(key)?;
        let rows = &self.tables[key].rows;
        Ok(self.entities().into_iter().filter(|id| rows.contains_key(id)).collect())
    }

    /// Gives a component another key.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        if from == to {
            return Ok(());
        }
        self.table(to)?;
        self.table(from)?;
        if let Some(id) = self.tables[from].rows.keys().find(|id| self.tables[to].rows.contains_key(id)) {
            let what = if id.is_null() {
                "there is such a resource".to_owned()
            } else {
                format!("entity {id} has it")
            };
            return Err(Error::schema(format!("{what} already, so `{from}` cannot become it")).in_key(to));
        }
        let table = self.tables.get_mut(from).map(std::mem::take).unwrap_or_default();
        let target = self.tables.entry(to.to_owned()).or_default();
        let first = target.forms.len();
        target.forms.extend(table.forms);
        target.rows.extend(table.rows.into_iter().map(|(id, (form, bytes))| (id, (first + form, bytes))));
        Ok(())
    }

    /// Takes a component away from all entities, or a resource from the world. Returns how many there were.
    pub fn remove_all(&mut self, key: &str) -> Result<usize> {
        self.table(key)?;
        let rows = self.tables.get_mut(key).map(|table| std::mem::take(&mut table.rows));
        Ok(rows.map_or(0, |rows| rows.len()))
    }

    /// A component of an entity as a `T`, by name. `T` may be [`Value`](crate::Value).
    ///
    /// Fields that `T` does not have are lost if the value is taken away or replaced by another type; then
    /// [`LoadReport::migration_changes`](crate::LoadReport::migration_changes) names them.
    pub fn get<T: Persist>(&mut self, entity: EntityId, key: &str) -> Result<Option<T>> {
        self.table(key)?;
        let table = &self.tables[key];
        let Some((form, bytes)) = table.rows.get(&entity) else { return Ok(None) };
        let context = LoadContext::new(&self.limits);
        let value = decode_by_name(key, &table.forms[*form].schema, bytes, &context);
        for (key, change) in context.take_changes() {
            if let SchemaChange::Dropped { field } = change {
                self.unread.entry(key).or_default().insert(field);
            }
        }
        value.map(Some).map_err(|error| error.in_key(key))
    }

    /// Notes that fields of a component are gone.
    fn drop_unread(&mut self, key: &str) {
        let fields = self.unread.get(key).into_iter().flatten();
        self.dropped.extend(fields.map(|field| (key.to_owned(), field.clone())));
    }

    /// As [`WorldEdit::get`], and takes it away.
    pub fn take<T: Persist>(&mut self, entity: EntityId, key: &str) -> Result<Option<T>> {
        let unread_before = self.unread.remove(key);
        let value = self.get(entity, key);
        self.drop_unread(key);
        if let Some(fields) = unread_before {
            self.unread.entry(key.to_owned()).or_default().extend(fields);
        }
        let value = value?;
        self.remove(entity, key)?;
        Ok(value)
    }

    /// Takes a component away from an entity. Returns whether it had one.
    pub fn remove(&mut self, entity: EntityId, key: &str) -> Result<bool> {
        self.table(key)?;
        Ok(self.tables.get_mut(key).is_some_and(|table| table.rows.remove(&entity).is_some()))
    }

    /// Gives an entity a component, in the place of the one that it had. Use the type as it was in the version that the
    /// migration leads to: later versions of it will find their own way from there.
    pub fn insert<T: Keyed>(&mut self, entity: EntityId, value: &T) -> Result<()> {
        self.insert_as(entity, T::KEY, T::VERSION, value)
    }

    /// As [`WorldEdit::insert`], for a type without a key, such as [`Value`](crate::Value).
    pub fn insert_as<T: Persist>(
        &mut self,
        entity: EntityId,
        key: &str,
        version: u32,
        value: &T,
    ) -> Result<()> {
        if !self.entities.contains(&entity) {
            return Err(Error::misuse(format!("there is no entity {entity}")).in_key(key));
        }
        self.put(entity, key, version, value)
    }

    fn put<T: Persist>(&mut self, owner: EntityId, key: &str, version: u32, value: &T) -> Result<()> {
        self.table(key)?;
        let mut out = Writer::new();
        value.encode(&mut out);
        let bytes = out.finish().map_err(|error| error.in_key(key))?;
        let schema = Schema::of::<T>();
        let table = self.tables.entry(key.to_owned()).or_default();
        let form = table.form(version, Arc::new(schema));
        let replaced = table.rows.insert(owner, (form, bytes.into()));
        if replaced.is_some_and(|(before, _)| before != form) {
            self.drop_unread(key);
        }
        Ok(())
    }

    /// A new entity without components.
    pub fn spawn(&mut self) -> Result<EntityId> {
        let index = u32::try_from(self.next_index).map_err(|_| Error::limit("there are no ids left"))?;
        self.next_index += 1;
        // Not every engine has a generation 0.
        let id = EntityId::new(index, 1);
        self.entities.insert(id);
        self.spawned.push(id);
        Ok(id)
    }

    /// Takes an entity out of the save. References to it dangle.
    pub fn despawn(&mut self, entity: EntityId) -> Result<()> {
        if !self.entities.remove(&entity) {
            return Err(Error::misuse(format!("there is no entity {entity}")));
        }
        match self.spawned.iter().position(|id| *id == entity) {
            Some(number) => drop(self.spawned.remove(number)),
            None => drop(self.despawned.insert(entity)),
        }
        self.tables.values_mut().for_each(|table| drop(table.rows.remove(&entity)));
        Ok(())
    }

    /// A resource as a `T`, by name.
    pub fn resource<T: Persist>(&mut self, key: &str) -> Result<Option<T>> {
        self.get(EntityId::NULL, key)
    }

    /// Puts a resource into the save, in the place of the one that it had.
    pub fn set_resource<T: Keyed>(&mut self, value: &T) -> Result<()> {
        self.put(EntityId::NULL, T::KEY, T::VERSION, value)
    }

    /// Takes a resource out of the save. Returns whether there was one.
    pub fn remove_resource(&mut self, key: &str) -> Result<bool> {
        self.remove(EntityId::NULL, key)
    }

    /// The game's own data.
    pub fn data(&self) -> &[DataEntry] {
        self.snapshot.data()
    }

    /// A data entry as a `T`, by name.
    pub fn get_data<T: Persist>(&self, key: &str) -> Result<Option<T>> {
        self.data().iter().find(|entry| entry.key() == key).map(DataEntry::get).transpose()
    }

    /// Puts a data entry into the save, in the place of the one that it had.
    pub fn set_data<T: Persist>(&mut self, key: &str, value: &T) -> Result<()> {
        let entry = DataEntry::new(key, value).map_err(|error| error.in_key(key))?;
        match self.snapshot.data.iter_mut().find(|known| known.key() == key) {
            Some(known) => *known = entry,
            None => self.snapshot.data.push(entry),
        }
        Ok(())
    }

    /// Takes a data entry out of the save. Returns whether there was one.
    pub fn remove_data(&mut self, key: &str) -> bool {
        let before = self.snapshot.data.len();
        self.snapshot.data.retain(|entry| entry.key() != key);
        self.snapshot.data.len() < before
    }

    /// What the save says about itself.
    pub fn metadata(&self) -> &[(String, crate::value::Value)] {
        self.snapshot.metadata()
    }

    /// Takes a component apart, once.
    fn table(&mut self, key: &str) -> Result<()> {
        if self.tables.contains_key(key) {
            return Ok(());
        }
        let mut table = ComponentRows::default();
        let snapshot = &self.snapshot;
        let named = |number: u32| snapshot.components[number as usize].key == key;
        let resource = vec![EntityId::NULL];
        for archetype in &snapshot.archetypes {
            let ids = archetype.ids();
            for column in archetype.columns.iter().filter(|column| named(column.component)) {
                table.add(snapshot, column, &ids, &self.limits)?;
            }
        }
        for column in snapshot.resources.iter().filter(|column| named(column.component)) {
            table.add(snapshot, column, &resource, &self.limits)?;
        }
        let carried = snapshot.carried.iter().filter(|record| record.kind != CarryKind::Fields);
        for record in carried.filter(|record| named(record.column.component)) {
            let ids =
                if record.kind == CarryKind::Resource { resource.clone() } else { record.ids().into_owned() };
            table.add(snapshot, &record.column, &ids, &self.limits)?;
        }
        table.rows.retain(|id, _| id.is_null() || self.entities.contains(id));
        self.tables.insert(key.to_owned(), table);
        Ok(())
    }

    /// The world as it is now.
    pub(super) fn finish(mut self) -> Result<Snapshot> {
        let tables = std::mem::take(&mut self.tables);
        let touched: HashSet<u32> = (self.snapshot.components.iter().zip(0..))
            .filter(|(component, _)| tables.contains_key(&component.key))
            .map(|(_, number)| number)
            .collect();
        let fields: HashSet<u32> = (self.snapshot.carried.iter())
            .filter(|record| record.kind == CarryKind::Fields)
            .map(|record| record.column.component)
            .collect();
        let is_touched = |number: u32| touched.contains(&number) && !fields.contains(&number);
        let Snapshot { archetypes, resources, carried, .. } = &mut self.snapshot;
        for archetype in &mut *archetypes {
            archetype.columns.retain(|column| !is_touched(column.component));
        }
        resources.retain(|column| !is_touched(column.component));
        carried.retain(|record| !is_touched(record.column.component));
        if !self.despawned.is_empty() {
            self.forget_despawned()?;
        }
        if !self.spawned.is_empty() {
            let mut archetype = Archetype { rows: self.spawned.len(), ..Archetype::default() };
            archetype.set_ids(&self.spawned);
            self.snapshot.archetypes.push(archetype);
        }
        for (key, table) in tables {
            table.write(&key, &mut self.snapshot, &self.limits).map_err(|error| error.in_key(&key))?;
        }
        if !self.spawned.is_empty() {
            self.snapshot.next_entity_id = self.snapshot.next_entity_id.max(self.next_index);
        }
        self.snapshot.order_components();
        let dropped = self.dropped.into_iter();
        let dropped = dropped.map(|(key, field)| (key, SchemaChange::Dropped { field }));
        self.snapshot.migration_changes.extend(dropped);
        Ok(self.snapshot)
    }

    fn forget_despawned(&mut self) -> Result<()> {
        let despawned = &self.despawned;
        self.snapshot.retain_rows(&self.limits, |id| !despawned.contains(&id))
    }
}

impl ComponentRows {
    fn form(&mut self, version: u32, schema: Arc<Schema>) -> usize {
        let same = |form: &SavedForm| form.version == version && form.schema == schema;
        self.forms.iter().position(same).unwrap_or_else(|| {
            self.forms.push(SavedForm { version, schema });
            self.forms.len() - 1
        })
    }

    fn add(
        &mut self,
        snapshot: &Snapshot,
        column: &crate::column::Column,
        ids: &[EntityId],
        limits: &Limits,
    ) -> Result<()> {
        let component = &snapshot.components[column.component as usize];
        let form = self.form(component.version, Arc::clone(component.schema()?));
        let shared = snapshot.shared_values(column);
        let dense = dense_rows(column, component, shared, ids.len(), limits, &|_| false)
            .map_err(|error| error.in_key(&component.key))?;
        let rows = ids.iter().enumerate();
        self.rows.extend(rows.filter_map(|(row, id)| Some((*id, (form, dense.shared(row)?)))));
        Ok(())
    }

    /// Puts the component together again. Values keep the form that they have, so entities whose values have different ones
    /// become archetypes of their own.
    fn write(self, key: &str, snapshot: &mut Snapshot, limits: &Limits) -> Result<()> {
        let used: BTreeSet<usize> = self.rows.values().map(|(form, _)| *form).collect();
        let mut numbers = HashMap::new();
        for form in used {
            let SavedForm { version, schema } = &self.forms[form];
            numbers.insert(form, snapshot.components.len() as u32);
            snapshot.components.push(Component {
                key: key.to_owned(),
                version: *version,
                kind: ColumnKind::Rows,
                schema_fingerprint: schema.fingerprint(),
                row: RowLayout::default(),
                schema: Some(Arc::clone(schema)),
            });
        }
        let column = |form: usize, ids: &[EntityId], components: &[Component]| {
            let value = |id: &EntityId| self.rows.get(id).filter(|row| row.0 == form).map(|row| &*row.1);
            let number = numbers[&form];
            column_from(number, &components[number as usize], ids.iter().map(value))
        };
        let mut archetypes = Vec::with_capacity(snapshot.archetypes.len());
        for mut archetype in std::mem::take(&mut snapshot.archetypes) {
            let ids = archetype.ids().into_owned();
            let form = |id: &EntityId| self.rows.get(id).map(|(form, _)| *form);
            let forms: BTreeSet<usize> = ids.iter().filter_map(form).collect();
            if forms.len() < 2 {
                for form in forms {
                    archetype.columns.extend(column(form, &ids, &snapshot.components)?);
                }
                archetypes.push(archetype);
                continue;
            }
            let groups = forms.into_iter().map(Some).chain([None]);
            for group in groups {
                let mut picked = snapshot.pick_rows(&archetype, limits, |id| form(&id) == group)?;
                if let Some(form) = group {
                    picked.columns.extend(column(form, &picked.ids(), &snapshot.components)?);
                }
                if picked.rows > 0 {
                    archetypes.push(picked);
                }
            }
        }
        snapshot.archetypes = archetypes;
        if let Some((form, _)) = self.rows.get(&EntityId::NULL) {
            snapshot.resources.extend(column(*form, &[EntityId::NULL], &snapshot.components)?);
        }
        Ok(())
    }
}

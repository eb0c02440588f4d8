//! A world of boxed components.

use std::any::Any;
use std::collections::BTreeMap;

use bonfire::engine::{
    ArchetypeWriter, BufferPool, Carry, EntityMap, Hooks, LoadPlan, SnapshotWriter, StagedColumn,
};
use bonfire::inspect::Prelude;
use bonfire::{
    Descriptor, EntityId, Error, Filter, Keyed, LoadContext, LoadOptions, LoadReport, Registry, Result,
    Snapshot, Unknown, Value,
};

pub(crate) type Boxed = Box<dyn Any>;
type LayerOf = Box<dyn Fn(&ModelWorld, EntityId) -> Option<u8>>;

/// How columns of one component leave and enter the world.
pub(crate) struct Storage {
    write: fn(&[Option<&Boxed>], &Descriptor, &mut ArchetypeWriter<'_, '_>) -> Result<()>,
    pub(crate) read: fn(StagedColumn<'_>) -> Result<Vec<Boxed>>,
}

/// Entities with generations, boxed components, resources, hooks, and what was carried.
#[derive(Default)]
pub struct ModelWorld {
    pub(crate) registry: Registry,
    pub(crate) storages: BTreeMap<usize, Storage>,
    /// Per slot: the current generation, and whether it is taken.
    pub(crate) slots: Vec<(u32, bool)>,
    pub(crate) components: BTreeMap<usize, BTreeMap<EntityId, Boxed>>,
    pub(crate) resources: BTreeMap<usize, Boxed>,
    /// Entities that are never saved.
    transient: Vec<EntityId>,
    /// Tells an entity's layer.
    layer: Option<LayerOf>,
    /// Callbacks around saves and loads.
    pub hooks: Hooks<ModelWorld>,
    carry: Carry,
}

/// What to save.
#[derive(Default)]
pub struct CaptureOptions {
    /// Which entities.
    pub filter: Filter,
    /// Uses the portable paths.
    pub portable: bool,
    /// Puts all entities into one archetype with sparse columns.
    pub one_archetype: bool,
    /// Where memory comes from.
    pub pool: BufferPool,
    /// Data of the caller's own.
    pub data: Vec<(String, Value)>,
}

/// What happens to what is there already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It goes; entities get new ids.
    Replace,
    /// It goes; entities keep their saved ids.
    SameIds,
    /// It stays.
    Merge,
}

/// What a load gives back.
#[derive(Debug)]
pub struct Loaded {
    /// What saved ids became.
    pub map: EntityMap,
    /// The head of the save.
    pub prelude: Prelude,
    /// What happened.
    pub report: LoadReport,
}

impl ModelWorld {
    /// An empty world.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a type with a derived key.
    pub fn register<T: Keyed + Clone>(&mut self) -> Result<()> {
        self.add::<T>(Descriptor::of::<T>())
    }

    /// Registers a descriptor for components of type `T`.
    pub fn add<T: Clone + 'static>(&mut self, descriptor: Descriptor) -> Result<()> {
        assert_eq!(descriptor.type_id(), std::any::TypeId::of::<T>());
        let index = self.registry.add(descriptor)?;
        self.storages.insert(index, Storage { write: write::<T>, read: read::<T> });
        Ok(())
    }

    /// What is registered.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// What is registered, to add steps and migrations to it.
    pub fn registry_mut(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// What the last load did not know.
    pub fn carry(&self) -> &Carry {
        &self.carry
    }

    /// Makes an entity.
    pub fn spawn(&mut self) -> EntityId {
        let index = self.slots.iter().position(|(_, taken)| !taken).unwrap_or_else(|| {
            self.slots.push((0, false));
            self.slots.len() - 1
        });
        self.slots[index].1 = true;
        EntityId::new(index as u32, self.slots[index].0)
    }

    /// Ends an entity; its slot gets a new generation.
    pub fn despawn(&mut self, id: EntityId) {
        if self.contains(id) {
            self.slots[id.index() as usize] = (id.generation() + 1, false);
            self.components.values_mut().for_each(|column| {
                column.remove(&id);
            });
        }
    }

    /// Whether the entity exists.
    pub fn contains(&self, id: EntityId) -> bool {
        self.slots.get(id.index() as usize) == Some(&(id.generation(), true))
    }

    /// All entities, by slot.
    pub fn entities(&self) -> Vec<EntityId> {
        let slots = self.slots.iter().enumerate().filter(|(_, (_, taken))| *taken);
        slots.map(|(index, (generation, _))| EntityId::new(index as u32, *generation)).collect()
    }

    /// Gives an entity a component.
    pub fn insert<T: 'static>(&mut self, id: EntityId, value: T) {
        assert!(self.contains(id), "{id} does not exist");
        let index = self.registry.index_of::<T>().expect("a registered component");
        self.components.entry(index).or_default().insert(id, Box::new(value));
    }

    /// Takes a component from an entity.
    pub fn remove<T: 'static>(&mut self, id: EntityId) {
        let index = self.registry.index_of::<T>().expect("a registered component");
        if let Some(column) = self.components.get_mut(&index) {
            column.remove(&id);
        }
    }

    /// Gives an entity a component without a Rust type.
    pub fn insert_value(&mut self, id: EntityId, key: &str, value: Value) {
        let index = self.registry.index_of_key(key).expect("a registered component");
        self.components.entry(index).or_default().insert(id, Box::new(value));
    }

    /// An entity's component.
    pub fn get<T: 'static>(&self, id: EntityId) -> Option<&T> {
        self.components.get(&self.registry.index_of::<T>()?)?.get(&id)?.downcast_ref()
    }

    /// An entity's component without a Rust type.
    pub fn get_value(&self, id: EntityId, key: &str) -> Option<&Value> {
        self.components.get(&self.registry.index_of_key(key)?)?.get(&id)?.downcast_ref()
    }

    /// Sets a resource.
    pub fn insert_resource<T: 'static>(&mut self, value: T) {
        let index = self.registry.index_of::<T>().expect("a registered resource");
        self.resources.insert(index, Box::new(value));
    }

    /// A resource.
    pub fn resource<T: 'static>(&self) -> Option<&T> {
        self.resources.get(&self.registry.index_of::<T>()?)?.downcast_ref()
    }

    /// Marks an entity as never saved.
    pub fn set_transient(&mut self, id: EntityId) {
        self.transient.push(id);
    }

    /// Says how to find an entity's layer.
    pub fn set_layer(&mut self, layer: impl Fn(&ModelWorld, EntityId) -> Option<u8> + 'static) {
        self.layer = Some(Box::new(layer));
    }

    /// Saves everything.
    pub fn save(&mut self) -> Result<Snapshot> {
        self.capture(&CaptureOptions::default())
    }

    /// Saves what the options say.
    pub fn capture(&mut self, options: &CaptureOptions) -> Result<Snapshot> {
        let mut hooks = std::mem::take(&mut self.hooks);
        let starting = hooks.run_save(self, &self.registry);
        let snapshot = starting.and_then(|starting| {
            let filter = options.filter.resolve(&self.registry, starting.excluded())?;
            let mut writer = SnapshotWriter::new(&self.registry).pool(&options.pool);
            if options.portable {
                writer = writer.portable();
            }
            for (components, ids) in self.archetypes(&filter, options.one_archetype) {
                let mut archetype = writer.archetype(&ids)?;
                for index in components {
                    let column = &self.components[&index];
                    let rows: Vec<Option<&Boxed>> = ids.iter().map(|id| column.get(id)).collect();
                    let descriptor = &self.registry.descriptors()[index];
                    (self.storages[&index].write)(&rows, descriptor, &mut archetype)?;
                }
            }
            for (index, value) in &self.resources {
                let descriptor = &self.registry.descriptors()[*index];
                (self.storages[index].write)(&[Some(value)], descriptor, &mut writer.resources())?;
            }
            starting.data().iter().for_each(|entry| writer.data_entry(entry.clone()));
            for (key, value) in &options.data {
                writer.data(key.clone(), value)?;
            }
            writer.next_entity_id(self.slots.len() as u64);
            writer.carry(&self.carry);
            writer.finish()
        });
        self.hooks = hooks;
        snapshot
    }

    /// Entities by the components they have that are saved.
    fn archetypes(
        &self,
        filter: &bonfire::engine::ResolvedFilter,
        one: bool,
    ) -> BTreeMap<Vec<usize>, Vec<EntityId>> {
        let mut archetypes: BTreeMap<Vec<usize>, Vec<EntityId>> = BTreeMap::new();
        for id in self.entities() {
            let has =
                |index: usize| self.components.get(&index).is_some_and(|column| column.contains_key(&id));
            let layer = self.layer.as_ref().and_then(|layer| layer(self, id));
            if self.transient.contains(&id) || !filter.accepts(has) || !filter.accepts_layer(layer) {
                continue;
            }
            let every = || self.components.keys().copied();
            let key = if one { every().collect() } else { every().filter(|&index| has(index)).collect() };
            archetypes.entry(key).or_default().push(id);
        }
        archetypes
    }

    /// Loads a snapshot, replacing what is there.
    pub fn load(&mut self, snapshot: &Snapshot) -> Result<Loaded> {
        self.load_with(snapshot, Mode::Replace, LoadOptions::default())
    }

    /// Loads a snapshot. If it fails, the world is as it was.
    pub fn load_with(&mut self, snapshot: &Snapshot, mode: Mode, options: LoadOptions) -> Result<Loaded> {
        let (dangling, unknown, limits) =
            (options.dangling, options.unknown, options.limits.clone().unwrap_or_default());
        let migrated = snapshot.migrated(&self.registry)?;
        let snapshot = &*migrated;
        let plan = LoadPlan::new(snapshot, &self.registry, options)?;
        let saved = plan.entities();
        // Reserve an id for each entity without touching the world.
        let mut slots = if mode == Mode::Merge { self.slots.clone() } else { self.emptied_slots() };
        let new: Vec<EntityId> = match mode {
            Mode::SameIds => {
                let count = saved.iter().map(|id| id.index() as usize + 1).max().unwrap_or(0);
                slots.resize(
                    slots.len().max(count).max(snapshot.prelude().next_entity_id as usize),
                    (0, false),
                );
                saved.iter().for_each(|id| slots[id.index() as usize] = (id.generation(), true));
                saved.clone()
            }
            _ => saved.iter().map(|_| take_slot(&mut slots)).collect(),
        };
        let map = EntityMap::new(&saved, &new)?;
        let world: &dyn Any = self;
        let staged = plan.stage(&map, Some(world))?;
        let mut report = staged.report;
        let mut carry = staged.carry;

        // Decode into boxes first: everything after this line cannot fail.
        let mut incoming: Vec<(usize, EntityId, Boxed)> = Vec::new();
        for archetype in staged.archetypes {
            for (component, column) in archetype.columns {
                let rows: Vec<bool> = (0..archetype.ids.len()).map(|row| column.is_present(row)).collect();
                let mut values = (self.storages[&component].read)(column)?.into_iter();
                for (id, _) in archetype.ids.iter().zip(rows).filter(|(_, present)| *present) {
                    let value = values.next().ok_or_else(|| Error::misuse("fewer rows than entities"))?;
                    incoming.push((component, map.get(*id).expect("every id is mapped"), value));
                }
            }
        }
        for extra in staged.extras {
            let present: Vec<bool> = (0..extra.ids.len()).map(|row| extra.column.is_present(row)).collect();
            let mut values = (self.storages[&extra.component].read)(extra.column)?.into_iter();
            for (id, _) in extra.ids.iter().zip(present).filter(|(_, present)| *present) {
                let value = values.next().ok_or_else(|| Error::misuse("fewer rows than entities"))?;
                if let Some(id) = map.get(*id) {
                    incoming.push((extra.component, id, value));
                }
            }
        }
        let mut resources = Vec::new();
        for (component, column) in staged.resources {
            resources.push((component, (self.storages[&component].read)(column)?.remove(0)));
        }

        // Commit.
        if mode != Mode::Merge {
            self.components.clear();
            self.resources.clear();
            self.transient.clear();
        }
        self.slots = slots;
        for (component, id, value) in incoming {
            self.components.entry(component).or_default().insert(id, value);
        }
        self.resources.extend(resources);

        let prelude = snapshot.prelude();
        let mut hooks = std::mem::take(&mut self.hooks);
        let context = LoadContext::new(&limits).entities(&map, dangling);
        let unclaimed = hooks.run_load(self, &prelude, snapshot.data(), &context, &mut report);
        self.hooks = hooks;
        carry.forget_data();
        if unknown == Unknown::Keep {
            carry.keep_data(unclaimed, &context);
        }
        match mode {
            Mode::Merge => self.carry.extend(carry),
            _ => self.carry = carry,
        }
        Ok(Loaded { map, prelude, report })
    }

    /// All slots free, with generations that no handle from before has.
    fn emptied_slots(&self) -> Vec<(u32, bool)> {
        self.slots.iter().map(|&(generation, taken)| (generation + u32::from(taken), false)).collect()
    }
}

pub(crate) fn take_slot(slots: &mut Vec<(u32, bool)>) -> EntityId {
    let index = slots.iter().position(|(_, taken)| !taken).unwrap_or_else(|| {
        slots.push((0, false));
        slots.len() - 1
    });
    slots[index].1 = true;
    EntityId::new(index as u32, slots[index].0)
}

fn write<T: Clone + 'static>(
    rows: &[Option<&Boxed>],
    descriptor: &Descriptor,
    archetype: &mut ArchetypeWriter<'_, '_>,
) -> Result<()> {
    let rows: Vec<Option<&T>> =
        rows.iter().map(|row| row.map(|value| value.downcast_ref().expect("the column's type"))).collect();
    match rows.iter().copied().collect::<Option<Vec<&T>>>() {
        // Half of the columns as slices, half by reference: both must give the same bytes.
        Some(full) if descriptor.key().len().is_multiple_of(2) => {
            archetype.column_by_key(descriptor.key(), &full.into_iter().cloned().collect::<Vec<T>>())
        }
        _ => archetype.column_sparse_by_key(descriptor.key(), &rows),
    }
}

fn read<T: 'static>(column: StagedColumn<'_>) -> Result<Vec<Boxed>> {
    Ok(column.into_rows::<T>()?.into_iter().map(|value| Box::new(value) as Boxed).collect())
}

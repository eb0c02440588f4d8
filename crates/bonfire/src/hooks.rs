//! Callbacks around saving and loading, for plugins that keep state outside of the world or derive some of it.
//!
//! The order is fixed. Saving: every save hook in the order of registration, before any archetype is walked; what they
//! attach follows the columns, reserved keys (`bonfire.`) first, then in the order of the calls. Loading, after the
//! world is complete: every load hook registers its data callbacks; then, entry by entry, all callbacks of its key in
//! the order of registration; then every finish hook. Entries without a callback are not lost: they are handed back, to
//! be carried.
//!
//! What a hook leaves out, its owner makes again: the contract is symmetric.

use std::any::TypeId;
use std::sync::{Arc, Mutex, PoisonError};

use crate::context::LoadContext;
use crate::error::{Error, Result, catch_panic};
use crate::load::LoadReport;
use crate::persist::Persist;
use crate::registry::Registry;
use crate::snapshot::{DataEntry, OWN_DATA, Prelude, RESERVED_PREFIX};

type SaveHook<W> = Box<dyn FnMut(&W, &mut SaveExtras<'_>) -> Result<()> + Send + Sync>;
type LoadHook<W> = Box<dyn FnMut(&mut DataCallbacks<W>) + Send + Sync>;
type DataCallback<W> = Box<dyn FnMut(&mut W, &DataEntry, &LoadContext<'_>) -> Result<()> + Send + Sync>;
type FinishHook<W> = Box<dyn FnMut(&mut W, &FinishedLoad<'_>) + Send + Sync>;

/// The callbacks of a world of type `W`.
///
/// ```
/// # use bonfire::engine::Hooks;
/// struct World { rng_seed: u64 }
///
/// let mut hooks = Hooks::<World>::new();
/// hooks.on_save(|world, save| save.attach("game.rng", &world.rng_seed));
/// hooks.on_load(|load| load.on_data("game.rng", |world: &mut World, entry, _| {
///     world.rng_seed = entry.get()?;
///     Ok(())
/// }));
/// ```
pub struct Hooks<W> {
    save: Vec<SaveHook<W>>,
    load: Vec<LoadHook<W>>,
    finish: Vec<FinishHook<W>>,
}

impl<W> Default for Hooks<W> {
    fn default() -> Self {
        Self { save: Vec::new(), load: Vec::new(), finish: Vec::new() }
    }
}

impl<W> Hooks<W> {
    /// No callbacks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs at the start of every save. It may attach data and exclude entities; an error makes the save fail.
    pub fn on_save(
        &mut self,
        hook: impl FnMut(&W, &mut SaveExtras<'_>) -> Result<()> + Send + Sync + 'static,
    ) {
        self.save.push(Box::new(hook));
    }

    /// Runs in every load once the world is complete. It registers callbacks for data.
    pub fn on_load(&mut self, hook: impl FnMut(&mut DataCallbacks<W>) + Send + Sync + 'static) {
        self.load.push(Box::new(hook));
    }

    /// Runs at the end of every load, after all data callbacks.
    pub fn on_finish(&mut self, hook: impl FnMut(&mut W, &FinishedLoad<'_>) + Send + Sync + 'static) {
        self.finish.push(Box::new(hook));
    }

    /// Keeps a plugin's state under one key.
    pub fn handler<T: Persist>(&mut self, key: impl Into<String>, handler: DataHandler<W, T>) -> Result<()>
    where
        W: 'static,
    {
        let key = key.into();
        if key.is_empty() {
            return Err(Error::misuse("a handler needs a name, such as `physics.world`"));
        }
        let DataHandler { save, load, finish } = handler;
        if let Some(mut save) = save {
            let key = key.clone();
            self.on_save(move |world, starting| match save(world) {
                Some(value) => starting.attach(key.clone(), &value),
                None => Ok(()),
            });
        }
        if let Some(load) = load {
            // Each load registers its callbacks anew.
            let load = Arc::new(Mutex::new(load));
            self.on_load(move |starting| {
                let load = Arc::clone(&load);
                starting.on_data(key.clone(), move |world, entry, context| {
                    let value = entry.get_in(context)?;
                    let mut load = load.lock().unwrap_or_else(PoisonError::into_inner);
                    catch_panic("a data callback panicked", || load(world, value))
                });
            });
        }
        if let Some(finish) = finish {
            self.finish.push(finish);
        }
        Ok(())
    }

    /// Returns true if there are no callbacks.
    pub fn is_empty(&self) -> bool {
        self.save.is_empty() && self.load.is_empty() && self.finish.is_empty()
    }

    /// For front ends: runs the save hooks.
    pub fn run_save<'r>(&mut self, world: &W, registry: &'r Registry) -> Result<SaveExtras<'r>> {
        let mut starting =
            SaveExtras { registry, data: Vec::new(), excluded: Vec::new(), excluded_types: Vec::new() };
        for hook in &mut self.save {
            hook(world, &mut starting)?;
        }
        starting.data.sort_by_key(|entry| !entry.key().starts_with(RESERVED_PREFIX));
        Ok(starting)
    }

    /// For front ends: dispatches the data of a save to a complete world and finishes the load. Returns the entries
    /// that nobody asked for. Errors of callbacks are in the report; they do not stop the others.
    pub fn run_load(
        &mut self,
        world: &mut W,
        prelude: &Prelude,
        data: &[DataEntry],
        context: &LoadContext<'_>,
        report: &mut LoadReport,
    ) -> Vec<DataEntry> {
        let mut starting = DataCallbacks::default();
        self.register_callbacks(&mut starting);
        let unclaimed = starting.dispatch(world, data, context, report);
        self.run_finish(world, &FinishedLoad { prelude, report });
        unclaimed
    }

    /// For front ends that dispatch data to others, too: runs the load hooks, which register their callbacks.
    pub fn register_callbacks(&mut self, callbacks: &mut DataCallbacks<W>) {
        for hook in &mut self.load {
            hook(callbacks);
        }
    }

    /// For front ends that dispatch data to others, too: runs the finish hooks.
    pub fn run_finish(&mut self, world: &mut W, finished: &FinishedLoad<'_>) {
        for hook in &mut self.finish {
            hook(world, finished);
        }
    }
}

type SaveData<W, T> = Box<dyn FnMut(&W) -> Option<T> + Send + Sync>;
type LoadData<W, T> = Box<dyn FnMut(&mut W, T) -> Result<()> + Send + Sync>;

/// The state of a plugin under one key: how it is saved, loaded, and completed. Each part is optional.
///
/// ```
/// use bonfire::engine::{DataHandler, Hooks};
///
/// struct World { seed: u64, noise: Vec<u64> }
///
/// let handler = DataHandler::new()
///     .save(|world: &World| Some(world.seed))
///     .load(|world: &mut World, seed| {
///         world.seed = seed;
///         Ok(())
///     })
///     .finish(|world, _| world.noise = vec![world.seed; 4]); // after all data is there, also if the save has none
/// let mut hooks = Hooks::<World>::new();
/// hooks.handler("game.random", handler)?;
/// # Ok::<(), bonfire::Error>(())
/// ```
pub struct DataHandler<W, T> {
    save: Option<SaveData<W, T>>,
    load: Option<LoadData<W, T>>,
    finish: Option<FinishHook<W>>,
}

impl<W, T> Default for DataHandler<W, T> {
    fn default() -> Self {
        Self { save: None, load: None, finish: None }
    }
}

impl<W, T: Persist> DataHandler<W, T> {
    /// Does nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Saves what `save` returns. `None` writes nothing.
    pub fn save(mut self, save: impl FnMut(&W) -> Option<T> + Send + Sync + 'static) -> Self {
        self.save = Some(Box::new(save));
        self
    }

    /// Calls `load` with the saved value, once the world is complete. Errors are in the report of the load.
    pub fn load(mut self, load: impl FnMut(&mut W, T) -> Result<()> + Send + Sync + 'static) -> Self {
        self.load = Some(Box::new(load));
        self
    }

    /// Calls `finish` at the end of every load, after all data is loaded, also if the save has none under this key.
    pub fn finish(mut self, finish: impl FnMut(&mut W, &FinishedLoad<'_>) + Send + Sync + 'static) -> Self {
        self.finish = Some(Box::new(finish));
        self
    }
}

/// What a save hook may do.
pub struct SaveExtras<'r> {
    registry: &'r Registry,
    data: Vec<DataEntry>,
    excluded: Vec<usize>,
    /// Those that are not registered.
    excluded_types: Vec<TypeId>,
}

impl SaveExtras<'_> {
    /// Attaches data to the save. Use keys with the owner in front: `"physics.world"`.
    pub fn attach<T: Persist>(&mut self, key: impl Into<String>, value: &T) -> Result<()> {
        let key = key.into();
        if OWN_DATA.contains(&&*key) {
            return Err(Error::misuse("it is Bonfire's own: choose another").in_key(&key));
        }
        let entry = DataEntry::new(key.clone(), value).map_err(|error| error.in_key(&key))?;
        self.data.push(entry);
        Ok(())
    }

    /// Leaves out all entities that have this component, registered or not.
    pub fn exclude<T: 'static>(&mut self) {
        match self.registry.index_of::<T>() {
            Some(index) => self.excluded.push(index),
            None => self.excluded_types.push(TypeId::of::<T>()),
        }
    }

    /// Leaves out all entities that have the component with this key.
    pub fn exclude_key(&mut self, key: &str) -> Result<()> {
        let index = self.registry.index_of_key(key);
        self.excluded.push(index.ok_or_else(|| Error::misuse("excluded, but not registered").in_key(key))?);
        Ok(())
    }

    /// For front ends: what was attached, reserved keys first.
    pub fn data(&self) -> &[DataEntry] {
        &self.data
    }

    /// For front ends: the numbers of the excluded components that are registered.
    pub fn excluded(&self) -> &[usize] {
        &self.excluded
    }

    /// For front ends: the types of the excluded components that are not registered. An engine whose entities have only
    /// registered components can ignore them.
    pub fn excluded_types(&self) -> &[TypeId] {
        &self.excluded_types
    }
}

/// What a load hook may do.
pub struct DataCallbacks<W> {
    callbacks: Vec<(String, DataCallback<W>)>,
}

impl<W> Default for DataCallbacks<W> {
    fn default() -> Self {
        Self { callbacks: Vec::new() }
    }
}

impl<W> DataCallbacks<W> {
    /// For front ends: gives data to those who asked for it, reserved keys first, and returns what nobody asked for.
    /// Errors go to the report and do not stop the others.
    pub fn dispatch<'d>(
        &mut self,
        world: &mut W,
        data: impl IntoIterator<Item = &'d DataEntry>,
        context: &LoadContext<'_>,
        report: &mut LoadReport,
    ) -> Vec<DataEntry> {
        let mut entries: Vec<&DataEntry> =
            data.into_iter().filter(|entry| !OWN_DATA.contains(&entry.key())).collect();
        entries.sort_by_key(|entry| !entry.key().starts_with(RESERVED_PREFIX));
        report.unclaimed_data.clear();
        let mut unclaimed = Vec::new();
        for entry in entries {
            let mut claimed = false;
            for (key, callback) in self.callbacks.iter_mut().filter(|(key, _)| key == entry.key()) {
                claimed = true;
                if let Err(error) = callback(world, entry, context) {
                    report.callback_errors.push(error.in_key(key));
                }
                for change in context.take_changes() {
                    if !report.data_changes.contains(&change) {
                        report.data_changes.push(change);
                    }
                }
            }
            if !claimed {
                report.unclaimed_data.push(entry.key().to_owned());
                unclaimed.push(entry.clone());
            }
        }
        unclaimed
    }

    /// Calls `callback` for every data entry with this key. Several hooks may ask for one key.
    pub fn on_data(
        &mut self,
        key: impl Into<String>,
        callback: impl FnMut(&mut W, &DataEntry, &LoadContext<'_>) -> Result<()> + Send + Sync + 'static,
    ) {
        self.callbacks.push((key.into(), Box::new(callback)));
    }
}

/// What a finish hook sees.
pub struct FinishedLoad<'a> {
    /// The head of the save.
    pub prelude: &'a Prelude,
    /// What the load did.
    pub report: &'a LoadReport,
}

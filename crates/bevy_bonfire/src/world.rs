//! What is called to save and load: on a world, and as commands.

#[cfg(not(target_arch = "wasm32"))]
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bevy_ecs::bundle::Bundle;
use bevy_ecs::entity::Entity;
use bevy_ecs::system::Commands;
use bevy_ecs::world::{EntityWorldMut, World};
use bonfire::{Registry, Result, Snapshot};
use bonfire_store::engine::Promise;
use bonfire_store::{Handle, LoadSource, SaveHandle, SaveTarget};
#[cfg(not(target_arch = "wasm32"))]
use bonfire_store::{
    SaveReport,
    engine::{CapturedSave, submit_save},
};

#[cfg(any(doc, not(target_arch = "wasm32")))]
use crate::capture::SaveFinished;
use crate::capture::{CaptureAdditions, CaptureInput, SaveOptions, Sharing, capture};
#[cfg(doc)]
use crate::capture::{SaveCaptured, SaveStarting};
#[cfg(not(target_arch = "wasm32"))]
use crate::live::Saves;
use crate::live::{self, LoadHandle, Request, capture_with_events};
#[cfg(doc)]
use crate::load::LoadFinished;
use crate::load::{LoadOptions, Loaded, load_with_events};
use crate::registry::SaveRegistry;
use crate::stable_id::StableId;
use crate::unload;

/// Saving and loading, on a [`World`].
///
/// ```
/// # use bevy_ecs::prelude::*;
/// use bevy_bonfire::prelude::*;
///
/// #[derive(Component, Persist)]
/// #[persist(key = "game.health")]
/// struct Health(f32);
///
/// let mut world = World::new();
/// world.persist::<Health>();
/// world.spawn((Health(3.0), Saved));
///
/// let snapshot = world.capture(&SaveOptions::new())?;
/// world.query::<&mut Health>().single_mut(&mut world)?.0 = 0.0;
/// world.load(&snapshot, LoadMode::Replace)?;
/// assert_eq!(world.query::<&Health>().single(&world)?.0, 3.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait WorldSaveExt {
    /// Captures the world and nothing else: no observer runs. All memory that it needs comes from a pool and goes back
    /// there with the snapshot.
    fn capture(&self, options: &SaveOptions) -> Result<Snapshot>;

    /// What is registered, for [`preflight`](crate::preflight) and for a [`SchemaLock`](crate::core::SchemaLock).
    fn save_registry(&self) -> Result<Registry>;

    /// Captures the world and triggers [`SaveStarting`] and [`SaveCaptured`]: observers may attach data and exclude entities.
    fn capture_with_events(&mut self, options: &SaveOptions) -> Result<Snapshot>;

    /// Saves to a file, which is replaced as a whole or not at all, and waits for it: in an app, for what was asked for before,
    /// too. [`SaveFinished`] tells observers how it went. The report has the [snapshot](SaveReport::snapshot).
    #[cfg(not(target_arch = "wasm32"))]
    fn save_to(&mut self, path: impl AsRef<Path>, options: &SaveOptions) -> Result<SaveReport>;

    /// Loads a snapshot. If this fails, the world is as it was. [`LoadFinished`] tells observers how it went. A
    /// [`LoadMode`](crate::LoadMode) will do as options.
    fn load(&mut self, snapshot: &Snapshot, options: impl Into<LoadOptions>) -> Result<Arc<Loaded>>;

    /// Loads a file: see [`load`](Self::load).
    #[cfg(not(target_arch = "wasm32"))]
    fn load_from(&mut self, path: impl AsRef<Path>, options: impl Into<LoadOptions>) -> Result<Arc<Loaded>>;

    /// Removes entities that may come back, such as those of a chunk, after they were saved. Each entity with a
    /// [`StableId`] becomes a [`StandIn`](crate::StandIn): references and relationships to it last, and lead to it again when it
    /// is loaded. It loses all other components, with their hooks and observers; the event `Despawn` does not happen. Entities
    /// without a [`StableId`] are despawned.
    ///
    /// Children that are part of saves stay, unless they are listed, too. Other children go with their parents.
    fn unload(&mut self, entities: impl IntoIterator<Item = Entity>) -> Result<()>;

    /// Spawns an entity with a stable id where references to it lead: it takes over the [`StandIn`](crate::StandIn), if there is
    /// one. A plain `spawn` leaves these references at the stand-in until what refers to it is saved and loaded again.
    fn spawn_stable(&mut self, id: StableId, bundle: impl Bundle) -> EntityWorldMut<'_>;

    /// Despawns the stand-ins to which no registered component, resource or relationship refers, and returns their number. It looks
    /// at all values that can refer to entities, so call it now and then, not in every frame. Without it, stand-ins stay.
    fn sweep_stand_ins(&mut self) -> Result<usize>;
}

impl WorldSaveExt for World {
    fn save_registry(&self) -> Result<Registry> {
        Ok(SaveRegistry::of(self)?.core.clone())
    }

    fn capture(&self, options: &SaveOptions) -> Result<Snapshot> {
        let registry = SaveRegistry::of(self)?;
        let added = &CaptureAdditions::default();
        capture(self, CaptureInput { registry: &registry, options, added }, Sharing::Alone)
            .map(|captured| captured.snapshot)
    }

    fn capture_with_events(&mut self, options: &SaveOptions) -> Result<Snapshot> {
        capture_with_events(self, options, None, None, None).map(|(snapshot, _)| snapshot)
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn save_to(&mut self, path: impl AsRef<Path>, options: &SaveOptions) -> Result<SaveReport> {
        let target = SaveTarget::from(path.as_ref());
        let mut options = options.clone();
        let encode = options.common.prepare_file();
        let result =
            capture_with_events(self, &options, Some(&target), None, None).and_then(|(snapshot, details)| {
                // Behind what was asked for before: an older save must not come last.
                if let Some(saver) = self.get_resource::<Saves>().map(|saves| saves.saver().clone()) {
                    let (target, encode) = (target.clone(), Some(encode));
                    let save = CapturedSave { target, snapshot: snapshot.clone(), details, encode };
                    return submit_save(&saver, save).wait().map(|report| (report, snapshot));
                }
                let rope = snapshot.encode(&encode)?;
                bonfire_store::write(path.as_ref(), &rope)?;
                let mut report = SaveReport::new(target.clone(), rope.len() as u64, snapshot.entity_count());
                report.notes = snapshot.notes().to_vec();
                Ok((report, snapshot))
            });
        let told = result.as_ref().map(|(report, _)| report.clone()).map_err(Clone::clone);
        self.trigger(SaveFinished { target, result: told });
        result.map(|(mut report, snapshot)| {
            report.snapshot = Some(snapshot);
            report
        })
    }

    fn load(&mut self, snapshot: &Snapshot, options: impl Into<LoadOptions>) -> Result<Arc<Loaded>> {
        load_with_events(self, None, Ok(snapshot), options.into())
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn load_from(&mut self, path: impl AsRef<Path>, options: impl Into<LoadOptions>) -> Result<Arc<Loaded>> {
        let (path, options) = (path.as_ref(), options.into());
        let snapshot = bonfire_store::read(path, &options.limits.clone().unwrap_or_default());
        load_with_events(self, Some(path.into()), snapshot.as_ref().map_err(Clone::clone), options)
    }

    fn unload(&mut self, entities: impl IntoIterator<Item = Entity>) -> Result<()> {
        unload::unload(self, entities)
    }

    fn spawn_stable(&mut self, id: StableId, bundle: impl Bundle) -> EntityWorldMut<'_> {
        unload::spawn_stable(self, id, bundle)
    }

    fn sweep_stand_ins(&mut self) -> Result<usize> {
        unload::sweep(self)
    }
}

/// Saving and loading, as [`Commands`]. In an app with [`BonfirePlugin`](crate::BonfirePlugin) this is what [`Saves`](crate::Saves) does:
/// requests are done at the end of the tick, in their order, and no call waits. In a world without it they are done when the commands
/// are applied. Failures are logged, and [`SaveFinished`] and [`LoadFinished`] tell observers of them.
///
/// A text is the name of a slot; for files there are [`save_to`](Self::save_to) and [`load_from`](Self::load_from), for stores
/// [`SaveTarget::blob`].
pub trait CommandsSaveExt {
    /// Saves at the end of this tick.
    fn save(&mut self, target: impl Into<SaveTarget>) -> SaveHandle {
        self.save_with(target, SaveOptions::new())
    }
    /// The same, with options.
    fn save_with(&mut self, target: impl Into<SaveTarget>, options: SaveOptions) -> SaveHandle;
    /// Saves to a file, which is replaced as a whole or not at all.
    #[cfg(not(target_arch = "wasm32"))]
    fn save_to(&mut self, path: impl Into<PathBuf>) -> SaveHandle {
        self.save(path.into())
    }
    /// Loads the newest good save of a slot, or the save at a path or in a store, in the place of what is there.
    fn load(&mut self, source: impl Into<LoadSource>) -> LoadHandle {
        self.load_with(source, LoadOptions::new())
    }
    /// The same, with a choice of how.
    fn load_with(&mut self, source: impl Into<LoadSource>, options: impl Into<LoadOptions>) -> LoadHandle;
    /// Loads a file in the place of what is there.
    #[cfg(not(target_arch = "wasm32"))]
    fn load_from(&mut self, path: impl Into<PathBuf>) -> LoadHandle {
        self.load(path.into())
    }
    /// Deletes all saves of a slot that are not locked.
    fn delete_saves(&mut self, slot: impl Into<String>) -> Handle<u64>;
    /// Deletes the saves of a slot and begins again: see [`Saves::start_over`](crate::Saves::start_over).
    fn start_over(&mut self, slot: impl Into<String>) -> Handle<u64>;
}

impl CommandsSaveExt for Commands<'_, '_> {
    fn save_with(&mut self, target: impl Into<SaveTarget>, options: SaveOptions) -> SaveHandle {
        let (promise, handle) = Promise::new();
        let (target, asked) = (target.into(), handle.clone());
        self.queue(move |world: &mut World| {
            live::request(world, |saves| saves.request_save(target, options, promise, asked));
        });
        handle
    }

    fn load_with(&mut self, source: impl Into<LoadSource>, options: impl Into<LoadOptions>) -> LoadHandle {
        let (promise, handle) = Promise::new();
        let (source, options) = (source.into(), Box::new(options.into()));
        self.queue(move |world: &mut World| {
            live::request(world, |saves| saves.request(Request::Load { source, options, promise }));
        });
        handle
    }

    fn delete_saves(&mut self, slot: impl Into<String>) -> Handle<u64> {
        let (promise, handle) = Promise::new();
        let slot = slot.into();
        self.queue(move |world: &mut World| {
            live::request(world, |saves| saves.request(Request::DeleteSaves { slot, promise }));
        });
        handle
    }

    fn start_over(&mut self, slot: impl Into<String>) -> Handle<u64> {
        let (promise, handle) = Promise::new();
        let slot = slot.into();
        self.queue(move |world: &mut World| {
            live::request(world, |saves| saves.request(Request::StartOver { slot, promise }));
        });
        handle
    }
}

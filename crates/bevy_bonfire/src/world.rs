//! What is called to save and load: on a world, and as commands.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bevy_ecs::system::Commands;
use bevy_ecs::world::World;
use bonfire::{Compression, LoadOptions, Registry, Result, Snapshot};

use crate::SaveOptions;
use crate::capture::{Sharing, capture};
use crate::event::{Additions, LoadFinished, SaveCaptured, SaveFinished, SaveStarting, SaveSummary};
use crate::load::{self, LoadMode, Loaded};
use crate::registry::SaveRegistry;

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
/// let snapshot = world.save(&SaveOptions::new())?;
/// world.query::<&mut Health>().single_mut(&mut world)?.0 = 0.0;
/// world.load(&snapshot, LoadMode::Replace)?;
/// assert_eq!(world.query::<&Health>().single(&world)?.0, 3.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait WorldSaveExt {
    /// Captures the world and nothing else: no observer runs. All memory that it needs comes from a pool and goes back
    /// there with the snapshot.
    fn capture(&self, options: &SaveOptions) -> Result<Snapshot>;

    /// What is registered, for [`preflight`](crate::preflight) and for a [`SchemaLock`](crate::SchemaLock).
    fn save_registry(&self) -> Result<Registry>;

    /// Captures the world, with the observers of [`SaveStarting`] and [`SaveCaptured`].
    fn save(&mut self, options: &SaveOptions) -> Result<Snapshot>;

    /// Saves to a file, which is replaced as a whole or not at all. [`SaveFinished`] tells observers how it went.
    fn save_to(&mut self, path: impl AsRef<Path>, options: &SaveOptions) -> Result<SaveSummary>;

    /// Loads a snapshot. If this fails, the world is as it was. [`LoadFinished`] tells observers how it went.
    fn load(&mut self, snapshot: &Snapshot, mode: LoadMode) -> Result<Arc<Loaded>> {
        self.load_with(snapshot, mode, LoadOptions::default())
    }

    /// Loads a snapshot, with a choice for what is unknown and for references to nothing.
    fn load_with(&mut self, snapshot: &Snapshot, mode: LoadMode, options: LoadOptions)
    -> Result<Arc<Loaded>>;

    /// Loads a file. If this fails, the world is as it was.
    fn load_from(&mut self, path: impl AsRef<Path>, mode: LoadMode) -> Result<Arc<Loaded>> {
        self.load_from_with(path, mode, LoadOptions::default())
    }

    /// Loads a file, with a choice for what is unknown and for references to nothing.
    fn load_from_with(
        &mut self,
        path: impl AsRef<Path>,
        mode: LoadMode,
        options: LoadOptions,
    ) -> Result<Arc<Loaded>>;
}

impl WorldSaveExt for World {
    fn save_registry(&self) -> Result<Registry> {
        Ok(SaveRegistry::of(self)?.registry.clone())
    }

    fn capture(&self, options: &SaveOptions) -> Result<Snapshot> {
        let registry = SaveRegistry::of(self)?;
        capture(self, &registry, options, &Additions::default(), &Sharing::Alone)
            .map(|capture| capture.snapshot)
    }

    fn save(&mut self, options: &SaveOptions) -> Result<Snapshot> {
        self.flush();
        options.selection.prepare(self);
        let mut starting = SaveStarting::default();
        self.trigger_ref(&mut starting);
        self.flush();
        let (registry, added) = (SaveRegistry::of(self)?, starting.finish(self)?);
        let capture = capture(self, &registry, options, &added, &Sharing::Alone)?;
        self.trigger(SaveCaptured {
            prelude: capture.snapshot.prelude(),
            notes: capture.snapshot.notes().to_vec(),
            unregistered: capture.unregistered,
        });
        Ok(capture.snapshot)
    }

    fn save_to(&mut self, path: impl AsRef<Path>, options: &SaveOptions) -> Result<SaveSummary> {
        let path = path.as_ref().to_owned();
        let mut options = options.clone();
        options.checksums = options.encode.compression == Compression::None;
        let result = self.save(&options).and_then(|snapshot| {
            let rope = snapshot.encode(&options.encode)?;
            bonfire_store::write(&path, &rope)?;
            Ok(SaveSummary { bytes: rope.len() as u64, entities: snapshot.entity_count() })
        });
        self.trigger(SaveFinished { path, result: result.clone() });
        result
    }

    fn load_with(
        &mut self,
        snapshot: &Snapshot,
        mode: LoadMode,
        options: LoadOptions,
    ) -> Result<Arc<Loaded>> {
        let result = load::load(self, snapshot, mode, options).map(Arc::new);
        finish(self, None, result)
    }

    fn load_from_with(
        &mut self,
        path: impl AsRef<Path>,
        mode: LoadMode,
        options: LoadOptions,
    ) -> Result<Arc<Loaded>> {
        let path = path.as_ref();
        let result = bonfire_store::read(path, &options.limits)
            .and_then(|snapshot| load::load(self, &snapshot, mode, options))
            .map(Arc::new);
        finish(self, Some(path.to_owned()), result)
    }
}

fn finish(world: &mut World, path: Option<PathBuf>, result: Result<Arc<Loaded>>) -> Result<Arc<Loaded>> {
    world.trigger(LoadFinished { path, result: result.clone() });
    result
}

/// Saving and loading, as [`Commands`]: done when the commands are applied. Failures are logged, and
/// [`SaveFinished`] and [`LoadFinished`] tell observers of them.
pub trait CommandsSaveExt {
    /// Saves to a file: see [`WorldSaveExt::save_to`].
    fn save_to(&mut self, path: impl Into<PathBuf>) {
        self.save_to_with(path, SaveOptions::new());
    }
    /// Saves to a file, with options.
    fn save_to_with(&mut self, path: impl Into<PathBuf>, options: SaveOptions);
    /// Loads a file in the place of what is saved now: see [`WorldSaveExt::load_from`].
    fn load_from(&mut self, path: impl Into<PathBuf>) {
        self.load_from_with(path, LoadMode::Replace, LoadOptions::default());
    }
    /// Loads a file in this mode, with options.
    fn load_from_with(&mut self, path: impl Into<PathBuf>, mode: LoadMode, options: LoadOptions);
}

impl CommandsSaveExt for Commands<'_, '_> {
    fn save_to_with(&mut self, path: impl Into<PathBuf>, options: SaveOptions) {
        let path = path.into();
        self.queue(move |world: &mut World| {
            if let Err(error) = world.save_to(&path, &options) {
                log::error!("the save to `{}` failed: {error}", path.display());
            }
        });
    }

    fn load_from_with(&mut self, path: impl Into<PathBuf>, mode: LoadMode, options: LoadOptions) {
        let path = path.into();
        self.queue(move |world: &mut World| {
            if let Err(error) = world.load_from_with(&path, mode, options) {
                log::error!("the load of `{}` failed: {error}", path.display());
            }
        });
    }
}

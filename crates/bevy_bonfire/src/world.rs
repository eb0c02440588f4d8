//! What is called to save and load: on a world, and as commands.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bevy_ecs::system::Commands;
use bevy_ecs::world::World;
use bonfire::{Compression, Delta, LoadOptions, Registry, Result, Snapshot};
use bonfire_store::engine::{Promise, SaveRequest, submit_save};
use bonfire_store::{Details, Handle, LoadSource, SaveHandle, SaveReport, SaveTarget};

use crate::capture::{Sharing, capture};
use crate::event::{Additions, LoadFinished, SaveCaptured, SaveFinished, SaveStarting};
use crate::live::{self, LoadHandle, LoadSettings, Request};
use crate::load::{self, LoadMode, Loaded};
use crate::registry::SaveRegistry;
use crate::{DeltaCapture, IncrementalCapture, SaveOptions, Saves};

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

    /// Saves to a file, which is replaced as a whole or not at all, and waits for it: in an app, for what was asked for before,
    /// too. [`SaveFinished`] tells observers how it went.
    fn save_to(&mut self, path: impl AsRef<Path>, options: &SaveOptions) -> Result<SaveReport>;

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
        capture(self, &registry, options, &Additions::default(), Sharing::Alone)
            .map(|capture| capture.snapshot)
    }

    fn save(&mut self, options: &SaveOptions) -> Result<Snapshot> {
        save_world(self, options, None, None, None).map(|(snapshot, _)| snapshot)
    }

    fn save_to(&mut self, path: impl AsRef<Path>, options: &SaveOptions) -> Result<SaveReport> {
        let target = SaveTarget::from(path.as_ref());
        let mut options = options.clone();
        let encode = options.encode.clone().unwrap_or_default();
        options.checksums = encode.compression == Compression::None;
        let result = save_world(self, &options, Some(&target), None, None).and_then(|(snapshot, details)| {
            // Behind what was asked for before: an older save must not come last.
            if let Some(saver) = self.get_resource::<Saves>().map(|saves| saves.saver().clone()) {
                let (promise, handle) = Promise::new();
                submit_save(
                    &saver,
                    SaveRequest {
                        target: target.clone(),
                        snapshot,
                        details,
                        encode: Some(encode),
                        promises: vec![promise],
                    },
                );
                return handle.wait();
            }
            let rope = snapshot.encode(&encode)?;
            bonfire_store::write(path.as_ref(), &rope)?;
            Ok(SaveReport::new(target.clone(), rope.len() as u64, snapshot.entity_count()))
        });
        self.trigger(SaveFinished { target, result: result.clone() });
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
        finish(self, Some(path.into()), result)
    }
}

fn finish(world: &mut World, source: Option<LoadSource>, result: Result<Arc<Loaded>>) -> Result<Arc<Loaded>> {
    world.trigger(LoadFinished { source, skipped: Vec::new(), result: result.clone() });
    result
}

/// Captures a world with its observers: over the last capture, if there is one. Returns what a menu shall show of it, too.
pub(crate) fn save_world(
    world: &mut World,
    options: &SaveOptions,
    target: Option<&SaveTarget>,
    captures: Option<&mut IncrementalCapture>,
    follow: Option<&mut DeltaCapture>,
) -> Result<(Snapshot, Details)> {
    let span = tracing::info_span!("bonfire.capture", entities = tracing::field::Empty);
    let _in_span = span.enter();
    world.flush();
    options.selection.prepare(world);
    let mut starting = SaveStarting::new(target.cloned(), options.details.clone());
    world.trigger_ref(&mut starting);
    world.flush();
    let details = std::mem::take(&mut starting.details);
    let added = starting.finish(world)?;
    let now = world.change_tick();
    let captured = match captures {
        Some(captures) => captures.capture_with(world, options, &added)?,
        None => {
            let registry = SaveRegistry::of(world)?;
            capture(world, &registry, options, &added, Sharing::Alone)?
        }
    };
    if let Some(deltas) = follow {
        deltas.follow_capture(world, options, &added, &captured.snapshot, now)?;
    }
    span.record("entities", captured.snapshot.entity_count());
    world.trigger(SaveCaptured {
        prelude: captured.snapshot.prelude(),
        notes: captured.snapshot.notes().to_vec(),
        unregistered: captured.unregistered,
    });
    Ok((captured.snapshot, details))
}

/// What has changed since a capture, with what observers add to it.
pub(crate) fn save_changes(
    world: &mut World,
    options: &SaveOptions,
    target: &SaveTarget,
    deltas: &mut DeltaCapture,
) -> Result<Delta> {
    let span = tracing::info_span!("bonfire.changes");
    let _in_span = span.enter();
    world.flush();
    let mut starting = SaveStarting::new(Some(target.clone()), options.details.clone());
    world.trigger_ref(&mut starting);
    world.flush();
    let added = starting.finish(world)?;
    deltas.changes_with(world, options, &added)
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
    fn save_to(&mut self, path: impl Into<PathBuf>) -> SaveHandle {
        self.save(path.into())
    }
    /// Loads the newest good save of a slot, or the save at a path or in a store, in the place of what is there.
    fn load(&mut self, source: impl Into<LoadSource>) -> LoadHandle {
        self.load_with(source, LoadSettings::new())
    }
    /// The same, with a choice of how.
    fn load_with(&mut self, source: impl Into<LoadSource>, settings: LoadSettings) -> LoadHandle;
    /// Loads a file in the place of what is there.
    fn load_from(&mut self, path: impl Into<PathBuf>) -> LoadHandle {
        self.load(path.into())
    }
    /// Removes all saves of a slot that are not locked.
    fn delete_save(&mut self, slot: impl Into<String>) -> Handle<u64>;
    /// Removes the saves of a slot and begins again: see [`Saves::start_over`](crate::Saves::start_over).
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

    fn load_with(&mut self, source: impl Into<LoadSource>, settings: LoadSettings) -> LoadHandle {
        let (promise, handle) = Promise::new();
        let (source, settings) = (source.into(), Box::new(settings));
        self.queue(move |world: &mut World| {
            live::request(world, |saves| saves.request(Request::Load { source, settings, promise }));
        });
        handle
    }

    fn delete_save(&mut self, slot: impl Into<String>) -> Handle<u64> {
        let (promise, handle) = Promise::new();
        let slot = slot.into();
        self.queue(move |world: &mut World| {
            live::request(world, |saves| saves.request(Request::Remove { slot, promise }));
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

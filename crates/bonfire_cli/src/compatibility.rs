//! What the build that a schema lock describes would do with a save.
//!
//! A lock has schemas and no code. So there are three answers for a component: it loads, it cannot be loaded, or it is of an
//! older version, and only the game has the steps from there.

use std::path::Path;
use std::{fmt, io};

use bonfire::engine::{LoadPlan, Resolution};
use bonfire::{Error, LoadOptions, Preflight, Registry, SchemaLock, Snapshot, TrackState, preflight};

use crate::escape::{escaped, escaped_path, visible};
use crate::exit::{Exit, Failure};
use crate::file::{OnDamage, SaveFile};
use crate::output::Output;

pub(crate) struct Compatibility {
    /// What is said about everything that loads.
    loaded: Preflight,
    /// Why something cannot be loaded.
    pub(crate) errors: Vec<Error>,
    /// What is of an older version.
    pub(crate) steps: Vec<MissingStep>,
    /// World migrations that the save needs: track, version of the save, version that worlds must have.
    pub(crate) worlds: Vec<(String, u32, u32)>,
    unknown_tracks: Vec<(String, u32)>,
}

/// A component that only the game can bring to the version of the lock.
pub(crate) struct MissingStep {
    pub(crate) key: String,
    pub(crate) saved: u32,
    pub(crate) known: u32,
}

impl fmt::Display for MissingStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, saved, known } = self;
        write!(f, "`{}`: version {saved}, and the lock has version {known}", escaped(key))
    }
}

impl Compatibility {
    /// Holds the schemas of a save against those of a build.
    fn of(file: &SaveFile, build: &Build) -> Result<Self, Error> {
        let registry = &build.registry;
        let mut loaded = preflight(file.bytes(), registry)?;
        let unknown_tracks = std::mem::take(&mut loaded.tracks).into_iter();
        let unknown_tracks = unknown_tracks.filter_map(|(name, state)| match state {
            TrackState::Missing(version) => Some((name, version)),
            _ => None,
        });
        let unknown_tracks = unknown_tracks.collect();
        let (mut errors, mut steps) = (Vec::from_iter(loaded.migration.take()), Vec::new());
        // In both lists components have the same order, but carried fields are in one only.
        let mut saved = std::mem::take(&mut loaded.prelude.components).into_iter();
        for (key, resolution) in std::mem::take(&mut loaded.components) {
            let version = saved.find(|component| component.key == key).map(|component| component.version);
            let known = registry.index_of_saved(&key).map(|number| registry.descriptors()[number].version());
            match (resolution, version, known) {
                (Err(_), Some(saved), Some(known)) if saved < known => {
                    steps.push(MissingStep { key, saved, known });
                }
                (Err(error), ..) => errors.push(error),
                // A lock knows nothing of memory, so each layout is another than its own.
                (Ok(Resolution::OtherLayout(target)), ..) => {
                    loaded.components.push((key, Ok(Resolution::Same(target))));
                }
                (Ok(resolution), ..) => loaded.components.push((key, Ok(resolution))),
            }
        }
        Ok(Self { loaded, errors, steps, worlds: Vec::new(), unknown_tracks })
    }

    /// Reads every value that schemas allow to read: one may be of a variant that is no more.
    pub(crate) fn read_values(&mut self, snapshot: &Snapshot, registry: &Registry) -> Result<(), Error> {
        let mut readable = Registry::new();
        let target = |key: &str| registry.index_of_saved(key);
        let steps = self.steps.iter().filter_map(|step| target(&step.key));
        let unreadable: Vec<usize> =
            steps.chain(self.errors.iter().filter_map(|error| target(error.key()?))).collect();
        for (number, descriptor) in registry.descriptors().iter().enumerate() {
            if !unreadable.contains(&number) {
                readable.add(descriptor.clone())?;
            }
        }
        let read = || {
            let plan = LoadPlan::new(snapshot, &readable, LoadOptions::default())?;
            plan.stage(&plan.same_entities()?, None).map(drop)
        };
        self.errors.extend(read().err());
        Ok(())
    }

    pub(crate) fn exit(&self) -> Exit {
        let needs_game = !(self.steps.is_empty() && self.worlds.is_empty());
        Exit::worst(self.errors.iter().map(Exit::of).chain(needs_game.then_some(Exit::NeedsGame)))
    }

    fn verdict(&self) -> &'static str {
        match self.exit() {
            Exit::Fine => "loads",
            Exit::NeedsGame => "loads, as far as can be told without the game",
            Exit::NewerFormat => "is newer than the lock",
            _ => "cannot be loaded",
        }
    }

    pub(crate) fn print(&self, path: &Path, out: &mut Output) -> io::Result<()> {
        out.line(format_args!("{}: {}", escaped_path(path), self.verdict()))?;
        out.lines(&self.loaded)?;
        for error in &self.errors {
            out.line(format_args!("cannot be loaded: {}", visible(&error.to_string())))?;
        }
        for step in &self.steps {
            out.line(format_args!(
                "needs the game: {step}. The steps between them are code of the game, so load it there"
            ))?;
        }
        for world in &self.worlds {
            out.line(format_args!("needs the game: {}", pending(world)))?;
        }
        self.print_unknown_tracks(out)
    }

    /// What a lock that does not know a version line cannot say about it.
    pub(crate) fn print_unknown_tracks(&self, out: &mut Output) -> io::Result<()> {
        for (name, version) in &self.unknown_tracks {
            let name = escaped(name);
            out.line(format_args!(
                "track `{name}`: stays at version {version}. World migrations, if it needs any, run when the game loads it"
            ))?;
        }
        Ok(())
    }
}

/// What is said about a world that only the game can migrate.
pub(crate) fn pending((name, saved, needed): &(String, u32, u32)) -> String {
    let name = escaped(name);
    format!(
        "track `{name}`: version {saved}, and worlds below version {needed} are migrated by code of the game"
    )
}

/// The build that a lock describes.
pub(crate) struct Build {
    pub(crate) lock: SchemaLock,
    pub(crate) registry: Registry,
}

/// Opens a save for a build, with what that build would do.
pub(crate) fn open(path: &Path, build: &Build) -> Result<(Snapshot, Compatibility), Failure> {
    let damaged = |error: Error| Failure::whole_save(path, error);
    let file = SaveFile::read(path)?;
    let mut fit = Compatibility::of(&file, build).map_err(damaged)?;
    let snapshot = file.open(OnDamage::Fail).map_err(damaged)?.base;
    fit.worlds = build.lock.pending_migrations(&snapshot);
    Ok((snapshot, fit))
}

//! What a load would do, without a world: for menus that want to say "needs mod X" before the player waits.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use crate::error::{Error, Result};
use crate::evolve::{Resolution, resolve};
use crate::migration::{self, TrackState};
use crate::registry::Registry;
use crate::snapshot::carry::CarryKind;
use crate::snapshot::{OpenOptions, Prelude};
use crate::value::Value;

/// What a load of some bytes would do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Preflight {
    /// What the save holds.
    pub prelude: Prelude,
    /// What the game wrote about the save.
    pub metadata: Vec<(String, Value)>,
    /// Each component and what would happen to it.
    pub components: Vec<(String, Result<Resolution>)>,
    /// The keys of the data section.
    pub data: Vec<String>,
    /// The version lines of the game and its plugins.
    pub tracks: Vec<(String, TrackState)>,
    /// Why the save cannot be migrated, if it cannot.
    pub migration: Option<Error>,
}

impl Preflight {
    /// Whether a load with default options would succeed, as far as schemas go.
    pub fn is_loadable(&self) -> bool {
        self.errors().next().is_none()
    }
    /// Components that are not registered: they would be carried.
    pub fn unknown(&self) -> impl Iterator<Item = &str> {
        let unknown = |resolution: &Result<Resolution>| matches!(resolution, Ok(Resolution::Unknown));
        self.components.iter().filter(move |(_, resolution)| unknown(resolution)).map(|(key, _)| &**key)
    }
    /// Why a load would fail.
    pub fn errors(&self) -> impl Iterator<Item = &Error> {
        self.migration
            .iter()
            .chain(self.components.iter().filter_map(|(_, resolution)| resolution.as_ref().err()))
    }
    /// Version lines of plugins that this build does not have.
    pub fn missing_tracks(&self) -> impl Iterator<Item = &str> {
        self.tracks_that(|state| matches!(state, TrackState::Missing(_)))
    }
    /// Version lines that are newer in the save than in this build.
    pub fn newer_tracks(&self) -> impl Iterator<Item = &str> {
        self.tracks_that(|state| matches!(state, TrackState::Newer { .. }))
    }
    fn tracks_that(&self, is: impl Fn(&TrackState) -> bool) -> impl Iterator<Item = &str> {
        self.tracks.iter().filter(move |(_, state)| is(state)).map(|(name, _)| &**name)
    }
}

impl fmt::Display for Preflight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Prelude { entity_count, archetype_count, .. } = &self.prelude;
        let entities = if *entity_count == 1 { "entity" } else { "entities" };
        let archetypes = if *archetype_count == 1 { "archetype" } else { "archetypes" };
        writeln!(f, "{entity_count} {entities} in {archetype_count} {archetypes}")?;
        for (name, state) in &self.tracks {
            writeln!(f, "track `{}`: {state}", name.escape_debug())?;
        }
        self.migration.iter().try_for_each(|error| writeln!(f, "{error}"))?;
        for (key, resolution) in &self.components {
            let key = key.escape_debug();
            match resolution {
                Ok(Resolution::Same(_)) => writeln!(f, "`{key}`: loads as it is")?,
                Ok(Resolution::OtherLayout(_)) => writeln!(f, "`{key}`: loads field by field")?,
                Ok(Resolution::ByName { .. }) => writeln!(f, "`{key}`: loads by name")?,
                Ok(Resolution::Upgraded { version, steps, .. }) => {
                    let s = if *steps == 1 { "" } else { "s" };
                    writeln!(f, "`{key}`: loads from version {version} in {steps} step{s}")?;
                }
                Ok(Resolution::Transient(_)) => writeln!(f, "`{key}`: dropped, transient in this build")?,
                Ok(Resolution::Unknown) => writeln!(f, "`{key}`: not registered, carried for the next save")?,
                Err(error) => writeln!(f, "{error}")?,
            }
            for change in resolution.iter().flat_map(Resolution::changes) {
                writeln!(f, "    {change}")?;
            }
        }
        Ok(())
    }
}

/// Opens bytes and says what a load would do. Fails only if the bytes cannot be opened.
///
/// ```
/// # use bonfire::engine::*;
/// # use bonfire::*;
/// # use bonfire::engine::*;
/// # let registry = Registry::new();
/// # let bytes = SnapshotWriter::new(&registry).finish()?.encode(&Default::default())?.to_vec();
/// let preflight = bonfire::preflight(&bytes, &registry)?;
/// for key in preflight.unknown() {
///     println!("made with a mod that you do not have: {key}");
/// }
/// # Ok::<(), bonfire::Error>(())
/// ```
pub fn preflight(bytes: &[u8], registry: &Registry) -> Result<Preflight> {
    let snapshot = OpenOptions::new().registry(registry).open(bytes)?;
    let (prelude, tracks) = (snapshot.prelude(), migration::compare(&snapshot, registry.tracks()));
    let (snapshot, migration) = match snapshot.migrated(registry) {
        Ok(migrated) => (migrated, None),
        Err(error) => (Cow::Borrowed(&snapshot), Some(error)),
    };
    let fields = snapshot.carried.iter().filter(|record| record.kind == CarryKind::Fields);
    let fields: HashSet<usize> = fields.map(|record| record.column.component as usize).collect();
    let components = (snapshot.components().iter().enumerate())
        .filter(|(number, _)| !fields.contains(number))
        .map(|(_, component)| component)
        .map(|component| {
            let resolution = resolve(component, registry).map(|(resolution, _)| resolution);
            (component.key.clone(), resolution)
        })
        .collect();
    Ok(Preflight {
        prelude,
        metadata: snapshot.metadata().to_vec(),
        components,
        data: snapshot.data().iter().map(|entry| entry.key().to_owned()).collect(),
        tracks,
        migration,
    })
}

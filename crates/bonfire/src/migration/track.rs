//! Version lines of the game and of its plugins, and the functions that bring whole worlds from one version to a later one.
//!
//! A save lists the tracks of the build that made it. Each track migrates on its own, in the order in which tracks are
//! registered. A version that no migration begins or ends at is a release that changed nothing about worlds.

use std::fmt;
use std::sync::Arc;

use super::world_edit::WorldEdit;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::snapshot::{Snapshot, TRACKS, tracks_to_value};

type Migrate = dyn Fn(&mut WorldEdit) -> Result<()> + Send + Sync;

/// A version line: of the game, of a mod, of a crate that saves state.
#[derive(Clone)]
pub(crate) struct Track {
    pub(crate) name: String,
    pub(crate) version: u32,
    migrations: Vec<Migration>,
}

#[derive(Clone)]
struct Migration {
    from: u32,
    to: u32,
    migrate: Arc<Migrate>,
}

impl fmt::Debug for Track {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// What a save and a build say about a version line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrackState {
    /// Both are at this version.
    Same(u32),
    /// The save is older, and is migrated if there is something to migrate.
    #[expect(missing_docs, reason = "see above")]
    Older { saved: u32, known: u32 },
    /// The save is newer: it needs an update of the game, or of the mod.
    #[expect(missing_docs, reason = "see above")]
    Newer { saved: u32, known: u32 },
    /// This build does not have the track: a mod is missing. What is its own is carried.
    Missing(u32),
    /// The save does not have the track: it was made without the mod.
    New(u32),
}

impl fmt::Display for TrackState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same(version) => write!(f, "version {version}"),
            Self::Older { saved, known } => write!(f, "version {saved}, this build has {known}"),
            Self::Newer { saved, known } => write!(f, "version {saved} is newer than this build ({known})"),
            Self::Missing(version) => write!(f, "version {version}, not part of this build"),
            Self::New(version) => write!(f, "version {version}, not part of the save"),
        }
    }
}

impl Track {
    pub(crate) fn new(name: &str, version: u32) -> Self {
        Self { name: name.to_owned(), version, migrations: Vec::new() }
    }

    pub(crate) fn add(&mut self, from: u32, to: u32, migrate: Arc<Migrate>) -> Result<()> {
        let (name, version) = (&self.name, self.version);
        if from >= to || to > version {
            return Err(Error::misuse(format!(
                "the migration of `{name}` from version {from} to version {to} leads nowhere: it must lead to a later \
                 version, at most {version}"
            )));
        }
        if self.migrations.iter().any(|known| (known.from, known.to) == (from, to)) {
            return Err(Error::misuse(format!(
                "there are two migrations of `{name}` from version {from} to version {to}: keep one"
            )));
        }
        self.migrations.push(Migration { from, to, migrate });
        Ok(())
    }

    /// The version that the last migration leads to; 0 if there is none.
    pub(crate) fn last_migration(&self) -> u32 {
        self.migrations.iter().map(|migration| migration.to).max().unwrap_or(0)
    }

    fn check_version(&self, saved: Option<u32>) -> Result<()> {
        let Self { name, version, .. } = self;
        match saved {
            Some(saved) if saved > *version => Err(Error::newer_format(format!(
                "the save has version {saved} of `{name}`, which is newer than this build ({version}): update it"
            ))),
            _ => Ok(()),
        }
    }

    /// The migrations that a save of some version needs, in order. One without the track begins at 0.
    fn path(&self, saved: Option<u32>) -> Result<Vec<&Migration>> {
        let mut at = saved.unwrap_or(0);
        let mut path = Vec::new();
        while at < self.version {
            // From the nearest version on that something begins at; of those, the one that leads farthest.
            let ahead = self.migrations.iter().filter(|migration| migration.from >= at);
            let next = ahead.min_by_key(|migration| (migration.from, u32::MAX - migration.to));
            let start = next.map_or(self.version, |migration| migration.from);
            // Something that leads over this version without stopping changed more than we can make up for.
            let over = |migration: &&Migration| migration.from < at && migration.to > at;
            if let Some(Migration { from, to, .. }) = self.migrations.iter().find(over)
                && start != at
            {
                let name = &self.name;
                return Err(Error::schema(format!(
                    "no migration of `{name}` begins at version {at}, and the one from {from} to {to} leads over it"
                )));
            }
            let Some(next) = next else { break };
            path.push(next);
            at = next.to;
        }
        Ok(path)
    }
}

/// What a save says about each track, and what the build says.
pub(crate) fn compare(snapshot: &Snapshot, tracks: &[Track]) -> Vec<(String, TrackState)> {
    let mut saved = snapshot.tracks();
    let state = |track: &Track, saved: Option<u32>| match saved {
        None => TrackState::New(track.version),
        Some(saved) if saved == track.version => TrackState::Same(saved),
        Some(saved) if saved < track.version => TrackState::Older { saved, known: track.version },
        Some(saved) => TrackState::Newer { saved, known: track.version },
    };
    let mut states: Vec<_> =
        tracks.iter().map(|track| (track.name.clone(), state(track, saved.remove(&track.name)))).collect();
    states.extend(saved.into_iter().map(|(name, version)| (name, TrackState::Missing(version))));
    states
}

/// Runs all migrations that a save needs. Nothing if it needs none.
pub(crate) fn migrate(snapshot: &Snapshot, tracks: &[Track], limits: &Limits) -> Result<Option<Snapshot>> {
    let saved = snapshot.tracks();
    let mut edit: Option<WorldEdit> = None;
    for track in tracks {
        let version = saved.get(&track.name).copied();
        track.check_version(version)?;
        for Migration { from, to, migrate } in track.path(version)? {
            let edit = edit.get_or_insert_with(|| WorldEdit::new(snapshot.clone(), limits));
            migrate(edit).map_err(|error| error.in_migration(&track.name, *from, *to))?;
        }
    }
    let Some(edit) = edit else { return Ok(None) };
    let mut migrated = edit.finish()?;
    let mut versions = migrated.tracks();
    versions.extend(tracks.iter().map(|track| (track.name.clone(), track.version)));
    migrated.set_metadata(TRACKS, tracks_to_value(&versions));
    Ok(Some(migrated))
}

/// Whether a save needs migrations.
pub(crate) fn is_needed(snapshot: &Snapshot, tracks: &[Track]) -> Result<bool> {
    let saved = snapshot.tracks();
    for track in tracks {
        let version = saved.get(&track.name).copied();
        track.check_version(version)?;
        if !track.path(version)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

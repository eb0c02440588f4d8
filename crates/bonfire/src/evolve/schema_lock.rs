//! Every schema that was ever released, in a text file that the game commits: a change that old saves cannot follow fails a
//! test of the game, and not a player's load.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use super::resolve;
use super::schema_lock_path::{defaults, names, paths};
use super::schema_lock_text::rules;
use crate::column::{ColumnKind, Component};
use crate::context::SchemaChange;
use crate::convert::Conversion;
use crate::descriptor::{Descriptor, StepKind};
use crate::error::{Error, Result};
use crate::registry::Registry;
use crate::row::RowLayout;
use crate::schema::Schema;
use crate::snapshot::Snapshot;

/// The schemas of all releases of a game.
///
/// The usual way to it is a test of the game's own, with the file next to its `Cargo.toml`:
///
/// ```
/// # use bonfire::{Persist, Registry, SchemaLock};
/// # #[derive(Persist)]
/// # #[persist(key = "game.settings")]
/// # struct Settings { volume: f32 }
/// # let registry = Registry::new().with::<Settings>()?;
/// # let mut text = String::new();
/// let mut lock = SchemaLock::parse(&text)?;
/// lock.add(&registry)?; // before a release
/// text = lock.to_string();
///
/// SchemaLock::parse(&text)?.check(&registry)?; // in every test run
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct SchemaLock {
    pub(super) keys: BTreeMap<String, LockedKey>,
    pub(super) tracks: BTreeMap<String, LockedTrack>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LockedTrack {
    pub(super) version: u32,
    /// Older worlds than this need migrations, which are code of the game.
    pub(super) migrated: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct LockedKey {
    /// It is knowingly no more.
    pub(super) removed: bool,
    pub(super) aliases: Vec<String>,
    /// Names that were gone and knowingly came back.
    pub(super) returned: Vec<String>,
    /// The oldest first.
    pub(super) schemas: Vec<Locked>,
}

#[derive(Clone, Debug)]
pub(super) struct Locked {
    pub(super) version: u32,
    pub(super) schema: Arc<Schema>,
}

/// Something that a build does to old saves, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockProblem {
    /// The component.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// The line that says that it is meant, and where it goes.
    pub cure: String,
}

impl fmt::Display for LockProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, message, cure } = self;
        write!(f, "`{}`: {message}\n    {cure}", key.escape_debug())
    }
}

impl SchemaLock {
    /// The schemas of a save, without what it carries for others.
    pub fn of_snapshot(snapshot: &Snapshot) -> Result<Self> {
        let carried: BTreeSet<u32> = snapshot.carried.iter().map(|record| record.column.component).collect();
        let mut lock = Self::default();
        for (component, number) in snapshot.components().iter().zip(0..) {
            if !carried.contains(&number) {
                let schema = Arc::clone(component.schema()?);
                let locked = lock.keys.entry(component.key.clone()).or_default();
                locked.schemas.push(Locked { version: component.version, schema });
            }
        }
        // Once for all of them: a save may have very many versions of one component.
        for locked in lock.keys.values_mut() {
            let mut known = HashSet::new();
            locked.schemas.retain(|form| known.insert((form.version, form.schema.fingerprint())));
            locked.schemas.sort_by_key(|form| form.version);
        }
        Ok(lock)
    }

    /// The keys that it knows and that are not removed.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().filter(|(_, locked)| !locked.removed).map(|(key, _)| &**key)
    }

    /// Whether it knows nothing.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Adds the schemas of a build. Fails if old saves cannot follow, and then nothing is added.
    pub fn add(&mut self, registry: &Registry) -> Result<()> {
        let problems: Vec<_> =
            self.problems(registry).into_iter().filter(|problem| !problem.is_missing()).collect();
        fail(&problems)?;
        self.tracks.extend(tracks(registry));
        for descriptor in saved(registry) {
            let locked = self.keys.entry(descriptor.key().to_owned()).or_default();
            locked.aliases = descriptor.aliases().iter().map(ToString::to_string).collect();
            forms(descriptor).for_each(|(version, schema)| locked.put(version, schema));
        }
        Ok(())
    }

    /// Adds the schemas of another lock, such as one [of a save](SchemaLock::of_snapshot) that was released once. They count
    /// as older than those that are known.
    pub fn add_older(&mut self, other: &Self) {
        for (key, older) in &other.keys {
            let locked = self.keys.entry(key.clone()).or_default();
            let new = older.schemas.iter().filter(|schema| !locked.has(schema)).cloned().collect::<Vec<_>>();
            locked.schemas.splice(0..0, new);
            locked.schemas.sort_by_key(|known| known.version);
        }
    }

    /// Fails if the build has schemas that are not locked, or cannot read what was.
    pub fn check(&self, registry: &Registry) -> Result<()> {
        registry.check()?;
        fail(&self.problems(registry))
    }

    /// What [`SchemaLock::check`] finds, one by one.
    pub fn problems(&self, registry: &Registry) -> Vec<LockProblem> {
        let mut problems = Vec::new();
        for (key, locked) in &self.keys {
            let mut problem = |message: String, cure: String| {
                problems.push(LockProblem { key: key.clone(), message, cure });
            };
            let descriptor = registry.index_of_saved(key).map(|number| &registry.descriptors()[number]);
            match (descriptor, locked.removed) {
                (None, true) => {}
                (None, false) => problem(
                    "it is no longer registered: old saves carry it along, unless a world migration takes it".to_owned(),
                    format!("if that is meant, write below `[{key}]`: removed"),
                ),
                (Some(_), true) => problem(
                    "it was removed once and is back: old saves have values of it that may mean something else".to_owned(),
                    format!("choose another key; if it means the same, delete the line `removed` below `[{key}]`"),
                ),
                (Some(descriptor), false) if !descriptor.is_transient() => {
                    locked.check(descriptor, registry, &mut problem);
                }
                _ => {}
            }
        }
        for (name, track) in tracks(registry).filter(|(name, track)| self.tracks.get(name) != Some(track)) {
            problems.push(LockProblem {
                key: name,
                message: format!("version {} of the track is not locked yet", track.version),
                cure: MISSING.to_owned(),
            });
        }
        for descriptor in saved(registry) {
            let locked = self.keys.get(descriptor.key());
            let missing = |(version, schema): (u32, Arc<Schema>)| {
                !locked.is_some_and(|locked| locked.has_with_rules(&Locked { version, schema }))
            };
            let aliases = locked.map(|locked| &*locked.aliases).unwrap_or_default();
            let newest = locked.and_then(LockedKey::newest).map(|newest| &newest.schema);
            if forms(descriptor).any(missing)
                || newest != Some(&descriptor.schema)
                || !descriptor.aliases().iter().eq(aliases)
            {
                problems.push(LockProblem {
                    key: descriptor.key().to_owned(),
                    message: "its schema is not locked yet".to_owned(),
                    cure: MISSING.to_owned(),
                });
            }
        }
        problems
    }

    /// What is different in another lock, in words, one line each.
    pub fn diff(&self, newer: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        for (key, new) in &newer.keys {
            let was = new.aliases.iter().find(|alias| self.keys.contains_key(*alias));
            let old = self.keys.get(key).or_else(|| was.and_then(|alias| self.keys.get(alias)));
            let (Some(new_form), shown) = (new.newest(), key.escape_debug()) else { continue };
            match old.and_then(LockedKey::newest) {
                None => lines.push(format!("+ `{shown}` version {}: {}", new_form.version, new_form.schema)),
                Some(old_form) => {
                    if let Some(alias) = was.filter(|_| !self.keys.contains_key(key)) {
                        lines.push(format!("~ `{}` is `{shown}` now", alias.escape_debug()));
                    }
                    lines.extend(
                        difference(old_form, new_form).into_iter().map(|line| format!("~ `{shown}`: {line}")),
                    );
                    if new.removed && !old.is_some_and(|old| old.removed) {
                        lines.push(format!("- `{shown}` is removed"));
                    }
                }
            }
        }
        let aliases: HashSet<&String> = newer.keys.values().flat_map(|new| &new.aliases).collect();
        for (key, old) in &self.keys {
            if !newer.keys.contains_key(key) && !aliases.contains(key) && !old.removed {
                lines.push(format!("- `{}` is gone", key.escape_debug()));
            }
        }
        lines
    }

    /// Version lines of a save whose world needs migrations before the build that the lock describes can read it: the name,
    /// the version of the save, and the one that worlds must have. Migrations are code of the game.
    pub fn pending_migrations(&self, snapshot: &Snapshot) -> Vec<(String, u32, u32)> {
        let saved = snapshot.tracks();
        let pending = self
            .tracks
            .iter()
            .map(|(name, track)| (name.clone(), saved.get(name).copied().unwrap_or(0), track.migrated));
        pending.filter(|(_, saved, migrated)| saved < migrated).collect()
    }

    /// A registry of the newest schemas and tracks, with values in the place of Rust types: for tools that have no game at
    /// hand. Steps and migrations are not in it.
    pub fn registry(&self) -> Result<Registry> {
        let mut registry = Registry::new();
        for (name, track) in &self.tracks {
            registry.track(name, track.version)?;
        }
        let older: BTreeSet<&String> = self.keys.values().flat_map(|locked| &locked.aliases).collect();
        for (key, locked) in self.keys.iter().filter(|(key, locked)| !locked.removed && !older.contains(key))
        {
            let Some(newest) = locked.newest() else { continue };
            let mut descriptor =
                Descriptor::dynamic(key.clone(), (*newest.schema).clone()).with_version(newest.version);
            for alias in &locked.aliases {
                descriptor = descriptor.alias(alias.clone());
            }
            registry.add(descriptor)?;
        }
        Ok(registry)
    }
}

fn tracks(registry: &Registry) -> impl Iterator<Item = (String, LockedTrack)> + '_ {
    registry.tracks().iter().map(|track| {
        let migrated = track.last_migration();
        (track.name.clone(), LockedTrack { version: track.version, migrated })
    })
}

const MISSING: &str = "add it: `lock.add(&registry)`, or run the test with BONFIRE_LOCK=write";

impl LockProblem {
    /// Whether the lock only lacks what the build has, which adding it mends.
    pub fn is_missing(&self) -> bool {
        self.cure == MISSING
    }
}

fn fail(problems: &[LockProblem]) -> Result<()> {
    if problems.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let count =
        if problems.len() == 1 { "one problem".to_owned() } else { format!("{} problems", problems.len()) };
    Err(Error::schema(format!("{count} with the schemas:\n{}", lines.join("\n"))))
}

fn saved(registry: &Registry) -> impl Iterator<Item = &Descriptor> {
    registry.descriptors().iter().filter(|descriptor| !descriptor.is_transient())
}

/// The versions of a component that have Rust types, the oldest first.
fn forms(descriptor: &Descriptor) -> impl Iterator<Item = (u32, Arc<Schema>)> + '_ {
    let old = descriptor.history.iter().rev().filter_map(|step| match &step.kind {
        StepKind::Typed { old, .. } => Some((old.version, Arc::clone(&old.schema))),
        _ => None,
    });
    old.chain([(descriptor.version, Arc::clone(&descriptor.schema))])
}

impl LockedKey {
    fn has(&self, form: &Locked) -> bool {
        self.schemas.iter().any(|known| known.version == form.version && known.schema == form.schema)
    }

    /// Whether it knows a schema, and all that a build says about the past of it.
    fn has_with_rules(&self, form: &Locked) -> bool {
        let same = |known: &Locked| known.version == form.version && known.schema == form.schema;
        // What a default is, is another question: nobody may ever have needed it.
        let said = |schema: &Schema| rules(schema, false);
        self.schemas.iter().any(|known| same(known) && said(&known.schema) == said(&form.schema))
    }

    /// The schema that the last build with the highest version had.
    fn newest(&self) -> Option<&Locked> {
        // Of several with one version, the last one.
        self.schemas.iter().max_by_key(|schema| schema.version)
    }

    /// Adds a schema with its rules as the last one of its version, wherever it was.
    fn put(&mut self, version: u32, schema: Arc<Schema>) {
        self.schemas.retain(|known| known.version != version || known.schema != schema);
        self.schemas.push(Locked { version, schema });
        self.schemas.sort_by_key(|known| known.version);
    }

    fn check(&self, descriptor: &Descriptor, registry: &Registry, problem: &mut dyn FnMut(String, String)) {
        for locked in &self.schemas {
            let component = Component {
                key: descriptor.key().to_owned(),
                version: locked.version,
                kind: ColumnKind::Rows,
                schema_fingerprint: locked.schema.fingerprint(),
                row: RowLayout::default(),
                schema: Some(Arc::clone(&locked.schema)),
            };
            let (version, schema) = (locked.version, &locked.schema);
            match resolve(&component, registry) {
                Err(error) => problem(
                    format!("saves of version {version} ({schema}) can no longer be read: {error}"),
                    "keep what they need, or raise the version and add a step from it".to_owned(),
                ),
                Ok((resolution, _)) if resolution.changes().is_empty() => {}
                Ok((resolution, path)) => {
                    let chain = path.is_some_and(|path| path.steps > 0);
                    for change in resolution.changes().iter().filter(|_| !chain) {
                        judge(change, version, problem);
                    }
                }
            }
        }
        for (version, schema) in forms(descriptor) {
            self.check_defaults(version, &schema, problem);
        }
        self.check_names(descriptor, problem);
    }

    /// The value of a field for saves that are older than it never changes.
    fn check_defaults(&self, version: u32, schema: &Schema, problem: &mut dyn FnMut(String, String)) {
        let Some(locked) = self.schemas.iter().rfind(|locked| locked.version == version) else { return };
        let now = defaults(schema);
        // A default that every released schema could do without was never used.
        let released = self.schemas.iter().filter(|locked| locked.version == version);
        let released: Vec<BTreeSet<String>> = released.map(|locked| paths(&locked.schema)).collect();
        let is_used = |path: &String| released.iter().any(|paths| !paths.contains(path));
        for (path, then) in defaults(&locked.schema).into_iter().filter(|(path, _)| is_used(path)) {
            if let Some(now) =
                now.get(&path).filter(|now| then.became(&now.schema).is_some_and(|then| then != now.bytes))
            {
                problem(
                    format!("the default of `{path}` was {then} and is {now}: old saves would mean something else"),
                    "put the old value back: `#[persist(default = ..)]`. What new entities get is another matter, for \
                     `Default` or a constructor"
                        .to_owned(),
                );
            }
        }
    }

    /// A name that was gone for a while may mean something else now.
    fn check_names(&self, descriptor: &Descriptor, problem: &mut dyn FnMut(String, String)) {
        let newest = (descriptor.version, Arc::clone(&descriptor.schema));
        if self.has(&Locked { version: newest.0, schema: newest.1 }) {
            return;
        }
        let now = names(&descriptor.schema);
        let mut known = BTreeSet::new();
        let mut gone = BTreeSet::new();
        for locked in self.schemas.iter().filter(|locked| locked.version == descriptor.version) {
            let names = names(&locked.schema);
            gone.extend(known.difference(&names).cloned());
            known.extend(names);
        }
        for name in gone.intersection(&now).filter(|name| !self.returned.contains(name)) {
            problem(
                format!(
                    "`{name}` was removed once and is back: old saves have values of it that may mean something else"
                ),
                format!("choose another name; if it means the same, write below the key: returned {name}"),
            );
        }
    }
}

/// What a change means for saves that were released.
fn judge(change: &SchemaChange, version: u32, problem: &mut dyn FnMut(String, String)) {
    match change {
        SchemaChange::Unknown { field } => problem(
            format!("saves of version {version} have `{field}`, which every save would carry along for ever"),
            format!(
                "if it was renamed, say so: `alias = \"{0}\"`; if it is gone, on its type: `#[persist(removed = \"{0}\")]`",
                last(field)
            ),
        ),
        SchemaChange::VariantGone { variant } => problem(
            format!("saves of version {version} may have a `{variant}`, which would be refused"),
            format!("say what it became: `#[persist(alias = \"{}\")]` on a variant", last(variant)),
        ),
        _ => {}
    }
}

fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// What became of a schema, in words.
fn difference(old: &Locked, new: &Locked) -> Vec<String> {
    let mut lines = Vec::new();
    if old.version != new.version {
        lines.push(format!("version {} is version {} now", old.version, new.version));
    }
    if old.schema == new.schema {
        return lines;
    }
    match Conversion::new(Arc::clone(&old.schema), Arc::clone(&new.schema)) {
        Ok(conversion) => lines.extend(conversion.changes.iter().map(ToString::to_string)),
        Err(error) if old.version == new.version => lines.push(format!("cannot follow: {error}")),
        Err(_) => lines.push(format!("was {}, is {}", old.schema, new.schema)),
    }
    lines
}

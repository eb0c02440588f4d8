//! All components that a game saves, by key and by type.

use std::any::TypeId;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use crate::column::ColumnKind;
use crate::context::{SaveContext, Sessions};
use crate::descriptor::{Descriptor, Keyed, NonFinite, Unencodable, Upgrader, Upgraders};
use crate::error::{Error, Result};
use crate::migration::{Track, WorldEdit};
use crate::schema::Fingerprint;
use crate::snapshot::OpenOptions;

/// What a game saves. Registration finds mistakes: two types under one key, a transient type with its own codec.
///
/// ```
/// use bonfire::{Persist, Registry};
///
/// #[derive(Persist)]
/// #[persist(key = "game.health")]
/// struct Health(f32);
///
/// let mut registry = Registry::new();
/// registry.register::<Health>()?;
/// assert_eq!(registry.by_key("game.health").unwrap().schema().to_string(), "(f32)");
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Registry {
    descriptors: Vec<Descriptor>,
    keys: HashMap<String, usize>,
    /// Keys that components had before.
    aliases: HashMap<String, usize>,
    types: HashMap<TypeId, usize>,
    upgraders: HashMap<String, Upgraders>,
    tracks: Vec<Track>,
}

impl Registry {
    /// A registry without components.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a type with a derived key. The same type again is fine and changes nothing.
    pub fn register<T: Keyed>(&mut self) -> Result<()> {
        self.add(Descriptor::of::<T>()).map(|_| ())
    }

    /// This registry with one more type, as [`Registry::register`].
    pub fn with<T: Keyed>(mut self) -> Result<Self> {
        self.register::<T>().map(|()| self)
    }

    /// Registers a descriptor and returns its number.
    pub fn add(&mut self, descriptor: Descriptor) -> Result<usize> {
        let Descriptor { key, type_name, .. } = &descriptor;
        if key.is_empty() || key.len() > 255 || key.chars().any(char::is_control) {
            let key = key.escape_debug();
            return Err(Error::misuse(format!(
                "`{key}` is no key for `{type_name}`: 1 to 255 bytes without control characters, such as `game.health`"
            )));
        }
        if descriptor.transient && descriptor.kind == ColumnKind::Custom {
            return Err(Error::misuse(format!(
                "`{type_name}` (`{key}`) is transient and has a custom codec that would never run: keep one of the two"
            )));
        }
        if let Some(&index) = self.keys.get(&**key) {
            let known = &self.descriptors[index];
            // Two functions cannot be compared, so a custom codec is registered once.
            let same = known.kind != ColumnKind::Custom
                && known.type_id == descriptor.type_id
                && known.repeats == descriptor.repeats
                && known.non_finite == descriptor.non_finite
                && known.version == descriptor.version
                && known.schema == descriptor.schema
                && known.kind == descriptor.kind
                && known.aliases == descriptor.aliases
                && known.transient == descriptor.transient;
            if same {
                return Ok(index);
            }
            return Err(Error::misuse(format!(
                "key `{key}` is registered for `{}` and for `{type_name}`: {}",
                known.type_name,
                cure_for_one_key(key, known.type_name, type_name)
            )));
        }
        if !descriptor.by_key_only
            && let Some(&index) = self.types.get(&descriptor.type_id)
        {
            let (old, new) = (self.descriptors[index].key(), key);
            return Err(Error::misuse(format!(
                "`{type_name}` is registered as `{old}` and as `{new}`: keep one"
            )));
        }
        self.check_names(&descriptor)?;
        if let Some(upgraders) = self.upgraders.get(&**key) {
            upgraders.check(&descriptor).map_err(|error| error.in_key(key))?;
        }
        let index = self.descriptors.len();
        self.aliases.extend(descriptor.aliases.iter().map(|alias| (alias.to_string(), index)));
        self.keys.insert(key.to_string(), index);
        if !descriptor.by_key_only {
            self.types.insert(descriptor.type_id, index);
        }
        self.descriptors.push(descriptor);
        Ok(index)
    }

    /// A key that a component had before is nobody else's.
    fn check_names(&self, descriptor: &Descriptor) -> Result<()> {
        let claimed = |key: &str, index: usize| {
            let (new, old) = (descriptor.type_name, self.descriptors[index].type_name);
            Err(Error::misuse(format!(
                "key `{key}` is claimed by `{new}` and by `{old}`: a key that a component had before cannot be another's"
            )))
        };
        if let Some(&index) = self.aliases.get(descriptor.key()) {
            return claimed(descriptor.key(), index);
        }
        for alias in &descriptor.aliases {
            if let Some(&index) = self.keys.get(&**alias).or_else(|| self.aliases.get(&**alias)) {
                return claimed(alias, index);
            }
        }
        Ok(())
    }

    /// Adds a step between two versions of the component with this key, which may be registered before or after. Fails if
    /// it leads nowhere, or if there is such a step already.
    pub fn upgrade(&mut self, key: &str, upgrader: Upgrader) -> Result<()> {
        let known = self.keys.get(key).map(|&index| &self.descriptors[index]);
        let added = self.upgraders.entry(key.to_owned()).or_default().add(upgrader.into(), known);
        added.map_err(|error| error.in_key(key))
    }

    /// Names a version line of the game, or of a plugin that saves state of its own: every save lists it from now on.
    /// Versions count from 1; a save without the track is at version 0 and gets all migrations.
    pub fn track(&mut self, name: &str, version: u32) -> Result<()> {
        if name.is_empty() || name.len() > 255 || version == 0 {
            let name = name.escape_debug();
            return Err(Error::misuse(format!(
                "`{name}` at version {version} is no track: a name of 1 to 255 bytes, and a version from 1 on"
            )));
        }
        match self.tracks.iter().find(|track| track.name == name) {
            Some(track) if track.version == version => Ok(()),
            Some(track) => {
                let known = track.version;
                Err(Error::misuse(format!(
                    "track `{name}` is registered at version {known} and at version {version}"
                )))
            }
            None => {
                self.tracks.push(Track::new(name, version));
                Ok(())
            }
        }
    }

    /// Adds a function that brings worlds from one version of a track to a later one, before anything is loaded. All of the
    /// migrations that a save needs run, or the load fails and nothing has changed. The track must be registered.
    pub fn migration(
        &mut self,
        track: &str,
        from: u32,
        to: u32,
        migrate: impl Fn(&mut WorldEdit) -> Result<()> + Send + Sync + 'static,
    ) -> Result<()> {
        match self.tracks.iter_mut().find(|known| known.name == track) {
            Some(known) => known.add(from, to, Arc::new(migrate)),
            None => Err(Error::misuse(format!(
                "there is no track `{track}`: call `registry.track(\"{track}\", {to})` first"
            ))),
        }
    }

    pub(crate) fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    pub(crate) fn upgraders(&self, key: &str) -> Cow<'_, Upgraders> {
        self.upgraders.get(key).map_or_else(Cow::default, Cow::Borrowed)
    }

    /// Finds what can only be found when everything is registered: upgraders of components that nobody registered, and steps
    /// from which no other leads on to the component's version. Worth a test in every game that has steps.
    pub fn check(&self) -> Result<()> {
        for (key, upgraders) in &self.upgraders {
            let Some(descriptor) = self.by_key(key) else {
                return Err(Error::misuse("there are upgraders for it, but it is not registered").in_key(key));
            };
            if let Some((from, to)) = upgraders.dead_ends(descriptor).first() {
                let version = descriptor.version;
                return Err(Error::misuse(format!(
                    "the step from version {from} to version {to} leads nowhere: none leads on to version {version}"
                ))
                .in_key(key));
            }
        }
        Ok(())
    }

    /// Chooses what happens to values of a registered component that hold NaN or infinity.
    pub fn set_non_finite(&mut self, number: usize, policy: NonFinite) {
        self.descriptors[number].non_finite = policy;
    }

    /// Chooses what happens to values of a registered component that cannot be encoded.
    pub fn set_unencodable(&mut self, number: usize, policy: Unencodable) {
        self.descriptors[number].unencodable = Some(policy);
    }

    /// All descriptors; their numbers are their positions.
    pub fn descriptors(&self) -> &[Descriptor] {
        &self.descriptors
    }
    /// Ends the sessions that codecs have opened for a save.
    pub(crate) fn end_save(&self, context: &SaveContext<'_>) -> Result<()> {
        match context.sessions.is_empty() {
            true => Ok(()),
            false => self.descriptors.iter().try_for_each(|descriptor| descriptor.end_save(context)),
        }
    }

    /// Ends the sessions that codecs have opened for a load.
    pub(crate) fn end_load(&self, sessions: &Sessions) -> Result<()> {
        match sessions.is_empty() {
            true => Ok(()),
            false => self.descriptors.iter().try_for_each(|descriptor| descriptor.end_load(sessions)),
        }
    }

    /// The component saved under `key`.
    pub fn by_key(&self, key: &str) -> Option<&Descriptor> {
        self.index_of_key(key).map(|index| &self.descriptors[index])
    }
    /// The number of the component saved under `key`.
    pub fn index_of_key(&self, key: &str) -> Option<usize> {
        self.keys.get(key).copied()
    }
    /// The number of the component that is or was saved under `key`.
    pub fn index_of_saved(&self, key: &str) -> Option<usize> {
        self.index_of_key(key).or_else(|| self.aliases.get(key).copied())
    }
    /// The number of the component with the Rust type `T`.
    pub fn index_of<T: 'static>(&self) -> Option<usize> {
        self.types.get(&TypeId::of::<T>()).copied()
    }
    /// The number of the component with this Rust type.
    pub fn index_of_type(&self, type_id: TypeId) -> Option<usize> {
        self.types.get(&type_id).copied()
    }
    pub(crate) fn require<T: 'static>(&self) -> Result<usize> {
        self.index_of::<T>().ok_or_else(|| {
            let name = std::any::type_name::<T>();
            Error::misuse(format!("`{name}` is not registered: call `registry.register::<{name}>()` first"))
        })
    }
    /// The number of the component with this key, if it holds `T`s.
    pub(crate) fn require_key<T: 'static>(&self, key: &str) -> Result<usize> {
        let index =
            self.index_of_key(key).ok_or_else(|| Error::misuse("it is not registered").in_key(key))?;
        let descriptor = &self.descriptors[index];
        if descriptor.type_id != TypeId::of::<T>() {
            let (holds, given) = (descriptor.type_name, std::any::type_name::<T>());
            return Err(Error::misuse(format!("it holds `{holds}`, not `{given}`")).in_key(key));
        }
        Ok(index)
    }

    /// One hash of all keys, versions and schemas, whatever the order of registration: two builds with the same hash
    /// understand each other's bytes without a word about schemas.
    pub fn fingerprint(&self) -> Fingerprint {
        let mut entries: Vec<_> =
            self.descriptors.iter().filter(|descriptor| !descriptor.transient).collect();
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        let mut out = crate::wire::Writer::new();
        for descriptor in entries {
            out.text(&descriptor.key);
            out.u32(descriptor.version);
            out.raw(&descriptor.schema.fingerprint().0);
        }
        Fingerprint::of(out.as_bytes())
    }
}

/// Says what to do about two types under one key.
fn cure_for_one_key(key: &str, old: &str, new: &str) -> String {
    let generic = |name: &str| name.split_once('<').map(|(name, _)| name.to_owned());
    if old == new || generic(old).is_none() || generic(old) != generic(new) {
        return "rename one".to_owned();
    }
    format!(
        "instances of a generic type need a key each, either by its parameter, `#[persist(key = \"{key}<{{T}}>\")]`, \
         or at registration, `persist_as(Descriptor::new::<{new}>(\"another.key\"))`"
    )
}

impl<'a> OpenOptions<'a> {
    /// Looks up schemas that the bytes name by hash in this registry.
    pub fn registry(mut self, registry: &'a Registry) -> Self {
        self.known = registry.descriptors();
        self
    }
}

//! What a save tells of itself without being loaded.

use std::collections::BTreeMap;
use std::time::Duration;

use bonfire::engine::{MOMENT_KEY, RESERVED_PREFIX};
use bonfire::inspect::FileHead;
use bonfire::{Error, OpenOptions, Result, Snapshot, Value};

use super::HEAD_BYTES_MAX;
use crate::journal::JournalInfo;
use crate::save_name::{SaveKind, SaveName};

/// What to write beside a world, for lists of saves. All of it must fit 60 KiB.
///
/// A thumbnail that does not fit is dropped, and the save goes on without it: see
/// [`SaveReport::dropped_thumbnail`](crate::SaveReport::dropped_thumbnail).
/// Other details that do not fit fail the save.
///
/// ```
/// # use bonfire_store::Details;
/// # use std::time::Duration;
/// # let jpeg = vec![0; 1000];
/// let details = Details::new()
///     .label("Before the dragon")
///     .play_time(Duration::from_secs(3 * 3600))
///     .game_version("1.4.2")
///     .thumbnail(jpeg)
///     .custom("chapter", 7_u32);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Details {
    known: Vec<(&'static str, Value)>,
    custom: Vec<(String, Value)>,
}

const LABEL: &str = "bonfire.label";
const SAVED_AT: &str = "bonfire.saved_at";
const PLAY_TIME: &str = "bonfire.play_time";
const GAME_VERSION: &str = "bonfire.game_version";
const THUMBNAIL: &str = "bonfire.thumbnail";
const ENTITIES: &str = "bonfire.entities";
const MOMENT: &str = MOMENT_KEY;

impl Details {
    /// Nothing but what is always written: when, and how many entities.
    pub fn new() -> Self {
        Self::default()
    }
    /// What players read: any text, unlike the name of a slot.
    pub fn label(self, label: impl Into<String>) -> Self {
        self.known(LABEL, label.into())
    }
    /// How long this game has been played.
    pub fn play_time(self, time: Duration) -> Self {
        self.known(PLAY_TIME, millis(time))
    }
    /// Which build of the game writes this.
    pub fn game_version(self, version: impl Into<String>) -> Self {
        self.known(GAME_VERSION, version.into())
    }
    /// The pin of a chunk world that the save belongs to: both are of one moment. Front ends that stream set it.
    pub fn moment(self, pin: impl Into<String>) -> Self {
        self.known(MOMENT, pin.into())
    }
    /// A small picture, encoded as the game likes. With all other details it must fit 60 KiB, or it is dropped.
    pub fn thumbnail(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.known(THUMBNAIL, Value::Bytes(bytes.into()))
    }
    /// Anything else. Names that begin with `bonfire.` are taken, and refused when the world is saved.
    pub fn custom(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        let name = name.into();
        self.custom.retain(|(known, _)| *known != name);
        self.custom.push((name, value.into()));
        self
    }
    fn known(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.known.retain(|(known, _)| *known != name);
        self.known.push((name, value.into()));
        self
    }

    /// The text that players read, if it is set.
    pub fn get_label(&self) -> Option<&str> {
        self.get_text(LABEL)
    }
    /// The time that this game has been played, if it is set.
    pub fn get_play_time(&self) -> Option<Duration> {
        match self.get_known(PLAY_TIME)? {
            Value::U64(millis) => Some(Duration::from_millis(*millis)),
            _ => None,
        }
    }
    /// The build of the game, if it is set.
    pub fn get_game_version(&self) -> Option<&str> {
        self.get_text(GAME_VERSION)
    }
    /// The pin of a chunk world that the save belongs to, if it is set.
    pub fn get_moment(&self) -> Option<&str> {
        self.get_text(MOMENT)
    }
    /// The picture, if there is one.
    pub fn get_thumbnail(&self) -> Option<&[u8]> {
        match self.get_known(THUMBNAIL)? {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
    /// One of the game's own details, if it is set.
    pub fn get_custom(&self, name: &str) -> Option<&Value> {
        self.custom.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
    /// The game's own details by name, in the order in which they were set.
    pub fn customs(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.custom.iter().map(|(name, value)| (name.as_str(), value))
    }
    fn get_known(&self, name: &str) -> Option<&Value> {
        self.known.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
    fn get_text(&self, name: &str) -> Option<&str> {
        match self.get_known(name)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Adds those details of `other` that are not set here. A front end uses it to let what the caller has set win over
    /// its defaults.
    ///
    /// ```
    /// # use bonfire_store::Details;
    /// let asked_for = Details::new().label("Before the dragon");
    /// let default = Details::new().label("Autosave").game_version("1.4.2");
    /// let details = asked_for.or(default);
    /// assert_eq!(details.get_label(), Some("Before the dragon"));
    /// assert_eq!(details.get_game_version(), Some("1.4.2"));
    /// ```
    pub fn or(mut self, other: Self) -> Self {
        for (name, value) in other.known {
            if self.get_known(name).is_none() {
                self.known.push((name, value));
            }
        }
        for (name, value) in other.custom {
            if self.get_custom(&name).is_none() {
                self.custom.push((name, value));
            }
        }
        self
    }

    /// The same without the picture.
    pub(super) fn without_thumbnail(&self) -> Self {
        let mut without = self.clone();
        without.known.retain(|(name, _)| *name != THUMBNAIL);
        without
    }

    /// The snapshot with these details.
    pub(super) fn put_on(&self, snapshot: &Snapshot, now: Option<Duration>) -> Result<Snapshot> {
        let mut snapshot = snapshot.clone();
        for (name, value) in &self.known {
            snapshot.set_metadata(*name, value.clone());
        }
        for (name, value) in &self.custom {
            if name.starts_with(RESERVED_PREFIX) {
                let message =
                    format!("{name:?} cannot be the name of a detail: it begins with {RESERVED_PREFIX:?}");
                return Err(Error::misuse(message));
            }
            snapshot.set_metadata(name.clone(), value.clone());
        }
        if let Some(now) = now {
            snapshot.set_metadata(SAVED_AT, millis(now));
        }
        snapshot.set_metadata(ENTITIES, snapshot.entity_count() as u64);
        Ok(snapshot)
    }
}

fn millis(time: Duration) -> Value {
    Value::U64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// One save of a slot, as far as its head tells.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SaveInfo {
    /// The slot that it is in. Empty if it is in none.
    pub slot: String,
    /// The name of its blob in the store, or its path.
    pub blob: String,
    /// Its number: later saves have larger ones, in all slots of a store, and no number is given twice. 0 if it is in no slot.
    pub generation: u64,
    /// Larger than that of every save that was written, or appended to, before. Compare saves of different slots by this and
    /// not by [`saved_at`](Self::saved_at): clocks jump.
    pub order: u64,
    /// Whether it stays until it is unlocked.
    pub locked: bool,
    /// Whether it waits to be accepted or rejected.
    pub recovery: bool,
    /// Whether it is sealed and no key at hand opens it. Then nobody has checked what is said here.
    pub sealed: bool,
    /// Its length as stored by the game, in bytes.
    pub bytes: u64,
    /// What players read.
    pub label: Option<String>,
    /// When it was saved: time since the start of 1970, UTC. With a journal, when the last delta was appended.
    pub saved_at: Option<Duration>,
    /// How long the game had been played.
    pub play_time: Option<Duration>,
    /// Which build of the game wrote it.
    pub game_version: Option<String>,
    /// The version lines of the game and its plugins.
    pub tracks: BTreeMap<String, u32>,
    /// A small picture.
    pub thumbnail: Option<Vec<u8>>,
    /// How many entities are in it.
    pub entities: Option<u64>,
    /// The pin of a chunk world that it belongs to: both are of one moment.
    pub moment: Option<String>,
    /// Whatever else the game wrote.
    pub custom: Vec<(String, Value)>,
    /// What was appended to it. Only a load tells whether all of it can be used.
    pub journal: Option<JournalInfo>,
    /// Why the head cannot be read, or why the rest cannot be whole. `None` is no promise: only a load checks it all.
    pub problem: Option<Error>,
}

impl SaveInfo {
    /// What the name alone tells.
    pub(super) fn of_name(name: &SaveName, bytes: u64) -> Self {
        Self {
            slot: name.slot.clone(),
            blob: name.to_string(),
            generation: name.generation,
            order: order_of_save(name.generation),
            locked: name.kind == SaveKind::Locked,
            recovery: name.kind == SaveKind::Recovery,
            sealed: false,
            bytes,
            label: None,
            saved_at: None,
            play_time: None,
            game_version: None,
            tracks: BTreeMap::new(),
            thumbnail: None,
            entities: None,
            moment: None,
            custom: Vec::new(),
            journal: None,
            problem: None,
        }
    }

    /// A save that is in no slot: what its bytes tell. `place` is its path, or the name of its blob.
    pub(crate) fn outside_of_slots(place: String, file: &[u8], options: &OpenOptions<'_>) -> Self {
        let mut info = Self::of_name(&SaveName::new(None, "", 0, SaveKind::Free), file.len() as u64);
        info.blob = place;
        match options.head(&file[..file.len().min(HEAD_BYTES_MAX as usize)]) {
            Ok(head) => info.add_head(head),
            Err(error) => info.problem = Some(error),
        }
        info
    }

    /// Adds what the head tells.
    pub(super) fn add_head(&mut self, head: FileHead) {
        self.tracks = head.tracks();
        if head.file_bytes != self.bytes {
            let (wanted, found) = (head.file_bytes, self.bytes);
            self.problem = Some(Error::corrupt(format!("it should have {wanted} bytes and has {found}")));
        }
        for (name, value) in head.metadata {
            match (name.as_str(), value) {
                (LABEL, Value::Text(text)) => self.label = Some(text),
                (GAME_VERSION, Value::Text(text)) => self.game_version = Some(text),
                (SAVED_AT, Value::U64(millis)) => self.saved_at = Some(Duration::from_millis(millis)),
                (PLAY_TIME, Value::U64(millis)) => self.play_time = Some(Duration::from_millis(millis)),
                (ENTITIES, Value::U64(count)) => self.entities = Some(count),
                (MOMENT, Value::Text(pin)) => self.moment = Some(pin),
                (THUMBNAIL, Value::Bytes(bytes)) => self.thumbnail = Some(bytes),
                (known, _) if known.starts_with(RESERVED_PREFIX) => {}
                (_, value) => self.custom.push((name, value)),
            }
        }
    }
}

/// How many appends lie between two saves at most, for their order.
const APPENDS_BITS: u32 = 20;

/// The place of a save among all saves and appends of its store.
pub(super) fn order_of_save(generation: u64) -> u64 {
    generation << APPENDS_BITS
}

/// A slot, as a menu shows it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SlotInfo {
    /// The name of the slot.
    pub name: String,
    /// How many saves it has, locked ones included. 0 if there is nothing but a save for after a crash.
    pub saves: usize,
    /// The save that a load would try first; if there is none, the one for after a crash.
    pub newest: SaveInfo,
    /// Whether a save for after a crash waits to be accepted or rejected.
    pub has_recovery: bool,
}

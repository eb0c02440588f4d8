//! Saves as players know them: slots with names, several saves in each, and what a menu shows of them.
//!
//! A save is one blob of a [`Store`], and its name says all that may change after it was written: which slot and profile
//! it belongs to, which number it has, and whether it is locked. A save may have a journal beside it (`journal`). Every
//! change of saves and their journals is one [step of the store](Store::change), which expects the names that it was made
//! for (`names`). So a crash leaves the state before it or the state after, and two programs never mix their saves.

mod details;
mod journal;
mod journal_file;
mod keep;
mod list;
mod load;
mod manage;
mod names;
mod recovery;
mod value;
mod write;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use bonfire::engine::Slices;
use bonfire::{EncodeOptions, Error, Limits, OpenOptions, Result, Snapshot};

pub use self::details::{Details, SaveInfo, SlotInfo};
use self::journal::OpenJournals;
pub use self::journal_file::{JournalFile, journal_name, replay_journal, saves_of_journal};
pub use self::keep::Keep;
pub use self::load::{LoadedSave, SkippedSave};
pub(crate) use self::write::EncodedSave;
pub use self::write::WrittenSave;
use crate::clock::system_time;
use crate::journal::Compaction;
use crate::portable_name::check_slot;
use crate::save_name::{SaveKind, SaveName};
use crate::store::{Store, in_store};

/// The slots of a game, or of one of its players, in any [`Store`]. Clones share the store.
///
/// Slots have names of ASCII letters, digits, `_` and `-`; what players read is the [label](Details::label). A slot holds
/// several saves, each with a number. Nothing is ever overwritten: [`save`](Self::save) adds one and then deletes those
/// that [`Keep`] does not keep. [`load`](Self::load) takes the newest that is not locked; if that one is damaged, the
/// next, and says so. A locked save is never deleted, and loaded by its number, or when nothing else is left.
///
/// ```
/// # use bonfire::Registry;
/// # use bonfire::engine::SnapshotWriter;
/// use bonfire_store::{Details, MemoryStore, Slots, Wait};
///
/// # let registry = Registry::new();
/// # let snapshot = SnapshotWriter::new(&registry).finish()?;
/// let slots = Slots::new(MemoryStore::new()); // DirStore::for_app("Moon Studio", "Comet")?
/// slots.save("quick", &snapshot, &Details::new().label("Before the dragon")).wait()?;
///
/// for slot in slots.list().wait()? {
///     println!("{}: {}", slot.name, slot.newest.label.as_deref().unwrap_or("?"));
/// }
/// let loaded = slots.load("quick").wait()?;
/// for skipped in &loaded.skipped {
///     println!("{skipped}"); // the player should know
/// }
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Clone)]
pub struct Slots {
    store: Arc<dyn Store>,
    profile: Option<String>,
    keep: Keep,
    encode: EncodeOptions,
    clock: Clock,
    /// Blobs that a load has found damaged: they do not count as saves when others are pruned.
    damaged: Arc<Mutex<BTreeSet<String>>>,
    /// Journals that can go on.
    journals: Arc<Mutex<OpenJournals>>,
    /// The place of the last append of this process among all saves and appends.
    last_order: Arc<AtomicU64>,
    compaction: Compaction,
    /// The length of the slices in which worlds are encoded and opened. `usize::MAX`: in one go.
    slice_bytes: usize,
}

/// Time since the start of 1970, if this machine knows.
type Clock = fn() -> Option<Duration>;

fn system_clock() -> Option<Duration> {
    system_time()?.duration_since(UNIX_EPOCH).ok()
}

/// Where every head ends.
const HEAD_BYTES_MAX: u64 = 64 << 10;

impl Slots {
    /// The slots in a store. The newest three saves of each are kept.
    pub fn new(store: impl Store + 'static) -> Self {
        Self {
            store: Arc::new(store),
            profile: None,
            keep: Keep::default(),
            encode: EncodeOptions::default(),
            clock: system_clock,
            damaged: Arc::default(),
            journals: Arc::default(),
            last_order: Arc::default(),
            compaction: Compaction::default(),
            slice_bytes: usize::MAX,
        }
    }

    /// Encodes and opens worlds in slices of about so many bytes, between which futures yield.
    pub(crate) fn in_slices(self, slice_bytes: usize) -> Self {
        Self { slice_bytes, ..self }
    }

    pub(crate) fn slices(&self) -> Slices {
        Slices::of(self.slice_bytes)
    }

    /// Which saves are kept when a new one has been written.
    pub fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// How worlds become bytes: compression, and what saves may hold.
    pub fn encode_options(mut self, options: EncodeOptions) -> Self {
        self.encode = options;
        self
    }

    /// When the journal of a save is large enough that the whole world should be saved again.
    pub fn compaction(mut self, compaction: Compaction) -> Self {
        self.compaction = compaction;
        self
    }

    /// Where the time comes from. The default is the clock of the system. In a browser it needs the feature `web`.
    pub fn clock(mut self, clock: fn() -> Option<Duration>) -> Self {
        self.clock = clock;
        self
    }

    /// The slots of one of several players of this machine. The slots of the game itself, and of every other player, are
    /// apart from them.
    pub fn profile(&self, name: &str) -> Result<Self> {
        check_slot(name)?;
        Ok(Self { profile: Some(name.to_owned()), ..self.clone() })
    }

    /// The name of the player whose slots these are. `None`: they are those of the game itself.
    pub fn profile_name(&self) -> Option<&str> {
        self.profile.as_deref()
    }

    /// The players who have slots of their own.
    pub async fn profiles(&self) -> Result<Vec<String>> {
        let mut profiles: Vec<String> =
            self.list_names("").await?.into_iter().filter_map(|save| save.profile).collect();
        profiles.sort_unstable();
        profiles.dedup();
        Ok(profiles)
    }

    fn damaged(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What saves may hold, and what reading them may cost: part of the [options](Self::encode_options).
    pub fn limits(&self) -> &Limits {
        &self.encode.limits
    }

    pub(crate) fn open_options(&self) -> OpenOptions<'static> {
        Snapshot::options().limits(self.encode.limits.clone())
    }

    fn prefix(&self) -> String {
        self.profile.as_ref().map(|profile| format!("{profile}.")).unwrap_or_default()
    }

    fn name(&self, slot: &str, generation: u64, kind: SaveKind) -> SaveName {
        SaveName::new(self.profile.as_deref(), slot, generation, kind)
    }

    /// All saves whose names begin with `prefix`.
    async fn list_names(&self, prefix: &str) -> Result<Vec<SaveName>> {
        Ok(self.store_names().await?.saves(prefix))
    }

    /// All saves of a slot, newest first.
    async fn saves_of(&self, slot: &str) -> Result<Vec<SaveName>> {
        Ok(self.names_of(slot).await?.saves)
    }

    async fn find(&self, slot: &str, generation: u64) -> Result<SaveName> {
        let saves = self.saves_of(slot).await?;
        let found =
            saves.into_iter().find(|save| save.generation == generation && save.kind != SaveKind::Recovery);
        found.ok_or_else(|| self.missing_save(slot, generation))
    }

    /// The error of a slot that does not exist.
    fn missing_slot(&self, slot: &str) -> Error {
        self.missing(&format!("slot `{slot}`"))
    }

    /// The error of a save that does not exist.
    fn missing_save(&self, slot: &str, generation: u64) -> Error {
        self.missing(&format!("save {generation} of slot `{slot}`"))
    }

    fn missing(&self, what: &str) -> Error {
        let owner =
            self.profile.as_ref().map(|profile| format!(" of player `{profile}`")).unwrap_or_default();
        let place = self.store.path_of("").map(|path| format!(" in `{path}`")).unwrap_or_default();
        let nothing = std::io::Error::new(ErrorKind::NotFound, format!("it does not exist{place}"));
        Error::io(format_args!("cannot open {what}{owner}"), nothing)
    }

    /// The error with the slot and the directory of all slots.
    fn in_slot(&self, error: Error, slot: &str) -> Error {
        in_store(error.in_key(slot), &*self.store, "")
    }
}

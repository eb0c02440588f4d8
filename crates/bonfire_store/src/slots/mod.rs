//! Saves as players know them: slots with names, several saves in each, and what a menu shows of them.
//!
//! A save is one blob of a [`Store`], and its name says all that may change after it was written: which slot and profile
//! it belongs to, which number it has, and whether it is locked. So every change is one step of the store, and a crash
//! leaves the state before it or the state after.

mod details;
mod keep;
mod manage;
mod name;
mod recovery;
mod value;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bonfire::{EncodeOptions, Error, OpenOptions, Result, Rope, Snapshot};
use bytes::Bytes;

pub use self::details::{Details, SaveInfo, SlotInfo};
pub use self::keep::Keep;
use self::name::{Kind, SaveName};
use crate::generation::next;
use crate::rotating::{RETRIES, missing};
use crate::store::{Payload, Precondition, Store, check_case, check_slot, is_sealed};

/// The slots of a game, or of one of its players, in any [`Store`]. Clones share the store.
///
/// Slots have names of ASCII letters, digits, `_` and `-`; what players read is the [label](Details::label). A slot holds
/// several saves, each with a number. Nothing is ever overwritten: [`save`](Self::save) adds one and then removes those
/// that [`Keep`] does not keep. [`load`](Self::load) takes the newest that is not locked; if that one is damaged, the
/// next, and says so. A locked save is never removed, and loaded by its number, or when nothing else is left.
///
/// ```
/// # use bonfire::{Registry, SnapshotWriter};
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
}

/// Time since the start of 1970, if this machine knows.
type Clock = fn() -> Option<Duration>;

fn system_clock() -> Option<Duration> {
    #[cfg(not(target_arch = "wasm32"))]
    return std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok();
    #[cfg(target_arch = "wasm32")]
    None
}

/// What a save became.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Saved {
    /// The number of the save in its slot.
    pub generation: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// The numbers of the saves that were removed because of it.
    pub pruned: Vec<u64>,
    /// Why older saves could not be removed. The new one is safe all the same.
    pub prune_error: Option<Error>,
}

/// A save that was opened, and what was passed over to find it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoadedSave {
    /// The world, checked.
    pub snapshot: Snapshot,
    /// Which save it is.
    pub info: SaveInfo,
    /// Newer saves that could not be read, newest first. If there are any, this is not what the player saved last.
    pub skipped: Vec<Skipped>,
}

/// A save that could not be read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Skipped {
    /// The slot it is in.
    pub slot: String,
    /// Its number.
    pub generation: u64,
    /// What is wrong with it.
    pub reason: Error,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "save {} of `{}` was passed over: {}", self.generation, self.slot, self.reason)
    }
}

/// Most heads fit this; those with a thumbnail are read again, up to where every head ends.
const SMALL_HEAD_BYTES: u64 = 4 << 10;
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
        }
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

    /// Where the time comes from. The default is the clock of the system; in a browser there is none.
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

    /// The players who have slots of their own.
    pub async fn profiles(&self) -> Result<Vec<String>> {
        let mut profiles: Vec<String> =
            self.parsed("").await?.into_iter().filter_map(|save| save.profile).collect();
        profiles.sort_unstable();
        profiles.dedup();
        Ok(profiles)
    }

    /// Saves a world. When this returns, the save is durable; if it fails, what was there before is as it was.
    pub async fn save(&self, slot: &str, snapshot: &Snapshot, details: &Details) -> Result<Saved> {
        self.save_as(Kind::Free, slot, snapshot, details).await
    }

    async fn save_as(&self, kind: Kind, slot: &str, snapshot: &Snapshot, details: &Details) -> Result<Saved> {
        let (generation, bytes) = self.add(slot, snapshot, details, kind).await?;
        let mut saved = self.tidied(slot, generation, bytes).await;
        if let Err(error) = self.remove_recoveries(slot, generation).await {
            saved.prune_error.get_or_insert(error);
        }
        Ok(saved)
    }

    /// Removes what a new save makes needless. The save is safe whatever becomes of that.
    async fn tidied(&self, slot: &str, generation: u64, bytes: u64) -> Saved {
        let mut saved = Saved { generation, bytes, pruned: Vec::new(), prune_error: None };
        match self.prune(slot).await {
            Ok(pruned) => saved.pruned = pruned,
            Err(error) => saved.prune_error = Some(error),
        }
        saved
    }

    /// Opens the newest save of a slot that is not locked. Where that one is damaged, the newest good one of the others is
    /// taken, locked or not: [`LoadedSave::skipped`] says which were passed over and why.
    pub async fn load(&self, slot: &str) -> Result<LoadedSave> {
        self.load_with(slot, &self.open_options()).await
    }

    /// The same with a choice of how bytes are opened. With [`salvage`](OpenOptions::salvage) a damaged save is not
    /// passed over as long as anything can be got out of it.
    pub async fn load_with(&self, slot: &str, options: &OpenOptions<'_>) -> Result<LoadedSave> {
        for _ in 0..RETRIES {
            let mut saves = self.saves_of(slot).await?;
            saves.retain(|save| save.kind != Kind::Recovery);
            // First the newest that is not locked. If it is damaged, the newest of all others.
            saves.sort_by_key(|save| (save.kind, Reverse(save.generation)));
            if let Some((_, others)) = saves.split_first_mut() {
                others.sort_by_key(|save| Reverse(save.generation));
            }
            let mut skipped = Vec::new();
            let mut vanished = false;
            for save in &saves {
                match self.open(save, options).await {
                    Ok((snapshot, info)) => return Ok(LoadedSave { snapshot, info, skipped }),
                    // Pruned, locked or renamed since the slot was listed.
                    Err(error) if error.is_not_found() => vanished = true,
                    Err(reason) if reason.is_corrupt() => {
                        self.damaged().insert(save.to_string());
                        skipped.push(Skipped { slot: slot.to_owned(), generation: save.generation, reason });
                    }
                    // The saves before a damaged one are older than what was there.
                    Err(error) if error.is_rollback() && !skipped.is_empty() => {}
                    Err(error) => return Err(error.in_key(slot)),
                }
            }
            match skipped.first() {
                _ if vanished => {}
                Some(Skipped { reason, .. }) if skipped.len() == 1 => {
                    return Err(reason.clone().in_key(slot));
                }
                Some(Skipped { reason, .. }) => {
                    let all = skipped.len();
                    return Err(Error::corrupt(format!("all {all} saves are damaged, the newest: {reason}"))
                        .in_key(slot));
                }
                None => return Err(missing(slot)),
            }
        }
        Err(Error::conflict(format!("`{slot}` changes faster than it can be read")))
    }

    /// Opens one save, by its number.
    pub async fn load_generation(
        &self,
        slot: &str,
        generation: u64,
        options: &OpenOptions<'_>,
    ) -> Result<LoadedSave> {
        let (snapshot, info) = self.open(&self.find(slot, generation).await?, options).await?;
        Ok(LoadedSave { snapshot, info, skipped: Vec::new() })
    }

    /// Whether the slot has a save.
    pub async fn exists(&self, slot: &str) -> Result<bool> {
        Ok(self.count(slot).await? > 0)
    }

    /// How many saves the slot has, locked ones included.
    pub async fn count(&self, slot: &str) -> Result<usize> {
        let saves = self.saves_of(slot).await?;
        Ok(saves.iter().filter(|save| save.kind != Kind::Recovery).count())
    }

    /// All slots with worlds, by name. Of each, the head of one save is read.
    pub async fn list(&self) -> Result<Vec<SlotInfo>> {
        self.list_if(|newest| newest != Kind::Value).await
    }

    /// All slots with values, by name: see [`save_value`](Self::save_value).
    pub async fn list_values(&self) -> Result<Vec<SlotInfo>> {
        self.list_if(|newest| newest == Kind::Value).await
    }

    async fn list_if(&self, wanted: impl Fn(Kind) -> bool) -> Result<Vec<SlotInfo>> {
        for _ in 0..RETRIES {
            if let Some(slots) = self.try_list(&wanted).await? {
                return Ok(slots);
            }
        }
        Err(Error::conflict("the slots change faster than they can be listed"))
    }

    /// `None` if all saves of a slot were gone before they could be looked at.
    async fn try_list(&self, wanted: &impl Fn(Kind) -> bool) -> Result<Option<Vec<SlotInfo>>> {
        let mut saves = self.parsed(&self.prefix()).await?;
        saves.retain(|save| save.profile == self.profile);
        saves.sort_by(|a, b| {
            a.slot.cmp(&b.slot).then(a.kind.cmp(&b.kind)).then(b.generation.cmp(&a.generation))
        });
        let mut slots = Vec::new();
        for saves in saves.chunk_by(|a, b| a.slot == b.slot) {
            if !wanted(saves[0].kind) {
                continue;
            }
            let recoveries = saves.iter().filter(|save| save.kind == Kind::Recovery).count();
            // The recovery ones come last; a slot that has nothing else is one too.
            let mut newest = None;
            for save in saves {
                newest = self.info(save).await?;
                if newest.is_some() {
                    break;
                }
            }
            let Some(newest) = newest else { return Ok(None) };
            slots.push(SlotInfo {
                name: saves[0].slot.clone(),
                saves: saves.len() - recoveries,
                newest,
                has_recovery: recovery::pending(saves).is_some(),
            });
        }
        Ok(Some(slots))
    }

    /// All saves of all slots, with their heads, from one listing: by slot, newest first.
    pub async fn all_saves(&self) -> Result<Vec<SaveInfo>> {
        let mut saves = self.parsed(&self.prefix()).await?;
        saves.retain(|save| save.profile == self.profile);
        saves.sort_by(|a, b| a.slot.cmp(&b.slot).then(b.generation.cmp(&a.generation)));
        let mut infos = Vec::new();
        for save in &saves {
            infos.extend(self.info(save).await?);
        }
        Ok(infos)
    }

    /// All saves of a slot, newest first, with their heads. Those for after a crash are among them.
    pub async fn saves(&self, slot: &str) -> Result<Vec<SaveInfo>> {
        let mut infos = Vec::new();
        for save in self.saves_of(slot).await? {
            infos.extend(self.info(&save).await?);
        }
        Ok(infos)
    }

    fn damaged(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_options(&self) -> OpenOptions<'static> {
        Snapshot::options().limits(self.encode.limits.clone())
    }

    fn prefix(&self) -> String {
        self.profile.as_ref().map(|profile| format!("{profile}.")).unwrap_or_default()
    }

    fn name(&self, slot: &str, generation: u64, kind: Kind) -> SaveName {
        SaveName::new(self.profile.as_deref(), slot, generation, kind)
    }

    async fn parsed(&self, prefix: &str) -> Result<Vec<SaveName>> {
        Ok(self.store.list(prefix).await?.iter().filter_map(|name| SaveName::parse(name)).collect())
    }

    /// All saves of a slot, newest first.
    async fn saves_of(&self, slot: &str) -> Result<Vec<SaveName>> {
        check_slot(slot)?;
        let mut saves = self.parsed(&format!("{}{slot}.", self.prefix())).await?;
        saves.retain(|save| save.profile == self.profile && save.slot == slot);
        saves.sort_by_key(|save| Reverse(save.generation));
        Ok(saves)
    }

    async fn find(&self, slot: &str, generation: u64) -> Result<SaveName> {
        let saves = self.saves_of(slot).await?;
        let found =
            saves.into_iter().find(|save| save.generation == generation && save.kind != Kind::Recovery);
        found.ok_or_else(|| missing(&self.name(slot, generation, Kind::Free).to_string()))
    }

    /// Adds a save under the next number.
    async fn add(
        &self,
        slot: &str,
        snapshot: &Snapshot,
        details: &Details,
        kind: Kind,
    ) -> Result<(u64, u64)> {
        check_slot(slot)?;
        let rope = details.put_on(snapshot, (self.clock)())?.encode(&self.encode)?;
        let bytes = rope.len() as u64;
        let head = head_len(&rope)?;
        let source = Source::Payload(Payload::from(rope).leave_open(head));
        let generation = self.put_next(slot, source, kind).await?;
        Ok((generation, bytes))
    }

    /// Puts a save under the next number of its slot.
    async fn put_next(&self, slot: &str, source: Source<'_>, kind: Kind) -> Result<u64> {
        check_slot(slot)?;
        let (mut taken, mut misuses) = (0, 0);
        for _ in 0..RETRIES {
            let all = self.parsed("").await?;
            let slots = all.iter().filter(|save| save.profile == self.profile).map(|save| save.slot.as_str());
            check_case(slot, slots)?;
            if let Some(profile) = &self.profile {
                check_case(profile, all.iter().filter_map(|save| save.profile.as_deref()))?;
            }
            let here = || all.iter().filter(|save| save.profile == self.profile && save.slot == slot);
            if here().any(|save| (save.kind == Kind::Value) != (kind == Kind::Value)) {
                return Err(Error::misuse("a slot is for worlds or for values, not for both").in_key(slot));
            }
            let newest = here().map(|save| save.generation).max();
            let generation = next(newest.max(Some(taken)))?;
            let name = self.name(slot, generation, kind);
            let put = match &source {
                Source::Payload(payload) => {
                    self.store.put(&name.to_string(), payload.clone(), Precondition::Absent).await.map(drop)
                }
                Source::Save(from) => self.store.copy(from, &name.to_string()).await,
            };
            match put {
                Ok(()) => return self.make_newest(name).await,
                // Somebody else took the number, or something that is no save has the name: a directory, a link, the
                // same letters in other case.
                Err(error) if error.is_conflict() => taken = generation,
                Err(error) if error.is_misuse() && misuses < 8 => {
                    (taken, misuses) = (generation, misuses + 1);
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::conflict(format!("`{slot}` changes faster than it can be written")))
    }

    /// Others may have saved while this one was written, and locked or pruned theirs: then its number is one of theirs, or
    /// older. It gets a new one.
    async fn make_newest(&self, mut save: SaveName) -> Result<u64> {
        for _ in 0..RETRIES {
            let others = self.saves_of(&save.slot).await?.into_iter().filter(|other| *other != save);
            let newest = others.map(|other| other.generation).max();
            if newest < Some(save.generation) {
                break;
            }
            let renumbered = save.with_generation(next(newest)?);
            match self.store.rename(&save.to_string(), &renumbered.to_string()).await {
                Ok(()) => save = renumbered,
                Err(error) if error.is_conflict() => {}
                // Pruned already, by one that is newer.
                Err(error) if error.is_not_found() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(save.generation)
    }

    async fn open(&self, save: &SaveName, options: &OpenOptions<'_>) -> Result<(Snapshot, SaveInfo)> {
        let (bytes, info) = self.read(save).await?;
        Ok((options.open_shared(bytes)?, info))
    }

    async fn read(&self, save: &SaveName) -> Result<(Bytes, SaveInfo)> {
        let name = save.to_string();
        let info = self.info(save).await?.ok_or_else(|| missing(&name))?;
        // Headers and copies of small sections come on top of what the limits count.
        let max = self.encode.limits.raw_bytes_max.saturating_mul(2).saturating_add(1 << 20);
        if info.bytes > max {
            // A file that has become longer than it says is damaged, and not too large.
            if let Some(problem) = info.problem.filter(Error::is_corrupt) {
                return Err(problem);
            }
            return Err(Error::limit(format!(
                "`{name}` has {} bytes, more than the limits allow",
                info.bytes
            )));
        }
        let bytes = self.store.get(&name).await?;
        if is_sealed(&bytes) {
            return Err(Error::wrong_key(format!("`{name}` is sealed, and there is no key for it here")));
        }
        Ok((bytes, info))
    }

    /// What the head of a save tells; `None` if the save is gone.
    async fn info(&self, save: &SaveName) -> Result<Option<SaveInfo>> {
        let name = save.to_string();
        let head = match self.store.head(&name).await {
            Ok(Some(head)) => head,
            Ok(None) => return Ok(None),
            Err(error) => {
                let mut info = SaveInfo::of_name(save, 0);
                info.problem = Some(error);
                return Ok(Some(info));
            }
        };
        let mut info = SaveInfo::of_name(save, head.len);
        info.sealed = head.readable < head.len;
        for len in [SMALL_HEAD_BYTES, HEAD_BYTES_MAX] {
            let bytes = match self.store.get_range(&name, 0..len.min(head.readable)).await {
                Err(error) if error.is_not_found() => return Ok(None),
                read => read,
            };
            let sealed = bytes.as_ref().is_ok_and(|bytes| is_sealed(bytes));
            info.sealed |= sealed;
            match bytes.and_then(|bytes| self.open_options().head(&bytes)) {
                Ok(head) => {
                    info.problem = None;
                    info.add_head(head);
                    break;
                }
                Err(error) => info.problem = Some(error),
            }
            if head.readable <= len {
                break;
            }
        }
        if info.sealed && info.problem.is_some() {
            info.problem = Some(Error::wrong_key("it is sealed, and no key at hand opens it"));
        }
        Ok(Some(info))
    }
}

/// Where the bytes of a new save come from.
enum Source<'a> {
    Payload(Payload),
    /// Another save, by the name of its blob.
    Save(&'a str),
}

/// How many bytes the head of a save has: what lists of saves may read without a key.
fn head_len(rope: &Rope) -> Result<u64> {
    let mut start = Vec::new();
    for part in rope.parts() {
        let wanted = HEAD_BYTES_MAX as usize - start.len();
        start.extend_from_slice(&part[..part.len().min(wanted)]);
    }
    Ok(Snapshot::options().head(&start)?.bytes)
}

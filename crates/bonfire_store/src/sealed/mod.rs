//! A store whose blobs cannot be read, or not be changed unnoticed, by who has no key.
//!
//! What protects against whom is in the guide, `docs/book/src/sealing.md`, every byte in `format.rs`.

mod counter;
mod format;
mod frames;
mod key;
mod memory;
mod open;
mod random;
mod seal;
mod signature;
mod suite;

use std::ops::Range;

use bonfire::engine::AlignedBuf;
use bonfire::{Error, Result};
use bytes::Bytes;

use self::counter::CounterName;
pub use self::counter::TrustedCounter;
use self::format::{HEADER_BYTES, Header, Layout, SEGMENT_BYTES};
pub use self::frames::{FrameSealer, FrameSum};
use self::key::KeySearch;
pub use self::key::{PassphraseCosts, SealKey};
use self::memory::SpareBuffer;
use self::open::{BlobFront, SegmentOpener, no_key};
use self::seal::SealOptions;
pub use self::signature::{SigningKey, VerifyingKey};
pub use self::suite::Suite;
use crate::save_name::{JournalName, parse_last_number};
use crate::store::{
    Batch, BlobHead, Change, Payload, Precondition, Store, StoreFuture, Version, exists, is_sealed, missing,
};

/// Read first when a part is asked for: the header, and in most saves all that is open.
const FIRST_READ_BYTES: u64 = 16 << 10;

/// How often the length and the header of a blob are read again if somebody replaces it in between.
const TRIES_MAX: usize = 64;

/// A store whose blobs are sealed on their way into another store, and opened on their way out.
///
/// ```
/// use bonfire_store::{MemoryStore, Payload, Precondition, SealKey, Sealed, Store, Wait};
///
/// let disk = MemoryStore::new();
/// let store = Sealed::new(&disk, SealKey::from_bytes([7; 32]));
/// store.put("quick", Payload::from(b"42 gold".to_vec()), Precondition::None).wait()?;
/// assert_eq!(&store.get("quick").wait()?[..], b"42 gold");
///
/// let thief = Sealed::new(&disk, SealKey::from_bytes([8; 32]));
/// assert!(thief.get("quick").wait().unwrap_err().is_wrong_key());
/// # Ok::<(), bonfire::Error>(())
/// ```
///
/// | what was done to a save | the error |
/// |---|---|
/// | it belongs to a key that is not at hand | [`is_wrong_key`](Error::is_wrong_key) |
/// | changed, cut, extended, put together from several, under another name if names are bound, signed by a stranger | [`is_corrupt`](Error::is_corrupt) |
/// | an older one in the place of the newest, with a [`TrustedCounter`] | [`is_rollback`](Error::is_rollback) |
/// | its passphrase asks for too much memory or time | [`is_limit`](Error::is_limit) |
///
/// The start of a payload that was [left open](Payload::leave_open) can be read by everybody, also here without a key:
/// then nobody has checked it. [`BlobHead::readable`] says how far that goes. Blobs cannot be appended to, and their lengths
/// are no secret. A call works on the thread that polls; the memory of one large blob, up to 256 MiB, is kept for
/// the next.
pub struct Sealed<S> {
    store: S,
    seal: Seal,
}

/// All that is needed to seal and to open.
struct Seal {
    /// The first one writes if `writes`; all of them read.
    keys: Vec<SealKey>,
    /// The most that reading a save may cost, if its key comes from a passphrase.
    passphrase_costs_max: PassphraseCosts,
    writes: bool,
    suite: Suite,
    bind_name: bool,
    hide_metadata: bool,
    counter: Option<Box<dyn TrustedCounter>>,
    signer: Option<SigningKey>,
    verifiers: Vec<VerifyingKey>,
    spare: SpareBuffer,
}

impl<S: Store> Sealed<S> {
    /// Seals with `key` what goes into `store`, and opens what was sealed with it.
    pub fn new(store: S, key: SealKey) -> Self {
        let mut sealed = Self::without_key(store);
        sealed.seal.keys.push(key);
        sealed.seal.writes = true;
        sealed
    }

    /// Reads what is left open in sealed blobs, for lists of saves. It can check none of it; everything else is
    /// [`Error::is_wrong_key`].
    pub fn without_key(store: S) -> Self {
        let seal = Seal {
            keys: Vec::new(),
            passphrase_costs_max: PassphraseCosts::MAX,
            writes: false,
            suite: Suite::default(),
            bind_name: false,
            hide_metadata: false,
            counter: None,
            signer: None,
            verifiers: Vec::new(),
            spare: SpareBuffer::default(),
        };
        Self { store, seal }
    }

    /// Signs what goes into `store`, without secrecy and without any other key: for a server whose clients use
    /// [`verifying`](Self::verifying).
    pub fn signing(store: S, key: SigningKey) -> Self {
        Self::verifying(store, key.verifying_key()).sign_with(key)
    }

    /// Reads what was signed with the other half of `key`, and writes nothing.
    pub fn verifying(store: S, key: VerifyingKey) -> Self {
        Self::without_key(store).suite(Suite::Signed).require_signature(key)
    }

    /// How blobs are sealed. Default: [`Suite::XChaCha20Poly1305`]. All suites are read.
    pub fn suite(mut self, suite: Suite) -> Self {
        self.seal.suite = suite;
        self
    }

    /// Opens with this key, too. To change keys, write with the new one, read with the old one, and
    /// [`reseal`](Self::reseal) each blob.
    pub fn also_reads(mut self, key: SealKey) -> Self {
        self.seal.keys.push(key);
        self
    }

    /// Refuses a blob whose passphrase would cost more than this to stretch, with [`Error::is_limit`]. Default:
    /// [`PassphraseCosts::MAX`]. The costs are in the blob, before anything proves where it comes from: a game that knows
    /// what its saves cost says so, and a hostile file costs no more than they do.
    pub fn passphrase_costs_max(mut self, costs: PassphraseCosts) -> Self {
        self.seal.passphrase_costs_max = costs;
        self
    }

    /// Refuses a blob that was put under another name. Default: off, so that players may move their saves. Blobs that were
    /// put unbound stay readable. A rename of a bound blob opens it and seals it again. A store with a
    /// [counter](Self::counter) binds all names.
    pub fn bind_name(mut self) -> Self {
        self.seal.bind_name = true;
        self
    }

    /// Encrypts also the bytes that a payload leaves open. Default: off. Lists of saves then need the key.
    pub fn hide_metadata(mut self) -> Self {
        self.seal.hide_metadata = true;
        self
    }

    /// Counts the saves in a place that can be trusted, and refuses older ones than the newest. Default: nobody counts.
    ///
    /// New blobs are then bound to their names, because the name says what is counted together and whether a save is one
    /// for after a crash. Blobs from before that are not bound stay readable until the next save of their family.
    pub fn counter(mut self, counter: impl TrustedCounter + 'static) -> Self {
        self.seal.counter = Some(Box::new(counter));
        self
    }

    /// Signs what is put, over and above its suite. It says nothing of what is read: see
    /// [`require_signature`](Self::require_signature).
    pub fn sign_with(mut self, key: SigningKey) -> Self {
        self.seal.signer = Some(key);
        self
    }

    /// Refuses every blob that is not signed with the other half of this key, or of another one required so. A part of a
    /// signed blob that is not left open is then read with all of the blob.
    pub fn require_signature(mut self, key: VerifyingKey) -> Self {
        self.seal.verifiers.push(key);
        self
    }

    /// Opens a blob and seals it again as blobs are sealed now: with the key that writes, the suite, the signature. What
    /// was left open stays open, unless it is to be hidden now. [`Error::is_conflict`] if somebody replaces it meanwhile.
    pub async fn reseal(&self, name: &str) -> Result<Version> {
        let head = self.store.head(name).await?;
        let payload = self.get_payload(name).await?;
        let when = head.map_or(Precondition::Absent, |head| Precondition::Version(head.version));
        self.put(name, payload, when).await
    }

    /// Makes a batch in the store inside: new blobs are sealed, and blobs that are bound to their names are sealed again
    /// when they get another one.
    async fn change_sealed(&self, batch: Batch) -> Result<Vec<Option<Version>>> {
        batch.check()?;
        let mut sealed = SealedBatch::default();
        for expectation in batch.expectations() {
            sealed.inner = sealed.inner.with_expectation(expectation.clone());
        }
        for change in batch.changes() {
            let before = sealed.inner.changes().len();
            match change {
                // A mark without contents holds no secret, and deleting saves needs no key.
                Change::Put { name, payload } if payload.is_empty() && parse_last_number(name).is_some() => {
                    sealed.put(name, payload.clone());
                }
                Change::Put { name, payload } => self.add_put(&mut sealed, name, payload, self.style())?,
                Change::Append { name, .. } => {
                    return Err(Error::unsupported(format!(
                        "`{name}` is sealed and cannot be appended to: put all of it, or number its pieces"
                    )));
                }
                Change::Copy { from, to } => {
                    self.add_copy(&mut sealed, from, to).await?;
                }
                Change::Rename { from, to } => self.add_rename(&mut sealed, from, to).await?,
                Change::Remove { name } => self.add_removal(&mut sealed, name).await,
            }
            sealed.first_changes.push(before);
        }
        let versions = self.store.change(sealed.inner).await?;
        if let Some(counter) = &self.seal.counter {
            sealed.advances.iter().try_for_each(|(family, to)| counter.advance(family, *to))?;
        }
        Ok(sealed.first_changes.iter().map(|place| versions.get(*place).cloned().flatten()).collect())
    }

    fn add_put(
        &self,
        batch: &mut SealedBatch,
        name: &str,
        payload: &Payload,
        style: SealOptions,
    ) -> Result<()> {
        self.seal.check_signer()?;
        if self.seal.counter.is_some() && JournalName::parse(name).is_some() {
            return Err(Error::unsupported(
                "nobody would notice that the end of a journal is cut off, and older saves are refused here: save as a whole",
            ));
        }
        let mut number = 0;
        if let Some(counter) = &self.seal.counter {
            let CounterName { name: family, recovery } = CounterName::of(name);
            let newest = counter.newest(&family)?.max(batch.newest(&family));
            number = newest.checked_add(1).ok_or_else(|| Error::limit("the counter is at its end"))?;
            if !recovery {
                batch.advances.push((family, number));
            }
        }
        let blob = self.seal.seal(name, payload, number, style)?;
        batch.put(name, Payload::from(blob).watched_as(payload));
        Ok(())
    }

    /// How blobs are sealed that are new here.
    fn style(&self) -> SealOptions {
        SealOptions { suite: self.seal.suite, bound: self.seal.binds_names() }
    }

    /// Puts a sealed blob under another name, as what it is. What this store cannot give it is not taken away. Returns the
    /// header of the blob that was opened; `None` if it is not sealed.
    async fn add_copy(&self, batch: &mut SealedBatch, from: &str, to: &str) -> Result<Option<Header>> {
        let blob = self.store.get(from).await?;
        if !is_sealed(&blob) {
            batch.inner = std::mem::take(&mut batch.inner).copy(from, to);
            return Ok(None);
        }
        let header = Header::decode(&blob)?;
        if header.signed && self.seal.signer.is_none() {
            return Err(Error::wrong_key(format!(
                "`{from}` is signed, and there is no key here to sign a copy"
            )));
        }
        if header.counter > 0 && self.seal.counter.is_none() {
            return Err(Error::misuse(format!("`{from}` is counted, and there is no counter here")));
        }
        let payload = Payload::from(self.seal.open(from, &blob)?).leave_open(header.open);
        let style = SealOptions { suite: header.suite, bound: header.bound || self.seal.binds_names() };
        batch.inner = std::mem::take(&mut batch.inner).expect(to, Precondition::Absent);
        self.add_put(batch, to, &payload, style)?;
        Ok(Some(header))
    }

    async fn add_rename(&self, batch: &mut SealedBatch, from: &str, to: &str) -> Result<()> {
        let before = self.store.head(from).await?.ok_or_else(|| missing(from))?;
        if from == to {
            return Err(exists(to));
        }
        let start = self.store.get_range(from, 0..HEADER_BYTES as u64).await?;
        // Another program may put a blob meanwhile that has another seal.
        let inner = std::mem::take(&mut batch.inner).expect(from, Precondition::Version(before.version));
        let header = match Header::decode(&start) {
            Ok(header) => header,
            // A newer build knows what it means to move it.
            Err(error) if error.is_newer_format() => return Err(error),
            // What is no sealed blob can be moved out of the way like any other.
            Err(_) => {
                batch.inner = inner.rename(from, to);
                return Ok(());
            }
        };
        let (old, new) = (CounterName::of(from), CounterName::of(to));
        let counted_apart = self.seal.counter.is_some() && old.name != new.name;
        if header.bound || self.seal.binds_names() {
            batch.inner = inner;
            // The header above decides how the blob moves, and nobody has proven it. The one that was opened counts.
            let opened = self.add_copy(batch, from, to).await?;
            batch.inner = std::mem::take(&mut batch.inner).remove(from);
            if let Some(header) = opened.filter(|_| counted_apart) {
                self.retire(batch, from, &header)?;
            }
            return Ok(());
        }
        batch.inner = inner.rename(from, to);
        Ok(())
    }

    async fn add_removal(&self, batch: &mut SealedBatch, name: &str) {
        if self.seal.counter.is_some() {
            // Whatever it is, it goes. Only a blob that a key has sealed moves the counter.
            if let Ok(Some(header)) = self.authentic_header(name).await {
                let _ = self.retire(batch, name, &header);
            }
        }
        batch.inner = std::mem::take(&mut batch.inner).remove(name);
    }

    /// The header of a blob, if a key at hand or a required signature proves that nobody else wrote it.
    async fn authentic_header(&self, name: &str) -> Result<Option<Header>> {
        let front = self.read_front(name).await?;
        let is_authentic = match self.seal.check_front(name, &front, KeySearch::Full)? {
            Some(_) => true,
            None => !self.seal.verifiers.is_empty(),
        };
        Ok(is_authentic.then_some(front.header))
    }

    /// If the blob of this header is the newest of its family: nothing that was there opens any more. The header must be
    /// authentic: a counter that is moved by a forged one ends all saves.
    fn retire(&self, batch: &mut SealedBatch, name: &str, header: &Header) -> Result<()> {
        let (Some(counter), CounterName { name, recovery: false }) =
            (&self.seal.counter, CounterName::of(name))
        else {
            return Ok(());
        };
        if header.counter >= counter.newest(&name)? {
            batch.advances.push((name, header.counter.saturating_add(1)));
        }
        Ok(())
    }

    async fn get_opened(&self, name: &str) -> Result<Bytes> {
        let blob = self.store.get(name).await?;
        self.seal.open(name, &blob)
    }

    /// All of a blob, as it was put.
    async fn get_payload(&self, name: &str) -> Result<Payload> {
        let blob = self.store.get(name).await?;
        let open = Header::decode(&blob)?.open;
        Ok(Payload::from(self.seal.open(name, &blob)?).leave_open(open))
    }

    /// All of a blob that stands before its segments.
    async fn read_front(&self, name: &str) -> Result<BlobFront> {
        let first = self.store.get_range(name, 0..FIRST_READ_BYTES).await?;
        let Some(head) = self.store.head(name).await? else { return Err(open::damaged(name)) };
        let layout = Layout::of(&Header::decode(&first)?)?;
        layout.check_len(head.len)?;
        let first = match layout.front <= first.len() as u64 {
            true => first,
            false => self.store.get_range(name, 0..layout.front).await?,
        };
        // Of the same read as the rest: the blob may have been replaced since the first one.
        BlobFront::decode(&first, head.len)
    }

    /// A part, from several reads: somebody may replace the blob between them.
    async fn get_part(&self, name: &str, range: &Range<u64>) -> Result<Bytes> {
        let front = self.read_front(name).await?;
        let layout = front.layout;
        let search = match range.end.min(layout.len()) <= layout.open {
            true => KeySearch::Glance,
            false => KeySearch::Full,
        };
        let cipher = self.seal.check_front(name, &front, search)?;

        let end = range.end.min(layout.len());
        let start = range.start.min(end);
        if end <= layout.open {
            return Ok(front.open().slice(start as usize..end as usize));
        }
        let cipher = cipher.ok_or_else(|| no_key(name))?;
        if self.seal.needs_whole(&front.header) {
            return Ok(slice(&self.get_opened(name).await?, range));
        }
        let segment = SEGMENT_BYTES as u64;
        let (body_start, body_end) = (start.saturating_sub(layout.open), end - layout.open);
        let indices = body_start / segment..body_end.div_ceil(segment);
        if indices.is_empty() {
            return Ok(Bytes::new());
        }
        let place = layout.sealed(indices.start).start..layout.sealed(indices.end - 1).end;
        let text = layout.text(indices.start).start..layout.text(indices.end - 1).end;
        let sealed = self.store.get_range(name, place).await?;

        let open = front.open();
        let open = &open[start.min(layout.open) as usize..];
        let mut memory = AlignedBuf::try_zeroed(open.len() as u64 + (text.end - text.start))?;
        let (before, body) = memory.as_mut().split_at_mut(open.len());
        before.copy_from_slice(open);
        SegmentOpener { name, cipher: &cipher, layout: &layout }.open(indices, &sealed, body, |_| {})?;
        let skipped = (body_start - text.start) as usize;
        Ok(memory.share().slice(skipped..skipped + (end - start) as usize))
    }

    async fn head_opened(&self, name: &str) -> Result<Option<BlobHead>> {
        let mut tries = TRIES_MAX;
        loop {
            let Some(head) = self.store.head(name).await? else { return Ok(None) };
            tries -= 1;
            match self.head_of(name, &head).await {
                Err(error) if error.is_not_found() => return Ok(None),
                Err(error) if error.is_corrupt() && tries > 0 => {
                    let now = self.store.head(name).await?;
                    if now.is_some_and(|now| now.version == head.version) {
                        return Err(error);
                    }
                }
                opened => return opened.map(Some),
            }
        }
    }

    /// What the header of a blob says, if it is still the blob that `head` is of.
    async fn head_of(&self, name: &str, head: &BlobHead) -> Result<BlobHead> {
        let start = self.store.get_range(name, 0..HEADER_BYTES as u64).await?;
        let header = Header::decode(&start)?;
        let layout = Layout::of(&header)?;
        layout.check_len(head.len)?;
        let len = layout.len();
        let readable = if self.seal.can_open(&header)? { len } else { layout.open };
        Ok(BlobHead { len, readable, version: head.version.clone() })
    }
}

/// A batch for the store inside.
#[derive(Default)]
struct SealedBatch {
    inner: Batch,
    /// For each change, the place of the first one that it became.
    first_changes: Vec<usize>,
    /// Numbers that counters reach when the batch is made.
    advances: Vec<(String, u64)>,
}

impl SealedBatch {
    fn put(&mut self, name: &str, payload: Payload) {
        self.inner = std::mem::take(&mut self.inner).put(name, payload);
    }

    /// The largest number that the batch gives to a family.
    fn newest(&self, family: &str) -> u64 {
        let of_family = self.advances.iter().filter(|(found, _)| found == family);
        of_family.map(|(_, number)| *number).max().unwrap_or(0)
    }
}

/// The part of some bytes that `range` and they have in common.
fn slice(bytes: &Bytes, range: &Range<u64>) -> Bytes {
    let end = range.end.min(bytes.len() as u64);
    bytes.slice(range.start.min(end) as usize..end as usize)
}

impl<S: Store> Store for Sealed<S> {
    fn change(&self, batch: Batch) -> StoreFuture<'_, Vec<Option<Version>>> {
        Box::pin(self.change_sealed(batch))
    }

    fn get<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Bytes> {
        Box::pin(self.get_opened(name))
    }

    fn get_range<'a>(&'a self, name: &'a str, range: Range<u64>) -> StoreFuture<'a, Bytes> {
        Box::pin(async move {
            match self.get_part(name, &range).await {
                // Damaged, or replaced while it was read: one read of everything tells.
                Err(error) if error.is_corrupt() => Ok(slice(&self.get_opened(name).await?, &range)),
                part => part,
            }
        })
    }

    fn head<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Option<BlobHead>> {
        Box::pin(self.head_opened(name))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<String>> {
        self.store.list(prefix)
    }

    fn path_of(&self, name: &str) -> Option<String> {
        self.store.path_of(name)
    }
}

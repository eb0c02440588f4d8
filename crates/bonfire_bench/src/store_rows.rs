//! Saves on a real disk: what Bonfire adds to what the operating system takes, by the wall clock, and what
//! sealing adds to its cipher, in time of the thread; both in turns with the baseline.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write as _;
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use aes_gcm_siv::Aes256GcmSiv;
use bonfire::engine::{AlignedBuf, SnapshotWriter};
use bonfire::{EncodeOptions, EntityId, Persist, Registry, Snapshot};
use bonfire_store::backend::{Change, StoreFuture};
use bonfire_store::{
    Batch, BlobHead, Details, DirStore, Payload, Precondition, SealKey, Sealed, Slots, Store, Suite, Version,
    Wait,
};
use bytes::Bytes;
use chacha20poly1305::XChaCha20Poly1305;
use chacha20poly1305::aead::inout::InOutBuf;
use chacha20poly1305::aead::{AeadInOut, KeyInit, Nonce, Tag};

use crate::measure::{Row, seconds, turns};

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |key, target, measure: fn() -> (f64, String)| {
        rows.push(Row { key, target, measure: Box::new(measure) });
    };
    add("store_put_x_raw", Some(1.1), put);
    add("store_get_x_raw", Some(1.15), get);
    add("sealed_time_x_cipher", Some(1.15), || sealed(Suite::XChaCha20Poly1305, false));
    add("sealed_aes_time_x_cipher", Some(1.15), || sealed(Suite::Aes256GcmSiv, false));
    add("sealed_time_x_cipher_in_place", None, || sealed(Suite::XChaCha20Poly1305, true));
    add("list_1000_slots_x_readdir", None, list);
    rows
}

/// The median of this many pairs of runs in turns.
const ROUNDS: usize = 15;

fn wall(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

#[derive(Clone, Copy, Persist)]
#[persist(key = "bench.body")]
struct Body {
    position: [f32; 3],
    velocity: [f32; 3],
    health: f32,
}

/// A world whose save has about 64 MB.
fn world() -> Snapshot {
    let registry = Registry::new().with::<Body>().expect("one component");
    let count = 64_000_000 / 36;
    let ids: Vec<EntityId> = (0..count).map(|index| EntityId::new(index, 0)).collect();
    let body = |index: u32| Body { position: [index as f32; 3], velocity: [1.0; 3], health: 100.0 };
    let bodies: Vec<Body> = (0..count).map(body).collect();
    let mut writer = SnapshotWriter::new(&registry).checksums();
    let mut archetype = writer.archetype(&ids).expect("distinct ids");
    archetype.column(&bodies).expect("one row for each");
    writer.finish().expect("a whole world")
}

/// What every careful program does, and no more.
fn raw_put(directory: &Path, bytes: &[u8]) {
    let temporary = directory.join("raw.tmp");
    let mut file = File::create_new(&temporary).expect("a new file");
    file.write_all(bytes).expect("room on the disk");
    file.sync_data().expect("a disk that works");
    drop(file);
    fs::rename(&temporary, directory.join("raw")).expect("both in one directory");
    File::open(directory).and_then(|directory| directory.sync_all()).expect("a disk that works");
}

fn note(ours: f64, theirs: f64, bytes: usize) -> String {
    let speed = |seconds: f64| bytes as f64 / seconds / 1e6;
    format!(
        "{:.1} ms, baseline {:.1} ms; {:.0} MB/s, baseline {:.0}; {:.1} MB",
        ours * 1e3,
        theirs * 1e3,
        speed(ours),
        speed(theirs),
        bytes as f64 / 1e6
    )
}

fn put() -> (f64, String) {
    let home = tempfile::tempdir().expect("a directory for temporary files");
    let store = DirStore::open(home.path().join("store")).expect("a new directory");
    let raw = home.path().join("raw");
    fs::create_dir(&raw).expect("a new directory");
    let rope = world().encode(&EncodeOptions::default()).expect("within the limits");
    let bytes = rope.to_vec();
    let (ours, theirs) = turns(
        ROUNDS,
        || {
            let payload = Payload::from(rope.clone());
            wall(|| drop(store.put("save", payload, Precondition::None).wait().expect("a disk that works")))
        },
        || wall(|| raw_put(&raw, &bytes)),
    );
    (ours / theirs, note(ours, theirs, bytes.len()))
}

/// From a file to a checked snapshot, times the read of the file into memory.
fn get() -> (f64, String) {
    let home = tempfile::tempdir().expect("a directory for temporary files");
    let store = DirStore::open(home.path()).expect("a new directory");
    let rope = world().encode(&EncodeOptions::default()).expect("within the limits");
    let len = rope.len();
    store.put("save", Payload::from(rope), Precondition::None).wait().expect("a disk that works");
    let path = home.path().join("save");
    let (ours, theirs) = turns(
        ROUNDS,
        || {
            wall(|| {
                let bytes = store.get("save").wait().expect("it was just put");
                black_box(Snapshot::options().open_shared(bytes).expect("it is whole"));
            })
        },
        || {
            wall(|| {
                let mut memory = AlignedBuf::zeroed(len);
                let mut file = File::open(&path).expect("it was just put");
                std::io::Read::read_exact(&mut file, memory.as_mut()).expect("as long as what was put");
                black_box(memory);
            })
        },
    );
    (ours / theirs, note(ours, theirs, len))
}

/// A store that copies nothing: it keeps the first blob and drops the others, as a disk does when they are written.
#[derive(Default)]
struct Shelf(Mutex<Bytes>);

impl Store for Shelf {
    fn change(&self, batch: Batch) -> StoreFuture<'_, Vec<Option<Version>>> {
        let [Change::Put { payload, .. }] = batch.changes() else { panic!("one blob at a time") };
        let [part] = payload.parts() else { panic!("a sealed blob lies in one piece") };
        let mut kept = self.0.lock().expect("nobody panics");
        if kept.is_empty() {
            *kept = Bytes::copy_from_slice(part);
        }
        Box::pin(async { Ok(vec![Some(Version::new("only"))]) })
    }
    fn get<'a>(&'a self, _: &'a str) -> StoreFuture<'a, Bytes> {
        let bytes = self.0.lock().expect("nobody panics").clone();
        Box::pin(async { Ok(bytes) })
    }
    fn get_range<'a>(&'a self, _: &'a str, _: Range<u64>) -> StoreFuture<'a, Bytes> {
        not_here()
    }
    fn head<'a>(&'a self, _: &'a str) -> StoreFuture<'a, Option<BlobHead>> {
        not_here()
    }
    fn list<'a>(&'a self, _: &'a str) -> StoreFuture<'a, Vec<String>> {
        not_here()
    }
}

fn not_here<'a, T: Send + 'a>() -> StoreFuture<'a, T> {
    Box::pin(async { Err(bonfire::Error::unsupported("this store puts and gets")) })
}

/// There and back through a seal, times the bare cipher there and back: from one piece of memory into another that is
/// warm, because nobody may overwrite a snapshot, or in place, which moves half of the memory.
fn sealed(suite: Suite, in_place: bool) -> (f64, String) {
    let rope = world().encode(&EncodeOptions::default()).expect("within the limits");
    let store = Sealed::new(Shelf::default(), SealKey::from_bytes([7; 32])).suite(suite);
    let mut bare = Bare { text: rope.to_vec(), sealed: rope.to_vec(), opened: rope.to_vec(), in_place };
    let chacha = XChaCha20Poly1305::new(&[7; 32].into());
    let aes = Aes256GcmSiv::new(&[7; 32].into());
    let (ours, theirs) = turns(
        ROUNDS,
        || {
            let mut payload = Some(Payload::from(rope.clone()));
            seconds(&mut || {
                let payload = payload.take().expect("run once");
                store.put("save", payload, Precondition::None).wait().expect("memory takes it");
                drop(black_box(store.get("save").wait().expect("the right key")));
            })
        },
        || {
            seconds(&mut || match suite {
                Suite::Aes256GcmSiv => bare.there_and_back(&aes),
                _ => bare.there_and_back(&chacha),
            })
        },
    );
    (ours / theirs, note(ours, theirs, rope.len()))
}

/// Memory for a cipher alone.
struct Bare {
    text: Vec<u8>,
    sealed: Vec<u8>,
    opened: Vec<u8>,
    in_place: bool,
}

impl Bare {
    fn there_and_back<C: AeadInOut>(&mut self, cipher: &C) {
        let nonce = Nonce::<C>::default();
        let Self { text, sealed, opened, in_place } = self;
        let segment_bytes = 64 << 10;
        let mut tags: Vec<Tag<C>> = Vec::new();
        for (text, sealed) in text.chunks(segment_bytes).zip(sealed.chunks_mut(segment_bytes)) {
            let segment =
                if *in_place { sealed.into() } else { InOutBuf::new(text, sealed).expect("as long") };
            tags.push(cipher.encrypt_inout_detached(&nonce, &[], segment).expect("short segments"));
        }
        let places = sealed.chunks_mut(segment_bytes).zip(opened.chunks_mut(segment_bytes));
        for ((sealed, opened), tag) in places.zip(&tags) {
            let segment =
                if *in_place { sealed.into() } else { InOutBuf::new(sealed, opened).expect("as long") };
            cipher.decrypt_inout_detached(&nonce, &[], segment, tag).expect("it was just sealed");
        }
    }
}

fn list() -> (f64, String) {
    let home = tempfile::tempdir().expect("a directory for temporary files");
    let slots = Slots::new(DirStore::open(home.path()).expect("a new directory"));
    let registry = Registry::new();
    let empty = SnapshotWriter::new(&registry).finish().expect("a world without entities");
    let details = Details::new().label("A save").game_version("1.0").thumbnail(vec![7; 20_000]);
    slots.save("slot-0", &empty, &details).wait().expect("a disk that works");
    let first = fs::read(home.path().join("slot-0.00000001.bonfire")).expect("it was just saved");
    for slot in 1..1000 {
        fs::write(home.path().join(format!("slot-{slot}.00000001.bonfire")), &first)
            .expect("room on the disk");
    }
    let (ours, theirs) = turns(
        ROUNDS,
        || wall(|| assert_eq!(slots.list().wait().expect("whole saves").len(), 1000)),
        || wall(|| assert!(fs::read_dir(home.path()).expect("it is there").count() >= 1000)),
    );
    (
        ours / theirs,
        format!("{:.1} ms, readdir {:.2} ms; 20 KB thumbnails included", ours * 1e3, theirs * 1e3),
    )
}

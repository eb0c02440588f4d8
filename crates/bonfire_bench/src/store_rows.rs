//! Saves on a real disk: what Bonfire adds to what the operating system takes. Wall clock, in turns with the baseline.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use bonfire::{AlignedBuf, EncodeOptions, EntityId, Persist, Registry, Snapshot, SnapshotWriter};
use bonfire_store::{Details, DirStore, Payload, Precondition, Slots, Store, Wait};

use crate::measure::{Row, turns};

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |key, target, measure: fn() -> (f64, String)| {
        rows.push(Row { key, target, measure: Box::new(measure) });
    };
    add("store_put_x_raw", Some(1.1), put);
    add("store_get_x_raw", Some(1.15), get);
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

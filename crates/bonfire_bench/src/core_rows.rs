//! The rows of the core: encoding, opening, strided columns, rich rows, JSON.

use std::hint::black_box;

use bonfire::engine::{AlignedBuf, BufferPool, EntityMap, LoadPlan, Rope, SnapshotWriter};
use bonfire::{EncodeOptions, EntityId, LoadOptions, OpenOptions, Snapshot};

use crate::measure::{Row, against, note, rounds, seconds};
use crate::plain::{self, Memcpy, Strided};
use crate::rpg;

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |key, target, measure: fn() -> (f64, String)| {
        rows.push(Row { key, target, measure: Box::new(measure) });
    };
    add("encode_10k", None, || encode(10_000));
    add("encode_100k", Some(1.3), || encode(100_000));
    add("encode_1m", None, || encode(1_000_000));
    add("columns_to_bytes_10k", None, || columns_to_bytes(10_000));
    add("columns_to_bytes_100k", None, || columns_to_bytes(100_000));
    add("columns_to_bytes_1m", None, || columns_to_bytes(1_000_000));
    add("view_open_100k", Some(1.0), || view_open(100_000));
    add("strided_100k", Some(3.0), || strided_encode(100_000));
    add("strided_decode_100k", Some(3.0), || strided_decode(100_000));
    add("rows_rpg_100k_encode", Some(1.0), || rpg_encode(100_000));
    add("rows_rpg_100k_decode", Some(1.5), || rpg_decode(100_000));
    add("json_export_100k", None, || json_export(100_000));
    rows
}

pub(crate) fn encoded(snapshot: &Snapshot) -> Rope {
    snapshot.encode(&EncodeOptions::default()).expect("it encodes")
}

/// Columns that are captured already, to bytes with checksums, times a memcpy of them.
fn encode(entities: usize) -> (f64, String) {
    let world = plain::World::new(entities);
    let (registry, pool, mut memcpy) = (plain::registry(), BufferPool::default(), world.memcpy());
    let snapshot = world.capture(&registry, &pool);
    let bytes = encoded(&snapshot).len();
    let (ours, theirs) = against(rounds(entities), || drop(black_box(encoded(&snapshot))), || memcpy.run());
    (ours / theirs, note(ours, theirs, entities, bytes))
}

/// Columns in the game's memory to bytes with checksums: the copy and the encoding.
fn columns_to_bytes(entities: usize) -> (f64, String) {
    let world = plain::World::new(entities);
    let (registry, pool, mut memcpy) = (plain::registry(), BufferPool::default(), world.memcpy());
    let bytes = encoded(&world.capture(&registry, &pool)).len();
    let work = || drop(black_box(encoded(&world.capture(&registry, &pool))));
    let (ours, theirs) = against(rounds(entities), work, || memcpy.run());
    (ours / theirs, note(ours, theirs, entities, bytes))
}

/// Opens and checks bytes in aligned memory.
fn view_open(entities: usize) -> (f64, String) {
    let world = plain::World::new(entities);
    let (registry, pool, mut memcpy) = (plain::registry(), BufferPool::default(), world.memcpy());
    let bytes = AlignedBuf::copy_from(&encoded(&world.capture(&registry, &pool)).to_vec()).share();
    let options = OpenOptions::new();
    let work = || drop(black_box(options.open_shared(bytes.clone()).expect("it was just written")));
    let (ours, theirs) = against(rounds(entities), work, || memcpy.run());
    (ours / theirs, note(ours, theirs, entities, bytes.len()))
}

fn strided_rows(entities: usize) -> (Vec<EntityId>, Vec<Strided>) {
    let ids = (0..entities as u32).map(|index| EntityId::new(index, 0)).collect();
    let row = |i: usize| Strided { position: [i as f32; 3], team: i as u8, flash: 1.0, health: 0.5 };
    (ids, (0..entities).map(row).collect())
}

/// A column with a gap and a skipped field, gathered, times a memcpy of the column as it lies in memory.
fn strided_encode(entities: usize) -> (f64, String) {
    let (ids, rows) = strided_rows(entities);
    let (registry, pool) = (plain::registry(), BufferPool::default());
    let mut memcpy = Memcpy::of(size_of_val(&*rows) + size_of_val(&*ids));
    let capture = || {
        let mut writer = SnapshotWriter::new(&registry).pool(&pool).reserve(entities * 40);
        writer.archetype(&ids).expect("few entities").column(&rows).expect("a registered column");
        writer.finish().expect("a column that fits")
    };
    let bytes = encoded(&capture()).len();
    let work = || drop(black_box(capture()));
    let (ours, theirs) = against(rounds(entities), work, || memcpy.run());
    (ours / theirs, note(ours, theirs, entities, bytes))
}

/// The same column scattered into values.
fn strided_decode(entities: usize) -> (f64, String) {
    let (ids, rows) = strided_rows(entities);
    let registry = plain::registry();
    let mut memcpy = Memcpy::of(size_of_val(&*rows) + size_of_val(&*ids));
    let mut writer = SnapshotWriter::new(&registry);
    writer.archetype(&ids).expect("few entities").column(&rows).expect("a registered column");
    let bytes = encoded(&writer.finish().expect("a column that fits")).to_vec();
    let snapshot = Snapshot::open(&bytes).expect("it was just written");
    let map = EntityMap::identity(&ids).expect("distinct ids");
    let plan = LoadPlan::new(&snapshot, &registry, LoadOptions::default()).expect("a known component");
    let work = || drop(black_box(plan.stage(&map, None).expect("valid rows")));
    let (ours, theirs) = against(rounds(entities), work, || memcpy.run());
    (ours / theirs, note(ours, theirs, entities, bytes.len()))
}

/// The rpg set to bytes with checksums, times hand-written serde + postcard columns.
fn rpg_encode(entities: usize) -> (f64, String) {
    let world = rpg::World::new(entities);
    let (registry, pool) = (rpg::registry(), BufferPool::default());
    let mut buffer = Vec::new();
    let ours_bytes = encoded(&world.capture(&registry, &pool)).len();
    let theirs_bytes = world.postcard(Vec::new()).0.len();
    let work = || drop(black_box(encoded(&world.capture(&registry, &pool))));
    let baseline = || buffer = black_box(world.postcard(std::mem::take(&mut buffer)).0);
    let (ours, theirs) = against(rounds(entities) / 2, work, baseline);
    let note = note(ours, theirs, entities, ours_bytes);
    (ours / theirs, format!("{note}, baseline {:.1}", theirs_bytes as f64 / entities as f64))
}

/// Bytes of the rpg set to values, checksums and mapped references included, times postcard's decoding alone.
fn rpg_decode(entities: usize) -> (f64, String) {
    let world = rpg::World::new(entities);
    let (registry, pool) = (rpg::registry(), BufferPool::default());
    let bytes = AlignedBuf::copy_from(&encoded(&world.capture(&registry, &pool)).to_vec()).share();
    let (postcard, ends) = world.postcard(Vec::new());
    let options = OpenOptions::new();
    let work = || {
        let snapshot = options.open_shared(bytes.clone()).expect("it was just written");
        let plan = LoadPlan::new(&snapshot, &registry, LoadOptions::default()).expect("known components");
        let map = EntityMap::identity(&plan.entities()).expect("distinct ids");
        drop(black_box(plan.stage(&map, None).expect("valid rows")));
    };
    let baseline = || {
        black_box(rpg::World::from_postcard(&postcard, &ends));
    };
    let (ours, theirs) = against(rounds(entities) / 2, work, baseline);
    (ours / theirs, note(ours, theirs, entities, bytes.len()))
}

/// Megabytes of JSON per second; higher is better.
fn json_export(entities: usize) -> (f64, String) {
    let world = plain::World::new(entities);
    let snapshot = world.capture(&plain::registry(), &BufferPool::default());
    let mut len = 0;
    let time = seconds(&mut || len = black_box(snapshot.to_json().expect("it exports")).len());
    (
        len as f64 / 1e6 / time,
        format!("MB/s, higher is better: {:.1} MB in {:.0} ms", len as f64 / 1e6, time * 1e3),
    )
}

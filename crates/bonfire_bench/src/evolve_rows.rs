//! What it costs to load saves of older builds: a column of one component, from bytes to values, times the load of the same
//! column as this build saves it.

use std::hint::black_box;

use bonfire::engine::{AlignedBuf, BufferPool, LoadPlan, SnapshotWriter};
use bonfire::{EntityId, Keyed, LoadOptions, OpenOptions, Persist, Registry, Upgrader};
use bytes::Bytes;

use crate::core_rows::encoded;
use crate::measure::{Row, against, note, rounds};

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |key, target, measure: fn() -> (f64, String)| {
        rows.push(Row { key, target: Some(target), measure: Box::new(measure) });
    };
    add("load_same_schema_100k", 1.02, || same_schema(100_000));
    add("load_by_name_100k", 3.0, || by_name(100_000));
    add("load_by_name_rows_100k", 3.0, || by_name_rows(100_000));
    add("load_chain2_100k", 6.0, || chain(100_000));
    add("load_raw_chain2_100k", 1.3, || raw_chain(100_000));
    rows
}

#[derive(Clone, Persist)]
#[persist(key = "bench.body")]
struct BodyV1 {
    position: [f32; 3],
    health: f32,
    team: u32,
}

/// One field more.
#[derive(Clone, Persist)]
#[persist(key = "bench.body")]
struct BodyV1Grown {
    position: [f32; 3],
    health: f32,
    #[persist(default = 1.0)]
    speed: f32,
    team: u32,
}

#[derive(Clone, Persist)]
#[persist(key = "bench.body", version = 2, from = BodyV1)]
struct BodyV2 {
    position: [f32; 3],
    health: f32,
    max: f32,
    team: u32,
}
impl From<BodyV1> for BodyV2 {
    fn from(old: BodyV1) -> Self {
        Self { position: old.position, health: old.health, max: 100.0, team: old.team }
    }
}

#[derive(Clone, Persist)]
#[persist(key = "bench.body", version = 3, from = BodyV2)]
struct Body {
    position: [f32; 3],
    fraction: f32,
    max: f32,
    team: u64,
}
impl From<BodyV2> for Body {
    fn from(old: BodyV2) -> Self {
        Self {
            position: old.position,
            fraction: old.health / old.max,
            max: old.max,
            team: u64::from(old.team),
        }
    }
}

#[derive(Clone, Persist)]
#[persist(key = "bench.label")]
struct Label {
    name: String,
    score: u32,
}

#[derive(Clone, Persist)]
#[persist(key = "bench.label")]
struct LabelGrown {
    name: String,
    #[persist(default = 7)]
    level: u16,
    score: u32,
}

/// One text, as the first version of tags was.
#[derive(Clone, Persist)]
#[persist(key = "bench.tags")]
struct TagsV1(String);

#[derive(Clone, Persist)]
#[persist(key = "bench.tags", version = 3)]
struct Tags {
    tags: Vec<String>,
    count: u32,
}

/// A save of one column.
fn saved<T: Keyed + Clone>(rows: &[T]) -> Bytes {
    let registry = Registry::new().with::<T>().expect("a type with a key");
    let ids: Vec<EntityId> = (0..rows.len() as u32).map(|index| EntityId::new(index, 0)).collect();
    let pool = BufferPool::default();
    let mut writer = SnapshotWriter::new(&registry).pool(&pool);
    writer.archetype(&ids).expect("few entities").column(rows).expect("a registered column");
    let bytes = encoded(&writer.finish().expect("a column that fits")).to_vec();
    AlignedBuf::copy_from(&bytes).share()
}

/// From bytes to values in memory of their own.
fn load<T: Keyed>(bytes: &Bytes, registry: &Registry) -> Vec<T> {
    let snapshot = OpenOptions::new().open_shared(bytes.clone()).expect("it was just written");
    let snapshot = snapshot.migrated(registry).expect("nothing to migrate");
    let plan = LoadPlan::new(&snapshot, registry, LoadOptions::default()).expect("a known component");
    let map = plan.same_entities().expect("distinct ids");
    let mut staged = plan.stage(&map, None).expect("valid rows");
    let column = staged.archetypes[0].take::<T>().expect("the column");
    column.into_rows::<T>().expect("rows of the type")
}

fn compare<New: Keyed, Plain: Keyed>(
    (old, registry): (&Bytes, &Registry),
    (new, plain): (&Bytes, &Registry),
    entities: usize,
) -> (f64, String) {
    let work = || drop(black_box(load::<New>(old, registry)));
    let baseline = || drop(black_box(load::<Plain>(new, plain)));
    let (ours, theirs) = against(rounds(entities), work, baseline);
    (ours / theirs, note(ours, theirs, entities, old.len()))
}

fn registry<T: Keyed>() -> Registry {
    Registry::new().with::<T>().expect("a type with a key")
}

fn bodies<T>(entities: usize, body: impl Fn(usize) -> T) -> Vec<T> {
    (0..entities).map(body).collect()
}

fn body(i: usize) -> Body {
    Body { position: [i as f32; 3], fraction: 0.5, max: 100.0, team: 3 }
}

/// A type with a past, saved as it is now, times the same type without one.
fn same_schema(entities: usize) -> (f64, String) {
    #[derive(Clone, Persist)]
    #[persist(key = "bench.body", version = 3)]
    struct WithoutPast {
        position: [f32; 3],
        fraction: f32,
        max: f32,
        team: u64,
    }
    let mut with_past = registry::<Body>();
    with_past.upgrade("bench.body", Upgrader::values(1, 3, Ok)).expect("a step");
    with_past.track("bench", 1).expect("a track");
    let bytes = saved(&bodies(entities, body));
    let plain = registry::<WithoutPast>();
    compare::<Body, WithoutPast>((&bytes, &with_past), (&bytes, &plain), entities)
}

/// A plain column with a field that the save does not have.
fn by_name(entities: usize) -> (f64, String) {
    let old = bodies(entities, |i| BodyV1 { position: [i as f32; 3], health: 0.5, team: 3 });
    let new = bodies(entities, |i| BodyV1Grown { position: [i as f32; 3], health: 0.5, speed: 1.0, team: 3 });
    let registry = registry::<BodyV1Grown>();
    compare::<BodyV1Grown, BodyV1Grown>((&saved(&old), &registry), (&saved(&new), &registry), entities)
}

/// The same for rows that are encoded one by one.
fn by_name_rows(entities: usize) -> (f64, String) {
    let old = bodies(entities, |i| Label { name: format!("unit {i}"), score: 3 });
    let new = bodies(entities, |i| LabelGrown { name: format!("unit {i}"), level: 7, score: 3 });
    let registry = registry::<LabelGrown>();
    compare::<LabelGrown, LabelGrown>((&saved(&old), &registry), (&saved(&new), &registry), entities)
}

/// Two typed steps.
fn chain(entities: usize) -> (f64, String) {
    let old = bodies(entities, |i| BodyV1 { position: [i as f32; 3], health: 0.5, team: 3 });
    let registry = registry::<Body>();
    compare::<Body, Body>((&saved(&old), &registry), (&saved(&bodies(entities, body)), &registry), entities)
}

/// Two steps on bytes: one text to a list of them, and a count to that.
fn raw_chain(entities: usize) -> (f64, String) {
    let old = bodies(entities, |i| TagsV1(format!("tag {i}")));
    let new = bodies(entities, |i| Tags { tags: vec![format!("tag {i}")], count: 1 });
    let plain = registry::<Tags>();
    let mut registry = registry::<Tags>();
    let first = Upgrader::bytes::<(String,), Vec<String>>(1, 2, |source, target| {
        target.varint(1);
        target.blob(source.blob()?);
        Ok(())
    });
    let second = Upgrader::bytes::<Vec<String>, Tags>(2, 3, |source, target| {
        let count = source.varint()?;
        target.varint(count);
        for _ in 0..count {
            target.blob(source.blob()?);
        }
        target.u32(count as u32);
        Ok(())
    });
    registry.upgrade("bench.tags", first).expect("a step");
    registry.upgrade("bench.tags", second).expect("a step");
    compare::<Tags, Tags>((&saved(&old), &registry), (&saved(&new), &plain), entities)
}

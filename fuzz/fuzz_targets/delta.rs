//! Any bytes as the content of a delta, and as a delta that stands alone. What is accepted is encoded to a delta that says the
//! same, and can be staged, composed, split and shown.
#![no_main]

use bonfire::{Delta, EntityId, Limits, Persist, Registry, Result, Watch};
use bonfire::engine::{DeltaSchema, DeltaScope, EntityMap, SnapshotWriter};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

#[derive(Persist)]
#[persist(key = "test.follows")]
struct Follows(EntityId);

#[derive(Persist)]
#[persist(key = "test.frozen")]
struct Frozen;

#[derive(Persist)]
#[persist(key = "test.name")]
struct Name(String);

#[derive(Persist)]
#[persist(key = "test.position")]
struct Position {
    x: f32,
    y: f32,
}

#[derive(Persist)]
#[persist(key = "test.score")]
struct Score(u64);

fn registry() -> Result<Registry> {
    Registry::new().with::<Follows>()?.with::<Frozen>()?.with::<Name>()?.with::<Position>()?.with::<Score>()
}

fn check(delta: &Delta, registry: &Registry, schema: &DeltaSchema, limits: &Limits) {
    let content: Bytes = delta.content().expect("it was just decoded").to_vec().into();
    let (since, now, whole) = (delta.since(), delta.now(), delta.is_whole());
    let again = Delta::from_content(schema.table(), since, now, scope(whole), content.clone(), limits);
    let again = again.expect("it was just encoded").content().expect("it was just decoded");
    assert_eq!(again.to_vec(), content);
    let mut map = EntityMap::default();
    for id in delta.spawned() {
        let _ = map.insert(id, id);
    }
    let _ = delta.stage(registry, schema, &map, limits, None);
    let _ = (delta.stats(), delta.structure_only().and_then(|structure| structure.content()), delta.values_only().content());
    for change in delta.groups().flat_map(|group| group.changes()) {
        let _ = (change.values(limits), change.field_values(limits));
    }
    let mut later = delta.clone();
    later.set_ticks(now, now.saturating_add(1));
    if let Ok(Some(both)) = Delta::compose_all([delta, &later], limits) {
        let _ = both.content();
    }
    let nothing = SnapshotWriter::new(registry).finish().expect("an empty world");
    let _ = nothing.with_delta_in(delta, limits);
}

/// Every entity of a delta has a byte, and a cell for each of the five components at most. Each cell is looked at when it is
/// decoded, staged, shown, split, composed with a later one and applied: less than ten times, and more than once only while
/// it is. What values hold is bounded by the memory that they may take.
fn check_work(watch: &Watch, bytes: usize) {
    let most = 256 * bytes as u64 + (1 << 20);
    assert!(watch.steps() <= most, "{} steps for {bytes} bytes", watch.steps());
}

fuzz_target!(|bytes: &[u8]| {
    let Some((flags, content)) = bytes.split_first() else { return };
    let watch = Watch::new();
    let limits = Limits {
        memory_bytes_max: 1 << 22,
        empty_elements_max: 1 << 14,
        watch: Some(watch.clone()),
        ..Limits::default()
    };
    let registry = registry().expect("fresh keys");
    let schema = DeltaSchema::new(&registry);
    let content = Bytes::copy_from_slice(content);
    let whole = flags & 1 == 1;
    let since = if whole { 0 } else { 4 };
    if let Ok(delta) = Delta::from_content(schema.table(), since, 5, scope(whole), content.clone(), &limits) {
        check(&delta, &registry, &schema, &limits);
    }
    if let Ok(delta) = Delta::open(&content, schema.table(), &limits) {
        check(&delta, &registry, &schema, &limits);
    }
    check_work(&watch, bytes.len());
});

fn scope(whole: bool) -> DeltaScope {
    if whole { DeltaScope::Whole } else { DeltaScope::Changes }
}

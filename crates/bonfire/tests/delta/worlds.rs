//! Worlds that deltas are made of.

use std::collections::BTreeMap;

use bonfire::{Descriptor, EntityId, Persist, Snapshot, Value};
use bonfire_testkit::{CaptureOptions, ModelWorld};
use proptest::prelude::*;

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "test.position")]
pub(crate) struct Position {
    pub(crate) x: f32,
    pub(crate) y: f32,
    pub(crate) grounded: bool,
}

#[derive(Clone, Persist)]
#[persist(key = "test.position")]
pub(crate) struct OtherPosition {
    pub(crate) x: f32,
    pub(crate) z: f64,
}

#[derive(Clone, Persist)]
#[persist(key = "test.name")]
pub(crate) struct Name(pub(crate) String);

#[derive(Clone, Persist)]
#[persist(key = "test.seen")]
pub(crate) struct Seen(pub(crate) Vec<EntityId>);

#[derive(Clone, Persist)]
#[persist(key = "test.flag")]
pub(crate) struct Flag;

/// With a field that is never saved.
#[derive(Clone, Persist)]
#[persist(key = "test.body")]
pub(crate) struct Body {
    pub(crate) mass: f64,
    #[persist(skip)]
    pub(crate) cached: u64,
    pub(crate) layer: u16,
}

/// Odd numbers are left out.
#[derive(Clone)]
pub(crate) struct Even(pub(crate) u32);

#[derive(Clone, Persist)]
#[persist(key = "test.day")]
pub(crate) struct Day(pub(crate) u32);

#[derive(Clone, Persist)]
#[persist(key = "test.shared", dictionary)]
pub(crate) struct Kind(pub(crate) String);

pub(crate) fn world() -> ModelWorld {
    let mut world = ModelWorld::new();
    world.register::<Position>().unwrap();
    world.register::<Name>().unwrap();
    world.register::<Seen>().unwrap();
    world.register::<Flag>().unwrap();
    world.register::<Body>().unwrap();
    world.register::<Kind>().unwrap();
    world.register::<Day>().unwrap();
    let even = Descriptor::custom::<Even, u32>(
        "test.even",
        |even, _| Ok(even.0.is_multiple_of(2).then_some(even.0)),
        |number, _| Ok(Some(Even(number))),
    );
    world.add::<Even>(even).unwrap();
    world
}

pub(crate) fn one_archetype(world: &mut ModelWorld) -> Snapshot {
    world.capture(&CaptureOptions { one_archetype: true, ..CaptureOptions::default() }).unwrap()
}

#[derive(Clone, Debug)]
pub(crate) enum Edit {
    Spawn(Vec<(usize, u32)>),
    Despawn(usize),
    Set(usize, usize, u32),
    Remove(usize, usize),
    Resource(u32),
    Look(usize, Vec<usize>),
}

pub(crate) fn edits(count: usize) -> impl Strategy<Value = Vec<Edit>> {
    let value = || (0..6_usize, 0..20_u32);
    let edit = prop_oneof![
        3 => proptest::collection::vec(value(), 0..4).prop_map(Edit::Spawn),
        1 => any::<usize>().prop_map(Edit::Despawn),
        4 => (any::<usize>(), value()).prop_map(|(at, (kind, value))| Edit::Set(at, kind, value)),
        2 => (any::<usize>(), 0..7_usize).prop_map(|(at, kind)| Edit::Remove(at, kind)),
        1 => any::<u32>().prop_map(Edit::Resource),
        2 => (any::<usize>(), proptest::collection::vec(any::<usize>(), 0..3))
            .prop_map(|(at, targets)| Edit::Look(at, targets)),
    ];
    proptest::collection::vec(edit, 0..count)
}

fn set(world: &mut ModelWorld, id: EntityId, kind: usize, value: u32) {
    match kind {
        0 => world.insert(
            id,
            Position { x: value as f32 * 0.3, y: (value / 3) as f32, grounded: value.is_multiple_of(2) },
        ),
        1 => world.insert(id, Name("n".repeat(value as usize % 7))),
        2 => world.insert(id, Flag),
        3 => world.insert(
            id,
            Body { mass: f64::from(value) * 0.1, cached: u64::from(value), layer: value as u16 / 2 },
        ),
        4 => world.insert(id, Even(value)),
        _ => world.insert(id, Kind(format!("kind {}", value % 3))),
    }
}

pub(crate) fn apply(world: &mut ModelWorld, edit: &Edit) {
    let all = world.entities();
    let pick = |at: usize| (!all.is_empty()).then(|| all[at % all.len()]);
    match edit {
        Edit::Spawn(values) => {
            let id = world.spawn();
            values.iter().for_each(|(kind, value)| set(world, id, *kind, *value));
        }
        Edit::Despawn(at) => {
            if let Some(id) = pick(*at) {
                world.despawn(id);
            }
        }
        Edit::Set(at, kind, value) => {
            if let Some(id) = pick(*at) {
                set(world, id, *kind, *value);
            }
        }
        Edit::Remove(at, kind) => {
            if let Some(id) = pick(*at) {
                match kind {
                    0 => world.remove::<Position>(id),
                    1 => world.remove::<Name>(id),
                    2 => world.remove::<Flag>(id),
                    3 => world.remove::<Body>(id),
                    4 => world.remove::<Even>(id),
                    5 => world.remove::<Kind>(id),
                    _ => world.remove::<Seen>(id),
                }
            }
        }
        Edit::Resource(day) => world.insert_resource(Day(*day)),
        Edit::Look(at, targets) => {
            if let Some(id) = pick(*at) {
                let targets = targets.iter().filter_map(|target| pick(*target)).collect();
                world.insert(id, Seen(targets));
            }
        }
    }
}

/// Every value by entity and key.
pub(crate) fn values(snapshot: &Snapshot) -> BTreeMap<(u64, String), Value> {
    let mut all = BTreeMap::new();
    for archetype in snapshot.archetypes() {
        for column in archetype.columns() {
            let values = column.values(&bonfire::Limits::default()).unwrap();
            for (id, value) in archetype.ids().iter().zip(values) {
                if let Some(value) = value {
                    all.insert((id.to_bits(), column.component().key.clone()), value);
                }
            }
        }
    }
    all
}

/// Numbers differ by no more than `epsilon`, and everything else is the same.
pub(crate) fn assert_near(a: &Snapshot, b: &Snapshot, epsilon: f64) {
    let (a, b) = (values(a), values(b));
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
    for ((place, a), b) in a.iter().zip(b.values()) {
        assert!(near(a, b, epsilon), "{place:?}: {a:?} {b:?}");
    }
}

fn near(a: &Value, b: &Value, epsilon: f64) -> bool {
    match (a, b) {
        (Value::F32(a), Value::F32(b)) => (f64::from(*a) - f64::from(*b)).abs() <= epsilon,
        (Value::F64(a), Value::F64(b)) => (a - b).abs() <= epsilon,
        (Value::Struct(a), Value::Struct(b)) => a.iter().zip(b).all(|((_, a), (_, b))| near(a, b, epsilon)),
        (a, b) => a == b,
    }
}

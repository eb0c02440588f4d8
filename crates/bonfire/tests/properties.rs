//! Random schemas, values and worlds through every path there is, compared with each other.

use bonfire::schema::*;
use bonfire::*;
use bonfire_testkit::{CaptureOptions, Mode, ModelWorld, scale, schema_and_values};
use proptest::collection::vec;
use proptest::prelude::*;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases: cases * scale(), failure_persistence: None, ..ProptestConfig::default() }
}

fn bytes(snapshot: &Snapshot) -> Vec<u8> {
    snapshot.encode(&EncodeOptions::default()).unwrap().to_vec()
}

/// A column per schema; each value goes to the entity with its number.
fn dynamic_world(columns: &[(Schema, Vec<Value>)]) -> ModelWorld {
    let mut world = ModelWorld::new();
    let rows = columns.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
    let ids: Vec<EntityId> = (0..rows).map(|_| world.spawn()).collect();
    for (number, (schema, values)) in columns.iter().enumerate() {
        let key = format!("column.{number}{}", "x".repeat(number % 2));
        let descriptor = Descriptor::dynamic(key.clone(), schema.clone()).with_version(number as u32 + 1);
        let repeats = [Repeats::Plain, Repeats::Dictionary, Repeats::Shared][number % 3];
        world.add::<Value>(descriptor.repeats(repeats)).unwrap();
        for (id, value) in ids.iter().zip(values) {
            world.insert_value(*id, &key, value.clone());
        }
    }
    world
}

/// An empty world with the same components.
fn same_registry(world: &ModelWorld) -> ModelWorld {
    let mut other = ModelWorld::new();
    for descriptor in world.registry().descriptors() {
        other.add::<Value>(descriptor.clone()).unwrap();
    }
    other
}

proptest! {
    #![proptest_config(config(64))]

    /// World, bytes, world, bytes: nothing changes. Through the container with every compression, and through JSON.
    #[test]
    fn random_worlds_come_back(columns in vec(schema_and_values(12), 1..5), one_archetype: bool) {
        let mut world = dynamic_world(&columns);
        let snapshot = world.capture(&CaptureOptions { one_archetype, ..CaptureOptions::default() }).unwrap();
        let encoded = bytes(&snapshot);
        let opened = Snapshot::open(&encoded).unwrap();
        prop_assert_eq!(&bytes(&opened), &encoded);

        let canonical = bytes(&snapshot.canonical().unwrap());
        prop_assert_eq!(&bytes(&Snapshot::open(&canonical).unwrap().canonical().unwrap()), &canonical);

        let compressed = EncodeOptions { compression: Compression::Lz4, root_hash: true, ..EncodeOptions::default() };
        let packed = snapshot.encode(&compressed).unwrap().to_vec();
        prop_assert_eq!(&bytes(&Snapshot::open(&packed).unwrap()), &encoded);

        let json = snapshot.to_json().unwrap();
        let back = Snapshot::from_json(&json, &Registry::new()).unwrap();
        prop_assert_eq!(&bytes(&back.canonical().unwrap()), &canonical, "{}", json);
        prop_assert_eq!(back.to_json().unwrap(), Snapshot::from_json(&back.to_json().unwrap(), &Registry::new()).unwrap().to_json().unwrap());

        let mut other = same_registry(&world);
        let loaded = other.load_with(&opened, Mode::SameIds, LoadOptions::default()).unwrap();
        prop_assert_eq!(loaded.map.len(), world.entities().len());
        // References to entities that do not exist became null; everything else is equal.
        let again = other.save().unwrap();
        let mut third = same_registry(&world);
        third.load_with(&again, Mode::SameIds, LoadOptions::default()).unwrap();
        prop_assert_eq!(bytes(&third.save().unwrap()), bytes(&again));

        // Without the registry everything is carried, and still there after two saves.
        let mut ignorant = ModelWorld::new();
        ignorant.load(&opened).unwrap();
        let mut ignorant_too = ModelWorld::new();
        ignorant_too.load(&Snapshot::open(&bytes(&ignorant.save().unwrap())).unwrap()).unwrap();
        let mut knowing = same_registry(&world);
        knowing.load(&ignorant_too.save().unwrap()).unwrap();
        prop_assert_eq!(bytes(&knowing.save().unwrap().canonical().unwrap()), bytes(&again.canonical().unwrap()));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Persist)]
enum Team {
    Red,
    Blue,
}

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "plain")]
struct Plain {
    a: u16,
    b: f32,
    c: u16,
}

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "checked")]
struct Checked(Team, bool, [Team; 2], std::num::NonZeroU8);

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "strided")]
struct Strided {
    big: u64,
    flag: bool,
    #[persist(skip, default = 9)]
    skipped: u32,
    letter: char,
    nested: (u8, u32),
}

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "rows")]
struct Rows {
    text: String,
    list: Vec<(u8, f64)>,
    some: Option<Box<Rows>>,
}

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "tag")]
struct Tag;

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "hollow")]
struct Hollow {
    #[persist(skip)]
    gone: u8,
}

fn plain() -> impl Strategy<Value = Plain> {
    (any::<u16>(), any::<f32>(), any::<u16>()).prop_map(|(a, b, c)| Plain { a, b, c })
}
fn team() -> impl Strategy<Value = Team> {
    prop_oneof![Just(Team::Red), Just(Team::Blue)]
}
fn checked() -> impl Strategy<Value = Checked> {
    (team(), any::<bool>(), [team(), team()], any::<std::num::NonZeroU8>())
        .prop_map(|(a, b, c, d)| Checked(a, b, c, d))
}
fn strided() -> impl Strategy<Value = Strided> {
    (any::<u64>(), any::<bool>(), any::<char>(), any::<(u8, u32)>())
        .prop_map(|(big, flag, letter, nested)| Strided { big, flag, skipped: 9, letter, nested })
}
fn rows() -> impl Strategy<Value = Rows> {
    let leaf =
        (".{0,6}", vec(any::<(u8, f64)>(), 0..3)).prop_map(|(text, list)| Rows { text, list, some: None });
    leaf.clone().prop_recursive(3, 4, 1, move |inner| {
        (inner, leaf.clone()).prop_map(|(inner, leaf)| Rows { some: Some(Box::new(inner)), ..leaf })
    })
}

fn register_all(world: &mut ModelWorld) {
    world.register::<Plain>().unwrap();
    world.register::<Checked>().unwrap();
    world.register::<Strided>().unwrap();
    world.register::<Rows>().unwrap();
    world.register::<Tag>().unwrap();
    world.register::<Hollow>().unwrap();
}

proptest! {
    #![proptest_config(config(64))]

    /// Every bulk path has a portable twin that gives the same bytes and the same values.
    #[test]
    fn bulk_equals_portable(
        entities in vec((
            proptest::option::of(plain()),
            proptest::option::of(checked()),
            proptest::option::of(strided()),
            proptest::option::of(rows()),
            any::<(bool, bool)>(),
        ), 1..150),
        one_archetype: bool,
    ) {
        let mut world = ModelWorld::new();
        register_all(&mut world);
        for (plain, checked, strided, rows, (tag, hollow)) in &entities {
            let id = world.spawn();
            if let Some(value) = plain { world.insert(id, value.clone()); }
            if let Some(value) = checked { world.insert(id, value.clone()); }
            if let Some(value) = strided { world.insert(id, value.clone()); }
            if let Some(value) = rows { world.insert(id, value.clone()); }
            if *tag { world.insert(id, Tag); }
            if *hollow { world.insert(id, Hollow { gone: 0 }); }
        }
        let capture = |world: &mut ModelWorld, portable| {
            world.capture(&CaptureOptions { portable, one_archetype, ..CaptureOptions::default() }).unwrap()
        };
        let encoded = bytes(&capture(&mut world, false));
        prop_assert_eq!(&bytes(&capture(&mut world, true)), &encoded);

        let snapshot = Snapshot::open(&encoded).unwrap();
        for portable in [false, true] {
            let mut other = ModelWorld::new();
            register_all(&mut other);
            let options = LoadOptions { portable, ..LoadOptions::default() };
            other.load_with(&snapshot, Mode::SameIds, options).unwrap();
            for (id, (plain, checked, strided, rows, (tag, hollow))) in world.entities().into_iter().zip(&entities) {
                prop_assert!(plain.as_ref().is_none_or(|p| p.b.is_nan()) || other.get(id) == plain.as_ref());
                prop_assert_eq!(other.get(id), checked.as_ref());
                prop_assert_eq!(other.get(id), strided.as_ref());
                prop_assert!(other.get::<Rows>(id).is_some() == rows.is_some());
                prop_assert_eq!(other.get::<Tag>(id).is_some(), *tag);
                prop_assert_eq!(other.get::<Hollow>(id).is_some(), *hollow);
            }
            prop_assert_eq!(&bytes(&capture(&mut other, false)), &encoded);
        }
    }

    /// A save from a compiler that ordered fields in another way loads field by field.
    #[test]
    fn another_layout_is_read_by_field(values in vec(strided(), 1..40), shuffle in Just([0, 1, 2, 3, 4]).prop_shuffle()) {
        let mut world = ModelWorld::new();
        world.register::<Strided>().unwrap();
        for value in &values {
            let id = world.spawn();
            world.insert(id, value.clone());
        }
        // Through JSON, where the layout can be changed: leaves of 8, 1, 4, 1 and 4 bytes in any order, with gaps.
        let json = world.save().unwrap().to_json().unwrap();
        let own = world.registry().by_key("strided").unwrap().row_layout().clone();
        let sizes = [8, 1, 4, 1, 4];
        let (mut offsets, mut at) = ([0; 5], 3);
        for leaf in shuffle {
            offsets[leaf] = at;
            at += sizes[leaf] + 1;
        }
        let own_text = format!("\"stride\":{},\"offsets\":{:?}", own.stride, own.offsets).replace(", ", ",");
        prop_assert!(json.contains(&own_text), "{} {}", own_text, json);
        let other = json.replace(&own_text, &format!("\"stride\":{at},\"offsets\":{offsets:?}"));
        let snapshot = Snapshot::from_json(&other, &Registry::new()).unwrap();
        let snapshot = Snapshot::open(&bytes(&snapshot)).unwrap();
        for portable in [false, true] {
            let options = LoadOptions { portable, ..LoadOptions::default() };
            let loaded = world.load_with(&snapshot, Mode::SameIds, options).unwrap();
            prop_assert_eq!(loaded.report.component("strided").unwrap().outcome, Outcome::OtherLayout);
            let got: Vec<_> = world.entities().into_iter().map(|id| world.get::<Strided>(id).unwrap().clone()).collect();
            prop_assert_eq!(&got, &values);
        }
    }
}

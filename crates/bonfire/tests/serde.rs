//! Types that only have serde: whole components, single fields, and values on their own.

use std::collections::BTreeMap;

use bonfire::*;
use bonfire_testkit::ModelWorld;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Foreign {
    name: String,
    size: Option<u16>,
    mood: Mood,
    tags: BTreeMap<String, (i8, f32)>,
    data: Vec<u8>,
    unit: (),
    big: i128,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Mood {
    Calm,
    Wild(f64),
    Mixed(u8, char),
    Deep { level: Box<Mood> },
}

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.owner")]
struct Owner {
    #[persist(with = Serde)]
    pet: Foreign,
    age: u8,
}

fn foreign() -> Foreign {
    Foreign {
        name: "Rex".into(),
        size: Some(7),
        mood: Mood::Deep { level: Box::new(Mood::Mixed(1, 'x')) },
        tags: [("a".to_owned(), (-1, 0.5)), ("b".to_owned(), (1, f32::MAX))].into(),
        data: vec![1, 2, 3],
        unit: (),
        big: i128::MIN,
    }
}

#[test]
fn serde_types_become_values_and_come_back() {
    for mood in [Mood::Calm, Mood::Wild(0.1), Mood::Mixed(9, 'y'), foreign().mood] {
        let value = Foreign { mood, ..foreign() };
        assert_eq!(from_value::<Foreign>(to_value(&value).unwrap()).unwrap(), value);
    }
    assert!(from_value::<u8>(Value::Text("no".into())).unwrap_err().is_schema());
}

#[test]
fn serde_components_are_saved_and_tools_can_read_them() {
    let mut world = ModelWorld::new();
    world.add::<Foreign>(Descriptor::serde::<Foreign>("game.foreign")).unwrap();
    world.register::<Owner>().unwrap();
    let id = world.spawn();
    world.insert(id, foreign());
    world.insert(id, Owner { pet: foreign(), age: 3 });
    let bytes = world.save().unwrap().encode(&EncodeOptions::default()).unwrap().to_vec();
    let snapshot = Snapshot::open(&bytes).unwrap();
    let column = snapshot.archetypes().next().unwrap().column("game.foreign").unwrap();
    let values = column.values(&Limits::default()).unwrap();
    assert_eq!(values[0].as_ref().unwrap().get("name"), Some(&Value::from("Rex")));
    let loaded = world.load(&snapshot).unwrap();
    let id = loaded.map.get(id).unwrap();
    assert_eq!(world.get::<Foreign>(id), Some(&foreign()));
    assert_eq!(world.get::<Owner>(id), Some(&Owner { pet: foreign(), age: 3 }));
}

#[test]
fn a_type_that_refuses_to_serialize_is_left_out_or_makes_the_save_fail() {
    #[derive(Clone)]
    struct Stubborn;
    impl Serialize for Stubborn {
        fn serialize<S: serde::Serializer>(&self, _: S) -> std::result::Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("not today"))
        }
    }
    impl<'de> Deserialize<'de> for Stubborn {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> std::result::Result<Self, D::Error> {
            Ok(Self)
        }
    }
    let save = |descriptor: Descriptor| {
        let mut world = ModelWorld::new();
        world.add::<Stubborn>(descriptor).unwrap();
        let id = world.spawn();
        world.insert(id, Stubborn);
        world.save()
    };
    let descriptor = || Descriptor::serde::<Stubborn>("game.stubborn");
    let refused = save(descriptor().unencodable(Unencodable::Refuse)).unwrap_err();
    assert_eq!(refused.to_string(), "`game.stubborn`: not today");
    let snapshot = save(descriptor()).unwrap();
    assert_eq!((snapshot.entity_count(), snapshot.component_rows().len()), (1, 0));
    let [note] = snapshot.notes() else { panic!("{:?}", snapshot.notes()) };
    assert!(note.key == "game.stubborn" && note.remark.contains("not today"), "{note}");
}

#[test]
fn the_order_of_a_hash_map_leaves_no_trace_in_the_content() {
    let hash = |order: &[u32]| {
        let mut world = ModelWorld::new();
        type Map = std::collections::HashMap<u32, u32>;
        world.add::<Map>(Descriptor::serde::<Map>("game.map")).unwrap();
        let id = world.spawn();
        world.insert(id, order.iter().map(|n| (*n, n * 2)).collect::<Map>());
        world.save().unwrap().content_hash().unwrap()
    };
    let numbers: Vec<u32> = (0..50).collect();
    let reversed: Vec<u32> = (0..50).rev().collect();
    assert!((0..8).all(|_| hash(&numbers) == hash(&reversed)));
}

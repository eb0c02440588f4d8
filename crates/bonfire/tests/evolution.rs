//! What older saves become, rule by rule.

use std::collections::{BTreeMap, BTreeSet};

use bonfire::engine::{LoadPlan, SnapshotWriter};
use bonfire::{
    EntityId, Keyed, LoadOptions, LoadReport, Persist, Registry, SchemaChange, Snapshot, decode_one,
    encode_one,
};

/// Saves a value of one type and loads it as another that has the same key.
fn turn<Old: Keyed, New: Keyed>(old: &Old) -> bonfire::Result<New> {
    decode_one::<New>(&encode_one(old)?)
}

fn changes<Old: Keyed, New: Keyed>(old: &Old) -> Vec<String> {
    let registry = Registry::new().with::<New>().unwrap();
    let bytes = encode_one(old).unwrap();
    let preflight = bonfire::preflight(&bytes, &registry).unwrap();
    preflight.components[0].1.as_ref().unwrap().changes().iter().map(ToString::to_string).collect()
}

fn refusal<Old: Keyed, New: Keyed>(old: &Old) -> String {
    match turn::<Old, New>(old) {
        Ok(_) => panic!("it loads"),
        Err(error) => {
            assert!(error.is_schema(), "{error:?}");
            error.to_string()
        }
    }
}

/// Two types under one key: what was saved, and what reads it.
macro_rules! versions {
    ({$($old:item)*} {$($new:item)*}) => {
        mod old { use super::*; $($old)* }
        mod new { use super::*; $($new)* }
    };
}

#[test]
fn added_fields_get_their_defaults_and_the_order_does_not_matter() {
    versions! {
        {
            #[derive(Persist)]
            #[persist(key = "game.health")]
            pub(crate) struct Health { pub current: f32, pub regeneration: f32 }
        }
        {
            #[derive(Debug, PartialEq, Persist)]
            #[persist(key = "game.health")]
            pub(crate) struct Health {
                pub regeneration: f32,
                #[persist(default = 100.0)]
                pub max: f32,
                pub current: f32,
                pub names: Vec<String>,
                pub shield: Option<Shield>,
            }
            #[derive(Debug, PartialEq, Persist)]
            pub(crate) struct Shield(pub u8);
        }
    }
    let saved = old::Health { current: 5.0, regeneration: 0.5 };
    let loaded: new::Health = turn(&saved).unwrap();
    assert_eq!(
        loaded,
        new::Health { regeneration: 0.5, max: 100.0, current: 5.0, names: vec![], shield: None }
    );
    assert_eq!(
        changes::<_, new::Health>(&saved),
        [
            "`max` is new and gets its default",
            "`names` is new and gets its default",
            "`shield` is new and gets its default"
        ]
    );
}

#[test]
fn a_field_without_a_default_is_named_with_the_cure() {
    versions! {
        {
            #[derive(Persist)]
            #[persist(key = "game.door")]
            pub(crate) struct Door { pub open: bool }
        }
        {
            #[derive(Debug, PartialEq, Persist)]
            #[persist(key = "game.door")]
            pub(crate) struct Door { pub open: bool, pub lock: Lock }
            #[derive(Debug, PartialEq, Persist)]
            pub(crate) struct Lock { pub key: Key }
            #[derive(Debug, PartialEq, Persist)]
            pub(crate) enum Key { Iron }
        }
    }
    let message = refusal::<_, new::Door>(&old::Door { open: true });
    assert_eq!(
        message,
        "`game.door`.lock: the save is older than this field ({key: Iron}), and there is no value for it: add \
         `#[persist(default = ..)]`"
    );
}

#[test]
fn removed_fields_are_carried_or_dropped_and_both_are_said() {
    versions! {
        {
            #[derive(Persist)]
            #[persist(key = "game.mage")]
            pub(crate) struct Mage { pub mana: u32, pub focus: u8, pub name: String }
        }
        {
            #[derive(Debug, PartialEq, Persist)]
            #[persist(key = "game.mage", removed = "focus")]
            pub(crate) struct Mage { pub name: String }
        }
    }
    let saved = old::Mage { mana: 7, focus: 3, name: "Ada".into() };
    assert_eq!(turn::<_, new::Mage>(&saved).unwrap(), new::Mage { name: "Ada".into() });
    assert_eq!(changes::<_, new::Mage>(&saved), ["`mana` is not known to this build", "`focus` is dropped"]);
}

#[test]
fn names_change_by_alias_for_fields_variants_and_keys() {
    versions! {
        {
            #[derive(Persist)]
            #[persist(key = "game.hp")]
            pub(crate) struct Health { pub hp: f32, pub state: State }
            #[derive(Persist)]
            pub(crate) enum State { Well, Ill { days: u8 } }
        }
        {
            #[derive(Debug, PartialEq, Persist)]
            #[persist(key = "game.health", alias = "game.hp", alias = "game.life")]
            pub(crate) struct Health {
                #[persist(alias = "life", alias = "hp")]
                pub current: f32,
                pub state: State,
            }
            #[derive(Debug, PartialEq, Persist)]
            pub(crate) enum State {
                Dead,
                #[persist(alias = "Ill")]
                Sick {
                    #[persist(alias = "days")]
                    since: u16,
                    by: Option<EntityId>,
                },
                Well,
            }
        }
    }
    use new::State;
    let saved = old::Health { hp: 3.0, state: old::State::Ill { days: 4 } };
    let loaded: new::Health = turn(&saved).unwrap();
    assert_eq!(loaded, new::Health { current: 3.0, state: State::Sick { since: 4, by: None } });
    let well = old::Health { hp: 3.0, state: old::State::Well };
    assert_eq!(turn::<_, new::Health>(&well).unwrap().state, State::Well);
    assert_eq!(
        changes::<_, new::Health>(&saved),
        [
            "`hp` is `current` now",
            "`state.Ill` is `state.Sick` now",
            "`state.Sick.days` is `state.Sick.since` now",
            "`state.Sick.by` is new and gets its default",
            "`state.Sick.since` was u8 and is u16",
        ]
    );
}

#[test]
fn numbers_widen_and_never_narrow() {
    #[derive(Persist)]
    #[persist(key = "n")]
    struct Of<T>(T);
    macro_rules! widens {
        ($($from:literal as $old:ty => $new:ty),*) => {$(
            assert_eq!(turn::<Of<$old>, Of<$new>>(&Of($from)).unwrap().0, $from as $new);
        )*};
    }
    widens!(
        255_u8 as u8 => u16, 255_u8 as u8 => i16, 255_u8 as u8 => u128, 255_u8 as u8 => f32, 65535_u16 as u16 => f32,
        -1_i8 as i8 => i128, -128_i8 as i8 => i16, 4294967295_u32 as u32 => i64, 4294967295_u32 as u32 => f64,
        -2147483648_i32 as i32 => f64, 18446744073709551615_u64 as u64 => i128, 1.5_f32 as f32 => f64
    );
    assert_eq!(
        refusal::<Of<f64>, Of<f32>>(&Of(1.0)),
        "`n`.0: the save has f64, this build has f32: a number may only widen, so the save may come from a \
         newer build of the game. Keep the type, or raise the version and \
         convert with `#[persist(from = Old)]` or an upgrader"
    );
    refusal::<Of<u32>, Of<f32>>(&Of(1));
    refusal::<Of<u64>, Of<i64>>(&Of(1));
    refusal::<Of<i8>, Of<u8>>(&Of(1));
    refusal::<Of<u64>, Of<f64>>(&Of(1));
    refusal::<Of<f32>, Of<i32>>(&Of(1.0));
    refusal::<Of<bool>, Of<u8>>(&Of(true));
    refusal::<Of<EntityId>, Of<u64>>(&Of(EntityId::new(1, 1)));
}

#[test]
fn containers_follow_their_elements() {
    #[derive(Persist)]
    #[persist(key = "n")]
    struct Of<T>(T);
    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Persist)]
    struct Old {
        a: u8,
    }
    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Persist)]
    struct New {
        #[persist(default = 9)]
        b: u8,
        a: u16,
    }
    let new = |a| New { b: 9, a };
    let list: Of<Vec<New>> = turn(&Of(vec![Old { a: 1 }, Old { a: 2 }])).unwrap();
    assert_eq!(list.0, [new(1), new(2)]);
    let map: Of<BTreeMap<u32, Option<New>>> =
        turn(&Of(BTreeMap::from([(1_u8, Some(Old { a: 1 })), (200, None)]))).unwrap();
    assert_eq!(map.0, BTreeMap::from([(1, Some(new(1))), (200, None)]));
    let set: Of<BTreeSet<New>> = turn(&Of(BTreeSet::from([Old { a: 3 }, Old { a: 1 }]))).unwrap();
    assert_eq!(set.0, BTreeSet::from([new(1), new(3)]));
    let wide: Of<BTreeSet<i32>> = turn(&Of(BTreeSet::from([-1_i8, 5, -128]))).unwrap();
    assert_eq!(wide.0, BTreeSet::from([-1, 5, -128]));
    let array: Of<[New; 2]> = turn(&Of([Old { a: 1 }, Old { a: 2 }])).unwrap();
    assert_eq!(array.0, [new(1), new(2)]);
    let grown: Of<Vec<u16>> = turn(&Of([1_u16, 2])).unwrap();
    assert_eq!(grown.0, [1, 2]);
    let bytes: Of<Vec<u8>> = turn(&Of([1_u8, 2])).unwrap();
    assert_eq!(bytes.0, [1, 2]);
    let wider: Of<Vec<u32>> = turn(&Of(vec![1_u8, 255])).unwrap();
    assert_eq!(wider.0, [1, 255]);
    let some: Of<Option<New>> = turn(&Of(Old { a: 4 })).unwrap();
    assert_eq!(some.0, Some(new(4)));
    let ordered: Of<Vec<u8>> = turn(&Of(vec![3_u8])).unwrap();
    assert_eq!(ordered.0, [3]);
    let bytes: Of<Vec<u8>> = turn(&Of(BTreeSet::from([3_u8, 1]))).unwrap();
    assert_eq!(bytes.0, [1, 3]);
    let some: Of<Vec<Option<u16>>> = turn(&Of(vec![7_u8, 255])).unwrap();
    assert_eq!(some.0, [Some(7), Some(255)]);
    let some: Of<Vec<Option<Option<u8>>>> = turn(&Of(vec![7_u8, 255])).unwrap();
    assert_eq!(some.0, [Some(Some(7)), Some(Some(255))]);
    let unset: Of<Vec<i64>> = turn(&Of(BTreeSet::from([3_i64, 1]))).unwrap();
    assert_eq!(unset.0, [1, 3]);

    assert!(refusal::<Of<[u8; 3]>, Of<[u8; 4]>>(&Of([0; 3])).contains("an array keeps its length"));
    assert!(refusal::<Of<Option<u8>>, Of<u8>>(&Of(None)).contains("a value that may be missing"));
    assert!(
        refusal::<Of<Vec<u16>>, Of<BTreeSet<u16>>>(&Of(vec![])).contains("a list may hold a value twice")
    );
    assert!(
        refusal::<Of<String>, Of<u8>>(&Of(String::new())).contains("the save has text, this build has u8")
    );
}

#[test]
fn tuple_structs_go_by_position() {
    versions! {
        {
            #[derive(Persist)]
            #[persist(key = "game.size")]
            pub(crate) struct Size(pub u8, pub u8);
            #[derive(Persist)]
            #[persist(key = "game.size")]
            pub(crate) struct Long(pub u8, pub u8, pub String);
        }
        {
            #[derive(Debug, PartialEq, Persist)]
            #[persist(key = "game.size")]
            pub(crate) struct Size(pub u16, pub u8, #[persist(default = 3)] pub u32);
            #[derive(Debug, PartialEq, Persist)]
            #[persist(key = "game.size")]
            pub(crate) struct Tag;
        }
    }
    assert_eq!(turn::<_, new::Size>(&old::Size(1, 2)).unwrap(), new::Size(1, 2, 3));
    let long = old::Long(1, 2, "gone".into());
    assert_eq!(turn::<_, new::Tag>(&long).unwrap(), new::Tag);
    assert_eq!(changes::<_, new::Tag>(&long), ["`0` is dropped", "`1` is dropped", "`2` is dropped"]);
    assert!(refusal::<_, new::Size>(&long).contains("the save has text, this build has u32"));
    let from_tag: new::Size = {
        #[derive(Persist)]
        #[persist(key = "game.size")]
        struct Empty;
        turn(&Empty).unwrap()
    };
    assert_eq!(from_tag, new::Size(0, 0, 3));
}

#[test]
fn variants_that_are_gone_are_refused_only_where_they_are_met() {
    versions! {
        {
            #[derive(Persist)]
            #[persist(key = "game.mood")]
            pub(crate) enum Mood { Calm, Angry, Afraid }
        }
        {
            #[derive(Debug, PartialEq, Persist)]
            #[persist(key = "game.mood")]
            pub(crate) enum Mood { Angry, Calm }
        }
    }
    assert_eq!(turn::<_, new::Mood>(&old::Mood::Calm).unwrap(), new::Mood::Calm);
    assert_eq!(turn::<_, new::Mood>(&old::Mood::Angry).unwrap(), new::Mood::Angry);
    let message = refusal::<_, new::Mood>(&old::Mood::Afraid);
    assert!(message.contains("the save has a `Afraid`"), "{message}");
    assert!(message.contains("#[persist(alias = \"Afraid\")]"), "{message}");
}

#[test]
fn types_that_contain_themselves_follow() {
    versions! {
        {
            #[derive(Persist)]
            #[persist(key = "game.tree")]
            pub(crate) struct Tree { pub name: String, pub children: Vec<Tree> }
        }
        {
            #[derive(Debug, PartialEq, Persist)]
            #[persist(key = "game.tree")]
            pub(crate) struct Tree {
                pub children: Vec<Tree>,
                #[persist(default = 1)]
                pub weight: u32,
                pub name: String,
            }
        }
    }
    let leaf = |name: &str| old::Tree { name: name.into(), children: vec![] };
    let saved = old::Tree { name: "root".into(), children: vec![leaf("a"), leaf("b")] };
    let leaf = |name: &str| new::Tree { name: name.into(), children: vec![], weight: 1 };
    let loaded: new::Tree = turn(&saved).unwrap();
    assert_eq!(loaded, new::Tree { name: "root".into(), children: vec![leaf("a"), leaf("b")], weight: 1 });
}

#[test]
fn types_that_are_saved_alike_keep_their_own_rules() {
    versions! {
        {
            #[derive(Persist)]
            #[persist(key = "game.pair")]
            pub(crate) struct Pair { pub left: Empty, pub right: Empty }
            #[derive(Persist)]
            pub(crate) struct Empty {}
        }
        {
            #[derive(Debug, PartialEq, Persist)]
            #[persist(key = "game.pair")]
            pub(crate) struct Pair { pub left: Left, pub right: Right }
            #[derive(Debug, PartialEq, Persist)]
            pub(crate) struct Left { #[persist(default = 1)] pub n: u8 }
            #[derive(Debug, PartialEq, Persist)]
            pub(crate) struct Right { #[persist(default = 2)] pub n: u8 }
        }
    }
    let loaded: new::Pair = turn(&old::Pair { left: old::Empty {}, right: old::Empty {} }).unwrap();
    assert_eq!(loaded, new::Pair { left: new::Left { n: 1 }, right: new::Right { n: 2 } });
}

fn report<T: Keyed>(snapshot: &Snapshot) -> LoadReport {
    let registry = Registry::new().with::<T>().unwrap();
    let plan = LoadPlan::new(snapshot, &registry, LoadOptions::default()).unwrap();
    plan.stage(&plan.same_entities().unwrap(), None).unwrap().report
}

#[test]
fn rows_of_every_encoding_are_converted_and_references_mapped_once() {
    versions! {
        {
            #[derive(Clone, Persist)]
            #[persist(key = "game.link", shared)]
            pub(crate) struct Link { pub to: EntityId, pub name: String }
            #[derive(Persist)]
            #[persist(key = "game.place")]
            pub(crate) struct Place { pub x: u32, pub y: f32, pub kind: u8 }
        }
        {
            #[derive(Debug, PartialEq, Persist)]
            #[persist(key = "game.link")]
            pub(crate) struct Link { pub name: String, pub to: EntityId, pub weight: u8 }
            #[derive(Debug, PartialEq, Persist)]
            #[persist(key = "game.place")]
            pub(crate) struct Place { pub y: f64, #[persist(default = 3.0)] pub z: f32, pub x: u32, pub kind: u8 }
        }
    }
    let registry = Registry::new().with::<old::Link>().unwrap().with::<old::Place>().unwrap();
    let ids: Vec<EntityId> = (0..6).map(|i| EntityId::new(i, 1)).collect();
    let mut writer = SnapshotWriter::new(&registry);
    let mut archetype = writer.archetype(&ids).unwrap();
    let links: Vec<_> = (0..6).map(|i| old::Link { to: ids[i % 2], name: format!("to {}", i % 2) }).collect();
    archetype.column(&links).unwrap();
    let places: Vec<_> = (0..6).map(|i| old::Place { x: i, y: i as f32, kind: 7 }).collect();
    archetype.column(&places).unwrap();
    let snapshot = Snapshot::open(&writer.finish().unwrap().to_bytes().unwrap()).unwrap();

    let registry = Registry::new().with::<new::Link>().unwrap().with::<new::Place>().unwrap();
    for portable in [false, true] {
        let options = LoadOptions { portable, ..LoadOptions::default() };
        let plan = LoadPlan::new(&snapshot, &registry, options).unwrap();
        let new: Vec<EntityId> = (0..6).map(|i| EntityId::new(i + 1, 1)).collect();
        let map = plan.entity_map(new.clone()).unwrap();
        let mut staged = plan.stage(&map, None).unwrap();
        let links = staged.archetypes[0].take::<new::Link>().unwrap().into_rows::<new::Link>().unwrap();
        for (i, link) in links.iter().enumerate() {
            assert_eq!(*link, new::Link { name: format!("to {}", i % 2), to: new[i % 2], weight: 0 });
        }
        let places = staged.archetypes[0].take::<new::Place>().unwrap().into_rows::<new::Place>().unwrap();
        for (i, place) in places.iter().enumerate() {
            assert_eq!(*place, new::Place { y: i as f64, z: 3.0, x: i as u32, kind: 7 });
        }
        assert!(staged.report.is_complete(), "{}", staged.report);
    }
}

#[test]
fn equal_values_are_one_value_again_after_a_load() {
    use std::sync::Arc;
    #[derive(Clone, Persist)]
    #[persist(key = "game.mesh", shared)]
    struct Mesh(Arc<Vec<f32>>);
    let registry = Registry::new().with::<Mesh>().unwrap();
    let (a, b) = (Arc::new(vec![1.0, 2.0]), Arc::new(vec![3.0]));
    let mut writer = SnapshotWriter::new(&registry);
    let ids: Vec<EntityId> = (0..4).map(|i| EntityId::new(i, 0)).collect();
    let rows = [Mesh(a.clone()), Mesh(b.clone()), Mesh(a.clone()), Mesh(a)];
    writer.archetype(&ids).unwrap().column(&rows).unwrap();
    let snapshot = Snapshot::open(&writer.finish().unwrap().to_bytes().unwrap()).unwrap();
    let plan = LoadPlan::new(&snapshot, &registry, LoadOptions::default()).unwrap();
    let mut staged = plan.stage(&plan.same_entities().unwrap(), None).unwrap();
    let rows = staged.archetypes[0].take::<Mesh>().unwrap().into_rows::<Mesh>().unwrap();
    assert!(Arc::ptr_eq(&rows[0].0, &rows[2].0) && Arc::ptr_eq(&rows[0].0, &rows[3].0));
    assert!(!Arc::ptr_eq(&rows[0].0, &rows[1].0));
    assert_eq!((&*rows[0].0, &*rows[1].0), (&vec![1.0, 2.0], &vec![3.0]));
}

#[test]
fn values_are_stored_once_where_that_is_smaller() {
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.species", dictionary)]
    struct Species(String);
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.friends", shared)]
    struct Friends(Vec<EntityId>);
    let registry = Registry::new().with::<Species>().unwrap().with::<Friends>().unwrap();
    let ids: Vec<EntityId> = (0..50).map(|i| EntityId::new(i, 0)).collect();
    let save = |names: &dyn Fn(usize) -> String, friends: &dyn Fn(usize) -> Vec<EntityId>| {
        let mut writer = SnapshotWriter::new(&registry);
        let mut archetype = writer.archetype(&ids).unwrap();
        archetype.column(&(0..50).map(|i| Species(names(i))).collect::<Vec<_>>()).unwrap();
        archetype.column(&(0..50).map(|i| Friends(friends(i))).collect::<Vec<_>>()).unwrap();
        Snapshot::open(&writer.finish().unwrap().to_bytes().unwrap()).unwrap()
    };
    let encodings = |snapshot: &Snapshot| -> Vec<&'static str> {
        snapshot.archetypes().next().unwrap().columns().map(|column| column.encoding()).collect()
    };
    let few = save(&|i| format!("a rather long name {}", i % 3), &|i| vec![ids[i % 2], ids[(i + 1) % 2]]);
    assert_eq!(encodings(&few), ["shared", "dictionary"]);
    let many = save(&|i| format!("{i}"), &|i| vec![ids[i]]);
    assert_eq!(encodings(&many), ["rows", "rows"]);
    // Two entities that share a list of each other: a circle through references, mapped in the one value.
    let plan = LoadPlan::new(&few, &registry, LoadOptions::default()).unwrap();
    let new: Vec<EntityId> = (0..50).map(|i| EntityId::new(i + 7, 3)).collect();
    let map = plan.entity_map(new.clone()).unwrap();
    let friends = plan.stage(&map, None).unwrap().take_all::<Friends>(&map);
    for (i, (id, friends)) in friends.iter().enumerate() {
        assert_eq!((*id, &*friends.0), (new[i], &[new[i % 2], new[(i + 1) % 2]][..]));
    }
    for (snapshot, first) in [(&few, "a rather long name 0"), (&many, "0")] {
        let plan = LoadPlan::new(snapshot, &registry, LoadOptions::default()).unwrap();
        let map = plan.same_entities().unwrap();
        let species = plan.stage(&map, None).unwrap().take_all::<Species>(&map);
        assert_eq!((species.len(), &*species[0].1.0), (50, first));
    }
}

#[test]
fn a_report_says_what_was_different() {
    #[derive(Persist)]
    #[persist(key = "game.door")]
    struct Old {
        open: bool,
    }
    #[derive(Persist)]
    #[persist(key = "game.door")]
    struct New {
        open: bool,
        locked: bool,
    }
    let snapshot = Snapshot::open(&encode_one(&Old { open: true }).unwrap()).unwrap();
    let report = report::<New>(&snapshot);
    assert!(report.is_complete());
    assert_eq!(report.components[0].changes, [SchemaChange::Added { field: "locked".into() }]);
    assert!(
        report
            .to_string()
            .contains("`game.door`: 1 loaded by name\n    `locked` is new and gets its default\n")
    );
}

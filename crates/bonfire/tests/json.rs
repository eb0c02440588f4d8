//! The JSON table: the shape others know, nothing lost, and the bare shape where types are registered.

use bonfire::*;
use bonfire_testkit::{Mode, ModelWorld};

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "Position")]
struct Position {
    x: f32,
    y: f32,
}

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "Health")]
struct Health {
    hp: u32,
    #[persist(default = 100)]
    max: u32,
}

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "Odd")]
struct Odd {
    nested: Option<Option<u8>>,
    entity: Option<EntityId>,
    float: f64,
    single: f32,
    big: u128,
    bytes: Vec<u8>,
    letter: char,
    pairs: std::collections::BTreeMap<u8, String>,
    names: std::collections::BTreeMap<String, u8>,
    choice: Choice,
    unit: (),
}

#[derive(Clone, Debug, PartialEq, Persist)]
enum Choice {
    None,
    One(f32),
    Two(u8, u8),
    Named { a: bool },
}

fn world() -> ModelWorld {
    let mut world = ModelWorld::new();
    world.register::<Position>().unwrap();
    world.register::<Health>().unwrap();
    world.register::<Odd>().unwrap();
    world
}

#[test]
fn the_shape_is_the_one_that_others_know() {
    let mut world = world();
    let [a, b] = [world.spawn(), world.spawn()];
    world.insert(a, Position { x: 10.0, y: 20.5 });
    world.insert(a, Health { hp: 100, max: 120 });
    world.insert(b, Position { x: 30.0, y: 0.1 });
    world.insert(b, Health { hp: 50, max: 120 });
    world.hooks.on_save(|_, save| save.attach("build", &String::from("v0.1.2-alpha")));
    let json: serde_json::Value = serde_json::from_str(&world.save().unwrap().to_json().unwrap()).unwrap();
    assert_eq!(json["version"], 1);
    assert_eq!(json["nextEntityId"], 2);
    assert_eq!(json["componentTable"][0]["name"], "Health");
    assert_eq!(json["componentTable"][1]["name"], "Position");
    assert_eq!(json["archetypes"][0]["columnIndices"], serde_json::json!([1, 2]));
    assert_eq!(
        json["archetypes"][0]["entities"],
        serde_json::json!([
            [0, {"hp": 100, "max": 120}, {"x": 10.0, "y": 20.5}],
            [1, {"hp": 50, "max": 120}, {"x": 30.0, "y": 0.1}],
        ])
    );
    assert_eq!(json["data"][0]["key"], "build");
    assert_eq!(json["data"][0]["value"], "v0.1.2-alpha");
}

#[test]
fn the_bare_shape_loads_where_types_are_registered() {
    let bare = r#"{
        "version": 1, "nextEntityId": 42,
        "componentTable": [{"name": "Position"}, {"name": "Health"}],
        "archetypes": [
            {"columnIndices": [1, 2], "entities": [
                [1, {"x": 10, "y": 20}, {"hp": 100, "max": 1}],
                ["18014398509481984", {"x": 30, "y": "inf"}, {"hp": "50", "max": 2}]]},
            {"columnIndices": [], "entities": [[9]]},
            {"columnIndices": [2], "entities": []}
        ],
        "data": [{"key": "build", "value": "v0.1.2-alpha"}, {"key": "player", "value": {"level": 3, "alive": true}}]
    }"#;
    let mut world = world();
    let snapshot = Snapshot::from_json(bare, world.registry()).unwrap();
    assert_eq!(snapshot.prelude().next_entity_id, 42);
    assert_eq!(snapshot.prelude().archetype_count, 2, "an archetype without entities is none");
    // Through the binary format, too.
    let bytes = snapshot.encode(&EncodeOptions::default()).unwrap().to_vec();
    let loaded = world.load(&Snapshot::open(&bytes).unwrap()).unwrap();
    let id = |bits: u64| loaded.map.get(EntityId::from_bits(bits)).unwrap();
    assert_eq!(world.get::<Position>(id(1)), Some(&Position { x: 10.0, y: 20.0 }));
    assert_eq!(world.get::<Position>(id(18014398509481984)), Some(&Position { x: 30.0, y: f32::INFINITY }));
    assert_eq!(world.get::<Health>(id(18014398509481984)), Some(&Health { hp: 50, max: 2 }));
    assert_eq!(world.entities().len(), 3);
    let player = snapshot.data()[1].get::<Value>().unwrap();
    assert_eq!(player.get("level"), Some(&Value::U64(3)));
}

#[test]
fn what_a_table_has_and_a_build_does_not_know_obeys_the_policy() {
    let bare = r#"{
        "version": 1, "nextEntityId": 3,
        "componentTable": [{"name": "Position"}],
        "archetypes": [{"columnIndices": [1], "entities": [[1, {"x": 10, "y": 20.5}], [2, {"x": 1, "y": 2}]]}]
    }"#;
    let unknown = Snapshot::from_json(bare, &Registry::new()).unwrap();
    let load = |policy| {
        let mut bare_world = ModelWorld::new();
        let options = LoadOptions::new().unknown(policy);
        bare_world.load_with(&unknown, Mode::Replace, options)?;
        let saved = bare_world.save()?;
        Ok::<_, Error>(world_of(&saved))
    };
    assert_eq!(load(Unknown::Keep).unwrap(), 2);
    assert_eq!(load(Unknown::Drop).unwrap(), 0);
    let error = load(Unknown::Refuse).unwrap_err();
    assert!(error.is_unknown() && error.key().is_some(), "{error}");
}

/// How many positions a build that knows them finds in a save.
fn world_of(snapshot: &Snapshot) -> usize {
    let mut world = ModelWorld::new();
    world.register::<Position>().unwrap();
    let loaded = world.load(snapshot).unwrap();
    let found = world.entities().into_iter().filter(|id| world.get::<Position>(*id).is_some()).count();
    assert!(found == 0 || loaded.report.component("Position").is_some(), "{:?}", loaded.report);
    found
}

#[test]
fn odd_values_come_back_bit_for_bit() {
    let odd = |nested, float: f64, single: f32, choice| Odd {
        nested,
        entity: None,
        float,
        single,
        big: u128::MAX,
        bytes: vec![0, 255],
        letter: '"',
        pairs: [(2, "b".to_owned()), (1, "a\n".to_owned())].into(),
        names: [("$absent".to_owned(), 1), (String::new(), 2)].into(),
        choice,
        unit: (),
    };
    let nan = f64::from_bits(0x7ff8_0000_dead_beef);
    let rows = [
        odd(None, -0.0, f32::from_bits(0xffc0_0001), Choice::None),
        odd(Some(None), nan, 0.1, Choice::One(f32::NEG_INFINITY)),
        odd(Some(Some(3)), 1e300, f32::MIN_POSITIVE / 2.0, Choice::Two(1, 2)),
        odd(None, f64::INFINITY, 16_777_217.0, Choice::Named { a: true }),
    ];
    let mut world = world();
    for row in &rows {
        let id = world.spawn();
        world.insert(id, Odd { entity: Some(id), ..row.clone() });
    }
    let snapshot = world.save().unwrap();
    let json = snapshot.to_json().unwrap();
    let back = Snapshot::from_json(&json, &Registry::new()).unwrap();
    let bytes = |snapshot: &Snapshot| snapshot.encode(&EncodeOptions::default()).unwrap().to_vec();
    assert_eq!(bytes(&back), bytes(&snapshot), "{json}");
    assert_eq!(back.to_json().unwrap(), json);
}

#[test]
fn bad_tables_are_refused_with_the_place() {
    let world = world();
    let table = |components: &str, archetypes: &str| {
        let json = format!(
            r#"{{"version":1,"nextEntityId":0,"componentTable":{components},"archetypes":{archetypes},"data":[]}}"#
        );
        Snapshot::from_json(&json, world.registry()).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let position = r#"[{"name":"Position"}]"#;
    assert_eq!(table(position, "[]"), "");
    let row = |row: &str| table(position, &format!(r#"[{{"columnIndices":[1],"entities":[{row}]}}]"#));
    assert_eq!(row(r#"[1,{"x":1,"y":2}]"#), "");
    assert_eq!(row(r#"[1,{"x":1}]"#), "`Position`.y: the field is missing");
    assert_eq!(row(r#"[1,{"x":1,"y":2,"z":3}]"#), "`Position`: there is no field `z`");
    assert_eq!(row(r#"[1,{"x":true,"y":2}]"#), "`Position`.x: true is not of type f32");
    assert_eq!(row(r#"[1]"#), "an entity is not a list of an id and 1 values");
    assert_eq!(row(r#"["one",{"x":1,"y":2}]"#), "\"one\" is not an id");
    assert!(table(position, r#"[{"columnIndices":[2],"entities":[]}]"#).contains("not a column"));
    assert!(
        table(position, r#"[{"columnIndices":[1,1],"entities":[[1,{"x":1,"y":1},{"x":1,"y":1}]]}]"#)
            .contains("twice")
    );
    assert!(
        table(r#"[{"name":"N","version":1,"kind":"rows","schema":[{"list":7}]}]"#, "[]")
            .contains("schema node 7")
    );
    let error = Snapshot::from_json("{", &Registry::new()).unwrap_err();
    assert!(error.is_corrupt() && error.to_string().contains("not JSON"));
    let error = Snapshot::from_json(r#"{"version":2}"#, &Registry::new()).unwrap_err();
    assert!(error.is_newer_format());
    assert!(Snapshot::from_json(&"[".repeat(100_000), &Registry::new()).unwrap_err().is_corrupt());
    // A schema that contains itself without an end has no values, and looking for one ends.
    let endless = r#"{"version":1,"nextEntityId":0,"componentTable":[{"name":"e","version":1,"kind":"rows",
        "schema":[{"tuple":[0]}]}],"archetypes":[{"columnIndices":[1],"entities":[[1,5]]}],"data":[]}"#;
    assert!(Snapshot::from_json(endless, &Registry::new()).unwrap_err().is_limit());
}

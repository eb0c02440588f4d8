//! Versions of a component: typed steps, upgraders, and the way through them.

use bonfire::engine::{LoadPlan, SnapshotWriter};
use bonfire::{
    Descriptor, Keyed, LoadOptions, Persist, Registry, Snapshot, Upgrader, Value, decode_one, encode_one,
};

/// Saves a value of one type and loads it as another that has the same key.
fn turn<Old: Keyed, New: Keyed>(old: &Old) -> bonfire::Result<New> {
    decode_one::<New>(&encode_one(old)?)
}

mod chain {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.health")]
    pub(crate) struct HealthV1(pub u32);

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.health", version = 2, from = HealthV1)]
    pub(crate) struct HealthV2 {
        pub current: f32,
        /// What it meant in version 2, for ever.
        #[persist(default = 100.0)]
        pub max: f32,
    }
    impl From<HealthV1> for HealthV2 {
        fn from(HealthV1(points): HealthV1) -> Self {
            Self { current: points as f32, max: 50.0 }
        }
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.health", version = 5, from = HealthV2)]
    pub(crate) struct Health {
        pub fraction: f64,
        #[persist(default = 1.0)]
        pub max: f32,
    }
    impl From<HealthV2> for Health {
        fn from(old: HealthV2) -> Self {
            Self { fraction: f64::from(old.current / old.max), max: old.max }
        }
    }
}

#[test]
fn typed_chains_have_any_length() {
    use chain::{Health, HealthV1, HealthV2};
    assert_eq!(turn::<_, Health>(&HealthV1(25)).unwrap(), Health { fraction: 0.5, max: 50.0 });
    let second = HealthV2 { current: 25.0, max: 100.0 };
    assert_eq!(turn::<_, Health>(&second).unwrap(), Health { fraction: 0.25, max: 100.0 });
    let now = Health { fraction: 0.75, max: 4.0 };
    assert_eq!(turn::<_, Health>(&now).unwrap(), now);
    let error = turn::<Health, HealthV2>(&now).unwrap_err();
    assert!(error.is_newer_format());
    assert_eq!(error.to_string(), "`game.health`: version 5 is newer than this build (2): update the game");
}

#[test]
fn defaults_are_frozen_with_the_version_that_brought_them() {
    /// Version 2 as it was before it had `max`.
    #[derive(Persist)]
    #[persist(key = "game.health", version = 2)]
    struct Early {
        current: f32,
    }
    // The newest type has another default for `max`. What an old save means is what version 2 said.
    let loaded: chain::Health = turn(&Early { current: 50.0 }).unwrap();
    assert_eq!(loaded, chain::Health { fraction: 0.5, max: 100.0 });
}

#[derive(Debug, PartialEq, Persist)]
#[persist(key = "game.tags", version = 4)]
struct Tags {
    tags: Vec<String>,
}

#[derive(Persist)]
#[persist(key = "game.tags")]
struct TagsV1(String);

fn tag_steps(steps: &[(u32, u32)]) -> bonfire::Result<Registry> {
    let mut registry = Registry::new().with::<Tags>()?;
    for &(from, to) in steps {
        registry.upgrade(
            "game.tags",
            match (from, to) {
                (1, 2) => Upgrader::bytes::<(String,), Vec<String>>(1, 2, |source, target| {
                    target.varint(1);
                    target.text(source.text()?);
                    Ok(())
                }),
                (2, 3) => Upgrader::bytes::<Vec<String>, Vec<String>>(2, 3, |source, target| {
                    let count = source.varint()?;
                    target.varint(count + 1);
                    (0..count).try_for_each(|_| source.text().map(|text| target.text(text)))?;
                    target.text("three");
                    Ok(())
                }),
                (from, to) => Upgrader::values(from, to, move |value| {
                    let mut tags = match value {
                        Value::List(tags) => tags,
                        Value::Tuple(parts) => parts,
                        other => vec![other],
                    };
                    tags.push(Value::from(format!("{from}-{to}")));
                    Ok(if to == 4 {
                        Value::Struct(vec![("tags".into(), Value::List(tags))])
                    } else {
                        Value::List(tags)
                    })
                }),
            },
        )?;
    }
    Ok(registry)
}

fn load_tags(registry: &Registry) -> bonfire::Result<Vec<String>> {
    let snapshot = Snapshot::open(&encode_one(&TagsV1("a".into()))?)?;
    let plan = LoadPlan::new(&snapshot, registry, LoadOptions::default())?;
    let map = plan.same_entities()?;
    let mut staged = plan.stage(&map, None)?;
    Ok(staged.take_resource::<Tags>().unwrap().tags)
}

#[test]
fn the_shortest_chain_through_all_steps_is_found() {
    let tags = |steps: &[(u32, u32)]| load_tags(&tag_steps(steps).unwrap()).unwrap();
    assert_eq!(tags(&[(3, 4), (1, 2), (2, 3)]), ["a", "three", "3-4"]);
    assert_eq!(tags(&[(3, 4), (1, 2), (2, 3), (2, 4)]), ["a", "2-4"]);
    assert_eq!(tags(&[(3, 4), (1, 2), (2, 3), (2, 4), (1, 4)]), ["a", "1-4"]);
    assert_eq!(tags(&[(1, 3), (3, 4)]), ["a", "1-3", "3-4"]);
}

#[test]
fn each_mistake_with_steps_has_its_own_answer() {
    let message = |steps: &[(u32, u32)]| match tag_steps(steps).and_then(|registry| load_tags(&registry)) {
        Ok(_) => panic!("it loads"),
        Err(error) => error.to_string(),
    };
    assert_eq!(
        message(&[]),
        "`game.tags`: version 1 needs a migration to version 4, and none is registered: add `#[persist(from = Old)]` or an \
         upgrader"
    );
    assert_eq!(
        message(&[(2, 3), (3, 4)]),
        "`game.tags`: no step leads from version 1 towards version 4; there are steps from 2, 3"
    );
    assert_eq!(
        message(&[(1, 2), (3, 4)]),
        "`game.tags`: a step leads from version 1 to version 2, but none leads on from there to version 4"
    );
    assert_eq!(
        message(&[(1, 2), (1, 2)]),
        "`game.tags`: there are two steps from version 1 to version 2: keep one of them"
    );
    assert_eq!(
        message(&[(3, 3)]),
        "`game.tags`: the upgrader from version 3 to version 3 goes nowhere: an upgrader leads to a later version"
    );
    assert_eq!(
        message(&[(3, 2)]),
        "`game.tags`: the upgrader from version 3 to version 2 goes back: an upgrader leads to a later version"
    );
    assert_eq!(
        message(&[(3, 5)]),
        "`game.tags`: an upgrader leads to version 5, but the component is at version 4: raise its version"
    );
    let dead = tag_steps(&[(1, 2), (3, 4)]).unwrap().check().unwrap_err();
    assert_eq!(
        dead.to_string(),
        "`game.tags`: the step from version 1 to version 2 leads nowhere: none leads on to version 4"
    );
    let mut early = Registry::new();
    early.upgrade("game.tags", Upgrader::values(1, 9, Ok)).unwrap();
    assert!(early.check().unwrap_err().to_string().contains("it is not registered"));
    assert!(early.register::<Tags>().unwrap_err().to_string().contains("leads to version 9"));
}

#[test]
fn typed_steps_and_upgraders_are_one_chain_and_references_are_mapped_once() {
    use bonfire::EntityId;
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.link")]
    struct V1 {
        to: EntityId,
    }
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.link", version = 2, from = V1)]
    struct V2 {
        to: EntityId,
        weight: u8,
    }
    impl From<V1> for V2 {
        fn from(old: V1) -> Self {
            Self { to: old.to, weight: 2 }
        }
    }
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.link", version = 4)]
    struct V4 {
        weight: u16,
        targets: Vec<EntityId>,
    }
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.link", version = 5, from = V4)]
    struct V5 {
        targets: Vec<EntityId>,
        label: String,
    }
    impl From<V4> for V5 {
        fn from(old: V4) -> Self {
            Self { targets: old.targets, label: format!("weight {}", old.weight) }
        }
    }
    // The typed step from 1 to 2 is part of version 2's past, which version 5 does not know by type.
    let mut registry = Registry::new().with::<V5>().unwrap();
    let first = Upgrader::bytes::<V1, V2>(1, 2, |source, target| {
        target.raw(source.raw(8)?);
        target.u8(2);
        Ok(())
    });
    let second = Upgrader::values(2, 4, |value| {
        let to = value.get("to").cloned().unwrap_or(Value::Unit);
        let weight = value.get("weight").cloned().unwrap_or(Value::Unit);
        Ok(Value::Struct(vec![("targets".into(), Value::List(vec![to])), ("weight".into(), weight)]))
    });
    registry.upgrade("game.link", first).unwrap();
    registry.upgrade("game.link", second).unwrap();
    registry.check().unwrap();
    let ids = [EntityId::new(0, 0), EntityId::new(1, 0), EntityId::new(2, 0)];
    let saves = [
        {
            let old = Registry::new().with::<V1>().unwrap();
            let mut writer = SnapshotWriter::new(&old);
            writer
                .archetype(&ids)
                .unwrap()
                .column(&[V1 { to: ids[1] }, V1 { to: ids[2] }, V1 { to: ids[0] }])
                .unwrap();
            writer.finish().unwrap()
        },
        {
            let old = Registry::new().with::<V2>().unwrap();
            let mut writer = SnapshotWriter::new(&old);
            let link = |i: usize| V2 { to: ids[i], weight: 2 };
            writer.archetype(&ids).unwrap().column(&[link(1), link(2), link(0)]).unwrap();
            writer.finish().unwrap()
        },
    ];
    for saved in saves {
        let plan = LoadPlan::new(&saved, &registry, LoadOptions::default()).unwrap();
        // Each new id is an old one of somebody else: mapped twice, they would be wrong.
        let new = vec![ids[2], ids[0], ids[1]];
        let map = plan.entity_map(new.clone()).unwrap();
        let links = plan.stage(&map, None).unwrap().take_all::<V5>(&map);
        let targets: Vec<EntityId> = links.iter().map(|(_, link)| link.targets[0]).collect();
        assert_eq!(targets, [new[1], new[2], new[0]]);
        assert!(links.iter().all(|(_, link)| link.label == "weight 2"));
    }

    // A typed step in the middle: rows are decoded, converted and encoded again, with ids as they were saved.
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.link", version = 6, from = V5)]
    struct V6(Vec<EntityId>);
    impl From<V5> for V6 {
        fn from(old: V5) -> Self {
            Self(old.targets)
        }
    }
    let old = Registry::new().with::<V4>().unwrap();
    let mut writer = SnapshotWriter::new(&old);
    let rows: Vec<V4> = (0..3).map(|i| V4 { weight: 9, targets: vec![ids[i], ids[(i + 1) % 3]] }).collect();
    writer.archetype(&ids).unwrap().column(&rows).unwrap();
    let saved = writer.finish().unwrap();
    let mut registry = Registry::new();
    registry.add(Descriptor::of::<V6>().with_version(7)).unwrap();
    let last = Upgrader::bytes::<V6, V6>(6, 7, |source, target| {
        let count = source.varint()?;
        target.varint(count);
        (0..count).try_for_each(|_| source.raw(8).map(|id| target.raw(id)))
    });
    registry.upgrade("game.link", last).unwrap();
    let plan = LoadPlan::new(&saved, &registry, LoadOptions::default()).unwrap();
    let map = plan.entity_map(vec![ids[1], ids[2], ids[0]]).unwrap();
    let links = plan.stage(&map, None).unwrap().take_all::<V6>(&map);
    assert_eq!(links[0].1, V6(vec![ids[1], ids[2]]));
}

#[test]
fn an_upgrader_that_leaves_bytes_is_found() {
    let mut registry = Registry::new().with::<Tags>().unwrap();
    registry
        .upgrade(
            "game.tags",
            Upgrader::bytes::<(String,), Tags>(1, 4, |_, target| {
                target.varint(0);
                Ok(())
            }),
        )
        .unwrap();
    let error = load_tags(&registry).unwrap_err();
    assert!(error.to_string().contains("an upgrader left 2 bytes of the old value unread"), "{error}");
}

#[test]
fn codecs_of_the_games_own_and_serde_see_values_as_they_expect_them() {
    /// What is saved in the place of a handle.
    #[derive(Persist)]
    struct Saved {
        name: String,
        #[persist(default = 3)]
        size: u8,
    }
    #[derive(Persist)]
    #[persist(key = "game.handle")]
    struct Early {
        name: String,
    }
    #[derive(Debug, PartialEq)]
    struct Handle(String, u8);
    let mut registry = Registry::new();
    registry
        .add(Descriptor::custom(
            "game.handle",
            |handle: &Handle, _| Ok(Some(Saved { name: handle.0.clone(), size: handle.1 })),
            |saved: Saved, _| Ok(Some(Handle(saved.name, saved.size))),
        ))
        .unwrap();
    let load = |registry: &Registry, bytes: &[u8]| {
        let snapshot = Snapshot::open(bytes)?;
        let plan = LoadPlan::new(&snapshot, registry, LoadOptions::default())?;
        let map = plan.same_entities()?;
        plan.stage(&map, None).map(|mut staged| staged.take_resource::<Handle>().unwrap())
    };
    let bytes = encode_one(&Early { name: "a".into() }).unwrap();
    assert_eq!(load(&registry, &bytes).unwrap(), Handle("a".into(), 3));
    // A payload that has nothing in common with it goes through an upgrader.
    #[derive(Persist)]
    #[persist(key = "game.handle")]
    struct Number(u8);
    let mut registry = Registry::new();
    let descriptor = Descriptor::custom(
        "game.handle",
        |handle: &Handle, _| Ok(Some(Saved { name: handle.0.clone(), size: handle.1 })),
        |saved: Saved, _| Ok(Some(Handle(saved.name, saved.size))),
    );
    registry.add(descriptor.with_version(2)).unwrap();
    let upgrader = Upgrader::values(1, 2, |value| {
        let Value::Tuple(parts) = value else { return Ok(value) };
        let fields = vec![("name".into(), "number".into()), ("size".into(), parts[0].clone())];
        Ok(Value::Struct(fields))
    });
    registry.upgrade("game.handle", upgrader).unwrap();
    assert_eq!(load(&registry, &encode_one(&Number(9)).unwrap()).unwrap(), Handle("number".into(), 9));
}

#[cfg(feature = "serde")]
#[test]
fn derived_types_become_serde_types_and_back() {
    #[derive(Debug, PartialEq, Persist, serde::Serialize, serde::Deserialize)]
    #[persist(key = "game.pet")]
    struct Pet {
        name: String,
        legs: Option<u8>,
        mood: Mood,
        toys: Vec<(u8, f32)>,
    }
    #[derive(Debug, PartialEq, Persist, serde::Serialize, serde::Deserialize)]
    enum Mood {
        Calm,
        Angry { at: String },
    }
    let pet = |mood| Pet { name: "Rex".into(), legs: Some(4), mood, toys: vec![(1, 0.5)] };
    let mut by_serde = Registry::new();
    by_serde.add(Descriptor::serde::<Pet>("game.pet")).unwrap();
    let derived = Registry::new().with::<Pet>().unwrap();
    for (from, to) in [(&by_serde, &derived), (&derived, &by_serde)] {
        for mood in [Mood::Calm, Mood::Angry { at: "the cat".into() }] {
            let pet = pet(mood);
            let mut writer = SnapshotWriter::new(from);
            writer.resource(&pet).unwrap();
            let saved = writer.finish().unwrap();
            let plan = LoadPlan::new(&saved, to, LoadOptions::default()).unwrap();
            let mut staged = plan.stage(&plan.same_entities().unwrap(), None).unwrap();
            assert_eq!(staged.take_resource::<Pet>().unwrap(), pet);
            assert!(staged.report.is_complete(), "{}", staged.report);
        }
    }
}

//! Going back to the last moments of a world, with every id, and on from there.

mod common;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use bonfire_hecs::core::engine::DataHandler;
use bonfire_hecs::{Checkpoints, EntityId, Filter, LoadMode, SaveOptions, Saved, Snapshot};
use bonfire_testkit::scale;
use bonfire_testkit::script::{Life, ScriptWorld, Step, scripts};
use common::*;
use hecs::{Entity, World};
use proptest::prelude::*;

fn fresh() -> HecsWorld {
    HecsWorld { world: World::new(), bonfire: bonfire(false) }
}

fn kept(checkpoints: &Checkpoints) -> Vec<u64> {
    checkpoints.ticks().collect()
}

#[test]
fn a_ring_keeps_the_last_ones_and_forgets_a_future_that_will_not_be() {
    let HecsWorld { mut world, mut bonfire } = fresh();
    let entity = world.spawn((Saved, Position::default()));
    let mut checkpoints = Checkpoints::new(4);
    assert!(checkpoints.is_empty() && checkpoints.memory_bytes() == 0);
    let nothing = checkpoints.rewind(&mut bonfire, &mut world, 3).unwrap_err();
    assert!(nothing.is_misuse() && nothing.to_string().contains("none is kept"), "{nothing}");
    for tick in [1, 2, 3, 5, 8, 13] {
        world.get::<&mut Position>(entity).unwrap().x = tick as f32;
        checkpoints.take(&mut bonfire, &world, tick).unwrap();
    }
    assert_eq!((kept(&checkpoints), checkpoints.len()), (vec![3, 5, 8, 13], 4));
    let before = canonical(&save(&bonfire, &world));
    for missing in [2, 4, 14, u64::MAX] {
        assert!(checkpoints.get(missing).is_none());
        let error = checkpoints.rewind(&mut bonfire, &mut world, missing).unwrap_err().to_string();
        assert!(error.contains(&format!("tick {missing}")) && error.contains("3 to 13 are kept"), "{error}");
        assert_eq!(
            (kept(&checkpoints), canonical(&save(&bonfire, &world))),
            (vec![3, 5, 8, 13], before.clone())
        );
    }
    checkpoints.rewind(&mut bonfire, &mut world, 8).unwrap();
    assert_eq!((world.get::<&Position>(entity).unwrap().x, kept(&checkpoints)), (8.0, vec![3, 5, 8]));
    world.get::<&mut Position>(entity).unwrap().x = 4.0;
    checkpoints.take(&mut bonfire, &world, 4).unwrap();
    assert_eq!(kept(&checkpoints), [3, 4]);
    let taken = checkpoints.get(4).unwrap().to_bytes().unwrap();
    assert!(taken == save(&bonfire, &world).to_bytes().unwrap());
    checkpoints.rewind(&mut bonfire, &mut world, 3).unwrap();
    assert_eq!(world.get::<&Position>(entity).unwrap().x, 3.0);
    checkpoints.clear();
    assert!(checkpoints.is_empty() && checkpoints.get(3).is_none());
}

#[test]
fn a_checkpoint_that_fails_changes_nothing() {
    let HecsWorld { mut world, mut bonfire } = fresh();
    world.spawn((Saved, Position::default()));
    let mut checkpoints = Checkpoints::new(4);
    checkpoints.take(&mut bonfire, &world, 1).unwrap();
    let filter = Filter::new().layers([1]).unwrap();
    checkpoints.set_options(SaveOptions::new().filter(filter));
    assert!(checkpoints.take(&mut bonfire, &world, 2).is_err());
    assert_eq!(kept(&checkpoints), [1]);
    checkpoints.rewind(&mut bonfire, &mut world, 1).unwrap();
}

#[test]
fn a_hundred_checkpoints_take_little_more_than_one() {
    let HecsWorld { mut world, mut bonfire } = fresh();
    let entities: Vec<Entity> = (0..10_000_u32)
        .map(|i| world.spawn((Saved, Position::default(), Health { current: 1, max: i, flash: 0 })))
        .collect();
    let mut checkpoints = Checkpoints::new(100);
    checkpoints.take(&mut bonfire, &world, 0).unwrap();
    let one = checkpoints.memory_bytes();
    assert!(one >= 10_000 * (8 + 8 + 5), "{one}");
    for tick in 1..100 {
        for &entity in &entities[4500..4600] {
            world.get::<&mut Position>(entity).unwrap().y = tick as f32;
        }
        checkpoints.take(&mut bonfire, &world, tick).unwrap();
    }
    assert_eq!(
        checkpoints.memory_bytes(),
        one + 99 * (16 << 10),
        "each has the page in which something changed"
    );
    checkpoints.rewind(&mut bonfire, &mut world, 10).unwrap();
    assert_eq!(checkpoints.memory_bytes(), one + 10 * (16 << 10));
    assert_eq!(world.get::<&Position>(entities[4599]).unwrap().y, 10.0);
}

#[test]
fn what_is_gone_comes_back_with_its_id_and_the_next_ids_are_those_of_then() {
    let HecsWorld { mut world, mut bonfire } = fresh();
    let [a, b, c] = [1, 2, 3].map(|team| {
        world.spawn((Saved, Team(team), Follows { leader: Entity::DANGLING, others: vec![], last: None }))
    });
    world.get::<&mut Follows>(a).unwrap().leader = b;
    // A slot with a history, and one that is free.
    world.despawn(c).unwrap();
    let c = world.spawn((Saved, Team(3), 7_u64));
    let free = world.spawn(());
    world.despawn(free).unwrap();
    let mut checkpoints = Checkpoints::new(4);
    checkpoints.take(&mut bonfire, &world, 1).unwrap();
    let mut next = World::new();
    std::mem::swap(&mut world, &mut next);
    // The same world again, to see what would have come.
    bonfire.load(&mut world, checkpoints.get(1).unwrap(), LoadMode::SameIds).unwrap();
    let expected: Vec<Entity> = (0..10).map(|_| world.spawn(())).collect();

    let HecsWorld { mut world, mut bonfire } = HecsWorld { world: next, bonfire: common::bonfire(false) };
    let mut checkpoints = Checkpoints::new(4);
    checkpoints.take(&mut bonfire, &world, 1).unwrap();
    let later: Vec<Entity> = (0..20).map(|_| world.spawn((Saved, Team(9)))).collect();
    checkpoints.take(&mut bonfire, &world, 2).unwrap();
    world.despawn(b).unwrap();
    (0..3).for_each(|_| {
        let brief = world.spawn((Saved, Team(8)));
        assert_eq!(brief.id(), b.id(), "other entities have had its slot since");
        world.despawn(brief).unwrap();
    });
    world.get::<&mut Team>(a).unwrap().0 = 5;
    let loaded = checkpoints.rewind(&mut bonfire, &mut world, 1).unwrap();
    assert_eq!(loaded.respawned, [(EntityId::from(b), b)]);
    assert_eq!([a, b, c].map(|entity| world.get::<&Team>(entity).unwrap().0), [1, 2, 3]);
    assert_eq!(world.get::<&Follows>(a).unwrap().leader, b);
    assert_eq!(
        *world.get::<&u64>(c).unwrap(),
        7,
        "what is not registered stays on entities that are still there"
    );
    assert!(world.len() == 3 && later.iter().all(|&entity| !world.contains(entity)));
    assert_eq!((0..10).map(|_| world.spawn(())).collect::<Vec<_>>(), expected);
    assert_eq!(kept(&checkpoints), [1]);
}

#[test]
fn unsaved_entities_stay_and_who_lost_a_slot_to_one_is_told() {
    let HecsWorld { mut world, mut bonfire } = fresh();
    let [a, b] = [1, 2].map(|team| world.spawn((Saved, Team(team))));
    world.insert_one(a, Follows { leader: b, others: vec![b], last: Some(b) }).unwrap();
    let mut checkpoints = Checkpoints::new(4);
    checkpoints.take(&mut bonfire, &world, 1).unwrap();
    world.despawn(b).unwrap();
    let camera = world.spawn(("camera",));
    assert_eq!(camera.id(), b.id());
    let loaded = checkpoints.rewind(&mut bonfire, &mut world, 1).unwrap();
    let now = loaded.respawned[0].1;
    assert_eq!(loaded.respawned, [(EntityId::from(b), now)]);
    assert!(now != b && !world.contains(b) && *world.get::<&&str>(camera).unwrap() == "camera");
    assert_eq!(world.get::<&Team>(now).unwrap().0, 2);
    assert_eq!(
        *world.get::<&Follows>(a).unwrap(),
        Follows { leader: now, others: vec![now], last: Some(now) }
    );
    // And again, from a world in which it has another id.
    world.despawn(now).unwrap();
    let loaded = checkpoints.rewind(&mut bonfire, &mut world, 1).unwrap();
    assert_eq!(world.get::<&Team>(loaded.respawned[0].1).unwrap().0, 2);
    assert_eq!(world.len(), 3);
}

#[test]
fn data_of_hooks_and_handlers_comes_back_and_excluded_entities_are_part_of_it() {
    let HecsWorld { mut world, mut bonfire } = fresh();
    let physics = Arc::new(Mutex::new(0_u32));
    let (saved, loaded) = (physics.clone(), physics.clone());
    bonfire
        .hooks
        .handler(
            "physics.step",
            DataHandler::new().save(move |_| Some(*saved.lock().unwrap())).load(move |_, step: u32| {
                *loaded.lock().unwrap() = step;
                Ok(())
            }),
        )
        .unwrap();
    bonfire.hooks.on_save(|_, starting| {
        starting.exclude::<Enemy>();
        Ok(())
    });
    let enemy = world.spawn((Saved, Enemy, Team(0)));
    let mut checkpoints = Checkpoints::new(10);
    for tick in 0..5 {
        *physics.lock().unwrap() = tick as u32 * 10;
        world.get::<&mut Team>(enemy).unwrap().0 = tick as u8;
        checkpoints.take(&mut bonfire, &world, tick).unwrap();
    }
    checkpoints.rewind(&mut bonfire, &mut world, 2).unwrap();
    assert_eq!((*physics.lock().unwrap(), world.get::<&Team>(enemy).unwrap().0), (20, 2));
    // A failing hook takes none.
    bonfire.hooks.on_save(|_, _| Err(bonfire_hecs::Error::custom("not now")));
    assert!(checkpoints.take(&mut bonfire, &world, 9).is_err());
    assert_eq!(kept(&checkpoints), [0, 1, 2]);
}

#[test]
fn resources_are_those_of_the_tick() {
    let HecsWorld { mut world, mut bonfire } = fresh();
    let mut checkpoints = Checkpoints::new(4);
    for tick in 1..4 {
        checkpoints.set_options(SaveOptions::new().resource(Score { points: tick, best: None }));
        checkpoints.take(&mut bonfire, &world, tick).unwrap();
    }
    let mut loaded = checkpoints.rewind(&mut bonfire, &mut world, 2).unwrap();
    assert_eq!(loaded.take_resource::<Score>().unwrap().points, 2);
}

#[test]
fn a_ring_with_a_selection_leaves_the_rest_alone() {
    let HecsWorld { mut world, mut bonfire } = fresh();
    let [a, b] = [1, 2].map(|team| world.spawn((Saved, Team(team))));
    let enemy = world.spawn((Saved, Enemy, Team(3)));
    let options = SaveOptions::new().exclude::<Enemy>();
    let mut checkpoints = Checkpoints::new(4).options(options);
    checkpoints.take(&mut bonfire, &world, 1).unwrap();
    world.get::<&mut Team>(enemy).unwrap().0 = 4;
    world.despawn(b).unwrap();
    let other = world.spawn((Saved, Enemy));
    world.despawn(other).unwrap();
    let loaded = checkpoints.rewind(&mut bonfire, &mut world, 1).unwrap();
    let now = loaded.respawned[0].1;
    assert!(![b, other].contains(&now) && !world.contains(other), "ids of the rest go on");
    assert_eq!([a, now, enemy].map(|entity| world.get::<&Team>(entity).unwrap().0), [1, 2, 4]);
}

#[test]
fn captures_of_a_future_that_will_not_be_are_those_of_another_world() {
    let HecsWorld { mut world, mut bonfire } = fresh();
    let a = world.spawn((Saved, Team(1)));
    let mut checkpoints = Checkpoints::new(4);
    checkpoints.take(&mut bonfire, &world, 1).unwrap();
    let b = world.spawn((Saved, Team(2)));
    let future = save(&bonfire, &world);
    checkpoints.rewind(&mut bonfire, &mut world, 1).unwrap();
    let stranger = world.spawn((Saved, Team(3), 7_u64));
    assert_eq!(stranger, b, "an id of the future is given out again");
    bonfire.load(&mut world, &future, LoadMode::Restore).unwrap();
    assert!(!world.contains(stranger) && !world.contains(a), "nobody is taken for somebody else");
    // The ring still knows its own world.
    let a = world.query::<(Entity, &Team)>().iter().find(|(_, team)| team.0 == 1).unwrap().0;
    world.insert_one(a, 8_u64).unwrap();
    checkpoints.take(&mut bonfire, &world, 2).unwrap();
    checkpoints.rewind(&mut bonfire, &mut world, 2).unwrap();
    checkpoints.take(&mut bonfire, &world, 3).unwrap();
    checkpoints.rewind(&mut bonfire, &mut world, 2).unwrap();
    assert_eq!(*world.get::<&u64>(a).unwrap(), 8);
    // A checkpoint from before the load has its ids again, as of another world.
    checkpoints.rewind(&mut bonfire, &mut world, 1).unwrap();
    assert_eq!((world.len(), world.query::<&Team>().iter().map(|team| team.0).next()), (1, Some(1)));
}

fn by_id(snapshot: &Snapshot) -> BTreeMap<EntityId, BTreeMap<String, String>> {
    let mut entities: BTreeMap<EntityId, BTreeMap<String, String>> = BTreeMap::new();
    for archetype in snapshot.archetypes() {
        for column in archetype.columns() {
            let values = column.values(&bonfire_hecs::Limits::default()).unwrap();
            for (id, value) in archetype.ids().iter().zip(values) {
                let value = value.map(|value| (column.component().key.clone(), format!("{value:?}")));
                entities.entry(*id).or_default().extend(value);
            }
        }
    }
    entities
}

/// The contents of a world, without references to nothing, and the ids that it would give out.
fn state(snapshot: &Snapshot) -> (BTreeMap<EntityId, BTreeMap<String, String>>, Vec<Entity>) {
    let (mut twin, mut bonfire) = (World::new(), common::bonfire(false));
    bonfire.load(&mut twin, snapshot, LoadMode::SameIds).unwrap();
    (by_id(&save(&bonfire, &twin)), (0..150).map(|_| twin.spawn(())).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30 * scale(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lives_go_back_to_any_tick_with_every_id(
        parts in prop::collection::vec(scripts(20), 3..7), back in prop::collection::vec(any::<prop::sample::Index>(), 1..5)
    ) {
        let all_saved = |script: Vec<Step>| -> Vec<Step> {
            let saved = |step| match step {
                Step::Spawn { parts, .. } => Step::Spawn { parts, saved: true },
                step => step,
            };
            script.into_iter().map(saved).collect()
        };
        let parts: Vec<Vec<Step>> = parts.into_iter().map(all_saved).collect();
        let (mut it, mut life, mut checkpoints) = (HecsWorld::fresh(false), Life::default(), Checkpoints::new(10));
        let (mut states, mut tick) = (HashMap::new(), 0);
        for index in back {
            for part in &parts {
                life.go_on(&mut it, part);
                tick += 1;
                checkpoints.take(&mut it.bonfire, &it.world, tick).unwrap();
                states.insert(tick, state(&it.save()));
            }
            let ticks: Vec<u64> = checkpoints.ticks().collect();
            tick = ticks[index.index(ticks.len())];
            checkpoints.rewind(&mut it.bonfire, &mut it.world, tick).unwrap();
            prop_assert_eq!(&by_id(&it.save()), &states[&tick].0, "tick {}", tick);
            prop_assert_eq!(&state(&it.save()), &states[&tick], "tick {}", tick);
        }
        // The world itself, and not only what is captured of it.
        let (_, next) = &states[&tick];
        prop_assert_eq!(&(0..150).map(|_| it.world.spawn(())).collect::<Vec<_>>(), next);
    }
}

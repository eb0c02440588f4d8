//! Loads with the same ids beside entities that are not part of saves: those stay, with their ids, and the rest is as saved.

mod common;

use std::collections::{BTreeMap, HashMap, HashSet};

use bonfire_hecs::{EntityId, LoadMode, Saved, Snapshot};
use bonfire_testkit::scale;
use bonfire_testkit::script::{Life, ScriptWorld, scripts};
use common::*;
use hecs::{Entity, World};
use proptest::prelude::*;

/// Not registered: such an entity is not part of saves.
struct Camera(u32);

fn fresh() -> HecsWorld {
    HecsWorld { world: World::new(), bonfire: bonfire(false) }
}

#[test]
fn unsaved_entities_stay_and_the_save_gets_its_ids_and_the_next_ones() {
    let mut source = fresh();
    let entities: Vec<Entity> = (0..6).map(|team| source.world.spawn((Saved, Team(team)))).collect();
    source.world.despawn(entities[1]).unwrap();
    source.world.despawn(entities[4]).unwrap();
    let snapshot = save(&source.bonfire, &source.world);

    let mut target = fresh();
    let own: Vec<Entity> = (0..20).map(|number| target.world.spawn((Saved, Team(number)))).collect();
    target.world.despawn(own[4]).unwrap();
    let [low, high] = [target.world.spawn((Camera(1),)), target.world.spawn((Camera(2),))];
    assert_eq!((low.id(), high.id()), (4, 20));
    target.load(&snapshot, LoadMode::SameIds);
    assert!(entities.iter().enumerate().all(|(number, &entity)| {
        target.world.get::<&Team>(entity).map(|team| team.0).ok()
            == Some(number as u8).filter(|number| ![1, 4].contains(number))
    }));
    assert_eq!(target.world.len(), 6);
    assert_eq!([low, high].map(|entity| target.world.get::<&Camera>(entity).unwrap().0), [1, 2]);
    // The next slots are those of the saved world, without the ones that are taken.
    let next: Vec<u32> = (0..20).map(|_| target.world.spawn(()).id()).collect();
    let source_next = (0..20).map(|_| source.world.spawn(()).id()).filter(|slot| ![4, 20].contains(slot));
    assert_eq!(next[..18], source_next.collect::<Vec<u32>>());
    let mut dead = own.iter().filter(|entity| !entities.contains(entity));
    assert!(dead.all(|&entity| !target.world.contains(entity)), "the dead stay dead");
}

#[test]
fn a_slot_that_is_taken_refuses_the_load_and_names_both() {
    let mut source = fresh();
    let [_, saved] = [0, 1].map(|team| source.world.spawn((Saved, Team(team))));
    let snapshot = save(&source.bonfire, &source.world);
    let mut target = fresh();
    let spawned: Vec<Entity> = (0..3).map(|_| target.world.spawn((Saved, Team(9)))).collect();
    target.world.despawn(spawned[1]).unwrap();
    let camera = target.world.spawn((Camera(1),));
    assert_eq!(camera.id(), saved.id());
    let before = target.world.freelist().collect::<Vec<_>>();
    let error = target.bonfire.load(&mut target.world, &snapshot, LoadMode::SameIds).unwrap_err();
    let (text, camera_id) = (error.to_string(), EntityId::from(camera));
    assert!(
        error.is_misuse() && text.contains(&format!("entity {} of the save", EntityId::from(saved))),
        "{text}"
    );
    assert!(text.contains(&format!("entity {camera_id} has its slot")), "{text}");
    assert_eq!((target.world.len(), target.world.freelist().collect::<Vec<_>>()), (3, before));
    assert_eq!(target.world.query::<&Team>().iter().map(|team| team.0).collect::<Vec<_>>(), [9, 9]);
    target.world.despawn(camera).unwrap();
    target.load(&snapshot, LoadMode::SameIds);
    assert_eq!(target.world.get::<&Team>(saved).unwrap().0, 1);
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 100 * scale(), failure_persistence: None, ..ProptestConfig::default() })]

    /// Lives with saved and unsaved entities, loaded over another life of the same kind.
    #[test]
    fn loads_beside_unsaved_entities_keep_both_or_change_nothing(
        script in scripts(60), before in scripts(40), own_past in any::<bool>()
    ) {
        let (mut source, mut life) = (HecsWorld::fresh(false), Life::default());
        life.go_on(&mut source, &script);
        let snapshot = source.save();
        // The world itself later, or another one.
        let (mut target, mut other) = match own_past {
            true => (source, life),
            false => (HecsWorld::fresh(true), Life::default()),
        };
        other.go_on(&mut target, &before);
        let was_saved: HashSet<EntityId> = target.save().entities().into_iter().collect();
        let staying: HashMap<u32, Entity> = (target.world.iter().map(|entity| entity.entity()))
            .filter(|&entity| !was_saved.contains(&entity.into()))
            .map(|entity| (entity.id(), entity))
            .collect();
        let dead: Vec<Entity> =
            other.entities.iter().map(|(entity, _)| *entity).filter(|&entity| !target.is_alive(entity)).collect();
        let saved: HashSet<EntityId> = snapshot.entities().into_iter().collect();
        let collides = saved.iter().any(|id| staying.contains_key(&id.index()));
        let (len, free) = (target.world.len(), target.world.freelist().collect::<Vec<_>>());
        let loaded = target.bonfire.load(&mut target.world, &snapshot, LoadMode::SameIds);
        prop_assert_eq!(loaded.is_err(), collides);
        if collides {
            prop_assert_eq!((target.world.len(), target.world.freelist().collect::<Vec<_>>()), (len, free));
            return Ok(());
        }
        prop_assert_eq!(by_id(&target.save()), by_id(&snapshot));
        prop_assert!(staying.values().all(|&entity| target.is_alive(entity)));
        let expected = saved.len() + staying.len();
        prop_assert_eq!(target.world.len() as usize, expected);
        let revived = |entity: &Entity| saved.contains(&EntityId::from(*entity));
        let mut given: HashSet<Entity> = HashSet::new();
        for _ in 0..500 {
            let next = target.world.spawn(());
            prop_assert!(given.insert(next) && !staying.contains_key(&next.id()));
        }
        if !staying.is_empty() {
            let found = dead.iter().filter(|entity| !revived(entity)).find(|&&entity| target.is_alive(entity));
            prop_assert_eq!(found, None, "handles of those who stay find no stranger");
        }
    }
}

//! Random lives of hecs worlds, saved and loaded in every mode.

mod common;

use std::collections::{BTreeMap, HashSet};

use bonfire_hecs::{Limits, LoadMode, Snapshot};
use bonfire_testkit::scale;
use bonfire_testkit::script::{Life, ScriptWorld, Step, check, check_restore, scripts};
use common::*;
use hecs::Entity;
use proptest::prelude::*;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases: cases * scale(), failure_persistence: None, ..ProptestConfig::default() }
}

/// What is saved of each entity, by its id, as text.
fn by_id(snapshot: &Snapshot) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut entities: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for archetype in snapshot.archetypes() {
        for column in archetype.columns() {
            let values = column.values(&Limits::default()).unwrap();
            for (id, value) in archetype.ids().iter().zip(values) {
                if let Some(value) = value {
                    let entity = entities.entry(id.to_string()).or_default();
                    entity.insert(column.component().key.clone(), format!("{value:?}"));
                }
            }
        }
    }
    entities
}

proptest! {
    // Ten thousand of each at full scale.
    #![proptest_config(config(100))]

    #[test]
    fn worlds_come_back(script in scripts(60)) {
        check::<HecsWorld>(&script)?;
    }

    #[test]
    fn worlds_go_back_in_time(script in scripts(60), later in scripts(40)) {
        check_restore::<HecsWorld>(&script, &later)?;
    }

    #[test]
    fn ids_and_what_comes_next_are_kept(script in scripts(80), before in scripts(30)) {
        let all_saved = |script: Vec<Step>| -> Vec<Step> {
            let saved = |step| match step {
                Step::Spawn { parts, .. } => Step::Spawn { parts, saved: true },
                step => step,
            };
            script.into_iter().map(saved).collect()
        };
        let mut source = HecsWorld::fresh(false);
        let mut life = Life::default();
        life.go_on(&mut source, &all_saved(script));
        let bytes = source.save().to_bytes().unwrap();
        let snapshot = Snapshot::open(&bytes).unwrap();

        // Into a world that has had another life.
        let mut loaded = HecsWorld::fresh(true);
        Life::default().go_on(&mut loaded, &all_saved(before));
        loaded.load(&snapshot, LoadMode::SameIds);
        prop_assert_eq!(by_id(&loaded.save()), by_id(&snapshot));
        let alive = |world: &HecsWorld| -> Vec<bool> {
            life.entities.iter().map(|(entity, _)| world.is_alive(*entity)).collect()
        };
        prop_assert_eq!(alive(&loaded), alive(&source));
        for _ in 0..5000 {
            prop_assert_eq!(loaded.world.spawn(()), source.world.spawn(()));
        }
        prop_assert_eq!(alive(&loaded), alive(&source), "the dead stay dead");
    }

    #[test]
    fn handles_to_the_dead_find_nothing_after_any_load(script in scripts(60), later in scripts(40)) {
        let mut world = HecsWorld::fresh(false);
        let mut life = Life::default();
        life.go_on(&mut world, &script);
        let saved = world.save();
        life.go_on(&mut world, &later);
        let dead: Vec<Entity> =
            life.entities.iter().map(|(entity, _)| *entity).filter(|entity| !world.is_alive(*entity)).collect();
        let replaced: HashSet<Entity> = world.save().entities().into_iter().map(Entity::from).collect();
        world.load(&saved, LoadMode::Restore);
        (0..200).for_each(|_| _ = world.world.spawn(()));
        prop_assert!(dead.iter().all(|entity| !world.is_alive(*entity)), "restore");
        world.load(&saved, LoadMode::Merge);
        world.load(&saved, LoadMode::Replace);
        (0..200).for_each(|_| _ = world.world.spawn(()));
        prop_assert!(dead.iter().chain(&replaced).all(|entity| !world.is_alive(*entity)), "replace");
    }
}

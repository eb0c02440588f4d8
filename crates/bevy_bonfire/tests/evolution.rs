//! Saves of older builds of a game, and of newer ones.

use bevy_bonfire::core::{Keyed, Outcome, SchemaChange};
use bevy_bonfire::prelude::*;
use bevy_bonfire::{Snapshot, Ticks, Unknown, Upgrader, Value, check_schemas};
use bevy_ecs::prelude::*;

mod old {
    use super::*;

    #[derive(Component, Clone, Debug, PartialEq, Persist)]
    #[require(Saved)]
    #[persist(key = "game.hp")]
    pub(super) struct Health(pub(super) u32);

    #[derive(Component, Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.body")]
    pub(super) struct Body {
        pub(super) mass: f32,
        pub(super) name: String,
        pub(super) owner: Entity,
    }

    #[derive(Component, Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.tags")]
    pub(super) struct Tags(pub(super) String);

    #[derive(Resource, Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.clock")]
    pub(super) struct Clock {
        pub(super) ticks: u32,
    }

    pub(super) fn world() -> World {
        let mut world = World::new();
        world.persist::<Health>().persist::<Body>().persist::<Tags>().persist_resource::<Clock>();
        world.save_track("game", 1);
        world
    }

    /// Three units; the last one owns the others.
    pub(super) fn filled() -> (World, Snapshot) {
        let mut world = world();
        world.insert_resource(Clock { ticks: 30 });
        let owner = world.spawn((Health(50), Tags("boss".into()))).id();
        for i in 0..2 {
            let body = Body { mass: i as f32, name: format!("unit {i}"), owner };
            world.spawn((Health(i * 10), body));
        }
        let snapshot = world.capture(&SaveOptions::new()).unwrap();
        let snapshot = Snapshot::open(&snapshot.to_bytes().unwrap()).unwrap();
        (world, snapshot)
    }
}

mod new {
    use super::*;

    #[derive(Component, Clone, Debug, PartialEq, Persist)]
    #[require(Saved)]
    #[persist(key = "game.health", alias = "game.hp", version = 2, from = HealthV1)]
    pub(super) struct Health {
        pub(super) current: f32,
        #[persist(default = 100.0)]
        pub(super) max: f32,
    }
    #[derive(Component, Clone, Persist)]
    #[persist(key = "game.health")]
    pub(super) struct HealthV1(u32);
    impl From<HealthV1> for Health {
        fn from(HealthV1(points): HealthV1) -> Self {
            Self { current: points as f32, max: 50.0 }
        }
    }

    #[derive(Component, Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.mass")]
    pub(super) struct Mass(pub(super) f64);

    #[derive(Component, Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.owned_by")]
    pub(super) struct OwnedBy(pub(super) Entity);

    #[derive(Component, Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.tags", version = 2)]
    pub(super) struct Tags {
        pub(super) tags: Vec<String>,
    }

    #[derive(Resource, Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.clock")]
    pub(super) struct Clock {
        pub(super) paused: bool,
        pub(super) ticks: u64,
    }

    pub(super) fn world() -> World {
        let mut world = World::new();
        world.persist::<Health>().persist::<Mass>().persist::<OwnedBy>().persist::<Tags>();
        world.persist_resource::<Clock>();
        world.save_upgrader(
            "game.tags",
            Upgrader::values(1, 2, |value| {
                let Value::Tuple(tags) = value else { return Ok(value) };
                Ok(Value::Struct(vec![("tags".into(), Value::List(tags))]))
            }),
        );
        world.save_track("game", 3);
        world.save_migration("game", 1, 3, |world| {
            for entity in world.with(old::Body::KEY)? {
                let Some(body) = world.take::<old::Body>(entity, old::Body::KEY)? else { continue };
                world.insert(entity, &Mass(body.mass.into()))?;
                world.insert(entity, &OwnedBy(body.owner))?;
            }
            Ok(())
        });
        world
    }
}

#[test]
fn an_old_save_loads_into_the_newest_build() {
    let (_, saved) = old::filled();
    let mut world = new::world();
    world.spawn_empty(); // so that ids are others
    let loaded = world.load(&saved, LoadMode::Replace).unwrap();
    assert!(loaded.report.is_complete(), "{}", loaded.report);
    assert_eq!(*world.resource::<new::Clock>(), new::Clock { paused: false, ticks: 30 });
    let (boss, tags) = world.query::<(Entity, &new::Tags)>().single(&world).unwrap();
    assert_eq!(tags.tags, ["boss"]);
    assert_eq!(world.get::<new::Health>(boss), Some(&new::Health { current: 50.0, max: 50.0 }));
    let mut units: Vec<(f64, Entity, f32)> = (world.query::<(&new::Mass, &new::OwnedBy, &new::Health)>())
        .iter(&world)
        .map(|(mass, owner, health)| (mass.0, owner.0, health.current))
        .collect();
    units.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert_eq!(units, [(0.0, boss, 0.0), (1.0, boss, 10.0)]);
    let line = loaded.report.component("game.clock").unwrap();
    assert_eq!(line.changes[0], SchemaChange::Added { field: "paused".into() });
    // The next save is the newest build's own, and the old build says that it is newer.
    let again = world.capture(&SaveOptions::new()).unwrap();
    assert_eq!(again.tracks()["game"], 3);
    assert!(old::world().load(&again, LoadMode::Replace).unwrap_err().is_newer_format());
}

#[test]
fn a_restore_and_a_merge_migrate_like_any_load() {
    let (_, saved) = old::filled();
    let mut world = new::world();
    let first = world.load(&saved, LoadMode::Merge).unwrap();
    let canonical =
        |world: &World| world.capture(&SaveOptions::new()).unwrap().canonical().unwrap().to_bytes().unwrap();
    let before = canonical(&world);
    let capture = world.capture(&SaveOptions::new()).unwrap();
    let units: Vec<Entity> = world.query_filtered::<Entity, With<new::Mass>>().iter(&world).collect();
    world.get_mut::<new::Mass>(units[0]).unwrap().0 = 99.0;
    world.despawn(units[1]);
    world.load(&capture, LoadMode::Restore(Ticks::All)).unwrap();
    assert_eq!(canonical(&world), before);
    // The old save itself is of another process: its ids mean nothing here, and all of it is spawned again.
    world.load(&saved, LoadMode::Restore(Ticks::Differing)).unwrap();
    assert_eq!(world.query::<&new::Mass>().iter(&world).count(), 2);
    assert_eq!(first.entities().count(), 3);
}

#[test]
fn an_older_build_carries_fields_and_a_failing_migration_leaves_the_world() {
    #[derive(Component, Clone, Debug, PartialEq, Persist)]
    #[require(Saved)]
    #[persist(key = "game.hero")]
    struct Hero {
        name: String,
        mana: u32,
        rival: Entity,
    }
    #[derive(Component, Clone, Debug, PartialEq, Persist)]
    #[require(Saved)]
    #[persist(key = "game.hero")]
    struct PlainHero {
        name: String,
    }
    let mut newer = World::new();
    newer.persist::<Hero>();
    let a = newer.spawn_empty().id();
    let b = newer.spawn(Hero { name: "b".into(), mana: 2, rival: a }).id();
    newer.entity_mut(a).insert(Hero { name: "a".into(), mana: 1, rival: b });
    let saved = newer.capture(&SaveOptions::new()).unwrap();

    let mut older = World::new();
    older.persist::<PlainHero>();
    older.spawn_empty();
    older.load(&saved, LoadMode::Replace).unwrap();
    for mut hero in older.query::<&mut PlainHero>().iter_mut(&mut older) {
        hero.name.push('!');
    }
    let saved = older.capture(&SaveOptions::new()).unwrap();

    newer.load(&saved, LoadMode::Replace).unwrap();
    let heroes: Vec<Hero> = newer.query::<&Hero>().iter(&newer).cloned().collect();
    assert_eq!(heroes.len(), 2);
    for hero in &heroes {
        let rival = newer.get::<Hero>(hero.rival).unwrap();
        assert_eq!((hero.mana + rival.mana, hero.name.len()), (3, 2));
    }

    let mut broken = old::world();
    broken.spawn(old::Health(1));
    broken.save_migration("game", 0, 1, |_| Err(bevy_bonfire::Error::custom("no")));
    let before = broken.capture(&SaveOptions::new()).unwrap().canonical().unwrap().to_bytes().unwrap();
    assert!(broken.load(&saved, LoadMode::Replace).is_err());
    let after = broken.capture(&SaveOptions::new()).unwrap().canonical().unwrap().to_bytes().unwrap();
    assert_eq!(before, after);
}

/// The row "remove a component" of the guide.
#[test]
fn a_removed_component_is_carried_until_the_game_says_that_it_is_gone() {
    #[derive(Component, Clone, Copy, Debug, PartialEq, Persist)]
    #[require(Saved)]
    #[persist(key = "game.kept")]
    struct Kept(u32);
    #[derive(Component, Clone, Copy, Debug, PartialEq, Persist)]
    #[persist(key = "game.gone")]
    struct Gone(u32);
    #[derive(Component, Persist)]
    #[persist(key = "game.gone", transient)]
    struct NeverSaved(u32);

    let with_both = || {
        let mut world = World::new();
        world.persist::<Kept>().persist::<Gone>();
        world
    };
    let without = || {
        let mut world = World::new();
        world.persist::<Kept>();
        world
    };
    let mut source = with_both();
    source.spawn((Kept(1), Gone(2)));
    let saved = source.capture(&SaveOptions::new()).unwrap();
    // Loads a save, and returns the key's outcome, whether all is well, and the values of the next save.
    let next_save = |mut world: World, options: LoadOptions| {
        let loaded = world.load(&saved, options).unwrap();
        let report = &loaded.report;
        let outcome = report.components.iter().find(|line| line.key == "game.gone").map(|line| line.outcome);
        assert_eq!(world.query::<&Kept>().single(&world).unwrap(), &Kept(1), "the entity is there");
        let next = world.capture(&SaveOptions::new()).unwrap();
        let mut newer = with_both();
        newer.load(&next, LoadMode::Replace).unwrap();
        let values: Vec<Gone> = newer.query::<&Gone>().iter(&newer).copied().collect();
        (outcome, report.is_complete(), values)
    };

    // Not registered any more: not in the world, in every save, and back in a build that knows it.
    let carried = next_save(without(), LoadOptions::new());
    assert_eq!(carried, (Some(Outcome::Carried), false, vec![Gone(2)]));
    // A migration removes it for good.
    let mut migrating = without();
    migrating.save_track("game", 1);
    migrating.save_migration("game", 0, 1, |world| world.remove_all("game.gone").map(|_| ()));
    assert_eq!(next_save(migrating, LoadOptions::new()), (None, true, vec![]));
    // The type stays and is transient.
    let mut transient = without();
    transient.persist::<NeverSaved>();
    assert_eq!(next_save(transient, LoadOptions::new()), (Some(Outcome::Transient), false, vec![]));
    // One load drops all that is unknown.
    let dropped = next_save(without(), LoadOptions::new().unknown(Unknown::Drop));
    assert_eq!(dropped, (Some(Outcome::Dropped), false, vec![]));
    // The lock asks for a word about it.
    let mut lock = bevy_bonfire::core::SchemaLock::default();
    lock.add(&source.save_registry().unwrap()).unwrap();
    let registry = without().save_registry().unwrap();
    let problem = lock.check(&registry).unwrap_err().to_string();
    assert!(problem.contains("`game.gone`: it is no longer registered"), "{problem}");
    let text = lock.to_string().replace("[game.gone]", "[game.gone]\nremoved");
    bevy_bonfire::core::SchemaLock::parse(&text).unwrap().check(&registry).unwrap();
}

#[test]
fn the_schemas_of_a_world_are_locked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("schemas.lock");
    let mut lock = bevy_bonfire::core::SchemaLock::default();
    lock.add(&old::world().save_registry().unwrap()).unwrap();
    std::fs::write(&path, lock.to_string()).unwrap();
    check_schemas(&path, &old::world().save_registry().unwrap()).unwrap();
    let error = check_schemas(&path, &new::world().save_registry().unwrap()).unwrap_err().to_string();
    assert!(error.contains("`game.body`: it is no longer registered"), "{error}");
    assert!(error.contains("`game.mass`: its schema is not locked yet"), "{error}");
}

#[test]
#[should_panic(expected = "leads nowhere")]
fn a_mistake_in_a_migration_is_found_at_once() {
    old::world().save_migration("game", 1, 2, |_| Ok(()));
}

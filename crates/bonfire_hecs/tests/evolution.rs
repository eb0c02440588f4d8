//! Saves of older builds of a game, and of newer ones.

use bonfire_hecs::core::Keyed;
use bonfire_hecs::core::SchemaLock;
use bonfire_hecs::{
    Bonfire, EntityId, LoadMode, Persist, SaveOptions, Snapshot, Upgrader, Value, check_schemas,
};
use hecs::{Entity, World};

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.hp")]
struct OldHealth(u32);

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.body")]
struct Body {
    mass: f32,
    owner: Entity,
}

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.health", alias = "game.hp", version = 3)]
struct Health {
    current: f32,
    #[persist(default = 100.0)]
    max: f32,
}

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.mass")]
struct Mass(f64);

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.owned_by")]
struct OwnedBy(Entity);

fn old() -> Bonfire {
    let mut bonfire = Bonfire::new();
    bonfire.persist::<OldHealth>().unwrap().persist::<Body>().unwrap().track("game", 1).unwrap();
    bonfire
}

fn new() -> Bonfire {
    let mut bonfire = Bonfire::new();
    bonfire.persist::<Health>().unwrap().persist::<Mass>().unwrap().persist::<OwnedBy>().unwrap();
    let to_float = Upgrader::bytes::<(u32,), (f32,)>(1, 2, |source, target| {
        target.raw(&(source.u32()? as f32).to_le_bytes());
        Ok(())
    });
    let to_struct = Upgrader::values(2, 3, |value| match value {
        Value::Tuple(mut parts) => Ok(Value::Struct(vec![("current".into(), parts.remove(0))])),
        other => Ok(other),
    });
    bonfire.upgrade("game.health", to_float).unwrap().upgrade("game.health", to_struct).unwrap();
    bonfire.track("game", 2).unwrap();
    let split = |world: &mut bonfire_hecs::WorldEdit| {
        for entity in world.with(Body::KEY)? {
            let Some(body) = world.take::<Body>(entity, Body::KEY)? else { continue };
            world.insert(entity, &Mass(body.mass.into()))?;
            world.insert(entity, &OwnedBy(body.owner))?;
        }
        Ok(())
    };
    bonfire.migration("game", 1, 2, split).unwrap();
    bonfire
}

fn saved() -> (World, Snapshot) {
    let mut world = World::new();
    let owner = world.spawn((OldHealth(50),));
    for i in 0..3_u16 {
        world.spawn((OldHealth(u32::from(i)), Body { mass: f32::from(i), owner }));
    }
    let snapshot = old().capture(&world, &SaveOptions::new()).unwrap();
    let snapshot = Snapshot::open(&snapshot.to_bytes().unwrap()).unwrap();
    (world, snapshot)
}

#[test]
fn an_old_save_loads_in_every_mode() {
    let (old_world, saved) = saved();
    for mode in [LoadMode::Replace, LoadMode::Merge, LoadMode::SameIds, LoadMode::Restore] {
        let (mut world, mut bonfire) = (World::new(), new());
        let same = matches!(mode, LoadMode::SameIds);
        let loaded = bonfire.load(&mut world, &saved, mode).unwrap();
        assert!(loaded.report.is_complete(), "{}", loaded.report);
        let mut units: Vec<(f64, f32, f32)> = (world.query::<(&Mass, &OwnedBy, &Health)>().iter())
            .map(|(mass, owner, health)| {
                let owner = world.get::<&Health>(owner.0).unwrap();
                assert_eq!(*owner, Health { current: 50.0, max: 100.0 });
                (mass.0, health.current, health.max)
            })
            .collect();
        units.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert_eq!(units, [(0.0, 0.0, 100.0), (1.0, 1.0, 100.0), (2.0, 2.0, 100.0)]);
        if same {
            assert!(old_world.iter().all(|entity| world.contains(entity.entity())));
        }
        let again = bonfire.capture(&world, &SaveOptions::new()).unwrap();
        assert_eq!(again.tracks()["game"], 2);
        assert!(old().load(&mut World::new(), &again, LoadMode::Replace).unwrap_err().is_newer_format());
    }
}

#[test]
fn an_older_build_carries_what_it_does_not_know() {
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.hero")]
    struct Hero {
        name: String,
        rival: EntityId,
        mana: u32,
    }
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.hero")]
    struct PlainHero {
        name: String,
    }
    let (mut newer, mut older) = (Bonfire::new(), Bonfire::new());
    newer.persist::<Hero>().unwrap();
    older.persist::<PlainHero>().unwrap();
    let mut world = World::new();
    let a = world.spawn((Hero { name: "a".into(), rival: EntityId::NULL, mana: 7 },));
    world.spawn((Hero { name: "b".into(), rival: a.into(), mana: 8 },));
    let saved = newer.capture(&world, &SaveOptions::new()).unwrap();
    let mut between = World::new();
    between.spawn(());
    older.load(&mut between, &saved, LoadMode::Merge).unwrap();
    let saved = older.capture(&between, &SaveOptions::new()).unwrap();
    newer.load(&mut world, &saved, LoadMode::Replace).unwrap();
    let heroes: Vec<Hero> = world.query::<&Hero>().iter().cloned().collect();
    let hero = |name: &str| heroes.iter().find(|hero| hero.name == name).unwrap();
    assert_eq!((hero("a").mana, hero("b").mana, hero("a").rival), (7, 8, EntityId::NULL));
    let rival = Entity::from(hero("b").rival);
    assert_eq!(world.get::<&Hero>(rival).unwrap().name, "a");
}

#[test]
fn schemas_are_locked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("schemas.lock");
    let mut lock = SchemaLock::default();
    lock.add(old().registry()).unwrap();
    std::fs::write(&path, lock.to_string()).unwrap();
    check_schemas(&path, old().registry()).unwrap();
    let error = check_schemas(&path, new().registry()).unwrap_err();
    assert!(error.to_string().contains("`game.body`: it is no longer registered"), "{error}");
}

#[test]
fn an_entity_that_a_migration_spawns_is_one_of_hecs() {
    let (_, saved) = saved();
    for mode in [LoadMode::Replace, LoadMode::SameIds] {
        let mut bonfire = Bonfire::new();
        bonfire.persist::<OldHealth>().unwrap().persist::<OwnedBy>().unwrap().track("game", 2).unwrap();
        let spawn = |world: &mut bonfire_hecs::WorldEdit| {
            let leader = world.spawn()?;
            world.insert(leader, &OldHealth(999))?;
            for entity in world.with(Body::KEY)? {
                world.remove(entity, Body::KEY)?;
                world.insert(entity, &OwnedBy(leader.into()))?;
            }
            Ok(())
        };
        bonfire.migration("game", 1, 2, spawn).unwrap();
        let mut world = World::new();
        bonfire.load(&mut world, &saved, mode).unwrap();
        let owners: Vec<Entity> = world.query::<&OwnedBy>().iter().map(|owner| owner.0).collect();
        assert_eq!(owners.len(), 3);
        assert!(owners.iter().all(|owner| *world.get::<&OldHealth>(*owner).unwrap() == OldHealth(999)));
    }
}

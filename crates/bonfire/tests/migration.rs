//! Worlds of older versions, and builds of different ages that share one save.

use bonfire::engine::{LoadPlan, SnapshotWriter};
use bonfire::{
    Descriptor, EntityId, Error, Keyed, LoadOptions, LoadReport, Persist, Registry, Result, Snapshot,
    TrackState, Unknown, Value, WorldEdit, preflight,
};
use bonfire_testkit::ModelWorld;

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.body")]
struct Body {
    mass: f32,
    health: f32,
    name: String,
}
#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.mass")]
struct Mass(f32);
#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.health")]
struct Health(f32);
#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.title")]
struct Title(String);
#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.follows")]
struct Follows(EntityId);
#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.clock")]
struct Clock(u32);

/// Three entities with bodies, two of which follow each other, as version 1 of the game saved them.
fn old_world() -> Snapshot {
    let mut world = ModelWorld::new();
    world.register::<Body>().unwrap();
    world.register::<Follows>().unwrap();
    world.register::<Clock>().unwrap();
    world.registry_mut().track("game", 1).unwrap();
    let ids: Vec<EntityId> = (0..3).map(|_| world.spawn()).collect();
    for (i, &id) in ids.iter().enumerate() {
        world.insert(id, Body { mass: i as f32, health: 10.0 * i as f32, name: format!("unit {i}") });
    }
    world.insert(ids[0], Follows(ids[1]));
    world.insert(ids[1], Follows(ids[0]));
    world.insert_resource(Clock(7));
    world.hooks.on_save(|_, save| save.attach("game.seed", &5_u32));
    world.save().unwrap()
}

fn new_world() -> ModelWorld {
    let mut world = ModelWorld::new();
    world.register::<Mass>().unwrap();
    world.register::<Health>().unwrap();
    world.register::<Title>().unwrap();
    world.register::<Follows>().unwrap();
    world.register::<Clock>().unwrap();
    world
}

fn split(world: &mut WorldEdit) -> bonfire::Result<()> {
    for entity in world.with(Body::KEY)? {
        let Some(body) = world.take::<Body>(entity, Body::KEY)? else { continue };
        world.insert(entity, &Mass(body.mass))?;
        if body.health > 0.0 {
            world.insert(entity, &Health(body.health))?;
        }
        world.insert_as(entity, "game.label", 1, &(body.name,))?;
    }
    Ok(())
}

#[test]
fn fields_that_a_migration_drops_unawares_are_named() {
    /// What the migration forgot.
    #[derive(Persist)]
    #[persist(key = "game.body")]
    struct Narrow {
        mass: f32,
    }
    let mut before = Registry::new();
    before.register::<Body>().unwrap();
    before.track("game", 1).unwrap();
    let body = Body { mass: 1.0, health: 2.0, name: "ogre".to_owned() };
    let mut writer = SnapshotWriter::new(&before);
    writer.archetype(&[EntityId::new(0, 0)]).unwrap().column(&[body]).unwrap();
    let snapshot = writer.finish().unwrap();
    type Step = fn(&mut WorldEdit) -> Result<()>;
    let load = |step: Step| -> LoadReport {
        let mut after = Registry::new();
        after.register::<Body>().unwrap();
        after.track("game", 2).unwrap();
        after.migration("game", 1, 2, step).unwrap();
        let migrated = snapshot.migrated(&after).unwrap();
        let plan = LoadPlan::new(&migrated, &after, LoadOptions::default()).unwrap();
        plan.stage(&plan.same_entities().unwrap(), None).unwrap().report
    };
    let dropped = |report: &LoadReport| -> Vec<String> {
        report.migration_changes.iter().map(|(key, change)| format!("{key}: {change:?}")).collect()
    };
    let expected = ["health", "name"].map(|field| format!("game.body: Dropped {{ field: {field:?} }}"));
    let put_back = load(|world| {
        for entity in world.with("game.body")? {
            let Some(mut body) = world.get::<Narrow>(entity, "game.body")? else { continue };
            body.mass *= 2.0;
            world.insert(entity, &body)?;
        }
        Ok(())
    });
    assert_eq!(dropped(&put_back), expected);
    assert!(put_back.losses().iter().any(|loss| loss.contains("by a migration")), "{put_back}");
    let taken = load(|world| {
        for entity in world.with("game.body")? {
            world.take::<Narrow>(entity, "game.body")?;
        }
        Ok(())
    });
    assert_eq!(dropped(&taken), expected);
    // Reading loses nothing, and neither does a migration that knows all fields.
    let read = load(|world| {
        for entity in world.with("game.body")? {
            world.get::<Narrow>(entity, "game.body")?;
            let Some(body) = world.get::<Body>(entity, "game.body")? else { continue };
            world.insert(entity, &Body { mass: 3.0, ..body })?;
        }
        Ok(())
    });
    assert_eq!(dropped(&read), [""; 0]);
    assert!(read.is_complete(), "{read}");
}

#[test]
fn a_world_migration_splits_renames_adds_and_edits_data() {
    let mut world = new_world();
    world.registry_mut().track("game", 3).unwrap();
    world.registry_mut().migration("game", 1, 2, split).unwrap();
    world
        .registry_mut()
        .migration("game", 2, 3, |world| {
            world.rename("game.label", "game.title")?;
            let clock: Clock = world.resource(Clock::KEY)?.unwrap();
            world.set_resource(&Clock(clock.0 * 60))?;
            let seed: u64 = world.get_data("game.seed")?.unwrap();
            world.set_data("game.seed", &(seed + 1))?;
            world.set_data("game.new", &true)?;
            // Whoever follows nobody follows a new entity.
            let leader = world.spawn()?;
            world.insert(leader, &Title("leader".into()))?;
            for entity in world.entities() {
                if entity != leader && world.get::<Follows>(entity, Follows::KEY)?.is_none() {
                    world.insert(entity, &Follows(leader))?;
                }
            }
            Ok(())
        })
        .unwrap();
    world.hooks.on_load(|load| {
        load.on_data("game.seed", |_: &mut ModelWorld, entry, _| {
            assert_eq!(entry.get::<u64>()?, 6);
            Ok(())
        });
    });
    let saved = old_world();
    let loaded = world.load(&saved).unwrap();
    assert!(loaded.report.callback_errors.is_empty(), "{}", loaded.report);
    assert_eq!(loaded.report.unclaimed_data, ["game.new"]);
    assert_eq!(world.resource::<Clock>(), Some(&Clock(420)));
    let mut old = saved.entities();
    old.sort_by_key(|id| id.index());
    let old: Vec<EntityId> = old.iter().map(|id| loaded.map.get(*id).unwrap()).collect();
    assert_eq!(world.get::<Mass>(old[2]), Some(&Mass(2.0)));
    assert_eq!(world.get::<Health>(old[0]), None);
    assert_eq!(world.get::<Health>(old[1]), Some(&Health(10.0)));
    assert_eq!(world.get::<Title>(old[1]), Some(&Title("unit 1".into())));
    assert_eq!(world.get::<Follows>(old[0]), Some(&Follows(old[1])));
    let leader = world.get::<Follows>(old[2]).unwrap().0;
    assert_eq!(world.get::<Title>(leader), Some(&Title("leader".into())));
    // The next save is of the newest version and needs nothing.
    let again = world.save().unwrap();
    assert_eq!(again.tracks(), [("game".to_owned(), 3)].into());
    assert!(matches!(again.migrated(world.registry()).unwrap(), std::borrow::Cow::Borrowed(_)));
}

#[test]
fn components_merge_and_entities_go() {
    let mut registry = Registry::new().with::<Body>().unwrap();
    registry.track("game", 2).unwrap();
    registry
        .migration("game", 1, 2, |world| {
            let mut bodies = world.with("game.mass")?;
            bodies.sort_by_key(|id| id.index());
            world.despawn(bodies.pop().unwrap())?;
            for entity in bodies {
                let Mass(mass) = world.take(entity, "game.mass")?.unwrap();
                let health = world.take::<(f32,)>(entity, "game.health")?.map_or(1.0, |health| health.0);
                world.insert(entity, &Body { mass, health, name: String::new() })?;
            }
            assert_eq!(world.remove_all("game.title")?, 1);
            assert_eq!(world.keys(), ["game.body"]);
            Ok(())
        })
        .unwrap();
    let mut old = new_world();
    old.registry_mut().track("game", 1).unwrap();
    for i in 0..3 {
        let id = old.spawn();
        old.insert(id, Mass(i as f32));
        if i == 1 {
            old.insert(id, Health(5.0));
        }
        if i != 1 {
            old.insert(id, Title("t".into()));
        }
    }
    let saved = Snapshot::open(&old.save().unwrap().to_bytes().unwrap()).unwrap();
    let migrated = saved.migrated(&registry).unwrap();
    assert_eq!(migrated.entity_count(), 2);
    // What came out is a save like any other.
    let migrated = Snapshot::open(&migrated.to_bytes().unwrap()).unwrap();
    let plan = LoadPlan::new(&migrated, &registry, LoadOptions::default()).unwrap();
    let map = plan.same_entities().unwrap();
    let mut bodies = plan.stage(&map, None).unwrap().take_all::<Body>(&map);
    bodies.sort_by_key(|(id, _)| id.index());
    let bodies: Vec<(f32, f32)> = bodies.iter().map(|(_, body)| (body.mass, body.health)).collect();
    assert_eq!(bodies, [(0.0, 1.0), (1.0, 5.0)]);
}

#[test]
fn a_migration_that_fails_changes_nothing() {
    let mut world = new_world();
    let id = world.spawn();
    world.insert(id, Title("before".into()));
    world.registry_mut().track("game", 2).unwrap();
    world
        .registry_mut()
        .migration("game", 1, 2, |world| {
            split(world)?;
            Err(Error::custom("a rule of the game is broken"))
        })
        .unwrap();
    let saved = old_world();
    let (before, bytes) =
        (world.save().unwrap().canonical().unwrap().to_bytes().unwrap(), saved.to_bytes().unwrap());
    let error = world.load(&saved).unwrap_err();
    assert_eq!(
        error.to_string(),
        "in the migration of `game` from version 1 to version 2: a rule of the game is broken"
    );
    assert_eq!(saved.to_bytes().unwrap(), bytes);
    assert_eq!(world.save().unwrap().canonical().unwrap().to_bytes().unwrap(), before);
    let report = preflight(&bytes, world.registry()).unwrap();
    assert!(!report.is_loadable() && report.migration.is_some());
}

#[test]
fn a_plan_without_migrations_says_what_to_do() {
    let mut registry = Registry::new().with::<Title>().unwrap();
    registry.track("game", 2).unwrap();
    registry.migration("game", 1, 2, split).unwrap();
    let error = LoadPlan::new(&old_world(), &registry, LoadOptions::default()).map(drop).unwrap_err();
    assert!(error.is_misuse());
    assert!(error.to_string().contains("snapshot.migrated(&registry)?"), "{error}");
}

#[test]
fn tracks_are_listed_compared_and_carried() {
    let registry = |tracks: &[(&str, u32)]| {
        let mut registry = Registry::new().with::<Title>().unwrap();
        tracks.iter().for_each(|(name, version)| registry.track(name, *version).unwrap());
        registry
    };
    let save = |registry: &Registry| SnapshotWriter::new(registry).finish().unwrap();
    let saved = save(&registry(&[("game", 3), ("physics", 2), ("mod.dragons", 7), ("mod.boats", 1)]));
    let bytes = saved.to_bytes().unwrap();
    let here = registry(&[("game", 4), ("physics", 2), ("mod.boats", 5), ("mod.trees", 1)]);
    let report = preflight(&bytes, &here).unwrap();
    let state = |name: &str| report.tracks.iter().find(|(track, _)| track == name).unwrap().1;
    assert_eq!(state("game"), TrackState::Older { saved: 3, known: 4 });
    assert_eq!(state("physics"), TrackState::Same(2));
    assert_eq!(state("mod.boats"), TrackState::Older { saved: 1, known: 5 });
    assert_eq!(state("mod.dragons"), TrackState::Missing(7));
    assert_eq!(state("mod.trees"), TrackState::New(1));
    assert_eq!(report.missing_tracks().collect::<Vec<_>>(), ["mod.dragons"]);
    assert!(report.is_loadable() && report.newer_tracks().next().is_none());
    assert!(
        report.to_string().contains("track `mod.dragons`: version 7, not part of this build\n"),
        "{report}"
    );

    // A build without the mod saves its version along, so that the mod knows what it finds when it is back.
    let opened = Snapshot::open(&bytes).unwrap();
    let plan = LoadPlan::new(&opened, &here, LoadOptions::default()).unwrap();
    let carry = plan.stage(&plan.same_entities().unwrap(), None).unwrap().carry;
    let mut writer = SnapshotWriter::new(&here);
    writer.carry(&carry);
    let tracks = writer.finish().unwrap().tracks();
    assert_eq!((tracks["mod.dragons"], tracks["game"], tracks["mod.trees"]), (7, 4, 1));

    let old = registry(&[("physics", 1)]);
    let report = preflight(&bytes, &old).unwrap();
    assert_eq!(report.newer_tracks().collect::<Vec<_>>(), ["physics"]);
    let error = LoadPlan::new(&saved, &old, LoadOptions::default()).map(drop).unwrap_err();
    assert!(error.is_newer_format());
    assert_eq!(
        error.to_string(),
        "the save has version 2 of `physics`, which is newer than this build (1): update it"
    );
}

#[test]
fn each_track_migrates_on_its_own_over_releases_that_changed_nothing() {
    let mut registry = Registry::new();
    registry.track("game", 9).unwrap();
    registry.track("physics", 2).unwrap();
    let ran = |name: &'static str| {
        move |world: &mut WorldEdit| {
            let mut ran: Vec<String> = world.get_data("ran")?.unwrap_or_default();
            ran.push(name.to_owned());
            world.set_data("ran", &ran)
        }
    };
    registry.migration("game", 2, 3, ran("2-3")).unwrap();
    registry.migration("game", 5, 7, ran("5-7")).unwrap();
    registry.migration("game", 5, 6, ran("5-6")).unwrap();
    registry.migration("physics", 0, 1, ran("physics")).unwrap();
    let run = |version: u32| {
        let mut old = Registry::new();
        old.track("game", version).unwrap();
        let saved = SnapshotWriter::new(&old).finish().unwrap();
        let migrated = saved.migrated(&registry)?;
        assert_eq!(migrated.tracks(), [("game".to_owned(), 9), ("physics".to_owned(), 2)].into());
        let entry = migrated.data().iter().find(|entry| entry.key() == "ran");
        entry.map(bonfire::DataEntry::get::<Vec<String>>).transpose().map(Option::unwrap_or_default)
    };
    assert_eq!(run(1).unwrap(), ["2-3", "5-7", "physics"]);
    assert_eq!(run(4).unwrap(), ["5-7", "physics"]);
    assert_eq!(run(8).unwrap(), ["physics"]);
    assert!(run(6).unwrap_err().to_string().contains("no migration of `game` begins at version 6"));
    for (from, to, why) in [(3, 3, "leads nowhere"), (8, 10, "leads nowhere"), (2, 3, "two migrations")] {
        let error = registry.migration("game", from, to, ran("x")).unwrap_err();
        assert!(error.is_misuse() && error.to_string().contains(why), "{error}");
    }
    assert!(registry.migration("mod", 1, 2, ran("x")).unwrap_err().to_string().contains("no track `mod`"));
    assert!(registry.track("game", 3).unwrap_err().is_misuse());
    assert!(registry.track("", 3).unwrap_err().is_misuse());
}

mod newer {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Persist)]
    pub(super) struct Stats {
        pub(super) strength: u8,
        #[persist(default = 9)]
        pub(super) luck: u32,
    }
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.hero")]
    pub(super) struct Hero {
        #[persist(default = 100)]
        pub(super) mana: u32,
        pub(super) name: String,
        pub(super) stats: Stats,
        #[persist(default = EntityId::NULL)]
        pub(super) rival: EntityId,
    }
}
mod older {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Persist)]
    pub(super) struct Stats {
        pub(super) strength: u8,
    }
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.hero")]
    pub(super) struct Hero {
        pub(super) name: String,
        pub(super) stats: Stats,
    }
}

/// What a newer build saved, after an older one has loaded it, changed it and saved it.
#[test]
fn an_older_build_carries_the_fields_that_it_does_not_know() {
    let mut world = ModelWorld::new();
    world.register::<newer::Hero>().unwrap();
    let ids: Vec<EntityId> = (0..3).map(|_| world.spawn()).collect();
    for (i, &id) in ids.iter().enumerate() {
        let stats = newer::Stats { strength: i as u8, luck: 40 + i as u32 };
        world.insert(
            id,
            newer::Hero { mana: i as u32, name: format!("hero {i}"), stats, rival: ids[(i + 1) % 3] },
        );
    }
    world.insert_resource(newer::Hero {
        mana: 77,
        name: "the best".into(),
        stats: newer::Stats { strength: 1, luck: 2 },
        rival: ids[2],
    });
    let bytes = world.save().unwrap().to_bytes().unwrap();

    let mut before = ModelWorld::new();
    before.register::<older::Hero>().unwrap();
    before.spawn(); // so that ids are others
    let loaded = before.load(&Snapshot::open(&bytes).unwrap()).unwrap();
    assert!(!loaded.report.is_complete());
    let line = loaded.report.component("game.hero").unwrap();
    let changes: Vec<String> = line.changes.iter().map(ToString::to_string).collect();
    assert_eq!(
        changes,
        [
            "`mana` is not known to this build",
            "`rival` is not known to this build",
            "`stats.luck` is not known to this build",
        ]
    );
    let there: Vec<EntityId> = ids.iter().map(|id| loaded.map.get(*id).unwrap()).collect();
    before.insert(there[0], older::Hero { name: "renamed".into(), stats: older::Stats { strength: 0 } });
    before.insert(there[1], older::Hero { name: "hero 1".into(), stats: older::Stats { strength: 99 } });
    before.despawn(there[2]);
    let extra = before.spawn();
    before.insert(extra, older::Hero { name: "new".into(), stats: older::Stats { strength: 5 } });
    // Twice: what is carried is carried again.
    let bytes = before.save().unwrap().to_bytes().unwrap();
    before.load(&Snapshot::open(&bytes).unwrap()).unwrap();
    let bytes = before.save().unwrap().to_bytes().unwrap();

    let mut after = ModelWorld::new();
    after.register::<newer::Hero>().unwrap();
    let loaded = after.load(&Snapshot::open(&bytes).unwrap()).unwrap();
    assert!(loaded.report.is_complete(), "{}", loaded.report);
    let mut heroes: Vec<newer::Hero> =
        after.entities().iter().filter_map(|id| after.get::<newer::Hero>(*id).cloned()).collect();
    heroes.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(heroes.len(), 3);
    let one = &heroes[0];
    assert_eq!((&*one.name, one.mana, one.stats.strength, one.stats.luck), ("hero 1", 1, 99, 41));
    assert!(one.rival.is_null(), "the rival is gone");
    let new = &heroes[1];
    assert_eq!((&*new.name, new.mana, new.stats.luck, new.rival), ("new", 100, 9, EntityId::NULL));
    let zero = &heroes[2];
    assert_eq!((&*zero.name, zero.mana, zero.stats.strength, zero.stats.luck), ("renamed", 0, 0, 40));
    assert_eq!(after.get::<newer::Hero>(zero.rival).unwrap().name, "hero 1");
    let best = after.resource::<newer::Hero>().unwrap();
    assert_eq!((&*best.name, best.mana, best.stats.luck), ("the best", 77, 2));
}

#[test]
fn unknown_fields_are_dropped_or_refused_when_that_is_asked_for() {
    let saved = {
        let mut world = ModelWorld::new();
        world.register::<newer::Hero>().unwrap();
        let id = world.spawn();
        let stats = newer::Stats { strength: 1, luck: 2 };
        world.insert(id, newer::Hero { mana: 3, name: "a".into(), stats, rival: id });
        world.save().unwrap()
    };
    let registry = Registry::new().with::<older::Hero>().unwrap();
    let stage = |unknown: Unknown| {
        let options = LoadOptions { unknown, ..LoadOptions::default() };
        let plan = LoadPlan::new(&saved, &registry, options)?;
        let map = plan.same_entities()?;
        plan.stage(&map, None).map(|staged| staged.carry.is_empty())
    };
    assert!(!stage(Unknown::Keep).unwrap());
    assert!(stage(Unknown::Drop).unwrap());
    let error = stage(Unknown::Refuse).unwrap_err();
    assert!(error.is_unknown(), "{error}");
    assert!(error.to_string().starts_with("`game.hero`: `mana` is not known to this build"), "{error}");
}

#[test]
fn a_save_is_rewritten_as_this_build_would_have_written_it() {
    let mut world = new_world();
    world.registry_mut().track("game", 2).unwrap();
    world.registry_mut().migration("game", 1, 2, split).unwrap();
    let old = old_world();
    let (new, report) = old.rewritten(world.registry(), LoadOptions::default()).unwrap();
    assert_eq!(report.entities, 3);
    assert_eq!(new.tracks()["game"], 2);
    assert_eq!(new.entities(), old.entities());
    // Loading either gives the same world.
    let loaded = world.load(&old).unwrap().map;
    let direct = world.save().unwrap().canonical().unwrap().to_bytes().unwrap();
    let again = world.load(&Snapshot::open(&new.to_bytes().unwrap()).unwrap()).unwrap();
    assert_eq!(again.map.get(old.entities()[0]).is_some(), loaded.get(old.entities()[0]).is_some());
    assert_eq!(world.save().unwrap().canonical().unwrap().to_bytes().unwrap(), direct);
    // A label that nobody knows yet is carried, and data too.
    assert_eq!(new.data().iter().map(bonfire::DataEntry::key).collect::<Vec<_>>(), ["game.seed"]);
    let keys: Vec<&str> = new.components().iter().map(|component| &*component.key).collect();
    assert_eq!(keys, ["game.clock", "game.follows", "game.health", "game.mass", "game.label"]);
    let (twice, _) = new.rewritten(world.registry(), LoadOptions::default()).unwrap();
    assert_eq!(twice.to_bytes().unwrap(), new.to_bytes().unwrap());
}

#[test]
fn values_without_rust_types_migrate_too() {
    let mut registry = Registry::new();
    registry.add(Descriptor::dynamic("game.mass", bonfire::schema::Schema::of::<Mass>())).unwrap();
    registry.track("game", 2).unwrap();
    registry
        .migration("game", 1, 2, |world| {
            for entity in world.with("game.body")? {
                let value: Value = world.take(entity, "game.body")?.unwrap();
                let mass = value.get("mass").cloned().unwrap();
                world.insert_as(entity, "game.mass", 1, &Value::Tuple(vec![mass]))?;
            }
            Ok(())
        })
        .unwrap();
    let old = old_world();
    let (new, _) = old.rewritten(&registry, LoadOptions::default()).unwrap();
    let registry = Registry::new().with::<Mass>().unwrap();
    let plan = LoadPlan::new(&new, &registry, LoadOptions::default()).unwrap();
    let map = plan.same_entities().unwrap();
    let masses = plan.stage(&map, None).unwrap().take_all::<Mass>(&map);
    assert_eq!(masses.iter().map(|(_, mass)| mass.0).sum::<f32>(), 3.0);
}

#[test]
fn values_that_a_migration_does_not_touch_stay_what_they_are() {
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.body")]
    struct Light {
        mass: f32,
    }
    // Some values have fields that others do not: an older build carried them.
    let mut world = ModelWorld::new();
    world.register::<Body>().unwrap();
    for i in 0..2 {
        let id = world.spawn();
        world.insert(
            id,
            Body { mass: i as f32, health: 40.0 + i as f32, name: "from the first build".into() },
        );
    }
    let saved = world.save().unwrap();
    let mut older = ModelWorld::new();
    older.register::<Light>().unwrap();
    older.load(&saved).unwrap();
    for _ in 0..2 {
        let id = older.spawn();
        older.insert(id, Light { mass: 9.0 });
    }
    let saved = Snapshot::open(&older.save().unwrap().to_bytes().unwrap()).unwrap();

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.body")]
    struct Whole {
        mass: f32,
        #[persist(default = 7.0)]
        health: f32,
        name: String,
    }
    for touch in [false, true] {
        let mut registry = Registry::new().with::<Whole>().unwrap();
        registry.track("game", 2).unwrap();
        let migrate = move |world: &mut WorldEdit| {
            let bodies = world.with("game.body")?;
            assert_eq!(bodies.len(), 4);
            if touch {
                // A frozen type with fewer fields, for one of them only.
                for entity in bodies {
                    if world.get::<Light>(entity, "game.body")? == Some(Light { mass: 9.0 }) {
                        world.insert(entity, &Light { mass: 10.0 })?;
                        break;
                    }
                }
            }
            Ok(())
        };
        registry.migration("game", 0, 1, migrate).unwrap();
        let migrated = saved.migrated(&registry).unwrap().into_owned();
        let migrated = Snapshot::open(&migrated.to_bytes().unwrap()).unwrap();
        let plan = LoadPlan::new(&migrated, &registry, LoadOptions::default()).unwrap();
        let map = plan.same_entities().unwrap();
        let mut bodies = plan.stage(&map, None).unwrap().take_all::<Whole>(&map);
        bodies.sort_by(|a, b| a.1.mass.total_cmp(&b.1.mass));
        let bodies: Vec<(f32, f32)> = bodies.iter().map(|(_, body)| (body.mass, body.health)).collect();
        let last = if touch { 10.0 } else { 9.0 };
        assert_eq!(bodies, [(0.0, 40.0), (1.0, 41.0), (9.0, 7.0), (last, 7.0)]);
    }
}

#[test]
fn a_rename_that_is_refused_takes_nothing_away() {
    let mut registry = Registry::new().with::<Follows>().unwrap().with::<Body>().unwrap();
    registry.track("game", 2).unwrap();
    registry
        .migration("game", 1, 2, |world| {
            let error = world.rename("game.follows", "game.body").unwrap_err();
            assert!(error.is_schema() && error.to_string().contains("has it already"), "{error}");
            world.rename("game.follows", "game.follows")?;
            assert_eq!(world.with("game.follows")?.len(), 2);
            Ok(())
        })
        .unwrap();
    let migrated = old_world().migrated(&registry).unwrap().into_owned();
    assert_eq!(migrated.component_rows()["game.follows"], 2);
}

#[test]
fn a_rewrite_keeps_data_whatever_happens_to_what_is_unknown() {
    let registry = Registry::new().with::<Title>().unwrap();
    let old = old_world();
    for unknown in [Unknown::Keep, Unknown::Drop] {
        let options = LoadOptions { unknown, ..LoadOptions::default() };
        let (new, report) = old.rewritten(&registry, options).unwrap();
        assert_eq!(new.data().len(), old.data().len());
        assert_eq!(new.components().is_empty(), unknown == Unknown::Drop);
        assert!(!report.is_complete());
    }
}

#[test]
fn what_was_stored_once_is_not_spelled_out() {
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.story", dictionary)]
    struct Story {
        text: String,
        title: String,
    }
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.story", dictionary)]
    struct OlderStory {
        text: String,
    }
    let registry = Registry::new().with::<Story>().unwrap().with::<Title>().unwrap();
    let ids: Vec<EntityId> = (0..1000).map(|i| EntityId::new(i, 0)).collect();
    let mut writer = SnapshotWriter::new(&registry);
    let mut archetype = writer.archetype(&ids).unwrap();
    let story = |i: usize| Story { text: format!("{}", i % 2).repeat(5000), title: format!("{}", i % 2) };
    archetype.column(&(0..1000).map(story).collect::<Vec<_>>()).unwrap();
    archetype.column(&vec![Title("t".into()); 1000]).unwrap();
    let saved = Snapshot::open(&writer.finish().unwrap().to_bytes().unwrap()).unwrap();
    let size = |snapshot: &Snapshot| snapshot.column_bytes();
    assert!(size(&saved) < 30_000);

    let mut edited = registry.clone();
    edited.track("game", 1).unwrap();
    edited
        .migration("game", 0, 1, |world| {
            world.rename("game.story", "game.tale")?;
            let last = world.entities().pop().unwrap();
            world.despawn(last)
        })
        .unwrap();
    let migrated = saved.migrated(&edited).unwrap();
    assert!(size(&migrated) < 40_000, "{} bytes", size(&migrated));
    assert_eq!(migrated.component_rows()["game.tale"], 999);

    // Fields that an older build carried for all of them, and for one that has them no more.
    let older = Registry::new().with::<OlderStory>().unwrap();
    let plan = LoadPlan::new(&saved, &older, LoadOptions::default()).unwrap();
    let staged = plan.stage(&plan.same_entities().unwrap(), None).unwrap();
    let mut writer = SnapshotWriter::new(&older);
    let mut archetype = writer.archetype(&ids).unwrap();
    let story = |i: usize| OlderStory { text: format!("{}", i % 2).repeat(5000) };
    archetype.column(&(0..1000).map(story).collect::<Vec<_>>()).unwrap();
    writer.carry(&staged.carry);
    let saved = Snapshot::open(&writer.finish().unwrap().to_bytes().unwrap()).unwrap();
    let plain = saved.migrated(&older).unwrap();
    let plan = LoadPlan::new(&plain, &registry, LoadOptions::default()).unwrap();
    let map = plan.same_entities().unwrap();
    let stories = plan.stage(&map, None).unwrap().take_all::<Story>(&map);
    assert!(stories.len() == 1000 && stories.iter().all(|(_, story)| story.text.starts_with(&story.title)));
}

#[test]
fn the_last_id_there_is_leaves_no_room() {
    let mut registry = Registry::new().with::<Title>().unwrap();
    let last = EntityId::new(u32::MAX, 0);
    let mut writer = SnapshotWriter::new(&registry);
    writer.archetype(&[last]).unwrap().column(&[Title("last".into())]).unwrap();
    let saved = writer.finish().unwrap();
    registry.track("game", 1).unwrap();
    registry.migration("game", 0, 1, |world| world.spawn().map(drop)).unwrap();
    assert!(saved.migrated(&registry).unwrap_err().is_limit());
}

//! Callbacks around saves and loads: what they may do, and in which order they run.

use std::sync::{Arc, Mutex};

use bonfire::engine::*;
use bonfire::*;
use bonfire_testkit::{CaptureOptions, Mode, ModelWorld};

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.tile")]
struct Tile(u32);

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.derived")]
struct Derived;

#[derive(Clone, Debug, PartialEq, Default, Persist)]
#[persist(key = "game.rng")]
struct Rng(u64);

fn world() -> ModelWorld {
    let mut world = ModelWorld::new();
    world.register::<Tile>().unwrap();
    world.register::<Derived>().unwrap();
    world.register::<Rng>().unwrap();
    for i in 0..4 {
        let id = world.spawn();
        world.insert(id, Tile(i));
        if i > 1 {
            world.insert(id, Derived);
        }
    }
    world
}

/// What happened, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn say(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[test]
fn a_hook_attaches_data_and_excludes_entities_in_one_go() {
    let mut world = world();
    world.hooks.on_save(|world: &ModelWorld, save| {
        assert_eq!(world.entities().len(), 4, "the world is whole when the hook runs");
        save.attach("tiles.count", &7_u32)?;
        save.exclude::<Derived>();
        Ok(())
    });
    let snapshot = world.save().unwrap();
    assert_eq!(snapshot.entity_count(), 2);
    assert_eq!(snapshot.data()[0].get::<u32>().unwrap(), 7);
    // Exclusions do not pile up, and the entities are still in the world.
    assert_eq!(world.save().unwrap().entity_count(), 2);
    assert_eq!(world.entities().len(), 4);
    world.hooks = Hooks::new();
    assert_eq!(world.save().unwrap().entity_count(), 4);
}

#[test]
fn data_keeps_the_order_of_the_calls_with_reserved_keys_first() {
    let mut world = world();
    world.hooks.on_save(|_, save| {
        save.attach("b.second", &1_u8)?;
        save.attach("a.third", &2_u8)
    });
    world.hooks.on_save(|_, save| {
        save.attach("bonfire.state", &3_u8)?;
        save.attach("b.second", &4_u8)
    });
    let options =
        CaptureOptions { data: vec![("custom".into(), Value::U64(5))], ..CaptureOptions::default() };
    let snapshot = world.capture(&options).unwrap();
    let bytes = snapshot.encode(&EncodeOptions::default()).unwrap().to_vec();
    let keys: Vec<String> =
        Snapshot::open(&bytes).unwrap().data().iter().map(|entry| entry.key().to_owned()).collect();
    assert_eq!(keys, ["bonfire.state", "b.second", "a.third", "b.second", "custom"]);
}

#[test]
fn a_load_dispatches_data_in_order_after_the_world_is_complete_and_then_finishes() {
    let mut world = world();
    world.hooks.on_save(|_, save| {
        save.attach("x", &String::from("one"))?;
        save.attach("y", &2_u8)?;
        save.attach("x", &String::from("three"))?;
        save.attach("bonfire.first", &())
    });
    let snapshot = world.save().unwrap();

    let log = Log::default();
    let mut hooks = Hooks::new();
    let (a, b, c, d) = (log.clone(), log.clone(), log.clone(), log.clone());
    hooks.on_finish(move |world: &mut ModelWorld, finished: &FinishedLoad<'_>| {
        let count = finished.prelude.entity_count;
        a.say(format!("finished with {count} of {}", world.entities().len()));
    });
    hooks.on_load(move |load| {
        b.say("first hook");
        let b = b.clone();
        load.on_data("x", move |world: &mut ModelWorld, entry, _| {
            assert_eq!(world.entities().len(), 4);
            b.say(format!("first x: {}", entry.get::<String>()?));
            Ok(())
        });
    });
    hooks.on_load(move |load| {
        c.say("second hook");
        let (c, d) = (c.clone(), d.clone());
        load.on_data("x", move |_, entry, _| {
            c.say(format!("second x: {}", entry.get::<String>()?));
            Ok(())
        });
        load.on_data("bonfire.first", move |_, _, _| {
            d.say("reserved");
            Ok(())
        });
    });
    let mut other = world_without_entities();
    other.hooks = hooks;
    let loaded = other.load(&snapshot).unwrap();
    assert_eq!(
        log.take(),
        [
            "first hook",
            "second hook",
            "reserved",
            "first x: one",
            "second x: one",
            "first x: three",
            "second x: three",
            "finished with 4 of 4",
        ]
    );
    assert_eq!(loaded.report.unclaimed_data, ["y"]);
    // What nobody asked for is written again.
    let again = other.save().unwrap();
    assert_eq!(again.data().iter().map(DataEntry::key).collect::<Vec<_>>(), ["y"]);
    assert_eq!(again.data()[0].get::<u8>().unwrap(), 2);
}

fn world_without_entities() -> ModelWorld {
    let mut world = world();
    world.entities().into_iter().for_each(|id| world.despawn(id));
    world
}

#[test]
fn a_handler_keeps_a_plugins_state_under_one_name() {
    let mut world = world();
    world.insert_resource(Rng(42));
    let handlers = |world: &mut ModelWorld| {
        let save = |world: &ModelWorld| world.resource::<Rng>().map(|rng| rng.0).filter(|seed| *seed > 0);
        let load = |world: &mut ModelWorld, seed: u64| {
            world.insert_resource(Rng(seed + 1));
            Ok(())
        };
        world.hooks.handler("game.seed", DataHandler::new().save(save).load(load)).unwrap();
    };
    handlers(&mut world);
    let snapshot = world.save().unwrap();
    handlers(&mut world); // twice: both run
    world.load(&snapshot).unwrap();
    assert_eq!(world.resource::<Rng>(), Some(&Rng(43)));
    world.insert_resource(Rng(0));
    assert!(world.save().unwrap().data().is_empty(), "nothing to save, nothing written");
    let error = world.hooks.handler("", DataHandler::<_, u8>::new()).unwrap_err();
    assert!(error.is_misuse());
}

#[test]
fn errors_of_callbacks_are_reported_and_do_not_stop_the_others() {
    let mut world = world();
    world.hooks.on_save(|_, save| save.attach("plugin.a", &1_u8));
    let snapshot = world.save().unwrap();
    world.hooks.on_load(|load| {
        load.on_data("plugin.a", |_: &mut ModelWorld, entry, _| entry.get::<String>().map(drop));
    });
    world.hooks.on_load(|load| {
        load.on_data("plugin.a", |world: &mut ModelWorld, entry, _| {
            world.insert_resource(Rng(u64::from(entry.get::<u8>()?)));
            Ok(())
        });
    });
    let loaded = world.load(&snapshot).unwrap();
    assert_eq!(world.resource::<Rng>(), Some(&Rng(1)));
    assert_eq!(loaded.report.callback_errors.len(), 1);
    assert_eq!(
        loaded.report.callback_errors[0].to_string(),
        "`plugin.a`: the save has u8, this build has text: they have nothing in common. Keep the type, or raise the version \
         and convert with `#[persist(from = Old)]` or an upgrader"
    );
    // A failing save hook makes the save fail, and the world can be saved again without it.
    world.hooks.on_save(|_, _| Err(Error::custom("disk of dreams is full")));
    assert_eq!(world.save().unwrap_err().to_string(), "disk of dreams is full");
    world.hooks = Hooks::new();
    world.save().unwrap();
}

#[test]
fn references_in_data_are_mapped() {
    let mut world = world();
    let target = world.entities()[2];
    world.hooks.on_save(move |_, save| save.attach("camera.target", &target));
    let snapshot = world.save().unwrap();
    world.hooks = Hooks::new();
    let found = Arc::new(Mutex::new(EntityId::NULL));
    let out = Arc::clone(&found);
    world.hooks.on_load(move |load| {
        let out = Arc::clone(&out);
        load.on_data("camera.target", move |_: &mut ModelWorld, entry, context| {
            *out.lock().unwrap() = entry.get_in(context)?;
            Ok(())
        });
    });
    let loaded = world.load_with(&snapshot, Mode::Merge, LoadOptions::default()).unwrap();
    assert_eq!(*found.lock().unwrap(), loaded.map.get(target).unwrap());
    assert_ne!(*found.lock().unwrap(), target);
}

#[test]
fn reserved_keys_are_dispatched_first_wherever_they_are_saved() {
    let mut world = world();
    let data = vec![("game.a".into(), Value::Unit), ("bonfire.b".into(), Value::Unit)];
    let snapshot = world.capture(&CaptureOptions { data, ..CaptureOptions::default() }).unwrap();
    assert_eq!(snapshot.data()[0].key(), "game.a");
    let log = Log::default();
    let calls = log.clone();
    world.hooks.on_load(move |load| {
        for key in ["game.a", "bonfire.b"] {
            let calls = calls.clone();
            load.on_data(key, move |_: &mut ModelWorld, entry, _| {
                calls.say(entry.key());
                Ok(())
            });
        }
    });
    world.load(&snapshot).unwrap();
    assert_eq!(log.take(), ["bonfire.b", "game.a"]);
}

#[test]
fn data_is_read_by_name_and_what_was_different_is_reported() {
    #[derive(Persist)]
    struct Quests {
        open: Vec<String>,
        done: u8,
        tips: bool,
    }
    #[derive(Persist)]
    struct OlderQuests {
        open: Vec<String>,
        done: u32,
        failed: Vec<String>,
    }
    let mut world = world();
    world.hooks.on_save(|_, save| {
        save.attach("game.quests", &Quests { open: vec!["find".into()], done: 3, tips: true })
    });
    let snapshot = world.save().unwrap();
    world.hooks.on_load(|load| {
        load.on_data("game.quests", |_: &mut ModelWorld, entry, context| {
            let quests: OlderQuests = entry.get_in(context)?;
            assert_eq!((&*quests.open, quests.done, quests.failed.len()), (&["find".to_owned()][..], 3, 0));
            Ok(())
        });
    });
    let report = world.load(&snapshot).unwrap().report;
    assert!(!report.is_complete());
    let changes: Vec<String> =
        report.data_changes.iter().map(|(key, change)| format!("{key}: {change}")).collect();
    assert_eq!(
        changes,
        [
            "game.quests: `failed` is new and gets its default",
            "game.quests: `tips` is dropped",
            "game.quests: `done` was u8 and is u32",
        ]
    );
}

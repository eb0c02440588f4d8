//! Loads say what did not come back: in `LoadFinished`, in the report and in the log.

mod common;

use std::sync::{Mutex, Once};

use bevy_app::App;
use bevy_bonfire::prelude::*;
use bevy_bonfire::store::{MemoryStore, Precondition, Slots, Store, Wait};
use bevy_bonfire::{SavePolicy, StableId, StableIds, Unknown};
use bevy_ecs::prelude::*;
use common::*;

/// Lines of the log that warn.
static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Logger;

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &log::Record<'_>) {
        if record.level() == log::Level::Warn {
            WARNINGS.lock().unwrap().push(record.args().to_string());
        }
    }
    fn flush(&self) {}
}

fn warned(text: &str) -> bool {
    WARNINGS.lock().unwrap().iter().any(|line| line.contains(text))
}

#[derive(Resource, Default)]
struct Finished(Vec<LoadFinished>);

fn app(slots: &Slots) -> App {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&Logger).unwrap();
        log::set_max_level(log::LevelFilter::Warn);
    });
    let mut app = App::new();
    app.add_plugins(
        BonfirePlugin::new().slots(slots.clone()).autosave(Autosave::off()).policy(SavePolicy::Journal),
    );
    register(app.world_mut(), false);
    app.init_resource::<Finished>();
    app.add_observer(|done: On<LoadFinished>, mut finished: ResMut<Finished>| finished.0.push(done.clone()));
    app
}

fn save(app: &mut App, slot: &str) {
    let save = app.world_mut().resource_mut::<Saves>().save(slot);
    app.update();
    save.wait().unwrap();
    app.update();
}

fn load(app: &mut App, slot: &str) -> LoadFinished {
    let load = app.world_mut().resource_mut::<Saves>().load(slot);
    while !load.is_complete() {
        app.update();
    }
    app.world_mut().resource_mut::<Finished>().0.pop().unwrap()
}

/// Flips a byte of the blob whose name contains a text.
fn flip(store: &MemoryStore, part: &str, at: impl Fn(usize) -> usize) {
    let names = store.list("").wait().unwrap();
    let name = names.iter().find(|name| name.contains(part)).unwrap();
    let mut bytes = store.get(name).wait().unwrap().to_vec();
    let place = at(bytes.len());
    bytes[place] ^= 1;
    store.put(name, bytes.into(), Precondition::None).wait().unwrap();
}

#[test]
fn appends_of_a_journal_that_are_lost_are_in_the_event_and_in_the_log() {
    let store = MemoryStore::new();
    let slots = Slots::new(store.clone());
    let mut app = app(&slots);
    let hero = app.world_mut().spawn((Saved, Position::default())).id();
    for day in 0..20 {
        app.world_mut().get_mut::<Position>(hero).unwrap().x = day as f32;
        save(&mut app, "autosave");
    }
    let whole = load(&mut app, "autosave");
    assert!(
        whole.is_complete() && whole.journal.as_ref().is_some_and(|journal| journal.records == 19),
        "{whole:?}"
    );
    flip(&store, "journal", |length| length / 2);
    let lossy = load(&mut app, "autosave");
    let lost = lossy.journal.as_ref().and_then(|journal| journal.lost.as_ref()).expect("the event says it");
    assert!(lost.later > 5 && !lossy.is_complete() && lossy.losses().len() == 1, "{lossy:?}");
    assert!(lossy.result.unwrap().report.is_complete(), "of what was left, everything is there");
    assert!(warned("of the journal is lost"));
}

#[test]
fn a_load_that_fell_back_to_an_older_save_says_so() {
    let store = MemoryStore::new();
    let slots = Slots::new(store.clone());
    let mut app = app(&slots);
    app.world_mut().spawn((Saved, Position::default()));
    save(&mut app, "quick");
    save(&mut app, "quick");
    let newest = store.list("").wait().unwrap().into_iter().max().unwrap();
    flip(&store, &newest, |length| length - 9);
    let finished = load(&mut app, "quick");
    assert!(finished.result.is_ok() && !finished.is_complete(), "{finished:?}");
    assert_eq!(finished.losses().len(), 1, "{:?}", finished.losses());
    assert!(warned("was passed over"));
}

#[test]
fn stale_references_are_counted_and_lose_nothing() {
    let mut world = world();
    let gone = world.spawn_empty().id();
    world.spawn((Saved, Follows { leader: gone, others: vec![], last: None }));
    world.spawn((Saved, DockedAt { station: gone, berth: "B".into() }));
    world.despawn(gone);
    let snapshot = common::save(&world);
    let loaded = world.load(&snapshot, LoadMode::Replace).unwrap();
    assert!(loaded.report.is_complete(), "{}", loaded.report);
    assert!(loaded.report.stale_references() >= 1, "{}", loaded.report);
}

#[test]
fn a_component_that_is_dropped_is_a_loss() {
    #[derive(Component, Persist)]
    #[persist(key = "mod.gone")]
    struct OfAMod(u8);
    let mut source = world();
    source.persist::<OfAMod>();
    source.spawn((Saved, OfAMod(1)));
    let snapshot = common::save(&source);
    let mut app = app(&Slots::new(MemoryStore::new()));
    let options = LoadOptions::new().unknown(Unknown::Drop);
    app.world_mut().load(&snapshot, options).unwrap();
    let finished = app.world_mut().resource_mut::<Finished>().0.pop().unwrap();
    assert_eq!(finished.losses(), ["`mod.gone`: 1 dropped"]);
    assert!(warned("the load of a snapshot is not complete: `mod.gone`: 1 dropped"));
}

#[test]
fn a_merge_that_doubles_stable_ids_says_so() {
    let mut world = world();
    let id = StableId::new();
    world.spawn((Saved, id));
    let snapshot = common::save(&world);
    let replaced = world.load(&snapshot, LoadMode::Replace).unwrap();
    assert_eq!(replaced.report.duplicate_stable_ids, [0; 0]);
    let merged = world.load(&snapshot, LoadMode::Merge).unwrap();
    assert_eq!(merged.report.duplicate_stable_ids, [id.to_bits()]);
    assert!(merged.report.to_string().contains("another entity has it"), "{}", merged.report);
    // The loaded one is found.
    let (_, loaded) = merged.entities().next().unwrap();
    assert_eq!(world.resource::<StableIds>().get(id), Some(loaded));
    world.despawn(loaded);
    let replaced = world.load(&snapshot, LoadMode::Replace).unwrap();
    assert_eq!(replaced.report.duplicate_stable_ids, [0; 0], "the count goes down again");
}

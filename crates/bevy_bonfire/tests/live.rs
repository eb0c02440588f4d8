//! Saving and loading while an app runs.

mod common;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bevy_app::{App, AppExit, FixedUpdate, Last, PreUpdate, Update};
use bevy_bonfire::prelude::*;
use bevy_bonfire::store::Phase;
use bevy_bonfire::store::disk::MemoryDisk;
use bevy_bonfire::store::{Details, DirStore, MemoryStore, Slots, Wait};
use bevy_bonfire::{
    Autosave, ExitOptions, LoadOptions, LoadSource, SavePolicy, SaveSystems, SaveTarget, SavedOnExit,
    StartedOver,
};
use bevy_ecs::prelude::*;
use common::*;

/// What observers heard.
#[derive(Resource, Default)]
struct Heard(Vec<String>);

fn slots() -> Slots {
    Slots::new(DirStore::on(MemoryDisk::new()).unwrap())
}

fn app_with(plugin: BonfirePlugin) -> App {
    let mut app = App::new();
    app.add_plugins(plugin);
    register(app.world_mut(), false);
    app.init_resource::<Heard>();
    app.add_observer(|done: On<SaveFinished>, mut heard: ResMut<Heard>| {
        heard.0.push(match &done.result {
            Ok(report) if report.coalesced => format!("saved {} with a newer one", done.target),
            Ok(_) => format!("saved {}", done.target),
            Err(error) => format!("{} failed: {error}", done.target),
        });
    });
    app.add_observer(|done: On<LoadFinished>, mut heard: ResMut<Heard>| {
        let source = done.source.as_ref().map(ToString::to_string).unwrap_or_default();
        heard.0.push(match &done.result {
            Ok(loaded) => format!("loaded {source} with {}", loaded.prelude.entity_count),
            Err(error) => format!("{source} failed: {error}"),
        });
    });
    app
}

fn app() -> App {
    app_with(BonfirePlugin::new().slots(slots()).autosave(Autosave::off()))
}

fn heard(app: &mut App) -> Vec<String> {
    std::mem::take(&mut app.world_mut().resource_mut::<Heard>().0)
}

fn saves(app: &mut App) -> Mut<'_, Saves> {
    app.world_mut().resource_mut::<Saves>()
}

/// Runs ticks until nothing is left to do.
fn settle(app: &mut App) {
    app.update();
    while app.world().resource::<Saves>().is_busy() {
        app.update();
        std::thread::yield_now();
    }
    app.update();
}

/// The thread that saves does nothing until the other end is dropped.
fn hold(app: &mut App) -> Sender<()> {
    let (open, closed): (Sender<()>, Receiver<()>) = channel();
    let (begun, waits) = channel();
    saves(app).saver().run(move |_| {
        let _ = begun.send(());
        let _ = closed.recv();
        Ok(())
    });
    waits.recv().unwrap();
    open
}

fn set_score(app: &mut App, points: u64) {
    app.world_mut().insert_resource(Score { points, best: None });
}

/// The points in the newest save of a slot.
fn saved_score(app: &App, slot: &str) -> u64 {
    let slots = app.world().resource::<Saves>().slots().unwrap().clone();
    let snapshot = slots.load(slot).wait().unwrap().snapshot;
    let mut world = world();
    world.load(&snapshot, LoadMode::Replace).unwrap();
    world.resource::<Score>().points
}

#[test]
fn a_save_has_what_the_tick_did_and_is_complete_when_it_is_durable() {
    let mut app = app();
    app.add_systems(Update, |mut commands: Commands, mut once: Local<bool>| {
        if !std::mem::replace(&mut *once, true) {
            commands.save("quick");
            commands.spawn((Saved, Position { x: 1.0, y: 0.0 }));
        }
    });
    // Later in the same tick, and in the last schedule of it.
    app.add_systems(
        Last,
        (|mut commands: Commands| {
            commands.insert_resource(Score { points: 7, best: None });
        })
        .before(SaveSystems),
    );
    let held = hold(&mut app);
    app.update();
    assert_eq!((heard(&mut app), saves(&mut app).status().queued), (vec![], 1));
    // What happens after the tick is not part of it.
    set_score(&mut app, 1000);
    let save = saves(&mut app).save("other");
    assert!(!save.is_complete() && save.progress().phase == Phase::Waiting);
    assert!(save.wait().unwrap_err().is_misuse(), "it was not captured: this would wait for ever");
    app.update();
    assert!(!save.is_complete() && save.wait_timeout(Duration::ZERO).is_none());
    drop(held);
    assert_eq!(save.wait().unwrap().generation, Some(2));
    settle(&mut app);
    assert_eq!(heard(&mut app), ["saved slot `quick`", "saved slot `other`"]);
    assert_eq!(saved_score(&app, "quick"), 7);
    let status = saves(&mut app).status();
    assert_eq!((status.saves, status.failures, status.queued), (2, 0, 0));
    assert!(status.last_durable.is_some() && status.bytes_per_second.is_some());
}

#[test]
fn saves_go_to_slots_files_and_stores_and_come_back_from_there() {
    let mut app = app();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("world.save");
    let blob = SaveTarget::blob(MemoryStore::new(), "world");
    set_score(&mut app, 5);
    app.world_mut().spawn((Saved, Position::default()));
    let (to_path, to_blob) = (path.clone(), blob.clone());
    app.world_mut().commands().save_to(to_path);
    app.world_mut().commands().save(to_blob);
    let details = Details::new().label("Before the dragon");
    app.world_mut().commands().save_with("quick", SaveOptions::new().details(details));
    app.world_mut().flush();
    settle(&mut app);
    let file = format!("{}", SaveTarget::from(path.clone()));
    assert_eq!(
        heard(&mut app),
        [format!("saved {file}"), "saved blob `world`".into(), "saved slot `quick`".into()]
    );
    for source in [SaveTarget::from(path), blob, "quick".into()] {
        set_score(&mut app, 0);
        let load = saves(&mut app).load(source.clone());
        settle(&mut app);
        assert_eq!(load.result().unwrap().unwrap().prelude.entity_count, 1);
        assert_eq!(heard(&mut app), [format!("loaded {source} with 1")]);
        assert_eq!(app.world().resource::<Score>().points, 5);
    }
    let list = saves(&mut app).slots().unwrap().list().wait().unwrap();
    assert_eq!(list[0].newest.label.as_deref(), Some("Before the dragon"));
}

#[test]
fn observers_describe_a_save_and_know_where_it_goes() {
    let mut app = app();
    app.add_observer(|mut starting: On<SaveStarting>| {
        let place = starting.target().map(ToString::to_string).unwrap_or_default();
        starting.describe(|details| details.label(place).thumbnail(vec![1, 2, 3]));
    });
    saves(&mut app).save("quick");
    settle(&mut app);
    let newest = saves(&mut app).slots().unwrap().list().wait().unwrap().remove(0).newest;
    assert_eq!(
        (newest.label.as_deref(), newest.thumbnail.as_deref()),
        (Some("slot `quick`"), Some(&[1, 2, 3][..]))
    );
}

#[test]
fn requests_are_done_in_their_order() {
    let mut app = app();
    set_score(&mut app, 1);
    saves(&mut app).save("a");
    settle(&mut app);
    // All in one tick: the world as it is into b, then a's into the world, then that into c.
    set_score(&mut app, 2);
    let mut saves_ = saves(&mut app);
    saves_.save("b");
    saves_.load("a");
    saves_.save("c");
    saves_.delete_saves("a");
    let gone = saves_.load("a");
    settle(&mut app);
    assert_eq!((saved_score(&app, "b"), saved_score(&app, "c")), (2, 1));
    assert!(gone.result().unwrap().unwrap_err().is_not_found());
    let heard = heard(&mut app);
    assert_eq!(heard[..4], ["saved slot `a`", "saved slot `b`", "loaded slot `a` with 0", "saved slot `c`"]);
    assert!(heard[4].starts_with("slot `a` failed"), "{heard:?}");
}

#[test]
fn saves_that_pile_up_become_one_and_say_so() {
    let mut app = app();
    let held = hold(&mut app);
    let mut handles = Vec::new();
    for points in 1..=5 {
        set_score(&mut app, points);
        handles.push(saves(&mut app).save("quick"));
        app.update();
    }
    // And two in one tick.
    handles.push(saves(&mut app).save("quick"));
    handles.push(saves(&mut app).save("quick"));
    app.update();
    drop(held);
    settle(&mut app);
    let reports: Vec<_> = handles.iter().map(|handle| handle.result().unwrap().unwrap()).collect();
    assert_eq!(
        reports.iter().map(|report| report.coalesced).collect::<Vec<_>>(),
        [true, true, true, true, true, true, false]
    );
    assert!(reports.iter().all(|report| report.generation == Some(1)));
    assert_eq!(saved_score(&app, "quick"), 5);
    assert_eq!(heard(&mut app).len(), 7, "everybody is told");
    assert_eq!(saves(&mut app).status().saves, 1);
}

#[test]
fn what_is_too_much_or_cannot_be_is_refused_and_heard_of() {
    let mut app = app_with(BonfirePlugin::new());
    let without_slots = saves(&mut app).save("quick");
    assert!(without_slots.wait().unwrap_err().is_misuse());
    app.update();
    assert!(heard(&mut app)[0].contains("no slots"));

    let mut app = self::app();
    let handles: Vec<_> = (0..70).map(|number| saves(&mut app).save(format!("slot{number}"))).collect();
    assert!(handles[..64].iter().all(|handle| !handle.is_complete()));
    assert!(
        handles[64..]
            .iter()
            .all(|handle| handle.result().is_some_and(|result| result.is_err_and(|e| e.is_limit())))
    );
    let cancelled = &handles[10];
    cancelled.cancel();
    settle(&mut app);
    assert!(cancelled.result().unwrap().unwrap_err().is_cancelled());
    assert_eq!(heard(&mut app).iter().filter(|heard| heard.starts_with("saved")).count(), 63);
    // A capture that fails is heard of, too.
    app.add_observer(|mut starting: On<SaveStarting>| starting.attach("bonfire.mine", &1_u8));
    let failed = saves(&mut app).save("quick");
    settle(&mut app);
    assert!(failed.result().unwrap().is_err());
    assert!(heard(&mut app)[0].contains("failed"));
}

#[test]
fn nothing_is_read_or_written_while_it_is_disabled() {
    let mut app = app_with(BonfirePlugin::new().slots(slots()).autosave(Autosave::every(Duration::ZERO)));
    app.world_mut().spawn((Saved, Position::default()));
    saves(&mut app).disable();
    for _ in 0..5 {
        app.update();
    }
    let refused = [
        saves(&mut app).save("quick").wait().is_err(),
        saves(&mut app).load("quick").result().unwrap().is_err(),
    ];
    assert_eq!((refused, saves(&mut app).is_enabled()), ([true, true], false));
    app.world_mut().write_message(AppExit::Success);
    app.update();
    assert!(saves(&mut app).slots().unwrap().list().wait().unwrap().is_empty());
    saves(&mut app).enable();
    settle_autosaves(&mut app, 1);
}

/// Ticks until so many autosaves are done.
fn settle_autosaves(app: &mut App, count: u64) {
    while saves(app).status().saves < count {
        app.update();
        std::thread::yield_now();
    }
}

#[cfg(feature = "time")]
#[test]
fn autosaves_come_when_their_time_has_passed_since_the_last_save_of_any_kind() {
    use bevy_time::{TimePlugin, TimeUpdateStrategy};
    let mut app = app_with(BonfirePlugin::new().slots(slots()));
    app.add_plugins(TimePlugin);
    app.insert_resource(TimeUpdateStrategy::ManualDuration(Duration::from_secs(10)));
    // A menu has nothing to save.
    for _ in 0..20 {
        app.update();
    }
    assert!(heard(&mut app).is_empty() && !saves(&mut app).is_busy());
    app.world_mut().spawn((Saved, Position::default()));
    // The defaults: on, and every minute.
    assert!(saves(&mut app).autosave.enabled && saves(&mut app).autosave.interval == Duration::from_secs(60));
    let mut saved_at = Vec::new();
    for tick in 0..40 {
        if tick == 20 {
            saves(&mut app).save("quick");
        }
        app.update();
        // Ticks and disks have nothing to do with each other: here each save is done in the tick in which it was captured.
        assert!(saves(&mut app).saver().clone().finish(Duration::from_secs(60)));
        saved_at.extend(heard(&mut app).into_iter().map(|what| (tick, what)));
    }
    let auto = "saved slot `autosave`".to_owned();
    let gaps: Vec<i32> = saved_at.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert_eq!(saved_at.iter().filter(|(_, what)| *what == auto).count(), saved_at.len() - 1, "{saved_at:?}");
    let manual = saved_at.iter().position(|(_, what)| *what != auto).unwrap();
    assert!(gaps.iter().enumerate().all(|(i, &gap)| gap == 6 || i + 1 == manual), "{saved_at:?}");
    saves(&mut app).autosave.enabled = false;
    (0..20).for_each(|_| app.update());
    assert!(heard(&mut app).is_empty());
}

#[derive(Resource, Default)]
struct Ticked(u32, u32);

#[test]
fn the_simulation_stands_still_from_the_request_until_the_save_is_durable() {
    let mut app = app_with(
        BonfirePlugin::new().slots(slots()).autosave(Autosave::off()).policy(SavePolicy::PauseUntilDurable),
    );
    app.init_resource::<Ticked>();
    app.add_systems(Update, (|mut ticked: ResMut<Ticked>| ticked.0 += 1).in_set(SimulationSet));
    app.add_systems(Update, |mut ticked: ResMut<Ticked>| ticked.1 += 1);
    app.add_systems(FixedUpdate, (|| panic!("no time has passed")).in_set(SimulationSet));
    let counted = |app: &App| (app.world().resource::<Ticked>().0, app.world().resource::<Ticked>().1);
    app.update();
    assert_eq!(counted(&app), (1, 1));
    let held = hold(&mut app);
    let save = saves(&mut app).save("quick");
    for tick in 2..10 {
        app.update();
        assert_eq!((counted(&app), heard(&mut app).len()), ((1, tick), 0));
    }
    drop(held);
    save.wait().unwrap();
    // The tick that tells of it is the first one that goes on.
    app.update();
    assert_eq!((counted(&app), heard(&mut app).len()), ((2, 10), 1));
    saves(&mut app).pause();
    app.update();
    assert!(saves(&mut app).is_paused());
    saves(&mut app).resume();
    app.update();
    assert_eq!(counted(&app), (3, 12));
}

#[test]
fn a_tick_in_which_the_game_pauses_runs_to_its_end() {
    #[derive(Resource, Default)]
    struct Steps(u32, u32);
    let mut app = app_with(BonfirePlugin::new().slots(slots()).policy(SavePolicy::PauseUntilDurable));
    app.init_resource::<Steps>();
    set_score(&mut app, 0);
    let first = |mut steps: ResMut<Steps>, mut saves: ResMut<Saves>| {
        steps.0 += 1;
        match steps.0 {
            1 => saves.pause(),
            2 => _ = saves.save("quick"),
            _ => {}
        }
    };
    let second = |mut steps: ResMut<Steps>, mut score: ResMut<Score>| {
        steps.1 += 1;
        score.points = steps.1.into();
    };
    // Bevy decides once per schedule whether a set runs.
    app.add_systems(PreUpdate, first.in_set(SimulationSet)).add_systems(Update, second.in_set(SimulationSet));
    let counted = |app: &App| (app.world().resource::<Steps>().0, app.world().resource::<Steps>().1);
    app.update();
    assert_eq!(counted(&app), (1, 1), "the tick of the pause is whole");
    app.update();
    assert_eq!(counted(&app), (1, 1));
    saves(&mut app).resume();
    let held = hold(&mut app);
    app.update();
    assert_eq!(counted(&app), (2, 2), "the tick of the save is whole");
    app.update();
    assert_eq!(counted(&app), (2, 2));
    drop(held);
    settle(&mut app);
    assert_eq!(saved_score(&app, "quick"), 2, "the save has the whole tick");
}

#[test]
fn saves_that_fail_while_the_app_exits_are_named() {
    let mut app = app_with(BonfirePlugin::new().slots(slots()).on_exit(ExitOptions::save("exit")));
    app.world_mut().spawn(Saved);
    app.add_observer(|done: On<SavedOnExit>, mut heard: ResMut<Heard>| {
        let failed = done.failed.iter().map(|(target, error)| format!("{target}: {}", error.is_io()));
        heard.0 = failed.collect();
        heard.0.extend(done.unfinished.iter().map(ToString::to_string));
    });
    let home = tempfile::tempdir().unwrap();
    let nowhere = SaveTarget::from(home.path().join("missing").join("world.save"));
    saves(&mut app).save(nowhere.clone());
    app.world_mut().write_message(AppExit::Success);
    app.update();
    assert_eq!(heard(&mut app), [format!("{nowhere}: true")]);
}

#[test]
fn an_app_that_exits_saves_first_and_waits() {
    let mut app = app_with(BonfirePlugin::new().slots(slots()).on_exit(ExitOptions::save("exit")));
    app.world_mut().spawn(Saved);
    app.add_observer(|done: On<SavedOnExit>, mut heard: ResMut<Heard>| {
        heard.0.push(format!("exit {:?}", done.unfinished));
    });
    set_score(&mut app, 9);
    saves(&mut app).save("before");
    app.world_mut().write_message(AppExit::Success);
    app.update();
    assert_eq!(heard(&mut app), ["saved slot `before`", "saved slot `exit`", "exit []"]);
    assert_eq!(saved_score(&app, "exit"), 9);
    app.update();
    assert!(heard(&mut app).is_empty(), "once");
}

#[test]
fn an_app_that_exits_waits_no_longer_than_its_deadline_and_says_what_is_lost() {
    let on_exit = ExitOptions::save("exit").deadline(Duration::from_millis(1));
    let mut app = app_with(BonfirePlugin::new().slots(slots()).on_exit(on_exit));
    app.world_mut().spawn(Saved);
    app.add_observer(|done: On<SavedOnExit>, mut heard: ResMut<Heard>| {
        heard.0.push(format!("exit {:?}", done.unfinished));
    });
    let held = hold(&mut app);
    app.world_mut().write_message(AppExit::Success);
    app.update();
    assert_eq!(heard(&mut app), ["exit [Slot(\"exit\")]"]);
    drop(held);
}

#[test]
fn a_load_that_is_going_on_when_the_app_exits_is_done_before_the_saves_that_wait_for_it() {
    let mut app = app();
    set_score(&mut app, 1);
    saves(&mut app).save("a");
    settle(&mut app);
    set_score(&mut app, 2);
    let held = hold(&mut app);
    let options = LoadOptions::new().budget(Duration::ZERO);
    saves(&mut app).load_with("a", options);
    app.update();
    saves(&mut app).save("b");
    app.update();
    assert_eq!(saves(&mut app).waiting(), 1);
    app.world_mut().write_message(AppExit::Success);
    drop(held);
    app.update();
    assert_eq!(saved_score(&app, "b"), 1);
}

#[test]
fn a_load_in_slices_shows_its_progress_and_can_be_cancelled() {
    let mut app = app();
    for i in 0..3000 {
        app.world_mut().spawn((Saved, Position { x: i as f32, y: 0.0 }, Name::new(format!("{i}"))));
    }
    saves(&mut app).save("big");
    settle(&mut app);
    let before = canonical(app.world());
    for mut position in app.world_mut().query::<&mut Position>().iter_mut(app.world_mut()) {
        position.y = 1.0;
    }
    let changed = canonical(app.world());
    for cancelled in [true, false] {
        heard(&mut app);
        let load = saves(&mut app).load_with("big", LoadOptions::new().budget(Duration::ZERO));
        assert!(load.wait().is_err_and(|error| error.is_misuse()), "ticks are needed for it");
        let (mut last, mut slices) = (0.0, 0);
        while !load.is_complete() {
            app.update();
            let progress = load.progress();
            assert!(progress.fraction() >= last, "{progress:?} after {last}");
            last = progress.fraction();
            if progress.phase == Phase::Committing {
                slices += 1;
                assert_eq!(canonical(app.world()), changed, "nothing has changed yet");
                assert_eq!(app.world_mut().query::<&Position>().iter(app.world()).count(), 3000);
                assert!(saves(&mut app).loading().is_some());
                if cancelled && slices == 5 {
                    load.cancel();
                }
            }
        }
        assert!(slices >= 5);
        assert_eq!(
            load.result().unwrap().is_ok_and(|loaded| loaded.prelude.entity_count == 3000),
            !cancelled
        );
        assert_eq!(canonical(app.world()), if cancelled { changed.clone() } else { before.clone() });
        let heard = heard(&mut app);
        assert_eq!((heard.len(), heard[0].contains("cancelled")), (1, cancelled), "{heard:?}");
    }
}

#[test]
fn a_slot_is_deleted_and_the_world_begins_again() {
    let mut app = app();
    app.add_observer(|done: On<StartedOver>, mut heard: ResMut<Heard>| {
        heard.0.push(format!("{} from the start: {:?}", done.slot, done.result.as_ref().ok()));
    });
    set_score(&mut app, 0);
    app.world_mut().spawn((Saved, Name::new("hero")));
    let initial = save(app.world());
    let beginning = canonical(app.world());
    saves(&mut app).set_initial(initial);
    set_score(&mut app, 50);
    app.world_mut().spawn((Saved, Name::new("dragon")));
    saves(&mut app).save("quick");
    saves(&mut app).save("other");
    let restart = saves(&mut app).start_over("quick");
    settle(&mut app);
    assert_eq!(restart.result().unwrap().unwrap(), 1);
    assert_eq!(canonical(app.world()), beginning);
    assert_eq!(heard(&mut app)[2], "quick from the start: Some(1)");
    let slots = saves(&mut app).slots().unwrap().clone();
    assert!(!slots.exists("quick").wait().unwrap() && slots.exists("other").wait().unwrap());
    // A slot that is not there is no reason to fail; without a beginning, what is saved goes.
    saves(&mut app).set_initial(None);
    let restart = saves(&mut app).start_over("never");
    let deleted = saves(&mut app).delete_saves("never");
    settle(&mut app);
    assert_eq!((restart.result().unwrap().unwrap(), deleted.result().unwrap().unwrap()), (0, 0));
    assert_eq!(save(app.world()).entity_count(), 0);
}

#[test]
fn a_damaged_save_is_passed_over_and_the_player_told() {
    let disk = MemoryDisk::new();
    let slots = Slots::new(DirStore::on(disk.clone()).unwrap());
    let mut app = app_with(BonfirePlugin::new().slots(slots).autosave(Autosave::off()));
    app.add_observer(|done: On<LoadFinished>, mut heard: ResMut<Heard>| {
        heard.0.extend(done.skipped.iter().map(ToString::to_string));
    });
    for points in [1, 2] {
        set_score(&mut app, points);
        saves(&mut app).save("quick");
        settle(&mut app);
    }
    heard(&mut app);
    use bevy_bonfire::store::disk::{Access, Disk};
    let newest = disk.list().unwrap().into_iter().filter(|name| name.contains("quick")).max().unwrap();
    disk.open(&newest, Access::Write).unwrap().write_at(&[0xff; 64], 200).unwrap();
    saves(&mut app).load("quick");
    settle(&mut app);
    assert_eq!(app.world().resource::<Score>().points, 1);
    let heard = heard(&mut app);
    assert!(heard.iter().any(|heard| heard.contains("passed over")), "{heard:?}");
}

#[test]
fn a_menu_loads_any_save_of_a_slot_and_players_have_slots_of_their_own() {
    let mut app = app();
    for points in [1, 2, 3] {
        set_score(&mut app, points);
        saves(&mut app).save("quick");
        settle(&mut app);
    }
    let load = saves(&mut app).load(LoadSource::generation("quick", 2));
    settle(&mut app);
    assert!(load.result().unwrap().is_ok());
    assert_eq!(app.world().resource::<Score>().points, 2);

    let alice = saves(&mut app).slots().unwrap().profile("alice").unwrap();
    let busy = saves(&mut app).save("quick");
    assert!(saves(&mut app).set_slots(alice.clone()).unwrap_err().is_misuse());
    settle(&mut app);
    assert!(busy.result().unwrap().is_ok());
    saves(&mut app).set_slots(alice.clone()).unwrap();
    let load = saves(&mut app).load("quick");
    saves(&mut app).save("mine");
    settle(&mut app);
    assert!(load.result().unwrap().unwrap_err().is_not_found());
    assert_eq!(alice.newest().wait().unwrap().unwrap().name, "mine");
}

#[test]
fn components_that_change_unseen_are_saved_as_they_are() {
    let mut app = app();
    let entity = app.world_mut().spawn((Saved, Position::default(), Health::default())).id();
    let change = |app: &mut App| {
        let mut entity = app.world_mut().entity_mut(entity);
        entity.get_mut::<Position>().unwrap().bypass_change_detection().x += 1.0;
        entity.get_mut::<Health>().unwrap().bypass_change_detection().max += 1;
    };
    let saved = |app: &mut App| {
        saves(app).save("quick");
        settle(app);
        let slots = saves(app).slots().unwrap().clone();
        let snapshot = slots.load("quick").wait().unwrap().snapshot;
        let mut world = world();
        world.load(&snapshot, LoadMode::Replace).unwrap();
        let (position, health) = world.query::<(&Position, &Health)>().single(&world).unwrap();
        (position.x, health.max)
    };
    app.changes_unseen::<Position>();
    assert_eq!(saved(&mut app), (0.0, 0));
    change(&mut app);
    assert_eq!(saved(&mut app), (1.0, 0), "nobody can know of the other one");
    saves(&mut app).compare_bytes();
    assert_eq!(saved(&mut app), (1.0, 1));
    change(&mut app);
    assert_eq!(saved(&mut app), (2.0, 2));
}

/// Ids are taken on another thread while this one spawns with ids that it gave back a moment ago.
#[test]
fn loads_by_hand_and_loads_that_are_being_prepared_do_not_get_into_each_others_way() {
    let mut app = app();
    for i in 0..2000 {
        app.world_mut().spawn((Saved, Position { x: i as f32, y: 0.0 }));
    }
    saves(&mut app).save("quick");
    settle(&mut app);
    let (snapshot, before) = (save(app.world()), canonical(app.world()));
    for _ in 0..20 {
        let load = saves(&mut app).load("quick");
        app.update();
        while !load.is_complete() {
            app.world_mut().load(&snapshot, LoadMode::Replace).unwrap();
            app.update();
        }
        assert_eq!(load.result().unwrap().unwrap().prelude.entity_count, 2000);
        assert_eq!(canonical(app.world()), before);
    }
}

/// Somebody else's thread is not ours to hold: then a load may fail, and is as if it had never been.
#[test]
fn a_load_that_loses_its_ids_to_another_thread_leaves_no_trace() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    let mut app = app();
    for i in 0..500 {
        app.world_mut().spawn((Saved, Position { x: i as f32, y: 0.0 }));
    }
    let (snapshot, before) = (save(app.world()), canonical(app.world()));
    let allocator = app.world().entity_allocator().build_remote_allocator();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let thread = std::thread::spawn(move || {
        let mut taken = Vec::new();
        while !stopped.load(Ordering::Relaxed) && taken.len() < 1_000_000 {
            taken.push(allocator.alloc());
            std::thread::yield_now();
        }
        taken
    });
    let mut failures = 0;
    for _ in 0..200 {
        match app.world_mut().load(&snapshot, LoadMode::Replace) {
            Ok(_) => {}
            Err(error) => {
                assert!(error.to_string().contains("another thread"), "{error}");
                failures += 1;
            }
        }
        let entities = app.world_mut().query::<&Position>().iter(app.world()).count();
        assert_eq!(entities, 500, "after {failures} failures");
    }
    stop.store(true, Ordering::Relaxed);
    // What the other thread has is its own, all of it.
    let taken = thread.join().unwrap();
    for entity in taken {
        assert!(app.world_mut().spawn_empty_at(entity).is_ok(), "{entity} was spawned by a load");
        app.world_mut().despawn(entity);
    }
    assert_eq!(canonical(app.world()), before);
    app.world_mut().load(&snapshot, LoadMode::Replace).unwrap();
    assert_eq!(canonical(app.world()), before);
}

#[test]
fn a_save_that_is_cancelled_takes_nobody_along() {
    let mut app = app();
    let held = hold(&mut app);
    let wanted = saves(&mut app).save("quick");
    let cancelled = saves(&mut app).save("quick");
    cancelled.cancel();
    app.update();
    drop(held);
    // It is on its way, and can be waited for, though another took its place.
    assert!(wanted.wait().unwrap().coalesced);
    assert!(cancelled.wait().is_ok(), "somebody waits for it, so it is done");
    assert_eq!(count_of_quick(&app), 1);
}

fn count_of_quick(app: &App) -> usize {
    app.world().resource::<Saves>().slots().unwrap().count("quick").wait().unwrap()
}

#[test]
fn loads_and_new_beginnings_that_are_refused_or_cancelled_are_heard_of() {
    let mut app = app();
    app.add_observer(|done: On<StartedOver>, mut heard: ResMut<Heard>| {
        heard.0.push(format!("{} from the start: {}", done.slot, done.result.is_ok()));
    });
    app.world_mut().spawn((Saved, Position::default()));
    saves(&mut app).save("quick");
    settle(&mut app);
    heard(&mut app);
    let restart = saves(&mut app).start_over("quick");
    restart.cancel();
    settle(&mut app);
    assert!(restart.result().unwrap().unwrap_err().is_cancelled());
    assert_eq!((save(app.world()).entity_count(), count_of_quick(&app)), (1, 1), "nothing was done");
    assert_eq!(heard(&mut app), ["quick from the start: false"]);
    saves(&mut app).disable();
    let load = saves(&mut app).load("quick");
    saves(&mut app).start_over("quick");
    assert!(load.is_complete() && saves(&mut app).is_busy(), "observers do not know it yet");
    settle(&mut app);
    let heard = heard(&mut app);
    assert!(heard[0].contains("slot `quick` failed") && heard[0].contains("disabled"), "{heard:?}");
    assert_eq!(heard[1..], ["quick from the start: false"]);
}

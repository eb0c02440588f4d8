//! Random schedules of saves, loads, removals, cancellations, pauses and disks that fail, over a game in which everything
//! changes in every tick. Whatever comes, a save and a load have one state and not a mix, what was reported as saved is
//! there, requests see those before them, and everybody is told once.

mod common;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bevy_app::{App, AppExit};
use bevy_bonfire::prelude::*;
use bevy_bonfire::store::disk::MemoryDisk;
use bevy_bonfire::store::{DirStore, Handle, MemoryStore, SaveHandle, Slots, Wait};
use bevy_bonfire::{
    Autosave, ExitOptions, LoadHandle, LoadOptions, SavePolicy, SaveTarget, SavedOnExit, Snapshot,
    StartedOver,
};
use bevy_ecs::prelude::*;
use bonfire_testkit::disk::{Fault, FaultyDisk, Plan, Random, Repeat};
use bonfire_testkit::scale;
use common::simulation::*;

const SLOTS: [&str; 3] = ["quick", "second", "third"];

/// What observers saw.
#[derive(Resource, Default)]
struct Seen {
    /// Every capture, in order: where it goes, and the state of the world.
    captures: Vec<(String, Stamp)>,
    /// For each capture, how many loads had been told of before.
    loaded_before: Vec<usize>,
    saved: Vec<(String, Outcome)>,
    loaded: Vec<(String, Outcome)>,
    /// Which capture each load that went well had.
    loaded_captures: Vec<u64>,
    restarted: Vec<(String, bool)>,
    unfinished: Option<Vec<String>>,
    /// Saves that were asked for and not told of.
    outstanding: i64,
}

/// The capture that the data of the last load names.
#[derive(Resource)]
struct LoadedCapture(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Done,
    Coalesced,
    Failed,
}

fn outcome<T>(result: &bevy_bonfire::Result<T>, coalesced: impl Fn(&T) -> bool) -> Outcome {
    match result {
        Ok(report) if coalesced(report) => Outcome::Coalesced,
        Ok(_) => Outcome::Done,
        Err(_) => Outcome::Failed,
    }
}

/// A request, in the order in which they were made. `captures`: how many there had been.
enum Ask {
    Save { target: SaveTarget, handle: SaveHandle, captures: u64, enabled: bool },
    Load { source: SaveTarget, handle: LoadHandle, enabled: bool },
    Remove { slot: &'static str, handle: Handle<u64>, over: bool, enabled: bool },
}

struct Schedule {
    app: App,
    disk: FaultyDisk<MemoryDisk>,
    faults: bool,
    random: Random,
    asked: Vec<Ask>,
    held: Option<Sender<()>>,
    targets: Vec<SaveTarget>,
}

fn observe(app: &mut App) {
    app.init_resource::<Seen>();
    app.add_observer(|mut starting: On<SaveStarting>, mut seen: ResMut<Seen>, stamp: Res<Stamp>| {
        let target = starting.target().expect("all of these go somewhere").to_string();
        // Nobody but the timer asks for these.
        seen.outstanding += i64::from(target == "slot `autosave`");
        starting.attach("test.capture", &(seen.captures.len() as u64));
        seen.captures.push((target, *stamp));
        let loaded = seen.loaded.len();
        seen.loaded_before.push(loaded);
    });
    app.add_observer(|done: On<SaveFinished>, mut seen: ResMut<Seen>| {
        seen.outstanding -= i64::from(done.target != SaveTarget::from("exit"));
        seen.saved.push((done.target.to_string(), outcome(&done.result, |report| report.coalesced)));
    });
    app.add_observer(|mut starting: On<LoadStarting>| {
        starting.on_data("test.capture", |world: &mut World, number: u64| {
            world.insert_resource(LoadedCapture(number));
            Ok(())
        });
    });
    app.add_observer(|done: On<LoadFinished>, mut seen: ResMut<Seen>, mut commands: Commands| {
        let source = done.source.as_ref().expect("all of these come from somewhere").to_string();
        seen.loaded.push((source.clone(), outcome(&done.result, |_| false)));
        if done.result.is_ok() {
            commands.queue(move |world: &mut World| {
                let LoadedCapture(number) = world.remove_resource().expect("every save names its capture");
                let stamp = check(world);
                let mut seen = world.resource_mut::<Seen>();
                assert_eq!(seen.captures[number as usize], (source, stamp), "another save than it says");
                seen.loaded_captures.push(number);
            });
        }
    });
    app.add_observer(|done: On<StartedOver>, mut seen: ResMut<Seen>, mut commands: Commands| {
        seen.restarted.push((done.slot.clone(), done.result.is_ok()));
        commands.queue(|world: &mut World| _ = check(world));
    });
    app.add_observer(|done: On<SavedOnExit>, mut seen: ResMut<Seen>| {
        seen.unfinished = Some(done.unfinished.iter().map(ToString::to_string).collect());
    });
}

impl Schedule {
    fn new(seed: u64, directory: &std::path::Path) -> Self {
        let random = Random::new(seed);
        let disk = FaultyDisk::new(MemoryDisk::new());
        let slots = Slots::new(DirStore::on(disk.clone()).expect("a healthy disk"));
        let mut app = App::new();
        app.add_plugins(BonfirePlugin::new().slots(slots).autosave(Autosave::off()));
        add_simulation(&mut app, seed, 200);
        observe(&mut app);
        // Inside of the simulation: it must not run while a save is on its way.
        app.add_systems(
            bevy_app::Update,
            (|saves: Res<Saves>, seen: Res<Seen>| {
                let stopped = saves.policy == SavePolicy::PauseUntilDurable && seen.outstanding > 0;
                assert!(!stopped, "the simulation runs, and {} saves are not durable", seen.outstanding);
            })
            .in_set(bevy_bonfire::SimulationSet),
        );
        let initial: Snapshot = app.world().capture(&SaveOptions::new()).expect("a world that can be saved");
        app.world_mut().resource_mut::<Saves>().set_initial(initial);
        let mut targets: Vec<SaveTarget> = SLOTS.into_iter().map(SaveTarget::from).collect();
        targets.push(SaveTarget::from(directory.join("world.save")));
        targets.push(SaveTarget::blob(MemoryStore::new(), "world"));
        Self { app, disk, faults: false, random, asked: Vec::new(), held: None, targets }
    }

    fn saves(&mut self) -> Mut<'_, Saves> {
        self.app.world_mut().resource_mut::<Saves>()
    }

    fn seen(&self) -> &Seen {
        self.app.world().resource::<Seen>()
    }

    /// Slots most of the time.
    fn target(&mut self) -> SaveTarget {
        let among = if self.random.chance(90) { SLOTS.len() } else { self.targets.len() };
        let place = self.random.below(among);
        self.targets[place].clone()
    }

    /// Asks for something, or changes how saving is set up.
    fn act(&mut self) {
        let enabled = self.saves().is_enabled();
        let captures = self.seen().captures.len() as u64;
        match self.random.below(24) {
            0..8 => {
                let target = self.target();
                let handle = self.saves().save(target.clone());
                self.app.world_mut().resource_mut::<Seen>().outstanding += 1;
                self.asked.push(Ask::Save { target, handle, captures, enabled });
            }
            8..11 => {
                let source = self.target();
                let options = match self.random.chance(50) {
                    true => LoadOptions::new().budget(Duration::ZERO),
                    false => LoadOptions::new(),
                };
                let handle = self.saves().load_with(source.clone(), options);
                self.asked.push(Ask::Load { source, handle, enabled });
            }
            11 => {
                let slot = *self.random.pick(&SLOTS);
                let over = self.random.chance(50);
                let handle =
                    if over { self.saves().start_over(slot) } else { self.saves().delete_saves(slot) };
                self.asked.push(Ask::Remove { slot, handle, over, enabled });
            }
            12..15 => {
                // One of the last, or nothing would be left to cancel.
                let Some(last) = self.asked.len().checked_sub(1) else { return };
                match &self.asked[last.saturating_sub(self.random.below(4))] {
                    Ask::Save { handle, .. } => handle.cancel(),
                    Ask::Load { handle, .. } => handle.cancel(),
                    Ask::Remove { handle, .. } => handle.cancel(),
                }
            }
            15 => {
                let enable = self.random.chance(70);
                if enable { self.saves().enable() } else { self.saves().disable() }
            }
            16 => {
                let on = self.random.chance(50);
                self.saves().autosave = if on { Autosave::every(Duration::ZERO) } else { Autosave::off() };
            }
            17 | 18 => {
                let pause = self.random.chance(50);
                self.saves().policy =
                    if pause { SavePolicy::PauseUntilDurable } else { SavePolicy::Background };
            }
            19 => self.hold(),
            20 | 21 => self.held = None,
            22 => {
                self.faults = true;
                let fault = *self.random.pick(&[Fault::Io, Fault::Full]);
                let repeat = *self.random.pick(&[Repeat::Once, Repeat::Forever]);
                let nth = 1 + self.random.below(30);
                self.disk.fail(Plan { fault, nth, of: None, repeat });
            }
            _ => self.disk.heal(),
        }
    }

    /// The thread that saves does nothing until it is let go.
    fn hold(&mut self) {
        let (open, closed): (Sender<()>, Receiver<()>) = channel();
        self.saves().saver().run(move |_| {
            let _ = closed.recv();
            Ok(())
        });
        self.held = Some(open);
    }

    fn frame(&mut self) {
        let background = self.saves().policy == SavePolicy::Background;
        let before = self.app.world().resource::<Frames>().simulated;
        self.app.update();
        let after = self.app.world().resource::<Frames>().simulated;
        assert!(after > before || !background, "nobody has stopped the simulation");
        check(self.app.world_mut());
    }

    /// Until nothing is left to do.
    fn settle(&mut self) {
        while self.saves().is_busy() {
            self.frame();
            std::thread::yield_now();
        }
        self.frame();
    }

    /// Ends the app, perhaps before everything is durable.
    fn exit(&mut self) {
        let in_time = self.random.chance(80);
        if in_time {
            self.held = None;
        } else {
            self.hold();
        }
        let deadline = Duration::from_secs(if in_time { 60 } else { 0 });
        self.saves().on_exit = ExitOptions::save("exit").deadline(deadline);
        let enabled = self.saves().is_enabled();
        self.app.world_mut().write_message(AppExit::Success);
        self.frame();
        let unfinished = self.seen().unfinished.clone().expect("the end is told of");
        if in_time {
            assert_eq!(unfinished, Vec::<String>::new());
            assert_eq!(self.seen().saved.iter().any(|(target, _)| target == "slot `exit`"), enabled);
            for asked in &self.asked {
                assert!(asked.is_complete(), "the app is over, and nobody knows what became of a request");
            }
        } else {
            let pending = |asked: &&Ask| matches!(asked, Ask::Save { .. }) && !asked.is_complete();
            let pending: Vec<String> = self.asked.iter().filter(pending).map(Ask::place).collect();
            // Some may have become durable since then.
            let mut told = unfinished.iter();
            let named = pending.iter().all(|pending| told.any(|told| told == pending));
            assert!(named, "{pending:?} are not durable, {unfinished:?} were named");
            self.held = None;
        }
        self.saves().autosave.enabled = false;
        self.settle();
    }
}

impl Ask {
    fn is_complete(&self) -> bool {
        match self {
            Self::Save { handle, .. } => handle.is_complete(),
            Self::Load { handle, .. } => handle.is_complete(),
            Self::Remove { handle, .. } => handle.is_complete(),
        }
    }

    fn place(&self) -> String {
        match self {
            Self::Save { target, .. } | Self::Load { source: target, .. } => target.to_string(),
            Self::Remove { slot, .. } => SaveTarget::from(*slot).to_string(),
        }
    }
}

/// What must be in a place, after some of the requests.
#[derive(Debug, Default, PartialEq)]
struct Expected {
    /// A save is there for certain, and it is this capture or a later one.
    at_least: Option<u64>,
    /// Nothing is there, unless a save that failed left something.
    empty: bool,
}

fn expected(asked: &[Ask], place: &str) -> Expected {
    let mut expected = Expected { at_least: None, empty: true };
    for ask in asked.iter().filter(|ask| ask.place() == place) {
        match ask {
            Ask::Save { handle, captures, .. } => {
                if handle.result().expect("it is complete").is_ok() {
                    expected.at_least = Some(*captures);
                    expected.empty = false;
                } else {
                    // A failed save may be there.
                    expected.empty &= handle.result().is_some_and(|result| result.is_err_and(harmless));
                }
            }
            Ask::Remove { handle, .. } => match handle.result().expect("it is complete") {
                Ok(_) => expected = Expected { at_least: None, empty: true },
                Err(error) if harmless(error.clone()) => {}
                // Some are gone, or none, or all.
                Err(_) => expected = Expected { at_least: None, empty: false },
            },
            Ask::Load { .. } => {}
        }
    }
    expected
}

/// Whether it failed before it did anything.
fn harmless(error: bevy_bonfire::Error) -> bool {
    error.is_cancelled() || error.is_misuse() || error.is_limit()
}

/// Checks a failure: somebody wanted it, or the disk was broken.
fn check_failure(error: &bevy_bonfire::Error, cancelled: bool, enabled: bool, schedule: &Schedule) {
    if error.is_cancelled() {
        assert!(cancelled, "nobody has cancelled this: {error}");
    } else if error.is_misuse() {
        assert!(!enabled, "{error}");
    } else {
        let late = schedule.seen().unfinished.is_some() && error.to_string().contains("exits");
        assert!(schedule.faults || error.is_limit() || error.is_not_found() || late, "{error}");
    }
}

impl Schedule {
    /// What came of all requests, when nothing is left to do.
    fn check(&self) {
        self.check_tidings();
        let mut loads = self.seen().loaded_captures.iter();
        for (number, ask) in self.asked.iter().enumerate() {
            match ask {
                Ask::Save { handle, enabled, captures, .. } => {
                    match handle.result().expect("it is complete") {
                        Err(error) => check_failure(&error, handle.is_cancelled(), *enabled, self),
                        // The loads that were asked for before it are done first.
                        Ok(_) => {
                            let loads = self.asked[..number].iter();
                            let loads = loads.filter(|ask| matches!(ask, Ask::Load { .. })).count();
                            let seen = self.seen();
                            let after = seen.captures.iter().zip(&seen.loaded_before);
                            let mut after = after.skip(*captures as usize);
                            let found =
                                after.any(|((place, _), loaded)| *place == ask.place() && *loaded >= loads);
                            assert!(found, "{} was captured before {loads} loads were done", ask.place());
                        }
                    }
                }
                Ask::Remove { handle, enabled, .. } => {
                    if let Err(error) = handle.result().expect("it is complete") {
                        check_failure(&error, handle.is_cancelled(), *enabled, self);
                    }
                }
                Ask::Load { handle, enabled, .. } => {
                    let expected = expected(&self.asked[..number], &ask.place());
                    match handle.result().expect("it is complete") {
                        Ok(_) => {
                            let capture = *loads.next().expect("every load is told of");
                            assert!(!expected.empty, "a load found what was removed");
                            // Broken disks pass over what they cannot read.
                            let at_least = expected.at_least.filter(|_| !self.faults).unwrap_or(0);
                            assert!(capture >= at_least, "a load found {capture}, but {expected:?}");
                        }
                        Err(error) => {
                            check_failure(&error, handle.is_cancelled(), *enabled, self);
                            let lost = error.is_not_found() && expected.at_least.is_some();
                            assert!(!lost || self.faults, "{error}, but {expected:?}");
                        }
                    }
                }
            }
        }
        assert_eq!(loads.next(), None);
        self.check_store();
    }

    /// Everybody is told of everything, once, and of what happened.
    fn check_tidings(&self) {
        let seen = self.seen();
        assert_eq!(seen.outstanding, 0);
        for target in &self.targets {
            let place = target.to_string();
            let mut handles = (Vec::new(), Vec::new());
            for ask in self.asked.iter().filter(|ask| ask.place() == place) {
                match ask {
                    Ask::Save { handle, .. } => {
                        let result = handle.result().expect("it is complete");
                        handles.0.push(outcome(&result, |report| report.coalesced));
                    }
                    Ask::Load { handle, .. } => {
                        handles.1.push(outcome(&handle.result().expect("it is complete"), |_| false));
                    }
                    Ask::Remove { .. } => {}
                }
            }
            let told = |events: &[(String, Outcome)]| -> Vec<Outcome> {
                events.iter().filter(|(about, _)| *about == place).map(|(_, outcome)| *outcome).collect()
            };
            let (mut saved, mut loaded) = (told(&seen.saved), told(&seen.loaded));
            // Those that are refused are known at once, the others in their order.
            for list in [&mut saved, &mut loaded, &mut handles.0, &mut handles.1] {
                list.sort();
            }
            assert_eq!((saved, loaded), handles, "{place}");
        }
        let over = |ask: &&Ask| matches!(ask, Ask::Remove { over: true, .. });
        assert_eq!(seen.restarted.len(), self.asked.iter().filter(over).count());
    }

    /// Every save that is there is one state, and the newest of each place is the one that was promised.
    fn check_store(&self) {
        self.disk.heal();
        let slots = self.app.world().resource::<Saves>().slots().expect("it has slots").clone();
        for slot in SLOTS.into_iter().chain(["autosave", "exit"]) {
            let place = SaveTarget::from(slot).to_string();
            let saves = slots.saves(slot).wait().expect("a healthy disk");
            for save in &saves {
                let loaded = slots.load_generation(slot, save.generation, &Snapshot::options()).wait();
                self.check_save(&place, &loaded.expect("nothing that is there is damaged").snapshot);
            }
            let newest = match slots.load(slot).wait() {
                Ok(newest) => Some(self.check_save(&place, &newest.snapshot)),
                Err(error) => {
                    assert!(error.is_not_found(), "{error}");
                    None
                }
            };
            self.check_newest(&place, newest);
        }
        for target in &self.targets[SLOTS.len()..] {
            let loaded = self.app.world().resource::<Saves>().saver().load(target.clone()).wait();
            let newest = match loaded {
                Ok(newest) => Some(self.check_save(&target.to_string(), &newest.snapshot)),
                Err(error) => {
                    assert!(error.is_not_found(), "{error}");
                    None
                }
            };
            self.check_newest(&target.to_string(), newest);
        }
    }

    fn check_newest(&self, place: &str, newest: Option<u64>) {
        let expected = expected(&self.asked, place);
        let lost = expected.at_least.is_some_and(|least| newest.is_none_or(|newest| newest < least));
        assert!(!lost, "{place}: {newest:?} is the newest, but {expected:?}");
        let own = place != "slot `autosave`" && place != "slot `exit`";
        assert!(!(own && expected.empty && newest.is_some()), "{place}: {newest:?} was removed");
    }

    /// Which capture it is.
    fn check_save(&self, place: &str, snapshot: &Snapshot) -> u64 {
        let mut world = empty_world();
        world.add_observer(|mut starting: On<LoadStarting>| {
            starting.on_data("test.capture", |world: &mut World, number: u64| {
                world.insert_resource(LoadedCapture(number));
                Ok(())
            });
        });
        world.load(snapshot, LoadMode::Replace).expect("what was saved can be loaded");
        let stamp = check(&mut world);
        let LoadedCapture(number) = *world.resource::<LoadedCapture>();
        assert_eq!(self.seen().captures[number as usize], (place.to_owned(), stamp));
        let states = &self.app.world().resource::<Frames>().states;
        assert_eq!(states.get(&stamp.frame), Some(&stamp.hash), "no frame has ended like this");
        number
    }
}

#[test]
fn any_schedule_keeps_what_was_promised() {
    let directory = tempfile::tempdir().expect("a place for files");
    let (mut done, mut coalesced, mut failed, mut loaded) = (0, 0, 0, 0);
    for seed in 0..u64::from(40 * scale()) {
        let place = directory.path().join(seed.to_string());
        std::fs::create_dir(&place).expect("a place for files");
        println!("seed {seed}");
        let mut schedule = Schedule::new(seed, &place);
        for _ in 0..40 {
            for _ in 0..schedule.random.below(4) {
                schedule.act();
            }
            schedule.frame();
        }
        schedule.exit();
        schedule.check();
        let count =
            |what: Outcome| schedule.seen().saved.iter().filter(|(_, outcome)| *outcome == what).count();
        done += count(Outcome::Done);
        coalesced += count(Outcome::Coalesced);
        failed += count(Outcome::Failed);
        loaded += schedule.seen().loaded_captures.len();
    }
    println!("{done} saves, {coalesced} with a newer one, {failed} failed, {loaded} loads");
    assert!(done > 100 && coalesced > 20 && failed > 20 && loaded > 20, "everything happens");
}

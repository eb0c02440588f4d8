//! What happens at the end of every tick.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use bevy_ecs::change_detection::DetectChangesMut;
use bevy_ecs::resource::Resource;
use bevy_ecs::world::World;
use bevy_platform::time::Instant;
use bonfire::Error;
use bonfire_store::engine::{NextRequest, SaveTurn, submit_delete};

use super::capture_with_events::capture_with_events;
use super::journal::{self, Journal};
use super::loading::{advance, begin_load, begin_start_over};
use super::request::{RefusalEvent, Request, log_failure};
use super::{Saves, autosave, exit};
use crate::capture::{SaveFinished, SaveOptions};
use crate::load::reclaim;

/// At the start of a tick: tells observers of saves that are done, and decides whether the simulation runs in this tick.
pub(crate) fn begin_tick(world: &mut World) {
    finish_saves(world);
    if let Some(mut saves) = world.get_resource_mut::<Saves>() {
        let stopped = saves.is_paused();
        // Systems that wait for a change of `Saves` are not told every tick.
        if saves.simulation_stopped != stopped {
            saves.bypass_change_detection().simulation_stopped = stopped;
        }
    }
}

/// Does its share of the work, tells of what is done, goes on with a load, and begins what was asked for.
pub(crate) fn run(world: &mut World) {
    // What loads that were given up have left.
    reclaim(world);
    // Observers may take `Saves` out of the world: then nobody saves any more.
    for step in [work, finish_saves, advance_load, autosave::run, begin_all, exit::run] {
        if !world.contains_resource::<Saves>() {
            return;
        }
        step(world);
    }
}

/// Works on what was handed in before, if there is no thread for it.
fn work(world: &mut World) {
    let saves = world.resource::<Saves>();
    saves.saver.poll(saves.work_budget);
}

fn advance_load(world: &mut World) {
    advance(world, None);
}

/// What observers ask for meanwhile is for the next tick.
fn begin_all(world: &mut World) {
    for _ in 0..world.resource::<Saves>().waiting() {
        let saves = world.get_resource::<Saves>().filter(|saves| saves.loading.is_none());
        let Some(next) = saves.and_then(Saves::next_request) else { return };
        begin(world, next);
    }
}

/// How many requests are done in one go. Observers that ask for more each time would keep it going for ever.
const ROUNDS_MAX: usize = 256;

/// Does everything that was asked for, also by observers meanwhile, and waits for it: false if the time was not enough. If an
/// observer takes `Saves` out of the world, nothing is left to do.
pub(super) fn complete_all(world: &mut World, time: Duration) -> bool {
    let start = Instant::now();
    let left = || time.saturating_sub(start.elapsed());
    let saver = world.resource::<Saves>().saver.clone();
    let mut in_time = true;
    let loading = |world: &World| world.get_resource::<Saves>().is_some_and(|saves| saves.loading.is_some());
    for _ in 0..ROUNDS_MAX {
        while in_time && loading(world) {
            in_time = advance(world, Some(left()));
        }
        if !in_time {
            break;
        }
        if let Some(next) = world.get_resource::<Saves>().and_then(Saves::next_request) {
            begin(world, next);
            in_time = !left().is_zero();
            continue;
        }
        in_time = saver.finish(left());
        finish_saves(world);
        let waits = world.get_resource::<Saves>().is_some_and(|saves| saves.waiting() > 0);
        if !in_time || !waits && !loading(world) {
            break;
        }
    }
    if !in_time {
        // The end of the app does not wait for it either.
        saver.finish(Duration::ZERO);
    }
    in_time
}

/// Refuses what waits and what is going on, and tells observers.
pub(super) fn refuse_all(world: &mut World, error: &Error) {
    if let Some(loading) = world.get_resource_mut::<Saves>().and_then(|mut saves| saves.loading.take()) {
        loading.fail(world, error.clone());
    }
    // Observers may ask for more, which is refused in its turn; those that never stop are not told for ever.
    for _ in 0..2 {
        let Some(mut saves) = world.get_resource_mut::<Saves>() else { return };
        saves.refuse_waiting(error);
        finish_saves(world);
    }
}

/// In the world of an app that has the plugin.
#[derive(Resource)]
pub(crate) struct HasSaves;

/// Asks for something. In a world without the plugin nobody else sees to it: then it is done at once.
pub(crate) fn request(world: &mut World, ask: impl FnOnce(&mut Saves)) {
    if let Some(mut saves) = world.get_resource_mut::<Saves>() {
        return ask(&mut saves);
    }
    let taken_out = world.contains_resource::<HasSaves>();
    let mut saves = if taken_out { Saves::stand_in() } else { Saves::new(None) };
    ask(&mut saves);
    world.insert_resource(saves);
    let work = || match taken_out {
        true => refuse_all(
            world,
            &Error::misuse("somebody has taken `Saves` out of the world: ask again when it is back"),
        ),
        false => {
            complete_all(world, Duration::MAX);
            refuse_all(world, &Error::limit("observers ask for more with every save or load"));
        }
    };
    let done = catch_unwind(AssertUnwindSafe(work));
    world.remove_resource::<Saves>();
    if let Err(panic) = done {
        resume_unwind(panic);
    }
}

/// Tells observers of what was refused, and of the saves that are done, in the order in which they were asked for.
fn finish_saves(world: &mut World) {
    // Looked at first: systems that wait for a change of `Saves` are not told every tick.
    let news = |saves: &Saves| {
        !saves.refused.is_empty() || saves.saving.iter().any(|saving| saving.handle.is_complete())
    };
    if !world.get_resource::<Saves>().is_some_and(news) {
        return;
    }
    let Some(mut saves) = world.get_resource_mut::<Saves>() else { return };
    let refused = std::mem::take(&mut saves.refused);
    let done: Vec<_> = saves.saving.extract_if(.., |saving| saving.handle.is_complete()).collect();
    if !done.is_empty() {
        saves.timer.restart();
        saves.finish_moments();
    }
    refused.into_iter().for_each(|event: RefusalEvent| event.trigger(world));
    for saving in done {
        let result = saving.handle.result().unwrap_or_else(|| Err(too_late()));
        if let Err(error) = &result {
            log_failure(&format!("the save to {}", saving.target), error);
            let mut saves = world.get_resource_mut::<Saves>();
            if let Some(failed) = saves.as_mut().and_then(|saves| saves.failed_on_exit.as_mut()) {
                failed.push((saving.target.clone(), error.clone()));
            }
        }
        world.trigger(SaveFinished { target: saving.target, result });
    }
    world.flush();
}

pub(super) fn too_late() -> Error {
    Error::custom("the app exits, and the time for saving is over")
}

pub(super) fn cancelled(what: &str) -> Error {
    Error::cancelled(format!("{what} was cancelled"))
}

/// Begins the next request.
fn begin(world: &mut World, next: NextRequest<SaveOptions, Request>) {
    match next {
        NextRequest::Save(turn) => begin_save(world, turn),
        NextRequest::Other(Request::Load { source, options, promise }) => {
            begin_load(world, source, *options, promise);
        }
        NextRequest::Other(Request::StartOver { slot, promise }) => begin_start_over(world, slot, promise),
        NextRequest::Other(Request::DeleteSaves { slot, promise }) => {
            let mut saves = world.resource_mut::<Saves>();
            saves.journal.forget_slot(&slot);
            submit_delete(&saves.saver, &slot, promise);
            // In the order of the requests: when the saves are deleted.
            saves.collect_moments();
        }
    }
}

/// Captures what a save needs, and hands it to the thread.
fn begin_save(world: &mut World, turn: SaveTurn<SaveOptions>) {
    if turn.is_cancelled() {
        return turn.fail(&cancelled("the save"));
    }
    let changes = journal::capture_changes(world, turn.target(), &turn.options);
    // An observer may have taken `Saves` out of the world: then nothing is saved.
    let Some(mut saves) = world.get_resource_mut::<Saves>() else { return };
    match changes {
        Ok(Some(changes)) => {
            let mut turn = turn;
            let requirement = saves.take_moment(turn.handle());
            requirement.into_iter().for_each(|requirement| turn.require(requirement));
            saves.journal.append(turn, changes);
        }
        Ok(None) => {
            saves.drop_moment();
            save_whole_world(world, turn);
        }
        Err(error) => {
            saves.drop_moment();
            turn.fail(&error);
        }
    }
}

fn save_whole_world(world: &mut World, mut turn: SaveTurn<SaveOptions>) {
    let (target, options) = (turn.target(), &turn.options);
    let mut saves = world.resource_mut::<Saves>();
    let mut captures = std::mem::take(&mut saves.captures);
    captures.set_compared(saves.compared);
    // The deltas that are appended to this save begin with it.
    let mut journal = saves.begins_journal(target).then(|| std::mem::take(&mut saves.journal));
    let follow = journal.as_mut().map(Journal::deltas);
    let captured = capture_with_events(world, options, Some(target), Some(&mut captures), follow);
    let Some(mut saves) = world.get_resource_mut::<Saves>() else { return };
    saves.captures = captures;
    let (snapshot, details) = match captured {
        Ok(captured) => captured,
        Err(error) => {
            saves.drop_moment();
            return turn.fail(&error);
        }
    };
    if journal.is_some() {
        saves.moments.base = details.get_moment().map(str::to_owned);
    }
    let requirement = saves.take_moment(turn.handle());
    if let Some((mut journal, save)) = journal.zip(turn.handle()) {
        journal.begin(target, save);
        saves.journal = journal;
    }
    let encode = turn.options.common.encode.clone();
    requirement.into_iter().for_each(|requirement| turn.require(requirement));
    turn.save(snapshot, details, encode);
}

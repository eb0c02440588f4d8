//! Scripts over saves and their journals: whole saves, deltas, merges, and all that is done to saves that have one. After a
//! crash every slot loads to the tick that was acknowledged last, or to the one that was on its way; never to an older one,
//! and never to a mixture. A tail that is lost was never acknowledged, and is all that is.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use bonfire::Result;
use bonfire_store::{Details, DirStore, JournalBase, Keep, LoadedSave, SealKey, Sealed, Slots, Wait};
use bonfire_testkit::disk::{CrashDisk, CrashState, Explorer, Random, litter};

use super::common::{delta, is_world, number, world};
use super::slots::{InFlight, Kind, Promise, View};
use super::{GOES_ON_PERCENT, STATES, STATES_AGAIN, fail, report, times};

const SLOTS: [&str; 2] = ["auto", "kept"];

/// One call of the slots. Worlds are told apart by a number, which is their tick too.
#[derive(Clone, Debug)]
enum Deed {
    Save(&'static str, u64),
    Append(JournalBase, u64, u64),
    Merge(&'static str),
    Lock(&'static str, u64),
    Unlock(&'static str, u64),
    RemoveGeneration(&'static str, u64),
    Remove(&'static str),
    Rename(&'static str, &'static str),
    Copy(&'static str, &'static str),
}

/// What a game does all day, or all that players can do besides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Quiet,
    Busy,
}

impl Deed {
    fn run(&self, slots: &Slots) -> Result<Option<JournalBase>> {
        match self {
            Self::Save(slot, number) => {
                let saved = slots.save(slot, &world(*number), &Details::new()).wait()?;
                return Ok(Some(JournalBase::new(*slot, saved.generation, *number)));
            }
            Self::Append(base, from, to) => slots.append(base, &delta(*from, *to)).wait().map(drop)?,
            Self::Merge(slot) => slots.merge_journal(slot).wait().map(drop)?,
            Self::Lock(slot, generation) => slots.lock(slot, *generation).wait()?,
            Self::Unlock(slot, generation) => slots.unlock(slot, *generation).wait()?,
            Self::RemoveGeneration(slot, generation) => {
                slots.delete_generation(slot, *generation).wait().map(drop)?;
            }
            Self::Remove(slot) => slots.delete_slot(slot).wait().map(drop)?,
            Self::Rename(from, to) => slots.rename(from, to).wait()?,
            Self::Copy(from, to) => slots.copy(from, to).wait().map(drop)?,
        }
        Ok(None)
    }
}

/// A game that knows which of its saves deltas can be appended to.
struct Game {
    disk: CrashDisk,
    slots: Slots,
    bases: BTreeMap<&'static str, JournalBase>,
    now: View,
}

impl Game {
    fn new(disk: CrashDisk, slots: Slots, now: View) -> Self {
        Self { disk, slots, bases: BTreeMap::new(), now }
    }

    /// Any deed that makes sense with what is there.
    fn random_deed(&self, random: &mut Random, life: Life, next: u64) -> Deed {
        let (slot, other) = match life {
            Life::Quiet => (SLOTS[0], SLOTS[0]),
            Life::Busy => (*random.pick(&SLOTS), *random.pick(&SLOTS)),
        };
        let any = |random: &mut Random, kind| {
            let generations = self.now.generations(slot, kind);
            (!generations.is_empty()).then(|| *random.pick(&generations))
        };
        let has_saves = |slot: &str| self.now.saves.keys().any(|(found, _, _)| found == slot);
        let deed = match random.below(if life == Life::Quiet { 4 } else { 16 }) {
            0 => None,
            1 if random.chance(30) => has_saves(slot).then_some(Deed::Merge(slot)),
            4 => any(random, Kind::Free).map(|generation| Deed::Lock(slot, generation)),
            5 => any(random, Kind::Locked).map(|generation| Deed::Unlock(slot, generation)),
            6 => any(random, Kind::Free).map(|generation| Deed::RemoveGeneration(slot, generation)),
            7 if self.now.generations(slot, Kind::Locked).is_empty() => {
                has_saves(slot).then_some(Deed::Remove(slot))
            }
            8 | 9 => (has_saves(slot) && !has_saves(other)).then_some(Deed::Rename(slot, other)),
            10 | 11 => has_saves(slot).then_some(Deed::Copy(slot, other)),
            _ => self.append(slot, next),
        };
        deed.unwrap_or(Deed::Save(slot, next))
    }

    fn append(&self, slot: &str, next: u64) -> Option<Deed> {
        let base = self.bases.get(slot)?;
        let newest = self.now.generations(slot, Kind::Free).into_iter().max()?;
        let from = self.now.saves.get(&(slot.to_owned(), base.generation, Kind::Free))?;
        (newest == base.generation).then(|| Deed::Append(base.clone(), *from, next))
    }

    fn run(&mut self, deed: Deed) -> Done {
        let (before, from) = (self.now.clone(), self.disk.operation_count());
        let base = deed.run(&self.slots).unwrap_or_else(|error| panic!("{deed:?} of {before:?}: {error}"));
        let to = self.disk.operation_count();
        self.now = view(&self.slots).unwrap_or_else(|why| panic!("{deed:?} of {before:?}: {why}"));
        match &deed {
            Deed::Save(slot, number) => {
                assert_eq!(self.now.loaded.get(*slot), Some(number), "what was saved is the newest");
                self.bases.extend(base.map(|base| (*slot, base)));
            }
            Deed::Append(base, _, number) => {
                assert_eq!(self.now.loaded.get(&base.slot), Some(number), "what was appended is the newest");
            }
            // Locked and unlocked, removed and renamed back: nobody goes on with such a journal.
            Deed::Lock(slot, _) | Deed::Remove(slot) => drop(self.bases.remove(slot)),
            // A copy may get its number.
            Deed::RemoveGeneration(slot, generation) => {
                self.bases.retain(|base_slot, base| base_slot != slot || base.generation != *generation);
            }
            Deed::Rename(from, to) => [from, to].into_iter().for_each(|slot| drop(self.bases.remove(slot))),
            _ => {}
        }
        Done { deed, before, after: self.now.clone(), from, to }
    }
}

/// A deed, and between which operations of the disk it was done.
struct Done {
    deed: Deed,
    before: View,
    after: View,
    from: usize,
    to: usize,
}

fn promise_at<'d>(done: &'d [Done], operations: usize, at_last: &'d View) -> Promise<'d> {
    let Some(done) = done.iter().find(|done| operations < done.to) else {
        return Promise { before: at_last, in_flight: None, slots: &SLOTS };
    };
    let is_one_step = !matches!(done.deed, Deed::Save(..) | Deed::Merge(_) | Deed::Copy(..));
    let in_flight = InFlight { deed: &done.deed, is_one_step, after: &done.after };
    Promise { before: &done.before, in_flight: (done.from < operations).then_some(in_flight), slots: &SLOTS }
}

/// The number of a world that is exactly one of those that were saved.
fn number_of(loaded: &LoadedSave) -> std::result::Result<u64, String> {
    let what = &loaded.info.blob;
    if let Some(skipped) = loaded.skipped.first() {
        return Err(skipped.to_string());
    }
    if let Some(lost) = loaded.journal.as_ref().and_then(|journal| journal.lost.as_ref())
        && !lost.is_tail()
    {
        return Err(format!("`{what}`: {lost}"));
    }
    let number = number(&loaded.snapshot);
    match is_world(&loaded.snapshot, number) {
        true => Ok(number),
        false => Err(format!("`{what}` is a mixture: it says {number}")),
    }
}

/// Looks at everything.
fn view(slots: &Slots) -> std::result::Result<View, String> {
    let text = |error: bonfire::Error| error.to_string();
    let mut view = View::default();
    for slot in SLOTS {
        for info in slots.saves(slot).wait().map_err(text)? {
            let loaded = slots.load_generation(slot, info.generation, &Default::default()).wait();
            let kind = if info.locked { Kind::Locked } else { Kind::Free };
            view.saves.insert((slot.to_owned(), info.generation, kind), number_of(&loaded.map_err(text)?)?);
        }
        match slots.load(slot).wait() {
            Err(error) if error.is_not_found() => {}
            loaded => drop(view.loaded.insert(slot.to_owned(), number_of(&loaded.map_err(text)?)?)),
        }
    }
    Ok(view)
}

/// How slots lie in a directory.
type Open = fn(DirStore) -> Slots;

/// By appending to files.
fn plain(dir: DirStore) -> Slots {
    Slots::new(dir).keep(Keep::newest(2)).clock(|| Some(Duration::from_secs(1)))
}

/// A file for every record.
fn sealed(dir: DirStore) -> Slots {
    let store = Sealed::new(dir, SealKey::from_bytes([7; 32])).bind_name();
    Slots::new(store).keep(Keep::newest(2)).clock(|| Some(Duration::from_secs(1)))
}

/// Opens what a crash has left, and checks the promise.
fn check(state: &CrashState, promise: &Promise<'_>, open: Open) -> std::result::Result<Game, String> {
    let disk = state.crash_disk();
    let dir = DirStore::on(disk.clone()).map_err(|error| format!("it does not open: {error}"))?;
    litter(&dir, &disk)?;
    let slots = open(dir);
    let found = view(&slots)?;
    promise.check(&found)?;
    Ok(Game::new(disk, slots, found))
}

fn empty(open: Open) -> Game {
    let disk = CrashDisk::new();
    Game::new(disk.clone(), open(DirStore::on(disk).expect("an empty disk")), View::default())
}

fn explore(seed: u64, deeds: u64, life: Life, open: Open, explorer: &mut Explorer) {
    let mut random = Random::new(seed);
    let mut game = empty(open);
    let mut done = Vec::new();
    for number in 1..=deeds {
        let deed = game.random_deed(&mut random, life, seed * 1000 + number);
        done.push(game.run(deed));
    }
    explore_crashes(seed, &game, &done, life, open, &mut random, explorer);
}

/// Every crash of what a game has done.
fn explore_crashes(
    seed: u64,
    game: &Game,
    done: &[Done],
    life: Life,
    open: Open,
    random: &mut Random,
    explorer: &mut Explorer,
) {
    let mut checked = HashSet::new();
    for point in game.disk.crash_points() {
        let promise = promise_at(done, point.after(), &game.now);
        let acknowledged = done.iter().filter(|done| done.to <= point.after()).count();
        for state in explorer.states(&point, STATES) {
            // The same again, under the same promise.
            if !checked.insert((state.fingerprint(), acknowledged, promise.in_flight.is_some())) {
                continue;
            }
            let survivor = check(&state, &promise, open)
                .unwrap_or_else(|why| fail(seed, &game.disk, point.after(), &why));
            if random.chance(GOES_ON_PERCENT) {
                explore_again(seed, survivor, life, open, random, explorer);
            }
        }
    }
}

/// The game goes on after a crash: a whole save, deltas, something else; and crashes again.
fn explore_again(
    seed: u64,
    mut game: Game,
    life: Life,
    open: Open,
    random: &mut Random,
    explorer: &mut Explorer,
) {
    let mut done = Vec::new();
    for number in 500..504 {
        let next = seed * 1000 + number;
        let deed = match number {
            500 => Deed::Save(SLOTS[0], next),
            _ => game.random_deed(random, life, next),
        };
        done.push(game.run(deed));
    }
    for point in game.disk.crash_points() {
        let promise = promise_at(&done, point.after(), &game.now);
        for state in explorer.states(&point, STATES_AGAIN) {
            if let Err(why) = check(&state, &promise, open) {
                fail(seed, &game.disk, point.after(), &format!("in a second crash: {why}"));
            }
        }
    }
}

#[test]
fn every_crash_of_a_journal_leaves_the_last_acknowledged_tick() {
    let mut explorer = Explorer::new(21);
    for seed in 0..4 * times() {
        explore(seed, 12, Life::Quiet, plain, &mut explorer);
    }
    report("journals", &explorer, 2_000);
}

/// Each of the things that can be done to a slot whose saves have journals.
fn explore_each(open: Open, explorer: &mut Explorer) {
    let (auto, kept) = (SLOTS[0], SLOTS[1]);
    let deeds = [
        Deed::Save(auto, 90),
        Deed::Merge(auto),
        Deed::Lock(auto, 2),
        Deed::RemoveGeneration(auto, 2),
        Deed::Remove(auto),
        Deed::Rename(auto, kept),
        Deed::Copy(auto, kept),
        Deed::Copy(auto, auto),
    ];
    for (seed, deed) in (0..).zip(deeds) {
        let mut game = empty(open);
        let mut done = Vec::new();
        for number in [10, 11, 12, 20, 21] {
            let next = match number {
                10 | 20 => Deed::Save(auto, number),
                _ => game.append(auto, number).expect("a save of this process"),
            };
            done.push(game.run(next));
        }
        done.push(game.run(deed));
        explore_crashes(seed, &game, &done, Life::Quiet, open, &mut Random::new(seed), explorer);
    }
}

#[test]
fn every_crash_of_each_thing_that_is_done_to_a_save_with_a_journal() {
    let mut explorer = Explorer::new(24);
    explore_each(plain, &mut explorer);
    explore_each(sealed, &mut explorer);
    report("each thing that is done to a save with a journal", &explorer, 1_000);
}

#[test]
fn every_crash_leaves_a_save_and_its_journal_together() {
    let mut explorer = Explorer::new(22);
    for seed in 0..4 * times() {
        explore(seed, 14, Life::Busy, plain, &mut explorer);
    }
    report("saves that are moved with their journals", &explorer, 2_000);
}

#[test]
fn every_crash_of_a_sealed_journal_leaves_the_last_acknowledged_tick() {
    let mut explorer = Explorer::new(23);
    for seed in 0..times() {
        explore(seed, 12, Life::Quiet, sealed, &mut explorer);
        explore(seed, 12, Life::Busy, sealed, &mut explorer);
    }
    report("sealed journals", &explorer, 500);
}

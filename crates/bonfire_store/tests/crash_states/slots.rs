//! Scripts over the slots of a game: saves with pruning, locks, renames, copies, and saves for after a crash.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use bonfire::engine::SnapshotWriter;
use bonfire::{Registry, Result, Snapshot, Value};
use bonfire_store::{Details, DirStore, Keep, SaveInfo, SealKey, Sealed, Slots, Wait};
use bonfire_testkit::disk::{CrashDisk, CrashState, Explorer, Random, litter};

use super::{GOES_ON_PERCENT, STATES, STATES_AGAIN, fail, report, times};

const SLOTS: [&str; 3] = ["auto", "quick", "end-game"];

/// What a save is to its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Free,
    Locked,
    Recovery,
}

/// All that a player can see. Saves are told apart by a number that is inside them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    pub(super) saves: BTreeMap<(String, u64, Kind), u64>,
    pub(super) loaded: BTreeMap<String, u64>,
}

impl View {
    fn numbers(&self) -> BTreeSet<u64> {
        self.saves.values().copied().collect()
    }
    /// The numbers of a slot's saves of some kind, in the slot.
    pub(super) fn generations(&self, slot: &str, kind: Kind) -> Vec<u64> {
        let of = |(found, _, found_kind): &&(String, u64, Kind)| found == slot && *found_kind == kind;
        self.saves.keys().filter(of).map(|(_, generation, _)| *generation).collect()
    }
}

/// One call of the slots.
#[derive(Clone, Debug)]
enum Deed {
    Save(&'static str, u64),
    SaveRecovery(&'static str, u64),
    AcceptRecovery(&'static str),
    RejectRecovery(&'static str),
    Lock(&'static str, u64),
    Unlock(&'static str, u64),
    RemoveGeneration(&'static str, u64),
    Remove(&'static str),
    Rename(&'static str, &'static str),
    Copy(&'static str, &'static str),
}

impl Deed {
    /// Any that makes sense with what is there.
    fn random(random: &mut Random, view: &View, number: u64) -> Self {
        let (slot, other) = (*random.pick(&SLOTS), *random.pick(&SLOTS));
        let has_saves = |slot: &str| view.saves.keys().any(|(found, _, _)| found == slot);
        let any = |random: &mut Random, kind| {
            let generations = view.generations(slot, kind);
            (!generations.is_empty()).then(|| *random.pick(&generations))
        };
        let last =
            view.saves.keys().filter(|(found, _, _)| found == slot).max_by_key(|(_, number, _)| number);
        let deed = match random.below(12) {
            0 => any(random, Kind::Free).map(|generation| Self::Lock(slot, generation)),
            1 => any(random, Kind::Locked).map(|generation| Self::Unlock(slot, generation)),
            2 => any(random, Kind::Free).map(|generation| Self::RemoveGeneration(slot, generation)),
            3 if view.generations(slot, Kind::Locked).is_empty() => {
                has_saves(slot).then_some(Self::Remove(slot))
            }
            4 => (has_saves(slot) && !has_saves(other)).then_some(Self::Rename(slot, other)),
            5 => view.loaded.contains_key(slot).then_some(Self::Copy(slot, other)),
            6 => Some(Self::SaveRecovery(slot, number)),
            7 => Some(Self::RejectRecovery(slot)),
            8 | 9 => {
                last.is_some_and(|(_, _, kind)| *kind == Kind::Recovery).then_some(Self::AcceptRecovery(slot))
            }
            _ => None,
        };
        deed.unwrap_or(Self::Save(slot, number))
    }

    fn run(&self, slots: &Slots) -> Result<()> {
        match *self {
            Self::Save(slot, number) => slots.save(slot, &world(), &details(number)).wait().map(drop),
            Self::SaveRecovery(slot, number) => {
                slots.save_recovery(slot, &world(), &details(number)).wait().map(drop)
            }
            Self::AcceptRecovery(slot) => slots.accept_recovery(slot).wait().map(drop),
            Self::RejectRecovery(slot) => slots.reject_recovery(slot).wait().map(drop),
            Self::Lock(slot, generation) => slots.lock(slot, generation).wait(),
            Self::Unlock(slot, generation) => slots.unlock(slot, generation).wait(),
            Self::RemoveGeneration(slot, generation) => {
                slots.delete_generation(slot, generation).wait().map(drop)
            }
            Self::Remove(slot) => slots.delete_slot(slot).wait().map(drop),
            Self::Rename(from, to) => slots.rename(from, to).wait(),
            Self::Copy(from, to) => slots.copy(from, to).wait().map(drop),
        }
    }
}

fn world() -> Snapshot {
    SnapshotWriter::new(&Registry::new()).finish().expect("an empty world")
}

/// What tells a save from all others, and bytes that follow from it, over a few sectors.
fn details(number: u64) -> Details {
    Details::new().custom("number", number).custom("noise", Value::Bytes(noise(number)))
}

fn noise(number: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    let len = random.below(1500);
    random.bytes(len)
}

/// The number of a save that is whole.
fn number_of(info: &SaveInfo) -> std::result::Result<u64, String> {
    if let Some(problem) = &info.problem {
        return Err(format!("`{}`: {problem}", info.blob));
    }
    let find = |name: &str| info.custom.iter().find(|(found, _)| found == name).map(|(_, value)| value);
    match (find("number"), find("noise")) {
        (Some(Value::U64(number)), Some(Value::Bytes(bytes))) if *bytes == noise(*number) => Ok(*number),
        _ => Err(format!("`{}` is not what was saved", info.blob)),
    }
}

/// How slots lie in a directory.
type Open = fn(DirStore) -> Slots;

fn plain(dir: DirStore) -> Slots {
    Slots::new(dir).keep(Keep::newest(2)).clock(|| Some(Duration::from_secs(1)))
}

/// Bound to their names: a lock and a rename seal the save again, in several steps.
fn sealed(dir: DirStore) -> Slots {
    let store = Sealed::new(dir, SealKey::from_bytes([7; 32])).bind_name();
    Slots::new(store).keep(Keep::newest(2)).clock(|| Some(Duration::from_secs(1)))
}

/// Looks at everything. Nothing may be damaged: that a load would get along with it is not the point here.
fn view(slots: &Slots) -> std::result::Result<View, String> {
    let text = |error: bonfire::Error| error.to_string();
    let mut view = View::default();
    for slot in SLOTS {
        for info in slots.saves(slot).wait().map_err(text)? {
            let kind = match (info.locked, info.recovery) {
                (true, _) => Kind::Locked,
                (_, true) => Kind::Recovery,
                _ => Kind::Free,
            };
            view.saves.insert((slot.to_owned(), info.generation, kind), number_of(&info)?);
        }
        match slots.load(slot).wait() {
            Ok(loaded) if loaded.skipped.is_empty() => {
                view.loaded.insert(slot.to_owned(), number_of(&loaded.info)?);
            }
            Ok(loaded) => return Err(loaded.skipped[0].to_string()),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(view)
}

/// What is there for certain, and what was being done and makes of it.
pub(super) struct Promise<'v> {
    pub(super) before: &'v View,
    pub(super) in_flight: Option<InFlight<'v>>,
    /// All slots that there may be.
    pub(super) slots: &'v [&'v str],
}

/// What was being done when the machine stopped.
#[derive(Clone, Copy)]
pub(super) struct InFlight<'v> {
    pub(super) deed: &'v dyn std::fmt::Debug,
    /// Whether it changes several saves, or one save in several ways, in one step.
    pub(super) is_one_step: bool,
    pub(super) after: &'v View,
}

impl Promise<'_> {
    pub(super) fn check(&self, found: &View) -> std::result::Result<(), String> {
        let Some(InFlight { deed, is_one_step, after }) = self.in_flight else {
            return if found == self.before {
                Ok(())
            } else {
                Err(format!("{found:?} and not {:?}", self.before))
            };
        };
        let wrong = |what: &str| Err(format!("{what}: {found:?} while {deed:?} of {:?}", self.before));
        for (save, number) in &found.saves {
            if self.before.saves.get(save) != Some(number) && after.saves.get(save) != Some(number) {
                return wrong("a save that nobody made");
            }
        }
        let stays = |save: &&(String, u64, Kind)| after.saves.contains_key(*save);
        if self.before.saves.keys().filter(stays).any(|save| !found.saves.contains_key(save)) {
            return wrong("a save that was not touched is gone");
        }
        if !self
            .before
            .numbers()
            .intersection(&after.numbers())
            .all(|number| found.numbers().contains(number))
        {
            return wrong("a save was lost on its way");
        }
        let loads = |view: &View, slot: &str| view.loaded.get(slot).copied();
        if is_one_step {
            return match found == self.before || found == after {
                true => Ok(()),
                false => wrong("a half-done change"),
            };
        }
        let is_old_or_new =
            |slot: &str| [loads(self.before, slot), loads(after, slot)].contains(&loads(found, slot));
        if self.slots.iter().all(|slot| is_old_or_new(slot)) {
            Ok(())
        } else {
            wrong("an older save is loaded")
        }
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

impl Done {
    fn in_flight(&self) -> InFlight<'_> {
        let is_one_step =
            matches!(self.deed, Deed::Rename(..) | Deed::Remove(_) | Deed::Lock(..) | Deed::Unlock(..));
        InFlight { deed: &self.deed, is_one_step, after: &self.after }
    }
}

fn run(disk: &CrashDisk, slots: &Slots, deed: Deed, before: View) -> Done {
    let from = disk.operation_count();
    deed.run(slots).unwrap_or_else(|error| panic!("{deed:?} of {before:?}: {error}"));
    let to = disk.operation_count();
    let after = view(slots).unwrap_or_else(|why| panic!("{deed:?} of {before:?}: {why}"));
    if let Deed::Save(slot, number) = deed {
        assert_eq!(after.loaded.get(slot), Some(&number), "the save that was just made is the newest");
    }
    Done { deed, before, after, from, to }
}

fn promise_at<'d>(done: &'d [Done], operations: usize, at_last: &'d View) -> Promise<'d> {
    match done.iter().find(|done| operations < done.to) {
        Some(done) => Promise {
            before: &done.before,
            in_flight: (done.from < operations).then(|| done.in_flight()),
            slots: &SLOTS,
        },
        None => Promise { before: at_last, in_flight: None, slots: &SLOTS },
    }
}

/// Opens what a crash has left, and checks the promise.
fn check(
    state: &CrashState,
    promise: &Promise<'_>,
    open: Open,
) -> std::result::Result<(CrashDisk, Slots, View), String> {
    let disk = state.crash_disk();
    let dir = DirStore::on(disk.clone()).map_err(|error| format!("it does not open: {error}"))?;
    litter(&dir, &disk)?;
    let slots = open(dir);
    let found = view(&slots)?;
    promise.check(&found)?;
    Ok((disk, slots, found))
}

fn explore(seed: u64, deeds: u64, open: Open, explorer: &mut Explorer) {
    let mut random = Random::new(seed);
    let disk = CrashDisk::new();
    let slots = open(DirStore::on(disk.clone()).expect("an empty disk"));
    let (mut done, mut now) = (Vec::new(), View::default());
    for number in 0..deeds {
        let deed = Deed::random(&mut random, &now, seed << 16 | number);
        done.push(run(&disk, &slots, deed, now));
        now = done[done.len() - 1].after.clone();
    }
    let mut checked = HashSet::new();
    for point in disk.crash_points() {
        let promise = promise_at(&done, point.after(), &now);
        let acknowledged = done.iter().filter(|done| done.to <= point.after()).count();
        for state in explorer.states(&point, STATES) {
            // The same again, under the same promise.
            if !checked.insert((state.fingerprint(), acknowledged, promise.in_flight.is_some())) {
                continue;
            }
            let (disk, slots, found) =
                check(&state, &promise, open).unwrap_or_else(|why| fail(seed, &disk, point.after(), &why));
            let goes_on = random.chance(GOES_ON_PERCENT);
            let next = seed << 16 | 1 << 15 | random.number() & 0x7FFF;
            let deed = goes_on.then(|| Deed::random(&mut random, &found, next));
            explore_again(seed, (&disk, &slots, open), found, deed, explorer);
        }
    }
}

/// The slots have just been opened after a crash. Lets them crash again during that, and during one more deed.
fn explore_again(
    seed: u64,
    (disk, slots, open): (&CrashDisk, &Slots, Open),
    found: View,
    deed: Option<Deed>,
    explorer: &mut Explorer,
) {
    let done: Vec<Done> = deed.into_iter().map(|deed| run(disk, slots, deed, found.clone())).collect();
    if disk.operation_count() == 0 {
        return;
    }
    let now = done.last().map_or(&found, |done| &done.after);
    for point in disk.crash_points() {
        let promise = promise_at(&done, point.after(), now);
        for state in explorer.states(&point, STATES_AGAIN) {
            if let Err(why) = check(&state, &promise, open) {
                fail(seed, disk, point.after(), &format!("in a second crash: {why}"));
            }
        }
    }
}

#[test]
fn every_crash_leaves_the_last_save_of_every_slot() {
    let mut explorer = Explorer::new(8);
    for seed in 0..50 * times() {
        explore(seed, 14, plain, &mut explorer);
    }
    report("slots", &explorer, 30_000);
}

#[test]
fn every_crash_leaves_the_last_save_of_every_sealed_slot() {
    let mut explorer = Explorer::new(9);
    for seed in 0..10 * times() {
        explore(seed, 14, sealed, &mut explorer);
    }
    report("sealed slots", &explorer, 5_000);
}

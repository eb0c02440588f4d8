//! Lives of a game whose disk fails now and then: any call, once or until it is mended. The game repeats what failed, saves
//! in between, is started again, and crashes in the middle of all that.
//!
//! A call that fails or is cut off leaves the state before it or after it, and nothing in between: no slot is split, no
//! two slots become one. A load under a read error is an error and never an older world. No number is given to two saves.

#[path = "../common/mod.rs"]
mod common;

mod model;
mod two_writers;

use std::collections::{BTreeMap, HashSet};

use bonfire_store::{DirStore, JournalBase, Keep, SealKey, Sealed, Slots};
use bonfire_testkit::disk::{CrashDisk, Explorer, Fault, FaultyDisk, Plan, Random, Repeat, litter};
use bonfire_testkit::scale;

use self::model::{Answer, Deed, Generations, KEPT, SLOTS, State, loads, look};

/// How slots lie in a directory.
type Open = fn(DirStore) -> Slots;

fn plain(dir: DirStore) -> Slots {
    Slots::new(dir).keep(Keep::newest(KEPT))
}

/// Records of journals are blobs of their own.
fn sealed(dir: DirStore) -> Slots {
    Slots::new(Sealed::new(dir, SealKey::from_bytes([7; 32]))).keep(Keep::newest(KEPT))
}

/// A new name means a new seal.
fn bound(dir: DirStore) -> Slots {
    Slots::new(Sealed::new(dir, SealKey::from_bytes([7; 32])).bind_name()).keep(Keep::newest(KEPT))
}

/// A running game.
struct Game {
    seed: u64,
    open: Open,
    crash: CrashDisk,
    disk: FaultyDisk<CrashDisk>,
    slots: Slots,
    state: State,
    generations: Generations,
    bases: BTreeMap<&'static str, JournalBase>,
    /// All numbers that were given to saves, and acknowledged.
    used: HashSet<(&'static str, u64)>,
    unsettled: Unsettled,
    told: Vec<String>,
}

/// The traces of calls that failed: visible, and perhaps not durable. Nobody was told that it is there, so a crash may take it
/// back.
#[derive(Default)]
struct Unsettled {
    /// States without it. A later call that makes names durable settles them.
    states: Vec<State>,
    /// Worlds that were appended, and those before them, in both orders: what was cut off may come back. Nothing makes a
    /// journal durable whose append failed.
    appended: Vec<(u64, u64)>,
}

impl Unsettled {
    fn note_failed(&mut self, deed: &Deed, before: &State) {
        if let Deed::Append(_, from, to) = deed {
            return self.appended.extend([(*to, *from), (*from, *to)]);
        }
        let more = self.states.iter().filter(|state| deed.fits(state)).flat_map(|state| deed.outcomes(state));
        let more: Vec<State> = more.chain([before.clone()]).collect();
        self.states.extend(more);
    }

    fn note_succeeded(&mut self, deed: &Deed) {
        if !matches!(deed, Deed::Append(..) | Deed::Load(_)) {
            self.states.clear();
        }
    }

    /// Returns all states that a crash during a call may leave. `outcomes` are those of what was seen before it.
    fn outcomes(&self, deed: &Deed, outcomes: &[State]) -> Vec<State> {
        let mut all = outcomes.to_vec();
        for state in &self.states {
            all.push(state.clone());
            all.extend(if deed.fits(state) { deed.outcomes(state) } else { Vec::new() });
        }
        for (seen, other) in &self.appended {
            for state in all.clone() {
                let places =
                    state.iter().flat_map(|(slot, saves)| (0..saves.len()).map(move |place| (slot, place)));
                for (slot, place) in places.filter(|(slot, place)| state[*slot][*place].world == *seen) {
                    let mut without = state.clone();
                    if let Some(saves) = without.get_mut(slot) {
                        saves[place].world = *other;
                    }
                    all.push(without);
                }
            }
        }
        all
    }
}

impl Game {
    fn new(seed: u64, open: Open) -> Self {
        let (crash, disk, slots) = start(CrashDisk::new(), open);
        Self {
            seed,
            open,
            crash,
            disk,
            slots,
            state: State::new(),
            generations: Generations::new(),
            bases: BTreeMap::new(),
            used: HashSet::new(),
            unsettled: Unsettled::default(),
            told: Vec::new(),
        }
    }

    fn wrong(&self, why: &str) -> ! {
        panic!("seed {}: {why}\nwhat was done:\n{}", self.seed, self.told.join("\n"));
    }

    /// Any call that makes sense with what is there.
    fn random_deed(&self, random: &mut Random, next: u64) -> Deed {
        let (slot, other) = (*random.pick(&SLOTS), *random.pick(&SLOTS));
        let place = self.state.get(slot).map_or(0, |saves| random.below(saves.len()));
        let deed = match random.below(18) {
            0 => Deed::Merge(slot),
            1 => Deed::Lock(slot, place),
            2 => Deed::Unlock(slot, place),
            3 => Deed::DeleteOne(slot, place),
            4 => Deed::DeleteSlot(slot),
            5..=7 => Deed::Rename(slot, other),
            8 | 9 => Deed::Copy(slot, other),
            10..=12 => Deed::Load(slot),
            13..=15 => self.append(slot, next).unwrap_or(Deed::Save(slot, next)),
            _ => Deed::Save(slot, next),
        };
        if deed.fits(&self.state) { deed } else { Deed::Save(slot, next) }
    }

    fn append(&self, slot: &'static str, next: u64) -> Option<Deed> {
        let base = self.bases.get(slot)?;
        let newest = self.generations.get(slot)?.last()?;
        let deed = Deed::Append(base.clone(), loads(&self.state, slot)?, next);
        (*newest == base.generation && deed.fits(&self.state)).then_some(deed)
    }

    /// Makes a call that must succeed.
    fn succeed(&mut self, deed: &Deed) {
        self.told.push(format!("{deed:?}"));
        let mut outcomes = deed.outcomes(&self.state);
        match deed.run(&self.slots, &self.generations) {
            Err(error) => self.wrong(&format!("{deed:?} of {:?}: {error}", self.state)),
            Ok(answer) => {
                let last = outcomes.len() - 1;
                outcomes.drain(if answer.did_nothing { 1..last + 1 } else { 0..last });
                self.note(deed, answer);
                self.unsettled.note_succeeded(deed);
            }
        }
        self.expect(&outcomes);
    }

    /// Makes a call on a disk that fails.
    fn fail(&mut self, deed: &Deed, plan: Plan) -> bool {
        self.told.push(format!("{deed:?} with {plan:?}"));
        let mut outcomes = deed.outcomes(&self.state);
        self.disk.fail(plan);
        let result = deed.run(&self.slots, &self.generations);
        self.disk.heal();
        if let Some(last) = self.told.last_mut() {
            *last += &match &result {
                Ok(_) => ": succeeded".to_owned(),
                Err(error) => format!(": {error}"),
            };
        }
        match &result {
            Ok(answer) => {
                // An old save that could not be removed is no failure of the new one.
                outcomes.drain(if answer.did_nothing { 1..outcomes.len() } else { 0..1 });
                self.note(deed, *answer);
                self.unsettled.note_succeeded(deed);
            }
            Err(error) if !error.is_io() || error.is_not_found() => {
                self.wrong(&format!("{deed:?} meets an I/O error and says {error:?}"));
            }
            Err(_) => {
                self.forget(deed);
                self.unsettled.note_failed(deed, &self.state);
            }
        }
        self.expect(&outcomes);
        result.is_err()
    }

    /// Checks and remembers what a call returned.
    fn note(&mut self, deed: &Deed, answer: Answer) {
        if let Deed::Load(slot) = deed
            && answer.loaded != loads(&self.state, slot)
        {
            self.wrong(&format!("{deed:?} gives {answer:?} of {:?}", self.state));
        }
        let slot = match deed {
            Deed::Save(slot, _) | Deed::Merge(slot) | Deed::Copy(_, slot) => slot,
            _ => return self.forget_moved(deed),
        };
        let Some(generation) = answer.generation else { return };
        if !self.used.insert((slot, generation)) {
            self.wrong(&format!("{deed:?} got the number {generation}, which was given before"));
        }
        self.bases.remove(slot);
        if let Deed::Save(slot, world) = deed {
            self.bases.insert(slot, JournalBase::new(*slot, generation, *world));
        }
    }

    /// After a failed call the game appends to none of the slots that it was about.
    fn forget(&mut self, deed: &Deed) {
        self.forget_moved(deed);
        if let Deed::Append(base, ..) = deed {
            self.bases.remove(base.slot.as_str());
        }
    }

    fn forget_moved(&mut self, deed: &Deed) {
        match deed {
            Deed::Rename(from, to) => {
                self.bases.remove(from);
                self.bases.remove(to);
            }
            Deed::Save(slot, _)
            | Deed::Merge(slot)
            | Deed::Lock(slot, _)
            | Deed::Unlock(slot, _)
            | Deed::DeleteOne(slot, _)
            | Deed::DeleteSlot(slot)
            | Deed::Copy(_, slot) => drop(self.bases.remove(slot)),
            Deed::Append(..) | Deed::Load(_) => {}
        }
    }

    /// Looks at what is there: it must be one of these states.
    fn expect(&mut self, allowed: &[State]) {
        match look(&self.slots) {
            Ok((state, generations)) if allowed.contains(&state) => {
                (self.state, self.generations) = (state, generations);
            }
            Ok((state, _)) => self.wrong(&format!("{state:?} is there and none of {allowed:#?}")),
            Err(why) => self.wrong(&why),
        }
    }

    /// Starts again on a disk as it is.
    fn restart(&mut self) {
        self.told.push("starts again".into());
        self.go_on_with(CrashDisk::with_files(self.crash.files()));
        let state = self.state.clone();
        self.expect(&[state]);
    }

    fn go_on_with(&mut self, crash: CrashDisk) {
        (self.crash, self.disk, self.slots) = start(crash, self.open);
        self.bases.clear();
        self.unsettled = Unsettled::default();
        let dir = DirStore::on(self.disk.clone()).expect("a healthy disk");
        if let Err(why) = litter(&dir, &self.crash) {
            self.wrong(&why);
        }
    }

    /// Lets the machine stop during a call, in several ways, and goes on with one of them.
    fn crash(&mut self, deed: &Deed, random: &mut Random, explorer: &mut Explorer) {
        self.told.push(format!("{deed:?}, and a crash in it"));
        let outcomes = deed.outcomes(&self.state);
        let from = self.crash.operation_count();
        let answer = match deed.run(&self.slots, &self.generations) {
            Err(error) => self.wrong(&format!("{deed:?} of {:?}: {error}", self.state)),
            Ok(answer) => answer,
        };
        let points: Vec<_> = self.crash.crash_points().skip(from).collect();
        let (point, last) = (random.pick(&points), points.len() - 1);
        let at_end = point.after() == from + last;
        if let Some(told) = self.told.last_mut() {
            *told += &format!(" after {:?}", point.last());
        }
        let outcomes = match (answer.did_nothing, at_end) {
            (true, _) => &outcomes[..1],
            (false, true) => &outcomes[outcomes.len() - 1..],
            (false, false) => &outcomes[..],
        };
        let outcomes = match at_end && !matches!(deed, Deed::Append(..) | Deed::Load(_)) {
            // What is durable now is what was seen, but for journals.
            true => Unsettled { states: Vec::new(), ..std::mem::take(&mut self.unsettled) }
                .outcomes(deed, outcomes),
            false => self.unsettled.outcomes(deed, outcomes),
        };
        let states = explorer.states(point, 12);
        let goes_on = random.below(states.len());
        for (number, state) in states.iter().enumerate().filter(|(number, _)| *number != goes_on) {
            let (_, _, slots) = start(state.crash_disk(), self.open);
            match look(&slots) {
                Ok((found, _)) if outcomes.contains(&found) => {}
                Ok((found, _)) => self.wrong(&format!("crash {number}: {found:?}, none of {outcomes:#?}")),
                Err(why) => self.wrong(&format!("crash {number}: {why}")),
            }
        }
        self.go_on_with(states[goes_on].crash_disk());
        self.expect(&outcomes);
    }
}

fn start(crash: CrashDisk, open: Open) -> (CrashDisk, FaultyDisk<CrashDisk>, Slots) {
    let disk = FaultyDisk::new(crash.clone());
    let dir = DirStore::on(disk.clone()).expect("a healthy disk");
    (crash, disk, open(dir))
}

const FAULTS: [Fault; 3] = [Fault::Io, Fault::Full, Fault::TooManyFiles];

fn live(seed: u64, open: Open, explorer: &mut Explorer) {
    let mut random = Random::new(seed);
    let mut game = Game::new(seed, open);
    for number in 1..=14 {
        let next = seed % 1000 * 100 + number * 4;
        let deed = game.random_deed(&mut random, next);
        match random.below(10) {
            0..=3 => {
                let plan = Plan {
                    fault: *random.pick(&FAULTS),
                    nth: 1 + random.below(30),
                    of: None,
                    repeat: *random.pick(&[Repeat::Once, Repeat::Forever]),
                };
                if game.fail(&deed, plan) {
                    repeat(&mut game, &deed, &mut random, next);
                }
            }
            4..=6 => {
                game.crash(&deed, &mut random, explorer);
                repeat(&mut game, &deed, &mut random, next);
            }
            7 => {
                game.succeed(&deed);
                game.restart();
            }
            _ => game.succeed(&deed),
        }
    }
}

/// Makes a call again that was cut off, perhaps after something else. A rename is refused if its target is there meanwhile.
fn repeat(game: &mut Game, deed: &Deed, random: &mut Random, next: u64) {
    let target = match deed {
        Deed::Rename(_, to) => *to,
        _ => *random.pick(&SLOTS),
    };
    if random.chance(40) {
        game.succeed(&Deed::Save(target, next + 1));
    }
    let deed = match deed {
        // What was appended to is of the process before.
        Deed::Append(..) => return,
        Deed::Save(slot, _) => Deed::Save(slot, next + 2),
        deed => deed.clone(),
    };
    if deed.fits(&game.state) {
        return game.succeed(&deed);
    }
    if let Deed::Rename(..) = deed {
        let (error, state) = (deed.run(&game.slots, &game.generations), game.state.clone());
        match error {
            Err(error) if error.is_conflict() || error.is_not_found() => game.expect(&[state]),
            other => game.wrong(&format!("{deed:?} of {state:?} gives {other:?}")),
        }
    }
}

fn lives(what: &str, open: Open, count: u64, first: u64) {
    let mut explorer = Explorer::new(first);
    let count = count * u64::from(scale());
    for seed in first..first + count {
        live(seed, open, &mut explorer);
    }
    println!("{what}: {count} lives, {} distinct crash states, none wrong", explorer.distinct());
}

#[test]
fn lives_of_plain_slots() {
    lives("plain slots", plain, 60, 1_000_000);
}

#[test]
fn lives_of_sealed_slots() {
    lives("sealed slots", sealed, 25, 2_000_000);
}

#[test]
fn lives_of_slots_with_bound_names() {
    lives("bound slots", bound, 25, 3_000_000);
}

//! Two programs write to one directory at the same time. A seed decides which of them makes the next call of the disk, so
//! that every order can be had again.
//!
//! No number is given to two saves, no save gets the journal of another, and a slot loads what was acknowledged last.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use bonfire::Error;
use bonfire_store::disk::{Access, Disk, DiskFile, DiskLock};
use bonfire_store::{Details, DirStore, JournalBase, Keep, Slots, Wait};
use bonfire_testkit::disk::{CrashDisk, Random, litter};
use bonfire_testkit::scale;

use super::common::{delta, is_world, number, world};
use super::{Open, bound};

/// Decides which of two threads goes on.
struct Turns {
    state: Mutex<TurnState>,
    changed: Condvar,
}

struct TurnState {
    random: Random,
    current: usize,
    running: [bool; 2],
    time: u64,
}

impl Turns {
    fn new(seed: u64) -> Arc<Self> {
        let state = TurnState { random: Random::new(seed), current: 0, running: [true; 2], time: 0 };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Lets `next` go on, or one of the two by chance, and waits until it is the turn of `me`.
    fn pass(&self, me: usize, next: Option<usize>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let by_chance = state.random.below(2);
        let next = next.unwrap_or(by_chance);
        state.current = if state.running[next] { next } else { me };
        state.time += 1;
        self.changed.notify_all();
        while state.current != me {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn end(&self, me: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.running[me], state.current) = (false, 1 - me);
        self.changed.notify_all();
    }

    fn time(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).time
    }
}

/// Ends the turns of a thread, also if it panics.
struct Ends<'t>(&'t Turns, usize);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.end(self.1);
    }
}

/// The disk of one of the two threads.
struct TurnDisk {
    disk: CrashDisk,
    turns: Arc<Turns>,
    me: usize,
}

impl TurnDisk {
    fn pass(&self) -> &CrashDisk {
        self.turns.pass(self.me, None);
        &self.disk
    }
}

impl Disk for TurnDisk {
    fn open(&self, name: &str, access: Access) -> io::Result<Box<dyn DiskFile>> {
        self.pass().open(name, access)
    }
    fn create_new(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.pass().create_new(name)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.pass().rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.pass().remove(name)
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.pass().list()
    }
    fn sync_dir(&self) -> io::Result<()> {
        self.pass().sync_dir()
    }
    fn lock(&self, name: &str) -> io::Result<Option<DiskLock>> {
        self.turns.pass(self.me, None);
        loop {
            if let Some(lock) = self.disk.lock(name)? {
                return Ok(Some(lock));
            }
            self.turns.pass(self.me, Some(1 - self.me));
        }
    }
}

/// A call that was acknowledged, and when it was under way.
#[derive(Clone, Copy, Debug)]
struct Acknowledged {
    what: What,
    start: u64,
    end: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// The slot is at this world.
    World(u64),
    /// A save has this number.
    Number(&'static str, u64),
}

/// Whether saves are only made, or also moved and deleted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Saves,
    Moves,
}

/// What one program does.
fn write(me: usize, seed: u64, slots: &Slots, turns: &Turns, life: Life) -> Vec<Acknowledged> {
    let mut random = Random::new(seed * 2 + me as u64);
    let mut acknowledged = Vec::new();
    let mut base: Option<(JournalBase, u64)> = None;
    for step in 1..=6 {
        let next = (me as u64 + 1) * 100 + step;
        let start = turns.time();
        let mut note = |what| acknowledged.push(Acknowledged { what, start, end: turns.time() });
        match random.below(if life == Life::Moves { 12 } else { 8 }) {
            0..=4 if base.is_some() => {
                let Some((journal, from)) = base.take() else { continue };
                match slots.append(&journal, &delta(from, next)).wait() {
                    Ok(_) => {
                        note(What::World(next));
                        base = Some((journal, next));
                    }
                    Err(error) => assert!(is_allowed(&error), "append: {error:?}"),
                }
            }
            7 => match slots.merge_journal("auto").wait() {
                Ok(Some(saved)) => note(What::Number("auto", saved.generation)),
                Ok(None) => {}
                Err(error) => assert!(is_allowed(&error), "merge: {error:?}"),
            },
            8 => allow(slots.rename("auto", "kept").wait()),
            9 => {
                let slot: &&str = random.pick(&["auto", "kept"]);
                allow(slots.delete_slot(slot).wait().map(drop));
            }
            10 => match slots.copy("auto", "kept").wait() {
                Ok(saved) => note(What::Number("kept", saved.generation)),
                Err(error) => assert!(is_allowed(&error), "copy: {error:?}"),
            },
            11 => allow(slots.rename("kept", "auto").wait()),
            _ => {
                let saved = slots.save("auto", &world(next), &Details::new()).wait().expect("it is free");
                assert!(saved.prune_error.is_none(), "{saved:?}");
                note(What::Number("auto", saved.generation));
                note(What::World(next));
                base = Some((JournalBase::new("auto", saved.generation, next), next));
            }
        }
    }
    acknowledged
}

/// Another program may have been faster.
fn is_allowed(error: &Error) -> bool {
    error.is_conflict() || error.is_not_found()
}

fn allow(result: bonfire::Result<()>) {
    if let Err(error) = result {
        assert!(is_allowed(&error), "{error:?}");
    }
}

fn plain(dir: DirStore) -> Slots {
    Slots::new(dir).keep(Keep::newest(1))
}

/// Runs two programs, and looks at what they leave.
fn round(seed: u64, life: Life, open: Open) {
    let (disk, turns) = (CrashDisk::new(), Turns::new(seed));
    let acknowledged: Vec<Acknowledged> = thread::scope(|scope| {
        let writers = [0, 1].map(|me| {
            let disk = TurnDisk { disk: disk.clone(), turns: turns.clone(), me };
            let turns = &turns;
            scope.spawn(move || {
                let _ends = Ends(turns, me);
                turns.pass(me, Some(me));
                let slots = open(DirStore::on(disk).expect("a healthy disk"));
                write(me, seed, &slots, turns, life)
            })
        });
        let ended = writers.map(thread::ScopedJoinHandle::join);
        ended.into_iter().flat_map(|ended| ended.unwrap_or_else(|_| panic!("seed {seed}"))).collect()
    });
    let dir = DirStore::on(disk.clone()).expect("a healthy disk");
    litter(&dir, &disk).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    let slots = open(dir);
    let mut numbers: Vec<What> =
        acknowledged.iter().map(|call| call.what).filter(|what| matches!(what, What::Number(..))).collect();
    numbers.sort_by_key(|what| format!("{what:?}"));
    let twice = numbers.windows(2).find(|pair| pair[0] == pair[1]);
    assert!(twice.is_none(), "seed {seed}: {twice:?} was given twice");
    for slot in ["auto", "kept"] {
        for save in slots.saves(slot).wait().expect("a healthy disk") {
            let loaded = slots.load_generation(slot, save.generation, &Default::default()).wait();
            let loaded = loaded.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let lost = loaded.journal.and_then(|journal| journal.lost);
            assert!(lost.is_none(), "seed {seed}: {lost:?} of {save:?}");
            let found = number(&loaded.snapshot);
            assert!(is_world(&loaded.snapshot, found), "seed {seed}: a mixture of {found}");
        }
    }
    if life == Life::Saves {
        let loaded = slots.load("auto").wait();
        let worlds = || acknowledged.iter().filter(|call| matches!(call.what, What::World(_)));
        let Ok(loaded) = loaded else {
            assert!(worlds().next().is_none(), "seed {seed}: nothing loads of {acknowledged:?}");
            return;
        };
        let found = number(&loaded.snapshot);
        let made = worlds().find(|call| call.what == What::World(found));
        let made = made.unwrap_or_else(|| panic!("seed {seed}: {found} was never acknowledged"));
        let later = worlds().find(|call| call.start > made.end);
        assert!(later.is_none(), "seed {seed}: it loads {made:?}, and {later:?} came later");
    }
}

fn rounds(what: &str, count: u64, life: Life, open: Open) {
    let count = count * u64::from(scale());
    (0..count).for_each(|seed| round(seed, life, open));
    println!("{what}: {count} rounds of two writers, none wrong");
}

#[test]
fn two_programs_save_into_one_slot() {
    rounds("saves", 300, Life::Saves, plain);
}

#[test]
fn two_programs_move_and_delete_saves() {
    rounds("moves", 200, Life::Moves, plain);
    rounds("moves of bound slots", 50, Life::Moves, bound);
}

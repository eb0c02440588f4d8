//! Players walk, creatures cross borders, disks fail and machines stop: every creature is somewhere exactly once, and every
//! moment that was acknowledged reads back as it was.
//!
//! The model keeps whole copies of the world. How much was done is printed (`--nocapture`).

mod stream_support;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bonfire_chunks::stream::{ChunkPhase, Focus, SlotPins};
use bonfire_chunks::{ChunkPos, ChunkWorker, ChunkWorld, CommitReport, Handle};
use bonfire_store::disk::Access;
use bonfire_testkit::disk::{Call, CrashDisk, CrashPoint, Explorer, Fault, FaultyDisk, Plan, Random, Repeat};
use bonfire_testkit::scale;
use stream_support::model::{History, State};
use stream_support::{SIZE, Session, chunk_of, options};

/// Steps of a walk.
const STEPS: usize = 60;
const LONG: Duration = Duration::from_secs(20);
/// Chunks from the middle to the edge of what players walk in.
const FAR: i32 = 4;

#[derive(Debug, Default)]
struct Tally {
    frames: usize,
    moments: usize,
    failed_moments: usize,
    returns: usize,
    crashes: usize,
    faults: usize,
    reopened: usize,
    entered: usize,
    walks: usize,
}

/// A save of a moment that has no outcome.
struct Moment {
    name: Option<String>,
    step: usize,
    handle: Handle<CommitReport>,
}

struct Walk<'t> {
    seed: u64,
    random: Random,
    explorer: Explorer,
    disk: CrashDisk,
    faulty: FaultyDisk<CrashDisk>,
    session: Session,
    compacts: bool,
    truth: State,
    history: History,
    moments: Vec<Moment>,
    /// Acknowledged pins.
    pins: BTreeMap<String, (usize, Rc<State>)>,
    /// All pins that may be there.
    possible: BTreeMap<String, Rc<State>>,
    /// The disk had done so much when the history began.
    begin: usize,
    ids: u64,
    tally: &'t mut Tally,
}

fn open(disk: &FaultyDisk<CrashDisk>, compacts: bool) -> ChunkWorld {
    let options = if compacts { options().compact_above(Some(0.2)).compact_at_least(600) } else { options() };
    options.open_on(disk.clone(), "world.save", Access::Write).expect("the disk is well")
}

fn start(disk: &FaultyDisk<CrashDisk>, compacts: bool, saves_max: usize) -> Session {
    let worker = ChunkWorker::options().reading_threads(2).saves_max(saves_max);
    Session::with(worker.start(open(disk, compacts)))
}

impl<'t> Walk<'t> {
    fn new(seed: u64, tally: &'t mut Tally) -> Self {
        let mut random = Random::new(seed);
        let disk = CrashDisk::new();
        let faulty = FaultyDisk::new(disk.clone());
        let compacts = random.chance(30);
        let mut session = start(&faulty, compacts, *random.pick(&[1, 3, 64]));
        session.game.populate = random.chance(50);
        let (truth, explorer) = (State::default(), Explorer::new(seed));
        let history = History::new(truth.clone());
        let (moments, pins, possible) = Default::default();
        tally.walks += 1;
        let (begin, ids) = (0, 0);
        Self {
            seed,
            random,
            explorer,
            disk,
            faulty,
            session,
            compacts,
            truth,
            history,
            moments,
            pins,
            possible,
            begin,
            ids,
            tally,
        }
    }

    fn run(mut self) {
        for player in 0..=self.random.below(3) {
            self.move_player(player as u64);
        }
        for _ in 0..STEPS {
            self.step();
            for _ in 0..self.random.below(4) {
                self.frame();
            }
        }
        self.settle();
        (0..3).for_each(|player| self.session.stream.set_focus(player, None));
        let tickets: Vec<ChunkPos> = self.session.stream.tickets().map(|(pos, _)| pos).collect();
        for pos in tickets {
            while self.session.stream.remove_ticket(pos) {}
        }
        self.settle();
        assert!(self.session.game.view().next().is_none(), "seed {}", self.seed);
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..18 => {
                let player = self.random.below(3) as u64;
                self.move_player(player);
            }
            18..32 => self.spawn(),
            32..52 => self.walk(),
            52..60 => self.dig(),
            60..64 => self.kill(),
            64..70 => {
                let pos = self.place();
                if self.random.chance(40) {
                    self.session.stream.add_ticket(pos);
                } else {
                    self.session.stream.remove_ticket(pos);
                }
            }
            70..74 => self.save(None),
            74..80 => {
                self.ids += 1;
                self.save(Some(format!("pin {}", self.ids)));
            }
            80..84 => self.return_to(),
            84 => self.start_over(),
            85 => self.unpin(),
            86..91 => self.fail(),
            91..94 => self.heal(),
            94 => self.session.stream.pause(),
            95 => self.session.stream.resume(),
            96 => self.settle(),
            97 => self.reopen(),
            _ => self.crash(),
        }
    }

    fn place(&mut self) -> ChunkPos {
        let mut along = || self.random.below(2 * FAR as usize + 1) as i32 - FAR;
        ChunkPos::new(along(), along())
    }

    fn move_player(&mut self, player: u64) {
        let pos = self.place();
        let ahead = if self.random.chance(20) { [1, 0, 0] } else { [0; 3] };
        let focus = Focus::new(pos, self.random.below(2) as u32).unload_reach(1).ahead(ahead);
        let focus = (!self.random.chance(10)).then_some(focus);
        self.session.stream.set_focus(player, focus);
    }

    fn active(&mut self) -> Option<ChunkPos> {
        let phases = self.session.stream.phases();
        let mut active: Vec<ChunkPos> =
            phases.filter(|(_, phase)| *phase == ChunkPhase::Active).map(|(pos, _)| pos).collect();
        active.sort();
        (!active.is_empty()).then(|| *self.random.pick(&active))
    }

    fn cell_in(&mut self, pos: ChunkPos) -> (i32, i32) {
        let mut along = || self.random.below(SIZE as usize) as i32;
        (pos.x * SIZE + along(), pos.y * SIZE + along())
    }

    fn spawn(&mut self) {
        let Some(pos) = self.active() else { return };
        let cell = self.cell_in(pos);
        self.ids += 1;
        self.session.game.spawn(self.ids, cell);
        self.truth.creatures.insert(self.ids, (pos, cell));
        self.history.push(&self.truth);
    }

    fn creature(&mut self) -> Option<u64> {
        let all: Vec<u64> = self.session.game.creatures().into_keys().collect();
        (!all.is_empty()).then(|| *self.random.pick(&all))
    }

    /// A creature goes somewhere: near, into the next chunk, or far away.
    fn walk(&mut self) {
        let Some(id) = self.creature() else { return };
        let home = self.session.game.home(id).expect("it is loaded");
        let mut to = if self.random.chance(30) { self.place() } else { home };
        to.x += self.random.below(3) as i32 - 1;
        let cell = self.cell_in(to);
        self.session.game.walk(&mut self.session.stream, id, cell);
        let home = self.session.game.home(id).expect("it is loaded");
        assert!(home == chunk_of(cell) || !self.session.stream.is_active(chunk_of(cell)));
        self.truth.creatures.insert(id, (home, cell));
        self.history.push(&self.truth);
    }

    fn kill(&mut self) {
        let Some(id) = self.creature() else { return };
        self.session.game.kill(id);
        self.truth.creatures.remove(&id);
        self.history.push(&self.truth);
    }

    fn dig(&mut self) {
        let Some(pos) = self.active() else { return };
        let cell = self.cell_in(pos);
        let material = self.random.below(4) as u8;
        self.session.game.dig(cell, material);
        let index = cell.1.rem_euclid(SIZE) * SIZE + cell.0.rem_euclid(SIZE);
        self.truth.dig(pos, index as usize, material);
        self.history.push(&self.truth);
    }

    fn frame(&mut self) {
        let budget = Duration::from_micros(self.random.below(2) as u64 * 500);
        self.session.stream.update(&mut self.session.game, budget).expect("it has a decoder");
        std::thread::yield_now();
        self.tally.frames += 1;
        let game = &mut self.session.game;
        for (id, cell) in std::mem::take(&mut game.born) {
            self.truth.creatures.insert(id, (chunk_of(cell), cell));
        }
        for (id, to) in std::mem::take(&mut game.entered) {
            self.truth.creatures.get_mut(&id).expect("it lives").0 = to;
            self.tally.entered += 1;
        }
        self.history.push(&self.truth);
        self.look();
        self.hear();
    }

    /// Asserts that the loaded chunks are those of the model.
    fn look(&self) {
        for (pos, cells, creatures) in self.session.game.view() {
            assert_eq!(cells, self.truth.cells_of(pos), "seed {}: cells of {pos}", self.seed);
            let creatures: Vec<_> = creatures.iter().map(|(id, cell)| (*id, *cell)).collect();
            let is_active = self.session.stream.is_active(pos);
            let wanted = if is_active { self.truth.creatures_of(pos) } else { Vec::new() };
            assert_eq!(creatures, wanted, "seed {}: creatures of {pos}", self.seed);
        }
    }

    fn save(&mut self, name: Option<String>) {
        let step = self.history.push(&self.truth);
        let (stream, game) = (&mut self.session.stream, &mut self.session.game);
        let handle = match &name {
            None => stream.save(game),
            Some(name) => stream.pin(game, name, name.as_str()),
        };
        if let Some(name) = &name {
            self.possible.insert(name.clone(), self.history.last().clone());
        }
        self.moments.push(Moment { name, step, handle });
    }

    /// Takes what was acknowledged.
    fn hear(&mut self) {
        let (done, open) =
            std::mem::take(&mut self.moments).into_iter().partition(|m| m.handle.is_complete());
        // Another thread completes them, so operations are counted after the look.
        let operations = self.disk.operation_count();
        self.moments = open;
        let done: Vec<Moment> = done;
        for Moment { name, step, handle } in done {
            match handle.result().expect("it is complete") {
                Ok(_) => {
                    self.tally.moments += 1;
                    self.history.acknowledge(operations, step);
                    if let Some(name) = name {
                        let state = self.possible[&name].clone();
                        self.pins.insert(name, (operations, state));
                    }
                }
                Err(_) => self.tally.failed_moments += 1,
            }
        }
    }

    fn fail(&mut self) {
        let (fault, of) = *self.random.pick(&[
            (Fault::Full, Call::Write),
            (Fault::Io, Call::Write),
            (Fault::Io, Call::Sync),
            (Fault::Io, Call::Read),
            (Fault::Io, Call::SetLen),
        ]);
        let repeat = *self.random.pick(&[Repeat::Once, Repeat::Forever]);
        self.faulty.fail(Plan { fault, nth: 1 + self.random.below(4), of: Some(of), repeat });
        self.tally.faults += 1;
    }

    /// The player mends the disk.
    fn heal(&mut self) {
        self.faulty.heal();
        let failed: Vec<ChunkPos> = self
            .session
            .stream
            .phases()
            .filter(|(_, phase)| *phase == ChunkPhase::Failed)
            .map(|(pos, _)| pos)
            .collect();
        failed.into_iter().for_each(|pos| self.session.stream.retry(pos));
        if self.session.stream.last_error().is_some_and(|error| error.is_poisoned() || error.is_io()) {
            self.reopen();
        }
    }

    fn reopen(&mut self) {
        self.faulty.heal();
        let _ = self.session.stream.world().close();
        let world = open(&self.faulty, self.compacts);
        let found = State::of(&world);
        self.check(&found, usize::MAX, &self.history);
        self.check_pins(&world, usize::MAX);
        let saves_max = *self.random.pick(&[1, 3, 64]);
        self.session.stream.reopen(ChunkWorker::options().saves_max(saves_max).start(world));
        self.tally.reopened += 1;
    }

    fn check(&self, found: &State, operations: usize, history: &History) {
        if let Err(problem) = history.check(found, operations) {
            panic!("seed {}: {problem}", self.seed);
        }
    }

    /// Acknowledged pins are there, and every pin is what it was.
    fn check_pins(&self, world: &ChunkWorld, operations: usize) {
        let names: Vec<String> = world.pins().into_iter().map(|pin| pin.name).collect();
        for (name, (at, _)) in &self.pins {
            assert!(*at > operations || names.contains(name), "seed {}: {name} is lost", self.seed);
        }
        for name in names.iter().filter(|name| name.starts_with("pin")) {
            let then = State::of(&world.at(name).expect("it is listed"));
            let wanted = self.possible.get(name).expect("it was asked for");
            assert_eq!(then, **wanted, "seed {}: {name}", self.seed);
        }
    }

    /// Everything is saved, and the file is the model.
    fn settle(&mut self) {
        self.heal();
        self.session.stream.resume();
        // The window moves in a frame, and saves may be durable without one.
        self.frame();
        let begin = Instant::now();
        loop {
            let step = self.history.push(&self.truth);
            self.save(None);
            let handle = self.moments.last().expect("there is one").handle.clone();
            while !handle.is_complete() || !self.session.stream.is_settled() {
                self.frame();
                assert!(begin.elapsed() < LONG, "seed {}: {:?}", self.seed, self.session.stream.status());
            }
            self.frame();
            let is_saved =
                handle.result().is_some_and(|result| result.is_ok()) && self.session.stream.is_saved();
            if is_saved && step == self.history.push(&self.truth) {
                break;
            }
            assert!(begin.elapsed() < LONG, "seed {}: {:?}", self.seed, self.session.stream.last_error());
            self.heal();
        }
        self.hear();
        let world = self.session.stream.world();
        assert_eq!(State::of(world), self.truth, "seed {}", self.seed);
        self.check_pins(world, usize::MAX);
    }

    /// The world has gone to another moment, which is durable.
    fn begin_again(&mut self, truth: State) {
        self.hear();
        self.truth = truth;
        self.history = History::new(self.truth.clone());
        (self.begin, self.moments) = (self.disk.operation_count(), Vec::new());
        self.session.game.born.clear();
        self.look();
    }

    fn return_to(&mut self) {
        self.hear();
        let names: Vec<String> = self.pins.keys().cloned().collect();
        if names.is_empty() {
            return;
        }
        let name = self.random.pick(&names).clone();
        let (history, begin) = (self.history.clone(), self.disk.operation_count());
        if self.session.stream.return_to(&mut self.session.game, &name).is_err() {
            let moment = State::clone(&self.pins[&name].1);
            return self.may_have_happened(&moment);
        }
        self.tally.returns += 1;
        let moment = State::clone(&self.pins[&name].1);
        self.begin_again(moment);
        if self.random.chance(30) {
            self.crash_from(begin, Some(history));
        }
    }

    /// A sync has failed: a crash may leave what it was for.
    fn may_have_happened(&mut self, state: &State) {
        self.history.push(state);
        self.history.push(&self.truth);
    }

    fn start_over(&mut self) {
        let (history, begin) = (self.history.clone(), self.disk.operation_count());
        if self.session.stream.start_over(&mut self.session.game).is_err() {
            return self.may_have_happened(&State::default());
        }
        self.begin_again(State::default());
        if self.random.chance(30) {
            self.crash_from(begin, Some(history));
        }
    }

    fn unpin(&mut self) {
        let Some((name, _)) = self.pins.pop_first() else { return };
        let _ = self.session.stream.world().unpin(&name);
    }

    fn crash(&mut self) {
        self.crash_from(self.begin, None);
    }

    /// The machine stops after some operation since this one. `before` are states before the present history.
    fn crash_from(&mut self, begin: usize, before: Option<History>) {
        self.hear();
        let points: Vec<CrashPoint> = self.disk.crash_points().skip(begin).collect();
        let point = if self.random.chance(50) { points.last() } else { Some(self.random.pick(&points)) };
        let point = point.expect("there is the present");
        let states = self.explorer.states(point, 6);
        let state = self.random.pick(&states);
        self.tally.crashes += 1;
        self.disk = state.crash_disk();
        self.faulty = FaultyDisk::new(self.disk.clone());
        let populate = self.session.game.populate;
        self.session = start(&self.faulty, self.compacts, 64);
        self.session.game.populate = populate;
        let world = self.session.stream.world();
        assert!(world.report().damaged.is_empty(), "seed {}: {:?}", self.seed, world.report());
        SlotPins::new(world.clone()).forget_interrupted_return().expect("the disk is well");
        let found = State::of(world);
        let is_before = before.is_some_and(|before| before.check(&found, point.after()).is_ok());
        if !is_before || point.after() >= self.begin {
            self.check(&found, point.after(), &self.history);
        }
        self.check_pins(world, point.after());
        let names: Vec<String> = world.pins().into_iter().map(|pin| pin.name).collect();
        self.pins = names.into_iter().map(|name| (name.clone(), (0, self.possible[&name].clone()))).collect();
        self.moments.clear();
        self.begin_again(found);
        self.begin = 0;
        for player in 0..2 {
            self.move_player(player);
        }
    }
}

#[test]
fn every_creature_is_somewhere_exactly_once() {
    let walks = std::env::var("BONFIRE_STREAM_WALKS").ok().and_then(|walks| walks.parse().ok());
    let first = std::env::var("BONFIRE_STREAM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut tally = Tally::default();
    for seed in first..first + walks.unwrap_or(500 * u64::from(scale())) {
        Walk::new(seed, &mut tally).run();
    }
    println!("{tally:?}");
}

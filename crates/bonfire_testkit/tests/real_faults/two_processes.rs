//! Two processes save, append, rename, copy and delete in the same slots at the same time, without faults.
//!
//! The two logs are explained if one order of all operations fits. An operation that ended before another began comes
//! first. The model gives every answer in the log, and the last state is the one in the directory. The search goes through
//! all pairs of positions in the two logs and carries the possible states along.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use bonfire_testkit::disk::Random;
use rustix::process::{Signal, getpid, kill_process};

use crate::aftermath::{Ground, place};
use crate::log::{self, Entry, Log, Outcome};
use crate::model::{Effect, State, effect};
use crate::operation::{Operation, Worker};
use crate::play::Player;
use crate::report::{Finding, Report, Rule, Violation};
use crate::strace::{self, Killed};
use crate::view::{self, View};

/// Variables of a process of a pair.
const PAIR: &str = "BONFIRE_FAULTS_PAIR";
const DIRECTORY: &str = "BONFIRE_FAULTS_DIRECTORY";
const LOG: &str = "BONFIRE_FAULTS_LOG";

/// Operations of each process in a round.
const OPERATIONS: u64 = 12;

/// Plays one half of a pair, if this process is one. Returns whether it is.
pub(crate) fn run_half() -> bool {
    let Ok(pair) = std::env::var(PAIR) else { return false };
    let mut words = pair.split(' ');
    let mut word = || words.next().expect("the runner sets the worker, the process and the seed");
    let (worker, process, seed) = (word(), word(), word());
    let worker = Worker::parse(worker).expect("the runner knows the workers");
    let path = |name| PathBuf::from(std::env::var_os(name).expect("the runner sets it"));
    let (directory, log) = (path(DIRECTORY), path(LOG));
    let mut log = Log::open(&log, process).expect("the runner made a place for the log");
    let mut player = Player::new(worker, &directory, &mut log);
    player.once(&Operation::Open).expect("the directory is there");
    kill_process(getpid(), Signal::STOP).expect("a process can stop itself");
    let half = u64::from(process == "b");
    let mut random = Random::new(seed.parse::<u64>().expect("a number") * 2 + half);
    for step in 1..=OPERATIONS {
        std::thread::sleep(Duration::from_micros(random.number() % 1500));
        // The last digit says which process made a world.
        let _ = player.once(&random_operation(&mut random, step * 10 + half));
    }
    true
}

fn random_operation(random: &mut Random, world: u64) -> Operation {
    let slot = if random.chance(70) { "auto" } else { "kept" };
    let other = if slot == "auto" { "kept" } else { "auto" };
    let (slot, other) = (slot.to_owned(), other.to_owned());
    match random.below(100) {
        0..35 => Operation::Save(slot, world),
        35..65 => Operation::Tick(slot, world),
        65..76 => Operation::Load(slot),
        76..84 => Operation::Rename(slot, other),
        84..91 => Operation::Copy(slot, other),
        91..96 => Operation::Delete(slot),
        _ => Operation::Merge(slot),
    }
}

/// Runs rounds: 30 at scale 1, 1000 at scale 100.
pub(crate) fn run_all(ground: &Ground, only: Option<&str>, report: &mut Report) {
    let rounds = u64::from(bonfire_testkit::scale() * 10).clamp(30, 1000);
    for seed in 0..rounds {
        let worker = if seed % 4 == 3 { Worker::SealedJournal } else { Worker::Journal };
        let fault = format!("two-processes {} {seed}", worker.name());
        if only.is_some_and(|only| only != fault) {
            continue;
        }
        let name = format!("two processes, {}", worker.name());
        let (lines, findings) = round(worker, seed, ground);
        let violation =
            |finding| Violation { worker: name.clone(), fault: fault.clone(), finding, lines: lines.clone() };
        report.add(&name, "no fault", findings.into_iter().map(violation));
    }
}

/// Runs one round. Returns the lines of both logs in the order of time, and what is wrong.
fn round(worker: Worker, seed: u64, ground: &Ground) -> (Vec<String>, Vec<Finding>) {
    let root = place();
    let start = |process: &str| {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.env(PAIR, format!("{} {process} {seed}", worker.name()));
        command.env(DIRECTORY, root.path().join("saves")).env(LOG, root.path().join(process));
        Killed(strace::start_stopped(command.stderr(Stdio::inherit())))
    };
    let mut pair = [start("a"), start("b")];
    for half in &pair {
        kill_process(strace::pid(&half.0), Signal::CONT).expect("it is stopped");
    }
    let mut findings = Vec::new();
    for half in &mut pair {
        if let (code, hung) = strace::wait(&mut half.0)
            && (hung || code != Some(0))
        {
            findings.push(finding(Rule::Ended, "open", format!("exit code {code:?}, hung: {hung}")));
        }
    }
    let (a_lines, a) = log::read(&root.path().join("a"));
    let (b_lines, b) = log::read(&root.path().join("b"));
    let mut lines: Vec<String> = a_lines.into_iter().chain(b_lines).collect();
    lines.sort_by_key(|line| line.split(' ').next().and_then(|time| time.parse::<u64>().ok()));
    findings.extend(check(worker, &root.path().join("saves"), [&a, &b], ground, &mut lines));
    findings.iter_mut().for_each(|finding| finding.line = lines.len());
    (lines, findings)
}

fn finding(rule: Rule, verb: &'static str, what: impl Into<String>) -> Finding {
    Finding { rule, verb, what: what.into(), line: 0 }
}

/// A call with the times of its begin and its end.
struct Call {
    operation: Operation,
    begin: u64,
    done: u64,
    outcome: Outcome,
}

fn calls(entries: &[Entry]) -> Vec<Call> {
    let mut begin = 0;
    let mut calls = Vec::new();
    for entry in entries {
        match &entry.outcome {
            None => begin = entry.micros,
            Some(outcome) => calls.push(Call {
                operation: entry.operation.clone(),
                begin,
                done: entry.micros,
                outcome: outcome.clone(),
            }),
        }
    }
    calls
}

fn check(
    worker: Worker,
    directory: &Path,
    logs: [&[Entry]; 2],
    ground: &Ground,
    lines: &mut Vec<String>,
) -> Vec<Finding> {
    let [a, b] = logs.map(calls);
    let mut findings = Vec::new();
    for call in a.iter().chain(&b) {
        let verb = call.operation.verb();
        match &call.outcome {
            Err(failure) if !failure.is("conflict") && !failure.is("not-found") => {
                findings.push(finding(Rule::UnexplainedError, verb, failure.message.clone()));
            }
            Ok(answer) if answer.remark.as_ref().is_some_and(|remark| remark.ends_with("tail: false")) => {
                let remark = answer.remark.clone().unwrap_or_default();
                findings.push(finding(Rule::OlderWorld, verb, remark));
            }
            _ => {}
        }
    }
    findings.extend(numbers_twice(&a, &b, ground.store_wide));
    let view = match view::look(worker, directory) {
        Ok(view) => view,
        Err(error) => {
            findings.push(finding(Rule::StateLost, "open", format!("the checker cannot load: {error}")));
            return findings;
        }
    };
    lines.push(format!("found: {}", view.state));
    let left = view::leftovers(directory, ground.clean(worker), &view, ground.store_wide);
    if !left.is_empty() {
        findings.push(finding(Rule::Leftover, "open", left.join(", ")));
    }
    findings.extend(explain(worker, &a, &b, &view));
    findings
}

/// Numbers that were acknowledged twice. Where they count in each slot, a slot that was deleted or renamed begins anew.
fn numbers_twice(a: &[Call], b: &[Call], store_wide: bool) -> Vec<Finding> {
    let all: Vec<&Call> = a.iter().chain(b).collect();
    let number = |call: &Call| {
        let number = call.outcome.as_ref().ok()?.number?;
        match &call.operation {
            Operation::Save(slot, _) | Operation::Merge(slot) | Operation::Copy(_, slot) => {
                Some((if store_wide { String::new() } else { slot.clone() }, number))
            }
            _ => None,
        }
    };
    let begins_anew = |slot: &str, from: u64, to: u64| {
        let touches = |call: &&&Call| match &call.operation {
            Operation::Delete(of) => of == slot,
            Operation::Rename(of, to) => of == slot || to == slot,
            _ => false,
        };
        all.iter().filter(touches).any(|call| call.done > from && call.begin < to)
    };
    let mut findings = Vec::new();
    for (place, one) in all.iter().enumerate() {
        for other in &all[place + 1..] {
            let Some((slot, number)) = number(one).filter(|key| number(other).as_ref() == Some(key)) else {
                continue;
            };
            let (from, to) = (one.begin.min(other.begin), one.done.max(other.done));
            if store_wide || !begins_anew(&slot, from, to) {
                let what = format!("{number}: `{}` and `{}`", one.operation, other.operation);
                findings.push(finding(Rule::NumberTwice, one.operation.verb(), what));
            }
        }
    }
    findings
}

/// A state, and the world that each process has read and not yet written: a copy or a merge in the middle.
type Point = (State, [Option<u64>; 2]);

/// Looks for an order of all calls that explains every answer and the state at the end.
fn explain(worker: Worker, a: &[Call], b: &[Call], view: &View) -> Option<Finding> {
    let mut grid = vec![vec![BTreeSet::<Point>::new(); b.len() + 1]; a.len() + 1];
    grid[0][0].insert((State::default(), [None, None]));
    let mut furthest = (0, 0);
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            let points = with_reads(std::mem::take(&mut grid[i][j]), [a.get(i), b.get(j)]);
            if !points.is_empty() && i + j >= furthest.0 + furthest.1 {
                furthest = (i, j);
            }
            // A call that ended before the other one began comes first.
            if let Some(call) = a.get(i)
                && b.get(j).is_none_or(|other| other.done >= call.begin)
            {
                let overlaps = overlaps(call, b);
                grid[i + 1][j]
                    .extend(points.iter().flat_map(|point| after(worker, point, call, 0, overlaps)));
            }
            if let Some(call) = b.get(j)
                && a.get(i).is_none_or(|other| other.done >= call.begin)
            {
                let overlaps = overlaps(call, a);
                grid[i][j + 1]
                    .extend(points.iter().flat_map(|point| after(worker, point, call, 1, overlaps)));
            }
            grid[i][j] = points;
        }
    }
    let last = &grid[a.len()][b.len()];
    if last.iter().any(|(state, _)| state.describes(&view.state)) {
        return None;
    }
    if !last.is_empty() {
        let states: Vec<String> = last.iter().take(3).map(|(state, _)| format!("[{state}]")).collect();
        let what = format!("found [{}], possible {}", view.state, states.join(" or "));
        return Some(finding(Rule::StateLost, "open", what));
    }
    let (i, j) = furthest;
    let next =
        |call: Option<&Call>| call.map_or("the end".to_owned(), |call| format!("`{}`", call.operation));
    let states: Vec<String> = grid[i][j].iter().take(2).map(|(state, _)| format!("[{state}]")).collect();
    let what = format!(
        "no order explains all answers; with {} neither {} of a nor {} of b fits",
        states.join(" or "),
        next(a.get(i)),
        next(b.get(j))
    );
    let verb = a.get(i).or(b.get(j)).map_or("open", |call| call.operation.verb());
    Some(finding(Rule::OlderWorld, verb, what))
}

fn overlaps(call: &Call, others: &[Call]) -> bool {
    others.iter().any(|other| other.begin <= call.done && other.done >= call.begin)
}

/// Adds the points at which a process that copies or merges has read and not yet written.
fn with_reads(mut all: BTreeSet<Point>, next: [Option<&Call>; 2]) -> BTreeSet<Point> {
    for (half, call) in next.into_iter().enumerate() {
        let Some(Operation::Copy(from, _) | Operation::Merge(from)) = call.map(|call| &call.operation) else {
            continue;
        };
        let read: Vec<Point> = all
            .iter()
            .filter(|(_, held)| held[half].is_none())
            .filter_map(|(state, held)| {
                let mut held = *held;
                held[half] = Some(state.loaded(from)?);
                Some((state.clone(), held))
            })
            .collect();
        all.extend(read);
    }
    all
}

/// The points after a call.
fn after(worker: Worker, (state, held): &Point, call: &Call, half: usize, overlaps: bool) -> Vec<Point> {
    let mut empty = *held;
    empty[half] = None;
    let unchanged = vec![(state.clone(), empty)];
    let answer = match &call.outcome {
        // A conflict, or something that is gone: nothing has changed.
        Err(_) => return unchanged,
        Ok(answer) => answer,
    };
    let effect: Effect = match &call.operation {
        Operation::Load(slot) => {
            return if state.loaded(slot) == answer.world { unchanged } else { Vec::new() };
        }
        Operation::Merge(_) if answer.number.is_none() => return unchanged,
        // What was read is written: as a save of that world.
        Operation::Copy(_, slot) | Operation::Merge(slot) => match held[half] {
            Some(world) => effect(worker, &Operation::Save(slot.clone(), world), 1, state, None),
            None => return Vec::new(),
        },
        operation => effect(worker, operation, 1, state, Some(answer)),
    };
    let mut states = effect.loose;
    if overlaps && matches!(call.operation, Operation::Delete(_)) {
        // It deletes the saves that it has seen, one by one. Saves that come meanwhile stay.
        states.extend(effect.stopped);
    }
    states.into_iter().map(|state| (state, empty)).collect()
}

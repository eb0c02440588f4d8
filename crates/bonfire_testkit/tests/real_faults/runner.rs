//! Runs workers with faults, checks what they leave, goes on, and checks again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use bonfire_testkit::disk::Random;
use tempfile::TempDir;

use crate::check::{Rule, Trouble, Walk};
use crate::log::{self, Entry, Log};
use crate::operation::{Operation, Worker};
use crate::play::{Player, nth};
use crate::report::{Report, Violation};
use crate::strace::{self, CALLS, Injection};
use crate::view;

/// Runs of each worker at scale 1. At scale 100 there is no sample.
const RUNS: usize = 50;
const ALL_AT_SCALE: u32 = 100;

/// The seed of the sample.
const SEED: &str = "BONFIRE_FAULTS_SEED";

/// Threads that run workers.
const THREADS: usize = 2;

/// Makes a place for the files of one run.
pub(crate) fn place() -> TempDir {
    tempfile::Builder::new().prefix("real-faults-").tempdir().expect("a place for files")
}

/// Returns the directory under test. Workers with slots create it themselves; for others it is made here.
pub(crate) fn prepare(root: &Path, worker: Worker) -> PathBuf {
    let directory = root.join("saves");
    if worker == Worker::Path || worker.is_chunks() {
        std::fs::create_dir_all(&directory).expect("a place for files");
    }
    directory
}

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) worker: Worker,
    pub(crate) injection: Injection,
    /// After a stopped rename, the next process saves into the target slot before it repeats the rename.
    pub(crate) target_first: bool,
    /// The verb of the operation that makes the call.
    verb: String,
}

/// What all runs of a worker share.
pub(crate) struct Ground {
    clean: BTreeMap<Worker, BTreeSet<String>>,
    /// Whether numbers are unique over all slots.
    pub(crate) store_wide: bool,
}

impl Ground {
    pub(crate) fn new() -> Self {
        let clean = Worker::ALL.map(|worker| {
            let root = place();
            (worker, view::clean_patterns(worker, &prepare(root.path(), worker)))
        });
        Self { clean: clean.into(), store_wide: view::numbers_are_store_wide() }
    }

    /// The patterns of the names in a directory of this worker.
    pub(crate) fn clean(&self, worker: Worker) -> &BTreeSet<String> {
        &self.clean[&worker]
    }
}

/// Runs a worker without a fault and returns a job for every call that it makes, every error, once and for ever.
fn all_jobs(worker: Worker, report: &mut Report, ground: &Ground) -> Vec<Job> {
    let root = place();
    let directory = prepare(root.path(), worker);
    let ended = strace::run(worker, root.path(), None, false);
    let (lines, walk) = check(worker, root.path(), &ended, Trouble::None, false, ground);
    report.add(
        worker.name(),
        "no fault",
        walk.findings.iter().map(|finding| Violation {
            worker: worker.name().to_owned(),
            fault: "no fault".to_owned(),
            finding: finding.clone(),
            lines: lines.clone(),
        }),
    );
    let calls = strace::calls_of(&ended.trace, &directory);
    let mut seen = BTreeSet::new();
    let mut jobs = Vec::new();
    for call in calls {
        // Two threads may make the same call as their n-th one. One fault meets both.
        if !seen.insert((call.call, call.nth)) {
            continue;
        }
        let mut add = |fault: &'static str, forever: bool| {
            let injection = Injection { call: call.call, fault, nth: call.nth, forever };
            let verb = call.during.split(' ').next().unwrap_or_default();
            let is_rename = verb == "rename";
            for target_first in [false, true].into_iter().take(1 + usize::from(is_rename)) {
                jobs.push(Job { worker, injection: injection.clone(), target_first, verb: verb.to_owned() });
            }
        };
        add("KILL", false);
        let (_, errors) = CALLS.iter().find(|(name, _)| *name == call.call).expect("only known calls");
        for error in *errors {
            add(error, false);
            if *error != "EINTR" {
                add(error, true);
            }
        }
    }
    jobs
}

/// Chooses jobs by seed. Every operation is killed, fails once and fails for ever before any of that comes twice.
fn sample(mut jobs: Vec<Job>, count: usize, random: &mut Random) -> Vec<Job> {
    if jobs.len() <= count {
        return jobs;
    }
    for place in (1..jobs.len()).rev() {
        jobs.swap(place, random.below(place + 1));
    }
    let mut met = BTreeMap::new();
    let mut ranked: Vec<(usize, Job)> = Vec::new();
    for job in jobs {
        let kind = (job.verb.clone(), job.injection.is_kill(), job.injection.forever);
        let rank = met.entry(kind).or_insert(0);
        *rank += 1;
        ranked.push((*rank, job));
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().take(count).map(|(_, job)| job).collect()
}

/// Runs workers with faults: a sample at scale 1, everything at scale 100.
pub(crate) fn run_all(workers: &[Worker], ground: &Ground, only: Option<&str>, report: &mut Report) {
    let scale = bonfire_testkit::scale();
    let count = if scale < ALL_AT_SCALE { RUNS * scale as usize } else { usize::MAX };
    let seed = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut random = Random::new(seed);
    let mut jobs = Vec::new();
    for worker in workers {
        let all = all_jobs(*worker, report, ground);
        println!("{}: {} runs are possible", worker.name(), all.len());
        match only {
            Some(only) => jobs.extend(all.into_iter().filter(|job| fault_text(job).starts_with(only))),
            None => jobs.extend(sample(all, count, &mut random)),
        }
    }
    // Long and short workers side by side.
    for place in (1..jobs.len()).rev() {
        jobs.swap(place, random.below(place + 1));
    }
    let (next, start) = (AtomicUsize::new(0), Instant::now());
    let shared = Mutex::new(report);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = run(job, ground);
                    let fault = format!("{} {}", job.injection.call, job.injection.fault);
                    let mut report = shared.lock().unwrap_or_else(PoisonError::into_inner);
                    report.add(job.worker.name(), &fault, found.violations);
                    found.remarks.into_iter().for_each(|remark| report.remark(remark));
                    found.messages.into_iter().for_each(|message| report.message(message));
                    if report.runs().is_multiple_of(1000) {
                        println!("{} runs, {} violations", report.runs(), report.violations());
                    }
                }
            });
        }
    });
    println!("{} runs with a fault, seed {seed}, in {} s", jobs.len(), start.elapsed().as_secs());
}

/// The text that names a job, and by which it can be had again.
pub(crate) fn fault_text(job: &Job) -> String {
    let after = if job.target_first { " target-first" } else { "" };
    format!("{} {}{after}", job.worker.name(), job.injection)
}

/// The outcome of one job.
struct Found {
    violations: Vec<Violation>,
    /// Things that break no rule and are worth a look.
    remarks: Vec<String>,
    /// The messages of all errors.
    messages: Vec<String>,
}

/// Runs one job.
fn run(job: &Job, ground: &Ground) -> Found {
    let root = place();
    prepare(root.path(), job.worker);
    let ended = strace::run(job.worker, root.path(), Some(&job.injection), job.target_first);
    let trouble = match (job.injection.is_kill(), job.injection.forever) {
        (true, _) => Trouble::None,
        (_, true) => Trouble::Forever,
        _ => Trouble::Once,
    };
    let (mut lines, walk) = check(job.worker, root.path(), &ended, trouble, job.target_first, ground);
    let (_, entries) = log::read(&root.path().join("log"));
    let remarks = remarks(job, &entries);
    let messages = entries.iter().filter_map(|entry| {
        let failure = entry.outcome.as_ref()?.as_ref().err()?;
        Some(format!("{}: {} ({})", entry.operation.verb(), failure.message, failure.predicates.join(",")))
    });
    let messages = messages.collect();
    let hit = ended.trace.iter().find(|line| line.contains("INJECTED") || line.contains("killed"));
    lines.push(format!("the fault: {}", hit.map_or("not met", |hit| hit.as_str())));
    let fault = fault_text(job);
    let violation = |finding| Violation {
        worker: job.worker.name().to_owned(),
        fault: fault.clone(),
        finding,
        lines: lines.clone(),
    };
    Found { violations: walk.findings.into_iter().map(violation).collect(), remarks, messages }
}

/// Errors that a store could have spared its caller.
fn remarks(job: &Job, entries: &[Entry]) -> Vec<String> {
    let Injection { call, fault, .. } = &job.injection;
    let mut remarks = Vec::new();
    for entry in entries {
        let (verb, Some(Err(failure))) = (entry.operation.verb(), &entry.outcome) else { continue };
        if *fault == "EINTR" && failure.is("io") && !failure.is("not-found") {
            remarks.push(format!("EINTR at {call} makes `{verb}` fail"));
        }
        let says_sync =
            failure.message.contains("sync failed") || failure.message.contains("an earlier sync");
        if says_sync && !["fsync", "fdatasync"].contains(call) {
            remarks.push(format!(
                "{}: {fault} at {call}, then `{verb}`: {}",
                job.worker.name(),
                failure.message
            ));
        }
    }
    remarks.sort();
    remarks.dedup();
    remarks
}

/// Follows the log of a worker, looks at the directory, goes on, and looks again. Returns all lines, too.
fn check(
    worker: Worker,
    root: &Path,
    ended: &strace::Ended,
    trouble: Trouble,
    target_first: bool,
    ground: &Ground,
) -> (Vec<String>, Walk) {
    let (mut lines, entries) = log::read(&root.join("log"));
    let mut walk = Walk::new(worker, trouble, ground.store_wide);
    entries.iter().zip(1..).for_each(|(entry, line)| walk.take(entry, line));
    walk.end();
    if let Some(problem) = &ended.problem {
        walk.find_here(Rule::Ended, problem.clone());
    }
    walk.trouble = Trouble::None;
    let directory = root.join("saves");
    let unfinished = walk.unfinished.clone();
    let rename = unfinished.iter().find(|operation| matches!(operation, Operation::Rename(..)));
    let was_possible = look(worker, &directory, &mut walk, Moment::AfterOpen, ground, &mut lines);
    walk.is_split = !was_possible && rename.is_some() && !target_first;
    let after = go_on(worker, &directory, &unfinished, target_first);
    let entries = log::parse(&after);
    entries.iter().zip(lines.len() + 1..).for_each(|(entry, line)| walk.take(entry, line));
    lines.extend(after);
    let fails = |entry: &Entry| {
        Some(&entry.operation) == rename && entry.outcome.as_ref().is_some_and(Result::is_err)
    };
    if let Some(rename) = rename.filter(|_| walk.is_split && entries.iter().any(fails)) {
        walk.find(Rule::RenameUnfinished, rename, format!("`{rename}` fails on a healthy disk"));
    }
    walk.end();
    look(worker, &directory, &mut walk, Moment::AtLast, ground, &mut lines);
    (lines, walk)
}

/// When the checker looks at the directory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    AfterOpen,
    AtLast,
}

/// Looks at the directory. Returns whether its state was possible.
pub(crate) fn look(
    worker: Worker,
    directory: &Path,
    walk: &mut Walk,
    moment: Moment,
    ground: &Ground,
    lines: &mut Vec<String>,
) -> bool {
    let view = match view::look(worker, directory) {
        Ok(view) => view,
        Err(error) => {
            walk.find_here(Rule::StateLost, format!("the checker cannot load everything: {error}"));
            return false;
        }
    };
    lines.push(format!("found: {}", view.state));
    walk.line = lines.len();
    let is_possible = walk.compare(&view);
    let left = view::leftovers(directory, ground.clean(worker), &view, ground.store_wide);
    // Nothing opens the directory of a path: there, the next save removes what is left.
    if !left.is_empty() && (worker != Worker::Path || moment == Moment::AtLast) {
        let when = if moment == Moment::AfterOpen { "after an open" } else { "after the next save" };
        walk.find_here(Rule::Leftover, format!("{when}: {}", left.join(", ")));
    }
    is_possible
}

/// Another process goes on: it repeats what failed or was stopped, saves, and loads. It runs in this process, which
/// injects nothing.
pub(crate) fn go_on(
    worker: Worker,
    directory: &Path,
    unfinished: &[Operation],
    target_first: bool,
) -> Vec<String> {
    let slot = match worker {
        Worker::Autosave => "autosave",
        _ if worker.lists_saves() => "auto",
        _ => "world",
    };
    let mut script = vec![Operation::Open];
    for operation in unfinished {
        if let (Operation::Rename(_, to), true) = (operation, target_first) {
            script.push(Operation::Save(to.clone(), 9000));
        }
        // A world of its own: the one of the failed call may be there.
        script.push(nth(operation, 6));
    }
    script.extend([Operation::Save(slot.to_owned(), 9010), Operation::Load(slot.to_owned())]);
    if worker.has_journals() {
        script.extend([9020, 9030].map(|world| Operation::Tick(slot.to_owned(), world)));
        script.push(Operation::Load(slot.to_owned()));
    }
    if worker.is_chunks() {
        script.extend([Operation::Compact, Operation::Open, Operation::Load(slot.to_owned())]);
    }
    let mut log = Log::Memory(Vec::new());
    Player::new(worker, directory, &mut log).play(&script);
    let Log::Memory(lines) = log else { unreachable!("it is in memory") };
    lines
}

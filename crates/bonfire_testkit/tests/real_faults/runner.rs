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
use crate::play::Player;
use crate::report::{Report, Violation};
use crate::strace::{self, CALLS, Injection};
use crate::view;

/// The seed of the sample.
pub(crate) const SEED: u64 = 1;

/// Runs of each worker at scale 1.
const RUNS: usize = 40;

/// Threads that run workers.
const THREADS: usize = 2;

/// Makes a place for the files of one run.
pub(crate) fn place() -> TempDir {
    tempfile::Builder::new().prefix("real-faults-").tempdir().expect("a place for files")
}

/// Makes the directory under test. Workers with slots create it themselves.
fn directory_in(root: &Path, worker: Worker) -> PathBuf {
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
            (worker, view::clean_patterns(worker, &directory_in(root.path(), worker)))
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
    let directory = directory_in(root.path(), worker);
    let ended = strace::run(worker, root.path(), None);
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
            let is_rename = call.during.starts_with("rename");
            for target_first in [false, true].into_iter().take(1 + usize::from(is_rename)) {
                jobs.push(Job { worker, injection: injection.clone(), target_first });
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

/// Chooses jobs by seed. Every call and fault of the worker comes before any comes twice.
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
        let kind = (job.injection.call, job.injection.is_kill(), job.injection.forever);
        let rank = met.entry(kind).or_insert(0);
        *rank += 1;
        ranked.push((*rank, job));
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().take(count).map(|(_, job)| job).collect()
}

/// Runs workers with faults: a sample at scale 1, everything at scale 100.
pub(crate) fn run_all(workers: &[Worker], ground: &Ground, only: Option<&str>, report: &mut Report) {
    let count = RUNS * bonfire_testkit::scale() as usize;
    let mut random = Random::new(SEED);
    let mut jobs = Vec::new();
    for worker in workers {
        let all = all_jobs(*worker, report, ground);
        println!("{}: {} runs are possible", worker.name(), all.len());
        match only {
            Some(only) => jobs.extend(all.into_iter().filter(|job| fault_text(job).contains(only))),
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
                    report.add(job.worker.name(), &fault, found);
                }
            });
        }
    });
    println!("{} runs with a fault in {} s", jobs.len(), start.elapsed().as_secs());
}

/// The text that names a job, and by which it can be had again.
pub(crate) fn fault_text(job: &Job) -> String {
    let after = if job.target_first { " target-first" } else { "" };
    format!("{} {}{after}", job.worker.name(), job.injection)
}

/// Runs one job. Returns the violations.
fn run(job: &Job, ground: &Ground) -> Vec<Violation> {
    let root = place();
    directory_in(root.path(), job.worker);
    let ended = strace::run(job.worker, root.path(), Some(&job.injection));
    let trouble = match (job.injection.is_kill(), job.injection.forever) {
        (true, _) => Trouble::None,
        (_, true) => Trouble::Forever,
        _ => Trouble::Once,
    };
    let (mut lines, walk) = check(job.worker, root.path(), &ended, trouble, job.target_first, ground);
    let hit = ended.trace.iter().find(|line| line.contains("INJECTED") || line.contains("killed"));
    lines.push(format!("the fault: {}", hit.map_or("not met", |hit| hit.as_str())));
    let fault = fault_text(job);
    let violation = |finding| Violation {
        worker: job.worker.name().to_owned(),
        fault: fault.clone(),
        finding,
        lines: lines.clone(),
    };
    walk.findings.into_iter().map(violation).collect()
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
enum Moment {
    AfterOpen,
    AtLast,
}

/// Looks at the directory. Returns whether its state was possible.
fn look(
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
fn go_on(worker: Worker, directory: &Path, unfinished: &[Operation], target_first: bool) -> Vec<String> {
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
        script.push(operation.clone());
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

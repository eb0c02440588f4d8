//! Runs workers with faults: all of them, or a sample.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use bonfire_testkit::disk::Random;

use crate::aftermath::{Ground, check, place, prepare};
use crate::check::Trouble;
use crate::log::{self, Entry};
use crate::operation::Worker;
use crate::report::{Finding, Report, Rule, Violation};
use crate::strace::{self, CALLS, Injection};

/// Runs of each worker at scale 1. At scale 100 there is no sample.
const RUNS: usize = 50;
const ALL_AT_SCALE: u32 = 100;

/// The seed of the sample.
const SEED: &str = "BONFIRE_FAULTS_SEED";

/// Threads that run workers.
const THREADS: usize = 2;

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
    if let Some(only) = only.filter(|_| jobs.is_empty() && !workers.is_empty()) {
        println!("NOT RUN: no run is named `{only}`");
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
                    let found = catch_unwind(AssertUnwindSafe(|| run(job, ground)));
                    let found = found.unwrap_or_else(|panic| Found::of_panic(job, &*panic));
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

impl Found {
    /// Something panicked in this process: the store, while the checker looked or another worker went on.
    fn of_panic(job: &Job, panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let what = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no text").to_owned();
        let finding = Finding { rule: Rule::Ended, verb: "open", what, line: 0 };
        let (worker, fault) = (job.worker.name().to_owned(), fault_text(job));
        let violation = Violation { worker, fault, finding, lines: Vec::new() };
        Self { violations: vec![violation], remarks: Vec::new(), messages: Vec::new() }
    }
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
    let mut remarks = remarks(job, &entries);
    let messages = entries.iter().filter_map(|entry| {
        let failure = entry.outcome.as_ref()?.as_ref().err()?;
        let message = failure.message.replace(&*root.path().to_string_lossy(), "ROOT");
        Some(format!("{}: {message} ({})", entry.operation.verb(), failure.predicates.join(",")))
    });
    let messages = messages.collect();
    let hit = ended.trace.iter().find(|line| line.contains("INJECTED") || line.contains("killed"));
    if hit.is_none() {
        remarks.push(format!("{}: the fault was not met", job.worker.name()));
    }
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

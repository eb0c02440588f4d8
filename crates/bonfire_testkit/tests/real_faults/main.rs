//! Real faults: worker processes save through the public API while strace makes their system calls fail or kills them. A
//! checker compares what they leave with a log of what was acknowledged.
//!
//! | part | what it does |
//! |---|---|
//! | `operation`, `world` | scripts of the workers, and worlds that carry a number |
//! | `subject`, `chunk_subject`, `app_subject`, `play` | the worker process: operations on the public API |
//! | `log` | the log of acknowledgements, outside of the directory under test |
//! | `model`, `check`, `view` | what may be there, what was answered, what is there |
//! | `strace`, `runner` | processes with faults: all, or a sample |
//! | `aftermath` | what they leave, and another worker that goes on |
//! | `two_processes`, `file_systems`, `clock` | trouble without strace |
//! | `report` | the rules, counts and violations |
//!
//! It has no test harness: a worker process is this program again, and must make no disk calls but its own. Arguments that
//! do not begin with a dash choose workers or parts by name: `cargo test --test real_faults -- journal two-processes`.
//!
//! | variable | meaning |
//! |---|---|
//! | `BONFIRE_TEST_SCALE` | 1: a sample. 100: every call, every error, once and for ever, and 1000 rounds of two processes |
//! | `BONFIRE_FAULTS_SEED` | the seed of the sample, 1 by default |
//! | `BONFIRE_FAULTS_ONLY` | one run, as the report names it |
//! | `BONFIRE_FAULTS_MESSAGES` | print the messages of all errors |
//! | `TMPDIR` | where the directories lie, and so which file system is tested |

#[cfg(target_os = "linux")]
mod aftermath;
#[cfg(target_os = "linux")]
mod app_subject;
#[cfg(target_os = "linux")]
mod check;
#[cfg(target_os = "linux")]
mod chunk_subject;
#[cfg(target_os = "linux")]
mod clock;
#[cfg(target_os = "linux")]
mod file_systems;
#[cfg(target_os = "linux")]
mod log;
#[cfg(target_os = "linux")]
mod model;
#[cfg(target_os = "linux")]
mod operation;
#[cfg(target_os = "linux")]
mod play;
#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
mod runner;
#[cfg(target_os = "linux")]
mod strace;
#[cfg(target_os = "linux")]
mod subject;
#[cfg(target_os = "linux")]
mod two_processes;
#[cfg(target_os = "linux")]
mod view;
#[cfg(target_os = "linux")]
mod world;

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("NOT RUN: strace needs Linux");
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    use std::process::ExitCode;

    use operation::Worker;

    if strace::run_worker() || two_processes::run_half() {
        return ExitCode::SUCCESS;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        println!("real_faults: test");
        return ExitCode::SUCCESS;
    }
    if let Some(problem) = strace::problem() {
        println!("NOT RUN: {problem}");
        let is_ci = std::env::var("CI").as_deref() == Ok("true");
        return if is_ci { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    let chosen: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let is_chosen = |name: &str| chosen.is_empty() || chosen.iter().any(|chosen| *chosen == name);
    let only = std::env::var("BONFIRE_FAULTS_ONLY").ok();
    let mut report = report::Report::default();
    let workers: Vec<Worker> = Worker::ALL
        .into_iter()
        .filter(|worker| is_chosen(worker.name()))
        .filter(|worker| only.as_ref().is_none_or(|only| only.split(' ').next() == Some(worker.name())))
        .collect();
    let ground = aftermath::Ground::new();
    runner::run_all(&workers, &ground, only.as_deref(), &mut report);
    if is_chosen("two-processes") {
        two_processes::run_all(&ground, only.as_deref(), &mut report);
    }
    if is_chosen("file-systems") {
        file_systems::run_all(&ground, only.as_deref(), &mut report);
    }
    if is_chosen("clock") && only.as_ref().is_none_or(|only| only == "clock") {
        clock::run(&mut report);
    }
    report.print();
    if report.violations() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

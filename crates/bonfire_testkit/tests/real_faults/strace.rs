//! Worker processes under strace, which makes system calls fail or kills the process at one of them.
//!
//! Why attach, and not start the worker under strace: `when=N` counts the calls of a thread from the moment strace sees
//! it. The loader of the process opens and reads files too, and how many depends on the machine. So the worker stops
//! itself before its script, strace attaches, and then the worker goes on. strace's path filter (`-P`) compares whole paths;
//! it cannot name the files of a directory that do not exist yet.
//!
//! Which calls are the worker's own is read from a run without a fault: there, strace prints the path of every
//! descriptor, and calls on other paths are left out.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{PTracer, Pid, Signal, WaitOptions, getpid, kill_process, set_ptracer, waitpid};

use crate::log::Log;
use crate::operation::Worker;
use crate::play::Player;

/// Variables of a worker process.
const WORKER: &str = "BONFIRE_FAULTS_WORKER";
const DIRECTORY: &str = "BONFIRE_FAULTS_DIRECTORY";
const LOG: &str = "BONFIRE_FAULTS_LOG";
const TARGET_FIRST: &str = "BONFIRE_FAULTS_TARGET_FIRST";

/// A worker that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The calls that are made to fail, with the errors that make sense for each. `EINTR` fails one call only: the standard
/// library repeats an interrupted call for ever. `write` is not among them, because workers write nothing with it but
/// their log.
pub(crate) const CALLS: [(&str, &[&str]); 20] = [
    ("openat", &["EIO", "EMFILE", "EACCES", "EROFS", "EINTR"]),
    ("pread64", &["EIO", "EINTR"]),
    ("read", &["EIO", "EINTR"]),
    ("pwrite64", &["EIO", "ENOSPC", "EINTR"]),
    ("pwritev", &["EIO", "ENOSPC", "EINTR"]),
    ("fsync", &["EIO", "ENOSPC", "EINTR"]),
    ("fdatasync", &["EIO", "ENOSPC", "EINTR"]),
    ("rename", &["EIO", "ENOSPC", "EACCES", "EINTR"]),
    ("renameat", &["EIO", "ENOSPC", "EACCES", "EINTR"]),
    ("renameat2", &["EIO", "ENOSPC", "EACCES", "EINTR"]),
    ("unlink", &["EIO", "EACCES", "EROFS"]),
    ("unlinkat", &["EIO", "EACCES", "EROFS"]),
    ("flock", &["EIO", "EINTR"]),
    ("ftruncate", &["EIO", "EINTR"]),
    ("getdents64", &["EIO", "EINTR"]),
    ("statx", &["EIO", "EACCES"]),
    ("fstat", &["EIO"]),
    ("newfstatat", &["EIO", "EACCES"]),
    ("mkdir", &["EIO", "ENOSPC", "EACCES", "EROFS"]),
    ("mkdirat", &["EIO", "ENOSPC", "EACCES", "EROFS"]),
];

/// One fault: at which call, which error or a kill, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Injection {
    pub(crate) call: &'static str,
    /// An error, or `KILL`.
    pub(crate) fault: &'static str,
    pub(crate) nth: usize,
    pub(crate) forever: bool,
}

impl Injection {
    pub(crate) fn is_kill(&self) -> bool {
        self.fault == "KILL"
    }

    fn expression(&self) -> String {
        let Self { call, fault, nth, forever } = self;
        let kind = if self.is_kill() { "signal" } else { "error" };
        format!("inject={call}:{kind}={fault}:when={nth}{}", if *forever { "+" } else { "" })
    }
}

impl std::fmt::Display for Injection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let often = if self.forever { "forever" } else { "once" };
        write!(f, "{} {} {} {often}", self.call, self.fault, self.nth)
    }
}

/// How a worker ended.
pub(crate) struct Ended {
    /// Why that is no proper end.
    pub(crate) problem: Option<String>,
    /// The lines of strace.
    pub(crate) trace: Vec<String>,
}

/// Says why strace cannot be used, if it cannot.
pub(crate) fn problem() -> Option<String> {
    let mut command = Command::new("strace");
    let version = command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !version.is_ok_and(|status| status.success()) {
        return Some("strace is not installed".to_owned());
    }
    let root = crate::aftermath::place();
    let mut command = worker_command(Worker::Path, root.path(), false);
    let worker = Killed(start_stopped(command.stderr(Stdio::null())));
    attach(&worker.0, root.path(), None).err()
}

/// Plays the script of a worker, if this process is one. Returns whether it is.
pub(crate) fn run_worker() -> bool {
    let Ok(worker) = std::env::var(WORKER) else { return false };
    let path = |name| std::path::PathBuf::from(std::env::var_os(name).expect("the runner sets it"));
    let (directory, log) = (path(DIRECTORY), path(LOG));
    let worker = Worker::parse(&worker).expect("the runner knows the workers");
    let mut log = Log::open(&log, "a").expect("the runner made a place for the log");
    // Systems that allow only a parent to trace must hear that this process agrees. Others have no such call.
    let _ = set_ptracer(PTracer::Any);
    kill_process(getpid(), Signal::STOP).expect("a process can stop itself");
    let mut player = Player::new(worker, &directory, &mut log);
    player.target_first = std::env::var_os(TARGET_FIRST).is_some();
    player.play(&worker.script());
    true
}

/// Starts a process of this program that stops itself before its work, and waits until it has.
pub(crate) fn start_stopped(command: &mut Command) -> Child {
    let child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("this program can be started");
    let stopped = waitpid(Some(pid(&child)), WaitOptions::UNTRACED).expect("it is a child");
    assert!(stopped.is_some_and(|(_, status)| status.stopped()), "the worker ended before its script");
    child
}

pub(crate) fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

fn worker_command(worker: Worker, root: &Path, target_first: bool) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.env(WORKER, worker.name()).env(DIRECTORY, root.join("saves")).env(LOG, root.join("log"));
    if target_first {
        command.env(TARGET_FIRST, "1");
    }
    command
}

/// Runs a worker in `root`, with a fault if one is given. The directory under test is `root/saves`.
pub(crate) fn run(worker: Worker, root: &Path, injection: Option<&Injection>, target_first: bool) -> Ended {
    let errors = File::create(root.join("stderr")).expect("a place for files");
    let child = start_stopped(worker_command(worker, root, target_first).stderr(errors));
    let mut child = Killed(child);
    let mut strace = attach(&child.0, root, injection).expect("strace could attach before");
    let (status, hung) = wait(&mut child.0);
    drop(child);
    let _ = strace.0.wait();
    let trace = std::fs::read_to_string(root.join("trace")).unwrap_or_default();
    let trace = trace.lines().map(str::to_owned).collect();
    let killed = injection.is_some_and(Injection::is_kill);
    let problem = match (hung, status) {
        (true, _) => Some(format!("no end after {} s", PATIENCE.as_secs())),
        (_, Some(0)) => None,
        (_, None) if killed => None,
        (_, code) => {
            let errors = std::fs::read_to_string(root.join("stderr")).unwrap_or_default();
            Some(format!("exit code {code:?}: {}", errors.trim()))
        }
    };
    Ended { problem, trace }
}

/// Attaches strace to a stopped process, and lets the process go on.
fn attach(child: &Child, root: &Path, injection: Option<&Injection>) -> Result<Killed, String> {
    let mut command = Command::new("strace");
    command.args(["-f", "-o"]).arg(root.join("trace")).args(["-p", &child.id().to_string()]);
    match injection {
        Some(injection) => {
            command.args(["-e", &format!("trace={}", injection.call), "-e", &injection.expression()]);
        }
        None => {
            // Writes show the log, which says what the worker is doing.
            let calls: Vec<String> = CALLS.iter().map(|(call, _)| format!("?{call}")).collect();
            command.args(["-y", "-s", "200", "-e", &format!("trace=write,{}", calls.join(","))]);
        }
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut strace = Killed(command.spawn().expect("strace is installed"));
    // It says so when the next call of the process will be traced.
    let mut lines = BufReader::new(strace.0.stderr.take().expect("it is piped")).lines();
    let said: Vec<String> = lines.by_ref().take(1).map_while(Result::ok).collect();
    if !said.iter().any(|line| line.contains("attached")) {
        return Err(format!("strace cannot attach: {}", said.join(" ")));
    }
    kill_process(pid(child), Signal::CONT).expect("it is stopped");
    // A full pipe would stop strace.
    std::thread::spawn(move || lines.for_each(drop));
    Ok(strace)
}

/// Waits for the end of a process. Returns its exit code, and whether it hung.
pub(crate) fn wait(child: &mut Child) -> (Option<i32>, bool) {
    let start = Instant::now();
    loop {
        match child.try_wait().expect("it is a child") {
            Some(status) => return (status.code(), false),
            None if start.elapsed() > PATIENCE => return (None, true),
            None => std::thread::sleep(Duration::from_micros(500)),
        }
    }
}

/// A process that ends with its runner.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A call that a worker made in a run without a fault.
#[derive(Clone, Debug)]
pub(crate) struct TracedCall {
    pub(crate) call: &'static str,
    /// How many calls of this name its thread has made, with this one.
    pub(crate) nth: usize,
    /// The operation during which it was made.
    pub(crate) during: String,
}

/// Lists the calls of a trace that concern `directory`.
pub(crate) fn calls_of(trace: &[String], directory: &Path) -> Vec<TracedCall> {
    let directory = directory.to_str().expect("a temporary directory has a plain name");
    let mut counts = std::collections::BTreeMap::new();
    let mut calls = Vec::new();
    let mut during = String::new();
    for line in trace {
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let Some((name, arguments)) = rest.trim_start().split_once('(') else { continue };
        if let Some((_, operation)) = arguments.split_once(" begin ") {
            during = operation.split("\\n").next().unwrap_or_default().to_owned();
        }
        let Some((call, _)) = CALLS.iter().find(|(call, _)| *call == name) else { continue };
        let count = counts.entry((thread.to_owned(), *call)).or_insert(0);
        *count += 1;
        if arguments.contains(directory) {
            calls.push(TracedCall { call, nth: *count, during: during.clone() });
        }
    }
    calls
}

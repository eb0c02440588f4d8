//! Real file systems in trouble: a full one, a read-only one, a directory that goes away under the worker.
//!
//! A small tmpfs is mounted, and an ext4 in a file where the system allows it. Without the right to mount, this part says so
//! and the injected errors have to do: `ENOSPC` and `EROFS` at every call.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::aftermath::{Ground, Moment, go_on, look, place, prepare};
use crate::check::{Trouble, Walk};
use crate::log::{self, Log};
use crate::operation::{Operation, Worker, script};
use crate::play::Player;
use crate::report::{Finding, Report, Rule, Violation};

const WORKERS: [Worker; 6] =
    [Worker::Slots, Worker::Journal, Worker::SealedJournal, Worker::Value, Worker::Chunks, Worker::Autosave];

/// Bytes that are free on the full file system when the worker starts.
const FREE_KIB: [usize; 7] = [0, 4, 8, 16, 24, 40, 64];

/// A file system that is unmounted at the end.
struct Mounted(PathBuf);

impl Mounted {
    /// Mounts a file system of about a mebibyte. `None` if the system does not allow it.
    fn new(kind: &str, root: &Path) -> Option<Self> {
        let at = root.join("mounted");
        std::fs::create_dir(&at).ok()?;
        let mut mount = Command::new("mount");
        if kind == "tmpfs" {
            mount.args(["-t", "tmpfs", "-o", "size=512k", "tmpfs"]);
        } else {
            let image = root.join("image");
            std::fs::File::create(&image).and_then(|file| file.set_len(2 << 20)).ok()?;
            run(Command::new("mkfs.ext4").arg("-q").arg(&image))?;
            mount.args(["-o", "loop"]).arg(image);
        }
        run(mount.arg(&at))?;
        Some(Self(at))
    }

    fn remount(&self, option: &str) {
        let mut command = Command::new("mount");
        run(command.args(["-o", &format!("remount,{option}")]).arg(&self.0)).expect("it can be remounted");
    }

    /// Writes a file until nothing more fits, then cuts it.
    fn fill(&self, free_kib: usize) -> PathBuf {
        use std::io::Write;
        let path = self.0.join("filler");
        let mut file = std::fs::File::create(&path).expect("an empty file system");
        let mut len = 0;
        while let Ok(written) = file.write(&[7; 4096]) {
            len += written as u64;
        }
        let _ = file.sync_all();
        file.set_len(len.saturating_sub((free_kib as u64) << 10)).expect("a file can be cut");
        let _ = file.sync_all();
        path
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = run(Command::new("umount").arg(&self.0));
    }
}

fn run(command: &mut Command) -> Option<()> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success()).then_some(())
}

/// Runs all of them, or the one that `only` names.
pub(crate) fn run_all(ground: &Ground, only: Option<&str>, report: &mut Report) {
    let is_wanted = |name: &str| only.is_none_or(|only| only == name);
    for kind in ["tmpfs", "ext4"] {
        let root = place();
        if Mounted::new(kind, root.path()).is_none() {
            println!("NOT RUN: {kind} cannot be mounted here; only injected errors stand for a full disk");
            continue;
        }
        for (worker, free_kib) in WORKERS.iter().flat_map(|worker| FREE_KIB.map(|free| (*worker, free))) {
            let name = format!("file-systems {} full {kind}, {free_kib} KiB free", worker.name());
            if is_wanted(&name) {
                add(report, worker, name, full(kind, worker, free_kib, ground));
            }
        }
    }
    for worker in WORKERS {
        let name = format!("file-systems {} read-only", worker.name());
        if is_wanted(&name)
            && let Some(found) = read_only(worker, ground, report)
        {
            add(report, worker, name, found);
        }
        let name = format!("file-systems {} removed directory", worker.name());
        if is_wanted(&name) {
            let found = removed(worker, ground, report);
            add(report, worker, name, found);
        }
    }
}

type Found = (Vec<String>, Vec<Finding>);

fn add(report: &mut Report, worker: Worker, fault: String, (lines, findings): Found) {
    let name = format!("file systems, {}", worker.name());
    let violation =
        |finding| Violation { worker: name.clone(), fault: fault.clone(), finding, lines: lines.clone() };
    let violations: Vec<Violation> = findings.into_iter().map(violation).collect();
    report.add(&name, "file system", violations);
}

/// Plays a script in this process, and follows it.
fn play(worker: Worker, directory: &Path, script: &[Operation], walk: &mut Walk, lines: &mut Vec<String>) {
    let mut log = Log::Memory(Vec::new());
    Player::new(worker, directory, &mut log).play(script);
    follow(log, walk, lines);
}

fn follow(log: Log, walk: &mut Walk, lines: &mut Vec<String>) {
    let Log::Memory(more) = log else { unreachable!("it is in memory") };
    let entries = log::parse(&more);
    entries.iter().zip(lines.len() + 1..).for_each(|(entry, line)| walk.take(entry, line));
    lines.extend(more);
}

/// Looks, goes on and looks again, once the trouble is over.
fn finish(
    worker: Worker,
    directory: &Path,
    mut walk: Walk,
    mut lines: Vec<String>,
    ground: &Ground,
) -> Found {
    walk.trouble = Trouble::None;
    let unfinished = walk.unfinished.clone();
    let was_possible = look(worker, directory, &mut walk, Moment::AfterOpen, ground, &mut lines);
    walk.is_split = !was_possible;
    let after = go_on(worker, directory, &unfinished, false);
    follow(Log::Memory(after), &mut walk, &mut lines);
    look(worker, directory, &mut walk, Moment::AtLast, ground, &mut lines);
    (lines, walk.findings)
}

/// The disk becomes full somewhere in the script. Then it has room again.
fn full(kind: &str, worker: Worker, free_kib: usize, ground: &Ground) -> Found {
    let root = place();
    let mounted = Mounted::new(kind, root.path()).expect("it could be mounted before");
    let directory = prepare(&mounted.0, worker);
    let filler = mounted.fill(free_kib);
    let mut walk = Walk::new(worker, Trouble::Forever, ground.store_wide);
    let mut lines = Vec::new();
    play(worker, &directory, &worker.script(), &mut walk, &mut lines);
    std::fs::remove_file(filler).expect("a file can be removed from a full disk");
    finish(worker, &directory, walk, lines, ground)
}

/// The calls after a script that has saved something.
fn later(worker: Worker) -> (Vec<Operation>, Vec<Operation>) {
    let slot = if worker == Worker::Autosave { "autosave" } else { "world" };
    let slot = if worker.lists_saves() { "auto" } else { slot };
    let before = script(&format!("open|save {slot} 100|save {slot} 110"));
    (before, script(&format!("load {slot}|save {slot} 120|load {slot}")))
}

/// The file system becomes read-only. Loads work, saves fail with an I/O error, and later all is as before.
fn read_only(worker: Worker, ground: &Ground, report: &mut Report) -> Option<Found> {
    let root = place();
    let mounted = Mounted::new("tmpfs", root.path())?;
    let directory = prepare(&mounted.0, worker);
    let (before, after) = later(worker);
    let mut walk = Walk::new(worker, Trouble::Forever, ground.store_wide);
    let mut lines = Vec::new();
    play(worker, &directory, &before, &mut walk, &mut lines);
    mounted.remount("ro");
    let script: Vec<Operation> = [Operation::Open].into_iter().chain(after).collect();
    play(worker, &directory, &script, &mut walk, &mut lines);
    mounted.remount("rw");
    let loads = lines.iter().filter(|line| line.contains("done load") && line.contains(": ok")).count();
    if loads < 2 {
        let first = lines.iter().find(|line| line.contains(": error")).cloned().unwrap_or_default();
        report.remark(format!("{}: a read-only file system: {}", worker.name(), after_time(&first)));
    }
    let refused = |line: &&String| line.contains(": error") && !line.contains("read-only");
    let wrong = lines.iter().find(refused).map(|line| after_time(line));
    let (lines, mut findings) = finish(worker, &directory, walk, lines, ground);
    if let Some(what) = wrong {
        findings.push(Finding { rule: Rule::NotReadOnly, verb: "save", what, line: lines.len() });
    }
    Some((lines, findings))
}

/// The directory goes away while it is open. A load must not report it as a directory without saves.
fn removed(worker: Worker, ground: &Ground, report: &mut Report) -> Found {
    let root = place();
    let directory = prepare(root.path(), worker);
    let (before, after) = later(worker);
    let mut walk = Walk::new(worker, Trouble::Forever, ground.store_wide);
    let mut lines = Vec::new();
    let mut log = Log::Memory(Vec::new());
    let mut player = Player::new(worker, &directory, &mut log);
    player.play(&before);
    std::fs::rename(&directory, root.path().join("elsewhere")).expect("a directory can be moved");
    player.play(&after);
    drop(player);
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::rename(root.path().join("elsewhere"), &directory).expect("a directory can be moved");
    if let Log::Memory(all) = &log {
        for line in all.iter().filter(|line| line.contains("1 done save") && line.contains(": error")) {
            report.remark(format!("{}: a removed directory: {}", worker.name(), after_time(line)));
        }
    }
    follow(log, &mut walk, &mut lines);
    finish(worker, &directory, walk, lines, ground)
}

/// A line of the log without its time, process and step.
fn after_time(line: &str) -> String {
    line.splitn(4, ' ').nth(3).unwrap_or(line).to_owned()
}

//! What comes after a run: the checker follows the log, looks at the directory, lets another worker go on, and looks again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::check::{Trouble, Walk};
use crate::log::{self, Entry, Log};
use crate::operation::{Operation, Worker};
use crate::play::{Player, nth};
use crate::report::Rule;
use crate::strace;
use crate::view;

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

/// Follows the log of a worker, looks at the directory, goes on, and looks again. Returns all lines, too.
pub(crate) fn check(
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

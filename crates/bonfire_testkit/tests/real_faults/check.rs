//! The checker: follows the log of a worker through the model, and names every answer that the model cannot explain.

use std::collections::{BTreeMap, BTreeSet};

use crate::log::{Answer, Entry, Failure, Outcome};
use crate::model::{State, effect};
use crate::operation::{Operation, Worker};
use crate::report::{Finding, Rule};
use crate::view::View;

/// How calls may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// No call may fail.
    None,
    /// One call fails.
    Once,
    /// All calls fail from some point on.
    Forever,
}

/// Whether two operations are attempts of the same step. Attempts of a save have worlds of their own.
fn is_same_step(one: &Operation, other: &Operation) -> bool {
    match (one, other) {
        (Operation::Save(slot, a), Operation::Save(of, b))
        | (Operation::Tick(slot, a), Operation::Tick(of, b))
        | (Operation::Recovery(slot, a), Operation::Recovery(of, b)) => slot == of && a / 10 == b / 10,
        _ => one == other,
    }
}

/// Follows one directory through a faulty run and what comes after it.
pub(crate) struct Walk {
    worker: Worker,
    pub(crate) trouble: Trouble,
    possible: BTreeSet<State>,
    /// Calls that failed with an I/O error.
    io_errors: usize,
    /// The model knows nothing more until the next look at the directory.
    lost_track: bool,
    in_flight: Option<(Operation, usize)>,
    /// Operations that failed or were stopped, and were not repeated with success.
    pub(crate) unfinished: Vec<Operation>,
    /// The directory was found in the middle of a rename.
    pub(crate) is_split: bool,
    numbers: Numbers,
    /// The line of the log that is being judged.
    pub(crate) line: usize,
    pub(crate) findings: Vec<Finding>,
}

/// The numbers that were acknowledged.
#[derive(Default)]
struct Numbers {
    store_wide: bool,
    largest: BTreeMap<String, u64>,
}

impl Numbers {
    fn forget_slots(&mut self) {
        self.largest.retain(|slot, _| slot.is_empty());
    }
}

impl Walk {
    pub(crate) fn new(worker: Worker, trouble: Trouble, store_wide: bool) -> Self {
        Self {
            worker,
            trouble,
            possible: BTreeSet::from([State::default()]),
            io_errors: 0,
            lost_track: false,
            in_flight: None,
            unfinished: Vec::new(),
            is_split: false,
            numbers: Numbers { store_wide, ..Numbers::default() },
            line: 0,
            findings: Vec::new(),
        }
    }

    /// Adds a finding. One run reports each kind once.
    pub(crate) fn find(&mut self, rule: Rule, operation: &Operation, what: impl Into<String>) {
        let verb = operation.verb();
        if !self.findings.iter().any(|found| found.rule == rule && found.verb == verb) {
            self.findings.push(Finding { rule, verb, what: what.into(), line: self.line });
        }
    }

    /// Takes the next line of the log.
    pub(crate) fn take(&mut self, entry: &Entry, line: usize) {
        self.line = line;
        let operation = &entry.operation;
        let Some(outcome) = &entry.outcome else {
            self.in_flight = Some((operation.clone(), entry.attempt));
            return;
        };
        self.in_flight = None;
        // Another process that repeats a stopped call makes a further attempt, too.
        let repeats = self.unfinished.iter().any(|other| is_same_step(other, operation));
        let attempt = if repeats { entry.attempt.max(2) } else { entry.attempt };
        self.unfinished.retain(|other| !is_same_step(other, operation));
        if outcome.is_err() {
            self.remember(operation);
        }
        if self.lost_track {
            self.numbers.forget_slots();
        } else {
            self.judge(operation, attempt, outcome);
        }
    }

    /// The process is gone: a call in flight is done or not done.
    pub(crate) fn end(&mut self) {
        if let Some((operation, attempt)) = self.in_flight.take() {
            self.forget_numbers(&operation);
            self.allow_stopped(&operation, attempt);
            self.remember(&operation);
        }
    }

    fn remember(&mut self, operation: &Operation) {
        if !matches!(operation, Operation::Open | Operation::Load(_)) {
            self.unfinished.push(operation.clone());
        }
    }

    /// The operation that findings about the directory are filed under: an unfinished rename, or else the last one.
    fn suspect(&self) -> Operation {
        let rename = self.unfinished.iter().find(|operation| matches!(operation, Operation::Rename(..)));
        rename.or(self.unfinished.last()).cloned().unwrap_or(Operation::Open)
    }

    fn judge(&mut self, operation: &Operation, attempt: usize, outcome: &Outcome) {
        match outcome {
            Err(failure) => self.judge_error(operation, attempt, failure),
            Ok(answer) => {
                match operation {
                    Operation::Load(slot) => self.judge_load(operation, slot, answer),
                    _ => self.judge_success(operation, attempt, answer),
                }
                if let (Trouble::None, Some(remark)) = (self.trouble, &answer.remark) {
                    self.find(Rule::StillFails, operation, format!("on a healthy disk: {remark}"));
                }
            }
        }
    }

    fn judge_success(&mut self, operation: &Operation, attempt: usize, answer: &Answer) {
        let mut next = BTreeSet::new();
        for state in &self.possible {
            let effect = effect(self.worker, operation, attempt, state, Some(answer));
            let exact = self.trouble == Trouble::None;
            next.extend(if exact { effect.exact } else { effect.loose });
        }
        if next.is_empty() && self.is_split && matches!(operation, Operation::Rename(..)) {
            // The split is reported already. That it can be mended is well.
            self.lost_track = true;
            return;
        }
        if next.is_empty() {
            let states = self.states();
            self.find(Rule::ImpossibleSuccess, operation, format!("`{operation}` is ok, with {states}"));
            self.lost_track = true;
            return;
        }
        self.possible = next;
        self.note_number(operation, answer);
        self.forget_numbers(operation);
    }

    fn judge_load(&mut self, operation: &Operation, slot: &str, answer: &Answer) {
        let world = answer.world;
        let fits = |state: &&State| state.loaded(slot) == world;
        let fitting: BTreeSet<State> = self.possible.iter().filter(fits).cloned().collect();
        let remark = answer.remark.as_deref().unwrap_or("nothing is reported as lost");
        if fitting.is_empty() {
            let expected: BTreeSet<Option<u64>> =
                self.possible.iter().map(|state| state.loaded(slot)).collect();
            let what = format!("`{slot}` loaded as {world:?}, acknowledged: {expected:?} ({remark})");
            self.find(Rule::OlderWorld, operation, what);
            return;
        }
        if remark.ends_with("tail: false") {
            self.find(Rule::OlderWorld, operation, format!("nothing is missing, but: {remark}"));
        }
        self.possible = fitting;
    }

    fn judge_error(&mut self, operation: &Operation, attempt: usize, failure: &Failure) {
        let Failure { message, .. } = failure;
        if ["MIXTURE", "HANG", "SILENCE"].iter().any(|word| message.contains(word)) {
            self.find(Rule::Mixture, operation, message.clone());
        } else if failure.is("corrupt") {
            self.find(Rule::IoIsDamage, operation, message.clone());
        } else if failure.is("not-found") || !failure.is("io") {
            return self.judge_refusal(operation, attempt, failure);
        } else if self.trouble == Trouble::None {
            self.find(Rule::StillFails, operation, message.clone());
        } else {
            // A journal does not go on after an error, and a chunk world not after a failed sync.
            let poisons = matches!(operation, Operation::Append(..)) || self.worker.is_chunks();
            // strace counts in each thread: the game and its saver meet the fault once each.
            let once = if self.worker == Worker::Autosave { 2 } else { 1 };
            if self.trouble == Trouble::Once && self.io_errors >= once && !poisons {
                self.find(Rule::StillFails, operation, message.clone());
            }
            self.io_errors += 1;
        }
        self.forget_numbers(operation);
        self.allow_stopped(operation, attempt);
    }

    /// Judges an error that is not one of the disk.
    fn judge_refusal(&mut self, operation: &Operation, attempt: usize, failure: &Failure) {
        if matches!(operation, Operation::Append(..)) && failure.is("conflict") && attempt > 1 {
            return;
        }
        let is_explained = |state: &&State| match operation {
            Operation::Load(slot) => failure.is("not-found") && state.loaded(slot).is_none(),
            _ => {
                let refusal = effect(self.worker, operation, attempt, state, None).refusal;
                refusal.is_some_and(|refusal| refusal.explains(failure))
            }
        };
        let explained: BTreeSet<State> = self.possible.iter().filter(is_explained).cloned().collect();
        if !explained.is_empty() {
            self.possible = explained;
            return;
        }
        // A build may have a predicate of its own for a disk that cannot be written.
        if self.trouble != Trouble::None && failure.message.contains("read-only") {
            return self.allow_stopped(operation, attempt);
        }
        let states = self.states();
        let predicates = failure.predicates.join(", ");
        let what = format!("attempt {attempt}: {} ({predicates}), with {states}", failure.message);
        self.find(Rule::UnexplainedError, operation, what);
        self.allow_stopped(operation, attempt);
        self.lost_track = !matches!(operation, Operation::Load(_));
    }

    fn allow_stopped(&mut self, operation: &Operation, attempt: usize) {
        let stopped: Vec<State> = self
            .possible
            .iter()
            .flat_map(|state| effect(self.worker, operation, attempt, state, None).stopped)
            .collect();
        self.possible.extend(stopped);
        assert!(self.possible.len() < 10_000, "the worker ends its script after a few failed operations");
    }

    fn states(&self) -> String {
        let states: Vec<String> = self.possible.iter().take(3).map(|state| format!("[{state}]")).collect();
        let more = self.possible.len().saturating_sub(3);
        format!("{}{}", states.join(" or "), if more > 0 { " or .." } else { "" })
    }

    fn note_number(&mut self, operation: &Operation, answer: &Answer) {
        let Some(number) = answer.number else { return };
        let slot = match operation {
            // The slot of the autosave is a journal: the number is that of the save that it belongs to.
            Operation::Save(slot, _) if slot == "autosave" => return,
            Operation::Save(slot, _) | Operation::Recovery(slot, _) | Operation::Merge(slot) => slot,
            Operation::Copy(_, slot) => slot,
            _ => return,
        };
        let key = if self.numbers.store_wide { "" } else { slot };
        let largest = self.numbers.largest.get(key).copied();
        if largest >= Some(number) {
            let what = format!("`{operation}` has number {number}, after {}", largest.unwrap_or(0));
            self.find(Rule::NumberTwice, operation, what);
        }
        self.numbers.largest.insert(key.to_owned(), number.max(largest.unwrap_or(0)));
    }

    /// Where numbers count in each slot, they begin again in a slot that may be empty or have another's saves.
    fn forget_numbers(&mut self, operation: &Operation) {
        match operation {
            Operation::Delete(slot) | Operation::DeleteOldest(slot) => {
                self.numbers.largest.remove(slot);
            }
            Operation::Rename(from, to) => {
                self.numbers.largest.remove(from);
                self.numbers.largest.remove(to);
            }
            _ => {}
        }
    }

    /// Compares what was found with what is possible, and goes on from there. Returns whether it was possible.
    pub(crate) fn compare(&mut self, view: &View) -> bool {
        let operation = self.suspect();
        let is_possible = self.possible.iter().any(|state| state.describes(&view.state));
        if !is_possible && !self.lost_track {
            let what = format!("found [{}], expected {}", view.state, self.states());
            self.find(Rule::StateLost, &operation, what);
        }
        for (slot, world) in &view.loaded {
            if view.state.loaded(slot) != Some(*world) {
                let what = format!("`{slot}` loads as {world}, and its saves are [{}]", view.state);
                self.find(Rule::StateLost, &operation, what);
            }
        }
        self.possible = BTreeSet::from([view.state.clone()]);
        self.lost_track = false;
        is_possible
    }

    /// Adds a finding about the directory.
    pub(crate) fn find_here(&mut self, rule: Rule, what: impl Into<String>) {
        let operation = self.suspect();
        self.find(rule, &operation, what);
    }
}

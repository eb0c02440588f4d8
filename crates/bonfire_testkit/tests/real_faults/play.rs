//! Plays a script: the only code that runs in a worker process.

use std::path::Path;

use crate::log::{Answer, Failure, Log, Outcome};
use crate::operation::{Operation, Worker};
use crate::subject::{self, Subject};

/// How often a worker makes a call that fails.
pub(crate) const ATTEMPTS: usize = 3;

/// A worker ends its script after so many operations that failed in all attempts. This bounds the states of the model.
const FAILED_MAX: usize = 3;

/// The worlds that a worker saves into the target of a failed rename have larger numbers.
const IN_TARGET: u64 = 8000;

/// A worker that plays scripts on a directory.
pub(crate) struct Player<'a> {
    worker: Worker,
    directory: &'a Path,
    log: &'a mut Log,
    subject: Option<Box<dyn Subject>>,
    step: usize,
    failed: usize,
    /// After a failed rename, the worker saves into the target slot before it repeats the rename.
    pub(crate) target_first: bool,
}

impl<'a> Player<'a> {
    pub(crate) fn new(worker: Worker, directory: &'a Path, log: &'a mut Log) -> Self {
        Self { worker, directory, log, subject: None, step: 0, failed: 0, target_first: false }
    }

    /// Performs all operations in order. Ends early if the directory cannot be opened.
    pub(crate) fn play(&mut self, script: &[Operation]) {
        for operation in script {
            if !self.step(operation) {
                return;
            }
        }
    }

    /// Performs one operation, up to three times. Returns false if no further operation is possible.
    pub(crate) fn step(&mut self, operation: &Operation) -> bool {
        self.step += 1;
        let operation = self.subject.as_ref().map_or(operation.clone(), |subject| subject.resolve(operation));
        for attempt in 1..=ATTEMPTS {
            if self.attempt(&nth(&operation, attempt), attempt).is_ok() {
                return true;
            }
            if let (Operation::Rename(_, to), 1, true) = (&operation, attempt, self.target_first) {
                let _ = self.attempt(&Operation::Save(to.clone(), IN_TARGET + self.step as u64), 1);
            }
        }
        self.failed += usize::from(!matches!(operation, Operation::Load(_)));
        if operation == Operation::Open || self.failed >= FAILED_MAX {
            return false;
        }
        // A chunk world refuses to write after a failed sync until it is opened again.
        if self.worker.is_chunks() && !matches!(operation, Operation::Load(_)) {
            return self.step(&Operation::Open) && {
                let _ = self.attempt(&nth(&operation, ATTEMPTS + 1), ATTEMPTS + 1);
                true
            };
        }
        true
    }

    /// Performs one operation once.
    pub(crate) fn once(&mut self, operation: &Operation) -> Outcome {
        self.step += 1;
        let resolved = self.subject.as_ref().map(|subject| subject.resolve(operation));
        self.attempt(resolved.as_ref().unwrap_or(operation), 1)
    }

    fn attempt(&mut self, operation: &Operation, attempt: usize) -> Outcome {
        let place = (self.step, attempt);
        self.log.begin(place, operation);
        let outcome = self.perform(operation);
        self.log.done(place, operation, &outcome);
        outcome
    }

    fn perform(&mut self, operation: &Operation) -> Outcome {
        let failure = |error| Failure::of(&error);
        if *operation != Operation::Open {
            let Some(subject) = &mut self.subject else {
                return Err(Failure { predicates: vec![], message: "nothing is open".to_owned() });
            };
            return subject.run(operation).map_err(failure);
        }
        let closed = self.subject.take().map_or(Ok(()), |mut subject| subject.close());
        self.subject = Some(subject::open(self.worker, self.directory).map_err(failure)?);
        let remark = closed.err().map(|error| format!("close: {error}"));
        Ok(Answer { remark, ..Answer::default() })
    }
}

/// A further attempt saves a world of its own, so that the checker knows which attempt left it.
pub(crate) fn nth(operation: &Operation, attempt: usize) -> Operation {
    let more = attempt as u64 - 1;
    match operation {
        Operation::Save(slot, world) => Operation::Save(slot.clone(), world + more),
        Operation::Tick(slot, world) => Operation::Tick(slot.clone(), world + more),
        Operation::Recovery(slot, world) => Operation::Recovery(slot.clone(), world + more),
        other => other.clone(),
    }
}

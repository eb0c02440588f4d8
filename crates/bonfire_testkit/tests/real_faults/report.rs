//! Counts of runs, and violations in a form that can be read.

use std::collections::BTreeMap;

/// A rule that was broken. The text is the heading in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    OlderWorld,
    IoIsDamage,
    UnexplainedError,
    ImpossibleSuccess,
    StateLost,
    RenameUnfinished,
    NumberTwice,
    Leftover,
    StillFails,
    Mixture,
    Continue,
    NotReadOnly,
    Ended,
}

impl Rule {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::OlderWorld => "a load returned Ok with a world that is not the acknowledged one",
            Self::IoIsDamage => "an I/O error is reported as damage (`is_corrupt`)",
            Self::UnexplainedError => "a call failed with an error that nothing explains",
            Self::ImpossibleSuccess => "a call succeeded that must be refused",
            Self::StateLost => "the saves are neither those before nor those after the stopped call",
            Self::RenameUnfinished => "a stopped rename cannot be finished by calling it again",
            Self::NumberTwice => "a number was acknowledged twice, or numbers went back",
            Self::Leftover => "files are left over",
            Self::StillFails => "a call fails though the fault is gone",
            Self::Mixture => "a world mixes two saves",
            Self::Continue => "\"Continue\" does not load the slot that was saved to last",
            Self::NotReadOnly => "a save on a read-only file system fails without `is_read_only`",
            Self::Ended => "the worker panicked or hung",
        }
    }
}

/// A broken rule in one run.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) rule: Rule,
    /// The verb of the operation.
    pub(crate) verb: &'static str,
    pub(crate) what: String,
    /// The line of the log at which it was found, from 1.
    pub(crate) line: usize,
}

/// A broken rule, with the run that broke it.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) worker: String,
    /// The fault, as `BONFIRE_FAULTS_ONLY` takes it.
    pub(crate) fault: String,
    pub(crate) finding: Finding,
    pub(crate) lines: Vec<String>,
}

/// Examples of one kind that are printed in full.
const EXAMPLES: usize = 2;
/// Further examples of one kind that are printed as a line.
const NAMES: usize = 30;
/// Lines of the log that are printed up to the line that matters, and after it.
const BEFORE: usize = 12;
const AFTER: usize = 3;

#[derive(Default)]
pub(crate) struct Report {
    workers: BTreeMap<String, usize>,
    faults: BTreeMap<String, usize>,
    violations: Vec<Violation>,
    remarks: BTreeMap<String, usize>,
    messages: BTreeMap<String, usize>,
}

/// If this variable is set, the report ends with the messages of all errors.
const MESSAGES: &str = "BONFIRE_FAULTS_MESSAGES";

impl Report {
    /// Counts the message of an error. Numbers do not make two messages different.
    pub(crate) fn message(&mut self, message: String) {
        let mut text = String::new();
        for letter in message.chars() {
            match letter.is_ascii_digit() {
                true if text.ends_with('#') => {}
                true => text.push('#'),
                false => text.push(letter),
            }
        }
        *self.messages.entry(text).or_default() += 1;
    }

    /// Counts something that breaks no rule and is worth a look.
    pub(crate) fn remark(&mut self, remark: String) {
        *self.remarks.entry(remark).or_default() += 1;
    }

    /// Counts a run and its violations.
    pub(crate) fn add(&mut self, worker: &str, fault: &str, found: impl IntoIterator<Item = Violation>) {
        *self.workers.entry(worker.to_owned()).or_default() += 1;
        *self.faults.entry(fault.to_owned()).or_default() += 1;
        for violation in found {
            // At once: a long run may be stopped before its end.
            let Violation { worker, fault, finding, .. } = &violation;
            println!("VIOLATION {worker}: {}: {fault}: {}", finding.rule.text(), finding.what);
            self.violations.push(violation);
        }
    }

    pub(crate) fn runs(&self) -> usize {
        self.workers.values().sum()
    }

    pub(crate) fn violations(&self) -> usize {
        self.violations.len()
    }

    /// Prints everything.
    pub(crate) fn print(&self) {
        let counts = |counts: &BTreeMap<String, usize>| {
            counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
        };
        println!("\nruns by worker: {}", counts(&self.workers));
        println!("runs by fault: {}", counts(&self.faults));
        println!("runs in all: {}, violations: {}", self.runs(), self.violations.len());
        println!("\nremarks, which are no violations:");
        self.remarks.iter().for_each(|(remark, count)| println!("{count} times: {remark}"));
        let mut groups: BTreeMap<(Rule, &str, &str), Vec<&Violation>> = BTreeMap::new();
        for violation in &self.violations {
            let Finding { rule, verb, .. } = violation.finding;
            groups.entry((rule, verb, &violation.worker)).or_default().push(violation);
        }
        for ((rule, verb, worker), violations) in groups {
            println!("\n== {worker}, `{verb}`: {} ({} times)", rule.text(), violations.len());
            for violation in violations.iter().take(EXAMPLES) {
                let Violation { fault, finding, lines, .. } = violation;
                println!("-- {fault}: {}", finding.what);
                let end = (finding.line + AFTER).min(lines.len());
                // With two processes, every line may be the reason.
                let before = if fault.starts_with("two") { lines.len() } else { BEFORE };
                let start = finding.line.saturating_sub(before).min(end);
                lines[start..end].iter().for_each(|line| println!("   {line}"));
                lines.last().filter(|_| end < lines.len()).iter().for_each(|line| println!("   .. {line}"));
            }
            for violation in violations.iter().skip(EXAMPLES).take(NAMES) {
                println!("-- {}: {}", violation.fault, violation.finding.what);
            }
            let more = violations.len().saturating_sub(EXAMPLES + NAMES);
            if more > 0 {
                println!("-- and {more} more");
            }
        }
        if std::env::var_os(MESSAGES).is_some() {
            println!("\nmessages:");
            self.messages.iter().for_each(|(message, count)| println!("{count} times: {message}"));
        }
        if let Some(first) = self.violations.first() {
            println!(
                "\nHave one run again with: BONFIRE_FAULTS_ONLY=\"{}\" cargo test -p bonfire_testkit --test real_faults",
                first.fault
            );
        }
    }
}

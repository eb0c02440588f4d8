//! Counts of runs, and violations in a form that can be read.

use std::collections::BTreeMap;

use crate::check::{Finding, Rule};

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
const NAMES: usize = 12;
/// Lines of the log that are printed up to the line that matters, and after it.
const BEFORE: usize = 12;
const AFTER: usize = 3;

#[derive(Default)]
pub(crate) struct Report {
    workers: BTreeMap<String, usize>,
    faults: BTreeMap<String, usize>,
    violations: Vec<Violation>,
}

impl Report {
    /// Counts a run and its violations.
    pub(crate) fn add(&mut self, worker: &str, fault: &str, found: impl IntoIterator<Item = Violation>) {
        *self.workers.entry(worker.to_owned()).or_default() += 1;
        *self.faults.entry(fault.to_owned()).or_default() += 1;
        self.violations.extend(found);
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
        println!(
            "runs in all: {}, violations: {}",
            self.workers.values().sum::<usize>(),
            self.violations.len()
        );
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
                let start = finding.line.saturating_sub(BEFORE).min(end);
                lines[start..end].iter().for_each(|line| println!("   {line}"));
                lines.last().filter(|_| end < lines.len()).iter().for_each(|line| println!("   .. {line}"));
            }
            for violation in violations.iter().skip(EXAMPLES).take(NAMES) {
                println!("-- {}: {}", violation.fault, violation.finding.what);
            }
        }
        if let Some(first) = self.violations.first() {
            println!(
                "\nHave one run again with: BONFIRE_FAULTS_ONLY=\"{}\" cargo test -p bonfire_testkit --test real_faults",
                first.fault
            );
        }
    }
}

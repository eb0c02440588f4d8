//! The log of acknowledgements: what a worker was about to do, and what the call returned.
//!
//! A line is one write call without a sync. The file lies outside of the directory under test. A killed process loses no
//! byte that it has written, so the log is complete up to the kill.
//!
//! ```text
//! 81263 a 7.1 begin save auto 70
//! 81297 a 7.1 done save auto 70: ok number=3
//! 81310 a 8.1 done load auto: error io: cannot read `auto.00000003.bonfire`: Input/output error
//! ```
//!
//! A line has the time of the monotonic clock, which all processes share, in microseconds. The process, the step of the
//! script and the attempt follow.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use bonfire::Error;

use crate::operation::Operation;

/// The answer of a call that succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The number of the new save.
    pub(crate) number: Option<u64>,
    /// The number of the world that was loaded.
    pub(crate) world: Option<u64>,
    /// A sentence about something that went wrong all the same: a failed pruning, a lost delta, a skipped save.
    pub(crate) remark: Option<String>,
}

/// The predicates of an error, and its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) predicates: Vec<String>,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn of(error: &Error) -> Self {
        let all = [
            ("not-found", error.is_not_found()),
            ("io", error.is_io()),
            ("read-only", error.is_read_only()),
            ("poisoned", error.is_poisoned()),
            ("corrupt", error.is_corrupt()),
            ("conflict", error.is_conflict()),
            ("misuse", error.is_misuse()),
            ("limit", error.is_limit()),
            ("unsupported", error.is_unsupported()),
            ("wrong-key", error.is_wrong_key()),
        ];
        let predicates = all.into_iter().filter(|(_, holds)| *holds).map(|(name, _)| name.to_owned());
        Self { predicates: predicates.collect(), message: error.to_string().replace('\n', " ") }
    }

    pub(crate) fn is(&self, predicate: &str) -> bool {
        self.predicates.iter().any(|found| found == predicate)
    }
}

pub(crate) type Outcome = Result<Answer, Failure>;

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) micros: u64,
    pub(crate) process: String,
    pub(crate) step: usize,
    pub(crate) attempt: usize,
    pub(crate) operation: Operation,
    /// `None` in the line that comes before the call.
    pub(crate) outcome: Option<Outcome>,
}

impl Entry {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(5, ' ');
        let micros = words.next()?.parse().ok()?;
        let process = words.next()?.to_owned();
        let (step, attempt) = words.next()?.split_once('.')?;
        let (phase, rest) = (words.next()?, words.next()?);
        let (operation, outcome) = match phase {
            "begin" => (rest, None),
            _ => {
                let (operation, outcome) = rest.split_once(": ")?;
                (operation, Some(parse_outcome(outcome)?))
            }
        };
        let operation = Operation::parse(operation)?;
        let (step, attempt) = (step.parse().ok()?, attempt.parse().ok()?);
        Some(Self { micros, process, step, attempt, operation, outcome })
    }
}

fn parse_outcome(text: &str) -> Option<Outcome> {
    if let Some(rest) = text.strip_prefix("error ") {
        let (predicates, message) = rest.split_once(": ")?;
        let predicates = predicates.split(',').map(str::to_owned).collect();
        return Some(Err(Failure { predicates, message: message.to_owned() }));
    }
    let mut answer = Answer::default();
    let (head, remark) = text.split_once(" remark=").unwrap_or((text, ""));
    answer.remark = (!remark.is_empty()).then(|| remark.to_owned());
    for word in head.strip_prefix("ok")?.split_whitespace() {
        let (name, value) = word.split_once('=')?;
        match name {
            "number" => answer.number = value.parse().ok(),
            "world" => answer.world = value.parse().ok(),
            _ => return None,
        }
    }
    Some(Ok(answer))
}

fn outcome_text(outcome: &Outcome) -> String {
    match outcome {
        Err(failure) => format!("error {}: {}", failure.predicates.join(","), failure.message),
        Ok(answer) => {
            let mut text = "ok".to_owned();
            let Answer { number, world, remark } = answer;
            number.iter().for_each(|number| write!(text, " number={number}").expect("memory"));
            world.iter().for_each(|world| write!(text, " world={world}").expect("memory"));
            remark.iter().for_each(|remark| write!(text, " remark={remark}").expect("memory"));
            text
        }
    }
}

/// A log that is being written: into a file by a worker process, into memory by the checker.
pub(crate) enum Log {
    File(File, String),
    Memory(Vec<String>),
}

impl Log {
    /// Opens a file before the script begins, so that the script makes no other call than writes for its log.
    pub(crate) fn open(path: &Path, process: &str) -> std::io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self::File(file, process.to_owned()))
    }

    pub(crate) fn begin(&mut self, place: (usize, usize), operation: &Operation) {
        self.line(place, &format!("begin {operation}"));
    }

    pub(crate) fn done(&mut self, place: (usize, usize), operation: &Operation, outcome: &Outcome) {
        self.line(place, &format!("done {operation}: {}", outcome_text(outcome)));
    }

    fn line(&mut self, (step, attempt): (usize, usize), text: &str) {
        let micros = monotonic_micros();
        match self {
            Self::File(file, process) => {
                let line = format!("{micros} {process} {step}.{attempt} {text}\n");
                // One call for the whole line. A worker that cannot log has nothing to report.
                let written = file.write(line.as_bytes()).expect("the log is on a healthy disk");
                assert_eq!(written, line.len(), "the log is on a healthy disk");
            }
            Self::Memory(lines) => lines.push(format!("{micros} after {step}.{attempt} {text}")),
        }
    }
}

/// Reads all whole lines. The last line of a killed process may be cut; then it acknowledges nothing.
pub(crate) fn read(path: &Path) -> (Vec<String>, Vec<Entry>) {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines: Vec<String> = whole.lines().map(str::to_owned).collect();
    let entries = parse(&lines);
    (lines, entries)
}

/// Parses the lines of a log.
pub(crate) fn parse(lines: &[String]) -> Vec<Entry> {
    lines.iter().map(|line| Entry::parse(line).unwrap_or_else(|| panic!("no log line: `{line}`"))).collect()
}

/// The time that all processes of this machine share.
pub(crate) fn monotonic_micros() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000 + now.tv_nsec.cast_unsigned() / 1000
}

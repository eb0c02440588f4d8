//! Runs two builds of this program in turns and compares their ratios: `bonfire_bench compare --before A --after B`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use clap::Args;

/// A row that is slower by more than this is marked.
const SLOWER_PERCENT_MAX: f64 = 3.0;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[derive(Args)]
pub(crate) struct CompareArguments {
    /// The program of the build before a change.
    #[arg(long)]
    before: std::path::PathBuf,
    /// The program of the build after it.
    #[arg(long)]
    after: std::path::PathBuf,
    /// Runs of each program.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Measures only rows whose key contains this text.
    #[arg(long, default_value = "")]
    only: String,
    /// Prints one JSON object of keys and their values.
    #[arg(long)]
    json: bool,
}

/// Returns true for rows that say how many times better Bonfire is.
pub(crate) fn larger_is_better(key: &str) -> bool {
    ["peer_", "_vs_", "terrain_", "_threads_"].iter().any(|part| key.contains(part))
}

/// The values of one row in all runs.
#[derive(Default)]
struct Row {
    before: Vec<f64>,
    after: Vec<f64>,
}

/// Both medians of a row that both programs have.
struct Medians {
    before: f64,
    after: f64,
    /// Positive if the row became slower.
    change_percent: f64,
}

/// Prints both medians of each row. Returns false if any row became too slow.
pub(crate) fn run(arguments: &CompareArguments) -> Result<bool> {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for turn in 0..arguments.runs {
        // The first of a pair has another machine than the second, so they take turns in that, too.
        let mut programs = [(&arguments.before, true), (&arguments.after, false)];
        if turn % 2 == 1 {
            programs.reverse();
        }
        for (program, is_before) in programs {
            eprintln!("run {} of {}: {}", turn + 1, arguments.runs, program.display());
            for (key, value) in ratios(program, &arguments.only)? {
                let row = rows.entry(key).or_default();
                if is_before { row.before.push(value) } else { row.after.push(value) }
            }
        }
    }
    if rows.is_empty() {
        return Err(format!("no row has a key that contains `{}`", arguments.only).into());
    }
    let slower = rows.iter().filter(|(key, row)| is_slower(row.medians(key).as_ref())).count();
    if arguments.json {
        print_json(&rows);
    } else {
        print_table(&rows, slower);
    }
    Ok(slower == 0)
}

/// The ratios that a program measures.
fn ratios(program: &Path, only: &str) -> Result<Vec<(String, f64)>> {
    let mut command = Command::new(program);
    command.args(["ratios", "--json", "--only", only]).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| format!("{}: {error}", program.display()))?;
    if !output.status.success() {
        return Err(format!("{} failed: {}", program.display(), output.status).into());
    }
    let rows: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&output.stdout)?;
    Ok(rows.into_iter().filter_map(|(key, value)| Some((key, value.as_f64()?))).collect())
}

impl Row {
    fn medians(&self, key: &str) -> Option<Medians> {
        let (before, after) = (median(&self.before)?, median(&self.after)?);
        let (slow, fast) = if larger_is_better(key) { (before, after) } else { (after, before) };
        let change_percent = if slow == fast { 0.0 } else { (slow / fast - 1.0) * 100.0 };
        Some(Medians { before, after, change_percent })
    }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        len if len % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

fn is_slower(medians: Option<&Medians>) -> bool {
    medians.is_some_and(|medians| medians.change_percent > SLOWER_PERCENT_MAX)
}

fn print_table(rows: &BTreeMap<String, Row>, slower: usize) {
    println!("{:<37} {:>9} {:>9} {:>8}", "key", "before", "after", "slower");
    for (key, row) in rows {
        match row.medians(key) {
            Some(medians) => {
                let mark = if is_slower(Some(&medians)) { "  SLOWER" } else { "" };
                let Medians { before, after, change_percent } = medians;
                println!("{key:<37} {before:>9.3} {after:>9.3} {change_percent:>+7.1}%{mark}");
            }
            None if row.before.is_empty() => println!("{key:<37} only after"),
            None => println!("{key:<37} only before"),
        }
    }
    println!("{slower} of {} rows are more than {SLOWER_PERCENT_MAX}% slower", rows.len());
}

fn print_json(rows: &BTreeMap<String, Row>) {
    let entry = |(key, row): (&String, &Row)| {
        let medians = row.medians(key);
        let value = serde_json::json!({
            "before": median(&row.before),
            "after": median(&row.after),
            "change_percent": medians.as_ref().map(|medians| medians.change_percent),
            "slower": is_slower(medians.as_ref()),
        });
        (key.clone(), value)
    };
    println!("{}", serde_json::Value::Object(rows.iter().map(entry).collect()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slower_is_positive_whichever_way_is_better() {
        let row = Row { before: vec![2.0, 1.0, 9.0], after: vec![3.0, 1.0, 3.0] };
        assert_eq!(row.medians("encode_10k").map(|medians| medians.change_percent), Some(50.0));
        let better = row.medians("sync_vs_peer").map(|medians| medians.change_percent);
        assert!(better.is_some_and(|percent| (-33.4..-33.3).contains(&percent)));
        assert!(Row { before: vec![1.0], after: vec![] }.medians("encode_10k").is_none());
    }
}

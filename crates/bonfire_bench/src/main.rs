//! Measures Bonfire, and proves that a change keeps its bytes and its speed: `cargo run --release -p bonfire_bench -- ratios`.
//!
//! - `ratios` prints how fast Bonfire is, as ratios within one run.
//! - `files DIR` writes one file of each kind that Bonfire writes, from fixed seeds.
//! - `same A B` compares two such directories, and names the times and random bytes in which files differ.
//! - `compare --before PATH --after PATH` runs the ratios of two builds in turns, and marks rows that became slower.
//!
//! A ratio is the time of our work over the time of something everybody knows (a memcpy of the same bytes, or
//! hand-written serde + postcard columns), measured in turns in the same run, so that it means the same on any machine.
//! Lower is better, except for keys with `peer_` or `_vs_`, which say how many times faster we are than another crate (they
//! are there with `--features peers`), and with `terrain_` or `_threads_`: how many times
//! better than plain LZ4, or than threads that do it by hand. Tests never look at time; this program does.

#[cfg(feature = "peers")]
mod bevy_peers;
mod bevy_plain;
mod bevy_restore;
mod bevy_rows;
mod bevy_rpg;
mod bevy_tags;
mod chunk_data;
mod chunk_load_rows;
#[cfg(feature = "peers")]
mod chunk_peers;
mod chunk_pin_rows;
mod chunk_rows;
mod compare;
mod core_rows;
mod evolve_rows;
mod files;
#[cfg(feature = "peers")]
mod hecs_peers;
mod hecs_plain;
mod hecs_rows;
mod live_rows;
mod measure;
mod plain;
mod rpg;
mod same;
mod store_rows;
mod stream_rows;
#[cfg(feature = "replicon")]
mod sync_peers;
mod sync_rows;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use compare::CompareArguments;
use measure::Row;

#[derive(Parser)]
#[command(
    about = "Ratios of Bonfire's work to memcpy and to hand-written serde, and proofs about two builds"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures everything and prints a table: value, target, pass.
    Ratios(RatiosArguments),
    /// Writes one file of each kind that Bonfire writes.
    Files {
        /// A directory that does not exist yet.
        directory: PathBuf,
    },
    /// Compares two directories of files. Fails if a byte differs that holds no time and is not random.
    Same {
        /// The directory of one build.
        one: PathBuf,
        /// The directory of another build.
        other: PathBuf,
    },
    /// Runs two builds in turns and compares their ratios. Fails if a row is more than 3% slower.
    Compare(CompareArguments),
}

#[derive(Args)]
struct RatiosArguments {
    /// Prints one flat JSON object of keys and values.
    #[arg(long, conflicts_with = "targets")]
    json: bool,
    /// Prints one flat JSON object of keys and targets, without measuring.
    #[arg(long)]
    targets: bool,
    /// Measures only rows whose key contains this text.
    #[arg(long, default_value = "")]
    only: String,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Ratios(arguments) => {
            ratios(&arguments);
            Ok(true)
        }
        Command::Files { directory } => files::write(&directory).map(|()| true),
        Command::Same { one, other } => same::compare(&one, &other).map_err(Into::into),
        Command::Compare(arguments) => compare::run(&arguments),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn ratios(arguments: &RatiosArguments) {
    let RatiosArguments { json, targets, only } = arguments;
    let rows = core_rows::rows().into_iter().chain(evolve_rows::rows()).chain(bevy_rows::rows());
    let rows = rows.chain(bevy_restore::rows()).chain(hecs_rows::rows()).chain(store_rows::rows());
    let rows = rows.chain(live_rows::rows()).chain(chunk_rows::rows()).chain(chunk_load_rows::rows());
    let rows = rows.chain(chunk_pin_rows::rows()).chain(stream_rows::rows()).chain(sync_rows::rows());
    #[cfg(feature = "peers")]
    let rows = rows.chain(bevy_peers::rows()).chain(hecs_peers::rows()).chain(chunk_peers::rows());
    #[cfg(feature = "replicon")]
    let rows = rows.chain(sync_peers::rows());
    let rows: Vec<Row> = rows.filter(|row| row.key.contains(only)).collect();
    if *targets {
        let map: serde_json::Map<_, _> =
            rows.iter().filter_map(|row| Some((row.key.to_owned(), row.target?.into()))).collect();
        println!("{}", serde_json::Value::Object(map));
        return;
    }
    measure::warm_up_allocator();
    let mut map = serde_json::Map::new();
    if !*json {
        println!("{:<33} {:>9} {:>8}  {:<5} note", "key", "value", "target", "pass");
    }
    for row in rows {
        let (value, note) = (row.measure)();
        if *json {
            map.insert(row.key.to_owned(), ((value * 1000.0).round() / 1000.0).into());
            continue;
        }
        let target = row.target.map_or_else(|| "-".to_owned(), |target| format!("{target:.2}"));
        let larger_is_better = compare::larger_is_better(row.key);
        let reached = |target| if larger_is_better { value >= target } else { value <= target };
        let pass = row.target.map_or("", |target| if reached(target) { "yes" } else { "NO" });
        println!("{:<33} {value:>9.3} {target:>8}  {pass:<5} {note}", row.key);
    }
    if *json {
        println!("{}", serde_json::Value::Object(map));
    }
}

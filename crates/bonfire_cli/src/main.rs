//! `bonfire`: looks into saves without the game that wrote them.
//!
//! It only reads, except for `demo`, which writes a save of its own. Everything it prints that comes from a save is
//! escaped, because a save may come from a stranger.
//!
//! | file | |
//! |---|---|
//! | `main`, `exit` | arguments, exit codes, messages of failure |
//! | `file` | from a path to a snapshot |
//! | `info`, `show`, `verify` | the commands |
//! | `demo` | a Bevy world that is saved, wrecked and loaded, with a clock beside it (a feature of its own) |
//! | `leaf` | which table columns a component becomes |
//! | `output`, `json` | text, tables and JSON |

#[cfg(feature = "demo")]
mod demo;
mod exit;
mod file;
mod info;
mod json;
mod leaf;
mod output;
mod show;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::exit::{Exit, Failure};
use crate::output::Output;

const EXIT_CODES: &str = "\
Exit codes:
  0  fine
  1  the file is damaged
  2  misuse: bad arguments, or a file that cannot be read
  3  the file has a newer format than this build";

const INFO_EXAMPLES: &str = "\
Examples:
  bonfire info autosave.save
  bonfire info autosave.save --json | jq '.components[].key'";

const SHOW_EXAMPLES: &str = "\
Examples:
  bonfire show autosave.save
  bonfire show autosave.save --component game.position --component game.health --limit 0
  bonfire show autosave.save --json | jq '.archetypes[].entities[].components'";

const VERIFY_EXAMPLES: &str = "\
Examples:
  bonfire verify autosave.save
  bonfire verify autosave.save --json | jq '.damaged_blocks'";

#[cfg(feature = "demo")]
const DEMO_EXAMPLES: &str = "\
Exits with 1 if the world that comes back is not the one that was saved.

Examples:
  bonfire demo
  bonfire demo --entities 1000000
  bonfire demo --keep demo.bonfire && bonfire show demo.bonfire
  bonfire demo --json | jq '.steps[] | {step, milliseconds}'";

/// Looks into Bonfire saves, without the game that wrote them
#[derive(Parser)]
#[command(name = "bonfire", version, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// What a save is made of: sections, components with their schemas, metadata, data
    #[command(after_help = INFO_EXAMPLES)]
    Info(InfoArguments),
    /// What is in a save: entities as tables, then resources, data and carried columns
    #[command(after_help = SHOW_EXAMPLES)]
    Show(ShowArguments),
    /// Whether a save is whole: every checksum, every value; if not, what is damaged and what is lost
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(VerifyArguments),
    /// Saves a Bevy world, wrecks it, loads it back, compares every entity, and says how long each step took
    #[cfg(feature = "demo")]
    #[command(after_help = DEMO_EXAMPLES)]
    Demo(DemoArguments),
}

#[derive(Args)]
struct InfoArguments {
    /// The save
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Make do with what is left of a damaged save (still exits with 1)
    #[arg(long)]
    salvage: bool,
}

#[derive(Args)]
struct ShowArguments {
    /// The save
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Only archetypes that have this component; repeat it for those that have several
    #[arg(long = "component", value_name = "KEY")]
    components: Vec<String>,
    /// Rows shown of each archetype, 0 for all
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Make do with what is left of a damaged save (still exits with 1)
    #[arg(long)]
    salvage: bool,
}

#[derive(Args)]
struct VerifyArguments {
    /// The save
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[cfg(feature = "demo")]
#[derive(Args)]
struct DemoArguments {
    /// How many entities the world has
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    entities: u32,
    /// Write the save to this new file and keep it; otherwise it goes to a temporary one
    #[arg(long, value_name = "PATH")]
    keep: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut out = Output::stdout();
    let result = run(&arguments.command, &mut out).and_then(|exit| {
        out.flush()?;
        Ok(exit)
    });
    let exit = result.unwrap_or_else(|failure| {
        // What was printed before the failure belongs in front of the message.
        let _ = out.flush();
        failure.report()
    });
    exit.into()
}

fn run(command: &Command, out: &mut Output) -> Result<Exit, Failure> {
    match command {
        Command::Info(arguments) => info::run(arguments, out),
        Command::Show(arguments) => show::run(arguments, out),
        Command::Verify(arguments) => verify::run(arguments, out),
        #[cfg(feature = "demo")]
        Command::Demo(arguments) => demo::run(arguments, out),
    }
}

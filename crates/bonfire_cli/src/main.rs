//! The `bonfire` command: inspects, verifies, repairs and migrates saves without the game that
//! wrote them.
//!
//! Most commands only read. These write: `demo` (its own save), `schema lock` (a lock), `migrate`
//! (a new save), `import` (a new world), `compact` and `repair` (a world), `map` (a picture),
//! `slots` (a directory of saves). Text from a save is escaped before it is printed, because a save
//! may come from a stranger.
//!
//! | file | |
//! |---|---|
//! | `arguments`, `exit` | arguments, exit codes, messages of failure |
//! | `read`, `file`, `journal` | from a path to bytes and their kind; to a snapshot; with the journal of the save |
//! | `journal_file` | `info` and `verify` of a journal itself |
//! | `info`, `show`, `verify` | the commands that look into one save |
//! | `ls`, `slots` | the commands for a directory of saves; `info` and `verify` take one too |
//! | `schema`, `migrate` | the commands that hold saves against the schemas of a game |
//! | `replay` | the command that reads a recorded stream: `reader` message by message, `counts`, `values` |
//! | `chunks` | worlds of chunks: commands of their own, and `info` and `verify` |
//! | `import` | the command that reads worlds of other programs |
//! | `sealed` | saves that need a key |
//! | `schema_lock`, `compatibility` | schema locks as files, and what the build that one describes would do with a save |
//! | `demo` | a Bevy world that is saved, wrecked and loaded, with a clock beside it (a feature of its own) |
//! | `leaf` | which table columns a component becomes |
//! | `escape`, `output`, `json` | text, tables and JSON |
//!
//! # Features
//!
//! | feature | default | effect |
//! |---|---|---|
//! | `demo` | yes | the command `demo`; brings in parts of Bevy |
//! | `zstd` | yes | reads saves and worlds compressed with zstd; links the C library |

mod arguments;
mod chunks;
mod compatibility;
#[cfg(feature = "demo")]
mod demo;
mod escape;
mod exit;
mod file;
mod import;
mod info;
mod journal;
mod journal_file;
mod json;
mod leaf;
mod ls;
mod migrate;
mod output;
mod read;
mod replay;
mod schema;
mod schema_lock;
mod sealed;
mod show;
mod slots;
mod verify;

use std::path::Path;
use std::process::ExitCode;

use bonfire_store::SealKey;
use clap::Parser as _;

use crate::arguments::{Arguments, Command, ImportCommand, InfoArguments, SchemaCommand, VerifyArguments};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::read::FileKind;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        // What it repeats of the arguments may be the name of a stranger's file.
        Err(error) if error.use_stderr() => return exit::report_arguments(&error.to_string()).into(),
        Err(error) => error.exit(),
    };
    let mut out = Output::stdout();
    let keys = arguments.keys.keys();
    let result = keys.and_then(|keys| run(&arguments.command, &keys, &mut out)).and_then(|exit| {
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

fn run(command: &Command, keys: &[SealKey], out: &mut Output) -> Result<Exit, Failure> {
    match command {
        Command::Ls(arguments) => ls::run(arguments, keys, out),
        Command::Slots(command) => slots::run(command, keys, out),
        Command::Info(InfoArguments { file, at: Some(_), .. })
        | Command::Verify(VerifyArguments { file, at: Some(_), .. })
            if !FileKind::may_be_world(file) =>
        {
            Err(FileKind::no_world(file, "--at"))
        }
        Command::Info(arguments) => match FileKind::of(&arguments.file) {
            FileKind::Directory => ls::info(arguments, keys, out),
            FileKind::Journal => journal_file::info(&arguments.file, arguments.json, keys, out),
            kind if kind.is_world() => chunks::info::run(arguments, keys, out),
            _ => info::run(arguments, keys, out),
        },
        Command::Show(arguments) => show::run(arguments, keys, out),
        Command::Verify(arguments) => match FileKind::of(&arguments.file) {
            FileKind::Directory => verify::directory(arguments, keys, out),
            FileKind::Journal => journal_file::verify(&arguments.file, arguments.json, keys, out),
            kind if kind.is_world() => chunks::verify::run(arguments, keys, out),
            _ => verify::run(arguments, keys, out),
        },
        Command::Schema(SchemaCommand::Lock(arguments)) => schema::lock(arguments, out),
        Command::Schema(SchemaCommand::Check(arguments)) => schema::check(arguments, out),
        Command::Schema(SchemaCommand::Diff(arguments)) => schema::diff(arguments, out),
        Command::Migrate(arguments) => migrate::run(arguments, out),
        Command::Pins(arguments) => {
            require_world(&arguments.file).and_then(|()| chunks::pins::run(arguments, keys, out))
        }
        Command::Compact(arguments) => {
            require_world(&arguments.file).and_then(|()| chunks::repair::compact(arguments, keys, out))
        }
        Command::Repair(arguments) => {
            require_world(&arguments.file).and_then(|()| chunks::repair::repair(arguments, keys, out))
        }
        Command::Map(arguments) => {
            require_world(&arguments.file).and_then(|()| chunks::map::run(arguments, keys, out))
        }
        Command::Diff(arguments) => chunks::diff::run(arguments, keys, out),
        Command::Replay(arguments) => replay::run(arguments, out),
        Command::Import(ImportCommand::PixelWorld(arguments)) => import::run(arguments, out),
        #[cfg(feature = "demo")]
        Command::Demo(arguments) => demo::run(arguments, out),
    }
}

/// Refuses files that are known to be no world of chunks.
fn require_world(path: &Path) -> Result<(), Failure> {
    FileKind::require(path, FileKind::ChunkWorld, &[FileKind::PixelWorld])
}

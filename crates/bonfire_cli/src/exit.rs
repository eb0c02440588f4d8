//! How a run ends: the exit codes, and failures with their messages.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::escape::{escaped, escaped_path, visible};

/// The exit codes, a promise to scripts. The order is the one in which they win when several apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    Fine = 0,
    Damaged = 1,
    Misuse = 2,
    NewerFormat = 3,
    /// A save, or a schema of one, cannot become what newer schemas have.
    CannotFollow = 4,
    /// Only the game can tell, because the way from one version to another is its code.
    NeedsGame = 5,
    /// Two worlds were compared, and are not the same.
    Different = 6,
}

impl Exit {
    /// The one that wins.
    pub(crate) fn worst(exits: impl IntoIterator<Item = Self>) -> Self {
        exits.into_iter().filter(|exit| *exit != Self::Fine).min().unwrap_or(Self::Fine)
    }

    /// What an error about the content of a file means.
    pub(crate) fn of(error: &bonfire::Error) -> Self {
        if error.is_newer_format() {
            Self::NewerFormat
        } else if error.is_corrupt() {
            Self::Damaged
        } else if error.is_schema() {
            Self::CannotFollow
        } else {
            // Over a limit, or in need of a codec that this build lacks: not damaged, but not readable either.
            Self::Misuse
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Prints what is wrong with the arguments, line by line.
pub(crate) fn report_arguments(message: &str) -> Exit {
    let mut err = io::stderr().lock();
    for line in message.lines() {
        // There is no other place to report to.
        let _ = writeln!(err, "{}", visible(line));
    }
    Exit::Misuse
}

/// Why a command could not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments ask for something that is not there.
    Arguments(String),
    /// The file cannot be read at all.
    File { path: PathBuf, message: String },
    /// The file was read, but its content cannot be. The command that would show what is left of it, if there is one.
    Save { path: PathBuf, error: bonfire::Error, salvage: Option<&'static str> },
    /// Something else, that its message explains, line by line.
    Refused { message: String, exit: Exit },
    /// The output cannot be written.
    Output(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl Failure {
    pub(crate) fn file(path: &Path, message: impl ToString) -> Self {
        Self::File { path: path.to_owned(), message: message.to_string() }
    }

    /// A save that `command` cannot read, unless it is asked to make do with what is left.
    pub(crate) fn save(path: &Path, error: bonfire::Error, command: &'static str) -> Self {
        Self::Save { path: path.to_owned(), error, salvage: Some(command) }
    }

    /// A save that is needed as a whole.
    pub(crate) fn whole_save(path: &Path, error: bonfire::Error) -> Self {
        Self::Save { path: path.to_owned(), error, salvage: None }
    }

    /// A file that is no save, and whose content is wrong.
    pub(crate) fn text(path: &Path, error: &bonfire::Error) -> Self {
        Self::Refused { message: format!("{}: {error}", escaped_path(path)), exit: Exit::of(error) }
    }

    /// An error that names its file already.
    pub(crate) fn named(error: &bonfire::Error) -> Self {
        Self::Refused { message: error.to_string(), exit: Exit::of(error) }
    }

    /// Tells the user and says how to exit.
    pub(crate) fn report(self) -> Exit {
        let mut text = String::new();
        let exit = match self {
            // The reader of our output has seen enough.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => return Exit::Fine,
            Self::Output(error) => {
                text += &format!("error: the output cannot be written: {error}\n");
                Exit::Misuse
            }
            Self::Arguments(message) => {
                text += &format!("error: {message}\n");
                Exit::Misuse
            }
            Self::File { path, message } => {
                text += &format!("error: {}: {}\n", escaped_path(&path), escaped(&message));
                Exit::Misuse
            }
            Self::Save { path, error, salvage } => {
                let path = escaped_path(&path);
                text += &format!("error: {path}: {}\n", visible(&error.to_string()));
                let exit = Exit::of(&error);
                if exit == Exit::Damaged {
                    let left = salvage
                        .map(|command| format!(", `bonfire {command} {path} --salvage` shows what is left"));
                    text += &format!(
                        "hint: `bonfire verify {path}` lists the damage{}\n",
                        left.unwrap_or_default()
                    );
                }
                exit
            }
            Self::Refused { message, exit } => {
                message.lines().for_each(|line| text += &format!("error: {}\n", visible(line)));
                exit
            }
        };
        // Nobody is left to tell if this fails.
        let _ = io::stderr().lock().write_all(text.as_bytes());
        exit
    }
}

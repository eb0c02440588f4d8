//! How a run ends: the exit codes, and failures with their messages.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::output::{escaped, escaped_path, visible};

/// The exit codes, a promise to scripts. The order is the one in which they win when several apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    Fine = 0,
    Damaged = 1,
    Misuse = 2,
    NewerFormat = 3,
}

impl Exit {
    /// What an error about the content of a file means.
    pub(crate) fn of(error: &bonfire::Error) -> Self {
        if error.is_newer_format() {
            Self::NewerFormat
        } else if error.is_corrupt() {
            Self::Damaged
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

/// Why a command could not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments ask for something that is not there.
    Arguments(String),
    /// The file cannot be read at all.
    File { path: PathBuf, message: String },
    /// The file was read, but its content cannot be.
    Save { path: PathBuf, error: bonfire::Error, command: &'static str },
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

    pub(crate) fn save(path: &Path, error: bonfire::Error, command: &'static str) -> Self {
        Self::Save { path: path.to_owned(), error, command }
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
            Self::Save { path, error, command } => {
                let path = escaped_path(&path);
                text += &format!("error: {path}: {}\n", visible(&error.to_string()));
                let exit = Exit::of(&error);
                if exit == Exit::Damaged {
                    text += &format!(
                        "hint: `bonfire verify {path}` lists the damage, \
                         `bonfire {command} {path} --salvage` shows what is left\n"
                    );
                }
                exit
            }
        };
        // Nobody is left to tell if this fails.
        let _ = io::stderr().lock().write_all(text.as_bytes());
        exit
    }
}

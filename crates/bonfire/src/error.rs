//! The one error of this crate.
//!
//! It is opaque: callers ask it what to do next (`is_corrupt`, `is_newer_format`, ..) and print it. Where something
//! went wrong is data (key, field path, section, offset), added on the way up, so that a message always names it.

use std::any::Any;
use std::fmt::{self, Display, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation on a snapshot, a schema or a registry failed.
///
/// ```
/// let error = bonfire::Snapshot::open(b"not a save").unwrap_err();
/// assert!(error.is_corrupt());
/// assert!(error.to_string().contains("not a Bonfire file"));
/// ```
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: Kind,
    message: String,
    key: Option<String>,
    path: Vec<String>,
    section: Option<&'static str>,
    offset: Option<u64>,
    /// The file or directory.
    place: Option<String>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Corrupt,
    NewerFormat,
    Limit,
    Schema,
    Unknown,
    Dangling,
    Unsupported,
    Misuse,
    Custom,
    Conflict,
    WrongKey,
    Rollback,
    Cancelled,
    ReadOnly,
    Poisoned,
    Io(std::io::ErrorKind),
}

impl Error {
    fn new(kind: Kind, message: impl Display) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.to_string(),
            key: None,
            path: Vec::new(),
            section: None,
            offset: None,
            place: None,
            source: None,
        }))
    }

    /// An error about bytes that no save can have.
    pub fn corrupt(message: impl Display) -> Self {
        Self::new(Kind::Corrupt, message)
    }
    /// An error about bytes that a later version of the format, or of the game, has written.
    pub fn newer_format(message: impl Display) -> Self {
        Self::new(Kind::NewerFormat, message)
    }
    /// An error about something that is larger than [`Limits`](crate::Limits) allow.
    pub fn limit(message: impl Display) -> Self {
        Self::new(Kind::Limit, message)
    }
    /// An error about components that mean something else on the other side.
    pub fn schema(message: impl Display) -> Self {
        Self::new(Kind::Schema, message)
    }
    pub(crate) fn unknown(message: impl Display) -> Self {
        Self::new(Kind::Unknown, message)
    }
    pub(crate) fn dangling(message: impl Display) -> Self {
        Self::new(Kind::Dangling, message)
    }
    /// An error about something that this build, or this backend, does not have.
    pub fn unsupported(message: impl Display) -> Self {
        Self::new(Kind::Unsupported, message)
    }
    /// An error for a call that cannot be right, whatever the bytes: front ends use it for their own rules.
    pub fn misuse(message: impl Display) -> Self {
        Self::new(Kind::Misuse, message)
    }
    /// An error of the game's own, from a custom codec, an adapter or a hook.
    pub fn custom(message: impl Display) -> Self {
        Self::new(Kind::Custom, message)
    }

    /// An error for something that is not there: its predicate is [`is_not_found`](Self::is_not_found).
    pub fn not_found(message: impl Display) -> Self {
        Self::new(Kind::Io(std::io::ErrorKind::NotFound), message)
    }
    /// An error of a store: what is there is not what the caller expected to replace or to extend.
    pub fn conflict(message: impl Display) -> Self {
        Self::new(Kind::Conflict, message)
    }
    /// An error of a sealed store: none of the keys at hand opens this.
    pub fn wrong_key(message: impl Display) -> Self {
        Self::new(Kind::WrongKey, message)
    }
    /// An error of a sealed store: this was good once, but a later one has been written since.
    pub fn rollback(message: impl Display) -> Self {
        Self::new(Kind::Rollback, message)
    }

    /// An error for what was not done because somebody asked not to do it.
    pub fn cancelled(message: impl Display) -> Self {
        Self::new(Kind::Cancelled, message)
    }

    /// An error of the operating system about a file, a directory or a connection. The core has none of them; front
    /// ends and stores do, and share this type. Its [source](std::error::Error::source) is the given error, with its code.
    pub fn io(what: impl Display, error: std::io::Error) -> Self {
        Self::new(Kind::Io(error.kind()), format_args!("{what}: {error}")).caused_by(error)
    }

    /// An error of the operating system about something that was being written. A place where this program may not write is
    /// [read-only](Self::is_read_only).
    pub fn io_write(what: impl Display, error: std::io::Error) -> Self {
        use std::io::ErrorKind;
        let kind = match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Kind::ReadOnly,
            kind => Kind::Io(kind),
        };
        Self::new(kind, format_args!("{what}: {error}")).caused_by(error)
    }

    /// An error about a file whose last sync failed: its contents are not known, so it is not written to any more.
    pub fn poisoned(message: impl Display) -> Self {
        Self::new(Kind::Poisoned, message)
    }

    /// Sets the [source](std::error::Error::source). The message should contain the cause's message too, because many
    /// programs print only the message.
    pub fn caused_by(mut self, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(cause));
        self
    }

    /// The operating system refused something. The bytes may be whole: try again before offering an older save.
    pub fn is_io(&self) -> bool {
        matches!(self.0.kind, Kind::Io(_) | Kind::ReadOnly | Kind::Poisoned)
    }
    /// This program may not write there: choose another place, or ask the player to allow it. Reading may work.
    pub fn is_read_only(&self) -> bool {
        self.0.kind == Kind::ReadOnly
    }
    /// An earlier sync failed, so what the disk holds is not known: write a new file, or open the world again.
    pub fn is_poisoned(&self) -> bool {
        self.0.kind == Kind::Poisoned
    }
    /// There is no such file: a new game.
    pub fn is_not_found(&self) -> bool {
        self.0.kind == Kind::Io(std::io::ErrorKind::NotFound)
    }
    /// The bytes are damaged, truncated or not ours: offer the backup.
    pub fn is_corrupt(&self) -> bool {
        self.0.kind == Kind::Corrupt
    }
    /// The bytes come from a newer version of the format, or of the game: offer an update.
    pub fn is_newer_format(&self) -> bool {
        self.0.kind == Kind::NewerFormat
    }
    /// Something is larger than [`Limits`](crate::Limits) allow.
    pub fn is_limit(&self) -> bool {
        self.0.kind == Kind::Limit
    }
    /// The saved schema cannot become the registered one.
    pub fn is_schema(&self) -> bool {
        self.0.kind == Kind::Schema
    }
    /// A component or data key is not registered and the caller asked to refuse such saves.
    pub fn is_unknown(&self) -> bool {
        self.0.kind == Kind::Unknown
    }
    /// A reference points to no entity and the caller asked to refuse such saves.
    pub fn is_dangling(&self) -> bool {
        self.0.kind == Kind::Dangling
    }
    /// This build lacks what the bytes need, such as a compression codec behind a feature.
    pub fn is_unsupported(&self) -> bool {
        self.0.kind == Kind::Unsupported
    }
    /// The call itself is wrong, such as two types registered under one key.
    pub fn is_misuse(&self) -> bool {
        self.0.kind == Kind::Misuse
    }

    /// Somebody else was there first: look at what there is now, and decide again.
    pub fn is_conflict(&self) -> bool {
        self.0.kind == Kind::Conflict
    }
    /// None of the keys at hand opens this: ask for the passphrase again.
    pub fn is_wrong_key(&self) -> bool {
        self.0.kind == Kind::WrongKey
    }
    /// An old save was put in the place of a newer one.
    pub fn is_rollback(&self) -> bool {
        self.0.kind == Kind::Rollback
    }
    /// It was not done because somebody asked not to do it: nothing to tell the player.
    pub fn is_cancelled(&self) -> bool {
        self.0.kind == Kind::Cancelled
    }

    /// The component or data key that the error is about.
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }
    /// The section that the error is about.
    pub fn section(&self) -> Option<&str> {
        self.0.section
    }
    /// Where in the file, or in the section if one is named, the error was met.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// Names the component or data key, unless a more precise one is there already.
    pub fn in_key(mut self, key: &str) -> Self {
        self.0.key.get_or_insert_with(|| key.to_owned());
        self
    }
    /// Names the file or directory that the error was met in, unless a more precise one is there already. An error of
    /// the file system names its path itself.
    pub fn in_place(mut self, place: impl Display) -> Self {
        if !self.is_io() {
            self.0.place.get_or_insert_with(|| place.to_string());
        }
        self
    }
    /// Puts a field (or variant, or element) in front of the path to the value that failed.
    #[cold]
    pub fn in_field(mut self, field: impl Display) -> Self {
        self.0.path.push(field.to_string());
        self
    }
    pub(crate) fn in_migration(mut self, track: &str, from: u32, to: u32) -> Self {
        let message = &self.0.message;
        self.0.message =
            format!("in the migration of `{track}` from version {from} to version {to}: {message}");
        self
    }
    pub(crate) fn in_section(mut self, section: &'static str) -> Self {
        self.0.section.get_or_insert(section);
        self
    }
    pub(crate) fn at(mut self, offset: usize) -> Self {
        self.0.offset.get_or_insert(offset as u64);
        self
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { message, key, path, section, offset, place, .. } = &*self.0;
        if let Some(key) = key {
            write!(f, "`{}`", key.escape_debug())?;
            for field in path.iter().rev() {
                write!(f, ".{}", field.escape_debug())?;
            }
            f.write_str(": ")?;
        } else if !path.is_empty() {
            for (i, field) in path.iter().rev().enumerate() {
                write!(f, "{}{}", if i == 0 { "`" } else { "." }, field.escape_debug())?;
            }
            f.write_str("`: ")?;
        }
        f.write_str(message)?;
        match (section, offset) {
            (Some(section), Some(offset)) => write!(f, " (section {section}, byte {offset})")?,
            (Some(section), None) => write!(f, " (section {section})")?,
            (None, Some(offset)) => write!(f, " (byte {offset})")?,
            (None, None) => {}
        }
        match place {
            Some(place) => write!(f, ", in `{place}`"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        write!(text, "{self}")?;
        write!(f, "Error({:?}: {text})", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|cause| cause.as_ref() as _)
    }
}

/// Runs code that may panic: of the game, of a codec, of a store. A panic becomes an error that says what happened, with the
/// message of the panic.
pub fn catch_panic<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panic_error(what, &*panic)))
}

/// The error of a panic that was caught.
pub fn panic_error(what: &str, panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    Error::custom(format!("{what}: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_key_path_and_place() {
        let error = Error::corrupt("invalid bool 7").in_field("open").in_field("door").in_key("game.house");
        assert_eq!(error.to_string(), "`game.house`.door.open: invalid bool 7");
        let error = error.in_section("columns").at(12);
        assert_eq!(error.to_string(), "`game.house`.door.open: invalid bool 7 (section columns, byte 12)");
        assert!(error.is_corrupt() && !error.is_limit());
        assert_eq!(error.key(), Some("game.house"));
    }

    #[test]
    fn the_first_key_and_place_win_because_they_are_the_most_precise() {
        let error = Error::limit("too long").in_key("inner").in_key("outer").at(1).at(2);
        assert_eq!((error.key(), error.offset()), (Some("inner"), Some(1)));
    }

    #[test]
    fn a_message_ends_with_the_file_that_it_is_about() {
        let error = Error::corrupt("a block is damaged")
            .at(3)
            .in_key("quick")
            .in_place("saves/quick")
            .in_place("saves");
        assert_eq!(error.to_string(), "`quick`: a block is damaged (byte 3), in `saves/quick`");
        let error = Error::io("cannot open `a`", std::io::ErrorKind::NotFound.into()).in_place("saves");
        assert!(!error.to_string().contains("saves"), "{error}");
    }

    #[test]
    fn the_source_of_an_error_of_the_system_has_its_code() {
        use std::error::Error as _;

        let error = Error::io("cannot open `a`", std::io::Error::from_raw_os_error(2)).in_key("game.house");
        let cause = error.clone();
        let cause = cause.source().and_then(|cause| cause.downcast_ref::<std::io::Error>());
        assert_eq!(cause.and_then(std::io::Error::raw_os_error), Some(2));
        assert!(error.is_not_found() && error.to_string().contains("cannot open `a`: "));
        assert!(Error::limit("too long").source().is_none());
    }

    #[test]
    fn errors_of_writing_say_whether_the_place_is_read_only() {
        let error = |kind: std::io::ErrorKind| Error::io_write("cannot write", kind.into());
        for kind in [std::io::ErrorKind::PermissionDenied, std::io::ErrorKind::ReadOnlyFilesystem] {
            assert!(error(kind).is_read_only() && error(kind).is_io() && !error(kind).is_not_found());
        }
        assert!(!error(std::io::ErrorKind::StorageFull).is_read_only());
        assert!(!Error::io("cannot read", std::io::ErrorKind::PermissionDenied.into()).is_read_only());
        assert!(Error::poisoned("sync failed").is_poisoned() && Error::poisoned("sync failed").is_io());
    }

    #[test]
    fn control_characters_from_a_save_are_shown_escaped() {
        let error = Error::unknown("not registered").in_key("a\u{1b}[31m");
        assert!(!error.to_string().contains('\u{1b}'));
    }
}

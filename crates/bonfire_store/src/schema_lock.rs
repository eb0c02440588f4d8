//! The schema lock as a file, and the one call with which a test of the game keeps it.
//!
//! The file is only written when it is asked for, and then replaced as a whole or not at all. What was released stays in it:
//! a build that old saves cannot follow is refused in either mode, and the file is left as it was.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use bonfire::{Error, Registry, Result, SchemaLock};

use crate::file::{failed, replace};

/// The variable that says what [`check_schemas`] does.
const VARIABLE: &str = "BONFIRE_LOCK";

/// No lock of a game comes near it.
const LOCK_BYTES_MAX: u64 = 64 << 20;

/// Fails if old saves cannot follow this build, or if the build has schemas that are not locked yet.
///
/// It is meant for a test of the game, which registers what the game registers. The lock is a text file, best next to the
/// game's `Cargo.toml`, and is committed:
///
/// ```
/// # use bonfire::{Persist, Registry};
/// #[derive(Persist)]
/// #[persist(key = "game.health")]
/// struct Health(f32);
///
/// fn registry() -> bonfire::Result<Registry> {
///     Registry::new().with::<Health>()
/// }
///
/// # const _: &str = stringify!(
/// #[test]
/// # );
/// fn old_saves_can_follow() -> bonfire::Result<()> {
///     bonfire_store::check_schemas(concat!(env!("CARGO_MANIFEST_DIR"), "/schemas.lock"), &registry()?)
/// }
/// # let _ = old_saves_can_follow; // run, it would depend on the environment
/// ```
///
/// Run with `BONFIRE_LOCK=write` in the environment, the test adds what is new to the file, and makes the file if there is
/// none: do that before each release, and look at what changed. It still fails, and writes nothing, if old saves cannot
/// follow.
#[expect(
    clippy::test_attr_in_doctest,
    reason = "it is what a game writes, and it is compiled without the attribute"
)]
pub fn check_schemas(path: impl AsRef<Path>, registry: &Registry) -> Result<()> {
    let asked = std::env::var_os(VARIABLE).unwrap_or_default();
    check(path.as_ref(), registry, Mode::of(&asked.to_string_lossy())?)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Check,
    Write,
}

impl Mode {
    /// What the variable asks for. A word that means nothing is not taken for a check: whoever set it wanted something.
    fn of(asked: &str) -> Result<Self> {
        match asked {
            "" => Ok(Self::Check),
            "write" => Ok(Self::Write),
            other => Err(Error::misuse(format!(
                "{VARIABLE} is {other:?}, which means nothing: `write` adds new schemas to the lock, without it they are checked"
            ))),
        }
    }
}

fn check(path: &Path, registry: &Registry, mode: Mode) -> Result<()> {
    let known = match read_schema_lock(path) {
        Ok(known) => Some(known),
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error),
    };
    match (mode, known) {
        (Mode::Check, Some(known)) => known.check(registry),
        (Mode::Check, None) => Err(Error::io(
            format_args!(
                "there is no schema lock `{}` yet: run the test with {VARIABLE}=write, and commit the file",
                path.display()
            ),
            std::io::Error::new(std::io::ErrorKind::NotFound, "no such file"),
        )),
        (Mode::Write, known) => {
            registry.check()?;
            let before = known.as_ref().map(ToString::to_string);
            let mut lock = known.unwrap_or_default();
            lock.add(registry)?;
            // A file that says the same keeps the comments that people wrote into it.
            if before != Some(lock.to_string()) {
                write_schema_lock(path, &lock)?;
            }
            Ok(())
        }
    }
}

/// Reads the schema lock at `path`.
pub fn read_schema_lock(path: &Path) -> Result<SchemaLock> {
    let file = File::open(path).map_err(failed("open", path))?;
    let mut text = String::new();
    file.take(LOCK_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed("read", path))?;
    if text.len() as u64 > LOCK_BYTES_MAX {
        let path = path.display();
        return Err(Error::limit(format!(
            "`{path}` has more than {LOCK_BYTES_MAX} bytes: it is no schema lock"
        )));
    }
    SchemaLock::parse(&text).map_err(|error| Error::corrupt(format!("`{}`: {error}", path.display())))
}

/// Puts the schema lock at `path`.
pub fn write_schema_lock(path: &Path, lock: &SchemaLock) -> Result<()> {
    replace(path, &[lock.to_string().as_bytes()], &|_| {})
}

#[cfg(test)]
mod tests {
    use std::fs;

    use bonfire::{Keyed, Persist};

    use super::*;

    #[derive(Persist)]
    #[persist(key = "game.health")]
    struct Health {
        current: f32,
    }

    /// A later release of it, which old saves can follow.
    #[derive(Persist)]
    #[persist(key = "game.health")]
    struct Grown {
        current: f32,
        #[persist(default = 100.0)]
        max: f32,
    }

    /// One that they cannot follow.
    #[derive(Persist)]
    #[persist(key = "game.health")]
    struct Broken {
        current: bool,
    }

    fn with<T: Keyed>() -> Registry {
        Registry::new().with::<T>().unwrap()
    }

    #[test]
    fn a_missing_file_is_made_when_that_is_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("schemas.lock");
        let error = check(&path, &with::<Health>(), Mode::Check).unwrap_err();
        assert!(error.is_not_found(), "{error}");
        assert!(error.to_string().contains("run the test with BONFIRE_LOCK=write"), "{error}");
        assert!(!path.exists());
        check(&path, &with::<Health>(), Mode::Write).unwrap();
        assert!(fs::read_to_string(&path).unwrap().contains("\n[game.health]\nversion 1: {current: f32}\n"));
        check(&path, &with::<Health>(), Mode::Check).unwrap();
        // Nothing is left of the way there.
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_new_must_be_added_and_what_was_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("schemas.lock");
        check(&path, &with::<Health>(), Mode::Write).unwrap();
        let before = fs::read(&path).unwrap();
        let error = check(&path, &with::<Grown>(), Mode::Check).unwrap_err();
        assert!(error.is_schema(), "{error}");
        assert!(error.to_string().contains("its schema is not locked yet"), "{error}");
        assert!(error.to_string().contains("run the test with BONFIRE_LOCK=write"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), before, "a check writes nothing");
        check(&path, &with::<Grown>(), Mode::Write).unwrap();
        check(&path, &with::<Grown>(), Mode::Check).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().matches("\nversion 1: ").count(), 2);
    }

    #[test]
    fn what_old_saves_cannot_follow_fails_in_either_mode_and_is_not_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("schemas.lock");
        check(&path, &with::<Health>(), Mode::Write).unwrap();
        let before = fs::read(&path).unwrap();
        for mode in [Mode::Check, Mode::Write] {
            let error = check(&path, &with::<Broken>(), mode).unwrap_err();
            assert!(error.to_string().contains("can no longer be read"), "{mode:?}: {error}");
            let error = check(&path, &Registry::new(), mode).unwrap_err();
            assert!(error.to_string().contains("no longer registered"), "{mode:?}: {error}");
            assert_eq!(fs::read(&path).unwrap(), before);
        }
    }

    #[test]
    fn a_file_that_says_the_same_keeps_its_comments() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("schemas.lock");
        check(&path, &with::<Health>(), Mode::Write).unwrap();
        let noted = format!("{}\n# released in May\n", fs::read_to_string(&path).unwrap());
        fs::write(&path, &noted).unwrap();
        check(&path, &with::<Health>(), Mode::Write).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), noted);
    }

    #[test]
    fn a_file_that_is_no_lock_is_named_and_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("schemas.lock");
        fs::write(&path, "[game.health]\n<<<<<<< ours\n").unwrap();
        for mode in [Mode::Check, Mode::Write] {
            let error = check(&path, &with::<Health>(), mode).unwrap_err();
            assert!(error.is_corrupt(), "{error}");
            assert!(error.to_string().contains("schemas.lock`: line 2 of the schema lock: "), "{error}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "[game.health]\n<<<<<<< ours\n");
        fs::write(&path, [0x89, 0xff]).unwrap();
        assert!(read_schema_lock(&path).unwrap_err().is_io());
    }

    #[test]
    fn the_variable_says_write_or_nothing() {
        assert_eq!(Mode::of("").unwrap(), Mode::Check);
        assert_eq!(Mode::of("write").unwrap(), Mode::Write);
        let error = Mode::of("Write").unwrap_err();
        assert!(error.is_misuse(), "{error}");
        assert!(error.to_string().contains("BONFIRE_LOCK is \"Write\", which means nothing"), "{error}");
    }
}

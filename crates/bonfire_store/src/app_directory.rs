//! The directory in which each operating system keeps the saves of a game.

use std::path::PathBuf;

use bonfire::{Error, Result};

/// The directory for the saves of a game: `studio/game/saves` in the folder that the system keeps for the data of
/// programs, of the player who is logged in. Nothing is created.
///
/// | system | folder |
/// |---|---|
/// | Linux, SteamOS | `$XDG_DATA_HOME`, or `~/.local/share` |
/// | macOS | `~/Library/Application Support` |
/// | Windows | the roaming application data folder, `%APPDATA%` |
pub fn app_directory(studio: &str, game: &str) -> Result<PathBuf> {
    check_component(studio)?;
    check_component(game)?;
    let base = dirs::data_dir().ok_or_else(|| {
        let missing = std::io::Error::new(std::io::ErrorKind::NotFound, "this user has no home directory");
        Error::io("cannot find the folder for saves", missing)
    })?;
    Ok(base.join(studio).join(game).join("saves"))
}

/// Names of studios and games are text for people, but they must stay one directory on every system.
fn check_component(name: &str) -> Result<()> {
    let forbidden = |c: char| c.is_control() || r#"/\:*?"<>|"#.contains(c);
    if name.is_empty()
        || name.len() > 100
        || name.contains(forbidden)
        || name.starts_with('.')
        || name.ends_with(['.', ' '])
        || crate::portable_name::is_device(name.split('.').next().unwrap_or(""))
    {
        return Err(Error::misuse(format!("{name:?} cannot be the name of a directory on every system")));
    }
    Ok(())
}

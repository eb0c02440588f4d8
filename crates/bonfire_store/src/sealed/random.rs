//! The one place that asks the system for random bytes. In browsers they come from `crypto.getRandomValues`.

use bonfire::{Error, Result};

pub(super) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        let error = std::io::Error::other(error.to_string());
        Error::io("the system has no random bytes", error)
    })?;
    Ok(bytes)
}

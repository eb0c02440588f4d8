//! The name and version under which a type is a component, a resource or a save of its own.

use super::upgrade::History;
use crate::persist::Persist;

/// A type with a name of its own in a save.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no key, so it cannot be a component, a resource or a save of its own",
    label = "no key",
    note = "give it one that never changes: `#[persist(key = \"game.name\")]`"
)]
pub trait Keyed: Persist {
    /// The name in every save, chosen by the game and never taken from the Rust type. The key of a generic type may have
    /// the keys of its parameters in it: `#[persist(key = "game.slot<{T}>")]`.
    const KEY: &'static str;
    /// Counts up when the meaning of the saved fields changes.
    const VERSION: u32 = 1;
    /// Whether the component is never saved, though its entity is.
    const TRANSIENT: bool = false;
    /// Keys that it had before.
    const ALIASES: &'static [&'static str] = &[];
    /// Whether each distinct value of a column is stored once, where that is smaller.
    const DICTIONARY: bool = false;
    /// If equal values are to be one value after a load, how a value is made of another: `Clone::clone`.
    const SHARED: Option<fn(&Self) -> Self> = None;

    /// Names the types of older versions.
    fn history(_steps: &mut History) {}

    /// Returns the keys that an instance of a generic type had when its parameters had other keys.
    fn composed_aliases() -> Vec<String> {
        Vec::new()
    }
}

/// A key that has those of type parameters in it, put together at compile time.
#[doc(hidden)]
pub struct ComposedKey {
    bytes: [u8; KEY_BYTES_MAX],
    len: usize,
}

const KEY_BYTES_MAX: usize = 255;

impl ComposedKey {
    /// Joins the parts. Longer keys than a save can have do not compile.
    pub const fn new(parts: &[&str]) -> Self {
        let mut key = Self { bytes: [0; KEY_BYTES_MAX], len: 0 };
        let mut number = 0;
        while number < parts.len() {
            let part = parts[number].as_bytes();
            assert!(
                key.len + part.len() <= KEY_BYTES_MAX,
                "the key of this instance of a generic type has more than 255 bytes"
            );
            let mut at = 0;
            while at < part.len() {
                key.bytes[key.len] = part[at];
                key.len += 1;
                at += 1;
            }
            number += 1;
        }
        key
    }

    /// Returns the key.
    pub const fn as_str(&self) -> &str {
        match str::from_utf8(self.bytes.split_at(self.len).0) {
            Ok(text) => text,
            Err(_) => panic!("texts in a row are text"),
        }
    }
}

/// Returns all keys that a type has or had.
#[doc(hidden)]
pub fn all_keys<T: Keyed>() -> Vec<String> {
    let mut keys = vec![T::KEY.to_owned()];
    keys.extend(T::ALIASES.iter().map(|&alias| alias.to_owned()));
    keys.extend(T::composed_aliases());
    keys
}

/// Returns all keys that an instance can have had, without those that it names itself. Each key is given as its parts,
/// each part as the texts that it can be.
#[doc(hidden)]
pub fn compose_aliases<T: Keyed>(keys: Vec<Vec<Vec<String>>>) -> Vec<String> {
    let mut composed: Vec<String> = keys.into_iter().flat_map(join_all).collect();
    composed.retain(|key| key != T::KEY && !T::ALIASES.contains(&&**key));
    composed.sort();
    composed.dedup();
    composed
}

fn join_all(parts: Vec<Vec<String>>) -> Vec<String> {
    parts.into_iter().fold(vec![String::new()], |begun, part| {
        begun.iter().flat_map(|text| part.iter().map(move |next| format!("{text}{next}"))).collect()
    })
}

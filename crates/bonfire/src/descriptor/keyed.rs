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
    /// The name in every save, chosen by the game and never taken from the Rust type.
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
}

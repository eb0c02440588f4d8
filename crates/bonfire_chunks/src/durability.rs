//! The moment at which a save counts as done.

/// When a save counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it survives a crash.
    #[default]
    Synced,
    /// When others can read it. The next synced save makes it durable too; a crash before it takes this one back as a whole.
    Buffered,
}

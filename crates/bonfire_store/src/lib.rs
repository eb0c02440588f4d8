//! Saves at rest. Front ends hand their bytes over here and get checked snapshots back. Beside them lies the game's schema
//! lock, which a test of the game checks with [`check_schemas`].

mod file;
mod lock;

pub use file::{read, write};
pub use lock::{check_schemas, read_lock, write_lock};

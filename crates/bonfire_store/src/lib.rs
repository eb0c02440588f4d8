//! Saves at rest. Front ends hand their bytes over here and get checked snapshots back.

mod file;

pub use file::{read, write};

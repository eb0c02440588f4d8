//! Saving off the game's thread.
//!
//! | file | what |
//! |---|---|
//! | `saver` | what a game or a front end calls |
//! | `worker` | the one thread, and what it shares with those who call |
//! | `queue` | what waits, and which save takes the place of which: plain data |
//! | `job` | one request, and how it is done |
//! | `append` | a delta on its way to the journal of a save |
//! | `handle` | how requests are followed: a [`Handle`] and its other end, a [`Promise`] |
//! | `status` | what came of a save, and how all of them go |
//! | `target` | where saves go, and what loads read |
//!
//! Jobs are done one at a time, in the order of the requests. A handle is complete when the outcome is final: for a save,
//! when the bytes are durable.

mod append;
mod handle;
mod job;
mod queue;
mod saver;
mod status;
mod target;
mod worker;

pub use self::append::RequestedSave;
pub use self::handle::{Handle, HandleFuture, LoadHandle, Promise, SaveHandle};
pub use self::job::SaveRequest;
pub use self::saver::Saver;
pub use self::status::{SaveReport, SaverStatus};
pub use self::target::{LoadSource, SaveTarget};

//! Saving off the game's thread, or a slice at a time on it.
//!
//! | file | what |
//! |---|---|
//! | `saver` | the calls of a game |
//! | `request` | the calls of a front end: requests that wait for the end of a frame |
//! | `queue` | the requests that wait, for the front end or for the thread: plain data |
//! | `worker` | the one thread, and what it shares with its callers |
//! | `turns` | the same without a thread: jobs are done in turns of a caller |
//! | `job` | one request, and how it is done |
//! | `save`, `append`, `load` | the work: a captured world, a delta for a journal, a save that is opened |
//! | `handle` | how requests are followed: a [`Handle`] and its other end, a [`Promise`] |
//! | `status` | the report of a save, and how all of them go |
//! | `target` | where saves go, and what loads read |
//!
//! Jobs are done one at a time, in the order of the requests. A handle is complete when the outcome is final: for a save,
//! when the bytes are durable.

mod append;
mod handle;
mod job;
mod load;
mod queue;
mod request;
mod save;
mod saver;
mod status;
mod target;
mod turns;
mod worker;

pub use self::append::RequestedSave;
pub use self::handle::{Handle, HandleFuture, LoadHandle, Promise, SaveHandle};
pub use self::job::Requirement;
pub use self::request::{
    NextRequest, RefusedRequest, RequestScope, SaveTurn, next_request, request, request_count, request_save,
    submit_append_after, submit_delete, submit_load, submit_save,
};
pub use self::save::CapturedSave;
pub use self::saver::Saver;
pub use self::status::{SaveReport, SaverStatus};
pub use self::target::{LoadSource, SaveTarget};

//! The file below a world: frames that are found by their key, and saves that are there as a whole or not at all. What the
//! frames hold is not its business.
//!
//! A save is appended, and durable after one sync. Header and page table are brought up to date now and then (a *checkpoint*): until
//! then, and whenever something stops half-way, the saves behind the last checkpoint are replayed. The order of writes and
//! syncs, and why a crash at any point is harmless, is in ARCHITECTURE.md.
//!
//! A file of this module uses those above its line, or before it in the line, and never one below:
//!
//! | files | |
//! |---|---|
//! | `names`, `indices`, `report` | names, lock and errors; where frames are; the result of opening |
//! | `frame_reader`, `frame_scanner`, `frame_writer` | frames as bytes: one of them, all of them, new ones |
//! | `pins` | which frames pinned moments have, in memory |
//! | `no_seal`, `seal`, `counter` | frames that need a key; the newest save of a sealed file |
//! | `entity_section`, `proof` | bodies as the document has them; what a sealed file proves |
//! | `side_index`, `page_table`, `replay`, `recover` | from bytes of unknown origin to where everything is |
//! | `commit_file`, `pin_loader`, `checkpoint_state`, `writer_state` | the state that readers share, with its pins; the state of the writer |
//! | `checkpoint_frames`, `pin_frames`, `write_commit` | one commit at the end of the file, with the frames of a checkpoint if one is given |
//! | `kept_frames`, `file_check`, `new_file`, `file_snapshot` | files that are written as a whole, their check, and what they are made of |
//! | `change_log`, `next_file` | the changes that a new file lacks; the file that is to replace an open one, while saves go on |
//! | `chunk_file`, `moment`, `read` | an open file; reads of frames, now and as of a pin |
//! | `rewrite`, `compaction` | replacements in one go, copies; replacements in steps |
//! | `checkpoint` | header, table and side index brought up to date; growth of the table |
//! | `commit` | saves, which decide whether a checkpoint is due |
//! | `pin` | pins, returns, and removed pins |
//! | `repair`, `open`, `store`, `pinned_frames` | repairs before a file can be written to; opening and closing; the file as a store of frames, now and as of a pin |

mod change_log;
mod checkpoint;
mod checkpoint_frames;
mod checkpoint_state;
mod chunk_file;
mod commit;
mod commit_file;
mod compaction;
mod counter;
mod entity_section;
mod file_check;
mod file_snapshot;
mod frame_reader;
mod frame_scanner;
mod frame_writer;
mod indices;
mod kept_frames;
mod moment;
mod names;
mod new_file;
mod next_file;
#[cfg(not(feature = "seal"))]
mod no_seal;
mod open;
mod page_table;
mod pin;
mod pin_frames;
mod pin_loader;
mod pinned_frames;
mod pins;
mod proof;
mod read;
mod recover;
mod repair;
mod replay;
mod report;
mod rewrite;
mod seal;
mod side_index;
mod store;
#[cfg(test)]
mod tests;
mod write_commit;
mod writer_state;

pub(crate) use self::chunk_file::{ChunkFile, FileOptions};
pub use self::compaction::CompactionStatus;
pub(crate) use self::compaction::StepOutcome;
pub(crate) use self::counter::newest as newest_counted;
pub(crate) use self::names::TemporaryName;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use self::names::lock_name;
pub(crate) use self::new_file::NewFile;
pub(crate) use self::pin::NewPin;
pub use self::pin::PinInfo;
pub(crate) use self::pinned_frames::PinnedFrames;
pub use self::report::{DamagedFrame, DamagedInPins, OpenReport};
pub(crate) use self::rewrite::FileCopy;
pub(crate) use self::seal::Seal;

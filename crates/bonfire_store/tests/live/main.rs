//! Saving off the game's thread: order, saves that pile up, a full queue, ends and failures. Disks with a gate hold the
//! thread where a test wants it, so that nothing here depends on time.

#[path = "../common/mod.rs"]
mod common;

mod cancel;
mod ends;
mod failures;
mod gate;
mod handles;
mod journal;
mod order;
mod progress;
mod requests;
mod targets;
mod turns;

//! Saving and loading while the game runs.
//!
//! | file | what |
//! |---|---|
//! | `saves` | [`Saves`]: what is asked for, and how saving is set up |
//! | `request` | requests that are no saves: loads, deletions, new beginnings |
//! | `run` | what happens at the end of every tick: captures, loads, events |
//! | `loading` | a load that is going on |
//! | `capture_with_events` | captures with the observers of a save |
//! | `autosave` | the timer |
//! | `journal` | [`SavePolicy::Journal`]: a save, and then what has changed |
//! | `moment` | a part of the game that is saved apart, of the same moment |
//! | `exit` | the last tick |
//! | `checkpoint` | [`Checkpoints`]: the last moments of a world, to go back to |
//! | `rewindable` | entities that are despawned and come back under their ids |
//!
//! Requests wait in the queue of the saver and are done in the order in which they were made. A save is captured at the end of the tick, with everything that
//! the tick did, and written by another thread. A load is read and decoded by that thread, too, and committed at the end of a
//! tick, or over several; whatever was asked for after it waits for that.

mod autosave;
mod capture_with_events;
mod checkpoint;
mod exit;
mod journal;
mod loading;
#[cfg_attr(not(feature = "chunks"), expect(dead_code, reason = "nothing else is saved apart"))]
mod moment;
mod request;
mod rewindable;
mod run;
mod saves;

pub use self::autosave::Autosave;
pub(crate) use self::capture_with_events::capture_with_events;
pub use self::checkpoint::Checkpoints;
pub use self::exit::{ExitOptions, SavedOnExit};
#[cfg(feature = "chunks")]
pub(crate) use self::moment::{
    BegunMoment, BegunNewWorld, BegunReturn, MomentKeeper, ReturnedMoment, ReturnedPart,
};
pub(crate) use self::request::Request;
pub use self::rewindable::RewindExt;
pub(crate) use self::run::{HasSaves, begin_tick, request, run};
pub use self::saves::{LoadHandle, SavePolicy, SaveSystems, Saves, SimulationSet};
pub(crate) use self::saves::{WORK_BUDGET, simulation_runs};

//! Snapshot to world, as a plan: schemas are resolved, ids are mapped, everything that can fail is done, and only then
//! does the front end touch the world.
//!
//! | step | may fail | |
//! |---|---|---|
//! | [`LoadPlan::new`] | yes | every saved component finds its registered one, or what happens to it is decided |
//! | front end | yes | reserves an id for each of [`LoadPlan::entities`], makes an [`EntityMap`](crate::engine::EntityMap); or [`LoadPlan::compare`]s them with those that live |
//! | [`LoadPlan::stage`] | yes | all columns are decoded, references mapped, unknown ones carried |
//! | [`LoadPlan::stage_without_world`], [`LoadPlan::stage_next`] | yes | the same in two parts: on any thread, and what looks at the world |
//! | front end | no | commits: spawns, moves rows in |
//! | [`Hooks`](crate::engine::Hooks) | reported | data callbacks, finish |

mod compare;
mod deferred;
mod loaded;
mod options;
mod plan;
mod preflight;
mod report;
mod rewrite;
mod row_exchange;
mod stage;
mod stage_column;
mod staged;

pub use self::compare::{Comparison, LiveWorld, RowRun};
pub use self::deferred::Deferred;
pub use self::loaded::{Loaded, Resources};
pub use self::options::{LoadOptions, RowOrder, Unknown};
pub use self::plan::LoadPlan;
pub use self::preflight::{Preflight, preflight};
pub use self::report::{ComponentReport, LoadReport, Outcome};
pub use self::row_exchange::row_exchanges;
pub use self::staged::{Staged, StagedArchetype, StagedExtra};

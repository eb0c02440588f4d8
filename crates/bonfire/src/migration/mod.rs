//! Whole worlds from one version of the game to a later one, before anything is loaded: version lines ([`track`]) and what a
//! migration may do to a saved world ([`world_edit`]).

mod track;
mod world_edit;

pub use self::track::TrackState;
pub(crate) use self::track::{Track, compare, is_needed, migrate};
pub use self::world_edit::WorldEdit;

#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod app;
mod builtin;
mod capture;
mod event;
mod file;
mod load;
mod plugin;
mod registry;
mod selection;
mod world;

pub use app::PersistExt;
pub use bonfire::*;
pub use capture::SaveOptions;
pub use event::{LoadFinished, LoadStarting, SaveCaptured, SaveFinished, SaveStarting, SaveSummary};
pub use load::{LoadMode, Loaded};
pub use plugin::{BonfirePlugin, Saved};
pub use selection::{SaveScope, Selection};
pub use world::{CommandsSaveExt, WorldSaveExt};

/// What a game imports.
pub mod prelude {
    pub use crate::{
        BonfirePlugin, CommandsSaveExt, LoadFinished, LoadMode, LoadStarting, Persist, PersistExt,
        SaveFinished, SaveOptions, SaveStarting, Saved, WorldSaveExt,
    };
}

//! The requests of a game that are no saves.

use std::sync::Arc;

use bevy_ecs::world::World;
use bonfire::Error;
use bonfire_store::engine::{Promise, RequestScope};
use bonfire_store::{LoadSource, SaveTarget};

use crate::load::{LoadFinished, LoadOptions, Loaded, StartedOver};

/// A request of the game. It waits in the queue of the saver until the end of a tick.
pub(crate) enum Request {
    Load { source: LoadSource, options: Box<LoadOptions>, promise: Promise<Arc<Loaded>> },
    DeleteSaves { slot: String, promise: Promise<u64> },
    StartOver { slot: String, promise: Promise<u64> },
}

impl Request {
    /// A verb and its target.
    pub(super) fn description(&self) -> String {
        match self {
            Self::Load { source, .. } => format!("load {source}"),
            Self::DeleteSaves { slot, .. } => format!("delete slot `{slot}`"),
            Self::StartOver { slot, .. } => format!("start slot `{slot}` over"),
        }
    }

    /// The target that it needs.
    pub(super) fn target(&self) -> SaveTarget {
        match self {
            Self::Load { source, .. } => source.target(),
            Self::DeleteSaves { slot, .. } | Self::StartOver { slot, .. } => SaveTarget::Slot(slot.clone()),
        }
    }

    pub(super) fn scope(&self) -> RequestScope {
        match self {
            // What is loaded changes what is saved.
            Self::Load { .. } | Self::StartOver { .. } => RequestScope::Everything,
            Self::DeleteSaves { .. } => RequestScope::Target(self.target()),
        }
    }

    /// Completes the handle with an error. Returns the event that observers get at the end of the tick, if there is one.
    pub(super) fn refuse(self, error: Error) -> Option<RefusalEvent> {
        match self {
            Self::Load { source, promise, .. } => {
                promise.complete(Err(error.clone()));
                Some(RefusalEvent::Load(LoadFinished {
                    source: Some(source),
                    skipped: Vec::new(),
                    journal: None,
                    result: Err(error),
                }))
            }
            Self::StartOver { slot, promise } => {
                promise.complete(Err(error.clone()));
                Some(RefusalEvent::StartOver(StartedOver { slot, result: Err(error) }))
            }
            Self::DeleteSaves { promise, .. } => {
                promise.complete(Err(error));
                None
            }
        }
    }
}

/// The event of a load or a new beginning that was not begun.
pub(super) enum RefusalEvent {
    Load(LoadFinished),
    StartOver(StartedOver),
}

impl RefusalEvent {
    pub(super) fn trigger(self, world: &mut World) {
        match self {
            Self::Load(event) => {
                if let (Some(source), Err(error)) = (&event.source, &event.result) {
                    log_failure(&format!("the load of {source}"), error);
                }
                world.trigger(event);
            }
            Self::StartOver(event) => {
                if let Err(error) = &event.result {
                    log_failure(&format!("starting slot `{}` over", event.slot), error);
                }
                world.trigger(event);
            }
        }
    }
}

/// Logs a request that failed. One that the game cancelled is no error.
pub(super) fn log_failure(what: &str, error: &Error) {
    if error.is_cancelled() {
        log::debug!("{what}: {error}");
    } else {
        log::error!("{what} failed: {error}");
    }
}

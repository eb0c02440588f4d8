//! What is asked for, and waits for the end of the tick.

use std::collections::VecDeque;
use std::sync::Arc;

use bonfire::Error;
use bonfire_store::engine::Promise;
use bonfire_store::{LoadSource, SaveReport, SaveTarget};

use crate::capture::SaveOptions;
use crate::load::{LoadOptions, Loaded};

/// A request of the game.
pub(crate) enum Request {
    Save {
        target: SaveTarget,
        options: Box<SaveOptions>,
        /// The last one is that of this request, the others are of those whose place it took.
        promises: Vec<Promise<SaveReport>>,
    },
    Load {
        source: LoadSource,
        options: Box<LoadOptions>,
        promise: Promise<Arc<Loaded>>,
    },
    DeleteSaves {
        slot: String,
        promise: Promise<u64>,
    },
    StartOver {
        slot: String,
        promise: Promise<u64>,
    },
}

impl Request {
    /// Whether it would notice that a save from before it took place later.
    fn concerns(&self, other: &SaveTarget) -> bool {
        match self {
            Self::Save { target, .. } => target.may_alias(other),
            // What is loaded changes what is saved.
            Self::Load { .. } | Self::StartOver { .. } => true,
            Self::DeleteSaves { slot, .. } => matches!(other, SaveTarget::Slot(other) if other == slot),
        }
    }

    pub(super) fn fail(self, error: Error) {
        match self {
            Self::Save { promises, .. } => {
                promises.into_iter().for_each(|promise| promise.complete(Err(error.clone())));
            }
            Self::Load { promise, .. } => promise.complete(Err(error)),
            Self::DeleteSaves { promise, .. } | Self::StartOver { promise, .. } => {
                promise.complete(Err(error));
            }
        }
    }
}

/// Requests in their order, at most so many.
#[derive(Default)]
pub(super) struct Waiting(VecDeque<Request>);

/// How many requests may wait.
pub(super) const WAITING_MAX: usize = 64;

impl Waiting {
    /// A save takes the place of an earlier one of the same target, if nothing in between would notice. A request that does
    /// not fit is given back.
    pub(super) fn push(&mut self, request: Request) -> Result<(), Request> {
        let mut request = request;
        if let Request::Save { target, promises, .. } = &mut request
            && let Some(place) = self.0.iter().rposition(|earlier| earlier.concerns(target))
            && let Request::Save { target: same, promises: earlier, .. } = &mut self.0[place]
            && same == target
        {
            let mut all = std::mem::take(earlier);
            all.append(promises);
            *promises = all;
            self.0[place] = request;
            return Ok(());
        }
        if self.0.len() >= WAITING_MAX {
            return Err(request);
        }
        self.0.push_back(request);
        Ok(())
    }

    pub(super) fn pop(&mut self) -> Option<Request> {
        self.0.pop_front()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn has_saves(&self) -> bool {
        self.0.iter().any(|request| matches!(request, Request::Save { .. }))
    }
}

#[cfg(test)]
mod tests {
    use bonfire_store::SaveHandle;

    use super::*;

    fn save(slot: &str) -> (Request, SaveHandle) {
        let (promise, handle) = Promise::new();
        let (target, options) = (slot.into(), Box::default());
        (Request::Save { target, options, promises: vec![promise] }, handle)
    }

    fn order(mut waiting: Waiting) -> Vec<(String, usize)> {
        let mut order = Vec::new();
        while let Some(request) = waiting.pop() {
            order.push(match request {
                Request::Save { target, promises, .. } => (target.to_string(), promises.len()),
                Request::Load { .. } => ("load".to_owned(), 1),
                Request::DeleteSaves { .. } => ("remove".to_owned(), 1),
                Request::StartOver { .. } => ("start over".to_owned(), 1),
            });
        }
        order
    }

    #[test]
    fn saves_take_the_place_of_earlier_ones_unless_somebody_would_notice() {
        let mut waiting = Waiting::default();
        for slot in ["a", "b", "a", "a"] {
            assert!(waiting.push(save(slot).0).is_ok());
        }
        let remove = Request::DeleteSaves { slot: "a".to_owned(), promise: Promise::new().0 };
        assert!(waiting.push(remove).is_ok());
        for slot in ["b", "a", "a"] {
            assert!(waiting.push(save(slot).0).is_ok());
        }
        let load = Request::Load { source: "c".into(), options: Box::default(), promise: Promise::new().0 };
        assert!(waiting.push(load).is_ok());
        assert!(waiting.push(save("b").0).is_ok() && waiting.has_saves());
        let expected =
            [("slot `a`", 3), ("slot `b`", 2), ("remove", 1), ("slot `a`", 2), ("load", 1), ("slot `b`", 1)];
        assert_eq!(order(waiting), expected.map(|(what, count)| (what.to_owned(), count)));
    }

    #[test]
    fn only_so_many_wait() {
        let mut waiting = Waiting::default();
        for number in 0..WAITING_MAX {
            assert!(waiting.push(save(&format!("slot{number}")).0).is_ok());
        }
        let (request, handle) = save("one_more");
        let refused = waiting.push(request);
        assert!(refused.is_err());
        drop(refused);
        assert!(
            handle.result().is_some_and(|result| result.is_err()),
            "a request that is dropped has failed"
        );
        // One that takes a place needs none.
        assert!(waiting.push(save("slot7").0).is_ok());
        assert_eq!(waiting.len(), WAITING_MAX);
    }
}

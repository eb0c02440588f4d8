//! What waits for its turn: plain data, without threads.
//!
//! Items leave in the order in which they came. A save whose target is that of a save that still waits takes its place in
//! the queue, unless something has come since then that would notice: whatever is about the same target, or about
//! everything.

use std::collections::VecDeque;

use super::target::SaveTarget;

/// What an item is about.
#[derive(Clone, Debug)]
pub(super) enum Concern {
    /// A save of the target.
    Save(SaveTarget),
    /// Something else with the target: a load, a removal.
    Other(SaveTarget),
    /// Nobody knows.
    Everything,
}

/// What became of an item.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pushed<T> {
    /// It waits at the end.
    Added,
    /// It waits in the place of this one.
    InPlaceOf(T),
    /// It is refused.
    Full(T),
}

#[derive(Debug)]
pub(super) struct Queue<T> {
    waiting: VecDeque<(Concern, T)>,
    max: usize,
}

impl<T> Queue<T> {
    pub(super) fn new(max: usize) -> Self {
        Self { waiting: VecDeque::new(), max }
    }

    pub(super) fn set_max(&mut self, max: usize) {
        self.max = max;
    }

    pub(super) fn max(&self) -> usize {
        self.max
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Adds an item, or puts it in the place of an older save of the same target: then `join(new, old)` is called.
    ///
    /// `busy`: whether an item is out. If none is, the first that waits is as good as out, and does not count.
    pub(super) fn push(
        &mut self,
        concern: Concern,
        mut item: T,
        busy: bool,
        join: impl FnOnce(&mut T, &mut T),
    ) -> Pushed<T> {
        if let Concern::Save(target) = &concern
            && let Some(place) = self.place_of(target)
            && let Some((_, there)) = self.waiting.get_mut(place)
        {
            join(&mut item, there);
            return Pushed::InPlaceOf(std::mem::replace(there, item));
        }
        if self.waiting.len() >= self.max.saturating_add(usize::from(!busy)) {
            return Pushed::Full(item);
        }
        self.waiting.push_back((concern, item));
        Pushed::Added
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        self.waiting.pop_front().map(|(_, item)| item)
    }

    /// The save that a newer one of the same target may replace.
    fn place_of(&self, target: &SaveTarget) -> Option<usize> {
        let place = self.waiting.iter().rposition(|(concern, _)| match concern {
            Concern::Save(other) | Concern::Other(other) => target.may_be(other),
            Concern::Everything => true,
        })?;
        match self.waiting.get(place) {
            Some((Concern::Save(other), _)) if other == target => Some(place),
            _ => None,
        }
    }
}

//! What happens to a file while another one is made of it: keys that saves change, and pins that come and go, in their order.
//!
//! The new file gets the frames of changed keys as they were when the next pin was made, or as they are now if no pin follows.
//! So it has every pin as the old file has it, though saves go on.

use std::collections::{BTreeSet, VecDeque};

use super::pin_frames::PinToAdd;
use crate::format::FrameKey;

/// The changes of a file that another one does not have yet.
#[derive(Default)]
pub(super) struct ChangeLog {
    /// What came before the last operation on pins.
    steps: VecDeque<LoggedStep>,
    /// Keys that were changed since then.
    open: BTreeSet<FrameKey>,
}

/// Keys that were changed, and the operation on pins that came after that.
struct LoggedStep {
    keys: BTreeSet<FrameKey>,
    operation: PinEvent,
}

/// An operation on pins.
#[derive(Clone, Debug)]
pub(super) enum PinEvent {
    Added(PinToAdd),
    Removed(u32),
    /// The present became what it was at a pin. These keys were changed by it.
    Returned(u32, Vec<FrameKey>),
}

/// The next thing that a new file lacks.
pub(super) enum Lack {
    /// A frame, as of a pin if one is given.
    Frame(FrameKey, Option<u32>),
    Operation(PinEvent),
}

impl ChangeLog {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns true if the order of what comes next does not matter: no operation on pins waits.
    pub(super) fn has_no_operation(&self) -> bool {
        self.steps.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.open.is_empty()
    }

    pub(super) fn note_keys(&mut self, keys: impl Iterator<Item = FrameKey>) {
        self.open.extend(keys);
    }

    /// Notes that the new file has these keys as they are now.
    pub(super) fn forget_keys(&mut self, keys: impl Iterator<Item = FrameKey>) {
        keys.for_each(|key| _ = self.open.remove(&key));
    }

    pub(super) fn note(&mut self, event: PinEvent) {
        match event {
            PinEvent::Removed(number) if self.has_added(number) => self.forget_pin(number),
            PinEvent::Returned(..) => {
                // What came after the last pin is gone. What came before it is part of that pin.
                self.open.clear();
                let after = self.steps.iter_mut().rev();
                after
                    .take_while(|step| !matches!(step.operation, PinEvent::Added(_)))
                    .for_each(|step| step.keys.clear());
                self.push(event);
            }
            event => self.push(event),
        }
    }

    fn push(&mut self, operation: PinEvent) {
        let keys = std::mem::take(&mut self.open);
        self.steps.push_back(LoggedStep { keys, operation });
    }

    fn has_added(&self, number: u32) -> bool {
        self.steps.iter().any(|step| matches!(&step.operation, PinEvent::Added(pin) if pin.number == number))
    }

    /// Takes out a pin that the new file never gets, and returns to it: their keys are those of the next pin.
    fn forget_pin(&mut self, number: u32) {
        let mut keys = BTreeSet::new();
        let steps = std::mem::take(&mut self.steps);
        for mut step in steps {
            step.keys.append(&mut keys);
            match step.operation {
                PinEvent::Added(pin) if pin.number == number => keys = step.keys,
                PinEvent::Returned(to, returned) if to == number => {
                    keys = step.keys;
                    keys.extend(returned);
                }
                _ => self.steps.push_back(step),
            }
        }
        self.open.append(&mut keys);
    }

    /// Takes the next thing that the new file lacks.
    pub(super) fn pop(&mut self) -> Option<Lack> {
        let next_pin = self.steps.iter().find_map(|step| match &step.operation {
            PinEvent::Added(pin) => Some(pin.number),
            _ => None,
        });
        let Some(step) = self.steps.front_mut() else {
            return self.open.pop_first().map(|key| Lack::Frame(key, None));
        };
        match step.keys.pop_first() {
            Some(key) => Some(Lack::Frame(key, next_pin)),
            None => self.steps.pop_front().map(|step| Lack::Operation(step.operation)),
        }
    }

    /// Puts back a frame that was taken.
    pub(super) fn push_back(&mut self, key: FrameKey) {
        match self.steps.front_mut() {
            Some(step) => step.keys.insert(key),
            None => self.open.insert(key),
        };
    }
}

#[cfg(test)]
mod tests {
    use crate::ChunkPos;
    use crate::file::change_log::{ChangeLog, Lack, PinEvent};
    use crate::file::pin_frames::PinToAdd;
    use crate::format::{FrameKey, FrameKind, PinRecord};

    fn key(x: i32) -> FrameKey {
        FrameKey::new(FrameKind::Chunk, ChunkPos::new(x, 0))
    }

    fn added(number: u32) -> PinEvent {
        let record = PinRecord { generation: 1, created: 0, name: number.to_string(), metadata: Vec::new() };
        PinEvent::Added(PinToAdd { number, record })
    }

    fn rest(log: &mut ChangeLog) -> Vec<String> {
        std::iter::from_fn(|| log.pop())
            .map(|lack| match lack {
                Lack::Frame(key, pin) => format!("{} of {pin:?}", key.pos.x),
                Lack::Operation(PinEvent::Added(pin)) => format!("add {}", pin.number),
                Lack::Operation(PinEvent::Removed(number)) => format!("remove {number}"),
                Lack::Operation(PinEvent::Returned(number, _)) => format!("return {number}"),
            })
            .collect()
    }

    #[test]
    fn frames_are_those_of_the_next_pin_or_of_the_present() {
        let mut log = ChangeLog::default();
        log.note_keys([key(1), key(2)].into_iter());
        log.note(PinEvent::Removed(1));
        log.note_keys([key(3)].into_iter());
        log.note(added(7));
        log.note_keys([key(1)].into_iter());
        let expected = ["1 of Some(7)", "2 of Some(7)", "remove 1", "3 of Some(7)", "add 7", "1 of None"];
        assert_eq!(rest(&mut log), expected);
        assert!(log.is_empty());
    }

    #[test]
    fn a_return_drops_what_no_pin_has() {
        let mut log = ChangeLog::default();
        log.note_keys([key(1)].into_iter());
        log.note(added(7));
        log.note_keys([key(2)].into_iter());
        log.note(PinEvent::Removed(3));
        log.note_keys([key(3)].into_iter());
        log.note(PinEvent::Returned(7, vec![key(2), key(3)]));
        assert_eq!(rest(&mut log), ["1 of Some(7)", "add 7", "remove 3", "return 7"]);
    }

    #[test]
    fn a_pin_that_came_and_went_leaves_its_keys_to_the_next() {
        let mut log = ChangeLog::default();
        log.note_keys([key(1)].into_iter());
        log.note(added(7));
        log.note_keys([key(2)].into_iter());
        log.note(PinEvent::Returned(7, vec![key(2)]));
        log.note(added(8));
        log.note_keys([key(4)].into_iter());
        log.note(PinEvent::Removed(7));
        assert_eq!(rest(&mut log), ["1 of Some(8)", "2 of Some(8)", "add 8", "4 of None"]);
    }
}

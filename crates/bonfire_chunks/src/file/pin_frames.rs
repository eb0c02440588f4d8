//! The frames of pins that a commit writes, and what they change in memory.

use std::collections::HashMap;

use super::commit_file::State;
use super::indices::Indices;
use super::pins::{NewPart, Pins, pin_keys, return_keys};
use crate::format::{FrameKey, FramePlace, FrameTag, PinRecord, encode_places};
use crate::frames::{FrameChange, NewFrame};

/// The content of a commit: frames of the game, and what happens to pins.
pub(super) struct CommitContent<'c> {
    pub(super) change: &'c FrameChange,
    pub(super) operation: PinOperation<'c>,
}

impl<'c> CommitContent<'c> {
    /// Frames that the game saves.
    pub(super) fn save(change: &'c FrameChange) -> Self {
        Self { change, operation: PinOperation::Save(None) }
    }
}

/// What a commit does with pins.
pub(super) enum PinOperation<'c> {
    /// Frames are saved, and the state after that is pinned if a pin is given.
    Save(Option<&'c PinToAdd>),
    /// A pin is removed.
    Remove(u32),
    /// The present becomes what it was at a pin.
    Return(u32),
    /// Frames lie elsewhere from now on, and nothing else is changed. `held` are those that only pins have, as they were.
    Move { held: &'c [(NewFrame, FramePlace)] },
}

/// A pin that is to be made.
#[derive(Clone, Debug)]
pub(super) struct PinToAdd {
    pub(super) number: u32,
    /// The generation is that of the save, unless it is given.
    pub(super) record: PinRecord,
}

/// The key of a frame, its place before and after a move.
pub(super) type FrameMove = (FrameKey, FramePlace, FramePlace);

/// The frames of pins that belong to a commit.
#[derive(Default)]
pub(super) struct PinFrames {
    pub(super) change: FrameChange,
    pub(super) effects: PinEffects,
}

/// Changes of pins in memory, for the time when they are in the file.
#[derive(Default)]
pub(super) struct PinEffects {
    parts: Vec<NewPart>,
    added: Option<PinToAdd>,
    removed: Option<u32>,
    /// Frames that the present has again.
    pub(super) returned: Vec<(FrameKey, FramePlace)>,
    moves: Vec<FrameMove>,
}

impl PinFrames {
    /// Plans what a commit with this number has of pins. `before` is the file without the commit.
    pub(super) fn plan(
        before: &State,
        content: &CommitContent<'_>,
        moves: Vec<FrameMove>,
        generation: u64,
    ) -> Self {
        let (pins, indices) = (&before.pins, &before.indices);
        let mut planned = Self::default();
        match &content.operation {
            PinOperation::Save(added) => {
                planned.note_replaced(pins, changed_keys(content.change), indices);
                if let Some(added) = added {
                    planned.add(added, generation);
                }
            }
            PinOperation::Remove(number) => {
                if let Some((heir, versions)) = pins.inherited(*number) {
                    planned.add_part(pins.new_part(heir, versions));
                }
                planned.change.removed.extend(pins.frames_of(*number));
                planned.effects.removed = Some(*number);
            }
            PinOperation::Return(number) => {
                let returned = pins.to_return(*number, indices);
                planned.note_replaced(pins, returned.iter().map(|(key, _)| *key), indices);
                let data = encode_places(&returned);
                let tag = FrameTag::default();
                let frames = return_keys(generation).map(|key| NewFrame { key, tag, data: data.clone() });
                planned.change.frames.extend(frames);
                planned.effects.returned = returned;
            }
            PinOperation::Move { .. } => planned.note_moves(pins, moves),
        }
        planned
    }

    /// The newest pin has what a change replaces.
    fn note_replaced(&mut self, pins: &Pins, changed: impl Iterator<Item = FrameKey>, indices: &Indices) {
        if let Some(newest) = pins.newest() {
            self.add_part(pins.new_part(newest, pins.replaced_by(changed, indices)));
        }
    }

    fn add(&mut self, pin: &PinToAdd, generation: u64) {
        let generation = if pin.record.generation == 0 { generation } else { pin.record.generation };
        let pin = PinToAdd { record: PinRecord { generation, ..pin.record.clone() }, ..*pin };
        let data = pin.record.encode();
        let tag = FrameTag::default();
        self.change.frames.extend(pin_keys(pin.number).map(|key| NewFrame { key, tag, data: data.clone() }));
        self.effects.added = Some(pin);
    }

    fn add_part(&mut self, part: Option<NewPart>) {
        let Some(part) = part else { return };
        let data = encode_places(&part.entries);
        self.change.frames.push(NewFrame { key: part.key(), tag: FrameTag::default(), data });
        self.change.removed.extend(part.replaced_keys());
        self.effects.parts.push(part);
    }

    /// Lists that name a frame that was moved are written again.
    fn note_moves(&mut self, pins: &Pins, moves: Vec<FrameMove>) {
        let places: HashMap<u64, FramePlace> = moves.iter().map(|(_, from, to)| (from.offset, *to)).collect();
        for number in pins.naming(&moves) {
            let Some(mut part) = pins.whole_part(number) else { continue };
            for (_, place) in &mut part.entries {
                *place = places.get(&place.offset).copied().unwrap_or(*place);
            }
            self.add_part(Some(part));
        }
        self.effects.moves = moves;
    }
}

impl PinEffects {
    /// Makes indices and pins those after the commit, which lists these entries.
    pub(super) fn apply(self, entries: &[(FrameKey, FramePlace)], indices: &mut Indices, pins: &mut Pins) {
        pins.note_moves(&self.moves);
        self.parts.iter().for_each(|part| pins.add_part(part));
        let is_move = !self.moves.is_empty();
        for (key, place) in entries.iter().chain(&self.returned) {
            let before = match place.is_nowhere() {
                true => indices.remove(*key),
                false => indices.set(*key, *place),
            };
            if key.kind.is_pinned() && !is_move {
                pins.note_change(before, Some(*place).filter(|place| !place.is_nowhere()));
            }
        }
        if let Some(added) = self.added {
            pins.add(added.number, added.record);
        }
        if let Some(removed) = self.removed {
            pins.remove(removed, indices);
        }
        if !self.returned.is_empty() {
            pins.note_return();
        }
    }
}

fn changed_keys(change: &FrameChange) -> impl Iterator<Item = FrameKey> + '_ {
    change.frames.iter().map(|frame| frame.key).chain(change.removed.iter().copied())
}

//! The frames of a file that a new one takes over: those of the present, and those that only pins have.

use std::collections::{HashMap, HashSet};

use super::indices::Indices;
use super::pin_frames::{CommitContent, PinOperation};
use super::pins::{FrameAside, NewPart, Pins, pin_keys};
use crate::format::{FrameKey, FrameKind, FramePlace, FrameTag, encode_places};
use crate::frames::NewFrame;

/// A frame that is copied.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptFrame {
    pub(super) key: FrameKey,
    pub(super) place: FramePlace,
    pub(super) owner: FrameOwner,
}

/// What has a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameOwner {
    World,
    /// Pins alone: it must never be taken for a frame of the present.
    Pins,
}

/// The frames that are copied, in the order in which the new file has them, and the pins that have them.
#[derive(Default)]
pub(super) struct KeptFrames {
    pub(super) frames: Vec<KeptFrame>,
    pub(super) pins: Pins,
}

impl KeptFrames {
    /// All frames that a change leaves as they are, and those that pins have. Frames of pins themselves are written anew.
    pub(super) fn of(indices: &Indices, pins: &Pins, content: &CommitContent<'_>) -> Self {
        let CommitContent { change, operation } = content;
        let changed: HashSet<FrameKey> =
            change.frames.iter().map(|frame| frame.key).chain(change.removed.iter().copied()).collect();
        let mut pins = pins.clone();
        if let PinOperation::Save(_) = operation {
            pins.keep_replaced(changed.iter().copied(), indices);
        }
        let held = pins.held_if(|key, place| indices.get(key) == Some(place) && !changed.contains(&key));
        let of_pins = held.into_iter().map(|(key, place)| KeptFrame { key, place, owner: FrameOwner::Pins });
        let mut present: Vec<(FrameKey, FramePlace)> =
            indices.iter().filter(|(key, _)| key.kind.is_content() && !changed.contains(key)).collect();
        present.sort_unstable_by_key(|(key, _)| (order(*key), *key));
        let of_world =
            present.into_iter().map(|(key, place)| KeptFrame { key, place, owner: FrameOwner::World });
        Self { frames: of_pins.chain(of_world).collect(), pins }
    }
}

/// Returns the part of the file that a frame belongs to. Frames that are there twice lie at both ends, so that one piece of
/// damage does not meet both.
fn order(key: FrameKey) -> u8 {
    match key.kind {
        FrameKind::Settings if key.pos.y == 0 => 0,
        FrameKind::Schema if key.pos.y >= 0 => 0,
        FrameKind::Settings | FrameKind::Schema => 2,
        _ => 1,
    }
}

/// Where frames of pins are in a new file, by what they are and where they were. A list that was made by hand may name a place under
/// several keys.
#[derive(Default)]
pub(super) struct MovedFrames(HashMap<(FrameKey, u64), FramePlace>);

impl MovedFrames {
    pub(super) fn note(&mut self, key: FrameKey, from: FramePlace, to: FramePlace) {
        self.0.insert((key, from.offset), to);
    }

    fn get(&self, key: FrameKey, from: FramePlace) -> Option<FramePlace> {
        self.0.get(&(key, from.offset)).copied()
    }
}

/// Returns the pins of a new file, and the frames that describe them.
pub(super) fn pins_of_new_file(
    kept: &Pins,
    moved: &MovedFrames,
    aside: &[FrameAside],
    indices: &Indices,
) -> (Pins, Vec<NewFrame>) {
    let mut pins = kept.moved_to(|key, place| moved.get(key, place));
    for frame in aside {
        pins.lose(frame, kept, indices);
    }
    let parts = pins.parts_of_new_file();
    let tag = FrameTag::default();
    let mut frames: Vec<NewFrame> = Vec::new();
    for (number, pin) in pins.iter() {
        let data = pin.record.encode();
        frames.extend(pin_keys(number).map(|key| NewFrame { key, tag, data: data.clone() }));
    }
    let list = |part: &NewPart| NewFrame { key: part.key(), tag, data: encode_places(&part.entries) };
    frames.extend(parts.iter().map(list));
    let lost = |key: FrameKey| NewFrame { key, tag: FrameTag::LOST, data: Vec::new() };
    frames.extend(pins.lost_part().map(lost));
    (pins, frames)
}

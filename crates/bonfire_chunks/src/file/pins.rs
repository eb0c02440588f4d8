//! Pinned moments, in memory: which frames each of them has.
//!
//! Pins are a chain from the oldest to the newest, and the present comes last. A pin has the frames of the next one, but for
//! those that are listed for it as a *version*. So a save notes what it replaces for the newest pin alone, and a look-up takes
//! the first version that is not older than the pin, or else the frame of the present.

use std::collections::{BTreeMap, HashMap, HashSet};

use bonfire::{Error, Result};

use super::indices::Indices;
use crate::format::{FrameKey, FrameKind, FramePlace, PinRecord};
use crate::{ChunkPos, ChunkRect};

/// All pins of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pins {
    list: BTreeMap<u32, Pin>,
    /// The frames that pins have and the next one has not. Nowhere: there was none.
    versions: BTreeMap<(FrameKey, u32), FramePlace>,
    /// How many versions name each place.
    named: HashMap<u64, u32>,
    /// Bytes of frames that versions name and the present has not.
    held_bytes: u64,
    /// No pin of this session had this number or a larger one.
    next_number: u32,
    /// Versions of this pin are lost, so that nobody knows which frames it has, and which those before it have.
    damaged_to: Option<u32>,
    /// Keys of the returns that the file has. They say which frames the world has again.
    returns: u64,
}

/// One pin.
#[derive(Clone, Debug)]
pub(crate) struct Pin {
    pub(crate) record: PinRecord,
    /// The keys of its versions, in the order in which they were noted.
    keys: Vec<FrameKey>,
    /// The frames that list them: how many keys there were after each.
    parts: Vec<Part>,
}

/// A frame that lists versions of a pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    number: u32,
    /// Keys that it lists.
    len: usize,
}

/// Versions of a pin as they lie in the file: a part of them, and the parts that it takes the place of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NewPart {
    pub(super) pin: u32,
    pub(super) number: u32,
    /// The last of them are new.
    pub(super) entries: Vec<(FrameKey, FramePlace)>,
    new: usize,
    pub(super) replaced: Vec<u32>,
}

impl NewPart {
    pub(super) fn key(&self) -> FrameKey {
        part_key(self.pin, self.number)
    }

    /// Returns the keys of the frames that it takes the place of.
    pub(super) fn replaced_keys(&self) -> impl Iterator<Item = FrameKey> + '_ {
        self.replaced.iter().map(|number| part_key(self.pin, *number))
    }
}

/// A damaged frame that was put aside.
pub(super) struct FrameAside {
    pub(super) key: FrameKey,
    /// Where it was.
    pub(super) from: FramePlace,
    /// Where the bytes are that are left of it, and under which key.
    pub(super) aside: Option<(FrameKey, FramePlace)>,
}

/// So many parts of about one size become one.
const PARTS_OF_A_SIZE: usize = 8;

impl Pin {
    pub(super) fn new(record: PinRecord) -> Self {
        Self { record, keys: Vec::new(), parts: Vec::new() }
    }
}

impl Pins {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns true if a file with these pins has frames that earlier versions of the format do not know.
    pub(super) fn need_flag(&self) -> bool {
        !self.list.is_empty() || self.returns > 0
    }

    /// Returns all pins, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Pin)> {
        self.list.iter().map(|(number, pin)| (*number, pin))
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Pin> {
        self.list.get(&number)
    }

    /// Returns the newest pin of this name.
    pub(crate) fn find(&self, name: &str) -> Option<(u32, &Pin)> {
        self.list.iter().rev().find(|(_, pin)| pin.record.name == name).map(|(number, pin)| (*number, pin))
    }

    /// Returns all pins of which there is a newer one with the same name.
    pub(super) fn replaced(&self) -> Vec<u32> {
        let mut names = HashSet::new();
        let all = self.list.iter().rev();
        all.filter(|(_, pin)| !names.insert(&pin.record.name)).map(|(number, _)| *number).collect()
    }

    /// Returns true if nobody knows which frames a pin has: versions of it, or of a later one, are lost.
    pub(crate) fn is_damaged(&self, number: u32) -> bool {
        self.damaged_to.is_some_and(|last| number <= last)
    }

    pub(super) fn newest(&self) -> Option<u32> {
        self.list.last_key_value().map(|(number, _)| *number)
    }

    /// Returns the number of the next pin. Fails if there is none any more.
    pub(super) fn next_number(&self) -> Result<u32> {
        match self.list.contains_key(&self.next_number) {
            true => Err(Error::limit(
                "this world has had as many pins as there are numbers: write it out with `save_to`",
            )),
            false => Ok(self.next_number),
        }
    }

    /// Bytes of frames that pins have and the present has not.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Returns a frame as of a pin.
    pub(crate) fn place(&self, number: u32, key: FrameKey, indices: &Indices) -> Option<FramePlace> {
        if !key.kind.is_pinned() {
            return indices.get(key);
        }
        match self.versions.range((key, number)..=(key, u32::MAX)).next() {
            Some((_, place)) => Some(*place).filter(|place| !place.is_nowhere()),
            None => indices.get(key),
        }
    }

    /// Returns all frames of a kind in a rectangle as of a pin, in the order of their positions.
    pub(crate) fn range(
        &self,
        number: u32,
        kind: FrameKind,
        rect: &ChunkRect,
        indices: &Indices,
    ) -> Vec<(ChunkPos, FramePlace)> {
        let present = indices.of(kind).range(rect);
        if !kind.is_pinned() {
            return present;
        }
        let (first, last) = (FrameKey::new(kind, rect.min()), FrameKey::new(kind, rect.max()));
        let mut pinned: BTreeMap<ChunkPos, FramePlace> = BTreeMap::new();
        for ((key, version), place) in self.versions.range((first, 0)..=(last, u32::MAX)) {
            if *version >= number && rect.contains(key.pos) {
                pinned.entry(key.pos).or_insert(*place);
            }
        }
        let mut all: BTreeMap<ChunkPos, FramePlace> = present.into_iter().collect();
        all.extend(pinned);
        all.into_iter().filter(|(_, place)| !place.is_nowhere()).collect()
    }

    /// Returns the frames that the present would have to have to be as a pin was: those that differ.
    pub(super) fn to_return(&self, number: u32, indices: &Indices) -> Vec<(FrameKey, FramePlace)> {
        let mut wanted: BTreeMap<FrameKey, FramePlace> = BTreeMap::new();
        for (version, pin) in self.list.range(number..) {
            for key in &pin.keys {
                if let Some(place) = self.versions.get(&(*key, *version)) {
                    wanted.entry(*key).or_insert(*place);
                }
            }
        }
        let now = |key: &FrameKey| indices.get(*key).unwrap_or(FramePlace::NOWHERE);
        wanted.into_iter().filter(|(key, place)| now(key) != *place).collect()
    }

    /// Returns the frames that pins have and the present has not, each once, the oldest pins first.
    pub(super) fn held(&self, indices: &Indices) -> Vec<(FrameKey, FramePlace)> {
        self.held_if(|key, place| indices.get(key) == Some(place))
    }

    /// The same, if these are the frames that the present has.
    pub(super) fn held_if(
        &self,
        is_present: impl Fn(FrameKey, FramePlace) -> bool,
    ) -> Vec<(FrameKey, FramePlace)> {
        let mut seen = HashSet::new();
        let mut all: Vec<(u32, FrameKey, FramePlace)> = Vec::new();
        for ((key, number), place) in &self.versions {
            if !place.is_nowhere() && !is_present(*key, *place) && seen.insert(place.offset) {
                all.push((*number, *key, *place));
            }
        }
        all.sort_by_key(|(number, key, _)| (*number, *key));
        all.into_iter().map(|(_, key, place)| (key, place)).collect()
    }

    /// Returns the names of the pins that have each version of a frame, by where that is: so many at most, the oldest first.
    pub(super) fn names_by_version(&self, key: FrameKey, names_max: usize) -> HashMap<u64, Vec<String>> {
        let mut names: HashMap<u64, Vec<String>> = HashMap::new();
        let mut first = 0;
        for ((_, last), place) in self.versions.range((key, 0)..=(key, u32::MAX)) {
            let of_place = names.entry(place.offset).or_default();
            // Pins without a version of their own have the next one.
            let pins = self.list.range(first..=*last).take(names_max - of_place.len());
            of_place.extend(pins.map(|(_, pin)| pin.record.name.clone()));
            first = last.saturating_add(1);
        }
        names
    }

    /// Bytes of frames that only this pin has.
    pub(crate) fn own_bytes(&self, number: u32, indices: &Indices) -> u64 {
        let Some(pin) = self.list.get(&number) else { return 0 };
        let before = self.list.range(..number).next_back().map(|(before, _)| *before);
        let is_own = |key: &FrameKey, place: &FramePlace| {
            // Every pin between two versions has the later one.
            let is_alone = before.is_none_or(|before| self.versions.contains_key(&(*key, before)));
            is_alone && self.named.get(&place.offset) == Some(&1) && indices.get(*key) != Some(*place)
        };
        let places = pin.keys.iter().filter_map(|key| Some((key, self.versions.get(&(*key, number))?)));
        let own = places.filter(|(key, place)| !place.is_nowhere() && is_own(key, place));
        own.map(|(_, place)| place.frame_bytes()).sum()
    }

    /// Returns the versions that the newest pin gets from a change of these keys.
    pub(super) fn replaced_by(
        &self,
        changed: impl Iterator<Item = FrameKey>,
        indices: &Indices,
    ) -> Vec<(FrameKey, FramePlace)> {
        let Some(newest) = self.newest() else { return Vec::new() };
        let is_new = |key: &FrameKey| key.kind.is_pinned() && !self.versions.contains_key(&(*key, newest));
        let new = changed.filter(is_new);
        new.map(|key| (key, indices.get(key).unwrap_or(FramePlace::NOWHERE))).collect()
    }

    /// Returns the versions that the pin before this one needs if this one goes, and that pin.
    pub(super) fn inherited(&self, number: u32) -> Option<(u32, Vec<(FrameKey, FramePlace)>)> {
        let (before, _) = self.list.range(..number).next_back()?;
        let pin = self.list.get(&number)?;
        let missing = pin.keys.iter().filter(|key| !self.versions.contains_key(&(**key, *before)));
        let versions = missing.filter_map(|key| Some((*key, *self.versions.get(&(*key, number))?)));
        Some((*before, versions.collect()))
    }

    /// Returns the keys of all frames of a pin itself.
    pub(super) fn frames_of(&self, number: u32) -> Vec<FrameKey> {
        let parts = self.list.get(&number).map(|pin| &pin.parts[..]).unwrap_or_default();
        pin_keys(number).into_iter().chain(parts.iter().map(|part| part_key(number, part.number))).collect()
    }

    /// Returns the frame that is to list new versions of a pin. It takes in small ones that are there, so that a pin has few.
    pub(super) fn new_part(&self, number: u32, new: Vec<(FrameKey, FramePlace)>) -> Option<NewPart> {
        let pin = self.list.get(&number)?;
        if new.is_empty() {
            return None;
        }
        let (mut len, mut first) = (new.len(), pin.parts.len());
        loop {
            let similar = pin.parts[..first].iter().rev().take_while(|part| part.len <= 2 * len).count();
            if similar < PARTS_OF_A_SIZE - 1 {
                break;
            }
            len += pin.parts[first - similar..first].iter().map(|part| part.len).sum::<usize>();
            first -= similar;
        }
        let known: usize = pin.parts[..first].iter().map(|part| part.len).sum();
        let version = |key: &FrameKey| Some((*key, *self.versions.get(&(*key, number))?));
        let mut entries: Vec<_> = pin.keys[known..].iter().filter_map(version).collect();
        let (new_len, replaced) = (new.len(), pin.parts[first..].iter().map(|part| part.number).collect());
        entries.extend(new);
        let next = pin.parts.iter().map(|part| part.number + 1).max().unwrap_or(0);
        Some(NewPart { pin: number, number: next, entries, new: new_len, replaced })
    }

    /// Notes that a part is in the file. `indices` are those before the save.
    pub(super) fn add_part(&mut self, part: &NewPart) {
        let Some(pin) = self.list.get_mut(&part.pin) else { return };
        let new = &part.entries[part.entries.len() - part.new..];
        pin.keys.extend(new.iter().map(|(key, _)| *key));
        pin.parts.retain(|known| !part.replaced.contains(&known.number));
        pin.parts.push(Part { number: part.number, len: part.entries.len() });
        for (key, place) in new {
            self.versions.insert((*key, part.pin), *place);
            if !place.is_nowhere() {
                *self.named.entry(place.offset).or_default() += 1;
            }
        }
    }

    /// Notes that the present has another frame than before.
    pub(super) fn note_change(&mut self, before: Option<FramePlace>, after: Option<FramePlace>) {
        let held = |place: Option<FramePlace>| {
            place
                .filter(|place| self.named.contains_key(&place.offset))
                .map_or(0, |place| place.frame_bytes())
        };
        if before != after {
            // Lists that were made by hand may say of one frame that it has several lengths.
            self.held_bytes = (self.held_bytes + held(before)).saturating_sub(held(after));
        }
    }

    /// Notes that a pin is in the file.
    pub(super) fn add(&mut self, number: u32, record: PinRecord) {
        self.next_number = self.next_number.max(number.saturating_add(1));
        self.list.insert(number, Pin::new(record));
    }

    /// Notes that a pin is gone. The one before it has what it needs of it.
    pub(super) fn remove(&mut self, number: u32, indices: &Indices) {
        let Some(pin) = self.list.remove(&number) else { return };
        for key in pin.keys {
            let Some(place) = self.versions.remove(&(key, number)) else { continue };
            let Some(count) = self.named.get_mut(&place.offset) else { continue };
            *count -= 1;
            if *count == 0 {
                self.named.remove(&place.offset);
                if indices.get(key) != Some(place) {
                    self.held_bytes = self.held_bytes.saturating_sub(place.frame_bytes());
                }
            }
        }
        if self.damaged_to == Some(number) {
            self.damaged_to = self.list.range(..number).next_back().map(|(before, _)| *before);
        }
    }

    /// Notes that the file has one more frame that says which frames the world has again.
    pub(super) fn note_return(&mut self) {
        self.returns += 1;
    }

    /// Notes that frames were moved: all versions that name the old place name the new one.
    pub(super) fn note_moves(&mut self, moves: &[(FrameKey, FramePlace, FramePlace)]) {
        for (key, from, to) in moves {
            for (_, place) in self.versions.range_mut((*key, 0)..=(*key, u32::MAX)) {
                if place == from {
                    *place = *to;
                }
            }
            if let Some(count) = self.named.remove(&from.offset) {
                self.named.insert(to.offset, count);
            }
        }
    }

    /// Returns the pins whose lists name one of these places.
    pub(super) fn naming(&self, moves: &[(FrameKey, FramePlace, FramePlace)]) -> Vec<u32> {
        let mut all = HashSet::new();
        for (key, from, _) in moves {
            let named = self.versions.range((*key, 0)..=(*key, u32::MAX));
            all.extend(named.filter(|(_, place)| *place == from).map(|((_, number), _)| *number));
        }
        let mut all: Vec<u32> = all.into_iter().collect();
        all.sort_unstable();
        all
    }

    /// Returns a part that lists all versions of a pin, in the place of all that there are.
    pub(super) fn whole_part(&self, number: u32) -> Option<NewPart> {
        let pin = self.list.get(&number)?;
        let version = |key: &FrameKey| Some((*key, *self.versions.get(&(*key, number))?));
        let entries: Vec<_> = pin.keys.iter().filter_map(version).collect();
        let next = pin.parts.iter().map(|part| part.number + 1).max().unwrap_or(0);
        let replaced = pin.parts.iter().map(|part| part.number).collect();
        (!entries.is_empty()).then_some(NewPart { pin: number, number: next, entries, new: 0, replaced })
    }

    /// Takes in a list of a file that is opened. Later lists of one pin come later.
    pub(super) fn load_part(&mut self, number: u32, part: u32, entries: Vec<(FrameKey, FramePlace)>) {
        let Some(pin) = self.list.get_mut(&number) else { return };
        pin.parts.push(Part { number: part, len: entries.len() });
        for (key, place) in entries {
            if self.versions.insert((key, number), place).is_none() {
                pin.keys.push(key);
            } else if let Some(part) = pin.parts.last_mut() {
                part.len -= 1;
            }
        }
    }

    /// Notes that a list of a pin is lost.
    pub(super) fn mark_damaged(&mut self, number: u32, part: u32) {
        if let Some(pin) = self.list.get_mut(&number) {
            self.damaged_to = self.damaged_to.max(Some(number));
            pin.parts.push(Part { number: part, len: 0 });
        }
    }

    /// Counts the returns of a file that is opened, and what its pins hold.
    pub(super) fn finish_loading(&mut self, indices: &Indices) {
        self.returns = indices.of(FrameKind::Return).len() as u64;
        self.named.clear();
        for place in self.versions.values().filter(|place| !place.is_nowhere()) {
            *self.named.entry(place.offset).or_default() += 1;
        }
        self.held_bytes = self.held(indices).iter().map(|(_, place)| place.frame_bytes()).sum();
    }

    /// Notes for the newest pin what a change of these keys replaces, in a file that is written as a whole.
    pub(super) fn keep_replaced(&mut self, changed: impl Iterator<Item = FrameKey>, indices: &Indices) {
        let Some(newest) = self.newest() else { return };
        for (key, place) in self.replaced_by(changed, indices) {
            self.put_version(newest, key, place);
        }
    }

    fn put_version(&mut self, number: u32, key: FrameKey, place: FramePlace) {
        let Some(pin) = self.list.get_mut(&number) else { return };
        if self.versions.insert((key, number), place).is_none() {
            pin.keys.push(key);
        }
        if !place.is_nowhere() {
            *self.named.entry(place.offset).or_default() += 1;
        }
    }

    /// Returns true if a pin names this place.
    pub(super) fn names(&self, place: FramePlace) -> bool {
        self.named.contains_key(&place.offset)
    }

    /// Puts aside a damaged frame in all pins that had it. `old` are the pins before frames were moved.
    pub(super) fn lose(&mut self, frame: &FrameAside, old: &Self, indices: &Indices) {
        let Some((aside, place)) = frame.aside else { return };
        let named = old.versions.range((frame.key, 0)..=(frame.key, u32::MAX));
        let versions: Vec<(u32, FramePlace)> = named.map(|((_, number), place)| (*number, *place)).collect();
        for (at, (last, _)) in versions.iter().enumerate().filter(|(_, (_, place))| *place == frame.from) {
            // All pins after the version before have this one.
            let first = if at == 0 { 0 } else { versions[at - 1].0 + 1 };
            if let Some(before) = self.list.range(..first).next_back().map(|(before, _)| *before) {
                let had = self.place(before, aside, indices).unwrap_or(FramePlace::NOWHERE);
                self.put_version(before, aside, had);
            }
            let pins: Vec<u32> = self.list.range(first..=*last).map(|(number, _)| *number).collect();
            for number in pins {
                let has_own = self.versions.contains_key(&(aside, number));
                if has_own || number == *last {
                    self.put_version(number, aside, place);
                }
            }
        }
    }

    /// Returns the same pins, whose frames lie elsewhere. Frames that `moved` does not have are taken out of the pins, as
    /// damaged ones are.
    pub(super) fn moved_to(&self, moved: impl Fn(FrameKey, FramePlace) -> Option<FramePlace>) -> Self {
        let mut new = Self { next_number: self.next_number, damaged_to: self.damaged_to, ..Self::default() };
        for (number, pin) in &self.list {
            let keys = pin.keys.iter().filter(|key| self.versions.contains_key(&(**key, *number))).copied();
            let parts =
                if self.damaged_to == Some(*number) { vec![Part { number: 0, len: 0 }] } else { Vec::new() };
            let moved = Pin { record: pin.record.clone(), keys: keys.collect(), parts };
            new.list.insert(*number, moved);
        }
        for ((key, number), place) in &self.versions {
            let to = if place.is_nowhere() { Some(*place) } else { moved(*key, *place) };
            new.versions.insert((*key, *number), to.unwrap_or(FramePlace::NOWHERE));
        }
        new
    }

    /// Returns the lists that a new file has: one for each pin that has versions.
    pub(super) fn parts_of_new_file(&mut self) -> Vec<NewPart> {
        let numbers: Vec<u32> = self.list.keys().copied().collect();
        let mut parts = Vec::new();
        for number in numbers {
            let Some(mut part) = self.whole_part(number) else { continue };
            part.replaced.clear();
            if let Some(pin) = self.list.get_mut(&number) {
                pin.parts.push(Part { number: part.number, len: part.entries.len() });
            }
            parts.push(part);
        }
        parts
    }

    /// Returns true if all pins have the same frames at the same places.
    pub(super) fn are_same(&self, other: &Self) -> bool {
        let records = |pins: &Self| -> Vec<(u32, PinRecord)> {
            pins.list.iter().map(|(number, pin)| (*number, pin.record.clone())).collect()
        };
        records(self) == records(other)
            && (self.damaged_to, &self.versions) == (other.damaged_to, &other.versions)
    }

    /// Returns the key of the list that stands for all that are lost.
    pub(super) fn lost_part(&self) -> Option<FrameKey> {
        self.damaged_to.map(|number| part_key(number, 0))
    }
}

/// Returns the keys of the frames that describe a pin.
pub(super) fn pin_keys(number: u32) -> [FrameKey; 2] {
    [0, 1].map(|copy| FrameKey::new(FrameKind::Pin, ChunkPos::new(number.cast_signed(), copy)))
}

/// Returns the key of a list of versions.
fn part_key(pin: u32, part: u32) -> FrameKey {
    FrameKey::new(FrameKind::PinDifference, ChunkPos::new(pin.cast_signed(), part.cast_signed()))
}

/// Returns the keys of the frames of a return, which a save with this number has made.
pub(super) fn return_keys(generation: u64) -> [FrameKey; 2] {
    [generation, !generation].map(|number| {
        let (low, high) = (number as u32, (number >> 32) as u32);
        FrameKey::new(FrameKind::Return, ChunkPos::new(low.cast_signed(), high.cast_signed()))
    })
}

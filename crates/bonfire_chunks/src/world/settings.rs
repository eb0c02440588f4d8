//! What a file says of its world: sizes, layer sets, the last session that gave out ids.

use std::collections::{BTreeMap, BTreeSet};

use bonfire::{Error, Result};

use super::ChunkOptions;
use super::world_frames::WorldFrames;
use crate::format::{FrameKind, Header, SETTINGS_HEAD_BYTES, decode_head, encode_head, take};
use crate::{ChunkRect, Conversion, LayerSet};

/// A frame names its set with one byte.
const SETS_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// The last session that gave out ids of bodies.
    pub(super) session: u32,
    /// The set that the last session wrote with.
    pub(super) current: u8,
    pub(super) sets: BTreeMap<u8, LayerSet>,
}

impl Settings {
    /// Of a world that is written with this set.
    pub(super) fn new(set: LayerSet) -> Self {
        Self { session: 0, current: 0, sets: BTreeMap::from([(0, set)]) }
    }

    pub(super) fn encode(&self, header: &Header) -> Vec<u8> {
        let mut bytes = encode_head(header).to_vec();
        bytes.extend_from_slice(&self.session.to_le_bytes());
        bytes.push(self.current);
        bytes.extend_from_slice(&(self.sets.len() as u16).to_le_bytes());
        for (number, set) in &self.sets {
            let mut encoded = Vec::new();
            set.encode(&mut encoded);
            bytes.push(*number);
            bytes.extend_from_slice(&(encoded.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&encoded);
        }
        bytes
    }

    pub(super) fn decode(data: &[u8]) -> Result<Self> {
        let cut = || Error::corrupt("the settings of a chunk world are cut");
        decode_head(data)
            .ok_or_else(|| Error::newer_format("a later version has written the settings of this world"))?;
        let mut data = data.get(SETTINGS_HEAD_BYTES..).ok_or_else(cut)?;
        let bytes = &mut data;
        let fixed = |bytes: &mut &[u8]| {
            Some((u32::from_le_bytes(take(bytes)?), take::<1>(bytes)?[0], u16::from_le_bytes(take(bytes)?)))
        };
        let (session, current, count) = fixed(bytes).ok_or_else(cut)?;
        let mut sets = BTreeMap::new();
        for _ in 0..count {
            let (number, len) =
                (|| Some((take::<1>(bytes)?[0], u32::from_le_bytes(take(bytes)?))))().ok_or_else(cut)?;
            let (set, rest) = bytes.split_at_checked(len as usize).ok_or_else(cut)?;
            *bytes = rest;
            sets.insert(number, LayerSet::decode(set)?);
        }
        if !bytes.is_empty() || !sets.contains_key(&current) {
            return Err(Error::corrupt("the settings of a chunk world contradict themselves"));
        }
        Ok(Self { session, current, sets })
    }

    pub(super) fn current(&self) -> &LayerSet {
        &self.sets[&self.current]
    }

    /// Makes the layers of the game those that are written with, and tells whether they are new.
    pub(super) fn adopt_layers(&mut self, options: &ChunkOptions, frames: &WorldFrames) -> Result<bool> {
        let carried = Conversion::new(self.current(), &options.layers)?.carried_layers().to_vec();
        let set = options.layers.set(options.generator_version, &carried)?;
        self.adopt(set, || {
            let kinds =
                [FrameKind::Chunk, FrameKind::Bodies, FrameKind::DamagedChunk, FrameKind::DamagedBodies];
            let all = kinds.into_iter().flat_map(|kind| frames.store().list(kind, &ChunkRect::ALL));
            all.map(|(_, tag)| tag.layers).collect()
        })
    }

    /// Makes this the set that is written with, and tells whether it is a new one. `used` are those that something is stored with: if
    /// there is no room, the others are forgotten.
    fn adopt(&mut self, set: LayerSet, used: impl FnOnce() -> BTreeSet<u8>) -> Result<bool> {
        let before = self.current;
        if let Some((number, _)) = self.sets.iter().find(|(_, known)| **known == set) {
            self.current = *number;
            return Ok(before != self.current);
        }
        if self.sets.len() >= SETS_MAX {
            let used = used();
            self.sets.retain(|number, _| used.contains(number));
        }
        if self.sets.len() >= SETS_MAX {
            return Err(Error::limit(
                "a world cannot have chunks of more than 256 layer sets: upgrade it with an earlier release of the game",
            ));
        }
        let free = (0..=u8::MAX).find(|number| !self.sets.contains_key(number));
        self.current = free.unwrap_or_else(|| unreachable!("there are fewer than 256"));
        self.sets.insert(self.current, set);
        Ok(true)
    }
}

//! What a file says of its world: sizes, layer sets, the last session that gave out ids.

use std::collections::{BTreeMap, BTreeSet};

use bonfire::{Error, Result};

use super::dimension::{Dimension, FIRST};
use super::world_frames::WorldFrames;
use crate::format::{
    FrameKey, FrameKind, FrameTag, Header, SETTINGS_HEAD_BYTES, decode_head, encode_head, take,
};
use crate::frames::NewFrame;
use crate::layers::NAME_BYTES_MAX;
use crate::{ChunkPos, ChunkRect, Conversion, LayerSet};

/// Parts behind the layer sets, in the order of their numbers. A file may have them or not.
const GENERATOR: u8 = 1;
const COORDINATES: u8 = 2;

/// A frame names its set with one byte.
const SETS_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// The last session that gave out ids of bodies.
    pub(super) session: u32,
    /// The set that the last session wrote with.
    pub(super) current: u8,
    pub(super) sets: BTreeMap<u8, LayerSet>,
    /// The name of the generator; empty if it is not known.
    pub(super) generator: String,
    /// Places have three coordinates.
    pub(super) is_three_dimensional: bool,
}

impl Settings {
    /// Of a world that is written with this set.
    pub(super) fn new(set: LayerSet, generator: String) -> Self {
        let sets = BTreeMap::from([(0, set)]);
        Self { session: 0, current: 0, sets, generator, is_three_dimensional: false }
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
        if !self.generator.is_empty() {
            bytes.push(GENERATOR);
            bytes.extend_from_slice(&(self.generator.len() as u16).to_le_bytes());
            bytes.extend_from_slice(self.generator.as_bytes());
        }
        if self.is_three_dimensional {
            bytes.extend_from_slice(&[COORDINATES, 1, 0, 3]);
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
        let generator = decode_generator(bytes)?;
        let is_three_dimensional = decode_coordinates(bytes)?;
        if !bytes.is_empty() || !sets.contains_key(&current) {
            return Err(Error::corrupt("the settings of a chunk world contradict themselves"));
        }
        Ok(Self { session, current, sets, generator, is_three_dimensional })
    }

    pub(super) fn current(&self) -> &LayerSet {
        &self.sets[&self.current]
    }

    /// Takes the name of the generator that the game has, and tells whether it is new to the file. A generator with another name is
    /// refused. Without a generator, the file keeps its name.
    pub(super) fn adopt_generator(&mut self, options: &Dimension) -> Result<bool> {
        let (known, name) = (&self.generator, &options.generator_name);
        let is_given = options.generator.is_some() || !name.is_empty();
        if known == name || !is_given {
            return Ok(false);
        }
        if known.is_empty() {
            self.generator.clone_from(name);
            return Ok(true);
        }
        let ours = if name.is_empty() { "a generator without a name".into() } else { format!("`{name}`") };
        Err(Error::misuse(format!(
            "the chunks of this world were made by the generator `{known}`, and the game has {ours}: give the one that made them"
        )))
    }

    /// Makes the layers of the game those that are written with, and tells whether they are new.
    pub(super) fn adopt_layers(
        &mut self,
        number: u32,
        options: &Dimension,
        frames: &WorldFrames,
    ) -> Result<bool> {
        let carried = Conversion::new(self.current(), &options.layers)?.carried_layers().to_vec();
        let set = options.layers.set(options.generator_version, &carried)?;
        self.adopt(set, || {
            let kinds =
                [FrameKind::Chunk, FrameKind::Bodies, FrameKind::DamagedChunk, FrameKind::DamagedBodies];
            let all = kinds
                .into_iter()
                .flat_map(|kind| frames.store().list(kind, &ChunkRect::of_dimension(number)));
            let pinned = frames.file().map(|file| file.layer_sets_of_pins()).unwrap_or_default();
            all.map(|(_, tag)| tag.layers).chain(pinned).collect()
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

/// Returns true if places have three coordinates, if the settings go on with it.
fn decode_coordinates(bytes: &mut &[u8]) -> Result<bool> {
    if bytes.first() != Some(&COORDINATES) {
        return Ok(false);
    }
    match take(bytes) {
        Some([_, 1, 0, 3]) => Ok(true),
        _ => Err(Error::corrupt("the settings of a chunk world do not say how many coordinates places have")),
    }
}

/// The name of the generator, if the settings go on with it.
fn decode_generator(bytes: &mut &[u8]) -> Result<String> {
    if bytes.first() != Some(&GENERATOR) {
        return Ok(String::new());
    }
    let len = |bytes: &mut &[u8]| {
        let [_, low, high] = take(bytes)?;
        Some(usize::from(u16::from_le_bytes([low, high])))
    };
    let cut = || Error::corrupt("the name of the generator is cut");
    let len = len(bytes).ok_or_else(cut)?;
    if len == 0 || len > NAME_BYTES_MAX {
        return Err(Error::corrupt(format!(
            "the name of a generator has 1 to {NAME_BYTES_MAX} bytes, not {len}"
        )));
    }
    let (name, rest) = bytes.split_at_checked(len).ok_or_else(cut)?;
    *bytes = rest;
    let name = std::str::from_utf8(name);
    Ok(name.map_err(|error| Error::corrupt(format!("the name of the generator: {error}")))?.to_owned())
}

/// The settings of a dimension are there twice.
pub(super) fn settings_places(dimension: u32) -> [ChunkPos; 2] {
    [ChunkPos::new(0, 0), ChunkPos::new(0, 1)].map(|pos| pos.in_dimension(dimension))
}

/// What a file says of one dimension: its settings, and a header with its sizes and its seed.
pub(super) struct StoredDimension {
    pub(super) header: Header,
    pub(super) settings: Settings,
}

/// Reads the settings of all dimensions that a file has. Those of dimension 0 are an error if they are lost; another dimension is
/// left out, so that the rest of the world can be read.
pub(super) fn read_settings(frames: &WorldFrames) -> Result<BTreeMap<u32, StoredDimension>> {
    let stored = frames.positions(FrameKind::Settings, &ChunkRect::ALL);
    let numbers: BTreeSet<u32> = stored.into_iter().map(|pos| pos.dimension).chain([FIRST]).collect();
    let mut all = BTreeMap::new();
    for number in numbers {
        match read_dimension(frames, number) {
            Err(error) if number != FIRST && error.is_corrupt() => {
                tracing::warn!(dimension = number, %error, "the settings of a dimension are lost");
            }
            read => drop(all.insert(number, read?)),
        }
    }
    Ok(all)
}

fn read_dimension(frames: &WorldFrames, number: u32) -> Result<StoredDimension> {
    let settings = read_first(frames, number, Settings::decode)?;
    let header = match number {
        FIRST if !frames.is_store() => frames.header(),
        _ => read_first(frames, number, |data| {
            decode_head(data).ok_or_else(|| Error::corrupt("the settings of this world are cut"))
        })?,
    };
    Ok(StoredDimension { header, settings })
}

/// Reads the first copy of the settings of a dimension that is whole.
fn read_first<T>(frames: &WorldFrames, number: u32, decode: impl Fn(&[u8]) -> Result<T>) -> Result<T> {
    let mut first_error = None;
    for pos in settings_places(number) {
        match frames.read(FrameKey::new(FrameKind::Settings, pos), |_, data| decode(data)) {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => {}
            Err(error) => drop(first_error.get_or_insert(error)),
        }
    }
    Err(first_error.unwrap_or_else(|| {
        Error::corrupt("the settings of this world are lost, so its cells cannot be read")
    }))
}

pub(super) fn settings_frames(
    number: u32,
    settings: &Settings,
    header: &Header,
) -> impl Iterator<Item = NewFrame> {
    let data = settings.encode(header);
    settings_places(number).into_iter().map(move |pos| NewFrame {
        key: FrameKey::new(FrameKind::Settings, pos),
        tag: FrameTag::default(),
        data: data.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layer, Layers, Persistence};

    fn encoded(generator: &str) -> Vec<u8> {
        let layers = Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always));
        let head = crate::format::encode_head;
        let header =
            crate::format::decode_head(&[[1, 1].as_slice(), &[0; SETTINGS_HEAD_BYTES]].concat()).unwrap();
        assert_eq!(head(&header).len(), SETTINGS_HEAD_BYTES);
        Settings::new(layers.set(3, &[]).unwrap(), generator.to_owned()).encode(&header)
    }

    fn message(bytes: &[u8]) -> String {
        let error = Settings::decode(bytes).unwrap_err();
        assert!(error.is_corrupt(), "{error}");
        error.to_string()
    }

    #[test]
    fn the_name_of_the_generator_is_a_part_behind_the_rest() {
        let (none, named) = (encoded(""), encoded("game.hills"));
        assert_eq!(named, [&none[..], &[1, 10, 0], b"game.hills"].concat());
        assert_eq!(Settings::decode(&none).unwrap().generator, "");
        assert_eq!(Settings::decode(&named).unwrap().generator, "game.hills");
        assert_eq!(Settings::decode(&named).unwrap().encode(&decode_head(&named).unwrap()), named);
    }

    #[test]
    fn the_number_of_coordinates_is_the_last_part() {
        let named = encoded("game.hills");
        let head = decode_head(&named).unwrap();
        let settings = Settings { is_three_dimensional: true, ..Settings::decode(&named).unwrap() };
        let bytes = settings.encode(&head);
        assert_eq!(bytes, [&named[..], &[2, 1, 0, 3]].concat());
        assert_eq!(Settings::decode(&bytes).unwrap(), settings);
        for wrong in [&[2, 1, 0][..], &[2, 1, 0, 2], &[2, 2, 0, 3, 3]] {
            assert!(message(&[&named[..], wrong].concat()).contains("coordinates"));
        }
        assert!(message(&[&bytes[..], &[2, 1, 0, 3]].concat()).contains("contradict"), "said twice");
    }

    #[test]
    fn a_hostile_name_is_refused() {
        let none = encoded("");
        let with = |part: &[u8]| [&none[..], part].concat();
        let named = encoded("game.hills");
        for len in none.len() + 1..named.len() {
            assert!(message(&named[..len]).contains("cut"), "{len} bytes");
        }
        let long = [&[1, 255, 0][..], &[b'n'; 255]].concat();
        assert_eq!(Settings::decode(&with(&long)).unwrap().generator.len(), 255);
        assert!(message(&with(&[&[1, 0, 1][..], &[b'n'; 256]].concat())).contains("not 256"));
        assert!(message(&with(&[1, 0, 0])).contains("not 0"));
        assert!(message(&with(&[1, 255, 255])).contains("not 65535"));
        assert!(message(&with(&[1, 1, 0, 0xFF])).contains("utf-8"));
        assert!(message(&with(&[1, 1, 0, b'n', 1, 1, 0, b'n'])).contains("contradict"), "a second name");
        assert!(message(&with(&[3, 1, 0, b'n'])).contains("contradict"), "an unknown part");
    }
}

//! Pinned moments: what is said of one, and lists of frames by their places.

use bonfire::{Error, Result};

use super::{EntryList, FrameKey, FramePlace, take};

const VERSION: u8 = 1;
/// The name of a pin has so many bytes at most.
const NAME_BYTES_MAX: usize = 255;
/// What a game says of a pin has so many bytes at most.
const METADATA_BYTES_MAX: usize = 60 << 10;

/// What a file says of a pinned moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PinRecord {
    /// The save whose state it is.
    pub(crate) generation: u64,
    /// When it was made, in seconds since 1970.
    pub(crate) created: u64,
    pub(crate) name: String,
    pub(crate) metadata: Vec<u8>,
}

impl PinRecord {
    /// Refuses a name or metadata that a file cannot have.
    pub(crate) fn check(name: &str, metadata: &[u8]) -> Result<()> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            let len = name.len();
            return Err(Error::misuse(format!(
                "the name of a pin has 1 to {NAME_BYTES_MAX} bytes, not {len}"
            )));
        }
        if metadata.len() > METADATA_BYTES_MAX {
            let len = metadata.len();
            return Err(Error::limit(format!(
                "the metadata of the pin `{name}` has {len} bytes, and {METADATA_BYTES_MAX} at most are kept"
            )));
        }
        Ok(())
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(20 + self.name.len() + self.metadata.len());
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        bytes.extend_from_slice(&self.created.to_le_bytes());
        bytes.push(u8::try_from(self.name.len()).unwrap_or(u8::MAX));
        bytes.extend_from_slice(self.name.as_bytes());
        bytes.extend_from_slice(&(self.metadata.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&self.metadata);
        bytes
    }

    pub(crate) fn decode(mut data: &[u8]) -> Result<Self> {
        let bytes = &mut data;
        let cut = || Error::corrupt("a pin is cut");
        let [version] = take(bytes).ok_or_else(cut)?;
        if version != VERSION {
            return Err(Error::newer_format(format!("a later version has written a pin: version {version}")));
        }
        let fixed = |bytes: &mut &[u8]| {
            Some((u64::from_le_bytes(take(bytes)?), u64::from_le_bytes(take(bytes)?), take::<1>(bytes)?[0]))
        };
        let (generation, created, name_bytes) = fixed(bytes).ok_or_else(cut)?;
        let name = split(bytes, usize::from(name_bytes)).ok_or_else(cut)?;
        let name = std::str::from_utf8(name)
            .map_err(|error| Error::corrupt(format!("the name of a pin: {error}")))?
            .to_owned();
        let metadata_bytes = u16::from_le_bytes(take(bytes).ok_or_else(cut)?);
        let metadata = split(bytes, usize::from(metadata_bytes)).ok_or_else(cut)?.to_vec();
        if !bytes.is_empty() || name.is_empty() || metadata.len() > METADATA_BYTES_MAX {
            return Err(Error::corrupt("a pin contradicts itself"));
        }
        Ok(Self { generation, created, name, metadata })
    }
}

fn split<'b>(bytes: &mut &'b [u8], len: usize) -> Option<&'b [u8]> {
    let (first, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(first)
}

/// The data of a list of frames by their places. A place that is nowhere says that there was no such frame.
pub(crate) fn encode_places(entries: &[(FrameKey, FramePlace)]) -> Vec<u8> {
    let mut bytes = (entries.len() as u32).to_le_bytes().to_vec();
    EntryList::encode(entries, &mut bytes);
    bytes
}

pub(crate) fn decode_places(mut data: &[u8]) -> Result<Vec<(FrameKey, FramePlace)>> {
    let bytes = &mut data;
    let count = take(bytes).ok_or_else(|| Error::corrupt("a list of pinned frames is cut"))?;
    let entries = EntryList::decode(bytes, u32::from_le_bytes(count))?;
    if !bytes.is_empty() || !entries.iter().all(|(key, _)| key.kind.is_pinned()) {
        return Err(Error::corrupt("a list of pinned frames names what no pin has"));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::super::{FrameKind, FrameTag};
    use super::*;
    use crate::ChunkPos;

    fn record() -> PinRecord {
        PinRecord { generation: 7, created: 1_700_000_000, name: "quick".to_owned(), metadata: vec![1, 2, 3] }
    }

    #[test]
    fn a_pin_comes_back_and_a_cut_one_is_refused() {
        let bytes = record().encode();
        assert_eq!(PinRecord::decode(&bytes).unwrap(), record());
        for len in 0..bytes.len() {
            assert!(PinRecord::decode(&bytes[..len]).unwrap_err().is_corrupt(), "{len} bytes");
        }
        assert!(PinRecord::decode(&[&bytes[..], &[0]].concat()).unwrap_err().is_corrupt());
        let mut newer = bytes.clone();
        newer[0] = 2;
        assert!(PinRecord::decode(&newer).unwrap_err().is_newer_format());
        let nameless = PinRecord { name: String::new(), ..record() };
        assert!(PinRecord::decode(&nameless.encode()).unwrap_err().is_corrupt());
    }

    #[test]
    fn the_longest_name_and_metadata_come_back_and_longer_ones_are_refused() {
        let (name, metadata) = ("n".repeat(NAME_BYTES_MAX), vec![9; METADATA_BYTES_MAX]);
        PinRecord::check(&name, &metadata).unwrap();
        let longest = PinRecord { name, metadata, ..record() };
        assert_eq!(PinRecord::decode(&longest.encode()).unwrap(), longest);
        assert!(PinRecord::check("", &[]).is_err());
        assert!(PinRecord::check(&"n".repeat(NAME_BYTES_MAX + 1), &[]).is_err());
        assert!(PinRecord::check("n", &vec![0; METADATA_BYTES_MAX + 1]).unwrap_err().is_limit());
    }

    #[test]
    fn lists_of_places_hold_what_pins_have_and_nothing_else() {
        let place = FramePlace { offset: 99, len: 5, tag: FrameTag { storage: 1, codec: 2, layers: 3 } };
        let key = |kind| FrameKey::new(kind, ChunkPos::new(1, -2));
        let entries = [(key(FrameKind::Chunk), place), (key(FrameKind::Bodies), FramePlace::NOWHERE)];
        let bytes = encode_places(&entries);
        assert_eq!(decode_places(&bytes).unwrap(), entries);
        for len in 0..bytes.len() {
            assert!(decode_places(&bytes[..len]).unwrap_err().is_corrupt());
        }
        assert!(decode_places(&[&bytes[..], &[0]].concat()).unwrap_err().is_corrupt());
        let wrong = encode_places(&[(key(FrameKind::Settings), place)]);
        assert!(decode_places(&wrong).unwrap_err().is_corrupt());
    }
}

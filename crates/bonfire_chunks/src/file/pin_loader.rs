//! Pins out of a file that is opened.

use std::collections::BTreeSet;
use std::sync::Arc;

use bonfire::{Error, Result};
use bonfire_store::disk::DiskFile;

use super::commit_file::State;
use super::frame_reader::read_place;
use super::pins::{Pins, pin_keys};
use super::recover::Recovered;
use super::report::DamagedFrame;
use super::seal::Seal;
use crate::format::{
    Flags, FrameKey, FrameKind, FramePlace, FrameTag, Header, PinRecord, SIZE_BYTES, TRAILER_BYTES, Version,
    decode_places, without_depth,
};

impl State {
    /// Returns the state of a file that was recovered, with its pins.
    pub(super) fn found(file: Arc<dyn DiskFile>, header: Header, recovered: Recovered) -> Result<Self> {
        let state = Self {
            file,
            header,
            first_bytes: recovered.first_bytes,
            generation: recovered.generation,
            moves: 0,
            seal: recovered.seal,
            end: recovered.end,
            indices: recovered.indices,
            pins: Pins::default(),
        };
        state.with_pins(&recovered.report.damaged)
    }

    /// Reads which frames pins have. `damaged` are the frames that were found damaged already.
    pub(super) fn with_pins(mut self, damaged: &[DamagedFrame]) -> Result<Self> {
        // Lists of a file that was made by hand may lie in each other. All others are no longer than the file.
        let loader = PinLoader { file: &*self.file, state: &self, room: self.end };
        self.pins = loader.load(damaged)?;
        if self.pins.need_flag() {
            self.header.flags = self.header.flags.with(Flags::PINNED, true);
        }
        Ok(self)
    }
}

/// Reads the frames of pins.
struct PinLoader<'s> {
    file: &'s dyn DiskFile,
    state: &'s State,
    /// Bytes of lists that may still be read.
    room: u64,
}

impl PinLoader<'_> {
    fn load(mut self, damaged: &[DamagedFrame]) -> Result<Pins> {
        let indices = &self.state.indices;
        let lost: Vec<FrameKey> = damaged.iter().map(|frame| frame.key).collect();
        let mut parts: BTreeSet<(u32, u32)> =
            lost.iter().filter(|key| key.kind == FrameKind::PinDifference).map(|key| numbers(*key)).collect();
        parts.extend(
            indices
                .of(FrameKind::PinDifference)
                .iter()
                .map(|(pos, _)| numbers(FrameKey::new(FrameKind::PinDifference, pos))),
        );
        let mut pins = Pins::default();
        let described = indices.of(FrameKind::Pin).iter().map(|(pos, _)| pos.x.cast_unsigned());
        let lost_pins = lost.iter().filter(|key| key.kind == FrameKind::Pin).map(|key| numbers(*key).0);
        let of_parts = parts.iter().map(|(pin, _)| *pin);
        let numbers: BTreeSet<u32> = described.chain(lost_pins).chain(of_parts).collect();
        for number in numbers {
            let record = self.record(number)?;
            // Its name is lost, and what it has is not.
            let unnamed = || PinRecord {
                generation: 0,
                created: 0,
                name: format!("pin {number}, whose name is lost"),
                metadata: Vec::new(),
            };
            pins.add(number, record.unwrap_or_else(unnamed));
        }
        for (pin, part) in parts {
            match self.part(pin, part)? {
                Some(entries) => pins.load_part(pin, part, entries),
                None => pins.mark_damaged(pin, part),
            }
        }
        pins.finish_loading(indices);
        Ok(pins)
    }

    /// Reads what the file says of a pin. `None` if neither of the two frames is whole.
    fn record(&mut self, number: u32) -> Result<Option<PinRecord>> {
        for key in pin_keys(number) {
            let Some((_, data)) = self.read(key)? else { continue };
            match PinRecord::decode(&data) {
                Ok(record) => return Ok(Some(record)),
                Err(error) if error.is_newer_format() => return Err(error),
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// Reads a list. `None` if it is lost.
    fn part(&mut self, pin: u32, part: u32) -> Result<Option<Vec<(FrameKey, FramePlace)>>> {
        let pos = crate::ChunkPos::new(pin.cast_signed(), part.cast_signed());
        let found = self.read(FrameKey::new(FrameKind::PinDifference, pos))?;
        let list = found.filter(|(tag, _)| *tag != FrameTag::LOST);
        let mut entries = list.and_then(|(_, data)| decode_places(&data).ok());
        if let (Some(entries), Version::Flat) = (&mut entries, self.state.header.version) {
            entries.retain(|(key, _)| key.pos.is_flat());
        }
        Ok(entries)
    }

    /// Reads a frame. `None` if it is not there or not whole.
    fn read(&mut self, key: FrameKey) -> Result<Option<(FrameTag, Vec<u8>)>> {
        let Some(place) = self.state.indices.get(key) else { return Ok(None) };
        let Some(room) = self.room.checked_sub(place.frame_bytes()) else { return Ok(None) };
        self.room = room;
        let mut bytes = Vec::new();
        let read = read_place(self.file, key, place, &mut bytes).and_then(|place| {
            let frame = &mut bytes[SIZE_BYTES as usize..];
            Ok((place.tag, self.open(frame, key, place)?))
        });
        match read {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_corrupt() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn open(&self, frame: &mut [u8], key: FrameKey, place: FramePlace) -> Result<Vec<u8>> {
        if let Some(seal) = &self.state.seal {
            return Ok(seal.open(frame, key, place.offset)?.to_vec());
        }
        let data = frame.len().checked_sub(TRAILER_BYTES as usize).map(|len| &frame[..len]);
        let data = without_depth(key, data.ok_or_else(|| Error::corrupt("a frame is cut"))?);
        let is_proven = self.state.header.flags.has(Flags::PROVEN);
        Ok(if is_proven { Seal::read_unchecked(data)? } else { data }.to_vec())
    }
}

/// Returns the number of a pin and of its part.
fn numbers(key: FrameKey) -> (u32, u32) {
    (key.pos.x.cast_unsigned(), key.pos.y.cast_unsigned())
}

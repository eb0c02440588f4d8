//! Reads of frames by their key, beside a writer in this process or in another one.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use bonfire::{Error, Result};
use bonfire_store::disk::Access;

use super::chunk_file::ChunkFile;
use super::commit_file::State;
use super::frame_reader::{damaged, read_place};
use super::moment::Moment;
use super::names::{no_key, path_of, read_error};
use super::recover::recover_beside_a_writer;
use super::report::{DamagedFrame, DamagedInPins};
use super::seal::Seal;
use crate::format::{
    Flags, FrameKey, FramePlace, FrameTag, HEADER_BYTES, SIZE_BYTES, TRAILER_BYTES, without_depth,
};
use crate::frames::NewFrame;

impl ChunkFile {
    /// Hands the data of a frame to `use_it`. `None` if there is no such frame; an error if there is one and it is damaged.
    pub(crate) fn read<T>(
        &self,
        key: FrameKey,
        use_it: impl FnOnce(FrameTag, &[u8]) -> Result<T>,
    ) -> Result<Option<T>> {
        self.read_at(None, key, use_it)
    }

    /// The same, as of a pin if one is given.
    pub(super) fn read_at<T>(
        &self,
        moment: Option<Moment>,
        key: FrameKey,
        use_it: impl FnOnce(FrameTag, &[u8]) -> Result<T>,
    ) -> Result<Option<T>> {
        thread_local! {
            static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        // Taken out: what `use_it` calls may read too.
        let mut bytes = BUFFER.take();
        let place = self.read_frame(moment, key, &mut bytes);
        let used = match place {
            Ok(Some((place, seal))) => {
                let data = self.open_frame(key, place, seal.as_deref(), &mut bytes);
                let used = data.and_then(|data| use_it(place.tag, data)).map(Some);
                if seal.is_some() {
                    // Nothing that was hidden stays in memory that nobody needs.
                    bytes.fill(0);
                }
                used
            }
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        if bytes.capacity() <= 16 << 20 {
            BUFFER.set(bytes);
        }
        used
    }

    /// Returns the data of a frame that was read, out of its seal if it has one.
    fn open_frame<'b>(
        &self,
        key: FrameKey,
        place: FramePlace,
        seal: Option<&Seal>,
        bytes: &'b mut [u8],
    ) -> Result<&'b [u8]> {
        let frame = &mut bytes[SIZE_BYTES as usize..(place.end() - place.start()) as usize];
        let flags = self.flags();
        match seal {
            Some(seal) => seal.open(frame, key, place.offset),
            None if flags.has(Flags::SEALED) && Seal::hides(key.kind) => Err(no_key(&self.name)),
            None => {
                let data = without_depth(key, &frame[..frame.len() - TRAILER_BYTES as usize]);
                if flags.has(Flags::PROVEN) { Seal::read_unchecked(data) } else { Ok(data) }
            }
        }
    }

    /// Reads a frame as it lies in the file, checked.
    fn read_frame(
        &self,
        moment: Option<Moment>,
        key: FrameKey,
        bytes: &mut Vec<u8>,
    ) -> Result<Option<(FramePlace, Option<Arc<Seal>>)>> {
        loop {
            let (file, place, moves, seal) = {
                let state = self.state();
                let place_of = state.places_at(moment)?;
                let Some(place) = place_of(key) else {
                    let was_damaged =
                        key.kind.damaged().and_then(|kind| place_of(FrameKey::new(kind, key.pos)));
                    return if was_damaged.is_some() {
                        Err(damaged(key, "it was found damaged earlier"))
                    } else {
                        Ok(None)
                    };
                };
                (state.file.clone(), place, state.moves, state.seal.clone())
            };
            match read_place(&*file, key, place, bytes) {
                Ok(place) => return Ok(Some((place, seal))),
                // It was moved between the look and the read.
                Err(_) if self.state().moves != moves => {}
                // Another process may have moved it, and has written another header since.
                Err(error) if error.is_corrupt() && self.access == Access::Read && self.is_outdated() => {
                    self.refresh()?;
                }
                Err(error) if error.is_io() => return Err(error.in_key(&path_of(&*self.disk, &self.name))),
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads a frame by its place, as only pins have it.
    pub(super) fn read_held(&self, key: FrameKey, place: FramePlace) -> Result<NewFrame> {
        let (file, seal) = {
            let state = self.state();
            (state.file.clone(), state.seal.clone())
        };
        let mut bytes = Vec::new();
        let place = read_place(&*file, key, place, &mut bytes)?;
        let data = self.open_frame(key, place, seal.as_deref(), &mut bytes)?;
        Ok(NewFrame { key, tag: place.tag, data: data.to_vec() })
    }

    /// Returns true if another process has written a checkpoint to the file, or replaced it, since it was opened.
    fn is_outdated(&self) -> bool {
        let Ok(file) = self.disk.open(&self.name, Access::Read) else { return false };
        let mut bytes = [0; HEADER_BYTES as usize];
        file.read_exact_at(&mut bytes, 0).is_ok() && bytes != self.state().first_bytes
    }

    /// Looks at what another process has saved since.
    pub(crate) fn refresh(&self) -> Result<()> {
        if self.is_writable() {
            return Ok(());
        }
        let file =
            self.disk.open(&self.name, Access::Read).map_err(read_error(&*self.disk, "open", &self.name))?;
        let mut recovered = recover_beside_a_writer(&*file, &self.options.recover_options())?;
        self.options.check_trust(&self.name, &recovered)?;
        let header =
            recovered.header.take().ok_or_else(|| Error::corrupt("the header of this world is lost"))?;
        let found = State::found(file.into(), header, recovered)?;
        let mut state = self.state_mut();
        *state = State { moves: state.moves + 1, ..found };
        Ok(())
    }

    /// The kinds and places of everything that cannot be read. `looked_at` hears of each frame.
    pub(crate) fn check(&self, looked_at: &mut dyn FnMut(u64, u64)) -> Vec<(DamagedFrame, Error)> {
        let all: Vec<(FrameKey, FramePlace)> = self.state().indices.iter().collect();
        let (mut found, mut bytes) = (Vec::new(), Vec::new());
        for (number, (key, place)) in all.iter().enumerate() {
            let checked = self.read_frame(None, *key, &mut bytes).and_then(|frame| match frame {
                Some((place, Some(seal))) => {
                    self.open_frame(*key, place, Some(&seal), &mut bytes).map(|_| ())
                }
                _ => Ok(()),
            });
            if let Err(error) = checked {
                found.push((DamagedFrame::new(*key, *place), error));
            }
            looked_at(number as u64 + 1, all.len() as u64);
        }
        found
    }
    /// The same of the frames that only pins have, with the names of those pins. Returns how many frames there are.
    pub(crate) fn check_pins(&self) -> (u64, Vec<DamagedInPins>) {
        loop {
            let (held, moves) = {
                let state = self.state();
                (state.pins.held(&state.indices), state.moves)
            };
            let mut damaged = BTreeMap::new();
            for (key, place) in &held {
                let read = match key.kind.is_set_aside() {
                    true => Err(Error::corrupt("it was found damaged earlier")),
                    false => self.read_held(*key, *place).map(drop),
                };
                // Without the key the checksum says enough.
                if let Err(error) = read
                    && !error.is_wrong_key()
                {
                    damaged.entry(*key).or_insert_with(Vec::new).push((*place, error));
                }
            }
            let state = self.state();
            // A frame that was moved meanwhile is not damaged.
            if damaged.is_empty() || state.moves == moves {
                let found = damaged.into_iter().flat_map(|(key, parts)| {
                    let mut names = state.pins.names_by_version(key, DamagedInPins::NAMES_MAX);
                    let part = move |(place, error): (FramePlace, Error)| {
                        let pins = names.remove(&place.offset).unwrap_or_default();
                        DamagedInPins { frame: DamagedFrame::new(key, place), pins, error }
                    };
                    parts.into_iter().map(part)
                });
                return (held.len() as u64, found.collect());
            }
        }
    }
}

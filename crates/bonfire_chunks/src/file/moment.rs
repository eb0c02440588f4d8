//! The moment that frames are read from: the present, or a pin.

use bonfire::{Error, Result};

use super::commit_file::State;
use crate::format::{FrameKey, FramePlace};

/// A pin that frames are read from. Numbers alone may be used again by another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    number: u32,
    pub(super) generation: u64,
}

impl State {
    /// Returns the pin with this name, if it is there and whole.
    pub(super) fn moment(&self, name: &str) -> Result<Moment> {
        let Some((number, pin)) = self.pins.find(name) else {
            return Err(Error::not_found(format!("this world has no pin `{name}`")));
        };
        self.check_whole(number, name)?;
        Ok(Moment { number, generation: pin.record.generation })
    }

    /// Returns the number of a pin that was found earlier, if it is still there.
    pub(super) fn number_of(&self, moment: Moment) -> Result<u32> {
        let pin = self.pins.get(moment.number).filter(|pin| pin.record.generation == moment.generation);
        match pin {
            Some(pin) => self.check_whole(moment.number, &pin.record.name).map(|()| moment.number),
            None => Err(Error::not_found("the pin that is read was removed")),
        }
    }

    /// Returns a look-up of frames: as they are now, or as of a pin.
    pub(super) fn places_at(
        &self,
        moment: Option<Moment>,
    ) -> Result<impl Fn(FrameKey) -> Option<FramePlace> + '_> {
        let number = moment.map(|moment| self.number_of(moment)).transpose()?;
        Ok(move |key| match number {
            Some(number) => self.pins.place(number, key, &self.indices),
            None => self.indices.get(key),
        })
    }

    fn check_whole(&self, number: u32, name: &str) -> Result<()> {
        match self.pins.is_damaged(number) {
            true => Err(Error::corrupt(format!(
                "the pin `{name}` is damaged: a list of what it has, or a later pin has, is lost. Other pins and the world \
                 itself are not concerned; remove it with `ChunkWorld::unpin`"
            ))),
            false => Ok(()),
        }
    }
}

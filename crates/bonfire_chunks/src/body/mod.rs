//! Bodies: things made of cells that move about the world, each with a place, a speed and a shape.
//!
//! A body belongs to the chunk that its centre lies in. A body without a single solid cell is not saved: the game removes
//! it instead. What is stored of one is a record; `record` has its layout.

mod drawing;
mod fragments;
mod id;
pub(crate) mod record;

use bonfire::{Error, Result};

use crate::ChunkPos;

pub use self::drawing::{BodyDrawing, Canvas};
pub use self::id::{BodyId, BodyIds};
pub(crate) use self::record::stored_ids;
pub use self::record::{BodyLimits, DecodedBodies, LostBody, decode_bodies, encode_bodies};
pub(crate) use self::record::{Checksum, RecordHeader, decode_record_with};

/// A body as it is saved: at the transform that its cells were last drawn with, not at the one that physics has by now.
#[derive(Clone, Debug, PartialEq)]
pub struct Body {
    /// Who it is, in every session.
    pub id: BodyId,
    /// The centre, in cells of the world.
    pub position: [f32; 2],
    /// In radians.
    pub rotation: f32,
    /// In cells per second.
    pub linear_velocity: [f32; 2],
    /// In radians per second.
    pub angular_velocity: f32,
    /// Cells in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Where the first cell is, seen from the centre.
    pub origin: [i32; 2],
    /// All cells row by row, solid or not.
    pub cells: Vec<u8>,
    /// A bit for each cell that is part of the body, the first cell in the lowest bit of the first byte.
    pub mask: Vec<u8>,
    /// What the game adds of its own.
    pub extension: Vec<u8>,
}

impl Body {
    /// Returns a body of solid cells, which rests at the origin of the world. Its centre is in the middle, rounded down to whole
    /// cells. Id 0 is no id: a body that is saved needs one of [`BodyIds`].
    pub fn new(id: BodyId, [width, height]: [u32; 2], cells: Vec<u8>) -> Self {
        let solid = vec![true; width as usize * height as usize];
        Self {
            id,
            position: [0.0; 2],
            rotation: 0.0,
            linear_velocity: [0.0; 2],
            angular_velocity: 0.0,
            width,
            height,
            origin: [width, height].map(|cells| -((cells / 2) as i32)),
            cells,
            mask: Self::pack_mask(&solid),
            extension: Vec::new(),
        }
    }

    /// Whether no cell is solid: such a body is gone, and is not saved.
    pub fn is_empty(&self) -> bool {
        let cells = u64::from(self.width) * u64::from(self.height);
        let whole = usize::try_from(cells / 8).unwrap_or(usize::MAX).min(self.mask.len());
        let (full, rest) = self.mask.split_at(whole);
        let used = (1_u16 << (cells % 8)) - 1;
        full.iter().all(|byte| *byte == 0) && rest.first().is_none_or(|byte| u16::from(*byte) & used == 0)
    }

    /// Whether a cell is part of the body. Cells outside are not.
    pub fn solid(&self, x: u32, y: u32) -> bool {
        if x >= self.width || y >= self.height {
            return false;
        }
        let cell = u64::from(y) * u64::from(self.width) + u64::from(x);
        let byte = usize::try_from(cell / 8).ok().and_then(|byte| self.mask.get(byte));
        byte.is_some_and(|byte| byte >> (cell % 8) & 1 == 1)
    }

    /// Packs which cells are solid into a mask.
    pub fn pack_mask(solid: &[bool]) -> Vec<u8> {
        let byte = |cells: &[bool]| cells.iter().rev().fold(0, |byte, solid| byte << 1 | u8::from(*solid));
        solid.chunks(8).map(byte).collect()
    }

    /// Which cells are solid, row by row. Fails if the mask has too few bytes, or too many.
    pub fn unpack_mask(&self) -> Result<Vec<bool>> {
        let cells = u64::from(self.width) * u64::from(self.height);
        if self.mask.len() as u64 != cells.div_ceil(8) {
            return Err(Error::misuse(format!("a mask of {} bytes for {cells} cells", self.mask.len())));
        }
        let bits = self.mask.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1));
        // There are 8 bits to the byte in memory already, so the number fits.
        Ok(bits.take(usize::try_from(cells).unwrap_or(usize::MAX)).collect())
    }

    /// The chunk that the centre lies in, `None` if that is nowhere.
    pub fn chunk(&self, chunk_size: u32) -> Option<ChunkPos> {
        ChunkPos::containing(self.position, chunk_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(width: u32, height: u32, solid: &[bool]) -> Body {
        Body {
            id: BodyId(7),
            position: [-0.5, 3.0],
            rotation: 0.0,
            linear_velocity: [0.0; 2],
            angular_velocity: 0.0,
            width,
            height,
            origin: [0, 0],
            cells: vec![0; solid.len() * 4],
            mask: Body::pack_mask(solid),
            extension: Vec::new(),
        }
    }

    #[test]
    fn the_first_cell_is_the_lowest_bit() {
        let solid = [true, false, true, true, false, false, true, false, true];
        let body = body(3, 3, &solid);
        assert_eq!(body.mask, [0x4D, 0x01]);
        assert_eq!(body.unpack_mask().unwrap(), solid);
        assert!(body.solid(0, 0) && !body.solid(1, 0) && body.solid(2, 2) && !body.solid(3, 0));
    }

    #[test]
    fn bits_behind_the_last_cell_are_no_cells() {
        let mut body = body(3, 3, &[false; 9]);
        assert!(body.is_empty());
        body.mask[1] = 0b10;
        assert!(body.is_empty());
        body.mask[1] = 0b11;
        assert!(!body.is_empty());
        body.mask = vec![0x80, 0];
        assert!(!body.is_empty());
        body.mask.pop();
        body.unpack_mask().unwrap_err();
    }

    #[test]
    fn a_body_is_in_the_chunk_of_its_centre() {
        let mut body = body(1, 1, &[true]);
        assert_eq!(body.chunk(512), Some(ChunkPos::new(-1, 0)));
        body.position[0] = f32::NAN;
        assert_eq!(body.chunk(512), None);
    }
}

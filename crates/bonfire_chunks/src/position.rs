//! Where chunks are.

use std::cmp::Ordering;
use std::fmt;

/// The place of a chunk, counted in chunks. Ordered by rows: `y` first, as in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ChunkPos {
    /// To the right.
    pub x: i32,
    /// Up, or down: as the game has it.
    pub y: i32,
}

impl ChunkPos {
    /// The chunk in this column and this row.
    pub const fn new(x: i32, y: i32) -> Self {
        Self { x, y }
    }

    /// The chunk that a point of the world lies in, in chunks of `size` cells. Points left of 0 are in chunks left of 0,
    /// also when they are less than a cell away. `None` if the point is no number, or nowhere near.
    pub fn containing(point: [f32; 2], size: u32) -> Option<Self> {
        let along = |at: f32| {
            let chunk = (f64::from(at) / f64::from(size)).floor();
            let range = f64::from(i32::MIN)..=f64::from(i32::MAX);
            #[expect(clippy::cast_possible_truncation, reason = "it is a whole number in range")]
            range.contains(&chunk).then_some(chunk as i32)
        };
        Some(Self { x: along(point[0])?, y: along(point[1])? })
    }
}

impl ChunkPos {
    /// The chunk that a cell of the world is in, in chunks of `size` cells, and where in the chunk it is. `None` if there is no
    /// such chunk.
    pub fn of_cell(cell: [i64; 2], size: u32) -> Option<(Self, [u32; 2])> {
        let size = i64::from(size);
        let chunk = |at: i64| i32::try_from(at.checked_div_euclid(size)?).ok();
        let inside = |at: i64| u32::try_from(at.checked_rem_euclid(size)?).ok();
        let [x, y] = cell;
        Some((Self { x: chunk(x)?, y: chunk(y)? }, [inside(x)?, inside(y)?]))
    }
}

impl Ord for ChunkPos {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.y, self.x).cmp(&(other.y, other.x))
    }
}

impl PartialOrd for ChunkPos {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<(i32, i32)> for ChunkPos {
    fn from((x, y): (i32, i32)) -> Self {
        Self { x, y }
    }
}

impl From<[i32; 2]> for ChunkPos {
    fn from([x, y]: [i32; 2]) -> Self {
        Self { x, y }
    }
}

impl fmt::Display for ChunkPos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {})", self.x, self.y)
    }
}

/// All chunks from one corner to the other, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRect {
    min: ChunkPos,
    max: ChunkPos,
}

impl ChunkRect {
    /// The whole world.
    pub const ALL: Self =
        Self { min: ChunkPos::new(i32::MIN, i32::MIN), max: ChunkPos::new(i32::MAX, i32::MAX) };

    /// Between two chunks that lie in opposite corners, whichever.
    pub fn new(one: impl Into<ChunkPos>, other: impl Into<ChunkPos>) -> Self {
        let (one, other) = (one.into(), other.into());
        Self {
            min: ChunkPos::new(one.x.min(other.x), one.y.min(other.y)),
            max: ChunkPos::new(one.x.max(other.x), one.y.max(other.y)),
        }
    }

    /// The chunks around one, `reach` in every direction.
    pub fn around(centre: impl Into<ChunkPos>, reach: u32) -> Self {
        let centre = centre.into();
        Self {
            min: ChunkPos::new(
                centre.x.saturating_sub_unsigned(reach),
                centre.y.saturating_sub_unsigned(reach),
            ),
            max: ChunkPos::new(
                centre.x.saturating_add_unsigned(reach),
                centre.y.saturating_add_unsigned(reach),
            ),
        }
    }

    /// The corner with the smallest coordinates.
    pub fn min(&self) -> ChunkPos {
        self.min
    }

    /// The corner with the largest coordinates.
    pub fn max(&self) -> ChunkPos {
        self.max
    }

    /// Whether a chunk lies in it.
    pub fn contains(&self, pos: ChunkPos) -> bool {
        (self.min.x..=self.max.x).contains(&pos.x) && (self.min.y..=self.max.y).contains(&pos.y)
    }

    /// How many chunks lie in it.
    pub fn area(&self) -> u128 {
        let side = |min: i32, max: i32| u128::from(max.abs_diff(min)) + 1;
        side(self.min.x, self.max.x) * side(self.min.y, self.max.y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_first() {
        let mut chunks = [(1, 0), (0, 1), (0, 0), (5, -1)].map(ChunkPos::from);
        chunks.sort_unstable();
        assert_eq!(chunks, [(5, -1), (0, 0), (1, 0), (0, 1)].map(ChunkPos::from));
    }

    #[test]
    fn a_point_just_left_of_zero_is_in_the_chunk_left_of_zero() {
        assert_eq!(ChunkPos::containing([-0.5, 0.0], 512), Some(ChunkPos::new(-1, 0)));
        assert_eq!(ChunkPos::containing([-512.0, 511.9], 512), Some(ChunkPos::new(-1, 0)));
        assert_eq!(ChunkPos::containing([-512.1, 512.0], 512), Some(ChunkPos::new(-2, 1)));
        assert_eq!(ChunkPos::containing([f32::NAN, 0.0], 512), None);
        assert_eq!(ChunkPos::containing([0.0, f32::INFINITY], 512), None);
        assert_eq!(ChunkPos::containing([f32::MAX, 0.0], 1), None);
    }

    #[test]
    fn cells_left_of_zero_count_from_the_left_edge_of_their_chunk() {
        assert_eq!(ChunkPos::of_cell([5, 17], 16), Some((ChunkPos::new(0, 1), [5, 1])));
        assert_eq!(ChunkPos::of_cell([-1, -16], 16), Some((ChunkPos::new(-1, -1), [15, 0])));
        assert_eq!(ChunkPos::of_cell([i64::MAX, 0], 16), None);
        assert_eq!(ChunkPos::of_cell([0, 0], 0), None);
    }

    #[test]
    fn a_rectangle_has_both_of_its_corners() {
        let rect = ChunkRect::new((1, 5), (-1, 3));
        assert_eq!((rect.min(), rect.max(), rect.area()), (ChunkPos::new(-1, 3), ChunkPos::new(1, 5), 9));
        assert!(
            rect.contains((1, 5).into()) && rect.contains((-1, 3).into()) && !rect.contains((2, 5).into())
        );
        assert_eq!(ChunkRect::around((i32::MAX, 0), 2).max().x, i32::MAX);
        assert_eq!(ChunkRect::ALL.area(), 1 << 64);
    }
}

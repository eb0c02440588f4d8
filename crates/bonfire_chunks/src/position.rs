//! Where chunks are.

use std::cmp::Ordering;
use std::fmt;

/// The place of a chunk, counted in chunks. Ordered by dimension, then `z`, `y` and `x`, as in the file.
///
/// ```
/// use bonfire_chunks::ChunkPos;
///
/// assert_eq!(ChunkPos::from((4, -2)), ChunkPos::new(4, -2));
/// assert_eq!(ChunkPos::from((4, -2, 7)), ChunkPos::new_3d(4, -2, 7));
/// assert_eq!(ChunkPos::new(4, -2).in_dimension(1).to_string(), "(4, -2) in dimension 1");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ChunkPos {
    /// To the right.
    pub x: i32,
    /// Up, or down: as the game has it.
    pub y: i32,
    /// The third coordinate: 0 in a world of two.
    pub z: i32,
    /// The number of the dimension: 0 in a world of one. Dimensions of one world share its file, and nothing else.
    pub dimension: u32,
}

impl ChunkPos {
    /// The chunk in this column and this row.
    pub const fn new(x: i32, y: i32) -> Self {
        Self::new_3d(x, y, 0)
    }

    /// The chunk with these three coordinates.
    pub const fn new_3d(x: i32, y: i32, z: i32) -> Self {
        Self { x, y, z, dimension: 0 }
    }

    /// The chunk with the same coordinates in another dimension.
    pub const fn in_dimension(self, dimension: u32) -> Self {
        Self { dimension, ..self }
    }

    /// The chunk that a point of the world lies in, in chunks of `size` cells. Points left of 0 are in chunks left of 0,
    /// also when they are less than a cell away. `None` if the point is no number, or nowhere near.
    pub fn containing(point: [f32; 2], size: u32) -> Option<Self> {
        Self::containing_3d([point[0], point[1], 0.0], size)
    }

    /// The chunk that a point of a world with three coordinates lies in: see [`containing`](Self::containing).
    pub fn containing_3d(point: [f32; 3], size: u32) -> Option<Self> {
        let along = |at: f32| {
            let chunk = (f64::from(at) / f64::from(size)).floor();
            let range = f64::from(i32::MIN)..=f64::from(i32::MAX);
            #[expect(clippy::cast_possible_truncation, reason = "it is a whole number in range")]
            range.contains(&chunk).then_some(chunk as i32)
        };
        let [x, y, z] = point;
        Some(Self::new_3d(along(x)?, along(y)?, along(z)?))
    }

    /// The chunk that a cell of the world is in, in chunks of `size` cells, and where in the chunk it is. `None` if there is no
    /// such chunk.
    pub fn of_cell(cell: [i64; 2], size: u32) -> Option<(Self, [u32; 2])> {
        let [x, y] = cell;
        let (chunk, [x, y, _]) = Self::of_cell_3d([x, y, 0], size)?;
        Some((chunk, [x, y]))
    }

    /// The chunk that a cell of a world with three coordinates is in: see [`of_cell`](Self::of_cell).
    pub fn of_cell_3d(cell: [i64; 3], size: u32) -> Option<(Self, [u32; 3])> {
        let size = i64::from(size);
        let chunk = |at: i64| i32::try_from(at.checked_div_euclid(size)?).ok();
        let inside = |at: i64| u32::try_from(at.checked_rem_euclid(size)?).ok();
        let [x, y, z] = cell;
        Some((Self::new_3d(chunk(x)?, chunk(y)?, chunk(z)?), [inside(x)?, inside(y)?, inside(z)?]))
    }

    /// Returns true for places that every version of the format has: in dimension 0, and with two coordinates.
    pub(crate) const fn is_flat(self) -> bool {
        self.z == 0 && self.dimension == 0
    }
}

impl Ord for ChunkPos {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |pos: &Self| (pos.dimension, pos.z, pos.y, pos.x);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for ChunkPos {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<(i32, i32)> for ChunkPos {
    fn from((x, y): (i32, i32)) -> Self {
        Self::new(x, y)
    }
}

impl From<(i32, i32, i32)> for ChunkPos {
    fn from((x, y, z): (i32, i32, i32)) -> Self {
        Self::new_3d(x, y, z)
    }
}

impl From<[i32; 2]> for ChunkPos {
    fn from([x, y]: [i32; 2]) -> Self {
        Self::new(x, y)
    }
}

impl From<[i32; 3]> for ChunkPos {
    fn from([x, y, z]: [i32; 3]) -> Self {
        Self::new_3d(x, y, z)
    }
}

impl fmt::Display for ChunkPos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.z {
            0 => write!(f, "({}, {})", self.x, self.y)?,
            z => write!(f, "({}, {}, {z})", self.x, self.y)?,
        }
        match self.dimension {
            0 => Ok(()),
            dimension => write!(f, " in dimension {dimension}"),
        }
    }
}

/// A map by places. Places come from the game, so their hash is quick and nothing else.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) type PosMap<V> = std::collections::HashMap<ChunkPos, V, std::hash::BuildHasherDefault<PosHasher>>;

/// Hashes the four numbers of a place.
#[cfg(not(target_arch = "wasm32"))]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PosHasher(u64);

#[cfg(not(target_arch = "wasm32"))]
impl std::hash::Hasher for PosHasher {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(u32::from(byte)));
    }

    fn write_i32(&mut self, number: i32) {
        self.write_u32(number.cast_unsigned());
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0.rotate_left(26) ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// All chunks from one corner to the other, both included: a rectangle, or a box in a world with three coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRect {
    min: ChunkPos,
    max: ChunkPos,
}

impl ChunkRect {
    /// The whole world, with all of its dimensions.
    pub const ALL: Self = Self {
        min: ChunkPos::new_3d(i32::MIN, i32::MIN, i32::MIN),
        max: ChunkPos::new_3d(i32::MAX, i32::MAX, i32::MAX).in_dimension(u32::MAX),
    };

    /// Between two chunks that lie in opposite corners, whichever. Corners in two dimensions include those between.
    pub fn new(one: impl Into<ChunkPos>, other: impl Into<ChunkPos>) -> Self {
        let (one, other) = (one.into(), other.into());
        let corner = |of: fn(i32, i32) -> i32, dimension: u32| {
            ChunkPos::new_3d(of(one.x, other.x), of(one.y, other.y), of(one.z, other.z))
                .in_dimension(dimension)
        };
        Self {
            min: corner(i32::min, one.dimension.min(other.dimension)),
            max: corner(i32::max, one.dimension.max(other.dimension)),
        }
    }

    /// All of one dimension.
    pub const fn of_dimension(dimension: u32) -> Self {
        Self { min: Self::ALL.min.in_dimension(dimension), max: Self::ALL.max.in_dimension(dimension) }
    }

    /// The chunks around one, `reach` to the left and right, up and down.
    pub fn around(centre: impl Into<ChunkPos>, reach: u32) -> Self {
        let centre = centre.into();
        let all = Self::around_3d(centre, reach);
        Self { min: ChunkPos { z: centre.z, ..all.min }, max: ChunkPos { z: centre.z, ..all.max } }
    }

    /// The chunks around one, `reach` along each of the three coordinates.
    pub fn around_3d(centre: impl Into<ChunkPos>, reach: u32) -> Self {
        let ChunkPos { x, y, z, dimension } = centre.into();
        let corner = |of: fn(i32, u32) -> i32| {
            ChunkPos::new_3d(of(x, reach), of(y, reach), of(z, reach)).in_dimension(dimension)
        };
        Self { min: corner(i32::saturating_sub_unsigned), max: corner(i32::saturating_add_unsigned) }
    }

    /// The corner with the smallest coordinates.
    pub fn min(&self) -> ChunkPos {
        self.min
    }

    /// The corner with the largest coordinates.
    pub fn max(&self) -> ChunkPos {
        self.max
    }

    /// Returns true if a chunk lies in it.
    pub fn contains(&self, pos: ChunkPos) -> bool {
        let (min, max) = (self.min, self.max);
        (min.x..=max.x).contains(&pos.x)
            && (min.y..=max.y).contains(&pos.y)
            && (min.z..=max.z).contains(&pos.z)
            && (min.dimension..=max.dimension).contains(&pos.dimension)
    }

    /// The number of chunks that lie in it, or the largest number there is.
    pub fn area(&self) -> u128 {
        let side = |min: i32, max: i32| u128::from(max.abs_diff(min)) + 1;
        let (min, max) = (self.min, self.max);
        let sides = [
            side(min.x, max.x),
            side(min.y, max.y),
            side(min.z, max.z),
            u128::from(max.dimension - min.dimension) + 1,
        ];
        sides.into_iter().fold(1, u128::saturating_mul)
    }

    /// All chunks that lie in it, in order.
    pub fn iter(&self) -> impl Iterator<Item = ChunkPos> + use<> {
        let Self { min, max } = *self;
        (min.dimension..=max.dimension).flat_map(move |dimension| {
            (min.z..=max.z).flat_map(move |z| {
                (min.y..=max.y).flat_map(move |y| {
                    (min.x..=max.x).map(move |x| ChunkPos::new_3d(x, y, z).in_dimension(dimension))
                })
            })
        })
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
        assert_eq!(ChunkRect::of_dimension(7).area(), 1 << 96);
        assert_eq!(ChunkRect::ALL.area(), u128::MAX);
    }

    #[test]
    fn dimensions_and_the_third_coordinate_come_before_rows() {
        let mut chunks = [
            ChunkPos::new(0, 0).in_dimension(1),
            ChunkPos::new_3d(0, 0, 1),
            ChunkPos::new(9, 9),
            ChunkPos::new_3d(9, 9, -1),
        ];
        chunks.sort_unstable();
        let order: Vec<String> = chunks.iter().map(ToString::to_string).collect();
        assert_eq!(order, ["(9, 9, -1)", "(9, 9)", "(0, 0, 1)", "(0, 0) in dimension 1"]);
    }

    #[test]
    fn a_box_has_all_that_lies_in_it_and_nothing_of_other_dimensions() {
        let centre = ChunkPos::new_3d(1, 2, 3).in_dimension(4);
        assert_eq!(ChunkRect::around(centre, 1).area(), 9);
        let cube = ChunkRect::around_3d(centre, 1);
        let all: Vec<ChunkPos> = cube.iter().collect();
        assert_eq!((all.len() as u128, cube.area()), (27, 27));
        assert!(all.is_sorted() && all.iter().all(|pos| cube.contains(*pos)));
        assert_eq!((all[0], all[26]), (cube.min(), cube.max()));
        assert!(!cube.contains(centre.in_dimension(3)) && !cube.contains(ChunkPos { z: 5, ..centre }));
        assert!(ChunkRect::of_dimension(4).contains(centre) && !ChunkRect::of_dimension(0).contains(centre));
        assert_eq!(ChunkRect::new(centre, centre.in_dimension(6)).area(), 3);
    }

    #[test]
    fn points_and_cells_have_a_chunk_along_three_coordinates() {
        assert_eq!(ChunkPos::containing_3d([-0.5, 0.0, 33.0], 16), Some(ChunkPos::new_3d(-1, 0, 2)));
        assert_eq!(ChunkPos::containing_3d([0.0, 0.0, f32::NAN], 16), None);
        assert_eq!(ChunkPos::of_cell_3d([5, -1, 17], 16), Some((ChunkPos::new_3d(0, -1, 1), [5, 15, 1])));
    }
}

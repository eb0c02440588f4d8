//! Bodies that fall apart.

use super::Body;

impl Body {
    /// Takes a cell away. Returns false if it was not solid.
    pub fn remove_cell(&mut self, x: u32, y: u32) -> bool {
        let is_solid = self.solid(x, y);
        if is_solid {
            // It is solid, so the byte is there.
            let cell = y as usize * self.width as usize + x as usize;
            self.mask[cell / 8] &= !(1 << (cell % 8));
        }
        is_solid
    }

    /// Splits off everything that does not hang together with the largest part, cell beside cell. What is split off has id 0:
    /// give each fragment an id of its own. Fragments are where they were in the body, and move on as they did.
    ///
    /// ```
    /// use bonfire_chunks::{Body, BodyId};
    ///
    /// let mut bar = Body::new(BodyId(7), [5, 1], vec![3; 5]);
    /// assert!(bar.split_off_fragments().is_empty());
    /// bar.remove_cell(3, 0);
    /// let fragments = bar.split_off_fragments();
    /// assert_eq!((bar.solid_cells(), fragments.len(), fragments[0].solid_cells()), (3, 1, 1));
    /// ```
    pub fn split_off_fragments(&mut self) -> Vec<Body> {
        let mut parts = self.parts();
        // The largest one stays. Of several, the first.
        let Some(largest) = (0..parts.len()).rev().max_by_key(|part| parts[*part].len()) else {
            return Vec::new();
        };
        parts.remove(largest);
        let fragments = parts.iter().map(|part| self.fragment(part)).collect();
        for [x, y] in parts.into_iter().flatten() {
            self.remove_cell(x, y);
        }
        fragments
    }

    /// Returns the number of solid cells.
    pub fn solid_cells(&self) -> usize {
        let cells = u64::from(self.width) * u64::from(self.height);
        let bits = (0..cells).filter(|cell| {
            usize::try_from(cell / 8)
                .ok()
                .and_then(|at| self.mask.get(at))
                .is_some_and(|byte| byte >> (cell % 8) & 1 == 1)
        });
        bits.count()
    }

    /// The parts that hang together, each as its cells.
    fn parts(&self) -> Vec<Vec<[u32; 2]>> {
        let mut left = self.mask.clone();
        let index = |[x, y]: [u32; 2]| y as usize * self.width as usize + x as usize;
        let mut take = |cell: [u32; 2]| {
            let (byte, bit) = (index(cell) / 8, 1 << (index(cell) % 8));
            let is_left = self.solid(cell[0], cell[1]) && left[byte] & bit != 0;
            if is_left {
                left[byte] &= !bit;
            }
            is_left
        };
        let mut parts = Vec::new();
        for start in (0..self.height).flat_map(|y| (0..self.width).map(move |x| [x, y])) {
            if !take(start) {
                continue;
            }
            let mut part = vec![start];
            let mut next = 0;
            while let Some(&[x, y]) = part.get(next) {
                next += 1;
                let beside = [[x.wrapping_sub(1), y], [x + 1, y], [x, y.wrapping_sub(1)], [x, y + 1]];
                part.extend(beside.into_iter().filter(|cell| take(*cell)));
            }
            parts.push(part);
        }
        parts
    }

    /// A body of some cells of this one, which are where they were.
    fn fragment(&self, part: &[[u32; 2]]) -> Body {
        let of = |axis: usize, pick: fn(u32, u32) -> u32| {
            part.iter().map(|cell| cell[axis]).reduce(pick).unwrap_or_default()
        };
        let min = [of(0, u32::min), of(1, u32::min)];
        let size = [of(0, u32::max) - min[0] + 1, of(1, u32::max) - min[1] + 1];
        // The centre moves by whole cells, so that the fragment is drawn as it was.
        let centre = [0, 1].map(|axis| i64::from(self.origin[axis]) + i64::from(min[axis] + size[axis] / 2));
        let origin = size.map(|cells| -((cells / 2) as i32));
        let offset = centre.map(|along| along as f64);
        let place = self.to_world(offset);
        let cell_bytes = self.cells.len() / (self.width as usize * self.height as usize).max(1);
        let mut cells = vec![0; size[0] as usize * size[1] as usize * cell_bytes];
        let mut solid = vec![false; size[0] as usize * size[1] as usize];
        for &[x, y] in part {
            let from = (y as usize * self.width as usize + x as usize) * cell_bytes;
            let at = (y - min[1]) as usize * size[0] as usize + (x - min[0]) as usize;
            solid[at] = true;
            cells[at * cell_bytes..(at + 1) * cell_bytes]
                .copy_from_slice(&self.cells[from..from + cell_bytes]);
        }
        // What turns moves its outer parts.
        let arm = [0, 1].map(|axis: usize| (place[axis] - f64::from(self.position[axis])) as f32);
        let [speed_x, speed_y] = self.linear_velocity;
        let turn = self.angular_velocity;
        Body {
            position: place.map(|along| along as f32),
            rotation: self.rotation,
            linear_velocity: [speed_x - turn * arm[1], speed_y + turn * arm[0]],
            angular_velocity: turn,
            origin,
            mask: Body::pack_mask(&solid),
            ..Body::new(super::BodyId(0), size, cells)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::BodyId;

    /// Where each cell of some bodies is, and its first byte.
    fn cells<'b>(bodies: impl IntoIterator<Item = &'b Body>) -> BTreeMap<[i64; 2], u8> {
        let mut found = BTreeMap::new();
        for body in bodies {
            for y in -30..30 {
                for x in -30..30 {
                    if let Some([cx, cy]) = body.cell_at([f64::from(x) + 0.5, f64::from(y) + 0.5]) {
                        let value = body.cells[(cy * body.width + cx) as usize];
                        assert!(found.insert([i64::from(x), i64::from(y)], value).is_none());
                    }
                }
            }
        }
        found
    }

    #[test]
    fn fragments_are_where_they_were() {
        let mut body = Body::new(BodyId(9), [7, 5], (0..35).collect());
        (body.position, body.rotation) = ([2.5, -3.5], 0.7);
        (body.linear_velocity, body.angular_velocity) = ([1.0, 0.0], 2.0);
        for y in 0..5 {
            body.remove_cell(2, y);
        }
        body.remove_cell(1, 1);
        body.remove_cell(0, 1);
        let before = cells([&body]);
        let count = body.solid_cells();
        let fragments = body.split_off_fragments();
        assert_eq!(fragments.iter().map(Body::solid_cells).collect::<Vec<_>>(), [2, 6]);
        assert_eq!(body.solid_cells() + 8, count);
        assert_eq!(body.id, BodyId(9), "the largest part stays what it was");
        assert_eq!(cells(fragments.iter().chain([&body])), before);
        assert!(body.split_off_fragments().is_empty());
        let arm = [0, 1].map(|axis: usize| fragments[0].position[axis] - body.position[axis]);
        let speed = [1.0 - 2.0 * arm[1], 2.0 * arm[0]];
        assert!(
            (0..2).all(|axis| (fragments[0].linear_velocity[axis] - speed[axis]).abs() < 1e-4),
            "{speed:?}"
        );
    }

    #[test]
    fn cells_that_touch_at_a_corner_do_not_hang_together() {
        let mut body = Body::new(BodyId(1), [2, 2], vec![1; 4]);
        assert!(body.remove_cell(0, 0) && !body.remove_cell(0, 0) && body.remove_cell(1, 1));
        assert_eq!(body.split_off_fragments().len(), 1);
        body.remove_cell(1, 0);
        assert!(body.is_empty() && body.split_off_fragments().is_empty());
    }
}

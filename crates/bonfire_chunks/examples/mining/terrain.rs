//! The generated world: hills with trees and lakes, caves, ores, and something hot at the bottom.

use bonfire_chunks::{ChunkPos, Generator, WorldShape};

pub(crate) const SIZE: i32 = 64;

pub(crate) const AIR: u8 = 0;
pub(crate) const SKY: u8 = 1;
pub(crate) const CLOUD: u8 = 2;
pub(crate) const GRASS: u8 = 3;
pub(crate) const DIRT: u8 = 4;
pub(crate) const STONE: u8 = 5;
pub(crate) const COAL: u8 = 6;
pub(crate) const IRON: u8 = 7;
pub(crate) const GOLD: u8 = 8;
pub(crate) const WATER: u8 = 9;
pub(crate) const SAND: u8 = 10;
pub(crate) const SNOW: u8 = 11;
pub(crate) const WOOD: u8 = 12;
pub(crate) const LEAVES: u8 = 13;
pub(crate) const PLANKS: u8 = 14;
pub(crate) const GLASS: u8 = 15;
pub(crate) const LAVA: u8 = 16;

/// The names by which files know the materials, whatever their numbers are in a release.
pub(crate) const NAMES: [&str; 17] = [
    "mine.air",
    "mine.sky",
    "mine.cloud",
    "mine.grass",
    "mine.dirt",
    "mine.stone",
    "mine.coal",
    "mine.iron",
    "mine.gold",
    "mine.water",
    "mine.sand",
    "mine.snow",
    "mine.wood",
    "mine.leaves",
    "mine.planks",
    "mine.glass",
    "mine.lava",
];

const SEA: i32 = -4;

/// Makes the chunks that nobody has changed.
#[derive(Clone)]
pub(crate) struct Terrain {
    pub(crate) seed: u64,
    /// Material and shade, and what later releases add.
    pub(crate) cell_bytes: usize,
    /// The numbers that materials have in this release.
    pub(crate) numbers: [u8; NAMES.len()],
}

impl Generator for Terrain {
    fn generate(&self, world: &WorldShape<'_>, pos: ChunkPos, cells: &mut [u8]) {
        assert_eq!(world.seed, self.seed, "the file has the seed of the game");
        for (number, cell) in (0..).zip(cells.chunks_exact_mut(self.cell_bytes)) {
            let (x, y) = (pos.x * SIZE + number % SIZE, pos.y * SIZE + number / SIZE);
            let material = self.material(x, y);
            cell[0] = self.numbers[usize::from(material)];
            cell[1] = self.shade(material, x, y);
        }
    }

    fn name(&self) -> &str {
        "mine.hills"
    }

    fn version(&self) -> u32 {
        1
    }
}

impl Terrain {
    fn hash(&self, x: i32, y: i32, salt: u64) -> f64 {
        let place = u64::from(x.cast_unsigned()) << 32 | u64::from(y.cast_unsigned());
        let mut bits =
            place ^ self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ salt.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        for _ in 0..2 {
            bits = (bits ^ bits >> 31).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        }
        (bits >> 40) as f64 / (1_u64 << 24) as f64
    }

    /// Smooth noise from 0 to 1.
    fn noise(&self, x: f64, y: f64, salt: u64) -> f64 {
        let (left, low) = (x.floor(), y.floor());
        let ease = |part: f64| part * part * (3.0 - 2.0 * part);
        let (along, up) = (ease(x - left), ease(y - low));
        let corner = |dx: i32, dy: i32| self.hash(left as i32 + dx, low as i32 + dy, salt);
        let mix = |from: f64, to: f64, part: f64| from + (to - from) * part;
        mix(mix(corner(0, 0), corner(1, 0), along), mix(corner(0, 1), corner(1, 1), along), up)
    }

    /// The height of the ground.
    pub(crate) fn ground(&self, x: i32) -> i32 {
        let wave = |width: f64, salt: u64| self.noise(f64::from(x) / width, 0.0, salt) - 0.5;
        (wave(230.0, 1) * 150.0 + wave(64.0, 2) * 34.0 + wave(17.0, 3) * 6.0) as i32 + 14
    }

    /// A tree, if one stands near: its foot and how high it is.
    fn tree(&self, x: i32) -> Option<(i32, i32, i32)> {
        let site = x.div_euclid(17);
        let foot = site * 17 + 6 + (self.hash(site, 0, 4) * 5.0) as i32;
        let ground = self.ground(foot);
        let is_green = (SEA + 3..44).contains(&ground) && self.hash(site, 1, 4) < 0.62;
        is_green.then(|| (foot, ground, 9 + (self.hash(site, 2, 4) * 8.0) as i32))
    }

    /// What is at a place of the world.
    pub(crate) fn material(&self, x: i32, y: i32) -> u8 {
        let (ground, depth) = (self.ground(x), self.ground(x) - y);
        let at = |width: f64, height: f64, salt: u64| {
            self.noise(f64::from(x) / width, f64::from(y) / height, salt)
        };
        if depth < 0 {
            return self.above(x, y, ground);
        }
        let is_cave = |width: f64, height: f64, salt: u64| {
            (at(width, height, salt) * 0.7 + at(width / 3.0, height / 3.0, salt + 1) * 0.3 - 0.5).abs()
                < 0.021
        };
        if depth > 9 && (is_cave(110.0, 60.0, 10) || is_cave(170.0, 44.0, 20)) {
            return if y < -222 { LAVA } else { AIR };
        }
        match depth {
            0..5 if ground <= SEA + 2 => SAND,
            0..4 if ground > 50 => SNOW,
            0..3 => GRASS,
            _ if f64::from(depth) < 9.0 + at(30.0, 30.0, 30) * 8.0 => DIRT,
            _ if at(13.0, 8.0, 31) > 0.87 => COAL,
            _ if depth > 60 && at(11.0, 8.0, 32) > 0.89 => IRON,
            _ if depth > 130 && at(10.0, 7.0, 33) > 0.89 => GOLD,
            _ => STONE,
        }
    }

    fn above(&self, x: i32, y: i32, ground: i32) -> u8 {
        if y <= SEA {
            return WATER;
        }
        for (foot, at, height) in [x - 8, x + 8].into_iter().filter_map(|near| self.tree(near)) {
            let (dx, dy) = (x - foot, y - (at + height));
            if dx * dx + dy * dy < 36 + (self.hash(x, y, 5) * 10.0) as i32 {
                return LEAVES;
            }
            if dx.abs() <= 1 && y <= at + height && y > ground.min(at) {
                return WOOD;
            }
        }
        let cloud = self.noise(f64::from(x) / 70.0, f64::from(y) / 11.0, 6) * 0.8
            + self.noise(f64::from(x) / 19.0, f64::from(y) / 5.0, 7) * 0.2;
        if y > 118 && cloud > 0.66 { CLOUD } else { SKY }
    }

    /// A little darker or brighter.
    pub(crate) fn shade(&self, material: u8, x: i32, y: i32) -> u8 {
        match material {
            SKY => (200 - y.clamp(-60, 190)) as u8,
            AIR | GLASS => 40,
            WATER => (190 + (y - SEA) * 4).clamp(0, 190) as u8,
            _ => {
                let steps = self.noise(f64::from(x) / 26.0, f64::from(y) / 7.0, 40) * 5.0;
                (steps as u8) * 44 + if self.hash(x / 2, y / 2, 41) < 0.06 { 30 } else { 0 }
            }
        }
    }
}

//! Bodies: crates and boulders that each chunk has from the beginning, felled trees, and the physics of all of them.

use std::collections::BTreeSet;

use bevy_bonfire::chunks::{Body, PixelBody, PopulateChunk, Streamed};
use bevy_ecs::prelude::*;
use bevy_transform::components::Transform;

use super::books::Books;
use super::terrain::{
    AIR, GOLD, Ground, LEAVES, NAMES, PLANK, SIZE, STONE, Tree, WOOD, ground as ground_of, hash,
};

/// Simulation steps in a second, for velocities.
const STEPS: f32 = 30.0;

/// Generates the bodies of a chunk: once in the life of the world.
pub(crate) fn populate(chunk: On<PopulateChunk>, mut commands: Commands, mut books: ResMut<Books>) {
    let [left, bottom] = [chunk.pos.x, chunk.pos.y].map(|along| along * SIZE as i32);
    let number = hash(chunk.seed ^ 5, [chunk.pos.x, chunk.pos.y]);
    // The crate reaches over the border on its left.
    let crate_of_gold = (PixelBody::new([6, 6], box_cells(6)), left + 1 + (number % 2) as i32 * 6, 3);
    let boulder = (boulder(3 + (number >> 4) as u32 % 2), left + 23, 4);
    for (body, x, radius) in [crate_of_gold, boulder] {
        // Above the highest ground below it, and a little to fall.
        let ground = (x - radius..x + radius).map(|x| ground_of(chunk.seed, x)).max().unwrap_or_default();
        let y = ground + radius + 3;
        if (bottom..bottom + SIZE as i32).contains(&y) {
            for (material, cells) in solid(&body).into_iter().enumerate() {
                books.made[material] += cells;
            }
            commands.spawn((body, Streamed, Transform::from_xyz(x as f32, y as f32, 0.0)));
        }
    }
}

/// Planks around gold.
fn box_cells(size: u32) -> Vec<u8> {
    let is_inside = |along: u32| (2..size - 2).contains(&along);
    let cell = |at: u32| if is_inside(at % size) && is_inside(at / size) { GOLD } else { PLANK };
    (0..size * size).map(cell).collect()
}

fn boulder(radius: u32) -> PixelBody {
    let size = 2 * radius;
    let mut body = PixelBody::new([size, size], vec![STONE; (size * size) as usize]);
    for (x, y) in (0..size).flat_map(|y| (0..size).map(move |x| (x, y))) {
        let [dx, dy] = [x, y].map(|along| 2 * along as i32 + 1 - size as i32);
        if dx * dx + dy * dy > (size * size) as i32 {
            body.remove_cell(x, y);
        }
    }
    body
}

/// The solid cells of a body, by material.
pub(crate) fn solid(body: &Body) -> [u64; NAMES.len()] {
    let mut counts = [0; NAMES.len()];
    for (x, y) in (0..body.height).flat_map(|y| (0..body.width).map(move |x| (x, y))) {
        counts[usize::from(body.cells[(y * body.width + x) as usize])] += u64::from(body.solid(x, y));
    }
    counts
}

/// Makes a body of the trunk of a tree. Its cells leave the ground in the same step, so nothing is made or lost. The leaves are
/// booked as dug.
pub(crate) fn fell(tree: Tree, ground: &mut Ground, commands: &mut Commands, books: &mut Books) {
    let ([left, bottom], [right, top]) = tree.bounds();
    let places = (bottom..=top).flat_map(|y| (left..=right).map(move |x| [x, y]));
    let Some(found) = places.map(|place| Some((place, ground.cell(place)?))).collect::<Option<Vec<_>>>()
    else {
        return; // a part of it is not loaded
    };
    let is_of_tree = |material| [WOOD, LEAVES].contains(&material);
    let found: Vec<_> =
        found.into_iter().filter(|(_, cell)| is_of_tree(cell.material) && !cell.is_drawn).collect();
    found.iter().for_each(|(place, _)| ground.set(*place, AIR));
    let (trunk, leaves): (Vec<_>, Vec<_>) = found.into_iter().partition(|(_, cell)| cell.material == WOOD);
    books.dug[usize::from(LEAVES)] += leaves.len() as u64;
    if trunk.is_empty() {
        return;
    }
    let height = tree.height.cast_unsigned();
    let mut body = PixelBody::new([2, height], vec![WOOD; 2 * height as usize]);
    for (x, y) in (0..height).flat_map(|y| (0..2).map(move |x| (x, y))) {
        let place = [tree.x + x as i32, tree.y + y as i32];
        if trunk.iter().all(|(of_trunk, _)| *of_trunk != place) {
            body.remove_cell(x, y);
        }
    }
    // It tips over.
    body.set_velocity([0.0; 2], if tree.height % 2 == 0 { 3.0 } else { -3.0 });
    let [x, y] = [tree.x + 1, tree.y + tree.height / 2];
    commands.spawn((body, Streamed, Transform::from_xyz(x as f32, y as f32, 0.0)));
}

/// The cells of the world that a body covers at a place.
fn covered(body: &Body) -> BTreeSet<[i32; 2]> {
    let reach = (body.width.max(body.height) as f32 * 0.75) as i32 + 1;
    let [x, y] = body.position.map(|along| along.floor() as i32);
    let cells = (y - reach..=y + reach).flat_map(|y| (x - reach..=x + reach).map(move |x| [x, y]));
    cells.filter(|cell| body.cell_at(cell.map(|along| f64::from(along) + 0.5)).is_some()).collect()
}

/// Moves bodies: they fall, roll downhill, and tip over. A body that rests is not touched, so nothing saves it again.
pub(crate) fn physics(mut bodies: Query<(&mut PixelBody, &mut Transform)>, ground: Ground) {
    let mut bodies: Vec<_> = bodies.iter_mut().filter(|(body, _)| body.id().is_some()).collect();
    bodies.sort_unstable_by_key(|(body, _)| body.id);
    let mut claimed = BTreeSet::new();
    for (mut body, mut place) in bodies {
        let here = covered(&body);
        let is_own = |at: &[i32; 2]| here.contains(at) && ground.cell(*at).is_some_and(|cell| cell.is_drawn);
        let fits = |by: [i32; 2], turn: f32| {
            let cells: BTreeSet<[i32; 2]> = match turn == 0.0 {
                true => here.iter().map(|[x, y]| [x + by[0], y + by[1]]).collect(),
                false => covered(&moved(&body, by, turn)),
            };
            // The edge of what is loaded is solid.
            let is_free = |at: &[i32; 2]| !claimed.contains(at) && (ground.is_free(*at) || is_own(at));
            cells.iter().all(is_free).then_some(cells)
        };
        let Step { by, turn, velocity, spin } = Step::of(&body, |by, turn| fits(by, turn).is_some());
        if (by, turn) != ([0, 0], 0.0) {
            let there = fits(by, turn).unwrap_or_default();
            claimed.extend(there);
            place.translation.x += by[0] as f32;
            place.translation.y += by[1] as f32;
            place.rotate_z(turn);
        }
        if (body.linear_velocity, body.angular_velocity) != (velocity, spin) {
            body.set_velocity(velocity, spin);
        }
    }
}

fn moved(body: &Body, [dx, dy]: [i32; 2], turn: f32) -> Body {
    let [x, y] = body.position;
    Body { position: [x + dx as f32, y + dy as f32], rotation: body.rotation + turn, ..body.clone() }
}

/// Boulders are, until they break.
pub(crate) fn is_round(body: &Body) -> bool {
    body.width == body.height && !body.solid(0, 0)
}

/// The next step of a body, and its velocities after it.
#[derive(Default)]
struct Step {
    by: [i32; 2],
    turn: f32,
    velocity: [f32; 2],
    spin: f32,
}

impl Step {
    fn of(body: &Body, fits: impl Fn([i32; 2], f32) -> bool) -> Self {
        let ([speed, fall], spin) = (body.linear_velocity, body.angular_velocity);
        if fits([0, -1], 0.0) {
            let down = if fall < 0.0 && fits([0, -2], 0.0) { -2 } else { -1 };
            return Self { by: [0, down], turn: 0.0, velocity: [speed, down as f32 * STEPS], spin };
        }
        let is_round = is_round(body);
        if !is_round && spin != 0.0 && body.rotation.abs() < 1.5 {
            // It tips over: its middle moves with its upper end.
            let (turn, side) = (spin / STEPS, if spin < 0.0 { 1 } else { -1 });
            let tips = [[0, 0], [side, 0], [side, -1], [0, 1], [side, 1], [-side, 0]];
            if let Some(by) = tips.into_iter().find(|by| fits(*by, turn)) {
                return Self { by, turn, velocity: [0.0; 2], spin };
            }
        }
        let side = match speed == 0.0 {
            true if body.id.0.is_multiple_of(2) => 1,
            true => -1,
            false => speed.signum() as i32,
        };
        let turn_to = |side: i32| if is_round { -2.0 * side as f32 / body.width as f32 } else { 0.0 };
        if let Some(side) = [side, -side].into_iter().find(|side| fits([*side, -1], turn_to(*side))) {
            let turn = turn_to(side);
            let velocity = [side as f32 * STEPS, -STEPS];
            return Self { by: [side, -1], turn, velocity, spin: turn * STEPS };
        }
        if is_round && speed.abs() > 6.0 {
            // It rolls on, also over a bump, and slows down.
            let turn = turn_to(side);
            if let Some(by) = [[side, 0], [side, 1]].into_iter().find(|by| fits(*by, turn)) {
                return Self { by, turn, velocity: [speed * 0.9, 0.0], spin: turn * STEPS };
            }
        }
        Self::default()
    }
}

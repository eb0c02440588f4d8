//! What the player does: walk there and back, dig, shoot, fell trees, and save now and then.

use std::io::Write;

use bevy_bonfire::chunks::{ChunkFocus, Chunks, PixelBody, Reach};
use bevy_bonfire::prelude::*;
use bevy_ecs::prelude::*;
use bevy_transform::components::Transform;

use super::bodies::{fell, is_round};
use super::books::Books;
use super::creatures::Firefly;
use super::terrain::{AIR, Ground, KEPT, Tree, ground as ground_of, hash};

/// The player is saved with the rest of the game. One that comes with a load is a focus again.
#[derive(Component, Persist)]
#[require(Saved, ChunkFocus = ChunkFocus::new(Reach { x: 2, y: 1, z: 0 }).unload_reach(Reach { x: 3, y: 2, z: 0 }))]
#[persist(key = "game.player")]
pub(crate) struct Player;

/// The column where the player begins.
pub(crate) const BEGIN: i32 = 20;

/// What the script is asked for.
#[derive(Resource, Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The simulation stops after this step.
    pub(crate) until: u64,
    /// Steps from one end of the walk to the other.
    pub(crate) way: u64,
    /// Cells in each step.
    pub(crate) speed: f32,
    /// Steps between two saves.
    pub(crate) save_every: u64,
}

/// The step of the save that is on its way.
#[derive(Resource, Default)]
pub(crate) struct Saving(Option<u64>);

/// A step is made when everything near is there. So the same seed gives the same world on every machine.
pub(crate) fn may_step(chunks: Res<Chunks>, books: Res<Books>, plan: Res<Plan>) -> bool {
    chunks.is_settled() && books.step < plan.until
}

pub(crate) fn walk(
    mut players: Query<&mut Transform, With<Player>>,
    mut books: ResMut<Books>,
    plan: Res<Plan>,
) {
    books.step += 1;
    let along = books.step % (2 * plan.way);
    let x = BEGIN + (along.min(2 * plan.way - along) as f32 * plan.speed) as i32;
    for mut place in &mut players {
        *place = Transform::from_xyz(x as f32, (ground_of(books.seed, x) + 2) as f32, 0.0);
    }
}

/// Digs a round hole before the player. Sand and wood stay. Creatures in it die.
pub(crate) fn dig(
    mut ground: Ground,
    players: Query<&Transform, With<Player>>,
    fireflies: Query<(Entity, &Firefly, &Transform)>,
    mut books: ResMut<Books>,
    mut commands: Commands,
) {
    if !books.step.is_multiple_of(5) {
        return;
    }
    let Ok(player) = players.single() else { return };
    // Some holes are in the air, where bodies and creatures are.
    let number = hash(books.seed ^ 21, [books.step as i32, 0]);
    let x = player.translation.x as i32 - 8 + (number % 28) as i32;
    let y = ground_of(books.seed, x) + 2 - (number >> 8) as i32 % 12;
    let radius = 4 + (number >> 16) as i32 % 3;
    let is_near = |at: [i32; 2]| (at[0] - x).pow(2) + (at[1] - y).pow(2) <= radius * radius;
    for at in (y - radius..=y + radius).flat_map(|y| (x - radius..=x + radius).map(move |x| [x, y])) {
        let Some(cell) = ground.cell(at).filter(|cell| is_near(at) && cell.material != AIR) else { continue };
        if KEPT.contains(&cell.material) {
            continue;
        }
        // What a body has drawn here is not of the ground. The plugin tells what the body has lost.
        if !cell.is_drawn {
            books.dug[usize::from(cell.material)] += 1;
        }
        ground.set(at, AIR);
    }
    for (entity, firefly, place) in &fireflies {
        if is_near([place.translation.x as i32, place.translation.y as i32]) {
            books.died.insert(firefly.number);
            commands.entity(entity).despawn();
        }
    }
}

/// Shoots through the middle of the nearest body, so that it breaks. Felled trees are spared.
pub(crate) fn shoot(
    players: Query<&Transform, With<Player>>,
    mut bodies: Query<(&mut PixelBody, &Transform)>,
    mut books: ResMut<Books>,
) {
    if books.step % 16 != 3 {
        return;
    }
    let Ok(player) = players.single() else { return };
    let is_target = |body: &PixelBody| body.cells.iter().all(|material| !KEPT.contains(material));
    let distance = |place: &Transform| (place.translation - player.translation).length_squared();
    let targets = bodies.iter_mut().filter(|(body, _)| is_target(body));
    let nearest = targets.min_by(|(_, one), (_, other)| distance(one).total_cmp(&distance(other)));
    let Some((mut body, _)) = nearest else { return };
    for y in 0..body.height {
        let x = body.width / 2;
        let material = body.cells[(y * body.width + x) as usize];
        if body.remove_cell(x, y) {
            books.destroyed[usize::from(material)] += 1;
        }
    }
}

/// Kicks the nearest boulder, which rolls away, perhaps into another chunk.
pub(crate) fn kick(
    players: Query<&Transform, With<Player>>,
    mut bodies: Query<(&mut PixelBody, &Transform)>,
    books: Res<Books>,
) {
    if books.step % 6 != 1 {
        return;
    }
    let Ok(player) = players.single() else { return };
    let distance = |place: &Transform| (place.translation - player.translation).length_squared();
    let boulders = bodies.iter_mut().filter(|(body, _)| is_round(body));
    let nearest = boulders.min_by(|(_, one), (_, other)| distance(one).total_cmp(&distance(other)));
    if let Some((mut body, place)) = nearest {
        let speed = if place.translation.x < player.translation.x { -60.0 } else { 60.0 };
        body.set_velocity([speed, 0.0], 0.0);
    }
}

/// Fells the tree before the player.
pub(crate) fn fell_trees(
    mut ground: Ground,
    players: Query<&Transform, With<Player>>,
    mut books: ResMut<Books>,
    mut commands: Commands,
) {
    let Ok(player) = players.single() else { return };
    if books.step % 4 == 2
        && let Some(tree) = Tree::of(books.seed, Tree::strip(player.translation.x as i32 + 8))
    {
        fell(tree, &mut ground, &mut commands, &mut books);
    }
}

/// The firefly nearest to the player has a child, who is its friend.
pub(crate) fn multiply(
    players: Query<&Transform, With<Player>>,
    fireflies: Query<(Entity, &Firefly, &Transform)>,
    mut books: ResMut<Books>,
    mut commands: Commands,
) {
    if !books.step.is_multiple_of(12) {
        return;
    }
    let Ok(player) = players.single() else { return };
    let distance = |place: &Transform| (place.translation - player.translation).length_squared();
    let nearest = fireflies.iter().min_by(|(.., one), (.., other)| distance(one).total_cmp(&distance(other)));
    let Some((entity, parent, place)) = nearest else { return };
    let number = hash(books.seed ^ 31, [books.step as i32, 1]);
    books.born.insert(number);
    let child = Firefly { number, friend: Some(entity), friend_number: parent.number };
    commands.spawn((child, *place));
}

/// Saves now and then, one save at a time. The game goes on meanwhile.
pub(crate) fn save(mut commands: Commands, mut saving: ResMut<Saving>, books: Res<Books>, plan: Res<Plan>) {
    if saving.0.is_none() && books.step.is_multiple_of(plan.save_every) {
        saving.0 = Some(books.step);
        say(format_args!("saving {}", books.step));
        commands.save("quick");
    }
}

/// Tells the player of a save when it is durable, and not before.
pub(crate) fn acknowledge(saved: On<SaveFinished>, mut saving: ResMut<Saving>) {
    match (&saved.result, saving.0.take()) {
        (Ok(_), Some(step)) => say(format_args!("saved {step}")),
        (Err(error), _) => say(format_args!("the save has failed: {error}")),
        _ => {}
    }
}

/// Prints a line at once, so that a reader has it before the game is killed.
pub(crate) fn say(line: std::fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("standard output is open");
}

//! Fireflies: creatures that wander over the borders of chunks. Some have a friend, who may be in a chunk that is not loaded.

use bevy_bonfire::chunks::{PopulateChunk, Streamed};
use bevy_bonfire::prelude::*;
use bevy_ecs::prelude::*;
use bevy_transform::components::Transform;

use super::books::Books;
use super::terrain::{SIZE, ground, hash};

/// Every firefly belongs to the chunk that it is in. Friends in other chunks refer to it, so it has a `StableId`.
#[derive(Component, Persist, Clone, Debug)]
#[require(Streamed, StableId)]
#[persist(key = "game.firefly")]
pub(crate) struct Firefly {
    pub(crate) number: u64,
    /// Leads to the friend, or to its stand-in while its chunk is away.
    pub(crate) friend: Option<Entity>,
    /// The number of the friend, to prove it.
    pub(crate) friend_number: u64,
}

/// Generates two fireflies over the ground of a chunk, each the friend of the other one.
pub(crate) fn populate(chunk: On<PopulateChunk>, mut commands: Commands, mut books: ResMut<Books>) {
    let [left, bottom] = [chunk.pos.x, chunk.pos.y].map(|along| along * SIZE as i32);
    let x = left + 8 + (hash(chunk.seed ^ 9, [chunk.pos.x, 0]) % 16) as i32;
    let y = ground(chunk.seed, x) + 6;
    if !(bottom..bottom + SIZE as i32).contains(&y) {
        return;
    }
    let numbers = [0, 1].map(|twin| hash(chunk.seed ^ 11, [chunk.pos.x, chunk.pos.y]) << 1 | twin);
    let [one, other] = [(); 2].map(|()| commands.spawn_empty().id());
    for (number, entity, friend, at) in [(0, one, other, x - 3), (1, other, one, x + 3)] {
        let firefly =
            Firefly { number: numbers[number], friend: Some(friend), friend_number: numbers[1 - number] };
        books.born.insert(firefly.number);
        commands.entity(entity).insert((firefly, Transform::from_xyz(at as f32, y as f32, 0.0)));
    }
}

/// Lets all fireflies wander, each in its own way.
pub(crate) fn wander(mut fireflies: Query<(&Firefly, &mut Transform)>, books: Res<Books>) {
    for (firefly, mut place) in &mut fireflies {
        // A new direction every 20 steps.
        let way = hash(firefly.number, [(books.step / 20) as i32, 3]);
        let [dx, dy] = [way % 7, way / 7 % 7].map(|part| part as f32 / 6.0 - 0.5);
        let over_ground = place.translation.y - ground(books.seed, place.translation.x as i32) as f32;
        place.translation.x += dx;
        // They stay between the ground and the sky.
        place.translation.y += match over_ground {
            ..4.0 => 0.4,
            20.0.. => -0.4,
            _ => dy * 0.5,
        };
    }
}

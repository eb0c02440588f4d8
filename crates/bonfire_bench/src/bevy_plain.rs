//! The plain set in Bevy worlds.

use bevy_app::App;
use bevy_bonfire::{BonfirePlugin, PersistExt, SaveScope};
use bevy_ecs::query::With;
use bevy_ecs::world::World;

use crate::bevy_tags;
use crate::plain::{Circle, Color, M1, M2, Transform};
use crate::rpg::zipf;

/// An app that saves what has a registered component, so that entities need no mark.
pub(crate) fn app() -> App {
    let mut app = App::empty();
    app.add_plugins(BonfirePlugin::default().scope(SaveScope::Persisted));
    app
}

/// An app with this plugin that knows the set, and saves what has a component of it.
pub(crate) fn app_with(plugin: BonfirePlugin) -> App {
    let mut app = App::new();
    app.add_plugins(plugin.scope(SaveScope::Persisted));
    app.persist::<Transform>().persist::<Circle>().persist::<Color>().persist::<M1>().persist::<M2>();
    app
}

/// A world without entities that knows the set, and the tags.
pub(crate) fn empty() -> World {
    let mut app = app();
    app.persist::<Transform>().persist::<Circle>().persist::<Color>().persist::<M1>().persist::<M2>();
    bevy_tags::persist(&mut app);
    std::mem::take(app.world_mut())
}

/// The set, spawned as a game does: archetypes in turns.
pub(crate) fn filled(entities: usize) -> World {
    let mut world = empty();
    fill(&mut world, entities);
    world
}

pub(crate) fn fill(world: &mut World, entities: usize) {
    for i in 0..entities as u32 {
        let row = (Transform::number(i), Circle::number(i), Color::number(i));
        match i % 4 {
            0 => world.spawn(row),
            1 => world.spawn((row, M1)),
            2 => world.spawn((row, M2)),
            _ => world.spawn((row, M1, M2)),
        };
    }
}

/// The set's three components in 300 archetypes whose sizes follow Zipf's law.
pub(crate) fn filled_zipf(entities: usize) -> World {
    let mut world = empty();
    for (i, tags) in bevy_tags::shuffled(&zipf(entities)).into_iter().enumerate() {
        let i = i as u32;
        let mut entity = world.spawn((Transform::number(i), Circle::number(i), Color::number(i)));
        bevy_tags::insert(&mut entity, tags);
    }
    world
}

/// A row, as a tuple that Bevy knows as a bundle.
type Row = (Transform, Circle, Color);

/// The fastest that Bevy itself can do: the set as typed rows, one batch per archetype.
pub(crate) struct Typed {
    archetypes: [Vec<Row>; 4],
}

impl Typed {
    pub(crate) fn new(entities: usize) -> Self {
        let row = |i| (Transform::number(i), Circle::number(i), Color::number(i));
        let numbers = |tags| (0..entities as u32).filter(move |i| i % 4 == tags);
        Self { archetypes: [0, 1, 2, 3].map(|tags| numbers(tags).map(row).collect()) }
    }

    /// A world that knows the components, so that registering them takes none of the time.
    pub(crate) fn world() -> World {
        let mut world = World::new();
        world.register_component::<Transform>();
        world.register_component::<Circle>();
        world.register_component::<Color>();
        world.register_component::<M1>();
        world.register_component::<M2>();
        world
    }

    pub(crate) fn spawn(&self, world: &mut World) {
        let [none, m1, m2, both] = &self.archetypes;
        world.spawn_batch(none.iter().copied());
        world.spawn_batch(m1.iter().map(|&row| (row, M1)));
        world.spawn_batch(m2.iter().map(|&row| (row, M2)));
        world.spawn_batch(both.iter().map(|&row| (row, M1, M2)));
    }
}

/// Panics unless a world has the whole set, tags included if it has those.
pub(crate) fn check(world: &mut World, entities: usize, tagged: bool) {
    let mut numbers = vec![false; entities];
    for (transform, circle, color) in world.query::<(&Transform, &Circle, &Color)>().iter(world) {
        let i = color.r as u32;
        let expected = (Transform::number(i), Circle::number(i), Color::number(i));
        assert!((*transform, *circle, *color) == expected, "row {i} has its values");
        assert!(!std::mem::replace(&mut numbers[i as usize], true), "row {i} is there once");
    }
    assert!(numbers.iter().all(|&there| there), "all rows are there");
    if tagged {
        let tagged = |color: &&Color, bit: u32| color.r as u32 & bit == bit;
        let m1 =
            world.query_filtered::<&Color, With<M1>>().iter(world).filter(|color| tagged(color, 1)).count();
        let m2 =
            world.query_filtered::<&Color, With<M2>>().iter(world).filter(|color| tagged(color, 2)).count();
        assert_eq!((m1, m2), (entities / 2, entities / 2), "the tags are on the right rows");
    }
}

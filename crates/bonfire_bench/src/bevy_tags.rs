//! Nine components without data. Their combinations make as many archetypes as a game has.

use bevy_app::App;
use bevy_bonfire::PersistExt;
use bevy_ecs::component::Component;
use bevy_ecs::world::EntityWorldMut;
use bonfire::Persist;

use crate::rpg::Random;

macro_rules! tags {
    ($($bit:literal $tag:ident $key:literal,)*) => {
        $(
            #[derive(Component, Clone, Copy, Persist)]
            #[persist(key = $key)]
            pub(crate) struct $tag;
        )*

        pub(crate) fn persist(app: &mut App) {
            $(app.persist::<$tag>();)*
        }

        /// Gives an entity the tags whose bits are set.
        pub(crate) fn insert(entity: &mut EntityWorldMut<'_>, bits: usize) {
            $(if bits >> $bit & 1 == 1 { entity.insert($tag); })*
        }
    };
}

tags!(
    0 T0 "tag.t0",
    1 T1 "tag.t1",
    2 T2 "tag.t2",
    3 T3 "tag.t3",
    4 T4 "tag.t4",
    5 T5 "tag.t5",
    6 T6 "tag.t6",
    7 T7 "tag.t7",
    8 T8 "tag.t8",
);

/// Calls a macro with all tags.
macro_rules! all_tags {
    ($then:ident) => {
        $then!(T0, T1, T2, T3, T4, T5, T6, T7, T8)
    };
}
pub(crate) use all_tags;

/// Numbers of archetypes, one per entity, in the order in which a game would spawn them: mixed.
pub(crate) fn shuffled(counts: &[usize]) -> Vec<usize> {
    let mut random = Random(7);
    let mut numbers: Vec<usize> =
        counts.iter().enumerate().flat_map(|(number, &count)| std::iter::repeat_n(number, count)).collect();
    for i in (1..numbers.len()).rev() {
        numbers.swap(i, random.below(i as u64 + 1) as usize);
    }
    numbers
}

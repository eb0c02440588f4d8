//! The rpg set in Bevy worlds: text, lists, options, enums, hierarchy and sparse sets, in 300 archetypes whose sizes
//! follow Zipf's law, and the code that one would write by hand to save it with serde and postcard.

use bevy_bonfire::PersistExt;
use bevy_ecs::component::Component;
use bevy_ecs::entity::Entity;
use bevy_ecs::hierarchy::{ChildOf, Children};
use bevy_ecs::query::{QueryState, With};
use bevy_ecs::world::World;
use bonfire::Persist;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::bevy_plain::app;
use crate::bevy_tags::{self, T0, T1, T2, T3, T4, T5, T6, T7, T8, all_tags};
use crate::rpg::{Inventory, Mind, Name, Quest, Random, Stats, zipf};

/// What all entities of the set have: by this, code that is written by hand finds them.
#[derive(Component, Clone, Copy, Persist)]
#[persist(key = "rpg.actor")]
pub(crate) struct Actor;

#[derive(Clone, Copy, Persist, Serialize, Deserialize)]
enum Harm {
    Fire,
    Poison,
}

/// Comes and goes, so it lies in a sparse set.
#[derive(Component, Clone, Copy, Persist, Serialize, Deserialize)]
#[component(storage = "SparseSet")]
#[persist(key = "rpg.effect")]
pub(crate) struct Effect {
    harm: Harm,
    seconds: f32,
}

/// A world without entities that knows the set.
pub(crate) fn empty() -> World {
    let mut app = app();
    app.persist::<Actor>().persist::<Name>().persist::<Stats>().persist::<Inventory>();
    app.persist::<Mind>().persist::<Quest>().persist::<Effect>();
    bevy_tags::persist(&mut app);
    std::mem::take(app.world_mut())
}

/// Spawned as a game does, archetypes mixed. Children have their parents among the four largest archetypes, and some
/// have another child as their parent.
pub(crate) fn filled(entities: usize) -> World {
    let mut world = empty();
    let mut random = Random(1);
    let (mut parents, mut children) = (Vec::new(), Vec::new());
    for number in bevy_tags::shuffled(&zipf(entities)) {
        let mut entity = world.spawn(Actor);
        // Every fifth archetype is the one before it with an effect, in the same table.
        let set = if number % 5 == 4 { number - 1 } else { number };
        bevy_tags::insert(&mut entity, set);
        let has = |bit: usize| (set % 62 + 1) >> bit & 1 == 1;
        if has(0) {
            entity.insert(Name::random(&mut random));
        }
        if has(1) {
            entity.insert(Stats::random(&mut random));
        }
        if has(2) {
            entity.insert(Inventory::random(&mut random));
        }
        if has(3) {
            entity.insert(Mind::random(&mut random));
        }
        if has(4) {
            entity.insert(Quest::random(&mut random));
        }
        if number % 5 == 4 {
            let harm = if random.below(2) == 0 { Harm::Fire } else { Harm::Poison };
            entity.insert(Effect { harm, seconds: random.below(60) as f32 });
        }
        if has(5) {
            children.push((entity.id(), number));
        } else if number < 4 && random.below(4) == 0 {
            parents.push(entity.id());
        }
    }
    let roots = parents.len() as u64;
    for (child, number) in children {
        // Only children of one archetype have children, so that the others stay whole.
        let candidates = if number == 31 { roots } else { parents.len() as u64 };
        let parent = parents[random.below(candidates) as usize];
        world.entity_mut(child).insert(ChildOf(parent));
        if number == 31 {
            parents.push(child);
        }
    }
    world
}

/// Numbers that two worlds share if they have the same content, whatever their entities are called.
pub(crate) fn digest(world: &mut World) -> Vec<usize> {
    let mut digest = vec![world.query::<&Actor>().iter(world).count()];
    macro_rules! count {
        ($($tag:ident),*) => {
            $(digest.push(world.query_filtered::<(), With<$tag>>().iter(world).count());)*
        };
    }
    all_tags!(count);
    count!(Name, Stats, Inventory, Mind, Quest, Effect, ChildOf, Children);
    digest.push(world.query::<&Name>().iter(world).map(|name| name.0.len()).sum());
    digest.push(world.query::<&Stats>().iter(world).map(|stats| usize::from(stats.level)).sum());
    digest.push(world.query::<&Inventory>().iter(world).map(|bag| bag.gold as usize * bag.items.len()).sum());
    digest.push(world.query::<&Quest>().iter(world).map(|quest| quest.notes.len()).sum());
    digest.push(world.query::<&Effect>().iter(world).map(|effect| effect.seconds as usize).sum());
    digest.push(world.query::<&Children>().iter(world).map(|children| children.len()).sum());
    // What children have to do with their parents.
    let mut children = world.query::<(&ChildOf, &Stats)>();
    let family = children.iter(world).map(|(parent, stats)| {
        let name = world.get::<Name>(parent.parent()).map_or(0, |name| name.0.len());
        let level = world.get::<Stats>(parent.parent()).map_or(0, |stats| usize::from(stats.level));
        (name + level) * usize::from(stats.level)
    });
    digest.push(family.sum());
    digest
}

/// Saving and loading as one writes it by hand: a list of ids and a list of values per component.
pub(crate) struct ByHand {
    actors: QueryState<Entity, With<Actor>>,
    names: QueryState<(Entity, &'static Name)>,
    stats: QueryState<(Entity, &'static Stats)>,
    inventories: QueryState<(Entity, &'static Inventory)>,
    minds: QueryState<(Entity, &'static Mind)>,
    quests: QueryState<(Entity, &'static Quest)>,
    effects: QueryState<(Entity, &'static Effect)>,
    parents: QueryState<(Entity, &'static ChildOf)>,
    tags: [QueryState<Entity>; 9],
}

impl ByHand {
    pub(crate) fn new(world: &mut World) -> Self {
        macro_rules! tags {
            ($($tag:ident),*) => { [$(world.query_filtered::<Entity, With<$tag>>().transmute(&*world)),*] };
        }
        Self {
            tags: all_tags!(tags),
            actors: world.query_filtered(),
            names: world.query(),
            stats: world.query(),
            inventories: world.query(),
            minds: world.query(),
            quests: world.query(),
            effects: world.query(),
            parents: world.query(),
        }
    }

    /// Appends to `out`, which is empty and warm.
    pub(crate) fn save(&mut self, world: &World, out: Vec<u8>) -> Vec<u8> {
        let mut out = put(&self.actors.iter(world).map(Entity::index_u32).collect::<Vec<_>>(), out);
        for tag in &mut self.tags {
            out = put(&tag.iter(world).map(Entity::index_u32).collect::<Vec<_>>(), out);
        }
        out = put_column(&mut self.names, world, out);
        out = put_column(&mut self.stats, world, out);
        out = put_column(&mut self.inventories, world, out);
        out = put_column(&mut self.minds, world, out);
        out = put_column(&mut self.quests, world, out);
        out = put_column(&mut self.effects, world, out);
        let parents =
            self.parents.iter(world).map(|(child, parent)| (child.index_u32(), parent.0.index_u32()));
        out = put(&parents.collect::<Vec<_>>(), out);
        out
    }

    pub(crate) fn load(world: &mut World, mut bytes: &[u8]) {
        let saved: Vec<u32> = take(&mut bytes);
        let slots = saved.iter().max().map_or(0, |&last| last as usize + 1);
        let mut map = vec![Entity::PLACEHOLDER; slots];
        let spawned = world.spawn_batch(vec![Actor; saved.len()]);
        saved.iter().zip(spawned).for_each(|(&saved, entity)| map[saved as usize] = entity);
        // An insertion moves what an entity has already, so the tags come first.
        let new = |id: u32| map[id as usize];
        macro_rules! insert_tags {
            ($($tag:ident),*) => {$(
                let tagged: Vec<u32> = take(&mut bytes);
                world.insert_batch(tagged.into_iter().map(|id| (new(id), $tag)));
            )*};
        }
        all_tags!(insert_tags);
        insert_column::<Name>(world, &map, &mut bytes);
        insert_column::<Stats>(world, &map, &mut bytes);
        insert_column::<Inventory>(world, &map, &mut bytes);
        insert_column::<Mind>(world, &map, &mut bytes);
        insert_column::<Quest>(world, &map, &mut bytes);
        insert_column::<Effect>(world, &map, &mut bytes);
        let parents: Vec<(u32, u32)> = take(&mut bytes);
        world.insert_batch(parents.into_iter().map(|(child, parent)| (new(child), ChildOf(new(parent)))));
        world.flush();
        assert!(bytes.is_empty());
    }
}

fn put(value: &impl Serialize, out: Vec<u8>) -> Vec<u8> {
    postcard::to_extend(value, out).expect("it serializes")
}

fn put_column<T: Component + Serialize>(
    query: &mut QueryState<(Entity, &'static T)>,
    world: &World,
    out: Vec<u8>,
) -> Vec<u8> {
    let (ids, values): (Vec<u32>, Vec<&T>) =
        query.iter(world).map(|(entity, value)| (entity.index_u32(), value)).unzip();
    put(&(ids, values), out)
}

fn take<T: DeserializeOwned>(bytes: &mut &[u8]) -> T {
    let (value, rest) = postcard::take_from_bytes(bytes).expect("it was just written");
    *bytes = rest;
    value
}

fn insert_column<T: Component + DeserializeOwned>(world: &mut World, map: &[Entity], bytes: &mut &[u8]) {
    let (ids, values): (Vec<u32>, Vec<T>) = take(bytes);
    world.insert_batch(ids.into_iter().map(|id| map[id as usize]).zip(values));
}

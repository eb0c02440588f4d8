//! Whether two worlds are the same, asked of Bevy alone: Bonfire compares nothing here.
//!
//! Each entity is described under its name, with everything it has; entities that it knows are in the description by
//! their names. Two worlds are the same if they have the same descriptions, whatever ids their entities have.

use std::collections::BTreeMap;

use bevy_ecs::entity::EntityHashMap;
use bevy_ecs::prelude::*;
use bevy_ecs::resource::IsResource;
use bevy_transform::components::Transform;

use super::battle::{Aim, Banner, Battle, Fighter, Pack, Velocity};

/// How many differences are named.
const NAMED_MAX: usize = 5;

/// Everything in a world, by the names of its entities.
pub(super) struct Description(BTreeMap<String, String>);

impl Description {
    /// Describes every entity of a world, whether it is part of the save or not.
    pub(super) fn of(world: &mut World) -> Self {
        let mut names: EntityHashMap<String> = EntityHashMap::default();
        let mut all = world.query_filtered::<EntityRef, Without<IsResource>>();
        for entity in all.iter(world) {
            let name = match entity.get::<Name>() {
                Some(name) => name.as_str().to_owned(),
                None => format!("without a name: {}", entity.id()),
            };
            names.insert(entity.id(), name);
        }
        let name = |entity: Entity| names.get(&entity).map_or("nobody", String::as_str);
        let mut described = BTreeMap::new();
        for entity in all.iter(world) {
            let text = describe(entity, &name);
            if let Some(other) = described.insert(name(entity.id()).to_owned(), text) {
                // Two of a name cannot be told apart, so the second counts as one more.
                described.insert(format!("{}, once more", name(entity.id())), other);
            }
        }
        if let Some(Battle { turn, weather, hero }) = world.get_resource::<Battle>() {
            let text = format!("turn {turn}, {weather}, hero: {:?}", hero.map(name));
            described.insert("the battle itself".to_owned(), text);
        }
        Self(described)
    }

    /// What is different in another world: how many entities, and the first of them.
    pub(super) fn differences(&self, other: &Self) -> Differences {
        let mut differences = Differences::default();
        let mut add = |text: String| {
            differences.count += 1;
            if differences.first.len() < NAMED_MAX {
                differences.first.push(text);
            }
        };
        for (name, saved) in &self.0 {
            match other.0.get(name) {
                None => add(format!("{name}: is gone")),
                Some(loaded) if loaded != saved => add(format!("{name}: was {saved}; is {loaded}")),
                Some(_) => {}
            }
        }
        for name in other.0.keys().filter(|name| !self.0.contains_key(*name)) {
            add(format!("{name}: was not there"));
        }
        differences
    }
}

/// What is not as it was.
#[derive(Default)]
pub(super) struct Differences {
    pub(super) count: usize,
    pub(super) first: Vec<String>,
}

/// Numbers are written so that no two have the same text.
fn describe<'n>(entity: EntityRef<'_>, name: &impl Fn(Entity) -> &'n str) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    // Writing to text does not fail.
    let mut part = |arguments: std::fmt::Arguments<'_>| {
        let _ = write!(text, "{arguments}; ");
    };
    let mut components: Vec<usize> = entity.archetype().components().iter().map(|id| id.index()).collect();
    components.sort_unstable();
    part(format_args!("components {components:?}"));
    if let Some(fighter) = entity.get::<Fighter>() {
        part(format_args!("{fighter:?}"));
    }
    if let Some(velocity) = entity.get::<Velocity>() {
        part(format_args!("{velocity:?}"));
    }
    if let Some(transform) = entity.get::<Transform>() {
        part(format_args!("{transform:?}"));
    }
    if let Some(Aim { at, since }) = entity.get::<Aim>() {
        part(format_args!("aims at {:?} since {since}", name(*at)));
    }
    if let Some(Banner { motto, rival }) = entity.get::<Banner>() {
        part(format_args!("{motto:?}, rival {:?}", rival.map(name)));
    }
    if let Some(pack) = entity.get::<Pack>() {
        part(format_args!("{pack:?}"));
    }
    if let Some(ChildOf(parent)) = entity.get::<ChildOf>() {
        part(format_args!("child of {:?}", name(*parent)));
    }
    if let Some(children) = entity.get::<Children>() {
        let names: Vec<&str> = children.iter().map(name).collect();
        part(format_args!("children {names:?}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::battle;
    use super::*;

    /// How many entities differ, and the first, after a change to a battle.
    fn after(change: impl FnOnce(&mut World)) -> (usize, String) {
        let mut app = battle::app(200);
        let world = app.world_mut();
        let before = Description::of(world);
        change(world);
        let differences = before.differences(&Description::of(world));
        (differences.count, differences.first.first().cloned().unwrap_or_default())
    }

    fn named(world: &mut World, name: &str) -> Entity {
        let mut all = world.query::<(Entity, &Name)>();
        all.iter(world).find(|(_, known)| known.as_str() == name).expect("it is there").0
    }

    #[test]
    fn a_world_is_the_same_as_itself() {
        assert_eq!(after(|_| ()), (0, String::new()));
    }

    #[test]
    fn a_wrecked_world_is_different_everywhere() {
        let mut app = battle::app(200);
        let before = Description::of(app.world_mut());
        let wreck = battle::wreck(app.world_mut());
        assert_eq!((wreck.despawned + wreck.changed, wreck.strangers), (200, 3));
        let differences = before.differences(&Description::of(app.world_mut()));
        // Nobody has kept a name: all are gone, the ghosts are new, and the battle is another.
        assert_eq!(differences.count, 200 + wreck.changed + wreck.strangers + 1);
        assert_eq!(differences.first.len(), NAMED_MAX);
    }

    #[test]
    fn one_wrong_reference_is_found() {
        let (count, first) = after(|world| {
            let (soldier, other) = (named(world, "Birch 1, soldier 2"), named(world, "Cedar 2, soldier 7"));
            world.get_mut::<Aim>(soldier).expect("soldiers aim").at = other;
        });
        assert_eq!(count, 1);
        assert!(first.starts_with("Birch 1, soldier 2: was ") && first.contains("\"Cedar 2, soldier 7\""));
    }

    #[test]
    fn the_order_of_siblings_counts() {
        let (count, first) = after(|world| {
            let leader = named(world, "Birch 1");
            world.get_mut::<Children>(leader).expect("leaders have soldiers").swap(2, 3);
        });
        assert_eq!((count, first.starts_with("Birch 1: was ")), (1, true));
    }

    #[test]
    fn the_last_bit_of_a_number_counts() {
        let (count, _) = after(|world| {
            let leader = named(world, "Birch 1");
            let mut transform = world.get_mut::<Transform>(leader).expect("all have one");
            transform.translation.x = transform.translation.x.next_up();
        });
        assert_eq!(count, 1);
    }

    #[test]
    fn namesakes_and_the_nameless_are_found() {
        let namesake = |world: &mut World| {
            world.spawn(Name::new("Birch 1"));
        };
        assert_eq!(after(namesake).0, 2);
        let nameless = |world: &mut World| {
            world.spawn_empty();
        };
        assert_eq!(after(nameless).0, 1);
        let gone = after(|world| {
            let leader = named(world, "Birch 1");
            world.despawn(leader);
        });
        assert!(gone.0 >= battle::SQUAD, "a leader goes with its soldiers: {gone:?}");
    }
}

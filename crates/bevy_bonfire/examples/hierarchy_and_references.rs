//! Entities that know each other: parents and children, references in fields, relationships of the game's own, and
//! references to entities that are not loaded.
//!
//! ```sh
//! cargo run -p bevy_bonfire --example hierarchy_and_references
//! ```

use bevy_app::App;
use bevy_bonfire::prelude::*;
use bevy_bonfire::{Result, StableId, StableIds, StableRef};
use bevy_ecs::prelude::*;

/// References in fields are mapped by a load, also in lists, options, maps and enums. Nothing has to be said.
#[derive(Component, Persist)]
#[persist(key = "game.memory")]
struct Memory {
    friend: Entity,
    enemies: Vec<Entity>,
    /// Who is not in the save is `None` after a load; without an option it would be `Entity::PLACEHOLDER`.
    last_seen: Option<Entity>,
}

/// A relationship is saved at its source, with the rest of its fields.
#[derive(Component, Persist)]
#[relationship(relationship_target = Crew)]
#[persist(key = "game.serves_on")]
struct ServesOn {
    #[relationship]
    ship: Entity,
    rank: String,
}

/// The other side is not saved: Bevy makes it again. Its order is kept.
#[derive(Component)]
#[relationship_target(relationship = ServesOn)]
struct Crew(Vec<Entity>);

/// A key may lie in one save and its door in another. A stable id never changes, wherever its entity is loaded.
#[derive(Component, Persist)]
#[persist(key = "game.key")]
struct Key {
    opens: StableRef,
}

fn game() -> App {
    let mut app = App::new();
    app.add_plugins(BonfirePlugin::new());
    // `ChildOf`, `Name` and `StableId` are registered already.
    app.persist::<Memory>().persist_relationship::<ServesOn>().persist::<Key>();
    app
}

fn fill(world: &mut World) {
    // Children are part of the save if they are marked themselves.
    let ship = world
        .spawn((Saved, Name::new("Ship"), children![(Saved, Name::new("Bow")), (Saved, Name::new("Mast"))]))
        .id();
    let gull = world.spawn(Name::new("Gull")).id(); // not part of the save
    let serves_as = |rank: &str| ServesOn { ship, rank: rank.to_owned() };
    let anne = world.spawn((Saved, Name::new("Anne"), serves_as("captain"))).id();
    let jack = world.spawn((Saved, Name::new("Jack"), serves_as("cook"))).id();
    // In circles, too.
    world.entity_mut(anne).insert(Memory { friend: jack, enemies: vec![jack, ship], last_seen: Some(gull) });
    world.entity_mut(jack).insert(Memory { friend: anne, enemies: Vec::new(), last_seen: Some(anne) });
    // The door is on an island that is not loaded now; its id is known.
    world.spawn((Saved, Name::new("Rusty key"), Key { opens: StableId::from_bits(7).into() }));
}

fn print(what: &str, world: &mut World) {
    println!("{what}");
    let mut saved = world.query_filtered::<EntityRef, With<Saved>>();
    let world = &*world;
    let name = |entity: Entity| world.get::<Name>(entity).map_or("nobody", Name::as_str);
    let names =
        |entities: &[Entity]| entities.iter().map(|&entity| name(entity)).collect::<Vec<_>>().join(", ");
    for entity in saved.iter(world) {
        let Some(own) = entity.get::<Name>() else { continue };
        print!("  {:>5} {own:<10}", entity.id().to_string());
        if let Some(children) = entity.get::<Children>() {
            print!("children: {}; ", names(children));
        }
        if let Some(Crew(crew)) = entity.get() {
            print!("crew: {}", names(crew));
        }
        if let Some(ServesOn { ship, rank }) = entity.get() {
            print!("{rank} of the {}; ", name(*ship));
        }
        if let Some(Memory { friend, enemies, last_seen }) = entity.get() {
            let last_seen = last_seen.map_or("nobody", name);
            print!("friend: {}; enemies: [{}]; last seen: {last_seen}", name(*friend), names(enemies));
        }
        if let Some(Key { opens }) = entity.get() {
            match opens.resolve(world.resource::<StableIds>()) {
                Ok(door) => print!("opens the {}", name(door)),
                Err(unresolved) => print!("opens nothing here: {unresolved}"),
            }
        }
        println!();
    }
}

fn main() -> Result<()> {
    let mut app = game();
    fill(app.world_mut());
    print("saved:", app.world_mut());
    let snapshot = app.world_mut().capture_with_events(&SaveOptions::new())?;

    let mut other = game();
    let world = other.world_mut();
    world.spawn_batch((0..100).map(|_| ())); // so that no id is the same by accident
    let loaded = world.load(&snapshot, LoadMode::Replace)?;
    print("loaded into another world:", world);
    // The report says what was not as usual.
    for line in loaded.report.components.iter().filter(|line| line.dangling > 0) {
        println!("  {}: {} reference to what is not in the save", line.key, line.dangling);
    }
    world.spawn((Saved, Name::new("Cellar"), StableId::from_bits(7)));
    print("the island is loaded:", world);
    Ok(())
}

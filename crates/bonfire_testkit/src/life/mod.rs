//! The life of a game: ten releases of a small colony game, each with its types as they were, and a world that it saved.
//!
//! Everything here is frozen, as `fixtures/life` is: the files stand for saves on players' disks. A release changes what real
//! ones change; its module says what. The next one gets a module of its own.

mod early;
mod first;
mod late;
mod middle;

use bonfire::inspect::encode_value;
use bonfire::schema::Node;
use bonfire::{EntityId, Limits, Result, Snapshot, Writer};

pub use self::early::{v2, v3, v4};
pub use self::first::v1;
pub use self::late::{v8, v9, v10};
pub use self::middle::{v5, v6, v7};
use crate::world::{CaptureOptions, ModelWorld};

/// A release of the game.
#[derive(Clone, Copy)]
pub struct Release {
    /// Counts from 1.
    pub number: u32,
    register: fn(&mut ModelWorld) -> Result<()>,
    fill: fn(&mut ModelWorld, &[EntityId]),
}

impl Release {
    /// An empty world of this release, with its migrations.
    pub fn world(&self) -> Result<ModelWorld> {
        let mut world = ModelWorld::new();
        (self.register)(&mut world)?;
        Ok(world)
    }

    /// The world that the release saved.
    pub fn save(&self) -> Result<Snapshot> {
        let mut world = self.world()?;
        let ids = colony(&mut world);
        (self.fill)(&mut world, &ids);
        // Half of them in one archetype: then columns are sparse, and long enough to be stored as dictionaries.
        let one_archetype = self.number.is_multiple_of(2);
        world.capture(&CaptureOptions { one_archetype, ..CaptureOptions::default() })
    }

    /// The name of its file.
    pub fn file(&self) -> String {
        format!("v{}.bonfire", self.number)
    }
}

/// All releases, the oldest first.
pub fn releases() -> [Release; 10] {
    let release = |number, register, fill| Release { number, register, fill };
    [
        release(
            1,
            v1::register as fn(&mut ModelWorld) -> Result<()>,
            v1::fill as fn(&mut ModelWorld, &[EntityId]),
        ),
        release(2, v2::register, v2::fill),
        release(3, v3::register, v3::fill),
        release(4, v4::register, v4::fill),
        release(5, v5::register, v5::fill),
        release(6, v6::register, v6::fill),
        release(7, v7::register, v7::fill),
        release(8, v8::register, v8::fill),
        release(9, v9::register, v9::fill),
        release(10, v10::register, v10::fill),
    ]
}

/// The names of those who live in the colony. Two more entities are chests.
pub const NAMES: [&str; 10] = ["Ada", "Bo", "Cleo", "Dov", "Eli", "Finn", "Gus", "Hope", "Ian", "Jo"];

/// Somebody who lived in slot 5 before Finn did. One unit still refers to it.
pub const GONE: EntityId = EntityId::new(5, 0);

/// Twelve entities. The one in slot 5 is the second there.
fn colony(world: &mut ModelWorld) -> Vec<EntityId> {
    let mut ids: Vec<EntityId> = (0..12).map(|_| world.spawn()).collect();
    world.despawn(ids[5]);
    ids[5] = world.spawn();
    ids
}

/// What the fuzzer of schema evolution starts from, with names: for each component of a release its schema, the one of the next
/// release, choices for a migration, and a saved value.
pub fn fuzz_seeds() -> Result<Vec<(String, Vec<u8>)>> {
    let mut seeds = Vec::new();
    let releases = releases();
    for pair in releases.windows(2) {
        let (saved, next) = (pair[0].save()?, pair[1].world()?);
        let archetypes: Vec<_> = saved.archetypes().collect();
        for component in saved.components() {
            let Some(target) = next.registry().index_of_saved(&component.key) else { continue };
            let (old, new) = (component.schema()?, next.registry().descriptors()[target].schema());
            if **old == *new {
                continue;
            }
            let columns = archetypes.iter().flat_map(|archetype| archetype.columns().collect::<Vec<_>>());
            let Some(column) = columns.into_iter().find(|column| column.component().key == component.key)
            else {
                continue;
            };
            let Some(value) = column.values(&Limits::default())?.into_iter().flatten().next() else {
                continue;
            };
            let mut row = Writer::new();
            encode_value(old, Node::ROOT, &value, &mut row)?;
            let (a, b, choices) = (old.to_bytes(), new.to_bytes(), [1, 2, 3, 17, 4, 6]);
            let lengths = [a.len(), b.len(), choices.len(), seeds.len()];
            let (Ok(head), row) = (
                lengths.map(u8::try_from).into_iter().collect::<std::result::Result<Vec<u8>, _>>(),
                row.finish()?,
            ) else {
                continue;
            };
            let bytes = [&[1], &*head, &a, &b, &choices, &row].concat();
            seeds.push((format!("v{}_{}", pair[0].number, component.key), bytes));
        }
    }
    Ok(seeds)
}

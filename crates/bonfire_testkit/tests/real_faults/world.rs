//! Small worlds that carry a number. The checker distinguishes saves by it.

use bonfire::engine::{DeltaSchema, SnapshotWriter};
use bonfire::{Delta, EntityId, Error, Persist, Registry, Result, Snapshot};

/// Number of entities in a world.
const ENTITIES: u32 = 12;

#[derive(Clone, Copy, Persist)]
#[persist(key = "test.position")]
struct Position {
    x: f32,
    y: f32,
}

fn registry() -> Registry {
    Registry::new().with::<Position>().expect("one component with a valid key")
}

/// Makes the world with this number. The number is its tick too.
pub(crate) fn world(number: u64) -> Snapshot {
    let registry = registry();
    let mut writer = SnapshotWriter::new(&registry);
    let ids: Vec<EntityId> = (0..ENTITIES).map(|id| EntityId::new(id, 1)).collect();
    let rows: Vec<Position> = (0..ENTITIES).map(|row| Position { x: row as f32, y: number as f32 }).collect();
    writer.archetype(&ids).and_then(|mut rows_of| rows_of.column(&rows).map(drop)).expect("valid rows");
    writer.data("number", &number).expect("a number");
    writer.finish().expect("a valid world")
}

/// Makes the delta between two worlds.
pub(crate) fn delta(from: u64, to: u64) -> Delta {
    let schema = DeltaSchema::new(&registry());
    Delta::between(&schema, &world(from), &world(to), from, to).expect("two worlds of one registry")
}

/// Returns the number of a world, or an error if the world mixes two of them.
pub(crate) fn number_of(snapshot: &Snapshot) -> Result<u64> {
    let entry = snapshot.data().iter().find(|entry| entry.key() == "number");
    let number: u64 = entry.ok_or_else(|| Error::custom("MIXTURE: the world has no number"))?.get()?;
    let mut rows = Vec::new();
    for archetype in snapshot.archetypes() {
        let column = archetype.column("test.position").and_then(|column| column.as_slice::<Position>());
        let column = column.ok_or_else(|| Error::custom("MIXTURE: the world has no positions"))?;
        rows.extend(archetype.ids().iter().map(|id| id.index()).zip(column.iter().copied()));
    }
    rows.sort_by_key(|(id, _)| *id);
    let is_row = |(row, (id, position)): (u32, &(u32, Position))| {
        *id == row && position.x == row as f32 && position.y == number as f32
    };
    if rows.len() == ENTITIES as usize && (0..).zip(&rows).all(is_row) {
        return Ok(number);
    }
    Err(Error::custom(format!("MIXTURE: the world says {number} and its entities do not")))
}

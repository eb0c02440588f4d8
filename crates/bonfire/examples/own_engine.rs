//! An engine without an ECS, on the core alone: units in a slot map, shots in a vector, and what exists once.
//!
//! Run it with `cargo run -p bonfire --example own_engine`.

use bonfire::engine::{Carry, EntityMap, LoadPlan, SnapshotWriter};
use bonfire::{EntityId, LoadOptions, LoadReport, Persist, Registry, Result, Snapshot};

/// The engine's handle: a slot and its generation. It holds an `EntityId`, so loads map it wherever it is a field.
#[derive(Clone, Copy, Persist)]
struct UnitId(EntityId);

#[derive(Persist)]
#[persist(key = "game.unit")]
struct Unit {
    name: String,
    target: Option<UnitId>,
}

#[derive(Persist)]
struct Shot {
    by: UnitId,
    at: UnitId,
}

/// Exists once, so it is a resource. Nobody refers to a shot: shots need no ids and are simply a part of it.
#[derive(Default, Persist)]
#[persist(key = "game.world")]
struct World {
    tick: u64,
    shots: Vec<Shot>,
    #[persist(skip)] // the slot map: the handle that finds a slot now, and who is there. Saved as entities
    slots: Vec<(EntityId, Option<Unit>)>,
    #[persist(skip)] // what this build did not know in the last load goes into the next save
    carry: Carry,
}

impl World {
    /// The next handle for a slot. No older one has its generation, so none finds the new owner.
    fn next_id(&self, slot: usize) -> EntityId {
        EntityId::new(slot as u32, self.slots.get(slot).map_or(0, |(id, _)| id.generation() + 1))
    }
    fn spawn(&mut self, name: &str, target: Option<UnitId>) -> UnitId {
        let free = self.slots.iter().position(|(_, unit)| unit.is_none()).unwrap_or(self.slots.len());
        let id = self.next_id(free);
        self.slots.resize_with(self.slots.len().max(free + 1), Default::default);
        self.slots[free] = (id, Some(Unit { name: name.to_owned(), target }));
        UnitId(id)
    }
    fn get(&self, UnitId(id): UnitId) -> Option<&Unit> {
        self.slots.get(id.index() as usize).filter(|slot| slot.0 == id)?.1.as_ref()
    }
    fn units(&self) -> impl Iterator<Item = (EntityId, &Unit)> {
        self.slots.iter().filter_map(|(id, unit)| Some((*id, unit.as_ref()?)))
    }

    fn save(&self, registry: &Registry) -> Result<Vec<u8>> {
        let (ids, units): (Vec<EntityId>, Vec<&Unit>) = self.units().unzip();
        let mut writer = SnapshotWriter::new(registry);
        writer.archetype(&ids)?.column_refs(&units)?;
        writer.resource(self)?;
        writer.carry(&self.carry);
        writer.finish()?.to_bytes()
    }

    /// Puts the saved world in the place of this one. Everything that may fail comes before the assignment.
    fn load(&mut self, registry: &Registry, bytes: &[u8]) -> Result<LoadReport> {
        let snapshot = Snapshot::open(bytes)?; // every checksum is checked
        let snapshot = snapshot.migrated(registry)?;
        let plan = LoadPlan::new(&snapshot, registry, LoadOptions::default())?;
        let saved = plan.entities();
        let len = self.slots.len().max(saved.len());
        let mut slots: Vec<_> = (0..len).map(|slot| (self.next_id(slot), None)).collect();
        let map = EntityMap::from_pairs(saved.iter().copied().zip(slots.iter().map(|slot| slot.0)))?;
        let mut staged = plan.stage(&map, None)?; // every handle in it is mapped
        for (id, unit) in staged.take_all(&map) {
            slots[id.index() as usize].1 = Some(unit);
        }
        let world = staged.take_resource::<World>().unwrap_or_default();
        *self = World { slots, carry: staged.carry, ..world };
        Ok(staged.report)
    }
}

fn main() -> Result<()> {
    let registry = Registry::new().with::<Unit>()?.with::<World>()?;
    let mut world = World { tick: 90, ..World::default() };
    let ghost = world.spawn("Ghost", None);
    let wolf = world.spawn("Wolf", Some(ghost));
    let sheep = world.spawn("Sheep", Some(wolf));
    world.shots.push(Shot { by: wolf, at: sheep });
    world.slots[0].1 = None; // the ghost is gone: what the wolf is after is stale
    let bytes = world.save(&registry)?;
    println!("{} units saved in {} bytes", world.units().count(), bytes.len());

    (world.tick, world.shots, world.slots[1].1) = (0, Vec::new(), None);
    let rat = world.spawn("Rat", Some(sheep)); // in the slot that was the ghost's
    let wreck = world.save(&registry)?;
    let damaged = |place| [&bytes[..place], &[!bytes[place]], &bytes[place + 1..]].concat();
    assert!((0..bytes.len()).all(|place| world.load(&registry, &damaged(place)).is_err()));
    println!("not loaded: {}", world.load(&registry, &bytes[..1000]).unwrap_err());
    assert_eq!(world.save(&registry)?, wreck); // the same bytes, so still the same world

    let report = world.load(&registry, &bytes)?;
    let name = |id| world.get(id).map_or("nobody", |unit| &unit.name);
    world.units().for_each(|(id, unit)| {
        println!("{id}: {} is after {}", unit.name, unit.target.map_or("nobody", name));
    });
    let Shot { by, at } = world.shots[0];
    println!("a shot by {} at {}, tick {}", name(by), name(at), world.tick);
    assert_eq!((name(by), name(at), world.tick), ("Wolf", "Sheep", 90));
    assert_eq!(world.get(at).and_then(|sheep| sheep.target).map(name), Some("Wolf"));
    assert_eq!(report.component("game.unit").map(|line| line.dangling), Some(1)); // the ghost
    assert!([ghost, wolf, sheep, rat].into_iter().all(|stale| world.get(stale).is_none()));
    Ok(())
}

//! Worlds of Bevy that live through scripts.

use bevy_app::App;
use bevy_bonfire::Descriptor;
use bonfire_testkit::script::{Part, ScriptWorld};

use super::*;

/// Its codec leaves odd numbers out, so that columns have holes.
#[derive(Component, Clone, Debug)]
pub struct Even(pub u8);

/// A world that spawns at most `SETS` sets of components by batches, and restores in one way or the other.
pub struct BevyWorld<const SETS: usize, const DIFFERING: bool = false>(pub World);

impl<const SETS: usize, const DIFFERING: bool> ScriptWorld for BevyWorld<SETS, DIFFERING> {
    type Entity = Entity;

    fn fresh(reversed: bool) -> Self {
        let mut app = App::new();
        app.add_plugins(BonfirePlugin::default().batches_max(SETS));
        let mut world = std::mem::take(app.world_mut());
        register(&mut world, reversed);
        let save = |even: &Even, _: &bevy_bonfire::core::SaveContext<'_>| {
            Ok(even.0.is_multiple_of(2).then_some(even.0))
        };
        let load = |saved: u8, _: &bevy_bonfire::LoadContext<'_>| Ok(Some(Even(saved)));
        world.persist_as::<Even>(Descriptor::custom("test.even", save, load));
        if reversed {
            world.load_late::<Burning>();
        }
        Self(world)
    }
    fn spawn(&mut self, saved: bool) -> Entity {
        if saved { self.0.spawn(Saved).id() } else { self.0.spawn_empty().id() }
    }
    fn is_alive(&self, entity: Entity) -> bool {
        self.0.get_entity(entity).is_ok()
    }
    fn insert(&mut self, entity: Entity, part: &Part, targets: &[Entity]) {
        let mut entity = self.0.entity_mut(entity);
        let at = |number: &usize| targets[*number];
        match part {
            Part::Name(name) => entity.insert(Name::new(name.clone())),
            Part::Position(x, y) => entity.insert(Position { x: *x, y: *y }),
            Part::Health(current, max) => entity.insert(Health { current: *current, max: *max, flash: 3 }),
            Part::Inventory(items, gold) => entity.insert(Inventory { items: items.clone(), gold: *gold }),
            Part::Enemy => entity.insert(Enemy),
            Part::Burning(how) => entity.insert(Burning(how.clone())),
            Part::Follows { leader, others, last } => entity.insert(Follows {
                leader: at(leader),
                others: others.iter().map(at).collect(),
                last: last.as_ref().map(at),
            }),
            Part::Mood(None) => entity.insert(Mood::Calm),
            Part::Mood(Some((who, level))) => entity.insert(Mood::Angry { at: Some(at(who)), level: *level }),
            Part::Hover(since) => entity.insert(Hover(*since)),
            Part::Team(team) => entity.insert(Team(*team)),
            // Nobody docks at itself.
            Part::DockedAt(station, _) if at(station) == entity.id() => entity.remove::<DockedAt>(),
            Part::DockedAt(station, berth) => {
                entity.insert(DockedAt { station: at(station), berth: berth.clone() })
            }
            Part::Quest(title, stage) => {
                entity.insert(Quest { title: title.clone(), stages: [(title.clone(), *stage)].into() })
            }
            Part::Even(number) => entity.insert(Even(*number)),
        };
    }
    fn remove(&mut self, entity: Entity, kind: usize) {
        let mut entity = self.0.entity_mut(entity);
        match kind {
            0 => entity.remove::<Name>(),
            1 => entity.remove::<Position>(),
            2 => entity.remove::<Health>(),
            3 => entity.remove::<Inventory>(),
            4 => entity.remove::<Enemy>(),
            5 => entity.remove::<Burning>(),
            6 => entity.remove::<Follows>(),
            7 => entity.remove::<Mood>(),
            8 => entity.remove::<Hover>(),
            9 => entity.remove::<Team>(),
            10 => entity.remove::<DockedAt>(),
            11 => entity.remove::<Quest>(),
            _ => entity.remove::<Even>(),
        };
    }
    fn adopt(&mut self, child: Entity, parent: Entity) {
        // A circle of parents is possible in Bevy, but cannot be despawned.
        let mut above = Some(parent);
        while let Some(entity) = above {
            if entity == child {
                return;
            }
            above = self.0.get::<ChildOf>(entity).map(|child| child.0);
        }
        self.0.entity_mut(child).insert(ChildOf(parent));
    }
    fn orphan(&mut self, child: Entity) {
        self.0.entity_mut(child).remove::<ChildOf>();
    }
    fn despawn(&mut self, entity: Entity) {
        self.0.despawn(entity);
    }
    fn save(&self) -> Snapshot {
        save(&self.0)
    }
    fn replace(&mut self, snapshot: &Snapshot) {
        self.0.load(snapshot, LoadMode::Replace).unwrap();
        let stray = self.0.query_filtered::<Entity, (With<Position>, Without<Saved>)>().iter(&self.0).count();
        assert!(stray <= 1000, "what is not saved stays");
    }
    fn restore(&mut self, snapshot: &Snapshot) {
        let ticks = if DIFFERING { Ticks::Differing } else { Ticks::All };
        self.0.load(snapshot, LoadMode::Restore(ticks)).unwrap();
    }
    fn describe(&self) -> String {
        canonical(&self.0)
    }
}

/// Replicates everything that scripts use.
pub fn replicate(world: &mut World) {
    use bevy_bonfire::replication::ReplicateExt;
    world
        .replicate::<Name>()
        .replicate::<ChildOf>()
        .replicate::<Position>()
        .replicate::<Health>()
        .replicate::<Inventory>()
        .replicate::<Enemy>()
        .replicate::<Burning>()
        .replicate::<Follows>()
        .replicate::<Mood>()
        .replicate::<Hover>()
        .replicate::<Team>()
        .replicate::<DockedAt>()
        .replicate::<Quest>()
        .replicate::<Score>()
        .replicate_as::<Even>(told_even());
}

/// A mirror keeps values that their codec leaves out, so for it none is.
fn told_even() -> Descriptor {
    let load = |saved: u8, _: &bevy_bonfire::LoadContext<'_>| Ok(Some(Even(saved)));
    Descriptor::custom("test.even", |even: &Even, _| Ok(Some(even.0)), load)
}

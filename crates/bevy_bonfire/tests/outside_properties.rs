//! Random entities with random references and parents, spread over chunks that are saved, unloaded and loaded in random order,
//! against a simple model: references between loaded entities are right at every moment, and all of them when all are loaded.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bevy_bonfire::prelude::*;
use bevy_bonfire::{SlicedLoad, Snapshot, StandIn};
use bevy_ecs::prelude::*;
use bonfire_testkit::scale;
use common::{DockedAt, DockedShips, Follows, Position};
use proptest::prelude::*;

const ENTITIES: u64 = 12;
const CHUNKS: usize = 4;

/// An entity, described by the stable ids of others.
#[derive(Clone, Debug, Default)]
struct Model {
    chunk: usize,
    follows: Option<Vec<u64>>,
    parent: Option<u64>,
    station: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Follow {
        who: u64,
        whom: u64,
        more: u64,
    },
    Forget {
        who: u64,
    },
    Adopt {
        parent: u64,
        child: u64,
    },
    Leave {
        child: u64,
    },
    Dock {
        ship: u64,
        station: u64,
    },
    Move {
        who: u64,
        chunk: usize,
    },
    Save {
        chunk: usize,
    },
    Unload {
        chunk: usize,
    },
    Load {
        chunk: usize,
        sliced: bool,
    },
    /// Two loads in slices, turn by turn.
    LoadBoth {
        chunks: [usize; 2],
    },
    GiveUp {
        chunk: usize,
        steps: usize,
    },
    Sweep,
}

fn step() -> impl Strategy<Value = Step> {
    let (who, chunk) = (0..ENTITIES, 0..CHUNKS);
    prop_oneof![
        3 => (who.clone(), who.clone(), who.clone()).prop_map(|(who, whom, more)| Step::Follow { who, whom, more }),
        1 => who.clone().prop_map(|who| Step::Forget { who }),
        3 => (who.clone(), who.clone()).prop_map(|(parent, child)| Step::Adopt { parent, child }),
        1 => who.clone().prop_map(|child| Step::Leave { child }),
        2 => (who.clone(), who.clone()).prop_map(|(ship, station)| Step::Dock { ship, station }),
        1 => (who, chunk.clone()).prop_map(|(who, chunk)| Step::Move { who, chunk }),
        1 => chunk.clone().prop_map(|chunk| Step::Save { chunk }),
        4 => chunk.clone().prop_map(|chunk| Step::Unload { chunk }),
        4 => (chunk.clone(), any::<bool>()).prop_map(|(chunk, sliced)| Step::Load { chunk, sliced }),
        2 => (chunk.clone(), chunk.clone()).prop_map(|(a, b)| Step::LoadBoth { chunks: [a, b] }),
        1 => (chunk, 0..8_usize).prop_map(|(chunk, steps)| Step::GiveUp { chunk, steps }),
        1 => Just(Step::Sweep),
    ]
}

struct Game {
    world: World,
    entities: BTreeMap<u64, Model>,
    /// The chunks that are not loaded.
    saved: BTreeMap<usize, Snapshot>,
}

impl Game {
    fn new(one_by_one: bool) -> Self {
        let mut app = bevy_app::App::new();
        let plugin = BonfirePlugin::new();
        app.add_plugins(if one_by_one { plugin.spawn_one_by_one() } else { plugin.batches_max(8) });
        common::register(app.world_mut(), false);
        let mut world = std::mem::take(app.world_mut());
        let mut entities = BTreeMap::new();
        for bits in 0..ENTITIES {
            world.spawn((Saved, StableId::from_bits(bits), Position { x: bits as f32, y: 0.0 }));
            entities.insert(bits, Model { chunk: bits as usize % CHUNKS, ..Model::default() });
        }
        Self { world, entities, saved: BTreeMap::new() }
    }

    fn is_loaded(&self, bits: u64) -> bool {
        !self.saved.contains_key(&self.entities[&bits].chunk)
    }

    fn find(&self, bits: u64) -> Option<Entity> {
        self.world.resource::<StableIds>().get(StableId::from_bits(bits))
    }

    /// The stable id of an entity, or of the one that it stands in for.
    fn name(&self, entity: Entity) -> Option<u64> {
        let entity = self.world.get_entity(entity).ok()?;
        let id = entity.get::<StableId>().copied();
        id.or_else(|| entity.get::<StandIn>().map(|away| away.id())).map(StableId::to_bits)
    }

    fn members(&self, chunk: usize) -> Vec<Entity> {
        let members = self.entities.iter().filter(|(_, model)| model.chunk == chunk);
        members.map(|(&bits, _)| self.find(bits).unwrap()).collect()
    }

    fn save(&self, chunk: usize) -> Snapshot {
        let options = SaveOptions::new().entities(self.members(chunk)).outside_references();
        let snapshot = self.world.capture(&options).unwrap();
        assert!(snapshot.notes().is_empty(), "{:?}", snapshot.notes());
        Snapshot::open(&snapshot.to_bytes().unwrap()).unwrap()
    }

    /// Returns true if one is the other, or one of its ancestors.
    fn is_above(&self, above: u64, mut below: u64) -> bool {
        loop {
            match self.entities[&below].parent {
                _ if below == above => return true,
                Some(parent) => below = parent,
                None => return false,
            }
        }
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Follow { who, whom, more } if [who, whom, more].iter().all(|&one| self.is_loaded(one)) => {
                let [who_entity, leader, more_entity] =
                    [who, whom, more].map(|bits| self.find(bits).unwrap());
                let follows = Follows { leader, others: vec![more_entity, leader], last: Some(more_entity) };
                self.world.entity_mut(who_entity).insert(follows);
                self.entities.get_mut(&who).unwrap().follows = Some(vec![whom, more, whom, more]);
            }
            Step::Forget { who } if self.is_loaded(who) => {
                let entity = self.find(who).unwrap();
                self.world.entity_mut(entity).remove::<Follows>();
                self.entities.get_mut(&who).unwrap().follows = None;
            }
            Step::Adopt { parent, child }
                if self.is_loaded(parent) && self.is_loaded(child) && !self.is_above(child, parent) =>
            {
                let [parent_entity, child_entity] = [parent, child].map(|bits| self.find(bits).unwrap());
                self.world.entity_mut(child_entity).insert(ChildOf(parent_entity));
                self.entities.get_mut(&child).unwrap().parent = Some(parent);
            }
            Step::Leave { child } if self.is_loaded(child) => {
                let entity = self.find(child).unwrap();
                self.world.entity_mut(entity).remove::<(ChildOf, DockedAt)>();
                let model = self.entities.get_mut(&child).unwrap();
                (model.parent, model.station) = (None, None);
            }
            Step::Dock { ship, station }
                if self.is_loaded(ship) && self.is_loaded(station) && ship != station =>
            {
                let [ship_entity, station_entity] = [ship, station].map(|bits| self.find(bits).unwrap());
                self.world
                    .entity_mut(ship_entity)
                    .insert(DockedAt { station: station_entity, berth: String::new() });
                self.entities.get_mut(&ship).unwrap().station = Some(station);
            }
            Step::Move { who, chunk } if self.is_loaded(who) && !self.saved.contains_key(&chunk) => {
                self.entities.get_mut(&who).unwrap().chunk = chunk;
            }
            Step::Save { chunk } if !self.saved.contains_key(&chunk) => drop(self.save(chunk)),
            Step::Unload { chunk } if !self.saved.contains_key(&chunk) => {
                let (snapshot, members) = (self.save(chunk), self.members(chunk));
                self.world.unload(members).unwrap();
                self.saved.insert(chunk, snapshot);
            }
            Step::Load { chunk, sliced } => self.load(chunk, sliced),
            Step::LoadBoth { chunks } => self.load_both(chunks),
            Step::GiveUp { chunk, steps } => {
                let Some(snapshot) = self.saved.get(&chunk) else { return };
                let mut load = SlicedLoad::new(&self.world, snapshot.clone(), LoadMode::Merge).unwrap();
                if (0..steps).all(|_| load.step(&mut self.world, Duration::ZERO).unwrap().is_none()) {
                    load.cancel(&mut self.world);
                } else {
                    self.saved.remove(&chunk);
                }
            }
            Step::Sweep => _ = self.world.sweep_stand_ins().unwrap(),
            _ => {}
        }
    }

    fn load(&mut self, chunk: usize, sliced: bool) {
        let Some(snapshot) = self.saved.remove(&chunk) else { return };
        if !sliced {
            let loaded = self.world.load(&snapshot, LoadMode::Merge).unwrap();
            assert_eq!((loaded.report.stale_references(), loaded.report.losses()), (0, vec![]));
            return;
        }
        let mut load = SlicedLoad::new(&self.world, snapshot, LoadMode::Merge).unwrap();
        while load.step(&mut self.world, Duration::ZERO).unwrap().is_none() {}
    }

    fn load_both(&mut self, chunks: [usize; 2]) {
        let snapshots = chunks.map(|chunk| self.saved.remove(&chunk));
        let world = &self.world;
        let mut loads =
            snapshots.map(|snapshot| Some(SlicedLoad::new(world, snapshot?, LoadMode::Merge).unwrap()));
        while loads.iter().any(Option::is_some) {
            for load in &mut loads {
                if let Some(going) = load
                    && going.step(&mut self.world, Duration::ZERO).unwrap().is_some()
                {
                    *load = None;
                }
            }
        }
    }

    fn check(&mut self) {
        let mut listed: [BTreeMap<u64, BTreeSet<u64>>; 2] = Default::default();
        for (&bits, model) in &self.entities {
            let Some(entity) = self.find(bits) else {
                assert!(!self.is_loaded(bits), "{bits} is lost");
                continue;
            };
            assert!(self.is_loaded(bits), "{bits} is a stand-in");
            let found = self.world.entity(entity);
            assert_eq!(found.get::<Position>().unwrap().x, bits as f32);
            let name = |entity: Entity| {
                let name = self.name(entity).unwrap_or_else(|| panic!("{bits} has a lost reference"));
                // It leads to the entity itself if that is loaded.
                assert_eq!(self.find(name).unwrap_or(entity), entity, "of {bits}");
                name
            };
            let follows = found.get::<Follows>().map(|follows| {
                let all = [vec![follows.leader], follows.others.clone(), follows.last.into_iter().collect()]
                    .concat();
                all.into_iter().map(name).collect::<Vec<u64>>()
            });
            assert_eq!(follows, model.follows, "of {bits}");
            assert_eq!(found.get::<ChildOf>().map(|parent| name(parent.0)), model.parent, "of {bits}");
            assert_eq!(
                found.get::<DockedAt>().map(|docked| name(docked.station)),
                model.station,
                "of {bits}"
            );
            for (lists, target) in listed.iter_mut().zip([model.parent, model.station]) {
                lists.entry(target.unwrap_or(u64::MAX)).or_default().insert(bits);
            }
            // References between loaded entities lead to the one that has the id.
            for target in model.follows.iter().flatten().chain(&model.parent).chain(&model.station) {
                assert_eq!(self.find(*target).is_some(), self.is_loaded(*target));
            }
        }
        self.check_lists(listed);
        assert_eq!(self.world.resource::<StableIds>().len(), self.loaded());
        let positions = self.world.query::<&Position>().iter(&self.world).count();
        assert_eq!(positions, self.loaded(), "nothing is there twice");
    }

    /// The lists of all targets, also of stand-ins, have the sources that the model says.
    fn check_lists(&mut self, listed: [BTreeMap<u64, BTreeSet<u64>>; 2]) {
        use bevy_ecs::entity_disabling::Disabled;
        use bevy_ecs::query::Allow;
        let mut all =
            self.world.query_filtered::<Entity, (Or<(With<StableId>, With<StandIn>)>, Allow<Disabled>)>();
        for entity in all.iter(&self.world).collect::<Vec<_>>() {
            let name = self.name(entity).unwrap();
            let children =
                self.world.get::<Children>(entity).map(|children| children.to_vec()).unwrap_or_default();
            let ships =
                self.world.get::<DockedShips>(entity).map(|ships| ships.ships().to_vec()).unwrap_or_default();
            for (lists, sources) in listed.iter().zip([children, ships]) {
                let sources: BTreeSet<u64> =
                    sources.into_iter().map(|source| self.name(source).unwrap()).collect();
                assert_eq!(sources, lists.get(&name).cloned().unwrap_or_default(), "of {name}");
            }
        }
    }

    fn loaded(&self) -> usize {
        self.entities.keys().filter(|&&bits| self.is_loaded(bits)).count()
    }
}

fn live(one_by_one: bool, steps: &[Step]) {
    let mut game = Game::new(one_by_one);
    for &step in steps {
        game.run(step);
        game.check();
    }
    let chunks: Vec<usize> = game.saved.keys().copied().rev().collect();
    chunks.into_iter().for_each(|chunk| game.load(chunk, chunk % 2 == 0));
    game.check();
    game.world.sweep_stand_ins().unwrap();
    assert_eq!(
        game.world.query::<(&StandIn, &bevy_ecs::entity_disabling::Disabled)>().iter(&game.world).count(),
        0
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64 * scale()) })]

    #[test]
    fn chunks_in_any_order(steps in prop::collection::vec(step(), 1..80)) {
        live(false, &steps);
    }

    #[test]
    fn chunks_in_any_order_one_by_one(steps in prop::collection::vec(step(), 1..80)) {
        live(true, &steps);
    }
}

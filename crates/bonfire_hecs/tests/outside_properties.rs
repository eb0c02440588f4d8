//! Random entities with random references, spread over chunks that are saved, unloaded and loaded in random order, against a
//! simple model: references between loaded entities are right at every moment, and all of them when all are loaded.

use std::collections::BTreeMap;

use bonfire_hecs::{Bonfire, LoadMode, Persist, SaveOptions, Snapshot, StableId, StandIn};
use bonfire_testkit::scale;
use hecs::{Entity, World};
use proptest::prelude::*;

const ENTITIES: u64 = 12;
const CHUNKS: usize = 4;

#[derive(Persist, Clone, Debug)]
#[persist(key = "test.follows")]
struct Follows {
    leader: Entity,
    others: Vec<Entity>,
}

#[derive(Persist)]
#[persist(key = "test.number")]
struct Number(u64);

#[derive(Clone, Copy, Debug)]
enum Step {
    Follow { who: u64, whom: u64, more: u64 },
    Forget { who: u64 },
    Unload { chunk: usize },
    Load { chunk: usize },
    Move { who: u64, chunk: usize },
    Spawn,
    Sweep,
}

fn step() -> impl Strategy<Value = Step> {
    let (who, chunk) = (0..ENTITIES, 0..CHUNKS);
    prop_oneof![
        4 => (who.clone(), who.clone(), who.clone()).prop_map(|(who, whom, more)| Step::Follow { who, whom, more }),
        1 => who.clone().prop_map(|who| Step::Forget { who }),
        4 => chunk.clone().prop_map(|chunk| Step::Unload { chunk }),
        4 => chunk.clone().prop_map(|chunk| Step::Load { chunk }),
        1 => (who, chunk).prop_map(|(who, chunk)| Step::Move { who, chunk }),
        1 => Just(Step::Spawn),
        1 => Just(Step::Sweep),
    ]
}

struct Game {
    world: World,
    bonfire: Bonfire,
    /// The chunk of each entity, and whom it follows.
    entities: BTreeMap<u64, (usize, Option<Vec<u64>>)>,
    saved: BTreeMap<usize, Snapshot>,
    /// Entities that are not part of any chunk.
    others: Vec<Entity>,
}

impl Game {
    fn new() -> Self {
        let (mut world, mut bonfire) = (World::new(), Bonfire::new());
        bonfire.persist::<Follows>().unwrap().persist::<Number>().unwrap();
        let mut entities = BTreeMap::new();
        for bits in 0..ENTITIES {
            world.spawn((StableId::from_bits(bits), Number(bits)));
            entities.insert(bits, (bits as usize % CHUNKS, None));
        }
        bonfire.update_indexes(&world);
        Self { world, bonfire, entities, saved: BTreeMap::new(), others: Vec::new() }
    }

    fn is_loaded(&self, bits: u64) -> bool {
        !self.saved.contains_key(&self.entities[&bits].0)
    }

    fn find(&self, bits: u64) -> Option<Entity> {
        self.bonfire.stable_ids().get(StableId::from_bits(bits))
    }

    fn name(&self, entity: Entity) -> Option<u64> {
        let entity = self.world.entity(entity).ok()?;
        let away = || entity.get::<&StandIn>().map(|away| away.id());
        entity.get::<&StableId>().map(|id| *id).or_else(away).map(StableId::to_bits)
    }

    fn members(&self, chunk: usize) -> Vec<Entity> {
        let members = self.entities.iter().filter(|(_, (of, _))| *of == chunk);
        members.map(|(&bits, _)| self.find(bits).unwrap()).collect()
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Follow { who, whom, more } if [who, whom, more].iter().all(|&one| self.is_loaded(one)) => {
                let [entity, leader, other] = [who, whom, more].map(|bits| self.find(bits).unwrap());
                let follows = Follows { leader, others: vec![other, leader] };
                self.world.insert_one(entity, follows).unwrap();
                self.entities.get_mut(&who).unwrap().1 = Some(vec![whom, more, whom]);
            }
            Step::Forget { who } if self.is_loaded(who) => {
                let _ = self.world.remove_one::<Follows>(self.find(who).unwrap());
                self.entities.get_mut(&who).unwrap().1 = None;
            }
            Step::Unload { chunk } if !self.saved.contains_key(&chunk) => {
                let members = self.members(chunk);
                let options = SaveOptions::new().entities(members.clone()).outside_references();
                let snapshot = self.bonfire.capture(&self.world, &options).unwrap();
                assert!(snapshot.notes().is_empty());
                self.saved.insert(chunk, Snapshot::open(&snapshot.to_bytes().unwrap()).unwrap());
                self.bonfire.unload(&mut self.world, members);
            }
            Step::Load { chunk } => self.load(chunk),
            Step::Move { who, chunk } if self.is_loaded(who) && !self.saved.contains_key(&chunk) => {
                self.entities.get_mut(&who).unwrap().0 = chunk;
            }
            // Ids go round.
            Step::Spawn => match self.others.len() {
                5 => self.others.drain(..).for_each(|entity| self.world.despawn(entity).unwrap()),
                _ => self.others.push(self.world.spawn((7_u8,))),
            },
            Step::Sweep => _ = self.bonfire.sweep_stand_ins(&mut self.world).unwrap(),
            _ => {}
        }
    }

    fn load(&mut self, chunk: usize) {
        let Some(snapshot) = self.saved.remove(&chunk) else { return };
        let loaded = self.bonfire.load(&mut self.world, &snapshot, LoadMode::Merge).unwrap();
        assert_eq!((loaded.report.stale_references(), loaded.report.losses()), (0, vec![]));
    }

    fn check(&self) {
        let mut loaded = 0;
        for (&bits, (_, follows)) in &self.entities {
            assert_eq!(self.find(bits).is_some(), self.is_loaded(bits), "of {bits}");
            let Some(entity) = self.find(bits) else { continue };
            loaded += 1;
            assert_eq!(self.world.get::<&Number>(entity).unwrap().0, bits);
            assert!(self.world.get::<&StandIn>(entity).is_err());
            let found = self.world.get::<&Follows>(entity).ok().map(|follows| {
                let all = [vec![follows.leader], follows.others.clone()].concat();
                all.into_iter()
                    .map(|entity| self.name(entity).expect("no reference is lost"))
                    .collect::<Vec<_>>()
            });
            assert_eq!(found, *follows, "of {bits}");
            for &target in follows.iter().flatten().filter(|&&target| self.is_loaded(target)) {
                let follows = self.world.get::<&Follows>(entity).unwrap();
                let all = [vec![follows.leader], follows.others.clone()].concat();
                assert!(all.contains(&self.find(target).unwrap()), "{bits} follows {target} itself");
            }
        }
        assert_eq!(self.world.query::<&Number>().iter().count(), loaded);
        assert!(self.others.iter().all(|&other| self.world.get::<&u8>(other).is_ok_and(|value| *value == 7)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128 * scale()) })]

    #[test]
    fn chunks_in_any_order(steps in prop::collection::vec(step(), 1..80)) {
        let mut game = Game::new();
        for step in steps {
            game.run(step);
            game.check();
        }
        let chunks: Vec<usize> = game.saved.keys().copied().rev().collect();
        chunks.into_iter().for_each(|chunk| game.load(chunk));
        game.check();
        game.bonfire.sweep_stand_ins(&mut game.world).unwrap();
        prop_assert_eq!(game.world.len() as usize, ENTITIES as usize + game.others.len());
    }
}

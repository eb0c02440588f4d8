//! Random walks of several players who dig, spawn, kill and move creatures across borders, save, load older saves, and crash:
//! every creature is exactly once where the model has it, and every cell is as the model has it, at every acknowledged moment.
#![cfg(feature = "chunks")]

mod streaming_support;

use std::collections::{BTreeMap, BTreeSet};

use bevy_bonfire::chunks::{ChunkPos, ChunkRect, InChunk};
use bevy_bonfire::prelude::*;
use bevy_bonfire::store::{DirStore, Slots, Wait};
use bevy_bonfire::{LoadSource, Snapshot};
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::prelude::*;
use bevy_ecs::query::Allow;
use bevy_transform::components::Transform;
use bonfire_testkit::disk::{CrashDisk, Explorer, Random};
use streaming_support::{Creature, Game, SIZE, generated};

/// The game takes place in so many chunks to each side.
const REACH: i32 = 4;
/// The creature that tells which step a save was made in. It belongs to no chunk.
const CLOCK: u64 = 1 << 40;

/// The whole game, as plain data.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    /// By id, the cell that a creature is in.
    creatures: BTreeMap<u64, (i32, i32)>,
    /// Cells that were dug.
    cells: BTreeMap<(i32, i32), u8>,
}

fn chunk_of((x, y): (i32, i32)) -> ChunkPos {
    let size = SIZE as i32;
    ChunkPos::new(x.div_euclid(size), y.div_euclid(size))
}

fn place((x, y): (i32, i32)) -> [f32; 2] {
    [x as f32 + 0.5, y as f32 + 0.5]
}

struct Life {
    seed: u64,
    game: Game<CrashDisk>,
    random: Random,
    players: Vec<Entity>,
    model: Model,
    step: u64,
    next_id: u64,
    /// The model at each save.
    saved: BTreeMap<u64, Model>,
    /// Operations of the disk by which the save of a step was durable.
    acknowledged: Vec<(usize, u64)>,
}

impl Life {
    fn new(seed: u64) -> Self {
        let disk = CrashDisk::new();
        let slots = Slots::new(DirStore::on(disk.clone()).unwrap());
        let mut game = Game::start(disk, Some(slots), |plugin| plugin);
        let mut random = Random::new(seed);
        let players = (0..=random.below(2)).map(|_| game.player([0.0, 0.0])).collect();
        game.world().spawn((Saved, Creature { id: CLOCK, food: 0.0 }));
        game.settle();
        let (model, step, next_id) = (Model::default(), 0, 1);
        Self {
            seed,
            game,
            random,
            players,
            model,
            step,
            next_id,
            saved: BTreeMap::new(),
            acknowledged: Vec::new(),
        }
    }

    fn some_cell(&mut self) -> (i32, i32) {
        let span = (2 * REACH as usize + 1) * SIZE as usize;
        let mut along = || self.random.below(span) as i32 - REACH * SIZE as i32;
        (along(), along())
    }

    /// A cell of a chunk that is active.
    fn active_cell(&mut self) -> Option<(i32, i32)> {
        let cell = self.some_cell();
        self.game.chunks().is_active(chunk_of(cell)).then_some(cell)
    }

    /// A creature that is in the world.
    fn some_creature(&mut self) -> Option<(u64, Entity)> {
        let ids: Vec<u64> = self.model.creatures.keys().copied().collect();
        if ids.is_empty() {
            return None;
        }
        let id = *self.random.pick(&ids);
        Some((id, self.game.find(id)?))
    }

    fn advance(&mut self) {
        self.step += 1;
        match self.random.below(20) {
            0..3 => {
                let (player, to) = (*self.random.pick(&self.players), self.some_cell());
                self.game.place(player, place(to));
                (0..self.random.below(4)).for_each(|_| self.game.frame());
            }
            3..7 => {
                if let Some(cell) = self.active_cell() {
                    let material = self.random.below(200) as u8 + 50;
                    self.game.dig_cell(cell, material);
                    self.model.cells.insert(cell, material);
                }
            }
            7..10 => {
                if let Some(cell) = self.active_cell() {
                    self.next_id += 1;
                    let creature = self.game.spawn(self.next_id, place(cell));
                    if self.random.chance(50) {
                        self.game.world().entity_mut(creature).insert(StableId::new());
                    }
                    self.model.creatures.insert(self.next_id, cell);
                }
            }
            10..14 => {
                let to = self.some_cell();
                if let Some((id, creature)) = self.some_creature() {
                    self.game.place(creature, place(to));
                    self.model.creatures.insert(id, to);
                }
            }
            14 => {
                if let Some((id, creature)) = self.some_creature() {
                    self.game.world().despawn(creature);
                    self.model.creatures.remove(&id);
                }
            }
            15..17 => self.save(),
            17 => self.load(),
            18 => self.game.settle(),
            _ => self.game.frame(),
        }
    }

    fn save(&mut self) {
        let clock = self.game.find(CLOCK).unwrap();
        self.game.world().get_mut::<Creature>(clock).unwrap().food = self.step as f32;
        let save = self.game.world().resource_mut::<Saves>().save("quick");
        self.game.frame();
        self.saved.insert(self.step, self.model.clone());
        if self.random.chance(50) {
            let handle = save.clone();
            self.game.harness.until(move |_| handle.is_complete());
        }
        if save.wait().is_ok() {
            self.acknowledged.push((self.game.disk.operation_count(), self.step));
        }
    }

    fn load(&mut self) {
        let slots = self.game.slots.clone().unwrap();
        let saves = slots.saves("quick").wait().unwrap();
        if saves.is_empty() {
            return;
        }
        let generation = self.random.pick(&saves).generation;
        let load =
            self.game.world().resource_mut::<Saves>().load(LoadSource::generation("quick", generation));
        let handle = load.clone();
        self.game.harness.until(move |_| handle.is_complete());
        load.wait().unwrap();
        self.check_loaded();
    }

    /// Takes over the model of the save that was loaded, and compares.
    fn check_loaded(&mut self) {
        let clock = self.game.find(CLOCK).unwrap();
        let step = self.game.world().get::<Creature>(clock).unwrap().food as u64;
        self.model = self.saved[&step].clone();
        let when = format!("walk {}, step {}, loaded step {step}", self.seed, self.step);
        check(&mut self.game, &self.model, &when);
    }
}

/// Compares the whole game with a model: what is in the world, and what is in the file.
fn check(game: &mut Game<CrashDisk>, model: &Model, when: &str) {
    game.settle();
    let mut found: BTreeMap<u64, (i32, i32)> = BTreeMap::new();
    let mut note = |id: u64, place: &Transform| {
        let cell = (place.translation.x.floor() as i32, place.translation.y.floor() as i32);
        assert!(found.insert(id, cell).is_none(), "creature {id} is there twice");
    };
    let mut live = game.world().query::<(&Creature, &Transform, &InChunk)>();
    let all: Vec<(u64, Transform, ChunkPos)> = live
        .iter(game.harness.app.world())
        .map(|(creature, place, member)| (creature.id, *place, member.pos))
        .collect();
    for (id, place, pos) in &all {
        note(*id, place);
        let cell = (place.translation.x.floor() as i32, place.translation.y.floor() as i32);
        assert_eq!(chunk_of(cell), *pos, "creature {id} belongs to the chunk that it is in");
    }
    let world = game.chunks().world().clone();
    let active: BTreeSet<ChunkPos> = game.chunks().phases().map(|(pos, _)| pos).collect();
    for pos in world.chunks_with_entities(ChunkRect::ALL) {
        if active.contains(&pos) {
            continue;
        }
        let bytes = world.read_entities(pos).unwrap().unwrap();
        for (creature, place) in decode(&bytes) {
            note(creature.id, &place);
        }
    }
    assert_eq!(found, model.creatures, "{when}:\n{}", describe(game));
    for (&cell, &material) in &model.cells {
        let pos = chunk_of(cell);
        let inside = [cell.0.rem_euclid(SIZE as i32) as usize, cell.1.rem_euclid(SIZE as i32) as usize];
        let at = inside[1] * SIZE as usize + inside[0];
        let there = match active.contains(&pos) {
            true => game.cell([pos.x, pos.y], inside.map(|along| along as u32)),
            false => world.read(pos).unwrap().map_or_else(|| generated(pos), |cells| cells[at]),
        };
        assert_eq!(there, material, "{when}: cell {cell:?}");
    }
}

/// Where all creatures are, for messages.
fn describe(game: &mut Game<CrashDisk>) -> String {
    type Parts<'w> =
        (Entity, &'w Creature, Option<&'w Transform>, Option<&'w InChunk>, Has<Disabled>, Has<StableId>);
    let mut query = game.world().query_filtered::<Parts<'_>, Allow<Disabled>>();
    let mut text = String::new();
    for (entity, creature, place, member, is_disabled, is_stable) in query.iter(game.harness.app.world()) {
        let (place, member) = (place.map(|place| place.translation), member.map(|member| member.pos));
        text += &format!("{entity} {creature:?} {place:?} {member:?} {is_disabled} {is_stable}\n");
    }
    let world = game.chunks().world().clone();
    for pos in world.chunks_with_entities(ChunkRect::ALL) {
        let creatures = decode(&world.read_entities(pos).unwrap().unwrap());
        let all: Vec<_> =
            creatures.iter().map(|(creature, place)| (creature.id, place.translation)).collect();
        text += &format!("{pos} {:?} in the file: {all:?}\n", game.chunks().phase(pos));
    }
    text + &format!("{:?}", game.problems())
}

/// The creatures in a snapshot of a chunk.
fn decode(bytes: &[u8]) -> Vec<(Creature, Transform)> {
    let mut world = World::new();
    world.persist::<Creature>();
    world.load(&Snapshot::open(bytes).unwrap(), LoadMode::Merge).unwrap();
    // Those that wait for another chunk are disabled.
    let mut all = world.query_filtered::<(&Creature, &Transform), Allow<Disabled>>();
    all.iter(&world).map(|(creature, place)| (creature.clone(), *place)).collect()
}

/// Starts the game on what a crash has left, and checks that it is at a moment that was promised.
fn check_crash(disk: CrashDisk, life: &Life, promised: Option<u64>) {
    let slots = Slots::new(DirStore::on(disk.clone()).unwrap());
    let mut game = Game::start(disk, Some(slots), |plugin| plugin);
    game.player([0.0, 0.0]);
    game.frame();
    let load = game.world().resource_mut::<Saves>().load("quick");
    let handle = load.clone();
    game.harness.until(move |_| handle.is_complete());
    match load.wait() {
        Ok(_) => {
            let clock = game.find(CLOCK).unwrap();
            let step = game.world().get::<Creature>(clock).unwrap().food as u64;
            assert!(
                promised.is_none_or(|promised| promised <= step),
                "step {step} is older than {promised:?}"
            );
            let when = format!("walk {}, a crash, loaded step {step}", life.seed);
            check(&mut game, &life.saved[&step], &when);
            // Pins that no save names are gone, and those of saves are there.
            let named = game.slots.clone().unwrap().saves("quick").wait().unwrap();
            let pins = game.chunks().world().pins();
            let names: BTreeSet<&str> = pins.iter().map(|pin| pin.name.as_str()).collect();
            assert!(named.iter().all(|save| names.contains(save.moment.as_deref().unwrap())));
        }
        Err(error) => assert!(promised.is_none() && error.is_not_found(), "{promised:?}: {error}"),
    }
}

#[test]
fn every_creature_is_once_where_the_model_has_it_whatever_happens() {
    let scale: u64 =
        std::env::var("BONFIRE_TEST_SCALE").ok().and_then(|scale| scale.parse().ok()).unwrap_or(1);
    let (mut walks, mut crashes, mut saves, mut loads) = (0_u64, 0_u64, 0_usize, 0_usize);
    let first: u64 =
        std::env::var("BONFIRE_FIRST_WALK").ok().and_then(|first| first.parse().ok()).unwrap_or(0);
    for seed in first..first + 10 * scale {
        let mut life = Life::new(seed);
        for _ in 0..80 {
            life.advance();
        }
        walks += 1;
        saves += life.acknowledged.len();
        let model = life.model.clone();
        check(&mut life.game, &model, &format!("walk {seed}, its end"));
        loads += 1;
        let disk = life.game.disk.clone();
        let points: Vec<_> = disk.crash_points().collect();
        let mut explorer = Explorer::new(seed);
        for _ in 0..4 {
            let point = &points[life.random.below(points.len())];
            let promised = life.acknowledged.iter().rev().find(|(after, _)| *after <= point.after());
            for state in explorer.states(point, 1) {
                check_crash(state.crash_disk(), &life, promised.map(|(_, step)| *step));
                crashes += 1;
            }
        }
    }
    assert!(saves > 0 && loads > 0);
    println!("{walks} walks with {saves} durable saves; {crashes} crash states, none wrong");
}

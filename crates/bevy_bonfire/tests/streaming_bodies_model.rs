//! Random walks among bodies that roll, are dug, break and are made of the ground, with saves, loads of older saves and crashes:
//! every body is exactly once as the model has it, every cell of the ground is as the model has it, and nothing is seen that no body
//! and no ground has.
#![cfg(feature = "chunks")]

mod streaming_support;

use std::collections::{BTreeMap, BTreeSet};

use bevy_bonfire::LoadSource;
use bevy_bonfire::chunks::{
    BodyChange, BodyChanged, BodyId, ChunkCells, ChunkPos, ChunkRect, InChunk, PixelBody, Streamed,
};
use bevy_bonfire::prelude::*;
use bevy_bonfire::store::{DirStore, Slots, Wait};
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::message::Messages;
use bevy_ecs::prelude::*;
use bevy_ecs::query::Allow;
use bevy_transform::components::Transform;
use bonfire_chunks::Body;
use bonfire_testkit::disk::{CrashDisk, Explorer, Random};
use bonfire_testkit::scale;
use streaming_support::{Creature, Game, SIZE, air_and_stone};

/// The game takes place in so many chunks to each side.
const REACH: i32 = 3;
/// The entity that tells which step a save was made in. It belongs to no chunk.
const CLOCK: u64 = 1 << 40;

/// A body as the model has it: what a save has, too.
#[derive(Clone, Debug, PartialEq)]
struct Known {
    pose: Pose,
    /// The place that it rolled to when it was seen last. If that is not loaded, it may have come there since.
    rolled_to: Pose,
    /// Solid cells alone.
    cells: Vec<([u32; 2], u8)>,
}

/// Position and rotation.
type Pose = ([f32; 2], f32);

impl Known {
    fn of(body: &Body) -> Self {
        let all = (0..body.height).flat_map(|y| (0..body.width).map(move |x| [x, y]));
        let solid = all.filter(|[x, y]| body.solid(*x, *y));
        let value = |[x, y]: [u32; 2]| ([x, y], body.cells[(y * body.width + x) as usize]);
        let pose = (body.position, body.rotation);
        Self { pose, rolled_to: pose, cells: solid.map(value).collect() }
    }
}

/// The whole game, as plain data.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    bodies: BTreeMap<BodyId, Known>,
    /// Cells of the ground that are not as generated.
    ground: BTreeMap<(i32, i32), u8>,
}

impl Model {
    fn ground_at(&self, cell: (i32, i32)) -> u8 {
        self.ground.get(&cell).copied().unwrap_or(u8::from(cell.1 < 0))
    }
}

fn chunk_of((x, y): (i32, i32)) -> ChunkPos {
    let size = SIZE as i32;
    ChunkPos::new(x.div_euclid(size), y.div_euclid(size))
}

#[derive(Debug, Default)]
struct Tally {
    walks: usize,
    saves: usize,
    loads: usize,
    crashes: usize,
    lost: usize,
    broken: usize,
    gone: usize,
    made_of_ground: usize,
    rolled_away: usize,
}

struct Life<'t> {
    seed: u64,
    game: Game<CrashDisk>,
    random: Random,
    players: Vec<Entity>,
    model: Model,
    step: u64,
    saved: BTreeMap<u64, Model>,
    /// Operations of the disk by which the save of a step was durable.
    acknowledged: Vec<(usize, u64)>,
    tally: &'t mut Tally,
}

fn start(disk: CrashDisk) -> Game<CrashDisk> {
    let slots = Slots::new(DirStore::on(disk.clone()).unwrap());
    Game::start_in(disk, Some(slots), |plugin| plugin, air_and_stone)
}

fn bodies(game: &mut Game<CrashDisk>) -> Vec<(Entity, Body)> {
    let mut query = game.world().query_filtered::<(Entity, &PixelBody), Allow<Disabled>>();
    let mut all: Vec<_> =
        query.iter(game.harness.app.world()).map(|(entity, body)| (entity, Body::clone(body))).collect();
    all.sort_by_key(|(_, body)| body.id);
    all
}

/// All bodies of the world and of the file.
fn all_bodies(game: &mut Game<CrashDisk>) -> Vec<Body> {
    game.settle();
    let live: Vec<Body> = bodies(game).into_iter().map(|(_, body)| body).collect();
    let world = game.chunks().world().clone();
    let active: BTreeSet<ChunkPos> = game.chunks().phases().map(|(pos, _)| pos).collect();
    let stored = world.chunks_with_bodies(ChunkRect::ALL).into_iter().filter(|pos| !active.contains(pos));
    live.into_iter().chain(stored.flat_map(|pos| world.read_bodies(pos).unwrap())).collect()
}

impl<'t> Life<'t> {
    fn new(seed: u64, tally: &'t mut Tally) -> Self {
        let mut game = start(CrashDisk::new());
        let mut random = Random::new(seed);
        let players = (0..=random.below(2)).map(|_| game.player([0.0, 0.0])).collect();
        game.world().spawn((Saved, Creature { id: CLOCK, food: 0.0 }));
        game.settle();
        let (saved, acknowledged) = Default::default();
        let model = Model::default();
        Self { seed, game, random, players, model, step: 0, saved, acknowledged, tally }
    }

    fn some_cell(&mut self) -> (i32, i32) {
        let span = (2 * REACH as usize + 1) * SIZE as usize;
        let mut along = || self.random.below(span) as i32 - REACH * SIZE as i32;
        (along(), along())
    }

    fn active_cell(&mut self) -> Option<(i32, i32)> {
        let cell = self.some_cell();
        self.game.chunks().is_active(chunk_of(cell)).then_some(cell)
    }

    /// A body that is in the world and has been drawn.
    fn some_body(&mut self) -> Option<(Entity, Body)> {
        let all = bodies(&mut self.game);
        (!all.is_empty()).then(|| self.random.pick(&all).clone())
    }

    fn advance(&mut self) {
        self.step += 1;
        match self.random.below(24) {
            0..3 => {
                let (player, (x, y)) = (*self.random.pick(&self.players), self.some_cell());
                self.game.place(player, [x as f32, y as f32]);
                (0..self.random.below(4)).for_each(|_| self.frame());
            }
            3..6 => self.spawn(),
            6..10 => self.roll(),
            10..12 => self.dig(),
            12..15 => self.dig_body(),
            15 => self.saw(),
            16 => self.make_of_ground(),
            17 => self.crumble(),
            18 => self.kill(),
            19..21 => self.save(),
            21 => self.load(),
            22 => self.settle(),
            _ => self.frame(),
        }
    }

    fn frame(&mut self) {
        self.game.frame();
        self.hear();
    }

    /// Brings the model up to date with what the plugin tells.
    fn hear(&mut self) {
        let mut messages = self.game.world().resource_mut::<Messages<BodyChanged>>();
        let changes: Vec<BodyChanged> = messages.drain().collect();
        for BodyChanged { entity, id, change, .. } in changes {
            match change {
                BodyChange::LostCells(lost) => {
                    let known = self.model.bodies.get_mut(&id).unwrap();
                    let before = known.cells.len();
                    let is_lost = |(at, value): &([u32; 2], u8)| {
                        lost.iter().any(|lost| lost.at == *at && lost.cell == [*value])
                    };
                    known.cells.retain(|cell| !is_lost(cell));
                    assert_eq!(known.cells.len() + lost.len(), before, "it had what it has lost");
                    self.tally.lost += lost.len();
                }
                BodyChange::Broke(come) => self.hear_broken(entity, id, &come),
                BodyChange::Gone => {
                    assert!(self.model.bodies.remove(&id).unwrap().cells.is_empty());
                    self.tally.gone += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        self.follow();
    }

    fn hear_broken(&mut self, entity: Entity, id: BodyId, come: &[Entity]) {
        let world = self.game.world();
        let parts =
            come.iter().chain([&entity]).map(|part| world.get::<PixelBody>(*part).map(|b| Body::clone(b)));
        // Chunks may have left in the same frame.
        let parts = parts.collect::<Option<Vec<Body>>>().unwrap_or_else(|| {
            let is_part = |body: &Body| body.id == id || !self.model.bodies.contains_key(&body.id);
            all_bodies(&mut self.game).into_iter().filter(is_part).collect()
        });
        let before = self.model.bodies.remove(&id).unwrap();
        let materials = |known: &Known| known.cells.iter().map(|(_, value)| *value).collect::<BTreeSet<u8>>();
        let mut count = 0;
        for body in parts {
            let known = Known::of(&body);
            count += known.cells.len();
            assert!(materials(&known).is_subset(&materials(&before)));
            assert!(self.model.bodies.insert(body.id, known).is_none(), "ids are new");
        }
        assert_eq!(count, before.cells.len(), "no cell is lost or doubled when a body breaks");
        self.tally.broken += 1;
    }

    fn settle(&mut self) {
        self.game.settle();
        self.hear();
    }

    fn spawn(&mut self) {
        let Some((x, y)) = self.active_cell() else { return };
        let size = [1 + self.random.below(6) as u32, 1 + self.random.below(5) as u32];
        let cells = (0..size[0] * size[1]).map(|_| 20 + self.random.below(100) as u8).collect();
        self.spawn_body(PixelBody::new(size, cells), [x as f32, y as f32]);
    }

    /// Spawns a body whose centre is in an active chunk.
    fn spawn_body(&mut self, body: PixelBody, [x, y]: [f32; 2]) {
        let entity = self.game.world().spawn((body, Streamed, Transform::from_xyz(x, y, 0.0))).id();
        self.frame();
        let known = match self.game.world().get::<PixelBody>(entity) {
            Some(body) => (body.id().unwrap(), Known::of(body)),
            // Its chunk has left in this frame.
            None => {
                let mut all = all_bodies(&mut self.game).into_iter();
                let new =
                    all.find(|body| !self.model.bodies.contains_key(&body.id)).expect("it is somewhere");
                (new.id, Known::of(&new))
            }
        };
        assert!(self.model.bodies.insert(known.0, known.1).is_none());
    }

    fn roll(&mut self) {
        let Some((entity, body)) = self.some_body() else { return };
        let to = match self.random.chance(70) {
            true => [0, 1].map(|axis: usize| body.position[axis] + self.random.below(9) as f32 * 0.7 - 2.8),
            false => {
                self.tally.rolled_away += 1;
                let (x, y) = self.some_cell();
                [x as f32, y as f32]
            }
        };
        let mut place = self.game.world().get_mut::<Transform>(entity).unwrap();
        (place.translation.x, place.translation.y) = (to[0], to[1]);
        place.rotate_z(0.3);
        let to = ([place.translation.x, place.translation.y], 2.0 * place.rotation.z.atan2(place.rotation.w));
        self.model.bodies.get_mut(&body.id).unwrap().rolled_to = to;
        self.frame();
    }

    fn dig(&mut self) {
        let Some(cell) = self.active_cell() else { return };
        let material = self.random.below(2) as u8 * 9;
        self.dig_ground(cell, material);
        self.frame();
    }

    /// Changes a cell of an active chunk, whatever is there.
    fn dig_ground(&mut self, cell: (i32, i32), material: u8) {
        self.game.dig_cell(cell, material);
        self.model.ground.insert(cell, material);
    }

    /// The cells of the world that show a body.
    fn drawn_of(&mut self, body: &Body) -> Vec<(i32, i32)> {
        let mut found = Vec::new();
        let mut chunks = self.game.world().query::<&ChunkCells>();
        for chunk in chunks.iter(self.game.harness.app.world()) {
            for (at, cell) in cells_of(chunk.pos()) {
                let middle = [f64::from(cell.0) + 0.5, f64::from(cell.1) + 0.5];
                if chunk.is_drawn(at[0], at[1]) && body.cell_at(middle).is_some() {
                    found.push(cell);
                }
            }
        }
        found
    }

    /// Takes cells away from where a body is seen. Another one may be hit.
    fn dig_body(&mut self) {
        let Some((_, body)) = self.some_body() else { return };
        let mut drawn = self.drawn_of(&body);
        let material = self.random.below(2) as u8 * 9;
        for _ in 0..1 + self.random.below(6) {
            if let Some(at) = (!drawn.is_empty()).then(|| self.random.below(drawn.len())) {
                let cell = drawn.swap_remove(at);
                self.dig_ground(cell, material);
            }
        }
        self.frame();
    }

    /// Takes a column out of a body.
    fn saw(&mut self) {
        let Some((entity, body)) = self.some_body() else { return };
        let x = self.random.below(body.width as usize) as u32;
        for y in 0..body.height {
            let is_gone = self.game.world().get_mut::<PixelBody>(entity).unwrap().remove_cell(x, y);
            assert_eq!(is_gone, body.solid(x, y));
        }
        self.model.bodies.get_mut(&body.id).unwrap().cells.retain(|([column, _], _)| *column != x);
        self.frame();
    }

    /// Takes four cells out of the ground, which become a body.
    fn make_of_ground(&mut self) {
        let Some((x, y)) = self.active_cell() else { return };
        let block = [(x, y), (x + 1, y), (x, y + 1), (x + 1, y + 1)];
        let is_there = |cell: &(i32, i32)| self.game.chunks().is_active(chunk_of(*cell));
        if !block.iter().all(is_there) || block.iter().any(|cell| self.model.ground_at(*cell) == 0) {
            return;
        }
        let cells = block.map(|cell| self.model.ground_at(cell)).to_vec();
        block.into_iter().for_each(|cell| self.dig_ground(cell, 0));
        self.spawn_body(PixelBody::new([2, 2], cells), [x as f32 + 1.0, y as f32 + 1.0]);
        self.tally.made_of_ground += 1;
    }

    /// A cell of a body becomes a cell of the ground, where there is none.
    fn crumble(&mut self) {
        let Some((entity, body)) = self.some_body() else { return };
        let Some((cell, value)) = Known::of(&body).cells.first().copied() else { return };
        let Some(to) = self.drawn_of(&body).first().copied() else { return };
        self.game.world().get_mut::<PixelBody>(entity).unwrap().remove_cell(cell[0], cell[1]);
        self.model.bodies.get_mut(&body.id).unwrap().cells.retain(|(other, _)| *other != cell);
        self.dig_ground(to, value.wrapping_add(100));
        self.frame();
    }

    fn kill(&mut self) {
        let Some((entity, body)) = self.some_body() else { return };
        self.game.world().despawn(entity);
        self.model.bodies.remove(&body.id);
        self.frame();
    }

    fn save(&mut self) {
        let clock = self.game.find(CLOCK).unwrap();
        self.game.world().get_mut::<Creature>(clock).unwrap().food = self.step as f32;
        let save = self.game.world().resource_mut::<Saves>().save("quick");
        self.frame();
        self.saved.insert(self.step, self.model.clone());
        if self.random.chance(50) {
            let handle = save.clone();
            self.game.harness.until(move |_| handle.is_complete());
            self.hear();
        }
        if save.wait().is_ok() {
            self.acknowledged.push((self.game.disk.operation_count(), self.step));
        }
    }

    /// Takes over where the bodies are that are in the world.
    fn follow(&mut self) {
        for (_, body) in bodies(&mut self.game) {
            // One whose chunk has left in the frame of its spawn is added later.
            if let Some(known) = self.model.bodies.get_mut(&body.id) {
                known.pose = (body.position, body.rotation);
            }
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
        self.tally.loads += 1;
        self.game.world().resource_mut::<Messages<BodyChanged>>().clear();
        let clock = self.game.find(CLOCK).unwrap();
        let step = self.game.world().get::<Creature>(clock).unwrap().food as u64;
        self.model = self.saved[&step].clone();
        let when = format!("walk {}, step {}, loaded step {step}", self.seed, self.step);
        check(&mut self.game, &self.model, &when);
    }

    fn check_now(&mut self, when: &str) {
        self.settle();
        check(&mut self.game, &self.model, when);
    }
}

/// All cells of a chunk: in the chunk and in the world.
fn cells_of(pos: ChunkPos) -> impl Iterator<Item = ([u32; 2], (i32, i32))> {
    let corner = (pos.x * SIZE as i32, pos.y * SIZE as i32);
    (0..SIZE).flat_map(move |y| (0..SIZE).map(move |x| ([x, y], (corner.0 + x as i32, corner.1 + y as i32))))
}

/// Compares the whole game with a model: what is in the world, what is in the file, and what is seen.
fn check(game: &mut Game<CrashDisk>, model: &Model, when: &str) {
    game.settle();
    let mut found: BTreeMap<BodyId, Known> = BTreeMap::new();
    let live = bodies(game);
    for (entity, body) in &live {
        let home = game.world().get::<InChunk>(*entity).map(|member| member.pos);
        assert_eq!(home, body.chunk(SIZE), "{when}: body {} belongs to the chunk of its centre", body.id);
        assert!(found.insert(body.id, Known::of(body)).is_none(), "{when}: body {} is there twice", body.id);
    }
    let world = game.chunks().world().clone();
    let active: BTreeSet<ChunkPos> = game.chunks().phases().map(|(pos, _)| pos).collect();
    for pos in world.chunks_with_bodies(ChunkRect::ALL).into_iter().filter(|pos| !active.contains(pos)) {
        for body in world.read_bodies(pos).unwrap() {
            let id = body.id;
            assert!(found.insert(id, Known::of(&body)).is_none(), "{when}: body {id} is in {pos}, too");
        }
    }
    for (id, known) in &model.bodies {
        if let Some(there) = found.get_mut(id) {
            let is_where_it_was = there.pose == known.pose || there.pose == known.rolled_to;
            assert!(is_where_it_was, "{when}: body {id} is at {:?}, and not {known:?}", there.pose);
            (there.pose, there.rolled_to) = (known.pose, known.rolled_to);
        }
    }
    assert_eq!(found, model.bodies, "{when}:\n{:?}", game.problems());
    assert!(game.problems().is_empty(), "{when}: {:?}", game.problems());
    let mut chunks = game.world().query::<&ChunkCells>();
    for chunk in chunks.iter(game.harness.app.world()) {
        let saved = chunk.saved_cells();
        for (at, cell) in cells_of(chunk.pos()) {
            let (ground, here) = (model.ground_at(cell), chunk.get(at[0], at[1]).unwrap()[0]);
            assert_eq!(saved[(at[1] * SIZE + at[0]) as usize], ground, "{when}: cell {cell:?}");
            let middle = [f64::from(cell.0) + 0.5, f64::from(cell.1) + 0.5];
            let over: Vec<u8> = live
                .iter()
                .filter_map(|(_, body)| {
                    body.cell_at(middle).map(|[x, y]| body.cells[(y * body.width + x) as usize])
                })
                .collect();
            match chunk.is_drawn(at[0], at[1]) {
                true => assert!(ground == 0 && over.contains(&here), "{when}: a ghost at {cell:?}"),
                false => assert_eq!(here, ground, "{when}: a ghost at {cell:?}"),
            }
            let is_hidden = ground != 0 || over.is_empty();
            assert!(is_hidden || chunk.is_drawn(at[0], at[1]), "{when}: a hole at {cell:?}");
        }
    }
    for cell in model.ground.keys().filter(|cell| !active.contains(&chunk_of(**cell))) {
        let pos = chunk_of(*cell);
        let at = cell.1.rem_euclid(SIZE as i32) * SIZE as i32 + cell.0.rem_euclid(SIZE as i32);
        let there = world.load(pos).unwrap().cells()[at as usize];
        assert_eq!(there, model.ground_at(*cell), "{when}: stored cell {cell:?}");
    }
}

/// Starts the game on what a crash has left, and checks that it is at a moment that was promised.
fn check_crash(disk: CrashDisk, life: &Life<'_>, promised: Option<u64>) {
    let mut game = start(disk);
    game.player([0.0, 0.0]);
    game.frame();
    let load = game.world().resource_mut::<Saves>().load("quick");
    let handle = load.clone();
    game.harness.until(move |_| handle.is_complete());
    match load.wait() {
        Ok(_) => {
            let clock = game.find(CLOCK).unwrap();
            let step = game.world().get::<Creature>(clock).unwrap().food as u64;
            assert!(promised.is_none_or(|promised| promised <= step), "{step} is older than {promised:?}");
            let when = format!("walk {}, a crash, loaded step {step}", life.seed);
            check(&mut game, &life.saved[&step], &when);
        }
        Err(error) => assert!(promised.is_none() && error.is_not_found(), "{promised:?}: {error}"),
    }
}

#[test]
fn every_body_is_once_as_the_model_has_it_and_nothing_else_is_seen() {
    let mut tally = Tally::default();
    let first: u64 =
        std::env::var("BONFIRE_FIRST_WALK").ok().and_then(|first| first.parse().ok()).unwrap_or(0);
    for seed in first..first + 12 * u64::from(scale()) {
        let mut life = Life::new(seed, &mut tally);
        for _ in 0..80 {
            life.advance();
        }
        life.check_now(&format!("walk {seed}, its end"));
        let disk = life.game.disk.clone();
        let points: Vec<_> = disk.crash_points().collect();
        let mut explorer = Explorer::new(seed);
        for _ in 0..3 {
            let point = &points[life.random.below(points.len())];
            let promised = life.acknowledged.iter().rev().find(|(after, _)| *after <= point.after());
            for state in explorer.states(point, 1) {
                check_crash(state.crash_disk(), &life, promised.map(|(_, step)| *step));
                life.tally.crashes += 1;
            }
        }
        life.tally.walks += 1;
        life.tally.saves += life.acknowledged.len();
    }
    println!("{tally:?}");
    let Tally { saves, loads, lost, broken, gone, made_of_ground, .. } = tally;
    assert!([saves, loads, lost, broken, gone, made_of_ground].iter().all(|count| *count > 0));
}

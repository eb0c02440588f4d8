//! The books: what the game has done to cells, bodies and creatures, and the check that nothing was doubled or lost.
//!
//! The books are a saved resource. A save in a slot has the books and all chunks of one moment. So the sum is exact in every
//! save: ground + bodies + dug + destroyed = generated, material by material.

use std::collections::BTreeSet;

use bevy_bonfire::chunks::{
    BodyChange, BodyChanged, BodyId, ChunkCells, ChunkChanged, ChunkPhase, ChunkPos, ChunkRect, ChunkWorld,
    Chunks, PixelBody,
};
use bevy_bonfire::core::Snapshot;
use bevy_bonfire::prelude::*;
use bevy_bonfire::{Result, StandIn};
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::prelude::*;
use bevy_ecs::query::Allow;

use super::bodies::solid;
use super::creatures::Firefly;
use super::terrain::{Counts, KEPT, NAMES, SIZE, count, generate};

/// What has happened since the world began.
#[derive(Resource, Persist, Clone, Debug, Default)]
#[persist(key = "game.books")]
pub(crate) struct Books {
    pub(crate) seed: u64,
    /// Steps of the simulation.
    pub(crate) step: u64,
    /// Chunks that were active at some time. The others are as generated.
    pub(crate) touched: BTreeSet<(i32, i32)>,
    /// Cells of bodies that chunks were generated with.
    pub(crate) made: Counts,
    /// Cells of the ground that were dug.
    pub(crate) dug: Counts,
    /// Cells that bodies have lost.
    pub(crate) destroyed: Counts,
    /// Grains of sand that have fallen from one chunk into another.
    pub(crate) crossed: u64,
    /// Bodies that have broken, and those that are gone.
    pub(crate) broken: u64,
    pub(crate) gone: u64,
    /// Numbers of creatures.
    pub(crate) born: BTreeSet<u64>,
    pub(crate) died: BTreeSet<u64>,
}

/// Books what has become of a body. It happens in `ChunkSystems`, before the save of the frame.
pub(crate) fn book_body(changed: On<BodyChanged>, mut books: ResMut<Books>) {
    match &changed.change {
        BodyChange::LostCells(cells) => {
            for lost in cells {
                books.destroyed[usize::from(lost.cell[0])] += 1;
            }
        }
        BodyChange::Broke(_) => books.broken += 1,
        BodyChange::Gone => books.gone += 1,
        _ => {}
    }
}

pub(crate) fn note_chunk(changed: On<ChunkChanged>, mut books: ResMut<Books>) {
    if changed.to == Some(ChunkPhase::Active) {
        books.touched.insert((changed.pos.x, changed.pos.y));
    }
}

/// What a check has counted.
#[derive(Debug, Default)]
pub(crate) struct Proof {
    pub(crate) step: u64,
    pub(crate) chunks: usize,
    /// Cells that are there, and those that were generated, by material.
    pub(crate) found: Counts,
    pub(crate) made: Counts,
    pub(crate) bodies: usize,
    pub(crate) creatures: usize,
}

impl std::fmt::Display for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { step, chunks, found, bodies, creatures, .. } = self;
        let cells: u64 = found[1..].iter().sum();
        write!(f, "step {step}: {chunks} chunks, {cells} solid cells, {bodies} bodies, {creatures} creatures")
    }
}

/// What is in the world or in the file, each place once.
#[derive(Default)]
struct Found {
    ground: Counts,
    in_bodies: Counts,
    bodies: Vec<BodyId>,
    creatures: Vec<u64>,
}

impl Found {
    fn add_body(&mut self, body: &bevy_bonfire::chunks::Body) {
        self.bodies.push(body.id);
        add(&mut self.in_bodies, &solid(body));
    }

    /// Adds the bodies and creatures that a file has in chunks.
    fn add_stored(&mut self, file: &ChunkWorld, is_counted: impl Fn(&ChunkPos) -> bool) -> Result<()> {
        for pos in file.chunks_with_bodies(ChunkRect::ALL).into_iter().filter(&is_counted) {
            file.read_bodies(pos)?.iter().for_each(|body| self.add_body(body));
        }
        for pos in file.chunks_with_entities(ChunkRect::ALL).into_iter().filter(&is_counted) {
            let Some(bytes) = file.read_entities(pos)? else { continue };
            let mut world = World::new();
            world.persist::<Firefly>();
            world.load(&Snapshot::open(&bytes)?, LoadMode::Merge)?;
            let mut fireflies = world.query_filtered::<&Firefly, Allow<Disabled>>();
            self.creatures.extend(fireflies.iter(&world).map(|firefly| firefly.number));
        }
        Ok(())
    }

    /// No id is there twice.
    fn check_ids(&self) {
        let (mut bodies, mut creatures) = (self.bodies.clone(), self.creatures.clone());
        bodies.sort_unstable();
        creatures.sort_unstable();
        assert!(bodies.is_sorted_by(|one, next| one < next), "a body is there twice: {bodies:?}");
        assert!(creatures.is_sorted_by(|one, next| one < next), "a creature is there twice: {creatures:?}");
    }
}

fn add(sum: &mut Counts, counts: &Counts) {
    sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}

fn generated(file: &ChunkWorld, pos: ChunkPos) -> Counts {
    let mut cells = vec![0; (SIZE * SIZE) as usize];
    generate(&file.shape(0).expect("dimension 0 is always there"), pos, &mut cells);
    count(&cells)
}

/// Checks the books of the running game. Chunks that are active are counted in the world, the others in the file.
pub(crate) fn check(world: &mut World) -> Result<Proof> {
    let (books, chunks) = (world.resource::<Books>().clone(), world.resource::<Chunks>());
    assert!(chunks.is_settled() && chunks.is_saved(), "what has left is in the file");
    let file = chunks.world().clone();
    let active: BTreeSet<ChunkPos> =
        chunks.phases().filter(|(_, phase)| *phase == ChunkPhase::Active).map(|(pos, _)| pos).collect();
    let (mut expected, mut found) = (books.made, Found::default());
    for pos in books.touched.iter().map(|pos| ChunkPos::from(*pos)) {
        add(&mut expected, &generated(&file, pos));
        let entity = world.resource::<Chunks>().entity(pos).filter(|_| active.contains(&pos));
        // Without the cells of bodies, which are counted with the bodies.
        add(
            &mut found.ground,
            &match entity.and_then(|entity| world.get::<ChunkCells>(entity)) {
                Some(cells) => count(&cells.saved_cells()),
                None => count(file.load(pos)?.cells()),
            },
        );
    }
    found.add_stored(&file, |pos| !active.contains(pos))?;
    let mut bodies = world.query_filtered::<&PixelBody, Allow<Disabled>>();
    bodies.iter(world).for_each(|body| found.add_body(body));
    let mut fireflies = world.query_filtered::<&Firefly, Allow<Disabled>>();
    found.creatures.extend(fireflies.iter(world).map(|firefly| firefly.number));

    found.check_ids();
    for material in 1..NAMES.len() {
        let [ground, bodies] = [found.ground, found.in_bodies].map(|counts| counts[material]);
        let (dug, destroyed) = (books.dug[material], books.destroyed[material]);
        assert_eq!(
            ground + bodies + dug + destroyed,
            expected[material],
            "{}: {ground} in the ground, {bodies} in bodies, {dug} dug, {destroyed} destroyed",
            NAMES[material]
        );
    }
    let alive: BTreeSet<u64> = books.born.difference(&books.died).copied().collect();
    assert_eq!(
        found.creatures.iter().copied().collect::<BTreeSet<u64>>(),
        alive,
        "all that were born and have not died"
    );
    check_friends(world);
    let mut cells = found.ground;
    add(&mut cells, &found.in_bodies);
    Ok(Proof {
        step: books.step,
        chunks: books.touched.len(),
        found: cells,
        made: expected,
        bodies: found.bodies.len(),
        creatures: found.creatures.len(),
    })
}

/// A reference leads to the friend, or to the stand-in of a friend who is away. It never leads to another creature.
fn check_friends(world: &mut World) {
    let mut fireflies = world.query_filtered::<&Firefly, Allow<Disabled>>();
    for firefly in fireflies.iter(world) {
        let Some(friend) = firefly.friend.and_then(|friend| world.get_entity(friend).ok()) else { continue };
        match friend.get::<Firefly>() {
            Some(found) => assert_eq!(found.number, firefly.friend_number, "another one"),
            None => assert!(friend.contains::<StandIn>(), "the friend of {} is no creature", firefly.number),
        }
    }
}

/// Checks a chunk file as a crash has left it. It has no books, and still no id twice, and every cell that the game never
/// destroys.
pub(crate) fn check_file(file: &ChunkWorld) -> Result<()> {
    let (mut expected, mut found) = (Counts::default(), Found::default());
    for pos in file.iter() {
        add(&mut expected, &generated(file, pos));
        add(&mut found.ground, &count(file.load(pos)?.cells()));
    }
    found.add_stored(file, |_| true)?;
    found.check_ids();
    for material in KEPT.map(usize::from) {
        let found = found.ground[material] + found.in_bodies[material];
        assert_eq!(found, expected[material], "{} in the file", NAMES[material]);
    }
    Ok(())
}

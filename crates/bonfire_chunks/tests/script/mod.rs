//! Random saves of small worlds, and what must be there after them.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

pub mod history;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bonfire::{EncodeOptions, Persist, Result};
use bonfire_chunks::{
    Body, BodyId, ChunkOptions, ChunkPos, ChunkRect, ChunkWorld, Dimension, Durability, Edit, Generator,
    Layer, Layers, Persistence, WorldShape,
};
use bonfire_store::disk::{Access, Disk};
use bonfire_testkit::ModelWorld;
use bonfire_testkit::disk::Random;

pub const NAME: &str = "world.save";
/// Cells along an edge of a chunk, and bytes of a chunk.
pub const SIZE: usize = 4;
pub const CHUNK_BYTES: usize = SIZE * SIZE * 4;
/// The dimension of worlds with three that has cubes, and the one that has squares.
pub const CUBES: u32 = 1;
pub const SQUARES: u32 = 9;
/// Cells along an edge of a cube.
pub const CUBE_SIZE: usize = 2;

/// Bytes of a chunk.
pub fn chunk_bytes(pos: ChunkPos) -> usize {
    if pos.dimension == CUBES { CUBE_SIZE.pow(3) * 4 } else { CHUNK_BYTES }
}

/// Everything that a world holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    pub pins: BTreeMap<String, PinnedModel>,
    pub cells: BTreeMap<ChunkPos, Vec<u8>>,
    pub bodies: BTreeMap<ChunkPos, Vec<Body>>,
    pub entities: BTreeMap<ChunkPos, Vec<u8>>,
}

/// A pinned moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PinnedModel {
    pub metadata: Vec<u8>,
    /// Without pins.
    pub moment: Model,
}

impl Model {
    /// Reads a whole world, and all moments that are pinned.
    pub fn of(world: &ChunkWorld) -> Result<Self> {
        let mut model = Self::moment_of(world)?;
        for pin in world.pins() {
            let moment = Self::moment_of(&world.at(&pin.name)?)?;
            model.pins.insert(pin.name, PinnedModel { metadata: pin.metadata, moment });
        }
        Ok(model)
    }

    /// What a world holds now.
    fn moment(&self) -> Self {
        Self { pins: BTreeMap::new(), ..self.clone() }
    }

    fn moment_of(world: &ChunkWorld) -> Result<Self> {
        let there = |pos: ChunkPos| format!("{pos} is listed");
        let mut model = Self::default();
        for pos in world.iter() {
            model.cells.insert(pos, world.read(pos)?.unwrap_or_else(|| panic!("{}", there(pos))));
        }
        for pos in world.chunks_with_bodies(ChunkRect::ALL) {
            let bodies = world.read_bodies(pos)?;
            if !bodies.is_empty() {
                model.bodies.insert(pos, bodies);
            }
        }
        for pos in world.chunks_with_entities(ChunkRect::ALL) {
            model.entities.insert(pos, world.read_entities(pos)?.unwrap_or_else(|| panic!("{}", there(pos))));
        }
        Ok(model)
    }

    /// How many things it holds of each kind.
    pub fn counts(&self) -> String {
        format!(
            "{} chunks, {} lists of bodies, {} of entities, pins {:?}",
            self.cells.len(),
            self.bodies.len(),
            self.entities.len(),
            self.pins.iter().map(|(name, pin)| (name, pin.moment.counts())).collect::<Vec<_>>()
        )
    }

    fn remove(&mut self, pos: ChunkPos) {
        self.cells.remove(&pos);
        self.bodies.remove(&pos);
        self.entities.remove(&pos);
    }

    fn take_body(&mut self, id: BodyId) {
        self.bodies.values_mut().for_each(|bodies| bodies.retain(|body| body.id != id));
        self.bodies.retain(|_, bodies| !bodies.is_empty());
    }
}

/// How the worlds of a script are opened.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub eager: bool,
    pub generated: bool,
    pub compat: bool,
    pub compacts: bool,
    /// Needs the feature `seal`.
    pub sealed: bool,
    /// The world has three dimensions, one of them of cubes.
    pub deep: bool,
    /// A compaction is under way most of the time, and copies so many bytes in a step. 0: they are rare.
    pub step_bytes: u64,
}

impl Shape {
    pub const PLAIN: Self = Self {
        eager: false,
        generated: false,
        compat: false,
        compacts: false,
        sealed: false,
        deep: false,
        step_bytes: 0,
    };

    pub fn random(random: &mut Random) -> Self {
        Self {
            eager: random.chance(50),
            generated: random.chance(50),
            compat: random.chance(25),
            compacts: random.chance(50),
            sealed: false,
            deep: false,
            step_bytes: 0,
        }
    }

    /// The same world, with three dimensions.
    pub fn deep(self) -> Self {
        Self { compat: false, deep: true, ..self }
    }

    /// The same world, compacted in small steps all the time.
    pub fn in_steps(self, random: &mut Random) -> Self {
        Self { compacts: true, step_bytes: 100 + random.below(1500) as u64, ..self }
    }

    /// The same world, sealed.
    pub fn sealed(self) -> Self {
        Self { compat: false, sealed: true, ..self }
    }

    pub fn options(self) -> ChunkOptions {
        // The default asks the system for the number of its processors, which takes as long as opening a world.
        static PLAIN: OnceLock<ChunkOptions> = OnceLock::new();
        let layers = || {
            let material = Layer::new("material", 2).persistence(Persistence::Always);
            Layers::new().with(material).with(Layer::new("colour", 2))
        };
        let plain = || {
            ChunkOptions::new(layers())
                .chunk_size(SIZE as u16)
                .tile_size(2)
                .seed(5)
                .created(1_700_000_000)
                .table_capacity(4)
                .threads(1)
                .compact_at_least(2500)
        };
        let mut options = PLAIN.get_or_init(plain).clone().compact_above(self.compacts.then_some(0.5));
        if self.step_bytes > 0 {
            options =
                options.compact_above(Some(0.05)).compact_at_least(300).compaction_step(self.step_bytes);
        }
        if self.eager {
            options = options.eager();
        }
        if self.compat {
            options = options.compat();
        }
        #[cfg(feature = "seal")]
        if self.sealed {
            static KEY: OnceLock<bonfire_store::SealKey> = OnceLock::new();
            options = options.sealed(KEY.get_or_init(|| bonfire_store::SealKey::from_bytes([7; 32])).clone());
        }
        if self.deep {
            let cubes =
                Dimension::new(layers()).chunk_size(CUBE_SIZE as u16).tile_size(1).three_dimensional();
            let squares = Dimension::new(layers()).chunk_size(SIZE as u16).tile_size(4).seed(77);
            for (number, dimension) in [(CUBES, cubes), (SQUARES, squares)] {
                let dimension = if self.generated { dimension.generator(Stripes) } else { dimension };
                options = options.dimension(number, dimension);
            }
        }
        if self.generated { options.generator(Stripes) } else { options }
    }

    pub fn open(self, disk: impl Disk + 'static) -> Result<ChunkWorld> {
        self.options().open_on(disk, NAME, Access::Write)
    }
}

/// A generator that is quick.
pub struct Stripes;

pub fn generated(pos: ChunkPos) -> Vec<u8> {
    let stripe = (pos.x.wrapping_mul(3) ^ pos.y ^ pos.z.wrapping_mul(5)) as u8;
    (0..chunk_bytes(pos)).map(|at| if at % 8 < 4 { stripe } else { 0 }).collect()
}

impl Generator for Stripes {
    fn generate(&self, _: &WorldShape<'_>, pos: ChunkPos, cells: &mut [u8]) {
        cells.copy_from_slice(&generated(pos));
    }

    fn version(&self) -> u32 {
        3
    }
}

#[derive(Clone, Persist)]
#[persist(key = "script.chest")]
struct Chest {
    items: Vec<u16>,
    owner: Option<String>,
    locked: bool,
}

/// Some snapshots of entities.
pub fn snapshots() -> &'static [Vec<u8>] {
    static SNAPSHOTS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let of = |count: usize| {
        let mut world = ModelWorld::new();
        world.register::<Chest>().expect("a fresh registry");
        for number in 0..count {
            let id = world.spawn();
            let items = (0..number as u16 * 7).collect();
            world
                .insert(id, Chest { items, owner: Some(format!("owner {number}")), locked: number % 2 == 0 });
        }
        world.save().and_then(|all| all.encode(&EncodeOptions::default())).expect("a small world").to_vec()
    };
    SNAPSHOTS.get_or_init(|| [0, 1, 2, 6].map(of).to_vec())
}

pub fn body(id: u64, pos: ChunkPos, extension: Vec<u8>) -> Body {
    let centre = |at: i32| (at * SIZE as i32) as f32 + 0.5;
    Body {
        id: BodyId(id),
        position: [centre(pos.x), centre(pos.y)],
        rotation: 0.5,
        linear_velocity: [1.0, -2.0],
        angular_velocity: 0.25,
        width: 3,
        height: 2,
        origin: [-1, -1],
        cells: (0..24).map(|at| at ^ id as u8).collect(),
        mask: vec![0b10_1101],
        extension,
    }
}

fn random_pos(random: &mut Random, shape: Shape) -> ChunkPos {
    let pos = ChunkPos::new(random.below(5) as i32 - 2, random.below(5) as i32 - 2);
    match shape.deep.then(|| random.below(3)) {
        Some(1) => ChunkPos { z: random.below(3) as i32 - 1, ..pos }.in_dimension(CUBES),
        Some(2) => pos.in_dimension(SQUARES),
        _ => pos,
    }
}

fn random_cells(random: &mut Random, pos: ChunkPos) -> Vec<u8> {
    let mut cells = match random.below(8) {
        0 => return vec![0; chunk_bytes(pos)],
        1 => return generated(pos),
        2 | 3 => generated(pos),
        _ => random.bytes(chunk_bytes(pos)),
    };
    let at = random.below(chunk_bytes(pos));
    cells[at] = cells[at].wrapping_add(1);
    cells
}

/// An edit, of a world that holds `model`, which becomes what the world holds once the edit is saved.
pub fn random_edit(random: &mut Random, world: &ChunkWorld, shape: Shape, model: &mut Model) -> Edit {
    let mut edit = world.edit();
    let put = |edit: &mut Edit, model: &mut Model, pos: ChunkPos, cells: Vec<u8>| {
        if shape.generated && cells == generated(pos) {
            model.cells.remove(&pos);
        } else {
            model.cells.insert(pos, cells.clone());
        }
        edit.put(pos, cells);
    };
    // Sometimes so many at once that the table does not fit in front of the first frames.
    if random.chance(3) {
        for number in 0..24 {
            let pos = ChunkPos::new(number % 6 + 3, number / 6);
            let cells = random.bytes(CHUNK_BYTES);
            put(&mut edit, model, pos, cells);
        }
        return edit;
    }
    let mut touched = Vec::new();
    for _ in 0..1 + random.below(5) {
        let pos = random_pos(random, shape);
        if touched.contains(&pos) {
            continue;
        }
        touched.push(pos);
        match random.below(10) {
            0 | 1 => {
                model.remove(pos);
                edit.remove(pos);
            }
            2 => {
                let snapshot = random.pick(snapshots()).clone();
                model.entities.insert(pos, snapshot.clone());
                edit.put_entities(pos, snapshot);
            }
            _ => {
                let cells = random_cells(random, pos);
                put(&mut edit, model, pos, cells);
            }
        }
    }
    if random.chance(30) {
        let pos = random_pos(random, shape);
        // Bodies have two coordinates.
        let pos = if pos.dimension == CUBES { ChunkPos::new(pos.x, pos.y) } else { pos };
        let id = random.below(5) as u64 + 1 + ((random.below(3) as u64) << 32);
        if !touched.contains(&pos) {
            let len = *random.pick(&[0, 10, 400, 700]);
            let moved = body(id, pos, random.bytes(len));
            model.take_body(moved.id);
            let list = model.bodies.entry(pos).or_default();
            list.push(moved);
            edit.put_bodies(pos, list.clone());
        }
    }
    if random.chance(5) {
        world.body_ids().expect("a disk in memory");
    }
    edit
}

/// What is done with pins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinStep {
    Pin(&'static str),
    /// With a save.
    SaveAndPin(&'static str, Durability),
    Unpin(&'static str),
    ReturnTo(&'static str),
}

impl PinStep {
    /// A step that the world can do.
    pub fn random(random: &mut Random, model: &Model) -> Self {
        const NAMES: [&str; 3] = ["quick", "boss", "day 1"];
        let there: Vec<&'static str> =
            NAMES.into_iter().filter(|name| model.pins.contains_key(*name)).collect();
        let any = *random.pick(&NAMES);
        match (random.below(10), there.is_empty()) {
            (0..3, false) => Self::ReturnTo(random.pick::<&str>(&there)),
            (3 | 4, false) => Self::Unpin(random.pick::<&str>(&there)),
            (5 | 6, _) => {
                let is_synced = random.chance(60);
                Self::SaveAndPin(any, if is_synced { Durability::Synced } else { Durability::Buffered })
            }
            _ => Self::Pin(any),
        }
    }

    /// Returns true if a crash afterwards takes nothing back.
    pub fn is_durable(self) -> bool {
        self != Self::SaveAndPin(self.name(), Durability::Buffered)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Pin(name) | Self::SaveAndPin(name, _) | Self::Unpin(name) | Self::ReturnTo(name) => name,
        }
    }

    /// Plans the step for a world that holds `model`, which becomes what it holds afterwards.
    pub fn plan<'w>(
        self,
        random: &mut Random,
        world: &'w ChunkWorld,
        shape: Shape,
        model: &mut Model,
    ) -> impl FnOnce() -> Result<()> + 'w {
        let mut edit = world.edit();
        if let Self::SaveAndPin(..) = self {
            edit = random_edit(random, world, shape, model);
        }
        let len = random.below(40);
        let metadata = random.bytes(len);
        match self {
            Self::Pin(name) | Self::SaveAndPin(name, _) => {
                let pin = PinnedModel { metadata: metadata.clone(), moment: model.moment() };
                model.pins.insert(name.to_owned(), pin);
            }
            Self::Unpin(name) => drop(model.pins.remove(name)),
            Self::ReturnTo(name) => {
                let pins = std::mem::take(&mut model.pins);
                *model = Model { pins: BTreeMap::new(), ..pins[name].moment.clone() };
                model.pins = pins;
            }
        }
        move || match self {
            Self::Pin(name) => world.pin(name, metadata).map(drop),
            Self::SaveAndPin(name, durability) => edit.pin(name, metadata).commit(durability).map(drop),
            Self::Unpin(name) => world.unpin(name).map(|was_there| assert!(was_there, "{name} was pinned")),
            Self::ReturnTo(name) => world.return_to(name),
        }
    }
}

//! A game without an ECS, whose creatures stream with their chunks.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

pub mod model;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bonfire::engine::SnapshotWriter;
use bonfire::{DataEntry, Registry, Result, Snapshot};
use bonfire_chunks::stream::{ChunkPhase, ChunkStream, Decoder, StreamEvent, StreamOptions, StreamedWorld};
use bonfire_chunks::{
    Chunk, ChunkOptions, ChunkPos, ChunkRevision, ChunkWorker, ChunkWorld, Layer, Layers, Persistence,
};
use bonfire_store::disk::{Access, Disk};

/// Cells along an edge of a chunk.
pub const SIZE: i32 = 8;

pub fn layers() -> Layers {
    Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always))
}

pub fn options() -> ChunkOptions {
    let generator = |_: &bonfire_chunks::WorldShape<'_>, pos: ChunkPos, cells: &mut [u8]| {
        cells.fill(generated(pos));
    };
    ChunkOptions::new(layers()).chunk_size(SIZE as u16).generator(generator).compact_above(None)
}

/// Every cell of a chunk, as it is generated.
pub fn generated(pos: ChunkPos) -> u8 {
    (pos.x.rem_euclid(5) + 5 * pos.y.rem_euclid(3)) as u8
}

pub fn open(disk: &(impl Disk + Clone + 'static)) -> Result<ChunkWorld> {
    options().open_on(disk.clone(), "world.save", Access::Write)
}

/// A creature: its stable id and its cell.
pub type Creature = (u64, (i32, i32));

/// The chunk that a cell lies in.
pub fn chunk_of(cell: (i32, i32)) -> ChunkPos {
    ChunkPos::new(cell.0.div_euclid(SIZE), cell.1.div_euclid(SIZE))
}

fn encode(creatures: &BTreeMap<u64, (i32, i32)>) -> Snapshot {
    let registry = Registry::new();
    let mut writer = SnapshotWriter::new(&registry);
    let list: Vec<Creature> = creatures.iter().map(|(id, cell)| (*id, *cell)).collect();
    writer.data_entry(DataEntry::new("game.creatures", &list).unwrap());
    writer.finish().unwrap()
}

pub fn decode(snapshot: &Snapshot) -> Result<Vec<Creature>> {
    snapshot.data()[0].get()
}

#[derive(Default)]
struct LiveChunk {
    cells: Option<Chunk>,
    creatures: BTreeMap<u64, (i32, i32)>,
    is_changed: bool,
}

/// The world of the game: what is loaded.
#[derive(Default)]
pub struct Game {
    chunks: BTreeMap<ChunkPos, LiveChunk>,
    /// Creatures that wait for a chunk, and the chunk that they are in.
    waiting: BTreeMap<u64, (ChunkPos, ChunkPos)>,
    /// True if creatures are generated, by the place of their chunk.
    pub populate: bool,
    pub refuses_captures: bool,
    /// How long each chunk takes to become active.
    pub slow: Duration,
    pub events: Vec<StreamEvent>,
    /// Creatures that were generated, for a test to take.
    pub born: Vec<Creature>,
    /// Creatures that have entered a chunk that was loaded for them, for a test to take.
    pub entered: Vec<(u64, ChunkPos)>,
    /// The number of the events of each phase that a chunk came to.
    pub seen: BTreeMap<ChunkPos, Vec<Option<ChunkPhase>>>,
}

impl StreamedWorld for Game {
    type Prepared = Vec<Creature>;

    fn decoder(&mut self) -> Result<Decoder<Vec<Creature>>> {
        Ok(Arc::new(|_, snapshot| decode(&snapshot)))
    }

    fn stage(&mut self, chunk: Chunk) {
        let here = self.chunks.entry(chunk.pos()).or_default();
        assert!(here.cells.is_none(), "{} is staged twice", chunk.pos());
        here.cells = Some(chunk);
    }

    fn activate(&mut self, pos: ChunkPos, entities: Option<Vec<Creature>>) -> Result<()> {
        let generated = || {
            let id =
                u64::from((pos.x + 1000).unsigned_abs()) << 32 | u64::from((pos.y + 1000).unsigned_abs());
            vec![(1 << 63 | id, (pos.x * SIZE + 1, pos.y * SIZE + 2))]
        };
        std::thread::sleep(self.slow);
        let is_new = entities.is_none();
        let creatures = match entities {
            Some(creatures) => creatures,
            None if self.populate => generated(),
            None => Vec::new(),
        };
        for (id, _) in &creatures {
            assert_eq!(self.home(*id), None, "creature {id:x} comes with {pos} and is there already");
        }
        let here = self.chunks.get_mut(&pos).unwrap();
        here.is_changed = is_new && !creatures.is_empty();
        if is_new {
            self.born.extend(&creatures);
        }
        here.creatures.extend(creatures);
        Ok(())
    }

    fn admit(&mut self, pos: ChunkPos) -> Vec<ChunkPos> {
        let entering = self.waiting.extract_if(.., |_, (_, to)| *to == pos).collect::<Vec<_>>();
        let mut from = BTreeSet::new();
        for (id, (old, new)) in entering {
            if let Some(cell) = self.chunks.get_mut(&old).and_then(|chunk| chunk.creatures.remove(&id)) {
                self.chunks.get_mut(&old).unwrap().is_changed = true;
                let here = self.chunks.get_mut(&new).unwrap();
                here.creatures.insert(id, cell);
                here.is_changed = true;
                self.entered.push((id, new));
                from.insert(old);
            }
        }
        from.into_iter().collect()
    }

    fn chunk(&self, pos: ChunkPos) -> Option<&Chunk> {
        self.chunks.get(&pos)?.cells.as_ref()
    }

    fn saved(&mut self, pos: ChunkPos, revision: ChunkRevision) {
        if let Some(cells) = self.chunks.get_mut(&pos).and_then(|chunk| chunk.cells.as_mut()) {
            cells.saved(revision);
        }
    }

    fn is_changed(&mut self, pos: ChunkPos) -> bool {
        self.chunks[&pos].is_changed
    }

    fn capture(&mut self, chunks: &[ChunkPos]) -> Result<Vec<(ChunkPos, Snapshot)>> {
        if self.refuses_captures {
            return Err(bonfire::Error::custom("captures are refused"));
        }
        let mut captured = Vec::new();
        for pos in chunks {
            let here = self.chunks.get_mut(pos).unwrap();
            if std::mem::take(&mut here.is_changed) {
                captured.push((*pos, encode(&here.creatures)));
            }
        }
        Ok(captured)
    }

    fn remove(&mut self, pos: ChunkPos) {
        let gone = self.chunks.remove(&pos).unwrap();
        self.waiting.retain(|id, _| !gone.creatures.contains_key(id));
    }

    fn notify(&mut self, event: StreamEvent) {
        if let StreamEvent::Phase(change) = &event {
            self.seen.entry(change.pos).or_default().push(change.to);
        }
        self.events.push(event);
    }
}

impl Game {
    /// The chunk whose creatures have one.
    pub fn home(&self, id: u64) -> Option<ChunkPos> {
        self.chunks.iter().find(|(_, chunk)| chunk.creatures.contains_key(&id)).map(|(pos, _)| *pos)
    }

    pub fn creatures(&self) -> BTreeMap<u64, (i32, i32)> {
        let all = self.chunks.values().flat_map(|chunk| &chunk.creatures);
        all.map(|(id, cell)| (*id, *cell)).collect()
    }

    pub fn live_cells(&self) -> impl Iterator<Item = (ChunkPos, &[u8])> {
        self.chunks.iter().map(|(pos, chunk)| (*pos, chunk.cells.as_ref().unwrap().cells()))
    }

    /// The cells and the creatures of each chunk.
    pub fn view(&self) -> impl Iterator<Item = (ChunkPos, &[u8], &BTreeMap<u64, (i32, i32)>)> {
        self.chunks.iter().map(|(pos, chunk)| (*pos, chunk.cells.as_ref().unwrap().cells(), &chunk.creatures))
    }

    /// Puts a new creature into an active chunk.
    pub fn spawn(&mut self, id: u64, cell: (i32, i32)) {
        let here = self.chunks.get_mut(&chunk_of(cell)).unwrap();
        here.creatures.insert(id, cell);
        here.is_changed = true;
    }

    /// Puts a new creature into an active chunk of any dimension.
    pub fn spawn_in(&mut self, id: u64, pos: ChunkPos) {
        let here = self.chunks.get_mut(&pos).unwrap();
        here.creatures.insert(id, (0, 0));
        here.is_changed = true;
    }

    pub fn kill(&mut self, id: u64) {
        let home = self.home(id).unwrap();
        let here = self.chunks.get_mut(&home).unwrap();
        here.creatures.remove(&id);
        here.is_changed = true;
        self.waiting.remove(&id);
    }

    /// Moves a creature that is loaded, as far as its chunk allows.
    pub fn walk(&mut self, stream: &mut ChunkStream<Vec<Creature>>, id: u64, to: (i32, i32)) {
        let Some(from) = self.home(id) else { return };
        let target = chunk_of(to);
        if let Some((_, waits_for)) = self.waiting.remove(&id) {
            stream.end_visit(waits_for);
        }
        let here = self.chunks.get_mut(&from).unwrap();
        here.creatures.insert(id, to);
        here.is_changed = true;
        if target == from {
            return;
        }
        if stream.is_active(target) {
            here.creatures.remove(&id);
            let there = self.chunks.get_mut(&target).unwrap();
            there.creatures.insert(id, to);
            there.is_changed = true;
            stream.exchanged(from, target);
        } else {
            self.waiting.insert(id, (from, target));
            stream.visit(target);
        }
    }

    pub fn dig(&mut self, cell: (i32, i32), material: u8) {
        let (x, y) = (cell.0.rem_euclid(SIZE) as u32, cell.1.rem_euclid(SIZE) as u32);
        let chunk = self.chunks.get_mut(&chunk_of(cell)).unwrap().cells.as_mut().unwrap();
        chunk.set(x, y, &[material]).unwrap();
    }
}

/// A game and its stream.
pub struct Session {
    pub game: Game,
    pub stream: ChunkStream<Vec<Creature>>,
}

/// The creatures that the file has in a chunk, by id.
pub fn creatures_in(world: &ChunkWorld, pos: impl Into<ChunkPos>) -> Vec<Creature> {
    let stored = world.read_entities(pos).unwrap();
    stored.map(|bytes| decode(&Snapshot::open(&bytes).unwrap()).unwrap()).unwrap_or_default()
}

impl Session {
    pub fn new(world: ChunkWorld) -> Self {
        Self::with(ChunkWorker::options().reading_threads(2).start(world))
    }

    pub fn with(worker: ChunkWorker) -> Self {
        Self { game: Game::default(), stream: ChunkStream::new(worker) }
    }

    /// Returns another stream of the same world, with other options.
    pub fn stream_with(&self, set: impl FnOnce(&mut StreamOptions)) -> ChunkStream<Vec<Creature>> {
        let mut options = StreamOptions::default();
        set(&mut options);
        ChunkStream::with_options(self.stream.worker().clone(), options)
    }

    pub fn start(disk: &(impl Disk + Clone + 'static)) -> Self {
        Self::new(open(disk).unwrap())
    }

    pub fn frame(&mut self) {
        self.stream.update(&mut self.game, Duration::from_millis(2)).unwrap();
    }

    /// Lets frames pass until something holds.
    pub fn until(&mut self, mut holds: impl FnMut(&mut Self) -> bool) {
        let begin = Instant::now();
        while !holds(self) {
            self.frame();
            assert!(begin.elapsed() < Duration::from_secs(60), "it never came: {:?}", self.stream.status());
            std::thread::yield_now();
        }
    }

    /// Until the window stands still and everything is durable.
    pub fn settle(&mut self) {
        self.frame();
        self.until(|session| session.stream.is_settled() && session.stream.is_saved());
    }
}

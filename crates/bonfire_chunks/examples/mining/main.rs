//! A mining game without an engine: a player walks through a generated world, digs, blasts and builds, while a worker reads
//! and saves chunks behind its back. Then the machine "crashes", and then the game gets a second release.
//!
//! `cargo run -p bonfire_chunks --example mining -- --keep DIR` leaves DIR/world.save there, with every chunk of the middle of
//! the world stored whole: `bonfire map DIR/world.save world.png --shade shade` draws it without the game.

mod terrain;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use bonfire_chunks::{
    Body, BodyIds, Chunk, ChunkLoadHandle, ChunkOptions, ChunkPos, ChunkRect, ChunkRevision, ChunkWorker,
    ChunkWorld, CommitHandle, Durability, Edit, Layer, Layers, Persistence, Priority, StoredChunk,
};
use terrain::*;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

const SEED: u64 = 42;
/// The frame in which the player begins to dig.
const SHAFT: i32 = 28;
/// Chunks around the player that are in memory.
const REACH: u32 = 2;

/// The numbers of materials in the first release, and in the second one, where coal and gold have changed places.
fn numbers(release: u32) -> [u8; NAMES.len()] {
    let mut numbers = std::array::from_fn(|number| number as u8);
    if release == 2 {
        numbers.swap(usize::from(COAL), usize::from(GOLD));
    }
    numbers
}

fn options(release: u32) -> ChunkOptions {
    let names = numbers(release).into_iter().map(u32::from).zip(NAMES);
    let mut layers = Layers::new()
        .with(Layer::new("material", 1).persistence(Persistence::Always))
        .with(Layer::new("shade", 1))
        .materials("material", names);
    if release == 2 {
        layers = layers.with(Layer::new("light", 1).default_value(&[15]));
    }
    let terrain = Terrain { seed: SEED, cell_bytes: layers.cell_bytes(), numbers: numbers(release) };
    ChunkOptions::new(layers).chunk_size(SIZE as u16).seed(SEED).generator(terrain)
}

/// The game: chunks in memory, those that are on their way, and saves that are under way.
struct Game {
    world: ChunkWorld,
    worker: ChunkWorker,
    terrain: Terrain,
    loaded: HashMap<ChunkPos, Chunk>,
    coming: HashMap<ChunkPos, ChunkLoadHandle>,
    saves: Vec<(CommitHandle, Vec<(ChunkPos, ChunkRevision)>)>,
    /// Chunks that have left, for the next save. A full queue gives its edit back to this place.
    leaving: Edit,
    left: HashSet<ChunkPos>,
    refused: usize,
    /// Everything that the player has done, to hold the file against it.
    done: BTreeMap<(i32, i32), u8>,
    loads: usize,
    unloads: usize,
}

impl Game {
    fn new(world: ChunkWorld) -> Self {
        let terrain = Terrain { seed: SEED, cell_bytes: 2, numbers: numbers(1) };
        // Few saves may wait here, so that the queue is full now and then.
        let worker = ChunkWorker::options().saves_max(2).start(world.clone());
        let leaving = world.edit();
        let (loaded, coming, saves, done) = Default::default();
        Self {
            world,
            worker,
            terrain,
            loaded,
            coming,
            saves,
            leaving,
            left: HashSet::new(),
            refused: 0,
            done,
            loads: 0,
            unloads: 0,
        }
    }

    /// Once a frame: chunks near the player come, those far away go, and nothing waits for the disk.
    fn stream(&mut self, at: (i32, i32)) -> Outcome {
        self.save_leaving();
        let here = chunk_of(at.0, at.1).0;
        for y in here.y - REACH as i32..=here.y + REACH as i32 {
            for x in here.x - REACH as i32..=here.x + REACH as i32 {
                let pos = ChunkPos::new(x, y);
                if !self.loaded.contains_key(&pos) && !self.coming.contains_key(&pos) && !self.has_left(pos) {
                    let far = x.abs_diff(here.x).max(y.abs_diff(here.y));
                    let priority = [Priority::High, Priority::Normal, Priority::Low][far as usize];
                    self.coming.insert(pos, self.worker.load(pos, priority));
                }
            }
        }
        for (pos, result) in
            self.coming.extract_if(|_, handle| handle.is_complete()).map(|(pos, handle)| (pos, handle.wait()))
        {
            match result {
                Ok(chunk) => drop(self.loaded.insert(pos, chunk)),
                Err(error) if error.is_limit() => continue, // too much was asked for: again in the next frame
                Err(error) => return Err(error.into()),
            }
            self.loads += 1;
        }
        let near = ChunkRect::around(here, REACH + 1);
        for (pos, chunk) in self.loaded.extract_if(|pos, _| !near.contains(*pos)) {
            self.unloads += 1;
            if chunk.state().needs_save() {
                self.left.insert(pos);
                self.leaving.put(pos, chunk.into_cells());
            }
        }
        self.save_leaving();
        self.coming.retain(|pos, handle| {
            near.contains(*pos) || {
                handle.cancel();
                false
            }
        });
        self.hear_of_saves(false)
    }

    /// A chunk that has left, and whose save was not accepted yet: a load would show what it was before.
    fn has_left(&self, pos: ChunkPos) -> bool {
        self.left.contains(&pos)
    }

    /// Saves what has left. If the queue is full, it stays for the next frame: nothing is lost.
    fn save_leaving(&mut self) {
        if self.leaving.is_empty() {
            return;
        }
        match self.worker.save(std::mem::replace(&mut self.leaving, self.world.edit())) {
            Ok(handle) => {
                self.saves.push((handle, Vec::new()));
                self.left.clear(); // a load from now on comes after this save
            }
            Err(refused) => {
                self.refused += 1;
                self.leaving = refused.into_edit();
            }
        }
    }

    /// Saves chunks in memory that have changed, one by one, while the game goes on. If the queue is full, the rest stay dirty,
    /// and a later call saves them.
    fn autosave(&mut self) {
        for (pos, chunk) in self.loaded.iter().filter(|(_, chunk)| chunk.state().needs_save()) {
            let mut edit = self.world.edit();
            edit.put(*pos, chunk.cells());
            match self.worker.save(edit) {
                Ok(handle) => self.saves.push((handle, vec![(*pos, chunk.revision())])),
                Err(_) => {
                    self.refused += 1;
                    return;
                }
            }
        }
    }

    /// Saves everything, however long it takes.
    fn save_all(&mut self) -> Outcome {
        while !self.leaving.is_empty() || self.loaded.values().any(|chunk| chunk.state().needs_save()) {
            self.save_leaving();
            self.autosave();
            self.hear_of_saves(true)?;
        }
        Ok(())
    }

    /// Marks chunks whose save is durable.
    fn hear_of_saves(&mut self, wait: bool) -> Outcome {
        for (handle, revisions) in self.saves.extract_if(.., |(handle, _)| wait || handle.is_complete()) {
            handle.wait()?;
            for (pos, revision) in revisions {
                if let Some(chunk) = self.loaded.get_mut(&pos) {
                    chunk.saved(revision); // stays dirty if there was a change since
                }
            }
        }
        Ok(())
    }

    /// A frame in which the player is here. Chunks it is about to touch are waited for.
    fn walk(&mut self, at: (i32, i32)) -> Outcome {
        self.stream(at)?;
        let near = ChunkRect::around(chunk_of(at.0, at.1).0, 1);
        while (near.min().y..=near.max().y)
            .any(|y| (near.min().x..=near.max().x).any(|x| !self.loaded.contains_key(&(x, y).into())))
        {
            std::thread::yield_now();
            self.stream(at)?;
        }
        Ok(())
    }

    fn set(&mut self, x: i32, y: i32, material: u8) -> Outcome {
        let (pos, local_x, local_y) = chunk_of(x, y);
        let shade = self.terrain.shade(material, x, y);
        let chunk = self.loaded.get_mut(&pos).ok_or("the player reaches no farther than a chunk")?;
        chunk.set(local_x, local_y, &[material, shade])?;
        self.done.insert((x, y), material);
        Ok(())
    }

    /// Takes away the ground in a circle.
    fn dig(&mut self, (x, y): (i32, i32), radius: i32) -> Outcome {
        for (dx, dy) in square(radius).filter(|(dx, dy)| dx * dx + dy * dy <= radius * radius) {
            if y + dy <= self.terrain.ground(x + dx) {
                self.set(x + dx, y + dy, AIR)?;
            }
        }
        Ok(())
    }

    /// A house of planks with a window and a roof, on a floor of gold.
    fn build(&mut self, x: i32) -> Outcome {
        let floor = (x - 9..=x + 9).map(|x| self.terrain.ground(x)).max().ok_or("a house is wide")? + 1;
        for dx in -9_i32..=9 {
            for below in self.terrain.ground(x + dx) + 1..floor {
                self.set(x + dx, below, STONE)?;
            }
            for dy in 0_i32..12 {
                let material = match (dx.abs(), dy) {
                    (_, 0) => GOLD,
                    (8, _) => WOOD,
                    (9, _) => SKY,
                    (2..6, 4..8) => GLASS,
                    _ => PLANKS,
                };
                self.set(x + dx, floor + dy, material)?;
            }
        }
        for row in 0..7 {
            for dx in row - 11..=11 - row {
                self.set(x + dx, floor + 12 + row, WOOD)?;
            }
        }
        Ok(())
    }
}

fn square(radius: i32) -> impl Iterator<Item = (i32, i32)> {
    (-radius..=radius).flat_map(move |y| (-radius..=radius).map(move |x| (x, y)))
}

/// The chunk of a cell, and where in it the cell is.
fn chunk_of(x: i32, y: i32) -> (ChunkPos, u32, u32) {
    let pos = ChunkPos::new(x.div_euclid(SIZE), y.div_euclid(SIZE));
    (pos, x.rem_euclid(SIZE) as u32, y.rem_euclid(SIZE) as u32)
}

/// A square thing of one material that lies about.
fn thing(ids: &mut BodyIds, position: [f32; 2], edge: u32, material: u8) -> Body {
    let cells = (edge * edge) as usize;
    Body {
        id: ids.next_id(),
        position,
        rotation: 0.2,
        linear_velocity: [0.0, -1.5],
        angular_velocity: 0.1,
        width: edge,
        height: edge,
        origin: [-(edge as i32) / 2; 2],
        cells: [material, 128].repeat(cells),
        mask: Body::pack_mask(&vec![true; cells]),
        extension: b"health=3".to_vec(),
    }
}

/// Holds a world against everything that was done in it.
fn compare(world: &ChunkWorld, done: &BTreeMap<(i32, i32), u8>, release: u32) -> Outcome {
    let mut chunks: HashMap<ChunkPos, Chunk> = HashMap::new();
    for ((x, y), material) in done {
        let (pos, local_x, local_y) = chunk_of(*x, *y);
        let chunk = match chunks.entry(pos) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(new) => new.insert(world.load(pos)?),
        };
        let found = chunk.get(local_x, local_y).ok_or("it is in the chunk")?;
        assert_eq!(found[0], numbers(release)[usize::from(*material)], "({x}, {y})");
        assert!(release == 1 || found[2] == 15, "a new layer has its default");
    }
    Ok(())
}

fn play(path: &Path, crashed: &Path) -> Outcome<BTreeMap<(i32, i32), u8>> {
    let world = options(1).open(path)?;
    let mut ids = world.body_ids()?;
    let mut game = Game::new(world.clone());
    let mut after_crash = BTreeMap::new();
    let (mut before, mut shaft) = ((0, 0), 0);
    for step in 0..240 {
        let x = step * 4 - 480;
        let ground = game.terrain.ground(x);
        // Over the hill, and then down a shaft that winds through the rock.
        let down = (step - SHAFT).clamp(0, 22) * 5 + (step - SHAFT - 22).clamp(0, 70);
        let winding = (f64::from(step - SHAFT) / 8.0).sin() * f64::from(down.min(18));
        let at = (x, if down == 0 { ground } else { shaft - down + winding as i32 });
        game.walk(at)?;
        if down == 0 {
            shaft = ground + 2;
        } else {
            for part in 0..8 {
                game.dig(
                    (before.0 + (at.0 - before.0) * part / 8, before.1 + (at.1 - before.1) * part / 8),
                    3,
                )?;
            }
        }
        before = at;
        if down > 0 && step % 40 == 39 {
            game.dig((at.0, at.1 - 4), 13)?; // dynamite
        }
        if [11, 19].contains(&step) {
            game.build(x)?;
        }
        if step % 10 == 9 {
            game.autosave();
        }
        if step == 150 {
            // Everything that was asked for is durable, and the game goes on: then somebody pulls the plug.
            game.save_all()?;
            after_crash = game.done.clone();
            std::fs::copy(path, crashed)?;
        }
    }
    game.save_all()?;
    assert!(game.worker.finish(Duration::from_secs(60)));
    assert!(game.loaded.values().all(|chunk| !chunk.state().needs_save()), "nothing is left to save");
    println!(
        "walked 960 cells, changed {}; {} chunks came, {} went; {} saves were refused and came later",
        game.done.len(),
        game.loads,
        game.unloads,
        game.refused
    );

    // Crates in front of the house, and a boulder that rolls into the next chunk.
    let x = -456.0;
    let crates: Vec<Body> = (0..3).map(|n| thing(&mut ids, [x + n as f32, 40.0], 5, PLANKS)).collect();
    let mut boulder = thing(&mut ids, [-321.0, -60.0], 9, STONE);
    let (home, before) =
        (crates[0].chunk(SIZE as u32).ok_or("somewhere")?, boulder.chunk(SIZE as u32).ok_or("somewhere")?);
    world
        .edit()
        .put_bodies(home, crates)
        .put_bodies(before, vec![boulder.clone()])
        .commit(Durability::Synced)?;
    boulder.position[0] = -319.0;
    let after = boulder.chunk(SIZE as u32).ok_or("somewhere")?;
    world.edit().put_bodies(after, vec![boulder.clone()]).commit(Durability::Synced)?;
    assert_eq!((world.read_bodies(home)?.len(), world.read_bodies(before)?.len()), (3, 0));
    assert_eq!(world.read_bodies(after)?, [boulder], "it is in one chunk, the one that its centre lies in");

    let done = std::mem::take(&mut game.done);
    drop(game);
    world.close()?;
    let world = options(1).open(crashed)?;
    println!("after the crash: {} saves replayed", world.report().saves_replayed);
    assert!(world.report().saves_replayed > 0 && world.report().is_fine());
    compare(&world, &after_crash, 1)?;
    Ok(done)
}

/// The second release has a layer more, and other numbers for coal and gold.
fn evolve(path: &Path, done: &BTreeMap<(i32, i32), u8>) -> Outcome {
    let world = options(2).open(path)?;
    compare(&world, done, 2)?;
    let upgraded = world.upgrade_all(|_, _| {})?;
    compare(&world, done, 2)?;
    println!("second release: {upgraded} chunks and lists of bodies upgraded");
    world.close()?;
    Ok(())
}

/// Stores a part of the world whole, so that tools can draw it that do not have the generator.
fn store_whole(path: &Path) -> Outcome {
    let world = options(1).open(path)?;
    let mut edit: Edit = world.edit();
    for (x, y) in (-4..3).flat_map(|y| (-8..8).map(move |x| (x, y))) {
        edit.put_stored((x, y), StoredChunk::Full(world.load((x, y))?.into_cells()));
    }
    let report = edit.commit(Durability::Synced)?;
    world.compact(|_, _| {})?;
    println!("kept {} whole chunks in {} bytes: {}", report.full, report.bytes, path.display());
    Ok(world.close()?)
}

fn main() -> Outcome {
    let start = Instant::now();
    let mut arguments = std::env::args().skip(1);
    let keep = match (arguments.next().as_deref(), arguments.next()) {
        (Some("--keep"), Some(directory)) => Some(std::path::PathBuf::from(directory)),
        (None, _) => None,
        _ => return Err("only `--keep DIR` is understood".into()),
    };
    let scratch = tempfile::tempdir()?;
    let directory = keep.as_deref().unwrap_or(scratch.path());
    let (path, crashed) = (directory.join("world.save"), scratch.path().join("crashed.save"));
    std::fs::create_dir_all(directory)?;
    ChunkWorld::delete(&path)?;

    let done = play(&path, &crashed)?;
    if keep.is_some() {
        store_whole(&path)?;
    } else {
        evolve(&path, &done)?;
    }
    let world = ChunkWorld::open_as_is(&path, bonfire_store::disk::Access::Read)?;
    let info = world.info();
    assert!(world.check(|_, _| {}).damaged.is_empty());
    println!(
        "{} chunks in {} bytes, {} of them dead, {} saves",
        info.chunks, info.file_bytes, info.dead_bytes, info.generation
    );
    println!("done in {:.1?}", start.elapsed());
    Ok(())
}

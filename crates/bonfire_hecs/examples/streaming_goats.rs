//! Goats of a hecs world come and go with the chunks around a player. One crosses a border, and the game returns to a saved
//! moment: `cargo run -p bonfire_hecs --example streaming_goats`

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bonfire_chunks::stream::{ChunkStream, Decoder, Focus, StreamedWorld};
use bonfire_chunks::{Chunk, ChunkOptions, ChunkPos, ChunkRevision, ChunkWorker, Layer, Layers, Persistence};
use bonfire_hecs::{Bonfire, Error, LoadMode, Persist, Result, SaveOptions, Snapshot, StableId};
use hecs::{Entity, World};

const SIZE: i32 = 16;
const BUDGET: Duration = Duration::from_millis(2); // of a frame
#[derive(Persist, Clone, Copy, Debug, PartialEq)]
#[persist(key = "game.place")]
struct Place {
    x: i32,
    y: i32,
}

impl Place {
    fn chunk(self) -> ChunkPos {
        ChunkPos::new(self.x.div_euclid(SIZE), self.y.div_euclid(SIZE))
    }
}

#[derive(Default)]
struct Game {
    world: World,
    bonfire: Bonfire,
    chunks: BTreeMap<ChunkPos, Chunk>,
    /// Chunks whose goats have changed since their last capture. hecs does not know, so the game notes it.
    changed: BTreeSet<ChunkPos>,
}

impl Game {
    fn goats_in(&self, pos: ChunkPos) -> Vec<Entity> {
        let mut query = self.world.query::<(Entity, &Place)>();
        query.iter().filter(|(_, place)| place.chunk() == pos).map(|(goat, _)| goat).collect()
    }

    fn goat(&self, id: StableId) -> Option<Place> {
        self.world.get::<&Place>(self.bonfire.stable_ids().get(id)?).ok().map(|place| *place)
    }

    /// Moves a goat to another active chunk.
    fn walk(&mut self, stream: &mut ChunkStream<Snapshot>, id: StableId, to: Place) -> Result<()> {
        let missing = || Error::custom("this goat is not loaded");
        let goat = self.bonfire.stable_ids().get(id).ok_or_else(missing)?;
        let from = std::mem::replace(&mut *self.world.get::<&mut Place>(goat).map_err(|_| missing())?, to);
        self.changed.extend([from.chunk(), to.chunk()]);
        stream.exchanged(from.chunk(), to.chunk()); // both are saved in one step
        Ok(())
    }
}

impl StreamedWorld for Game {
    type Prepared = Snapshot;

    fn decoder(&mut self) -> Result<Decoder<Snapshot>> {
        Ok(Arc::new(|_, snapshot| Ok(snapshot)))
    }

    fn stage(&mut self, chunk: Chunk) {
        self.chunks.insert(chunk.pos(), chunk);
    }

    fn activate(&mut self, pos: ChunkPos, entities: Option<Snapshot>) -> Result<()> {
        if let Some(saved) = entities {
            return self.bonfire.load(&mut self.world, &saved, LoadMode::Merge).map(drop);
        }
        // Nothing was ever saved here: one goat in the middle of the chunk.
        self.world.spawn((Place { x: pos.x * SIZE + 8, y: pos.y * SIZE + 8 }, StableId::new()));
        self.bonfire.update_indexes(&self.world);
        self.changed.insert(pos);
        Ok(())
    }

    fn chunk(&self, pos: ChunkPos) -> Option<&Chunk> {
        self.chunks.get(&pos)
    }

    fn saved(&mut self, pos: ChunkPos, revision: ChunkRevision) {
        self.chunks.entry(pos).and_modify(|chunk| chunk.saved(revision));
    }

    fn is_changed(&mut self, pos: ChunkPos) -> bool {
        self.changed.contains(&pos)
    }

    fn capture(&mut self, chunks: &[ChunkPos]) -> Result<Vec<(ChunkPos, Snapshot)>> {
        let capture = |pos: &ChunkPos| {
            let goats = SaveOptions::new().entities(self.goats_in(*pos));
            Ok((*pos, self.bonfire.capture(&self.world, &goats)?))
        };
        let changed = chunks.iter().filter(|pos| self.changed.contains(pos));
        let captured: Vec<_> = changed.map(capture).collect::<Result<_>>()?;
        captured.iter().for_each(|(pos, _)| _ = self.changed.remove(pos));
        Ok(captured)
    }

    fn remove(&mut self, pos: ChunkPos) {
        let goats = self.goats_in(pos);
        self.bonfire.unload(&mut self.world, goats);
        self.chunks.remove(&pos);
        self.changed.remove(&pos);
    }
}

/// Puts the player somewhere, and lets frames pass until everything near is there and the rest is saved.
fn settle(stream: &mut ChunkStream<Snapshot>, game: &mut Game, player: i32) -> Result<()> {
    stream.set_focus(1, Focus::new((player, 0), 1));
    stream.update(game, BUDGET)?;
    while !stream.is_settled() || !stream.is_saved() {
        std::thread::sleep(Duration::from_millis(1));
        stream.update(game, BUDGET)?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let layers = Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always));
    let path = directory.path().join("world.save");
    let world = ChunkOptions::new(layers).chunk_size(SIZE as u16).open(path)?;
    let mut game = Game::default();
    game.bonfire.persist::<Place>()?;
    let mut stream = ChunkStream::new(ChunkWorker::new(world));

    settle(&mut stream, &mut game, 0)?;
    let here = game.goats_in(ChunkPos::new(0, 0))[0];
    let id = *game.world.get::<&StableId>(here).map_err(|_| Error::custom("a goat without an id"))?;
    let second = Place { x: 20, y: 8 };
    game.walk(&mut stream, id, second)?;
    let pinned = stream.pin(&mut game, "over the border", []);
    settle(&mut stream, &mut game, 50)?;
    pinned.wait()?;
    assert_eq!((game.goat(id), game.chunks.len()), (None, 9), "it was saved with its chunk");
    settle(&mut stream, &mut game, 0)?;
    let goats = [(0, 0), (1, 0)].map(|pos| game.goats_in(pos.into()).len());
    assert_eq!((game.goat(id), goats), (Some(second), [0, 2]), "once, and no new goat has come");
    game.walk(&mut stream, id, Place { x: 8, y: 8 })?;
    stream.return_to(&mut game, "over the border")?;
    settle(&mut stream, &mut game, 0)?;
    assert_eq!(game.goat(id), Some(second), "as it was saved");
    println!("a goat left with its chunk, came back once, and is where the saved moment has it");
    Ok(())
}

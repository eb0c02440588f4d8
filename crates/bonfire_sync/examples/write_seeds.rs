//! Writes what fuzzers of messages and deltas start from: `cargo run -p bonfire_sync --example write_seeds -- fuzz/corpus`.

use std::path::Path;

use bonfire::{Delta, EntityId, Persist, Result};
use bonfire_sync::{
    Message, MessageCompression, MessageLimits, Receiver, Recorder, ReplicationStream, SourceWorld,
    StreamOptions, StructuralLog,
};
use bonfire_testkit::{Followed, ModelWorld};

#[derive(Clone, Persist)]
#[persist(key = "test.follows")]
struct Follows(EntityId);

#[derive(Clone, Persist)]
#[persist(key = "test.frozen")]
struct Frozen;

#[derive(Clone, Persist)]
#[persist(key = "test.name")]
struct Name(String);

#[derive(Clone, Persist)]
#[persist(key = "test.position")]
struct Position {
    x: f32,
    y: f32,
}

#[derive(Clone, Persist)]
#[persist(key = "test.score")]
struct Score(u64);

struct Server(Followed, StructuralLog);

impl SourceWorld for Server {
    fn baseline(&mut self) -> Result<Delta> {
        self.0.whole()
    }
    fn changes(&mut self) -> Result<Delta> {
        let changes = self.0.changes()?;
        self.1.record(&changes)?;
        Ok(changes)
    }
}

fn main() -> Result<()> {
    let corpus = std::env::args().nth(1).expect("where the corpus is");
    let write = |target: &str, name: &str, bytes: &[u8]| {
        let folder = Path::new(&corpus).join(target);
        let written =
            std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(folder.join(name), bytes));
        written.map_err(|error| bonfire::Error::io("cannot write a seed", error))
    };
    let mut world = ModelWorld::new();
    world.register::<Follows>()?;
    world.register::<Frozen>()?;
    world.register::<Name>()?;
    world.register::<Position>()?;
    world.register::<Score>()?;
    let mut server = Server(Followed::new(world)?, StructuralLog::new(10));
    for compression in [MessageCompression::None, MessageCompression::Lz4] {
        let name = if matches!(compression, MessageCompression::None) { "stored" } else { "packed" };
        let options = StreamOptions { compression, ..StreamOptions::new(1) };
        let mut stream = ReplicationStream::new(options);
        let mut recorder = Recorder::new(Vec::new())?;
        for number in 0..3_u16 {
            let world = &mut server.0.world;
            let id = world.spawn();
            world.insert(id, Position { x: f32::from(number), y: 1.0 });
            world.insert(id, Name(format!("entity number {number}, whose name is long enough to compress")));
            let first = world.entities()[0];
            world.insert(id, Follows(first));
            world.insert(first, Frozen);
            world.insert_resource(Score(u64::from(number)));
            if number == 2 {
                world.despawn(first);
            }
            for message in stream.tick(&mut server)? {
                write("message", &format!("delta_{name}_{number}"), &message)?;
                recorder.write(&message)?;
                let payload = Message::decode(&message, &MessageLimits::default())?.payload;
                write("delta", &format!("content_{name}_{number}"), &[&[0], &payload[..]].concat())?;
            }
        }
        let baseline = stream.baseline(&mut server)?;
        write("message", &format!("baseline_{name}"), &baseline)?;
        recorder.write(&baseline)?;
        write("message", &format!("recording_{name}"), &recorder.into_inner())?;
    }
    let table = server.0.schema().table().clone();
    write("message", "request", &Receiver::new(table).request().encode()?)?;
    write("message", "structure", &server.1.encode(1, &MessageCompression::None)?)?;
    let whole = server.0.whole()?;
    write("delta", "whole", &[&[1], &whole.content()?.to_vec()[..]].concat())?;
    write("delta", "alone", &[&[0], &whole.to_bytes()?.to_vec()[..]].concat())
}

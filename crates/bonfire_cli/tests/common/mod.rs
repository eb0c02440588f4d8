//! A small world of every kind of value, saves of it in all conditions, and the real binary to look at them.
#![expect(dead_code, reason = "each test file uses its part")]

pub(crate) mod picture;
pub(crate) mod world;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use bonfire::engine::{Carry, EntityMap, LoadPlan, SnapshotWriter};
use bonfire::{
    Compression, EncodeOptions, EntityId, Keyed, LoadOptions, Persist, Registry, SchemaLock, Snapshot, Value,
};
use tempfile::TempDir;

#[derive(Persist, Clone, Copy)]
#[persist(key = "game.position")]
pub(crate) struct Position {
    pub(crate) x: f32,
    pub(crate) y: f32,
}

#[derive(Persist)]
#[persist(key = "game.hostile")]
pub(crate) struct Hostile;

#[derive(Persist)]
#[persist(key = "game.mood", version = 3)]
pub(crate) enum Mood {
    Calm,
    Angry { at: EntityId, since: u64 },
}

#[derive(Persist)]
#[persist(key = "game.label")]
pub(crate) struct Label {
    pub(crate) name: String,
    pub(crate) tags: Vec<String>,
    pub(crate) nick: Option<String>,
}

#[derive(Persist)]
#[persist(key = "game.follows")]
pub(crate) struct Follows {
    pub(crate) target: EntityId,
}

#[derive(Persist)]
#[persist(key = "game.clock")]
pub(crate) struct Clock {
    pub(crate) ticks: u64,
    pub(crate) speed: f64,
}

/// Known to the world that is saved first and not to the one that saves it again.
#[derive(Persist)]
#[persist(key = "mod.mana")]
pub(crate) struct Mana {
    pub(crate) amount: u32,
}

#[derive(Persist)]
#[persist(key = "mod.weather")]
pub(crate) struct Weather {
    pub(crate) rain: bool,
}

/// A component through the releases of a game.
pub(crate) mod release {
    use bonfire::Persist;

    #[derive(Persist)]
    #[persist(key = "game.health")]
    pub(crate) struct First {
        pub(crate) current: f32,
    }

    /// What saves of the first can become.
    #[derive(Debug, PartialEq, Persist)]
    #[persist(key = "game.health")]
    pub(crate) struct Second {
        pub(crate) current: f64,
        #[persist(default = 100.0)]
        pub(crate) max: f32,
    }

    /// What they cannot become.
    #[derive(Persist)]
    #[persist(key = "game.health")]
    pub(crate) struct Stuck {
        pub(crate) current: bool,
    }

    /// Another version: what they become is the game's business.
    #[derive(Persist)]
    #[persist(key = "game.health", version = 2)]
    pub(crate) struct Raised {
        pub(crate) hearts: u8,
    }

    #[derive(Persist)]
    #[persist(key = "game.state")]
    pub(crate) enum State {
        Idle,
        Walk { speed: f32 },
    }

    /// Without a variant that old saves may have.
    #[derive(Persist)]
    #[persist(key = "game.state")]
    pub(crate) enum Idle {
        Idle,
    }
}

pub(crate) const WOLF: EntityId = EntityId::new(7, 1);
pub(crate) const SHEEP: EntityId = EntityId::new(9, 0);

pub(crate) fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.register::<Position>().unwrap();
    registry.register::<Hostile>().unwrap();
    registry.register::<Mood>().unwrap();
    registry.register::<Label>().unwrap();
    registry.register::<Follows>().unwrap();
    registry.register::<Clock>().unwrap();
    registry
}

/// What a load keeps for components and resources that are not in [`registry`].
fn carry(registry: &Registry) -> Carry {
    let mut modded = Registry::new();
    modded.register::<Mana>().unwrap();
    modded.register::<Weather>().unwrap();
    let mut writer = SnapshotWriter::new(&modded);
    writer.archetype(&[WOLF]).unwrap().column(&[Mana { amount: 42 }]).unwrap();
    writer.resource(&Weather { rain: true }).unwrap();
    let snapshot = writer.finish().unwrap();
    let plan = LoadPlan::new(&snapshot, registry, LoadOptions::default()).unwrap();
    let map = EntityMap::identity(&plan.entities()).unwrap();
    plan.stage(&map, None).unwrap().carry
}

/// A wolf and a sheep, a resource, data, metadata, and what a mod left behind.
pub(crate) fn farm() -> Snapshot {
    let registry = registry();
    let carry = carry(&registry);
    let mut writer = SnapshotWriter::new(&registry);
    writer.next_entity_id(10);
    writer.metadata("name", "The Farm");
    writer.metadata("minutes", 90_u32);
    let mut pair = writer.archetype(&[WOLF, SHEEP]).unwrap();
    pair.column(&[Position { x: 0.5, y: -1.0 }, Position { x: f32::NAN, y: 12.25 }]).unwrap();
    let label = |name: &str, tags: &[&str], nick: Option<&str>| Label {
        name: name.to_owned(),
        tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
        nick: nick.map(str::to_owned),
    };
    pair.column(&[label("Wolf", &["grey", "old"], None), label("Dolly", &[], Some("Doll"))]).unwrap();
    pair.column_sparse(&[Some(&Follows { target: SHEEP }), None]).unwrap();
    let mut moods = writer.archetype(&[EntityId::new(1, 0)]).unwrap();
    moods.column(&[Hostile]).unwrap();
    moods.column(&[Mood::Angry { at: WOLF, since: u64::MAX }]).unwrap();
    writer.resource(&Clock { ticks: 9_007_199_254_740_993, speed: f64::INFINITY }).unwrap();
    writer.data("physics.gravity", &(0_i32, -10_i32)).unwrap();
    writer.carry(&carry);
    writer.finish().unwrap()
}

/// `count` entities that all have a position and a mood.
pub(crate) fn crowd(count: u32) -> Snapshot {
    let registry = registry();
    let ids: Vec<EntityId> = (0..count).map(|index| EntityId::new(index, 0)).collect();
    let positions: Vec<Position> = (0..count).map(|i| Position { x: i as f32, y: 0.0 }).collect();
    let moods: Vec<Mood> = (0..count).map(|_| Mood::Calm).collect();
    let mut writer = SnapshotWriter::new(&registry);
    let mut archetype = writer.archetype(&ids).unwrap();
    archetype.column(&positions).unwrap();
    archetype.column(&moods).unwrap();
    writer.finish().unwrap()
}

pub(crate) fn encode(snapshot: &Snapshot) -> Vec<u8> {
    snapshot.encode(&EncodeOptions::default()).unwrap().to_vec()
}

pub(crate) fn encode_with(snapshot: &Snapshot, compression: Compression) -> Vec<u8> {
    snapshot.encode(&EncodeOptions { compression, ..EncodeOptions::default() }).unwrap().to_vec()
}

/// A value that carries its own types, with a name that the derive would never allow.
pub(crate) fn named(name: &str, value: &str) -> Value {
    Value::Struct(vec![(name.to_owned(), Value::Text(value.to_owned()))])
}

/// Where the content of the first section with this name lies.
pub(crate) fn section_content(bytes: &[u8], name: &str) -> usize {
    let snapshot = Snapshot::open(bytes).unwrap();
    let section = snapshot.sections().iter().find(|section| section.name == name).unwrap();
    section.offset as usize + (32 + section.blocks as usize * 12).next_multiple_of(64)
}

/// Replaces bytes everywhere, then makes every checksum right again: what a hostile writer would do.
pub(crate) fn forge(mut bytes: Vec<u8>, from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let places: Vec<usize> =
        (0..bytes.len() - from.len()).filter(|&at| bytes[at..].starts_with(from)).collect();
    assert!(!places.is_empty(), "nothing to forge");
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    let u32_at = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut at = 64;
    while at < bytes.len() {
        let blocks = u32_at(&bytes, at + 24) as usize;
        let mut block_at = at + (32 + blocks * 12).next_multiple_of(64);
        for entry in (0..blocks).map(|block| at + 32 + block * 12) {
            let len = u32_at(&bytes, entry + 4) as usize;
            let crc = crc32c::crc32c(&bytes[block_at..block_at + len]);
            bytes[entry + 8..entry + 12].copy_from_slice(&crc.to_le_bytes());
            block_at += len;
        }
        let crc = crc32c::crc32c(&bytes[at..at + 28]);
        let crc = crc32c::crc32c_append(crc, &bytes[at + 32..at + 32 + blocks * 12]);
        bytes[at + 28..at + 32].copy_from_slice(&crc.to_le_bytes());
        at = block_at.next_multiple_of(64);
    }
    bytes
}

/// A directory with one file.
pub(crate) struct Saved {
    directory: TempDir,
    pub(crate) path: PathBuf,
}

pub(crate) fn save(bytes: &[u8]) -> Saved {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.save");
    std::fs::write(&path, bytes).unwrap();
    Saved { directory, path }
}

impl Saved {
    /// Another file in the same directory.
    pub(crate) fn beside(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path.with_file_name(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// The names of all files in the directory.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// The bytes of a save with one entity that has one value.
pub(crate) fn save_of<T: Keyed>(value: T) -> Vec<u8> {
    let registry = Registry::new().with::<T>().unwrap();
    let mut writer = SnapshotWriter::new(&registry);
    writer.archetype(&[WOLF]).unwrap().column(&[value]).unwrap();
    encode(&writer.finish().unwrap())
}

/// The lock of a game that has one component.
pub(crate) fn lock_of<T: Keyed>() -> String {
    let mut lock = SchemaLock::default();
    lock.add(&Registry::new().with::<T>().unwrap()).unwrap();
    lock.to_string()
}

/// What a run of the binary printed and how it ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The lines from the one that begins with `start` up to an empty one.
    pub(crate) fn part(&self, start: &str) -> Vec<&str> {
        let lines = self.stdout.lines().skip_while(|line| !line.starts_with(start));
        let part: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
        assert!(!part.is_empty(), "no line begins with {start:?}: {self:?}");
        part
    }
}

pub(crate) fn binary() -> Command {
    Command::new(env!("CARGO_BIN_EXE_bonfire"))
}

pub(crate) fn run(arguments: &[&str]) -> Run {
    finished(binary().args(arguments))
}

fn finished(command: &mut Command) -> Run {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

/// Runs a command in the directory of a file, so that its arguments may be plain names.
pub(crate) fn run_beside(saved: &Saved, arguments: &[&str]) -> Run {
    finished(binary().current_dir(saved.directory.path()).args(arguments))
}

/// Runs a command on a file; more arguments follow the path.
pub(crate) fn run_on(command: &str, path: &Path, arguments: &[&str]) -> Run {
    run(&[&[command, path.to_str().unwrap()], arguments].concat())
}

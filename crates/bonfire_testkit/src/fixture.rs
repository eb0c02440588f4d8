//! The world of the golden files of format version 1: one of everything that the format has.
//!
//! The types here are frozen, as the files are. A new format version gets new ones beside them.

use std::collections::BTreeMap;

use bonfire::schema::Schema;
use bonfire::{
    Compression, Descriptor, EncodeOptions, EntityId, LoadContext, Persist, Repeats, Result, Snapshot, Value,
};

use crate::raw::{RawSection, raw_file, sections_of};
use crate::world::{CaptureOptions, ModelWorld};

#[derive(Clone, Persist)]
#[persist(key = "fixture.tag")]
struct Tag;

#[derive(Clone, Persist)]
#[persist(key = "fixture.plain", version = 3)]
struct Plain {
    x: f32,
    y: f32,
    team: Team,
    open: bool,
    letters: [u8; 2],
}

#[derive(Clone, Copy, Persist)]
enum Team {
    Red,
    Blue,
}

#[derive(Clone, Persist)]
#[persist(key = "fixture.strided")]
struct Strided {
    small: u8,
    big: u64,
    #[persist(skip)]
    cache: u32,
    letter: char,
}

#[derive(Clone, Persist)]
#[persist(key = "fixture.rows")]
struct Rows {
    name: String,
    next: Option<EntityId>,
    shape: Shape,
    bag: BTreeMap<String, Vec<u16>>,
    time: std::time::Duration,
}

#[derive(Clone, Persist)]
enum Shape {
    Dot,
    Line(f32, f64),
    Tree { children: Vec<Shape> },
}

#[derive(Clone, Persist)]
#[persist(key = "fixture.word")]
struct Word(String);

#[derive(Clone, Persist)]
#[persist(key = "fixture.mesh")]
struct Mesh(Vec<i32>);

#[derive(Clone, Persist)]
#[persist(key = "fixture.score")]
struct Score {
    points: u128,
    leader: EntityId,
}

#[derive(Clone, Persist)]
#[persist(key = "mod.mana")]
struct Mana(f32, EntityId);

#[derive(Clone, Persist)]
#[persist(key = "mod.rules")]
struct Rules(String);

/// A component with a codec of its own.
#[derive(Clone)]
struct Sprite(u8);

fn register(world: &mut ModelWorld) -> Result<()> {
    world.register::<Tag>()?;
    world.register::<Plain>()?;
    world.register::<Strided>()?;
    world.register::<Rows>()?;
    world.add::<Word>(Descriptor::of::<Word>().repeats(Repeats::Dictionary))?;
    world.add::<Mesh>(Descriptor::of::<Mesh>().repeats(Repeats::Shared))?;
    world.register::<Score>()?;
    world.add::<Sprite>(Descriptor::custom(
        "fixture.sprite",
        |sprite: &Sprite, _| Ok((sprite.0 > 0).then(|| format!("image {}.png", sprite.0))),
        |name: String, _: &LoadContext<'_>| Ok(Some(Sprite(name.len() as u8))),
    ))?;
    world.add::<Value>(Descriptor::dynamic("fixture.dynamic", Value::schema()))?;
    world.add::<String>(Descriptor::serde::<String>("fixture.serde"))?;
    world.add::<Value>(Descriptor::dynamic("fixture.untyped", Schema::of::<(u8, Option<i64>)>()))
}

/// One of everything. Some of it was carried by a build that did not know it.
pub fn everything() -> Result<Snapshot> {
    let mut modded = ModelWorld::new();
    register(&mut modded)?;
    modded.register::<Mana>()?;
    modded.register::<Rules>()?;
    let ids: Vec<EntityId> = (0..12).map(|_| modded.spawn()).collect();
    for (i, &id) in ids.iter().enumerate() {
        let n = i as u8;
        if i % 2 == 0 {
            modded.insert(id, Tag);
        }
        let team = if i % 3 == 0 { Team::Red } else { Team::Blue };
        modded.insert(id, Plain { x: i as f32, y: -0.5, team, open: i % 2 == 1, letters: [n, b'a'] });
        modded.insert(id, Strided { small: n, big: u64::MAX - i as u64, cache: 1, letter: 'ü' });
        let shape = match i % 3 {
            0 => Shape::Dot,
            1 => Shape::Line(f32::NAN, f64::INFINITY),
            _ => Shape::Tree { children: vec![Shape::Dot, Shape::Line(1.0, 2.0)] },
        };
        let bag = BTreeMap::from([("b".to_owned(), vec![1, 2]), ("a".to_owned(), vec![])]);
        let next = (i > 0).then(|| ids[i - 1]);
        let time = std::time::Duration::new(i as u64, 5);
        modded.insert(id, Rows { name: format!("row {i}\t\u{1f525}"), next, shape, bag, time });
        modded.insert(id, Word(["one", "two"][i % 2].repeat(8)));
        modded.insert(id, Mesh(vec![i as i32 % 3 - 1; 5]));
        modded.insert(id, Sprite(n % 4));
        modded.insert_value(
            id,
            "fixture.dynamic",
            Value::List(vec![Value::I64(-3), Value::Text("x".into())]),
        );
        modded.insert(id, format!("serde {i}"));
        let some = if i % 2 == 0 { Value::None } else { Value::Some(Box::new(Value::I64(-1))) };
        modded.insert_value(id, "fixture.untyped", Value::Tuple(vec![Value::U64(7), some]));
        if i < 4 {
            modded.insert(id, Mana(0.25, ids[11 - i]));
        }
    }
    modded.insert_resource(Score { points: 1 << 100, leader: ids[3] });
    modded.insert_resource(Rules("no magic on sundays".into()));
    modded.hooks.on_save(|_, save| {
        save.attach("bonfire.first", &1_u8)?;
        save.attach("game.log", &vec![(1_u32, String::from("started"))])
    });
    let mut plain = ModelWorld::new();
    register(&mut plain)?;
    plain.load(&modded.save()?)?;
    // In one archetype, so that columns are sparse.
    let mut snapshot = plain.capture(&CaptureOptions { one_archetype: true, ..CaptureOptions::default() })?;
    snapshot.set_metadata("name", "The golden world");
    snapshot.set_metadata("play seconds", 4711_u32);
    Ok(snapshot)
}

/// The golden files: their names and bytes.
pub fn files() -> Result<Vec<(&'static str, Vec<u8>)>> {
    let snapshot = everything()?;
    let encode = |options: EncodeOptions| Ok::<_, bonfire::Error>(snapshot.encode(&options)?.to_vec());
    let plain = encode(EncodeOptions::default())?;
    let flipped = |at: usize, mask: u8| {
        let mut bytes = plain.clone();
        bytes[at] ^= mask;
        bytes
    };
    let section = |name: &str| {
        let opened = Snapshot::open(&plain)?;
        let section = opened.sections().iter().find(|section| section.name == name);
        Ok::<_, bonfire::Error>(section.map_or(0, |section| section.offset as usize))
    };
    let with_reserved =
        [8, 9, 10, 11, 999].iter().fold(plain.clone(), |file, &kind| with_section(&file, kind, 0));
    Ok(vec![
        ("everything.bonfire", plain.clone()),
        (
            "everything_lz4.bonfire",
            encode(EncodeOptions { compression: Compression::Lz4, ..Default::default() })?,
        ),
        ("everything_root.bonfire", encode(EncodeOptions { root_hash: true, ..Default::default() })?),
        (
            "everything_by_hash.bonfire",
            encode(EncodeOptions { inline_schemas: false, ..Default::default() })?,
        ),
        ("everything_reserved.bonfire", with_reserved),
        ("everything.json", snapshot.to_json()?.into_bytes()),
        ("damaged_columns.bonfire", flipped(section("columns")? + 128, 0x04)),
        ("damaged_prelude.bonfire", flipped(section("prelude")? + 70, 0x80)),
        ("damaged_header.bonfire", flipped(20, 0x01)),
        ("damaged_truncated.bonfire", plain[..plain.len() * 2 / 3].to_vec()),
        ("newer_version.bonfire", with_version(&plain, 2)),
        ("newer_critical.bonfire", with_section(&plain, 999, 1)),
    ])
}

/// What fuzzers start from: the target, a name, and bytes.
pub fn fuzz_seeds() -> Result<Vec<(&'static str, String, Vec<u8>)>> {
    let mut seeds = Vec::new();
    for (name, bytes) in files()? {
        let target = if name.ends_with(".json") { "json_table" } else { "container" };
        seeds.push((target, name.to_owned(), bytes));
    }
    let bare = r#"{"version":1,"nextEntityId":2,"componentTable":[{"name":"Position"}],
        "archetypes":[{"columnIndices":[1],"entities":[[1,{"x":1.5,"y":"nan"}]]}],
        "data":[{"key":"build","value":{"$map":[[1,"a"]]}}]}"#;
    seeds.push(("json_table", "bare.json".to_owned(), bare.as_bytes().to_vec()));
    let snapshot = everything()?;
    for (number, component) in snapshot.components().iter().enumerate() {
        let schema = component.schema()?.to_bytes();
        // The first byte says how long the schema is; a value may follow.
        let mut bytes = vec![0];
        bytes.extend(&schema);
        bytes[0] = bytes.len().min(255) as u8;
        seeds.push(("schema", format!("schema_{number}"), schema.clone()));
        bytes.extend([0; 16]);
        seeds.push(("schema", format!("schema_with_value_{number}"), bytes));
    }
    for (number, column) in snapshot.archetypes().flat_map(|a| a.columns().collect::<Vec<_>>()).enumerate() {
        let values = column.values(&bonfire::Limits::default())?;
        let mut out = bonfire::Writer::new();
        values.into_iter().flatten().for_each(|value| value.encode(&mut out));
        seeds.push(("value", format!("dynamic_{number}"), out.finish()?));
    }
    Ok(seeds)
}

/// A file that says it has another format version.
pub fn with_version(file: &[u8], version: u16) -> Vec<u8> {
    let mut bytes = file.to_vec();
    bytes[8..10].copy_from_slice(&version.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// A file with one more section of four bytes before its footer.
pub fn with_section(file: &[u8], kind: u16, flags: u8) -> Vec<u8> {
    let mut sections = sections_of(file);
    sections.push(RawSection::new(kind, flags, b"data"));
    raw_file(&sections)
}

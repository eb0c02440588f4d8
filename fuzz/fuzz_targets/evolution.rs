//! Two schemas from any bytes, and bytes as a value of the first: loaded as the second and back, with carried fields, through
//! steps and through a migration of the world, all must end in a result, within limits. Any text as a schema lock.
//!
//! The first byte says what the others are; four more say where the parts of a load begin.
#![no_main]

use std::cell::RefCell;
use std::collections::HashMap;

use bonfire::engine::*;
use bonfire::inspect::*;
use bonfire::schema::*;
use bonfire::*;
use libfuzzer_sys::fuzz_target;

const KEY: &str = "fuzz.thing";

fn limits() -> Limits {
    Limits {
        memory_bytes_max: 1 << 22,
        schema_nodes_max: 1024,
        depth_max: 32,
        empty_elements_max: 1 << 12,
        ..Limits::default()
    }
}

thread_local! {
    /// What the next `Raw` is said to be.
    static SCHEMA: RefCell<Option<Schema>> = const { RefCell::new(None) };
}

/// Bytes that claim to be a value of some schema.
#[derive(Clone)]
struct Raw(Vec<u8>);

impl Persist for Raw {
    fn schema(types: &mut SchemaBuilder) -> Node {
        let schema = SCHEMA.with_borrow_mut(Option::take);
        match schema {
            Some(schema) => copy(&schema, Node::ROOT, types, &mut HashMap::new()),
            None => types.add(Type::Unit),
        }
    }
    fn encode(&self, out: &mut Writer) {
        out.raw(&self.0);
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let rest = input.remaining();
        input.raw(rest).map(|bytes| Self(bytes.to_vec()))
    }
}

/// The nodes of a schema in a builder. A type inside itself is a unit there.
fn copy(schema: &Schema, node: Node, types: &mut SchemaBuilder, known: &mut HashMap<Node, Option<Node>>) -> Node {
    match known.get(&node) {
        Some(Some(node)) => return *node,
        Some(None) => return types.add(Type::Unit),
        None => known.insert(node, None),
    };
    let mut of = |node: &Node| copy(schema, *node, types, known);
    let ty = match schema.get(node) {
        Type::Option(a) => Type::Option(of(a)),
        Type::List(a) => Type::List(of(a)),
        Type::Set(a) => Type::Set(of(a)),
        Type::Array(a, len) => Type::Array(of(a), *len),
        Type::Map(a, b) => Type::Map(of(a), of(b)),
        Type::Tuple(fields) => Type::tuple(fields.iter().map(|field| of(&field.node)).collect::<Vec<_>>()),
        Type::Struct(fields) => {
            Type::Struct(fields.iter().map(|field| Field::new(field.name.clone(), of(&field.node))).collect())
        }
        Type::Enum(variants) => {
            Type::Enum(variants.iter().map(|variant| Variant::new(variant.name.clone(), of(&variant.node))).collect())
        }
        leaf => leaf.clone(),
    };
    let copied = types.add(ty);
    known.insert(node, Some(copied));
    copied
}

/// A struct whose fields have a past: each was called as the first field of the other schema, and has a default.
fn with_rules(schema: &Schema, other: &Schema, default: &[u8]) -> Schema {
    let (Type::Struct(_), Type::Struct(old)) = (schema.root(), other.root()) else { return schema.clone() };
    let mut types = SchemaBuilder::new();
    let mut known = HashMap::new();
    let Type::Struct(fields) = schema.root() else { return schema.clone() };
    let fields: Vec<Field> = (fields.iter())
        .map(|field| {
            let mut ruled = Field::new(field.name.clone(), copy(schema, field.node, &mut types, &mut known));
            ruled.rules.aliases.extend(old.first().map(|field| field.name.clone()));
            ruled.rules.default = Some(FieldDefault::Bytes(default.into()));
            ruled
        })
        .collect();
    let root = types.add(Type::Struct(fields.into()));
    types.finish(root)
}

fn registry(schema: &Schema, version: u32, repeats: Repeats) -> Registry {
    let mut registry = Registry::new();
    registry.add(Descriptor::dynamic(KEY, schema.clone()).with_version(version).repeats(repeats)).unwrap();
    registry
}

/// A save of rows that may be anything.
fn save(schema: &Schema, rows: &[Raw], repeats: Repeats) -> Option<Vec<u8>> {
    SCHEMA.set(Some(schema.clone()));
    let mut registry = Registry::new();
    registry.add(Descriptor::new::<Raw>(KEY).repeats(repeats)).ok()?;
    let ids: Vec<EntityId> = (0..rows.len() as u32).map(|i| EntityId::new(i, 0)).collect();
    let mut writer = SnapshotWriter::new(&registry);
    writer.archetype(&ids).ok()?.column(rows).ok()?;
    writer.resources().column(&rows[..1]).ok()?;
    writer.finish().ok()?.to_bytes().ok()
}

fn explore(bytes: &[u8], registry: &Registry, unknown: Unknown, portable: bool) -> Option<Vec<u8>> {
    let watch = Watch::new();
    let limits = Limits { watch: Some(watch.clone()), ..limits() };
    let opened = Snapshot::options().limits(limits.clone()).open(bytes).expect("what was saved can be opened");
    let options = LoadOptions { unknown, portable, limits: Some(limits.clone()), ..LoadOptions::default() };
    let _ = preflight(bytes, registry).map(|report| report.to_string());
    let rewritten = opened.rewritten(registry, options);
    // Each byte is looked at a few times. A value is decoded in a few places, each time within the memory that values may
    // take, of which an element needs 16 bytes.
    let most = 16 * bytes.len() as u64 + 16 * (limits.memory_bytes_max / 16);
    assert!(watch.steps() <= most, "{} steps for {} bytes", watch.steps(), bytes.len());
    let (rewritten, report) = rewritten.ok()?;
    let _ = report.to_string();
    let bytes = rewritten.to_bytes().expect("what was loaded can be saved");
    Snapshot::open(&bytes).expect("what was saved can be opened");
    Some(bytes)
}

/// Whatever a migration may do, in an order that the input chooses.
fn migrate(world: &mut WorldEdit, choices: &[u8]) -> Result<()> {
    for (number, choice) in choices.iter().enumerate().take(24) {
        let entities = world.entities();
        let entity = *entities.get(usize::from(choice / 16) % entities.len().max(1)).unwrap_or(&EntityId::NULL);
        let key = [KEY, "fuzz.other"][number % 2];
        match choice % 12 {
            0 => drop(world.get::<Value>(entity, key)?),
            1 => {
                if let Some(value) = world.take::<Value>(entity, key)? {
                    world.insert_as(entity, "fuzz.other", 1, &value)?;
                }
            }
            2 => world.insert_as(entity, key, 1, &(*choice, String::from("x")))?,
            3 => drop(world.spawn()?),
            4 => world.despawn(entity)?,
            5 => drop(world.rename(KEY, "fuzz.other")),
            6 => drop(world.rename("fuzz.other", KEY)),
            7 => drop(world.remove_all(key)?),
            8 => drop(world.remove(entity, key)?),
            9 => drop(world.resource::<Value>(key)?),
            10 => world.set_data("fuzz.data", &choices.to_vec())?,
            _ => drop((world.with(key)?, world.keys(), world.remove_data("fuzz.data"))),
        }
    }
    Ok(())
}

fn load(bytes: &[u8]) -> Option<()> {
    let (head, rest) = bytes.split_at_checked(4)?;
    let [first, second, choices, mode] = *head else { return None };
    let (a, rest) = rest.split_at_checked(usize::from(first))?;
    let (b, rest) = rest.split_at_checked(usize::from(second))?;
    let (choices, values) = rest.split_at_checked(usize::from(choices))?;
    let (a, b) = (Schema::decode(a, &limits()).ok()?, Schema::decode(b, &limits()).ok()?);
    let repeats = [Repeats::Plain, Repeats::Dictionary, Repeats::Shared][usize::from(mode % 3)];
    let portable = mode & 64 != 0;
    // Half of the rows are what the bytes say, the others what they are read as.
    let limits = limits();
    let value = decode_value(&a, Node::ROOT, &mut Reader::new(values, &LoadContext::new(&limits)));
    let mut row = Writer::new();
    let row = match value {
        Ok(value) if encode_value(&a, Node::ROOT, &value, &mut row).is_ok() => row.finish().ok()?,
        _ => values.to_vec(),
    };
    let saved = save(&a, &[Raw(row.clone()), Raw(if mode & 128 == 0 { row } else { values.to_vec() })], repeats)?;
    let (old, new) = (registry(&a, 1, repeats), registry(&with_rules(&b, &a, choices), 1, repeats));
    for unknown in [Unknown::Keep, Unknown::Drop] {
        if let Some(there) = explore(&saved, &new, unknown, portable)
            && let Some(back) = explore(&there, &old, unknown, portable)
        {
            explore(&back, &new, unknown, !portable);
        }
    }
    let mut upgraded = registry(&b, 3, repeats);
    upgraded.upgrade(KEY, Upgrader::values(1, 2, Ok)).unwrap();
    upgraded.upgrade(KEY, Upgrader::bytes_of(2, a.clone(), 3, b.clone(), |from, to| {
        let rest = from.remaining();
        from.raw(rest).map(|bytes| to.raw(bytes))
    })).unwrap();
    explore(&saved, &upgraded, Unknown::Keep, portable);
    let mut world = registry(&b, 1, repeats);
    world.track("game", 1).unwrap();
    let choices = choices.to_vec();
    world.migration("game", 0, 1, move |world| migrate(world, &choices)).unwrap();
    explore(&saved, &world, Unknown::Keep, portable);
    Some(())
}

fn lock(text: &str) {
    let Ok(lock) = SchemaLock::parse(text) else { return };
    let written = lock.to_string();
    let again = SchemaLock::parse(&written).expect("what was written can be read");
    assert_eq!(again.to_string(), written);
    assert!(lock.diff(&again).is_empty());
    if let Ok(registry) = lock.registry() {
        let _ = lock.problems(&registry).iter().map(ToString::to_string).collect::<Vec<_>>();
        let _ = lock.clone().add(&registry);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, rest)) = bytes.split_first() else { return };
    if kind % 4 == 0 {
        if let Ok(text) = std::str::from_utf8(rest) {
            lock(text);
        }
    } else {
        load(rest);
    }
});

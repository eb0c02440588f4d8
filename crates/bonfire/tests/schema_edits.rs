//! Random edits of random types: what old saves become is what the rules say, whatever the edits were, and nothing is lost
//! without a word.

#[path = "schema_edits/oracle.rs"]
mod oracle;

use std::collections::BTreeSet;

use bonfire::engine::*;
use bonfire::schema::*;
use bonfire::*;
use bonfire_testkit::edit::{Pick, edit, edit_fields};
use bonfire_testkit::shape::{Shape, shapes};
use bonfire_testkit::{scale, values_of};
use proptest::collection::vec;
use proptest::prelude::*;

const KEY: &str = "test.thing";
const ENTITIES: u32 = 8;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases: cases * scale(), failure_persistence: None, ..ProptestConfig::default() }
}

/// Types with values, of which all references are alive.
fn shape_and_values() -> impl Strategy<Value = (Shape, Vec<Value>)> {
    shapes().prop_flat_map(|shape| {
        let values = values_of(&shape.schema(), Node::ROOT)
            .prop_map(|value| refer(&value, &|id| EntityId::new(id.index(), 0)));
        (Just(shape), vec(values, 1..=ENTITIES as usize))
    })
}

/// The value with other references.
fn refer(value: &Value, map: &dyn Fn(EntityId) -> EntityId) -> Value {
    let all = |values: &[Value]| values.iter().map(|value| refer(value, map)).collect();
    match value {
        Value::Entity(id) if !id.is_null() => Value::Entity(map(*id)),
        Value::Some(value) => Value::Some(Box::new(refer(value, map))),
        Value::List(values) => Value::List(all(values)),
        Value::Tuple(values) => Value::Tuple(all(values)),
        Value::Map(entries) => {
            Value::Map(entries.iter().map(|(key, value)| (refer(key, map), refer(value, map))).collect())
        }
        Value::Struct(fields) => {
            Value::Struct(fields.iter().map(|(name, value)| (name.clone(), refer(value, map))).collect())
        }
        Value::Enum(name, content) => Value::Enum(name.clone(), Box::new(refer(content, map))),
        other => other.clone(),
    }
}

fn registry(shape: &Shape, repeats: Repeats) -> Registry {
    let mut registry = Registry::new();
    registry.add(Descriptor::dynamic(KEY, shape.schema()).repeats(repeats)).unwrap();
    registry
}

/// Eight entities, the first of which have the values; the first value is a resource, too.
fn save(shape: &Shape, values: &[Value], repeats: Repeats) -> Vec<u8> {
    let registry = registry(shape, repeats);
    let ids: Vec<EntityId> = (0..ENTITIES).map(|i| EntityId::new(i, 0)).collect();
    let mut writer = SnapshotWriter::new(&registry);
    let rows: Vec<Option<&Value>> = (0..ids.len()).map(|i| values.get(i)).collect();
    writer.archetype(&ids).unwrap().column_sparse_by_key(KEY, &rows).unwrap();
    writer.resources().column_by_key(KEY, &values[..1]).unwrap();
    writer.finish().unwrap().to_bytes().unwrap()
}

/// Loads all values, and the resource after them. Every reference moves to the next entity.
fn load(bytes: &[u8], registry: &Registry, options: LoadOptions) -> Result<(Vec<Value>, LoadReport)> {
    let snapshot = Snapshot::open(bytes)?;
    let snapshot = snapshot.migrated(registry)?;
    let plan = LoadPlan::new(&snapshot, registry, options)?;
    let map = plan.entity_map(plan.entities().into_iter().map(next).collect::<Vec<_>>())?;
    let mut staged = plan.stage(&map, None)?;
    let mut values = staged.take_all::<Value>(&map);
    values.sort_by_key(|(id, _)| (id.index() + ENTITIES - 1) % ENTITIES);
    let mut values: Vec<Value> = values.into_iter().map(|(_, value)| value).collect();
    values.extend(staged.take_resource::<Value>());
    Ok((values, staged.report))
}

fn next(id: EntityId) -> EntityId {
    EntityId::new((id.index() + 1) % ENTITIES, id.generation())
}

fn repeats(number: u8) -> Repeats {
    [Repeats::Plain, Repeats::Dictionary, Repeats::Shared][usize::from(number % 3)]
}

proptest! {
    #![proptest_config(config(256))]

    /// What the rules call compatible loads to exactly what they predict, everything else is refused and the key is named.
    #[test]
    fn saves_follow_edits_as_the_rules_say(
        (source, values) in shape_and_values(),
        picks in vec(any::<Pick>(), 0..5),
        number: u8,
        portable: bool,
    ) {
        let mut target = source.clone();
        edit(&mut target, &picks);
        let bytes = save(&source, &values, repeats(number));
        let options = || LoadOptions { portable, ..LoadOptions::default() };
        let loaded = load(&bytes, &registry(&target, repeats(number / 3)), options());

        // Values that carry their own types may become typed ones or not; here it is enough that all is well with either.
        if oracle::reads_dynamic(&source, &target) {
            if let Err(error) = loaded {
                prop_assert!(error.is_schema() && error.to_string().contains(KEY), "{}", error);
            }
            return Ok(());
        }
        if !oracle::is_compatible(&source, &target) {
            let error = loaded.map(drop).expect_err("the rules refuse it");
            prop_assert!(error.is_schema() && error.to_string().contains(KEY), "{}", error);
            return Ok(());
        }
        let predicted: Option<Vec<Value>> =
            values.iter().chain(&values[..1]).map(|value| oracle::turn(&source, &target, value)).collect();
        let Some(predicted) = predicted else {
            let error = loaded.map(drop).expect_err("a value is refused");
            prop_assert!(error.is_schema() && error.to_string().contains(KEY), "{}", error);
            return Ok(());
        };
        let predicted: Vec<Value> = predicted.iter().map(|value| refer(value, &next)).collect();
        let (found, report) = loaded.map_err(|error| TestCaseError::fail(format!("{error}\n{target:?}")))?;
        prop_assert_eq!(found, predicted);

        // Nothing is lost without a word, and nothing is said to be lost that is not.
        let line = report.component(KEY).unwrap();
        let said: BTreeSet<(String, bool)> = (line.changes.iter())
            .filter_map(|change| match change {
                SchemaChange::Unknown { field } => Some((field.clone(), true)),
                SchemaChange::Dropped { field } => Some((field.clone(), false)),
                _ => None,
            })
            .collect();
        prop_assert_eq!(&said, &oracle::losses(&source, &target));
        prop_assert_eq!(line.is_complete(), said.is_empty());
        prop_assert_eq!(line.dangling, 0);
        let refused = load(&bytes, &registry(&target, Repeats::Plain), LoadOptions { unknown: Unknown::Refuse, ..options() });
        prop_assert_eq!(refused.is_err(), said.iter().any(|(_, carried)| *carried));
    }

    /// Fields that come, go, move and get other names are all back when the old type reads the new one's save.
    #[test]
    fn fields_survive_the_way_there_and_back(
        (source, values) in shape_and_values(),
        picks in vec(any::<Pick>(), 1..8),
        number: u8,
    ) {
        let (mut old, mut new) = (source.clone(), source.clone());
        edit_fields(&mut old, &mut new, &picks);
        let bytes = save(&source, &values, repeats(number));
        let through = |bytes: &[u8], shape: &Shape| {
            let registry = registry(shape, repeats(number / 3));
            let (snapshot, _) = Snapshot::open(bytes).unwrap().rewritten(&registry, LoadOptions::default()).unwrap();
            snapshot.to_bytes().unwrap()
        };
        let there = through(&bytes, &new);
        // Twice: what is carried is carried again.
        let again = through(&there, &new);
        let (found, _) = load(&again, &registry(&new, Repeats::Plain), LoadOptions::default()).unwrap();
        let turned: Vec<Value> = (values.iter().chain(&values[..1]))
            .map(|value| refer(&oracle::turn(&source, &new, value).unwrap(), &next))
            .collect();
        prop_assert_eq!(found, turned);

        let expected: Vec<Value> = values.iter().chain(&values[..1]).map(|value| refer(value, &next)).collect();
        let (found, _) = load(&again, &registry(&old, Repeats::Plain), LoadOptions::default()).unwrap();
        prop_assert_eq!(&found, &expected);
        // And through a save of the old type once more.
        let back = through(&again, &old);
        let (found, _) = load(&back, &registry(&old, Repeats::Plain), LoadOptions::default()).unwrap();
        prop_assert_eq!(&found, &expected);
    }

    /// Any type may become a value that carries its own types, at any depth, and that one becomes the type again.
    #[test]
    fn values_with_types_of_their_own_are_what_they_were(
        (source, values) in shape_and_values(),
        place: u32,
        number: u8,
    ) {
        let mut target = source.clone();
        edit(&mut target, &[[place, 1, 0]]);
        let bytes = save(&source, &values, repeats(number));
        let (typed, _) = Snapshot::open(&bytes).unwrap()
            .rewritten(&registry(&target, repeats(number / 3)), LoadOptions::default()).unwrap();
        let (found, report) = load(&typed.to_bytes().unwrap(), &registry(&source, Repeats::Plain), LoadOptions::default())
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        let expected: Vec<Value> = values.iter().chain(&values[..1]).map(|value| refer(value, &next)).collect();
        prop_assert_eq!(found, expected);
        prop_assert!(report.is_complete(), "{}", report);
    }

    /// A value that carries its own types becomes what a typed one would have become.
    #[test]
    fn values_with_types_of_their_own_follow_edits_too(
        (source, values) in shape_and_values(),
        picks in vec(any::<Pick>(), 0..4),
    ) {
        let mut target = source.clone();
        edit(&mut target, &picks);
        if !oracle::is_compatible(&source, &target) || oracle::reads_dynamic(&source, &target) {
            return Ok(());
        }
        let predicted: Option<Vec<Value>> =
            values.iter().chain(&values[..1]).map(|value| oracle::turn(&source, &target, value)).collect();
        let Some(predicted) = predicted else { return Ok(()) };
        let bytes = save(&Shape::Leaf(Type::Dynamic), &values, Repeats::Plain);
        let loaded = load(&bytes, &registry(&target, Repeats::Plain), LoadOptions::default());
        let (found, _) = loaded.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let predicted: Vec<Value> = predicted.iter().map(|value| refer(value, &next)).collect();
        prop_assert_eq!(found, predicted);
    }
}

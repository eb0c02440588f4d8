//! Deltas: what broke once.

use bonfire::engine::{
    ComponentTable, DeltaOp, DeltaSchema, DeltaScope, DeltaWriter, GroupKind, SentValues, SnapshotWriter,
};
use bonfire::{
    Delta, Descriptor, EntityId, Granularity, Limits, LoadContext, Persist, Registry, Snapshot, Writer,
};
use bytes::Bytes;

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "test.count")]
struct Count(u64);

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "test.score")]
struct Score(i64);

fn registry() -> Registry {
    Registry::new().with::<Count>().unwrap().with::<Score>().unwrap()
}

fn id(index: u32) -> EntityId {
    EntityId::new(index, 0)
}

fn world(registry: &Registry, entities: &[(u32, u64)]) -> Snapshot {
    let mut writer = SnapshotWriter::new(registry);
    if !entities.is_empty() {
        let ids: Vec<EntityId> = entities.iter().map(|(index, _)| id(*index)).collect();
        let values: Vec<Count> = entities.iter().map(|(_, value)| Count(*value)).collect();
        writer.archetype(&ids).unwrap().column(&values).unwrap();
    }
    writer.finish().unwrap()
}

fn counts(snapshot: &Snapshot) -> Vec<(EntityId, String)> {
    let mut all = Vec::new();
    for archetype in snapshot.archetypes() {
        for column in archetype.columns() {
            let values = column.values(&Limits::default()).unwrap();
            all.extend(archetype.ids().iter().zip(values).map(|(id, value)| (*id, format!("{value:?}"))));
        }
    }
    all.sort();
    all
}

/// A mark that is taken off and put on again makes an engine tell the same id as gone and as come.
#[test]
fn an_id_that_goes_comes_and_goes_is_gone() {
    let registry = registry();
    let schema = DeltaSchema::new(&registry);
    let states = [
        world(&registry, &[(0, 1), (1, 2)]),
        world(&registry, &[(1, 2)]),
        world(&registry, &[(1, 2), (0, 5)]),
        world(&registry, &[(1, 3)]),
        world(&registry, &[(1, 3), (0, 7)]),
    ];
    let deltas: Vec<Delta> = states
        .windows(2)
        .zip(0..)
        .map(|(pair, tick)| Delta::between(&schema, &pair[0], &pair[1], tick, tick + 1).unwrap())
        .collect();
    for from in 0..deltas.len() {
        for to in from..deltas.len() {
            let (first, rest) = deltas[from..=to].split_first().unwrap();
            let left = rest.iter().fold(first.clone(), |all, delta| all.compose(delta).unwrap());
            let (last, rest) = deltas[from..=to].split_last().unwrap();
            let right = rest.iter().rev().fold(last.clone(), |all, delta| delta.compose(&all).unwrap());
            for composed in [left, right] {
                let bytes = Bytes::from(composed.to_bytes().unwrap().to_vec());
                let composed = Delta::open(&bytes, schema.table(), &Limits::default()).unwrap();
                let folded = states[from].with_delta(&composed).unwrap();
                assert_eq!(counts(&folded), counts(&states[to + 1]), "from {from} to {to}");
                // Told twice, it is the same.
                let again = folded.with_delta(&composed).unwrap();
                assert_eq!(counts(&again), counts(&states[to + 1]), "from {from} to {to}");
            }
        }
    }
}

#[test]
fn values_alone_drop_nobody() {
    let registry = registry();
    let schema = DeltaSchema::new(&registry);
    let before = world(&registry, &[(0, 1), (1, 2)]);
    let values = Delta::whole(&schema, &before, 1).unwrap().values_only();
    assert_eq!(counts(&before.with_delta(&values).unwrap()), counts(&before));
}

/// Numbers beyond 2^53 are not all numbers of `f64`: a difference of one is still more than a tenth.
#[test]
fn large_integers_are_not_near_because_of_rounding() {
    let registry = registry();
    let schema = DeltaSchema::new(&registry);
    for (from, to) in [(u64::MAX, u64::MAX - 1), ((1 << 53) + 1, 1 << 53), (1 << 60, (1 << 60) + 100)] {
        let mut sent = SentValues::new(Granularity::Component).epsilon(0.1);
        let states = [(0, 0), (0, from), (0, to)].map(|entity| world(&registry, &[entity]));
        let mut told = states.windows(2).zip(0..).map(|(pair, tick)| {
            let delta = Delta::between(&schema, &pair[0], &pair[1], tick, tick + 1).unwrap();
            sent.filter(&delta).unwrap().stats().changed_values
        });
        assert_eq!((told.next(), told.next()), (Some(1), Some(1)), "from {from} to {to}");
    }
    let mut sent = SentValues::new(Granularity::Component).epsilon(5.0);
    let states = [0, i64::MIN, i64::MIN + 5, i64::MIN + 11, i64::MAX].map(|score| {
        let mut writer = SnapshotWriter::new(&registry);
        writer.archetype(&[id(0)]).unwrap().column(&[Score(score)]).unwrap();
        writer.finish().unwrap()
    });
    let told: Vec<usize> = states
        .windows(2)
        .map(|pair| Delta::between(&schema, &pair[0], &pair[1], 0, 1).unwrap())
        .map(|delta| sent.filter(&delta).unwrap().stats().changed_values)
        .collect();
    assert_eq!(told, [1, 0, 1, 1]);
}

#[test]
fn an_entity_that_is_told_of_twice_is_refused() {
    let registry = registry();
    let table = ComponentTable::of(&registry);
    for (groups, is_good) in
        [(&[&[0, 1][..], &[2]][..], true), (&[&[0, 1], &[1]], false), (&[&[3, 0, 3]], false)]
    {
        let mut out = Writer::new();
        [0, 0, groups.len() as u64].into_iter().for_each(|number| out.varint(number));
        for ids in groups {
            out.u8(1);
            out.varint(ids.len() as u64);
            let mut before = 0_i64;
            for id in *ids {
                let step = i64::from(*id) - before;
                before = i64::from(*id);
                out.varint((((step << 1) ^ (step >> 63)) as u64) << 1);
            }
            out.varint(0);
        }
        [0, 0].into_iter().for_each(|number| out.varint(number));
        out.u8(0);
        let content = Bytes::copy_from_slice(out.as_bytes());
        match Delta::from_content(&table, 0, 1, DeltaScope::Changes, content, &Limits::default()) {
            Ok(_) => assert!(is_good, "{groups:?}"),
            Err(error) => assert!(!is_good && error.to_string().contains("twice"), "{groups:?}: {error}"),
        }
    }
}

/// Putting a list in order costs as much as the target has sources, so a target is told once.
#[test]
fn a_list_or_a_resource_that_is_told_twice_is_refused() {
    let registry = registry();
    let table = ComponentTable::of(&registry);
    let open = |content: &Writer| {
        let content = Bytes::copy_from_slice(content.as_bytes());
        Delta::from_content(&table, 0, 1, DeltaScope::Changes, content, &Limits::default())
    };
    let content = |targets: &[u32], resources: &[u64]| {
        let mut out = Writer::new();
        [0, 0, 0, targets.len() as u64].into_iter().for_each(|number| out.varint(number));
        for target in targets {
            out.varint(0);
            out.u64(id(*target).to_bits());
            out.varint(0);
        }
        out.varint(resources.len() as u64);
        for resource in resources {
            out.varint(*resource);
            out.u8(0);
        }
        out.u8(0);
        out
    };
    assert!(open(&content(&[1, 2], &[0, 1])).is_ok());
    for (targets, resources) in [(&[1, 2, 1][..], &[][..]), (&[1, 1], &[]), (&[], &[1, 1]), (&[], &[1, 0])] {
        let error = open(&content(targets, resources)).unwrap_err();
        assert!(error.is_corrupt() && error.to_string().contains("order"), "{error}");
    }
}

/// A codec may leave a value out that was there: that is structure, whatever else is told of the others.
#[test]
fn a_value_that_is_left_out_is_part_of_the_structure() {
    let told = |count: &Count, _: &bonfire::SaveContext<'_>| Ok((count.0 != 0).then_some(count.0));
    let read = |value: u64, _: &LoadContext<'_>| Ok(Some(Count(value)));
    let mut registry = Registry::new();
    registry.add(Descriptor::custom("test.count", told, read)).unwrap();
    let schema = DeltaSchema::new(&registry);
    let mut writer = DeltaWriter::new(&registry, &schema, 0, 1);
    writer
        .group(GroupKind::Changed, vec![id(0), id(1), id(2)])
        .column(DeltaOp::Changed, &[Count(5), Count(0), Count(6)])
        .unwrap();
    let structure = writer.finish().unwrap().structure_only().unwrap();
    let groups: Vec<_> = structure.groups().collect();
    assert_eq!((groups.len(), groups[0].ids()), (1, &[id(1)][..]));
    assert!(groups[0].changes().all(|change| change.op == DeltaOp::Removed));
    let before = world(&registry, &[(0, 1), (1, 2), (2, 3)]);
    let after = before.with_delta(&structure).unwrap();
    assert_eq!(counts(&after).len(), 2);
}

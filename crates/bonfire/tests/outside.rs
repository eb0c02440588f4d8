//! Entities that a save refers to and does not have: stored with their stable ids, and refused if they are damaged or too many.

use std::collections::BTreeMap;

use bonfire::engine::{EntityMap, LoadPlan, OUTSIDE_KEY, OutsideTarget, SnapshotWriter};
use bonfire::{EntityId, Limits, LoadOptions, Persist, Registry, Snapshot, Watch};
use bonfire_testkit::raw::{RawSection, raw_file, sections_of};

#[derive(Persist, Clone, Debug, PartialEq)]
#[persist(key = "test.follows")]
struct Follows {
    leader: EntityId,
    others: Vec<EntityId>,
}

#[derive(Persist, Clone, Copy)]
#[persist(key = "bonfire.stable_id")]
struct StableId(u64);

fn registry() -> Registry {
    Registry::new().with::<Follows>().unwrap().with::<StableId>().unwrap()
}

fn at(index: u32) -> EntityId {
    EntityId::new(index, 1)
}

/// One entity that refers to three: itself, one with a stable id, and one without.
fn snapshot() -> Snapshot {
    let registry = registry();
    let mut writer = SnapshotWriter::new(&registry);
    let mut archetype = writer.archetype(&[at(0)]).unwrap();
    archetype
        .column(&[Follows { leader: at(0), others: vec![at(1), at(2), at(1), EntityId::NULL] }])
        .unwrap();
    archetype.column(&[StableId(70)]).unwrap();
    writer.data("game.boss", &at(3)).unwrap();
    writer.finish().unwrap()
}

fn target(id: EntityId) -> OutsideTarget {
    match id.index() {
        1 | 3 => OutsideTarget::Stable(70 + u64::from(id.index())),
        2 => OutsideTarget::Unnamed,
        _ => panic!("{id} is in the save"),
    }
}

fn plan<'s>(snapshot: &'s Snapshot, registry: &'s Registry) -> LoadPlan<'s, 's> {
    LoadPlan::new(snapshot, registry, LoadOptions::default()).unwrap()
}

#[test]
fn what_is_outside_is_stored_once_and_what_has_no_id_is_noted() {
    let (mut saved, registry) = (snapshot(), registry());
    assert_eq!(plan(&saved, &registry).outside().unwrap(), None);
    saved.save_outside(target).unwrap();
    saved.save_outside(target).unwrap();
    let note = &saved.notes()[0];
    assert_eq!((note.key.as_str(), note.count), ("test.follows", 1));
    let opened = Snapshot::open(&saved.to_bytes().unwrap()).unwrap();
    let plan = plan(&opened, &registry);
    assert_eq!(plan.outside().unwrap(), Some(vec![(at(1), 71), (at(3), 73)]));
    assert_eq!(plan.stable_ids(), [(0, 70)]);
    assert!(opened.canonical().unwrap().data().iter().all(|entry| entry.key() != OUTSIDE_KEY));
}

#[test]
fn references_become_what_the_front_end_says() {
    let (mut saved, registry) = (snapshot(), registry());
    saved.save_outside(target).unwrap();
    let outside = EntityMap::new(&[at(1), at(3)], &[at(50), at(51)]).unwrap();
    let map = EntityMap::new(&[at(0)], &[at(9)]).unwrap();
    let plan = plan(&saved, &registry).with_outside(outside);
    let mut staged = plan.stage(&map, None).unwrap();
    let follows = staged.archetypes[0].take::<Follows>().unwrap().into_rows::<Follows>().unwrap();
    let others = vec![at(50), at(50), EntityId::NULL];
    assert_eq!(follows[0], Follows { leader: at(9), others }, "the one without an id is missing");
    assert_eq!(staged.report.stale_references(), 1);
    assert_eq!(staged.report.unclaimed_data, ["game.boss"], "what is outside is no data of the game");
}

#[test]
fn columns_wait_for_the_world_if_it_must_be_asked() {
    let (mut saved, registry) = (snapshot(), registry());
    saved.save_outside(target).unwrap();
    let map = EntityMap::new(&[at(0)], &[at(9)]).unwrap();
    let unknown = EntityMap::new(&[at(1), at(3)], &[EntityId::NULL; 2]).unwrap();
    let (mut staged, mut deferred) =
        plan(&saved, &registry).with_outside(unknown).stage_without_world(&map, &|_, _| {}).unwrap();
    assert_eq!((deferred.len(), staged.archetypes[0].columns.len()), (1, 1));
    let found = EntityMap::new(&[at(1), at(3)], &[at(50), at(51)]).unwrap();
    let plan = plan(&saved, &registry).with_outside(found.clone());
    while !deferred.is_empty() {
        plan.stage_next(&mut staged, &mut deferred, &map, &()).unwrap();
    }
    let follows = staged.archetypes[0].take::<Follows>().unwrap().into_rows::<Follows>().unwrap();
    assert_eq!(follows[0].others, [at(50), at(50), EntityId::NULL]);
    // A build that does not know the component carries the same.
    let empty = Registry::new();
    let carried = |mut staged: bonfire::engine::Staged<'_>| {
        // A front end maps it when it knows which callbacks ask for it.
        staged.carry.forget_data();
        let registry = Registry::new();
        let mut writer = SnapshotWriter::new(&registry);
        writer.carry(&staged.carry);
        writer.archetype(&[at(9)]).unwrap();
        writer.finish().unwrap().to_bytes().unwrap()
    };
    let unknown = EntityMap::new(&[at(1), at(3)], &[EntityId::NULL; 2]).unwrap();
    let plan_of =
        |outside| LoadPlan::new(&saved, &empty, LoadOptions::default()).unwrap().with_outside(outside);
    let (mut staged, mut deferred) = plan_of(unknown).stage_without_world(&map, &|_, _| {}).unwrap();
    assert!(!deferred.is_empty());
    let plan = plan_of(found.clone());
    while !deferred.is_empty() {
        plan.stage_next(&mut staged, &mut deferred, &map, &()).unwrap();
    }
    let whole = plan_of(found).stage(&map, None).unwrap();
    assert_eq!(staged.report.stale_references(), whole.report.stale_references());
    assert!(carried(staged) == carried(whole));
}

/// A file whose part about the outside is this.
fn forged(pairs: &impl Persist) -> Snapshot {
    let registry = registry();
    let mut writer = SnapshotWriter::new(&registry);
    writer.archetype(&[at(0)]).unwrap().column(&[StableId(70)]).unwrap();
    writer.data(OUTSIDE_KEY, pairs).unwrap();
    Snapshot::open(&writer.finish().unwrap().to_bytes().unwrap()).unwrap()
}

fn outside(snapshot: &Snapshot, limits: Limits) -> bonfire::Result<Option<Vec<(EntityId, u64)>>> {
    let registry = registry();
    LoadPlan::new(snapshot, &registry, LoadOptions { limits: Some(limits), ..LoadOptions::default() })?
        .outside()
}

#[test]
fn damaged_parts_are_refused() {
    let null: BTreeMap<EntityId, u64> = [(EntityId::NULL, 1)].into();
    assert!(outside(&forged(&null), Limits::default()).unwrap_err().is_corrupt());
    for error in [
        outside(&forged(&"text".to_owned()), Limits::default()),
        outside(&forged(&7_u64), Limits::default()),
        outside(&forged(&vec![(at(1), "x".to_owned())]), Limits::default()),
    ] {
        assert!(error.unwrap_err().to_string().contains(OUTSIDE_KEY));
    }
}

#[test]
fn every_byte_of_the_part_may_be_another() {
    const DATA: u16 = 5;
    // What it says about the blocks of others is not true any more.
    const BLOCK_TABLES: u16 = 12;
    let mut saved = snapshot();
    saved.save_outside(target).unwrap();
    let (bytes, entry) = (saved.to_bytes().unwrap(), saved.data()[0].as_bytes().to_vec());
    let (mut refused, mut read) = (0, 0);
    for bit in 0..entry.len() * 8 {
        // The checksums are right.
        let sections = sections_of(&bytes).into_iter().filter(|section| section.kind != BLOCK_TABLES);
        let sections = sections.map(|section| match section.kind {
            DATA => {
                let mut content: Vec<u8> =
                    section.blocks.iter().flat_map(|(_, stored)| stored.clone()).collect();
                let place = content.windows(entry.len()).position(|window| window == entry).unwrap();
                content[place + bit / 8] ^= 1 << (bit % 8);
                RawSection::new(DATA, section.flags, &content)
            }
            _ => section,
        });
        let file = raw_file(&sections.collect::<Vec<_>>());
        match Snapshot::open(&file).and_then(|snapshot| outside(&snapshot, Limits::default())) {
            Ok(pairs) => {
                read += 1;
                assert!(pairs.unwrap().len() <= entry.len() / 16);
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 0 && read > 0, "{refused} {read}");
}

#[test]
fn the_limit_of_entities_counts_those_outside() {
    let pairs: BTreeMap<EntityId, u64> = (1..=1000).map(|index| (at(index), u64::from(index))).collect();
    let limits = |entities_max| Limits { entities_max, ..Limits::default() };
    assert!(outside(&forged(&pairs), limits(1000)).unwrap_err().is_limit());
    assert_eq!(outside(&forged(&pairs), limits(1001)).unwrap().unwrap().len(), 1000);
}

#[test]
fn the_work_is_linear_and_can_be_stopped() {
    let steps = |count: u32| {
        let pairs: BTreeMap<EntityId, u64> = (1..=count).map(|index| (at(index), 5)).collect();
        let watch = Watch::new();
        let limits = Limits { watch: Some(watch.clone()), ..Limits::default() };
        assert_eq!(outside(&forged(&pairs), limits).unwrap().unwrap().len(), count as usize);
        watch.steps()
    };
    let (small, large) = (steps(1000), steps(8000));
    assert!(small >= 1000 && large <= small * 9, "{small} {large}");
}

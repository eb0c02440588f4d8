//! What was once wrong about older saves.

use bonfire::engine::{LoadPlan, SnapshotWriter};
use bonfire::{EntityId, LoadOptions, LoadReport, Persist, Registry, SchemaChange, SchemaLock, Snapshot};

/// Loads a save with one registry and saves it again, with everything that is carried.
fn through(saved: &Snapshot, registry: &Registry) -> (Snapshot, LoadReport) {
    let (new, report) = saved.rewritten(registry, LoadOptions::default()).unwrap();
    (Snapshot::open(&new.to_bytes().unwrap()).unwrap(), report)
}

fn load<T: 'static>(saved: &Snapshot, registry: &Registry) -> Vec<T> {
    let saved = saved.migrated(registry).unwrap();
    let plan = LoadPlan::new(&saved, registry, LoadOptions::default()).unwrap();
    let map = plan.same_entities().unwrap();
    let mut values = plan.stage(&map, None).unwrap().take_all::<T>(&map);
    values.sort_by_key(|(id, _)| id.index());
    values.into_iter().map(|(_, value)| value).collect()
}

fn save<T: bonfire::Keyed>(rows: &[T]) -> (Registry, Snapshot) {
    let registry = Registry::new().with::<T>().unwrap();
    let ids: Vec<EntityId> = (0..rows.len() as u32).map(|i| EntityId::new(i, 1)).collect();
    let mut writer = SnapshotWriter::new(&registry);
    writer.archetype(&ids).unwrap().column(rows).unwrap();
    let saved = writer.finish().unwrap();
    (registry, saved)
}

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.k")]
struct Whole {
    a: u8,
    #[persist(default = 7)]
    b: u8,
}

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.k")]
struct Half {
    a: u8,
}

#[test]
fn a_type_that_is_used_in_two_places_differs_in_both() {
    #[derive(Clone, Persist)]
    #[persist(key = "game.unit")]
    struct Unit {
        main: Whole,
        off: Whole,
        bag: Vec<Whole>,
    }
    #[derive(Clone, Persist)]
    #[persist(key = "game.unit")]
    struct LessUnit {
        main: Half,
        off: Half,
        bag: Vec<Half>,
    }
    let item = |b| Whole { a: 1, b };
    let (_, saved) = save(&[Unit { main: item(1), off: item(2), bag: vec![item(3)] }]);
    let less = Registry::new().with::<LessUnit>().unwrap();
    let (_, report) = through(&saved, &less);
    let unknown = |field: &str| SchemaChange::Unknown { field: field.into() };
    let dropped = SchemaChange::Dropped { field: "bag.element.b".into() };
    assert_eq!(report.components[0].changes, [unknown("main.b"), unknown("off.b"), dropped]);
}

#[test]
fn fields_wait_through_builds_that_know_less_and_less() {
    // One build knows the field, the next one does not, a third does not even have the component.
    let (whole, saved) = save(&[Whole { a: 1, b: 42 }, Whole { a: 2, b: 43 }]);
    let half = Registry::new().with::<Half>().unwrap();
    let (saved, _) = through(&saved, &half);
    let mut writer = SnapshotWriter::new(&half);
    let ids: Vec<EntityId> = (0..3).map(|i| EntityId::new(i, 1)).collect();
    writer.archetype(&ids).unwrap().column(&[Half { a: 1 }, Half { a: 2 }, Half { a: 3 }]).unwrap();
    let plan_source = saved.migrated(&half).unwrap();
    let plan = LoadPlan::new(&plan_source, &half, LoadOptions::default()).unwrap();
    let carry = plan.stage(&plan.same_entities().unwrap(), None).unwrap().carry;
    writer.carry(&carry);
    let saved = writer.finish().unwrap();
    let (saved, _) = through(&saved, &Registry::new());
    let wanted = [Whole { a: 1, b: 42 }, Whole { a: 2, b: 43 }, Whole { a: 3, b: 7 }];
    assert_eq!(load::<Whole>(&saved, &whole), wanted);
    // Rewritten, it is the same.
    let (saved, report) = through(&saved, &whole);
    assert!(report.is_complete(), "{report}");
    assert_eq!(load::<Whole>(&saved, &whole), wanted);
}

#[test]
fn fields_wait_for_a_component_that_gets_another_key() {
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.kk", alias = "game.k")]
    struct HalfRenamed {
        a: u8,
    }
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.kk", alias = "game.k")]
    struct WholeRenamed {
        a: u8,
        #[persist(default = 7)]
        b: u8,
    }
    let (_, saved) = save(&[Whole { a: 1, b: 42 }]);
    let (saved, _) = through(&saved, &Registry::new().with::<HalfRenamed>().unwrap());
    let registry = Registry::new().with::<WholeRenamed>().unwrap();
    assert_eq!(load::<WholeRenamed>(&saved, &registry), [WholeRenamed { a: 1, b: 42 }]);
}

#[test]
fn a_default_that_differs_each_time_can_be_locked_as_long_as_nobody_needs_it() {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    #[derive(Persist)]
    struct Serial(u32);
    impl Default for Serial {
        fn default() -> Self {
            Self(NEXT.fetch_add(1, Ordering::Relaxed))
        }
    }
    #[derive(Persist)]
    #[persist(key = "game.item")]
    struct Item {
        serial: Serial,
    }
    let registry = Registry::new().with::<Item>().unwrap();
    let mut lock = SchemaLock::default();
    lock.add(&registry).unwrap();
    lock.check(&registry).unwrap();
    let _ = Item { serial: Serial(0) }.serial.0;
}

#[test]
fn two_forms_of_one_component_are_both_reported() {
    // Rows as the build has them, and rows with a field that it does not know.
    let (_, saved) = save(&[Whole { a: 1, b: 42 }]);
    let half = Registry::new().with::<Half>().unwrap();
    let (carried, _) = through(&saved, &half);
    let plan_source = carried.migrated(&half).unwrap();
    let plan = LoadPlan::new(&plan_source, &half, LoadOptions::default()).unwrap();
    let carry = plan.stage(&plan.same_entities().unwrap(), None).unwrap().carry;
    let mut writer = SnapshotWriter::new(&half);
    let ids = [EntityId::new(0, 1), EntityId::new(1, 1)];
    writer.archetype(&ids).unwrap().column(&[Half { a: 1 }, Half { a: 2 }]).unwrap();
    writer.carry(&carry);
    let (_, report) = through(&writer.finish().unwrap(), &half);
    assert_eq!(report.components[0].changes, [SchemaChange::Unknown { field: "b".into() }]);
    assert!(!report.is_complete() && report.components[0].rows == 2, "{report}");
}

//! Staging in two parts, without a world and with one, makes what staging in one makes.

use std::any::Any;
use std::cell::RefCell;

use bonfire::engine::*;
use bonfire::*;
use proptest::prelude::*;

/// The world: what is added to every number that asks for it.
struct Base(u32);

#[derive(Clone, Copy, Debug, PartialEq, Persist)]
#[persist(key = "test.plain")]
struct Plain(u32);

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "test.link")]
struct Link(Option<EntityId>);

/// Decoded with a look at the world, or not, as its number says.
#[derive(Clone, Debug, PartialEq)]
struct Looks(u32, EntityId);
/// The same, as resources, and another one.
#[derive(Clone, Debug, PartialEq)]
struct LooksAlone<const NUMBER: usize>(u32, EntityId);
#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "test.z_score")]
struct Score(u32);

#[derive(Persist)]
struct Saved {
    number: u32,
    of: EntityId,
}
/// What an older build saved: a field more, in another order.
#[derive(Persist)]
struct OldSaved {
    of: EntityId,
    gone: String,
    number: u32,
}

fn alone<const NUMBER: usize>(registry: &mut Registry, key: &'static str, old: bool) {
    let descriptor = match old {
        false => Descriptor::custom(
            key,
            |looks: &LooksAlone<NUMBER>, _| Ok(Some(Saved { number: looks.0, of: looks.1 })),
            |saved: Saved, context| {
                Ok(look(saved.number, context)?.map(|number| LooksAlone(number, saved.of)))
            },
        ),
        true => Descriptor::custom(
            key,
            |looks: &LooksAlone<NUMBER>, _| {
                Ok(Some(OldSaved { of: looks.1, gone: "gone".to_owned(), number: looks.0 }))
            },
            |saved: OldSaved, _| Ok(Some(LooksAlone(saved.number, saved.of))),
        ),
    };
    registry.add(descriptor).unwrap();
}

fn look(number: u32, context: &LoadContext<'_>) -> Result<Option<u32>> {
    let base = || context.world::<Base>().map(|base| base.0);
    match number % 5 {
        0 | 1 => Ok(Some(number)),
        2 => base().map(|base| Some(number + base)).ok_or_else(|| Error::custom("no world")),
        3 => Ok(Some(base().unwrap_or(0))),
        // Nothing is left of it, if there is a world.
        _ => Ok(base().is_none().then_some(number)),
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Age {
    New,
    Old,
    /// It does not know what looks at the world.
    Stranger,
}

fn registry(age: Age) -> Registry {
    let registry = Registry::new().with::<Plain>().unwrap().with::<Link>().unwrap().with::<Score>().unwrap();
    let mut registry = registry;
    let descriptor = match age {
        Age::Stranger => return registry,
        Age::New => Descriptor::custom(
            "test.looks",
            |looks: &Looks, _| Ok(Some(Saved { number: looks.0, of: looks.1 })),
            |saved: Saved, context| Ok(look(saved.number, context)?.map(|number| Looks(number, saved.of))),
        ),
        Age::Old => Descriptor::custom(
            "test.looks",
            |looks: &Looks, _| Ok(Some(OldSaved { of: looks.1, gone: "gone".to_owned(), number: looks.0 })),
            |saved: OldSaved, _| Ok(Some(Looks(saved.number, saved.of))),
        ),
    };
    registry.add(descriptor).unwrap();
    alone::<0>(&mut registry, "test.looks_alone", age == Age::Old);
    alone::<1>(&mut registry, "test.looks_alone_too", age == Age::Old);
    registry
}

/// Archetypes: per row, which number it has and whom it refers to.
type Rows = Vec<Vec<(u32, u32)>>;

fn save(rows: &Rows, alone: u32, age: Age) -> Snapshot {
    let registry = registry(age);
    let mut writer = SnapshotWriter::new(&registry);
    let mut next = 0;
    let id = |index: u32| EntityId::new(index, 0);
    for (number, archetype) in rows.iter().enumerate() {
        let ids: Vec<EntityId> = (next..).take(archetype.len()).map(id).collect();
        next += archetype.len() as u32;
        let mut out = writer.archetype(&ids).unwrap();
        if number % 2 == 0 {
            out.column(&archetype.iter().map(|row| Plain(row.0)).collect::<Vec<_>>()).unwrap();
        }
        out.column(&archetype.iter().map(|row| Looks(row.0, id(row.1))).collect::<Vec<_>>()).unwrap();
        out.column(&archetype.iter().map(|row| Link(Some(id(row.1)))).collect::<Vec<_>>()).unwrap();
    }
    writer.resource(&LooksAlone::<0>(alone, id(alone % 7))).unwrap();
    writer.resource(&LooksAlone::<1>(alone / 5, id(alone % 3))).unwrap();
    writer.resource(&Score(9)).unwrap();
    let snapshot = writer.finish().unwrap();
    Snapshot::open(&snapshot.encode(&EncodeOptions::default()).unwrap().to_vec()).unwrap()
}

/// What a build that does not know what looks at the world makes of a save.
fn carried(snapshot: &Snapshot) -> Snapshot {
    let registry = registry(Age::Stranger);
    let plan = LoadPlan::new(snapshot, &registry, LoadOptions::default()).unwrap();
    let map = plan.same_entities().unwrap();
    let staged = plan.stage(&map, None).unwrap();
    let mut writer = SnapshotWriter::new(&registry);
    for archetype in staged.archetypes {
        let mut out = writer.archetype(&archetype.ids).unwrap();
        for (_, column) in archetype.columns {
            if let Some(rows) = column.as_slice::<Plain>() {
                out.column(rows).unwrap();
            } else if let Some(rows) = column.as_slice::<Link>() {
                out.column(rows).unwrap();
            }
        }
    }
    writer.carry(&staged.carry);
    writer.finish().unwrap()
}

fn rows(column: &StagedColumn<'_>) -> String {
    let rows = column.as_slice::<Plain>().map(|rows| format!("{rows:?}"));
    let rows = rows.or_else(|| column.as_slice::<Link>().map(|rows| format!("{rows:?}")));
    let rows = rows.or_else(|| column.as_slice::<Looks>().map(|rows| format!("{rows:?}")));
    let rows = rows.or_else(|| column.as_slice::<LooksAlone<0>>().map(|rows| format!("{rows:?}")));
    let rows = rows.or_else(|| column.as_slice::<LooksAlone<1>>().map(|rows| format!("{rows:?}")));
    let rows = rows.or_else(|| column.as_slice::<Score>().map(|rows| format!("{rows:?}"))).unwrap();
    format!("{rows} {:?}", column.presence().map(|present| present.iter().collect::<Vec<_>>()))
}

fn describe(staged: &Staged<'_>) -> String {
    let columns = |columns: &[(usize, StagedColumn<'_>)]| -> Vec<(usize, String)> {
        columns.iter().map(|(number, column)| (*number, rows(column))).collect()
    };
    let archetypes: Vec<_> = staged
        .archetypes
        .iter()
        .map(|archetype| (archetype.ids.to_vec(), columns(&archetype.columns)))
        .collect();
    let extras: Vec<_> = staged
        .extras
        .iter()
        .map(|extra| (extra.component, extra.ids.to_vec(), rows(&extra.column)))
        .collect();
    format!(
        "{archetypes:#?}\n{:#?}\n{extras:#?}\n{:?}\n{:#?}",
        columns(&staged.resources),
        staged.carry.component_rows(),
        staged.report
    )
}

fn plan<'s, 'r>(snapshot: &'s Snapshot, registry: &'r Registry) -> LoadPlan<'s, 'r> {
    let options = LoadOptions { dangling: Dangling::DropComponent, ..LoadOptions::default() };
    LoadPlan::new(snapshot, registry, options).unwrap()
}

fn shifted(plan: &LoadPlan<'_, '_>) -> EntityMap {
    let new = plan.entities().iter().map(|id| EntityId::new(id.index() + 1000, 3)).collect::<Vec<_>>();
    plan.entity_map(new).unwrap()
}

/// Both ways; the second on another thread, with a plan made anew for what waits. Returns how many columns waited.
fn check(snapshot: &Snapshot) -> usize {
    let registry = registry(Age::New);
    let snapshot = &*snapshot.migrated(&registry).unwrap();
    let world = Base(100);
    let expected = {
        let plan = plan(snapshot, &registry);
        describe(&plan.stage(&shifted(&plan), Some(&world as &dyn Any)).unwrap())
    };
    let plan_apart = plan(snapshot, &registry);
    let map = shifted(&plan_apart);
    let watched = RefCell::new(Vec::new());
    let (staged, mut deferred) = plan_apart
        .stage_without_world(&map, &|done, total| watched.borrow_mut().push((done, total)))
        .unwrap();
    let mut staged = staged.into_owned();
    let watched = watched.into_inner();
    assert!(watched.is_sorted());
    assert!(watched.last().is_none_or(|(done, total)| done == total), "{watched:?}");
    let borrowed = staged.archetypes.iter().flat_map(|archetype| &archetype.columns);
    assert!(!borrowed.map(|(_, column)| column).any(StagedColumn::is_borrowed));
    drop(plan_apart);
    let waited = deferred.len();
    while !deferred.is_empty() {
        let plan = plan(snapshot, &registry);
        plan.stage_next(&mut staged, &mut deferred, &map, &world).unwrap();
    }
    assert_eq!(describe(&staged), expected);
    waited
}

#[test]
fn what_does_not_look_does_not_wait() {
    let waiting = |numbers: &[u32], alone| {
        let rows = numbers.iter().map(|&number| vec![(number, 0), (0, 1)]).collect();
        check(&save(&rows, alone, Age::New))
    };
    assert_eq!(waiting(&[0, 1], 0), 0);
    assert_eq!(waiting(&[0, 2, 1], 0), 1);
    assert_eq!(waiting(&[2, 3, 4], 0), 3);
    assert_eq!(waiting(&[2, 0, 4], 4), 3);
}

#[test]
fn what_fails_without_looking_fails_at_once() {
    let mut registry = Registry::new();
    let never = |_: u32, _: &LoadContext<'_>| -> Result<Option<Plain>> { Err(Error::custom("never")) };
    registry.add(Descriptor::custom("test.plain", |plain: &Plain, _| Ok(Some(plain.0)), never)).unwrap();
    let mut writer = SnapshotWriter::new(&registry);
    writer.archetype(&[EntityId::new(0, 0)]).unwrap().column(&[Plain(1)]).unwrap();
    let snapshot = writer.finish().unwrap();
    let plan = LoadPlan::new(&snapshot, &registry, LoadOptions::default()).unwrap();
    let error = plan.stage_without_world(&plan.same_entities().unwrap(), &|_, _| {}).err().unwrap();
    assert!(error.to_string().contains("never"), "{error}");
}

#[test]
fn what_fails_with_a_look_fails_when_there_is_a_world() {
    let registry = registry(Age::New);
    let snapshot = save(&vec![vec![(2, 0)]], 0, Age::New);
    let plan = plan(&snapshot, &registry);
    let map = plan.same_entities().unwrap();
    let (mut staged, mut deferred) = plan.stage_without_world(&map, &|_, _| {}).unwrap();
    // Not the world that the codec wants.
    let error = plan.stage_next(&mut staged, &mut deferred, &map, &()).unwrap_err();
    assert_eq!(error.key(), Some("test.looks"));
}

#[test]
fn what_is_decoded_twice_is_counted_once() {
    let registry = registry(Age::New);
    let snapshot = save(&vec![vec![(2, 0); 1000]], 0, Age::New);
    let needed = |bytes: u64, apart: bool| {
        let limits = Limits { memory_bytes_max: bytes, ..Limits::default() };
        let options = LoadOptions { limits: Some(limits), ..LoadOptions::default() };
        let plan = LoadPlan::new(&snapshot, &registry, options).unwrap();
        let map = plan.same_entities().unwrap();
        if !apart {
            return plan.stage(&map, Some(&Base(0))).is_ok();
        }
        let Ok((mut staged, mut deferred)) = plan.stage_without_world(&map, &|_, _| {}) else { return false };
        plan.stage_next(&mut staged, &mut deferred, &map, &Base(0)).is_ok()
    };
    let enough = (1..).map(|kilobytes| kilobytes * 1024).find(|&bytes| needed(bytes, false)).unwrap();
    assert!(needed(enough, true));
    assert!(!needed(enough - 1024, true));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn both_ways_are_the_same(
        rows in prop::collection::vec(prop::collection::vec((0..40_u32, 0..12_u32), 1..5), 0..6),
        alone in 0..40_u32,
        old in any::<bool>(),
        carry in any::<bool>(),
    ) {
        let snapshot = save(&rows, alone, if old { Age::Old } else { Age::New });
        check(&if carry { carried(&snapshot) } else { snapshot });
    }
}

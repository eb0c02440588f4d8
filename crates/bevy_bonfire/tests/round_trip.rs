//! What is saved comes back: every kind of component, references, hierarchy, relationships, resources.

mod common;

use bevy_bonfire::prelude::*;
use bevy_bonfire::{EncodeOptions, Snapshot};
use bevy_ecs::prelude::*;
use common::*;

fn reopened(world: &World) -> Snapshot {
    let bytes = save(world).encode(&EncodeOptions::default()).unwrap().to_vec();
    Snapshot::open(&bytes).unwrap()
}

#[test]
fn components_of_every_kind_come_back() {
    let mut source = world();
    let a =
        source.spawn((Saved, Position { x: 1.0, y: -0.0 }, Health { current: 3, max: 9, flash: 77 })).id();
    let b = source
        .spawn((
            Saved,
            Name::new("Bo"),
            Inventory { items: vec!["axe".into(), "".into()], gold: Some(u64::MAX) },
            Burning("slowly".into()),
            Enemy,
            Team(4),
            Hover(5),
            Quest { title: "q".into(), stages: [("one".to_owned(), 1)].into() },
        ))
        .id();
    let c = source
        .spawn((
            Saved,
            Mood::Angry { at: Some(a), level: 200 },
            Follows { leader: b, others: vec![a, b, a], last: None },
        ))
        .id();
    source.spawn((Position { x: 9.0, y: 9.0 }, Name::new("not saved")));
    source.insert_resource(Score { points: 12, best: Some(c) });

    let snapshot = reopened(&source);
    assert_eq!(snapshot.entity_count(), 3);
    let mut target = world();
    target.spawn(Name::new("something else first"));
    let loaded = target.load(&snapshot, LoadMode::Replace).unwrap();
    let new = |entity| loaded.entity(entity).unwrap();

    assert_eq!(target.get(new(a)), Some(&Position { x: 1.0, y: -0.0 }));
    assert_eq!(target.get(new(a)), Some(&Health { current: 3, max: 9, flash: 0 }));
    let b2 = target.entity(new(b));
    assert_eq!(b2.get::<Name>().unwrap().as_str(), "Bo");
    assert_eq!(b2.get::<Inventory>(), source.get(b));
    assert_eq!(b2.get::<Burning>(), Some(&Burning("slowly".into())));
    assert_eq!(b2.get::<Quest>(), source.get(b));
    assert_eq!(b2.get::<Team>(), Some(&Team(4)));
    assert!(b2.contains::<Enemy>() && b2.contains::<Saved>() && !b2.contains::<Hover>());
    assert_eq!(target.get(new(c)), Some(&Mood::Angry { at: Some(new(a)), level: 200 }));
    let follows = Follows { leader: new(b), others: vec![new(a), new(b), new(a)], last: None };
    assert_eq!(target.get(new(c)), Some(&follows));
    assert_eq!(target.resource::<Score>(), &Score { points: 12, best: Some(new(c)) });
    assert!(loaded.report.is_complete(), "{:?}", loaded.report);
    assert_eq!(canonical(&target), canonical(&source));
}

fn children(world: &World, parent: Entity) -> Vec<String> {
    let children = world.get::<Children>(parent).map(|children| children.to_vec()).unwrap_or_default();
    children.into_iter().map(|child| world.get::<Name>(child).unwrap().to_string()).collect()
}

#[test]
fn siblings_keep_their_order_across_archetypes() {
    let mut source = world();
    let parent = source.spawn((Saved, Name::new("parent"))).id();
    // Children before their parents, in archetypes that are mixed.
    for i in 0..6 {
        let child = source.spawn((Saved, Name::new(format!("{i}")))).id();
        if i % 2 == 0 {
            source.entity_mut(child).insert(Enemy);
        }
        if i % 3 == 0 {
            source.entity_mut(child).insert(Burning("x".into()));
        }
    }
    let mut query = source.query::<(Entity, &Name)>();
    let mut named: Vec<(String, Entity)> = query.iter(&source).map(|(e, n)| (n.to_string(), e)).collect();
    named.sort();
    for (name, child) in named.iter().rev().filter(|(name, _)| name != "parent") {
        assert!(!name.is_empty());
        source.entity_mut(*child).insert(ChildOf(parent));
    }
    assert_eq!(children(&source, parent), ["5", "4", "3", "2", "1", "0"]);
    let snapshot = reopened(&source);
    let mut target = world();
    let loaded = target.load(&snapshot, LoadMode::Replace).unwrap();
    assert_eq!(children(&target, loaded.entity(parent).unwrap()), ["5", "4", "3", "2", "1", "0"]);
    assert_eq!(canonical(&target), canonical(&source));
}

#[test]
fn siblings_of_one_archetype_keep_an_order_that_is_not_that_of_rows() {
    let mut source = world();
    let parent = source.spawn((Saved, Name::new("parent"))).id();
    for name in ["a", "b", "c"] {
        source.spawn((Saved, Name::new(name), ChildOf(parent)));
    }
    source.get_mut::<Children>(parent).unwrap().swap(0, 2);
    assert_eq!(children(&source, parent), ["c", "b", "a"]);
    let mut target = world();
    let loaded = target.load(&reopened(&source), LoadMode::Replace).unwrap();
    assert_eq!(children(&target, loaded.entity(parent).unwrap()), ["c", "b", "a"]);
}

#[test]
fn relationships_of_the_game_keep_data_order_and_target() {
    let mut source = world();
    let mut ships: Vec<Entity> = (0..4).map(|_| source.spawn(Saved).id()).collect();
    let station = source.spawn((Saved, Name::new("station"))).id();
    ships.swap(1, 2);
    for (i, &ship) in ships.iter().enumerate() {
        source.entity_mut(ship).insert(DockedAt { station, berth: format!("berth {i}") });
    }
    let away = source.spawn(Name::new("not saved")).id();
    let lost = source.spawn((Saved, DockedAt { station: away, berth: "none".into() })).id();
    let snapshot = reopened(&source);
    let mut target = world();
    let loaded = target.load(&snapshot, LoadMode::Replace).unwrap();
    let new: Vec<Entity> = ships.iter().map(|&ship| loaded.entity(ship).unwrap()).collect();
    assert_eq!(target.get::<DockedShips>(loaded.entity(station).unwrap()).unwrap().ships(), new);
    for (i, &ship) in new.iter().enumerate() {
        assert_eq!(target.get::<DockedAt>(ship).unwrap().berth, format!("berth {i}"));
    }
    assert!(target.get::<DockedAt>(loaded.entity(lost).unwrap()).is_none());
    let line = loaded.report.component("test.docked_at").unwrap();
    assert_eq!((line.dangling, line.left_out), (1, 1));
    assert_eq!(snapshot.components().iter().filter(|component| component.key.contains("hildren")).count(), 0);
}

/// Its codec leaves odd numbers out.
#[derive(Component)]
struct Even(u8);

#[test]
fn siblings_keep_their_order_when_some_come_by_batch_and_some_do_not() {
    for sets in [0, 1, 2, 128] {
        let build = || {
            let mut app = bevy_app::App::new();
            app.add_plugins(BonfirePlugin::default().batches_max(sets));
            register(app.world_mut(), false);
            let save = |even: &Even, _: &bevy_bonfire::core::SaveContext<'_>| {
                Ok(even.0.is_multiple_of(2).then_some(even.0))
            };
            let load = |saved: u8, _: &bevy_bonfire::LoadContext<'_>| Ok(Some(Even(saved)));
            app.persist_as::<Even>(bevy_bonfire::Descriptor::custom("test.even", save, load));
            app
        };
        let mut source = build();
        let parent = source.world_mut().spawn((Saved, Name::new("parent"))).id();
        // One archetype, whose column has holes: its rows come back with different components.
        for i in 0..9 {
            source.world_mut().spawn((Saved, Name::new(format!("{i}")), Even(i), ChildOf(parent)));
        }
        let snapshot = reopened(source.world());
        let mut target = build();
        let loaded = target.world_mut().load(&snapshot, LoadMode::Replace).unwrap();
        let order = children(target.world(), loaded.entity(parent).unwrap());
        assert_eq!(order, ["0", "1", "2", "3", "4", "5", "6", "7", "8"], "{sets} sets by batches");
    }
}

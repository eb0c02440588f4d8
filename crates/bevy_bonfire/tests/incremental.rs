//! A capture that is made over the one before it is the capture that would have been made without.

mod common;

use bevy_bonfire::prelude::*;
use bevy_bonfire::{EncodeOptions, IncrementalCapture, Snapshot};
use bevy_ecs::prelude::*;
use bonfire_testkit::disk::Random;
use bonfire_testkit::scale;
use bonfire_testkit::script::{Life, scripts};
use common::script::BevyWorld;
use common::*;
use proptest::prelude::*;

/// Captures in both ways, and checks that the bytes are those of a capture that stands alone.
struct Check {
    trusting: IncrementalCapture,
    comparing: IncrementalCapture,
}

impl Check {
    fn new() -> Self {
        Self { trusting: IncrementalCapture::new(), comparing: IncrementalCapture::new().compared() }
    }

    fn run(&mut self, world: &mut World) -> Snapshot {
        let options = SaveOptions::new();
        let snapshot = self.trusting.capture(world, &options).unwrap();
        let compared = self.comparing.capture(world, &options).unwrap();
        let alone = world.capture(&options).unwrap();
        let bytes = alone.to_bytes().unwrap();
        assert!(snapshot.to_bytes().unwrap() == bytes, "a change was not seen");
        assert!(compared.to_bytes().unwrap() == bytes, "a difference was not seen");
        assert_eq!(snapshot.notes().len(), alone.notes().len());
        snapshot
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24 * scale(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lives_are_captured_as_they_are(parts in prop::collection::vec(scripts(20), 2..6)) {
        let mut world = <BevyWorld<128> as bonfire_testkit::script::ScriptWorld>::fresh(false);
        let mut life = Life::default();
        let mut check = Check::new();
        for part in parts {
            life.go_on(&mut world, &part);
            check.run(&mut world.0);
        }
    }
}

/// Every kind of edit that a game makes, in tables of several pages.
fn edit(world: &mut World, random: &mut Random, alive: &mut Vec<Entity>) {
    let pick = |random: &mut Random, alive: &[Entity]| *random.pick(alive);
    match random.below(16) {
        0 => {
            let at = random.below(alive.len());
            world.despawn(alive.swap_remove(at));
        }
        // The row of the one that goes is that of the one that comes.
        1 => {
            world.despawn(alive.pop().unwrap());
            alive.push(world.spawn((Saved, Position { x: 1.0, y: random.below(9) as f32 })).id());
        }
        2 => alive.push(world.spawn((Saved, Position::default(), Health::default())).id()),
        3 => _ = world.entity_mut(pick(random, alive)).insert(Enemy),
        4 => _ = world.entity_mut(pick(random, alive)).remove::<Enemy>(),
        // There and back again: the same entity, perhaps in the same row.
        5 => {
            let entity = pick(random, alive);
            world.entity_mut(entity).insert(Team(3)).remove::<Team>();
        }
        6 => _ = world.entity_mut(pick(random, alive)).insert(Burning(format!("{}", random.below(100)))),
        7 => {
            let axe = Inventory { items: vec!["axe".into()], gold: None };
            world.entity_mut(pick(random, alive)).insert(axe);
        }
        8 => {
            let entity = pick(random, alive);
            if let Some(mut burning) = world.get_mut::<Burning>(entity) {
                burning.0.push('!');
            }
        }
        9 => world.insert_resource(Score { points: random.number() % 1000, best: Some(pick(random, alive)) }),
        10 => {
            let (child, parent) = (pick(random, alive), pick(random, alive));
            if child != parent
                && world.get::<ChildOf>(parent).is_none()
                && world.get::<Children>(child).is_none()
            {
                world.entity_mut(child).insert(ChildOf(parent));
            }
        }
        11 => {
            let entity = pick(random, alive);
            if let Some(mut children) = world.get_mut::<Children>(entity) {
                children.sort_by_key(|child| std::cmp::Reverse(*child));
            }
        }
        12 => {
            let (a, b) = (pick(random, alive), pick(random, alive));
            if let Ok([mut a, mut b]) = world.get_entity_mut([a, b])
                && let (Some(mut a), Some(mut b)) = (a.get_mut::<Position>(), b.get_mut::<Position>())
            {
                std::mem::swap(&mut *a, &mut *b);
            }
        }
        _ => {
            let entity = pick(random, alive);
            if let Some(mut position) = world.get_mut::<Position>(entity) {
                position.x += 1.0;
            }
        }
    }
}

#[test]
fn edits_of_every_kind_are_captured() {
    for seed in 0..u64::from(4 * scale()) {
        let mut random = Random::new(seed);
        let mut world = world();
        let mut alive: Vec<Entity> = Vec::new();
        for i in 0..6000_u32 {
            let position = Position { x: i as f32, y: 0.0 };
            alive.push(match i % 3 {
                0 => world.spawn((Saved, position)).id(),
                1 => world.spawn((Saved, position, Health { current: 1, max: i, flash: 0 })).id(),
                _ => world.spawn((Saved, position, Inventory::default())).id(),
            });
        }
        let mut check = Check::new();
        let mut kept = vec![check.run(&mut world)];
        for _ in 0..25 {
            for _ in 0..random.below(20) {
                // Despawned with a parent, perhaps.
                alive.retain(|entity| world.get_entity(*entity).is_ok());
                edit(&mut world, &mut random, &mut alive);
            }
            alive.retain(|entity| world.get_entity(*entity).is_ok());
            kept.push(check.run(&mut world));
        }
        // What was captured earlier is what it was, though it shares memory with what came later.
        let whole: usize = kept.iter().map(|snapshot| Snapshot::memory_bytes([snapshot])).sum();
        let shared = Snapshot::memory_bytes(&kept);
        assert!(shared < whole, "{shared} of {whole} bytes");
        for snapshot in kept {
            let bytes = snapshot.to_bytes().unwrap();
            assert!(Snapshot::open(&bytes).unwrap().to_bytes().unwrap() == bytes);
        }
    }
}

#[test]
fn what_has_not_changed_is_shared_with_its_checksums() {
    let mut world = world();
    for i in 0..10_000 {
        world.spawn((Saved, Position { x: i as f32, y: 0.5 }, Mood::Singing(format!("la {i}"))));
    }
    let mut captures = IncrementalCapture::new();
    let first = captures.capture(&mut world, &SaveOptions::new()).unwrap();
    let second = captures.capture(&mut world, &SaveOptions::new()).unwrap();
    let one = Snapshot::memory_bytes([&first]);
    assert_eq!(Snapshot::memory_bytes([&first, &second]), one);
    let entity = world.query_filtered::<Entity, With<Position>>().iter(&world).nth(5000).unwrap();
    world.get_mut::<Position>(entity).unwrap().x = -1.0;
    let third = captures.capture(&mut world, &SaveOptions::new()).unwrap();
    assert_eq!(Snapshot::memory_bytes([&first, &second, &third]), one + (16 << 10));
    assert_eq!(third.to_bytes().unwrap(), save(&world).to_bytes().unwrap());
    // Compressed and not.
    let options = EncodeOptions { root_hash: true, ..EncodeOptions::default() };
    assert_eq!(third.encode(&options).unwrap().to_vec(), save(&world).encode(&options).unwrap().to_vec());
}

#[test]
fn what_is_written_past_change_detection_is_found_by_comparing_only() {
    let mut world = world();
    let entity = world.spawn((Saved, Position::default())).id();
    let (mut trusting, mut comparing) = (IncrementalCapture::new(), IncrementalCapture::new().compared());
    let options = SaveOptions::new();
    let before = trusting.capture(&mut world, &options).unwrap().to_bytes().unwrap();
    comparing.capture(&mut world, &options).unwrap();
    world.get_mut::<Position>(entity).unwrap().bypass_change_detection().x = 7.0;
    let now = save(&world).to_bytes().unwrap();
    assert_ne!(before, now);
    assert_eq!(trusting.capture(&mut world, &options).unwrap().to_bytes().unwrap(), before);
    assert_eq!(comparing.capture(&mut world, &options).unwrap().to_bytes().unwrap(), now);
    // Either of these makes up for it.
    world.get_mut::<Position>(entity).unwrap().set_changed();
    assert_eq!(trusting.capture(&mut world, &options).unwrap().to_bytes().unwrap(), now);
    world.get_mut::<Position>(entity).unwrap().bypass_change_detection().x = 8.0;
    trusting.forget();
    assert_ne!(trusting.capture(&mut world, &options).unwrap().to_bytes().unwrap(), now);
}

#[test]
fn what_changes_in_the_tick_of_a_capture_is_in_the_next_one() {
    let mut world = world();
    let entity = world.spawn((Saved, Position::default())).id();
    let mut captures = IncrementalCapture::new();
    for x in 1..10 {
        captures.capture(&mut world, &SaveOptions::new()).unwrap();
        // No system runs in between: the tick moves because of the capture alone.
        world.get_mut::<Position>(entity).unwrap().x = x as f32;
        let snapshot = captures.capture(&mut world, &SaveOptions::new()).unwrap();
        assert_eq!(snapshot.to_bytes().unwrap(), save(&world).to_bytes().unwrap());
    }
}

#[test]
fn other_worlds_registrations_and_selections_are_no_reason_to_be_wrong() {
    let mut first = world();
    let mut second = world();
    for i in 0..300 {
        first.spawn((Saved, Position { x: i as f32, y: 0.0 }));
        let entity = second.spawn((Saved, Position { x: -1.0, y: i as f32 })).id();
        if i % 2 == 0 {
            second.entity_mut(entity).insert(Enemy);
        }
    }
    let mut captures = IncrementalCapture::new();
    for turn in 0..2 {
        for world in [&mut first, &mut second] {
            let snapshot = captures.capture(world, &SaveOptions::new()).unwrap();
            assert_eq!(snapshot.to_bytes().unwrap(), save(world).to_bytes().unwrap());
            if turn == 0 {
                world.persist_as::<common::script::Even>(bevy_bonfire::Descriptor::custom(
                    "test.even",
                    |even: &common::script::Even| Ok(Some(even.0)),
                    |saved: u8, _| Ok(Some(common::script::Even(saved))),
                ));
            }
        }
    }
    for _ in 0..2 {
        for options in [SaveOptions::new().matching::<With<Enemy>>(), SaveOptions::new()] {
            let snapshot = captures.capture(&mut second, &options).unwrap();
            assert_eq!(snapshot.to_bytes().unwrap(), second.capture(&options).unwrap().to_bytes().unwrap());
        }
    }
    let bad = SaveOptions::new().filter(bevy_bonfire::Filter::new().layers([1]).unwrap());
    assert!(captures.capture(&mut second, &bad).is_err());
    let snapshot = captures.capture(&mut second, &SaveOptions::new()).unwrap();
    assert_eq!(snapshot.to_bytes().unwrap(), save(&second).to_bytes().unwrap());
}

#[test]
fn a_world_goes_back_to_a_capture_that_shares_memory() {
    let mut world = world();
    for i in 0..5000_u32 {
        world.spawn((Saved, Position { x: i as f32, y: 0.0 }, Health { current: 1, max: i, flash: 7 }));
    }
    let mut captures = IncrementalCapture::new();
    captures.capture(&mut world, &SaveOptions::new()).unwrap();
    let entities: Vec<Entity> = world.query_filtered::<Entity, With<Position>>().iter(&world).collect();
    world.get_mut::<Position>(entities[4000]).unwrap().y = 3.0;
    let snapshot = captures.capture(&mut world, &SaveOptions::new()).unwrap();
    let before = canonical(&world);
    for ticks in [Ticks::All, Ticks::Differing] {
        for mut position in world.query::<&mut Position>().iter_mut(&mut world) {
            position.x += 1.0;
        }
        world.despawn(entities[1000]);
        world.load(&snapshot, LoadMode::Restore(ticks)).unwrap();
        assert_eq!(canonical(&world), before);
    }
    world.load(&snapshot, LoadMode::Replace).unwrap();
    assert_eq!(canonical(&world), before);
}

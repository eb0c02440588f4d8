//! A capture that is made over the one before it is the capture that would have been made without.

mod common;

use bevy_bonfire::prelude::*;
use bevy_bonfire::{Descriptor, EncodeOptions, Filter, IncrementalCapture, NonFinite, Snapshot};
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
                    |even: &common::script::Even, _| Ok(Some(even.0)),
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

/// The same text again and again: encoded once per value.
#[derive(Component, Persist, Clone, Debug, PartialEq)]
#[persist(key = "test.faction", dictionary)]
struct Faction(String);

/// The same value in several archetypes: encoded once per save.
#[derive(Component, Persist, Clone, Debug, PartialEq)]
#[persist(key = "test.mesh", shared)]
struct Mesh(String);

/// Left out where it is empty.
#[derive(Component, Persist, Clone, Debug, PartialEq, Default)]
#[persist(key = "test.magic")]
struct Magic {
    spells: Vec<u32>,
}

/// Numbers that are none are reported.
#[derive(Component, Persist, Clone, Copy, Debug, PartialEq)]
#[persist(key = "test.speed")]
struct Speed(f32);

/// Bevy keeps the newest tick of the whole column, too.
#[derive(Component, Persist, Clone, Copy, Debug, PartialEq)]
#[component(summary_tick)]
#[persist(key = "test.charge")]
struct Charge(u32);

/// On which layer an entity is. Not saved.
#[derive(Component, Clone, Copy)]
struct OnLayer(u8);

#[derive(Component, Persist, Clone, Copy, Debug, PartialEq)]
#[persist(key = "test.late")]
struct Late(u16);

#[derive(Resource, Persist, Clone, Debug, PartialEq, Default)]
#[persist(key = "test.weather")]
struct Weather(String);

fn rich_world() -> World {
    let mut world = world();
    world.persist::<Faction>();
    world.persist::<Mesh>();
    let skip = Descriptor::of::<Magic>().skip_if(|magic: &Magic| magic.spells.is_empty());
    world.persist_as::<Magic>(skip.unwrap());
    world.persist_as::<Speed>(Descriptor::of::<Speed>().non_finite(NonFinite::Report));
    world.persist::<Charge>();
    world.persist_resource::<Weather>();
    world.save_layer(|layer: &OnLayer| layer.0).persist_ignore::<OnLayer>();
    world
}

fn spawn_rich(world: &mut World, random: &mut Random) -> Entity {
    let position = Position { x: random.below(100) as f32, y: 0.5 };
    let faction = Faction(format!("the {} ones", random.below(6)));
    let mesh = Mesh(format!("meshes/{}.glb", random.below(20)));
    let title = format!("quest {}", random.below(9));
    match random.below(6) {
        0 => world.spawn((Saved, position, faction, mesh)).id(),
        1 => world.spawn((Saved, position, mesh, Speed(random.below(9) as f32))).id(),
        2 => world.spawn((Saved, faction, Magic { spells: vec![1; random.below(3)] })).id(),
        3 => world.spawn((Saved, Quest { title, stages: [].into() }, position)).id(),
        4 => world.spawn((Saved, Charge(random.below(99) as u32), OnLayer(random.below(4) as u8))).id(),
        _ => world.spawn((Saved, Burning(title), Charge(1), mesh, Mood::Calm)).id(),
    }
}

/// One edit of a world in which every kind of column has several pages.
fn edit_rich(world: &mut World, random: &mut Random, alive: &mut Vec<Entity>) {
    let at = random.below(alive.len());
    let other = *random.pick(alive);
    let Ok(mut entity) = world.get_entity_mut(alive[at]) else {
        alive.swap_remove(at);
        return;
    };
    let number = random.below(1000);
    match random.below(22) {
        0 => {
            world.despawn(alive.swap_remove(at));
        }
        1 => {
            let spawned = spawn_rich(world, random);
            alive.push(spawned);
        }
        2 => _ = entity.insert(Faction(format!("the {} ones", number % 7))),
        3 => _ = entity.insert(Mesh(format!("meshes/{}.glb", number % 25))),
        4 => _ = entity.insert(Magic { spells: vec![7; number % 3] }),
        5 => {
            if let Some(mut magic) = entity.get_mut::<Magic>() {
                magic.spells.clear();
            }
        }
        6 => _ = entity.insert(Speed(if number.is_multiple_of(4) { f32::NAN } else { number as f32 })),
        7 => {
            if let Some(mut charge) = entity.get_mut::<Charge>() {
                charge.0 += 1;
            }
        }
        // The row stays, the entity moves to another table and back.
        8 => _ = entity.insert(Team(1)).remove::<Team>(),
        9 => _ = entity.remove::<(Faction, Speed)>(),
        10 => _ = entity.insert(OnLayer(number as u8 % 4)),
        11 => _ = entity.remove::<OnLayer>(),
        12 => _ = entity.insert(Burning(format!("{number}"))),
        13 => _ = entity.remove::<Burning>(),
        14 => {
            if let Some(mut quest) = entity.get_mut::<Quest>() {
                quest.stages.insert(format!("{}", number % 3), number as u32);
            }
        }
        // What is saved of an entity, without one change of a value.
        15 => _ = entity.remove::<Saved>(),
        16 => _ = entity.insert(Saved),
        17 => _ = entity.insert(Mood::Angry { at: Some(other), level: 2 }),
        18 => {
            world.remove_resource::<Weather>();
        }
        19 => world.insert_resource(Weather(format!("{number}"))),
        20 => {
            // Many at once, as systems do.
            let mut query = world.query::<&mut Position>();
            for mut position in query.iter_mut(world).skip(number).take(50) {
                position.set_if_neq(Position { x: 4.0, y: number as f32 });
            }
        }
        _ => {
            let mut query = world.query::<&mut Charge>();
            query.iter_mut(world).take(3).for_each(|mut charge| charge.0 ^= 1);
        }
    }
}

/// Captures with several sets of options in turn, over each other.
struct CheckAll(Vec<(SaveOptions, IncrementalCapture)>, IncrementalCapture);

impl CheckAll {
    fn new() -> Self {
        let options = [
            SaveOptions::new(),
            SaveOptions::new().filter(Filter::new().layers([0, 2]).unwrap()),
            SaveOptions::new().matching::<With<Position>>(),
            SaveOptions::new().filter(Filter::new().include("test.mesh").exclude("test.burning")),
        ];
        let each = options.into_iter().map(|options| (options, IncrementalCapture::new())).collect();
        Self(each, IncrementalCapture::new())
    }

    fn run(&mut self, world: &mut World, random: &mut Random, what: &str) {
        let Self(each, any) = self;
        for (number, (options, captures)) in each.iter_mut().enumerate() {
            // Some are made seldom, and one over captures with other options.
            if number > 0 && random.chance(50) {
                continue;
            }
            let alone = world.capture(options).unwrap();
            let bytes = alone.to_bytes().unwrap();
            for captures in [captures, any] {
                let snapshot = captures.capture(world, options).unwrap();
                assert!(snapshot.to_bytes().unwrap() == bytes, "{what}, options {number}");
                assert_eq!(snapshot.notes(), alone.notes(), "{what}, options {number}");
            }
        }
    }
}

#[test]
fn columns_of_every_kind_in_several_pages_are_captured_as_they_are() {
    for seed in 0..u64::from(3 * scale()) {
        let mut random = Random::new(seed);
        let mut world = rich_world();
        // More than the 2048 rows of a page in each of the larger tables.
        let mut alive: Vec<Entity> = (0..14_000).map(|_| spawn_rich(&mut world, &mut random)).collect();
        let mut check = CheckAll::new();
        let mut past = vec![save(&world)];
        for round in 0..12 {
            for _ in 0..random.below(30) {
                edit_rich(&mut world, &mut random, &mut alive);
            }
            let what = match random.below(8) {
                0 => {
                    let mode = match random.below(3) {
                        0 => LoadMode::Restore(Ticks::Differing),
                        1 => LoadMode::Restore(Ticks::All),
                        _ => LoadMode::Replace,
                    };
                    let snapshot = random.pick(&past).clone();
                    world.load(&snapshot, mode).unwrap();
                    alive = world.query_filtered::<Entity, With<Saved>>().iter(&world).collect();
                    "after a load"
                }
                1 if round > 6 => {
                    alive.drain(..).for_each(|entity| _ = world.try_despawn(entity));
                    alive = (0..3000).map(|_| spawn_rich(&mut world, &mut random)).collect();
                    "after everything went"
                }
                2 if round == 5 => {
                    world.persist::<Late>();
                    let entity = *random.pick(&alive);
                    if let Ok(mut entity) = world.get_entity_mut(entity) {
                        entity.insert(Late(3));
                    }
                    "after a registration"
                }
                3 => {
                    past.push(save(&world));
                    "after another capture"
                }
                _ => "after edits",
            };
            check.run(&mut world, &mut random, &format!("seed {seed}, round {round}, {what}"));
        }
    }
}

#[test]
fn numbers_that_are_none_are_refused_and_reported_in_every_capture() {
    let build = |policy: NonFinite| {
        let mut world = world();
        world.persist_as::<Speed>(Descriptor::of::<Speed>().non_finite(policy));
        let entities: Vec<Entity> = (0..5000).map(|i| world.spawn((Saved, Speed(i as f32))).id()).collect();
        (world, entities)
    };
    let options = SaveOptions::new();
    let (mut world, entities) = build(NonFinite::Report);
    let mut captures = IncrementalCapture::new();
    assert!(captures.capture(&mut world, &options).unwrap().notes().is_empty());
    for (count, place) in [(1, 4000), (2, 10), (3, 4001)] {
        world.get_mut::<Speed>(entities[place]).unwrap().0 = f32::INFINITY;
        // Also in captures in which nothing has changed.
        for _ in 0..2 {
            let snapshot = captures.capture(&mut world, &options).unwrap();
            assert_eq!(snapshot.notes(), save(&world).notes(), "{count}");
            assert_eq!(snapshot.notes().len(), 1);
        }
    }
    entities.iter().for_each(|&entity| world.get_mut::<Speed>(entity).unwrap().0 = 0.0);
    assert!(captures.capture(&mut world, &options).unwrap().notes().is_empty());

    let (mut world, entities) = build(NonFinite::Refuse);
    let mut captures = IncrementalCapture::new();
    captures.capture(&mut world, &options).unwrap();
    world.get_mut::<Speed>(entities[3000]).unwrap().0 = f32::NAN;
    for _ in 0..2 {
        assert!(captures.capture(&mut world, &options).is_err());
    }
    world.get_mut::<Speed>(entities[3000]).unwrap().0 = 1.0;
    let snapshot = captures.capture(&mut world, &options).unwrap();
    assert!(snapshot.to_bytes().unwrap() == save(&world).to_bytes().unwrap());
}

#[test]
fn a_world_that_is_cleared_and_filled_again_is_not_taken_for_the_one_before() {
    let mut world = rich_world();
    let mut captures = IncrementalCapture::new();
    for turn in 0..4_u32 {
        // In the same rows of the same tables, with other values.
        let ids: Vec<Entity> = (0..5000)
            .map(|i| world.spawn((Saved, Charge(i * turn), Position { x: turn as f32, y: i as f32 })).id())
            .collect();
        if turn == 2 {
            world.insert_resource(Weather("rain".to_owned()));
        }
        for _ in 0..2 {
            let snapshot = captures.capture(&mut world, &SaveOptions::new()).unwrap();
            assert!(snapshot.to_bytes().unwrap() == save(&world).to_bytes().unwrap(), "turn {turn}");
        }
        ids.into_iter().for_each(|entity| _ = world.despawn(entity));
        let snapshot = captures.capture(&mut world, &SaveOptions::new()).unwrap();
        assert!(snapshot.to_bytes().unwrap() == save(&world).to_bytes().unwrap(), "turn {turn}, cleared");
    }
    // Bevy's own way to clear a world takes its resources along, and with them what is registered.
    world.clear_entities();
    assert!(captures.capture(&mut world, &SaveOptions::new()).is_err_and(|error| error.is_misuse()));
}

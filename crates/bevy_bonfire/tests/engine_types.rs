//! Everyday types of Bevy and of the standard library as fields of components and resources, through an app.

mod common;

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use bevy_app::App;
use bevy_bonfire::Unencodable;
use bevy_bonfire::prelude::*;
use bevy_bonfire::{EncodeOptions, Snapshot};
use bevy_color::{Color, Hsla, Srgba};
use bevy_ecs::entity::{EntityHashMap, EntityHashSet, EntityIndexMap, EntityIndexSet};
use bevy_ecs::prelude::*;
use bevy_math::{Affine2, BVec3A, Dir3, IVec2, Isometry3d, Mat4, Quat, Rect, Rot2, UVec3, Vec2, Vec3};
use bevy_shape::{Aabb2d, Capsule3d, Circle, Ray3d};
use bevy_time::{Stopwatch, Timer, TimerMode};
use bevy_transform::components::Transform;

/// All fields of a game that has a bit of everything.
#[derive(Component, Persist, Clone, Debug, PartialEq)]
#[require(Saved)]
#[persist(key = "test.ship")]
struct Ship {
    name: Name,
    home: Transform,
    heading: Dir3,
    turret: Rot2,
    pose: Isometry3d,
    tile: IVec2,
    cells: UVec3,
    view: Mat4,
    flat: Affine2,
    axes: BVec3A,
    area: Rect,
    hull: Capsule3d,
    reach: Circle,
    bounds: Aabb2d,
    aim: Option<Ray3d>,
    paint: Color,
    trim: Vec<Srgba>,
    log: PathBuf,
    built: SystemTime,
}

#[derive(Component, Persist, Clone, Debug, PartialEq)]
#[require(Saved)]
#[persist(key = "test.clockwork")]
struct Clockwork {
    reload: Timer,
    alive: Stopwatch,
    cooldowns: Vec<Timer>,
}

#[derive(Component, Persist, Clone, Debug, PartialEq)]
#[require(Saved)]
#[persist(key = "test.relations")]
struct Relations {
    trust: EntityHashMap<f32>,
    seen: EntityHashSet,
    queue: EntityIndexSet,
    prices: EntityIndexMap<u32>,
}

#[derive(Resource, Persist, Clone, Debug, PartialEq)]
#[persist(key = "test.spawner")]
struct Spawner(Timer);

fn app() -> App {
    let mut app = App::new();
    app.add_plugins(BonfirePlugin::default());
    app.persist::<Ship>().persist::<Clockwork>().persist::<Relations>().persist_resource::<Spawner>();
    app
}

fn reopened(app: &App) -> Snapshot {
    Snapshot::open(&common::save(app.world()).encode(&EncodeOptions::default()).unwrap().to_vec()).unwrap()
}

fn ship() -> Ship {
    let heading = Dir3::from_xyz(1.0, 2.0, -3.0).unwrap();
    Ship {
        name: Name::new("Aurora"),
        home: Transform::from_xyz(1.0, 2.0, 3.0).with_rotation(Quat::from_rotation_y(0.5)),
        heading,
        turret: Rot2::degrees(30.0),
        pose: Isometry3d::from_translation(Vec3::ONE),
        tile: IVec2::new(-3, 9),
        cells: UVec3::new(1, 2, u32::MAX),
        view: Mat4::from_translation(Vec3::X),
        flat: Affine2::from_angle(0.25),
        axes: BVec3A::new(true, false, true),
        area: Rect::new(0.0, 1.0, 2.0, 3.0),
        hull: Capsule3d::new(0.5, 4.0),
        reach: Circle::new(7.0),
        bounds: Aabb2d { min: Vec2::ZERO, max: Vec2::ONE },
        aim: Some(Ray3d { origin: Vec3::Y, direction: heading }),
        paint: Color::Hsla(Hsla::new(200.0, 0.5, 0.25, 1.0)),
        trim: vec![Srgba::RED, Srgba::WHITE],
        log: PathBuf::from("logs/aurora.txt"),
        built: SystemTime::UNIX_EPOCH - Duration::from_secs(86_400),
    }
}

#[test]
fn fields_of_everyday_types_come_back() {
    let mut source = app();
    let entity = source.world_mut().spawn(ship()).id();
    let snapshot = reopened(&source);
    let mut target = app();
    let loaded = target.world_mut().load(&snapshot, LoadMode::Replace).unwrap();
    assert!(loaded.report.is_complete(), "{:?}", loaded.report);
    assert_eq!(target.world().get(loaded.entity(entity).unwrap()), Some(&ship()));
    // Saved again, it is the same.
    assert_eq!(reopened(&target).to_json().unwrap(), snapshot.to_json().unwrap());
}

#[test]
fn timers_go_on_where_they_were() {
    let ticked = |mode, millis: &[u64]| {
        let mut timer = Timer::from_seconds(1.0, mode);
        millis.iter().for_each(|&millis| _ = timer.tick(Duration::from_millis(millis)));
        timer
    };
    let half_way = ticked(TimerMode::Repeating, &[500]);
    let mut paused = ticked(TimerMode::Repeating, &[250]);
    paused.pause();
    let just_finished = ticked(TimerMode::Once, &[1_200]);
    let finished = ticked(TimerMode::Once, &[1_200, 1]);
    let mut alive = Stopwatch::new();
    alive.tick(Duration::from_millis(12_345));
    let clockwork = Clockwork {
        reload: half_way.clone(),
        alive: alive.clone(),
        cooldowns: vec![paused, just_finished, finished],
    };
    let mut source = app();
    let entity = source.world_mut().spawn(clockwork.clone()).id();
    source.insert_resource(Spawner(half_way));
    let snapshot = reopened(&source);

    let mut target = app();
    target.insert_resource(Spawner(Timer::default()));
    let loaded = target.world_mut().load(&snapshot, LoadMode::Replace).unwrap();
    let world = target.world_mut();
    assert_eq!(world.get(loaded.entity(entity).unwrap()), Some(&clockwork));
    let mut spawner = world.resource_mut::<Spawner>();
    assert!(!spawner.0.is_finished());
    assert!(spawner.0.tick(Duration::from_millis(600)).just_finished());
    assert_eq!(spawner.0.elapsed(), Duration::from_millis(100));
    let mut loaded = world.get_mut::<Clockwork>(loaded.entity(entity).unwrap()).unwrap();
    let [paused, just_finished, finished] = &mut loaded.cooldowns[..] else { panic!("three timers") };
    paused.tick(Duration::from_secs(9));
    assert_eq!((paused.elapsed(), paused.is_paused()), (Duration::from_millis(250), true));
    assert!(just_finished.is_finished() && just_finished.just_finished());
    assert!(finished.is_finished() && !finished.just_finished());
    assert_eq!(loaded.alive.elapsed(), Duration::from_millis(12_345));
}

#[test]
fn collections_of_entities_are_mapped() {
    let mut source = app();
    let world = source.world_mut();
    let [a, b, c] = [(); 3].map(|()| world.spawn(Saved).id());
    let relations = Relations {
        trust: [(a, 0.5), (c, -1.0)].into_iter().collect(),
        seen: [b, c].into_iter().collect(),
        queue: [c, a, b].into_iter().collect(),
        prices: [(b, 7), (a, 3)].into_iter().collect(),
    };
    let owner = world.spawn(relations).id();
    let snapshot = reopened(&source);

    let mut target = app();
    (0..9).for_each(|_| _ = target.world_mut().spawn_empty());
    let loaded = target.world_mut().load(&snapshot, LoadMode::Replace).unwrap();
    let new = |entity| loaded.entity(entity).unwrap();
    assert_ne!(new(a), a, "the ids are new");
    let relations = target.world().get::<Relations>(new(owner)).unwrap();
    assert_eq!(relations.trust, [(new(a), 0.5), (new(c), -1.0)].into_iter().collect());
    assert_eq!(relations.seen, [new(b), new(c)].into_iter().collect());
    assert!(relations.queue.iter().copied().eq([c, a, b].map(new)), "in their order");
    assert!(relations.prices.iter().map(|(&key, &value)| (key, value)).eq([(new(b), 7), (new(a), 3)]));
}

#[cfg(unix)]
#[test]
fn a_path_that_is_not_unicode_is_left_out_and_noted() {
    use std::os::unix::ffi::OsStringExt;
    let mut source = app();
    let log = PathBuf::from(std::ffi::OsString::from_vec(b"logs/\xff".to_vec()));
    source.world_mut().spawn(Ship { log, ..ship() });
    let snapshot = source.world().capture(&SaveOptions::new()).unwrap();
    let [note] = snapshot.notes() else { panic!("{:?}", snapshot.notes()) };
    assert!(note.key == "test.ship" && note.remark.contains("is not Unicode"), "{note}");
    let refuse = SaveOptions::new().unencodable(Unencodable::Refuse);
    assert_eq!(source.world().capture(&refuse).unwrap_err().key(), Some("test.ship"));
}

#[test]
fn fields_of_everyday_types_evolve_by_name() {
    /// The same component in an older build: a colour by its numbers, and half of the bounds.
    #[derive(Component, Persist)]
    #[require(Saved)]
    #[persist(key = "test.marker")]
    struct OldMarker {
        paint: OldPaint,
        corner: OldCorner,
    }
    #[derive(Persist)]
    struct OldPaint {
        blue: f32,
        red: f32,
        green: f32,
        alpha: f32,
    }
    #[derive(Persist)]
    struct OldCorner {
        y: f32,
        x: f32,
    }
    #[derive(Component, Persist, Debug, PartialEq)]
    #[require(Saved)]
    #[persist(key = "test.marker")]
    struct Marker {
        paint: Srgba,
        corner: Vec2,
        #[persist(default = Timer::from_seconds(3.0, TimerMode::Once))]
        decay: Timer,
    }
    let mut old = App::new();
    old.persist::<OldMarker>();
    let paint = OldPaint { blue: 0.3, red: 0.1, green: 0.2, alpha: 1.0 };
    let entity = old.world_mut().spawn(OldMarker { paint, corner: OldCorner { y: 5.0, x: 4.0 } }).id();
    let snapshot = reopened(&old);

    let mut new = App::new();
    new.persist::<Marker>();
    let loaded = new.world_mut().load(&snapshot, LoadMode::Replace).unwrap();
    let expected = Marker {
        paint: Srgba::new(0.1, 0.2, 0.3, 1.0),
        corner: Vec2::new(4.0, 5.0),
        decay: Timer::from_seconds(3.0, TimerMode::Once),
    };
    assert_eq!(new.world().get(loaded.entity(entity).unwrap()), Some(&expected));
}

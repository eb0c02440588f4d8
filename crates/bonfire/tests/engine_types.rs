//! Types of Bevy and of the standard library as values: bulk copies equal their portable twins, schemas name the
//! fields, and forged bytes never make a value that breaks a rule of its type. Needs the features of the types.
#![cfg(all(
    feature = "bevy_ecs_0_20",
    feature = "bevy_color_0_20",
    feature = "bevy_shape_0_20",
    feature = "bevy_time_0_20",
    feature = "bevy_transform_0_20"
))]

use std::fmt::Debug;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use bevy_color::{Color, Hsla, LinearRgba, Oklcha, Srgba};
use bevy_ecs::entity::{Entity, EntityHashMap, EntityHashSet, EntityIndexMap, EntityIndexSet};
use bevy_ecs::name::Name;
use bevy_math::*;
use bevy_shape::*;
use bevy_time::{Stopwatch, Timer, TimerMode};
use bevy_transform::components::Transform;
use bonfire::engine::{EntityMap, LoadPlan, SnapshotWriter};
use bonfire::inspect::ColumnKind;
use bonfire::schema::Schema;
use bonfire::{
    Descriptor, EntityId, Limits, LoadContext, LoadOptions, Persist, Reader, Registry, Result, Snapshot,
    Writer,
};

fn bytes_of<T: Persist>(value: &T) -> Result<Vec<u8>> {
    let mut out = Writer::new();
    value.encode(&mut out);
    out.finish()
}

/// Reads a `T` out of the bytes of something else.
fn forged<T: Persist>(saved: &impl Persist) -> Result<T> {
    let (bytes, limits) = (bytes_of(saved).unwrap(), Limits::default());
    let context = LoadContext::new(&limits);
    let mut input = Reader::new(&bytes, &context);
    let value = T::decode(&mut input)?;
    input.finish().map(|()| value)
}

fn refused<T: Persist + Debug>(saved: &impl Persist, why: &str) {
    let error = forged::<T>(saved).unwrap_err();
    assert!(error.is_corrupt() && error.to_string().contains(why), "{error}");
}

/// Saves and loads two rows in all four ways, which must agree.
fn comes_back<T: Persist + PartialEq + Debug + Clone>(value: T, kind: ColumnKind, schema: &str) {
    let name = std::any::type_name::<T>();
    assert_eq!(Schema::of::<T>().to_string(), schema, "{name}");
    let mut registry = Registry::new();
    registry.add(Descriptor::new::<T>("t")).unwrap();
    assert_eq!(registry.descriptors()[0].kind(), kind, "{name}");
    let encode = |portable: bool| {
        let mut writer = SnapshotWriter::new(&registry);
        writer = if portable { writer.portable() } else { writer };
        let mut archetype = writer.archetype(&[EntityId::new(0, 0), EntityId::new(1, 0)]).unwrap();
        archetype.column(&[value.clone(), value.clone()]).unwrap();
        writer.finish().unwrap().encode(&Default::default()).unwrap().to_vec()
    };
    assert_eq!(encode(false), encode(true), "{name}");
    for portable in [false, true] {
        let snapshot = Snapshot::open(&encode(false)).unwrap();
        let options = LoadOptions { portable, ..Default::default() };
        let plan = LoadPlan::new(&snapshot, &registry, options).unwrap();
        let map = EntityMap::identity(&plan.entities()).unwrap();
        let mut staged = plan.stage(&map, None).unwrap();
        let rows = staged.archetypes[0].take::<T>().unwrap().into_rows::<T>().unwrap();
        assert_eq!(rows, [value.clone(), value.clone()], "{name}");
    }
}

use ColumnKind::{Plain, Rows};

const VEC2: &str = "{x: f32, y: f32}";
const VEC3: &str = "{x: f32, y: f32, z: f32}";
const QUAT: &str = "{x: f32, y: f32, z: f32, w: f32}";

#[test]
fn math_comes_back() {
    let rect = Rect { min: Vec2::new(3.0, 2.0), max: Vec2::new(-1.0, f32::MAX) };
    comes_back(rect, Plain, &format!("{{min: {VEC2}, max: {VEC2}}}"));
    let rect = IRect { min: IVec2::MIN, max: IVec2::MAX };
    comes_back(rect, Plain, "{min: {x: i32, y: i32}, max: {x: i32, y: i32}}");
    let rect = URect { min: UVec2::MIN, max: UVec2::MAX };
    comes_back(rect, Plain, "{min: {x: u32, y: u32}, max: {x: u32, y: u32}}");
    let rotation = Rot2::degrees(33.0);
    comes_back(rotation, Plain, "{cos: f32, sin: f32}");
    let pose = Isometry2d { rotation, translation: Vec2::ONE };
    comes_back(pose, Plain, &format!("{{rotation: {{cos: f32, sin: f32}}, translation: {VEC2}}}"));
    let pose = Isometry3d { rotation: Quat::from_rotation_x(1.0), translation: Vec3A::ONE };
    comes_back(pose, Rows, &format!("{{rotation: {QUAT}, translation: {VEC3}}}"));
    let direction = Dir3::from_xyz(1.0, 2.0, 3.0).unwrap();
    comes_back(Dir2::from_xy(1.0, 2.0).unwrap(), Rows, VEC2);
    comes_back(direction, Rows, VEC3);
    comes_back(Dir3A::from(direction), Rows, VEC3);
    comes_back(Dir4::new(Vec4::new(1.0, -2.0, 3.0, 5.0)).unwrap(), Rows, QUAT);
    comes_back(FloatOrd(f32::NAN), Plain, "f32");
    comes_back(AspectRatio::ULTRAWIDE, Rows, "f32");
    comes_back(CompassQuadrant::West, Plain, "North | East | South | West");
    comes_back(
        CompassOctant::NorthWest,
        Plain,
        "North | NorthEast | East | SouthEast | South | SouthWest | West | NorthWest",
    );
    let transform = Transform::from_xyz(1.0, 2.0, 3.0).with_scale(Vec3::splat(0.5));
    let kind = if size_of::<Transform>() == 40 { Plain } else { ColumnKind::Strided };
    comes_back(transform, kind, &format!("{{translation: {VEC3}, rotation: {QUAT}, scale: {VEC3}}}"));
}

#[test]
fn shapes_come_back() {
    let (circle, direction) = (Circle { radius: 2.5 }, Dir3::from_xyz(1.0, 2.0, 3.0).unwrap());
    let (flat, corners) = (Dir2::from_xy(3.0, 4.0).unwrap(), [Vec2::ZERO, Vec2::X, Vec2::ONE]);
    let (points, solid) = (vec![Vec2::X, Vec2::Y], [Vec3::X, Vec3::Y, Vec3::Z, Vec3::ONE]);
    let arc = Arc2d { radius: 1.0, half_angle: 0.5 };
    comes_back(circle, Plain, "{radius: f32}");
    comes_back(arc, Plain, "{radius: f32, half_angle: f32}");
    comes_back(CircularSector { arc }, Plain, "{arc: {radius: f32, half_angle: f32}}");
    comes_back(CircularSegment { arc }, Plain, "{arc: {radius: f32, half_angle: f32}}");
    comes_back(Ellipse { half_size: Vec2::ONE }, Plain, &format!("{{half_size: {VEC2}}}"));
    let ring = Annulus { inner_circle: Circle { radius: 1.0 }, outer_circle: circle };
    comes_back(ring, Plain, "{inner_circle: {radius: f32}, outer_circle: {radius: f32}}");
    comes_back(Rhombus { half_diagonals: Vec2::ONE }, Plain, &format!("{{half_diagonals: {VEC2}}}"));
    comes_back(Plane2d { normal: flat }, Rows, &format!("{{normal: {VEC2}}}"));
    comes_back(Line2d { direction: flat }, Rows, &format!("{{direction: {VEC2}}}"));
    comes_back(Segment2d { vertices: [Vec2::X, Vec2::Y] }, Plain, &format!("{{vertices: [{VEC2}; 2]}}"));
    comes_back(Polyline2d { vertices: points.clone() }, Rows, &format!("{{vertices: [{VEC2}]}}"));
    comes_back(Triangle2d { vertices: corners }, Plain, &format!("{{vertices: [{VEC2}; 3]}}"));
    comes_back(Rectangle { half_size: Vec2::ONE }, Plain, &format!("{{half_size: {VEC2}}}"));
    comes_back(Polygon { vertices: points }, Rows, &format!("{{vertices: [{VEC2}]}}"));
    comes_back(ConvexPolygon::new(corners).unwrap(), Rows, &format!("{{vertices: [{VEC2}]}}"));
    let hexagon = RegularPolygon { circumcircle: circle, sides: 6 };
    comes_back(hexagon, Plain, "{circumcircle: {radius: f32}, sides: u32}");
    comes_back(Capsule2d { radius: 1.0, half_length: 2.0 }, Plain, "{radius: f32, half_length: f32}");
    let bounds = Aabb2d { min: Vec2::ZERO, max: Vec2::ONE };
    comes_back(bounds, Plain, &format!("{{min: {VEC2}, max: {VEC2}}}"));
    let ball = BoundingCircle { center: Vec2::ONE, circle };
    assert_eq!(forged::<BoundingCircle>(&ball).unwrap().center, Vec2::ONE);
    let ray = Ray2d { origin: Vec2::ONE, direction: flat };
    comes_back(ray, Rows, &format!("{{origin: {VEC2}, direction: {VEC2}}}"));

    comes_back(Sphere { radius: 1.5 }, Plain, "{radius: f32}");
    let plane = Plane3d { normal: direction, half_size: Vec2::ONE };
    comes_back(plane, Rows, &format!("{{normal: {VEC3}, half_size: {VEC2}}}"));
    comes_back(InfinitePlane3d { normal: direction }, Rows, &format!("{{normal: {VEC3}}}"));
    comes_back(Line3d { direction }, Rows, &format!("{{direction: {VEC3}}}"));
    comes_back(Segment3d { vertices: [Vec3::X, Vec3::Y] }, Plain, &format!("{{vertices: [{VEC3}; 2]}}"));
    comes_back(Polyline3d { vertices: solid.to_vec() }, Rows, &format!("{{vertices: [{VEC3}]}}"));
    comes_back(Cuboid { half_size: Vec3::ONE }, Plain, &format!("{{half_size: {VEC3}}}"));
    comes_back(Cylinder { radius: 1.0, half_height: 2.0 }, Plain, "{radius: f32, half_height: f32}");
    comes_back(Capsule3d { radius: 1.0, half_length: 2.0 }, Plain, "{radius: f32, half_length: f32}");
    comes_back(Cone { radius: 1.0, height: 2.0 }, Plain, "{radius: f32, height: f32}");
    let cut = ConicalFrustum { radius_top: 1.0, radius_bottom: 2.0, height: 3.0 };
    comes_back(cut, Plain, "{radius_top: f32, radius_bottom: f32, height: f32}");
    let torus = Torus { minor_radius: 1.0, major_radius: 2.0 };
    comes_back(torus, Plain, "{minor_radius: f32, major_radius: f32}");
    let triangle = Triangle3d { vertices: [Vec3::X, Vec3::Y, Vec3::Z] };
    comes_back(triangle, Plain, &format!("{{vertices: [{VEC3}; 3]}}"));
    comes_back(Tetrahedron { vertices: solid }, Plain, &format!("{{vertices: [{VEC3}; 4]}}"));
    let bounds = forged::<Aabb3d>(&Aabb3d { min: Vec3A::ZERO, max: Vec3A::ONE }).unwrap();
    assert_eq!((bounds.min, bounds.max), (Vec3A::ZERO, Vec3A::ONE));
    let ball = forged::<BoundingSphere>(&BoundingSphere::new(Vec3A::ONE, 4.0)).unwrap();
    assert_eq!((ball.center, ball.sphere.radius), (Vec3A::ONE, 4.0));
    let ray = Ray3d { origin: Vec3::ONE, direction };
    comes_back(ray, Rows, &format!("{{origin: {VEC3}, direction: {VEC3}}}"));
}

#[test]
fn colours_come_back_in_their_space() {
    comes_back(Srgba::new(0.1, 2.0, 0.3, 0.4), Plain, "{red: f32, green: f32, blue: f32, alpha: f32}");
    comes_back(LinearRgba::new(0.1, 0.2, 0.3, 0.4), Plain, "{red: f32, green: f32, blue: f32, alpha: f32}");
    comes_back(
        Hsla::new(300.0, 0.2, 0.3, 0.4),
        Plain,
        "{hue: f32, saturation: f32, lightness: f32, alpha: f32}",
    );
    comes_back(
        Oklcha::new(0.1, 0.2, 30.0, 0.4),
        Plain,
        "{lightness: f32, chroma: f32, hue: f32, alpha: f32}",
    );
    let schema = Schema::of::<Color>().to_string();
    let srgba = Color::Srgba(Srgba::new(0.1, 0.2, 0.3, 0.4));
    let mut numbers = std::collections::BTreeSet::new();
    for color in [
        srgba,
        Color::LinearRgba(srgba.into()),
        Color::Hsla(srgba.into()),
        Color::Hsva(srgba.into()),
        Color::Hwba(srgba.into()),
        Color::Laba(srgba.into()),
        Color::Lcha(srgba.into()),
        Color::Oklaba(srgba.into()),
        Color::Oklcha(srgba.into()),
        Color::Xyza(srgba.into()),
        Color::Okhsla(srgba.into()),
        Color::Okhsva(srgba.into()),
        Color::Okhwba(srgba.into()),
    ] {
        numbers.insert(bytes_of(&color).unwrap()[0]);
        comes_back(color, Rows, &schema);
    }
    assert_eq!(numbers.len(), 13, "each space has a number of its own");
    assert!(schema.contains("Oklcha({lightness: f32, chroma: f32, hue: f32, alpha: f32})"), "{schema}");
    refused::<Color>(&13_u8, "colour space 13");
}

#[test]
fn directions_are_normalised_or_refused() {
    for vector in [Vec3::ZERO, Vec3::NAN, Vec3::INFINITY, Vec3::splat(f32::MAX), Vec3::splat(1e-30)] {
        refused::<Dir3>(&vector, "no direction");
        refused::<Dir3A>(&Vec3A::from(vector), "no direction");
        refused::<Dir2>(&vector.truncate(), "no direction");
        refused::<Dir4>(&vector.extend(vector.x), "no direction");
        refused::<Ray3d>(&(Vec3::ZERO, vector), "no direction");
    }
    assert_eq!(forged::<Dir3>(&Vec3::new(0.0, -7.0, 0.0)).unwrap(), Dir3::NEG_Y);
    // Slightly off, as after many rotations: saved bit for bit.
    let drifted = Vec3::new(0.99995, 0.0, 0.0);
    assert_eq!(*forged::<Dir3>(&drifted).unwrap(), drifted);
    let far_off = forged::<Dir3>(&Vec3::new(0.95, 0.0, 0.0)).unwrap();
    assert!(far_off.is_normalized());
}

#[test]
fn ratios_and_polygons_keep_their_rules() {
    for ratio in [0.0_f32, f32::NAN, f32::INFINITY] {
        refused::<AspectRatio>(&ratio, "no aspect ratio");
    }
    let underflow = AspectRatio::try_new(f32::MIN_POSITIVE, f32::MAX).unwrap();
    assert!(bytes_of(&underflow).unwrap_err().is_misuse(), "what could not be loaded is not saved");
    for count in 0..3_usize {
        refused::<ConvexPolygon>(&vec![Vec2::X; count], "3 vertices or more");
    }
    let dented = vec![Vec2::ZERO, Vec2::new(4.0, 0.0), Vec2::new(1.0, 1.0), Vec2::new(0.0, 4.0)];
    refused::<ConvexPolygon>(&dented, "not convex");
    assert!(bytes_of(&ConvexPolygon::new_unchecked(dented)).unwrap_err().is_misuse());
}

/// The bytes of a timer: duration, mode, time, paused, finished, ends in the last tick.
type TimerFields = (Duration, u8, Duration, bool, bool, u32);

#[test]
fn timers_come_back_as_they_were() {
    let second = Duration::from_secs(1);
    let ticked = |mode, ticks: &[u64]| {
        let mut timer = Timer::new(second, mode);
        ticks.iter().for_each(|&millis| _ = timer.tick(Duration::from_millis(millis)));
        timer
    };
    let mut paused = ticked(TimerMode::Repeating, &[400]);
    paused.pause();
    let mut changed = ticked(TimerMode::Repeating, &[5_300]);
    changed.set_mode(TimerMode::Once);
    let mut endless = Timer::new(Duration::ZERO, TimerMode::Repeating);
    endless.tick(second);
    // 2^32 ends in one tick, which Bevy counts as none.
    let mut overflowing = Timer::new(Duration::from_nanos(1), TimerMode::Repeating);
    overflowing.tick(Duration::from_nanos(1 << 32));
    assert!(overflowing.is_finished() && !overflowing.just_finished());
    let schema = "{duration: {secs: u64, nanos: u32}, mode: Once | Repeating, elapsed: {secs: u64, nanos: u32}, \
                  paused: bool, finished: bool, times_finished_this_tick: u32}";
    for timer in [
        Timer::default(),
        ticked(TimerMode::Once, &[400]),
        ticked(TimerMode::Once, &[1_400]),
        ticked(TimerMode::Once, &[1_400, 1]),
        ticked(TimerMode::Repeating, &[500]),
        ticked(TimerMode::Repeating, &[500, 700]),
        ticked(TimerMode::Repeating, &[7_250]),
        ticked(TimerMode::Repeating, &[7_250, 1]),
        paused,
        changed,
        endless,
        overflowing,
        Timer::new(Duration::MAX, TimerMode::Once),
    ] {
        comes_back(timer.clone(), Rows, schema);
        // They also go on in the same way.
        let (mut again, mut timer) = (forged::<Timer>(&timer).unwrap(), timer);
        for _ in 0..4 {
            assert_eq!(again.tick(Duration::from_millis(300)), timer.tick(Duration::from_millis(300)));
        }
    }
    let mut stopwatch = Stopwatch::new();
    stopwatch.tick(Duration::from_nanos(1_234_567_890));
    let schema = "{elapsed: {secs: u64, nanos: u32}, paused: bool}";
    comes_back(stopwatch.clone(), Rows, schema);
    stopwatch.pause();
    comes_back(stopwatch, Rows, schema);
}

#[test]
fn forged_timers_are_consistent_or_refused() {
    let second = Duration::from_secs(1);
    let fields: TimerFields = (second, 1, second, false, false, 3);
    refused::<Timer>(&fields, "ended 3 times and is not finished");
    refused::<Timer>(&(second, 2_u8), "variant 2 of 2");
    let beyond: TimerFields = (second, 0, Duration::MAX, false, false, 0);
    let timer = forged::<Timer>(&beyond).unwrap();
    assert_eq!((timer.elapsed(), timer.remaining()), (second, Duration::ZERO), "`remaining` does not panic");
    let many: TimerFields = (Duration::MAX, 1, Duration::MAX, true, true, u32::MAX);
    let mut timer = forged::<Timer>(&many).unwrap();
    assert_eq!(timer.times_finished_this_tick(), u32::MAX);
    timer.unpause();
    timer.tick(Duration::MAX);
}

#[test]
fn collections_of_entities_come_back() {
    let entities: Vec<Entity> =
        [(9, 1), (2, 0), (5, 3)].map(|(index, generation)| EntityId::new(index, generation).into()).to_vec();
    let pairs = || entities.iter().copied().zip(["nine".to_owned(), "two".into(), "five".into()]);
    let map: EntityHashMap<String> = pairs().collect();
    assert_eq!(forged::<EntityHashMap<String>>(&map).unwrap(), map);
    assert_eq!(
        Schema::of::<EntityHashMap<String>>(),
        Schema::of::<std::collections::HashMap<Entity, String>>()
    );
    let set: EntityHashSet = entities.iter().copied().collect();
    assert_eq!(forged::<EntityHashSet>(&set).unwrap(), set);
    assert_eq!(Schema::of::<EntityHashSet>(), Schema::of::<std::collections::HashSet<Entity>>());

    let map: EntityIndexMap<String> = pairs().collect();
    let again = forged::<EntityIndexMap<String>>(&map).unwrap();
    assert!(again.iter().eq(map.iter()), "in their order");
    assert_eq!(Schema::of::<EntityIndexMap<String>>(), Schema::of::<Vec<(Entity, String)>>());
    let set: EntityIndexSet = entities.iter().copied().collect();
    assert!(forged::<EntityIndexSet>(&set).unwrap().iter().eq(&entities), "in their order");

    let twice = vec![entities[0], entities[0]];
    refused::<EntityHashSet>(&twice, "twice");
    refused::<EntityIndexSet>(&twice, "twice");
    let twice = vec![(entities[0], "a".to_owned()), (entities[0], "b".to_owned())];
    refused::<EntityHashMap<String>>(&twice, "twice");
    refused::<EntityIndexMap<String>>(&twice, "twice");
}

#[test]
fn names_have_the_right_hash() {
    comes_back(Name::new("Bo"), Rows, "text");
    assert_eq!(forged::<Name>(&"Bo".to_owned()).unwrap().pre_hash(), Name::new("Bo").pre_hash());
}

#[test]
fn paths_are_text_and_others_make_the_save_fail() {
    comes_back(PathBuf::from("saves/schön/a.save"), Rows, "text");
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStringExt;
        let path = PathBuf::from(std::ffi::OsString::from_vec(b"saves/\xff".to_vec()));
        let error = bytes_of(&path).unwrap_err();
        assert!(error.is_misuse() && error.to_string().contains("is not Unicode"), "{error}");
    }
}

#[test]
fn times_come_back_also_those_before_1970() {
    let schema = "{secs: i64, nanos: u32}";
    let epoch = SystemTime::UNIX_EPOCH;
    // Whole microseconds, which every system can express.
    for distance in [
        Duration::ZERO,
        Duration::from_micros(1),
        Duration::from_secs(5),
        Duration::new(1_900_000_000, 1_000),
    ] {
        comes_back(epoch + distance, Rows, schema);
        comes_back(epoch - distance, Rows, schema);
    }
    assert_eq!(
        bytes_of(&(epoch - Duration::from_millis(1))).unwrap(),
        bytes_of(&(-1_i64, 999_000_000_u32)).unwrap()
    );
    refused::<SystemTime>(&(0_i64, 1_000_000_000_u32), "more than a second");
    for secs in [i64::MIN, i64::MAX] {
        // Some systems can express it, and then it comes back; none panics.
        if let Ok(time) = forged::<SystemTime>(&(secs, 999_999_999_u32)) {
            assert_eq!(forged::<SystemTime>(&time).unwrap(), time);
        }
    }
}

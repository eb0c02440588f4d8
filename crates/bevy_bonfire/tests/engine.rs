//! Parts of the engine that a save must know: states, clocks, assets, transforms, reflection.

mod common;

use std::time::Duration;

use bevy_app::App;
use bevy_asset::{Asset, AssetApp, AssetPlugin, AssetServer, Assets, Handle};
use bevy_bonfire::prelude::*;
use bevy_bonfire::{Descriptor, EncodeOptions, NonFinite, SaveCaptured, Snapshot};
use bevy_ecs::prelude::*;
use bevy_math::{Quat, Vec3};
use bevy_reflect::{Reflect, TypePath};
use bevy_state::app::{AppExtStates, StatesPlugin};
use bevy_state::prelude::*;
use bevy_time::{Fixed, Time, Virtual};
use bevy_transform::components::{GlobalTransform, Transform};

fn reopened(snapshot: &Snapshot) -> Snapshot {
    Snapshot::open(&snapshot.encode(&EncodeOptions::default()).unwrap().to_vec()).unwrap()
}

#[derive(States, Persist, Clone, PartialEq, Eq, Hash, Debug, Default)]
#[persist(key = "test.phase")]
enum Phase {
    #[default]
    Menu,
    Playing {
        level: u32,
    },
}

#[derive(Resource, Default)]
struct Entered(u32);

fn phases() -> App {
    let mut app = App::new();
    app.add_plugins((StatesPlugin, BonfirePlugin::default()));
    app.init_state::<Phase>().persist_state::<Phase>();
    app.init_resource::<Entered>();
    app.add_systems(OnEnter(Phase::Playing { level: 3 }), |mut entered: ResMut<Entered>| entered.0 += 1);
    app.update();
    app
}

#[test]
fn states_come_back_by_a_transition() {
    let mut app = phases();
    app.world_mut().resource_mut::<NextState<Phase>>().set(Phase::Playing { level: 3 });
    app.update();
    let snapshot = reopened(&app.world_mut().capture_with_events(&SaveOptions::new()).unwrap());

    let mut fresh = phases();
    let loaded = fresh.world_mut().load(&snapshot, LoadMode::Replace).unwrap();
    assert!(loaded.report.is_complete(), "{:?}", loaded.report);
    assert_eq!(fresh.world().resource::<State<Phase>>().get(), &Phase::Menu, "until transitions are applied");
    fresh.update();
    assert_eq!(fresh.world().resource::<State<Phase>>().get(), &Phase::Playing { level: 3 });
    assert_eq!(fresh.world().resource::<Entered>().0, 1);
    fresh.world_mut().load(&snapshot, LoadMode::Replace).unwrap();
    fresh.update();
    assert_eq!(fresh.world().resource::<Entered>().0, 1, "no transition to the state it is in");

    let mut without = World::new();
    without.persist_state::<Phase>();
    let loaded = without.load(&snapshot, LoadMode::Replace).unwrap();
    assert!(loaded.report.callback_errors[0].to_string().contains("init_state"));
}

#[test]
fn clocks_go_on_where_they_were() {
    let mut source = World::new();
    source.persist_time();
    let mut virtual_time = Time::<Virtual>::default();
    virtual_time.advance_by(Duration::from_millis(12_345));
    virtual_time.set_relative_speed(0.5);
    virtual_time.pause();
    source.insert_resource(virtual_time);
    let mut fixed = Time::<Fixed>::from_hz(10.0);
    fixed.advance_by(Duration::from_secs(12));
    fixed.accumulate_overstep(Duration::from_millis(45));
    source.insert_resource(fixed);
    let snapshot = reopened(&source.capture_with_events(&SaveOptions::new()).unwrap());

    let mut target = World::new();
    target.persist_time();
    let mut later = Time::<Virtual>::from_max_delta(Duration::from_millis(99));
    later.advance_by(Duration::from_secs(1_000));
    target.insert_resource(later);
    target.insert_resource(Time::<Fixed>::from_hz(20.0));
    target.insert_resource(Time::<()>::default());
    target.load(&snapshot, LoadMode::Replace).unwrap();
    let loaded = target.resource::<Time<Virtual>>();
    assert_eq!(
        (loaded.elapsed(), loaded.delta()),
        (Duration::from_millis(12_345), Duration::ZERO),
        "back in time"
    );
    assert_eq!((loaded.relative_speed(), loaded.is_paused()), (0.5, true));
    assert_eq!(loaded.max_delta(), Duration::from_millis(99), "a setting of the build");
    let loaded = target.resource::<Time<Fixed>>();
    assert_eq!((loaded.elapsed(), loaded.overstep()), (Duration::from_secs(12), Duration::from_millis(45)));
    assert_eq!(loaded.timestep(), Duration::from_millis(50));
    assert_eq!(target.resource::<Time>().elapsed(), Duration::from_millis(12_345));
}

#[test]
fn a_clock_that_would_overflow_is_refused() {
    let mut world = World::new();
    world.persist_time();
    let mut fast = Time::<Virtual>::default();
    fast.set_relative_speed_f64(1e300);
    world.insert_resource(fast);
    let snapshot = world.capture_with_events(&SaveOptions::new()).unwrap();
    let error = world.load(&snapshot, LoadMode::Replace).unwrap_err();
    assert_eq!(error.key(), Some("bevy.time.virtual"), "{error}");
}

#[derive(Asset, TypePath, Default)]
struct Image;

#[derive(Component, Persist, Debug)]
#[persist(key = "test.portrait")]
struct Portrait {
    #[persist(with = AssetRef)]
    image: Handle<Image>,
    #[persist(with = AssetRef)]
    frames: Vec<Handle<Image>>,
    #[persist(with = AssetRef)]
    mask: Option<Handle<Image>>,
}

#[derive(Component, Reflect, Debug, Clone)]
struct Sprite {
    image: Handle<Image>,
    size: Vec<f32>,
    owner: Option<String>,
}

#[derive(Component, Clone, Debug)]
struct ImageOf(Handle<Image>);
impl From<Handle<Image>> for ImageOf {
    fn from(handle: Handle<Image>) -> Self {
        Self(handle)
    }
}
impl std::ops::Deref for ImageOf {
    type Target = Handle<Image>;
    fn deref(&self) -> &Handle<Image> {
        &self.0
    }
}
impl bevy_asset::AsAssetId for ImageOf {
    type Asset = Image;
    fn as_asset_id(&self) -> bevy_asset::AssetId<Image> {
        self.0.id()
    }
}

fn assets() -> App {
    let mut app = App::new();
    app.add_plugins((bevy_app::TaskPoolPlugin::default(), AssetPlugin::default(), BonfirePlugin::default()));
    app.init_asset::<Image>();
    app.persist::<Portrait>().persist_handle::<Image>().persist_reflect::<Sprite>("test.sprite");
    app.persist_handle_component::<ImageOf>("test.image_of");
    app
}

#[derive(Resource, Default)]
struct Notes(Vec<String>);

#[test]
fn handles_are_saved_as_paths_and_uuids_and_those_without_are_reported() {
    let mut app = assets();
    let world = app.world_mut();
    let path = world.resource::<AssetServer>().load::<Image>("faces/hero.png#crop");
    let uuid = Handle::<Image>::Uuid(bevy_asset::uuid::Uuid::from_u128(7), std::marker::PhantomData);
    let made = world.resource_mut::<Assets<Image>>().add(Image);
    let sprite = |image: &Handle<Image>| Sprite {
        image: image.clone(),
        size: vec![1.5, 2.0],
        owner: Some("me".into()),
    };
    let entities: Vec<Entity> = [&path, &uuid, &made]
        .into_iter()
        .map(|image| {
            world
                .spawn((
                    Saved,
                    Portrait {
                        image: image.clone(),
                        frames: vec![uuid.clone(); 2],
                        mask: Some(uuid.clone()),
                    },
                    sprite(image),
                    ImageOf(image.clone()),
                ))
                .id()
        })
        .collect();
    world.init_resource::<Notes>();
    world.add_observer(|captured: On<SaveCaptured>, mut notes: ResMut<Notes>| {
        notes
            .0
            .extend(captured.notes.iter().map(|note| format!("{} {} {}", note.key, note.count, note.remark)));
    });
    let snapshot = reopened(&world.capture_with_events(&SaveOptions::new()).unwrap());
    let notes = &world.resource::<Notes>().0;
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(notes.iter().all(|note| note.contains(" 1 ") && note.contains("without a path")), "{notes:?}");

    let mut fresh = assets();
    let world = fresh.world_mut();
    let loaded = world.load(&snapshot, LoadMode::Replace).unwrap();
    let handles = |world: &World, entity: Entity| {
        let entity = world.entity(loaded.entity(entity).unwrap());
        let sprite = entity.get::<Sprite>().unwrap();
        assert_eq!((&sprite.size, sprite.owner.as_deref()), (&vec![1.5, 2.0], Some("me")));
        let portrait = entity.get::<Portrait>().unwrap();
        assert_eq!((&portrait.frames, &portrait.mask), (&vec![uuid.clone(); 2], &Some(uuid.clone())));
        let portrait = &portrait.image;
        assert_eq!(portrait, &sprite.image);
        assert_eq!(portrait, &entity.get::<ImageOf>().unwrap().0);
        portrait.clone()
    };
    assert_eq!(handles(world, entities[0]).path().unwrap().to_string(), "faces/hero.png#crop");
    assert_eq!(
        handles(world, entities[0]),
        world.resource::<AssetServer>().load::<Image>("faces/hero.png#crop")
    );
    assert_eq!(handles(world, entities[1]), uuid);
    assert_eq!(handles(world, entities[2]), Handle::default());
    // Without a server there is nobody to load an asset.
    let mut bare = World::new();
    bare.persist::<Portrait>();
    assert!(bare.load(&snapshot, LoadMode::Replace).unwrap_err().to_string().contains("AssetServer"));
}

#[derive(Component, Reflect, Debug, Clone, PartialEq)]
struct Reflected {
    text: String,
    list: Vec<(u8, Option<i64>)>,
    map: std::collections::HashMap<String, f32>,
    kind: Kind,
    friend: Entity,
    others: Vec<Entity>,
}

#[derive(Reflect, Debug, Clone, PartialEq)]
enum Kind {
    Unit,
    Tuple(u8, String),
    Struct { x: f64 },
}

#[test]
fn reflected_components_come_back_with_their_references() {
    let mut source = World::new();
    source.persist_reflect::<Reflected>("test.reflected");
    let friend = source.spawn(Saved).id();
    let kinds = [Kind::Unit, Kind::Tuple(3, "three".into()), Kind::Struct { x: -0.0 }];
    let value = |kind: &Kind, friend| Reflected {
        text: "text".into(),
        list: vec![(1, None), (2, Some(i64::MIN))],
        map: [("key".to_owned(), f32::MAX)].into(),
        kind: kind.clone(),
        friend,
        others: vec![friend, friend],
    };
    let entities: Vec<Entity> =
        kinds.iter().map(|kind| source.spawn((Saved, value(kind, friend))).id()).collect();
    let snapshot = reopened(&source.capture_with_events(&SaveOptions::new()).unwrap());
    let mut target = World::new();
    target.persist_reflect::<Reflected>("test.reflected");
    target.spawn_batch((0..10).map(|_| ()));
    let loaded = target.load(&snapshot, LoadMode::Replace).unwrap();
    let new_friend = loaded.entity(friend).unwrap();
    for (kind, entity) in kinds.iter().zip(entities) {
        assert_eq!(target.get(loaded.entity(entity).unwrap()), Some(&value(kind, new_friend)));
    }
}

#[test]
fn transforms_are_saved_and_what_is_computed_from_them_is_not() {
    let mut source = World::new();
    source.persist_ignore::<GlobalTransform>();
    let transform = Transform {
        translation: Vec3::new(1.0, -2.0, 3.5),
        rotation: Quat::from_rotation_y(0.25),
        scale: Vec3::new(1.0, 2.0, 4.0),
    };
    let entity = source.spawn((Saved, transform)).id();
    let others: Vec<Entity> =
        (0..500).map(|i| source.spawn((Saved, Transform::from_xyz(i as f32, 0.0, 0.0))).id()).collect();
    let snapshot = reopened(&source.capture_with_events(&SaveOptions::new()).unwrap());
    assert_eq!(
        snapshot.component_rows().keys().copied().collect::<Vec<_>>(),
        ["bevy.transform", "bonfire.saved"]
    );
    let mut target = World::new();
    target.persist_ignore::<GlobalTransform>();
    let loaded = target.load(&snapshot, LoadMode::Replace).unwrap();
    assert_eq!(target.get(loaded.entity(entity).unwrap()), Some(&transform));
    assert!(target.get::<GlobalTransform>(loaded.entity(entity).unwrap()).is_some(), "a required component");
    for (i, other) in others.into_iter().enumerate() {
        assert_eq!(target.get(loaded.entity(other).unwrap()), Some(&Transform::from_xyz(i as f32, 0.0, 0.0)));
    }
}

#[derive(Component, Persist, Clone, Copy)]
#[persist(key = "test.speed")]
struct Speed(f32, [f64; 2]);

#[test]
fn numbers_that_are_none_are_kept_reported_or_refused() {
    let build = |policy: NonFinite| {
        let mut world = World::new();
        world.persist_as::<Speed>(Descriptor::of::<Speed>().non_finite(policy));
        world.spawn((Saved, Speed(1.0, [0.0; 2])));
        world.spawn((Saved, Speed(f32::NAN, [0.0; 2])));
        world.spawn((Saved, Speed(1.0, [0.0, f64::INFINITY])));
        world
    };
    assert!(build(NonFinite::Keep).capture(&SaveOptions::new()).unwrap().notes().is_empty());
    let reported = build(NonFinite::Report).capture(&SaveOptions::new()).unwrap();
    assert_eq!((reported.notes()[0].key.as_str(), reported.notes()[0].count), ("test.speed", 2));
    let mut world = build(NonFinite::Keep);
    world.load(&reported, LoadMode::Replace).unwrap();
    assert_eq!(
        world.query::<&Speed>().iter(&world).filter(|speed| speed.0.is_nan()).count(),
        1,
        "saved bit for bit"
    );
    let mut world = World::new();
    world.persist_non_finite::<Transform>(NonFinite::Report);
    world.spawn((Saved, Transform::from_xyz(0.0, f32::NAN, 0.0)));
    assert_eq!(world.capture(&SaveOptions::new()).unwrap().notes()[0].key, "bevy.transform");
    let error = build(NonFinite::Refuse).capture(&SaveOptions::new()).unwrap_err();
    assert!(error.key() == Some("test.speed") && error.to_string().contains("entity"), "{error}");
}

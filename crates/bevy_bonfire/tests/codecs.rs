//! Codecs of a game: one session per save and per load, with the world to look at.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bevy_app::App;
use bevy_bonfire::core::{Codec, LoadContext, SaveContext};
use bevy_bonfire::prelude::*;
use bevy_bonfire::replication::DeltaCapture;
use bevy_bonfire::store::{MemoryStore, Slots};
use bevy_bonfire::{Descriptor, Error};
use bevy_ecs::prelude::*;

/// An image, by its number in this run of the game.
#[derive(Component, Clone, Copy, Debug, PartialEq)]
#[require(Saved)]
struct Image(usize);

#[derive(Component, Persist, Clone, Copy, Debug, PartialEq)]
#[persist(key = "test.tag")]
struct Tag;

/// The paths of all images, by their number.
#[derive(Resource, Clone)]
struct Images(Vec<&'static str>);

#[derive(Default)]
struct Counts {
    begun: AtomicUsize,
    saved: AtomicUsize,
    ended: AtomicUsize,
}

impl Counts {
    fn take(&self) -> [usize; 3] {
        [&self.begun, &self.saved, &self.ended].map(|count| count.swap(0, Relaxed))
    }
}

/// Saves images by their path.
#[derive(Clone, Default)]
struct ByPath {
    saves: Arc<Counts>,
    loads: Arc<Counts>,
}

/// The numbers of images by path, and how many values there were.
struct Session {
    numbers: HashMap<&'static str, usize>,
    paths: Vec<&'static str>,
    values: usize,
}

/// More values than this in one session are refused at its end.
const VALUES_MAX: usize = 5;

fn session(world: Option<&World>) -> Result<Session, Error> {
    let images = world.and_then(World::get_resource::<Images>).ok_or_else(|| Error::custom("no images"))?;
    let numbers = images.0.iter().zip(0..).map(|(path, number)| (*path, number)).collect();
    Ok(Session { numbers, paths: images.0.clone(), values: 0 })
}

fn end(session: &Session) -> Result<(), Error> {
    match session.values {
        0..=VALUES_MAX => Ok(()),
        values => Err(Error::custom(format!("{values} values are too many"))),
    }
}

impl Codec<Image> for ByPath {
    type Saved = String;
    type Session = Session;

    fn begin_save(&self, context: &SaveContext<'_>) -> Result<Session, Error> {
        self.saves.begun.fetch_add(1, Relaxed);
        session(context.world())
    }
    fn save(
        &self,
        session: &mut Session,
        image: &Image,
        context: &SaveContext<'_>,
    ) -> Result<Option<String>, Error> {
        self.saves.saved.fetch_add(1, Relaxed);
        session.values += 1;
        assert!(context.world::<World>().is_some());
        Ok(session.paths.get(image.0).map(|path| (*path).to_owned()))
    }
    fn end_save(&self, session: Session) -> Result<(), Error> {
        self.saves.ended.fetch_add(1, Relaxed);
        end(&session)
    }
    fn begin_load(&self, context: &LoadContext<'_>) -> Result<Session, Error> {
        self.loads.begun.fetch_add(1, Relaxed);
        session(context.world())
    }
    fn load(&self, session: &mut Session, path: String, _: &LoadContext<'_>) -> Result<Option<Image>, Error> {
        self.loads.saved.fetch_add(1, Relaxed);
        session.values += 1;
        Ok(session.numbers.get(&*path).map(|number| Image(*number)))
    }
    fn end_load(&self, session: Session) -> Result<(), Error> {
        self.loads.ended.fetch_add(1, Relaxed);
        end(&session)
    }
}

fn world(images: &[&'static str], codec: &ByPath) -> World {
    let mut world = World::new();
    world.insert_resource(Images(images.to_vec()));
    world.persist::<Tag>().persist_as::<Image>(Descriptor::with_codec("test.image", codec.clone()));
    world
}

fn images(world: &mut World) -> Vec<usize> {
    let mut images: Vec<usize> = world.query::<&Image>().iter(world).map(|image| image.0).collect();
    images.sort_unstable();
    images
}

#[test]
fn a_save_and_a_load_are_one_session_each_with_the_world() {
    let codec = ByPath::default();
    let mut source = world(&["sky", "sand", "sea"], &codec);
    source.spawn(Image(0));
    source.spawn((Image(1), Tag));
    source.spawn((Image(2), Tag));
    source.spawn(Image(7)); // no image: it is saved without
    let snapshot = source.capture(&SaveOptions::new()).unwrap();
    assert_eq!(codec.saves.take(), [1, 4, 1], "two archetypes, one session");
    // Another run of the game numbers its images in another way.
    let mut target = world(&["sea", "sky"], &codec);
    let loaded = target.load(&snapshot, LoadOptions::new()).unwrap();
    assert_eq!(codec.loads.take(), [1, 3, 1]);
    assert_eq!((loaded.report.entities, images(&mut target)), (4, vec![0, 1]));
    // A save without values begins no session.
    world(&[], &codec).capture(&SaveOptions::new()).unwrap();
    assert_eq!(codec.saves.take(), [0, 0, 0]);
}

#[test]
fn the_end_of_a_session_may_fail_the_save_and_the_load() {
    let codec = ByPath::default();
    let mut source = world(&["sky"], &codec);
    (0..=VALUES_MAX).for_each(|_| _ = source.spawn(Image(0)));
    let error = source.capture(&SaveOptions::new()).unwrap_err();
    assert!(error.to_string().contains("6 values are too many"), "{error}");
    assert!(error.to_string().contains("test.image"), "{error}");
    // Half of them are saved, and the loads of both halves together fail.
    let mut half = world(&["sky"], &codec);
    (0..3).for_each(|_| _ = half.spawn(Image(0)));
    let snapshot = half.capture(&SaveOptions::new()).unwrap();
    half.load(&snapshot, LoadMode::Merge).unwrap();
    assert_eq!(images(&mut half).len(), 6);
    let mut many = world(&["sky"], &ByPath::default());
    (0..=VALUES_MAX).for_each(|_| _ = many.spawn((Image(0), Tag)));
    let other = Descriptor::custom(
        "test.image",
        |_: &Image, _| Ok(Some("sky".to_owned())),
        |_: String, _| Ok(Some(Image(0))),
    );
    let mut easy = World::new();
    easy.persist_as::<Image>(other);
    (0..=VALUES_MAX).for_each(|_| _ = easy.spawn(Image(0)));
    let snapshot = easy.capture(&SaveOptions::new()).unwrap();
    let error = half.load(&snapshot, LoadOptions::new()).unwrap_err();
    assert!(error.to_string().contains("6 values are too many"), "{error}");
    assert_eq!(images(&mut half).len(), 6, "a load that fails leaves the world as it was");
}

#[test]
fn a_load_that_is_prepared_on_another_thread_has_a_session_with_the_world() {
    let codec = ByPath::default();
    let mut app = App::new();
    app.add_plugins(BonfirePlugin::new().slots(Slots::new(MemoryStore::new())));
    app.insert_resource(Images(vec!["sky", "sea"]));
    app.persist::<Tag>().persist_as::<Image>(Descriptor::with_codec("test.image", codec.clone()));
    app.world_mut().spawn(Image(0));
    app.world_mut().spawn((Image(1), Tag));
    let save = app.world_mut().resource_mut::<Saves>().save("quick");
    app.update();
    save.wait().unwrap();
    codec.loads.take();
    let load = app.world_mut().resource_mut::<Saves>().load("quick");
    while !load.is_complete() {
        app.update();
    }
    assert_eq!(load.result().unwrap().unwrap().report.entities, 2);
    assert_eq!(images(app.world_mut()), [0, 1]);
    let [begun, loaded, ended] = codec.loads.take();
    assert_eq!((loaded, ended), (2, 1), "those without a world are dropped, {begun} were begun");
}

#[test]
fn a_delta_is_a_session_too() {
    let codec = ByPath::default();
    let mut source = world(&["sky", "sea"], &codec);
    let image = source.spawn(Image(0)).id();
    let mut deltas = DeltaCapture::of_saves();
    deltas.changes(&mut source).unwrap();
    assert_eq!(codec.saves.take(), [1, 1, 1]);
    source.entity_mut(image).insert(Image(1));
    deltas.changes(&mut source).unwrap();
    assert_eq!(codec.saves.take(), [1, 1, 1]);
    deltas.changes(&mut source).unwrap();
    assert_eq!(codec.saves.take(), [0, 0, 0], "nothing was touched");
}

#[test]
fn plain_functions_see_the_world_too() {
    let mut source = World::new();
    source.insert_resource(Images(vec!["sky", "sea"]));
    let save = |image: &Image, context: &SaveContext<'_>| {
        let images = context.world::<World>().map(|world| world.resource::<Images>());
        Ok(images.and_then(|images| images.0.get(image.0)).map(|path| (*path).to_owned()))
    };
    let load = |path: String, context: &LoadContext<'_>| {
        let images = context.world::<World>().map(|world| world.resource::<Images>());
        Ok(images.and_then(|images| images.0.iter().position(|known| *known == path)).map(Image))
    };
    source.persist_as::<Image>(Descriptor::custom("test.image", save, load));
    source.spawn(Image(1));
    let snapshot = source.capture(&SaveOptions::new()).unwrap();
    source.insert_resource(Images(vec!["sea"]));
    source.load(&snapshot, LoadOptions::new()).unwrap();
    assert_eq!(images(&mut source), [0]);
}

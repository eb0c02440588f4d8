//! Which entities and what else a save holds: scope, filters, layers, queries, data, hooks, files, memory.

mod common;

use std::sync::{Arc, Mutex};

use bonfire_hecs::core::engine::DataHandler;
use bonfire_hecs::core::schema::{Node, SchemaBuilder, Type};
use bonfire_hecs::core::{Adapter, DataEntry};
use bonfire_hecs::core::{Reader, Writer};
use bonfire_hecs::{
    Bonfire, Compression, Descriptor, EncodeOptions, EntityId, Error, Filter, Limits, LoadContext, LoadMode,
    LoadOptions, NonFinite, Persist, Result, SaveOptions, SaveScope, Saved, Selection, Snapshot, Value,
};
use common::*;
use hecs::{Entity, Or, With, Without, World};

/// Not registered: it only tells layers.
struct OnLayer(u8);

fn name(name: &str) -> Name {
    Name(name.into())
}

fn names(snapshot: &Snapshot) -> Vec<String> {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    bonfire.load(&mut world, snapshot, LoadMode::Replace).unwrap();
    let mut names: Vec<String> = world.query::<&Name>().iter().map(|name| name.0.clone()).collect();
    names.sort();
    names
}

fn filled() -> HecsWorld {
    let mut bonfire = bonfire(false);
    bonfire.save_layer(|layer: &OnLayer| layer.0);
    let mut world = World::new();
    world.spawn((Saved, name("a"), Enemy, OnLayer(0)));
    world.spawn((Saved, name("b"), Enemy, Team(1), OnLayer(3)));
    world.spawn((Saved, name("c"), Team(2), Burning("x".into())));
    world.spawn((Saved, name("d"), OnLayer(31)));
    HecsWorld { world, bonfire }
}

#[test]
fn filters_by_key_and_layer_compose() {
    let HecsWorld { mut world, bonfire } = filled();
    let save = |world: &World, filter: Filter| {
        names(&bonfire.capture(world, &SaveOptions::new().filter(filter)).unwrap())
    };
    assert_eq!(save(&world, Filter::new()), ["a", "b", "c", "d"]);
    assert_eq!(save(&world, Filter::new().include("test.enemy")), ["a", "b"]);
    assert_eq!(save(&world, Filter::new().include("test.enemy").include("test.team")), ["b"]);
    let any = Filter::new().include_any("test.enemy").include_any("test.team");
    assert_eq!(save(&world, any), ["a", "b", "c"]);
    assert_eq!(save(&world, Filter::new().exclude("test.team")), ["a", "d"]);
    let layers = |layers: &[u8]| Filter::new().layers(layers.iter().copied()).unwrap();
    assert_eq!(save(&world, layers(&[3, 31])), ["b", "c", "d"], "without a layer: always");
    assert_eq!(save(&world, layers(&[0]).include("test.enemy")), ["a"]);
    assert_eq!(save(&world, layers(&[])), ["c"]);
    // Some rows of an archetype, in their order.
    world.spawn_batch((0..40).map(|number| (Saved, name(&format!("row {number:02}")), OnLayer(number % 4))));
    let expected: Vec<String> = (0..40).skip(2).step_by(4).map(|number| format!("row {number:02}")).collect();
    assert_eq!(save(&world, layers(&[2]).exclude("test.team")), expected);
    let unknown = SaveOptions::new().filter(Filter::new().include("no.such"));
    let error = bonfire.capture(&world, &unknown).unwrap_err();
    assert!(error.is_misuse() && error.key() == Some("no.such"), "{error}");
}

#[test]
fn a_layer_out_of_range_is_an_error_that_says_which() {
    let HecsWorld { mut world, bonfire } = filled();
    world.spawn((Saved, OnLayer(40)));
    assert!(bonfire.capture(&world, &SaveOptions::new()).is_ok(), "nobody asked for layers");
    let layers = SaveOptions::new().filter(Filter::new().layers([1]).unwrap());
    let error = bonfire.capture(&world, &layers).unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("layer 40"), "{error}");
    assert!(Filter::new().layers([32]).unwrap_err().is_misuse());
    // On an entity that is no part of the save it is no mistake.
    let HecsWorld { mut world, bonfire } = filled();
    world.spawn((OnLayer(40),));
    assert_eq!(bonfire.capture(&world, &layers).unwrap().entity_count(), 1);
}

#[test]
fn queries_of_hecs_choose_archetypes() {
    let HecsWorld { world, bonfire } = filled();
    let chosen = |options: SaveOptions| names(&bonfire.capture(&world, &options).unwrap());
    assert_eq!(chosen(SaveOptions::new().matching::<&Enemy>()), ["a", "b"]);
    assert_eq!(chosen(SaveOptions::new().matching::<&Enemy>().matching::<&Team>()), ["b"]);
    assert_eq!(chosen(SaveOptions::new().matching::<Without<&Name, &Team>>()), ["a", "d"]);
    assert_eq!(chosen(SaveOptions::new().matching::<Or<&Burning, &Enemy>>()), ["a", "b", "c"]);
    assert_eq!(chosen(SaveOptions::new().matching::<With<&Team, &OnLayer>>()), ["b"], "registered or not");
    assert_eq!(chosen(SaveOptions::new().matching::<Option<&Enemy>>()).len(), 4);
    let both = SaveOptions::new().matching::<&Enemy>().filter(Filter::new().exclude("test.team"));
    assert_eq!(chosen(both), ["a"]);
    let selection = Selection::new().matching::<&Team>();
    assert_eq!(chosen(SaveOptions::new().selection(selection)), ["b", "c"]);
    struct Never;
    assert_eq!(chosen(SaveOptions::new().matching::<Without<&Name, &Never>>()).len(), 4);
}

#[test]
fn the_scope_says_which_entities_are_saved() {
    let mut world = World::new();
    world.spawn((name("enemy"), Enemy));
    world.spawn((name("hovered"), Hover(1), Saved));
    world.spawn((OnLayer(1),));
    world.spawn(());
    world.spawn((Saved,));
    let marked = bonfire(false);
    let snapshot = save(&marked, &world);
    assert_eq!((names(&snapshot), snapshot.entity_count()), (vec!["hovered".to_owned()], 2));
    let persisted = bonfire(false).scope(SaveScope::Persisted);
    let snapshot = save(&persisted, &world);
    assert_eq!(snapshot.entity_count(), 3, "all that have a registered component, or the mark");
    assert_eq!(names(&snapshot), ["enemy", "hovered"]);
    assert!(!snapshot.component_rows().contains_key("test.hover"), "transient");
    let mut default = Bonfire::new();
    default.persist::<Enemy>().unwrap();
    assert_eq!(save(&default, &world).entity_count(), 3, "the enemy needs no mark");
    // A transient component alone is a reason too: its entity is saved, the component is not.
    let mut world = World::new();
    world.spawn((Hover(1),));
    assert_eq!((save(&persisted, &world).entity_count(), save(&marked, &world).entity_count()), (1, 0));
}

#[test]
fn entities_saved_without_marks_get_them_where_marks_count() {
    let mut source = World::new();
    source.spawn((Enemy, name("a")));
    source.spawn((Enemy, name("b"), Even(1)));
    let snapshot = save(&bonfire(false).scope(SaveScope::Persisted), &source);
    let (mut world, mut marked) = (World::new(), bonfire(false));
    for _ in 0..2 {
        marked.load(&mut world, &snapshot, LoadMode::Replace).unwrap();
        assert_eq!((world.len(), save(&marked, &world).entity_count()), (2, 2));
    }
}

#[test]
fn data_and_metadata_are_kept_in_order() {
    let HecsWorld { world, mut bonfire } = filled();
    let options = SaveOptions::new()
        .data("b.second", &1_u8)
        .unwrap()
        .data("a.first", &"text".to_owned())
        .unwrap()
        .metadata("name", "Before the dragon")
        .metadata("hours", 7_u64);
    let snapshot =
        Snapshot::open(&bonfire.capture_with_hooks(&world, &options).unwrap().to_bytes().unwrap()).unwrap();
    let keys: Vec<&str> = snapshot.data().iter().map(DataEntry::key).collect();
    assert_eq!(keys, ["b.second", "a.first"]);
    let metadata =
        [("name".to_owned(), Value::from("Before the dragon")), ("hours".to_owned(), Value::from(7_u64))];
    assert_eq!(snapshot.metadata(), metadata);
    let error = SaveOptions::new().data("bonfire.free_list", &vec![1_u64]).err().unwrap();
    assert!(error.is_misuse() && error.key() == Some("bonfire.free_list"), "{error}");
}

#[test]
fn options_can_be_used_again_and_cloned() {
    let HecsWorld { world, mut bonfire } = filled();
    let options = SaveOptions::new()
        .matching::<&Enemy>()
        .resource(Score { points: 1, best: None })
        .data("game.seed", &1_u8)
        .unwrap();
    let first = bonfire.capture_with_hooks(&world, &options).unwrap().to_bytes().unwrap();
    assert_eq!(bonfire.capture_with_hooks(&world, &options).unwrap().to_bytes().unwrap(), first);
    assert_eq!(bonfire.capture_with_hooks(&world, &options.clone()).unwrap().to_bytes().unwrap(), first);
}

#[test]
fn files_are_replaced_as_a_whole_and_errors_name_the_path() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("slot.save");
    let HecsWorld { mut world, mut bonfire } = filled();
    let saved = bonfire.save_to(&world, &path, &SaveOptions::new()).unwrap();
    assert_eq!((saved.bytes, saved.entities), (std::fs::metadata(&path).unwrap().len(), 4));
    world.spawn_batch((0..2000).map(|i| (Saved, name("z"), Position { x: i as f32, y: 0.0 })));
    let plain = bonfire.save_to(&world, &path, &SaveOptions::new()).unwrap();
    let compressed = SaveOptions::new().compression(Compression::Lz4);
    let less = bonfire.save_to(&world, &path, &compressed).unwrap();
    assert!(less.bytes < plain.bytes && less.bytes == std::fs::metadata(&path).unwrap().len());
    let encode = EncodeOptions { compression: Compression::Lz4, ..EncodeOptions::default() };
    let same = bonfire.save_to(&world, &path, &SaveOptions::new().encode_options(encode)).unwrap();
    assert_eq!(same.bytes, less.bytes);
    let files: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert_eq!(files.len(), 1, "no litter: {files:?}");

    let missing = directory.path().join("no").join("slot.save");
    let error = bonfire.save_to(&world, &missing, &SaveOptions::new()).unwrap_err();
    assert!(error.is_io() && error.is_not_found() && error.to_string().contains("slot.save"), "{error}");
    let error = bonfire.load_from(&mut world, &missing, LoadMode::Replace).unwrap_err();
    assert!(error.is_not_found() && error.to_string().contains("slot.save"), "{error}");
    // A directory in the place of the file: the save fails and leaves nothing behind.
    let taken = directory.path().join("taken");
    std::fs::create_dir(&taken).unwrap();
    assert!(bonfire.save_to(&world, &taken, &SaveOptions::new()).unwrap_err().is_io());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
    // What cannot be saved does not touch the file that is there.
    let before = std::fs::read(&path).unwrap();
    let bad = SaveOptions::new().filter(Filter::new().include("no.such"));
    assert!(bonfire.save_to(&world, &path, &bad).unwrap_err().is_misuse());
    assert_eq!(std::fs::read(&path).unwrap(), before);

    let loaded = bonfire.load_from(&mut world, &path, LoadMode::Replace).unwrap();
    assert_eq!((loaded.prelude.entity_count, world.len()), (2004, 2004));
}

#[test]
fn a_file_beyond_the_limits_is_refused_before_memory_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("large.save");
    let HecsWorld { mut world, mut bonfire } = filled();
    let size = bonfire.save_to(&world, &path, &SaveOptions::new()).unwrap().bytes;
    let limits = Limits { raw_bytes_max: 1 << 20, ..Limits::default() };
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(size + (4 << 20)).unwrap();
    let options = LoadOptions::new().limits(limits);
    let error = bonfire.load_from(&mut world, &path, options).unwrap_err();
    assert!(error.is_limit() && error.to_string().contains("large.save"), "{error}");
}

#[test]
fn checksums_taken_early_give_the_same_file() {
    let HecsWorld { mut world, bonfire } = filled();
    world.spawn_batch((0..20_000).map(|i| (Saved, Position { x: i as f32, y: 0.0 })));
    let bytes = |options: &SaveOptions| bonfire.capture(&world, options).unwrap().to_bytes().unwrap();
    assert_eq!(bytes(&SaveOptions::new().with_checksums()), bytes(&SaveOptions::new()));
}

type Heard = Arc<Mutex<Vec<String>>>;

#[test]
fn hooks_attach_data_exclude_entities_and_get_their_data_back() {
    struct Wind(f32);
    let mut world = World::new();
    let vane = world.spawn((Saved, name("vane")));
    world.spawn((Saved, name("spark"), Burning("x".into())));
    world.spawn((Saved, name("enemy"), Enemy));
    let mut source = bonfire(false);
    source.hooks.on_save(move |world: &World, starting| {
        starting.attach("weather.wind", &2.5_f32)?;
        starting.attach("weather.vane", &vane)?;
        starting.attach("weather.entities", &world.len())?;
        starting.exclude::<Burning>();
        starting.exclude_key("test.enemy")
    });
    source.hooks.on_save(|_, starting| starting.attach("other.plugin", &7_u8));
    let options = SaveOptions::new().data("caller.data", &true).unwrap();
    let snapshot = source.capture_with_hooks(&world, &options).unwrap();
    let keys: Vec<&str> = snapshot.data().iter().map(DataEntry::key).collect();
    assert_eq!(
        keys.iter().filter(|key| **key != "bonfire.free_list").collect::<Vec<_>>(),
        [&"weather.wind", &"weather.vane", &"weather.entities", &"other.plugin", &"caller.data"]
    );
    assert_eq!(names(&snapshot), ["vane"]);
    // Exclusions and data are of one save: nothing piles up. A capture without hooks has everything and no data.
    assert_eq!(
        source.capture_with_hooks(&world, &SaveOptions::new()).unwrap().data().len(),
        snapshot.data().len() - 1
    );
    let plain = save(&source, &world);
    assert_eq!((plain.entity_count(), plain.data().len()), (3, 0));

    let heard = Heard::default();
    let (mut world, mut target) = (World::new(), bonfire(false));
    let tell = heard.clone();
    target.hooks.on_load(move |starting| {
        tell.lock().unwrap().push("starting".into());
        let (on_wind, on_vane) = (tell.clone(), tell.clone());
        starting.on_data("weather.wind", move |world: &mut World, entry, _| {
            world.spawn((Wind(entry.get()?),));
            on_wind.lock().unwrap().push("wind".into());
            Ok(())
        });
        starting.on_data("weather.vane", move |world: &mut World, entry, context| {
            let vane: Entity = entry.get_in(context)?;
            let name = world.get::<&Name>(vane).map(|name| name.0.clone());
            on_vane.lock().unwrap().push(format!("vane {name:?}"));
            Ok(())
        });
    });
    let tell = heard.clone();
    target.hooks.on_load(move |starting| {
        let tell = tell.clone();
        starting.on_data("weather.wind", move |_, _, _| {
            tell.lock().unwrap().push("wind again".into());
            Err(Error::custom("too windy"))
        });
    });
    let tell = heard.clone();
    target.hooks.on_finish(move |world, finished| {
        let mut tell = tell.lock().unwrap();
        tell.push(format!("finished with {} of {} entities", finished.prelude.entity_count, world.len()));
        tell.extend(finished.report.callback_errors.iter().map(ToString::to_string));
    });
    let loaded = target.load(&mut world, &snapshot, LoadMode::Replace).unwrap();
    assert_eq!(world.query::<&Wind>().iter().map(|wind| wind.0).collect::<Vec<_>>(), [2.5]);
    assert_eq!(
        *heard.lock().unwrap(),
        [
            "starting",
            "wind",
            "wind again",
            "vane Ok(\"vane\")",
            "finished with 1 of 2 entities",
            "`weather.wind`: too windy",
        ]
    );
    assert_eq!(loaded.report.unclaimed_data, ["weather.entities", "other.plugin", "caller.data"]);
    assert_eq!(loaded.report.callback_errors.len(), 1);
    // What nobody asked for is in the next save, what somebody took is not.
    let next = save(&target, &world);
    let kept: Vec<&str> = next.data().iter().map(DataEntry::key).collect();
    assert_eq!(
        kept.iter().filter(|key| **key != "bonfire.free_list").collect::<Vec<_>>(),
        [&"weather.entities", &"other.plugin", &"caller.data"]
    );
}

#[test]
fn a_handler_keeps_a_plugins_state_under_one_name() {
    let handled = || {
        let state = Arc::new(Mutex::new(0_u64));
        let mut bonfire = bonfire(false);
        let (saved, loaded) = (state.clone(), state.clone());
        let save = move |_: &World| Some(*saved.lock().unwrap()).filter(|&seed| seed != 0);
        let load = move |_: &mut World, seed: u64| {
            *loaded.lock().unwrap() = seed;
            Ok(())
        };
        bonfire.hooks.handler("game.random", DataHandler::new().save(save).load(load)).unwrap();
        (bonfire, state)
    };
    let world = World::new();
    let (mut source, state) = handled();
    assert_eq!(
        source.capture_with_hooks(&world, &SaveOptions::new()).unwrap().data().len(),
        0,
        "nothing to save"
    );
    *state.lock().unwrap() = 42;
    let snapshot = source.capture_with_hooks(&world, &SaveOptions::new()).unwrap();
    let (mut target, state) = handled();
    let loaded = target.load(&mut World::new(), &snapshot, LoadMode::Replace).unwrap();
    assert_eq!(*state.lock().unwrap(), 42);
    assert!(loaded.report.is_complete(), "{:?}", loaded.report);
}

/// Cannot be saved.
struct Unsaveable;

impl Persist for Unsaveable {
    fn schema(types: &mut SchemaBuilder) -> Node {
        types.add(Type::Unit)
    }
    fn encode(&self, out: &mut Writer) {
        out.fail(Error::custom("never"));
    }
    fn decode(_: &mut Reader<'_>) -> Result<Self> {
        Ok(Self)
    }
}

#[test]
fn an_error_of_a_hook_fails_the_save_and_the_hooks_are_still_there() {
    let HecsWorld { world, mut bonfire } = filled();
    let mut saves = 0;
    bonfire.hooks.on_save(move |_, starting| {
        saves += 1;
        if saves == 1 {
            starting.attach("bad.data", &Unsaveable)
        } else {
            starting.attach("game.saves", &saves)
        }
    });
    assert_eq!(bonfire.capture_with_hooks(&world, &SaveOptions::new()).unwrap_err().key(), Some("bad.data"));
    let snapshot = bonfire.capture_with_hooks(&world, &SaveOptions::new()).unwrap();
    assert_eq!(snapshot.data()[0].get::<i32>().unwrap(), 2);
    assert!(SaveOptions::new().data("bad.data", &Unsaveable).err().unwrap().key() == Some("bad.data"));
}

#[test]
fn numbers_that_are_none_are_kept_reported_or_refused() {
    let mut world = World::new();
    world.spawn((Saved, Position { x: 1.0, y: 2.0 }));
    let bad = world.spawn((Saved, Position { x: f32::NAN, y: f32::INFINITY }));
    let with = |policy| {
        let mut bonfire = bonfire(false);
        bonfire.persist_non_finite::<Position>(policy).unwrap();
        bonfire
    };
    assert_eq!(save(&bonfire(false), &world).notes(), []);
    assert_eq!(save(&with(NonFinite::Keep), &world).notes(), []);
    let snapshot = save(&with(NonFinite::Report), &world);
    let [note] = snapshot.notes() else { panic!("one note: {:?}", snapshot.notes()) };
    assert_eq!((&*note.key, note.count), ("test.position", 1));
    assert!(note.remark.contains(&EntityId::from(bad).to_string()), "{}", note.remark);
    let mut loaded = World::new();
    let mut target = bonfire(false);
    let new = target.load(&mut loaded, &snapshot, LoadMode::Replace).unwrap().entity(bad).unwrap();
    assert!(loaded.get::<&Position>(new).unwrap().x.is_nan(), "saved bit for bit");

    let error = with(NonFinite::Refuse).capture(&world, &SaveOptions::new()).unwrap_err();
    assert_eq!(error.key(), Some("test.position"));
    assert!(error.to_string().contains(&EntityId::from(bad).to_string()), "{error}");
    world.despawn(bad).unwrap();
    assert!(with(NonFinite::Refuse).capture(&world, &SaveOptions::new()).is_ok());
}

/// A texture, saved by name; one without a name is saved as none, and remarked.
struct Texture(Option<&'static str>);
struct ByName;

struct TextureName(String);

impl Persist for TextureName {
    fn schema(types: &mut SchemaBuilder) -> Node {
        String::schema(types)
    }
    fn encode(&self, out: &mut Writer) {
        if self.0.is_empty() {
            out.note("has no name and is saved without");
        }
        self.0.encode(out);
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        String::decode(input).map(Self)
    }
}

impl Adapter<Texture> for ByName {
    type Saved = TextureName;
    fn save(texture: &Texture) -> Result<TextureName> {
        Ok(TextureName(texture.0.unwrap_or_default().to_owned()))
    }
    fn load(_: TextureName, _: &LoadContext<'_>) -> Result<Texture> {
        Ok(Texture(None))
    }
}

#[test]
fn what_is_saved_with_a_loss_is_noted() {
    let mut bonfire = Bonfire::new();
    bonfire.persist_as::<Texture>(Descriptor::adapted::<Texture, ByName>("game.texture")).unwrap();
    let mut world = World::new();
    world.spawn((Texture(Some("wood")),));
    world.spawn((Texture(None),));
    world.spawn((Texture(None), Enemy));
    let snapshot = save(&bonfire, &world);
    let notes: Vec<_> = snapshot.notes().iter().map(|note| (&*note.key, &*note.remark, note.count)).collect();
    assert_eq!(notes, [("game.texture", "has no name and is saved without", 2)]);
}

#[test]
fn memory_goes_back_to_the_pool_and_is_used_again() {
    let mut world = World::new();
    let entities: Vec<Entity> =
        world.spawn_batch((0..10_000).map(|number| (Saved, Position { x: number as f32, y: 0.0 }))).collect();
    let bonfire = bonfire(false);
    let address = |snapshot: &Snapshot| snapshot.archetypes().next().unwrap().ids().as_ptr() as usize;
    let first = save(&bonfire, &world);
    let held = address(&first);
    let second = save(&bonfire, &world);
    assert_ne!(address(&second), held, "memory that is in use is left alone");
    assert_eq!(*first.archetypes().next().unwrap().ids(), *second.archetypes().next().unwrap().ids());
    drop(first);
    world.despawn(entities[0]).unwrap();
    let third = save(&bonfire, &world);
    assert_eq!(address(&third), held, "memory that is free is used again");
    assert_eq!((second.entity_count(), third.entity_count()), (10_000, 9_999));
}

#[test]
fn the_order_of_registration_leaves_no_trace() {
    let world = filled().world;
    let bytes = |reversed| save(&bonfire(reversed), &world).to_bytes().unwrap();
    assert_eq!(bytes(false), bytes(true));
}

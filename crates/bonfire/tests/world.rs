//! Saving and loading a world: identity, references, what is left out, what is not known, what happens on failure.

use bonfire::engine::*;
use bonfire::*;
use bonfire_testkit::{CaptureOptions, Mode, ModelWorld};

#[derive(Clone, Copy, Debug, PartialEq, Persist)]
#[persist(key = "game.position")]
struct Position {
    x: f32,
    y: f32,
}

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.name")]
struct Name(String);

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.likes")]
struct Likes {
    best: Option<EntityId>,
    others: Vec<EntityId>,
    home: EntityId,
}

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.frozen")]
struct Frozen;

#[derive(Clone, Debug, PartialEq, Default, Persist)]
#[persist(key = "game.path_cache", transient)]
struct PathCache(u32);

/// Only its presence is saved; the values come back as declared.
#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.timer")]
struct Timer {
    #[persist(skip, default = 3.5)]
    left: f32,
}

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.score")]
struct Score {
    points: u64,
    leader: Option<EntityId>,
}

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "mod.magic")]
struct Magic {
    spells: Vec<String>,
    target: EntityId,
}

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "mod.mana")]
struct Mana(f32);

fn bare_world() -> ModelWorld {
    let mut world = ModelWorld::new();
    world.register::<Position>().unwrap();
    world.register::<Name>().unwrap();
    world.register::<Likes>().unwrap();
    world.register::<Frozen>().unwrap();
    world.register::<PathCache>().unwrap();
    world.register::<Timer>().unwrap();
    world.register::<Score>().unwrap();
    world
}

/// Three entities in three archetypes that refer to each other in a circle, and holes in the id space.
fn village() -> (ModelWorld, [EntityId; 3]) {
    let mut world = bare_world();
    let gone = world.spawn();
    let [ada, bob, cat] = [world.spawn(), world.spawn(), world.spawn()];
    world.despawn(gone);
    world.insert(ada, Position { x: 1.0, y: 2.0 });
    world.insert(ada, Name("Ada".into()));
    world.insert(ada, Likes { best: Some(bob), others: vec![cat, ada], home: bob });
    world.insert(bob, Position { x: 3.0, y: 4.0 });
    world.insert(bob, Likes { best: Some(cat), others: vec![], home: EntityId::NULL });
    world.insert(cat, Name("Cat".into()));
    world.insert(cat, Frozen);
    world.insert(cat, Likes { best: Some(ada), others: vec![ada, ada], home: cat });
    world.insert_resource(Score { points: 7, leader: Some(cat) });
    (world, [ada, bob, cat])
}

fn reopened(snapshot: &Snapshot) -> Snapshot {
    Snapshot::open(&snapshot.encode(&EncodeOptions::default()).unwrap().to_vec()).unwrap()
}

fn canonical_bytes(world: &mut ModelWorld) -> Vec<u8> {
    world.save().unwrap().canonical().unwrap().encode(&EncodeOptions::default()).unwrap().to_vec()
}

#[test]
fn a_world_comes_back_with_its_references_in_a_circle() {
    let (mut world, [ada, bob, cat]) = village();
    let snapshot = reopened(&world.save().unwrap());
    let mut other = bare_world();
    for _ in 0..5 {
        other.spawn(); // so that ids differ
    }
    let loaded = other.load_with(&snapshot, Mode::Merge, LoadOptions::default()).unwrap();
    let new = |id| loaded.map.get(id).unwrap();
    assert_ne!(new(ada), ada);
    assert_eq!(other.get::<Position>(new(ada)), Some(&Position { x: 1.0, y: 2.0 }));
    assert_eq!(
        other.get::<Likes>(new(ada)),
        Some(&Likes { best: Some(new(bob)), others: vec![new(cat), new(ada)], home: new(bob) })
    );
    assert_eq!(other.get::<Likes>(new(bob)).unwrap().home, EntityId::NULL);
    assert_eq!(other.get::<Frozen>(new(cat)), Some(&Frozen));
    assert_eq!(other.resource::<Score>(), Some(&Score { points: 7, leader: Some(new(cat)) }));
    assert_eq!(loaded.prelude.entity_count, 3);
    assert_eq!(loaded.prelude.next_entity_id, 4);
    assert!(loaded.report.is_complete(), "{:?}", loaded.report);
}

#[test]
fn replace_replaces_and_merge_merges() {
    let (mut world, _) = village();
    let snapshot = world.save().unwrap();
    let extra = world.spawn();
    world.insert(extra, Name("Extra".into()));
    world.load(&snapshot).unwrap();
    assert_eq!(world.entities().len(), 3);
    assert!(!world.contains(extra), "a handle from before the load finds nothing");
    world.load_with(&snapshot, Mode::Merge, LoadOptions::default()).unwrap();
    assert_eq!(world.entities().len(), 6);
}

#[test]
fn loading_again_and_again_gives_the_same_world_and_no_orphans() {
    let (mut world, _) = village();
    let snapshot = reopened(&world.save().unwrap());
    let first = canonical_bytes(&mut world);
    for round in 0..20 {
        let id = world.spawn();
        world.insert(id, Position { x: round as f32, y: 0.0 });
        world.load(&snapshot).unwrap();
        assert_eq!(canonical_bytes(&mut world), first);
        assert_eq!(world.entities().len(), 3);
    }
}

#[test]
fn ids_can_be_kept_and_handles_to_the_dead_find_nothing() {
    let (mut world, [ada, ..]) = village();
    let snapshot = world.save().unwrap();
    let later = world.spawn();
    world.load_with(&snapshot, Mode::SameIds, LoadOptions::default()).unwrap();
    assert_eq!(world.get::<Name>(ada), Some(&Name("Ada".into())));
    assert!(!world.contains(later));
    let reborn = world.spawn();
    assert_eq!(reborn.index(), later.index(), "slots that were free are free");
    assert_ne!(reborn, later);
}

#[test]
fn dangling_references_are_null_dropped_or_refused() {
    let (mut world, [ada, bob, cat]) = village();
    world.set_transient(bob); // not saved, so references to it dangle
    let snapshot = world.save().unwrap();
    assert_eq!(snapshot.entity_count(), 2);
    let load = |dangling| {
        let mut other = bare_world();
        let loaded =
            other.load_with(&snapshot, Mode::Replace, LoadOptions { dangling, ..LoadOptions::default() })?;
        Ok::<_, Error>((other, loaded))
    };
    let (other, loaded) = load(Dangling::Null).unwrap();
    let (new_ada, new_cat) = (loaded.map.get(ada).unwrap(), loaded.map.get(cat).unwrap());
    let likes = Likes { best: None, others: vec![new_cat, new_ada], home: EntityId::NULL };
    assert_eq!(other.get::<Likes>(new_ada), Some(&likes));
    assert_eq!(loaded.report.component("game.likes").unwrap().dangling, 2);

    let (other, loaded) = load(Dangling::DropComponent).unwrap();
    assert_eq!(other.get::<Likes>(loaded.map.get(ada).unwrap()), None);
    assert!(other.get::<Name>(loaded.map.get(ada).unwrap()).is_some());
    assert!(other.get::<Likes>(loaded.map.get(cat).unwrap()).is_some());
    assert_eq!(loaded.report.component("game.likes").unwrap().left_out, 1);

    let error = load(Dangling::Refuse).err().unwrap();
    assert!(error.is_dangling());
    assert!(error.to_string().contains("`game.likes`"), "{error}");
}

#[test]
fn a_stale_handle_never_finds_the_new_owner_of_its_slot() {
    let mut world = bare_world();
    let old = world.spawn();
    let keeper = world.spawn();
    world.insert(keeper, Likes { best: Some(old), others: vec![old], home: old });
    world.despawn(old);
    let new = world.spawn();
    assert_eq!(new.index(), old.index());
    world.insert(new, Name("New".into()));
    let snapshot = reopened(&world.save().unwrap());
    let loaded = world.load(&snapshot).unwrap();
    let likes = world.get::<Likes>(loaded.map.get(keeper).unwrap()).unwrap();
    assert_eq!(likes, &Likes { best: None, others: vec![], home: EntityId::NULL });
}

#[test]
fn transient_at_three_levels() {
    let (mut world, [ada, bob, cat]) = village();
    // A component: its entity is saved without it.
    world.insert(ada, PathCache(9));
    // Fields: presence is saved, values come back as declared.
    world.insert(ada, Timer { left: 1.0 });
    // An entity: not saved at all.
    world.set_transient(bob);
    // One instance of a component.
    let mut registry_world = bare_world();
    let skip = Descriptor::of::<Magic>().skip_if(|magic: &Magic| magic.spells.is_empty()).unwrap();
    registry_world.add::<Magic>(skip).unwrap();
    let [one, two] = [registry_world.spawn(), registry_world.spawn()];
    registry_world.insert(one, Magic { spells: vec![], target: two });
    registry_world.insert(two, Magic { spells: vec!["fire".into()], target: one });

    let snapshot = reopened(&world.save().unwrap());
    assert!(!snapshot.components().iter().any(|component| component.key == "game.path_cache"));
    let loaded = world.load(&snapshot).unwrap();
    let new = loaded.map.get(ada).unwrap();
    assert_eq!(world.get::<PathCache>(new), None);
    assert_eq!(world.get::<Timer>(new), Some(&Timer { left: 3.5 }));
    assert_eq!(loaded.map.get(bob), None);
    assert!(loaded.map.get(cat).is_some());

    let snapshot = reopened(&registry_world.save().unwrap());
    let loaded = registry_world.load(&snapshot).unwrap();
    assert_eq!(registry_world.get::<Magic>(loaded.map.get(one).unwrap()), None);
    assert!(registry_world.get::<Magic>(loaded.map.get(two).unwrap()).is_some());
}

#[test]
fn an_entity_with_only_transient_components_is_still_saved() {
    let mut world = bare_world();
    let id = world.spawn();
    world.insert(id, PathCache(1));
    let bare = world.spawn();
    let snapshot = reopened(&world.save().unwrap());
    assert_eq!(snapshot.entity_count(), 2);
    let loaded = world.load(&snapshot).unwrap();
    assert!(loaded.map.get(id).is_some() && loaded.map.get(bare).is_some());
}

#[test]
fn a_build_that_made_a_component_transient_drops_it_from_old_saves() {
    #[derive(Clone, Persist)]
    #[persist(key = "game.path_cache")]
    struct SavedOnce(u32);
    let mut old = ModelWorld::new();
    old.register::<SavedOnce>().unwrap();
    let id = old.spawn();
    old.insert(id, SavedOnce(3));
    let mut new = bare_world();
    let loaded = new.load(&old.save().unwrap()).unwrap();
    assert_eq!(new.get::<PathCache>(loaded.map.get(id).unwrap()), None);
    assert_eq!(loaded.report.component("game.path_cache").unwrap().outcome, Outcome::Transient);
    assert!(!loaded.report.is_complete());
}

#[test]
fn filters_by_component_and_layer_compose() {
    let (mut world, [ada, bob, cat]) = village();
    let saved = |world: &mut ModelWorld, filter: Filter| {
        let options = CaptureOptions { filter, ..CaptureOptions::default() };
        let mut ids = world.capture(&options).unwrap().entities();
        ids.sort();
        ids
    };
    assert_eq!(saved(&mut world, Filter::new().include("game.name")), [ada, cat]);
    assert_eq!(saved(&mut world, Filter::new().include("game.name").exclude("game.frozen")), [ada]);
    assert_eq!(
        saved(&mut world, Filter::new().include_any("game.frozen").include_any("game.position")),
        [ada, bob, cat]
    );
    // Entities without a position have no layer and pass.
    world.set_layer(|world, id| world.get::<Position>(id).map(|position| position.x as u8));
    assert_eq!(saved(&mut world, Filter::new().layers([3]).unwrap()), [bob, cat]);
    assert_eq!(saved(&mut world, Filter::new().include("game.name").layers([3]).unwrap()), [cat]);
    assert_eq!(saved(&mut world, Filter::new().layers([]).unwrap()), [cat]);
    let error = Filter::new().layers([32]).unwrap_err();
    assert!(error.is_misuse());
    assert_eq!(error.to_string(), "layer 32 is out of range 0..31");
    let filter = Filter::new().include("game.nmae");
    let options = CaptureOptions { filter, ..CaptureOptions::default() };
    assert_eq!(world.capture(&options).unwrap_err().key(), Some("game.nmae"));
    // Counts are those of what is saved, and archetypes that end up empty leave no trace.
    let options =
        CaptureOptions { filter: Filter::new().include("game.frozen"), ..CaptureOptions::default() };
    let prelude = reopened(&world.capture(&options).unwrap()).prelude();
    assert_eq!((prelude.entity_count, prelude.archetype_count), (1, 1));
}

#[test]
fn what_this_build_does_not_know_is_carried_and_comes_back() {
    let (mut modded, [ada, bob, cat]) = village();
    modded.register::<Magic>().unwrap();
    modded.register::<Mana>().unwrap();
    modded.insert(ada, Magic { spells: vec!["fire".into()], target: cat });
    modded.insert(bob, Mana(0.5));
    modded.insert(cat, Mana(0.25));
    modded.insert(cat, Magic { spells: vec![], target: bob });
    modded.hooks.on_save(|_, save| save.attach("mod.rules", &String::from("wild")));
    let before = canonical_bytes(&mut modded);
    let snapshot = reopened(&modded.save().unwrap());

    // Without the mod: everything else loads, nothing is lost.
    let mut plain = bare_world();
    let loaded = plain.load(&snapshot).unwrap();
    assert_eq!(loaded.report.component("mod.magic").unwrap().outcome, Outcome::Carried);
    assert_eq!(loaded.report.unclaimed_data, ["mod.rules"]);
    assert_eq!(
        plain.carry().component_rows().into_iter().collect::<Vec<_>>(),
        [("mod.magic", 2), ("mod.mana", 2)]
    );
    // An entity that dies takes its carried components with it.
    let new_bob = loaded.map.get(bob).unwrap();
    let mut thinned = bare_world();
    thinned.load(&snapshot).unwrap();
    thinned.despawn(new_bob);
    let thin = reopened(&thinned.save().unwrap());
    assert_eq!(thin.carried().map(|(ids, _)| ids.len()).sum::<usize>(), 3);

    // Through two more builds without it, with ids changing each time.
    let mut again = bare_world();
    again.spawn();
    again.load_with(&reopened(&plain.save().unwrap()), Mode::Merge, LoadOptions::default()).unwrap();
    let first = again.entities()[0];
    again.despawn(first);
    let snapshot = reopened(&again.save().unwrap());

    // The mod is back.
    let mut modded = bare_world();
    modded.register::<Magic>().unwrap();
    modded.register::<Mana>().unwrap();
    modded.hooks.on_save(|_, save| save.attach("mod.rules", &String::from("wild")));
    let loaded = modded.load(&snapshot).unwrap();
    assert_eq!(loaded.report.component("mod.magic").unwrap().outcome, Outcome::Restored);
    assert!(modded.carry().component_rows().is_empty());
    assert_eq!(canonical_bytes(&mut modded), before);
}

#[test]
fn unknown_components_can_be_dropped_or_refused() {
    let (mut modded, [ada, ..]) = village();
    modded.register::<Mana>().unwrap();
    modded.insert(ada, Mana(1.0));
    let snapshot = modded.save().unwrap();
    let mut plain = bare_world();
    let drop = LoadOptions { unknown: Unknown::Drop, ..LoadOptions::default() };
    let loaded = plain.load_with(&snapshot, Mode::Replace, drop).unwrap();
    assert_eq!(loaded.report.component("mod.mana").unwrap().outcome, Outcome::Dropped);
    assert!(plain.carry().is_empty());
    let refuse = LoadOptions { unknown: Unknown::Refuse, ..LoadOptions::default() };
    let error = plain.load_with(&snapshot, Mode::Replace, refuse).unwrap_err();
    assert!(error.is_unknown());
    assert_eq!(error.key(), Some("mod.mana"));
}

#[test]
fn a_failed_load_leaves_the_world_as_it_was() {
    let (mut world, [ada, ..]) = village();
    let before = canonical_bytes(&mut world);
    let entities = world.entities();

    // Bytes, schema, version, dangling, unknown, a custom codec that says no.
    let good = world.save().unwrap().encode(&EncodeOptions::default()).unwrap().to_vec();
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    assert!(Snapshot::open(&flipped).unwrap_err().is_corrupt());

    #[derive(Clone, Persist)]
    #[persist(key = "game.position")]
    struct WidePosition {
        x: f64,
        y: f32,
    }
    #[derive(Clone, Persist)]
    #[persist(key = "game.position", version = 2)]
    struct PositionV2 {
        x: f32,
        y: f32,
    }
    fn snapshot_of<T: Keyed + Clone>(value: T) -> Snapshot {
        let mut world = ModelWorld::new();
        world.register::<T>().unwrap();
        let id = world.spawn();
        world.insert(id, value);
        world.save().unwrap()
    }
    let error = world.load(&snapshot_of(WidePosition { x: 0.0, y: 0.0 })).unwrap_err();
    assert!(error.is_schema());
    assert!(error.to_string().contains("the save has f64, this build has f32"), "{error}");
    let error = world.load(&snapshot_of(PositionV2 { x: 0.0, y: 0.0 })).unwrap_err();
    assert!(error.is_newer_format());
    assert_eq!(error.to_string(), "`game.position`: version 2 is newer than this build (1): update the game");

    let refuse = LoadOptions { dangling: Dangling::Refuse, ..LoadOptions::default() };
    let lonely =
        snapshot_of(Likes { best: Some(EntityId::new(99, 0)), others: vec![], home: EntityId::NULL });
    assert!(world.load_with(&lonely, Mode::Replace, refuse).unwrap_err().is_dangling());

    let mut strict = bare_world();
    let codec = Descriptor::custom(
        "game.rank",
        |rank: &u8, _| Ok(Some(*rank)),
        |rank: u8, _: &LoadContext<'_>| {
            if rank < 5 { Ok(Some(rank)) } else { Err(Error::custom("too high a rank")) }
        },
    );
    strict.add::<u8>(codec).unwrap();
    let id = strict.spawn();
    strict.insert(id, 9_u8);
    let snapshot = strict.save().unwrap();
    let before_strict = canonical_bytes(&mut strict);
    let error = strict.load(&snapshot).unwrap_err();
    assert_eq!(error.to_string(), "`game.rank`.row 0: too high a rank");
    assert_eq!(canonical_bytes(&mut strict), before_strict);

    assert_eq!(world.entities(), entities);
    assert_eq!(canonical_bytes(&mut world), before);
    assert!(world.get::<Name>(ada).is_some());
}

#[test]
fn custom_codecs_see_the_world_and_may_return_nothing() {
    /// The index into a table of images is worth nothing in the next process; the image's name is.
    #[derive(Clone, Debug, PartialEq)]
    struct Sprite(usize);
    const IMAGES: [&str; 3] = ["none.png", "tree.png", "rock.png"];
    let codec = || {
        Descriptor::custom(
            "game.sprite",
            |sprite: &Sprite, _| Ok((sprite.0 > 0).then(|| IMAGES[sprite.0].to_owned())),
            |name: String, context: &LoadContext<'_>| {
                let world = context.world::<ModelWorld>().expect("the world is given");
                assert!(world.registry().by_key("game.sprite").is_some());
                Ok(IMAGES.iter().position(|image| *image == name).map(Sprite))
            },
        )
    };
    let mut world = ModelWorld::new();
    world.add::<Sprite>(codec()).unwrap();
    let ids: Vec<EntityId> = (0..3).map(|_| world.spawn()).collect();
    for (index, id) in ids.iter().enumerate() {
        world.insert(*id, Sprite(index));
    }
    let snapshot = reopened(&world.save().unwrap());
    let loaded = world.load(&snapshot).unwrap();
    let got: Vec<_> =
        ids.iter().map(|id| world.get::<Sprite>(loaded.map.get(*id).unwrap()).cloned()).collect();
    assert_eq!(got, [None, Some(Sprite(1)), Some(Sprite(2))]);
}

#[test]
fn saving_twice_gives_the_same_bytes_and_loading_is_a_fixed_point() {
    let (mut world, _) = village();
    let bytes = |snapshot: &Snapshot| snapshot.encode(&EncodeOptions::default()).unwrap().to_vec();
    assert_eq!(bytes(&world.save().unwrap()), bytes(&world.save().unwrap()));
    let first = canonical_bytes(&mut world);
    let snapshot = world.save().unwrap();
    world.load(&snapshot).unwrap();
    assert_eq!(canonical_bytes(&mut world), first);
    // The order of registration leaves no trace.
    let mut other = ModelWorld::new();
    other.register::<Score>().unwrap();
    other.register::<Likes>().unwrap();
    other.register::<Frozen>().unwrap();
    other.register::<Name>().unwrap();
    other.register::<Position>().unwrap();
    other.load(&snapshot).unwrap();
    assert_eq!(canonical_bytes(&mut other), first);
    assert_eq!(
        world.registry().by_key("game.likes").unwrap().schema(),
        other.registry().by_key("game.likes").unwrap().schema()
    );
}

#[test]
fn sorted_canonical_form_does_not_depend_on_row_order() {
    let build = |order: &[f32]| {
        let mut world = bare_world();
        for x in order {
            let id = world.spawn();
            world.insert(id, Position { x: *x, y: 0.0 });
        }
        world.save().unwrap()
    };
    let (a, b) = (build(&[1.0, 2.0, 3.0]), build(&[3.0, 1.0, 2.0]));
    let bytes = |snapshot: Snapshot| snapshot.encode(&EncodeOptions::default()).unwrap().to_vec();
    assert_ne!(bytes(a.canonical().unwrap()), bytes(b.canonical().unwrap()));
    assert_eq!(bytes(a.canonical_sorted().unwrap()), bytes(b.canonical_sorted().unwrap()));
}

#[test]
fn sparse_and_dense_storage_are_the_same_world() {
    let (mut world, _) = village();
    let dense = world.save().unwrap();
    let sparse = world.capture(&CaptureOptions { one_archetype: true, ..CaptureOptions::default() }).unwrap();
    assert_eq!(sparse.prelude().archetype_count, 1);
    assert!(sparse.archetypes().next().unwrap().columns().any(|column| column.is_sparse()));
    assert_eq!(reopened(&sparse).content_hash().unwrap(), dense.content_hash().unwrap());
}

#[test]
fn preflight_says_what_a_load_would_do() {
    let (mut modded, [ada, ..]) = village();
    modded.register::<Mana>().unwrap();
    modded.insert(ada, Mana(1.0));
    let bytes = modded.save().unwrap().encode(&EncodeOptions::default()).unwrap().to_vec();
    let preflight = bonfire::preflight(&bytes, bare_world().registry()).unwrap();
    assert!(preflight.is_loadable());
    assert_eq!(preflight.unknown().collect::<Vec<_>>(), ["mod.mana"]);
    assert_eq!(preflight.prelude.entity_count, 3);
    assert!(preflight.to_string().contains("`mod.mana`: not registered, carried"), "{preflight}");

    let mut registry = Registry::new();
    registry.add(Descriptor::new::<u8>("game.position")).unwrap();
    let preflight = bonfire::preflight(&bytes, &registry).unwrap();
    assert!(!preflight.is_loadable());
    assert!(preflight.errors().next().unwrap().is_schema());
}

#[test]
fn what_a_build_carries_survives_a_save_that_names_schemas_by_hash() {
    let (mut modded, [ada, ..]) = village();
    modded.register::<Mana>().unwrap();
    modded.insert(ada, Mana(0.75));
    let mut plain = bare_world();
    plain.load(&modded.save().unwrap()).unwrap();
    let options = EncodeOptions { inline_schemas: false, ..EncodeOptions::default() };
    let bytes = plain.save().unwrap().encode(&options).unwrap().to_vec();
    let mut plain = bare_world();
    let snapshot = Snapshot::options().registry(plain.registry()).open(&bytes).unwrap();
    plain.load(&snapshot).unwrap();
    assert_eq!(plain.carry().component_rows().get("mod.mana"), Some(&1));
    let loaded = modded.load(&plain.save().unwrap()).unwrap();
    assert_eq!(loaded.report.component("mod.mana").unwrap().outcome, Outcome::Restored);
}

#[test]
fn deep_values_can_be_carried_and_exported_as_deep_as_they_can_be_saved() {
    #[derive(Clone, Persist)]
    #[persist(key = "game.deep")]
    struct Deep(Inner);
    #[derive(Clone, Persist)]
    struct Inner {
        wrapped: (u8, Option<Box<Deep>>),
    }
    let mut deep = Deep(Inner { wrapped: (0, None) });
    for level in 1..60 {
        deep = Deep(Inner { wrapped: (level, Some(Box::new(deep))) });
    }
    let mut world = ModelWorld::new();
    world.register::<Deep>().unwrap();
    let id = world.spawn();
    world.insert(id, deep);
    let snapshot = world.save().unwrap();
    snapshot.to_json().unwrap();
    snapshot.canonical().unwrap();
    let mut ignorant = bare_world();
    ignorant.load(&snapshot).unwrap();
    world.load(&ignorant.save().unwrap()).unwrap();
    assert_eq!(world.save().unwrap().content_hash().unwrap(), snapshot.content_hash().unwrap());
}

#[test]
fn a_handle_around_an_id_is_none_when_it_dangles() {
    #[derive(Clone, Copy, Debug, PartialEq, Persist)]
    struct Handle(EntityId);
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "game.target")]
    struct Target {
        first: Option<Handle>,
        all: Vec<Option<Handle>>,
    }
    let mut world = bare_world();
    world.register::<Target>().unwrap();
    let (a, b) = (world.spawn(), world.spawn());
    let (to_a, to_b) = (Some(Handle(a)), Some(Handle(b)));
    world.insert(a, Target { first: to_b, all: vec![to_a, to_b, None] });
    world.despawn(b);
    let snapshot = world.save().unwrap();
    let loaded = world.load(&snapshot).unwrap();
    let a = loaded.map.get(a).unwrap();
    assert_eq!(world.get::<Target>(a), Some(&Target { first: None, all: vec![Some(Handle(a)), None, None] }));
}

#[test]
fn data_is_carried_without_hooks() {
    let registry = Registry::new();
    let id = EntityId::new(3, 1);
    let mut writer = SnapshotWriter::new(&registry);
    writer.archetype(&[id]).unwrap();
    writer.data("mod.target", &id).unwrap();
    writer.free_list([EntityId::new(0, 5)]).unwrap();
    let snapshot = Snapshot::open(&writer.finish().unwrap().to_bytes().unwrap()).unwrap();
    assert_eq!(snapshot.free_list().unwrap(), [EntityId::new(0, 5)]);

    let plan = LoadPlan::new(&snapshot, &registry, LoadOptions::default()).unwrap();
    let map = plan.entity_map(vec![EntityId::new(9, 0)]).unwrap();
    let staged = plan.stage(&map, None).unwrap();
    assert_eq!(staged.report.unclaimed_data, ["mod.target"]);
    let mut writer = SnapshotWriter::new(&registry);
    writer.archetype(&[EntityId::new(9, 0)]).unwrap();
    writer.carry(&staged.carry);
    let next = writer.finish().unwrap();
    assert_eq!(next.data().len(), 1, "ids that were free in another world are nothing to carry");
    assert_eq!(next.data()[0].get::<EntityId>().unwrap(), EntityId::new(9, 0));
    assert!(next.canonical().unwrap().data().len() == 1 && snapshot.canonical().unwrap().data().len() == 1);

    let drop = LoadOptions { unknown: Unknown::Drop, ..LoadOptions::default() };
    let staged = LoadPlan::new(&snapshot, &registry, drop).unwrap().stage(&map, None).unwrap();
    assert!(staged.carry.data().is_empty());
    assert_eq!(staged.report.unclaimed_data, ["mod.target"], "dropped, but not silently");
}

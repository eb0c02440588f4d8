//! Loads that fail leave the world exactly as it was, down to the next ids, and no load drops a value twice or never.

mod common;

use std::sync::atomic::AtomicIsize;
use std::sync::atomic::Ordering::SeqCst;

use bonfire_hecs::core::DataEntry;
use bonfire_hecs::core::engine::SnapshotWriter;
use bonfire_hecs::{
    Bonfire, Dangling, Descriptor, EntityId, Error, Filter, Limits, LoadContext, LoadMode, LoadOptions,
    Loaded, Persist, Registry, Result, SaveOptions, Saved, Selection, Snapshot, Unknown,
};
use common::*;
use hecs::{Entity, World};

fn name(name: &str) -> Name {
    Name(name.into())
}

fn read_again(snapshot: &Snapshot) -> Snapshot {
    Snapshot::open(&snapshot.to_bytes().unwrap()).unwrap()
}

#[derive(Clone, Debug, PartialEq)]
struct Choosy(u8);

fn choosy() -> Descriptor {
    let save = |choosy: &Choosy, _: &bonfire_hecs::SaveContext<'_>| Ok(Some(choosy.0));
    let load = |saved: u8, _: &LoadContext<'_>| match saved {
        13 => Err(Error::custom("thirteen is not allowed")),
        saved => Ok(Some(Choosy(saved))),
    };
    Descriptor::custom("test.choosy", save, load)
}

/// A world that is busy: everything in it must be the same after a load that fails. Made twice it is the same, down to the
/// ids that it gives out next.
fn busy() -> HecsWorld {
    let mut bonfire = bonfire(false);
    bonfire.persist_as::<Choosy>(choosy()).unwrap();
    bonfire.hooks.on_load(|_| panic!("a load that fails does not get this far"));
    bonfire.hooks.on_finish(|_, _| panic!("nor this far"));
    let mut world = World::new();
    let parent = world.spawn((Saved, name("parent"), Position { x: 1.0, y: 2.0 }));
    let children: Vec<Entity> = (0..200)
        .map(|number| {
            world.spawn((Saved, ChildOf(parent), Health { current: number, max: 200, flash: 1 }, Choosy(1)))
        })
        .collect();
    for index in [3, 170, 20, 99, 4] {
        world.despawn(children[index]).unwrap();
    }
    world.insert_one(children[7], Burning("yes".into())).unwrap();
    HecsWorld { world, bonfire }
}

fn assert_unchanged(what: &str, load: impl FnOnce(&mut HecsWorld) -> Result<Loaded>) -> Error {
    let (mut tried, mut twin) = (busy(), busy());
    let bytes = |it: &HecsWorld| save(&it.bonfire, &it.world).to_bytes().unwrap();
    let before = bytes(&tried);
    assert_eq!(before, bytes(&twin), "{what}: the worlds are twins");
    let error = load(&mut tried).err().unwrap_or_else(|| panic!("{what}: this load must fail"));
    assert_eq!(bytes(&tried), before, "{what}: saved bytes");
    assert_eq!(tried.world.len(), twin.world.len(), "{what}: entities");
    for _ in 0..300 {
        assert_eq!(tried.world.spawn((Saved,)), twin.world.spawn((Saved,)), "{what}: the next ids");
    }
    assert_eq!(bytes(&tried), bytes(&twin), "{what}: and on");
    error
}

fn modes() -> [(&'static str, LoadMode); 6] {
    [
        ("replace", LoadMode::Replace),
        ("replace selected", LoadMode::ReplaceSelected(Selection::new().matching::<&Health>())),
        ("merge", LoadMode::Merge),
        ("same ids", LoadMode::SameIds),
        ("restore", LoadMode::Restore),
        ("restore selected", LoadMode::RestoreSelected(Selection::new().matching::<&Health>())),
    ]
}

#[test]
fn a_failed_load_of_every_kind_leaves_the_world_as_it_was() {
    for (mode_name, mode) in modes() {
        let what = |kind: &str| format!("{kind}, {mode_name}");
        let mut source = busy();
        source.world.spawn((Saved, Choosy(13)));
        let snapshot = source.bonfire.capture(&source.world, &SaveOptions::new()).unwrap();

        let error = assert_unchanged(&what("a custom codec"), |it| {
            it.bonfire.load(&mut it.world, &snapshot, mode.clone())
        });
        assert!(error.to_string().contains("thirteen") && error.key() == Some("test.choosy"), "{error}");

        let error = assert_unchanged(&what("damaged bytes"), |it| {
            let mut damaged = snapshot.to_bytes()?;
            let middle = damaged.len() / 2;
            damaged[middle] ^= 1;
            it.bonfire.load(&mut it.world, &Snapshot::open(&damaged)?, mode.clone())
        });
        assert!(error.is_corrupt(), "{error}");

        let error = assert_unchanged(&what("a file that is not there"), |it| {
            it.bonfire.load_from(&mut it.world, "no/such/file.save", mode.clone())
        });
        assert!(error.is_not_found() && error.to_string().contains("file.save"), "{error}");

        let error = assert_unchanged(&what("another schema"), |it| {
            #[derive(Persist)]
            #[persist(key = "test.team")]
            struct OtherTeam(String);
            let (mut world, mut other) = (World::new(), Bonfire::new());
            other.persist::<OtherTeam>()?;
            world.spawn((Saved, OtherTeam("red".into())));
            it.bonfire.load(&mut it.world, &save(&other, &world), mode.clone())
        });
        assert!(error.is_schema() && error.key() == Some("test.team"), "{error}");

        let error = assert_unchanged(&what("a dangling reference"), |it| {
            let mut other = busy();
            let stray = other.world.spawn(());
            other.world.spawn((Saved, Follows { leader: stray, others: vec![], last: None }));
            let options = LoadOptions::new().dangling(Dangling::Refuse);
            let snapshot = save(&other.bonfire, &other.world);
            it.bonfire.load(&mut it.world, &snapshot, options.mode(mode.clone()))
        });
        assert!(error.is_dangling() && error.key() == Some("test.follows"), "{error}");

        let error = assert_unchanged(&what("an unknown component"), |it| {
            let options = LoadOptions::new().unknown(Unknown::Refuse);
            #[derive(Persist)]
            #[persist(key = "mod.laser")]
            struct Laser;
            let (mut world, mut other) = (World::new(), Bonfire::new());
            other.persist::<Laser>()?;
            world.spawn((Saved, Laser));
            it.bonfire.load(&mut it.world, &save(&other, &world), options.mode(mode.clone()))
        });
        assert!(error.is_unknown(), "{error}");

        let error = assert_unchanged(&what("more memory than allowed"), |it| {
            let limits = Limits { memory_bytes_max: 16, ..Limits::default() };
            let options = LoadOptions::new().limits(limits);
            it.bonfire.load(&mut it.world, &save(&busy().bonfire, &busy().world), options.mode(mode.clone()))
        });
        assert!(error.is_limit(), "{error}");
    }

    // Selections that cannot be.
    let snapshot = save(&busy().bonfire, &busy().world);
    let layers = Selection::new().filter(Filter::new().layers([1]).unwrap());
    for mode in [LoadMode::ReplaceSelected(layers.clone()), LoadMode::RestoreSelected(layers)] {
        let error = assert_unchanged("layers that nothing tells", |it| {
            it.bonfire.load(&mut it.world, &snapshot, mode)
        });
        assert!(error.is_misuse() && error.to_string().contains("save_layer"), "{error}");
    }
}

/// A save with these ids, as no hecs world would make it.
fn written_by_hand(
    ids: &[EntityId],
    then: impl FnOnce(&mut SnapshotWriter<'_>) -> Result<()>,
) -> Result<Snapshot> {
    let mut registry = Registry::new();
    registry.register::<Team>()?;
    let mut writer = SnapshotWriter::new(&registry);
    writer.archetype(ids)?.column(&vec![Team(1); ids.len()])?;
    then(&mut writer)?;
    writer.finish()
}

#[test]
fn same_ids_is_refused_where_ids_cannot_be_kept_and_the_world_is_as_it_was() {
    // Saved while its slot was not taken yet, by a twin that went another way.
    let mut source = busy();
    let next = source.world.spawn((Saved, Team(1)));
    let fine = save(&source.bonfire, &source.world);
    let in_the_way = |it: &mut HecsWorld| {
        assert_eq!(it.world.spawn((Burning("not marked".into()),)).id(), next.id());
    };
    let (mut tried, mut twin) = (busy(), busy());
    in_the_way(&mut tried);
    in_the_way(&mut twin);
    let error = tried.bonfire.load(&mut tried.world, &fine, LoadMode::SameIds).unwrap_err();
    let (id, text) = (EntityId::from(next), error.to_string());
    assert!(error.is_misuse() && text.contains(&format!("entity {id} of the save")), "{error}");
    assert!(text.contains(&format!("entity {id} has its slot")) && text.contains("Despawn"), "{error}");
    assert_eq!(
        save(&tried.bonfire, &tried.world).to_bytes().unwrap(),
        save(&twin.bonfire, &twin.world).to_bytes().unwrap()
    );
    assert_eq!(tried.world.spawn(()), twin.world.spawn(()));

    let id = EntityId::new;
    let nothing = |_: &mut SnapshotWriter<'_>| Ok(());
    let undecodable = DataEntry::new("bonfire.free_list", &"text".to_owned()).unwrap();
    let hostile: Vec<(&str, Snapshot)> = vec![
        ("another engine", written_by_hand(&[id(0, 1), id(1, 0)], nothing).unwrap()),
        ("a huge index", written_by_hand(&[id(0, 1), id(4_000_000_000, 1)], nothing).unwrap()),
        ("the last index", written_by_hand(&[id(u32::MAX, 1)], nothing).unwrap()),
        ("one slot twice", written_by_hand(&[id(5, 1), id(5, 2)], nothing).unwrap()),
        (
            "many slots",
            written_by_hand(&[id(0, 1)], |writer| {
                writer.next_entity_id(u64::MAX);
                Ok(())
            })
            .unwrap(),
        ),
        (
            "a huge free index",
            written_by_hand(&[id(0, 1)], |writer| writer.free_list([id(4_000_000_000, 1)])).unwrap(),
        ),
        ("free and in use", written_by_hand(&[id(0, 1)], |writer| writer.free_list([id(0, 2)])).unwrap()),
        (
            "free twice",
            written_by_hand(&[id(0, 1)], |writer| writer.free_list([id(1, 1), id(1, 3)])).unwrap(),
        ),
        ("free and null", written_by_hand(&[id(0, 1)], |writer| writer.free_list([EntityId::NULL])).unwrap()),
        ("free without generation", written_by_hand(&[id(0, 1)], |w| w.free_list([id(1, 0)])).unwrap()),
        (
            "a free list of another type",
            written_by_hand(&[id(0, 1)], |writer| {
                writer.data_entry(undecodable);
                Ok(())
            })
            .unwrap(),
        ),
    ];
    for (what, snapshot) in hostile {
        let snapshot = read_again(&snapshot);
        let error = assert_unchanged(what, |it| it.bonfire.load(&mut it.world, &snapshot, LoadMode::SameIds));
        if what == "another engine" {
            assert!(error.is_misuse() && error.to_string().contains("another engine"), "{error}");
        }
        // With new ids there is nothing wrong with it.
        let (mut world, mut bonfire) = (World::new(), bonfire(false));
        let loaded = bonfire.load(&mut world, &snapshot, LoadMode::Replace).unwrap();
        assert_eq!(loaded.entities().count(), snapshot.entity_count(), "{what}");
        assert_eq!(world.query::<&Team>().iter().count(), snapshot.entity_count(), "{what}");
    }
}

#[test]
fn failed_loads_use_up_no_ids() {
    let mut source = busy();
    source.world.spawn((Saved, Choosy(13)));
    let snapshot = save(&source.bonfire, &source.world);
    let (mut tried, mut twin) = (busy(), busy());
    for _ in 0..50 {
        for (_, mode) in modes() {
            tried.bonfire.load(&mut tried.world, &snapshot, mode).unwrap_err();
        }
    }
    for _ in 0..20 {
        assert_eq!(tried.world.spawn(()), twin.world.spawn(()));
    }
}

/// How many of them there are.
static ALIVE: AtomicIsize = AtomicIsize::new(0);

/// Counts itself: twice dropped is one too few, never dropped one too many.
#[derive(Debug)]
struct Guarded(Box<u32>);

impl Guarded {
    fn new(value: u32) -> Self {
        ALIVE.fetch_add(1, SeqCst);
        Self(Box::new(value))
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, SeqCst);
        *self.0 = u32::MAX;
    }
}

fn guarded() -> Descriptor {
    let load = |saved: u32, _: &LoadContext<'_>| match saved {
        666 => Err(Error::custom("refused")),
        saved => Ok(Some(Guarded::new(saved))),
    };
    Descriptor::custom("test.guarded", |guarded: &Guarded, _| Ok(Some(*guarded.0)), load)
}

#[test]
fn values_are_dropped_exactly_once() {
    let fresh = || {
        let mut bonfire = bonfire(false);
        bonfire.persist_as::<Guarded>(guarded()).unwrap();
        bonfire
    };
    let alive = |what: &str, world: &World| {
        let mut values: Vec<u32> = world.query::<&Guarded>().iter().map(|guarded| *guarded.0).collect();
        values.sort_unstable();
        assert_eq!(ALIVE.load(SeqCst), values.len() as isize, "{what}");
        assert!(values.iter().all(|&value| value < 1000), "{what}: {values:?}");
        values.len()
    };
    let (mut world, mut bonfire) = (World::new(), fresh());
    let entities: Vec<Entity> = (0..100)
        .map(|number| match number % 3 {
            0 => world.spawn((Saved, Guarded::new(number))),
            1 => world.spawn((Saved, Guarded::new(number), Burning(number.to_string()))),
            _ => world.spawn((Saved, Guarded::new(number), Even(number as u8))),
        })
        .collect();
    let snapshot = save(&bonfire, &world);
    assert_eq!(alive("spawned", &world), 100);

    // Nothing, then everything is different: values in other archetypes, gone, new, without the component.
    for step in 0..2 {
        if step == 1 {
            for (number, &entity) in entities.iter().enumerate() {
                match number % 7 {
                    0 => world.despawn(entity).unwrap(),
                    1 => drop(world.remove_one::<Guarded>(entity)),
                    2 => world.insert_one(entity, Enemy).unwrap(),
                    3 => *world.get::<&mut Guarded>(entity).unwrap().0 = 999,
                    _ => (),
                }
            }
            (0..10).for_each(|number| _ = world.spawn((Saved, Guarded::new(number))));
        }
        bonfire.load(&mut world, &snapshot, LoadMode::Restore).unwrap();
        assert_eq!(alive("restored", &world), 100);
    }
    let selected = Selection::new().matching::<&Burning>();
    bonfire.load(&mut world, &snapshot, LoadMode::RestoreSelected(selected)).unwrap();
    bonfire.load(&mut world, &snapshot, LoadMode::Restore).unwrap();
    assert_eq!(alive("restored a part and then all", &world), 100);
    for mode in [LoadMode::Replace, LoadMode::SameIds] {
        bonfire.load(&mut world, &snapshot, mode).unwrap();
        assert_eq!(alive("replaced", &world), 100);
    }
    bonfire.load(&mut world, &snapshot, LoadMode::Merge).unwrap();
    assert_eq!(alive("merged", &world), 200);
    bonfire.load(&mut world, &snapshot, LoadMode::Replace).unwrap();

    // A load that fails half-way through its values.
    let bad = world.spawn((Saved, Guarded::new(666), Position::default()));
    let failing = save(&bonfire, &world);
    world.despawn(bad).unwrap();
    for (what, mode) in modes() {
        assert!(bonfire.load(&mut world, &failing, mode).is_err(), "{what}");
        assert_eq!(alive(what, &world), 100);
    }

    // A resource that nobody takes, one that somebody takes, and values that come back from being carried.
    {
        let options = SaveOptions::new().resource(Guarded::new(5));
        let with_resource = bonfire.capture(&world, &options).unwrap();
        drop(options);
        drop(bonfire.load(&mut world, &with_resource, LoadMode::Replace).unwrap());
        assert_eq!(alive("a resource that nobody takes", &world), 100);
        let mut loaded = bonfire.load(&mut world, &with_resource, LoadMode::Replace).unwrap();
        assert_eq!(*loaded.take_resource::<Guarded>().unwrap().0, 5);
        assert_eq!(alive("a resource that is taken", &world), 100);
    }
    let (mut other, mut without) = (World::new(), common::bonfire(false));
    without.load(&mut other, &snapshot, LoadMode::Replace).unwrap();
    bonfire.load(&mut world, &save(&without, &other), LoadMode::Replace).unwrap();
    assert_eq!(alive("back from being carried", &world), 100);
    bonfire.load(&mut world, &save(&without, &other), LoadMode::Restore).unwrap();
    assert_eq!(alive("carried and restored", &world), 100);
    drop(world);
    assert_eq!(ALIVE.load(SeqCst), 0);
}

//! Values that cannot be encoded or that their codec leaves out: a save notes them, and mirrors keep the values before.

use bonfire_hecs::core::engine::EntityMap;
use bonfire_hecs::replication::DeltaCapture;
use bonfire_hecs::{Bonfire, Descriptor, Error, LoadContext, LoadMode, Persist, SaveOptions, Unencodable};
use hecs::{Entity, World};

#[derive(Clone, Debug, PartialEq)]
struct Secret(u32);

/// So that an entity stays without a secret.
#[derive(Persist)]
#[persist(key = "test.person")]
struct Person;

fn bonfire() -> Bonfire {
    let save = |secret: &Secret, _: &bonfire_hecs::SaveContext<'_>| match secret.0 {
        0 => Ok(None),
        13 => Err(Error::misuse("thirteen is not told")),
        number => Ok(Some(number)),
    };
    let load = |value: u32, _: &LoadContext<'_>| Ok(Some(Secret(value)));
    let mut bonfire = Bonfire::new();
    bonfire.persist::<Person>().unwrap();
    bonfire.persist_as::<Secret>(Descriptor::custom("test.secret", save, load)).unwrap();
    bonfire.replicate_persisted().unwrap();
    bonfire
}

fn spawn(world: &mut World, values: [u32; 3]) -> [Entity; 3] {
    values.map(|value| world.spawn((Secret(value), Person)))
}

#[test]
fn a_save_leaves_it_out_and_notes_it_or_refuses() {
    let (mut bonfire, mut world) = (bonfire(), World::new());
    let entities = spawn(&mut world, [1, 13, 3]);
    let snapshot = bonfire.capture(&world, &SaveOptions::new()).unwrap();
    let [note] = snapshot.notes() else { panic!("{:?}", snapshot.notes()) };
    assert_eq!((note.key.as_str(), note.count), ("test.secret", 1));
    assert!(note.remark.contains("thirteen is not told"), "{note}");
    let directory = tempfile::tempdir().unwrap();
    let report = bonfire.save_to(&world, directory.path().join("save"), &SaveOptions::new()).unwrap();
    assert_eq!(report.notes, snapshot.notes());
    assert_eq!(report.snapshot.unwrap().to_bytes().unwrap(), snapshot.to_bytes().unwrap());
    let mut target = World::new();
    let loaded = bonfire.load(&mut target, &snapshot, LoadMode::Replace).unwrap();
    let found = entities
        .map(|entity| target.get::<&Secret>(loaded.entity(entity).unwrap()).ok().map(|secret| secret.0));
    assert_eq!(found, [Some(1), None, Some(3)]);

    let refuse = SaveOptions::new().unencodable(Unencodable::Refuse);
    assert!(bonfire.capture(&world, &refuse).unwrap_err().to_string().contains("test.secret"));
    bonfire.persist_unencodable::<Secret>(Unencodable::Refuse).unwrap();
    bonfire.capture(&world, &SaveOptions::new()).unwrap_err();
}

#[test]
fn mirrors_keep_the_value_before() {
    let (bonfire, mut server, mut client) = (bonfire(), World::new(), World::new());
    let (mut deltas, mut map, options) =
        (DeltaCapture::of_replication(), EntityMap::default(), SaveOptions::new());
    let mut step = |server: &World, client: &mut World, map: &mut EntityMap| {
        let delta = deltas.changes(&bonfire, server, &options).unwrap();
        bonfire.apply_delta(client, &delta, map).unwrap();
        deltas.notes().len()
    };
    let entities = spawn(&mut server, [1, 2, 3]);
    let found = |client: &World, map: &EntityMap| {
        entities.map(|entity| {
            let here: Entity = map.get(entity.into()).unwrap().into();
            client.get::<&Secret>(here).ok().map(|secret| secret.0)
        })
    };
    assert_eq!(step(&server, &mut client, &mut map), 0);
    for (entity, value) in entities.iter().zip([0, 13, 30]) {
        server.get::<&mut Secret>(*entity).unwrap().0 = value;
    }
    assert_eq!(step(&server, &mut client, &mut map), 1);
    assert_eq!(found(&client, &map), [Some(1), Some(2), Some(30)]);
    // Removed while they are left out: that is told.
    server.remove_one::<Secret>(entities[0]).unwrap();
    assert_eq!(step(&server, &mut client, &mut map), 1);
    assert_eq!(found(&client, &map), [None, Some(2), Some(30)]);
    server.get::<&mut Secret>(entities[1]).unwrap().0 = 20;
    assert_eq!(step(&server, &mut client, &mut map), 0);
    assert_eq!(found(&client, &map), [None, Some(20), Some(30)]);
    server.remove_one::<Secret>(entities[1]).unwrap();
    step(&server, &mut client, &mut map);
    assert_eq!(found(&client, &map), [None, None, Some(30)]);
}

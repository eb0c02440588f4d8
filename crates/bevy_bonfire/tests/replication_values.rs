//! Values that are out of the ordinary, told to a mirror: more components than are told apart, ids inside of opaque values, fields of
//! relationships that do not persist, values that their codec leaves out.

mod common;

use bevy_app::App;
use bevy_bonfire::replication::{
    ReplicateExt, Replicated, ReplicationClient, ReplicationClientPlugin, ReplicationServer,
    ReplicationServerPlugin, TwoApps,
};
use bevy_bonfire::{Descriptor, Error, LoadContext, Persist, PersistExt};
use bevy_ecs::prelude::*;
use serde::{Deserialize, Serialize};

macro_rules! components {
    ($($name:ident $key:literal),*) => {
        $(
            #[derive(Component, Persist, Clone, Debug, Default, PartialEq)]
            #[persist(key = $key)]
            struct $name(u32);
        )*

        fn setup_many(app: &mut App) {
            $(app.persist::<$name>().replicate::<$name>();)*
        }

        fn spawn_many(world: &mut World) -> Entity {
            let entity = world.spawn(Replicated).id();
            $(world.entity_mut(entity).insert($name(1));)*
            entity
        }
    };
}

components! {
    C0 "test.c0", C1 "test.c1", C2 "test.c2", C3 "test.c3", C4 "test.c4", C5 "test.c5",
    C6 "test.c6", C7 "test.c7", C8 "test.c8", C9 "test.c9", C10 "test.c10", C11 "test.c11",
    C12 "test.c12", C13 "test.c13", C14 "test.c14", C15 "test.c15", C16 "test.c16", C17 "test.c17",
    C18 "test.c18", C19 "test.c19", C20 "test.c20", C21 "test.c21", C22 "test.c22", C23 "test.c23",
    C24 "test.c24", C25 "test.c25", C26 "test.c26", C27 "test.c27", C28 "test.c28", C29 "test.c29",
    C30 "test.c30", C31 "test.c31", C32 "test.c32", C33 "test.c33", C34 "test.c34", C35 "test.c35",
    C36 "test.c36", C37 "test.c37", C38 "test.c38", C39 "test.c39", C40 "test.c40", C41 "test.c41",
    C42 "test.c42", C43 "test.c43", C44 "test.c44", C45 "test.c45", C46 "test.c46", C47 "test.c47",
    C48 "test.c48", C49 "test.c49", C50 "test.c50", C51 "test.c51", C52 "test.c52", C53 "test.c53",
    C54 "test.c54", C55 "test.c55", C56 "test.c56", C57 "test.c57", C58 "test.c58", C59 "test.c59",
    C60 "test.c60", C61 "test.c61", C62 "test.c62", C63 "test.c63", C64 "test.c64", C65 "test.c65",
    C66 "test.c66", C67 "test.c67", C68 "test.c68", C69 "test.c69", C70 "test.c70", C71 "test.c71",
    C72 "test.c72", C73 "test.c73", C74 "test.c74", C75 "test.c75", C76 "test.c76", C77 "test.c77",
    C78 "test.c78", C79 "test.c79", C80 "test.c80", C81 "test.c81", C82 "test.c82", C83 "test.c83",
    C84 "test.c84", C85 "test.c85", C86 "test.c86", C87 "test.c87", C88 "test.c88", C89 "test.c89",
    C90 "test.c90", C91 "test.c91", C92 "test.c92", C93 "test.c93", C94 "test.c94", C95 "test.c95",
    C96 "test.c96", C97 "test.c97", C98 "test.c98", C99 "test.c99", C100 "test.c100", C101 "test.c101",
    C102 "test.c102", C103 "test.c103", C104 "test.c104", C105 "test.c105", C106 "test.c106", C107 "test.c107",
    C108 "test.c108", C109 "test.c109", C110 "test.c110", C111 "test.c111", C112 "test.c112", C113 "test.c113",
    C114 "test.c114", C115 "test.c115", C116 "test.c116", C117 "test.c117", C118 "test.c118", C119 "test.c119",
    C120 "test.c120", C121 "test.c121", C122 "test.c122", C123 "test.c123", C124 "test.c124", C125 "test.c125",
    C126 "test.c126", C127 "test.c127", C128 "test.c128", C129 "test.c129"
}

fn here(apps: &TwoApps, entity: Entity) -> Entity {
    apps.client.world().resource::<ReplicationClient>().entity(entity).expect("it was told of")
}

#[test]
fn more_components_than_are_told_apart() {
    let mut apps = TwoApps::new(setup_many);
    let many: Vec<Entity> = (0..3).map(|_| spawn_many(apps.server.world_mut())).collect();
    apps.update();
    apps.assert_in_sync();
    // The first one, the last that is told apart, and those beyond.
    for turn in 2..5 {
        let world = apps.server.world_mut();
        world.get_mut::<C0>(many[0]).unwrap().0 = turn;
        world.get_mut::<C127>(many[1]).unwrap().0 = turn;
        world.get_mut::<C128>(many[2]).unwrap().0 = turn;
        world.get_mut::<C129>(many[0]).unwrap().0 = turn;
        apps.update();
        apps.assert_in_sync();
        let found = apps.client.world().get::<C129>(here(&apps, many[0]));
        assert_eq!(found, Some(&C129(turn)));
    }
    apps.server.world_mut().entity_mut(many[1]).remove::<(C3, C129)>();
    apps.update();
    apps.assert_in_sync();
}

/// Its codec does not know that there is an id in it.
#[derive(Component, Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Opaque {
    bits: u64,
}

#[test]
fn an_id_inside_of_an_opaque_value_is_not_mapped() {
    let mut apps = TwoApps::new(|app| {
        app.persist_serde::<Opaque>("test.opaque").replicate::<Opaque>();
    });
    // So that ids are others here and there.
    apps.client.world_mut().spawn_batch((0..10).map(|_| ()));
    let target = apps.server.world_mut().spawn(Replicated).id();
    let opaque = Opaque { bits: target.to_bits() };
    let ship = apps.server.world_mut().spawn((opaque.clone(), Replicated)).id();
    apps.update();
    apps.assert_in_sync();
    assert_ne!(here(&apps, target), target);
    assert_eq!(apps.client.world().get::<Opaque>(here(&apps, ship)), Some(&opaque));
}

#[derive(Component, Persist, Clone, Debug, PartialEq)]
#[relationship(relationship_target = Crew)]
#[persist(key = "test.aboard")]
struct Aboard {
    #[relationship]
    ship: Entity,
    rank: u8,
    #[persist(skip, default = 7)]
    seat: u8,
}

#[derive(Component, Debug, Default)]
#[relationship_target(relationship = Aboard)]
struct Crew(Vec<Entity>);

#[test]
fn fields_of_relationships_that_do_not_persist_are_their_defaults() {
    let mut apps = TwoApps::new(|app| {
        app.persist_relationship::<Aboard>().replicate::<Aboard>();
    });
    let world = apps.server.world_mut();
    let ship = world.spawn(Replicated).id();
    let sailor = world.spawn((Aboard { ship, rank: 1, seat: 3 }, Replicated)).id();
    apps.update();
    let expected = Aboard { ship: here(&apps, ship), rank: 1, seat: 7 };
    assert_eq!(apps.client.world().get::<Aboard>(here(&apps, sailor)), Some(&expected));
    assert_eq!(apps.client.world().get::<Crew>(here(&apps, ship)).unwrap().0, [here(&apps, sailor)]);
    // Another ship, with another value of what does not persist.
    let other = apps.server.world_mut().spawn(Replicated).id();
    apps.server.world_mut().entity_mut(sailor).insert(Aboard { ship: other, rank: 2, seat: 9 });
    apps.update();
    let expected = Aboard { ship: here(&apps, other), rank: 2, seat: 7 };
    assert_eq!(apps.client.world().get::<Aboard>(here(&apps, sailor)), Some(&expected));
    assert!(apps.client.world().get::<Crew>(here(&apps, ship)).is_none());
}

#[derive(Component, Clone, Copy, Debug, PartialEq)]
struct Secret(u32);

/// Both ways to find changes: by ticks and by comparison.
fn each_server(setup: impl Fn(&mut App) + Copy, test: impl Fn(TwoApps)) {
    for server in [ReplicationServerPlugin::new(), ReplicationServerPlugin::new().exact()] {
        test(TwoApps::with(server, ReplicationClientPlugin::new(), setup));
    }
}

fn setup_secrets(app: &mut App) {
    let told = |secret: &Secret, _: &bevy_bonfire::core::SaveContext<'_>| match secret.0 {
        0 => Ok(None),
        13 => Err(Error::misuse("thirteen is not told")),
        number => Ok(Some(number)),
    };
    let read = |value: u32, _: &LoadContext<'_>| Ok(Some(Secret(value)));
    app.replicate_as::<Secret>(Descriptor::custom("test.secret", told, read));
}

fn secrets(apps: &TwoApps, all: &[Entity]) -> Vec<Option<u32>> {
    let secret =
        |entity: &Entity| apps.client.world().get::<Secret>(here(apps, *entity)).map(|secret| secret.0);
    all.iter().map(secret).collect()
}

fn set_secrets(apps: &mut TwoApps, all: &[Entity], values: impl IntoIterator<Item = u32>) {
    for (entity, value) in all.iter().zip(values) {
        apps.server.world_mut().get_mut::<Secret>(*entity).unwrap().0 = value;
    }
    apps.update();
}

#[test]
fn mirrors_keep_values_that_their_codec_leaves_out() {
    each_server(setup_secrets, |mut apps| {
        let world = apps.server.world_mut();
        let all: Vec<Entity> = (1..4).map(|number| world.spawn((Secret(number), Replicated)).id()).collect();
        apps.update();
        assert_eq!(secrets(&apps, &all), [Some(1), Some(2), Some(3)]);
        set_secrets(&mut apps, &all, [10, 0, 30]);
        assert_eq!(secrets(&apps, &all), [Some(10), Some(2), Some(30)]);
        set_secrets(&mut apps, &all, [0, 0, 0]);
        assert_eq!(secrets(&apps, &all), [Some(10), Some(2), Some(30)]);
        assert!(apps.server.world().resource::<ReplicationServer>().notes().is_empty());
        // Removed while it is left out: that is told.
        apps.server.world_mut().entity_mut(all[1]).remove::<Secret>();
        apps.update();
        assert_eq!(secrets(&apps, &all), [Some(10), None, Some(30)]);
        set_secrets(&mut apps, &all[..1], [11]);
        apps.server.world_mut().entity_mut(all[1]).insert(Secret(20));
        apps.server.world_mut().despawn(all[2]);
        apps.update();
        assert_eq!(secrets(&apps, &all[..2]), [Some(11), Some(20)]);
        apps.assert_in_sync();
    });
}

#[test]
fn a_value_that_cannot_be_encoded_is_skipped_and_the_rest_goes_on() {
    each_server(setup_secrets, |mut apps| {
        let world = apps.server.world_mut();
        let all: Vec<Entity> = (1..4).map(|number| world.spawn((Secret(number), Replicated)).id()).collect();
        apps.update();
        for value in [21, 31] {
            set_secrets(&mut apps, &all, [value, 13, value + 1]);
            assert_eq!(secrets(&apps, &all), [Some(value), Some(2), Some(value + 1)]);
            let server = apps.server.world().resource::<ReplicationServer>();
            assert!(server.error().is_none());
            let [note] = server.notes() else { panic!("{:?}", server.notes()) };
            assert_eq!((note.key.as_str(), note.count), ("test.secret", 1));
            assert!(note.remark.contains("thirteen is not told"), "{note}");
        }
        // A client that comes now gets the rest.
        apps.lose(1);
        set_secrets(&mut apps, &all, [41, 13, 42]);
        for _ in 0..3 {
            apps.update();
        }
        assert_eq!(secrets(&apps, &all)[0], Some(41));
        set_secrets(&mut apps, &all, [1, 2, 3]);
        assert_eq!(secrets(&apps, &all), [Some(1), Some(2), Some(3)]);
        assert!(apps.server.world().resource::<ReplicationServer>().notes().is_empty());
        apps.assert_in_sync();
    });
}

//! Stable ids and indexes of a world that follows another one.

mod common;

use bevy_app::App;
use bevy_bonfire::replication::{ReplicateExt, Replicated, ReplicationClient, TwoApps};
use bevy_bonfire::{Index, PersistExt, StableId, StableIds};
use bevy_ecs::prelude::*;
use common::*;

fn setup(app: &mut App) {
    register(app.world_mut(), false);
    app.index_by(|name: &Name| name.to_string());
    app.replicate::<StableId>().replicate::<Name>().replicate::<Position>();
}

fn by_name(app: &App, name: &str) -> Option<Entity> {
    app.world().resource::<Index<Name, String>>().one(&name.to_owned())
}

#[test]
fn stable_ids_and_indexes_follow_what_is_mirrored() {
    let mut apps = TwoApps::new(setup);
    let id = StableId::new();
    let wolf = apps.server.world_mut().spawn((id, Name::new("Wolf"), Position::default(), Replicated)).id();
    apps.update();
    let here = apps.client.world().resource::<ReplicationClient>().entity(wolf).unwrap();
    assert_eq!(apps.client.world().resource::<StableIds>().get(id), Some(here));
    assert_eq!(by_name(&apps.client, "Wolf"), Some(here));

    // Other values, in place or not, are found under their new names.
    apps.server.world_mut().entity_mut(wolf).insert(Name::new("Fenrir"));
    apps.server.world_mut().get_mut::<Position>(wolf).unwrap().x = 1.0;
    apps.update();
    assert_eq!((by_name(&apps.client, "Wolf"), by_name(&apps.client, "Fenrir")), (None, Some(here)));
    apps.server.world_mut().get_mut::<Name>(wolf).unwrap().set("Garm");
    apps.update();
    assert_eq!((by_name(&apps.client, "Fenrir"), by_name(&apps.client, "Garm")), (None, Some(here)));

    // A baseline changes nothing about it, and what goes drops out.
    apps.server
        .world_mut()
        .resource_mut::<bevy_bonfire::replication::ReplicationServer>()
        .connect(bevy_bonfire::replication::ClientId(1));
    apps.update();
    assert_eq!(apps.client.world().resource::<StableIds>().get(id), Some(here));
    assert_eq!(by_name(&apps.client, "Garm"), Some(here));
    apps.server.world_mut().despawn(wolf);
    apps.update();
    assert_eq!(apps.client.world().resource::<StableIds>().get(id), None);
    assert_eq!(by_name(&apps.client, "Garm"), None);
    apps.assert_in_sync();
}

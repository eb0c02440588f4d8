//! A server and a client in one process, for tests of games.

use std::collections::HashMap;

use bevy_app::App;
use bonfire::{Delta, EntityId, EntityMap, Result, Snapshot};

use super::{
    ClientId, ReplicationClient, ReplicationClientPlugin, ReplicationServer, ReplicationServerPlugin,
};
use crate::DeltaCapture;

/// A server and a client without a network between them: what one says, the other hears in the same update.
///
/// ```
/// # use bevy_ecs::prelude::*;
/// use bevy_bonfire::{Replicated, ReplicateExt, TwoApps, prelude::*};
///
/// #[derive(Component, Persist)]
/// #[persist(key = "game.health")]
/// struct Health(f32);
///
/// let mut apps = TwoApps::new(|app| {
///     app.persist::<Health>().replicate::<Health>();
/// });
/// apps.server.world_mut().spawn((Health(3.0), Replicated));
/// apps.update();
/// assert_eq!(apps.client.world_mut().query::<&Health>().single(apps.client.world()).unwrap().0, 3.0);
/// apps.assert_in_sync();
/// ```
pub struct TwoApps {
    /// The side that is followed.
    pub server: App,
    /// The side that follows.
    pub client: App,
    lost: usize,
}

impl TwoApps {
    const CLIENT: ClientId = ClientId(1);

    /// Two apps with the plugins of this crate, each set up by `setup`, which registers what is replicated.
    pub fn new(setup: impl Fn(&mut App)) -> Self {
        Self::with(ReplicationServerPlugin::new(), ReplicationClientPlugin::new(), setup)
    }

    /// As [`TwoApps::new`], with choices.
    pub fn with(
        server_plugin: ReplicationServerPlugin,
        client_plugin: ReplicationClientPlugin,
        setup: impl Fn(&mut App),
    ) -> Self {
        let (mut server, mut client) = (App::new(), App::new());
        server.add_plugins(server_plugin);
        client.add_plugins(client_plugin);
        setup(&mut server);
        setup(&mut client);
        server.world_mut().resource_mut::<ReplicationServer>().connect(Self::CLIENT);
        Self { server, client, lost: 0 }
    }

    /// One frame of the server, all messages, one frame of the client, and what it has to say.
    pub fn update(&mut self) {
        self.server.update();
        for (_, message) in self.server.world_mut().resource_mut::<ReplicationServer>().take_messages() {
            if self.lost > 0 {
                self.lost -= 1;
                continue;
            }
            self.client.world_mut().resource_mut::<ReplicationClient>().receive(message);
        }
        self.client.update();
        for message in self.client.world_mut().resource_mut::<ReplicationClient>().take_messages() {
            let mut server = self.server.world_mut().resource_mut::<ReplicationServer>();
            if let Err(error) = server.receive(Self::CLIENT, &message) {
                log::error!("the server does not understand its client: {error}");
            }
        }
    }

    /// Loses the next messages of the server.
    pub fn lose(&mut self, messages: usize) {
        self.lost += messages;
    }

    /// What is different between what the server tells and what the client has; `None` if nothing is. Entities are the same
    /// if the client has mapped them to each other.
    pub fn difference(&mut self) -> Result<Option<String>> {
        let told = DeltaCapture::of_replication().baseline(self.server.world_mut())?;
        let had = DeltaCapture::of_mirror().baseline(self.client.world_mut())?;
        let client = self.client.world().resource::<ReplicationClient>();
        let remote: HashMap<EntityId, EntityId> = client
            .map()
            .into_iter()
            .flat_map(EntityMap::iter)
            .map(|(remote, local)| (local, remote))
            .collect();
        let world = |whole: Delta| Snapshot::default().with_delta(&whole.for_mirrors());
        let server = world(told)?.canonical_by(|id| id)?;
        let client = world(had)?.canonical_by(|id| remote.get(&id).copied().unwrap_or(EntityId::NULL))?;
        if server.content_hash()? == client.content_hash()? {
            return Ok(None);
        }
        Ok(Some(format!("the server has {}\nthe client has {}", summary(&server), summary(&client))))
    }

    /// Panics if the client does not have what the server tells.
    #[track_caller]
    pub fn assert_in_sync(&mut self) {
        match self.difference() {
            Ok(None) => {}
            Ok(Some(difference)) => panic!("the worlds are not the same:\n{difference}"),
            Err(error) => panic!("the worlds cannot be compared: {error}"),
        }
    }
}

fn summary(snapshot: &Snapshot) -> String {
    let mut text = format!("{} entities", snapshot.entity_count());
    for archetype in snapshot.archetypes() {
        for column in archetype.columns() {
            let values = column.values(&bonfire::Limits::default());
            let values = values.map_or_else(|error| error.to_string(), |values| format!("{values:?}"));
            text.push_str(&format!("\n  {}: {values}", column.component().key));
        }
    }
    text
}

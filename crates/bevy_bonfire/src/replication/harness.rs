//! A server and a client in one process, for tests of games.

use std::collections::BTreeMap;

use bevy_app::App;
use bevy_ecs::archetype::Archetype;
use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;
use bonfire::{Result, Snapshot};

use super::{
    ClientId, Mirrored, ReplicationClient, ReplicationClientPlugin, ReplicationRegistry, ReplicationServer,
    ReplicationServerPlugin,
};
use crate::DeltaCapture;
use crate::capture::Sources;

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

    /// What is different between what the server tells and what the client has; `None` if nothing is. References to entities
    /// that are not replicated are null at the client, and so count as different.
    pub fn difference(&mut self) -> Result<Option<String>> {
        let world = |deltas: DeltaCapture, app: &mut App| -> Result<Snapshot> {
            let mut deltas = deltas;
            let whole = deltas.baseline(app.world_mut())?;
            Snapshot::default().with_delta(&whole.for_mirrors().without_lists())?.canonical_sorted()
        };
        let server = world(DeltaCapture::of_replication(), &mut self.server)?;
        let client = world(DeltaCapture::of_mirror(), &mut self.client)?;
        if server.content_hash()? != client.content_hash()? {
            let (server, client) = (summary(&server), summary(&client));
            return Ok(Some(format!("the server has {server}\nthe client has {client}")));
        }
        let local = self.client.world().resource::<ReplicationClient>();
        let server = lists(self.server.world(), |entity| local.entity(entity));
        let world = self.client.world();
        let client = lists(world, |entity| world.get::<Mirrored>(entity).map(|_| entity));
        let differing = server.iter().find(|(target, sources)| client.get(*target) != Some(*sources));
        Ok(differing.map(|((key, target), sources)| {
            let here = client.get(&(key.clone(), *target));
            format!("`{key}` of {target}: the server has {sources:?}, the client {here:?}")
        }))
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

/// The sources of all targets in their order, by relationship and target: as the client knows those that it knows.
fn lists(world: &World, local: impl Fn(Entity) -> Option<Entity>) -> BTreeMap<(String, Entity), Vec<Entity>> {
    let mut lists: BTreeMap<(String, Entity), Vec<Entity>> = BTreeMap::new();
    let Some(registry) = world.get_resource::<ReplicationRegistry>().map(ReplicationRegistry::registered)
    else {
        return lists;
    };
    for (entry, descriptor) in registry.entries.iter().zip(registry.registry.descriptors()) {
        let Some(relation) = entry.relation else { continue };
        let Some(sources) = Sources::of(world, relation.targets) else { continue };
        let archetypes = world.archetypes().iter().filter(|archetype| archetype.contains(relation.targets));
        for target in archetypes.flat_map(Archetype::entities) {
            let Some(here) = local(target.id()) else { continue };
            let mut list = Vec::new();
            sources.for_each(target.id(), |source| list.extend(local(source)));
            if list.len() > 1 {
                lists.insert((descriptor.key().to_owned(), here), list);
            }
        }
    }
    lists
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

//! A server and a client in one process, for tests of games.

use std::collections::{BTreeMap, HashMap};

use bevy_app::App;
use bevy_ecs::component::Component;
use bevy_ecs::entity::Entity;
use bevy_ecs::query::With;
use bevy_ecs::world::World;
use bonfire::engine::{DeltaOp, EntityMap};
use bonfire::{Delta, EntityId, Limits, Result, Snapshot};

use super::{
    ClientId, ReplicationClient, ReplicationClientPlugin, ReplicationServer, ReplicationServerPlugin,
};
use crate::delta::{DeltaCapture, Mirrored, Replicated, ReplicationRegistry};
use crate::registry::RelationshipSources;

/// A server and a client without a network between them: what one says, the other hears in the same update.
///
/// ```
/// # use bevy_ecs::prelude::*;
/// use bevy_bonfire::replication::{ReplicateExt, Replicated, TwoApps};
/// use bevy_bonfire::prelude::*;
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
            let mut client = self.client.world_mut().resource_mut::<ReplicationClient>();
            if let Err(error) = client.receive(message) {
                log::error!("the client has no room for a message: {error}");
            }
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
    /// if the client has mapped them to each other. References to entities that are not replicated are null at the client, and so count
    /// as different.
    pub fn difference(&mut self) -> Result<Option<String>> {
        let schema = DeltaCapture::of_replication().schema(self.server.world_mut())?;
        let told = DeltaCapture::of_replication().baseline(self.server.world_mut())?;
        let had = DeltaCapture::of_mirror().baseline(self.client.world_mut())?;
        let client = self.client.world().resource::<ReplicationClient>();
        let mapped = client.map().into_iter().flat_map(EntityMap::iter);
        let remote: HashMap<EntityId, EntityId> = mapped.map(|(remote, local)| (local, remote)).collect();
        let remote = |local: EntityId| remote.get(&local).copied().unwrap_or(EntityId::NULL);

        let world = |whole: Delta| Snapshot::default().with_delta(&whole.for_mirrors());
        let (server, client) = (world(told)?.canonical_by(|id| id)?, world(had)?.canonical_by(remote)?);
        let mut found = differences(&Delta::between(&schema, &client, &server, 0, 1)?);
        let told = lists::<Replicated>(self.server.world_mut(), |id| id);
        let had = lists::<Mirrored>(self.client.world_mut(), remote);
        for (list, sources) in &told {
            if had.get(list) != Some(sources) {
                found.push(format!("the order of `{}` of {} is another one", list.0, list.1));
            }
        }
        Ok((!found.is_empty()).then(|| found.join("\n")))
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

/// What a client would have to be told. Entities are counted here in the order of their ids.
fn differences(delta: &Delta) -> Vec<String> {
    let mut found = Vec::new();
    if !delta.despawned().is_empty() {
        found.push(format!("{} entities are only on the client", delta.despawned().len()));
    }
    for group in delta.groups() {
        let count = group.ids().len();
        let keys: Vec<&str> = group.changes().map(|change| &*change.component.key).collect();
        if group.spawned() {
            found.push(format!("{count} entities with {keys:?} are only on the server"));
            continue;
        }
        for change in group.changes() {
            let what = match change.op {
                DeltaOp::Removed => "is only on the client".to_owned(),
                DeltaOp::Added => "is only on the server".to_owned(),
                DeltaOp::Changed => match change.values(&Limits::default()) {
                    Ok(Some(values)) => {
                        format!("is {:?} on the server", values.first().and_then(Option::as_ref))
                    }
                    _ => "is another one".to_owned(),
                },
            };
            found.push(format!("`{}` of {count} entities {what}", change.component.key));
        }
    }
    found.extend(delta.resources().map(|(key, _)| format!("the resource `{key}` is another one")));
    found
}

/// RelationshipSources by relationship and target.
type Lists = BTreeMap<(String, EntityId), Vec<EntityId>>;

/// The order of the sources that one side has, by the ids of the server.
fn lists<Mark: Component>(world: &mut World, id: impl Fn(EntityId) -> EntityId) -> Lists {
    let registry = ReplicationRegistry::of(world);
    let mut lists = Lists::new();
    for (number, entry) in registry.entries.iter().enumerate() {
        let Some(relation) = entry.relation else { continue };
        let marked = world.query_filtered::<Entity, With<Mark>>();
        let Some(sources) = RelationshipSources::of(world, relation.targets) else { continue };
        for target in marked.iter_manual(world) {
            let mut list = Vec::new();
            sources.for_each(target, |source| {
                list.extend(world.get::<Mark>(source).map(|_| id(source.into())));
            });
            if list.len() > 1 {
                let key = registry.core.descriptors()[number].key().to_owned();
                lists.insert((key, id(target.into())), list);
            }
        }
    }
    lists
}

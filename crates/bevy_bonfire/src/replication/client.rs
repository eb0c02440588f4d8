//! The side that follows.

use bevy_app::{App, First, Plugin};
use bevy_ecs::entity::Entity;
use bevy_ecs::event::Event;
use bevy_ecs::resource::Resource;
use bevy_ecs::schedule::IntoScheduleConfigs;
use bevy_ecs::world::{Mut, World};
use bonfire::engine::EntityMap;
use bonfire::{EntityId, Error, Limits, Result};
use bonfire_sync::{Applied, Inbox, InboxLimits, MessageLimits, Receiver, mirror_limits};
use bytes::Bytes;

use super::endpoints::CachedSchema;
use super::{ReplicationSystems, WorldMirror};
use crate::delta::ReplicationRegistry;

/// Lets the world of an app follow that of a server. Entities of the server appear with [`Mirrored`](crate::replication::Mirrored); the app's own are
/// left alone. Register the same components with [`ReplicateExt::replicate`](crate::replication::ReplicateExt::replicate) as the server.
///
/// There is no socket in it. The game carries messages: see [`ReplicationClient`].
#[derive(Clone, Debug)]
pub struct ReplicationClientPlugin {
    limits: Limits,
    messages: MessageLimits,
    inbox: InboxLimits,
}

impl Default for ReplicationClientPlugin {
    fn default() -> Self {
        Self { limits: mirror_limits(), messages: MessageLimits::default(), inbox: InboxLimits::default() }
    }
}

impl ReplicationClientPlugin {
    /// With [`mirror_limits`](crate::sync::mirror_limits): 1,048,576 mirrored entities, messages of 64 MiB, 256 MiB of decoded
    /// values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits what messages may cost. [`entities_max`](Limits::entities_max) counts mirrored entities, message after message.
    pub fn limits(mut self, limits: Limits, messages: MessageLimits) -> Self {
        (self.limits, self.messages) = (limits, messages);
        self
    }

    /// Limits how many messages may wait, and how much of them one frame applies.
    pub fn inbox(mut self, limits: InboxLimits) -> Self {
        self.inbox = limits;
        self
    }
}

impl Plugin for ReplicationClientPlugin {
    fn build(&self, app: &mut App) {
        ReplicationRegistry::of(app.world_mut());
        app.insert_resource(ReplicationClient {
            limits: self.limits.clone(),
            messages: self.messages.clone(),
            receiver: None,
            schema: None,
            inbox: Inbox::new(self.inbox.clone()),
            outbox: Vec::new(),
        });
        app.add_systems(First, receive.in_set(ReplicationSystems::Receive));
    }
}

/// A message was applied, or need not be.
#[derive(Event, Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MessageApplied {
    /// What became of it.
    pub applied: Applied,
    /// The tick that the world follows now.
    pub tick: Option<u64>,
}

/// A message was refused: it is damaged, over a limit, or of a server with other components. The world is as it was.
#[derive(Event, Clone, Debug)]
#[non_exhaustive]
pub struct MessageRefused {
    /// Why.
    pub error: Error,
}

/// What has arrived and what a client has to say.
///
/// ```
/// # use bevy_app::App;
/// # use bevy_bonfire::replication::{ReplicationClient, ReplicationClientPlugin};
/// # let mut app = App::new();
/// # app.add_plugins(ReplicationClientPlugin::new());
/// # let (message, send) = (bytes::Bytes::new(), |_: bytes::Bytes| {});
/// // A message has arrived:
/// app.world_mut().resource_mut::<ReplicationClient>().receive(message)?;
/// // In every frame:
/// app.update();
/// app.world_mut().resource_mut::<ReplicationClient>().take_messages().into_iter().for_each(send);
/// # Ok::<(), bevy_bonfire::Error>(())
/// ```
#[derive(Resource)]
pub struct ReplicationClient {
    limits: Limits,
    messages: MessageLimits,
    receiver: Option<Receiver>,
    schema: Option<CachedSchema>,
    inbox: Inbox,
    outbox: Vec<Bytes>,
}

impl ReplicationClient {
    /// Takes a message of the server. It is applied at the start of the next frame, or of a later one if many wait.
    ///
    /// Fails with [`is_limit`](Error::is_limit) if too many wait: the message is dropped, and the client asks for it when it has
    /// applied the others.
    pub fn receive(&mut self, message: Bytes) -> Result<()> {
        self.inbox.receive(message)
    }

    /// What the server must be told.
    pub fn take_messages(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.outbox)
    }

    /// The tick of the server that this world is at.
    pub fn tick(&self) -> Option<u64> {
        self.receiver.as_ref().and_then(Receiver::tick)
    }

    /// What an entity of the server is here.
    pub fn entity(&self, remote: impl Into<EntityId>) -> Option<Entity> {
        self.receiver.as_ref()?.entity(remote.into()).map(Entity::from)
    }

    /// Which entity of the server this is. Looks at all of them.
    pub fn remote(&self, local: Entity) -> Option<EntityId> {
        self.receiver.as_ref()?.remote(local.into())
    }

    /// Entities of the server and what they are here; `None` before the first message.
    pub(super) fn map(&self) -> Option<&EntityMap> {
        self.receiver.as_ref().map(Receiver::map)
    }

    /// Asks the server for everything that is missing, at the start of the next frame: when a connection that was lost is there again,
    /// for example.
    pub fn ask(&mut self) {
        self.inbox.ask();
    }

    /// Calls `work` with what follows, and with the world as a mirror.
    fn with_receiver<T>(
        &mut self,
        world: &mut World,
        work: impl FnOnce(&mut Inbox, &mut Receiver, &mut WorldMirror<'_>) -> T,
    ) -> T {
        let mut mirror = WorldMirror::with_schema(world, &mut self.schema, &self.limits);
        let (table, limits, messages) = (mirror.table().clone(), &self.limits, &self.messages);
        let receiver = self
            .receiver
            .get_or_insert_with(|| Receiver::with_limits(table, limits.clone(), messages.clone()));
        if receiver.table().fingerprint() != mirror.table().fingerprint() {
            // Somebody has registered more since.
            receiver.set_table(mirror.table().clone());
        }
        work(&mut self.inbox, receiver, &mut mirror)
    }
}

/// Applies what has arrived, up to the limits of a frame.
fn receive(world: &mut World) {
    let mut client = world.resource_mut::<ReplicationClient>();
    client.inbox.begin_frame();
    // Observers may bring more, which is for the next frame.
    let waiting = client.inbox.len();
    for _ in 0..waiting {
        let result = world.resource_scope(|world, mut client: Mut<ReplicationClient>| {
            let applied =
                client.with_receiver(world, |inbox, receiver, mirror| inbox.apply_next(receiver, mirror))?;
            Some((applied, client.tick()))
        });
        match result {
            Some((Ok(applied), tick)) => world.trigger(MessageApplied { applied, tick }),
            Some((Err(error), _)) => {
                log::warn!("a message of the server was refused: {error}");
                world.trigger(MessageRefused { error });
            }
            None => break,
        }
    }
    world.resource_scope(|world, mut client: Mut<ReplicationClient>| {
        if client.inbox.has_request() {
            let request = client.with_receiver(world, |inbox, receiver, _| inbox.take_request(receiver));
            // It has no payload that could be too long.
            client.outbox.extend(request.ok().flatten());
        }
    });
    world.flush();
}

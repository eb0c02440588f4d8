//! The side that follows.

use std::collections::VecDeque;

use bevy_app::{App, First, Plugin};
use bevy_ecs::entity::Entity;
use bevy_ecs::event::Event;
use bevy_ecs::resource::Resource;
use bevy_ecs::schedule::IntoScheduleConfigs;
use bevy_ecs::world::{Mut, World};
use bonfire::engine::EntityMap;
use bonfire::{EntityId, Error, Limits};
use bonfire_sync::{Applied, MessageLimits, Receiver};
use bytes::Bytes;

use super::endpoints::CachedSchema;
use super::{ReplicationSystems, WorldMirror};
use crate::delta::ReplicationRegistry;

/// Lets the world of an app follow that of a server. Entities of the server appear with [`Mirrored`](crate::replication::Mirrored); the app's own are
/// left alone. Register the same components with [`ReplicateExt::replicate`](crate::replication::ReplicateExt::replicate) as the server.
///
/// There is no socket in it. The game carries messages: see [`ReplicationClient`].
#[derive(Clone, Debug, Default)]
pub struct ReplicationClientPlugin {
    limits: Limits,
    messages: MessageLimits,
}

impl ReplicationClientPlugin {
    /// With default limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// What messages may cost.
    pub fn limits(mut self, limits: Limits, messages: MessageLimits) -> Self {
        (self.limits, self.messages) = (limits, messages);
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
            inbox: VecDeque::new(),
            outbox: Vec::new(),
            asks: false,
            unanswered: None,
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

/// A message was refused: it is damaged, or of a server with other components. The world is as it was.
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
/// app.world_mut().resource_mut::<ReplicationClient>().receive(message);
/// // In every frame:
/// app.update();
/// app.world_mut().resource_mut::<ReplicationClient>().take_messages().into_iter().for_each(send);
/// ```
#[derive(Resource)]
pub struct ReplicationClient {
    limits: Limits,
    messages: MessageLimits,
    receiver: Option<Receiver>,
    schema: Option<CachedSchema>,
    inbox: VecDeque<Bytes>,
    outbox: Vec<Bytes>,
    asks: bool,
    /// How many messages could not be applied since a baseline was asked for.
    unanswered: Option<u32>,
}

/// A request may be lost: it is made again when so many more messages could not be applied.
const ASK_AGAIN: u32 = 64;

impl ReplicationClient {
    /// Takes a message of the server. It is applied at the start of the next frame.
    pub fn receive(&mut self, message: Bytes) {
        self.inbox.push_back(message);
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
        self.asks = true;
    }

    /// The world as a mirror, and what follows it.
    fn receiver<'w>(&mut self, world: &'w mut World) -> (&mut Receiver, WorldMirror<'w>) {
        let mirror = WorldMirror::with_schema(world, &mut self.schema, &self.limits);
        let (table, limits, messages) = (mirror.table().clone(), &self.limits, &self.messages);
        let receiver = self
            .receiver
            .get_or_insert_with(|| Receiver::with_limits(table, limits.clone(), messages.clone()));
        if receiver.table().fingerprint() != mirror.table().fingerprint() {
            // Somebody has registered more since.
            receiver.set_table(mirror.table().clone());
        }
        (receiver, mirror)
    }

    fn send_request(&mut self, world: &mut World) {
        let request = self.receiver(world).0.request();
        // It has no payload that could be too long.
        self.outbox.extend(request.encode());
        (self.asks, self.unanswered) = (false, Some(0));
    }

    fn step(&mut self, world: &mut World, message: &Bytes) -> Result<Applied, Error> {
        let (receiver, mut mirror) = self.receiver(world);
        let applied = receiver.apply(&mut mirror, message);
        let is_poisoned = receiver.is_poisoned();
        let lost = match &applied {
            Ok(Applied::Baseline | Applied::Delta) => {
                self.unanswered = None;
                false
            }
            Ok(Applied::Skipped) => false,
            Ok(Applied::NeedBaseline(_)) => true,
            Err(_) => is_poisoned,
        };
        if lost {
            match &mut self.unanswered {
                Some(count) if *count < ASK_AGAIN => *count += 1,
                _ => self.send_request(world),
            }
        }
        applied
    }
}

/// Applies what has arrived.
fn receive(world: &mut World) {
    let waiting = world.resource::<ReplicationClient>().inbox.len();
    // Observers may bring more, which is for the next frame.
    for _ in 0..waiting {
        let result = world.resource_scope(|world, mut client: Mut<ReplicationClient>| {
            let message = client.inbox.pop_front()?;
            let applied = client.step(world, &message);
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
        if client.asks {
            client.send_request(world);
        }
    });
    world.flush();
}

//! The side that is followed.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Mutex;

use bevy_app::{App, Last, Plugin};
use bevy_ecs::event::Event;
use bevy_ecs::resource::Resource;
use bevy_ecs::schedule::IntoScheduleConfigs;
use bevy_ecs::world::{Mut, World};
use bonfire::{Error, Granularity, Note, Result};
use bonfire_sync::{Answer, ClientId, MessageCompression, StreamOptions, StreamServer};
use bytes::Bytes;

use super::{ReplicationSystems, WorldSource};
use crate::delta::{DeltaCapture, ReplicationRegistry};
use crate::live::SaveSystems;

/// Lets clients follow the world of an app: entities with [`Replicated`](crate::replication::Replicated), and what was registered with
/// [`ReplicateExt::replicate`](crate::replication::ReplicateExt::replicate).
///
/// There is no socket in it. The game carries messages: see [`ReplicationServer`].
#[derive(Default)]
pub struct ReplicationServerPlugin {
    options: Mutex<Option<StreamOptions>>,
    exact: bool,
    relay: bool,
}

impl ReplicationServerPlugin {
    /// Uncompressed, whole components, everything that was touched.
    pub fn new() -> Self {
        Self::default()
    }

    fn edit(self, edit: impl FnOnce(&mut StreamOptions)) -> Self {
        let Self { options, exact, relay } = self;
        let mut options = options.into_inner().ok().flatten().unwrap_or_else(random_stream);
        edit(&mut options);
        Self { options: Mutex::new(Some(options)), exact, relay }
    }

    /// All choices about the stream.
    pub fn stream(self, options: StreamOptions) -> Self {
        Self { options: Mutex::new(Some(options)), ..self }
    }

    /// Compresses messages.
    pub fn compression(self, compression: MessageCompression) -> Self {
        self.edit(|options| options.compression = compression)
    }

    /// Holds changes of numbers back that are no larger than this.
    pub fn epsilon(self, epsilon: f64) -> Self {
        self.edit(|options| options.epsilon = Some(epsilon))
    }

    /// Whether fields are told, or components.
    pub fn granularity(self, granularity: Granularity) -> Self {
        self.edit(|options| options.granularity = granularity)
    }

    /// Tells only what is another value than it was: see [`DeltaCapture::exact`].
    pub fn exact(mut self) -> Self {
        self.exact = true;
        self
    }

    /// Tells also of entities and resources that this world mirrors: for a server that is a client of another one. Its clients
    /// see them under ids of its own. The other server is not told of them.
    pub fn relay(mut self) -> Self {
        self.relay = true;
        self
    }
}

/// No two runs of a server have the same number.
fn random_stream() -> StreamOptions {
    StreamOptions::new(RandomState::new().build_hasher().finish() | 1)
}

impl Plugin for ReplicationServerPlugin {
    fn build(&self, app: &mut App) {
        ReplicationRegistry::of(app.world_mut());
        let given = self.options.lock().ok().and_then(|mut options| options.take());
        let deltas = DeltaCapture::of_replication();
        let deltas = if self.exact { deltas.exact() } else { deltas };
        let deltas = if self.relay { deltas.with_mirrored() } else { deltas };
        app.insert_resource(ReplicationServer::new(given.unwrap_or_else(random_stream), deltas));
        app.add_systems(Last, send.in_set(ReplicationSystems::Send).before(SaveSystems));
    }
}

/// What a server has to send, and who gets it.
///
/// ```
/// # use bevy_app::App;
/// # use bevy_bonfire::replication::{ClientId, ReplicationServer, ReplicationServerPlugin};
/// # let mut app = App::new();
/// # app.add_plugins(ReplicationServerPlugin::new());
/// # fn send(_: ClientId, _: bytes::Bytes) {}
/// // Somebody has connected:
/// app.world_mut().resource_mut::<ReplicationServer>().connect(ClientId(7));
/// // In every frame:
/// app.update();
/// for (client, message) in app.world_mut().resource_mut::<ReplicationServer>().take_messages() {
///     send(client, message);
/// }
/// ```
#[derive(Resource)]
pub struct ReplicationServer {
    server: StreamServer,
    deltas: DeltaCapture,
    error: Option<Error>,
}

/// A request of a client was answered, or has to wait because it is over the client's budget: see [`Answer::Later`]. A game may
/// disconnect clients that ask for more than they need.
#[derive(Event, Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RequestAnswered {
    /// The client that has asked.
    pub client: ClientId,
    /// The answer to the request.
    pub answer: Answer,
}

impl ReplicationServer {
    fn new(options: StreamOptions, deltas: DeltaCapture) -> Self {
        Self { server: StreamServer::new(options), deltas, error: None }
    }

    /// Adds a client. It gets everything at the end of the frame, whatever that costs, and from then on what changes. The
    /// transport must limit how often a peer may connect.
    pub fn connect(&mut self, client: ClientId) {
        self.server.connect(client);
    }

    /// Removes a client.
    pub fn disconnect(&mut self, client: ClientId) {
        self.server.disconnect(client);
    }

    /// The clients that are connected.
    pub fn clients(&self) -> impl ExactSizeIterator<Item = ClientId> + '_ {
        self.server.clients()
    }

    /// Takes a message of a client: a request for what it has missed. It is answered at the end of a frame within the client's
    /// budget, and [`RequestAnswered`] says how.
    ///
    /// Fails if the bytes are no request, and with [`is_limit`](Error::is_limit) if the client makes more than eight requests
    /// in a frame. An error concerns this client alone.
    pub fn receive(&mut self, client: ClientId, message: &Bytes) -> Result<()> {
        self.server.receive(client, message)
    }

    /// Takes all messages that wait, client by client in the order in which they must arrive.
    pub fn take_messages(&mut self) -> Vec<(ClientId, Bytes)> {
        self.server.take_messages()
    }

    /// The tick of the last message.
    pub fn tick(&self) -> u64 {
        self.server.current_tick()
    }

    /// Values that the last frame left out because they cannot be encoded. Clients keep the values before. The log names each
    /// component once.
    pub fn notes(&self) -> &[Note] {
        self.deltas.notes()
    }

    /// Why the last frame could not be told, if it could not: a component that [refuses](bonfire::Unencodable::Refuse) a value, for
    /// example. The next one that can is told as a whole.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }
}

/// Makes the messages of this frame.
fn send(world: &mut World) {
    let answers = world.resource_scope(|world, mut server: Mut<ReplicationServer>| {
        let ReplicationServer { server, deltas, error } = &mut *server;
        let result = server.tick(&mut WorldSource { world, deltas });
        if let Err(error) = &result {
            log::error!("this frame cannot be told to clients: {error}");
        }
        match result {
            Ok(answers) => {
                *error = None;
                answers
            }
            Err(failed) => {
                *error = Some(failed);
                Vec::new()
            }
        }
    });
    for (client, answer) in answers {
        world.trigger(RequestAnswered { client, answer });
    }
}

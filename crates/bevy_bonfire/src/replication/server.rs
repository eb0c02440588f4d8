//! The side that is followed.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Mutex;

use bevy_app::{App, Last, Plugin};
use bevy_ecs::resource::Resource;
use bevy_ecs::schedule::IntoScheduleConfigs;
use bevy_ecs::world::{Mut, World};
use bonfire::{Compression, Error, Granularity, Result};
use bonfire_sync::{CatchUpRequest, ReplicationStream, StreamOptions};
use bytes::Bytes;

use super::{ReplicationSystems, WorldSource};
use crate::delta::{DeltaCapture, ReplicationRegistry};
use crate::live::SaveSystems;

/// A client, as the game counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// Messages that may wait for a client, and their bytes. One that does not take them starts again with a baseline.
const WAITING_MAX: usize = 1024;
const WAITING_BYTES_MAX: usize = 64 << 20;

/// Lets clients follow the world of an app: entities with [`Replicated`](crate::replication::Replicated), and what was registered with
/// [`ReplicateExt::replicate`](crate::replication::ReplicateExt::replicate).
///
/// There is no socket in it. The game carries messages: see [`ReplicationServer`].
#[derive(Default)]
pub struct ReplicationServerPlugin {
    options: Mutex<Option<StreamOptions>>,
    exact: bool,
}

impl ReplicationServerPlugin {
    /// Uncompressed, whole components, everything that was touched.
    pub fn new() -> Self {
        Self::default()
    }

    fn edit(self, edit: impl FnOnce(&mut StreamOptions)) -> Self {
        let mut options = self.options.into_inner().ok().flatten().unwrap_or_else(random_stream);
        edit(&mut options);
        Self { options: Mutex::new(Some(options)), exact: self.exact }
    }

    /// All choices about the stream.
    pub fn stream(self, options: StreamOptions) -> Self {
        Self { options: Mutex::new(Some(options)), exact: self.exact }
    }

    /// Compresses messages.
    pub fn compression(self, compression: Compression) -> Self {
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
    stream: ReplicationStream,
    deltas: DeltaCapture,
    clients: BTreeMap<ClientId, Client>,
    error: Option<Error>,
}

#[derive(Default)]
struct Client {
    /// Gets a baseline next, and nothing before it.
    joins: bool,
    /// Has asked for what it missed.
    asks: Option<CatchUpRequest>,
    waiting: VecDeque<Bytes>,
    waiting_bytes: usize,
}

impl Client {
    fn push(&mut self, message: Bytes) {
        let bytes = self.waiting_bytes + message.len();
        let too_much = self.waiting.len() >= WAITING_MAX || bytes > WAITING_BYTES_MAX;
        if self.joins || (too_much && !self.waiting.is_empty()) {
            self.joins = true;
            drop(self.take());
            return;
        }
        self.waiting_bytes = bytes;
        self.waiting.push_back(message);
    }

    fn take(&mut self) -> VecDeque<Bytes> {
        self.waiting_bytes = 0;
        std::mem::take(&mut self.waiting)
    }

    /// Begins again with everything.
    fn join(&mut self, baseline: Bytes) {
        (self.joins, self.asks) = (false, None);
        self.push(baseline);
    }
}

impl ReplicationServer {
    fn new(options: StreamOptions, deltas: DeltaCapture) -> Self {
        let stream = ReplicationStream::new(options);
        Self { stream, deltas, clients: BTreeMap::new(), error: None }
    }

    /// A client has come: it gets everything at the end of the frame, and from then on what changes.
    pub fn connect(&mut self, client: ClientId) {
        self.clients.insert(client, Client { joins: true, ..Client::default() });
    }

    /// A client is gone.
    pub fn disconnect(&mut self, client: ClientId) {
        self.clients.remove(&client);
    }

    /// The clients that are connected.
    pub fn clients(&self) -> impl ExactSizeIterator<Item = ClientId> + '_ {
        self.clients.keys().copied()
    }

    /// Takes a message of a client: it asks for what it has missed, and gets it at the end of the frame. A message that is none
    /// is an error, which concerns nobody else.
    pub fn receive(&mut self, client: ClientId, message: &Bytes) -> Result<()> {
        let request = CatchUpRequest::decode(message)?;
        match self.clients.get_mut(&client) {
            Some(client) => {
                client.asks = Some(request);
                Ok(())
            }
            None => Err(Error::misuse(format!("client {} is not connected", client.0))),
        }
    }

    /// What there is to send, client by client in the order in which it must arrive.
    pub fn take_messages(&mut self) -> Vec<(ClientId, Bytes)> {
        let mut messages = Vec::new();
        for (&id, client) in &mut self.clients {
            messages.extend(client.take().into_iter().map(|message| (id, message)));
        }
        messages
    }

    /// The tick of the last message.
    pub fn tick(&self) -> u64 {
        self.stream.current_tick()
    }

    /// Why the last frame could not be told, if it could not: a value that cannot be saved, for example. The next one that can
    /// is told as a whole.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    fn send(&mut self, world: &mut World) -> Result<()> {
        if self.clients.is_empty() {
            return Ok(());
        }
        let mut source = WorldSource { world, deltas: &mut self.deltas };
        let messages = self.stream.tick(&mut source)?;
        for client in self.clients.values_mut().filter(|client| !client.joins) {
            messages.iter().for_each(|message| client.push(message.clone()));
        }
        for client in self.clients.values_mut() {
            if client.joins {
                let baseline = self.stream.baseline(&mut source)?;
                client.join(baseline);
            } else if let Some(request) = client.asks.take() {
                let answer = self.stream.answer(&request, &mut source)?;
                answer.into_iter().for_each(|message| client.push(message));
            }
        }
        Ok(())
    }
}

/// Tells everybody what has changed in this frame.
fn send(world: &mut World) {
    world.resource_scope(|world, mut server: Mut<ReplicationServer>| {
        let result = server.send(world);
        if let Err(error) = &result {
            log::error!("this frame cannot be told to clients: {error}");
        }
        server.error = result.err();
    });
}

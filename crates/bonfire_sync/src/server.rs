//! A stream and the clients that follow it: who gets which message, and what requests may cost.
//!
//! Invariants: what one client asks for changes no byte that another one is sent. A tick takes at most one baseline from the
//! source, however many clients ask. What a client is sent for its requests stays within its budget (see `docs/PROTOCOL.md`,
//! "Budgets"), but for its first baseline and one answer in [`baseline_ticks_min`](StreamOptions::baseline_ticks_min) ticks.

use std::collections::{BTreeMap, VecDeque};

use bonfire::schema::Fingerprint;
use bonfire::{Error, Result};
use bytes::Bytes;

use crate::budget::Budget;
use crate::request::CatchUpRequest;
use crate::stream::{ReplicationStream, StreamOptions};
use crate::world::SourceWorld;

/// A client, as the game counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// The answer to a client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The client has everything already: nothing is sent.
    UpToDate,
    /// The messages that it has missed are sent, or a baseline.
    Sent {
        /// Bytes of all messages together.
        bytes: u64,
    },
    /// The answer would cost more than the client has earned. It is sent by itself as soon as it may be; until then the client
    /// gets the messages of the stream, and nothing else. A client that asks again and again is broken or hostile: a game may
    /// disconnect it.
    Later {
        /// Bytes that the client has to earn first.
        bytes: u64,
        /// Ticks after which it is answered whether or not it has earned them.
        ticks: u64,
    },
}

/// Messages that may wait for a client, and their bytes. One that does not take them starts again with a baseline.
const WAITING_MAX: usize = 1024;
const WAITING_BYTES_MAX: usize = 64 << 20;
/// Requests of one client that are looked at in a tick. An honest client makes one in many ticks.
const REQUESTS_PER_TICK_MAX: u32 = 8;

/// Sends a stream to any number of clients and answers their requests, each within its budget.
///
/// ```
/// # use bonfire::{Delta, Result};
/// # use bonfire_sync::{SourceWorld, StreamOptions};
/// use bonfire_sync::{ClientId, StreamServer};
/// # struct World(bonfire_testkit::Followed);
/// # impl SourceWorld for World {
/// #     fn baseline(&mut self) -> Result<Delta> { self.0.whole() }
/// #     fn changes(&mut self) -> Result<Delta> { self.0.changes() }
/// # }
/// # let mut world = World(bonfire_testkit::Followed::new(bonfire_testkit::ModelWorld::new())?);
/// # let random = 7;
/// # fn send(_: ClientId, _: bytes::Bytes) {}
/// let mut server = StreamServer::new(StreamOptions::new(random)); // a number that no other stream has
/// server.connect(ClientId(1)); // it gets a baseline first
/// // In every tick:
/// server.tick(&mut world)?;
/// for (client, message) in server.take_messages() {
///     send(client, message);
/// }
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Debug)]
pub struct StreamServer {
    stream: ReplicationStream,
    clients: BTreeMap<ClientId, Client>,
}

#[derive(Debug)]
struct Client {
    /// Gets its first baseline next, whatever that costs, and nothing before it.
    joins: bool,
    /// Gets no messages before its request is answered: some were dropped.
    skips: bool,
    /// The last request that is not answered yet.
    request: Option<CatchUpRequest>,
    /// The answer that was reported for this request.
    reported_later: bool,
    requests_in_tick: u32,
    budget: Budget,
    waiting: VecDeque<Bytes>,
    waiting_bytes: usize,
}

impl Client {
    fn push(&mut self, message: Bytes) {
        if self.skips {
            return;
        }
        let bytes = self.waiting_bytes + message.len();
        let too_much = self.waiting.len() >= WAITING_MAX || bytes > WAITING_BYTES_MAX;
        if too_much && !self.waiting.is_empty() {
            drop(self.take());
            self.budget.refund(bytes as u64);
            self.skips = true;
            // As if it had asked for everything.
            self.request = Some(CatchUpRequest { stream: 0, have: None, schema: Fingerprint([0; 16]) });
            return;
        }
        self.waiting_bytes = bytes;
        self.waiting.push_back(message);
    }

    fn take(&mut self) -> VecDeque<Bytes> {
        self.waiting_bytes = 0;
        std::mem::take(&mut self.waiting)
    }

    /// Sends what the client needs to follow from here.
    fn answered(&mut self, messages: Vec<Bytes>) {
        (self.joins, self.skips, self.request) = (false, false, None);
        messages.into_iter().for_each(|message| self.push(message));
    }
}

impl StreamServer {
    /// A server without clients, at tick 0.
    pub fn new(options: StreamOptions) -> Self {
        Self { stream: ReplicationStream::new(options), clients: BTreeMap::new() }
    }

    /// Adds a client. It gets a baseline at the next tick, whatever that costs, and from then on what changes. The transport
    /// must limit how often a peer may connect.
    pub fn connect(&mut self, client: ClientId) {
        let stream = &self.stream;
        let bytes_start = stream.options().answer_bytes_start;
        let budget = Budget::new(bytes_start, stream.bytes(), stream.current_tick());
        let joining = Client {
            joins: true,
            skips: true,
            request: None,
            reported_later: false,
            requests_in_tick: 0,
            budget,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
        };
        self.clients.insert(client, joining);
    }

    /// Removes a client, with everything that waits for it.
    pub fn disconnect(&mut self, client: ClientId) {
        self.clients.remove(&client);
    }

    /// The clients that are connected.
    pub fn clients(&self) -> impl ExactSizeIterator<Item = ClientId> + '_ {
        self.clients.keys().copied()
    }

    /// Takes a request of a client, which the next [`tick`](Self::tick) answers. The last request counts.
    ///
    /// Fails if the bytes are no request, and with [`is_limit`](Error::is_limit) if the client makes more than eight requests
    /// in a tick; those are not looked at. An error concerns this client alone.
    pub fn receive(&mut self, client: ClientId, message: &Bytes) -> Result<()> {
        let Some(known) = self.clients.get_mut(&client) else {
            return Err(Error::misuse(format!("client {} is not connected", client.0)));
        };
        if known.requests_in_tick >= REQUESTS_PER_TICK_MAX {
            let text =
                format!("client {} made more than {REQUESTS_PER_TICK_MAX} requests in a tick", client.0);
            return Err(Error::limit(text));
        }
        known.requests_in_tick += 1;
        let request = CatchUpRequest::decode(message)?;
        if let Some(bytes) = self.stream.bytes_acknowledged(&request) {
            known.budget.acknowledge(bytes);
        }
        (known.request, known.reported_later) = (Some(request), false);
        Ok(())
    }

    /// Makes the messages of the next tick, and answers requests. Returns what became of requests: once when a request has to
    /// wait, and when it is answered.
    ///
    /// An error means that the source failed. Clients that were not answered are answered later. If the messages of the
    /// tick could not be made, the next tick that works says what this one should have said.
    pub fn tick(&mut self, source: &mut impl SourceWorld) -> Result<Vec<(ClientId, Answer)>> {
        self.clients.values_mut().for_each(|client| client.requests_in_tick = 0);
        if self.clients.is_empty() {
            return Ok(Vec::new());
        }
        let messages = self.stream.tick(source)?;
        let (tick, stream_bytes) = (self.stream.current_tick(), self.stream.bytes());
        // All of them get the messages before anybody is answered: an answer may fail, and messages are given once.
        for client in self.clients.values_mut() {
            messages.iter().for_each(|message| client.push(message.clone()));
        }
        let mut answers = Vec::new();
        for (&id, client) in &mut self.clients {
            if client.joins {
                let baseline = self.stream.baseline_of_tick(source)?;
                client.answered(vec![baseline]);
                client.budget = Budget::new(client.budget.left(), stream_bytes, tick);
                continue;
            }
            if client.skips {
                client.budget.skip(stream_bytes);
            }
            let Some(request) = client.request else { continue };
            let (answer, messages) = answer(&mut self.stream, &request, &mut client.budget, source)?;
            if !matches!(answer, Answer::Later { .. }) {
                client.answered(messages);
            } else if std::mem::replace(&mut client.reported_later, true) {
                continue;
            }
            answers.push((id, answer));
        }
        Ok(answers)
    }

    /// Takes all messages that wait, client by client in the order in which they must arrive.
    pub fn take_messages(&mut self) -> Vec<(ClientId, Bytes)> {
        let mut messages = Vec::new();
        for (&id, client) in &mut self.clients {
            messages.extend(client.take().into_iter().map(|message| (id, message)));
        }
        messages
    }

    /// The tick of the last message.
    pub fn current_tick(&self) -> u64 {
        self.stream.current_tick()
    }
}

/// Answers a request right after a tick, if the client's budget allows it.
fn answer(
    stream: &mut ReplicationStream,
    request: &CatchUpRequest,
    budget: &mut Budget,
    source: &mut impl SourceWorld,
) -> Result<(Answer, Vec<Bytes>)> {
    let tick = stream.current_tick();
    let ticks = budget.ticks_until_free(tick, stream.options().baseline_ticks_min);
    let later = |bytes: u64| (Answer::Later { bytes: bytes - budget.left(), ticks }, Vec::new());
    let is_over = |bytes: u64| ticks > 0 && bytes > budget.left();
    let missed = stream.missed(request);
    let is_baseline = missed.is_none();
    let messages = match missed {
        Some(messages) if messages.is_empty() => return Ok((Answer::UpToDate, messages)),
        Some(messages) => messages,
        // As large as the last one, until it is made: who cannot pay for that does not make the server work.
        None if is_over(stream.baseline_bytes()) => return Ok(later(stream.baseline_bytes())),
        None => vec![stream.baseline_of_tick(source)?],
    };
    let bytes = messages.iter().map(|message| message.len() as u64).sum();
    if is_over(bytes) {
        return Ok(later(bytes));
    }
    budget.charge(bytes, tick);
    if is_baseline {
        budget.begin_wait(tick);
    }
    Ok((Answer::Sent { bytes }, messages))
}

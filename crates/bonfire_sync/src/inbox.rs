//! The messages that wait for a mirror, and the requests that it makes.
//!
//! Invariants: what waits is never more than the limits say, whatever a server sends. A frame applies a bounded part of it. A
//! message that is refused or missed leads to a request, and one that stays unanswered to another one.

use std::collections::VecDeque;

use bonfire::{Error, Result};
use bytes::Bytes;

use crate::limits::InboxLimits;
use crate::receiver::{Applied, Receiver};
use crate::request::CatchUpRequest;
use crate::world::MirrorWorld;

/// A request may be lost: it is made again when so many more messages could not be applied.
const ASK_AGAIN: u32 = 64;

/// Holds messages until they are applied, frame by frame, and asks the server for what is missing.
///
/// ```
/// # use bonfire::{Delta, Result};
/// # use bonfire::engine::{ComponentTable, EntityMap};
/// # use bonfire_sync::{ClientId, MirrorWorld, SourceWorld, StreamOptions, StreamServer};
/// use bonfire_sync::{Inbox, InboxLimits, Receiver};
/// # struct Server(bonfire_testkit::Followed);
/// # impl SourceWorld for Server {
/// #     fn baseline(&mut self) -> Result<Delta> { self.0.whole() }
/// #     fn changes(&mut self) -> Result<Delta> { self.0.changes() }
/// # }
/// # struct Client(bonfire_testkit::ModelWorld);
/// # impl MirrorWorld for Client {
/// #     fn apply(&mut self, delta: &Delta, map: &mut EntityMap) -> Result<()> { self.0.apply_delta(delta, map) }
/// # }
/// # let mut world = Server(bonfire_testkit::Followed::new(bonfire_testkit::ModelWorld::new())?);
/// # let mut server = StreamServer::new(StreamOptions::new(7));
/// # server.connect(ClientId(1));
/// # server.tick(&mut world)?;
/// # let mut mirror = Client(bonfire_testkit::ModelWorld::new());
/// # let table = ComponentTable::of(mirror.0.registry());
///
/// let mut receiver = Receiver::new(table);
/// let mut inbox = Inbox::new(InboxLimits::default());
/// for (_, message) in server.take_messages() {
///     inbox.receive(message)?;
/// }
/// // In every frame:
/// inbox.begin_frame();
/// while let Some(applied) = inbox.apply_next(&mut receiver, &mut mirror) {
///     println!("{:?}", applied?);
/// }
/// for request in inbox.take_request(&receiver)? {
///     server.receive(ClientId(1), &request)?;
/// }
/// assert_eq!(receiver.tick(), Some(1));
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Debug)]
pub struct Inbox {
    limits: InboxLimits,
    waiting: VecDeque<Bytes>,
    waiting_bytes: usize,
    frame_messages: usize,
    frame_bytes: usize,
    /// A request is made at the end of the frame.
    asks: bool,
    /// A message was refused: what is missing is asked for when all that waits is applied.
    refused: bool,
    /// A message was over a limit of the receiver. It would be again, so everything is asked for: that may fit.
    needs_baseline: bool,
    /// How many messages could not be applied since the last request.
    unanswered: Option<u32>,
}

impl Inbox {
    /// An empty inbox.
    pub fn new(limits: InboxLimits) -> Self {
        Self {
            limits,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            frame_messages: 0,
            frame_bytes: 0,
            asks: false,
            refused: false,
            needs_baseline: false,
            unanswered: None,
        }
    }

    /// Takes a message of the server. One that does not fit is dropped: an error with [`is_limit`](Error::is_limit). The mirror
    /// asks for it when it has applied the others.
    pub fn receive(&mut self, message: Bytes) -> Result<()> {
        let InboxLimits { messages_max, bytes_max, .. } = self.limits;
        let (messages, bytes) = (self.waiting.len() + 1, self.waiting_bytes + message.len());
        if messages > messages_max || bytes > bytes_max {
            self.refused = true;
            let text = format!(
                "{messages} messages of {bytes} bytes wait, at most {messages_max} of {bytes_max} may: \
                 the last one is dropped"
            );
            return Err(Error::limit(text));
        }
        self.waiting_bytes = bytes;
        self.waiting.push_back(message);
        Ok(())
    }

    /// Returns how many messages wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns true if no message waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Makes a request at the end of this frame: when a connection that was lost is there again, for example.
    pub fn ask(&mut self) {
        self.asks = true;
    }

    /// Begins a frame, in which messages may be applied up to the limits of a frame.
    pub fn begin_frame(&mut self) {
        (self.frame_messages, self.frame_bytes) = (0, 0);
    }

    /// Applies the next message, as [`Receiver::apply`]. Returns `None` if no message waits, or if this frame has done enough; the
    /// first message of a frame is applied whatever its size.
    pub fn apply_next(
        &mut self,
        receiver: &mut Receiver,
        mirror: &mut impl MirrorWorld,
    ) -> Option<Result<Applied>> {
        let InboxLimits { frame_messages_max, frame_bytes_max, .. } = self.limits;
        let bytes = self.frame_bytes + self.waiting.front()?.len();
        let is_enough = self.frame_messages >= frame_messages_max || bytes > frame_bytes_max;
        if is_enough && self.frame_messages > 0 {
            return None;
        }
        let message = self.waiting.pop_front()?;
        self.waiting_bytes -= message.len();
        (self.frame_messages, self.frame_bytes) = (self.frame_messages + 1, bytes);
        let applied = receiver.apply(mirror, &message);
        self.note(&applied, receiver);
        Some(applied)
    }

    /// Decides whether a request has to be made.
    fn note(&mut self, applied: &Result<Applied>, receiver: &Receiver) {
        let lost = match applied {
            Ok(Applied::Baseline | Applied::Delta) => {
                (self.unanswered, self.needs_baseline) = (None, false);
                false
            }
            Ok(Applied::Skipped) => false,
            Ok(Applied::NeedBaseline(_)) => true,
            Err(error) => {
                self.needs_baseline |= error.is_limit();
                error.is_limit() || receiver.is_poisoned()
            }
        };
        if lost {
            match &mut self.unanswered {
                Some(count) if *count < ASK_AGAIN => *count += 1,
                _ => self.asks = true,
            }
        }
    }

    /// Returns true if there is a request for [`take_request`](Self::take_request).
    pub fn has_request(&self) -> bool {
        self.asks || (self.refused && self.waiting.is_empty())
    }

    /// Takes the request that the server must get, if something is missing. Call it at the end of a frame.
    pub fn take_request(&mut self, receiver: &Receiver) -> Result<Option<Bytes>> {
        if !self.has_request() {
            return Ok(None);
        }
        (self.asks, self.unanswered) = (false, Some(0));
        self.refused &= !self.waiting.is_empty();
        let request = receiver.request();
        let have = request.have.filter(|_| !self.needs_baseline);
        CatchUpRequest { have, ..request }.encode().map(Some)
    }
}

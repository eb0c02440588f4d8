//! The side that is followed: a world to messages.
//!
//! Invariants: every message that [`ReplicationStream::tick`] gives starts at the tick where the one before it ended, or is a
//! baseline. A baseline for somebody who joins is the world exactly as it was when the next message starts. So what has
//! changed since the last message is put into one of its own before a baseline is made: what came since then and goes before
//! the next tick would not be told in one that spans both, and stay with the joiner for ever. With an epsilon a joiner gets the
//! values that the others were sent, and not newer ones: so its baseline changes nothing for them.

use std::sync::Arc;

use bonfire::engine::{ComponentTable, SentValues};
use bonfire::schema::Fingerprint;
use bonfire::{Delta, Error, Granularity, Result};
use bytes::Bytes;

use crate::compression::MessageCompression;
use crate::message::{Message, MessageKind};
use crate::recent_messages::RecentMessages;
use crate::request::CatchUpRequest;
use crate::world::SourceWorld;

/// How a stream is made.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// Tells this stream from all others, also from those of earlier runs of the same server: a random number.
    pub stream: u64,
    /// How payloads are compressed. Default: not at all.
    pub compression: MessageCompression,
    /// A delta that is larger is not sent: a baseline is. Default: 16 MiB.
    pub delta_bytes_max: usize,
    /// Bytes of recent messages that are kept for mirrors that have missed some. Default: 4 MiB.
    pub recent_bytes_max: usize,
    /// How many recent messages are kept. Default: 256.
    pub recent_messages_max: usize,
    /// Bytes that a client's requests may cost before it has acknowledged anything; its first baseline is not counted. See
    /// [`StreamServer`](crate::StreamServer). Default: 64 KiB.
    pub answer_bytes_start: u64,
    /// Ticks after a baseline until the client gets another answer that it has not earned. Default: 300.
    pub baseline_ticks_min: u64,
    /// Numbers that have moved by no more than this since they were sent are held back. Text, lists, references and
    /// structure never are. Costs a copy of what was sent. Default: everything is sent.
    pub epsilon: Option<f64>,
    /// What is told of a component that has changed. [`Granularity::Field`] costs a copy of what was sent. Default: all of it.
    pub granularity: Granularity,
}

impl StreamOptions {
    /// The defaults, for a stream with this number.
    pub fn new(stream: u64) -> Self {
        Self {
            stream,
            compression: MessageCompression::None,
            delta_bytes_max: 16 << 20,
            recent_bytes_max: 4 << 20,
            recent_messages_max: 256,
            answer_bytes_start: 64 << 10,
            baseline_ticks_min: 300,
            epsilon: None,
            granularity: Granularity::Component,
        }
    }
}

/// Tells others about a world: once everything, then what has changed, tick by tick. Messages are encoded once, whoever gets
/// them.
///
/// Call [`tick`](Self::tick) at a regular point of the game's loop and send what it gives to all mirrors. A
/// [`StreamServer`](crate::StreamServer) does so, and answers requests within budgets.
#[derive(Debug)]
pub struct ReplicationStream {
    options: StreamOptions,
    tick: u64,
    sequence: u32,
    /// The components of the last message.
    table: Option<Arc<ComponentTable>>,
    /// What was sent, if small changes or single fields are told apart.
    sent: Option<SentValues>,
    recent: RecentMessages,
    /// The baseline for those who join at this tick.
    joiner_baseline: Option<Bytes>,
    /// Bytes of the last baseline.
    baseline_bytes: u64,
    /// What changed before that baseline, for everybody else.
    unsent: Vec<Bytes>,
    /// A call has failed after the source was asked: what it told is lost to the stream.
    lost_changes: bool,
}

impl ReplicationStream {
    /// A stream at tick 0, before its first message.
    pub fn new(options: StreamOptions) -> Self {
        let recent = RecentMessages::new(options.recent_bytes_max, options.recent_messages_max);
        let remembers = options.epsilon.is_some() || options.granularity == Granularity::Field;
        let sent = remembers.then(|| match options.epsilon {
            Some(epsilon) => SentValues::new(options.granularity).epsilon(epsilon),
            None => SentValues::new(options.granularity),
        });
        Self {
            options,
            tick: 0,
            sequence: 0,
            table: None,
            sent,
            recent,
            joiner_baseline: None,
            baseline_bytes: 0,
            unsent: Vec::new(),
            lost_changes: false,
        }
    }

    pub(crate) fn options(&self) -> &StreamOptions {
        &self.options
    }

    /// Returns the bytes of all messages for everybody since the stream began.
    pub(crate) fn bytes(&self) -> u64 {
        self.recent.total_bytes()
    }

    /// Returns the bytes of the last baseline: 0 before the first one.
    pub(crate) fn baseline_bytes(&self) -> u64 {
        self.baseline_bytes
    }

    /// The number of the stream.
    pub fn stream(&self) -> u64 {
        self.options.stream
    }

    /// The tick of the last message.
    pub fn current_tick(&self) -> u64 {
        self.tick
    }

    /// Everything, for a mirror that joins or has lost its way. The next messages of [`tick`](Self::tick) follow it. All who
    /// ask before then get the same bytes.
    ///
    /// Right after a tick this is all that it does. If the world has changed since, those changes become a message that the
    /// next tick gives to everybody else.
    pub fn baseline(&mut self, source: &mut impl SourceWorld) -> Result<Bytes> {
        if let Some(message) = &self.joiner_baseline {
            return Ok(message.clone());
        }
        // Of the same moment: nobody else has the source.
        let whole = source.baseline()?;
        let lost_changes = std::mem::replace(&mut self.lost_changes, true);
        let delta = self.changes(source, lost_changes)?;
        if !delta.is_empty() || lost_changes || self.has_other_components(&delta) {
            let message = self.advance(source, delta, lost_changes)?;
            self.unsent.push(message);
        }
        self.lost_changes = false;
        self.joiner_baseline(whole)
    }

    /// As [`baseline`](Self::baseline), right after a tick: the source has not changed since.
    pub(crate) fn baseline_of_tick(&mut self, source: &mut impl SourceWorld) -> Result<Bytes> {
        match &self.joiner_baseline {
            Some(message) => Ok(message.clone()),
            None => self.joiner_baseline(source.baseline()?),
        }
    }

    fn joiner_baseline(&mut self, whole: Delta) -> Result<Bytes> {
        let whole = match &self.sent {
            Some(sent) => sent.as_sent(&whole),
            None => whole,
        };
        let message = self.encode_baseline(whole, self.tick)?;
        self.joiner_baseline = Some(message.clone());
        Ok(message)
    }

    /// The next messages for everybody, in their order: what has changed since the last call. It is one message; two, if
    /// somebody was given a baseline in between.
    ///
    /// A message is a baseline by itself if the source cannot tell what has changed, if that is larger than
    /// [`delta_bytes_max`](StreamOptions::delta_bytes_max), if there are other components than before, or if the call before
    /// has failed.
    pub fn tick(&mut self, source: &mut impl SourceWorld) -> Result<Vec<Bytes>> {
        let lost_changes = std::mem::replace(&mut self.lost_changes, true);
        let delta = self.changes(source, lost_changes)?;
        let message = self.advance(source, delta, lost_changes)?;
        self.lost_changes = false;
        self.unsent.push(message);
        Ok(std::mem::take(&mut self.unsent))
    }

    /// What the source tells, without what need not go out.
    fn changes(&mut self, source: &mut impl SourceWorld, lost_changes: bool) -> Result<Delta> {
        let delta = source.changes()?;
        match &mut self.sent {
            Some(sent) if !lost_changes => sent.filter(&delta),
            _ => Ok(delta),
        }
    }

    /// Returns true if a delta has other components than the last message.
    fn has_other_components(&self, delta: &Delta) -> bool {
        self.table.as_ref().is_some_and(|table| table.fingerprint() != delta.table().fingerprint())
    }

    /// Makes the next message.
    fn advance(&mut self, source: &mut impl SourceWorld, delta: Delta, lost_changes: bool) -> Result<Bytes> {
        let next = self.tick + 1;
        let (since, message) = if delta.is_whole() {
            (None, self.encode_baseline(delta, next)?)
        } else {
            let needs_baseline = lost_changes || self.has_other_components(&delta);
            let small = if needs_baseline { None } else { self.encode_delta(delta, next)? };
            match small {
                Some(message) => (Some(self.tick), message),
                None => (None, self.encode_baseline(source.baseline()?, next)?),
            }
        };
        if since.is_none()
            && let Some(sent) = &mut self.sent
        {
            // Everybody gets it, so what was sent before it counts no more.
            sent.clear();
        }
        self.recent.push(since, message.clone());
        self.tick = next;
        self.sequence = self.sequence.wrapping_add(1);
        self.joiner_baseline = since.is_none().then(|| message.clone());
        Ok(message)
    }

    /// What a mirror at tick `have` has missed, if that is still known. Nothing at all if it has missed nothing.
    pub fn catch_up(&self, have: u64) -> Option<Vec<Bytes>> {
        match have == self.tick {
            true => Some(Vec::new()),
            false if have < self.tick => self.recent.after(have),
            false => None,
        }
    }

    /// Returns what a mirror asks for: the messages that it has missed, or a baseline. A mirror with other components gets the
    /// baseline, which says what is different.
    ///
    /// Costs as much as the mirror likes, so this is for mirrors that are trusted, such as a tool in the same process. A
    /// [`StreamServer`](crate::StreamServer) has budgets.
    pub fn answer_unlimited(
        &mut self,
        request: &CatchUpRequest,
        source: &mut impl SourceWorld,
    ) -> Result<Vec<Bytes>> {
        match self.missed(request) {
            Some(messages) => Ok(messages),
            None => Ok(vec![self.baseline(source)?]),
        }
    }

    /// Returns the tick that a mirror has, if it is one of this stream.
    fn known_tick(&self, request: &CatchUpRequest) -> Option<u64> {
        let table = self.table.as_ref()?;
        let is_known = request.stream == self.options.stream && table.fingerprint() == request.schema;
        request.have.filter(|_| is_known)
    }

    /// Returns the messages that a mirror has missed; `None` if it needs a baseline.
    pub(crate) fn missed(&self, request: &CatchUpRequest) -> Option<Vec<Bytes>> {
        self.known_tick(request).and_then(|have| self.catch_up(have))
    }

    /// Returns the bytes of the stream that a request acknowledges, if they are still known.
    pub(crate) fn bytes_acknowledged(&self, request: &CatchUpRequest) -> Option<u64> {
        let have = self.known_tick(request)?;
        if have == self.tick { Some(self.bytes()) } else { self.recent.bytes_up_to(have) }
    }

    /// The message, unless its payload is too large.
    fn encode_delta(&mut self, delta: Delta, tick: u64) -> Result<Option<Bytes>> {
        let mut delta = delta.for_mirrors();
        delta.set_ticks(self.tick, tick);
        let content = delta.content()?;
        if content.len() > self.options.delta_bytes_max {
            return Ok(None);
        }
        let parts: Vec<&[u8]> = content.parts().iter().map(|part| &**part).collect();
        let message = self.message(MessageKind::Delta, tick, delta.table().fingerprint());
        let message = message.encode_parts(&parts, &self.options.compression)?;
        self.table = Some(Arc::clone(delta.table()));
        Ok(Some(message))
    }

    fn encode_baseline(&mut self, delta: Delta, tick: u64) -> Result<Bytes> {
        if !delta.is_whole() {
            return Err(Error::misuse("a source gave changes where everything was asked for"));
        }
        let mut delta = delta.for_mirrors();
        delta.set_ticks(0, tick);
        let content = delta.content()?;
        let table = delta.table().encode();
        let mut length = bonfire::Writer::new();
        length.varint(table.len() as u64);
        let mut parts = vec![length.as_bytes(), &table];
        parts.extend(content.parts().iter().map(|part| &**part));
        let message = self.message(MessageKind::Baseline, tick, delta.table().fingerprint());
        let message = message.encode_parts(&parts, &self.options.compression)?;
        self.baseline_bytes = message.len() as u64;
        self.table = Some(Arc::clone(delta.table()));
        Ok(message)
    }

    fn message(&self, kind: MessageKind, tick: u64, schema: Fingerprint) -> Message {
        let since = if kind == MessageKind::Delta { self.tick } else { 0 };
        let (stream, sequence) = (self.options.stream, self.sequence);
        Message { kind, stream, sequence, since, tick, schema, payload: Bytes::new() }
    }
}

//! What a server sends: all of a world, or what has changed in it.

use std::sync::Arc;

use bonfire::engine::{ComponentTable, DeltaScope};
use bonfire::schema::Fingerprint;
use bonfire::{Delta, Error, Limits, LoadContext, Reader, Result};
use bytes::Bytes;

use crate::compression::MessageCompression;
use crate::envelope::{Head, WireKind};
use crate::limits::MessageLimits;

/// The content of a message of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// All of a world: whatever was there before is replaced.
    Baseline,
    /// What has changed since a tick.
    Delta,
}

impl MessageKind {
    const fn wire(self) -> WireKind {
        match self {
            Self::Baseline => WireKind::Baseline,
            Self::Delta => WireKind::Delta,
        }
    }
}

/// A message of a stream. Its payload is looked at by who applies it.
///
/// ```
/// use bonfire::schema::Fingerprint;
/// use bonfire_sync::{Message, MessageCompression, MessageKind, MessageLimits};
///
/// let message = Message {
///     kind: MessageKind::Delta,
///     stream: 7,
///     sequence: 12,
///     since: 30,
///     tick: 31,
///     schema: Fingerprint([9; 16]),
///     payload: vec![5; 1000].into(),
/// };
/// let bytes = message.encode(&MessageCompression::Lz4)?;
/// assert!(bytes.len() < 100);
/// assert_eq!(Message::decode(&bytes, &MessageLimits::default())?, message);
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What the payload is.
    pub kind: MessageKind,
    /// The number of the stream: whoever makes a stream chooses one at random, so that two are never taken for one.
    pub stream: u64,
    /// Counts the messages of a stream, for people who look for one that is missing. After 2^32 it starts again.
    pub sequence: u32,
    /// The tick after which the changes were made. 0 for a baseline.
    pub since: u64,
    /// The tick that a mirror is at when it has applied this.
    pub tick: u64,
    /// The fingerprint of the stream's components.
    pub schema: Fingerprint,
    /// A baseline: the components and all rows. A delta: what has changed.
    pub payload: Bytes,
}

impl Message {
    pub(crate) fn head(&self) -> Head {
        let Self { stream, since, tick, schema, sequence, .. } = *self;
        Head { kind: self.kind.wire(), stream, since, tick, schema, sequence }
    }

    /// The message as bytes. What compression does not make smaller is stored as it is, so a message is never larger than
    /// its payload and 64 bytes.
    pub fn encode(&self, compression: &MessageCompression) -> Result<Bytes> {
        self.encode_parts(&[&self.payload], compression)
    }

    /// As [`Message::encode`], with a payload in pieces in the place of its own.
    pub(crate) fn encode_parts(&self, payload: &[&[u8]], compression: &MessageCompression) -> Result<Bytes> {
        check_ticks(self.kind, self.since, self.tick).map_err(Error::misuse)?;
        self.head().encode(payload, compression)
    }

    /// The message that these bytes are, all of them. A payload that is not compressed shares their memory.
    pub fn decode(bytes: &Bytes, limits: &MessageLimits) -> Result<Self> {
        let (head, payload) = Head::decode(bytes, limits)?;
        let Head { stream, since, tick, schema, sequence, kind } = head;
        let kind = match kind {
            WireKind::Baseline => MessageKind::Baseline,
            WireKind::Delta => MessageKind::Delta,
            WireKind::RequestAll | WireKind::RequestSince => {
                return Err(Error::corrupt("a request came where messages of a stream are expected"));
            }
            WireKind::StructuralLog => {
                return Err(Error::corrupt("a structural log came where messages of a stream are expected"));
            }
        };
        check_ticks(kind, since, tick).map_err(Error::corrupt)?;
        Ok(Self { kind, stream, sequence, since, tick, schema, payload })
    }

    /// All that a baseline tells, with the components that it brings. For tools: a [`Receiver`](crate::Receiver) does this by
    /// itself.
    pub fn whole(&self, limits: &Limits) -> Result<Delta> {
        let (table, content) = self.table_and_content(limits)?;
        Delta::from_content(&table, 0, self.tick, DeltaScope::Whole, content, limits)
    }

    /// What a delta tells, with the components of the last baseline before it. For tools, as [`Message::whole`].
    pub fn changes(&self, table: &Arc<ComponentTable>, limits: &Limits) -> Result<Delta> {
        if self.kind != MessageKind::Delta {
            return Err(Error::misuse("a baseline is not about changes"));
        }
        if table.fingerprint() != self.schema {
            return Err(Error::schema("a delta about other components than the last baseline"));
        }
        Delta::from_content(table, self.since, self.tick, DeltaScope::Changes, self.payload.clone(), limits)
    }

    /// The two parts of a baseline's payload.
    pub(crate) fn table_and_content(&self, limits: &Limits) -> Result<(Arc<ComponentTable>, Bytes)> {
        if self.kind != MessageKind::Baseline {
            return Err(Error::misuse("a delta brings no components"));
        }
        let context = LoadContext::new(limits);
        let mut input = Reader::new(&self.payload, &context);
        let table = ComponentTable::decode(input.blob()?, limits)?;
        if table.fingerprint() != self.schema {
            return Err(Error::corrupt("a baseline brings other components than it says"));
        }
        Ok((table, self.payload.slice(input.offset()..)))
    }
}

/// A baseline starts from nothing, and a delta ends after it starts.
fn check_ticks(kind: MessageKind, since: u64, tick: u64) -> Result<(), String> {
    match kind {
        MessageKind::Baseline if since != 0 => {
            Err(format!("a baseline starts from tick {since} and not from nothing"))
        }
        MessageKind::Delta if since >= tick => Err(format!("a delta from tick {since} ends at tick {tick}")),
        _ => Ok(()),
    }
}

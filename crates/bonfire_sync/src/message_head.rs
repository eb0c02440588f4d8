//! The head of a message of any kind, for tools that look at all of them.

use bonfire::Result;
use bonfire::schema::Fingerprint;
use bytes::Bytes;

use crate::envelope::{Head, WireKind};
use crate::limits::MessageLimits;

/// The kind of any message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnyMessageKind {
    /// A [`Message`](crate::Message) with all of a world.
    Baseline,
    /// A [`Message`](crate::Message) with what has changed.
    Delta,
    /// A [`CatchUpRequest`](crate::CatchUpRequest).
    Request,
    /// A [`StructuralLog`](crate::StructuralLog).
    StructuralLog,
}

/// The head of a message. Lengths, checksum and codec were checked, the content of the payload was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHead {
    /// What the message is.
    pub kind: AnyMessageKind,
    /// The number of the stream.
    pub stream: u64,
    /// The tick after which it tells.
    pub since: u64,
    /// The tick up to which it tells; that of the mirror, in a request.
    pub tick: u64,
    /// The fingerprint of the components.
    pub schema: Fingerprint,
    /// Counts the messages of a stream.
    pub sequence: u32,
    /// Bytes of the payload after decompression.
    pub payload_bytes: u32,
}

impl MessageHead {
    /// Reads the head of a message.
    ///
    /// ```
    /// use bonfire::schema::Fingerprint;
    /// use bonfire_sync::{AnyMessageKind, MessageLimits, MessageHead, CatchUpRequest};
    ///
    /// let request = CatchUpRequest { stream: 7, have: Some(31), schema: Fingerprint([9; 16]) }.encode()?;
    /// let head = MessageHead::read(&request, &MessageLimits::default())?;
    /// assert_eq!((head.kind, head.stream, head.tick), (AnyMessageKind::Request, 7, 31));
    /// # Ok::<(), bonfire::Error>(())
    /// ```
    pub fn read(bytes: &Bytes, limits: &MessageLimits) -> Result<Self> {
        let (Head { kind, stream, since, tick, schema, sequence }, payload) = Head::decode(bytes, limits)?;
        let kind = match kind {
            WireKind::Baseline => AnyMessageKind::Baseline,
            WireKind::Delta => AnyMessageKind::Delta,
            WireKind::RequestAll | WireKind::RequestSince => AnyMessageKind::Request,
            WireKind::StructuralLog => AnyMessageKind::StructuralLog,
        };
        Ok(Self { kind, stream, since, tick, schema, sequence, payload_bytes: payload.len() as u32 })
    }
}

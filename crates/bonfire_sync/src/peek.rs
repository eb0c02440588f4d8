//! What a message says of itself, whatever kind it is: for tools that look at all of them.

use bonfire::schema::Fingerprint;
use bonfire::{Error, Result};
use bytes::Bytes;

use crate::envelope::Head;
use crate::limits::MessageLimits;

/// Which of all kinds a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnyKind {
    /// A [`Message`](crate::Message) with all of a world.
    Baseline,
    /// A [`Message`](crate::Message) with what has changed.
    Delta,
    /// A [`Request`](crate::Request).
    Request,
    /// A [`StructuralLog`](crate::StructuralLog).
    StructuralLog,
}

/// The head of a message. Lengths, checksum and codec were right; what the payload holds was not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peek {
    /// What the message is.
    pub kind: AnyKind,
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

impl Peek {
    /// Looks at the head of a message.
    ///
    /// ```
    /// use bonfire::schema::Fingerprint;
    /// use bonfire_sync::{AnyKind, MessageLimits, Peek, Request};
    ///
    /// let request = Request { stream: 7, have: Some(31), schema: Fingerprint([9; 16]) }.encode()?;
    /// let peek = Peek::of(&request, &MessageLimits::default())?;
    /// assert_eq!((peek.kind, peek.stream, peek.tick), (AnyKind::Request, 7, 31));
    /// # Ok::<(), bonfire::Error>(())
    /// ```
    pub fn of(bytes: &Bytes, limits: &MessageLimits) -> Result<Self> {
        let (Head { kind, stream, since, tick, schema, sequence }, payload) = Head::decode(bytes, limits)?;
        let kind = match kind {
            1 => AnyKind::Baseline,
            2 => AnyKind::Delta,
            3 | 4 => AnyKind::Request,
            5 => AnyKind::StructuralLog,
            kind => return Err(Error::corrupt(format!("kind {kind} is not one of this version"))),
        };
        Ok(Self { kind, stream, since, tick, schema, sequence, payload_bytes: payload.len() as u32 })
    }
}

//! The request of a mirror to its server. The envelope is that of all messages, and there is no payload.

use bonfire::schema::Fingerprint;
use bonfire::{Error, Result};
use bytes::Bytes;

use crate::compression::MessageCompression;
use crate::envelope::{Head, WireKind};
use crate::limits::MessageLimits;

/// Asks a server for the messages after the tick that the mirror has, or for a baseline.
///
/// ```
/// use bonfire::schema::Fingerprint;
/// use bonfire_sync::CatchUpRequest;
///
/// let request = CatchUpRequest { stream: 7, have: Some(31), schema: Fingerprint([9; 16]) };
/// let bytes = request.encode()?;
/// assert_eq!(bytes.len(), 64);
/// assert_eq!(CatchUpRequest::decode(&bytes)?, request);
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatchUpRequest {
    /// The stream that the mirror follows; 0 if it follows none yet.
    pub stream: u64,
    /// The tick that the mirror is at. `None`: it has nothing, or nothing that can be built on.
    pub have: Option<u64>,
    /// The components that the mirror knows, so that a server can turn it away with a reason.
    pub schema: Fingerprint,
}

impl CatchUpRequest {
    /// The request as 64 bytes.
    pub fn encode(&self) -> Result<Bytes> {
        let kind = if self.have.is_some() { WireKind::RequestSince } else { WireKind::RequestAll };
        let tick = self.have.unwrap_or(0);
        let head = Head { kind, stream: self.stream, since: 0, tick, schema: self.schema, sequence: 0 };
        head.encode(&[], &MessageCompression::None)
    }

    /// The request that these bytes are, all of them.
    pub fn decode(bytes: &Bytes) -> Result<Self> {
        let (head, _) =
            Head::decode(bytes, &MessageLimits { payload_bytes_max: 0, ..MessageLimits::default() })?;
        let Head { kind, stream, since, tick, schema, sequence } = head;
        let have = match kind {
            WireKind::RequestSince => Some(tick),
            WireKind::RequestAll => None,
            WireKind::Baseline | WireKind::Delta | WireKind::StructuralLog => {
                return Err(Error::corrupt("a message of a stream came where requests are expected"));
            }
        };
        if since != 0 || sequence != 0 || (have.is_none() && tick != 0) {
            return Err(Error::corrupt("a request has numbers where it must have none"));
        }
        Ok(Self { stream, have, schema })
    }
}

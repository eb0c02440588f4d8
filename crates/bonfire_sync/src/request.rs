//! What a mirror asks its server for. The envelope is the same, and there is no payload.

use bonfire::schema::Fingerprint;
use bonfire::{Compression, Error, Result};
use bytes::Bytes;

use crate::envelope::Head;
use crate::limits::MessageLimits;

const KIND_ALL: u8 = 3;
const KIND_FROM: u8 = 4;

/// Asks a server for what a mirror lacks: the messages after the tick it has, or a baseline.
///
/// ```
/// use bonfire::schema::Fingerprint;
/// use bonfire_sync::Request;
///
/// let request = Request { stream: 7, have: Some(31), schema: Fingerprint([9; 16]) };
/// let bytes = request.encode()?;
/// assert_eq!(bytes.len(), 64);
/// assert_eq!(Request::decode(&bytes)?, request);
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The stream that the mirror follows; 0 if it follows none yet.
    pub stream: u64,
    /// The tick that the mirror is at. `None`: it has nothing, or nothing that can be built on.
    pub have: Option<u64>,
    /// The components that the mirror knows, so that a server can turn it away with a reason.
    pub schema: Fingerprint,
}

impl Request {
    /// The request as 64 bytes.
    pub fn encode(&self) -> Result<Bytes> {
        let kind = if self.have.is_some() { KIND_FROM } else { KIND_ALL };
        let tick = self.have.unwrap_or(0);
        let head = Head { kind, stream: self.stream, since: 0, tick, schema: self.schema, sequence: 0 };
        head.encode(&[], Compression::None)
    }

    /// The request that these bytes are, all of them.
    pub fn decode(bytes: &Bytes) -> Result<Self> {
        let (head, _) = Head::decode(bytes, &MessageLimits { payload_bytes_max: 0 })?;
        let Head { kind, stream, since, tick, schema, sequence } = head;
        let have = match kind {
            KIND_FROM => Some(tick),
            KIND_ALL => None,
            1 | 2 | 5 => {
                return Err(Error::corrupt("a message of a stream came where requests are expected"));
            }
            kind => return Err(Error::corrupt(format!("kind {kind} is not one of this version"))),
        };
        if since != 0 || sequence != 0 || (have.is_none() && tick != 0) {
            return Err(Error::corrupt("a request has numbers where it must have none"));
        }
        Ok(Self { stream, have, schema })
    }
}

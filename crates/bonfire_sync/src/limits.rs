//! Bounds on what a peer may make this side allocate, keep and do.

use bonfire::Limits;

use crate::compression::MessageCodecs;

/// What messages of unknown origin may be. Exceeding a bound is an error with [`is_limit`](bonfire::Error::is_limit), found
/// before anything is allocated.
#[derive(Clone, Debug)]
pub struct MessageLimits {
    /// Bytes of one payload, as it is sent and after decompression. Default: 64 MiB.
    pub payload_bytes_max: u32,
    /// Codecs of the game's own that payloads may be compressed with. A message with another one is refused with
    /// [`is_unsupported`](bonfire::Error::is_unsupported). Default: none.
    pub codecs: MessageCodecs,
}

impl Default for MessageLimits {
    fn default() -> Self {
        Self { payload_bytes_max: 64 << 20, codecs: MessageCodecs::new() }
    }
}

/// Bounds on the messages that wait for a mirror, and on the work of a frame.
#[derive(Clone, Debug)]
pub struct InboxLimits {
    /// Messages that may wait. Default: 4096.
    pub messages_max: usize,
    /// Bytes of all messages that wait. Default: 128 MiB.
    pub bytes_max: usize,
    /// Messages that one frame applies. Default: 1024.
    pub frame_messages_max: usize,
    /// Bytes of the messages that one frame applies. One message is always applied. Default: 64 MiB.
    pub frame_bytes_max: usize,
}

impl Default for InboxLimits {
    fn default() -> Self {
        Self { messages_max: 4096, bytes_max: 128 << 20, frame_messages_max: 1024, frame_bytes_max: 64 << 20 }
    }
}

/// Returns the limits of a mirror, for the content of messages: 64 MiB of one message, 256 MiB of decoded values, and
/// 1,048,576 mirrored entities. They are far below those of saves, because a server may send one message after the other.
///
/// ```
/// use bonfire::Limits;
///
/// let small = Limits { entities_max: 10_000, ..bonfire_sync::mirror_limits() };
/// ```
pub fn mirror_limits() -> Limits {
    Limits {
        raw_bytes_max: 64 << 20,
        memory_bytes_max: 256 << 20,
        entities_max: 1 << 20,
        ..Limits::default()
    }
}

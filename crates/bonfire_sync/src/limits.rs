//! What a peer may make this side allocate.

/// Bounds on messages of unknown origin. Exceeding one is an error with [`is_limit`](bonfire::Error::is_limit), found
/// before anything is allocated.
#[derive(Clone, Debug)]
pub struct MessageLimits {
    /// Bytes of one payload after decompression. Default: 256 MiB.
    pub payload_bytes_max: u32,
}

impl Default for MessageLimits {
    fn default() -> Self {
        Self { payload_bytes_max: 256 << 20 }
    }
}

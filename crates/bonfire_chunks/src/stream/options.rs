//! Bounds of a stream.

/// Bounds of a [`ChunkStream`](super::ChunkStream).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamOptions {
    /// Chunks that may be loading at the same time. Default: 64. Others wait in the window, so that the nearest come first
    /// when a player turns around.
    pub loads_in_flight: usize,
    /// Bytes of chunks that have left and are not durable. While there are more, nothing leaves. Default: 256 MiB.
    pub unsaved_bytes_max: u64,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self { loads_in_flight: 64, unsaved_bytes_max: 256 << 20 }
    }
}

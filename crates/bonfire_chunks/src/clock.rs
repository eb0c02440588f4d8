//! The one place that asks what time it is.

/// Seconds since 1970; 0 where there is no clock.
pub(crate) fn unix_seconds() -> u64 {
    #[cfg(not(target_arch = "wasm32"))]
    {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }
    #[cfg(target_arch = "wasm32")]
    {
        0
    }
}

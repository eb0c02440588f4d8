//! The version lines that a save lists in its metadata.

use std::collections::BTreeMap;

use super::Snapshot;
use crate::value::Value;

/// Where a save lists its tracks.
pub(crate) const TRACKS: &str = "bonfire.tracks";

impl Snapshot {
    /// The version lines of the game and its plugins, as the save lists them.
    pub fn tracks(&self) -> BTreeMap<String, u32> {
        tracks_of(self.metadata())
    }
}

/// Tracks from metadata.
pub(crate) fn tracks_of(metadata: &[(String, Value)]) -> BTreeMap<String, u32> {
    let entry = metadata.iter().find(|(name, _)| name == TRACKS);
    let Some((_, Value::Map(entries))) = entry else { return BTreeMap::new() };
    let version = |(name, version): &(Value, Value)| match (name, version) {
        (Value::Text(name), Value::U64(version)) => Some((name.clone(), u32::try_from(*version).ok()?)),
        _ => None,
    };
    entries.iter().filter_map(version).collect()
}

/// Tracks as metadata.
pub(crate) fn to_value(tracks: &BTreeMap<String, u32>) -> Value {
    Value::Map(tracks.iter().map(|(name, version)| (name.as_str().into(), (*version).into())).collect())
}

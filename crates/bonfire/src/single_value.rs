//! A single value as a save of its own: settings, profiles, a high-score list. The same container as a world, so it is
//! checksummed, describes itself, and every tool can show it.

use crate::capture::SnapshotWriter;
use crate::descriptor::Keyed;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::load::{LoadOptions, LoadPlan};
use crate::registry::Registry;
use crate::snapshot::{EncodeOptions, OpenOptions};

/// Encodes a value with its key, version and schema.
///
/// ```
/// use bonfire::{Persist, decode_one, encode_one};
///
/// #[derive(Debug, PartialEq, Persist)]
/// #[persist(key = "game.settings")]
/// struct Settings { volume: f32, name: String }
///
/// let settings = Settings { volume: 0.5, name: "Ada".into() };
/// let bytes = encode_one(&settings)?;
/// assert_eq!(decode_one::<Settings>(&bytes)?, settings);
/// # Ok::<(), bonfire::Error>(())
/// ```
pub fn encode_one<T: Keyed>(value: &T) -> Result<Vec<u8>> {
    let mut registry = Registry::new();
    registry.register::<T>()?;
    if T::TRANSIENT {
        return Err(Error::misuse("a transient type is never saved").in_key(T::KEY));
    }
    let mut writer = SnapshotWriter::new(&registry);
    writer.resource(value)?;
    Ok(writer.finish()?.encode(&EncodeOptions::default())?.to_vec())
}

/// Decodes what [`encode_one`] made.
pub fn decode_one<T: Keyed>(bytes: &[u8]) -> Result<T> {
    decode_one_in(bytes, &Limits::default())
}

/// Decodes what [`encode_one`] made, within limits.
pub fn decode_one_in<T: Keyed>(bytes: &[u8], limits: &Limits) -> Result<T> {
    let mut registry = Registry::new();
    registry.register::<T>()?;
    let snapshot = OpenOptions::new().limits(limits.clone()).registry(&registry).open(bytes)?;
    let snapshot = snapshot.migrated_in(&registry, limits)?;
    let plan = LoadPlan::new(&snapshot, &registry, LoadOptions::default().limits(limits.clone()))?;
    let value = plan.stage_unmapped()?.take_resource::<T>();
    value.ok_or_else(|| Error::unknown("the bytes hold no such value").in_key(T::KEY))
}

#[cfg(test)]
#[expect(unsafe_code, reason = "the layout of a derived type")]
mod tests {
    use super::*;
    use crate::entity::EntityId;

    #[derive(Debug, PartialEq, bonfire_derive::Persist)]
    #[persist(key = "game.target", crate = crate)]
    struct Target(EntityId);

    #[test]
    fn references_are_left_as_they_are() {
        let target = Target(EntityId::new(5, 1));
        assert_eq!(decode_one::<Target>(&encode_one(&target).unwrap()).unwrap(), target);
    }
}

//! A save as this build would have written it, without a world in between: what `bonfire migrate` does.

use std::collections::HashMap;

use super::track::TRACKS;
use crate::entity::EntityId;
use crate::error::{Error, Result};
use crate::load::{LoadOptions, LoadPlan, LoadReport};
use crate::registry::Registry;
use crate::snapshot::{Snapshot, SnapshotWriter};

impl Snapshot {
    /// The save as the registered types would have written it: all migrations have run, every component has its newest
    /// version and schema, ids are as they were, and what is unknown is carried if `options` say so. The report says what
    /// was done; to only know that, drop the snapshot.
    ///
    /// ```
    /// # use bonfire::{Persist, Registry, LoadOptions, Snapshot, encode_one};
    /// # #[derive(Persist)]
    /// # #[persist(key = "game.settings")]
    /// # struct Settings { volume: f32 }
    /// # let old = encode_one(&Settings { volume: 1.0 })?;
    /// # let registry = Registry::new().with::<Settings>()?;
    /// let (new, report) = Snapshot::open(&old)?.rewritten(&registry, LoadOptions::default())?;
    /// println!("{report}");
    /// let bytes = new.to_bytes()?;
    /// # Ok::<(), bonfire::Error>(())
    /// ```
    pub fn rewritten(&self, registry: &Registry, options: LoadOptions) -> Result<(Self, LoadReport)> {
        let migrated = self.migrated(registry)?;
        let plan = LoadPlan::new(&migrated, registry, options)?;
        let staged = plan.stage(&plan.same_entities()?, None)?;
        let mut writer = SnapshotWriter::new(registry);
        writer.next_entity_id(migrated.next_entity_id);
        for (name, value) in migrated.metadata().iter().filter(|(name, _)| name != TRACKS) {
            writer.metadata(name.clone(), value.clone());
        }
        // Ids stay as they are, and so does all data: it is not unknown, there is only nobody who asks for it.
        migrated.data().iter().for_each(|entry| writer.data_entry(entry.clone()));
        for archetype in &staged.archetypes {
            let mut target = writer.archetype(&archetype.ids)?;
            for (number, column) in &archetype.columns {
                target.staged(*number, column)?;
            }
            for extra in &staged.extras {
                let present = (0..extra.ids.len()).filter(|&row| extra.column.is_present(row));
                let rows: HashMap<EntityId, usize> = present.map(|row| extra.ids[row]).zip(0..).collect();
                let rows: Vec<Option<usize>> = archetype.ids.iter().map(|id| rows.get(id).copied()).collect();
                if rows.iter().all(Option::is_none) {
                    continue;
                }
                if archetype.columns.iter().any(|(number, _)| *number == extra.component) {
                    let key = registry.descriptors()[extra.component].key();
                    let message =
                        "some entities have it and others had it carried: load and save it with the game";
                    return Err(Error::unsupported(message).in_key(key));
                }
                target.staged_some(extra.component, &extra.column, &rows)?;
            }
        }
        for (number, column) in &staged.resources {
            writer.resources().staged(*number, column)?;
        }
        writer.carry(&staged.carry);
        let mut report = staged.report;
        report.unclaimed_data.clear();
        Ok((writer.finish()?, report))
    }
}

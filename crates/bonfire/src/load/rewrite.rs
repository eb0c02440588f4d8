//! A save as this build would have written it, without a world in between: what `bonfire migrate` does.

use std::collections::{BTreeMap, HashMap};

use super::{LoadOptions, LoadPlan, LoadReport, StagedArchetype, StagedExtra};
use crate::capture::SnapshotWriter;
use crate::descriptor::StagedColumn;
use crate::entity::EntityId;
use crate::error::Result;
use crate::registry::Registry;
use crate::snapshot::{Snapshot, TRACKS};

impl Snapshot {
    /// The save as the registered types would have written it: all migrations have run, every component has its newest
    /// version and schema, ids are as they were, and what is unknown is carried if `options` say so. The report says what
    /// was done; to only know that, drop the snapshot.
    ///
    /// ```
    /// # use bonfire::{LoadOptions, Persist, Registry, Snapshot, encode_one};
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
        let limits = options.limits.clone().unwrap_or_default();
        let migrated = self.migrated_in(registry, &limits)?;
        let plan = LoadPlan::new(&migrated, registry, options)?;
        let staged = plan.stage(&plan.same_entities()?, None)?;
        let mut writer = SnapshotWriter::new(registry);
        writer.next_entity_id(migrated.next_entity_id);
        for (name, value) in migrated.metadata().iter().filter(|(name, _)| name != TRACKS) {
            writer.metadata(name.clone(), value.clone());
        }
        // Ids stay as they are, and so does all data: it is not unknown, there is only nobody who asks for it.
        migrated.data().iter().for_each(|entry| writer.data_entry(entry.clone()));
        let extras: Vec<Extra<'_>> = staged.extras.iter().map(Extra::new).collect();
        for archetype in &staged.archetypes {
            let mut target = writer.archetype(&archetype.ids)?;
            for (number, rows) in rows_of(archetype, &extras) {
                target.staged(number, &rows)?;
            }
        }
        for (number, column) in &staged.resources {
            writer.resources().staged(*number, &[Some((column, 0))])?;
        }
        writer.carry(&staged.carry);
        let mut report = staged.report;
        report.unclaimed_data.clear();
        Ok((writer.finish()?, report))
    }
}

/// A component for entities of any archetypes, by their ids.
struct Extra<'a> {
    component: usize,
    column: &'a StagedColumn<'a>,
    rows: HashMap<EntityId, usize>,
}

impl<'a> Extra<'a> {
    fn new(extra: &'a StagedExtra<'a>) -> Self {
        let present = (0..extra.ids.len()).filter(|&row| extra.column.is_present(row));
        let rows = present.map(|row| extra.ids[row]).zip(0..).collect();
        Self { component: extra.component, column: &extra.column, rows }
    }
}

type Rows<'a> = Vec<Option<(&'a StagedColumn<'a>, usize)>>;

/// Where the values of an archetype's entities lie, by component. What comes back from being carried wins, as in a load.
fn rows_of<'a>(archetype: &'a StagedArchetype<'a>, extras: &[Extra<'a>]) -> BTreeMap<usize, Rows<'a>> {
    let mut components: BTreeMap<usize, Rows<'a>> = BTreeMap::new();
    for (number, column) in &archetype.columns {
        let mut next = 0..column.len();
        let row = |row: usize| column.is_present(row).then(|| next.next().map(|row| (column, row))).flatten();
        components.insert(*number, (0..archetype.ids.len()).map(row).collect());
    }
    for extra in extras {
        for (place, id) in archetype.ids.iter().enumerate() {
            if let Some(&row) = extra.rows.get(id) {
                let rows = components.entry(extra.component);
                rows.or_insert_with(|| vec![None; archetype.ids.len()])[place] = Some((extra.column, row));
            }
        }
    }
    components
}

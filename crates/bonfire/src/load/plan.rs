//! What happens to each saved component, decided before anything is decoded.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::options::{LoadOptions, Unknown};
use crate::bulk::CopyPath;
use crate::column::Component;
use crate::context::{Dangling, SchemaChange};
use crate::entity::{EntityId, EntityMap, NewIds, check_ids};
use crate::error::{Error, Result};
use crate::evolve::{self, Resolution, UpgradePath, resolve};
use crate::limits::Limits;
use crate::registry::Registry;
use crate::snapshot::Snapshot;
use crate::snapshot::carry::CarryKind;
use crate::storage::Rope;

/// A snapshot, and what loading it will do.
///
/// ```
/// # use bonfire::engine::*;
/// # use bonfire::*;
/// # use bonfire::engine::*;
/// # let registry = Registry::new();
/// # let snapshot = SnapshotWriter::new(&registry).finish()?;
/// let snapshot = snapshot.migrated(&registry)?; // what world migrations make of it
/// let plan = LoadPlan::new(&snapshot, &registry, LoadOptions::default())?;
/// let saved = plan.entities();
/// let new: Vec<EntityId> = (0..saved.len() as u32).map(|index| EntityId::new(index, 0)).collect();
/// let map = plan.entity_map(new)?;
/// let staged = plan.stage(&map, None)?; // the last step that may fail
/// for mut archetype in staged.archetypes {
///     let healths = archetype.take::<f32>().map(|column| column.into_rows::<f32>()).transpose()?;
/// }
/// # Ok::<(), bonfire::Error>(())
/// ```
pub struct LoadPlan<'s, 'r> {
    pub(super) snapshot: &'s Snapshot,
    pub(super) registry: &'r Registry,
    pub(super) unknown: Unknown,
    pub(super) dangling: Dangling,
    pub(super) limits: Limits,
    copies: CopyPath,
    pub(super) resolutions: Vec<Resolution>,
    /// For components that need one.
    pub(super) paths: Vec<Option<UpgradePath>>,
    /// The places of entities outside of the save.
    pub(super) outside: EntityMap,
}

impl<'s, 'r> LoadPlan<'s, 'r> {
    /// Resolves every saved component. Fails if one cannot be loaded, or is unknown and refused, or if the save needs world
    /// migrations that did not run: see [`Snapshot::migrated`].
    pub fn new(snapshot: &'s Snapshot, registry: &'r Registry, options: LoadOptions) -> Result<Self> {
        evolve::check_migrated(snapshot, registry)?;
        // Fields that some older type had share the key of the component but are not it.
        let fields = snapshot.carried.iter().filter(|record| record.kind == CarryKind::Fields);
        let fields: HashSet<u32> = fields.map(|record| record.column.component).collect();
        let (mut resolutions, mut paths) = (Vec::new(), Vec::new());
        for (component, number) in snapshot.components().iter().zip(0_u32..) {
            let (resolution, path) = match fields.contains(&number) {
                true => (Resolution::Unknown, None),
                false => resolve(component, registry)?,
            };
            if options.unknown == Unknown::Refuse && !fields.contains(&number) {
                if resolution == Resolution::Unknown {
                    return Err(unregistered(component));
                }
                let unknown = |change: &&SchemaChange| matches!(change, SchemaChange::Unknown { .. });
                if let Some(change) = resolution.changes().iter().find(unknown) {
                    return Err(unknown_field(component, change));
                }
            }
            resolutions.push(resolution);
            paths.push(path);
        }
        let LoadOptions { mode: (), unknown, dangling, limits, budget: _, row_order: _, portable } = options;
        let limits = limits.unwrap_or_default();
        let copies = if portable { CopyPath::Portable } else { CopyPath::Bulk };
        let outside = EntityMap::default();
        let plan =
            Self { snapshot, registry, unknown, dangling, limits, copies, resolutions, paths, outside };
        plan.check_targets()?;
        Ok(plan)
    }

    /// Two columns of an archetype must not become the same component.
    fn check_targets(&self) -> Result<()> {
        let archetypes = self.snapshot.archetypes.iter().map(|archetype| &archetype.columns);
        // By registered component, the archetype that had it last.
        let mut seen = vec![None; self.registry.descriptors().len()];
        for (number, columns) in archetypes.chain([&self.snapshot.resources]).enumerate() {
            for column in columns {
                if let Some(target) = self.resolutions[column.component as usize].target()
                    && seen[target].replace(number) == Some(number)
                {
                    let key = &self.snapshot.components[column.component as usize].key;
                    let now = self.registry.descriptors()[target].key();
                    if key != now {
                        let message = format!(
                            "it is `{now}` now, and an entity has both: a world migration can choose"
                        );
                        return Err(Error::schema(message).in_key(key));
                    }
                    return Err(Error::corrupt("an archetype has the component twice").in_key(key));
                }
            }
        }
        Ok(())
    }

    /// The saved ids that need new ones, archetype by archetype, in row order.
    pub fn entities(&self) -> Vec<EntityId> {
        self.snapshot.entities()
    }

    /// Saved entities and their new ids, in the order of [`LoadPlan::entities`]. Cheaper than [`EntityMap::new`] if nothing
    /// refers to an entity. Fails if an id is null or there twice, or the lengths differ.
    pub fn entity_map(&self, new: impl Into<Arc<Vec<EntityId>>>) -> Result<EntityMap> {
        let (saved, count, new) = (self.saved_ids(), self.snapshot.entity_count(), new.into());
        if new.len() != count {
            return Err(Error::misuse(format!("{count} saved ids, but {} new ones", new.len())));
        }
        check_ids(&saved, self.snapshot.next_entity_id)?;
        Ok(EntityMap::lazy(saved, count, NewIds::All(new)))
    }

    /// Every saved entity keeps its id. Fails if an id is null or there twice.
    pub fn same_entities(&self) -> Result<EntityMap> {
        let saved = self.saved_ids();
        check_ids(&saved, self.snapshot.next_entity_id)?;
        Ok(EntityMap::lazy(saved, self.snapshot.entity_count(), NewIds::Same(HashMap::new())))
    }

    /// The entities that the save refers to and does not have, with their stable ids, in ascending order. `None` if the save
    /// was not asked to store them. Fails if they are damaged, or more than the limits allow.
    pub fn outside(&self) -> Result<Option<Vec<(EntityId, u64)>>> {
        self.snapshot.outside(&self.limits)
    }

    /// The stable ids of the saved entities, by their place in the order of [`LoadPlan::entities`].
    pub fn stable_ids(&self) -> Vec<(usize, u64)> {
        self.snapshot.stable_ids(&self.limits)
    }

    /// Says what entities outside of the save are in the world. Null stands for one that can be found only where the world is:
    /// [`LoadPlan::stage_without_world`] leaves out the columns that refer to it.
    pub fn with_outside(mut self, outside: EntityMap) -> Self {
        self.outside = outside;
        self
    }

    fn saved_ids(&self) -> Arc<[Rope]> {
        self.snapshot.archetypes.iter().map(|archetype| archetype.ids.clone()).collect()
    }

    pub(super) fn copies(&self) -> CopyPath {
        self.copies
    }

    /// The rows of all columns.
    pub(super) fn rows(&self) -> u64 {
        let Snapshot { archetypes, resources, carried, .. } = self.snapshot;
        let columns = archetypes.iter().flat_map(|archetype| &archetype.columns).chain(resources);
        columns.chain(carried.iter().map(|record| &record.column)).map(|column| column.rows as u64).sum()
    }

    /// What happens to each component of [`Snapshot::components`].
    pub fn resolutions(&self) -> &[Resolution] {
        &self.resolutions
    }

    /// The limits that decoding keeps to.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The snapshot that is loaded.
    pub fn snapshot(&self) -> &'s Snapshot {
        self.snapshot
    }
}

pub(super) fn unregistered(component: &Component) -> Error {
    Error::unknown("it is in the save but not registered: register it, or load with `Unknown::Keep`")
        .in_key(&component.key)
}

fn unknown_field(component: &Component, change: &SchemaChange) -> Error {
    Error::unknown(format!("{change}: add it, or load with `Unknown::Keep`")).in_key(&component.key)
}

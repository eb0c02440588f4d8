//! What happens to each saved component, decided before anything is decoded.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::context::Dangling;
use crate::descriptor::Descriptor;
use crate::entity::{EntityId, EntityMap, NewIds, check_ids};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::registry::Registry;
use crate::snapshot::carry::CarryKind;
use crate::snapshot::{Component, Rope, Snapshot};

/// What happens to components, resources and data that this build does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Unknown {
    /// They are carried and written again by the next save.
    #[default]
    Keep,
    /// They are dropped, and the report says so.
    Drop,
    /// The load is refused. Data that nobody asks for is dropped, and the report says so: who will ask is not known
    /// before the world is loaded.
    Refuse,
}

/// How a snapshot is loaded.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Components and data that are not registered. Default: kept.
    pub unknown: Unknown,
    /// References to entities that are not in the save. Default: null.
    pub dangling: Dangling,
    /// What decoding may cost.
    pub limits: Limits,
    /// Uses the portable twin of every bulk copy: slower, the same values.
    pub portable: bool,
}

/// What a load does with one saved component.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resolution {
    /// Loaded as it is, into the registered component with this number.
    Same(usize),
    /// Loaded field by field: the same fields, laid out in another way by the compiler that made the save.
    OtherLayout(usize),
    /// Dropped: this build has the component as transient.
    Transient(usize),
    /// Not registered: carried, dropped or refused.
    Unknown,
}

impl Resolution {
    /// The number of the registered component that the rows go to.
    pub fn target(&self) -> Option<usize> {
        match self {
            Self::Same(index) | Self::OtherLayout(index) => Some(*index),
            Self::Transient(_) | Self::Unknown => None,
        }
    }
}

/// A snapshot, and what loading it will do.
///
/// ```
/// # use bonfire::*;
/// # let registry = Registry::new();
/// # let snapshot = SnapshotWriter::new(&registry).finish()?;
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
    pub(super) options: LoadOptions,
    pub(super) resolutions: Vec<Resolution>,
}

impl<'s, 'r> LoadPlan<'s, 'r> {
    /// Resolves every saved component. Fails if one cannot be loaded, or is unknown and refused.
    pub fn new(snapshot: &'s Snapshot, registry: &'r Registry, options: LoadOptions) -> Result<Self> {
        // Fields that some older type had share the key of the component but are not it.
        let fields = snapshot.carried.iter().filter(|record| record.kind == CarryKind::Fields);
        let fields: HashSet<u32> = fields.map(|record| record.column.component).collect();
        let resolutions = (snapshot.components().iter().zip(0_u32..))
            .map(|(component, number)| {
                if fields.contains(&number) {
                    return Ok(Resolution::Unknown);
                }
                let resolution = resolve(component, registry)?;
                if resolution == Resolution::Unknown && options.unknown == Unknown::Refuse {
                    return Err(unregistered(component));
                }
                Ok(resolution)
            })
            .collect::<Result<Vec<_>>>()?;
        let plan = Self { snapshot, registry, options, resolutions };
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
        Ok(EntityMap::later(saved, count, NewIds::All(new)))
    }

    /// Every saved entity keeps its id. Fails if an id is null or there twice.
    pub fn same_entities(&self) -> Result<EntityMap> {
        let saved = self.saved_ids();
        check_ids(&saved, self.snapshot.next_entity_id)?;
        Ok(EntityMap::later(saved, self.snapshot.entity_count(), NewIds::Same(HashMap::new())))
    }

    fn saved_ids(&self) -> Arc<[Rope]> {
        self.snapshot.archetypes.iter().map(|archetype| archetype.ids.clone()).collect()
    }

    /// What happens to each component of [`Snapshot::components`].
    pub fn resolutions(&self) -> &[Resolution] {
        &self.resolutions
    }

    /// The snapshot that is loaded.
    pub fn snapshot(&self) -> &'s Snapshot {
        self.snapshot
    }
}

/// How a saved component becomes a registered one. The evolution of schemas has its place here: by name, by migration.
pub(super) fn resolve(component: &Component, registry: &Registry) -> Result<Resolution> {
    let Some(index) = registry.index_of_key(&component.key) else { return Ok(Resolution::Unknown) };
    let descriptor = &registry.descriptors()[index];
    if descriptor.is_transient() {
        return Ok(Resolution::Transient(index));
    }
    check_version(component, descriptor).map_err(|error| error.in_key(&component.key))?;
    if component.schema_fingerprint != descriptor.schema().fingerprint() {
        let difference = component.schema()?.difference(descriptor.schema()).unwrap_or_default();
        return Err(Error::schema(format!(
            "the save's fields are not those of this build and no migration is registered: {difference}"
        ))
        .in_key(&component.key));
    }
    Ok(match component.row == descriptor.row {
        true => Resolution::Same(index),
        false => Resolution::OtherLayout(index),
    })
}

fn check_version(component: &Component, descriptor: &Descriptor) -> Result<()> {
    let (saved, known) = (component.version, descriptor.version());
    if saved > known {
        let message = format!("version {saved} is newer than this build ({known}): update the game");
        return Err(Error::newer_format(message));
    }
    if saved < known {
        let message = format!("version {saved} needs a migration to version {known}, and none is registered");
        return Err(Error::schema(message));
    }
    Ok(())
}

pub(super) fn unregistered(component: &Component) -> Error {
    Error::unknown("it is in the save but not registered: register it, or load with `Unknown::Keep`")
        .in_key(&component.key)
}

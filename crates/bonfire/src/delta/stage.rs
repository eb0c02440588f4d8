//! A delta to values of a front end's types: the last step that may fail.

use std::any::Any;

use super::{Delta, DeltaOp, DeltaSchema};
use crate::bulk::CopyPath;
use crate::column::Column;
use crate::context::{Dangling, LoadContext};
use crate::descriptor::StagedColumn;
use crate::entity::{EntityId, EntityMap};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::registry::Registry;

/// Everything that applying a delta needs. Dropping it undoes nothing, because nothing was done yet.
pub struct StagedDelta<'d> {
    /// Groups of entities, in the order of the delta.
    pub groups: Vec<StagedGroup<'d>>,
    /// Resources by number in the registry: one row, or gone.
    pub resources: Vec<(usize, Option<StagedColumn<'d>>)>,
}

/// Entities of which the same is told.
pub struct StagedGroup<'d> {
    /// Whether they have come. One that is known has what is told here and nothing else.
    pub spawned: bool,
    /// As the delta knows them.
    pub ids: &'d [EntityId],
    /// Component by component.
    pub changes: Vec<StagedChange<'d>>,
}

/// What entities have of one component afterwards.
pub struct StagedChange<'d> {
    /// Its number in the registry.
    pub component: usize,
    /// What became of it.
    pub op: DeltaOp,
    /// A value for those entities that have one; the others have none afterwards. `None`: nobody has.
    pub column: Option<StagedColumn<'d>>,
}

impl Delta {
    /// Decodes all values, with references mapped. References to entities that the map does not have become null, also
    /// in lists: a mirror has lists of the same length, and the reference may be mapped later.
    pub fn stage<'d>(
        &'d self,
        registry: &Registry,
        schema: &DeltaSchema,
        map: &EntityMap,
        limits: &Limits,
        world: Option<&dyn Any>,
    ) -> Result<StagedDelta<'d>> {
        schema.check(&self.table)?;
        if self.has_fields() {
            return Err(Error::misuse("fields must be made whole first: see `Delta::with_whole_components`"));
        }
        let mut context = LoadContext::new(limits).entities(map, Dangling::Null);
        if let Some(world) = world {
            context = context.with_world(world);
        }
        let decode = |column: &'d Column| -> Result<StagedColumn<'d>> {
            let descriptor = &registry.descriptors()[schema.registered(column.component)];
            let component = self.table.get(column.component);
            let staged = descriptor.column.decode(column, component, None, &context, CopyPath::Bulk);
            staged.map_err(|error| error.in_key(&component.key))
        };
        let mut groups = Vec::with_capacity(self.groups.len());
        for group in &self.groups {
            context.grant_rows(group.ids.len());
            let mut changes = Vec::with_capacity(group.changes.len());
            for change in &group.changes {
                let column = (change.op != DeltaOp::Removed).then(|| decode(&change.column)).transpose()?;
                let component = schema.registered(change.column.component);
                changes.push(StagedChange { component, op: change.op, column });
            }
            groups.push(StagedGroup { spawned: group.spawned, ids: &group.ids, changes });
        }
        let resource = |(number, column): &'d (u32, Option<Column>)| {
            Ok((schema.registered(*number), column.as_ref().map(decode).transpose()?))
        };
        let resources = self.resources.iter().map(resource).collect::<Result<_>>()?;
        registry.end_load(&context.sessions)?;
        Ok(StagedDelta { groups, resources })
    }

    /// Lists of sources in their order: the number of the relationship in the registry, the target, the sources.
    pub fn lists<'d>(
        &'d self,
        schema: &'d DeltaSchema,
    ) -> impl Iterator<Item = (usize, EntityId, &'d [EntityId])> + 'd {
        self.lists.iter().map(|list| (schema.registered(list.component), list.target, &*list.sources))
    }
}

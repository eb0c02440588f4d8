//! Reads descriptions and cuts the columns out of their section.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::{SCHEMA_INLINE, encoding};
use crate::column::{Body, Column, ColumnKind, Component, Group, Groups, Indices};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::row::RowLayout;
use crate::schema::{Fingerprint, ROW_LEAVES_MAX, Schema};
use crate::snapshot::carry::{Carried, CarryKind};
use crate::snapshot::salvage::{LostRanges, RowRanges};
use crate::snapshot::{Archetype, FORMAT_VERSION, SharedTable, Snapshot};
use crate::storage::{Bitmap, Rope};
use crate::wire::Reader;

/// A component is there for its rows, and once more for each kind of carried data.
const SAME_FORMS_MAX: u32 = 4;

/// Finds a schema by its fingerprint, in the file or elsewhere; the flag says that the file must have it.
type Resolve<'a> = dyn Fn(Fingerprint, bool) -> Result<Option<Arc<Schema>>> + 'a;

pub(in crate::snapshot) fn decode_schemas(
    input: &mut Reader<'_>,
    limits: &Limits,
) -> Result<HashMap<Fingerprint, Arc<Schema>>> {
    let count = input.bounded(u64::from(limits.components_max), "schemas")?;
    let mut schemas = HashMap::new();
    for _ in 0..count {
        let fingerprint = Fingerprint(input.array()?);
        let schema = Schema::decode(input.blob()?, limits)?;
        if schema.fingerprint() != fingerprint {
            return Err(input.corrupt("a schema does not match its fingerprint"));
        }
        schemas.insert(fingerprint, Arc::new(schema));
    }
    Ok(schemas)
}

/// Reads descriptions and cuts the columns out of their section.
pub(in crate::snapshot) struct Finder<'a> {
    pub(in crate::snapshot) input: Reader<'a>,
    /// The columns section; salvage leaves it out if nothing of it can be read.
    pub(in crate::snapshot) columns: Bytes,
    pub(in crate::snapshot) limits: &'a Limits,
    pub(in crate::snapshot) lost: LostRanges,
    /// Where the last part ended: the next one must not begin before.
    pub(in crate::snapshot) end: u64,
}

impl Finder<'_> {
    fn part(&mut self) -> Result<(u64, Bytes)> {
        let (offset, len) = (self.input.varint()?, self.input.varint()?);
        let end = offset.checked_add(len).filter(|&end| end <= self.columns.len() as u64);
        let Some(end) = end else {
            return Err(self.input.corrupt(format!("{len} bytes at {offset} lie outside of the columns")));
        };
        if offset < self.end {
            return Err(self.input.corrupt(format!("the column at {offset} overlaps the one before")));
        }
        self.end = end;
        Ok((offset, self.columns.slice(offset as usize..end as usize)))
    }

    fn groups(&mut self) -> Result<(u64, Groups)> {
        let count = self.input.count(size_of::<Group>())?;
        let mut groups = Vec::new();
        let mut sum = 0_u64;
        for _ in 0..count {
            let rows = self.input.bounded(u64::from(u32::MAX), "rows in a group")? as u32;
            let bytes = self.input.varint()?;
            sum =
                sum.checked_add(bytes).ok_or_else(|| self.input.corrupt("groups are larger than memory"))?;
            groups.push(Group { rows, bytes });
        }
        let (offset, bytes) = self.part()?;
        if sum != bytes.len() as u64 {
            return Err(self.input.corrupt(format!("groups of {sum} bytes in a column of {}", bytes.len())));
        }
        Ok((offset, Groups::new(bytes, groups)))
    }

    /// Distinct values: at most one of them has no bytes.
    fn values(&mut self) -> Result<(u64, Groups)> {
        let (offset, groups) = self.groups()?;
        let (rows, bytes) = (groups.rows(), groups.bytes.len() as u64);
        if rows > bytes + 1 {
            return Err(self.input.corrupt(format!("{rows} distinct values in {bytes} bytes")));
        }
        Ok((offset, groups))
    }

    fn indices(&mut self, rows: usize) -> Result<(u64, Indices)> {
        let width = self.input.u8()?;
        let (offset, bytes) = self.part()?;
        let indices = Indices { width, bytes };
        indices.check(rows)?;
        Ok((offset, indices))
    }

    /// A column of an archetype with `rows` entities. `None` if damage took all of it.
    fn column(&mut self, rows: usize, snapshot: &Snapshot) -> Result<Option<Column>> {
        let number = self.input.varint()?;
        let component = usize::try_from(number).ok().and_then(|number| snapshot.components.get(number));
        let Some(component) = component else {
            let count = snapshot.components.len();
            return Err(self.input.corrupt(format!("component {number} of {count}")));
        };
        self.column_of(number as u32, component, rows, snapshot).map_err(|error| error.in_key(&component.key))
    }

    fn column_of(
        &mut self,
        number: u32,
        component: &Component,
        rows: usize,
        snapshot: &Snapshot,
    ) -> Result<Option<Column>> {
        self.limits.step(1)?;
        let byte = self.input.u8()?;
        let (present, own, mut whole) = match byte & encoding::PRESENCE {
            0 => (None, rows, true),
            _ => self.presence(rows)?,
        };
        let mut lost_rows = RowRanges::default();
        let body = match byte & !encoding::PRESENCE {
            encoding::TAG => Body::Tag,
            encoding::RAW => {
                let (offset, bytes) = self.part()?;
                let stride = component.row.stride as usize;
                if stride == 0 || Some(bytes.len()) != own.checked_mul(stride) {
                    let len = bytes.len();
                    return Err(self
                        .input
                        .corrupt(format!("{len} bytes are not {own} rows of {stride} bytes")));
                }
                lost_rows.add_fixed(&self.lost, offset, bytes.len() as u64, stride as u64);
                Body::Raw(bytes.into())
            }
            encoding::ROWS => {
                let (offset, groups) = self.groups()?;
                self.expect_rows(groups.rows(), own)?;
                lost_rows.add_groups(&self.lost, offset, &groups);
                Body::Rows(groups)
            }
            encoding::DICTIONARY => {
                let (values_offset, values) = self.values()?;
                whole &= !self.lost.touches(values_offset, values.bytes.len() as u64);
                let (offset, indices) = self.indices(own)?;
                lost_rows.add_fixed(&self.lost, offset, indices.bytes.len() as u64, u64::from(indices.width));
                Body::Dictionary { values, indices }
            }
            encoding::SHARED => {
                let table = self.input.varint()?;
                let shared = usize::try_from(table).ok().and_then(|table| snapshot.shared.get(table));
                let known = shared.filter(|shared| shared.component == number);
                if known.is_none() {
                    return Err(self.input.corrupt(format!("shared table {table} does not exist for it")));
                }
                whole &= !self.lost.tables.contains(&(table as u32));
                let (offset, indices) = self.indices(own)?;
                lost_rows.add_fixed(&self.lost, offset, indices.bytes.len() as u64, u64::from(indices.width));
                Body::Shared { table: table as u32, indices }
            }
            encoding => {
                return Err(Error::newer_format(format!(
                    "column encoding {encoding} is not known to this version"
                ))
                .at(self.input.offset()));
            }
        };
        let column = Column { component: number, present, rows: own, body };
        if !whole {
            self.lost.column(component, own);
            return Ok(None);
        }
        if lost_rows.is_empty() {
            return Ok(Some(column));
        }
        self.limits.step(rows)?;
        lost_rows.remove_from(column, rows, snapshot, self.limits, &mut self.lost)
    }

    /// The rows that have a value, how many those are, and whether that is undamaged.
    fn presence(&mut self, rows: usize) -> Result<(Option<Bitmap>, usize, bool)> {
        let claimed = self.input.bounded(rows as u64, "rows that have a value")? as usize;
        let (offset, bytes) = self.part()?;
        if self.lost.touches(offset, bytes.len() as u64) {
            return Ok((None, claimed, false));
        }
        let bitmap = Bitmap::from_bytes(&bytes, rows)
            .filter(|bitmap| bitmap.count() == claimed)
            .ok_or_else(|| self.input.corrupt("a presence bitmap does not fit its column"))?;
        Ok((Some(bitmap), claimed, true))
    }

    fn expect_rows(&self, found: u64, rows: usize) -> Result<()> {
        if found != rows as u64 {
            return Err(self.input.corrupt(format!("{found} rows in groups, {rows} expected")));
        }
        Ok(())
    }

    pub(in crate::snapshot) fn finish(&self) -> Result<()> {
        match self.input.remaining() {
            0 => Ok(()),
            left => Err(self.input.corrupt(format!("{left} bytes are left over"))),
        }
    }

    /// `version` is the header's, if that is whole; `resolve` finds schemas, in the file or elsewhere.
    pub(in crate::snapshot) fn prelude(
        &mut self,
        version: Option<u16>,
        resolve: &Resolve<'_>,
    ) -> Result<Snapshot> {
        let own = self.input.u16()?;
        if own > FORMAT_VERSION {
            return Err(Error::newer_format(format!("the prelude has version {own}: update the game")));
        }
        if own == 0 || version.is_some_and(|version| version != own) {
            return Err(self.input.corrupt(format!("the prelude has version {own}, the header another")));
        }
        let mut snapshot =
            Snapshot { next_entity_id: self.input.u64()?, format_version: Some(own), ..Snapshot::default() };
        let entity_count = self.input.bounded(u64::from(self.limits.entities_max), "entities")?;
        let count = self.input.bounded(u64::from(self.limits.components_max), "components")?;
        let mut forms: HashMap<(String, u32, Fingerprint), u32> = HashMap::new();
        for _ in 0..count {
            let component = self.component(resolve)?;
            // Each is compared with the type of this build: a few bytes must not ask for that again and again.
            let form = (component.key.clone(), component.version, component.schema_fingerprint);
            let times = forms.entry(form).or_default();
            *times += 1;
            if *times > SAME_FORMS_MAX {
                return Err(self.input.corrupt("a component is there too often").in_key(&component.key));
            }
            snapshot.components.push(component);
        }
        let count = self.input.bounded(u64::from(self.limits.components_max), "shared tables")?;
        for table in 0..count {
            let component = self.input.varint()?;
            if component >= snapshot.components.len() as u64 {
                return Err(self.input.corrupt(format!("component {component} does not exist")));
            }
            let (offset, values) = self.values()?;
            if self.lost.touches(offset, values.bytes.len() as u64) {
                self.lost.tables.insert(table as u32);
            }
            snapshot.shared.push(SharedTable { component: component as u32, values });
        }
        let count = self.input.bounded(u64::from(self.limits.archetypes_max), "archetypes")?;
        let mut entities = 0;
        for _ in 0..count {
            let rows = self.input.bounded(entity_count - entities, "entities in an archetype")?;
            if rows == 0 {
                return Err(self.input.corrupt("an archetype has no entities"));
            }
            entities += rows;
            self.limits.step(rows as usize)?;
            let archetype = self.archetype(rows as usize, &snapshot)?;
            snapshot.archetypes.push(archetype);
        }
        if entities != entity_count {
            return Err(self
                .input
                .corrupt(format!("{entities} entities in archetypes, {entity_count} expected")));
        }
        let count = self.input.bounded(snapshot.components.len() as u64, "resources")?;
        let resources = (0..count).map(|_| self.column(1, &snapshot)).collect::<Result<Vec<_>>>()?;
        check_order(resources.iter().flatten())?;
        snapshot.resources = resources.into_iter().flatten().collect();
        Ok(snapshot)
    }

    fn component(&mut self, resolve: &Resolve<'_>) -> Result<Component> {
        let key = self.input.text()?.to_owned();
        let (input, limits) = (&mut self.input, self.limits);
        let mut read = || {
            let version = input.bounded(u64::from(u32::MAX), "as a version")? as u32;
            let kind = input.u8()?;
            // Only a hint: how rows are stored is said by each column.
            let kind = ColumnKind::ALL.get(usize::from(kind)).copied().unwrap_or(ColumnKind::Custom);
            let flags = input.u8()?;
            if flags & !SCHEMA_INLINE != 0 {
                return Err(Error::newer_format(format!(
                    "component flags {flags:#x} are not known to this version"
                )));
            }
            let schema_fingerprint = Fingerprint(input.array()?);
            let stride = input.bounded(1 << 30, "bytes per row")? as u32;
            let mut row = RowLayout { stride, offsets: Vec::new() };
            let mut layout_fingerprint = None;
            if stride > 0 {
                let count = input.bounded(ROW_LEAVES_MAX as u64, "leaves")?;
                for _ in 0..count {
                    row.offsets.push(input.bounded(u64::from(stride), "as an offset")? as u32);
                }
                layout_fingerprint = Some(Fingerprint(input.array()?));
            }
            let schema = resolve(schema_fingerprint, flags & SCHEMA_INLINE != 0)?;
            let component = Component { key: String::new(), version, kind, schema_fingerprint, row, schema };
            if layout_fingerprint.is_some_and(|expected| expected != component.layout_fingerprint()) {
                return Err(input.corrupt("its row layout does not match its fingerprint"));
            }
            if let (Some(schema), true) = (&component.schema, stride > 0) {
                limits.step(schema.unseen_nodes() + component.row.offsets.len())?;
                component.row.check(schema)?;
            }
            Ok(component)
        };
        let component = read().map_err(|error| error.in_key(&key))?;
        Ok(Component { key, ..component })
    }

    fn ids(&mut self, rows: usize) -> Result<(u64, Rope)> {
        let (offset, bytes) = self.part()?;
        if Some(bytes.len()) != rows.checked_mul(8) {
            return Err(self.input.corrupt(format!("{} bytes of ids for {rows} entities", bytes.len())));
        }
        Ok((offset, bytes.into()))
    }

    fn archetype(&mut self, rows: usize, snapshot: &Snapshot) -> Result<Archetype> {
        let (offset, ids) = self.ids(rows)?;
        let mut lost_rows = RowRanges::default();
        lost_rows.add_fixed(&self.lost, offset, ids.len() as u64, 8);
        let count = self.input.bounded(snapshot.components.len() as u64, "columns")?;
        let mut columns = Vec::new();
        for _ in 0..count {
            columns.push(self.column(rows, snapshot)?);
        }
        check_order(columns.iter().flatten())?;
        let mut archetype = Archetype { rows, ids, columns: columns.into_iter().flatten().collect() };
        lost_rows.apply_to_ids(&mut archetype, &mut self.lost);
        Ok(archetype)
    }

    pub(in crate::snapshot) fn carry(&mut self, snapshot: &Snapshot) -> Result<Vec<Carried>> {
        let count = self.input.bounded(u64::from(self.limits.components_max), "carried columns")?;
        let mut carried = Vec::new();
        for _ in 0..count {
            let kind = self.input.u8()?;
            let kind = CarryKind::from_number(kind).ok_or_else(|| {
                Error::newer_format(format!("carried data of kind {kind} is not known to this version"))
            })?;
            let rows = self.input.bounded(u64::from(self.limits.entities_max), "carried rows")? as usize;
            if kind == CarryKind::Resource && rows != 1 {
                return Err(self.input.corrupt("a carried resource has one row"));
            }
            let entities = if kind == CarryKind::Resource { 0 } else { rows };
            let (offset, ids) = self.ids(entities)?;
            let damaged = self.lost.touches(offset, ids.len() as u64);
            match self.column(rows, snapshot)? {
                Some(column) if damaged => {
                    self.lost.column(&snapshot.components[column.component as usize], column.rows);
                }
                Some(column) => carried.push(Carried { kind, rows, ids, column }),
                None => {}
            }
        }
        Ok(carried)
    }
}

fn check_order<'a>(columns: impl Iterator<Item = &'a Column>) -> Result<()> {
    let numbers: Vec<u32> = columns.map(|column| column.component).collect();
    if numbers.is_sorted_by(|a, b| a < b) {
        return Ok(());
    }
    Err(Error::corrupt("columns are not in the order of their components, or one is there twice"))
}

//! The sections that describe the columns: prelude, schemas, carry. FORMAT.md, "Prelude".
//!
//! All bytes of columns lie in one section; what is here says where. Parts are listed in the order in which they lie,
//! so that overlaps are found by looking at each part once.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::bitmap::Bitmap;
use super::carry::{Carried, CarryKind};
use super::column::{Body, Column, Group, Groups, Indices, Rope};
use super::salvage::{Lost, RowRanges};
use super::section::Pieces;
use super::{Archetype, BLOCK_BYTES, Component, FORMAT_VERSION, SharedTable, Snapshot};
use crate::descriptor::ColumnKind;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::row::{ROW_LEAVES_MAX, RowLayout};
use crate::schema::{Fingerprint, Schema};
use crate::wire::{Reader, Writer};

/// The encoding byte of a column. [`PRESENCE`] is added when only some rows have a value.
mod encoding {
    pub(super) const TAG: u8 = 0;
    pub(super) const RAW: u8 = 1;
    pub(super) const ROWS: u8 = 2;
    pub(super) const DICTIONARY: u8 = 3;
    pub(super) const SHARED: u8 = 4;
    pub(super) const PRESENCE: u8 = 0x80;
}

const SCHEMA_INLINE: u8 = 1;

/// Finds a schema by its fingerprint, in the file or elsewhere; the flag says that the file must have it.
type Resolve<'a> = dyn Fn(Fingerprint, bool) -> Result<Option<Arc<Schema>>> + 'a;

/// Puts columns into their section and writes down where they went.
pub(super) struct Describer<'a> {
    pub(super) out: Writer,
    pub(super) columns: &'a mut Pieces,
}

impl Describer<'_> {
    fn part(&mut self, offset: u64, len: usize) {
        self.out.varint(offset);
        self.out.varint(len as u64);
    }

    fn bytes(&mut self, bytes: &Bytes) {
        let offset = self.columns.len();
        self.columns.push_parts([bytes.clone()], bytes.len() >= BLOCK_BYTES);
        self.part(offset, bytes.len());
    }

    /// Raw rows and ids, aligned.
    fn rope(&mut self, rope: &Rope) {
        self.columns.align();
        let offset = self.columns.len();
        self.columns.push_parts(rope.parts().iter().cloned(), rope.len() >= BLOCK_BYTES);
        self.part(offset, rope.len());
    }

    fn groups(&mut self, groups: &Groups) {
        self.out.varint(groups.groups.len() as u64);
        for group in &groups.groups {
            self.out.varint(u64::from(group.rows));
            self.out.varint(group.bytes);
        }
        let offset = self.columns.len();
        let mut at = 0;
        for group in &groups.groups {
            let end = at + group.bytes as usize;
            self.columns.push_parts([groups.bytes.slice(at..end)], groups.groups.len() > 1);
            at = end;
        }
        self.part(offset, groups.bytes.len());
    }

    fn indices(&mut self, indices: &Indices) {
        self.out.u8(indices.width);
        self.bytes(&indices.bytes);
    }

    fn column(&mut self, column: &Column) {
        self.out.varint(u64::from(column.component));
        let encoding = match &column.body {
            Body::Tag => encoding::TAG,
            Body::Raw(_) => encoding::RAW,
            Body::Rows(_) => encoding::ROWS,
            Body::Dictionary { .. } => encoding::DICTIONARY,
            Body::Shared { .. } => encoding::SHARED,
        };
        match &column.present {
            None => self.out.u8(encoding),
            Some(present) => {
                self.out.u8(encoding | encoding::PRESENCE);
                self.out.varint(column.rows as u64);
                self.bytes(&Bytes::copy_from_slice(present.as_bytes()));
            }
        }
        match &column.body {
            Body::Tag => {}
            Body::Raw(rope) => self.rope(rope),
            Body::Rows(groups) => self.groups(groups),
            Body::Dictionary { values, indices } => {
                self.groups(values);
                self.indices(indices);
            }
            Body::Shared { table, indices } => {
                self.out.varint(u64::from(*table));
                self.indices(indices);
            }
        }
    }

    pub(super) fn prelude(&mut self, snapshot: &Snapshot, inline: &dyn Fn(usize) -> bool) {
        self.out.u16(FORMAT_VERSION);
        self.out.u64(snapshot.next_entity_id);
        self.out.varint(snapshot.entity_count() as u64);
        self.out.varint(snapshot.components.len() as u64);
        for (number, component) in snapshot.components.iter().enumerate() {
            let out = &mut self.out;
            out.text(&component.key);
            out.varint(u64::from(component.version));
            out.u8(ColumnKind::ALL.iter().position(|kind| *kind == component.kind).unwrap_or(0) as u8);
            out.u8(if inline(number) && component.schema.is_some() { SCHEMA_INLINE } else { 0 });
            out.raw(&component.schema_fingerprint.0);
            out.varint(u64::from(component.row.stride));
            if component.row.stride > 0 {
                out.varint(component.row.offsets.len() as u64);
                component.row.offsets.iter().for_each(|offset| out.varint(u64::from(*offset)));
                out.raw(&component.layout_fingerprint().0);
            }
        }
        self.out.varint(snapshot.shared.len() as u64);
        for table in &snapshot.shared {
            self.out.varint(u64::from(table.component));
            self.groups(&table.values);
        }
        self.out.varint(snapshot.archetypes.len() as u64);
        for archetype in &snapshot.archetypes {
            self.out.varint(archetype.rows as u64);
            self.rope(&archetype.ids);
            self.out.varint(archetype.columns.len() as u64);
            archetype.columns.iter().for_each(|column| self.column(column));
        }
        self.out.varint(snapshot.resources.len() as u64);
        snapshot.resources.iter().for_each(|column| self.column(column));
        self.out.varint(0); // extensions
    }

    pub(super) fn carry(&mut self, carried: &[Carried]) {
        self.out.varint(carried.len() as u64);
        for record in carried {
            self.out.u8(record.kind.number());
            self.out.varint(record.rows as u64);
            self.rope(&record.ids);
            self.column(&record.column);
        }
    }
}

/// Every distinct schema once, by its fingerprint.
pub(super) fn encode_schemas(mut schemas: Vec<&Arc<Schema>>) -> Vec<u8> {
    if schemas.is_empty() {
        return Vec::new();
    }
    schemas.sort_by_key(|schema| schema.fingerprint());
    schemas.dedup_by_key(|schema| schema.fingerprint());
    let mut out = Writer::new();
    out.varint(schemas.len() as u64);
    for schema in schemas {
        out.raw(&schema.fingerprint().0);
        out.blob(&schema.to_bytes());
    }
    out.into_memory()
}

pub(super) fn decode_schemas(
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
pub(super) struct Finder<'a> {
    pub(super) input: Reader<'a>,
    /// The columns section; salvage leaves it out if nothing of it can be read.
    pub(super) columns: Bytes,
    pub(super) limits: &'a Limits,
    pub(super) lost: Lost,
    /// Where the last part ended: the next one must not begin before.
    pub(super) end: u64,
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
        Ok((offset, Groups { bytes, groups }))
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
        let byte = self.input.u8()?;
        let mut present = None;
        let mut own = rows;
        let mut whole = true;
        if byte & encoding::PRESENCE != 0 {
            let claimed = self.input.bounded(rows as u64, "rows that have a value")? as usize;
            let (offset, bytes) = self.part()?;
            if self.lost.touches(offset, bytes.len() as u64) {
                whole = false;
            } else {
                let bitmap = Bitmap::from_bytes(&bytes, rows)
                    .filter(|bitmap| bitmap.count() == claimed)
                    .ok_or_else(|| self.input.corrupt("a presence bitmap does not fit its column"))?;
                present = Some(bitmap);
            }
            own = claimed;
        }
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
                let (values_offset, values) = self.groups()?;
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
        lost_rows.apply(column, component, rows, snapshot, self.limits, &mut self.lost)
    }

    fn expect_rows(&self, found: u64, rows: usize) -> Result<()> {
        if found != rows as u64 {
            return Err(self.input.corrupt(format!("{found} rows in groups, {rows} expected")));
        }
        Ok(())
    }

    pub(super) fn finish(&self) -> Result<()> {
        match self.input.remaining() {
            0 => Ok(()),
            left => Err(self.input.corrupt(format!("{left} bytes are left over"))),
        }
    }

    /// `version` is the header's, if that is whole; `resolve` finds schemas, in the file or elsewhere.
    pub(super) fn prelude(&mut self, version: Option<u16>, resolve: &Resolve<'_>) -> Result<Snapshot> {
        let own = self.input.u16()?;
        if own > FORMAT_VERSION {
            return Err(Error::newer_format(format!("the prelude has version {own}: update the game")));
        }
        if own == 0 || version.is_some_and(|version| version != own) {
            return Err(self.input.corrupt(format!("the prelude has version {own}, the header another")));
        }
        let mut snapshot = Snapshot { next_entity_id: self.input.u64()?, ..Snapshot::default() };
        let entity_count = self.input.bounded(u64::from(self.limits.entities_max), "entities")?;
        let count = self.input.bounded(u64::from(self.limits.components_max), "components")?;
        for _ in 0..count {
            let component = self.component(resolve)?;
            snapshot.components.push(component);
        }
        let count = self.input.bounded(u64::from(self.limits.components_max), "shared tables")?;
        for table in 0..count {
            let component = self.input.varint()?;
            if component >= snapshot.components.len() as u64 {
                return Err(self.input.corrupt(format!("component {component} does not exist")));
            }
            let (offset, values) = self.groups()?;
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
            let archetype = self.archetype(rows as usize, &snapshot)?;
            snapshot.archetypes.extend(archetype);
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
        let input = &mut self.input;
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

    fn archetype(&mut self, rows: usize, snapshot: &Snapshot) -> Result<Option<Archetype>> {
        let (offset, ids) = self.ids(rows)?;
        let mut lost_rows = RowRanges::default();
        lost_rows.add_fixed(&self.lost, offset, ids.len() as u64, 8);
        let count = self.input.bounded(snapshot.components.len() as u64, "columns")?;
        let mut columns = Vec::new();
        for _ in 0..count {
            columns.push(self.column(rows, snapshot)?);
        }
        check_order(columns.iter().flatten())?;
        let archetype = Archetype { rows, ids, columns: columns.into_iter().flatten().collect() };
        lost_rows.apply_to_archetype(archetype, snapshot, self.limits, &mut self.lost)
    }

    pub(super) fn carry(&mut self, snapshot: &Snapshot) -> Result<Vec<Carried>> {
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

//! A delta as bytes, without a head: structure, then values. FORMAT.md, "Deltas".

use std::sync::Arc;

use bytes::Bytes;

use super::fields::fields_size;
use super::{Change, ComponentTable, DataEdit, Delta, DeltaOp, DeltaScope, Group, List};
use crate::column::{self, Body, Column, Component, Groups};
use crate::context::LoadContext;
use crate::entity::EntityId;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::persist::Persist;
use crate::schema::Schema;
use crate::snapshot::DataEntry;
use crate::storage::{Bitmap, Rope};
use crate::value::Value;
use crate::wire::{Reader, Writer};

const SPAWNED: u8 = 1;

const OP: u8 = 0b11;
const PARTIAL: u8 = 1 << 2;
const FIELDS: u8 = 1 << 3;
const BODY_SHIFT: u8 = 4;
const TAG: u8 = 0;
const RAW: u8 = 1;
const ROWS: u8 = 2;

const METADATA: u8 = 1;
const DATA: u8 = 2;

/// Values that are larger stay where they are.
const COPIED_MAX: usize = 4096;

impl Delta {
    /// Structure before values; ticks and table are not part of it.
    pub fn content(&self) -> Result<Rope> {
        let mut out = Writer::new();
        let mut values: Vec<&Body> = Vec::new();
        out.varint(self.next_entity_id);
        write_ids(&mut out, &self.despawned);
        out.varint(self.groups.len() as u64);
        for group in &self.groups {
            out.u8(if group.spawned { SPAWNED } else { 0 });
            write_ids(&mut out, &group.ids);
            out.varint(group.changes.len() as u64);
            for change in &group.changes {
                write_shape(&mut out, change.op, change.fields, &change.column)?;
                values.push(&change.column.body);
            }
        }
        out.varint(self.lists.len() as u64);
        for list in &self.lists {
            out.varint(u64::from(list.component));
            out.u64(list.target.to_bits());
            write_ids(&mut out, &list.sources);
        }
        out.varint(self.resources.len() as u64);
        let gone = |component| Column { component, present: None, rows: 0, body: Body::Tag };
        for (component, column) in &self.resources {
            match column {
                Some(column) => {
                    write_shape(&mut out, DeltaOp::Changed, 0, column)?;
                    values.push(&column.body);
                }
                None => write_shape(&mut out, DeltaOp::Removed, 0, &gone(*component))?,
            }
        }
        let data = self.write_extras(&mut out)?;
        let mut rope = Content { rope: Rope::default(), open: out };
        for body in values {
            match body {
                Body::Tag => {}
                Body::Raw(raw) => raw.parts().iter().for_each(|part| rope.push(part)),
                Body::Rows(groups) => rope.push(&groups.bytes),
                Body::Dictionary { .. } | Body::Shared { .. } => unreachable!("deltas have plain rows"),
            }
        }
        data.iter().for_each(|bytes| rope.push(bytes));
        rope.finish()
    }

    /// Writes metadata and data edits. Returns the bytes of new data entries, which follow the values.
    fn write_extras(&self, out: &mut Writer) -> Result<Vec<Bytes>> {
        let flag = |is: bool, flag| if is { flag } else { 0 };
        out.u8(flag(self.metadata.is_some(), METADATA) | flag(self.data.is_some(), DATA));
        if let Some(metadata) = &self.metadata {
            out.varint(metadata.len() as u64);
            for (name, value) in metadata {
                out.text(name);
                value.encode(out);
            }
        }
        let mut data = Vec::new();
        if let Some(edits) = &self.data {
            out.varint(edits.len() as u64);
            for edit in edits {
                match edit {
                    DataEdit::Kept(place) => out.varint(u64::from(*place) + 1),
                    DataEdit::New(entry) => {
                        out.varint(0);
                        out.text(entry.key());
                        out.varint(u64::from(entry.version()));
                        out.blob(&entry.schema()?.to_bytes());
                        out.varint(entry.as_bytes().len() as u64);
                        data.push(entry.shared_bytes());
                    }
                }
            }
        }
        Ok(data)
    }

    /// A delta from its content. Values are not decoded yet, but everything else is checked.
    pub fn from_content(
        table: &Arc<ComponentTable>,
        since: u64,
        now: u64,
        scope: DeltaScope,
        content: Bytes,
        limits: &Limits,
    ) -> Result<Self> {
        if content.len() as u64 > limits.raw_bytes_max {
            let (len, max) = (content.len(), limits.raw_bytes_max);
            return Err(Error::limit(format!("a delta of {len} bytes, at most {max} are allowed")));
        }
        // Every list below costs what its bytes are; its columns are counted as they come.
        limits.step(content.len())?;
        let context = LoadContext::new(limits);
        let mut input = Reader::new(&content, &context);
        let mut delta = Self::empty(table, since, now);
        delta.whole = scope == DeltaScope::Whole;
        delta.next_entity_id = input.varint()?;
        delta.despawned = read_ids(&mut input)?;
        // Bytes of the values, in their order.
        let mut lens: Vec<usize> = Vec::new();
        for _ in 0..input.count(size_of::<Group>())? {
            let group = read_group(&mut input, table, &mut lens)?;
            delta.groups.push(group);
        }
        check_told_once(&delta.groups)?;
        for _ in 0..input.count(size_of::<List>())? {
            let component = read_component(&mut input, table)?;
            let target = EntityId::from_bits(input.u64()?);
            // Putting a list in order costs what the target has: nobody may ask for it again and again.
            if delta.lists.last().is_some_and(|last| (last.component, last.target) >= (component, target)) {
                return Err(input.corrupt("lists are not in the order of components and targets"));
            }
            delta.lists.push(List { component, target, sources: read_ids(&mut input)? });
        }
        for _ in 0..input.count(size_of::<(u32, Option<Column>)>())? {
            let (op, fields, column) = read_shape(&mut input, table, 1, &mut lens)?;
            if fields != 0 || column.present.is_some() || op == DeltaOp::Added {
                return Err(input.corrupt("a resource is told whole, or gone"));
            }
            let component = column.component;
            if delta.resources.last().is_some_and(|(last, _)| *last >= component) {
                return Err(input.corrupt("resources are not in the order of components"));
            }
            delta.resources.push((component, (op == DeltaOp::Changed).then_some(column)));
        }
        let flags = input.u8()?;
        if flags & !(METADATA | DATA) != 0 {
            return Err(Error::newer_format(format!("delta flags {flags:#x} are not known to this version")));
        }
        if flags & METADATA != 0 {
            let mut metadata = Vec::new();
            for _ in 0..input.count(size_of::<(String, Value)>())? {
                metadata.push((String::decode(&mut input)?, Value::decode(&mut input)?));
            }
            delta.metadata = Some(metadata);
        }
        if flags & DATA != 0 {
            delta.data = Some(read_data(&mut input, limits, &mut lens)?);
        }
        let at = input.offset();
        delta.fill(&content, at, &lens)?;
        Ok(delta)
    }

    /// Gives values their bytes.
    fn fill(&mut self, content: &Bytes, mut at: usize, lens: &[usize]) -> Result<()> {
        let total = lens.iter().try_fold(at, |sum, len| sum.checked_add(*len));
        if total != Some(content.len()) {
            let (len, left) = (lens.iter().map(|len| *len as u64).sum::<u64>(), content.len() - at);
            return Err(Error::corrupt(format!("{left} bytes of values, {len} expected")).at(at));
        }
        let mut lens = lens.iter();
        let mut next = || {
            let len = lens.next().copied().unwrap_or(0);
            at += len;
            content.slice(at - len..at)
        };
        let changes = self.groups.iter_mut().flat_map(|group| &mut group.changes);
        let columns = changes.map(|change| &mut change.column);
        for column in columns.chain(self.resources.iter_mut().filter_map(|(_, column)| column.as_mut())) {
            match &mut column.body {
                Body::Raw(rope) => *rope = next().into(),
                Body::Rows(groups) => {
                    let bytes = next();
                    let group = column::Group { rows: column.rows as u32, bytes: bytes.len() as u64 };
                    *groups = Groups::new(bytes, vec![group]);
                }
                _ => {}
            }
        }
        for edit in self.data.iter_mut().flatten() {
            if let DataEdit::New(entry) = edit {
                *entry = DataEntry::from_parts(
                    entry.key().to_owned(),
                    entry.version(),
                    entry.schema_fingerprint(),
                    entry.schema().ok().cloned(),
                    next(),
                );
            }
        }
        Ok(())
    }
}

/// Small values are copied together, large ones stay where they are.
struct Content {
    rope: Rope,
    open: Writer,
}

impl Content {
    fn push(&mut self, bytes: &Bytes) {
        if bytes.len() <= COPIED_MAX {
            return self.open.raw(bytes);
        }
        let open = std::mem::take(&mut self.open);
        self.rope.push(open.into_memory().into());
        self.rope.push(bytes.clone());
    }

    fn finish(mut self) -> Result<Rope> {
        self.rope.push(self.open.finish()?.into());
        Ok(self.rope)
    }
}

/// Ids mostly follow each other: each is told by its distance from the one before.
fn write_ids(out: &mut Writer, ids: &[EntityId]) {
    out.varint(ids.len() as u64);
    let (mut index, mut generation) = (0_u32, 0_u32);
    for id in ids {
        let step = i64::from(id.index()) - i64::from(index);
        let zigzag = ((step << 1) ^ (step >> 63)) as u64;
        let other = id.generation() != generation;
        out.varint(zigzag << 1 | u64::from(other));
        (index, generation) = (id.index(), id.generation());
        if other {
            out.varint(u64::from(generation));
        }
    }
}

fn read_ids(input: &mut Reader<'_>) -> Result<Vec<EntityId>> {
    let count = input.varint()?;
    if count > input.remaining() as u64 {
        return Err(input.corrupt(format!("{count} ids in {} bytes", input.remaining())));
    }
    // They are kept, and sorted once to find doubles.
    input.context().claim_memory(count as usize, 2 * size_of::<EntityId>())?;
    let mut ids = Vec::with_capacity(count as usize);
    let (mut index, mut generation) = (0_i64, 0_u32);
    for _ in 0..count {
        let told = input.varint()?;
        let zigzag = told >> 1;
        index = index.wrapping_add((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64));
        if told & 1 == 1 {
            generation = input.bounded(u64::from(u32::MAX), "as a generation")? as u32;
        }
        let index = u32::try_from(index).map_err(|_| input.corrupt("an id has no such index"))?;
        let id = EntityId::new(index, generation);
        if id.is_null() {
            return Err(input.corrupt("an entity has the null id"));
        }
        ids.push(id);
    }
    Ok(ids)
}

fn write_shape(out: &mut Writer, op: DeltaOp, fields: u64, column: &Column) -> Result<()> {
    let body = match &column.body {
        Body::Tag => TAG,
        Body::Raw(_) => RAW,
        Body::Rows(_) => ROWS,
        Body::Dictionary { .. } | Body::Shared { .. } => {
            return Err(Error::misuse("a delta has plain rows only"));
        }
    };
    let present = column.present.as_ref().filter(|_| op != DeltaOp::Removed);
    let mut shape = op as u8 | body << BODY_SHIFT;
    shape |= if present.is_some() { PARTIAL } else { 0 };
    shape |= if fields != 0 { FIELDS } else { 0 };
    out.varint(u64::from(column.component));
    out.u8(shape);
    if let Some(present) = present {
        out.raw(present.as_bytes());
    }
    if fields != 0 {
        out.varint(fields);
    }
    if body == ROWS {
        out.varint(column.body.len() as u64);
    }
    Ok(())
}

fn read_component(input: &mut Reader<'_>, table: &ComponentTable) -> Result<u32> {
    let number = input.varint()?;
    if number >= table.components().len() as u64 {
        return Err(input.corrupt(format!("component {number} does not exist")));
    }
    Ok(number as u32)
}

fn read_group(input: &mut Reader<'_>, table: &ComponentTable, lens: &mut Vec<usize>) -> Result<Group> {
    let flags = input.u8()?;
    if flags & !SPAWNED != 0 {
        return Err(Error::newer_format(format!("group flags {flags:#x} are not known to this version")));
    }
    let spawned = flags == SPAWNED;
    let ids = read_ids(input)?;
    if ids.is_empty() {
        return Err(input.corrupt("a group has no entities"));
    }
    let count = input.bounded(table.components().len() as u64, "columns")?;
    if count == 0 && !spawned {
        return Err(input.corrupt("a group tells nothing"));
    }
    let mut changes: Vec<Change> = Vec::new();
    for _ in 0..count {
        let (op, fields, column) = read_shape(input, table, ids.len(), lens)?;
        if changes.last().is_some_and(|last| last.column.component >= column.component) {
            return Err(input.corrupt("columns are not in the order of components"));
        }
        if (spawned && op != DeltaOp::Added) || (fields != 0 && op != DeltaOp::Changed) {
            return Err(input.corrupt("a column cannot be so"));
        }
        changes.push(Change { op, fields, column });
    }
    Ok(Group { spawned, ids, changes })
}

/// An entity is in one group, once: engines take it for granted when they remove and insert components together.
fn check_told_once(groups: &[Group]) -> Result<()> {
    let mut ids: Vec<EntityId> = groups.iter().flat_map(|group| &group.ids).copied().collect();
    // Mostly in order already, which costs little.
    ids.sort();
    match ids.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Error::corrupt(format!("entity {} is told of twice", pair[0]))),
        None => Ok(()),
    }
}

fn read_shape(
    input: &mut Reader<'_>,
    table: &ComponentTable,
    rows: usize,
    lens: &mut Vec<usize>,
) -> Result<(DeltaOp, u64, Column)> {
    let component = read_component(input, table)?;
    let known = table.get(component);
    let mut read = || -> Result<(DeltaOp, u64, Column)> {
        let shape = input.u8()?;
        let op = match shape & OP {
            0 => DeltaOp::Removed,
            1 => DeltaOp::Added,
            2 => DeltaOp::Changed,
            _ => return Err(Error::newer_format("a change of a kind that is not known to this version")),
        };
        let (partial, some_fields) = (shape & PARTIAL != 0, shape & FIELDS != 0);
        let kind = shape >> BODY_SHIFT;
        if op == DeltaOp::Removed {
            if shape != 0 {
                return Err(input.corrupt("what is gone has no values"));
            }
            return Ok((op, 0, Column { component, present: None, rows: 0, body: Body::Tag }));
        }
        let mut present = None;
        if partial {
            let bitmap = Bitmap::from_bytes(input.raw(rows.div_ceil(8))?, rows);
            present = Some(bitmap.ok_or_else(|| input.corrupt("a bitmap has bits beyond its rows"))?);
        }
        let own = present.as_ref().map_or(rows, Bitmap::count);
        let fields = if some_fields { input.varint()? } else { 0 };
        let body = match kind {
            TAG if known.row.stride == 0 && !some_fields => Body::Tag,
            RAW if known.row.stride > 0 => {
                let stride = match some_fields {
                    true => fields_size(known, fields)?,
                    false => known.row.stride as usize,
                };
                let len = own.checked_mul(stride).filter(|len| *len <= input.remaining());
                let too_long = || input.corrupt(format!("{own} rows of {stride} bytes are not there"));
                lens.push(len.ok_or_else(too_long)?);
                Body::Raw(Rope::default())
            }
            ROWS if known.row.stride == 0 && !some_fields => {
                let len = input.varint()?;
                if len > input.remaining() as u64 {
                    return Err(input.corrupt(format!("{len} bytes of rows are not there")));
                }
                lens.push(len as usize);
                Body::Rows(Groups::default())
            }
            _ => return Err(input.corrupt("values are stored in a way that the component does not have")),
        };
        Ok((op, fields, Column { component, present, rows: own, body }))
    };
    read().map_err(|error| in_key(error, known))
}

fn in_key(error: Error, component: &Component) -> Error {
    error.in_key(&component.key)
}

fn read_data(input: &mut Reader<'_>, limits: &Limits, lens: &mut Vec<usize>) -> Result<Vec<DataEdit>> {
    let count = input.count(size_of::<DataEdit>())?;
    if count > limits.data_entries_max as usize {
        return Err(Error::limit(format!(
            "{count} data entries, at most {} are allowed",
            limits.data_entries_max
        )));
    }
    let mut edits = Vec::new();
    for _ in 0..count {
        let place = input.bounded(u64::from(u32::MAX), "as a place")?;
        if place > 0 {
            edits.push(DataEdit::Kept(place as u32 - 1));
            continue;
        }
        let key = input.text()?.to_owned();
        let version = input.bounded(u64::from(u32::MAX), "as a version")? as u32;
        let schema = Schema::decode(input.blob()?, limits)?;
        let len = input.varint()?;
        if len > input.remaining() as u64 {
            return Err(input.corrupt(format!("{len} bytes of data are not there")).in_key(&key));
        }
        lens.push(len as usize);
        let fingerprint = schema.fingerprint();
        let entry = DataEntry::from_parts(key, version, fingerprint, Some(Arc::new(schema)), Bytes::new());
        edits.push(DataEdit::New(entry));
    }
    Ok(edits)
}

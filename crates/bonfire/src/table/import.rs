//! JSON to snapshot.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value as Json;

use super::import_value::{as_u64, dynamic, entity, value};
use super::is_nullable;
use crate::column::{Column, ColumnKind, Component, column_from};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::registry::Registry;
use crate::row::RowLayout;
use crate::schema::{Field, Node, Schema, Type, Variant};
use crate::snapshot::carry::{Carried, CarryKind};
use crate::snapshot::data::DataEntry;
use crate::snapshot::{Archetype, FORMAT_VERSION, Snapshot};
use crate::storage::AlignedBuf;
use crate::value::{Value, encode_value};
use crate::wire::Writer;

pub(super) fn import(json: &str, registry: &Registry, limits: &Limits) -> Result<Snapshot> {
    limits.step(json.len())?;
    let json: Json = serde_json::from_str(json)
        .map_err(|error| Error::corrupt(format_args!("the table is not JSON: {error}")).caused_by(error))?;
    let version = number(&json, "version")?;
    if version > u64::from(FORMAT_VERSION) {
        let message =
            format!("table version {version} is newer than this build ({FORMAT_VERSION}): update the game");
        return Err(Error::newer_format(message));
    }
    if version == 0 {
        return Err(Error::corrupt("table version 0 does not exist"));
    }
    let components = (array(&json, "componentTable")?.iter())
        .map(|entry| component(entry, registry, limits))
        .collect::<Result<Vec<_>>>()?;
    check_count(components.len(), limits.components_max, "components")?;
    let table = Table { components, limits };
    let mut snapshot = Snapshot { next_entity_id: number(&json, "nextEntityId")?, ..Snapshot::default() };
    check_count(array(&json, "archetypes")?.len(), limits.archetypes_max, "archetypes")?;
    for entry in array(&json, "archetypes")? {
        snapshot.archetypes.extend(table.archetype(entry)?);
    }
    check_count(snapshot.entity_count(), limits.entities_max, "entities")?;
    check_count(optional_array(&json, "data")?.len(), limits.data_entries_max, "data entries")?;
    for entry in optional_array(&json, "resources")? {
        let index = table.index(&entry["column"])?;
        let values = [table.cell(index, &entry["value"])?];
        snapshot.resources.extend(table.column(index, &values)?);
    }
    snapshot.resources.sort_by_key(|column| column.component);
    for entry in optional_array(&json, "data")? {
        snapshot.data.push(data(entry, limits)?);
    }
    for entry in optional_array(&json, "metadata")? {
        snapshot.metadata.push((text(entry, "key")?.to_owned(), dynamic(&entry["value"])?));
    }
    for entry in optional_array(&json, "carried")? {
        snapshot.carried.extend(table.carried(entry)?);
    }
    snapshot.components = table.components;
    Ok(snapshot)
}

fn check_count(count: usize, max: u32, what: &str) -> Result<()> {
    match count as u64 > u64::from(max) {
        true => Err(Error::limit(format!("{count} {what}, at most {max} are allowed"))),
        false => Ok(()),
    }
}

fn field<'j>(json: &'j Json, name: &str) -> Result<&'j Json> {
    json.get(name).ok_or_else(|| Error::corrupt(format!("the table has no `{name}` where one belongs")))
}
fn array<'j>(json: &'j Json, name: &str) -> Result<&'j Vec<Json>> {
    field(json, name)?.as_array().ok_or_else(|| Error::corrupt(format!("`{name}` is not a list")))
}
fn optional_array<'j>(json: &'j Json, name: &str) -> Result<&'j [Json]> {
    if json.get(name).is_none() { Ok(&[]) } else { array(json, name).map(Vec::as_slice) }
}
fn text<'j>(json: &'j Json, name: &str) -> Result<&'j str> {
    field(json, name)?.as_str().ok_or_else(|| Error::corrupt(format!("`{name}` is not text")))
}
fn number(json: &Json, name: &str) -> Result<u64> {
    as_u64(field(json, name)?).ok_or_else(|| Error::corrupt(format!("`{name}` is not a number")))
}

fn component(json: &Json, registry: &Registry, limits: &Limits) -> Result<Component> {
    let key = text(json, "name")?.to_owned();
    let read = || {
        let Some(nodes) = json.get("schema") else {
            // The bare shape: everything but the name comes from the registry.
            let version = json.get("version").and_then(as_u64).map(small).transpose()?;
            let Some(descriptor) = registry.by_key(&key) else {
                return Ok(unknown_component(&key, version.unwrap_or(1)));
            };
            return Ok(Component {
                key: key.clone(),
                version: version.unwrap_or(descriptor.version),
                kind: descriptor.kind,
                schema_fingerprint: descriptor.schema.fingerprint(),
                row: descriptor.row.clone(),
                schema: Some(Arc::clone(&descriptor.schema)),
            });
        };
        let schema = schema(nodes, limits)?;
        let kind = text(json, "kind")?;
        let kind = *(ColumnKind::ALL.iter().find(|known| known.name() == kind))
            .ok_or_else(|| Error::corrupt(format!("{kind:?} is not a kind of column")))?;
        let mut row = RowLayout::default();
        if json.get("stride").is_some() {
            row.stride = small(number(json, "stride")?)?;
            let offsets = array(json, "offsets")?.iter().map(|json| as_u64(json).map(small));
            row.offsets = offsets
                .collect::<Option<Result<_>>>()
                .ok_or_else(|| Error::corrupt("`offsets` are not numbers"))??;
            row.check(&schema)?;
        }
        Ok(Component {
            key: key.clone(),
            version: small(number(json, "version")?)?,
            kind,
            schema_fingerprint: schema.fingerprint(),
            row,
            schema: Some(Arc::new(schema)),
        })
    };
    read().map_err(|error: Error| error.in_key(&key))
}

/// A component without a schema that is not registered. Its values say themselves what they are, so that a load can carry,
/// drop or refuse them like those of any component that it does not know.
fn unknown_component(key: &str, version: u32) -> Component {
    let schema = Schema::of::<Value>();
    Component {
        key: key.to_owned(),
        version,
        kind: ColumnKind::Value,
        schema_fingerprint: schema.fingerprint(),
        row: RowLayout::default(),
        schema: Some(Arc::new(schema)),
    }
}

fn small(number: u64) -> Result<u32> {
    u32::try_from(number).map_err(|_| Error::limit(format!("{number} is too large a number here")))
}

/// Reads a schema through its bytes, so that it is checked like any other.
fn schema(json: &Json, limits: &Limits) -> Result<Schema> {
    let nodes = json.as_array().ok_or_else(|| Error::corrupt("a schema is a list of nodes"))?;
    let nodes = nodes.iter().map(node).collect::<Option<Vec<Type>>>();
    let nodes = nodes.ok_or_else(|| Error::corrupt("a schema has a node that is not one"))?;
    Schema::decode(&Schema::bytes_of(&nodes), limits)
}

fn node(json: &Json) -> Option<Type> {
    if let Some(name) = json.as_str() {
        return Type::simple(name);
    }
    let index = |json: &Json| Some(Node(u32::try_from(json.as_u64()?).ok()?));
    let (name, content) = json.as_object()?.iter().next()?;
    let list = content.as_array();
    let named = |item: &Json| Some((item.get(0)?.as_str()?.to_owned(), index(item.get(1)?)?));
    Some(match &**name {
        "option" => Type::Option(index(content)?),
        "list" => Type::List(index(content)?),
        "set" => Type::Set(index(content)?),
        "array" => Type::Array(index(list?.first()?)?, list?.get(1)?.as_u64()?),
        "map" => Type::Map(index(list?.first()?)?, index(list?.get(1)?)?),
        "tuple" => Type::tuple(list?.iter().map(index).collect::<Option<Vec<_>>>()?),
        "struct" => {
            let fields = list?.iter().map(|item| named(item).map(|(name, node)| Field::new(name, node)));
            Type::Struct(fields.collect::<Option<_>>()?)
        }
        "enum" => {
            let variants = list?.iter().map(|item| named(item).map(|(name, node)| Variant::new(name, node)));
            Type::Enum(variants.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

struct Table<'l> {
    components: Vec<Component>,
    limits: &'l Limits,
}

impl Table<'_> {
    fn index(&self, json: &Json) -> Result<usize> {
        let index = as_u64(json).and_then(|index| usize::try_from(index.checked_sub(1)?).ok());
        let index = index.filter(|&index| index < self.components.len());
        index.ok_or_else(|| Error::corrupt(format!("{json} is not a column of the component table")))
    }

    fn archetype(&self, json: &Json) -> Result<Option<Archetype>> {
        let indices = (array(json, "columnIndices")?.iter())
            .map(|json| self.index(json))
            .collect::<Result<Vec<_>>>()?;
        let mut ids = Vec::new();
        let mut columns: Vec<Vec<Option<Vec<u8>>>> = vec![Vec::new(); indices.len()];
        for entity_row in array(json, "entities")? {
            let row = entity_row.as_array().filter(|row| row.len() == indices.len() + 1);
            let row = row.ok_or_else(|| {
                Error::corrupt(format!("an entity is not a list of an id and {} values", indices.len()))
            })?;
            self.limits.step(row.len())?;
            ids.extend(entity(&row[0])?.to_bits().to_le_bytes());
            for ((&index, column), value) in indices.iter().zip(&mut columns).zip(&row[1..]) {
                column.push(self.cell(index, value)?);
            }
        }
        if ids.is_empty() {
            return Ok(None);
        }
        let columns = (indices.iter().zip(&columns))
            .map(|(&index, values)| self.column(index, values))
            .collect::<Result<Vec<_>>>()?;
        let mut columns: Vec<Column> = columns.into_iter().flatten().collect();
        columns.sort_by_key(|column| column.component);
        if columns.windows(2).any(|pair| pair[0].component == pair[1].component) {
            return Err(Error::corrupt("an archetype has a column twice"));
        }
        Ok(Some(Archetype { rows: ids.len() / 8, ids: AlignedBuf::copy_from(&ids).share().into(), columns }))
    }

    fn cell(&self, index: usize, json: &Json) -> Result<Option<Vec<u8>>> {
        let component = &self.components[index];
        let schema = component.schema()?;
        let nullable = is_nullable(schema, Node::ROOT);
        if (!nullable && json.is_null()) || (nullable && json.get("$absent").is_some()) {
            return Ok(None);
        }
        let encode = || {
            let value = value(schema, Node::ROOT, json, 0)?;
            let mut out = Writer::new();
            encode_value(schema, Node::ROOT, &value, &mut out)?;
            out.finish()
        };
        encode().map(Some).map_err(|error| error.in_key(&component.key))
    }

    fn column(&self, index: usize, values: &[Option<Vec<u8>>]) -> Result<Option<Column>> {
        let values: Vec<Option<&[u8]>> = values.iter().map(Option::as_deref).collect();
        column_from(index as u32, &self.components[index], values.into_iter())
    }

    fn carried(&self, json: &Json) -> Result<Option<Carried>> {
        let kind = number(json, "kind")?;
        let kind = u8::try_from(kind).ok().and_then(CarryKind::from_number);
        let kind = kind.ok_or_else(|| Error::newer_format("carried data of an unknown kind"))?;
        let index = self.index(&json["column"])?;
        let ids = array(json, "ids")?.iter().map(entity).collect::<Result<Vec<_>>>()?;
        let values =
            (array(json, "values")?.iter()).map(|json| self.cell(index, json)).collect::<Result<Vec<_>>>()?;
        let expected = if kind == CarryKind::Resource { 1 } else { ids.len() };
        if values.len() != expected {
            return Err(Error::corrupt(format!("{} carried values for {expected} entities", values.len())));
        }
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_bits().to_le_bytes()).collect();
        let ids = AlignedBuf::copy_from(&bytes).share().into();
        Ok(self.column(index, &values)?.map(|column| Carried { kind, rows: values.len(), ids, column }))
    }
}

fn data(json: &Json, limits: &Limits) -> Result<DataEntry> {
    let key = text(json, "key")?.to_owned();
    let read = || {
        let (schema, value) = match json.get("schema") {
            Some(nodes) => {
                let schema = schema(nodes, limits)?;
                let value = value(&schema, Node::ROOT, field(json, "value")?, 0)?;
                (schema, value)
            }
            // The bare shape: a value that carries its own types.
            None => (Value::schema(), dynamic(field(json, "value")?)?),
        };
        let mut out = Writer::new();
        encode_value(&schema, Node::ROOT, &value, &mut out)?;
        Ok((schema, out.finish()?))
    };
    let (schema, bytes) = read().map_err(|error: Error| error.in_key(&key))?;
    let version = json.get("version").map_or(Ok(1), |_| number(json, "version").and_then(small))?;
    let fingerprint = schema.fingerprint();
    Ok(DataEntry::from_parts(key, version, fingerprint, Some(Arc::new(schema)), Bytes::from(bytes)))
}

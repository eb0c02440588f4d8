//! Snapshot to JSON, streamed from the encoded rows without values in between.

use super::is_nullable;
use super::text::SAFE_INTEGER;
use crate::column::{Column, Component};
use crate::context::LoadContext;
use crate::entity::EntityId;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::schema::{Node, Schema, Type};
use crate::snapshot::{Archetype, DataEntry, FORMAT_VERSION, Snapshot};

pub(super) fn export(snapshot: &Snapshot, limits: &Limits) -> Result<String> {
    let context = LoadContext::new(limits);
    let mut out = Json { text: Vec::with_capacity(snapshot.column_bytes() * 4), limits, context: &context };
    out.snapshot(snapshot)?;
    String::from_utf8(out.text).map_err(|_| Error::corrupt("the table is not UTF-8"))
}

pub(super) struct Json<'a> {
    pub(super) text: Vec<u8>,
    limits: &'a Limits,
    pub(super) context: &'a LoadContext<'a>,
}

impl Json<'_> {
    pub(super) fn raw(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
    }

    /// Strings and numbers as serde_json writes them.
    pub(super) fn plain<T: serde::Serialize + ?Sized>(&mut self, value: &T) {
        // Writing a scalar into memory cannot fail.
        let _ = serde_json::to_writer(&mut self.text, value);
    }

    pub(super) fn list<T>(
        &mut self,
        ends: [&str; 2],
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T) -> Result<()>,
    ) -> Result<()> {
        self.raw(ends[0]);
        for (i, item) in items.into_iter().enumerate() {
            self.raw(if i > 0 { "," } else { "" });
            write(self, item)?;
        }
        self.raw(ends[1]);
        Ok(())
    }

    /// Numbers that not every JSON reader keeps exactly are text.
    pub(super) fn unsigned(&mut self, number: u64) {
        if number <= SAFE_INTEGER { self.plain(&number) } else { self.plain(&number.to_string()) }
    }

    pub(super) fn signed(&mut self, number: i64) {
        if number.unsigned_abs() <= SAFE_INTEGER {
            self.plain(&number);
        } else {
            self.plain(&number.to_string());
        }
    }

    pub(super) fn id(&mut self, id: EntityId) {
        match id.to_bits() {
            _ if id.is_null() => self.raw("null"),
            bits => self.unsigned(bits),
        }
    }

    fn snapshot(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.raw("{\"version\":");
        self.plain(&FORMAT_VERSION);
        self.raw(",\n\"nextEntityId\":");
        self.unsigned(snapshot.next_entity_id);
        self.raw(",\n\"componentTable\":");
        self.list(["[\n", "]"], snapshot.components(), Self::component)?;
        self.raw(",\n\"archetypes\":");
        self.list(["[\n", "]"], &snapshot.archetypes, |out, archetype| out.archetype(snapshot, archetype))?;
        if !snapshot.resources.is_empty() {
            self.raw(",\n\"resources\":");
            self.resources(snapshot)?;
        }
        self.raw(",\n\"data\":");
        self.list(["[", "]"], snapshot.data(), Self::data_entry)?;
        if !snapshot.metadata().is_empty() {
            self.raw(",\n\"metadata\":");
            self.list(["[", "]"], snapshot.metadata(), |out, (name, value)| {
                out.raw("\n{\"key\":");
                out.plain(name);
                out.raw(",\"value\":");
                out.dynamic(value)?;
                out.raw("}");
                Ok(())
            })?;
        }
        if !snapshot.carried.is_empty() {
            self.raw(",\n\"carried\":");
            self.list(["[\n", "]"], &snapshot.carried, |out, record| {
                out.raw("{\"kind\":");
                out.plain(&record.kind.number());
                out.raw(",\"column\":");
                out.plain(&(record.column.component + 1));
                out.raw(",\"ids\":");
                out.list(["[", "]"], record.ids().iter(), |out, id| {
                    out.id(*id);
                    Ok(())
                })?;
                out.raw(",\"values\":");
                let columns = out.columns(snapshot, std::slice::from_ref(&record.column), record.rows)?;
                let (component, dense) = &columns[0];
                out.list(["[", "]}"], dense.iter(), |out, row| out.cell(component, row))
            })?;
        }
        self.raw("}\n");
        Ok(())
    }

    fn archetype(&mut self, snapshot: &Snapshot, archetype: &Archetype) -> Result<()> {
        self.raw("{\"columnIndices\":");
        self.list(["[", "]"], &archetype.columns, |out, column| {
            out.plain(&(column.component + 1));
            Ok(())
        })?;
        self.raw(",\"entities\":");
        let columns = self.columns(snapshot, &archetype.columns, archetype.rows)?;
        self.list(["[\n", "]}\n"], archetype.ids().iter().enumerate(), |out, (row, id)| {
            out.raw("[");
            out.id(*id);
            for (component, dense) in &columns {
                out.raw(",");
                out.cell(component, dense.get(row))?;
            }
            out.raw("]");
            Ok(())
        })
    }

    fn resources(&mut self, snapshot: &Snapshot) -> Result<()> {
        let columns = self.columns(snapshot, &snapshot.resources, 1)?;
        self.list(
            ["[\n", "]"],
            snapshot.resources.iter().zip(&columns),
            |out, (column, (component, dense))| {
                out.raw("{\"column\":");
                out.plain(&(column.component + 1));
                out.raw(",\"value\":");
                out.cell(component, dense.get(0))?;
                out.raw("}");
                Ok(())
            },
        )
    }

    fn data_entry(&mut self, entry: &DataEntry) -> Result<()> {
        self.raw("\n{\"key\":");
        self.plain(entry.key());
        self.raw(",\"value\":");
        self.encoded(entry.schema()?, entry.as_bytes()).map_err(|error| error.in_key(entry.key()))?;
        if entry.version() != 1 {
            self.raw(",\"version\":");
            self.plain(&entry.version());
        }
        self.raw(",\"schema\":");
        self.schema(entry.schema()?)?;
        self.raw("}");
        Ok(())
    }

    fn columns<'s>(
        &self,
        snapshot: &'s Snapshot,
        columns: &'s [Column],
        rows: usize,
    ) -> Result<Vec<(&'s Component, crate::column::DenseRows)>> {
        self.context.grant_rows(rows.saturating_mul(columns.len()));
        (columns.iter())
            .map(|column| {
                let component = &snapshot.components[column.component as usize];
                Ok((component, snapshot.dense(column, rows, self.limits, &|_| false)?))
            })
            .collect()
    }

    fn component(&mut self, component: &Component) -> Result<()> {
        self.raw("{\"name\":");
        self.plain(&component.key);
        self.raw(",\"version\":");
        self.plain(&component.version);
        self.raw(",\"kind\":");
        self.plain(component.kind.name());
        if component.row.stride > 0 {
            self.raw(",\"stride\":");
            self.plain(&component.row.stride);
            self.raw(",\"offsets\":");
            self.plain(&component.row.offsets);
        }
        self.raw(",\"schema\":");
        self.schema(component.schema()?)?;
        self.raw("}\n");
        Ok(())
    }

    /// A schema as a list of nodes, each `"u32"` or `{"list": 1}` or `{"struct": [["x", 2]]}`.
    fn schema(&mut self, schema: &Schema) -> Result<()> {
        self.list(["[", "]"], schema.nodes(), |out, ty| {
            let name = ty.name();
            let open = |out: &mut Self| {
                out.raw("{");
                out.plain(name);
                out.raw(":");
            };
            match ty {
                Type::Option(node) | Type::List(node) | Type::Set(node) => {
                    open(out);
                    out.plain(&node.0);
                }
                Type::Array(node, len) => {
                    open(out);
                    out.plain(&(node.0, len));
                }
                Type::Map(key, value) => {
                    open(out);
                    out.plain(&(key.0, value.0));
                }
                Type::Tuple(fields) => {
                    open(out);
                    out.plain(&fields.iter().map(|field| field.node.0).collect::<Vec<_>>());
                }
                Type::Struct(fields) => {
                    open(out);
                    out.plain(&fields.iter().map(|field| (&field.name, field.node.0)).collect::<Vec<_>>());
                }
                Type::Enum(variants) => {
                    open(out);
                    out.plain(
                        &variants.iter().map(|variant| (&variant.name, variant.node.0)).collect::<Vec<_>>(),
                    );
                }
                _ => {
                    out.plain(name);
                    return Ok(());
                }
            }
            out.raw("}");
            Ok(())
        })
    }

    /// A component of a row; nothing is `null`, unless that is a value of the component.
    fn cell(&mut self, component: &Component, row: Option<&[u8]>) -> Result<()> {
        let schema = component.schema()?;
        match row {
            Some(bytes) => self.encoded(schema, bytes).map_err(|error| error.in_key(&component.key)),
            None if is_nullable(schema, Node::ROOT) => {
                self.raw("{\"$absent\":true}");
                Ok(())
            }
            None => {
                self.raw("null");
                Ok(())
            }
        }
    }
}

//! The values that a message brings: a table for each group of entities, as `show` prints archetypes.

use bonfire::engine::DeltaOp;
use bonfire::inspect::{ColumnChange, GroupView};
use bonfire::{Delta, EntityId, Error, Limits, Value};
use serde_json::{Map, Value as Json, json};

use crate::escape::{escaped, visible};
use crate::exit::{Exit, Failure};
use crate::json;
use crate::leaf::{Leaf, MISSING, UNREADABLE};
use crate::output::{Output, Table, cell, entities};

pub(super) struct Values {
    limits: Limits,
    rows_max: usize,
    /// Why some values are not shown.
    unreadable: Vec<Error>,
}

/// What an entity has of one component: leaf by leaf for people, and as one value for scripts.
struct Cells {
    headers: Vec<String>,
    /// Row by row.
    cells: Vec<Vec<String>>,
    values: Vec<Option<Json>>,
}

impl Values {
    /// Shows so many rows of each group, or all if it is 0.
    pub(super) fn new(limit: usize) -> Self {
        let rows_max = if limit == 0 { usize::MAX } else { limit };
        Self { limits: Limits::default(), rows_max, unreadable: Vec::new() }
    }

    pub(super) fn exit(&self) -> Exit {
        // A schema that is not there is no damage.
        Exit::worst(self.unreadable.iter().filter(|error| !error.is_unknown()).map(Exit::of))
    }

    pub(super) fn unreadable_json(&self) -> Json {
        self.unreadable.iter().map(|error| Json::from(error.to_string())).collect()
    }

    pub(super) fn print_unreadable(&self, out: &mut Output) -> Result<(), Failure> {
        if !self.unreadable.is_empty() {
            out.title(format_args!("cannot be read, shown as {UNREADABLE}"))?;
            self.unreadable.iter().try_for_each(|error| out.line(visible(&error.to_string())))?;
        }
        Ok(())
    }

    fn or_note<T>(&mut self, values: bonfire::Result<T>) -> Option<T> {
        values.map_err(|error| self.unreadable.push(error)).ok()
    }

    fn ids(&self, ids: &[EntityId]) -> String {
        let shown: Vec<String> = ids.iter().take(self.rows_max).map(EntityId::to_string).collect();
        let more = ids.len() - shown.len();
        shown.join(", ") + &if more > 0 { format!(", ... {more} more") } else { String::new() }
    }

    pub(super) fn print(&mut self, delta: &Delta, out: &mut Output) -> Result<(), Failure> {
        if !delta.despawned().is_empty() {
            out.line(format_args!("gone: {}", self.ids(delta.despawned())))?;
        }
        for group in delta.groups() {
            let verb = if group.spawned() { "come" } else { "changed" };
            out.line(format_args!("{verb}: {}", entities(group.ids().len())))?;
            self.print_group(&group, out)?;
        }
        for (key, target, sources) in delta.lists_by_key() {
            out.line(format_args!("order of {} of {target}: {}", escaped(key), self.ids(sources)))?;
        }
        if delta.resources().next().is_some() {
            let mut table = Table::new(["resource", "value"]);
            for (key, there) in delta.resources() {
                let value = self.or_note(delta.resource_value(key, &self.limits));
                let value = match value {
                    _ if !there => MISSING.to_owned(),
                    Some(value) => value.map_or(MISSING.to_owned(), |value| cell(&value)),
                    None => UNREADABLE.to_owned(),
                };
                table.row(vec![escaped(key), value]);
            }
            out.table(&table)?;
        }
        Ok(())
    }

    fn print_group(&mut self, group: &GroupView<'_>, out: &mut Output) -> Result<(), Failure> {
        let shown = group.ids().len().min(self.rows_max);
        let mut headers = vec!["entity".to_owned()];
        let mut rows: Vec<Vec<String>> = group.ids()[..shown].iter().map(|id| vec![id.to_string()]).collect();
        for change in group.changes() {
            let column = self.cells(&change, shown);
            headers.extend(column.headers);
            rows.iter_mut().zip(column.cells).for_each(|(row, cells)| row.extend(cells));
        }
        let mut table = Table::new(headers);
        rows.into_iter().for_each(|row| table.row(row));
        out.table(&table)?;
        if shown < group.ids().len() {
            out.line(format_args!("... {} more", group.ids().len() - shown))?;
        }
        Ok(())
    }

    /// The first rows of a column.
    fn cells(&mut self, change: &ColumnChange<'_>, shown: usize) -> Cells {
        let key = escaped(&change.component.key);
        let all = |cell: &str, header: String| Cells {
            headers: vec![header],
            cells: vec![vec![cell.to_owned()]; shown],
            values: vec![None; shown],
        };
        if change.op == DeltaOp::Removed {
            return all(MISSING, key);
        }
        if !change.fields.is_empty() {
            let names = change.field_names();
            let Some(rows) = self.or_note(change.field_values(&self.limits)) else {
                return all(UNREADABLE, key);
            };
            let rows = || rows.iter().take(shown);
            let object = |values: &Vec<Value>| -> Json {
                Json::Object(names.iter().cloned().zip(values.iter().map(json::value)).collect())
            };
            let missing = || vec![MISSING.to_owned(); names.len()];
            return Cells {
                headers: names.iter().map(|name| format!("{key}.{}", escaped(name))).collect(),
                cells: rows()
                    .map(|row| row.as_ref().map_or_else(missing, |row| row.iter().map(|v| cell(v)).collect()))
                    .collect(),
                values: rows().map(|row| row.as_ref().map(object)).collect(),
            };
        }
        let Some(values) = self.or_note(change.values(&self.limits)) else { return all(UNREADABLE, key) };
        let values = || values.iter().flatten().take(shown);
        let leaves = Leaf::of(change.component);
        Cells {
            cells: values()
                .map(|value| leaves.iter().map(|leaf| leaf.cell(value.as_ref())).collect())
                .collect(),
            values: values().map(|value| value.as_ref().map(json::value)).collect(),
            headers: leaves.into_iter().map(|leaf| leaf.header).collect(),
        }
    }

    pub(super) fn document(&mut self, delta: &Delta) -> Json {
        let groups: Vec<Json> = delta.groups().map(|group| self.group_json(&group)).collect();
        let ids = |ids: &[EntityId]| ids.iter().map(|id| Json::from(id.to_string())).collect::<Json>();
        let list = |(key, target, sources): (&str, EntityId, &[EntityId])| json!({ "key": key, "target": target.to_string(), "sources": ids(sources) });
        let mut resources = Map::new();
        for (key, _) in delta.resources() {
            let value = self.or_note(delta.resource_value(key, &self.limits)).flatten();
            resources.insert(key.to_owned(), value.as_ref().map_or(Json::Null, json::value));
        }
        json!({
            "despawned": ids(delta.despawned()),
            "groups": groups,
            "lists": delta.lists_by_key().map(list).collect::<Json>(),
            "resources": resources,
        })
    }

    fn group_json(&mut self, group: &GroupView<'_>) -> Json {
        let shown = group.ids().len().min(self.rows_max);
        let mut rows = vec![Map::new(); shown];
        let mut removed = Vec::new();
        let mut fields = Map::new();
        for change in group.changes() {
            let key = &change.component.key;
            match change.op {
                DeltaOp::Removed => removed.push(key.clone()),
                _ if !change.fields.is_empty() => {
                    fields.insert(key.clone(), change.field_names().into());
                }
                _ => {}
            }
            for (row, value) in rows.iter_mut().zip(self.cells(&change, shown).values) {
                if let Some(value) = value {
                    row.insert(key.clone(), value);
                }
            }
        }
        let entities = group.ids().iter().zip(rows);
        let entities: Json =
            entities.map(|(id, row)| json!({ "id": id.to_string(), "components": row })).collect();
        json!({
            "spawned": group.spawned(),
            "entity_count": group.ids().len(),
            "more": group.ids().len() - shown,
            "removed": removed,
            "fields": fields,
            "entities": entities,
        })
    }
}

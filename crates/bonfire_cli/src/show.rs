//! `bonfire show`: the values of a save, as tables for people or JSON for scripts.
//!
//! A column that cannot be read is never passed over: its cells say so, and the reason is printed at the end.

use bonfire::inspect::ColumnView;
use bonfire::{DataEntry, EntityId, Limits, Snapshot, Value};
use bonfire_chunks::ChunkPos;
use bonfire_store::SealKey;
use serde_json::{Map, Value as Json, json};

use crate::arguments::ShowArguments;
use crate::chunks::moment::Moment;
use crate::chunks::show::ShownChunk;
use crate::escape::{escaped, visible};
use crate::exit::{Exit, Failure};
use crate::file::{OnDamage, OpenedSave, SaveFile};
use crate::journal::Journal;
use crate::json;
use crate::leaf::{Leaf, MISSING, UNREADABLE};
use crate::output::{Output, Table, cell, entities};
use crate::read::FileKind;
use crate::verify::print_salvage;

pub(crate) fn run(arguments: &ShowArguments, keys: &[SealKey], out: &mut Output) -> Result<Exit, Failure> {
    match (FileKind::of(&arguments.file), arguments.chunk) {
        (FileKind::ChunkWorld, Some(pos)) => {
            return show_chunk(arguments, pos.in_dimension(arguments.dimension), keys, out);
        }
        _ if arguments.at.is_some() && !FileKind::may_be_world(&arguments.file) => {
            return Err(FileKind::no_world(&arguments.file, "--at"));
        }
        (_, Some(_)) => return Err(Failure::Arguments("--chunk is for chunk worlds".to_owned())),
        _ => {}
    }
    let file = SaveFile::read_sealed(&arguments.file, keys)?;
    let opened = file.open(OnDamage::of_flag(arguments.salvage));
    let OpenedSave { snapshot, journal, damage, .. } =
        opened.map_err(|error| Failure::save(&arguments.file, error, "show"))?;
    let known = |key: &String| snapshot.components().iter().any(|component| component.key == *key);
    if let Some(key) = arguments.components.iter().find(|key| !known(key)) {
        let message = format!("the save has no component `{}`: `bonfire info` lists them", escaped(key));
        return Err(Failure::Arguments(message));
    }
    let limits = Limits::default();
    let mut show = Show { arguments, snapshot: &snapshot, journal, damage, limits, unreadable: Vec::new() };
    if arguments.json {
        let mut document = show.document()?;
        document["journal"] = show.journal.as_ref().map(Journal::to_json).into();
        out.json(&document)?;
    } else {
        show.print(out)?;
    }
    Ok(show.exit())
}

/// Cells, bodies and entities of one chunk.
fn show_chunk(
    arguments: &ShowArguments,
    pos: ChunkPos,
    keys: &[SealKey],
    out: &mut Output,
) -> Result<Exit, Failure> {
    let moment = Moment::open(&arguments.file, arguments.at.as_deref(), keys)?;
    let chunk = ShownChunk::of(&moment.world, pos, arguments.slice);
    let chunk = chunk.map_err(|message| Failure::file(&arguments.file, message))?;
    if let Some(error) = chunk.errors().find(|error| !error.is_corrupt()) {
        return Err(Failure::text(&arguments.file, error));
    }
    let exit = chunk.errors().next().map_or(Exit::Fine, |_| Exit::Damaged);
    let opened = match chunk.entities.as_ref() {
        Ok(Some(bytes)) => Some(Snapshot::open(bytes)),
        Ok(None) => None,
        Err(error) => Some(Err(error.clone())),
    };
    let limits = Limits::default();
    let show_entities =
        |snapshot| Show { arguments, snapshot, journal: None, damage: None, limits, unreadable: Vec::new() };
    if arguments.json {
        let mut document = chunk.to_json();
        document["at"] = moment.to_json();
        document["entities"] = match &opened {
            None => Json::Null,
            Some(Ok(snapshot)) => show_entities(snapshot).document()?,
            Some(Err(error)) => json!({ "error": error.to_string() }),
        };
        out.json(&document)?;
    } else {
        if moment.pin.is_some() {
            out.line(format_args!("at {}", moment.text()))?;
        }
        chunk.print(out)?;
        match &opened {
            None => out.title("no entities")?,
            Some(Ok(snapshot)) => {
                out.title(entities(snapshot.entity_count()))?;
                show_entities(snapshot).print(out)?;
            }
            Some(Err(error)) => out.title(format_args!("entities: {}", visible(&error.to_string())))?,
        }
    }
    let damaged = opened.is_some_and(|opened| opened.is_err());
    Ok(if damaged { Exit::Damaged } else { exit })
}

struct Show<'s> {
    arguments: &'s ShowArguments,
    snapshot: &'s Snapshot,
    /// The journal that is part of it.
    journal: Option<Journal>,
    /// The first damage, if this is a salvaged save.
    damage: Option<bonfire::Error>,
    limits: Limits,
    /// Why some values are not shown.
    unreadable: Vec<bonfire::Error>,
}

/// The values of one column, or nothing if they cannot be read.
type Values = Option<Vec<Option<Value>>>;

impl<'s> Show<'s> {
    fn exit(&self) -> Exit {
        let damaged = self.damage.is_some() || self.unreadable.iter().any(|error| !error.is_unknown());
        let of_journal = self.journal.as_ref().map_or(Exit::Fine, Journal::exit);
        if damaged { Exit::Damaged } else { of_journal }
    }

    fn rows_shown(&self, rows: usize) -> usize {
        if self.arguments.limit == 0 { rows } else { rows.min(self.arguments.limit) }
    }

    /// Whether an archetype has all components that were asked for.
    fn is_wanted(&self, columns: &[ColumnView<'_>]) -> bool {
        let has = |key: &String| columns.iter().any(|column| column.component().key == *key);
        self.arguments.components.iter().all(has)
    }

    /// Passes over what cannot be read if it needs a schema from elsewhere, or if the user asked for what is left.
    fn readable<T>(&mut self, values: Result<T, bonfire::Error>) -> Result<Option<T>, Failure> {
        match values {
            Ok(values) => Ok(Some(values)),
            Err(error) if error.is_unknown() || self.arguments.salvage => {
                self.unreadable.push(error);
                Ok(None)
            }
            Err(error) => Err(Failure::save(&self.arguments.file, error, "show")),
        }
    }

    fn values(&mut self, column: ColumnView<'_>, rows: usize) -> Result<Values, Failure> {
        let values = self.readable(column.values(&self.limits))?;
        Ok(values.map(|mut values| {
            values.truncate(rows);
            values
        }))
    }

    fn print(&mut self, out: &mut Output) -> Result<(), Failure> {
        if let Some(journal) = &self.journal {
            out.line(format_args!("with {}", journal.line()))?;
            out.line("")?;
        }
        let mut shown = 0;
        for (number, archetype) in self.snapshot.archetypes().enumerate() {
            let columns: Vec<ColumnView<'_>> = archetype.columns().collect();
            if !self.is_wanted(&columns) {
                continue;
            }
            if shown > 0 {
                out.line("")?;
            }
            shown += 1;
            out.line(format_args!("archetype {number}: {}", entities(archetype.len())))?;
            self.print_rows(&archetype.ids(), &columns, out)?;
        }
        if shown == 0 {
            let keys: Vec<String> =
                self.arguments.components.iter().map(|key| format!("`{}`", escaped(key))).collect();
            match &*keys {
                [] => out.line("no entities")?,
                keys => out.line(format_args!("no entities with {}", keys.join(" and ")))?,
            }
        }
        self.print_resources(out)?;
        self.print_data(out)?;
        self.print_carried(out)?;
        if !self.unreadable.is_empty() {
            out.title(format_args!("cannot be read, shown as {UNREADABLE}"))?;
            self.unreadable.iter().try_for_each(|error| out.line(visible(&error.to_string())))?;
        }
        if let Some(lost) = self.journal.as_ref().and_then(Journal::lost) {
            out.title(lost)?;
        }
        print_salvage(self.damage.as_ref(), self.snapshot.damage(), out)?;
        Ok(())
    }

    /// One row per entity, one column per leaf.
    fn print_rows(
        &mut self,
        ids: &[EntityId],
        columns: &[ColumnView<'_>],
        out: &mut Output,
    ) -> Result<(), Failure> {
        let shown = self.rows_shown(ids.len());
        let mut headers = vec!["entity".to_owned()];
        let mut rows: Vec<Vec<String>> = ids[..shown].iter().map(|id| vec![id.to_string()]).collect();
        for column in columns {
            let leaves = Leaf::of(column.component());
            let values = self.values(*column, shown)?;
            for (number, row) in rows.iter_mut().enumerate() {
                row.extend(leaves.iter().map(|leaf| match &values {
                    Some(values) => leaf.cell(values.get(number).and_then(Option::as_ref)),
                    None if column.is_present(number) => UNREADABLE.to_owned(),
                    None => MISSING.to_owned(),
                }));
            }
            headers.extend(leaves.into_iter().map(|leaf| leaf.header));
        }
        let mut table = Table::new(headers);
        rows.into_iter().for_each(|row| table.row(row));
        out.table(&table)?;
        if shown < ids.len() {
            out.line(format_args!("... {} more", ids.len() - shown))?;
        }
        Ok(())
    }

    fn print_resources(&mut self, out: &mut Output) -> Result<(), Failure> {
        if self.snapshot.resources().len() == 0 {
            return Ok(());
        }
        let mut table = Table::new(["key", "value"]);
        for column in self.snapshot.resources() {
            table.row(vec![escaped(&column.component().key), self.only_cell(column)?]);
        }
        out.title("resources")?;
        out.table(&table)?;
        Ok(())
    }

    fn print_data(&mut self, out: &mut Output) -> Result<(), Failure> {
        if self.snapshot.data().is_empty() {
            return Ok(());
        }
        let mut table = Table::new(["key", "bytes", "value"]).right(&["bytes"]);
        for entry in self.snapshot.data() {
            let value = self.readable(entry.value(&self.limits))?;
            let value = value.map_or(UNREADABLE.to_owned(), |value| cell(&value));
            table.row(vec![escaped(entry.key()), entry.as_bytes().len().to_string(), value]);
        }
        out.title("data")?;
        out.table(&table)?;
        Ok(())
    }

    fn print_carried(&mut self, out: &mut Output) -> Result<(), Failure> {
        for (ids, column) in self.snapshot.carried() {
            let key = escaped(&column.component().key);
            if ids.is_empty() {
                out.title(format_args!("carried resource `{key}`"))?;
                let value = self.only_cell(column)?;
                out.line(value)?;
            } else {
                out.title(format_args!("carried `{key}`: {}", entities(ids.len())))?;
                self.print_rows(&ids, &[column], out)?;
            }
        }
        Ok(())
    }

    /// The value of a column with one row.
    fn only_cell(&mut self, column: ColumnView<'_>) -> Result<String, Failure> {
        Ok(match self.values(column, 1)?.as_deref() {
            None => UNREADABLE.to_owned(),
            Some([Some(value)]) => cell(value),
            Some(_) => MISSING.to_owned(),
        })
    }

    fn document(&mut self) -> Result<Json, Failure> {
        let mut archetypes = Vec::new();
        for archetype in self.snapshot.archetypes() {
            let columns: Vec<ColumnView<'_>> = archetype.columns().collect();
            if self.is_wanted(&columns) {
                archetypes.push(self.archetype_json(&archetype.ids(), &columns)?);
            }
        }
        let mut resources = Vec::new();
        for column in self.snapshot.resources() {
            resources.push(json!({ "key": column.component().key, "value": self.only_json(column)? }));
        }
        let mut data = Vec::new();
        for entry in self.snapshot.data() {
            data.push(self.data_json(entry)?);
        }
        let mut carried = Vec::new();
        for (ids, column) in self.snapshot.carried() {
            let key = &column.component().key;
            carried.push(if ids.is_empty() {
                json!({ "key": key, "resource": true, "value": self.only_json(column)? })
            } else {
                let mut record = self.archetype_json(&ids, &[column])?;
                record["key"] = key.as_str().into();
                record["resource"] = false.into();
                record
            });
        }
        let unreadable: Json = self.unreadable.iter().map(|error| Json::from(error.to_string())).collect();
        Ok(json!({
            "archetypes": archetypes,
            "resources": resources,
            "data": data,
            "carried": carried,
            "unreadable": unreadable,
            "damage": json::damage(self.damage.as_ref(), self.snapshot.damage()),
        }))
    }

    fn archetype_json(&mut self, ids: &[EntityId], columns: &[ColumnView<'_>]) -> Result<Json, Failure> {
        let shown = self.rows_shown(ids.len());
        let mut rows = vec![Map::new(); shown];
        for column in columns {
            let values = self.values(*column, shown)?;
            let values = values.into_iter().flatten();
            for (row, value) in rows.iter_mut().zip(values) {
                if let Some(value) = value {
                    row.insert(column.component().key.clone(), json::value(&value));
                }
            }
        }
        let entities: Json = (ids.iter().zip(rows))
            .map(|(id, row)| json!({ "id": id.to_string(), "components": row }))
            .collect();
        let keys: Json = columns.iter().map(|column| Json::from(column.component().key.as_str())).collect();
        Ok(json!({
            "components": keys,
            "entity_count": ids.len(),
            "more": ids.len() - shown,
            "entities": entities,
        }))
    }

    fn only_json(&mut self, column: ColumnView<'_>) -> Result<Json, Failure> {
        let values = self.values(column, 1)?.unwrap_or_default();
        Ok(values.first().and_then(Option::as_ref).map_or(Json::Null, json::value))
    }

    fn data_json(&mut self, entry: &DataEntry) -> Result<Json, Failure> {
        let value = self.readable(entry.value(&self.limits))?;
        let value = value.as_ref().map_or(Json::Null, json::value);
        Ok(json!({ "key": entry.key(), "bytes": entry.as_bytes().len(), "value": value }))
    }
}

//! `bonfire info`: what a save is made of, without looking at any value but the metadata.

use std::collections::{BTreeSet, HashMap};
use std::io;

use bonfire::Snapshot;
use bonfire::inspect::{ColumnView, Component, Prelude};
use bonfire_store::SealKey;
use serde_json::{Value as Json, json};

use crate::arguments::InfoArguments;
use crate::escape::{escaped, escaped_path, visible};
use crate::exit::{Exit, Failure};
use crate::file::{OnDamage, SaveFile};
use crate::journal::Journal;
use crate::json;
use crate::output::{Output, Table, cell};
use crate::verify::print_salvage;

pub(crate) fn run(arguments: &InfoArguments, keys: &[SealKey], out: &mut Output) -> Result<Exit, Failure> {
    let path = &arguments.file;
    let file = SaveFile::read_sealed(path, keys)?;
    let file_bytes = file.len();
    let opened = file.open(OnDamage::of_flag(arguments.salvage));
    let opened = opened.map_err(|error| Failure::save(path, error, "info"))?;
    let snapshot = opened.base;
    let info = Info {
        prelude: snapshot.prelude(),
        usage: Usage::of_all(&snapshot),
        snapshot: &snapshot,
        journal: opened.journal.map(|journal| (journal, opened.snapshot.entity_count())),
        damage: opened.damage,
        file_bytes,
    };
    if arguments.json {
        out.json(&info.to_json())?;
    } else {
        out.line(format_args!("{}", escaped_path(path)))?;
        info.print(out)?;
    }
    let of_journal = info.journal.as_ref().map_or(Exit::Fine, |(journal, _)| journal.exit());
    Ok(if info.damage.is_none() { of_journal } else { Exit::Damaged })
}

/// What the columns of one component have in common.
#[derive(Default)]
struct Usage {
    rows: usize,
    encodings: BTreeSet<&'static str>,
}

impl Usage {
    /// By the component's place in memory: its key is not unique if some of its fields are carried.
    fn of_all(snapshot: &Snapshot) -> HashMap<*const Component, Self> {
        let mut all: HashMap<*const Component, Self> = HashMap::new();
        let mut add = |column: ColumnView<'_>| {
            let usage = all.entry(std::ptr::from_ref(column.component())).or_default();
            usage.rows += column.len();
            usage.encodings.insert(column.encoding());
        };
        snapshot.archetypes().for_each(|archetype| archetype.columns().for_each(&mut add));
        snapshot.resources().for_each(&mut add);
        snapshot.carried().for_each(|(_, column)| add(column));
        all
    }
}

struct Info<'s> {
    snapshot: &'s Snapshot,
    /// The journal beside the save, and the number of entities of both together.
    journal: Option<(Journal, usize)>,
    /// The first damage, if this is a salvaged save.
    damage: Option<bonfire::Error>,
    prelude: Prelude,
    usage: HashMap<*const Component, Usage>,
    file_bytes: usize,
}

impl Info<'_> {
    /// All components with what is known of their columns.
    fn components(&self) -> impl Iterator<Item = (&Component, usize, Vec<&'static str>)> {
        self.snapshot.components().iter().map(|component| {
            let usage = self.usage.get(&std::ptr::from_ref(component));
            let encodings = usage.map(|usage| usage.encodings.iter().copied().collect()).unwrap_or_default();
            (component, usage.map_or(0, |usage| usage.rows), encodings)
        })
    }

    fn print(&self, out: &mut Output) -> io::Result<()> {
        let Prelude { version, next_entity_id, entity_count, archetype_count, .. } = &self.prelude;
        out.line(format_args!("format version  {version}"))?;
        out.line(format_args!("file size       {} bytes", self.file_bytes))?;
        out.line(format_args!("next entity id  {next_entity_id}"))?;
        out.line(format_args!("entities        {entity_count}"))?;
        out.line(format_args!("archetypes      {archetype_count}"))?;
        out.line(format_args!("components      {}", self.prelude.components.len()))?;
        if let Some((journal, entities)) = &self.journal {
            out.line(journal.line())?;
            out.line(format_args!("with journal    {}", crate::output::entities(*entities)))?;
            journal.lost().map_or(Ok(()), |lost| out.line(format_args!("journal lost    {lost}")))?;
        }
        self.print_tracks(out)?;
        self.print_metadata(out)?;
        self.print_sections(out)?;
        self.print_components(out)?;
        self.print_resources(out)?;
        self.print_data(out)?;
        self.print_carried(out)?;
        print_salvage(self.damage.as_ref(), self.snapshot.damage(), out)
    }

    fn print_tracks(&self, out: &mut Output) -> io::Result<()> {
        let tracks = self.snapshot.tracks();
        if tracks.is_empty() {
            return Ok(());
        }
        let mut table = Table::new(["name", "version"]).right(&["version"]);
        for (name, version) in &tracks {
            table.row(vec![escaped(name), version.to_string()]);
        }
        out.title("tracks")?;
        out.table(&table)
    }

    fn print_metadata(&self, out: &mut Output) -> io::Result<()> {
        if self.snapshot.metadata().is_empty() {
            return Ok(());
        }
        let mut table = Table::new(["name", "value"]);
        for (name, value) in self.snapshot.metadata() {
            table.row(vec![escaped(name), cell(value)]);
        }
        out.title("metadata")?;
        out.table(&table)
    }

    fn print_sections(&self, out: &mut Output) -> io::Result<()> {
        let headers =
            ["section", "flags", "codec", "offset", "raw bytes", "stored bytes", "blocks", "damaged"];
        let mut table =
            Table::new(headers).right(&["offset", "raw bytes", "stored bytes", "blocks", "damaged"]);
        for section in self.snapshot.sections() {
            let flags = match (section.critical, section.copy) {
                (true, true) => "critical copy",
                (true, false) => "critical",
                (false, true) => "copy",
                (false, false) => "-",
            };
            let name = match section.name {
                "unknown" => format!("unknown ({})", section.kind),
                name => name.to_owned(),
            };
            table.row(vec![
                name,
                flags.to_owned(),
                section.codec.to_owned(),
                section.offset.to_string(),
                section.raw_bytes.to_string(),
                section.stored_bytes.to_string(),
                section.blocks.to_string(),
                section.damaged_blocks.to_string(),
            ]);
        }
        out.title("sections")?;
        out.table(&table)
    }

    fn print_components(&self, out: &mut Output) -> io::Result<()> {
        if self.snapshot.components().is_empty() {
            return Ok(());
        }
        let headers = ["key", "version", "kind", "rows", "stride", "encodings", "schema"];
        let mut table = Table::new(headers).right(&["version", "rows", "stride"]);
        for (component, rows, encodings) in self.components() {
            table.row(vec![
                escaped(&component.key),
                component.version.to_string(),
                component.kind.name().to_owned(),
                rows.to_string(),
                component.row.stride.to_string(),
                if encodings.is_empty() { "-".to_owned() } else { encodings.join(", ") },
                schema_text(component),
            ]);
        }
        out.title("components")?;
        out.table(&table)
    }

    fn print_resources(&self, out: &mut Output) -> io::Result<()> {
        if self.snapshot.resources().len() == 0 {
            return Ok(());
        }
        let mut table = Table::new(["key", "encoding", "bytes"]).right(&["bytes"]);
        for column in self.snapshot.resources() {
            let key = escaped(&column.component().key);
            table.row(vec![key, column.encoding().to_owned(), column.byte_len().to_string()]);
        }
        out.title("resources")?;
        out.table(&table)
    }

    fn print_data(&self, out: &mut Output) -> io::Result<()> {
        if self.snapshot.data().is_empty() {
            return Ok(());
        }
        let mut table = Table::new(["key", "bytes", "schema"]).right(&["bytes"]);
        for entry in self.snapshot.data() {
            let schema = match entry.schema() {
                Ok(schema) => visible(&schema.to_string()).into_owned(),
                Err(_) => format!("by hash: {}", entry.schema_fingerprint()),
            };
            table.row(vec![escaped(entry.key()), entry.as_bytes().len().to_string(), schema]);
        }
        out.title("data")?;
        out.table(&table)
    }

    fn print_carried(&self, out: &mut Output) -> io::Result<()> {
        if self.snapshot.carried().len() == 0 {
            return Ok(());
        }
        let mut table = Table::new(["key", "of", "encoding", "bytes"]).right(&["bytes"]);
        for (ids, column) in self.snapshot.carried() {
            let owner =
                if ids.is_empty() { "resource".to_owned() } else { crate::output::entities(ids.len()) };
            let key = escaped(&column.component().key);
            table.row(vec![key, owner, column.encoding().to_owned(), column.byte_len().to_string()]);
        }
        out.title("carried: data that the saving game did not know and kept")?;
        out.table(&table)
    }

    fn to_json(&self) -> Json {
        let Prelude { version, next_entity_id, entity_count, archetype_count, .. } = &self.prelude;
        let metadata = self.snapshot.metadata().iter();
        let metadata: Json =
            metadata.map(|(name, value)| json!({ "name": name, "value": json::value(value) })).collect();
        let tracks = self.snapshot.tracks();
        let tracks = tracks.iter().map(|(name, version)| json!({ "name": name, "version": version }));
        let sections = self.snapshot.sections().iter().map(|section| {
            json!({
                "kind": section.kind,
                "name": section.name,
                "critical": section.critical,
                "copy": section.copy,
                "codec": section.codec,
                "offset": section.offset,
                "raw_bytes": section.raw_bytes,
                "stored_bytes": section.stored_bytes,
                "blocks": section.blocks,
                "damaged_blocks": section.damaged_blocks,
            })
        });
        let components = self.components().map(|(component, rows, encodings)| {
            json!({
                "key": component.key,
                "version": component.version,
                "kind": component.kind.name(),
                "schema": component.schema().ok().map(ToString::to_string),
                "schema_fingerprint": component.schema_fingerprint.to_string(),
                "rows": rows,
                "stride": component.row.stride,
                "encodings": encodings,
            })
        });
        let column = |column: ColumnView<'_>| {
            json!({
                "key": column.component().key,
                "encoding": column.encoding(),
                "bytes": column.byte_len(),
            })
        };
        let data = self.snapshot.data().iter().map(|entry| {
            json!({
                "key": entry.key(),
                "bytes": entry.as_bytes().len(),
                "version": entry.version(),
                "schema": entry.schema().ok().map(ToString::to_string),
            })
        });
        let carried = self.snapshot.carried().map(|(ids, carried)| {
            let mut record = column(carried);
            record["entities"] = ids.len().into();
            record["resource"] = ids.is_empty().into();
            record
        });
        json!({
            "format_version": version,
            "file_bytes": self.file_bytes,
            "next_entity_id": next_entity_id,
            "entities": entity_count,
            "archetypes": archetype_count,
            "tracks": tracks.collect::<Json>(),
            "metadata": metadata,
            "sections": sections.collect::<Json>(),
            "components": components.collect::<Json>(),
            "resources": self.snapshot.resources().map(column).collect::<Json>(),
            "data": data.collect::<Json>(),
            "carried": carried.collect::<Json>(),
            "journal": self.journal.as_ref().map(|(journal, entities)| {
                let mut document = journal.to_json();
                document["entities_with_journal"] = (*entities).into();
                document
            }),
            "damage": json::damage(self.damage.as_ref(), self.snapshot.damage()),
        })
    }
}

fn schema_text(component: &Component) -> String {
    match component.schema() {
        Ok(schema) => visible(&schema.to_string()).into_owned(),
        Err(_) => format!("by hash only: {}", component.schema_fingerprint),
    }
}

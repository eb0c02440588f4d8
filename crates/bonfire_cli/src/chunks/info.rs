//! `bonfire info` of a world: what it is and how it lies in its file.

use std::io;
use std::time::Duration;

use bonfire_chunks::{
    ChunkPos, ChunkRect, ChunkWorld, LayerSet, OpenReport, Persistence, Storage, WorldInfo,
};
use bonfire_store::SealKey;
use bonfire_store::disk::Access;
use serde_json::{Value as Json, json};

use super::{count, open_or_fail, part, pos};
use crate::arguments::InfoArguments;
use crate::escape::{escaped, escaped_path};
use crate::exit::{Exit, Failure};
use crate::ls::date;
use crate::output::{Output, Table};

pub(crate) fn run(arguments: &InfoArguments, keys: &[SealKey], out: &mut Output) -> Result<Exit, Failure> {
    let path = &arguments.file;
    let world = open_or_fail(path, Access::Read, keys)?;
    let info = Info::of(&world);
    if arguments.json {
        out.json(&info.to_json())?;
    } else {
        out.line(escaped_path(path))?;
        info.print(out)?;
    }
    Ok(if info.is_fine() { Exit::Fine } else { Exit::Damaged })
}

struct Info {
    world: WorldInfo,
    report: OpenReport,
    full: usize,
    delta: usize,
    empty: usize,
    /// The corners of everything that is in the file.
    extent: Option<(ChunkPos, ChunkPos)>,
    /// `None` if it is not known: nobody has the key, or lists are damaged.
    bodies: Option<usize>,
}

impl Info {
    fn of(world: &ChunkWorld) -> Self {
        let (mut full, mut delta, mut empty) = (0, 0, 0);
        for place in world.iter() {
            match world.storage(place) {
                Some(Storage::Full) => full += 1,
                Some(Storage::Delta) => delta += 1,
                Some(Storage::Empty) => empty += 1,
                None => {}
            }
        }
        let lists = world.chunks_with_bodies(ChunkRect::ALL);
        let bodies =
            lists.into_iter().map(|place| world.read_bodies(place).map(|list| list.len()).ok()).sum();
        let (info, report) = (world.info(), world.report().clone());
        Self { extent: extent(world), world: info, report, full, delta, empty, bodies }
    }

    fn is_fine(&self) -> bool {
        self.report.is_fine() && self.world.set_aside.is_empty()
    }

    fn print(&self, out: &mut Output) -> io::Result<()> {
        let info = &self.world;
        let Self { full, delta, empty, .. } = self;
        let size = info.chunk_size;
        let yes = |is: bool| if is { "yes" } else { "no" };
        out.line("kind              world of chunks")?;
        out.line(format_args!("seed              {}", info.seed))?;
        out.line(format_args!("made              {}", date(Duration::from_secs(info.created))))?;
        out.line(format_args!("written anew      {}", date(Duration::from_secs(info.modified))))?;
        out.line(format_args!("saves             {}", info.generation))?;
        out.line(format_args!("chunk             {size} x {size} cells, tiles of {}", info.tile_size))?;
        out.line(format_args!(
            "chunks            {} ({full} full, {delta} deltas, {empty} empty)",
            info.chunks
        ))?;
        if let Some((min, max)) = self.extent {
            out.line(format_args!("extent            {min} to {max}"))?;
        }
        let bodies = self.bodies.map_or("unknown".to_owned(), |bodies| bodies.to_string());
        out.line(format_args!("bodies            {bodies}, in {}", chunks(info.chunks_with_bodies)))?;
        out.line(format_args!("entities          in {}", chunks(info.chunks_with_entities)))?;
        out.line(format_args!(
            "file size         {} bytes, {} of them dead",
            info.file_bytes, info.dead_bytes
        ))?;
        out.line(format_args!("plain layout      {}", yes(info.compat)))?;
        out.line(format_args!("sealed            {}", yes(info.sealed)))?;
        out.line(format_args!("generator         version {}", info.layers.generator_version()))?;
        print_layers(&info.layers, out)?;
        print_materials(&info.layers, out)?;
        self.print_state(out)
    }

    /// What opening found.
    fn print_state(&self, out: &mut Output) -> io::Result<()> {
        let lines = state_lines(&self.report);
        if !lines.is_empty() {
            out.title("state")?;
            lines.iter().try_for_each(|line| out.line(line))?;
        }
        let aside = self.world.set_aside.iter().chain(&self.report.damaged);
        let aside: Vec<String> = aside.map(ToString::to_string).collect();
        if !aside.is_empty() {
            out.title("damaged, see `bonfire verify`")?;
            aside.iter().try_for_each(|line| out.line(line))?;
        }
        Ok(())
    }

    fn to_json(&self) -> Json {
        let info = &self.world;
        let aside = info.set_aside.iter().map(|frame| part(frame, "set aside earlier"));
        let found = self.report.damaged.iter().map(|frame| part(frame, "found when it was opened"));
        let layers = info.layers.layers().iter().map(|layer| {
            json!({
                "name": layer.name(),
                "bytes": layer.bytes(),
                "version": layer.version(),
                "persistence": persistence(layer.persistence()),
                "default": hex(layer.default_value()),
            })
        });
        let materials = info.layers.materials().map(|(layer, names)| {
            let names = names.iter().map(|(id, name)| json!({ "id": id, "name": name }));
            json!({ "layer": layer.name(), "names": names.collect::<Json>() })
        });
        json!({
            "kind": "chunks",
            "seed": info.seed,
            "created": info.created,
            "modified": info.modified,
            "saves": info.generation,
            "chunk_size": info.chunk_size,
            "tile_size": info.tile_size,
            "chunks": info.chunks,
            "full": self.full,
            "delta": self.delta,
            "empty": self.empty,
            "extent": self.extent.map(|(min, max)| json!({ "min": pos(min), "max": pos(max) })),
            "bodies": self.bodies,
            "chunks_with_bodies": info.chunks_with_bodies,
            "chunks_with_entities": info.chunks_with_entities,
            "file_bytes": info.file_bytes,
            "dead_bytes": info.dead_bytes,
            "index_bytes": info.index_bytes,
            "compat": info.compat,
            "sealed": info.sealed,
            "generator_version": info.layers.generator_version(),
            "layers": layers.collect::<Json>(),
            "materials": materials,
            "opening": report_json(&self.report),
            "damaged": aside.chain(found).collect::<Json>(),
        })
    }
}

fn chunks(number: usize) -> String {
    count(number, "chunk", "chunks")
}

/// The corners of all chunks, and of those that are damaged or have nothing but bodies or entities.
pub(crate) fn extent(world: &ChunkWorld) -> Option<(ChunkPos, ChunkPos)> {
    let all = ChunkRect::ALL;
    let (aside, report) = (world.info().set_aside, world.report());
    let damaged = aside.iter().chain(&report.damaged).filter_map(bonfire_chunks::DamagedFrame::chunk);
    let others = world.chunks_with_bodies(all).into_iter().chain(world.chunks_with_entities(all));
    let corners = |found: Option<(ChunkPos, ChunkPos)>, pos: ChunkPos| {
        let (min, max) = found.unwrap_or((pos, pos));
        let min = ChunkPos::new(min.x.min(pos.x), min.y.min(pos.y));
        Some((min, ChunkPos::new(max.x.max(pos.x), max.y.max(pos.y))))
    };
    world.iter().chain(others).chain(damaged).fold(None, corners)
}

/// What opening had to do, a line for each.
pub(crate) fn state_lines(report: &OpenReport) -> Vec<String> {
    let mut lines = Vec::new();
    // Behind a damaged header nobody knows which saves it had.
    if report.saves_replayed > 0 && !report.header_rebuilt {
        let saves = report.saves_replayed;
        lines.push(format!(
            "it was not closed: {saves} saves are replayed when it is opened, nothing is lost"
        ));
    }
    if report.bytes_dropped > 0 {
        let bytes = report.bytes_dropped;
        lines.push(format!("{bytes} bytes of a save that was under way do not count"));
    }
    if report.header_rebuilt {
        lines.push("the header is damaged, and known from a copy".to_owned());
    }
    if report.table_rebuilt {
        lines.push("the page table is damaged, and made anew out of the frames".to_owned());
    }
    if report.seal_outdated {
        lines.push("it is sealed in an old way: the next save of the game seals it anew".to_owned());
    }
    if report.unproven {
        lines.push("it does not prove what it holds: parts were changed, put back or lost".to_owned());
    }
    lines
}

pub(crate) fn report_json(report: &OpenReport) -> Json {
    json!({
        "closed": report.saves_replayed == 0 && report.bytes_dropped == 0,
        "saves_replayed": report.saves_replayed,
        "bytes_dropped": report.bytes_dropped,
        "header_rebuilt": report.header_rebuilt,
        "table_rebuilt": report.table_rebuilt,
        "seal_outdated": report.seal_outdated,
        "unproven": report.unproven,
    })
}

fn print_layers(set: &LayerSet, out: &mut Output) -> io::Result<()> {
    let mut table =
        Table::new(["name", "bytes", "version", "persists", "default"]).right(&["bytes", "version"]);
    for layer in set.layers() {
        table.row(vec![
            escaped(layer.name()),
            layer.bytes().to_string(),
            layer.version().to_string(),
            persistence(layer.persistence()),
            hex(layer.default_value()),
        ]);
    }
    out.title("layers")?;
    out.table(&table)
}

fn print_materials(set: &LayerSet, out: &mut Output) -> io::Result<()> {
    let Some((layer, names)) = set.materials() else { return Ok(()) };
    let mut table = Table::new(["id", "name"]).right(&["id"]);
    for (id, name) in names {
        table.row(vec![id.to_string(), escaped(name)]);
    }
    out.title(format_args!("materials of layer {}", escaped(layer.name())))?;
    out.table(&table)
}

fn persistence(persistence: &Persistence) -> String {
    match persistence {
        Persistence::Always => "always".to_owned(),
        Persistence::Yes => "yes".to_owned(),
        Persistence::Partial(mask) => format!("bits {}", hex(mask)),
        Persistence::No => "no".to_owned(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

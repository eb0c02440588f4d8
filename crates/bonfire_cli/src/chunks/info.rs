//! `bonfire info` of a world: what it is and how it lies in its file.

use std::io;
use std::time::Duration;

use bonfire_chunks::{ChunkRect, ChunkWorld, LayerSet, OpenReport, Persistence, Storage, WorldInfo};
use bonfire_store::SealKey;
use bonfire_store::disk::Access;
use serde_json::{Value as Json, json};

use super::dimension::{DimensionFacts, extent, extent_json};
use super::moment::Moment;
use super::{count, open_or_fail, part};
use crate::arguments::InfoArguments;
use crate::escape::{escaped, escaped_path};
use crate::exit::{Exit, Failure};
use crate::ls::date;
use crate::output::{Output, Table};

pub(crate) fn run(arguments: &InfoArguments, keys: &[SealKey], out: &mut Output) -> Result<Exit, Failure> {
    let path = &arguments.file;
    let world = open_or_fail(path, Access::Read, keys)?;
    let moment = Moment::of(&world, path, arguments.at.as_deref())?;
    let info = Info::of(&world, &moment);
    if arguments.json {
        out.json(&info.to_json(&moment))?;
    } else {
        out.line(escaped_path(path))?;
        info.print(&moment, out)?;
    }
    Ok(if info.is_fine() { Exit::Fine } else { Exit::Damaged })
}

struct Info {
    world: WorldInfo,
    dimensions: Vec<DimensionFacts>,
    /// Pins of the file, and what they hold, also if this is the world at one of them.
    pins: (usize, u64),
    /// The names of pins that are damaged, unless this is the world at another one.
    damaged_pins: Vec<String>,
    report: OpenReport,
    full: usize,
    delta: usize,
    empty: usize,
    /// The corners of what is in dimension 0.
    extent: Option<ChunkRect>,
    /// `None` if it is not known: nobody has the key, or lists are damaged.
    bodies: Option<usize>,
}

impl Info {
    fn of(file: &ChunkWorld, moment: &Moment) -> Self {
        let world = &moment.world;
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
        let (info, of_file, report) = (world.info(), file.info(), file.report().clone());
        let pins = (of_file.pins, of_file.pinned_bytes);
        // At a pin there are none.
        let damaged_pins =
            world.pins().into_iter().filter(|pin| pin.is_damaged).map(|pin| pin.name).collect();
        let (dimensions, extent) = (DimensionFacts::all(&info), extent(world, 0));
        Self { extent, world: info, dimensions, pins, damaged_pins, report, full, delta, empty, bodies }
    }

    fn is_fine(&self) -> bool {
        self.report.is_fine() && self.world.set_aside.is_empty() && self.damaged_pins.is_empty()
    }

    fn print(&self, moment: &Moment, out: &mut Output) -> io::Result<()> {
        let info = &self.world;
        let Self { full, delta, empty, .. } = self;
        let first = &self.dimensions[0];
        let yes = |is: bool| if is { "yes" } else { "no" };
        out.line("kind              world of chunks")?;
        if moment.pin.is_some() {
            out.line(format_args!("at                {}", moment.text()))?;
        }
        out.line(format_args!("format version    {}", info.format_version))?;
        out.line(format_args!("seed              {}", info.seed))?;
        out.line(format_args!("made              {}", date(Duration::from_secs(info.created))))?;
        out.line(format_args!("written anew      {}", date(Duration::from_secs(info.modified))))?;
        out.line(format_args!("saves             {}", info.generation))?;
        out.line(format_args!("coordinates       {}", first.coordinates()))?;
        out.line(format_args!(
            "chunk             {} cells, tiles of {}",
            first.cells_text(),
            info.tile_size
        ))?;
        out.line(format_args!(
            "chunks            {} ({full} full, {delta} deltas, {empty} empty)",
            info.chunks
        ))?;
        if let Some(extent) = self.extent {
            out.line(format_args!("extent            {} to {}", extent.min(), extent.max()))?;
        }
        let bodies = self.bodies.map_or("unknown".to_owned(), |bodies| bodies.to_string());
        out.line(format_args!("bodies            {bodies}, in {}", chunks(info.chunks_with_bodies)))?;
        out.line(format_args!("entities          in {}", chunks(info.chunks_with_entities)))?;
        out.line(format_args!(
            "file size         {} bytes, {} of them dead",
            info.file_bytes, info.dead_bytes
        ))?;
        let pins = match self.pins {
            (0, _) => "none".to_owned(),
            (pins, held) => format!("{pins}, which hold {held} bytes"),
        };
        out.line(format_args!("pins              {pins}"))?;
        out.line(format_args!("plain layout      {}", yes(info.compat)))?;
        out.line(format_args!("sealed            {}", yes(info.sealed)))?;
        out.line(format_args!("generator         {}", generator(first)))?;
        self.print_dimensions(&moment.world, out)?;
        for dimension in &self.dimensions {
            print_layers(dimension, out)?;
            print_materials(dimension, out)?;
        }
        self.print_state(out)
    }

    /// A table of all dimensions, if there are several.
    fn print_dimensions(&self, world: &ChunkWorld, out: &mut Output) -> io::Result<()> {
        if self.dimensions.len() == 1 {
            return Ok(());
        }
        let headers = ["number", "coordinates", "chunk", "tile", "seed", "chunks", "extent", "generator"];
        let mut table = Table::new(headers).right(&["number", "coordinates", "tile", "seed", "chunks"]);
        for dimension in &self.dimensions {
            let extent = extent(world, dimension.number);
            let corner = |pos: bonfire_chunks::ChunkPos| pos.in_dimension(0);
            table.row(vec![
                dimension.number.to_string(),
                dimension.coordinates().to_string(),
                dimension.cells_text(),
                dimension.tile_size.to_string(),
                dimension.seed.to_string(),
                dimension.chunks.to_string(),
                extent
                    .map_or("-".to_owned(), |all| format!("{} to {}", corner(all.min()), corner(all.max()))),
                generator(dimension),
            ]);
        }
        out.title("dimensions")?;
        out.table(&table)
    }

    /// What opening found.
    fn print_state(&self, out: &mut Output) -> io::Result<()> {
        let lines = state_lines(&self.report);
        if !lines.is_empty() {
            out.title("state")?;
            lines.iter().try_for_each(|line| out.line(line))?;
        }
        let aside = self.world.set_aside.iter().chain(&self.report.damaged);
        let pins = self.damaged_pins.iter().map(|name| format!("pin `{}`", escaped(name)));
        let aside: Vec<String> = aside.map(ToString::to_string).chain(pins).collect();
        if !aside.is_empty() {
            out.title("damaged, see `bonfire verify`")?;
            aside.iter().try_for_each(|line| out.line(line))?;
        }
        Ok(())
    }

    fn to_json(&self, moment: &Moment) -> Json {
        let info = &self.world;
        let aside = info.set_aside.iter().map(|frame| part(frame, "set aside earlier"));
        let found = self.report.damaged.iter().map(|frame| part(frame, "found when it was opened"));
        let dimensions = self.dimensions.iter().map(|dimension| {
            let mut document = dimension.to_json(&moment.world);
            document["layers"] = layers_json(&dimension.layers);
            document["materials"] = materials_json(&dimension.layers);
            document
        });
        json!({
            "kind": "chunks",
            "at": moment.to_json(),
            "format_version": info.format_version,
            "coordinates": self.dimensions[0].coordinates(),
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
            "extent": self.extent.map(extent_json),
            "bodies": self.bodies,
            "chunks_with_bodies": info.chunks_with_bodies,
            "chunks_with_entities": info.chunks_with_entities,
            "file_bytes": info.file_bytes,
            "dead_bytes": info.dead_bytes,
            "index_bytes": info.index_bytes,
            "pins": self.pins.0,
            "pinned_bytes": self.pins.1,
            "damaged_pins": self.damaged_pins,
            "compat": info.compat,
            "sealed": info.sealed,
            "generator": info.generator,
            "generator_version": info.layers.generator_version(),
            "layers": layers_json(&info.layers),
            "materials": materials_json(&info.layers),
            "dimensions": dimensions.collect::<Json>(),
            "opening": report_json(&self.report),
            "damaged": aside.chain(found).collect::<Json>(),
        })
    }
}

fn chunks(number: usize) -> String {
    count(number, "chunk", "chunks")
}

/// Returns the name and the version of a generator.
fn generator(dimension: &DimensionFacts) -> String {
    let version = format!("version {}", dimension.layers.generator_version());
    dimension.generator.as_ref().map_or(version.clone(), |name| format!("{}, {version}", escaped(name)))
}

fn layers_json(set: &LayerSet) -> Json {
    let layers = set.layers().iter().map(|layer| {
        json!({
            "name": layer.name(),
            "bytes": layer.bytes(),
            "version": layer.version(),
            "persistence": persistence(layer.persistence()),
            "default": hex(layer.default_value()),
        })
    });
    layers.collect()
}

fn materials_json(set: &LayerSet) -> Json {
    let Some((layer, names)) = set.materials() else { return Json::Null };
    let names = names.iter().map(|(id, name)| json!({ "id": id, "name": name }));
    json!({ "layer": layer.name(), "names": names.collect::<Json>() })
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

/// Returns what a title says of a dimension that is not the first.
fn of_dimension(dimension: &DimensionFacts) -> String {
    match dimension.number {
        0 => String::new(),
        number => format!(" of dimension {number}"),
    }
}

fn print_layers(dimension: &DimensionFacts, out: &mut Output) -> io::Result<()> {
    let mut table =
        Table::new(["name", "bytes", "version", "persists", "default"]).right(&["bytes", "version"]);
    for layer in dimension.layers.layers() {
        table.row(vec![
            escaped(layer.name()),
            layer.bytes().to_string(),
            layer.version().to_string(),
            persistence(layer.persistence()),
            hex(layer.default_value()),
        ]);
    }
    out.title(format_args!("layers{}", of_dimension(dimension)))?;
    out.table(&table)
}

fn print_materials(dimension: &DimensionFacts, out: &mut Output) -> io::Result<()> {
    let Some((layer, names)) = dimension.layers.materials() else { return Ok(()) };
    let mut table = Table::new(["id", "name"]).right(&["id"]);
    for (id, name) in names {
        table.row(vec![id.to_string(), escaped(name)]);
    }
    let layer = escaped(layer.name());
    out.title(format_args!("materials of layer {layer}{}", of_dimension(dimension)))?;
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

//! `bonfire import`: worlds of other programs.
//!
//! The old world is only read. A world that is damaged is written only if the user asked for what is left, and then the
//! output says what that is. The new file takes nobody's place.

use std::io;
use std::path::Path;

use bonfire_chunks::import::pixel_world::{
    Mode, NOT_CHECKED, PixelContent, PixelPayload, PixelStorage, PixelWorld,
};
use bonfire_chunks::{Body, ChunkPos};
use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};

use crate::arguments::PixelWorldArguments;
use crate::escape::{escaped_path, visible};
use crate::exit::{Exit, Failure};
use crate::json;
use crate::output::Output;
use crate::read::FileKind;

pub(crate) fn run(arguments: &PixelWorldArguments, out: &mut Output) -> Result<Exit, Failure> {
    let target = arguments.output.as_deref().filter(|_| !arguments.dry_run);
    // A link is there even if it leads nowhere.
    if let Some(new) = target.filter(|new| new.symlink_metadata().is_ok()) {
        return Err(Failure::file(new, "this file exists already"));
    }
    FileKind::require(&arguments.world, FileKind::PixelWorld, &[FileKind::ChunkWorld])?;
    let mut world = open(&arguments.world)?;
    if let Some(older) = &arguments.older {
        let copy = open(older)?;
        world.place_by(&copy).map_err(|error| failure(older, &error))?;
    }
    let exit = match &world.report.damage {
        None => Exit::Fine,
        Some(damage) if damage.is_newer_format() => Exit::NewerFormat,
        Some(_) => Exit::Damaged,
    };
    let written = target.filter(|_| exit == Exit::Fine || arguments.salvage);
    let document =
        arguments.json.then(|| document(&arguments.world, &world, written.is_some())).transpose()?;
    // First the file, then the words: whoever reads them may go away.
    if let Some(new) = written {
        let options = world.options().generator_version(arguments.generator_version);
        world.write(new, &options).map_err(|error| Failure::named(&error))?;
    }
    let printed = match document {
        Some(document) => out.json(&document),
        None => print(&world, arguments.dry_run, written, out),
    };
    out.answer(printed, exit)
}

fn open(path: &Path) -> Result<PixelWorld, Failure> {
    PixelWorld::open(path, Mode::Salvage).map_err(|error| failure(path, &error))
}

fn failure(path: &Path, error: &bonfire::Error) -> Failure {
    // Errors of the system name their file.
    if error.is_io() { Failure::named(error) } else { Failure::text(path, error) }
}

fn print(world: &PixelWorld, dry_run: bool, written: Option<&Path>, out: &mut Output) -> io::Result<()> {
    let count = |storage| world.chunks.iter().filter(|chunk| chunk.payload.storage() == storage).count();
    out.line(format_args!(
        "seed {}, {} chunks ({} full, {} deltas, {} empty), {} bodies",
        world.seed,
        world.chunks.len(),
        count(PixelStorage::Full),
        count(PixelStorage::Delta),
        count(PixelStorage::Empty),
        world.bodies.len()
    ))?;
    let report = &world.report;
    if let Some(damage) = &report.damage {
        out.line(format_args!("damaged: {}", visible(&damage.to_string())))?;
    }
    list("repaired", &report.repaired, out)?;
    list("missing", &report.skipped, out)?;
    list("without a place, or older versions", &report.unplaced, out)?;
    let unlisted: Vec<String> = world.unlisted.iter().map(|body| format!("body {}", body.id)).collect();
    list("not listed: the game may have removed them", &unlisted, out)?;
    if report.damage.is_some() {
        out.title(NOT_CHECKED)?;
    }
    match written {
        Some(new) => out.line(format_args!("written to {}", escaped_path(new))),
        None if dry_run => out.line("nothing was written: this is a dry run"),
        None => out.line("nothing was written: with --salvage, what is left is"),
    }
}

fn list(title: &str, lines: &[impl ToString], out: &mut Output) -> io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    out.title(title)?;
    lines.iter().try_for_each(|line| out.line(visible(&line.to_string())))
}

fn document(path: &Path, world: &PixelWorld, written: bool) -> Result<Json, Failure> {
    let report = &world.report;
    let placed = world.chunks.iter().map(|chunk| (Some(chunk.pos), &chunk.payload));
    // Those whose place is lost are listed too: their contents are whole.
    let all = placed.chain(report.unplaced.iter().map(|payload| (None, payload)));
    let chunks = all.map(|(pos, payload)| chunk(path, pos, payload)).collect::<Result<Vec<_>, _>>()?;
    Ok(json!({
        "file": path.to_string_lossy(),
        "seed": world.seed,
        "created": world.created,
        "modified": world.modified,
        "chunk_size": world.chunk_size,
        "tile_size": world.tile_size,
        "pixel_size": world.pixel_size,
        "chunks": chunks,
        "bodies": world.bodies.iter().map(|body| self::body(world, body)).collect::<Vec<_>>(),
        "damage": report.damage.as_ref().map(ToString::to_string),
        "repaired": texts(&report.repaired),
        "skipped": texts(&report.skipped),
        "unplaced": report.unplaced.iter().map(unplaced).collect::<Vec<_>>(),
        "unlisted_bodies": world.unlisted.iter().map(|body| body.id.to_string()).collect::<Vec<_>>(),
        "written": written,
    }))
}

fn texts(values: &[impl ToString]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

fn chunk(path: &Path, pos: Option<ChunkPos>, payload: &PixelPayload) -> Result<Json, Failure> {
    let pos = pos.map(|pos| [pos.x, pos.y]);
    let mut document = json!({ "pos": pos, "storage": payload.storage().to_string() });
    match payload.storage() {
        PixelStorage::Empty => {}
        PixelStorage::Delta => document["delta_entries"] = payload.delta_entries().into(),
        PixelStorage::Full => {
            if let PixelContent::Full(cells) = payload.content().map_err(|error| failure(path, &error))? {
                document["cells_sha256"] = sha256(&cells).into();
            }
        }
    }
    Ok(document)
}

fn unplaced(payload: &PixelPayload) -> Json {
    json!({
        "offset": payload.offset(),
        "bytes": payload.stored_bytes(),
        "storage": payload.storage().to_string(),
        "delta_entries": payload.delta_entries(),
    })
}

fn body(world: &PixelWorld, body: &Body) -> Json {
    // As wide as JSON has numbers: nothing is rounded.
    let float = |value: f32| json::float(value.into());
    let cells = (0..body.height).flat_map(|y| (0..body.width).map(move |x| (x, y)));
    let mask: String = cells.map(|(x, y)| if body.solid(x, y) { '1' } else { '0' }).collect();
    let chunk = body.chunk(world.chunk_size.into());
    json!({
        "stable_id": body.id.to_string(),
        "position": body.position.map(float),
        "rotation": float(body.rotation),
        "linear_velocity": body.linear_velocity.map(float),
        "angular_velocity": float(body.angular_velocity),
        "width": body.width,
        "height": body.height,
        "origin": body.origin,
        "pixels_sha256": sha256(&body.cells),
        "mask": mask,
        "extension_hex": hex(&body.extension),
        "chunk_pos": chunk.map(|pos| [pos.x, pos.y]),
    })
}

fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

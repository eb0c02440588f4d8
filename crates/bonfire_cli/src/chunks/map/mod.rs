//! `bonfire map`: a picture of a world, drawn one row of chunks at a time.

mod marks;
mod palette;
mod tile;

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Read as _};
use std::path::{Path, PathBuf};

use bonfire_chunks::{ChunkPos, ChunkRect, ChunkWorld, StoredChunk};
use bonfire_store::SealKey;
use bonfire_store::disk::Access;
use serde_json::json;

use self::marks::{Marks, Tile};
use self::palette::Palette;
use self::tile::{Content, Painter, Span, content};
use super::info::extent;
use super::{count, open_or_fail, pos};
use crate::arguments::chunks::{MapArguments, Zoom};
use crate::escape::{escaped, escaped_path};
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// A picture is not wider or higher, unless the user says how large a chunk is.
const PIXELS_DEFAULT: u64 = 2048;
const EDGE_MAX: u64 = 32_768;
const PIXELS_MAX: u64 = 1 << 28;
/// Pixels of one row of chunks, which are in memory at once.
const ROW_PIXELS_MAX: u64 = 1 << 26;

pub(crate) fn run(arguments: &MapArguments, keys: &[SealKey], out: &mut Output) -> Result<Exit, Failure> {
    let path = &arguments.file;
    let world = open_or_fail(path, Access::Read, keys)?;
    let rect = match arguments.region {
        Some(region) => region,
        None => {
            let (min, max) =
                extent(&world).ok_or_else(|| Failure::file(path, "there is no chunk in this world"))?;
            ChunkRect::new(min, max)
        }
    };
    let picture = Picture::plan(&world, rect, arguments.zoom.map_or(arguments.scale, |Zoom::Out| Some(1)))
        .map_err(|message| Failure::file(path, message))?;
    let info = world.info();
    let layers = info.layers.layers();
    let span = |name: &str| {
        Span::of(layers, name).ok_or_else(|| {
            let names: Vec<String> = layers.iter().map(|layer| escaped(layer.name())).collect();
            let message = format!("there is no layer `{}`, only {}", escaped(name), names.join(", "));
            Failure::file(path, message)
        })
    };
    let layer = match (&arguments.layer, info.layers.materials(), layers.first()) {
        (Some(name), _, _) => name.as_str(),
        (None, Some((layer, _)), _) => layer.name(),
        (None, None, Some(layer)) => layer.name(),
        (None, None, None) => "",
    };
    let mut palette = Palette::built_in(&info.layers, layer);
    let mut unknown = Vec::new();
    if let Some(name) = &arguments.palette {
        match name.to_str().and_then(|name| Palette::named(name, &info.layers, layer)) {
            Some(named) => palette = named,
            None => unknown = palette.read(name, &info.layers)?,
        }
    }
    let painter = Painter {
        palette: &palette,
        material: span(layer)?,
        shade: arguments.shade.as_deref().map(span).transpose()?,
        cell_bytes: info.layers.stored_bytes(),
        size: usize::from(info.chunk_size),
        pixels: picture.scale,
        y_down: arguments.y_down,
        default: layers.iter().flat_map(|layer| layer.default_value().to_vec()).collect(),
    };
    let mut drawn = Drawn::default();
    save(&arguments.picture, |file| picture.write(&world, &painter, arguments, file, &mut drawn))?;
    drawn.names_unknown = unknown;
    let printed = if arguments.json {
        out.json(&drawn.to_json(&picture))
    } else {
        drawn.print(&picture, arguments, out)
    };
    out.answer(
        printed,
        if drawn.damaged.is_empty() && drawn.marks.damaged.is_empty() { Exit::Fine } else { Exit::Damaged },
    )
}

/// Which chunks are drawn, and how large.
struct Picture {
    rect: ChunkRect,
    columns: u32,
    rows: u32,
    /// Pixels along an edge of a chunk.
    scale: usize,
    width: u32,
    height: u32,
}

impl Picture {
    fn plan(world: &ChunkWorld, rect: ChunkRect, scale: Option<u32>) -> Result<Self, String> {
        let (min, max) = (rect.min(), rect.max());
        let (columns, rows) = (u64::from(max.x.abs_diff(min.x)) + 1, u64::from(max.y.abs_diff(min.y)) + 1);
        let scale = match scale {
            Some(scale) => u64::from(scale),
            None => {
                let size = u64::from(world.chunk_size());
                // As many whole cells to a pixel as it takes.
                let cells = (columns.max(rows) * size).div_ceil(PIXELS_DEFAULT).max(1);
                (size / cells).max(1)
            }
        };
        let (width, height) = (columns.saturating_mul(scale), rows.saturating_mul(scale));
        let is_too_large =
            width.max(height) > EDGE_MAX || width * height > PIXELS_MAX || width * scale > ROW_PIXELS_MAX;
        if is_too_large {
            return Err(format!(
                "{columns} x {rows} chunks from {min} to {max} of {scale} pixels each would be a picture of {width} x \
                 {height}: take a smaller --region or --scale"
            ));
        }
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Ok(Self {
            rect,
            columns: small(columns),
            rows: small(rows),
            scale: usize::try_from(scale).unwrap_or(1),
            width: small(width),
            height: small(height),
        })
    }

    fn write(
        &self,
        world: &ChunkWorld,
        painter: &Painter<'_>,
        arguments: &MapArguments,
        file: &File,
        drawn: &mut Drawn,
    ) -> io::Result<()> {
        let mut encoder = png::Encoder::new(BufWriter::new(file), self.width, self.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::High);
        let mut writer = encoder.write_header()?;
        let mut writer = writer.stream_writer()?;
        let (min, max) = (self.rect.min(), self.rect.max());
        let stride = self.width as usize * 3;
        let mut pixels = vec![0; stride * self.scale];
        // Those that opening found, and that are not in the index.
        let found = world.report().damaged.iter().filter(|frame| frame.kind_name() == "chunk");
        let found: HashSet<ChunkPos> = found.filter_map(bonfire_chunks::DamagedFrame::chunk).collect();
        let size = world.chunk_size();
        for row in 0..self.rows {
            let y = if arguments.y_down {
                min.y.saturating_add_unsigned(row)
            } else {
                max.y.saturating_sub_unsigned(row)
            };
            let of_row = ChunkRect::new((min.x, y), (max.x, y));
            for column in 0..self.columns {
                let place = ChunkPos::new(min.x.saturating_add_unsigned(column), y);
                let content = if found.contains(&place) { Content::Damaged } else { content(world, place) };
                drawn.note(place, &content);
                painter.paint(&content, &mut pixels, column as usize * self.scale, stride);
            }
            if !arguments.no_marks {
                let tile = |place: ChunkPos| Tile {
                    left: place.x.abs_diff(min.x) as usize * self.scale,
                    stride,
                    pixels: self.scale,
                    size,
                    y_down: arguments.y_down,
                };
                for place in world.chunks_with_entities(of_row) {
                    drawn.marks.draw_entities(tile(place), &mut pixels);
                }
                for place in world.chunks_with_bodies(of_row) {
                    drawn.marks.draw_bodies(world, place, tile(place), &mut pixels);
                }
            }
            io::Write::write_all(&mut writer, &pixels)?;
        }
        writer.finish()?;
        Ok(())
    }
}

/// What is to be seen in the picture.
#[derive(Default)]
struct Drawn {
    whole: usize,
    deltas: usize,
    out_of_reach: usize,
    damaged: Vec<ChunkPos>,
    names_unknown: Vec<String>,
    marks: Marks,
}

impl Drawn {
    fn note(&mut self, place: ChunkPos, content: &Content) {
        match content {
            Content::Missing => {}
            Content::Damaged => self.damaged.push(place),
            Content::OutOfReach => self.out_of_reach += 1,
            Content::Stored(StoredChunk::Delta(_)) => self.deltas += 1,
            Content::Stored(_) => self.whole += 1,
        }
    }

    fn print(&self, picture: &Picture, arguments: &MapArguments, out: &mut Output) -> io::Result<()> {
        let (min, max) = (picture.rect.min(), picture.rect.max());
        let Picture { width, height, .. } = picture;
        out.line(format_args!("{}: {width} x {height} pixels", escaped_path(&arguments.picture)))?;
        let chunks = count(self.whole + self.deltas, "chunk", "chunks");
        let pixels = count(picture.scale, "pixel", "pixels");
        out.line(format_args!("{chunks} of {min} to {max}, {pixels} each"))?;
        if self.deltas > 0 {
            let deltas = self.deltas;
            out.line(format_args!(
                "{deltas} of them as changed cells on grey: only the game can make the rest"
            ))?;
        }
        if self.out_of_reach > 0 {
            let hatched = self.out_of_reach;
            out.line(format_args!(
                "{hatched} hatched: a key (--key-file, --passphrase-file) or the game is needed"
            ))?;
        }
        let Marks { bodies, chunks_with_entities, out_of_reach, damaged } = &self.marks;
        if bodies + chunks_with_entities > 0 {
            let bodies = count(*bodies, "body", "bodies");
            let chunks = count(*chunks_with_entities, "chunk with entities", "chunks with entities");
            out.line(format_args!("{bodies}, {chunks}"))?;
        }
        if *out_of_reach > 0 {
            out.line(format_args!(
                "bodies of {} need a key or the game",
                count(*out_of_reach, "chunk", "chunks")
            ))?;
        }
        if !damaged.is_empty() {
            out.title("bodies are damaged in")?;
            damaged.iter().try_for_each(|place| out.line(place))?;
        }
        if !self.names_unknown.is_empty() {
            let names: Vec<String> = self.names_unknown.iter().map(|name| escaped(name)).collect();
            out.line(format_args!("not in this world, but in the palette: {}", names.join(", ")))?;
        }
        if !self.damaged.is_empty() {
            out.title("damaged, with a red cross")?;
            self.damaged.iter().try_for_each(|place| out.line(place))?;
        }
        Ok(())
    }

    fn to_json(&self, picture: &Picture) -> serde_json::Value {
        json!({
            "width": picture.width,
            "height": picture.height,
            "pixels_per_chunk": picture.scale,
            "min": pos(picture.rect.min()),
            "max": pos(picture.rect.max()),
            "chunks": self.whole,
            "deltas": self.deltas,
            "out_of_reach": self.out_of_reach,
            "damaged": self.damaged.iter().map(|place| pos(*place)).collect::<serde_json::Value>(),
            "names_unknown": self.names_unknown,
            "bodies": self.marks.bodies,
            "chunks_with_entities": self.marks.chunks_with_entities,
            "damaged_bodies": self.marks.damaged.iter().map(|place| pos(*place)).collect::<serde_json::Value>(),
        })
    }
}

/// Writes a picture beside its place and then there: nobody finds half of one. A file that is no picture is not replaced.
fn save(path: &Path, write: impl FnOnce(&File) -> io::Result<()>) -> Result<(), Failure> {
    if path.symlink_metadata().is_ok() && !is_picture(path) {
        return Err(Failure::file(path, "this file exists already, and is no PNG"));
    }
    let beside = beside(path);
    let written = create_new(&beside).and_then(|file| {
        write(&file)?;
        file.sync_all()
    });
    let written = written.and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        // The error that matters is the first one.
        let _ = std::fs::remove_file(&beside);
    }
    written.map_err(|error| Failure::file(path, error))
}

/// Creates a file that was not there. One that an earlier run has left goes first; a link goes, and not what it leads to.
fn create_new(path: &Path) -> io::Result<File> {
    match File::create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            std::fs::remove_file(path)?;
            File::create_new(path)
        }
        created => created,
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    path.with_file_name(name)
}

fn is_picture(path: &Path) -> bool {
    let mut start = [0; 8];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *b"\x89PNG\r\n\x1a\n"
}

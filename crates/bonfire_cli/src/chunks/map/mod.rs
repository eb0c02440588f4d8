//! `bonfire map`: a picture of a world, drawn one row of chunks at a time.
//!
//! A picture has two coordinates. A dimension with three is seen from above, or one layer of its cells is drawn: `view` makes
//! a square of colours out of a chunk, or of all chunks above each other.

mod drawn;
mod file;
mod marks;
mod palette;
mod picture;
mod tile;
mod view;

use bonfire_chunks::{ChunkPos, ChunkRect};
use bonfire_store::SealKey;

use self::drawn::Drawn;
use self::palette::Palette;
use self::picture::Picture;
use self::tile::{Painter, Span};
use self::view::View;
use super::dimension::{DimensionFacts, extent};
use super::moment::Moment;
use crate::arguments::chunks::{MapArguments, Zoom};
use crate::escape::escaped;
use crate::exit::{Exit, Failure};
use crate::output::Output;

pub(crate) fn run(arguments: &MapArguments, keys: &[SealKey], out: &mut Output) -> Result<Exit, Failure> {
    let path = &arguments.file;
    let refused = |message: String| Failure::file(path, message);
    let world = Moment::open(path, arguments.at.as_deref(), keys)?.world;
    let dimension = DimensionFacts::of(&world, arguments.dimension).map_err(refused)?;
    let view = View::of(arguments, &dimension).map_err(refused)?;
    let rect = match arguments.region {
        Some(region) => {
            let corner = |pos: ChunkPos| pos.in_dimension(arguments.dimension);
            ChunkRect::new(corner(region.min()), corner(region.max()))
        }
        None => extent(&world, arguments.dimension).ok_or_else(|| {
            refused(match arguments.dimension {
                0 => "there is no chunk in this world".to_owned(),
                number => format!("there is no chunk in dimension {number}"),
            })
        })?,
    };
    let scale = arguments.zoom.map_or(arguments.scale, |Zoom::Out| Some(1));
    let size = u32::from(dimension.chunk_size);
    let picture = Picture::plan(rect, view, size, scale).map_err(refused)?;
    let layers = dimension.layers.layers();
    let span = |name: &str| {
        Span::of(layers, name).ok_or_else(|| {
            let names: Vec<String> = layers.iter().map(|layer| escaped(layer.name())).collect();
            refused(format!("there is no layer `{}`, only {}", escaped(name), names.join(", ")))
        })
    };
    let layer = arguments.layer.as_deref().unwrap_or(dimension.main_layer());
    let mut palette = Palette::built_in(&dimension.layers, layer);
    let mut unknown = Vec::new();
    if let Some(name) = &arguments.palette {
        match name.to_str().and_then(|name| Palette::named(name, &dimension.layers, layer)) {
            Some(named) => palette = named,
            None => unknown = palette.read(name, &dimension.layers)?,
        }
    }
    let painter = Painter {
        palette: &palette,
        material: span(layer)?,
        solid: span(dimension.main_layer())?,
        shade: arguments.shade.as_deref().map(span).transpose()?,
        cell_bytes: dimension.layers.stored_bytes(),
        size: usize::from(dimension.chunk_size),
        pixels: picture.scale,
        y_down: arguments.y_down,
        default: dimension.default_cell(),
    };
    let mut drawn = Drawn::default();
    file::save(&arguments.picture, |file| {
        picture.write(&world, &painter, !arguments.no_marks, file, &mut drawn)
    })?;
    drawn.names_unknown = unknown;
    let printed = if arguments.json {
        out.json(&drawn.to_json(&picture))
    } else {
        drawn.print(&picture, arguments, out)
    };
    out.answer(printed, if drawn.is_fine() { Exit::Fine } else { Exit::Damaged })
}

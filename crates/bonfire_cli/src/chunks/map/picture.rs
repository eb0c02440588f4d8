//! A picture: which chunks it has, how large they are, and its rows.

use std::fs::File;
use std::io::{self, BufWriter};

use bonfire_chunks::{ChunkPos, ChunkRect, ChunkWorld};

use super::drawn::Drawn;
use super::marks::Tile;
use super::tile::Painter;
use super::view::{Columns, View, Viewer};

/// A picture is not wider or higher, unless the user says how large a chunk is.
const PIXELS_DEFAULT: u64 = 2048;
const EDGE_MAX: u64 = 32_768;
const PIXELS_MAX: u64 = 1 << 28;
/// Pixels of one row of chunks, which are in memory at once.
const ROW_PIXELS_MAX: u64 = 1 << 26;

/// The chunks that are drawn, and their size in the picture.
pub(super) struct Picture {
    /// Two corners. With three coordinates, `z` is that of the slice, or 0.
    pub(super) rect: ChunkRect,
    pub(super) view: View,
    columns: u32,
    rows: u32,
    /// Pixels along an edge of a chunk.
    pub(super) scale: usize,
    /// Cells along an edge of a chunk.
    size: u32,
    pub(super) width: u32,
    pub(super) height: u32,
}

impl Picture {
    /// Plans a picture of the chunks between two corners, in chunks of `size` cells.
    pub(super) fn plan(
        corners: ChunkRect,
        view: View,
        size: u32,
        scale: Option<u32>,
    ) -> Result<Self, String> {
        let flat = |corner: ChunkPos| ChunkPos { z: view.chunk_z(), ..corner };
        let rect = ChunkRect::new(flat(corners.min()), flat(corners.max()));
        let (min, max) = (rect.min(), rect.max());
        let (columns, rows) = (u64::from(max.x.abs_diff(min.x)) + 1, u64::from(max.y.abs_diff(min.y)) + 1);
        let scale = match scale {
            Some(scale) => u64::from(scale),
            None => {
                let size = u64::from(size);
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
            view,
            size,
            columns: small(columns),
            rows: small(rows),
            scale: usize::try_from(scale).unwrap_or(1),
            width: small(width),
            height: small(height),
        })
    }

    /// Draws one row of chunks after the other.
    pub(super) fn write(
        &self,
        world: &ChunkWorld,
        painter: &Painter<'_>,
        marks: bool,
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
        let viewer = Viewer::new(world, self.rect, self.view);
        let (bodies, entities) = if marks {
            let lists =
                (world.chunks_with_bodies(viewer.chunks()), world.chunks_with_entities(viewer.chunks()));
            (Columns::new(lists.0), Columns::new(lists.1))
        } else {
            Default::default()
        };
        for row in 0..self.rows {
            let y = if painter.y_down {
                min.y.saturating_add_unsigned(row)
            } else {
                max.y.saturating_sub_unsigned(row)
            };
            for column in 0..self.columns {
                let place = ChunkPos { x: min.x.saturating_add_unsigned(column), y, ..min };
                let content = viewer.content(place, painter, drawn);
                painter.paint(&content, &mut pixels, column as usize * self.scale, stride);
            }
            let tile = |place: ChunkPos| Tile {
                left: place.x.abs_diff(min.x) as usize * self.scale,
                stride,
                pixels: self.scale,
                size: self.size,
                y_down: painter.y_down,
            };
            for place in entities.row(y) {
                drawn.marks.draw_entities(tile(*place), &mut pixels);
            }
            for place in bodies.row(y) {
                drawn.marks.draw_bodies(world, *place, tile(*place), &mut pixels);
            }
            io::Write::write_all(&mut writer, &pixels)?;
        }
        writer.finish()?;
        Ok(())
    }
}

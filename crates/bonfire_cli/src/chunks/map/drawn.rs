//! The contents of a picture, for people and scripts.

use std::io;

use bonfire_chunks::{ChunkPos, StoredChunk};
use serde_json::json;

use super::marks::Marks;
use super::picture::Picture;
use super::view::{Found, View};
use crate::arguments::chunks::MapArguments;
use crate::chunks::{count, pos};
use crate::escape::{escaped, escaped_path};
use crate::output::Output;

/// The contents of the picture.
#[derive(Default)]
pub(super) struct Drawn {
    whole: usize,
    deltas: usize,
    out_of_reach: usize,
    damaged: Vec<ChunkPos>,
    pub(super) names_unknown: Vec<String>,
    pub(super) marks: Marks,
}

impl Drawn {
    pub(super) fn note(&mut self, place: ChunkPos, found: &Found) {
        match found {
            Found::Missing => {}
            Found::Damaged => self.damaged.push(place),
            Found::OutOfReach => self.out_of_reach += 1,
            Found::Stored(StoredChunk::Delta(_)) => self.deltas += 1,
            Found::Stored(_) => self.whole += 1,
        }
    }

    pub(super) fn is_fine(&self) -> bool {
        self.damaged.is_empty() && self.marks.damaged.is_empty()
    }

    pub(super) fn print(
        &self,
        picture: &Picture,
        arguments: &MapArguments,
        out: &mut Output,
    ) -> io::Result<()> {
        let (min, max) = (picture.rect.min(), picture.rect.max());
        let Picture { width, height, .. } = picture;
        out.line(format_args!("{}: {width} x {height} pixels", escaped_path(&arguments.picture)))?;
        let chunks = count(self.whole + self.deltas, "chunk", "chunks");
        let pixels = count(picture.scale, "pixel", "pixels");
        let (corners, dimension) = ([min, max].map(|pos| pos.in_dimension(0)), min.dimension);
        let of = if dimension == 0 { String::new() } else { format!(" in dimension {dimension}") };
        out.line(format_args!("{chunks} of {} to {}{of}, {pixels} each", corners[0], corners[1]))?;
        match picture.view {
            View::Flat => {}
            View::Slice { z, .. } => out.line(format_args!("the cells of z = {z}"))?,
            View::Above { .. } => out.line("seen from above: chunks that others hide are not counted")?,
        }
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

    pub(super) fn to_json(&self, picture: &Picture) -> serde_json::Value {
        json!({
            "width": picture.width,
            "height": picture.height,
            "pixels_per_chunk": picture.scale,
            "dimension": picture.rect.min().dimension,
            "view": picture.view.name(),
            "slice": picture.view.slice(),
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

//! `bonfire show` of one chunk: its cells by material and as a small grid, and its bodies. The command itself prints entities.

use std::collections::HashMap;
use std::io;

use bonfire_chunks::{Body, ChunkPos, ChunkWorld, LayerSet, StoredChunk};
use serde_json::{Value as Json, json};

use super::dimension::DimensionFacts;
use super::{count, pos as pos_json};
use crate::escape::{escaped, visible};
use crate::output::{Output, Table};

/// Cells along an edge of the grid. Larger chunks are sampled.
const GRID_MAX: usize = 32;
/// Signs of the grid, for the most frequent value first. All others share the last one.
const SIGNS: &[u8] = b"abcdefghijklmnopqrstuvwxyz?";
/// A cell that is not in the file.
const UNKNOWN: char = '.';

/// The content of a chunk.
pub(crate) struct ShownChunk {
    pos: ChunkPos,
    cells: bonfire::Result<Option<Cells>>,
    bodies: bonfire::Result<Vec<Body>>,
    pub(crate) entities: bonfire::Result<Option<Vec<u8>>>,
}

struct Cells {
    storage: &'static str,
    layer: String,
    /// Values with their name and how often they occur, the most frequent first.
    values: Vec<(u32, Option<String>, usize)>,
    edge: usize,
    /// Values row by row, layer by layer; `None` for cells that only the generator knows.
    all: Vec<Option<u32>>,
    /// The value that is nothing, which a view from above looks through.
    default: u32,
    view: View,
}

/// The part of a chunk that the grid shows.
#[derive(Clone, Copy)]
enum View {
    /// All of a chunk with two coordinates.
    Flat,
    /// The layer with this number in the chunk, and its place in the world.
    Slice(usize, i64),
    Above,
}

impl View {
    /// Returns the view of a chunk that a user asks for, or a message that says why there is none.
    fn of(dimension: &DimensionFacts, pos: ChunkPos, slice: Option<i64>) -> Result<Self, String> {
        if !dimension.is_three_dimensional {
            return match (pos.z, slice) {
                (0, None) => Ok(Self::Flat),
                _ => Err(format!("dimension {} has two coordinates: leave out Z", pos.dimension)),
            };
        }
        let Some(z) = slice else { return Ok(Self::Above) };
        let size = i64::from(dimension.chunk_size);
        let first = i64::from(pos.z) * size;
        match usize::try_from(z - first) {
            Ok(layer) if layer < dimension.depth() => Ok(Self::Slice(layer, z)),
            _ => Err(format!("the chunk {pos} has the cells of z = {first} to {}", first + size - 1)),
        }
    }
}

impl ShownChunk {
    /// Reads a chunk. The error is a message for who asked for something that there cannot be.
    pub(crate) fn of(world: &ChunkWorld, pos: ChunkPos, slice: Option<i64>) -> Result<Self, String> {
        let dimension = DimensionFacts::of(world, pos.dimension)?;
        let view = View::of(&dimension, pos, slice)?;
        let stored = world.read_stored(pos);
        let cells = stored.map(|stored| stored.map(|stored| Cells::of(&dimension, view, &stored)));
        Ok(Self { pos, cells, bodies: world.read_bodies(pos), entities: world.read_entities(pos) })
    }

    /// The reasons why parts cannot be shown.
    pub(crate) fn errors(&self) -> impl Iterator<Item = &bonfire::Error> {
        let (cells, bodies, entities) = (&self.cells, &self.bodies, &self.entities);
        cells.as_ref().err().into_iter().chain(bodies.as_ref().err()).chain(entities.as_ref().err())
    }

    pub(crate) fn print(&self, out: &mut Output) -> io::Result<()> {
        out.line(format_args!("chunk {}", self.pos))?;
        match &self.cells {
            Ok(Some(cells)) => cells.print(out)?,
            Ok(None) => out.line("cells: not in the file, they are as the generator makes them")?,
            Err(error) => out.line(format_args!("cells: {}", visible(&error.to_string())))?,
        }
        match &self.bodies {
            Ok(bodies) if bodies.is_empty() => out.title("no bodies"),
            Ok(bodies) => {
                out.title(count(bodies.len(), "body", "bodies"))?;
                let columns = ["id", "x", "y", "rotation", "velocity", "size", "extension"];
                let mut table = Table::new(columns).right(&["x", "y", "rotation"]);
                bodies.iter().for_each(|body| table.row(row(body)));
                out.table(&table)
            }
            Err(error) => out.title(format_args!("bodies: {}", visible(&error.to_string()))),
        }
    }

    pub(crate) fn to_json(&self) -> Json {
        let or_error = |value: Result<Json, &bonfire::Error>| match value {
            Ok(value) => value,
            Err(error) => json!({ "error": error.to_string() }),
        };
        json!({
            "chunk": pos_json(self.pos),
            "cells": or_error(self.cells.as_ref().map(|cells| cells.as_ref().map_or(Json::Null, Cells::to_json))),
            "bodies": or_error(self.bodies.as_ref().map(|bodies| bodies.iter().map(body_json).collect())),
        })
    }
}

impl Cells {
    fn of(dimension: &DimensionFacts, view: View, stored: &StoredChunk) -> Self {
        let set = &dimension.layers;
        let (start, bytes, layer) = layer_of(set, dimension.main_layer());
        let value = |cell: &[u8]| {
            let bytes = &cell[start..][..bytes.min(4)];
            bytes.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte))
        };
        let edge = usize::from(dimension.chunk_size);
        let default = value(&dimension.default_cell());
        let mut all = vec![None; edge * edge * dimension.depth()];
        let storage = match stored {
            StoredChunk::Empty => {
                all.fill(Some(default));
                "empty"
            }
            StoredChunk::Full(cells) => {
                for (to, cell) in all.iter_mut().zip(cells.chunks_exact(set.stored_bytes())) {
                    *to = Some(value(cell));
                }
                "full"
            }
            StoredChunk::Delta(delta) => {
                let places = delta.runs.iter().flat_map(|(start, len)| *start..start.saturating_add(*len));
                for (place, cell) in places.zip(delta.cells.chunks_exact(set.stored_bytes())) {
                    if let Some(to) = all.get_mut(place as usize) {
                        *to = Some(value(cell));
                    }
                }
                "delta"
            }
        };
        let mut counts: HashMap<u32, usize> = HashMap::new();
        all.iter().flatten().for_each(|value| *counts.entry(*value).or_default() += 1);
        let materials = set.materials().filter(|(named, _)| named.name() == layer);
        let names: HashMap<u32, &String> =
            materials.into_iter().flat_map(|(_, names)| names).map(|(id, name)| (*id, name)).collect();
        let named = |(value, count)| (value, names.get(&value).map(|name| (*name).clone()), count);
        let mut values: Vec<_> = counts.into_iter().map(named).collect();
        values.sort_by_key(|(value, _, count)| (std::cmp::Reverse(*count), *value));
        Self { storage, layer, values, edge, all, default, view }
    }

    fn print(&self, out: &mut Output) -> io::Result<()> {
        let known = self.all.iter().flatten().count();
        let layer = escaped(&self.layer);
        out.line(format_args!("cells: {}, {known} of {}, layer {layer}", self.storage, self.all.len()))?;
        let mut table = Table::new(["sign", "value", "name", "cells"]).right(&["value", "cells"]);
        for (rank, (value, name, count)) in self.values.iter().enumerate().take(SIGNS.len() - 1) {
            let name = name.as_deref().map(escaped).unwrap_or_default();
            table.row(vec![sign(rank).to_string(), value.to_string(), name, count.to_string()]);
        }
        out.table(&table)?;
        if self.values.len() >= SIGNS.len() {
            let more = self.values.len() + 1 - SIGNS.len();
            out.line(format_args!("{} {more} more", sign(usize::MAX)))?;
        }
        let step = self.edge.div_ceil(GRID_MAX).max(1);
        let lowest = "the first row is at the bottom";
        let view = match self.view {
            View::Flat => String::new(),
            View::Slice(_, z) => format!("z = {z}, "),
            View::Above => "from above, ".to_owned(),
        };
        out.title(match step {
            1 => format!("{view}{lowest}, {UNKNOWN} is as generated"),
            step => format!("{view}one cell of {step} x {step}, {lowest}, {UNKNOWN} is as generated"),
        })?;
        let ranks: HashMap<u32, usize> =
            self.values.iter().enumerate().map(|(rank, (value, _, _))| (*value, rank)).collect();
        for y in (0..self.edge).step_by(step).rev() {
            let signs = (0..self.edge).step_by(step).map(|x| match self.seen(y * self.edge + x) {
                Some(value) => sign(ranks.get(&value).copied().unwrap_or(usize::MAX)),
                None => UNKNOWN,
            });
            out.line(signs.collect::<String>())?;
        }
        Ok(())
    }

    /// The value that the grid shows in a column of cells.
    fn seen(&self, column: usize) -> Option<u32> {
        let area = self.edge * self.edge;
        match self.view {
            View::Flat => self.all[column],
            View::Slice(layer, _) => self.all[layer * area + column],
            View::Above => {
                let column = || self.all[column..].iter().step_by(area).rev();
                let solid = column().flatten().find(|value| **value != self.default);
                let is_known = || column().all(Option::is_some).then_some(self.default);
                solid.copied().or_else(is_known)
            }
        }
    }

    fn to_json(&self) -> Json {
        let value = |(value, name, count): &(u32, Option<String>, usize)| json!({ "value": value, "name": name, "cells": count });
        json!({
            "storage": self.storage,
            "layer": self.layer,
            "values": self.values.iter().map(value).collect::<Json>(),
        })
    }
}

/// The place and the bytes of a layer in a stored cell, and its name.
fn layer_of(set: &LayerSet, name: &str) -> (usize, usize, String) {
    let at = set.layers().iter().position(|layer| layer.name() == name).unwrap_or(0);
    let start = set.layers()[..at].iter().map(bonfire_chunks::StoredLayer::bytes).sum();
    set.layers()
        .get(at)
        .map_or((0, 0, String::new()), |layer| (start, layer.bytes(), layer.name().to_owned()))
}

fn sign(rank: usize) -> char {
    char::from(SIGNS[rank.min(SIGNS.len() - 1)])
}

fn row(body: &Body) -> Vec<String> {
    let [x, y] = body.position.map(|at| at.to_string());
    let [dx, dy] = body.linear_velocity;
    vec![
        body.id.to_string(),
        x,
        y,
        body.rotation.to_string(),
        format!("{dx}, {dy}"),
        format!("{} x {}", body.width, body.height),
        format!("{} bytes", body.extension.len()),
    ]
}

fn body_json(body: &Body) -> Json {
    json!({
        "id": body.id.to_string(),
        "position": body.position,
        "rotation": body.rotation,
        "linear_velocity": body.linear_velocity,
        "angular_velocity": body.angular_velocity,
        "width": body.width,
        "height": body.height,
        "extension_bytes": body.extension.len(),
    })
}

//! `bonfire diff`: what is different between two worlds.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;

use bonfire_chunks::codec::Delta;
use bonfire_chunks::{
    BodyId, ChunkPos, ChunkRect, ChunkWorld, Persistence, StoredChunk, StoredLayer, encode_bodies,
};
use bonfire_store::SealKey;
use bonfire_store::disk::Access;
use serde_json::{Value as Json, json};

use super::{count, open_or_fail, pos};
use crate::arguments::chunks::DiffArguments;
use crate::escape::{escaped, visible};
use crate::exit::{Exit, Failure};
use crate::output::{Output, Table};
use crate::read::FileKind;

pub(crate) fn run(arguments: &DiffArguments, keys: &[SealKey], out: &mut Output) -> Result<Exit, Failure> {
    for path in [&arguments.one, &arguments.other] {
        FileKind::require_for_diff(path)?;
    }
    let one = open_or_fail(&arguments.one, Access::Read, keys)?;
    let other = open_or_fail(&arguments.other, Access::Read, keys)?;
    let diff = Diff::between(&one, &other);
    let printed = if arguments.json { out.json(&diff.to_json()) } else { diff.print(arguments.limit, out) };
    out.answer(printed, diff.exit())
}

/// How a chunk of both worlds is different.
#[derive(Clone, Copy)]
enum Change {
    /// So many cells, all of them known.
    Cells(usize),
    /// So many of the cells that were changed since they were generated.
    Deltas(usize),
    /// One is whole and the other a delta, or their cells are made of other layers.
    Unknown,
}

/// What may be in one world, in the other, or in both and different.
struct SetDifference<T, C = ()> {
    first: Vec<T>,
    second: Vec<T>,
    changed: Vec<(T, C)>,
}

impl<T, C> Default for SetDifference<T, C> {
    fn default() -> Self {
        Self { first: Vec::new(), second: Vec::new(), changed: Vec::new() }
    }
}

impl<T, C> SetDifference<T, C> {
    fn is_empty(&self) -> bool {
        self.first.is_empty() && self.second.is_empty() && self.changed.is_empty()
    }
}

#[derive(Default)]
struct Diff {
    settings: Vec<(&'static str, String, String)>,
    chunks: SetDifference<ChunkPos, Change>,
    bodies: SetDifference<BodyId>,
    entities: SetDifference<ChunkPos>,
    same: usize,
    /// What could not be compared, of which world, and why.
    unread: Vec<(&'static str, bonfire::Error)>,
}

impl Diff {
    fn between(one: &ChunkWorld, other: &ChunkWorld) -> Self {
        let mut diff = Self::default();
        diff.settings(one, other);
        diff.chunks(one, other);
        diff.bodies(one, other);
        diff.entities(one, other);
        diff
    }

    fn settings(&mut self, one: &ChunkWorld, other: &ChunkWorld) {
        let of = |world: &ChunkWorld| {
            let info = world.info();
            let layers = info.layers.layers().iter();
            let layers: Vec<String> = layers
                .map(|layer| {
                    format!(
                        "{} ({} bytes, version {})",
                        escaped(layer.name()),
                        layer.bytes(),
                        layer.version()
                    )
                })
                .collect();
            let materials = info.layers.materials().map(|(_, names)| {
                let names = names.iter().map(|(id, name)| format!("{id} {}", escaped(name)));
                names.collect::<Vec<_>>().join(", ")
            });
            [
                ("seed", info.seed.to_string()),
                ("chunk size", info.chunk_size.to_string()),
                ("tile size", info.tile_size.to_string()),
                ("layers", layers.join(", ")),
                ("materials", materials.unwrap_or_else(|| "none".to_owned())),
                ("generator version", info.layers.generator_version().to_string()),
                ("plain layout", info.compat.to_string()),
                ("sealed", info.sealed.to_string()),
            ]
        };
        for ((name, one), (_, other)) in of(one).into_iter().zip(of(other)) {
            if one != other {
                self.settings.push((name, one, other));
            }
        }
    }

    fn chunks(&mut self, one: &ChunkWorld, other: &ChunkWorld) {
        let (first, second): (BTreeSet<_>, BTreeSet<_>) = (known(one), known(other));
        self.chunks.first = first.difference(&second).copied().collect();
        self.chunks.second = second.difference(&first).copied().collect();
        let are_alike = one.chunk_size() == other.chunk_size()
            && one.info().layers.layers() == other.info().layers.layers();
        let default: Vec<u8> = one.info().layers.layers().iter().flat_map(stored_default).collect();
        for pos in first.intersection(&second) {
            let (Some(one), Some(other)) = (
                self.read("the first", one.read_stored(*pos)),
                self.read("the second", other.read_stored(*pos)),
            ) else {
                continue;
            };
            let change = if are_alike { change(&one, &other, &default) } else { Some(Change::Unknown) };
            match change {
                Some(change) => self.chunks.changed.push((*pos, change)),
                None => self.same += 1,
            }
        }
    }

    /// What was read; what could not be is noted.
    fn read<T>(&mut self, world: &'static str, read: bonfire::Result<Option<T>>) -> Option<T> {
        read.unwrap_or_else(|error| {
            self.unread.push((world, error));
            None
        })
    }

    fn bodies(&mut self, one: &ChunkWorld, other: &ChunkWorld) {
        let (first, second) = (self.all_bodies("the first", one), self.all_bodies("the second", other));
        for (id, body) in &first {
            match second.get(id) {
                None => self.bodies.first.push(*id),
                Some(other) if other != body => self.bodies.changed.push((*id, ())),
                Some(_) => {}
            }
        }
        self.bodies.second = second.keys().filter(|id| !first.contains_key(id)).copied().collect();
        self.bodies.first.sort_unstable();
        self.bodies.second.sort_unstable();
        self.bodies.changed.sort_unstable();
    }

    /// Every body as the hash of its record: worlds may have more bodies than memory.
    fn all_bodies(&mut self, name: &'static str, world: &ChunkWorld) -> HashMap<BodyId, u64> {
        let mut all = HashMap::new();
        for pos in world.chunks_with_bodies(ChunkRect::ALL) {
            for body in self.read(name, world.read_bodies(pos).map(Some)).unwrap_or_default() {
                let mut hasher = DefaultHasher::new();
                let id = body.id;
                match encode_bodies(&[body], world.cell_bytes()) {
                    Ok(record) => record.hash(&mut hasher),
                    Err(error) => self.unread.push((name, error)),
                }
                all.insert(id, hasher.finish());
            }
        }
        all
    }

    fn entities(&mut self, one: &ChunkWorld, other: &ChunkWorld) {
        let all = |world: &ChunkWorld| -> BTreeSet<ChunkPos> {
            world.chunks_with_entities(ChunkRect::ALL).into_iter().collect()
        };
        let (first, second) = (all(one), all(other));
        self.entities.first = first.difference(&second).copied().collect();
        self.entities.second = second.difference(&first).copied().collect();
        for pos in first.intersection(&second) {
            let one = self.read("the first", one.read_entities(*pos));
            let other = self.read("the second", other.read_entities(*pos));
            if one.is_some() && other.is_some() && one != other {
                self.entities.changed.push((*pos, ()));
            }
        }
    }

    fn is_same(&self) -> bool {
        self.settings.is_empty()
            && self.chunks.is_empty()
            && self.bodies.is_empty()
            && self.entities.is_empty()
    }

    fn exit(&self) -> Exit {
        let unread = self.unread.iter().map(|(_, error)| Exit::of(error));
        Exit::worst(unread.chain((!self.is_same()).then_some(Exit::Different)))
    }

    fn print(&self, limit: usize, out: &mut Output) -> io::Result<()> {
        if self.is_same() && self.unread.is_empty() {
            return out.line(format_args!("the same: {}", count(self.same, "chunk", "chunks")));
        }
        let SetDifference { first, second, changed } = &self.chunks;
        out.line(format_args!(
            "chunks: {} the same, {} different, {} only in the first, {} only in the second",
            self.same,
            changed.len(),
            first.len(),
            second.len()
        ))?;
        let SetDifference { first, second, changed } = &self.bodies;
        let (gone, new, different) = (first.len(), second.len(), changed.len());
        out.line(format_args!(
            "bodies: {different} different, {gone} only in the first, {new} only in the second"
        ))?;
        let SetDifference { first, second, changed } = &self.entities;
        let (gone, new, different) = (first.len(), second.len(), changed.len());
        out.line(format_args!(
            "chunks with entities: {different} different, {gone} only in the first, {new} only in the second"
        ))?;
        if !self.settings.is_empty() {
            let mut table = Table::new(["setting", "first", "second"]);
            for (name, one, other) in &self.settings {
                table.row(vec![(*name).to_owned(), visible(one).into_owned(), visible(other).into_owned()]);
            }
            out.title("settings")?;
            out.table(&table)?;
        }
        list(
            "different chunks",
            self.chunks.changed.iter().map(|(pos, change)| format!("{pos}  {}", change.text())),
            limit,
            out,
        )?;
        list("chunks only in the first", self.chunks.first.iter(), limit, out)?;
        list("chunks only in the second", self.chunks.second.iter(), limit, out)?;
        list("different bodies", self.bodies.changed.iter().map(|(id, ())| id), limit, out)?;
        list("bodies only in the first", self.bodies.first.iter(), limit, out)?;
        list("bodies only in the second", self.bodies.second.iter(), limit, out)?;
        list("different entities", self.entities.changed.iter().map(|(pos, ())| pos), limit, out)?;
        list("entities only in the first", self.entities.first.iter(), limit, out)?;
        list("entities only in the second", self.entities.second.iter(), limit, out)?;
        let unread =
            self.unread.iter().map(|(world, error)| format!("{world}: {}", visible(&error.to_string())));
        list("could not be compared", unread, limit, out)
    }

    fn to_json(&self) -> Json {
        let places = |places: &[ChunkPos]| places.iter().map(|place| pos(*place)).collect::<Json>();
        let ids = |ids: &[BodyId]| ids.iter().map(|id| Json::from(id.to_string())).collect::<Json>();
        let changed = self.chunks.changed.iter().map(|(place, change)| {
            json!({ "chunk": pos(*place), "cells": change.cells(), "deltas": matches!(change, Change::Deltas(_)) })
        });
        let settings = self.settings.iter();
        let settings =
            settings.map(|(name, one, other)| json!({ "setting": name, "first": one, "second": other }));
        let unread = self.unread.iter();
        let unread = unread.map(|(world, error)| json!({ "world": world, "error": error.to_string() }));
        json!({
            "same": self.is_same() && self.unread.is_empty(),
            "settings": settings.collect::<Json>(),
            "chunks": {
                "same": self.same,
                "different": changed.collect::<Json>(),
                "only_first": places(&self.chunks.first),
                "only_second": places(&self.chunks.second),
            },
            "bodies": {
                "different": self.bodies.changed.iter().map(|(id, ())| Json::from(id.to_string())).collect::<Json>(),
                "only_first": ids(&self.bodies.first),
                "only_second": ids(&self.bodies.second),
            },
            "entities": {
                "different": self.entities.changed.iter().map(|(place, ())| pos(*place)).collect::<Json>(),
                "only_first": places(&self.entities.first),
                "only_second": places(&self.entities.second),
            },
            "unread": unread.collect::<Json>(),
        })
    }
}

/// All chunks of a world, damaged or not: a damaged one is not a missing one.
fn known(world: &ChunkWorld) -> BTreeSet<ChunkPos> {
    let aside = world.info().set_aside;
    let damaged = aside.iter().chain(&world.report().damaged).filter(|frame| frame.kind_name() == "chunk");
    world.iter().chain(damaged.filter_map(bonfire_chunks::DamagedFrame::chunk)).collect()
}

/// The default of a layer as it is stored: bits that do not persist are 0.
fn stored_default(layer: &StoredLayer) -> Vec<u8> {
    let mut default = layer.default_value().to_vec();
    if let Persistence::Partial(mask) = layer.persistence() {
        default.iter_mut().zip(mask).for_each(|(byte, mask)| *byte &= mask);
    }
    default
}

impl Change {
    fn text(self) -> String {
        match self {
            Self::Cells(cells) => count(cells, "cell", "cells"),
            Self::Deltas(cells) => format!("{} of the deltas", count(cells, "cell", "cells")),
            Self::Unknown => "stored in another way".to_owned(),
        }
    }

    fn cells(self) -> Option<usize> {
        match self {
            Self::Cells(cells) | Self::Deltas(cells) => Some(cells),
            Self::Unknown => None,
        }
    }
}

/// How two chunks of the same layers differ; `None` if they do not.
fn change(one: &StoredChunk, other: &StoredChunk, default: &[u8]) -> Option<Change> {
    if one == other {
        return None;
    }
    let bytes = default.len().max(1);
    let cells = |one: &[u8], other: &[u8]| {
        one.chunks_exact(bytes).zip(other.chunks_exact(bytes)).filter(|(one, other)| one != other).count()
    };
    let beside_default = |cells: &[u8]| cells.chunks_exact(bytes).filter(|cell| cell != &default).count();
    Some(match (one, other) {
        (StoredChunk::Full(one), StoredChunk::Full(other)) => Change::Cells(cells(one, other)),
        (StoredChunk::Full(full), StoredChunk::Empty) | (StoredChunk::Empty, StoredChunk::Full(full)) => {
            match beside_default(full) {
                0 => return None,
                cells => Change::Cells(cells),
            }
        }
        (StoredChunk::Delta(one), StoredChunk::Delta(other)) => {
            Change::Deltas(changed_cells(one, other, bytes))
        }
        _ => Change::Unknown,
    })
}

/// Cells that one of two deltas has, or that they have differently.
fn changed_cells(one: &Delta, other: &Delta, bytes: usize) -> usize {
    let (mut one, other) = (by_place(one, bytes), by_place(other, bytes));
    let mut different = 0;
    for (place, cell) in other {
        different += usize::from(one.remove(&place) != Some(cell));
    }
    different + one.len()
}

fn by_place(delta: &Delta, bytes: usize) -> BTreeMap<u32, &[u8]> {
    let places = delta.runs.iter().flat_map(|(start, len)| *start..start.saturating_add(*len));
    places.zip(delta.cells.chunks_exact(bytes)).collect()
}

fn list(
    title: &str,
    lines: impl ExactSizeIterator<Item = impl ToString>,
    limit: usize,
    out: &mut Output,
) -> io::Result<()> {
    let all = lines.len();
    if all == 0 {
        return Ok(());
    }
    out.title(title)?;
    let shown = if limit == 0 { all } else { limit };
    for line in lines.take(shown) {
        out.line(line.to_string())?;
    }
    if all > shown { out.line(format_args!(".. and {} more", all - shown)) } else { Ok(()) }
}

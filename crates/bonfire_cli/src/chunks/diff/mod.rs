//! `bonfire diff`: what is different between two worlds, or between two moments of one.

mod cells;
mod settings;

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;

use bonfire_chunks::{BodyId, ChunkPos, ChunkRect, ChunkWorld, encode_bodies};
use bonfire_store::SealKey;
use bonfire_store::disk::Access;
use serde_json::{Value as Json, json};

use self::cells::{Change, change};
use self::settings::Setting;
use super::dimension::{DimensionFacts, damaged_chunks};
use super::moment::Moment;
use super::{count, open_or_fail, pos};
use crate::arguments::chunks::DiffArguments;
use crate::escape::visible;
use crate::exit::{Exit, Failure};
use crate::output::{Output, Table};
use crate::read::FileKind;

pub(crate) fn run(arguments: &DiffArguments, keys: &[SealKey], out: &mut Output) -> Result<Exit, Failure> {
    for path in std::iter::once(&arguments.one).chain(&arguments.other) {
        FileKind::require_for_diff(path)?;
    }
    let (from, to) = (arguments.from.as_deref(), arguments.to.as_deref());
    let first = open_or_fail(&arguments.one, Access::Read, keys)?;
    let one = Moment::of(&first, &arguments.one, from)?;
    let other = match &arguments.other {
        // One look at the file: a game that saves meanwhile makes no difference.
        None => Moment::of(&first, &arguments.one, to)?,
        Some(path) => Moment::open(path, to, keys)?,
    };
    let diff = Diff::between(&one.world, &other.world);
    let has_pins = from.is_some() || to.is_some();
    let printed = if arguments.json {
        let mut document = diff.to_json();
        (document["from"], document["to"]) = (one.to_json(), other.to_json());
        out.json(&document)
    } else {
        let title = has_pins.then(|| format!("from {} to {}", one.text(), other.text()));
        title.map_or(Ok(()), |title| out.line(title)).and_then(|()| diff.print(arguments.limit, out))
    };
    out.answer(printed, diff.exit())
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
    settings: Vec<Setting>,
    chunks: SetDifference<ChunkPos, Change>,
    bodies: SetDifference<BodyId>,
    entities: SetDifference<ChunkPos>,
    same: usize,
    /// What could not be compared, of which world, and why.
    unread: Vec<(&'static str, bonfire::Error)>,
}

impl Diff {
    fn between(one: &ChunkWorld, other: &ChunkWorld) -> Self {
        let mut diff = Self { settings: settings::differences(one, other), ..Self::default() };
        diff.chunks(one, other);
        diff.bodies(one, other);
        diff.entities(one, other);
        diff
    }

    fn chunks(&mut self, one: &ChunkWorld, other: &ChunkWorld) {
        let (first, second): (BTreeSet<_>, BTreeSet<_>) = (known(one), known(other));
        self.chunks.first = first.difference(&second).copied().collect();
        self.chunks.second = second.difference(&first).copied().collect();
        let default_cells = alike(one, other);
        for pos in first.intersection(&second) {
            let (Some(one), Some(other)) = (
                self.read("the first", one.read_stored(*pos)),
                self.read("the second", other.read_stored(*pos)),
            ) else {
                continue;
            };
            let change = match default_cells.get(&pos.dimension) {
                Some(default) => change(&one, &other, default),
                None => Some(Change::Unknown),
            };
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
            let cell_bytes =
                world.shape(pos.dimension).map_or(world.cell_bytes(), |shape| shape.layers.cell_bytes());
            for body in self.read(name, world.read_bodies(pos).map(Some)).unwrap_or_default() {
                let mut hasher = DefaultHasher::new();
                pos.dimension.hash(&mut hasher);
                let id = body.id;
                match encode_bodies(&[body], cell_bytes) {
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
                table.row(vec![name.clone(), visible(one).into_owned(), visible(other).into_owned()]);
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
    world.iter().chain(damaged_chunks(world)).collect()
}

/// The dimensions whose cells can be compared, each with a cell whose layers have their defaults.
fn alike(one: &ChunkWorld, other: &ChunkWorld) -> HashMap<u32, Vec<u8>> {
    let (first, second) = (DimensionFacts::all(&one.info()), DimensionFacts::all(&other.info()));
    let is_alike = |dimension: &&DimensionFacts| {
        let other = second.iter().find(|other| other.number == dimension.number);
        other.is_some_and(|other| {
            let sizes = |of: &DimensionFacts| (of.chunk_size, of.is_three_dimensional);
            sizes(dimension) == sizes(other) && dimension.layers.layers() == other.layers.layers()
        })
    };
    first.iter().filter(is_alike).map(|dimension| (dimension.number, dimension.default_cell())).collect()
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

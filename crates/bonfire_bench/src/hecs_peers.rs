//! Rows against the column serialization of hecs itself. Higher is better: how many times faster we are.

use std::hint::black_box;

use bonfire_hecs::LoadMode;
use hecs::serialize::column::{
    DeserializeContext, SerializeContext, deserialize, deserialize_column, serialize, try_serialize,
    try_serialize_id,
};
use hecs::{Archetype, ColumnBatchBuilder, ColumnBatchType, World};
use serde::de::SeqAccess;
use serde::ser::SerializeTuple;

use crate::core_rows::encoded;
use crate::hecs_plain;
use crate::hecs_rows::{Loads, captured};
use crate::measure::{Row, against, note, turns};
use crate::plain::{Circle, Color, M1, M2, Transform};

/// The other side takes half a second per turn of a load.
const ROUNDS: usize = 5;

pub(crate) fn rows() -> Vec<Row> {
    let row = |key, measure: fn() -> (f64, String)| Row { key, target: None, measure: Box::new(measure) };
    vec![
        row("peer_hecs_serialize_save_100k", || save(100_000)),
        row("peer_hecs_serialize_load_same_100k", || load(100_000)),
    ]
}

/// The components of the archetype that is read, as the bits of `serialize_component_ids`.
#[derive(Default)]
struct Columns(Vec<u8>);

impl SerializeContext for Columns {
    fn component_count(&self, archetype: &Archetype) -> usize {
        archetype.component_types().count()
    }

    fn serialize_component_ids<S: SerializeTuple>(
        &mut self,
        archetype: &Archetype,
        mut out: S,
    ) -> Result<S::Ok, S::Error> {
        try_serialize_id::<Transform, _, _>(archetype, &0_u8, &mut out)?;
        try_serialize_id::<Circle, _, _>(archetype, &1_u8, &mut out)?;
        try_serialize_id::<Color, _, _>(archetype, &2_u8, &mut out)?;
        try_serialize_id::<M1, _, _>(archetype, &3_u8, &mut out)?;
        try_serialize_id::<M2, _, _>(archetype, &4_u8, &mut out)?;
        out.end()
    }

    fn serialize_components<S: SerializeTuple>(
        &mut self,
        archetype: &Archetype,
        mut out: S,
    ) -> Result<S::Ok, S::Error> {
        try_serialize::<Transform, _>(archetype, &mut out)?;
        try_serialize::<Circle, _>(archetype, &mut out)?;
        try_serialize::<Color, _>(archetype, &mut out)?;
        try_serialize::<M1, _>(archetype, &mut out)?;
        try_serialize::<M2, _>(archetype, &mut out)?;
        out.end()
    }
}

impl DeserializeContext for Columns {
    fn deserialize_component_ids<'de, A: SeqAccess<'de>>(
        &mut self,
        mut seq: A,
    ) -> Result<ColumnBatchType, A::Error> {
        self.0.clear();
        let mut batch = ColumnBatchType::new();
        while let Some(id) = seq.next_element::<u8>()? {
            match id {
                0 => batch.add::<Transform>(),
                1 => batch.add::<Circle>(),
                2 => batch.add::<Color>(),
                3 => batch.add::<M1>(),
                _ => batch.add::<M2>(),
            };
            self.0.push(id);
        }
        Ok(batch)
    }

    fn deserialize_components<'de, A: SeqAccess<'de>>(
        &mut self,
        count: u32,
        mut seq: A,
        batch: &mut ColumnBatchBuilder,
    ) -> Result<(), A::Error> {
        for id in &self.0 {
            match id {
                0 => deserialize_column::<Transform, _>(count, &mut seq, batch)?,
                1 => deserialize_column::<Circle, _>(count, &mut seq, batch)?,
                2 => deserialize_column::<Color, _>(count, &mut seq, batch)?,
                3 => deserialize_column::<M1, _>(count, &mut seq, batch)?,
                _ => deserialize_column::<M2, _>(count, &mut seq, batch)?,
            }
        }
        Ok(())
    }
}

/// hecs with postcard.
fn save_peer(world: &World) -> Vec<u8> {
    let mut serializer = postcard::Serializer { output: postcard::ser_flavors::AllocVec::new() };
    serialize(world, &mut Columns::default(), &mut serializer).expect("it serializes");
    postcard::ser_flavors::Flavor::finalize(serializer.output).expect("memory")
}

fn load_peer(bytes: &[u8]) -> World {
    let mut bytes = postcard::Deserializer::from_bytes(bytes);
    deserialize(&mut Columns::default(), &mut bytes).expect("it was just saved")
}

/// The plain set to bytes, with checksums on our side.
fn save(entities: usize) -> (f64, String) {
    let (world, bonfire) = (hecs_plain::filled(entities), hecs_plain::bonfire());
    let bytes = save_peer(&world).len();
    hecs_plain::check_same_ids(&load_peer(&save_peer(&world)), &world);
    let work = || drop(black_box(encoded(&captured(&bonfire, &world))));
    let (ours, theirs) = against(ROUNDS, work, || drop(black_box(save_peer(&world))));
    (theirs / ours, note(ours, theirs, entities, bytes))
}

/// Bytes of the plain set to a world with the same ids, spawned as a game does: archetypes in turns.
fn load(entities: usize) -> (f64, String) {
    let source = hecs_plain::filled(entities);
    let bytes = save_peer(&source);
    let mut loads = Loads::new(&source, LoadMode::SameIds, hecs_plain::check_same_ids);
    let theirs = || crate::measure::seconds(&mut || drop(black_box(load_peer(&bytes))));
    let (ours, theirs) = turns(ROUNDS, || loads.seconds(), theirs);
    (theirs / ours, note(ours, theirs, entities, bytes.len()))
}

//! Rows against other crates that save Bevy worlds. Higher is better: how many times faster we are.

use std::hint::black_box;

use bevy_asset::{LoadFromPath, UntypedHandle};
use bevy_ecs::entity::{Entity, EntityHashMap};
use bevy_ecs::query::With;
use bevy_ecs::world::World;
use bevy_reflect::TypeRegistry;
use bevy_world_serialization::serde::{DynamicWorldSerializer, WorldDeserializer};
use bevy_world_serialization::{DynamicWorld, DynamicWorldBuilder};
use bonfire::OpenOptions;
use serde::de::DeserializeSeed;

use crate::bevy_plain;
use crate::bevy_rows::{aligned, load_into, saved};
use crate::measure::{Row, against, note, seconds, turns};
use crate::plain::{Circle, Color, M1, M2, Transform};

/// The other side takes a third of a second per turn.
const ROUNDS: usize = 5;

pub(crate) fn rows() -> Vec<Row> {
    let row = |key, target, measure: fn() -> (f64, String)| Row {
        key,
        target: Some(target),
        measure: Box::new(measure),
    };
    vec![
        row("peer_dynamic_world_save_100k", 100.0, || save(100_000)),
        row("peer_dynamic_world_load_100k", 30.0, || load(100_000)),
    ]
}

fn types() -> TypeRegistry {
    let mut types = TypeRegistry::new();
    types.register::<Transform>();
    types.register::<Circle>();
    types.register::<Color>();
    types.register::<M1>();
    types.register::<M2>();
    types
}

/// Bevy's `DynamicWorld` with postcard.
fn save_dynamic(world: &World, entities: &[Entity], types: &TypeRegistry) -> Vec<u8> {
    let dynamic =
        DynamicWorldBuilder::from_world(world, types).extract_entities(entities.iter().copied()).build();
    postcard::to_allocvec(&DynamicWorldSerializer::new(&dynamic, types)).expect("it serializes")
}

fn load_dynamic(world: &mut World, bytes: &[u8], types: &TypeRegistry) {
    let mut bytes = postcard::Deserializer::from_bytes(bytes);
    let deserializer = WorldDeserializer { type_registry: types, load_from_path: &mut NoAssets };
    let dynamic: DynamicWorld = deserializer.deserialize(&mut bytes).expect("it was just saved");
    let mut map = EntityHashMap::default();
    dynamic.write_to_world_with(world, &mut map, types).expect("registered types");
    black_box(map);
}

/// The set has no handles.
struct NoAssets;

impl LoadFromPath for NoAssets {
    fn load_from_path_erased(
        &mut self,
        _: std::any::TypeId,
        _: bevy_asset::AssetPath<'static>,
    ) -> UntypedHandle {
        unreachable!("the set has no handles")
    }
}

fn entities_of(world: &mut World) -> Vec<Entity> {
    world.query_filtered::<Entity, With<Transform>>().iter(world).collect()
}

/// The plain set to bytes, with checksums on our side.
fn save(entities: usize) -> (f64, String) {
    let (mut world, types) = (bevy_plain::filled(entities), types());
    let all = entities_of(&mut world);
    let bytes = saved(&world).len();
    let theirs_bytes = save_dynamic(&world, &all, &types).len();
    let work = || drop(black_box(saved(&world)));
    let baseline = || drop(black_box(save_dynamic(&world, &all, &types)));
    let (ours, theirs) = against(ROUNDS, work, baseline);
    let note = note(ours, theirs, entities, bytes);
    (theirs / ours, format!("{note}, baseline {:.1}", theirs_bytes as f64 / entities as f64))
}

/// Bytes of the plain set to a world.
fn load(entities: usize) -> (f64, String) {
    let (mut source, types) = (bevy_plain::filled(entities), types());
    let all = entities_of(&mut source);
    let theirs_bytes = save_dynamic(&source, &all, &types);
    let bytes = aligned(&source).share();
    drop(source);
    let mut world = bevy_plain::empty();
    load_dynamic(&mut world, &theirs_bytes, &types);
    bevy_plain::check(&mut world, entities, true);
    drop(world);
    let options = OpenOptions::new();
    let work = || {
        let mut world = bevy_plain::empty();
        let open = || options.open_shared(bytes.clone()).expect("it was just saved");
        seconds(&mut || load_into(&mut world, &open()))
    };
    let baseline = || {
        let mut world = bevy_plain::empty();
        seconds(&mut || load_dynamic(&mut world, &theirs_bytes, &types))
    };
    let (ours, theirs) = turns(ROUNDS, work, baseline);
    let note = note(ours, theirs, entities, bytes.len());
    (theirs / ours, format!("{note}, baseline {:.1}", theirs_bytes.len() as f64 / entities as f64))
}

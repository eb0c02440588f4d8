//! Snapshots as files: every encode option, captures over others, tables, canonical forms, single values, schema locks.

use std::fs;
use std::path::Path;

use bevy_bonfire::{IncrementalCapture, SaveOptions, WorldSaveExt};
use bonfire::engine::BufferPool;
use bonfire::{Compression, EncodeOptions, LoadOptions, Persist, Registry, SchemaLock, Snapshot, encode_one};
use bonfire_store::{write as write_file, write_schema_lock};

use super::Result;
use super::worlds::{self, PLAIN_ENTITIES, RPG_ENTITIES, Weather};
use crate::live_rows::{Spread, by_row, change};
use crate::{bevy_plain, plain, rpg};

pub(super) fn write(directory: &Path) -> Result {
    for (name, snapshot) in worlds()? {
        encodings(directory, name, &snapshot)?;
        tables(directory, name, &snapshot)?;
    }
    incremental(directory)?;
    by_path(directory)?;
    carried(directory)?;
    single_value(directory)?;
    schema_locks(directory)
}

/// One snapshot of each world.
fn worlds() -> Result<Vec<(&'static str, Snapshot)>> {
    let pool = BufferPool::default();
    let options = SaveOptions::new()
        .metadata("chapter", "The lost anvil")
        .metadata("turn", 42_u64)
        .data("files.seed", &7_u64)?
        .data("files.log", &vec!["born".to_owned(), "slept".to_owned()])?;
    let (hecs_plain, hecs_world) = worlds::hecs_plain()?;
    let hecs_options = bonfire_hecs::SaveOptions::new()
        .resource(Weather::new())
        .metadata("chapter", "The lost anvil")
        .data("files.seed", &7_u64)?;
    let (hecs_rpg, hecs_rpg_world) = worlds::hecs_rpg()?;
    Ok(vec![
        ("core-plain", plain::World::new(PLAIN_ENTITIES).capture(&plain::registry(), &pool)),
        ("core-rpg", rpg::World::new(RPG_ENTITIES).capture(&rpg::registry(), &pool)),
        ("bevy-plain", worlds::bevy_plain().capture(&options)?),
        ("bevy-zipf", bevy_plain::filled_zipf(PLAIN_ENTITIES).capture(&SaveOptions::new().with_checksums())?),
        ("bevy-rpg", worlds::bevy_rpg().capture(&SaveOptions::new())?),
        ("hecs-plain", hecs_plain.capture(&hecs_world, &hecs_options)?),
        ("hecs-rpg", hecs_rpg.capture(&hecs_rpg_world, &bonfire_hecs::SaveOptions::new())?),
    ])
}

/// Every encode option alone, and all of them together.
fn encodings(directory: &Path, name: &str, snapshot: &Snapshot) -> Result {
    let default = EncodeOptions::default();
    let all = EncodeOptions {
        compression: Compression::Lz4,
        inline_schemas: false,
        root_hash: true,
        copies: false,
        ..default.clone()
    };
    let options = [
        ("raw", default.clone()),
        ("lz4", EncodeOptions { compression: Compression::Lz4, ..default.clone() }),
        ("root", EncodeOptions { root_hash: true, ..default.clone() }),
        ("no-schemas", EncodeOptions { inline_schemas: false, ..default.clone() }),
        ("no-copies", EncodeOptions { copies: false, ..default }),
        ("all", all),
    ];
    for (option, options) in options {
        let bytes = snapshot.encode(&options)?.to_vec();
        fs::write(directory.join(format!("{name}.{option}.bonfire")), bytes)?;
    }
    Ok(())
}

/// The JSON table, and the canonical forms.
fn tables(directory: &Path, name: &str, snapshot: &Snapshot) -> Result {
    fs::write(directory.join(format!("{name}.json")), snapshot.to_json()?)?;
    let canonical = snapshot.canonical()?;
    fs::write(directory.join(format!("{name}.canonical.bonfire")), canonical.to_bytes()?)?;
    let sorted = snapshot.canonical_sorted()?;
    fs::write(directory.join(format!("{name}.sorted.bonfire")), sorted.to_bytes()?)?;
    fs::write(directory.join(format!("{name}.hash.txt")), snapshot.content_hash()?.to_string())?;
    Ok(())
}

/// Captures that share memory with the capture before.
fn incremental(directory: &Path) -> Result {
    let mut world = worlds::bevy_plain();
    let entities = by_row(&world);
    let (mut by_ticks, mut compared) = (IncrementalCapture::new(), IncrementalCapture::new().compared());
    for turn in 0..4 {
        let spread = [Spread::Run, Spread::Scattered, Spread::Spawned, Spread::All][turn];
        change(&mut world, &entities, spread, turn);
        let snapshot = by_ticks.capture(&mut world, &SaveOptions::new())?;
        fs::write(directory.join(format!("incremental-{turn}.bonfire")), snapshot.to_bytes()?)?;
        let snapshot = compared.capture(&mut world, &SaveOptions::new())?;
        fs::write(directory.join(format!("compared-{turn}.bonfire")), snapshot.to_bytes()?)?;
    }
    let mut world = worlds::bevy_rpg();
    let mut captures = IncrementalCapture::new();
    for turn in 0..3 {
        let snapshot = captures.capture(&mut world, &SaveOptions::new())?;
        fs::write(directory.join(format!("incremental-rpg-{turn}.bonfire")), snapshot.to_bytes()?)?;
        worlds::change_bevy_rpg(&mut world, turn);
    }
    Ok(())
}

/// Files that the calls of the front ends and of the store write. That of Bevy has the time of the system.
fn by_path(directory: &Path) -> Result {
    let options = SaveOptions::new().compression(Compression::Lz4);
    worlds::bevy_plain().save_to(directory.join("clock-bevy-path.bonfire"), &options)?;
    let (mut bonfire, world) = worlds::hecs_plain()?;
    let options = bonfire_hecs::SaveOptions::new();
    bonfire.save_to(&world, directory.join("hecs-path.bonfire"), &options)?;
    let snapshot = bonfire.capture(&world, &options)?;
    write_file(&directory.join("store-path.bonfire"), &snapshot.encode(&EncodeOptions::default())?)?;
    Ok(())
}

/// A save that carries components unknown to the build that wrote it.
fn carried(directory: &Path) -> Result {
    let snapshot = rpg::World::new(RPG_ENTITIES).capture(&rpg::registry(), &BufferPool::default());
    let mut registry = Registry::new().with::<rpg::Name>()?.with::<rpg::Stats>()?;
    registry.track("story", 3)?;
    let (rewritten, _) = snapshot.rewritten(&registry, LoadOptions::default())?;
    fs::write(directory.join("carried.bonfire"), rewritten.to_bytes()?)?;
    Ok(())
}

fn single_value(directory: &Path) -> Result {
    fs::write(directory.join("single-value.bonfire"), encode_one(&Weather::new())?)?;
    Ok(())
}

/// An earlier form of [`Weather`].
#[derive(Persist)]
#[persist(key = "files.weather")]
struct OldWeather {
    rain: f32,
}

/// Schema locks as text: of registries, and of a registry with a save of an earlier release.
fn schema_locks(directory: &Path) -> Result {
    let mut lock = SchemaLock::default();
    lock.add(&rpg::registry())?;
    fs::write(directory.join("rpg.lock"), lock.to_string())?;
    let mut registry = plain::registry();
    registry.register::<Weather>()?;
    registry.track("story", 3)?;
    let mut lock = SchemaLock::default();
    lock.add(&registry)?;
    let old = Snapshot::open(&encode_one(&OldWeather { rain: 1.0 })?)?;
    lock.add_older(&SchemaLock::of_snapshot(&old)?);
    write_schema_lock(&directory.join("plain.lock"), &lock)?;
    Ok(())
}

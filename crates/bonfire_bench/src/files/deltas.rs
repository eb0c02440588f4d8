//! Deltas as files: compared, by change ticks, whole, composed, reduced to fields, to structure and to values.

use std::fs;
use std::path::Path;

use bevy_bonfire::replication::DeltaCapture;
use bevy_bonfire::{SaveOptions, WorldSaveExt};
use bevy_ecs::world::World;
use bonfire::engine::{DeltaSchema, SentValues};
use bonfire::{Delta, Granularity};

use super::Result;
use super::worlds;
use crate::live_rows::{Spread, by_row, change};

pub(super) fn write(directory: &Path) -> Result {
    between_in_bevy(directory)?;
    between_in_hecs(directory)?;
    by_ticks(directory, "ticks", DeltaCapture::of_saves())?;
    by_ticks(directory, "exact", DeltaCapture::of_saves().exact())?;
    by_ticks(directory, "verified", DeltaCapture::of_saves().verified())?;
    by_ticks_of_rpg(directory)?;
    fields(directory)
}

fn put(directory: &Path, name: &str, delta: &Delta) -> Result {
    fs::write(directory.join(format!("{name}.delta")), delta.to_bytes()?.to_vec())?;
    Ok(())
}

/// Every operation on two deltas that follow each other, and the component table that they refer to.
fn derived(directory: &Path, name: &str, first: &Delta, second: &Delta) -> Result {
    put(directory, &format!("{name}-1"), first)?;
    put(directory, &format!("{name}-2"), second)?;
    put(directory, &format!("{name}-composed"), &first.compose(second)?)?;
    put(directory, &format!("{name}-structure"), &first.structure_only()?)?;
    put(directory, &format!("{name}-values"), &first.values_only())?;
    put(directory, &format!("{name}-mirrors"), &first.clone().for_mirrors())?;
    fs::write(directory.join(format!("{name}.table")), first.table().encode())?;
    Ok(())
}

/// Deltas between captures of the rpg set in Bevy.
fn between_in_bevy(directory: &Path) -> Result {
    let mut world = worlds::bevy_rpg();
    let schema = DeltaSchema::new(&world.save_registry()?);
    let options = |turn: u64| SaveOptions::new().data("files.turn", &turn);
    let first = world.capture(&options(1)?)?;
    worlds::change_bevy_rpg(&mut world, 1);
    let second = world.capture(&options(2)?.metadata("chapter", "Two"))?;
    worlds::change_bevy_rpg(&mut world, 2);
    let third = world.capture(&options(2)?)?;
    let one = Delta::between(&schema, &first, &second, 10, 20)?;
    let two = Delta::between(&schema, &second, &third, 20, 30)?;
    derived(directory, "bevy-between", &one, &two)?;
    put(directory, "bevy-whole", &Delta::whole(&schema, &second, 20)?)?;
    fs::write(directory.join("bevy-applied.bonfire"), first.with_delta(&one)?.to_bytes()?)?;
    Ok(())
}

/// Deltas between captures of the plain set in hecs.
fn between_in_hecs(directory: &Path) -> Result {
    let (bonfire, mut world) = worlds::hecs_plain()?;
    let options = bonfire_hecs::SaveOptions::new();
    let mut deltas = bonfire_hecs::replication::DeltaCapture::of_saves();
    put(directory, "hecs-whole", &deltas.changes(&bonfire, &world, &options)?)?;
    worlds::change_hecs_plain(&mut world, 1)?;
    let one = deltas.changes(&bonfire, &world, &options.clone().resource(worlds::Weather::new()))?;
    worlds::change_hecs_plain(&mut world, 2)?;
    let two = deltas.changes(&bonfire, &world, &options)?;
    derived(directory, "hecs", &one, &two)?;
    put(directory, "hecs-baseline", &deltas.baseline(&bonfire, &world, &options)?)
}

/// Deltas by change ticks of the plain set.
fn by_ticks(directory: &Path, name: &str, mut deltas: DeltaCapture) -> Result {
    let mut world = worlds::bevy_plain();
    let entities = by_row(&world);
    put(directory, &format!("{name}-whole"), &deltas.changes(&mut world)?)?;
    let mut next = |world: &mut World, spread, turn| {
        change(world, &entities, spread, turn);
        deltas.changes(world)
    };
    let one = next(&mut world, Spread::Run, 1)?;
    let two = next(&mut world, Spread::Scattered, 2)?;
    derived(directory, name, &one, &two)?;
    put(directory, &format!("{name}-all"), &next(&mut world, Spread::All, 3)?)?;
    world.resource_mut::<worlds::Weather>().rain = 0.75;
    put(directory, &format!("{name}-resource"), &deltas.changes(&mut world)?)?;
    put(directory, &format!("{name}-empty"), &deltas.changes(&mut world)?)?;
    put(directory, &format!("{name}-baseline"), &deltas.baseline(&mut world)?)
}

/// Deltas by change ticks of the rpg set: components, parents and entities come and go.
fn by_ticks_of_rpg(directory: &Path) -> Result {
    let mut world = worlds::bevy_rpg();
    let mut deltas = DeltaCapture::of_saves();
    put(directory, "rpg-whole", &deltas.changes(&mut world)?)?;
    worlds::change_bevy_rpg(&mut world, 1);
    let one = deltas.changes(&mut world)?;
    worlds::change_bevy_rpg(&mut world, 2);
    let two = deltas.changes(&mut world)?;
    derived(directory, "rpg", &one, &two)
}

/// Deltas without what was sent before: single fields, and numbers that have moved far enough.
fn fields(directory: &Path) -> Result {
    let sent = [
        ("fields", SentValues::new(Granularity::Field)),
        ("epsilon", SentValues::new(Granularity::Component).epsilon(1.5)),
        ("fields-epsilon", SentValues::new(Granularity::Field).epsilon(1.5)),
    ];
    for (name, mut sent) in sent {
        let mut world = worlds::bevy_plain();
        let entities = by_row(&world);
        let mut deltas = DeltaCapture::of_saves();
        put(directory, &format!("{name}-0"), &sent.filter(&deltas.changes(&mut world)?)?)?;
        for turn in 1..5 {
            // The same rows twice: the first delta of a row is whole, the second has its fields.
            change(&mut world, &entities, Spread::Run, turn / 2);
            put(directory, &format!("{name}-{turn}"), &sent.filter(&deltas.changes(&mut world)?)?)?;
        }
    }
    Ok(())
}

//! Slots in a directory: generations, details, journals, recovery saves, locked saves, single values, profiles.
//!
//! Saves of slots whose names begin with `clock` have the time of the system, all others a fixed one.

use std::path::Path;

use bevy_app::App;
use bevy_bonfire::replication::DeltaCapture;
use bevy_bonfire::{Autosave, BonfirePlugin, PersistExt, SaveOptions, SavePolicy, Saves, WorldSaveExt};
use bonfire::{Compression, EncodeOptions, Value};
use bonfire_store::{
    Details, DirStore, JournalBase, Keep, Payload, Precondition, Rotating, Slots, Store, Wait,
};
use std::time::Duration;

use super::worlds::Weather;
use super::{Result, fixed_clock, worlds};
use crate::live_rows::{Spread, by_row, change};
use crate::{bevy_plain, plain};

pub(super) fn write(directory: &Path) -> Result {
    let fixed = Slots::new(DirStore::open(directory)?).clock(fixed_clock);
    let system = Slots::new(DirStore::open(directory)?);
    generations(&fixed, "quick")?;
    generations(&system, "clock-quick")?;
    journal(&fixed, "journal")?;
    journal(&system, "clock-journal")?;
    kinds(&fixed, "kinds")?;
    kinds(&system, "clock-kinds")?;
    values(&fixed, "settings")?;
    values(&system, "clock-settings")?;
    copies(&fixed)?;
    generations(&fixed.profile("ada")?, "quick")?;
    live(fixed.clone(), "live", SavePolicy::Background)?;
    live(fixed, "live-journal", SavePolicy::Journal)?;
    live(system, "clock-live", SavePolicy::Background)?;
    rotating(directory)
}

pub(super) fn details() -> Details {
    Details::new()
        .label("Before the dragon")
        .play_time(Duration::from_secs(3_661))
        .game_version("1.2.3")
        .thumbnail((0..2_000_u32).map(|i| (i * 7) as u8).collect::<Vec<u8>>())
        .custom("difficulty", Value::from("hard"))
}

/// Five saves of a slot that keeps three, the last one compressed.
fn generations(slots: &Slots, slot: &str) -> Result {
    let mut world = worlds::bevy_plain();
    let entities = by_row(&world);
    for turn in 0..4 {
        change(&mut world, &entities, Spread::Run, turn);
        slots.save(slot, &world.capture(&SaveOptions::new())?, &details()).wait()?;
    }
    let compressed =
        EncodeOptions { compression: Compression::Lz4, root_hash: true, ..EncodeOptions::default() };
    let slots = slots.clone().encode_options(compressed);
    slots.save(slot, &world.capture(&SaveOptions::new())?, &Details::new()).wait()?;
    Ok(())
}

/// A save with a journal of four deltas, and the same merged into one save.
pub(super) fn journal(slots: &Slots, slot: &str) -> Result {
    let mut world = worlds::bevy_plain();
    let entities = by_row(&world);
    let mut deltas = DeltaCapture::of_saves();
    let tick = deltas.changes(&mut world)?.now();
    let saved = slots.save(slot, &world.capture(&SaveOptions::new())?, &details()).wait()?;
    let base = JournalBase::new(slot, saved.generation, tick);
    for turn in 0..4 {
        change(&mut world, &entities, Spread::Run, turn);
        slots.append(&base, &deltas.changes(&mut world)?).wait()?;
    }
    slots.merge_journal(slot).wait()?;
    Ok(())
}

/// A locked save, an ordinary one, and one for after a crash.
fn kinds(slots: &Slots, slot: &str) -> Result {
    let snapshot = worlds::bevy_rpg().capture(&SaveOptions::new())?;
    let locked = slots.save(slot, &snapshot, &details()).wait()?;
    slots.lock(slot, locked.generation).wait()?;
    slots.save(slot, &snapshot, &Details::new().label("After the dragon")).wait()?;
    slots.save_recovery(slot, &snapshot, &Details::new()).wait()?;
    Ok(())
}

/// Two states of a single value.
fn values(slots: &Slots, slot: &str) -> Result {
    slots.save_value(slot, &Weather::new())?;
    slots.save_value(slot, &Weather { rain: 0.5, names: Vec::new() })?;
    Ok(())
}

/// Saves that were copied, renamed, restored and accepted.
fn copies(slots: &Slots) -> Result {
    slots.copy("quick", "copied").wait()?;
    slots.copy("quick", "old-name").wait()?;
    slots.rename("old-name", "new-name").wait()?;
    slots.copy("journal", "restored").wait()?;
    slots.restore("restored", 1).wait()?;
    let snapshot = worlds::bevy_plain().capture(&SaveOptions::new())?;
    slots.save_recovery("accepted", &snapshot, &details()).wait()?;
    slots.accept_recovery("accepted").wait()?;
    Ok(())
}

/// Saves of an app, written by the thread of its saver.
fn live(slots: Slots, slot: &str, policy: SavePolicy) -> Result {
    let plugin = BonfirePlugin::new().slots(slots.keep(Keep::newest(2))).policy(policy);
    let plugin = plugin.autosave(Autosave::off().target(slot));
    let mut app: App = bevy_plain::app_with(plugin);
    app.persist_resource::<Weather>();
    app.insert_resource(Weather::new());
    bevy_plain::fill(app.world_mut(), worlds::PLAIN_ENTITIES);
    let entities = by_row(app.world());
    for turn in 0..3 {
        change(app.world_mut(), &entities, Spread::Run, turn);
        let save = app.world_mut().resource_mut::<Saves>().save(slot);
        app.update();
        save.wait()?;
        app.update();
    }
    Ok(())
}

/// Two states of a blob in a store that keeps the last ones.
fn rotating(directory: &Path) -> Result {
    let store = Rotating::new(DirStore::open(directory.join("rotating"))?, 2);
    let registry = plain::registry();
    for entities in [100, 200, 300] {
        let snapshot = plain::World::new(entities).capture(&registry, &Default::default());
        let payload = Payload::from(snapshot.to_bytes()?);
        store.put("world", payload, Precondition::None).wait()?;
    }
    Ok(())
}

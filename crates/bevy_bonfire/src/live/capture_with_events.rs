//! Captures with the observers of a save.

use bevy_ecs::world::World;
use bonfire::engine::MOMENT_KEY;
use bonfire::{DataEntry, Delta, Result, Snapshot};
use bonfire_store::{Details, SaveTarget};

use super::moment::{self, Appends};
use crate::capture::{
    CaptureAdditions, CaptureInput, DataHandlers, IncrementalCapture, SaveCaptured, SaveOptions,
    SaveStarting, Sharing, capture,
};
use crate::delta::DeltaCapture;
use crate::registry::SaveRegistry;
use crate::selection;

/// Captures a world and triggers [`SaveStarting`] and [`SaveCaptured`]. Shares memory with earlier captures of `captures`. The
/// deltas of `follow` begin at this capture. Returns the details for menus, too.
pub(crate) fn capture_with_events(
    world: &mut World,
    options: &SaveOptions,
    target: Option<&SaveTarget>,
    captures: Option<&mut IncrementalCapture>,
    follow: Option<&mut DeltaCapture>,
) -> Result<(Snapshot, Details)> {
    let span = tracing::info_span!("bonfire.capture", entities = tracing::field::Empty);
    let _in_span = span.enter();
    world.flush();
    selection::prepare(&options.selection, world);
    let (mut details, mut added) = ask_observers(world, options, target)?;
    let moment = moment::begin(world, target, Appends::No)?;
    // What the other part has is referred to by stable ids.
    let with_references = moment.is_some().then(|| options.clone().outside_references());
    let options = with_references.as_ref().unwrap_or(options);
    if let Some(moment) = moment {
        added.data.push(DataEntry::new(MOMENT_KEY, &moment)?);
        details = details.moment(moment);
    }
    let now = world.change_tick();
    let captured = match captures {
        Some(captures) => captures.capture_with(world, options, &added)?,
        None => {
            let registry = SaveRegistry::of(world)?;
            capture(world, CaptureInput { registry: &registry, options, added: &added }, Sharing::Alone)?
        }
    };
    if let Some(deltas) = follow {
        deltas.follow_capture(world, options, &added, &captured.snapshot, now)?;
    }
    span.record("entities", captured.snapshot.entity_count());
    world.trigger(SaveCaptured {
        prelude: captured.snapshot.prelude(),
        notes: captured.snapshot.notes().to_vec(),
    });
    Ok((captured.snapshot, details))
}

/// Captures a world with the data that observers of [`SaveStarting`] attach, and with the entities that they exclude.
pub(super) fn capture_with_data(
    world: &mut World,
    options: &SaveOptions,
    captures: &mut IncrementalCapture,
) -> Result<Snapshot> {
    world.flush();
    selection::prepare(&options.selection, world);
    let (_, added) = ask_observers(world, options, None)?;
    let added = CaptureAdditions { data: added.data, excluded: Vec::new() };
    captures.capture_with(world, options, &added).map(|captured| captured.snapshot)
}

/// Captures a delta and triggers [`SaveStarting`].
pub(super) fn changes_with_events(
    world: &mut World,
    options: &SaveOptions,
    target: &SaveTarget,
    deltas: &mut DeltaCapture,
) -> Result<Delta> {
    let span = tracing::info_span!("bonfire.changes");
    let _in_span = span.enter();
    world.flush();
    let (_, mut added) = ask_observers(world, options, Some(target))?;
    let moment = moment::begin(world, Some(target), Appends::Yes)?;
    let with_references = moment.is_some().then(|| options.clone().outside_references());
    if let Some(moment) = moment {
        added.data.push(DataEntry::new(MOMENT_KEY, &moment)?);
    }
    deltas.changes_with(world, with_references.as_ref().unwrap_or(options), &added)
}

/// Runs the handlers of data, triggers [`SaveStarting`], and returns what both want.
fn ask_observers(
    world: &mut World,
    options: &SaveOptions,
    target: Option<&SaveTarget>,
) -> Result<(Details, CaptureAdditions)> {
    let handled = DataHandlers::save(world, &SaveRegistry::of(world)?.core)?;
    let mut starting = SaveStarting::new(target.cloned(), options.details.clone());
    world.trigger_ref(&mut starting);
    world.flush();
    // What the caller asked for wins.
    let details = options.details.clone().or(std::mem::take(&mut starting.details));
    let mut added = starting.finish(world)?;
    added.data.splice(0..0, handled);
    Ok((details, added))
}

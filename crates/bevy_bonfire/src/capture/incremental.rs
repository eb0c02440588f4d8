//! Captures of one world, each made over the one before it.

use std::sync::Arc;

use bevy_ecs::archetype::ArchetypeId;
use bevy_ecs::change_detection::{DetectChanges, Tick};
use bevy_ecs::resource::Resource;
use bevy_ecs::world::World;
use bonfire::{DataEntry, Result, Snapshot};

use super::{
    CaptureAdditions, CaptureInput, CapturedWorld, EarlierCapture, SaveOptions, Sharing, TickRange, capture,
};
use crate::registry::{ComponentRegistry, SaveRegistry};
use crate::selection;

/// Captures a world again and again, at the cost of what has changed.
///
/// Each capture is a whole [`Snapshot`], the same as [`WorldSaveExt::capture`](crate::WorldSaveExt::capture) would make. Rows
/// that have not changed since the last one are not copied: they lie in memory that both share, and keep their checksums.
/// The last capture is kept for that.
///
/// What has changed is what Bevy's change detection says. A value that is written past it, with `bypass_change_detection` or
/// behind a `Mutex`, a `Cell` or an atomic, is captured as it was. Call `set_changed` after such a write, register the component
/// with [`changes_unseen`](crate::PersistExt::changes_unseen), or use [`compared`](Self::compared).
///
/// ```
/// # use bevy_ecs::prelude::*;
/// use bevy_bonfire::IncrementalCapture;
/// use bevy_bonfire::prelude::*;
/// # #[derive(Component, Persist)]
/// # #[persist(key = "game.health")]
/// # struct Health(f32);
///
/// # let mut world = World::new();
/// # world.persist::<Health>();
/// let mut captures = IncrementalCapture::new();
/// let before = captures.capture(&mut world, &SaveOptions::new())?;
/// world.spawn((Health(3.0), Saved));
/// let after = captures.capture(&mut world, &SaveOptions::new())?;
/// # assert_eq!(after.entity_count(), 1);
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Default)]
pub struct IncrementalCapture {
    last: Option<LastCapture>,
    compared: bool,
}

struct LastCapture {
    snapshot: Snapshot,
    /// What came later has a larger tick.
    tick: Tick,
    epoch: u64,
    /// Kept, so that a change of it is noticed.
    registry: Arc<ComponentRegistry>,
    /// By archetype, its number in the snapshot.
    numbers: Vec<Option<u32>>,
    /// Its order of siblings.
    order: Option<DataEntry>,
}

impl IncrementalCapture {
    /// Nothing is captured yet: the first capture copies everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Compares bytes instead of trusting change detection: shares as much memory, but takes the time of a copy and a
    /// comparison. Finds every change, however it was made.
    pub fn compared(mut self) -> Self {
        self.compared = true;
        self
    }

    pub(crate) fn set_compared(&mut self, compared: bool) {
        self.compared = compared;
    }

    /// Forgets the last capture: the next one copies everything.
    pub fn forget(&mut self) {
        self.last = None;
    }

    /// Captures the world and nothing else: no observer runs.
    pub fn capture(&mut self, world: &mut World, options: &SaveOptions) -> Result<Snapshot> {
        world.flush();
        selection::prepare(&options.selection, world);
        self.capture_with(world, options, &CaptureAdditions::default()).map(|capture| capture.snapshot)
    }

    pub(crate) fn capture_with(
        &mut self,
        world: &mut World,
        options: &SaveOptions,
        added: &CaptureAdditions,
    ) -> Result<CapturedWorld> {
        let registry = SaveRegistry::of(world)?;
        self.capture_in(world, CaptureInput { registry: &registry, options, added })
    }

    /// Captures the components of any registry: see [`capture_with`](Self::capture_with).
    pub(crate) fn capture_in(&mut self, world: &mut World, input: CaptureInput<'_>) -> Result<CapturedWorld> {
        world.check_change_ticks();
        let (epoch, now) = (Epoch::of(world), world.change_tick());
        // A failure forgets it: the next capture stands alone.
        let last = self.last.take().filter(|last| Arc::ptr_eq(&last.registry, input.registry));
        let numbers;
        let sharing = match last {
            None => Sharing::First,
            Some(last) => {
                let trusted = !self.compared && epoch - last.epoch < Epoch::TRUSTED;
                let ticks = TickRange::new(last.tick, now).filter(|_| trusted);
                let since = ticks.map(|ticks| {
                    Box::new(EarlierCapture {
                        snapshot: last.snapshot.without_columns(),
                        order: last.order,
                        ticks,
                    })
                });
                numbers = last.numbers;
                Sharing::Over { snapshot: Box::new(last.snapshot), since, numbers: &numbers }
            }
        };
        let captured = capture(world, input, sharing)?;
        // What the world does from here on has a tick of its own.
        world.increment_change_tick();
        self.last = Some(LastCapture {
            snapshot: captured.snapshot.clone(),
            tick: now,
            epoch,
            registry: Arc::clone(input.registry),
            numbers: archetype_numbers(&captured.archetypes),
            order: captured.order.clone(),
        });
        Ok(captured)
    }

    /// As if the last capture had been made at this tick.
    #[cfg(test)]
    pub(crate) fn set_tick(&mut self, tick: Tick) {
        if let Some(last) = &mut self.last {
            last.tick = tick;
        }
    }
}

/// Counts stretches of ticks. The counter of ticks goes round in two days or so, and a tick from before is then taken for a new
/// one; nobody tells. But Bevy moves the ticks of values that are very old, those of this resource too: if that is not the tick
/// that it was given, so much time has passed.
#[derive(Resource, Default)]
pub(crate) struct Epoch {
    count: u64,
    tick: Option<Tick>,
}

impl Epoch {
    /// Ticks in one of them.
    const TICKS: u32 = 1 << 29;
    /// What is younger than so many can be compared.
    pub(crate) const TRUSTED: u64 = 4;

    pub(crate) fn of(world: &mut World) -> u64 {
        let now = world.change_tick();
        let mut epoch = world.get_resource_or_init::<Self>();
        match epoch.tick {
            Some(tick) if tick == epoch.last_changed() => {
                if now.get().wrapping_sub(tick.get()) < Self::TICKS {
                    return epoch.count;
                }
                epoch.count += 1;
            }
            Some(_) => epoch.count += Self::TRUSTED,
            None => {}
        }
        epoch.tick = Some(now);
        epoch.count
    }
}

/// By archetype, its number among those that were captured.
fn archetype_numbers(archetypes: &[ArchetypeId]) -> Vec<Option<u32>> {
    let mut numbers = Vec::new();
    for (&archetype, number) in archetypes.iter().zip(0..) {
        let index = archetype.index();
        numbers.resize(numbers.len().max(index + 1), None);
        numbers[index] = Some(number);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use bevy_ecs::change_detection::DetectChangesMut;
    use bevy_ecs::prelude::{Component, Entity};

    use super::*;
    use crate::{PersistExt, Saved, WorldSaveExt};

    #[derive(Component, bonfire_derive::Persist)]
    #[persist(key = "test.number")]
    struct Number(u32);

    /// The counter of ticks goes round. Here the world has just begun, and its values are as old as it takes.
    #[test]
    fn ticks_that_have_gone_round_are_compared_as_what_they_are() {
        let mut world = World::new();
        world.persist::<Number>();
        let entities: Vec<Entity> =
            (0..200).map(|number| world.spawn((Number(number), Saved)).id()).collect();
        let now = world.change_tick();
        let ago = |ticks: u32| Tick::new(now.get().wrapping_sub(ticks));
        let mut captures = IncrementalCapture::new();
        let options = SaveOptions::new();
        captures.capture(&mut world, &options).unwrap();
        // The baseline is from before zero; some values are older, and one is younger than zero.
        for (since, changed, seen) in [
            (100_000, 100_001, false),
            (100_000, 100_000, false),
            (100_000, 99_999, true),
            (100_000, 0, true),
            (3, 1, true),
            (AGE_LARGE, AGE_LARGE + 1, false),
            (AGE_LARGE, 3_000_000_000, false),
            (AGE_LARGE, AGE_LARGE - 1, true),
            // So old that it cannot be told: bytes are compared.
            (1 << 31, 3_000_000_000, true),
            (3_000_000_000, 3_100_000_000, true),
        ] {
            for (place, &entity) in entities.iter().enumerate() {
                let mut number = world.get_mut::<Number>(entity).unwrap();
                number.0 = since.wrapping_add(changed).wrapping_mul(place as u32 + 1);
                number.set_last_changed(ago(changed));
            }
            captures.set_tick(ago(since));
            let snapshot = captures.capture(&mut world, &options).unwrap();
            let right = world.capture(&options).unwrap().to_bytes().unwrap();
            assert_eq!(snapshot.to_bytes().unwrap() == right, seen, "{since} {changed}");
            captures.forget();
            captures.capture(&mut world, &options).unwrap();
        }
    }

    /// What Bevy does to values that nobody has touched for a day or two.
    #[test]
    fn a_capture_from_before_the_counter_went_round_is_not_trusted() {
        let mut world = World::new();
        world.persist::<Number>();
        let entity = world.spawn((Number(1), Saved)).id();
        let mut captures = IncrementalCapture::new();
        let options = SaveOptions::new();
        captures.capture(&mut world, &options).unwrap();
        // Round once, and a little more: the value was changed in between, and its tick looks older than the capture.
        let now = world.change_tick();
        world.get_mut::<Number>(entity).unwrap().0 = 2;
        let before = Tick::new(now.get().wrapping_sub(1000));
        world.get_mut::<Number>(entity).unwrap().set_last_changed(before);
        captures.set_tick(Tick::new(now.get().wrapping_sub(500)));
        // Without a sign from Bevy nobody can know.
        let right = world.capture(&options).unwrap().to_bytes().unwrap();
        assert_ne!(captures.capture(&mut world, &options).unwrap().to_bytes().unwrap(), right);
        // The sign: the tick of the resource was moved.
        world.resource_mut::<Epoch>().set_last_changed(Tick::new(now.get().wrapping_add(12_345)));
        captures.set_tick(Tick::new(now.get().wrapping_sub(500)));
        let snapshot = captures.capture(&mut world, &options).unwrap();
        assert_eq!(snapshot.to_bytes().unwrap(), world.capture(&options).unwrap().to_bytes().unwrap());
    }

    const AGE_LARGE: u32 = (1 << 31) - 100_000;
}

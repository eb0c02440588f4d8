//! The clocks of a game: virtual and fixed time go on where they were. Settings (the longest step, the time step) stay
//! those of the build.

use std::time::Duration;

use bevy_ecs::world::World;
use bevy_time::{Fixed, Time, Virtual};
use bonfire::{Adapter, Descriptor, Error, LoadContext, Persist, Result};

use crate::registry::{SaveRegistry, load_resource_with};

/// No game has run for longer; more would overflow a clock.
const ELAPSED_MAX: Duration = Duration::from_secs(u64::MAX / 1_000_000_000);

/// Faster clocks overflow within a frame.
const SPEED_MAX: f64 = 1e6;

#[derive(Persist)]
struct SavedVirtual {
    elapsed: Duration,
    speed: f64,
    paused: bool,
}

#[derive(Persist)]
struct SavedFixed {
    elapsed: Duration,
    overstep: Duration,
}

struct Clock;

fn advanced<T: Default + Clone>(mut time: Time<T>, elapsed: Duration) -> Result<Time<T>> {
    if elapsed > ELAPSED_MAX {
        return Err(Error::custom(format!("a clock that shows {elapsed:?}")));
    }
    time.advance_to(elapsed);
    // The jump is not a step that systems should see.
    time.advance_by(Duration::ZERO);
    Ok(time)
}

fn known<'a, T: Default + Send + Sync + 'static>(context: &LoadContext<'a>) -> Option<&'a Time<T>> {
    context.world::<World>()?.get_resource::<Time<T>>()
}

impl Adapter<Time<Virtual>> for Clock {
    type Saved = SavedVirtual;

    fn save(time: &Time<Virtual>) -> Result<SavedVirtual> {
        Ok(SavedVirtual {
            elapsed: time.elapsed(),
            speed: time.relative_speed_f64(),
            paused: time.is_paused(),
        })
    }

    fn load(saved: SavedVirtual, context: &LoadContext<'_>) -> Result<Time<Virtual>> {
        let mut time = Time::<Virtual>::default();
        if let Some(known) = known::<Virtual>(context) {
            time.set_max_delta(known.max_delta());
            time.set_wrap_period(known.wrap_period());
        }
        if !(0.0..=SPEED_MAX).contains(&saved.speed) {
            return Err(Error::custom(format!("a clock cannot run at the speed {}", saved.speed)));
        }
        time.set_relative_speed_f64(saved.speed);
        if saved.paused {
            time.pause();
        }
        advanced(time, saved.elapsed)
    }
}

impl Adapter<Time<Fixed>> for Clock {
    type Saved = SavedFixed;

    fn save(time: &Time<Fixed>) -> Result<SavedFixed> {
        Ok(SavedFixed { elapsed: time.elapsed(), overstep: time.overstep() })
    }

    fn load(saved: SavedFixed, context: &LoadContext<'_>) -> Result<Time<Fixed>> {
        let mut time = Time::<Fixed>::default();
        if let Some(known) = known::<Fixed>(context) {
            time.set_timestep(known.timestep());
            time.set_wrap_period(known.wrap_period());
        }
        let timestep = time.timestep();
        let mut time = advanced(time, saved.elapsed)?;
        // Whole steps are never left over; more of them would run all at once.
        time.accumulate_overstep(saved.overstep.min(timestep));
        Ok(time)
    }
}

/// Registers both clocks.
pub(crate) fn register(world: &mut World) -> Result<()> {
    SaveRegistry::edit(world, |world, registry| {
        let descriptor = Descriptor::adapted::<Time<Virtual>, Clock>("bevy.time.virtual");
        let number = registry.add::<Time<Virtual>>(world, descriptor)?;
        registry.entries[number].load_resource = Some(load_resource_with(load_virtual));
        registry.add::<Time<Fixed>>(world, Descriptor::adapted::<Time<Fixed>, Clock>("bevy.time.fixed"))?;
        Ok(())
    })
}

/// The clock that systems see follows the virtual one, also in the rest of this frame.
fn load_virtual(world: &mut World, time: Time<Virtual>) -> Result<()> {
    if let Some(mut generic) = world.get_resource_mut::<Time>() {
        *generic = time.as_generic();
    }
    world.insert_resource(time);
    Ok(())
}

//! Timers and stopwatches of `bevy_time`. They come back as they were, to the nanosecond.
//!
//! Bevy sets "finished" and the number of ends in the last tick only in `Timer::tick`, so a load ticks a timer of one
//! nanosecond that often and then gives it its duration and time.

use std::time::Duration;

use bevy_time::{Stopwatch, Timer, TimerMode};

use super::Persist;
use super::foreign::{structs, unit_enums};
use crate::error::Result;
use crate::schema::{Node, SchemaBuilder};
use crate::wire::{Reader, Writer};

unit_enums! {
    TimerMode { Once, Repeating }
}

/// The saved fields of a stopwatch.
struct SavedStopwatch {
    elapsed: Duration,
    paused: bool,
}

/// The saved fields of a timer.
struct SavedTimer {
    duration: Duration,
    mode: TimerMode,
    elapsed: Duration,
    paused: bool,
    finished: bool,
    times_finished_this_tick: u32,
}

structs! {
    SavedStopwatch { elapsed: Duration, paused: bool }
    SavedTimer {
        duration: Duration,
        mode: TimerMode,
        elapsed: Duration,
        paused: bool,
        finished: bool,
        times_finished_this_tick: u32,
    }
}

impl Persist for Stopwatch {
    fn schema(types: &mut SchemaBuilder) -> Node {
        SavedStopwatch::schema(types)
    }
    fn encode(&self, out: &mut Writer) {
        SavedStopwatch { elapsed: self.elapsed(), paused: self.is_paused() }.encode(out);
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let saved = SavedStopwatch::decode(input)?;
        let mut stopwatch = Self::new();
        stopwatch.set_elapsed(saved.elapsed);
        if saved.paused {
            stopwatch.pause();
        }
        Ok(stopwatch)
    }
}

/// Everything comes back, with one exception: a time beyond the duration becomes the duration. Only `set_elapsed` and
/// `set_duration` make one, it lasts until the next tick, and `remaining` panics on it.
impl Persist for Timer {
    fn schema(types: &mut SchemaBuilder) -> Node {
        SavedTimer::schema(types)
    }
    fn encode(&self, out: &mut Writer) {
        SavedTimer {
            duration: self.duration(),
            mode: self.mode(),
            elapsed: self.elapsed(),
            paused: self.is_paused(),
            finished: self.is_finished(),
            times_finished_this_tick: self.times_finished_this_tick(),
        }
        .encode(out);
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let saved = SavedTimer::decode(input)?;
        let times = saved.times_finished_this_tick;
        if times > 0 && !saved.finished {
            return Err(input.corrupt(format!("a timer ended {times} times and is not finished")));
        }
        let mut timer = Self::new(Duration::from_nanos(1), TimerMode::Repeating);
        if saved.finished {
            // Bevy cuts the number off at 32 bits, so this many ticks count as none.
            let ticks = if times == 0 { 1 << 32 } else { u64::from(times) };
            timer.tick(Duration::from_nanos(ticks));
        }
        timer.set_mode(saved.mode);
        timer.set_duration(saved.duration);
        timer.set_elapsed(saved.elapsed.min(saved.duration));
        if saved.paused {
            timer.pause();
        }
        Ok(timer)
    }
}

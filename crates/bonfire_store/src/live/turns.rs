//! A saver without a thread: its jobs are done in turns of whoever polls it.
//!
//! One job is being done at a time, and its future waits here between the turns. A turn polls it once: that is one slice of
//! work, or a step of the store. A future that was not woken since its last turn is left alone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::job::JobFuture;
use super::worker::{Current, Shared, current};
use crate::blocking::Alarm;
use crate::clock::Stopwatch;

/// How much of a world is encoded or opened in one turn.
pub(super) const SLICE_BYTES: usize = 256 << 10;

/// The job that is being done, and what wakes it.
#[derive(Default)]
pub(super) struct Turns {
    running: Mutex<Option<Running>>,
    /// It rings when the job can go on, when it is done, and when another one is handed in.
    pub(super) alarm: Arc<Alarm>,
}

struct Running {
    future: JobFuture,
    /// How often the alarm had rung when the future was polled.
    polled: Option<u64>,
}

/// The result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Worked,
    /// The job was not woken since its last turn.
    Waits,
    /// There is no job.
    Idle,
}

impl Turns {
    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Takes turns until the budget is used up, or until no job can go on. One turn at least.
    pub(super) fn poll(&self, budget: Duration) {
        let Some(turns) = self.turns().filter(|_| current() != Some(self.id)) else { return };
        let stopwatch = Stopwatch::start();
        while self.turn(turns) == Turn::Worked && !stopwatch.left(budget).is_zero() {}
    }

    /// Takes turns until the goal is reached, and waits in between: false if there was not enough time, or if it can never be
    /// reached here. On wasm32 nothing can be waited for.
    pub(super) fn drive(&self, time: Duration, goal: impl Fn() -> bool) -> bool {
        let Some(turns) = self.turns().filter(|_| current() != Some(self.id)) else { return goal() };
        let stopwatch = Stopwatch::start();
        loop {
            let rings = turns.alarm.rings();
            if goal() {
                return true;
            }
            let turn = self.turn(turns);
            let left = stopwatch.left(time);
            let goes_on = match turn {
                Turn::Worked => !left.is_zero(),
                Turn::Waits => turns.alarm.wait(rings, left),
                Turn::Idle => false,
            };
            if !goes_on {
                return goal();
            }
        }
    }

    /// Polls the job that is being done, or begins the next one.
    fn turn(&self, turns: &Turns) -> Turn {
        let mut running = turns.running();
        if running.is_none() {
            let Some(job) = self.lock().next() else { return Turn::Idle };
            *running = Some(Running { future: Box::pin(job.run(Ok(self.slots.clone()))), polled: None });
        }
        let Some(job) = &mut *running else { return Turn::Idle };
        let rings = turns.alarm.rings();
        if job.polled.replace(rings) == Some(rings) {
            return Turn::Waits;
        }
        let waker = Waker::from(turns.alarm.clone());
        let _current = Current::enter(self.id);
        let Poll::Ready(ended) = job.future.as_mut().poll(&mut Context::from_waker(&waker)) else {
            return Turn::Worked;
        };
        let done = running.take();
        drop(running);
        drop(done);
        self.conclude(ended);
        turns.alarm.ring();
        Turn::Worked
    }
}

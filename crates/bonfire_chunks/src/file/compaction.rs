//! Compaction in steps: each step copies a bounded number of bytes, and saves and reads go on between the steps and during
//! most of them. A save waits for one step at most.

use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use bonfire::{Error, Result};

use super::change_log::{Lack, PinEvent};
use super::chunk_file::ChunkFile;
use super::commit_file::State;
use super::counter;
use super::new_file::FrameProgress;
use super::next_file::{CompactionPass, NextFile, Phase, Successor};
use super::pin_frames::CommitContent;
use super::pin_frames::PinOperation;
use super::writer_state::WriterState;
use crate::format::{FrameKey, FramePlace};
use crate::frames::FrameChange;

/// How often in a row a step lets saves go first: however many there are, the file is compacted.
const GIVES_WAY_MAX: usize = 8;

/// The state of compactions, and their counts since the world was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactionStatus {
    /// A compaction has begun and has not ended.
    pub is_under_way: bool,
    /// No compaction begins or goes on by itself.
    pub is_paused: bool,
    /// More of the file is dead than may be.
    pub is_due: bool,
    /// Compactions that came to their end.
    pub completed: u64,
    /// Steps of all compactions.
    pub steps: u64,
    /// Bytes that they have copied and read back.
    pub bytes_copied: u64,
    /// The most bytes that were copied while one save waited.
    pub save_waited_bytes_max: u64,
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepOutcome {
    /// There is nothing to do: no compaction is due or under way.
    Nothing,
    /// There is more to do.
    More,
    /// Saves wait for the writer, or another thread works on the same compaction.
    Busy,
    /// The compaction has come to its end.
    Compacted,
}

impl ChunkFile {
    pub(super) fn next_file(&self) -> MutexGuard<'_, NextFile> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compacts the file, step by step. `progress` hears how many frames of how many are copied.
    pub(crate) fn compact(&self, progress: FrameProgress<'_>) -> Result<()> {
        if self.is_seal_outdated() {
            let nothing = FrameChange::default();
            return self.compact_with(&CommitContent::save(&nothing), progress);
        }
        let passes = self.compactions.passes.load(Acquire);
        loop {
            // Another thread may have brought it to its end.
            if self.compactions.passes.load(Acquire) != passes {
                return Ok(());
            }
            self.begin_compaction()?;
            match self.compact_some(progress)? {
                StepOutcome::Compacted => return Ok(()),
                StepOutcome::More => {}
                StepOutcome::Busy | StepOutcome::Nothing => pause(),
            }
        }
    }

    /// Does a step of the compaction that is under way, or begins one if it is due.
    pub(crate) fn step_compaction(&self) -> Result<StepOutcome> {
        if self.compactions.is_paused.load(Acquire) {
            return Ok(StepOutcome::Nothing);
        }
        if !self.next_file().is_under_way() {
            if !self.is_compaction_due() {
                return Ok(StepOutcome::Nothing);
            }
            if self.is_seal_outdated() {
                self.compact(&mut |_, _| {})?;
                return Ok(StepOutcome::Compacted);
            }
            self.begin_compaction()?;
        }
        self.compact_some(&mut |_, _| {})
    }

    /// Lets compactions begin and go on by themselves, or not.
    pub(crate) fn pause_compaction(&self, is_paused: bool) {
        self.compactions.is_paused.store(is_paused, Release);
    }

    pub(crate) fn compaction_status(&self) -> CompactionStatus {
        let counts = &self.compactions;
        CompactionStatus {
            is_under_way: self.next_file().is_under_way(),
            is_paused: counts.is_paused.load(Acquire),
            is_due: self.is_compaction_due(),
            completed: counts.passes.load(Acquire),
            steps: counts.steps.load(Relaxed),
            bytes_copied: counts.bytes_copied.load(Relaxed),
            save_waited_bytes_max: counts.save_waited_bytes_max.load(Acquire),
        }
    }

    /// Begins a compaction if none is under way.
    fn begin_compaction(&self) -> Result<()> {
        self.with_writer(|_| {
            let mut next = self.next_file();
            if !next.is_free() {
                return Ok(());
            }
            self.check_room()?;
            next.begin(CompactionPass::begin(&self.commits, self.options.capacity_min)?);
            Ok(())
        })
    }

    /// Refuses to begin a compaction that the disk has no room for.
    fn check_room(&self) -> Result<()> {
        let needed = CompactionPass::bytes_needed(&self.state(), self.options.capacity_min);
        // A disk that cannot tell is asked by writing.
        let free = self.disk.free_bytes().ok().flatten();
        match free.filter(|free| *free < needed) {
            None => Ok(()),
            Some(free) => Err(Error::io_write(
                format_args!(
                    "cannot compact `{}`: that takes {needed} bytes, and the disk has {free}",
                    self.name
                ),
                std::io::ErrorKind::StorageFull.into(),
            )),
        }
    }

    /// Does a step of the compaction that is under way. A step that fails ends it, and leaves the file as it is.
    fn compact_some(&self, progress: FrameProgress<'_>) -> Result<StepOutcome> {
        let bytes_max = self.options.step_bytes;
        let Some(mut pass) = self.next_file().take() else {
            return Ok(if self.next_file().is_under_way() {
                StepOutcome::Busy
            } else {
                StepOutcome::Nothing
            });
        };
        self.compactions.steps.fetch_add(1, Relaxed);
        let worked = pass.work_beside_saves(&self.commits, bytes_max, progress);
        let worked = worked.and_then(|bytes| self.sync_in_turn(&mut pass).map(|()| bytes));
        let is_outdated = pass.is_outdated(&self.state());
        let worked = match worked {
            _ if is_outdated => Err(Error::conflict("the file was written anew while it was compacted")),
            worked => worked,
        };
        let catches_up = pass.is_catching_up();
        self.next_file().put_back(worked.is_ok().then_some(pass));
        self.compactions.bytes_copied.fetch_add(worked?, Relaxed);
        if catches_up { self.catch_up(bytes_max) } else { Ok(StepOutcome::More) }
    }

    /// Makes durable what was copied, if it is much. Two syncs at a time take longer than one after the other, so this one is in
    /// the turn of a save.
    fn sync_in_turn(&self, pass: &mut CompactionPass) -> Result<()> {
        if !pass.is_sync_due() || self.compactions.saves_waiting.load(Acquire) > 0 {
            return Ok(());
        }
        let _turn = self.writer();
        pass.sync()
    }

    /// Commits to the new file what it lacks, up to so many bytes. If it lacks nothing, it takes the place of the file.
    fn catch_up(&self, bytes_max: u64) -> Result<StepOutcome> {
        let gives_way = self.compactions.saves_waiting.load(Acquire) > 0
            && self.compactions.gave_way.fetch_add(1, AcqRel) < GIVES_WAY_MAX;
        if gives_way {
            return Ok(StepOutcome::Busy);
        }
        self.compactions.gave_way.store(0, Release);
        // The system takes its time to remove a large file: nobody waits for that.
        let (outcome, _old) = self.with_writer(|writer| {
            let mut next = self.next_file();
            let Some(mut pass) = next.take() else { return Ok((StepOutcome::Busy, None)) };
            let caught_up = self.copy_changed(&mut next, &mut pass, bytes_max);
            if matches!(caught_up, Ok(StepOutcome::Compacted)) {
                next.put_back(None);
                drop(next);
                return self.take_place(writer, *pass).map(|old| (StepOutcome::Compacted, old));
            }
            next.put_back(caught_up.is_ok().then_some(pass));
            caught_up.map(|outcome| (outcome, None))
        })?;
        if outcome == StepOutcome::More {
            self.sync_successor()?;
        }
        Ok(outcome)
    }

    /// Copies frames that have changed since the pass began. Returns that the file is compacted if there are none.
    fn copy_changed(
        &self,
        next: &mut NextFile,
        pass: &mut CompactionPass,
        bytes_max: u64,
    ) -> Result<StepOutcome> {
        let Phase::CatchUp(successor) = &mut pass.phase else { return Ok(StepOutcome::More) };
        let (mut change, mut bytes, mut has_more) = (FrameChange::default(), 0, false);
        while let Some(lack) = next.pop_lack() {
            has_more = true;
            let (key, pin) = match lack {
                Lack::Frame(key, pin) => (key, pin),
                Lack::Operation(event) => {
                    self.commit_to(successor, std::mem::take(&mut change), Some(&event))?;
                    continue;
                }
            };
            let Some(place) = self.place_of_lack(key, pin) else {
                change.removed.extend(successor.place(key).map(|_| key));
                continue;
            };
            if bytes > 0 && bytes + place.frame_bytes() > bytes_max {
                next.push_back(key);
                break;
            }
            bytes += place.frame_bytes();
            change.frames.push(self.read_held(key, place)?);
        }
        if !has_more {
            // What can be made durable without the writer is.
            let is_sync_due = successor.is_sync_due();
            return Ok(if is_sync_due { StepOutcome::More } else { StepOutcome::Compacted });
        }
        self.commit_to(successor, change, None)?;
        self.compactions.bytes_copied.fetch_add(bytes, Relaxed);
        self.compactions.bytes_copied_with_writer.fetch_add(bytes, Relaxed);
        Ok(StepOutcome::More)
    }

    /// Returns where a frame is that the new file lacks: as of a pin if one is given, or as it is now.
    fn place_of_lack(&self, key: FrameKey, pin: Option<u32>) -> Option<FramePlace> {
        let state = self.state();
        match pin {
            Some(pin) => state.pins.place(pin, key, &state.indices),
            None => state.indices.get(key),
        }
    }

    /// Commits frames to the new file, and then an operation on pins.
    fn commit_to(
        &self,
        successor: &mut Successor,
        change: FrameChange,
        event: Option<&PinEvent>,
    ) -> Result<()> {
        let pin = match event {
            Some(PinEvent::Added(pin)) => Some(pin),
            _ => None,
        };
        if pin.is_some() || !change.is_empty() {
            let operation = PinOperation::Save(pin);
            successor.commit(&CommitContent { change: &change, operation })?;
        }
        let operation = match event {
            Some(PinEvent::Removed(number)) => PinOperation::Remove(*number),
            Some(PinEvent::Returned(number, _)) => PinOperation::Return(*number),
            Some(PinEvent::Added(_)) | None => return Ok(()),
        };
        successor.commit(&CommitContent { change: &FrameChange::default(), operation })
    }

    /// Makes durable what was committed to the new file, without the writer.
    fn sync_successor(&self) -> Result<()> {
        let taken = self.next_file().take();
        let Some(mut pass) = taken else { return Ok(()) };
        let synced = match &mut pass.phase {
            Phase::CatchUp(successor) => successor.sync_if_due(),
            _ => Ok(()),
        };
        self.next_file().put_back(synced.is_ok().then_some(pass));
        synced
    }

    /// Gives a file that has everything the name of this one, and goes on in it. Returns the old one, which is to be dropped.
    fn take_place(&self, writer: &mut WriterState, mut pass: CompactionPass) -> Result<Option<State>> {
        if let Phase::CatchUp(successor) = &mut pass.phase {
            self.pass_in_number(successor)?;
            successor.sync()?;
        }
        if let Err(failure) = pass.publish() {
            if failure.may_have_name {
                writer.poison("the file that replaces it could not be named durably");
            }
            return Err(failure.error);
        }
        let Some(successor) = pass.into_successor() else { return Ok(None) };
        let generation = successor.generation();
        let (state, new_writer) = successor.into_parts();
        writer.go_on_as(new_writer);
        let old = self.go_on_with(state);
        self.compactions.passes.fetch_add(1, AcqRel);
        counter::advance(self.options.counter.as_ref(), &self.name, generation)?;
        Ok(Some(old))
    }

    /// Numbers of saves only rise: the new file has had fewer commits than saves if they changed the same frames.
    fn pass_in_number(&self, successor: &mut Successor) -> Result<()> {
        let generation = self.state().generation;
        while successor.generation() <= generation {
            successor.commit(&CommitContent::save(&FrameChange::default()))?;
        }
        Ok(())
    }
}

/// Lets other threads go on.
fn pause() {
    #[cfg(not(target_arch = "wasm32"))]
    std::thread::sleep(std::time::Duration::from_micros(200));
}

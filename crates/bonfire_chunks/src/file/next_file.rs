//! The file that is to replace an open one, while saves and reads go on: the state of a compaction in steps.
//!
//! | phase | a step | saves meanwhile |
//! |---|---|---|
//! | copy | copies frames that the file had when the pass began | are noted |
//! | check | reads what was written, as the next session would | are noted |
//! | catch up | commits what saves have changed since the pass began | are committed to both files |
//!
//! A file that has caught up is whole, and has everything: it can take the place of the other. Until then it has a name of its own, and
//! a crash leaves nothing but a file to be removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use bonfire::Result;
use bonfire_store::disk::{Disk, DiskFile};

use super::change_log::{ChangeLog, Lack, PinEvent};
use super::checkpoint_state::CheckpointState;
use super::commit_file::{CommitFile, State};
use super::file_check::FileCheck;
use super::file_snapshot::FileSnapshot;
use super::indices::Indices;
use super::kept_frames::KeptFrames;
use super::names::{TemporaryName, write_error};
use super::new_file::{Draft, FrameProgress, NewFile, WrittenFile};
use super::pin_frames::CommitContent;
use super::pin_frames::{PinOperation, PinToAdd};
use super::pins::Pins;
use super::seal::Seal;
use super::writer_state::WriterState;
use crate::Durability;
use crate::format::{FrameKey, FramePlace, Header};
use crate::frames::FrameChange;

/// Copied bytes that are made durable together: a save whose sync comes at the same time has no more to wait for.
const SYNC_BYTES: u64 = 256 << 10;

/// The file that is to replace an open one.
#[derive(Default)]
pub(super) struct NextFile {
    pass: PassSlot,
    /// What has changed since the pass began, and the new file does not have yet.
    log: ChangeLog,
}

/// Where the pass is.
#[derive(Default)]
enum PassSlot {
    #[default]
    None,
    Here(Box<CompactionPass>),
    /// A step works on it.
    Away,
    /// A step works on it, and is to drop it.
    Abandoned,
}

impl NextFile {
    /// Returns true if a pass has begun and has not ended.
    pub(super) fn is_under_way(&self) -> bool {
        matches!(self.pass, PassSlot::Here(_) | PassSlot::Away)
    }

    /// Returns true if a new pass may begin.
    pub(super) fn is_free(&self) -> bool {
        matches!(self.pass, PassSlot::None)
    }

    /// Begins a pass.
    pub(super) fn begin(&mut self, pass: CompactionPass) {
        self.log.clear();
        self.pass = PassSlot::Here(Box::new(pass));
    }

    /// Takes the pass for a step. `None` if there is none, or if another step works on it.
    pub(super) fn take(&mut self) -> Option<Box<CompactionPass>> {
        match std::mem::replace(&mut self.pass, PassSlot::Away) {
            PassSlot::Here(pass) => Some(pass),
            other => {
                self.pass = other;
                None
            }
        }
    }

    /// Puts the pass back after a step. `None` ends it, and so does an [`abandon`](Self::abandon) in between.
    pub(super) fn put_back(&mut self, pass: Option<Box<CompactionPass>>) {
        self.pass = match (&self.pass, pass) {
            (PassSlot::Away, Some(pass)) => PassSlot::Here(pass),
            _ => PassSlot::None,
        };
    }

    /// Gives up the pass, if there is one: the file stays as it is.
    pub(super) fn abandon(&mut self) {
        self.pass = match std::mem::take(&mut self.pass) {
            PassSlot::Away | PassSlot::Abandoned => PassSlot::Abandoned,
            PassSlot::Here(_) | PassSlot::None => PassSlot::None,
        };
        self.log.clear();
    }

    /// Notes a save and the pin that was made with it. A new file that catches up already gets both at once.
    pub(super) fn note_save(&mut self, change: &FrameChange, pin: Option<PinToAdd>) {
        let keys = || change.frames.iter().map(|frame| frame.key).chain(change.removed.iter().copied());
        let can_follow = self.log.has_no_operation() && (pin.is_none() || self.log.is_empty());
        let operation = PinOperation::Save(pin.as_ref());
        match self.follow(can_follow, &CommitContent { change, operation }) {
            Followed::Nobody => {}
            Followed::Yes => self.log.forget_keys(keys()),
            Followed::Later => {
                self.log.note_keys(keys());
                if let Some(pin) = pin {
                    self.log.note(PinEvent::Added(pin));
                }
            }
        }
    }

    /// Notes an operation on pins.
    pub(super) fn note_pin(&mut self, event: PinEvent) {
        let operation = match &event {
            PinEvent::Added(pin) => PinOperation::Save(Some(pin)),
            PinEvent::Removed(number) => PinOperation::Remove(*number),
            PinEvent::Returned(number, _) => PinOperation::Return(*number),
        };
        let change = FrameChange::default();
        let can_follow = self.log.is_empty();
        if let Followed::Later = self.follow(can_follow, &CommitContent { change: &change, operation }) {
            self.log.note(event);
        }
    }

    /// Makes a commit in the new file, too, if it is so far.
    fn follow(&mut self, can_follow: bool, content: &CommitContent<'_>) -> Followed {
        let pass = match &mut self.pass {
            PassSlot::None | PassSlot::Abandoned => return Followed::Nobody,
            PassSlot::Away => return Followed::Later,
            PassSlot::Here(pass) => pass,
        };
        let successor = match &mut pass.phase {
            Phase::CatchUp(successor) if can_follow => successor,
            _ => return Followed::Later,
        };
        match successor.commit(content) {
            Ok(()) => Followed::Yes,
            Err(error) => {
                tracing::warn!(world = %pass.name, %error, "a compaction is given up");
                self.abandon();
                Followed::Nobody
            }
        }
    }

    /// Takes the next thing that the new file lacks.
    pub(super) fn pop_lack(&mut self) -> Option<Lack> {
        self.log.pop()
    }

    /// Puts back a frame that was taken.
    pub(super) fn push_back(&mut self, key: FrameKey) {
        self.log.push_back(key);
    }
}

/// What the new file has of a commit.
enum Followed {
    /// There is no new file.
    Nobody,
    Yes,
    /// It gets it when it catches up.
    Later,
}

/// One compaction.
pub(super) struct CompactionPass {
    disk: Arc<dyn Disk>,
    pub(super) name: String,
    capacity_min: u32,
    old: FileSnapshot,
    header: Header,
    seal: Option<Arc<Seal>>,
    pub(super) phase: Phase,
    /// The frames that are copied.
    frames: u64,
    /// Bytes that were copied since the last sync.
    unsynced: u64,
    /// The new file has the name of the other one.
    is_published: bool,
}

/// How far a compaction is.
pub(super) enum Phase {
    /// Saves note their keys, and the new file is not there yet.
    Begin,
    Copy(Box<Draft>),
    Check(Box<WrittenFile>, Arc<dyn DiskFile>, FileCheck),
    CatchUp(Box<Successor>),
    /// The file has its name.
    Done,
}

/// A new file that is whole, and that commits are appended to.
pub(super) struct Successor {
    commits: CommitFile,
    writer: WriterState,
    /// Where the next commit began after the last sync.
    synced_end: u64,
}

impl CompactionPass {
    /// Takes the file as it is now. The new file comes with the first step.
    pub(super) fn begin(commits: &CommitFile, capacity_min: u32) -> Result<Self> {
        let old = FileSnapshot::of(commits);
        let seal = old.next_seal(&commits.name)?;
        let header = old.next_header(seal.as_deref());
        Ok(Self {
            disk: commits.disk.clone(),
            name: commits.name.clone(),
            capacity_min,
            old,
            header,
            seal,
            phase: Phase::Begin,
            frames: 0,
            unsynced: 0,
            is_published: false,
        })
    }

    /// Bytes that a pass writes, as far as it is known when it begins.
    pub(super) fn bytes_needed(state: &State, capacity_min: u32) -> u64 {
        let chunks = state.header.count.max(capacity_min);
        let frames = state.indices.frame_bytes() + state.pins.held_bytes();
        frames + u64::from(chunks) * 3 * state.header.version.entry_bytes() as u64
    }

    fn new_file(&self, generation: u64) -> NewFile<'_> {
        NewFile {
            disk: &*self.disk,
            name: &self.name,
            temporary: TemporaryName::InSteps,
            header: self.header.clone(),
            capacity_min: self.capacity_min,
            generation,
            seal: self.seal.clone(),
        }
    }

    /// Returns true if the frames of the file were moved since the pass began.
    pub(super) fn is_outdated(&self, state: &State) -> bool {
        self.old.moves != state.moves
    }

    /// Returns true if the rest of the work needs the writer.
    pub(super) fn is_catching_up(&self) -> bool {
        matches!(self.phase, Phase::CatchUp(_))
    }

    /// Copies or checks so many bytes, as far as that can be done beside saves. Returns the number of bytes.
    pub(super) fn work_beside_saves(
        &mut self,
        commits: &CommitFile,
        bytes_max: u64,
        progress: FrameProgress<'_>,
    ) -> Result<u64> {
        let mut done = 0;
        while done < bytes_max && !self.is_catching_up() {
            done += self.work_once(commits, bytes_max - done, progress)?;
        }
        Ok(done)
    }

    fn work_once(
        &mut self,
        commits: &CommitFile,
        bytes_max: u64,
        progress: FrameProgress<'_>,
    ) -> Result<u64> {
        match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::Begin => {
                let kept = {
                    let nothing = FrameChange::default();
                    KeptFrames::of(&self.old.indices, &self.old.pins, &CommitContent::save(&nothing))
                };
                // They take much memory, and the list of what is copied has all that is needed of them.
                self.old.indices = Indices::default();
                self.old.pins = Pins::default();
                self.frames = kept.frames.len() as u64;
                let draft = self.new_file(self.old.generation).begin(kept, 0, self.header.version)?;
                self.phase = Phase::Copy(Box::new(draft));
                Ok(0)
            }
            Phase::Copy(mut draft) if draft.is_copied() => {
                let generation = commits.state().generation.saturating_add(1);
                let new = self.new_file(generation);
                let written = new.finish(&mut draft)?;
                let file = draft.into_file();
                let check = new.begin_check(&file, &written)?;
                self.phase = Phase::Check(Box::new(written), file, check);
                Ok(0)
            }
            Phase::Copy(mut draft) => {
                let new = self.new_file(self.old.generation);
                let mut heard = |copied| progress(copied, self.frames);
                let copied = new.copy_some(&mut draft, &self.old.frames(false), bytes_max, &mut heard)?;
                self.unsynced += copied;
                self.phase = Phase::Copy(draft);
                Ok(copied)
            }
            Phase::Check(written, file, check) if check.is_done() => {
                let successor = Successor::new(self, commits, *written, file);
                self.phase = Phase::CatchUp(Box::new(successor));
                Ok(0)
            }
            Phase::Check(written, file, mut check) => {
                let checked = check.check_some(&*file, bytes_max)?;
                self.phase = Phase::Check(written, file, check);
                Ok(checked)
            }
            phase @ (Phase::CatchUp(_) | Phase::Done) => {
                self.phase = phase;
                Ok(bytes_max)
            }
        }
    }

    /// Returns true if so much was copied that it is to be made durable.
    pub(super) fn is_sync_due(&self) -> bool {
        self.unsynced >= SYNC_BYTES && matches!(self.phase, Phase::Copy(_))
    }

    /// Makes durable what was copied, so that the end of the work has less to wait for.
    pub(super) fn sync(&mut self) -> Result<()> {
        self.unsynced = 0;
        match &self.phase {
            Phase::Copy(draft) => draft.sync().map_err(write_error(&*self.disk, "compact", &self.name)),
            _ => Ok(()),
        }
    }

    /// Gives the new file the name of the other one. The error says whether the name may be the new file's.
    pub(super) fn publish(&mut self) -> Result<(), super::new_file::PublishError> {
        self.new_file(self.old.generation).publish()?;
        self.is_published = true;
        Ok(())
    }

    /// Returns the new file after it got its name.
    pub(super) fn into_successor(mut self) -> Option<Successor> {
        match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::CatchUp(successor) => Some(*successor),
            _ => None,
        }
    }
}

/// A pass that ends without a name for its file takes the file away.
impl Drop for CompactionPass {
    fn drop(&mut self) {
        // Some systems remove no file that is open.
        drop(std::mem::replace(&mut self.phase, Phase::Done));
        if !self.is_published {
            // A file that cannot be removed now is removed when the world is opened again.
            let _ = self.disk.remove(&TemporaryName::InSteps.beside(&self.name));
        }
    }
}

impl Successor {
    fn new(
        pass: &CompactionPass,
        commits: &CommitFile,
        written: WrittenFile,
        file: Arc<dyn DiskFile>,
    ) -> Self {
        let (generation, written_end) = (written.generation, written.end);
        let name = TemporaryName::InSteps.beside(&pass.name);
        let checkpoint = CheckpointState::written(written.header.clone(), written.side, written.tail_start);
        let writer = WriterState::of_new_file(checkpoint, written.chain, written.end, generation);
        let state = State {
            file,
            indices: written.indices,
            pins: written.pins,
            first_bytes: written.header.encode(),
            header: written.header,
            generation,
            moves: 0,
            seal: pass.seal.clone(),
            end: written.end,
        };
        let synced_end = written_end;
        Self { commits: CommitFile::new(commits.disk.clone(), &name, None, state), writer, synced_end }
    }

    pub(super) fn generation(&self) -> u64 {
        self.commits.state().generation
    }

    pub(super) fn place(&self, key: FrameKey) -> Option<FramePlace> {
        self.commits.state().indices.get(key)
    }

    /// Appends a commit. It is durable after the next [`sync`](Self::sync).
    pub(super) fn commit(&mut self, content: &CommitContent<'_>) -> Result<()> {
        self.commits.write_commit(&mut self.writer, content, None, Durability::Buffered).map(drop)
    }

    /// Returns true if so much was committed that it is to be made durable.
    pub(super) fn is_sync_due(&self) -> bool {
        self.writer.end - self.synced_end >= SYNC_BYTES
    }

    /// Makes all commits durable if there are many.
    pub(super) fn sync_if_due(&mut self) -> Result<()> {
        if self.is_sync_due() { self.sync() } else { Ok(()) }
    }

    /// Makes all commits durable.
    pub(super) fn sync(&mut self) -> Result<()> {
        let (file, generation) = {
            let state = self.commits.state();
            (state.file.clone(), state.generation)
        };
        self.synced_end = self.writer.end;
        self.writer.sync_saves(&*file, &self.commits.name, generation)
    }

    pub(super) fn into_parts(self) -> (State, WriterState) {
        (self.commits.into_state(), self.writer)
    }
}

/// Counts of compactions, and of the bytes that saves had to wait for.
#[derive(Default)]
pub(super) struct Compactions {
    /// No pass begins or goes on by itself.
    pub(super) is_paused: AtomicBool,
    /// Saves that wait for the writer. A step that needs the writer lets them go first.
    pub(super) saves_waiting: AtomicUsize,
    /// How often in a row a step has let them.
    pub(super) gave_way: AtomicUsize,
    /// Passes that came to their end.
    pub(super) passes: AtomicU64,
    pub(super) steps: AtomicU64,
    pub(super) bytes_copied: AtomicU64,
    /// Bytes that were copied by steps that had the writer.
    pub(super) bytes_copied_with_writer: AtomicU64,
    /// The most bytes that were copied while one save waited for the writer.
    pub(super) save_waited_bytes_max: AtomicU64,
}

impl Compactions {
    /// Notes that a save waits for the writer, until the guard is dropped.
    pub(super) fn wait(&self) -> WaitingSave<'_> {
        self.saves_waiting.fetch_add(1, Ordering::AcqRel);
        WaitingSave { all: self, copied_before: self.bytes_copied_with_writer.load(Ordering::Acquire) }
    }
}

/// A save that waits for the writer.
pub(super) struct WaitingSave<'c> {
    all: &'c Compactions,
    copied_before: u64,
}

impl Drop for WaitingSave<'_> {
    fn drop(&mut self) {
        self.all.saves_waiting.fetch_sub(1, Ordering::AcqRel);
        let copied = self.all.bytes_copied_with_writer.load(Ordering::Acquire) - self.copied_before;
        self.all.save_waited_bytes_max.fetch_max(copied, Ordering::AcqRel);
    }
}

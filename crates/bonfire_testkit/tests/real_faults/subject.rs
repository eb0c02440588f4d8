//! The parts of the public API that workers use, behind one trait: slots, values, files at a path.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bonfire::{EncodeOptions, Error, Limits, Persist, Result};
use bonfire_store::{
    Details, DirStore, JournalBase, Keep, LoadedSave, SealKey, Sealed, Slots, Wait, WrittenSave,
};

use crate::app_subject::AppSubject;
use crate::chunk_subject::ChunkSubject;
use crate::log::Answer;
use crate::operation::{Operation, Worker};
use crate::world;

/// Number of saves that the slots of the workers keep.
pub(crate) const KEPT: usize = 2;

/// The slot of subjects that have only one place to save to.
pub(crate) const WORLD: &str = "world";

/// Performs operations through one part of the public API.
pub(crate) trait Subject {
    /// Turns [`Operation::Tick`] into the call that a game would make now.
    fn resolve(&self, operation: &Operation) -> Operation {
        operation.clone()
    }

    /// Performs one operation.
    fn run(&mut self, operation: &Operation) -> Result<Answer>;

    /// Closes the subject before the directory is opened again.
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Opens the subject of a worker.
pub(crate) fn open(worker: Worker, directory: &Path) -> Result<Box<dyn Subject>> {
    Ok(match worker {
        Worker::Path => Box::new(PathSubject(path_of(directory))),
        Worker::Chunks | Worker::SealedChunks => Box::new(ChunkSubject::open(worker, directory)?),
        Worker::Autosave => Box::new(AppSubject::open(directory)?),
        Worker::Value => Box::new(ValueSubject(open_slots(worker, directory)?)),
        _ => Box::new(SlotsSubject::new(open_slots(worker, directory)?)),
    })
}

/// Opens the slots of a worker.
pub(crate) fn open_slots(worker: Worker, directory: &Path) -> Result<Slots> {
    let store = DirStore::open(directory)?;
    let key = || SealKey::from_bytes([7; 32]);
    let slots = match worker {
        Worker::Sealed => Slots::new(Sealed::new(store, key())),
        Worker::Bound | Worker::SealedJournal => Slots::new(Sealed::new(store, key()).bind_name()),
        _ => Slots::new(store),
    };
    Ok(slots.keep(Keep::newest(KEPT)))
}

/// Returns the number of a loaded world, with a remark about everything that is missing.
pub(crate) fn answer_of(loaded: &LoadedSave) -> Result<Answer> {
    let skipped = loaded.skipped.iter().map(ToString::to_string);
    let lost = loaded.journal.iter().filter_map(|journal| {
        let lost = journal.lost.as_ref()?;
        Some(format!("{} deltas, lost: {lost}, tail: {}", journal.records, lost.is_tail()))
    });
    let remarks: Vec<String> = skipped.chain(lost).collect();
    let remark = (!remarks.is_empty()).then(|| remarks.join("; "));
    Ok(Answer { world: Some(world::number_of(&loaded.snapshot)?), remark, ..Answer::default() })
}

fn written(saved: &WrittenSave) -> Answer {
    let remark = saved.prune_error.as_ref().map(|error| format!("after the save: {error}"));
    Answer { number: Some(saved.generation), remark, ..Answer::default() }
}

/// Slots with worlds.
pub(crate) struct SlotsSubject {
    slots: Slots,
    journals: BTreeMap<String, OpenJournal>,
    /// The save that an operation has chosen, for a second attempt.
    chosen: Option<(Operation, u64)>,
}

/// The save that deltas go to.
struct OpenJournal {
    base: JournalBase,
    now: u64,
    /// After an error, or once the save has moved, the next save is a whole one.
    ended: bool,
}

impl SlotsSubject {
    pub(crate) fn new(slots: Slots) -> Self {
        Self { slots, journals: BTreeMap::new(), chosen: None }
    }

    fn end_journal(&mut self, slot: &str) {
        self.journals.entry(slot.to_owned()).and_modify(|journal| journal.ended = true);
    }

    fn save(&mut self, slot: &str, world: u64) -> Result<Answer> {
        self.end_journal(slot);
        let saved = self.slots.save(slot, &world::world(world), &Details::new()).wait()?;
        let base = JournalBase::new(slot, saved.generation, world);
        self.journals.insert(slot.to_owned(), OpenJournal { base, now: world, ended: false });
        Ok(written(&saved))
    }

    fn append(&mut self, slot: &str, from: u64, to: u64) -> Result<Answer> {
        let nothing = || Error::misuse("this process has no save to append to");
        let journal = self.journals.get_mut(slot).ok_or_else(nothing)?;
        journal.ended = true;
        let report = self.slots.append(&journal.base, &world::delta(from, to)).wait()?;
        (journal.now, journal.ended) = (to, false);
        Ok(Answer { number: Some(report.generation), ..Answer::default() })
    }

    /// Chooses a save: the newest or the oldest of a kind. A second attempt of an operation means the same save.
    fn choose(&mut self, operation: &Operation, slot: &str, locked: bool, newest: bool) -> Result<u64> {
        if let Some((of, number)) = &self.chosen
            && of == operation
        {
            return Ok(*number);
        }
        let saves = self.slots.saves(slot).wait()?;
        let mut saves = saves.iter().filter(|save| save.locked == locked && !save.recovery);
        let found = if newest { saves.next() } else { saves.next_back() };
        let number = found.ok_or_else(|| Error::misuse("the worker found no such save"))?.generation;
        self.chosen = Some((operation.clone(), number));
        Ok(number)
    }
}

impl Subject for SlotsSubject {
    fn resolve(&self, operation: &Operation) -> Operation {
        let (slot, to) = match operation {
            Operation::Tick(slot, to) => (slot, *to),
            // Another process cannot go on with a journal.
            Operation::Append(slot, _, to) if !self.journals.contains_key(slot) => (slot, *to),
            other => return other.clone(),
        };
        match self.journals.get(slot) {
            Some(journal) if !journal.ended => Operation::Append(slot.clone(), journal.now, to),
            _ => Operation::Save(slot.clone(), to),
        }
    }

    fn run(&mut self, operation: &Operation) -> Result<Answer> {
        let none = Answer::default();
        if self.chosen.as_ref().is_some_and(|(of, _)| of != operation) {
            self.chosen = None;
        }
        match operation {
            Operation::Save(slot, world) => self.save(slot, *world),
            Operation::Append(slot, from, to) => self.append(slot, *from, *to),
            Operation::Load(slot) => answer_of(&self.slots.load(slot).wait()?),
            Operation::Merge(slot) => {
                self.end_journal(slot);
                let merged = self.slots.merge_journal(slot).wait()?;
                Ok(merged.as_ref().map_or(none, written))
            }
            Operation::Lock(slot) => {
                self.end_journal(slot);
                let number = self.choose(operation, slot, false, true)?;
                self.slots.lock(slot, number).wait().map(|()| none)
            }
            Operation::Unlock(slot) => {
                let number = self.choose(operation, slot, true, true)?;
                self.slots.unlock(slot, number).wait().map(|()| none)
            }
            Operation::Delete(slot) => {
                self.end_journal(slot);
                self.slots.delete_slot(slot).wait().map(|_| none)
            }
            Operation::DeleteOldest(slot) => {
                let number = self.choose(operation, slot, false, false)?;
                self.slots.delete_generation(slot, number).wait().map(|_| none)
            }
            Operation::Rename(from, to) => {
                self.end_journal(from);
                self.end_journal(to);
                self.slots.rename(from, to).wait().map(|()| none)
            }
            Operation::Copy(from, to) => {
                self.end_journal(to);
                self.slots.copy(from, to).wait().map(|copied| written(&copied))
            }
            Operation::Prune(slot) => self.slots.prune(slot).wait().map(|_| none),
            Operation::Recovery(slot, world) => {
                // No load by name finds it: the label says which world it is.
                let details = Details::new().label(world.to_string());
                let saved = self.slots.save_recovery(slot, &world::world(*world), &details).wait();
                saved.map(|saved| written(&saved))
            }
            Operation::Accept(slot) => {
                self.end_journal(slot);
                self.slots.accept_recovery(slot).wait().map(|_| none)
            }
            Operation::Open | Operation::Compact | Operation::Tick(..) => {
                Err(Error::misuse(format!("slots have no `{operation}`")))
            }
        }
    }
}

/// A value that says whether it is whole.
#[derive(Persist)]
struct Settings {
    number: u64,
    copies: Vec<u64>,
}

struct ValueSubject(Slots);

impl Subject for ValueSubject {
    fn run(&mut self, operation: &Operation) -> Result<Answer> {
        match operation {
            Operation::Save(slot, number) => {
                let settings = Settings { number: *number, copies: vec![*number; 50] };
                self.0.save_value(slot, &settings).map(|()| Answer::default())
            }
            Operation::Load(slot) => load_value(&self.0, slot),
            _ => Err(Error::misuse(format!("values have no `{operation}`"))),
        }
    }
}

/// Loads a value. A missing one is an error with `is_not_found`, as for worlds.
pub(crate) fn load_value(slots: &Slots, slot: &str) -> Result<Answer> {
    let settings: Option<Settings> = slots.load_value(slot)?;
    let Settings { number, copies } = settings.ok_or_else(|| missing(slot))?;
    if copies != vec![number; 50] {
        return Err(Error::custom("MIXTURE: the value is of two saves"));
    }
    Ok(Answer { world: Some(number), ..Answer::default() })
}

pub(crate) fn missing(what: &str) -> Error {
    Error::io(format!("`{what}` is missing"), std::io::ErrorKind::NotFound.into())
}

pub(crate) fn path_of(directory: &Path) -> PathBuf {
    directory.join("world.bonfire")
}

struct PathSubject(PathBuf);

impl Subject for PathSubject {
    fn run(&mut self, operation: &Operation) -> Result<Answer> {
        match operation {
            Operation::Save(_, number) => {
                let rope = world::world(*number).encode(&EncodeOptions::default())?;
                bonfire_store::write(&self.0, &rope).map(|()| Answer::default())
            }
            Operation::Load(_) => {
                let snapshot = bonfire_store::read(&self.0, &Limits::default())?;
                Ok(Answer { world: Some(world::number_of(&snapshot)?), ..Answer::default() })
            }
            _ => Err(Error::misuse(format!("paths have no `{operation}`"))),
        }
    }
}

//! The model: which saves there are, and what a call that succeeds, fails or is stopped may make of them.
//!
//! The model has no disk and no numbers. A save is the number of its world and its kind. After a call that failed or was
//! stopped, several states are possible; the checker carries all of them along.

use std::collections::BTreeMap;
use std::fmt;

use crate::log::{Answer, Failure};
use crate::operation::{Operation, Worker};
use crate::subject::KEPT;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Free,
    Locked,
    Recovery,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Save {
    pub(crate) world: u64,
    pub(crate) kind: Kind,
    /// It is needless, and may be deleted already or not.
    pub(crate) fading: bool,
}

impl Save {
    pub(crate) fn new(world: u64, kind: Kind) -> Self {
        Self { world, kind, fading: false }
    }
}

/// The saves of every slot, the oldest first. A slot without saves is not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct State(pub(crate) BTreeMap<String, Vec<Save>>);

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no saves");
        }
        for (place, (slot, saves)) in self.0.iter().enumerate() {
            let kind = |kind| match kind {
                Kind::Free => "",
                Kind::Locked => " locked",
                Kind::Recovery => " recovery",
            };
            let text = |save: &Save| {
                format!("{}{}{}", save.world, kind(save.kind), if save.fading { "?" } else { "" })
            };
            let saves: Vec<String> = saves.iter().map(text).collect();
            write!(f, "{}{slot}: {}", if place > 0 { "; " } else { "" }, saves.join(", "))?;
        }
        Ok(())
    }
}

impl State {
    pub(crate) fn saves(&self, slot: &str) -> &[Save] {
        self.0.get(slot).map_or(&[], Vec::as_slice)
    }

    fn with(&self, slot: &str, saves: Vec<Save>) -> Self {
        let mut state = self.clone();
        state.0.remove(slot);
        if !saves.is_empty() {
            state.0.insert(slot.to_owned(), saves);
        }
        state
    }

    /// Returns the world that a load of the slot must return: the newest that is not locked, or else the newest locked.
    pub(crate) fn loaded(&self, slot: &str) -> Option<u64> {
        let newest = |kind| self.saves(slot).iter().rev().find(|save| save.kind == kind);
        newest(Kind::Free).or_else(|| newest(Kind::Locked)).map(|save| save.world)
    }

    /// Whether a directory with exactly these saves is one that this state describes.
    pub(crate) fn describes(&self, found: &Self) -> bool {
        fn fits(saves: &[Save], found: &[Save]) -> bool {
            let Some((save, rest)) = saves.split_first() else { return found.is_empty() };
            let is_here = |next: &Save| (next.world, next.kind) == (save.world, save.kind);
            found.split_first().is_some_and(|(next, others)| is_here(next) && fits(rest, others))
                || save.fading && fits(rest, found)
        }
        self.0.keys().chain(found.0.keys()).all(|slot| fits(self.saves(slot), found.saves(slot)))
    }

    fn newest(&self, slot: &str, kind: Kind) -> Option<usize> {
        self.saves(slot).iter().rposition(|save| save.kind == kind)
    }
}

/// The reason for which a healthy store refuses a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NotFound,
    Conflict,
    Any,
}

impl Refusal {
    pub(crate) fn explains(self, failure: &Failure) -> bool {
        match self {
            Self::NotFound => failure.is("not-found"),
            Self::Conflict => failure.is("conflict"),
            Self::Any => ["not-found", "conflict", "misuse"].iter().any(|kind| failure.is(kind)),
        }
    }
}

/// The states that a call may lead to.
#[derive(Debug, Default)]
pub(crate) struct Effect {
    /// After a success without a fault.
    pub(crate) exact: Vec<State>,
    /// After a success with a fault: some needless saves may still be there.
    pub(crate) loose: Vec<State>,
    /// After an error or a kill, besides the state before the call.
    pub(crate) stopped: Vec<State>,
    pub(crate) refusal: Option<Refusal>,
}

impl Effect {
    fn refused(refusal: Refusal) -> Self {
        Self { refusal: Some(refusal), ..Self::default() }
    }

    /// One step: done or not done.
    fn step(after: State) -> Self {
        Self { exact: vec![after.clone()], loose: vec![after.clone()], stopped: vec![after], refusal: None }
    }

    /// A change of one slot, which then deletes the saves at the places `needless`. An error leaves some of them.
    fn with_deletions(state: &State, slot: &str, saves: &[Save], needless: &[usize]) -> Self {
        let is_kept = |(place, _): &(usize, &Save)| !needless.contains(place);
        let kept = saves.iter().enumerate().filter(is_kept).map(|(_, save)| *save);
        let exact = state.with(slot, kept.collect());
        let mut saves = saves.to_vec();
        needless.iter().for_each(|place| saves[*place].fading = true);
        let loose = vec![state.with(slot, saves)];
        Self { exact: vec![exact], loose: loose.clone(), stopped: loose, refusal: None }
    }
}

/// The places of saves that are not kept.
fn too_old(saves: &[Save]) -> Vec<usize> {
    let free = saves.iter().enumerate().filter(|(_, save)| save.kind == Kind::Free);
    let mut places: Vec<usize> = free.map(|(place, _)| place).collect();
    places.truncate(places.len().saturating_sub(KEPT));
    places
}

/// The places of saves that are not kept, and of all recovery saves before `end`.
fn needless(saves: &[Save], end: usize) -> Vec<usize> {
    let is_recovery = |place: &usize| saves[*place].kind == Kind::Recovery;
    too_old(saves).into_iter().chain((0..end).filter(is_recovery)).collect()
}

fn free(world: u64) -> Save {
    Save::new(world, Kind::Free)
}

/// Returns the effect of an operation: the first attempt or a further one. The answer is known if the call succeeded.
pub(crate) fn effect(
    worker: Worker,
    operation: &Operation,
    attempt: usize,
    state: &State,
    answer: Option<&Answer>,
) -> Effect {
    let grown = |slot: &str, save: Save| {
        let mut saves = state.saves(slot).to_vec();
        saves.push(save);
        saves
    };
    match operation {
        Operation::Open | Operation::Load(_) | Operation::Compact => Effect::step(state.clone()),
        // Only the current world is visible.
        Operation::Save(slot, world) | Operation::Tick(slot, world) if !worker.lists_saves() => {
            Effect::step(state.with(slot, vec![free(*world)]))
        }
        Operation::Save(slot, world) | Operation::Tick(slot, world) => {
            let saves = grown(slot, free(*world));
            Effect::with_deletions(state, slot, &saves, &needless(&saves, saves.len()))
        }
        Operation::Append(slot, from, to) => match state.newest(slot, Kind::Free) {
            Some(place) if state.saves(slot)[place].world == *from => {
                let mut saves = state.saves(slot).to_vec();
                saves[place].world = *to;
                let recoveries = (0..saves.len()).filter(|place| saves[*place].kind == Kind::Recovery);
                Effect::with_deletions(state, slot, &saves, &recoveries.collect::<Vec<_>>())
            }
            _ => Effect::refused(Refusal::Conflict),
        },
        Operation::Merge(slot) => match (state.newest(slot, Kind::Free), answer) {
            (None, _) => Effect::refused(Refusal::Any),
            // The save has no journal.
            (Some(_), Some(Answer { number: None, .. })) => Effect::step(state.clone()),
            (Some(place), _) => {
                let saves = grown(slot, free(state.saves(slot)[place].world));
                Effect::with_deletions(state, slot, &saves, &needless(&saves, saves.len()))
            }
        },
        Operation::Copy(from, to) => match state.loaded(from) {
            None => Effect::refused(Refusal::NotFound),
            Some(world) => {
                let saves = grown(to, free(world));
                Effect::with_deletions(state, to, &saves, &too_old(&saves))
            }
        },
        Operation::Prune(slot) => {
            let saves = state.saves(slot);
            Effect::with_deletions(state, slot, saves, &too_old(saves))
        }
        Operation::Recovery(slot, world) => {
            let saves = grown(slot, Save::new(*world, Kind::Recovery));
            let older = (0..saves.len() - 1).filter(|place| saves[*place].kind == Kind::Recovery);
            Effect::with_deletions(state, slot, &saves, &older.collect::<Vec<_>>())
        }
        Operation::Accept(slot) => accept(worker, state, slot),
        Operation::Lock(slot) => set_kind(worker, state, slot, attempt, (Kind::Free, Kind::Locked)),
        Operation::Unlock(slot) => set_kind(worker, state, slot, attempt, (Kind::Locked, Kind::Free)),
        Operation::Delete(slot) => delete(state, slot),
        Operation::DeleteOldest(slot) => delete_oldest(state, slot),
        // All or nothing.
        Operation::Rename(from, to) => match (state.saves(from), state.saves(to)) {
            // A call before this one may have done it. To say so again is as good as to find nothing.
            ([], [_, ..]) if attempt > 1 => {
                Effect { refusal: Some(Refusal::NotFound), ..Effect::step(state.clone()) }
            }
            ([], _) => Effect::refused(Refusal::NotFound),
            (saves, []) => Effect::step(state.with(from, Vec::new()).with(to, saves.to_vec())),
            _ => Effect::refused(Refusal::Conflict),
        },
    }
}

/// Makes the newest recovery save a save like others. It counts only if it is newer than all others.
fn accept(worker: Worker, state: &State, slot: &str) -> Effect {
    let mut saves = state.saves(slot).to_vec();
    let twin = |save: &Save| {
        let is_twin = |other: &Save| other.kind == Kind::Free && other.world == save.world;
        worker.renames_in_two_steps() && saves.iter().any(is_twin)
    };
    match saves.last().copied() {
        // If there is a twin, a call before this one has accepted it and was stopped.
        Some(save) if save.kind == Kind::Recovery && !twin(&save) => {
            let place = saves.len() - 1;
            saves[place].kind = Kind::Free;
            let mut effect = Effect::with_deletions(state, slot, &saves, &needless(&saves, place));
            if worker.renames_in_two_steps() {
                saves.push(Save { fading: true, ..save });
                effect.stopped = vec![state.with(slot, saves)];
            }
            effect
        }
        _ => Effect::refused(Refusal::NotFound),
    }
}

/// Locks or unlocks the newest save of a kind. Further attempts mean the same save as the first.
fn set_kind(worker: Worker, state: &State, slot: &str, attempt: usize, (from, to): (Kind, Kind)) -> Effect {
    let mut effect = Effect::refused(Refusal::Any);
    if attempt > 1 && state.newest(slot, to).is_some() {
        effect = Effect { refusal: effect.refusal, ..Effect::step(state.clone()) };
    }
    let Some(place) = state.newest(slot, from) else { return effect };
    let mut saves = state.saves(slot).to_vec();
    let world = saves[place].world;
    let mut both = saves.clone();
    let is_twin = |save: &Save| save.world == world && save.kind == to;
    let after = if worker.renames_in_two_steps() && saves.iter().any(is_twin) {
        // A call before this one was stopped between its two steps.
        saves.remove(place);
        state.with(slot, saves)
    } else {
        saves[place].kind = to;
        state.with(slot, saves)
    };
    effect.refusal = None;
    effect.exact.push(after.clone());
    effect.loose.push(after.clone());
    effect.stopped.push(after);
    if worker.renames_in_two_steps() {
        both[place].kind = Kind::Free;
        both.insert(place + 1, Save::new(world, Kind::Locked));
        effect.stopped.push(state.with(slot, both));
    }
    effect
}

/// Deletes a slot, the oldest save first.
fn delete(state: &State, slot: &str) -> Effect {
    let saves = state.saves(slot);
    if saves.iter().any(|save| save.kind == Kind::Locked) {
        return Effect::refused(Refusal::Any);
    }
    let mut effect = Effect::step(state.with(slot, Vec::new()));
    effect.stopped.extend((1..saves.len()).map(|gone| state.with(slot, saves[gone..].to_vec())));
    effect
}

/// Deletes the oldest save that is not locked. Any of those that may be gone may be the one.
fn delete_oldest(state: &State, slot: &str) -> Effect {
    let mut effect = Effect::refused(Refusal::Any);
    let mut saves = state.saves(slot).to_vec();
    while let Some(place) = saves.iter().position(|save| save.kind == Kind::Free) {
        let removed = saves.remove(place);
        let after = state.with(slot, saves.clone());
        effect.exact.push(after.clone());
        effect.loose.push(after.clone());
        effect.stopped.push(after);
        if !removed.fading {
            effect.refusal = None;
            break;
        }
    }
    effect
}

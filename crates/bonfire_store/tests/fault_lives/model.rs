//! The model: slots as lists of numbered worlds, and the states that a call may leave if it fails or is cut off.

use std::collections::BTreeMap;

use bonfire::Result;
use bonfire_store::{Details, JournalBase, Slots, Wait};

use super::common::{delta, is_world, number, world};

pub(super) const SLOTS: [&str; 3] = ["auto", "kept", "third"];
/// Saves that are not locked and stay in a slot.
pub(super) const KEPT: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Free,
    Locked,
}

/// One save of a slot. The world is told by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Save {
    pub(super) kind: Kind,
    pub(super) world: u64,
}

/// All slots that have saves, each from its oldest save to its newest.
pub(super) type State = BTreeMap<&'static str, Vec<Save>>;

/// One call of the slots. Saves are meant by their place in the slot, the oldest first.
#[derive(Clone, Debug)]
pub(super) enum Deed {
    Save(&'static str, u64),
    Append(JournalBase, u64, u64),
    Merge(&'static str),
    Lock(&'static str, usize),
    Unlock(&'static str, usize),
    DeleteOne(&'static str, usize),
    DeleteSlot(&'static str),
    Rename(&'static str, &'static str),
    Copy(&'static str, &'static str),
    Load(&'static str),
}

/// What a call returned: the number of a save that it made, or the world that it loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// There was no journal to merge.
    pub(super) did_nothing: bool,
    pub(super) generation: Option<u64>,
    pub(super) loaded: Option<u64>,
}

impl Deed {
    pub(super) fn run(&self, slots: &Slots, generations: &Generations) -> Result<Answer> {
        let made = |generation| Answer { generation: Some(generation), ..Answer::default() };
        let at = |slot: &str, place: usize| generations[slot][place];
        match self {
            Self::Save(slot, world_number) => {
                let saved = slots.save(slot, &world(*world_number), &Details::new()).wait()?;
                return Ok(made(saved.generation));
            }
            Self::Append(base, from, to) => drop(slots.append(base, &delta(*from, *to)).wait()?),
            Self::Merge(slot) => {
                let merged = slots.merge_journal(slot).wait()?;
                let nothing = Answer { did_nothing: true, ..Answer::default() };
                return Ok(merged.map_or(nothing, |saved| made(saved.generation)));
            }
            Self::Lock(slot, place) => slots.lock(slot, at(slot, *place)).wait()?,
            Self::Unlock(slot, place) => slots.unlock(slot, at(slot, *place)).wait()?,
            Self::DeleteOne(slot, place) => {
                assert!(slots.delete_generation(slot, at(slot, *place)).wait()?, "it is there");
            }
            Self::DeleteSlot(slot) => assert!(slots.delete_slot(slot).wait()?, "it is there"),
            Self::Rename(from, to) => slots.rename(from, to).wait()?,
            Self::Copy(from, to) => return Ok(made(slots.copy(from, to).wait()?.generation)),
            Self::Load(slot) => {
                let loaded = slots.load(slot).wait()?;
                let found = number(&loaded.snapshot);
                assert!(is_world(&loaded.snapshot, found), "a mixture: it says {found}");
                assert!(loaded.skipped.is_empty(), "nothing is damaged: {:?}", loaded.skipped);
                return Ok(Answer { loaded: Some(found), ..Answer::default() });
            }
        }
        Ok(Answer::default())
    }

    /// Whether the call makes sense with what is there.
    pub(super) fn fits(&self, state: &State) -> bool {
        let kind = |slot: &str, place: usize| Some(state.get(slot)?.get(place)?.kind);
        match self {
            Self::Save(..) => true,
            Self::Append(base, from, _) => {
                let newest = state.get(base.slot.as_str()).and_then(|saves| newest_free(saves));
                newest.is_some_and(|save| save.world == *from)
            }
            Self::Merge(slot) => state.get(slot).is_some_and(|saves| newest_free(saves).is_some()),
            Self::Lock(slot, place) => kind(slot, *place) == Some(Kind::Free),
            Self::Unlock(slot, place) => kind(slot, *place) == Some(Kind::Locked),
            Self::DeleteOne(slot, place) => kind(slot, *place) == Some(Kind::Free),
            Self::DeleteSlot(slot) => {
                state.get(slot).is_some_and(|saves| saves.iter().all(|save| save.kind == Kind::Free))
            }
            Self::Rename(from, to) => state.contains_key(from) && !state.contains_key(to),
            Self::Copy(from, _) | Self::Load(from) => state.contains_key(from),
        }
    }

    /// All states that the call may leave if it does not succeed: the one before it first, the one after it last.
    pub(super) fn outcomes(&self, before: &State) -> Vec<State> {
        let mut states = vec![before.clone()];
        let mut after = before.clone();
        match self {
            Self::Save(slot, world) => after.entry(slot).or_default().push(free(*world)),
            Self::Append(base, _, to) => {
                let saves = after.get_mut(base.slot.as_str()).expect("it has a save");
                let newest = saves.iter_mut().rfind(|save| save.kind == Kind::Free).expect("a free save");
                newest.world = *to;
            }
            Self::Merge(slot) => {
                let saves = after.get_mut(slot).expect("it has a save");
                let world = newest_free(saves).expect("a free save").world;
                saves.push(free(world));
            }
            Self::Lock(slot, place) => set_kind(&mut after, slot, *place, Kind::Locked),
            Self::Unlock(slot, place) => set_kind(&mut after, slot, *place, Kind::Free),
            Self::DeleteOne(slot, place) => {
                after.get_mut(slot).expect("it has saves").remove(*place);
            }
            Self::DeleteSlot(slot) => drop(after.remove(slot)),
            Self::Rename(from, to) => {
                let saves = after.remove(from).expect("it has saves");
                after.insert(to, saves);
            }
            Self::Copy(from, to) => {
                let world = loads(before, from).expect("it has a save");
                after.entry(to).or_default().push(free(world));
            }
            Self::Load(_) => {}
        }
        after.retain(|_, saves| !saves.is_empty());
        states.push(after.clone());
        if let Self::Save(slot, _) | Self::Merge(slot) | Self::Copy(_, slot) = self {
            // Old saves go after the new one is durable, one by one, the oldest first.
            let saves = |state: &State| state[slot].iter().filter(|save| save.kind == Kind::Free).count();
            while saves(&after) > KEPT {
                let oldest = after[slot].iter().position(|save| save.kind == Kind::Free);
                after.get_mut(slot).expect("it has saves").remove(oldest.expect("there are several"));
                states.push(after.clone());
            }
        }
        states
    }
}

fn free(world: u64) -> Save {
    Save { kind: Kind::Free, world }
}

fn set_kind(state: &mut State, slot: &str, place: usize, kind: Kind) {
    state.get_mut(slot).expect("it has saves")[place].kind = kind;
}

fn newest_free(saves: &[Save]) -> Option<&Save> {
    saves.iter().rfind(|save| save.kind == Kind::Free)
}

/// The world that a load of the slot must give.
pub(super) fn loads(state: &State, slot: &str) -> Option<u64> {
    let saves = state.get(slot)?;
    newest_free(saves).or(saves.last()).map(|save| save.world)
}

/// The numbers of all saves, in the order of [`State`].
pub(super) type Generations = BTreeMap<&'static str, Vec<u64>>;

/// Reads everything, as a player would: each save by its number, each slot by its name, and what "Continue" loads.
pub(super) fn look(slots: &Slots) -> std::result::Result<(State, Generations), String> {
    let text = |error: bonfire::Error| error.to_string();
    let (mut state, mut generations) = (State::new(), Generations::new());
    for slot in SLOTS {
        for info in slots.saves(slot).wait().map_err(text)?.iter().rev() {
            let loaded = slots.load_generation(slot, info.generation, &Default::default()).wait();
            let loaded = loaded.map_err(text)?;
            if let Some(lost) = loaded.journal.and_then(|journal| journal.lost)
                && !lost.is_tail()
            {
                return Err(format!("`{}`: {lost}", info.blob));
            }
            let world = number(&loaded.snapshot);
            if !is_world(&loaded.snapshot, world) {
                return Err(format!("`{}` is a mixture: it says {world}", info.blob));
            }
            let kind = if info.locked { Kind::Locked } else { Kind::Free };
            state.entry(slot).or_default().push(Save { kind, world });
            generations.entry(slot).or_default().push(info.generation);
        }
        match slots.load(slot).wait() {
            Err(error) if error.is_not_found() && !state.contains_key(slot) => {}
            Err(error) => return Err(format!("`{slot}` does not load: {error}")),
            Ok(loaded) => {
                let found = number(&loaded.snapshot);
                if !loaded.skipped.is_empty() || Some(found) != loads(&state, slot) {
                    return Err(format!("`{slot}` loads {found} of {:?}", state.get(slot)));
                }
            }
        }
    }
    Ok((state, generations))
}

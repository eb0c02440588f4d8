//! What a directory holds, seen through the public API on a healthy disk, and which files are left over.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bonfire::{Error, OpenOptions};
use bonfire_store::{MemoryStore, SaveInfo, Slots, Wait};

use crate::log::Log;
use crate::model::{Kind, Save, State};
use crate::operation::{Operation, Worker};
use crate::play::Player;
use crate::subject::{self, WORLD, answer_of, open_slots};
use crate::world;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) state: State,
    /// The world that a load of each slot returns.
    pub(crate) loaded: BTreeMap<String, u64>,
    /// The numbers of the saves of each slot.
    pub(crate) numbers: BTreeSet<(String, u64)>,
}

/// Opens a directory and loads everything.
pub(crate) fn look(worker: Worker, directory: &Path) -> Result<View, String> {
    let text = |error: Error| error.to_string();
    if worker.lists_saves() {
        return look_at_slots(&open_slots(worker, directory).map_err(text)?).map_err(text);
    }
    let mut subject = subject::open(worker, directory).map_err(text)?;
    let mut view = View::default();
    let slots: &[&str] = if worker == Worker::Autosave { &["autosave", "quick"] } else { &[WORLD] };
    for slot in slots {
        let answer = match subject.run(&Operation::Load((*slot).to_owned())) {
            Err(error) if error.is_not_found() => continue,
            answer => answer.map_err(text)?,
        };
        let world = answer.world.expect("a load says which world it is");
        if let Some(remark) = answer.remark {
            return Err(format!("a load of `{slot}` on a healthy disk says: {remark}"));
        }
        view.state.0.insert((*slot).to_owned(), vec![Save::new(world, Kind::Free)]);
        view.loaded.insert((*slot).to_owned(), world);
    }
    if worker == Worker::Autosave {
        let slots = open_slots(worker, directory).map_err(text)?;
        for info in slots.all_saves().wait().map_err(text)? {
            view.numbers.insert((info.slot, info.generation));
        }
    }
    Ok(view)
}

fn kind_of(info: &SaveInfo) -> Kind {
    match (info.locked, info.recovery) {
        (true, _) => Kind::Locked,
        (_, true) => Kind::Recovery,
        _ => Kind::Free,
    }
}

/// Loads every save of every slot, and every slot by its name.
pub(crate) fn look_at_slots(slots: &Slots) -> bonfire::Result<View> {
    let mut view = View::default();
    let mut infos = slots.all_saves().wait()?;
    infos.sort_by_key(|info| (info.slot.clone(), info.generation, kind_of(info)));
    for info in infos {
        let kind = kind_of(&info);
        let world = match kind {
            // A recovery save has no public load: its label says which world it is.
            Kind::Recovery => recovery_world(&info)?,
            _ => {
                let loaded =
                    slots.load_generation(&info.slot, info.generation, &OpenOptions::default()).wait()?;
                let answer = answer_of(&loaded)?;
                // A delta that was being appended may be cut. Everything else is a loss.
                if let Some(remark) = answer.remark.filter(|remark| !remark.ends_with("tail: true")) {
                    return Err(Error::custom(format!("`{}` {}: {remark}", info.slot, info.generation)));
                }
                world::number_of(&loaded.snapshot)?
            }
        };
        view.numbers.insert((info.slot.clone(), info.generation));
        view.state.0.entry(info.slot).or_default().push(Save::new(world, kind));
    }
    for slot in view.state.0.keys() {
        if let Some(world) = load(slots, slot)? {
            view.loaded.insert(slot.clone(), world);
        }
    }
    Ok(view)
}

fn load(slots: &Slots, slot: &str) -> bonfire::Result<Option<u64>> {
    match slots.load(slot).wait() {
        Err(error) if error.is_not_found() => Ok(None),
        loaded => Ok(answer_of(&loaded?)?.world),
    }
}

/// The worker labels recovery saves with the number of their world.
fn recovery_world(info: &SaveInfo) -> bonfire::Result<u64> {
    let number = info.label.as_ref().and_then(|label| label.parse().ok());
    number.ok_or_else(|| Error::custom(format!("recovery save {} has no label", info.generation)))
}

/// Whether saves have numbers that are unique over all slots. Stores before that counted in each slot.
pub(crate) fn numbers_are_store_wide() -> bool {
    let slots = Slots::new(MemoryStore::new());
    let save = |slot: &str| {
        slots.save(slot, &world::world(1), &Default::default()).wait().expect("memory does not fail")
    };
    let (first, second) = (save("a").generation, save("b").generation);
    second > first
}

/// Names of files in a directory. Missing directories are empty.
fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

/// A name with every number replaced by `#` and every slot by `SLOT`.
fn pattern(name: &str) -> String {
    let slots = ["autosave", "auto", "old", "kept", "quick"];
    let part = |part: &str| {
        if slots.contains(&part) {
            return "SLOT".to_owned();
        }
        let mut text = String::new();
        for letter in part.chars() {
            match letter.is_ascii_digit() {
                true if text.ends_with('#') => {}
                true => text.push('#'),
                false => text.push(letter),
            }
        }
        text
    };
    name.split('.').map(part).collect::<Vec<_>>().join(".")
}

/// The patterns of all names that a worker has in its directory between two operations, if nothing fails. Any other name
/// is left over. So this test knows no name of the store.
pub(crate) fn clean_patterns(worker: Worker, directory: &Path) -> BTreeSet<String> {
    let mut log = Log::Memory(Vec::new());
    let mut player = Player::new(worker, directory, &mut log);
    let mut patterns = BTreeSet::new();
    for operation in worker.script() {
        assert!(player.step(&operation), "{}: a healthy disk opens", worker.name());
        patterns.extend(names(directory).iter().map(|name| pattern(name)));
    }
    patterns
}

/// Names of files that belong to nothing: temporary files, marks, journals without a save.
pub(crate) fn leftovers(
    directory: &Path,
    clean: &BTreeSet<String>,
    view: &View,
    store_wide: bool,
) -> Vec<String> {
    let is_orphan = |name: &str| {
        let parts: Vec<&str> = name.split('.').collect();
        let [slot, number, "journal", ..] = *parts else { return false };
        let Ok(number) = number.parse::<u64>() else { return false };
        let is_save = |(found, of): &(String, u64)| (store_wide || found == slot) && *of == number;
        !view.numbers.iter().any(is_save)
    };
    let mut left = names(directory);
    // The mark of a number whose save was deleted.
    left.retain(|name| !name.starts_with("last-number."));
    left.retain(|name| !clean.contains(&pattern(name)) || is_orphan(name));
    left.sort();
    left
}

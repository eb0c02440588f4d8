//! `bonfire slots`: changes a directory of saves as the game would.

use std::path::Path;

use bonfire_store::{DirStore, Keep, SealKey, Slots, Wait};

use crate::arguments::{CopyArguments, SlotsCommand};
use crate::escape::{escaped, escaped_path};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::sealed::MixedStore;

/// The slots of a directory that is there, or of one of its players; some may be sealed. Nothing is pruned: that is the
/// game's business.
pub(crate) fn open(directory: &Path, profile: Option<&str>, keys: &[SealKey]) -> Result<Slots, Failure> {
    if !directory.is_dir() {
        return Err(Failure::file(directory, "this is not a directory: `bonfire info` reads a single file"));
    }
    let store = DirStore::open(directory).map_err(|error| Failure::named(&error))?;
    let slots = Slots::new(MixedStore::new(store, keys)).keep(Keep::all());
    match profile {
        Some(profile) => slots.profile(profile).map_err(|error| Failure::named(&error)),
        None => Ok(slots),
    }
}

pub(crate) fn run(command: &SlotsCommand, keys: &[SealKey], out: &mut Output) -> Result<Exit, Failure> {
    let failed = |error: bonfire::Error| Failure::named(&error);
    let done = match command {
        SlotsCommand::Rm(arguments) => {
            let slots = open(&arguments.directory, arguments.profile.as_deref(), keys)?;
            let slot = &arguments.slot;
            let (removed, what) = match arguments.save {
                Some(save) => {
                    (slots.delete_generation(slot, save).wait(), format!("save {save} of `{slot}`"))
                }
                None => (slots.delete_slot(slot).wait(), format!("slot `{slot}`")),
            };
            if !removed.map_err(failed)? {
                let place = escaped_path(&arguments.directory);
                return Err(Failure::Arguments(format!("there is no {} in {place}", escaped(&what))));
            }
            format!("{what} is removed")
        }
        SlotsCommand::Lock(save) => {
            let slots = open(&save.directory, save.profile.as_deref(), keys)?;
            slots.lock(&save.slot, save.save).wait().map_err(failed)?;
            format!("save {} of `{}` is locked", save.save, save.slot)
        }
        SlotsCommand::Unlock(save) => {
            let slots = open(&save.directory, save.profile.as_deref(), keys)?;
            slots.unlock(&save.slot, save.save).wait().map_err(failed)?;
            format!("save {} of `{}` is not locked any more", save.save, save.slot)
        }
        SlotsCommand::Restore(save) => {
            let slots = open(&save.directory, save.profile.as_deref(), keys)?;
            let copy = slots.restore(&save.slot, save.save).wait().map_err(failed)?;
            format!("save {} of `{}` is now also save {}, the newest", save.save, save.slot, copy.generation)
        }
        SlotsCommand::Rename(two) => {
            let slots = open(&two.directory, two.profile.as_deref(), keys)?;
            slots.rename(&two.from, &two.to).wait().map_err(failed)?;
            format!("`{}` is now `{}`", two.from, two.to)
        }
        SlotsCommand::Copy(CopyArguments { slots: two, save }) => {
            let slots = open(&two.directory, two.profile.as_deref(), keys)?;
            let copy = match save {
                Some(save) => slots.copy_generation(&two.from, *save, &two.to).wait(),
                None => slots.copy(&two.from, &two.to).wait(),
            };
            format!("a copy is save {} of `{}`", copy.map_err(failed)?.generation, two.to)
        }
    };
    out.line(escaped(&done))?;
    Ok(Exit::Fine)
}

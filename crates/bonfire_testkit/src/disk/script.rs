//! What is done to a store, and what must be there if the machine stops in the middle of it.

use std::collections::BTreeMap;

use bonfire_store::disk::Disk;
use bonfire_store::{Payload, Precondition, Store, Wait};

use super::random::Random;

/// All blobs of a store.
pub type Blobs = BTreeMap<String, Vec<u8>>;

/// One call of a store.
#[derive(Clone)]
pub enum Step {
    /// Puts a blob, over another or not.
    Put {
        /// Its name.
        name: String,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// Adds to a blob.
    Append {
        /// Its name.
        name: String,
        /// The bytes that are added.
        bytes: Vec<u8>,
    },
    /// Gives a blob another name.
    Rename {
        /// The old name.
        from: String,
        /// The new one, which nobody has.
        to: String,
    },
    /// Removes a blob.
    Remove {
        /// Its name.
        name: String,
    },
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Put { name, bytes } => write!(f, "put {name} ({} bytes)", bytes.len()),
            Self::Append { name, bytes } => write!(f, "append {} bytes to {name}", bytes.len()),
            Self::Rename { from, to } => write!(f, "rename {from} to {to}"),
            Self::Remove { name } => write!(f, "remove {name}"),
        }
    }
}

impl Step {
    /// Does it.
    pub fn run(&self, store: &dyn Store, before: &Blobs) -> bonfire::Result<()> {
        match self {
            Self::Put { name, bytes } => {
                store.put(name, Payload::from(bytes.clone()), Precondition::None).wait().map(drop)
            }
            Self::Append { name, bytes } => {
                let len = before.get(name).map_or(0, Vec::len) as u64;
                store.append(name, len, Payload::from(bytes.clone())).wait().map(drop)
            }
            Self::Rename { from, to } => store.rename(from, to).wait(),
            Self::Remove { name } => store.remove(name).wait().map(drop),
        }
    }

    /// What is there afterwards.
    pub fn after(&self, before: &Blobs) -> Blobs {
        let mut blobs = before.clone();
        match self {
            Self::Put { name, bytes } => {
                blobs.insert(name.clone(), bytes.clone());
            }
            Self::Append { name, bytes } => blobs.entry(name.clone()).or_default().extend_from_slice(bytes),
            Self::Rename { from, to } => {
                let blob = blobs.remove(from).unwrap_or_default();
                blobs.insert(to.clone(), blob);
            }
            Self::Remove { name } => {
                blobs.remove(name);
            }
        }
        blobs
    }
}

/// Where writes begin and end in other places of a sector.
const LENS: [usize; 10] = [0, 1, 100, 511, 512, 513, 1024, 1500, 2600, 4097];

/// Any step that makes sense with these blobs. No two steps of a sequence put the same bytes.
pub fn random_step(random: &mut Random, names: &[&str], blobs: &Blobs) -> Step {
    let name = (*random.pick(names)).to_owned();
    let len = *random.pick(&LENS);
    let bytes = random.bytes(len);
    let is_there = blobs.contains_key(&name);
    let free: Vec<&&str> = names.iter().filter(|name| !blobs.contains_key(**name)).collect();
    match random.below(10) {
        0 | 1 if is_there => Step::Remove { name },
        2 | 3 if is_there && !free.is_empty() => {
            Step::Rename { from: name, to: (**random.pick(&free)).to_owned() }
        }
        4 | 5 => Step::Append { name, bytes },
        _ => Step::Put { name, bytes },
    }
}

/// What must be there after a crash: all blobs as they were when the last call returned, or what the call that was
/// under way, if there was one, may make of them.
pub struct Promise<'s> {
    /// What is there for certain.
    pub acknowledged: &'s Blobs,
    /// What was being done.
    pub in_flight: Option<&'s Step>,
}

impl Promise<'_> {
    /// Says what is wrong, if these blobs are not allowed.
    pub fn check(&self, found: &Blobs) -> Result<(), String> {
        let after = self.in_flight.map(|step| step.after(self.acknowledged));
        let names = found.keys().chain(self.acknowledged.keys());
        for name in names.chain(after.iter().flat_map(BTreeMap::keys)) {
            let (old, found) = (self.acknowledged.get(name), found.get(name));
            let is_new = after.as_ref().is_some_and(|after| after.get(name) == found);
            if found != old && !is_new && !self.is_part_of_an_append(name, found) {
                return Err(format!("`{name}` is neither old nor new: {}", describe(old, found)));
            }
        }
        match self.in_flight {
            Some(Step::Rename { from, to }) if !found.contains_key(from) && !found.contains_key(to) => {
                Err(format!("`{from}` has vanished on its way to `{to}`"))
            }
            Some(Step::Rename { from, to }) if found.contains_key(from) && found.contains_key(to) => {
                Err(format!("`{from}` has a second name, `{to}`"))
            }
            _ => Ok(()),
        }
    }

    /// What was there before an append is whole; what follows may be anything, as the docs of `append` say.
    fn is_part_of_an_append(&self, name: &str, found: Option<&Vec<u8>>) -> bool {
        let Some(Step::Append { name: appended, bytes }) = self.in_flight else { return false };
        let old = self.acknowledged.get(name).map_or(&[][..], Vec::as_slice);
        let fits = |found: &Vec<u8>| found.starts_with(old) && found.len() <= old.len() + bytes.len();
        appended == name && found.is_some_and(fits)
    }
}

fn describe(old: Option<&Vec<u8>>, found: Option<&Vec<u8>>) -> String {
    let (Some(old), Some(found)) = (old, found) else {
        let text =
            |blob: Option<&Vec<u8>>| blob.map_or("none".into(), |blob| format!("{} bytes", blob.len()));
        return format!("{} acknowledged, {} found", text(old), text(found));
    };
    let differs = old.iter().zip(found).position(|(old, found)| old != found);
    let differs = differs.unwrap_or(old.len().min(found.len()));
    format!("{} bytes acknowledged, {} found, different from byte {differs}", old.len(), found.len())
}

/// All blobs of a store.
pub fn all_blobs(store: &dyn Store) -> Result<Blobs, String> {
    let text = |error: bonfire::Error| error.to_string();
    let names = store.list("").wait().map_err(text)?;
    let read = |name: String| {
        let bytes = store.get(&name).wait().map_err(text)?.to_vec();
        Ok((name, bytes))
    };
    names.into_iter().map(read).collect()
}

/// It is an error if anything but blobs and locks lies on the disk of a store.
pub fn litter(store: &dyn Store, disk: &dyn Disk) -> Result<(), String> {
    let blobs = store.list("").wait().map_err(|error| error.to_string())?;
    let files = disk.list().map_err(|error| error.to_string())?;
    match files.iter().find(|file| !blobs.contains(file) && !file.ends_with("-lock")) {
        Some(litter) => Err(format!("`{litter}` is neither a blob nor a lock")),
        None => Ok(()),
    }
}

/// All blobs of a store that lies on `disk`, where nothing else may lie.
pub fn blobs_of(store: &dyn Store, disk: &dyn Disk) -> Result<Blobs, String> {
    litter(store, disk)?;
    all_blobs(store)
}

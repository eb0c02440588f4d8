//! What names and files went through since their last sync: the recorded operations, played back to a point.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::crash::{Change, Operation};

/// The sector of a disk: what is written independently of the rest.
pub(super) const SECTOR_BYTES: usize = 512;

/// Every point at which a recorded disk can crash, in order.
pub struct CrashPoints {
    point: CrashPoint,
    operations: std::vec::IntoIter<Operation>,
    started: bool,
}

impl CrashPoints {
    pub(super) fn new(start: &[(String, Arc<Vec<u8>>)], operations: Vec<Operation>) -> Self {
        let mut point = CrashPoint::default();
        for (file, (name, bytes)) in start.iter().enumerate() {
            let index = point.name(name);
            point.names[index].bindings = vec![Binding { file: Some(file), needs: None }];
            point.files.push(File { durable: bytes.clone(), was_synced: true, changes: Vec::new() });
        }
        Self { point, operations: operations.into_iter(), started: false }
    }
}

impl Iterator for CrashPoints {
    type Item = CrashPoint;

    fn next(&mut self) -> Option<CrashPoint> {
        if self.started {
            self.point.apply(self.operations.next()?);
        }
        self.started = true;
        Some(self.point.clone())
    }
}

/// A point at which a disk can crash.
#[derive(Clone, Default)]
pub struct CrashPoint {
    after: usize,
    last: Option<Operation>,
    indices: HashMap<String, usize>,
    pub(super) names: Vec<Name>,
    pub(super) files: Vec<File>,
}

/// All that a name meant since the directory was synced, the durable meaning first.
#[derive(Clone)]
pub(super) struct Name {
    pub(super) name: Arc<str>,
    pub(super) bindings: Vec<Binding>,
}

/// What a name means.
#[derive(Clone, Copy)]
pub(super) struct Binding {
    pub(super) file: Option<usize>,
    /// The name was renamed away: this meaning or a later one is seen only where that name has that meaning or a later
    /// one.
    pub(super) needs: Option<(usize, usize)>,
}

/// What is durable of a file, and what happened to it since.
#[derive(Clone)]
pub(super) struct File {
    pub(super) durable: Arc<Vec<u8>>,
    pub(super) was_synced: bool,
    pub(super) changes: Vec<Change>,
}

impl CrashPoint {
    /// How many operations were done before the crash.
    pub fn after(&self) -> usize {
        self.after
    }

    /// The last of them.
    pub fn last(&self) -> Option<&Operation> {
        self.last.as_ref()
    }

    /// The number of a name: names are numbered as they appear, so that samples do not depend on what they are called.
    fn name(&mut self, name: &str) -> usize {
        if let Some(&index) = self.indices.get(name) {
            return index;
        }
        self.names.push(Name { name: name.into(), bindings: vec![Binding { file: None, needs: None }] });
        self.indices.insert(name.to_owned(), self.names.len() - 1);
        self.names.len() - 1
    }

    fn bind(&mut self, name: usize, file: Option<usize>, needs: Option<(usize, usize)>) {
        self.names[name].bindings.push(Binding { file, needs });
    }

    fn apply(&mut self, operation: Operation) {
        match &operation {
            Operation::Create { name, file } => {
                debug_assert_eq!(*file, self.files.len());
                self.files.push(File { durable: Arc::default(), was_synced: false, changes: Vec::new() });
                let name = self.name(name);
                self.bind(name, Some(*file), None);
            }
            Operation::Write { file, offset, bytes } => {
                self.files[*file].changes.push(Change::Write { offset: *offset, bytes: bytes.clone() });
            }
            Operation::SetLen { file, len } => self.files[*file].changes.push(Change::SetLen(*len)),
            Operation::Sync { file } => self.files[*file].sync(),
            Operation::SyncFailed { file } => self.files[*file].changes.clear(),
            Operation::Rename { from, to } => {
                let (from, to) = (self.name(from), self.name(to));
                let file = self.names[from].bindings.last().and_then(|binding| binding.file);
                self.bind(to, file, None);
                let needs = (to, self.names[to].bindings.len() - 1);
                self.bind(from, None, Some(needs));
            }
            Operation::Remove { name } => {
                let name = self.name(name);
                self.bind(name, None, None);
            }
            Operation::SyncDir => {
                for name in &mut self.names {
                    let last = name.bindings.last().and_then(|binding| binding.file);
                    name.bindings = vec![Binding { file: last, needs: None }];
                }
            }
        }
        self.after += 1;
        self.last = Some(operation);
    }
}

impl File {
    fn sync(&mut self) {
        self.was_synced = true;
        if !self.changes.is_empty() {
            let bytes = Arc::make_mut(&mut self.durable);
            self.changes.drain(..).for_each(|change| change.apply(bytes));
        }
    }

    /// All lengths since the last sync, and all states of the sectors that were changed since.
    pub(super) fn since_sync(&self) -> (Vec<usize>, Vec<Sector>) {
        let mut bytes = self.durable.to_vec();
        let mut lens = vec![bytes.len()];
        let mut sectors: BTreeMap<usize, Sector> = BTreeMap::new();
        for change in &self.changes {
            let before = bytes.len();
            let touched = match change {
                Change::Write { bytes, .. } if bytes.is_empty() => continue,
                Change::Write { offset, bytes } => *offset..offset + bytes.len(),
                Change::SetLen(len) => before.min(*len)..before.max(*len),
            };
            let numbers = touched.start / SECTOR_BYTES..touched.end.div_ceil(SECTOR_BYTES);
            for number in numbers.clone() {
                sectors.entry(number).or_insert_with(|| Sector {
                    number,
                    states: vec![sector_of(&bytes, number)],
                    was_durable: number * SECTOR_BYTES < self.durable.len(),
                });
            }
            change.apply(&mut bytes);
            for (number, sector) in sectors.range_mut(numbers) {
                sector.states.push(sector_of(&bytes, *number));
                let states = sector.states.len();
                if sector.states[states - 1] == sector.states[states - 2] {
                    sector.states.pop();
                }
            }
            if lens.last() != Some(&bytes.len()) {
                lens.push(bytes.len());
            }
        }
        sectors.retain(|_, sector| sector.states.len() > 1 || !sector.was_durable);
        (lens, sectors.into_values().collect())
    }
}

/// The states of a sector since the last sync, the durable one first.
pub(super) struct Sector {
    pub(super) number: usize,
    pub(super) states: Vec<[u8; SECTOR_BYTES]>,
    pub(super) was_durable: bool,
}

/// A sector of a file, with zeros behind its end.
fn sector_of(bytes: &[u8], number: usize) -> [u8; SECTOR_BYTES] {
    let mut sector = [0; SECTOR_BYTES];
    let start = (number * SECTOR_BYTES).min(bytes.len());
    let here = &bytes[start..bytes.len().min(start + SECTOR_BYTES)];
    sector[..here.len()].copy_from_slice(here);
    sector
}

//! The states that a crash may leave: all of them where they are few, a sample where they are many.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use bonfire_store::disk::MemoryDisk;

use super::crash::CrashDisk;
use super::history::{CrashPoint, File, Name, SECTOR_BYTES, Sector};
use super::random::Random;

/// Hands out the states that crashes may leave, and counts those that differ. The same seed gives the same states.
pub struct Explorer {
    random: Random,
    seen: HashSet<u64>,
    handed_out: u64,
}

/// What is on the disk after a crash.
pub struct CrashState {
    files: Vec<(Arc<str>, Arc<Vec<u8>>)>,
    fingerprint: u64,
}

impl CrashState {
    /// The files, which are all durable now.
    pub fn files(&self) -> impl Iterator<Item = (String, Vec<u8>)> {
        self.files.iter().map(|(name, bytes)| (name.to_string(), bytes.to_vec()))
    }

    /// A number that states with the same files have in common, and hardly any others.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// A disk with these files.
    pub fn disk(&self) -> MemoryDisk {
        MemoryDisk::with_files(self.files())
    }

    /// A disk with these files that can crash again.
    pub fn crash_disk(&self) -> CrashDisk {
        CrashDisk::with_files(self.files())
    }
}

impl Explorer {
    /// The explorer of this seed.
    pub fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), seen: HashSet::new(), handed_out: 0 }
    }

    /// How many states of all that were handed out differ in a name or a byte.
    pub fn distinct(&self) -> usize {
        self.seen.len()
    }

    /// How many states were handed out: the same state at two points, with different promises, counts twice.
    pub fn handed_out(&self) -> u64 {
        self.handed_out
    }

    /// Up to `limit` states that a crash at this point may leave, each once: all, if there are no more.
    pub fn states(&mut self, point: &CrashPoint, limit: usize) -> Vec<CrashState> {
        let choices = Choices::at(point);
        let mut states = Vec::new();
        let mut here = HashSet::new();
        let mut keep = |state: Option<CrashState>| {
            states.extend(state.filter(|state| here.insert(state.fingerprint)));
            states.len()
        };
        if choices.combinations() <= limit {
            let mut digits = vec![0; choices.radices.len()];
            loop {
                keep(choices.state(&digits, None));
                if !choices.advance(&mut digits) {
                    break;
                }
            }
        } else {
            // As many states as asked for, unless chance gives the same ones again and again.
            for attempt in 0..limit * 2 {
                let digits = choices.sample(attempt, &mut self.random);
                if keep(choices.state(&digits, Some(self.random.number()))) >= limit {
                    break;
                }
            }
        }
        self.seen.extend(here);
        self.handed_out += states.len() as u64;
        states
    }
}

/// All that a crash decides: one digit for each name, then for each file whether it is there, its length, and its
/// sectors.
struct Choices<'p> {
    names: &'p [Name],
    files: Vec<FileChoices<'p>>,
    radices: Vec<usize>,
    /// The digits of a crash that loses nothing.
    newest: Vec<usize>,
}

struct FileChoices<'p> {
    number: usize,
    file: &'p File,
    lens: Vec<usize>,
    sectors: Vec<Sector>,
}

impl<'p> Choices<'p> {
    fn at(point: &'p CrashPoint) -> Self {
        let mut choices =
            Self { names: &point.names, files: Vec::new(), radices: Vec::new(), newest: Vec::new() };
        let mut named = HashSet::new();
        for name in &point.names {
            choices.push(name.bindings.len(), name.bindings.len() - 1);
            named.extend(name.bindings.iter().filter_map(|binding| binding.file));
        }
        for (number, file) in point.files.iter().enumerate().filter(|(number, _)| named.contains(number)) {
            let (lens, sectors) = file.since_sync();
            if file.was_synced {
                choices.push(1, 0);
            } else {
                choices.push(2, 1);
            }
            choices.push(lens.len(), lens.len() - 1);
            for sector in &sectors {
                choices.push(sector.choices(), sector.states.len() - 1);
            }
            choices.files.push(FileChoices { number, file, lens, sectors });
        }
        choices
    }

    fn push(&mut self, radix: usize, newest: usize) {
        self.radices.push(radix);
        self.newest.push(newest);
    }

    fn combinations(&self) -> usize {
        self.radices.iter().fold(1, |all: usize, &radix| all.saturating_mul(radix))
    }

    /// The next digits, or false after the last.
    fn advance(&self, digits: &mut [usize]) -> bool {
        for (digit, &radix) in digits.iter_mut().zip(&self.radices) {
            *digit += 1;
            if *digit < radix {
                return true;
            }
            *digit = 0;
        }
        false
    }

    /// First the crash that loses nothing and the one that loses all, then some that lose one thing or keep one thing,
    /// then any.
    fn sample(&self, attempt: usize, random: &mut Random) -> Vec<usize> {
        let any = |random: &mut Random, index: usize| random.below(self.radices[index]);
        let len = self.radices.len();
        let mut digits = match attempt {
            0 => self.newest.clone(),
            1 => vec![0; len],
            _ => {
                let newest_percent = *random.pick(&[0, 10, 50, 90, 100]);
                let mut digits: Vec<usize> =
                    (0..len)
                        .map(|index| {
                            if random.chance(newest_percent) {
                                self.newest[index]
                            } else {
                                any(random, index)
                            }
                        })
                        .collect();
                if attempt % 4 == 2 {
                    digits = if random.chance(50) { self.newest.clone() } else { vec![0; len] };
                }
                // Something that has a choice.
                let open: Vec<usize> = (0..len).filter(|&index| self.radices[index] > 1).collect();
                let index = *random.pick(&open);
                digits[index] = any(random, index);
                digits
            }
        };
        self.complete_renames(&mut digits);
        digits
    }

    /// Where an old name is gone, the new one is there.
    fn complete_renames(&self, digits: &mut [usize]) {
        while let Some((name, binding)) = self.half_rename(digits) {
            digits[name] = binding;
        }
    }

    /// A name that a rename needs to be further than it is, and how far.
    fn half_rename(&self, digits: &[usize]) -> Option<(usize, usize)> {
        self.names
            .iter()
            .zip(digits)
            .flat_map(|(name, &digit)| &name.bindings[..=digit])
            .filter_map(|binding| binding.needs)
            .find(|&(name, binding)| digits[name] < binding)
    }

    /// The state of these digits, if a crash can leave it. `tear` decides where sectors are torn; in the middle without.
    fn state(&self, digits: &[usize], tear: Option<u64>) -> Option<CrashState> {
        if self.half_rename(digits).is_some() {
            return None;
        }
        let (names, mut rest) = digits.split_at(self.names.len());
        let mut contents: Vec<(usize, Option<Arc<Vec<u8>>>)> = Vec::with_capacity(self.files.len());
        for choices in &self.files {
            let (here, behind) = rest.split_at(2 + choices.sectors.len());
            rest = behind;
            let is_there = choices.file.was_synced || here[0] == 1;
            let bytes = is_there.then(|| choices.bytes(here[1], &here[2..], tear));
            contents.push((choices.number, bytes));
        }
        let mut files = Vec::new();
        for (name, &digit) in self.names.iter().zip(names) {
            let Some(file) = name.bindings[digit].file else { continue };
            let found = contents.iter().find(|(number, _)| *number == file);
            if let Some((_, Some(bytes))) = found {
                files.push((name.name.clone(), bytes.clone()));
            }
        }
        // The order in which names appeared says nothing about the disk.
        let fingerprint = files.iter().fold(0, |all: u64, file| {
            let mut hasher = DefaultHasher::new();
            file.hash(&mut hasher);
            all.wrapping_add(hasher.finish())
        });
        Some(CrashState { files, fingerprint })
    }
}

impl FileChoices<'_> {
    fn bytes(&self, len: usize, digits: &[usize], tear: Option<u64>) -> Arc<Vec<u8>> {
        let len = self.lens[len];
        if self.sectors.is_empty() && len == self.file.durable.len() {
            return self.file.durable.clone();
        }
        let mut bytes = self.file.durable.to_vec();
        bytes.resize(len, 0);
        for (sector, &digit) in self.sectors.iter().zip(digits) {
            let start = sector.number * SECTOR_BYTES;
            let end = len.min(start + SECTOR_BYTES);
            if start < end {
                let chosen = sector.choice(digit, tear.map(|tear| tear.wrapping_add(sector.number as u64)));
                bytes[start..end].copy_from_slice(&chosen[..end - start]);
            }
        }
        Arc::new(bytes)
    }
}

/// What is in sectors that another file had before.
const STALE: u8 = 0xA5;

impl Sector {
    /// Its states, two ways to tear each into the next, and what another file left there.
    fn choices(&self) -> usize {
        self.states.len() + 2 * (self.states.len() - 1) + usize::from(!self.was_durable)
    }

    fn choice(&self, digit: usize, tear: Option<u64>) -> [u8; SECTOR_BYTES] {
        if let Some(state) = self.states.get(digit) {
            return *state;
        }
        let torn = digit - self.states.len();
        let Some([before, after]) = self.states.windows(2).nth(torn / 2).map(|pair| [pair[0], pair[1]])
        else {
            return [STALE; SECTOR_BYTES];
        };
        let (mut first, second) = if torn.is_multiple_of(2) { (before, after) } else { (after, before) };
        // The tear goes through bytes that differ, or it would not be seen.
        let differs = |index: &usize| before[*index] != after[*index];
        let start = (0..SECTOR_BYTES).find(differs).unwrap_or(0);
        let end = (0..SECTOR_BYTES).rev().find(differs).unwrap_or(0) + 1;
        let cut = match tear {
            Some(tear) => start + Random::new(tear).below(end - start),
            None => start.midpoint(end),
        };
        first[cut..].copy_from_slice(&second[cut..]);
        first
    }
}

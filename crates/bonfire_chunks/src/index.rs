//! Where frames are, in memory: a vector that is sorted as far as it was at the last rebuild, and a hash table of numbers into it.
//! A million chunks take 43 MB.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use crate::format::FramePlace;
use crate::{ChunkPos, ChunkRect};

#[derive(Clone, Debug)]
struct Slot {
    pos: ChunkPos,
    /// Nowhere, if it was removed.
    place: FramePlace,
}

/// The frames of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    slots: Vec<Slot>,
    numbers: HashTable<u32>,
    /// So many slots at the start are in order. They include removed ones.
    sorted: usize,
    /// Of the hashes.
    seed: u64,
    frame_bytes: u64,
}

impl Default for Index {
    fn default() -> Self {
        // A hostile file cannot know which places collide.
        let seed = RandomState::new().hash_one(0u8);
        Self { slots: Vec::new(), numbers: HashTable::new(), sorted: 0, seed, frame_bytes: 0 }
    }
}

fn hash(seed: u64, pos: ChunkPos) -> u64 {
    let plane = u64::from(pos.x.cast_unsigned()) | u64::from(pos.y.cast_unsigned()) << 32;
    let depth = u64::from(pos.z.cast_unsigned()) | u64::from(pos.dimension) << 32;
    let both = plane ^ depth.wrapping_mul(0xC2B2_AE3D_27D4_EB4F).rotate_left(29);
    let product = u128::from(both ^ seed) * u128::from(0x9E37_79B9_7F4A_7C15_u64);
    let (low, high) = (product as u64, (product >> 64) as u64);
    (low ^ high).wrapping_mul(0xD6E8_FEB8_6659_FD93).rotate_left(31)
}

impl Index {
    /// The index of places in order, each once.
    pub(crate) fn from_sorted(places: impl ExactSizeIterator<Item = (ChunkPos, FramePlace)>) -> Self {
        let mut index = Self::default();
        index.slots.reserve_exact(places.len());
        for (pos, place) in places {
            debug_assert!(index.slots.last().is_none_or(|last| last.pos < pos));
            index.frame_bytes += place.frame_bytes();
            index.slots.push(Slot { pos, place });
        }
        index.sorted = index.slots.len();
        index.fill_numbers();
        index
    }

    fn fill_numbers(&mut self) {
        let Self { slots, numbers, seed, .. } = self;
        *numbers = HashTable::with_capacity(slots.len());
        for (number, slot) in slots.iter().enumerate() {
            let number =
                u32::try_from(number).unwrap_or_else(|_| unreachable!("a table has fewer than 2^32 entries"));
            // They are known to differ.
            numbers.insert_unique(hash(*seed, slot.pos), number, |&number| {
                hash(*seed, slots[number as usize].pos)
            });
        }
    }

    fn number(&self, pos: ChunkPos) -> Option<u32> {
        self.numbers.find(hash(self.seed, pos), |&number| self.slots[number as usize].pos == pos).copied()
    }

    /// The slot of a place, as far as slots are those of the page table.
    pub(crate) fn slot(&self, pos: ChunkPos) -> Option<u32> {
        self.number(pos)
    }

    /// The places of some slots of a page table.
    pub(crate) fn slots(
        &self,
        slots: std::ops::RangeInclusive<u32>,
    ) -> impl ExactSizeIterator<Item = (ChunkPos, FramePlace)> {
        let slots = *slots.start() as usize..(*slots.end() as usize + 1).min(self.slots.len());
        self.slots[slots].iter().map(|slot| (slot.pos, slot.place))
    }

    pub(crate) fn get(&self, pos: ChunkPos) -> Option<FramePlace> {
        Some(self.slots[self.number(pos)? as usize].place)
    }

    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Bytes of all frames.
    pub(crate) fn frame_bytes(&self) -> u64 {
        self.frame_bytes
    }

    /// Whether a place is new or gone since the last [`sort`](Self::sort).
    pub(crate) fn is_sorted(&self) -> bool {
        self.sorted == self.slots.len() && self.numbers.len() == self.slots.len()
    }

    /// Returns what was there.
    pub(crate) fn set(&mut self, pos: ChunkPos, place: FramePlace) -> Option<FramePlace> {
        if let Some(number) = self.number(pos) {
            let slot = &mut self.slots[number as usize];
            let before = std::mem::replace(&mut slot.place, place);
            self.frame_bytes = self.frame_bytes - before.frame_bytes() + place.frame_bytes();
            return Some(before);
        }
        let number = u32::try_from(self.slots.len())
            .unwrap_or_else(|_| unreachable!("a commit checks how many there are"));
        self.frame_bytes += place.frame_bytes();
        self.slots.push(Slot { pos, place });
        let Self { slots, numbers, seed, .. } = self;
        numbers.insert_unique(hash(*seed, pos), number, |&number| hash(*seed, slots[number as usize].pos));
        None
    }

    /// Returns what was there.
    pub(crate) fn remove(&mut self, pos: ChunkPos) -> Option<FramePlace> {
        let (seed, slots) = (self.seed, &self.slots);
        let found =
            self.numbers.find_entry(hash(seed, pos), |&number| slots[number as usize].pos == pos).ok()?;
        let (number, _) = found.remove();
        let place = std::mem::replace(&mut self.slots[number as usize].place, FramePlace::NOWHERE);
        self.frame_bytes -= place.frame_bytes();
        Some(place)
    }

    /// Puts all in order, so that slots are those of a page table which is written now.
    pub(crate) fn sort(&mut self) {
        if self.is_sorted() {
            return;
        }
        self.slots.retain(|slot| !slot.place.is_nowhere());
        // Mostly in order already, which this sort makes use of.
        self.slots.sort_by_key(|slot| slot.pos);
        self.sorted = self.slots.len();
        self.fill_numbers();
    }

    /// All, in order if it [is sorted](Self::is_sorted).
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ChunkPos, FramePlace)> {
        self.slots.iter().filter(|slot| !slot.place.is_nowhere()).map(|slot| (slot.pos, slot.place))
    }

    /// All that lie in a rectangle, in order.
    pub(crate) fn range(&self, rect: &ChunkRect) -> Vec<(ChunkPos, FramePlace)> {
        let mut found = Vec::new();
        if rect.area() <= self.slots.len() as u128 / 8 {
            found.extend(rect.iter().filter_map(|pos| Some((pos, self.get(pos)?))));
            return found;
        }
        let (sorted, young) = self.slots.split_at(self.sorted);
        let first = sorted.partition_point(|slot| slot.pos < rect.min());
        let behind = sorted.partition_point(|slot| slot.pos <= rect.max());
        let here = |slot: &&Slot| rect.contains(slot.pos) && !slot.place.is_nowhere();
        found.extend(sorted[first..behind].iter().filter(here).map(|slot| (slot.pos, slot.place)));
        let in_order = found.len();
        found.extend(young.iter().filter(here).map(|slot| (slot.pos, slot.place)));
        if found.len() > in_order {
            found.sort_unstable_by_key(|(pos, _)| *pos);
        }
        found
    }

    /// Bytes of memory, as far as they grow with the number of places.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>() + self.numbers.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bonfire_testkit::disk::Random;

    use super::*;
    use crate::format::FrameTag;

    fn place(offset: u64) -> FramePlace {
        FramePlace { offset, len: offset as u32 % 100, tag: FrameTag::default() }
    }

    #[test]
    fn it_is_a_map_in_any_order_of_calls() {
        let mut random = Random::new(1);
        let random_pos = |random: &mut Random| {
            let mut along = || random.below(6) as i32 - 3;
            ChunkPos::new_3d(along(), along(), along() / 2).in_dimension(random.below(3) as u32 / 2)
        };
        for _ in 0..200 {
            let start: BTreeMap<ChunkPos, FramePlace> = (0..random.below(30))
                .map(|_| (random_pos(&mut random), place(random.number() >> 8 | 1)))
                .collect();
            let mut model = start.clone();
            let mut index = Index::from_sorted(start.into_iter().collect::<Vec<_>>().into_iter());
            for _ in 0..100 {
                let pos = random_pos(&mut random);
                match random.below(5) {
                    0 => assert_eq!(index.remove(pos), model.remove(&pos)),
                    1 => index.sort(),
                    2 => {
                        let other = random_pos(&mut random);
                        let rect = ChunkRect::new(pos, other);
                        let expected: Vec<_> = model
                            .iter()
                            .filter(|(pos, _)| rect.contains(**pos))
                            .map(|(p, q)| (*p, *q))
                            .collect();
                        assert_eq!(index.range(&rect), expected);
                    }
                    _ => {
                        let place = place(random.number() >> 8 | 1);
                        assert_eq!(index.set(pos, place), model.insert(pos, place));
                    }
                }
                assert_eq!((index.len(), index.get(pos)), (model.len(), model.get(&pos).copied()));
                assert_eq!(index.frame_bytes(), model.values().map(FramePlace::frame_bytes).sum::<u64>());
            }
            index.sort();
            assert!(index.iter().eq(model.iter().map(|(pos, place)| (*pos, *place))));
            for (number, (pos, _)) in model.iter().enumerate() {
                assert_eq!(index.slot(*pos), Some(number as u32));
            }
        }
    }

    #[test]
    fn a_chunk_takes_43_bytes() {
        let index = Index::from_sorted(
            (0..100_000)
                .map(|n| (ChunkPos::new(n % 1000, n / 1000), place(64)))
                .collect::<Vec<_>>()
                .into_iter(),
        );
        assert!(index.memory_bytes() <= 100_000 * 43, "{} bytes", index.memory_bytes());
    }
}

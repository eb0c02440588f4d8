//! Damaged entries of a page table whose place is certain all the same.

use super::layout::Entry;
use crate::ChunkPos;

/// More damaged entries than this are not looked at: it is no table then.
pub(super) const REPAIRS_MAX: usize = 4096;

/// The entries that a damaged one lies between in a sorted table, and how far away they are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NeighbourEntries {
    /// The last one in front that is sound, and how many slots in front.
    pub(super) before: Option<(ChunkPos, usize)>,
    /// The next one that is sound, and how many slots behind.
    pub(super) after: Option<(ChunkPos, usize)>,
}

impl NeighbourEntries {
    /// The neighbours of one slot of a table.
    pub(super) fn of(slots: &[Option<Entry>], slot: usize) -> Self {
        let sound = |(distance, entry): (usize, &Option<Entry>)| entry.map(|entry| (entry.pos, distance + 1));
        let (before, after) = (&slots[..slot], &slots[slot + 1..]);
        Self {
            before: before.iter().rev().enumerate().find_map(sound),
            after: after.iter().enumerate().find_map(sound),
        }
    }

    fn contain(&self, pos: ChunkPos) -> bool {
        self.before.is_none_or(|(before, _)| before < pos) && self.after.is_none_or(|(after, _)| pos < after)
    }

    /// The place, if there are exactly as many between the neighbours as slots.
    fn only_place(&self) -> Option<ChunkPos> {
        let ((before, behind), (after, ahead)) = (self.before?, self.after?);
        let slots = u32::try_from(behind + ahead).ok()?;
        let fits = before.y == after.y && before.x < after.x && after.x.abs_diff(before.x) == slots;
        let x = before.x.checked_add_unsigned(u32::try_from(behind).ok()?)?;
        fits.then_some(ChunkPos::new(x, before.y))
    }
}

/// What a damaged entry was, if only one answer is possible. `fits` tells whether an entry points exactly at a payload that
/// nobody else has, and whether its place is free.
pub(super) fn certain(
    bytes: &[u8; 24],
    around: NeighbourEntries,
    fits: impl Fn(&Entry) -> bool,
) -> Option<Entry> {
    if let (Some(pos), Some(entry)) = (around.only_place(), Entry::parse_unchecked(bytes)) {
        let entry = Entry { pos, ..entry };
        if fits(&entry) {
            return Some(entry);
        }
    }
    let mut answer = None;
    for at in 0..bytes.len() {
        for flip in 1..=u8::MAX {
            let mut changed = *bytes;
            changed[at] ^= flip;
            let entry = Entry::parse(&changed).filter(|entry| around.contain(entry.pos) && fits(entry));
            match (entry, answer) {
                (Some(entry), Some(other)) if entry != other => return None,
                (Some(_), _) => answer = entry,
                (None, _) => {}
            }
        }
    }
    answer
}

/// Entries that are not in the order of a table, though their checksums hold: those that leave a sorted table when they are
/// taken out. `None` if the table is not sorted even then.
pub(super) fn out_of_order(slots: &[Option<Entry>]) -> Option<Vec<usize>> {
    let mut sound: Vec<(usize, ChunkPos)> =
        slots.iter().enumerate().filter_map(|(slot, entry)| Some((slot, (*entry)?.pos))).collect();
    let mut outliers = Vec::new();
    let mut at = 1;
    while at < sound.len() {
        let (before, here, after) = (sound[at - 1].1, sound[at].1, sound.get(at + 1).map(|next| next.1));
        if before < here {
            at += 1;
            continue;
        }
        // One of both is wrong: this one if the next fits to the one before, that one if it does not fit to its own.
        let here_is_wrong = after.is_none_or(|after| before < after);
        let before_is_wrong = at.checked_sub(2).is_none_or(|second| sound[second].1 < here);
        match (here_is_wrong, before_is_wrong) {
            (true, false) => outliers.push(sound.remove(at).0),
            (false, true) => {
                outliers.push(sound.remove(at - 1).0);
                at = at.saturating_sub(1).max(1);
            }
            // Either could be: neither can be believed.
            (true, true) => {
                outliers.push(sound.remove(at).0);
                outliers.push(sound.remove(at - 1).0);
                at = at.saturating_sub(1).max(1);
            }
            (false, false) => return None,
        }
    }
    Some(outliers)
}

#[cfg(test)]
mod tests {
    use super::super::PixelStorage;
    use super::*;
    use crate::format::crc8;

    fn entry(x: i32, y: i32) -> Entry {
        Entry { pos: ChunkPos::new(x, y), offset: 1000, len: 50, storage: PixelStorage::Delta }
    }

    fn bytes(entry: Entry) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..4].copy_from_slice(&entry.pos.x.to_le_bytes());
        bytes[4..8].copy_from_slice(&entry.pos.y.to_le_bytes());
        bytes[8..16].copy_from_slice(&entry.offset.to_le_bytes());
        bytes[16..20].copy_from_slice(&entry.len.to_le_bytes());
        bytes[20] = 1;
        bytes[21] = crc8(&bytes[..21]);
        bytes
    }

    fn between(before: (i32, i32), after: (i32, i32)) -> NeighbourEntries {
        NeighbourEntries { before: Some((before.into(), 1)), after: Some((after.into(), 1)) }
    }

    fn points_there(entry: &Entry) -> bool {
        (entry.offset, entry.len, entry.storage) == (1000, 50, PixelStorage::Delta)
    }

    #[test]
    fn any_single_byte_between_close_neighbours_is_repaired() {
        for (at, flip) in (0..24).flat_map(|at| [1_u8, 0x40, 0xFF].map(|flip| (at, flip))) {
            let mut bytes = bytes(entry(1, -1));
            bytes[at] ^= flip;
            let repaired = certain(&bytes, between((0, -1), (2, -1)), points_there);
            assert_eq!(repaired, Some(entry(1, -1)), "byte {at}");
        }
    }

    #[test]
    fn of_all_repairs_of_one_byte_the_one_between_the_neighbours_counts() {
        let mut bytes = bytes(entry(4, -1));
        bytes[1] ^= 0x20;
        assert_eq!(certain(&bytes, between((0, -1), (9, -1)), points_there), Some(entry(4, -1)));
        assert_eq!(certain(&bytes, between((0, -1), (3, -1)), points_there), None);
    }

    #[test]
    fn a_place_that_could_be_another_is_not_repaired() {
        let mut bytes = bytes(entry(1, -1));
        bytes[0] ^= 1;
        assert_eq!(certain(&bytes, NeighbourEntries::default(), points_there), None);
        // A pointer that is wrong has one repair, wherever the chunk is.
        bytes[0] ^= 1;
        bytes[9] ^= 1;
        assert_eq!(certain(&bytes, NeighbourEntries::default(), points_there), Some(entry(1, -1)));
        assert_eq!(certain(&bytes, NeighbourEntries::default(), |_| false), None);
    }

    #[test]
    fn as_many_places_as_slots_leave_no_choice() {
        let slots = [Some(entry(0, 4)), None, None, Some(entry(3, 4))];
        let mut wrecked = bytes(entry(1, 4));
        wrecked[..8].copy_from_slice(&[0xAA; 8]);
        assert_eq!(certain(&wrecked, NeighbourEntries::of(&slots, 1), points_there), Some(entry(1, 4)));
        assert_eq!(certain(&wrecked, NeighbourEntries::of(&slots, 2), points_there), Some(entry(2, 4)));
        let slots = [Some(entry(0, 4)), None, Some(entry(3, 4))];
        assert_eq!(certain(&wrecked, NeighbourEntries::of(&slots, 1), points_there), None);
    }

    #[test]
    fn the_entry_that_breaks_the_order_is_named() {
        let order = |xs: &[i32]| out_of_order(&xs.iter().map(|x| Some(entry(*x, 0))).collect::<Vec<_>>());
        assert_eq!(order(&[1, 2, 3]), Some(vec![]));
        assert_eq!(order(&[1, 9, 3, 4]), Some(vec![1]));
        assert_eq!(order(&[1, 2, -3, 4]), Some(vec![2]));
        assert_eq!(order(&[1, 2, 3, 0]), Some(vec![3]));
        assert_eq!(order(&[1, 1]), Some(vec![1, 0]));
        assert_eq!(order(&[5, 6, 1, 2]), None);
    }
}

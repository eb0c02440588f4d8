//! Side indices: lists of all frames that the page table does not list. Each one has what changed since the one before it, so
//! they form a chain.

use std::collections::BTreeMap;

use bonfire::Result;

use super::frame_scanner::FrameScanner;
use crate::ChunkPos;
use crate::format::{Frame, FrameKey, FrameKind, FramePlace, SIZE_BYTES, SideIndex};

/// The chain of side indices in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SideIndexChain {
    /// Where the data of the newest side index is; 0 if there is none.
    pub(super) newest: u64,
    /// Entries of all side indices together.
    pub(super) entries: u64,
}

/// The content of a chain of side indices.
pub(super) struct SideEntries {
    pub(super) chain: SideIndexChain,
    pub(super) entries: Vec<(FrameKey, FramePlace)>,
}

impl SideEntries {
    /// Reads the chain that an entity section leads to. `None` if one of its side indices is damaged.
    pub(super) fn read(scanner: &mut FrameScanner<'_>, section: &Frame) -> Result<Option<Self>> {
        let newest = newest_of(section.pos);
        let (mut at, mut lists, mut bytes) = (newest, Vec::new(), 0);
        while at != 0 {
            let frame = if at > SIZE_BYTES { scanner.frame_at(at - SIZE_BYTES)? } else { None };
            let Some(frame) = frame.filter(|frame| frame.kind == FrameKind::SideIndex) else {
                return Ok(None);
            };
            let Ok(side) = SideIndex::decode(&scanner.data_of(&frame)?) else { return Ok(None) };
            // Each lies before the one that names it, so that the chain ends. All of them together are no longer than the
            // file, unless the file was made by hand with one inside the other.
            bytes += u64::from(frame.place.len);
            if side.earlier >= at || bytes > scanner.len() {
                return Ok(None);
            }
            at = side.earlier;
            lists.push(side.entries);
        }
        let listed = lists.iter().map(|entries| entries.len() as u64).sum();
        let mut all = BTreeMap::new();
        for (key, place) in lists.into_iter().rev().flatten() {
            if place.is_nowhere() {
                all.remove(&key)
            } else {
                all.insert(key, place)
            };
        }
        let chain = SideIndexChain { newest, entries: listed };
        Ok(Some(Self { chain, entries: all.into_iter().collect() }))
    }
}

/// Returns the key of an entity section. Its coordinates are the place of the newest side index.
pub(super) fn entity_section_key(side: SideIndexChain) -> FrameKey {
    let (low, high) = (side.newest as u32, (side.newest >> 32) as u32);
    FrameKey::new(FrameKind::EntitySection, ChunkPos::new(low.cast_signed(), high.cast_signed()))
}

/// Returns the place of the newest side index, from the coordinates of an entity section.
fn newest_of(pos: ChunkPos) -> u64 {
    u64::from(pos.x.cast_unsigned()) | u64::from(pos.y.cast_unsigned()) << 32
}

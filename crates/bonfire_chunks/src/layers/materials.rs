//! Ids of materials in a file, to ids of the same names in the game.

use std::collections::{HashMap, HashSet};

use bonfire::{Error, Result};

/// In tables: no material of the game has this id, nor does it stay.
const REFUSED: u64 = u64::MAX;

/// What each id becomes.
pub(super) struct MaterialMap {
    ids: Ids,
    bytes: usize,
    /// The names that the game no longer has.
    pub(super) missing: Vec<String>,
}

enum Ids {
    /// By the id, for ids of one and two bytes.
    Table(Vec<u64>),
    /// Of those that do not stay as they are.
    Map(HashMap<u32, u64>),
}

impl MaterialMap {
    /// From the names of a file to those of the game, in a layer of so many bytes. `None` if the two are the same.
    pub(super) fn new(
        stored: &[(u32, String)],
        current: &[(u32, String)],
        missing_id: Option<u32>,
        bytes: usize,
    ) -> Result<Option<Self>> {
        if stored == current {
            return Ok(None);
        }
        let by_name: HashMap<&str, u32> = current.iter().map(|(id, name)| (name.as_str(), *id)).collect();
        let named: HashSet<u32> = stored.iter().map(|(id, _)| *id).collect();
        let mut missing = Vec::new();
        let mut changes = HashMap::new();
        for (id, name) in stored {
            let becomes = by_name.get(name.as_str()).copied();
            if becomes.is_none() {
                missing.push(name.clone());
            }
            if let Some(becomes) = becomes.or(missing_id) {
                changes.insert(*id, u64::from(becomes));
            }
        }
        if missing_id.is_none() && !missing.is_empty() {
            let more = missing.len().saturating_sub(10);
            let names: Vec<_> = missing.iter().take(10).map(|name| format!("`{name}`")).collect();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            return Err(Error::unsupported(format_args!(
                "the game no longer has the materials {}{more}, and no material in their place",
                names.join(", ")
            )));
        }
        // An id that had no name stays, unless it is the name of something else by now.
        for (id, _) in current {
            if !named.contains(id) {
                changes.insert(*id, missing_id.map_or(REFUSED, u64::from));
            }
        }
        let ids = match bytes {
            1 | 2 => {
                let ids = 0..1_u32 << (8 * bytes);
                Ids::Table(ids.map(|id| changes.get(&id).copied().unwrap_or(u64::from(id))).collect())
            }
            _ => Ids::Map(changes),
        };
        Ok(Some(Self { ids, bytes, missing }))
    }

    /// Rewrites the ids at `offset` in all cells.
    pub(super) fn apply(&self, cells: &mut [u8], cell_bytes: usize, offset: usize) -> Result<()> {
        match (self.bytes, cell_bytes) {
            (1, 4) => {
                self.apply_to(cells.as_chunks_mut::<4>().0.iter_mut(), |cell| &mut cell[offset..=offset])
            }
            (1, _) => self.apply_to(cells.chunks_exact_mut(cell_bytes), |cell| &mut cell[offset..=offset]),
            (bytes, _) => {
                self.apply_to(cells.chunks_exact_mut(cell_bytes), |cell| &mut cell[offset..offset + bytes])
            }
        }
    }

    #[inline(always)]
    fn apply_to<C>(&self, cells: impl Iterator<Item = C>, id_of: impl Fn(&mut C) -> &mut [u8]) -> Result<()> {
        // Cells come in runs, and a run is looked up once.
        let mut last = None;
        for mut cell in cells {
            let bytes = id_of(&mut cell);
            let mut wide = [0; 4];
            for (wide, byte) in wide.iter_mut().zip(&*bytes) {
                *wide = *byte;
            }
            let id = u32::from_le_bytes(wide);
            let becomes = match (&self.ids, last) {
                (Ids::Table(ids), _) => ids[id as usize],
                (Ids::Map(_), Some((last_id, becomes))) if last_id == id => becomes,
                (Ids::Map(ids), _) => ids.get(&id).copied().unwrap_or(u64::from(id)),
            };
            if becomes == REFUSED {
                return Err(Error::unsupported(format_args!(
                    "material {id} had no name in the file, and is another one in the game"
                )));
            }
            last = Some((id, becomes));
            for (byte, new) in bytes.iter_mut().zip(becomes.to_le_bytes()) {
                *byte = new;
            }
        }
        Ok(())
    }
}

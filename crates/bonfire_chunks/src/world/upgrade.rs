//! Upgrades of chunks that were saved with other layers, by another generator, or with older schemas.

use std::collections::BTreeMap;
use std::sync::Arc;

use bonfire::engine::Resolution;
use bonfire::{Error, LoadOptions, Registry, Result, Snapshot, TrackState, preflight};

use super::{ChunkWorld, Edit};
use crate::format::{FrameKey, FrameKind};
use crate::{ChunkPos, ChunkRect, Durability};

/// An upgrade of a world in steps: see [`ChunkWorld::upgrade`].
#[derive(Debug)]
pub struct Upgrade<'r> {
    world: ChunkWorld,
    registry: Option<&'r Registry>,
    /// The frames that are to be looked at, the next one last.
    left: Vec<FrameKey>,
    saved: usize,
    failed: Vec<(ChunkPos, Error)>,
}

impl ChunkWorld {
    /// Finds every chunk and every list of bodies that was saved with other layers, or by another generator, to save them as the
    /// game has them today, step by step. Without an upgrade that happens whenever a chunk is saved anyway. What a session leaves is
    /// found by the next one.
    pub fn upgrade(&self) -> Upgrade<'static> {
        let store = self.inner.frames.store();
        let mut left: Vec<FrameKey> = Vec::new();
        for dimension in self.inner.dimensions.values() {
            let current = self.inner.saving().of(dimension).current;
            for kind in [FrameKind::Chunk, FrameKind::Bodies] {
                let all = store.list(kind, &ChunkRect::of_dimension(dimension.number));
                let old = all.into_iter().filter(|(_, tag)| tag.layers != current);
                left.extend(old.map(|(pos, _)| FrameKey::new(kind, pos)));
            }
        }
        left.reverse();
        Upgrade { world: self.clone(), registry: None, left, saved: 0, failed: Vec::new() }
    }

    /// The same, and the entities of every chunk as well: those with schemas of an earlier release, or before a migration of the
    /// game, are saved as the registered types would have written them. Components that are not registered stay as they are.
    ///
    /// Of each chunk with entities a step looks at the schemas, and at nothing else if they are those of today.
    pub fn upgrade_with<'r>(&self, registry: &'r Registry) -> Upgrade<'r> {
        let Upgrade { left: cells_and_bodies, world, saved, failed, .. } = self.upgrade();
        let snapshots = self.inner.frames.positions(FrameKind::Snapshot, &ChunkRect::ALL);
        let keys = snapshots.into_iter().rev().map(|pos| FrameKey::new(FrameKind::Snapshot, pos));
        let left = keys.chain(cells_and_bodies).collect();
        Upgrade { world, registry: Some(registry), left, saved, failed }
    }

    /// Does a whole [`upgrade`](Self::upgrade). Returns how many chunks and lists of bodies there were. `progress` hears how
    /// many of how many are done. Fails at the end if something could not be read; all the rest is upgraded then.
    pub fn upgrade_all(&self, mut progress: impl FnMut(u64, u64)) -> Result<usize> {
        const AT_ONCE: usize = 64;
        let mut upgrade = self.upgrade();
        let total = upgrade.left();
        while upgrade.left() > 0 {
            upgrade.step(AT_ONCE)?;
            progress((total - upgrade.left()) as u64, total as u64);
        }
        upgrade.failed.pop().map_or(Ok(total), |(_, error)| Err(error))
    }
}

impl Upgrade<'_> {
    /// The number of chunks, lists of bodies and lists of entities that are to be looked at.
    pub fn left(&self) -> usize {
        self.left.len()
    }

    /// The number of those that were old and are saved anew.
    pub fn saved(&self) -> usize {
        self.saved
    }

    /// The chunks of which something could not be read, and why. It is as it was.
    pub fn failed(&self) -> &[(ChunkPos, Error)] {
        &self.failed
    }

    /// Saves so many of them anew, at most. What was saved or removed since they were found is left alone. The last step makes
    /// all of them durable, and so does the next synced save. A step that fails may be tried again. Damage is no failure of the
    /// step: see [`failed`](Self::failed).
    pub fn step(&mut self, chunks_max: usize) -> Result<()> {
        let rest = self.left.len().saturating_sub(chunks_max.max(1));
        let Step { mut edit, saved, failed } = self.prepare(&self.left[rest..])?;
        edit.commit(if rest == 0 { Durability::Synced } else { Durability::Buffered })?;
        self.left.truncate(rest);
        self.saved += saved;
        self.failed.extend(failed);
        Ok(())
    }

    /// Reads some frames, and puts them into an edit as they are written today.
    fn prepare(&self, frames: &[FrameKey]) -> Result<Step> {
        let of = |kind: FrameKind| {
            let keys = frames.iter().rev().filter(move |key| key.kind == kind);
            keys.map(|key| key.pos).collect::<Vec<ChunkPos>>()
        };
        let mut edit = self.world.edit();
        let (mut saved, mut failed, mut replaced) = (0, Vec::new(), BTreeMap::new());
        let chunks = of(FrameKind::Chunk);
        for (pos, cells) in chunks.iter().zip(self.world.read_many(&chunks)) {
            if let Some(cells) = readable(*pos, cells, &mut failed)?.flatten() {
                edit.put(*pos, cells);
                saved += 1;
            }
        }
        for pos in of(FrameKind::Bodies) {
            if let Some(bodies) = readable(pos, self.world.read_bodies(pos), &mut failed)? {
                edit.put_bodies(pos, bodies);
                saved += 1;
            }
        }
        for pos in of(FrameKind::Snapshot) {
            let Some(registry) = self.registry else { continue };
            let upgraded = self.world.upgraded_entities(pos, registry);
            if let Some((old, new)) = readable(pos, upgraded, &mut failed)?.flatten() {
                edit.put_entities(pos, new);
                replaced.insert(pos, old);
                saved += 1;
            }
        }
        edit.upgrade = Some(replaced);
        Ok(Step { edit, saved, failed })
    }
}

/// The entities of a chunk as they are, and as they are written today.
type OldAndNew = (Arc<[u8]>, Vec<u8>);

/// A step that is not committed.
struct Step {
    edit: Edit,
    saved: usize,
    failed: Vec<(ChunkPos, Error)>,
}

impl ChunkWorld {
    /// Returns the entities of a chunk as they are and as they would be written today. `None` if that is the same.
    fn upgraded_entities(&self, pos: ChunkPos, registry: &Registry) -> Result<Option<OldAndNew>> {
        let Some(old) = self.read_entities(pos)? else { return Ok(None) };
        let here = |error: Error| error.in_field(format_args!("entities of chunk {pos}"));
        if is_current(&old, registry).map_err(here)? {
            return Ok(None);
        }
        let rewrite = || Snapshot::open(&old)?.rewritten(registry, LoadOptions::default())?.0.to_bytes();
        let new = rewrite().map_err(here)?;
        Ok(Some((old.into(), new)))
    }
}

/// Returns true if a snapshot has the schemas and the migrations of today.
fn is_current(snapshot: &[u8], registry: &Registry) -> Result<bool> {
    let found = preflight(snapshot, registry)?;
    let is_old = |state: &TrackState| matches!(state, TrackState::Older { .. });
    let is_same = |resolution: &Result<Resolution>| {
        matches!(resolution, Ok(Resolution::Same(_) | Resolution::Unknown | Resolution::Transient(_)))
    };
    let tracks = !found.tracks.iter().any(|(_, state)| is_old(state));
    Ok(tracks && found.components.iter().all(|(_, resolution)| is_same(resolution)))
}

/// Notes what is damaged. An error of the disk ends the step: it may be gone when the step is tried again.
fn readable<T>(pos: ChunkPos, found: Result<T>, failed: &mut Vec<(ChunkPos, Error)>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_io() => Err(error),
        Err(error) => {
            failed.push((pos, error));
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use bonfire::Persist;
    use bonfire::engine::SnapshotWriter;
    use bonfire_store::disk::{Access, MemoryDisk};

    use super::*;
    use crate::{ChunkOptions, Layer, Layers, Persistence};

    #[derive(Persist)]
    #[persist(key = "game.health")]
    struct Old(u8);

    #[derive(Persist)]
    #[persist(key = "game.health", version = 2, from = Old)]
    struct New(u64);

    impl From<Old> for New {
        fn from(Old(points): Old) -> Self {
            Self(points.into())
        }
    }

    fn with_data(number: u32) -> Vec<u8> {
        let registry = Registry::new().with::<Old>().unwrap();
        let mut writer = SnapshotWriter::new(&registry);
        writer.archetype(&[bonfire::EntityId::new(number, 0)]).unwrap().column(&[Old(1)]).unwrap();
        writer.finish().unwrap().to_bytes().unwrap()
    }

    #[test]
    fn a_save_between_the_reading_and_the_commit_of_a_step_wins() {
        let layers = Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always));
        let options = ChunkOptions::new(layers).chunk_size(4);
        let world = options.open_on(MemoryDisk::new(), "world.save", Access::Write).unwrap();
        let mut edit = world.edit();
        (0..4).for_each(|x| _ = edit.put_entities((x, 0), with_data(1)));
        edit.commit(Durability::Synced).unwrap();
        let registry = Registry::new().with::<New>().unwrap();
        let upgrade = world.upgrade_with(&registry);
        let Step { edit: mut step, saved, .. } = upgrade.prepare(&upgrade.left).unwrap();
        assert_eq!(saved, 4);
        let mut edit = world.edit();
        edit.put_entities((1, 0), with_data(2)).remove_entities((2, 0)).put((3, 0), vec![5; 16]);
        edit.commit(Durability::Synced).unwrap();
        step.commit(Durability::Synced).unwrap();
        let is_new =
            |x| world.read_entities((x, 0)).unwrap().map(|bytes| is_current(&bytes, &registry).unwrap());
        assert_eq!([0, 1, 2, 3].map(is_new), [Some(true), Some(false), None, Some(true)]);
        assert_eq!(world.read_entities((1, 0)).unwrap(), Some(with_data(2)));
    }
}

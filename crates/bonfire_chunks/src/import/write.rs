//! Imported worlds as files of this crate.

use std::collections::BTreeMap;
use std::path::Path;

use bonfire::{Error, Result};
use bonfire_store::disk::{Access, Disk, OsDisk};

use super::pixel_world::{PixelContent, PixelWorld};
use crate::codec::Delta;
use crate::{Body, ChunkOptions, ChunkPos, ChunkWorld, Durability, Layer, Layers, Persistence, StoredChunk};

/// Chunks that are written at once.
const AT_ONCE: usize = 64;

impl PixelWorld {
    /// Options with which the imported world is opened: its sizes, and the four layers that its cells are made of. Add the
    /// game's generator to read deltas.
    pub fn options(&self) -> ChunkOptions {
        let layers = Layers::new()
            .with(Layer::new("material", 1).persistence(Persistence::Always))
            .with(Layer::new("color", 1))
            .with(Layer::new("damage", 1))
            .with(Layer::new("flags", 1));
        ChunkOptions::new(layers)
            .chunk_size(self.chunk_size)
            .tile_size(self.tile_size)
            .seed(self.seed)
            .created(self.created)
    }

    /// Writes the world as a new file, all of it or nothing. Deltas stay deltas: they count as made by the generator of the
    /// options, or by the version that those name. A delta without a cell is as the generator makes it, and is not stored.
    pub fn write(&self, path: impl AsRef<Path>, options: &ChunkOptions) -> Result<()> {
        let path = path.as_ref();
        let (disk, name) = crate::world::at(path)?;
        if disk.open(&name, Access::Read).is_ok() {
            return Err(Error::conflict(format!("`{}` is there already", path.display())));
        }
        let unfinished = format!("{name}.import");
        ChunkWorld::delete_on(&disk, &unfinished)?;
        let written = self.fill(&disk, &unfinished, options);
        if written.is_err() {
            // The error that matters is the first one.
            let _ = ChunkWorld::delete_on(&disk, &unfinished);
        }
        let named = written.map(|()| disk.rename(&unfinished, &name).and_then(|()| disk.sync_dir()));
        let _ = disk.remove(&crate::file::lock_name(&unfinished));
        named?.map_err(|error| Error::io(format_args!("cannot name `{}`", path.display()), error))
    }

    fn fill(&self, disk: &OsDisk, name: &str, options: &ChunkOptions) -> Result<()> {
        let world = options.open_on(disk.clone(), name, Access::Write)?;
        for chunks in self.chunks.chunks(AT_ONCE) {
            let mut edit = world.edit();
            for chunk in chunks {
                let stored = match chunk.payload.content()? {
                    PixelContent::Empty => StoredChunk::Empty,
                    PixelContent::Full(cells) => StoredChunk::Full(cells),
                    PixelContent::Delta { positions, cells } => {
                        StoredChunk::Delta(Delta::at(&positions, cells))
                    }
                };
                edit.put_stored(chunk.pos, stored);
            }
            edit.commit(Durability::Buffered)?;
        }
        let mut by_chunk: BTreeMap<ChunkPos, Vec<Body>> = BTreeMap::new();
        for body in &self.bodies {
            let pos = body.chunk(u32::from(self.chunk_size));
            let pos = pos
                .ok_or_else(|| Error::corrupt(format!("body {} is nowhere: {:?}", body.id, body.position)))?;
            by_chunk.entry(pos).or_default().push(body.clone());
        }
        let mut edit = world.edit();
        for (pos, bodies) in by_chunk {
            edit.put_bodies(pos, bodies);
        }
        edit.commit(Durability::Buffered)?;
        world.close()
    }
}

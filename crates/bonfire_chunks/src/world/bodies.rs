//! Bodies: a list per chunk, in a frame of its own.

use bonfire::{Error, Result};

use super::{ChunkWorld, World};
use crate::format::{FrameKey, FrameKind, Resident};
use crate::frames::FrameChange;
use crate::{Body, BodyId, BodyIds, ChunkPos, ChunkRect, DecodedBodies, Durability, LostBody, decode_bodies};

impl ChunkWorld {
    /// Returns the bodies whose centre lies in a chunk. One that cannot be read costs itself alone:
    /// [`read_body_list`](Self::read_body_list) tells of it.
    pub fn read_bodies(&self, pos: impl Into<ChunkPos>) -> Result<Vec<Body>> {
        let pos = pos.into();
        let list = self.read_body_list(pos)?;
        for LostBody { index, count, error } in list.lost {
            tracing::warn!(%pos, index, count, %error, "bodies of a chunk cannot be read");
        }
        Ok(list.bodies)
    }

    /// Returns the bodies whose centre lies in a chunk, and those that cannot be read. Empty ones, which only other programs store,
    /// are left out, and out of the store with the next save of bodies. A body that two chunks list is in one of them.
    pub fn read_body_list(&self, pos: impl Into<ChunkPos>) -> Result<DecodedBodies> {
        let pos = pos.into();
        let Some(mut list) = self.inner.stored_bodies(pos)? else { return Ok(DecodedBodies::default()) };
        let before = list.bodies.len();
        list.bodies.retain(|body| !body.is_empty());
        let mut here = Vec::with_capacity(list.bodies.len());
        for body in list.bodies {
            if self.inner.is_home(Resident::Body(body.id.0), pos)? {
                here.push(body);
            }
        }
        if here.len() < before {
            self.inner.stale_bodies().insert(pos);
        }
        Ok(DecodedBodies { bodies: here, lost: list.lost })
    }

    /// Returns a body, whichever chunk it is in. `None` if no chunk has it, or if it cannot be read.
    pub fn read_body(&self, id: BodyId) -> Result<Option<Body>> {
        let Some(pos) = self.chunk_of_body(id)? else { return Ok(None) };
        Ok(self.read_bodies(pos)?.into_iter().find(|body| body.id == id))
    }

    /// The chunks of a rectangle that have bodies, row by row.
    pub fn chunks_with_bodies(&self, rect: ChunkRect) -> Vec<ChunkPos> {
        self.inner.frames.positions(FrameKind::Bodies, &rect)
    }

    /// Gives out ids for new bodies that no session of this world has given out, or will. What is split off a body takes new
    /// ids from it, too. The number of the session is saved before this returns, so that the ids may go anywhere.
    pub fn body_ids(&self) -> Result<BodyIds> {
        let _turn = self.inner.commit_turn();
        let mut settings = self.inner.saving().first().clone();
        settings.session = settings.session.wrapping_add(1).max(1);
        let frames = self.inner.settings_frames(self.inner.first_dimension(), &settings);
        let change = FrameChange { frames, removed: Vec::new() };
        self.inner.frames.store().commit(change, Durability::Synced)?;
        let session = settings.session;
        self.inner.saving().replace_first(settings, false);
        Ok(BodyIds::new(session))
    }
}

impl World {
    /// All bodies that the store has for a chunk; `None` if it has no list.
    pub(super) fn stored_bodies(&self, pos: ChunkPos) -> Result<Option<DecodedBodies>> {
        let key = FrameKey::new(FrameKind::Bodies, pos);
        let here = |error: Error| error.in_field(format_args!("bodies of chunk {pos}"));
        let dimension = self.dimension(pos)?;
        self.frames.read(key, |tag, data| {
            let (conversion, set_bytes) = dimension.conversion(tag.layers).map_err(here)?;
            let mut list = decode_bodies(data, set_bytes, self.options.body_limits).map_err(here)?;
            for lost in &mut list.lost {
                lost.error = here(lost.error.clone());
            }
            if !conversion.is_identity() {
                for body in &mut list.bodies {
                    let cells = body.cells.len() / set_bytes.max(1);
                    let mut converted = vec![0; cells * dimension.options.layers.cell_bytes()];
                    conversion.to_memory(&body.cells, &mut converted).map_err(here)?;
                    body.cells = converted;
                }
            }
            Ok(list)
        })
    }
}

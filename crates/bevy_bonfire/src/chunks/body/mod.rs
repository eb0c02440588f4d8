//! Pixel bodies: things made of cells that fall, roll and break, and that stream with their chunks.
//!
//! | rule | |
//! |---|---|
//! | where a body is | in the chunk of its centre, at the place where it was drawn last |
//! | its cells | with the body; chunks show them, and saves of chunks do not have them |
//! | a cell that the game changes in a chunk | the chunk's from then on; the body has lost it |
//! | a body that touches a chunk that is not active | waits, disabled; what it touches is loaded if its own chunk is kept |
//! | a body without `Streamed` | drawn and never saved; it goes with its chunk |
//!
//! | file | |
//! |---|---|
//! | `table` | what is known of each body |
//! | `shape` | cells that bodies lose, fragments, bodies that are gone |
//! | `place` | where bodies are, how they are drawn, and what they hold |
//! | `save` | bodies that come and go with their chunks |

pub(super) mod place;
pub(super) mod save;
pub(super) mod shape;
pub(super) mod table;

use bevy_ecs::component::Component;
use bevy_ecs::entity::Entity;
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::event::Event;
use bevy_ecs::message::Message;
use bevy_transform::components::Transform;
use bonfire::{Error, Persist, Result};
use bonfire_chunks::{Body, BodyId};

/// A thing made of cells. The plugin draws it into the chunks that it touches, at its `Transform`, in [`ChunkSystems`].
///
/// With [`Streamed`](super::Streamed) it is saved with its chunk, together with its other saved components. Without, it is
/// despawned when its chunk leaves. It reads like a [`Body`]. Position and rotation are those of the last drawing, in cells.
///
/// ```
/// # use bevy_ecs::prelude::*;
/// # use bevy_transform::components::Transform;
/// use bevy_bonfire::chunks::{PixelBody, Streamed};
///
/// fn drop_crate(mut commands: Commands) {
///     let wood = 5; // the material, which is the only layer of this game
///     commands.spawn((PixelBody::new([4, 4], vec![wood; 16]), Streamed, Transform::from_xyz(10.0, 30.0, 0.0)));
/// }
/// fn shoot(mut bodies: Query<&mut PixelBody>) {
///     for mut body in &mut bodies {
///         body.remove_cell(1, 1); // what falls apart becomes several bodies
///     }
/// }
/// ```
///
/// [`ChunkSystems`]: super::ChunkSystems
#[derive(Component, Clone, Debug, PartialEq)]
#[require(Transform, BodyKey)]
pub struct PixelBody {
    pub(super) body: Body,
    /// Cells have come or gone since the plugin has looked.
    pub(super) is_reshaped: bool,
}

impl PixelBody {
    /// Returns a body of solid cells that rests. The plugin gives it an id.
    pub fn new(size: [u32; 2], cells: Vec<u8>) -> Self {
        Self::from(Body::new(BodyId(0), size, cells))
    }

    /// Returns the id, which is the same in every session. `None`: the plugin has not seen the body yet.
    pub fn id(&self) -> Option<BodyId> {
        Some(self.body.id).filter(|id| id.0 != 0)
    }

    /// Takes a cell of the body away. Returns false if it was not solid. A body that falls apart becomes several:
    /// see [`BodyChanged`].
    pub fn remove_cell(&mut self, x: u32, y: u32) -> bool {
        let is_removed = self.body.remove_cell(x, y);
        self.is_reshaped |= is_removed;
        is_removed
    }

    /// Sets the bytes of a cell. An error outside of the body, and for a cell of another size.
    pub fn set_cell(&mut self, x: u32, y: u32, cell: &[u8]) -> Result<()> {
        let cells = self.body.width as usize * self.body.height as usize;
        let bytes = self.body.cells.len().checked_div(cells).unwrap_or(0);
        let at = (y as usize * self.body.width as usize + x as usize) * bytes;
        match self.body.cells.get_mut(at..at + bytes) {
            Some(place) if cell.len() == bytes && x < self.body.width => {
                place.copy_from_slice(cell);
                self.is_reshaped = true;
                Ok(())
            }
            _ => Err(Error::misuse(format!(
                "there is no cell ({x}, {y}) of {} bytes in this body",
                cell.len()
            ))),
        }
    }

    /// Sets the velocities, which are saved with the body: in cells and radians per second.
    pub fn set_velocity(&mut self, linear: [f32; 2], angular: f32) {
        (self.body.linear_velocity, self.body.angular_velocity) = (linear, angular);
    }

    /// Sets bytes of the game's own, which are saved with the body. Components of the entity are saved, too, if they are
    /// registered.
    pub fn set_extension(&mut self, bytes: Vec<u8>) {
        self.body.extension = bytes;
    }
}

impl From<Body> for PixelBody {
    fn from(body: Body) -> Self {
        Self { body, is_reshaped: false }
    }
}

impl std::ops::Deref for PixelBody {
    type Target = Body;

    fn deref(&self) -> &Body {
        &self.body
    }
}

/// The id of a body, saved with the entity, so that both find each other.
#[derive(Component, Persist, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[persist(key = "bonfire.body")]
pub(super) struct BodyKey(pub(super) u64);

/// The plugin has disabled the body until every chunk that it touches is active. It is saved with it, so that a load knows.
#[derive(Component, Persist, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[require(Disabled)]
#[persist(key = "bonfire.body_waits")]
pub(super) struct BodyWaits;

/// A change of a [`PixelBody`] that the plugin has found or made. Observers receive it, and systems read it as a message.
#[derive(Event, Message, Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BodyChanged {
    /// The entity of the body. It is despawned already if the body is gone.
    pub entity: Entity,
    /// The id of the body.
    pub id: BodyId,
    /// The change.
    pub change: BodyChange,
}

/// A cell that a body has lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostCell {
    /// Its column and row in the body.
    pub at: [u32; 2],
    /// Its bytes.
    pub cell: Vec<u8>,
}

/// A change of a body.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BodyChange {
    /// The game has changed what the body had drawn in a chunk, so these cells of the body are gone.
    LostCells(Vec<LostCell>),
    /// It has fallen apart. The largest part is still this body, and these new bodies are the others. They have a `Transform`,
    /// and are [`Streamed`](super::Streamed) if this one is. Their chunk may have left in the same frame, with them.
    Broke(Vec<Entity>),
    /// Its last cell is gone, and so is the entity.
    Gone,
}

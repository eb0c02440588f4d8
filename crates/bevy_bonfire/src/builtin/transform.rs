//! `Transform`. `GlobalTransform` is not saved: Bevy computes it.

use std::mem::offset_of;

use bevy_ecs::world::World;
use bevy_transform::components::Transform;
use bonfire::engine::{Layout, LayoutOf};
use bonfire::{Adapter, Descriptor, LoadContext, Persist, Result};

use crate::registry::ComponentRegistry;

type Vec3 = glam::Vec3;
type Quat = glam::Quat;

/// What is saved of a transform.
#[derive(Persist)]
pub(crate) struct SavedTransform {
    translation: Vec3,
    rotation: Quat,
    scale: Vec3,
}

struct ByField;

impl Adapter<Transform> for ByField {
    type Saved = SavedTransform;

    #[expect(unsafe_code, reason = "promises the layout of a foreign type")]
    // SAFETY: the three public fields are all there is, at these offsets, with the layouts of their types; what is
    // between them is padding. They come in the order of `SavedTransform`.
    const LAYOUT: LayoutOf<Transform> = unsafe {
        LayoutOf::new(Layout::aggregate(
            size_of::<Transform>(),
            &[
                (offset_of!(Transform, translation), Vec3::LAYOUT.get()),
                (offset_of!(Transform, rotation), Quat::LAYOUT.get()),
                (offset_of!(Transform, scale), Vec3::LAYOUT.get()),
            ],
        ))
    };

    fn save(transform: &Transform) -> Result<SavedTransform> {
        let Transform { translation, rotation, scale } = *transform;
        Ok(SavedTransform { translation, rotation, scale })
    }
    fn load(saved: SavedTransform, _: &LoadContext<'_>) -> Result<Transform> {
        let SavedTransform { translation, rotation, scale } = saved;
        Ok(Transform { translation, rotation, scale })
    }
}

pub(super) fn register(world: &mut World, registry: &mut ComponentRegistry) -> Result<usize> {
    registry.add::<Transform>(world, Descriptor::adapted::<Transform, ByField>("bevy.transform"))
}

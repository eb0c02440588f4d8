//! `Visibility`. What is computed from it is not saved.

use bevy_camera::visibility::Visibility;
use bevy_ecs::world::World;
use bonfire::{Adapter, Descriptor, LoadContext, Persist, Result};

use crate::registry::ComponentRegistry;

#[derive(Persist)]
enum SavedVisibility {
    Inherited,
    Hidden,
    Visible,
}

struct ByName;

impl Adapter<Visibility> for ByName {
    type Saved = SavedVisibility;

    fn save(visibility: &Visibility) -> Result<SavedVisibility> {
        Ok(match visibility {
            Visibility::Inherited => SavedVisibility::Inherited,
            Visibility::Hidden => SavedVisibility::Hidden,
            Visibility::Visible => SavedVisibility::Visible,
        })
    }
    fn load(saved: SavedVisibility, _: &LoadContext<'_>) -> Result<Visibility> {
        Ok(match saved {
            SavedVisibility::Inherited => Visibility::Inherited,
            SavedVisibility::Hidden => Visibility::Hidden,
            SavedVisibility::Visible => Visibility::Visible,
        })
    }
}

pub(super) fn register(world: &mut World, registry: &mut ComponentRegistry) -> Result<usize> {
    registry.add::<Visibility>(world, Descriptor::adapted::<Visibility, ByName>("bevy.visibility"))
}

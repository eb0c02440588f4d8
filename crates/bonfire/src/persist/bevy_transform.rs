//! `Transform`. `GlobalTransform` has no saved form: Bevy computes it.

use bevy_transform::components::Transform;
use glam::{Quat, Vec3};

super::foreign::structs! {
    Transform { translation: Vec3, rotation: Quat, scale: Vec3 }
}

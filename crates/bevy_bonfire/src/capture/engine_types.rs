//! Components of Bevy that are made again by themselves, so that a save without them has lost nothing: caches, results of
//! systems, and links to other worlds.
//!
//! All other components are named if they are left out, whichever crate they are of.

/// By crate, names of types without their modules.
const MADE_AGAIN: &[(&str, &[&str])] = &[
    (
        "bevy_camera",
        &[
            "Aabb",
            "CascadesFrusta",
            "CascadesVisibleEntities",
            "ComputedCameraValues",
            "CubemapFrusta",
            "CubemapVisibleEntities",
            "Frustum",
            "InheritedVisibility",
            "ViewVisibility",
            "VisibilityClass",
            "VisibleEntities",
            "VisibleMeshEntities",
        ],
    ),
    ("bevy_ecs", &["IsResource", "ObservedBy", "Observer"]),
    (
        "bevy_pbr",
        &["CascadeShadowMap", "Cascades", "Clusters", "PreviousGlobalTransform", "ViewClusterBindings"],
    ),
    ("bevy_render", &["MainEntity", "RenderEntity", "SyncToRenderWorld", "TemporaryRenderEntity"]),
    ("bevy_sprite", &["CalculatedClip"]),
    ("bevy_text", &["ComputedTextBlock", "TextLayoutInfo"]),
    ("bevy_transform", &["GlobalTransform", "TransformTreeChanged"]),
    (
        "bevy_ui",
        &[
            "CalculatedClip",
            "ComputedNode",
            "ComputedStackIndex",
            "ComputedUiRenderTargetInfo",
            "ComputedUiTargetCamera",
            "ContentSize",
            "UiGlobalTransform",
        ],
    ),
];

/// Returns true if Bevy, or this crate, makes the component again. The name is a whole type path, perhaps with generics.
pub(super) fn is_made_again(name: &str) -> bool {
    let path = name.split('<').next().unwrap_or(name);
    let (krate, rest) = path.split_once("::").unwrap_or((path, ""));
    let last = rest.rsplit("::").next().unwrap_or(rest);
    krate == "bevy_bonfire"
        || MADE_AGAIN.iter().any(|(known, types)| *known == krate && types.contains(&last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_types_are_exempt() {
        assert!(is_made_again("bevy_transform::components::global_transform::GlobalTransform"));
        assert!(is_made_again("bevy_bonfire::delta::mark::Replicated"));
        assert!(!is_made_again("bevy_state::state_scoped::DespawnOnExit<game::GlobalTransform>"));
        assert!(!is_made_again("bevy_rapier3d::dynamics::Velocity"));
        assert!(!is_made_again("game::GlobalTransform"));
    }
}

//! `Visibility`, which comes with a feature of its own because of what it brings in.
#![cfg(feature = "visibility")]

use bevy_bonfire::prelude::*;
use bevy_camera::visibility::Visibility;
use bevy_ecs::prelude::*;

fn world() -> World {
    let mut app = bevy_app::App::new();
    app.add_plugins(BonfirePlugin::default());
    std::mem::take(app.world_mut())
}

#[test]
fn visibility_comes_back() {
    let mut source = world();
    let all = [Visibility::Inherited, Visibility::Hidden, Visibility::Visible];
    let entities = all.map(|visibility| source.spawn((Saved, visibility)).id());
    let mut target = world();
    let loaded =
        target.load(&source.capture_with_events(&SaveOptions::new()).unwrap(), LoadMode::Replace).unwrap();
    for (visibility, entity) in all.into_iter().zip(entities) {
        assert_eq!(target.get(loaded.entity(entity).unwrap()), Some(&visibility));
    }
}

//! Handles to assets: saved as the path of their asset, loaded by loading it again. What has no path is not lost
//! silently.
//!
//! ```sh
//! cargo run -p bevy_bonfire --example asset_handles
//! ```

use bevy_app::{App, TaskPoolPlugin};
use bevy_asset::{Asset, AssetApp, AssetPlugin, AssetServer, Assets, Handle};
use bevy_bonfire::prelude::*;
use bevy_bonfire::{EncodeOptions, Result, SaveCaptured, Snapshot};
use bevy_ecs::prelude::*;
use bevy_reflect::TypePath;

/// An asset of the game's own. `Image`, `Mesh` and all others of Bevy work in the same way.
#[derive(Asset, TypePath)]
struct Picture {
    pixels: Vec<u8>,
}

/// Fields that are handles say so. The rest of the component is saved as always.
#[derive(Component, Persist)]
#[require(Saved)]
#[persist(key = "game.portrait")]
struct Portrait {
    #[persist(with = AssetRef)]
    picture: Handle<Picture>,
    width: f32,
}

fn game() -> App {
    let mut app = App::new();
    app.add_plugins((TaskPoolPlugin::default(), AssetPlugin::default(), BonfirePlugin::new()));
    app.init_asset::<Picture>();
    app.persist::<Portrait>();
    // Each note is about one component: what was remarked, and for how many values.
    app.add_observer(|captured: On<SaveCaptured>| {
        for note in &captured.notes {
            println!("  note on {} ({} of them): {}", note.key, note.count, note.remark);
        }
    });
    app
}

fn print(what: &str, world: &mut World) {
    println!("{what}");
    for (name, Portrait { picture, width }) in world.query::<(&Name, &Portrait)>().iter(world) {
        let source = match picture.path() {
            Some(path) => path.to_string(),
            None if *picture == Handle::default() => "the default handle".to_owned(),
            None => "an asset without a path".to_owned(),
        };
        let pixels = world.resource::<Assets<Picture>>().get(picture).map(|picture| picture.pixels.len());
        println!("  {name}: {source}, {width} wide, pixels in memory: {}", pixels.unwrap_or(0));
    }
}

fn main() -> Result<()> {
    let mut app = game();
    let world = app.world_mut();
    // From a file. For this example it does not matter that there is none: the handle knows its path.
    let hero = world.resource::<AssetServer>().load("faces/hero.picture");
    // Made by the game. No other process can find it again by its handle.
    let painted = world.resource_mut::<Assets<Picture>>().add(Picture { pixels: vec![255; 16] });
    world.spawn((Name::new("Hero"), Portrait { picture: hero, width: 64.0 }));
    world.spawn((Name::new("Selfie"), Portrait { picture: painted, width: 32.0 }));
    print("the world:", world);

    println!("a save:");
    let bytes = world.capture_with_events(&SaveOptions::new())?.encode(&EncodeOptions::default())?.to_vec();

    // Another process. A world that loads handles has an asset server, and the load starts loading what they lead to.
    let mut other = game();
    let world = other.world_mut();
    world.load(&Snapshot::open(&bytes)?, LoadMode::Replace)?;
    print("loaded into another world:", world);
    Ok(())
}

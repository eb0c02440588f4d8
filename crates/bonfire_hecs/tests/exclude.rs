//! Entities that are left out because of a component, which need not be registered.

mod common;

use bonfire_hecs::{LoadMode, SaveOptions, Saved, Selection, Snapshot};
use common::*;
use hecs::World;

/// A mark of the game that no save knows.
struct Particle;

/// Nobody has it.
struct Nobody;

fn filled() -> HecsWorld {
    let mut it = HecsWorld { world: World::new(), bonfire: bonfire(false) };
    it.world.spawn((Saved, Team(1)));
    it.world.spawn((Saved, Team(2), Particle));
    it.world.spawn((Saved, Team(3), Enemy));
    it.world.spawn((Saved, Team(4), Enemy, Particle));
    it
}

fn teams(snapshot: &Snapshot) -> Vec<u8> {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    bonfire.load(&mut world, snapshot, LoadMode::Replace).unwrap();
    let mut teams: Vec<u8> = world.query::<&Team>().iter().map(|team| team.0).collect();
    teams.sort_unstable();
    teams
}

#[test]
fn a_hook_excludes_by_any_component() {
    let HecsWorld { world, mut bonfire } = filled();
    bonfire.hooks.on_save(|_, starting| {
        starting.exclude::<Particle>();
        starting.exclude::<Nobody>();
        Ok(())
    });
    let snapshot = bonfire.capture_with_hooks(&world, &SaveOptions::new()).unwrap();
    assert_eq!(teams(&snapshot), [1, 3]);
    bonfire.hooks.on_save(|_, starting| {
        starting.exclude::<Enemy>();
        Ok(())
    });
    let snapshot = bonfire.capture_with_hooks(&world, &SaveOptions::new()).unwrap();
    assert_eq!(teams(&snapshot), [1], "registered ones too, and both at once");
    assert_eq!(teams(&save(&bonfire, &world)), [1, 2, 3, 4], "hooks run in saves only");
}

#[test]
fn options_exclude_by_any_component_and_keep_resources() {
    let HecsWorld { world, bonfire } = filled();
    let options = SaveOptions::new().exclude::<Particle>().exclude::<Nobody>().resource(Score::default());
    let snapshot = bonfire.capture(&world, &options).unwrap();
    assert_eq!(teams(&snapshot), [1, 3]);
    assert_eq!(snapshot.component_rows()["test.score"], 1);
    let both = SaveOptions::new().exclude::<Particle>().exclude::<Enemy>();
    assert_eq!(teams(&bonfire.capture(&world, &both).unwrap()), [1]);
    assert!(!Selection::new().exclude::<Particle>().is_everything());
    assert!(Selection::new().exclude::<Particle>().has_resource("test.score"));
}

#[test]
fn a_load_leaves_alone_what_its_selection_excludes() {
    let HecsWorld { mut world, mut bonfire } = filled();
    let selection = Selection::new().exclude::<Particle>();
    let snapshot = bonfire.capture(&world, &SaveOptions::new().selection(selection.clone())).unwrap();
    world.query_mut::<&mut Team>().into_iter().for_each(|team| team.0 += 10);
    bonfire.load(&mut world, &snapshot, LoadMode::RestoreSelected(selection.clone())).unwrap();
    let mut now: Vec<u8> = world.query::<&Team>().iter().map(|team| team.0).collect();
    now.sort_unstable();
    assert_eq!(now, [1, 3, 12, 14]);
    bonfire.load(&mut world, &snapshot, LoadMode::ReplaceSelected(selection)).unwrap();
    assert_eq!((world.query::<&Team>().iter().count(), world.query::<&Particle>().iter().count()), (4, 2));
}

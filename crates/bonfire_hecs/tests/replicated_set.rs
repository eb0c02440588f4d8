//! The components that are saved and those that are replicated are two sets of one `Bonfire`.

mod common;

use bonfire_hecs::core::engine::EntityMap;
use bonfire_hecs::replication::{DeltaCapture, Mirrored, Replicated};
use bonfire_hecs::{Bonfire, Descriptor, LoadContext, Persist, SaveOptions, SaveScope, Saved};
use common::{Burning, Position, Score, Team};
use hecs::World;

/// Replicated, and not saved.
#[derive(Persist, Clone, Copy, Debug, PartialEq)]
#[persist(key = "test.aim")]
struct Aim(f32);

/// The position is told in another form than it is saved.
fn coarse() -> Descriptor {
    let load = |x: i16, _: &LoadContext<'_>| Ok(Some(Position { x: f32::from(x), y: 0.0 }));
    Descriptor::custom("test.position", |position: &Position, _| Ok(Some(position.x as i16)), load)
}

fn bonfire() -> Bonfire {
    let mut bonfire = Bonfire::new();
    bonfire.persist::<Position>().unwrap().persist::<Team>().unwrap().persist::<Burning>().unwrap();
    bonfire.replicate::<Team>().unwrap().replicate_only::<Aim>().unwrap();
    bonfire.replicate_as::<Position>(coarse()).unwrap();
    bonfire
}

fn keys(bonfire: &Bonfire) -> Vec<String> {
    bonfire.replication_schema().table().components().iter().map(|component| component.key.clone()).collect()
}

/// The part of a world that a mirror gets.
fn mirrored(bonfire: &Bonfire, world: &World) -> World {
    let delta = DeltaCapture::of_replication().changes(bonfire, world, &SaveOptions::new()).unwrap();
    let mut mirror = World::new();
    bonfire.apply_delta(&mut mirror, &delta, &mut EntityMap::default()).unwrap();
    mirror
}

#[test]
fn what_is_saved_and_what_is_replicated_differ() {
    let bonfire = bonfire();
    assert_eq!(keys(&bonfire), ["test.aim", "test.position", "test.team"]);
    let mut world = World::new();
    let secret = Burning("the server's own".into());
    world.spawn((Position { x: 2.75, y: 9.0 }, Team(4), Aim(0.5), secret));
    world.spawn((Burning("nothing to tell".into()),));
    world.spawn((Aim(0.25),));
    let mirror = mirrored(&bonfire, &world);
    assert_eq!(mirror.len(), 2, "an entity without replicated components is not told");
    assert_eq!(mirror.query::<&Burning>().iter().count(), 0);
    let (position, team, aim) =
        mirror.query::<(&Position, &Team, &Aim)>().iter().map(|(p, t, a)| (*p, *t, *a)).next().unwrap();
    assert_eq!((position, team, aim), (Position { x: 2.0, y: 0.0 }, Team(4), Aim(0.5)));

    let saved = bonfire.capture(&world, &SaveOptions::new()).unwrap();
    let rows = saved.component_rows();
    assert_eq!((saved.entity_count(), rows["test.burning"], rows["test.position"]), (2, 2, 1));
    assert!(!rows.contains_key("test.aim"));
    assert_eq!(DeltaCapture::of_saves().schema(&bonfire).table().number("test.aim"), None);
}

#[test]
fn nothing_is_replicated_unless_it_is_registered() {
    let mut bonfire = Bonfire::new();
    bonfire.persist::<Team>().unwrap();
    let mut world = World::new();
    world.spawn((Team(1),));
    assert_eq!(keys(&bonfire), Vec::<String>::new());
    assert_eq!(mirrored(&bonfire, &world).len(), 0);
    bonfire.replicate_persisted().unwrap();
    assert_eq!(keys(&bonfire), ["bonfire.stable_id", "test.team"], "the mark of saves is not among them");
    bonfire.persist::<Burning>().unwrap();
    assert_eq!(keys(&bonfire), ["bonfire.stable_id", "test.burning", "test.team"], "also what comes later");
    assert_eq!(mirrored(&bonfire, &world).query::<(&Team, &Mirrored)>().iter().count(), 1);
    // What was replicated in another form before stays so.
    let mut other = Bonfire::new();
    other.replicate_as::<Position>(coarse()).unwrap().replicate_persisted().unwrap();
    other.persist::<Position>().unwrap();
    let schema = |bonfire: &Bonfire| {
        bonfire.replication_schema().table().components().last().unwrap().schema().unwrap().to_string()
    };
    assert_eq!(schema(&other), "i16");
}

#[test]
fn a_mirror_keeps_what_is_not_replicated() {
    let bonfire = bonfire();
    let (mut server, mut client, mut map) = (World::new(), World::new(), EntityMap::default());
    let entity = server.spawn((Team(1), Aim(1.0)));
    let mut deltas = DeltaCapture::of_replication();
    let options = SaveOptions::new();
    bonfire
        .apply_delta(&mut client, &deltas.changes(&bonfire, &server, &options).unwrap(), &mut map)
        .unwrap();
    let here = map.get(entity.into()).unwrap().into();
    client.insert(here, (Burning("drawn".into()), Score::default())).unwrap();
    server.remove_one::<Aim>(entity).unwrap();
    let whole = deltas.baseline(&bonfire, &server, &options).unwrap();
    bonfire.apply_delta(&mut client, &whole, &mut map).unwrap();
    assert!(client.get::<&Burning>(here).is_ok() && client.get::<&Aim>(here).is_err());
}

#[test]
fn marks_of_saves_and_of_replication_are_apart() {
    let mut bonfire = Bonfire::new().scope(SaveScope::Marked);
    bonfire.persist::<Team>().unwrap().replicate::<Team>().unwrap();
    let mut world = World::new();
    world.spawn((Team(1), Saved));
    world.spawn((Team(2), Replicated));
    world.spawn((Team(3), Saved, Replicated));
    world.spawn((Team(4),));
    let told = mirrored(&bonfire, &world);
    let mut teams: Vec<u8> = told.query::<&Team>().iter().map(|team| team.0).collect();
    teams.sort_unstable();
    assert_eq!(teams, [2, 3]);
    assert_eq!(bonfire.capture(&world, &SaveOptions::new()).unwrap().entity_count(), 2);
    // A relay passes on what it mirrors, under its own ids.
    let relayed = DeltaCapture::of_replication().with_mirrored();
    let delta = { relayed }.changes(&bonfire, &told, &SaveOptions::new()).unwrap();
    assert_eq!(delta.stats().spawned, 2);
    let echo = DeltaCapture::of_replication().changes(&bonfire, &told, &SaveOptions::new()).unwrap();
    assert_eq!(echo.stats().spawned, 0);
}

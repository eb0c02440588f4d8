//! Deltas into worlds of hecs: what broke once, or was never tried.

use bonfire_hecs::core::engine::EntityMap;
use bonfire_hecs::replication::Delta;
use bonfire_hecs::replication::{DeltaCapture, Mirrored};
use bonfire_hecs::{Bonfire, Persist, SaveOptions};
use hecs::{Entity, World};

#[derive(Persist, Clone, Debug, PartialEq)]
#[persist(key = "test.name")]
struct Name(String);

#[derive(Persist, Clone, Debug, PartialEq)]
#[persist(key = "test.follows")]
struct Follows(Option<Entity>);

#[derive(Persist, Clone, Debug, PartialEq)]
#[persist(key = "test.score")]
struct Score(u32);

struct Hidden;

fn bonfire() -> Bonfire {
    let mut bonfire = Bonfire::new();
    bonfire.persist::<Name>().unwrap();
    bonfire.persist::<Follows>().unwrap();
    bonfire.persist::<Score>().unwrap();
    bonfire.replicate_persisted().unwrap();
    bonfire
}

fn names(world: &World) -> Vec<String> {
    let mut names: Vec<String> =
        world.query::<(&Name, &Mirrored)>().iter().map(|(name, _)| name.0.clone()).collect();
    names.sort();
    names
}

/// Entities without [`Hidden`].
fn changes(deltas: &mut DeltaCapture, bonfire: &Bonfire, world: &World) -> Delta {
    let options = SaveOptions::new().matching::<hecs::Without<(), &Hidden>>();
    deltas.changes(bonfire, world, &options).unwrap()
}

#[test]
fn an_id_that_goes_and_comes_in_one_delta_is_another_entity() {
    let bonfire = bonfire();
    let (mut server, mut client, mut map) = (World::new(), World::new(), EntityMap::default());
    let mut deltas = DeltaCapture::of_replication();
    let ship = server.spawn((Name("a".into()), Score(1)));
    bonfire.apply_delta(&mut client, &changes(&mut deltas, &bonfire, &server), &mut map).unwrap();
    server.insert_one(ship, Hidden).unwrap();
    let gone = changes(&mut deltas, &bonfire, &server);
    server.remove_one::<Hidden>(ship).unwrap();
    server.remove_one::<Score>(ship).unwrap();
    let back = changes(&mut deltas, &bonfire, &server);
    let both = gone.compose(&back).unwrap();
    bonfire.apply_delta(&mut client, &both, &mut map).unwrap();
    assert_eq!(names(&client), ["a"]);
    assert_eq!(client.query::<&Score>().iter().count(), 0);
    server.insert_one(ship, Hidden).unwrap();
    let all = both.compose(&changes(&mut deltas, &bonfire, &server)).unwrap();
    bonfire.apply_delta(&mut client, &all, &mut map).unwrap();
    assert!(names(&client).is_empty() && map.iter().next().is_none());
}

#[test]
fn a_baseline_keeps_what_is_known_and_says_that_it_is_everything() {
    let bonfire = bonfire();
    let (mut server, mut client, mut map) = (World::new(), World::new(), EntityMap::default());
    let mut deltas = DeltaCapture::of_replication();
    let first = server.spawn((Name("a".into()), Score(1)));
    let applied =
        bonfire.apply_delta(&mut client, &changes(&mut deltas, &bonfire, &server), &mut map).unwrap();
    assert!(applied.is_whole);
    let here = map.get(first.into()).unwrap();
    let own = client.spawn((Name("mine".into()),));
    client.insert_one(here.into(), 7_u8).unwrap();
    server.spawn((Name("b".into()), Follows(Some(first))));
    server.remove_one::<Score>(first).unwrap();
    let whole = deltas.baseline(&bonfire, &server, &SaveOptions::new()).unwrap();
    assert!(bonfire.apply_delta(&mut client, &whole, &mut map).unwrap().is_whole);
    assert_eq!((names(&client), map.get(first.into())), (vec!["a".to_owned(), "b".into()], Some(here)));
    assert!(client.get::<&Score>(here.into()).is_err() && client.get::<&u8>(here.into()).is_ok());
    assert!(client.contains(own));
    let leader = client.query::<&Follows>().iter().map(|follows| follows.0).next();
    assert_eq!(leader, Some(Some(here.into())));
    server.despawn(first).unwrap();
    let delta = changes(&mut deltas, &bonfire, &server);
    assert!(!bonfire.apply_delta(&mut client, &delta, &mut map).unwrap().is_whole);
    assert_eq!(names(&client), ["b"]);
}

//! What deltas of Bevy worlds promise, one by one, with the smallest world that shows it.

mod common;

use bevy_bonfire::core::engine::{EntityMap, SentValues};
use bevy_bonfire::replication::{Delta, Granularity};
use bevy_bonfire::replication::{
    DeltaCapture, Mirrored, ReplicateExt, Replicated, UnseenChange, WorldDeltaExt,
};
use bevy_ecs::change_detection::DetectChangesMut;
use bevy_ecs::prelude::*;
use common::*;

fn replicated() -> World {
    let mut world = world();
    world
        .replicate::<Position>()
        .replicate::<Health>()
        .replicate::<Inventory>()
        .replicate::<Burning>()
        .replicate::<Team>()
        .replicate::<Enemy>()
        .replicate::<Hover>()
        .replicate::<Score>();
    world
}

fn at(x: f32) -> Position {
    Position { x, y: 0.0 }
}

/// A server, what it tells, and a mirror.
struct Pair {
    server: World,
    deltas: DeltaCapture,
    client: World,
    map: EntityMap,
}

impl Pair {
    fn new(deltas: DeltaCapture) -> Self {
        Self { server: replicated(), deltas, client: replicated(), map: EntityMap::default() }
    }
    fn tell(&mut self) -> Delta {
        self.deltas.changes(&mut self.server).unwrap()
    }
    fn apply(&mut self, delta: &Delta) {
        self.client.apply_delta(delta, &mut self.map).unwrap();
    }
    fn step(&mut self) -> Delta {
        let delta = self.tell();
        self.apply(&delta);
        delta
    }
    fn here(&self, remote: Entity) -> Entity {
        self.map.get(remote.into()).unwrap().into()
    }
}

/// By ticks and by comparison.
fn each_source(test: impl Fn(Pair)) {
    test(Pair::new(DeltaCapture::of_replication()));
    test(Pair::new(DeltaCapture::of_replication().exact()));
    test(Pair::new(DeltaCapture::of_replication().verified()));
}

#[test]
fn a_delta_begins_where_the_one_before_it_ended_and_has_the_same_tick_too() {
    each_source(|mut pair| {
        let ship = pair.server.spawn((at(1.0), Replicated)).id();
        let first = pair.step();
        // Right after the capture, in the same frame: part of the next one.
        pair.server.get_mut::<Position>(ship).unwrap().x = 2.0;
        let second = pair.step();
        let third = pair.step();
        assert_eq!((first.now(), second.since(), second.now(), third.since()), (1, 1, 2, 2));
        assert!(third.is_empty());
        assert_eq!(pair.client.get::<Position>(pair.here(ship)), Some(&at(2.0)));
    });
}

#[test]
fn what_came_and_went_is_absent_and_a_value_outlives_a_move() {
    each_source(|mut pair| {
        let ship = pair.server.spawn((at(1.0), Replicated)).id();
        pair.step();
        let brief = pair.server.spawn((at(9.0), Replicated)).id();
        pair.server.despawn(brief);
        pair.server.get_mut::<Position>(ship).unwrap().x = 3.0;
        pair.server.entity_mut(ship).insert(Enemy).insert(Burning("a".into()));
        let delta = pair.step();
        assert_eq!((delta.stats().spawned, delta.stats().despawned, delta.stats().changed), (0, 0, 1));
        let here = pair.here(ship);
        assert_eq!(pair.client.get::<Position>(here), Some(&at(3.0)));
        assert!(pair.client.get::<Enemy>(here).is_some() && pair.client.get::<Burning>(here).is_some());
    });
}

#[test]
fn a_rich_value_that_is_its_default_again_is_told_whatever_the_epsilon() {
    each_source(|mut pair| {
        let mut sent = SentValues::new(Granularity::Component).epsilon(f64::INFINITY);
        let bag = Inventory { items: vec!["lamp".into()], gold: Some(3) };
        let ship = pair.server.spawn((bag, at(1.0), Replicated)).id();
        let told = sent.filter(&pair.tell()).unwrap();
        pair.apply(&told);
        pair.server.get_mut::<Position>(ship).unwrap().x = 2.0;
        let told = sent.filter(&pair.tell()).unwrap();
        pair.apply(&told);
        *pair.server.get_mut::<Inventory>(ship).unwrap() = Inventory::default();
        pair.server.get_mut::<Position>(ship).unwrap().x = 1e30;
        let told = sent.filter(&pair.tell()).unwrap();
        pair.apply(&told);
        let here = pair.here(ship);
        assert_eq!(pair.client.get::<Inventory>(here), Some(&Inventory::default()));
        assert_eq!(pair.client.get::<Position>(here), Some(&at(2.0)), "held back");
        pair.server.entity_mut(ship).remove::<Position>();
        let told = sent.filter(&pair.tell()).unwrap();
        pair.apply(&told);
        assert_eq!(pair.client.get::<Position>(here), None, "structure is not");
    });
}

#[test]
fn values_alone_and_structure_alone() {
    each_source(|mut pair| {
        let ship = pair.server.spawn((at(1.0), Replicated)).id();
        let other = pair.server.spawn((at(1.0), Replicated)).id();
        pair.step();
        pair.server.get_mut::<Position>(ship).unwrap().x = 2.0;
        pair.server.entity_mut(ship).insert(Team(1));
        pair.server.despawn(other);
        let new = pair.server.spawn((at(5.0), Replicated)).id();
        let delta = pair.tell();
        pair.apply(&delta.values_only());
        let here = pair.here(ship);
        assert_eq!(pair.client.get::<Position>(here), Some(&at(2.0)));
        assert!(pair.client.get::<Team>(here).is_none() && pair.map.get(other.into()).is_some());
        assert!(pair.map.get(new.into()).is_none());
        pair.apply(&delta.structure_only().unwrap());
        assert_eq!(pair.client.get::<Team>(here), Some(&Team(1)));
        assert_eq!(pair.client.get::<Position>(pair.here(new)), Some(&at(5.0)));
        assert!(pair.map.get(other.into()).is_none());
    });
}

/// Skipped fields and transient components stay at home, whoever holds them.
#[test]
fn what_is_not_saved_is_not_told() {
    each_source(|mut pair| {
        let health = Health { current: 1, max: 2, flash: 77 };
        let ship = pair.server.spawn((health, Hover(5), Replicated)).id();
        pair.step();
        let here = pair.here(ship);
        assert_eq!(pair.client.get::<Health>(here), Some(&Health { current: 1, max: 2, flash: 0 }));
        assert_eq!(pair.client.get::<Hover>(here), None);
        pair.client.entity_mut(here).insert(Hover(6));
        pair.server.get_mut::<Health>(ship).unwrap().flash = 78;
        pair.server.get_mut::<Hover>(ship).unwrap().0 = 7;
        assert!(pair.step().stats().changed_values <= 1, "at most what is saved of it, again");
        assert_eq!(pair.client.get::<Health>(here).unwrap().max, 2);
        assert_eq!(pair.client.get::<Hover>(here), Some(&Hover(6)));
        pair.server.entity_mut(ship).remove::<Hover>();
        pair.step();
        let whole = pair.deltas.baseline(&mut pair.server).unwrap();
        pair.apply(&whole);
        assert_eq!(pair.client.get::<Hover>(here), Some(&Hover(6)), "the mirror's own");
    });
}

#[test]
fn what_is_written_past_change_detection_is_found_and_told() {
    let mut pair = Pair::new(DeltaCapture::of_replication().verified());
    let ship = pair.server.spawn((at(1.0), Burning("a".into()), Replicated)).id();
    pair.server.insert_resource(Score { points: 1, best: None });
    pair.step();
    pair.server.get_mut::<Position>(ship).unwrap().bypass_change_detection().x = 2.0;
    pair.server.get_mut::<Burning>(ship).unwrap().0.push('b');
    pair.server.resource_mut::<Score>().bypass_change_detection().points = 2;
    pair.step();
    let expected = [(Some(ship), "test.position"), (None, "test.score")]
        .map(|(entity, key)| UnseenChange { entity, key: key.into() });
    assert_eq!(pair.deltas.unseen(), expected);
    assert_eq!(pair.client.get::<Position>(pair.here(ship)), Some(&at(2.0)));
    assert_eq!(pair.client.resource::<Score>().points, 2);
    pair.server.get_mut::<Position>(ship).unwrap().x = 3.0;
    pair.step();
    assert!(pair.deltas.unseen().is_empty());
}

#[test]
fn what_is_applied_is_not_told_again() {
    each_source(|mut pair| {
        let mut own = DeltaCapture::of_replication();
        own.changes(&mut pair.client).unwrap();
        let ship = pair.server.spawn((at(1.0), Replicated)).id();
        pair.server.insert_resource(Score { points: 1, best: None });
        pair.step();
        // A mark on a mirrored entity changes nothing about whose it is.
        let here = pair.here(ship);
        pair.client.entity_mut(here).insert(Replicated);
        assert!(own.changes(&mut pair.client).unwrap().is_empty());
        pair.server.get_mut::<Position>(ship).unwrap().x = 2.0;
        pair.server.resource_mut::<Score>().points = 2;
        pair.server.entity_mut(ship).insert(Team(1));
        pair.step();
        assert!(own.changes(&mut pair.client).unwrap().is_empty());
        assert_eq!(own.baseline(&mut pair.client).unwrap().spawned().count(), 0);
        pair.server.despawn(ship);
        pair.step();
        assert!(own.changes(&mut pair.client).unwrap().is_empty());
        assert_eq!(pair.client.query::<&Mirrored>().iter(&pair.client).count(), 0);
    });
}

#[test]
fn the_size_is_that_of_the_change_and_not_of_the_world() {
    let size = |entities: usize, changed: usize| {
        let mut pair = Pair::new(DeltaCapture::of_replication());
        let all: Vec<Entity> = (0..entities).map(|_| pair.server.spawn((at(1.0), Replicated)).id()).collect();
        pair.tell();
        all[..changed].iter().for_each(|ship| pair.server.get_mut::<Position>(*ship).unwrap().x = 2.0);
        pair.tell().for_mirrors().content().unwrap().len()
    };
    assert_eq!(size(100, 10), size(5000, 10));
    assert!(size(100, 1) < size(100, 2) && size(100, 2) < size(100, 40));
}
